//! Gradients as rules on the tensor graph.
//!
//! ```text
//! loss graph + seed  ->  for each node, users first: gradient of the node -> gradients of its sources
//! ```
//!
//! What comes out is graph again, so gradients of gradients are the same walk. A `()` source of a larger node was
//! broadcast, so its gradient is a sum. Masks are `where`, never a multiplication. Ties of max and min share the
//! gradient equally, but in a pool the first has it. Rounding passes a gradient of zero; comparisons, integers and `detach` end the way.

mod axes;
mod carry;
mod loops;
mod named;
mod rows;
mod rules;
mod softmax;
mod windows;

pub(crate) use carry::movement_back;

use crate::composite::{add, one};
use crate::error::{Result, call, fail};
use crate::history::{Overwritten, Targets, cut_history, lineage};
use crate::reduce::{reduce_node, zeros_like};
use crate::shape::show_all;
use crate::tensor::{Tensor, expand_to, filled};
use carry::Gradient;
use frit_uop::graph::{NodeMap, toposort_outside};
use frit_uop::{Alu, Loop, Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{SmallVec, smallvec};
use softmax::Softmax;
use windows::Windows;

/// How a node is seen on the way of a gradient.
enum Kind {
    /// By its own op.
    Plain,
    /// As windows over an axis.
    Windows(Windows),
    /// As a softmax.
    Softmax(Softmax),
}

impl Kind {
    fn of(n: &UOp) -> Kind {
        let softmax = || softmax::recognise(n).map(Kind::Softmax);
        windows::recognise(n).map(Kind::Windows).or_else(softmax).unwrap_or(Kind::Plain)
    }
    /// What a gradient flows to from here.
    fn inputs<'a>(&'a self, n: &'a UOp) -> SmallVec<[&'a UOp; 3]> {
        let mut found: SmallVec<[&UOp; 3]> = match (self, n.op) {
            (Kind::Windows(w), _) => smallvec![&w.x],
            (Kind::Softmax(s), _) => smallvec![&s.x, &s.shift],
            (_, Op::Detach | Op::Bitcast) => smallvec![],
            // the values stored count too
            (_, Op::After) => {
                let stores = n.deps().iter().filter(|s| s.op == Op::Store);
                [n.input()].into_iter().chain(stores.map(|s| s.value())).collect()
            }
            _ => n.src.iter().collect(),
        };
        found.retain(|s| s.dtype.is_float());
        found
    }
    /// The gradient of each input; of a softmax the product that it is for, with its own.
    fn gradients(
        &self,
        n: &UOp,
        g: &Gradient,
        product: Option<(&softmax::Product, UOp)>,
    ) -> Result<SmallVec<[Option<Gradient>; 3]>> {
        match self {
            Kind::Windows(w) => Ok(smallvec![Some(windows::gradient(w, g))]),
            Kind::Softmax(s) => Ok(smallvec![Some(Gradient::of(softmax::gradient(s, n, &g.sum(), product)))]),
            Kind::Plain if n.op.is_movement() => Ok(smallvec![Some(carry::carry(n, g))]),
            Kind::Plain if matches!(n.op, Op::Contiguous | Op::Leaf) => Ok(smallvec![Some(g.clone())]),
            Kind::Plain => {
                Ok(rules::gradients(n, &g.sum())?.into_iter().map(|g| g.map(Gradient::of)).collect())
            }
        }
    }
}

/// A gradient brought to the shape and type of what it belongs to: summed where that was broadcast.
fn fit(g: Gradient, x: &UOp) -> Gradient {
    if g.node.dtype == x.dtype && g.dims() == x.shape() {
        return g;
    }
    let g = g.sum().cast(x.dtype);
    if x.shape().is_empty() {
        let axes: Vec<usize> = (0..g.shape().len()).collect();
        return Gradient::of(reduce_node(&g, Alu::Add, &axes).reshape(&[]));
    }
    Gradient::of(expand_to(&g, x.shape()))
}

