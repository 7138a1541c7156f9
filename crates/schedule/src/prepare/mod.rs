//! Tidy the tensor graph so that later passes see fewer nodes: tensor level in, tensor level out.
//!
//! Adjacent movement ops of one kind become one, casts there and back that lose nothing go, `Detach` goes, uniform constants
//! become scalars, adjacent reduces of one operation become one, and nothing works on tensors without elements.

use crate::error::Error;
use crate::index::{self, broadcast};
use crate::plan::Plan;
use frit_abi::sync::LazyLock;
use frit_abi::{Alu, Scalar};
use frit_uop::graph::NodeMap;
use frit_uop::record::became;
use frit_uop::rewrite::Rewriter;
use frit_uop::rules::Matcher;
use frit_uop::symbolic::convert::CAST_CHAINS;
use frit_uop::{Arg, Op, UOp, rules};
use smallvec::SmallVec;

rules! { MOVEMENT;
    Detach(x)                       => x;
    Contiguous(Contiguous(..) as x) => x;
    Reshape(Reshape(x, ..), ..) as n => x.reshape(n.shape());
    Reshape(x, ..) as n             if x.shape() == n.shape() => x;
    Expand(Expand(x, ..), ..) as n  => x.expand(n.shape());
    Expand(x, ..) as n              if x.shape() == n.shape() => x;
    Permute(Permute(x) as m) as n   => x.permute(&compose(m, n));
    Flip(Flip(x) as m) as n         => x.flip(&flipped_once(m, n));
    Shrink(Shrink(..) as m, ..) as n => merge_shrinks(m, n);
    Pad(Pad(..) as m, ..) as n      => merge_pads(m, n);
}
rules! { REDUCTIONS;
    ReduceAxis(x) as n                            => drop_unit_axes(n);
    ScanAxis(x) as n                              => scan_of_constant(n);
}
rules! { MERGES(shared: Shared);
    ReduceAxis(ReduceAxis(..) as m) as n if !shared.has(m) => shared.instead(n, merge_reduces(m, n)?);
    // between the two only dims of size 1 come or go
    ReduceAxis(Reshape(ReduceAxis(..) as m, ..) as s) as n if !shared.has(m) && !shared.has(s)
        => shared.instead(n, merge_reduces_across(m, s, n)?);
}
rules! { EMPTY;
    (ReduceAxis|Pad)(x, ..) as n if is_empty(x) && !is_empty(n) => of_nothing(n);
}
rules! { CONSTANTS;
    (Unary|Cast|Bitcast)(_) as n       => fold_uniform(n);
    (Binary|Comparison)(_, _) as n     => fold_uniform(n);
    (Where|MulAcc)(_, _, _) as n       => fold_uniform(n);
}

/// Leaves no `Detach` behind.
pub fn prepare(plan: &mut Plan) -> Result<(), Error> {
    static RULES: LazyLock<Matcher<()>> =
        LazyLock::new(|| Matcher::new(&[&MOVEMENT, &EMPTY, &REDUCTIONS, &CONSTANTS, &CAST_CHAINS], &[]));
    static MERGE: LazyLock<Matcher<Shared>> = LazyLock::new(|| {
        Matcher::new(&[&MOVEMENT, &EMPTY, &REDUCTIONS, &CONSTANTS, &CAST_CHAINS], &[&MERGES])
    });
    let mut rewriter = Rewriter::new(&RULES);
    let sink = rewriter.rewrite(plan.sink(), &mut ());
    became(rewriter.answers());
    plan.set_sink(sink);
    let list = plan.list();
    // in most graphs there is none, and every other rule has been applied
    if list.nodes.iter().any(is_reduce_of_reduce) {
        let mut rewriter = Rewriter::new(&MERGE);
        let sink = rewriter.rewrite(plan.sink(), &mut Shared::of(&list.nodes));
        became(rewriter.answers());
        plan.set_sink(sink);
    }
    Ok(())
}

