//! Operators that the tests of onnx do not have, against what onnxruntime made of them (`tests-data/onnx/make.py`).

use frit_onnx::check::{Tolerance, folder};

#[test]
fn one_node_models_give_what_onnxruntime_gives() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests-data/onnx");
    let entries = std::fs::read_dir(dir).expect("the goldens are there").flatten().map(|e| e.path());
    let folders: Vec<_> = entries.filter(|p| p.join("model.onnx").exists()).collect();
    assert!(folders.len() > 40, "{}", folders.len());
    let wrong = folders.iter().filter_map(|f| {
        let e = folder(f, Tolerance { rtol: 1e-3, atol: 2e-5 }).err()?;
        Some(format!("{}: {e}", f.display()))
    });
    assert_eq!(wrong.collect::<Vec<_>>(), [""; 0]);
}
