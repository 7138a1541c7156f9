//! Speculation: a draft model proposes several tokens, which the model checks in one step.

use super::{Engine, NO_TOKEN, Reason};
use crate::blocks::BLOCK;
use crate::sample::Random;
use crate::step::{Chunk, Row};
use frit_tensor::Result;

impl Engine {
    /// Whether there is room for what would be drafted, and no rule that must see each token first.
    pub(super) fn can_draft(&mut self, at: usize) -> bool {
        let n = self.settings.drafted;
        let s = &self.running[at];
        let context = self.stepper.model().config().context.min(self.blocks.count() * BLOCK);
        let fits = n > 0 && self.checked_size() > n && s.tokens.len() + n < context;
        let wanted = s.request.max_tokens - s.generated > 1;
        fits && wanted && s.request.constraint.is_none() && !self.settings.deterministic && {
            let needed = (s.computed + 1 + n).div_ceil(BLOCK);
            needed.saturating_sub(s.blocks.len()) <= self.blocks.free() && self.reserve(at, 1 + n)
        }
    }
    /// One step of what the draft proposes.
    pub(super) fn speculate(&mut self, at: usize) -> Result<()> {
        let n = self.settings.drafted;
        let Some(draft) = &mut self.draft else { return Ok(()) };
        let s = &mut self.running[at];
        let (begin, width) = (s.computed, self.stepper.model().tokens());
        let mut proposed: Vec<(u32, Vec<(u32, f32)>)> = vec![];
        let known = s.tokens.len();
        for i in 0..=n {
            let row = Row { token: s.tokens[begin + i], position: begin + i, blocks: &s.blocks };
            let mut logits = draft.run(&[row], None)?;
            // the last is only read, so that the draft has its keys and values
            if i < n {
                let candidates = s.candidates(&mut logits)?;
                let Some(token) = s.random.draw(&candidates) else { break };
                proposed.push((token, candidates));
                s.tokens.push(token);
            }
        }
        let tokens = s.tokens[begin..].to_vec();
        s.tokens.truncate(known);
        let chunk = Chunk { tokens: &tokens, begin, blocks: &s.blocks, all: true };
        let logits = self.stepper.run(&[], Some(chunk))?;
        self.counts.steps += 1;
        self.counts.drafted += proposed.len() as u64;
        let mut rows = logits.chunks_exact(width);
        let mut proposed = proposed.into_iter();
        loop {
            let Some(logits) = rows.next() else { return Ok(()) };
            self.advance(at, 1);
            let s = &mut self.running[at];
            let wanted = s.candidates(&mut logits.to_vec())?;
            let (token, was_accepted) = match proposed.next() {
                Some((token, offered)) => choose(&mut s.random, &wanted, token, &offered),
                None => (s.random.draw(&wanted), false),
            };
            let Some(token) = token else {
                self.end(at, Reason::Failed(NO_TOKEN.into()));
                return Ok(());
            };
            self.counts.accepted += u64::from(was_accepted);
            let id = self.running[at].id;
            if let Some(reason) = self.take(at, token, logits) {
                self.end(at, reason);
                return Ok(());
            }
            let shifted = self.running.get(at).is_none_or(|s| s.id != id || s.computed == 0);
            if !was_accepted || shifted {
                return Ok(());
            }
        }
    }
}

/// A proposed token where the wanted distribution allows it, else one of what it has more than the offered one: what comes
/// out is distributed as wanted.
fn choose(
    random: &mut Random,
    wanted: &[(u32, f32)],
    token: u32,
    offered: &[(u32, f32)],
) -> (Option<u32>, bool) {
    let of = |all: &[(u32, f32)], t: u32| all.iter().find(|c| c.0 == t).map_or(0.0, |c| c.1);
    let (p, q) = (of(wanted, token), of(offered, token));
    if random.uniform() * f64::from(q) < f64::from(p) {
        return (Some(token), true);
    }
    let offered: rustc_hash::FxHashMap<u32, f32> = offered.iter().copied().collect();
    let more = |c: &(u32, f32)| (c.0, (c.1 - offered.get(&c.0).copied().unwrap_or(0.0)).max(0.0));
    let rest: Vec<(u32, f32)> = wanted.iter().map(more).filter(|c| c.1 > 0.0).collect();
    // by rounding alone nothing may be left
    (random.draw(if rest.is_empty() { wanted } else { &rest }), false)
}
