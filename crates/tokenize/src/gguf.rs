//! What GGUF files say of their tokeniser, as plain values: `tokenizer.ggml.*` without that prefix.

use crate::added::{Added, Token};
use crate::bpe::{Bpe, Merges};
use crate::charsmap::Charsmap;
use crate::decode::Decoder;
use crate::error::{Result, fail, within};
use crate::load::{bert_words, merge, regex};
use crate::normalize::Normalizer;
use crate::patterns::{Cut, cut_of};
use crate::split::{Find, Keep, Splitter};
use crate::template::{Piece, Template};
use crate::unigram::{Unigram, Unknown};
use crate::vocab::Vocab;
use crate::word_piece::WordPiece;
use crate::{Ends, Model, Tokenizer};
use std::borrow::Cow;

/// The values of a GGUF file; what it does not have stays as it is by default.
#[derive(Clone, Debug, Default)]
pub struct GgufVocab<'a> {
    /// `model`: `gpt2`, `llama`, `bert`, `t5` or `gemma4`.
    pub model: &'a str,
    /// `pre`: how words are cut.
    pub pre: Option<&'a str>,
    /// `tokens`.
    pub tokens: Vec<Cow<'a, str>>,
    /// `scores`, of sentence-piece.
    pub scores: Vec<f32>,
    /// `token_type`: 1 plain, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 a byte.
    pub kinds: Vec<i32>,
    /// `merges`: pairs with a blank between, the first learnt first.
    pub merges: Vec<Cow<'a, str>>,
    /// `bos_token_id`.
    pub bos: Option<u32>,
    /// `eos_token_id`.
    pub eos: Option<u32>,
    /// `eot_token_id`: the end of a turn.
    pub eot: Option<u32>,
    /// `unknown_token_id`.
    pub unknown: Option<u32>,
    /// `cls_token_id`.
    pub cls: Option<u32>,
    /// `seperator_token_id`.
    pub separator: Option<u32>,
    /// `add_bos_token`.
    pub add_bos: Option<bool>,
    /// `add_eos_token`.
    pub add_eos: Option<bool>,
    /// `add_space_prefix`.
    pub add_space_prefix: Option<bool>,
    /// `remove_extra_whitespaces`.
    pub remove_extra_whitespaces: bool,
    /// `normalizer.lowercase`, of WordPiece.
    pub lowercase: Option<bool>,
    /// `precompiled_charsmap`.
    pub charsmap: Cow<'a, [u8]>,
}

const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER: i32 = 4;
const UNUSED: i32 = 5;
const BYTE: i32 = 6;

/// What stands for a blank.
const MARK: &str = "▁";

impl Tokenizer {
    /// From what a GGUF file says.
    pub fn from_gguf(file: &GgufVocab) -> Result<Tokenizer> {
        within("tokenizer.ggml", file.check().and_then(|()| file.read()))
    }
}

