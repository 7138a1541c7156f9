//! Steps of optimisers: inputs come in groups, one of each for every tensor that is trained.

use super::{Op, op};
use crate::call::{Call, Outs, fail, give};
use frit_tensor::{Result, Tensor};

pub(super) const OPS: &[Op] = &[op("Adagrad", 1, adagrad), op("Adam", 1, adam), op("Momentum", 1, momentum)];

/// The inputs after the rate and the count, in `N` groups of equal length.
fn groups<const N: usize>(c: &Call) -> Result<Vec<[Tensor; N]>> {
    let all = c.tensors()?.split_off(2);
    if all.len() % N != 0 {
        return fail(format!("{} tensors are not {N} of each", all.len()));
    }
    let n = all.len() / N;
    Ok((0..n).map(|i| std::array::from_fn(|k| all[k * n + i].clone())).collect())
}
/// Results in groups again.
fn regrouped<const N: usize>(all: Vec<[Tensor; N]>) -> Vec<Tensor> {
    (0..N).flat_map(|k| all.iter().map(move |a| a[k].clone()).collect::<Vec<_>>()).collect()
}

fn adagrad(c: &Call) -> Result<Outs> {
    let (decay, eps, norm) = (
        c.float_or("decay_factor", 0.0)?,
        c.float_or("epsilon", 1e-6)?,
        c.float_or("norm_coefficient", 0.0)?,
    );
    let (rate, step) = (c.float_input(0)?, c.float_input(1)?);
    let rate = rate / (1.0 + step * decay);
    let one = |[x, g, h]: [Tensor; 3]| {
        let g = &x * norm + g;
        let h = h + g.square();
        [x - g * rate / (h.sqrt() + eps), h]
    };
    give(regrouped(groups::<3>(c)?.into_iter().map(one).collect()))
}

fn adam(c: &Call) -> Result<Outs> {
    let (a, b, eps) = (c.float_or("alpha", 0.9)?, c.float_or("beta", 0.999)?, c.float_or("epsilon", 1e-6)?);
    let (norm, after) = (c.float_or("norm_coefficient", 0.0)?, c.float_or("norm_coefficient_post", 0.0)?);
    let (rate, step) = (c.float_input(0)?, c.float_input(1)?);
    let rate = if step > 0.0 { rate * (1.0 - b.powf(step)).sqrt() / (1.0 - a.powf(step)) } else { rate };
    let one = |[x, g, v, h]: [Tensor; 4]| {
        let g = &x * norm + g;
        let (v, h) = (v * a + &g * (1.0 - a), h * b + g.square() * (1.0 - b));
        let x = x - &v * rate / (h.sqrt() + eps);
        [x * (1.0 - after), v, h]
    };
    give(regrouped(groups::<4>(c)?.into_iter().map(one).collect()))
}

fn momentum(c: &Call) -> Result<Outs> {
    let (a, b, norm) =
        (c.float_or("alpha", 0.0)?, c.float_or("beta", 0.0)?, c.float_or("norm_coefficient", 0.0)?);
    let nesterov = match c.text_or("mode", "standard")? {
        "nesterov" => true,
        "standard" => false,
        other => return fail(format!("attribute \"mode\" is {other:?}")),
    };
    let (rate, step) = (c.float_input(0)?, c.float_input(1)?);
    let b = if step > 0.0 { b } else { 1.0 };
    let one = |[x, g, v]: [Tensor; 3]| {
        let g = &x * norm + g;
        let v = v * a + &g * b;
        let by = if nesterov { g + &v * a } else { v.clone() };
        [x - by * rate, v]
    };
    give(regrouped(groups::<3>(c)?.into_iter().map(one).collect()))
}
