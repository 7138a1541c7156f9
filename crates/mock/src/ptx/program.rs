//! A kernel ready to run: instructions whose operands are rows of the register file.

use super::forms::{Rows, Run};
use crate::run::regs::Class;

/// An entry of a module.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Its parameters, in order.
    pub params: Vec<Param>,
    /// Bytes of shared memory that it always has.
    pub static_shared: u32,
    /// Whether the launch says how much more it has.
    pub is_dynamic: bool,
    /// The lanes of a block, where it insists.
    pub block: Option<[u32; 3]>,
    /// Rows of each class.
    pub counts: [u32; 4],
    /// Rows that hold something before the first instruction.
    pub given: Vec<Given>,
    /// The instructions; the last is `ret`.
    pub code: Vec<Inst>,
}

impl Program {
    /// Whether it may begin before the launch ahead of it has ended: it waits for that before it touches memory.
    pub fn waits_first(&self) -> bool {
        let touches =
            |s: &Step| matches!(s, Step::Load(_) | Step::Store(_) | Step::CopyAsync(_) | Step::Branch(_));
        let steps = || self.code.iter().map(|inst| &inst.step);
        steps().take_while(|s| !touches(s)).any(|s| matches!(s, Step::Await))
    }
}

/// A parameter.
#[derive(Clone, Debug)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// 4 or 8.
    pub bytes: usize,
    /// What a pointer must be a multiple of.
    pub align: u64,
}

/// A row that is filled before a block starts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Given {
    /// Its class.
    pub class: Class,
    /// Which.
    pub row: u32,
    /// What it holds.
    pub source: Source,
}

/// What a row holds from the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// A constant.
    Bits(u64),
    /// A parameter by its number.
    Param(usize),
    /// A hardware id and its dimension.
    Special(Special, usize),
}

/// What the hardware knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Special {
    /// The lane's place in its block.
    Tid,
    /// The block's place in the grid.
    Ctaid,
    /// The block's size.
    Ntid,
    /// The grid's size.
    Nctaid,
    /// The lane's number in its warp.
    Laneid,
}

/// An instruction.
#[derive(Clone, Debug)]
pub struct Inst {
    /// What it does.
    pub step: Step,
    /// The predicate it needs.
    pub guard: Option<Guard>,
    /// Registers.
    pub rows: Rows,
    /// Its line in the text.
    pub line: u32,
}

/// A predicate, or its opposite.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Guard {
    /// Its row.
    pub row: u32,
    /// Whether it must not hold.
    pub is_not: bool,
}

/// What an instruction does.
#[derive(Clone, Debug)]
pub enum Step {
    /// Something on registers alone.
    Compute(Run),
    /// Two parts from a register.
    Split(Parts),
    /// A register from two parts.
    Join(Parts),
    /// Memory into registers.
    Load(Access),
    /// Registers into memory.
    Store(Access),
    /// A value of another lane.
    Shuffle(Shuffle),
    /// Matrices from shared memory, spread over a warp.
    LoadMatrix(Fragments),
    /// An operation of a matrix unit.
    Matrix(Box<Matrix>),
    /// A copy to shared memory that arrives later.
    CopyAsync(Copy),
    /// The lane's copies since the last one are a group.
    Commit,
    /// All groups but the last so many are there.
    Wait(u32),
    /// To another instruction.
    Branch(u32),
    /// Waits for the launches before this one, which have ended here.
    Await,
    /// All lanes of the block meet.
    Barrier,
    /// The lane is done.
    Exit,
}

/// Matrices that a warp loads: the address of the lane's row is the first operand.
#[derive(Clone, Copy, Debug)]
pub struct Fragments {
    /// How many.
    pub count: usize,
    /// Columns and not rows.
    pub is_transposed: bool,
    /// Rows of the words.
    pub regs: [u32; 4],
    /// Added to the address.
    pub offset: i64,
}

/// What matrix units multiply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Factors {
    /// Float16 or, if so, bfloat16.
    Halves {
        /// Whether they are bfloat16.
        is_brain: bool,
    },
    /// Float32 of which the low bits do not count.
    Tf32,
    /// Bytes; whether each has a sign.
    Bytes([bool; 2]),
}

/// The registers of an operation of 16 rows, 8 columns and, of factors, as many as fill 32 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Matrix {
    /// Its factors.
    pub factors: Factors,
    /// The result.
    pub d: [u32; 4],
    /// Rows by k.
    pub a: [u32; 4],
    /// K by columns.
    pub b: [u32; 2],
    /// What is added to.
    pub c: [u32; 4],
}

/// A copy: its source's address is the first operand, its target's the second, the bytes that are read the third.
#[derive(Clone, Copy, Debug)]
pub struct Copy {
    /// What is read, into rows of no other use.
    pub from: Access,
    /// Added to the target's address.
    pub offset: i64,
    /// Whether the third operand counts.
    pub is_partial: bool,
}

/// The low and the high half of a register.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    /// Their rows.
    pub halves: [u32; 2],
    /// Whether the whole has 64 bits.
    pub is_wide: bool,
}

/// Which lane a shuffle reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shuffle {
    /// Its own number xor b.
    Bfly,
    /// Its own number plus b.
    Down,
    /// Its own number less b.
    Up,
    /// b.
    Idx,
}

/// An access: the address is the first operand.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// Whether it is in shared memory.
    pub is_shared: bool,
    /// Of each register that is moved.
    pub unit: Unit,
    /// How many there are.
    pub count: usize,
    /// Their rows.
    pub regs: [u32; 4],
    /// Added to the address.
    pub offset: i64,
}

impl Access {
    /// All that it moves.
    pub fn bytes(&self) -> usize {
        self.count * self.unit.bytes()
    }
}

/// What one register holds of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// A byte, extended by zeros to 32 bits.
    U8,
    /// A byte, extended by its sign.
    S8,
    /// 2 bytes, extended by zeros.
    U16,
    /// 2 bytes, extended by their sign.
    S16,
    /// 2 bytes in a register of 16 bits.
    B16,
    /// 4 bytes.
    B32,
    /// 8 bytes.
    B64,
}

impl Unit {
    /// All, by name.
    pub const ALL: [(&'static str, Unit); 7] = [
        ("u8", Unit::U8),
        ("s8", Unit::S8),
        ("u16", Unit::U16),
        ("s16", Unit::S16),
        ("b16", Unit::B16),
        ("b32", Unit::B32),
        ("b64", Unit::B64),
    ];
    /// Its size.
    pub const fn bytes(self) -> usize {
        match self {
            Unit::U8 | Unit::S8 => 1,
            Unit::U16 | Unit::S16 | Unit::B16 => 2,
            Unit::B32 => 4,
            Unit::B64 => 8,
        }
    }
    /// The register that holds it.
    pub const fn class(self) -> Class {
        match self {
            Unit::B16 => Class::Half,
            Unit::B64 => Class::Long,
            _ => Class::Word,
        }
    }
}
