//! Products of products that run as one kernel: attention.
//!
//! ```text
//! s = sum_e q[i, e] k[j, e];  m = max_j s;  l = sum_j exp(s - m);  out = sum_j exp(s - m) / l * v[j, d]
//! ```
//! What lies between the products, `s` and all that is made of it, is as large as queries times keys, and each row of it is
//! used by the results of that row alone. So it stays in the kernel of the last product, which is walked in blocks of rows.

use crate::cost;
use crate::index::max_numel;
use frit_abi::matrix::{MOST_HELD, Runner};
use frit_abi::{Alu, DType, MatrixUnit, Target};
use frit_uop::graph::Numbered;
use frit_uop::{Arg, Op, UOp};
use std::collections::BTreeMap;

/// What is known of chains before any node is placed.
#[derive(Default)]
pub struct Chains {
    /// What is never stored, by node; empty where there is no chain.
    is_inside: Vec<bool>,
    /// The last product of each.
    ends: Vec<u32>,
}

impl Chains {
    /// All chains of a graph that the target walks in blocks of rows; `users` counts who reads each node.
    pub fn of(list: &Numbered, users: &[u32], target: &Target) -> Chains {
        let mut chains = Chains::default();
        let products = list.nodes.iter().enumerate().filter(|(_, n)| is_product(n));
        for (i, _) in products {
            let Some(inside) = inside(list, i, users, target) else { continue };
            chains.is_inside.resize(list.nodes.len(), false);
            inside.iter().for_each(|k| chains.is_inside[*k] = true);
            chains.ends.push(i as u32);
        }
        chains
    }
    /// Whether a node stays in the kernel of the product that it is for.
    pub fn is_inside(&self, i: usize) -> bool {
        self.is_inside.get(i) == Some(&true)
    }
    /// Whether a node is the last product of a chain.
    pub fn is_end(&self, i: usize) -> bool {
        self.ends.contains(&(i as u32))
    }
}

/// The axis that a reduce closes, if it is one.
fn axis(n: &UOp) -> Option<(Alu, i64)> {
    match &n.arg {
        Arg::ReduceAxes(op, axes) if n.op == Op::ReduceAxis && axes.len() == 1 => {
            Some((*op, n.src[0].shape()[axes[0] as usize].as_int()?))
        }
        _ => None,
    }
}

fn is_product(n: &UOp) -> bool {
    axis(n).is_some_and(|(op, _)| op == Alu::Add) && cost::is_contraction(&n.src[0])
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
fn inside(list: &Numbered, end: usize, users: &[u32], target: &Target) -> Option<Vec<usize>> {
    let (_, length) = axis(&list.nodes[end])?;
    let first = list.src(end)[0] as usize;
    // users come before what they use, so each node is looked at when all its uses in the chain are known
    let mut uses: BTreeMap<usize, u32> = [(first, 1)].into_iter().collect();
    let mut found = vec![];
    while let Some((i, count)) = uses.pop_last() {
        let n = &list.nodes[i];
        let reduces_row = axis(n).is_some_and(|(_, len)| len == length);
        if count < users[i] || !(keeps_axes(n) || reduces_row || is_product(n)) {
            continue;
        }
        found.push(i);
        if !is_product(n) {
            values(list, i).for_each(|s| *uses.entry(s).or_default() += 1);
        }
    }
    // those that have a product below them
    let mut inside: Vec<usize> = vec![];
    for &i in found.iter().rev() {
        let below = |s: usize| inside.binary_search(&s).is_ok();
        if is_product(&list.nodes[i]) || values(list, i).any(below) {
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
    let of_rows = inside.iter().map(|i| &list.nodes[*i]).filter(|n| n.op == Op::ReduceAxis && !is_product(n));
    let rows = of_rows.map(|n| max_numel(n.shape())).max();
    let is_fixed = |i: usize| list.nodes[i].shape().iter().all(|d| d.as_int().is_some());
    let is_busy = rows.is_some_and(|rows| rows >= 2 * target.threads as u64);
    let fits = heavy == 1 && is_busy && inside.iter().chain([&end]).all(|i| is_fixed(*i));
    let is_taken = || target.grid.is_none() || is_on_a_unit(list, end, &inside, target);
    if !fits || !is_taken() {
        return None;
    }
    // what is summed is never stored, whatever its factors cost
    let products: Vec<usize> = inside.iter().copied().filter(|i| is_product(&list.nodes[*i])).collect();
    for mut i in products {
        while list.nodes[i].op != Op::Mul {
            i = list.src(i)[0] as usize;
            inside.push(i);
        }
    }
    Some(inside)
}

/// Whether a grid has a matrix unit for both products, with rows, keys and results in whole parts of it.
fn is_on_a_unit(list: &Numbered, end: usize, inside: &[usize], target: &Target) -> bool {
    let mut products = inside.iter().map(|i| &list.nodes[*i]).filter(|n| is_product(n));
    let (Some(first), None) = (products.next(), products.next()) else { return false };
    let last = &list.nodes[end];
    let (Some((_, keys)), Some((_, width))) = (axis(last), axis(first)) else { return false };
    let long =
        |n: &UOp| -> Vec<i64> { n.shape().iter().filter_map(|d| d.as_int()).filter(|d| *d != 1).collect() };
    let (of_first, of_last) = (long(first), long(last));
    let (Some([rows, of_row]), Some(columns)) = (of_first.last_chunk(), of_last.last()) else { return false };
    let types: Option<Vec<DType>> = [first, last].into_iter().flat_map(|n| factor_types(n.input())).collect();
    let Some(types) = types else { return false };
    let takes = |u: &MatrixUnit| {
        let [m, n, k] = u.size.map(|s| s as i64);
        types.len() == 4
            && types.iter().all(|t| u.operands == [*t; 2])
            && matches!(u.runner, Runner::Warp(_))
            && of_row == &keys
            && rows % m == 0
            && keys % k == 0
            && width % k == 0
            && columns % n == 0
            && width.max(*columns) <= MOST_HELD as i64
    };
    target.matrix.iter().any(takes)
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
