//! The same bits as another type, in as many elements as they make.
//!
//! ```text
//! wider      (…, n*k) of 1 byte  ->  (…, n) of k bytes      the k parts of an element, shifted and or-ed together
//! narrower   (…, n) of k bytes   ->  (…, n*k) of 1 byte     an element k times, shifted and cut off
//! ```
//!
//! The first element is the low end, whatever the machine: as on every little-endian one, where values in memory and
//! their bytes read the same.

use crate::error::{Result, call, fail};
use crate::realize::{disk_bits, is_on_disk};
use crate::shape;
use crate::tensor::{Tensor, expand_to};
use frit_uop::{Alu, Arg, DType, Op, UOp};
use smallvec::SmallVec;

impl Tensor {
    /// The same bits as another type: a view. Where its elements are wider or narrower the last dim shrinks or grows by
    /// as much, low bits first.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::new([1.0, -2.0]);
    /// assert_eq!(x.bitcast(DType::U32).to_vec::<u32>()?, [0x3f800000, 0xc0000000]);
    /// assert_eq!(x.bitcast(DType::U16).to_vec::<u16>()?, [0, 0x3f80, 0, 0xc000]);
    /// assert_eq!(x.bitcast(DType::U8).bitcast(DType::F32).to_vec::<f32>()?, [1.0, -2.0]);
    /// assert_eq!(x.gt(0.0).bitcast(DType::U8).to_vec::<u8>()?, [1, 0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn bitcast(&self, dtype: DType) -> Tensor {
        let _c = call("bitcast");
        self.seen(|x| bits_as(x, dtype).map(|_| UOp::new(Op::Bitcast, dtype, [x.clone()], Arg::None)))
    }
}

/// The same bits as another type.
pub(crate) fn bits_as(x: &UOp, dtype: DType) -> Result<UOp> {
    match (x.dtype.size(), dtype.size()) {
        _ if matches!(dtype, DType::Void | DType::Index) => {
            fail!("bitcast", "{dtype} is not a type of elements")
        }
        (from, to) if from == to => Ok(x.bitcast(dtype)),
        (from, to) if from < to => widened(x, dtype, to / from),
        (from, to) => narrowed(x, dtype, from / to),
    }
}

/// The integer type whose elements are the bits of elements this large.
fn bits(bytes: usize) -> DType {
    match bytes {
        1 => DType::U8,
        2 => DType::U16,
        4 => DType::U32,
        _ => DType::U64,
    }
}

/// A last dim of `n` in place of the one there, and what else there is after it.
fn last(x: &UOp, tail: &[UOp]) -> SmallVec<[UOp; 4]> {
    let lead = x.shape().len().saturating_sub(1);
    x.shape()[..lead].iter().chain(tail).cloned().collect()
}

fn widened(x: &UOp, dtype: DType, k: usize) -> Result<UOp> {
    let parts = UOp::index(k as i64);
    let Some(n) = x.shape().last() else {
        return fail!("bitcast", "a scalar of {} has too few bytes for {dtype}", x.dtype);
    };
    let (times, symbols) = shape::factors(n);
    if times % k as i64 != 0 {
        let (n, from) = (shape::show(n), x.dtype);
        return fail!("bitcast", "a last dim of {n} {from} is not made of whole {dtype} ({k} in each)");
    }
    let whole = UOp::index(times / k as i64).size_mul(&shape::product(&symbols));
    if is_on_disk(x) {
        return disk_bits(x, dtype, &last(x, &[whole]));
    }
    let (wide, width) = (bits(dtype.size()), x.dtype.bits() as usize);
    let rows = x.bitcast(bits(x.dtype.size())).reshape(&last(x, &[whole, parts]));
    let rank = rows.shape().len();
    let part = |j: usize| {
        let mut begin: SmallVec<[UOp; 4]> = SmallVec::from_elem(UOp::index(0), rank);
        begin[rank - 1] = UOp::index(j as i64);
        let mut size: SmallVec<[UOp; 4]> = rows.shape().iter().cloned().collect();
        size[rank - 1] = UOp::index(1);
        let one = rows.shrink(&begin, &size).reshape(&rows.shape()[..rank - 1]).cast(wide);
        if j == 0 { one } else { one.bin(Alu::Shl, &UOp::int((j * width) as i64, wide)) }
    };
    let whole = (1..k).fold(part(0), |sum, j| sum.bin(Alu::Or, &part(j)));
    Ok(whole.bitcast(dtype))
}

fn narrowed(x: &UOp, dtype: DType, k: usize) -> Result<UOp> {
    let (wide, width) = (bits(x.dtype.size()), dtype.bits() as i64);
    let parts = UOp::index(k as i64);
    let Some(n) = x.shape().last().cloned() else {
        return fail!("bitcast", "a scalar of {} is {k} elements of {dtype}; reshape it to [1]", x.dtype);
    };
    if is_on_disk(x) {
        return disk_bits(x, dtype, &last(x, &[n.size_mul(&parts)]));
    }
    let dims = last(x, &[n.clone(), parts.clone()]);
    let one: SmallVec<[UOp; 4]> = last(x, &[n.clone(), UOp::index(1)]);
    let shift = UOp::iota(&parts, wide).bin(Alu::Mul, &UOp::int(width, wide));
    let spread = x.bitcast(wide).reshape(&one).expand(&dims);
    let cut = spread.bin(Alu::Shr, &expand_to(&shift, &dims)).cast(bits(dtype.size()));
    Ok(cut.bitcast(dtype).reshape(&last(x, &[n.size_mul(&parts)])))
}
