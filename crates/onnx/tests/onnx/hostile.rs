//! Files that lie, and large ones.

use crate::build::{Attr, Model, node};
use frit_onnx::Element::Float;
use frit_onnx::Session;
use frit_onnx::proto;
use frit_onnx::wire::Writer;
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

/// Real models with bytes changed, cut out and doubled: loading them returns.
#[test]
fn mutated_models_are_read_to_an_end() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/onnx");
    let mut state = 7u64;
    let mut random = |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n.max(1)
    };
    let mut count = 0;
    for entry in std::fs::read_dir(corpus).expect("the corpus is there").flatten() {
        let bytes = std::fs::read(entry.path()).unwrap();
        assert!(Session::from_blob(&Blob::new(bytes.clone())).is_ok(), "{}", entry.path().display());
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
            let _ = Session::from_blob(&Blob::new(bad));
            count += 1;
        }
    }
    assert!(count > 1000);
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
    let start = std::time::Instant::now();
    let model: proto::Model = proto::parse(&bytes).unwrap();
    let time = start.elapsed();
    assert_eq!(model.graph.unwrap().node.len(), n);
    // half a second of a processor with optimisations; other tests run beside it
    assert!(time.as_secs() < if cfg!(debug_assertions) { 20 } else { 5 }, "{time:?}");
    eprintln!("a million nodes in {time:?}");
}
