//! `Shl` and `Shr` by amounts that may be out of range: 0, or the sign. A field of bits is moved to its place at once.
//!
//! ```text
//! Shl(x, y)                 ->  Where(0 <= y < bits, Shl(x, y & (bits - 1)), 0)
//! Shl(And(Shr(x, 2), 3), 4) ->  And(Shl(x, 2), 48)
//! ```

use frit_abi::Target;
use frit_uop::{Alu, UOp, rules};

rules! { pub SHIFT(target: Target);
    Shl(x, y) if out_of_range(x, y)  => left(x, y);
    Shr(x, y) if out_of_range(x, y)  => right(x, y);
    Shl(And[Shr(x, Const() as from), Const() as mask], Const() as to) => moved(x, from, mask, to);
}

/// The bits of a mask, which begin at `from` in `x`, beginning at `to`. Only where all are there, and none becomes the sign.
fn moved(x: &UOp, from: &UOp, mask: &UOp, to: &UOp) -> Option<UOp> {
    let (from, m, to) = (from.as_int()?, mask.as_int()?, to.as_int()?);
    let width = 64 - m.max(0).leading_zeros() as i64;
    let fits = |at: i64| at >= 0 && width + at < x.dtype.bits() as i64;
    if m <= 0 || from < 1 || !x.dtype.is_int() || !fits(from - 1) || !fits(to) {
        return None;
    }
    let field = match from - to {
        0 => x.clone(),
        by if by > 0 => x.bin(Alu::Shr, &x.const_like(by)),
        by => x.bin(Alu::Shl, &x.const_like(-by)),
    };
    Some(field.and_(&x.const_like(m << to)))
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
