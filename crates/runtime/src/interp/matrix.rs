//! Operations of matrix units, element by element: which elements meet is exactly what the unit's homes say.
//!
//! Integers are exact. Floats round as AMX is documented to: one chain of fused multiply-adds over the even k and one over
//! the odd ones, in order, then their sum is added to the accumulator, each step to nearest even, and numbers below the
//! normal range are zeros before and after it. A unit that packs nothing has one chain. What a real unit does may differ
//! from that by the rounding of k + 1 additions in the accumulator's type.

use super::alu;
use frit_abi::bytecode::Kind;
use frit_abi::layout::Layout;
use frit_abi::matrix::{Home, Rows, Runner};
use frit_abi::{DType, MatrixUnit, Scalar};

/// An operation and the slots of its operands.
pub struct Matrix {
    unit: MatrixUnit,
    slots: [u32; 3],
    dst: u32,
    /// The type of the accumulator.
    dtype: DType,
}

impl Matrix {
    /// An operation on registers of these kinds.
    pub fn new(
        unit: MatrixUnit,
        kinds: [Kind; 3],
        to: Kind,
        slots: [u32; 3],
        dst: u32,
    ) -> Result<Matrix, String> {
        for (o, kind) in kinds.iter().enumerate() {
            let pack = pack_of(&unit, o);
            let dtype = if pack > 1 { DType::U32 } else { unit.dtype(o) };
            let fits = if o == 2 { unit.accumulates(kind.dtype) } else { kind.dtype == dtype };
            if !fits || kind.lanes as usize != unit.held(o) / pack {
                return Err(format!("operand {o} is {kind}, which is not what {} takes", unit.name));
            }
        }
        if to != kinds[2] {
            return Err("the result is not what is added to".into());
        }
        Ok(Matrix { unit, slots, dst, dtype: to.dtype })
    }
    /// Lanes that come together for it.
    pub fn lanes(&self) -> usize {
        match self.unit.runner {
            Runner::Core => 1,
            Runner::Warp(n) => n as usize,
        }
    }

    /// Do it: `lanes` are the registers of those that came together.
    pub fn run(&self, lanes: &mut [&mut [u64]]) {
        let [m, n, k] = self.unit.size;
        let mut all = [vec![0u64; m * k], vec![0u64; k * n], vec![0u64; m * n]];
        for (o, to) in all.iter_mut().enumerate() {
            self.each(o, lanes.len(), |lane, slot, shift, at| {
                let raw = lanes[lane][self.slots[o] as usize + slot];
                // a part of a word is taken out of it
                to[at] = if pack_of(&self.unit, o) == 1 {
                    raw
                } else {
                    let d = self.unit.dtype(o);
                    alu::extend(raw >> shift & (u64::MAX >> (64 - d.bits())), d)
                };
            });
        }
        let [a, b, mut c] = all;
        self.multiply(&a, &b, &mut c);
        self.each(2, lanes.len(), |lane, slot, _, at| lanes[lane][self.dst as usize + slot] = c[at]);
    }

    /// Every element of an operand: the lane and slot that hold it, the first of its bits there, and its place in rows.
    fn each(&self, o: usize, lanes: usize, mut f: impl FnMut(usize, usize, usize, usize)) {
        let unit = &self.unit;
        let [row, column] = MatrixUnit::coordinates(o);
        let columns = unit.extent(column);
        match unit.homes[o] {
            Home::Lanes(digits) => {
                let layout = Layout::new(digits);
                for lane in 0..lanes {
                    for r in 0..unit.held(o) {
                        let at: [i64; 3] = layout.coordinates(r as i64, lane as i64);
                        f(lane, r, 0, at[row as usize] as usize * columns + at[column as usize] as usize);
                    }
                }
            }
            Home::Tile(Rows { row: down, column: along, pack })
            | Home::Memory(Rows { row: down, column: along, pack }) => {
                let bits = unit.dtype(o).bits() as usize;
                for i in 0..unit.extent(down) {
                    for j in 0..unit.extent(along) {
                        let mut at = [0; 3];
                        (at[down as usize], at[along as usize]) = (i, j);
                        let slot = i / pack * unit.extent(along) + j;
                        f(0, slot, i % pack * bits, at[row as usize] * columns + at[column as usize]);
                    }
                }
            }
        }
    }

    fn multiply(&self, a: &[u64], b: &[u64], c: &mut [u64]) {
        let [m, n, k] = self.unit.size;
        let [da, db] = self.unit.operands;
        for i in 0..m {
            for j in 0..n {
                let pair = |p: usize| (alu::scalar(a[i * k + p], da), alu::scalar(b[p * n + j], db));
                let to = &mut c[i * n + j];
                let sum = alu::scalar(*to, self.dtype);
                let new = if self.dtype.is_int() {
                    let products = (0..k).map(|p| pair(p).0.as_i128() * pair(p).1.as_i128());
                    Scalar::int(sum.as_i128() + products.sum::<i128>(), self.dtype)
                } else {
                    Scalar::float(self.float_sum(sum.as_f64() as f32, k, pair) as f64, self.dtype)
                };
                *to = alu::raw(new, self.dtype);
            }
        }
    }
    fn float_sum(&self, c: f32, k: usize, pair: impl Fn(usize) -> (Scalar, Scalar)) -> f32 {
        let flushes = !self.unit.keeps_subnormals;
        let flush = |x: f32| if flushes && x.is_subnormal() { 0f32.copysign(x) } else { x };
        let chains = pack_of(&self.unit, 1).min(2);
        let mut sums = [0f32; 2];
        for p in 0..k {
            let (x, y) = pair(p);
            let [x, y] = [x, y].map(|v| flush(self.unit.rounded(v.as_f64() as f32)));
            let sum = &mut sums[p % chains];
            *sum = flush(x.mul_add(y, *sum));
        }
        flush(flush(c) + flush(sums[0] + sums[1]))
    }
}

/// Elements in a register lane of an operand.
fn pack_of(unit: &MatrixUnit, operand: usize) -> usize {
    match unit.homes[operand] {
        Home::Tile(rows) | Home::Memory(rows) => rows.pack,
        Home::Lanes(_) => 1,
    }
}
