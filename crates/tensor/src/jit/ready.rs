//! A recording that can be replayed: what it knows of the tensors around it, and how it follows them.

use super::{engine, nodes};
use crate::assign;
use crate::bundle::Form;
use crate::error::{Error, Result};
use crate::random;
use crate::realize::{self, Versions};
use crate::shape;
use crate::tensor::{Tensor, WeakTensor, is_sole};
use crate::view::View;
use crate::watch::Before;
use frit_engine::jit::capture::Link;
use frit_engine::jit::recording::Recording;
use frit_uop::{Op, UOp};
use rustc_hash::FxHashMap;
use std::sync::Arc;

pub(super) struct Ready {
    pub(super) program: Recording,
    pub(super) output: Form,
    pub(super) results: Vec<Came>,
    /// Which inputs were rows one after the other; `None` where the results are no views, whatever they were.
    pub(super) rows: Option<Vec<bool>>,
    /// What becomes of the memory of each input.
    pub(super) inputs: Vec<Link>,
    pub(super) outside: Vec<Known>,
    /// Inputs that are the memory of a tensor outside.
    pub(super) shared: Vec<Shared>,
    /// For each input the first that is the same tensor.
    pub(super) same: Vec<usize>,
    /// Inputs that may be looked at as tensors outside, too: the function was not seen without them.
    pub(super) suspects: Vec<(usize, WeakTensor)>,
    /// How many elements each random draw takes from the stream.
    pub(super) draws: Vec<u64>,
    /// What the function decided by the values of variables.
    pub(super) decided: Vec<shape::Decision>,
}

/// Where a result comes from.
pub(super) struct Came {
    pub(super) from: From,
    /// How it looks at that, where it is a view.
    pub(super) view: Option<View>,
}

#[derive(Clone, Copy)]
pub(super) enum From {
    /// An output of the program.
    Output(usize),
    /// An input itself, as it was given.
    Given(usize),
    /// The tensor that an input is or looks at.
    Input(usize),
    /// A tensor outside itself.
    Outside(usize),
}

/// An input in the memory of a tensor outside.
#[derive(PartialEq)]
pub(super) struct Shared {
    pub(super) input: usize,
    pub(super) outside: usize,
    /// Whether it is that tensor: what is assigned to one is then assigned to both.
    pub(super) is_it: bool,
}

/// For each tensor the first that has the same value.
pub(super) fn same(tensors: &[Tensor]) -> Vec<usize> {
    let owners: Vec<Tensor> = tensors.iter().map(Tensor::owner).collect();
    owners.iter().map(|t| owners.iter().position(|o| o.is_same(t)).unwrap_or_default()).collect()
}

/// A tensor that the function looks at besides its inputs, as it was when it was last looked at.
pub(super) struct Known {
    pub(super) handle: WeakTensor,
    pub(super) changes: u64,
    /// The memory it is in; `None` for something that is computed.
    pub(super) memory: Option<Kept>,
    /// Whether others outside are still to be computed from this memory as it was recorded.
    pub(super) is_needed: bool,
}

pub(super) struct Kept {
    pub(super) versions: Arc<Versions>,
    pub(super) latest: u64,
    /// How the memory is seen.
    pub(super) view: UOp,
    pub(super) link: Link,
}

impl Known {
    pub(super) fn has_changed(&self, t: &Tensor) -> bool {
        t.changes() != self.changes || self.memory.as_ref().is_some_and(|m| m.versions.latest() != m.latest)
    }
    /// It was looked at again.
    pub(super) fn update(&mut self, t: &Tensor) {
        self.changes = t.changes();
        if let (Some(m), Ok(node)) = (&mut self.memory, t.peek())
            && let Some((versions, _)) = realize::memory_view(&node)
        {
            (m.latest, m.versions) = (versions.latest(), versions);
        }
    }
    pub(super) fn is_stored_to(&self) -> bool {
        self.memory.as_ref().is_some_and(|m| m.link.written || m.link.moved.is_some())
    }
}

/// What a call does.
pub(super) enum Verdict {
    Replay,
    /// This time the recording does not fit.
    Plainly,
    /// It will not fit again.
    Record,
}

