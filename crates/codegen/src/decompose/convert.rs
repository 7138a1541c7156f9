//! Small integers become floats by arithmetic on a grid, whose lanes convert at a fraction of the rate at which they add.
//!
//! ```text
//! Cast<f32>(x: 0 to 2^23)  ->  Bitcast<f32>(x | bits of 2^23) - 2^23
//! ```
//! Both steps are exact: such a float has a step of 1.

use frit_abi::{DType, Target};
use frit_uop::{UOp, rules};

rules! { pub CONVERT(target: Target);
    Cast(x) as n if n.dtype == DType::F32 && target.grid.is_some() && x.dtype.is_int() => by_bits(x);
}

/// 2^23, and the same with 2^22 to spare on both sides.
const STEP_ONE: f32 = 8_388_608.0;
const MIDDLE: f32 = 12_582_912.0;

fn by_bits(x: &UOp) -> Option<UOp> {
    let (low, high) = x.bounds;
    let small = 1 << 22;
    let word = x.cast(DType::I32);
    let shifted = |base: f32| {
        let bits = word.const_like(base.to_bits() as i64);
        // where no bit is in two of them it is an Or, which fuses with what cut the integer out
        let sum = if base == STEP_ONE { word.or_(&bits) } else { &word + &bits };
        &sum.bitcast(DType::F32) - &UOp::float(base.into(), DType::F32)
    };
    match () {
        _ if low >= 0 && high < 2 * small => Some(shifted(STEP_ONE)),
        _ if low >= -small && high < small => Some(shifted(MIDDLE)),
        _ => None,
    }
}
