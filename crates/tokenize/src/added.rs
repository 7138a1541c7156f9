//! Tokens that stand for themselves wherever they are in a text: the longest of those that begin first.

use crate::trie::Trie;
use crate::vocab::Vocab;
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

impl Token {
    /// One that is looked for as it is.
    pub fn plain(content: &str, id: u32) -> Token {
        let content = content.to_string();
        Token {
            id,
            content,
            single_word: false,
            lstrip: false,
            rstrip: false,
            normalized: false,
            special: false,
        }
    }
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
    /// Places in `tokens` of those that are looked for in the text as it is.
    raw: Trie,
    normal: Trie,
}

impl Added {
    /// `normalize` is what becomes of tokens that are looked for in normalised text.
    pub fn new(tokens: Vec<Token>, normalize: impl Fn(&str) -> String) -> Added {
        let (mut names, mut raw, mut normal) = (Vocab::default(), Trie::default(), Trie::default());
        for (place, t) in (0..).zip(&tokens) {
            names.add(&t.content, t.id);
            match t.normalized {
                true => normal.add(&normalize(&t.content), place),
                false => raw.add(&t.content, place),
            }
        }
        let special = tokens.iter().filter(|t| t.special).map(|t| t.id).collect();
        Added { tokens, names, special, raw, normal }
    }
    /// Cuts tokens out of a text as it is; special ones only if the text may hold them.
    pub fn split_raw<'a>(&self, text: &'a str, special: bool) -> Vec<Piece<'a>> {
        self.split(&self.raw, special, text)
    }
    /// The same of a normalised text.
    pub fn split_normal<'a>(&self, text: &'a str, special: bool) -> Vec<Piece<'a>> {
        self.split(&self.normal, special, text)
    }
    fn split<'a>(&self, trie: &Trie, special: bool, text: &'a str) -> Vec<Piece<'a>> {
        let (mut pieces, mut done, mut at) = (vec![], 0, 0);
        while at < text.len() {
            let named = |(len, place): (usize, u32)| Some((len, self.tokens.get(place as usize)?));
            let found = trie.prefixes(&text.as_bytes()[at..]).filter_map(named);
            // tokens are whole characters, so a match that begins with one ends with one
            let Some((len, token)) = found.filter(|(_, t)| special || !t.special).last() else {
                at += 1;
                continue;
            };
            let (start, end) = (at, at + len);
            at = end;
            let (before, after) = (&text[..start], &text[end..]);
            let inside =
                before.chars().next_back().is_some_and(is_word) || after.chars().next().is_some_and(is_word);
            if token.single_word && inside {
                continue;
            }
            let start = if token.lstrip { before.trim_end().len() } else { start }.max(done);
            let end = if token.rstrip { text.len() - after.trim_start().len() } else { end };
            if start > done {
                pieces.push(Piece::Text(&text[done..start]));
            }
            pieces.push(Piece::Token(token.id));
            (done, at) = (end, end);
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
