//! Leave out long computations that no lane needs.
//!
//! ```text
//! Where(c, f(x), y)   ->   v = y;  for any(c) { v = Where(c, f(x), v) };  v            any(c): 0 or 1
//! ```
//!
//! A `Where` computes both its sides. Where each is computed for it alone and one of them in many steps, that one stands in a loop of one
//! round, or of none if the other side is what every lane takes: a branch, as far as the machine sees. Values side by side share
//! one loop, so that straight code stays long.

use crate::error::Error;
use crate::kernel::ranges;
use crate::pass::Ctx;
use frit_uop::graph::Numbered;
use frit_uop::rewrite::replaced;
use frit_uop::{Alu, Arg, AxisKind, DType, Op, RangeArg, Space, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// Steps that are worth a branch, guessed wrong as often as right, where the vectors of a few iterations share it.
const LEAST_STEPS: usize = 32;
/// Steps of the other side: where there are none the `Where` is a guard around what almost every lane needs.
const LEAST_OTHER: usize = 8;

/// A `Where` and the nodes that only one of its sides is made of.
struct Cone {
    select: usize,
    side: usize,
    /// In the order of the graph.
    nodes: Vec<usize>,
}

/// The pass.
pub fn skip(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    let graph = Numbered::of(sink);
    let cones = cones(&graph);
    if cones.is_empty() {
        return Ok(sink.clone());
    }
    Ok(Rebuild::new(&graph, side_by_side(&graph, cones)).run(ctx))
}

/// Every `Where` with a side that is long and needed by it alone, none inside another.
fn cones(graph: &Numbered) -> Vec<Cone> {
    let nodes = &graph.nodes;
    if !nodes.iter().any(|n| n.op == Op::Where) || nodes.len() < LEAST_STEPS {
        return vec![];
    }
    let mut users: Vec<u32> = vec![0; nodes.len()];
    (0..nodes.len()).flat_map(|i| graph.src(i)).for_each(|&s| users[s as usize] += 1);
    let (mut found, mut inside) = (vec![], vec![false; nodes.len()]);
    for select in (0..nodes.len()).rev() {
        let n = &nodes[select];
        if n.op != Op::Where || inside[select] || n.dtype == DType::Bool || n.src[0].op == Op::Const {
            continue;
        }
        let [a, b] = [1, 2].map(|side| cone(graph, &users, select, side));
        let (long, short) = if a.nodes.len() > b.nodes.len() { (a, b) } else { (b, a) };
        if long.nodes.len() >= LEAST_STEPS && short.nodes.len() >= LEAST_OTHER {
            long.nodes.iter().for_each(|&i| inside[i] = true);
            found.push(long);
        }
    }
    found
}

/// What one side of a `Where` is made of and no one else uses, as far as it is computed as often as the `Where`.
fn cone(graph: &Numbered, users: &[u32], select: usize, side: usize) -> Cone {
    let (mut nodes, mut used) = (vec![], FxHashMap::<usize, u32>::default());
    let mut stack = vec![graph.src(select)[side] as usize];
    while let Some(i) = stack.pop() {
        let times = used.entry(i).or_default();
        *times += 1;
        let n = &graph.nodes[i];
        let is_value = n.op.is_elementwise() || matches!(n.op, Op::Stack | Op::Lane | Op::Shuffle);
        if *times == users[i] && is_value && n.ranges == graph.nodes[select].ranges {
            nodes.push(i);
            stack.extend(graph.src(i).iter().map(|&s| s as usize));
        }
    }
    nodes.sort_unstable();
    Cone { select, side, nodes }
}

/// Cones of one loop body of which none needs what another gives.
fn side_by_side(graph: &Numbered, cones: Vec<Cone>) -> Vec<Vec<Cone>> {
    let mut selects: FxHashMap<usize, Cone> = cones.into_iter().map(|c| (c.select, c)).collect();
    let mut depth = vec![0u32; graph.nodes.len()];
    let mut groups: Vec<Vec<Cone>> = vec![];
    let mut group_of: FxHashMap<(SmallVec<[u32; 6]>, u32), usize> = FxHashMap::default();
    for (i, n) in graph.nodes.iter().enumerate() {
        let below = graph.src(i).iter().map(|&s| depth[s as usize]).max().unwrap_or(0);
        let Some(cone) = selects.remove(&i) else {
            depth[i] = below;
            continue;
        };
        depth[i] = below + 1;
        let group = *group_of.entry((n.ranges.clone(), below)).or_insert_with(|| {
            groups.push(vec![]);
            groups.len() - 1
        });
        groups[group].push(cone);
    }
    groups
}

/// The graph anew, with the cones of each group in a loop.
struct Rebuild<'a> {
    graph: &'a Numbered,
    groups: Vec<Vec<Cone>>,
    /// What each group needs before it: conditions, other sides, what its cones take from outside, the loops around it.
    needs: Vec<Vec<usize>>,
    group_of: FxHashMap<usize, usize>,
    done: Vec<Option<UOp>>,
    next_range: u32,
}

