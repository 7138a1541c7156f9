//! The tokeniser and the chat template of a model: in its GGUF file, or in its folder.

use super::error::{Error, Result};
use super::template::Template;
use frit_nn::gguf::{Gguf, Value};
use frit_tokenize::{GgufVocab, Tokenizer};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;

/// What a model reads and writes.
pub struct Text {
    /// Texts to tokens and back.
    pub tokenizer: Tokenizer,
    /// Conversations to texts; none if the model has no template.
    pub template: Option<Template>,
    /// The token that begins a text, if the model has one.
    pub bos: Option<u32>,
    /// Tokens after which a model has said all: the end of the text or of its turn.
    pub ends: BTreeSet<u32>,
}

/// Names of tokens that end a turn, whichever model has them.
const TURN_ENDS: [&str; 10] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<turn|>",
    "<|endoftext|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|END_OF_TURN_TOKEN|>",
    "<|return|>",
];

/// What the GGUF file or the folder of a model says about its texts.
pub fn text_of(path: impl AsRef<Path>) -> Result<Text> {
    let path = path.as_ref();
    let named = |e: String| Error(format!("{}: {e}", path.display()));
    if path.is_dir() { of_folder(path) } else { of_gguf(path) }.map_err(named)
}

type Found<T> = std::result::Result<T, String>;

fn of_gguf(path: &Path) -> Found<Text> {
    let file = Gguf::open(path).map_err(|e| e.to_string())?;
    let get = |name: &str| file.metadata().get(&format!("tokenizer.ggml.{name}"));
    let wrong = |name: &str| format!("tokenizer.ggml.{name} is of another type");
    let array = |name: &str| match get(name) {
        None => Ok(None),
        Some(Value::Array(a)) => Ok(Some(a)),
        Some(_) => Err(wrong(name)),
    };
    let numbers = |name: &str| match array(name)? {
        None => Ok(vec![]),
        Some(a) => a.iter().map(|v| v.as_f64().ok_or_else(|| wrong(name))).collect::<Found<Vec<f64>>>(),
    };
    let texts = |name: &str| match array(name)? {
        None => Ok(vec![]),
        Some(a) => a.iter().map(|v| text(v).ok_or_else(|| wrong(name))).collect::<Found<Vec<_>>>(),
    };
    let id = |name: &str| match get(name) {
        None => Ok(None),
        Some(v) => v.as_u64().and_then(|n| u32::try_from(n).ok()).map(Some).ok_or_else(|| wrong(name)),
    };
    let flag = |name: &str| get(name).and_then(Value::as_bool);
    let name = |name: &str| get(name).and_then(Value::as_str);
    let vocab = GgufVocab {
        model: name("model").ok_or("tokenizer.ggml.model is not there")?,
        pre: name("pre"),
        tokens: texts("tokens")?,
        scores: numbers("scores")?.into_iter().map(|n| n as f32).collect(),
        kinds: numbers("token_type")?.into_iter().map(|n| n as i32).collect(),
        merges: texts("merges")?,
        bos: id("bos_token_id")?,
        eos: id("eos_token_id")?,
        eot: id("eot_token_id")?,
        unknown: id("unknown_token_id")?,
        cls: id("cls_token_id")?,
        separator: id("seperator_token_id")?,
        add_bos: flag("add_bos_token"),
        add_eos: flag("add_eos_token"),
        add_space_prefix: flag("add_space_prefix"),
        remove_extra_whitespaces: flag("remove_extra_whitespaces").unwrap_or(false),
        lowercase: flag("normalizer.lowercase"),
        charsmap: numbers("precompiled_charsmap")?.into_iter().map(|n| n as u8).collect(),
    };
    let tokenizer = Tokenizer::from_gguf(&vocab).map_err(|e| e.to_string())?;
    let source = file.metadata().get("tokenizer.chat_template").and_then(Value::as_str);
    let ends = tokenizer.ends();
    finish(tokenizer, source.map(str::to_string), ends.bos, ends.eos.into_iter().chain(ends.eot))
}
fn text(v: Value) -> Option<Cow<'static, str>> {
    match v {
        Value::String(text) => Some(text.into()),
        _ => None,
    }
}

fn of_folder(folder: &Path) -> Found<Text> {
    let tokenizer = Tokenizer::load(folder.join("tokenizer.json")).map_err(|e| e.to_string())?;
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    let json = |name: &str| match read(name) {
        None => Ok(serde_json::Value::Null),
        Some(text) => serde_json::from_str::<serde_json::Value>(&text).map_err(|e| format!("{name}: {e}")),
    };
    let (config, generation) = (json("tokenizer_config.json")?, json("generation_config.json")?);
    // a name, or what else is said of it
    let special = |name: &str| config[name].as_str().or(config[name]["content"].as_str());
    let id = |name: &str| special(name).and_then(|t| tokenizer.id(t));
    let (bos, eos) = (id("bos_token"), id("eos_token"));
    let listed = match &generation["eos_token_id"] {
        serde_json::Value::Array(all) => all.clone(),
        one => vec![one.clone()],
    };
    let listed = listed.iter().filter_map(|v| u32::try_from(v.as_u64()?).ok()).collect::<Vec<_>>();
    let template = &config["chat_template"];
    // several by name: the plain one
    let named = template.as_array().and_then(|all| all.iter().find(|t| t["name"] == "default"));
    let template = template.as_str().or_else(|| named?["template"].as_str()).map(str::to_string);
    finish(tokenizer, read("chat_template.jinja").or(template), bos, eos.into_iter().chain(listed))
}

fn finish(
    tokenizer: Tokenizer,
    template: Option<String>,
    bos: Option<u32>,
    eos: impl Iterator<Item = u32>,
) -> Found<Text> {
    let eos: Vec<u32> = eos.collect();
    let name = |id: Option<u32>| id.and_then(|id| tokenizer.token(id)).unwrap_or_default().to_string();
    let made = |source: String| Template::new(&source, &name(bos), &name(eos.first().copied()));
    let template = template.map(made).transpose().map_err(|e| format!("chat template: {}", e.0))?;
    let others = TURN_ENDS.iter().filter_map(|t| tokenizer.id(t)).filter(|id| tokenizer.is_special(*id));
    let ends = eos.iter().copied().chain(others).collect();
    Ok(Text { tokenizer, template, bos, ends })
}
