//! Machine instructions with registers assigned -> bytes.
//!
//! ```text
//! prologue (saved registers, an aligned frame) | code | constants
//! ```

use super::Job;
use super::program::{ARGS, Base, Class, Cond, GENERAL, Imm, Inst, Kind, Opd, Program, Reg, Size};
use super::regalloc::Assignment;
use crate::Error;
use crate::walk::Walk;
use frit_abi::sync::LazyLock;
use frit_abi::target::Isa;
use iced_x86::{Code, Encoder, Instruction, MemoryOperand, Register};

/// The first of [`GENERAL`] that a callee must keep.
const SAVED: u8 = 9;
/// Loops start at multiples of this.
const ALIGN: usize = 32;
/// The constants are so far away until it is known where they are.
const FAR: u64 = 1 << 24;

/// The assembler makes its tables at the first use, behind a lock of its own: a fork must not come between.
static TABLES: LazyLock<()> = LazyLock::new(|| drop(Encoder::new(64)));

/// The kernel's bytes, its entry first.
pub fn encode(job: &mut Job) -> Result<(), Error> {
    let made = bytes(&job.program, &job.assignment, job.target.isa);
    (job.bytes, job.starts) = made.map_err(|m| job.malformed(m))?;
    Ok(())
}

/// The bytes, and where those of each instruction begin, then those that end the kernel.
fn bytes(program: &Program, assignment: &Assignment, isa: Isa) -> Result<(Vec<u8>, Vec<u32>), String> {
    let () = *TABLES;
    let mut e = Writer {
        program,
        assignment,
        isa,
        encoder: Encoder::new(64),
        at: 0,
        labels: vec![None; program.labels as usize],
        jumps: vec![],
        constants: vec![],
    };
    e.prologue()?;
    let mut starts = Vec::with_capacity(program.insts.len());
    for inst in &program.insts {
        starts.push(e.at as u32);
        e.inst(inst).map_err(|m| format!("{m} in {inst:?}"))?;
    }
    starts.push(e.at as u32);
    e.epilogue()?;
    Ok((e.finish()?, starts))
}

struct Writer<'a> {
    program: &'a Program,
    assignment: &'a Assignment,
    isa: Isa,
    encoder: Encoder,
    /// Bytes so far.
    at: usize,
    labels: Vec<Option<usize>>,
    /// Where the four bytes of a forward jump are, and where it goes.
    jumps: Vec<(usize, u32)>,
    /// Where the displacement of a constant is, the end of its instruction, its place in the pool.
    constants: Vec<(usize, usize, i32)>,
}

