//! Attention on a grid: what is known of a row of scores is carried from one block of keys to the next.
//!
//! A chain of products (see [`Chain`]) whose weights are a softmax becomes one kernel in which a warp has sixteen rows and walks
//! along them in blocks of keys. Scores and weights never leave its registers: what a lane holds of the first product's results
//! is what the second one takes as an operand.
//!
//! ```text
//! for blocks of j { S = q k^T;  m' = max of S;  P = exp(S - m');  l' = sum of P;  O' = P v;  (m, l, O) = rescaled (m, l, O) + (m', l', O') }
//! out = O / l
//! ```
//! Sums are rescaled where the greatest score grows, and weights are rounded to the type of v before they are divided by their
//! sum: it rounds otherwise than loops one after the other, so it is an opt.

use crate::error::Error;
use crate::kernel::access::{coefficient, substitute_open};
use crate::kernel::chain::{Chain, extent, factors, id, product};
use crate::kernel::fragment::Fragments;
use crate::kernel::mask;
use crate::pass::{BLOCK, Ctx, Opts};
use crate::plan::opt::Opt;
use frit_abi::matrix::{Bit, Dim, Home, MOST_HELD, Runner};
use frit_abi::{MatrixUnit, Target};
use frit_uop::fold::combined;
use frit_uop::symbolic::simplify;
use frit_uop::{Alu, Arg, AxisKind, DType, Merge, Op, Scalar, Space, UOp};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Warps of a block and keys of a round that are tried, the best first.
const WARPS: [i64; 4] = [8, 4, 2, 1];
const KEYS: [i64; 3] = [64, 32, 16];
/// Registers of a lane for scores, results and what is loaded.
const REGISTERS: i64 = 216;
/// Blocks of keys that are in local memory, one computed with and others on their way.
const BUFFERS: u8 = 2;

/// The pass.
pub fn online_softmax(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    let chosen = match ctx.opts {
        Opts::Heuristic => Attention::of(sink, ctx.target).and_then(|a| Some((a.blocks()?, a))),
        Opts::List([opt @ Opt::OnlineSoftmax { warps, keys }, rest @ ..]) => {
            let block = [*warps as i64, *keys as i64];
            let found = Attention::of(sink, ctx.target).filter(|a| rest.is_empty() && a.fits(block));
            let why = "it is for attention on a matrix unit in whole blocks, and the only one";
            let error = || Error::Opt { opt: opt.to_string(), why: why.into() };
            Some((block, found.ok_or_else(error)?))
        }
        Opts::List(_) => None,
    };
    let Some(([warps, keys], attention)) = chosen else { return Ok(sink.clone()) };
    // every decision is made
    ctx.opts = Opts::List(&[]);
    ctx.applied.push(Opt::OnlineSoftmax { warps: warps as usize, keys: keys as usize });
    let end = attention.kernel(warps, keys);
    Ok(simplify(&UOp::new(Op::Sink, DType::Void, [end], sink.arg.clone())))
}

/// The blocks that a seed chooses, if it is attention at all.
pub fn random_blocks(sink: &UOp, target: &Target, seed: u64) -> Option<Opt> {
    let attention = Attention::of(sink, target)?;
    let all = WARPS.iter().flat_map(|w| KEYS.map(|k| [*w, k]));
    let fit: Vec<[i64; 2]> = all.filter(|b| attention.fits(*b)).collect();
    let [warps, keys] = *fit.get(seed as usize % fit.len().max(1))?;
    Some(Opt::OnlineSoftmax { warps: warps as usize, keys: keys as usize })
}

/// A chain of two products with the softmax of the first between them.
struct Attention {
    chain: Chain,
    unit: MatrixUnit,
    row: UOp,
    column: UOp,
    /// The range of the first sum, the sum, and its factors.
    inner: UOp,
    scores: UOp,
    q: UOp,
    k: UOp,
    /// What the softmax is of, its maximum, the sum of its exponentials where that is asked for.
    x: UOp,
    greatest: UOp,
    sum: Option<UOp>,
    /// Whether an infinite maximum counts as zero.
    is_finite: bool,
    /// The second sum, its other factor, and what its weights are multiplied by.
    result: UOp,
    v: UOp,
    scale: Option<UOp>,
}

