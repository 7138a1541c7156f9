//! From the stores to the inputs: decide what is computed where.
//!
//! Consumers come before producers, so when a node's turn comes every request for its elements is known. A node is
//! either *inlined* (its requests go on to its sources, movement ops only rewrite indices) or *staged*: stored by a
//! kernel of its own over fresh ranges and read from memory by index.
//!
//! | node | requests | placement |
//! |---|---|---|
//! | widens a factor that a grid's matrix unit takes | any | inlined: what it widens is stored |
//! | elementwise, after each [`cost::MOST_OPS`] that follow each other | any | staged: a kernel of all would be too long |
//! | memory that a grid's matrix unit cannot copy in vectors | some for a factor | staged: packed, in the order of its readers |
//! | cheap (no reduce in its cone) | any | inlined for each, unless computing it again costs more than memory or a unit takes it |
//! | expensive | one, each element once, not inside a reduce | inlined: a reduce with its epilogue |
//! | made of an expensive value, narrower or for several | each element once, inside a reduce only along rows | inlined: that value is stored |
//! | expensive | one, constant over the kernel's inner ranges | inlined at that scope: softmax in one kernel |
//! | the sum of a product | one, each element once, no other reduce beside it | inlined: its kernel is walked for it |
//! | expensive | anything else | staged |
//! | `Contiguous`, `Scatter`, most scans | | staged |
//!
//! The readers of a staged node say in which order its dims lie in memory ([`layout`]).

mod again;
mod unit;

use super::chain::Chains;
use super::layout;
use super::request::{Cut, Draft, Link, Order, Placement, Recipe, Request, Rows, is_plain, position};
use crate::cost::{self, Cost};
use crate::error::Error;
use crate::index::{self, Idx, max_numel, numel, same_size};
use crate::record;
use frit_abi::{Alu, DType, Target};
use frit_uop::graph::Numbered;
use frit_uop::{Arg, AxisKind, Op, ScatterMode, UOp};
use std::rc::Rc;

