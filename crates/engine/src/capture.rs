//! Writing down what is launched, to launch it again: the recording side of the Jit (decision 008).
//!
//! In: a [`Tape`] filled by [`run`](crate::run) while this thread records. Out: a [`Program`], in which every piece of
//! memory has a place: an input, a result, an intermediate in one arena, or kept as it is.

use crate::buffer::{Buffer, contiguous_base};
use crate::normalise::{Bindings, normalise};
use crate::plan::Compiled;
use crate::program::{Launch, Output, Parts, Place, Program, Var};
use crate::{Error, stats};
use frit_abi::Param;
use frit_runtime::Memory;
use frit_schedule::memory::{Life, place};
use frit_schedule::{BufRef, Temp};
use frit_uop::UOp;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    static TAPE: RefCell<Option<Tape>> = const { RefCell::new(None) };
}

/// Everything launched while a thread records.
pub struct Tape {
    device: Option<Arc<str>>,
    /// Buffers with smaller numbers were there before.
    first_id: u64,
    launches: Vec<Recorded>,
    /// Every piece of memory the launches used: temporaries of a run, and buffers by where they are.
    pieces: Vec<Piece>,
    known: FxHashMap<u64, usize>,
    /// Launches on a second device, or something else that cannot be repeated.
    refused: Option<String>,
}

struct Recorded {
    kernel: Arc<Compiled>,
    args: Vec<usize>,
    bindings: Bindings,
}

enum Piece {
    Temp { bytes: usize },
    Buffer { memory: Memory, id: u64 },
}

/// Why a tape gives no program.
pub enum Refusal {
    /// The function keeps something it computed; another call may not.
    Kept(String),
    /// It cannot be repeated at all.
    Never(Error),
}

