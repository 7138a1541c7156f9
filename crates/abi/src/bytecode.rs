//! The interpreter's bytecode: a plain register program, one instruction for each step of a linear program.
//!
//! A *register* is a value with a type and a number of lanes; each is written by one instruction. A one-lane operand
//! meets a wider one by being used for every lane. *Variables* are the memory of one lane (accumulators), *locals* the
//! arrays of one block (or of one thread on a CPU-like machine), *buffers* the kernel's parameters. An access with a
//! one-lane index touches as many consecutive elements as its value has lanes, or rows of them; with a wider index, one
//! element for each.
//!
//! ```text
//! kernel sum: 2 buffers
//!   var v0: float32
//!    0  r0:int32 = 16
//!    1  r1:float32 = 0
//!    2  store v0 = r1
//!    3  for r2:int32 < r0
//!    4    r3:float32 = load b1[r2]
//!    5    r4:float32 = load v0
//!    6    r5:float32 = Add r4, r3
//!    7    store v0 = r5
//!    8  end
//! ```

use crate::{Alu, DType, MatrixUnit, Scalar};
use std::fmt;

/// A register, by its number in [`Program::regs`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reg(pub u32);

/// What a register or variable holds, or what a local array is made of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Kind {
    /// Type of one lane.
    pub dtype: DType,
    /// Lanes of a register or variable; elements of a local array.
    pub lanes: u32,
}

/// A program for the interpreter.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Program {
    /// Name of the kernel, for messages.
    pub name: String,
    /// The registers.
    pub regs: Vec<Kind>,
    /// Register variables: private to a lane, undefined until written.
    pub vars: Vec<Kind>,
    /// Local arrays: shared by the lanes of a block, undefined until written.
    pub locals: Vec<Kind>,
    /// Buffers among the kernel's parameters.
    pub buffers: u32,
    /// The instructions.
    pub code: Vec<Instr>,
}

/// One instruction.
#[derive(Clone, PartialEq, Debug)]
pub enum Instr {
    /// A constant.
    Const(Reg, Scalar),
    /// The n-th integer variable of the launch.
    Variable(Reg, u32),
    /// A hardware id, and how many there must be of it.
    Special(Reg, Hardware, Reg),
    /// An elementwise operation on operands of a type (for `Where`, that of the branches).
    Alu(Reg, Alu, DType, Vec<Reg>),
    /// A value converted to the register's type.
    Cast(Reg, Reg),
    /// The same bits as the register's type.
    Bitcast(Reg, Reg),
    /// A vector of one-lane registers.
    Stack(Reg, Vec<Reg>),
    /// One lane of a vector.
    Lane(Reg, Reg, u32),
    /// Lanes of two vectors of one length, counted through both.
    Shuffle(Reg, Reg, Reg, Vec<u8>),
    /// Words of 32 bits, each of four bytes of a vector, the first lowest.
    Words(Reg, Reg),
    /// What a register has in the lane of the warp whose number is this one's xor so many.
    LaneShuffle(Reg, Reg, u32),
    /// What is at a place; `alt` where the gate is false.
    Load {
        /// Where the value goes.
        dst: Reg,
        /// Where it comes from.
        from: Place,
        /// The value where the gate is false.
        alt: Option<Reg>,
    },
    /// Put a register at a place, where the gate is true.
    Store {
        /// Where the value goes.
        to: Place,
        /// The value.
        value: Reg,
    },
    /// Matrices of 8 rows of 16 bytes of a local array, spread over the lanes of a warp, which come together: lane l says where
    /// row l mod 8 of matrix l / 8 begins, and gets of each the word l mod 4 of row l / 4; transposed, of each the elements of
    /// column l / 4 in rows 2 (l mod 4) and the next.
    LoadMatrix {
        /// Where the words go.
        dst: Reg,
        /// Where this lane's row begins.
        from: Place,
        /// How many matrices.
        matrices: u8,
        /// Columns and not rows.
        transposed: bool,
    },
    /// Elements of a buffer are on their way to a local array, zeros where the gate of the source is false. Until a `Wait` says
    /// that they are there, nobody touches them.
    CopyAsync {
        /// Where they go.
        to: Place,
        /// Where they come from.
        from: Place,
        /// How many elements.
        lanes: u32,
    },
    /// The lane's copies since the last one are a group.
    Commit,
    /// Of the lane's groups all but the last so many are there.
    Wait(u32),
    /// One operation of a matrix unit: the destination is C plus A times B, which are each as their homes say, a packed
    /// column of B being one register lane. The lanes of a warp come together for a unit that a warp runs.
    Matrix {
        /// The unit.
        unit: Box<MatrixUnit>,
        /// Where the result goes.
        dst: Reg,
        /// A, B and C.
        src: [Reg; 3],
    },
    /// Begin a loop: the register runs from 0 up to the extent.
    Loop(Reg, Reg),
    /// Begin the loop over this call's slice of the thread axis, which has the given extent.
    Thread(Reg, Reg),
    /// End the innermost loop.
    End,
    /// All lanes of the block meet.
    Barrier,
}

/// A hardware id: dimension 0 is the fastest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Hardware {
    /// The block's place in the grid.
    Global(u8),
    /// The lane's place in the block.
    Local(u8),
}

/// The memory an access is to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Memory {
    /// A buffer of the kernel.
    Buffer(u32),
    /// A local array.
    Local(u32),
    /// A register variable.
    Var(u32),
}

