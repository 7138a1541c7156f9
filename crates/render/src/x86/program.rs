//! Machine instructions over virtual registers: what selection makes and allocation and encoding take.

use super::table::Row;
use iced_x86::{Code, Register};
use smallvec::SmallVec;
use std::num::NonZeroU8;

/// A virtual register; any number of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Reg(pub u32);

/// Bytes in a row of a tile.
pub const TILE_ROW_BYTES: i64 = 64;

/// General registers by number, in the order they are given out: the ones a callee may change come first.
pub const GENERAL: [Register; 15] = {
    use Register::*;
    [RAX, RCX, RDX, RSI, RDI, R8, R9, R10, R11, RBX, RBP, R12, R13, R14, R15]
};
/// Where the kernel's arguments are, as numbers of [`GENERAL`].
pub const ARGS: [u8; 6] = [4, 3, 2, 1, 5, 6];
/// `rax`, `rcx`, `rdx` as numbers of [`GENERAL`].
pub const RAX: u8 = 0;
/// See [`RAX`].
pub const RCX: u8 = 1;
/// See [`RAX`].
pub const RDX: u8 = 2;

/// The files of registers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Class {
    /// General: integers, addresses, scalar truth values.
    Int,
    /// Vectors, and scalar floats in their first lane.
    Vec,
    /// Masks of AVX-512.
    Mask,
    /// Tiles of AMX.
    Tile,
}

/// How much of a register an operand names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Size {
    /// 8 bits of a general register.
    B,
    /// 16 bits.
    W,
    /// 32 bits; writing them clears the rest.
    D,
    /// 64 bits.
    Q,
    /// A vector of 16 bytes.
    X,
    /// 32 bytes.
    Y,
    /// 64 bytes.
    Z,
    /// A mask.
    K,
    /// A tile.
    T,
}

impl Size {
    /// The vector register that holds so many bytes.
    pub fn of_bytes(bytes: usize) -> Size {
        match bytes {
            0..=16 => Size::X,
            17..=32 => Size::Y,
            _ => Size::Z,
        }
    }
    /// Bytes of it.
    pub fn bytes(self) -> usize {
        match self {
            Size::B => 1,
            Size::W => 2,
            Size::D => 4,
            Size::Q | Size::K => 8,
            Size::X => 16,
            Size::Y => 32,
            Size::Z => 64,
            Size::T => 1024,
        }
    }
}

/// What an address starts from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Base {
    /// A register.
    Reg(Reg),
    /// The constants behind the code.
    Pool,
    /// The stack frame.
    Frame,
}

/// A register as it is in an address.
pub const ONCE: NonZeroU8 = NonZeroU8::MIN;

/// An address: base + index * scale + displacement.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mem {
    /// Where it starts.
    pub base: Base,
    /// A register times 1, 2, 4 or 8.
    pub index: Option<(Reg, NonZeroU8)>,
    /// Bytes further.
    pub disp: i32,
}

impl Mem {
    /// So many bytes further.
    pub fn plus(self, bytes: i32) -> Mem {
        Mem { disp: self.disp + bytes, ..self }
    }
}

/// An operand.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Opd {
    /// A register.
    Reg(Reg, Size),
    /// Memory.
    Mem(Mem),
    /// One element in memory, for every lane (EVEX).
    Splat(Mem),
    /// A number, as wide as the instruction has it.
    Imm(i64, Imm),
}

/// How a number stands in an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Imm {
    /// A byte.
    Byte,
    /// A byte whose sign is extended.
    Short,
    /// 32 bits, the sign extended to 64 where the operation has them.
    Word,
    /// 64 bits.
    Long,
}

/// Which instruction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    /// An instruction of the general registers, or one whose sizes its name fixes.
    Plain(Code),
    /// Two names of one instruction, the second (EVEX) where a register above 15 is in use.
    Either(Code, Code),
    /// A row of the table at a vector size.
    Row(Row, Size),
    /// Copy the second operand to the first; nothing where they share a register.
    Move,
    /// The first operand becomes zero, and flags are lost.
    Zero,
    /// The first operand is an argument of the kernel, by number.
    Arg(u8),
    /// First = second / third; the machine's division, signed or not.
    Div {
        /// Signed.
        signed: bool,
    },
    /// The first operand shifted by the second, which goes to `cl`.
    ShiftCl(Code),
    /// A place to jump to; `true` at the head of an innermost loop.
    Label(u32, bool),
    /// A jump, if the condition holds.
    Jump(Cond, u32),
    /// What stands in a loop, by number: selection puts it in when all is selected, so that it is moved once.
    Body(u32),
    /// A loop starts: everything that lives across its end lives through it.
    LoopBegin,
    /// A loop ends.
    LoopEnd,
}

/// When to jump.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Cond {
    Equal,
    NotEqual,
    Less,
    NotLess,
}

/// What happens to the first operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Def {
    /// It is not written.
    Nothing,
    /// It is written.
    Write,
    /// It is read and written.
    Modify,
}

