//! Systems of linear equations, inverses and determinants, by elimination.

use super::{Matrices, identity_like, row_numbers, several};
use crate::control::function;
use crate::error::{Result, call, fail};
use crate::index::Ellipsis;
use crate::shape::{Dims, broadcast, keepdim};
use crate::tensor::Tensor;
use frit_uop::{DType, UOp};

/// Which triangle of a matrix counts, and how it is used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Triangular {
    upper: bool,
    transpose: bool,
    unit: bool,
}

impl Triangular {
    /// What is on and below the diagonal.
    pub fn lower() -> Triangular {
        Triangular::default()
    }
    /// What is on and above the diagonal.
    pub fn upper() -> Triangular {
        Triangular { upper: true, ..Triangular::default() }
    }
    /// The transpose of the matrix.
    pub fn transposed(self) -> Triangular {
        Triangular { transpose: true, ..self }
    }
    /// The diagonal is taken as ones, whatever is there.
    pub fn unit(self) -> Triangular {
        Triangular { unit: true, ..self }
    }
}

impl Tensor {
    /// The X with `A X = B`, this being A: square, of any batch; B is a vector, or matrices of as many rows. Batches
    /// broadcast. A singular matrix gives infinities or NaN (torch: an error).
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let a = Tensor::new([[0.0, 2.0], [1.0, 1.0]]);
    /// assert_eq!(a.solve(&Tensor::new([4.0, 3.0])).to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn solve(&self, b: &Tensor) -> Tensor {
        let _c = call("solve");
        let is_vector = b.rank() == 1;
        let b = if is_vector { b.unsqueeze(-1) } else { b.clone() };
        let x = pair("solve", self, &b).and_then(|p| p.run(|a, b| function("solve", &[a, b], solve_inside)));
        let x = x.unwrap_or_else(Tensor::failed);
        if is_vector { x.squeeze(-1) } else { x }
    }
    /// The matrix whose product with this one is the identity. A singular matrix gives infinities or NaN (torch: an
    /// error).
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let a = Tensor::new([[2.0, 0.0], [0.0, 4.0]]);
    /// assert_eq!(a.inverse().to_vec::<f32>()?, [0.5, 0.0, 0.0, 0.25]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn inverse(&self) -> Tensor {
        let _c = call("inverse");
        let [x] = several(Matrices::square("inverse", self).and_then(|m| {
            let inside =
                |i: &[Tensor]| vec![eliminate(&i[0], &identity_like(&i[0], m.rows, m.rows), false).0];
            Ok(m.back(function("inverse", &[&m.x], inside)?))
        }));
        x
    }
    /// The determinant; 0 for a singular matrix, 1 for one without elements. Its gradient is right where one pivot is
    /// zero.
    #[track_caller]
    pub fn det(&self) -> Tensor {
        let _c = call("det");
        let [d] =
            several(Matrices::square("det", self).and_then(|m| {
                Ok(m.back(function("det", &[&m.x], |i| vec![pivots(&i[0], m.rows).prod(0)])?))
            }));
        d
    }
    /// Sign and logarithm of the size of the determinant: 0 and -inf for a singular matrix.
    #[track_caller]
    pub fn slogdet(&self) -> (Tensor, Tensor) {
        let _c = call("slogdet");
        let [sign, log] = several(Matrices::square("slogdet", self).and_then(|m| {
            let inside = |i: &[Tensor]| {
                let p = pivots(&i[0], m.rows);
                vec![p.sign().prod(0), p.abs().log().sum(0)]
            };
            Ok(m.back(function("slogdet", &[&m.x], inside)?))
        }));
        (sign, log)
    }
    /// The X with `A X = B` for a triangle of this: the rest of it is not looked at. Batches broadcast. A zero on the
    /// diagonal gives infinities or NaN.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let a = Tensor::new([[2.0, 9.0], [1.0, 4.0]]);
    /// let b = Tensor::new([[2.0], [9.0]]);
    /// assert_eq!(a.triangular_solve(&b, Triangular::lower()).to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn triangular_solve(&self, b: &Tensor, how: Triangular) -> Tensor {
        let _c = call("triangular_solve");
        let p = pair("triangular_solve", self, b);
        p.and_then(|p| p.run(|a, b| Ok(vec![triangular(a, b, how)]))).unwrap_or_else(Tensor::failed)
    }
    /// The X that brings `A X` nearest to B, this being A with at least as many rows as columns and columns that are
    /// independent; with fewer rows than columns, the smallest X with `A X = B`.
    #[track_caller]
    pub fn lstsq(&self, b: &Tensor) -> Tensor {
        let _c = call("lstsq");
        let m = match Matrices::of("lstsq", self) {
            Ok(m) => m,
            Err(e) => return Tensor::failed(e),
        };
        if m.rows >= m.cols {
            let (q, r) = self.qr();
            r.triangular_solve(&q.t().matmul(b), Triangular::upper())
        } else {
            let (q, r) = self.t().qr();
            q.matmul(&r.triangular_solve(b, Triangular::upper().transposed()))
        }
    }
}

