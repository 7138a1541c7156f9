//! Random programs, random opts, every device against the evaluator.
//!
//! Two kinds. *Exact* programs keep every float a small whole number, so that each operation of each type is exact and
//! results must be equal to the bit, whatever is fused: integers of all widths wrap, divide by zero and shift too far.
//! *Smooth* programs have any values and no jumps; how far results may be off follows from the type and the length.

use crate::support::{DEVICES, Random, evaluate, gpu, is_long, on, other_cpus, tensor, values};
use frit::engine::with_random_opts;
use frit::{DType, Index, Tensor, keepdim};
use frit_reference::Array;
use frit_uop::eval::{self, Value};
use frit_uop::{UOp, text};

/// Elements a value may have, so that the evaluator is quick.
const LARGEST: usize = 600;

const INTS: [DType; 8] =
    [DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16, DType::U32, DType::U64];
const FLOATS: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Exact,
    Smooth,
}

/// A program under construction: values to build on.
struct Builder {
    kind: Kind,
    random: Random,
    pool: Vec<Tensor>,
}

impl Builder {
    fn dtype(&mut self) -> DType {
        match (self.kind, self.random.below(10)) {
            (Kind::Smooth, 0..8) => DType::F32,
            (Kind::Smooth, 8) => DType::F64,
            (Kind::Smooth, _) => *self.random.pick(&FLOATS),
            (_, 0..4) => *self.random.pick(&FLOATS),
            (_, 4) => DType::Bool,
            _ => *self.random.pick(&INTS),
        }
    }

    /// Memory of a shape.
    fn leaf_of(&mut self, shape: &[usize], dtype: DType) -> Tensor {
        let n = shape.iter().product();
        let wide = dtype.is_int() && self.random.one_in(3);
        let mut value = || match () {
            _ if self.kind == Kind::Smooth => self.random.fraction() * 2.0,
            _ if wide => self.random.bits() as i64 as f64,
            _ if dtype.is_unsigned() || dtype == DType::Bool => self.random.within(0, 9) as f64,
            _ => self.random.within(-9, 9) as f64,
        };
        let data: Vec<f64> = (0..n).map(|_| value()).collect();
        tensor(&Array::new(shape, data), dtype)
    }

    fn shape(&mut self) -> Vec<usize> {
        (0..self.random.below(4)).map(|_| 1 + self.random.below(6)).collect()
    }

    fn any(&mut self) -> Tensor {
        // the last one often, so that programs get deep
        let i = if self.random.one_in(2) { self.pool.len() - 1 } else { self.random.below(self.pool.len()) };
        self.pool[i].clone()
    }

    /// Something that broadcasts to the shape of `x`, of the same type.
    fn partner(&mut self, x: &Tensor) -> Tensor {
        let (dims, dtype) = (x.dims().unwrap(), x.dtype());
        match self.random.below(5) {
            0 if !dims.is_empty() => x.flip(self.random.below(dims.len())),
            1 if !dims.is_empty() => self.extremum(x, true),
            2 => {
                let same: Vec<Tensor> = self
                    .pool
                    .iter()
                    .filter(|t| t.dtype() == dtype && t.dims().is_ok_and(|d| d == dims))
                    .cloned()
                    .collect();
                self.random.pick(&same).clone()
            }
            _ => {
                let cut = self.random.below(dims.len() + 1);
                let shape: Vec<usize> =
                    dims[cut..].iter().map(|&d| if self.random.one_in(3) { 1 } else { d }).collect();
                self.leaf_of(&shape, dtype)
            }
        }
    }

    /// Whole numbers stay small, so that they stay exact.
    fn tame(&self, x: Tensor) -> Tensor {
        match (self.kind, x.dtype().is_float()) {
            (Kind::Exact, true) => x.clamp(-9.0, 9.0),
            (Kind::Smooth, true) => x.clamp(-3.0, 3.0),
            _ => x,
        }
    }

