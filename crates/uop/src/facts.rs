//! What follows from a node's structure, worked out once and shared by the nodes that have it in common.
//!
//! Thousands of nodes of a program differ in their sources and agree in shape, ranges and bounds: layers of one kind do in
//! all of them. So a node holds these by reference, which keeps it small, and what is asked of many nodes stays in the caches.

use crate::arg::Arg;
use crate::infer;
use crate::node::{Shape, UOp};
use crate::op::Op;
use frit_abi::DType;
use rustc_hash::FxHasher;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::hash::Hasher;
use std::sync::{Arc, Weak};

/// Shape, ranges and bounds of a node; its fields are the node's.
#[derive(PartialEq)]
pub struct Facts {
    /// Ids of the ranges that are open here, ascending.
    pub ranges: SmallVec<[u32; 6]>,
    /// Least and greatest value, for integers and bools; the whole type where nothing better is known.
    pub bounds: (i128, i128),
    /// The dims of the value; none for effects and malformed nodes.
    pub(crate) shape: Option<Shape>,
}

/// Facts that a thread remembers.
const REMEMBERED: usize = 1024;

thread_local! {
    /// The facts that this thread made last, by hash. They are not counted, so they keep no dim alive; each thread has its
    /// own, so threads that work on graphs of their own count in memory of their own.
    static FACTS: RefCell<Vec<Weak<Facts>>> = const { RefCell::new(Vec::new()) };
}

impl Facts {
    /// What follows from these parts, as one of the sources or a node that was made lately has it, if one has.
    pub(crate) fn of(op: Op, dtype: DType, src: &[UOp], arg: &Arg) -> Arc<Facts> {
        if let Some(common) = Facts::in_common(op, dtype, src) {
            return common.clone();
        }
        let shape = infer::shape(op, src, arg);
        let (ranges, bounds) = (infer::ranges(op, src, arg), infer::bounds(op, dtype, src, arg));
        let facts = Facts { ranges, bounds, shape };
        match src.iter().take(2).find(|s| **s.facts() == facts) {
            Some(s) => s.facts().clone(),
            None => facts.remembered(),
        }
    }
    /// What the operands of a float operation agree in is so of its result, and scalars outside of all loops change nothing.
    fn in_common(op: Op, dtype: DType, src: &[UOp]) -> Option<&Arc<Facts>> {
        if !dtype.is_float() || !op.is_elementwise() || src.iter().any(|s| !s.dtype.is_float()) {
            return None;
        }
        let is_scalar = |f: &Facts| f.ranges.is_empty() && f.shape.as_ref().is_some_and(|s| s.is_empty());
        let mut all = src.iter().map(UOp::facts).filter(|f| !is_scalar(f));
        match all.next() {
            Some(first) => all.all(|f| Arc::ptr_eq(f, first)).then_some(first),
            None => src.first().map(UOp::facts),
        }
    }
    /// Only of use in this process: dims count by where they are.
    fn hash(&self) -> u64 {
        let mut h = FxHasher::default();
        h.write_u64(self.bounds.0 as u64);
        h.write_u64(self.bounds.1 as u64);
        self.ranges.iter().for_each(|r| h.write_u32(*r));
        self.shape.iter().flatten().for_each(|d| h.write_usize(d.address()));
        h.finish()
    }
    fn remembered(self) -> Arc<Facts> {
        let at = self.hash() as usize % REMEMBERED;
        let known = |all: &RefCell<Vec<Weak<Facts>>>| {
            all.borrow().get(at).and_then(Weak::upgrade).filter(|known| **known == self)
        };
        if let Ok(Some(known)) = FACTS.try_with(known) {
            return known;
        }
        let new = Arc::new(self);
        // at thread exit there may be none any more
        let _ = FACTS.try_with(|all| {
            let mut all = all.borrow_mut();
            if all.is_empty() {
                all.resize(REMEMBERED, Weak::new());
            }
            all[at] = Arc::downgrade(&new);
        });
        new
    }
}
