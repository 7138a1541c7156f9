//! Linear algebra beyond torch's vectors: in float64, second derivatives, matrices without such factors, errors.

use crate::support::{Random, on};
use frit::{DType, Tensor, Triangular};

fn matrix(seed: u64, dims: &[usize]) -> Tensor {
    let mut random = Random::new(seed);
    let n: usize = dims.iter().product();
    Tensor::from_vec((0..n).map(|_| random.fraction()).collect::<Vec<f64>>(), dims.to_vec())
}
fn largest(x: &Tensor) -> f64 {
    x.abs().max(..).item::<f64>().unwrap()
}
/// As close to an identity as rounding allows.
fn is_identity(x: &Tensor) {
    let off = largest(&(x - Tensor::eye(x.shape()[-1].clone()).double()));
    assert!(off < 1e-13, "{off} from the identity");
}

/// Directional derivative of `f` along `by` against its gradient.
fn slope(name: &str, f: impl Fn(&Tensor) -> Tensor, at: &Tensor, by: &Tensor) {
    let h = 1e-6;
    let value = |t: f64| f(&(at + by * t)).item::<f64>().unwrap();
    let want = (value(h) - value(-h)) / (2.0 * h);
    let g = f(at).gradient(&[at]).unwrap_or_else(|e| panic!("{name}: {e}"));
    let got = (&g[0] * by).sum(..).item::<f64>().unwrap();
    assert!((got - want).abs() <= 1e-7 * want.abs().max(1.0), "{name}: {got} is not {want}");
}

#[test]
fn factors_of_doubles_are_exact_to_rounding() {
    on("INTERP", || {
        for (m, n) in [(7, 7), (9, 4), (3, 8)] {
            let a = matrix(1, &[2, m, n]);
            let (q, r) = a.qr();
            assert!(largest(&(q.matmul(&r) - &a)) < 1e-14);
            is_identity(&q.t().matmul(&q));
            let (u, s, v) = a.svd(false);
            assert!(largest(&((&u * s.unsqueeze(-2)).matmul(&v) - &a)) < 1e-13);
            is_identity(&u.t().matmul(&u));
            is_identity(&v.matmul(&v.t()));
            let (u, _, v) = a.svd(true);
            is_identity(&u.matmul(&u.t()));
            is_identity(&v.matmul(&v.t()));
        }
        let a = matrix(2, &[8, 8]);
        is_identity(&a.matmul(&a.inverse()).round_to(40));
        let l = (a.matmul(&a.t()) + Tensor::eye(8).double()).cholesky();
        assert!(largest(&(l.matmul(&l.t()) - a.matmul(&a.t()) - Tensor::eye(8).double())) < 1e-13);
    });
}

trait Rounded {
    /// Without what is below so many bits, for products that lose some to the matrix's condition.
    fn round_to(&self, bits: i32) -> Tensor;
}
impl Rounded for Tensor {
    fn round_to(&self, bits: i32) -> Tensor {
        let scale = f64::from(bits).exp2();
        (self * scale).round() / scale
    }
}

#[test]
fn singular_vectors_stay_orthonormal_without_full_rank() {
    on("INTERP", || {
        let low = matrix(3, &[6, 2]).matmul(&matrix(4, &[2, 5]));
        for a in [low, Tensor::zeros([4, 3]).double(), Tensor::eye(4).double()] {
            let (u, s, v) = a.svd(false);
            is_identity(&u.t().matmul(&u));
            is_identity(&v.matmul(&v.t()));
            assert!(largest(&((&u * s.unsqueeze(-2)).matmul(&v) - &a)) < 1e-13);
        }
    });
}

#[test]
fn sizes_beyond_the_range_of_squares() {
    on("INTERP", || {
        for scale in [1e-30, 1e30] {
            let a = Tensor::new([[3.0, 0.0], [4.0, 5.0]]) * scale;
            let s = (a.svd(false).1 / scale).to_vec::<f32>().unwrap();
            assert!((s[0] - 45f32.sqrt()).abs() < 1e-5 && (s[1] - 5f32.sqrt()).abs() < 1e-5, "{s:?}");
            let r = (a.qr().1 / scale).to_vec::<f32>().unwrap();
            assert!((r[0] + 5.0).abs() < 1e-5, "{r:?}");
        }
    });
}

