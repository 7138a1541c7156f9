//! Byte-pair encoding: neighbours are merged, always the pair that was learnt first, of equals the leftmost.

use crate::unigram::Unknown;
use crate::vocab::Vocab;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub(crate) struct Bpe {
    pub merges: Merges,
    pub unknown: Unknown,
    /// Words that are tokens are not cut.
    pub whole_words: bool,
}

/// Which neighbours may be merged, and which first.
pub(crate) enum Merges {
    /// Pairs of tokens: in which order they were learnt, and what they become.
    Pairs(FxHashMap<(u32, u32), (u32, u32)>),
    /// All that are a token together, as sentence-piece does; the rank is that of the token, none if it is never made.
    Tokens(Vec<Option<u32>>),
}

impl Merges {
    /// Ranks by scores: the greatest first.
    pub fn by_scores(scores: impl Iterator<Item = Option<f32>>) -> Merges {
        let order = |s: f32| {
            let bits = s.to_bits();
            // the order of floats as integers
            if bits >> 31 == 1 { bits } else { !bits & 0x7fff_ffff }
        };
        Merges::Tokens(scores.map(|s| s.map(order)).collect())
    }
}

/// A part of a word, and its neighbours.
#[derive(Clone, Copy)]
struct Part {
    /// `NONE` as long as no token is this.
    id: u32,
    /// In the word.
    start: u32,
    end: u32,
    /// The last of the parts that there were at first.
    last: u32,
    before: u32,
    after: u32,
}

/// No neighbour, no token.
const NONE: u32 = u32::MAX;
/// Places are 32 bits: longer words, which no one writes, are cut.
const LONGEST: usize = 1 << 30;

/// A pair that may be merged. One number, so that comparing is one step: its rank, its first and last part, what it becomes.
fn entry(rank: u32, left: u32, last: u32, id: u32) -> Reverse<u128> {
    Reverse((rank as u128) << 96 | (left as u128) << 64 | (last as u128) << 32 | id as u128)
}

impl Bpe {
    /// The time is linear in the length, but for a logarithm.
    pub fn encode(&self, vocab: &Vocab, mut word: &str, ids: &mut Vec<u32>) {
        if let Some(id) = self.whole_words.then(|| vocab.id(word)).flatten() {
            return ids.push(id);
        }
        while word.len() > LONGEST {
            let (first, rest) = word.split_at(word.floor_char_boundary(LONGEST));
            self.merge(vocab, first, ids);
            word = rest;
        }
        self.merge(vocab, word, ids);
    }
    fn merge(&self, vocab: &Vocab, word: &str, ids: &mut Vec<u32>) {
        let mut parts = self.characters(vocab, word);
        let mut queue: BinaryHeap<_> =
            (0..parts.len() as u32).filter_map(|i| self.pair(vocab, word, &parts, i)).collect();
        while let Some(Reverse(entry)) = queue.pop() {
            let (left, last, id) = ((entry >> 64) as u32, (entry >> 32) as u32, entry as u32);
            let a = parts[left as usize];
            let Some(b) = parts.get(a.after as usize) else { continue };
            // one of the two was merged with another meanwhile
            if b.last != last || a.before == left {
                continue;
            }
            let (end, after) = (b.end, b.after);
            parts[left as usize] = Part { id, end, last, after, ..a };
            // its own neighbour: it is gone
            parts[a.after as usize].before = a.after;
            if let Some(next) = parts.get_mut(after as usize) {
                next.before = left;
            }
            queue.extend(self.pair(vocab, word, &parts, left));
            queue.extend(self.pair(vocab, word, &parts, a.before));
        }
        let (mut at, mut is_unknown) = (0, false);
        while let Some(part) = parts.get(at as usize) {
            match part.id {
                NONE => self.unknown.encode(&word[part.start as usize..part.end as usize], is_unknown, ids),
                id => ids.push(id),
            }
            is_unknown = part.id == NONE;
            at = part.after;
        }
    }
    /// Each character a part; those that no token is are bytes now or, where tokens may hold them, later.
    fn characters(&self, vocab: &Vocab, word: &str) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::with_capacity(word.len());
        let mut push = |id, start, end| {
            let last = parts.len() as u32;
            parts.push(Part { id, start, end, last, before: last.wrapping_sub(1), after: last + 1 });
        };
        for (start, c) in word.char_indices() {
            let end = start + c.len_utf8();
            let id = vocab.id(&word[start..end]).filter(|id| self.merges.may_be(*id));
            match (&self.merges, &self.unknown.bytes) {
                (Merges::Pairs(_), Some(bytes)) if id.is_none() => {
                    let bytes = word[start..end].bytes().map(|b| bytes[b as usize]);
                    bytes.for_each(|id| push(id, start as u32, end as u32));
                }
                // what is nothing is between nothing
                (Merges::Pairs(_), None) if id.is_none() && self.unknown.id.is_none() => {}
                _ => push(id.unwrap_or(NONE), start as u32, end as u32),
            }
        }
        if let Some(last) = parts.last_mut() {
            last.after = NONE;
        }
        parts
    }
    /// The pair that begins with a part, for the queue.
    fn pair(&self, vocab: &Vocab, word: &str, parts: &[Part], left: u32) -> Option<Reverse<u128>> {
        let a = parts.get(left as usize)?;
        let b = parts.get(a.after as usize)?;
        let (rank, id) = match &self.merges {
            // no pair has `NONE`
            Merges::Pairs(pairs) => *pairs.get(&(a.id, b.id))?,
            Merges::Tokens(ranks) => {
                let id = vocab.id(&word[a.start as usize..b.end as usize])?;
                ((*ranks.get(id as usize)?)?, id)
            }
        };
        Some(entry(rank, left, b.last, id))
    }
}

impl Merges {
    fn may_be(&self, id: u32) -> bool {
        match self {
            Merges::Pairs(_) => true,
            Merges::Tokens(ranks) => ranks.get(id as usize).is_some_and(Option::is_some),
        }
    }
}
