//! Writing down what is launched, to launch it again: the recording side of the Jit (decision 008).
//!
//! In: a [`Tape`] filled by [`run`](crate::run) while this thread records. Out: a [`Program`], in which every piece of
//! memory has a place: an input, a result, an intermediate in one arena, or kept as it is.

use crate::buffer::{Buffer, Versions, contiguous_base};
use crate::normalise::{Bindings, normalise};
use crate::plan::Compiled;
use crate::program::{Launch, Output, Parts, Place, Program, Var};
use crate::{Error, stats};
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
    /// Every piece of memory the launches used: temporaries of a run, and buffers in whatever version.
    pieces: Vec<Piece>,
    /// Pieces by the versions they share, which are held with the piece.
    known: FxHashMap<*const Versions, usize>,
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
    Buffer { memory: Memory, versions: Arc<Versions> },
}

/// A tensor that was there before the recording and that the function looked at: an input, or one from outside.
pub struct Seen {
    /// The memory it was in.
    pub before: Arc<Versions>,
    /// Its value after the recording, in memory.
    pub after: UOp,
}

/// What a program does with the memory of a tensor that was there before.
#[derive(Clone, Copy)]
pub struct Link {
    /// Where its memory is among what the program keeps; `None` for an input, and where no launch uses it.
    pub held: Option<usize>,
    /// Whether it is stored to in place.
    pub written: bool,
    /// The output that is its memory after a replay, where that is another.
    pub moved: Option<usize>,
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

/// While this thread records: buffers with smaller numbers were there before.
pub(crate) fn first_new() -> Option<u64> {
    TAPE.with_borrow(|tape| tape.as_ref().map(|t| t.first_id))
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
        let versions = b.versions();
        *self.known.entry(Arc::as_ptr(versions)).or_insert_with(|| {
            self.pieces.push(Piece::Buffer { memory: b.memory.clone(), versions: versions.clone() });
            self.pieces.len() - 1
        })
    }
    /// The piece a tensor was in before the recording; none where no launch used it.
    fn before(&self, s: &Seen) -> Option<usize> {
        self.known.get(&Arc::as_ptr(&s.before)).copied()
    }

    /// Turn the tape into a program. `inputs` change with each call, `outside` are the other tensors that the function
    /// looked at, `outputs` are results in memory. `draws` are buffers with places in the random stream, to be rewritten
    /// before each replay. Variables bound in `varying` values and sizes take new values with each replay.
    /// Gives what becomes of the memory of inputs and of those outside, too; what they moved to are the last outputs.
    pub fn finish(
        mut self,
        inputs: &[Seen],
        outside: &[Seen],
        varying: &[UOp],
        outputs: &[UOp],
        draws: &[UOp],
    ) -> Result<(Program, Vec<Link>), Refusal> {
        if let Some(why) = self.refused.take() {
            return Err(Refusal::Never(Error::Graph(why)));
        }
        let never = |e: Error| Refusal::Never(e);
        let mut outputs = outputs.to_vec();
        let device = match &self.device {
            Some(d) => d.clone(),
            None => crate::realize::device_of(&[varying, &outputs].concat(), None).map_err(never)?,
        };
        // what was in one place before and is in another now
        let mut moved = vec![];
        for s in inputs.iter().chain(outside) {
            let is_moved = crate::buffer::versions(&s.after).is_some_and(|v| !Arc::ptr_eq(v, &s.before));
            moved.push(is_moved.then_some(outputs.len()));
            outputs.extend(is_moved.then(|| s.after.clone()));
        }
        // whoever reads memory that two of them were in means one of the two
        let is_split = |a: &Seen, b: &Seen| {
            let now = |s: &Seen| crate::buffer::versions(&s.after).map(Arc::as_ptr);
            Arc::ptr_eq(&a.before, &b.before) && now(a) != now(b)
        };
        let all = || inputs.iter().chain(outside);
        if all().enumerate().any(|(i, a)| all().skip(i + 1).any(|b| is_split(a, b))) {
            return Err(Refusal::Kept("it assigns to one of two tensors that are one memory".into()));
        }
        // a result may be memory that no launch touched
        let mut piece = |n: &UOp| match contiguous_base(n).and_then(Buffer::of) {
            Some(b) => Ok(self.buffer(b)),
            None => Err(Refusal::Never(Error::Graph("a value of a Jit is not in memory".into()))),
        };
        let outs = outputs.iter().map(&mut piece).collect::<Result<Vec<_>, _>>()?;
        let draws = draws.iter().map(&mut piece).collect::<Result<Vec<_>, _>>()?;
        let ins: Vec<Option<usize>> = inputs.iter().map(|s| self.before(s)).collect();
        let written = self.writers();
        let roles = self.roles(&ins, &outs, &written)?;
        let bound = bindings_of(varying, &[]).map_err(never)?;
        let before: Vec<Option<usize>> = inputs.iter().chain(outside).map(|s| self.before(s)).collect();
        let left = before.iter().zip(&moved).filter(|(_, m)| m.is_some()).filter_map(|(b, _)| *b);
        let changing: Vec<usize> = draws.iter().copied().chain(left).collect();
        let dynamic = self.dynamic(&roles, &changing, &written, &bound);
        let made = Made { device, bound: &bound, outputs: &outputs, ins: &ins, outs: &outs, draws: &draws };
        let (mut program, links) =
            self.build(made, &roles, &dynamic, &before, &moved, &written).map_err(never)?;
        for (link, s) in links.iter().zip(inputs.iter().chain(outside)) {
            if let (Some(held), Some(_)) = (link.held, link.moved) {
                program.set_held(held, &s.after).map_err(never)?;
            }
        }
        Ok((program, links))
    }

