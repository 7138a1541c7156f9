//! Factors of matrices: Cholesky, QR, singular values.

use super::solve::{Triangular, triangular};
use super::{Matrices, identity_like, row_numbers, several};
use crate::control::function;
use crate::error::{Error, Result, call};
use crate::index::Ellipsis;
use crate::shape::{Dim, keepdim};
use crate::tensor::Tensor;
use frit_uop::DType;

impl Tensor {
    /// The lower triangle L with `L L^T = A`, for a symmetric positive definite A of which the lower triangle is read.
    /// A matrix that is not positive definite gives NaN (torch: an error).
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let a = Tensor::new([[4.0, 2.0], [2.0, 10.0]]);
    /// assert_eq!(a.cholesky().to_vec::<f32>()?, [2.0, 0.0, 1.0, 3.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn cholesky(&self) -> Tensor {
        let _c = call("cholesky");
        let [l] = several(
            Matrices::square("cholesky", self)
                .and_then(|m| Ok(m.back(function("cholesky", &[&m.x], |i| vec![cholesky(&i[0], m.rows)])?))),
        );
        l
    }
    /// Q with orthonormal columns and an upper triangle R with `Q R = A`: for an (m, n) matrix, Q is (m, k) and R is
    /// (k, n), k being the smaller of both. Signs are LAPACK's.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let a = Tensor::new([[3.0, 1.0], [4.0, 2.0]]);
    /// let (q, r) = a.qr();
    /// assert!((q.matmul(&r) - a).abs().max(..).item::<f32>()? < 1e-6);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn qr(&self) -> (Tensor, Tensor) {
        let _c = call("qr");
        let [q, r] =
            several(Matrices::of("qr", self).and_then(|m| Ok(m.back(qr(&m.x, m.rows, m.cols, false)?))));
        (q, r)
    }
    /// [`Tensor::qr`] with all of Q, (m, m), and R (m, n). Where m > n the last columns of Q are any that complete the
    /// basis, and have no gradient.
    #[track_caller]
    pub fn qr_complete(&self) -> (Tensor, Tensor) {
        let _c = call("qr");
        let [q, r] =
            several(Matrices::of("qr", self).and_then(|m| Ok(m.back(qr(&m.x, m.rows, m.cols, true)?))));
        (q, r)
    }
    /// U and V with orthonormal columns and singular values S, greatest first, with `U diag(S) V^T = A`; gives (U, S,
    /// V^T). For an (m, n) matrix and k the smaller of both, U is (m, k) and V^T is (k, n); with `full_matrices` (m, m)
    /// and (n, n), of which the added columns are any that complete the basis.
    ///
    /// Signs of pairs of columns are free. The gradient through U and V has no value where two singular values are
    /// equal, or one is zero; that through S alone always has.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let (_, s, _) = Tensor::new([[3.0, 0.0], [0.0, -5.0]]).svd(false);
    /// assert_eq!(s.to_vec::<f32>()?, [5.0, 3.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn svd(&self, full_matrices: bool) -> (Tensor, Tensor, Tensor) {
        let _c = call("svd");
        let [u, s, v] = several(Matrices::of("svd", self).and_then(|m| {
            let inside = |i: &[Tensor]| svd(&i[0], m.rows, m.cols, full_matrices);
            Ok(m.back(function("svd", &[&m.x], inside)?))
        }));
        (u, s, v)
    }
}

fn cholesky(a: &Tensor, n: usize) -> Tensor {
    if n == 0 {
        return a.clone();
    }
    let rows = Tensor::arange(n);
    let (_, columns) = Tensor::scan(n, &[a], |j, c| {
        let root = c[0].at((Ellipsis, j, j)).sqrt().unsqueeze(-1);
        let column = rows.lt(j).where_(0.0, c[0].at((Ellipsis, j)) / root);
        let next = &c[0] - column.unsqueeze(-1) * column.unsqueeze(-2);
        (vec![next], vec![column])
    });
    columns[0].movedim(0, -1)
}

// ---- QR

/// Reflections that bring a matrix to a triangle.
struct Reflections {
    /// `(k, …, m)`: the vector of each.
    vectors: Tensor,
    /// `(k, …)`: its weight.
    weights: Tensor,
    /// The triangle, (m, n).
    triangle: Tensor,
}

/// `x - weight v (v^T x)`.
fn reflect(x: &Tensor, v: &Tensor, weight: &Tensor) -> Tensor {
    let v = v.unsqueeze(-1);
    let along = (&v * x).sum(keepdim(-2));
    x - &v * (along * weight.unsqueeze(-1).unsqueeze(-1))
}

