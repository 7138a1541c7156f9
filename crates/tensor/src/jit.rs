//! A function recorded once and replayed: what its kernels cost is what a call costs (decision 008).
//!
//! ```
//! use frit_tensor::{Jit, Tensor};
//!
//! let total = Tensor::new([0.0f32]);
//! let held = total.clone();
//! let add = Jit::new(move |(x, y): (Tensor, Tensor)| {
//!     let sum = &x + &y;
//!     held.assign(&held + sum.sum(..));
//!     Ok(sum)
//! });
//! let mut last = None;
//! for i in 0..5 {
//!     // the first call runs plainly, the second is recorded, the others are replayed: no one can tell
//!     last = Some(add.call((Tensor::full([2], i), Tensor::new([10, 20])))?);
//! }
//! assert_eq!(last.unwrap().to_vec::<i32>()?, [14, 24]);
//! assert_eq!(total.to_vec::<f32>()?, [170.0]);
//! # Ok::<(), frit_tensor::Error>(())
//! ```
//!
//! **What is captured.** Launches, on memory. Inputs are checked by shape, type and device and then patched in, results
//! are fresh at each call, tensors that the function assigns to are written in place, random numbers go on, variables
//! bound in the shapes of inputs take their new values. What depends on none of these is computed once.
//!
//! **What is frozen.** Everything else: numbers read from the host, branches taken, the length of a Rust loop. Reading
//! a tensor (`item`, `to_vec`, printing) inside the function is an error while it is recorded. A tensor that the function
//! leaves behind must be returned or assigned to one that was there before.
//!
//! **What is never seen.** A value changing under someone: where an assigned tensor's old value is held elsewhere, that
//! call runs plainly.
//!
//! # The rules, one by one
//!
//! Inputs of another shape, type, device or arrangement are an error that names both, or, where that is asked for,
//! another recording:
//!
//! ```
//! # use frit_tensor::{Jit, Tensor};
//! let double = Jit::new(|x: Tensor| Ok(x * 2.0));
//! double.call(Tensor::ones([2, 3]))?;
//! let why = double.call(Tensor::ones([4])).err().unwrap().to_string();
//! assert!(why.contains("recorded for inputs float32 (2, 3), called with float32 (4)"), "{why}");
//!
//! let double = Jit::new(|x: Tensor| Ok(x * 2.0)).recapture();
//! for n in [3, 4, 3, 4] {
//!     assert_eq!(double.call(Tensor::ones([n]))?.to_vec::<f32>()?, vec![2.0; n]);
//! }
//! # Ok::<(), frit_tensor::Error>(())
//! ```
//!
//! What depends on no input, no state and no random number is computed when it is recorded, and pruned: here one kernel
//! of two is left. A number of the host is such a thing, and stays what it was:
//!
//! ```
//! # use frit_tensor::{Jit, Tensor};
//! # use std::sync::atomic::{AtomicI64, Ordering};
//! static COUNT: AtomicI64 = AtomicI64::new(0);
//! let table = Tensor::arange(1001).float();
//! let f = Jit::new(move |x: Tensor| {
//!     let frozen = COUNT.fetch_add(1, Ordering::Relaxed);
//!     Ok(x + table.mean(..).contiguous() + frozen as f64)
//! });
//! let all: Vec<f32> = (0..4).map(|_| f.call(Tensor::zeros(()))?.item::<f32>()).collect::<Result<_, _>>()?;
//! assert_eq!(all, [500.0, 501.0, 501.0, 501.0]); // called, recorded, replayed, replayed
//! assert_eq!(f.kernels(), [1]);
//! # Ok::<(), frit_tensor::Error>(())
//! ```
//!
//! A symbolic size in the shape of an input has the value of this call; nothing is recorded again:
//!
//! ```
//! # use frit_tensor::{Jit, Tensor, Variable};
//! let (data, n) = (Tensor::arange(10).contiguous(), Variable::new("n", 1, 10)?);
//! let sum = Jit::new(|x: Tensor| Ok(x.sum(..)));
//! for len in 1..8 {
//!     let total = sum.call(data.at(..n.bind(len)?))?;
//!     assert_eq!(total.item::<i32>()?, (0..len as i32).sum());
//! }
//! # Ok::<(), frit_tensor::Error>(())
//! ```
//!
//! Results are fresh: the one of an earlier call stays what it was. Tensors that the function assigns to are its state,
//! written in place; an input may be one. Random numbers are those that plain calls would draw:
//!
//! ```
//! # use frit_tensor::{Jit, Tensor, manual_seed};
//! let noisy = |x: Tensor| Ok(x + Tensor::rand([2]));
//! let run = |f: &dyn Fn(Tensor) -> frit_tensor::Result<Tensor>| -> frit_tensor::Result<Vec<Vec<f32>>> {
//!     manual_seed(7);
//!     let results: Vec<Tensor> = (0..4).map(|i| f(Tensor::full([2], i as f64))).collect::<Result<_, _>>()?;
//!     results.iter().map(|t| t.to_vec()).collect()
//! };
//! let jit = Jit::new(noisy);
//! assert_eq!(run(&|x| jit.call(x))?, run(&noisy)?);
//!
//! let counter = Tensor::zeros([1]).contiguous();
//! let count = Jit::new(|c: Tensor| {
//!     c.assign(&c + 1.0);
//!     Ok(())
//! });
//! for _ in 0..5 {
//!     count.call(counter.clone())?;
//! }
//! assert_eq!(counter.to_vec::<f32>()?, [5.0]);
//! # Ok::<(), frit_tensor::Error>(())
//! ```
//!
//! A Jit can be called from several threads, which take turns; each thread records for itself, so what others compute
//! meanwhile is not part of it:
//!
//! ```
//! # use frit_tensor::{Jit, Tensor};
//! let f = Jit::new(|x: Tensor| Ok(x.sum(..)));
//! std::thread::scope(|s| {
//!     for t in 0..4 {
//!         let f = &f;
//!         s.spawn(move || {
//!             for i in 0..5 {
//!                 let x = Tensor::full([3], t * 10 + i);
//!                 assert_eq!(f.call(x).unwrap().item::<i32>().unwrap(), 3 * (t * 10 + i));
//!             }
//!         });
//!     }
//! });
//! ```
//!
//! [`Jit::save`] and [`Jit::load`] take a recording to another process.

