//! `Shl` and `Shr` by amounts that may be out of range: 0, or the sign.
//!
//! ```text
//! Shl(x, y)  ->  Where(0 <= y < bits, Shl(x, y & (bits - 1)), 0)
//! ```

use frit_abi::Target;
use frit_uop::{Alu, UOp, rules};

rules! { pub SHIFT(target: Target);
    Shl(x, y) if out_of_range(x, y)  => left(x, y);
    Shr(x, y) if out_of_range(x, y)  => right(x, y);
}

/// Whether the bounds allow an amount the machine does not take.
fn out_of_range(x: &UOp, y: &UOp) -> bool {
    x.dtype.is_int() && (y.bounds.0 < 0 || y.bounds.1 >= x.dtype.bits() as i128)
}
/// Where the amount is in range, and the amount cut to the range.
fn cut(x: &UOp, y: &UOp) -> (UOp, UOp) {
    let bits = y.const_like(x.dtype.bits() as i64);
    let mut fits = y.lt(&bits);
    if y.bounds.0 < 0 {
        fits = fits.and_(&y.const_like(-1).lt(y));
    }
    (fits, y.and_(&y.const_like(x.dtype.bits() as i64 - 1)))
}
fn left(x: &UOp, y: &UOp) -> UOp {
    let (fits, amount) = cut(x, y);
    fits.select(&x.bin(Alu::Shl, &amount), &x.const_like(0))
}
fn right(x: &UOp, y: &UOp) -> UOp {
    let (fits, amount) = cut(x, y);
    let all = x.dtype.bits() as i64 - 1;
    let beyond = if x.bounds.0 < 0 { x.bin(Alu::Shr, &y.const_like(all)) } else { x.const_like(0) };
    fits.select(&x.bin(Alu::Shr, &amount), &beyond)
}
