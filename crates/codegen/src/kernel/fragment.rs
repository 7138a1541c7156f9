//! What each lane of a warp holds of a matrix unit's operands.

use super::access::{coefficient, factor, substitute_open};
use frit_abi::MatrixUnit;
use frit_abi::layout::{Digit, Unit};
use frit_abi::matrix::Dim;
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

fn dim(coordinate: usize) -> Option<Dim> {
    [Dim::M, Dim::N, Dim::K].into_iter().find(|d| *d as usize == coordinate)
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

    /// The coordinates of what a register of the first lane has of an operand.
    pub fn held(&self, operand: usize, register: usize) -> [i64; 3] {
        self.unit.layout(operand).map_or([0; 3], |layout| layout.coordinates(register as i64, 0))
    }
    /// The coordinate `d` of what register `register` of this lane holds of an operand.
    fn of_lane(&self, operand: usize, d: Dim, register: usize) -> UOp {
        let Some(layout) = self.unit.layout(operand) else { return UOp::index(0) };
        let fixed = UOp::index(self.held(operand, register)[d as usize]);
        let in_lanes = layout.of(d as usize).filter(|(digit, _)| digit.unit == Unit::Lane);
        in_lanes.fold(fixed, |at, (digit, step)| {
            self.digit_of_lane(digit).fold_mul(&UOp::index(step)).fold_add(&at)
        })
    }
    fn digit_of_lane(&self, digit: &Digit) -> UOp {
        self.lane.floordiv(&UOp::index(digit.weight)).modulo(&UOp::index(digit.radix))
    }

    /// What a lane holds of an operand that is staged, loaded by all lanes of the warp together, where matrices of 8 rows of 16
    /// bytes lie in the stage as they make up the operand.
    fn loaded(&self, operand: usize, load: &UOp) -> Option<UOp> {
        let layout = self.unit.layout(operand)?;
        let stage = load.src.first().filter(|at| at.op == Op::Index && at.src[0].op == Op::Stage)?;
        let word = (4 / load.dtype.size().max(1)) as i64;
        let in_lane = |weight: i64| {
            layout
                .digits()
                .iter()
                .find(|g| g.unit == Unit::Lane && g.weight == weight)
                .and_then(|g| dim(g.of))
        };
        // four lanes have the words of a row, eight such the rows of a matrix, and registers the matrices
        let (along, across, columns) = (in_lane(1)?, in_lane(4)?, 8);
        let is_matrix = layout.begins(along as usize, &[(word, Unit::Register, 1), (4, Unit::Lane, 1)])
            && layout.begins(across as usize, &[(columns, Unit::Lane, 4)])
            && layout.size(Unit::Lane) == 4 * columns;
        let digits = [along, across].into_iter().flat_map(|d| layout.of(d as usize));
        let which: Vec<(&Digit, i64)> =
            digits.filter(|(g, _)| g.unit == Unit::Register && g.radix > 1 && g.weight >= word).collect();
        if word == 0 || !is_matrix || which.len() > 2 || which.iter().any(|(g, _)| g.radix != 2) {
            return None;
        }
        let row = word * 4;
        let last = stage.src.last().filter(|_| stage.src.len() > 2)?;
        let lies = |d: Dim| coefficient(last, id(self.part(d))) == Some(1);
        let transposed = !lies(along);
        if transposed && !(lies(across) && word == 2) {
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
        // matrices are loaded in the order of the registers that they go to
        for (digit, step) in &which {
            let first = columns * digit.weight / word;
            add(dim(digit.of)?, bits(first, 2).fold_mul(&UOp::index(*step)));
        }
        let begin = substitute_open(stage, &at);
        let is_aligned = begin.src.last().is_some_and(|x| factor(&simplify(x)) % row == 0);
        let arg = Arg::Fragment { matrices: 1 << which.len(), transposed };
        is_aligned.then(|| UOp::new(Op::LoadMatrix, load.dtype, [begin], arg))
    }
}