/// A square matrix and as many rows, in one type and over one batch.
struct Pair {
    a: Tensor,
    b: Tensor,
    dtype: DType,
}

fn pair(op: &'static str, a: &Tensor, b: &Tensor) -> Result<Pair> {
    let m = Matrices::square(op, a)?;
    let n = Matrices::of(op, b)?;
    if m.rows != n.rows {
        return fail!(op, "of shape {} with shape {}: {} != {} rows", a.shape(), b.shape(), m.rows, n.rows);
    }
    let dtype = crate::tensor::promoted(op, m.dtype, n.dtype)?;
    let wide = super::accumulate(dtype);
    let (x, y) = (m.x.uop()?, n.x.uop()?);
    crate::tensor::check_devices(op, &[x.clone(), y.clone()])?;
    let lead = |n: &UOp| n.shape()[..n.shape().len() - 2].to_vec();
    let batch = broadcast(op, &lead(&x), &lead(&y))?;
    let over = |t: &Tensor, n: &UOp| {
        let dims = batch.iter().chain(&n.shape()[n.shape().len() - 2..]).cloned();
        t.cast(wide).expand(Dims(dims.map(crate::Dim::from).collect()))
    };
    Ok(Pair { a: over(&m.x, &x), b: over(&n.x, &y), dtype })
}

impl Pair {
    fn run(self, f: impl FnOnce(&Tensor, &Tensor) -> Result<Vec<Tensor>>) -> Result<Tensor> {
        let [x] = several(f(&self.a, &self.b));
        Ok(x.cast(self.dtype))
    }
}

fn solve_inside(i: &[Tensor]) -> Vec<Tensor> {
    vec![eliminate(&i[0], &i[1], false).0]
}

/// One row of `m`, `(…, 1, n)`, by its number in a tensor.
fn row_at(m: &Tensor, rows: &Tensor, at: &Tensor) -> Tensor {
    rows.eq(at).where_(m, 0).sum(keepdim(-2))
}

/// A step of elimination: the pivot is the largest left in column i, its row comes to place i.
struct Pivot {
    /// `m` with the two rows exchanged.
    swapped: Tensor,
    /// The row that came to place i, `(…, 1, n)`.
    top: Tensor,
    /// Its element in column i, `(…, 1, 1)`.
    value: Tensor,
    /// -1 where two rows were exchanged, `(…, 1, 1)`.
    sign: Tensor,
}

fn pivot(m: &Tensor, i: &crate::Dim, n: usize) -> Pivot {
    let rows = row_numbers(n);
    let sizes = Tensor::arange(n).lt(i).where_(-1.0, m.at((Ellipsis, i)).abs());
    let at = sizes.argmax(-1).unsqueeze(-1).unsqueeze(-1);
    let top = row_at(m, &rows, &at);
    let own = m.at((Ellipsis, i, ..)).unsqueeze(-2);
    let swapped = rows.eq(i).where_(&top, rows.eq(&at).where_(own, m));
    let value = top.at((Ellipsis, i)).unsqueeze(-1);
    let sign = at.eq(i).where_(1.0, -1.0).cast(m.dtype());
    Pivot { swapped, top, value, sign }
}

/// `A^-1 B` by elimination above and below, and the signed pivots, `(n, …)`. With `floor` a pivot of zero counts as
/// something tiny, so that pivots times inverse are finite.
fn eliminate(a: &Tensor, b: &Tensor, floor: bool) -> (Tensor, Tensor) {
    let n = a.shape()[-1].get();
    if n == 0 {
        return (b.clone(), a.sum(-1));
    }
    let tiny = a.abs().max([-1, -2]).unsqueeze(-1).unsqueeze(-1) * epsilon(a.dtype());
    let rows = row_numbers(n);
    let both = Tensor::cat(&[a.clone(), b.clone()], -1);
    let (last, pivots) = Tensor::scan(n, &[&both], |i, c| {
        let p = pivot(&c[0], i, n);
        let value = if floor { p.value.eq(0.0).where_(&tiny, &p.value) } else { p.value.clone() };
        let top = &p.top / &value;
        // with a floor the pivot's own place is not quite one
        let top = Tensor::arange(top.shape()[-1].get()).eq(i).where_(1.0, top);
        let factor = p.swapped.at((Ellipsis, i)).unsqueeze(-1);
        let next = rows.eq(i).where_(&top, &p.swapped - factor * &top);
        (vec![next], vec![(value * &p.sign).squeeze([-1, -2])])
    });
    (last[0].at((Ellipsis, n..)), pivots[0].clone())
}

