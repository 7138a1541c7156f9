//! A sum of what is made of products, as gradients of attention are, on a grid: a warp has rows of it and computes the products of a
//! round of keys in its registers, from where the sum takes them.
//!
//! ```text
//! out[i, d] = sum over j of f(sum over e of q[i, e] k[j, e], ...) v[j, d]
//!
//!     ->   for blocks of j { S = q k^T;  ...  W = f(S, ...);  out += W v }
//! ```
//! There may be several products inside, and none around: then rows are reduced in registers, and across the lanes that share them.
//! Loops one inside the other would compute each product for every column again.

use crate::error::Error;
use crate::kernel::access::gated;
use crate::kernel::chain::{Chain, extent, id};
use crate::kernel::row_block::{self, KEYS, REGISTERS, RowBlock, WARPS, is_chained, lanes, narrowed};
use crate::pass::{Ctx, Opts};
use crate::plan::opt::Opt;
use frit_abi::matrix::MOST_HELD;
use frit_abi::{MatrixUnit, Target};
use frit_uop::fold::combined;
use frit_uop::symbolic::simplify;
use frit_uop::{Alu, Arg, DType, Op, UOp};

/// Warps of a block, and registers that they hold then, which a search found to be the best for heads of 64 and most of 128.
const FEW_WARPS: i64 = 4;
const FEW_REGISTERS: i64 = 90;

/// The pass.
pub fn fuse_products(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    let chosen = match ctx.opts {
        Opts::Heuristic => Products::of(sink, ctx.target).and_then(|p| Some((p.blocks()?, p))),
        Opts::List([opt @ Opt::FuseProducts { warps, keys }, rest @ ..]) => {
            let block = [*warps as i64, *keys as i64];
            let found = Products::of(sink, ctx.target).filter(|p| rest.is_empty() && p.fits(block));
            let why = "it is for a sum of what is made of products on a matrix unit in whole blocks, and the only one";
            let error = || Error::Opt { opt: opt.to_string(), why: why.into() };
            Some((block, found.ok_or_else(error)?))
        }
        Opts::List(_) => None,
    };
    let Some(([warps, keys], products)) = chosen else { return Ok(sink.clone()) };
    // every decision is made
    ctx.opts = Opts::List(&[]);
    ctx.applied.push(Opt::FuseProducts { warps: warps as usize, keys: keys as usize });
    let end = products.kernel([warps, keys]);
    Ok(simplify(&UOp::new(Op::Sink, DType::Void, [end], sink.arg.clone())))
}

/// The blocks that a seed chooses, if it is such a sum at all.
pub fn random_blocks(sink: &UOp, target: &Target, seed: u64) -> Option<Opt> {
    let products = Products::of(sink, target)?;
    let [warps, keys] = row_block::random_blocks(seed, |b| products.fits(*b))?;
    Some(Opt::FuseProducts { warps, keys })
}

/// A product inside: the sum, what it is over, the factor of rows and that of keys.
struct Inner {
    sum: UOp,
    over: UOp,
    rows: UOp,
    keys: UOp,
}

/// A reduce along rows of what is made of products.
struct Products {
    chain: Chain,
    unit: MatrixUnit,
    row: UOp,
    inner: Vec<Inner>,
    /// The reduce, and what it is of: of a sum of products the factor that is made of those inside.
    result: UOp,
    alu: Alu,
    value: UOp,
    /// The columns of a sum of products, and its other factor.
    other: Option<(UOp, UOp)>,
}

impl Products {
    fn of(sink: &UOp, target: &Target) -> Option<Products> {
        target.grid.as_ref()?;
        let chain = Chain::of_one(sink)?;
        let row = chain.row.clone()?;
        let order = chain.store().toposort();
        let (along, over_row): (Vec<&UOp>, Vec<&UOp>) =
            order.iter().filter(|n| n.op == Op::Reduce).partition(|n| chain.is_along(n));
        let ([result], false) = (&over_row[..], along.is_empty()) else { return None };
        let Arg::Alu(alu) = result.arg else { return None };
        let is_load = |n: &UOp| n.op == Op::Load && n.arg == Arg::None && n.buffer_and_index().is_some();
        let is_keys = |n: &UOp| is_load(n) && chain.is_along(n) && !n.ranges.contains(&id(&row));
        let inner = |sum: &&UOp| {
            let [over] = sum.closed_ranges() else { return None };
            let [a, b] = (sum.body().op == Op::Mul).then(|| sum.body().operands())?;
            let (rows, keys) = if chain.is_along(a) { (b, a) } else { (a, b) };
            let (rows, keys) = (narrowed(rows)?, narrowed(keys)?);
            let fits = is_load(rows) && !chain.is_along(rows) && is_keys(keys);
            fits.then(|| Inner {
                sum: (*sum).clone(),
                over: over.clone(),
                rows: rows.clone(),
                keys: keys.clone(),
            })
        };
        let inner = along.iter().map(inner).collect::<Option<Vec<Inner>>>()?;
        let (value, other) = match &chain.columns[..] {
            [] => (result.body().clone(), None),
            [column] if alu == Alu::Add && result.body().op == Op::Mul => {
                let [a, b] = result.body().operands();
                let (w, v) = if chain.is_wide(a) { (b, a) } else { (a, b) };
                let (w, v) = (narrowed(w)?, narrowed(v)?);
                let fits = w.op == Op::Cast && !chain.is_wide(w) && is_keys(v);
                fits.then(|| (w.input().clone(), Some((column.clone(), v.clone()))))?
            }
            _ => return None,
        };
        let dtype = inner[0].rows.dtype;
        let factors = inner.iter().flat_map(|i| [&i.rows, &i.keys]).chain(other.iter().map(|(_, v)| v));
        let is_alike = factors.into_iter().all(|f| f.dtype == dtype);
        if result.dtype != DType::F32 || !is_alike {
            return None;
        }
        let unit = *target.matrix.iter().find(|u| u.operands == [dtype; 2] && is_chained(u))?;
        let (result, value) = ((*result).clone(), value);
        Some(Products { chain, unit, row, inner, result, alu, value, other })
    }

