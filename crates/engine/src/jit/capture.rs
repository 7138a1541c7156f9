//! What was launched becomes a recording: the last step of a Jit's recording (decision 008).
//!
//! In: a [`Tape`] of launches. Out: a [`Recording`], in which every piece of memory has a place: an input, a result, an
//! intermediate in one arena, or kept as it is.

use super::recording::{Launch, Output, Parts, Place, Recording, Var};
use crate::devices::device_of;
use crate::memory::bindings::Bindings;
use crate::memory::buffer::{Buffer, Versions};
use crate::memory::view::{contiguous_base, versions};
use crate::plan::normalise::{bindings_of, normalise};
use crate::run::tape::{Piece, Recorded, Tape};
use crate::{Error, stats};
use frit_runtime::Memory;
use frit_schedule::memory::{Life, place};
use frit_uop::UOp;
use std::sync::Arc;

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
    /// Two tensors that were one memory are two from now on; another call may be given two.
    Parted,
    /// It cannot be repeated at all.
    Never(Error),
}

impl Tape {
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
    ) -> Result<(Recording, Vec<Link>), Refusal> {
        if let Some(why) = self.refused.take() {
            return Err(Refusal::Never(Error::Graph(why)));
        }
        let never = |e: Error| Refusal::Never(e);
        let mut outputs = outputs.to_vec();
        let device = match &self.device {
            Some(d) => d.clone(),
            None => device_of(&[varying, &outputs].concat(), None).map_err(never)?,
        };
        // what was in one place before and is in another now
        let mut moved = vec![];
        for s in inputs.iter().chain(outside) {
            let is_moved = versions(&s.after).is_some_and(|v| !Arc::ptr_eq(v, &s.before));
            moved.push(is_moved.then_some(outputs.len()));
            outputs.extend(is_moved.then(|| s.after.clone()));
        }
        // whoever reads memory that two of them were in means one of the two
        let is_split = |a: &Seen, b: &Seen| {
            let now = |s: &Seen| versions(&s.after).map(Arc::as_ptr);
            Arc::ptr_eq(&a.before, &b.before) && now(a) != now(b)
        };
        let all = || inputs.iter().chain(outside);
        if all().enumerate().any(|(i, a)| all().skip(i + 1).any(|b| is_split(a, b))) {
            return Err(Refusal::Parted);
        }
        // a result may be memory that no launch touched
        let mut piece = |n: &UOp| match contiguous_base(n).and_then(Buffer::of) {
            Some(b) => Ok(self.buffer(b)),
            None => Err(Refusal::Never(Error::Graph("a value of a Jit is not in memory".into()))),
        };
        let outs = outputs.iter().map(&mut piece).collect::<Result<Vec<_>, _>>()?;
        let draws = draws.iter().map(&mut piece).collect::<Result<Vec<_>, _>>()?;
        let ins: Vec<Option<usize>> = inputs.iter().map(|s| self.piece_of(&s.before)).collect();
        let written = self.writers();
        let roles = self.roles(&ins, &outs, &written)?;
        let bound = bindings_of(varying, &[]).map_err(never)?;
        let before: Vec<Option<usize>> =
            inputs.iter().chain(outside).map(|s| self.piece_of(&s.before)).collect();
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
    /// ones (random places, and what a tensor leaves for other memory), what is computed from them, and what such a launch
    /// reads before another writes it again. All other launches need to run again only where what they read was assigned to.
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
            for (i, l) in self.launches.iter().enumerate() {
                let varies = l.kernel.vars.iter().any(|v| bound.contains_key(v));
                if varies || l.args.iter().any(|&a| dynamic[a]) {
                    for (&piece, _) in l.args.iter().zip(l.kernel.stored()).filter(|(_, w)| *w) {
                        dynamic[piece] = true;
                    }
                    // what was computed once would be there as its last writer left it
                    for &piece in l.args.iter().filter(|&&a| writers[a].iter().any(|&w| w > i)) {
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
    ) -> Result<(Recording, Vec<Link>), Error> {
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
                origin: l.origin.clone(),
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
        let lone = self.pieces.iter().enumerate().filter_map(|(i, piece)| match piece {
            Piece::Buffer { versions, .. } if matches!(roles[i], Role::Held) && !dynamic[i] => {
                (!before.contains(&Some(i))).then(|| versions.clone())
            }
            _ => None,
        });
        let mut program = Recording::new(parts, once, versions, bound)?;
        program.keep_to(lone);
        Ok((program, links))
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
