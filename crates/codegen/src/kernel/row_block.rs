//! A block of rows of a chain of products on a grid: each warp has as many as its matrix unit, and all walk along them in rounds
//! of keys, which they copy to local memory together. What a warp computes of scores stays in its registers: what a lane holds
//! of the first products' results is what the last one takes as an operand.

use super::access::{coefficient, substitute_open};
use super::chain::{Chain, extent, id};
use super::fragment::Fragments;
use super::mask;
use frit_abi::MatrixUnit;
use frit_abi::matrix::{Dim, Home, Runner};
use frit_uop::symbolic::simplify;
use frit_uop::{Alu, Arg, AxisKind, DType, Op, Scalar, Space, UOp};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Warps of a block and keys of a round that are tried, the best first.
pub const WARPS: [i64; 4] = [8, 4, 2, 1];
pub const KEYS: [i64; 3] = [64, 32, 16];
/// Registers of a lane for scores, results and what is loaded.
pub const REGISTERS: i64 = 216;
/// Rounds whose keys are in local memory, one computed with and others on their way.
const BUFFERS: u8 = 2;
/// The variable that stands for the number of a block where bounds of loops are looked for.
const BLOCK: &str = "#block";

/// Warps and keys that a seed chooses of those that fit.
pub fn random_blocks(seed: u64, fits: impl Fn(&[i64; 2]) -> bool) -> Option<[usize; 2]> {
    let all = WARPS.iter().flat_map(|w| KEYS.map(|k| [*w, k]));
    let fit: Vec<[i64; 2]> = all.filter(fits).collect();
    fit.get(seed as usize % fit.len().max(1)).map(|b| b.map(|n| n as usize))
}

/// Keys of a round in local memory.
pub struct Copy {
    stage: UOp,
    /// Whether keys lie side by side.
    is_turned: bool,
}

/// The loops of a block.
pub struct RowBlock<'a> {
    chain: &'a Chain,
    row: UOp,
    unit: MatrixUnit,
    keys: i64,
    block: UOp,
    warp: UOp,
    fragments: Fragments,
    /// The first row of a warp.
    first: UOp,
    /// The loop over rounds, or 0.
    pub round: UOp,
    /// The first key of a round.
    begin: UOp,
    buffers: u8,
    /// The last number of a range.
    last: u32,
    copies: Vec<(UOp, UOp)>,
}