use crate::assign;
use crate::error::{Error, Result, call, fail, outside};
use crate::random;
use crate::shape::Dim;
use crate::tensor::{Inner, Tensor};
use frit_engine::capture::{self, Refusal};
use frit_engine::program::{Program, Saved, Signature};
use frit_engine::program_file;
use frit_engine::search::{self, Effort, Tuned, TunedProgram};
use frit_uop::{Op, UOp};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// Calls in a row that cannot be recorded before it is an error.
const TRIES: u32 = 3;
/// Signatures that a Jit remembers.
const SIGNATURES: usize = 64;

/// Tensors in some structure: what a Jit takes and gives. A tensor, a tuple, an array or a list of such, or nothing.
pub trait Bundle: Sized {
    /// Add its tensors to the list, in order, and say how they were arranged.
    fn take_apart(self, into: &mut Vec<Tensor>) -> Form;
    /// Arrange tensors again.
    fn put_together(form: &Form, from: &mut std::vec::IntoIter<Tensor>) -> Self;
}

/// How tensors are arranged in a [`Bundle`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Form {
    /// A tensor.
    One,
    /// Several.
    Many(Vec<Form>),
}

impl Form {
    fn part(&self, i: usize) -> &Form {
        match self {
            Form::Many(parts) => parts.get(i).unwrap_or(&Form::One),
            Form::One => self,
        }
    }
    fn len(&self) -> usize {
        match self {
            Form::Many(parts) => parts.len(),
            Form::One => 1,
        }
    }
    /// How many tensors there are.
    fn tensors(&self) -> usize {
        match self {
            Form::Many(parts) => parts.iter().map(Form::tensors).sum(),
            Form::One => 1,
        }
    }
    /// As numbers: 0 for a tensor, else one more than how many there are, then each.
    fn write(&self, into: &mut Vec<u64>) {
        match self {
            Form::One => into.push(0),
            Form::Many(parts) => {
                into.push(parts.len() as u64 + 1);
                parts.iter().for_each(|p| p.write(into));
            }
        }
    }
    fn read(from: &mut std::vec::IntoIter<u64>, depth: usize) -> Option<Form> {
        match from.next()? {
            0 => Some(Form::One),
            n if depth < 16 && n as usize <= from.len() + 1 => {
                (1..n).map(|_| Form::read(from, depth + 1)).collect::<Option<_>>().map(Form::Many)
            }
            _ => None,
        }
    }
}