fn epsilon(d: DType) -> f64 {
    if d == DType::F64 { f64::EPSILON } else { f32::EPSILON as f64 }
}

/// The pivots of elimination with the signs of the exchanges, `(n, …)`: their product is the determinant.
fn pivots(a: &Tensor, n: usize) -> Tensor {
    if n == 0 {
        return a.sum(-1).movedim(-1, 0);
    }
    let rows = row_numbers(n);
    let (_, pivots) = Tensor::scan(n, &[a], |i, c| {
        let p = pivot(&c[0], i, n);
        // where the pivot is zero the whole column is
        let factor = p.swapped.at((Ellipsis, i)).unsqueeze(-1) / &p.value;
        let factor = p.value.eq(0.0).where_(0.0, factor);
        let next = rows.gt(i).where_(&p.swapped - factor * &p.top, &p.swapped);
        (vec![next], vec![(&p.value * &p.sign).squeeze([-1, -2])])
    });
    pivots[0].clone()
}

/// The solution with a triangle of `a`; every kind is a lower one, seen from the other end or transposed.
pub(crate) fn triangular(a: &Tensor, b: &Tensor, how: Triangular) -> Tensor {
    let a = if how.upper { a.triu(0) } else { a.tril(0) };
    let n = a.shape()[-1].get();
    let a = if how.unit { row_numbers(n).eq(Tensor::arange(n)).where_(1.0, &a) } else { a };
    let a = if how.transpose { a.t() } else { a };
    if how.upper == how.transpose {
        lower_solve(&a, b)
    } else {
        lower_solve(&a.flip([-1, -2]), &b.flip(-2)).flip(-2)
    }
}

/// `A^-1 B` for lower triangles, by substitution.
fn lower_solve(a: &Tensor, b: &Tensor) -> Tensor {
    let [x] = several(function("triangular_solve", &[a, b], |i| {
        let (a, b) = (&i[0], &i[1]);
        let n = a.shape()[-1].get();
        if n == 0 {
            return vec![b.clone()];
        }
        let rows = row_numbers(n);
        Tensor::fori(n, &[b], |j, c| {
            let done = (c[0].at((Ellipsis, j, ..)) / a.at((Ellipsis, j, j)).unsqueeze(-1)).unsqueeze(-2);
            let rest = &c[0] - a.at((Ellipsis, j)).unsqueeze(-1) * &done;
            vec![rows.eq(j).where_(&done, rows.gt(j).where_(rest, &c[0]))]
        })
    }));
    x
}

// ---- gradients

/// `B' = A^-T X'`, `A' = -B' X^T`.
pub(crate) fn solve_gradient(i: &[Tensor], x: &[Tensor], g: &[Option<Tensor>]) -> Vec<Option<Tensor>> {
    let Some(g) = &g[0] else { return vec![] };
    let b = i[0].t().solve(g);
    vec![Some(-b.matmul(&x[0].t())), Some(b)]
}

/// The same within the triangle.
pub(crate) fn triangular_gradient(i: &[Tensor], x: &[Tensor], g: &[Option<Tensor>]) -> Vec<Option<Tensor>> {
    let Some(g) = &g[0] else { return vec![] };
    let b = triangular(&i[0], g, Triangular::lower().transposed());
    vec![Some(-b.matmul(&x[0].t()).tril(0)), Some(b)]
}

/// `A' = -X^T X' X^T`.
pub(crate) fn inverse_gradient(_: &[Tensor], x: &[Tensor], g: &[Option<Tensor>]) -> Vec<Option<Tensor>> {
    let Some(g) = &g[0] else { return vec![] };
    let t = x[0].t();
    vec![Some(-t.matmul(g).matmul(&t))]
}

/// The cofactors: determinant times inverse, transposed, with zero pivots counted as tiny ones in both.
pub(crate) fn det_gradient(i: &[Tensor], _: &[Tensor], g: &[Option<Tensor>]) -> Vec<Option<Tensor>> {
    let Some(g) = &g[0] else { return vec![] };
    let n = i[0].shape()[-1].get();
    let (inverse, pivots) = eliminate(&i[0], &identity_like(&i[0], n, n), true);
    vec![Some((g * pivots.prod(0)).unsqueeze(-1).unsqueeze(-1) * inverse.t())]
}

/// The inverse, transposed.
pub(crate) fn slogdet_gradient(i: &[Tensor], _: &[Tensor], g: &[Option<Tensor>]) -> Vec<Option<Tensor>> {
    let Some(g) = &g[1] else { return vec![] };
    vec![Some(g.unsqueeze(-1).unsqueeze(-1) * i[0].inverse().t())]
}
