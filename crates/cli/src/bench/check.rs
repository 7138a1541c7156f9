//! Results of a device beside the CPU's.

use super::Line;
use frit::engine::devices::HOST;
use frit::*;

/// Compute on the default device and, with the same inputs, on the CPU: an error where they differ by more than roundings.
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
    let copies: Vec<Tensor> = given.iter().map(|t| t.to(HOST)).collect();
    Tensor::realize_all(&copies.iter().collect::<Vec<_>>())?;
    let mut theirs = vec![];
    Device::scope(HOST, || f(I::put_together(&form, &mut copies.into_iter())))??.take_apart(&mut theirs);
    let taken: usize = given.iter().map(|t| t.numel()).sum::<Result<usize>>()?;
    let mut worst = 0.0f64;
    for (a, b) in ours.iter().zip(&theirs) {
        worst = worst.max(difference(a, b, taken)?);
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

/// The largest difference of two results made of so many elements, in parts of what rounding allows.
pub fn difference(a: &Tensor, b: &Tensor, taken: usize) -> Result<f64> {
    let unit = match a.dtype() {
        DType::F64 => 1e-10,
        DType::F32 => 1e-4,
        DType::F16 => 4e-3,
        DType::BF16 => 2e-2,
        d if d.is_float() => 0.3,
        _ => 0.0,
    };
    if (a.dims()?, a.dtype()) != (b.dims()?, b.dtype()) {
        return Ok(f64::INFINITY);
    }
    // a long sum of both signs may come out small, and its roundings do not
    let spread = (taken as f64 / a.numel()?.max(1) as f64).sqrt();
    let values = |t: &Tensor| t.to(HOST).cast(DType::F64).to_vec::<f64>();
    let one = |(a, b): (&f64, &f64)| match (a.is_nan(), b.is_nan()) {
        (true, true) => 0.0,
        (false, false) if a == b => 0.0,
        (false, false) => (a - b).abs() / (unit * (1.0 + spread + a.abs().max(b.abs()))),
        _ => f64::INFINITY,
    };
    Ok(values(a)?.iter().zip(&values(b)?).map(one).fold(0.0, f64::max))
}
