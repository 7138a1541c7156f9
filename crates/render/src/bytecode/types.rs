//! What a type is in a register, and the hardware's ids.

use super::Writer;
use crate::Error;
use crate::walk::Walk;
use frit_abi::DType;
use frit_abi::bytecode::{Hardware, Kind, Reg};
use frit_uop::{Op, UOp};

impl Writer<'_> {
    /// A new register for a value.
    pub fn register(&mut self, node: &UOp) -> Result<Reg, Error> {
        if node.shape().len() > 1 || node.shape().iter().any(|d| d.as_int().is_none()) {
            return Err(self.malformed(format!("{node:?} is neither a scalar nor a vector")));
        }
        let kind = Kind { dtype: self.dtype(node)?, lanes: node.lanes() as u32 };
        self.program.regs.push(kind);
        Ok(Reg(self.program.regs.len() as u32 - 1))
    }

    /// The type of a value; a constant extent may still be of type `Index`.
    pub fn dtype(&self, node: &UOp) -> Result<DType, Error> {
        match node.dtype {
            DType::Index if node.op == Op::Const => Ok(DType::I64),
            DType::Index => Err(self.malformed(format!("{node:?} has no decided width"))),
            DType::Void => Err(self.malformed(format!("{node:?} has no value"))),
            d @ (DType::I64 | DType::U64) if !self.target.int64 => Err(self.lacks(node.op, d)),
            d => Ok(d),
        }
    }
}

/// The id that codegen calls by this name.
pub fn hardware(name: &str) -> Option<Hardware> {
    let (kind, dim) = name.split_at_checked(4)?;
    let dim = dim.parse().ok().filter(|d| *d < 3)?;
    match kind {
        "gidx" => Some(Hardware::Global(dim)),
        "lidx" => Some(Hardware::Local(dim)),
        _ => None,
    }
}
