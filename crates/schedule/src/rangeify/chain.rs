//! Products of products that run as one kernel: attention.
//!
//! ```text
//! s = sum_e q[i, e] k[j, e];  m = max_j s;  l = sum_j exp(s - m);  out = sum_j exp(s - m) / l * v[j, d]
//! ```
//! What lies between the products, `s` and all that is made of it, is as large as queries times keys, and each row of it is
//! used by the results of that row alone. So it stays in the kernel of the last product, which is walked in blocks of rows.
//!
//! Where others read it too, as gradients do, it is computed again in the kernel of each sum that is made of it: on a grid by a matrix
//! unit, which takes less time than memory would, on a CPU in blocks that stay in the cache. So memory grows with queries and keys,
//! never with their product.

use crate::cost::Cost;
use crate::index::max_numel;
use frit_abi::matrix::{MOST_HELD, Runner};
use frit_abi::{Alu, DType, MatrixUnit, Target};
use frit_uop::graph::Numbered;
use frit_uop::symbolic::simplify;
use frit_uop::{Arg, Op, UOp};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of chains before any node is placed.
#[derive(Default)]
pub struct Chains {
    /// What is never stored, by node; empty where there is no chain.
    is_inside: Vec<bool>,
    /// The last product of each, in order.
    ends: Vec<u32>,
}

impl Chains {
    /// All chains of a graph that the target walks in blocks of rows; `users` counts who reads each node.
    pub fn of(list: &Numbered, costs: &[Cost], users: &[u32], target: &Target) -> Chains {
        let mut chains = Chains::default();
        let is_product = |i: usize| costs[i].contracts && is_sum(&list.nodes[i]);
        for i in (0..list.nodes.len()).filter(|i| is_product(*i)) {
            let Some(inside) = inside(list, i, &is_product, users, target) else { continue };
            chains.is_inside.resize(list.nodes.len(), false);
            for k in inside {
                chains.is_inside[k] = true;
                if is_product(k) {
                    chains.keep_factors(list, k);
                }
            }
            chains.ends.push(i as u32);
        }
        chains.share(list, &is_product, target);
        chains.ends.sort_unstable();
        chains
    }

    /// What a product sums is never stored, whatever its factors cost.
    fn keep_factors(&mut self, list: &Numbered, mut product: usize) {
        while list.nodes[product].op != Op::Mul {
            product = list.src(product)[0] as usize;
            self.is_inside[product] = true;
        }
    }

    /// Products that are computed again in every sum which is made of them, with all that lies between.
    fn share(&mut self, list: &Numbered, is_product: &dyn Fn(usize) -> bool, target: &Target) {
        let is_scores = |i: usize| is_product(i) && is_scores(&list.nodes[i], target) && !self.is_inside(i);
        let mut is_first: Vec<bool> = (0..list.nodes.len()).map(is_scores).collect();
        while is_first.contains(&true) {
            let between = Between::of(list, &mut is_first, is_product, target);
            if between.given_up.is_empty() {
                self.is_inside.resize(list.nodes.len(), false);
                for i in (0..list.nodes.len()).filter(|i| between.is_inside(*i)) {
                    self.is_inside[i] = true;
                    if is_first[i] {
                        self.keep_factors(list, i);
                    }
                }
                self.ends.extend(between.ends);
                break;
            }
            between.given_up.iter().for_each(|i| is_first[*i] = false);
        }
    }
    /// Whether a node stays in the kernel of the product that it is for.
    pub fn is_inside(&self, i: usize) -> bool {
        self.is_inside.get(i) == Some(&true)
    }
    /// Whether a node is the last product of a chain.
    pub fn is_end(&self, i: usize) -> bool {
        self.ends.binary_search(&(i as u32)).is_ok()
    }
}

/// The axis that a reduce closes, if it is one.
fn axis(n: &UOp) -> Option<(Alu, &UOp)> {
    match &n.arg {
        Arg::ReduceAxes(op, axes) if n.op == Op::ReduceAxis && axes.len() == 1 => {
            Some((*op, &n.src[0].shape()[axes[0] as usize]))
        }
        _ => None,
    }
}

/// The dims that are not 1.
fn long(n: &UOp) -> Vec<usize> {
    (0..n.shape().len()).filter(|d| n.shape()[*d].as_int() != Some(1)).collect()
}

/// Which dim a reduce closes, if it closes one.
fn reduced_dim(n: &UOp) -> Option<usize> {
    match &n.arg {
        Arg::ReduceAxes(_, axes) if axes.len() == 1 => Some(axes[0] as usize),
        _ => None,
    }
}