    fn step(&mut self) -> Option<Tensor> {
        let x = self.any();
        let out = match self.random.below(10) {
            0..3 => self.elementwise(&x),
            3 => self.convert(&x),
            4..7 => self.movement(&x)?,
            7 => self.reduction(&x),
            8 => self.product(&x)?,
            _ => self.by_index(&x)?,
        };
        let out = if self.random.one_in(12) { out.contiguous() } else { out };
        let n = out.numel().unwrap_or_else(|e| panic!("a legal step failed: {e}"));
        ((1..=LARGEST).contains(&n)).then_some(out)
    }

    fn elementwise(&mut self, x: &Tensor) -> Tensor {
        let y = self.partner(x);
        let (float, bool) = (x.dtype().is_float(), x.dtype() == DType::Bool);
        let r = self.random.below(12);
        if bool {
            return match r {
                0..3 => x.logical_and(&y),
                3..6 => x.logical_or(&y),
                6..9 => x.logical_xor(&y),
                _ => x.logical_not(),
            };
        }
        if self.kind == Kind::Smooth {
            let out = match r {
                0 => x + &y,
                1 => x - &y,
                2 => x * &y,
                3 => x / (y.abs() + 1.0),
                4 => x.maximum(&y),
                5 => x.exp(),
                6 => x.tanh(),
                7 => x.sigmoid(),
                8 => (x.abs() + 0.5).sqrt(),
                9 => (x.square() + 0.5).log(),
                10 => x.sin(),
                _ => x.gelu(),
            };
            return self.tame(out);
        }
        let out = match r {
            0 => x + &y,
            1 => x - &y,
            2 => x * &y,
            3 => x.maximum(&y),
            4 => x.minimum(&y),
            5 => return self.compare(x, &y),
            6 => {
                let z = self.partner(x);
                let hit = self.compare(x, &y);
                hit.where_(x, &z)
            }
            7 if float => x.relu(),
            8 if float => (x * 0.5).floor(),
            9 if float => -x,
            10 if float => x.abs(),
            7 => x.floor_div(&y),
            8 => x.modulo(&y),
            9 => x.bitwise_xor(&y),
            10 => x.lshift(&y),
            11 if !float => x.rshift(&y),
            _ => x.square(),
        };
        self.tame(out)
    }

    fn compare(&mut self, x: &Tensor, y: &Tensor) -> Tensor {
        match self.random.below(5) {
            0 => x.lt(y),
            1 => x.ge(y),
            2 => x.eq(y),
            3 => x.ne(y),
            _ => x.le(y),
        }
    }

    fn convert(&mut self, x: &Tensor) -> Tensor {
        let to = self.dtype();
        // a large integer rounds to a float in one step or in two: not to be tested here
        let x = if x.dtype().is_int() && to.is_float() { x.modulo(8) } else { x.clone() };
        self.tame(x.cast(to))
    }

    fn movement(&mut self, x: &Tensor) -> Option<Tensor> {
        let dims = x.dims().ok()?;
        let rank = dims.len();
        if rank == 0 {
            return Some(x.expand([1 + self.random.below(5)]));
        }
        let axis = self.random.below(rank);
        let n = dims[axis];
        Some(match self.random.below(9) {
            0 => {
                let mut order: Vec<usize> = (0..rank).collect();
                (1..rank).for_each(|i| order.swap(i, self.random.below(i + 1)));
                x.permute(order)
            }
            1 => x.flip(axis),
            2 => {
                let around: Vec<(isize, isize)> = (0..rank)
                    .map(|_| (self.random.below(3) as isize, self.random.below(3) as isize))
                    .collect();
                match x.dtype() {
                    d if d.is_float() => x.pad(&around, self.random.within(-2, 2) as f64),
                    DType::Bool => x.pad(&around, self.random.one_in(2)),
                    _ => x.pad(&around, self.random.within(0, 2)),
                }
            }
            3 => {
                let keep: Vec<(usize, usize)> = dims
                    .iter()
                    .map(|&d| {
                        let start = self.random.below(d);
                        (start, start + 1 + self.random.below(d - start))
                    })
                    .collect();
                x.shrink(&keep)
            }
            4 => {
                let step = *self.random.pick(&[2, -1, -2, 3]);
                let mut idx = vec![Index::from(..); axis];
                idx.push(Index::Slice { start: None, end: None, step });
                x.at(idx)
            }
            5 => {
                // other factors of the same number
                let total: usize = dims.iter().product();
                let factors: Vec<usize> = (1..=total).filter(|f| total.is_multiple_of(*f)).collect();
                let a = *self.random.pick(&factors);
                let rest: Vec<usize> = (1..=total / a).filter(|f| (total / a).is_multiple_of(*f)).collect();
                let b = *self.random.pick(&rest);
                x.reshape([a, b, total / a / b])
            }
            6 => {
                let y = self.partner(x);
                Tensor::cat(&[x.clone(), y.expand_as(x)], axis as isize)
            }
            7 => x.roll(self.random.within(-3, 3) as isize, axis as isize),
            _ if n == 1 => {
                let mut to = dims.clone();
                to[axis] = 1 + self.random.below(5);
                x.expand(to)
            }
            _ => x.unsqueeze(axis as isize),
        })
    }

