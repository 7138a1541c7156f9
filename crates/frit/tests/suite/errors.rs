//! What people see when something does not fit, word for word: the call, the shapes, the line of their program. Nothing
//! panics, and the process carries on.

use crate::support::{child, is_child, on};
use frit::nn::safetensors;
use frit::{DType, Device, Error, Result, Tensor};

/// The message of an error.
#[track_caller]
fn message<T>(r: Result<T>) -> String {
    match r {
        Ok(_) => panic!("it worked"),
        Err(e) => e.to_string(),
    }
}

/// The message of a failed tensor, which is also what computing something made of it says.
#[track_caller]
fn failed(t: Tensor) -> String {
    let early = message(t.check());
    let late = message((t.relu() * 2.0).sum(..).to_vec::<f32>());
    assert_eq!(early, late, "the first error stays");
    early
}

/// What a message says about a line of this file.
fn at(text: &str, line: u32) -> String {
    format!("{text} at {}:{line}", file!())
}

fn works() {
    assert_eq!((Tensor::new([1.0, 2.0]) + 1.0).to_vec::<f32>().unwrap(), [2.0, 3.0]);
}

#[test]
fn bad_shapes_axes_and_indices() {
    on("INTERP", || {
        let (a, b) = (Tensor::zeros([2, 3]), Tensor::zeros([4, 5]));
        let cases = [
            (failed(&a + &b), line!(), "add: shapes [2, 3] and [4, 5] do not broadcast (2 != 4)"),
            (failed(a.matmul(&b)), line!(), "matmul: shapes [2, 3] and [4, 5] do not contract (3 != 4)"),
            (failed(a.sum(2)), line!(), "sum: axis 2 is out of range for 2 dims (-2..=1)"),
            (failed(a.softmax(-3)), line!(), "softmax: axis -3 is out of range for 2 dims (-2..=1)"),
            (failed(a.reshape([-1, -1])), line!(), "reshape: more than one -1 in [-1, -1]"),
            (failed(a.reshape([7])), line!(), "reshape: shape [2, 3] has 6 elements and does not fit [7]"),
            (failed(a.at((0, 3))), line!(), "index: index 3 is out of range for size 3 of shape [2, 3]"),
            (failed(a.permute([0, 0])), line!(), "permute: axis 0 is given twice"),
        ];
        for (got, line, want) in cases {
            assert_eq!(got, at(want, line));
        }
        works();
    });
}

#[test]
fn bad_types_and_literals() {
    on("INTERP", || {
        let bytes = Tensor::from_vec(vec![1u8, 2], [2]);
        let far = Tensor::from_vec(vec![1i64], [1]);
        let cases = [
            (failed(bytes.maximum(300)), line!(), "maximum: literal 300 does not fit uint8 (0..=255)"),
            (failed(bytes.minimum(1000)), line!(), "minimum: literal 1000 does not fit uint8 (0..=255)"),
            (failed(far.cast(DType::F32) & 1), line!(), "bitwise_and: is not defined for float32"),
        ];
        for (got, line, want) in cases {
            assert_eq!(got, at(want, line));
        }
        works();
    });
}

#[test]
fn an_index_in_data_that_is_out_of_range() {
    for device in ["INTERP", "INTERP:GPU", "CPU"] {
        on(device, || {
            let x = Tensor::new([1.0, 2.0, 3.0]);
            let (y, line) = (x.at(Tensor::new([0, 3])) * 2.0, line!());
            let (got, read) = (message(y.to_vec::<f32>()), line!());
            let site = at("index", line);
            assert_eq!(
                got,
                at(&format!("to_vec: {site}: an index in the data is out of range"), read),
                "{device}"
            );
            let (table, line) = (Tensor::zeros([4, 2]).contiguous().embedding(&Tensor::new([-5])), line!());
            let got = message(table.realize());
            let site = at("embedding", line);
            assert!(
                got.starts_with(&format!("realize: {site}: an index in the data is out of range")),
                "{got}"
            );
            works();
            assert_eq!(x.at(Tensor::new([0, -1])).to_vec::<f32>().unwrap(), [1.0, 3.0], "{device}");
        });
    }
}

#[test]
fn tensors_on_two_devices_and_devices_that_are_not_there() {
    let here = on("INTERP", || Tensor::new([1.0, 2.0]));
    let there = on("CPU", || Tensor::new([1.0, 2.0]));
    let (got, line) = (failed(&here + &there), line!());
    assert_eq!(got, at("add: operands are on INTERP and CPU; move one with to(\"INTERP\")", line));
    assert_eq!((&here + there.to("INTERP")).to_vec::<f32>().unwrap(), [2.0, 4.0]);
    let known = "there is no device \"TPU\": expected one of";
    let (got, line) = (message(Device::scope("TPU", || ())), line!());
    assert!(got.starts_with(&format!("device: {known}")) && got.ends_with(&at("", line)), "{got}");
    let (got, line) = (failed(here.to("TPU")), line!());
    assert!(got.contains(known) && got.ends_with(&at("", line)), "{got}");
    on("INTERP", works);
}

