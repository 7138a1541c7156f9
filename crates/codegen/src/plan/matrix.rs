//! The opt that gives a reduce to a matrix unit.
//!
//! It is for a sum of products of two loads. Of three axes (rows m of the one, columns n of the other, k that is summed
//! over) it takes parts of the unit's extents; what is left of the axes is walked as before, and the parts become one
//! operation of the unit.
//!
//! ```text
//! Reduce(f32(a[i*K + k]) * f32(b[k*N + j]), k)   ->   Reduce(Matrix(tile of a, tile of b, 0), k / 32)   over i/16, j/16
//! ```

use super::axes::{Axis, Chosen, Plan, WARP, divide};
use super::opt::Opt;
use crate::kernel::access::slot;
use crate::kernel::contraction::Product;
use crate::kernel::ranges::closed;
use frit_abi::MatrixUnit;
use frit_abi::matrix::{Home, Runner};
use frit_uop::{Arg, AxisKind, Op, UOp};

impl Plan<'_> {
    /// Apply `Opt::Matrix`.
    pub(super) fn give_to_unit(&mut self, name: &str, axes: [usize; 3]) -> Result<(), String> {
        self.unstaged()?;
        if self.matrix.is_some() {
            return Err("a matrix unit has it already".into());
        }
        let unit = *self.target.unit(name).ok_or_else(|| format!("{} has no {name}", self.target.name))?;
        let product = Product::of(&self.ast)?;
        if !unit.accumulates(product.reduce.dtype) {
            return Err(format!("it sums in {}, {name} in {}", product.reduce.dtype, unit.accumulator));
        }
        let operands = self.roles(&unit, &product, axes)?;
        self.matrix = Some(self.cut(unit, &product, operands, axes)?);
        Ok(())
    }

    /// Which loads A and B are: the one that moves with m and k, the one that moves with k and n.
    fn roles(&self, unit: &MatrixUnit, product: &Product, axes: [usize; 3]) -> Result<[usize; 2], String> {
        let [m, n, k] = [self.axis(axes[0])?, self.axis(axes[1])?, self.axis(axes[2])?];
        if m.origin == n.origin || k.kind != AxisKind::Reduce {
            return Err("two different axes of the result and one that is summed over are needed".into());
        }
        if [m, n].iter().any(|a| !matches!(a.kind, AxisKind::Global | AxisKind::Loop)) {
            return Err("the axes of the result are given away already".into());
        }
        let moves = |l: &UOp, a: &Axis| l.index().ranges.contains(&a.origin);
        let is = |l: &UOp, yes: &Axis, no: &Axis| moves(l, yes) && moves(l, k) && !moves(l, no);
        let [x, y] = &product.loads;
        let loads = if is(x, m, n) && is(y, n, m) {
            [x, y]
        } else if is(y, m, n) && is(x, n, m) {
            [y, x]
        } else {
            return Err("its factors do not move with these axes as those of a matrix product do".into());
        };
        for (i, l) in loads.iter().enumerate() {
            if l.dtype != unit.operands[i] {
                return Err(format!("operand {i} is {}, {} takes {}", l.dtype, unit.name, unit.operands[i]));
            }
            if matches!(unit.homes[i], Home::Memory(_)) {
                return Err("no renderer hands operands over in memory".into());
            }
            if matches!(l.arg, Arg::Site(_)) || l.index().any(|n| n.op == Op::Reduce) {
                return Err("a load whose index comes from data stays where it is".into());
            }
            if self.ast.any(|s| s.op == Op::Store && slot(s) == slot(l)) {
                return Err("the kernel writes to an operand".into());
            }
        }
        let number = |l: &UOp| self.operands.iter().position(|o| o == l).ok_or("it is no operand");
        Ok([number(loads[0])?, number(loads[1])?])
    }

    /// Take the parts out of the axes; they come last.
    fn cut(
        &mut self,
        unit: MatrixUnit,
        product: &Product,
        operands: [usize; 2],
        axes: [usize; 3],
    ) -> Result<Chosen, String> {
        let mut rests = vec![];
        for (i, n) in axes.iter().zip(unit.size) {
            let a = self.axis(*i)?;
            let rest = divide(&a.extent, n).ok_or_else(|| format!("{n} does not divide its extent"))?;
            rests.push((*i, n, rest));
        }
        let mut parts = [0; 3];
        let mut tail = vec![];
        for (d, (i, n, rest)) in rests.iter().enumerate() {
            let (a, extent) = (self.axes[*i].clone(), UOp::index(*n as i64));
            let part = self.placeholder(&extent);
            let remainder = self.placeholder(rest);
            let whole = rest.as_int() == Some(1);
            let value = if whole { part.clone() } else { remainder.fold_mul(&extent) + &part };
            self.replace_value(&a, &value);
            self.axes[*i] = Axis { range: remainder, extent: rest.clone(), ..a.clone() };
            let new = Axis { range: part, extent, kind: AxisKind::Matrix, origin: a.origin };
            parts[d] = new.id();
            tail.push(new);
        }
        let mut at = 0;
        self.axes.retain(|_| {
            at += 1;
            !rests.iter().any(|(i, _, rest)| *i + 1 == at && rest.as_int() == Some(1))
        });
        let mut warp = None;
        if let Runner::Warp(lanes) = unit.runner {
            let extent = UOp::index(lanes as i64);
            let range = self.placeholder(&extent);
            let axis = Axis { range, extent, kind: AxisKind::Warp, origin: WARP };
            warp = Some(axis.id());
            tail.push(axis);
        }
        self.axes.extend(tail);
        Ok(Chosen { unit, reduce: product.reduce.clone(), operands, parts, warp })
    }

    /// What a matrix unit asks of the other axes.
    pub(super) fn check_matrix(&self) -> Result<(), String> {
        let Some(chosen) = &self.matrix else { return Ok(()) };
        let summed = closed(&chosen.reduce);
        let apart = |a: &&Axis| matches!(a.kind, AxisKind::Upcast | AxisKind::GroupReduce);
        if self.axes.iter().filter(apart).any(|a| summed.contains(&a.origin)) {
            return Err("a matrix unit adds to one accumulator at a time".into());
        }
        if self.axes.iter().any(|a| a.kind == AxisKind::Vector) {
            return Err("a matrix unit has vectors of its own".into());
        }
        let moves = |l: &usize, o: &u32| self.operands[*l].index().ranges.contains(o);
        let padded = |o: &&u32| self.parts.get(o).is_some_and(|p| p.padded.is_some());
        if summed.iter().filter(padded).any(|o| !chosen.operands.iter().all(|l| moves(l, o))) {
            return Err("what padding added would count in the sum".into());
        }
        let held: usize = self
            .axes
            .iter()
            .filter(|a| a.kind == AxisKind::Upcast && chosen.reduce.ranges.contains(&a.origin))
            .map(|a| a.size().unwrap_or(usize::MAX))
            .product();
        let room = chosen.unit.accumulators();
        match held <= room {
            true => Ok(()),
            false => Err(format!("{held} accumulators, {} has room for {room}", chosen.unit.name)),
        }
    }

    /// Every way to give the kernel to a matrix unit now, and the padding that would make more of them.
    pub(super) fn matrix_opts(&self) -> Vec<Opt> {
        let Ok(product) = Product::of(&self.ast) else { return vec![] };
        let types = product.loads.each_ref().map(|l| l.dtype);
        let fits = |u: &&MatrixUnit| {
            u.accumulates(product.reduce.dtype) && (u.operands == types || u.operands == [types[1], types[0]])
        };
        let mut all = vec![];
        for unit in self.target.matrix.iter().filter(fits) {
            let (outer, inner): (Vec<usize>, Vec<usize>) =
                (0..self.axes.len()).partition(|i| self.axes[*i].kind != AxisKind::Reduce);
            for (d, axes) in [(0, &outer), (1, &outer), (2, &inner)] {
                all.extend(axes.iter().map(|axis| Opt::Pad { axis: *axis, n: unit.size[d] }));
            }
            for &m in &outer {
                for &n in outer.iter().filter(|n| **n != m) {
                    let opt = |k: &usize| Opt::Matrix { unit: unit.name.into(), axes: [m, n, *k] };
                    all.extend(inner.iter().map(opt));
                }
            }
        }
        all.dedup();
        all
    }
}
