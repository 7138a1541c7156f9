//! Reduces and scans become register variables carried over loops.
//!
//! ```text
//! Reduce(x, r)   ->   acc = identity;  for r { acc = acc (+) x };  acc
//! Scan(x, r)     ->   acc = identity;  for r { acc = acc (+) x;  … acc … }
//! Reduce(x, y, r) of a fold   ->   a, b = identity;  for r { a, b = merge((a, b), (x, y)) };  a or b
//! ```
//! A product meets its sum in one fused multiply-add.

use super::place_of;
use crate::error::Error;
use crate::kernel::ranges;
use crate::pass::Ctx;
use frit_abi::Target;
use frit_uop::graph::Numbered;
use frit_uop::rewrite::replaced;
use frit_uop::symbolic::simplify;
use frit_uop::{Alu, Arg, DType, Merge, Op, Scalar, Space, UOp};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The pass. Leaves no `Reduce` and no `Scan` behind.
pub fn reduce(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    let graph = Numbered::of(sink);
    let order = &graph.nodes;
    if !order.iter().any(|n| matches!(n.op, Op::Reduce | Op::Scan)) {
        return Ok(sink.clone());
    }
    let all: FxHashMap<u32, UOp> =
        ranges::all(order).into_iter().filter_map(|r| Some((r.range_arg()?.id, r))).collect();
    // copies of a reduce share its loops, so all stand where any of them must: one may have lost its body to a mask
    let mut around: FxHashMap<u32, SmallVec<[u32; 6]>> = FxHashMap::default();
    for n in order.iter().filter(|n| n.op == Op::Reduce) {
        for id in ranges::closed(n) {
            let ids = around.entry(id).or_default();
            ids.extend(n.ranges.iter().copied());
            ids.sort_unstable();
            ids.dedup();
        }
    }
    // a scan begins anew in every round of the loops around its own, though it may not look at them
    for (id, others) in ranges::around_scans(order) {
        around.entry(id).or_default().extend(others);
    }
    let mut folds: FxHashMap<(Merge, SmallVec<[UOp; 4]>), Vec<UOp>> = FxHashMap::default();
    let mut made = |n: &UOp, src: SmallVec<[UOp; 4]>| match (n.op, &n.arg) {
        (Op::Reduce, Arg::Fold(fold)) => {
            let key = (fold.merge, src.clone());
            if !folds.contains_key(&key) {
                let all = Carried::of(n, &src, &all, &around).fold(fold.merge, ctx)?;
                folds.insert(key.clone(), all);
            }
            Ok(folds[&key][place_of(n)].clone())
        }
        (Op::Reduce | Op::Scan, Arg::Alu(alu)) => {
            Carried::of(n, &src, &all, &around).accumulate(*alu, n.op == Op::Scan, ctx)
        }
        _ => Ok(n.with_src(src)),
    };
    let done = graph.map(|n, src| {
        let new: Result<UOp, Error> = made(n, src);
        if matches!(n.op, Op::Reduce | Op::Scan) {
            new.iter().for_each(|new| replaced("what an accumulator holds after its loops", n, new));
        }
        new
    })?;
    Ok(done.last().unwrap_or(sink).clone())
}

/// What is carried over loops.
struct Carried {
    values: Vec<UOp>,
    loops: Vec<UOp>,
    /// The loops that it begins anew in.
    outer: Vec<UOp>,
    /// Lanes of its register variables.
    lanes: usize,
}

impl Carried {
    fn of(
        n: &UOp,
        src: &[UOp],
        all: &FxHashMap<u32, UOp>,
        around: &FxHashMap<u32, SmallVec<[u32; 6]>>,
    ) -> Carried {
        let (loops, values): (Vec<UOp>, Vec<UOp>) = src.iter().cloned().partition(|s| s.op == Op::Range);
        let closed: Vec<u32> = loops.iter().filter_map(|r| Some(r.range_arg()?.id)).collect();
        let mut outer: SmallVec<[u32; 6]> =
            n.ranges.iter().copied().filter(|id| !closed.contains(id)).collect();
        outer.extend(closed.iter().filter_map(|id| around.get(id)).flatten().copied());
        outer.sort_unstable();
        outer.dedup();
        let outer = outer.iter().filter_map(|id| all.get(id).cloned()).collect();
        let lanes = values.iter().map(|x| x.lanes()).max().unwrap_or(1);
        Carried { values, loops, outer, lanes }
    }

