//! Pooling over any number of spatial dims: windows by movement only, then a maximum, a mean or a norm.

use crate::composite::{div, mul};
use crate::conv::{Each, Window, WindowDims};
use crate::creation::float_of;
use crate::error::{Error, Result, call, fail};
use crate::movement::fixed;
use crate::operand::Operand;
use crate::reduce::{first_wins, mean_node, reduce_node, wide};
use crate::shape::{keepdim, product, show_all, size_of};
use crate::tensor::{Tensor, expand_to, filled, number};
use crate::trace::{Composite, noted};
use frit_uop::{Alu, DType, Scalar, UOp};
use smallvec::SmallVec;

/// For pools that have no name elsewhere.
const NO_NAME: Option<fn(WindowDims) -> Composite> = None;

/// A place that no window has.
const NOWHERE: i64 = i32::MAX as i64;

impl Tensor {
    /// The greatest of each window over the last dims, as many as `size` has; padding never wins. The first of equals
    /// has the gradient.
    #[track_caller]
    pub fn max_pool(&self, size: &[usize], window: Window) -> Tensor {
        let _c = call("max_pool");
        self.pool("max_pool", size, &window, Some(Composite::MaxPool), |x, at| {
            Ok(first_wins(&max_windows(x, at)?).reduce_axes(Alu::Max, &window_axes(x, at)))
        })
    }
    /// [`Tensor::max_pool`], and where in the spatial dims each was found: row-major, the first of equals, int32.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::new([[[1.0, 4.0, 2.0, 3.0]]]);
    /// let (y, at) = x.max_pool_with_indices(&[2], Window::new());
    /// assert_eq!((y.to_vec::<f32>()?, at.to_vec::<i32>()?), (vec![4.0, 3.0], vec![1, 3]));
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn max_pool_with_indices(&self, size: &[usize], window: Window) -> (Tensor, Tensor) {
        let _c = call("max_pool");
        let indices = self.pool("max_pool", size, &window, NO_NAME, |x, at| {
            let (w, axes) = (max_windows(x, at)?, window_axes(x, at));
            let best = expand_to(&w.reduce_axes(Alu::Max, &axes), w.shape());
            let spatial = &x.shape()[x.shape().len() - size.len()..];
            let places = places(spatial)?;
            let places = at.windows("max_pool", &at.padded(&places, &NOWHERE.into())?)?;
            let hit = w.eq_(&best).or_(&w.ne_(&w));
            let found = hit.select(&expand_to(&places, w.shape()), &UOp::int(NOWHERE, DType::I32));
            Ok(found.reduce_axes(Alu::Min, &axes))
        });
        (self.max_pool(size, window), indices)
    }
    /// The mean of each window over the last dims, as many as `size` has.
    #[track_caller]
    pub fn avg_pool(&self, size: &[usize], window: Window) -> Tensor {
        let _c = call("avg_pool");
        if window.divisor == Some(0) {
            return Tensor::failed(Error::new("avg_pool", "divided by 0"));
        }
        let count_pad = window.count_pad;
        let named = window.divisor.is_none() && !window.ceil;
        let what = named.then_some(move |window| Composite::AvgPool { window, count_pad });
        self.pool("avg_pool", size, &window, what, |x, at| {
            let (v, axes) = (wide(x), window_axes(x, at));
            let w = at.windows("avg_pool", &at.padded(&v, &0.into())?)?;
            let padded = at.padding.iter().any(|p| *p != (0, 0));
            let mean = match window.divisor {
                Some(n) => mul(&reduce_node(&w, Alu::Add, &axes), &number(1.0 / n as f64, v.dtype)),
                None if padded && (!window.count_pad || window.ceil) => {
                    let counts = counts(&v, &window, size, at)?;
                    div(&reduce_node(&w, Alu::Add, &axes), &reduce_node(&counts, Alu::Add, &axes))
                }
                None => mean_node(&w, &axes),
            };
            Ok(mean.cast(float_of(x.dtype)))
        })
    }
    /// The p-norm of each window over the last dims, as torch has it: `sum(x^p)^(1/p)`, so an odd p keeps signs.
    #[track_caller]
    pub fn lp_pool(&self, p: f64, size: &[usize], window: Window) -> Tensor {
        let _c = call("lp_pool");
        if p.is_nan() || p == 0.0 {
            return Tensor::failed(Error::new("lp_pool", format!("a norm of order {p}")));
        }
        let mean = self.pow(p).avg_pool(size, window);
        let n: usize = size.iter().product();
        (mean.sign() * mean.abs() * n as f64).pow(1.0 / p)
    }
    /// The mean of `size` windows of nearly equal length that cover the last dims.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::new([[1.0, 2.0, 3.0, 4.0, 5.0]]).adaptive_avg_pool(&[2]);
    /// assert_eq!(x.to_vec::<f32>()?, [2.0, 4.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn adaptive_avg_pool(&self, size: &[usize]) -> Tensor {
        let _c = call("adaptive_avg_pool");
        let done = self.shares("adaptive_avg_pool", size).map(|shares| {
            let x = self.map(|x| Ok(wide(x)));
            let pooled = shares.iter().rev().fold(x, |x, s| {
                let windows = s.windows(&x, &Operand::from(0.0));
                windows.sum(s.axis + 1) / s.lengths(&windows)
            });
            pooled.cast(float_of(self.dtype()))
        });
        done.unwrap_or_else(Tensor::failed)
    }
    /// The greatest of `size` windows of nearly equal length that cover the last dims.
    #[track_caller]
    pub fn adaptive_max_pool(&self, size: &[usize]) -> Tensor {
        let _c = call("adaptive_max_pool");
        let done = self.shares("adaptive_max_pool", size).map(|shares| {
            let low = lowest(self.dtype());
            shares.iter().rev().fold(self.clone(), |x, s| s.windows(&x, &low).max_first(s.axis + 1))
        });
        done.unwrap_or_else(Tensor::failed)
    }
    /// [`Tensor::adaptive_max_pool`], and where in the spatial dims each was found: row-major, the first of equals,
    /// int32.
    #[track_caller]
    pub fn adaptive_max_pool_with_indices(&self, size: &[usize]) -> (Tensor, Tensor) {
        let _c = call("adaptive_max_pool");
        let indices = self.shares("adaptive_max_pool", size).and_then(|shares| {
            let x = self.uop()?;
            let spatial = &x.shape()[x.shape().len() - size.len()..];
            let all = Tensor::of(Ok(expand_to(&places(spatial)?, x.shape())));
            let low = lowest(x.dtype);
            // the last dim first: the first of equals in a row, then the first of such rows
            let found = shares.iter().rev().fold((self.clone(), all), |(x, places), s| {
                let (x, places) = (s.windows(&x, &low), s.windows(&places, &NOWHERE.into()));
                let best = x.max(keepdim(s.axis + 1));
                let hit = x.eq(&best).logical_or(x.isnan());
                (best.squeeze(s.axis + 1), hit.where_(places, NOWHERE).min(s.axis + 1))
            });
            Ok(found.1)
        });
        (self.adaptive_max_pool(size), indices.unwrap_or_else(Tensor::failed))
    }
    /// Elements put back at the places in the last dims that [`Tensor::max_pool_with_indices`] gave, zeros elsewhere;
    /// the spatial dims become `output`.
    #[track_caller]
    pub fn max_unpool(&self, indices: &Tensor, output: &[usize]) -> Tensor {
        let _c = call("max_unpool");
        self.map(|x| {
            let (s, i) = (x.shape(), indices.uop()?);
            if s != i.shape() || s.len() < output.len() || output.is_empty() {
                return fail!(
                    "max_unpool",
                    "{} with indices {} to {output:?}",
                    show_all(s),
                    show_all(i.shape())
                );
            }
            let lead = &s[..s.len() - output.len()];
            let rows = |n: UOp| [product(lead), n];
            let out: SmallVec<[UOp; 4]> = output.iter().map(|&n| size_of(n)).collect();
            let flat = rows(product(&s[lead.len()..]));
            let zeros = Tensor::of(Ok(filled(&rows(product(&out)), x.const_like(0))));
            let (at, values) = (i.reshape(&flat), x.reshape(&flat));
            let put = zeros.scatter(1, &Tensor::of(Ok(at)), Tensor::of(Ok(values))).uop()?;
            Ok(put.reshape(&lead.iter().chain(&out).cloned().collect::<SmallVec<[UOp; 4]>>()))
        })
    }
    fn pool(
        &self,
        op: &'static str,
        size: &[usize],
        window: &Window,
        what: Option<impl FnOnce(WindowDims) -> Composite>,
        f: impl FnOnce(&UOp, &WindowDims) -> Result<UOp>,
    ) -> Tensor {
        let mut walk = None;
        let y = self.map(|x| {
            if x.shape().len() < size.len() || size.is_empty() {
                return fail!(op, "a window of {size:?} over shape {}", show_all(x.shape()));
            }
            let mut at = window.per_dim(op, size)?;
            if window.ceil {
                at.ceiled(op, x)?;
            }
            let w = f(x, &at)?;
            let dims: SmallVec<[UOp; 4]> = w.shape()[..x.shape().len()].iter().cloned().collect();
            walk = Some(at);
            Ok(w.reshape(&dims))
        });
        match (what, walk) {
            (Some(what), Some(walk)) => noted(|| what(walk), &[Some(self)], y),
            _ => y,
        }
    }
    /// How each of the last dims is shared out among adaptive windows.
    fn shares(&self, op: &'static str, size: &[usize]) -> Result<Vec<Share>> {
        let x = self.uop()?;
        let rank = x.shape().len();
        if rank < size.len() || size.is_empty() || size.contains(&0) {
            return fail!(op, "to {size:?} of shape {}", show_all(x.shape()));
        }
        let share = |(i, &to): (usize, &usize)| {
            let axis = rank - size.len() + i;
            match fixed(op, &x.shape()[axis])? as usize {
                0 => fail!(op, "no elements in dim {axis} of shape {}", show_all(x.shape())),
                from => Ok(Share { axis, from, to }),
            }
        };
        size.iter().enumerate().map(share).collect()
    }
}

