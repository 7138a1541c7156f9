//! Sampling at places given as data, and the grids of affine maps.

use crate::creation::float_of;
use crate::error::{Error, Result, call, fail};
use crate::interpolate::{Sampling, cubic_weights};
use crate::shape::{Dims, show_all};
use crate::tensor::Tensor;
use frit_uop::DType;

/// What [`Tensor::grid_sample`] finds outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Outside {
    /// Zeros.
    #[default]
    Zeros,
    /// The element at the border.
    Border,
    /// Elements mirrored at the border.
    Reflection,
}

/// Options of [`Tensor::grid_sample`].
#[derive(Clone, Copy, Debug)]
pub struct GridSample {
    /// Linear, nearest (by centres) or cubic (two spatial dims).
    pub mode: Sampling,
    /// What is outside.
    pub outside: Outside,
    /// -1 and 1 are the centres of the first and last elements, instead of their outer corners.
    pub align_corners: bool,
}

impl Default for GridSample {
    fn default() -> GridSample {
        GridSample { mode: Sampling::Linear, outside: Outside::Zeros, align_corners: false }
    }
}

impl Tensor {
    /// (N, C, H, W) or (N, C, D, H, W) sampled at places (N, outs…, 2 or 3): coordinates from -1 to 1, those of the
    /// last spatial dim first. Gives (N, C, outs…).
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::new([[[[1.0, 2.0], [3.0, 4.0]]]]);
    /// let centre = Tensor::zeros([1, 1, 1, 2]);
    /// assert_eq!(x.grid_sample(&centre, GridSample::default()).item::<f32>()?, 2.5);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn grid_sample(&self, grid: &Tensor, o: GridSample) -> Tensor {
        let _c = call("grid_sample");
        Sampler::new(self, grid, o).map_or_else(Tensor::failed, |s| s.sample())
    }
    /// The places that affine maps (N, 2, 3) or (N, 3, 4) send the elements of (N, C, spatial…) to: a grid for
    /// [`Tensor::grid_sample`].
    #[track_caller]
    pub fn affine_grid(&self, size: &[usize], align_corners: bool) -> Tensor {
        let _c = call("affine_grid");
        let n = size.len().saturating_sub(2);
        let ok = self.rank() == 3 && (n == 2 || n == 3) && self.shape()[1] == n && self.shape()[2] == n + 1;
        if let Err(e) = self.check() {
            return Tensor::failed(e);
        }
        if !ok || self.shape()[0] != size[0] {
            let message = format!("maps of shape {} for {size:?}", self.shape());
            return Tensor::failed(Error::new("affine_grid", message));
        }
        let line = |n: usize| match (n, align_corners) {
            (1, _) => Tensor::zeros([1]),
            (n, true) => Tensor::linspace(-1.0, 1.0, n),
            (n, false) => Tensor::linspace(-1.0, 1.0, n) * ((n - 1) as f64 / n as f64),
        };
        let lines: Vec<Tensor> = size[2..].iter().map(|&n| line(n)).collect();
        let mut base = Tensor::meshgrid(&lines); // of the first spatial dim first
        base.reverse();
        base.push(Tensor::ones(&size[2..]));
        let base = Tensor::stack(&base, -1).reshape((1, -1, n + 1)).cast(self.dtype()); // (1, P, n+1)
        let mut out = vec![size[0]];
        out.extend(&size[2..]);
        out.push(n);
        base.matmul(&self.t()).reshape(out)
    }
}

struct Sampler {
    /// (N, C, places)
    flat: Tensor,
    sizes: Vec<usize>,
    /// One for each spatial dim, the first first: (N, points), in elements.
    at: Vec<Tensor>,
    o: GridSample,
    out: Dims,
    dtype: DType,
}

