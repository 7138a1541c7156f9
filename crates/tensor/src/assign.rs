//! Assignment: a new version of a tensor, written in place where no one else holds the old one.
//!
//! ```text
//! x.assign(v)        x = After(x, Store(x, v))
//! x.set(idx, v)      x = After(x, Store(view(x), v))
//! x.at(idx).assign   the same: a view writes to its base
//! ```
//!
//! Tensors computed before keep the old values, views see the new one. A tensor that is not memory yet is changed as a
//! value. A version is made from the one before it, one at a time: assignments from several threads all land.

use crate::error::{Result, call, fail};
use crate::index::{Basic, Index, Indices, basic, writable_places};
use crate::operand::Operand;
use crate::realize::{is_disk_place, is_on_disk, store_to_disk};
use crate::shape::{self, show_all};
use crate::tensor::{Inner, Tensor, check_devices, expand_to, filled};
use crate::view;
use crate::watch::{self, Watched};
use frit_abi::fork::Turns;
use frit_abi::sync::Mutex;
use frit_uop::{Alu, DType, Op, ScatterMode, UOp};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::{Arc, Weak};

/// Tensors that were assigned to; some may still be waiting to be computed.
static PENDING: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());

thread_local! {
    static WATCHED: Watched<Tensor> = const { RefCell::new(None) };
}

fn remember(t: &Tensor) {
    WATCHED.with_borrow_mut(|w| {
        if let Some(list) = w.as_mut().filter(|list| !list.iter().any(|o| o.is_same(t))) {
            list.push(t.clone());
        }
    });
    // what a recording assigns to is computed by it, and must not be by another thread
    if !crate::realize::is_recording() {
        wait(t);
    }
}

/// An assignment to a tensor waits to be computed.
pub(crate) fn wait(t: &Tensor) {
    let mut pending = PENDING.lock().unwrap_or_else(|e| e.into_inner());
    // forget the dead and the computed when there are as many as the waiting may be
    if pending.len() >= pending.capacity() {
        pending.retain(|w| w.upgrade().is_some_and(|i| is_to_be_computed(&Tensor(i))));
    }
    pending.push(Arc::downgrade(&t.0));
}

/// Whether an assignment to it is still to be computed.
pub(crate) fn is_pending(t: &Tensor) -> bool {
    t.peek().is_ok_and(|n| {
        let mut n = &n;
        while n.op.is_movement() {
            n = n.input();
        }
        n.op == Op::After && n.realized().is_none()
    })
}

/// The same, also where it was a value that was assigned to, and not a place. What no memory ties to a device is left to
/// whoever wants it on theirs.
fn is_to_be_computed(t: &Tensor) -> bool {
    let waits = |n: &UOp| n.device().is_some() && !crate::realize::is_in_memory(n);
    is_pending(t) || t.peek().is_ok_and(|n| waits(&n))
}

/// Compute every assignment that waits, in whatever tensor. One that fails still waits: whoever looks at it is told.
pub(crate) fn compute_pending() {
    // whoever records must not find another thread at it still
    static ONE: Turns = Turns::new();
    let _one = ONE.take();
    let pending = std::mem::take(&mut *PENDING.lock().unwrap_or_else(|e| e.into_inner()));
    for t in pending.iter().filter_map(Weak::upgrade).map(Tensor).filter(is_to_be_computed) {
        if Tensor::realize_all(&[&t]).is_err() {
            PENDING.lock().unwrap_or_else(|e| e.into_inner()).push(Arc::downgrade(&t.0));
        }
    }
}

/// Run `f` and list the tensors it assigns to on this thread.
pub(crate) fn watch<T>(f: impl FnOnce() -> T) -> (T, Vec<Tensor>) {
    watch::run(&WATCHED, f)
}

/// The tensors assigned to so far.
pub(crate) fn watched() -> Vec<Tensor> {
    WATCHED.with_borrow(|w| w.clone().unwrap_or_default())
}

/// A value brought to the shape and type of the place it goes to.
fn fitted(op: &'static str, v: &Operand, place: &UOp) -> Result<UOp> {
    let x = v.node(op, place.dtype)?;
    let dims = match shape::broadcast(op, place.shape(), x.shape()) {
        Ok(d) if d[..] == *place.shape() => d,
        _ => {
            return fail!(
                op,
                "value of shape {} into shape {}",
                show_all(x.shape()),
                show_all(place.shape())
            );
        }
    };
    // what goes to a file is computed where it is
    if !is_on_disk(place) {
        check_devices(op, &[place.clone(), x.clone()])?;
    }
    Ok(expand_to(&x.cast(place.dtype), &dims))
}

