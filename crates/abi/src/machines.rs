//! Machines by name, whether or not they are here: what `NULL:NAME` poses as, and `INTERP:NAME` where it can.
//!
//! Their numbers are fixed, so what is compiled for them is the same everywhere and can be compared between commits.
//! NVIDIA's GPUs are written PTX for; the others have no writer of their own, so their kernels
//! are bytecode.

use crate::matrix::{AMX_BF16, AMX_INT8, dots};
use crate::target::{BASIC_INT, DTypeSet, Grid, Isa, Processors};
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
    ("A100", || cuda("A100", A100)),
    ("L4", || cuda("L4", L4)),
    ("RTX4090", || cuda("RTX4090", RTX_4090)),
    ("H100", || cuda("H100", H100)),
    ("H200", || cuda("H200", H200)),
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
    let dots = dots(target.vector_bytes, target.registers, true);
    Target {
        name: target.name.clone() + "-amx",
        matrix: [&[AMX_BF16], &AMX_INT8[..], &dots].concat(),
        ..target
    }
}

/// What tells NVIDIA's GPUs apart. All give a block all but 1 KiB of a multiprocessor's shared memory.
struct Cuda {
    isa: Isa,
    multiprocessors: u32,
    /// Lanes and blocks on a multiprocessor, at most.
    lanes: u32,
    blocks: u32,
    /// Shared memory of a multiprocessor, its first cache (of which that is a part), and the second cache of all, in KiB.
    shared: usize,
    l1: usize,
    l2: usize,
}

#[rustfmt::skip]
const A100:     Cuda = Cuda { isa: Isa::Sm80,  multiprocessors: 108, lanes: 2048, blocks: 32, shared: 164, l1: 192, l2: 40 << 10 };
#[rustfmt::skip]
const L4:       Cuda = Cuda { isa: Isa::Sm89,  multiprocessors: 58,  lanes: 1536, blocks: 24, shared: 100, l1: 128, l2: 48 << 10 };
#[rustfmt::skip]
const RTX_4090: Cuda = Cuda { isa: Isa::Sm89,  multiprocessors: 128, lanes: 1536, blocks: 24, shared: 100, l1: 128, l2: 72 << 10 };
#[rustfmt::skip]
const H100:     Cuda = Cuda { isa: Isa::Sm90a, multiprocessors: 132, lanes: 2048, blocks: 32, shared: 228, l1: 256, l2: 50 << 10 };
#[rustfmt::skip]
const H200:     Cuda = Cuda { isa: Isa::Sm90a, multiprocessors: 132, lanes: 2048, blocks: 32, shared: 228, l1: 256, l2: 60 << 10 };

fn cuda(name: &str, m: Cuda) -> Target {
    let processors = Processors {
        count: m.multiprocessors,
        lanes: m.lanes,
        blocks: m.blocks,
        local_bytes: m.shared << 10,
        ..Processors::NVIDIA
    };
    let grid = Grid {
        max_global: [i32::MAX as u32, 65_535, 65_535],
        max_local: [1024, 1024, 64],
        max_block: 1024,
        local_bytes: (m.shared - 1) << 10,
        warp: 32,
        banks: 32,
        bank_bytes: 4,
        processors,
    };
    Target {
        name: format!("{}-{}", m.isa.name(), name.to_lowercase()),
        caches: [m.l1 << 10, m.l2 << 10, 0],
        grid: Some(grid),
        ..Target::ptx(m.isa)
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
        banks: 32,
        bank_bytes: 4,
        processors: Processors {
            count: 8,
            lanes: 512,
            blocks: 16,
            registers: 1 << 15,
            lane_registers: 128,
            local_bytes: 32 << 10,
            ..Processors::NVIDIA
        },
    };
    Target {
        name: "webgpu".into(),
        grid: Some(grid),
        int64: false,
        storage: DTypeSet::of(&[Bool, I32, U32, F32]),
        arithmetic: DTypeSet::of(&[Bool, I32, U32, F32]),
        int_ops: BASIC_INT,
        matrix: vec![],
        async_copies: false,
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