/// One instruction.
#[derive(Clone, PartialEq, Debug)]
pub struct Inst {
    /// Which.
    pub kind: Kind,
    /// Operands in the order of the encoding.
    pub ops: SmallVec<[Opd; 4]>,
    /// What happens to the first.
    pub def: Def,
    /// The lanes that are written (EVEX), and whether the others become zero.
    pub mask: Option<(Reg, bool)>,
    /// What the last register operand may be instead.
    pub fold: Fold,
    /// The step that it is for, counted from 1; 0 for what stands before the first.
    pub step: u32,
}

/// What may stand in place of a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fold {
    /// Nothing.
    No,
    /// As much memory as the register.
    Whole,
    /// One element in memory.
    Scalar,
    /// As much memory, or one element of so many bytes for every lane.
    Splat(u8),
}

impl Inst {
    /// The register it writes.
    pub fn defines(&self) -> Option<Reg> {
        match (self.def, self.ops.first()) {
            (Def::Write | Def::Modify, Some(Opd::Reg(r, _))) => Some(*r),
            _ => None,
        }
    }
    /// Every register it names, with whether that is a read.
    pub fn each(&self, mut f: impl FnMut(Reg, bool)) {
        for (i, o) in self.ops.iter().enumerate() {
            match o {
                Opd::Reg(r, _) => f(*r, !(i == 0 && self.def == Def::Write)),
                Opd::Mem(m) | Opd::Splat(m) => {
                    if let Base::Reg(r) = m.base {
                        f(r, true);
                    }
                    if let Some((r, _)) = m.index {
                        f(r, true);
                    }
                }
                Opd::Imm(..) => {}
            }
        }
        if let Some((m, _)) = self.mask {
            f(m, true);
        }
    }
    /// Name other registers.
    pub fn rename(&mut self, to: impl Fn(Reg) -> Reg) {
        for o in self.ops.iter_mut() {
            match o {
                Opd::Reg(r, _) => *r = to(*r),
                Opd::Mem(m) | Opd::Splat(m) => {
                    if let Base::Reg(r) = &mut m.base {
                        *r = to(*r);
                    }
                    if let Some((r, _)) = &mut m.index {
                        *r = to(*r);
                    }
                }
                Opd::Imm(..) => {}
            }
        }
        if let Some((m, _)) = &mut self.mask {
            *m = to(*m);
        }
    }
    /// Whether it has a line in the program's text.
    pub fn is_shown(&self) -> bool {
        !matches!(self.kind, Kind::LoopBegin | Kind::LoopEnd)
    }
    /// Whether it does nothing but write its register.
    pub fn is_pure(&self) -> bool {
        self.defines().is_some() && !matches!(self.kind, Kind::Jump(..) | Kind::Label(..))
    }
}

/// What is known of a virtual register.
#[derive(Clone, Debug)]
pub struct Info {
    /// Its file.
    pub class: Class,
    /// Bytes of it that matter.
    pub size: Size,
    /// How to make its value again from nothing: for constants.
    pub rematerialise: Option<Box<Inst>>,
    /// May not go to memory: it exists for one instruction.
    pub pinned: bool,
    /// It went to memory: its uses are registers of their own.
    pub is_spilled: bool,
}

/// A kernel in machine instructions.
#[derive(Default)]
pub struct Program {
    /// In order.
    pub insts: Vec<Inst>,
    /// By number.
    pub regs: Vec<Info>,
    /// Constants that code refers to.
    pub pool: Pool,
    /// Bytes of the stack frame in use.
    pub frame: usize,
    /// Labels given out.
    pub labels: u32,
}

impl Program {
    /// A new register.
    pub fn reg(&mut self, class: Class, size: Size) -> Reg {
        self.regs.push(Info { class, size, rematerialise: None, pinned: false, is_spilled: false });
        Reg(self.regs.len() as u32 - 1)
    }
    /// Bytes in the frame, aligned to their size.
    pub fn slot(&mut self, bytes: usize) -> Mem {
        let at = self.frame.next_multiple_of(bytes);
        self.frame = at + bytes;
        Mem { base: Base::Frame, index: None, disp: at as i32 }
    }
}

/// Constants, each once.
#[derive(Default)]
pub struct Pool {
    /// All of them.
    pub bytes: Vec<u8>,
    known: rustc_hash::FxHashMap<Vec<u8>, i32>,
}

impl Pool {
    /// Where these bytes are.
    pub fn place(&mut self, value: &[u8]) -> Mem {
        let disp = match self.known.get(value) {
            Some(&at) => at,
            None => {
                let at = self.bytes.len().next_multiple_of(value.len().next_power_of_two());
                self.bytes.resize(at, 0);
                self.bytes.extend(value);
                self.known.insert(value.to_vec(), at as i32);
                at as i32
            }
        };
        Mem { base: Base::Pool, index: None, disp }
    }
}
