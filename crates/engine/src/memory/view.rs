//! Views: which memory, and which version of it, a value is seen in.

use super::bindings::{Bindings, eval_index};
use super::buffer::{Buffer, Versions};
use crate::Error;
use frit_uop::{Op, UOp};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The version a view looks at: the `Buffer` or `After` below its movement ops.
pub fn version_of(view: &UOp) -> &UOp {
    let mut n = view;
    while n.op.is_movement() {
        n = &n.src[0];
    }
    n
}

/// The memory a view looks at, through all versions.
pub fn base_of(view: &UOp) -> &UOp {
    let mut n = view;
    while n.op.is_movement() || n.op == Op::After {
        n = &n.src[0];
    }
    n
}

/// The same view without the stores: what a version is once they are done.
pub fn strip_stores(view: &UOp) -> UOp {
    let mut chain = vec![];
    let mut n = view.clone();
    while n.op.is_movement() || n.op == Op::After {
        let below = n.src[0].clone();
        if n.op != Op::After {
            chain.push(n);
        }
        n = below;
    }
    chain.iter().rev().fold(n, |below, op| {
        let mut src = op.src.clone();
        src[0] = below;
        op.with_src(src)
    })
}

/// The versions of the memory that a view looks at.
pub fn versions(view: &UOp) -> Option<&Arc<Versions>> {
    Buffer::of(base_of(view)).map(Buffer::versions)
}

/// A view of memory that has been stored to since, at the version there is now; `None` where it is that already.
pub fn refreshed(view: &UOp) -> Option<UOp> {
    let version = version_of(view);
    let memory = version.realized().unwrap_or(version);
    let base = version_of(memory);
    let buffer = Buffer::of(base)?;
    if buffer.is_newest() {
        return None;
    }
    let newest = FxHashMap::from_iter([(base.clone(), buffer.newest().into_uop(base.dtype))]);
    let map = FxHashMap::from_iter([(version.clone(), memory.substitute(&newest))]);
    Some(view.substitute(&map))
}

/// A view of a version whose stores are done, as a view of its memory; `None` where it is something else.
pub fn settled(view: &UOp) -> Option<UOp> {
    let version = version_of(view);
    let memory = version.realized().filter(|_| version.op == Op::After)?;
    Some(view.substitute(&FxHashMap::from_iter([(version.clone(), memory.clone())])))
}

/// The `Buffer` node whose first elements, in order, are the value: through reshapes and cuts at the front.
pub fn contiguous_base(value: &UOp) -> Option<&UOp> {
    let mut n = value;
    loop {
        match n.op {
            Op::Buffer => return Some(n),
            Op::Reshape => n = &n.src[0],
            Op::Shrink if n.shape().len() == 1 && n.src[1].as_int() == Some(0) => n = &n.src[0],
            _ => return None,
        }
    }
}

/// How many elements a value has, with bound variables at their values.
pub fn element_count(value: &UOp) -> Result<usize, Error> {
    let bindings = Bindings::default();
    let sizes: Vec<i64> = value.shape().iter().map(|d| eval_index(d, &bindings)).collect::<Result<_, _>>()?;
    // where one is zero, the others are no matter
    if sizes.iter().any(|d| *d <= 0) {
        return Ok(0);
    }
    let count = sizes.iter().try_fold(1usize, |n, d| n.checked_mul(usize::try_from(*d).ok()?));
    count.ok_or_else(|| Error::Graph(format!("a tensor of shape {sizes:?} does not fit in memory")))
}

/// How many bytes a value has.
pub(crate) fn byte_count(value: &UOp) -> Result<usize, Error> {
    let (count, size) = (element_count(value)?, value.dtype.size());
    let bytes = count.checked_mul(size);
    bytes.ok_or_else(|| Error::Graph(format!("{count} {} elements do not fit in memory", value.dtype)))
}

/// How many elements a tensor of these dims can have.
pub(crate) fn most_elements(dims: &[UOp]) -> Result<usize, Error> {
    let len = dims.iter().try_fold(1i128, |n, d| n.checked_mul(d.bounds.1.max(0)));
    let len = len.and_then(|n| usize::try_from(n).ok());
    len.ok_or_else(|| Error::Graph("a tensor this large does not fit in memory".into()))
}

/// The first elements of flat memory as a tensor of these dims.
pub fn seen_as(memory: &UOp, dims: &[UOp]) -> UOp {
    let count = dims.iter().fold(UOp::index(1), |n, d| n.fold_mul(d));
    memory.shrink(&[UOp::index(0)], &[count]).reshape(dims)
}
