//! Files as memory: the bytes behind a `Buffer` node on `DISK`.
//!
//! A file is seen through movement and changes of type alone; any other operation is an error. What is seen is read when it
//! is copied to a device: the part of the file it lies in, one span of bytes, and the rest of the way is done there.
//!
//! ```text
//! Copy(permute(shrink(B)))   ->   permute(shrink's bytes of the file, on the device)
//! ```
//!
//! Others may write to a file at any time, so its memory is volatile. Writing goes to the file at once.

use super::bindings::{Bindings, eval_index};
use super::buffer::Buffer;
use super::view::{contiguous_base, most_elements, seen_as};
use crate::Error;
use crate::devices::only_holds_bytes;
use frit_abi::DType;
use frit_runtime::{Memory, disk};
use frit_uop::{Arg, Op, UOp};
use std::path::Path;
use std::sync::Arc;

pub use frit_runtime::disk::{NAME, path_of};

/// The first `len` elements of a file, which is made, or made longer by zeros, where it has fewer.
pub fn open(path: &Path, dtype: DType, len: usize) -> Result<UOp, Error> {
    let bytes = len.checked_mul(dtype.size()).ok_or_else(|| {
        Error::Graph(format!("a file of {len} {dtype} elements is larger than the address space"))
    })?;
    let memory = disk::open_file(path, bytes)?;
    Ok(Buffer::volatile(&NAME.into(), len, memory).into_uop(dtype))
}

/// A way to see what is below that leaves the bytes as they are.
fn is_step(n: &UOp) -> bool {
    n.op.is_movement() || matches!(n.op, Op::Bitcast | Op::Detach | Op::Contiguous | Op::Leaf)
}

/// Whether a value is bytes of a file, however they are seen.
pub fn is_view(value: &UOp) -> bool {
    let mut n = value;
    while is_step(n) {
        n = &n.src[0];
    }
    matches!(&n.arg, Arg::Buffer(b) if b.device() == NAME)
}

/// The file that a value is seen in, and the steps from it, innermost first; an error where it is something else.
fn steps(value: &UOp) -> Result<(&UOp, Vec<&UOp>), Error> {
    if !is_view(value) {
        return Err(only_holds_bytes());
    }
    let (mut n, mut found) = (value, vec![]);
    while is_step(n) {
        found.push(n);
        n = &n.src[0];
    }
    found.reverse();
    Ok((n, found))
}

/// Whether a value is bytes of a file that are not its first ones, in order.
pub(crate) fn needs_moving(value: &UOp) -> bool {
    contiguous_base(value).is_none() && is_view(value)
}

/// Elements of a file, seen in some dims.
struct Span {
    first: usize,
    dims: Vec<usize>,
    /// How far apart neighbours along each dim lie.
    strides: Vec<usize>,
}

pub(crate) fn sizes(dims: &[UOp]) -> Result<Vec<usize>, Error> {
    let size = |d| {
        let size = eval_index(d, &Bindings::default())?;
        usize::try_from(size).map_err(|_| Error::Graph(format!("a size of {size}")))
    };
    dims.iter().map(size).collect()
}

impl Span {
    /// Elements one after the other.
    fn rows(first: usize, dims: Vec<usize>) -> Span {
        let mut strides = vec![1usize; dims.len()];
        for i in (1..dims.len()).rev() {
            strides[i - 1] = strides[i].saturating_mul(dims[i]);
        }
        Span { first, dims, strides }
    }
    fn len(&self) -> Result<usize, Error> {
        let len = self.dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
        len.ok_or_else(|| Error::Graph("a file this large does not fit in memory".into()))
    }
    /// The dims that elements are found along, with their strides.
    fn solid(&self) -> impl Iterator<Item = (usize, usize)> {
        self.dims.iter().copied().zip(self.strides.iter().copied()).filter(|(d, _)| *d != 1)
    }
    /// Whether its elements lie one after the other.
    fn is_dense(&self) -> bool {
        self.dims.contains(&0) || self.solid().eq(Span::rows(0, self.dims.clone()).solid())
    }
    /// What a step sees of it; `None` where that is not found by strides.
    fn through(&self, step: &UOp) -> Result<Option<Span>, Error> {
        let dims = sizes(step.shape())?;
        let (first, strides) = (self.first, self.strides.clone());
        Ok(match (step.op, &step.arg) {
            (Op::Shrink, _) => self.cut(&sizes(&step.src[1..1 + dims.len()])?, dims),
            (Op::Permute, Arg::Axes(axes)) => {
                Some(Span { first, dims, strides: axes.iter().map(|a| strides[*a as usize]).collect() })
            }
            (Op::Reshape, _) if self.is_dense() => Some(Span::rows(first, dims)),
            (Op::Reshape, _) => {
                // only dims of one element come and go
                let same = self.solid().map(|(d, _)| d).eq(dims.iter().copied().filter(|d| *d != 1));
                let mut by = self.solid().map(|(_, s)| s);
                let strides = dims.iter().map(|d| if *d == 1 { 1 } else { by.next().unwrap_or(1) }).collect();
                same.then_some(Span { first, dims, strides })
            }
            (Op::Expand | Op::Pad, _) => (dims == self.dims).then_some(Span { first, dims, strides }),
            (Op::Flip, Arg::Axes(axes)) => {
                let single = axes.iter().all(|a| dims[*a as usize] <= 1);
                single.then_some(Span { first, dims, strides })
            }
            _ => Some(Span { first, dims, strides }),
        })
    }
    /// The part of these dims that begins there.
    fn cut(&self, begin: &[usize], dims: Vec<usize>) -> Option<Span> {
        let place = |at: usize, (b, s): (&usize, &usize)| at.checked_add(b.checked_mul(*s)?);
        let first = begin.iter().zip(&self.strides).try_fold(self.first, place)?;
        Some(Span { first, dims, strides: self.strides.clone() })
    }
}

