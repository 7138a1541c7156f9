//! Operators whose meaning changed: each version by its own rules.

use crate::build::{Attr, Model, node, port, stored};
use frit_onnx::Element::{self, Float};
use frit_onnx::wire::Writer;
use frit_tensor::{DType, Result, Tensor};

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
fn squares_are_rounded_once() -> Result<()> {
    let x = Tensor::arange(4096).float().sin().realize()?;
    let m = Model::new(13).input("x", Float, &["4096"]).initializer(stored(
        "two",
        Float,
        &[],
        &2f32.to_le_bytes(),
    ));
    let got = m.node("y = Pow(x, two)").output("y").floats(&[("x", x.clone())])?;
    let want: Vec<f32> = x.to_vec::<f32>()?.into_iter().map(|v| v * v).collect();
    assert_eq!(got, want);
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
fn an_input_that_means_nothing_is_an_error() {
    let m = Model::new(11).any_input("x").any_input("axes").node("y = Squeeze(x, axes)").output("y");
    let said = m.error(&[("x", Tensor::zeros([1])), ("axes", Tensor::from_slice(&[0i64]))]);
    assert!(said.contains("at opset 11 it has no input 1 in Squeeze \"the Squeeze\""), "{said}");
}

#[test]
fn an_opset_that_is_not_known_yet_is_refused() {
    let said = unary(99, "Relu", vec![], &Tensor::zeros([1])).unwrap_err().to_string();
    assert!(said.contains("opset 99 is newer than 28"), "{said}");
}

/// An operator at an opset: its node, its inputs and stored inputs, and what must come out.
struct Case {
    opset: i64,
    line: &'static str,
    attributes: Vec<(&'static str, Attr<'static>)>,
    inputs: Vec<(&'static str, Tensor)>,
    ints: Vec<(&'static str, &'static [i64])>,
    floats: Vec<(&'static str, &'static [f32])>,
    dims: &'static [usize],
    wanted: Vec<f32>,
}

impl Case {
    fn op(&self) -> &str {
        self.line.split_once("= ").and_then(|(_, call)| call.split('(').next()).expect("outputs = Op(inputs)")
    }
    fn run(self) {
        let about = format!("{} at opset {}", self.line, self.opset);
        let mut m = Model::new(self.opset);
        for (name, x) in &self.inputs {
            let dims: Vec<String> = x.dims().expect("dims").iter().map(usize::to_string).collect();
            let dims: Vec<&str> = dims.iter().map(String::as_str).collect();
            let element = match x.dtype() {
                DType::Bool => Element::Bool,
                DType::I32 => Element::Int32,
                _ => Float,
            };
            m = m.input(name, element, &dims);
        }
        for (name, values) in &self.ints {
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            m = m.initializer(stored(name, Element::Int64, &[values.len() as i64], &bytes));
        }
        for (name, values) in &self.floats {
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            m = m.initializer(stored(name, Float, &[values.len() as i64], &bytes));
        }
        let out = m.node_with(self.line, self.attributes).output("y").run(&self.inputs);
        let out = out.unwrap_or_else(|e| panic!("{about}: {e}"));
        let y = out[0].tensor().expect("a tensor").float();
        assert_eq!(y.dims().expect("dims"), self.dims, "{about}");
        let got: Vec<f32> = y.to_vec().unwrap_or_else(|e| panic!("{about}: {e}"));
        let is_near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-6;
        assert!(
            got.len() == self.wanted.len() && got.iter().zip(&self.wanted).all(is_near),
            "{about}: {got:?}"
        );
    }
}

/// Two tensors, beside each other row by row where an attribute says so, or as numpy does.
fn pairs() -> Vec<Case> {
    let numbers = || vec![("a", Tensor::new([[8f32, 4.0], [2.0, 6.0]])), ("b", Tensor::new([2f32, 4.0]))];
    let whole = || vec![("a", Tensor::new([[2, 4], [4, 2]])), ("b", Tensor::new([2, 4]))];
    let truths =
        || vec![("a", Tensor::new([[true, false], [true, false]])), ("b", Tensor::new([true, false]))];
    type Inputs<'a> = &'a dyn Fn() -> Vec<(&'static str, Tensor)>;
    let all: [(&str, Inputs, [f32; 4], [f32; 4]); 11] = [
        ("y = Add(a, b)", &numbers, [10.0, 6.0, 6.0, 10.0], [10.0, 8.0, 4.0, 10.0]),
        ("y = Sub(a, b)", &numbers, [6.0, 2.0, -2.0, 2.0], [6.0, 0.0, 0.0, 2.0]),
        ("y = Mul(a, b)", &numbers, [16.0, 8.0, 8.0, 24.0], [16.0, 16.0, 4.0, 24.0]),
        ("y = Div(a, b)", &numbers, [4.0, 2.0, 0.5, 1.5], [4.0, 1.0, 1.0, 1.5]),
        ("y = Pow(a, b)", &numbers, [64.0, 16.0, 16.0, 1296.0], [64.0, 256.0, 4.0, 1296.0]),
        ("y = Greater(a, b)", &numbers, [1.0, 1.0, 0.0, 1.0], [1.0, 0.0, 0.0, 1.0]),
        ("y = Less(a, b)", &numbers, [0.0, 0.0, 1.0, 0.0], [0.0; 4]),
        ("y = Equal(a, b)", &whole, [1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0]),
        ("y = And(a, b)", &truths, [1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0]),
        ("y = Or(a, b)", &truths, [1.0, 1.0, 1.0, 0.0], [1.0, 0.0, 1.0, 0.0]),
        ("y = Xor(a, b)", &truths, [0.0, 1.0, 1.0, 0.0], [0.0; 4]),
    ];
    let case = |opset, line, attributes, inputs: Inputs, wanted: [f32; 4]| Case {
        opset,
        line,
        attributes,
        inputs: inputs(),
        ints: vec![],
        floats: vec![],
        dims: &[2, 2],
        wanted: wanted.to_vec(),
    };
    let each = all.into_iter().flat_map(|(line, inputs, by_rows, by_columns)| {
        let rows = vec![("broadcast", Attr::Int(1)), ("axis", Attr::Int(0))];
        [case(6, line, rows, inputs, by_rows), case(7, line, vec![], inputs, by_columns)]
    });
    each.collect()
}

/// Every other operator whose meaning changed, at an opset of each of its rows.
fn changed() -> Vec<Case> {
    let case = |opset, line, attributes, x: Tensor, dims, wanted: &[f32]| Case {
        opset,
        line,
        attributes,
        inputs: vec![("x", x)],
        ints: vec![],
        floats: vec![],
        dims,
        wanted: wanted.to_vec(),
    };
    let with_ints = |ints, case: Case| Case { ints, ..case };
    let with_floats = |floats, case: Case| Case { floats, ..case };
    let row = || Tensor::new([[-3f32, 5.0]]);
    let channels = || Tensor::new([[[1f32, 2.0], [3.0, 4.0]]]);
    let flat = || Tensor::zeros([1, 2, 2]);
    let pixels = || Tensor::new([[[[1f32, 2.0]]]]);
    let normed = |mut rest: Vec<(&'static str, Attr<'static>)>| {
        rest.push(("epsilon", Attr::Float(0.0)));
        rest
    };
    let stats = || vec![("s", &[1f32, 2.0][..]), ("b", &[0.0, 1.0]), ("m", &[1.0, 3.0]), ("v", &[1.0, 4.0])];
    let batch = "y = BatchNormalization(x, s, b, m, v)";
    let group = "y = GroupNormalization(x, s, b)";
    let one_group = || normed(vec![("num_groups", Attr::Int(1))]);
    let tall = || Tensor::new([[[1f32], [3.0]]]);
    let body = || {
        let nodes = Writer::new()
            .message(1, node("t = Add(s, r)", vec![]))
            .message(1, node("u = Identity(t)", vec![]));
        let ins = nodes.message(11, port("s", Float, &["1"])).message(11, port("r", Float, &["1"]));
        ins.message(12, port("t", Float, &["1"])).message(12, port("u", Float, &["1"]))
    };
    let scan = || vec![("num_scan_inputs", Attr::Int(1)), ("body", Attr::Graph(body()))];
    let (ln2, ln4) = (2f32.ln(), 4f32.ln());
    vec![
        with_floats(
            stats(),
            case(
                6,
                batch,
                normed(vec![("is_test", Attr::Int(1))]),
                channels(),
                &[1, 2, 2],
                &[0.0, 1.0, 1.0, 2.0],
            ),
        ),
        with_floats(stats(), case(7, batch, normed(vec![]), channels(), &[1, 2, 2], &[0.0, 1.0, 1.0, 2.0])),
        with_floats(stats(), case(14, batch, normed(vec![]), channels(), &[1, 2, 2], &[0.0, 1.0, 1.0, 2.0])),
        case(
            5,
            "y = Cast(x)",
            vec![("to", Attr::Text("INT32"))],
            Tensor::new([1.7f32, -1.7]),
            &[2],
            &[1.0, -1.0],
        ),
        case(6, "y = Cast(x)", vec![("to", Attr::Int(6))], Tensor::new([1.7f32, -1.7]), &[2], &[1.0, -1.0]),
        case(6, "y = Clip(x)", vec![("max", Attr::Float(2.0))], row(), &[1, 2], &[-3.0, 2.0]),
        with_floats(
            vec![("most", &[2.0])],
            case(11, "y = Clip(x, _, most)", vec![], row(), &[1, 2], &[-3.0, 2.0]),
        ),
        case(3, "y = Concat(x, x)", vec![], row(), &[1, 4], &[-3.0, 5.0, -3.0, 5.0]),
        case(4, "y = Concat(x, x)", vec![("axis", Attr::Int(0))], row(), &[2, 2], &[-3.0, 5.0, -3.0, 5.0]),
        case(17, "y = DFT(x)", vec![("axis", Attr::Int(1))], tall(), &[1, 2, 2], &[4.0, 0.0, -2.0, 0.0]),
        case(20, "y = DFT(x)", vec![], tall(), &[1, 2, 2], &[4.0, 0.0, -2.0, 0.0]),
        case(
            6,
            "y = Dropout(x)",
            vec![("is_test", Attr::Int(1)), ("ratio", Attr::Float(0.9))],
            row(),
            &[1, 2],
            &[-3.0, 5.0],
        ),
        case(7, "y = Dropout(x)", vec![("ratio", Attr::Float(0.9))], row(), &[1, 2], &[-3.0, 5.0]),
        with_floats(
            vec![("ratio", &[0.9])],
            case(12, "y = Dropout(x, ratio)", vec![], row(), &[1, 2], &[-3.0, 5.0]),
        ),
        with_floats(
            vec![("s", &[2.0]), ("b", &[1.0])],
            case(18, group, one_group(), tall(), &[1, 2, 1], &[-1.0, 3.0]),
        ),
        with_floats(
            vec![("s", &[2.0, 4.0]), ("b", &[1.0, 0.0])],
            case(21, group, one_group(), tall(), &[1, 2, 1], &[-1.0, 4.0]),
        ),
        case(11, "y = Hardmax(x)", vec![], flat(), &[1, 2, 2], &[1.0, 0.0, 0.0, 0.0]),
        case(13, "y = Hardmax(x)", vec![], flat(), &[1, 2, 2], &[1.0, 0.0, 1.0, 0.0]),
        case(11, "y = LogSoftmax(x)", vec![], flat(), &[1, 2, 2], &[-ln4; 4]),
        case(13, "y = LogSoftmax(x)", vec![], flat(), &[1, 2, 2], &[-ln2; 4]),
        case(
            1,
            "y = Pad(x)",
            vec![("paddings", Attr::Ints(&[0, 1, 0, 0])), ("value", Attr::Float(9.0))],
            row(),
            &[1, 3],
            &[9.0, -3.0, 5.0],
        ),
        case(
            2,
            "y = Pad(x)",
            vec![("pads", Attr::Ints(&[0, 1, 0, 0])), ("value", Attr::Float(9.0))],
            row(),
            &[1, 3],
            &[9.0, -3.0, 5.0],
        ),
        with_ints(
            vec![("pads", &[0, 1, 0, 0])],
            case(11, "y = Pad(x, pads)", vec![], row(), &[1, 3], &[0.0, -3.0, 5.0]),
        ),
        case(4, "y = Reshape(x)", vec![("shape", Attr::Ints(&[2, -1]))], row(), &[2, 1], &[-3.0, 5.0]),
        with_ints(
            vec![("shape", &[2, -1])],
            case(5, "y = Reshape(x, shape)", vec![], row(), &[2, 1], &[-3.0, 5.0]),
        ),
        with_floats(
            vec![("scales", &[1.0, 1.0, 1.0, 2.0])],
            case(
                10,
                "y = Resize(x, scales)",
                vec![("mode", Attr::Text("linear"))],
                pixels(),
                &[1, 1, 1, 4],
                &[1.0, 1.5, 2.0, 2.0],
            ),
        ),
        with_floats(
            vec![("scales", &[1.0, 1.0, 1.0, 2.0])],
            case(
                11,
                "y = Resize(x, _, scales)",
                vec![("mode", Attr::Text("linear"))],
                pixels(),
                &[1, 1, 1, 4],
                &[1.0, 1.25, 1.75, 2.0],
            ),
        ),
        // batches have a dim of their own, and lengths come first
        Case {
            inputs: vec![("i", Tensor::new([[10f32]])), ("x", Tensor::new([[[1f32], [2.0]]]))],
            ..case(8, "w, y = Scan(_, i, x)", scan(), row(), &[1, 2, 1], &[11.0, 13.0])
        },
        with_floats(
            vec![("i", &[10.0])],
            case(9, "w, y = Scan(i, x)", scan(), Tensor::new([[1f32], [2.0]]), &[2, 1], &[11.0, 13.0]),
        ),
        case(
            9,
            "y = Slice(x)",
            vec![("starts", Attr::Ints(&[1])), ("ends", Attr::Ints(&[9])), ("axes", Attr::Ints(&[1]))],
            row(),
            &[1, 1],
            &[5.0],
        ),
        with_ints(
            vec![("from", &[1]), ("to", &[-9]), ("axes", &[1]), ("steps", &[-1])],
            case(10, "y = Slice(x, from, to, axes, steps)", vec![], row(), &[1, 2], &[5.0, -3.0]),
        ),
        case(11, "y = Softmax(x)", vec![], flat(), &[1, 2, 2], &[0.25; 4]),
        case(13, "y = Softmax(x)", vec![], flat(), &[1, 2, 2], &[0.5; 4]),
        case(
            11,
            "w, y = Split(x)",
            vec![("axis", Attr::Int(1)), ("split", Attr::Ints(&[1, 1]))],
            row(),
            &[1, 1],
            &[5.0],
        ),
        with_ints(
            vec![("parts", &[1, 1])],
            case(13, "w, y = Split(x, parts)", vec![("axis", Attr::Int(1))], row(), &[1, 1], &[5.0]),
        ),
        case(11, "y = Squeeze(x)", vec![("axes", Attr::Ints(&[0]))], row(), &[2], &[-3.0, 5.0]),
        with_ints(vec![("axes", &[0])], case(13, "y = Squeeze(x, axes)", vec![], row(), &[2], &[-3.0, 5.0])),
        with_floats(
            vec![("count", &[2.0]), ("axis", &[0.0])],
            case(1, "y = Tile(x, count, axis)", vec![], row(), &[2, 2], &[-3.0, 5.0, -3.0, 5.0]),
        ),
        with_ints(
            vec![("repeats", &[2, 1])],
            case(6, "y = Tile(x, repeats)", vec![], row(), &[2, 2], &[-3.0, 5.0, -3.0, 5.0]),
        ),
        case(9, "y, w = TopK(x)", vec![("k", Attr::Int(1))], row(), &[1, 1], &[5.0]),
        with_ints(vec![("k", &[1])], case(10, "y, w = TopK(x, k)", vec![], row(), &[1, 1], &[5.0])),
        case(11, "y = Unsqueeze(x)", vec![("axes", Attr::Ints(&[0, 3]))], row(), &[1, 1, 2, 1], &[-3.0, 5.0]),
        with_ints(
            vec![("axes", &[0, 3])],
            case(13, "y = Unsqueeze(x, axes)", vec![], row(), &[1, 1, 2, 1], &[-3.0, 5.0]),
        ),
        case(
            1,
            "y = Upsample(x)",
            vec![("height_scale", Attr::Float(1.0)), ("width_scale", Attr::Float(2.0))],
            pixels(),
            &[1, 1, 1, 4],
            &[1.0, 1.0, 2.0, 2.0],
        ),
        case(
            7,
            "y = Upsample(x)",
            vec![("scales", Attr::Floats(&[1.0, 1.0, 1.0, 2.0]))],
            pixels(),
            &[1, 1, 1, 4],
            &[1.0, 1.0, 2.0, 2.0],
        ),
        with_floats(
            vec![("scales", &[1.0, 1.0, 1.0, 2.0])],
            case(
                9,
                "y = Upsample(x, scales)",
                vec![("mode", Attr::Text("linear"))],
                pixels(),
                &[1, 1, 1, 4],
                &[1.0, 1.5, 2.0, 2.0],
            ),
        ),
    ]
}

#[test]
fn every_row_of_an_operator_that_changed_is_right_at_its_opset() {
    let cases: Vec<Case> = pairs().into_iter().chain(changed()).collect();
    // a row holds until the next one of its name does
    let rows: Vec<(&str, i64)> =
        frit_onnx::operators().filter(|o| o.0.is_empty()).map(|(_, name, since)| (name, since)).collect();
    let of = |name: &str| rows.iter().filter(move |r| r.0 == name).map(|r| r.1).collect::<Vec<_>>();
    for (name, since) in &rows {
        let versions = of(name);
        let until = versions.iter().copied().filter(|v| v > since).min().unwrap_or(i64::MAX);
        let is_tested = |c: &Case| c.op() == *name && (*since..until).contains(&c.opset);
        assert!(versions.len() == 1 || cases.iter().any(is_tested), "{name} since {since} has no case");
    }
    cases.into_iter().for_each(Case::run);
}
