//! A folder of images, one folder below it for each class.

use super::Dataset;
use frit_tensor::{Error, Result, Tensor};
use std::path::{Path, PathBuf};

/// ```text
/// animals/cat/1.png, animals/cat/2.jpg, animals/dog/1.png  ->  classes ["cat", "dog"], labels 0, 0, 1
/// ```
///
/// Files are listed once, in the order of their names, and decoded when a batch needs them: give it to a
/// [`Loader`](super::Loader) with some threads. Every image is scaled to one size and has three colours.
#[derive(Clone, Debug)]
pub struct ImageFolder {
    /// The names of the folders, sorted; a label is a place in this list.
    pub classes: Vec<String>,
    /// Each file and its label.
    pub files: Vec<(PathBuf, i32)>,
    rows: usize,
    cols: usize,
}

impl ImageFolder {
    /// The `.png`, `.jpg` and `.jpeg` files of the folders in `root`, to be scaled to `rows` and `cols`.
    pub fn open(root: &Path, rows: usize, cols: usize) -> Result<ImageFolder> {
        if rows == 0 || cols == 0 {
            return Err(Error::elsewhere("data", format!("images of {rows} rows and {cols} columns")));
        }
        let mut folder = ImageFolder { classes: Vec::new(), files: Vec::new(), rows, cols };
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
    /// Red, green and blue planes.
    fn decode(&self, path: &Path) -> Result<Vec<f32>> {
        let decoded = image::open(path)
            .map_err(|e| Error::elsewhere("data", format!("{}: {e}", path.display())))?
            .resize_exact(self.cols as u32, self.rows as u32, image::imageops::FilterType::Triangle)
            .into_rgb8();
        let plane = |c: usize| decoded.pixels().map(move |p| p.0[c] as f32 / 255.0);
        Ok((0..3).flat_map(plane).collect())
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

impl Dataset for ImageFolder {
    /// Float32 `(batch, 3, rows, cols)` from 0 to 1, and int32 `(batch,)`.
    type Batch = (Tensor, Tensor);
    fn len(&self) -> usize {
        self.files.len()
    }
    fn batch(&self, samples: &[usize]) -> Result<(Tensor, Tensor)> {
        let (mut pixels, mut labels) = (Vec::new(), Vec::new());
        for i in samples {
            let Some((path, label)) = self.files.get(*i) else {
                return Err(Error::elsewhere("batch", format!("sample {i} of {}", self.files.len())));
            };
            pixels.extend(self.decode(path)?);
            labels.push(*label);
        }
        let images = Tensor::from_vec(pixels, [samples.len(), 3, self.rows, self.cols]);
        let labels = Tensor::from_slice(&labels);
        images.check().and(labels.check()).map(|()| (images, labels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_classes_and_bad_files_are_named() {
        let root = std::env::temp_dir().join(format!("frit-folder-{}", std::process::id()));
        for (class, value) in [("b", 0u8), ("a", 255)] {
            std::fs::create_dir_all(root.join(class)).unwrap();
            image::RgbImage::from_pixel(5, 4, image::Rgb([value, 0, value]))
                .save(root.join(class).join("1.png"))
                .unwrap();
        }
        std::fs::write(root.join("a/notes.txt"), "not an image").unwrap();
        let folder = ImageFolder::open(&root, 2, 3).unwrap();
        assert_eq!((folder.classes.clone(), folder.len()), (vec!["a".to_string(), "b".to_string()], 2));
        let (x, y) = folder.batch(&[1, 0]).unwrap();
        assert_eq!(x.shape(), [2, 3, 2, 3]);
        assert_eq!(y.to_vec::<i32>().unwrap(), [1, 0]);
        assert_eq!(x.to_vec::<f32>().unwrap()[18..], [[1.0; 6], [0.0; 6], [1.0; 6]].concat());
        std::fs::write(root.join("a/2.png"), "not an image").unwrap();
        let e = ImageFolder::open(&root, 2, 3).unwrap().batch(&[1]).unwrap_err().to_string();
        assert!(e.contains("2.png"), "{e}");
        std::fs::remove_dir_all(&root).unwrap();
        assert!(ImageFolder::open(&root, 2, 3).is_err());
    }
}
