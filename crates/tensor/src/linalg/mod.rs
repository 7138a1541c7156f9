//! Products of matrices and vectors: a multiplication over expanded views and a sum. Beside it:
//! - `solve`: systems of equations, inverses, determinants;
//! - `factor`: Cholesky, QR, singular values, eigenvalues;
//! - `power`: powers and polynomials of matrices;
//! - `words`: products with weights of few bits in whole numbers.
//!
//! Factorisations are loops (`crate::control`) over columns, on batches as on one matrix. They work in float32 or
//! float64 (smaller floats in float32), and their gradients are formulas on the factors (`gradient/named.rs`).
//! Nothing looks at the data: a matrix that has no such factor gives NaN or infinities in its own place, not an error.

pub(crate) mod factor;
mod power;
pub(crate) mod solve;
mod words;

pub use solve::Triangular;
pub use words::{Bytes, Words, Zero};

use crate::composite::mul;
use crate::error::{Error, Result, call, fail};
use crate::mode::factor_type;
use crate::movement::fixed;
use crate::reduce::{drop_axes, reduce_node};
use crate::shape::{self, same, show, show_all};
use crate::tensor::{Tensor, check_devices, expand_to, promoted};
use crate::trace::{Composite, noted};
use frit_uop::{Alu, DType, UOp};
use smallvec::SmallVec;

/// The type products are summed in: float32 for small floats, 32-bit integers for smaller ones.
pub(crate) fn accumulate(d: DType) -> DType {
    use DType::*;
    match d {
        Bool | I8 | I16 => I32,
        U8 | U16 => U32,
        d if d.is_small_float() => F32,
        d => d,
    }
}

fn matmul(a: &UOp, b: &UOp) -> Result<UOp> {
    check_devices("matmul", &[a.clone(), b.clone()])?;
    let dtype = factor_type(promoted("matmul", a.dtype, b.dtype)?);
    let (s, t) = (a.shape(), b.shape());
    if s.is_empty() || t.is_empty() {
        return fail!("matmul", "shapes {} and {}: a scalar has no rows; use *", show_all(s), show_all(t));
    }
    let (k, l) = (&s[s.len() - 1], &t[t.len().saturating_sub(2)]);
    if !same("matmul", k, l)? {
        return fail!(
            "matmul",
            "shapes {} and {} do not contract ({} != {})",
            show_all(s),
            show_all(t),
            show(k),
            show(l)
        );
    }
    let b = &crate::movement::resized(b, t.len().saturating_sub(2), k);
    let one = UOp::index(1);
    // (B…, M, 1, K) and (B…, 1, N, K), a vector being one row or one column
    let (m, n) = (
        if s.len() > 1 { s[s.len() - 2].clone() } else { one.clone() },
        if t.len() > 1 { t[t.len() - 1].clone() } else { one.clone() },
    );
    let (sb, tb) = (&s[..s.len().saturating_sub(2)], &t[..t.len().saturating_sub(2)]);
    let batch = match shape::broadcast("matmul", sb, tb) {
        Ok(b) => b,
        Err(_) => {
            return fail!("matmul", "batches of shapes {} and {} do not broadcast", show_all(s), show_all(t));
        }
    };
    let bt = if t.len() > 1 {
        let r = t.len();
        let axes: Vec<usize> = (0..r - 2).chain([r - 1, r - 2]).collect();
        b.permute(&axes)
    } else {
        b.clone()
    };
    let dims =
        |lead: &[UOp], tail: [&UOp; 3]| -> SmallVec<[UOp; 4]> { lead.iter().chain(tail).cloned().collect() };
    let acc = accumulate(dtype);
    let full = dims(&batch, [&m, &n, k]);
    let x = expand_to(&a.cast(dtype).cast(acc).reshape(&dims(sb, [&m, &one, k])), &full);
    let y = expand_to(&bt.cast(dtype).cast(acc).reshape(&dims(tb, [&one, &n, k])), &full);
    let sum = mul(&x, &y).reduce_axes(Alu::Add, &[full.len() - 1]);
    let mut out: SmallVec<[UOp; 4]> = batch;
    out.extend((s.len() > 1).then_some(m));
    out.extend((t.len() > 1).then_some(n));
    Ok(sum.reshape(&out).cast(dtype))
}

