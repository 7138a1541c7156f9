//! Runs that are recorded: from the third one of a signature on only kernels are launched.
//!
//! A size with a name is a number in the first run. Where a later run has another one, it is a variable from then on, and
//! one recording serves all its values; 0 and 1 stay numbers.
//!
//! A run that reads numbers of its inputs on the host (a branch, a loop with a condition, elements that are not zero)
//! cannot be recorded. That shows when it is tried. Then a few integers among the inputs, a rate or a mode, are made
//! part of the signature, which decides what they decide; where that does not do, it runs plainly from then on.

use crate::element::Element;
use crate::plan::Plan;
use crate::session::{Port, Size, computed, execute};
use crate::value::Value;
use crate::weights::constants;
use frit_tensor::{DType, Dim, Error, Jit, Result, Tensor, Variable};
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is known of each input.
type Key = Vec<Given>;

#[derive(Clone, PartialEq, Eq, Hash)]
enum Given {
    Nothing,
    Tensor(DType, Vec<Extent>),
    /// Integers, in their dims.
    Frozen(DType, Vec<usize>, Vec<i64>),
}

/// A size; of a variable its name and the most it can be.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Extent {
    Number(usize),
    Variable(String, usize),
}

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
/// Variables reach at least this far.
const LEAST_REACH: usize = 64;
/// Elements of an input with variables, at the most that these can be.
const LARGEST: usize = 1 << 28;
/// As many integers of an input can be part of a signature.
const FEW: usize = 8;

/// Sizes by name.
#[derive(Default)]
struct Sizes {
    /// What each was in the last run.
    last: FxHashMap<String, usize>,
    /// Those that have changed, with the most each can be.
    reach: FxHashMap<String, usize>,
    /// Whether none may be a variable: something needs them as numbers.
    is_rigid: bool,
}

