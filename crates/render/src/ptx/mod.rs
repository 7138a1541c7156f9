//! Linear program -> PTX, the text that NVIDIA's driver assembles.
//!
//! ```text
//! Open(r) Do(Load(Index(p1, r))) Do(Store(Index(p0, r), ..)) Close(r)
//!     ->  $L0: mad.wide.s32 %d3, %r1, 4, %d2; ld.global.b32 %r2, [%d3]; … st.global.b32 [%d4], %r3; @%p1 bra $L0;
//! ```
//!
//! One entry of the grid convention of `abi::kernel`, for `sm_80`, `sm_89` or `sm_90a` as the target's `isa` says. Every
//! instruction that may come out is a row of [`FORMS`].
//!
//! **Registers** have a size and no type, so a bitcast costs nothing. There are as many as wanted: the driver allocates.
//! **Floats** are IEEE: `.rn` on every operation (without it the driver fuses products into sums), no flushing; of the
//! approximations those that the ops `Exp2Near` and `RecipNear` ask for.
//! **Halves** are computed with in hardware, two in a register where a value has lanes. bfloat16 has only a fused
//! multiply-add below `sm_90`, so sums and products are one everywhere: `a * 1 + b`, `a * b - 0`.
//! **Gates** are predicates: a gated load begins with the alternative, a gated store is skipped.
//! **Indices** have the width codegen gave them; a constant part of one is an offset of the access, and addresses that differ
//! only in it are computed once. **Vectors** are moved by up to 16 bytes; which alignment that counts on is said of each
//! parameter. Loads are plain and never `.nc`: two parameters may be one buffer.

mod casts;
mod control;
mod forms;
mod memory;
mod types;
mod values;

pub use forms::FORMS;

use crate::walk::{Lines, Source, Walk, identifier, params, register};
use crate::{Error, Watch};
use control::Lives;
use frit_abi::target::Isa;
use frit_abi::{Code, DType, Kernel, Param, Target};
use frit_uop::{Arg, Linear, Op, Space, Step, UOp};
use rustc_hash::FxHashMap;
use std::fmt::Write;
use types::{Class, Operand, Operands, Val};

/// Of the text: the first that has all of `sm_90a` and the 8-bit floats of `sm_89`; drivers since 530 take it.
const VERSION: &str = "8.1";
/// Bytes of local memory that a kernel may have without asking at launch.
const STATIC_LOCAL: usize = 48 << 10;
/// Lanes that a multiprocessor should have room for: registers beyond are worth less than what hides their waiting.
const RESIDENT: i64 = 512;
/// Registers of a lane that it needs besides its variables.
const BESIDE_VARIABLES: i64 = 64;
/// The alignment of local memory, and of each array in it.
const LOCAL_ALIGN: usize = 16;

/// The program as PTX.
pub fn render(linear: &Linear, target: &Target) -> Result<Kernel, Error> {
    written(linear, target).map(|(kernel, _)| kernel)
}

/// The kernel, and for each line of its text the step that it is for.
fn written(linear: &Linear, target: &Target) -> Result<(Kernel, Vec<u32>), Error> {
    let mut w = Writer::new(linear, target)?;
    for (i, step) in linear.steps.iter().enumerate() {
        match step {
            Step::Do(n) => w.perform(n)?,
            Step::Open(r) => w.open(r)?,
            Step::Close(r) => w.close(r)?,
            // the hardware has warps to switch to
            Step::Prefetch(..) => {}
        }
        w.head_lines.count(&w.head, i as u32 + 1);
        w.body_lines.count(&w.body, i as u32 + 1);
    }
    w.finish()
}

/// [`render`], showing the text.
pub fn render_and_watch(linear: &Linear, target: &Target, watch: &mut Watch) -> Result<Kernel, Error> {
    let (kernel, steps) = written(linear, target)?;
    if let Code::Ptx(text) = &kernel.code {
        watch("ptx", &Source(text, steps));
    }
    Ok(kernel)
}

struct Writer<'a> {
    linear: &'a Linear,
    target: &'a Target,
    /// What is known before the first step: parameters, hardware ids, constants.
    head: String,
    body: String,
    /// The steps that their lines are for.
    head_lines: Lines,
    body_lines: Lines,
    /// Registers of each class so far.
    counts: [u32; 4],
    labels: u32,
    lives: Lives,
    /// Where the next result goes, if not to a new register.
    into: Option<Operand>,
    values: FxHashMap<UOp, Val>,
    /// What is computed before the first step, by the text of its instruction.
    uniforms: FxHashMap<String, Operand>,
    /// Addresses by memory and index without its constant.
    places: FxHashMap<(UOp, UOp), Operand>,
    /// The halves of registers that were taken apart.
    halves: FxHashMap<Operand, [Operand; 2]>,
    /// float32 factors of matrix units, rounded as those take them.
    rounded: FxHashMap<UOp, Operands>,
    /// The open loops: their labels, counters, and what was found out inside.
    scopes: Vec<control::Scope>,
    /// Where local arrays begin.
    local: FxHashMap<UOp, usize>,
    local_bytes: usize,
    /// Bytes of the widest access to each parameter.
    align: Vec<usize>,
}

