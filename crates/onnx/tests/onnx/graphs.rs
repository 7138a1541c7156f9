//! Functions, graphs inside graphs, values that are no tensors.

use crate::build::{Attr, Model, attribute, node, port, stored};
use frit_onnx::Element::{Bool, Float, Int64};
use frit_onnx::wire::Writer;
use frit_onnx::{Image, Key, Strings, Value};
use frit_tensor::{Error, Result, Tensor};

#[test]
fn a_function_takes_attributes_and_its_defaults() -> Result<()> {
    let scaled = || {
        Writer::new()
            .bytes(1, "Leaky")
            .bytes(4, "x")
            .bytes(5, "y")
            .message(11, attribute("slope", Attr::Float(0.5)))
            .message(7, node("y = LeakyRelu(x)", vec![("alpha", Attr::Of("slope"))]))
            .message(9, Writer::new().int(2, 16))
            .bytes(10, "mine")
    };
    let model = |attributes| {
        let m = Model::new(16).import("mine", 1).function(scaled()).input("x", Float, &["2"]);
        m.node_with("y = mine.Leaky(x)", attributes).output("y")
    };
    let x = Tensor::new([-4.0, 2.0]);
    assert_eq!(model(vec![]).floats(&[("x", x.clone())])?, [-2.0, 2.0]);
    assert_eq!(model(vec![("slope", Attr::Float(0.25))]).floats(&[("x", x)])?, [-1.0, 2.0]);
    Ok(())
}

#[test]
fn branches_see_the_values_around_them() -> Result<()> {
    let branch =
        |line: &str| Writer::new().message(1, node(line, vec![])).message(12, Writer::new().bytes(1, "z"));
    let model = || {
        let both = vec![
            ("then_branch", Attr::Graph(branch("z = Add(x, x)"))),
            ("else_branch", Attr::Graph(branch("z = Neg(x)"))),
        ];
        let m = Model::new(16).input("on", Bool, &[]).input("x", Float, &["n"]);
        m.node_with("y = If(on)", both).output("y")
    };
    let x = Tensor::new([1.0, 2.0]);
    assert_eq!(model().floats(&[("on", Tensor::full((), true)), ("x", x.clone())])?, [2.0, 4.0]);
    assert_eq!(model().floats(&[("on", Tensor::full((), false)), ("x", x)])?, [-1.0, -2.0]);
    Ok(())
}

#[test]
fn a_loop_ends_by_its_count_or_its_condition() -> Result<()> {
    // doubles until it is over a limit that is outside
    let body = Writer::new()
        .message(11, port("i", Int64, &[]))
        .message(11, port("go", Bool, &[]))
        .message(11, port("v", Float, &[]))
        .message(1, node("w = Add(v, v)", vec![]))
        .message(1, node("on = Less(w, limit)", vec![]))
        .message(1, node("seen = Identity(w)", vec![]))
        .message(12, Writer::new().bytes(1, "on"))
        .message(12, Writer::new().bytes(1, "w"))
        .message(12, Writer::new().bytes(1, "seen"));
    let model = || {
        let m = Model::new(16).input("n", Int64, &[]).input("v", Float, &[]).input("limit", Float, &[]);
        m.node_with("last, all = Loop(n, _, v)", vec![("body", Attr::Graph(body.clone()))]).output("all")
    };
    let feeds = |n: i64| {
        let n = Tensor::full_dtype((), n, frit_tensor::DType::I64);
        [("n", n), ("v", Tensor::full((), 1.0)), ("limit", Tensor::full((), 10.0))]
    };
    assert_eq!(model().floats(&feeds(100))?, [2.0, 4.0, 8.0, 16.0]);
    assert_eq!(model().floats(&feeds(2))?, [2.0, 4.0]);
    Ok(())
}

