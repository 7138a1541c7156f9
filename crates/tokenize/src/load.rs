//! `tokenizer.json` and `vocab.txt`. What a file asks for and is not known here is an error that names it.

use crate::added::{Added, Token};
use crate::bpe::{Bpe, Merges};
use crate::bytes::base64;
use crate::decode::Decoder;
use crate::error::{Error, Result, fail, within};
use crate::normalize::Normalizer;
use crate::split::{Find, GPT2, Keep, Place, Prepend, Splitter, is_punctuation};
use crate::template::{Piece, Template};
use crate::unigram::{Unigram, Unknown};
use crate::vocab::Vocab;
use crate::word_piece::WordPiece;
use crate::{Ends, Model, Tokenizer};
use fancy_regex::{Regex, RegexBuilder, escape};
use rustc_hash::FxHashMap;
use serde_json::Value;
use std::path::Path;

impl Tokenizer {
    /// Reads a `tokenizer.json`, or a `vocab.txt` of lower-case WordPiece.
    pub fn load(path: impl AsRef<Path>) -> Result<Tokenizer> {
        let path = path.as_ref();
        let named = |e: String| Error(format!("{}: {e}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|e| named(e.to_string()))?;
        let is_list = path.extension().is_some_and(|e| e == "txt");
        let made = if is_list { Tokenizer::from_vocab(&text) } else { Tokenizer::from_json(&text) };
        made.map_err(|e| named(e.0))
    }
    /// From the text of a `tokenizer.json`. What it says of truncating and padding is left to the caller.
    pub fn from_json(text: &str) -> Result<Tokenizer> {
        let file: Value = serde_json::from_str(text).map_err(|e| Error(e.to_string()))?;
        let (vocab, model) = within("model", model(&file["model"]))?;
        let normalizers = within("normalizer", normalizers(&file["normalizer"]))?;
        let splitters = within("pre_tokenizer", splitters(&file["pre_tokenizer"]))?;
        let template = within("post_processor", template(&file["post_processor"]))?;
        let decoders = within("decoder", decoders(&file["decoder"]))?;
        let tokens = list(&file["added_tokens"]).iter().map(token).collect::<Result<Vec<_>>>()?;
        let normal = |t: &str| normalizers.iter().fold(t.to_string(), |t, n| n.apply(&t, Place::Start));
        let added = Added::new(tokens, normal);
        let ends = Ends::default();
        Ok(Tokenizer { vocab, added, normalizers, splitters, model, template, decoders, ends })
    }
    /// From the lines of a `vocab.txt`, as BERT's models in lower case have it.
    pub fn from_vocab(text: &str) -> Result<Tokenizer> {
        let mut vocab = Vocab::default();
        for (id, line) in text.lines().enumerate() {
            vocab.add(line, id as u32);
        }
        let id = |name: &str| match vocab.id(name) {
            Some(id) => Ok(id),
            None => fail(format!("the vocabulary has no {name}")),
        };
        let (unknown, start, end) = (id("[UNK]")?, id("[CLS]")?, id("[SEP]")?);
        let special = |name: &&str| Some(Token { special: true, ..Token::plain(name, vocab.id(name)?) });
        let tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].iter().filter_map(special).collect();
        let added = Added::new(tokens, str::to_string);
        use Normalizer::*;
        Ok(Tokenizer {
            added,
            normalizers: vec![Clean, SpaceChinese, StripAccents, Lowercase],
            splitters: bert_words(),
            model: Model::WordPiece(WordPiece { unknown, prefix: "##".into(), longest: 100 }),
            template: Template::bert(start, end),
            decoders: vec![Decoder::WordPiece { prefix: "##".into(), cleanup: true }],
            ends: Ends::default(),
            vocab,
        })
    }
}

fn list(v: &Value) -> &[Value] {
    v.as_array().map_or(&[], Vec::as_slice)
}
fn text<'a>(v: &'a Value, field: &str) -> Result<&'a str> {
    v[field].as_str().ok_or_else(|| Error(format!("{field} is no text")))
}
fn flag(v: &Value, field: &str, default: bool) -> bool {
    v[field].as_bool().unwrap_or(default)
}
fn number(v: &Value) -> Result<u32> {
    let n = v.as_u64().and_then(|n| u32::try_from(n).ok());
    n.ok_or_else(|| Error(format!("{v} is no number of a token")))
}
fn kind(v: &Value) -> Result<&str> {
    text(v, "type")
}
/// White space goes, marks of punctuation are words.
pub(crate) fn bert_words() -> Vec<Splitter> {
    vec![
        Splitter::At(Find::Class(char::is_whitespace), Keep::Removed),
        Splitter::At(Find::Class(is_punctuation), Keep::Isolated),
    ]
}
/// The patterns of tokenisers take linear time, so no step of theirs is one too many.
pub(crate) fn regex(pattern: &str) -> Result<Regex> {
    RegexBuilder::new(pattern)
        .backtrack_limit(usize::MAX)
        .build()
        .map_err(|e| Error(format!("{pattern:?}: {e}")))
}

