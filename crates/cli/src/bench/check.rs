//! Results of a device beside the CPU's.

use super::Line;
use frit::engine::devices::HOST;
use frit::*;

/// Compute on the default device and, with the same inputs, on the CPU, there in float64 too: an error where the device is
/// further from that than the CPU and roundings account for.
pub fn compared<I, O>(inputs: I, mut f: impl FnMut(I) -> Result<O>) -> Result<Line>
where
    I: Bundle + Clone,
    O: Bundle,
{
    let mut given = vec![];
    let form = inputs.clone().take_apart(&mut given);
    let mut ours = vec![];
    f(inputs)?.take_apart(&mut ours);
    let ours: Vec<Tensor> = ours.iter().map(|t| t.to(HOST)).collect();
    Tensor::realize_all(&ours.iter().collect::<Vec<_>>())?;
    let mut on_the_host = |of: fn(Tensor) -> Tensor| -> Result<Vec<Tensor>> {
        let copies: Vec<Tensor> = given.iter().map(|t| of(t.to(HOST))).collect();
        Tensor::realize_all(&copies.iter().collect::<Vec<_>>())?;
        let mut results = vec![];
        Device::scope(HOST, || f(I::put_together(&form, &mut copies.into_iter())))??.take_apart(&mut results);
        Ok(results)
    };
    let theirs = on_the_host(|t| t)?;
    let exact = on_the_host(|t| if t.dtype().is_float() { t.cast(DType::F64) } else { t })?;
    let mut worst = 0.0f64;
    for ((a, b), exact) in ours.iter().zip(&theirs).zip(&exact) {
        worst = worst.max(difference(a, b, exact)?);
    }
    verdict(worst)
}

/// A line that says how large a difference is, in parts of what is allowed.
pub fn verdict(worst: f64) -> Result<Line> {
    match worst <= 1.0 {
        true => Ok(Line::new(f64::NAN).with("of_allowed", worst)),
        false => {
            Err(Error::new("bench", format!("differs from the CPU by {worst:.3} times what is allowed")))
        }
    }
}

/// How many times as far from the exact result as the CPU a device may be: it adds up in another order.
const OTHER_ORDER: f64 = 4.0;

/// How far a result is from the exact one, in parts of what is allowed: a few roundings, and some of the CPU's largest error.
pub fn difference(a: &Tensor, b: &Tensor, exact: &Tensor) -> Result<f64> {
    let unit = match a.dtype() {
        DType::F64 => 1e-14,
        DType::F32 => 1e-6,
        DType::F16 => 2e-3,
        DType::BF16 => 1.6e-2,
        d if d.is_float() => 0.25,
        _ => 0.0,
    };
    if (a.dims()?, a.dtype()) != (b.dims()?, b.dtype()) {
        return Ok(f64::INFINITY);
    }
    let values = |t: &Tensor| t.to(HOST).cast(DType::F64).to_vec::<f64>();
    // where there is no number to compare with, both have to have none
    let error = |(x, exact): (&f64, &f64)| match (x.is_nan(), exact.is_nan()) {
        (true, true) => 0.0,
        (false, false) if x == exact => 0.0,
        (false, false) => (x - exact).abs() / (1.0 + exact.abs()),
        _ => f64::INFINITY,
    };
    let exact = if unit == 0.0 { values(b)? } else { values(exact)? };
    let worst = |t: &Tensor| Ok(values(t)?.iter().zip(&exact).map(error).fold(0.0, f64::max));
    let (ours, theirs): (f64, f64) = (worst(a)?, worst(b)?);
    Ok(if ours == 0.0 { 0.0 } else { ours / (unit + OTHER_ORDER * theirs) })
}
