//! Texts cut into words.

use crate::bytes;
use fancy_regex::Regex;
use std::sync::LazyLock;

/// One way to cut.
pub(crate) enum Splitter {
    /// At white space, and around each mark of punctuation.
    Bert,
    /// At white space.
    Space,
    /// What a pattern finds are words, and so is what is between.
    Isolated(Regex),
    /// What a pattern finds is between words.
    Removed(Regex),
    /// Each digit alone.
    Digits,
    /// A blank before the first word.
    PrefixSpace,
    /// Bytes as letters, no cut.
    Bytes,
}

/// How GPT-2 cuts: contractions, letters, numbers, marks, each with the blank before it.
pub(crate) const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

impl Splitter {
    pub fn apply(&self, words: Vec<String>) -> Vec<String> {
        let each = |f: &dyn Fn(&str, &mut Vec<String>)| {
            let mut out = vec![];
            words.iter().for_each(|w| f(w, &mut out));
            out
        };
        match self {
            Splitter::Space => each(&|w, out| out.extend(w.split_whitespace().map(str::to_string))),
            Splitter::Bert => each(&|w, out| {
                w.split_whitespace().for_each(|w| isolate(w, is_punctuation, out));
            }),
            Splitter::Digits => each(&|w, out| isolate(w, char::is_numeric, out)),
            Splitter::Isolated(pattern) => each(&|w, out| cut(w, pattern, true, out)),
            Splitter::Removed(pattern) => each(&|w, out| cut(w, pattern, false, out)),
            Splitter::PrefixSpace => {
                let spaced = |w: &String| if w.starts_with(' ') { w.clone() } else { format!(" {w}") };
                words.iter().map(spaced).collect()
            }
            Splitter::Bytes => words.iter().map(|w| w.bytes().map(bytes::letter).collect()).collect(),
        }
    }
}

/// Characters of a class as words of their own.
fn isolate(word: &str, class: impl Fn(char) -> bool, out: &mut Vec<String>) {
    let mut start = 0;
    for (i, c) in word.char_indices().filter(|(_, c)| class(*c)) {
        let end = i + c.len_utf8();
        out.extend((i > start).then(|| word[start..i].to_string()));
        out.push(word[i..end].to_string());
        start = end;
    }
    out.extend((start < word.len()).then(|| word[start..].to_string()));
}

fn cut(word: &str, pattern: &Regex, keep: bool, out: &mut Vec<String>) {
    let mut start = 0;
    // a pattern that gives up on a text leaves the rest of it whole
    for found in pattern.find_iter(word).map_while(Result::ok) {
        out.extend((found.start() > start).then(|| word[start..found.start()].to_string()));
        out.extend((keep && !found.as_str().is_empty()).then(|| found.as_str().to_string()));
        start = found.end();
    }
    out.extend((start < word.len()).then(|| word[start..].to_string()));
}

/// Whether a character is of a class of Unicode; those of ASCII are looked up by themselves.
fn is_of(class: &LazyLock<Option<Regex>>, c: char) -> bool {
    let mut buffer = [0; 4];
    class.as_ref().is_some_and(|r| r.is_match(c.encode_utf8(&mut buffer)).unwrap_or(false))
}
pub(crate) fn is_punctuation(c: char) -> bool {
    static CLASS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\p{P}").ok());
    if c.is_ascii() { c.is_ascii_punctuation() } else { is_of(&CLASS, c) }
}
/// Control characters, format characters, those for private use.
pub(crate) fn is_other(c: char) -> bool {
    static CLASS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"[\p{Cc}\p{Cf}\p{Co}]").ok());
    if c.is_ascii() { c.is_ascii_control() } else { is_of(&CLASS, c) }
}
pub(crate) fn is_nonspacing(c: char) -> bool {
    static CLASS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\p{Mn}").ok());
    !c.is_ascii() && is_of(&CLASS, c)
}
