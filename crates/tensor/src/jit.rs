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
//! bound in the shapes of inputs or in sizes that are given along take their new values (one that the function binds by
//! itself is an error). Where the function decided something by their values and would decide otherwise now, the call
//! runs plainly. What depends on none of these is computed once.
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

mod parted;
mod ready;
mod saved;
mod surroundings;

use crate::assign;
pub use crate::bundle::{Bundle, Form};
use crate::error::{Error, Result, call, fail, outside};
use crate::mode::Ambient;
use crate::random;
use crate::realize;
use crate::shape::{self, Dim};
use crate::tensor::{Tensor, next_born};
use crate::turn::{Exclusive, Had};
use crate::view::View;
use crate::watch::{self, Before, Outside};
use frit_engine::jit::capture::{Link, Refusal};
use frit_engine::jit::recording::Signature;
use frit_engine::jit::tune::{TunedRecording, tune_recording};
use frit_engine::run;
use frit_engine::search::{Effort, Tuned};
use frit_uop::UOp;
use parted::Parted;
use ready::{Ready, Verdict};
use rustc_hash::FxHashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use surroundings::{Sources, Surroundings};

/// Calls a function as a recording would: what could not be recorded, reading numbers of a tensor or of a size with
/// variables, is an error already. So a first call, which runs plainly, finds what the second would.
///
/// ```
/// # use frit_tensor::{Tensor, rehearse};
/// let x = Tensor::new([1.0f32, 2.0]).realize()?;
/// assert!(rehearse(|| x.to_vec::<f32>()).is_err());
/// assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0]);
/// # Ok::<(), frit_tensor::Error>(())
/// ```
pub fn rehearse<T>(f: impl FnOnce() -> T) -> T {
    // a recording watches already
    let _watching = (!shape::is_watched()).then(shape::Watching::start);
    run::rehearse(f)
}

/// Calls in a row that cannot be recorded before it is an error.
const TRIES: u32 = 3;
/// Signatures that a Jit remembers.
const SIGNATURES: usize = 64;

type Function<I, O> = Box<dyn FnMut(I) -> Result<O> + Send>;

/// A function whose launches are recorded at the second call and replayed from the third on.
///
/// Calls from several threads take turns.
pub struct Jit<I, O> {
    recorded: Exclusive<Recorded<I, O>>,
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
    key: Key,
    tries: u32,
    ready: Option<Ready>,
    /// The tensors that the last call which entered the function was given, those it looked at besides, and those that it
    /// assigned to.
    last: [FxHashSet<u64>; 3],
}

impl Entry {
    /// Whether the function assigns to what it is given.
    fn writes_inputs(&self) -> bool {
        let [given, _, assigned] = &self.last;
        let stores = |l: &Link| l.written || l.moved.is_some();
        !given.is_disjoint(assigned) || self.ready.as_ref().is_some_and(|r| r.inputs.iter().any(stores))
    }
}

/// The numbers of tensors.
fn numbers<'a>(tensors: impl Iterator<Item = &'a Tensor>) -> FxHashSet<u64> {
    tensors.map(Tensor::born).collect()
}

/// Inputs, how they are arranged, and what the function may ask of its surroundings.
type Key = (Signature, Form, Ambient);

