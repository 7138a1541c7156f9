//! How exact results are, measured: every elementary function in every float type, and long reductions, on a device,
//! against references with more digits. `frit accuracy` prints it, and tests hold the bounds: they are stated once,
//! in [`functions::FUNCTIONS`] and [`reductions::REDUCTIONS`].
//!
//! An error is counted in units in the last place of the type, at the true value. float32 and narrower types are
//! measured against the standard library's float64, float64 against sums of two doubles. Types of 16 and 8 bits are
//! computed in float32 and rounded once, so all of theirs is half a unit and what float32 adds: 0.51 is their bound.

use super::functions::{self, Function, Kind};
pub use super::sample::Points;
use super::twofold::Twofold;
use super::{reductions, sample};
use frit::{DType, Device, Result, Scalar, Tensor};

/// What was found for one function or reduction in one type.
#[derive(Clone, Debug)]
pub struct Row {
    /// The function.
    pub name: &'static str,
    /// The type.
    pub dtype: DType,
    /// How many results were compared.
    pub points: usize,
    /// The greatest error; infinite where a NaN, an infinity or the sign of a zero was wrong.
    pub max: f64,
    /// The mean error.
    pub mean: f64,
    /// The arguments with the greatest error.
    pub at: Vec<f64>,
    /// The bound.
    pub bound: f64,
    /// What errors and bound are counted in.
    pub unit: &'static str,
}

impl Row {
    /// Whether the bound holds.
    pub fn holds(&self) -> bool {
        self.max <= self.bound
    }
}

/// The types in which functions are measured.
pub const DTYPES: [DType; 6] =
    [DType::F32, DType::F64, DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2];

/// The bound of a function in a type, if it is measured there.
pub fn bound(f: &Function, dtype: DType) -> Option<f64> {
    let has_more_digits = matches!(f.kind, Kind::One(_, _, Some(_)) | Kind::Two(_, _, Some(_)));
    match dtype {
        DType::F32 => Some(f.single),
        DType::F64 => has_more_digits.then_some(f.double),
        _ if f.single == 0.0 => Some(0.0),
        _ => Some(0.51),
    }
}

/// Measure a function in a type on the default device; `None` where it is not measured.
pub fn measure(f: &Function, dtype: DType, points: Points) -> Result<Option<Row>> {
    let Some(bound) = bound(f, dtype) else { return Ok(None) };
    let mut row = Row { name: f.name, dtype, points: 0, max: 0.0, mean: 0.0, at: vec![], bound, unit: "ulp" };
    match f.kind {
        Kind::One(apply, near, exact) => {
            for xs in sample::singles(dtype, points) {
                let got = values(&apply(&tensor(&xs, dtype)))?;
                for (&x, got) in xs.iter().zip(got) {
                    let want = || exact.filter(|_| dtype == DType::F64).map(|e| e(x.into()));
                    row.count(error(got, near(x), want, dtype, f.floor), &[x]);
                }
            }
        }
        Kind::Two(apply, near, exact) => {
            let (xs, ys) = sample::pairs(dtype, points);
            let got = values(&apply(&tensor(&xs, dtype), &tensor(&ys, dtype)))?;
            for ((&x, &y), got) in xs.iter().zip(&ys).zip(got) {
                // what has a sign or an edge of its own is decided by the double
                let usual = x > 0.0 && x.is_finite() && y.is_finite() && dtype == DType::F64;
                let want = || exact.filter(|_| usual).map(|e| e(x.into(), y.into()));
                row.count(error(got, near(x, y), want, dtype, f.floor), &[x, y]);
            }
        }
    }
    row.mean /= row.points.max(1) as f64;
    Ok(Some(row))
}

/// Every row on a device: functions whose names `wanted` accepts, in types it accepts, then reductions.
pub fn run(
    device: &str,
    points: Points,
    wanted: impl Fn(&str, DType) -> bool,
    mut each: impl FnMut(&Row),
) -> Result<()> {
    Device::scope(device, || {
        for f in functions::FUNCTIONS {
            for dtype in DTYPES.into_iter().filter(|&d| wanted(f.name, d)) {
                if let Some(row) = measure(f, dtype, points)? {
                    each(&row);
                }
            }
        }
        for r in reductions::REDUCTIONS {
            for dtype in reductions::DTYPES.into_iter().filter(|&d| wanted(r.name, d)) {
                each(&reductions::measure(r, dtype)?);
            }
        }
        Ok(())
    })?
}

impl Row {
    /// One more result.
    pub(super) fn count(&mut self, error: f64, at: &[f64]) {
        self.points += 1;
        self.mean += error;
        if error > self.max || error.is_nan() {
            self.max = if error.is_nan() { f64::INFINITY } else { error };
            self.at = at.to_vec();
        }
    }
}

/// How far `got` is from the truth, in units in the last place: `near` in double precision, `exact` with more digits.
fn error(got: f64, near: f64, exact: impl FnOnce() -> Option<Twofold>, dtype: DType, floor: f64) -> f64 {
    let Some(info) = dtype.finfo() else { return f64::INFINITY };
    let rounded = Scalar::float(near, dtype).as_f64();
    if near.is_nan() || near.is_infinite() || got.is_nan() || rounded.is_nan() || near == 0.0 {
        let same = got == rounded
            && (got != 0.0 || got.is_sign_negative() == near.is_sign_negative() || dtype.is_small_float());
        return if same || got.is_nan() && rounded.is_nan() { 0.0 } else { f64::INFINITY };
    }
    // beyond the greatest number the type says what it is: an infinity, or the greatest itself
    if (got.is_infinite() || near.abs() > info.max) && got == rounded {
        return 0.0;
    }
    // infinity counts as the number after the greatest
    let got =
        if got.is_infinite() { (info.max + info.ulp(info.max)).min(f64::MAX).copysign(got) } else { got };
    let Twofold(high, low) = exact().filter(|e| e.0.is_finite()).unwrap_or(Twofold(near, 0.0));
    ((got - high) - low).abs() / info.ulp(high.abs().max(floor * info.smallest_normal))
}

/// Memory of a type with these values.
pub(super) fn tensor(values: &[f64], dtype: DType) -> Tensor {
    let size = dtype.size();
    let mut bytes = Vec::with_capacity(values.len() * size);
    for &v in values {
        bytes.extend_from_slice(&Scalar::float(v, dtype).to_bits(dtype).to_le_bytes()[..size]);
    }
    Tensor::from_bytes(dtype, &bytes, [values.len()])
}

/// The elements of a tensor as doubles.
pub(super) fn values(x: &Tensor) -> Result<Vec<f64>> {
    let (dtype, bytes) = (x.dtype(), x.to_bytes()?);
    let element = |b: &[u8]| {
        let mut word = [0; 8];
        word[..b.len()].copy_from_slice(b);
        Scalar::from_bits(u64::from_le_bytes(word), dtype).as_f64()
    };
    Ok(bytes.chunks(dtype.size().max(1)).map(element).collect())
}
