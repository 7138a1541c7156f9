//! A program written down: what it computes of placeholders, with the operations that have a name elsewhere.
//!
//! ```text
//! (x w).softmax(-1) + b   ->   t0 = MatMul(x, w);  t1 = Softmax(t0);  t1 + b
//! ```
//!
//! A convolution or a norm is a graph of many nodes here. While a trace is open on a thread, such an operation gives a
//! placeholder of its result's shape and type, and the step is noted: what it is, of what, and the graph it would have
//! been. So nothing that comes later looks through it, and whoever reads the trace may take the name or the graph.

use crate::conv::WindowDims;
use crate::error::{Result, call, fail};
use crate::random;
use crate::tensor::Tensor;
use frit_uop::loops::Open;
use frit_uop::{Op, UOp};
use rustc_hash::FxHashSet;
use std::cell::RefCell;

/// An operation that is a graph of many nodes here and has a name in other languages; its inputs in order.
#[derive(Clone, Debug)]
pub enum Composite {
    /// Matrix product of two.
    MatMul,
    /// Input, weight, bias.
    Conv {
        /// How the window walks.
        window: WindowDims,
        /// Channels in groups that do not mix.
        groups: usize,
    },
    /// Input, weight, bias.
    ConvTranspose {
        /// How the window walks.
        window: WindowDims,
        /// Channels in groups that do not mix.
        groups: usize,
        /// Results added at the end.
        output_padding: Vec<usize>,
    },
    /// The greatest of each window over the last dims.
    MaxPool(WindowDims),
    /// The mean of each window over the last dims.
    AvgPool {
        /// How the window walks.
        window: WindowDims,
        /// Whether padding counts as elements.
        count_pad: bool,
    },
    /// Input, weight, bias: mean 0 and variance 1 over the axes.
    LayerNorm {
        /// The axes, ascending.
        axes: Vec<usize>,
        /// Added to the variance.
        eps: f64,
    },
    /// Input, weight: mean square 1 over the axes.
    RmsNorm {
        /// The axes, ascending.
        axes: Vec<usize>,
        /// Added to the mean square.
        eps: f64,
    },
    /// Input, weight, bias, mean, one over the deviation; those of each channel.
    BatchNorm,
    /// Input, weight, bias.
    GroupNorm {
        /// How many groups of channels.
        groups: usize,
        /// Added to the variance.
        eps: f64,
    },
    /// What is positive; zero elsewhere.
    Relu,
    /// By the error function or by its approximation.
    Gelu {
        /// The approximation.
        tanh: bool,
    },
    /// Input and limit: no less than it.
    AtLeast,
    /// Input and limit: no more than it.
    AtMost,
    /// All of them joined along an axis.
    Concat(isize),
    /// Along an axis.
    Softmax(isize),
    /// Along an axis.
    LogSoftmax(isize),
    /// The greatest along an axis, or the least, in order; or where they were.
    TopK {
        /// Along which axis.
        axis: usize,
        /// How many, all if not given.
        count: Option<i64>,
        /// The greatest, and the greatest first.
        largest: bool,
        /// Where they were.
        places: bool,
    },
    /// Queries, keys, values, mask.
    Attention {
        /// Hides later positions.
        causal: bool,
        /// What scores are multiplied by.
        scale: f64,
    },
}

/// An operation that was asked for.
#[derive(Clone, Debug)]
pub struct Step {
    /// What it is.
    pub what: Composite,
    /// Of what.
    pub inputs: Vec<Option<UOp>>,
    /// What stands for its result.
    pub result: UOp,
    /// The result as a graph.
    pub value: UOp,
}

/// A program that was written down.
#[derive(Clone, Debug)]
pub struct Trace {
    /// What stands for the arguments.
    pub inputs: Vec<UOp>,
    /// What the program gives.
    pub outputs: Vec<UOp>,
    /// The operations that have a name, in the order they were asked for.
    pub steps: Vec<Step>,
    /// Memory with the places in the stream of random numbers where the program drew some: each call of it would draw others.
    pub draws: Vec<UOp>,
}