impl Sampler {
    fn new(x: &Tensor, grid: &Tensor, o: GridSample) -> Result<Sampler> {
        let (u, g) = (x.uop()?, grid.uop()?);
        let (s, t) = (u.shape(), g.shape());
        let n = s.len().saturating_sub(2);
        let fits = (n == 2 || n == 3)
            && t.len() == s.len()
            && t[n + 1].as_int() == Some(n as i64)
            && t[0] == s[0]
            && g.dtype.is_float();
        if !fits {
            return fail!("grid_sample", "input {} and grid {} {}", show_all(s), g.dtype, show_all(t));
        }
        match o.mode {
            Sampling::Linear | Sampling::Nearest => {}
            Sampling::Cubic if n == 2 => {}
            m => return fail!("grid_sample", "{m:?} over {n} spatial dims"),
        }
        let sizes = x.dims()?[2..].to_vec();
        if sizes.contains(&0) {
            return fail!("grid_sample", "no elements in shape {}", show_all(s));
        }
        let dtype = float_of(x.dtype());
        let wide = if dtype.is_small_float() { DType::F32 } else { dtype };
        let (shape, points) = (x.shape(), grid.shape());
        let flat = x.cast(wide).reshape((&shape[0], &shape[1], -1));
        let all = grid.cast(wide).flatten(1, -2); // (N, P, n)
        let coordinate = |i: usize| {
            let c = all.narrow(-1, n - 1 - i, 1).squeeze(-1);
            let size = sizes[i] as f64;
            match o.align_corners {
                true => (c + 1.0) * ((size - 1.0) / 2.0),
                false => ((c + 1.0) * size - 1.0) * 0.5,
            }
        };
        let at = (0..n).map(coordinate).collect();
        let mut out = vec![shape[0].clone(), shape[1].clone()];
        out.extend(points.as_slice()[1..=n].iter().cloned());
        Ok(Sampler { flat, sizes, at, o, out: out.into(), dtype })
    }
    fn sample(&self) -> Tensor {
        let n = self.at.len();
        // for each dim: places in elements and their weights
        let taps: Vec<Vec<(Tensor, Option<Tensor>)>> = (0..n).map(|i| self.taps(i)).collect();
        let mut sum: Option<Tensor> = None;
        let total: usize = taps.iter().map(|t| t.len()).product();
        for k in 0..total {
            let (mut rest, mut places, mut weight) = (k, vec![], None::<Tensor>);
            for t in taps.iter().rev() {
                let (place, w) = &t[rest % t.len()];
                rest /= t.len();
                places.push(place);
                weight = match (weight, w) {
                    (Some(a), Some(b)) => Some(a * b),
                    (a, b) => a.or(b.clone()),
                };
            }
            places.reverse();
            let value = self.read(&places);
            let term = match weight {
                Some(w) => value * w.unsqueeze(1),
                None => value,
            };
            sum = Some(sum.map_or(term.clone(), |s| s + term));
        }
        sum.unwrap_or_else(|| self.flat.clone()).reshape(self.out.clone()).cast(self.dtype)
    }
    fn taps(&self, i: usize) -> Vec<(Tensor, Option<Tensor>)> {
        let at = &self.at[i];
        match self.o.mode {
            Sampling::Nearest => vec![(self.bounded(at, i).round(), None)],
            Sampling::Cubic => {
                let first = at.floor();
                let weights = cubic_weights(&(at - &first));
                let place = |k: usize| self.bounded(&(&first + (k as f64 - 1.0)), i);
                weights.into_iter().enumerate().map(|(k, w)| (place(k), Some(w))).collect()
            }
            _ => {
                let at = self.bounded(at, i);
                let first = at.floor();
                let t = &at - &first;
                vec![(first.clone(), Some(1.0 - &t)), (first + 1.0, Some(t))]
            }
        }
    }
    /// A coordinate brought inside as the options say.
    fn bounded(&self, at: &Tensor, i: usize) -> Tensor {
        let last = self.sizes[i] as f64 - 1.0;
        match self.o.outside {
            Outside::Zeros => at.clone(),
            Outside::Border => at.clamp(0.0, last),
            Outside::Reflection => {
                let (low, span) = if self.o.align_corners { (0.0, last) } else { (-0.5, last + 1.0) };
                if span == 0.0 {
                    return at.zeros_like();
                }
                let d = (at - low).abs();
                let turns = (&d / span).floor();
                let extra = d.fmod(span);
                let even = turns.fmod(2.0).eq(0.0);
                even.where_(&extra + low, span - &extra + low).clamp(0.0, last)
            }
        }
    }
    /// (N, C, P) at whole coordinates (N, P), zeros outside.
    fn read(&self, places: &[&Tensor]) -> Tensor {
        let (mut linear, mut inside) = (None::<Tensor>, None::<Tensor>);
        for (p, &n) in places.iter().zip(&self.sizes) {
            let last = n as f64 - 1.0;
            let ok = p.ge(0.0).logical_and(p.le(last));
            let i = p.detach().clamp(0.0, last).cast(DType::I32);
            linear = Some(linear.map_or(i.clone(), |l| l * n as i64 + i));
            inside = Some(inside.map_or(ok.clone(), |a| a.logical_and(ok)));
        }
        let (Some(linear), Some(inside)) = (linear, inside) else { return self.flat.clone() };
        let shape = self.flat.shape();
        let index = linear.unsqueeze(1).expand((&shape[0], &shape[1], -1));
        inside.unsqueeze(1).where_(self.flat.gather(2, &index), 0.0)
    }
}
