//! State files that torch, numpy, gguf and safetensors wrote (`tests-data/make_state_files.py`), and files written here.

use frit_nn::gguf::{self, Array, Gguf, Kind, Value};
use frit_nn::{StateDict, load, npy, safetensors, torch};
use frit_tensor::{DType, Device, Tensor};
use std::collections::BTreeMap;
use std::path::PathBuf;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}
fn corpus(name: &str) -> PathBuf {
    root().join("fuzz/corpus").join(name)
}
fn on_interp<T>(f: impl FnOnce() -> T) -> T {
    Device::scope("INTERP", f).unwrap()
}
fn counted(n: usize) -> Vec<f32> {
    (0..n).map(|i| i as f32).collect()
}
/// A folder that is removed at the end.
struct Temp(PathBuf);
impl Temp {
    fn new(name: &str) -> Temp {
        let path = std::env::temp_dir().join(format!("frit-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Temp(path)
    }
    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}
impl Drop for Temp {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

// ---- GGUF

/// Name, raw blocks and values of every quantised type.
fn blocks() -> Vec<(String, Vec<u8>, Vec<f32>)> {
    let file = std::fs::read(root().join("tests-data/gguf_blocks.bin")).unwrap();
    let (mut at, mut all) = (0, vec![]);
    let mut take = |n: usize| {
        at += n;
        file[at - n..at].to_vec()
    };
    let size = |b: Vec<u8>| u32::from_le_bytes(b.try_into().unwrap()) as usize;
    let mut left = file.len();
    while left > 0 {
        let n = take(1)[0] as usize;
        let name = String::from_utf8(take(n)).unwrap();
        let len = size(take(4));
        let raw = take(len);
        let count = size(take(4));
        let values = take(4 * count).chunks(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect();
        left -= 1 + n + 8 + raw.len() + 4 * count;
        all.push((name, raw, values));
    }
    all
}

fn check_every_type(device: &str) {
    Device::scope(device, || {
        let cases = blocks();
        assert_eq!(cases.len(), Kind::all().filter(|k| k.dtype().is_none()).count());
        let values: Vec<Tensor> = cases
            .iter()
            .map(|(name, raw, _)| {
                let kind = Kind::from_name(name).unwrap();
                // two rows, so that rows and blocks are told apart
                kind.dequantize(&Tensor::from_vec(raw, [2, raw.len() / 2]))
            })
            .collect();
        Tensor::realize_all(&values.iter().collect::<Vec<_>>()).unwrap();
        for ((name, _, expected), t) in cases.iter().zip(&values) {
            let got = t.to_vec::<f32>().unwrap();
            assert_eq!(t.dims().unwrap(), [2, expected.len() / 2], "{name}");
            for (i, (g, e)) in got.iter().zip(expected).enumerate() {
                let same = g.to_bits() == e.to_bits() || (g.is_nan() && e.is_nan());
                assert!(same, "{name}: element {i} is {g:e}, expected {e:e}");
            }
        }
    })
    .unwrap();
}

#[test]
fn every_quantised_type_is_read_bit_for_bit_on_the_interpreter() {
    check_every_type("INTERP");
}
#[test]
fn every_quantised_type_is_read_bit_for_bit_on_the_cpu() {
    check_every_type("CPU");
}

#[test]
fn a_gguf_file_with_values_of_every_type() {
    let file = Gguf::open(corpus("gguf/small.gguf")).unwrap();
    let m = file.metadata();
    assert_eq!(file.version(), 3);
    let expected = [
        ("u8", Value::U8(200)),
        ("i8", Value::I8(-100)),
        ("u16", Value::U16(60000)),
        ("i16", Value::I16(-30000)),
        ("u32", Value::U32(4_000_000_000)),
        ("i32", Value::I32(-2_000_000_000)),
        ("f32", Value::F32(1.5)),
        ("bool", Value::Bool(true)),
        ("string", Value::String("grüße".into())),
        ("u64", Value::U64(1 << 63)),
        ("i64", Value::I64(-(1 << 62))),
        ("f64", Value::F64(0.1)),
    ];
    for (key, value) in expected {
        assert_eq!(m[key], value, "{key}");
    }
    let words: Vec<String> =
        m["words"].as_array().unwrap().iter().map(|v| v.as_str().unwrap().to_string()).collect();
    assert_eq!(words, ["a", "", "ccc"]);
    assert_eq!(m["numbers"].as_array().unwrap().iter().filter_map(|v| v.as_i64()).sum::<i64>(), 6);
    on_interp(|| {
        let state = load(corpus("gguf/small.gguf")).unwrap();
        assert_eq!(state["plain"].dims().unwrap(), [2, 3]);
        assert_eq!(state["plain"].to_vec::<f32>().unwrap(), counted(6));
        assert_eq!(state["half"].dtype(), DType::F16);
        assert_eq!(file.tensors()["quantised"].kind, Kind::Q4_0);
        let q = state["quantised"].to_vec::<f32>().unwrap();
        assert!(q.iter().enumerate().all(|(i, v)| (v - (i as f32 / 31.5 - 1.0)).abs() < 0.07), "{q:?}");
    });
}

#[test]
fn a_gguf_file_of_version_2_with_nested_arrays() {
    let file = Gguf::open(corpus("gguf/nested.gguf")).unwrap();
    assert_eq!(file.version(), 2);
    let sizes: Vec<usize> =
        file.metadata()["nested"].as_array().unwrap().iter().map(|v| v.as_array().unwrap().len()).collect();
    assert_eq!(sizes, [2, 0, 3]);
}

#[test]
fn gguf_survives_writing_and_reading() {
    let dir = Temp::new("gguf");
    let state = StateDict::from([
        ("a".to_string(), Tensor::from_vec(counted(6), [1, 2, 3])),
        ("b".to_string(), Tensor::from_vec([1i8, -2], [2]).cast(DType::BF16)),
        ("c".to_string(), Tensor::from_vec([7i64], ())),
    ]);
    let list = Array::new(&[Value::String("x".into()), Value::String("yz".into())]).unwrap();
    let metadata = BTreeMap::from([("k".to_string(), Value::Array(list)), ("n".to_string(), Value::U32(3))]);
    for name in ["1", "2"] {
        gguf::save(dir.file(name), &state, &metadata).unwrap();
    }
    assert_eq!(std::fs::read(dir.file("1")).unwrap(), std::fs::read(dir.file("2")).unwrap());
    let file = Gguf::open(dir.file("1")).unwrap();
    assert_eq!(file.metadata(), &metadata);
    for (name, t) in file.state().unwrap() {
        assert_eq!((t.dtype(), t.dims().unwrap()), (state[&name].dtype(), state[&name].dims().unwrap()));
        assert_eq!(t.to_bytes().unwrap(), state[&name].to_bytes().unwrap(), "{name}");
    }
    assert!(Array::new(&[Value::U8(1), Value::I8(1)]).is_none());
    let bad = StateDict::from([("x".to_string(), Tensor::new([true]))]);
    let e = gguf::save(dir.file("3"), &bad, &BTreeMap::new()).unwrap_err().to_string();
    assert!(e.contains("tensor \"x\": bool has no place in GGUF"), "{e}");
}

/// Tensors `t0`, `t1`, … in files of one each; what the metadata says may be changed.
fn gguf_parts(dir: &Temp, count: u16, change: impl Fn(u16, &mut BTreeMap<String, Value>)) {
    for no in 0..count {
        let state = StateDict::from([(format!("t{no}"), Tensor::from_vec([no as f32; 3], [3]))]);
        let mut metadata = BTreeMap::from([
            ("split.no".to_string(), Value::U16(no)),
            ("split.count".to_string(), Value::U16(count)),
            ("split.tensors.count".to_string(), Value::I32(count as i32)),
        ]);
        if no == 0 {
            metadata.insert("general.name".into(), Value::String("cut".into()));
        }
        change(no, &mut metadata);
        let name = format!("m-{:05}-of-{count:05}.gguf", no + 1);
        gguf::save(dir.file(&name), &state, &metadata).unwrap();
    }
}

#[test]
fn the_first_of_several_gguf_files_loads_all() {
    let dir = Temp::new("gguf-parts");
    gguf_parts(&dir, 3, |_, _| {});
    let path = dir.file("m-00001-of-00003.gguf");
    let file = Gguf::open(&path).unwrap();
    assert_eq!(file.metadata()["general.name"].as_str(), Some("cut"));
    assert_eq!(file.tensors()["t2"].part, 2);
    on_interp(|| {
        for (name, t) in load(&path).unwrap() {
            let no: f32 = name[1..].parse().unwrap();
            assert_eq!(t.to_vec::<f32>().unwrap(), [no; 3]);
        }
        assert_eq!(load(&path).unwrap().len(), 3);
    });
    // all in one file says so, too
    gguf_parts(&dir, 1, |_, _| {});
    assert_eq!(Gguf::open(dir.file("m-00001-of-00001.gguf")).unwrap().tensors().len(), 1);
}

#[test]
fn gguf_parts_that_do_not_fit_are_errors() {
    let dir = Temp::new("gguf-parts-bad");
    let fails = |open: &str, part: &str| {
        let e = Gguf::open(dir.file(open)).err().expect(part).to_string();
        assert!(e.contains(part) && e.contains("files.rs"), "{e}");
    };
    let first = "m-00001-of-00003.gguf";
    let set = |no: u16, key: &'static str, value: Value| {
        gguf_parts(&dir, 3, |n, m| {
            if n == no {
                m.insert(key.into(), value.clone());
            }
        });
    };
    gguf_parts(&dir, 3, |_, _| {});
    fails("m-00002-of-00003.gguf", "part 2 of 3: the first is m-00001-of-00003.gguf");
    std::fs::copy(dir.file(first), dir.file("other.gguf")).unwrap();
    fails("other.gguf", "should end in \"-00001-of-00003.gguf\"");
    std::fs::remove_file(dir.file("m-00003-of-00003.gguf")).unwrap();
    fails(first, "m-00003-of-00003.gguf: No such file");
    set(1, "split.no", Value::U16(2));
    fails(first, "says that it is part 3 of 3 with 3 tensors in all, and should be part 2 of 3");
    set(2, "split.count", Value::U16(4));
    fails(first, "says that it is part 3 of 4");
    set(0, "split.no", Value::U16(3));
    fails(first, "split.no is 3, of 3 parts the last is 2");
    set(0, "split.count", Value::String("x".into()));
    fails(first, "split.count is String(\"x\")");
    gguf_parts(&dir, 3, |_, m| _ = m.insert("split.tensors.count".into(), Value::I32(4)));
    fails(first, "the parts have 3 tensors, split.tensors.count is 4");
    gguf_parts(&dir, 3, |_, _| {});
    let same = std::fs::read(dir.file(first)).unwrap();
    let blob = frit_tensor::Blob::open(dir.file(first)).unwrap();
    let e = Gguf::from_blob(&blob).err().unwrap().to_string();
    assert!(e.contains("part 1 of 3") && e.contains("path"), "{e}");
    // the tensor of the first again, in a file that says it is the second
    let at = same.windows(8).position(|w| w == b"split.no").unwrap() + 8 + 4;
    let mut second = same.clone();
    second[at] = 1;
    std::fs::write(dir.file("m-00002-of-00003.gguf"), second).unwrap();
    fails(first, "m-00002-of-00003.gguf: tensor \"t0\" is in an earlier part too");
}

#[test]
fn gguf_files_that_lie_are_errors() {
    let good = std::fs::read(corpus("gguf/small.gguf")).unwrap();
    let dir = Temp::new("gguf-bad");
    let check = |bytes: &[u8], part: &str| {
        std::fs::write(dir.file("x.gguf"), bytes).unwrap();
        let e = load(dir.file("x.gguf")).unwrap_err().to_string();
        assert!(e.contains(part) && e.contains("x.gguf") && e.contains("files.rs"), "{e}");
    };
    check(&good[..good.len() - 32], "not inside the");
    check(&good[..20], "beyond the end");
    let mut old = good.clone();
    old[4] = 1;
    check(&old, "GGUF version 1 is not known");
    let mut big = good.clone();
    big[4..8].copy_from_slice(&3u32.to_be_bytes());
    check(&big, "big-endian");
    let mut many = good.clone();
    many[16..24].fill(0xff);
    check(&many, "of 18446744073709551615");
    let x = Tensor::from_vec(vec![0u8; 40], [2, 20]);
    let e = Kind::Q4_0.dequantize(&x).check().unwrap_err().to_string();
    assert!(e.contains("shape [2, 20] is not made of whole Q4_0 blocks (18 bytes)"), "{e}");
}

// ---- torch

#[test]
fn torch_files_of_both_formats() {
    for name in ["torch/zip.pt", "torch/legacy.pth"] {
        on_interp(|| {
            let s = load(corpus(name)).unwrap();
            let values = |key: &str| s[key].float().to_vec::<f32>().unwrap();
            assert_eq!(s.keys().map(String::as_str).collect::<String>(), "abcdefghijk", "{name}");
            assert_eq!((s["a"].dims().unwrap(), values("a")), (vec![4, 6], counted(24)));
            let transposed: Vec<f32> = (0..24).map(|i| (i % 4 * 6 + i / 4) as f32).collect();
            assert_eq!((s["b"].dims().unwrap(), values("b")), (vec![6, 4], transposed));
            assert_eq!(values("c"), counted(9)[3..]);
            assert_eq!(
                (s["d"].dims().unwrap(), values("d")),
                (vec![2, 2, 2], vec![4., 6., 8., 10., 16., 18., 20., 22.])
            );
            assert_eq!((s["e"].dtype(), s["e"].item::<i64>().unwrap()), (DType::I64, 3));
            assert_eq!(s["f"].to_vec::<bool>().unwrap(), [true, false, true]);
            assert_eq!(s["g"].dims().unwrap(), [0, 3]);
            assert_eq!((s["h"].dtype(), values("h")), (DType::BF16, vec![1.0, -2.0]));
            assert_eq!(values("i"), [1.0; 6]);
            assert_eq!(values("j"), [0., 1., 2., 3., 2., 3., 4., 5., 4., 5., 6., 7.]);
            assert_eq!(s["k"].to_vec::<u8>().unwrap(), [1, 2]);
        });
    }
}

#[test]
fn a_checkpoint_has_numbers_and_names_beside_its_tensors() {
    for name in ["torch/checkpoint.pt", "torch/checkpoint4.pt"] {
        let v = torch::read(corpus(name)).unwrap();
        assert_eq!(v.get("epoch").and_then(|v| v.as_int()), Some(3));
        assert_eq!(v.get("lr").and_then(|v| v.as_float()), Some(0.5));
        assert_eq!(v.get("device").and_then(|v| v.as_str()), Some("cpu"));
        assert!(matches!(v.get("bytes"), Some(torch::Value::Bytes(b)) if b[..] == [0, 255]));
        assert!(matches!(v.get("none"), Some(torch::Value::None)));
        assert!(
            matches!(v.get("model").and_then(|m| m.get("s")), Some(torch::Value::List(s)) if s.len() == 2)
        );
        let state = v.state();
        assert_eq!(state.keys().map(String::as_str).collect::<Vec<_>>(), ["f8", "model.w", "u16"]);
        assert_eq!(state["u16"].to_vec::<u16>().unwrap(), [1, 65535]);
        on_interp(|| {
            let f8 = &torch::read(corpus(name)).unwrap().state()["f8"];
            assert_eq!((f8.dtype(), f8.float().to_vec::<f32>().unwrap()), (DType::F8E4M3, vec![1.0, 0.5]));
        });
    }
}

#[test]
fn torchscript_modules_are_their_attributes() {
    let state = load(corpus("torch/script.pt")).unwrap();
    let names: Vec<&str> = state.keys().map(String::as_str).collect();
    let expected = "0.bias 0.weight 1.bias 1.num_batches_tracked 1.running_mean 1.running_var 1.weight";
    assert_eq!(names.join(" "), expected);
    assert_eq!(state["0.weight"].to_vec::<f32>().unwrap(), counted(6));
}

#[test]
fn code_in_a_torch_file_is_an_error_that_names_it() {
    let e = load(corpus("torch/module.pt")).unwrap_err().to_string();
    let classes = "torch.nn.modules.activation.ReLU, torch.nn.modules.container.Sequential, \
                   torch.nn.modules.linear.Linear";
    assert!(e.contains(classes) && e.contains("module.pt"), "{e}");
}

// ---- numpy

#[test]
fn npy_files_of_every_version_and_order() {
    on_interp(|| {
        for (name, dtype) in [
            ("f4", DType::F32),
            ("big", DType::F64),
            ("fortran", DType::I32),
            ("half", DType::F16),
            ("version2", DType::U32),
            ("version3", DType::U64),
        ] {
            let t = npy::load(corpus(&format!("npy/{name}.npy"))).unwrap();
            assert_eq!((t.dtype(), t.dims().unwrap()), (dtype, vec![2, 3]), "{name}");
            assert_eq!(t.double().to_vec::<f64>().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], "{name}");
        }
        let t = npy::load(corpus("npy/bool.npy")).unwrap();
        assert_eq!(t.to_vec::<bool>().unwrap(), [false, true, false, true, false, true]);
        assert_eq!(load(corpus("npy/scalar.npy")).unwrap()[""].item::<i64>().unwrap(), 7);
        assert_eq!(npy::load(corpus("npy/empty.npy")).unwrap().dims().unwrap(), [0, 4]);
        let e = npy::load(corpus("npy/complex.npy")).unwrap_err().to_string();
        assert!(e.contains("numpy's dtype \"<c8\" has no counterpart") && e.contains("complex.npy"), "{e}");
        for name in ["stored", "deflated"] {
            let s = load(corpus(&format!("npz/{name}.npz"))).unwrap();
            assert_eq!(s["b"].item::<f64>().unwrap(), 2.5);
            assert_eq!(s["a"].at((..2, ..)).to_vec::<f32>().unwrap(), counted(6));
        }
    });
}

#[test]
fn npy_and_npz_survive_writing_and_reading() {
    let dir = Temp::new("npy");
    let mut state = StateDict::new();
    for dtype in ["bool", "int8", "uint16", "int32", "uint64", "float16", "float64"] {
        let dtype = DType::from_name(dtype).unwrap();
        let bytes: Vec<u8> = (0..6 * dtype.size()).map(|i| i as u8 % 2).collect();
        state.insert(dtype.to_string(), Tensor::from_bytes(dtype, &bytes, [2, 3]));
    }
    state.insert("scalar".into(), Tensor::from_vec([1.5f32], ()));
    state.insert("vector".into(), Tensor::from_vec([1u8, 2, 3], [3]));
    for (name, t) in &state {
        npy::save(dir.file(name), t).unwrap();
        let back = npy::load(dir.file(name)).unwrap();
        assert_eq!((back.dtype(), back.dims().unwrap()), (t.dtype(), t.dims().unwrap()));
        on_interp(|| {
            assert_eq!(npy::load(dir.file(name)).unwrap().to_bytes().unwrap(), t.to_bytes().unwrap())
        });
    }
    for name in ["1.npz", "2.npz"] {
        npy::save_npz(dir.file(name), &state).unwrap();
    }
    assert_eq!(std::fs::read(dir.file("1.npz")).unwrap(), std::fs::read(dir.file("2.npz")).unwrap());
    let back = on_interp(|| load(dir.file("1.npz")).unwrap());
    assert_eq!(back.keys().collect::<Vec<_>>(), state.keys().collect::<Vec<_>>());
    for (name, t) in &back {
        assert_eq!(t.to_bytes().unwrap(), state[name].to_bytes().unwrap(), "{name}");
    }
    let bad = StateDict::from([("x".to_string(), Tensor::new([1.0]).cast(DType::BF16))]);
    let e = npy::save_npz(dir.file("3.npz"), &bad).unwrap_err().to_string();
    assert!(e.contains("tensor \"x\": bfloat16 has no place in a .npy file"), "{e}");
}

// ---- sharded safetensors, and what is none of these

#[test]
fn a_sharded_model_is_one_state() {
    let dir = Temp::new("sharded");
    let one = |name: &str, v: f32| StateDict::from([(name.to_string(), Tensor::from_vec([v], [1]))]);
    safetensors::save(dir.file("model-1.safetensors"), &one("a", 1.0)).unwrap();
    safetensors::save(dir.file("model-2.safetensors"), &one("b", 2.0)).unwrap();
    std::fs::copy(corpus("index/model.safetensors.index.json"), dir.file("index.json")).unwrap();
    let state = load(dir.file("index.json")).unwrap();
    assert_eq!(state["a"].item::<f32>().unwrap() + state["b"].item::<f32>().unwrap(), 3.0);

    let map = r#"{"weight_map": {"a": "model-1.safetensors", "x": "model-1.safetensors", "c": "model-3.safetensors"}}"#;
    std::fs::write(dir.file("index.json"), map).unwrap();
    let both = StateDict::from_iter(one("a", 1.0).into_iter().chain(one("c", 1.0)).chain(one("d", 1.0)));
    safetensors::save(dir.file("model-1.safetensors"), &both).unwrap();
    let e = load(dir.file("index.json")).unwrap_err().to_string();
    for part in [
        "model-1.safetensors has no tensor \"x\"",
        "tensor \"c\" is in model-1.safetensors too, the index puts it in model-3.safetensors",
        "tensor \"d\" of model-1.safetensors is not in the index",
        "model-3.safetensors: No such file",
    ] {
        assert!(e.contains(part), "{part} in {e}");
    }
    for file in ["../x", "/etc/passwd", "a/b", "", ".."] {
        std::fs::write(dir.file("index.json"), format!(r#"{{"weight_map": {{"a": "{file}"}}}}"#)).unwrap();
        let e = load(dir.file("index.json")).unwrap_err().to_string();
        assert!(e.contains("the file of \"a\" is not the name of a file beside the index"), "{e}");
    }
}

#[test]
fn a_file_of_no_known_format_is_an_error() {
    let dir = Temp::new("unknown");
    for (name, bytes) in [("empty", &b""[..]), ("text", b"hello"), ("pickle", b"\x80\x04K\x01.")] {
        std::fs::write(dir.file(name), bytes).unwrap();
        let e = load(dir.file(name)).unwrap_err().to_string();
        assert!(e.contains("this is not safetensors") && e.contains(name) && e.contains("files.rs"), "{e}");
    }
    assert!(load(dir.0.clone()).unwrap_err().to_string().contains("directory"));
}

#[test]
fn matrices_of_a_file_are_rows_of_one_tensor() {
    let dir = Temp::new("rows");
    let path = dir.file("w.safetensors");
    let of = |from: usize, dims: [usize; 2]| {
        let n = dims[0] * dims[1];
        Tensor::from_vec(&counted(from + n)[from..], dims)
    };
    let state = [
        ("a", of(0, [2, 4])),
        ("b", of(8, [3, 8])),
        ("c", of(32, [2, 4])),
        ("d", of(40, [1, 2])),
        ("e", of(42, [2, 4])),
        ("f", of(50, [2, 4]).cast(DType::F16)),
    ];
    let state: StateDict = state.into_iter().map(|(n, t)| (n.to_string(), t)).collect();
    safetensors::save(&path, &state).unwrap();
    let file = safetensors::SafeTensors::open(&path).unwrap();
    let rows = |names: &[&str]| file.rows(&names.iter().map(|n| n.to_string()).collect::<Vec<_>>()).unwrap();
    let (all, begins) = rows(&["c", "a"]).unwrap();
    assert_eq!((all.dims().unwrap(), begins), (vec![10, 4], vec![8, 0]));
    assert_eq!(all.at(8).to_vec::<f32>().unwrap(), [32.0, 33.0, 34.0, 35.0]);
    let (all, begins) = rows(&["b"]).unwrap();
    assert_eq!((all.dims().unwrap(), begins), (vec![3, 8], vec![0]));
    // half a row between, other columns, another type, none
    for names in [&["a", "e"][..], &["a", "b"], &["a", "f"], &["a", "x"], &[]] {
        assert!(rows(names).is_none(), "{names:?}");
    }
}

#[test]
fn what_is_loaded_is_memory_of_the_file_until_it_is_written_to() {
    let dir = Temp::new("mapped");
    let path = dir.file("w.safetensors");
    safetensors::save(&path, &StateDict::from([("w".to_string(), Tensor::from_vec(counted(4), [4]))]))
        .unwrap();
    let before = std::fs::read(&path).unwrap();
    on_interp(|| {
        let w = &load(&path).unwrap()["w"];
        w.assign(w + 1.0);
        // the file may even go while it is in use
        std::fs::remove_file(&path).unwrap();
        assert_eq!(w.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
    });
    std::fs::write(&path, &before).unwrap();
    assert_eq!(load(&path).unwrap()["w"].to_vec::<f32>().unwrap(), counted(4));
    // and be replaced by what was loaded from it
    let state = load(&path).unwrap();
    safetensors::save(&path, &state).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), before);
}
