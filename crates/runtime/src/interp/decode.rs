//! Bytecode -> what the walker runs: registers resolved to slots, functions chosen, loops linked, everything checked.

use super::alu::{self, Function};
use crate::Error;
use frit_abi::bytecode::{Hardware, Instr, Kind, Memory, Place, Program, Reg};
use frit_abi::matrix::Runner;
use frit_abi::{Alu, DType};

use super::matrix::Matrix;

/// An operation of the walker. Numbers are slots in a lane's registers unless said otherwise.
pub enum Op {
    One {
        f: fn(u64) -> u64,
        dst: u32,
        a: u32,
    },
    Two {
        f: fn(u64, u64) -> u64,
        dst: u32,
        a: u32,
        b: u32,
    },
    Three {
        f: fn(u64, u64, u64) -> u64,
        dst: u32,
        a: u32,
        b: u32,
        c: u32,
    },
    Wide(Box<Wide>),
    Guard(Box<Guard>),
    Bitcast {
        dst: u32,
        src: Operand,
        lanes: u32,
        to: DType,
        from: DType,
    },
    Stack(u32, Box<[u32]>),
    Words {
        dst: u32,
        src: u32,
        lanes: u32,
    },
    Copy {
        dst: u32,
        src: u32,
    },
    Variable {
        dst: u32,
        n: u32,
        dtype: DType,
    },
    Special {
        dst: u32,
        id: Hardware,
        extent: u32,
    },
    /// The usual accesses: one element of a buffer, no gate.
    LoadBuffer {
        dst: u32,
        buf: u32,
        idx: u32,
    },
    StoreBuffer {
        buf: u32,
        idx: u32,
        value: u32,
    },
    /// A whole variable; `var` and `lanes` are places in a lane's variables.
    LoadVar {
        dst: u32,
        var: u32,
        lanes: u32,
    },
    StoreVar {
        var: u32,
        value: Operand,
        lanes: u32,
    },
    Load(Box<Access>),
    Store(Box<Access>),
    /// `end` is the operation after the loop's end.
    Loop {
        var: u32,
        extent: u32,
        end: u32,
    },
    EndLoop {
        var: u32,
        extent: u32,
        body: u32,
    },
    Thread {
        var: u32,
        extent: u32,
        end: u32,
    },
    EndThread {
        var: u32,
        body: u32,
    },
    Barrier,
    CopyAsync(Box<Copy>),
    Commit,
    Wait(u32),
    LoadMatrix(Box<Fragments>),
    Matrix(Box<Matrix>),
    LaneShuffle {
        dst: u32,
        src: u32,
        bit: u32,
    },
}

/// The slot of an operand's first lane, and how far the next lane is: 0 for a scalar that meets a vector.
#[derive(Clone, Copy)]
pub struct Operand {
    pub slot: u32,
    pub step: u32,
}

/// An elementwise operation on vectors, or one that goes through its definition.
pub struct Wide {
    pub f: Function,
    pub dst: u32,
    pub src: [Operand; 3],
    pub lanes: u32,
}

/// A machine instruction that must not see some operands, checked before it runs.
pub struct Guard {
    pub op: Alu,
    pub dtype: DType,
    pub a: Operand,
    pub b: Operand,
    pub lanes: u32,
}

/// A copy from a buffer to a local array.
pub struct Copy {
    pub to: u32,
    pub to_idx: u32,
    pub from: u32,
    pub from_idx: u32,
    /// Zeros go there where it is false.
    pub gate: Option<Operand>,
    pub lanes: u32,
    /// Bytes of an element.
    pub size: u32,
}

/// Matrices that a warp loads from a local array.
pub struct Fragments {
    pub dst: u32,
    pub array: u32,
    pub idx: u32,
    pub matrices: u32,
    pub transposed: bool,
    /// Bytes of an element.
    pub size: u32,
}

/// A load or store with everything it may have.
pub struct Access {
    pub memory: Memory,
    pub idx: Operand,
    /// One index for consecutive elements.
    pub consecutive: bool,
    pub gate: Option<Operand>,
    pub site: Option<u32>,
    /// Where the value comes from or goes to.
    pub value: Operand,
    /// What a load gives where the gate is false.
    pub alt: Option<Operand>,
    pub lanes: u32,
    /// Rows of so many elements, so far apart.
    pub rows: Option<(u32, i64)>,
    /// Bytes of one element, for alignment.
    pub size: u32,
}