/// The bytes of elements one after the other.
fn bytes(buffer: &Buffer, span: &Span, size: usize) -> Result<Memory, Error> {
    let range = span.first.checked_mul(size).zip(span.len()?.checked_mul(size));
    let (first, len) = range.ok_or_else(|| Error::Graph("a file larger than the address space".into()))?;
    Ok(buffer.memory.view(if len == 0 { 0 } else { first }, len)?)
}

pub(crate) fn opened(file: &UOp) -> Result<&Buffer, Error> {
    let buffer = Buffer::of(file).ok_or_else(only_holds_bytes)?;
    buffer.check()?;
    Ok(buffer)
}

/// The bytes of a value, where they lie in its file one after the other.
pub(crate) fn place(value: &UOp) -> Result<Option<(&Buffer, Memory)>, Error> {
    let (file, steps) = steps(value)?;
    let buffer = opened(file)?;
    let mut span = Span::rows(0, sizes(file.shape())?);
    for step in steps {
        match span.through(step)? {
            Some(part) => span = part,
            None => return Ok(None),
        }
    }
    if !span.is_dense() {
        return Ok(None);
    }
    Ok(Some((buffer, bytes(buffer, &span, file.dtype.size())?)))
}

/// The same bytes as elements of another size, in dims of that: without a look at them. An error where they do not lie
/// one after the other.
pub fn bits_as(value: &UOp, dtype: DType, dims: &[UOp]) -> Result<UOp, Error> {
    let why =
        || Error::Graph("bits of DISK that do not lie one after the other: move it with to(...)".into());
    let (buffer, memory) = place(value)?.ok_or_else(why)?;
    let len = memory.len_bytes() / dtype.size().max(1);
    Ok(buffer.window(memory, len).into_uop(dtype).reshape(dims))
}

/// Whether the bytes of a value lie in its file one after the other, so that they can be written to.
pub fn is_place(value: &UOp) -> Result<bool, Error> {
    Ok(place(value)?.is_some())
}

/// A value that is seen in a file, on a device: its bytes are there, and what is left to be done with them is to be
/// computed.
pub(crate) fn load(value: &UOp, to: &Arc<str>) -> Result<UOp, Error> {
    let (file, steps) = steps(value)?;
    let buffer = opened(file)?;
    // as far as what is seen lies one after the other, only that is read
    let mut spans = vec![Span::rows(0, sizes(file.shape())?)];
    for step in &steps {
        let Some(part) = spans.last().map(|s| s.through(step)).transpose()?.flatten() else { break };
        spans.push(part);
    }
    spans.truncate(1 + spans.iter().rposition(Span::is_dense).unwrap_or(0));
    let (done, mut span) = (spans.len() - 1, spans.pop().ok_or_else(only_holds_bytes)?);
    let last = done.checked_sub(1).map_or(file, |i| steps[i]);
    let (mut dims, mut rest) = (last.shape().to_vec(), steps[done..].iter());
    // of a cut across rows, only those rows
    let mut first_step = None;
    if let Some(cut) = rest.as_slice().first().filter(|s| s.op == Op::Shrink && !span.dims.is_empty()) {
        let rank = span.dims.len();
        let (mut begin, mut size) = (vec![0; rank], span.dims.clone());
        begin[0] = sizes(&cut.src[1..2])?[0];
        size[0] = sizes(&cut.shape()[..1])?[0];
        if let Some(rows) = span.cut(&begin, size) {
            (span, dims[0]) = (rows, cut.shape()[0].clone());
            let mut begin = cut.src[1..=rank].to_vec();
            begin[0] = UOp::index(0);
            first_step = Some((begin, cut.shape().to_vec()));
            rest.next();
        }
    }
    let memory = bytes(buffer, &span, file.dtype.size())?;
    let target = Buffer::alloc(to, last.dtype, most_elements(&dims)?)?;
    target.memory.copy_from(&memory)?;
    let mut there = seen_as(&target.into_uop(last.dtype), &dims);
    if let Some((begin, size)) = &first_step {
        there = there.shrink(begin, size);
    } else if done == steps.len() {
        return Ok(there);
    }
    for step in rest {
        let mut src = step.src.clone();
        src[0] = there;
        there = step.with_src(src);
    }
    Ok(there.contiguous())
}