#[test]
fn inputs_are_checked_by_name_type_and_shape() {
    let model = || Model::new(16).input("x", Float, &["n", "3"]).node("y = Relu(x)").output("y");
    let said = model().error(&[]);
    assert!(said.starts_with("onnx: no value for x"), "{said}");
    let said = model().error(&[("z", Tensor::zeros([1, 3]))]);
    assert!(said.starts_with("onnx: no input \"z\", the model has x"), "{said}");
    let said = model().error(&[("x", Tensor::zeros([2, 4]))]);
    assert!(said.starts_with("onnx: input \"x\" is [n, 3], not [2, 4]"), "{said}");
    let said = model().error(&[("x", Tensor::full([1, 3], 1))]);
    assert!(said.starts_with("onnx: input \"x\" is float, not int32"), "{said}");
}

#[test]
fn an_input_with_a_value_may_be_given_another_in_any_run() -> Result<()> {
    let bytes = |v: &[f32]| v.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    // as files of old versions have it: weights are inputs too
    let session = Model::new(13)
        .input("x", Float, &["32"])
        .input("w", Float, &["32"])
        .initializer(stored("w", Float, &[32], &bytes(&[4.0; 32])))
        .node("root = Sqrt(w)")
        .node("y = Mul(x, root)")
        .output("y")
        .load()?;
    let run = |w: Option<f32>| -> Result<f32> {
        let feeds = [("x", Some(3.0)), ("w", w)];
        let feeds = feeds.into_iter().filter_map(|(n, v)| Some((n, Value::from(Tensor::full([32], v?)))));
        session.run(feeds)?[0].tensor()?.max(..).item::<f32>()
    };
    for _ in 0..4 {
        assert_eq!((run(None)?, run(Some(25.0))?, run(Some(9.0))?), (6.0, 15.0, 9.0));
    }
    Ok(())
}

#[test]
fn scores_become_maps_and_maps_rows() {
    let scores = Tensor::new([[0.25f32, 0.75], [0.5, 0.5]]);
    let labels = Attr::Texts(&["a", "b"]);
    let m = Model::new(17).import("ai.onnx.ml", 3).input("x", Float, &["n", "2"]).output("y");
    let m = m.node_with("y = ai.onnx.ml.ZipMap(x)", vec![("classlabels_strings", labels)]);
    let outs = m.run(&[("x", scores)]).unwrap();
    let Value::Sequence(rows) = &outs[0] else { panic!("{outs:?}") };
    let Value::Map(row) = &rows[0] else { panic!("{rows:?}") };
    let got: Vec<_> =
        row.iter().map(|(k, v)| (k.clone(), v.tensor().unwrap().item::<f32>().unwrap())).collect();
    assert_eq!(got, [(Key::Text("a".into()), 0.25), (Key::Text("b".into()), 0.75)]);

    let vocabulary = Attr::Texts(&["b", "c", "a"]);
    let m = Model::new(17).import("ai.onnx.ml", 3).any_input("x").output("y");
    let m = m.node_with("y = ai.onnx.ml.DictVectorizer(x)", vec![("string_vocabulary", vocabulary)]);
    let outs = m.load().unwrap().run([("x", rows[0].clone())]).unwrap();
    assert_eq!(outs[0].tensor().unwrap().to_vec::<f32>().unwrap(), [0.75, 0.0, 0.25]);

    let numbered = [(Key::Int(2), 1.5f32), (Key::Int(0), -2.0)].map(|(k, v)| (k, Tensor::new(v).into()));
    let map = Value::Map(numbered.into_iter().collect());
    for (form, want) in [("DENSE", vec![-2.0, 1.5]), ("SPARSE", vec![-2.0, 0.0, 1.5, 0.0])] {
        let m = Model::new(17).import("ai.onnx.ml", 3).any_input("x").output("y");
        let attributes = vec![("map_form", Attr::Text(form)), ("max_map", Attr::Int(4))];
        let outs = m.node_with("y = ai.onnx.ml.CastMap(x)", attributes).load().unwrap();
        let outs = outs.run([("x", map.clone())]).unwrap();
        assert_eq!(outs[0].tensor().unwrap().to_vec::<f32>().unwrap(), want);
    }
}

