//! The MNIST digits, and data sets in the same format (Fashion-MNIST).

use super::{Dataset, idx};
use frit_tensor::{Error, Result, Tensor};
use std::path::Path;

/// Images and labels of one half of MNIST (or of a data set in its format), in host memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Mnist {
    /// Grey values, image after image, row-major.
    pub images: Vec<u8>,
    /// What each image shows, 0 to 9.
    pub labels: Vec<u8>,
    /// Rows of an image.
    pub rows: usize,
    /// Columns of an image.
    pub cols: usize,
}

impl Mnist {
    /// The 60,000 training images that come with frit (see [`find`](super::find)).
    pub fn train() -> Result<Mnist> {
        Mnist::open(&super::find("mnist")?, "train")
    }
    /// The 10,000 test images that come with frit.
    pub fn test() -> Result<Mnist> {
        Mnist::open(&super::find("mnist")?, "t10k")
    }
    /// `{part}-images-idx3-ubyte` and `{part}-labels-idx1-ubyte` of a folder, gzipped (`.gz`) or not: those of
    /// Fashion-MNIST have the same names.
    pub fn open(folder: &Path, part: &str) -> Result<Mnist> {
        let path = |name: &str| {
            let plain = folder.join(format!("{part}-{name}-ubyte"));
            if plain.is_file() { plain } else { plain.with_extension("gz") }
        };
        let (images_path, labels_path) = (path("images-idx3"), path("labels-idx1"));
        let images = idx::read(&images_path)?;
        let labels = idx::read(&labels_path)?;
        let fail =
            |path: &Path, what: String| Err(Error::elsewhere("data", format!("{}: {what}", path.display())));
        let [count, rows, cols] = images.dims[..] else {
            return fail(&images_path, format!("dims {:?}, expected images, rows and columns", images.dims));
        };
        if labels.dims != [count] {
            return fail(
                &labels_path,
                format!("dims {:?}, expected a label for each of {count} images", labels.dims),
            );
        }
        if let Some(label) = labels.values.iter().find(|l| **l > 9) {
            return fail(&labels_path, format!("a label {label}, expected 0 to 9"));
        }
        Ok(Mnist { images: images.values, labels: labels.values, rows, cols })
    }
    /// How many images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }
    /// No images at all.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }
    /// Some images as float32 `(batch, 1, rows, cols)` from 0 to 1, and their labels as int32 `(batch,)`.
    #[track_caller]
    pub fn batch(&self, samples: &[usize]) -> Result<(Tensor, Tensor)> {
        let _c = frit_tensor::call("batch");
        super::images_and_labels(&self.images, &self.labels, [1, self.rows, self.cols], samples)
    }
}

impl Dataset for Mnist {
    /// As [`Mnist::batch`].
    type Batch = (Tensor, Tensor);
    fn len(&self) -> usize {
        self.labels.len()
    }
    fn batch(&self, samples: &[usize]) -> Result<(Tensor, Tensor)> {
        Mnist::batch(self, samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_digits_are_all_there() {
        let (train, test) = (Mnist::train().unwrap(), Mnist::test().unwrap());
        assert_eq!((train.len(), train.rows, train.cols), (60_000, 28, 28));
        assert_eq!((test.len(), test.labels[..5].to_vec()), (10_000, vec![7, 2, 1, 0, 4]));
        let sum: u64 = test.images.iter().map(|p| *p as u64).sum();
        assert_eq!(sum, 264_923_200);
    }
}