/// The gradients on their way, of what has been reached.
#[derive(Default)]
struct Way {
    grads: NodeMap<Gradient>,
    /// Connected, if only by zeros.
    touched: NodeMap<()>,
}

impl Way {
    fn reach(&mut self, x: &UOp, g: Option<Gradient>) {
        self.touched.insert(x.clone(), ());
        let Some(g) = g else { return };
        let g = fit(g, x);
        let sum = match self.grads.get(x) {
            Some(have) => Gradient::of(add(&have.sum(), &g.sum())),
            None => g,
        };
        self.grads.insert(x.clone(), sum);
    }
    /// Through a loop: all its results at once, once all of them have been met.
    fn through(&mut self, l: &Loop, leads: &NodeMap<bool>) -> Result<()> {
        let leads = |x: &UOp| x.dtype.is_float() && leads.get(x).copied().unwrap_or(false);
        let wanted: Vec<bool> = l.inputs().iter().map(leads).collect();
        let of: Vec<Option<UOp>> =
            (0..l.results().len()).map(|i| self.grads.get(&l.out(i)).map(|g| g.sum())).collect();
        let found = loops::gradients(l, &of, &wanted)?;
        for ((x, wanted), g) in l.inputs().iter().zip(wanted).zip(found) {
            if wanted {
                self.reach(x, g.map(Gradient::of));
            }
        }
        Ok(())
    }
}

/// Gradients of what `roots` (with the gradients of something with respect to each) make up, with respect to targets;
/// `None` where nothing depends on one.
pub(crate) fn differentiate(roots: &[(UOp, UOp)], targets: &[UOp]) -> Result<Vec<Option<UOp>>> {
    let order = toposort_outside(&roots.iter().map(|r| r.0.clone()).collect::<Vec<_>>());
    let known = Targets::of(targets);
    let mut meant: FxHashMap<UOp, SmallVec<[&UOp; 1]>> = FxHashMap::default();
    for n in &order {
        for t in known.meant_by(n) {
            meant.entry(t).or_default().push(n);
        }
    }
    let meaning: FxHashSet<&UOp> = meant.values().flatten().copied().collect();
    let is_target = |n: &UOp| meaning.contains(n);
    let (mut kinds, mut leads) = (NodeMap::<Kind>::default(), NodeMap::<bool>::default());
    for n in &order {
        let led = |x: &UOp| leads.get(x).copied().unwrap_or(false);
        if matches!(n.op, Op::Loop | Op::LoopOut) {
            let on_the_way = n.inputs().iter().any(led);
            leads.insert(n.clone(), on_the_way || is_target(n));
        } else if n.dtype.is_float() && n.try_shape().is_some() {
            let k = Kind::of(n);
            let on_the_way = k.inputs(n).into_iter().any(led);
            leads.insert(n.clone(), on_the_way || is_target(n));
            if on_the_way {
                kinds.insert(n.clone(), k);
            }
        }
    }
    let softmaxes = kinds.iter().filter_map(|(n, k)| match k {
        Kind::Softmax(s) => Some((n, s)),
        _ => None,
    });
    let products = softmax::products(&order, &softmaxes.collect::<Vec<_>>());
    let mut way = Way::default();
    for (root, seed) in roots {
        way.reach(root, Some(Gradient::of(seed.clone())));
    }
    for n in order.iter().rev().filter(|n| n.op == Op::Loop || n.dtype.is_float()) {
        if !way.touched.contains(n) {
            continue;
        }
        let led = |x: &UOp| leads.get(x).copied().unwrap_or(false);
        if let Some(l) = Loop::of(n) {
            way.through(&l, &leads)?;
        } else if n.op == Op::LoopOut && led(n.input()) {
            way.touched.insert(n.input().clone(), ());
        }
        let Some(k) = kinds.get(n) else { continue };
        let found = match way.grads.get(n).cloned() {
            Some(g) => {
                let product = products.get(n).and_then(|p| Some((p, way.grads.get(&p.node)?.sum())));
                k.gradients(n, &g, product)?
            }
            None => SmallVec::new(),
        };
        for (i, x) in k.inputs(n).into_iter().enumerate().filter(|(_, x)| led(x)) {
            way.reach(x, found.get(i).cloned().flatten());
        }
    }
    let of = |t: &UOp| {
        let mut total: Option<UOp> = None;
        let mut connected = false;
        for &n in meant.get(t).into_iter().flatten() {
            connected |= way.touched.contains(n);
            if let Some(g) = way.grads.get(n) {
                total = Some(total.map_or(g.sum(), |t| add(&t, &g.sum())));
            }
        }
        total.or_else(|| connected.then(|| zeros_like(t)))
    };
    Ok(targets.iter().map(of).collect())
}

