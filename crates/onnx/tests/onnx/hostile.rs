//! Files that lie, and large ones.

use crate::build::{Attr, Model, node, port, stored};
use frit_onnx::Element::Float;
use frit_onnx::proto;
use frit_onnx::wire::Writer;
use frit_onnx::{Element, Port, Session, Size, Strings, Value};
use frit_tensor::{Blob, Tensor};

#[test]
fn every_operator_that_is_missing_is_named_with_its_nodes() {
    let m = Model::new(16).import("far", 1).input("x", Float, &["1"]);
    let m = m.node("a = Nothing(x)").node("b = far.Away(a)").node("c = far.Away(b)").output("c");
    let said = m.error(&[]);
    let want = "2 operators are not supported: Nothing (the Nothing); far.Away (the Away, the Away)";
    assert!(said.contains(want), "{said}");
}

#[test]
fn values_come_from_nodes_before() {
    let circle = Model::new(16).node("a = Relu(b)").node("b = Relu(a)").output("b").error(&[]);
    assert!(
        circle.contains("node \"the Relu\" (Relu): its input \"b\" is computed by no node before it"),
        "{circle}"
    );
    let twice = Model::new(16).input("x", Float, &["1"]).node("a = Relu(x)").node("a = Neg(x)").output("a");
    assert!(twice.error(&[]).contains("\"a\" is computed twice"));
    assert!(Model::new(16).output("y").error(&[]).contains("no node computes the output \"y\""));
    let m = Model::new(16).input("x", Float, &["1"]).node("y = Add(x)").output("y");
    let said = m.error(&[("x", Tensor::zeros([1]))]);
    assert!(said.contains("input 1 is not there in Add \"the Add\""), "{said}");
}

#[test]
fn a_function_that_calls_itself_ends() {
    let f = Writer::new().bytes(1, "F").bytes(4, "x").bytes(5, "y").bytes(10, "mine");
    let f = f.message(7, node("y = mine.F(x)", vec![])).message(9, Writer::new().bytes(1, "mine").int(2, 1));
    let m = Model::new(16)
        .import("mine", 1)
        .function(f)
        .input("x", Float, &["1"])
        .node("y = mine.F(x)")
        .output("y");
    assert!(m.error(&[]).contains("nested more than 64 deep"));
}

#[test]
fn truncated_files_are_errors() {
    let m = Model::new(16).input("x", Float, &["2", "n"]);
    let bytes = m.node_with("y = Softmax(x)", vec![("axis", Attr::Int(0))]).output("y").bytes();
    for n in 0..bytes.len() {
        let _ = Session::from_blob(&Blob::new(bytes[..n].to_vec()));
    }
    for i in 0..bytes.len() {
        for bit in 0..8 {
            let mut bad = bytes.clone();
            bad[i] ^= 1 << bit;
            let _ = Session::from_blob(&Blob::new(bad));
        }
    }
    assert!(
        Session::from_blob(&Blob::new(vec![]))
            .is_err_and(|e| e.to_string().contains("graph: the model has none"))
    );
}

/// Tensors for what a model asks for, of the sizes it says; none where these are many elements or no tensors.
fn feeds(s: &Session) -> Option<Vec<(String, Value)>> {
    let one = |port: &Port| {
        let size = |d: &Size| match d {
            Size::Number(n) => *n,
            _ => 2,
        };
        let dims: Vec<usize> = port.dims.as_ref()?.iter().map(size).collect();
        let count = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d).filter(|n| *n < 4096))?;
        let t = Tensor::arange(count).modulo(5).cast(port.element?.dtype()).reshape(dims);
        Some((port.name.clone(), Value::from(t)))
    };
    s.inputs().iter().map(one).collect()
}

