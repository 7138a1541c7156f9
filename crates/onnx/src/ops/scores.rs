//! What classifiers and regressors that are no nets end with: scores transformed, and the labels of classes.

use crate::call::{Call, Outs, fail, give};
use crate::value::{Strings, Value};
use frit_tensor::{Result, Tensor};

/// What becomes of the scores of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    None,
    Softmax,
    Logistic,
    /// Softmax among those that are not zero.
    SoftmaxZero,
    Probit,
}

impl After {
    pub fn of(c: &Call) -> Result<After> {
        Ok(match c.text_or("post_transform", "NONE")? {
            "NONE" => After::None,
            "SOFTMAX" => After::Softmax,
            "LOGISTIC" => After::Logistic,
            "SOFTMAX_ZERO" => After::SoftmaxZero,
            "PROBIT" => After::Probit,
            other => return fail(format!("attribute \"post_transform\" is {other:?}")),
        })
    }
    pub fn apply(self, row: &mut [f64]) {
        match self {
            After::None => {}
            After::Logistic => row.iter_mut().for_each(|v| *v = logistic(*v)),
            After::Probit => row.iter_mut().for_each(|v| *v = probit(*v)),
            After::Softmax | After::SoftmaxZero => {
                let counts = |v: f64| self == After::Softmax || v.abs() > 1e-7;
                let most = row.iter().copied().fold(f64::MIN, f64::max);
                let exp = |v: f64| if counts(v) { (v - most).exp() } else { 0.0 };
                let sum: f64 = row.iter().map(|v| exp(*v)).sum();
                row.iter_mut().for_each(|v| *v = exp(*v) / sum);
            }
        }
    }
    /// The scores of two classes from the one of the second.
    pub fn of_two(self, score: f64, without: Opposite) -> Vec<f64> {
        match (self, without) {
            (After::Logistic, _) => vec![logistic(-score), logistic(score)],
            (_, Opposite::Negative) => vec![-score, score],
            (_, Opposite::Rest) => vec![1.0 - score, score],
        }
    }
}

/// What the first of two classes has where the second has a score.
#[derive(Clone, Copy)]
pub(super) enum Opposite {
    Negative,
    /// What is left of one.
    Rest,
}

pub(super) fn logistic(v: f64) -> f64 {
    1.0 / (1.0 + (-v).exp())
}
/// sqrt(2) erfinv(2 v - 1), by the approximation that onnxruntime has.
fn probit(v: f64) -> f64 {
    let x = 2.0 * v - 1.0;
    let log = ((1.0 - x) * (1.0 + x)).ln();
    let a = 2.0 / (std::f64::consts::PI * 0.147) + 0.5 * log;
    std::f64::consts::SQRT_2 * x.signum() * (-a + (a * a - log / 0.147).sqrt()).sqrt()
}

/// The rows of features, and how many each has.
pub(super) fn rows(c: &Call) -> Result<(Vec<f64>, usize, usize)> {
    let x = c.tensor(0)?;
    let (rows, features) = match x.dims()?[..] {
        [n] => (1, n),
        [rows, n] => (rows, n),
        _ => return fail(format!("features of shape {}", x.shape())),
    };
    Ok((x.double().to_vec()?, rows, features))
}

/// The greatest, the first of equals.
pub(super) fn greatest(row: &[f64]) -> usize {
    (0..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best })
}

/// How many labels a model has.
pub(super) fn classes(c: &Call, ints: &str) -> Result<usize> {
    Ok(c.texts("classlabels_strings")?.map_or(0, <[String]>::len).max(c.list(ints)?.map_or(0, |l| l.len())))
}

/// The labels of classes by number, and the scores of each row.
pub(super) fn classified(c: &Call, ints: &str, chosen: &[usize], scores: Vec<Vec<f64>>) -> Result<Outs> {
    let n = chosen.len();
    let labels: Value = match (c.texts("classlabels_strings")?, c.list(ints)?) {
        (Some(texts), _) if !texts.is_empty() => {
            let text = |i: &usize| texts.get(*i).cloned().unwrap_or_default();
            Strings::new(vec![n], chosen.iter().map(text).collect()).into()
        }
        (_, Some(all)) => {
            let label = |i: &usize| all.get(*i).copied().unwrap_or(*i as i64);
            Tensor::from_vec(chosen.iter().map(label).collect::<Vec<_>>(), [n]).into()
        }
        _ => return fail("no labels of classes"),
    };
    give(vec![labels, table(scores).into()])
}

/// Rows as a tensor.
pub(super) fn table(rows: Vec<Vec<f64>>) -> Tensor {
    let dims = [rows.len(), rows.first().map_or(0, Vec::len)];
    Tensor::from_vec(rows.into_iter().flatten().map(|v| v as f32).collect::<Vec<_>>(), dims)
}
