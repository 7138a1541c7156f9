//! Sizes that are not numbers yet: variables, and sizes made of them.

use crate::convert::{Arg, DimArg};
use crate::error::raised;
use crate::tensor::{PyTensor, out};
use frit::{Dim, Variable};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// An integer between two bounds that takes a value each time it is bound: a length, a batch size. It is a size that has
/// no value yet: what is made of it can be bound later.
///
/// >>> n = Variable("n", 1, 128)
/// >>> Tensor.ones(128)[:n.bind(5)].shape
#[pyclass(name = "Variable", module = "frit", extends = PyDim, frozen)]
pub struct PyVariable {
    variable: Variable,
    name: String,
    multiple_of: i64,
}

impl PyVariable {
    /// A variable as a Python object.
    fn object<'py>(
        py: Python<'py>,
        variable: Variable,
        name: String,
        multiple_of: i64,
    ) -> PyResult<Bound<'py, PyVariable>> {
        let size = PyDim(variable.dim());
        let class = PyClassInitializer::from(size).add_subclass(PyVariable { variable, name, multiple_of });
        Bound::new(py, class)
    }
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
    ) -> PyResult<PyClassInitializer<PyVariable>> {
        let _ = dtype; // sizes have one type
        if multiple_of < 1 {
            return Err(PyValueError::new_err(format!("Variable: a multiple of {multiple_of}")));
        }
        let variable = Variable::new(name, min_val, max_val).map_err(raised)?;
        let size = PyDim(variable.dim());
        Ok(PyClassInitializer::from(size).add_subclass(PyVariable {
            variable,
            name: name.into(),
            multiple_of,
        }))
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
    fn __repr__(slf: PyRef<'_, Self>) -> PyResult<String> {
        let (least, most) = (slf.as_super().vmin()?, slf.as_super().vmax()?);
        Ok(format!("Variable({:?}, {least}, {most})", slf.name))
    }
}

/// A size made of variables. Arithmetic on it gives sizes; ``int(size)`` is its value for this time, which a Jit that
/// records refuses to freeze. Comparisons are decided by bounds, else by the values of now: a Jit replays what it recorded
/// only where they come out the same.
#[pyclass(name = "SymbolicInt", module = "frit", subclass, frozen)]
pub struct PyDim(pub Dim);

fn made(d: Dim) -> PyResult<PyDim> {
    // a failed size is raised where it was made
    d.max().map_err(raised)?;
    Ok(PyDim(d))
}

impl PyDim {
    fn less(&self, o: &Dim) -> PyResult<bool> {
        self.0.is_less(o).map_err(raised)
    }
}

#[pymethods]
impl PyDim {
    /// The value it is bound to.
    #[getter]
    fn val(&self) -> PyResult<i64> {
        self.0.value().map_err(raised)
    }
    /// The least value it can have.
    #[getter]
    fn vmin(&self) -> PyResult<i64> {
        self.0.min().map_err(raised)
    }
    /// The greatest value it can have.
    #[getter]
    fn vmax(&self) -> PyResult<i64> {
        self.0.max().map_err(raised)
    }
    /// The size with its variables bound: the value of its only variable, or values by name.
    #[pyo3(signature = (val=None, **values))]
    fn bind(&self, val: Option<i64>, values: Option<&Bound<'_, PyDict>>) -> PyResult<PyDim> {
        let variables = self.0.variables().map_err(raised)?;
        let mut size = self.0.clone();
        match (val, &variables[..]) {
            (Some(v), [only]) => size = size.bind(only, v).map_err(raised)?,
            (Some(_), all) => {
                let text = format!("bind: {} has {} variables; name them: bind(i=3)", self.0, all.len());
                return Err(PyTypeError::new_err(text));
            }
            (None, _) => {}
        }
        for (name, v) in values.into_iter().flatten() {
            let name = name.extract::<String>()?;
            let Some(variable) = variables.iter().find(|v| v.name() == name) else {
                return Err(PyTypeError::new_err(format!(
                    "bind: there is no variable {name:?} in {}",
                    self.0
                )));
            };
            size = size.bind(variable, v.extract()?).map_err(raised)?;
        }
        made(size)
    }
    /// Itself with its variables not bound, and the value it is bound to, as a pair.
    fn unbind<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, i64)> {
        let value = self.val()?;
        let (free, bound) = self.0.unbind().map_err(raised)?;
        let free = match &bound[..] {
            [(v, _)] if v.dim() == free => PyVariable::object(py, v.clone(), v.name(), 1)?.into_any(),
            _ => Bound::new(py, PyDim(free))?.into_any(),
        };
        Ok((free, value))
    }
    fn __int__(&self) -> PyResult<i64> {
        self.val()
    }
    fn __index__(&self) -> PyResult<i64> {
        self.val()
    }
    fn __float__(&self) -> PyResult<f64> {
        Ok(self.val()? as f64)
    }
    fn __bool__(&self) -> PyResult<bool> {
        Ok(!self.0.is_equal(0).map_err(raised)?)
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
    fn __rfloordiv__(&self, o: DimArg) -> PyResult<PyDim> {
        made(o.0 / &self.0)
    }
    fn __mod__(&self, o: DimArg) -> PyResult<PyDim> {
        made(&self.0 % o.0)
    }
    fn __rmod__(&self, o: DimArg) -> PyResult<PyDim> {
        made(o.0 % &self.0)
    }
    fn __neg__(&self) -> PyResult<PyDim> {
        made(Dim::from(0) - &self.0)
    }
    fn __truediv__(&self, o: Arg) -> PyResult<PyTensor> {
        out(self.0.tensor().div(o.0))
    }
    fn __rtruediv__(&self, o: Arg) -> PyResult<PyTensor> {
        let divisor = self.0.tensor();
        out(o.0.beside(&divisor).div(&divisor))
    }
    fn __eq__(&self, o: DimArg) -> PyResult<bool> {
        // sizes that have no value are equal where they are for every value
        match self.0.has_value() && o.0.has_value() {
            true => self.0.is_equal(o.0).map_err(raised),
            false => Ok(self.0 == o.0),
        }
    }
    fn __lt__(&self, o: DimArg) -> PyResult<bool> {
        self.less(&o.0)
    }
    fn __le__(&self, o: DimArg) -> PyResult<bool> {
        Ok(!o.0.is_less(&self.0).map_err(raised)?)
    }
    fn __gt__(&self, o: DimArg) -> PyResult<bool> {
        o.0.is_less(&self.0).map_err(raised)
    }
    fn __ge__(&self, o: DimArg) -> PyResult<bool> {
        Ok(!self.less(&o.0)?)
    }
    fn __hash__(&self) -> isize {
        // equal to that of the number it is equal to
        self.0.get() as isize
    }
    fn __repr__(&self) -> String {
        self.0.to_string()
    }
}

/// Add this part to the module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyDim>()?;
    m.add_class::<PyVariable>()
}