impl Attention {
    fn of(sink: &UOp, target: &Target) -> Option<Attention> {
        target.grid.as_ref()?;
        let chain = Chain::of(sink)?;
        let (row, [column]) = (chain.row.clone()?, &chain.columns[..]) else { return None };
        let order = chain.store.toposort();
        let reduces = || order.iter().filter(|n| n.op == Op::Reduce);
        let one = |f: &dyn Fn(&UOp) -> bool| {
            let mut all = reduces().filter(|n| f(n));
            let first = all.next().cloned();
            first.filter(|_| all.next().is_none())
        };
        let is = |n: &UOp, alu: Alu| n.arg == Arg::Alu(alu) && !chain.is_along(n);
        let greatest = one(&|n| is(n, Alu::Max))?;
        let result = one(&|n| is(n, Alu::Add) && chain.is_wide(n))?;
        let narrow = |n: &UOp| is(n, Alu::Add) && !chain.is_wide(n);
        let sum = one(&narrow);
        let scores = one(&|n| chain.is_along(n))?;
        if reduces().count() != 3 + sum.iter().count() {
            return None;
        }
        // the softmax
        let x = greatest.body().clone();
        let number = |v: f64| UOp::float(v, DType::F32);
        let finite = greatest.eq_(&number(f64::NEG_INFINITY)).select(&number(0.0), &greatest);
        let weight = |by: &UOp| x.bin(Alu::Sub, by).un(Alu::Exp);
        let (plain, guarded) = (weight(&greatest), weight(&finite));
        let has = |w: &UOp| result.body().any(|n| n == w);
        let is_finite = has(&guarded);
        let weight = if is_finite { &guarded } else { &plain };
        if greatest.dtype != DType::F32 || !has(weight) || sum.as_ref().is_some_and(|s| s.body() != weight) {
            return None;
        }
        // the second product
        let [a, b] = (result.body().op == Op::Mul).then(|| result.body().operands())?;
        let (w, v) = if chain.is_wide(a) { (b, a) } else { (a, b) };
        let (w, v) = (narrowed(w)?, narrowed(v)?);
        let (own, others): (Vec<UOp>, Vec<UOp>) = factors(w.input()).into_iter().partition(|f| f == weight);
        if own.len() != 1 || w.op != Op::Cast || others.iter().any(|f| chain.is_along(f)) {
            return None;
        }
        // the first
        let [a, b] = (scores.body().op == Op::Mul).then(|| scores.body().operands())?;
        let (q, k) = if chain.is_along(a) { (b, a) } else { (a, b) };
        let (q, k) = (narrowed(q)?, narrowed(k)?);
        let [inner] = scores.closed_ranges() else { return None };
        let is_load = |n: &UOp| n.op == Op::Load && n.arg == Arg::None && n.buffer_and_index().is_some();
        let alike = [q, k, v].iter().all(|n| is_load(n) && n.dtype == w.dtype);
        if !alike || chain.is_along(q) || k.ranges.contains(&id(&row)) || v.ranges.contains(&id(&row)) {
            return None;
        }
        let unit = *target.matrix.iter().find(|u| u.operands == [w.dtype; 2] && is_in_lanes(u))?;
        let (inner, q, k, v) = (inner.clone(), q.clone(), k.clone(), v.clone());
        let (column, scale) = (column.clone(), product(others));
        Some(Attention {
            chain,
            unit,
            row,
            column,
            inner,
            scores,
            q,
            k,
            x,
            greatest,
            sum,
            is_finite,
            result,
            v,
            scale,
        })
    }

    /// The largest blocks that fit.
    fn blocks(&self) -> Option<[i64; 2]> {
        KEYS.iter().flat_map(|k| WARPS.map(|w| [w, *k])).find(|b| self.fits(*b))
    }
    /// Whether rows and keys come in whole blocks, and registers hold them.
    fn fits(&self, [warps, keys]: [i64; 2]) -> bool {
        let [m, n, k] = self.unit.size.map(|s| s as i64);
        let divides = |r: &UOp, by: i64| by > 0 && extent(r) % by == 0;
        let (e, d) = (extent(&self.inner), extent(&self.column));
        let lanes = match self.unit.runner {
            Runner::Warp(lanes) => i64::from(lanes),
            Runner::Core => 1,
        };
        let held = (m * keys * 3 / 2 + m * d * 2 + m * e / 2) / lanes;
        divides(&self.row, m * warps)
            && divides(&self.chain.along, keys)
            && keys % k == 0
            && divides(&self.inner, k)
            && divides(&self.column, n)
            && e.max(d) <= MOST_HELD as i64
            && held <= REGISTERS
    }

