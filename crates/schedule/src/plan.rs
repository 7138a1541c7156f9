//! What the passes hand on: the tensor graph, then kernels over numbered buffers, then the schedule.
//!
//! Between `rangeify` and `order` a kernel's buffers are `Param`s numbered by [`Plan::bufs`]: one number for each
//! *version* of each place in memory, so that reads of different versions are different nodes.

use crate::{BufRef, Schedule};
use frit_abi::{DType, Target};
use frit_uop::{Arg, Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// The state of a schedule in the making.
pub struct Plan<'a> {
    pub target: &'a Target,
    /// The tensor graph.
    pub sink: UOp,
    /// Which buffer and version each view and store of the tensor graph belongs to.
    pub versions: FxHashMap<UOp, Version>,
    /// Versions of places; the slot of a kernel's `Param` until `order` numbers them locally.
    pub bufs: Vec<Buf>,
    buf_of: FxHashMap<(BufRef, u32), u32>,
    /// Temporaries: type and greatest number of elements.
    pub temps: Vec<(DType, usize)>,
    /// Versions that were asked for by `Contiguous`: they are stored even if every reader could take the value.
    pub kept: FxHashSet<u32>,
    pub kernels: Vec<Kernel>,
    /// Range numbers given out so far; unique over all kernels until `order`.
    pub next_range: u32,
    pub schedule: Schedule,
}

/// One version of one place in memory. Version 0 of a parameter is what it holds before the graph runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buf {
    pub place: BufRef,
    pub version: u32,
    pub dtype: DType,
    pub len: usize,
}

/// A version of a parameter, as a tensor-level view or store means it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Version {
    pub slot: u32,
    pub version: u32,
}

/// A kernel: stores over common ranges.
#[derive(Clone, Default, Debug)]
pub struct Kernel {
    /// Ranges over the stored elements, outermost first; an ordered one last.
    pub ranges: Vec<UOp>,
    /// The one that runs in order and carries a value, if there is one: the last.
    pub ordered: Option<UOp>,
    pub stores: Vec<StoreTo>,
    /// Position of the kernel's root in the tensor graph: the preferred order.
    pub rank: usize,
    /// Kernels that must have run before, by position in [`Plan::kernels`].
    pub deps: FxHashSet<u32>,
}

/// One store of a kernel.
#[derive(Clone, Debug)]
pub struct StoreTo {
    /// The version that the store makes.
    pub buf: u32,
    /// Flat index in the buffer, perhaps gated.
    pub index: UOp,
    pub value: UOp,
    /// The place to blame for a miss, for a checked store.
    pub site: Option<u32>,
}

impl<'a> Plan<'a> {
    pub fn new(sink: UOp, target: &'a Target) -> Plan<'a> {
        Plan {
            target,
            sink,
            versions: FxHashMap::default(),
            bufs: vec![],
            buf_of: FxHashMap::default(),
            temps: vec![],
            kept: FxHashSet::default(),
            kernels: vec![],
            next_range: 0,
            schedule: Schedule::default(),
        }
    }
    /// The number of a version of a place.
    pub fn buf(&mut self, place: BufRef, version: u32, dtype: DType, len: usize) -> u32 {
        *self.buf_of.entry((place, version)).or_insert_with(|| {
            self.bufs.push(Buf { place, version, dtype, len });
            self.bufs.len() as u32 - 1
        })
    }
    /// Version 1 of a fresh temporary.
    pub fn temp(&mut self, dtype: DType, len: usize) -> u32 {
        self.temps.push((dtype, len));
        self.buf(BufRef::Temp(self.temps.len() as u32 - 1), 1, dtype, len)
    }
    /// The node that stands for a version inside kernels.
    pub fn buf_node(&self, buf: u32) -> UOp {
        let b = self.bufs[buf as usize];
        UOp::param(buf, b.len, b.dtype)
    }
    /// The next range number.
    pub fn range_id(&mut self) -> u32 {
        self.next_range += 1;
        self.next_range - 1
    }
}

impl Kernel {
    /// The nodes of all values and indices.
    pub fn nodes(&self) -> Vec<UOp> {
        let roots: Vec<UOp> = self.stores.iter().flat_map(|s| [s.index.clone(), s.value.clone()]).collect();
        frit_uop::graph::toposort(&roots)
    }
    /// The loads, as (version, index, node).
    pub fn loads(&self) -> Vec<(u32, UOp, UOp)> {
        self.nodes().into_iter().filter_map(|n| load_parts(&n).map(|(b, i)| (b, i, n.clone()))).collect()
    }
    /// Apply `f` to every index and value.
    pub fn map(&mut self, mut f: impl FnMut(&UOp) -> UOp) {
        for s in &mut self.stores {
            s.index = f(&s.index);
            s.value = f(&s.value);
        }
    }
}

/// Version and index of a load.
pub fn load_parts(n: &UOp) -> Option<(u32, UOp)> {
    if n.op != Op::Load {
        return None;
    }
    let address = &n.src[0];
    match address.src[0].arg {
        Arg::Param { slot, .. } => Some((slot, address.src[1].clone())),
        _ => None,
    }
}
