//! Text of tokens.

use crate::{Tokenizer, bytes};
use fancy_regex::Regex;

/// One step from tokens to text.
pub(crate) enum Decoder {
    /// Blanks between words; `cleanup` takes those before punctuation away.
    WordPiece {
        prefix: String,
        cleanup: bool,
    },
    /// Letters that stand for bytes.
    Bytes,
    /// Blanks between tokens.
    Words,
    Replace(Regex, String),
    /// Tokens like `<0x0A>` are bytes.
    ByteFallback,
    /// All are one.
    Fuse,
    /// At most so many of a character go from the start and the end of each.
    Strip {
        content: char,
        start: usize,
        stop: usize,
    },
    /// A mark is a blank, but in the first token, if it was put there.
    Metaspace {
        mark: char,
        prepended: bool,
    },
    /// A suffix is a blank, but in the last token.
    Suffix(String),
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
    fn apply(&self, mut tokens: Vec<String>) -> Vec<String> {
        let count = tokens.len();
        let each = |tokens: &mut Vec<String>, f: &dyn Fn(usize, &str) -> String| {
            tokens.iter_mut().enumerate().for_each(|(i, t)| *t = f(i, t));
        };
        match self {
            Decoder::WordPiece { prefix, cleanup } => each(&mut tokens, &|i, token| {
                let text = match token.strip_prefix(prefix.as_str()) {
                    _ if i == 0 => token.to_string(),
                    Some(rest) => rest.to_string(),
                    None => format!(" {token}"),
                };
                let cleanup = if *cleanup { &CLEANUP[..] } else { &[] };
                cleanup.iter().fold(text, |t, (from, to)| t.replace(from, to))
            }),
            Decoder::Bytes => {
                let bytes: Vec<u8> = tokens.iter().flat_map(|t| raw(t)).collect();
                return vec![String::from_utf8_lossy(&bytes).into_owned()];
            }
            Decoder::Words => each(&mut tokens, &|i, t| if i == 0 { t.to_string() } else { format!(" {t}") }),
            Decoder::Replace(pattern, with) => {
                each(&mut tokens, &|_, t| pattern.replace_all(t, with.as_str()).into_owned());
            }
            Decoder::ByteFallback => return join_bytes(tokens),
            Decoder::Fuse => return vec![tokens.concat()],
            Decoder::Strip { content, start, stop } => each(&mut tokens, &|_, t| {
                let t = (0..*start).fold(t, |t, _| t.strip_prefix(*content).unwrap_or(t));
                (0..*stop).fold(t, |t, _| t.strip_suffix(*content).unwrap_or(t)).to_string()
            }),
            Decoder::Metaspace { mark, prepended } => {
                each(&mut tokens, &|i, t| t.replace(*mark, if i == 0 && *prepended { "" } else { " " }))
            }
            Decoder::Suffix(suffix) => {
                each(&mut tokens, &|i, t| t.replace(suffix.as_str(), if i + 1 == count { "" } else { " " }))
            }
        }
        tokens
    }
    /// The bytes that one token adds to a text, wherever it is in it.
    pub fn bytes(steps: &[Decoder], token: &str) -> Vec<u8> {
        let mut text = token.to_string();
        for step in steps {
            match step {
                Decoder::Bytes => return raw(&text),
                Decoder::ByteFallback => {
                    if let Some(byte) = byte_token(&text) {
                        return vec![byte];
                    }
                }
                Decoder::Replace(pattern, with) => {
                    text = pattern.replace_all(&text, with.as_str()).into_owned()
                }
                Decoder::Metaspace { mark, .. } => text = text.replace(*mark, " "),
                Decoder::Suffix(suffix) => text = text.replace(suffix.as_str(), " "),
                Decoder::WordPiece { prefix, .. } => {
                    text = text.strip_prefix(prefix.as_str()).map_or(format!(" {text}"), str::to_string);
                }
                // these are about where a text begins and ends
                Decoder::Words | Decoder::Fuse | Decoder::Strip { .. } => {}
            }
        }
        text.into_bytes()
    }
    /// The text of tokens by all steps.
    pub fn text<'a>(steps: &[Decoder], tokens: impl Iterator<Item = &'a str>) -> String {
        steps
            .iter()
            .fold(tokens.map(str::to_string).collect(), |tokens: Vec<_>, step| step.apply(tokens))
            .concat()
    }
}

