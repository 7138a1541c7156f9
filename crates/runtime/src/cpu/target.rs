//! What this machine's cores can do.

use crate::env::Units;
use frit_abi::matrix::{AMX_BF16, AMX_F16, AMX_INT8, dots};
use frit_abi::target::{BASIC_FLOAT, BASIC_INT, DTypeSet, Isa};
use frit_abi::{DType, Language, MatrixUnit, Target};

/// The target of kernels on this machine with a pool of `threads`: machine code, or C where `isa` is `Portable`.
pub fn detect(threads: usize, isa: Isa, units: Units) -> Target {
    use DType::*;
    if isa != Isa::Portable {
        let mut target = Target::native(isa, threads, caches());
        target.matrix = dots(target.vector_bytes, target.registers, has_vnni(isa));
        let tiles = if isa == Isa::Avx512 { units.of(matrix_units()) } else { vec![] };
        if !tiles.is_empty() {
            target.matrix.splice(0..0, tiles);
            target.name += "-amx";
        }
        return target;
    }
    let (isa, vector_bytes, registers) = compiled();
    Target {
        name: format!("c-{isa}"),
        language: Language::C,
        threads,
        vector_bytes,
        vector_access_bytes: vector_bytes,
        registers,
        caches: caches(),
        grid: None,
        int64: true,
        storage: DTypeSet::of(&frit_abi::dtype::ALL),
        arithmetic: DTypeSet::of(&[Bool, I8, I16, I32, I64, U8, U16, U32, U64, F32, F64]),
        converts: DTypeSet::default(),
        packed: DTypeSet::default(),
        small_float_ops: Default::default(),
        float_ops: BASIC_FLOAT,
        int_ops: BASIC_INT,
        isa: Isa::Portable,
        matrix: vec![],
        async_copies: false,
        costs: frit_abi::Costs::of_vectors(vector_bytes),
    }
}

/// The most that machine code can use here.
#[cfg(target_arch = "x86_64")]
pub fn machine() -> Isa {
    let avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2");
    match (avx2, has_avx512()) {
        (true, true) => Isa::Avx512,
        (true, false) => Isa::Avx2,
        _ => Isa::Sse2,
    }
}

/// The most that machine code can use here: nothing is written for this machine.
#[cfg(not(target_arch = "x86_64"))]
pub fn machine() -> Isa {
    Isa::Portable
}

/// Whether there are vectors of 64 bytes, with the extensions that every machine but the first had.
#[cfg(target_arch = "x86_64")]
pub fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("fma")
}

/// Whether there are vectors of 64 bytes.
#[cfg(not(target_arch = "x86_64"))]
pub fn has_avx512() -> bool {
    false
}

/// Whether one instruction of a set sums products of bytes here: with AVX2 alone it has an encoding of its own, which machine
/// code for a machine that has less than this one does not use.
#[cfg(target_arch = "x86_64")]
fn has_vnni(isa: Isa) -> bool {
    match isa {
        Isa::Avx512 => is_x86_feature_detected!("avx512vnni"),
        Isa::Avx2 => machine() == Isa::Avx2 && is_x86_feature_detected!("avxvnni"),
        _ => false,
    }
}

/// Whether one instruction sums products of bytes.
#[cfg(not(target_arch = "x86_64"))]
fn has_vnni(_: Isa) -> bool {
    false
}

/// The matrix units of this machine's cores that the system lets this process use.
#[cfg(target_arch = "x86_64")]
pub fn matrix_units() -> Vec<MatrixUnit> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    if __cpuid(0).eax < 7 {
        return vec![];
    }
    let features = __cpuid_count(7, 0).edx;
    let has = |bit: u32| features >> bit & 1 == 1;
    let mut units = vec![];
    if has(24) && crate::sys::allow_tiles() {
        if has(22) {
            units.push(AMX_BF16);
        }
        if __cpuid_count(7, 1).eax >> 21 & 1 == 1 {
            units.push(AMX_F16);
        }
        if has(25) {
            units.extend(AMX_INT8);
        }
    }
    units
}

/// The matrix units of this machine's cores: none are known.
#[cfg(not(target_arch = "x86_64"))]
pub fn matrix_units() -> Vec<MatrixUnit> {
    vec![]
}

/// Name of the instruction set, bytes of its widest vector, number of vector registers.
#[cfg(target_arch = "x86_64")]
fn compiled() -> (&'static str, usize, usize) {
    if has_avx512() {
        ("x86-64-avx512", 64, 32)
    } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        ("x86-64-avx2", 32, 16)
    } else {
        ("x86-64-sse2", 16, 16)
    }
}

/// Name of the instruction set, bytes of its widest vector, number of vector registers.
#[cfg(not(target_arch = "x86_64"))]
fn compiled() -> (&'static str, usize, usize) {
    (std::env::consts::ARCH, 16, 32)
}

/// Words that differ between machines for which a compiler would make different code: part of cache keys, so that a
/// cache directory can be shared between machines.
#[cfg(target_arch = "x86_64")]
pub fn identity() -> Vec<u8> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    let (most, extended) = (__cpuid(0).eax, __cpuid(0x8000_0000).eax);
    let mut words = vec![__cpuid(1).eax, __cpuid(1).ecx, __cpuid(1).edx];
    for (leaf, sub) in [(7, 0), (7, 1), (0xd, 1)] {
        if leaf <= most {
            let r = __cpuid_count(leaf, sub);
            words.extend(if leaf == 0xd { [r.eax, 0, 0, 0] } else { [r.eax, r.ebx, r.ecx, r.edx] });
        }
    }
    if extended >= 0x8000_0001 {
        let r = __cpuid(0x8000_0001);
        words.extend([r.ecx, r.edx]);
    }
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// Words that differ between machines for which a compiler would make different code: part of cache keys.
#[cfg(not(target_arch = "x86_64"))]
pub fn identity() -> Vec<u8> {
    std::env::consts::ARCH.into()
}

/// Sizes of the data caches of the first core, where the system tells.
fn caches() -> [usize; 3] {
    let mut sizes = [0; 3];
    for index in 0..8 {
        let read = |file: &str| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{file}");
            std::fs::read_to_string(path).map(|s| s.trim().to_owned()).unwrap_or_default()
        };
        let level = read("level").parse::<usize>().unwrap_or(0);
        if read("type") != "Instruction" && (1..=3).contains(&level) {
            sizes[level - 1] = parse_size(&read("size")).unwrap_or(0);
        }
    }
    sizes
}

/// `48K`, `2048K`, `300M`.
fn parse_size(text: &str) -> Option<usize> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    number.parse::<usize>().ok()?.checked_mul(scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_of_this_machine_makes_sense() {
        let t = detect(3, Isa::Portable, Units::All);
        assert!(t.name.starts_with("c-") && t.threads == 3 && t.vector_bytes.is_power_of_two());
        assert!(t.matrix.is_empty());
        let exact = detect(2, machine(), Units::Exact);
        assert!(exact.matrix.iter().all(|u| u.keeps_subnormals));
        let native = detect(2, machine(), Units::Off);
        assert!(native.matrix.iter().all(|u| u.setup == frit_abi::matrix::Setup::None));
        assert_eq!((native.isa, native.threads), (machine(), 2));
        assert_eq!(parse_size("2048K"), Some(2 << 20));
        assert_eq!(
            (parse_size("x"), parse_size(""), parse_size("99999999999999999999K")),
            (None, None, None)
        );
    }
}