impl Tensor {
    /// Matrix product over the last two dims, batches broadcasting; a vector is a row on the left, a column on the
    /// right. float16 and bfloat16 accumulate in float32, small integers in int32; the result has the operands' type.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::new([[1, 2], [3, 4]]);
    /// assert_eq!(x.matmul(&x).to_vec::<i32>()?, [7, 10, 15, 22]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn matmul(&self, o: &Tensor) -> Tensor {
        let _c = call("matmul");
        let product = self.map(|a| matmul(a, &o.uop()?));
        noted(|| Composite::MatMul, &[Some(self), Some(o)], product)
    }
    /// The matrix product computed and given in a type of one's choice (small floats still accumulate in float32).
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::new([[300.0, 300.0]]).cast(DType::F16);
    /// assert_eq!(x.matmul_as(&x.t(), DType::F32).to_vec::<f32>()?, [180000.0]); // beyond float16
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn matmul_as(&self, o: &Tensor, dtype: DType) -> Tensor {
        let _c = call("matmul");
        self.cast(dtype).matmul(&o.cast(dtype))
    }
    /// The same as [`Tensor::matmul`].
    #[track_caller]
    pub fn dot(&self, o: &Tensor) -> Tensor {
        self.matmul(o)
    }
    /// Matrix product of two batches: exactly three dims each.
    #[track_caller]
    pub fn bmm(&self, o: &Tensor) -> Tensor {
        let _c = call("bmm");
        if self.check().is_ok() && o.check().is_ok() && (self.rank() != 3 || o.rank() != 3) {
            let m = format!("shapes {} and {} have not three dims each", self.shape(), o.shape());
            return Tensor::failed(Error::new("bmm", m));
        }
        self.matmul(o)
    }
    /// `x W^T + b`, the weight being (out, in).
    #[track_caller]
    pub fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Tensor {
        let _c = call("linear");
        let y = self.matmul(&weight.t());
        match bias {
            Some(b) => y + b.cast(factor_type(b.dtype())),
            None => y,
        }
    }
    /// All products of two vectors' elements.
    #[track_caller]
    pub fn outer(&self, o: &Tensor) -> Tensor {
        let _c = call("outer");
        self.flatten(0, -1).unsqueeze(1) * o.flatten(0, -1).unsqueeze(0)
    }
    /// The sum of the diagonal of the last two dims.
    #[track_caller]
    pub fn trace(&self) -> Tensor {
        let _c = call("trace");
        self.diagonal().sum(-1)
    }
    /// Kronecker product of two matrices.
    #[track_caller]
    pub fn kron(&self, o: &Tensor) -> Tensor {
        let _c = call("kron");
        let (s, t) = (self.shape(), o.shape());
        if s.rank() != 2 || t.rank() != 2 {
            let e = self.check().and(o.check()).err();
            let m = format!("shapes {s} and {t} are not matrices");
            return Tensor::failed(e.unwrap_or_else(|| Error::new("kron", m)));
        }
        let a = self.reshape((&s[0], 1, &s[1], 1));
        let b = o.reshape((1, &t[0], 1, &t[1]));
        (a * b).reshape((&s[0] * &t[0], &s[1] * &t[1]))
    }
    /// Einstein's sum: `Tensor::einsum("bij,bjk->bik", &[&a, &b])`. Letters name dims; those not in the result are
    /// summed; `...` stands for dims that broadcast.
    #[track_caller]
    pub fn einsum(formula: &str, tensors: &[&Tensor]) -> Tensor {
        let _c = call("einsum");
        Tensor::of(einsum(formula, tensors))
    }
}