    fn extremum(&mut self, x: &Tensor, keep: bool) -> Tensor {
        let axis = self.random.below(x.rank());
        let axes = if keep { keepdim(axis) } else { axis.into() };
        if self.random.one_in(2) { x.max(axes) } else { x.min(axes) }
    }

    fn reduction(&mut self, x: &Tensor) -> Tensor {
        if x.rank() == 0 {
            return x.clone();
        }
        let (axis, dtype) = (self.random.below(x.rank()), x.dtype());
        let keep = self.random.one_in(2);
        let axes = if keep { keepdim(axis) } else { axis.into() };
        let r = self.random.below(7);
        let out = match r {
            0 | 1 => x.sum(axes),
            2 => self.extremum(x, keep),
            3 => x.cumsum(axis as isize),
            4 if self.kind == Kind::Smooth => x.softmax(axis as isize),
            5 if self.kind == Kind::Smooth => x.mean(axes),
            6 if self.kind == Kind::Smooth => x.logsumexp(axes),
            4 if dtype == DType::Bool => x.any(axes),
            5 if dtype == DType::Bool => x.all(axes),
            4 => x.cummax(axis as isize).0,
            5 => x.argmax(axis as isize),
            _ => x.prod(axes),
        };
        // a product of small numbers is soon no small number
        let out = if r == 6 && dtype.is_float() && self.kind == Kind::Exact { x.max(axis) } else { out };
        self.tame(out)
    }

    fn product(&mut self, x: &Tensor) -> Option<Tensor> {
        let dims = x.dims().ok()?;
        let k = *dims.last()?;
        let n = 1 + self.random.below(5);
        let dtype = if x.dtype() == DType::Bool { DType::I32 } else { x.dtype() };
        let y = self.leaf_of(&[k, n], dtype);
        let x = x.cast(dtype);
        Some(self.tame(x.matmul(&y)))
    }

    fn by_index(&mut self, x: &Tensor) -> Option<Tensor> {
        let dims = x.dims().ok()?;
        let (&rows, _) = dims.split_first()?;
        let shape = self.shape();
        let idx = self.leaf_of(&shape, DType::I32).modulo(rows as i64);
        Some(match self.random.below(4) {
            0 => {
                let axis = self.random.below(dims.len());
                let idx = self.leaf_of(&dims, DType::I32).modulo(dims[axis] as i64);
                x.gather(axis as isize, &idx)
            }
            1 if x.dtype() != DType::Bool => {
                let axis = self.random.below(dims.len());
                let idx = self.leaf_of(&dims, DType::I32).modulo(dims[axis] as i64);
                let y = self.leaf_of(&dims, x.dtype());
                self.tame(x.scatter_add(axis as isize, &idx, &y))
            }
            2 => x.at(idx),
            _ => x.embedding(&idx),
        })
    }
}

/// A program's results, not computed yet.
struct Program {
    seed: u64,
    kind: Kind,
    outputs: Vec<Tensor>,
    nodes: Vec<UOp>,
}

