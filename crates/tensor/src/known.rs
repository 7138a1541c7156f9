//! Numbers that follow from constants and sizes alone, found without computing on a device.
//!
//! ```text
//! stack(shape[0], 2 * shape[1])  ->  [8, 2 * T]
//! ```
//!
//! What programs do with shapes (take one, cut it, multiply, join) is a graph like any other. Where no memory is in it,
//! each of its few elements is a number or a size with variables.

use crate::shape::Dim;
use crate::tensor::Tensor;
use frit_uop::eval::{Array, Value, apply};
use frit_uop::{Alu, Arg, DType, Op, Scalar, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;

/// More elements, or nodes behind them, are not looked at: a device is faster.
const MOST: usize = 1024;

/// An element: a number of its node's type, or an integer with variables.
#[derive(Clone)]
enum Known {
    Number(Value),
    Size(UOp),
}

type Elements = Rc<Array<Known>>;

impl Tensor {
    /// The elements as sizes, where they are integers that follow from constants and sizes alone, and few. Nothing is
    /// computed on a device, so a Jit that records may ask.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let n = Tensor::zeros([4, 6]).shape()[1].tensor();
    /// let sizes = Tensor::stack(&[n.clone(), n * 2 + 1], 0).as_sizes().unwrap();
    /// assert_eq!(sizes, [6, 13]);
    /// assert!(Tensor::new([1, 2]).as_sizes().is_none()); // in memory
    /// // what exporters write for `expand`: 1 where a size is -1
    /// let n = Variable::new("n", 2, 9)?.bind(4)?.tensor();
    /// assert_eq!(n.eq(-1).where_(1, &n).as_sizes().unwrap()[0].value()?, 4);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn as_sizes(&self) -> Option<Vec<Dim>> {
        let all = elements(&self.peek().ok()?)?;
        let size = |k: &Known| match k {
            Known::Number(Value::Int(v)) => Some(Dim::from(i64::try_from(*v).ok()?)),
            Known::Number(Value::Float(_)) => None,
            Known::Size(u) => Some(Dim::from(u.clone())),
        };
        all.values.iter().map(size).collect()
    }
    /// The elements as numbers, where they follow from constants alone, and are few.
    pub fn as_numbers(&self) -> Option<Vec<f64>> {
        let all = elements(&self.peek().ok()?)?;
        let number = |k: &Known| match k {
            Known::Number(v) => Some(v.as_f64()),
            Known::Size(_) => None,
        };
        all.values.iter().map(number).collect()
    }
}

fn elements(root: &UOp) -> Option<Elements> {
    let mut values: FxHashMap<UOp, Elements> = FxHashMap::default();
    for n in order(root)? {
        let value = Rc::new(value(&n, &values)?);
        if value.values.len() > MOST {
            return None;
        }
        values.insert(n, value);
    }
    values.remove(root)
}

/// The nodes behind a value, sources before users; `None` as soon as one is memory or anything else that is not known.
/// Sizes are taken as they are.
fn order(root: &UOp) -> Option<Vec<UOp>> {
    let (mut out, mut seen, mut stack) = (vec![], FxHashSet::default(), vec![(root.clone(), false)]);
    while let Some((n, is_done)) = stack.pop() {
        if is_done {
            out.push(n);
            continue;
        }
        if !seen.insert(n.clone()) {
            continue;
        }
        let is_known = n.op.alu().is_some()
            || n.op.is_movement()
            || matches!(n.op, Op::Const | Op::Cast | Op::Iota | Op::ReduceAxis | Op::Gather)
            || matches!(n.op, Op::Contiguous | Op::Detach | Op::Leaf);
        if !is_known || seen.len() > MOST {
            return None;
        }
        stack.push((n.clone(), true));
        stack.extend(operands(&n).iter().map(|s| (s.clone(), false)));
    }
    Some(out)
}

/// The sources that are values, not sizes.
fn operands(n: &UOp) -> &[UOp] {
    match n.op {
        Op::Const | Op::Iota => &[],
        Op::Cast if n.src[0].dtype == DType::Index => &[],
        op if op.is_movement() => &n.src[..1],
        _ => &n.src,
    }
}

fn sizes(dims: &[UOp]) -> Option<Vec<usize>> {
    let all: Option<Vec<usize>> =
        dims.iter().map(|d| d.as_int().and_then(|v| usize::try_from(v).ok())).collect();
    all.filter(|d| d.iter().try_fold(1usize, |n, d| n.checked_mul(*d)).is_some_and(|n| n <= MOST))
}

fn value(n: &UOp, values: &FxHashMap<UOp, Elements>) -> Option<Array<Known>> {
    let source = |i: usize| n.src.get(i).and_then(|s| values.get(s));
    let number = |v: Value| Known::Number(v.cast(n.dtype));
    Some(match (n.op, &n.arg) {
        (Op::Const, Arg::Scalar(s)) => Array::scalar(number(match s {
            Scalar::Float(f) => Value::Float(*f),
            s => Value::Int(s.as_i128()),
        })),
        (Op::Cast, _) if n.src[0].dtype == DType::Index => Array::scalar(size(&n.src[0])),
        (Op::Cast, _) => map(source(0)?, |k| match k {
            Known::Number(v) => Some(number(*v)),
            Known::Size(u) => n.dtype.is_int().then(|| Known::Size(u.clone())),
        })?,
        (Op::Contiguous | Op::Detach | Op::Leaf, _) => (**source(0)?).clone(),
        (Op::Iota, _) => Array::build(&sizes(&n.src[..1])?, |c| number(Value::Int(c[0] as i128))),
        (op, _) if op.is_movement() => moved(n, source(0)?)?,
        (Op::ReduceAxis, Arg::ReduceAxes(alu, axes)) => reduced(n, source(0)?, *alu, axes)?,
        (Op::Gather, _) => gathered(n, source(0)?, source(1)?)?,
        (op, _) => {
            let (alu, args) = (op.alu()?, (0..n.src.len()).map(source).collect::<Option<Vec<_>>>()?);
            let dtype = n.src[(alu == Alu::Where) as usize].dtype;
            let shape = args.iter().map(|a| &a.shape).find(|s| !s.is_empty()).cloned().unwrap_or_default();
            let one = |i: usize| {
                let operands: Vec<&Known> =
                    args.iter().map(|a| &a.values[if a.shape.is_empty() { 0 } else { i }]).collect();
                computed(alu, dtype, n.dtype, &operands)
            };
            let count = shape.iter().product();
            Array { values: (0..count).map(one).collect::<Option<Vec<_>>>()?, shape }
        }
    })
}

