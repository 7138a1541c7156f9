//! Specs: which nodes are legal at which level, as a table. A pass says which spec holds after it; tests and
//! `FRIT_SPEC=1` check it. Rows are total: they look at sources by slice patterns, so that a node with any sources, from a
//! file say, is refused and never a panic.

use crate::arg::{Arg, Space};
use crate::node::UOp;
use crate::op::{Op, OpSet};
use frit_abi::DType;

/// A level of the language.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Spec {
    /// What people build: buffers, movement, axes.
    Tensor = 1,
    /// All kernels over ranges, which meet in memory.
    Staged = 16,
    /// One kernel over ranges.
    Kernel = 2,
    /// Upcast and unroll ranges have become shapes.
    Expanded = 4,
    /// What a renderer sees: decided widths, explicit accumulators.
    Program = 8,
}

/// A node that has no place at its level.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpecError {
    /// The level.
    pub spec: Spec,
    /// The node and what is wrong with it.
    pub message: String,
}

impl std::fmt::Display for SpecError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "not legal in the {:?} spec: {}", self.spec, self.message)
    }
}
impl std::error::Error for SpecError {}

/// One row: these ops, at these levels, if the check holds. An op with several rows must satisfy one of them.
struct Row {
    ops: OpSet,
    levels: u8,
    check: fn(&UOp) -> bool,
}

const fn row(ops: &'static [Op], levels: u8, check: fn(&UOp) -> bool) -> Row {
    class(OpSet::of(ops), levels, check)
}
const fn class(ops: OpSet, levels: u8, check: fn(&UOp) -> bool) -> Row {
    Row { ops, levels, check }
}

const T: u8 = Spec::Tensor as u8;
const S: u8 = Spec::Staged as u8;
const K: u8 = Spec::Kernel as u8;
const E: u8 = Spec::Expanded as u8;
const P: u8 = Spec::Program as u8;
const ALL: u8 = T | S | K | E | P;

