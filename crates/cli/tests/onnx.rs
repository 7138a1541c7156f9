//! `frit onnx` as people call it.

use frit::nn::npy;
use frit::onnx::export::{Options, export};
use frit::onnx::wire::Writer;
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
    frit_with(words, cache, &[])
}
fn frit_with(words: &[&str], cache: &Path, env: &[(&str, &str)]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_frit"));
    command.arg("onnx").args(words).env("FRIT_CACHE", cache).envs(env.iter().copied());
    let done = command.output().unwrap();
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
        (&["run", &model, "stray"], "stray is no option"),
        (&["check"], "no folder with a model.onnx is there"),
        (&["check", "nowhere", "--rtol"], "--rtol wants a value"),
        (&["check", "nowhere", "--rtol", "little"], "little is not a number"),
        (&["run", &model, "--bench=3"], "there is no option --bench"),
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
fn kernels_say_which_nodes_they_belong_to() {
    let dir = Folder::new("names");
    let [w, v] = [Tensor::ones([64, 64]), Tensor::ones([64, 64])].map(|t| t.realize().unwrap());
    let x = Tensor::zeros([64, 64]);
    let model = export(&[&x], &Options::default(), |x| vec![x[0].matmul(&w).relu().matmul(&v)]).unwrap();
    let path = dir.file("m.onnx");
    std::fs::write(&path, model).unwrap();
    // recorded, replayed: the names stay
    let trace = dir.file("trace.json");
    let env = [("FRIT_DEBUG", "2"), ("FRIT_DEVICE", "CPU"), ("FRIT_PROFILE", &trace)];
    let (ok, text) = frit_with(&["run", &path, "--bench"], &dir.0, &env);
    assert!(ok, "{text}");
    let lines: Vec<&str> = text.lines().filter(|l| l.contains(" GFLOP/s ")).collect();
    for name in ["MatMul \"MatMul_0\" + Relu \"Relu_0\"", "MatMul \"output0\""] {
        let named = lines.iter().filter(|l| l.ends_with(&format!("MB in use  {name}"))).count();
        assert!(named > 5, "{name} is in {named} of {} lines: {}", lines.len(), lines[0]);
    }
    assert!(std::fs::read_to_string(&trace).unwrap().contains("MatMul \\\"MatMul_0\\\" + Relu"));
}

#[test]
fn inspecting_says_what_a_run_costs() {
    let dir = Folder::new("inspect");
    let w = Tensor::ones([64, 32]).realize().unwrap();
    let x = Tensor::zeros([8, 64]);
    let model = export(&[&x], &Options::default(), |x| vec![x[0].matmul(&w).relu()]).unwrap();
    let path = dir.file("m.onnx");
    std::fs::write(&path, model).unwrap();
    let (ok, text) = frit(&["inspect", &path], &dir.0);
    assert!(ok, "{text}");
    let row = text.lines().find(|l| l.trim_start().starts_with("MatMul")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    // 2 * 8 * 64 * 32 operations and the Relu's, of 2048 parameters
    assert_eq!(cells[..4], ["MatMul", "1", "2048", "0.01"], "{text}");
    assert!(cells[4] == "0.03" && text.contains("a run: 1 kernels") && text.contains("MB at most"), "{text}");
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

#[test]
fn options_take_their_values_either_way() {
    let dir = Folder::new("either");
    let sets = dir.0.join("case/test_data_set_0");
    std::fs::create_dir_all(&sets).unwrap();
    let model = export(&[&Tensor::ones([1])], &Options::default(), |x| vec![&x[0] + 1.0]).unwrap();
    std::fs::write(dir.0.join("case/model.onnx"), model).unwrap();
    let stored = |file: &str, v: f32| {
        let tensor = Writer::new().ints(1, &[1]).int(2, 1).bytes(9, v.to_le_bytes());
        std::fs::write(sets.join(file), tensor.into_bytes()).unwrap();
    };
    stored("input_0.pb", 1.0);
    // half a unit off
    stored("output_0.pb", 2.5);
    let case = dir.file("case");
    for (most, agrees) in [("0.6", true), ("0.1", false)] {
        let joined = format!("--atol={most}");
        for words in [vec!["check", &case, "--atol", most], vec!["check", "--rtol=0", &joined, &case]] {
            let (ok, text) = frit(&words, &dir.0);
            assert_eq!(ok, agrees, "{words:?}: {text}");
            assert!(text.contains(if agrees { "all 1 agree" } else { "1 of 1 differ" }), "{words:?}: {text}");
        }
    }
    let model = classifier(&dir);
    let (ok, text) = frit(&["run", &model, "--top=1", "--input=image=random"], &dir.0);
    assert!(ok && text.contains('%'), "{text}");
}
