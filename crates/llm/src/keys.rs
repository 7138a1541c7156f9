//! What a model says about itself, by GGUF's names of keys, whichever format it is in.
//!
//! ```text
//! GGUF         llama.block_count = 30                block_count -> 30
//! config.json  {"num_hidden_layers": 30, …}          block_count -> 30
//! ```
//!
//! Keys that someone asked for are remembered: what is left at the end and is not known to be harmless is an error.

use frit_nn::gguf::{self, Gguf};
use frit_tensor::{Error, Result};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// What a key says. Lists are of numbers or of texts; other things are in neither format.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Number(f64),
    Flag(bool),
    Text(String),
    Numbers(Vec<f64>),
    Texts(Vec<String>),
}

/// The keys of one model.
pub struct Keys {
    architecture: String,
    is_folder: bool,
    values: BTreeMap<String, Value>,
    read: RefCell<BTreeSet<String>>,
}

/// GGUF's name of a key, and what it is called in `config.json` (the first that is there).
const FOLDER_NAMES: &[(&str, &[&str])] = &[
    ("attention.head_count", &["num_attention_heads", "n_head"]),
    ("attention.head_count_kv", &["num_key_value_heads"]),
    ("attention.key_length", &["head_dim"]),
    ("attention.layer_norm_epsilon", &["layer_norm_epsilon", "layer_norm_eps"]),
    ("attention.layer_norm_rms_epsilon", &["rms_norm_eps"]),
    ("attention.sliding_window", &["sliding_window"]),
    ("block_count", &["num_hidden_layers", "n_layer"]),
    ("context_length", &["max_position_embeddings", "n_positions", "n_ctx"]),
    ("embedding_length", &["hidden_size", "n_embd"]),
    ("expert_count", &["num_local_experts", "num_experts"]),
    ("expert_feed_forward_length", &["moe_intermediate_size"]),
    ("expert_shared_feed_forward_length", &["shared_expert_intermediate_size"]),
    ("expert_used_count", &["num_experts_per_tok"]),
    ("feed_forward_length", &["intermediate_size", "n_inner"]),
    ("hidden_act", &["hidden_act", "hidden_activation", "activation_function"]),
    ("rope.freq_base", &["rope.rope_theta", "rope_theta"]),
    ("rope.freq_base_swa", &["rope.sliding_attention.rope_theta", "rope_local_base_freq"]),
    ("rope.scaling.attn_factor", &["rope.attention_factor"]),
    ("rope.scaling.factor", &["rope.factor"]),
    ("rope.scaling.high_freq_factor", &["rope.high_freq_factor"]),
    ("rope.scaling.long_factor", &["rope.long_factor"]),
    ("rope.scaling.low_freq_factor", &["rope.low_freq_factor"]),
    (
        "rope.scaling.original_context_length",
        &["rope.original_max_position_embeddings", "original_max_position_embeddings"],
    ),
    ("rope.scaling.short_factor", &["rope.short_factor"]),
    ("rope.scaling.type", &["rope.rope_type", "rope.type"]),
    ("rope.scaling.yarn_beta_fast", &["rope.beta_fast"]),
    ("rope.scaling.yarn_beta_slow", &["rope.beta_slow"]),
    ("partial_rotary_factor", &["partial_rotary_factor", "rope.partial_rotary_factor"]),
    ("token_type_count", &["type_vocab_size"]),
];

/// Objects of `config.json` and what stands before their members here; the longest first. Sizes of rotations have moved
/// twice in the history of that file.
const FOLDER_PREFIXES: &[(&str, &str)] = &[
    ("rope_parameters.full_attention.", "rope."),
    ("rope_parameters.", "rope."),
    ("rope_scaling.", "rope."),
];

