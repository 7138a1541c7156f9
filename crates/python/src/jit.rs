//! `TinyJit`: a Python function recorded once and replayed.
//!
//! Arguments and results are trees of tuples, lists and dicts. A call takes its arguments apart into tensors, sizes
//! and a [`Shape`] of everything else; each shape has a recording of its own ([`frit::Jit`]), so a number, a string or
//! an object that differs from call to call never meets a recording that was made with another. From the third call
//! on the function is not entered: tensors in, launches, tensors out, put together as the function last did it.

use crate::convert::type_name;
use crate::symbolic::PyDim;
use crate::tensor::{PyTensor, out};
use frit::engine::sync::{Mutex, MutexGuard};
use frit::{Dim, Jit, Tensor};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pyo3::create_exception!(
    frit,
    JitError,
    PyRuntimeError,
    "A function that cannot be recorded or replayed, or inputs that a recording is not for."
);

/// Recordings that one Jit keeps, the latest.
const RECORDINGS: usize = 64;

/// One piece of a tree that was taken apart, in order.
enum Piece {
    Tensor,
    Size,
    /// A tuple, list or dict of so many; of a named tuple its class.
    Tuple(usize),
    Named(Py<PyAny>, usize),
    List(usize),
    Dict(usize),
    /// A number, a string, a key: the same where it is equal and of the same type.
    Plain(Py<PyAny>),
    /// Anything else: the same where it is the same object; held weakly where that can be.
    Object {
        address: usize,
        held: Py<PyAny>,
        weak: bool,
    },
}

/// What a tree is besides its tensors and sizes.
type Shape = Vec<Piece>;

impl Piece {
    fn is_same(&self, py: Python<'_>, o: &Piece) -> bool {
        match (self, o) {
            (Piece::Tensor, Piece::Tensor) | (Piece::Size, Piece::Size) => true,
            (Piece::Tuple(a), Piece::Tuple(b))
            | (Piece::List(a), Piece::List(b))
            | (Piece::Dict(a), Piece::Dict(b)) => a == b,
            (Piece::Named(t, a), Piece::Named(u, b)) => a == b && t.is(u),
            (Piece::Plain(a), Piece::Plain(b)) => {
                let (a, b) = (a.bind(py), b.bind(py));
                a.is(b) || (a.get_type().is(b.get_type()) && a.eq(b).unwrap_or(false))
            }
            (Piece::Object { address: a, .. }, Piece::Object { address: b, .. }) => {
                a == b && self.is_alive(py) && o.is_alive(py)
            }
            // an object that was pickled with its Jit
            (Piece::Plain(_), Piece::Object { .. }) => {
                o.object(py).is_ok_and(|o| self.is_same(py, &Piece::Plain(o)))
            }
            _ => false,
        }
    }
    fn is_alive(&self, py: Python<'_>) -> bool {
        match self {
            Piece::Object { held, weak: true, .. } => held.call0(py).is_ok_and(|o| !o.is_none(py)),
            _ => true,
        }
    }
    /// The object it stands for.
    fn object(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Piece::Plain(o) => Ok(o.clone_ref(py)),
            Piece::Object { held, weak: true, .. } => held.call0(py),
            Piece::Object { held, .. } => Ok(held.clone_ref(py)),
            _ => Ok(py.None()),
        }
    }
}

fn same(py: Python<'_>, a: &Shape, b: &Shape) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.is_same(py, y))
}

/// A tree taken apart.
#[derive(Default)]
struct Parts {
    tensors: Vec<Tensor>,
    sizes: Vec<Dim>,
    shape: Shape,
}