    /// A register variable that begins as `identity`; what it is inside the loops.
    fn variable(&self, identity: Scalar, dtype: DType, ctx: &mut Ctx) -> (UOp, UOp) {
        let acc = UOp::define(Space::Reg, ctx.fresh(), self.lanes, dtype);
        let init = acc.after(self.outer.iter().cloned()).store(&self.wide(&UOp::constant(identity, dtype)));
        let inside = acc.after([init].into_iter().chain(self.loops.iter().cloned()));
        (acc, inside)
    }

    /// In every lane.
    fn wide(&self, x: &UOp) -> UOp {
        match (self.lanes, x.lanes()) {
            (2.., 1) => UOp::stack((0..self.lanes).map(|_| x.clone())),
            _ => x.clone(),
        }
    }

    fn accumulate(&self, alu: Alu, is_scan: bool, ctx: &mut Ctx) -> Result<UOp, Error> {
        let dtype = self.values[0].dtype;
        let identity = Scalar::identity(alu, dtype)
            .ok_or_else(|| Error::Kernel(format!("{alu:?} of {dtype} has no identity")))?;
        if self.loops.is_empty() {
            return Ok(accumulate(alu, &self.values[0], &self.values[1..], ctx.target));
        }
        let (acc, inside) = self.variable(identity, dtype, ctx);
        let update = inside.store(&accumulate(alu, &read(&inside), &self.values, ctx.target));
        let done = if is_scan { update } else { update.end(self.loops.iter().cloned()) };
        Ok(read(&acc.after([done])))
    }

    /// All that a fold carries, once its loops are done.
    fn fold(&self, merge: Merge, ctx: &mut Ctx) -> Result<Vec<UOp>, Error> {
        let mut variables = vec![];
        for (i, x) in self.values.iter().enumerate() {
            let identity = merge.identity(i, x.dtype);
            let identity = identity.ok_or_else(|| Error::Kernel(format!("{merge:?} of {}", x.dtype)))?;
            variables.push(self.variable(identity, x.dtype, ctx));
        }
        let before = variables.iter().map(|(_, inside)| read(inside)).collect();
        let after = merge.merge(&[before, self.values.clone()]);
        let after: Vec<UOp> = after.iter().map(|x| fused(x, ctx.target)).collect();
        // all at once: each is computed from what the others were
        let stores = variables.iter().zip(&after).map(|((_, v), new)| v.store(&self.wide(&simplify(new))));
        let done = UOp::sink(stores.collect::<Vec<_>>()).end(self.loops.iter().cloned());
        Ok(variables.iter().map(|(acc, _)| read(&acc.after([done.clone()]))).collect())
    }
}

/// A sum of products of floats that rounds once less, where the target can.
fn fused(x: &UOp, target: &Target) -> UOp {
    let product = |n: &&UOp| n.op == Op::Mul;
    match (x.op, x.src.iter().find(product)) {
        (Op::Add, Some(p)) if x.dtype.is_float() && target.supports(Alu::MulAcc, x.dtype) => {
            let other = if *p == x.src[0] { &x.src[1] } else { &x.src[0] };
            UOp::alu(Alu::MulAcc, &[&p.src[0], &p.src[1], other])
        }
        _ => x.clone(),
    }
}

/// What a register variable holds.
fn read(variable: &UOp) -> UOp {
    UOp::new(Op::Load, variable.dtype, [variable.clone()], Arg::None)
}

/// `acc (+) x0 (+) x1 …`, in this order; of a sum of two products each is added by itself, since that is one operation.
fn accumulate(alu: Alu, acc: &UOp, parts: &[UOp], target: &Target) -> UOp {
    let fused = alu == Alu::Add && acc.dtype.is_float() && target.supports(Alu::MulAcc, acc.dtype);
    let mul_acc = |acc: &UOp, p: &UOp| UOp::alu(Alu::MulAcc, &[&p.src[0], &p.src[1], acc]);
    parts.iter().fold(acc.clone(), |acc, p| match p.op {
        Op::Matrix => p.with_src(p.src[..2].iter().cloned().chain([acc]).collect()),
        Op::Mul if fused => mul_acc(&acc, p),
        Op::Add if fused && p.src.iter().all(|x| x.op == Op::Mul) => {
            p.src.iter().fold(acc, |acc, p| mul_acc(&acc, p))
        }
        _ => acc.bin(alu, p),
    })
}