/// Give a tensor memory of its own, with what it holds: someone else keeps this version.
pub(super) fn move_away(t: &Tensor) -> Result<()> {
    let node = t.peek()?;
    let bytes = engine(frit_engine::read(&node))?;
    let device = t.device()?;
    let fresh =
        engine(frit_engine::from_bytes(&device, node.dtype, bytes.len() / node.dtype.size().max(1), &bytes))?;
    t.set_version(Ok(fresh.reshape(node.shape())));
    Ok(())
}

impl Ready {
    /// The tensors that a replay stores to or gives other memory.
    pub(super) fn stored_to(&self, inputs: &[Tensor]) -> Vec<Tensor> {
        let given = self.inputs.iter().zip(inputs).filter(|(l, _)| l.written || l.moved.is_some());
        let kept = self.outside.iter().filter(|k| k.is_stored_to()).filter_map(|k| k.handle.upgrade());
        given.map(|(_, t)| t.owner()).chain(kept).collect()
    }

    /// See that the program works on what its tensors are now.
    pub(super) fn look(&mut self, inputs: &[Tensor], sizes: &[UOp]) -> Result<Verdict> {
        if !self.decided.is_empty() {
            let nodes = nodes(inputs)?;
            let bound = || sizes.iter().chain(nodes.iter().flat_map(|n| n.shape()));
            if !self.decided.iter().all(|d| d.holds(bound())) {
                return Ok(Verdict::Plainly);
            }
        }
        let is_other = |(i, t): &(usize, WeakTensor)| {
            t.upgrade().is_some_and(|t| !inputs.get(*i).is_some_and(|now| now.owner().is_same(&t)))
        };
        if self.suspects.iter().any(is_other) {
            return Ok(Verdict::Record);
        }
        if !self.program.is_current() {
            return Ok(Verdict::Record);
        }
        let mut changed = vec![];
        for i in 0..self.outside.len() {
            let Some(t) = self.outside[i].handle.upgrade() else {
                if self.results.iter().any(|r| matches!(r.from, From::Outside(k) if k == i)) {
                    return Ok(Verdict::Record);
                }
                continue;
            };
            let known = &self.outside[i];
            if known.has_changed(&t) && (known.is_needed || !self.follow(i, &t, &mut changed)?) {
                return Ok(Verdict::Record);
            }
        }
        if !changed.is_empty() {
            engine(self.program.renew(changed))?;
        }
        if self.is_tangled(inputs)? {
            return Ok(Verdict::Plainly);
        }
        // what others hold of tensors that are stored to stays as it is
        for (link, t) in self.inputs.iter().zip(inputs).filter(|(l, _)| l.written) {
            let (_, owner) = (link, t.owner());
            if owner.peek().is_ok_and(|n| !is_sole(&n)) {
                move_away(&owner)?;
            }
            owner.own();
        }
        for k in &mut self.outside {
            let Some(held) = k.memory.as_ref().filter(|m| m.link.written).and_then(|m| m.link.held) else {
                continue;
            };
            let Some(t) = k.handle.upgrade() else { continue };
            if t.peek().is_ok_and(|n| !is_sole(&n)) {
                move_away(&t)?;
                engine(self.program.set_held(held, &t.peek()?))?;
                k.update(&t);
            }
            t.own();
        }
        Ok(Verdict::Replay)
    }

    /// A tensor outside is another than it was: let the program use that. False where it cannot.
    pub(super) fn follow(&mut self, i: usize, t: &Tensor, changed: &mut Vec<usize>) -> Result<bool> {
        if assign::is_pending(t) {
            Tensor::realize_all(&[t])?;
        }
        let Some(kept) = &self.outside[i].memory else { return Ok(false) };
        let Before::Memory(versions, view) = Before::of(t) else { return Ok(false) };
        if view != kept.view {
            return Ok(false);
        }
        let Some(held) = kept.link.held else {
            self.outside[i].update(t);
            return Ok(true);
        };
        if !Arc::ptr_eq(&versions, &kept.versions) {
            let shares = |k: &Known| k.memory.as_ref().is_some_and(|m| m.link.held == Some(held));
            if self.outside.iter().filter(|k| shares(k)).count() > 1 || t.device()? != self.program.device() {
                return Ok(false);
            }
            engine(self.program.set_held(held, &t.peek()?))?;
        }
        changed.push(held);
        self.outside[i].update(t);
        Ok(true)
    }

