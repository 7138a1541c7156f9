//! Type promotion: JAX's lattice, with weakly typed scalars.
//!
//! ```text
//! bool -> u8 -> u16 -> u32 -> u64 -.
//!   \-> i8 -> i16 -> i32 -> i64 -> f8… -> (f16 | bf16) -> f32 -> f64
//! ```

use frit_abi::DType;
use frit_abi::sync::RwLock;
use std::cell::Cell;

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
        Weak::Int if d == DType::Bool => defaults().int,
        Weak::Float if !d.is_float() => defaults().float,
        _ => d,
    }
}

/// The least float type that arithmetic on `d` gives where a float is needed (division, exp, mean): itself if a
/// float, else the default one, float32.
pub fn to_float(d: DType) -> DType {
    if d.is_float() { d } else { defaults().float }
}

/// The types of numbers that no one gave a type: float32 and int32, unless the program says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Defaults {
    /// Of floats, and of what is made of integers where floats are needed.
    pub float: DType,
    /// Of integers.
    pub int: DType,
}

impl Defaults {
    fn is_sound(&self) -> bool {
        self.float.is_float() && self.int.is_int() && self.int != DType::Bool
    }
}
impl Default for Defaults {
    fn default() -> Defaults {
        Defaults { float: DType::F32, int: DType::I32 }
    }
}

thread_local! {
    static SCOPED: Cell<Option<Defaults>> = const { Cell::new(None) };
}
static CHOSEN: RwLock<Option<Defaults>> = RwLock::new(None);

/// The default types of the innermost [`with_defaults`] of this thread, else those of the process.
pub fn defaults() -> Defaults {
    let chosen = || *CHOSEN.read().unwrap_or_else(|e| e.into_inner());
    SCOPED.get().or_else(chosen).unwrap_or_default()
}

/// Makes these the default types of all threads, outside scopes. A type that is not of its kind changes nothing.
pub fn choose_defaults(d: Defaults) {
    if d.is_sound() {
        *CHOSEN.write().unwrap_or_else(|e| e.into_inner()) = Some(d);
    }
}

/// Runs `f` with other default types on this thread. A type that is not of its kind changes nothing.
pub fn with_defaults<T>(d: Defaults, f: impl FnOnce() -> T) -> T {
    struct Restore(Option<Defaults>);
    impl Drop for Restore {
        fn drop(&mut self) {
            SCOPED.set(self.0);
        }
    }
    let _restore = Restore(SCOPED.replace(if d.is_sound() { Some(d) } else { SCOPED.get() }));
    f()
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