fn missing() -> Tensor {
    Tensor::failed(Error::elsewhere("jit", "there are fewer tensors than before"))
}

impl Bundle for Tensor {
    fn take_apart(self, into: &mut Vec<Tensor>) -> Form {
        into.push(self);
        Form::One
    }
    fn put_together(_: &Form, from: &mut std::vec::IntoIter<Tensor>) -> Tensor {
        from.next().unwrap_or_else(missing)
    }
}
impl Bundle for () {
    fn take_apart(self, _: &mut Vec<Tensor>) -> Form {
        Form::Many(vec![])
    }
    fn put_together(_: &Form, _: &mut std::vec::IntoIter<Tensor>) {}
}
impl<B: Bundle> Bundle for Vec<B> {
    fn take_apart(self, into: &mut Vec<Tensor>) -> Form {
        Form::Many(self.into_iter().map(|b| b.take_apart(into)).collect())
    }
    fn put_together(form: &Form, from: &mut std::vec::IntoIter<Tensor>) -> Vec<B> {
        (0..form.len()).map(|i| B::put_together(form.part(i), from)).collect()
    }
}
impl<B: Bundle, const N: usize> Bundle for [B; N] {
    fn take_apart(self, into: &mut Vec<Tensor>) -> Form {
        Form::Many(self.into_iter().map(|b| b.take_apart(into)).collect())
    }
    fn put_together(form: &Form, from: &mut std::vec::IntoIter<Tensor>) -> [B; N] {
        std::array::from_fn(|i| B::put_together(form.part(i), from))
    }
}
macro_rules! tuples {
    ($(($($name:ident $i:tt),+);)*) => { $(
        impl<$($name: Bundle),+> Bundle for ($($name,)+) {
            fn take_apart(self, into: &mut Vec<Tensor>) -> Form {
                Form::Many(vec![$(self.$i.take_apart(into)),+])
            }
            fn put_together(form: &Form, from: &mut std::vec::IntoIter<Tensor>) -> Self {
                ($($name::put_together(form.part($i), from),)+)
            }
        }
    )* };
}
tuples! {
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
}

type Function<I, O> = Box<dyn FnMut(I) -> Result<O> + Send>;

/// A function whose launches are recorded at the second call and replayed from the third on.
///
/// Calls from several threads take turns.
pub struct Jit<I, O> {
    recorded: Mutex<Recorded<I, O>>,
    /// The thread that is in a call, so that a function that calls its own Jit is told so.
    caller: AtomicU64,
    recapture: bool,
}

struct Recorded<I, O> {
    /// None where the recording came from a file.
    function: Option<Function<I, O>>,
    entries: Vec<Entry>,
}

/// What is known of one signature.
struct Entry {
    key: (Signature, Form),
    tries: u32,
    ready: Option<Ready>,
}

struct Ready {
    program: Program,
    output: Form,
    state: Vec<State>,
    /// How many elements each random draw takes from the stream.
    draws: Vec<u64>,
    orphans: usize,
}