impl Writer<'_> {
    fn put(&mut self, i: &Instruction) -> Result<usize, String> {
        let len = self.encoder.encode(i, self.at as u64).map_err(|e| e.to_string())?;
        self.at += len;
        Ok(len)
    }
    fn with(&mut self, i: Result<Instruction, iced_x86::IcedError>) -> Result<(), String> {
        let i = i.map_err(|e| e.to_string())?;
        self.put(&i).map(drop)
    }

    fn saved(&self) -> impl DoubleEndedIterator<Item = Register> + use<> {
        let used = self.assignment.used_general;
        (SAVED..GENERAL.len() as u8).filter(move |n| used >> n & 1 == 1).map(|n| GENERAL[n as usize])
    }
    fn prologue(&mut self) -> Result<(), String> {
        for r in self.saved() {
            self.with(Instruction::with1(Code::Push_r64, r))?;
        }
        if self.program.frame > 0 {
            // the frame is aligned to the widest vector; where the stack was before is kept above it
            let bytes = (self.program.frame + 8).next_multiple_of(64) as i32;
            self.with(Instruction::with2(Code::Mov_r64_rm64, Register::R11, Register::RSP))?;
            self.with(Instruction::with2(Code::Sub_rm64_imm32, Register::RSP, bytes))?;
            self.with(Instruction::with2(Code::And_rm64_imm8, Register::RSP, -64))?;
            let slot = MemoryOperand::with_base_displ(Register::RSP, bytes as i64 - 8);
            self.with(Instruction::with2(Code::Mov_rm64_r64, slot, Register::R11))?;
        }
        Ok(())
    }
    fn epilogue(&mut self) -> Result<(), String> {
        if self.program.frame > 0 {
            let bytes = (self.program.frame + 8).next_multiple_of(64) as i64;
            let slot = MemoryOperand::with_base_displ(Register::RSP, bytes - 8);
            self.with(Instruction::with2(Code::Mov_r64_rm64, Register::RSP, slot))?;
        }
        for r in self.saved().rev() {
            self.with(Instruction::with1(Code::Pop_r64, r))?;
        }
        if self.isa != Isa::Sse2 && self.assignment.used_vector != 0 {
            self.put(&Instruction::with(Code::VEX_Vzeroupper))?;
        }
        self.put(&Instruction::with(Code::Retnq))?;
        Ok(())
    }
    /// Constants behind the code, and everything that refers to a place that was not known.
    fn finish(mut self) -> Result<Vec<u8>, String> {
        let mut bytes = self.encoder.take_buffer();
        for (at, label) in self.jumps {
            let to = self.labels[label as usize].ok_or("a jump to nowhere")?;
            let distance = to as i64 - (at as i64 + 4);
            bytes[at..at + 4].copy_from_slice(&(distance as i32).to_le_bytes());
        }
        if self.program.pool.bytes.is_empty() {
            return Ok(bytes);
        }
        let pool = bytes.len().next_multiple_of(64);
        for (at, end, disp) in self.constants {
            let distance = (pool as i64 + disp as i64) - end as i64;
            bytes[at..at + 4].copy_from_slice(&(distance as i32).to_le_bytes());
        }
        bytes.resize(pool, 0xcc);
        bytes.extend_from_slice(&self.program.pool.bytes);
        Ok(bytes)
    }

    fn inst(&mut self, inst: &Inst) -> Result<(), String> {
        match inst.kind {
            Kind::LoopBegin | Kind::LoopEnd => Ok(()),
            Kind::Body(_) => Err("a loop body was not put in its place".into()),
            Kind::Label(n, is_loop) => {
                if is_loop {
                    self.pad();
                }
                self.labels[n as usize] = Some(self.at);
                Ok(())
            }
            Kind::Jump(condition, n) => self.jump(condition, n),
            Kind::Move => self.copy(inst),
            Kind::Zero => self.zero(inst),
            Kind::Arg(n) => {
                let to = self.register(&inst.ops[0])?;
                let from = GENERAL[ARGS[n as usize] as usize];
                if to != from {
                    self.with(Instruction::with2(Code::Mov_r64_rm64, to, from))?;
                }
                Ok(())
            }
            Kind::Div { signed } => self.divide(inst, signed),
            Kind::ShiftCl(code) => {
                let (to, by) = (self.register(&inst.ops[0])?, self.register(&inst.ops[1])?);
                self.with(Instruction::with2(Code::Mov_r32_rm32, Register::ECX, by))?;
                self.with(Instruction::with2(code, to, Register::CL))
            }
            Kind::Plain(code) => self.plain(inst, code),
            Kind::Either(low, high) => {
                let code = if self.is_wide(inst) { high } else { low };
                self.plain(inst, code)
            }
            Kind::Row(row, size) => {
                let wide = self.is_wide(inst);
                let code = row.code(self.isa, size, wide).ok_or("no such instruction in this set")?;
                self.plain(inst, code)
            }
        }
    }
    fn pad(&mut self) {
        let mut left = self.at.next_multiple_of(ALIGN) - self.at;
        while left > 0 {
            // the long no-operations, nine bytes at most
            const NOPS: [&[u8]; 9] = [
                &[0x90],
                &[0x66, 0x90],
                &[0x0f, 0x1f, 0x00],
                &[0x0f, 0x1f, 0x40, 0x00],
                &[0x0f, 0x1f, 0x44, 0x00, 0x00],
                &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
                &[0x0f, 0x1f, 0x80, 0, 0, 0, 0],
                &[0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
                &[0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
            ];
            let n = left.min(9);
            NOPS[n - 1].iter().for_each(|b| self.encoder.write_u8(*b));
            self.at += n;
            left -= n;
        }
    }
    fn jump(&mut self, condition: Cond, label: u32) -> Result<(), String> {
        let (near, short) = match condition {
            Cond::Equal => (Code::Je_rel32_64, Code::Je_rel8_64),
            Cond::NotEqual => (Code::Jne_rel32_64, Code::Jne_rel8_64),
            Cond::Less => (Code::Jl_rel32_64, Code::Jl_rel8_64),
            Cond::NotLess => (Code::Jge_rel32_64, Code::Jge_rel8_64),
        };
        if let Some(to) = self.labels[label as usize] {
            let code = if self.at - to < 120 { short } else { near };
            return self.with(Instruction::with_branch(code, to as u64));
        }
        let i = Instruction::with_branch(near, self.at as u64).map_err(|e| e.to_string())?;
        self.put(&i)?;
        self.jumps.push((self.at - 4, label));
        Ok(())
    }
    fn copy(&mut self, inst: &Inst) -> Result<(), String> {
        let (to, from) = (self.register(&inst.ops[0])?, self.register(&inst.ops[1])?);
        if to == from {
            return Ok(());
        }
        let Opd::Reg(r, size) = inst.ops[0] else { return Err("a copy to no register".into()) };
        let code = match self.program.regs[r.0 as usize].class {
            Class::Int => Code::Mov_r64_rm64,
            Class::Mask => Code::VEX_Kmovq_kr_km64,
            Class::Tile => return Err("a tile is not copied".into()),
            Class::Vec => {
                let wide = self.is_wide(inst);
                super::table::MOVAPS.code(self.isa, size, wide).ok_or("no copy of this size")?
            }
        };
        self.with(Instruction::with2(code, to, from))
    }
    fn zero(&mut self, inst: &Inst) -> Result<(), String> {
        let Opd::Reg(r, size) = inst.ops[0] else { return Err("zero in no register".into()) };
        if size < Size::X {
            let to = self.register(&Opd::Reg(r, Size::D))?;
            return self.with(Instruction::with2(Code::Xor_r32_rm32, to, to));
        }
        // writing 16 bytes clears the rest; registers above 15 are reached with 64
        let size = if self.assignment.number(r) >= 16 { Size::Z } else { Size::X };
        let to = self.register(&Opd::Reg(r, size))?;
        let wide = size == Size::Z;
        let code = super::table::PXOR.code(self.isa, size, wide).ok_or("no zero of this size")?;
        match self.isa {
            Isa::Sse2 => self.with(Instruction::with2(code, to, to)),
            _ => self.with(Instruction::with3(code, to, to, to)),
        }
    }
    fn divide(&mut self, inst: &Inst, signed: bool) -> Result<(), String> {
        let Opd::Reg(_, size) = inst.ops[0] else { return Err("a quotient in no register".into()) };
        let (a, b, to) =
            (self.register(&inst.ops[1])?, self.register(&inst.ops[2])?, self.register(&inst.ops[0])?);
        let is_wide = size == Size::Q;
        let rax = if is_wide { Register::RAX } else { Register::EAX };
        let mov = if is_wide { Code::Mov_r64_rm64 } else { Code::Mov_r32_rm32 };
        self.with(Instruction::with2(mov, rax, a))?;
        match (signed, is_wide) {
            (true, true) => _ = self.put(&Instruction::with(Code::Cqo))?,
            (true, false) => _ = self.put(&Instruction::with(Code::Cdq))?,
            (false, _) => self.with(Instruction::with2(Code::Xor_r32_rm32, Register::EDX, Register::EDX))?,
        }
        let code = match (signed, is_wide) {
            (true, true) => Code::Idiv_rm64,
            (true, false) => Code::Idiv_rm32,
            (false, true) => Code::Div_rm64,
            (false, false) => Code::Div_rm32,
        };
        self.with(Instruction::with1(code, b))?;
        if to != rax { self.with(Instruction::with2(mov, to, rax)) } else { Ok(()) }
    }

    /// Whether an instruction needs the EVEX form.
    fn is_wide(&self, inst: &Inst) -> bool {
        let high = |o: &Opd| match o {
            Opd::Reg(r, Size::X | Size::Y | Size::Z) => self.assignment.number(*r) >= 16,
            Opd::Reg(_, Size::K) | Opd::Splat(_) => true,
            _ => false,
        };
        inst.mask.is_some() || inst.ops.iter().any(high)
    }
    fn register(&self, o: &Opd) -> Result<Register, String> {
        match o {
            Opd::Reg(r, size) => Ok(physical(self.assignment.number(*r), *size)),
            _ => Err("an operand that is no register".into()),
        }
    }
    fn general(&self, r: Reg) -> Register {
        GENERAL[self.assignment.number(r) as usize]
    }

    fn plain(&mut self, inst: &Inst, code: Code) -> Result<(), String> {
        let mut i = Instruction::default();
        i.set_code(code);
        let mut constant = None;
        for (at, o) in inst.ops.iter().enumerate() {
            let at = at as u32;
            match o {
                Opd::Reg(r, size) => {
                    i.set_op_kind(at, iced_x86::OpKind::Register);
                    i.set_op_register(at, physical(self.assignment.number(*r), *size));
                }
                Opd::Imm(v, imm) => {
                    let is_wide = matches!(inst.ops[0], Opd::Reg(_, Size::Q));
                    set_immediate(&mut i, at, *v, *imm, is_wide);
                }
                Opd::Mem(m) | Opd::Splat(m) => {
                    i.set_op_kind(at, iced_x86::OpKind::Memory);
                    match m.base {
                        Base::Reg(r) => i.set_memory_base(self.general(r)),
                        Base::Frame => i.set_memory_base(Register::RSP),
                        Base::Pool => {
                            i.set_memory_base(Register::RIP);
                            constant = Some(m.disp);
                        }
                    }
                    if let Some((r, scale)) = m.index {
                        i.set_memory_index(self.general(r));
                        i.set_memory_index_scale(scale.get().into());
                    }
                    let disp = if constant.is_some() { FAR } else { m.disp as i64 as u64 };
                    i.set_memory_displ_size((disp != 0) as u32);
                    i.set_memory_displacement64(disp);
                    i.set_is_broadcast(matches!(o, Opd::Splat(_)));
                }
            }
        }
        if let Some((k, zero)) = inst.mask {
            i.set_op_mask(physical(self.assignment.number(k), Size::K));
            i.set_zeroing_masking(zero);
        }
        let start = self.at;
        self.put(&i)?;
        if let Some(disp) = constant {
            let offset = self.encoder.get_constant_offsets().displacement_offset();
            self.constants.push((start + offset, self.at, disp));
        }
        Ok(())
    }
}

fn set_immediate(i: &mut Instruction, at: u32, v: i64, imm: Imm, is_wide: bool) {
    use iced_x86::OpKind;
    let kind = match (imm, is_wide) {
        (Imm::Byte, _) => OpKind::Immediate8,
        (Imm::Short, false) => OpKind::Immediate8to32,
        (Imm::Short, true) => OpKind::Immediate8to64,
        (Imm::Word, false) => OpKind::Immediate32,
        (Imm::Word, true) => OpKind::Immediate32to64,
        (Imm::Long, _) => OpKind::Immediate64,
    };
    i.set_op_kind(at, kind);
    match kind {
        OpKind::Immediate8 => i.set_immediate8(v as u8),
        OpKind::Immediate8to32 => i.set_immediate8to32(v as i32),
        OpKind::Immediate8to64 => i.set_immediate8to64(v),
        OpKind::Immediate32to64 => i.set_immediate32to64(v),
        OpKind::Immediate64 => i.set_immediate64(v as u64),
        _ => i.set_immediate32(v as u32),
    }
}

/// The machine's register of a number.
fn physical(number: u8, size: Size) -> Register {
    let general = || GENERAL[number as usize];
    match size {
        Size::Q => general(),
        Size::D => Register::EAX + (general() as u32 - Register::RAX as u32),
        Size::W => Register::AX + (general() as u32 - Register::RAX as u32),
        Size::B => {
            // al, cl, dl, bl, then spl, bpl, sil, dil: iced has ah to bh in between
            let n = general() as u32 - Register::RAX as u32;
            if n < 4 { Register::AL + n } else { Register::SPL + (n - 4) }
        }
        Size::X => Register::XMM0 + number as u32,
        Size::Y => Register::YMM0 + number as u32,
        Size::Z => Register::ZMM0 + number as u32,
        Size::K => Register::K0 + number as u32,
        Size::T => Register::TMM0 + number as u32,
    }
}
