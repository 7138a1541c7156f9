//! Sorting networks: keys that carry their place, merged by min and max alone.
//!
//! ```text
//! x  ->  key: an integer in the order of the elements, 32 bits          (descending: its complement)
//!    ->  key << 32 | place, one int64: sorting is stable and finds the indices
//!    ->  blocks of 2, 4, 8, … elements merged, several stages of the network in one kernel
//!    ->  the low halves are the indices; the values are gathered by them, so gradients scatter back
//! ```
//!
//! Keys of 64 bits are sorted by their low half, then by their high half. The axis is first in memory while it is
//! sorted, so that every stage works on whole vectors of the other dims.

use crate::error::{Result, fail};
use crate::movement::{cut, pad_axis};
use crate::reduce::along_axis;
use crate::shape::{product, show};
use frit_uop::{Alu, DType, UOp};
use smallvec::SmallVec;

/// Stages of one kernel: what is compared is held in this many (a power of two) registers.
const HELD: u32 = 4;

/// The integers of `x` in its order, int64: NaN after all others and -0 equal to 0, as torch sorts. `descending` turns
/// the order round.
fn ordered(x: &UOp, descending: bool) -> UOp {
    let bits = |x: &UOp, int: DType, shift: i64, low: i64| {
        let b = x.bitcast(int);
        let sign = b.bin(Alu::Shr, &b.const_like(shift)).and_(&b.const_like(low));
        let key = b.bin(Alu::Xor, &sign);
        let key = x.eq_(&x.const_like(0)).select(&key.const_like(0), &key);
        x.ne_(x).select(&key.const_like(low), &key)
    };
    let key = match x.dtype {
        DType::F64 => bits(x, DType::I64, 63, i64::MAX),
        d if d.is_float() => bits(&x.cast(DType::F32), DType::I32, 31, i32::MAX as i64),
        DType::U64 => {
            let v = x.cast(DType::I64);
            v.bin(Alu::Xor, &v.const_like(i64::MIN))
        }
        DType::U32 => {
            let v = x.cast(DType::I64);
            v.bin(Alu::Sub, &v.const_like(1 << 31))
        }
        _ => x.clone(),
    };
    let key = key.cast(DType::I64);
    if descending { key.const_like(-1).bin(Alu::Sub, &key) } else { key }
}

/// Keys of 32 bits (int64), each with a place behind it that tells equal ones apart.
fn packed(key: &UOp, place: &UOp) -> UOp {
    key.bin(Alu::Shl, &key.const_like(32)).or_(place)
}

/// The places of the first `keep` in order, int32.
fn first_places(packed: &UOp, keep: &UOp) -> UOp {
    cut(&network(packed, keep), 0, &UOp::index(0), keep).cast(DType::I32)
}

/// Places along axis 0 in the order of 32-bit keys (int64), of equal ones the first first: the first `keep` of
/// them, int32.
fn places_by(key: &UOp, keep: &UOp) -> UOp {
    first_places(&packed(key, &along_axis(&UOp::iota(&key.shape()[0], DType::I64), key.shape(), 0)), keep)
}

/// Elements in a group below which looking at groups first does not pay.
const SHORTEST: i64 = 8;

/// How many neighbours are a group where a few of many are wanted: as many as make finding the groups and looking into
/// them as much work.
fn group_size(n: &UOp, keep: &UOp) -> i64 {
    let (Some(n), Some(keep @ 1..)) = (n.as_int(), keep.as_int()) else { return 1 };
    1 << ((n / keep).max(1).ilog2() / 2)
}