fn einsum(formula: &str, tensors: &[&Tensor]) -> Result<UOp> {
    let text: String = formula.chars().filter(|c| !c.is_whitespace()).collect();
    let (inputs, output) = match text.split_once("->") {
        Some((i, o)) => (i.to_string(), Some(o.to_string())),
        None => (text.clone(), None),
    };
    let terms: Vec<&str> = inputs.split(',').collect();
    if terms.len() != tensors.len() {
        return fail!("einsum", "{formula:?} names {} tensors, {} are given", terms.len(), tensors.len());
    }
    let nodes: Vec<UOp> = tensors.iter().map(|t| t.uop()).collect::<Result<_>>()?;
    // dims of an ellipsis get names of their own: digits, counted from the right
    let expand = |term: &str, rank: usize| -> Result<Vec<char>> {
        let letters = term.replace("...", "").chars().count();
        if term.replace("...", "").chars().any(|c| !c.is_alphabetic())
            || (!term.contains("...") && letters != rank)
            || letters > rank
        {
            return fail!("einsum", "{term:?} does not name {rank} dims");
        }
        let extra = rank - letters;
        let dots: String = (0..extra).rev().map(|i| char::from(b'0' + i.min(9) as u8)).collect();
        Ok(term.replacen("...", &dots, 1).chars().collect())
    };
    let named: Vec<Vec<char>> =
        terms.iter().zip(&nodes).map(|(t, n)| expand(t, n.shape().len())).collect::<Result<_>>()?;
    let mut letters: Vec<char> = named.iter().flatten().copied().collect();
    letters.sort_unstable();
    letters.dedup();
    let digits: Vec<char> = letters.iter().rev().filter(|c| c.is_ascii_digit()).copied().collect();
    let out: Vec<char> = match &output {
        Some(o) => o.replacen("...", &digits.iter().collect::<String>(), 1).chars().collect(),
        None => {
            let once = |c: &&char| named.iter().flatten().filter(|d| d == c).count() == 1;
            digits.iter().chain(letters.iter().filter(|c| c.is_alphabetic()).filter(once)).copied().collect()
        }
    };
    if let Some(c) = out.iter().find(|c| !letters.contains(c)) {
        return fail!("einsum", "{c:?} of the result is in no tensor of {formula:?}");
    }
    let dtype = nodes.iter().skip(1).try_fold(nodes[0].dtype, |d, n| promoted("einsum", d, n.dtype))?;
    let acc = accumulate(dtype);
    check_devices("einsum", &nodes)?;
    // every tensor laid out over all letters, the result's first
    let mut order = out.clone();
    order.extend(letters.iter().filter(|c| !out.contains(c)));
    let mut product: Option<UOp> = None;
    let mut dims: SmallVec<[UOp; 4]> = SmallVec::new();
    let mut laid = vec![];
    for (n, names) in nodes.iter().zip(&named) {
        let (mut x, mut names) = (n.cast(acc), names.clone());
        // a letter twice in one tensor means its diagonal
        while let Some((i, j)) = twice(&names) {
            let moved = Tensor::of(Ok(x)).movedim(i as isize, -1).movedim(j as isize - 1, -1);
            x = moved.diagonal().uop()?;
            let c = names.remove(j);
            names.remove(i);
            names.push(c);
        }
        let mut axes: Vec<usize> = (0..names.len()).collect();
        axes.sort_by_key(|&a| order.iter().position(|c| *c == names[a]));
        let sorted: Vec<char> = axes.iter().map(|&a| names[a]).collect();
        let x = x.permute(&axes);
        let mut at = 0;
        let shape: SmallVec<[UOp; 4]> = order
            .iter()
            .map(|c| match sorted.get(at) {
                Some(d) if d == c => {
                    at += 1;
                    x.shape()[at - 1].clone()
                }
                _ => UOp::index(1),
            })
            .collect();
        let x = x.reshape(&shape);
        dims = shape::broadcast("einsum", &dims, x.shape())?;
        laid.push(x);
    }
    for x in laid {
        let x = expand_to(&x, &dims);
        product = Some(product.map_or(x.clone(), |p| mul(&p, &x)));
    }
    let sum: Vec<usize> = (out.len()..order.len()).collect();
    let p = product.unwrap_or_else(|| UOp::int(1, acc));
    let r = drop_axes(&reduce_node(&p, Alu::Add, &sum), &sum, false);
    Ok(r.cast(dtype))
}

fn twice(names: &[char]) -> Option<(usize, usize)> {
    (0..names.len()).find_map(|i| (i + 1..names.len()).find(|&j| names[i] == names[j]).map(|j| (i, j)))
}

/// Matrices to be factorised: in a type wide enough, of known sizes.
pub(crate) struct Matrices {
    pub x: Tensor,
    pub rows: usize,
    pub cols: usize,
    /// The type they came in.
    pub dtype: DType,
}

impl Matrices {
    /// The last two dims of a tensor of floats.
    pub fn of(op: &'static str, x: &Tensor) -> Result<Matrices> {
        let node = x.uop()?;
        let [.., r, c] = node.shape() else {
            return fail!(op, "of shape {}, not a matrix", show_all(node.shape()));
        };
        if !node.dtype.is_float() {
            return fail!(op, "of {} values; cast to a float type", node.dtype);
        }
        let (rows, cols) = (fixed(op, r)? as usize, fixed(op, c)? as usize);
        Ok(Matrices { x: x.cast(accumulate(node.dtype)), rows, cols, dtype: node.dtype })
    }
    /// Square ones.
    pub fn square(op: &'static str, x: &Tensor) -> Result<Matrices> {
        let m = Matrices::of(op, x)?;
        match m.rows == m.cols {
            true => Ok(m),
            false => fail!(op, "of shape {}, not square", x.shape()),
        }
    }
    /// Results in the type the matrices came in.
    pub fn back(&self, results: Vec<Tensor>) -> Vec<Tensor> {
        results.iter().map(|r| r.cast(self.dtype)).collect()
    }
}

/// Row numbers, `(n, 1)`.
pub(crate) fn row_numbers(n: usize) -> Tensor {
    Tensor::arange(n).unsqueeze(1)
}

/// The identity over the last two dims, of the type and batch of `x`.
pub(crate) fn identity_like(x: &Tensor, rows: usize, cols: usize) -> Tensor {
    let dims = x.shape();
    let mut to: Vec<crate::Dim> = dims.as_slice()[..dims.rank().saturating_sub(2)].to_vec();
    to.extend([rows.into(), cols.into()]);
    Tensor::eye((rows, cols)).cast(x.dtype()).expand(to)
}

/// What an operation that gives `N` tensors gives where it fails.
pub(crate) fn several<const N: usize>(results: Result<Vec<Tensor>>) -> [Tensor; N] {
    match results {
        Ok(v) => std::array::from_fn(|i| match v.get(i) {
            Some(t) => t.clone(),
            None => Tensor::failed(Error::new("linalg", "a result is missing")),
        }),
        Err(e) => std::array::from_fn(|_| Tensor::failed(e.clone())),
    }
}