/// A trace under way: what stands for values in it, and its steps.
#[derive(Default)]
struct Tracing {
    placeholders: FxHashSet<UOp>,
    steps: Vec<Step>,
}

thread_local! {
    static TRACING: RefCell<Option<Tracing>> = const { RefCell::new(None) };
}

/// Whether a program is written down on this thread.
pub(crate) fn is_open() -> bool {
    TRACING.with_borrow(|t| t.is_some())
}

/// What `f` computes of arguments like these. It sees tensors that have shapes and types but no numbers: what needs
/// them fails, and so does an assignment.
#[track_caller]
pub fn trace(arguments: &[&Tensor], f: impl FnOnce(&[Tensor]) -> Vec<Tensor>) -> Result<Trace> {
    struct Closed(Option<Tracing>);
    impl Drop for Closed {
        fn drop(&mut self) {
            TRACING.set(self.0.take());
        }
    }
    let like: Vec<UOp> = arguments.iter().map(|t| t.uop()).collect::<Result<_>>()?;
    let inputs = placeholders(&like);
    let inside: Vec<Tensor> = inputs.iter().map(|n| Tensor::of(Ok(n.clone()))).collect();
    let placeholders = inputs.iter().cloned().collect();
    let _closed = Closed(TRACING.replace(Some(Tracing { placeholders, steps: vec![] })));
    let (outputs, draws) = random::watch(|| f(&inside));
    let outputs = outputs.iter().map(|t| t.uop()).collect::<Result<Vec<UOp>>>()?;
    let _c = call("trace");
    for (i, (t, given)) in inside.iter().zip(&inputs).enumerate() {
        if t.uop()? != *given {
            return fail!("trace", "argument {i} is assigned to: give the value back");
        }
    }
    let draws = draws.into_iter().map(|(place, _)| place).collect();
    Ok(Trace { inputs, outputs, steps: TRACING.take().unwrap_or_default().steps, draws })
}

fn placeholders(like: &[UOp]) -> Vec<UOp> {
    Open::new(&UOp::index(1), &[], like).inputs
}

/// `value`, which is what an operation made of its inputs; in a trace, what stands for it.
pub(crate) fn noted(what: impl FnOnce() -> Composite, inputs: &[Option<&Tensor>], value: Tensor) -> Tensor {
    if !is_open() {
        return value;
    }
    let Ok(node) = value.uop() else { return value };
    // what does not depend on the arguments may be computed in the program; what depends on a loop's step is part of that
    let (mut depends, mut is_known) = (false, true);
    TRACING.with_borrow(|t| {
        node.any(|n| {
            let known = |t: &Tracing| t.placeholders.contains(n);
            is_known &= n.op != Op::LoopIn || t.as_ref().is_some_and(known);
            depends |= n.op == Op::LoopIn;
            !is_known
        })
    });
    if !depends || !is_known {
        return value;
    }
    let step = |t: &Tracing| t.steps.iter().rfind(|s| s.value == node).map(|s| s.result.clone());
    if let Some(result) = TRACING.with_borrow(|t| t.as_ref().and_then(step)) {
        return Tensor::of(Ok(result));
    }
    let inputs = inputs.iter().map(|t| t.map(|t| t.uop()).transpose()).collect::<Result<Vec<_>>>();
    let (Ok(inputs), [result]) = (inputs, &placeholders(std::slice::from_ref(&node))[..]) else {
        return value;
    };
    let step = Step { what: what(), inputs, result: result.clone(), value: node };
    TRACING.with_borrow_mut(|t| {
        let t = t.get_or_insert_default();
        t.placeholders.insert(result.clone());
        t.steps.push(step);
    });
    Tensor::of(Ok(result.clone()))
}