#[rustfmt::skip]
const TABLE: &[Row] = {
    use Op::*;
    &[
        // leaves
        row(&[Const],                    ALL,       |n| matches!((&n.src[..], &n.arg), ([], Arg::Scalar(_)))),
        row(&[Invalid],              S | K | E,     |n| n.src.is_empty()),
        row(&[Variable],                 ALL,       |n| matches!((&n.src[..], &n.arg), ([], Arg::Var { .. }))),
        row(&[Bind],                     T,         |n| matches!(&n.src[..], [v, c] if v.op == Variable && c.op == Const)),
        row(&[Buffer],                   T,         |n| matches!((&n.src[..], &n.arg), ([], Arg::Buffer(_)))),
        row(&[Param],                    ALL,       |n| matches!((&n.src[..], &n.arg), ([], Arg::Param { .. }))),
        row(&[Define],                   S,         |n| matches!((&n.src[..], &n.arg), ([], Arg::Define { space: Space::Global, .. }))),
        row(&[Define],                   E | P,     |n| matches!((&n.src[..], &n.arg), ([], Arg::Define { space: Space::Local | Space::Reg, .. }))),
        row(&[Range],                S | K | E | P, |n| matches!((&n.src[..], &n.arg), ([extent], Arg::Range(_)) if is_index(extent))),
        row(&[Special],                  K | E | P, |n| matches!((&n.src[..], &n.arg), ([_], Arg::Name(_)))),
        // tensor level
        row(&[Iota],                     T,         |n| matches!(&n.src[..], [n] if is_index(n))),
        row(&[Reshape, Expand, Shrink, Pad], T,     |n| matches!(&n.src[..], [_, dims @ ..] if dims.iter().all(is_index)) && keeps_dtype(n) && has_shape(n)),
        row(&[Permute, Flip],            T,         |n| matches!((&n.src[..], &n.arg), ([_], Arg::Axes(_))) && keeps_dtype(n) && has_shape(n)),
        row(&[ReduceAxis, ScanAxis],     T,         |n| matches!((&n.src[..], &n.arg), ([_], Arg::ReduceAxes(..))) && keeps_dtype(n) && has_shape(n)),
        row(&[Gather],                   T,         |n| matches!(&n.src[..], [_, rows] if rows.dtype.is_int()) && keeps_dtype(n) && has_shape(n)),
        row(&[Scatter],                  T,         |n| matches!(&n.src[..], [_, rows, new] if rows.dtype.is_int() && new.dtype == n.dtype) && has_shape(n)),
        row(&[Detach, Copy],             T,         |n| n.src.len() == 1 && keeps_dtype(n)),
        row(&[Contiguous],               T | S,     |n| n.src.len() == 1 && keeps_dtype(n)),
        row(&[Leaf],                     T,         |n| matches!((&n.src[..], &n.arg), ([_], Arg::Scalar(_))) && keeps_dtype(n)),
        row(&[Loop],                     T,         |n| crate::Loop::of(n).is_some_and(|l| is_index(l.count()))),
        row(&[LoopIn],                   T,         |n| matches!(n.arg, Arg::LoopIn { .. }) && n.src.iter().all(is_index)),
        row(&[LoopOut],                  T,         |n| matches!(&n.src[..], [of] if is_result(of, n)) && has_shape(n)),
        // effects and memory
        row(&[Store],                    T,         |n| matches!(&n.src[..], [at, value] if at.dtype == value.dtype && has_shape(at))),
        row(&[Store],                S | K | E | P, |n| matches!(&n.src[..], [at, value, gate @ ..] if is_gate(gate) && at.dtype == value.dtype && is_target(at))),
        row(&[After],                    ALL,       |n| n.src.len() >= 2 && keeps_dtype(n)),
        row(&[End],                  S | K | E | P, |n| matches!(&n.src[..], [_, ranges @ ..] if !ranges.is_empty() && ranges.iter().all(|r| r.op == Range))),
        row(&[Sink],                     ALL,       |_| true),
        row(&[Barrier],                  E | P,     |_| true),
        row(&[Index],                S | K | E | P, |n| matches!(&n.src[..], [of, at @ ..] if is_memory(of) && !at.is_empty() && at.iter().all(is_index))),
        row(&[Load],                 S | K | E | P, |n| matches!(&n.src[..], [at] if is_target(at)) && keeps_dtype(n)),
        row(&[Load],                 S | K | E | P, |n| matches!(&n.src[..], [at, alt, gate] if is_target(at) && alt.dtype == n.dtype && is_bool(gate)) && keeps_dtype(n)),
        row(&[LoadMatrix],               K | E | P, |n| matches!((&n.src[..], &n.arg), ([at], Arg::Fragment { matrices: 1 | 2 | 4, .. }) if is_target(at)) && keeps_dtype(n) && has_shape(n)),
        row(&[CopyAsync],                P,         |n| matches!(&n.src[..], [to, from, gate @ ..] if is_gate(gate) && to.dtype == from.dtype && is_target(to) && is_target(from))),
        row(&[Commit],                   P,         |n| n.src.iter().all(|c| c.op == CopyAsync)),
        row(&[Wait],                     P,         |n| matches!(n.arg, Arg::Lanes(_))),
        // kernel level
        row(&[Reduce],               S | K | E,     |n| n.src.len() >= 2 && keeps_dtype(n) && matches!(n.arg, Arg::Alu(_))),
        row(&[Reduce],                   K | E,     |n| n.src.len() >= 2 && matches!(n.arg, Arg::Fold(f) if n.bodies().get(f.value as usize).is_some_and(|x| x.dtype == n.dtype) && n.bodies().len() < n.src.len()) && has_shape(n)),
        row(&[Scan],                 S | K | E,     |n| matches!((&n.src[..], &n.arg), ([_, ranges @ ..], Arg::Alu(_)) if !ranges.is_empty() && ranges.iter().all(|r| matches!(r.op, Range | Special))) && keeps_dtype(n)),
        row(&[Scan],                     E,         |n| matches!((&n.src[..], &n.arg), ([_, _, ..], Arg::Exclusive(_))) && keeps_dtype(n)),
        row(&[Stage],                    S,         |n| matches!((&n.src[..], &n.arg), ([_, ranges @ ..], Arg::Stage { space: Space::Global, .. }) if ranges.iter().all(|r| r.op == Range)) && keeps_dtype(n)),
        row(&[Stage],                    K,         |n| matches!((&n.src[..], &n.arg), ([x, ranges @ ..], Arg::Stage { .. }) if !ranges.is_empty() || x.lanes() > 1)),
        row(&[Stack],                    K | E | P, |n| has_shape(n) && n.src.iter().all(|s| s.dtype == n.dtype)),
        row(&[LaneShuffle],          K | E | P,     |n| matches!((&n.src[..], &n.arg), ([_], Arg::Lanes(d)) if d.is_power_of_two()) && keeps_dtype(n)),
        row(&[Lane],                     K | E | P, |n| matches!((&n.src[..], &n.arg), ([_], Arg::Lane(_)))),
        row(&[Matrix],                   K | E | P, |n| matches!((&n.src[..], &n.arg), ([_, _, c], Arg::Name(_)) if c.dtype == n.dtype) && has_shape(n)),
        row(&[Shuffle],                  E | P,     |n| matches!((&n.src[..], &n.arg), ([a, b], Arg::Axes(from)) if a.lanes() == b.lanes() && from.iter().all(|l| (*l as usize) < 2 * a.lanes())) && same_dtype(&n.src, n)),
        row(&[Words],                    E | P,     |n| matches!(&n.src[..], [x] if x.dtype.size() == 1 && x.lanes() % 4 == 0) && n.dtype == DType::U32 && has_shape(n)),
        // elementwise
        row(&[Cast],                     ALL,       |n| n.src.len() == 1 && n.dtype != DType::Void),
        row(&[Bitcast],                  ALL,       |n| matches!(&n.src[..], [x] if x.dtype.size() == n.dtype.size())),
        class(OpSet::Unary,              ALL,       |n| n.src.len() == 1 && keeps_dtype(n) && has_shape(n)),
        class(OpSet::Binary,             ALL,       |n| n.src.len() == 2 && same_dtype(&n.src, n) && has_shape(n)),
        class(OpSet::Comparison,         ALL,       |n| matches!(&n.src[..], [a, b] if a.dtype == b.dtype) && is_bool(n) && has_shape(n)),
        row(&[Where],                    ALL,       |n| matches!(&n.src[..], [c, values @ ..] if is_bool(c) && values.len() == 2 && same_dtype(values, n)) && has_shape(n)),
        row(&[Dot4],                     ALL,       |n| n.src.len() == 3 && n.dtype.is_int() && same_dtype(&n.src, n) && has_shape(n)),
        row(&[MulAcc],                   ALL,       |n| n.src.len() == 3 && same_dtype(&n.src, n) && has_shape(n)),
    ]
};