fn is_reduce_of_reduce(n: &UOp) -> bool {
    let inner = || if n.input().op == Op::Reshape { n.input().input() } else { n.input() };
    n.op == Op::ReduceAxis && inner().op == Op::ReduceAxis
}

/// Nodes with several users. A reduce that someone else needs, too, is not merged into one around it: its operand would
/// be wanted twice, at the largest size of all.
struct Shared(NodeMap<()>);

impl Shared {
    fn of(nodes: &[UOp]) -> Shared {
        let (mut used, mut shared) = (NodeMap::default(), NodeMap::default());
        for n in nodes {
            for s in n.src.iter().filter(|s| matches!(s.op, Op::ReduceAxis | Op::Reshape)) {
                if used.insert(s.clone(), ()).is_some() {
                    shared.insert(s.clone(), ());
                }
            }
        }
        Shared(shared)
    }
    fn has(&self, n: &UOp) -> bool {
        self.0.contains(n)
    }
    /// The users of a node become those of another.
    fn instead(&mut self, old: &UOp, new: UOp) -> Option<UOp> {
        if self.0.contains(old) {
            self.0.insert(new.clone(), ());
        }
        Some(new)
    }
}

fn axes(n: &UOp) -> Vec<usize> {
    match &n.arg {
        Arg::Axes(a) | Arg::ReduceAxes(_, a) => a.iter().map(|&a| a as usize).collect(),
        _ => vec![],
    }
}
fn is_one(d: &UOp) -> bool {
    d.as_int() == Some(1)
}
fn is_empty(n: &UOp) -> bool {
    n.shape().iter().any(|d| d.as_int() == Some(0))
}

fn compose(inner: &UOp, outer: &UOp) -> Vec<usize> {
    let inner = axes(inner);
    axes(outer).iter().map(|&a| inner[a]).collect()
}
fn flipped_once(inner: &UOp, outer: &UOp) -> Vec<usize> {
    let (a, b) = (axes(inner), axes(outer));
    let mut once: Vec<usize> =
        a.iter().filter(|x| !b.contains(x)).chain(b.iter().filter(|x| !a.contains(x))).copied().collect();
    once.sort_unstable();
    once
}
fn sums(a: &[UOp], b: &[UOp]) -> Vec<UOp> {
    a.iter().zip(b).map(|(x, y)| index::add(x, y)).collect()
}
fn merge_shrinks(inner: &UOp, outer: &UOp) -> UOp {
    let rank = outer.shape().len();
    inner.src[0].shrink(&sums(&inner.src[1..=rank], &outer.src[1..=rank]), outer.shape())
}
fn merge_pads(inner: &UOp, outer: &UOp) -> UOp {
    let rank = outer.shape().len();
    let side = |k: usize| {
        let at = 1 + k * rank..1 + (k + 1) * rank;
        sums(&inner.src[at.clone()], &outer.src[at])
    };
    inner.src[0].pad(&side(0), &side(1))
}

fn drop_unit_axes(n: &UOp) -> Option<UOp> {
    let Arg::ReduceAxes(op, _) = n.arg else { return None };
    let x = &n.src[0];
    let is_unit = |a: &usize| x.shape().get(*a).is_some_and(is_one);
    let mut all = axes(n);
    if !all.iter().any(is_unit) {
        return None;
    }
    all.retain(|a| !is_unit(a));
    Some(x.reduce_axes(op, &all))
}
fn merge_reduces(inner: &UOp, outer: &UOp) -> Option<UOp> {
    let (Arg::ReduceAxes(a, _), Arg::ReduceAxes(b, _)) = (&inner.arg, &outer.arg) else { return None };
    let mut all = [axes(inner), axes(outer)].concat();
    all.sort_unstable();
    all.dedup();
    (a == b).then(|| inner.src[0].reduce_axes(*a, &all))
}
fn merge_reduces_across(inner: &UOp, reshape: &UOp, outer: &UOp) -> Option<UOp> {
    let solid =
        |n: &UOp| -> Vec<usize> { (0..n.shape().len()).filter(|&i| !is_one(&n.shape()[i])).collect() };
    let (from, to) = (solid(inner), solid(reshape));
    let same =
        from.len() == to.len() && from.iter().zip(&to).all(|(&f, &t)| inner.shape()[f] == reshape.shape()[t]);
    let (Arg::ReduceAxes(a, _), Arg::ReduceAxes(b, _)) = (&inner.arg, &outer.arg) else { return None };
    if !same || a != b {
        return None;
    }
    let mut all = axes(inner);
    all.extend(axes(outer).iter().filter_map(|x| to.iter().position(|t| t == x)).map(|k| from[k]));
    all.sort_unstable();
    all.dedup();
    Some(inner.src[0].reduce_axes(*a, &all).reshape(outer.shape()))
}