/// A program ready to run.
pub struct Decoded {
    pub ops: Vec<Op>,
    /// The instruction each operation came from.
    pub origin: Vec<u32>,
    /// Registers with their values at the start.
    pub registers: Vec<u64>,
    /// Elements of all variables together, and where each begins with how many.
    pub var_len: usize,
    pub vars: Vec<(u32, u32)>,
    pub has_barrier: bool,
    /// Lanes come together for matrix units, or to exchange values.
    pub meets_in_warps: bool,
    pub has_thread: bool,
    /// Dimensions of the grid and of a block that the program uses.
    pub uses: [[bool; 3]; 2],
}

/// Check a program and make it ready. What is wrong with it is a fault of whoever wrote the program.
pub fn decode(program: &Program) -> Result<Decoded, Error> {
    let mut d = Decoder::new(program);
    for (pc, instr) in program.code.iter().enumerate() {
        d.pc = pc;
        d.instruction(instr).map_err(|message| {
            let text = program.show(pc);
            Error::Object(format!("kernel {}, instruction {pc} `{text}`: {message}", program.name))
        })?;
    }
    if !d.open.is_empty() {
        return Err(Error::Object(format!("kernel {}: a loop has no end", program.name)));
    }
    Ok(d.out)
}

struct Decoder<'a> {
    program: &'a Program,
    out: Decoded,
    /// The first slot of each register.
    slots: Vec<u32>,
    /// Registers that have been written.
    known: Vec<bool>,
    /// Operations that begin the open loops.
    open: Vec<usize>,
    pc: usize,
}

type Checked<T> = Result<T, String>;

impl<'a> Decoder<'a> {
    fn new(program: &'a Program) -> Self {
        let places = |kinds: &[Kind]| {
            let mut total = 0;
            let firsts: Vec<u32> = kinds
                .iter()
                .map(|k| {
                    total += k.lanes;
                    total - k.lanes
                })
                .collect();
            (firsts, total as usize)
        };
        let (slots, n_slots) = places(&program.regs);
        let (var_firsts, var_len) = places(&program.vars);
        let vars = var_firsts.into_iter().zip(program.vars.iter().map(|k| k.lanes)).collect();
        let out = Decoded {
            ops: vec![],
            origin: vec![],
            registers: vec![0; n_slots],
            var_len,
            vars,
            has_barrier: false,
            meets_in_warps: false,
            has_thread: false,
            uses: [[false; 3]; 2],
        };
        Decoder { program, out, slots, known: vec![false; program.regs.len()], open: vec![], pc: 0 }
    }

    fn push(&mut self, op: Op) {
        self.out.ops.push(op);
        self.out.origin.push(self.pc as u32);
    }