/// Whether this thread records.
pub fn is_recording() -> bool {
    TAPE.with_borrow(Option::is_some)
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
        first_id: crate::buffer::next_id(),
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
pub(crate) fn launched(
    kernel: &Arc<Compiled>,
    args: &[BufRef],
    buffers: &[UOp],
    bindings: &Bindings,
    temps: usize,
) {
    TAPE.with_borrow_mut(|tape| {
        let Some(tape) = tape else { return };
        let args = args.iter().map(|a| match a {
            BufRef::Temp(i) => Some(temps + *i as usize),
            BufRef::Param(i) => buffers.get(*i as usize).and_then(Buffer::of).map(|b| tape.buffer(b)),
        });
        let args: Option<Vec<usize>> = args.collect();
        match args {
            Some(args) => {
                tape.launches.push(Recorded { kernel: kernel.clone(), args, bindings: bindings.clone() })
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

    fn buffer(&mut self, b: &Buffer) -> usize {
        let id = frit_uop::Storage::id(b);
        *self.known.entry(id).or_insert_with(|| {
            self.pieces.push(Piece::Buffer { memory: b.memory.clone(), id });
            self.pieces.len() - 1
        })
    }

    /// Turn the tape into a program with these inputs and results, all in memory. `draws` are buffers with places in
    /// the random stream, to be rewritten before each replay. Variables bound in `sizes` take new values with each
    /// replay, as those in the shapes of inputs do.
    pub fn finish(
        mut self,
        inputs: &[UOp],
        sizes: &[UOp],
        outputs: &[UOp],
        draws: &[UOp],
    ) -> Result<Program, Refusal> {
        if let Some(why) = self.refused.take() {
            return Err(Refusal::Never(Error::Graph(why)));
        }
        let never = |e: Error| Refusal::Never(e);
        let device = match &self.device {
            Some(d) => d.clone(),
            None => crate::realize::device_of(&[inputs, outputs].concat(), None).map_err(never)?,
        };
        // an input or a result may be memory that no launch touched
        let mut piece = |n: &UOp| match contiguous_base(n).and_then(Buffer::of) {
            Some(b) => Ok(self.buffer(b)),
            None => Err(Refusal::Never(Error::Graph("a value of a Jit is not in memory".into()))),
        };
        let ins = inputs.iter().map(&mut piece).collect::<Result<Vec<_>, _>>()?;
        let outs = outputs.iter().map(&mut piece).collect::<Result<Vec<_>, _>>()?;
        let draws = draws.iter().map(&mut piece).collect::<Result<Vec<_>, _>>()?;
        if ins.iter().any(|&i| matches!(self.pieces[i], Piece::Buffer { id, .. } if id >= self.first_id)) {
            let why = "it assigns to an input while something else holds the input's old value";
            return Err(Refusal::Kept(why.into()));
        }
        let written = self.writers();
        let roles = self.roles(&ins, &outs, &written)?;
        let bound = bindings_of(inputs, sizes).map_err(never)?;
        let dynamic = self.dynamic(&roles, &draws, &written, &bound);
        self.build(device, &bound, outputs, &ins, &outs, &draws, &roles, &dynamic).map_err(never)
    }

    /// Launches that write each piece.
    fn writers(&self) -> Vec<Vec<usize>> {
        let mut writers = vec![vec![]; self.pieces.len()];
        for (i, l) in self.launches.iter().enumerate() {
            for (&piece, _) in l.args.iter().zip(l.written()).filter(|(_, w)| *w) {
                writers[piece].push(i);
            }
        }
        writers
    }

    fn roles(&self, ins: &[usize], outs: &[usize], writers: &[Vec<usize>]) -> Result<Vec<Role>, Refusal> {
        let mut roles = vec![];
        for (i, piece) in self.pieces.iter().enumerate() {
            let input = ins.iter().position(|&p| p == i);
            let output = outs.iter().position(|&p| p == i);
            roles.push(match piece {
                _ if input.is_some() => Role::Input(input.unwrap_or_default()),
                Piece::Temp { .. } => Role::Temporary,
                Piece::Buffer { id, .. } if *id < self.first_id || writers[i].is_empty() => Role::Held,
                Piece::Buffer { .. } if output.is_some() => Role::Output(output.unwrap_or_default()),
                // one holder is this tape
                Piece::Buffer { memory, .. } if memory.holders() <= self.sharing(memory) => Role::Temporary,
                Piece::Buffer { memory, .. } => {
                    let bytes = memory.len_bytes();
                    return Err(Refusal::Kept(format!(
                        "it keeps a tensor of {bytes} bytes that it computed; return it or assign it to one that \
                         was there before (a tensor assigned to while something else holds its old value counts)"
                    )));
                }
            });
        }
        Ok(roles)
    }

    /// Pieces of this tape that share the allocation.
    fn sharing(&self, memory: &Memory) -> usize {
        let same = |p: &&Piece| matches!(p, Piece::Buffer { memory: m, .. } if m.same_allocation(memory));
        self.pieces.iter().filter(same).count()
    }

    /// Which pieces change from call to call: inputs, state that is written, random places, and what is computed from
    /// them. All other launches need to run only once.
    fn dynamic(
        &self,
        roles: &[Role],
        draws: &[usize],
        writers: &[Vec<usize>],
        bound: &Bindings,
    ) -> Vec<bool> {
        let mut dynamic: Vec<bool> = roles
            .iter()
            .enumerate()
            .map(|(i, r)| match r {
                Role::Input(_) => true,
                Role::Held => !writers[i].is_empty() || draws.contains(&i),
                _ => false,
            })
            .collect();
        loop {
            let before = dynamic.iter().filter(|d| **d).count();
            for l in &self.launches {
                let varies = l.kernel.vars.iter().any(|v| bound.contains_key(v));
                if varies || l.args.iter().any(|&a| dynamic[a]) {
                    for (&piece, _) in l.args.iter().zip(l.written()).filter(|(_, w)| *w) {
                        dynamic[piece] = true;
                    }
                }
            }
            if dynamic.iter().filter(|d| **d).count() == before {
                return dynamic;
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn build(
        self,
        device: Arc<str>,
        bound: &Bindings,
        outputs: &[UOp],
        ins: &[usize],
        outs: &[usize],
        draws: &[usize],
        roles: &[Role],
        dynamic: &[bool],
    ) -> Result<Program, Error> {
        let dev = frit_runtime::device(&device)?;
        let repeats = |l: &Recorded| l.args.iter().zip(l.written()).any(|(&a, w)| w && dynamic[a]);
        let repeated: Vec<&Recorded> = self.launches.iter().filter(|l| repeats(l)).collect();
        let mut lives: Vec<Option<Life>> = vec![None; self.pieces.len()];
        for (step, l) in repeated.iter().enumerate() {
            for &a in l.args.iter().filter(|&&a| matches!(roles[a], Role::Temporary) && dynamic[a]) {
                let life = lives[a].get_or_insert(Life { bytes: self.bytes(a), first: step, last: step });
                life.last = step;
            }
        }
        let (offsets, arena) = place(&lives.iter().flatten().copied().collect::<Vec<_>>());
        let (mut held, mut places, mut offsets) = (vec![], vec![], offsets.into_iter());
        for (i, piece) in self.pieces.iter().enumerate() {
            places.push(match (roles[i], piece) {
                (Role::Input(n), _) => Place::Input(n),
                (Role::Output(n), _) if dynamic[i] => Place::Output(n),
                (_, piece) => match (lives[i], piece) {
                    (Some(life), _) => {
                        Place::Arena { offset: offsets.next().unwrap_or_default(), bytes: life.bytes }
                    }
                    (None, Piece::Buffer { memory, .. }) if matches!(roles[i], Role::Held) => {
                        held.push(memory.clone());
                        Place::Held(held.len() - 1)
                    }
                    // computed once: what is kept of it is a copy of our own
                    (None, _) => {
                        held.push(dev.alloc(self.bytes(i))?);
                        Place::Held(held.len() - 1)
                    }
                },
            });
        }
        let launch = |l: &&Recorded| {
            let var = |name: &Arc<str>| match (bound.contains_key(name), l.bindings.get(name)) {
                (true, _) => Ok(Var::Bound(name.clone())),
                // the engine's own: the step of a loop
                (false, Some(v)) if name.starts_with('@') => Ok(Var::Frozen(*v)),
                (false, Some(v)) => Err(Error::Graph(format!(
                    "variable {name} would stay {v}: it is in no shape of an input; give the size along with the inputs"
                ))),
                (false, None) => Err(Error::Graph(format!("variable {name} has no value: bind it"))),
            };
            let vars = l.kernel.vars.iter().map(var).collect::<Result<Vec<_>, _>>()?;
            Ok(Launch {
                kernel: l.kernel.clone(),
                args: l.args.iter().map(|&a| places[a]).collect(),
                vars,
                frozen: l.bindings.clone(),
            })
        };
        let launches = repeated.iter().map(launch).collect::<Result<Vec<_>, Error>>()?;
        let once: Vec<&Recorded> = self.launches.iter().filter(|l| !repeats(l)).collect();
        let once = once.iter().map(launch).collect::<Result<Vec<_>, Error>>()?;
        let results = outputs.iter().zip(outs).map(|(o, &p)| {
            Ok(Output { view: normalise(o)?.sink, bytes: self.bytes(p), dtype: o.dtype, from: places[p] })
        });
        let results = results.collect::<Result<Vec<_>, Error>>()?;
        let written = |i: &usize| matches!(roles[*i], Role::Input(_)) && self.is_written(*i);
        let written_inputs = (0..ins.len()).filter(|i| written(&ins[*i])).collect();
        let draws = draws.iter().filter_map(|&p| match places[p] {
            Place::Held(h) => Some(h),
            _ => None,
        });
        let draws = draws.collect();
        let state = (0..self.pieces.len()).filter(|&i| self.is_written(i)).filter_map(|i| match places[i] {
            Place::Held(h) if dynamic[i] => Some(h),
            _ => None,
        });
        let state = state.collect();
        stats::count_capture();
        let (outputs, inputs) = (results, ins.len());
        let parts = Parts { device, launches, held, arena, outputs, inputs, written_inputs, state, draws };
        Program::new(parts, &once, bound)
    }

    fn bytes(&self, piece: usize) -> usize {
        match &self.pieces[piece] {
            Piece::Temp { bytes } => *bytes,
            Piece::Buffer { memory, .. } => memory.len_bytes(),
        }
    }
    fn is_written(&self, piece: usize) -> bool {
        self.launches.iter().any(|l| l.args.iter().zip(l.written()).any(|(&a, w)| w && a == piece))
    }
}

/// What a piece of memory is to the program.
#[derive(Clone, Copy)]
enum Role {
    Input(usize),
    Output(usize),
    Temporary,
    Held,
}

impl Recorded {
    /// Which arguments the kernel stores to.
    fn written(&self) -> impl Iterator<Item = bool> {
        self.kernel.loaded.params().iter().filter_map(|p| match p {
            Param::Buffer { written, .. } => Some(*written),
            Param::Var { .. } => None,
        })
    }
}

/// The values variables have in the shapes of these, and in these sizes.
pub(crate) fn bindings_of(values: &[UOp], sizes: &[UOp]) -> Result<Bindings, Error> {
    if values.is_empty() && sizes.is_empty() {
        return Ok(Bindings::default());
    }
    Ok(normalise(&UOp::sink(values.iter().chain(sizes).cloned()))?.bindings)
}