/// Which dim of what a node is made of becomes this one, where it keeps axes.
fn dim_below(n: &UOp, dim: usize) -> Option<usize> {
    match &n.arg {
        Arg::Axes(axes) if n.op == Op::Permute => axes.get(dim).map(|a| *a as usize),
        _ if n.op == Op::Reshape => {
            let at = long(n).iter().position(|d| *d == dim)?;
            long(n.input()).get(at).copied()
        }
        _ => Some(dim),
    }
}

/// Whether a size, which may be a variable's, is a multiple of a number.
fn is_multiple(size: &UOp, of: usize) -> bool {
    simplify(&size.modulo(&UOp::index(of as i64))).as_int() == Some(0)
}

/// Whether it sums along one axis.
fn is_sum(n: &UOp) -> bool {
    axis(n).is_some_and(|(op, _)| op == Alu::Add)
}

/// Whether it moves whole axes, if it moves anything.
fn keeps_axes(n: &UOp) -> bool {
    let long =
        |x: &UOp| -> Vec<UOp> { x.shape().iter().filter(|d| d.as_int() != Some(1)).cloned().collect() };
    match n.op {
        Op::Permute | Op::Expand | Op::Detach => true,
        Op::Reshape => long(n) == long(&n.src[0]),
        _ => n.op.is_elementwise(),
    }
}

/// The nodes between the last product and those that it is made of, which no one else reads.
fn inside(
    list: &Numbered,
    end: usize,
    is_product: &dyn Fn(usize) -> bool,
    users: &[u32],
    target: &Target,
) -> Option<Vec<usize>> {
    let (_, length) = axis(&list.nodes[end])?;
    let first = list.src(end)[0] as usize;
    // users come before what they use, so each node is looked at when all its uses in the chain are known; beside their number,
    // which of its dims the product sums over
    let summed = reduced_dim(&list.nodes[end]);
    let mut uses: BTreeMap<usize, (u32, Option<usize>)> = [(first, (1, summed))].into_iter().collect();
    let mut found = vec![];
    while let Some((i, (count, dim))) = uses.pop_last() {
        let n = &list.nodes[i];
        // columns may be as many as a row is long; of what was reduced and reshaped the dim is not known
        let is_along = dim.is_none() || reduced_dim(n) == dim;
        let reduces_row = is_along && axis(n).is_some_and(|(_, len)| len == length);
        if count < users[i] || !(keeps_axes(n) || reduces_row || is_product(i)) {
            continue;
        }
        found.push(i);
        if !is_product(i) {
            let below = dim.and_then(|d| dim_below(n, d));
            for s in values(list, i) {
                // one that is read both as it is and transposed has no rows of its own
                let (count, known) = uses.entry(s).or_insert((0, below));
                *count += u32::from(*known == below);
            }
        }
    }
    // those that have a product below them
    let mut inside: Vec<usize> = vec![];
    for &i in found.iter().rev() {
        let below = |s: usize| inside.binary_search(&s).is_ok();
        if is_product(i) || values(list, i).any(below) {
            inside.push(i);
        }
    }
    let is_inside = |i: usize| inside.binary_search(&i).is_ok();
    // one factor comes from inside, the other does not
    let mut product = first;
    while matches!(list.nodes[product].op, Op::Permute | Op::Reshape) {
        product = list.src(product)[0] as usize;
    }
    let heavy = values(list, product).filter(|s| is_inside(*s)).count();
    let of_rows = inside.iter().filter(|i| !is_product(**i)).map(|i| &list.nodes[*i]);
    let of_rows = of_rows.filter(|n| n.op == Op::ReduceAxis);
    let rows = of_rows.map(|n| max_numel(n.shape())).max();
    // a grid's block of rows may walk along any number of keys
    let is_known = |d: &UOp| d.as_int().is_some() || (target.grid.is_some() && d == length);
    let is_fixed = |i: usize| list.nodes[i].shape().iter().all(is_known);
    let is_busy = rows.is_some_and(|rows| rows >= 2 * target.threads as u64);
    let fits = heavy == 1 && is_busy && inside.iter().chain([&end]).all(|i| is_fixed(*i));
    let is_taken = || target.grid.is_none() || is_on_a_unit(list, end, &inside, is_product, target);
    if !fits || !is_taken() {
        return None;
    }
    Some(inside)
}

/// What is made of some products, element by element, up to the sums that are made of that.
struct Between {
    /// Of a node inside, which of its dims are rows and keys of scores, in ascending order.
    dims: Vec<Option<[usize; 2]>>,
    ends: Vec<u32>,
    /// Products that are wanted in memory.
    given_up: Vec<usize>,
}

