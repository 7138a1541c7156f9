//! Ranges instead of views: walk from the stores to the inputs, decide what is computed where.
//!
//! Consumers come before producers, so when a node's turn comes every request for its elements is known. A node is
//! either *inlined* (its requests go on to its sources, movement ops only rewrite indices) or *staged*: stored by a
//! kernel of its own over fresh ranges and read from memory by index.
//!
//! | node | requests | fate |
//! |---|---|---|
//! | cheap (no reduce in its cone) | any | inlined for each, unless computing it again costs more than memory |
//! | expensive | one, each element once, not inside a reduce | inlined: a reduce with its epilogue |
//! | expensive | one, constant over the kernel's inner ranges | inlined at that scope: softmax in one kernel |
//! | the sum of a product | one, each element once, no other reduce beside it | inlined: its kernel is walked for it |
//! | expensive | anything else | staged |
//! | `Contiguous`, `Scatter`, most scans | | staged |

use crate::BufRef;
use crate::cost::{self, Cost};
use crate::error::Error;
use crate::index::{self, Idx, max_numel, numel, same_size};
use crate::lower;
use crate::plan::Plan;
use crate::requests::{Link, Recipe, Request, is_plain, open_ranges, position};
use crate::versions::place;
use frit_abi::{Alu, DType};
use frit_uop::{Arg, AxisKind, Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// What becomes of a node.
#[derive(Debug)]
pub enum Fate {
    /// No one asks for it.
    Unused,
    /// One recipe for each request.
    Inline(Vec<Recipe>),
    /// Stored; every request is a load.
    Staged { buf: u32, recipe: Recipe },
}

/// What a drafted kernel stores.
#[derive(Debug)]
pub enum Root {
    /// The value of a link.
    Link(Link),
    /// The staged node with this number.
    Node(u32),
    /// One step of a scatter into `before`: index and value links, how to combine.
    Scatter {
        before: u32,
        idx: Link,
        val: Link,
        site: u32,
        combine: Option<Alu>,
        rows: UOp,
        stride: UOp,
        rest: UOp,
    },
}

/// A kernel whose value is not built yet.
#[derive(Debug)]
pub struct Draft {
    pub ranges: Vec<UOp>,
    pub ordered: Option<UOp>,
    pub buf: u32,
    pub index: UOp,
    pub root: Root,
    pub rank: usize,
    /// The node this kernel stores whole into a parameter that no one reads before: a stage of that node may use it.
    stores_whole: Option<u32>,
    /// A reduce depends on all ranges.
    has_full_reduce: bool,
    /// A reduce is the sum of a product of repeated values.
    sums_product: bool,
    /// Some reduce depends only on this many outer ranges.
    scope: Option<usize>,
    /// An index comes from data.
    pub gathers: bool,
}

/// The state of the walk.
pub struct Walk<'p, 'a> {
    pub plan: &'p mut Plan<'a>,
    pub nodes: Vec<UOp>,
    pub src: Vec<SmallVec<[u32; 4]>>,
    costs: Vec<Cost>,
    users: Vec<u32>,
    pub requests: Vec<Vec<Request>>,
    pub fates: Vec<Fate>,
    pub drafts: Vec<Draft>,
    /// Index values that come from data: the variable that stands for one until its value is built.
    pub from_data: Vec<(UOp, Link)>,
    read_versions: FxHashSet<(u32, u32)>,
    /// Ranges of an extent that may be 0.
    pub may_be_empty: Vec<UOp>,
}

/// Leaves the tensor graph behind: [`Plan::kernels`] holds every store.
pub fn rangeify(plan: &mut Plan) -> Result<(), Error> {
    let mut walk = Walk::new(plan);
    for i in (0..walk.nodes.len()).rev() {
        walk.visit(i)?;
    }
    lower::build_kernels(walk)
}

impl<'p, 'a> Walk<'p, 'a> {
    fn new(plan: &'p mut Plan<'a>) -> Walk<'p, 'a> {
        let nodes = plan.sink.toposort();
        let number: FxHashMap<&UOp, u32> = nodes.iter().enumerate().map(|(i, n)| (n, i as u32)).collect();
        let src: Vec<SmallVec<[u32; 4]>> =
            nodes.iter().map(|n| n.src.iter().map(|s| number[s]).collect()).collect();
        let mut users = vec![0; nodes.len()];
        let mut at_other_indices = vec![false; nodes.len()];
        // which nodes are read for their value: not the target of a store, nor what an `After` only names
        let mut read = vec![false; nodes.len()];
        let mut read_versions = FxHashSet::default();
        for (i, n) in nodes.iter().enumerate().rev() {
            let sources = match n.op {
                Op::Store => 1..2,
                Op::Sink => 0..0,
                Op::After | Op::Param => {
                    if read[i] {
                        read_versions.extend(plan.versions.get(n).map(|v| (v.slot, v.version)));
                    }
                    0..0
                }
                _ if !read[i] => 0..0,
                o if o.is_movement() || o == Op::Iota => 0..1,
                _ => 0..n.src.len(),
            };
            for &s in &src[i][sources] {
                read[s as usize] = true;
                users[s as usize] += 1;
                at_other_indices[s as usize] |= !(n.op.is_elementwise() || n.op == Op::Store);
            }
        }
        let surely_staged = |i: usize| users[i] > 1 && at_other_indices[i];
        let costs = cost::costs(&nodes, &src, surely_staged);
        let requests = nodes.iter().map(|_| vec![]).collect();
        let fates = nodes.iter().map(|_| Fate::Unused).collect();
        let (drafts, from_data, may_be_empty) = (vec![], vec![], vec![]);
        Walk {
            plan,
            nodes,
            src,
            costs,
            users,
            requests,
            fates,
            drafts,
            from_data,
            read_versions,
            may_be_empty,
        }
    }

    fn visit(&mut self, i: usize) -> Result<(), Error> {
        let n = self.nodes[i].clone();
        if n.op == Op::Store {
            return self.store(i, &n);
        }
        if self.requests[i].is_empty() {
            return Ok(());
        }
        if n.op == Op::Scatter {
            return self.scatter(i, &n);
        }
        if self.is_staged(i, &n) {
            return self.stage(i, &n);
        }
        let mut recipes = Vec::with_capacity(self.requests[i].len());
        for k in 0..self.requests[i].len() {
            let r = self.requests[i][k].clone();
            recipes.push(self.ask_sources(i, &n, &r)?);
        }
        self.fates[i] = Fate::Inline(recipes);
        Ok(())
    }

    // ---- kernels

    fn draft(&mut self, rank: usize, ranges: Vec<UOp>, buf: u32, index: UOp) -> u32 {
        self.drafts.push(Draft {
            ranges,
            ordered: None,
            buf,
            index,
            root: Root::Link(Link::Value(UOp::index(0))),
            rank,
            stores_whole: None,
            has_full_reduce: false,
            sums_product: false,
            scope: None,
            gathers: false,
        });
        self.drafts.len() as u32 - 1
    }
    fn open(&mut self, dims: &[UOp]) -> (Vec<UOp>, Idx) {
        let (ranges, idx) = open_ranges(dims, || self.plan.range_id(), AxisKind::Global);
        ranges.iter().for_each(|r| self.note_range(r));
        (ranges, idx)
    }
    fn range(&mut self, extent: &UOp, kind: AxisKind) -> UOp {
        let range = UOp::range(extent, self.plan.range_id(), kind);
        self.note_range(&range);
        range
    }
    fn note_range(&mut self, range: &UOp) {
        if range.src[0].bounds.0 <= 0 {
            self.may_be_empty.push(range.clone());
        }
    }

    /// A tensor-level store: iterate the target's view and push the ranges through it to the memory.
    fn store(&mut self, i: usize, n: &UOp) -> Result<(), Error> {
        let (view, value) = (&n.src[0], &n.src[1]);
        let Some(dims) = view.try_shape().filter(|_| value.try_shape().is_some()) else {
            return Err(Error::malformed(n, "no shape"));
        };
        if dims.iter().any(|d| d.bounds.1 <= 0) {
            return Ok(());
        }
        let version = self.plan.versions[n];
        let (ranges, idx) = self.open(dims);
        let mut gate = None;
        let (param, at) = place(view, &idx, &mut gate)?;
        if gate.is_some() || is_repeated(view) {
            return Err(Error::Target(format!(
                "{view:?}: padded or repeated elements have no place in memory"
            )));
        }
        let len = param_len(&param);
        let buf = self.plan.buf(BufRef::Param(version.slot), version.version, param.dtype, len);
        let k = self.draft(i, ranges, buf, at);
        let idx = if value.shape().is_empty() { Idx::new() } else { idx };
        let link = self.ask(self.src[i][1], Request::plain(k, idx))?;
        let old = crate::plan::Version { version: version.version - 2, ..version };
        // the first store to its place: what reads its value must never come before an earlier one
        let whole = numel(dims).as_int() == Some(len as i64)
            && old.version == 0
            && !self.read_versions.contains(&(old.slot, old.version));
        let draft = &mut self.drafts[k as usize];
        draft.root = Root::Link(link);
        if whole {
            let mut v = self.src[i][1];
            while matches!(self.nodes[v as usize].op, Op::Reshape) {
                v = self.src[v as usize][0];
            }
            draft.stores_whole = Some(v);
        }
        Ok(())
    }

    /// The kernel that already stores all of node `i` to a parameter, if there is one, with its request.
    fn stored_anyway(&self, i: usize) -> Option<(u32, Request)> {
        let dims = self.nodes[i].shape();
        self.requests[i].iter().find_map(|r| {
            let d = &self.drafts[r.kernel as usize];
            let same = d.stores_whole == Some(i as u32) && r.is_ungated() && position(dims, r) == d.index;
            same.then(|| (r.kernel, r.clone()))
        })
    }

    /// Store the node by a kernel of its own; all requests become loads.
    fn stage(&mut self, i: usize, n: &UOp) -> Result<(), Error> {
        // a scan needs a loop along its axis, which a store of another shape does not have
        let fits = |r: &Request| n.op != Op::ScanAxis || is_loop(&r.idx, n);
        let (k, request) = match self.stored_anyway(i).filter(|(_, r)| fits(r)) {
            Some(found) => found,
            None => {
                let dims = n.shape().to_vec();
                let (ranges, idx) = self.open(&dims);
                let len = temp_len(n)?;
                let buf = self.plan.temp(n.dtype, len);
                let k = self.draft(i, ranges, buf, index::flatten(&dims, &idx));
                (k, Request::plain(k, idx))
            }
        };
        if n.op == Op::ScanAxis {
            let r = &request.idx[scan_axis(n)];
            self.drafts[k as usize].ordered = (r.op == Op::Range).then(|| r.clone());
        }
        self.drafts[k as usize].has_full_reduce |= n.op == Op::ReduceAxis;
        self.drafts[k as usize].sums_product |=
            n.op == Op::ReduceAxis && cost::product_bytes(&n.src[0]).is_some();
        let recipe = self.ask_sources(i, n, &request)?;
        let draft = &mut self.drafts[k as usize];
        draft.root = Root::Node(i as u32);
        draft.rank = draft.rank.min(i);
        let buf = draft.buf;
        if n.op == Op::Contiguous {
            self.plan.kept.insert(buf);
        }
        self.fates[i] = Fate::Staged { buf, recipe };
        Ok(())
    }

    /// Two kernels: the base is copied, then rows are written in order, one after the other.
    fn scatter(&mut self, i: usize, n: &UOp) -> Result<(), Error> {
        let (Arg::Scatter(mode, site), Some(_)) = (&n.arg, n.try_shape().filter(|s| !s.is_empty())) else {
            return Err(Error::malformed(n, "no shape"));
        };
        let dims = n.shape().to_vec();
        let (copy, request) = match self.stored_anyway(i) {
            Some(found) => found,
            None => {
                let (ranges, idx) = self.open(&dims);
                let buf = self.plan.temp(n.dtype, temp_len(n)?);
                let k = self.draft(i, ranges, buf, index::flatten(&dims, &idx));
                (k, Request::plain(k, idx))
            }
        };
        // the copy makes a version of its own just before the one that readers see
        let made = self.plan.bufs[self.drafts[copy as usize].buf as usize];
        let (before, after) = match made.place {
            BufRef::Param(_) => (made.version - 1, made.version),
            BufRef::Temp(_) => (made.version, made.version + 1),
        };
        let before = self.plan.buf(made.place, before, made.dtype, made.len);
        let after = self.plan.buf(made.place, after, made.dtype, made.len);
        self.drafts[copy as usize].buf = before;
        self.drafts[copy as usize].stores_whole = None;
        let link = self.ask(self.src[i][0], request)?;
        self.drafts[copy as usize].root = Root::Link(link);

        let count = n.src[1].shape().first().cloned().unwrap_or_else(|| UOp::index(1));
        if count.bounds.1 > 0 {
            let (mut ranges, rest) = self.open(&dims[1..]);
            let m = self.range(&count, AxisKind::Ordered);
            ranges.push(m.clone());
            let k = self.draft(i, ranges, after, UOp::index(0));
            let idx = self.ask(self.src[i][1], Request::plain(k, [m.clone()].into_iter().collect()))?;
            let at: Idx = [m.clone()].into_iter().chain(rest.iter().cloned()).collect();
            let val = self.ask(self.src[i][2], Request::plain(k, at))?;
            let d = &mut self.drafts[k as usize];
            d.ordered = Some(m);
            d.has_full_reduce = true; // nothing else moves in
            d.root = Root::Scatter {
                before,
                idx,
                val,
                site: *site,
                combine: match mode {
                    frit_uop::ScatterMode::Set => None,
                    frit_uop::ScatterMode::Combine(a) => Some(*a),
                },
                rows: dims[0].clone(),
                stride: numel(&dims[1..]),
                rest: index::flatten(&dims[1..], &rest),
            };
        }
        let buf = if count.bounds.1 > 0 { after } else { before };
        self.fates[i] = Fate::Staged { buf, recipe: Recipe::default() };
        Ok(())
    }

    // ---- decisions

    fn is_staged(&mut self, i: usize, n: &UOp) -> bool {
        let asked = &self.requests[i];
        match n.op {
            Op::Contiguous => {
                // the value of a store is materialised by the store
                !(self.users[i] == 1 && asked.len() == 1 && self.is_store_value(i))
            }
            o if o.is_movement() || o == Op::Detach || o == Op::Gather => false,
            Op::ScanAxis => !self.scan_joins(i, n),
            _ if n.dtype == DType::Index => false,
            _ if self.costs[i].expensive => !self.reduce_joins(i, n),
            _ => self.is_dear_to_repeat(i),
        }
    }

    /// Whether the node is the very value of a tensor-level store.
    fn is_store_value(&self, i: usize) -> bool {
        let rank = self.drafts[self.requests[i][0].kernel as usize].rank;
        self.nodes[rank].op == Op::Store && self.src[rank][1] == i as u32
    }

    /// A cheap node is computed again for every request unless that adds up.
    fn is_dear_to_repeat(&self, i: usize) -> bool {
        let (c, asked) = (&self.costs[i], &self.requests[i]);
        if asked.iter().any(|r| r.check.is_some()) && !c.reads {
            return true; // an index from data is checked where memory is read
        }
        let elements = max_numel(self.nodes[i].shape()).max(1);
        let (mut evaluations, mut space) = (0u64, 0u64);
        for r in asked {
            let extents: Vec<UOp> =
                self.drafts[r.kernel as usize].ranges.iter().map(|r| r.src[0].clone()).collect();
            evaluations = evaluations.saturating_add(self.evaluations(r, &extents, elements));
            space = space.saturating_add(max_numel(&extents));
        }
        // beside what the kernels do anyway it does not show
        if evaluations.saturating_mul(4 * c.ops as u64) <= space {
            return false;
        }
        let times = evaluations / elements;
        let in_reduce = asked.iter().any(|r| r.in_reduce);
        match c.ops {
            0 => false,
            1..=2 => asked.len() > 16 && c.reads,
            3..=7 => times >= 16 && (in_reduce || asked.len() > 4),
            8..=47 => times > 2,
            _ => times >= 2,
        }
    }

    /// How often a request's kernel computes the node: once for each iteration of the loops around the innermost one
    /// its indices are made of, but for a few short ones it does not move with, which are written out side by side
    /// and share it. Inside a reduce loop, once for each use.
    fn evaluations(&self, r: &Request, extents: &[UOp], elements: u64) -> u64 {
        let ranges = &self.drafts[r.kernel as usize].ranges;
        let depth_of = |id: &u32| ranges.iter().position(|x| x.range_arg().is_some_and(|a| a.id == *id));
        let depths: Option<Vec<usize>> = r.ranges().iter().map(depth_of).collect();
        let uses = r.repeat.saturating_mul(elements);
        let Some(moving) = depths else { return uses };
        let depth = moving.iter().max().map_or(0, |d| d + 1);
        let mut side_by_side = 1;
        for (_, e) in extents[..depth].iter().enumerate().filter(|(d, _)| !moving.contains(d)) {
            let n = e.as_int().map_or(u64::MAX, |n| n.max(1) as u64);
            if n.saturating_mul(side_by_side) <= SIDE_BY_SIDE {
                side_by_side *= n;
            }
        }
        (max_numel(&extents[..depth]) / side_by_side).min(uses)
    }

    /// An expensive node is inlined only where no element of it is computed twice.
    fn reduce_joins(&mut self, i: usize, n: &UOp) -> bool {
        let [r] = &self.requests[i][..] else { return false };
        let d = &self.drafts[r.kernel as usize];
        if !r.is_ungated() || d.ordered.is_some() {
            return false;
        }
        // does it depend on exactly the outer ranges, one element for each iteration?
        let used = r.ranges();
        let outer = d.ranges.iter().take(used.len()).filter_map(|r| r.range_arg()).map(|a| a.id);
        let extents: Vec<UOp> = d.ranges.iter().map(|r| r.src[0].clone()).collect();
        let (depth, all) = (used.len(), extents.len());
        let scoped = outer.eq(used) && same_size(&numel(&extents[..depth]), &numel(n.shape()));
        let product = n.op == Op::ReduceAxis && cost::product_bytes(&n.src[0]).is_some();
        let joins = if product && (d.has_full_reduce || d.scope.is_some() || scoped && depth < all)
            || d.sums_product && n.op == Op::ReduceAxis
        {
            // the sum of a product is walked in tiles, which other loops would be in the way of
            false
        } else if scoped && depth < all {
            let parallel = numel(&extents[..depth]).bounds.0 >= self.plan.target.threads as i128;
            let small = self.costs[i].work.max(max_numel(&extents)) <= SMALL;
            !d.has_full_reduce && self.plan.target.grid.is_none() && (parallel || small)
        } else if scoped || r.repeat == 1 && !r.in_reduce {
            d.scope.is_none()
        } else {
            false
        };
        if joins {
            let (r, reduces) = (&mut self.requests[i][0], n.op == Op::ReduceAxis);
            let d = &mut self.drafts[r.kernel as usize];
            if scoped {
                // computed once at its scope, however often it is used
                (r.repeat, r.in_reduce) = (1, false);
            }
            if scoped && depth < all {
                d.scope = Some(d.scope.map_or(depth, |s| s.min(depth)));
            }
            d.has_full_reduce |= reduces && !(scoped && depth < all);
            d.sums_product |= product;
        }
        joins
    }

    /// A scan's result is stored by the loop that carries it, with what is computed from it element by element.
    fn scan_joins(&mut self, i: usize, n: &UOp) -> bool {
        let [r] = &self.requests[i][..] else { return false };
        let d = &mut self.drafts[r.kernel as usize];
        let plain = r.is_ungated() && r.repeat == 1 && !r.in_reduce && is_plain(&r.idx);
        let axis = &r.idx[scan_axis(n)];
        let fits = plain
            && axis.op == Op::Range
            && r.ranges().len() == d.ranges.len()
            && d.ordered.is_none()
            && d.scope.is_none()
            && !d.has_full_reduce;
        if fits {
            d.ordered = Some(axis.clone());
        }
        fits
    }

    // ---- asking

    /// Ask node `s` for an element; leaves answer at once.
    fn ask(&mut self, s: u32, r: Request) -> Result<Link, Error> {
        let n = self.nodes[s as usize].clone();
        Ok(match n.op {
            Op::Const | Op::Variable => Link::Value(n),
            Op::Iota => Link::Value(r.idx[0].cast(n.dtype)),
            Op::Param | Op::After => {
                let version = self.plan.versions[&n];
                let mut gate = r.gate.clone();
                let (param, at) = place(&n, &r.idx, &mut gate)?;
                let buf =
                    self.plan.buf(BufRef::Param(version.slot), version.version, n.dtype, param_len(&param));
                Link::Value(Request { gate, ..r }.load(&self.plan.buf_node(buf), &at, &self.may_be_empty))
            }
            _ if n.try_shape().is_none() => return Err(Error::malformed(&n, "no shape")),
            _ => {
                let known = &mut self.requests[s as usize];
                let k = known.iter().position(|k| k.same(&r)).unwrap_or_else(|| {
                    known.push(Request { repeat: 1, in_reduce: false, ..r.clone() });
                    known.len() - 1
                });
                known[k].repeat = known[k].repeat.max(r.repeat);
                known[k].in_reduce |= r.in_reduce;
                Link::Request(s, k as u32)
            }
        })
    }

    /// Hand a request on to the sources.
    fn ask_sources(&mut self, i: usize, n: &UOp, r: &Request) -> Result<Recipe, Error> {
        let mut recipe = Recipe::default();
        let x = self.src[i].first().copied().unwrap_or(0);
        match n.op {
            Op::Contiguous | Op::Detach => recipe.links.push(self.ask(x, r.clone())?),
            Op::ReduceAxis => {
                let Arg::ReduceAxes(_, axes) = &n.arg else { return Err(Error::malformed(n, "no axes")) };
                let mut idx = r.idx.clone();
                for &a in axes {
                    let d = &n.src[0].shape()[a as usize];
                    if d.as_int() != Some(1) {
                        let range = self.range(d, AxisKind::Reduce);
                        idx[a as usize] = range.clone();
                        recipe.ranges.push(range);
                    }
                }
                recipe.links.push(self.ask(x, Request { in_reduce: true, ..r.at(idx) })?);
            }
            Op::ScanAxis => {
                let axis = &r.idx[scan_axis(n)];
                if !is_loop(&r.idx, n) {
                    return Err(Error::malformed(n, "no loop along its axis"));
                }
                recipe.ranges.extend((axis.op == Op::Range).then(|| axis.clone()));
                recipe.links.push(self.ask(x, r.clone())?);
            }
            Op::Gather => recipe.links.push(self.gather(i, n, r)?),
            o if o.is_movement() => {
                let idx = index::through(n, &r.idx, &mut recipe.gate)?;
                let mut down = match o {
                    Op::Reshape => r.reshaped(n, idx, &self.may_be_empty),
                    _ => r.at(idx),
                };
                if let Some(g) = &recipe.gate {
                    down.gate = index::both(down.gate, g.clone());
                }
                if o == Op::Expand {
                    let (from, to) = (max_numel(n.src[0].shape()), max_numel(n.shape()));
                    down.repeat = down.repeat.saturating_mul(to / from.max(1));
                }
                recipe.links.push(self.ask(x, down)?);
            }
            o if o.is_elementwise() => {
                for k in 0..n.src.len() {
                    let s = &n.src[k];
                    let mut down = r.clone();
                    if s.shape().is_empty() {
                        down.idx = Idx::new();
                    }
                    if cost::repeats(n, s) {
                        down.repeat = down.repeat.saturating_mul(max_numel(n.shape()));
                    }
                    recipe.links.push(self.ask(self.src[i][k], down)?);
                }
            }
            _ => return Err(Error::malformed(n, "not a tensor-level value")),
        }
        Ok(recipe)
    }

    /// The index of the first dim of `x` is a value: until that is built, a variable stands for it.
    fn gather(&mut self, i: usize, n: &UOp, r: &Request) -> Result<Link, Error> {
        let (x, table) = (&n.src[0], self.src[i][0]);
        let (Arg::Site(site), Some(rows)) = (&n.arg, x.shape().first()) else {
            return Err(Error::malformed(n, "no site or no rows"));
        };
        let rank = n.src[1].shape().len();
        let at = self.ask(self.src[i][1], r.at(r.idx[..rank].iter().cloned().collect()))?;
        let row = match &at {
            Link::Value(v) => v.cast(DType::Index),
            Link::Request(..) => {
                self.drafts[r.kernel as usize].gathers = true;
                self.stand_in(at.clone(), n.src[1].dtype)
            }
        };
        let row = r.gate.as_ref().map_or(row.clone(), |g| g.select(&row, &UOp::index(0)));
        let inside = row.lt(&UOp::index(0)).un(Alu::Not).and_(&row.lt(rows));
        let inside = r.check.as_ref().map_or(inside.clone(), |(_, outer)| outer.and_(&inside));
        let idx: Idx = [row].into_iter().chain(r.idx[rank..].iter().cloned()).collect();
        let mut down = Request { check: Some((*site, inside)), ..r.at(idx) };
        down.repeat = down.repeat.saturating_mul((max_numel(n.shape()) / max_numel(x.shape()).max(1)).max(1));
        self.ask(table, down)
    }
    fn stand_in(&mut self, link: Link, dtype: DType) -> UOp {
        let (lo, hi) = dtype.int_range().unwrap_or((0, 0));
        let clamp = |v: i128| v.clamp(i64::MIN as i128, i64::MAX as i128) as i64;
        if let Link::Request(n, k) = link
            && let Some((v, _)) =
                self.from_data.iter().find(|(_, l)| matches!(l, Link::Request(m, j) if (*m, *j) == (n, k)))
        {
            return v.clone();
        }
        let v = UOp::variable(&format!("?{}", self.from_data.len()), clamp(lo), clamp(hi));
        self.from_data.push((v.clone(), link));
        v
    }
}

/// Kernels with fewer elements than this run on one thread anyway.
const SMALL: u64 = 16384;

/// Iterations of loops that are written out, so that they share what does not move with them.
const SIDE_BY_SIDE: u64 = 16;

/// Whether an index walks the axis of a scan in order: by a range, or because there is one element.
fn is_loop(idx: &Idx, scan: &UOp) -> bool {
    let axis = scan_axis(scan);
    idx[axis].op == Op::Range || scan.shape()[axis].as_int() == Some(1)
}

/// The axis of a `ScanAxis`.
pub fn scan_axis(n: &UOp) -> usize {
    match &n.arg {
        Arg::ReduceAxes(_, a) => a.first().map_or(0, |&a| a as usize),
        _ => 0,
    }
}
fn param_len(p: &UOp) -> usize {
    match p.arg {
        Arg::Param { len, .. } => len,
        _ => 0,
    }
}
fn temp_len(n: &UOp) -> Result<usize, Error> {
    let len = max_numel(n.shape());
    let bytes = len.saturating_mul(n.dtype.size() as u64);
    if bytes > i64::MAX as u64 { Err(Error::TooLarge(format!("{n:?}"))) } else { Ok(len as usize) }
}
fn is_repeated(view: &UOp) -> bool {
    let mut n = view;
    while n.op.is_movement() || n.op == Op::After {
        if n.op == Op::Expand {
            return true;
        }
        n = &n.src[0];
    }
    false
}
