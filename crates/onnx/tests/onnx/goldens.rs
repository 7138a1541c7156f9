//! Operators that the tests of onnx do not have, against what onnxruntime made of them (`tests-data/onnx/make.py`).

use frit_onnx::check::{Tolerance, folder};

#[test]
fn one_node_models_give_what_onnxruntime_gives() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests-data/onnx");
    let entries = std::fs::read_dir(dir).expect("the goldens are there").flatten().map(|e| e.path());
    let folders: Vec<_> = entries.filter(|p| p.join("model.onnx").exists()).collect();
    let names: Vec<_> = folders.iter().filter_map(|f| f.file_name()?.to_str()).collect();
    // backend tests there are for ONNX's own operators only
    let of_microsoft = frit_onnx::operators().filter(|(domain, ..)| *domain == "com.microsoft");
    let untold = of_microsoft.filter(|(_, op, _)| !names.contains(&format!("{op}_1").as_str()));
    assert_eq!(untold.map(|(_, op, _)| op).collect::<Vec<_>>(), [""; 0]);
    let wrong = folders.iter().filter_map(|f| {
        let e = folder(f, Tolerance { rtol: 1e-3, atol: 2e-5 }).err()?;
        Some(format!("{}: {e}", f.display()))
    });
    assert_eq!(wrong.collect::<Vec<_>>(), [""; 0]);
}
