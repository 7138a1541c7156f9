//! Many requests on one model: a loop that decides what each step computes.
//!
//! ```text
//! submit -> waiting -> running -> events                  cancel, at any time
//!              ^          | out of blocks: the newest
//!              └----------┘ gives its own up, and is computed again
//! ```
//!
//! A step takes the next token of every running sequence, and fills what is left of its budget with a chunk of the oldest
//! prompt that is not computed yet. Before each chunk it looks for blocks that hold what comes next already, so requests that
//! begin together compute what their prompts share once: the oldest does, and those behind it find it. It has no thread and
//! no lock: whoever owns it calls [`Engine::step`] and hands events on.
//!
//! **Whether a seeded answer depends on its batch.** Its draws do not: each request has a random stream of its own. Its
//! logits may, in the last bits, since sums are ordered by the sizes of a step. With [`Settings::deterministic`] each step has
//! one sequence and chunks begin at fixed places, so that an answer depends on the request alone.

use crate::blocks::{BLOCK, Blocks, Content};
use crate::cache::{Cache, CacheType};
use crate::decoder::Decoder;
use crate::sample::{Random, Sampling, log_probabilities};
use crate::step::{Chunk, Row, Sizes, Stepper};
use frit_tensor::{Error, Result};
use std::collections::VecDeque;
use std::sync::Arc;

mod speculate;

/// The name of a request.
pub type Id = u64;

/// What is wanted.
pub struct Request {
    /// The prompt.
    pub tokens: Vec<u32>,
    /// The most tokens that are wanted.
    pub max_tokens: usize,
    /// How they are chosen.
    pub sampling: Sampling,
    /// Tokens that end it.
    pub ends: Vec<u32>,
    /// How many likely tokens are told with each, if probabilities are wanted at all.
    pub logprobs: Option<usize>,
    /// What tokens must be like, if that is said.
    pub constraint: Option<Box<dyn Constraint>>,
    /// At the end of the context the oldest half behind the first so many tokens is left out, instead of ending there.
    pub shift: Option<usize>,
    /// Whose it is: of those that wait, one begins whose group has the fewest running.
    pub group: u64,
}

impl Request {
    /// The most likely tokens after a prompt.
    pub fn new(tokens: Vec<u32>, max_tokens: usize) -> Request {
        Request {
            tokens,
            max_tokens,
            sampling: Sampling::default(),
            ends: vec![],
            logprobs: None,
            constraint: None,
            shift: None,
            group: 0,
        }
    }
}

/// A rule for what a text may be, such as a grammar.
pub trait Constraint: Send {
    /// Sets the logits of tokens that may not come next to minus infinity.
    fn mask(&mut self, logits: &mut [f32]) -> Result<()>;
    /// A token was chosen. Whether nothing may follow it.
    fn accept(&mut self, token: u32) -> Result<bool>;
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// One more token of a request.
    Token {
        /// Whose.
        id: Id,
        /// Its number.
        token: u32,
        /// Logarithms of probabilities, if they were wanted.
        logprobs: Option<Logprobs>,
    },
    /// Nothing more comes.
    Done {
        /// Of whom.
        id: Id,
        /// Why.
        reason: Reason,
    },
}

/// Natural logarithms of probabilities, before anything was left out of the choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Logprobs {
    /// Of the token.
    pub token: f32,
    /// Of the most likely ones.
    pub top: Vec<(u32, f32)>,
}

/// Why a request ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// A token that ends it came; it is not among the events.
    End,
    /// As many tokens as were wanted.
    Length,
    /// The context is full.
    Context,
    /// It was cancelled.
    Cancelled,
    /// It cannot go on.
    Failed(String),
}

/// How an engine runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Sequences that run at once.
    pub sequences: usize,
    /// Tokens of a step.
    pub budget: usize,
    /// How keys and values are kept.
    pub cache: CacheType,
    /// Memory for keys and values, in positions of all sequences together.
    pub positions: usize,
    /// Answers do not depend on what runs beside them.
    pub deterministic: bool,
    /// Tokens that a draft model proposes at once.
    pub drafted: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            sequences: 8,
            budget: 512,
            cache: CacheType::default(),
            positions: 16384,
            deterministic: false,
            drafted: 4,
        }
    }
}

