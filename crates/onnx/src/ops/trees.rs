//! Ensembles of decision trees, walked on the host.

use super::{Op, op};
use crate::call::{Call, Outs, fail, give};
use frit_tensor::{Result, Tensor};

pub(super) const OPS: &[Op] = &[op("TreeEnsemble", 5, tree_ensemble)];

/// How a node compares its feature.
#[derive(Clone)]
enum Test {
    LessOrEqual(f64),
    Less(f64),
    GreaterOrEqual(f64),
    Greater(f64),
    Equal(f64),
    NotEqual(f64),
    Member(Vec<f64>),
}

impl Test {
    fn holds(&self, x: f64) -> bool {
        match self {
            Test::LessOrEqual(v) => x <= *v,
            Test::Less(v) => x < *v,
            Test::GreaterOrEqual(v) => x >= *v,
            Test::Greater(v) => x > *v,
            Test::Equal(v) => x == *v,
            Test::NotEqual(v) => x != *v,
            Test::Member(all) => all.contains(&x),
        }
    }
}

/// Where a branch leads.
#[derive(Clone, Copy)]
enum Branch {
    Node(usize),
    Leaf(usize),
}

struct Node {
    feature: usize,
    test: Test,
    missing_is_true: bool,
    yes: Branch,
    no: Branch,
}

/// Sets of members, one after the other, with a NaN after each.
fn member_sets(c: &Call) -> Result<Vec<Vec<f64>>> {
    let Some(values) = c.constant("membership_values")? else { return Ok(vec![]) };
    let values = values.tensor()?.double().to_vec::<f64>()?;
    Ok(values.split(|v| v.is_nan()).map(<[f64]>::to_vec).collect())
}

fn nodes(c: &Call) -> Result<Vec<Node>> {
    let list = |name: &str| -> Result<Vec<i64>> { Ok(c.list(name)?.unwrap_or_default()) };
    let (features, missing) = (list("nodes_featureids")?, list("nodes_missing_value_tracks_true")?);
    let (yes, yes_leaf) = (list("nodes_truenodeids")?, list("nodes_trueleafs")?);
    let (no, no_leaf) = (list("nodes_falsenodeids")?, list("nodes_falseleafs")?);
    let (Some(modes), Some(splits)) = (c.constant("nodes_modes")?, c.constant("nodes_splits")?) else {
        return fail("no modes or no splits of nodes");
    };
    c.ignore(&["nodes_hitrates"]);
    let (modes, splits) = (modes.ints()?, splits.tensor()?.double().to_vec::<f64>()?);
    let n = features.len();
    if [yes.len(), yes_leaf.len(), no.len(), no_leaf.len(), modes.len(), splits.len()].iter().any(|l| *l != n)
    {
        return fail("the lists about nodes are not of one length");
    }
    let mut sets = member_sets(c)?.into_iter();
    let branch = |to: i64, leaf: i64| match (leaf, to.max(0) as usize) {
        (0, to) => Branch::Node(to),
        (_, to) => Branch::Leaf(to),
    };
    let node = |i: usize| {
        let test = match modes[i] {
            0 => Test::LessOrEqual(splits[i]),
            1 => Test::Less(splits[i]),
            2 => Test::GreaterOrEqual(splits[i]),
            3 => Test::Greater(splits[i]),
            4 => Test::Equal(splits[i]),
            5 => Test::NotEqual(splits[i]),
            6 => Test::Member(sets.next().unwrap_or_default()),
            mode => return fail(format!("node {i} has the mode {mode}")),
        };
        Ok(Node {
            feature: features[i].max(0) as usize,
            test,
            missing_is_true: missing.get(i).is_some_and(|m| *m != 0),
            yes: branch(yes[i], yes_leaf[i]),
            no: branch(no[i], no_leaf[i]),
        })
    };
    (0..n).map(node).collect()
}

/// The leaf that a row comes to; `None` where branches lead nowhere or in a circle.
fn walk(nodes: &[Node], root: usize, row: &[f64]) -> Option<usize> {
    let mut at = root;
    for _ in 0..=nodes.len() {
        let node = nodes.get(at)?;
        let x = *row.get(node.feature)?;
        let is_true = if x.is_nan() { node.missing_is_true } else { node.test.holds(x) };
        match if is_true { node.yes } else { node.no } {
            Branch::Leaf(leaf) => return Some(leaf),
            Branch::Node(next) => at = next,
        }
    }
    None
}

fn tree_ensemble(c: &Call) -> Result<Outs> {
    let (how, after) = (c.int_or("aggregate_function", 1)?, c.int_or("post_transform", 0)?);
    let targets = c.int_or("n_targets", 1)?.max(1) as usize;
    let roots = c.list("tree_roots")?.unwrap_or_default();
    let leaf_targets = c.list("leaf_targetids")?.unwrap_or_default();
    let weights = c.constant("leaf_weights")?.map_or_else(|| fail("no weights of leaves"), |w| w.tensor())?;
    let (weights, nodes, x) = (weights.double().to_vec::<f64>()?, nodes(c)?, c.tensor(0)?);
    let Ok([rows, features]) = <[usize; 2]>::try_from(x.dims()?) else {
        return fail(format!("features of shape {}", x.shape()));
    };
    let values = x.double().to_vec::<f64>()?;
    let mut out = vec![];
    for row in values.chunks(features.max(1)) {
        let mut scores: Vec<Option<f64>> = vec![None; targets];
        for root in &roots {
            let leaf = walk(&nodes, (*root).max(0) as usize, row);
            let found = leaf.and_then(|l| Some((leaf_targets.get(l)?, weights.get(l)?)));
            let Some((target, weight)) = found else {
                return fail(format!("the tree at {root} has no leaf for a row"));
            };
            let Some(score) = scores.get_mut((*target).max(0) as usize) else {
                return fail(format!("a leaf of target {target} of {targets}"));
            };
            *score = Some(match (how, *score) {
                (_, None) => *weight,
                (2, Some(s)) => s.min(*weight),
                (3, Some(s)) => s.max(*weight),
                (_, Some(s)) => s + weight,
            });
        }
        let share = if how == 0 { roots.len().max(1) as f64 } else { 1.0 };
        out.extend(scores.iter().map(|s| s.unwrap_or(0.0) / share));
    }
    let y = Tensor::from_vec(out, [rows, targets]);
    let y = match after {
        0 => y,
        1 => y.softmax(-1),
        2 => y.sigmoid(),
        other => return fail(format!("attribute \"post_transform\" is {other}")),
    };
    give(y.cast(x.dtype()))
}
