//! What each lane of a warp holds of a matrix unit's operands.

use super::access::{coefficient, factor, substitute_open};
use frit_abi::MatrixUnit;
use frit_abi::matrix::{Bit, Dim, Home};
use frit_uop::symbolic::simplify;
use frit_uop::{Arg, Op, UOp};
use rustc_hash::FxHashMap;

type Map = FxHashMap<u32, UOp>;

/// A unit whose operands lie in lanes, the ranges of its parts of m, n and k, and the lane.
pub struct Fragments {
    pub unit: MatrixUnit,
    pub parts: [UOp; 3],
    pub lane: UOp,
}

fn id(range: &UOp) -> u32 {
    range.range_arg().map_or(0, |a| a.id)
}

impl Fragments {
    fn part(&self, d: Dim) -> &UOp {
        &self.parts[d as usize]
    }
    /// The ranges of an operand's parts, and what they are of a register of this lane.
    pub fn places(&self, operand: usize, register: usize) -> Map {
        let at = |d: Dim| (id(self.part(d)), self.of_lane(operand, d, register));
        MatrixUnit::coordinates(operand).into_iter().map(at).collect()
    }
    /// Operand 0 or 1 of which this is an element: loaded by all lanes together where that can be, else by each its own.
    pub fn operand(&self, operand: usize, load: &UOp) -> UOp {
        let each = |r: usize| substitute_open(load, &self.places(operand, r));
        self.loaded(operand, load).unwrap_or_else(|| UOp::stack((0..self.unit.held(operand)).map(each)))
    }

    /// The coordinate `d` of what register `register` of this lane holds of an operand.
    fn of_lane(&self, operand: usize, d: Dim, register: usize) -> UOp {
        let Home::Lanes { registers, lanes } = self.unit.homes[operand] else { return UOp::index(0) };
        let fixed = registers.iter().enumerate().filter(|(_, b)| b.0 == d);
        let fixed: i64 = fixed.map(|(i, b)| ((register >> i & 1) as i64) << b.1).sum();
        let mut at = UOp::index(fixed);
        let mut i = 0;
        while i < lanes.len() {
            // neighbouring bits of the lane that are neighbours in the coordinate are taken together
            let follows = |n: usize| {
                lanes.get(i + n).is_some_and(|b| b.0 == d && b.1 as usize == lanes[i].1 as usize + n)
            };
            let run = (1..).find(|n| !follows(*n)).unwrap_or(1);
            if lanes[i].0 == d {
                let bits = self.lane.floordiv(&UOp::index(1 << i)).modulo(&UOp::index(1 << run));
                at = bits.fold_mul(&UOp::index(1 << lanes[i].1)).fold_add(&at);
            }
            i += run;
        }
        at
    }

    /// What a lane holds of an operand that is staged, loaded by all lanes of the warp together, where matrices of 8 rows of 16
    /// bytes lie in the stage as they make up the operand.
    fn loaded(&self, operand: usize, load: &UOp) -> Option<UOp> {
        let Home::Lanes { registers, lanes } = self.unit.homes[operand] else { return None };
        let stage = load.src.first().filter(|at| at.op == Op::Index && at.src[0].op == Op::Stage)?;
        let word = (4 / load.dtype.size().max(1)).checked_ilog2()? as usize;
        let (Bit(along, _), Bit(across, _)) = (*lanes.first()?, *lanes.get(2)?);
        let is_run = |bits: &[Bit], d: Dim, from: usize| {
            bits.iter().enumerate().all(|(i, b)| *b == Bit(d, (from + i) as u8))
        };
        let (within, which) = registers.split_at_checked(word)?;
        let (row, columns) = (1i64 << (word + 2), 8);
        if !is_run(within, along, 0)
            || !is_run(&lanes[..2], along, word)
            || !is_run(&lanes[2..], across, 0)
            || lanes.len() != 5
            || which.len() > 2
        {
            return None;
        }
        let last = stage.src.last().filter(|_| stage.src.len() > 2)?;
        let lies = |d: Dim| coefficient(last, id(self.part(d))) == Some(1);
        let transposed = !lies(along);
        if transposed && !(lies(across) && word == 1) {
            return None;
        }
        // where this lane's row begins: which one of a matrix, and which matrix
        let bits = |from: i64, n: i64| self.lane.floordiv(&UOp::index(from)).modulo(&UOp::index(n));
        let mut at: Map = [along, across].map(|d| (id(self.part(d)), UOp::index(0))).into_iter().collect();
        let mut add = |d: Dim, x: UOp| {
            let old = at[&id(self.part(d))].clone();
            at.insert(id(self.part(d)), old.fold_add(&x));
        };
        add(if transposed { along } else { across }, bits(1, columns));
        for (i, Bit(d, to)) in which.iter().enumerate() {
            add(*d, bits(columns << i, 2).fold_mul(&UOp::index(1 << to)));
        }
        let begin = substitute_open(stage, &at);
        let is_aligned = begin.src.last().is_some_and(|x| factor(&simplify(x)) % row == 0);
        let arg = Arg::Fragment { matrices: 1 << which.len(), transposed };
        is_aligned.then(|| UOp::new(Op::LoadMatrix, load.dtype, [begin], arg))
    }
}
