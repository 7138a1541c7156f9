//! Byte-pair encoding: neighbours are merged, always the pair that was learnt first, of equals the leftmost.

use crate::vocab::Vocab;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub(crate) struct Bpe {
    /// Pairs of tokens: in which order they were learnt, and what they become.
    pub merges: FxHashMap<(u32, u32), (u32, u32)>,
    pub unknown: Option<u32>,
    /// Words that are tokens are not cut.
    pub whole_words: bool,
}

/// A part of a word, and its neighbours.
struct Part {
    id: u32,
    before: usize,
    after: usize,
}

/// No neighbour; also the place of a part that is merged into another.
const NONE: usize = usize::MAX;

impl Bpe {
    /// The time is linear in the length, but for a logarithm.
    pub fn encode(&self, vocab: &Vocab, word: &str, ids: &mut Vec<u32>) {
        if let Some(id) = self.whole_words.then(|| vocab.id(word)).flatten() {
            return ids.push(id);
        }
        let mut buffer = [0; 4];
        let known = word.chars().filter_map(|c| vocab.id(c.encode_utf8(&mut buffer)).or(self.unknown));
        let mut parts: Vec<Part> =
            known.enumerate().map(|(i, id)| Part { id, before: i.wrapping_sub(1), after: i + 1 }).collect();
        if let Some(last) = parts.last_mut() {
            last.after = NONE;
        }
        let mut queue = BinaryHeap::new();
        let pair = |parts: &[Part], left: usize| {
            let right = parts.get(parts.get(left)?.after)?;
            let key = (parts[left].id, right.id);
            self.merges.get(&key).map(|(rank, _)| Reverse((*rank, left, key)))
        };
        queue.extend((0..parts.len()).filter_map(|i| pair(&parts, i)));
        while let Some(Reverse((_, left, key))) = queue.pop() {
            let right = parts[left].after;
            // one of the two was merged with another meanwhile
            let is_there =
                right != NONE && parts[left].before != left && (parts[left].id, parts[right].id) == key;
            let Some((_, id)) = self.merges.get(&key).filter(|_| is_there) else { continue };
            let after = parts[right].after;
            (parts[left].id, parts[left].after) = (*id, after);
            // its own neighbour: it is gone
            parts[right].before = right;
            if let Some(next) = parts.get_mut(after) {
                next.before = left;
            }
            queue.extend(pair(&parts, left));
            let before = parts[left].before;
            queue.extend(if before == NONE { None } else { pair(&parts, before) });
        }
        let mut at = if parts.is_empty() { NONE } else { 0 };
        while let Some(part) = parts.get(at) {
            ids.push(part.id);
            at = part.after;
        }
    }
}
