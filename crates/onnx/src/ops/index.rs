//! Elements at places that are data.

use super::shape::{axis_of, size_at};
use super::{Op, op};
use crate::call::{Call, Outs, fail, give};
use crate::value::{Strings, Value};
use frit_tensor::{DType, Dim, Result, Tensor};
use std::collections::BTreeMap;

pub(super) const OPS: &[Op] = &[
    op("Compress", 9, compress),
    op("Gather", 1, gather),
    op("GatherElements", 11, |c| {
        let axis = c.axis("axis", 0)?;
        let at = wrapped(&c.tensor(1)?, axis_len(c, axis)?);
        c.moved(|x| Ok(x.gather(axis, &at)))
    }),
    op("GatherND", 11, gather_nd),
    op("NonZero", 9, |c| {
        let x = c.tensor(0)?;
        let n = c.size_of(&x.ne(0).long().sum(..))?;
        give(x.nonzero_sized(n, 0).t().long())
    }),
    op("Scatter", 9, scatter_elements),
    op("ScatterElements", 11, scatter_elements),
    op("ScatterND", 11, scatter_nd),
    op("TensorScatter", 24, tensor_scatter),
    op("TopK", 1, |c| {
        let k = c.int_or("k", 0)?;
        top_k(c, k)
    }),
    op("TopK", 10, |c| top_k(c, c.int_input(1)?)),
    op("Unique", 11, unique),
];

fn axis_len(c: &Call, axis: isize) -> Result<Dim> {
    let x = c.input(0)?;
    x.dim(axis_of(axis as i64, x.rank()?)?)
}
/// Places counted from the front.
fn wrapped(at: &Tensor, n: impl Into<Dim>) -> Tensor {
    let at = at.long();
    at.lt(0).where_(&at + n.into().tensor().long(), &at)
}

fn gather(c: &Call) -> Result<Outs> {
    let axis = c.axis("axis", 0)?;
    let at = wrapped(&c.tensor(1)?, axis_len(c, axis)?);
    c.moved(|x| {
        let axis = axis_of(axis as i64, x.rank())?;
        let (dims, places) = (x.shape(), at.shape());
        let (front, behind) = (&dims.as_slice()[..axis], &dims.as_slice()[axis + 1..]);
        let out = [front, places.as_slice(), behind].concat();
        Ok(x.index_select(axis as isize, &at.reshape([-1])).reshape(out))
    })
}

fn compress(c: &Call) -> Result<Outs> {
    let (axis, on) = (c.int("axis")?, c.tensor(1)?.bool());
    let n = c.size_of(&on.long().sum(..))?;
    let places = on.nonzero_sized(n, 0).reshape([-1]).long();
    c.moved(|x| {
        Ok(match axis {
            Some(a) => x.index_select(a as isize, &places),
            None => x.ravel().index_select(0, &places),
        })
    })
}

/// The last dim of an index as places in the first dims of a shape, row-major.
fn places(at: &Tensor, dims: &[Dim]) -> Tensor {
    (0i64..).zip(dims).fold(Tensor::full_dtype((), 0, DType::I64), |sum, (i, n)| {
        sum * n.tensor().long() + wrapped(&at.select(-1, i), n)
    })
}
/// How many elements there are.
fn count(dims: &[Dim]) -> Dim {
    dims.iter().fold(Dim::from(1), |n, d| n * d)
}
/// How many dims the rows of an index are places in, behind `batch` of them.
fn depth(at: &Tensor, x: &Tensor, batch: usize) -> Result<usize> {
    let (idx, rank) = (at.shape(), x.rank());
    let depth = idx.as_slice().last().and_then(Dim::as_int).and_then(|d| usize::try_from(d).ok());
    let fits = depth.filter(|d| batch < idx.rank() && batch + d <= rank);
    fits.map_or_else(|| fail(format!("indices of shape {idx} into shape {}", x.shape())), Ok)
}

