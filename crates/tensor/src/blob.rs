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