impl GgufVocab<'_> {
    /// Lists are of one length and numbers are of tokens.
    fn check(&self) -> Result<()> {
        let count = self.tokens.len();
        if count == 0 {
            return fail("tokens: there are none");
        }
        for (name, len) in [("scores", self.scores.len()), ("token_type", self.kinds.len())] {
            if len != 0 && len != count {
                return fail(format!("{name}: {len} for {count} tokens"));
            }
        }
        let special = [
            ("bos_token_id", self.bos),
            ("eos_token_id", self.eos),
            ("eot_token_id", self.eot),
            ("unknown_token_id", self.unknown),
            ("cls_token_id", self.cls),
            ("seperator_token_id", self.separator),
        ];
        match special.iter().find(|(_, id)| id.is_some_and(|id| id as usize >= count)) {
            Some((name, id)) => fail(format!("{name}: {} of {count} tokens", id.unwrap_or_default())),
            None => Ok(()),
        }
    }
    fn read(&self) -> Result<Tokenizer> {
        match self.model {
            "gpt2" => self.bytes(),
            "llama" => self.sentence_piece(),
            "t5" => self.unigram(),
            "gemma4" => self.marked_pairs(),
            "bert" => self.word_piece(),
            other => fail(format!("model: {other:?} is not known here")),
        }
    }
    fn kind(&self, id: usize) -> i32 {
        self.kinds.get(id).copied().unwrap_or(1)
    }
    fn vocab(&self, name: impl Fn(usize, &str) -> String) -> Vocab {
        let mut vocab = Vocab::default();
        for (id, token) in self.tokens.iter().enumerate() {
            vocab.add(&name(id, token), id as u32);
        }
        vocab
    }
    fn added(&self) -> Added {
        let is_added = |(id, token): &(usize, &Cow<str>)| {
            !token.is_empty() && matches!(self.kind(*id), UNKNOWN | CONTROL | USER)
        };
        let tokens = self.tokens.iter().enumerate().filter(is_added);
        let token = |(id, t): (usize, &Cow<str>)| Token {
            special: self.kind(id) != USER,
            ..Token::plain(t, id as u32)
        };
        Added::new(tokens.map(token).collect(), str::to_string)
    }
    /// Byte-level BPE: words are cut as a table says.
    fn bytes(&self) -> Result<Tokenizer> {
        let name = self.pre.unwrap_or("default");
        let Some(Cut { patterns, nfc, whole_words, starts, .. }) = cut_of(name) else {
            return fail(format!("pre: {name:?} is not known here"));
        };
        let at = |p: &&str| Ok(Splitter::At(Find::Regex(regex(p)?), Keep::Isolated));
        let mut splitters = patterns.iter().map(at).collect::<Result<Vec<_>>>()?;
        splitters.push(Splitter::Bytes);
        let vocab = self.vocab(|_, t| t.to_string());
        let model = Model::Bpe(Bpe {
            merges: self.pairs(&vocab)?,
            unknown: Unknown { bytes: None, id: self.unknown, fuse: false },
            whole_words: *whole_words,
        });
        let normalizers = if *nfc { vec![Normalizer::Nfc] } else { vec![] };
        Ok(self.whole(vocab, normalizers, splitters, model, *starts, vec![Decoder::Bytes]))
    }
    fn pairs(&self, vocab: &Vocab) -> Result<Merges> {
        let mut joined = String::new();
        let mut pair = |(rank, text): (usize, &Cow<str>)| {
            // the first part may be a blank itself
            let first = text.chars().next().map_or(0, char::len_utf8);
            let at = text.get(first..).and_then(|t| t.find(' ')).map(|at| at + first);
            match at {
                Some(at) => merge(rank as u32, &text[..at], &text[at + 1..], vocab, &mut joined),
                None => fail(format!("merges: {rank}, {text:?}, is no pair")),
            }
        };
        Ok(Merges::Pairs(self.merges.iter().enumerate().map(&mut pair).collect::<Result<_>>()?))
    }
    /// Sentence-piece's BPE: what is a token together is merged, by scores.
    fn sentence_piece(&self) -> Result<Tokenizer> {
        if self.scores.is_empty() {
            return fail("scores: there are none");
        }
        let vocab = self.vocab(|_, t| t.to_string());
        let made = |id: usize| matches!(self.kind(id), 1 | USER).then(|| self.scores[id]);
        let model = Model::Bpe(Bpe {
            merges: Merges::by_scores((0..self.tokens.len()).map(made)),
            unknown: self.unknown(&vocab),
            whole_words: false,
        });
        let (normalizers, decoders) = self.marks()?;
        Ok(self.whole(vocab, normalizers, vec![], model, true, decoders))
    }
    /// BPE with pairs over characters, blanks being marks.
    fn marked_pairs(&self) -> Result<Tokenizer> {
        let vocab = self.vocab(|_, t| t.to_string());
        let model = Model::Bpe(Bpe {
            merges: self.pairs(&vocab)?,
            unknown: self.unknown(&vocab),
            whole_words: false,
        });
        let (normalizers, decoders) = self.marks()?;
        // no merge is of lines
        let lines = Splitter::At(Find::Regex(regex(r"[^\n]+|\n+")?), Keep::Isolated);
        Ok(self.whole(vocab, normalizers, vec![lines], model, true, decoders))
    }
    fn unigram(&self) -> Result<Tokenizer> {
        if self.scores.is_empty() {
            return fail("scores: there are none");
        }
        let vocab = self.vocab(|_, t| t.to_string());
        let score = |id: usize| matches!(self.kind(id), 1 | USER).then(|| self.scores[id] as f64);
        let tokens = self.tokens.iter().enumerate().map(|(id, t)| (t.as_ref(), score(id)));
        let model = Model::Unigram(Unigram::new(tokens, self.unknown(&vocab), true));
        let (normalizers, decoders) = self.marks()?;
        Ok(self.whole(vocab, normalizers, vec![], model, false, decoders))
    }
    /// How sentence-piece writes blanks, and how they are read.
    fn marks(&self) -> Result<(Vec<Normalizer>, Vec<Decoder>)> {
        let mut normalizers = vec![];
        if !self.charsmap.is_empty() {
            normalizers
                .push(Normalizer::Charsmap(within("precompiled_charsmap", Charsmap::read(&self.charsmap))?));
        }
        if self.remove_extra_whitespaces {
            normalizers.push(Normalizer::CollapseBlanks);
        }
        let prefix = self.add_space_prefix.unwrap_or(true);
        if prefix {
            normalizers.push(Normalizer::Prepend(MARK.into()));
        }
        normalizers.push(Normalizer::Replace(regex(" ")?, MARK.into()));
        let mut decoders =
            vec![Decoder::Replace(regex(MARK)?, " ".into()), Decoder::ByteFallback, Decoder::Fuse];
        if prefix {
            decoders.push(Decoder::Strip { content: ' ', start: 1, stop: 0 });
        }
        Ok((normalizers, decoders))
    }
    fn unknown(&self, vocab: &Vocab) -> Unknown {
        let has_bytes = self.kinds.contains(&BYTE);
        Unknown { bytes: vocab.bytes().filter(|_| has_bytes), id: self.unknown, fuse: true }
    }
    /// A word's first part has a mark before it here, where other files mark all parts but the first.
    fn word_piece(&self) -> Result<Tokenizer> {
        let Some(unknown) = self.unknown else { return fail("unknown_token_id: there is none") };
        let (Some(start), Some(end)) = (self.cls.or(self.bos), self.separator.or(self.eos)) else {
            return fail("cls_token_id and seperator_token_id: one is missing");
        };
        let vocab = self.vocab(|id, t| match t.strip_prefix(MARK) {
            _ if matches!(self.kind(id), UNKNOWN | CONTROL | USER | UNUSED) => t.to_string(),
            Some(rest) => rest.to_string(),
            None => format!("##{t}"),
        });
        use Normalizer::*;
        let mut t = self.whole(
            vocab,
            match self.lowercase.unwrap_or(true) {
                true => vec![Clean, SpaceChinese, StripAccents, Lowercase],
                false => vec![Clean, SpaceChinese],
            },
            bert_words(),
            Model::WordPiece(WordPiece { unknown, prefix: "##".into(), longest: 100 }),
            true,
            vec![Decoder::WordPiece { prefix: "##".into(), cleanup: true }],
        );
        t.template = Template::bert(start, end);
        Ok(t)
    }
    fn whole(
        &self,
        vocab: Vocab,
        normalizers: Vec<Normalizer>,
        splitters: Vec<Splitter>,
        model: Model,
        starts: bool,
        decoders: Vec<Decoder>,
    ) -> Tokenizer {
        let is_t5 = self.model == "t5";
        let bos = self.bos.filter(|_| self.add_bos.unwrap_or(starts));
        let eos = self.eos.filter(|_| self.add_eos.unwrap_or(is_t5));
        let one = |id: u32| Piece::Tokens(vec![id], 0);
        let around = |text: Vec<Piece>| bos.map(one).into_iter().chain(text).chain(eos.map(one)).collect();
        let template = Template {
            single: around(vec![Piece::Text(0, 0)]),
            pair: around(vec![Piece::Text(0, 0), Piece::Text(1, 1)]),
        };
        let ends = Ends { bos: self.bos, eos: self.eos, eot: self.eot };
        Tokenizer { vocab, added: self.added(), normalizers, splitters, model, template, decoders, ends }
    }
}
