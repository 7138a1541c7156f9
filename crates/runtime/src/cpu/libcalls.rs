//! The functions that compiled kernels may call: those that C compilers call without being asked.

use std::ffi::c_void;

/// Where `name` is, if it is one of them.
pub fn find(name: &str) -> Option<usize> {
    FUNCTIONS.iter().find(|(n, _)| *n == name).map(|(_, f)| f.0 as usize)
}

/// The address of a function; a pointer so that the table can be a constant.
struct Address(*const c_void);

// SAFETY: the address of a function is only a number.
unsafe impl Sync for Address {}

macro_rules! functions {
    ($($name:literal => $f:expr, $type:ty;)*) => {
        static FUNCTIONS: &[(&str, Address)] = &[$(($name, Address($f as $type as *const c_void))),*];
    };
}

type Copy = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void;
type Fill = unsafe extern "C" fn(*mut c_void, i32, usize) -> *mut c_void;
type Compare = unsafe extern "C" fn(*const c_void, *const c_void, usize) -> i32;
type F32 = extern "C" fn(f32) -> f32;
type F64 = extern "C" fn(f64) -> f64;
type Fma32 = extern "C" fn(f32, f32, f32) -> f32;
type Fma64 = extern "C" fn(f64, f64, f64) -> f64;
type Mod32 = extern "C" fn(f32, f32) -> f32;
type Mod64 = extern "C" fn(f64, f64) -> f64;

macro_rules! c_functions {
    ($($name:ident($($x:ident),*): $t:ty = $e:expr;)*) => {
        $(extern "C" fn $name($($x: $t),*) -> $t { $e })*
    };
}

c_functions! {
    floor32(x): f32 = x.floor();              floor64(x): f64 = x.floor();
    ceil32(x): f32 = x.ceil();                ceil64(x): f64 = x.ceil();
    trunc32(x): f32 = x.trunc();              trunc64(x): f64 = x.trunc();
    even32(x): f32 = x.round_ties_even();     even64(x): f64 = x.round_ties_even();
    round32(x): f32 = x.round();              round64(x): f64 = x.round();
    sqrt32(x): f32 = x.sqrt();                sqrt64(x): f64 = x.sqrt();
    fma32(x, y, z): f32 = x.mul_add(y, z);    fma64(x, y, z): f64 = x.mul_add(y, z);
    fmod32(x, y): f32 = x % y;                fmod64(x, y): f64 = x % y;
}

functions! {
    "memcpy" => libc::memcpy, Copy;     "memmove" => libc::memmove, Copy;
    "memset" => libc::memset, Fill;     "memcmp" => libc::memcmp, Compare;
    "floorf" => floor32, F32;           "floor" => floor64, F64;
    "ceilf" => ceil32, F32;             "ceil" => ceil64, F64;
    "truncf" => trunc32, F32;           "trunc" => trunc64, F64;
    "rintf" => even32, F32;             "rint" => even64, F64;
    "nearbyintf" => even32, F32;        "nearbyint" => even64, F64;
    "roundevenf" => even32, F32;        "roundeven" => even64, F64;
    "roundf" => round32, F32;           "round" => round64, F64;
    "sqrtf" => sqrt32, F32;             "sqrt" => sqrt64, F64;
    "fmaf" => fma32, Fma32;             "fma" => fma64, Fma64;
    "fmodf" => fmod32, Mod32;           "fmod" => fmod64, Mod64;
}
