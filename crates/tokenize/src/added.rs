//! Tokens that stand for themselves wherever they are in a text: the longest of those that begin first.

use crate::error::{Error, Result};
use crate::vocab::Vocab;
use fancy_regex::{Regex, escape};
use rustc_hash::FxHashSet;

/// What a file says of one.
pub(crate) struct Token {
    pub id: u32,
    pub content: String,
    /// Not inside a word.
    pub single_word: bool,
    /// Takes white space before it along.
    pub lstrip: bool,
    /// Takes white space after it along.
    pub rstrip: bool,
    /// Looked for in the normalised text.
    pub normalized: bool,
    /// None of the text.
    pub special: bool,
}

pub(crate) enum Piece<'a> {
    Token(u32),
    Text(&'a str),
}

#[derive(Default)]
pub(crate) struct Added {
    tokens: Vec<Token>,
    names: Vocab,
    special: FxHashSet<u32>,
    raw: Option<Regex>,
    normal: Option<Regex>,
}

impl Added {
    /// `normalize` is what becomes of tokens that are looked for in normalised text.
    pub fn new(mut tokens: Vec<Token>, normalize: impl Fn(&str) -> String) -> Result<Added> {
        let mut names = Vocab::default();
        tokens.iter().for_each(|t| names.add(&t.content, t.id));
        let special = tokens.iter().filter(|t| t.special).map(|t| t.id).collect();
        tokens.iter_mut().filter(|t| t.normalized).for_each(|t| t.content = normalize(&t.content));
        // the first of several ways is taken
        tokens.sort_by_key(|t| std::cmp::Reverse(t.content.len()));
        let regex = |normalized: bool| {
            let mine = tokens.iter().filter(|t| t.normalized == normalized && !t.content.is_empty());
            let all: Vec<String> = mine.map(|t| escape(&t.content).into_owned()).collect();
            let made = (!all.is_empty()).then(|| Regex::new(&all.join("|")));
            made.transpose().map_err(|e| Error(format!("added_tokens: {e}")))
        };
        let (raw, normal) = (regex(false)?, regex(true)?);
        Ok(Added { tokens, names, special, raw, normal })
    }
    pub fn split_raw<'a>(&self, text: &'a str) -> Vec<Piece<'a>> {
        self.split(self.raw.as_ref(), false, text)
    }
    pub fn split_normal<'a>(&self, text: &'a str) -> Vec<Piece<'a>> {
        self.split(self.normal.as_ref(), true, text)
    }
    fn split<'a>(&self, regex: Option<&Regex>, normalized: bool, text: &'a str) -> Vec<Piece<'a>> {
        let (mut pieces, mut done) = (vec![], 0);
        for found in regex.iter().flat_map(|r| r.find_iter(text)).flatten() {
            let is_it = |t: &&Token| t.normalized == normalized && t.content == found.as_str();
            let Some(token) = self.tokens.iter().find(is_it) else { continue };
            let (before, after) = (&text[..found.start()], &text[found.end()..]);
            let inside =
                before.chars().next_back().is_some_and(is_word) || after.chars().next().is_some_and(is_word);
            if token.single_word && inside {
                continue;
            }
            let start = if token.lstrip { before.trim_end().len() } else { found.start() }.max(done);
            let end = if token.rstrip { text.len() - after.trim_start().len() } else { found.end() };
            if start > done {
                pieces.push(Piece::Text(&text[done..start]));
            }
            pieces.push(Piece::Token(token.id));
            done = end;
        }
        if done < text.len() {
            pieces.push(Piece::Text(&text[done..]));
        }
        pieces
    }
    pub fn is_special(&self, id: u32) -> bool {
        self.special.contains(&id)
    }
    pub fn id(&self, token: &str) -> Option<u32> {
        self.names.id(token)
    }
    pub fn token(&self, id: u32) -> Option<&str> {
        self.names.token(id)
    }
    pub fn size(&self) -> usize {
        self.names.size()
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
