//! `frit onnx` as people call it.

use frit::nn::npy;
use frit::onnx::export::{Options, export};
use frit::*;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder that goes away with it.
struct Folder(PathBuf);
impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("frit-cli-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_string()
    }
}
impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// Whether the command succeeded, and all it printed.
fn frit(words: &[&str], cache: &Path) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_frit"));
    let done = command.arg("onnx").args(words).env("FRIT_CACHE", cache).output().unwrap();
    let text = [done.stdout, done.stderr].concat();
    (done.status.success(), String::from_utf8(text).unwrap())
}

/// A model that says how red, green and blue a picture is.
fn classifier(dir: &Folder) -> String {
    let options = Options { inputs: vec!["image".into()], ..Options::default() };
    let x = Tensor::zeros([1, 3, 8, 8]);
    let model = export(&[&x], &options, |x| vec![x[0].mean([2, 3]) * 9.0]).unwrap();
    std::fs::write(dir.file("colours.onnx"), model).unwrap();
    dir.file("colours.onnx")
}

#[test]
fn a_picture_is_classified() {
    let dir = Folder::new("picture");
    let model = classifier(&dir);
    let green = image::RgbImage::from_pixel(30, 20, image::Rgb([10, 240, 30]));
    green.save(dir.file("green.png")).unwrap();
    std::fs::write(dir.file("labels.txt"), "red\ngreen\nblue\n").unwrap();
    let input = format!("image={}", dir.file("green.png"));
    let words = ["run", &model, "--input", &input, "--labels", &dir.file("labels.txt"), "--top", "2"];
    let (ok, text) = frit(&words, &dir.0);
    assert!(ok, "{text}");
    let first = text.lines().position(|l| l == "output0").unwrap() + 1;
    let lines: Vec<&str> = text.lines().skip(first).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(
        lines[0].ends_with("1  green") && lines[0].contains('%') && lines[1].ends_with("2  blue"),
        "{text}"
    );
}

#[test]
fn bad_arguments_say_what_is_wrong() {
    let dir = Folder::new("bad");
    let model = classifier(&dir);
    let cases: &[(&[&str], &str)] = &[
        (&["run", &model, "--input", "pixels=random"], "no input \"pixels\", the model has image"),
        (&["run", &model, "--input", "image=there.png"], "there.png"),
        (&["run", &model, "--mean", "1,2"], "1,2 is not three numbers"),
        (&["run", &model, "--top"], "--top wants a value"),
        (&["compare", &model, "--want", "x=y.npy"], "no node gives a value \"x\""),
        (&["run", "nowhere.onnx"], "nowhere.onnx"),
    ];
    for (words, wanted) in cases {
        let (ok, text) = frit(words, &dir.0);
        assert!(!ok && text.contains(wanted), "{words:?}: {text}");
    }
    let (ok, text) = frit(&["run", "--help"], &dir.0);
    assert!(ok && text.contains("--labels FILE"), "{text}");
}

#[test]
fn the_first_node_that_differs_is_named() {
    let dir = Folder::new("compare");
    let w = Tensor::ones([4, 4]);
    let x = Tensor::ones([1, 4]);
    let options = Options { outputs: vec!["y".into()], ..Options::default() };
    let model = export(&[&x], &options, |x| vec![x[0].matmul(&w).sin()]).unwrap();
    let path = dir.file("m.onnx");
    std::fs::write(&path, model).unwrap();
    let (ok, text) = frit(&["compare", &path, "--device", "CPU", "--with", "INTERP"], &dir.0);
    assert!(ok && text.contains("all 2 values agree"), "{text}");
    npy::save(dir.file("x.npy"), &x).unwrap();
    npy::save(dir.file("right.npy"), &Tensor::full([1, 4], 4.0)).unwrap();
    npy::save(dir.file("wrong.npy"), &Tensor::full([1, 4], 4.5)).unwrap();
    let input = format!("input0={}", dir.file("x.npy"));
    let stored = |file: &str| {
        let want = format!("MatMul_0={}", dir.file(file));
        frit(&["compare", &path, "--input", &input, "--want", &want], &dir.0)
    };
    let (ok, text) = stored("right.npy");
    assert!(ok && text.contains("all 1 values agree"), "{text}");
    let (ok, text) = stored("wrong.npy");
    let wanted =
        "1 of 1 values differ, the first is \"MatMul_0\" of MatMul \"MatMul_0\": 4 of 4 elements differ";
    assert!(!ok && text.contains(wanted), "{text}");
}

#[test]
fn tuning_searches_and_measures() {
    let dir = Folder::new("tune");
    let x = Tensor::zeros([16, 16]);
    let model = export(&[&x], &Options::default(), |x| vec![x[0].matmul(&x[0])]).unwrap();
    let path = dir.file("m.onnx");
    std::fs::write(&path, model).unwrap();
    let (ok, text) = frit(&["tune", &path, "--width", "1", "--device", "CPU"], &dir.0);
    assert!(ok && text.contains("searched for") && text.contains("ms a run"), "{text}");
    assert!(dir.0.join("tuned").is_dir(), "{text}");
}