impl Between {
    fn of(
        list: &Numbered,
        is_first: &mut [bool],
        is_product: &dyn Fn(usize) -> bool,
        target: &Target,
    ) -> Between {
        let mut found = Between { dims: vec![None; list.nodes.len()], ends: vec![], given_up: vec![] };
        for (i, n) in list.nodes.iter().enumerate() {
            let is_made = list.src(i).iter().any(|s| found.dims[*s as usize].is_some());
            is_first[i] &= !is_made;
            if is_first[i] {
                found.dims[i] = last_long(n);
            } else if !is_made {
                continue;
            } else if let Some(dims) = found.moved(list, i) {
                found.dims[i] = Some(dims);
            } else if found.is_end(list, i, is_product(i), target) {
                found.ends.push(i as u32);
            } else {
                list.src(i).iter().for_each(|s| found.give_up(list, *s as usize, is_first));
            }
        }
        found
    }
    fn is_inside(&self, i: usize) -> bool {
        self.dims[i].is_some()
    }

    /// Which dims of a node are rows and keys of what it is made of, if it only moves or computes element by element.
    fn moved(&self, list: &Numbered, i: usize) -> Option<[usize; 2]> {
        let n = &list.nodes[i];
        let mut dims = values(list, i).filter_map(|s| self.dims[s]);
        let first = dims.next()?;
        if n.op.is_elementwise() {
            return dims.all(|d| d == first).then_some(first);
        }
        let mut to = match (n.op, &n.arg) {
            (Op::Permute, Arg::Axes(axes)) => first
                .map(|d| axes.iter().position(|a| *a as usize == d))
                .into_iter()
                .collect::<Option<Vec<_>>>()?,
            (Op::Reshape, _) if keeps_axes(n) => {
                let (from, to) = (long(n.input()), long(n));
                first
                    .iter()
                    .map(|d| Some(to[from.iter().position(|f| f == d)?]))
                    .collect::<Option<Vec<_>>>()?
            }
            (Op::Expand | Op::Detach, _) => first.to_vec(),
            _ => return None,
        };
        to.sort_unstable();
        to.try_into().ok()
    }

    /// Whether a kernel walked in blocks of rows gives a sum of what is inside, or of its products with something else.
    fn is_end(&self, list: &Numbered, i: usize, is_product: bool, target: &Target) -> bool {
        let (n, body) = (&list.nodes[i], list.src(i)[0] as usize);
        let Arg::ReduceAxes(_, axes) = &n.arg else { return false };
        let is_along = |d: &[usize; 2]| axes.len() == 1 && d.contains(&(axes[0] as usize));
        let is_wide = if target.grid.is_some() { n.dtype == DType::F32 } else { n.dtype.is_float() };
        if n.op != Op::ReduceAxis || !is_wide || !self.dims[body].is_some_and(|d| is_along(&d)) {
            return false;
        }
        if !is_product {
            return own_dims(list, body, |s| self.is_inside(s)).is_empty();
        }
        let mut at = body;
        while matches!(list.nodes[at].op, Op::Permute | Op::Reshape) {
            at = list.src(at)[0] as usize;
        }
        let mut inside = values(list, at).filter(|s| self.is_inside(*s));
        let (Some(factor), None) = (inside.next(), inside.next()) else { return false };
        let types = factor_types(n.input());
        let takes = |u: &MatrixUnit, columns: i64| {
            multiplies(u, &types) && columns % u.size[1] as i64 == 0 && columns <= MOST_HELD as i64
        };
        match own_dims(list, factor, |s| self.is_inside(s))[..] {
            [columns] => target.grid.is_none() || target.matrix.iter().any(|u| takes(u, columns)),
            _ => false,
        }
    }

    /// The products that a node is made of are stored after all.
    fn give_up(&mut self, list: &Numbered, node: usize, is_first: &[bool]) {
        let mut stack = vec![node];
        let mut seen = BTreeSet::new();
        while let Some(i) = stack.pop() {
            if !self.is_inside(i) || !seen.insert(i) {
                continue;
            }
            match is_first[i] {
                true => self.given_up.push(i),
                false => stack.extend(values(list, i)),
            }
        }
    }
}

/// The extents over which a value that is inside was repeated since it was computed.
fn own_dims(list: &Numbered, mut at: usize, is_inside: impl Fn(usize) -> bool) -> Vec<i64> {
    let mut own = vec![];
    while list.nodes[at].op.is_movement() && is_inside(list.src(at)[0] as usize) {
        let (n, x) = (&list.nodes[at], list.nodes[at].input());
        if n.op == Op::Expand {
            let is_new = |(a, b): &(&UOp, &UOp)| a != b;
            own.extend(n.shape().iter().zip(x.shape()).filter(is_new).map(|(a, _)| a.as_int().unwrap_or(0)));
        }
        at = list.src(at)[0] as usize;
    }
    own
}

