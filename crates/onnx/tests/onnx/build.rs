//! Models made in place: a node is a line.

use frit_onnx::wire::Writer;
use frit_onnx::{Element, Session, Value};
use frit_tensor::{Blob, Result, Tensor};

/// A model that grows line by line.
pub struct Model {
    graph: Writer,
    head: Writer,
}

/// An attribute's value.
pub enum Attr<'a> {
    Int(i64),
    Float(f32),
    Text(&'a str),
    Ints(&'a [i64]),
    Floats(&'a [f32]),
    Texts(&'a [&'a str]),
    Graph(Writer),
    /// The function's attribute of that name.
    Of(&'a str),
}

pub fn attribute(name: &str, v: Attr) -> Writer {
    let w = Writer::new().bytes(1, name);
    match v {
        Attr::Int(v) => w.int(3, v).int(20, 2),
        Attr::Float(v) => w.float(2, v).int(20, 1),
        Attr::Text(v) => w.bytes(4, v).int(20, 3),
        Attr::Ints(v) => w.ints(8, v).int(20, 7),
        Attr::Floats(v) => w.floats(7, v).int(20, 6),
        Attr::Texts(v) => v.iter().fold(w, |w, t| w.bytes(9, t)).int(20, 8),
        Attr::Graph(g) => w.message(6, g).int(20, 5),
        Attr::Of(other) => w.bytes(21, other).int(20, 1),
    }
}

/// `y = Op(a, b)`, with attributes.
pub fn node(line: &str, attributes: Vec<(&str, Attr)>) -> Writer {
    let (outs, call) = line.split_once('=').expect("outputs = call");
    let (op, ins) = call.trim().trim_end_matches(')').split_once('(').expect("an operator with inputs");
    let (domain, op) = op.rsplit_once('.').unwrap_or(("", op));
    let names = |list: &str| {
        list.split(',').map(|n| n.trim().to_string()).filter(|n| !n.is_empty()).collect::<Vec<_>>()
    };
    let w = names(ins).iter().fold(Writer::new(), |w, n| w.bytes(1, if n == "_" { "" } else { n }));
    let w = names(outs).iter().fold(w, |w, n| w.bytes(2, n));
    let w = w.bytes(3, format!("the {op}")).bytes(4, op).bytes(7, domain);
    attributes.into_iter().fold(w, |w, (n, v)| w.message(5, attribute(n, v)))
}

/// An input or output; a dim that is no number is a name.
pub fn port(name: &str, element: Element, dims: &[&str]) -> Writer {
    let dim = |d: &&str| match d.parse() {
        Ok(n) => Writer::new().int(1, n),
        Err(_) => Writer::new().bytes(2, d),
    };
    let shape = dims.iter().fold(Writer::new(), |w, d| w.message(1, dim(d)));
    let tensor = Writer::new().int(1, element.number()).message(2, shape);
    Writer::new().bytes(1, name).message(2, Writer::new().message(1, tensor))
}

/// A stored tensor with raw bytes.
pub fn stored(name: &str, element: Element, dims: &[i64], bytes: &[u8]) -> Writer {
    Writer::new().ints(1, dims).int(2, element.number()).bytes(8, name).bytes(9, bytes)
}

impl Model {
    /// With the operators of an opset.
    pub fn new(opset: i64) -> Model {
        let import = Writer::new().bytes(1, "").int(2, opset);
        Model { graph: Writer::new(), head: Writer::new().int(1, 8).message(8, import) }
    }
    pub fn import(mut self, domain: &str, version: i64) -> Model {
        self.head = self.head.message(8, Writer::new().bytes(1, domain).int(2, version));
        self
    }
    pub fn function(mut self, f: Writer) -> Model {
        self.head = self.head.message(25, f);
        self
    }
    pub fn input(mut self, name: &str, element: Element, dims: &[&str]) -> Model {
        self.graph = self.graph.message(11, port(name, element, dims));
        self
    }
    /// An input of a kind that is not declared.
    pub fn any_input(mut self, name: &str) -> Model {
        self.graph = self.graph.message(11, Writer::new().bytes(1, name));
        self
    }
    pub fn output(mut self, name: &str) -> Model {
        self.graph = self.graph.message(12, Writer::new().bytes(1, name));
        self
    }
    /// A value of a type and shape.
    pub fn value_info(mut self, name: &str, element: Element, dims: &[&str]) -> Model {
        self.graph = self.graph.message(13, port(name, element, dims));
        self
    }
    /// A value or output (13 or 12) of a type, of one dim.
    pub fn declared(mut self, field: u32, name: &str, element: Element) -> Model {
        self.graph = self.graph.message(field, port(name, element, &["7"]));
        self
    }
    pub fn node(self, line: &str) -> Model {
        self.node_with(line, vec![])
    }
    pub fn node_with(mut self, line: &str, attributes: Vec<(&str, Attr)>) -> Model {
        self.graph = self.graph.message(1, node(line, attributes));
        self
    }
    pub fn initializer(mut self, t: Writer) -> Model {
        self.graph = self.graph.message(5, t);
        self
    }
    pub fn bytes(self) -> Vec<u8> {
        self.head.message(7, self.graph).into_bytes()
    }
    pub fn load(self) -> Result<Session> {
        Session::from_blob(&Blob::new(self.bytes()))
    }
    /// What its outputs are for tensors by name.
    pub fn run(self, feeds: &[(&str, Tensor)]) -> Result<Vec<Value>> {
        self.load()?.run(feeds.iter().map(|(n, t)| (*n, Value::from(t.clone()))))
    }
    /// The numbers of its only output.
    pub fn floats(self, feeds: &[(&str, Tensor)]) -> Result<Vec<f32>> {
        self.run(feeds)?[0].tensor()?.float().to_vec()
    }
    /// The error that loading it, or else running it, ends with.
    pub fn error(self, feeds: &[(&str, Tensor)]) -> String {
        self.run(feeds).expect_err("an error").to_string()
    }
}
