//! Sorting networks: keys that carry their place, merged by min and max alone.
//!
//! ```text
//! x  ->  key: an integer in the order of the elements, 32 bits          (descending: its complement)
//!    ->  key * 2^21 + place, one float64 (of longer axes key << 32 | place, one int64): stable, and finds the indices
//!    ->  blocks of 2, 4, 8, … elements merged, several stages of the network in one kernel
//!    ->  the low bits are the indices; the values are gathered by them, so gradients scatter back
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

/// The integers of `x` in its order, int32 (int64 of types of 8 bytes): NaN after all others and -0 equal to 0, as torch
/// sorts. `descending` turns the order round.
fn ordered(x: &UOp, descending: bool) -> UOp {
    let bits = |x: &UOp, int: DType, shift: i64, low: i64| {
        let b = x.bitcast(int);
        let sign = b.bin(Alu::Shr, &b.const_like(shift)).and_(&b.const_like(low));
        let key = b.bin(Alu::Xor, &sign);
        let key = x.eq_(&x.const_like(0)).select(&key.const_like(0), &key);
        x.ne_(x).select(&key.const_like(low), &key)
    };
    let flipped = |v: UOp, least: i64| v.bin(Alu::Xor, &v.const_like(least));
    let key = match x.dtype {
        DType::F64 => bits(x, DType::I64, 63, i64::MAX),
        d if d.is_float() => bits(&x.cast(DType::F32), DType::I32, 31, i32::MAX as i64),
        DType::U64 => flipped(x.cast(DType::I64), i64::MIN),
        DType::U32 => flipped(x.cast(DType::I32), i32::MIN as i64),
        DType::I64 => x.clone(),
        _ => x.cast(DType::I32),
    };
    if descending { key.const_like(-1).bin(Alu::Sub, &key) } else { key }
}

/// Bits of a place behind a key of 32 bits in a float64, whose 53 hold both.
const PLACE_BITS: u32 = 21;

/// Keys of 32 bits, each with a place behind it that tells equal ones apart: as float64, of which a machine finds the lesser
/// in one instruction, where that holds both.
struct Packed {
    v: UOp,
    /// How many elements there are.
    n: UOp,
}

impl Packed {
    /// Keys, the places of their elements along axis 0.
    fn of(key: &UOp, place: &UOp, n: &UOp) -> Packed {
        if n.bounds.1 <= 1 << PLACE_BITS {
            let key = key.cast(DType::F64);
            let high = key.bin(Alu::Mul, &key.const_like(1i64 << PLACE_BITS));
            let v = high.bin(Alu::Add, &place.cast(DType::F64));
            return Packed { v, n: n.clone() };
        }
        let key = key.cast(DType::I64);
        Packed { v: key.bin(Alu::Shl, &key.const_like(32)).or_(&place.cast(DType::I64)), n: n.clone() }
    }
    /// What stands after all others.
    fn greatest(&self) -> UOp {
        let is_float = self.v.dtype == DType::F64;
        self.v.const_like(if is_float { 1i64 << (PLACE_BITS + 32) } else { i64::MAX })
    }
    /// The places of the first `keep` in order, int32.
    fn first(&self, keep: &UOp) -> UOp {
        let sorted = cut(&network(&self.v, &self.greatest(), keep), 0, &UOp::index(0), keep);
        let places = match sorted.dtype {
            DType::F64 => {
                let unit = sorted.const_like(1i64 << PLACE_BITS);
                let key = sorted.bin(Alu::Fdiv, &unit).un(Alu::Floor);
                sorted.bin(Alu::Sub, &key.bin(Alu::Mul, &unit)).cast(DType::I32)
            }
            _ => sorted.cast(DType::I32),
        };
        // which is what they are: who reads by them need not look
        let Some(n) = self.n.as_int() else { return places };
        places.bin(Alu::Max, &places.const_like(0)).bin(Alu::Min, &places.const_like((n - 1).max(0)))
    }
}

