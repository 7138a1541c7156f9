//! Loops and scans: steps of any number, forwards and backwards, with bodies that need data.

use crate::build::{Attr, Model, node, port};
use frit_onnx::Element::{Bool, Float, Int64};
use frit_onnx::wire::Writer;
use frit_onnx::{Session, Value};
use frit_tensor::{DType, Result, Tensor};

fn graph(inputs: &[(&str, &[&str])], nodes: Vec<Writer>, outputs: &[&str]) -> Writer {
    let g = inputs.iter().fold(Writer::new(), |g, (name, dims)| g.message(11, port(name, Float, dims)));
    let g = nodes.into_iter().fold(g, |g, n| g.message(1, n));
    outputs.iter().fold(g, |g, name| g.message(12, Writer::new().bytes(1, name)))
}
/// Running sums.
fn sums() -> Attr<'static> {
    let nodes = vec![node("t = Add(s, r)", vec![]), node("u = Identity(t)", vec![])];
    Attr::Graph(graph(&[("s", &["2"]), ("r", &["2"])], nodes, &["t", "u"]))
}
fn run(s: &Session, feeds: &[(&str, &Tensor)]) -> Result<Vec<Vec<f32>>> {
    let outs = s.run(feeds.iter().map(|(n, t)| (*n, Value::from((*t).clone()))))?;
    outs.iter().map(|v| v.tensor()?.float().to_vec()).collect()
}

#[test]
fn a_scan_takes_any_length_of_a_name() -> Result<()> {
    let m = Model::new(16).input("i", Float, &["2"]).input("x", Float, &["n", "2"]);
    let m = m.node_with("a, b = Scan(i, x)", vec![("body", sums()), ("num_scan_inputs", Attr::Int(1))]);
    let s = m.output("a").output("b").load()?;
    for n in [3, 3, 5, 4, 1, 7, 0] {
        let outs = run(&s, &[("i", &Tensor::new([1.0, 2.0])), ("x", &Tensor::ones([n, 2]))])?;
        assert_eq!(outs[0], [1.0 + n as f32, 2.0 + n as f32], "{n} steps");
        let all: Vec<f32> = (1..=n).flat_map(|k| [1.0 + k as f32, 2.0 + k as f32]).collect();
        assert_eq!(outs[1], all, "{n} steps");
    }
    Ok(())
}

/// In opset 8 samples have lengths of their own; what onnxruntime makes of it.
#[test]
fn the_first_scan_has_lengths_and_directions() -> Result<()> {
    let model = |lengths: &str, directions: Option<&'static [i64]>| {
        let m = Model::new(8).input("i", Float, &["2", "1"]).input("x", Float, &["2", "3", "1"]);
        let nodes = vec![node("t = Add(s, r)", vec![]), node("u = Identity(t)", vec![])];
        let body = Attr::Graph(graph(&[("s", &["1"]), ("r", &["1"])], nodes, &["t", "u"]));
        let more = directions.map(|d| ("directions", Attr::Ints(d)));
        let attributes = [("body", body), ("num_scan_inputs", Attr::Int(1))].into_iter().chain(more);
        let m = if lengths == "_" { m } else { m.input("l", Int64, &["2"]) };
        let line = format!("a, b = Scan({lengths}, i, x)");
        m.node_with(&line, attributes.collect()).output("a").output("b").load()
    };
    let (i, x) = (Tensor::new([[10.0], [20.0]]), Tensor::arange(6).float().reshape([2, 3, 1]));
    let back = run(&model("_", Some(&[1]))?, &[("i", &i), ("x", &x)])?;
    assert_eq!(back, [vec![13.0, 32.0], vec![12.0, 13.0, 13.0, 25.0, 29.0, 32.0]]);
    let lengths = Tensor::from_slice(&[2i64, 3]);
    let some = run(&model("l", None)?, &[("i", &i), ("x", &x), ("l", &lengths)])?;
    assert_eq!(some, [vec![11.0, 32.0], vec![10.0, 11.0, 0.0, 23.0, 27.0, 32.0]]);
    Ok(())
}

