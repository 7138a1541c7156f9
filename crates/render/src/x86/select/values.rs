//! The value of a step: which selection it goes to, and where values are found again.

use super::Select;
use super::tile::is_tile;
use super::types::{Val, extended, is_real};
use crate::Error;
use crate::walk::Walk;
use crate::x86::program::{Reg, Size};
use frit_abi::DType;
use frit_uop::{Op, UOp};

impl Select<'_> {
    pub fn perform(&mut self, n: &UOp, step: usize) -> Result<(), Error> {
        match n.op {
            Op::Store => return self.store(n),
            Op::End | Op::Sink | Op::After => return Ok(()),
            _ => {}
        }
        let want = self.uses.destination(n).and_then(|d| self.variables.get(d).cloned());
        let v = match n.op {
            Op::Load => match self.load(n)? {
                Some(v) => v,
                None => return Ok(()),
            },
            // a tile of zeros is made where it is used
            Op::Stack if is_tile(n.lanes()) => return Ok(()),
            Op::Stack => self.stack(n)?,
            Op::Matrix => self.matrix(n, &want)?,
            Op::Lane => self.lane(n)?,
            Op::Shuffle => self.shuffle(n)?,
            Op::Words => Val { elem: n.dtype, lanes: n.lanes(), ..self.operand(&n.src[0])? },
            o if o.is_elementwise() => {
                self.check_lanes(n, n.lanes())?;
                if n.lanes() == 1 { self.scalar(n, step, &want)? } else { self.vector(n, step, &want)? }
            }
            _ => return Err(self.unsupported(n)),
        };
        let v = match want {
            Some(to) => self.move_to(n, v, &to)?,
            None => v,
        };
        self.values.insert(n.clone(), (v, self.at));
        Ok(())
    }
    /// The value in the registers of a variable.
    pub fn move_to(&mut self, n: &UOp, v: Val, to: &Val) -> Result<Val, Error> {
        let v = if v.elem != to.elem && n.dtype == DType::Bool { self.mask_as(&v, to.elem)? } else { v };
        if is_tile(to.lanes) {
            self.copy_tile(to.parts[0], v.parts[0]);
            return Ok(to.clone());
        }
        let size = match (v.lanes, is_real(to.elem), to.elem) {
            (1, false, _) => Size::Q,
            (_, _, DType::Bool) => Size::K,
            _ => to.size(),
        };
        for (a, b) in to.parts.iter().zip(&v.parts) {
            self.copy(*a, *b, size);
        }
        Ok(to.clone())
    }
    /// The block a value is computed in.
    pub fn depth_of(&self, n: &UOp) -> usize {
        match self.values.get(n) {
            Some((_, depth)) => *depth,
            None if n.op == Op::After => self.depth_of(&n.src[0]),
            None => 0,
        }
    }
    /// A source as it is.
    pub fn operand(&mut self, n: &UOp) -> Result<Val, Error> {
        if let Some((v, _)) = self.values.get(n) {
            return Ok(v.clone());
        }
        match n.op {
            Op::Const => {
                let Some(c) = n.as_scalar() else { return Err(self.malformed(format!("{n:?}"))) };
                let d = n.dtype;
                let bits = if d == DType::Index { c.as_i128() as u64 } else { c.to_bits(d) };
                let reg = if is_real(d) {
                    self.vec_const(&bits.to_le_bytes()[..d.size()])
                } else {
                    self.int_const(extended(bits, d))
                };
                Ok(Val::one(reg, d, 1))
            }
            Op::After => self.operand(&n.src[0]),
            _ => Err(self.malformed(format!("{n:?} is used before it is computed"))),
        }
    }
    /// A scalar's register.
    pub fn scalar_operand(&mut self, n: &UOp) -> Result<Reg, Error> {
        let v = self.operand(n)?;
        match v.lanes {
            1 => Ok(v.parts[0]),
            _ => Err(self.malformed(format!("{n:?} is a vector where a scalar must be"))),
        }
    }
}