/// `{"String": text}` or `{"Regex": pattern}`.
fn pattern(v: &Value) -> Result<Regex> {
    match (v["String"].as_str(), v["Regex"].as_str()) {
        (Some(t), _) => regex(&escape(t)),
        (None, Some(p)) => regex(p),
        _ => fail(format!("{v} is no pattern")),
    }
}

fn token(v: &Value) -> Result<Token> {
    let read = || {
        Ok(Token {
            single_word: flag(v, "single_word", false),
            lstrip: flag(v, "lstrip", false),
            rstrip: flag(v, "rstrip", false),
            special: flag(v, "special", false),
            normalized: flag(v, "normalized", !flag(v, "special", false)),
            ..Token::plain(text(v, "content")?, number(&v["id"])?)
        })
    };
    within("added_tokens", read())
}

fn model(v: &Value) -> Result<(Vocab, Model)> {
    if v["type"] == "Unigram" {
        return unigram(v);
    }
    let mut vocab = Vocab::default();
    let Some(entries) = v["vocab"].as_object() else { return fail("vocab is no table of tokens") };
    for (token, id) in entries {
        vocab.add(token, number(id)?);
    }
    let unknown = v["unk_token"].as_str().and_then(|t| vocab.id(t));
    // old files do not say what a model is
    let is_bpe = v["merges"].is_array();
    let model = match v["type"].as_str().unwrap_or(if is_bpe { "BPE" } else { "WordPiece" }) {
        "WordPiece" => Model::WordPiece(WordPiece {
            unknown: unknown.ok_or_else(|| Error("unk_token is not in the vocabulary".into()))?,
            prefix: v["continuing_subword_prefix"].as_str().unwrap_or("##").to_string(),
            longest: v["max_input_chars_per_word"].as_u64().unwrap_or(100) as usize,
        }),
        "BPE" => {
            for field in ["continuing_subword_prefix", "end_of_word_suffix"] {
                if v[field].as_str().is_some_and(|t| !t.is_empty()) {
                    return fail(format!("{field} {} of BPE is not known here", v[field]));
                }
            }
            let mut joined = String::new();
            let merges = list(&v["merges"]).iter().enumerate().map(|(rank, m)| {
                // `"a b"` or `["a", "b"]`
                let parts = match (m.as_str().and_then(|t| t.split_once(' ')), list(m)) {
                    (Some(pair), _) => Some(pair),
                    (None, [a, b]) => a.as_str().zip(b.as_str()),
                    _ => None,
                };
                let Some((a, b)) = parts else {
                    return fail(format!("merge {rank}, {m}, is no pair of tokens"));
                };
                merge(rank as u32, a, b, &vocab, &mut joined)
            });
            let merges = Merges::Pairs(merges.collect::<Result<FxHashMap<_, _>>>()?);
            let bytes = vocab.bytes().filter(|_| flag(v, "byte_fallback", false));
            let unknown = Unknown { bytes, id: unknown, fuse: flag(v, "fuse_unk", false) };
            Model::Bpe(Bpe { merges, unknown, whole_words: flag(v, "ignore_merges", false) })
        }
        other => return fail(format!("a model {other:?} is not known here")),
    };
    Ok((vocab, model))
}

fn unigram(v: &Value) -> Result<(Vocab, Model)> {
    let (mut vocab, mut scored) = (Vocab::default(), vec![]);
    let Some(entries) = v["vocab"].as_array() else { return fail("vocab is no list of tokens") };
    for (id, entry) in (0..).zip(entries) {
        let (Some(token), Some(score)) = (entry[0].as_str(), entry[1].as_f64()) else {
            return fail(format!("{entry} is no token with its score"));
        };
        vocab.add(token, id);
        scored.push((token, Some(score)));
    }
    let id = (!v["unk_id"].is_null()).then(|| number(&v["unk_id"])).transpose()?;
    if let Some(id) = id {
        match scored.get_mut(id as usize) {
            Some(unknown) => unknown.1 = unknown.1.filter(|_| false),
            None => return fail(format!("unk_id {id} of {} tokens", entries.len())),
        }
    }
    let bytes = vocab.bytes().filter(|_| flag(v, "byte_fallback", false));
    let model = Unigram::new(scored.into_iter(), Unknown { bytes, id, fuse: true }, false);
    Ok((vocab, Model::Unigram(model)))
}