fn gather_nd(c: &Call) -> Result<Outs> {
    let (batch, at) = (c.int_or("batch_dims", 0)?.max(0) as usize, c.tensor(1)?);
    c.moved(|x| {
        let depth = depth(&at, x, batch)?;
        let (idx, dims) = (at.shape(), x.shape());
        let (idx, dims) = (idx.as_slice(), dims.as_slice());
        let (inner, rest) = (&dims[batch..batch + depth], &dims[batch + depth..]);
        let (b, n) = (count(&dims[..batch]), count(inner));
        // (batches, places, rest)
        let rows = x.reshape((&b * &n, count(rest)));
        let flat = places(&at, inner).reshape((b.clone(), -1));
        let flat = flat + Tensor::arange(b).long().unsqueeze(1) * n.tensor().long();
        Ok(rows.index_select(0, &flat.reshape([-1])).reshape([&idx[..idx.len() - 1], rest].concat()))
    })
}

/// What becomes of an element that several are put to.
fn reduction<'a>(c: &'a Call) -> Result<Option<&'a str>> {
    Ok(match c.text_or("reduction", "none")? {
        "none" => None,
        "add" => Some("sum"),
        "mul" => Some("prod"),
        "max" => Some("amax"),
        "min" => Some("amin"),
        other => return fail(format!("attribute \"reduction\" is {other:?}")),
    })
}

/// The first input with the third put into it, both numbers or both texts.
fn updated(c: &Call, how: Option<&str>, f: impl FnOnce(&Tensor, &Tensor) -> Result<Tensor>) -> Result<Outs> {
    match (c.input(0)?, c.input(2)?, how) {
        (Value::Strings(s), Value::Strings(o), None) => give(s.moved_with(o, f)?),
        (Value::Strings(_), _, Some(how)) => fail(format!("texts have no {how}")),
        _ => {
            let updates = c.tensor(2)?;
            c.moved(|x| f(x, &updates))
        }
    }
}

fn scatter_elements(c: &Call) -> Result<Outs> {
    let (axis, how) = (c.axis("axis", 0)?, reduction(c)?);
    let at = wrapped(&c.tensor(1)?, axis_len(c, axis)?);
    updated(c, how, |x, updates| {
        Ok(match how {
            None => x.scatter(axis, &at, updates),
            Some(how) => x.scatter_reduce(axis, &at, updates, how, true),
        })
    })
}

fn scatter_nd(c: &Call) -> Result<Outs> {
    let (how, at) = (reduction(c)?, c.tensor(1)?);
    updated(c, how, |x, updates| {
        let (depth, dims) = (depth(&at, x, 0)?, x.shape());
        let rest = count(&dims.as_slice()[depth..]);
        let rows = x.reshape((-1, &rest));
        let flat = places(&at, &dims.as_slice()[..depth]).reshape((-1, 1)).expand((-1, &rest));
        let updates = updates.reshape((-1, rest));
        let done = match how {
            None => rows.scatter(0, &flat, &updates),
            Some(how) => rows.scatter_reduce(0, &flat, &updates, how, true),
        };
        Ok(done.reshape(dims))
    })
}

/// A cache with rows of an update written to it, each batch from a place of its own on.
fn tensor_scatter(c: &Call) -> Result<Outs> {
    let axis = c.int_or("axis", -2)?;
    let circular = match c.text_or("mode", "linear")? {
        "linear" => false,
        "circular" => true,
        other => return fail(format!("attribute \"mode\" is {other:?}")),
    };
    let (update, start) = (c.tensor(1)?, c.optional(2)?);
    c.moved(|x| {
        let axis = axis_of(axis, x.rank())?;
        let line = |at: usize, t: Tensor| {
            let mut dims = vec![1i64; x.rank()];
            dims[at] = -1;
            t.reshape(dims)
        };
        let rows = line(axis, Tensor::arange(&update.shape()[axis]).long());
        let at = start.map_or(rows.clone(), |s| rows + line(0, s.long()));
        let at = if circular { at.modulo(size_at(x, axis)? as i64) } else { at };
        Ok(x.scatter(axis as isize, &at.expand(update.shape()), &update))
    })
}

