//! safetensors files, written here and by hand.

use frit_nn::safetensors::{SafeTensors, load, save, save_with};
use frit_nn::{Linear, Module, StateDict};
use frit_tensor::{DType, Tensor};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A path that is removed at the end.
struct Temp(PathBuf);
impl Temp {
    fn new(name: &str) -> Temp {
        Temp(std::env::temp_dir().join(format!("frit-{}-{name}.safetensors", std::process::id())))
    }
    fn with(name: &str, bytes: &[u8]) -> Temp {
        let t = Temp::new(name);
        std::fs::write(&t.0, bytes).unwrap();
        t
    }
}
impl Drop for Temp {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}

fn file(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

#[test]
fn a_model_survives_saving_and_loading() {
    let path = Temp::new("model");
    let (a, b) = (Linear::new(5, 3), Linear::new(5, 3));
    save(&path.0, &a.state_dict()).unwrap();
    b.load_state_dict(&load(&path.0).unwrap()).unwrap();
    assert_eq!(a.weight.to_vec::<f32>().unwrap(), b.weight.to_vec::<f32>().unwrap());
    assert!(std::fs::read_dir(path.0.parent().unwrap()).unwrap().flatten().all(|e| {
        let name = e.file_name().to_string_lossy().into_owned();
        !(name.ends_with(".partial") && name.contains(&format!("frit-{}-model", std::process::id())))
    }));
}

#[test]
fn every_type_and_shape_survives() {
    let path = Temp::new("types");
    let names = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float8_e4m3 float8_e5m2 float8_e4m3fnuz \
                 float8_e5m2fnuz float16 bfloat16 float32 float64";
    let mut state = StateDict::new();
    for dtype in names.split_whitespace().filter_map(DType::from_name) {
        let bytes: Vec<u8> =
            (0..6 * dtype.size()).map(|i| if dtype == DType::Bool { i as u8 % 2 } else { i as u8 }).collect();
        state.insert(dtype.to_string(), Tensor::from_bytes(dtype, &bytes, [2, 3]));
    }
    state.insert("scalar".into(), Tensor::from_vec([1.5f32], ()));
    state.insert("empty".into(), Tensor::from_vec([0f32; 0], [0, 4]));
    let metadata = BTreeMap::from([("format".to_string(), "pt".to_string())]);
    save_with(&path.0, &state, &metadata).unwrap();

    let opened = SafeTensors::open(&path.0).unwrap();
    assert_eq!(opened.metadata(), &metadata);
    assert_eq!(opened.names().collect::<Vec<_>>(), state.keys().map(String::as_str).collect::<Vec<_>>());
    for (name, t) in load(&path.0).unwrap() {
        assert_eq!(
            (t.dtype(), t.dims().unwrap()),
            (state[&name].dtype(), state[&name].dims().unwrap()),
            "{name}"
        );
        assert_eq!(t.to_bytes().unwrap(), state[&name].to_bytes().unwrap(), "{name}");
        assert_eq!(opened.view(&name).unwrap().bytes, t.to_bytes().unwrap(), "{name}");
    }
}

#[test]
fn a_file_written_by_others_is_read() {
    // spaces, unknown keys, out-of-order names, data that is not aligned
    let header = r#" {"b": {"shape": [2], "dtype": "F32", "data_offsets": [1, 9], "note": null},
                     "__metadata__": {"k": "v"}, "a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}   "#;
    let data = [&[7u8][..], &1.5f32.to_le_bytes(), &(-2f32).to_le_bytes()].concat();
    let path = Temp::with("others", &file(header, &data));
    let state = load(&path.0).unwrap();
    assert_eq!(state["a"].to_vec::<u8>().unwrap(), [7]);
    assert_eq!(state["b"].to_vec::<f32>().unwrap(), [1.5, -2.0]);
}

#[test]
fn hostile_files_are_errors_that_name_file_and_tensor() {
    let w = |offsets: &str| format!(r#"{{"w":{{"dtype":"F32","shape":[2],"data_offsets":{offsets}}}}}"#);
    let cases = [
        ("empty", vec![], "too few"),
        ("length", file(&w("[0,8]"), &[0; 8])[..40].to_vec(), "header claims"),
        (
            "truncated",
            file(&w("[0,8]"), &[0; 7]),
            "tensor \"w\": bytes 0..8 are not inside the 7 bytes of data",
        ),
        ("oversized", file(&w("[0,18446744073709551616]"), &[0; 8]), "tensor \"w\": \"data_offsets\""),
        ("longer", file(&w("[0,8]"), &[0; 12]), "4 bytes at the end"),
    ];
    for (name, bytes, part) in cases {
        let path = Temp::with(name, &bytes);
        let e = load(&path.0).unwrap_err().to_string();
        assert!(
            e.starts_with("load: ") && e.contains(part) && e.contains(name) && e.contains("safetensors.rs"),
            "{e}"
        );
    }
    let e = load("/no/such/file").unwrap_err().to_string();
    assert!(e.contains("/no/such/file: No such file"), "{e}");
    assert!(load(std::env::temp_dir()).unwrap_err().to_string().contains("directory"));
}

#[test]
fn a_tensor_that_is_not_there_and_a_place_that_cannot_be_written() {
    let path = Temp::with("lookup", &file("{}", &[]));
    let opened = SafeTensors::open(&path.0).unwrap();
    assert!(opened.view("w").is_none());
    assert!(opened.tensor("w").unwrap_err().to_string().contains("no tensor \"w\""));
    let state = StateDict::from([("w".to_string(), Tensor::zeros([2]))]);
    assert!(save("/no/such/folder/file", &state).unwrap_err().to_string().contains("/no/such/folder/file"));
    let failed = StateDict::from([("bad".to_string(), Tensor::zeros([2]).reshape([3]))]);
    let e = save(Temp::new("failed").0.clone(), &failed).unwrap_err().to_string();
    assert!(e.contains("reshape") && e.contains("in bad"), "{e}");
}
