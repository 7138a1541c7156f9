//! What a machine can do, as data: codegen and render agree through it without seeing each other.

use crate::alu::AluSet;
use crate::costs::Costs;
use crate::matrix::{AMX_BF16, AMX_F16, AMX_INT8, MMA_SYNC, MMA_TF32, MatrixUnit, dots};
use crate::{Alu, DType, Language};

/// Everything codegen and render need to know of a machine. Part of every kernel cache's key.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Target {
    /// A short name for keys and messages: `c-x86-64-avx512`, `interp`, `interp-gpu`.
    pub name: String,
    /// What its programs are written in.
    pub language: Language,
    /// CPU-like machines: how many threads share the thread axis. 1 on machines with a grid.
    pub threads: usize,
    /// Bytes in the widest vector that arithmetic works on; 0 where arithmetic is scalar.
    pub vector_bytes: usize,
    /// Bytes in the widest vector that one load or store moves; alignment is required where `vector_bytes` is 0.
    pub vector_access_bytes: usize,
    /// Vector (or scalar) registers a tile may use.
    pub registers: usize,
    /// Sizes in bytes of the data caches, nearest first; zeros where unknown.
    pub caches: [usize; 3],
    /// A grid of blocks with local ids, local memory and barriers; `None` on CPU-like machines.
    pub grid: Option<Grid>,
    /// Integer registers of 64 bits exist.
    pub int64: bool,
    /// The types values can be loaded and stored as.
    pub storage: DTypeSet,
    /// The types arithmetic works in; others are decomposed (small floats in float32).
    pub arithmetic: DTypeSet,
    /// Small floats that the machine converts from and to float32, and from and to nothing else.
    pub converts: DTypeSet,
    /// Small floats of which two in one register are computed with at once.
    pub packed: DTypeSet,
    /// Operations the machine has on float32 and float64; the others are decomposed.
    pub float_ops: AluSet,
    /// Operations the machine has on the small floats in `arithmetic`; the others are computed in float32.
    pub small_float_ops: AluSet,
    /// Operations the machine has on integers and bools; the others are decomposed.
    pub int_ops: AluSet,
    /// The instructions that machine code may use; compilers of source have their own idea.
    pub isa: Isa,
    /// Its matrix units.
    pub matrix: Vec<MatrixUnit>,
    /// Copies from global to local memory can run in the background.
    pub async_copies: bool,
    /// What things cost there.
    pub costs: &'static Costs,
}

/// Which instructions machine code may use.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Isa {
    /// None: kernels are source or bytecode.
    Portable,
    /// Every x86-64.
    Sse2,
    /// With FMA, F16C, BMI1 and BMI2.
    Avx2,
    /// F, BW, DQ and VL, and all of [`Isa::Avx2`].
    Avx512,
    /// PTX for compute capability 8.0 (A100).
    Sm80,
    /// PTX for compute capability 8.9 (L4, RTX 4090), and all of [`Isa::Sm80`].
    Sm89,
    /// PTX for compute capability 9.0 (H100, H200) with what only that has, and all of [`Isa::Sm89`].
    Sm90a,
}

impl Isa {
    /// Its short name: `sse2`, `avx2`, `avx512`, `sm_90a`; `portable`.
    pub const fn name(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            Isa::Sse2 => "sse2",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
            Isa::Sm80 => "sm_80",
            Isa::Sm89 => "sm_89",
            Isa::Sm90a => "sm_90a",
        }
    }
    /// Bytes of its widest vector, and how many vector registers it has; GPUs compute with scalars.
    pub const fn vectors(self) -> (usize, usize) {
        match self {
            Isa::Sm80 | Isa::Sm89 | Isa::Sm90a => (0, 255),
            Isa::Portable | Isa::Sse2 => (16, 16),
            Isa::Avx2 => (32, 16),
            Isa::Avx512 => (64, 32),
        }
    }
}

/// The shape of a GPU-like launch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Grid {
    /// Most blocks in each dimension, fastest first.
    pub max_global: [u32; 3],
    /// Most lanes of a block in each dimension, fastest first.
    pub max_local: [u32; 3],
    /// Most lanes in a block.
    pub max_block: u32,
    /// Bytes of local (shared) memory a block may use.
    pub local_bytes: usize,
    /// Lanes that run together.
    pub warp: u32,
    /// Banks of local memory: lanes of a warp that want different words of one wait for each other.
    pub banks: u32,
    /// Bytes of a word of a bank.
    pub bank_bytes: u32,
    /// What runs blocks, and what those on one of them share.
    pub processors: Processors,
}

