//! A compiled kernel and the calling convention.
//!
//! **ABI 1, CPU-like machines.** `void kernel(void **buffers, const int64_t *vars, void *scratch, uint32_t *status,
//! int64_t begin, int64_t end)`: buffers and variables in the order of the kernel's parameters, scratch memory private
//! to the calling thread (64-byte aligned), one status word shared by all threads, and the slice `begin..end` of the
//! thread axis (0..1 where there is none). A load or store at a place that comes from data and misses writes its site
//! number plus one to the status word.
//!
//! **ABI 1, grid machines.** Parameters in order: an address of 64 bits for each buffer, each variable with as many bits as the
//! kernel computes with (the low half of what is passed where those are 32), the address of the status word last. Blocks and
//! lanes come from the hardware. Each buffer says which alignment its code counts on.

use crate::DType;

/// Version of the calling convention; part of every cache key.
pub const ABI_VERSION: u32 = 1;

/// A kernel ready to be loaded on a device.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Name of the entry point, unique enough for people: `r_64_32_4`.
    pub name: String,
    /// What the device's loader takes.
    pub code: Code,
    /// Parameters in order: buffers first, then variables.
    pub params: Vec<Param>,
    /// Bytes of private scratch each thread needs; on a grid, of local memory that a launch must give each block.
    pub scratch: usize,
}

/// The program in the form a device takes.
#[derive(Clone, Debug)]
pub enum Code {
    /// C source for the system's compiler.
    C(String),
    /// The interpreter's bytecode.
    Bytecode(std::sync::Arc<crate::bytecode::Program>),
    /// Machine code that refers to nothing outside itself; the entry is its first byte. On x86-64 it follows the System V
    /// calling convention, whatever the operating system's is.
    Native(std::sync::Arc<[u8]>),
    /// PTX source, which the driver assembles.
    Ptx(String),
}

/// What programs are written in: a renderer writes it, a device's loader takes it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Language {
    /// C for the system's compiler: [`Code::C`].
    C,
    /// The interpreter's bytecode: [`Code::Bytecode`].
    Bytecode,
    /// Machine code of x86-64: [`Code::Native`].
    X86,
    /// PTX: [`Code::Ptx`].
    Ptx,
}

/// One parameter of a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Param {
    /// A buffer of `len` elements; `written` if the kernel stores to it.
    Buffer {
        /// Element type.
        dtype: DType,
        /// Elements the kernel may touch.
        len: usize,
        /// Whether the kernel stores to it.
        written: bool,
        /// Bytes that its address must be a multiple of: an element, or the widest access of a kernel that needs alignment.
        align: usize,
    },
    /// An integer variable, passed as 64 bits.
    Var {
        /// Its name.
        name: String,
    },
}

/// The numbers of one launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaunchDims {
    /// Blocks, fastest first; `[1, 1, 1]` on CPU-like machines.
    pub global: [u32; 3],
    /// Lanes in a block, fastest first.
    pub local: [u32; 3],
    /// Extent of the thread axis on CPU-like machines, 1 where there is none.
    pub thread_extent: i64,
}
