//! Support vector machines, on the host.

use super::scores::{After, Opposite, classes, classified, greatest, logistic, rows, table};
use super::{Op, op};
use crate::call::{Call, Outs, fail, give};
use frit_tensor::Result;

pub(super) const OPS: &[Op] = &[op("SVMClassifier", 1, classifier), op("SVMRegressor", 1, regressor)];

/// How alike two vectors are.
struct Kernel<'a> {
    kind: &'a str,
    gamma: f64,
    offset: f64,
    degree: f64,
}

impl<'a> Kernel<'a> {
    fn of(c: &'a Call) -> Result<Kernel<'a>> {
        let parameters = c.floats("kernel_params")?.unwrap_or_default();
        let parameter = |i: usize| f64::from(parameters.get(i).copied().unwrap_or(0.0));
        let kind = c.text_or("kernel_type", "LINEAR")?;
        if !matches!(kind, "LINEAR" | "POLY" | "RBF" | "SIGMOID") {
            return fail(format!("attribute \"kernel_type\" is {kind:?}"));
        }
        Ok(Kernel { kind, gamma: parameter(0), offset: parameter(1), degree: parameter(2) })
    }
    fn of_two(&self, a: &[f64], b: &[f32]) -> f64 {
        let pairs = || a.iter().zip(b).map(|(a, b)| (*a, f64::from(*b)));
        let product = || pairs().map(|(a, b)| a * b).sum::<f64>();
        match self.kind {
            "POLY" => (self.gamma * product() + self.offset).powf(self.degree),
            "SIGMOID" => (self.gamma * product() + self.offset).tanh(),
            "RBF" => (-self.gamma * pairs().map(|(a, b)| (a - b).powi(2)).sum::<f64>()).exp(),
            _ => product(),
        }
    }
    /// Of a row with each of some vectors.
    fn of_each(&self, row: &[f64], vectors: &[f32]) -> Vec<f64> {
        vectors.chunks_exact(row.len().max(1)).map(|v| self.of_two(row, v)).collect()
    }
}

fn numbers<'a>(c: &'a Call, name: &str) -> Result<&'a [f32]> {
    Ok(c.floats(name)?.unwrap_or_default())
}

fn regressor(c: &Call) -> Result<Outs> {
    let (kernel, after, one_class) = (Kernel::of(c)?, After::of(c)?, c.flag("one_class")?);
    let (weights, vectors) = (numbers(c, "coefficients")?, numbers(c, "support_vectors")?);
    let rho = f64::from(numbers(c, "rho")?.first().copied().unwrap_or(0.0));
    c.ignore(&["n_supports"]);
    let (x, _, features) = rows(c)?;
    let score = |row: &[f64]| {
        let sum = match vectors.is_empty() {
            true => kernel.of_two(row, weights),
            false => kernel.of_each(row, vectors).iter().zip(weights).map(|(k, w)| k * f64::from(*w)).sum(),
        };
        let mut score = [sum + rho];
        after.apply(&mut score);
        vec![if one_class { if score[0] > 0.0 { 1.0 } else { -1.0 } } else { score[0] }]
    };
    give(table(x.chunks_exact(features.max(1)).map(score).collect()))
}