impl<'a> RowBlock<'a> {
    /// A block of so many warps, with so many keys in a round; `reduces` are those along rows.
    pub fn new(
        chain: &'a Chain,
        row: &UOp,
        unit: MatrixUnit,
        [warps, keys]: [i64; 2],
        reduces: &[UOp],
    ) -> RowBlock<'a> {
        let order = chain.store().toposort();
        let mut last = order.iter().filter_map(|r| Some(r.range_arg()?.id)).max().unwrap_or(0);
        let mut range = |extent: &UOp, kind: AxisKind| {
            last += 1;
            UOp::range(extent, last, kind)
        };
        let rows = unit.size[0] as i64;
        let block = range(&UOp::index(extent(row) / (rows * warps)), AxisKind::Global);
        let (warp, lane) = (
            range(&UOp::index(warps), AxisKind::Local),
            range(&UOp::index(lanes(&unit) as i64), AxisKind::Warp),
        );
        let parts = unit.size.map(|s| range(&UOp::index(s as i64), AxisKind::Loop));
        let seen = Seen::of(chain, row, reduces, rows * warps, keys);
        // those that have most to do first
        let place = if seen.is_late { UOp::index(extent(&block) - 1) - &block } else { block.clone() };
        let first = place.fold_mul(&UOp::index(warps)).fold_add(&warp).fold_mul(&UOp::index(rows));
        let named = [(UOp::variable(BLOCK, 0, block.bounds.1 as i64), place)].into_iter().collect();
        let [skipped, count] = [seen.skipped, seen.count].map(|n| simplify(&n.substitute(&named)));
        let round = match count.as_int() {
            Some(1) => UOp::index(0),
            _ => range(&count, AxisKind::Reduce),
        };
        let begin = round.fold_add(&skipped).fold_mul(&UOp::index(keys));
        let is_loop = round.op == Op::Range && round.extent().bounds.0 >= BUFFERS.into();
        let fragments = Fragments { unit, parts, lane };
        RowBlock {
            chain,
            row: row.clone(),
            unit,
            keys,
            block,
            warp,
            fragments,
            first,
            round,
            begin,
            buffers: if is_loop { BUFFERS } else { 1 },
            last,
            copies: vec![],
        }
    }

    /// What lanes hold of their rows of a factor, which they load.
    pub fn of_rows(&self, load: &UOp, across: &UOp) -> Vec<UOp> {
        let k = self.unit.size[2] as i64;
        let [of_m, _, of_k] = &self.fragments.parts;
        let part = |e: i64| {
            let at = [(id(&self.row), self.first.fold_add(of_m)), (id(across), plus(e, k, of_k))];
            self.fragments.operand(0, &substitute_open(load, &at.into_iter().collect()))
        };
        (0..extent(across) / k).map(part).collect()
    }
    /// The keys of a round of a factor, copied as they lie in memory; once for all that read the same.
    pub fn copy(&mut self, load: &UOp, across: &UOp) -> Copy {
        let along = &self.chain.along;
        let is_turned = coefficient(load.index(), id(along)) == Some(1);
        let named =
            [(id(across), UOp::range(across.extent(), u32::MAX, AxisKind::Loop))].into_iter().collect();
        let key = substitute_open(load, &named);
        if let Some((_, stage)) = self.copies.iter().find(|(k, _)| *k == key) {
            return Copy { stage: stage.clone(), is_turned };
        }
        let (u, w) = (
            UOp::range(&UOp::index(self.keys), self.last + 1, AxisKind::Loop),
            UOp::range(across.extent(), self.last + 2, AxisKind::Loop),
        );
        self.last += 2;
        let at = [(id(along), self.begin.fold_add(&u)), (id(across), w.clone())].into_iter().collect();
        let arg = Arg::Stage { space: Space::Local, id: id(&u), buffers: self.buffers };
        let dims = if is_turned { [w, u] } else { [u, w] };
        let src = std::iter::once(substitute_open(load, &at)).chain(dims).collect::<SmallVec<[UOp; 4]>>();
        let stage = UOp::new(Op::Stage, load.dtype, src, arg);
        self.copies.push((key, stage.clone()));
        Copy { stage, is_turned }
    }
    fn element(&self, copy: &Copy, mut at: [UOp; 2]) -> UOp {
        if copy.is_turned {
            at.reverse();
        }
        let src = std::iter::once(copy.stage.clone()).chain(at).collect::<SmallVec<[UOp; 4]>>();
        UOp::new(Op::Index, copy.stage.dtype, src, Arg::None).load()
    }
    /// The products of rows and keys of a round, by tiles of keys.
    pub fn scores(&self, rows: &[UOp], keys: &Copy) -> Vec<UOp> {
        let [_, n, k] = self.unit.size.map(|s| s as i64);
        let [_, of_n, of_k] = &self.fragments.parts;
        let tile = |j: i64| {
            let b = |e: i64| {
                let at = [plus(j, n, of_n), plus(e, k, of_k)];
                self.fragments.operand(1, &self.element(keys, at))
            };
            let parts = rows.iter().cloned().zip((0..).map(b));
            parts.fold(self.zeros(), |sum, (a, b)| self.matrix([a, b, sum]))
        };
        (0..self.keys / n).map(tile).collect()
    }
    /// What a value is in each register that lanes have of scores, by tiles of keys; `sums` are products with their scores.
    pub fn values(&self, value: &UOp, sums: &[(UOp, Vec<UOp>)]) -> Vec<Vec<UOp>> {
        let n = self.unit.size[1] as i64;
        let [of_m, of_n, _] = &self.fragments.parts;
        let of = |j: i64, r: usize| {
            let mine = sums.iter().map(|(sum, scores)| (sum.clone(), scores[j as usize].lane(r as u32)));
            let key = self.begin.fold_add(&plus(j, n, of_n));
            let at = [(id(&self.row), self.first.fold_add(of_m)), (id(&self.chain.along), key)];
            let value = substitute_open(&value.substitute(&mine.collect()), &at.into_iter().collect());
            substitute_open(&value, &self.fragments.places(2, r))
        };
        (0..self.keys / n).map(|j| (0..self.unit.held(2)).map(|r| of(j, r)).collect()).collect()
    }
    /// The products of weights and a tile of columns, whose sum is the result of a round.
    pub fn products(&self, weights: &[Vec<UOp>], keys: &Copy, column: i64) -> Vec<UOp> {
        let [_, n, k] = self.unit.size.map(|s| s as i64);
        let [_, of_n, of_k] = &self.fragments.parts;
        let part = |j: i64| {
            let b = self.element(keys, [plus(j, k, of_k), plus(column, n, of_n)]);
            self.matrix([self.operand_of(weights, j), self.fragments.operand(1, &b), self.zeros()])
        };
        (0..self.keys / k).map(part).collect()
    }
    /// The sum of products of a round.
    pub fn summed(&self, parts: Vec<UOp>) -> UOp {
        let onto = |sum: UOp, p: UOp| p.with_src(p.src[..2].iter().cloned().chain([sum]).collect());
        parts.into_iter().reduce(onto).unwrap_or_else(|| self.zeros())
    }
    /// What all rounds come to, of the sum of products of each or of one value.
    pub fn over_rounds(&self, parts: Vec<UOp>, alu: Alu) -> UOp {
        let src = parts.iter().chain([&self.round]).cloned().collect::<SmallVec<[UOp; 4]>>();
        match (&parts[..], self.round.op) {
            (_, Op::Range) => UOp::new(Op::Reduce, DType::F32, src, Arg::Alu(alu)),
            ([one], _) => one.clone(),
            _ => self.summed(parts),
        }
    }
    /// A store, of what register `r` has of results in a tile of columns.
    pub fn store(&self, store: &UOp, column: Option<(&UOp, i64)>, r: usize) -> UOp {
        let [of_m, of_n, _] = &self.fragments.parts;
        let mut at: FxHashMap<u32, UOp> = [(id(&self.row), self.first.fold_add(of_m))].into_iter().collect();
        at.extend(column.map(|(c, tile)| (id(c), plus(tile, self.unit.size[1] as i64, of_n))));
        substitute_open(&substitute_open(store, &at), &self.fragments.places(2, r))
    }
    /// Whether this lane is the first of those that share a row.
    pub fn is_first_of_row(&self) -> UOp {
        let across = self.across().into_iter();
        let across = across.map(|bit| self.fragments.lane.floordiv(&UOp::index(bit)).modulo(&UOp::index(2)));
        across.reduce(|a, b| a.fold_add(&b)).map_or(UOp::boolean(true), |n| n.eq_(&UOp::index(0)))
    }
    /// The kernel of these stores.
    pub fn end(&self, stores: Vec<UOp>) -> UOp {
        let own = [self.block.clone(), self.warp.clone(), self.fragments.lane.clone()];
        UOp::sink(stores).end(self.chain.batch.iter().cloned().chain(own))
    }

    /// Registers of results that are of one row, by row.
    pub fn rows(&self) -> Vec<Vec<usize>> {
        let mut rows: Vec<(i64, Vec<usize>)> = vec![];
        for r in 0..self.unit.held(2) {
            let row = self.fragments.held(2, r)[Dim::M as usize];
            match rows.iter_mut().find(|(x, _)| *x == row) {
                Some((_, of_row)) => of_row.push(r),
                None => rows.push((row, vec![r])),
            }
        }
        rows.into_iter().map(|(_, of_row)| of_row).collect()
    }
    /// What the lanes of a row come to, in each of them.
    pub fn exchanged(&self, x: UOp, alu: Alu) -> UOp {
        self.across().into_iter().fold(x, |x, distance| {
            let other = UOp::new(Op::LaneShuffle, x.dtype, [x.clone()], Arg::Lanes(distance as u32));
            x.bin(alu, &other)
        })
    }
    /// How far apart lanes are that have columns of one row.
    fn across(&self) -> Vec<i64> {
        self.unit.layout(2).map_or_else(Vec::new, |results| results.distances(Dim::N as usize))
    }

    fn zeros(&self) -> UOp {
        let zero = UOp::constant(Scalar::int(0, DType::F32), DType::F32);
        UOp::stack((0..self.unit.held(2)).map(|_| zero.clone()))
    }
    fn matrix(&self, src: [UOp; 3]) -> UOp {
        UOp::new(Op::Matrix, DType::F32, src, Arg::Name(self.unit.name.into()))
    }
    /// Tile `j` of operand 0 that results are.
    fn operand_of(&self, results: &[Vec<UOp>], j: i64) -> UOp {
        let tiles = self.unit.size[2] / self.unit.size[1];
        let of = |(t, r): (usize, usize)| results[j as usize * tiles + t][r].cast(self.unit.operands[0]);
        UOp::stack(as_operand(&self.unit).unwrap_or_default().into_iter().map(of))
    }
}

