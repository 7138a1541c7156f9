//! Writing by place, as values: each gives a new tensor. [`Tensor::set`] writes in place.
//!
//! Values go in order, so of several for one place the last stays, and sums do not depend on threads. Indices are
//! checked and may be negative, as everywhere.

use crate::error::{Result, call, fail, site};
use crate::index::{checked, place_dtype, scatter_along};
use crate::movement::cut;
use crate::operand::Operand;
use crate::shape::{self, show, show_all};
use crate::tensor::{Tensor, check_devices, expand_to, filled};
use frit_uop::{Alu, DType, Scalar, ScatterMode, UOp};

/// Values for the places of an index: a scalar for all, or a tensor, cut to the index's shape where it is larger.
fn values_for(op: &'static str, v: &UOp, idx: &UOp) -> Result<UOp> {
    let (s, t) = (v.shape(), idx.shape());
    if s.is_empty() || s == t {
        return Ok(v.clone());
    }
    let covers = s.len() == t.len() && s.iter().zip(t).all(|(a, b)| a == b || a.bounds.0 >= b.bounds.1);
    if !covers {
        return fail!(op, "values of shape {} and index of shape {}", show_all(s), show_all(t));
    }
    Ok((0..s.len()).fold(v.clone(), |v, a| cut(&v, a, &UOp::index(0), &t[a])))
}

/// What to combine with, by name.
fn reduction(how: &str) -> Result<Alu> {
    match how {
        "sum" | "mean" => Ok(Alu::Add),
        "prod" => Ok(Alu::Mul),
        "amax" => Ok(Alu::Max),
        "amin" => Ok(Alu::Min),
        _ => fail!("scatter_reduce", "{how:?} is not sum, prod, mean, amax or amin"),
    }
}