/// The tensors that what has this lineage is made of.
fn reached<'a>(lineage: &[UOp], tensors: &'a [Tensor]) -> Vec<&'a Tensor> {
    let (tensors, nodes): (Vec<&Tensor>, Vec<UOp>) =
        tensors.iter().filter_map(|t| Some((t, t.peek().ok()?))).unzip();
    let known = Targets::of(&nodes);
    let found: FxHashSet<UOp> = lineage.iter().flat_map(|n| known.meant_by(n)).collect();
    tensors.into_iter().zip(&nodes).filter(|(_, n)| found.contains(n)).map(|(t, _)| t).collect()
}

/// An error where what has this lineage was made of an earlier version of one of these.
fn check_overwritten(lineage: &[UOp], of: &[Tensor]) -> Result<()> {
    let overwritten = Overwritten::of(lineage);
    match of.iter().find(|t| overwritten.holds(t)) {
        Some(t) => {
            fail!("backward", "a tensor of shape {} was assigned to since this was made of it", t.shape())
        }
        None => Ok(()),
    }
}

impl Tensor {
    /// Gradients of this scalar with respect to tensors, as tensors: graph again, so of any order.
    ///
    /// A tensor it does not depend on is an error; [`Tensor::gradient_or_zeros`] gives zeros.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::new([1.0, 2.0, 3.0]);
    /// let g = x.pow(3).sum(..).gradient(&[&x])?;
    /// assert_eq!(g[0].to_vec::<f32>()?, [3.0, 12.0, 27.0]);
    /// let h = g[0].sum(..).gradient(&[&x])?;
    /// assert_eq!(h[0].to_vec::<f32>()?, [6.0, 12.0, 18.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn gradient(&self, targets: &[&Tensor]) -> Result<Vec<Tensor>> {
        let _c = call("gradient");
        self.gradients(None, targets, false)
    }
    /// [`Tensor::gradient`] with zeros for what this does not depend on.
    #[track_caller]
    pub fn gradient_or_zeros(&self, targets: &[&Tensor]) -> Result<Vec<Tensor>> {
        let _c = call("gradient");
        self.gradients(None, targets, true)
    }
    /// Gradients of a tensor of any shape, given the gradient of something with respect to it.
    #[track_caller]
    pub fn gradient_with(&self, seed: &Tensor, targets: &[&Tensor]) -> Result<Vec<Tensor>> {
        let _c = call("gradient");
        self.gradients(Some(seed), targets, false)
    }
    /// [`Tensor::gradient_with`] with zeros for what this does not depend on.
    #[track_caller]
    pub fn gradient_with_or_zeros(&self, seed: &Tensor, targets: &[&Tensor]) -> Result<Vec<Tensor>> {
        let _c = call("gradient");
        self.gradients(Some(seed), targets, true)
    }
    fn gradients(&self, seed: Option<&Tensor>, targets: &[&Tensor], zeros: bool) -> Result<Vec<Tensor>> {
        let root = self.uop()?;
        if !root.dtype.is_float() {
            return fail!("gradient", "of {} values; only floats have gradients", root.dtype);
        }
        let seed = match seed {
            Some(s) => {
                let s = s.uop()?;
                if s.shape() != root.shape() {
                    return fail!(
                        "gradient",
                        "seed {} for shape {}",
                        show_all(s.shape()),
                        show_all(root.shape())
                    );
                }
                s.cast(root.dtype)
            }
            None if root.shape().iter().all(|d| d.as_int() == Some(1)) => filled(root.shape(), one(&root)),
            None => {
                return fail!(
                    "gradient",
                    "of shape {}, not a scalar: reduce it first",
                    show_all(root.shape())
                );
            }
        };
        let nodes: Vec<UOp> = targets.iter().map(|t| t.uop()).collect::<Result<_>>()?;
        if let Some(t) = nodes.iter().find(|t| !t.dtype.is_float()) {
            return fail!("gradient", "with respect to {} values; only floats have gradients", t.dtype);
        }
        let found = differentiate(&[(root.clone(), seed)], &nodes)?;
        // asked for only where there is something to explain
        let lineage = if found.iter().all(Option::is_some) { vec![] } else { lineage(&root) };
        let overwritten = Overwritten::of(&lineage);
        found
            .into_iter()
            .zip(&nodes)
            .enumerate()
            .map(|(i, (g, t))| {
                if let Some(g) = g {
                    return Ok(Tensor::of(Ok(g)));
                }
                if overwritten.holds(targets[i]) {
                    return fail!(
                        "gradient",
                        "target {i} of shape {} was assigned to since this was made of it",
                        show_all(t.shape())
                    );
                }
                if let Some(at) = cut_history(&lineage, t) {
                    let (file, line) = (at.file(), at.line());
                    return fail!(
                        "gradient",
                        "realised at {file}:{line} before its gradient was built (target {i}, shape {})",
                        show_all(t.shape())
                    );
                }
                if zeros {
                    return Ok(Tensor::of(Ok(zeros_like(t))));
                }
                fail!(
                    "gradient",
                    "does not depend on target {i} of shape {} (gradient_or_zeros gives zeros)",
                    show_all(t.shape())
                )
            })
            .collect()
    }
    /// An error where this was made of an earlier version of one of these: its gradient would go to nobody.
    pub fn check_lineage(&self, of: &[Tensor]) -> Result<()> {
        check_overwritten(&lineage(&self.uop()?), of)
    }
    /// Whether something that this is made of was made of `t`, and realised: then no gradient goes there.
    pub fn is_cut_off_from(&self, t: &Tensor) -> Result<bool> {
        Ok(cut_history(&lineage(&self.uop()?), &t.peek()?).is_some())
    }
    /// Those of these tensors that this is made of, other than behind a `detach`; also where they were computed since.
    pub fn made_of<'a>(&self, of: &'a [Tensor]) -> Result<Vec<&'a Tensor>> {
        Ok(reached(&lineage(&self.uop()?), of))
    }
    /// Add the gradients of this scalar to `.grad()` of every tensor marked with `requires_grad` that it depends on.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let w = Tensor::new([1.0, 2.0]).requires_grad(true);
    /// (&w * &w).sum(..).backward()?;
    /// (&w * 10).sum(..).backward()?;
    /// assert_eq!(w.grad().unwrap().to_vec::<f32>()?, [12.0, 14.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn backward(&self) -> Result<()> {
        let _c = call("backward");
        let root = self.uop()?;
        let lineage = lineage(&root);
        let marked = crate::tensor::marked();
        let wanted = reached(&lineage, &marked);
        check_overwritten(&lineage, &marked)?;
        if wanted.is_empty() {
            let cut = marked.iter().find_map(|t| cut_history(&lineage, &t.peek().ok()?));
            return match cut {
                Some(at) => {
                    fail!("backward", "realised at {}:{} before its gradient was built", at.file(), at.line())
                }
                None => fail!("backward", "depends on no tensor marked with requires_grad"),
            };
        }
        // a marked tensor that is reached only by a way without gradients gets zeros
        for (p, g) in wanted.iter().zip(self.gradients(None, &wanted, true)?) {
            p.set_grad(Some(match p.grad() {
                Some(have) => have + g,
                None => g,
            }));
        }
        Ok(())
    }
}
