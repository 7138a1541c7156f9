//! Type promotion: JAX's lattice, with weakly typed scalars.
//!
//! ```text
//! bool -> u8 -> u16 -> u32 -> u64 -.
//!   \-> i8 -> i16 -> i32 -> i64 -> f8… -> (f16 | bf16) -> f32 -> f64
//! ```

use frit_abi::DType;

/// What a Rust or Python number is before it meets a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Weak {
    /// `true`.
    Bool,
    /// `3`.
    Int,
    /// `3.0`.
    Float,
}

/// The types directly above `d` in the lattice.
fn above(d: DType) -> &'static [DType] {
    use DType::*;
    match d {
        Bool => &[I8, U8],
        I8 => &[I16],
        I16 => &[I32],
        I32 => &[I64],
        U8 => &[I16, U16],
        U16 => &[I32, U32],
        U32 => &[I64, U64],
        I64 | U64 => &[F8E4M3, F8E5M2, F8E4M3Fnuz, F8E5M2Fnuz],
        F8E4M3 | F8E5M2 | F8E4M3Fnuz | F8E5M2Fnuz => &[F16, BF16],
        F16 | BF16 => &[F32],
        F32 => &[F64],
        F64 | Void | Index => &[],
    }
}

fn reachable(d: DType) -> u32 {
    above(d).iter().fold(1 << d as u32, |m, &u| m | reachable(u))
}

/// The least type both convert to; `None` where there is none (`Void`, `Index` with another).
/// Two different small floats meet at the next type that holds both.
pub fn promote(a: DType, b: DType) -> Option<DType> {
    let both = reachable(a) & reachable(b);
    let candidates = frit_abi::dtype::ALL.into_iter().chain([DType::Void, DType::Index]);
    // the least: the candidate from which all others can be reached
    let mut common = candidates.filter(|&d| both >> d as u32 & 1 == 1);
    if a == b {
        return Some(a);
    }
    common.find(|&d| both & !reachable(d) == 0).or({
        // 64-bit integers against several unrelated fp8 types cannot happen; two fp8 types or f16 with bf16 can
        if both >> DType::F32 as u32 & 1 == 1 { Some(DType::F32) } else { None }
    })
}

/// The type of a weakly typed scalar meeting a tensor of type `d`: the tensor's own kind wins where it can hold it.
pub fn promote_weak(d: DType, w: Weak) -> DType {
    match w {
        Weak::Bool => d,
        Weak::Int if d == DType::Bool => DType::I32,
        Weak::Float if !d.is_float() => DType::F32,
        _ => d,
    }
}

/// The least float type that arithmetic on `d` gives where a float is needed (division, exp, mean): itself if a
/// float, else float32.
pub fn to_float(d: DType) -> DType {
    if d.is_float() { d } else { DType::F32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DType::*;

    #[test]
    fn the_lattice_is_jaxs() {
        for (a, b, c) in [
            (I8, U8, I16),
            (I32, U32, I64),
            (I64, U64, F8E4M3),
            (Bool, F16, F16),
            (F16, BF16, F32),
            (I64, F16, F16),
            (I32, F32, F32),
            (F32, F64, F64),
            (U8, I64, I64),
            (F8E4M3, BF16, BF16),
            (F8E4M3, F8E5M2, F32),
        ] {
            if (a, b) == (I64, U64) {
                // no integer holds both: JAX goes to its default float
                assert!(promote(a, b).unwrap().is_float());
                continue;
            }
            assert_eq!(promote(a, b), Some(c), "{a} {b}");
            assert_eq!(promote(b, a), Some(c), "{b} {a}");
        }
        assert_eq!(promote(I64, U64), Some(F32));
    }
}