fn top_k(c: &Call, k: i64) -> Result<Outs> {
    c.ignore(&["sorted"]);
    let (axis, largest) = (c.axis("axis", -1)?, c.int_or("largest", 1)? != 0);
    let Ok(k) = usize::try_from(k) else { return fail(format!("the {k} greatest")) };
    let (values, at) = c.tensor(0)?.topk(k, axis, largest);
    give((values, at.long()))
}

fn unique(c: &Call) -> Result<Outs> {
    let (axis, sorted) = (c.int("axis")?, c.int_or("sorted", 1)? != 0);
    if let Value::Strings(s) = c.input(0)? {
        return unique_texts(s, axis, sorted);
    }
    let x = c.tensor(0)?;
    let axis = axis.map(|a| axis_of(a, x.rank())).transpose()?;
    let (x, axis) = axis.map_or_else(|| (x.ravel(), 0), |a| (x.clone(), a as isize));
    if x.shape().as_slice().iter().any(|d| d.as_int() == Some(0)) {
        let u = x.unique_along(axis)?;
        let [inverse, counts] = [u.inverse, u.counts].map(|t| t.long());
        return give(vec![u.values, counts.clone(), inverse, counts]);
    }
    let inverse = x.ranks_along(axis);
    // how many there are is asked for, so that it may be a variable
    let n = c.size_of(&(inverse.long().max(..) + 1))?;
    let places = Tensor::arange(inverse.shape()[0].clone()).long();
    let nowhere = Tensor::full_dtype([n.clone()], i64::MAX, DType::I64);
    let first = nowhere.scatter_reduce(0, &inverse, &places, "amin", true);
    let none = Tensor::full_dtype([n], 0, DType::I64);
    let counts = none.scatter_add(0, &inverse, places.ones_like());
    if sorted {
        return give(vec![x.index_select(axis, &first), first, inverse.long(), counts]);
    }
    let order = first.argsort(0, false).long();
    let rank = order.argsort(0, false).long();
    let first = first.take(&order);
    give(vec![x.index_select(axis, &first), first, rank.take(&inverse), counts.take(&order)])
}

/// The same of texts, which are on the host.
fn unique_texts(s: &Strings, axis: Option<i64>, sorted: bool) -> Result<Outs> {
    let (dims, axis) = match axis {
        Some(a) => (s.dims.clone(), axis_of(a, s.dims.len())?),
        None => (vec![s.texts.len()], 0),
    };
    let (n, inner) = (dims[axis], dims[axis + 1..].iter().product::<usize>());
    let outer: usize = dims[..axis].iter().product();
    let row = |o: usize, i: usize| &s.texts[(o * n + i) * inner..(o * n + i + 1) * inner];
    let slice = |i: usize| (0..outer).flat_map(|o| row(o, i)).map(String::as_str).collect::<Vec<&str>>();
    // where each stands first, and how often it does
    let mut known: BTreeMap<Vec<&str>, (usize, i64)> = BTreeMap::new();
    for i in 0..n {
        known.entry(slice(i)).or_insert((i, 0)).1 += 1;
    }
    let mut found: Vec<(usize, i64)> = known.values().copied().collect();
    if !sorted {
        found.sort_unstable();
    }
    let rank: BTreeMap<usize, i64> = found.iter().map(|(first, _)| *first).zip(0..).collect();
    let inverse: Vec<i64> = (0..n).map(|i| rank[&known[&slice(i)].0]).collect();
    let texts = (0..outer).flat_map(|o| found.iter().flat_map(move |(i, _)| row(o, *i))).cloned().collect();
    let values = Strings::new([&dims[..axis], &[found.len()], &dims[axis + 1..]].concat(), texts);
    let (first, counts): (Vec<i64>, Vec<i64>) = found.iter().map(|(i, count)| (*i as i64, *count)).unzip();
    let numbers = [first, inverse, counts].map(|v| Value::from(Tensor::from_slice(&v)));
    give([vec![values.into()], numbers.to_vec()].concat())
}
