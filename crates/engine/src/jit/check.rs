//! Whether a program from a file can do only what a recording does.
//!
//! A file may be damaged or made up, and its kernels run as machine code. So nothing in it is believed:
//! - kernels are well-formed and stay inside their parameters ([`verify`]), whatever the data and the variables,
//! - parameters are no larger than the memory they are bound to, and that memory is one that may be written,
//! - intermediates lie in the arena, and none is read that was not written before, or was overwritten since,
//! - truth values are 0 or 1, and no other type is ever in their memory: code is made for these two,
//! - results are views of memory that is there and written,
//! - memory that takes the place of kept memory is as large, in order, and of truth values where that is,
//! - variables keep to the range that their kernels were proven for, at every call.

use super::recording::{Launch, Output, Parts, Place, Signature, Var};
use crate::memory::bindings::Bindings;
use frit_abi::{DType, Param};
use frit_uop::verify::{self, verify};
use frit_uop::{Arg, Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::sync::Arc;

type Checked = Result<(), String>;

/// Kernel graphs, before anything is made of them.
pub(crate) fn kernels(asts: &[UOp]) -> Checked {
    for ast in asts {
        verify(ast).map_err(|e| e.to_string())?;
        if ast.any(|n| n.op == Op::Bitcast && n.dtype == DType::Bool) {
            return Err("a kernel takes any byte for a truth value".into());
        }
    }
    Ok(())
}

/// Everything else, before anything is launched.
pub(crate) fn program(parts: &Parts, signature: &Signature) -> Checked {
    let inputs = signature.inputs.get(..parts.inputs).ok_or("it describes fewer inputs than it has")?;
    let inputs = inputs.iter().map(verify::view).collect::<Result<Vec<_>, _>>()?;
    let memory = Memory { parts, inputs: &inputs };
    variables(parts, signature)?;
    let mut arena = Arena::default();
    let mut written: FxHashSet<usize> = FxHashSet::default();
    let mut truths: FxHashMap<usize, bool> = FxHashMap::default();
    for l in &parts.launches {
        let uses = memory.uses(l)?;
        arena.launch(&uses)?;
        for u in &uses {
            if let Place::Held(h) = u.place
                && truths.insert(h, u.truth).is_some_and(|before| before != u.truth)
            {
                return Err(format!("kept memory {h} is truth values and something else"));
            }
        }
        for u in uses.iter().filter(|u| u.written) {
            match u.place {
                Place::Input(i) if !parts.written_inputs.contains(&i) => {
                    return Err(format!("kernel {} writes to input {i}, which is not to be", l.kernel.name));
                }
                Place::Held(h) if !parts.state.contains(&h) => {
                    return Err(format!(
                        "kernel {} writes to kept memory {h}, which is not state",
                        l.kernel.name
                    ));
                }
                Place::Output(i) => _ = written.insert(i),
                _ => {}
            }
        }
    }
    for (&h, _) in truths.iter().filter(|t| *t.1) {
        truth_values(&parts.held[h]).map_err(|e| format!("kept memory {h}: {e}"))?;
    }
    moves(parts, &truths)?;
    for (i, o) in parts.outputs.iter().enumerate() {
        memory.result(o)?;
        let is_made = match o.from {
            Place::Output(j) => written.contains(&j),
            Place::Arena { offset, bytes } => arena.has(offset, bytes, o.dtype == DType::Bool),
            Place::Input(_) | Place::Held(_) => true,
        };
        if !is_made && o.bytes > 0 {
            return Err(format!("result {i} is written by no kernel"));
        }
    }
    Ok(())
}

/// Kept memory that is let go for a result's after each replay: kernels were proven for what it was.
fn moves(parts: &Parts, truths: &FxHashMap<usize, bool>) -> Checked {
    let mut known: FxHashSet<usize> = FxHashSet::default();
    for &(h, o) in &parts.moved {
        let (held, output) = (parts.held.get(h), parts.outputs.get(o));
        let (held, output) =
            held.zip(output).ok_or_else(|| format!("result {o} replaces kept memory {h}"))?;
        let in_order = |n: &UOp| match n.op {
            Op::Reshape => true,
            Op::Shrink => n.shape().len() == 1 && n.src[1].as_int() == Some(0),
            _ => false,
        };
        let mut n = &output.view;
        while in_order(n) {
            n = n.input();
        }
        let alike = truths.get(&h).is_none_or(|truth| *truth == (output.dtype == DType::Bool));
        if !known.insert(h) || n.op != Op::Param || output.bytes != held.len_bytes() || !alike {
            return Err(format!(
                "result {o} of {} bytes of {} cannot replace kept memory {h} of {} bytes",
                output.bytes,
                output.dtype,
                held.len_bytes()
            ));
        }
    }
    Ok(())
}

/// An argument of a launch.
struct Use {
    place: Place,
    read: bool,
    written: bool,
    /// It is of truth values.
    truth: bool,
}

/// Bytes that are all 0 or 1.
fn truth_values(memory: &frit_runtime::Memory) -> Checked {
    let mut bytes = vec![0; memory.len_bytes()];
    memory.copy_out(0, &mut bytes).map_err(|e| e.to_string())?;
    match bytes.iter().find(|b| **b > 1) {
        Some(b) => Err(format!("{b} is no truth value")),
        None => Ok(()),
    }
}

struct Memory<'a> {
    parts: &'a Parts,
    /// The parameters that inputs are views of.
    inputs: &'a [UOp],
}

