//! Text of tokens.

use crate::{Tokenizer, bytes};

/// How tokens become text.
pub(crate) enum Decoder {
    /// Blanks between words; `cleanup` takes those before punctuation away.
    WordPiece { prefix: String, cleanup: bool },
    /// Letters that stand for bytes.
    Bytes,
    /// One after the other, blanks between.
    Words,
}

/// What English does not write, and what it writes.
const CLEANUP: [(&str, &str); 11] = [
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" do not", " don't"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
];

impl Decoder {
    pub fn text<'a>(&self, tokens: impl Iterator<Item = &'a str>) -> String {
        match self {
            Decoder::WordPiece { prefix, cleanup } => {
                let part = |(i, token): (usize, &str)| {
                    let text = match token.strip_prefix(prefix.as_str()) {
                        _ if i == 0 => token.to_string(),
                        Some(rest) => rest.to_string(),
                        None => format!(" {token}"),
                    };
                    let cleanup = if *cleanup { &CLEANUP[..] } else { &[] };
                    cleanup.iter().fold(text, |t, (from, to)| t.replace(from, to))
                };
                tokens.enumerate().map(part).collect()
            }
            Decoder::Bytes => {
                String::from_utf8_lossy(&tokens.flat_map(raw).collect::<Vec<u8>>()).into_owned()
            }
            Decoder::Words => tokens.collect::<Vec<_>>().join(" "),
        }
    }
}

/// The bytes that a token's letters stand for; its own where one stands for none.
fn raw(token: &str) -> Vec<u8> {
    let all: Option<Vec<u8>> = token.chars().map(bytes::byte).collect();
    all.unwrap_or_else(|| token.as_bytes().to_vec())
}

/// Text that grows as numbers come in; see [`Tokenizer::stream`].
pub struct Stream<'a> {
    tokenizer: &'a Tokenizer,
    ids: Vec<u32>,
    given: usize,
}

/// Tokens that are decoded again for the text of the next one: what one adds depends on those before it.
const KEPT: usize = 8;

impl<'a> Stream<'a> {
    pub(crate) fn new(tokenizer: &'a Tokenizer) -> Stream<'a> {
        Stream { tokenizer, ids: vec![], given: 0 }
    }
    /// What one more number adds to the text: nothing while a character is not whole.
    pub fn push(&mut self, id: u32) -> String {
        if self.tokenizer.is_special(id) {
            return String::new();
        }
        self.ids.push(id);
        let text = self.tokenizer.decode(&self.ids);
        if text.ends_with(char::REPLACEMENT_CHARACTER) {
            return String::new();
        }
        let more = text.get(self.given..).unwrap_or_default().to_string();
        self.given = text.len();
        if self.ids.len() > 2 * KEPT {
            self.ids.drain(..self.ids.len() - KEPT);
            self.given = self.tokenizer.decode(&self.ids).len();
        }
        more
    }
    /// What is left: part of a character, which will not be whole any more.
    pub fn finish(self) -> String {
        let text = self.tokenizer.decode(&self.ids);
        text.get(self.given..).unwrap_or_default().to_string()
    }
}