fn is_bool(n: &UOp) -> bool {
    n.dtype == DType::Bool
}
/// An index before or after its width is decided.
fn is_index(n: &UOp) -> bool {
    matches!(n.dtype, DType::Index | DType::I32 | DType::I64)
}
fn keeps_dtype(n: &UOp) -> bool {
    n.src.first().is_some_and(|s| s.dtype == n.dtype)
}
fn same_dtype(values: &[UOp], n: &UOp) -> bool {
    values.iter().all(|s| s.dtype == n.dtype)
}
/// No gate, or one.
fn is_gate(rest: &[UOp]) -> bool {
    match rest {
        [] => true,
        [gate] => is_bool(gate),
        _ => false,
    }
}
/// Whether `n` is a result of a loop, by its number and type.
fn is_result(of: &UOp, n: &UOp) -> bool {
    let (Some(l), Arg::Lane(i)) = (crate::Loop::of(of), &n.arg) else { return false };
    l.results().get(*i as usize).is_some_and(|r| r.dtype == n.dtype)
}
fn has_shape(n: &UOp) -> bool {
    n.try_shape().is_some()
}
/// What an `After` orders; nodes need not be well-formed.
fn ordered(mut n: &UOp) -> &UOp {
    while let (Op::After, Some(x)) = (n.op, n.src.first()) {
        n = x;
    }
    n
}
fn is_memory(n: &UOp) -> bool {
    matches!(ordered(n).op, Op::Param | Op::Define | Op::Stage)
}
/// An address or a register variable.
fn is_target(n: &UOp) -> bool {
    let n = ordered(n);
    match n.op {
        Op::Define => matches!(n.arg, Arg::Define { space: Space::Reg, .. }),
        o => o == Op::Index,
    }
}

/// Check one node against a level.
pub fn check_node(n: &UOp, spec: Spec) -> Result<(), SpecError> {
    let mut rows = TABLE.iter().filter(|r| r.ops.has(n.op) && r.levels & spec as u8 != 0).peekable();
    let message = if rows.peek().is_none() {
        format!("{n:?} has no place here")
    } else if rows.any(|r| (r.check)(n)) {
        return Ok(());
    } else {
        let src: Vec<String> = n.src.iter().map(|s| format!("{s:?}")).collect();
        format!("{n:?} with sources {}", src.join("; "))
    };
    Err(SpecError { spec, message })
}