/// Counts since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Steps.
    pub steps: u64,
    /// Tokens of prompts that were computed.
    pub prompt: u64,
    /// Tokens of prompts that were found computed.
    pub shared: u64,
    /// Tokens that were generated.
    pub generated: u64,
    /// Sequences that had to give up their blocks.
    pub preempted: u64,
    /// Tokens that a draft model proposed.
    pub drafted: u64,
    /// Those of them that were taken.
    pub accepted: u64,
}

/// A request on its way.
struct Sequence {
    id: Id,
    request: Request,
    /// The prompt and what was generated.
    tokens: Vec<u32>,
    prompt: usize,
    generated: usize,
    blocks: Vec<u32>,
    /// What the full blocks hold, the last of them.
    content: Content,
    named: usize,
    /// Tokens whose keys and values are there.
    computed: usize,
    /// Whether it had to give up its blocks, and goes on before others begin.
    was_preempted: bool,
    random: Random,
}

/// What is computed of a sequence in a step.
#[derive(Clone, Copy)]
struct Part {
    at: usize,
    count: usize,
}

/// Runs requests on a model.
pub struct Engine {
    stepper: Stepper,
    draft: Option<Stepper>,
    settings: Settings,
    blocks: Blocks,
    waiting: VecDeque<Sequence>,
    /// The oldest first.
    running: Vec<Sequence>,
    done: Vec<Event>,
    counts: Counts,
    next: Id,
}

impl Engine {
    /// An engine for a model.
    pub fn new(model: Arc<Decoder>, settings: Settings) -> Result<Engine> {
        Engine::with_draft(model, None, settings)
    }
    /// The same with a smaller model of the same tokens, which proposes what the larger one then checks at once. It is asked
    /// while one sequence runs. What comes out is distributed as without it.
    pub fn with_draft(
        model: Arc<Decoder>,
        draft: Option<Arc<Decoder>>,
        settings: Settings,
    ) -> Result<Engine> {
        if settings.sequences == 0 || settings.budget == 0 {
            return Err(Error::new("generate", "no sequence or token a step"));
        }
        let most = if settings.deterministic { 1 } else { settings.sequences };
        let budget = if settings.deterministic { 2 * BLOCK } else { settings.budget };
        let count = settings.positions.div_ceil(BLOCK).max(2) + 1;
        // a chunk is no longer than what it is part of may be
        let budget = budget.min(Stepper::longest(model.config(), count) * BLOCK);
        let mut sizes = Sizes::up_to(most, budget);
        if settings.deterministic {
            sizes.chunks = vec![budget];
        }
        if let Some(d) = &draft
            && (d.tokens() != model.tokens() || d.config().context < model.config().context)
        {
            let message = format!(
                "the draft model has {} tokens and a context of {}, the model {} and {}",
                d.tokens(),
                d.config().context,
                model.tokens(),
                model.config().context
            );
            return Err(Error::new("generate", message));
        }
        let stepper = |m: Arc<Decoder>| Stepper::new(m, count, settings.cache, sizes.clone());
        Ok(Engine {
            draft: draft.map(stepper).transpose()?,
            stepper: Stepper::new(model, count, settings.cache, sizes.clone())?,
            blocks: Blocks::new(count),
            settings,
            waiting: VecDeque::new(),
            running: vec![],
            done: vec![],
            counts: Counts::default(),
            next: 1,
        })
    }
    /// Compiles what steps need, so that none waits for it later.
    pub fn warm_up(&mut self) -> Result<()> {
        let checked = self.draft.is_some().then(|| self.checked_size()).into_iter().collect::<Vec<_>>();
        self.stepper.warm_up(&checked)?;
        self.draft.as_mut().map_or(Ok(()), |d| d.warm_up(&[]))
    }
    /// The size of the program that checks what was drafted.
    fn checked_size(&self) -> usize {
        let chunks = &self.stepper.sizes().chunks;
        chunks.iter().copied().find(|c| *c > self.settings.drafted).unwrap_or(0)
    }
    /// The model.
    pub fn model(&self) -> &Arc<Decoder> {
        self.stepper.model()
    }
    /// Counts since the beginning.
    pub fn counts(&self) -> Counts {
        self.counts
    }
    /// Requests that run, and those that wait.
    pub fn load(&self) -> (usize, usize) {
        (self.running.len(), self.waiting.len())
    }
    /// Blocks that are free, and all there are.
    pub fn memory(&self) -> (usize, usize) {
        (self.blocks.free(), self.blocks.count())
    }
    /// Whether there is nothing to do.
    pub fn is_idle(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty() && self.done.is_empty()
    }
    /// Bytes of keys and values for so many positions.
    pub fn cache_bytes(model: &Decoder, settings: &Settings) -> usize {
        settings.positions.div_ceil(BLOCK) * Cache::block_bytes(model.config(), settings.cache)
    }

