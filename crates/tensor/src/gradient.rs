//! Gradients as rules on the tensor graph.
//!
//! ```text
//! loss graph + seed  ->  for each node, users first: gradient of the node -> gradients of its sources
//! ```
//!
//! What comes out is graph again, so gradients of gradients are the same walk. A `()` source of a larger node was
//! broadcast, so its gradient is a sum. Masks are `where`, never a multiplication. Ties of max and min share the
//! gradient equally, but in a pool the first has it. Rounding passes a gradient of zero; comparisons, integers and `detach` end the way.

use crate::composite::{add, div, mul, neg, one, sub};
use crate::derivative;
use crate::error::{Result, call, fail};
use crate::gradient_loop;
use crate::index::scatter_along;
use crate::movement::{cut, pad_axis, windows_dilated};
use crate::realize::{cut_history, is_overwritten, settled};
use crate::reduce::{drop_axes, is_first_wins, last_records, reduce_node, zeros_like};
use crate::shape::{dim_sub, product, show_all};
use crate::tensor::{Tensor, expand_to, filled, number};
use frit_uop::graph::toposort_outside;
use frit_uop::{Alu, Arg, DType, Loop, Op, ScatterMode, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{SmallVec, smallvec};

/// For each input of a node: its gradient; `None` where it is zero.
type Grads = SmallVec<[Option<UOp>; 3]>;

/// A gradient that may still have to be summed over its first `lead` dims. Movement carries such dims along, so that
/// the sums of a whole chain (over channels and both window dims of a convolution, say) end as one reduction.
#[derive(Clone)]
struct Gradient {
    node: UOp,
    lead: usize,
}

impl Gradient {
    fn of(node: UOp) -> Gradient {
        Gradient { node, lead: 0 }
    }
    /// The gradient itself, summed.
    fn sum(&self) -> UOp {
        let axes: Vec<usize> = (0..self.lead).collect();
        drop_axes(&reduce_node(&self.node, Alu::Add, &axes), &axes, false)
    }
    /// The dims without those to be summed.
    fn dims(&self) -> &[UOp] {
        &self.node.shape()[self.lead..]
    }
    /// `dims` with those to be summed in front.
    fn under(&self, dims: &[UOp]) -> SmallVec<[UOp; 4]> {
        self.node.shape()[..self.lead].iter().chain(dims).cloned().collect()
    }
    /// The dims in front, then `of` for each.
    fn lead(&self, of: &UOp) -> SmallVec<[UOp; 4]> {
        SmallVec::from_elem(of.clone(), self.lead)
    }
    /// Axes moved to those to be summed; in their place stay dims of size 1 (`keep`) or none.
    fn defer(&self, axes: &[usize], keep: bool) -> Gradient {
        let at: Vec<usize> = axes.iter().map(|a| a + self.lead).collect();
        let rank = self.node.shape().len();
        let mut order: Vec<usize> = (0..self.lead).chain(at.iter().copied()).collect();
        order.extend((self.lead..rank).filter(|a| !at.contains(a)));
        let node = self.node.permute(&order);
        let lead = self.lead + axes.len();
        if !keep {
            return Gradient { node, lead };
        }
        let mut dims: SmallVec<[UOp; 4]> = node.shape()[..lead].iter().cloned().collect();
        let one = UOp::index(1);
        dims.extend(
            self.dims()
                .iter()
                .enumerate()
                .map(|(i, d)| if axes.contains(&i) { one.clone() } else { d.clone() }),
        );
        Gradient { node: node.reshape(&dims), lead }
    }
}

/// The nodes a gradient flows to, with how this node is seen.
enum Kind {
    /// By its own op, to some of its sources.
    Plain(SmallVec<[usize; 3]>),
    /// As windows over an axis.
    Windows(Windows),
}

struct Windows {
    x: UOp,
    axis: usize,
    size: i64,
    step: i64,
    dilation: i64,
}

fn kind(n: &UOp) -> Kind {
    if let Some(w) = recognise_windows(n) {
        return Kind::Windows(w);
    }
    Kind::Plain(match n.op {
        Op::Const
        | Op::Variable
        | Op::Bind
        | Op::Buffer
        | Op::Param
        | Op::Iota
        | Op::LoopIn
        | Op::Detach
        | Op::Bitcast => smallvec![],
        Op::Lt
        | Op::Eq
        | Op::Ne
        | Op::And
        | Op::Or
        | Op::Xor
        | Op::Not
        | Op::Shl
        | Op::Shr
        | Op::Threefry => {
            smallvec![]
        }
        Op::Where => smallvec![1, 2],
        Op::MulAcc => smallvec![0, 1, 2],
        Op::Scatter => smallvec![0, 2],
        Op::After => smallvec![0],
        o if o.is_movement() => smallvec![0],
        Op::ReduceAxis | Op::ScanAxis | Op::Gather | Op::Contiguous | Op::Leaf | Op::Copy | Op::Cast => {
            smallvec![0]
        }
        _ => (0..n.src.len()).collect(),
    })
}

impl Kind {
    fn inputs<'a>(&'a self, n: &'a UOp) -> SmallVec<[&'a UOp; 3]> {
        match self {
            Kind::Windows(w) => smallvec![&w.x],
            Kind::Plain(at) => {
                let mut v: SmallVec<[&UOp; 3]> = at.iter().map(|&i| &n.src[i]).collect();
                if n.op == Op::After {
                    // the values stored count too
                    v.extend(n.src[1..].iter().filter(|s| s.op == Op::Store).map(|s| &s.src[1]));
                }
                v.retain(|s| s.dtype.is_float());
                v
            }
        }
    }
    fn gradients(&self, n: &UOp, g: &Gradient) -> Result<SmallVec<[Option<Gradient>; 3]>> {
        match self {
            Kind::Windows(w) => Ok(smallvec![Some(windows_gradient(w, g))]),
            Kind::Plain(_) if n.op.is_movement() => Ok(smallvec![Some(carry(n, g))]),
            Kind::Plain(_) if matches!(n.op, Op::Contiguous | Op::Leaf) => Ok(smallvec![Some(g.clone())]),
            Kind::Plain(at) => {
                let all = rules(n, &g.sum())?;
                let float = |i: usize| at.get(i).is_none_or(|&s| n.src[s].dtype.is_float());
                let kept = all.into_iter().enumerate().filter(|(i, _)| float(*i));
                Ok(kept.map(|(_, g)| g.map(Gradient::of)).collect())
            }
        }
    }
}

