//! What computes, and where values are found again.

use super::Writer;
use super::types::hardware;
use crate::Error;
use crate::walk::Walk;
use frit_abi::Alu;
use frit_abi::bytecode::{Instr, Reg};
use frit_uop::{Arg, Op, UOp};

impl Writer<'_> {
    /// The instruction of a pure value.
    pub fn compute(&self, node: &UOp, dst: Reg, src: Vec<Reg>) -> Result<Instr, Error> {
        let lanes = node.lanes();
        let is_move = matches!(node.op, Op::Stack | Op::Lane | Op::Shuffle | Op::Words);
        if lanes > 1 && !is_move && self.target.vector_bytes == 0 {
            return Err(
                self.malformed(format!("{node:?} has {lanes} lanes on a target with scalar arithmetic"))
            );
        }
        Ok(match (node.op, &node.arg) {
            (Op::Stack, _) => Instr::Stack(dst, src),
            (Op::Lane, &Arg::Lane(i)) => Instr::Lane(dst, src[0], i),
            (Op::Shuffle, Arg::Axes(from)) => Instr::Shuffle(dst, src[0], src[1], from.to_vec()),
            (Op::Words, _) => Instr::Words(dst, src[0]),
            (Op::LaneShuffle, &Arg::Lanes(d)) => Instr::LaneShuffle(dst, src[0], d),
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
                    return Err(self.lacks(node.op, dtype));
                }
                Instr::Alu(dst, op, dtype, src)
            }
        })
    }

    pub fn source(&mut self, node: &UOp, i: usize) -> Result<Reg, Error> {
        let src = node.src.get(i).ok_or_else(|| self.no_source(node, i))?;
        self.value(src)
    }

    /// The register of a value that was computed, or of a leaf.
    pub fn value(&mut self, node: &UOp) -> Result<Reg, Error> {
        let node = node.behind_after();
        if let Some(&r) = self.values.get(node) {
            return Ok(r);
        }
        match node.op {
            Op::Const | Op::Variable | Op::Special => self.uniform(node),
            _ => Err(self.malformed(format!("{node:?} is used where it is not computed"))),
        }
    }

    /// An extent: a value in scope, or one that follows from the launch alone.
    pub fn uniform_or_value(&mut self, node: &UOp) -> Result<Reg, Error> {
        match self.values.get(node) {
            Some(&r) => Ok(r),
            None => self.uniform(node),
        }
    }

    /// A value of constants, variables and hardware ids, computed before the first step.
    pub fn uniform(&mut self, node: &UOp) -> Result<Reg, Error> {
        let node = node.behind_after();
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
    pub fn define(&mut self, node: &UOp) -> Result<Reg, Error> {
        let reg = self.register(node)?;
        self.remember(node, reg);
        Ok(reg)
    }

    pub fn remember(&mut self, node: &UOp, reg: Reg) {
        self.values.insert(node.clone(), reg);
        if let Some((_, inside)) = self.scopes.last_mut() {
            inside.push(node.clone());
        }
    }
    /// What is missing where a node has too few sources.
    pub fn no_source(&self, node: &UOp, i: usize) -> Error {
        self.malformed(format!("{node:?} has no source {i}"))
    }
}

/// Variables are told apart by name: their width is decided for each use.
fn same_variable(a: &UOp, b: &UOp) -> bool {
    matches!((&a.arg, &b.arg), (Arg::Var { name: x, .. }, Arg::Var { name: y, .. }) if x == y)
}
