//! The MNIST digits.

use super::idx;
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
    /// `{part}-images-idx3-ubyte.gz` and `{part}-labels-idx1-ubyte.gz` of a folder.
    pub fn open(folder: &Path, part: &str) -> Result<Mnist> {
        let images_path = folder.join(format!("{part}-images-idx3-ubyte.gz"));
        let labels_path = folder.join(format!("{part}-labels-idx1-ubyte.gz"));
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
        if let Some(i) = samples.iter().find(|i| **i >= self.len()) {
            return Err(Error::new("batch", format!("sample {i} of {}", self.len())));
        }
        let size = self.rows * self.cols;
        let pixels = samples.iter().flat_map(|i| &self.images[i * size..(i + 1) * size]);
        let images: Vec<f32> = pixels.map(|p| *p as f32 / 255.0).collect();
        let labels: Vec<i32> = samples.iter().map(|i| self.labels[*i] as i32).collect();
        let images = Tensor::from_vec(images, [samples.len(), 1, self.rows, self.cols]);
        let labels = Tensor::from_slice(&labels);
        images.check().and(labels.check()).map(|()| (images, labels))
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
