//! Where description becomes numbers: the only file that calls the engine.

use crate::creation::Element;
use crate::error::{Error, Kind, Result, call, fail, here};
use crate::tensor::{Tensor, is_memory};
use frit_abi::sync::Mutex;
use frit_uop::promote;
use frit_uop::{Arg, DType, Op, Scalar, Storage, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use std::panic::Location;
use std::path::Path;
use std::sync::{Arc, Weak};

pub use frit_engine::Blob;
pub use frit_engine::memory::Versions;
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
    engine("realize", frit_engine::realize(nodes))
}

/// A node of memory that was stored to since, at the version there is now; `None` where it is that already.
pub(crate) fn refreshed(node: &UOp) -> Option<UOp> {
    frit_engine::memory::refreshed(node)
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
/// A view of something that was computed meanwhile, as a view of the memory that is in.
pub(crate) fn now_in_memory(view: &UOp) -> Option<UOp> {
    let version = frit_engine::memory::version_of(view);
    let memory = version.realized()?.clone();
    Some(view.substitute(&FxHashMap::from_iter([(version.clone(), memory)])))
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
}

// ---- history: what realising cut off

/// Where a buffer's value was realised, and a summary of the nodes it was computed from.
struct Cut {
    buffer: Weak<dyn Storage>,
    at: &'static Location<'static>,
    from: Arc<Bloom>,
}
/// A set of nodes in 4096 bits: never wrong about what is in it.
struct Bloom([u64; 64]);

impl Bloom {
    fn bits(n: &UOp) -> [usize; 2] {
        let h = n.structural_hash().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        [(h >> 52) as usize, (h >> 40) as usize & 4095]
    }
    fn of(roots: &[UOp]) -> Bloom {
        let mut b = Bloom([0; 64]);
        for n in frit_uop::graph::toposort(roots) {
            for n in n.realized().into_iter().chain([&n]) {
                Bloom::bits(n).into_iter().for_each(|i| b.0[i / 64] |= 1 << (i % 64));
            }
        }
        b
    }
    fn may_hold(&self, n: &UOp) -> bool {
        Bloom::bits(n).into_iter().all(|i| self.0[i / 64] >> (i % 64) & 1 == 1)
    }
}

static CUTS: Mutex<Option<FxHashMap<u64, Cut>>> = Mutex::new(None);

/// Remember that these tensors' history ends here. The table holds no memory and forgets what is gone.
fn remember(before: &[UOp], after: &[UOp]) {
    let fresh: Vec<(&UOp, Arc<dyn Storage>)> = before
        .iter()
        .zip(after)
        .filter(|(b, a)| b != a)
        .filter_map(|(b, a)| Some((b, storage(a)?)))
        .collect();
    if fresh.is_empty() {
        return;
    }
    let from = Arc::new(Bloom::of(before));
    let at = here();
    let mut cuts = CUTS.lock().unwrap_or_else(|e| e.into_inner());
    let cuts = cuts.get_or_insert_default();
    // forget what is gone before these make the table grow, and not again until as many have come as there are
    if cuts.len() + fresh.len() > cuts.capacity() {
        cuts.retain(|_, c| c.buffer.strong_count() > 0);
        cuts.reserve(cuts.len() + fresh.len());
    }
    for (_, s) in fresh {
        cuts.insert(s.id(), Cut { buffer: Arc::downgrade(&s), at, from: from.clone() });
    }
}

fn storage(n: &UOp) -> Option<Arc<dyn Storage>> {
    let mut n = n;
    while n.op.is_movement() || n.op == Op::After {
        n = n.input();
    }
    match &n.arg {
        Arg::Buffer(b) => Some(b.clone()),
        _ => None,
    }
}

/// Memory that a value was made of and that has been stored to since: found once, asked for each target.
pub(crate) struct Overwritten(FxHashSet<*const Versions>);

impl Overwritten {
    /// Of what has this lineage.
    pub(crate) fn of(lineage: &[UOp]) -> Overwritten {
        let stale = lineage.iter().filter(|n| n.op == Op::Buffer && refreshed(n).is_some());
        Overwritten(stale.filter_map(frit_engine::memory::versions).map(Arc::as_ptr).collect())
    }
    pub(crate) fn holds(&self, target: &UOp) -> bool {
        frit_engine::memory::versions(target).is_some_and(|v| self.0.contains(&Arc::as_ptr(v)))
    }
}

/// Where something on the way from what has this lineage to `target` was realised, if that is why there is no way.
pub(crate) fn cut_history(lineage: &[UOp], target: &UOp) -> Option<&'static Location<'static>> {
    let cuts = CUTS.lock().unwrap_or_else(|e| e.into_inner());
    let cuts = cuts.as_ref()?;
    lineage.iter().filter(|n| n.op == Op::Buffer && *n != target).find_map(|n| {
        let cut = cuts.get(&storage(n)?.id())?;
        cut.from.may_hold(target).then_some(cut.at)
    })
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
        remember(&nodes, &values);
        for ((t, old), new) in owners.iter().zip(&nodes).zip(values) {
            // another thread may have assigned to it meanwhile: then that stands
            t.swap_uop(old, new);
        }
        Ok(())
    }
    /// The tensor that gets memory when this is realised: of a view the one it looks at, whole, since others see that too.
    /// If no one else does, a view of rows keeps what it sees for itself.
    fn realized_through(&self) -> Tensor {
        let Some(view) = self.as_view() else { return self.clone() };
        if view.base.is_only_looked_at_by_one()
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
        engine("to_bytes", frit_engine::read(&x))
    }
    /// The bytes of all elements in row-major order, where they lie: nothing is copied on a device whose memory this
    /// process can read. Computes; never cuts history. Whoever has it holds this version: an assignment that follows
    /// goes to other memory.
    #[track_caller]
    pub fn lend(&self) -> Result<Lent> {
        let _c = call("lend");
        let x = self.uop()?;
        engine("lend", frit_engine::run::lend(&x))
    }
    /// All elements in row-major order where they lie on their device, for another library there: whatever was queued
    /// here is done. Computes; never cuts history. Whoever has it holds this version, as of [`lend`](Tensor::lend).
    #[track_caller]
    pub fn lend_there(&self) -> Result<LentThere> {
        let _c = call("lend");
        let x = self.uop()?;
        engine("lend", frit_engine::run::lend_there(&x))
    }
    /// Writes the bytes of all elements in row-major order, in small pieces. A value that is not in memory is computed
    /// and let go again, so a file can be larger than what is free.
    #[track_caller]
    pub fn write_bytes(&self, out: &mut dyn std::io::Write) -> Result<()> {
        let _c = call("write_bytes");
        let x = self.uop()?;
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
