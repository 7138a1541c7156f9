//! Unroll: the copies of upcast and unrolled ranges become nodes of their own.
//!
//! Every node that depends on such ranges is made once for each of their values; what does not depend on them is
//! shared. A reduce over an unrolled range takes its copies one after the other (`Reduce(x0, x1, …, ranges…)`), one over
//! an upcast range combines separate results after, then come the lanes of a vector (whose range stays as it is, for pass
//! `vectorise`), and the lanes of a block last. A scan over copies combines each with those before.
//!
//! ```text
//! Store(p[i*2 + u], q[u])  ->  Store(p[i*2], q[0]), Store(p[i*2 + 1], q[1])
//! Reduce(x[r*2 + u], r, u) ->  Reduce(x[r*2], x[r*2 + 1], r)            (unroll)
//!                          ->  Reduce(x[r*2], r) + Reduce(x[r*2+1], r)  (upcast)
//! ```

use super::{carried, merged, place_of};
use crate::error::Error;
use crate::kernel::access::fold_with;
use crate::pass::Ctx;
use frit_uop::graph::Numbered;
use frit_uop::rewrite::{is_recorded, replaced};
use frit_uop::symbolic::simplify;
use frit_uop::{Arg, AxisKind, Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A node's copies over the expanded ranges it depends on, the last one fastest.
struct Copies {
    axes: SmallVec<[u32; 6]>,
    nodes: Vec<UOp>,
}

struct Expander {
    extents: FxHashMap<u32, usize>,
    /// By number of the node.
    copies: Vec<Copies>,
}

/// The pass. Leaves no upcast and no unroll range.
pub fn expand(sink: &UOp, _: &mut Ctx) -> Result<UOp, Error> {
    let graph = Numbered::of(sink);
    let order = &graph.nodes;
    let kind = |n: &UOp| n.range_arg().map(|a| a.kind);
    let is_group = |n: &UOp| n.op == Op::Reduce && n.closed_ranges().iter().any(|r| r.op != Op::Range);
    if !order.iter().any(|n| is_group(n) || kind(n).is_some_and(AxisKind::is_in_registers)) {
        return Ok(sink.clone());
    }
    let mut extents: FxHashMap<u32, usize> = FxHashMap::default();
    for r in order.iter().filter(|n| matches!(kind(n), Some(AxisKind::Upcast | AxisKind::Unroll))) {
        let (Some(a), Some(n)) = (r.range_arg(), r.extent().as_int()) else {
            return Err(Error::Kernel(format!("{r:?} of unknown extent")));
        };
        extents.insert(a.id, n as usize);
    }
    let mut e = Expander { extents, copies: Vec::with_capacity(order.len()) };
    for (i, n) in order.iter().enumerate() {
        let c = e.copy(n, graph.src(i))?;
        if is_recorded() && (!c.axes.is_empty() || e.closes(n)) {
            c.nodes.iter().for_each(|copy| replaced("a copy for each value of its ranges", n, copy));
        }
        e.copies.push(c);
    }
    Ok(simplify(e.copies.last().map_or(sink, |c| &c.nodes[0])))
}

impl Expander {
    fn axes_of(&self, n: &UOp) -> SmallVec<[u32; 6]> {
        n.ranges.iter().copied().filter(|r| self.extents.contains_key(r)).collect()
    }
    /// Whether it closes a range that is written out.
    fn closes(&self, n: &UOp) -> bool {
        let is_mine = |r: &UOp| r.range_arg().is_some_and(|a| self.extents.contains_key(&a.id));
        matches!(n.op, Op::Reduce | Op::Scan | Op::End | Op::Stage) && n.src.iter().any(is_mine)
    }
    fn count(&self, axes: &[u32]) -> usize {
        axes.iter().map(|a| self.extents[a]).product()
    }
    /// For each combination of values of `axes`, where a source that has `of` keeps its copy.
    fn places(&self, axes: &[u32], of: &[u32]) -> Vec<usize> {
        let mut places = vec![0];
        for a in axes {
            // the stride of this axis among the copies of the source, if it has it
            let stride = of.iter().position(|x| x == a).map_or(0, |at| self.count(&of[at + 1..]));
            let n = self.extents[a];
            places = places.iter().flat_map(|p| (0..n).map(move |i| p + i * stride)).collect();
        }
        places
    }

    fn copy(&self, n: &UOp, src: &[u32]) -> Result<Copies, Error> {
        let axes = self.axes_of(n);
        match n.op {
            Op::Range if axes.len() == 1 => {
                let nodes = (0..self.extents[&axes[0]]).map(|i| UOp::index(i as i64)).collect();
                return Ok(Copies { axes, nodes });
            }
            Op::Reduce => return self.reduce(n, src, axes),
            Op::Scan if !self.closed(n, src).0.is_empty() => return self.scan(n, src, axes),
            Op::End | Op::Stage => return self.end(n, src, axes),
            _ => {}
        }
        if axes.is_empty() && n.src.iter().zip(src).all(|(s, &i)| self.copies[i as usize].nodes[0] == *s) {
            return Ok(Copies { axes, nodes: vec![n.clone()] });
        }
        let places: SmallVec<[(&[UOp], Vec<usize>); 4]> = src
            .iter()
            .map(|&s| &self.copies[s as usize])
            .map(|c| (&c.nodes[..], self.places(&axes, &c.axes)))
            .collect();
        let nodes = (0..self.count(&axes))
            .map(|i| fold_with(n, places.iter().map(|(nodes, at)| nodes[at[i]].clone()).collect()))
            .collect();
        Ok(Copies { axes, nodes })
    }

    /// The ranges a node closes, apart: expanded, and the others with what became of them.
    fn closed<'n>(&self, n: &'n UOp, src: &[u32]) -> (SmallVec<[u32; 6]>, Vec<(&'n UOp, UOp)>) {
        let (mut mine, mut others) = (SmallVec::new(), vec![]);
        let values = if n.op == Op::Reduce { n.bodies().len() } else { 1 };
        for (r, &i) in n.src.iter().zip(src).skip(values) {
            match r.range_arg().filter(|a| self.extents.contains_key(&a.id)) {
                Some(a) => mine.push(a.id),
                None => others.push((r, self.copies[i as usize].nodes[0].clone())),
            }
        }
        (mine, others)
    }

    /// A scan over copies: each is combined with those before it, in their order, after what the loops and lanes around
    /// them had before.
    fn scan(&self, n: &UOp, src: &[u32], axes: SmallVec<[u32; 6]>) -> Result<Copies, Error> {
        let Arg::Alu(alu) = n.arg else { return Err(Error::Kernel(format!("{n:?} combines nothing"))) };
        let (mine, others) = self.closed(n, src);
        let x = &self.copies[src[0] as usize];
        let outer: SmallVec<[u32; 6]> = axes.iter().copied().filter(|a| !mine.contains(a)).collect();
        let all: SmallVec<[u32; 6]> = outer.iter().chain(&mine).copied().collect();
        let mut scanned = Vec::with_capacity(self.count(&all));
        for chain in self.places(&all, &x.axes).chunks(self.count(&mine)) {
            let mut sums: Vec<UOp> = vec![];
            for x in chain.iter().map(|&p| &x.nodes[p]) {
                sums.push(sums.last().map_or(x.clone(), |s| s.bin(alu, x)));
            }
            let total = sums.last().filter(|_| !others.is_empty());
            let before = total.map(|total| {
                let src = std::iter::once(total.clone()).chain(others.iter().map(|(_, new)| new.clone()));
                UOp::new(Op::Scan, n.dtype, src.collect::<SmallVec<[UOp; 4]>>(), Arg::Exclusive(alu))
            });
            scanned.extend(sums.iter().map(|s| before.as_ref().map_or(s.clone(), |b| b.bin(alu, s))));
        }
        let nodes = self.places(&axes, &all).into_iter().map(|p| scanned[p].clone()).collect();
        Ok(Copies { axes, nodes })
    }

    fn end(&self, n: &UOp, src: &[u32], axes: SmallVec<[u32; 6]>) -> Result<Copies, Error> {
        let (mine, others) = self.closed(n, src);
        let x = &self.copies[src[0] as usize];
        let nodes = (0..self.count(&axes)).map(|i| {
            let all: SmallVec<[u32; 6]> = axes.iter().chain(&mine).copied().collect();
            let inner = self.count(&mine);
            let mut at: Vec<usize> = self.places(&all, &x.axes)[i * inner..(i + 1) * inner].to_vec();
            at.dedup();
            let mut effects: SmallVec<[UOp; 4]> = at.iter().map(|&p| x.nodes[p].clone()).collect();
            let body = if effects.len() == 1 { effects.remove(0) } else { UOp::sink(effects) };
            body.end(others.iter().map(|(_, new)| new.clone()))
        });
        let nodes = nodes.collect();
        Ok(Copies { axes, nodes })
    }

    fn reduce(&self, n: &UOp, src: &[u32], axes: SmallVec<[u32; 6]>) -> Result<Copies, Error> {
        let (mine, others) = self.closed(n, src);
        let is_unroll = |id: &u32| {
            let is_it = |r: &UOp| r.range_arg().is_some_and(|a| a.id == *id && a.kind == AxisKind::Unroll);
            n.closed_ranges().iter().any(is_it)
        };
        let (unroll, upcast): (SmallVec<[u32; 6]>, SmallVec<[u32; 6]>) =
            mine.iter().copied().partition(is_unroll);
        let (mut loops, mut across, mut group): (Vec<UOp>, Vec<UOp>, Vec<UOp>) = (vec![], vec![], vec![]);
        for (r, new) in others {
            match r.range_arg() {
                Some(a) if a.kind == AxisKind::Vector => across.push(new),
                Some(_) => loops.push(new),
                None => group.push(new),
            }
        }
        let all: SmallVec<[u32; 6]> = axes.iter().chain(&upcast).chain(&unroll).copied().collect();
        let values = src[..n.bodies().len()].iter().map(|&s| &self.copies[s as usize]);
        let values: Vec<(&[UOp], Vec<usize>)> =
            values.map(|c| (&c.nodes[..], self.places(&all, &c.axes))).collect();
        let (u, c) = (self.count(&unroll), self.count(&upcast));
        let element = |at: usize| values.iter().map(|(nodes, places)| nodes[places[at]].clone()).collect();
        let mut nodes = Vec::with_capacity(self.count(&axes));
        for first in (0..self.count(&axes)).map(|i| i * u * c) {
            let mut sides: Vec<Vec<UOp>> = vec![];
            for side in (first..first + u * c).step_by(u) {
                let chain: Vec<Vec<UOp>> = (side..side + u).map(element).collect();
                sides.push(match n.arg {
                    Arg::Fold(_) => carried(n, merged(n, chain)?, &loops),
                    _ => vec![in_turn(n, chain, &loops)],
                });
            }
            let all = carried(n, carried(n, merged(n, sides)?, &across), &group);
            nodes.push(all[place_of(n)].clone());
        }
        Ok(Copies { axes, nodes })
    }
}

/// A reduce that takes these values one after the other in every round of its loops.
fn in_turn(n: &UOp, values: Vec<Vec<UOp>>, loops: &[UOp]) -> UOp {
    let mut src: SmallVec<[UOp; 4]> = values.into_iter().flatten().collect();
    src.extend(loops.iter().cloned());
    if src.len() == 1 { src.remove(0) } else { n.with_src(src) }
}
