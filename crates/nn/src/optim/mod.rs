//! Optimisers: gradients in, better parameters out.
//!
//! An optimiser takes a [`Module`]: its parameters are updated, and its other state (running statistics) is computed
//! in the same run. A step builds the new versions of parameters and state as graph and then realises them together,
//! so a whole update is one kernel a parameter, or a part of the kernel that made the gradient.
//!
//! Numbers that change from step to step, the learning rate and the step count, are in memory and not in the graph:
//! the second step finds every cache filled. State is float32 whatever the parameter's type.
//!
//! 1. [`Sgd`], [`Adam`], [`AdamW`], [`RmsProp`], [`Adagrad`]: values are torch's;
//! 2. [`Lion`], [`Lamb`], [`Lars`], [`Muon`]: values are those of the papers' formulas;
//! 3. [`clip_grad_norm`], [`clip_grad_value`]: between `backward` and the step;
//! 4. [`schedule`]: the learning rate at each step;
//! 5. [`step_all`]: several optimisers at once, for groups of parameters with options of their own.
//!
//! ```
//! use frit_nn::{Adam, Linear, Module, Optimizer};
//! use frit_tensor::Tensor;
//!
//! let layer = Linear::new(4, 1);
//! let mut opt = Adam::new(&layer, 1e-2)?;
//! let x = Tensor::ones([8, 4]);
//! for _ in 0..3 {
//!     let loss = (layer.forward(&x) - 1.0).square().mean(..);
//!     loss.backward()?;
//!     opt.step_with(&[&loss])?; // parameters, state and loss in one run
//!     println!("{}", loss.item::<f32>()?);
//! }
//! # Ok::<(), frit_tensor::Error>(())
//! ```

mod adagrad;
mod adam;
mod clip;
mod lamb;
mod lars;
mod lion;
mod muon;
mod rmsprop;
pub mod schedule;
mod sgd;

pub use adagrad::Adagrad;
pub use adam::{Adam, AdamFamily, AdamW};
pub use clip::{clip_grad_norm, clip_grad_norm_of, clip_grad_value};
pub use lamb::Lamb;
pub use lars::Lars;
pub use lion::Lion;
pub use muon::Muon;
pub use rmsprop::RmsProp;
pub use sgd::Sgd;

use crate::state;
use crate::{Module, StateDict};
use frit_tensor::{DType, Error, Result, Tensor};

/// What is common to all optimisers: which tensors are updated, and how fast.
pub struct Params {
    names: Vec<String>,
    parameters: Vec<Tensor>,
    /// State of the module that is not trained; computed with each step.
    buffers: Vec<Tensor>,
    lr: f64,
    /// The learning rate as a float32 scalar in memory.
    lr_tensor: Tensor,
}

impl Params {
    fn new(op: &'static str, module: &(impl Module + ?Sized), lr: f64) -> Result<Params> {
        let (names, parameters): (Vec<String>, Vec<Tensor>) = module.named_parameters().into_iter().unzip();
        let buffers = module.named_buffers().into_iter().map(|(_, t)| t).collect();
        let Some(first) = parameters.first() else {
            return Err(Error::new(op, "nothing to optimise: no tensor here requires gradients"));
        };
        check_lr(op, lr)?;
        // Parameters drawn at random are only a description so far: compute them all at once.
        module.realize_state()?;
        let lr_tensor = scalar_beside(first, lr);
        Ok(Params { names, parameters, buffers, lr, lr_tensor })
    }
    /// A float32 tensor of zeros for each parameter.
    fn zeros(&self) -> Vec<Tensor> {
        self.filled(0.0)
    }
    /// A float32 tensor for each parameter, every element `v`.
    fn filled(&self, v: f64) -> Vec<Tensor> {
        self.parameters.iter().map(|p| filled_beside(p, v)).collect()
    }
}