/// Neighbouring byte tokens become their text, or a replacement character each if they are none.
fn join_bytes(tokens: Vec<String>) -> Vec<String> {
    let (mut out, mut bytes) = (vec![], vec![]);
    let flush = |bytes: &mut Vec<u8>, out: &mut Vec<String>| match String::from_utf8(std::mem::take(bytes)) {
        Ok(text) if text.is_empty() => {}
        Ok(text) => out.push(text),
        Err(e) => out.extend(e.as_bytes().iter().map(|_| char::REPLACEMENT_CHARACTER.to_string())),
    };
    for token in tokens {
        match byte_token(&token) {
            Some(byte) => bytes.push(byte),
            None => {
                flush(&mut bytes, &mut out);
                out.push(token);
            }
        }
    }
    flush(&mut bytes, &mut out);
    out
}

/// The byte of `<0x0A>`.
fn byte_token(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>').filter(|d| d.len() == 2)?;
    u8::from_str_radix(digits, 16).ok()
}

/// The bytes that a token's letters stand for; its own where one stands for none.
fn raw(token: &str) -> Vec<u8> {
    let all: Option<Vec<u8>> = token.chars().map(bytes::byte).collect();
    all.unwrap_or_else(|| token.as_bytes().to_vec())
}

/// Text that grows as numbers come in; see [`Tokenizer::stream`].
pub struct Stream<'a> {
    tokenizer: &'a Tokenizer,
    text: Growing,
}

impl<'a> Stream<'a> {
    pub(crate) fn new(tokenizer: &'a Tokenizer, special: bool) -> Stream<'a> {
        Stream { tokenizer, text: Growing { special, ..Growing::default() } }
    }
    /// What one more number adds to the text: nothing while a character is not whole.
    pub fn push(&mut self, id: u32) -> String {
        self.text.push(self.tokenizer, id)
    }
    /// What is left: part of a character, which will not be whole any more.
    pub fn finish(self) -> String {
        self.text.finish(self.tokenizer)
    }
}

/// A [`Stream`] for those who keep the tokeniser elsewhere; it is given the same one each time.
#[derive(Clone, Debug, Default)]
pub struct Growing {
    /// Whether tokens that are none of the text are shown.
    special: bool,
    ids: Vec<u32>,
    /// How much of the text of `ids` is given out.
    given: usize,
    /// Tokens since a character is not whole.
    waiting: usize,
}

/// Tokens that are decoded again for the text of the next one: what one adds depends on those before it.
const KEPT: usize = 8;
/// No character is of more tokens: what is not whole then never will be.
const LONGEST: usize = 4;

impl Growing {
    fn text(&self, tokenizer: &Tokenizer, ids: &[u32]) -> String {
        if self.special { tokenizer.decode_all(ids) } else { tokenizer.decode(ids) }
    }
    /// What one more number adds to the text: nothing while a character is not whole.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> String {
        if !self.special && tokenizer.is_special(id) {
            return String::new();
        }
        self.ids.push(id);
        let text = self.text(tokenizer, &self.ids);
        let whole = match self.waiting < LONGEST {
            true => text.trim_end_matches(char::REPLACEMENT_CHARACTER).len().max(self.given),
            false => text.len(),
        };
        self.waiting = if whole < text.len() { self.waiting + 1 } else { 0 };
        let more = text.get(self.given..whole).unwrap_or_default().to_string();
        self.given = whole;
        if self.ids.len() > 2 * KEPT && self.waiting == 0 {
            self.forget(tokenizer);
        }
        more
    }
    /// Lets go of tokens that what comes does not depend on, but never of part of a character.
    fn forget(&mut self, tokenizer: &Tokenizer) {
        for first in (0..self.ids.len() - KEPT).rev().take(KEPT) {
            let text = self.text(tokenizer, &self.ids[first..]);
            if !text.starts_with(char::REPLACEMENT_CHARACTER) {
                self.ids.drain(..first);
                self.given = text.len();
                return;
            }
        }
    }
    /// What is left: part of a character, which will not be whole any more.
    pub fn finish(self, tokenizer: &Tokenizer) -> String {
        let text = self.text(tokenizer, &self.ids);
        text.get(self.given..).unwrap_or_default().to_string()
    }
}
