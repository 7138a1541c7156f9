//! Element types: `dtypes.float32` and its like.

use frit::{DType, Defaults};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

/// Every type: what frit calls it, what Python code calls it (the first is printed), the letter of its memory format.
const TYPES: [(DType, &[&str], &str); 17] = [
    (DType::Bool, &["bool", "bool_"], "?"),
    (DType::I8, &["char", "int8"], "b"),
    (DType::U8, &["uchar", "uint8"], "B"),
    (DType::I16, &["short", "int16"], "h"),
    (DType::U16, &["ushort", "uint16"], "H"),
    (DType::I32, &["int", "int32"], "i"),
    (DType::U32, &["uint", "uint32"], "I"),
    (DType::I64, &["long", "int64"], "q"),
    (DType::U64, &["ulong", "uint64"], "Q"),
    (DType::F8E4M3, &["fp8e4m3", "float8_e4m3", "float8_e4m3fn"], ""),
    (DType::F8E5M2, &["fp8e5m2", "float8_e5m2"], ""),
    (DType::F8E4M3Fnuz, &["fp8e4m3fnuz", "float8_e4m3fnuz"], ""),
    (DType::F8E5M2Fnuz, &["fp8e5m2fnuz", "float8_e5m2fnuz"], ""),
    (DType::F16, &["half", "float16"], "e"),
    (DType::BF16, &["bfloat16"], ""),
    (DType::F32, &["float", "float32"], "f"),
    (DType::F64, &["double", "float64"], "d"),
];

fn place(d: DType) -> usize {
    TYPES.iter().position(|t| t.0 == d).unwrap_or(0)
}

/// The letter of a type in the buffer protocol; `None` for types only frit knows.
pub fn letter(d: DType) -> Option<&'static str> {
    Some(TYPES[place(d)].2).filter(|l| !l.is_empty())
}

/// The type of memory with this format letter and item size.
pub fn of_format(format: &str, size: usize) -> Option<DType> {
    let native =
        format.trim_start_matches(['@', '=', if cfg!(target_endian = "little") { '<' } else { '>' }]);
    let signed = match native {
        "?" => return Some(DType::Bool),
        "e" | "f" | "d" | "g" => return TYPES.iter().find(|t| t.2 == native).map(|t| t.0),
        "b" | "h" | "i" | "l" | "q" | "n" => true,
        "B" | "c" | "H" | "I" | "L" | "Q" | "N" => false,
        _ => return None,
    };
    let ints = match signed {
        true => [DType::I8, DType::I16, DType::I32, DType::I64],
        false => [DType::U8, DType::U16, DType::U32, DType::U64],
    };
    ints.into_iter().find(|d| d.size() == size)
}

/// The type with this name, as any of the libraries people come from writes it.
pub fn of_name(name: &str) -> Option<DType> {
    let name = name.rsplit('.').next().unwrap_or(name);
    TYPES.iter().find(|t| t.1.contains(&name)).map(|t| t.0)
}

/// A type of elements.
#[pyclass(name = "DType", module = "frit", frozen)]
pub struct PyDType(pub DType);

/// The one object of a type.
pub fn object(py: Python<'_>, d: DType) -> PyResult<Py<PyDType>> {
    static ALL: PyOnceLock<Vec<Py<PyDType>>> = PyOnceLock::new();
    let all =
        ALL.get_or_try_init(py, || TYPES.iter().map(|t| Py::new(py, PyDType(t.0))).collect::<PyResult<_>>())?;
    Ok(all[place(d)].clone_ref(py))
}

#[pymethods]
impl PyDType {
    /// The name: ``float``, ``half``, ``long``.
    #[getter]
    fn name(&self) -> &'static str {
        TYPES[place(self.0)].1[0]
    }
    /// Bytes of an element.
    #[getter]
    fn itemsize(&self) -> usize {
        self.0.size()
    }
    /// Bits of an element.
    #[getter]
    fn bitsize(&self) -> u32 {
        self.0.bits()
    }
    /// The letter of the type in the buffer protocol, or None.
    #[getter]
    fn fmt(&self) -> Option<&'static str> {
        letter(self.0)
    }
    /// The least value: minus infinity for floats.
    #[getter]
    fn min<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        limit(py, self.0, false)
    }
    /// The greatest value: infinity for floats.
    #[getter]
    fn max<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        limit(py, self.0, true)
    }
    /// Its place in the order of promotion.
    #[getter]
    fn priority(&self) -> usize {
        place(self.0)
    }
    /// Whether it is a float type (as torch has it).
    #[getter]
    fn is_floating_point(&self) -> bool {
        self.0.is_float()
    }
    fn __repr__(&self) -> String {
        format!("dtypes.{}", self.name())
    }
    fn __eq__(&self, o: &Bound<'_, PyAny>) -> bool {
        o.cast::<PyDType>().is_ok_and(|o| o.get().0 == self.0)
    }
    fn __lt__(&self, o: &PyDType) -> bool {
        place(self.0) < place(o.0)
    }
    fn __hash__(&self) -> isize {
        self.0 as isize
    }
    fn __reduce__(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, (&'static str,))> {
        Ok((py.import("frit._frit")?.getattr("dtype")?.unbind(), (self.0.name(),)))
    }
}