/// A pair and what it becomes; `joined` is room to write in.
pub(crate) fn merge(
    rank: u32,
    a: &str,
    b: &str,
    vocab: &Vocab,
    joined: &mut String,
) -> Result<((u32, u32), (u32, u32))> {
    joined.clear();
    joined.push_str(a);
    joined.push_str(b);
    match (vocab.id(a), vocab.id(b), vocab.id(joined)) {
        (Some(a), Some(b), Some(both)) => Ok(((a, b), (rank, both))),
        _ => fail(format!("merge {rank}, \"{a} {b}\", is no pair of tokens")),
    }
}

fn normalizers(v: &Value) -> Result<Vec<Normalizer>> {
    use Normalizer::*;
    if v.is_null() {
        return Ok(vec![]);
    }
    Ok(match kind(v)? {
        "BertNormalizer" => {
            let lower = flag(v, "lowercase", true);
            let wanted = [
                (flag(v, "clean_text", true), Clean),
                (flag(v, "handle_chinese_chars", true), SpaceChinese),
                (v["strip_accents"].as_bool().unwrap_or(lower), StripAccents),
                (lower, Lowercase),
            ];
            wanted.into_iter().filter(|(on, _)| *on).map(|(_, n)| n).collect()
        }
        "Lowercase" => vec![Lowercase],
        "StripAccents" => vec![StripAccents],
        "NFC" => vec![Nfc],
        "NFD" => vec![Nfd],
        "NFKC" => vec![Nfkc],
        "NFKD" => vec![Nfkd],
        "Replace" => {
            // a dollar would name a group
            vec![Replace(pattern(&v["pattern"])?, text(v, "content")?.replace('$', "$$"))]
        }
        "Prepend" => vec![Normalizer::Prepend(text(v, "prepend")?.to_string())],
        "Strip" => vec![Strip(flag(v, "strip_left", true), flag(v, "strip_right", true))],
        "ByteLevel" => vec![Bytes],
        "Precompiled" => {
            let Some(bytes) = base64(text(v, "precompiled_charsmap")?) else {
                return fail("precompiled_charsmap is no base64");
            };
            vec![Charsmap(crate::charsmap::Charsmap::read(&bytes)?)]
        }
        "Sequence" => {
            let all = list(&v["normalizers"]).iter().map(normalizers).collect::<Result<Vec<_>>>()?;
            all.into_iter().flatten().collect()
        }
        other => return fail(format!("{other:?} is not known here")),
    })
}

fn splitters(v: &Value) -> Result<Vec<Splitter>> {
    use Splitter::*;
    if v.is_null() {
        return Ok(vec![]);
    }
    Ok(match kind(v)? {
        "BertPreTokenizer" => bert_words(),
        "WhitespaceSplit" => vec![At(Find::Class(char::is_whitespace), Keep::Removed)],
        "Whitespace" => vec![At(Find::Between(regex(r"\w+|[^\w\s]+")?), Keep::Removed)],
        "Digits" => {
            let keep = if flag(v, "individual_digits", false) { Keep::Isolated } else { Keep::Contiguous };
            vec![At(Find::Class(char::is_numeric), keep)]
        }
        "Punctuation" => vec![At(Find::Class(is_punctuation), behavior(v)?)],
        "CharDelimiterSplit" => vec![At(Find::Regex(regex(&escape(text(v, "delimiter")?))?), Keep::Removed)],
        "ByteLevel" => {
            let mut all = vec![];
            if flag(v, "add_prefix_space", true) {
                all.push(PrefixSpace);
            }
            if flag(v, "use_regex", true) {
                all.push(At(Find::Regex(regex(GPT2)?), Keep::Isolated));
            }
            all.push(Bytes);
            all
        }
        "Split" => {
            let pattern = pattern(&v["pattern"])?;
            let find = if flag(v, "invert", false) { Find::Between(pattern) } else { Find::Regex(pattern) };
            vec![At(find, behavior(v)?)]
        }
        "Metaspace" => {
            vec![Metaspace { mark: mark(v)?, prepend: prepend(v)?, split: flag(v, "split", true) }]
        }
        "Sequence" => {
            let all = list(&v["pretokenizers"]).iter().map(splitters).collect::<Result<Vec<_>>>()?;
            all.into_iter().flatten().collect()
        }
        other => return fail(format!("{other:?} is not known here")),
    })
}

