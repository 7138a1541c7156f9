//! A folder of files, one folder below it for each class.

use super::{Dataset, Sample};
use frit_tensor::{Error, Result, Tensor};
use std::path::{Path, PathBuf};

/// ```text
/// animals/cat/1.png, animals/cat/2.jpg, animals/dog/1.png  ->  classes ["cat", "dog"], labels 0, 0, 1
/// ```
///
/// Files are listed once, in the order of their names, and decoded by a function when a batch needs them: give it to a
/// [`Loader`](super::Loader) with some threads. No format of pictures is read here; the `image` crate reads them in a few
/// lines, and what the function gives is batched as any [`Sample`] is:
///
/// ```no_run
/// # use frit_nn::data::{Dataset, ImageFolder};
/// # use frit_tensor::Result;
/// # fn rgb(path: &std::path::Path, rows: usize, cols: usize) -> Result<Vec<u8>> { Ok(vec![]) }
/// let folder = ImageFolder::open("animals", |path| rgb(path, 224, 224))?; // image::open(path)?.resize_exact(..).into_rgb8()
/// let (bytes, labels) = folder.batch(&[0, 1])?; // (2, 224 * 224 * 3) and (2,)
/// let images = bytes.reshape([-1, 224, 224, 3]).permute([0, 3, 1, 2]).float() / 255.0;
/// # Ok::<(), frit_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ImageFolder<F> {
    /// The names of the folders, sorted; a label is a place in this list.
    pub classes: Vec<String>,
    /// Each file and its label.
    pub files: Vec<(PathBuf, i32)>,
    decode: F,
}

impl<S: Sample, F: Fn(&Path) -> Result<S> + Send + Sync> ImageFolder<F> {
    /// The `.png`, `.jpg` and `.jpeg` files of the folders in `root`, and the function that makes a sample of one, which may
    /// be called from several threads.
    pub fn open(root: impl AsRef<Path>, decode: F) -> Result<ImageFolder<F>> {
        let root = root.as_ref();
        let mut folder = ImageFolder { classes: Vec::new(), files: Vec::new(), decode };
        for class in sorted(root)?.into_iter().filter(|p| p.is_dir()) {
            let label = folder.classes.len() as i32;
            folder.classes.push(class.file_name().unwrap_or_default().to_string_lossy().into_owned());
            folder.files.extend(sorted(&class)?.into_iter().filter(|p| is_image(p)).map(|p| (p, label)));
        }
        match folder.files.is_empty() {
            true => Err(Error::elsewhere("data", format!("{}: no folder with images in it", root.display()))),
            false => Ok(folder),
        }
    }
}

fn is_image(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    matches!(extension.as_str(), "png" | "jpg" | "jpeg")
}

fn sorted(folder: &Path) -> Result<Vec<PathBuf>> {
    let fail = |e: std::io::Error| Error::elsewhere("data", format!("{}: {e}", folder.display()));
    let entries = std::fs::read_dir(folder).map_err(fail)?;
    let mut paths =
        entries.map(|e| e.map(|e| e.path())).collect::<std::io::Result<Vec<_>>>().map_err(fail)?;
    paths.sort();
    Ok(paths)
}

impl<S: Sample, F: Fn(&Path) -> Result<S> + Send + Sync> Dataset for ImageFolder<F> {
    /// The samples together, and int32 `(batch,)`.
    type Batch = (S::Batch, Tensor);
    fn len(&self) -> usize {
        self.files.len()
    }
    fn batch(&self, samples: &[usize]) -> Result<Self::Batch> {
        let sample = |i: &usize| match self.files.get(*i) {
            // whatever the function says, the file is named
            Some((path, label)) => {
                let image = (self.decode)(path).map_err(|e| e.within(&path.display().to_string()))?;
                Ok((image, *label))
            }
            None => Err(Error::elsewhere("batch", format!("sample {i} of {}", self.files.len()))),
        };
        <(S, i32)>::batch(samples.iter().map(sample).collect::<Result<_>>()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of six bytes as a picture of one row.
    fn decode(path: &Path) -> Result<Tensor> {
        let bytes = std::fs::read(path).map_err(|e| Error::elsewhere("data", e.to_string()))?;
        match bytes.len() {
            6 => Ok(Tensor::from_slice(&bytes).reshape([1, 2, 3]).permute([2, 0, 1]).float() / 255.0),
            n => Err(Error::elsewhere("data", format!("{n} bytes"))),
        }
    }

    #[test]
    fn folders_are_classes_and_bad_files_are_named() {
        let root = std::env::temp_dir().join(format!("frit-folder-{}", std::process::id()));
        for (class, value) in [("b", 0u8), ("a", 255)] {
            std::fs::create_dir_all(root.join(class)).unwrap();
            std::fs::write(root.join(class).join("1.png"), [value, 0, value, value, 0, value]).unwrap();
        }
        std::fs::write(root.join("a/notes.txt"), "not an image").unwrap();
        let folder = ImageFolder::open(&root, decode).unwrap();
        assert_eq!((folder.classes.clone(), folder.len()), (vec!["a".to_string(), "b".to_string()], 2));
        let (x, y) = folder.batch(&[1, 0]).unwrap();
        assert_eq!(x.shape(), [2, 3, 1, 2]);
        assert_eq!(y.to_vec::<i32>().unwrap(), [1, 0]);
        assert_eq!(x.to_vec::<f32>().unwrap()[6..], [1.0, 1.0, 0.0, 0.0, 1.0, 1.0]);
        std::fs::write(root.join("a/2.png"), "not an image").unwrap();
        let e = ImageFolder::open(&root, decode).unwrap().batch(&[1]).unwrap_err().to_string();
        assert!(e.contains("2.png") && e.contains("12 bytes"), "{e}");
        assert!(folder.batch(&[2]).is_err());
        std::fs::remove_dir_all(&root).unwrap();
        assert!(ImageFolder::open(&root, decode).is_err());
    }
}