    fn kernel(&self, warps: i64, keys: i64) -> UOp {
        let [m, n, k] = self.unit.size.map(|s| s as i64);
        let (along, row) = (&self.chain.along, &self.row);
        let mut next =
            self.chain.store.toposort().iter().filter_map(|r| Some(r.range_arg()?.id)).max().unwrap_or(0);
        let mut range = |extent: i64, kind: AxisKind| {
            next += 1;
            UOp::range(&UOp::index(extent), next, kind)
        };
        let block = range(extent(row) / (m * warps), AxisKind::Global);
        let (warp, lane) = (range(warps, AxisKind::Local), range(lanes(&self.unit) as i64, AxisKind::Warp));
        // the last rows first: a mask of later keys leaves them most to do
        let place = UOp::index(extent(&block) - 1) - &block;
        let first = place.fold_mul(&UOp::index(warps)).fold_add(&warp).fold_mul(&UOp::index(m));
        let round = self.rounds(&place, warps, keys, &mut range);
        let begin = round.fold_mul(&UOp::index(keys));
        let is_loop = round.op == Op::Range && round.extent().bounds.0 >= BUFFERS.into();
        let buffers = if is_loop { BUFFERS } else { 1 };
        let parts = self.unit.size.map(|s| range(s as i64, AxisKind::Loop));
        // as it lies in memory
        let is_turned = |load: &UOp| coefficient(load.index(), id(along)) == Some(1);
        let mut copy = |load: &UOp, across: &UOp| {
            let (u, w) = (range(keys, AxisKind::Loop), range(extent(across), AxisKind::Loop));
            let at = [(id(along), begin.fold_add(&u)), (id(across), w.clone())].into_iter().collect();
            let arg = Arg::Stage { space: Space::Local, id: id(&u), buffers };
            let dims = if is_turned(load) { [w, u] } else { [u, w] };
            let src = std::iter::once(substitute_open(load, &at)).chain(dims).collect::<SmallVec<[UOp; 4]>>();
            UOp::new(Op::Stage, load.dtype, src, arg)
        };
        let (k_copy, v_copy) = (copy(&self.k, &self.inner), copy(&self.v, &self.column));
        let fragments = Fragments { unit: self.unit, parts, lane };
        let lanes = Lanes { fragments: &fragments };
        let [of_m, of_n, of_k] = &fragments.parts;
        let element = |stage: &UOp, load: &UOp, mut at: [UOp; 2]| {
            if is_turned(load) {
                at.reverse();
            }
            let src = std::iter::once(stage.clone()).chain(at).collect::<SmallVec<[UOp; 4]>>();
            UOp::new(Op::Index, stage.dtype, src, Arg::None).load()
        };
        let plus = |tile: i64, size: i64, part: &UOp| part.fold_add(&UOp::index(tile * size));
        // scores, by tiles of keys
        let q: Vec<UOp> = (0..extent(&self.inner) / k)
            .map(|e| {
                let at = [(id(row), first.fold_add(of_m)), (id(&self.inner), plus(e, k, of_k))];
                fragments.operand(0, &substitute_open(&self.q, &at.into_iter().collect()))
            })
            .collect();
        let tiles = keys / n;
        let scores: Vec<UOp> = (0..tiles)
            .map(|j| {
                let b = |e: i64| {
                    fragments.operand(1, &element(&k_copy, &self.k, [plus(j, n, of_n), plus(e, k, of_k)]))
                };
                lanes.products(q.iter().cloned().zip((0..).map(b)))
            })
            .collect();
        let x = |j: i64, r: usize| {
            let mine = [(self.scores.clone(), scores[j as usize].lane(r as u32))].into_iter().collect();
            let key = begin.fold_add(&plus(j, n, of_n));
            let at = [(id(row), first.fold_add(of_m)), (id(along), key)].into_iter().collect();
            let x = substitute_open(&self.x.substitute(&mine), &at);
            substitute_open(&x, &fragments.places(2, r))
        };
        let x: Vec<Vec<UOp>> =
            (0..tiles).map(|j| (0..self.unit.held(2)).map(|r| x(j, r)).collect()).collect();
        // what each row of a lane has in this round
        let number = |v: f64| UOp::float(v, DType::F32);
        let rows = lanes.rows();
        let of_row = |h: &Vec<usize>, all: &[Vec<UOp>]| -> Vec<UOp> {
            all.iter().flat_map(|t| h.iter().map(|r| t[*r].clone())).collect()
        };
        let folded = |values: Vec<UOp>, alu: Alu| combined(alu, values).unwrap_or_else(|| number(0.0));
        let most: Vec<UOp> =
            rows.iter().map(|h| lanes.exchanged(folded(of_row(h, &x), Alu::Max), Alu::Max)).collect();
        let row_of = |r: usize| rows.iter().position(|h| h.contains(&r)).unwrap_or(0);
        let weights: Vec<Vec<UOp>> = x
            .iter()
            .map(|tile| {
                let weight = |(r, x): (usize, &UOp)| {
                    let by = &most[row_of(r)];
                    let by = by.eq_(&number(f64::NEG_INFINITY)).select(&number(0.0), by);
                    x.bin(Alu::Sub, &by).un(Alu::Exp)
                };
                tile.iter().enumerate().map(weight).collect()
            })
            .collect();
        // the second product of this round
        let p: Vec<UOp> = (0..keys / k).map(|j| lanes.operand_of(&weights, j)).collect();
        let results: Vec<UOp> = (0..extent(&self.column) / n)
            .map(|d| {
                let b = |j: i64| {
                    fragments.operand(1, &element(&v_copy, &self.v, [plus(j, k, of_k), plus(d, n, of_n)]))
                };
                lanes.products(p.iter().cloned().zip((0..).map(b)))
            })
            .collect();
        // all rounds
        let carried: Vec<Vec<UOp>> = rows
            .iter()
            .zip(&most)
            .map(|(h, most)| {
                let sum = folded(of_row(h, &weights), Alu::Add);
                let of_tile = |t: &UOp| h.iter().map(|r| t.lane(*r as u32)).collect::<Vec<_>>();
                let values: Vec<UOp> =
                    [most.clone(), sum].into_iter().chain(results.iter().flat_map(of_tile)).collect();
                let loops: Vec<UOp> = (round.op == Op::Range).then(|| round.clone()).into_iter().collect();
                UOp::fold(Merge::Rescale, &values, &loops)
            })
            .collect();
        let sums: Vec<UOp> = carried.iter().map(|c| lanes.exchanged(c[1].clone(), Alu::Add)).collect();
        let stores = (0..extent(&self.column) / n).flat_map(|d| (0..self.unit.held(2)).map(move |r| (d, r)));
        let stores: Vec<UOp> = stores
            .map(|(d, r)| {
                let h = row_of(r);
                let of_row = rows[h].iter().position(|x| *x == r).unwrap_or(0);
                let most = &carried[h][0];
                let either = [f64::INFINITY, f64::NEG_INFINITY].map(|v| most.eq_(&number(v)));
                // as the difference of infinities is
                let known = |v: &UOp| match self.is_finite {
                    true => v.clone(),
                    false => either[0].or_(&either[1]).select(&number(f64::NAN), v),
                };
                let result = known(&carried[h][2 + d as usize * rows[h].len() + of_row]);
                let result = self.scale.as_ref().map_or(result.clone(), |s| &result * s);
                let store =
                    self.chain.store.substitute(&[(self.result.clone(), result)].into_iter().collect());
                let mut of_rows: FxHashMap<UOp, UOp> =
                    [(self.greatest.clone(), most.clone())].into_iter().collect();
                of_rows.extend(self.sum.iter().map(|s| (s.clone(), known(&sums[h]))));
                let at = [(id(row), first.fold_add(of_m)), (id(&self.column), plus(d, n, of_n))];
                let store = substitute_open(&store.substitute(&of_rows), &at.into_iter().collect());
                substitute_open(&store, &fragments.places(2, r))
            })
            .collect();
        let around = self.chain.batch.iter().cloned().chain([block, warp, fragments.lane.clone()]);
        UOp::sink(stores).end(around)
    }

