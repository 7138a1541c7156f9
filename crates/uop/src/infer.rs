//! What follows from a node's structure: shape, open ranges, bounds. Computed once, when the node is made.

use crate::arg::{Arg, Space};
use crate::loops::Loop;
use crate::node::{Shape, UOp};
use crate::op::Op;
use frit_abi::sync::RwLock;
use frit_abi::{Alu, DType, Scalar};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// The shape of a node with these parts; `None` for effects and for parts that do not fit together.
pub fn shape(op: Op, src: &[UOp], arg: &Arg) -> Option<Shape> {
    let of = |i: usize| src.get(i).and_then(|s: &UOp| s.try_shape());
    Some(match op {
        Op::Const
        | Op::Invalid
        | Op::Variable
        | Op::Bind
        | Op::Range
        | Op::Special
        | Op::Reduce
        | Op::Scan
        | Op::LaneShuffle => {
            // kernel values are scalars until they are expanded
            match op {
                Op::Reduce if matches!(arg, Arg::Fold(_)) => broadcast(src)?,
                Op::Reduce | Op::Scan | Op::LaneShuffle => of(0)?.clone(),
                _ => Shape::new(),
            }
        }
        Op::Buffer => match arg {
            Arg::Buffer(b) => smallvec![UOp::index(b.len() as i64)],
            _ => return None,
        },
        Op::Param => match arg {
            Arg::Param { len, .. } => smallvec![UOp::index(*len as i64)],
            _ => return None,
        },
        Op::Define => match arg {
            Arg::Define { space: Space::Reg, len: 1, .. } => Shape::new(),
            Arg::Define { len, .. } => smallvec![UOp::index(*len as i64)],
            _ => return None,
        },
        Op::Iota => smallvec![src.first()?.clone()],
        Op::Reshape | Op::Expand => src.get(1..)?.iter().cloned().collect(),
        Op::Permute => match arg {
            Arg::Axes(axes) => {
                let s = of(0)?;
                axes.iter().map(|&a| s.get(a as usize).cloned()).collect::<Option<Shape>>()?
            }
            _ => return None,
        },
        Op::Pad => {
            let s = of(0)?;
            let (b, a) = src.get(1..1 + 2 * s.len())?.split_at(s.len());
            s.iter().zip(b.iter().zip(a)).map(|(d, (b, a))| padded(d, b, a)).collect()
        }
        Op::Shrink => {
            let n = of(0)?.len();
            src.get(1 + n..1 + 2 * n)?.iter().cloned().collect()
        }
        Op::ReduceAxis => match arg {
            Arg::ReduceAxes(_, axes) => {
                let mut s = of(0)?.clone();
                for &a in axes {
                    *s.get_mut(a as usize)? = UOp::index(1);
                }
                s
            }
            _ => return None,
        },
        Op::Gather => {
            let (x, i) = (of(0)?, of(1)?);
            i.iter().chain(x.get(1..)?).cloned().collect()
        }
        Op::Flip
        | Op::ScanAxis
        | Op::Scatter
        | Op::Contiguous
        | Op::Detach
        | Op::Leaf
        | Op::Copy
        | Op::After => of(0)?.clone(),
        Op::LoopIn => src.iter().cloned().collect(),
        Op::LoopOut => match arg {
            Arg::Lane(i) => Loop::of(src.first()?)?.out_shape(*i as usize)?,
            _ => return None,
        },
        Op::Index => match arg {
            Arg::Lanes(w) => smallvec![UOp::index(*w as i64)],
            Arg::Tile { rows, lanes, .. } => {
                smallvec![UOp::index((*rows as i64).saturating_mul(*lanes as i64))]
            }
            // one index per dim for a staged value, all scalar or all of one vector shape
            _ => broadcast(src.get(1..)?)?,
        },
        Op::Load => of(0)?.clone(),
        // a word of each matrix
        Op::LoadMatrix => match arg {
            Arg::Fragment { matrices, .. } => {
                let word = 4 / src.first()?.dtype.size().clamp(1, 4);
                smallvec![UOp::index((*matrices as usize * word) as i64)]
            }
            _ => return None,
        },
        Op::Stage => src.get(1..)?.iter().map(|r| r.src.first().cloned()).collect::<Option<Shape>>()?,
        Op::Stack => {
            let mut s: Shape = smallvec![UOp::index(src.len() as i64)];
            s.extend(of(0)?.iter().cloned());
            s
        }
        Op::Lane => of(0)?.get(1..)?.iter().cloned().collect(),
        Op::Matrix => of(2)?.clone(),
        Op::Words => smallvec![UOp::index(of(0)?.first()?.as_int()? / 4)],
        Op::Shuffle => match arg {
            Arg::Axes(from) => smallvec![UOp::index(from.len() as i64)],
            _ => return None,
        },
        Op::Store | Op::End | Op::Sink | Op::Barrier | Op::CopyAsync | Op::Commit | Op::Wait | Op::Loop => {
            return None;
        }
        _ => broadcast(src)?,
    })
}

