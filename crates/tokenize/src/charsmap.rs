//! Sentence-piece's table of replacements: a double array of bytes that leads to places in a list of texts.
//!
//! ```text
//! bytes of the array (u32), the array (u32 each), texts that each end with a zero
//! ```

use crate::error::{Result, fail};

pub(crate) struct Charsmap {
    array: Vec<u32>,
    texts: Vec<u8>,
}

impl Charsmap {
    pub fn read(bytes: &[u8]) -> Result<Charsmap> {
        let word = |b: &[u8]| b.try_into().map_or(0, u32::from_le_bytes);
        let Some((size, rest)) = bytes.split_at_checked(4) else { return fail("a table without its size") };
        let Some((array, texts)) =
            rest.split_at_checked(word(size) as usize).filter(|(a, _)| a.len() % 4 == 0)
        else {
            return fail(format!("a table of {} bytes that says {}", rest.len(), word(size)));
        };
        if std::str::from_utf8(texts).is_err() {
            return fail("replacements that are no text");
        }
        Ok(Charsmap { array: array.chunks_exact(4).map(word).collect(), texts: texts.to_vec() })
    }
    /// The longest text with a replacement that `text` begins with: its length, and what it becomes.
    fn find(&self, text: &[u8]) -> Option<(usize, &str)> {
        let (mut at, mut found) = (offset(*self.array.first()?), None);
        for (i, byte) in text.iter().enumerate() {
            at ^= *byte as usize;
            let Some(unit) = self.array.get(at).filter(|u| **u & 0x8000_00ff == *byte as u32) else { break };
            at ^= offset(*unit);
            if unit >> 8 & 1 == 1 {
                found = self.array.get(at).map(|leaf| (i + 1, (leaf & 0x7fff_ffff) as usize));
            }
        }
        let (len, start) = found?;
        let rest = self.texts.get(start..)?;
        let end = rest.iter().position(|b| *b == 0)?;
        Some((len, std::str::from_utf8(&rest[..end]).ok()?))
    }
    pub fn apply(&self, text: &str) -> String {
        let (mut out, mut rest) = (String::with_capacity(text.len()), text);
        while let Some(c) = rest.chars().next() {
            let (len, with) = self.find(rest.as_bytes()).unwrap_or((0, ""));
            // a broken table may end inside a character
            match rest.get(len..).filter(|_| len > 0) {
                Some(after) => {
                    out.push_str(with);
                    rest = after;
                }
                None => {
                    out.push(c);
                    rest = &rest[c.len_utf8()..];
                }
            }
        }
        out
    }
}

/// How far the children of a unit are.
fn offset(unit: u32) -> usize {
    ((unit >> 10) << ((unit & 1 << 9) >> 6)) as usize
}