impl Parts {
    fn of_call(args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<Parts> {
        let mut parts = Parts::default();
        parts.shape.push(Piece::Tuple(args.len()));
        for a in args.iter() {
            parts.take(&a, true)?;
        }
        if let Some(kwargs) = kwargs.filter(|k| !k.is_empty()) {
            parts.take(kwargs, true)?;
        }
        Ok(parts)
    }

    /// Add a tree. Of arguments only what cannot change unseen is taken.
    fn take(&mut self, o: &Bound<'_, PyAny>, argument: bool) -> PyResult<()> {
        if let Ok(t) = o.cast::<PyTensor>() {
            self.tensors.push(t.get().0.clone());
            self.shape.push(Piece::Tensor);
        } else if let Ok(d) = o.cast::<PyDim>() {
            self.sizes.push(d.get().0.clone());
            self.shape.push(Piece::Size);
        } else if let Ok(t) = o.cast::<PyTuple>() {
            let named = o.hasattr(pyo3::intern!(o.py(), "_fields"))?;
            let class = || o.get_type().into_any().unbind();
            self.shape.push(if named { Piece::Named(class(), t.len()) } else { Piece::Tuple(t.len()) });
            for e in t.iter() {
                self.take(&e, argument)?;
            }
        } else if let Ok(l) = o.cast::<PyList>() {
            self.shape.push(Piece::List(l.len()));
            for e in l.iter() {
                self.take(&e, argument)?;
            }
        } else if let Ok(d) = o.cast::<PyDict>() {
            self.shape.push(Piece::Dict(d.len()));
            for (k, v) in d.iter() {
                self.shape.push(Piece::Plain(k.unbind()));
                self.take(&v, argument)?;
            }
        } else if is_plain(o) {
            self.shape.push(Piece::Plain(o.clone().unbind()));
        } else {
            self.shape.push(object(o, argument)?);
        }
        Ok(())
    }
}

fn is_plain(o: &Bound<'_, PyAny>) -> bool {
    o.is_none()
        || o.is_instance_of::<PyInt>()
        || o.is_instance_of::<PyFloat>()
        || o.is_instance_of::<PyBool>()
        || o.is_instance_of::<PyString>()
        || o.is_instance_of::<PyBytes>()
}

/// Objects that say when they are equal and can be keys, as frozen dataclasses are: they do not change.
fn is_value(o: &Bound<'_, PyAny>) -> PyResult<bool> {
    let (py, class) = (o.py(), o.get_type());
    let plain = py.get_type::<PyAny>();
    let own = |name| -> PyResult<bool> { Ok(!class.getattr(name)?.is(&plain.getattr(name)?)) };
    Ok(own(pyo3::intern!(py, "__eq__"))?
        && own(pyo3::intern!(py, "__hash__"))?
        && !class.getattr(pyo3::intern!(py, "__hash__"))?.is_none())
}

fn object(o: &Bound<'_, PyAny>, argument: bool) -> PyResult<Piece> {
    let py = o.py();
    let address = o.as_ptr() as usize;
    if !argument {
        return Ok(Piece::Object { address, held: o.clone().unbind(), weak: false });
    }
    // memory that others write to: what it held at the recording would be frozen
    if o.hasattr(pyo3::intern!(py, "__array_interface__"))? || o.hasattr(pyo3::intern!(py, "__dlpack__"))? {
        let text = format!("TinyJit: an argument is a {}; make a Tensor of it", type_name(o));
        return Err(PyTypeError::new_err(text));
    }
    if is_value(o)? {
        return Ok(Piece::Plain(o.clone().unbind()));
    }
    match py.import(pyo3::intern!(py, "weakref"))?.getattr(pyo3::intern!(py, "ref"))?.call1((o,)) {
        Ok(weak) => Ok(Piece::Object { address, held: weak.unbind(), weak: true }),
        Err(_) => Ok(Piece::Object { address, held: o.clone().unbind(), weak: false }),
    }
}

/// Puts a tree together again from its shape and new tensors and sizes.
struct Joiner<'a> {
    shape: std::slice::Iter<'a, Piece>,
    tensors: std::vec::IntoIter<Tensor>,
    sizes: std::vec::IntoIter<Dim>,
}