/// `before + size + after`.
fn padded(size: &UOp, before: &UOp, after: &UOp) -> UOp {
    let amounts = before.size_add(after);
    size.size_add(&amounts)
}

/// The one shape that is not `()` among the sources, or `()`.
fn broadcast(src: &[UOp]) -> Option<Shape> {
    let mut found: Option<&Shape> = None;
    for s in src {
        let s = s.try_shape()?;
        match found {
            _ if s.is_empty() => {}
            None => found = Some(s),
            Some(f) if f == s => {}
            Some(_) => return None,
        }
    }
    Some(found.cloned().unwrap_or_default())
}

/// The ranges open at a node: those of its sources, less those it closes, plus itself.
pub fn ranges(op: Op, src: &[UOp], arg: &Arg) -> SmallVec<[u32; 6]> {
    let mut out: SmallVec<[u32; 6]> = SmallVec::new();
    for s in src {
        if out.is_empty() {
            out.extend_from_slice(&s.ranges);
        } else if out != s.ranges {
            for &r in &s.ranges {
                if let Err(at) = out.binary_search(&r) {
                    out.insert(at, r);
                }
            }
        }
    }
    match (op, arg) {
        (Op::Range, Arg::Range(r)) => {
            if let Err(at) = out.binary_search(&r.id) {
                out.insert(at, r.id);
            }
        }
        (Op::Reduce | Op::Stage | Op::End, _) => {
            for s in src.iter().skip(1) {
                if let Arg::Range(r) = s.arg {
                    out.retain(|x| *x != r.id);
                }
            }
        }
        _ => {}
    }
    out
}

static DEVICES: RwLock<Vec<Arc<str>>> = RwLock::new(Vec::new());

/// The device a node's memory is on, numbered from 1; 0 where it has none.
pub fn device(src: &[UOp], arg: &Arg) -> u16 {
    let name = match arg {
        Arg::Buffer(b) => b.device(),
        Arg::Device(d) => d,
        _ => return src.iter().map(|s| s.device).find(|d| *d != 0).unwrap_or(0),
    };
    let at = |v: &[Arc<str>]| v.iter().position(|d| **d == *name).map(|i| i as u16 + 1);
    if let Some(n) = at(&DEVICES.read().unwrap_or_else(|e| e.into_inner())) {
        return n;
    }
    let mut devices = DEVICES.write().unwrap_or_else(|e| e.into_inner());
    at(&devices).unwrap_or_else(|| {
        devices.push(name.into());
        devices.len() as u16
    })
}
/// The name of the device with this number.
pub fn device_name(number: u16) -> Option<Arc<str>> {
    DEVICES.read().unwrap_or_else(|e| e.into_inner()).get((number as usize).checked_sub(1)?).cloned()
}

/// A product of bounds, in one multiplication where they fit 64 bits.
fn product(a: i128, b: i128) -> i128 {
    match (i64::try_from(a), i64::try_from(b)) {
        (Ok(a), Ok(b)) => a as i128 * b as i128,
        _ => a.saturating_mul(b),
    }
}