macro_rules! by_rank {
    ($($(#[$doc:meta])* $name:ident $n:literal $of:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self, size: impl Into<Each>, window: Window) -> Tensor {
                let _c = call(stringify!($name));
                match spatial(stringify!($name), size.into(), $n) {
                    Ok(size) => self.$of(&size, window),
                    Err(e) => Tensor::failed(e),
                }
            }
        )*}
    };
}
by_rank! {
    /// [`Tensor::max_pool`] over the last dim.
    max_pool1d 1 max_pool;
    /// [`Tensor::max_pool`] over the last two dims.
    max_pool2d 2 max_pool;
    /// [`Tensor::max_pool`] over the last three dims.
    max_pool3d 3 max_pool;
    /// [`Tensor::avg_pool`] over the last dim.
    avg_pool1d 1 avg_pool;
    /// [`Tensor::avg_pool`] over the last two dims.
    avg_pool2d 2 avg_pool;
    /// [`Tensor::avg_pool`] over the last three dims.
    avg_pool3d 3 avg_pool;
}

fn spatial(op: &'static str, size: Each, n: usize) -> Result<Vec<usize>> {
    match size.0[..] {
        [s] => Ok(vec![s; n]),
        ref s if s.len() == n => Ok(s.to_vec()),
        ref s => fail!(op, "a window of {s:?} for {n} spatial dims"),
    }
}