fn plus(tile: i64, size: i64, part: &UOp) -> UOp {
    part.fold_add(&UOp::index(tile * size))
}

/// The rounds that a mask does not hide from all rows of a block, as functions of its number.
struct Seen {
    skipped: UOp,
    count: UOp,
    /// Whether later blocks have more of them.
    is_late: bool,
}

impl Seen {
    fn of(chain: &Chain, row: &UOp, reduces: &[UOp], rows: i64, keys: i64) -> Seen {
        let all = chain.along.extent().floordiv(&UOp::index(keys));
        let own = UOp::range(&UOp::index(rows), u32::MAX, AxisKind::Loop);
        // bounds are of constants and variables
        let block = UOp::variable(BLOCK, 0, extent(row) / rows - 1);
        let named = [(id(row), block.fold_mul(own.extent()).fold_add(&own))].into_iter().collect();
        let reduces: Vec<UOp> = reduces.iter().map(|n| substitute_open(n, &named)).collect();
        let (zero, per_round) = (UOp::index(0), UOp::index(keys));
        let is_computed = |e: &UOp| !e.any(|n| n.op == Op::Load);
        let end = mask::end_of(&reduces, &chain.along, Some(&own)).filter(is_computed);
        let end = end.filter(|e| e.bounds.0 > 0);
        let begin = mask::begin_of(&reduces, &chain.along, Some(&own)).filter(is_computed);
        let end = end.map_or(all.clone(), |e| (&e + (keys - 1)).floordiv(&per_round).bin(Alu::Min, &all));
        let skipped = begin.map_or(zero.clone(), |b| b.bin(Alu::Max, &zero).floordiv(&per_round));
        let (end, skipped) = (simplify(&end), simplify(&skipped));
        let count = simplify(&(&end - &skipped));
        let is_late = end.any(|n| matches!(&n.arg, Arg::Var { name, .. } if **name == *BLOCK));
        match count.bounds.0 > 0 {
            true => Seen { is_late, skipped, count },
            false => Seen { is_late: false, skipped: zero, count: simplify(&all) },
        }
    }
}