    fn instruction(&mut self, instr: &Instr) -> Checked<()> {
        match instr {
            &Instr::Const(r, value) => {
                let (slot, kind) = self.write(r)?;
                let raw = alu::raw(value.cast(kind.dtype), kind.dtype);
                self.out.registers[slot as usize..][..kind.lanes as usize].fill(raw);
            }
            &Instr::Variable(r, n) => {
                let (dst, kind) = self.write(r)?;
                check(kind.dtype.is_int() && kind.lanes == 1, "a variable is one integer")?;
                self.push(Op::Variable { dst, n, dtype: kind.dtype });
            }
            &Instr::Special(r, id, extent) => {
                let extent = self.integer(extent)?;
                let (dst, kind) = self.write(r)?;
                check(kind.dtype.is_int() && kind.lanes == 1, "a hardware id is one integer")?;
                let (row, dim) = match id {
                    Hardware::Global(dim) => (0, dim),
                    Hardware::Local(dim) => (1, dim),
                };
                check(dim < 3, "there are three dimensions")?;
                self.out.uses[row][dim as usize] = true;
                self.push(Op::Special { dst, id, extent });
            }
            Instr::Alu(r, op, dtype, src) => self.elementwise(*r, *op, *dtype, src)?,
            &Instr::Cast(r, x) => {
                let (from, lanes) = (self.read(x)?.dtype, self.lanes(r)?);
                let src = self.operand(x, lanes)?;
                let (dst, kind) = self.write(r)?;
                self.function(alu::conversion(from, kind.dtype), dst, [src; 3], lanes);
            }
            &Instr::Bitcast(r, x) => {
                let (from, lanes) = (self.read(x)?.dtype, self.lanes(r)?);
                let src = self.operand(x, lanes)?;
                let (dst, kind) = self.write(r)?;
                check(from.size() == kind.dtype.size(), "the types differ in size")?;
                self.push(Op::Bitcast { dst, src, lanes, to: kind.dtype, from });
            }
            Instr::Stack(r, src) => {
                let srcs = src.iter().map(|&s| self.operand(s, 1).map(|o| o.slot)).collect::<Checked<_>>()?;
                let same =
                    src.iter().all(|s| self.kind(*s).map(|k| k.dtype) == self.kind(*r).map(|k| k.dtype));
                let (dst, kind) = self.write(*r)?;
                check(same && kind.lanes as usize == src.len(), "the lanes do not fit")?;
                self.push(Op::Stack(dst, srcs));
            }
            &Instr::Lane(r, x, i) => {
                let from = self.read(x)?;
                let src = self.slots[x.0 as usize] + i;
                let (dst, kind) = self.write(r)?;
                check(i < from.lanes && kind == Kind { lanes: 1, ..from }, "there is no such lane")?;
                self.push(Op::Copy { dst, src });
            }
            Instr::Shuffle(r, x, y, from) => {
                let (a, b) = (self.read(*x)?, self.read(*y)?);
                let at = |i: u32| match i.checked_sub(a.lanes) {
                    None => self.slots[x.0 as usize] + i,
                    Some(i) => self.slots[y.0 as usize] + i,
                };
                let srcs = from.iter().map(|i| at(*i as u32)).collect();
                let there = a == b && from.iter().all(|i| (*i as u32) < 2 * a.lanes);
                let (dst, kind) = self.write(*r)?;
                let fits = kind.dtype == a.dtype && kind.lanes as usize == from.len();
                check(there && fits, "the lanes do not fit")?;
                self.push(Op::Stack(dst, srcs));
            }
            &Instr::Words(r, x) => {
                let bytes = self.read(x)?;
                let src = self.slots[x.0 as usize];
                let (dst, kind) = self.write(r)?;
                let fits =
                    bytes.dtype.size() == 1 && kind == Kind { dtype: DType::U32, lanes: bytes.lanes / 4 };
                check(fits && bytes.lanes.is_multiple_of(4), "a word has four bytes")?;
                self.push(Op::Words { dst, src, lanes: kind.lanes });
            }
            Instr::Load { dst, from, alt } => self.access(*dst, from, *alt, true)?,
            Instr::Store { to, value } => self.access(*value, to, None, false)?,
            &Instr::Loop(r, n) | &Instr::Thread(r, n) => {
                let extent = self.integer(n)?;
                let (var, kind) = self.write(r)?;
                check(kind.dtype.is_int() && kind.lanes == 1, "a loop counts in one integer")?;
                self.open.push(self.out.ops.len());
                if matches!(instr, Instr::Thread(..)) {
                    check(!self.out.has_thread, "there are two thread loops")?;
                    self.out.has_thread = true;
                    self.push(Op::Thread { var, extent, end: 0 });
                } else {
                    self.push(Op::Loop { var, extent, end: 0 });
                }
            }
            Instr::End => {
                let begin = self.open.pop().ok_or("no loop is open")?;
                let (after, body) = (self.out.ops.len() as u32 + 1, begin as u32 + 1);
                let op = match &mut self.out.ops[begin] {
                    Op::Thread { var, end, .. } => {
                        *end = after;
                        Op::EndThread { var: *var, body }
                    }
                    Op::Loop { var, extent, end } => {
                        *end = after;
                        Op::EndLoop { var: *var, extent: *extent, body }
                    }
                    _ => return Err("no loop is open".into()),
                };
                self.push(op);
            }
            Instr::Matrix { unit, dst, src } => {
                let kinds = [self.read(src[0])?, self.read(src[1])?, self.read(src[2])?];
                let slots = src.map(|s| self.slots[s.0 as usize]);
                let (dst, kind) = self.write(*dst)?;
                let matrix = Matrix::new(**unit, kinds, kind, slots, dst)?;
                self.out.meets_in_warps |= matches!(unit.runner, Runner::Warp(_));
                self.push(Op::Matrix(Box::new(matrix)));
            }
            Instr::LaneShuffle(r, x, bit) => {
                let kind = self.read(*x)?;
                let src = self.slots[x.0 as usize];
                let (dst, to) = self.write(*r)?;
                check(kind == to && kind.lanes == 1, "lanes exchange one value of one type")?;
                self.out.meets_in_warps = true;
                self.push(Op::LaneShuffle { dst, src, bit: *bit });
            }
            Instr::LoadMatrix { dst, from, matrices, transposed } => {
                let (array, idx, kind) = self.local(from)?;
                let size = kind.dtype.size() as u32;
                let (dst, to) = self.write(*dst)?;
                check(size <= 4 && (size == 2 || !transposed), "no matrix is made of such elements")?;
                let is_fit = to.dtype == kind.dtype && to.lanes == u32::from(*matrices) * 4 / size;
                check(is_fit && matches!(matrices, 1 | 2 | 4), "the words do not fit")?;
                self.out.meets_in_warps = true;
                let (matrices, transposed) = ((*matrices).into(), *transposed);
                self.push(Op::LoadMatrix(Box::new(Fragments {
                    dst,
                    array,
                    idx,
                    matrices,
                    transposed,
                    size,
                })));
            }
            Instr::CopyAsync { to, from, lanes } => {
                let (array, to_idx, kind) = self.local(to)?;
                let Memory::Buffer(buf) = from.memory else { return Err("it is not from a buffer".into()) };
                check(buf < self.program.buffers, "there is no such buffer")?;
                let from_idx = self.integer(from.idx.ok_or("there is no index")?)?;
                let gate = from.gate.map(|g| self.operand(g, 1)).transpose()?;
                let size = kind.dtype.size() as u32;
                check(matches!(size * lanes, 4 | 8 | 16), "a copy is of 4, 8 or 16 bytes")?;
                let copy = Copy { to: array, to_idx, from: buf, from_idx, gate, lanes: *lanes, size };
                self.push(Op::CopyAsync(Box::new(copy)));
            }
            Instr::Commit => self.push(Op::Commit),
            Instr::Wait(n) => self.push(Op::Wait(*n)),
            Instr::Barrier => {
                self.out.has_barrier = true;
                self.push(Op::Barrier);
            }
        }
        Ok(())
    }

