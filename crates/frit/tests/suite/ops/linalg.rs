//! The ops of `tests-data/goldens/linalg.py`.

use frit::{Tensor, Triangular};
use frit_reference::goldens::Case;

/// Apply the case's op to its inputs. `None` where it is of another family.
pub fn apply(case: &Case, i: &[Tensor]) -> Option<Vec<Tensor>> {
    let x = &i[0];
    let rows = || x.shape()[-2].get();
    Some(match case.op.as_str() {
        "cholesky" => {
            let half = Tensor::eye(rows()).cast(x.dtype()) * 0.5;
            vec![(x.matmul(&x.t()) + half).cholesky()]
        }
        "inverse" => vec![x.inverse()],
        "solve" => vec![x.solve(&i[1])],
        "det" => vec![x.det()],
        "slogdet" => pair(x.slogdet()),
        "triangular_solve" => vec![x.triangular_solve(&i[1], triangle(case))],
        "lstsq" => vec![x.lstsq(&i[1])],
        "qr" if case.flag("complete") => pair(x.qr_complete()),
        "qr" => pair(x.qr()),
        "svd" => {
            let (u, s, v) = x.svd(false);
            vec![s, spectrum(&u), spectrum(&v.t())]
        }
        "svdvals" => vec![x.svd(true).1],
        "matrix_power" => vec![x.matrix_power(case.number("n").unwrap_or(0.0) as i64)],
        "newton_schulz" => {
            let params = case.param("params").unwrap_or("").split(',').map(|p| p.parse().unwrap());
            let steps = case.number("steps").unwrap_or(0.0) as usize;
            vec![x.newton_schulz(steps, &params.collect::<Vec<f64>>(), 1e-7)]
        }
        "outer" => vec![x.outer(&i[1])],
        "kron" => vec![x.kron(&i[1])],
        "trace" => vec![x.trace()],
        "einsum" => {
            let formula = case.param("formula").unwrap_or("").replace(';', ",");
            vec![Tensor::einsum(&formula, &i.iter().collect::<Vec<_>>())]
        }
        "dot" => vec![x.dot(&i[1])],
        _ => return None,
    })
}

fn pair((a, b): (Tensor, Tensor)) -> Vec<Tensor> {
    vec![a, b]
}

fn triangle(case: &Case) -> Triangular {
    let t = if case.flag("upper") { Triangular::upper() } else { Triangular::lower() };
    let t = if case.flag("transpose") { t.transposed() } else { t };
    if case.flag("unit") { t.unit() } else { t }
}

/// `U diag(1, 2, ..) U^T`, whatever the signs of the columns.
fn spectrum(u: &Tensor) -> Tensor {
    let k = u.shape()[-1].get();
    (u * (Tensor::arange(k) + 1)).matmul(&u.t())
}