/// The multiprocessors of a GPU: how many blocks of a kernel run at once follows from them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Processors {
    /// How many there are.
    pub count: u32,
    /// Most lanes on one.
    pub lanes: u32,
    /// Most blocks on one.
    pub blocks: u32,
    /// Registers of 32 bits that the lanes on one share.
    pub registers: u32,
    /// Most registers of one lane.
    pub lane_registers: u32,
    /// Bytes of local memory that the blocks on one share.
    pub local_bytes: usize,
    /// Parts of one that issue instructions, each for warps of its own.
    pub schedulers: u32,
    /// Bytes that one moves in a cycle from and to its local memory, and from the second cache.
    pub local_bandwidth: u32,
    /// See [`Processors::local_bandwidth`].
    pub far_bandwidth: u32,
}

impl Processors {
    /// What NVIDIA's multiprocessors have in common since compute capability 8.0; the last is what copies were seen to reach.
    pub const NVIDIA: Processors = Processors {
        count: 1,
        lanes: 2048,
        blocks: 32,
        registers: 1 << 16,
        lane_registers: 255,
        local_bytes: 100 << 10,
        schedulers: 4,
        local_bandwidth: 128,
        far_bandwidth: 40,
    };
}

/// A set of element types.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct DTypeSet(u32);

impl DTypeSet {
    /// The set of these.
    pub fn of(types: &[DType]) -> DTypeSet {
        DTypeSet(types.iter().fold(0, |m, &t| m | 1 << t as u32))
    }
    /// Whether `t` is in it.
    pub fn has(self, t: DType) -> bool {
        self.0 >> t as u32 & 1 == 1
    }
}

/// Integer operations that every machine has.
pub const BASIC_INT: AluSet = {
    use Alu::*;
    AluSet::of(&[Neg, Not, Add, Sub, Mul, Tdiv, Max, Min, Lt, Eq, Ne, And, Or, Xor, Shl, Shr, Where])
};
/// Float operations that every machine has.
pub const BASIC_FLOAT: AluSet = {
    use Alu::*;
    AluSet::of(&[Neg, Add, Sub, Mul, Fdiv, Sqrt, Max, Min, Lt, Eq, Ne, Where, Trunc, Floor, Round, MulAcc])
};

/// Operations that machines with arithmetic on halves have; each rounds once.
pub const BASIC_HALF: AluSet = {
    use Alu::*;
    AluSet::of(&[Neg, Add, Sub, Mul, Max, Min, Where, MulAcc])
};

impl Target {
    /// What runs rows of work side by side: the threads of a CPU, the multiprocessors of a GPU.
    pub fn cores(&self) -> usize {
        self.grid.as_ref().map_or(self.threads, |g| g.processors.count as usize)
    }
    /// The matrix unit of a name.
    pub fn unit(&self, name: &str) -> Option<&MatrixUnit> {
        self.matrix.iter().find(|u| u.name == name)
    }
    /// Its matrix units, and those that it has for who asks for them.
    pub fn all_units(&self) -> Vec<MatrixUnit> {
        let asked = if self.language == Language::Ptx { &[MMA_TF32][..] } else { &[] };
        [&self.matrix[..], asked].concat()
    }
    /// How many elements of `dtype` the widest arithmetic vector holds (at least 1).
    pub fn lanes(&self, dtype: DType) -> usize {
        (self.vector_bytes / dtype.size().max(1)).max(1)
    }
    /// Bytes of the second-level data cache; a guess where that is not known.
    pub fn l2(&self) -> usize {
        self.caches[1].max(1 << 20)
    }
    /// Whether `op` on operands of `dtype` needs no decomposition.
    pub fn supports(&self, op: Alu, dtype: DType) -> bool {
        match dtype {
            d if d.is_small_float() => self.arithmetic.has(d) && self.small_float_ops.has(op),
            d if d.is_float() => self.arithmetic.has(d) && self.float_ops.has(op),
            _ => self.int_ops.has(op),
        }
    }

    /// Whether four products of bytes are summed by one operation.
    pub fn has_dot4(&self) -> bool {
        self.supports(Alu::Dot4, DType::I32)
    }
    /// Whether that is an instruction: elsewhere bytes become wider first.
    pub fn has_dot4_instruction(&self) -> bool {
        self.has_dot4() && (self.grid.is_some() || self.unit(crate::matrix::VNNI).is_some())
    }
    /// From how many rows on products of matrices of a type are for a matrix unit, if there is one. A CPU packs both factors for it,
    /// which takes longer than vectors of float32 do where the rows do not fill a tile.
    pub fn unit_rows(&self, dtype: DType) -> Option<usize> {
        let units = self.matrix.iter().filter(|u| u.operands == [dtype; 2]);
        units.map(|u| if self.grid.is_some() { 1 } else { u.size[0] }).min()
    }

