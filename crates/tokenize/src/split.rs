//! Texts cut into words.

use crate::bytes;
use fancy_regex::Regex;
use std::ops::Range;
use std::sync::LazyLock;

/// One way to cut.
pub(crate) enum Splitter {
    /// At what is found.
    At(Find, Keep),
    /// A blank before the first word.
    PrefixSpace,
    /// Bytes as letters, no cut.
    Bytes,
    /// Blanks as another character, one before a word that has none, and cut before each.
    Metaspace { mark: char, prepend: Prepend, split: bool },
}

/// What is looked for.
pub(crate) enum Find {
    Regex(Regex),
    /// What a pattern does not find.
    Between(Regex),
    /// Each character of a class.
    Class(fn(char) -> bool),
}

/// What becomes of what is found.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Keep {
    Removed,
    /// A word of its own.
    Isolated,
    /// All that are neighbours are one word.
    Contiguous,
    WithPrevious,
    WithNext,
}

/// Where a text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nothing is before it.
    Start,
    /// A token that stands for itself is before it.
    Behind,
    /// It goes on in the middle of a text: nothing marks where it begins.
    Middle,
}

impl Place {
    /// That of a piece of a text which stands here: others are behind tokens.
    pub fn of(self, piece: usize) -> Place {
        if piece == 0 { self } else { Place::Behind }
    }
}

/// Where a mark is put before a text.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Prepend {
    Never,
    /// Where a text begins, not after added tokens.
    First,
    Always,
}

/// How GPT-2 cuts: contractions, letters, numbers, marks, each with the blank before it.
pub(crate) const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

impl Splitter {
    /// `place` is that of the first of the words.
    pub fn apply(&self, words: Vec<String>, place: Place) -> Vec<String> {
        match self {
            Splitter::At(find, keep) => {
                words.iter().flat_map(|w| cut(w, find, *keep).into_iter().map(|r| w[r].to_string())).collect()
            }
            Splitter::PrefixSpace => {
                let spaced =
                    |(i, w): (usize, &String)| match w.starts_with(' ') || place.of(i) == Place::Middle {
                        true => w.clone(),
                        false => format!(" {w}"),
                    };
                words.iter().enumerate().map(spaced).collect()
            }
            Splitter::Bytes => words.iter().map(|w| w.bytes().map(bytes::letter).collect()).collect(),
            Splitter::Metaspace { mark, prepend, split } => {
                let marked = |(i, w): (usize, String)| {
                    let w: String = w.chars().map(|c| if c == ' ' { *mark } else { c }).collect();
                    let wanted = match prepend {
                        Prepend::Never => false,
                        Prepend::First => place.of(i) == Place::Start,
                        Prepend::Always => place.of(i) != Place::Middle,
                    };
                    if wanted && !w.starts_with(*mark) { format!("{mark}{w}") } else { w }
                };
                let cut_up = |w: String| match split {
                    true => spans(&w, |c| c == *mark, Keep::WithNext)
                        .into_iter()
                        .map(|r| w[r].to_string())
                        .collect(),
                    false => vec![w],
                };
                words.into_iter().enumerate().map(marked).flat_map(cut_up).collect()
            }
        }
    }
}

/// Characters of a class, and what is between.
fn spans(text: &str, class: impl Fn(char) -> bool, keep: Keep) -> Vec<Range<usize>> {
    let found = text.char_indices().filter(|(_, c)| class(*c)).map(|(i, c)| i..i + c.len_utf8());
    join(between(text, found, true), keep)
}

fn cut(text: &str, find: &Find, keep: Keep) -> Vec<Range<usize>> {
    let matches = |r: &Regex, is_match| {
        let all: Result<Vec<_>, _> = r.find_iter(text).map(|m| m.map(|m| m.range())).collect();
        let found = all.unwrap_or_else(|_| find_in_shortened(r, text));
        join(between(text, found.into_iter(), is_match), keep)
    };
    match find {
        Find::Regex(r) => matches(r, true),
        Find::Between(r) => matches(r, false),
        Find::Class(class) => spans(text, class, keep),
    }
}

/// Characters that stay at each end of a run that is shortened.
const KEPT: usize = 1 << 10;

