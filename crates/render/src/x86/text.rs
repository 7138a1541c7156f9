//! The program of virtual registers as text, for people: one line an instruction, loops indented.
//!
//! ```text
//!   i9.d = zero
//!   L0:
//!     v4.z = vmulps v3.z, [i6 + 4*i9 +64]
//!     i9.d = add i9.d, 1
//! ```
//!
//! A register is its file (`i` general, `v` vector, `k` mask, `t` tile) and number, with its size where that is not the
//! whole of it. Behind a `|` stands the machine's register, once it has one.

use super::Job;
use super::program::{Base, Class, Cond, Def, Inst, Kind, Mem, Opd, Reg, Size};
use crate::Shown;
use frit_abi::target::Isa;
use std::fmt::{Display, Formatter, Result};

impl Display for Job<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let mut depth = 1;
        for inst in &self.program.insts {
            match inst.kind {
                Kind::LoopBegin => depth += 1,
                Kind::LoopEnd => depth -= 1,
                Kind::Label(n, _) => writeln!(f, "{:1$}L{n}:", "", 2 * depth - 2)?,
                _ => writeln!(f, "{:2$}{}", "", self.line(inst), 2 * depth)?,
            }
        }
        let (frame, pool) = (self.program.frame, self.program.pool.bytes.len());
        writeln!(f, "  frame {frame} bytes, constants {pool} bytes, scratch {} bytes", self.scratch)
    }
}

impl Shown for Job<'_> {
    fn steps(&self) -> Vec<u32> {
        let mut steps: Vec<u32> =
            self.program.insts.iter().filter(|i| i.is_shown()).map(|i| i.step).collect();
        // the sizes at the end
        steps.push(0);
        steps
    }
    fn offsets(&self) -> Vec<u32> {
        let is_shown = self.program.insts.iter().map(Inst::is_shown).chain([true]);
        self.starts.iter().zip(is_shown).filter(|(_, is)| *is).map(|(at, _)| *at).collect()
    }
}

impl Job<'_> {
    fn line(&self, inst: &Inst) -> String {
        let name = name(inst.kind, self.target.isa);
        let mut ops: Vec<String> = inst.ops.iter().map(|o| self.operand(o)).collect();
        if let Some((mask, zeroing)) = inst.mask {
            ops.push(format!("under {}{}", self.register(mask), if zeroing { " or zero" } else { "" }));
        }
        if inst.def == Def::Nothing || ops.is_empty() {
            return format!("{name} {}", ops.join(", ")).trim_end().into();
        }
        let to = ops.remove(0);
        let also = if inst.def == Def::Modify { format!("{to}, ") } else { String::new() };
        format!("{to} = {name} {also}{}", ops.join(", ")).trim_end_matches([' ', ',']).into()
    }
    fn register(&self, r: Reg) -> String {
        let file = match self.program.regs[r.0 as usize].class {
            Class::Int => 'i',
            Class::Vec => 'v',
            Class::Mask => 'k',
            Class::Tile => 't',
        };
        match self.assignment.get(r) {
            Some(number) => format!("{file}{}|{number}", r.0),
            None => format!("{file}{}", r.0),
        }
    }
    fn operand(&self, o: &Opd) -> String {
        match o {
            Opd::Reg(r, Size::Q | Size::K | Size::T) => self.register(*r),
            Opd::Reg(r, size) => format!("{}.{}", self.register(*r), format!("{size:?}").to_lowercase()),
            Opd::Mem(m) => self.address(m),
            Opd::Splat(m) => format!("all {}", self.address(m)),
            Opd::Imm(n, _) => n.to_string(),
        }
    }
    fn address(&self, m: &Mem) -> String {
        let base = match m.base {
            Base::Reg(r) => self.register(r),
            Base::Pool => "constants".into(),
            Base::Frame => "frame".into(),
        };
        let index = m.index.map_or(String::new(), |(r, by)| format!(" + {by}*{}", self.register(r)));
        let disp = if m.disp == 0 { String::new() } else { format!(" {:+}", m.disp) };
        format!("[{base}{index}{disp}]")
    }
}

/// The machine's name of an instruction, or ours where it becomes several.
fn name(kind: Kind, isa: Isa) -> String {
    let machine = |code: iced_x86::Code| format!("{:?}", code.mnemonic()).to_lowercase();
    match kind {
        Kind::Plain(code) | Kind::Either(code, _) | Kind::ShiftCl(code) => machine(code),
        Kind::Row(row, size) => {
            let code = row.code(isa, size, false).or_else(|| row.code(isa, size, true));
            code.map_or("?".into(), machine)
        }
        Kind::Move => "move".into(),
        Kind::Zero => "zero".into(),
        Kind::Arg(n) => format!("argument {n}"),
        Kind::Div { signed } => if signed { "idiv" } else { "div" }.into(),
        Kind::Jump(cond, label) => {
            let cond = match cond {
                Cond::Equal => "je",
                Cond::NotEqual => "jne",
                Cond::Less => "jl",
                Cond::NotLess => "jge",
            };
            format!("{cond} L{label}")
        }
        Kind::Label(..) | Kind::Body(_) | Kind::LoopBegin | Kind::LoopEnd => String::new(),
    }
}