fn program(seed: u64, kind: Kind) -> Program {
    let mut b = Builder { kind, random: Random::new(seed), pool: vec![] };
    for _ in 0..1 + b.random.below(3) {
        let (shape, dtype) = (b.shape(), b.dtype());
        let leaf = b.leaf_of(&shape, dtype);
        b.pool.push(leaf);
    }
    let steps = if kind == Kind::Smooth { 4 } else { 8 };
    for _ in 0..2 + b.random.below(steps) {
        if let Some(x) = b.step() {
            b.pool.push(x);
        }
    }
    let mut outputs = vec![b.pool[b.pool.len() - 1].clone()];
    for _ in 0..b.random.below(3) {
        let more = b.any();
        outputs.push(more);
    }
    let nodes = outputs.iter().map(|t| t.uop().unwrap()).collect();
    Program { seed, kind, outputs, nodes }
}

/// How far apart two values of a type may be.
fn near(got: Value, want: Value, dtype: DType, kind: Kind) -> bool {
    let (Value::Float(got), Value::Float(want)) = (got, want) else { return got == want };
    if kind == Kind::Exact || got == want || (got.is_nan() && want.is_nan()) {
        return got == want || (got.is_nan() && want.is_nan());
    }
    // the least of the types on the way is not known, so the least there is, where the result is not wider
    let eps = match dtype {
        DType::BF16 => 1.0 / 128.0,
        DType::F16 => 1.0 / 1024.0,
        DType::F64 => 1e-12,
        _ => f64::from(f32::EPSILON),
    };
    // a few dozen roundings, each as large as the values are (at most 3) and grown by slopes of at most exp(3)
    (got - want).abs() <= 2000.0 * eps * want.abs().max(1.0)
}

/// The first element that is wrong, in words.
fn difference(p: &Program, node: &UOp, got: &Tensor, want: &eval::Array<Value>) -> Option<String> {
    let got = match values(got) {
        Ok(v) => v,
        Err(e) => return Some(e.to_string()),
    };
    // a wide result may come from narrow values
    let small = node.toposort().iter().map(|n| n.dtype).find(|d| d.is_small_float());
    let dtype = match (p.kind, small, node.dtype) {
        (Kind::Smooth, Some(small), _) => small,
        (Kind::Smooth, None, DType::F64) => DType::F32,
        (_, _, dtype) => dtype,
    };
    let i = (0..got.len()).find(|&i| !near(got[i], want.values[i], dtype, p.kind))?;
    Some(format!("element {i} is {:?}, the evaluator has {:?}", got[i], want.values[i]))
}

/// What is wrong with a program whose outputs were asked to be computed.
fn fault(p: &Program) -> Option<String> {
    let want = evaluate(&p.nodes).unwrap_or_else(|e| panic!("seed {}: {e}", p.seed));
    let all = p.outputs.iter().zip(&p.nodes).zip(&want);
    all.filter_map(|((t, n), want)| difference(p, n, t, want)).next()
}

/// The smallest part of a program that is wrong by itself, in words.
fn smallest(seed: u64, kind: Kind) -> Option<String> {
    let p = program(seed, kind);
    for n in frit_uop::graph::toposort(&p.nodes) {
        // values that differ by a rounding may compare differently
        let may_differ = kind == Kind::Smooth && n.dtype == DType::Bool;
        let is_value =
            !matches!(n.dtype, DType::Void | DType::Index) && n.try_shape().is_some() && !may_differ;
        let Some(want) = is_value.then(|| evaluate(std::slice::from_ref(&n)).ok()).flatten() else {
            continue;
        };
        // the copy is realised and the node is not, so that later ones still compute it themselves
        let alone = Tensor::from_uop(n.clone()).contiguous();
        if let Some(d) = difference(&p, &n, &alone, &want[0]) {
            return Some(format!("by itself, {d}:\n{}", text::print(&n)));
        }
    }
    None
}

/// Compute programs together; what is wrong with that one of them.
fn together(seeds: &[u64], kind: Kind, suspect: u64) -> Option<String> {
    let programs: Vec<Program> = seeds.iter().map(|&s| program(s, kind)).collect();
    let all: Vec<&Tensor> = programs.iter().flat_map(|p| &p.outputs).collect();
    let _ = Tensor::realize_all(&all);
    fault(programs.iter().find(|p| p.seed == suspect)?)
}

