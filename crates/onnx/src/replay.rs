//! Runs that are recorded: from the third one of a signature on only kernels are launched.
//!
//! A run that reads numbers of its inputs on the host (a loop with a condition, elements that are not zero) cannot be
//! recorded. That shows when it is tried, and such a signature runs plainly from then on.

use crate::element::Element;
use crate::plan::Plan;
use crate::session::{computed, execute};
use crate::value::Value;
use frit_tensor::{DType, Error, Jit, Result, Tensor};
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Which inputs are given, their types and sizes.
type Key = Vec<Option<(DType, Vec<usize>)>>;

/// How runs of a signature go.
#[derive(Clone)]
enum Mode {
    Recorded(Arc<Recording>),
    Plain,
}

/// A Jit of the plan, and what its outputs are.
struct Recording {
    jit: Jit<Vec<Tensor>, Vec<Tensor>>,
    elements: Arc<Mutex<Vec<Element>>>,
}

/// Signatures that are remembered.
const SIGNATURES: usize = 32;

/// What is recorded of a session.
pub(crate) struct Replay {
    plan: Arc<Plan>,
    modes: Mutex<FxHashMap<Key, Mode>>,
}

impl Replay {
    pub fn new(plan: &Arc<Plan>) -> Replay {
        Replay { plan: plan.clone(), modes: Mutex::default() }
    }
    /// The outputs; `None` where the run is none that can be recorded.
    pub fn run(&self, inputs: &[Option<Value>]) -> Result<Option<Vec<Value>>> {
        let Some((key, tensors)) = signature(inputs) else { return Ok(None) };
        let Mode::Recorded(recording) = self.mode(&key) else { return Ok(None) };
        match recording.jit.call(tensors) {
            Ok(outs) => {
                let elements = recording.elements.lock().unwrap_or_else(PoisonError::into_inner).clone();
                Ok(Some(outs.into_iter().zip(elements).map(|(t, e)| Value::Tensor(t, e)).collect()))
            }
            // an error of the run itself comes again; else it was that of recording it
            Err(_) => {
                let outputs = computed(&self.plan, inputs.to_vec())?;
                self.set(key, Mode::Plain);
                Ok(Some(outputs))
            }
        }
    }
    fn mode(&self, key: &Key) -> Mode {
        let mut modes = self.modes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mode) = modes.get(key) {
            return mode.clone();
        }
        if modes.len() >= SIGNATURES {
            modes.clear();
        }
        let mode = Mode::Recorded(Arc::new(Recording::new(&self.plan, key)));
        modes.insert(key.clone(), mode.clone());
        mode
    }
    fn set(&self, key: Key, mode: Mode) {
        self.modes.lock().unwrap_or_else(PoisonError::into_inner).insert(key, mode);
    }
}

impl Recording {
    fn new(plan: &Arc<Plan>, key: &Key) -> Recording {
        let elements: Arc<Mutex<Vec<Element>>> = Arc::default();
        let (plan, seen) = (plan.clone(), elements.clone());
        let given: Vec<bool> = key.iter().map(Option::is_some).collect();
        let jit = Jit::new(move |tensors: Vec<Tensor>| {
            let mut tensors = tensors.into_iter();
            let input = |on: &bool| if *on { tensors.next().map(Value::from) } else { None };
            let outs = execute(&plan, given.iter().map(input).collect(), vec![])?;
            let mut kinds = vec![];
            let mut tensors = vec![];
            for v in outs {
                let Value::Tensor(t, e) = v else {
                    return Err(Error::elsewhere("onnx", "an output is no tensor of numbers"));
                };
                kinds.push(e);
                tensors.push(t);
            }
            *seen.lock().unwrap_or_else(PoisonError::into_inner) = kinds;
            Ok(tensors)
        });
        Recording { jit, elements }
    }
}

/// The tensors that are given, where all values are tensors of a type of their own.
fn signature(inputs: &[Option<Value>]) -> Option<(Key, Vec<Tensor>)> {
    let (mut key, mut tensors) = (vec![], vec![]);
    for v in inputs {
        key.push(match v {
            None => None,
            Some(Value::Tensor(t, e)) if e.is_native() => {
                tensors.push(t.clone());
                Some((t.dtype(), t.dims().ok()?))
            }
            Some(_) => return None,
        });
    }
    Some((key, tensors))
}
