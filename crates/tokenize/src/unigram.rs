//! The cut of a word into tokens whose probabilities have the greatest product.

use crate::trie::Trie;

pub(crate) struct Unigram {
    /// Logarithms of probabilities; none for what is never part of a cut.
    scores: Vec<Option<f64>>,
    tokens: Trie,
    unknown: Unknown,
    /// Sums are of float32, as in sentence-piece: that decides between cuts that are as good.
    single: bool,
    /// Of a character that no token has.
    unknown_score: f64,
}

/// What becomes of characters that no token has.
pub(crate) struct Unknown {
    /// Their bytes as tokens.
    pub bytes: Option<Box<[u32; 256]>>,
    /// One token for all.
    pub id: Option<u32>,
    /// Neighbours are one.
    pub fuse: bool,
}

impl Unknown {
    /// `after` says whether the text before is unknown too.
    pub fn encode(&self, text: &str, after: bool, ids: &mut Vec<u32>) {
        match (&self.bytes, self.id) {
            (Some(bytes), _) => ids.extend(text.bytes().map(|b| bytes[b as usize])),
            (None, Some(id)) if !(self.fuse && after) => ids.push(id),
            _ => {}
        }
    }
}

/// The best cut of a text up to a place: its score, where its last token begins, and which it is.
#[derive(Clone, Copy)]
struct Best {
    score: f64,
    start: usize,
    id: Option<u32>,
}

impl Unigram {
    pub fn new<'a>(
        tokens: impl Iterator<Item = (&'a str, Option<f64>)>,
        unknown: Unknown,
        single: bool,
    ) -> Unigram {
        let (mut trie, mut scores) = (Trie::default(), vec![]);
        for (id, (token, score)) in (0..).zip(tokens) {
            scores.push(score);
            if score.is_some() {
                trie.add(token, id);
            }
        }
        let least = scores.iter().flatten().copied().fold(f64::INFINITY, f64::min);
        Unigram { scores, tokens: trie, unknown, single, unknown_score: least - 10.0 }
    }
    pub fn encode(&self, word: &str, ids: &mut Vec<u32>) {
        let mut best: Vec<Option<Best>> = vec![None; word.len() + 1];
        best[0] = Some(Best { score: 0.0, start: 0, id: None });
        for (at, c) in word.char_indices() {
            let Some(Best { score: before, .. }) = best[at] else { continue };
            let mut single = false;
            let mut offer = |len: usize, score: f64, id| {
                let place = &mut best[at + len];
                let score = if self.single { (before + score) as f32 as f64 } else { before + score };
                if place.is_none_or(|b| score > b.score) {
                    *place = Some(Best { score, start: at, id });
                }
            };
            for (len, id) in self.tokens.prefixes(&word.as_bytes()[at..]) {
                let Some(score) = self.scores.get(id as usize).copied().flatten() else { continue };
                single |= len == c.len_utf8();
                offer(len, score, Some(id));
            }
            if !single {
                offer(c.len_utf8(), self.unknown_score, None);
            }
        }
        let (mut parts, mut end) = (vec![], word.len());
        while let Some(Best { start, id, .. }) = best[end].filter(|_| end > 0) {
            parts.push((start..end, id));
            end = start;
        }
        let mut after = false;
        for (range, id) in parts.into_iter().rev() {
            match id {
                Some(id) => ids.push(id),
                None => self.unknown.encode(&word[range], after, ids),
            }
            after = id.is_none();
        }
    }
}