    /// As many keys as leave registers for several blocks on a multiprocessor, or few; few warps, which wait for each other less.
    fn blocks(&self) -> Option<[i64; 2]> {
        let few = |[warps, _]: &[i64; 2]| (warps - FEW_WARPS).abs();
        let all: Vec<[i64; 2]> =
            KEYS.iter().flat_map(|k| WARPS.map(|w| [w, *k])).filter(|b| self.fits(*b)).collect();
        let is_light = |[_, keys]: &[i64; 2]| self.held(*keys) <= FEW_REGISTERS;
        let light = all.iter().filter(|b| is_light(b)).min_by_key(|b| (few(b), -b[1]));
        light.or_else(|| all.iter().min_by_key(|b| (few(b), b[1]))).copied()
    }
    /// Registers of a lane for what it has of scores, weights, results and rows.
    fn held(&self, keys: i64) -> i64 {
        let m = self.unit.size[0] as i64;
        let columns = self.other.as_ref().map_or(0, |(c, _)| extent(c));
        let rows: i64 = self.inner.iter().map(|i| extent(&i.over)).sum();
        let count = self.inner.len() as i64;
        (m * keys * count + m * keys / 2 + m * columns + m * rows / 2) / lanes(&self.unit) as i64
    }
    /// Whether rows and keys come in whole blocks, and registers hold them.
    fn fits(&self, [warps, keys]: [i64; 2]) -> bool {
        let [m, n, k] = self.unit.size.map(|s| s as i64);
        let divides = |r: &UOp, by: i64| by > 0 && extent(r) % by == 0;
        let columns = self.other.as_ref().map_or(0, |(c, _)| extent(c));
        let widths = || self.inner.iter().map(|i| extent(&i.over));
        divides(&self.row, m * warps)
            && divides(&self.chain.along, keys)
            && keys % k == 0
            && self.inner.iter().all(|i| divides(&i.over, k))
            && columns % n == 0
            && widths().max().unwrap_or(0).max(columns) <= MOST_HELD as i64
            && self.held(keys) <= REGISTERS
    }

    fn kernel(&self, blocks: [i64; 2]) -> UOp {
        let mut block =
            RowBlock::new(&self.chain, &self.row, self.unit, blocks, std::slice::from_ref(&self.result));
        let copies: Vec<_> = self.inner.iter().map(|i| block.copy(&i.keys, &i.over)).collect();
        let other = self.other.as_ref().map(|(column, load)| (column, block.copy(load, column)));
        let scores = self.inner.iter().zip(&copies).map(|(i, keys)| {
            let scores = block.scores(&block.of_rows(&i.rows, &i.over), keys);
            (i.sum.clone(), scores)
        });
        let scores: Vec<(UOp, Vec<UOp>)> = scores.collect();
        let values = block.values(&self.value, &scores);
        let stored = |result: UOp| {
            self.chain.store().substitute(&[(self.result.clone(), result)].into_iter().collect())
        };
        let stores: Vec<UOp> = match other {
            Some((column, copy)) => (0..extent(column) / self.unit.size[1] as i64)
                .flat_map(|d| {
                    let sum = block.over_rounds(block.products(&values, &copy, d), self.alu);
                    let store = |r: usize| block.store(&stored(sum.lane(r as u32)), Some((column, d)), r);
                    (0..self.unit.held(2)).map(store).collect::<Vec<_>>()
                })
                .collect(),
            None => block
                .rows()
                .iter()
                .filter_map(|of_row| {
                    let all = values.iter().flat_map(|t| of_row.iter().map(|r| t[*r].clone()));
                    let row = block.over_rounds(vec![combined(self.alu, all)?], self.alu);
                    let store = block.store(&stored(block.exchanged(row, self.alu)), None, of_row[0]);
                    Some(gated(store, Some(block.is_first_of_row())))
                })
                .collect(),
        };
        block.end(stores)
    }
}