/// The gradients of a node's inputs from its own. The table of all rules.
fn rules(n: &UOp, g: &UOp) -> Result<Grads> {
    let s = |i: usize| &n.src[i];
    let zero = || g.const_like(0);
    let yes = |g: UOp| -> Grads { smallvec![Some(g)] };
    let two = |a: UOp, b: UOp| -> Grads { smallvec![Some(a), Some(b)] };
    Ok(match n.op {
        // arithmetic
        Op::Add => two(g.clone(), g.clone()),
        Op::Sub => two(g.clone(), neg(g)),
        Op::Mul => two(mul(g, s(1)), mul(g, s(0))),
        Op::Fdiv => two(div(g, s(1)), neg(&div(&mul(g, n), s(1)))),
        Op::MulAcc => smallvec![Some(mul(g, s(1))), Some(mul(g, s(0))), Some(g.clone())],
        Op::Neg => yes(neg(g)),
        Op::Trunc | Op::Floor | Op::Round => smallvec![None],
        Op::Idiv | Op::Tdiv => smallvec![None, None],
        Op::Mod => two(g.clone(), neg(&mul(g, &s(0).bin(Alu::Idiv, s(1))))),
        Op::Atan2 => derivative::of_angle(n, g).into_iter().map(Some).collect(),
        Op::Max => tie(g, s(0), s(1), |a, b| a.lt(b)),
        Op::Min => tie(g, s(0), s(1), |a, b| b.lt(a)),
        Op::Pow => power(n, g),
        Op::Where => two(s(0).select(g, &zero()), s(0).select(&zero(), g)),
        Op::Cast => yes(g.cast(s(0).dtype)),
        // movement and contiguous: see `carry`
        Op::Copy => match s(0).device() {
            Some(d) => yes(g.copy_to(&d)),
            None => yes(g.clone()),
        },
        // reductions and scans
        Op::ReduceAxis => yes(reduce(n, g)?),
        Op::ScanAxis => yes(scan(n, g)?),
        // places from data
        Op::Gather => yes(gather(n, g)),
        Op::Scatter => scatter(n, g)?,
        Op::After => assigned(n, g)?,
        o => match derivative::of_unary(n, g) {
            Some(g) => yes(g),
            None => return fail!("gradient", "there is no gradient through {}", o.name()),
        },
    })
}

/// max or min of two: to the winner, half to each of a tie; both get it with NaN, as torch's.
fn tie(g: &UOp, a: &UOp, b: &UOp, loses: impl Fn(&UOp, &UOp) -> UOp) -> Grads {
    let half = a.eq_(b).select(&mul(g, &number(0.5, g.dtype)), g);
    let zero = g.const_like(0);
    smallvec![Some(loses(a, b).select(&zero, &half)), Some(loses(b, a).select(&zero, &half))]
}

/// x^y: `y x^(y-1)`, 0 for y = 0; `x^y log x`, 0 where x = 0 and y >= 0.
fn power(n: &UOp, g: &UOp) -> Grads {
    let (x, y) = (&n.src[0], &n.src[1]);
    let zero = g.const_like(0);
    let dx = mul(g, &mul(y, &x.bin(Alu::Pow, &sub(y, &one(y)))));
    let flat = x.eq_(&x.const_like(0)).and_(&y.lt(&y.const_like(0)).un(Alu::Not));
    // the logarithm of a harmless number where it does not count
    let safe = flat.select(&one(x), x);
    let dy = mul(g, &mul(n, &safe.un(Alu::Log)));
    smallvec![Some(y.eq_(&y.const_like(0)).select(&zero, &dx)), Some(flat.select(&zero, &dy))]
}

