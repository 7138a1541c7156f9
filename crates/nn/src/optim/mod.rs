//! Optimisers: gradients in, better parameters out.
//!
//! An optimiser takes a [`Module`]: its parameters are updated, and its other state (running statistics) is computed
//! in the same run. A step builds the new versions of parameters and state as graph and then realises them together,
//! so a whole update is one kernel a parameter, or a part of the kernel that made the gradient.
//!
//! Numbers that change from step to step, the learning rate and the step count, are in memory and not in the graph:
//! the second step finds every cache filled. State is float32 whatever the parameter's type.
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

mod adam;
mod sgd;

pub use adam::{Adam, AdamFamily, AdamW};
pub use sgd::Sgd;

use crate::Module;
use frit_tensor::{DType, Error, Result, Tensor};

/// What is common to all optimisers: which tensors are updated, and how fast.
pub struct Params {
    parameters: Vec<Tensor>,
    /// State of the module that is not trained; computed with each step.
    buffers: Vec<Tensor>,
    lr: f64,
    /// The learning rate as a float32 scalar in memory.
    lr_tensor: Tensor,
}

impl Params {
    fn new(op: &'static str, module: &(impl Module + ?Sized), lr: f64) -> Result<Params> {
        let parameters = module.parameters();
        let buffers =
            module.named_tensors().into_iter().map(|(_, t)| t).filter(|t| !t.is_requires_grad()).collect();
        let Some(first) = parameters.first() else {
            return Err(Error::new(op, "nothing to optimise: no tensor here requires gradients"));
        };
        check_lr(op, lr)?;
        // Parameters drawn at random are only a description so far: compute them all at once.
        module.realize_state()?;
        let lr_tensor = scalar_beside(first, lr);
        Ok(Params { parameters, buffers, lr, lr_tensor })
    }
    /// A float32 tensor of zeros for each parameter.
    fn zeros(&self) -> Vec<Tensor> {
        self.parameters.iter().map(zeros_beside).collect()
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
    /// Everything it remembers between steps.
    fn state(&self) -> Vec<&Tensor>;

    /// The learning rate.
    fn lr(&self) -> f64 {
        self.params().lr
    }
    /// Changes the learning rate from the next step on; nothing is compiled again.
    #[track_caller]
    fn set_lr(&mut self, lr: f64) -> Result<()> {
        check_lr("set_lr", lr)?;
        let params = self.params_mut();
        params.lr = lr;
        params.lr_tensor = scalar_beside(&params.lr_tensor, lr);
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

/// Float32 zeros of the shape of `t` in memory on its device: copied there, which needs no kernel.
fn zeros_beside(t: &Tensor) -> Tensor {
    match t.numel() {
        Ok(n) => on_device_of(t, Tensor::from_vec(vec![0f32; n], t.shape())),
        Err(e) => Tensor::failed(e),
    }
}

fn on_device_of(t: &Tensor, x: Tensor) -> Tensor {
    match t.device() {
        Ok(device) => x.to(&device),
        Err(e) => Tensor::failed(e),
    }
}