/// Least and greatest value of an integer or bool node.
pub fn bounds(op: Op, dtype: DType, src: &[UOp], arg: &Arg) -> (i128, i128) {
    let Some(whole) = dtype.int_range() else { return (0, 0) };
    let b = |i: usize| src.get(i).map_or(whole, |s| s.bounds);
    let (x, y) = (b(0), b(1));
    let corners = |f: &dyn Fn(i128, i128) -> i128| {
        let c = [f(x.0, y.0), f(x.0, y.1), f(x.1, y.0), f(x.1, y.1)];
        (c.into_iter().min().unwrap_or(0), c.into_iter().max().unwrap_or(0))
    };
    let int_operands = src.iter().all(|s| s.dtype.int_range().is_some());
    let found = match (op, arg) {
        (Op::Const, Arg::Scalar(s)) => (s.as_i128(), s.as_i128()),
        (Op::Variable, Arg::Var { min, max, .. }) => (*min as i128, *max as i128),
        (Op::Iota, _) => (0, (x.1 - 1).max(0)),
        // one that may have no step at all is never a constant: what happens for each of its steps must depend on it, or
        // it would happen once where there are none
        (Op::Range | Op::Special, _) => (0, (x.1 - 1).max((x.0 <= 0) as i128)),
        (Op::Invalid, _) => whole,
        (
            Op::Bind
            | Op::Contiguous
            | Op::Detach
            | Op::Leaf
            | Op::After
            | Op::Lane
            | Op::LaneShuffle
            | Op::Copy,
            _,
        ) => x,
        (o, _) if o.is_movement() && o != Op::Pad => x,
        (Op::Pad, _) => (x.0.min(0), x.1.max(0)),
        (Op::Gather, _) => x,
        (Op::Stack | Op::Shuffle, _) => (
            src.iter().map(|s| s.bounds.0).min().unwrap_or(whole.0),
            src.iter().map(|s| s.bounds.1).max().unwrap_or(whole.1),
        ),
        (Op::Cast, _) if int_operands => x,
        (
            Op::ReduceAxis | Op::Reduce,
            Arg::ReduceAxes(Alu::Max | Alu::Min, _) | Arg::Alu(Alu::Max | Alu::Min),
        ) => {
            // over no element at all the result is the identity
            let empty = src.iter().any(|s| s.shape().iter().any(|d| d.bounds.0 <= 0))
                || src.iter().skip(1).any(|r| r.src.first().is_none_or(|e| e.bounds.0 <= 0));
            if empty { whole } else { x }
        }
        _ if !int_operands => whole,
        (Op::Add, _) => (x.0 + y.0, x.1 + y.1),
        (Op::Sub, _) => (x.0 - y.1, x.1 - y.0),
        (Op::Neg, _) if dtype != DType::Bool => (-x.1, -x.0),
        (Op::Mul, _) => corners(&product),
        (Op::Max, _) => (x.0.max(y.0), x.1.max(y.1)),
        (Op::Min, _) => (x.0.min(y.0), x.1.min(y.1)),
        (Op::Idiv, _) if y.0 > 0 => corners(&|a, b| a.div_euclid(b)),
        (Op::Tdiv, _) if y.0 > 0 => corners(&|a, b| a / b),
        (Op::Mod, _) if y.0 > 0 && dtype != DType::Bool => {
            // within one period the remainder is a shift of the dividend
            if y.0 == y.1 && x.0.div_euclid(y.0) == x.1.div_euclid(y.0) {
                (x.0.rem_euclid(y.0), x.1.rem_euclid(y.0))
            } else {
                (0, if x.0 >= 0 { x.1.min(y.1 - 1) } else { y.1 - 1 })
            }
        }
        (Op::And, _) if dtype != DType::Bool && (x.0 >= 0 || y.0 >= 0) => (
            0,
            if x.0 < 0 {
                y.1
            } else if y.0 < 0 {
                x.1
            } else {
                x.1.min(y.1)
            },
        ),
        (Op::Or | Op::Xor, _) if dtype != DType::Bool && x.0 >= 0 && y.0 >= 0 => {
            let top = x.1.max(y.1);
            (0, (1i128 << (128 - top.leading_zeros())) - 1)
        }
        (Op::Shl, _) if dtype != DType::Bool && y.0 >= 0 && y.1 < dtype.bits() as i128 => {
            corners(&|a, b| a.saturating_mul(1 << b))
        }
        (Op::MulAcc, _) if dtype != DType::Bool => {
            let (m, z) = (corners(&product), b(2));
            (m.0.saturating_add(z.0), m.1.saturating_add(z.1))
        }
        (Op::Shr, _) if dtype != DType::Bool && x.0 >= 0 && y.0 >= 0 => {
            (0, if y.0 < 64 { x.1 >> y.0 } else { 0 })
        }
        (Op::Lt, _) => (((x.1 < y.0) as i128), ((x.0 < y.1) as i128)),
        (Op::Eq, _) => {
            let apart = x.1 < y.0 || y.1 < x.0;
            ((x.0 == x.1 && x == y) as i128, !apart as i128)
        }
        (Op::Ne, _) => {
            let apart = x.1 < y.0 || y.1 < x.0;
            (apart as i128, !(x.0 == x.1 && x == y) as i128)
        }
        (Op::And, _) if dtype == DType::Bool => (x.0.min(y.0), x.1.min(y.1)),
        (Op::Or, _) if dtype == DType::Bool => (x.0.max(y.0), x.1.max(y.1)),
        (Op::Not, _) if dtype == DType::Bool => (1 - x.1, 1 - x.0),
        (Op::Where, _) => {
            // an invalid index is never used, so it does not widen the bounds
            let (t, f) = (b(1), b(2));
            match (src.get(1).map(|s| s.op), src.get(2).map(|s| s.op)) {
                (_, Some(Op::Invalid)) => t,
                (Some(Op::Invalid), _) => f,
                _ => (t.0.min(f.0), t.1.max(f.1)),
            }
        }
        _ => whole,
    };
    // arithmetic wraps: bounds that leave the type say nothing
    if found.0 < whole.0 || found.1 > whole.1 { whole } else { found }
}

impl UOp {
    /// Sum of two dims, see [`UOp::folded`].
    pub fn fold_add(&self, o: &UOp) -> UOp {
        self.folded(Alu::Add, o)
    }
    /// Product of two dims, see [`UOp::folded`].
    pub fn fold_mul(&self, o: &UOp) -> UOp {
        self.folded(Alu::Mul, o)
    }
    /// The value of an integer or bool constant.
    #[inline]
    pub fn as_int(&self) -> Option<i64> {
        match &self.arg {
            Arg::Scalar(s) if self.op == Op::Const => s.as_i64(),
            _ => None,
        }
    }
    /// The value of any constant.
    pub fn as_scalar(&self) -> Option<Scalar> {
        match &self.arg {
            Arg::Scalar(s) if self.op == Op::Const => Some(*s),
            _ => None,
        }
    }
}
