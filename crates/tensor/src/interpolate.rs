//! Resizing by interpolation, and sampling at places given as data.
//!
//! Resizing works dim by dim: each result is a weighted sum of a few elements whose places and weights are arithmetic
//! on the result's own place, in float32 as torch does it, so that the same elements are picked.

use crate::creation::float_of;
use crate::error::{Error, Result, call, fail};
use crate::movement::fixed;
use crate::shape::{keepdim, show_all};
use crate::tensor::Tensor;
use frit_uop::DType;

/// How [`Tensor::interpolate`] makes elements that are between others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sampling {
    /// The element before.
    #[default]
    Nearest,
    /// The nearest by the centres of elements.
    NearestExact,
    /// Between two, in each dim: torch's linear, bilinear and trilinear.
    Linear,
    /// A cubic through four, in each dim: torch's bicubic.
    Cubic,
    /// The mean of those under it.
    Area,
}

/// Options of [`Tensor::interpolate`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Interpolate {
    /// How elements are made.
    pub mode: Sampling,
    /// Linear and cubic: the first and last elements fall on the first and last, instead of corners on corners.
    pub align_corners: bool,
    /// Linear and cubic, when shrinking: average over all elements that come together.
    pub antialias: bool,
}

/// One dim to resize: how many elements, how many become of them, and how far apart these are in the original.
struct Resize {
    axis: isize,
    from: usize,
    to: usize,
    step: f64,
}

impl Tensor {
    /// (N, C, spatial…) with the last dims, as many as `size` has, resized.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::new([[[1.0, 2.0]]]);
    /// let linear = Interpolate { mode: Sampling::Linear, ..Default::default() };
    /// assert_eq!(x.interpolate(&[4], linear).to_vec::<f32>()?, [1.0, 1.25, 1.75, 2.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn interpolate(&self, size: &[usize], o: Interpolate) -> Tensor {
        let _c = call("interpolate");
        self.resizes(size.len(), |_, i| Ok((size[i], None)), o)
    }
    /// [`Tensor::interpolate`] by factors, one for each of the last dims; sizes are rounded down.
    #[track_caller]
    pub fn interpolate_by(&self, factors: &[f64], o: Interpolate) -> Tensor {
        let _c = call("interpolate");
        let size = |from: usize, i: usize| match (from as f64 * factors[i]).floor() {
            to if (1.0..9e15).contains(&to) => Ok((to as usize, Some(1.0 / factors[i]))),
            _ => fail!("interpolate", "a dim of {from} by {}", factors[i]),
        };
        self.resizes(factors.len(), size, o)
    }
    #[track_caller]
    fn resizes(
        &self,
        n: usize,
        size: impl Fn(usize, usize) -> Result<(usize, Option<f64>)>,
        o: Interpolate,
    ) -> Tensor {
        let smooth = matches!(o.mode, Sampling::Linear | Sampling::Cubic);
        let plan = || -> Result<Vec<Resize>> {
            let x = self.uop()?;
            let rank = x.shape().len();
            if n == 0 || rank < n {
                return fail!("interpolate", "{n} sizes for shape {}", show_all(x.shape()));
            }
            if (o.align_corners || o.antialias) && !smooth {
                return fail!(
                    "interpolate",
                    "align_corners and antialias are for linear and cubic, not {:?}",
                    o.mode
                );
            }
            let one = |i: usize| {
                let axis = rank - n + i;
                let from = fixed("interpolate", &x.shape()[axis])? as usize;
                let (to, step) = size(from, i)?;
                if from == 0 || to == 0 {
                    return fail!("interpolate", "dim {axis} of shape {} to {to}", show_all(x.shape()));
                }
                let step = match step {
                    _ if o.align_corners => (from - 1) as f64 / (to.max(2) - 1) as f64,
                    Some(step) => step,
                    None => from as f64 / to as f64,
                };
                Ok(Resize { axis: axis as isize, from, to, step })
            };
            (0..n).map(one).collect()
        };
        let plan = match plan() {
            Ok(p) => p,
            Err(e) => return Tensor::failed(e),
        };
        if o.mode == Sampling::Area {
            return self.adaptive_avg_pool(&plan.iter().map(|r| r.to).collect::<Vec<_>>());
        }
        if !smooth {
            return plan.iter().rev().fold(self.clone(), |x, r| x.index_select(r.axis, &r.nearest(o.mode)));
        }
        let wide = float_of(self.dtype());
        let wide = if wide.is_small_float() { DType::F32 } else { wide };
        let resized = plan.iter().rev().fold(self.cast(wide), |x, r| r.apply(&x, o));
        match self.dtype() {
            // pixels stay pixels, rounded as torch rounds them
            DType::U8 => (resized + 0.5).floor().clamp(0, 255).cast(DType::U8),
            d => resized.cast(float_of(d)),
        }
    }
}