/// Check everything below a node against a level.
pub fn check(root: &UOp, spec: Spec) -> Result<(), SpecError> {
    root.toposort().iter().try_for_each(|n| check_node(n, spec))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AxisKind;

    #[test]
    fn every_op_has_a_row() {
        for op in Op::ALL {
            assert!(TABLE.iter().any(|r| r.ops.has(*op)), "{} is in no row", op.name());
        }
    }
    #[test]
    fn levels_are_told_apart() {
        let p = UOp::param(0, 4, DType::F32);
        let r = UOp::range(&UOp::index(4), 0, AxisKind::Global);
        let kernel = UOp::sink([p.at(&r).store(&(p.at(&r).load() + &p.at(&r).load())).end([r])]);
        assert_eq!(check(&kernel, Spec::Kernel), Ok(()));
        assert!(check(&kernel, Spec::Tensor).is_err());
        assert!(check(&p.reshape(&[UOp::index(2), UOp::index(2)]), Spec::Kernel).is_err());
        let mixed = UOp::new(Op::Add, DType::F32, [p.clone(), UOp::int(1, DType::I32)], Arg::None);
        assert!(check(&mixed, Spec::Tensor).unwrap_err().to_string().contains("Add:float32"));
    }
    /// Every op with every arg, with sources that are too few, too many and of all kinds.
    #[test]
    fn rows_are_total() {
        let (p, i) = (UOp::param(0, 4, DType::F32), UOp::index(3));
        let axes: crate::arg::Axes = [0u8, 7, 200].into_iter().collect();
        let args = [
            Arg::None,
            Arg::Scalar(frit_abi::Scalar::Int(7)),
            Arg::Axes(axes.clone()),
            Arg::ReduceAxes(frit_abi::Alu::Add, axes),
            Arg::Alu(frit_abi::Alu::Where),
            Arg::Exclusive(frit_abi::Alu::Add),
            Arg::Range(crate::RangeArg { id: 3, kind: AxisKind::Loop }),
            Arg::Param { slot: 9, len: usize::MAX },
            Arg::Var { name: "v".into(), min: 5, max: -5 },
            Arg::Device("NULL".into()),
            Arg::Name("unit".into()),
            Arg::Define { space: Space::Reg, id: 0, len: 0 },
            Arg::Stage { space: Space::Global, id: 0, buffers: 1 },
            Arg::Lanes(u32::MAX),
            Arg::Lane(u32::MAX),
            Arg::Tile { rows: u32::MAX, lanes: u32::MAX, stride: i64::MIN },
            Arg::Fragment { matrices: u8::MAX, transposed: true },
            Arg::Site(1),
            Arg::Scatter(crate::ScatterMode::Set, 1),
            Arg::Loop(crate::LoopArg { carries: u32::MAX, level: u32::MAX, name: "".into() }),
            Arg::LoopIn { level: 1, slot: u32::MAX },
        ];
        let mut pool = vec![
            p.clone(),
            i,
            UOp::boolean(true),
            UOp::invalid(),
            p.at(&UOp::index(0)).load(),
            UOp::sink([]),
        ];
        let (mut seed, mut legal) = (1u64, 0);
        let mut below = |n: usize| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as usize % n
        };
        for _ in 0..6 {
            for &op in Op::ALL {
                for arg in &args {
                    let src: Vec<UOp> = (0..below(6)).map(|_| pool[below(pool.len())].clone()).collect();
                    let dtype = [DType::F32, DType::Index, DType::Bool, DType::Void, DType::U8][below(5)];
                    let n = UOp::new(op, dtype, src, arg.clone());
                    for spec in [Spec::Tensor, Spec::Kernel, Spec::Expanded, Spec::Program] {
                        legal += check_node(&n, spec).is_ok() as usize;
                    }
                    // what is not legal may still be below something else
                    if pool.len() < 64 || below(8) == 0 {
                        let at = below(64);
                        if at < pool.len() { pool[at] = n } else { pool.push(n) }
                    }
                }
            }
        }
        assert!(legal > 100, "{legal} nodes were legal");
    }
}
