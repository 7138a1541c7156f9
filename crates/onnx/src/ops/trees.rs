//! Ensembles of decision trees, walked on the host.

use super::scores::{After, Opposite, classes, classified, greatest, rows, table};
use super::{Op, op};
use crate::call::{Call, Outs, bounded, fail, give};
use frit_tensor::{Result, Tensor};
use rustc_hash::FxHashMap;

pub(super) const OPS: &[Op] = &[
    op("TreeEnsemble", 5, tree_ensemble),
    op("TreeEnsembleClassifier", 1, classifier),
    op("TreeEnsembleRegressor", 1, regressor),
];

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
    let targets = c.count("n_targets", 1)?;
    let roots = c.list("tree_roots")?.unwrap_or_default();
    let leaf_targets = c.list("leaf_targetids")?.unwrap_or_default();
    let weights = c.constant("leaf_weights")?.map_or_else(|| fail("no weights of leaves"), |w| w.tensor())?;
    let (weights, nodes, x) = (weights.double().to_vec::<f64>()?, nodes(c)?, c.tensor(0)?);
    let Ok([rows, features]) = <[usize; 2]>::try_from(x.dims()?) else {
        return fail(format!("features of shape {}", x.shape()));
    };
    bounded(&[rows, targets])?;
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

/// Trees as they were before opset 5: nodes have names of two numbers, and a leaf may say something of several targets.
struct Forest {
    nodes: Vec<Node>,
    roots: Vec<usize>,
    /// For each leaf: targets and weights.
    leaves: Vec<Vec<(usize, f64)>>,
}

impl Forest {
    /// `what` is `target` or `class`.
    fn of(c: &Call, what: &str) -> Result<Forest> {
        let list = |name: &str| -> Result<Vec<i64>> { Ok(c.list(name)?.unwrap_or_default()) };
        c.ignore(&["nodes_hitrates", "nodes_hitrates_as_tensor"]);
        let (trees, ids, features) =
            (list("nodes_treeids")?, list("nodes_nodeids")?, list("nodes_featureids")?);
        let (yes, no) = (list("nodes_truenodeids")?, list("nodes_falsenodeids")?);
        let missing = list("nodes_missing_value_tracks_true")?;
        let (values, modes) = (reals(c, "nodes_values")?, c.texts("nodes_modes")?.unwrap_or_default());
        let n = trees.len();
        if [ids.len(), features.len(), yes.len(), no.len(), values.len(), modes.len()].iter().any(|l| *l != n)
        {
            return fail("the lists about nodes are not of one length");
        }
        let places: FxHashMap<(i64, i64), usize> = (0..n).map(|i| ((trees[i], ids[i]), i)).collect();
        let is_leaf = |i: usize| modes[i] == "LEAF";
        let branch = |tree: i64, id: i64| match places.get(&(tree, id)) {
            Some(&i) if is_leaf(i) => Ok(Branch::Leaf(i)),
            Some(&i) => Ok(Branch::Node(i)),
            None => fail(format!("tree {tree} has no node {id}")),
        };
        let node = |i: usize| {
            let v = values[i];
            let test = match modes[i].as_str() {
                "BRANCH_LEQ" => Test::LessOrEqual(v),
                "BRANCH_LT" => Test::Less(v),
                "BRANCH_GTE" => Test::GreaterOrEqual(v),
                "BRANCH_GT" => Test::Greater(v),
                "BRANCH_EQ" => Test::Equal(v),
                "BRANCH_NEQ" => Test::NotEqual(v),
                // both ways lead to itself
                "LEAF" => {
                    let (test, here) = (Test::Equal(v), Branch::Leaf(i));
                    return Ok(Node { feature: 0, test, missing_is_true: false, yes: here, no: here });
                }
                mode => return fail(format!("node {i} has the mode {mode:?}")),
            };
            Ok(Node {
                feature: features[i].max(0) as usize,
                test,
                missing_is_true: missing.get(i).is_some_and(|m| *m != 0),
                yes: branch(trees[i], yes[i])?,
                no: branch(trees[i], no[i])?,
            })
        };
        let nodes = (0..n).map(node).collect::<Result<_>>()?;
        // the first node of a tree is its root
        let roots = (0..n).filter(|i| *i == 0 || trees[*i] != trees[*i - 1]).collect();
        let mut leaves = vec![vec![]; n];
        let (leaf_trees, leaf_ids) = (list(&format!("{what}_treeids"))?, list(&format!("{what}_nodeids"))?);
        let (targets, weights) = (list(&format!("{what}_ids"))?, reals(c, &format!("{what}_weights"))?);
        for ((tree, id), (target, weight)) in
            leaf_trees.iter().zip(&leaf_ids).zip(targets.iter().zip(&weights))
        {
            let Some(place) = places.get(&(*tree, *id)) else {
                return fail(format!("tree {tree} has no node {id}"));
            };
            leaves[*place].push(((*target).max(0) as usize, *weight));
        }
        Ok(Forest { nodes, roots, leaves })
    }
    /// What trees say of a row, joined by `join`; none of a target that none speaks of.
    fn scores(&self, row: &[f64], targets: usize, join: fn(f64, f64) -> f64) -> Result<Vec<Option<f64>>> {
        let mut scores = vec![None; targets];
        for root in &self.roots {
            let Some(leaf) = walk(&self.nodes, *root, row) else {
                return fail(format!("the tree at {root} has no leaf for a row of {} features", row.len()));
            };
            for (target, weight) in &self.leaves[leaf] {
                match scores.get_mut(*target) {
                    Some(s) => *s = Some(s.map_or(*weight, |s| join(s, *weight))),
                    None => return fail(format!("a leaf of target {target} of {targets}")),
                }
            }
        }
        Ok(scores)
    }
}

