//! Where description becomes numbers: the only file that calls the engine.

use crate::creation::Element;
use crate::error::{Error, Kind, Result, call, current, fail, here};
use crate::history;
use crate::tensor::{Tensor, is_memory};
use frit_abi::{Target, record};
use frit_uop::{DType, Op, Scalar, UOp};
use frit_uop::{origin, promote};
use rustc_hash::FxHashSet;
use std::path::Path;
use std::sync::Arc;

pub use frit_engine::Blob;
pub use frit_engine::memory::Versions;
pub use frit_engine::progress::Progress;
pub use frit_engine::record::{Recording, Scope, UserSpan, named_scope, user_span as span};
pub use frit_engine::run::{Lent, LentThere};

fn engine<T>(op: &'static str, r: std::result::Result<T, frit_engine::Error>) -> Result<T> {
    r.map_err(|e| {
        let kind = match e {
            frit_engine::Error::Index(_) => Kind::Index,
            frit_engine::Error::Interrupted => Kind::Interrupted,
            _ => Kind::General,
        };
        Error::of_call(op, e.to_string()).of_kind(kind)
    })
}

/// An error where the program asked long work to end: for loops on the host, whose steps are short.
pub fn check_interrupt() -> Result<()> {
    engine("realize", frit_engine::interrupt::check().map_err(frit_engine::Error::from))
}

/// Memory on the default device with these bytes.
pub(crate) fn from_bytes(dtype: DType, len: usize, bytes: &[u8]) -> Result<UOp> {
    let device = default_device()?;
    engine("new", frit_engine::from_bytes(&device, dtype, len, bytes))
}
/// Memory on the default device over bytes that someone else owns.
pub(crate) fn from_blob(dtype: DType, blob: &Blob) -> Result<UOp> {
    let device = default_device()?;
    engine("from_blob", frit_engine::from_blob(&device, dtype, blob))
}
/// The default device of this thread.
pub(crate) fn default_device() -> Result<Arc<str>> {
    engine("device", frit_engine::default_device())
}
/// The device's proper name, or an error that lists those there are.
pub(crate) fn check_device(name: &str) -> Result<Arc<str>> {
    engine("device", frit_engine::devices::canonical(name))
}
/// The first elements of a file, which is made or made longer where it has fewer.
pub(crate) fn on_disk(path: &Path, dtype: DType, len: usize) -> Result<UOp> {
    engine("on_disk", frit_engine::disk::open(path, dtype, len))
}
/// A value as the first bytes of a file.
pub(crate) fn save_to_disk(path: &Path, value: &UOp) -> Result<UOp> {
    engine("to", frit_engine::disk::save(path, value))
}
/// Whether it is memory of a file, or computed of some.
pub(crate) fn is_on_disk(x: &UOp) -> bool {
    x.device().is_some_and(|d| *d == *frit_engine::disk::NAME)
}
/// The file that `disk:/path` names.
pub(crate) fn disk_path(device: &str) -> Option<&Path> {
    frit_engine::disk::path_of(device)
}
/// Whether bytes of a file lie one after the other.
pub(crate) fn is_disk_place(op: &'static str, x: &UOp) -> Result<bool> {
    engine(op, frit_engine::disk::is_place(x))
}
/// Write a value to a place in a file, now.
pub(crate) fn store_to_disk(op: &'static str, place: &UOp, value: &UOp) -> Result<()> {
    engine(op, frit_engine::disk::store(place, value))
}
/// Bytes of a file as elements of another size.
pub(crate) fn disk_bits(x: &UOp, dtype: DType, dims: &[UOp]) -> Result<UOp> {
    engine("bitcast", frit_engine::disk::bits_as(x, dtype, dims))
}
/// Values in memory.
pub(crate) fn realize_nodes(nodes: &[UOp]) -> Result<Vec<UOp>> {
    let _recorded = realizing("realize");
    engine("realize", frit_engine::realize(nodes))
}

/// Note which part of the user's program makes a node, where someone wants to know.
#[inline]
pub(crate) fn record_line(node: &UOp) {
    if !record::is_quiet() {
        frit_engine::record::ask();
        if !record::origins() {
            return;
        }
        let made = current().map(|(op, at)| (op, frit_uop::site::line_of(at)));
        origin::note(node, || made.as_ref().map(|(op, (file, line))| format!("{op} at {file}:{line}")));
        if let Some((op, (file, line))) = made.filter(|_| record::compiles()) {
            frit_engine::record::line(node, op, (&file, line), origin::open().as_deref().unwrap_or(""));
        }
    }
}
/// What is computed until the guard is dropped is computed for the open call, to a recording.
#[track_caller]
pub(crate) fn realizing(op: &'static str) -> frit_engine::record::Realizing {
    frit_engine::record::ask();
    let (op, at) = (current().map_or(op, |c| c.0), here());
    frit_engine::record::realizing(op, || {
        let (file, line) = frit_uop::site::line_of(at);
        (file.into_owned(), line)
    })
}

