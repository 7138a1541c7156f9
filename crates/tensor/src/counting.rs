//! Distinct elements, how often they occur, and histograms.
//!
//! The size of a result here depends on data: `unique`, `unique_consecutive` and `bincount` compute it at the call.

use crate::error::{Result, call, fail};
use crate::shape::Dim;
use crate::tensor::Tensor;
use frit_uop::DType;

/// The distinct elements of a tensor.
#[derive(Clone, Debug)]
pub struct Unique {
    /// Each once.
    pub values: Tensor,
    /// For each element of the tensor, its place in `values`; int32, of the tensor's shape.
    pub inverse: Tensor,
    /// How often each occurs; int32.
    pub counts: Tensor,
}

/// Runs of equal elements of a vector: each value once, each element's run, their lengths. Computes their number.
fn runs(x: &Tensor) -> Result<Unique> {
    if x.numel()? == 0 {
        let none = Tensor::full_dtype([0], 0, DType::I32);
        return Ok(Unique { values: x.clone(), inverse: none.clone(), counts: none });
    }
    let run = x.begins_runs(0).cast(DType::I32).cumsum(0) - 1;
    let run = run.contiguous();
    let count = run.at(-1).item::<i32>()? as usize + 1;
    let values = Tensor::full_dtype([count], 0, x.dtype()).scatter(0, &run, x);
    let counts = Tensor::full_dtype([count], 0, DType::I32).scatter_add(0, &run, run.ones_like());
    Ok(Unique { values, inverse: run, counts })
}

/// For each element of a vector its place among the distinct ones, sorted; int32. Every NaN is an element of its own.
fn dense_ranks(x: &Tensor) -> Tensor {
    let (sorted, places) = x.sort(0, false);
    let run = sorted.begins_runs(0).cast(DType::I32).cumsum(0) - 1;
    places.zeros_like().scatter(0, &places, &run)
}