/// Less than anything of its type, or equal.
fn lowest(d: DType) -> Operand {
    let v = Scalar::identity(Alu::Max, d).unwrap_or(Scalar::zero(d));
    Operand::Tensor(Tensor::of(Ok(UOp::constant(v, d))))
}

fn max_windows(x: &UOp, at: &WindowDims) -> Result<UOp> {
    at.windows("max_pool", &at.padded(x, &lowest(x.dtype))?)
}

/// The dims that windows are in, behind those of `x`.
fn window_axes(x: &UOp, at: &WindowDims) -> Vec<usize> {
    let rank = x.shape().len();
    (rank..rank + at.size.len()).collect()
}

/// The row-major place of each element, int32.
fn places(dims: &[UOp]) -> Result<UOp> {
    let n = product(dims);
    if n.bounds.1 >= NOWHERE as i128 {
        return fail!("max_pool", "{} places do not fit int32", crate::shape::show(&n));
    }
    Ok(UOp::iota(&n, DType::I32).reshape(dims))
}

/// Ones under each window where elements count: those of `x`, padding that was asked for if it does, never what
/// rounding up has added.
fn counts(x: &UOp, window: &Window, size: &[usize], at: &WindowDims) -> Result<UOp> {
    let asked = window.per_dim("avg_pool", size)?;
    let ones = filled(x.shape(), x.const_like(1));
    let mut rest = at.clone();
    if !window.count_pad {
        return rest.windows("avg_pool", &rest.padded(&ones, &0.into())?);
    }
    for (p, q) in rest.padding.iter_mut().zip(&asked.padding) {
        *p = (p.0 - q.0, p.1 - q.1);
    }
    let ones = asked.padded(&ones, &1.into())?;
    rest.windows("avg_pool", &rest.padded(&ones, &0.into())?)
}