/// A tensor that the function assigns to.
struct State {
    handle: Weak<Inner>,
    node: UOp,
    holders: usize,
}

impl State {
    /// Whether the tensor is what it was at the capture and no one else sees its memory.
    fn is_ours(&self) -> bool {
        let Some(handle) = self.handle.upgrade() else { return true };
        let same = Tensor(handle).uop().is_ok_and(|n| n == self.node);
        same && holders(&self.node) <= self.holders
    }
}

/// Handles of a view and of everything between it and its memory.
fn holders(view: &UOp) -> usize {
    let (mut n, mut count) = (view, view.ref_count());
    while n.op != Op::Buffer && !n.src.is_empty() {
        n = &n.src[0];
        count += n.ref_count();
    }
    count
}

/// How far a view is from its memory.
fn depth(view: &UOp) -> usize {
    let (mut n, mut depth) = (view, 1);
    while n.op != Op::Buffer && !n.src.is_empty() {
        n = &n.src[0];
        depth += 1;
    }
    depth
}

impl<I: Bundle, O: Bundle> Jit<I, O> {
    /// A Jit of a function of tensors. It must compute the same way each time it is called.
    pub fn new(function: impl FnMut(I) -> Result<O> + Send + 'static) -> Jit<I, O> {
        let recorded = Recorded { function: Some(Box::new(function)), entries: vec![] };
        Jit { recorded: Mutex::new(recorded), caller: AtomicU64::new(0), recapture: false }
    }
    /// Record again for inputs of another shape, type, device or arrangement, instead of refusing them.
    pub fn recapture(mut self) -> Jit<I, O> {
        self.recapture = true;
        self
    }
    /// Forget what was recorded; the next call runs plainly.
    pub fn reset(&self) {
        self.lock().entries.clear();
    }
    /// How many kernels a replay of each recorded signature launches.
    pub fn kernels(&self) -> Vec<usize> {
        self.lock().entries.iter().filter_map(|e| e.ready.as_ref()).map(|r| r.program.kernels()).collect()
    }