impl Tensor {
    /// The distinct elements, sorted. Computes how many there are.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// assert_eq!(Tensor::new([3, 1, 3, 2]).unique()?.to_vec::<i32>()?, [1, 2, 3]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn unique(&self) -> Result<Tensor> {
        let _c = call("unique");
        self.unique_all().map(|u| u.values)
    }
    /// The distinct elements, sorted; which one each element is, and how often each occurs. Computes how many there
    /// are. Every NaN is an element of its own.
    #[track_caller]
    pub fn unique_all(&self) -> Result<Unique> {
        let _c = call("unique");
        let flat = self.reshape([-1]);
        flat.check()?;
        if flat.numel()? == 0 {
            let u = runs(&flat)?;
            return Ok(Unique { inverse: u.inverse.reshape(self.shape()), ..u });
        }
        let (sorted, places) = flat.sort(0, false);
        let u = runs(&sorted)?;
        let inverse = places.zeros_like().scatter(0, &places, &u.inverse).reshape(self.shape());
        inverse.check()?;
        Ok(Unique { inverse, ..u })
    }
    /// The distinct slices along a dim, in the order of their elements; which one each slice is, and how often each
    /// occurs. Computes how many there are. A slice with a NaN in it is like no other.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let u = Tensor::new([[2, 1], [1, 9], [2, 1]]).unique_along(0)?;
    /// assert_eq!(u.values.to_vec::<i32>()?, [1, 9, 2, 1]);
    /// assert_eq!(u.inverse.to_vec::<i32>()?, [1, 0, 1]);
    /// assert_eq!(u.counts.to_vec::<i32>()?, [1, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn unique_along(&self, dim: isize) -> Result<Unique> {
        let _c = call("unique");
        let slices = self.movedim(dim, 0);
        slices.check()?;
        let n = slices.dims()?[0];
        if slices.numel()? == 0 {
            let none = Tensor::full_dtype([0], 0, DType::I32);
            return match n {
                0 => Ok(Unique { values: self.clone(), inverse: none.clone(), counts: none }),
                _ => {
                    fail!("unique", "slices of {} along dim {dim} have no elements to compare", self.shape())
                }
            };
        }
        let places = self.ranks_along(dim);
        let count = places.max(..).item::<i32>()? as usize + 1;
        let none = Tensor::full_dtype([count], 0, DType::I32);
        let one_of_each = none.scatter(0, &places, Tensor::arange(n));
        let counts = none.scatter_add(0, &places, places.ones_like());
        Ok(Unique { values: self.index_select(dim, &one_of_each), inverse: places, counts })
    }
    /// For each slice along a dim its place among the distinct ones, in the order of their elements; int32. Computes
    /// nothing: how many distinct slices there are is the greatest place and one.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::new([[2, 1], [1, 9], [2, 1]]);
    /// assert_eq!(x.ranks_along(0).to_vec::<i32>()?, [1, 0, 1]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn ranks_along(&self, dim: isize) -> Tensor {
        let _c = call("ranks_along");
        let slices = self.movedim(dim, 0);
        if slices.check().is_err() {
            return slices;
        }
        let shape = slices.shape();
        let n = shape[0].clone();
        let width = shape.as_slice()[1..].iter().fold(Dim::from(1), |n, d| n * d);
        // a width that varies is padded to the most that it can be: columns that are all equal decide nothing
        let mut columns = match width.as_int() {
            Some(w) => w,
            None => match width.max() {
                Ok(most) => most,
                Err(e) => return Tensor::failed(e),
            },
        };
        let count = |columns: i64| &n * columns;
        let none = Dim::from(0);
        let mut places =
            dense_ranks(&slices.reshape([count(1) * &width])).reshape((n.clone(), width.clone()));
        places = places.pad(&[(none.clone(), none.clone()), (none.clone(), Dim::from(columns) - width)], 0);
        // pairs of places, pairs of those, until a slice is one number; the order of the elements stays
        while columns > 1 {
            let pairs = places.long().pad(&[(0, 0), (0, columns as isize % 2)], 0);
            columns = (columns + 1) / 2;
            let pairs = pairs.reshape((n.clone(), columns, 2));
            // no place is as great as the number of elements
            let all = count(2 * columns).tensor().long();
            let one = pairs.select(2, 0) * all + pairs.select(2, 1);
            places = dense_ranks(&one.reshape([count(columns)])).reshape((n.clone(), columns));
        }
        places.reshape([n])
    }
    /// Runs of equal elements in row-major order, each run once. Computes how many there are.
    #[track_caller]
    pub fn unique_consecutive(&self) -> Result<Unique> {
        let _c = call("unique_consecutive");
        let u = runs(&self.reshape([-1]))?;
        Ok(Unique { inverse: u.inverse.reshape(self.shape()), ..u })
    }
    /// How often each of 0, 1, 2, … occurs in a vector of integers that are not negative, or the sum of their weights;
    /// at least `minlength` of them. Computes the greatest element.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// assert_eq!(Tensor::new([1, 3, 1]).bincount(None, 0)?.to_vec::<i32>()?, [0, 2, 0, 1]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn bincount(&self, weights: Option<&Tensor>, minlength: usize) -> Result<Tensor> {
        let _c = call("bincount");
        let dims = self.dims()?;
        if dims.len() != 1 || !self.dtype().is_int() {
            return fail!("bincount", "of {} {dims:?}: a vector of integers is counted", self.dtype());
        }
        let (least, greatest) = match dims[0] {
            0 => (0, -1),
            _ => {
                let ends = Tensor::stack(&[self.min(0), self.max(0)], 0).long().to_vec::<i64>()?;
                (ends[0], ends[1])
            }
        };
        if least < 0 {
            return fail!("bincount", "{least} is negative");
        }
        let n = minlength.max((greatest + 1) as usize);
        let dtype = match weights.map(|w| w.dtype()) {
            None => DType::I32,
            Some(d) if d.is_float() => d,
            Some(_) => DType::F64,
        };
        let weights = weights.map_or_else(|| Tensor::full_dtype(self.shape(), 1, dtype), |w| w.cast(dtype));
        let out = Tensor::full_dtype([n], 0, dtype).scatter_add(0, self, &weights);
        out.check().map(|_| out)
    }
    /// How many elements are in each of `bins` ranges of equal width from `min` to `max`; of the least to the greatest
    /// element if both are equal. Elements outside are not counted.
    #[track_caller]
    pub fn histc(&self, bins: usize, min: f64, max: f64) -> Tensor {
        let _c = call("histc");
        let refuse = |m: String| Tensor::failed(crate::error::Error::new("histc", m));
        if self.check().is_ok() && !self.dtype().is_float() {
            return refuse(format!("of {}; cast to a float type", self.dtype()));
        }
        if bins == 0 || min > max || !(min.is_finite() && max.is_finite()) {
            return refuse(format!("{bins} bins from {min} to {max}"));
        }
        let x = self.reshape([-1]);
        if x.shape()[0] == 0 {
            return Tensor::full_dtype([bins], 0, self.dtype());
        }
        let wide = if self.dtype() == DType::F64 { x.clone() } else { x.float() };
        let full = |v: f64| Tensor::full_dtype((), v, wide.dtype());
        let (low, high) =
            if min == max { (wide.min(..).detach(), wide.max(..).detach()) } else { (full(min), full(max)) };
        // all equal: one on either side
        let flat = low.eq(&high);
        let (low, high) = (flat.where_(&low - 1.0, &low), flat.where_(&high + 1.0, &high));
        let share = (&wide - &low) * bins as f64 / (&high - &low);
        let bin = share.cast(DType::I32).clamp_max(bins as i64 - 1);
        // what is outside, or NaN, goes to one bin more
        let inside = wide.ge(&low).logical_and(wide.le(&high));
        let bin = inside.where_(&bin, bins as i64);
        let counts = Tensor::full_dtype([bins + 1], 0, self.dtype());
        counts.scatter_add(0, &bin, x.ones_like()).narrow(0, 0, bins)
    }
}
