//! Loops of a sum of products become one where a matrix unit wants long ones.
//!
//! A convolution is a product of matrices of which one is read through windows: its columns are all places of all images, its
//! sum runs over channels and the window. As one range each they fill a unit whatever the sizes of images and windows are, and
//! where a factor lies in memory as the range runs it is copied in vectors.
//!
//! ```text
//! out[n, o, y, x] = Reduce(w[o, c, i, j] * a[n, c, y + i, x + j], c, i, j)
//!     ->   out[p / 196, o, p mod 196] = Reduce(w[o, k] * a[p / 196, k / 9, p / 14 mod 14 + k / 3 mod 3, p mod 14 + k mod 3], k)
//! ```

use super::matrix;
use crate::error::Error;
use crate::kernel::access::{coefficient, fold};
use crate::kernel::contraction::Product;
use crate::kernel::ranges::{self, Replacement, closed, replace};
use crate::pass::{Ctx, Opts};
use crate::plan::Plan;
use crate::plan::opt::Opt;
use frit_abi::Target;
use frit_uop::rewrite::unrecorded;
use frit_uop::symbolic::simplify;
use frit_uop::{AxisKind, UOp};
use rustc_hash::FxHashMap;
use smallvec::smallvec;

/// Rows or columns, and products of a sum, from which a loop fills a block without others.
const LONG: [i64; 3] = [128, 128, 512];

/// The pass.
pub fn collapse(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    let of = match ctx.opts {
        Opts::Heuristic => unrecorded(|| worth(sink, ctx.target)),
        Opts::List([opt @ Opt::Collapse { of }, rest @ ..]) => {
            ctx.opts = Opts::List(rest);
            let loops =
                Loops::of(sink).filter(|l| of.iter().zip(&l.0).all(|(is_one, g)| !is_one || g.len() > 1));
            if loops.is_none() {
                let why = "no sum of products has several loops of a kind".into();
                return Err(Error::Opt { opt: opt.to_string(), why });
            }
            Some(*of)
        }
        Opts::List(_) => None,
    };
    let (Some(of), Some(loops)) = (of, Loops::of(sink)) else { return Ok(sink.clone()) };
    ctx.applied.push(Opt::Collapse { of });
    Ok(loops.collapsed(sink, of))
}

/// Which kinds of loops to make one, where a grid has a unit for the product.
fn worth(sink: &UOp, target: &Target) -> Option<[bool; 3]> {
    if target.grid.is_none() || target.matrix.is_empty() {
        return None;
    }
    let (product, loops) = (Product::of(sink).ok()?, Loops::of(sink)?);
    let step = |load: &UOp, r: &UOp| coefficient(load.index(), r.range_arg()?.id);
    let lies = |load: &UOp| {
        let next = |n: i64, r: &UOp| (step(load, r)? == n).then(|| n.checked_mul(extent(r))).flatten();
        loops.0[2].iter().rev().try_fold(1, next).is_some()
    };
    // what memory has side by side is copied by rows: of the sum, or of a loop that is long enough by itself
    let has_rows = |d: usize| {
        let load = &product.loads[d];
        let is_row = |r: &UOp| extent(r) >= LONG[d] && (lies(load) || step(load, r) == Some(1));
        loops.0[d].iter().any(is_row)
    };
    let is_row = |r: &UOp| {
        extent(r) >= LONG[2]
            && product.loads.iter().any(|l| step(l, r) == Some(1))
            && !product.loads.iter().any(lies)
    };
    let mut of = [!has_rows(0), !has_rows(1), !loops.0[2].iter().any(is_row)];
    (0..3).for_each(|d| of[d] &= loops.0[d].len() > 1);
    let new = of.contains(&true).then(|| loops.collapsed(sink, of))?;
    let plan = Plan::new(&new, target).ok()?;
    matrix::ways(&plan).map(|_| of)
}

fn extent(range: &UOp) -> i64 {
    range.extent().as_int().unwrap_or(0)
}

/// The loops that only the first factor moves with, only the second, and those of the sum, outermost first in memory.
struct Loops([Vec<UOp>; 3]);

impl Loops {
    /// Those of a product; nothing where an extent is not known.
    fn of(sink: &UOp) -> Option<Loops> {
        let product = Product::of(sink).ok()?;
        let all = ranges::all(&sink.toposort());
        let moves = |l: &UOp, r: &UOp| r.range_arg().is_some_and(|a| l.index().ranges.contains(&a.id));
        let [x, y] = &product.loads;
        let summed = closed(&product.reduce);
        let mut groups = [vec![], vec![], vec![]];
        for r in all {
            let arg = r.range_arg()?;
            r.extent().as_int()?;
            let d = match (moves(x, &r), moves(y, &r), summed.contains(&arg.id)) {
                (true, true, true) => 2,
                (true, false, false) if arg.kind == AxisKind::Global => 0,
                (false, true, false) if arg.kind == AxisKind::Global => 1,
                _ => continue,
            };
            groups[d].push(r);
        }
        // as the factor lies in memory; of two the one that a sum walks in longer rows
        let step = |load: &UOp, r: &UOp| coefficient(load.index(), r.range_arg()?.id);
        let row = |l: &UOp| groups[2].iter().filter(|r| step(l, r) == Some(1)).map(extent).max();
        let of_sum = if row(x) < row(y) { y } else { x };
        for (group, load) in groups.iter_mut().zip([x, y, of_sum]) {
            let steps: Option<Vec<i64>> = group.iter().map(|r| step(load, r)).collect();
            if steps.is_some() {
                group.sort_by_key(|r| std::cmp::Reverse(step(load, r).map(i64::abs)));
            }
        }
        Some(Loops(groups))
    }

    /// The kernel with one range for each kind of loops that is asked for.
    fn collapsed(&self, sink: &UOp, of: [bool; 3]) -> UOp {
        let mut map: FxHashMap<u32, Replacement> = FxHashMap::default();
        for (group, _) in self.0.iter().zip(of).filter(|(_, is_one)| *is_one) {
            let Some(first) = group.first().and_then(|r| r.range_arg()) else { continue };
            let count: i64 = group.iter().map(extent).product();
            let one = UOp::range(&UOp::index(count), first.id, first.kind);
            let mut rest = count;
            for r in group {
                rest /= extent(r).max(1);
                let value = one.floordiv(&UOp::index(rest)).modulo(r.extent());
                let ranges = if r == &group[0] { smallvec![one.clone()] } else { smallvec![] };
                _ = r.range_arg().map(|a| map.insert(a.id, Replacement { value, ranges }));
            }
        }
        simplify(&replace(sink, &map, |_, n| fold(&n))[sink])
    }
}