impl Tensor {
    /// Give it a new value, of its shape (or one that broadcasts to it), converted to its type. What was computed from the
    /// old value keeps it. Assigning to a view of another tensor changes that one.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::new([1.0, 2.0, 3.0]);
    /// let (old, view) = (&x + 0.0, x.at(..2));
    /// x.assign(&x * 2.0);
    /// x.at(1..).assign(9.0);
    /// assert_eq!(x.to_vec::<f32>()?, [2.0, 9.0, 9.0]);
    /// assert_eq!(view.to_vec::<f32>()?, [2.0, 9.0]);
    /// assert_eq!(old.to_vec::<f32>()?, [1.0, 2.0, 3.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn assign(&self, value: impl Into<Operand>) -> Tensor {
        let _c = call("assign");
        let value = value.into();
        self.or_failed(self.try_assign(value))
    }
    /// [`assign`](Tensor::assign), for someone who wants an error at once: then the tensor is as it was.
    #[track_caller]
    pub fn try_assign(&self, value: impl Into<Operand>) -> Result<()> {
        let _c = call("assign");
        let value = value.into();
        if let (Operand::Tensor(v), Some(mine)) = (&value, self.as_view())
            && v.as_view().is_some_and(|v| v.is_same(&mine))
        {
            // nothing to store this time; with another value of the same shape there may be
            remember(&self.owner());
            return Ok(());
        }
        self.next_version("assign", |x| fitted("assign", &value, x))
    }
    /// Give it the value that a function makes of the one it has, converted to its type. No other assignment comes
    /// between: updates from several threads all count.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::new([1.0, 2.0]);
    /// x.update(|x| x * 10.0);
    /// assert_eq!(x.to_vec::<f32>()?, [10.0, 20.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn update(&self, f: impl FnOnce(Tensor) -> Tensor) -> Tensor {
        let _c = call("update");
        self.or_failed(self.try_update(f))
    }
    /// [`update`](Tensor::update), for someone who wants an error at once: then the tensor is as it was.
    #[track_caller]
    pub fn try_update(&self, f: impl FnOnce(Tensor) -> Tensor) -> Result<()> {
        let _c = call("update");
        self.next_version("update", |x| fitted("update", &f(Tensor::computed(Ok(x.clone()))).into(), x))
    }
    /// This, or the reason why it is not what it should be.
    fn or_failed(&self, done: Result<()>) -> Tensor {
        if let Err(e) = done {
            // the base must not look as if nothing had been asked of it
            self.owner().set_uop(Err(e));
        }
        self.clone()
    }
    /// Make the next version, with what `f` makes of what is seen here.
    fn next_version(&self, op: &'static str, f: impl FnOnce(&UOp) -> Result<UOp>) -> Result<()> {
        let (owner, view) = (self.owner(), self.as_view());
        let _turn = owner.take_turn();
        if is_on_disk(&owner.peek()?) {
            return self.write_to_disk(op, &f(&self.uop()?)?);
        }
        let value = f(&self.uop()?)?;
        let node = owner.uop()?;
        let place = owner.is_place(&node);
        let new = match &view {
            Some(v) => v.written(op, place, &value)?,
            None => view::written(op, &node, place, &[], &value)?,
        };
        remember(&owner);
        match place {
            true => owner.set_version(Ok(new)),
            false => owner.set_computed(Ok(new)),
        }
        Ok(())
    }
    /// Write a value to a file, now: to where its places lie one after the other, else to the whole file.
    fn write_to_disk(&self, op: &'static str, value: &UOp) -> Result<()> {
        let owner = self.owner();
        let file = owner.uop()?;
        if !owner.is_place(&file) {
            return fail!(op, "to a value on DISK that is no view of a file");
        }
        let Some(view) = self.as_view() else { return store_to_disk(op, &file, value) };
        let place = view.node()?;
        if is_disk_place(op, &place)? {
            return store_to_disk(op, &place, value);
        }
        store_to_disk(op, &file, &view.written_in(op, &file.copy_to("CPU"), value)?)
    }
    /// Write a value at an index: what [`at`](Tensor::at) reads, this writes. Integer tensors write in order, so of
    /// several values for one place the last stays. A bool tensor writes where it is true; it is computed at the call
    /// only if there is a value for each place.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::zeros([2, 3]);
    /// x.set((.., 1), Tensor::new([5.0, 6.0]));
    /// assert_eq!(x.to_vec::<f32>()?, [0.0, 5.0, 0.0, 0.0, 6.0, 0.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn set(&self, idx: impl Into<Indices>, value: impl Into<Operand>) -> Tensor {
        let _c = call("set");
        let (idx, value) = (idx.into(), value.into());
        self.or_failed(self.try_set(idx, value))
    }
    /// [`set`](Tensor::set), for someone who wants an error at once: then the tensor is as it was.
    #[track_caller]
    pub fn try_set(&self, idx: impl Into<Indices>, value: impl Into<Operand>) -> Result<()> {
        let _c = call("set");
        let (idx, value) = (idx.into(), value.into());
        match idx.is_advanced() {
            true => self.next_version("set", |x| put_at("set", x, &idx, &value, ScatterMode::Set)),
            false => {
                let place = self.at(idx);
                place.check()?;
                place.try_assign(value)
            }
        }
    }
    /// This with a value at an index, as a value: [`set`](Tensor::set) on a copy. With `accumulate` values are added,
    /// all of them where several have one place.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::zeros([3]);
    /// assert_eq!(x.index_put([1, 1], 2.0, true).to_vec::<f32>()?, [0.0, 4.0, 0.0]);
    /// assert_eq!(x.index_put(0, 7.0, false).to_vec::<f32>()?, [7.0, 0.0, 0.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn index_put(&self, idx: impl Into<Indices>, value: impl Into<Operand>, accumulate: bool) -> Tensor {
        let _c = call("index_put");
        let (idx, value) = (idx.into(), value.into());
        let mode = if accumulate { ScatterMode::Combine(Alu::Add) } else { ScatterMode::Set };
        self.map(|x| put_at("index_put", x, &idx, &value, mode))
    }
}

