//! Characters changed before words are looked for.

use crate::bytes;
use crate::charsmap::Charsmap;
use crate::split::{Place, is_other};
use fancy_regex::Regex;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// One change.
pub(crate) enum Normalizer {
    /// No control characters, all white space a blank.
    Clean,
    /// Blanks around each Chinese character.
    SpaceChinese,
    StripAccents,
    Lowercase,
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
    Replace(Regex, String),
    Prepend(String),
    /// Sentence-piece's table.
    Charsmap(Charsmap),
    /// One blank where there are several, none at the ends.
    CollapseBlanks,
    /// No white space at the left, at the right.
    Strip(bool, bool),
    /// Bytes as letters.
    Bytes,
}

impl Normalizer {
    /// Whether it takes away what a text begins with.
    pub fn strips(&self) -> bool {
        matches!(self, Normalizer::Strip(true, _))
    }
    /// A text that stands somewhere as it becomes: in the middle of another nothing is put before it or taken from there.
    pub fn apply(&self, text: &str, place: Place) -> String {
        let goes_on = place == Place::Middle;
        match self {
            Normalizer::Clean => text.chars().filter(|c| !is_dropped(*c)).map(blank).collect(),
            Normalizer::SpaceChinese => {
                let spaced = |c: char| {
                    let around = is_chinese(c).then_some(' ');
                    around.into_iter().chain([c]).chain(around)
                };
                text.chars().flat_map(spaced).collect()
            }
            Normalizer::StripAccents => text.nfd().filter(|c| !is_accent(*c)).collect(),
            Normalizer::Lowercase => text.chars().flat_map(char::to_lowercase).collect(),
            Normalizer::Nfc => text.nfc().collect(),
            Normalizer::Nfd => text.nfd().collect(),
            Normalizer::Nfkc => text.nfkc().collect(),
            Normalizer::Nfkd => text.nfkd().collect(),
            Normalizer::Replace(pattern, with) => pattern.replace_all(text, with.as_str()).into_owned(),
            Normalizer::Prepend(_) if text.is_empty() || goes_on => text.to_string(),
            Normalizer::Prepend(prefix) => format!("{prefix}{text}"),
            Normalizer::Charsmap(map) => map.apply(text),
            Normalizer::CollapseBlanks => {
                let blank = if goes_on && text.starts_with(' ') { " " } else { "" };
                let words = text.split(' ').filter(|w| !w.is_empty()).collect::<Vec<_>>();
                blank.to_string() + &words.join(" ")
            }
            Normalizer::Strip(left, right) => {
                let text = if *left && !goes_on { text.trim_start() } else { text };
                if *right { text.trim_end() } else { text }.to_string()
            }
            Normalizer::Bytes => text.bytes().map(bytes::letter).collect(),
        }
    }
}

fn is_dropped(c: char) -> bool {
    matches!(c, '\0' | '\u{fffd}') || (!matches!(c, '\t' | '\n' | '\r') && is_other(c))
}
fn blank(c: char) -> char {
    if c.is_whitespace() { ' ' } else { c }
}
/// A mark that is drawn over or under another character (Mn).
fn is_accent(c: char) -> bool {
    is_combining_mark(c) && crate::split::is_nonspacing(c)
}
fn is_chinese(c: char) -> bool {
    matches!(c as u32,
        0x4e00..=0x9fff | 0x3400..=0x4dbf | 0x20000..=0x2a6df | 0x2a700..=0x2b73f | 0x2b740..=0x2b81f
        | 0x2b920..=0x2ceaf | 0xf900..=0xfaff | 0x2f800..=0x2fa1f)
}