    /// The loop over blocks of keys, up to where a mask hides the rest from all rows of a block.
    fn rounds(
        &self,
        block: &UOp,
        warps: i64,
        keys: i64,
        range: &mut impl FnMut(i64, AxisKind) -> UOp,
    ) -> UOp {
        let all = extent(&self.chain.along) / keys;
        if all == 1 {
            return UOp::index(0);
        }
        let own = range(self.unit.size[0] as i64 * warps, AxisKind::Loop);
        // bounds are of constants and variables
        let stand_in = UOp::variable(BLOCK, 0, block.bounds.1 as i64);
        let named = [(id(&self.row), stand_in.fold_mul(own.extent()).fold_add(&own))].into_iter().collect();
        let reduces = [&self.greatest, &self.result].into_iter().chain(&self.sum);
        let reduces: Vec<UOp> = reduces.map(|n| substitute_open(n, &named)).collect();
        let end = mask::end_of(&reduces, &self.chain.along, Some(&own)).filter(|e| e.bounds.0 > 0);
        let counted = range(all, AxisKind::Reduce);
        let Some(end) = end else { return counted };
        let rounds = (&end + (keys - 1)).floordiv(&UOp::index(keys)).bin(Alu::Min, &UOp::index(all));
        let rounds = simplify(&rounds.substitute(&[(stand_in, block.clone())].into_iter().collect()));
        match rounds.as_int() {
            Some(1) => UOp::index(0),
            _ => UOp::range(&rounds, id(&counted), AxisKind::Reduce),
        }
    }
}