    /// Write the recording down: its kernels as graphs, and the memory it keeps (weights, constants, state) as it is now.
    ///
    /// ```
    /// # use frit_tensor::{Jit, Tensor};
    /// # let path = std::env::temp_dir().join(format!("frit-doc-{}.jit", std::process::id()));
    /// let w = Tensor::new([1.0f32, 2.0]);
    /// let f = Jit::new(move |x: Tensor| Ok(x * &w));
    /// for _ in 0..2 {
    ///     f.call(Tensor::ones([2]))?;
    /// }
    /// f.save(&path)?;
    /// let g = Jit::<Tensor, Tensor>::load(&path)?; // in another process, say
    /// assert_eq!(g.call(Tensor::new([3.0f32, 4.0]))?.to_vec::<f32>()?, [3.0, 8.0]);
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<(), frit_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let _c = call("jit");
        self.saved(|program, signature, notes| program_file::save(path.as_ref(), program, signature, notes))
    }
    /// What [`Jit::save`] writes, as bytes.
    #[track_caller]
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let _c = call("jit");
        self.saved(program_file::to_bytes)
    }
    fn saved<T>(
        &self,
        write: impl FnOnce(&Program, &Signature, &[u64]) -> std::result::Result<T, frit_engine::Error>,
    ) -> Result<T> {
        let recorded = self.lock();
        let mut ready = recorded.entries.iter().filter_map(|e| Some((&e.key, e.ready.as_ref()?)));
        let (Some((key, ready)), None) = (ready.next(), ready.next()) else {
            return fail!("jit", "there is not exactly one recording to save; it is made by the second call");
        };
        let mut notes = vec![];
        key.1.write(&mut notes);
        ready.output.write(&mut notes);
        notes.extend(&ready.draws);
        engine(write(&ready.program, &key.0, &notes))
    }
    /// A recording from a file, compiled for this machine. It can be replayed, not recorded again. A file that is
    /// damaged, or was written by another version, is an error; so is one that was made up to reach outside its own memory:
    /// every access is proven to stay inside before anything runs.
    #[track_caller]
    pub fn load(path: impl AsRef<Path>) -> Result<Jit<I, O>> {
        let _c = call("jit");
        let path = path.as_ref();
        Jit::of_saved(engine(program_file::load(path))?, &path.display())
    }
    /// A recording from the bytes of [`Jit::to_bytes`] or of a file.
    #[track_caller]
    pub fn of_bytes(bytes: &[u8]) -> Result<Jit<I, O>> {
        let _c = call("jit");
        Jit::of_saved(engine(program_file::of_bytes(bytes))?, &"a recorded program")
    }
    fn of_saved(saved: Saved, name: &dyn std::fmt::Display) -> Result<Jit<I, O>> {
        let Saved { program, signature, notes } = saved;
        let mut words = notes.into_iter();
        let (Some(form), Some(output)) = (Form::read(&mut words, 0), Form::read(&mut words, 0)) else {
            return fail!("jit", "{name}: it does not say how its tensors are arranged");
        };
        let draws: Vec<u64> = words.collect();
        let counts = [form.tensors(), output.tensors(), draws.len()];
        let has = program.counts();
        if counts != has || draws.iter().try_fold(0u64, |n, d| n.checked_add(*d)).is_none() {
            return fail!("jit", "{name}: it arranges {counts:?} inputs, results and draws, and has {has:?}");
        }
        let orphans = program.orphans();
        let ready = Ready { program, output, state: vec![], draws, orphans };
        let entry = Entry { key: (signature, form), tries: TRIES, ready: Some(ready) };
        let recorded = Mutex::new(Recorded { function: None, entries: vec![entry] });
        Ok(Jit { recorded, caller: AtomicU64::new(0), recapture: false })
    }

    /// Search for the fastest way to run each kernel of the recording, `width` states at a time, on these inputs; from then
    /// on it is replayed that way. What is found is remembered (`FRIT_CACHE`), so another search goes on where one ended.
    /// `told` hears of each kernel that was searched: its number, how many there are, its name and what was found. Tensors
    /// that the function assigns to are what one call makes of them.
    ///
    /// ```no_run
    /// # use frit_tensor::{Jit, Tensor};
    /// let f = Jit::new(|(a, b): (Tensor, Tensor)| Ok(a.matmul(&b)));
    /// let inputs = || (Tensor::ones([512, 512]), Tensor::ones([512, 512]));
    /// for _ in 0..2 {
    ///     f.call(inputs())?;
    /// }
    /// let tuned = f.tune(inputs(), 4, |i, n, name, found| println!("{i}/{n} {name} {found}"))?;
    /// println!("{:?}, was {:?}", tuned.after, tuned.before);
    /// # Ok::<(), frit_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn tune(
        &self,
        inputs: I,
        width: usize,
        told: impl FnMut(usize, usize, &str, &Tuned),
    ) -> Result<TunedProgram> {
        let _c = call("jit");
        // which also puts the inputs in their places
        self.call(inputs)?;
        let mut recorded = self.lock();
        let mut ready = recorded.entries.iter_mut().filter_map(|e| e.ready.as_mut());
        let (Some(ready), None) = (ready.next(), ready.next()) else {
            return fail!(
                "jit",
                "there is not exactly one recording to search for; it is made by the second call"
            );
        };
        let effort = engine(Effort::of_width(width))?;
        engine(search::tune_program(&mut ready.program, &effort, told))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Recorded<I, O>> {
        self.recorded.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Call the function, or replay what it did.
    #[track_caller]
    pub fn call(&self, inputs: I) -> Result<O> {
        let _c = call("jit");
        self.call_with(inputs, &[])
    }
    /// As [`call`](Jit::call), with sizes that the function uses besides those in the shapes of its inputs: their
    /// variables take new values with each call.
    #[track_caller]
    pub fn call_with(&self, inputs: I, sizes: &[Dim]) -> Result<O> {
        let _c = call("jit");
        let me = thread_number();
        if self.caller.load(Ordering::Relaxed) == me {
            return fail!("jit", "the function calls its own Jit");
        }
        let mut recorded = self.lock();
        struct Leave<'a>(&'a AtomicU64);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.store(0, Ordering::Relaxed);
            }
        }
        self.caller.store(me, Ordering::Relaxed);
        let _leave = Leave(&self.caller);
        // inside another recording its launches belong to that
        if capture::is_recording() {
            return recorded.function(inputs);
        }
        let mut tensors = vec![];
        let form = inputs.take_apart(&mut tensors);
        tensors.iter().try_for_each(own_memory)?;
        Tensor::realize_all(&tensors.iter().collect::<Vec<_>>())?;
        assign::compute_pending()?;
        let sizes = sizes.iter().map(|d| d.0.clone()).collect::<Result<Vec<UOp>>>()?;
        let mut described = nodes(&tensors)?;
        described.extend(sizes.iter().cloned());
        let key = (engine(Signature::of(&described))?, form);
        drop(described);
        let at = recorded.find(&key, self.recapture)?;
        recorded.call(at, tensors, &sizes)
    }
}