/// Householder's way: k reflections, each makes zeros below the diagonal of one column.
fn reflections(a: &Tensor, m: usize, k: usize) -> Reflections {
    let rows = Tensor::arange(m);
    let (last, ys) = Tensor::scan(k, &[a], |i, c| {
        let column = c[0].at((Ellipsis, i));
        let head = c[0].at((Ellipsis, i, i)).unsqueeze(-1);
        let tail = rows.gt(i).where_(&column, 0.0);
        // by its greatest element, so that squares neither overflow nor vanish
        let scale = tail.abs().maximum(head.abs()).max(keepdim(-1));
        let safe = scale.eq(0.0).where_(1.0, &scale);
        let square = |x: &Tensor| (x / &safe).square();
        let size = (square(&tail).sum(keepdim(-1)) + square(&head)).sqrt() * &safe;
        let beta = -size.copysign(&head);
        // nothing to do where nothing is below
        let is_done = tail.abs().max(keepdim(-1)).eq(0.0);
        let weight = is_done.where_(0.0, (&beta - &head) / is_done.where_(1.0, &beta));
        let v = tail / is_done.where_(1.0, &head - &beta);
        let v = rows.eq(i).where_(1.0, v);
        let weight = weight.squeeze(-1);
        (vec![reflect(&c[0], &v, &weight)], vec![v, weight])
    });
    Reflections { vectors: ys[0].clone(), weights: ys[1].clone(), triangle: last[0].clone() }
}

/// The product of reflections applied to `x`, the last reflection first.
fn product(r: &Reflections, x: &Tensor, k: usize) -> Tensor {
    let back = |i: &Dim| Dim::from(k - 1) - i;
    let last =
        Tensor::fori(k, &[x], |i, c| vec![reflect(&c[0], &r.vectors.at(back(i)), &r.weights.at(back(i)))]);
    last[0].clone()
}

/// Q of `q` columns and R of as many rows.
fn householder(a: &Tensor, m: usize, n: usize, q: usize) -> Vec<Tensor> {
    let k = m.min(n);
    let eye = identity_like(a, m, q);
    if k == 0 {
        return vec![eye, a.at((Ellipsis, ..q, ..))];
    }
    let r = reflections(a, m, k);
    vec![product(&r, &eye, k), r.triangle.at((Ellipsis, ..q, ..)).triu(0)]
}

fn qr(a: &Tensor, m: usize, n: usize, complete: bool) -> Result<Vec<Tensor>> {
    if m < n {
        // the square on the left has all of Q
        let left = function("qr", &[&a.at((Ellipsis, ..m))], |i| householder(&i[0], m, m, m))?;
        let right = left[0].t().matmul(&a.at((Ellipsis, m..)));
        return Ok(vec![left[0].clone(), Tensor::cat(&[left[1].clone(), right], -1)]);
    }
    let name = if complete && m > n { "qr_complete" } else { "qr" };
    function(name, &[a], |i| householder(&i[0], m, n, if complete { m } else { n }))
}

// ---- singular values

fn svd(a: &Tensor, m: usize, n: usize, full: bool) -> Vec<Tensor> {
    if m < n {
        let [u, s, v] = &svd(&a.t(), n, m, full)[..] else { return vec![] };
        return vec![v.t(), s.clone(), u.t()];
    }
    if n == 0 {
        let u = identity_like(a, m, if full { m } else { 0 });
        return vec![u, a.sum(-2), identity_like(a, 0, 0)];
    }
    // the triangle has the same singular values, and rows no more than it must
    let q = if full { m } else { n };
    let tall = (m > n).then(|| householder(a, m, n, q));
    let square = tall.as_ref().map_or_else(|| a.clone(), |f| f[1].at((Ellipsis, ..n, ..)));
    let scale = square.abs().max(keepdim([-1, -2]));
    let scale = scale.eq(0.0).where_(1.0, &scale);
    let (w, v) = orthogonal_columns(&(square / &scale), n);
    let sizes = w.square().sum(-2).sqrt();
    let order = descending(&sizes, n);
    let pick = |x: &Tensor| x.gather(-1, &order.unsqueeze(-2).expand(x.shape()));
    let (w, v) = (pick(&w), pick(&v));
    // columns that are zero have no direction of their own: reflections give them one
    let factors = householder(&w, n, n, n);
    let signs = factors[1].diagonal().lt(0.0).where_(-1.0, 1.0).cast(a.dtype());
    let small = &factors[0] * signs.unsqueeze(-2);
    let u = match tall {
        Some(f) => {
            let main = f[0].at((Ellipsis, ..n)).matmul(&small);
            if q > n { Tensor::cat(&[main, f[0].at((Ellipsis, n..))], -1) } else { main }
        }
        None => small,
    };
    vec![u, sizes.gather(-1, &order) * scale.squeeze([-1, -2]).unsqueeze(-1), v.t()]
}