    /// Launches that write each piece.
    fn writers(&self) -> Vec<Vec<usize>> {
        let mut writers = vec![vec![]; self.pieces.len()];
        for (i, l) in self.launches.iter().enumerate() {
            for (&piece, _) in l.args.iter().zip(l.kernel.stored()).filter(|(_, w)| *w) {
                writers[piece].push(i);
            }
        }
        writers
    }

    fn roles(
        &self,
        ins: &[Option<usize>],
        outs: &[usize],
        writers: &[Vec<usize>],
    ) -> Result<Vec<Role>, Refusal> {
        let mut roles = vec![];
        for (i, piece) in self.pieces.iter().enumerate() {
            let input = ins.iter().position(|&p| p == Some(i));
            let output = outs.iter().position(|&p| p == i);
            roles.push(match piece {
                _ if input.is_some() => Role::Input(input.unwrap_or_default()),
                Piece::Temp { .. } => Role::Temporary,
                Piece::Buffer { versions, .. } if versions.is_older(self.first_id) || writers[i].is_empty() => {
                    Role::Held
                }
                Piece::Buffer { .. } if output.is_some() => Role::Output(output.unwrap_or_default()),
                // one holder is this tape
                Piece::Buffer { memory, .. } if memory.holders() <= self.sharing(memory) => Role::Temporary,
                Piece::Buffer { memory, .. } => {
                    let bytes = memory.len_bytes();
                    return Err(Refusal::Kept(format!(
                        "it keeps a tensor of {bytes} bytes that it computed; return it or assign it to one that was \
                         there before"
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

    /// Which pieces change from call to call: inputs, state that is written, memory that others write to, the `changing`
    /// ones (random places, and what a tensor leaves for other memory), and what is computed from them. All other launches need to run again only where what they read was assigned to.
    fn dynamic(
        &self,
        roles: &[Role],
        changing: &[usize],
        writers: &[Vec<usize>],
        bound: &Bindings,
    ) -> Vec<bool> {
        let mut dynamic: Vec<bool> = roles
            .iter()
            .enumerate()
            .map(|(i, r)| match r {
                Role::Input(_) => true,
                Role::Held => !writers[i].is_empty() || changing.contains(&i) || self.is_volatile(i),
                _ => false,
            })
            .collect();
        loop {
            let before = dynamic.iter().filter(|d| **d).count();
            for l in &self.launches {
                let varies = l.kernel.vars.iter().any(|v| bound.contains_key(v));
                if varies || l.args.iter().any(|&a| dynamic[a]) {
                    for (&piece, _) in l.args.iter().zip(l.kernel.stored()).filter(|(_, w)| *w) {
                        dynamic[piece] = true;
                    }
                }
            }
            if dynamic.iter().filter(|d| **d).count() == before {
                return dynamic;
            }
        }
    }

    fn build(
        self,
        made: Made,
        roles: &[Role],
        dynamic: &[bool],
        before: &[Option<usize>],
        moved: &[Option<usize>],
        writers: &[Vec<usize>],
    ) -> Result<(Program, Vec<Link>), Error> {
        let Made { device, bound, outputs, ins, outs, draws } = made;
        let dev = frit_runtime::device(&device)?;
        let repeats = |l: &Recorded| l.args.iter().zip(l.kernel.stored()).any(|(&a, w)| w && dynamic[a]);
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
        let mut versions: Vec<Option<Arc<Versions>>> = vec![];
        for (i, piece) in self.pieces.iter().enumerate() {
            places.push(match (roles[i], piece) {
                (Role::Input(n), _) => Place::Input(n),
                (Role::Output(n), _) if dynamic[i] => Place::Output(n),
                (_, piece) => match (lives[i], piece) {
                    (Some(life), _) => {
                        Place::Arena { offset: offsets.next().unwrap_or_default(), bytes: life.bytes }
                    }
                    (None, Piece::Buffer { memory, versions: v }) if matches!(roles[i], Role::Held) => {
                        held.push(memory.clone());
                        versions.push(Some(v.clone()));
                        Place::Held(held.len() - 1)
                    }
                    // computed once: what is kept of it is a copy of our own
                    (None, _) => {
                        held.push(dev.alloc(self.bytes(i))?);
                        versions.push(None);
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
        let is_written = |p: Option<usize>| p.is_some_and(|p| !writers[p].is_empty());
        let written_inputs = (0..ins.len()).filter(|&i| is_written(ins[i])).collect();
        let held_at = |p: usize| match places[p] {
            Place::Held(h) => Some(h),
            _ => None,
        };
        let draws = draws.iter().filter_map(|&p| held_at(p)).collect();
        let is_state = |i: &usize| is_written(Some(*i)) && dynamic[*i];
        let state = (0..self.pieces.len()).filter(is_state).filter_map(held_at).collect();
        let links: Vec<Link> = before
            .iter()
            .zip(moved)
            .map(|(&p, &moved)| Link { held: p.and_then(held_at), written: is_written(p), moved })
            .collect();
        let moved = links.iter().filter_map(|l| Some((l.held?, l.moved?))).collect();
        stats::count_capture();
        let (outputs, inputs) = (results, ins.len());
        let parts =
            Parts { device, launches, held, arena, outputs, inputs, written_inputs, state, moved, draws };
        Ok((Program::new(parts, once, versions, bound)?, links))
    }

    fn bytes(&self, piece: usize) -> usize {
        match &self.pieces[piece] {
            Piece::Temp { bytes } => *bytes,
            Piece::Buffer { memory, .. } => memory.len_bytes(),
        }
    }
    fn is_volatile(&self, piece: usize) -> bool {
        matches!(&self.pieces[piece], Piece::Buffer { versions, .. } if versions.is_volatile())
    }
}

/// What a program is made of, besides its pieces.
struct Made<'a> {
    device: Arc<str>,
    bound: &'a Bindings,
    outputs: &'a [UOp],
    ins: &'a [Option<usize>],
    outs: &'a [usize],
    draws: &'a [usize],
}

/// What a piece of memory is to the program.
#[derive(Clone, Copy)]
enum Role {
    Input(usize),
    Output(usize),
    Temporary,
    Held,
}

/// The values variables have in the shapes of these, and in these sizes.
pub(crate) fn bindings_of(values: &[UOp], sizes: &[UOp]) -> Result<Bindings, Error> {
    if values.is_empty() && sizes.is_empty() {
        return Ok(Bindings::default());
    }
    Ok(normalise(&UOp::sink(values.iter().chain(sizes).cloned()))?.bindings)
}