/// The place and the conditions of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Which memory.
    pub memory: Memory,
    /// Which element; `None` for all lanes of a variable.
    pub idx: Option<Reg>,
    /// Where false, there is no access.
    pub gate: Option<Reg>,
    /// Rows of so many consecutive elements, so far apart.
    pub rows: Option<(u32, i64)>,
    /// Where the gate is false, the status word becomes this plus one.
    pub site: Option<u32>,
}

impl Program {
    /// Bytes the local arrays take, each begun on a multiple of 64.
    pub fn local_bytes(&self) -> usize {
        self.locals.iter().map(|l| (l.dtype.size() * l.lanes as usize).next_multiple_of(64)).sum()
    }
    /// The instruction at `pc` as it is printed.
    pub fn show(&self, pc: usize) -> String {
        match self.code.get(pc) {
            Some(instr) => Show(self, instr).to_string(),
            None => "the end".into(),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lanes {
            1 => write!(f, "{}", self.dtype),
            n => write!(f, "{}x{n}", self.dtype),
        }
    }
}
impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}
impl fmt::Display for Hardware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hardware::Global(i) => write!(f, "gidx{i}"),
            Hardware::Local(i) => write!(f, "lidx{i}"),
        }
    }
}
impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Memory::Buffer(i) => write!(f, "b{i}"),
            Memory::Local(i) => write!(f, "l{i}"),
            Memory::Var(i) => write!(f, "v{i}"),
        }
    }
}
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.idx {
            Some(i) => match self.rows {
                Some((lanes, stride)) => write!(f, "{}[{i} by {lanes} of {stride}]", self.memory),
                None => write!(f, "{}[{i}]", self.memory),
            },
            None => write!(f, "{}", self.memory),
        }
    }
}

/// An instruction and the program that has its registers.
struct Show<'a>(&'a Program, &'a Instr);

impl fmt::Display for Show<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let typed = |r: &Reg| match self.0.regs.get(r.0 as usize) {
            Some(kind) => format!("{r}:{kind}"),
            None => format!("{r}:?"),
        };
        let list = |rs: &[Reg]| rs.iter().map(Reg::to_string).collect::<Vec<_>>().join(", ");
        let gate = |p: &Place| p.gate.map_or(String::new(), |g| format!(" if {g}"));
        let site = |p: &Place| p.site.map_or(String::new(), |s| format!(" @{s}"));
        match self.1 {
            Instr::Const(r, Scalar::Bool(v)) => write!(f, "{} = {v}", typed(r)),
            Instr::Const(r, Scalar::Int(v)) => write!(f, "{} = {v}", typed(r)),
            Instr::Const(r, Scalar::Uint(v)) => write!(f, "{} = {v}", typed(r)),
            Instr::Const(r, Scalar::Float(v)) => write!(f, "{} = {v}", typed(r)),
            Instr::Variable(r, n) => write!(f, "{} = variable {n}", typed(r)),
            Instr::Special(r, h, n) => write!(f, "{} = {h} of {n}", typed(r)),
            Instr::Alu(r, op, _, src) => write!(f, "{} = {op:?} {}", typed(r), list(src)),
            Instr::Cast(r, x) => write!(f, "{} = cast {x}", typed(r)),
            Instr::Bitcast(r, x) => write!(f, "{} = bitcast {x}", typed(r)),
            Instr::Stack(r, src) => write!(f, "{} = stack {}", typed(r), list(src)),
            Instr::Lane(r, x, i) => write!(f, "{} = {x}.{i}", typed(r)),
            Instr::Shuffle(r, x, y, from) => write!(f, "{} = shuffle {x}, {y} {from:?}", typed(r)),
            Instr::Words(r, x) => write!(f, "{} = words {x}", typed(r)),
            Instr::LaneShuffle(r, x, d) => write!(f, "{} = {x} of lane ^ {d}", typed(r)),
            Instr::Load { dst, from, alt } => {
                let alt = alt.map_or(String::new(), |a| format!(" else {a}"));
                write!(f, "{} = load {from}{}{alt}{}", typed(dst), gate(from), site(from))
            }
            Instr::Store { to, value } => write!(f, "store {to} = {value}{}{}", gate(to), site(to)),
            Instr::Matrix { unit, dst, src } => write!(f, "{} = {} {}", typed(dst), unit.name, list(src)),
            Instr::LoadMatrix { dst, from, matrices, transposed } => {
                let by = if *transposed { " by columns" } else { "" };
                write!(f, "{} = {matrices} matrices {from}{by}", typed(dst))
            }
            Instr::CopyAsync { to, from, lanes } => write!(f, "copy {to} = {lanes} {from}{}", gate(from)),
            Instr::Commit => f.write_str("commit"),
            Instr::Wait(n) => write!(f, "wait for all but {n}"),
            Instr::Loop(r, n) => write!(f, "for {} < {n}", typed(r)),
            Instr::Thread(r, n) => write!(f, "for thread {} < {n}", typed(r)),
            Instr::End => f.write_str("end"),
            Instr::Barrier => f.write_str("barrier"),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "kernel {}: {} buffers", self.name, self.buffers)?;
        for (i, v) in self.vars.iter().enumerate() {
            writeln!(f, "  var v{i}: {v}")?;
        }
        for (i, l) in self.locals.iter().enumerate() {
            writeln!(f, "  local l{i}: {}[{}]", l.dtype, l.lanes)?;
        }
        let mut depth = 0usize;
        for (pc, instr) in self.code.iter().enumerate() {
            depth = depth.saturating_sub(matches!(instr, Instr::End) as usize);
            writeln!(f, "{pc:4}  {:width$}{}", "", Show(self, instr), width = depth * 2)?;
            depth += matches!(instr, Instr::Loop(..) | Instr::Thread(..)) as usize;
        }
        Ok(())
    }
}