/// Rotations that make the columns of a square matrix orthogonal: the matrix after them, and the rotations. Jacobi's
/// way, n/2 pairs of columns at a time, every pair once in a sweep.
fn orthogonal_columns(a: &Tensor, n: usize) -> (Tensor, Tensor) {
    if n == 1 {
        return (a.clone(), identity_like(a, 1, 1));
    }
    let half = n.div_ceil(2);
    let both = Tensor::cat(&[a.clone(), identity_like(a, n, n)], -2);
    let mut dims = both.shape().as_slice().to_vec();
    dims.pop();
    // an odd one gets a column of zeros to go with
    let mut amounts = vec![(0, 0); dims.len()];
    amounts.push((0, (2 * half - n) as isize));
    dims.extend([2.into(), half.into()]);
    let pairs = both.pad(&amounts, 0.0).reshape(dims.clone()); // (…, 2n, 2, half)
    let steps = sweeps(n, a.dtype()) * (2 * half - 1);
    let last = Tensor::fori(steps, &[&pairs], |_, c| {
        let (x, y) = (c[0].at((Ellipsis, 0, ..)), c[0].at((Ellipsis, 1, ..)));
        let (x, y) = rotate(&x, &y, n, a.dtype());
        vec![Tensor::stack(&next_pairs(&x, &y, half), -2)]
    });
    dims.truncate(dims.len() - 2);
    dims.push((2 * half).into());
    let both = last[0].reshape(dims).at((Ellipsis, ..n));
    (both.at((Ellipsis, ..n, ..)), both.at((Ellipsis, n.., ..)))
}

/// Sweeps until nothing changes any more: each squares what is left, once it is small.
fn sweeps(n: usize, dtype: DType) -> usize {
    let more = if dtype == DType::F64 { 7 } else { 5 };
    more + n.next_power_of_two().trailing_zeros() as usize
}

/// Two columns made orthogonal in their first n rows.
fn rotate(x: &Tensor, y: &Tensor, n: usize, dtype: DType) -> (Tensor, Tensor) {
    let (p, q) = (x.at((Ellipsis, ..n, ..)), y.at((Ellipsis, ..n, ..)));
    let dot = |a: &Tensor, b: &Tensor| (a * b).sum(keepdim(-2));
    let (xx, yy, xy) = (dot(&p, &p), dot(&q, &q), dot(&p, &q));
    let eps = if dtype == DType::F64 { f64::EPSILON } else { f32::EPSILON as f64 };
    let is_done = xy.abs().le((&xx * &yy).sqrt() * (eps * 0.25));
    let zeta = (yy - xx) / (is_done.where_(1.0, &xy) * 2.0);
    let tangent = zeta.copysign_of_one() / (zeta.abs() + (zeta.square() + 1.0).sqrt());
    let tangent = is_done.where_(0.0, tangent);
    let cos = (tangent.square() + 1.0).rsqrt();
    let sin = &cos * &tangent;
    (x * &cos - y * &sin, x * &sin + y * &cos)
}

/// The columns in their next places: the first stays, the others go round.
fn next_pairs(x: &Tensor, y: &Tensor, half: usize) -> [Tensor; 2] {
    if half == 1 {
        return [x.clone(), y.clone()];
    }
    let part = |t: &Tensor, from: usize, to: usize| t.at((Ellipsis, from..to));
    let top = Tensor::cat(&[part(x, 0, 1), part(y, 0, 1), part(x, 1, half - 1)], -1);
    let bottom = Tensor::cat(&[part(y, 1, half), part(x, half - 1, half)], -1);
    [top, bottom]
}

/// The order that puts the last dim's elements greatest first.
fn descending(x: &Tensor, n: usize) -> Tensor {
    let (mine, other) = (x.unsqueeze(-1), x.unsqueeze(-2));
    let before = other.gt(&mine).logical_or(
        other.eq(&mine).logical_and(Tensor::arange(n).unsqueeze(0).lt(Tensor::arange(n).unsqueeze(1))),
    );
    let rank = before.cast(DType::I32).sum(-1); // (…, n)
    let is_here = rank.unsqueeze(-2).eq(Tensor::arange(n).unsqueeze(1));
    is_here.where_(Tensor::arange(n), 0).sum(-1)
}