/// Real models with bytes changed, cut out and doubled: loading and running them returns.
#[test]
fn mutated_models_are_run_to_an_end() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/onnx");
    let mut state = 7u64;
    let mut random = |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n.max(1)
    };
    let (mut count, mut runs) = (0, 0);
    for entry in std::fs::read_dir(corpus).expect("the corpus is there").flatten() {
        let bytes = std::fs::read(entry.path()).unwrap();
        assert!(Session::from_blob(&Blob::new(bytes.clone())).is_ok(), "{}", entry.path().display());
        // a loop may be one that never ends
        let name = entry.file_name().to_string_lossy().into_owned();
        let ends = !name.starts_with("loop") && !name.starts_with("range");
        for _ in 0..100 {
            let mut bad = bytes.clone();
            for _ in 0..1 + random(4) {
                let (at, n) = (random(bad.len()), random(8));
                match random(4) {
                    0 => bad[at] = random(256) as u8,
                    1 => bad[at] ^= 1 << random(8),
                    2 => drop(bad.drain(at..(at + n).min(bad.len() - 1).max(at))),
                    _ => bad.splice(at..at, bytes[..n.min(bytes.len())].to_vec()).for_each(drop),
                }
            }
            let loaded = Session::from_blob(&Blob::new(bad));
            count += 1;
            if let (Ok(s), true) = (loaded, ends)
                && let Some(feeds) = feeds(&s)
            {
                let _ = s.run(feeds);
                runs += 1;
            }
        }
    }
    assert!(count > 1000 && runs > 50, "{count} {runs}");
}