/// A running sum of one integer is a multiple of its position.
fn scan_of_constant(n: &UOp) -> Option<UOp> {
    let (Arg::ReduceAxes(Alu::Add, _), Some(c)) = (&n.arg, uniform(&n.src[0])) else { return None };
    if !n.dtype.is_int() {
        return None;
    }
    let (axis, dims) = (axes(n)[0], n.shape());
    let mut line: Vec<UOp> = dims.iter().map(|_| UOp::index(1)).collect();
    line[axis] = dims[axis].clone();
    let counted = (UOp::iota(&dims[axis], n.dtype) + 1) * c;
    Some(counted.reshape(&line).expand(dims))
}

/// What a reduce or a pad makes of a tensor without elements.
fn of_nothing(n: &UOp) -> Option<UOp> {
    let v = match (&n.arg, n.op) {
        (Arg::ReduceAxes(op, _), _) => Scalar::identity(*op, n.dtype)?,
        _ => Scalar::zero(n.dtype),
    };
    Some(broadcast(&UOp::constant(v, n.dtype), n.shape()))
}

/// The one constant that every element is.
fn uniform(n: &UOp) -> Option<&UOp> {
    let mut n = n;
    loop {
        match n.op {
            Op::Const => return Some(n),
            Op::Reshape | Op::Permute | Op::Expand | Op::Shrink | Op::Flip | Op::Contiguous => n = &n.src[0],
            _ => return None,
        }
    }
}

/// Compute on constants; where other operands give the shape, a uniform tensor becomes a scalar.
fn fold_uniform(n: &UOp) -> Option<UOp> {
    if n.dtype == frit_abi::DType::Index && n.shape().is_empty() {
        return None; // dims keep their form: equality of shapes is by node
    }
    let values: SmallVec<[Option<&UOp>; 3]> = n.src.iter().map(uniform).collect();
    if values.iter().all(|v| v.is_none()) {
        return None;
    }
    if values.iter().all(|v| v.is_some()) {
        let of: Vec<Scalar> = values.iter().flatten().filter_map(|v| v.as_scalar()).collect();
        let folded = match (n.op, n.op.alu()) {
            (Op::Cast, _) => of[0].cast(n.dtype),
            (Op::Bitcast, _) => of[0].bitcast(n.src[0].dtype, n.dtype)?,
            (Op::Where, Some(a)) => Scalar::alu(a, n.dtype, &of),
            (_, Some(a)) => Scalar::alu(a, n.src[0].dtype, &of),
            _ => return None,
        };
        return Some(broadcast(&UOp::constant(folded, n.dtype), n.shape()));
    }
    let keeps_shape = |k: usize| {
        n.src.iter().enumerate().any(|(j, s)| j != k && values[j].is_none() && s.shape() == n.shape())
    };
    let mut src = n.src.clone();
    for (k, v) in values.iter().enumerate() {
        if let Some(c) = v
            && keeps_shape(k)
        {
            src[k] = (*c).clone();
        }
    }
    Some(n.with_src(src))
}

#[cfg(test)]
mod tests;