/// Numbers of an attribute, or of a tensor in its place.
fn reals(c: &Call, name: &str) -> Result<Vec<f64>> {
    match c.constant(&format!("{name}_as_tensor"))? {
        Some(t) => t.numbers(),
        None => Ok(c.floats(name)?.unwrap_or_default().iter().map(|v| f64::from(*v)).collect()),
    }
}

fn regressor(c: &Call) -> Result<Outs> {
    let (forest, after) = (Forest::of(c, "target")?, After::of(c)?);
    let (targets, base) = (c.count("n_targets", 1)?, reals(c, "base_values")?);
    let how = c.text_or("aggregate_function", "SUM")?;
    let (join, share): (fn(f64, f64) -> f64, f64) = match how {
        "SUM" => (|a, b| a + b, 1.0),
        "AVERAGE" => (|a, b| a + b, forest.roots.len().max(1) as f64),
        "MIN" => (f64::min, 1.0),
        "MAX" => (f64::max, 1.0),
        other => return fail(format!("attribute \"aggregate_function\" is {other:?}")),
    };
    let (x, count, features) = rows(c)?;
    bounded(&[count, targets])?;
    let score = |row: &[f64]| {
        let scores = forest.scores(row, targets, join)?.into_iter().enumerate();
        let based =
            |(i, s): (usize, Option<f64>)| s.unwrap_or(0.0) / share + base.get(i).copied().unwrap_or(0.0);
        let mut scores: Vec<f64> = scores.map(based).collect();
        after.apply(&mut scores);
        Ok(scores)
    };
    give(table(x.chunks_exact(features.max(1)).map(score).collect::<Result<_>>()?))
}

fn classifier(c: &Call) -> Result<Outs> {
    let (forest, after) = (Forest::of(c, "class")?, After::of(c)?);
    let (labels, base) = (classes(c, "classlabels_int64s")?, reals(c, "base_values")?);
    let all = || forest.leaves.iter().flatten();
    let first = all().next().map_or(0, |(target, _)| *target);
    // of two classes leaves may speak of one only
    let is_one = labels == 2 && all().all(|(target, _)| *target == first);
    let is_chance = all().all(|(_, weight)| *weight >= 0.0);
    if is_one && base.len() > 1 {
        return fail("leaves of one class with base values of two");
    }
    let (x, _, features) = rows(c)?;
    let (mut chosen, mut scores) = (vec![], vec![]);
    for row in x.chunks_exact(features.max(1)) {
        let said = forest.scores(row, labels, |a, b| a + b)?;
        if is_one {
            let score =
                said.get(first).copied().flatten().unwrap_or(0.0) + base.first().copied().unwrap_or(0.0);
            let (least, opposite) = if is_chance { (0.5, Opposite::Rest) } else { (0.0, Opposite::Negative) };
            // a half is one in float32, which is what others compute in
            chosen.push(usize::from(score as f32 > least));
            scores.push(after.of_two(score, opposite));
            continue;
        }
        let based = |(i, s): (usize, &Option<f64>)| s.unwrap_or(0.0) + base.get(i).copied().unwrap_or(0.0);
        let mut row: Vec<f64> = said.iter().enumerate().map(based).collect();
        chosen.push(greatest(&row));
        after.apply(&mut row);
        scores.push(row);
    }
    classified(c, "classlabels_int64s", &chosen, scores)
}
