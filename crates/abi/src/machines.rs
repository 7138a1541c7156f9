//! Machines by name, whether or not they are here: what `NULL:NAME` poses as, and `INTERP:NAME` where it can.
//!
//! Their numbers are fixed, so what is compiled for them is the same everywhere and can be compared between commits.
//! The GPUs are those parts of one that [`Target`] has words for; no writer of their own languages exists yet, so their
//! kernels are bytecode.

use crate::matrix::{AMX_BF16, AMX_INT8, MMA_SYNC};
use crate::target::{DTypeSet, Grid, Isa};
use crate::{DType, Target};

/// A machine: its name, and what it can do.
pub type Machine = (&'static str, fn() -> Target);

/// Every machine there is a name for.
pub const MACHINES: &[Machine] = &[
    ("SSE2", || cpu(Isa::Sse2)),
    ("AVX2", || cpu(Isa::Avx2)),
    ("AVX512", || cpu(Isa::Avx512)),
    ("AMX", amx),
    ("INTERP", Target::interp),
    ("GPU", Target::interp_gpu),
    ("SM80", || cuda("sm80", 163 << 10, [192 << 10, 40 << 20, 0])),
    ("SM90", || cuda("sm90", 227 << 10, [256 << 10, 50 << 20, 0])),
    ("WEBGPU", webgpu),
];

/// The machine of this name.
pub fn machine(name: &str) -> Option<Target> {
    MACHINES.iter().find(|(known, _)| *known == name).map(|(_, target)| target())
}

fn cpu(isa: Isa) -> Target {
    Target::native(isa, 8, [32 << 10, 1 << 20, 32 << 20])
}

fn amx() -> Target {
    let target = cpu(Isa::Avx512);
    Target { name: target.name.clone() + "-amx", matrix: [&[AMX_BF16], &AMX_INT8[..]].concat(), ..target }
}

fn cuda(name: &str, local_bytes: usize, caches: [usize; 3]) -> Target {
    let grid = Grid {
        max_global: [i32::MAX as u32, 65_535, 65_535],
        max_local: [1024, 1024, 64],
        max_block: 1024,
        local_bytes,
        warp: 32,
    };
    Target {
        name: name.into(),
        registers: 128,
        caches,
        grid: Some(grid),
        converts: DTypeSet::of(&[DType::F16, DType::BF16]),
        matrix: MMA_SYNC.to_vec(),
        ..Target::interp_gpu()
    }
}

/// The limits that every implementation keeps.
fn webgpu() -> Target {
    use DType::*;
    let grid = Grid {
        max_global: [65_535; 3],
        max_local: [256, 256, 64],
        max_block: 256,
        local_bytes: 16 << 10,
        warp: 32,
    };
    Target {
        name: "webgpu".into(),
        grid: Some(grid),
        int64: false,
        storage: DTypeSet::of(&[Bool, I32, U32, F32]),
        arithmetic: DTypeSet::of(&[Bool, I32, U32, F32]),
        matrix: vec![],
        ..Target::interp_gpu()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_have_names_of_their_own_and_vectors_as_their_instructions_say() {
        for (i, (name, target)) in MACHINES.iter().enumerate() {
            assert!(MACHINES[..i].iter().all(|(n, t)| n != name && t().name != target().name), "{name}");
            assert_eq!(machine(name), Some(target()));
        }
        assert_eq!(machine("AVX2").map(|t| t.vector_bytes), Some(32));
        assert_eq!(machine("Z80"), None);
    }
}