/// Attributes and shapes that fit nothing are errors when they meet, not panics, aborts or hours.
#[test]
fn what_fits_nothing_is_an_error() {
    use Attr::{Floats, Int, Ints, Text};
    let huge = 1i64 << 40;
    let f = |dims: &[usize]| Tensor::ones(dims);
    let long = |v: &[i64]| Tensor::from_slice(v);
    let tree = |n| {
        vec![
            ("n_targets", Int(n)),
            ("nodes_treeids", Ints(&[0])),
            ("nodes_nodeids", Ints(&[0])),
            ("nodes_featureids", Ints(&[0])),
            ("nodes_truenodeids", Ints(&[0])),
            ("nodes_falsenodeids", Ints(&[0])),
            ("nodes_modes", Attr::Texts(&["LEAF"])),
            ("nodes_values", Floats(&[0.0])),
            ("target_treeids", Ints(&[0])),
            ("target_nodeids", Ints(&[0])),
            ("target_ids", Ints(&[0])),
            ("target_weights", Floats(&[1.0])),
        ]
    };
    let grams = |index: i64, skips: i64| {
        vec![
            ("mode", Text("TF")),
            ("min_gram_length", Int(1)),
            ("max_gram_length", Int(2)),
            ("max_skip_count", Int(skips)),
            ("ngram_counts", Ints(&[0, 1])),
            ("ngram_indexes", Attr::Ints(if index > 1 { &[0, i64::MAX] } else { &[0, 1] })),
            ("pool_int64s", Ints(&[1, 2, 3])),
        ]
    };
    let body = || {
        let g = Writer::new().message(11, port("r", Float, &["2"])).message(1, node("u = Relu(r)", vec![]));
        Attr::Graph(g.message(12, Writer::new().bytes(1, "u")))
    };
    type Case<'a> = (&'a str, Vec<(&'a str, Attr<'a>)>, Vec<Tensor>);
    let cases: Vec<Case> = vec![
        (
            "Attention",
            vec![("q_num_heads", Int(2)), ("kv_num_heads", Int(2))],
            vec![f(&[4, 8]), f(&[2, 4, 8]), f(&[2, 4, 8])],
        ),
        (
            "Attention",
            vec![],
            vec![f(&[2, 2, 4, 8]), f(&[2, 2, 4, 8]), f(&[2, 2, 4, 8]), f(&[4, 4]), f(&[9])],
        ),
        (
            "com.microsoft.MultiHeadAttention",
            vec![("num_heads", Int(2))],
            vec![f(&[4, 8]), f(&[2, 4, 8]), f(&[2, 4, 8])],
        ),
        (
            "com.microsoft.GroupQueryAttention",
            vec![("num_heads", Int(1 << 62)), ("kv_num_heads", Int(1 << 62))],
            vec![f(&[1, 2, 8])],
        ),
        ("CausalConvWithState", vec![], vec![f(&[6]), f(&[2, 1, 3])]),
        ("CausalConvWithState", vec![], vec![f(&[2, 2]), f(&[2, 1, 3])]),
        ("ConvTranspose", vec![("output_shape", Ints(&[]))], vec![f(&[1, 1, 3, 3]), f(&[1, 1, 2, 2])]),
        ("Conv", vec![("group", Int(0))], vec![f(&[1, 1, 3, 3]), f(&[1, 1, 2, 2])]),
        ("Conv", vec![("pads", Ints(&[i64::MAX; 4]))], vec![f(&[1, 1, 3, 3]), f(&[1, 1, 2, 2])]),
        ("Col2Im", vec![], vec![f(&[1, 5, 5]), long(&[5, 5]), long(&[1 << 62, 4])]),
        (
            "DequantizeLinear",
            vec![("axis", Int(1)), ("block_size", Int(2))],
            vec![Tensor::ones([2, 4]).cast(frit_tensor::DType::U8), f(&[8])],
        ),
        ("NonMaxSuppression", vec![], vec![f(&[2, 6, 4]), f(&[1, 1, 6]), long(&[3])]),
        ("RoiAlign", vec![("output_height", Int(1 << 31))], vec![f(&[1, 1, 4, 4]), f(&[1, 4]), long(&[0])]),
        ("RoiAlign", vec![("sampling_ratio", Int(1 << 31))], vec![f(&[1, 1, 4, 4]), f(&[1, 4]), long(&[0])]),
        (
            "RoiAlign",
            vec![("spatial_scale", Attr::Float(1e30))],
            vec![f(&[1, 1, 4, 4]), Tensor::new([[0.0, 0.0, 1.0, 2.0]]), long(&[0])],
        ),
        ("Split", vec![("num_outputs", Int(huge))], vec![f(&[4])]),
        ("Scan", vec![("num_scan_inputs", Int(huge)), ("body", body())], vec![f(&[4, 2])]),
        ("OneHot", vec![("axis", Int(-(1 << 31)))], vec![long(&[0, 1]), long(&[3]), f(&[2])]),
        ("TopK", vec![], vec![f(&[4]), long(&[-1])]),
        ("DFT", vec![], vec![f(&[1, 4, 1]), long(&[1 << 62])]),
        ("ai.onnx.ml.TreeEnsembleRegressor", tree(huge), vec![f(&[1, 2])]),
        ("ai.onnx.ml.TreeEnsembleRegressor", tree(i64::MAX), vec![f(&[1, 2])]),
        ("TfIdfVectorizer", grams(2, 0), vec![long(&[1, 2, 3])]),
        ("Resize", vec![], vec![f(&[1, 1, 0, 3]), f(&[0]), f(&[0]), long(&[1, 1, 2, 2])]),
    ];
    for (op, attributes, inputs) in cases {
        let names: Vec<String> = (0..inputs.len()).map(|i| format!("x{i}")).collect();
        let m = Model::new(27).import("com.microsoft", 1).import("ai.onnx.ml", 3);
        let m = names.iter().fold(m, |m, n| m.any_input(n));
        let m = m.node_with(&format!("y = {op}({})", names.join(", ")), attributes).output("y");
        let feeds: Vec<(&str, Tensor)> = names.iter().map(String::as_str).zip(inputs).collect();
        let start = std::time::Instant::now();
        assert!(m.run(&feeds).is_err(), "{op} of {feeds:?}");
        assert!(start.elapsed().as_secs() < 8, "{op} took {:?}", start.elapsed());
    }
    // more gaps than a row has places are all of its gaps
    let m = Model::new(16).any_input("x").node_with("y = TfIdfVectorizer(x)", grams(0, 1 << 62)).output("y");
    assert_eq!(m.floats(&[("x", long(&[2, 9, 9, 3]))]).unwrap(), [0.0, 1.0]);
    // to no elements
    let m = Model::new(16).any_input("x").any_input("e").any_input("to");
    let m = m.node_with("y = Resize(x, e, e, to)", vec![("mode", Text("linear"))]).output("y");
    let fed = [("x", f(&[1, 1, 4, 4])), ("e", f(&[0])), ("to", long(&[1, 1, 0, 4]))];
    assert_eq!(m.run(&fed).unwrap()[0].dims().unwrap(), [1, 1, 0, 4]);
}

