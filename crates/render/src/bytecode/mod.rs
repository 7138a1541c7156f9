//! Linear program -> the interpreter's bytecode.
//!
//! One instruction for each step; constants, variables and hardware ids come first, once each. The interpreter is the
//! oracle, so this renderer is strict: a value used where it is not in scope, an index of undecided width, a vector the
//! target does not have, are errors here.
//!
//! ```text
//! Open(r) Do(Load(Index(p1, r))) Do(Store(Index(p0, r), ..)) Close(r)
//!     ->  r0 = 16;  for r1 < r0;  r2 = load b1[r1];  store b0[r1] = r2;  end
//! ```

mod control;
mod memory;
mod types;
mod values;

use crate::walk::{Source, Walk, params};
use crate::{Error, Watch};
use frit_abi::bytecode::{Instr, Kind, Memory, Program, Reg};
use frit_abi::{Code, Kernel, Target};
use frit_uop::{Arg, Linear, Space, Step, UOp};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The program as a kernel for the interpreter.
pub fn render(linear: &Linear, target: &Target) -> Result<Kernel, Error> {
    written(linear, target).map(|(kernel, _)| kernel)
}

/// The kernel, and for each line of its text the step that it is for.
fn written(linear: &Linear, target: &Target) -> Result<(Kernel, Vec<u32>), Error> {
    let mut writer = Writer::new(linear, target)?;
    let (mut before, mut inside) = (vec![], vec![]);
    for (i, step) in linear.steps.iter().enumerate() {
        match step {
            Step::Do(node) => writer.perform(node)?,
            Step::Open(range) => writer.open(range)?,
            Step::Close(range) => writer.close(range)?,
            Step::Prefetch(..) => {}
        }
        before.resize(writer.prelude.len(), i as u32 + 1);
        inside.resize(writer.program.code.len(), i as u32 + 1);
    }
    let program = writer.finish()?;
    // its name, its variables and its local arrays come first
    let mut steps = vec![0; 1 + program.vars.len() + program.locals.len()];
    steps.extend(before.into_iter().chain(inside));
    let scratch = program.local_bytes();
    if let Some(grid) = &target.grid
        && scratch > grid.local_bytes
    {
        let message = format!("{scratch} bytes of local memory, {} allowed", grid.local_bytes);
        return Err(Error::Limit { kernel: program.name, message });
    }
    let (name, params) = (program.name.clone(), params(linear));
    Ok((Kernel { name, code: Code::Bytecode(Arc::new(program)), params, scratch }, steps))
}

/// [`render`], showing the bytecode.
pub fn render_and_watch(linear: &Linear, target: &Target, watch: &mut Watch) -> Result<Kernel, Error> {
    let (kernel, steps) = written(linear, target)?;
    if let Code::Bytecode(program) = &kernel.code {
        watch("bytecode", &Source(&**program, steps));
    }
    Ok(kernel)
}

struct Writer<'a> {
    linear: &'a Linear,
    target: &'a Target,
    program: Program,
    /// What is known before the first step; `program.code` has the rest.
    prelude: Vec<Instr>,
    /// Registers of what was computed there.
    uniforms: FxHashMap<UOp, Reg>,
    /// Registers of the values in scope that steps computed.
    values: FxHashMap<UOp, Reg>,
    /// Where `Define`s live.
    defines: FxHashMap<UOp, Memory>,
    /// The open loops, and what was computed in each: gone when the loop closes.
    scopes: Vec<(UOp, Vec<UOp>)>,
}

impl Walk for Writer<'_> {
    fn program(&self) -> (&Linear, &Target) {
        (self.linear, self.target)
    }
}

impl<'a> Writer<'a> {
    fn new(linear: &'a Linear, target: &'a Target) -> Result<Self, Error> {
        let program = Program {
            name: linear.name.to_string(),
            regs: vec![],
            vars: vec![],
            locals: vec![],
            buffers: linear.params.len() as u32,
            code: vec![],
        };
        let mut writer = Writer {
            linear,
            target,
            program,
            prelude: vec![],
            uniforms: FxHashMap::default(),
            values: FxHashMap::default(),
            defines: FxHashMap::default(),
            scopes: vec![],
        };
        if linear.written.len() != linear.params.len() {
            return Err(writer.malformed("it does not say of every parameter whether it is written"));
        }
        for (slot, p) in linear.params.iter().enumerate() {
            if !matches!(p.arg, Arg::Param { slot: s, .. } if s as usize == slot) {
                return Err(writer.malformed(format!("parameter {slot} is {p:?}")));
            }
        }
        for define in &linear.defines {
            let Arg::Define { space, len, .. } = define.arg else {
                return Err(writer.malformed(format!("{define:?} among the defines")));
            };
            let kind = Kind { dtype: writer.dtype(define)?, lanes: len as u32 };
            let list =
                if space == Space::Local { &mut writer.program.locals } else { &mut writer.program.vars };
            let n = list.len() as u32;
            list.push(kind);
            let memory = if space == Space::Local { Memory::Local(n) } else { Memory::Var(n) };
            writer.defines.insert(define.clone(), memory);
        }
        Ok(writer)
    }

    fn finish(mut self) -> Result<Program, Error> {
        if let Some((range, _)) = self.scopes.last() {
            return Err(self.malformed(format!("{range:?} is never closed")));
        }
        if let Some(thread) = &self.linear.thread
            && !self.program.code.iter().any(|i| matches!(i, Instr::Thread(..)))
        {
            return Err(self.malformed(format!("the thread range {thread:?} is never opened")));
        }
        let mut code = self.prelude;
        code.append(&mut self.program.code);
        Ok(Program { code, ..self.program })
    }
}