    /// A CPU whose machine code uses these instructions, with a pool of `threads`.
    pub fn native(isa: Isa, threads: usize, caches: [usize; 3]) -> Target {
        use DType::*;
        let (vector_bytes, registers) = isa.vectors();
        // the baseline rounds a product before it adds, and has no rounding to whole numbers
        const LATER: AluSet = AluSet::of(&[Alu::MulAcc, Alu::Trunc, Alu::Floor, Alu::Round]);
        Target {
            name: format!("x86-64-{}", isa.name()),
            language: Language::X86,
            threads,
            vector_bytes,
            vector_access_bytes: vector_bytes,
            registers,
            caches,
            grid: None,
            int64: true,
            storage: DTypeSet::of(&crate::dtype::ALL),
            arithmetic: DTypeSet::of(&[Bool, I8, I16, I32, I64, U8, U16, U32, U64, F32, F64]),
            converts: if isa == Isa::Sse2 { DTypeSet::default() } else { DTypeSet::of(&[F16]) },
            packed: DTypeSet::default(),
            small_float_ops: AluSet::default(),
            float_ops: if isa == Isa::Sse2 { BASIC_FLOAT.without(LATER) } else { BASIC_FLOAT },
            int_ops: BASIC_INT.or(AluSet::of(&[Alu::Dot4])),
            isa,
            matrix: dots(vector_bytes, registers, false),
            async_copies: false,
            costs: Costs::of_vectors(vector_bytes),
        }
    }

    /// The interpreter posing as a CPU: scalar and vector values, one thread axis.
    pub fn interp() -> Target {
        let all = crate::dtype::ALL;
        Target {
            name: "interp".into(),
            language: Language::Bytecode,
            threads: 2,
            vector_bytes: 16,
            vector_access_bytes: 16,
            registers: 16,
            caches: [32 << 10, 1 << 20, 0],
            grid: None,
            int64: true,
            storage: DTypeSet::of(&all),
            arithmetic: DTypeSet::of(&all),
            converts: DTypeSet::default(),
            packed: DTypeSet::default(),
            float_ops: AluSet::of(&Alu::ALL),
            small_float_ops: AluSet::of(&Alu::ALL),
            int_ops: AluSet::of(&Alu::ALL),
            isa: Isa::Portable,
            matrix: [&AMX_INT8[..], &[AMX_BF16, AMX_F16], &dots(16, 16, true)].concat(),
            async_copies: false,
            costs: Costs::of_vectors(16),
        }
    }
    /// The interpreter posing as a GPU: blocks, local memory, barriers, scalar arithmetic, aligned vector access.
    pub fn interp_gpu() -> Target {
        Target {
            name: "interp-gpu".into(),
            threads: 1,
            vector_bytes: 0,
            registers: 64,
            grid: Some(Grid {
                max_global: [1 << 16, 1 << 10, 1 << 10],
                max_local: [64, 64, 8],
                max_block: 128,
                local_bytes: 16 << 10,
                warp: 32,
                banks: 32,
                bank_bytes: 4,
                processors: Processors {
                    count: 8,
                    lanes: 512,
                    blocks: 16,
                    registers: 1 << 15,
                    local_bytes: 32 << 10,
                    ..Processors::NVIDIA
                },
            }),
            matrix: MMA_SYNC.to_vec(),
            async_copies: true,
            float_ops: BASIC_FLOAT,
            int_ops: BASIC_INT.or(AluSet::of(&[Alu::Dot4])),
            arithmetic: DTypeSet::of(&{
                use DType::*;
                [Bool, I8, I16, I32, I64, U8, U16, U32, U64, F32, F64]
            }),
            ..Target::interp()
        }
    }

    /// A GPU whose kernels are PTX for these instructions; its sizes are another's.
    pub fn ptx(isa: Isa) -> Target {
        use DType::*;
        let halves = [F16, BF16];
        let all = crate::dtype::ALL.into_iter();
        let plain: Vec<DType> = all.filter(|d| !d.is_small_float() || halves.contains(d)).collect();
        let converts = if isa >= Isa::Sm89 { &[F16, BF16, F8E4M3, F8E5M2][..] } else { &halves };
        Target {
            name: isa.name().into(),
            language: Language::Ptx,
            registers: 128,
            arithmetic: DTypeSet::of(&plain),
            converts: DTypeSet::of(converts),
            packed: DTypeSet::of(&halves),
            float_ops: BASIC_FLOAT.or(AluSet::of(&[Alu::Recip, Alu::RecipNear, Alu::Exp2Near])),
            small_float_ops: BASIC_HALF,
            isa,
            ..Target::interp_gpu()
        }
    }
}