/// A tensor with values at the places of an index, as a value.
fn put_at(op: &'static str, x: &UOp, idx: &Indices, value: &Operand, mode: ScatterMode) -> Result<UOp> {
    if let [Index::Tensor(m)] = &idx.0[..]
        && m.dtype() == DType::Bool
        && mode == ScatterMode::Set
        && let Some(new) = chosen(op, x, &m.uop()?, value)?
    {
        return Ok(new);
    }
    let b: Basic = basic(op, x, &crate::mask::without_masks(op, x, idx)?)?;
    let new = match b.tensors.is_empty() {
        true => {
            let v = fitted(op, value, &b.node)?;
            if mode == ScatterMode::Set { v } else { b.node.bin(Alu::Add, &v) }
        }
        false => scattered(op, &b, value, mode)?,
    };
    let Some(steps) = view::steps(&b.node, x) else { return fail!(op, "the index is no view of the tensor") };
    Ok(view::replaced(x, &steps, &new))
}

/// Values where a mask is true, without counting them: if there is one value for all of them.
fn chosen(op: &'static str, x: &UOp, mask: &UOp, value: &Operand) -> Result<Option<UOp>> {
    let rank = mask.shape().len();
    if rank == 0 || rank > x.shape().len() {
        return Ok(None);
    }
    crate::mask::fits(op, mask.shape(), &x.shape()[..rank])?;
    // what it writes: (how many are true, rest…)
    let mut dims: SmallVec<[UOp; 4]> = SmallVec::from_elem(UOp::index(1), 1);
    dims.extend(x.shape()[rank..].iter().cloned());
    let v = value.node(op, x.dtype)?;
    let alike = shape::broadcast(op, v.shape(), &dims).is_ok_and(|d| d == dims);
    if !alike {
        return Ok(None);
    }
    let v = fitted(op, value, &filled(&dims, UOp::int(0, x.dtype)))?.reshape(&dims[1..]);
    let mut lines: SmallVec<[UOp; 4]> = mask.shape().iter().cloned().collect();
    lines.resize(x.shape().len(), UOp::index(1));
    let hit = mask.reshape(&lines).expand(x.shape());
    Ok(Some(hit.select(&expand_to(&v, x.shape()), x)))
}

/// What the basic part of an index sees, with values at the places its index tensors name.
fn scattered(op: &'static str, b: &Basic, value: &Operand, mode: ScatterMode) -> Result<UOp> {
    let (at, moved, before) = writable_places(op, b)?;
    let n = b.tensors.len();
    let m: SmallVec<[UOp; 4]> = at.shape().iter().cloned().collect();
    let rest: SmallVec<[UOp; 4]> = moved.shape()[n..].iter().cloned().collect();
    // what `at` reads: dims before, the index's dims, dims after
    let mut seen: SmallVec<[UOp; 4]> = rest[..before].iter().cloned().collect();
    seen.extend(m.iter().cloned());
    seen.extend(rest[before..].iter().cloned());
    let v = fitted(op, value, &filled(&seen, UOp::int(0, b.node.dtype)))?;
    let axes: Vec<usize> =
        (before..before + m.len()).chain(0..before).chain(before + m.len()..seen.len()).collect();
    let v = v.permute(&axes);
    let flat =
        |lead: UOp| -> SmallVec<[UOp; 4]> { std::iter::once(lead).chain(rest.iter().cloned()).collect() };
    let rows = moved.reshape(&flat(shape::product(&moved.shape()[..n])));
    let count = shape::product(&m);
    let site = crate::error::site(op);
    let at = at.reshape(std::slice::from_ref(&count));
    let new = rows.scatter(&at, &v.reshape(&flat(count)), mode, site);
    // back to where the dims were
    let axes: Vec<usize> = b.tensors.iter().map(|t| t.0).collect();
    let mut order = axes.clone();
    order.extend((0..b.node.shape().len()).filter(|a| !axes.contains(a)));
    let mut back = vec![0; order.len()];
    for (i, &o) in order.iter().enumerate() {
        back[o] = i;
    }
    Ok(new.reshape(moved.shape()).permute(&back))
}
