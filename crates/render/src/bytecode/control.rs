//! Steps: loops and their scopes, and which instruction a step is.

use super::Writer;
use crate::Error;
use crate::walk::Walk;
use frit_abi::bytecode::Instr;
use frit_uop::{Arg, Op, UOp};

impl Writer<'_> {
    pub fn open(&mut self, range: &UOp) -> Result<(), Error> {
        let extent = self.uniform_or_value(range.src.first().ok_or_else(|| self.no_source(range, 0))?)?;
        self.scopes.push((range.clone(), vec![]));
        let var = self.define(range)?;
        let is_thread = self.linear.thread.as_ref() == Some(range);
        self.program.code.push(if is_thread { Instr::Thread(var, extent) } else { Instr::Loop(var, extent) });
        Ok(())
    }

    pub fn close(&mut self, range: &UOp) -> Result<(), Error> {
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

    pub fn perform(&mut self, node: &UOp) -> Result<(), Error> {
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
            Op::LoadMatrix => {
                let Arg::Fragment { matrices, transposed } = node.arg else {
                    return Err(self.malformed(format!("{node:?} does not say how many matrices")));
                };
                let from = self.place(node)?;
                let dst = self.define(node)?;
                self.program.code.push(Instr::LoadMatrix { dst, from, matrices, transposed });
            }
            Op::CopyAsync => {
                let (to, from) = (self.place(node)?, self.copied(node)?);
                let lanes = node.src[0].lanes() as u32;
                self.program.code.push(Instr::CopyAsync { to, from, lanes });
            }
            Op::Commit => self.program.code.push(Instr::Commit),
            Op::Wait => {
                let Arg::Lanes(n) = node.arg else {
                    return Err(self.malformed(format!("{node:?} does not say for how many")));
                };
                self.program.code.push(Instr::Wait(n));
            }
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

    pub fn matrix(&mut self, node: &UOp) -> Result<(), Error> {
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
}
