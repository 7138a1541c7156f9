//! What a recording is about besides its launches: inputs, tensors outside, results.

use super::nodes;
use super::ready::{Came, From, Kept, Known, Shared};
use crate::error::Error;
use crate::realize;
use crate::tensor::Tensor;
use crate::view::View;
use crate::watch::{Before, Outside};
use frit_engine::jit::capture::{Link, Refusal, Seen};
use frit_engine::jit::recording::Recording;
use frit_engine::run::Tape;
use frit_uop::UOp;
use std::sync::Arc;

/// The tensors that results may be, or look at.
pub(super) struct Sources<'a> {
    pub(super) given: &'a [Tensor],
    pub(super) inputs: &'a [Tensor],
    pub(super) outside: &'a [Outside],
}

impl Sources<'_> {
    /// Where each result comes from, and the tensors that are computed for them.
    pub(super) fn of_results(&self, results: &[Tensor]) -> (Vec<Came>, Vec<Tensor>) {
        let mut outputs: Vec<Tensor> = vec![];
        let came = results.iter().map(|r| {
            let (owner, view) = (r.owner(), r.as_view());
            if let Some(i) = self.given.iter().position(|t| t.is_same(r)) {
                return Came { from: From::Given(i), view: None };
            }
            let beyond = |i: usize| Some((i, view.as_ref()?.beyond(&self.given[i])?));
            let mut of_owner = (0..self.inputs.len()).filter(|&i| self.inputs[i].is_same(&owner));
            if let Some((i, view)) = of_owner.find_map(beyond) {
                return Came { from: From::Given(i), view: Some(view.without_base()) };
            }
            let view = view.map(View::without_base);
            let from = if let Some(i) = self.inputs.iter().position(|t| t.is_same(&owner)) {
                From::Input(i)
            } else if let Some(i) = self.outside.iter().position(|o| o.tensor.is_same(&owner)) {
                From::Outside(i)
            } else if let Some(i) = outputs.iter().position(|t| t.is_same(&owner)) {
                From::Output(i)
            } else {
                outputs.push(owner);
                From::Output(outputs.len() - 1)
            };
            Came { from, view }
        });
        (came.collect(), outputs)
    }
}

/// Everything a recording is about, but for its launches.
pub(super) struct Surroundings<'a> {
    pub(super) owners: &'a [Tensor],
    pub(super) before: &'a [Before],
    pub(super) outside: &'a [Outside],
    pub(super) outputs: &'a [Tensor],
}

pub(super) type Finished = (Recording, Vec<Link>, Vec<Known>, Vec<Shared>);

impl Surroundings<'_> {
    pub(super) fn finish(
        &self,
        tape: Tape,
        sizes: &[UOp],
        draws: &[UOp],
    ) -> std::result::Result<Finished, Refusal> {
        let never = |e: Error| Refusal::Never(frit_engine::Error::Graph(e.to_string()));
        let seen = |t: &Tensor, before: &Before| -> std::result::Result<Option<Seen>, Refusal> {
            let Before::Memory(versions, view) = before else { return Ok(None) };
            t.settle();
            let after = t.peek().map_err(never)?;
            match realize::memory_view(&after) {
                Some((_, now)) if now == *view => Ok(Some(Seen { before: versions.clone(), after })),
                _ => Err(Refusal::Kept(
                    "a tensor it assigns to has another shape or place in memory then".into(),
                )),
            }
        };
        let missing = || never(Error::elsewhere("jit", "an input is not in memory"));
        let inputs = self.owners.iter().zip(self.before).map(|(t, b)| seen(t, b)?.ok_or_else(missing));
        let inputs = inputs.collect::<std::result::Result<Vec<Seen>, _>>()?;
        let mut others = vec![];
        for o in self.outside {
            others.push(seen(&o.tensor, &o.before)?);
        }
        let outputs = nodes(self.outputs).map_err(never)?;
        let is_shared = |i: &Seen, o: &Seen| Arc::ptr_eq(&i.before, &o.before);
        let mut shared = vec![];
        for (k, o) in others.iter().enumerate() {
            let Some(o) = o else { continue };
            let is_it = |i: usize| self.owners[i].is_same(&self.outside[k].tensor);
            let with = (0..inputs.len()).filter(|&i| is_shared(&inputs[i], o));
            shared.extend(with.map(|i| Shared { input: i, outside: k, is_it: is_it(i) }));
        }
        let held: Vec<Seen> = others.into_iter().flatten().collect();
        let (program, links) = tape.finish(&inputs, &held, sizes, &outputs, draws)?;
        let (of_inputs, of_others) = links.split_at(inputs.len());
        let mut of_others = of_others.iter();
        let known = self.outside.iter().map(|o| {
            let memory = match &o.before {
                Before::Memory(versions, view) => of_others.next().map(|link| Kept {
                    versions: versions.clone(),
                    latest: 0,
                    view: view.clone(),
                    link: *link,
                }),
                Before::Other => None,
            };
            let mut known = Known { handle: o.tensor.downgrade(), changes: 0, memory, is_needed: false };
            known.update(&o.tensor);
            known
        });
        Ok((program, of_inputs.to_vec(), known.collect(), shared))
    }
}