    /// A new request; it waits until there is room for it.
    #[track_caller]
    pub fn submit(&mut self, request: Request) -> Result<Id> {
        let _c = frit_tensor::call("generate");
        let (tokens, context) = (self.model().tokens(), self.model().config().context);
        request.sampling.check(tokens)?;
        if request.tokens.is_empty() {
            return Err(Error::new("generate", "the prompt is empty"));
        }
        if let Some(t) = request.tokens.iter().find(|t| **t as usize >= tokens) {
            return Err(Error::new("generate", format!("token {t} of a model that has {tokens}")));
        }
        let most = context.min(self.blocks.count() * BLOCK);
        if request.tokens.len() >= most {
            let message = format!("a prompt of {} tokens for a context of {most}", request.tokens.len());
            return Err(Error::new("generate", message));
        }
        let id = self.next;
        self.next += 1;
        if request.max_tokens == 0 {
            self.done.push(Event::Done { id, reason: Reason::Length });
            return Ok(id);
        }
        let seed = request.sampling.seed.unwrap_or_else(fresh_seed);
        self.waiting.push_back(Sequence {
            id,
            tokens: request.tokens.clone(),
            prompt: request.tokens.len(),
            request,
            generated: 0,
            blocks: vec![],
            content: 0,
            named: 0,
            computed: 0,
            was_preempted: false,
            random: Random::new(seed),
        });
        Ok(id)
    }
    /// Ends a request, whatever it is doing.
    pub fn cancel(&mut self, id: Id) {
        if let Some(at) = self.running.iter().position(|s| s.id == id) {
            self.end(at, Reason::Cancelled);
        } else if let Some(at) = self.waiting.iter().position(|s| s.id == id) {
            self.waiting.remove(at);
            self.done.push(Event::Done { id, reason: Reason::Cancelled });
        }
    }
    /// One step of everyone that runs, and what came of it. An error is the model's: then no request goes on.
    pub fn step(&mut self) -> Result<Vec<Event>> {
        self.admit();
        let parts = self.choose();
        if !parts.is_empty() {
            let done = self.compute(&parts);
            if let Err(e) = done {
                while !self.running.is_empty() {
                    self.end(0, Reason::Failed(e.message().to_string()));
                }
                return Err(e);
            }
        }
        Ok(std::mem::take(&mut self.done))
    }

