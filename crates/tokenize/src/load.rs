//! `tokenizer.json` and `vocab.txt`. What a file asks for and is not known here is an error that names it.

use crate::added::{Added, Token};
use crate::bpe::Bpe;
use crate::decode::Decoder;
use crate::error::{Error, Result, fail};
use crate::normalize::Normalizer;
use crate::split::{GPT2, Splitter};
use crate::template::{Piece, Template};
use crate::vocab::Vocab;
use crate::word_piece::WordPiece;
use crate::{Model, Tokenizer};
use fancy_regex::{Regex, escape};
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
        let decoder = within("decoder", decoder(&file["decoder"]))?;
        let tokens = list(&file["added_tokens"]).iter().map(token).collect::<Result<Vec<_>>>()?;
        let normal = |t: &str| normalizers.iter().fold(t.to_string(), |t, n| n.apply(&t));
        let added = Added::new(tokens, normal)?;
        Ok(Tokenizer { vocab, added, normalizers, splitters, model, template, decoder })
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
        let special = |name: &&str| Some(Token { special: true, ..plain(name, vocab.id(name)?) });
        let tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].iter().filter_map(special).collect();
        let added = Added::new(tokens, str::to_string)?;
        use Normalizer::*;
        Ok(Tokenizer {
            added,
            normalizers: vec![Clean, SpaceChinese, StripAccents, Lowercase],
            splitters: vec![Splitter::Bert],
            model: Model::WordPiece(WordPiece { unknown, prefix: "##".into(), longest: 100 }),
            template: bert(start, end),
            decoder: Decoder::WordPiece { prefix: "##".into(), cleanup: true },
            vocab,
        })
    }
}

fn within<T>(field: &str, r: Result<T>) -> Result<T> {
    r.map_err(|e| Error(format!("{field}: {}", e.0)))
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
fn regex(pattern: &str) -> Result<Regex> {
    Regex::new(pattern).map_err(|e| Error(format!("{pattern:?}: {e}")))
}

/// `{"String": text}` or `{"Regex": pattern}`.
fn pattern(v: &Value) -> Result<Regex> {
    match (v["String"].as_str(), v["Regex"].as_str()) {
        (Some(t), _) => regex(&escape(t)),
        (None, Some(p)) => regex(p),
        _ => fail(format!("{v} is no pattern")),
    }
}

fn plain(content: &str, id: u32) -> Token {
    let content = content.to_string();
    Token { id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: false }
}
fn token(v: &Value) -> Result<Token> {
    let read = || {
        Ok(Token {
            single_word: flag(v, "single_word", false),
            lstrip: flag(v, "lstrip", false),
            rstrip: flag(v, "rstrip", false),
            special: flag(v, "special", false),
            normalized: flag(v, "normalized", !flag(v, "special", false)),
            ..plain(text(v, "content")?, number(&v["id"])?)
        })
    };
    within("added_tokens", read())
}

fn model(v: &Value) -> Result<(Vocab, Model)> {
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
            if flag(v, "byte_fallback", false) {
                return fail("byte_fallback of BPE is not known here");
            }
            let merges = list(&v["merges"]).iter().enumerate().map(|(rank, m)| merge(rank as u32, m, &vocab));
            let merges = merges.collect::<Result<FxHashMap<_, _>>>()?;
            Model::Bpe(Bpe { merges, unknown, whole_words: flag(v, "ignore_merges", false) })
        }
        other => return fail(format!("a model {other:?} is not known here")),
    };
    Ok((vocab, model))
}

/// `"a b"` or `["a", "b"]`.
fn merge(rank: u32, v: &Value, vocab: &Vocab) -> Result<((u32, u32), (u32, u32))> {
    let parts = match (v.as_str().and_then(|t| t.split_once(' ')), list(v)) {
        (Some(pair), _) => Some(pair),
        (None, [a, b]) => a.as_str().zip(b.as_str()),
        _ => None,
    };
    let ids = parts.and_then(|(a, b)| Some((vocab.id(a)?, vocab.id(b)?, vocab.id(&format!("{a}{b}"))?)));
    let Some((a, b, both)) = ids else { return fail(format!("merge {rank}, {v}, is no pair of tokens")) };
    Ok(((a, b), (rank, both)))
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
        "Prepend" => vec![Prepend(text(v, "prepend")?.to_string())],
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
        "BertPreTokenizer" => vec![Bert],
        "WhitespaceSplit" => vec![Space],
        "Whitespace" => vec![Removed(regex(r"\s+")?), Isolated(regex(r"\w+|[^\w\s]+")?)],
        "Digits" if flag(v, "individual_digits", false) => vec![Digits],
        "Digits" => vec![Isolated(regex(r"\p{N}+")?)],
        "ByteLevel" => {
            let mut all = vec![];
            if flag(v, "add_prefix_space", true) {
                all.push(PrefixSpace);
            }
            if flag(v, "use_regex", true) {
                all.push(Isolated(regex(GPT2)?));
            }
            all.push(Bytes);
            all
        }
        "Split" if !flag(v, "invert", false) => match text(v, "behavior")? {
            "Isolated" => vec![Isolated(pattern(&v["pattern"])?)],
            "Removed" => vec![Removed(pattern(&v["pattern"])?)],
            other => return fail(format!("a split that is {other:?} is not known here")),
        },
        "Sequence" => {
            let all = list(&v["pretokenizers"]).iter().map(splitters).collect::<Result<Vec<_>>>()?;
            all.into_iter().flatten().collect()
        }
        other => return fail(format!("{other:?} is not known here")),
    })
}

fn bert(start: u32, end: u32) -> Template {
    let one = |id, kind| Piece::Tokens(vec![id], kind);
    Template {
        single: vec![one(start, 0), Piece::Text(0, 0), one(end, 0)],
        pair: vec![one(start, 0), Piece::Text(0, 0), one(end, 0), Piece::Text(1, 1), one(end, 1)],
    }
}

fn template(v: &Value) -> Result<Template> {
    if v.is_null() {
        return Ok(Template::default());
    }
    let second = |field: &str| number(&v[field][1]);
    Ok(match kind(v)? {
        // about places in the text, which nothing here gives
        "ByteLevel" => Template::default(),
        "BertProcessing" => bert(second("cls")?, second("sep")?),
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

fn decoder(v: &Value) -> Result<Decoder> {
    if v.is_null() {
        return Ok(Decoder::Words);
    }
    Ok(match kind(v)? {
        "WordPiece" => Decoder::WordPiece {
            prefix: v["prefix"].as_str().unwrap_or("##").to_string(),
            cleanup: flag(v, "cleanup", true),
        },
        "ByteLevel" => Decoder::Bytes,
        other => return fail(format!("{other:?} is not known here")),
    })
}