/// The same where few of many are wanted: the first `keep` are in the `keep` groups whose first elements are.
fn few(op: &'static str, x: &UOp, descending: bool, keep: &UOp, group: i64) -> Result<UOp> {
    let (dims, n, i) = (x.shape(), &x.shape()[0], UOp::index);
    let groups = (n.as_int().unwrap_or(0) + group - 1) / group;
    let with = |lead: &[i64]| -> SmallVec<[UOp; 4]> {
        lead.iter().map(|&d| i(d)).chain(dims[1..].iter().cloned()).collect()
    };
    let keyed = packed(&ordered(&x.detach(), descending), &along_axis(&UOp::iota(n, DType::I64), dims, 0));
    let whole = padded(&keyed, &i(groups * group).size_sub(n), &keyed.const_like(i64::MAX));
    let least = whole.reshape(&with(&[groups, group])).reduce_axes(Alu::Min, &[1]).reshape(&with(&[groups]));
    let found = first_places(&least, keep);
    let of_group = found.bin(Alu::Idiv, &found.const_like(group)).bin(Alu::Mul, &found.const_like(group));
    // all elements of those groups
    let kept = keep.as_int().unwrap_or(0);
    let all = with(&[kept, group]);
    let inside = along_axis(&UOp::iota(&i(group), DType::I32), &all, 1);
    let at = of_group
        .reshape(&with(&[kept, 1]))
        .expand(&all)
        .bin(Alu::Add, &inside)
        .reshape(&with(&[kept * group]));
    let last = at.const_like(n.as_int().unwrap_or(1) - 1);
    let key = ordered(&pick(op, &x.detach(), &at.bin(Alu::Min, &last))?, descending);
    let beyond = last.lt(&at);
    let again = beyond.select(&key.const_like(i64::MAX), &packed(&key, &at.cast(DType::I64)));
    Ok(first_places(&again, keep))
}

/// Places along axis 0 in the order of the elements: the first `keep` of them, int32.
pub(crate) fn order(op: &'static str, x: &UOp, descending: bool, keep: &UOp) -> Result<UOp> {
    let n = &x.shape()[0];
    if n.bounds.1 > i32::MAX as i128 {
        return fail!(op, "{} elements along the axis do not fit int32", show(n));
    }
    let key = ordered(&x.detach(), descending);
    if x.dtype.size() < 8 {
        let group = group_size(n, keep);
        return if group < SHORTEST {
            Ok(places_by(&key, keep))
        } else {
            few(op, x, descending, keep, group)
        };
    }
    // by the low half, then by the high half of what that brings
    let low = key.and_(&key.const_like(u32::MAX as i64)).bin(Alu::Sub, &key.const_like(1 << 31));
    let high = key.bin(Alu::Shr, &key.const_like(32));
    let first = places_by(&low, n);
    let then = places_by(&pick(op, &high, &first)?, keep);
    pick(op, &first, &then)
}

/// Elements along axis 0 by places, other coordinates staying.
fn pick(op: &'static str, x: &UOp, places: &UOp) -> Result<UOp> {
    crate::index::gather_along(op, x, 0, places)
}

/// `(n, rest…)` sorted along the first axis, at least its first `keep`. Where n varies, as many as it can be are sorted,
/// those that are not there being last.
fn network(x: &UOp, keep: &UOp) -> UOp {
    let (n, rest) = (&x.shape()[0], x.shape()[1..].iter().cloned().collect::<SmallVec<[UOp; 4]>>());
    let levels = ceil_log2(n.bounds.1);
    let whole = 1i64 << levels;
    let greatest = x.const_like(i64::MAX);
    let lines = padded(x, &UOp::index(whole).size_sub(n), &greatest);
    let mut net = Net { v: lines.reshape(&[UOp::index(whole), product(&rest)]).contiguous(), n: whole };
    let first = levels.min(HELD);
    net.sort_blocks(first);
    let kept = ceil_log2(keep.bounds.1).max(first);
    for level in first + 1..=levels {
        net.merge(level.min(kept + 1), level > kept);
    }
    let dims: SmallVec<[UOp; 4]> = std::iter::once(UOp::index(net.n)).chain(rest).collect();
    net.v.reshape(&dims)
}

/// More elements at the end of axis 0.
fn padded(x: &UOp, more: &UOp, v: &UOp) -> UOp {
    let zero = UOp::index(0);
    if *more == zero {
        return x.clone();
    }
    let inside = crate::tensor::filled(x.shape(), UOp::boolean(true));
    pad_axis(&inside, 0, &zero, more).select(&pad_axis(x, 0, &zero, more), v)
}

fn ceil_log2(n: i128) -> u32 {
    (n.max(1) as u64).next_power_of_two().trailing_zeros()
}

/// Lines `(n, width)` on the way to be sorted.
struct Net {
    v: UOp,
    n: i64,
}