impl<I: Bundle, O: Bundle> Jit<I, O> {
    /// A Jit of a function of tensors. It must compute the same way each time it is called.
    pub fn new(function: impl FnMut(I) -> Result<O> + Send + 'static) -> Jit<I, O> {
        let recorded = Recorded { function: Some(Box::new(function)), entries: vec![] };
        Jit { recorded: Exclusive::new(recorded), caller: AtomicU64::new(0), recapture: false }
    }
    /// Record again for inputs of another shape, type, device or arrangement, instead of refusing them.
    pub fn recapture(mut self) -> Jit<I, O> {
        self.recapture = true;
        self
    }
    /// Forget what was recorded; the next call runs plainly.
    pub fn reset(&self) {
        if let Ok(mut recorded) = self.lock() {
            recorded.entries.clear();
        }
    }
    /// How many kernels a replay of each recorded signature launches.
    pub fn kernels(&self) -> Vec<usize> {
        let Ok(recorded) = self.lock() else { return vec![] };
        recorded.entries.iter().filter_map(|e| e.ready.as_ref()).map(|r| r.program.kernels()).collect()
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
    ) -> Result<TunedRecording> {
        let _c = call("jit");
        // which also puts the inputs in their places
        self.call(inputs)?;
        let mut recorded = self.lock()?;
        let mut ready = recorded.entries.iter_mut().filter_map(|e| e.ready.as_mut());
        let (Some(ready), None) = (ready.next(), ready.next()) else {
            return fail!(
                "jit",
                "there is not exactly one recording to search for; it is made by the second call"
            );
        };
        let effort = engine(Effort::of_width(width))?;
        engine(tune_recording(&mut ready.program, &effort, told))
    }