    /// Whether inputs and tensors outside are one tensor, or one memory, in another way than at the recording.
    pub(super) fn is_tangled(&self, inputs: &[Tensor]) -> Result<bool> {
        let given = self.inputs.iter().any(|l| l.written || l.moved.is_some());
        if given && self.same != same(inputs) {
            return Ok(true);
        }
        let stores = given || self.outside.iter().any(Known::is_stored_to);
        if self.outside.is_empty() || (!stores && self.shared.is_empty()) {
            return Ok(false);
        }
        for (input, t) in inputs.iter().enumerate() {
            let node = t.peek()?;
            let Some((mine, _)) = realize::memory_view(&node) else { continue };
            for (outside, known) in self.outside.iter().enumerate() {
                let Some(m) = known.memory.as_ref() else { continue };
                let is_it = known.handle.upgrade().is_some_and(|o| o.is_same(&t.owner()));
                let now = Arc::ptr_eq(&m.versions, &mine).then_some(Shared { input, outside, is_it });
                let was = self.shared.iter().find(|s| (s.input, s.outside) == (input, outside));
                let matters = was.is_some() || m.link.held.is_some() || m.link.moved.is_some();
                if was != now.as_ref() && matters {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Launch everything, and let tensors be what they come to be.
    pub(super) fn replay(&mut self, inputs: &[Tensor], sizes: &[UOp]) -> Result<Vec<UOp>> {
        if !self.draws.is_empty() {
            let (seed, mut at) = random::reserve(self.draws.iter().sum());
            for (i, count) in self.draws.iter().enumerate() {
                engine(self.program.set_draw(i, &random::place(seed, at)))?;
                at = at.wrapping_add(*count);
            }
        }
        let outputs = engine(self.program.replay(&nodes(inputs)?, sizes))?;
        // what is in other memory now
        for (link, t) in self.inputs.iter().zip(inputs) {
            if let Some(new) = link.moved.and_then(|o| outputs.get(o)) {
                // what was given at the recording may have been a view of a tensor of another shape
                let owner = t.owner();
                owner.set_version(owner.peek().map(|old| new.reshape(old.shape())));
            }
        }
        for k in &mut self.outside {
            if !k.is_stored_to() {
                continue;
            }
            let Some(t) = k.handle.upgrade() else { continue };
            if let Some(new) = k.memory.as_ref().and_then(|m| outputs.get(m.link.moved?)) {
                t.set_version(Ok(new.clone()));
                k.update(&t);
            } else if let Some(m) = &mut k.memory {
                m.latest = m.versions.latest();
            }
        }
        Ok(outputs)
    }

    /// What the function gives back.
    pub(super) fn results(&self, outputs: &[UOp], inputs: &[Tensor], sizes: &[UOp]) -> Result<Vec<Tensor>> {
        let mut binds = FxHashMap::default();
        if self.results.iter().any(|r| r.view.is_some()) {
            let given = nodes(inputs)?;
            for n in frit_uop::graph::toposort(&[&given[..], sizes].concat()) {
                if n.op == Op::Bind {
                    binds.insert(n.variable().clone(), n);
                }
            }
        }
        let mut made: Vec<Option<Tensor>> = vec![None; outputs.len()];
        let lost = || Error::elsewhere("jit", "a tensor that the function gives back is gone");
        let mut source = |from: From| match from {
            From::Given(i) => inputs.get(i).cloned().ok_or_else(lost),
            From::Input(i) => inputs.get(i).map(Tensor::owner).ok_or_else(lost),
            From::Outside(i) => self.outside.get(i).and_then(|k| k.handle.upgrade()).ok_or_else(lost),
            From::Output(i) => {
                let (Some(node), Some(slot)) = (outputs.get(i), made.get_mut(i)) else { return Err(lost()) };
                Ok(slot.get_or_insert_with(|| Tensor::of(Ok(node.clone()))).clone())
            }
        };
        let result = |c: &Came| {
            let base = source(c.from)?;
            Ok(c.view.as_ref().map_or(base.clone(), |v| v.over(&base, &binds)))
        };
        self.results.iter().map(result).collect()
    }
}