/// What is recorded of a session.
pub(crate) struct Replay {
    plan: Arc<Plan>,
    modes: Mutex<FxHashMap<Key, Mode>>,
    sizes: Mutex<Sizes>,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Replay {
    pub fn new(plan: &Arc<Plan>) -> Replay {
        Replay { plan: plan.clone(), modes: Mutex::default(), sizes: Mutex::default() }
    }
    /// The outputs; `None` where the run is none that can be recorded.
    pub fn run(&self, ports: &[Port], inputs: &[Option<Value>]) -> Result<Option<Vec<Value>>> {
        let mut failed = vec![];
        for frozen in [false, true] {
            let Some((key, tensors)) = self.signature(ports, inputs, frozen)? else { return Ok(None) };
            let Mode::Recorded(recording) = self.mode(&key) else { continue };
            if let Ok(outs) = recording.jit.call(tensors) {
                let elements = lock(&recording.elements).clone();
                self.refuse(failed);
                return Ok(Some(outs.into_iter().zip(elements).map(|(t, e)| Value::Tensor(t, e)).collect()));
            }
            failed.push(key);
        }
        if failed.is_empty() {
            return Ok(None);
        }
        // an error of the run itself comes again; else it was that of recording it
        let outputs = computed(&self.plan, inputs.to_vec())?;
        self.refuse(failed);
        Ok(Some(outputs))
    }
    /// Signatures that cannot be recorded run plainly; where sizes were variables, these are the reason.
    fn refuse(&self, failed: Vec<Key>) {
        for key in failed {
            if key.iter().any(Given::has_variables) {
                lock(&self.sizes).is_rigid = true;
            }
            lock(&self.modes).insert(key, Mode::Plain);
        }
    }
    fn mode(&self, key: &Key) -> Mode {
        let mut modes = lock(&self.modes);
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
    /// The tensors that are given, their changing sizes variables; `None` where a value is none of a tensor's own type.
    fn signature(
        &self,
        ports: &[Port],
        inputs: &[Option<Value>],
        frozen: bool,
    ) -> Result<Option<(Key, Vec<Tensor>)>> {
        let (mut key, mut tensors) = (vec![], vec![]);
        let mut sizes = lock(&self.sizes);
        let mut seen: FxHashMap<&str, usize> = FxHashMap::default();
        for (port, v) in ports.iter().zip(inputs) {
            let (t, dims) = match v {
                None => {
                    key.push(Given::Nothing);
                    continue;
                }
                Some(Value::Tensor(t, e)) if e.is_native() => (t, t.dims()?),
                Some(_) => return Ok(None),
            };
            let is_whole = t.dtype().is_int() || t.dtype() == DType::Bool;
            if frozen && is_whole && dims.iter().product::<usize>() <= FEW {
                key.push(Given::Frozen(t.dtype(), dims, t.long().to_vec()?));
                continue;
            }
            let declared = port.dims.as_deref().unwrap_or_default();
            let mut extents = vec![];
            for (i, n) in dims.into_iter().enumerate() {
                extents.push(match declared.get(i) {
                    // a name has one value in a run; another one beside it is a number
                    Some(Size::Name(name)) if *seen.entry(name).or_insert(n) == n => sizes.extent(name, n),
                    _ => Extent::Number(n),
                });
            }
            if most(&extents).is_none_or(|n| n > LARGEST) {
                sizes.is_rigid = true;
                return Ok(None);
            }
            tensors.push(seen_as(t, &extents)?);
            key.push(Given::Tensor(t.dtype(), extents));
        }
        if !seen.is_empty() {
            sizes.last = seen.into_iter().map(|(name, n)| (name.to_string(), n)).collect();
        }
        Ok(Some((key, tensors)))
    }
}

impl Given {
    fn has_variables(&self) -> bool {
        matches!(self, Given::Tensor(_, e) if e.iter().any(Extent::is_variable))
    }
}
impl Extent {
    fn is_variable(&self) -> bool {
        matches!(self, Extent::Variable(..))
    }
}

impl Sizes {
    fn extent(&mut self, name: &str, n: usize) -> Extent {
        // nothing, and one, are other programs than several
        if self.is_rigid || n <= 1 {
            return Extent::Number(n);
        }
        let known = self.reach.get(name).copied();
        let has_changed = self.last.get(name).is_some_and(|last| *last != n && *last > 1);
        match known {
            Some(most) if n <= most => Extent::Variable(name.to_string(), most),
            None if !has_changed => Extent::Number(n),
            _ => {
                let most = (2 * n).next_power_of_two().max(LEAST_REACH);
                self.reach.insert(name.to_string(), most);
                Extent::Variable(name.to_string(), most)
            }
        }
    }
}

/// A tensor in dims of which some are variables that have its sizes, in memory for the most that they can be: so the same
/// kernels read it, whatever they are.
fn seen_as(t: &Tensor, extents: &[Extent]) -> Result<Tensor> {
    if !extents.iter().any(Extent::is_variable) {
        return Ok(t.clone());
    }
    let dims = t.dims()?;
    let dim = |(e, n): (&Extent, &usize)| match e {
        Extent::Number(n) => Ok(Dim::from(n)),
        Extent::Variable(name, most) => {
            let letters = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
            Variable::new(&letters.collect::<String>(), 1, *most as i64)?.bind(*n as i64)
        }
    };
    let dims = extents.iter().zip(&dims).map(dim).collect::<Result<Vec<Dim>>>()?;
    let most = most(extents).unwrap_or(0);
    let mut bytes = t.to_bytes()?;
    bytes.resize(most * t.dtype().size(), 0);
    let count = dims.iter().fold(Dim::from(1), |n, d| n * d);
    Ok(Tensor::from_bytes(t.dtype(), &bytes, [most]).at(..count).reshape(dims))
}
/// As many elements as there can be.
fn most(extents: &[Extent]) -> Option<usize> {
    extents.iter().try_fold(1usize, |n, e| match e {
        Extent::Number(m) | Extent::Variable(_, m) => n.checked_mul(*m),
    })
}

impl Recording {
    fn new(plan: &Arc<Plan>, key: &Key) -> Recording {
        let elements: Arc<Mutex<Vec<Element>>> = Arc::default();
        let (plan, seen) = (plan.clone(), elements.clone());
        let given = key.clone();
        let jit = Jit::new(move |tensors: Vec<Tensor>| {
            let mut tensors = tensors.into_iter();
            let input = |g: &Given| match g {
                Given::Nothing => None,
                Given::Tensor(..) => tensors.next().map(Value::from),
                Given::Frozen(d, dims, values) => Some(constants(*d, values).reshape(dims).into()),
            };
            let outs = execute(&plan, given.iter().map(input).collect(), vec![])?;
            let (mut kinds, mut tensors) = (vec![], vec![]);
            for v in outs {
                let Value::Tensor(t, e) = v else {
                    return Err(Error::elsewhere("onnx", "an output is no tensor of numbers"));
                };
                kinds.push(e);
                tensors.push(t);
            }
            *lock(&seen) = kinds;
            Ok(tensors)
        });
        Recording { jit, elements }
    }
}