    fn end(&mut self, at: usize, reason: Reason) {
        let s = self.running.remove(at);
        s.blocks.iter().rev().for_each(|b| self.blocks.release(*b));
        self.done.push(Event::Done { id: s.id, reason });
    }
    /// Those who wait begin while there is room.
    fn admit(&mut self) {
        while self.running.len() < self.settings.sequences {
            let at = self.next_waiting();
            let Some(s) = self.waiting.get(at) else { return };
            // one that was preempted waits until it fits whole, beside what others hold of it
            let unit = self.unit();
            let held = s.find(&self.blocks, unit).iter().filter(|(b, _)| self.blocks.is_held(*b)).count();
            let needed = s.tokens.len().div_ceil(BLOCK).min(self.blocks.count()).saturating_sub(held);
            if !self.running.is_empty() && self.blocks.free() < needed {
                return;
            }
            let Some(mut s) = self.waiting.remove(at) else { return };
            self.counts.shared += s.share(&mut self.blocks, unit);
            self.running.push(s);
        }
    }
    /// Which of those who wait begins next: one that was preempted, else the first of those whose groups have the fewest running.
    fn next_waiting(&self) -> usize {
        let of_group =
            |s: &Sequence| self.running.iter().filter(|r| r.request.group == s.request.group).count();
        let rank = |s: &Sequence| if s.was_preempted { 0 } else { 1 + of_group(s) };
        (0..self.waiting.len()).min_by_key(|i| rank(&self.waiting[*i])).unwrap_or(0)
    }
    /// Where chunks of a sequence begin, if that is said.
    fn unit(&self) -> Option<usize> {
        self.settings.deterministic.then(|| self.stepper.sizes().longest_chunk())
    }

    /// What this step computes: every sequence that lacks one token, and a chunk of the first that lacks more.
    fn choose(&mut self) -> Vec<Part> {
        let mut parts: Vec<Part> = vec![];
        let (mut left, mut has_chunk) = (self.settings.budget.max(self.settings.sequences), false);
        let mut at = 0;
        while at < self.running.len() {
            // the oldest that lacks more than a token gets the chunk; those behind it find what it computed
            if !has_chunk && self.running[at].behind() > 1 {
                let unit = self.unit();
                self.counts.shared += self.running[at].share(&mut self.blocks, unit);
            }
            let (s, behind) = (&self.running[at], self.running[at].behind());
            let chunk = self.stepper.sizes().longest_chunk();
            let count = match (behind, self.settings.deterministic) {
                (1, _) => 1,
                // what was generated is computed as it was the first time
                (_, true) if s.computed >= s.prompt => 1,
                (_, true) => (s.prompt - s.computed).min(chunk - s.computed % chunk),
                (n, false) => n.min(chunk).min(left),
            };
            let is_chunk = count > 1 || behind > 1;
            let alone = self.settings.deterministic && !parts.is_empty();
            if count == 0 || (is_chunk && has_chunk) || alone {
                at += 1;
                continue;
            }
            match self.reserve(at, count) {
                true => {
                    parts.push(Part { at, count });
                    left = left.saturating_sub(count);
                    has_chunk |= is_chunk;
                    at += 1;
                }
                // it went back to wait, or failed: another one is there now
                false => parts.retain(|p| p.at < self.running.len()),
            }
        }
        parts
    }
    /// Blocks for `count` more tokens of a sequence; where there are none, newer ones give theirs up. Whether it has them.
    fn reserve(&mut self, at: usize, count: usize) -> bool {
        let needed = (self.running[at].computed + count).div_ceil(BLOCK);
        while self.running[at].blocks.len() < needed {
            match self.blocks.take() {
                Some(block) => self.running[at].blocks.push(block),
                None if self.running.len() - 1 > at => self.preempt(self.running.len() - 1),
                None if at > 0 => {
                    self.preempt(at);
                    return false;
                }
                None => {
                    self.end(at, Reason::Context);
                    return false;
                }
            }
        }
        true
    }
    /// A sequence gives up its blocks and waits, before all others.
    fn preempt(&mut self, at: usize) {
        let mut s = self.running.remove(at);
        s.blocks.drain(..).rev().for_each(|b| self.blocks.release(b));
        (s.content, s.named, s.computed, s.was_preempted) = (0, 0, 0, true);
        self.counts.preempted += 1;
        self.waiting.push_front(s);
    }