fn limit(py: Python<'_>, d: DType, greatest: bool) -> PyResult<Bound<'_, PyAny>> {
    Ok(match (d, d.iinfo()) {
        (DType::Bool, _) => greatest.into_pyobject(py)?.to_owned().into_any(),
        (_, Some(i)) => if greatest { i.max } else { i.min }.into_pyobject(py)?.into_any(),
        _ => if greatest { f64::INFINITY } else { f64::NEG_INFINITY }.into_pyobject(py)?.into_any(),
    })
}

/// An argument that names a type: a DType, or its name.
pub struct DTypeArg(pub DType);

impl<'py> FromPyObject<'_, 'py> for DTypeArg {
    type Error = PyErr;
    fn extract(obj: Borrowed<'_, 'py, PyAny>) -> PyResult<DTypeArg> {
        if let Ok(d) = obj.cast::<PyDType>() {
            return Ok(DTypeArg(d.get().0));
        }
        if let Ok(s) = obj.cast::<PyString>() {
            let s = s.to_cow()?;
            let found = of_name(&s)
                .ok_or_else(|| PyValueError::new_err(format!("{s:?} is not a type of elements")))?;
            return Ok(DTypeArg(found));
        }
        // numpy's and torch's types print as their names, Python's types have them
        let named = obj.getattr("__name__").or_else(|_| obj.str().map(|s| s.into_any()));
        let found = named.ok().and_then(|n| n.extract::<String>().ok()).and_then(|n| of_name(&n));
        let found = found
            .ok_or_else(|| PyTypeError::new_err(format!("{} is not a type of elements", obj.get_type())))?;
        Ok(DTypeArg(found))
    }
}

/// The type of floats that no one gave a type.
pub fn default_float() -> DType {
    frit::defaults().float
}
/// The type of integers that no one gave a type.
pub fn default_int() -> DType {
    frit::defaults().int
}

/// The default float and integer types; given one, it replaces that of its kind.
#[pyfunction]
#[pyo3(signature = (new=None))]
fn default_dtypes(py: Python<'_>, new: Option<DTypeArg>) -> PyResult<(Py<PyDType>, Py<PyDType>)> {
    let now = frit::defaults();
    match new {
        Some(DTypeArg(float)) if float.is_float() => frit::choose_defaults(Defaults { float, ..now }),
        Some(DTypeArg(int)) if int.is_int() && int != DType::Bool => {
            frit::choose_defaults(Defaults { int, ..now });
        }
        Some(DTypeArg(d)) => return Err(PyValueError::new_err(format!("{d} cannot be a default type"))),
        None => {}
    }
    Ok((object(py, default_float())?, object(py, default_int())?))
}

/// The type with this name.
#[pyfunction]
fn dtype(py: Python<'_>, name: DTypeArg) -> PyResult<Py<PyDType>> {
    object(py, name.0)
}

/// The limits of a float type, as a dictionary.
#[pyfunction]
fn finfo(py: Python<'_>, of: DTypeArg) -> PyResult<Bound<'_, pyo3::types::PyDict>> {
    let i = of.0.finfo().ok_or_else(|| PyTypeError::new_err(format!("{} is not a float type", of.0)))?;
    let d = pyo3::types::PyDict::new(py);
    d.set_item("bits", i.bits)?;
    d.set_item("digits", i.digits)?;
    let floats = [
        ("eps", i.eps),
        ("max", i.max),
        ("min", i.min),
        ("smallest_normal", i.smallest_normal),
        ("smallest_subnormal", i.smallest_subnormal),
    ];
    floats.iter().try_for_each(|(k, v)| d.set_item(*k, *v))?;
    Ok(d)
}

/// Add this part to the module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyDType>()?;
    m.add_function(wrap_pyfunction!(dtype, m)?)?;
    m.add_function(wrap_pyfunction!(finfo, m)?)?;
    m.add_function(wrap_pyfunction!(default_dtypes, m)?)?;
    TYPES.iter().try_for_each(|t| {
        let object = object(m.py(), t.0)?;
        t.1.iter().try_for_each(|n| m.add(format!("dtype_{n}").as_str(), object.clone_ref(m.py())))
    })
}
