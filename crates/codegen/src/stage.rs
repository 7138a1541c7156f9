//! Stages become tiles in local memory with a loop that fills them.
//!
//! ```text
//! Load(Index(Stage(x[f], f), i))   ->   for f { tile[f] = x[f] };  Load(Index(tile, i))
//! ```
//! On a grid all lanes of a block share the filling, with barriers around it.

use crate::access::substitute_open;
use crate::dims::linear_lane;
use crate::ranges;
use crate::{Ctx, Error};
use frit_uop::{Arg, AxisKind, Op, Space, UOp};
use rustc_hash::FxHashMap;
use smallvec::smallvec;

/// Rows and columns of a value that a matrix unit makes.
fn matrix_of(value: &UOp, ctx: &Ctx) -> Result<Option<(u32, u32)>, Error> {
    let product = if value.op == Op::Reduce { &value.src[0] } else { value };
    let (Op::Matrix, Arg::Name(name)) = (product.op, &product.arg) else { return Ok(None) };
    let unit = ctx.target.unit(name).filter(|_| ctx.target.grid.is_none());
    let unit = unit.ok_or_else(|| Error::Kernel(format!("{product:?} is not staged in tiles here")))?;
    Ok(Some((unit.size[0] as u32, unit.size[1] as u32)))
}

/// The pass. Leaves no `Stage` behind.
pub fn stage(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    let order = sink.toposort();
    if !order.iter().any(|n| n.op == Op::Stage) {
        return Ok(sink.clone());
    }
    let all: FxHashMap<u32, UOp> =
        ranges::all(&order).into_iter().filter_map(|r| Some((r.range_arg()?.id, r))).collect();
    let mut next = 1 + all.keys().copied().max().unwrap_or(0);
    let (lane, lanes) = linear_lane(&order, |_| true);
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    for n in &order {
        let src: Vec<UOp> = n.src.iter().map(|s| done[s].clone()).collect();
        let new = match n.op {
            Op::Stage => {
                let Arg::Stage { space: Space::Local, .. } = n.arg else {
                    return Err(Error::Kernel(format!("{n:?} outside local memory")));
                };
                let fill: Vec<UOp> = src[1..].to_vec();
                let extents: Option<Vec<i64>> = fill.iter().map(|r| r.src[0].as_int()).collect();
                let extents = extents.ok_or_else(|| Error::Kernel(format!("{n:?} of unknown size")))?;
                let len: i64 = extents.iter().product();
                let shape = matrix_of(&src[0], ctx)?;
                let lanes_of = shape.map_or(1, |(rows, lanes)| (rows * lanes) as i64);
                let tile = UOp::define(Space::Local, ctx.fresh(), (len * lanes_of) as usize, n.dtype);
                let outer: Vec<UOp> = n.ranges.iter().filter_map(|r| all.get(r).cloned()).collect();
                if ctx.target.grid.is_none() {
                    let flat = fill
                        .iter()
                        .zip(&extents)
                        .fold(UOp::index(0), |i, (r, &e)| i.fold_mul(&UOp::index(e)).fold_add(r));
                    let tile_at = tile.after(outer);
                    let place = match shape {
                        None => tile_at.at(&flat),
                        Some((rows, lanes)) => {
                            let place = flat.fold_mul(&UOp::index(lanes_of));
                            tile_at.at_tile(&place, rows, lanes, lanes as i64)
                        }
                    };
                    let store = place.store(&src[0]);
                    tile.after([store.end(fill)])
                } else {
                    // element `step * lanes + lane` of the tile, as long as there is one
                    let rounds = (len + lanes - 1) / lanes;
                    let (step, rounds) = match rounds {
                        1 => (UOp::index(0), vec![]),
                        n => {
                            let r = UOp::range(&UOp::index(n), next, AxisKind::Loop);
                            next += 1;
                            (r.clone(), vec![r])
                        }
                    };
                    let flat = step.fold_mul(&UOp::index(lanes)).fold_add(&lane);
                    let (mut rest, mut at): (UOp, FxHashMap<u32, UOp>) = (flat.clone(), FxHashMap::default());
                    for (r, &e) in fill.iter().zip(&extents).rev() {
                        at.insert(r.range_arg().map_or(0, |a| a.id), rest.modulo(&UOp::index(e)));
                        rest = rest.floordiv(&UOp::index(e));
                    }
                    let mut value = substitute_open(&src[0], &at);
                    let mut place = flat.clone();
                    if len % lanes != 0 {
                        let inside = flat.lt(&UOp::index(len));
                        place = inside.select(&flat, &UOp::invalid());
                        let idx = inside.select(&value.src[0].src[1], &UOp::invalid());
                        let address = value.src[0].with_src(smallvec![value.src[0].src[0].clone(), idx]);
                        let mut load = value.src.clone();
                        load[0] = address;
                        value = value.with_src(load);
                    }
                    // what was read in the last round must be done with before it is overwritten
                    let before = if outer.is_empty() {
                        vec![]
                    } else {
                        vec![UOp::new(Op::Barrier, frit_uop::DType::Void, outer, Arg::None)]
                    };
                    let store = tile.after(before).at(&place).store(&value);
                    let filled = UOp::new(Op::Barrier, frit_uop::DType::Void, [store.end(rounds)], Arg::None);
                    tile.after([filled])
                }
            }
            // one index a dimension of the stage
            Op::Index if n.src[0].op == Op::Stage && n.src.len() > 2 => {
                let flat = src[1..]
                    .iter()
                    .zip(&n.src[0].src[1..])
                    .fold(UOp::index(0), |i, (x, r)| i.fold_mul(&r.src[0]).fold_add(x));
                src[0].at(&flat)
            }
            _ => n.with_src(src.into_iter().collect()),
        };
        done.insert(n.clone(), new);
    }
    Ok(crate::simplify(&done[sink]))
}
