//! Gradients made shorter, between `backward` and the step.

use crate::Module;
use frit_tensor::{DType, Error, Result, Tensor};

/// Scales the gradients of a module down together so that they are no longer than `max` as one vector, and gives the
/// length they had, not computed yet. A step computes both.
///
/// ```
/// use frit_nn::{Linear, Optimizer, Sgd, optim::clip_grad_norm};
/// use frit_tensor::Tensor;
///
/// let layer = Linear::new(4, 2);
/// let mut opt = Sgd::new(&layer, 0.1)?;
/// layer.forward(&Tensor::ones([8, 4])).square().sum(..).backward()?;
/// let length = clip_grad_norm(&layer, 1.0)?;
/// opt.step_with(&[&length])?;
/// # Ok::<(), frit_tensor::Error>(())
/// ```
#[track_caller]
pub fn clip_grad_norm(module: &(impl Module + ?Sized), max: f64) -> Result<Tensor> {
    clip_grad_norm_of(module, max, 2.0)
}

/// As [`clip_grad_norm`], by the norm of order `p`; infinity means the largest element.
#[track_caller]
pub fn clip_grad_norm_of(module: &(impl Module + ?Sized), max: f64, p: f64) -> Result<Tensor> {
    let _c = frit_tensor::call("clip_grad_norm");
    check("clip_grad_norm", max)?;
    let grads = with_gradients(module);
    let norms: Vec<Tensor> = grads.iter().map(|(_, g)| g.cast(DType::F32).norm(p, ..)).collect();
    let total = match norms.is_empty() {
        true => Tensor::zeros(()),
        false => Tensor::stack(&norms, 0).norm(p, ..),
    };
    total.check()?;
    // torch's: a length of 0 divides nothing by 0, and a shorter gradient is left as it is
    let scale = (max / (&total + 1e-6)).minimum(1.0);
    for (parameter, g) in grads {
        parameter.set_grad(Some((g.cast(DType::F32) * &scale).cast(g.dtype())));
    }
    Ok(total)
}

/// Brings every element of the gradients of a module into `-max..=max`.
#[track_caller]
pub fn clip_grad_value(module: &(impl Module + ?Sized), max: f64) -> Result<()> {
    let _c = frit_tensor::call("clip_grad_value");
    check("clip_grad_value", max)?;
    for (parameter, g) in with_gradients(module) {
        let clipped = g.clamp(-max, max);
        clipped.check()?;
        parameter.set_grad(Some(clipped));
    }
    Ok(())
}

fn check(op: &'static str, max: f64) -> Result<()> {
    match max >= 0.0 {
        true => Ok(()),
        false => Err(Error::new(op, format!("a limit of {max}"))),
    }
}

fn with_gradients(module: &(impl Module + ?Sized)) -> Vec<(Tensor, Tensor)> {
    module.parameters().into_iter().filter_map(|p| p.grad().map(|g| (p, g))).collect()
}