/// What a pattern finds where it gives up on a text as it is, for each character of a run takes room on its stack: the same as with
/// shorter runs, since no pattern counts so far. Where it gives up even so, the rest is left whole.
fn find_in_shortened(r: &Regex, text: &str) -> Vec<Range<usize>> {
    let (mut short, mut left_out, mut done) = (String::new(), vec![], 0);
    for run in long_runs(text) {
        let chars = text[run.clone()].char_indices();
        let first = chars.clone().nth(KEPT).map_or(0, |(i, _)| i);
        let last = chars.rev().nth(KEPT).map_or(0, |(i, _)| i);
        if last > first {
            short.push_str(&text[done..run.start + first]);
            left_out.push((short.len(), last - first));
            done = run.start + last;
        }
    }
    short.push_str(&text[done..]);
    let place = |at: usize| at + left_out.iter().take_while(|(i, _)| *i < at).map(|(_, n)| n).sum::<usize>();
    r.find_iter(&short).map_while(Result::ok).map(|m| place(m.start())..place(m.end())).collect()
}

/// Runs of one character or of blanks, of which those up to the last line's end are one: patterns end words there.
fn long_runs(text: &str) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = vec![];
    let mut last = None;
    for (i, c) in text.char_indices() {
        let goes_on = |l: char| l == c || l.is_whitespace() && c.is_whitespace();
        match runs.last_mut().filter(|_| last.is_some_and(goes_on)) {
            Some(run) => run.end = i + c.len_utf8(),
            None => runs.push(i..i + c.len_utf8()),
        }
        last = Some(c);
    }
    let at_line = |run: Range<usize>| {
        let line = text[run.clone()].rfind(['\n', '\r']).map_or(run.start, |i| run.start + i + 1);
        [run.start..line, line..run.end]
    };
    runs.into_iter().filter(|r| r.len() > 2 * KEPT).flat_map(at_line).collect()
}

/// All of a text in order: what was found, which is a match, and what is between, which is the other.
fn between(
    text: &str,
    found: impl Iterator<Item = Range<usize>>,
    is_match: bool,
) -> Vec<(Range<usize>, bool)> {
    let (mut all, mut done) = (vec![], 0);
    for r in found {
        let end = r.end;
        all.extend([(done..r.start, !is_match), (r, is_match)]);
        done = end;
    }
    all.push((done..text.len(), !is_match));
    all.retain(|(r, _)| !r.is_empty());
    all
}

fn join(all: Vec<(Range<usize>, bool)>, keep: Keep) -> Vec<Range<usize>> {
    let mut out: Vec<(Range<usize>, bool)> = vec![];
    for (r, is_match) in all {
        let joins = out.last().is_some_and(|(_, last)| match keep {
            Keep::Removed | Keep::Isolated => false,
            Keep::Contiguous => is_match == *last,
            Keep::WithPrevious => is_match && !last,
            Keep::WithNext => !is_match && *last,
        });
        match out.last_mut().filter(|_| joins) {
            // what took one along takes no second
            Some(last) => {
                *last =
                    (last.0.start..r.end, keep == Keep::Contiguous && is_match || keep == Keep::WithPrevious)
            }
            None => out.push((r, is_match)),
        }
    }
    let kept = |(r, is_match): (Range<usize>, bool)| (keep != Keep::Removed || !is_match).then_some(r);
    out.into_iter().filter_map(kept).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::regex;

    /// The words of a text, each with how often its first character stands in it.
    fn words(pattern: &str, text: &str) -> Vec<(char, usize)> {
        let all = cut(text, &Find::Regex(regex(pattern).unwrap()), Keep::Isolated);
        let word = |r: Range<usize>| {
            let first = text[r.clone()].chars().next().unwrap_or_default();
            (first, text[r].chars().filter(|c| *c == first).count())
        };
        all.into_iter().map(word).collect()
    }

    #[test]
    fn runs_that_no_stack_holds_are_cut_as_shorter_ones() {
        for n in [100, 3 << 20] {
            let text = format!("a{}b c's", " ".repeat(n));
            assert_eq!(words(GPT2, &text), [('a', 1), (' ', n - 1), (' ', 1), (' ', 1), ('\'', 1)], "{n}");
            // a line's end takes the blanks before it along
            let text = format!("a{}x\n{}\n{}b", "\u{301}".repeat(n), " \n".repeat(n), " ".repeat(n));
            let lines = r"\w+|\s*[\r\n]+|\s+(?!\S)|\s+";
            assert_eq!(
                words(lines, &text),
                [('a', 1), ('\n', n + 2), (' ', n - 1), (' ', 1), ('b', 1)],
                "{n}"
            );
        }
    }
}
