//! Texts to token numbers and back, as a model's tokeniser file says.
//!
//! ```text
//! text  ->  added  ->  normalize  ->  split  ->  model  ->  template  ->  numbers
//!           tokens     characters     words      parts of   what a model
//!           apart                                words      expects around
//! ```
//!
//! - `added` finds tokens that stand for themselves, like `<|endoftext|>`;
//! - `normalize` changes characters (case, accents, sentence-piece's `charsmap`), `split` cuts at what is between words,
//!   `bytes` writes bytes as letters;
//! - `word_piece`, `bpe` and `unigram` cut words into the parts that have numbers;
//! - `template` puts tokens around a text or a pair, `decode` makes text of numbers, also one by one;
//! - `load` reads `tokenizer.json` and `vocab.txt`, `gguf` what GGUF files say, whose words are cut as `patterns` lists.
//!
//! ```
//! # use frit_tokenize::Tokenizer;
//! let t = Tokenizer::from_vocab("[PAD]\n[UNK]\n[CLS]\n[SEP]\nfrit\nfuse\n##s\ngrain\n.")?;
//! let ids = t.encode("Frit fuses grains.");
//! assert_eq!(ids, [2, 4, 5, 6, 7, 6, 8, 3]);
//! assert_eq!(t.decode(&ids), "frit fuses grains.");
//! # Ok::<(), frit_tokenize::Error>(())
//! ```

#![forbid(unsafe_code)]

mod error;
mod bytes;
mod vocab;
mod trie;
mod added;
mod charsmap;
mod split;
mod normalize;
mod word_piece;
mod unigram;
mod bpe;
mod template;
mod decode;
mod patterns;
mod load;
mod gguf;

pub use decode::{Growing, Stream};
pub use error::{Error, Result};
pub use gguf::GgufVocab;
pub use template::Encoding;

use added::Added;
use bpe::Bpe;
use decode::Decoder;
use normalize::Normalizer;
use split::{Place, Splitter};
use template::Template;
use unigram::Unigram;
use vocab::Vocab;
use word_piece::WordPiece;

/// How words become parts.
enum Model {
    WordPiece(WordPiece),
    Bpe(Bpe),
    Unigram(Unigram),
}

/// The tokens that begin and end texts; a `tokenizer.json` does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Begins a text.
    pub bos: Option<u32>,
    /// Ends a text.
    pub eos: Option<u32>,
    /// Ends a turn.
    pub eot: Option<u32>,
}

/// Everything that a tokeniser file says.
pub struct Tokenizer {
    vocab: Vocab,
    added: Added,
    normalizers: Vec<Normalizer>,
    splitters: Vec<Splitter>,
    model: Model,
    template: Template,
    decoders: Vec<Decoder>,
    ends: Ends,
}