impl<I: Bundle, O: Bundle> Recorded<I, O> {
    fn function(&mut self, inputs: I) -> Result<O> {
        match &mut self.function {
            Some(f) => outside(|| f(inputs)),
            None => fail!(
                "jit",
                "it came from a file and can only be replayed; here it would have to run plainly (inside another \
                 recording, or with an assigned input that something else holds)"
            ),
        }
    }

    /// The entry of a signature, a new one if need be.
    fn find(&mut self, key: &(Signature, Form), recapture: bool) -> Result<usize> {
        if let Some(at) = self.entries.iter().position(|e| e.key == *key) {
            return Ok(at);
        }
        if let Some(first) = self.entries.first().filter(|_| !recapture) {
            let (known, given) = (first.key.0.describe(), key.0.describe());
            return fail!(
                "jit",
                "recorded for inputs {known}, called with {given}; make another Jit, or `recapture` this one"
            );
        }
        if self.entries.len() >= SIGNATURES {
            self.entries.remove(0);
        }
        self.entries.push(Entry { key: key.clone(), tries: 0, ready: None });
        // the first call of a signature only warms up
        Ok(self.entries.len() - 1)
    }

    fn call(&mut self, at: usize, tensors: Vec<Tensor>, sizes: &[UOp]) -> Result<O> {
        let entry = &mut self.entries[at];
        let form = entry.key.1.clone();
        if let Some(ready) = &mut entry.ready {
            if ready.program.orphans() > ready.orphans {
                entry.ready = None;
            } else if ready.can_replay(&tensors) {
                let outputs = ready.replay(tensors, sizes)?;
                return Ok(O::put_together(&ready.output, &mut outputs.into_iter()));
            } else {
                return self.plainly(&form, tensors);
            }
        }
        if entry.tries == 0 {
            entry.tries = 1;
            return self.plainly(&form, tensors).inspect_err(|_| _ = self.entries.pop());
        }
        self.record(at, &form, tensors, sizes)
    }

    fn plainly(&mut self, form: &Form, tensors: Vec<Tensor>) -> Result<O> {
        let inputs = I::put_together(form, &mut tensors.into_iter());
        let output = self.function(inputs)?;
        let mut results = vec![];
        let form = output.take_apart(&mut results);
        Tensor::realize_all(&results.iter().collect::<Vec<_>>())?;
        Ok(O::put_together(&form, &mut results.into_iter()))
    }