/// Keys of `config.json` that change no number of a forward pass, or that the tensors say as well (biases).
const HARMLESS: &[&str] = &[
    "_attn_implementation_autoset",
    "_name_or_path",
    "_sliding_window_pattern",
    "add_cross_attention",
    "architectures",
    "attention_bias",
    "attention_dropout",
    "attention_probs_dropout_prob",
    "attn_pdrop",
    "auto_map.",
    "bos_token_id",
    "cache_implementation",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "cross_attention_hidden_size",
    "decoder_start_token_id",
    "dtype",
    "embd_pdrop",
    "eos_token_id",
    "finetuning_task",
    "gradient_checkpointing",
    "hidden_dropout_prob",
    "id2label.",
    "initializer_range",
    "is_decoder",
    "is_encoder_decoder",
    "is_llama_config",
    "label2id.",
    "max_window_layers",
    "mlp_bias",
    "model_type",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "pad_token_id",
    "position_embedding_type",
    "pretraining_tp",
    "problem_type",
    "qkv_bias",
    "reorder_and_upcast_attn",
    "resid_pdrop",
    "embed_pdrop",
    "return_dict",
    "router_aux_loss_coef",
    "router_jitter_noise",
    "router_z_loss_coef",
    "sep_token_id",
    "summary_",
    "task_specific_params",
    "tie_encoder_decoder",
    "tokenizer_class",
    "torch_dtype",
    "torchscript",
    "transformers.js_config.",
    "transformers_version",
    "use_cache",
];

/// Keys of GGUF of which the same holds.
const HARMLESS_GGUF: &[&str] =
    &["rope.scaling.finetuned", "vocab_size", "attention.value_length", "tensor_data_layout"];