    fn compute(&mut self, parts: &[Part]) -> Result<()> {
        if self.draft.is_some()
            && let [Part { at, count: 1 }] = parts[..]
            && self.running.len() == 1
            && self.can_draft(at)
        {
            return self.speculate(at);
        }
        let is_row = |s: &Sequence, p: &Part| p.count == 1 && s.computed + 1 == s.tokens.len();
        let deterministic = self.settings.deterministic;
        let (mut rows, mut order, mut chunk) = (vec![], vec![], None);
        for p in parts {
            let s = &self.running[p.at];
            if is_row(s, p) || (deterministic && p.count == 1 && s.computed >= s.prompt) {
                rows.push(Row { token: s.tokens[s.computed], position: s.computed, blocks: &s.blocks });
                order.push(*p);
            } else {
                let tokens = &s.tokens[s.computed..s.computed + p.count];
                chunk = Some((Chunk { tokens, begin: s.computed, blocks: &s.blocks, all: false }, *p));
            }
        }
        order.extend(chunk.map(|c| c.1));
        let chunk = chunk.map(|c| c.0);
        let logits = self.stepper.step(&rows, chunk)?;
        if let Some(draft) = &mut self.draft {
            draft.step(&rows, chunk)?;
        }
        self.counts.steps += 1;
        let width = self.stepper.model().tokens();
        // logits are many: they stay where they are if no one looks at more than the greatest
        let mut is_plain = order.iter().map(|p| self.running[p.at].is_plain());
        let (any, all) = (is_plain.clone().any(|p| p), is_plain.all(|p| p));
        let best = if any { logits.most_likely()? } else { vec![] };
        let logits = if all { vec![] } else { logits.to_vec()? };
        let mut ended = vec![];
        for (i, p) in order.iter().enumerate() {
            self.counts.prompt += if p.count > 1 { p.count as u64 } else { 0 };
            self.advance(p.at, p.count);
            let s = &self.running[p.at];
            if s.computed == s.tokens.len() {
                let reason = match (s.is_plain(), best.get(i).copied().flatten()) {
                    (true, Some(token)) => self.take(p.at, token, &[]),
                    (true, None) => Some(Reason::Failed(NO_TOKEN.into())),
                    (false, _) => self.extend(p.at, logits.get(i * width..(i + 1) * width).unwrap_or(&[])),
                };
                ended.extend(reason.map(|r| (p.at, r)));
            }
        }
        self.end_all(ended);
        Ok(())
    }
    fn end_all(&mut self, mut ended: Vec<(usize, Reason)>) {
        // the last first, so that places stay what they are
        ended.sort_by_key(|e| std::cmp::Reverse(e.0));
        ended.into_iter().for_each(|(at, reason)| self.end(at, reason));
    }
    /// Keys and values of `count` more tokens are there.
    fn advance(&mut self, at: usize, count: usize) {
        let s = &mut self.running[at];
        s.computed += count;
        // what was generated was computed token by token: another prompt with the same tokens would be computed in other bits
        let shared = if self.settings.deterministic { s.computed.min(s.prompt) } else { s.computed };
        while (s.named + 1) * BLOCK <= shared {
            let tokens = &s.tokens[s.named * BLOCK..(s.named + 1) * BLOCK];
            s.content = self.blocks.name(s.blocks[s.named], s.content, tokens);
            s.named += 1;
        }
    }
    /// Chooses the next token of a sequence; the reason if it ends.
    fn extend(&mut self, at: usize, logits: &[f32]) -> Option<Reason> {
        let s = &mut self.running[at];
        let mut adjusted = logits.to_vec();
        match s.candidates(&mut adjusted) {
            Err(e) => Some(Reason::Failed(e.message().to_string())),
            Ok(candidates) => match s.random.draw(&candidates) {
                None => Some(Reason::Failed(NO_TOKEN.into())),
                Some(token) => self.take(at, token, logits),
            },
        }
    }
    /// A token was chosen: what that means for its sequence.
    fn take(&mut self, at: usize, token: u32, logits: &[f32]) -> Option<Reason> {
        let context = self.model().config().context.min(self.blocks.count() * BLOCK);
        let s = &mut self.running[at];
        if s.request.ends.contains(&token) {
            return Some(Reason::End);
        }
        let logprobs = s.request.logprobs.map(|n| logprobs(logits, token, n));
        s.tokens.push(token);
        s.generated += 1;
        self.counts.generated += 1;
        self.done.push(Event::Token { id: s.id, token, logprobs });
        match s.request.constraint.as_mut().map(|c| c.accept(token)) {
            Some(Ok(true)) => return Some(Reason::End),
            Some(Err(e)) => return Some(Reason::Failed(e.message().to_string())),
            _ => {}
        }
        if s.generated >= s.request.max_tokens {
            return Some(Reason::Length);
        }
        if s.tokens.len() >= context {
            let Some(keep) = s.request.shift.filter(|keep| *keep < context / 2) else {
                return Some(Reason::Context);
            };
            // keys hold their positions, so what is left is computed anew
            let gone = (s.tokens.len() - keep) / 2;
            s.tokens.drain(keep..keep + gone);
            let prompt = &mut s.request.sampling.prompt;
            *prompt = (*prompt).min(keep) + prompt.saturating_sub(keep + gone);
            s.prompt = s.tokens.len();
            s.blocks.drain(..).rev().for_each(|b| self.blocks.release(b));
            (s.content, s.named, s.computed) = (0, 0, 0);
        }
        None
    }
}