fn classifier(c: &Call) -> Result<Outs> {
    let (kernel, after) = (Kernel::of(c)?, After::of(c)?);
    let (weights, vectors) = (numbers(c, "coefficients")?, numbers(c, "support_vectors")?);
    let (rho, a, b) = (numbers(c, "rho")?, numbers(c, "prob_a")?, numbers(c, "prob_b")?);
    let per_class = c.sizes("vectors_per_class")?.unwrap_or_default();
    let n = classes(c, "classlabels_ints")?;
    let pairs = n * n.saturating_sub(1) / 2;
    let (x, _, features) = rows(c)?;
    let (mut chosen, mut scores) = (vec![], vec![]);
    if per_class.is_empty() {
        // a plane for each class
        let rho = f64::from(rho.first().copied().unwrap_or(0.0));
        for row in x.chunks_exact(features.max(1)) {
            let mut all: Vec<f64> = kernel.of_each(row, weights).iter().map(|k| k + rho).collect();
            let best = greatest(&all);
            let is_second = all.get(best).is_some_and(|s| *s > 0.0);
            chosen.push(if n == 2 { usize::from(is_second) } else { best });
            after.apply(&mut all);
            scores.push(all);
        }
        return classified(c, "classlabels_ints", &chosen, scores);
    }
    let count: usize = per_class.iter().sum();
    let fits = per_class.len() == n && rho.len() == pairs && vectors.len() == count * features;
    if !fits
        || weights.len() != count * n.saturating_sub(1)
        || (!a.is_empty() && (a.len() != pairs || b.len() != pairs))
    {
        return fail(format!(
            "numbers that do not fit {count} vectors of {n} classes with {features} features"
        ));
    }
    for row in x.chunks_exact(features.max(1)) {
        let alike = kernel.of_each(row, vectors);
        let (decisions, votes) = decide(&alike, weights, rho, &per_class);
        chosen.push(greatest(&votes));
        scores.push(match (a.is_empty(), &decisions[..]) {
            (true, [one]) => {
                let opposite = if after == After::None { Opposite::Negative } else { Opposite::Rest };
                after.of_two(*one, opposite)
            }
            (true, _) => transformed(decisions, after),
            (false, _) => transformed(coupled(&decisions, a, b, n), after),
        });
    }
    classified(c, "classlabels_ints", &chosen, scores)
}

fn transformed(mut row: Vec<f64>, after: After) -> Vec<f64> {
    after.apply(&mut row);
    row
}

/// What each pair of classes says, and how often each wins.
fn decide(alike: &[f64], weights: &[f32], rho: &[f32], per_class: &[usize]) -> (Vec<f64>, Vec<f64>) {
    let n = per_class.len();
    let starts: Vec<usize> = (0..n).map(|i| per_class[..i].iter().sum()).collect();
    let (mut decisions, mut votes) = (vec![], vec![0.0; n]);
    for i in 0..n {
        for j in i + 1..n {
            // each vector has a weight for every other class
            let part = |class: usize, row: usize| {
                let of = starts[class]..starts[class] + per_class[class];
                of.map(|k| alike[k] * f64::from(weights[row * alike.len() + k])).sum::<f64>()
            };
            let decision = part(i, j - 1) + part(j, i) + f64::from(rho[decisions.len()]);
            votes[if decision > 0.0 { i } else { j }] += 1.0;
            decisions.push(decision);
        }
    }
    (decisions, votes)
}

/// Chances of all classes from those of pairs (Wu, Lin and Weng, 2004: the second of their methods).
fn coupled(decisions: &[f64], a: &[f32], b: &[f32], n: usize) -> Vec<f64> {
    let mut pair = vec![vec![0.0; n]; n];
    let pairs = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
    for ((i, j), (d, (a, b))) in pairs.zip(decisions.iter().zip(a.iter().zip(b))) {
        let p = logistic(-(d * f64::from(*a) + f64::from(*b))).clamp(1e-7, 1.0 - 1e-7);
        (pair[i][j], pair[j][i]) = (p, 1.0 - p);
    }
    let q = |i: usize, j: usize| match i == j {
        true => (0..n).filter(|k| *k != i).map(|k| pair[k][i].powi(2)).sum::<f64>(),
        false => -pair[j][i] * pair[i][j],
    };
    let q: Vec<Vec<f64>> = (0..n).map(|i| (0..n).map(|j| q(i, j)).collect()).collect();
    let mut p = vec![1.0 / n as f64; n];
    for _ in 0..n.max(100) {
        let mut qp: Vec<f64> = q.iter().map(|row| row.iter().zip(&p).map(|(q, p)| q * p).sum()).collect();
        let mut pqp: f64 = p.iter().zip(&qp).map(|(p, q)| p * q).sum();
        if qp.iter().all(|v| (v - pqp).abs() < 0.005 / n as f64) {
            break;
        }
        for t in 0..n {
            let diff = (pqp - qp[t]) / q[t][t];
            p[t] += diff;
            pqp = (pqp + diff * (diff * q[t][t] + 2.0 * qp[t])) / (1.0 + diff).powi(2);
            for j in 0..n {
                qp[j] = (qp[j] + diff * q[t][j]) / (1.0 + diff);
                p[j] /= 1.0 + diff;
            }
        }
    }
    p
}
