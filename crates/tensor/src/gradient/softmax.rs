//! A softmax: its gradient comes from its result.
//!
//! ```text
//! y = exp(x - m) / sum exp(x - m)   ->   dx = y (g - sum y g)
//! o = sum over j of y[i, j] v[j, d], and nothing else is made of y   ->   sum over j of y g = sum over d of o do
//! ```
//! The second line is Euler's theorem for what is linear in a row: with it the gradient of attention needs no sum along rows of
//! scores. What is a small float when it comes goes on as one, as it would through a product of them.

use crate::composite::{mul, sub};
use crate::reduce::reduce_node;
use crate::tensor::expand_to;
use frit_uop::graph::NodeMap;
use frit_uop::{Alu, Arg, Op, UOp};
use smallvec::SmallVec;

/// Where a softmax is taken.
pub(super) struct Softmax {
    /// What it is of, and what was subtracted from that.
    pub x: UOp,
    pub shift: UOp,
    axis: usize,
}

/// The softmax that a node is, if it is one: an exponential over the sum of them.
pub(super) fn recognise(n: &UOp) -> Option<Softmax> {
    let (e, sum) = match n.op {
        Op::Fdiv => (&n.src[0], unmoved(&n.src[1])),
        Op::Mul => {
            let (e, r) = if n.src[0].op == Op::Exp { (&n.src[0], &n.src[1]) } else { (&n.src[1], &n.src[0]) };
            let r = unmoved(r);
            (e, (r.op == Op::Recip).then(|| r.input())?)
        }
        _ => return None,
    };
    // an empty sum may stand for one
    let sum = match sum.op {
        Op::Where if sum.condition().op == Op::Eq => sum.if_false(),
        _ => sum,
    };
    let Arg::ReduceAxes(Alu::Add, axes) = &sum.arg else { return None };
    let ([axis], Op::Exp, Op::Sub) = (&axes[..], e.op, e.src.first()?.op) else { return None };
    if sum.op != Op::ReduceAxis || sum.input() != e {
        return None;
    }
    let [x, shift] = e.input().operands();
    let axis = *axis as usize;
    // what is the same along the axis changes nothing
    let is_row = shift.op == Op::Expand && shift.input().shape().get(axis)?.as_int() == Some(1);
    is_row.then(|| Softmax { x: x.clone(), shift: shift.clone(), axis })
}

fn unmoved(mut x: &UOp) -> &UOp {
    while matches!(x.op, Op::Expand | Op::Reshape) {
        x = x.input();
    }
    x
}

/// The gradient of what it is of; `product` is the one sum of products that is made of it, with its gradient.
pub(super) fn gradient(s: &Softmax, y: &UOp, g: &UOp, product: Option<(&Product, UOp)>) -> UOp {
    let sum = match product {
        Some((p, of)) => p.row_sums(&of, y, s.axis),
        None => reduce_node(&mul(y, g), Alu::Add, &[s.axis]),
    };
    let dx = mul(y, &sub(g, &expand_to(&sum, y.shape())));
    match g.op {
        Op::Cast if g.input().dtype.is_small_float() => dx.cast(g.input().dtype).cast(dx.dtype),
        _ => dx,
    }
}

/// A sum of products along the axis of a softmax, which is all that is made of it.
pub(super) struct Product {
    pub node: UOp,
    /// Which dim of the softmax each of its dims is; others are its own.
    dims: Dims,
}
type Dims = SmallVec<[Option<usize>; 6]>;

impl Product {
    /// The sums of the softmax times its gradient, with the softmax's dims and its axis of size 1.
    fn row_sums(&self, gradient: &UOp, y: &UOp, axis: usize) -> UOp {
        let own: Vec<usize> = (0..self.dims.len()).filter(|i| self.dims[*i].is_none()).collect();
        let both = mul(&self.node.cast(y.dtype), &gradient.cast(y.dtype));
        let sums = reduce_node(&both, Alu::Add, &own);
        let mut order: Vec<usize> = (0..self.dims.len()).filter(|i| self.dims[*i].is_some()).collect();
        order.sort_by_key(|i| self.dims[*i]);
        order.extend(own);
        let rows: SmallVec<[UOp; 6]> = y
            .shape()
            .iter()
            .enumerate()
            .map(|(i, d)| if i == axis { UOp::index(1) } else { d.clone() })
            .collect();
        sums.permute(&order).reshape(&rows)
    }
}

/// For each softmax the sum of products that is all that is made of it.
pub(super) fn products(order: &[UOp], softmaxes: &[(&UOp, &Softmax)]) -> NodeMap<Product> {
    if softmaxes.is_empty() {
        return NodeMap::default();
    }
    let mut users: NodeMap<SmallVec<[UOp; 2]>> = NodeMap::default();
    for n in order {
        for s in &n.src {
            users.get_or_insert_with(s, SmallVec::new).push(n.clone());
        }
    }
    let found = softmaxes.iter().filter_map(|(n, s)| Some(((*n).clone(), product_of(n, s.axis, &users)?)));
    found.collect()
}

/// Follows what is linear in a softmax up to the sum along its axis.
fn product_of(n: &UOp, axis: usize, users: &NodeMap<SmallVec<[UOp; 2]>>) -> Option<Product> {
    let only = |n: &UOp| match &users.get(n)?[..] {
        [one] => Some(one.clone()),
        _ => None,
    };
    let mut at = n.clone();
    let mut dims: Dims = (0..n.shape().len()).map(Some).collect();
    loop {
        let next = only(&at)?;
        match (next.op, &next.arg) {
            (Op::Cast, _) if next.dtype.is_float() => {}
            (Op::Mul, _) if next.src[0] != next.src[1] => {}
            (Op::Permute, Arg::Axes(a)) => dims = a.iter().map(|i| dims[*i as usize]).collect(),
            (Op::Expand | Op::Reshape, _) => dims = moved(&at, &next, &dims)?,
            (Op::ReduceAxis, Arg::ReduceAxes(Alu::Add, a)) => {
                let ([a], true) = (&a[..], next.shape().len() == dims.len()) else { return None };
                if dims[*a as usize] != Some(axis) {
                    return None;
                }
                dims[*a as usize] = None;
                at = next;
                break;
            }
            _ => return None,
        }
        at = next;
    }
    // what is kept of it may be rounded
    while let Some(next) = only(&at) {
        match next.op {
            Op::Cast if next.dtype.is_float() => {}
            Op::Reshape => match moved(&at, &next, &dims) {
                Some(new) => dims = new,
                None => break,
            },
            _ => break,
        }
        at = next;
    }
    let is_whole = |i: usize| i == axis || n.shape()[i].as_int() == Some(1) || dims.contains(&Some(i));
    (0..n.shape().len()).all(is_whole).then_some(Product { node: at, dims })
}

/// What dims are after they were expanded, or others of size 1 put between them.
fn moved(from: &UOp, to: &UOp, dims: &[Option<usize>]) -> Option<Dims> {
    let is_one = |d: &UOp| d.as_int() == Some(1);
    if to.op == Op::Expand {
        let same = |i: usize| from.shape()[i] == to.shape()[i];
        return Some((0..dims.len()).map(|i| dims[i].filter(|_| same(i))).collect());
    }
    let mut long = (0..dims.len()).filter(|i| !is_one(&from.shape()[*i]));
    let mut new = Dims::new();
    for d in to.shape() {
        new.push(match is_one(d) {
            true => None,
            false => {
                let i = long.next().filter(|i| from.shape()[*i] == *d)?;
                dims[i]
            }
        });
    }
    long.next().is_none().then_some(new)
}
