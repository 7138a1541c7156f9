//! What each node of the tensor graph costs to compute again, known before any decision is made.

use crate::index::max_numel;
use frit_uop::graph::Numbered;
use frit_uop::{Op, UOp};
use smallvec::SmallVec;

/// Operations of a kernel that follow each other, and of all that is put together in one, at most: what a compiler takes grows
/// with them, and memory is little beside so many.
pub const MOST_OPS: u32 = 2048;

/// Facts about a node's cone: what is computed for one element if nothing below is stored.
#[derive(Clone, Copy, Default, Debug)]
pub struct Cost {
    /// A reduce or scan is in the cone and no repetition (an `Expand`, a scalar that is broadcast) lies between: the
    /// node must be computed once for each element, never again.
    pub expensive: bool,
    /// Operations for one element, reduces not counted; saturating.
    pub ops: u32,
    /// Those of them that follow each other, since memory was read or a reduce ended; saturating.
    pub depth: u32,
    /// Whether any memory is read.
    pub reads: bool,
    /// A reduce or scan is in the cone, however often its result is repeated.
    pub sums: bool,
    /// Random numbers are made in the cone.
    pub is_random: bool,
    /// Elements of the largest tensor in the cone.
    pub work: u64,
    /// Of an expensive node, the one that all of it is made of element by element: a reduce, or what one was narrowed to.
    pub base: u32,
    /// It is a product of values that are each repeated many times, as in a matrix product or a convolution, moved or under a
    /// mask, as in the gradient of a strided one.
    pub is_product: bool,
    /// It reduces such a product.
    pub contracts: bool,
}

/// Each factor of a product is used at least so many times where its sum is worth a kernel that is walked for it alone.
const REUSE: u64 = 8;

/// Whether a value is repeated many times: the part of it that is, where it was narrowed first.
fn is_reused(x: &UOp) -> bool {
    let all = max_numel(x.shape());
    let (mut least, mut x) = (all, x);
    while x.op.is_movement() || x.op == Op::Cast {
        x = x.input();
        least = least.min(max_numel(x.shape()));
    }
    least.saturating_mul(REUSE) <= all
}

/// Whether source `s` is repeated where `n` uses it.
pub fn repeats(n: &UOp, s: &UOp) -> bool {
    n.op.is_elementwise() && s.shape().is_empty() && !n.shape().is_empty()
}

/// The facts of every node, in the order of the list. An expensive node that is certain to be stored,
/// because it is wanted at different indices, is only a read for its users.
pub fn costs(list: &Numbered, surely_staged: impl Fn(usize) -> bool) -> Vec<Cost> {
    let nodes = &list.nodes;
    let mut all: Vec<Cost> = Vec::with_capacity(nodes.len());
    for (i, n) in nodes.iter().enumerate() {
        let src = list.src(i);
        let of = |k: usize| {
            let c = all[src[k] as usize];
            let stored =
                c.expensive && !nodes[src[k] as usize].op.is_movement() && surely_staged(src[k] as usize);
            if stored { Cost { reads: true, sums: true, work: c.work, ..Cost::default() } } else { c }
        };
        let work = max_numel(n.shape());
        let is_product = match n.op {
            // of what is repeated, or sums and products of such products, as those of blocks that have a scale
            Op::Mul | Op::Dot4 | Op::Add => {
                let wide = || n.src.iter().zip(src).filter(|(x, _)| !repeats(n, x));
                let is_of_products = || wide().any(|(_, s)| all[*s as usize].is_product);
                let multiplies = || n.op != Op::Add && wide().count() > 1;
                wide().all(|(x, s)| is_reused(x) || all[*s as usize].is_product)
                    && (is_of_products() || multiplies())
            }
            Op::Cast | Op::Shl => all[src[0] as usize].is_product,
            Op::Permute | Op::Reshape | Op::Shrink | Op::Flip => all[src[0] as usize].is_product,
            Op::Where if n.if_false().as_scalar().is_some_and(|z| z.as_f64() == 0.0) => {
                all[src[1] as usize].is_product
            }
            _ => false,
        };
        let sums = match n.op {
            Op::ReduceAxis | Op::ScanAxis => true,
            Op::Param | Op::After | Op::Contiguous | Op::Scatter => false,
            _ => src.iter().any(|s| all[*s as usize].sums),
        };
        let contracts = n.op == Op::ReduceAxis && all[src[0] as usize].is_product;
        let c = match n.op {
            Op::Param | Op::After | Op::Contiguous | Op::Scatter => {
                Cost { reads: true, work, ..Cost::default() }
            }
            Op::ReduceAxis | Op::ScanAxis => {
                let work = work.max(of(0).work);
                Cost { expensive: true, ops: 1, reads: true, work, base: i as u32, ..Cost::default() }
            }
            Op::Gather => {
                let (x, i) = (of(0), of(1));
                Cost {
                    expensive: false,
                    ops: x.ops.saturating_add(i.ops).saturating_add(2),
                    depth: x.depth.max(i.depth),
                    reads: true,
                    is_random: x.is_random,
                    work,
                    ..Cost::default()
                }
            }
            Op::Expand => Cost { expensive: false, work, ..of(0) },
            o if o.is_movement() => Cost { work: work.max(of(0).work), ..of(0) },
            o if o.is_elementwise() => {
                let is_random = o == Op::Threefry;
                let mut c = Cost { ops: o.weight(), work, base: i as u32, is_random, ..Cost::default() };
                let (mut reading, mut bases) = (0, SmallVec::<[u32; 3]>::new());
                for (k, s) in n.src.iter().enumerate() {
                    let f = of(k);
                    c.ops = c.ops.saturating_add(f.ops);
                    c.depth = c.depth.max(f.depth);
                    if f.expensive && !repeats(n, s) {
                        c.expensive = true;
                        bases.push(f.base);
                    }
                    reading += f.reads as u32;
                    c.is_random |= f.is_random;
                    c.work = c.work.max(f.work);
                }
                c.depth = c.depth.saturating_add(o.weight());
                // one read is paid anyway
                c.ops = c.ops.saturating_add(reading.saturating_sub(1));
                c.reads = reading > 0;
                let is_narrowed = o == Op::Cast && n.dtype.size() < n.input().dtype.size();
                if !is_narrowed && bases.windows(2).all(|b| b[0] == b[1]) {
                    c.base = bases.first().copied().unwrap_or(c.base);
                }
                c
            }
            _ => Cost { work, ..Cost::default() },
        };
        all.push(Cost { is_product, contracts, sums, ..c });
    }
    all
}