impl Walk for Writer<'_> {
    fn program(&self) -> (&Linear, &Target) {
        (self.linear, self.target)
    }
}

impl<'a> Writer<'a> {
    fn new(linear: &'a Linear, target: &'a Target) -> Result<Self, Error> {
        let mut w = Writer {
            linear,
            target,
            head: String::new(),
            body: String::new(),
            head_lines: Lines::default(),
            body_lines: Lines::default(),
            counts: [0; 4],
            labels: 0,
            lives: Lives::of(linear),
            into: None,
            values: FxHashMap::default(),
            uniforms: FxHashMap::default(),
            places: FxHashMap::default(),
            halves: FxHashMap::default(),
            rounded: FxHashMap::default(),
            scopes: vec![],
            local: FxHashMap::default(),
            local_bytes: 0,
            align: linear.params.iter().map(|p| p.dtype.size().max(1)).collect(),
        };
        if target.isa < Isa::Sm80 || target.grid.is_none() {
            return Err(w.limit(format!("PTX is for GPUs, {} is none", target.name)));
        }
        for (slot, p) in linear.params.iter().enumerate() {
            if !matches!(p.arg, Arg::Param { slot: s, .. } if s as usize == slot) {
                return Err(w.malformed(format!("parameter {slot} is {p:?}")));
            }
        }
        for d in &linear.defines {
            let Arg::Define { space, len, .. } = d.arg else {
                return Err(w.malformed(format!("{d:?} among the defines")));
            };
            if space == Space::Reg {
                let v = w.registers(d.dtype, len);
                w.values.insert(d.clone(), v);
            } else {
                w.local.insert(d.clone(), w.local_bytes);
                w.local_bytes += (len * d.dtype.size()).next_multiple_of(LOCAL_ALIGN);
            }
        }
        let most = target.grid.as_ref().map_or(0, |g| g.local_bytes);
        if w.local_bytes > most {
            return Err(w.limit(format!("{} bytes of local memory, {most} allowed", w.local_bytes)));
        }
        Ok(w)
    }

    fn limit(&self, message: String) -> Error {
        Error::Limit { kernel: self.linear.name.to_string(), message }
    }

    fn fresh(&mut self, class: Class) -> Operand {
        self.counts[class as usize] += 1;
        Operand::Reg(class, self.counts[class as usize] - 1)
    }

    /// Registers for so many elements: of small ones as many in each as there is room for, as matrix units take them.
    fn registers(&mut self, d: DType, len: usize) -> Val {
        let mut of = |class: Class, n: usize| (0..n).map(|_| self.fresh(class)).collect();
        match d.size() {
            2 if types::is_half(d) && len > 1 && len.is_multiple_of(2) => {
                Val::Pairs(of(Class::Word, len / 2))
            }
            1 if d != DType::Bool && len > 1 && len.is_multiple_of(4) => Val::Quads(of(Class::Word, len / 4)),
            _ => Val::Lanes(of(Class::of(d), len)),
        }
    }

    /// An instruction.
    fn emit(&mut self, form: &str, operands: &[Operand]) {
        self.emit_if(None, form, operands);
    }
    /// An instruction under a predicate.
    fn emit_if(&mut self, gate: Option<Operand>, form: &str, operands: &[Operand]) {
        debug_assert!(forms::is_known(form), "{form} is not among the forms");
        self.body.push_str("  ");
        if let Some(p) = gate {
            _ = write!(self.body, "@{p} ");
        }
        self.body.push_str(form);
        for (i, o) in operands.iter().enumerate() {
            _ = write!(self.body, "{} {o}", if i == 0 { "" } else { "," });
        }
        self.body.push_str(";\n");
    }
    /// An instruction whose result is a new register, or the variable it updates.
    fn make(&mut self, class: Class, form: &str, src: &[Operand]) -> Operand {
        let to = self.into.take().unwrap_or_else(|| self.fresh(class));
        let mut all = smallvec::SmallVec::<[Operand; 5]>::new();
        all.push(to);
        all.extend_from_slice(src);
        self.emit(form, &all);
        to
    }
    /// A new register that is the same in the whole kernel, by `form source`.
    fn uniform(&mut self, class: Class, form: &str, source: &str) -> Operand {
        let key = format!("{form} {source}");
        if let Some(&o) = self.uniforms.get(&key) {
            return o;
        }
        debug_assert!(forms::is_known(form), "{form} is not among the forms");
        let to = self.fresh(class);
        _ = writeln!(self.head, "  {form} {to}, {source};");
        self.uniforms.insert(key, to);
        to
    }