impl Joiner<'_> {
    fn join<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let short = || JitError::new_err("the function gave back another number of tensors than before");
        Ok(match self.shape.next().ok_or_else(short)? {
            Piece::Tensor => Bound::new(py, out(self.tensors.next().ok_or_else(short)?)?)?.into_any(),
            Piece::Size => Bound::new(py, PyDim(self.sizes.next().ok_or_else(short)?))?.into_any(),
            Piece::Tuple(n) => PyTuple::new(py, self.several(py, *n)?)?.into_any(),
            Piece::Named(class, n) => {
                class.bind(py).call_method1(pyo3::intern!(py, "_make"), (self.several(py, *n)?,))?
            }
            Piece::List(n) => PyList::new(py, self.several(py, *n)?)?.into_any(),
            Piece::Dict(n) => {
                let dict = PyDict::new(py);
                for _ in 0..*n {
                    let key = self.join(py)?;
                    dict.set_item(key, self.join(py)?)?;
                }
                dict.into_any()
            }
            plain => plain.object(py)?.into_bound(py),
        })
    }
    fn several<'py>(&mut self, py: Python<'py>, n: usize) -> PyResult<Vec<Bound<'py, PyAny>>> {
        (0..n).map(|_| self.join(py)).collect()
    }
}

/// One recording: for arguments of one shape.
struct Recording {
    shape: Shape,
    jit: Jit<Vec<Tensor>, Vec<Tensor>>,
    /// What the function last gave back.
    results: Mutex<Option<Arc<Results>>>,
}

/// A result without its tensors.
struct Results {
    shape: Shape,
    sizes: Vec<Dim>,
}

/// A call that is going on: what the function is to be called with, and what came of it.
struct Call {
    function: Py<PyAny>,
    args: Py<PyTuple>,
    kwargs: Option<Py<PyDict>>,
    recording: Arc<Recording>,
    came: Option<PyResult<Py<PyAny>>>,
}

thread_local! {
    /// Calls of this thread, the innermost last.
    static CALLS: RefCell<Vec<Call>> = const { RefCell::new(Vec::new()) };
}

/// Enter the Python function of the innermost call.
fn enter(_: Vec<Tensor>) -> frit::Result<Vec<Tensor>> {
    Python::attach(|py| {
        let call = CALLS.with_borrow(|calls| {
            let c = calls.last()?;
            let kwargs = c.kwargs.as_ref().map(|k| k.clone_ref(py));
            Some((c.function.clone_ref(py), c.args.clone_ref(py), kwargs))
        });
        let Some((function, args, kwargs)) = call else {
            return Err(frit::Error::new("jit", "the function of this Jit is not here"));
        };
        let ran = function.call(py, args, kwargs.as_ref().map(|k| k.bind(py))).and_then(|result| {
            let mut parts = Parts::default();
            parts.take(result.bind(py), false)?;
            Ok((result, parts))
        });
        let (came, tensors) = match ran {
            Ok((result, p)) => (Ok((result, Results { shape: p.shape, sizes: p.sizes })), Ok(p.tensors)),
            Err(e) => (Err(e), Err(frit::Error::new("jit", "the function raised an exception"))),
        };
        CALLS.with_borrow_mut(|calls| {
            if let Some(c) = calls.last_mut() {
                // known while the Jit is still held: another thread may replay as soon as it is not
                c.came = Some(came.map(|(result, shape)| {
                    *c.recording.results.lock().unwrap_or_else(|e| e.into_inner()) = Some(Arc::new(shape));
                    result
                }));
            }
        });
        tensors
    })
}