/// Why a sequence fails whose logits are no numbers.
const NO_TOKEN: &str = "the model gave no token a probability";

impl Sequence {
    /// Tokens whose keys and values are not there.
    fn behind(&self) -> usize {
        self.tokens.len() - self.computed
    }
    /// Blocks that hold what comes next of its tokens: where chunks begin at multiples of `unit`, only up to one of those, and only
    /// of the prompt.
    fn find(&self, blocks: &Blocks, unit: Option<usize>) -> Vec<(u32, Content)> {
        let begin = self.named * BLOCK;
        let most = if unit.is_some() { self.prompt } else { self.tokens.len() };
        // the last token is computed in any case: its logits are wanted
        let end = most.min(self.tokens.len()).saturating_sub(1).max(begin);
        let (mut found, mut content) = (vec![], self.content);
        for tokens in self.tokens[begin..end].chunks_exact(BLOCK) {
            let Some((block, then)) = blocks.find(content, tokens) else { break };
            content = then;
            found.push((block, then));
        }
        let whole = (self.named + found.len()) * BLOCK / unit.unwrap_or(BLOCK) * unit.unwrap_or(BLOCK);
        found.truncate((whole / BLOCK).saturating_sub(self.named));
        found
    }
    /// Takes such blocks over, so that they are not computed again. Gives how many tokens need not be computed.
    fn share(&mut self, blocks: &mut Blocks, unit: Option<usize>) -> u64 {
        let found = self.find(blocks, unit);
        let Some((_, content)) = found.last() else { return 0 };
        self.content = *content;
        found.iter().for_each(|(b, _)| blocks.hold(*b));
        // a block that is partly computed makes room for a full one
        self.blocks.drain(self.named..).rev().for_each(|b| blocks.release(b));
        self.blocks.extend(found.iter().map(|f| f.0));
        self.named = self.blocks.len();
        let shared = self.named * BLOCK - self.computed;
        self.computed += shared;
        shared as u64
    }
    /// Whether the most likely token comes next, and nothing else is asked of logits.
    fn is_plain(&self) -> bool {
        let (r, s) = (&self.request, &self.request.sampling);
        s.temperature == 0.0 && !s.changes_logits() && r.constraint.is_none() && r.logprobs.is_none()
    }
    /// What may come next, by probability.
    fn candidates(&mut self, logits: &mut [f32]) -> Result<Vec<(u32, f32)>> {
        self.request.sampling.adjust(logits, &self.tokens);
        if let Some(c) = &mut self.request.constraint {
            c.mask(logits)?;
        }
        Ok(self.request.sampling.candidates(logits))
    }
}

fn logprobs(logits: &[f32], token: u32, count: usize) -> Logprobs {
    let all = log_probabilities(logits);
    let mut top: Vec<(u32, f32)> = (0..).zip(all.iter().copied()).collect();
    let by = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    let count = count.min(top.len());
    if count > 0 && count < top.len() {
        top.select_nth_unstable_by(count - 1, by);
    }
    top.truncate(count);
    top.sort_by(by);
    Logprobs { token: all.get(token as usize).copied().unwrap_or(f32::NEG_INFINITY), top }
}

/// A seed that was not used before, in this process or likely in another.
fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}