impl Memory<'_> {
    /// How many bytes there are at a place, and of which type if it has one.
    fn at(&self, place: Place) -> Result<(usize, Option<DType>), String> {
        let found = match place {
            Place::Input(i) => self.inputs.get(i).and_then(|p| Some((param_bytes(p)?, Some(p.dtype)))),
            Place::Output(i) => self.parts.outputs.get(i).map(|o| (o.bytes, Some(o.dtype))),
            Place::Held(h) => self.parts.held.get(h).map(|m| (m.len_bytes(), None)),
            Place::Arena { offset, bytes } => {
                let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.parts.arena);
                (inside && offset.is_multiple_of(ALIGN)).then_some((bytes, None))
            }
        };
        found.ok_or_else(|| format!("there is no place {place:?}"))
    }

    /// The arguments of a launch, each of which its memory is large enough for.
    fn uses(&self, l: &Launch) -> Result<Vec<Use>, String> {
        let buffers = l.kernel.executable.params().iter().filter_map(|p| match p {
            Param::Buffer { dtype, len, written, .. } => Some((*dtype, *len, *written)),
            Param::Var { .. } => None,
        });
        let buffers: Vec<_> = buffers.collect();
        let name = &l.kernel.name;
        if buffers.len() != l.args.len() {
            return Err(format!("kernel {name} has {} buffers, not {}", buffers.len(), l.args.len()));
        }
        let read = slots_read(&l.kernel.ast);
        let mut uses = vec![];
        for (slot, (&place, (dtype, len, written))) in l.args.iter().zip(buffers).enumerate() {
            let (bytes, of) = self.at(place)?;
            let fits = len.checked_mul(dtype.size()).is_some_and(|need| need <= bytes);
            if !fits || of.is_some_and(|d| d != dtype) {
                return Err(format!(
                    "kernel {name} takes {len} of {dtype} as argument {slot}, which is {bytes} bytes at {place:?}"
                ));
            }
            let truth = dtype == DType::Bool;
            uses.push(Use { place, read: read.contains(&(slot as u32)), written, truth });
        }
        Ok(uses)
    }

    /// A result is a view of all its memory, and there is as much to take it from.
    fn result(&self, o: &Output) -> Checked {
        let base = verify::view(&o.view)?;
        if base.dtype != o.dtype || param_bytes(&base) != Some(o.bytes) {
            return Err("a result is not a view of its memory".into());
        }
        match self.at(o.from)? {
            (bytes, of) if bytes >= o.bytes && of.is_none_or(|d| d == o.dtype) => Ok(()),
            _ => Err(format!("a result of {} bytes is taken from {:?}", o.bytes, o.from)),
        }
    }
}

/// Where intermediates begin: as recordings place them.
const ALIGN: usize = frit_schedule::memory::ALIGN;

fn param_bytes(p: &UOp) -> Option<usize> {
    match p.arg {
        Arg::Param { len, .. } => len.checked_mul(p.dtype.size()),
        _ => None,
    }
}