/// The six movement ops turned round.
pub(crate) fn movement(n: &UOp, g: &UOp) -> UOp {
    carry(n, &Gradient::of(g.clone())).sum()
}
/// The same for those that show each element once, of any type: each goes where it came from, zeros elsewhere.
pub(crate) fn movement_back(n: &UOp, x: &UOp) -> UOp {
    carry(n, &Gradient::of(x.clone())).node
}

/// The same, with dims that are still to be summed.
fn carry(n: &UOp, g: &Gradient) -> Gradient {
    let x = &n.src[0];
    let (dims, rank, lead) = (x.shape(), x.shape().len(), g.lead);
    let zero = UOp::index(0);
    let padded =
        |v: &[UOp]| -> SmallVec<[UOp; 4]> { g.lead(&zero).into_iter().chain(v.iter().cloned()).collect() };
    let node = match (n.op, &n.arg) {
        (Op::Reshape, _) => g.node.reshape(&g.under(dims)),
        (Op::Expand, _) => {
            let axes: Vec<usize> = (0..rank).filter(|&i| dims[i] != n.shape()[i]).collect();
            return g.defer(&axes, true);
        }
        (Op::Permute, Arg::Axes(a)) => {
            let mut back: Vec<usize> = (0..lead + rank).collect();
            for (i, &p) in a.iter().enumerate() {
                back[lead + p as usize] = lead + i;
            }
            g.node.permute(&back)
        }
        (Op::Pad, _) => g.node.shrink(&padded(&n.src[1..1 + rank]), &g.under(dims)),
        (Op::Shrink, _) => {
            let (begin, size) = (&n.src[1..1 + rank], &n.src[1 + rank..]);
            let after: Vec<UOp> =
                (0..rank).map(|i| dim_sub(&dims[i], &begin[i].fold_add(&size[i]))).collect();
            g.node.pad(&padded(begin), &padded(&after))
        }
        (Op::Flip, Arg::Axes(a)) => g.node.flip(&a.iter().map(|&i| lead + i as usize).collect::<Vec<_>>()),
        _ => g.node.clone(),
    };
    Gradient { node, lead }
}

fn reduce(n: &UOp, g: &UOp) -> Result<UOp> {
    let x = &n.src[0];
    let Arg::ReduceAxes(alu, axes) = &n.arg else { return fail!("gradient", "a reduction without axes") };
    let axes: Vec<usize> = axes.iter().map(|&a| a as usize).collect();
    let back = |v: &UOp| expand_to(v, x.shape());
    match alu {
        Alu::Add => Ok(back(g)),
        Alu::Max | Alu::Min => {
            // NaN wins, and is not equal to itself
            let hit = x.eq_(&back(n)).or_(&x.ne_(x));
            if is_first_wins(x) {
                let dims = x.shape().iter().enumerate();
                let along: SmallVec<[UOp; 4]> =
                    dims.map(|(i, d)| if axes.contains(&i) { d.clone() } else { UOp::index(1) }).collect();
                let places = UOp::iota(&product(&along), DType::I32).reshape(&along).expand(x.shape());
                let first = hit.select(&places, &UOp::int(i32::MAX as i64, DType::I32));
                let hit = places.eq_(&back(&first.reduce_axes(Alu::Min, &axes)));
                return Ok(hit.select(&back(g), &g.const_like(0)));
            }
            let count = reduce_node(&hit.cast(g.dtype), Alu::Add, &axes);
            Ok(hit.select(&back(&div(g, &count)), &g.const_like(0)))
        }
        Alu::Mul => {
            // the product of all others: of those before times those after, right with zeros too
            let rank = x.shape().len();
            let mut order: Vec<usize> = (0..rank).filter(|a| !axes.contains(a)).collect();
            let kept: Vec<UOp> = order.iter().map(|&a| x.shape()[a].clone()).collect();
            order.extend(&axes);
            let moved = x.permute(&order);
            let mut flat: SmallVec<[UOp; 4]> = kept.iter().cloned().collect();
            flat.push(product(&axes.iter().map(|&a| x.shape()[a].clone()).collect::<Vec<_>>()));
            let (v, last) = (moved.reshape(&flat), flat.len() - 1);
            let before = exclusive(&v, last);
            let after = exclusive(&v.flip(&[last]), last).flip(&[last]);
            let others = mul(&before, &after).reshape(moved.shape());
            let mut inverse = vec![0; rank];
            for (i, &o) in order.iter().enumerate() {
                inverse[o] = i;
            }
            Ok(mul(&back(g), &others.permute(&inverse)))
        }
        a => fail!("gradient", "there is no gradient through a reduction by {a:?}"),
    }
}

/// Running product of the elements before each, 1 for the first.
fn exclusive(v: &UOp, axis: usize) -> UOp {
    let (n, unit, zero) = (&v.shape()[axis], UOp::index(1), UOp::index(0));
    if n.as_int() == Some(0) {
        return v.clone();
    }
    let shifted = pad_axis(&cut(v, axis, &zero, &dim_sub(n, &unit)), axis, &unit, &zero);
    let place = crate::reduce::along_axis(&UOp::iota(n, DType::I32), v.shape(), axis);
    place.eq_(&UOp::int(0, DType::I32)).select(&one(v), &shifted).scan_axis(Alu::Mul, axis)
}

