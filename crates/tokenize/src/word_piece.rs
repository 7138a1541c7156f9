//! Words cut from the left into the longest parts that have numbers.

use crate::vocab::Vocab;

pub(crate) struct WordPiece {
    pub unknown: u32,
    /// Before parts that do not begin a word.
    pub prefix: String,
    /// Longer words are unknown.
    pub longest: usize,
}

impl WordPiece {
    pub fn encode(&self, vocab: &Vocab, word: &str, ids: &mut Vec<u32>) {
        let (first, mut start) = (ids.len(), 0);
        // where characters end
        let ends: Vec<usize> = word.char_indices().map(|(i, c)| i + c.len_utf8()).collect();
        if ends.len() > self.longest {
            return ids.push(self.unknown);
        }
        while start < word.len() {
            let part = |end: usize| {
                let part = &word[start..end];
                match start {
                    0 => vocab.id(part),
                    _ => vocab.id(&format!("{}{part}", self.prefix)),
                }
            };
            let longer = ends.iter().rev().copied().take_while(|end| *end > start);
            let Some((end, id)) = longer.filter_map(|end| Some((end, part(end)?))).next() else {
                ids.truncate(first);
                return ids.push(self.unknown);
            };
            ids.push(id);
            start = end;
        }
    }
}