impl<'a> Rebuild<'a> {
    fn new(graph: &'a Numbered, groups: Vec<Vec<Cone>>) -> Rebuild<'a> {
        let id = |n: &UOp| n.range_arg().map(|a| a.id);
        let at: FxHashMap<u32, usize> =
            graph.nodes.iter().enumerate().filter_map(|(i, n)| Some((id(n)?, i))).collect();
        let mut group_of = FxHashMap::default();
        let mut needs = vec![];
        for (g, group) in groups.iter().enumerate() {
            let mut need: FxHashSet<usize> = FxHashSet::default();
            for c in group {
                group_of.insert(c.select, g);
                let own: FxHashSet<usize> = c.nodes.iter().copied().collect();
                let src = c.nodes.iter().chain([&c.select]).flat_map(|&i| graph.src(i)).map(|&s| s as usize);
                need.extend(src.filter(|s| !own.contains(s)));
                need.extend(graph.nodes[c.select].ranges.iter().filter_map(|r| at.get(r).copied()));
            }
            needs.push(need.into_iter().collect());
        }
        let next_range = ranges::all(&graph.nodes).iter().filter_map(id).max().map_or(0, |id| id + 1);
        Rebuild { graph, groups, needs, group_of, done: vec![None; graph.nodes.len()], next_range }
    }

    fn run(mut self, ctx: &mut Ctx) -> UOp {
        let root = self.graph.nodes.len() - 1;
        let mut stack = vec![root];
        while let Some(&i) = stack.last() {
            if self.done[i].is_some() {
                stack.pop();
                continue;
            }
            let group = self.group_of.get(&i).copied();
            let missing = |s: &usize| self.done[*s].is_none();
            let before = stack.len();
            match group {
                Some(g) => stack.extend(self.needs[g].iter().copied().filter(missing)),
                None => stack.extend(self.graph.src(i).iter().map(|&s| s as usize).filter(missing)),
            }
            if stack.len() > before {
                continue;
            }
            match group {
                Some(g) => self.branch(g, ctx),
                None => {
                    let src = self.graph.src(i).iter().map(|&s| self.get(s as usize)).collect();
                    self.done[i] = Some(self.graph.nodes[i].with_src(src));
                }
            }
        }
        self.get(root)
    }

    /// What a node has become.
    fn get(&self, i: usize) -> UOp {
        self.done[i].clone().unwrap_or_else(|| self.graph.nodes[i].clone())
    }

    /// The loop of a group.
    fn branch(&mut self, group: usize, ctx: &mut Ctx) {
        let cones = std::mem::take(&mut self.groups[group]);
        let wanted: Vec<UOp> = cones
            .iter()
            .map(|c| {
                let condition = self.get(self.graph.src(c.select)[0] as usize);
                if c.side == 1 { condition } else { condition.un(Alu::Not) }
            })
            .collect();
        let arg = RangeArg { id: self.next_range, kind: AxisKind::Loop };
        self.next_range += 1;
        let range = UOp::new(Op::Range, DType::I32, [any(&wanted)], Arg::Range(arg));
        let around: Vec<UOp> =
            self.needs[group].iter().map(|&i| self.get(i)).filter(|n| n.op == Op::Range).collect();
        let (mut variables, mut stores) = (vec![], vec![]);
        for (c, wanted) in cones.iter().zip(&wanted) {
            let n = &self.graph.nodes[c.select];
            let variable = UOp::define(Space::Reg, ctx.fresh(), n.lanes(), n.dtype);
            let other = wide(&self.get(self.graph.src(c.select)[3 - c.side] as usize), n.lanes());
            let first = variable.after(around.iter().cloned()).store(&other);
            let inside = variable.after([first, range.clone()]);
            let value = self.in_loop(c, &range);
            let held = UOp::new(Op::Load, n.dtype, [inside.clone()], Arg::None);
            stores.push(inside.store(&wanted.after([range.clone()]).select(&wide(&value, n.lanes()), &held)));
            variables.push((c.select, variable));
        }
        let end = UOp::sink(stores).end([range]);
        for (select, variable) in variables {
            let after = variable.after([end.clone()]);
            let held = UOp::new(Op::Load, variable.dtype, [after], Arg::None);
            replaced("what a branch leaves", &self.graph.nodes[select], &held);
            self.done[select] = Some(held);
        }
    }

    /// A cone's value, computed inside the loop.
    fn in_loop(&self, cone: &Cone, range: &UOp) -> UOp {
        let mut new: FxHashMap<usize, UOp> = FxHashMap::default();
        let outside = |i: usize| match self.get(i) {
            c if c.op == Op::Const => c,
            x => x.after([range.clone()]),
        };
        for &i in &cone.nodes {
            let src = self.graph.src(i).iter().map(|&s| s as usize);
            let src = src.map(|s| new.get(&s).cloned().unwrap_or_else(|| outside(s))).collect();
            new.insert(i, self.graph.nodes[i].with_src(src));
        }
        let head = self.graph.src(cone.select)[cone.side] as usize;
        new.remove(&head).unwrap_or_else(|| outside(head))
    }
}

/// In so many lanes.
fn wide(x: &UOp, lanes: usize) -> UOp {
    if lanes > x.lanes() { UOp::stack((0..lanes).map(|_| x.clone())) } else { x.clone() }
}

/// 1 where any lane of any of these is true, else 0.
fn any(conditions: &[UOp]) -> UOp {
    let mut by_lanes: Vec<UOp> = vec![];
    for c in conditions {
        match by_lanes.iter_mut().find(|o| o.lanes() == c.lanes()) {
            Some(o) => *o = o.or_(c),
            None => by_lanes.push(c.clone()),
        }
    }
    let one = |c: &UOp| {
        let mut bits = c.select(&UOp::int(1, DType::I32), &UOp::int(0, DType::I32));
        while bits.lanes() > 2 && bits.lanes().is_multiple_of(2) {
            let half = (bits.lanes() / 2) as u8;
            let [low, high] =
                [0, half].map(|from| bits.shuffle(&bits, &(from..from + half).collect::<Vec<u8>>()));
            bits = low.or_(&high);
        }
        let lanes = bits.lanes() as u32;
        (1..lanes).fold(if lanes > 1 { bits.lane(0) } else { bits.clone() }, |all, i| all.or_(&bits.lane(i)))
    };
    let all = by_lanes.iter().map(one).reduce(|a, b| a.or_(&b)).unwrap_or_else(|| UOp::int(0, DType::I32));
    all.ne_(&UOp::int(0, DType::I32)).cast(DType::I32)
}
