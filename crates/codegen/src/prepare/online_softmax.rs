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
use crate::kernel::access::factor;
use crate::kernel::chain::{Chain, extent, factors, id, product};
use crate::kernel::row_block::{self, KEYS, REGISTERS, RowBlock, WARPS, is_chained, lanes, narrowed};
use crate::pass::{Ctx, Opts};
use crate::plan::opt::Opt;
use frit_abi::matrix::MOST_HELD;
use frit_abi::{MatrixUnit, Target};
use frit_uop::fold::combined;
use frit_uop::symbolic::simplify;
use frit_uop::{Alu, Arg, DType, Merge, Op, UOp};
use rustc_hash::FxHashMap;

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
    let [warps, keys] = row_block::random_blocks(seed, |b| attention.fits(*b))?;
    Some(Opt::OnlineSoftmax { warps, keys })
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
        let chain = Chain::of_any_length(sink)?;
        let (row, [column]) = (chain.row.clone()?, &chain.columns[..]) else { return None };
        let order = chain.store().toposort();
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
        let unit = *target.matrix.iter().find(|u| u.operands == [w.dtype; 2] && is_chained(u))?;
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
        let held = (m * keys * 3 / 2 + m * d * 2 + m * e / 2) / lanes(&self.unit) as i64;
        divides(&self.row, m * warps)
            && factor(self.chain.along.extent()) % keys == 0
            && keys % k == 0
            && divides(&self.inner, k)
            && divides(&self.column, n)
            && e.max(d) <= MOST_HELD as i64
            && held <= REGISTERS
    }

    fn kernel(&self, warps: i64, keys: i64) -> UOp {
        let reduces: Vec<UOp> =
            [&self.greatest, &self.result].into_iter().chain(&self.sum).cloned().collect();
        let mut block = RowBlock::new(&self.chain, &self.row, self.unit, [warps, keys], &reduces);
        let (k, v) = (block.copy(&self.k, &self.inner), block.copy(&self.v, &self.column));
        let scores = block.scores(&block.of_rows(&self.q, &self.inner), &k);
        let x = block.values(&self.x, &[(self.scores.clone(), scores)]);
        // what each row of a lane has in this round
        let number = |v: f64| UOp::float(v, DType::F32);
        let rows = block.rows();
        let of_row = |h: &Vec<usize>, all: &[Vec<UOp>]| -> Vec<UOp> {
            all.iter().flat_map(|t| h.iter().map(|r| t[*r].clone())).collect()
        };
        let folded = |values: Vec<UOp>, alu: Alu| combined(alu, values).unwrap_or_else(|| number(0.0));
        let most: Vec<UOp> =
            rows.iter().map(|h| block.exchanged(folded(of_row(h, &x), Alu::Max), Alu::Max)).collect();
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
        let tiles = extent(&self.column) / self.unit.size[1] as i64;
        let results: Vec<UOp> = (0..tiles).map(|d| block.summed(block.products(&weights, &v, d))).collect();
        // all rounds
        let carried: Vec<Vec<UOp>> = rows
            .iter()
            .zip(&most)
            .map(|(h, most)| {
                let sum = folded(of_row(h, &weights), Alu::Add);
                let of_tile = |t: &UOp| h.iter().map(|r| t.lane(*r as u32)).collect::<Vec<_>>();
                let values: Vec<UOp> =
                    [most.clone(), sum].into_iter().chain(results.iter().flat_map(of_tile)).collect();
                let loops: Vec<UOp> =
                    (block.round.op == Op::Range).then(|| block.round.clone()).into_iter().collect();
                UOp::fold(Merge::Rescale, &values, &loops)
            })
            .collect();
        let sums: Vec<UOp> = carried.iter().map(|c| block.exchanged(c[1].clone(), Alu::Add)).collect();
        let stores = (0..tiles).flat_map(|d| (0..self.unit.held(2)).map(move |r| (d, r)));
        let stores = stores.map(|(d, r)| {
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
            let store = self.chain.store().substitute(&[(self.result.clone(), result)].into_iter().collect());
            let mut of_rows: FxHashMap<UOp, UOp> =
                [(self.greatest.clone(), most.clone())].into_iter().collect();
            of_rows.extend(self.sum.iter().map(|s| (s.clone(), known(&sums[h]))));
            block.store(&store.substitute(&of_rows), Some((&self.column, d)), r)
        });
        block.end(stores.collect())
    }
}