fn behavior(v: &Value) -> Result<Keep> {
    Ok(match v["behavior"].as_str().unwrap_or("Isolated") {
        "Removed" => Keep::Removed,
        "Isolated" => Keep::Isolated,
        "MergedWithPrevious" => Keep::WithPrevious,
        "MergedWithNext" => Keep::WithNext,
        "Contiguous" => Keep::Contiguous,
        other => return fail(format!("a split that is {other:?} is not known here")),
    })
}
fn mark(v: &Value) -> Result<char> {
    let text = text(v, "replacement")?;
    let one = text.chars().next().filter(|c| c.len_utf8() == text.len());
    one.ok_or_else(|| Error(format!("replacement {text:?} is no character")))
}
/// Older files have a flag.
fn prepend(v: &Value) -> Result<Prepend> {
    Ok(match v["prepend_scheme"].as_str() {
        Some("always") => Prepend::Always,
        Some("first") => Prepend::First,
        Some("never") => Prepend::Never,
        None if flag(v, "add_prefix_space", true) => Prepend::Always,
        None => Prepend::Never,
        Some(other) => return fail(format!("prepend_scheme {other:?} is not known here")),
    })
}

fn template(v: &Value) -> Result<Template> {
    if v.is_null() {
        return Ok(Template::default());
    }
    let second = |field: &str| number(&v[field][1]);
    Ok(match kind(v)? {
        // about places in the text, which nothing here gives
        "ByteLevel" => Template::default(),
        "BertProcessing" => Template::bert(second("cls")?, second("sep")?),
        "RobertaProcessing" => {
            let (start, end) = (second("cls")?, second("sep")?);
            let one = |ids: &[u32]| Piece::Tokens(ids.to_vec(), 0);
            let (a, b) = (|| Piece::Text(0, 0), Piece::Text(1, 0));
            Template {
                single: vec![one(&[start]), a(), one(&[end])],
                pair: vec![one(&[start]), a(), one(&[end, end]), b, one(&[end])],
            }
        }
        "TemplateProcessing" => {
            let piece = |p: &Value| {
                let (special, sequence) = (&p["SpecialToken"], &p["Sequence"]);
                if let Some(name) = special["id"].as_str() {
                    let ids = list(&v["special_tokens"][name]["ids"]).iter().map(number);
                    return Ok(Piece::Tokens(ids.collect::<Result<_>>()?, number(&special["type_id"])?));
                }
                match sequence["id"].as_str() {
                    Some("A") => Ok(Piece::Text(0, number(&sequence["type_id"])?)),
                    Some("B") => Ok(Piece::Text(1, number(&sequence["type_id"])?)),
                    _ => fail(format!("{p} is no piece of a template")),
                }
            };
            let pieces = |field: &str| list(&v[field]).iter().map(piece).collect::<Result<Vec<_>>>();
            let (single, pair) = (pieces("single")?, pieces("pair")?);
            if single.iter().any(|p| matches!(p, Piece::Text(1, _))) {
                return fail("a template of one text has a second");
            }
            Template { single, pair }
        }
        "Sequence" => {
            let all = list(&v["processors"]).iter().filter(|p| p["type"] != "ByteLevel").collect::<Vec<_>>();
            match all[..] {
                [] => Template::default(),
                [one] => template(one)?,
                _ => return fail("several processors are not known here"),
            }
        }
        other => return fail(format!("{other:?} is not known here")),
    })
}

fn decoders(v: &Value) -> Result<Vec<Decoder>> {
    use Decoder::*;
    if v.is_null() {
        return Ok(vec![Words]);
    }
    let count = |field: &str| v[field].as_u64().unwrap_or(0) as usize;
    Ok(vec![match kind(v)? {
        "WordPiece" => WordPiece {
            prefix: v["prefix"].as_str().unwrap_or("##").to_string(),
            cleanup: flag(v, "cleanup", true),
        },
        "ByteLevel" => Bytes,
        "Replace" => Replace(pattern(&v["pattern"])?, text(v, "content")?.replace('$', "$$")),
        "ByteFallback" => ByteFallback,
        "Fuse" => Fuse,
        "Strip" => {
            let content = text(v, "content")?.chars().next();
            let Some(content) = content else { return fail("content of Strip is empty") };
            Strip { content, start: count("start").min(1 << 10), stop: count("stop").min(1 << 10) }
        }
        "Metaspace" => Metaspace { mark: mark(v)?, prepended: prepend(v)? != Prepend::Never },
        "BPEDecoder" => Suffix(v["suffix"].as_str().unwrap_or("</w>").to_string()),
        "Sequence" => {
            let all = list(&v["decoders"]).iter().map(decoders).collect::<Result<Vec<_>>>()?;
            return Ok(all.into_iter().flatten().collect());
        }
        other => return fail(format!("{other:?} is not known here")),
    }])
}