fn size(u: &UOp) -> Known {
    u.as_int().map_or_else(|| Known::Size(u.clone()), |v| Known::Number(Value::Int(v as i128)))
}
fn map(x: &Array<Known>, f: impl FnMut(&Known) -> Option<Known>) -> Option<Array<Known>> {
    Some(Array { shape: x.shape.clone(), values: x.values.iter().map(f).collect::<Option<_>>()? })
}

/// One operation on one element; with sizes where it is one that sizes have.
fn computed(alu: Alu, dtype: DType, to: DType, args: &[&Known]) -> Option<Known> {
    if let (Alu::Where, [Known::Number(on), a, b]) = (alu, args) {
        return Some(if on.is_true() { (*a).clone() } else { (*b).clone() });
    }
    let numbers: Option<Vec<Value>> =
        args.iter().map(|k| if let Known::Number(v) = k { Some(*v) } else { None }).collect();
    if let Some(numbers) = numbers {
        // rounded after each operation, as a machine does
        return Some(Known::Number(apply(alu, dtype, &numbers).cast(to)));
    }
    let node = |k: &Known| match k {
        Known::Size(u) => Some(u.clone()),
        Known::Number(Value::Int(v)) => Some(UOp::index(i64::try_from(*v).ok()?)),
        Known::Number(Value::Float(_)) => None,
    };
    match args {
        [a, b] if alu.is_comparison() => {
            // where bounds decide it for every value
            let condition = node(a)?.bin(alu, &node(b)?);
            let is = [condition.clone(), frit_uop::symbolic::size::canonical(&condition)];
            let (lo, _) = is.iter().map(|c| c.bounds).find(|(lo, hi)| lo == hi)?;
            Some(Known::Number(Value::Int(lo)))
        }
        [a, b] => {
            let (a, b) = (Dim::from(node(a)?), Dim::from(node(b)?));
            let made = match alu {
                Alu::Add => a + b,
                Alu::Sub => a - b,
                Alu::Mul => a * b,
                Alu::Idiv => a / b,
                Alu::Mod => a % b,
                Alu::Min => a.at_most(b),
                Alu::Max => a.at_least(b),
                _ => return None,
            };
            made.0.ok().map(|u| size(&u))
        }
        _ => None,
    }
}

fn moved(n: &UOp, x: &Array<Known>) -> Option<Array<Known>> {
    let (rank, end) = (x.shape.len(), n.src.len());
    let axes = || match &n.arg {
        Arg::Axes(axes) => axes.iter().map(|&a| a as usize).collect::<Vec<_>>(),
        _ => vec![],
    };
    let zero = Known::Number(Value::zero(n.dtype));
    match n.op {
        Op::Reshape => x.reshape(&sizes(&n.src[1..end])?),
        Op::Expand => x.expand(&sizes(&n.src[1..end])?),
        Op::Permute => x.permute(&axes()),
        Op::Flip => x.flip(&axes()),
        Op::Pad => x.pad(&sizes(n.src.get(1..1 + rank)?)?, &sizes(n.src.get(1 + rank..)?)?, zero),
        Op::Shrink => x.shrink(&sizes(n.src.get(1..1 + rank)?)?, &sizes(n.src.get(1 + rank..)?)?),
        _ => None,
    }
}

fn reduced(n: &UOp, x: &Array<Known>, alu: Alu, axes: &[u8]) -> Option<Array<Known>> {
    let mut shape = x.shape.clone();
    axes.iter().for_each(|a| shape[*a as usize] = 1);
    let unit = Known::Number(Value::identity(alu, n.dtype)?);
    let mut out = Array::build(&shape, |_| unit.clone());
    let mut fine = true;
    let each = Array::build(&x.shape, |c| c.to_vec());
    for (c, v) in each.values.iter().zip(&x.values) {
        let place = c.iter().zip(&shape).fold(0, |p, (i, s)| p * s + if *s == 1 { 0 } else { *i });
        match computed(alu, n.dtype, n.dtype, &[&out.values[place], v]) {
            Some(made) => out.values[place] = made,
            None => fine = false,
        }
    }
    fine.then_some(out)
}

fn gathered(n: &UOp, x: &Array<Known>, at: &Array<Known>) -> Option<Array<Known>> {
    let (rows, rest) = (*x.shape.first()?, x.shape[1..].iter().product::<usize>());
    let mut values = vec![];
    for k in &at.values {
        let Known::Number(Value::Int(i)) = k else { return None };
        let i = usize::try_from(*i).ok().filter(|i| *i < rows)?;
        values.extend_from_slice(&x.values[i * rest..(i + 1) * rest]);
    }
    Some(Array { shape: sizes(n.shape())?, values })
}