/// Runs ``fxn`` plainly at its first call, records what it launches at the second, and replays that from the third on.
///
/// A decorator of functions and methods. Arguments and results are tensors, or tuples, lists and dicts with tensors in
/// them. What else is in them, numbers, strings, objects, chooses the recording. Results are fresh at each call;
/// tensors the function assigns to are written in place; random numbers go on; bound variables take their new values.
/// Everything else is frozen: numbers read from a tensor inside the function are an error.
///
/// >>> @TinyJit
/// ... def f(x, y):
/// ...     return (x * y).sum()
#[pyclass(name = "TinyJit", module = "frit", frozen, weakref, dict)]
pub struct PyJit {
    function: Option<Py<PyAny>>,
    recordings: Mutex<Vec<Arc<Recording>>>,
    calls: AtomicUsize,
}

impl PyJit {
    fn of(function: Option<Py<PyAny>>) -> PyJit {
        PyJit { function, recordings: Mutex::default(), calls: AtomicUsize::new(0) }
    }
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Recording>>> {
        self.recordings.lock().unwrap_or_else(|e| e.into_inner())
    }
    /// The recording for arguments of a shape, a new one if need be.
    fn recording(&self, py: Python<'_>, shape: &mut Shape) -> PyResult<Arc<Recording>> {
        // compared without the lock: comparing may run Python code
        let known: Vec<Arc<Recording>> = self.lock().clone();
        if let Some(r) = known.iter().find(|r| same(py, &r.shape, shape)) {
            return Ok(r.clone());
        }
        if self.function.is_none() {
            return Err(JitError::new_err("a Jit that was unpickled is called with other arguments"));
        }
        let made = Arc::new(Recording {
            shape: std::mem::take(shape),
            jit: Jit::new(enter),
            results: Mutex::new(None),
        });
        let mut all = self.lock();
        // those of objects that are gone, then the oldest
        let dead: Vec<bool> = known.iter().map(|r| !r.shape.iter().all(|p| p.is_alive(py))).collect();
        let mut gone = vec![];
        for (r, _) in known.iter().zip(dead).filter(|(_, dead)| *dead) {
            if let Some(i) = all.iter().position(|o| Arc::ptr_eq(o, r)) {
                gone.push(all.remove(i));
            }
        }
        if all.len() >= RECORDINGS {
            gone.push(all.remove(0));
        }
        all.push(made.clone());
        drop(all);
        Ok(made)
    }
}

