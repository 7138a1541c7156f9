//! Data sets and batches.
//!
//! 1. [`find`]: where the shipped data is;
//! 2. [`idx`]: the file format of MNIST and its relatives;
//! 3. [`Mnist`]: images and labels as tensors;
//! 4. [`Batches`]: which samples are used together, shuffled by a seed.

mod batches;
pub mod idx;
mod mnist;

pub use batches::Batches;
pub use mnist::Mnist;

use frit_tensor::{Error, Result};
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