fn scan(n: &UOp, g: &UOp) -> Result<UOp> {
    let x = &n.src[0];
    let Arg::ReduceAxes(alu, axes) = &n.arg else { return fail!("gradient", "a scan without an axis") };
    let axis = axes.first().copied().unwrap_or(0) as usize;
    let from_end = |v: &UOp| v.flip(&[axis]).scan_axis(Alu::Add, axis).flip(&[axis]);
    match alu {
        Alu::Add => Ok(from_end(g)),
        Alu::Max | Alu::Min => {
            let at = last_records(x, n, axis);
            scatter_along("gradient", &zeros_like(x), axis, &at, g, ScatterMode::Combine(Alu::Add))
        }
        Alu::Mul => {
            // to the left of the first zero divide; at it, the product with a one in its place; to the right nothing
            let zero = x.const_like(0);
            let is_zero = x.eq_(&zero);
            let seen = is_zero.cast(DType::I32).scan_axis(Alu::Add, axis);
            let first = is_zero.and_(&seen.eq_(&seen.const_like(1)));
            let without = first.select(&one(x), x).scan_axis(Alu::Mul, axis);
            let at_first = from_end(&mul(g, &without));
            let left = div(&from_end(&mul(g, n)), &is_zero.select(&one(x), x));
            let left = seen.eq_(&seen.const_like(0)).select(&left, &zero);
            Ok(first.select(&at_first, &left))
        }
        a => fail!("gradient", "there is no gradient through a scan by {a:?}"),
    }
}

/// Rows picked: their gradients are added up where they came from.
fn gather(n: &UOp, g: &UOp) -> UOp {
    let (x, idx) = (&n.src[0], &n.src[1]);
    let site = match n.arg {
        Arg::Site(s) => s,
        _ => 0,
    };
    let m = product(idx.shape());
    let mut dims: SmallVec<[UOp; 4]> = smallvec![m.clone()];
    dims.extend(x.shape()[1..].iter().cloned());
    let add_up = ScatterMode::Combine(Alu::Add);
    let acc = if x.dtype.is_small_float() { DType::F32 } else { x.dtype };
    filled(x.shape(), UOp::int(0, acc))
        .scatter(&idx.reshape(&[m]), &g.cast(acc).reshape(&dims), add_up, site)
        .cast(x.dtype)
}

/// What is computed stays in memory before elements of it are picked: at a place from data nothing of it is shared, and
/// a long way behind it would be computed for each of its branches again.
fn computed_once(x: &UOp) -> UOp {
    let mut at = x;
    while at.op.is_movement() {
        at = &at.src[0];
    }
    let stands = matches!(at.op, Op::Const | Op::Buffer | Op::Param | Op::Iota | Op::After | Op::Contiguous);
    if stands { x.clone() } else { x.contiguous() }
}

fn scatter(n: &UOp, g: &UOp) -> Result<Grads> {
    let Arg::Scatter(mode, site) = n.arg else { return fail!("gradient", "a scatter without a mode") };
    let (base, idx, val) = (&n.src[0], &n.src[1], &n.src[2]);
    let picked = |x: &UOp| computed_once(x).gather(idx, site);
    let zero = g.const_like(0);
    Ok(match mode {
        ScatterMode::Combine(Alu::Add) => smallvec![Some(g.clone()), Some(picked(g))],
        ScatterMode::Set => {
            // only the last value that went to a place has a gradient
            let m = &idx.shape()[0];
            let mine = UOp::iota(m, DType::I32);
            let rows = &base.shape()[..1];
            let winner = filled(rows, UOp::int(-1, DType::I32)).scatter(idx, &mine, ScatterMode::Set, site);
            let won = picked(&winner).eq_(&mine);
            let written = winner.lt(&UOp::int(0, DType::I32)).un(Alu::Not);
            let over_rows = |v: &UOp, dims: &[UOp]| {
                let mut d: SmallVec<[UOp; 4]> = SmallVec::from_elem(UOp::index(1), dims.len());
                d[0] = dims[0].clone();
                v.reshape(&d).expand(dims)
            };
            smallvec![
                Some(over_rows(&written, base.shape()).select(&zero, g)),
                Some(over_rows(&won, val.shape()).select(&picked(g), &zero))
            ]
        }
        ScatterMode::Combine(Alu::Max | Alu::Min) => {
            let (from_base, from_val) = (base.eq_(n), val.eq_(&picked(n)));
            let count = from_base.cast(g.dtype).scatter(
                idx,
                &from_val.cast(g.dtype),
                ScatterMode::Combine(Alu::Add),
                site,
            );
            let share = div(g, &count);
            smallvec![Some(from_base.select(&share, &zero)), Some(from_val.select(&picked(&share), &zero))]
        }
        ScatterMode::Combine(Alu::Mul) => {
            // the product of all others: nothing if another is zero, else that of all that are not zero, without itself
            let is_zero = |x: &UOp| x.eq_(&x.const_like(0));
            let safe = |x: &UOp| is_zero(x).select(&one(x), x);
            let product = safe(base).scatter(idx, &safe(val), mode, site);
            let count = |x: &UOp| is_zero(x).cast(DType::I32);
            let zeros = count(base).scatter(idx, &count(val), ScatterMode::Combine(Alu::Add), site);
            let others = |x: &UOp, product: &UOp, zeros: &UOp| {
                let alone = zeros.eq_(&count(x));
                alone.select(&div(product, &safe(x)), &product.const_like(0))
            };
            smallvec![
                Some(mul(g, &others(base, &product, &zeros))),
                Some(mul(&picked(g), &others(val, &picked(&product), &picked(&zeros))))
            ]
        }
        ScatterMode::Combine(a) => {
            return fail!("gradient", "there is no gradient through a scatter by {a:?}");
        }
    })
}

