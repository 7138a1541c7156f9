//! Views: a window on another tensor, by movement alone.
//!
//! ```text
//! x.at(1..).t()   ->   base x, chain [shrink, permute]
//! read            the chain on the node that the base has now
//! write           a new version of the base: stored at the places the chain names, or, where the base is no memory yet,
//!                 chosen by place
//! ```
//!
//! A view holds its base and no node of it: who looks at a tensor does not keep its old versions alive, so an assignment
//! to the base stays in place.

use crate::bitcast::bits_as;
use crate::error::{Result, fail};
use crate::gradient;
use crate::shape::{product, show_all};
use crate::tensor::{Tensor, filled};
use frit_uop::{Arg, DType, Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A tensor seen another way.
#[derive(Clone)]
pub(crate) struct View {
    /// The tensor that has the value; no view itself.
    pub(crate) base: Tensor,
    /// From the base to what is seen, on a [`hole`] in its place.
    steps: SmallVec<[UOp; 4]>,
    /// A leaf of the base's shape and type.
    hole: UOp,
}

/// A leaf that stands for a value of this shape and type.
fn hole(dims: &[UOp], dtype: DType) -> UOp {
    UOp::new(Op::LoopIn, dtype, dims.iter().cloned(), Arg::LoopIn { level: u32::MAX, slot: 0 })
}

/// Whether what is below can be written through it. A `Bitcast` is any change of type, also to wider or narrower elements.
pub(crate) fn is_step(n: &UOp) -> bool {
    n.op.is_movement() || matches!(n.op, Op::Detach | Op::Bitcast)
}

/// The steps from `base` to `top`, innermost first; `None` if there is something else on the way.
pub(crate) fn steps(top: &UOp, base: &UOp) -> Option<SmallVec<[UOp; 4]>> {
    let (mut at, mut found) = (top, SmallVec::new());
    while at != base {
        if !is_step(at) {
            return None;
        }
        found.push(at.clone());
        at = at.input();
    }
    found.reverse();
    Some(found)
}

/// The steps done to another value.
pub(crate) fn apply(steps: &[UOp], base: UOp) -> Result<UOp> {
    steps.iter().try_fold(base, |x, step| {
        if step.op == Op::Bitcast {
            return bits_as(&x, step.dtype);
        }
        let (dtype, mut src) = (x.dtype, step.src.clone());
        src[0] = x;
        Ok(UOp::with(step.op, dtype, src, step.arg.clone()))
    })
}

/// Whether a step makes more or fewer elements of the same bits.
fn resizes(step: &UOp) -> bool {
    step.op == Op::Bitcast && step.dtype.size() != step.input().dtype.size()
}

/// The base as a value, with another one at the places of a view: the inverse of the view, and a choice by place.
pub(crate) fn replaced(base: &UOp, steps: &[UOp], value: &UOp) -> UOp {
    if steps.is_empty() {
        return value.clone();
    }
    let back = |x: UOp| steps.iter().rev().fold(x, |x, s| gradient::movement_back(s, &x));
    let hit = back(filled(value.shape(), UOp::boolean(true)));
    hit.select(&back(value.clone()), base)
}

/// A new version of `base` with `value` at the places of a view of it.
/// If the base is no `place`, as a value.
pub(crate) fn written(op: &'static str, base: &UOp, place: bool, steps: &[UOp], value: &UOp) -> Result<UOp> {
    let seen = apply(steps, base.clone())?;
    if steps.iter().any(|s| s.op == Op::Expand) {
        let dims = show_all(seen.shape());
        return fail!(op, "to a repeated view of shape {dims}: several elements are one place");
    }
    // nothing is there to be written
    if seen.shape().iter().any(|d| d.as_int() == Some(0)) {
        return Ok(base.clone());
    }
    let mut value = value.clone();
    if steps.iter().any(|s| s.op == Op::Detach) {
        value = value.detach();
    }
    let moves = |s: &[UOp]| s.iter().filter(|s| s.op.is_movement()).cloned().collect::<SmallVec<[UOp; 4]>>();
    if let Some(at) = steps.iter().rposition(resizes) {
        let whole = replaced(&apply(&steps[..=at], base.clone())?, &moves(&steps[at + 1..]), &value);
        return written(op, base, place, &steps[..at], &bits_as(&whole, steps[at].input().dtype)?);
    }
    // the same bits at the same places, whatever they mean: so only movement is left
    if seen.dtype != base.dtype {
        value = value.bitcast(base.dtype);
    }
    let moves = moves(steps);
    Ok(match place {
        true if moves.iter().all(|o| o.op != Op::Pad) => {
            base.after([apply(&moves, base.clone())?.store(&value)])
        }
        // a view with padding on its way (steps in a slice) is no place to store to: the base is computed anew
        _ => replaced(base, &moves, &value),
    })
}

/// How far apart neighbours along each dim lie; `None` where that is not known.
#[derive(Clone)]
pub(crate) struct Strides {
    dims: Vec<UOp>,
    by: Vec<Option<UOp>>,
}

impl Strides {
    /// Rows one after the other.
    fn of_rows(dims: &[UOp]) -> Strides {
        let by = (0..dims.len()).map(|i| Some(product(&dims[i + 1..]))).collect();
        Strides { dims: dims.to_vec(), by }
    }
    fn through(self, step: &UOp) -> Strides {
        let dims = step.shape().to_vec();
        let by = match (step.op, &step.arg) {
            (Op::Permute, Arg::Axes(axes)) => axes.iter().map(|&a| self.by[a as usize].clone()).collect(),
            // the repeated element is its own neighbour
            (Op::Expand, _) => {
                let repeated = |i: usize| self.dims[i] != dims[i];
                let by = self.by.into_iter().enumerate();
                by.map(|(i, by)| if repeated(i) { Some(UOp::index(0)) } else { by }).collect()
            }
            (Op::Flip, Arg::Axes(axes)) => {
                let sign = |i: usize| UOp::index(if axes.contains(&(i as u8)) { -1 } else { 1 });
                let turned = |(i, by): (usize, Option<UOp>)| by.map(|by| by.fold_mul(&sign(i)));
                self.by.into_iter().enumerate().map(turned).collect()
            }
            (Op::Reshape, _) => {
                return self.reshaped(&dims).unwrap_or(Strides { by: vec![None; dims.len()], dims });
            }
            (Op::Bitcast, _) if resizes(step) => return Strides::of_rows(&dims),
            _ => self.by,
        };
        Strides { dims, by }
    }
    /// In other dims: runs of dims that lie as one are cut anew. `None` where a new dim would cross from one run to another.
    fn reshaped(&self, dims: &[UOp]) -> Option<Strides> {
        if dims.iter().chain(&self.dims).any(|d| d.as_int() == Some(0)) {
            return Some(Strides::of_rows(dims));
        }
        // dims of one element are in nobody's way
        let solid: Vec<usize> = (0..self.dims.len()).filter(|&i| self.dims[i].as_int() != Some(1)).collect();
        let mut by: Vec<Option<UOp>> = vec![None; dims.len()];
        let (mut left, mut runs) = (dims.len(), solid.iter().rev().peekable());
        while let Some(&i) = runs.next() {
            let (mut size, mut outermost) = (self.dims[i].clone(), i);
            while let Some(&&o) = runs.peek() {
                let reach = self.by[outermost].as_ref().map(|b| b.fold_mul(&self.dims[outermost]));
                if reach.is_none() || reach != self.by[o] {
                    break;
                }
                (size, outermost) = (self.dims[o].fold_mul(&size), o);
                runs.next();
            }
            let mut taken = UOp::index(1);
            while taken != size {
                left = left.checked_sub(1)?;
                by[left] = self.by[i].as_ref().map(|b| b.fold_mul(&taken));
                taken = dims[left].fold_mul(&taken);
                if taken.as_int().zip(size.as_int()).is_some_and(|(t, s)| t > s) {
                    return None;
                }
            }
        }
        Some(Strides { dims: dims.to_vec(), by })
    }
}

impl View {
    /// What `f` makes of a tensor: a view of it, or a value where it is more than a look at it.
    pub(crate) fn of(
        t: &Tensor,
        f: impl FnOnce(&UOp) -> Result<UOp>,
    ) -> Result<std::result::Result<View, UOp>> {
        let view = t.as_view();
        let now = view.as_ref().map_or_else(|| t.peek(), View::form)?;
        let mine = hole(now.shape(), now.dtype);
        let top = f(&mine)?;
        let Some(more) = steps(&top, &mine) else {
            let value = t.uop()?;
            return Ok(Err(top.substitute(&FxHashMap::from_iter([(mine, value)]))));
        };
        Ok(Ok(match view {
            None => View { base: t.clone(), steps: more, hole: mine },
            Some(mut view) => {
                view.steps.extend(more);
                view
            }
        }))
    }
    /// Whether a reshape at the end finds its elements by steps through memory, one size of step for each dim, as torch's
    /// views do. Decided from sizes alone: what is not memory yet counts as rows one after the other.
    pub(crate) fn is_strided(&self) -> bool {
        let Some((last, before)) = self.steps.split_last() else { return true };
        let at = before.iter().fold(self.strides_of_base(), Strides::through);
        last.op != Op::Reshape || at.reshaped(last.shape()).is_some()
    }
    /// Whether it is rows one after the other, as memory of its own would be: then no one can tell it from that.
    pub(crate) fn is_rows(&self) -> bool {
        let at = self.strides();
        at.by == Strides::of_rows(&at.dims).by
    }
    pub(crate) fn strides(&self) -> Strides {
        self.steps.iter().fold(self.strides_of_base(), Strides::through)
    }
    fn strides_of_base(&self) -> Strides {
        self.base.strides_of_part().unwrap_or_else(|| Strides::of_rows(self.hole.shape()))
    }
    /// What is seen now.
    pub(crate) fn node(&self) -> Result<UOp> {
        apply(&self.steps, self.of_base()?)
    }
    /// A node of the shape and type of what is seen now.
    pub(crate) fn form(&self) -> Result<UOp> {
        let base = self.of_base()?;
        match self.steps.last() {
            None => Ok(base),
            Some(last) if !resizes(last) => Ok(last.clone()),
            Some(_) => apply(&self.steps, base),
        }
    }
    fn of_base(&self) -> Result<UOp> {
        let base = self.base.uop()?;
        if base.shape() != self.hole.shape() || base.dtype != self.hole.dtype {
            let (was, is) = (show_all(self.hole.shape()), show_all(base.shape()));
            return fail!("view", "of a tensor of shape {was} that was replaced by one of shape {is}");
        }
        Ok(base)
    }
    /// A new version of the base, with another value in what is seen.
    pub(crate) fn written(&self, op: &'static str, place: bool, value: &UOp) -> Result<UOp> {
        written(op, &self.of_base()?, place, &self.steps, value)
    }
    /// A look at what looks at a tensor, as one at that tensor.
    pub(crate) fn through(self) -> View {
        let Some(mut below) = self.base.as_view() else { return self };
        below.steps.extend(self.steps);
        below
    }
    /// What is seen beyond what another view of the same tensor sees: a view of that.
    pub(crate) fn beyond(&self, seen: &Tensor) -> Option<View> {
        let node = seen.peek().ok()?;
        let steps = match seen.as_view() {
            Some(v) => self.steps.strip_prefix(&v.steps[..])?.into(),
            None => self.steps.clone(),
        };
        Some(View { base: seen.clone(), steps, hole: hole(node.shape(), node.dtype) })
    }
    /// A copy of the base, with another value in what is seen.
    pub(crate) fn written_in(&self, op: &'static str, copy: &UOp, value: &UOp) -> Result<UOp> {
        written(op, copy, false, &self.steps, value)
    }
    /// The same look at nothing in particular: it keeps no tensor alive.
    pub(crate) fn without_base(self) -> View {
        View { base: Tensor::of(Ok(self.hole.clone())), ..self }
    }
    /// The same look at another tensor, with variables bound as they are `now`.
    pub(crate) fn over(&self, base: &Tensor, now: &FxHashMap<UOp, UOp>) -> Tensor {
        let mut view = View { base: base.clone(), ..self.clone() };
        if !now.is_empty() {
            let old = view.steps.iter().chain([&view.hole]).flat_map(UOp::toposort);
            let new = |n: UOp| Some((n.clone(), now.get(n.src.first()?)?.clone()));
            let map = old.filter(|n| n.op == Op::Bind).filter_map(new).collect();
            view.steps = view.steps.iter().map(|s| s.substitute(&map)).collect();
            view.hole = view.hole.substitute(&map);
        }
        Tensor::of_view(view.through())
    }
    /// Whether both look at the same places of one tensor.
    pub(crate) fn is_same(&self, o: &View) -> bool {
        self.base.is_same(&o.base) && self.steps == o.steps
    }
}
