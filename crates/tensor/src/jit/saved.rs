//! Recordings as bytes.

use super::ready::{Came, From, Ready};
use super::{Bundle, Entry, Form, Jit, Recorded, TRIES, engine};
use crate::error::{Result, call, fail};
use crate::mode::Ambient;
use crate::turn::Exclusive;
use frit_engine::jit::capture::Link;
use frit_engine::jit::file;
use frit_engine::jit::recording::{Recording, Saved, Signature};
use std::path::Path;
use std::sync::atomic::AtomicU64;

impl<I: Bundle, O: Bundle> Jit<I, O> {
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
        self.saved(|program, signature, notes| file::save(path.as_ref(), program, signature, notes))
    }
    /// What [`Jit::save`] writes, as bytes.
    #[track_caller]
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let _c = call("jit");
        self.saved(file::to_bytes)
    }
    fn saved<T>(
        &self,
        write: impl FnOnce(&Recording, &Signature, &[u64]) -> std::result::Result<T, frit_engine::Error>,
    ) -> Result<T> {
        let recorded = self.lock()?;
        let mut ready = recorded.entries.iter().filter_map(|e| Some((&e.key, e.ready.as_ref()?)));
        let (Some((key, ready)), None) = (ready.next(), ready.next()) else {
            return fail!("jit", "there is not exactly one recording to save; it is made by the second call");
        };
        if !ready.decided.is_empty() {
            return fail!(
                "jit",
                "the function decides by the value of a size, so its recording is not for every value"
            );
        }
        let mut notes = vec![];
        if ready.results.iter().any(|r| !matches!(r.from, From::Output(_)) || r.view.is_some()) {
            return fail!(
                "jit",
                "it gives back an input, a tensor from outside, or several views of one, which a file cannot"
            );
        }
        if ready.inputs.iter().any(|l| l.moved.is_some()) {
            return fail!("jit", "it assigns to an input whose old value is held, which a file cannot");
        }
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
        Jit::of_saved(engine(file::load(path))?, &path.display())
    }
    /// A recording from the bytes of [`Jit::to_bytes`] or of a file.
    #[track_caller]
    pub fn of_bytes(bytes: &[u8]) -> Result<Jit<I, O>> {
        let _c = call("jit");
        Jit::of_saved(engine(file::of_bytes(bytes))?, &"a recorded program")
    }
    fn of_saved(saved: Saved, name: &dyn std::fmt::Display) -> Result<Jit<I, O>> {
        let Saved { program, signature, notes } = saved;
        let mut words = notes.into_iter();
        let (Some(form), Some(output)) = (Form::read(&mut words, 0), Form::read(&mut words, 0)) else {
            return fail!("jit", "{name}: it does not say how its tensors are arranged");
        };
        let stored = |i: usize| program.written_inputs().contains(&i);
        let link = |i: usize| Link { held: None, written: stored(i), moved: None };
        let inputs: Vec<Link> = (0..signature.len()).map(link).collect();
        let results = (0..output.tensors()).map(|i| Came { from: From::Output(i), view: None }).collect();
        let draws: Vec<u64> = words.collect();
        let counts = [form.tensors(), output.tensors(), draws.len()];
        let has = program.counts();
        // what tensors outside move to are outputs, too, behind the results
        let fits = counts[0] == has[0] && counts[1] <= has[1] && counts[2] == has[2];
        if !fits || draws.iter().try_fold(0u64, |n, d| n.checked_add(*d)).is_none() {
            return fail!("jit", "{name}: it arranges {counts:?} inputs, results and draws, and has {has:?}");
        }
        let ready = Ready {
            program,
            output,
            results,
            rows: None,
            inputs,
            outside: vec![],
            shared: vec![],
            same: (0..form.tensors()).collect(),
            suspects: vec![],
            draws,
            decided: vec![],
        };
        let key = (signature, form, Ambient::now()?);
        let entry = Entry { key, tries: TRIES, ready: Some(ready), last: Default::default() };
        let recorded = Exclusive::new(Recorded { function: None, entries: vec![entry] });
        Ok(Jit { recorded, caller: AtomicU64::new(0), recapture: false })
    }
}