/// An assignment: the stored value gets the gradient of its places, the old version that of the others.
fn assigned(n: &UOp, g: &UOp) -> Result<Grads> {
    let base = &n.src[0];
    let mut left = g.clone();
    let mut values: Grads = smallvec![];
    for store in n.src[1..].iter().rev().filter(|s| s.op == Op::Store) {
        let (target, value) = (&store.src[0], &store.src[1]);
        let mut chain = vec![];
        let mut at = target;
        while at != base && at.op.is_movement() {
            chain.push(at);
            at = &at.src[0];
        }
        if at != base {
            return fail!("gradient", "there is no gradient through a store to another tensor's memory");
        }
        let mut seen = left.clone();
        for op in chain.iter().rev() {
            let mut src = op.src.clone();
            src[0] = seen;
            seen = UOp::new(op.op, left.dtype, src, op.arg.clone());
        }
        let hit =
            chain.iter().fold(filled(target.shape(), UOp::int(1, DType::I32)), |m, op| movement(op, &m));
        let hit = hit.ne_(&UOp::int(0, DType::I32));
        left = hit.select(&left.const_like(0), &left);
        if value.dtype.is_float() {
            values.push(Some(seen));
        }
    }
    let mut all: Grads = smallvec![Some(left)];
    all.extend(values.into_iter().rev());
    Ok(all)
}

/// The parameters of overlapping windows, if this node is what [`windows_dilated`] makes of them.
fn recognise_windows(n: &UOp) -> Option<Windows> {
    if !matches!(n.op, Op::Shrink | Op::Reshape) || n.shape().len() < 2 {
        return None;
    }
    // down to the expansion
    let (mut at, mut between) = (n, vec![]);
    while matches!(at.op, Op::Shrink | Op::Reshape) && between.len() < 7 {
        between.push(at);
        at = &at.src[0];
    }
    let expand = (at.op == Op::Expand).then_some(at)?;
    let lifted = (expand.src[0].op == Op::Reshape).then_some(&expand.src[0])?;
    let x = &lifted.src[0];
    let rank = x.shape().len();
    if n.shape().len() != rank + 1 || lifted.shape().len() != rank + 1 {
        return None;
    }
    let axis = (0..=rank).find(|&i| lifted.shape()[i] != expand.shape()[i])?;
    let len = x.shape().get(axis)?.as_int()?;
    let size = n.shape()[axis].as_int()?;
    // the shape with rows is the first reshape above the flat one; that with steps has one more dim
    let reshapes = || between.iter().rev().filter(|b| b.op == Op::Reshape);
    let dilation = reshapes().nth(1)?.shape().get(axis + 1)?.as_int()?.checked_rem(len)?;
    let stepped = reshapes().find(|b| b.shape().len() == rank + 2);
    let step = stepped.map_or(Some(1), |b| b.shape()[axis + 2].as_int())?;
    if size < 2 || step == 0 || dilation == 0 || dilation * (size - 1) + 1 > len {
        return None;
    }
    (windows_dilated(x, axis, size, step, dilation) == *n).then(|| Windows {
        x: x.clone(),
        axis,
        size,
        step,
        dilation,
    })
}

/// Overlapping windows turned round, as windows over the padded gradient: each element gathers from the windows it
/// was in, `sum over k of g[k, (j - k * dilation) / step]`. Where that is a product with weights that are the same in
/// all windows, the other factor is padded alone: a convolution of the padded gradient.
fn windows_gradient(w: &Windows, gradient: &Gradient) -> Gradient {
    let (axis, lead) = (w.axis + gradient.lead, gradient.lead);
    let Some((a, b)) = factors(&gradient.node, axis + 1) else {
        return turn_windows(w, &gradient.node, lead);
    };
    let turned = turn_windows(w, &a, lead);
    let weights = cut(&b, axis + 1, &UOp::index(0), &UOp::index(1)).flip(&[axis]);
    let weights = Gradient { node: weights, lead }.defer(&[w.axis], false).node;
    let node = mul(&turned.node, &weights.expand(turned.node.shape()));
    Gradient { node, lead: turned.lead }
}