#[pymethods]
impl PyJit {
    #[new]
    #[pyo3(signature = (fxn=None, captured=None, prune=false, optimize=false))]
    fn new(fxn: Option<Py<PyAny>>, captured: Option<Py<PyAny>>, prune: bool, optimize: bool) -> PyJit {
        // what depends on no input is computed once anyway
        let _ = (captured, prune, optimize);
        PyJit::of(fxn)
    }

    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // `@TinyJit(prune=True)`: made without a function, called with it
        if self.function.is_none() && self.lock().is_empty() {
            let f = args.get_item(0).ok().filter(|f| f.is_callable());
            let f = f.ok_or_else(|| PyTypeError::new_err("TinyJit: expected the function to record"))?;
            return Ok(Bound::new(py, PyJit::of(Some(f.unbind())))?.into_any());
        }
        let mut parts = Parts::of_call(args, kwargs)?;
        let recording = self.recording(py, &mut parts.shape)?;
        if let Some(f) = &self.function {
            CALLS.with_borrow_mut(|calls| {
                calls.push(Call {
                    function: f.clone_ref(py),
                    args: args.clone().unbind(),
                    kwargs: kwargs.map(|k| k.clone().unbind()),
                    recording: recording.clone(),
                    came: None,
                });
            });
        }
        let Parts { tensors, sizes, .. } = parts;
        // sizes among the results follow those of the arguments
        let shapes: Vec<frit::Shape> = tensors.iter().map(Tensor::shape).collect();
        let varying = shapes.iter().flat_map(|s| s.as_slice()).filter(|d| d.as_int().is_none());
        let bound: Vec<Dim> = sizes.iter().chain(varying).cloned().collect();
        drop(shapes);
        // other threads may wait for this Jit: they must not hold the interpreter meanwhile
        let training = crate::tensor::is_training(py)?;
        let call = || crate::device::within(None, || recording.jit.call_with(tensors, &sizes));
        let ran = py.detach(|| frit::training(training, call));
        let call = self.function.as_ref().and_then(|_| CALLS.with_borrow_mut(Vec::pop));
        self.calls.fetch_add(1, Ordering::Relaxed);
        match call.and_then(|c| c.came) {
            Some(Err(raised)) => return Err(raised),
            Some(Ok(result)) => {
                ran?.map_err(failed)?;
                return Ok(result.into_bound(py));
            }
            None => {}
        }
        let tensors = ran?.map_err(failed)?;
        let results = recording.results.lock().unwrap_or_else(|e| e.into_inner()).clone();
        let results = results.ok_or_else(|| JitError::new_err("nothing was recorded"))?;
        let sizes: Vec<Dim> = results.sizes.iter().map(|d| d.rebound(&bound)).collect();
        Joiner { shape: results.shape.iter(), tensors: tensors.into_iter(), sizes: sizes.into_iter() }
            .join(py)
    }

    fn __get__<'py>(
        slf: Bound<'py, Self>,
        obj: Option<Bound<'py, PyAny>>,
        owner: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = owner;
        let py = slf.py();
        match obj.filter(|o| !o.is_none()) {
            Some(o) => py
                .import(pyo3::intern!(py, "types"))?
                .getattr(pyo3::intern!(py, "MethodType"))?
                .call1((slf, o)),
            None => Ok(slf.into_any()),
        }
    }

    /// Forgets what was recorded: the next call runs plainly.
    fn reset(&self) {
        let all = std::mem::take(&mut *self.lock());
        self.calls.store(0, Ordering::Relaxed);
        drop(all);
    }
    /// The function.
    #[getter]
    fn fxn(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.function.as_ref().map(|f| f.clone_ref(py))
    }
    #[getter]
    fn __wrapped__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.fxn(py).ok_or_else(|| pyo3::exceptions::PyAttributeError::new_err("__wrapped__"))
    }
    /// How often it was called since it was made or reset.
    #[getter]
    fn cnt(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
    /// How many kernels a replay of each recording launches; None where nothing is recorded.
    #[getter]
    fn captured(&self, py: Python<'_>) -> Option<Vec<usize>> {
        let all: Vec<Arc<Recording>> = self.lock().clone();
        let kernels: Vec<usize> = py.detach(|| all.iter().flat_map(|r| r.jit.kernels()).collect());
        (!kernels.is_empty()).then_some(kernels)
    }
    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        match (&self.function, name) {
            (Some(f), "__name__" | "__qualname__" | "__module__" | "__annotations__" | "__defaults__") => {
                f.bind(py).getattr(name)
            }
            _ => {
                Err(pyo3::exceptions::PyAttributeError::new_err(format!("TinyJit has no attribute {name:?}")))
            }
        }
    }
    fn __repr__(&self, py: Python<'_>) -> String {
        let name = self.function.as_ref().and_then(|f| f.bind(py).repr().ok().map(|r| r.to_string()));
        let recorded = self.captured(py).map_or(0, |c| c.len());
        let of = name.unwrap_or_else(|| "an unpickled function".into());
        format!("<TinyJit of {of}, {recorded} recorded>")
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let all: Vec<Arc<Recording>> = self.lock().clone();
        let mut ready = vec![];
        for r in &all {
            let results = r.results.lock().unwrap_or_else(|e| e.into_inner()).clone();
            match results {
                Some(results) if !py.detach(|| r.jit.kernels()).is_empty() => {
                    let bytes = PyBytes::new(py, &saved(py, &r.jit)?);
                    if !results.sizes.is_empty() {
                        return Err(JitError::new_err("a Jit that gives sizes back cannot be pickled"));
                    }
                    ready.push((shape_words(py, &r.shape)?, bytes, shape_words(py, &results.shape)?));
                }
                _ => {}
            }
        }
        if ready.is_empty() {
            return Err(JitError::new_err(
                "only a Jit that has recorded can be pickled: call it twice first",
            ));
        }
        let make = py.import("frit._frit")?.getattr("unpickle_jit")?;
        Ok((make, PyTuple::new(py, [ready.into_pyobject(py)?])?))
    }
}