#[test]
fn categories_are_mapped_both_ways() {
    let table = || vec![("cats_strings", Attr::Texts(&["x", "y"])), ("cats_int64s", Attr::Ints(&[5, 6]))];
    let m = || Model::new(17).import("ai.onnx.ml", 3).any_input("x").output("y");
    let texts = Value::Strings(Strings::new(vec![3], ["y", "z", "x"].map(String::from).to_vec()));
    let to = m().node_with("y = ai.onnx.ml.CategoryMapper(x)", table()).load().unwrap();
    assert_eq!(to.run([("x", texts)]).unwrap()[0].ints().unwrap(), [6, -1, 5]);
    let back = m().node_with("y = ai.onnx.ml.CategoryMapper(x)", table()).load().unwrap();
    let outs = back.run([("x", Tensor::new([6i64, 7, 5]).long().into())]).unwrap();
    let Value::Strings(got) = &outs[0] else { panic!("{outs:?}") };
    assert_eq!(*got.texts, ["y", "_Unused", "x"].map(String::from));
}

#[test]
fn packed_queries_keys_and_values_are_those_apart() -> Result<()> {
    let attention = |line: &str, names: &[&str]| {
        let m = names.iter().fold(Model::new(17).import("com.microsoft", 1), |m, n| m.any_input(n));
        m.output("y").node_with(line, vec![("num_heads", Attr::Int(3))])
    };
    let all = Tensor::randn([2, 4, 3, 3, 8]).realize()?;
    let part = |i: i64| all.select(3, i).reshape([2, 4, 24]);
    let apart = [("q", part(0)), ("k", part(1)), ("v", part(2))];
    let want = attention("y = com.microsoft.MultiHeadAttention(q, k, v)", &["q", "k", "v"]).floats(&apart)?;
    let one = attention("y = com.microsoft.MultiHeadAttention(q)", &["q"]).floats(&[("q", all.clone())])?;
    // other layouts are summed in another order
    let near = |got: &[f32]| got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-5);
    assert!(one.len() == want.len() && near(&one), "{one:?} is not {want:?}");
    let two = [("q", part(0)), ("k", all.narrow(3, 1, 2))];
    let two = attention("y = com.microsoft.MultiHeadAttention(q, k)", &["q", "k"]).floats(&two)?;
    assert!(two.len() == want.len() && near(&two), "{two:?} is not {want:?}");
    Ok(())
}

#[test]
fn texts_are_sorted_put_and_joined() -> Result<()> {
    let texts = |dims: &[usize], all: &[&str]| {
        Value::from(Strings::new(dims.to_vec(), all.iter().map(|t| t.to_string()).collect()))
    };
    let said = |v: &Value| match v {
        Value::Strings(s) => (s.dims.clone(), s.texts.join(" ")),
        other => panic!("{}", other.kind()),
    };
    let long = |v: &[i64]| Value::from(Tensor::from_slice(v));
    let x = || texts(&[4], &["b", "c", "b", "a"]);
    for (sorted, values, first, inverse) in
        [(1, "a b c", [3, 0, 1], [1, 2, 1, 0]), (0, "b c a", [0, 1, 3], [0, 1, 0, 2])]
    {
        let m = Model::new(16).any_input("x");
        let m = m.node_with("y, i, j, n = Unique(x)", vec![("sorted", Attr::Int(sorted))]);
        let outs = m.output("y").output("i").output("j").load()?.run([("x", x())])?;
        assert_eq!(said(&outs[0]), (vec![3], values.to_string()));
        assert_eq!(outs[1].tensor()?.to_vec::<i64>()?, first);
        assert_eq!(outs[2].tensor()?.to_vec::<i64>()?, inverse);
    }
    let put = |op: &str, at: Value| {
        let m = Model::new(16).any_input("x").any_input("at").any_input("u");
        let m = m.node(&format!("y = {op}(x, at, u)")).output("y").load()?;
        m.run([("x", x()), ("at", at), ("u", texts(&[2], &["p", "q"]))])
    };
    assert_eq!(said(&put("ScatterElements", long(&[3, -3]))?[0]).1, "b q b p");
    let rows = Value::from(Tensor::from_slice(&[0i64, 2]).reshape([2, 1]));
    assert_eq!(said(&put("ScatterND", rows)?[0]).1, "p c q a");
    let m = Model::new(16).any_input("at").any_input("n").any_input("v");
    let m = m.node("y = OneHot(at, n, v)").output("y").load()?;
    let outs = m.run([("at", long(&[1, 0])), ("n", long(&[2])), ("v", texts(&[2], &["off", "on"]))])?;
    assert_eq!(said(&outs[0]), (vec![2, 2], "off on on off".to_string()));
    for (stacked, dims) in [(0, vec![8]), (1, vec![2, 4])] {
        let m = Model::new(16).any_input("x").node("s = SequenceConstruct(x, x)");
        let how = vec![("axis", Attr::Int(0)), ("new_axis", Attr::Int(stacked))];
        let outs = m.node_with("y = ConcatFromSequence(s)", how).output("y").load()?.run([("x", x())])?;
        assert_eq!(said(&outs[0]), (dims, "b c b a b c b a".to_string()));
    }
    Ok(())
}