/// Parameters that a kernel loads from.
fn slots_read(ast: &UOp) -> FxHashSet<u32> {
    let slot = |n: &UOp| {
        let mut buffer = n.src.first().filter(|_| n.op == Op::Load)?.src.first()?;
        while buffer.op == Op::After {
            buffer = &buffer.src[0];
        }
        match buffer.arg {
            Arg::Param { slot, .. } => Some(slot),
            _ => None,
        }
    };
    ast.toposort().iter().filter_map(slot).collect()
}

/// What is in the arena while launches are gone through: pieces that were written and nothing has overwritten since.
#[derive(Default)]
struct Arena {
    /// The end of each and whether it is of truth values, by where it begins. No two overlap.
    live: BTreeMap<usize, (usize, bool)>,
}

impl Arena {
    fn has(&self, offset: usize, bytes: usize, truth: bool) -> bool {
        self.live.get(&offset) == Some(&(offset + bytes, truth))
    }

    fn launch(&mut self, uses: &[Use]) -> Checked {
        let mut pieces: Vec<(usize, usize, bool, bool)> = vec![];
        for u in uses {
            let Place::Arena { offset, bytes } = u.place else { continue };
            if bytes == 0 {
                continue;
            }
            if u.read && !u.written && !self.has(offset, bytes, u.truth) {
                return Err(format!(
                    "{bytes} bytes at {offset} of the arena are read, and no kernel left them there"
                ));
            }
            pieces.push((offset, offset + bytes, u.written, u.truth));
        }
        // two that overlap without being the same, where one is written
        pieces.sort_unstable();
        let mut reach: Option<(usize, usize, bool, bool)> = None;
        for p in &pieces {
            if let Some(r) = reach
                && p.0 < r.1
                && (p.0, p.1, p.3) != (r.0, r.1, r.3)
                && (p.2 || r.2)
            {
                return Err(format!("{p:?} and {r:?} of the arena overlap in one launch"));
            }
            reach = Some(match reach {
                Some(r) if r.1 > p.1 => (r.0, r.1, r.2 || p.2, r.3),
                Some(r) if (r.0, r.1) == (p.0, p.1) => (r.0, r.1, r.2 || p.2, r.3),
                _ => *p,
            });
        }
        for (start, end, _, truth) in pieces.into_iter().filter(|p| p.2) {
            if self.live.get(&start) == Some(&(end, truth)) {
                continue;
            }
            let from = self.live.range(..start).next_back().filter(|p| p.1.0 > start).map_or(start, |p| *p.0);
            let gone: Vec<usize> = self.live.range(from..end).map(|p| *p.0).collect();
            gone.iter().for_each(|g| _ = self.live.remove(g));
            self.live.insert(start, (end, truth));
        }
        Ok(())
    }
}

/// Every variable of a kernel has one value now and, where it follows the inputs, a range there that the kernel was
/// proven for. Which values it really has is checked against that range when an input is bound.
fn variables(parts: &Parts, signature: &Signature) -> Checked {
    let mut declared: FxHashMap<Arc<str>, (i64, i64)> = FxHashMap::default();
    for n in frit_uop::graph::toposort(&signature.inputs) {
        if let Arg::Var { name, min, max } = &n.arg
            && declared.insert(name.clone(), (*min, *max)).is_some_and(|old| old != (*min, *max))
        {
            return Err(format!("inputs have two variables {name}"));
        }
    }
    let mut values = Bindings::default();
    for l in &parts.launches {
        for (name, value) in &l.frozen {
            if values.insert(name.clone(), *value).is_some_and(|old| old != *value) {
                return Err(format!("variable {name} has two values"));
            }
        }
        let kernel = &l.kernel;
        for n in kernel.ast.toposort() {
            let Arg::Var { name, min, max } = &n.arg else { continue };
            let at = kernel.vars.iter().position(|v| v == name);
            let Some(var) = at.and_then(|i| l.vars.get(i)) else {
                return Err(format!("kernel {} is not given variable {name}", kernel.name));
            };
            let inside = |v: &i64| (*min..=*max).contains(v);
            let ok = l.frozen.get(name).is_some_and(inside)
                && match (var, declared.get(name)) {
                    (Var::Bound(n), Some((least, most))) => n == name && inside(least) && inside(most),
                    (Var::Frozen(v), None) => l.frozen.get(name) == Some(v),
                    // one that follows what is not there, or does not follow what is
                    _ => false,
                };
            if !ok {
                return Err(format!("variable {name} of kernel {} may leave {min}..={max}", kernel.name));
            }
        }
    }
    Ok(())
}