/// What becomes of a node, and why.
enum Decision {
    /// Stored by a kernel of its own.
    Staged(&'static str),
    /// Computed by the kernels that read it.
    Inlined(&'static str),
}

/// The state of the walk.
struct Walk<'a> {
    target: &'a Target,
    cut: Cut,
    costs: Vec<Cost>,
    users: Vec<u32>,
    chains: Chains,
    /// Nodes that are read for their value: not the target of a store, nor what an `After` only names.
    is_read: Vec<bool>,
}

/// Decides for every node of a tensor graph whether it is stored, and by which kernel.
pub fn walk(list: Rc<Numbered>, target: &Target) -> Result<Cut, Error> {
    let mut walk = Walk::new(list, target);
    for i in (0..walk.cut.list.nodes.len()).rev() {
        walk.visit(i)?;
    }
    walk.cut.stores.reverse();
    Ok(walk.cut)
}

impl<'a> Walk<'a> {
    fn new(list: Rc<Numbered>, target: &'a Target) -> Walk<'a> {
        let nodes = &list.nodes;
        let mut users = vec![0; nodes.len()];
        let mut at_other_indices = vec![false; nodes.len()];
        let mut is_read = vec![false; nodes.len()];
        for (i, n) in nodes.iter().enumerate().rev() {
            let sources = match n.op {
                Op::Store => 1..2,
                Op::Sink | Op::After | Op::Param => 0..0,
                _ if !is_read[i] => 0..0,
                o if o.is_movement() || o == Op::Iota => 0..1,
                _ => 0..n.src.len(),
            };
            for &s in &list.src(i)[sources] {
                is_read[s as usize] = true;
                users[s as usize] += 1;
                at_other_indices[s as usize] |= !(n.op.is_elementwise() || n.op == Op::Store);
            }
        }
        let surely_staged = |i: usize| users[i] > 1 && at_other_indices[i];
        let costs = cost::costs(&list, surely_staged);
        let chains = Chains::of(&list, &costs, &users, target);
        let cut = Cut {
            requests: nodes.iter().map(|_| vec![]).collect(),
            placements: nodes.iter().map(|_| Placement::Unused).collect(),
            list,
            drafts: vec![],
            stores: vec![],
            from_data: vec![],
        };
        Walk { target, cut, costs, users, chains, is_read }
    }

    fn visit(&mut self, i: usize) -> Result<(), Error> {
        let n = self.cut.list.nodes[i].clone();
        if n.op == Op::Store {
            return self.store(i, &n);
        }
        if self.cut.requests[i].is_empty() || n.op == Op::After {
            return Ok(());
        }
        if n.op == Op::Scatter {
            record::reason(&n, "stored", "a scatter writes rows over a copy of its base");
            return self.scatter(i, &n);
        }
        match self.decide(i, &n) {
            Decision::Staged(why) => {
                record::reason(&n, "stored", why);
                return self.stage(i, &n);
            }
            Decision::Inlined(why) => record::reason(&n, "inlined", why),
        }
        if self.chains.is_end(i) {
            let k = self.cut.requests[i][0].kernel;
            self.cut.drafts[k as usize].keep_to_chain();
        }
        // answered: the memory is for the next requests, while it is near
        let asked = std::mem::take(&mut self.cut.requests[i]);
        let recipes = asked.iter().map(|r| self.ask_sources(i, &n, r)).collect::<Result<_, _>>()?;
        self.cut.placements[i] = Placement::Inline { recipes };
        Ok(())
    }

    // ---- kernels

    /// A kernel over these dims, and one index for each.
    fn draft(&mut self, rank: usize, dims: &[UOp]) -> (u32, Idx) {
        let (draft, idx) = Draft::over(dims, rank);
        self.cut.drafts.push(draft);
        (self.cut.drafts.len() as u32 - 1, idx)
    }

    /// A tensor-level store: iterate the target's view and push the ranges through it to the memory.
    fn store(&mut self, i: usize, n: &UOp) -> Result<(), Error> {
        let (view, value) = (n.target(), n.value());
        let Some(dims) = view.try_shape().filter(|_| value.try_shape().is_some()) else {
            return Err(Error::malformed(n, "no shape"));
        };
        if dims.iter().any(|d| d.bounds.1 <= 0) {
            return Ok(());
        }
        let (k, idx) = self.draft(i, dims);
        let mut memory = self.cut.list.src(i)[0];
        while self.cut.list.nodes[memory as usize].op.is_movement() {
            memory = self.cut.list.src(memory as usize)[0];
        }
        let mut gate = None;
        let at = place(view, &idx, &mut gate)?;
        if gate.is_some() || is_repeated(view) {
            return Err(Error::Target(format!(
                "{view:?}: padded or repeated elements have no place in memory"
            )));
        }
        self.cut.drafts[k as usize].target = Some((memory, at));
        self.cut.stores.push((i as u32, k));
        if let Some(scatter) = self.scattered_in_place(i, memory) {
            let n = self.cut.list.nodes[scatter].clone();
            let rows = self.rows(scatter, &n)?;
            self.cut.placements[i] = Placement::ScatteredInPlace { draft: k, rows: rows.map(Box::new) };
            return Ok(());
        }
        let idx = if value.shape().is_empty() { Idx::new() } else { idx };
        let link = self.ask(self.cut.list.src(i)[1], Request::plain(k, idx))?;
        // the first store to its place: what reads its value must never come before an earlier one
        let base = &self.cut.list.nodes[memory as usize];
        let whole = numel(dims).as_int() == Some(param_len(base) as i64)
            && base.op == Op::Param
            && !self.is_read[memory as usize];
        let draft = &mut self.cut.drafts[k as usize];
        draft.root = Some(link);
        if whole {
            let mut v = self.cut.list.src(i)[1];
            while matches!(self.cut.list.nodes[v as usize].op, Op::Reshape) {
                v = self.cut.list.src(v as usize)[0];
            }
            draft.stores_whole = Some(v);
        }
        Ok(())
    }

    /// The kernel that already stores all of node `i` to a parameter, if there is one, with its request.
    fn stored_anyway(&self, i: usize) -> Option<(u32, Request)> {
        let dims = self.cut.list.nodes[i].shape();
        self.cut.requests[i].iter().find_map(|r| {
            let d = &self.cut.drafts[r.kernel as usize];
            let same = d.stores_whole == Some(i as u32)
                && r.is_ungated()
                && d.target.as_ref().is_some_and(|(_, at)| position(dims, r, None) == *at);
            same.then(|| (r.kernel, r.clone()))
        })
    }

    /// Store the node by a kernel of its own; all requests become loads.
    fn stage(&mut self, i: usize, n: &UOp) -> Result<(), Error> {
        // a scan needs a loop along its axis, which a store of another shape does not have
        let fits = |r: &Request| n.op != Op::ScanAxis || is_loop(&r.idx, n);
        let (k, request, order) = match self.stored_anyway(i).filter(|(_, r)| fits(r)) {
            Some((k, request)) => (k, request, None),
            None => {
                check_size(n)?;
                let order = self.order_of(i, n);
                let (k, request) = self.draft_in_order(i, n.shape(), order.as_ref());
                (k, request, order)
            }
        };
        if n.op == Op::ScanAxis {
            let r = &request.idx[scan_axis(n)];
            self.cut.drafts[k as usize].ordered = (r.op == Op::Range).then(|| r.clone());
        }
        self.cut.drafts[k as usize].has_full_reduce |= n.op == Op::ReduceAxis;
        self.cut.drafts[k as usize].sums_product |= self.costs[i].contracts;
        if self.chains.is_end(i) {
            self.cut.drafts[k as usize].keep_to_chain();
        }
        let recipe = self.ask_sources(i, n, &request)?;
        let draft = &mut self.cut.drafts[k as usize];
        (draft.root, draft.rank) = (None, draft.rank.min(i));
        self.cut.placements[i] = Placement::Staged { draft: k, recipe, order: order.map(Box::new) };
        Ok(())
    }

    /// In which order the dims of a staged node lie in memory, where that is not theirs.
    fn order_of(&self, i: usize, n: &UOp) -> Option<Order> {
        let has_units = self.target.grid.is_some() && !self.target.matrix.is_empty();
        if !has_units || matches!(n.op, Op::Contiguous | Op::ScanAxis) {
            return None;
        }
        let is_taken = self.is_taken(n.dtype);
        let is_factor = |r: &Request| is_taken && self.is_factor_of_a_sum(r);
        layout::order(n.shape(), self.vector(n), &self.cut.requests[i], &self.cut.drafts, is_factor)
    }
    /// Elements of a node that an access moves at once.
    fn vector(&self, n: &UOp) -> i64 {
        (self.target.vector_access_bytes / n.dtype.size()).max(1) as i64
    }
    /// A kernel over these dims, the last of an order innermost, and a request for each element.
    fn draft_in_order(&mut self, rank: usize, dims: &[UOp], order: Option<&Order>) -> (u32, Request) {
        let Some(order) = order else {
            let (k, idx) = self.draft(rank, dims);
            return (k, Request::plain(k, idx));
        };
        let in_order: Vec<UOp> = order.iter().map(|d| dims[*d].clone()).collect();
        let (k, walked) = self.draft(rank, &in_order);
        self.cut.drafts[k as usize].is_permuted = true;
        let mut idx: Idx = walked.clone();
        order.iter().zip(walked).for_each(|(d, r)| idx[*d] = r);
        (k, Request::plain(k, idx))
    }

    /// Two kernels: the base is copied, then rows are written in order, one after the other.
    fn scatter(&mut self, i: usize, n: &UOp) -> Result<(), Error> {
        if n.try_shape().is_none_or(|s| s.is_empty()) {
            return Err(Error::malformed(n, "no shape"));
        }
        let (copy, request) = match self.stored_anyway(i) {
            Some(found) => found,
            None => {
                check_size(n)?;
                let (k, idx) = self.draft(i, n.shape());
                (k, Request::plain(k, idx))
            }
        };
        self.cut.drafts[copy as usize].stores_whole = None;
        let link = self.ask(self.cut.list.src(i)[0], request)?;
        self.cut.drafts[copy as usize].root = Some(link);
        let rows = self.rows(i, n)?;
        self.cut.placements[i] = Placement::Scattered { draft: copy, rows: rows.map(Box::new) };
        Ok(())
    }

    /// The kernel that writes the rows of a scatter, unless there are none.
    fn rows(&mut self, i: usize, n: &UOp) -> Result<Option<Rows>, Error> {
        let Arg::Scatter(mode, site) = &n.arg else { return Err(Error::malformed(n, "not a scatter")) };
        let dims = n.shape().to_vec();
        let count = n.rows().shape().first().cloned().unwrap_or_else(|| UOp::index(1));
        if count.bounds.1 <= 0 {
            return Ok(None);
        }
        let (k, rest) = self.draft(i, &dims[1..]);
        // of one row none comes before another: on a grid, what it is made of is computed where it is written
        let is_alone = self.target.grid.is_some() && count.as_int() == Some(1);
        let d = &mut self.cut.drafts[k as usize];
        let m = match is_alone {
            true => UOp::index(0),
            false => d.range(&count, AxisKind::Ordered),
        };
        d.is_checked = true;
        if !is_alone {
            d.ranges.push(m.clone());
            d.ordered = Some(m.clone());
            d.has_full_reduce = true; // nothing else moves in
        }
        let idx = self.ask(self.cut.list.src(i)[1], Request::plain(k, [m.clone()].into_iter().collect()))?;
        let at: Idx = [m.clone()].into_iter().chain(rest.iter().cloned()).collect();
        let val = self.ask(self.cut.list.src(i)[2], Request::plain(k, at))?;
        Ok(Some(Rows {
            draft: k,
            idx,
            val,
            site: *site,
            combine: match mode {
                ScatterMode::Set => None,
                ScatterMode::Combine(a) => Some(*a),
            },
            count: dims[0].clone(),
            stride: numel(&dims[1..]),
            rest: index::flatten(&dims[1..], &rest),
        }))
    }

    /// The scatter that store `i` writes back, whole, to the memory its base was read from: only its rows need be written.
    /// Not where rows or their places are made of that memory, which they would change under the kernel.
    fn scattered_in_place(&self, i: usize, memory: u32) -> Option<usize> {
        let list = &self.cut.list;
        let behind = |mut v: u32, shared: &mut bool| {
            while list.nodes[v as usize].op == Op::Reshape {
                *shared |= self.users[v as usize] > 1;
                v = list.src(v as usize)[0];
            }
            v
        };
        let (mut shared, mut other) = (false, false);
        let scatter = behind(list.src(i)[1], &mut shared) as usize;
        let n = &list.nodes[scatter];
        if shared
            || n.op != Op::Scatter
            || self.users[scatter] > 1
            || n.try_shape().is_none_or(|s| s.is_empty())
        {
            return None;
        }
        let sources = list.src(scatter);
        let whole = behind(list.src(i)[0], &mut other) == memory && behind(sources[0], &mut other) == memory;
        let param = |v: usize| list.nodes[v].behind_after() == list.nodes[memory as usize].behind_after();
        (whole && !sources[1..].iter().any(|&s| self.is_made_of(s, &param))).then_some(scatter)
    }

    /// Whether a node or what it is computed from is such a one.
    fn is_made_of(&self, node: u32, such: &dyn Fn(usize) -> bool) -> bool {
        let (mut stack, mut seen) = (vec![node], vec![false; self.cut.list.nodes.len()]);
        while let Some(v) = stack.pop() {
            if std::mem::replace(&mut seen[v as usize], true) {
                continue;
            }
            if matches!(self.cut.list.nodes[v as usize].op, Op::Param | Op::After) {
                if such(v as usize) {
                    return true;
                }
                continue;
            }
            stack.extend(self.cut.list.src(v as usize));
        }
        false
    }

    // ---- decisions

    /// Whether a node is stored by a kernel of its own, and why.
    fn decide(&mut self, i: usize, n: &UOp) -> Decision {
        use Decision::{Inlined, Staged};
        let asked = &self.cut.requests[i];
        match n.op {
            _ if self.chains.is_inside(i) => {
                Inlined("it lies between the products of a chain, which one kernel walks row by row")
            }
            Op::Contiguous => match self.users[i] == 1 && asked.len() == 1 && self.is_store_value(i) {
                true => Inlined("the store of its value is the memory that the program asks for"),
                false => Staged("the program asks for it in memory (contiguous)"),
            },
            // its index would be checked in every step of the chain
            Op::Gather if asked.iter().any(|r| self.cut.drafts[r.kernel as usize].is_chain) => {
                Staged("a chain of products reads it by an index from data")
            }
            Op::Gather => Inlined("its reader reads the table itself, at an index from data"),
            Op::Reshape if self.is_packed_for_a_unit(i, n) => Staged(
                "a matrix unit copies it in vectors, many times, which its order in memory does not allow",
            ),
            o if o.is_movement() || o == Op::Detach => {
                Inlined("it moves elements, and its reader's index says where they are")
            }
            Op::ScanAxis => match self.scan_joins(i, n) {
                Ok(()) => Inlined("the kernel that reads it walks it in order, as the scan does"),
                Err(why) => Staged(why),
            },
            _ if n.dtype == DType::Index => Inlined("it is part of an index"),
            Op::Cast if self.is_widened_for_a_unit(n) => {
                Inlined("what it widens is stored, in fewer bytes, and as a matrix unit takes it")
            }
            _ if self.is_deep(i) => Staged("a kernel of all that it is made of would be too long"),
            _ if self.costs[i].expensive => match self.reduce_joins(i, n) {
                Ok(why) => Inlined(why),
                Err(_) if self.is_of_one_that_is_stored(i, n) => {
                    Inlined("a sum along rows makes it again of a value that others want in memory anyway")
                }
                Err(_) if self.is_made_again(i, n) => Inlined(
                    "its readers make it again of one value in memory, instead of one for each operation",
                ),
                Err(_) if self.is_short_sum(i, n) => Inlined(
                    "reducing so few elements again takes less than the launch of a kernel that stores it",
                ),
                Err(why) => Staged(why),
            },
            _ if self.is_factor_for_a_unit(i, n) => {
                Staged("a matrix unit multiplies what lies in memory, many times each")
            }
            _ => self.memory_or_recompute(i),
        }
    }

    /// Whether operations that follow each other are cut here: every [`cost::MOST_OPS`] of them.
    fn is_deep(&self, i: usize) -> bool {
        let part = |i: usize| self.costs[i].depth / cost::MOST_OPS;
        self.cut.list.nodes[i].op.is_elementwise()
            && self.cut.list.src(i).iter().all(|s| part(*s as usize) < part(i))
    }

    /// Whether kernels make it again, each element once, of one value that is stored then: for several kernels if that is no wider,
    /// and for one, or a sum along rows, if it is narrower. What lies between a product and its gradient is read from one
    /// memory then, not from one for each operation. A sum along columns has few lanes, and they have enough to do.
    fn is_made_again(&self, i: usize, n: &UOp) -> bool {
        let (asked, base) = (&self.cut.requests[i], self.costs[i].base as usize);
        let of = &self.cut.list.nodes[base];
        let (is_wider, is_narrower) = (of.dtype.size() > n.dtype.size(), of.dtype.size() < n.dtype.size());
        let is_once =
            |r: &Request| r.repeat == 1 && r.is_ungated() && (!r.in_reduce || is_narrower && is_along_row(r));
        base != i
            && n.op.is_elementwise()
            && self.costs[i].ops <= MANY_OPS
            && max_numel(of.shape()) == max_numel(n.shape())
            && !is_wider
            && (is_narrower || asked.len() > 1)
            && asked.iter().all(is_once)
    }

    /// Whether on a grid a sum along rows alone asks for it, each element once, and it is made of one value that others ask for at
    /// other places, so that it is stored: reading that takes no more than reading this, which is not stored then.
    fn is_of_one_that_is_stored(&self, i: usize, n: &UOp) -> bool {
        let ([r], Some(_)) = (&self.cut.requests[i][..], &self.target.grid) else { return false };
        let is_summed = r.repeat == 1 && r.is_ungated() && r.in_reduce && is_along_row(r);
        let made_of = |s: &&u32| self.costs[**s as usize].expensive;
        let mut sources: Vec<u32> = self.cut.list.src(i).iter().filter(made_of).copied().collect();
        sources.dedup();
        let [of] = sources[..] else { return false };
        let is_no_wider = self.cut.list.nodes[of as usize].dtype.size() <= n.dtype.size();
        let is_stored = self.cut.requests[of as usize].iter().any(|other| !other.same(r));
        is_summed && n.op.is_elementwise() && n.op.weight() <= AS_A_LOAD && is_no_wider && is_stored
    }

    /// Whether the node is the very value of a tensor-level store.
    fn is_store_value(&self, i: usize) -> bool {
        let rank = self.cut.drafts[self.cut.requests[i][0].kernel as usize].rank;
        self.cut.list.nodes[rank].op == Op::Store && self.cut.list.src(rank)[1] == i as u32
    }

    /// A cheap node is computed again for every request unless that adds up.
    fn memory_or_recompute(&self, i: usize) -> Decision {
        use Decision::{Inlined, Staged};
        let (c, asked) = (&self.costs[i], &self.cut.requests[i]);
        if asked.iter().any(|r| r.check.is_some()) && !c.reads {
            return Staged("an index from data is checked where memory is read");
        }
        let elements = max_numel(self.cut.list.nodes[i].shape()).max(1);
        let (evaluations, space) = self.evaluated(i);
        if evaluations.saturating_mul(4 * c.ops as u64) <= space {
            return Inlined("beside what its kernels do anyway, computing it does not show");
        }
        let in_reduce = asked.iter().any(|r| r.in_reduce);
        let (ops, stored) = (evaluations.saturating_mul(c.ops as u64), space / asked.len().max(1) as u64);
        // random weights are in memory, as those of a saved model are: both are computed with in one order. And the loop of an
        // ordered kernel is walked by few lanes
        let is_ordered = asked.iter().any(|r| self.cut.drafts[r.kernel as usize].ordered.is_some());
        if !c.is_random && !is_ordered && self.is_less_than_a_launch(ops, stored, in_reduce) {
            return Inlined("computing it again takes less than the launch of a kernel that stores it");
        }
        let times = evaluations / elements;
        let prefers = match c.ops {
            0 => false,
            ops if ops <= AS_A_LOAD => times > 1 && asked.len() > MANY_READERS && c.reads,
            ops if ops <= FEW_OPS => times >= MANY_TIMES && (in_reduce || asked.len() > SOME_READERS),
            ops if ops <= MANY_OPS => times > 2,
            _ => times >= 2,
        };
        match prefers {
            true => Staged("its elements would be computed again and again, which costs more than memory"),
            false if times <= 1 => Inlined("each of its elements is computed once, where it is read"),
            false => Inlined("computing its elements again costs less than memory would"),
        }
    }

    /// An expensive node is inlined only where no element of it is computed twice; why it is, or is not.
    fn reduce_joins(&mut self, i: usize, n: &UOp) -> Result<&'static str, &'static str> {
        let [r] = &self.cut.requests[i][..] else {
            return Err("several kernels, or one at several places, read the result of a reduction");
        };
        let d = &self.cut.drafts[r.kernel as usize];
        if !r.is_ungated() {
            return Err("it is read through padding, which would compute the reduction outside it too");
        }
        if d.ordered.is_some() {
            return Err("the loop that reads it carries a value from step to step");
        }
        if d.is_checked && n.op == Op::ReduceAxis {
            return Err("lanes that share a sum leave its store to one of them, and a checked one is of all");
        }
        if self.chains.is_end(i) && (d.gathers || !is_plain(&r.idx)) {
            return Err("a chain of products is walked row by row, and what reads it is not");
        }
        // does it depend on exactly the outer ranges, one element for each iteration?
        let used = r.ranges();
        let outer = d.ranges.iter().take(used.len()).filter_map(|r| r.range_arg()).map(|a| a.id);
        let extents: Vec<UOp> = d.ranges.iter().map(|r| r.extent().clone()).collect();
        let (depth, all) = (used.len(), extents.len());
        let scoped = outer.eq(used) && same_size(&numel(&extents[..depth]), &numel(n.shape()));
        let product = self.costs[i].contracts;
        let why_not = if product && (d.has_full_reduce || d.scope.is_some() || scoped && depth < all)
            || d.sums_product && n.op == Op::ReduceAxis
        {
            Some(
                "a sum of products is walked in tiles, which another reduction's loops would be in the way of",
            )
        } else if scoped && depth < all {
            let parallel = numel(&extents[..depth]).bounds.0 >= self.target.cores() as i128;
            let small = match self.target.grid.is_some() {
                true => self.is_short_row(i, &extents[depth..]),
                false => self.costs[i].work.max(max_numel(&extents)) <= SMALL,
            };
            match (d.has_full_reduce, parallel || small) {
                (true, _) => Some("the kernel that reads it has a reduction over all of its loops already"),
                (_, false) => {
                    Some("its outer loops are too few for all cores, and the kernel would have no others")
                }
                _ => None,
            }
        } else if scoped || r.repeat == 1 && !r.in_reduce {
            d.scope
                .is_some()
                .then_some("the kernel that reads it computes another reduction for its outer loops only")
        } else {
            Some("its elements are read more than once, so the reduction would run more than once")
        };
        if why_not.is_none() {
            let (r, reduces) = (&mut self.cut.requests[i][0], n.op == Op::ReduceAxis);
            let d = &mut self.cut.drafts[r.kernel as usize];
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
        match why_not {
            Some(why_not) => Err(why_not),
            None if scoped && depth < all => {
                Ok("it is reduced once in each of the outer loops of the kernel that reads it")
            }
            None => Ok("the kernel that reads it takes each element as the reduction leaves it"),
        }
    }

    /// Whether each block of a grid may reduce a whole row by itself, for the loops in which it uses the result: the row is short,
    /// and cheap to make, since all blocks that share its loops do so.
    fn is_short_row(&self, i: usize, loops: &[UOp]) -> bool {
        let base = self.costs[i].base as usize;
        let of = &self.cut.list.nodes[base];
        if of.op != Op::ReduceAxis {
            return self.costs[i].work.max(max_numel(loops)) <= ROW_OF_A_BLOCK;
        }
        let row = max_numel(of.input().shape()) / max_numel(of.shape()).max(1);
        let ops = self.costs[self.cut.list.src(base)[0] as usize].ops;
        row.max(max_numel(loops)) <= ROW_OF_A_BLOCK && ops <= MANY_OPS
    }

    /// A scan's result is stored by the loop that carries it, with what is computed from it element by element.
    fn scan_joins(&mut self, i: usize, n: &UOp) -> Result<(), &'static str> {
        let [r] = &self.cut.requests[i][..] else {
            return Err("several kernels, or one at several places, read the result of a scan");
        };
        let d = &mut self.cut.drafts[r.kernel as usize];
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
        fits.then_some(()).ok_or("its readers do not walk it in order, element by element, as a scan does")
    }

    // ---- asking

    /// Ask node `s` for an element; leaves answer at once.
    fn ask(&mut self, s: u32, r: Request) -> Result<Link, Error> {
        let n = self.cut.list.nodes[s as usize].clone();
        Ok(match n.op {
            Op::Const | Op::Variable => Link::Value(n),
            Op::Iota => Link::Value(r.idx[0].cast(n.dtype)),
            Op::Param => Link::Value(r.load(&n, &r.idx[0], &self.cut.drafts[r.kernel as usize].may_be_empty)),
            _ if n.try_shape().is_none() => return Err(Error::malformed(&n, "no shape")),
            _ => {
                let known = &mut self.cut.requests[s as usize];
                let k = known.iter().position(|k| k.same(&r)).unwrap_or_else(|| {
                    // most nodes are asked once
                    known.reserve_exact(known.is_empty() as usize);
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
        let mut recipe = Recipe { kernel: r.kernel, ..Recipe::default() };
        let x = self.cut.list.src(i).first().copied().unwrap_or(0);
        match n.op {
            Op::Contiguous | Op::Detach => recipe.links.push(self.ask(x, r.clone())?),
            Op::ReduceAxis => {
                let Arg::ReduceAxes(_, axes) = &n.arg else { return Err(Error::malformed(n, "no axes")) };
                let mut idx = r.idx.clone();
                for &a in axes {
                    let d = &n.src[0].shape()[a as usize];
                    if d.as_int() != Some(1) {
                        let range = self.cut.drafts[r.kernel as usize].range(d, AxisKind::Reduce);
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
                    Op::Reshape => r.reshaped(n, idx, &self.cut.drafts[r.kernel as usize].may_be_empty),
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
                    // an index from data is checked where memory is read
                    if self.costs[i].reads && !self.costs[self.cut.list.src(i)[k] as usize].reads {
                        down.check = None;
                    }
                    recipe.links.push(self.ask(self.cut.list.src(i)[k], down)?);
                }
            }
            _ => return Err(Error::malformed(n, "not a tensor-level value")),
        }
        Ok(recipe)
    }

    /// The index of the first dim of `x` is a value: until that is built, a variable stands for it.
    fn gather(&mut self, i: usize, n: &UOp, r: &Request) -> Result<Link, Error> {
        let (x, table) = (n.input(), self.cut.list.src(i)[0]);
        let (Arg::Site(site), Some(rows)) = (&n.arg, x.shape().first()) else {
            return Err(Error::malformed(n, "no site or no rows"));
        };
        let rank = n.rows().shape().len();
        let at = self.ask(self.cut.list.src(i)[1], r.at(r.idx[..rank].iter().cloned().collect()))?;
        let row = match &at {
            Link::Value(v) => v.cast(DType::Index),
            Link::Request(..) => {
                self.cut.drafts[r.kernel as usize].gathers = true;
                self.placeholder_index(at.clone(), n.rows().dtype)
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
    fn placeholder_index(&mut self, link: Link, dtype: DType) -> UOp {
        let (lo, hi) = dtype.int_range().unwrap_or((0, 0));
        let clamp = |v: i128| v.clamp(i64::MIN as i128, i64::MAX as i128) as i64;
        if let Link::Request(n, k) = link
            && let Some((v, _)) = self
                .cut
                .from_data
                .iter()
                .find(|(_, l)| matches!(l, Link::Request(m, j) if (*m, *j) == (n, k)))
        {
            return v.clone();
        }
        let v = UOp::variable(&format!("?{}", self.cut.from_data.len()), clamp(lo), clamp(hi));
        self.cut.from_data.push((v.clone(), link));
        v
    }
}

// A value is computed again or stored and loaded, by what its elements cost. The limits were fitted by hand.

/// Operations of an element that cost no more than loading it: such a value is computed wherever it is wanted, unless
/// [`MANY_READERS`] would each load what it is made of.
const AS_A_LOAD: u32 = 2;
/// Operations of an element that are stored only where each is computed [`MANY_TIMES`], and that inside a reduce or for more
/// than [`SOME_READERS`].
const FEW_OPS: u32 = 7;
/// Operations that are done twice rather than stored; above it even once more is too often.
const MANY_OPS: u32 = 47;
/// See [`AS_A_LOAD`].
const MANY_READERS: usize = 16;
/// See [`FEW_OPS`].
const SOME_READERS: usize = 4;
/// See [`FEW_OPS`].
const MANY_TIMES: u64 = 16;

/// Kernels with fewer elements than this run on one thread anyway.
const SMALL: u64 = 16384;

/// Elements of a row that a block of a grid reads twice in less time than a second launch takes.
const ROW_OF_A_BLOCK: u64 = 8192;

/// Whether an index walks the axis of a scan in order: by a range, or because there is one element.
fn is_loop(idx: &Idx, scan: &UOp) -> bool {
    let axis = scan_axis(scan);
    idx[axis].op == Op::Range || scan.shape()[axis].as_int() == Some(1)
}

/// How many elements of a shape a request is for, at most.
fn asked_for(r: &Request, shape: &[UOp]) -> u64 {
    let along = |(i, n): (&UOp, &UOp)| index::values(i).min(max_numel(std::slice::from_ref(n)).max(1));
    r.idx.iter().zip(shape).map(along).fold(1, u64::saturating_mul)
}

/// Whether a reduce asks for elements that lie side by side.
fn is_along_row(r: &Request) -> bool {
    let last = r.idx.last().and_then(|i| i.range_arg());
    last.is_some_and(|a| a.kind == AxisKind::Reduce)
}

/// The axis of a `ScanAxis`.
fn scan_axis(n: &UOp) -> usize {
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
fn check_size(n: &UOp) -> Result<(), Error> {
    let bytes = max_numel(n.shape()).saturating_mul(n.dtype.size() as u64);
    if bytes > i64::MAX as u64 { Err(Error::TooLarge(format!("{n:?}"))) } else { Ok(()) }
}
/// The flat index in memory of the element of a view at `idx`.
fn place(view: &UOp, idx: &[UOp], gate: &mut Option<UOp>) -> Result<UOp, Error> {
    let (mut n, mut idx) = (view, idx.iter().cloned().collect::<Idx>());
    while n.op.is_movement() {
        idx = index::through(n, &idx, gate)?;
        n = n.input();
    }
    match n.op {
        Op::Param | Op::After => Ok(idx.first().cloned().unwrap_or_else(|| UOp::index(0))),
        _ => Err(Error::Target(format!("{n:?}"))),
    }
}
fn is_repeated(view: &UOp) -> bool {
    let mut n = view;
    while n.op.is_movement() {
        if n.op == Op::Expand {
            return true;
        }
        n = &n.src[0];
    }
    false
}