    fn lock(&self) -> Result<Had<'_, Recorded<I, O>>> {
        match self.recorded.take() {
            Some(recorded) => Ok(recorded),
            None => fail!("jit", "another thread was in a call of it when this process was forked"),
        }
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
        let mut recorded = self.lock()?;
        let recorded = &mut *recorded;
        struct Leave<'a>(&'a AtomicU64);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.store(0, Ordering::Relaxed);
            }
        }
        self.caller.store(me, Ordering::Relaxed);
        let _leave = Leave(&self.caller);
        // inside another recording its launches belong to that
        if run::is_recording() {
            return recorded.function(inputs);
        }
        let mut tensors = vec![];
        let form = inputs.take_apart(&mut tensors);
        Tensor::realize_all(&tensors.iter().collect::<Vec<_>>())?;
        let sizes = sizes.iter().map(|d| d.0.clone()).collect::<Result<Vec<UOp>>>()?;
        let parts = Parted::of(&tensors)?;
        let mut described = nodes(&tensors)?;
        described.extend(sizes.iter().cloned());
        let at = recorded.find(&described, form, self.recapture)?;
        drop(described);
        recorded.call(at, tensors, &sizes, parts)
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
    fn find(&mut self, inputs: &[UOp], form: Form, recapture: bool) -> Result<usize> {
        let ambient = Ambient::now()?;
        let is_it = |e: &Entry| e.key.1 == form && e.key.2 == ambient && e.key.0.is_plainly_of(inputs);
        if let Some(at) = self.entries.iter().position(is_it) {
            return Ok(at);
        }
        let key = (engine(Signature::of(inputs))?, form, ambient);
        if let Some(at) = self.entries.iter().position(|e| e.key == key) {
            return Ok(at);
        }
        let other = |e: &&Entry| (&e.key.0, &e.key.1) != (&key.0, &key.1);
        if let Some(first) = self.entries.iter().find(other).filter(|_| !recapture) {
            let (known, given) = (first.key.0.describe(), key.0.describe());
            return fail!(
                "jit",
                "recorded for inputs {known}, called with {given}; make another Jit, or `recapture` this one"
            );
        }
        if self.entries.len() >= SIGNATURES {
            self.entries.remove(0);
        }
        self.entries.push(Entry { key, tries: 0, ready: None, last: Default::default() });
        // the first call of a signature only warms up
        Ok(self.entries.len() - 1)
    }

    fn call(&mut self, at: usize, tensors: Vec<Tensor>, sizes: &[UOp], parts: Parted) -> Result<O> {
        let entry = &mut self.entries[at];
        let form = entry.key.1.clone();
        // what is a copy of a part must not be seen another way
        let seen_whole = |(_, view, _): &(Tensor, View, u64)| {
            let [_, seen, assigned] = &entry.last;
            let base = view.base.born();
            seen.contains(&base) || assigned.contains(&base)
        };
        let apart = !parts.parts.iter().any(seen_whole);
        if entry.tries == 0 || !apart || entry.writes_inputs() && parts.is_entangled(&tensors) {
            let first = entry.tries == 0;
            entry.tries = entry.tries.max(1);
            drop(parts);
            let owners: Vec<Tensor> = tensors.iter().map(Tensor::owner).collect();
            let given = tensors.clone();
            let ((result, assigned), outside) = watch::outside(|| self.plainly(&form, tensors));
            match &result {
                Ok(_) => {
                    let given = numbers(owners.iter().chain(&given));
                    let mut seen = numbers(outside.iter().map(|o| &o.tensor));
                    seen.retain(|t| !given.contains(t));
                    self.entries[at].last = [given, seen, numbers(assigned.iter())];
                }
                Err(_) if first => _ = self.entries.remove(at),
                Err(_) => {}
            }
            return result;
        }
        if let Some(ready) = &mut entry.ready {
            // the tensors it stores to, so that no one assigns to them meanwhile; in an order that all agree on
            let mut stored = ready.stored_to(&tensors);
            stored.sort_by_key(Tensor::address);
            stored.dedup_by_key(|t| t.address());
            let turns: Vec<_> = stored.iter().map(Tensor::take_turn).collect();
            let fits = ready.rows.as_ref().is_none_or(|rows| *rows == parts.rows);
            let verdict = if fits { ready.look(&tensors, sizes)? } else { Verdict::Plainly };
            match verdict {
                Verdict::Replay => {
                    let recorded = crate::realize::realizing("jit");
                    let outputs = ready.replay(&tensors, sizes)?;
                    drop(recorded);
                    drop(turns);
                    parts.back(&stored)?;
                    let results = ready.results(&outputs, &tensors, sizes)?;
                    return Ok(O::put_together(&ready.output, &mut results.into_iter()));
                }
                Verdict::Plainly => {
                    drop(turns);
                    drop(parts);
                    return self.plainly(&form, tensors).0;
                }
                Verdict::Record => {
                    drop(turns);
                    if self.function.is_none() {
                        return fail!("jit", "it came from a file, and its tensors are not as they were");
                    }
                }
            }
            self.entries[at].ready = None;
        }
        self.record(at, &form, tensors, sizes, parts)
    }

    /// What the function does, with all it gave back and assigned to in memory; and what it assigned to.
    fn plainly(&mut self, form: &Form, tensors: Vec<Tensor>) -> (Result<O>, Vec<Tensor>) {
        assign::watch(|| {
            let output = self.function(I::put_together(form, &mut tensors.into_iter()))?;
            let mut results = vec![];
            let form = output.take_apart(&mut results);
            let mut all = assign::watched();
            all.extend(results.iter().cloned());
            Tensor::realize_all(&all.iter().collect::<Vec<_>>())?;
            Ok(O::put_together(&form, &mut results.into_iter()))
        })
    }

    fn record(
        &mut self,
        at: usize,
        form: &Form,
        tensors: Vec<Tensor>,
        sizes: &[UOp],
        parts: Parted,
    ) -> Result<O> {
        // what others assigned to is not part of what the function does
        assign::compute_pending();
        let owners: Vec<Tensor> = tensors.iter().map(Tensor::owner).collect();
        let start = next_born();
        let before: Vec<Before> = owners.iter().map(Before::of).collect();
        let watching = shape::Watching::start();
        let ((((result, draws), assigned), mut outside), tape) = run::record(|| {
            watch::outside(|| {
                assign::watch(|| {
                    random::watch(|| {
                        let inputs = I::put_together(form, &mut tensors.clone().into_iter());
                        let output = self.function(inputs)?;
                        let mut results = vec![];
                        let form = output.take_apart(&mut results);
                        let mut all: Vec<Tensor> = assign::watched();
                        all.retain(|t| t.born() < start);
                        all.extend(results.iter().cloned());
                        all.extend(watch::replaced());
                        Tensor::realize_all(&all.iter().collect::<Vec<_>>())?;
                        Ok((results, form))
                    })
                })
            })
        });
        let decided = watching.decided();
        let (results, output) = match result {
            Ok(done) => done,
            Err(e) => {
                assigned.iter().for_each(assign::wait);
                return Err(e);
            }
        };
        // an input that the function looked at when it was none is a tensor outside as well
        let [given, seen, _] = &self.entries[at].last;
        let is_input = |t: &Tensor| owners.iter().any(|i| i.is_same(t));
        outside.retain(|o| !is_input(&o.tensor) || seen.contains(&o.tensor.born()));
        let unknown = |number: u64| given.contains(&number) && !seen.contains(&number);
        let is_suspect = |t: &Tensor| unknown(t.born()) || parts.base(t).is_some_and(unknown);
        let suspects = owners.iter().enumerate().filter(|(_, t)| is_suspect(t));
        let suspects = suspects.map(|(i, t)| (i, t.downgrade())).collect();
        // memory that something outside is still to be computed from, as it is now
        let lazy: Vec<UOp> = outside.iter().filter_map(Outside::computed).collect();
        let needed =
            |b: &Before| matches!(b, Before::Memory(v, _) if lazy.iter().any(|n| realize::is_made_of(n, v)));
        let needs_input = before.iter().any(needed);
        let needed: Vec<bool> = outside.iter().map(|o| needed(&o.before)).collect();
        drop(lazy);
        // the next call finds a value where this one found something to compute
        let is_other_then = outside.iter().any(Outside::is_replaced);
        let others = outside.iter().map(|o| &o.tensor).filter(|t| !is_input(t));
        let stored = numbers(assigned.iter());
        // those of its own must not look as if someone kept them
        drop(assigned);
        let mut given = numbers(owners.iter().chain(&tensors));
        given.extend(tensors.iter().filter_map(|t| parts.base(t)));
        self.entries[at].last = [given, numbers(others), stored];
        let sources = Sources { given: &tensors, inputs: &owners, outside: &outside };
        let (came, outputs) = sources.of_results(&results);
        let states: Vec<UOp> = draws.iter().map(|d| d.0.clone()).collect();
        // the variables of inputs are those in how they are seen
        let mut varying = nodes(&tensors)?;
        varying.extend(sizes.iter().cloned());
        let finished =
            Surroundings { owners: &owners, before: &before, outside: &outside, outputs: &outputs }
                .finish(tape, &varying, &states);
        drop((states, varying));
        let entry = &mut self.entries[at];
        match finished {
            // what is stored to must stay what it is for them: each call runs plainly until they are computed
            Ok((_, _, outside, _))
                if is_other_then
                    || needs_input
                    || outside.iter().zip(&needed).any(|(k, n)| *n && k.is_stored_to()) => {}
            Ok((program, inputs, mut outside, shared)) => {
                outside.iter_mut().zip(needed).for_each(|(k, needed)| k.is_needed = needed);
                let draws = draws.into_iter().map(|d| d.1).collect();
                let output = output.clone();
                entry.ready = Some(Ready {
                    program,
                    output,
                    results: came,
                    rows: Some(parts.rows.clone()),
                    inputs,
                    outside,
                    shared,
                    same: ready::same(&tensors),
                    suspects,
                    draws,
                    decided,
                });
            }
            Err(Refusal::Kept(why)) => {
                entry.tries += 1;
                if entry.tries > TRIES {
                    return fail!("jit", "the function cannot be replayed: {why}");
                }
            }
            // the function may make two of one again and again: then each call is a plain one
            Err(Refusal::Parted) => {}
            Err(Refusal::Never(e)) => return fail!("jit", "the function cannot be recorded: {e}"),
        }
        parts.back(&[])?;
        // views of what is a view again
        for r in &results {
            if let Some(view) = r.as_view().filter(|v| v.base.as_view().is_some()) {
                r.set_view(view.through());
            }
        }
        Ok(O::put_together(&output, &mut results.into_iter()))
    }
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