#[test]
fn pictures_are_decoded_by_a_function_that_is_given() {
    let model = |format: &'static str| {
        let m = Model::new(20)
            .any_input("x")
            .node_with("y = ImageDecoder(x)", vec![("pixel_format", Attr::Text(format))]);
        m.output("y").load().unwrap()
    };
    // two pixels whose bytes are the file's, but for the first
    let decode = |bytes: &[u8]| match bytes {
        [2, rgb @ ..] => Ok(Image { height: 1, width: 2, rgb: rgb.to_vec() }),
        _ => Err(Error::elsewhere("onnx", "no format of ours")),
    };
    let file = Value::from(Tensor::from_slice(&[2u8, 255, 0, 0, 10, 20, 30]));
    let run = |format, file: &Value| model(format).with_images(decode).run([("x", file.clone())]);
    for (format, dims, wanted) in [
        ("RGB", [1, 2, 3], vec![255, 0, 0, 10, 20, 30]),
        ("BGR", [1, 2, 3], vec![0, 0, 255, 30, 20, 10]),
        ("Grayscale", [1, 2, 1], vec![76, 18]),
    ] {
        let y = run(format, &file).unwrap()[0].clone();
        assert_eq!((y.dims().unwrap(), y.ints().unwrap()), (dims.to_vec(), wanted), "{format}");
    }
    let said = run("RGB", &Tensor::from_slice(&[7u8]).into()).unwrap_err().to_string();
    assert!(said.contains("no format of ours in ImageDecoder"), "{said}");
    let said = run("RGB", &Tensor::from_slice(&[2u8, 7]).into()).unwrap_err().to_string();
    assert!(said.contains("a picture of 1 by 2 pixels in 1 bytes"), "{said}");
    let said = model("RGB").run([("x", file)]).unwrap_err().to_string();
    assert!(said.contains("the session has no function that decodes pictures"), "{said}");
}

#[test]
fn another_shape_than_declared_is_a_warning_that_names_its_node() -> Result<()> {
    let add = || Model::new(13).any_input("x").node("a = Add(x, x)").node("y = Neg(a)").output("y");
    let x = |n: usize| [("x", Value::from(Tensor::ones([n, 3])))];
    let declared = add().value_info("a", Float, &["n", "3"]).load()?;
    declared.run(x(2))?;
    assert!(declared.warnings().is_empty(), "{:?}", declared.warnings());
    let other = add().value_info("a", Float, &["2", "3"]).load()?;
    other.run(x(2))?;
    assert!(other.warnings().is_empty(), "{:?}", other.warnings());
    for n in [4, 5, 6] {
        assert_eq!(other.run(x(n))?[0].dims()?, [n, 3]);
    }
    let want = "Add \"the Add\": \"a\" has the shape [4, 3], the model declares [2, 3]";
    assert_eq!(other.warnings(), [want]);
    let rank = add().value_info("a", Float, &["2", "3", "1"]).load()?;
    rank.run(x(2))?;
    assert_eq!(rank.warnings().len(), 1);
    Ok(())
}