    fn elementwise(&mut self, r: Reg, op: Alu, dtype: DType, src: &[Reg]) -> Checked<()> {
        check(src.len() == op.arity(), "it does not have as many operands as it takes")?;
        let lanes = self.lanes(r)?;
        let mut operands = [Operand { slot: 0, step: 0 }; 3];
        for (i, &s) in src.iter().enumerate() {
            let want = if op == Alu::Where && i == 0 { DType::Bool } else { dtype };
            check(self.read(s)?.dtype == want, "an operand has another type")?;
            operands[i] = self.operand(s, lanes)?;
        }
        let (dst, kind) = self.write(r)?;
        let result = if op.is_comparison() { DType::Bool } else { dtype };
        check(kind.dtype == result, "the result has another type")?;
        if dtype.is_int() && matches!(op, Alu::Tdiv | Alu::Shl | Alu::Shr) {
            let [a, b, _] = operands;
            self.push(Op::Guard(Box::new(Guard { op, dtype, a, b, lanes })));
        }
        self.function(alu::function(op, dtype), dst, operands, lanes);
        Ok(())
    }

    fn function(&mut self, f: Function, dst: u32, src: [Operand; 3], lanes: u32) {
        let [a, b, c] = src.map(|o| o.slot);
        self.push(match f {
            Function::One(f) if lanes == 1 => Op::One { f, dst, a },
            Function::Two(f) if lanes == 1 => Op::Two { f, dst, a, b },
            Function::Three(f) if lanes == 1 => Op::Three { f, dst, a, b, c },
            f => Op::Wide(Box::new(Wide { f, dst, src, lanes })),
        });
    }

