//! Writing down what this thread launches, for a Jit to launch again (decision 008).

use crate::Error;
use crate::kernel::compiled::Compiled;
use crate::memory::bindings::Bindings;
use crate::memory::buffer::{Buffer, Versions, next_id};
use crate::plan::schedule::Call;
use frit_runtime::Memory;
use frit_schedule::{BufRef, Temp};
use frit_uop::UOp;
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

thread_local! {
    static TAPE: RefCell<Option<Tape>> = const { RefCell::new(None) };
    static REHEARSES: Cell<bool> = const { Cell::new(false) };
}

/// Everything launched while a thread records.
pub struct Tape {
    pub(crate) device: Option<Arc<str>>,
    /// Buffers with smaller numbers were there before.
    pub(crate) first_id: u64,
    pub(crate) launches: Vec<Recorded>,
    /// Every piece of memory the launches used: temporaries of a run, and buffers in whatever version.
    pub(crate) pieces: Vec<Piece>,
    /// Pieces by the versions they share, which are held with the piece.
    known: FxHashMap<*const Versions, usize>,
    /// Launches on a second device, or something else that cannot be repeated.
    pub(crate) refused: Option<String>,
}

pub(crate) struct Recorded {
    pub kernel: Arc<Compiled>,
    pub origin: Arc<str>,
    pub args: Vec<usize>,
    pub bindings: Bindings,
}

pub(crate) enum Piece {
    Temp { bytes: usize },
    Buffer { memory: Memory, versions: Arc<Versions> },
}

/// Whether this thread records.
pub fn is_recording() -> bool {
    TAPE.with_borrow(Option::is_some)
}

/// While this thread records: buffers with smaller numbers were there before.
pub(crate) fn first_new() -> Option<u64> {
    TAPE.with_borrow(|tape| tape.as_ref().map(|t| t.first_id))
}

/// An error while this thread records: what is read now would be frozen.
pub(crate) fn check_reading() -> Result<(), Error> {
    let why = "data is read while a Jit records: what it is now would be frozen; return the tensor instead";
    if is_recording() || REHEARSES.get() { Err(Error::Graph(why.into())) } else { Ok(()) }
}

/// Let reading data be an error on this thread while `f` runs, as it is while one records.
pub fn rehearse<T>(f: impl FnOnce() -> T) -> T {
    struct Stop(bool);
    impl Drop for Stop {
        fn drop(&mut self) {
            REHEARSES.set(self.0);
        }
    }
    let _stop = Stop(REHEARSES.replace(true));
    f()
}

/// An error while this thread records: a replay would not look at a file.
pub(crate) fn check_files() -> Result<(), Error> {
    let why =
        "DISK is used while a Jit records, and a replay would not: move it with to(...) and realize() before";
    if is_recording() { Err(Error::Graph(why.into())) } else { Ok(()) }
}

/// Record what `f` launches on this thread. Recordings do not nest.
pub fn record<T>(f: impl FnOnce() -> T) -> (T, Tape) {
    struct Stop;
    impl Drop for Stop {
        fn drop(&mut self) {
            TAPE.take();
        }
    }
    let stop = Stop;
    TAPE.set(Some(Tape {
        device: None,
        first_id: next_id(),
        launches: vec![],
        pieces: vec![],
        known: FxHashMap::default(),
        refused: None,
    }));
    let result = f();
    let tape = TAPE.take();
    drop(stop);
    (result, tape.unwrap_or_else(Tape::lost))
}

/// Where the temporaries of a run begin among the pieces of the tape, if there is one.
pub(crate) fn begin_run(device: &Arc<str>, temps: &[Temp]) -> usize {
    TAPE.with_borrow_mut(|tape| {
        let Some(tape) = tape else { return 0 };
        match &tape.device {
            Some(d) if d != device => {
                tape.refused = Some(format!("it runs on {d} and on {device}; a Jit runs on one device"));
            }
            _ => tape.device = Some(device.clone()),
        }
        let base = tape.pieces.len();
        tape.pieces.extend(temps.iter().map(|t| Piece::Temp { bytes: t.len * t.dtype.size() }));
        base
    })
}

/// What runs now cannot be repeated.
pub(crate) fn refuse(why: &str) {
    TAPE.with_borrow_mut(|tape| {
        if let Some(tape) = tape {
            tape.refused = Some(why.into());
        }
    });
}

/// Write down one launch.
pub(crate) fn launched(call: &Call, buffers: &[UOp], bindings: &Bindings, temps: usize) {
    TAPE.with_borrow_mut(|tape| {
        let Some(tape) = tape else { return };
        let args = call.args.iter().map(|a| match a {
            BufRef::Temp(i) => Some(temps + *i as usize),
            BufRef::Param(i) => buffers.get(*i as usize).and_then(Buffer::of).map(|b| tape.buffer(b)),
        });
        let args: Option<Vec<usize>> = args.collect();
        match args {
            Some(args) => {
                let (kernel, origin) = (call.kernel.clone(), call.origin.clone());
                tape.launches.push(Recorded { kernel, origin, args, bindings: bindings.clone() })
            }
            None => tape.refused = Some("a kernel argument is not a buffer of its graph".into()),
        }
    });
}

impl Tape {
    fn lost() -> Tape {
        Tape {
            device: None,
            first_id: 0,
            launches: vec![],
            pieces: vec![],
            known: FxHashMap::default(),
            refused: Some("the recording was interrupted".into()),
        }
    }

    /// The piece that a buffer is.
    pub(crate) fn buffer(&mut self, b: &Buffer) -> usize {
        let versions = b.versions();
        *self.known.entry(Arc::as_ptr(versions)).or_insert_with(|| {
            self.pieces.push(Piece::Buffer { memory: b.memory.clone(), versions: versions.clone() });
            self.pieces.len() - 1
        })
    }
    /// The piece with these versions; none where no launch used it.
    pub(crate) fn piece_of(&self, versions: &Arc<Versions>) -> Option<usize> {
        self.known.get(&Arc::as_ptr(versions)).copied()
    }
}