/// A node of memory that was stored to since, at the version there is now; `None` where it is that already.
pub(crate) fn refreshed(node: &UOp) -> Option<UOp> {
    frit_engine::memory::refreshed(node)
}
/// What a view looks at, through all versions.
pub(crate) fn base_of(view: &UOp) -> &UOp {
    frit_engine::memory::base_of(view)
}
/// The versions of the memory that a value is seen in.
pub(crate) fn versions(node: &UOp) -> Option<&Arc<Versions>> {
    frit_engine::memory::versions(node)
}
/// A value of these dims in memory of its own, as realising leaves it.
pub(crate) fn kept_in(memory: &UOp, dims: &[UOp]) -> UOp {
    frit_engine::memory::seen_as(memory, dims)
}
/// Whether a Jit records what this thread computes.
pub(crate) fn is_recording() -> bool {
    frit_engine::run::is_recording()
}
/// Whether a value is computed from memory, in whatever way.
pub(crate) fn is_made_of(node: &UOp, memory: &Arc<Versions>) -> bool {
    let (mut stack, mut seen) = (vec![node], FxHashSet::default());
    while let Some(n) = stack.pop() {
        if !seen.insert(n) {
            continue;
        }
        if n.op == Op::Buffer && frit_engine::memory::versions(n).is_some_and(|v| Arc::ptr_eq(v, memory)) {
            return true;
        }
        stack.extend(n.src.iter().chain(n.realized()));
    }
    false
}
/// A version whose stores are done, as its memory; `None` where it is something else.
pub(crate) fn settled(node: &UOp) -> Option<UOp> {
    frit_engine::memory::settled(node)
}
/// Whether a value is in memory, in order.
pub(crate) fn is_in_memory(node: &UOp) -> bool {
    frit_engine::memory::contiguous_base(node).is_some()
}
/// For a value in memory, in order: that memory's versions, and how it is seen, without the memory.
pub(crate) fn memory_view(node: &UOp) -> Option<(Arc<Versions>, UOp)> {
    let base = frit_engine::memory::contiguous_base(node)?;
    let view = frit_engine::plan::normalise(node).ok()?.sink;
    Some((frit_engine::memory::versions(base)?.clone(), view))
}

/// Devices, and which one new tensors are made on.
pub struct Device;

impl Device {
    /// Run `f` with another default device on this thread.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Device::scope("INTERP", || Tensor::ones([2]) + 1.0)?;
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn scope<T>(device: &str, f: impl FnOnce() -> T) -> Result<T> {
        let checked = {
            let _c = call("device");
            check_device(device)?
        };
        // not inside the call: errors of `f` belong to its own lines
        frit_engine::scope(&checked, f).map_err(|e| Error::elsewhere("device", e.to_string()))
    }
    /// The default device of this thread.
    #[track_caller]
    pub fn current() -> Result<Arc<str>> {
        let _c = call("device");
        default_device()
    }
    /// What the machine behind a device can do: whether it is a grid, its matrix units, its operations.
    #[track_caller]
    pub fn target(device: &str) -> Result<Target> {
        let _c = call("device");
        engine("device", frit_engine::devices::target(device))
    }
    /// Wait for all that was launched on a device; an error where an index was outside.
    #[track_caller]
    pub fn synchronize(device: &str) -> Result<()> {
        let _c = call("device");
        engine("device", frit_engine::memory::synchronize(device))
    }
}