impl Keys {
    /// The keys of a GGUF file that are about its architecture.
    pub fn of_gguf(file: &Gguf) -> Result<Keys> {
        let architecture = file.metadata().get("general.architecture").and_then(gguf::Value::as_str);
        let Some(architecture) = architecture else {
            return Err(Error::new("load", "the file has no key general.architecture"));
        };
        let prefix = format!("{architecture}.");
        let own = file.metadata().iter().filter_map(|(k, v)| Some((k.strip_prefix(&prefix)?, v)));
        let values = own.filter_map(|(k, v)| Some((k.to_string(), of_gguf(v)?))).collect();
        Ok(Keys { architecture: architecture.into(), is_folder: false, values, read: RefCell::default() })
    }
    /// The keys of a `config.json`, given its text.
    pub fn of_json(text: &str) -> Result<Keys> {
        let wrong = |why: String| Error::new("load", format!("config.json: {why}"));
        let value: serde_json::Value = serde_json::from_str(text).map_err(|e| wrong(e.to_string()))?;
        let mut values = BTreeMap::new();
        // of a model of several, the one that reads text; what it says of itself comes before what is said of all
        match value["text_config"].is_object() {
            true => {
                let others = value.as_object().into_iter().flatten();
                let others = others.filter(|(name, _)| !matches!(&name[..], "text_config" | "vision_config"));
                others.for_each(|(name, member)| flatten(name, member, &mut values));
                flatten("", &value["text_config"], &mut values);
            }
            false => flatten("", &value, &mut values),
        }
        let architecture = match (value["architectures"][0].as_str(), value["model_type"].as_str()) {
            (Some(name), _) | (None, Some(name)) => name.to_string(),
            (None, None) => return Err(wrong("it has neither architectures nor model_type".into())),
        };
        Ok(Keys { architecture, is_folder: true, values, read: RefCell::default() })
    }
    /// Numbers of keys that are left out.
    pub fn or_default(mut self, defaults: &[(&str, f64)]) -> Keys {
        for (name, number) in defaults {
            self.values.entry(name.to_string()).or_insert(Value::Number(*number));
        }
        self
    }
    /// What the model calls its architecture: `llama`, `LlamaForCausalLM`.
    pub fn architecture(&self) -> &str {
        &self.architecture
    }
    /// Whether they are of a folder of Hugging Face, and not of a GGUF file.
    pub fn is_folder(&self) -> bool {
        self.is_folder
    }
    fn find(&self, key: &str) -> Option<(&str, &Value)> {
        let row = FOLDER_NAMES.iter().find(|(name, _)| self.is_folder && *name == key);
        let own = [key];
        let names = row.map_or(&own[..], |(_, names)| names);
        self.read.borrow_mut().extend(names.iter().map(|n| n.to_string()));
        names.iter().find_map(|n| self.values.get_key_value(*n)).map(|(k, v)| (k.as_str(), v))
    }
    fn one<T>(&self, key: &str, what: &str, read: impl Fn(&Value) -> Option<T>) -> Result<Option<T>> {
        let Some((name, value)) = self.find(key) else { return Ok(None) };
        match read(value) {
            Some(v) => Ok(Some(v)),
            None => Err(Error::new("load", format!("the key {name} is {value:?} and not {what}"))),
        }
    }
    /// What the model calls a key.
    pub fn name<'a>(&'a self, key: &'a str) -> &'a str {
        let row = FOLDER_NAMES.iter().find(|(name, _)| self.is_folder && *name == key);
        let first = row.and_then(|(_, names)| names.first()).map_or(key, |n| n);
        self.find(key).map_or(first, |(name, _)| name)
    }
    fn required<T>(&self, key: &str, found: Option<T>) -> Result<T> {
        found.ok_or_else(|| Error::new("load", format!("the model has no key {}", self.name(key))))
    }
    /// A size, if it is given. A list of equal sizes, one for each layer, is one size.
    pub fn size(&self, key: &str) -> Result<Option<usize>> {
        self.one(key, "a size", |v| match v {
            Value::Number(n) => to_size(*n),
            Value::Numbers(all) if all.windows(2).all(|w| w[0] == w[1]) => to_size(*all.first()?),
            _ => None,
        })
    }
    /// How many positions attention looks back on, where that is fewer than a context has; 0 says that there is no bound.
    pub fn window(&self, context: usize) -> Result<Option<usize>> {
        Ok(self.size("attention.sliding_window")?.filter(|n| (1..context).contains(n)))
    }
    /// A size that must be given and is not 0.
    pub fn need_size(&self, key: &str) -> Result<usize> {
        match self.required(key, self.size(key)?)? {
            0 => Err(Error::new("load", format!("the key {} is 0", self.name(key)))),
            n => Ok(n),
        }
    }
    /// A number, if it is given.
    pub fn number(&self, key: &str) -> Result<Option<f64>> {
        self.one(key, "a number", |v| match v {
            Value::Number(n) if n.is_finite() => Some(*n),
            _ => None,
        })
    }
    /// A number that must be given.
    pub fn need_number(&self, key: &str) -> Result<f64> {
        self.required(key, self.number(key)?)
    }
    /// A number above 0, if it is given.
    pub fn positive(&self, key: &str) -> Result<Option<f64>> {
        match self.number(key)? {
            Some(n) if n <= 0.0 => Err(Error::new("load", format!("the key {} is {n}", self.name(key)))),
            found => Ok(found),
        }
    }
    /// A number above 0 that must be given.
    pub fn need_positive(&self, key: &str) -> Result<f64> {
        self.required(key, self.positive(key)?)
    }
    /// A list of numbers, if it is given; of flags, 1 is true.
    pub fn numbers(&self, key: &str) -> Result<Option<Vec<f64>>> {
        self.one(key, "a list of numbers", |v| match v {
            Value::Numbers(all) => Some(all.clone()),
            _ => None,
        })
    }
    /// A truth value, if it is given.
    pub fn flag(&self, key: &str) -> Result<Option<bool>> {
        self.one(key, "true or false", |v| match v {
            Value::Flag(b) => Some(*b),
            _ => None,
        })
    }
    /// A text, if it is given.
    pub fn text(&self, key: &str) -> Result<Option<String>> {
        self.one(key, "a text", |v| match v {
            Value::Text(t) => Some(t.clone()),
            _ => None,
        })
    }
    /// A list of texts, if it is given.
    pub fn texts(&self, key: &str) -> Result<Option<Vec<String>>> {
        self.one(key, "a list of texts", |v| match v {
            Value::Texts(t) => Some(t.clone()),
            Value::Numbers(t) if t.is_empty() => Some(vec![]),
            _ => None,
        })
    }
    /// Says of some keys that they need not be read.
    pub fn ignore(&self, keys: &[&str]) {
        self.read.borrow_mut().extend(keys.iter().map(|k| k.to_string()));
    }
    /// That every key that matters was read.
    pub fn finish(&self) -> Result<()> {
        let (read, harmless) = (self.read.borrow(), if self.is_folder { HARMLESS } else { HARMLESS_GGUF });
        let is_harmless =
            |k: &str| harmless.iter().any(|h| *h == k || (h.ends_with(['.', '_']) && k.starts_with(h)));
        let left: Vec<&str> = self
            .values
            .keys()
            .map(String::as_str)
            .filter(|k| !read.contains(*k) && !is_harmless(k))
            .collect();
        match left.is_empty() {
            true => Ok(()),
            false => Err(Error::new(
                "load",
                format!("{}: keys that this version does not know: {}", self.architecture, left.join(", ")),
            )),
        }
    }
}