impl Tensor {
    fn copysign_of_one(&self) -> Tensor {
        self.lt(0.0).where_(-1.0, 1.0).cast(self.dtype())
    }
}

// ---- gradients

/// `A' = L^-T S L^-1` with S the symmetric part of the lower half of `L^T L'`.
pub(crate) fn cholesky_gradient(_: &[Tensor], l: &[Tensor], g: &[Option<Tensor>]) -> Vec<Option<Tensor>> {
    let (Some(g), l) = (&g[0], &l[0]) else { return vec![] };
    let lower = l.t().matmul(&g.tril(0)).tril(0);
    let s = (&lower + lower.tril(-1).t()) * 0.5;
    let how = Triangular::lower().transposed();
    let half = triangular(l, &s, how); // L^-T S
    vec![Some(triangular(l, &half.t(), how).t())]
}

/// `A' = (Q' + Q copyltu(M)) R^-T` with `M = R R'^T - Q'^T Q`, copyltu its lower triangle, mirrored.
pub(crate) fn qr_gradient(_: &[Tensor], f: &[Tensor], g: &[Option<Tensor>]) -> Vec<Option<Tensor>> {
    let (q, r) = (&f[0], &f[1]);
    let from_r = g[1].as_ref().map(|g| r.matmul(&g.triu(0).t()));
    let from_q = g[0].as_ref().map(|g| -g.t().matmul(q));
    let Some(m) = sum(from_r, from_q) else { return vec![] };
    let mirrored = m.tril(0) + m.tril(-1).t();
    let Some(y) = sum(g[0].clone(), Some(q.matmul(&mirrored))) else { return vec![] };
    vec![Some(triangular(r, &y.t(), Triangular::upper()).t())]
}

/// What completes a basis depends on nothing.
pub(crate) fn qr_complete_gradient(_: &[Tensor], _: &[Tensor], _: &[Option<Tensor>]) -> Vec<Option<Tensor>> {
    let why = "there is no gradient through the complete Q of a matrix with more rows than columns";
    vec![Some(Tensor::failed(Error::new("gradient", why)))]
}

fn sum(a: Option<Tensor>, b: Option<Tensor>) -> Option<Tensor> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }
}

/// `A' = U (F(U^T U') S + S F(V^T V') + diag(S')) V^T`, plus what leaves the spaces of U and V, with
/// `F(X)_jk = (X - X^T)_jk / (s_k^2 - s_j^2)` off the diagonal.
pub(crate) fn svd_gradient(i: &[Tensor], f: &[Tensor], g: &[Option<Tensor>]) -> Vec<Option<Tensor>> {
    let (s, k) = (&f[1], f[1].shape()[-1].get());
    let (u, vt) = (f[0].at((Ellipsis, ..k)), f[2].at((Ellipsis, ..k, ..)));
    let (m, n) = (i[0].shape()[-2].get(), i[0].shape()[-1].get());
    let gs = g[1].as_ref().map(|g| g.diag_embed(0, -2, -1));
    let gu = g[0].as_ref().map(|g| g.at((Ellipsis, ..k)));
    let gv = g[2].as_ref().map(|g| g.at((Ellipsis, ..k, ..)).t());
    let square = s.square();
    let gaps = square.unsqueeze(-2) - square.unsqueeze(-1);
    let is_diagonal = row_numbers(k).eq(Tensor::arange(k));
    let skew = |x: Tensor| is_diagonal.where_(0.0, (&x - x.t()) / is_diagonal.where_(1.0, &gaps));
    let inner_u = gu.as_ref().map(|g| skew(u.t().matmul(g)) * s.unsqueeze(-2));
    let inner_v = gv.as_ref().map(|g| skew(vt.matmul(g)) * s.unsqueeze(-1));
    let inner = sum(sum(inner_u, inner_v), gs);
    let mut total = inner.map(|x| u.matmul(&x).matmul(&vt));
    if let (Some(g), true) = (&gu, m > k) {
        let outside = g / s.unsqueeze(-2);
        let outside = &outside - u.matmul(&u.t().matmul(&outside));
        total = sum(total, Some(outside.matmul(&vt)));
    }
    if let (Some(g), true) = (&gv, n > k) {
        let outside = (g / s.unsqueeze(-2)).t();
        let outside = &outside - outside.matmul(&vt.t()).matmul(&vt);
        total = sum(total, Some(u.matmul(&outside)));
    }
    vec![total]
}