    fn record(&mut self, at: usize, form: &Form, tensors: Vec<Tensor>, sizes: &[UOp]) -> Result<O> {
        let (((result, draws), assigned), tape) = capture::record(|| {
            assign::watch(|| {
                random::watch(|| {
                    let inputs = I::put_together(form, &mut tensors.clone().into_iter());
                    let output = self.function(inputs)?;
                    let mut results = vec![];
                    let form = output.take_apart(&mut results);
                    let mut all: Vec<Tensor> = assign::watched();
                    all.extend(results.iter().cloned());
                    Tensor::realize_all(&all.iter().collect::<Vec<_>>())?;
                    Ok((results, form))
                })
            })
        });
        let (results, output) = result?;
        let assigned: Vec<Tensor> = assigned;
        let entry = &mut self.entries[at];
        let states: Vec<UOp> = draws.iter().map(|d| d.0.clone()).collect();
        match tape.finish(&nodes(&tensors)?, sizes, &nodes(&results)?, &states) {
            Ok(program) => {
                drop(states);
                let is_input = |t: &Tensor| tensors.iter().any(|i| i.is_same(t));
                let state = assigned.iter().filter(|t| !is_input(t)).filter_map(State::of).collect();
                let draws = draws.into_iter().map(|d| d.1).collect();
                let orphans = program.orphans();
                entry.ready = Some(Ready { program, output: output.clone(), state, draws, orphans });
            }
            Err(Refusal::Kept(why)) => {
                entry.tries += 1;
                if entry.tries > TRIES {
                    return fail!("jit", "the function cannot be replayed: {why}");
                }
            }
            Err(Refusal::Never(e)) => return fail!("jit", "the function cannot be recorded: {e}"),
        }
        Ok(O::put_together(&output, &mut results.into_iter()))
    }
}

impl Ready {
    /// Whether launching again writes only where no one else looks.
    fn can_replay(&self, inputs: &[Tensor]) -> bool {
        // the tensor itself holds the view, we do while we look, and the view holds what is below it
        let sole = |t: &Tensor| t.uop().is_ok_and(|n| holders(&n) == depth(&n) + 1);
        self.state.iter().all(State::is_ours)
            && self.program.written_inputs().iter().all(|&i| inputs.get(i).is_some_and(sole))
    }

    fn replay(&mut self, inputs: Vec<Tensor>, sizes: &[UOp]) -> Result<Vec<Tensor>> {
        if !self.draws.is_empty() {
            let (seed, mut at) = random::reserve(self.draws.iter().sum());
            for (i, count) in self.draws.iter().enumerate() {
                engine(self.program.set_draw(i, &random::place(seed, at)))?;
                at = at.wrapping_add(*count);
            }
        }
        let outputs = engine(self.program.replay(&nodes(&inputs)?, sizes))?;
        Ok(outputs.into_iter().map(|n| Tensor::of(Ok(n))).collect())
    }
}

impl State {
    fn of(t: &Tensor) -> Option<State> {
        let node = t.uop().ok()?;
        // the tensor, and this
        let holders = holders(&node);
        Some(State { handle: Arc::downgrade(&t.0), node, holders })
    }
}

/// The start of larger memory becomes memory of its own, as any other part of it does when it is realised: so all parts
/// of one size are inputs of one kind. A part whose size varies stays where it is.
fn own_memory(t: &Tensor) -> Result<()> {
    let value = t.uop()?;
    let (mut n, mut part) = (&value, false);
    while matches!(n.op, Op::Reshape | Op::Shrink) {
        part |= n.op == Op::Shrink;
        n = &n.src[0];
    }
    if part && n.op == Op::Buffer && value.shape().iter().all(|d| d.as_int().is_some()) {
        t.replace(&t.contiguous());
    }
    Ok(())
}

fn nodes(tensors: &[Tensor]) -> Result<Vec<UOp>> {
    tensors.iter().map(Tensor::uop).collect()
}

fn engine<T>(r: std::result::Result<T, frit_engine::Error>) -> Result<T> {
    r.map_err(|e| Error::of_call("jit", e.to_string()))
}

/// A number of this thread, not 0.
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static MINE: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    MINE.with(|n| *n)
}