fn turn_windows(w: &Windows, g: &UOp, lead: usize) -> Gradient {
    let (k, s, d) = (w.size, w.step, w.dilation);
    let mut g = g.clone();
    let axis = w.axis + lead;
    let dims: SmallVec<[UOp; 8]> = g.shape()[..lead].iter().chain(w.x.shape()).cloned().collect();
    let n = dims[axis].as_int().unwrap_or(0);
    let o = g.shape()[axis + 1].as_int().unwrap_or(0);
    let zero = UOp::index(0);
    let at = |mid: &[i64]| -> SmallVec<[UOp; 4]> {
        let mid = mid.iter().map(|&m| UOp::index(m));
        dims[..axis].iter().cloned().chain(mid).chain(dims[axis + 1..].iter().cloned()).collect()
    };
    // zeros between the steps
    let reach = (o - 1) * s + 1;
    if s > 1 {
        g = pad_axis(&g.reshape(&at(&[k, o, 1])), axis + 2, &zero, &UOp::index(s - 1))
            .reshape(&at(&[k, o * s]));
        g = cut(&g, axis + 1, &zero, &UOp::index(reach));
    }
    let (side, used) = ((k - 1) * d, reach + (k - 1) * d);
    let row = reach + 2 * side;
    let rows = pad_axis(&g, axis + 1, &UOp::index(side), &UOp::index(side)).flip(&[axis]);
    let flat = pad_axis(&rows.reshape(&at(&[k * row])), axis, &zero, &UOp::index(k * d));
    let skewed = cut(&flat.reshape(&at(&[k, row + d])), axis + 1, &zero, &UOp::index(used));
    let skewed = Gradient { node: skewed, lead }.defer(&[w.axis], false);
    let node = pad_axis(&skewed.node, axis + 1, &zero, &UOp::index(n - used));
    Gradient { node, lead: skewed.lead }
}

/// A product under movement as the product of its factors moved likewise, the second the same all along an axis.
fn factors(g: &UOp, axis: usize) -> Option<(UOp, UOp)> {
    let (mut at, mut moved) = (g, vec![]);
    while matches!(at.op, Op::Reshape | Op::Permute | Op::Flip | Op::Shrink) {
        moved.push(at);
        at = &at.src[0];
    }
    let [a, b] = (at.op == Op::Mul).then_some(&at.src[..])? else { return None };
    let again = |x: &UOp| {
        let x = if x.shape().is_empty() { expand_to(x, at.shape()) } else { x.clone() };
        moved.iter().rev().fold(x, |x, m| {
            let mut src = m.src.clone();
            src[0] = x;
            m.with_src(src)
        })
    };
    let (a, b) = (again(a), again(b));
    match (is_same_along(&a, axis), is_same_along(&b, axis)) {
        (_, true) => Some((a, b)),
        (true, false) => Some((b, a)),
        (false, false) => None,
    }
}

/// Whether a value was repeated along an axis.
fn is_same_along(x: &UOp, axis: usize) -> bool {
    let size = |x: &UOp, axis: usize| x.shape()[axis].as_int();
    match x.op {
        Op::Expand if size(&x.src[0], axis) == Some(1) => true,
        Op::Expand | Op::Flip | Op::Shrink => is_same_along(&x.src[0], axis),
        Op::Permute => match &x.arg {
            Arg::Axes(order) => is_same_along(&x.src[0], order[axis] as usize),
            _ => false,
        },
        // the axis of the same size with as much before it
        Op::Reshape => {
            let before = |x: &UOp, axis: usize| product(&x.shape()[..axis]);
            let from = &x.src[0];
            (0..from.shape().len())
                .find(|&i| before(from, i) == before(x, axis) && from.shape()[i] == x.shape()[axis])
                .is_some_and(|i| is_same_along(from, i))
        }
        _ => false,
    }
}

/// A gradient brought to the shape and type of what it belongs to: summed where that was broadcast.
fn fit(g: Gradient, x: &UOp) -> Gradient {
    if g.node.dtype == x.dtype && g.dims() == x.shape() {
        return g;
    }
    let g = g.sum().cast(x.dtype);
    if x.shape().is_empty() {
        let axes: Vec<usize> = (0..g.shape().len()).collect();
        return Gradient::of(reduce_node(&g, Alu::Add, &axes).reshape(&[]));
    }
    Gradient::of(expand_to(&g, x.shape()))
}

/// The gradients on their way, of what has been reached.
#[derive(Default)]
struct Way {
    grads: FxHashMap<UOp, Gradient>,
    /// Connected, if only by zeros.
    touched: FxHashSet<UOp>,
}

impl Way {
    fn reach(&mut self, x: &UOp, g: Option<Gradient>) {
        self.touched.insert(x.clone());
        let Some(g) = g else { return };
        let g = fit(g, x);
        let sum = match self.grads.get(x) {
            Some(have) => Gradient::of(add(&have.sum(), &g.sum())),
            None => g,
        };
        self.grads.insert(x.clone(), sum);
    }
    /// Through a loop: all its results at once, once all of them have been met.
    fn through(&mut self, l: &Loop, leads: &FxHashMap<UOp, bool>) -> Result<()> {
        let leads = |x: &UOp| x.dtype.is_float() && leads.get(x).copied().unwrap_or(false);
        let wanted: Vec<bool> = l.inputs().iter().map(leads).collect();
        let of: Vec<Option<UOp>> =
            (0..l.results().len()).map(|i| self.grads.get(&l.out(i)).map(|g| g.sum())).collect();
        let found = gradient_loop::gradients(l, &of, &wanted)?;
        for ((x, wanted), g) in l.inputs().iter().zip(wanted).zip(found) {
            if wanted {
                self.reach(x, g.map(Gradient::of));
            }
        }
        Ok(())
    }
}

