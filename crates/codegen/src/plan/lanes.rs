//! Lanes of a block: which axes share a hardware id, and whether a block has room for them.

use super::axes::{Axis, Plan};
use crate::kernel::ranges::closed;
use frit_abi::target::Grid;
use frit_uop::{AxisKind, Op, UOp};

impl Plan<'_> {
    pub(crate) fn check_lanes(&self) -> Result<(), String> {
        use AxisKind::*;
        let Some(grid) = &self.target.grid else { return Ok(()) };
        let lanes: Vec<&Axis> =
            self.axes.iter().rev().filter(|a| matches!(a.kind, Local | GroupReduce | Warp)).collect();
        let extents: Vec<UOp> = lanes.iter().map(|a| a.extent.clone()).collect();
        let together = |a: usize, b: usize| self.are_together(lanes[a].origin, lanes[b].origin);
        let classes = share_ids(&extents, together, grid)?;
        check_warp(&classes, |i| lanes[i].kind)?;
        let block: usize = classes.iter().filter_map(|c| lanes[c[0]].size()).product();
        self.check_groups(block, grid.local_bytes)
    }

    /// Whether reduces across lanes have the local memory they pass through: an array for each copy.
    fn check_groups(&self, lanes: usize, allowed: usize) -> Result<(), String> {
        let across = |r: &&UOp| {
            let summed = closed(r);
            self.axes.iter().any(|a| a.kind == AxisKind::GroupReduce && summed.contains(&a.origin))
        };
        if !self.axes.iter().any(|a| a.kind == AxisKind::GroupReduce) {
            return Ok(());
        }
        let order = self.ast.toposort();
        let bytes = order.iter().filter(|n| n.op == Op::Reduce).filter(across).map(|r| {
            let upcast = |a: &&Axis| a.kind.is_side_by_side() && r.ranges.contains(&a.origin);
            let copies: usize = self.axes.iter().filter(upcast).filter_map(|a| a.size()).product();
            let sizes = r.bodies().iter().map(|x| (lanes * x.dtype.size()).next_multiple_of(64));
            copies * sizes.sum::<usize>()
        });
        match bytes.sum::<usize>() {
            n if n > allowed => Err(format!("{n} bytes of local memory, {allowed} allowed")),
            _ => Ok(()),
        }
    }
}

/// Which lane axes (innermost first) share an id: those of one extent that are never open together.
pub(crate) fn share_ids(
    extents: &[UOp],
    together: impl Fn(usize, usize) -> bool,
    grid: &Grid,
) -> Result<Vec<Vec<usize>>, String> {
    let mut classes: Vec<Vec<usize>> = vec![];
    for i in 0..extents.len() {
        match classes.iter_mut().find(|c| extents[c[0]] == extents[i] && !c.iter().any(|&j| together(i, j))) {
            Some(c) => c.push(i),
            None => classes.push(vec![i]),
        }
    }
    let size = |c: &Vec<usize>| extents[c[0]].bounds.1;
    let fits = |classes: &[Vec<usize>]| {
        classes.len() <= 3 && classes.iter().zip(grid.max_local).all(|(c, limit)| size(c) <= limit as i128)
    };
    // the first ids have the most room; where the order of nesting does not fit, sizes decide, whoever asks
    if !fits(&classes) {
        classes.sort_by_key(|c| std::cmp::Reverse(size(c)));
    }
    let sizes: Vec<i128> = classes.iter().map(size).collect();
    if !fits(&classes) {
        return Err(format!("lanes of {sizes:?}, {:?} allowed", grid.max_local));
    }
    match sizes.iter().product::<i128>() {
        n if n > grid.max_block as i128 => Err(format!("{n} lanes in a block, {} allowed", grid.max_block)),
        _ => Ok(classes),
    }
}

/// The lanes of a warp must be neighbours: where an axis is walked by them, its id is the fastest.
pub(crate) fn check_warp(classes: &[Vec<usize>], kind: impl Fn(usize) -> AxisKind) -> Result<(), String> {
    let at = classes.iter().position(|c| c.iter().any(|&i| kind(i) == AxisKind::Warp));
    match at {
        None | Some(0) => Ok(()),
        _ => Err("the lanes of a warp are not neighbours".into()),
    }
}