#[test]
fn a_loop_of_no_steps_stacks_nothing_of_its_type() -> Result<()> {
    let body = graph(&[], vec![], &[])
        .message(11, port("i", Int64, &[]))
        .message(11, port("go", Bool, &[]))
        .message(11, port("v", Float, &["2"]))
        .message(1, node("w = Add(v, v)", vec![]))
        .message(1, node("on = Identity(go)", vec![]))
        .message(1, node("k = Cast(v)", vec![("to", Attr::Int(7))]));
    let body = ["on", "w", "k"].iter().fold(body, |g, name| g.message(12, Writer::new().bytes(1, name)));
    let m = Model::new(16).input("n", Int64, &[]).input("v", Float, &["2"]);
    let m = m.node_with("last, all = Loop(n, _, v)", vec![("body", Attr::Graph(body))]);
    let outs = m
        .output("last")
        .output("all")
        .run(&[("n", Tensor::full_dtype((), 0, DType::I64)), ("v", Tensor::new([1.0, 2.0]))])?;
    assert_eq!(outs[0].tensor()?.to_vec::<f32>()?, [1.0, 2.0]);
    assert_eq!((outs[1].dims()?, outs[1].tensor()?.dtype()), (vec![0, 2], DType::I64));
    Ok(())
}

/// A branch that data decides, a loop, and a size that data decides are steps on the host.
#[test]
fn a_scan_s_body_may_need_data() -> Result<()> {
    let branch = |line: &str| Attr::Graph(graph(&[], vec![node(line, vec![])], &["z"]));
    let decided = vec![
        node("q = ReduceSum(r)", vec![("keepdims", Attr::Int(0))]),
        node("g = Greater(q, zero)", vec![]),
        node(
            "h = If(g)",
            vec![("then_branch", branch("z = Neg(r)")), ("else_branch", branch("z = Mul(r, r)"))],
        ),
        node("t = Add(s, h)", vec![]),
        node("u = Identity(t)", vec![]),
    ];
    let counted = vec![
        node("nz = NonZero(r)", vec![]),
        node("f = Cast(nz)", vec![("to", Attr::Int(1))]),
        node("h = ReduceSum(f)", vec![("keepdims", Attr::Int(0))]),
        node("t = Add(s, h)", vec![]),
        node("u = Identity(t)", vec![]),
    ];
    let inner = graph(&[], vec![], &[])
        .message(11, port("j", Int64, &[]))
        .message(11, port("go", Bool, &[]))
        .message(11, port("v", Float, &["2"]))
        .message(1, node("w = Add(v, v)", vec![]))
        .message(1, node("on = Identity(go)", vec![]));
    let inner = ["on", "w"].iter().fold(inner, |g, name| g.message(12, Writer::new().bytes(1, name)));
    let looped = vec![
        node("h = Loop(three, _, r)", vec![("body", Attr::Graph(inner))]),
        node("t = Add(s, h)", vec![]),
        node("u = Identity(t)", vec![]),
    ];
    let x = Tensor::new([[1.0, 0.0], [-2.0, 1.0], [0.0, 3.0]]);
    let cases: [(Vec<Writer>, [f32; 6]); 3] = [
        (decided, [-1.0, 0.0, 3.0, 1.0, 3.0, -2.0]),
        (counted, [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]),
        (looped, [8.0, 0.0, -8.0, 8.0, -8.0, 32.0]),
    ];
    for (nodes, want) in cases {
        let body = graph(&[("s", &["2"]), ("r", &["2"])], nodes, &["t", "u"]);
        let m = Model::new(16).input("i", Float, &["2"]).input("x", Float, &["n", "2"]);
        let m = m.input("zero", Float, &[]).input("three", Int64, &[]);
        let attributes = vec![("body", Attr::Graph(body)), ("num_scan_inputs", Attr::Int(1))];
        let s = m.node_with("a, b = Scan(i, x)", attributes).output("b").load()?;
        let (zero, three) = (Tensor::full((), 0.0), Tensor::full_dtype((), 3, DType::I64));
        for _ in 0..3 {
            let feeds = [("i", &Tensor::zeros([2])), ("x", &x), ("zero", &zero), ("three", &three)];
            assert_eq!(run(&s, &feeds)?[0], want);
        }
    }
    Ok(())
}