/// Gradients of what `roots` (with the gradients of something with respect to each) make up, with respect to targets;
/// `None` where nothing depends on one.
pub(crate) fn differentiate(roots: &[(UOp, UOp)], targets: &[UOp]) -> Result<Vec<Option<UOp>>> {
    let order = toposort_outside(&roots.iter().map(|r| r.0.clone()).collect::<Vec<_>>());
    // a target may have been computed since: then it is memory now
    let is_now = |n: &UOp, t: &UOp| t == n || n.realized() == Some(t) || settled(n).as_ref() == Some(t);
    let is_target = |n: &UOp| targets.iter().any(|t| is_now(n, t));
    let mut kinds: FxHashMap<UOp, Kind> = FxHashMap::default();
    let mut leads: FxHashMap<UOp, bool> = FxHashMap::default();
    for n in &order {
        let led = |x: &UOp| leads.get(x).copied().unwrap_or(false);
        if matches!(n.op, Op::Loop | Op::LoopOut) {
            let on_the_way = n.inputs().iter().any(led);
            leads.insert(n.clone(), on_the_way || is_target(n));
        } else if n.dtype.is_float() && n.try_shape().is_some() {
            let k = kind(n);
            let on_the_way = k.inputs(n).into_iter().any(led);
            leads.insert(n.clone(), on_the_way || is_target(n));
            if on_the_way {
                kinds.insert(n.clone(), k);
            }
        }
    }
    let mut way = Way::default();
    for (root, seed) in roots {
        way.reach(root, Some(Gradient::of(seed.clone())));
    }
    for n in order.iter().rev().filter(|n| n.op == Op::Loop || n.dtype.is_float()) {
        if !way.touched.contains(n) {
            continue;
        }
        let led = |x: &UOp| leads.get(x).copied().unwrap_or(false);
        if let Some(l) = Loop::of(n) {
            way.through(&l, &leads)?;
        } else if n.op == Op::LoopOut && led(&n.src[0]) {
            way.touched.insert(n.src[0].clone());
        }
        let Some(k) = kinds.get(n) else { continue };
        let found = match way.grads.get(n).cloned() {
            Some(g) => k.gradients(n, &g)?,
            None => SmallVec::new(),
        };
        for (i, x) in k.inputs(n).into_iter().enumerate().filter(|(_, x)| led(x)) {
            way.reach(x, found.get(i).cloned().flatten());
        }
    }
    let of = |t: &UOp| {
        let mut total: Option<UOp> = None;
        let mut connected = false;
        for n in order.iter().filter(|n| is_now(n, t)) {
            connected |= way.touched.contains(n);
            if let Some(g) = way.grads.get(n) {
                total = Some(total.map_or(g.sum(), |t| add(&t, &g.sum())));
            }
        }
        total.or_else(|| connected.then(|| zeros_like(t)))
    };
    Ok(targets.iter().map(of).collect())
}

/// Everything a node is made of, but for what is behind a `detach`.
fn lineage(root: &UOp) -> Vec<UOp> {
    let (mut found, mut seen, mut stack) = (vec![], FxHashSet::default(), vec![root]);
    while let Some(n) = stack.pop() {
        if seen.insert(n) {
            found.push(n.clone());
            stack.extend(n.inputs().iter().filter(|_| n.op != Op::Detach));
        }
    }
    found
}