/// A dim of `from` elements shared out among `to` windows: window i begins at `i*from/to` and ends before
/// `(i+1)*from/to`, rounded up.
struct Share {
    axis: usize,
    from: usize,
    to: usize,
}

impl Share {
    fn longest(&self) -> usize {
        let (n, o) = (self.from as u128, self.to as u128);
        let len = |i: u128| ((i + 1) * n).div_ceil(o) - i * n / o;
        (0..o).map(len).max().unwrap_or(1) as usize
    }
    /// First place of each window, and the place it ends before.
    fn bounds(&self) -> (Tensor, Tensor) {
        let wide = self.from as u128 * (self.to as u128 + 1) > i32::MAX as u128;
        let i = Tensor::arange(self.to).cast(if wide { DType::I64 } else { DType::I32 });
        let (n, o) = (self.from as i64, self.to as i64);
        ((&i * n).floor_div(o), ((i + 1) * n + (o - 1)).floor_div(o))
    }
    /// The axis becomes two: windows, and what is in each, filled up where it is shorter than the longest.
    fn windows(&self, x: &Tensor, fill: &Operand) -> Tensor {
        let axis = self.axis as isize;
        if self.from.is_multiple_of(self.to) {
            return x.unflatten(axis, [self.to, self.from / self.to]);
        }
        let (len, (begin, end)) = (self.longest(), self.bounds());
        let at = begin.unsqueeze(1) + Tensor::arange(len).cast(begin.dtype()); // (to, len)
        let picked = x.index_select(axis, &at.minimum(self.from - 1).flatten(0, -1));
        let behind = x.rank() - self.axis - 1;
        let inside = self.along(&at.lt(end.unsqueeze(1)), behind);
        inside.where_(picked.unflatten(axis, [self.to, len]), fill.clone())
    }
    /// The number of elements in each window, to divide what is left of `windows` by.
    fn lengths(&self, windows: &Tensor) -> Tensor {
        let (begin, end) = self.bounds();
        self.along(&(end - begin), windows.rank() - self.axis - 2).cast(windows.dtype())
    }
    /// With dims of size 1 behind.
    fn along(&self, x: &Tensor, behind: usize) -> Tensor {
        (0..behind).fold(x.clone(), |x, _| x.unsqueeze(-1))
    }
}
