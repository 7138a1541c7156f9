//! Memory lent to Python and borrowed from it.
//!
//! What is lent is read-only and holds its version of the tensor: an assignment that follows goes to other memory, so
//! no array changes under its owner. What is taken in is copied, unless the caller asks to share it or it cannot change.

use crate::convert::type_name;
use crate::dtype;
use crate::error::checked;
use frit::{Blob, DType, Lent, Tensor};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::{CString, c_int, c_void};
use std::ptr;

/// A tensor's values where they lie, for the buffer protocol.
#[pyclass(module = "frit", frozen)]
pub struct Memory {
    lent: Lent,
    shape: Vec<isize>,
    strides: Vec<isize>,
    format: CString,
    size: isize,
}

impl Memory {
    /// The values of a tensor, computed; `None` where Python has no such type.
    pub fn new(t: &Tensor, lent: Lent, dims: &[usize]) -> Option<Memory> {
        let format = CString::new(dtype::letter(t.dtype())?).ok()?;
        let size = t.dtype().size() as isize;
        let shape: Vec<isize> = dims.iter().map(|&d| d as isize).collect();
        Some(Memory { strides: row_major(&shape, size), lent, shape, format, size })
    }
}

/// The steps of a row-major array, in units of `size`.
pub fn row_major(shape: &[isize], size: isize) -> Vec<isize> {
    let mut step = size;
    let mut strides: Vec<isize> = shape
        .iter()
        .rev()
        .map(|d| {
            let here = step;
            step *= d.max(&1);
            here
        })
        .collect();
    strides.reverse();
    strides
}

#[pymethods]
impl Memory {
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() || flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            return Err(PyBufferError::new_err("a tensor's memory is read-only; copy it first"));
        }
        let m = slf.get();
        let wants = |flag: c_int| flags & flag == flag;
        // SAFETY: the interpreter gives a view to fill; what it points to is owned by `slf`, which the view holds.
        unsafe {
            (*view).buf = m.lent.as_ptr() as *mut c_void;
            (*view).len = m.lent.len() as isize;
            (*view).readonly = 1;
            (*view).itemsize = m.size;
            (*view).format =
                if wants(ffi::PyBUF_FORMAT) { m.format.as_ptr().cast_mut() } else { ptr::null_mut() };
            (*view).ndim = m.shape.len() as c_int;
            (*view).shape = if wants(ffi::PyBUF_ND) { m.shape.as_ptr().cast_mut() } else { ptr::null_mut() };
            (*view).strides =
                if wants(ffi::PyBUF_STRIDES) { m.strides.as_ptr().cast_mut() } else { ptr::null_mut() };
            (*view).suboffsets = ptr::null_mut();
            (*view).internal = ptr::null_mut();
            (*view).obj = slf.into_any().into_ptr();
        }
        Ok(())
    }
}

/// Bytes that a Python object owns.
struct Borrowed(PyUntypedBuffer);

impl AsRef<[u8]> for Borrowed {
    fn as_ref(&self) -> &[u8] {
        let (p, len) = (self.0.buf_ptr().cast::<u8>(), self.0.len_bytes());
        match len {
            0 => &[],
            // SAFETY: the buffer is contiguous (checked before) and stays where it is until it is released.
            _ => unsafe { std::slice::from_raw_parts(p, len) },
        }
    }
}

/// The tensor of an object that holds numbers in memory: a copy, or the memory itself where it cannot change.
/// `None` where it is no such object.
pub fn tensor_of(obj: &Bound<'_, PyAny>) -> PyResult<Option<Tensor>> {
    of_array(obj, false)
}

/// The same; `share` takes the memory itself, whatever others do with it.
pub fn of_array(obj: &Bound<'_, PyAny>, share: bool) -> PyResult<Option<Tensor>> {
    let py = obj.py();
    // pyo3 refuses buffers without dims
    if obj.getattr(pyo3::intern!(py, "ndim")).and_then(|n| n.extract::<usize>()).is_ok_and(|n| n == 0) {
        let line = obj.call_method1(pyo3::intern!(py, "reshape"), ((1,),))?;
        return of_array(&line, share)?.map(|t| checked(t.reshape(()))).transpose();
    }
    if let Ok(buffer) = PyUntypedBuffer::get(obj) {
        return of_buffer(obj, buffer, share).map(Some);
    }
    // arrays of types that the buffer protocol has no letter for
    if obj.hasattr(pyo3::intern!(py, "__array_interface__"))? && obj.hasattr(pyo3::intern!(py, "view"))? {
        return of_bits(obj, share).map(Some);
    }
    if obj.hasattr(pyo3::intern!(py, "__dlpack__"))? {
        return crate::tensor::dlpack::take(obj, share).map(Some);
    }
    Ok(None)
}

fn of_buffer(obj: &Bound<'_, PyAny>, buffer: PyUntypedBuffer, share: bool) -> PyResult<Tensor> {
    let format = buffer.format().to_string_lossy().into_owned();
    let Some(dtype) =
        dtype::of_format(&format, buffer.item_size()).filter(|d| d.size() == buffer.item_size())
    else {
        let known = "bool, integers and floats of 8 to 64 bits in the machine's byte order";
        return Err(PyTypeError::new_err(format!(
            "{} of element format {format:?} has no tensor; types with one: {known}",
            type_name(obj)
        )));
    };
    let dims = buffer.shape().to_vec();
    if !buffer.is_c_contiguous() {
        let view = obj.py().import("builtins")?.call_method1("memoryview", (obj,))?;
        let bytes = view.call_method0("tobytes")?.cast_into::<PyBytes>()?;
        return checked(Tensor::from_bytes(dtype, bytes.as_bytes(), dims));
    }
    let unchanging = buffer.readonly() && buffer.len_bytes() > 0 && is_frozen(obj);
    let borrowed = Borrowed(buffer);
    checked(match (unchanging, share) {
        (true, _) => Tensor::from_blob(dtype, &Blob::new(borrowed), dims),
        (false, true) => Tensor::from_blob(dtype, &Blob::volatile(borrowed), dims),
        (false, false) => Tensor::from_bytes(dtype, borrowed.as_ref(), dims),
    })
}

/// Objects whose bytes can never change: a read-only view of something else may.
fn is_frozen(obj: &Bound<'_, PyAny>) -> bool {
    obj.is_instance_of::<PyBytes>()
        || obj.getattr("base").is_ok_and(|b| b.is_instance_of::<PyBytes>() || b.is_instance_of::<Memory>())
}

/// An array whose elements numpy knows by name only (bfloat16, float8): its bits, and what they mean.
fn of_bits(obj: &Bound<'_, PyAny>, share: bool) -> PyResult<Tensor> {
    let name = obj.getattr("dtype")?.str()?.to_string();
    let Some(dtype) = dtype::of_name(&name) else {
        return Err(PyTypeError::new_err(format!("an array of {name} has no tensor")));
    };
    let unsigned = match dtype.size() {
        1 => "uint8",
        2 => "uint16",
        4 => "uint32",
        _ => "uint64",
    };
    let bits = obj.call_method1("view", (unsigned,))?;
    let t = of_buffer(&bits, PyUntypedBuffer::get(&bits)?, share)?;
    checked(t.bitcast(dtype))
}

/// The bytes of a Python object as a vector of uint8.
pub fn of_bytes(obj: &Bound<'_, PyBytes>) -> PyResult<Tensor> {
    let buffer = PyUntypedBuffer::get(obj)?;
    checked(Tensor::from_blob(DType::U8, &Blob::new(Borrowed(buffer)), [obj.as_bytes().len()]))
}

/// Add this part to the module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<Memory>()
}