#[test]
fn gradients_that_are_not_there() {
    on("INTERP", || {
        let (x, y) = (Tensor::new([1.0, 2.0]), Tensor::new([3.0]));
        let loss = x.square().sum(..);
        let (got, line) = (message(loss.gradient(&[&y])), line!());
        assert_eq!(
            got,
            at("gradient: does not depend on target 0 of shape [1] (gradient_or_zeros gives zeros)", line)
        );
        let h = x.exp();
        let (_, cut) = (h.realize().unwrap(), line!());
        let (got, line) = (message(h.sum(..).gradient(&[&x])), line!());
        let want = format!(
            "gradient: realised at {}:{cut} before its gradient was built (target 0, shape [2])",
            file!()
        );
        assert_eq!(got, at(&want, line));
        let (got, line) = (message(Tensor::ones([2]).sum(..).backward()), line!());
        assert_eq!(got, at("backward: depends on no tensor marked with requires_grad", line));
        works();
    });
}

/// A file of bytes that is gone when this is.
struct File(std::path::PathBuf);

impl File {
    fn new(name: &str, bytes: &[u8]) -> File {
        let path = std::env::temp_dir().join(format!("frit-suite-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).expect("a temporary file");
        File(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn state_files_that_lie() {
    on("INTERP", || {
        let file = |header: &str, data: usize| {
            let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
            bytes.extend(header.as_bytes());
            bytes.extend(vec![0; data]);
            bytes
        };
        let w = r#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
        let cases: [(&str, Vec<u8>, &str); 5] = [
            ("short", vec![1, 2, 3], "too few"),
            ("long-header", file(w, 8)[..30].to_vec(), "header claims"),
            ("truncated", file(w, 7), "tensor \"w\": bytes 0..8 are not inside the 7 bytes of data"),
            ("wrong-size", file(&w.replace("[2]", "[3]"), 8), "tensor \"w\""),
            ("not-json", file("{\"w\":", 8), "header"),
        ];
        for (name, bytes, want) in cases {
            let file = File::new(name, &bytes);
            let (got, line) = (message(safetensors::load(&file.0)), line!());
            let path = file.0.display().to_string();
            assert!(
                got.contains(want) && got.contains(&path) && got.ends_with(&at("", line)),
                "{name}: {got}"
            );
        }
        works();
    });
}

#[test]
fn a_bad_environment_is_an_error_that_names_it() {
    let cases: [(&[(&str, &str)], &str); 10] = [
        // what this program does not use is looked at as well
        (&[("FRIT_DEVICE", "INTERP"), ("FRIT_THREADS", "0")], "FRIT_THREADS=0 is not valid"),
        (
            &[("FRIT_DEVICE", "CPU"), ("FRIT_BEAM_SECONDS", "soon")],
            "FRIT_BEAM_SECONDS=soon: expected a number",
        ),
        (&[("FRIT_DEVICE", "CPU"), ("FRIT_INTERP_SEED", "x")], "FRIT_INTERP_SEED=x is not valid"),
        (&[("FRIT_DEVICE", "TOASTER")], "there is no device \"TOASTER\": expected one of"),
        (&[("FRIT_DEBUG", "lots")], "FRIT_DEBUG=lots: expected a number from 0 to 6"),
        (&[("FRIT_SPEC", "4")], "FRIT_SPEC=4: expected a number from 0 to 3"),
        (
            &[("FRIT_DEVICE", "CPU"), ("FRIT_THREADS", "none")],
            "FRIT_THREADS=none is not valid: expected a number of threads",
        ),
        (&[("FRIT_DEVICE", "CPU"), ("FRIT_CPU", "llvm")], "FRIT_CPU=llvm is not valid: expected native or c"),
        (
            &[("FRIT_DEVICE", "CPU"), ("FRIT_ISA", "mmx")],
            "FRIT_ISA=mmx is not valid: expected sse2, avx2, avx512 or amx",
        ),
        (
            &[("FRIT_DEVICE", "CPU:C"), ("FRIT_CACHE", "off"), ("FRIT_CC", "no-such-compiler")],
            "there is no C compiler FRIT_CC=no-such-compiler",
        ),
    ];
    for (env, want) in cases {
        let text = child("errors::child_with_a_bad_environment", env);
        assert!(text.contains(want), "{env:?} says\n{text}\nwithout\n{want}");
    }
    let text = child(
        "errors::child_with_a_bad_environment",
        &[("FRIT_CPU", "c"), ("FRIT_DEVICE", "CPU"), ("FRIT_CACHE", "off"), ("PATH", "/nowhere")],
    );
    assert!(text.contains("CPU kernels need a C compiler") && text.contains("/nowhere"), "{text}");
}

/// Computes, says why not, and carries on.
#[test]
fn child_with_a_bad_environment() {
    if !is_child() {
        return;
    }
    let e: Error = (Tensor::new([1.0, 2.0]) + 1.0).to_vec::<f32>().expect_err("the environment is bad");
    println!("\nsays: {e}");
    let _ = (Tensor::new([1.0, 2.0]) + 1.0).to_vec::<f32>();
    let _ = Device::scope("NULL", || Tensor::ones([3]).realize());
}