    fn access(&mut self, value: Reg, place: &Place, alt: Option<Reg>, is_load: bool) -> Checked<()> {
        let cell = match place.memory {
            Memory::Buffer(n) if n < self.program.buffers => None,
            Memory::Local(n) => Some(*self.program.locals.get(n as usize).ok_or("there is no such array")?),
            Memory::Var(n) => Some(*self.program.vars.get(n as usize).ok_or("there is no such variable")?),
            Memory::Buffer(_) => return Err("there is no such buffer".into()),
        };
        let kind = if is_load { self.kind(value)? } else { self.read(value)? };
        check(cell.is_none_or(|c| c.dtype == kind.dtype), "the memory has another type")?;
        let idx_lanes = place.idx.map_or(Ok(1), |i| self.integers(i).map(|k| k.lanes))?;
        let lanes = match (place.memory, place.idx, cell) {
            (Memory::Var(_), None, Some(var)) => var.lanes,
            (_, None, _) => return Err("there is no index".into()),
            _ => kind.lanes.max(idx_lanes),
        };
        let idx = place.idx.map_or(Ok(Operand { slot: 0, step: 0 }), |i| self.operand(i, lanes))?;
        let gate = place.gate.map(|g| {
            check(self.read(g)?.dtype == DType::Bool, "the gate is not a bool")?;
            self.operand(g, lanes)
        });
        let alt = alt.map(|a| {
            check(self.read(a)?.dtype == kind.dtype, "the alternative has another type")?;
            self.operand(a, lanes)
        });
        let (gate, alt) = (gate.transpose()?, alt.transpose()?);
        check(!is_load || gate.is_some() == alt.is_some(), "a gate needs an alternative")?;
        let value = if is_load {
            check(kind.lanes == lanes, "the lanes do not fit")?;
            Operand { slot: self.write(value)?.0, step: 1 }
        } else {
            self.operand(value, lanes)?
        };
        let simple = gate.is_none();
        let op = match place.memory {
            Memory::Buffer(buf) if simple && lanes == 1 && is_load => {
                Op::LoadBuffer { dst: value.slot, buf, idx: idx.slot }
            }
            Memory::Buffer(buf) if simple && lanes == 1 => {
                Op::StoreBuffer { buf, idx: idx.slot, value: value.slot }
            }
            Memory::Var(n) if simple && place.idx.is_none() => {
                let var = self.out.vars[n as usize].0;
                match is_load {
                    true => Op::LoadVar { dst: value.slot, var, lanes },
                    false => Op::StoreVar { var, value, lanes },
                }
            }
            memory => {
                let (consecutive, size) = (idx_lanes == 1, kind.dtype.size() as u32);
                let idx = if place.idx.is_none() { self.zero() } else { idx };
                let (site, rows) = (place.site, place.rows);
                check(rows.is_none_or(|(n, _)| n > 0 && consecutive), "its rows have no elements")?;
                let access =
                    Box::new(Access { memory, idx, consecutive, gate, site, value, alt, lanes, rows, size });
                if is_load { Op::Load(access) } else { Op::Store(access) }
            }
        };
        self.push(op);
        Ok(())
    }

    /// A place in a local array: which, the slot of its index, what it is made of.
    fn local(&self, place: &Place) -> Checked<(u32, u32, Kind)> {
        let (Memory::Local(n), None, None) = (place.memory, place.gate, place.rows) else {
            return Err("it is no plain place in a local array".into());
        };
        let kind = *self.program.locals.get(n as usize).ok_or("there is no such array")?;
        Ok((n, self.integer(place.idx.ok_or("there is no index")?)?, kind))
    }

    /// A slot that holds 0: the index of a whole variable that has a gate.
    fn zero(&mut self) -> Operand {
        self.out.registers.push(0);
        Operand { slot: self.out.registers.len() as u32 - 1, step: 0 }
    }

    // ---- registers

    fn kind(&self, r: Reg) -> Checked<Kind> {
        self.program.regs.get(r.0 as usize).copied().ok_or(format!("there is no {r}"))
    }
    fn lanes(&self, r: Reg) -> Checked<u32> {
        self.kind(r).map(|k| k.lanes)
    }
    fn read(&self, r: Reg) -> Checked<Kind> {
        let kind = self.kind(r)?;
        check(self.known[r.0 as usize], "a register is read before it is written")?;
        Ok(kind)
    }
    fn write(&mut self, r: Reg) -> Checked<(u32, Kind)> {
        let kind = self.kind(r)?;
        check(!std::mem::replace(&mut self.known[r.0 as usize], true), "a register is written twice")?;
        Ok((self.slots[r.0 as usize], kind))
    }
    fn operand(&self, r: Reg, lanes: u32) -> Checked<Operand> {
        let kind = self.read(r)?;
        check(kind.lanes == 1 || kind.lanes == lanes, "the lanes do not fit")?;
        Ok(Operand { slot: self.slots[r.0 as usize], step: (kind.lanes > 1) as u32 })
    }
    fn integers(&self, r: Reg) -> Checked<Kind> {
        let kind = self.read(r)?;
        check(kind.dtype.is_int(), "an index or extent is not an integer")?;
        Ok(kind)
    }
    fn integer(&self, r: Reg) -> Checked<u32> {
        check(self.integers(r)?.lanes == 1, "an extent has several lanes")?;
        Ok(self.slots[r.0 as usize])
    }
}

fn check(holds: bool, otherwise: &str) -> Checked<()> {
    if holds { Ok(()) } else { Err(otherwise.into()) }
}
