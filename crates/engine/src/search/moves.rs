//! From one list of opts to others: one more opt, one less, or another size of one.

use frit_abi::{DType, Target};
use frit_codegen::{Opt, Order, Plan};
use frit_uop::{AxisKind, Linear, Step, UOp};

/// Longer lists for each state in a round; of more, every n-th, beginning elsewhere in each round.
const LONGER: usize = 64;
/// Sizes that a split is tried with instead of its own.
const SIZES: [usize; 15] = [2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 24, 28, 32, 64];
/// Vectors side by side in one loop body, at most, and for each register that holds one.
const BODY: usize = 512;
const SPILLED: usize = 2;

/// Lists that differ from this one by a step, legal for the kernel that `start` is the untouched plan of, and of sizes
/// that make sense on its target.
pub fn moves(start: &Plan, opts: &[Opt], round: usize) -> Vec<Vec<Opt>> {
    // a chain of products has blocks of other sizes, and without any takes far too long
    if let [Opt::TileAndFuse { rows }] = opts {
        let sizes = [rows / 2, rows * 3 / 4, rows * 3 / 2, rows * 2].into_iter().filter(|n| *n > 0);
        return sizes.map(|rows| vec![Opt::TileAndFuse { rows }]).collect();
    }
    if let [Opt::OnlineSoftmax { warps, keys } | Opt::FuseProducts { warps, keys }] = *opts {
        let sizes = [(warps / 2, keys), (warps * 2, keys), (warps, keys / 2), (warps, keys * 2)];
        let of = |(warps, keys)| match opts[0] {
            Opt::OnlineSoftmax { .. } => Opt::OnlineSoftmax { warps, keys },
            _ => Opt::FuseProducts { warps, keys },
        };
        return sizes.into_iter().filter(|(w, k)| *w > 0 && *k > 0).map(|s| vec![of(s)]).collect();
    }
    let mut all = changed(opts);
    all.extend(longer(start, opts, round));
    all.retain(|list| apply(start, list).is_some_and(|p| is_sane(&p)));
    all
}

fn apply<'a>(start: &Plan<'a>, opts: &[Opt]) -> Option<Plan<'a>> {
    let mut plan = start.clone();
    opts.iter().all(|o| plan.apply(o).is_ok()).then_some(plan)
}

/// One opt has another size or place, or is left out.
fn changed(opts: &[Opt]) -> Vec<Vec<Opt>> {
    let mut all = vec![];
    for (i, opt) in opts.iter().enumerate() {
        let with = |o: &[Opt]| [&opts[..i], o, &opts[i + 1..]].concat();
        match opt {
            Opt::Split { axis, n, kind, inner } => {
                let others = SIZES.into_iter().filter(|m| m != n && *m * 3 >= *n && *m <= *n * 3);
                for m in others {
                    let split = Opt::Split { axis: *axis, n: m, kind: *kind, inner: *inner };
                    // what does not divide its extent needs that rounded up
                    let pad = Opt::Pad { axis: *axis, n: m };
                    all.push(with(&[pad, split.clone()]));
                    all.push(with(&[split]));
                }
            }
            Opt::Stage { operand, at, space, order, buffers } => {
                let (operand, space) = (*operand, *space);
                let stage = |at, order| Opt::Stage { operand, at, space, order, buffers: *buffers };
                let buffers = if *buffers == 1 { 2 } else { 1 };
                all.push(with(&[Opt::Stage { operand, at: *at, space, order: *order, buffers }]));
                let places = [at.checked_sub(1), Some(at + 1)].into_iter().flatten();
                all.extend(places.map(|to| with(&[stage(to, *order)])));
                let orders = [Order::LoopOrder, Order::RowMajor].into_iter().filter(|o| o != order);
                all.extend(orders.map(|other| with(&[stage(*at, other)])));
            }
            _ => {}
        }
        all.push(with(&[]));
    }
    all
}

/// One more opt at the end, or before the stages, which come last.
fn longer(start: &Plan, opts: &[Opt], round: usize) -> Vec<Vec<Opt>> {
    let stages = opts.iter().rev().take_while(|o| matches!(o, Opt::Stage { .. })).count();
    let (first, last) = opts.split_at(opts.len() - stages);
    let mut all: Vec<Vec<Opt>> = vec![];
    for (head, tail) in [(opts, &[][..]), (first, last)].into_iter().take(1 + (stages > 0) as usize) {
        let Some(plan) = apply(start, head) else { continue };
        let with = |o: Opt| head.iter().cloned().chain([o]).chain(tail.iter().cloned()).collect();
        all.extend(plan.legal().into_iter().map(with));
    }
    // spread over the list, which is ordered by axis and size
    let step = all.len().div_ceil(LONGER).max(1);
    all.into_iter().skip(round % step).step_by(step).collect()
}

/// Whether what is to be kept side by side is not far beyond what registers hold, and the body of a loop not too long:
/// such kernels take long to compile, and are slow.
fn is_sane(plan: &Plan) -> bool {
    let lanes = plan.target.lanes(DType::F32).max(1);
    let copies = |n: &UOp, of: fn(AxisKind) -> bool| -> usize {
        let mine = plan.axes.iter().filter(|a| of(a.kind) && n.ranges.contains(&a.origin));
        mine.filter_map(|a| a.size()).product::<usize>() / lanes
    };
    let most = (SPILLED * plan.target.registers).min(lane_registers(plan));
    plan.ast
        .toposort()
        .iter()
        .all(|n| copies(n, AxisKind::is_side_by_side) <= most && copies(n, AxisKind::is_in_registers) <= BODY)
}

