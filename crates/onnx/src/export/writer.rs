//! What is written so far: nodes, stored tensors, and the names of values.

use crate::element::Element;
use crate::wire::Writer;
use rustc_hash::{FxHashMap, FxHashSet};

/// An attribute's value.
#[derive(Clone, Debug)]
pub(super) enum Attribute {
    Int(i64),
    Float(f64),
    Text(&'static str),
    Ints(Vec<i64>),
    Graph(Writer),
}

impl Attribute {
    fn message(&self, name: &str) -> Writer {
        let w = Writer::new().bytes(1, name);
        match self {
            Attribute::Float(v) => w.float(2, *v as f32).int(20, 1),
            Attribute::Int(v) => w.int(3, *v).int(20, 2),
            Attribute::Text(v) => w.bytes(4, v).int(20, 3),
            Attribute::Ints(v) => w.ints(8, v).int(20, 7),
            Attribute::Graph(v) => w.message(6, v.clone()).int(20, 5),
        }
    }
}

pub(super) type Attributes = Vec<(&'static str, Attribute)>;

/// One call of an operator.
struct Node {
    op: &'static str,
    inputs: Vec<String>,
    outputs: Vec<String>,
    attributes: Attributes,
}

/// A size of an input or output: a number, a name, or unknown.
pub(super) enum Size {
    Number(i64),
    Name(String),
    Any,
}

/// An input or output.
pub(super) fn port(name: &str, element: Element, dims: &[Size]) -> Writer {
    let dim = |d: &Size| match d {
        Size::Number(n) => Writer::new().int(1, *n),
        Size::Name(name) => Writer::new().bytes(2, name),
        Size::Any => Writer::new(),
    };
    let shape = dims.iter().fold(Writer::new(), |w, d| w.message(1, dim(d)));
    let tensor = Writer::new().int(1, element.number()).message(2, shape);
    Writer::new().bytes(1, name).message(2, Writer::new().message(1, tensor))
}

/// A graph that grows call by call.
#[derive(Default)]
pub(super) struct Graph {
    nodes: Vec<Node>,
    stored: Vec<Writer>,
    /// Small stored tensors, which are there once.
    known: FxHashMap<(i64, Vec<i64>, Vec<u8>), String>,
    taken: FxHashSet<String>,
    /// Results of nodes that have the name of an output instead of their own.
    renamed: FxHashMap<String, String>,
    /// Values that graphs inside this one read by their names, which they keep.
    captured: FxHashSet<String>,
    counts: FxHashMap<&'static str, usize>,
    bytes: usize,
}

/// Larger tensors are not compared with others.
const SMALL: usize = 1024;

impl Graph {
    /// Keeps a name for someone.
    pub fn take(&mut self, name: &str) -> Result<(), String> {
        match self.taken.insert(name.to_string()) {
            true => Ok(()),
            false => Err(format!("two values are called {name:?}")),
        }
    }
    /// A name that no one has.
    pub fn fresh(&mut self, stem: &'static str) -> String {
        loop {
            let count = self.counts.entry(stem).or_default();
            let name = format!("{stem}_{count}");
            *count += 1;
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }
    /// The result of an operator; an empty name is an input that is left out.
    pub fn call(&mut self, op: &'static str, inputs: &[&str], attributes: Attributes) -> String {
        self.call_for(op, inputs, attributes, 1, 0)
    }
    /// One of several results of an operator.
    pub fn call_for(
        &mut self,
        op: &'static str,
        inputs: &[&str],
        attributes: Attributes,
        results: usize,
        which: usize,
    ) -> String {
        self.call_all(op, inputs, attributes, results).swap_remove(which)
    }
    /// All results of an operator.
    pub fn call_all(
        &mut self,
        op: &'static str,
        inputs: &[&str],
        attributes: Attributes,
        results: usize,
    ) -> Vec<String> {
        let outputs: Vec<String> = (0..results).map(|_| self.fresh(op)).collect();
        let mut inputs: Vec<String> = inputs.iter().map(|n| n.to_string()).collect();
        while inputs.last().is_some_and(|n| n.is_empty()) {
            inputs.pop();
        }
        self.nodes.push(Node { op, inputs, outputs: outputs.clone(), attributes });
        outputs
    }
    /// A stored tensor.
    pub fn store(&mut self, element: Element, dims: &[i64], bytes: Vec<u8>) -> String {
        let key = (bytes.len() <= SMALL).then(|| (element.number(), dims.to_vec(), bytes.clone()));
        if let Some(name) = key.as_ref().and_then(|k| self.known.get(k)) {
            return name.clone();
        }
        let name = self.fresh("constant");
        self.bytes += bytes.len();
        self.stored
            .push(Writer::new().ints(1, dims).int(2, element.number()).bytes(8, &name).bytes(9, bytes));
        if let Some(key) = key {
            self.known.insert(key, name.clone());
        }
        name
    }
    /// Stored integers: axes, sizes.
    pub fn ints(&mut self, values: &[i64]) -> String {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.store(Element::Int64, &[values.len() as i64], bytes)
    }
    /// Gives a value the name of an output; one that has such a name, is no result of a node, or is read in a graph inside is
    /// copied.
    pub fn output(&mut self, value: &str, name: &str) {
        let made = self.nodes.iter().any(|n| n.outputs.iter().any(|o| o == value));
        let renamed = self.renamed.get(value);
        if !made || renamed.is_some() || self.captured.contains(value) {
            let node = Node {
                op: "Identity",
                inputs: vec![renamed.cloned().unwrap_or_else(|| value.into())],
                outputs: vec![name.into()],
                attributes: vec![],
            };
            return self.nodes.push(node);
        }
        self.renamed.insert(value.into(), name.into());
        let names = self.nodes.iter_mut().flat_map(|n| n.inputs.iter_mut().chain(&mut n.outputs));
        names.filter(|n| *n == value).for_each(|n| *n = name.to_string());
    }
    /// A graph inside this one: it sees the values here, so none of its own has such a name.
    pub fn inside(&self) -> Graph {
        let (taken, counts, known) = (self.taken.clone(), self.counts.clone(), self.known.clone());
        Graph { taken, counts, known, ..Graph::default() }
    }
    /// A graph that was inside this one, as it stands in an attribute.
    pub fn close(&mut self, inner: Graph, inputs: Vec<Writer>, outputs: Vec<Writer>) -> Writer {
        self.taken.extend(inner.taken.iter().cloned());
        self.counts.extend(inner.counts.iter().map(|(stem, n)| (*stem, *n)));
        self.bytes += inner.bytes;
        self.captured.extend(inner.nodes.iter().flat_map(|n| n.inputs.iter().cloned()));
        self.captured.extend(inner.captured.iter().cloned());
        inner.message(inputs, outputs)
    }
    fn message(self, inputs: Vec<Writer>, outputs: Vec<Writer>) -> Writer {
        let node = |n: &Node| {
            let w = n.inputs.iter().fold(Writer::new(), |w, i| w.bytes(1, i));
            let w = n.outputs.iter().fold(w, |w, o| w.bytes(2, o));
            let w = n.outputs.first().map_or(w.clone(), |o| w.bytes(3, o)).bytes(4, n.op);
            n.attributes.iter().fold(w, |w, (name, a)| w.message(5, a.message(name)))
        };
        let graph = self.nodes.iter().fold(Writer::new(), |w, n| w.message(1, node(n))).bytes(2, "frit");
        let graph = self.stored.into_iter().fold(graph, |w, t| w.message(5, t));
        let graph = inputs.into_iter().fold(graph, |w, p| w.message(11, p));
        outputs.into_iter().fold(graph, |w, p| w.message(12, p))
    }
    /// The file.
    pub fn model(self, opset: i64, inputs: Vec<Writer>, outputs: Vec<Writer>) -> Result<Vec<u8>, String> {
        if self.bytes > i32::MAX as usize {
            return Err(format!("{} bytes of constants, a file has at most 2 GiB", self.bytes));
        }
        let graph = self.message(inputs, outputs);
        // the first version of the format that has these operators
        let format = if opset > 22 { 11 } else { 10 };
        let import = Writer::new().bytes(1, "").int(2, opset);
        let head = Writer::new().int(1, format).bytes(2, "frit").bytes(3, env!("CARGO_PKG_VERSION"));
        Ok(head.message(7, graph).message(8, import).into_bytes())
    }
}