impl Tensor {
    /// This with `src[i][j]` put at `[index[i][j]][j]` (for dim 0); of several for one place the last stays. `src` is a
    /// number or a tensor at least as large as the index.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::zeros([4]).scatter(0, &Tensor::new([2, 0, 2]), &Tensor::new([1.0, 2.0, 3.0]));
    /// assert_eq!(x.to_vec::<f32>()?, [2.0, 0.0, 3.0, 0.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn scatter(&self, dim: isize, idx: &Tensor, src: impl Into<Operand>) -> Tensor {
        self.scatter_mode("scatter", dim, idx, src.into(), ScatterMode::Set)
    }
    /// This with `src[i][j]` added at `[index[i][j]][j]` (for dim 0), in order.
    #[track_caller]
    pub fn scatter_add(&self, dim: isize, idx: &Tensor, src: impl Into<Operand>) -> Tensor {
        self.scatter_mode("scatter_add", dim, idx, src.into(), ScatterMode::Combine(Alu::Add))
    }
    /// This combined with `src` at places of an axis: "sum", "prod", "mean", "amax" or "amin". Without `include_self`
    /// what was at those places does not count.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let (x, at) = (Tensor::new([10.0, 20.0]), Tensor::new([0, 0]));
    /// let y = Tensor::new([1.0, 3.0]);
    /// assert_eq!(x.scatter_reduce(0, &at, &y, "mean", false).to_vec::<f32>()?, [2.0, 20.0]);
    /// assert_eq!(x.scatter_reduce(0, &at, &y, "amax", true).to_vec::<f32>()?, [10.0, 20.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn scatter_reduce(
        &self,
        dim: isize,
        idx: &Tensor,
        src: impl Into<Operand>,
        how: &str,
        include_self: bool,
    ) -> Tensor {
        let _c = call("scatter_reduce");
        let (src, dtype) = (src.into(), self.dtype());
        let alu = match reduction(how) {
            Ok(alu) => alu,
            Err(e) => return Tensor::failed(e),
        };
        let op = "scatter_reduce";
        let base = match (include_self, Scalar::identity(alu, dtype)) {
            (false, Some(unit)) => {
                let none = Tensor::full_dtype(self.shape(), false, DType::Bool);
                let hit = none.scatter_mode(op, dim, idx, Operand::from(true), ScatterMode::Set);
                let unit = Tensor::of(Ok(UOp::constant(unit, dtype)));
                hit.where_(unit, self)
            }
            _ => self.clone(),
        };
        let out = base.scatter_mode(op, dim, idx, src, ScatterMode::Combine(alu));
        if how != "mean" {
            return out;
        }
        let add = ScatterMode::Combine(Alu::Add);
        let start = Tensor::full_dtype(self.shape(), include_self as i64, DType::I32);
        let count = start.scatter_mode(op, dim, idx, Operand::from(1), add).clamp_min(1).cast(dtype);
        if dtype.is_float() { out / count } else { out.floor_div(count) }
    }
    #[track_caller]
    fn scatter_mode(
        &self,
        op: &'static str,
        dim: isize,
        idx: &Tensor,
        src: Operand,
        mode: ScatterMode,
    ) -> Tensor {
        let _c = call(op);
        self.map(|x| {
            let (a, i, v) = (shape::axis(op, dim, x.shape().len())?, idx.uop()?, src.node(op, x.dtype)?);
            if v.dtype != x.dtype {
                return fail!(op, "values of {} into {}; cast one", v.dtype, x.dtype);
            }
            let v = values_for(op, &v, &i)?;
            check_devices(op, &[x.clone(), i.clone(), v.clone()])?;
            scatter_along(op, x, a, &i, &v, mode)
        })
    }
    /// This with slices of `src` added along an axis at the places a vector of integers names.
    #[track_caller]
    pub fn index_add(&self, dim: isize, idx: &Tensor, src: &Tensor) -> Tensor {
        self.index_rows("index_add", dim, idx, Operand::from(src), ScatterMode::Combine(Alu::Add))
    }
    /// This with slices of `src` put along an axis at the places a vector of integers names.
    #[track_caller]
    pub fn index_copy(&self, dim: isize, idx: &Tensor, src: &Tensor) -> Tensor {
        self.index_rows("index_copy", dim, idx, Operand::from(src), ScatterMode::Set)
    }
    /// This with one value in the slices along an axis that a vector of integers names.
    #[track_caller]
    pub fn index_fill(&self, dim: isize, idx: &Tensor, v: impl Into<Operand>) -> Tensor {
        self.index_rows("index_fill", dim, idx, v.into(), ScatterMode::Set)
    }
    /// Slices along an axis written at the places of a vector; a scalar fills them.
    #[track_caller]
    fn index_rows(
        &self,
        op: &'static str,
        dim: isize,
        idx: &Tensor,
        src: Operand,
        mode: ScatterMode,
    ) -> Tensor {
        let _c = call(op);
        let out = self.movedim(dim, 0).map(|x| {
            let (i, v) = (idx.uop()?, src.node(op, x.dtype)?);
            let m = match i.shape() {
                [] => UOp::index(1),
                [m] => m.clone(),
                s => return fail!(op, "index of shape {}, not a vector", show_all(s)),
            };
            let mut dims = x.shape().to_vec();
            dims[0] = m.clone();
            let v = match v.shape() {
                [] => filled(&dims, v.clone()),
                _ => Tensor::of(Ok(v)).movedim(dim, 0).uop()?,
            };
            if v.shape() != dims || v.dtype != x.dtype || !i.dtype.is_int() {
                return fail!(
                    op,
                    "{} {} into {} {} at {} places of type {}",
                    v.dtype,
                    show_all(v.shape()),
                    x.dtype,
                    show_all(x.shape()),
                    show(&m),
                    i.dtype
                );
            }
            check_devices(op, &[x.clone(), i.clone(), v.clone()])?;
            let n = &x.shape()[0];
            let at = checked(&expand_to(&i, std::slice::from_ref(&m)), n, place_dtype(n));
            Ok(x.scatter(&at, &v, mode, site(op)))
        });
        out.movedim(0, dim)
    }
}