impl Tensor {
    /// Compute the value and keep it in memory. This cuts history: a gradient asked for later does not see past it.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = (Tensor::ones([2, 2]) * 3.0).realize()?;
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn realize(&self) -> Result<Tensor> {
        let _c = call("realize");
        Tensor::realize_all(&[self])?;
        Ok(self.clone())
    }
    /// Compute several tensors together, sharing work.
    #[track_caller]
    pub fn realize_all(tensors: &[&Tensor]) -> Result<()> {
        let _c = call("realize");
        let mut owners: Vec<Tensor> = vec![];
        let mut known: FxHashSet<usize> = FxHashSet::default();
        for t in tensors {
            let owner = t.realized_through();
            if known.insert(owner.address()) {
                owners.push(owner);
            }
        }
        // the tensors and this list: the holders the engine expects
        let nodes: Vec<UOp> = owners.iter().map(|t| t.uop()).collect::<Result<_>>()?;
        let values = realize_nodes(&nodes)?;
        history::remember(&nodes, &values);
        for ((t, old), new) in owners.iter().zip(&nodes).zip(values) {
            // another thread may have assigned to it meanwhile: then that stands
            t.swap_uop(old, new);
        }
        Ok(())
    }
    /// The tensor that gets memory when this is realised: of a view the one it looks at, whole, since others see that too.
    /// If no one else does, a view of rows keeps what it sees for itself; not in a recording, which knows the one it looks at.
    fn realized_through(&self) -> Tensor {
        let Some(view) = self.as_view() else { return self.clone() };
        if !is_recording()
            && view.base.is_only_looked_at_by_one()
            && view.is_rows()
            && let Ok(node) = view.node()
        {
            self.take_over(&view.base, node);
            return self.clone();
        }
        view.base
    }
    /// Drop assignments that were not computed: it is its memory again, as it was before them. What a run that failed has
    /// begun to store to stays failed.
    pub fn drop_assignments(&self) {
        let owner = self.owner();
        if let Ok(x) = owner.uop()
            && is_memory(&x)
        {
            owner.set_uop(Ok(frit_engine::memory::strip_stores(&x)));
        }
    }
    /// The bytes of all elements in row-major order. Computes; never cuts history.
    #[track_caller]
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let _c = call("to_bytes");
        let x = self.uop()?;
        let _recorded = realizing("to_bytes");
        engine("to_bytes", frit_engine::read(&x))
    }
    /// The bytes of all elements in row-major order, where they lie: nothing is copied on a device whose memory this
    /// process can read. Computes; never cuts history. Whoever has it holds this version: an assignment that follows
    /// goes to other memory.
    #[track_caller]
    pub fn lend(&self) -> Result<Lent> {
        let _c = call("lend");
        let x = self.uop()?;
        let _recorded = realizing("lend");
        engine("lend", frit_engine::run::lend(&x))
    }
    /// All elements in row-major order where they lie on their device, for another library there: whatever was queued
    /// here is done. Computes; never cuts history. Whoever has it holds this version, as of [`lend`](Tensor::lend).
    #[track_caller]
    pub fn lend_there(&self) -> Result<LentThere> {
        let _c = call("lend");
        let x = self.uop()?;
        let _recorded = realizing("lend");
        engine("lend", frit_engine::run::lend_there(&x))
    }
    /// Writes the bytes of all elements in row-major order, in small pieces. A value that is not in memory is computed
    /// and let go again, so a file can be larger than what is free.
    #[track_caller]
    pub fn write_bytes(&self, out: &mut dyn std::io::Write) -> Result<()> {
        let _c = call("write_bytes");
        let x = self.uop()?;
        let _recorded = realizing("write_bytes");
        engine("write_bytes", frit_engine::write(&x, out))?
            .map_err(|e| Error::of_call("write_bytes", e.to_string()))
    }
    /// Whether it is memory, seen through nothing but movement, elementwise operations and lookups: computing it alone
    /// repeats no work that others may share.
    pub fn is_pointwise(&self) -> bool {
        let costly = |n: &UOp| {
            let op = matches!(n.op, Op::ReduceAxis | Op::ScanAxis | Op::Scatter | Op::After | Op::Copy);
            op && n.realized().is_none()
        };
        self.peek().is_ok_and(|x| !x.any(costly))
    }
    /// All elements in row-major order, as values of any type.
    pub(crate) fn to_scalars(&self) -> Result<Vec<Scalar>> {
        let d = self.uop()?.dtype;
        let bytes = self.to_bytes()?;
        let value = |b: &[u8]| {
            let mut word = [0u8; 8];
            word[..b.len()].copy_from_slice(b);
            Scalar::from_bits(u64::from_le_bytes(word), d)
        };
        Ok(bytes.chunks_exact(d.size().max(1)).map(value).collect())
    }
    /// All elements in row-major order, as a Rust type that holds this type's values. Computes; never cuts history.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// assert_eq!((Tensor::arange(3) * 2).to_vec::<i32>()?, [0, 2, 4]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        let _c = call("to_vec");
        let d = self.uop()?.dtype;
        if d == T::DTYPE {
            return Ok(self.to_bytes()?.chunks_exact(d.size()).map(T::take).collect());
        }
        if promote::promote(d, T::DTYPE) != Some(T::DTYPE) {
            return fail!("to_vec", "{} does not hold {d} values; cast first", T::DTYPE);
        }
        Ok(self.to_scalars()?.into_iter().map(T::of).collect())
    }
    /// The only element. Computes; never cuts history.
    #[track_caller]
    pub fn item<T: Element>(&self) -> Result<T> {
        let _c = call("item");
        let n = self.numel()?;
        match self.to_vec::<T>()?[..] {
            [v] => Ok(v),
            _ => fail!("item", "shape {} has {n} elements, not one", self.shape()),
        }
    }
}