/// Registers that each lane of a block can have at most, where there are blocks: those of a processor are shared out.
fn lane_registers(plan: &Plan) -> usize {
    let Some(grid) = &plan.target.grid else { return usize::MAX };
    let is_lane = |k: AxisKind| matches!(k, AxisKind::Local | AxisKind::Warp | AxisKind::GroupReduce);
    let lanes: usize = plan.axes.iter().filter(|a| is_lane(a.kind)).filter_map(|a| a.size()).product();
    let share = grid.processors.registers as usize / lanes.max(1);
    share.min(grid.processors.lane_registers as usize)
}

/// How much a program does, in steps on vectors that its loops go through: what to expect before it is run.
pub fn work(linear: &Linear, target: &Target) -> f64 {
    let (mut around, mut total) = (vec![1.0], 0.0);
    for step in &linear.steps {
        let times = around.last().copied().unwrap_or(1.0);
        match step {
            Step::Open(r) => around.push(times * r.src[0].bounds.1.max(1) as f64),
            Step::Close(_) => _ = around.pop(),
            Step::Prefetch(..) => total += times,
            Step::Do(n) => {
                let bytes = n.lanes() * n.dtype.size();
                total += times * bytes.div_ceil(target.vector_bytes.max(1)).max(1) as f64;
            }
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use frit_uop::{Alu, Op};

    /// A product of two square matrices.
    fn product(n: i64) -> UOp {
        let dims = |d: [i64; 3]| d.map(UOp::index);
        let load = |shape: [i64; 3]| {
            let bytes = vec![0; (n * n * 4) as usize];
            let m = crate::from_bytes("INTERP", DType::F32, (n * n) as usize, &bytes).unwrap();
            m.reshape(&dims(shape)).expand(&dims([n, n, n]))
        };
        let c = (load([n, 1, n]) * load([1, n, n])).reduce_axes(Alu::Add, &[2]);
        crate::measure::schedule(&[c.reshape(&dims([n, n, 1])[..2])]).unwrap().kernels[0].ast.clone()
    }

    fn upcast(axis: usize, n: usize) -> Opt {
        Opt::Split { axis, n, kind: AxisKind::Upcast, inner: true }
    }
    fn vector(axis: usize) -> Opt {
        Opt::Split { axis, n: 16, kind: AxisKind::Vector, inner: true }
    }

    #[test]
    fn what_is_far_beyond_registers_is_not_tried() {
        let target = Target::native(frit_abi::target::Isa::Avx512, 2, [32 << 10, 1 << 20, 8 << 20]);
        let ast = product(256);
        let start = frit_codegen::plan(&ast, &target, &[]).unwrap();
        // a tile of 28 vectors fits in 32 registers; one of 128 does not, by far
        let tile = |n: usize| apply(&start, &[vector(1), upcast(1, 4), upcast(0, n)]);
        assert!(is_sane(&tile(8).unwrap()));
        assert!(!is_sane(&tile(32).unwrap()));
        let near = moves(&start, &[vector(1), upcast(1, 4), upcast(0, 4)], 0);
        assert!(near.contains(&vec![vector(1), upcast(1, 4), upcast(0, 8)]), "another size");
        assert!(near.contains(&vec![vector(1), upcast(0, 4)]), "one less");
        assert!(near.iter().any(|l| l.len() == 4), "one more");
        assert!(near.iter().all(|l| is_sane(&apply(&start, l).unwrap())));
    }

    #[test]
    fn a_search_starts_from_several_tiles() {
        let target = Target::native(frit_abi::target::Isa::Avx512, 2, [32 << 10, 1 << 20, 8 << 20]);
        let ast = product(256);
        let start = frit_codegen::plan(&ast, &target, &[]).unwrap();
        let lists = frit_codegen::alternatives(&start, 24);
        assert_eq!(lists.len(), 24);
        assert!(lists.iter().all(|l| apply(&start, l).is_some_and(|p| is_sane(&p))));
        let uneven = |l: &&Vec<Opt>| l.iter().any(|o| matches!(o, Opt::Pad { .. }));
        assert!(lists.iter().any(|l| uneven(&l)), "tiles that do not divide are worth a try too");
    }

    #[test]
    fn vectors_are_less_work_than_elements() {
        let target = Target::native(frit_abi::target::Isa::Avx512, 2, [32 << 10, 1 << 20, 8 << 20]);
        let ast = product(64);
        assert!(ast.any(|n| n.op == Op::Reduce));
        let of = |opts: &[Opt]| {
            let lowered = frit_codegen::lower(&ast, &target, frit_codegen::Opts::List(opts)).unwrap();
            work(&lowered.programs[0], &target)
        };
        assert!(4.0 * of(&[vector(0)]) < of(&[]), "{} {}", of(&[vector(0)]), of(&[]));
    }
}