/// What a small float that was widened is.
fn narrowed(n: &UOp) -> Option<&UOp> {
    (n.op == Op::Cast && n.dtype == DType::F32 && n.input().dtype.is_small_float()).then(|| n.input())
}

fn is_in_lanes(unit: &MatrixUnit) -> bool {
    let in_lanes = unit.homes.iter().all(|h| matches!(h, Home::Lanes { .. }));
    in_lanes && unit.runner != Runner::Core && unit.accumulator == DType::F32 && is_chained(unit)
}

/// Lanes that run a unit together.
fn lanes(unit: &MatrixUnit) -> usize {
    if let Runner::Warp(n) = unit.runner { n as usize } else { 1 }
}

/// The tile and the register of results that a register of operand 0 is, along what is columns of the one and summed over by the
/// other: the same in every lane.
fn as_operand(unit: &MatrixUnit, register: usize) -> Option<(usize, usize)> {
    let tiles = unit.size[2] / unit.size[1];
    let all = (0..tiles).flat_map(|t| (0..unit.held(2)).map(move |r| (t, r)));
    let same = |(t, r): &(usize, usize)| {
        (0..lanes(unit)).all(|lane| {
            let ([m, _, k], [row, column, _]) = (unit.of_lane(0, register, lane), unit.of_lane(2, *r, lane));
            (m, k) == (row, t * unit.size[1] + column)
        })
    };
    all.into_iter().find(same)
}

/// Whether results of a unit are operands of it as they are.
fn is_chained(unit: &MatrixUnit) -> bool {
    (0..unit.held(0)).all(|r| as_operand(unit, r).is_some())
}

/// What lanes do with what they hold.
struct Lanes<'a> {
    fragments: &'a Fragments,
}

impl Lanes<'_> {
    fn unit(&self) -> &MatrixUnit {
        &self.fragments.unit
    }
    /// The sum of products of tiles.
    fn products(&self, tiles: impl Iterator<Item = (UOp, UOp)>) -> UOp {
        let zero = UOp::constant(Scalar::int(0, DType::F32), DType::F32);
        let zeros = UOp::stack((0..self.unit().held(2)).map(|_| zero.clone()));
        let arg = Arg::Name(self.unit().name.into());
        tiles.fold(zeros, |sum, (a, b)| UOp::new(Op::Matrix, DType::F32, [a, b, sum], arg.clone()))
    }
    /// Tile `j` of operand 0 that results are.
    fn operand_of(&self, results: &[Vec<UOp>], j: i64) -> UOp {
        let unit = self.unit();
        let tiles = unit.size[2] / unit.size[1];
        let of = |register: usize| {
            let (t, r) = as_operand(unit, register).unwrap_or((0, 0));
            results[j as usize * tiles + t][r].cast(unit.operands[0])
        };
        UOp::stack((0..unit.held(0)).map(of))
    }
    /// Registers of results that are of one row, by row.
    fn rows(&self) -> Vec<Vec<usize>> {
        let mut rows: Vec<(usize, Vec<usize>)> = vec![];
        for r in 0..self.unit().held(2) {
            let row = self.unit().of_lane(2, r, 0)[0];
            match rows.iter_mut().find(|(x, _)| *x == row) {
                Some((_, of_row)) => of_row.push(r),
                None => rows.push((row, vec![r])),
            }
        }
        rows.into_iter().map(|(_, of_row)| of_row).collect()
    }
    /// What the lanes of a row come to, in each of them.
    fn exchanged(&self, x: UOp, alu: Alu) -> UOp {
        let Home::Lanes { lanes, .. } = self.unit().homes[2] else { return x };
        let across = lanes.iter().enumerate().filter(|(_, Bit(d, _))| *d == Dim::N).map(|(i, _)| 1 << i);
        across.fold(x, |x, distance: u32| {
            let other = UOp::new(Op::LaneShuffle, x.dtype, [x.clone()], Arg::Lanes(distance));
            x.bin(alu, &other)
        })
    }
}
