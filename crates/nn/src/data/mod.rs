//! Data sets and batches.
//!
//! 1. [`find`]: where the shipped data is;
//! 2. [`idx`]: the file format of MNIST and its relatives;
//! 3. [`Mnist`], [`Cifar10`], [`ImageFolder`]: images and labels as tensors;
//! 4. [`Dataset`], [`Samples`]: data sets of one's own;
//! 5. [`Batches`]: which samples are used together, shuffled by a seed;
//! 6. [`Loader`]: batches made ahead by threads.

mod batches;
mod cifar;
mod dataset;
mod folder;
pub mod idx;
mod loader;
mod mnist;

pub use batches::Batches;
pub use cifar::Cifar10;
pub use dataset::{Dataset, Sample, Samples};
pub use folder::ImageFolder;
pub use loader::{Epoch, Loader};
pub use mnist::Mnist;

use frit_tensor::{Error, Result, Tensor};
use std::path::{Path, PathBuf};

/// The folder `name` of the data directory: of `$FRIT_DATA` if it is set, else of the first `data` folder that has it
/// in the current directory, in the directory of the package being run, or above either.
pub fn find(name: &str) -> Result<PathBuf> {
    if let Some(root) = std::env::var_os("FRIT_DATA") {
        let folder = Path::new(&root).join(name);
        return match folder.is_dir() {
            true => Ok(folder),
            false => Err(Error::elsewhere("data", format!("FRIT_DATA has no folder {}", folder.display()))),
        };
    }
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let starts: Vec<PathBuf> = std::env::current_dir().ok().into_iter().chain(package).collect();
    let folders = || starts.iter().flat_map(|s| s.ancestors()).map(|dir| dir.join("data").join(name));
    folders().find(|folder| folder.is_dir()).ok_or_else(|| {
        let starts: Vec<String> = starts.iter().map(|s| s.display().to_string()).collect();
        let message = format!("no folder data/{name} in or above {}; set FRIT_DATA", starts.join(" or "));
        Error::elsewhere("data", message)
    })
}

/// Some images of `dims` bytes each as float32 from 0 to 1, and their labels as int32.
#[track_caller]
fn images_and_labels(
    images: &[u8],
    labels: &[u8],
    dims: [usize; 3],
    samples: &[usize],
) -> Result<(Tensor, Tensor)> {
    if let Some(i) = samples.iter().find(|i| **i >= labels.len()) {
        return Err(Error::new("batch", format!("sample {i} of {}", labels.len())));
    }
    let [channels, rows, cols] = dims;
    let size = channels * rows * cols;
    let pixels = samples.iter().flat_map(|i| &images[i * size..(i + 1) * size]);
    let pixels: Vec<f32> = pixels.map(|p| *p as f32 / 255.0).collect();
    let labels: Vec<i32> = samples.iter().map(|i| labels[*i] as i32).collect();
    let images = Tensor::from_vec(pixels, [samples.len(), channels, rows, cols]);
    let labels = Tensor::from_slice(&labels);
    images.check().and(labels.check()).map(|()| (images, labels))
}
