//! Texts to token numbers and back, as a model's tokeniser file says.
//!
//! ```text
//! text  ->  added  ->  normalize  ->  split  ->  model  ->  template  ->  numbers
//!           tokens     characters     words      parts of   what a model
//!           apart                                words      expects around
//! ```
//!
//! - `added` finds tokens that stand for themselves, like `<|endoftext|>`;
//! - `normalize` changes characters (case, accents), `split` cuts at what is between words, `bytes` writes bytes as letters;
//! - `word_piece` and `bpe` cut words into the parts that have numbers;
//! - `template` puts tokens around a text or a pair, `decode` makes text of numbers, also one by one;
//! - `load` reads `tokenizer.json` and `vocab.txt`.
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
mod added;
mod normalize;
mod split;
mod word_piece;
mod bpe;
mod template;
mod decode;
mod load;

pub use decode::Stream;
pub use error::{Error, Result};
pub use template::Encoding;

use added::Added;
use bpe::Bpe;
use decode::Decoder;
use normalize::Normalizer;
use split::Splitter;
use template::Template;
use vocab::Vocab;
use word_piece::WordPiece;

/// How words become parts.
enum Model {
    WordPiece(WordPiece),
    Bpe(Bpe),
}

/// Everything that a tokeniser file says.
pub struct Tokenizer {
    vocab: Vocab,
    added: Added,
    normalizers: Vec<Normalizer>,
    splitters: Vec<Splitter>,
    model: Model,
    template: Template,
    decoder: Decoder,
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
    /// The numbers of a text alone.
    pub fn encode_plain(&self, text: &str) -> Vec<u32> {
        let mut ids = vec![];
        for piece in self.added.split_raw(text) {
            match piece {
                added::Piece::Token(id) => ids.push(id),
                added::Piece::Text(text) => self.encode_text(text, &mut ids),
            }
        }
        ids
    }
    fn encode_text(&self, text: &str, ids: &mut Vec<u32>) {
        let normal = self.normalizers.iter().fold(text.to_string(), |t, n| n.apply(&t));
        for piece in self.added.split_normal(&normal) {
            match piece {
                added::Piece::Token(id) => ids.push(id),
                added::Piece::Text(text) => {
                    let words = self.splitters.iter().fold(vec![text.to_string()], |words, s| s.apply(words));
                    for word in words.iter().filter(|w| !w.is_empty()) {
                        match &self.model {
                            Model::WordPiece(m) => m.encode(&self.vocab, word, ids),
                            Model::Bpe(m) => m.encode(&self.vocab, word, ids),
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
        self.decoder.text(ids.filter_map(|id| self.token(id)))
    }
    /// Text that grows as numbers come in, never by part of a character.
    pub fn stream(&self) -> Stream<'_> {
        Stream::new(self)
    }
    /// The number of a token.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.added.id(token).or_else(|| self.vocab.id(token))
    }
    /// The token of a number.
    pub fn token(&self, id: u32) -> Option<&str> {
        self.added.token(id).or_else(|| self.vocab.token(id))
    }
    /// Whether a token is none of a text: the end, a mask.
    pub fn is_special(&self, id: u32) -> bool {
        self.added.is_special(id)
    }
    /// One more than the greatest number.
    pub fn size(&self) -> usize {
        self.vocab.size().max(self.added.size())
    }
}