impl Tensor {
    /// Gradients of this scalar with respect to tensors, as tensors: graph again, so of any order.
    ///
    /// A tensor it does not depend on is an error; [`Tensor::gradient_or_zeros`] gives zeros.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::new([1.0, 2.0, 3.0]);
    /// let g = x.pow(3).sum(..).gradient(&[&x])?;
    /// assert_eq!(g[0].to_vec::<f32>()?, [3.0, 12.0, 27.0]);
    /// let h = g[0].sum(..).gradient(&[&x])?;
    /// assert_eq!(h[0].to_vec::<f32>()?, [6.0, 12.0, 18.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn gradient(&self, targets: &[&Tensor]) -> Result<Vec<Tensor>> {
        let _c = call("gradient");
        self.gradients(None, targets, false)
    }
    /// [`Tensor::gradient`] with zeros for what this does not depend on.
    #[track_caller]
    pub fn gradient_or_zeros(&self, targets: &[&Tensor]) -> Result<Vec<Tensor>> {
        let _c = call("gradient");
        self.gradients(None, targets, true)
    }
    /// Gradients of a tensor of any shape, given the gradient of something with respect to it.
    #[track_caller]
    pub fn gradient_with(&self, seed: &Tensor, targets: &[&Tensor]) -> Result<Vec<Tensor>> {
        let _c = call("gradient");
        self.gradients(Some(seed), targets, false)
    }
    /// [`Tensor::gradient_with`] with zeros for what this does not depend on.
    #[track_caller]
    pub fn gradient_with_or_zeros(&self, seed: &Tensor, targets: &[&Tensor]) -> Result<Vec<Tensor>> {
        let _c = call("gradient");
        self.gradients(Some(seed), targets, true)
    }
    fn gradients(&self, seed: Option<&Tensor>, targets: &[&Tensor], zeros: bool) -> Result<Vec<Tensor>> {
        let root = self.uop()?;
        if !root.dtype.is_float() {
            return fail!("gradient", "of {} values; only floats have gradients", root.dtype);
        }
        let seed = match seed {
            Some(s) => {
                let s = s.uop()?;
                if s.shape() != root.shape() {
                    return fail!(
                        "gradient",
                        "seed {} for shape {}",
                        show_all(s.shape()),
                        show_all(root.shape())
                    );
                }
                s.cast(root.dtype)
            }
            None if root.shape().iter().all(|d| d.as_int() == Some(1)) => filled(root.shape(), one(&root)),
            None => {
                return fail!(
                    "gradient",
                    "of shape {}, not a scalar: reduce it first",
                    show_all(root.shape())
                );
            }
        };
        let nodes: Vec<UOp> = targets.iter().map(|t| t.uop()).collect::<Result<_>>()?;
        if let Some(t) = nodes.iter().find(|t| !t.dtype.is_float()) {
            return fail!("gradient", "with respect to {} values; only floats have gradients", t.dtype);
        }
        let found = differentiate(&[(root.clone(), seed)], &nodes)?;
        let lineage = lineage(&root);
        found
            .into_iter()
            .zip(&nodes)
            .enumerate()
            .map(|(i, (g, t))| {
                if let Some(g) = g {
                    return Ok(Tensor::of(Ok(g)));
                }
                if is_overwritten(&lineage, t) {
                    return fail!(
                        "gradient",
                        "target {i} of shape {} was assigned to since this was made of it",
                        show_all(t.shape())
                    );
                }
                if let Some(at) = cut_history(&lineage, t) {
                    let (file, line) = (at.file(), at.line());
                    return fail!(
                        "gradient",
                        "realised at {file}:{line} before its gradient was built (target {i}, shape {})",
                        show_all(t.shape())
                    );
                }
                if zeros {
                    return Ok(Tensor::of(Ok(zeros_like(t))));
                }
                fail!(
                    "gradient",
                    "does not depend on target {i} of shape {} (gradient_or_zeros gives zeros)",
                    show_all(t.shape())
                )
            })
            .collect()
    }
    /// An error where this was made of an earlier version of one of these: its gradient would go to nobody.
    pub fn check_lineage(&self, of: &[Tensor]) -> Result<()> {
        let lineage = lineage(&self.uop()?);
        match of.iter().find(|t| t.peek().is_ok_and(|n| is_overwritten(&lineage, &n))) {
            Some(t) => {
                fail!("backward", "a tensor of shape {} was assigned to since this was made of it", t.shape())
            }
            None => Ok(()),
        }
    }
    /// Whether something that this is made of was made of `t`, and realised: then no gradient goes there.
    pub fn is_cut_off_from(&self, t: &Tensor) -> Result<bool> {
        Ok(cut_history(&lineage(&self.uop()?), &t.peek()?).is_some())
    }
    /// The nodes that this is made of, but for what is behind a `detach`.
    pub fn lineage(&self) -> Result<Vec<UOp>> {
        Ok(lineage(&self.uop()?))
    }
    /// Add the gradients of this scalar to `.grad()` of every tensor marked with `requires_grad` that it depends on.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let w = Tensor::new([1.0, 2.0]).requires_grad(true);
    /// (&w * &w).sum(..).backward()?;
    /// (&w * 10).sum(..).backward()?;
    /// assert_eq!(w.grad().unwrap().to_vec::<f32>()?, [12.0, 14.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn backward(&self) -> Result<()> {
        let _c = call("backward");
        let root = self.uop()?;
        let lineage = lineage(&root);
        let nodes: FxHashSet<UOp> = lineage.iter().cloned().collect();
        let values: FxHashSet<&UOp> = nodes.iter().filter_map(|n| n.realized()).collect();
        let marked = crate::tensor::marked();
        let here = |t: &&Tensor| t.peek().is_ok_and(|u| nodes.contains(&u) || values.contains(&u));
        let wanted: Vec<&Tensor> = marked.iter().filter(here).collect();
        self.check_lineage(&marked)?;
        if wanted.is_empty() {
            let cut = marked.iter().find_map(|t| cut_history(&lineage, &t.peek().ok()?));
            return match cut {
                Some(at) => {
                    fail!("backward", "realised at {}:{} before its gradient was built", at.file(), at.line())
                }
                None => fail!("backward", "depends on no tensor marked with requires_grad"),
            };
        }
        // a marked tensor that is reached only by a way without gradients gets zeros
        for (p, g) in wanted.iter().zip(self.gradients(None, &wanted, true)?) {
            p.set_grad(Some(match p.grad() {
                Some(have) => have + g,
                None => g,
            }));
        }
        Ok(())
    }
}