/// The last two dims that are not 1.
fn last_long(n: &UOp) -> Option<[usize; 2]> {
    long(n).last_chunk().copied()
}

/// Scores have as many elements as this times those of each factor: below it memory would do as well. A CPU's products take as long as
/// its memory does.
const GROWS_ON_GRID: i64 = 4;
const GROWS_ON_CPU: i64 = 16;

/// Whether scores, which are a product, are computed again rather than stored: over few steps, and on a grid of small floats that a
/// unit takes in whole parts.
fn is_scores(n: &UOp, target: &Target) -> bool {
    let is_fixed = n.shape().iter().all(|d| d.as_int().is_some());
    let width = axis(n).filter(|_| is_fixed).and_then(|(_, w)| w.as_int());
    let (Some(width), Some(dims)) = (width, last_long(n)) else { return false };
    let [rows, keys] = dims.map(|d| n.shape()[d].as_int().unwrap_or(0));
    let least = if target.grid.is_some() { GROWS_ON_GRID } else { GROWS_ON_CPU } * width;
    if rows.min(keys) < least {
        return false;
    }
    if target.grid.is_none() {
        return n.dtype.is_float();
    }
    let types = factor_types(n.input());
    let takes = |u: &MatrixUnit| {
        let [m, _, k] = u.size.map(|s| s as i64);
        let is_whole = |n: i64| n % m == 0 && n % k == 0;
        multiplies(u, &types)
            && is_whole(rows)
            && is_whole(keys)
            && width % k == 0
            && width <= MOST_HELD as i64
    };
    n.dtype == DType::F32 && target.matrix.iter().any(takes)
}

/// Whether a grid has a matrix unit for both products, with rows, keys and results in whole parts of it.
fn is_on_a_unit(
    list: &Numbered,
    end: usize,
    inside: &[usize],
    is_product: &dyn Fn(usize) -> bool,
    target: &Target,
) -> bool {
    let mut products = inside.iter().filter(|i| is_product(**i)).map(|i| &list.nodes[*i]);
    let (Some(first), None) = (products.next(), products.next()) else { return false };
    let last = &list.nodes[end];
    let (Some((_, keys)), Some((_, width))) = (axis(last), axis(first)) else { return false };
    let long =
        |n: &UOp| -> Vec<UOp> { n.shape().iter().filter(|d| d.as_int() != Some(1)).cloned().collect() };
    let (of_first, of_last) = (long(first), long(last));
    let (Some([rows, of_row]), Some(columns)) = (of_first.last_chunk(), of_last.last()) else { return false };
    let Some(held) = width.as_int().zip(columns.as_int()).map(|(w, c)| w.max(c)) else { return false };
    let types: Vec<Option<DType>> = [first, last].into_iter().flat_map(|n| factor_types(n.input())).collect();
    let takes = |u: &MatrixUnit| {
        let [m, n, k] = u.size;
        multiplies(u, &types)
            && of_row == keys
            && is_multiple(rows, m)
            && is_multiple(keys, k)
            && is_multiple(width, k)
            && is_multiple(columns, n)
            && held <= MOST_HELD as i64
    };
    target.matrix.iter().any(takes)
}

/// Whether a unit that warps run multiplies factors of these types.
fn multiplies(unit: &MatrixUnit, types: &[Option<DType>]) -> bool {
    let is_taken = |t: &Option<DType>| t.is_some_and(|t| unit.operands == [t; 2]);
    !types.is_empty() && types.iter().all(is_taken) && matches!(unit.runner, Runner::Warp(_))
}

/// Of what types the factors of a product are, before they were widened.
fn factor_types(x: &UOp) -> Vec<Option<DType>> {
    let mut x = x;
    while matches!(x.op, Op::Permute | Op::Reshape) {
        x = x.input();
    }
    let narrow = |mut x: &UOp| {
        while x.op.is_movement() {
            x = x.input();
        }
        (x.op == Op::Cast && x.input().dtype.is_small_float()).then(|| x.input().dtype)
    };
    x.src.iter().map(narrow).collect()
}

/// Those sources that values come from.
fn values(list: &Numbered, i: usize) -> impl Iterator<Item = usize> {
    let n = &list.nodes[i];
    let count = if n.op.is_elementwise() { n.src.len() } else { 1 };
    list.src(i).iter().take(count).map(|s| *s as usize)
}
