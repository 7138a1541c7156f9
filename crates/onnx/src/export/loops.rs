//! Loops: short ones are written out step by step, others are a `Loop` with the body as a graph of its own.

use super::lower::{Done, Lowering, element, sizes};
use super::writer::{Attribute, port};
use crate::element::Element;
use frit_uop::{Arg, Loop, UOp};
use rustc_hash::FxHashMap;

/// Longer loops are not written out: a runtime sees more of what is, and a file grows.
const MOST_STEPS: i64 = 16;

/// What is known of a loop that is written.
pub(super) enum Written {
    /// The results of each step, as graphs.
    Out(Vec<Vec<UOp>>),
    /// The names of its results.
    Node(Vec<String>),
}

fn parts(n: &UOp) -> Done<(Loop<'_>, usize)> {
    match (Loop::of(n.input()), &n.arg) {
        (Some(l), Arg::Lane(i)) => Ok((l, *i as usize)),
        _ => Err("a loop is not well-formed".into()),
    }
}

fn is_short(l: &Loop) -> bool {
    l.count().as_int().is_some_and(|n| (1..=MOST_STEPS).contains(&n))
}

impl Lowering<'_> {
    /// What must be written before a loop's result: what it begins with, or the values of its steps.
    pub fn before_loop(&mut self, n: &UOp) -> Done<Vec<UOp>> {
        let (l, i) = parts(n)?;
        if is_short(&l) {
            return self.steps_of(&l, i);
        }
        Ok(l.inputs().iter().chain(l.count().as_int().is_none().then_some(l.count())).cloned().collect())
    }
    /// The name of a loop's result.
    pub fn loop_result(&mut self, n: &UOp) -> Done<String> {
        let (l, i) = parts(n)?;
        if !is_short(&l) {
            if let Some(Written::Node(names)) = self.loops.get(l.node) {
                return Ok(names[i].clone());
            }
            let names = self.loop_node(&l)?;
            self.loops.insert(l.node.clone(), Written::Node(names.clone()));
            return Ok(names[i].clone());
        }
        let steps = self.steps_of(&l, i)?;
        let axis = self.graph.ints(&[0]);
        let mut parts = vec![];
        for step in &steps {
            let name = self.name(step)?;
            if i < l.carries() {
                return Ok(name);
            }
            parts.push(self.graph.call("Unsqueeze", &[&name, &axis], vec![]));
        }
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        Ok(self.graph.call("Concat", &parts, vec![("axis", Attribute::Int(0))]))
    }
    /// What the result of a loop that is written out is made of: the last carry, or what each step gives.
    fn steps_of(&mut self, l: &Loop, i: usize) -> Done<Vec<UOp>> {
        if !self.loops.contains_key(l.node) {
            self.loops.insert(l.node.clone(), Written::Out(unrolled(l)));
        }
        match &self.loops[l.node] {
            Written::Out(steps) if i < l.carries() => {
                Ok(steps.last().map(|s| s[i].clone()).into_iter().collect())
            }
            Written::Out(steps) => Ok(steps.iter().map(|s| s[i].clone()).collect()),
            Written::Node(_) => Err("a loop is written twice".into()),
        }
    }
    /// Writes a `Loop`; its body sees captured values by their names around it.
    fn loop_node(&mut self, l: &Loop) -> Done<Vec<String>> {
        // before the body: names inside must not be those of anything around
        let count = self.size(l.count())?;
        let mut body = self.inside();
        let (step, go) = (body.graph.fresh("step"), body.graph.fresh("go"));
        let mut inputs = vec![port(&step, Element::Int64, &[]), port(&go, Element::Bool, &[])];
        body.names.insert(l.variable(), step);
        let mut given = vec![count, String::new()];
        for (slot, value) in l.inputs().iter().enumerate() {
            let outside = self.name(value)?;
            if slot >= l.carries() {
                body.names.insert(l.input(slot), outside);
                continue;
            }
            let name = body.graph.fresh("carry");
            inputs.push(port(&name, element(value.dtype)?, &sizes(value)));
            body.names.insert(l.input(slot), name);
            given.push(outside);
        }
        body.write(l.results())?;
        let on = body.graph.fresh("on");
        body.graph.output(&go, &on);
        let mut outputs = vec![port(&on, Element::Bool, &[])];
        for value in l.results() {
            let (name, made) = (body.graph.fresh("next"), body.name(value)?);
            body.graph.output(&made, &name);
            outputs.push(port(&name, element(value.dtype)?, &sizes(value)));
        }
        let inner = std::mem::take(&mut body.graph);
        let graph = self.graph.close(inner, inputs, outputs);
        let given: Vec<&str> = given.iter().map(String::as_str).collect();
        Ok(self.graph.call_all("Loop", &given, vec![("body", Attribute::Graph(graph))], l.results().len()))
    }
}

/// The results of each step of a loop, as graphs.
fn unrolled(l: &Loop) -> Vec<Vec<UOp>> {
    let (mut inputs, mut steps) = (l.inputs().to_vec(), vec![]);
    for i in 0..l.count().as_int().unwrap_or(0) {
        let mut inside: FxHashMap<UOp, UOp> =
            inputs.iter().enumerate().map(|(slot, value)| (l.input(slot), value.clone())).collect();
        inside.insert(l.variable(), UOp::index(i));
        let results: Vec<UOp> = l.results().iter().map(|r| r.substitute(&inside)).collect();
        inputs[..l.carries()].clone_from_slice(&results[..l.carries()]);
        steps.push(results);
    }
    steps
}
