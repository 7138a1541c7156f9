//! Values out: numbers, lists, memory, numpy, pickles.

use super::{PyTensor, out};
use crate::error::{compute, raised};
use crate::memory::Memory;
use frit::{DType, Lent, Scalar, Tensor, call};
use pyo3::exceptions::{PyBufferError, PyRuntimeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::ffi::c_int;

/// What a pickle holds: bytes, type, sizes, what the program said about the gradient.
type Pickled<'py> = (Bound<'py, PyBytes>, &'static str, Vec<usize>, Option<bool>);

/// An element as a Python number.
fn object<'py>(py: Python<'py>, bytes: &[u8], d: DType) -> PyResult<Bound<'py, PyAny>> {
    let mut word = [0u8; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    Ok(match Scalar::from_bits(u64::from_le_bytes(word), d) {
        Scalar::Bool(b) => b.into_pyobject(py)?.to_owned().into_any(),
        Scalar::Float(f) => f.into_pyobject(py)?.into_any(),
        v => v.as_i128().into_pyobject(py)?.into_any(),
    })
}

impl PyTensor {
    /// The values where they lie, for a method that the user calls by this name.
    fn lend(&self, py: Python, op: &'static str) -> PyResult<Lent> {
        compute(py, || {
            let _c = call(op);
            self.0.lend()
        })
    }
    /// The values in memory that Python can read.
    pub fn memory<'py>(&self, py: Python<'py>, op: &'static str) -> PyResult<Bound<'py, Memory>> {
        let dims = self.dims()?;
        let lent = self.lend(py, op)?;
        let d = self.0.dtype();
        match Memory::new(&self.0, lent, &dims) {
            Some(m) => Bound::new(py, m),
            None => Err(PyBufferError::new_err(format!(
                "Python's memory has no {d} elements; cast to float first"
            ))),
        }
    }
    fn memoryview<'py>(&self, py: Python<'py>, op: &'static str) -> PyResult<Bound<'py, PyAny>> {
        py.import("builtins")?.call_method1("memoryview", (self.memory(py, op)?,))
    }
    /// Itself where numpy has its type, else as float32, which holds all values of the small floats.
    fn for_numpy(&self) -> Tensor {
        match crate::dtype::letter(self.0.dtype()) {
            Some(_) => self.0.clone(),
            None => self.0.float(),
        }
    }
}

#[pymethods]
impl PyTensor {
    /// The only element as a Python number.
    pub fn item<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let n = self.0.numel().map_err(raised)?;
        if n != 1 {
            let text = format!("item: shape {} has {n} elements, not one", self.0.shape());
            return Err(PyRuntimeError::new_err(text));
        }
        let lent = self.lend(py, "item")?;
        object(py, &lent, self.0.dtype())
    }
    /// The elements as nested lists of Python numbers.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        // Python makes the lists from the memory: it says so where there is no room for them
        let plain = match self.0.dtype() {
            DType::F16 => self.0.float(),
            _ => self.for_numpy(),
        };
        out(plain)?.memoryview(py, "tolist")?.call_method0("tolist")
    }
    /// The elements as a numpy array, without a copy where they lie in memory this process can read. The array is
    /// read-only: the tensor's values do not change when it is written to, nor it when the tensor is assigned to.
    /// ``numpy().copy()`` is one of your own. Types numpy does not have (bfloat16, float8) come as float32.
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let memory = out(self.for_numpy())?.memory(py, "numpy")?;
        py.import("numpy")?.call_method1("asarray", (memory,))
    }
    /// For numpy: ``numpy.array(tensor)``.
    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = self.numpy(py)?;
        match (dtype, copy) {
            (Some(d), _) => {
                let kwargs = PyDict::new(py);
                kwargs.set_item("copy", copy.unwrap_or(false))?;
                array.call_method("astype", (d,), Some(&kwargs))
            }
            (None, Some(true)) => array.call_method0("copy"),
            _ => Ok(array),
        }
    }
    /// The elements as a memoryview, read-only, without a copy.
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.memoryview(py, "data")
    }
    /// The bytes of all elements in row-major order.
    fn tobytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let lent = self.lend(py, "tobytes")?;
        Ok(PyBytes::new(py, &lent))
    }
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let memory = slf.get().memory(slf.py(), "data").map_err(|e| PyBufferError::new_err(e.to_string()))?;
        // SAFETY: the interpreter gave this view to fill; the memory object fills it as for a request of its own.
        match unsafe { ffi::PyObject_GetBuffer(memory.as_ptr(), view, flags) } {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Pickled<'py>)> {
        let make = py.import("frit._frit")?.getattr("unpickle")?;
        Ok((make, (self.tobytes(py)?, self.0.dtype().name(), self.dims()?, self.requires_grad())))
    }
    fn __deepcopy__(&self, memo: Bound<'_, PyAny>) -> PyResult<PyTensor> {
        let _ = memo;
        out(self.0.contiguous())?.wishing(self.requires_grad())
    }
    fn __copy__(&self) -> PyResult<PyTensor> {
        out(self.0.cast(self.0.dtype()))?.wishing(self.requires_grad())
    }
    /// For notebooks.
    fn _repr_html_(&self, py: Python<'_>) -> String {
        let text = self.__repr__(py).replace('&', "&amp;").replace('<', "&lt;");
        format!("<pre>{text}</pre>")
    }
}

/// The tensor of a pickle.
#[pyfunction]
pub fn unpickle(
    bytes: &Bound<'_, PyBytes>,
    dtype: &str,
    dims: Vec<usize>,
    requires_grad: Option<bool>,
) -> PyResult<PyTensor> {
    let d = crate::dtype::of_name(dtype)
        .ok_or_else(|| PyRuntimeError::new_err(format!("a pickle of a tensor of unknown type {dtype:?}")))?;
    out(Tensor::from_bytes(d, bytes.as_bytes(), dims))?.wishing(requires_grad)
}