impl Net {
    fn width(&self) -> &UOp {
        &self.v.shape()[1]
    }
    /// Seen as blocks.
    fn seen(&self, dims: &[i64]) -> UOp {
        let dims: SmallVec<[UOp; 4]> =
            dims.iter().map(|&d| UOp::index(d)).chain([self.width().clone()]).collect();
        self.v.reshape(&dims)
    }
    /// Put slices back as the second of three dims, and stay in memory.
    fn put(&mut self, slices: &[UOp]) {
        let mut dims: SmallVec<[UOp; 4]> = slices[0].shape().iter().cloned().collect();
        dims[1] = UOp::index(slices.len() as i64);
        // chosen by place rather than padded: all are computed together, and shared by a tile over this dim
        let place = along_axis(&UOp::iota(&dims[1], DType::I32), &dims, 1);
        let mut out = slices[0].expand(&dims);
        for (k, s) in slices.iter().enumerate().skip(1) {
            out = place.lt(&place.const_like(k as i64)).select(&out, &s.expand(&dims));
        }
        let n = product(&dims[..dims.len() - 1]);
        self.n = n.as_int().unwrap_or(0);
        self.v = out.contiguous().reshape(&[n, self.width().clone()]);
    }
    /// Every block of `2^level` sorted, in registers.
    fn sort_blocks(&mut self, level: u32) {
        if level == 0 {
            return;
        }
        let held = 1 << level;
        let seen = self.seen(&[self.n / held, held, 1]);
        let mut slices: Vec<UOp> = (0..held).map(|i| cut(&seen, 1, &UOp::index(i), &UOp::index(1))).collect();
        odd_even_sort(&mut slices);
        self.put(&slices);
    }
    /// Pairs of sorted blocks merged to blocks of `2^level`; only the lower half stays if `halve`.
    fn merge(&mut self, level: u32, halve: bool) {
        let bits = level - halve as u32; // of what stays
        let groups = bits.div_ceil(HELD).max(1);
        let mut left = bits;
        for g in 0..groups {
            let k = left.div_ceil(groups - g);
            left -= k;
            let (held, below) = (1i64 << k, 1i64 << left);
            let mut slices: Vec<UOp> = match (g, halve) {
                (0, true) => {
                    let seen = self.seen(&[self.n >> level, 2 * held, below]);
                    let (lower, upper) = facing(&seen, held);
                    lower.iter().zip(&upper).map(|(a, b)| a.bin(Alu::Min, b)).collect()
                }
                (0, false) => {
                    let seen = self.seen(&[self.n >> level, held, below]);
                    let (lower, upper) = facing(&seen, held / 2);
                    let both = || lower.iter().zip(&upper);
                    let low = both().map(|(a, b)| a.bin(Alu::Min, b));
                    low.chain(both().map(|(a, b)| a.bin(Alu::Max, b))).collect()
                }
                _ => {
                    let seen = self.seen(&[self.n >> (left + k), held, below]);
                    (0..held).map(|i| cut(&seen, 1, &UOp::index(i), &UOp::index(1))).collect()
                }
            };
            let apart = if g == 0 && !halve { held / 4 } else { held / 2 };
            clean(&mut slices, apart as usize);
            self.put(&slices);
        }
    }
}

/// The first `half` slices of the second dim, and what stands opposite them when the others are reversed.
fn facing(seen: &UOp, half: i64) -> (Vec<UOp>, Vec<UOp>) {
    let at = |i: i64| cut(seen, 1, &UOp::index(i), &UOp::index(1));
    let lower = (0..half).map(at).collect();
    let upper = (0..half).map(|i| at(2 * half - 1 - i).flip(&[2])).collect();
    (lower, upper)
}

fn exchange(v: &mut [UOp], i: usize, j: usize) {
    (v[i], v[j]) = (v[i].bin(Alu::Min, &v[j]), v[i].bin(Alu::Max, &v[j]));
}

/// Bitonic runs sorted: elements `apart`, then half of that, and so on.
fn clean(v: &mut [UOp], mut apart: usize) {
    while apart > 0 {
        for i in (0..v.len()).filter(|i| i & apart == 0) {
            exchange(v, i, i + apart);
        }
        apart /= 2;
    }
}

/// Batcher's odd-even merge sort of a power of two.
fn odd_even_sort(v: &mut [UOp]) {
    let n = v.len();
    let mut p = 1;
    while p < n {
        let mut k = p;
        while k > 0 {
            for j in (k % p..n - k).step_by(2 * k) {
                for i in (0..k.min(n - j - k)).map(|i| i + j).filter(|i| i / (2 * p) == (i + k) / (2 * p)) {
                    exchange(v, i, i + k);
                }
            }
            k /= 2;
        }
        p *= 2;
    }
}
