//! Sizes that are not numbers yet: variables, and sizes made of them.

use crate::convert::DimArg;
use crate::error::raised;
use frit::{Dim, Variable};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// An integer between two bounds that takes a value each time it is bound: a length, a batch size.
///
/// >>> n = Variable("n", 1, 128)
/// >>> Tensor.ones(128)[:n.bind(5)].shape
#[pyclass(name = "Variable", module = "frit", frozen)]
pub struct PyVariable {
    variable: Variable,
    name: String,
    bounds: (i64, i64),
    multiple_of: i64,
}

#[pymethods]
impl PyVariable {
    #[new]
    #[pyo3(signature = (name, min_val, max_val, dtype=None, multiple_of=1))]
    fn new(
        name: &str,
        min_val: i64,
        max_val: i64,
        dtype: Option<Bound<'_, PyAny>>,
        multiple_of: i64,
    ) -> PyResult<PyVariable> {
        let _ = dtype; // sizes have one type
        if multiple_of < 1 {
            return Err(PyValueError::new_err(format!("Variable: a multiple of {multiple_of}")));
        }
        let variable = Variable::new(name, min_val, max_val).map_err(raised)?;
        Ok(PyVariable { variable, name: name.into(), bounds: (min_val, max_val), multiple_of })
    }
    /// The variable with a value: a size for this time.
    fn bind(&self, val: i64) -> PyResult<PyDim> {
        if val % self.multiple_of != 0 {
            let text = format!("bind: {} is {val}, not a multiple of {}", self.name, self.multiple_of);
            return Err(PyRuntimeError::new_err(text));
        }
        self.variable.bind(val).map(PyDim).map_err(raised)
    }
    /// The name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }
    /// The name.
    #[getter]
    fn expr(&self) -> &str {
        &self.name
    }
    /// The least value.
    #[getter]
    fn vmin(&self) -> i64 {
        self.bounds.0
    }
    /// The greatest value.
    #[getter]
    fn vmax(&self) -> i64 {
        self.bounds.1
    }
    fn __repr__(&self) -> String {
        format!("Variable({:?}, {}, {})", self.name, self.bounds.0, self.bounds.1)
    }
}

/// A size made of bound variables. Arithmetic on it gives sizes; ``int(size)`` is its value for this time.
#[pyclass(name = "SymbolicInt", module = "frit", frozen)]
pub struct PyDim(pub Dim);

fn made(d: Dim) -> PyResult<PyDim> {
    d.value().map_err(raised)?;
    Ok(PyDim(d))
}

#[pymethods]
impl PyDim {
    /// The value it is bound to.
    #[getter]
    fn val(&self) -> PyResult<i64> {
        self.0.value().map_err(raised)
    }
    /// The greatest value it can have.
    #[getter]
    fn vmax(&self) -> PyResult<i64> {
        self.0.max().map_err(raised)
    }
    /// The value it is bound to, as a plain number; and itself with the variable not bound, as a pair.
    fn unbind(slf: Py<PyDim>) -> PyResult<(Py<PyDim>, i64)> {
        let v = slf.get().val()?;
        Ok((slf, v))
    }
    fn __int__(&self) -> PyResult<i64> {
        self.val()
    }
    fn __index__(&self) -> PyResult<i64> {
        self.val()
    }
    fn __add__(&self, o: DimArg) -> PyResult<PyDim> {
        made(&self.0 + o.0)
    }
    fn __radd__(&self, o: DimArg) -> PyResult<PyDim> {
        made(o.0 + &self.0)
    }
    fn __sub__(&self, o: DimArg) -> PyResult<PyDim> {
        made(&self.0 - o.0)
    }
    fn __rsub__(&self, o: DimArg) -> PyResult<PyDim> {
        made(o.0 - &self.0)
    }
    fn __mul__(&self, o: DimArg) -> PyResult<PyDim> {
        made(&self.0 * o.0)
    }
    fn __rmul__(&self, o: DimArg) -> PyResult<PyDim> {
        made(o.0 * &self.0)
    }
    fn __floordiv__(&self, o: DimArg) -> PyResult<PyDim> {
        made(&self.0 / o.0)
    }
    fn __mod__(&self, o: DimArg) -> PyResult<PyDim> {
        made(&self.0 % o.0)
    }
    fn __eq__(&self, o: DimArg) -> PyResult<bool> {
        Ok(self.0 == o.0 || self.0.value().map_err(raised)? == o.0.value().map_err(raised)?)
    }
    fn __lt__(&self, o: DimArg) -> PyResult<bool> {
        Ok(self.0.value().map_err(raised)? < o.0.value().map_err(raised)?)
    }
    fn __le__(&self, o: DimArg) -> PyResult<bool> {
        Ok(self.0.value().map_err(raised)? <= o.0.value().map_err(raised)?)
    }
    fn __gt__(&self, o: DimArg) -> PyResult<bool> {
        Ok(self.0.value().map_err(raised)? > o.0.value().map_err(raised)?)
    }
    fn __ge__(&self, o: DimArg) -> PyResult<bool> {
        Ok(self.0.value().map_err(raised)? >= o.0.value().map_err(raised)?)
    }
    fn __hash__(&self) -> PyResult<isize> {
        Ok(self.val()? as isize)
    }
    fn __repr__(&self) -> String {
        self.0.to_string()
    }
}

/// Add this part to the module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyVariable>()?;
    m.add_class::<PyDim>()
}
