//! CIFAR-10 in its binary form: a label and 3 x 32 x 32 bytes for each image.

use super::Dataset;
use frit_tensor::{Error, Result, Tensor};
use std::io::Read;
use std::path::Path;

/// Rows and columns of an image.
pub const SIDE: usize = 32;
const IMAGE: usize = 3 * SIDE * SIDE;

/// Images and labels of one half of CIFAR-10, in host memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cifar10 {
    /// Red, green and blue planes of 32 rows of 32, image after image.
    pub images: Vec<u8>,
    /// What each image shows, 0 to 9.
    pub labels: Vec<u8>,
}

impl Cifar10 {
    /// The 50,000 training images: `data_batch_1.bin` to `data_batch_5.bin` of a folder.
    pub fn train(folder: &Path) -> Result<Cifar10> {
        let mut all = Cifar10::default();
        for i in 1..=5 {
            all.read(&folder.join(format!("data_batch_{i}.bin")))?;
        }
        Ok(all)
    }
    /// The 10,000 test images: `test_batch.bin` of a folder.
    pub fn test(folder: &Path) -> Result<Cifar10> {
        let mut all = Cifar10::default();
        all.read(&folder.join("test_batch.bin"))?;
        Ok(all)
    }
    /// Adds the images of one file.
    pub fn read(&mut self, path: &Path) -> Result<()> {
        let file = std::fs::File::open(path).map_err(|e| e.to_string());
        file.and_then(|f| self.decode(std::io::BufReader::new(f)))
            .map_err(|e| Error::elsewhere("data", format!("{}: {e}", path.display())))
    }
    /// Adds the images of a stream; of one that is damaged, none.
    pub fn decode(&mut self, mut stream: impl Read) -> std::result::Result<(), String> {
        let (images, labels) = (self.images.len(), self.labels.len());
        let outcome = self.append(&mut stream);
        if outcome.is_err() {
            self.images.truncate(images);
            self.labels.truncate(labels);
        }
        outcome
    }
    fn append(&mut self, stream: &mut impl Read) -> std::result::Result<(), String> {
        let mut record = Vec::with_capacity(1 + IMAGE);
        loop {
            record.clear();
            stream.take(1 + IMAGE as u64).read_to_end(&mut record).map_err(|e| e.to_string())?;
            match record.split_first() {
                None => return Ok(()),
                Some((label, _)) if *label > 9 => return Err(format!("a label {label}, expected 0 to 9")),
                Some((_, pixels)) if pixels.len() < IMAGE => {
                    return Err(format!("truncated: {} of {IMAGE} bytes of an image", pixels.len()));
                }
                Some((label, pixels)) => {
                    self.labels.push(*label);
                    self.images.extend_from_slice(pixels);
                }
            }
        }
    }
    /// How many images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }
    /// No images at all.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }
}

impl Dataset for Cifar10 {
    /// Float32 `(batch, 3, 32, 32)` from 0 to 1, and int32 `(batch,)`.
    type Batch = (Tensor, Tensor);
    fn len(&self) -> usize {
        self.labels.len()
    }
    fn batch(&self, samples: &[usize]) -> Result<(Tensor, Tensor)> {
        super::images_and_labels(&self.images, &self.labels, [3, SIDE, SIDE], samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(label: u8, fill: u8) -> Vec<u8> {
        let mut r = vec![fill; 1 + IMAGE];
        r[0] = label;
        r
    }

    #[test]
    fn records_become_images_and_labels() {
        let mut c = Cifar10::default();
        c.decode(&[record(3, 255), record(9, 0)].concat()[..]).unwrap();
        let (x, y) = c.batch(&[1, 0]).unwrap();
        assert_eq!(x.shape(), [2, 3, 32, 32]);
        assert_eq!(y.to_vec::<i32>().unwrap(), [9, 3]);
        assert_eq!(x.to_vec::<f32>().unwrap()[IMAGE - 1..IMAGE + 1], [0.0, 1.0]);
        assert!(c.batch(&[2]).is_err());
    }

    #[test]
    fn damaged_files_are_errors_and_add_nothing() {
        let mut c = Cifar10::default();
        let good = record(1, 7);
        assert!(c.decode(&[&good[..], &good[..100]].concat()[..]).unwrap_err().contains("99 of 3072 bytes"));
        assert!(c.decode(&[good.clone(), record(10, 0)].concat()[..]).unwrap_err().contains("a label 10"));
        assert!(c.is_empty() && c.images.is_empty());
        let e = Cifar10::train(Path::new("/no/such/folder")).unwrap_err().to_string();
        assert!(e.contains("/no/such/folder/data_batch_1.bin"), "{e}");
    }
}