impl Tokenizer {
    /// The numbers of a text, with the tokens around it that the model expects.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        self.template.single(self.encode_plain(text)).ids
    }
    /// The numbers of two texts that belong together, and which part each is of.
    pub fn encode_pair(&self, a: &str, b: &str) -> Encoding {
        self.template.pair(self.encode_plain(a), self.encode_plain(b))
    }
    /// The numbers of a text alone; names of special tokens in it are these tokens.
    pub fn encode_plain(&self, text: &str) -> Vec<u32> {
        self.encode_pieces(text, true, Place::Start)
    }
    /// The numbers of a text from someone who may not write special tokens: their names are text like any other.
    pub fn encode_ordinary(&self, text: &str) -> Vec<u32> {
        self.encode_pieces(text, false, Place::Start)
    }
    /// The numbers of a text that goes on where another ends, whose numbers stay as they are: those that the whole has behind
    /// them, or, where a token of the whole reaches across the border, those of the text as it is in the middle of another.
    pub fn encode_after(&self, before: &str, text: &str) -> Vec<u32> {
        let pieces = self.added.split_raw(before, true);
        // what is before a token that stands for itself is the same whatever follows
        let place = if pieces.len() > 1 { Place::Behind } else { Place::Start };
        let (last, goes_on) = match pieces.last() {
            None => ("", place),
            Some(added::Piece::Text(t)) => (*t, Place::Middle),
            Some(added::Piece::Token(id)) => (self.added.token(*id).unwrap_or(""), Place::Behind),
        };
        let begin = self.encode_pieces(last, true, place);
        let mut whole = self.encode_pieces(&format!("{last}{text}"), true, place);
        match whole.starts_with(&begin) {
            true => whole.split_off(begin.len()),
            false => self.encode_pieces(text, true, goes_on),
        }
    }
    fn encode_pieces(&self, text: &str, special: bool, place: Place) -> Vec<u32> {
        let mut ids = vec![];
        for (i, piece) in self.added.split_raw(text, special).into_iter().enumerate() {
            match piece {
                added::Piece::Token(id) => ids.push(id),
                added::Piece::Text(text) => self.encode_text(text, special, place.of(i), &mut ids),
            }
        }
        ids
    }
    fn encode_text(&self, text: &str, special: bool, place: Place, ids: &mut Vec<u32>) {
        let normal = self.normalizers.iter().fold(text.to_string(), |t, n| n.apply(&t, place));
        // what is left after a blank that was taken away does not begin the text
        let is_stripped =
            text.starts_with(char::is_whitespace) && self.normalizers.iter().any(|n| n.strips());
        let place = if place == Place::Start && is_stripped { Place::Behind } else { place };
        for (i, piece) in self.added.split_normal(&normal, special).into_iter().enumerate() {
            match piece {
                added::Piece::Token(id) => ids.push(id),
                added::Piece::Text(text) => {
                    let split = |words, s: &Splitter| s.apply(words, place.of(i));
                    let words = self.splitters.iter().fold(vec![text.to_string()], split);
                    for word in words.iter().filter(|w| !w.is_empty()) {
                        match &self.model {
                            Model::WordPiece(m) => m.encode(&self.vocab, word, ids),
                            Model::Bpe(m) => m.encode(&self.vocab, word, ids),
                            Model::Unigram(m) => m.encode(word, ids),
                        }
                    }
                }
            }
        }
    }
    /// The text of numbers, without tokens that are none of it; a number that no token has is passed over.
    pub fn decode(&self, ids: &[u32]) -> String {
        self.decode_from(ids.iter().copied().filter(|id| !self.added.is_special(*id)))
    }
    /// The same with all tokens.
    pub fn decode_all(&self, ids: &[u32]) -> String {
        self.decode_from(ids.iter().copied())
    }
    fn decode_from(&self, ids: impl Iterator<Item = u32>) -> String {
        Decoder::text(&self.decoders, ids.filter_map(|id| self.token(id)))
    }
    /// Text that grows as numbers come in, never by part of a character.
    pub fn stream(&self) -> Stream<'_> {
        Stream::new(self, false)
    }
    /// The same with all tokens: marks that a program looks for may be special ones.
    pub fn stream_all(&self) -> Stream<'_> {
        Stream::new(self, true)
    }
    /// The number of a token.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.added.id(token).or_else(|| self.vocab.id(token))
    }
    /// The token of a number.
    pub fn token(&self, id: u32) -> Option<&str> {
        self.added.token(id).or_else(|| self.vocab.token(id))
    }
    /// The bytes that a token adds to a text; they may be part of a character.
    pub fn bytes(&self, id: u32) -> Option<Vec<u8>> {
        if let Some(content) = self.added.token(id) {
            return Some(content.as_bytes().to_vec());
        }
        self.vocab.token(id).map(|token| Decoder::bytes(&self.decoders, token))
    }
    /// Whether a token is none of a text: the end, a mask.
    pub fn is_special(&self, id: u32) -> bool {
        self.added.is_special(id)
    }
    /// The tokens that begin and end texts, where the file says.
    pub fn ends(&self) -> Ends {
        self.ends
    }
    /// One more than the greatest number.
    pub fn size(&self) -> usize {
        self.vocab.size().max(self.added.size())
    }
}