#[test]
fn other_files_are_only_read_inside_the_model_s_folder() {
    let dir = std::env::temp_dir().join(format!("frit-onnx-{}", std::process::id()));
    let inside = dir.join("model");
    std::fs::create_dir_all(&inside).unwrap();
    for place in [&inside, &dir] {
        std::fs::write(place.join("data"), [0u8, 1.5f32.to_le_bytes()[0], 0, 0xc0, 0x3f]).unwrap();
    }
    let model = |location: &str, offset: &str| {
        let entry = |k: &str, v: &str| Writer::new().bytes(1, k).bytes(2, v);
        let t = Writer::new().ints(1, &[1]).int(2, 1).bytes(8, "c").int(14, 1);
        let t = t.message(13, entry("location", location)).message(13, entry("offset", offset));
        let path = inside.join("model.onnx");
        std::fs::write(&path, Model::new(16).initializer(t).output("c").bytes()).unwrap();
        Session::load(&path).and_then(|s| s.run::<&str>([])?[0].tensor()?.to_vec::<f32>())
    };
    assert_eq!(model("data", "1").unwrap(), [1.5]);
    for (location, offset) in
        [("../data", "1"), ("/etc/passwd", "0"), ("", "1"), ("none", "1"), ("data", "99"), ("data", "x")]
    {
        let said = model(location, offset).unwrap_err().to_string();
        assert!(said.contains("tensor \"c\": external_data: "), "{said}");
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(dir.join("data"), inside.join("link")).unwrap();
        assert!(model("link", "1").unwrap_err().to_string().contains("leads out of the model's folder"));
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_million_nodes_are_parsed_in_a_moment() {
    let n = 1_000_000;
    let mut graph = Writer::new();
    for i in 0..n {
        graph = graph.message(1, node(&format!("v{} = Relu(v{i})", i + 1), vec![]));
    }
    let bytes = Writer::new().message(7, graph).into_bytes();
    // the quickest of a few: other tests run beside it
    let parse = || {
        let start = std::time::Instant::now();
        let model: proto::Model = proto::parse(&bytes).unwrap();
        let time = start.elapsed();
        assert_eq!(model.graph.unwrap().node.len(), n);
        time
    };
    let time = (0..3).map(|_| parse()).min().unwrap();
    eprintln!("a million nodes in {time:?}");
    // without all optimisations it takes longer, which no user meets
    let most = if cfg!(debug_assertions) { 2.0 } else { 1.0 };
    assert!(time.as_secs_f64() < most, "{time:?}");
}

#[test]
fn inputs_of_a_type_that_an_operator_does_not_have_are_errors_that_name_the_node() {
    let bools = Tensor::new([true, false]);
    let one =
        |line: &str| Model::new(13).any_input("x").node(line).output("y").error(&[("x", bools.clone())]);
    let said = one("y = Add(x, x)");
    assert!(said.contains("input 0 is bool, not float, int32, "), "{said}");
    assert!(said.contains("in Add \"the Add\""), "{said}");
    assert!(one("y = Softmax(x)").contains("input 0 is bool"));
    let m = Model::new(13).any_input("x").any_input("z").node("y = Concat(x, z)").output("y");
    let said = m.error(&[("x", bools.clone()), ("z", Tensor::zeros([2]))]);
    assert!(
        said.contains("inputs of types bool and float, which must be one in Concat \"the Concat\""),
        "{said}"
    );
    let texts = Value::Strings(Strings::new(vec![1], vec!["a".into()]));
    let m = Model::new(13).any_input("x").node("y = Relu(x)").output("y").load().unwrap();
    let said = m.run([("x", texts)]).unwrap_err().to_string();
    assert!(said.contains("input 0 is string, not "), "{said}");
}

#[test]
fn values_of_another_type_than_the_model_declares_are_errors() {
    let typed = |element, field| {
        let m = Model::new(13).any_input("x").node("z = Shape(x)").node("y = Identity(z)");
        m.declared(field, "z", element).output("y")
    };
    let feeds = [("x", Tensor::zeros([2, 3]))];
    const VALUE_INFO: u32 = 13;
    assert_eq!(typed(Element::Int64, VALUE_INFO).floats(&feeds).unwrap(), [2.0, 3.0]);
    for field in [VALUE_INFO, 12] {
        let said = typed(Element::Float, field).error(&feeds);
        assert!(
            said.contains("output 0 is int64, the model declares float in Shape \"the Shape\""),
            "{said}"
        );
    }
    // what an exporter had as an example is no promise
    let m = Model::new(13).any_input("x").node("y = Relu(x)").declared(12, "y", Element::Float);
    assert_eq!(m.floats(&feeds).unwrap(), [0.0; 6]);
}

#[test]
fn a_window_of_any_length_is_not_made() {
    for op in ["BlackmanWindow", "HammingWindow", "HannWindow"] {
        let bytes = (1i64 << 31).to_le_bytes();
        let m = Model::new(17).initializer(stored("n", Element::Int64, &[], &bytes));
        let said = m.node(&format!("y = {op}(n)")).output("y").error(&[]);
        assert!(said.contains("[2147483648] elements are more than 67108864"), "{said}");
    }
}