/// Numbers of elements along axis 0, int32.
fn numbered(dims: &[UOp]) -> UOp {
    along_axis(&UOp::iota(&dims[0], DType::I32), dims, 0)
}

/// Places along axis 0 in the order of 32-bit keys, of equal ones the first first: the first `keep` of them, int32.
fn places_by(key: &UOp, keep: &UOp) -> UOp {
    Packed::of(key, &numbered(key.shape()), &key.shape()[0]).first(keep)
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
    let key = ordered(&x.detach(), descending);
    let whole = padded(&key, &i(groups * group).size_sub(n), &key.const_like(i32::MAX as i64));
    let least = whole.reshape(&with(&[groups, group])).reduce_axes(Alu::Min, &[1]).reshape(&with(&[groups]));
    // of groups with equal keys the first holds the first of their elements
    let found = places_by(&least, keep);
    let of_group = found.bin(Alu::Mul, &found.const_like(group));
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
    let again = Packed::of(&key, &at, n);
    let v = last.lt(&at).select(&again.greatest(), &again.v);
    Ok(Packed { v, ..again }.first(keep))
}

/// Places along axis 0 in the order of the elements: the first `keep` of them, int32.
pub(crate) fn order(op: &'static str, x: &UOp, descending: bool, keep: &UOp) -> Result<UOp> {
    let n = &x.shape()[0];
    if n.bounds.1 > i32::MAX as i128 {
        return fail!(op, "{} elements along the axis do not fit int32", show(n));
    }
    if x.dtype.size() < 8 {
        let group = group_size(n, keep);
        return match group < SHORTEST {
            true => Ok(places_by(&ordered(&x.detach(), descending), keep)),
            false => few(op, x, descending, keep, group),
        };
    }
    // by the low half, then by the high half of what that brings
    let key = ordered(&x.detach(), descending);
    let low = key.cast(DType::I32);
    let low = low.bin(Alu::Xor, &low.const_like(i32::MIN as i64));
    let high = key.bin(Alu::Shr, &key.const_like(32)).cast(DType::I32);
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
fn network(x: &UOp, greatest: &UOp, keep: &UOp) -> UOp {
    let (n, rest) = (&x.shape()[0], x.shape()[1..].iter().cloned().collect::<SmallVec<[UOp; 4]>>());
    let levels = ceil_log2(n.bounds.1);
    let whole = 1i64 << levels;
    let lines = padded(x, &UOp::index(whole).size_sub(n), greatest);
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
            // few stages at first: what they compare are long runs
            let k = left - (groups - g - 1) * HELD;
            left -= k;
            let (held, below) = (1i64 << k, 1i64 << left);
            let mut slices: Vec<UOp> = match (g, halve) {
                (0, true) => {
                    let seen = self.seen(&[self.n >> level, 2 * held, below]);
                    let (lower, upper) = facing(&seen, held);
                    lower.iter().zip(&upper).map(|(a, b)| lesser(a, b)).collect()
                }
                (0, false) => {
                    let seen = self.seen(&[self.n >> level, held, below]);
                    let (lower, upper) = facing(&seen, held / 2);
                    let both = || lower.iter().zip(&upper);
                    let low = both().map(|(a, b)| lesser(a, b));
                    low.chain(both().map(|(a, b)| greater(a, b))).collect()
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
    (v[i], v[j]) = (lesser(&v[i], &v[j]), greater(&v[i], &v[j]));
}

/// The lesser of two keys. None is NaN, which `Min` of floats would look for.
fn lesser(a: &UOp, b: &UOp) -> UOp {
    if a.dtype.is_float() { a.lt(b).select(a, b) } else { a.bin(Alu::Min, b) }
}
fn greater(a: &UOp, b: &UOp) -> UOp {
    if a.dtype.is_float() { a.lt(b).select(b, a) } else { a.bin(Alu::Max, b) }
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