#[test]
fn gradients_are_slopes() {
    on("INTERP", || {
        let (a, by) = (matrix(5, &[4, 4]) + Tensor::eye(4).double() * 2.0, matrix(6, &[4, 4]));
        let weights = matrix(7, &[4, 4]);
        let weighed = |x: &Tensor| (x * weights.at((..x.shape()[0].get(), ..x.shape()[1].get()))).sum(..);
        slope("cholesky", |x| weighed(&(x.matmul(&x.t())).cholesky()), &a, &by);
        slope("inverse", |x| weighed(&x.inverse()), &a, &by);
        slope("det", |x| x.det(), &a, &by);
        slope("slogdet", |x| x.slogdet().1, &a, &by);
        slope("solve", |x| weighed(&x.solve(&weights)), &a, &by);
        slope("qr q", |x| weighed(&x.qr().0), &a, &by);
        slope("qr r", |x| weighed(&x.qr().1), &a, &by);
        slope("svd s", |x| x.svd(false).1.square().square().sum(..), &a, &by);
        slope("newton_schulz", |x| weighed(&x.newton_schulz(4, &[1.5, -0.5], 1e-7)), &a, &by);
        let (tall, by) = (matrix(8, &[4, 3]), matrix(9, &[4, 3]));
        slope("tall qr", |x| weighed(&x.qr().0) + x.qr().1.square().sum(..), &tall, &by);
        slope("wide qr", |x| x.t().qr().1.sin().sum(..), &tall, &by);
        slope("svd u", |x| weighed(&x.svd(false).0.square()), &tall, &by);
        slope("svd v", |x| weighed(&x.svd(true).2.square()), &tall, &by);
        slope("lstsq", |x| x.lstsq(&weights).square().sum(..), &tall, &by);
    });
}

#[test]
fn second_derivatives_of_factors() {
    on("INTERP", || {
        let (a, by) = (matrix(10, &[3, 3]) + Tensor::eye(3).double() * 2.0, matrix(11, &[3, 3]));
        let twice = |name: &str, f: &dyn Fn(&Tensor) -> Tensor| {
            let first = |x: &Tensor| f(x).gradient(&[x]).unwrap()[0].square().sum(..);
            slope(name, first, &a, &by);
        };
        twice("inverse", &|x| x.inverse().square().sum(..));
        twice("det", &|x| x.det());
        twice("cholesky", &|x| x.matmul(&x.t()).cholesky().sin().sum(..));
        twice("qr", &|x| x.qr().0.sin().sum(..));
        twice("solve", &|x| x.solve(&x.t()).sin().sum(..));
    });
}

#[test]
fn matrices_without_such_a_factor() {
    on("INTERP", || {
        let singular = Tensor::new([[1.0, 2.0], [2.0, 4.0]]);
        assert!(singular.inverse().to_vec::<f32>().unwrap().iter().all(|v| !v.is_finite()));
        assert_eq!(singular.det().item::<f32>().unwrap(), 0.0);
        let (sign, log) = singular.slogdet();
        assert_eq!((sign.item::<f32>().unwrap(), log.item::<f32>().unwrap()), (0.0, f32::NEG_INFINITY));
        let l = Tensor::new([[-1.0, 0.0], [0.0, 1.0]]).cholesky().to_vec::<f32>().unwrap();
        assert!(l[0].is_nan());
        // one bad matrix does not spoil its neighbours
        let both = Tensor::stack(&[singular, Tensor::eye(2)], 0).inverse();
        assert_eq!(both.at(1).to_vec::<f32>().unwrap(), [1.0, 0.0, 0.0, 1.0]);
    });
}

#[test]
fn small_floats_work_in_float32() {
    on("INTERP", || {
        let a = Tensor::new([[4.0, 2.0], [2.0, 10.0]]).half();
        let l = a.cholesky();
        assert_eq!(l.dtype(), DType::F16);
        assert_eq!(l.float().to_vec::<f32>().unwrap(), [2.0, 0.0, 1.0, 3.0]);
    });
}

#[test]
fn wrong_shapes_and_types_are_errors() {
    let message = |t: Tensor| t.check().unwrap_err().to_string();
    let (a, b) = (Tensor::zeros([2, 3]), Tensor::zeros([3, 3]));
    assert!(message(a.cholesky()).starts_with("cholesky: of shape [2, 3], not square at "));
    assert!(message(a.inverse()).contains("inverse: of shape [2, 3], not square"));
    assert!(message(b.int().det()).contains("det: of int32 values; cast to a float type"));
    assert!(message(Tensor::zeros([3]).qr().0).contains("qr: of shape [3], not a matrix"));
    assert!(message(b.solve(&a)).contains("solve: of shape [3, 3] with shape [2, 3]: 3 != 2 rows"));
    let batches = Tensor::zeros([2, 3, 3]).solve(&Tensor::zeros([4, 3, 1]));
    assert!(message(batches).contains("solve: shapes [2] and [4] do not broadcast"));
    assert!(message(b.triangular_solve(&a, Triangular::upper())).contains("triangular_solve"));
    assert!(message(a.matrix_power(2)).contains("not square"));
    assert!(message(a.newton_schulz(2, &[], 0.0)).contains("without parameters"));
    let q = Tensor::rand([4, 2]);
    let lost = q.qr_complete().0.sum(..).gradient(&[&q]);
    assert!(lost.is_err_and(|e| e.to_string().contains("complete Q")));
}