fn to_size(n: f64) -> Option<usize> {
    ((0.0..=2f64.powi(40)).contains(&n) && n.fract() == 0.0).then_some(n as usize)
}

fn of_gguf(value: &gguf::Value) -> Option<Value> {
    use gguf::Value as V;
    Some(match value {
        V::String(t) => Value::Text(t.clone()),
        V::Bool(b) => Value::Flag(*b),
        V::Array(all) => {
            let texts: Option<Vec<String>> = all.iter().map(|v| v.as_str().map(String::from)).collect();
            let number = |v: V| v.as_f64().or_else(|| v.as_bool().map(f64::from));
            match texts {
                Some(texts) if !texts.is_empty() => Value::Texts(texts),
                _ => Value::Numbers(all.iter().map(number).collect::<Option<_>>()?),
            }
        }
        other => Value::Number(other.as_f64()?),
    })
}

fn flatten(at: &str, value: &serde_json::Value, into: &mut BTreeMap<String, Value>) {
    use serde_json::Value as V;
    let found = match value {
        V::Object(members) => {
            for (name, member) in members {
                let key = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
                flatten(&key, member, into);
            }
            return;
        }
        V::Null => return,
        V::Bool(b) => Value::Flag(*b),
        V::Number(n) => Value::Number(n.as_f64().unwrap_or(f64::NAN)),
        V::String(t) => Value::Text(t.clone()),
        V::Array(all) => {
            let texts: Option<Vec<String>> = all.iter().map(|v| v.as_str().map(String::from)).collect();
            let number = |v: &V| v.as_f64().or_else(|| v.as_bool().map(f64::from)).unwrap_or(f64::NAN);
            match texts {
                Some(texts) if !texts.is_empty() => Value::Texts(texts),
                _ => Value::Numbers(all.iter().map(number).collect()),
            }
        }
    };
    let moved = FOLDER_PREFIXES.iter().find_map(|(from, to)| Some(format!("{to}{}", at.strip_prefix(from)?)));
    into.insert(moved.unwrap_or_else(|| at.to_string()), found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_no_one_read_is_an_error_that_names_it() {
        let text =
            r#"{"model_type": "x", "num_hidden_layers": 2, "new_trick": 3, "rope_scaling": {"factor": 2.0}}"#;
        let keys = Keys::of_json(text).unwrap();
        assert_eq!(keys.need_size("block_count").unwrap(), 2);
        assert_eq!(keys.need_number("rope.scaling.factor").unwrap(), 2.0);
        let why = keys.finish().unwrap_err().to_string();
        assert!(why.contains("new_trick") && !why.contains("rope"), "{why}");
        let why = keys.need_size("embedding_length").unwrap_err().to_string();
        assert!(why.contains("hidden_size"), "{why}");
        let why = keys.text("new_trick").unwrap_err().to_string();
        assert!(why.contains("new_trick is Number(3.0) and not a text"), "{why}");
    }

    #[test]
    fn a_window_that_bounds_nothing_is_none() {
        let of = |n: u64| Keys::of_json(&format!(r#"{{"model_type": "x", "sliding_window": {n}}}"#)).unwrap();
        let windows = [0, 1, 64, 128, u32::MAX as u64].map(|n| of(n).window(128).unwrap());
        assert_eq!(windows, [None, Some(1), Some(64), None, None]);
    }
}