/// The exception of a failure inside a recording.
fn failed(e: frit::Error) -> PyErr {
    match e.op() {
        "jit" => JitError::new_err(e.message().to_string()),
        _ => crate::error::raised(e),
    }
}

fn saved(py: Python<'_>, jit: &Jit<Vec<Tensor>, Vec<Tensor>>) -> PyResult<Vec<u8>> {
    py.detach(|| jit.to_bytes()).map_err(failed)
}

/// A shape as Python values that can be pickled: pairs of a kind and what belongs to it.
fn shape_words<'py>(py: Python<'py>, shape: &Shape) -> PyResult<Bound<'py, PyList>> {
    let words = PyList::empty(py);
    for p in shape {
        match p {
            Piece::Tensor => words.append(("tensor", py.None()))?,
            Piece::Tuple(n) => words.append(("tuple", n))?,
            Piece::List(n) => words.append(("list", n))?,
            Piece::Dict(n) => words.append(("dict", n))?,
            Piece::Named(class, n) => words.append(("named", (class, n)))?,
            Piece::Plain(o) => words.append(("plain", o))?,
            Piece::Size => words.append(("size", py.None()))?,
            // pickled with the Jit: there a call needs the same object, or one that is equal to it
            Piece::Object { .. } => words.append(("plain", p.object(py)?))?,
        }
    }
    Ok(words)
}

fn shape_of_words(words: &Bound<'_, PyList>) -> PyResult<Shape> {
    words
        .iter()
        .map(|w| {
            let (kind, what): (String, Bound<'_, PyAny>) = w.extract()?;
            Ok(match kind.as_str() {
                "tensor" => Piece::Tensor,
                "size" => Piece::Size,
                "tuple" => Piece::Tuple(what.extract()?),
                "list" => Piece::List(what.extract()?),
                "dict" => Piece::Dict(what.extract()?),
                "named" => {
                    let (class, n): (Py<PyAny>, usize) = what.extract()?;
                    Piece::Named(class, n)
                }
                "plain" => Piece::Plain(what.unbind()),
                _ => return Err(JitError::new_err(format!("a pickled Jit has a piece {kind:?}"))),
            })
        })
        .collect()
}

/// A pickled recording: the shape of its arguments, its file, the shape of its results.
type Pickled<'py> = (Bound<'py, PyList>, Bound<'py, PyBytes>, Bound<'py, PyList>);

/// Whether this thread is inside a function that a Jit called.
#[pyfunction]
fn is_in_jit() -> bool {
    CALLS.with_borrow(|calls| !calls.is_empty())
}

/// The Jit of a pickle: it can be called as it was, not record again.
#[pyfunction]
fn unpickle_jit(py: Python<'_>, recorded: Vec<Pickled<'_>>) -> PyResult<PyJit> {
    let made = PyJit::of(None);
    for (shape, bytes, results) in recorded {
        let recorded = bytes.as_bytes();
        let jit = py.detach(|| Jit::of_bytes(recorded)).map_err(failed)?;
        let results = Results { shape: shape_of_words(&results)?, sizes: vec![] };
        let results = Mutex::new(Some(Arc::new(results)));
        made.lock().push(Arc::new(Recording { shape: shape_of_words(&shape)?, jit, results }));
    }
    Ok(made)
}

/// Add this part to the module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("JitError", m.py().get_type::<JitError>())?;
    m.add_class::<PyJit>()?;
    m.add_function(wrap_pyfunction!(is_in_jit, m)?)?;
    m.add_function(wrap_pyfunction!(unpickle_jit, m)?)
}
