//! Operators whose meaning changed: each version by its own rules.

use crate::build::{Attr, Model};
use frit_onnx::Element::Float;
use frit_tensor::{Result, Tensor};

fn unary(opset: i64, op: &str, attributes: Vec<(&str, Attr)>, x: &Tensor) -> Result<Vec<f32>> {
    let dims: Vec<String> = x.dims()?.iter().map(usize::to_string).collect();
    let dims: Vec<&str> = dims.iter().map(String::as_str).collect();
    let m = Model::new(opset).input("x", Float, &dims);
    m.node_with(&format!("y = {op}(x)"), attributes).output("y").floats(&[("x", x.clone())])
}

#[test]
fn softmax_was_over_all_dims_from_the_axis_on() -> Result<()> {
    let x = Tensor::zeros([1, 2, 2]);
    assert_eq!(unary(11, "Softmax", vec![], &x)?, [0.25; 4]);
    assert_eq!(unary(13, "Softmax", vec![], &x)?, [0.5; 4]);
    assert_eq!(unary(11, "Hardmax", vec![], &x)?, [1.0, 0.0, 0.0, 0.0]);
    assert_eq!(unary(13, "Hardmax", vec![], &x)?, [1.0, 0.0, 1.0, 0.0]);
    Ok(())
}

#[test]
fn limits_and_axes_were_attributes() -> Result<()> {
    let x = Tensor::new([[-3.0, 5.0]]);
    assert_eq!(
        unary(6, "Clip", vec![("min", Attr::Float(-1.0)), ("max", Attr::Float(2.0))], &x)?,
        [-1.0, 2.0]
    );
    assert_eq!(unary(11, "Squeeze", vec![("axes", Attr::Ints(&[0]))], &x)?, [-3.0, 5.0]);
    assert_eq!(unary(11, "ReduceSum", vec![("axes", Attr::Ints(&[1]))], &x)?, [2.0]);
    let pads = vec![("pads", Attr::Ints(&[0, 1, 0, 0])), ("value", Attr::Float(9.0))];
    assert_eq!(unary(2, "Pad", pads, &x)?, [9.0, -3.0, 5.0]);
    let cut = vec![("starts", Attr::Ints(&[1])), ("ends", Attr::Ints(&[2])), ("axes", Attr::Ints(&[1]))];
    assert_eq!(unary(9, "Slice", cut, &x)?, [5.0]);
    let scales = vec![("scales", Attr::Ints(&[])), ("mode", Attr::Text("nearest"))];
    assert!(unary(7, "Upsample", scales, &x).is_err());
    Ok(())
}

#[test]
fn operands_were_only_broadcast_where_it_was_asked_for() -> Result<()> {
    let model = |opset, attributes| {
        let m = Model::new(opset).input("a", Float, &["2", "2"]).input("b", Float, &["2"]);
        m.node_with("y = Add(a, b)", attributes).output("y")
    };
    let feeds = [("a", Tensor::zeros([2, 2])), ("b", Tensor::new([1.0, 2.0]))];
    assert!(model(6, vec![]).error(&feeds).contains("broadcast is not set"));
    let along = |axis| vec![("broadcast", Attr::Int(1)), ("axis", Attr::Int(axis))];
    assert_eq!(model(6, along(0)).floats(&feeds)?, [1.0, 1.0, 2.0, 2.0]);
    assert_eq!(model(6, along(1)).floats(&feeds)?, [1.0, 2.0, 1.0, 2.0]);
    assert_eq!(model(7, vec![]).floats(&feeds)?, [1.0, 2.0, 1.0, 2.0]);
    Ok(())
}

#[test]
fn an_attribute_that_means_nothing_is_an_error() {
    let said =
        unary(13, "Relu", vec![("slope", Attr::Float(0.1))], &Tensor::zeros([1])).unwrap_err().to_string();
    assert!(said.contains("at opset 13 it has no attribute \"slope\" in Relu \"the Relu\""), "{said}");
}

#[test]
fn an_opset_that_is_not_known_yet_is_refused() {
    let said = unary(99, "Relu", vec![], &Tensor::zeros([1])).unwrap_err().to_string();
    assert!(said.contains("opset 99 is newer than 28"), "{said}");
}
