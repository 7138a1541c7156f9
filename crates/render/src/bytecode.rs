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

use crate::Error;
use frit_abi::bytecode::{Hardware, Instr, Kind, Memory, Place, Program, Reg};
use frit_abi::{Alu, Code, DType, Kernel, Target};
use frit_uop::{Arg, Linear, Op, Space, Step, UOp};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The program as a kernel for the interpreter.
pub fn render(linear: &Linear, target: &Target) -> Result<Kernel, Error> {
    let mut writer = Writer::new(linear, target)?;
    for step in &linear.steps {
        match step {
            Step::Do(node) => writer.perform(node)?,
            Step::Open(range) => writer.open(range)?,
            Step::Close(range) => writer.close(range)?,
            Step::Prefetch(..) => {}
        }
    }
    let program = writer.finish()?;
    let scratch = program.local_bytes();
    if let Some(grid) = &target.grid
        && scratch > grid.local_bytes
    {
        let message = format!("{scratch} bytes of local memory, {} allowed", grid.local_bytes);
        return Err(Error::Limit { kernel: program.name, message });
    }
    Ok(Kernel {
        name: program.name.clone(),
        code: Code::Bytecode(Arc::new(program)),
        params: crate::params(linear),
        scratch,
    })
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

    // ---- steps

    fn open(&mut self, range: &UOp) -> Result<(), Error> {
        let extent = self.uniform_or_value(range.src.first().ok_or_else(|| self.no_source(range, 0))?)?;
        self.scopes.push((range.clone(), vec![]));
        let var = self.define(range)?;
        let is_thread = self.linear.thread.as_ref() == Some(range);
        self.program.code.push(if is_thread { Instr::Thread(var, extent) } else { Instr::Loop(var, extent) });
        Ok(())
    }

    fn close(&mut self, range: &UOp) -> Result<(), Error> {
        match self.scopes.pop() {
            Some((open, inside)) if open == *range => {
                for value in inside {
                    self.values.remove(&value);
                }
            }
            Some((open, _)) => {
                return Err(self.malformed(format!("{range:?} is closed while {open:?} is open")));
            }
            None => return Err(self.malformed(format!("{range:?} is closed but not open"))),
        }
        self.program.code.push(Instr::End);
        Ok(())
    }

    fn perform(&mut self, node: &UOp) -> Result<(), Error> {
        match node.op {
            Op::Load => {
                let from = self.place(node)?;
                let alt = match node.src.len() {
                    1 => None,
                    _ => Some(self.source(node, 1)?),
                };
                let dst = self.define(node)?;
                self.program.code.push(Instr::Load { dst, from, alt });
            }
            Op::Store => {
                let to = self.place(node)?;
                let value = self.source(node, 1)?;
                self.program.code.push(Instr::Store { to, value });
            }
            Op::Barrier => self.program.code.push(Instr::Barrier),
            // what waited for something is the thing itself
            Op::After => {
                let value = self.source(node, 0)?;
                self.remember(node, value);
            }
            Op::Matrix => self.matrix(node)?,
            _ => {
                let src = (0..node.src.len()).map(|i| self.source(node, i)).collect::<Result<Vec<_>, _>>()?;
                let dst = self.define(node)?;
                let instr = self.compute(node, dst, src)?;
                self.program.code.push(instr);
            }
        }
        Ok(())
    }

    fn matrix(&mut self, node: &UOp) -> Result<(), Error> {
        let unit = match &node.arg {
            Arg::Name(name) => self.target.unit(name).copied(),
            _ => None,
        };
        let unit = unit.ok_or_else(|| self.malformed(format!("{node:?} names no unit of the target")))?;
        let src = [self.source(node, 0)?, self.source(node, 1)?, self.source(node, 2)?];
        let dst = self.define(node)?;
        self.program.code.push(Instr::Matrix { unit: Box::new(unit), dst, src });
        Ok(())
    }

    /// The instruction of a pure value.
    fn compute(&self, node: &UOp, dst: Reg, src: Vec<Reg>) -> Result<Instr, Error> {
        let lanes = node.lanes();
        let is_move = matches!(node.op, Op::Stack | Op::Lane | Op::Shuffle);
        if lanes > 1 && !is_move && self.target.vector_bytes == 0 {
            return Err(
                self.malformed(format!("{node:?} has {lanes} lanes on a target with scalar arithmetic"))
            );
        }
        Ok(match (node.op, &node.arg) {
            (Op::Stack, _) => Instr::Stack(dst, src),
            (Op::Lane, &Arg::Lane(i)) => Instr::Lane(dst, src[0], i),
            (Op::Shuffle, Arg::Axes(from)) => Instr::Shuffle(dst, src[0], src[1], from.to_vec()),
            (Op::Cast, _) => Instr::Cast(dst, src[0]),
            (Op::Bitcast, _) => Instr::Bitcast(dst, src[0]),
            _ => {
                let Some(op) = node.op.alu() else {
                    return Err(self.malformed(format!("{node:?} has no place in a program")));
                };
                let operand =
                    node.src.get((op == Alu::Where) as usize).ok_or_else(|| self.no_source(node, 0))?;
                let dtype = self.dtype(operand)?;
                // choosing between values needs no arithmetic on them
                if op != Alu::Where && !self.target.supports(op, dtype) {
                    return Err(self.unsupported(node.op, dtype));
                }
                Instr::Alu(dst, op, dtype, src)
            }
        })
    }

    /// The place that a load or store is to, and its gate.
    fn place(&mut self, access: &UOp) -> Result<Place, Error> {
        let address = access.src.first().ok_or_else(|| self.no_source(access, 0))?;
        let (buf, idx) = match address.op {
            Op::Index if address.src.len() == 2 => (&address.src[0], Some(self.value(&address.src[1])?)),
            Op::Index => return Err(self.malformed(format!("{address:?} does not have one index"))),
            _ => (address, None),
        };
        let buf = behind_after(buf);
        let memory = match buf.arg {
            Arg::Param { slot, .. } if self.linear.params.get(slot as usize) == Some(buf) => {
                Memory::Buffer(slot)
            }
            _ => *self
                .defines
                .get(buf)
                .ok_or_else(|| self.malformed(format!("{access:?} is to {buf:?}, which is not declared")))?,
        };
        if let Memory::Buffer(slot) = memory
            && access.op == Op::Store
            && !self.linear.written[slot as usize]
        {
            return Err(
                self.malformed(format!("{access:?} is to parameter {slot}, which is not marked as written"))
            );
        }
        if idx.is_none() && !matches!(memory, Memory::Var(_)) {
            return Err(self.malformed(format!("{access:?} is to memory without an index")));
        }
        if buf.dtype != address.dtype || (access.op == Op::Load && access.dtype != buf.dtype) {
            return Err(self.malformed(format!("{access:?} is to memory of {}", buf.dtype)));
        }
        let value = if access.op == Op::Load { access } else { access.src.get(1).unwrap_or(access) };
        if address.lanes() > 1 && !matches!(memory, Memory::Var(_)) {
            let bytes = address.lanes() * value.dtype.size();
            if bytes > self.target.vector_access_bytes && self.target.vector_bytes == 0 {
                let message =
                    format!("an access of {bytes} bytes, {} allowed", self.target.vector_access_bytes);
                return Err(Error::Limit { kernel: self.program.name.clone(), message });
            }
        }
        let gate = access.gate().cloned();
        let gate = gate.map(|g| self.value(&g)).transpose()?;
        let site = if let Arg::Site(site) = access.arg { Some(site) } else { None };
        if site.is_some() && gate.is_none() {
            return Err(self.malformed(format!("{access:?} is checked but has no gate")));
        }
        let rows =
            if let Arg::Tile { lanes, stride, .. } = address.arg { Some((lanes, stride)) } else { None };
        Ok(Place { memory, idx, gate, rows, site })
    }

    // ---- values

    fn source(&mut self, node: &UOp, i: usize) -> Result<Reg, Error> {
        let src = node.src.get(i).ok_or_else(|| self.no_source(node, i))?;
        self.value(src)
    }

    /// The register of a value that was computed, or of a leaf.
    fn value(&mut self, node: &UOp) -> Result<Reg, Error> {
        let node = behind_after(node);
        if let Some(&r) = self.values.get(node) {
            return Ok(r);
        }
        match node.op {
            Op::Const | Op::Variable | Op::Special => self.uniform(node),
            _ => Err(self.malformed(format!("{node:?} is used where it is not computed"))),
        }
    }

    /// An extent: a value in scope, or one that follows from the launch alone.
    fn uniform_or_value(&mut self, node: &UOp) -> Result<Reg, Error> {
        match self.values.get(node) {
            Some(&r) => Ok(r),
            None => self.uniform(node),
        }
    }

    /// A value of constants, variables and hardware ids, computed before the first step.
    fn uniform(&mut self, node: &UOp) -> Result<Reg, Error> {
        let node = behind_after(node);
        if let Some(&r) = self.uniforms.get(node) {
            return Ok(r);
        }
        let instr: Box<dyn FnOnce(Reg) -> Instr> = match (node.op, &node.arg) {
            (Op::Const, &Arg::Scalar(v)) => Box::new(move |r| Instr::Const(r, v)),
            (Op::Variable, _) => {
                let n = self.linear.vars.iter().position(|v| same_variable(v, node));
                let n =
                    n.ok_or_else(|| self.malformed(format!("{node:?} is not among its variables")))? as u32;
                Box::new(move |r| Instr::Variable(r, n))
            }
            (Op::Special, Arg::Name(name)) => {
                let hardware = hardware(name)
                    .ok_or_else(|| self.malformed(format!("there is no hardware id {name}")))?;
                if self.target.grid.is_none() {
                    return Err(self.malformed(format!("{name} on a target without a grid")));
                }
                let extent = self.uniform(node.src.first().ok_or_else(|| self.no_source(node, 0))?)?;
                Box::new(move |r| Instr::Special(r, hardware, extent))
            }
            (op, _) if op.is_elementwise() => {
                // an extent is a shallow expression over the variables
                let src = node.src.iter().map(|s| self.uniform(s)).collect::<Result<Vec<_>, _>>()?;
                let dst = self.register(node)?;
                let instr = self.compute(node, dst, src)?;
                self.prelude.push(instr);
                self.uniforms.insert(node.clone(), dst);
                return Ok(dst);
            }
            _ => return Err(self.malformed(format!("{node:?} is used where it is not computed"))),
        };
        let dst = self.register(node)?;
        self.prelude.push(instr(dst));
        self.uniforms.insert(node.clone(), dst);
        Ok(dst)
    }

    /// A register for a value of the present scope.
    fn define(&mut self, node: &UOp) -> Result<Reg, Error> {
        let reg = self.register(node)?;
        self.remember(node, reg);
        Ok(reg)
    }

    fn remember(&mut self, node: &UOp, reg: Reg) {
        self.values.insert(node.clone(), reg);
        if let Some((_, inside)) = self.scopes.last_mut() {
            inside.push(node.clone());
        }
    }

    fn register(&mut self, node: &UOp) -> Result<Reg, Error> {
        if node.shape().len() > 1 || node.shape().iter().any(|d| d.as_int().is_none()) {
            return Err(self.malformed(format!("{node:?} is neither a scalar nor a vector")));
        }
        let kind = Kind { dtype: self.dtype(node)?, lanes: node.lanes() as u32 };
        self.program.regs.push(kind);
        Ok(Reg(self.program.regs.len() as u32 - 1))
    }

    /// The type of a value; a constant extent may still be of type `Index`.
    fn dtype(&self, node: &UOp) -> Result<DType, Error> {
        match node.dtype {
            DType::Index if node.op == Op::Const => Ok(DType::I64),
            DType::Index => Err(self.malformed(format!("{node:?} has no decided width"))),
            DType::Void => Err(self.malformed(format!("{node:?} has no value"))),
            d @ (DType::I64 | DType::U64) if !self.target.int64 => Err(self.unsupported(node.op, d)),
            d => Ok(d),
        }
    }

    // ---- errors

    fn malformed(&self, message: impl Into<String>) -> Error {
        Error::Malformed { kernel: self.program.name.clone(), message: message.into() }
    }
    fn no_source(&self, node: &UOp, i: usize) -> Error {
        self.malformed(format!("{node:?} has no source {i}"))
    }
    fn unsupported(&self, op: Op, dtype: DType) -> Error {
        Error::Unsupported { kernel: self.program.name.clone(), op, dtype, target: self.target.name.clone() }
    }
}

/// What an `After` stands for.
fn behind_after(mut node: &UOp) -> &UOp {
    while node.op == Op::After {
        node = &node.src[0];
    }
    node
}

/// Variables are told apart by name: their width is decided for each use.
fn same_variable(a: &UOp, b: &UOp) -> bool {
    matches!((&a.arg, &b.arg), (Arg::Var { name: x, .. }, Arg::Var { name: y, .. }) if x == y)
}

fn hardware(name: &str) -> Option<Hardware> {
    let (kind, dim) = name.split_at_checked(4)?;
    let dim = dim.parse().ok().filter(|d| *d < 3)?;
    match kind {
        "gidx" => Some(Hardware::Global(dim)),
        "lidx" => Some(Hardware::Local(dim)),
        _ => None,
    }
}
