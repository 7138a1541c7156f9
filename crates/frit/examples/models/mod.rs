//! What the examples of real models share: their files, pictures as tensors.
#![allow(dead_code, reason = "each example needs another part")]

use frit::Tensor;
use frit::onnx::{Session, Value};
use image::RgbImage;
use image::imageops::FilterType;
use std::path::{Path, PathBuf};

pub type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Where fetched files are: `FRIT_MODELS`, or `target/models`.
fn folder() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::env::var_os("FRIT_MODELS").map_or(root.join("target/models"), PathBuf::from)
}

/// The files of an example, fetched with `examples/models.py` where they are not here. Where that is not possible it says so
/// and ends the program: there is nothing to show, and nothing went wrong.
pub fn files<const N: usize>(names: [&str; N]) -> [PathBuf; N] {
    let paths = names.map(|n| folder().join(n));
    if paths.iter().any(|p| !p.exists()) {
        eprintln!("fetching {}", names.join(", "));
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/models.py");
        let done = std::process::Command::new("python3").arg(script).args(names).status();
        if !done.is_ok_and(|s| s.success()) {
            println!("skipped: {} cannot be fetched here (examples/models.py)", names.join(", "));
            std::process::exit(0);
        }
    }
    paths
}

/// The first argument, or a picture that comes along.
pub fn argument_or(file: PathBuf) -> PathBuf {
    std::env::args_os().nth(1).map_or(file, PathBuf::from)
}

/// A picture as numbers `(1, 3, height, width)`: 0 to 1, less the mean, over the deviation.
pub fn pixels(image: &RgbImage, width: u32, height: u32, mean: [f32; 3], std: [f32; 3]) -> Tensor {
    let fitted = image::imageops::resize(image, width, height, FilterType::Triangle);
    let x = Tensor::from_slice(fitted.as_raw()).reshape([height as usize, width as usize, 3]).float() / 255.0;
    let [mean, std] = [mean, std].map(|v| Tensor::from_slice(&v));
    ((x - mean) / std).permute([2, 0, 1]).unsqueeze(0).contiguous()
}

/// The first output for one input.
pub fn first(model: &Session, x: Tensor) -> frit::Result<Tensor> {
    let name = model.inputs()[0].name.clone();
    model.run([(name, Value::from(x.realize()?))])?[0].tensor()
}

/// The mean and deviation of ImageNet's pictures.
pub const IMAGENET: ([f32; 3], [f32; 3]) = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);