/// Why a program is wrong: by itself, or with as few others as need be.
fn explain(seeds: &[u64], kind: Kind, suspect: u64) -> String {
    if let Some(text) = smallest(suspect, kind) {
        return text;
    }
    let mut seeds = seeds.to_vec();
    let mut at = 0;
    while at < seeds.len() {
        let fewer: Vec<u64> = seeds.iter().copied().filter(|&s| s != seeds[at]).collect();
        match seeds[at] != suspect && together(&fewer, kind, suspect).is_some() {
            true => seeds = fewer,
            false => at += 1,
        }
    }
    let nodes: Vec<UOp> = seeds.iter().flat_map(|&s| program(s, kind).nodes).collect();
    format!("together, seeds {seeds:?}:\n{}", text::print(&UOp::sink(nodes)))
}

/// Programs realised together, so that a compiler is called few times.
const GROUP: u64 = 32;

fn run(device: &str, seeds: std::ops::Range<u64>, kind: Kind) {
    on(device, || {
        let (mut wrong, mut texts) = (0, vec![]);
        for first in seeds.clone().step_by(GROUP as usize) {
            let group: Vec<u64> = (first..seeds.end.min(first + GROUP)).collect();
            let mut check = || {
                let programs: Vec<Program> = group.iter().map(|&s| program(s, kind)).collect();
                let all: Vec<&Tensor> = programs.iter().flat_map(|p| &p.outputs).collect();
                let error = Tensor::realize_all(&all).err();
                let faults: Vec<(u64, String)> =
                    programs.iter().filter_map(|p| Some((p.seed, fault(p)?))).collect();
                wrong += faults.len() + (error.is_some() && faults.is_empty()) as usize;
                for (seed, d) in faults {
                    if texts.len() < 5 {
                        texts.push(format!("seed {seed} {kind:?}: {d}; {}", explain(&group, kind, seed)));
                    }
                }
                texts.extend(error.map(|e| format!("seeds {first}.. {kind:?}: {e}")));
            };
            // every other group with the opts of the heuristic
            match (first / GROUP) % 2 {
                0 => check(),
                _ => with_random_opts(first, check),
            }
        }
        let n = seeds.end - seeds.start;
        assert!(wrong == 0, "{wrong} of {n} programs differ on {device}:\n{}", texts.join("\n"));
    });
}

/// Which programs. `FRIT_LONG=1` runs many more, `SUITE_SEED=n` the group of that seed.
fn seeds(n: u64) -> std::ops::Range<u64> {
    let first = std::env::var("SUITE_SEED").ok().and_then(|s| s.parse().ok());
    match first {
        Some(first) => first..first + GROUP,
        None => 0..if is_long() { 20 * n } else { n },
    }
}

#[test]
fn exact_programs_on_the_interpreter() {
    run(DEVICES[0], seeds(3200), Kind::Exact);
}

#[test]
fn exact_programs_on_the_interpreter_as_a_gpu() {
    run(DEVICES[1], seeds(3200), Kind::Exact);
}

#[test]
fn exact_programs_on_the_cpu() {
    run(DEVICES[2], seeds(1600), Kind::Exact);
}

#[test]
fn exact_programs_on_the_cpu_in_every_other_way() {
    other_cpus().for_each(|d| run(d, seeds(320), Kind::Exact));
}

#[test]
fn exact_programs_on_a_gpu() {
    run(gpu(), seeds(320), Kind::Exact);
}

#[test]
fn smooth_programs_on_a_gpu() {
    run(gpu(), seeds(192), Kind::Smooth);
}

#[test]
fn smooth_programs_on_the_interpreter() {
    run(DEVICES[0], seeds(1600), Kind::Smooth);
}

#[test]
fn smooth_programs_on_the_interpreter_as_a_gpu() {
    run(DEVICES[1], seeds(1600), Kind::Smooth);
}

#[test]
fn smooth_programs_on_the_cpu() {
    run(DEVICES[2], seeds(960), Kind::Smooth);
}

#[test]
fn smooth_programs_on_the_cpu_in_every_other_way() {
    other_cpus().for_each(|d| run(d, seeds(192), Kind::Smooth));
}