    /// Registers of 32 bits that a lane's variables take, and what it loads before all loops for use in them.
    fn variables(&self) -> i64 {
        let words = |d: &UOp| match d.arg {
            Arg::Define { space: Space::Reg, len, .. } => (len * d.dtype.size()).div_ceil(4),
            _ => 0,
        };
        let variables: usize = self.linear.defines.iter().map(words).sum();
        let steps = &self.linear.steps;
        let begin = steps.iter().position(|s| matches!(s, Step::Open(_))).unwrap_or(0);
        let loaded = |s: &&Step| matches!(s, Step::Do(n) if n.op == Op::Load && register(n).is_none());
        let bytes = |s: &Step| s.node().dtype.size() * s.node().lanes();
        let loaded: usize = steps[..begin].iter().filter(loaded).map(|s| bytes(s).div_ceil(4)).sum();
        (variables + loaded) as i64
    }

    /// Lanes of a block, if they are known.
    fn block(&self) -> Option<[i64; 3]> {
        let extent = |dim: usize| {
            let name = format!("lidx{dim}");
            let found = self.linear.specials.iter().find(|s| matches!(&s.arg, Arg::Name(n) if **n == *name));
            found.map_or(Some(1), |s| s.src.first()?.as_int())
        };
        Some([extent(0)?, extent(1)?, extent(2)?])
    }

    fn finish(self) -> Result<(Kernel, Vec<u32>), Error> {
        if !self.scopes.is_empty() {
            return Err(self.malformed("a loop is never closed"));
        }
        let name = identifier(&self.linear.name);
        let mut out = String::with_capacity(self.head.len() + self.body.len() + 512);
        let is_dynamic = self.local_bytes > STATIC_LOCAL;
        _ = write!(out, ".version {VERSION}\n.target {}\n.address_size 64\n\n", self.target.isa.name());
        if is_dynamic {
            _ = writeln!(out, ".extern .shared .align {LOCAL_ALIGN} .b8 local[];\n");
        }
        _ = writeln!(out, ".visible .entry {name}(");
        for (slot, align) in self.align.iter().enumerate() {
            _ = writeln!(out, "  .param .u64 .ptr .global .align {align} p{slot},");
        }
        for (i, v) in self.linear.vars.iter().enumerate() {
            let bits = if v.dtype == DType::I32 { 32 } else { 64 };
            _ = writeln!(out, "  .param .s{bits} n{i},");
        }
        out.push_str("  .param .u64 .ptr .global .align 4 status\n)\n");
        if let Some([x, y, z]) = self.block() {
            _ = writeln!(out, ".reqntid {x}, {y}, {z}");
            let lanes = (x * y * z).max(1);
            let (most, registers) = self
                .target
                .grid
                .as_ref()
                .map_or((1, 0), |g| (g.processors.blocks as i64, g.processors.registers as i64));
            // but variables, and what they are computed from, must find registers
            let fits = registers / (lanes * (self.variables() + BESIDE_VARIABLES));
            let blocks = (RESIDENT / lanes).min(fits).clamp(1, most.max(1));
            if blocks > 1 {
                _ = writeln!(out, ".minnctapersm {blocks}");
            }
        }
        out.push_str("{\n");
        for (class, &n) in Class::ALL.iter().zip(&self.counts) {
            if n > 0 {
                _ = writeln!(out, "  .reg .{} %{}<{n}>;", class.bits(), class.letter());
            }
        }
        if self.local_bytes > 0 && !is_dynamic {
            _ = writeln!(out, "  .shared .align {LOCAL_ALIGN} .b8 local[{}];", self.local_bytes);
        }
        if self.target.isa >= Isa::Sm90a {
            // the launch is on its way to the processors while the blocks before it end, and waits here, before any access; it
            // is not let in sooner, since blocks that wait take the room of those that work
            let wait = "griddepcontrol.wait";
            debug_assert!(forms::is_known(wait), "{wait} is not among the forms");
            _ = writeln!(out, "  {wait};");
        }
        let before = out.len();
        _ = write!(out, "{}{}  ret;\n}}\n", self.head, self.body);
        let steps = Lines::within(&out[..before], &[&self.head_lines, &self.body_lines], &out);
        let scratch = if is_dynamic { self.local_bytes } else { 0 };
        let mut params = params(self.linear);
        for (p, &bytes) in params.iter_mut().zip(&self.align) {
            if let Param::Buffer { align, .. } = p {
                *align = bytes;
            }
        }
        Ok((Kernel { name, code: Code::Ptx(out), params, scratch }, steps))
    }
}