/// What a small float that was widened is.
pub fn narrowed(n: &UOp) -> Option<&UOp> {
    (n.op == Op::Cast && n.dtype == DType::F32 && n.input().dtype.is_small_float()).then(|| n.input())
}

/// Whether lanes hold all that a unit takes and gives, and its results are operands of it as they are.
pub fn is_chained(unit: &MatrixUnit) -> bool {
    let in_lanes = unit.homes.iter().all(|h| matches!(h, Home::Lanes(_)));
    in_lanes && unit.runner != Runner::Core && unit.accumulator == DType::F32 && as_operand(unit).is_some()
}

/// Lanes that run a unit together.
pub fn lanes(unit: &MatrixUnit) -> usize {
    if let Runner::Warp(n) = unit.runner { n as usize } else { 1 }
}

/// For each register of operand 0 the tile and the register of results that it is, along what is columns of the one and summed
/// over by the other.
fn as_operand(unit: &MatrixUnit) -> Option<Vec<(usize, usize)>> {
    let [n, k] = [Dim::N, Dim::K].map(|d| d as usize);
    let tiles = unit.size[2] / unit.size[1];
    let results = unit.layout(2)?.repeated(n, tiles as i64).renamed(n, k);
    let registers = unit.layout(0)?.registers_in(&results)?;
    Some(registers.into_iter().map(|r| (r as usize / unit.held(2), r as usize % unit.held(2))).collect())
}
