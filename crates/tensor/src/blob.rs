//! Tensors over bytes that someone else owns: files, and values of the program.

use crate::creation::sizes;
use crate::error::{Error, Result, call, fail};
use crate::realize::{self, Blob};
use crate::shape::{Dims, show_all};
use crate::tensor::Tensor;
use frit_uop::{DType, UOp};
use std::path::Path;

impl Tensor {
    /// Elements of any type where they lie, in row-major order and the machine's byte order: nothing is copied and
    /// nothing is read until the tensor is used. It keeps the bytes' owner alive and never writes to it: an assignment
    /// goes to a copy.
    ///
    /// A device that cannot reach this memory gets a copy when the tensor is first used; where the bytes are not
    /// aligned for their type, so does this one.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let samples = Blob::new(vec![1u8, 0, 2, 0, 3, 0]);
    /// let x = Tensor::from_blob(DType::I16, &samples, [3]);
    /// x.set(0, 7);
    /// assert_eq!(x.to_vec::<i16>()?, [7, 2, 3]);
    /// assert_eq!(samples[0], 1);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn from_blob(dtype: DType, blob: &Blob, dims: impl Into<Dims>) -> Tensor {
        let _c = call("from_blob");
        Tensor::of(over(dtype, blob, &dims.into()))
    }
    /// The bytes of a file, mapped: opening takes microseconds however large it is, and only what is used is read.
    /// What must not happen to the file meanwhile is said at [`Blob`].
    ///
    /// ```
    /// # use frit_tensor::*;
    /// # let path = std::env::temp_dir().join(format!("frit-doc-{}-bytes", std::process::id()));
    /// std::fs::write(&path, 1.5f32.to_le_bytes()).unwrap();
    /// assert_eq!(Tensor::from_file(&path).bitcast(DType::F32).to_vec::<f32>()?, [1.5]);
    /// # std::fs::remove_file(&path).ok();
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn from_file(path: impl AsRef<Path>) -> Tensor {
        let _c = call("from_file");
        let path = path.as_ref();
        let named = |e| Error::new("from_file", format!("{}: {e}", path.display()));
        Tensor::of(Blob::open(path).map_err(named).and_then(|b| realize::from_blob(DType::U8, &b)))
    }
    /// The first elements of a file, which is made, or made longer by zeros, where it has fewer: a tensor on `DISK`.
    ///
    /// It only holds bytes. Views of it, also as other types, read nothing; [`to`](Tensor::to) another device reads what
    /// is seen, each time it is computed, and assigning to it or to a view of it writes to the file at once.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// # let path = std::env::temp_dir().join(format!("frit-doc-{}-disk", std::process::id()));
    /// let x = Tensor::on_disk(&path, DType::I32, [4]);
    /// x.at(1..3).assign(Tensor::new([7, 8]));
    /// assert_eq!((x.to("CPU") + 1).to_vec::<i32>()?, [1, 8, 9, 1]);
    /// assert_eq!(std::fs::read(&path).unwrap()[4], 7);
    /// # std::fs::remove_file(&path).ok();
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn on_disk(path: impl AsRef<Path>, dtype: DType, dims: impl Into<Dims>) -> Tensor {
        let _c = call("on_disk");
        Tensor::of(file(path.as_ref(), dtype, &dims.into()))
    }
}

fn file(path: &Path, dtype: DType, dims: &Dims) -> Result<UOp> {
    if matches!(dtype, DType::Void | DType::Index) {
        return fail!("on_disk", "{dtype} is not a type of elements");
    }
    let dims = sizes("on_disk", dims)?;
    let known = |d: &UOp| d.as_int().and_then(|n| usize::try_from(n).ok());
    match dims.iter().try_fold(1usize, |n, d| n.checked_mul(known(d)?)) {
        Some(len) => Ok(realize::on_disk(path, dtype, len)?.reshape(&dims)),
        None => fail!("on_disk", "a file has no shape {}", show_all(&dims)),
    }
}

fn over(dtype: DType, blob: &Blob, dims: &Dims) -> Result<UOp> {
    let size = dtype.size();
    if matches!(dtype, DType::Void | DType::Index) {
        return fail!("from_blob", "{dtype} is not a type of elements");
    }
    let dims = sizes("from_blob", dims)?;
    let known = |d: &UOp| d.as_int().and_then(|n| usize::try_from(n).ok());
    let bytes = dims.iter().try_fold(size, |n, d| n.checked_mul(known(d)?));
    if bytes != Some(blob.len()) {
        let (have, shape) = (blob.len(), show_all(&dims));
        return fail!("from_blob", "{have} bytes are not the {dtype} elements of shape {shape}");
    }
    Ok(realize::from_blob(dtype, blob)?.reshape(&dims))
}