impl Resize {
    fn nearest(&self, mode: Sampling) -> Tensor {
        let i = Tensor::arange(self.to);
        if self.from == self.to {
            return i;
        }
        let half = if mode == Sampling::NearestExact { 0.5 } else { 0.0 };
        ((i.float() + half) * self.step).floor().cast(DType::I32).minimum(self.from - 1)
    }
    /// Where each result is in the original.
    fn places(&self, o: Interpolate) -> Tensor {
        let i = Tensor::arange(self.to).float();
        match (o.align_corners, o.mode) {
            (true, _) => i * self.step,
            (_, Sampling::Linear) => ((i + 0.5) * self.step - 0.5).clamp_min(0.0),
            _ => (i + 0.5) * self.step - 0.5,
        }
    }
    fn apply(&self, x: &Tensor, o: Interpolate) -> Tensor {
        let same = self.from == self.to && self.step == 1.0;
        if same {
            return x.clone();
        }
        if o.antialias {
            return self.averaged(x, o);
        }
        let at = self.places(o);
        let first = at.floor();
        let t = &at - &first;
        let (low, weights) = match o.mode {
            Sampling::Cubic => (-1, cubic_weights(&t).to_vec()),
            _ => (0, vec![1.0 - &t, t]),
        };
        let first = first.cast(DType::I32);
        let behind = x.rank() - self.axis as usize - 1;
        let terms = weights.into_iter().enumerate().map(|(k, w)| {
            let place = (&first + (low + k as i64)).clamp(0, self.from - 1);
            let w = (0..behind).fold(w, |w, _| w.unsqueeze(-1));
            x.index_select(self.axis, &place) * w.cast(x.dtype())
        });
        terms.reduce(|a, b| a + b).unwrap_or_else(|| x.clone())
    }
    /// A product with the matrix of weights, each row as wide as the step where that is more than one.
    fn averaged(&self, x: &Tensor, o: Interpolate) -> Tensor {
        let reach = if o.mode == Sampling::Cubic { 2.0 } else { 1.0 };
        let scale = self.step.max(1.0);
        let centre = (Tensor::arange(self.to).float() + 0.5) * self.step; // (to)
        let j = Tensor::arange(self.from).float(); // (from)
        let begin = (&centre - reach * scale + 0.5).trunc().clamp_min(0.0).unsqueeze(1);
        let end = (&centre + reach * scale + 0.5).trunc().clamp_max(self.from as f64).unsqueeze(1);
        let d = ((&j + 0.5 - centre.unsqueeze(1)) * (1.0 / scale)).abs(); // (to, from)
        let w = match o.mode {
            Sampling::Cubic => cubic(&d, -0.5),
            _ => (1.0 - d).clamp_min(0.0),
        };
        let inside = j.ge(&begin).logical_and(j.lt(&end));
        let w = inside.where_(w, 0.0);
        let w = (&w / w.sum(keepdim(1))).cast(x.dtype());
        x.movedim(self.axis, -1).matmul(&w.t()).movedim(-1, self.axis)
    }
}

/// The cubic convolution kernel at a distance from 0 to 2, zero beyond.
fn cubic(d: &Tensor, a: f64) -> Tensor {
    let near = ((d * (a + 2.0) - (a + 3.0)) * d) * d + 1.0;
    let far = (((d - 5.0) * d + 8.0) * d - 4.0) * a;
    d.le(1.0).where_(near, d.lt(2.0).where_(far, 0.0))
}

/// Weights of the elements at -1, 0, 1 and 2 for a place `t` of the way from 0 to 1.
pub(crate) fn cubic_weights(t: &Tensor) -> [Tensor; 4] {
    const A: f64 = -0.75;
    let near = |d: &Tensor| ((d * (A + 2.0) - (A + 3.0)) * d) * d + 1.0;
    let far = |d: &Tensor| ((d * A - 5.0 * A) * d + 8.0 * A) * d - 4.0 * A;
    [far(&(t + 1.0)), near(t), near(&(1.0 - t)), far(&(2.0 - t))]
}

impl std::str::FromStr for Sampling {
    type Err = Error;
    /// By torch's names: `nearest`, `nearest-exact`, `linear`, `bilinear`, `trilinear`, `bicubic`, `cubic`, `area`.
    fn from_str(s: &str) -> Result<Sampling> {
        Ok(match s {
            "nearest" => Sampling::Nearest,
            "nearest-exact" => Sampling::NearestExact,
            "linear" | "bilinear" | "trilinear" => Sampling::Linear,
            "cubic" | "bicubic" => Sampling::Cubic,
            "area" => Sampling::Area,
            _ => return fail!("interpolate", "there is no mode {s:?}"),
        })
    }
}