/// Updates parameters by their gradients.
pub trait Optimizer {
    /// The parameters and the learning rate.
    fn params(&self) -> &Params;
    /// The same, to change.
    fn params_mut(&mut self) -> &mut Params;
    /// Begins a step: what all parameters share goes forward.
    fn begin(&self) {}
    /// The new value of parameter `i`, from its value and its gradient, both float32; assigns its state as well.
    fn update(&self, i: usize, value: &Tensor, grad: &Tensor) -> Tensor;
    /// What it remembers of each parameter, by name; one tensor for each parameter.
    fn slots(&self) -> Vec<(&'static str, &[Tensor])>;
    /// How many steps were made, where that matters.
    fn steps(&self) -> Option<&Tensor> {
        None
    }

    /// Everything it remembers between steps.
    fn state(&self) -> Vec<&Tensor> {
        self.slots().into_iter().flat_map(|(_, all)| all).chain(self.steps()).collect()
    }
    /// Everything it remembers, to be saved: `SLOT.PARAMETER`, `step` and `lr`.
    fn state_dict(&self) -> StateDict {
        let mut all: StateDict = named_state(self).into_iter().collect();
        all.insert("lr".into(), Tensor::from_vec([self.lr()], ()));
        all
    }
    /// Goes on from a state that was saved. The names and shapes must be the same; the error names every one that
    /// does not fit, and then nothing is changed.
    #[track_caller]
    fn load_state_dict(&mut self, state: &StateDict) -> Result<()> {
        let _c = frit_tensor::call("load_state_dict");
        let mut state = state.clone();
        let lr = match state.remove("lr") {
            Some(lr) => Some(lr.double().item::<f64>()?),
            None => None,
        };
        state::load_into(&named_state(self), &state)?;
        lr.map_or(Ok(()), |lr| self.set_lr(lr))
    }

    /// The learning rate.
    fn lr(&self) -> f64 {
        self.params().lr
    }
    /// Changes the learning rate from the next step on; nothing is compiled again, and a [`Jit`](frit_tensor::Jit) that
    /// recorded a step sees the new rate: it is written where the old one was.
    #[track_caller]
    fn set_lr(&mut self, lr: f64) -> Result<()> {
        let _c = frit_tensor::call("set_lr");
        check_lr("set_lr", lr)?;
        let params = self.params_mut();
        params.lr_tensor.assign(scalar_beside(&params.lr_tensor, lr)).realize()?;
        params.lr = lr;
        Ok(())
    }
    /// Forgets all gradients. A step takes them by itself; this is for gradients that no step shall use.
    fn zero_grad(&self) {
        for p in &self.params().parameters {
            p.set_grad(None);
        }
    }
    /// Updates every parameter that has a gradient, and takes the gradients: the next `backward` starts from nothing.
    #[track_caller]
    fn step(&mut self) -> Result<()> {
        self.step_with(&[])
    }
    /// As [`step`](Optimizer::step), computing other tensors in the same run: what they share with the gradients (the
    /// loss, predictions) is not computed twice.
    ///
    /// When the run fails, parameters and state stay usable, but may have been written to.
    #[track_caller]
    fn step_with(&mut self, others: &[&Tensor]) -> Result<()> {
        let _c = frit_tensor::call("step");
        let changed = self.plan_step()?;
        // After bad data (an index out of range) the next step must not stumble over this one again.
        Tensor::realize_all(&changed.iter().chain(others.iter().copied()).collect::<Vec<_>>())
            .inspect_err(|_| changed.iter().for_each(Tensor::drop_assignments))
    }
    /// Builds a step without running it, and takes the gradients: every tensor it changes, to be realised together.
    #[track_caller]
    fn plan_step(&mut self) -> Result<Vec<Tensor>> {
        let _c = frit_tensor::call("step");
        let grads: Vec<Option<Tensor>> = self.params().parameters.iter().map(Tensor::grad).collect();
        if grads.iter().all(Option::is_none) {
            return Err(Error::new("step", "no parameter has a gradient; call backward first"));
        }
        for (p, g) in self.params().parameters.iter().zip(&grads) {
            let Some(g) = g else { continue };
            p.check().and(g.check())?;
            if g.shape() != p.shape() {
                let message =
                    format!("a parameter of shape {} has a gradient of shape {}", p.shape(), g.shape());
                return Err(Error::new("step", message));
            }
        }
        // A gradient that someone holds would keep the old values of the parameters from being overwritten.
        self.zero_grad();
        self.begin();
        for (i, grad) in grads.into_iter().enumerate() {
            if let Some(g) = grad {
                let p = &self.params().parameters[i];
                let value = self.update(i, &p.cast(DType::F32), &g.cast(DType::F32));
                p.assign(value.cast(p.dtype()));
            }
        }
        let Params { parameters, buffers, .. } = self.params();
        Ok(parameters.iter().chain(buffers).chain(self.state()).cloned().collect())
    }
}

/// Makes a step with each of several optimisers in one run: parameters in groups, each with options, or a kind of
/// optimiser, of its own.
///
/// ```
/// use frit_nn::{AdamW, Linear, Module, Muon, optim::step_all};
/// use frit_tensor::Tensor;
///
/// let layer = Linear::new(4, 2);
/// let (matrices, others): (Vec<Tensor>, Vec<Tensor>) = layer.parameters().into_iter().partition(|p| p.rank() == 2);
/// let mut muon = Muon::new(&matrices, 1e-2)?;
/// let mut adam = AdamW::new(&others, 1e-3)?;
/// let loss = layer.forward(&Tensor::ones([8, 4])).square().mean(..);
/// loss.backward()?;
/// step_all(&mut [&mut muon, &mut adam], &[&loss])?;
/// # Ok::<(), frit_tensor::Error>(())
/// ```
#[track_caller]
pub fn step_all(optimizers: &mut [&mut dyn Optimizer], others: &[&Tensor]) -> Result<()> {
    let _c = frit_tensor::call("step");
    let mut changed = Vec::new();
    let planned = optimizers.iter_mut().try_for_each(|o| o.plan_step().map(|all| changed.extend(all)));
    let all = || changed.iter().chain(others.iter().copied()).collect::<Vec<_>>();
    planned
        .and_then(|()| Tensor::realize_all(&all()))
        .inspect_err(|_| changed.iter().for_each(Tensor::drop_assignments))
}

/// The state under the names it is saved by.
fn named_state<O: Optimizer + ?Sized>(o: &O) -> Vec<(String, Tensor)> {
    let mut all = Vec::new();
    for (slot, tensors) in o.slots() {
        for (name, t) in o.params().names.iter().zip(tensors) {
            let dot = if name.is_empty() { "" } else { "." };
            all.push((format!("{slot}{dot}{name}"), t.clone()));
        }
    }
    all.extend(o.steps().map(|t| ("step".to_string(), t.clone())));
    all
}

/// Lets a slot have a new value, and gives that value: what uses it need not wait for the slot to be written.
fn remember(slot: &Tensor, value: Tensor) -> Tensor {
    slot.assign(&value);
    value
}

/// The length of a tensor as a vector.
fn length(t: &Tensor) -> Tensor {
    t.square().sum(..).sqrt()
}

/// 1 - beta^t, by way of `expm1`: the plain form loses four digits in float32.
fn bias_correction(steps: &Tensor, beta: f64) -> Tensor {
    -(steps * beta.ln()).expm1()
}

/// What every optimiser says of its `params` field.
macro_rules! has_params {
    () => {
        fn params(&self) -> &Params {
            &self.params
        }
        fn params_mut(&mut self) -> &mut Params {
            &mut self.params
        }
    };
}
pub(crate) use has_params;

fn check_lr(op: &'static str, lr: f64) -> Result<()> {
    match lr >= 0.0 && lr.is_finite() {
        true => Ok(()),
        false => Err(Error::new(op, format!("a learning rate of {lr}"))),
    }
}

/// A float32 scalar in memory, on the device of `t`.
fn scalar_beside(t: &Tensor, v: f64) -> Tensor {
    on_device_of(t, Tensor::from_vec([v as f32], ()))
}

/// A float32 tensor of the shape of `t` in memory on its device: copied there, which needs no kernel.
fn filled_beside(t: &Tensor, v: f64) -> Tensor {
    match t.numel() {
        Ok(n) => on_device_of(t, Tensor::from_vec(vec![v as f32; n], t.shape())),
        Err(e) => Tensor::failed(e),
    }
}

fn on_device_of(t: &Tensor, x: Tensor) -> Tensor {
    match t.device() {
        Ok(device) => x.to(&device),
        Err(e) => Tensor::failed(e),
    }
}
