//! Low-rank adapters: what fine-tuning adds to products of a model whose weights stay as they are, in PEFT's files.
//!
//! ```text
//! y = x W^T  +  scale * dropout(x) A^T B^T        A (rank, inputs), B (outputs, rank)
//! ```
//!
//! A folder has `adapter_config.json` and `adapter_model.safetensors`, in which modules have the names of transformers;
//! families say what these are, for GGUF files too.

use frit_nn::{Module, StateDict, safetensors};
use frit_tensor::{DType, Error, Result, Tensor, is_training};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What is added to a product.
#[derive(Clone)]
pub struct LowRank {
    /// (rank, inputs)
    a: Tensor,
    /// (outputs, rank)
    b: Tensor,
    scale: f64,
    dropout: f64,
}

impl LowRank {
    /// (.., inputs) -> (.., outputs)
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let x = if is_training() { x.dropout(self.dropout) } else { x.clone() };
        x.linear(&self.a, None).linear(&self.b, None) * self.scale
    }
    /// The part that some rows of the weight get.
    pub fn rows(&self, begin: usize, count: usize) -> LowRank {
        LowRank { b: self.b.narrow(0, begin, count), ..self.clone() }
    }
    /// What it adds to a weight, as one of its shape.
    pub fn product(&self) -> Tensor {
        self.b.matmul(&self.a) * self.scale
    }
}

/// How an adapter is made.
#[derive(Clone, Debug, PartialEq)]
pub struct Lora {
    /// Rows of A.
    pub rank: usize,
    /// What is added is multiplied by `alpha / rank`.
    pub alpha: f64,
    /// How likely an element of an input is left out in training.
    pub dropout: f64,
    /// The ends of the names of modules that get one, as transformers has them: `q_proj`. None are all products of layers.
    pub targets: Vec<String>,
}

impl Default for Lora {
    fn default() -> Lora {
        Lora { rank: 16, alpha: 32.0, dropout: 0.0, targets: vec![] }
    }
}

impl Lora {
    fn check(&self) -> Result<()> {
        match self {
            Lora { rank: 0, .. } => Err(Error::new("finetune", "adapters of rank 0")),
            Lora { alpha, .. } if !alpha.is_finite() => {
                Err(Error::new("finetune", format!("an alpha of {alpha}")))
            }
            Lora { dropout, .. } if !(0.0..1.0).contains(dropout) => {
                Err(Error::new("finetune", format!("a dropout of {dropout}")))
            }
            _ => Ok(()),
        }
    }
    fn is_target(&self, module: &str) -> bool {
        self.targets.is_empty() || self.targets.iter().any(|t| is_end_of(t, module))
    }
}

/// Whether a name is the end of a module's, at a dot.
fn is_end_of(end: &str, module: &str) -> bool {
    module.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// The module of a product, as transformers names it, and how its rows lie.
#[derive(Clone, Debug)]
pub struct Place {
    /// `model.layers.0.self_attn.q_proj`
    pub module: String,
    /// Rows of the weight.
    pub outputs: usize,
    /// Columns of it.
    pub inputs: usize,
    /// Rows of each so many are here in pairs that turn together, and in two halves in transformers.
    pub pairs: Option<usize>,
    /// transformers has the weight transposed.
    pub is_transposed: bool,
}

struct Part {
    low_rank: LowRank,
    place: Place,
}

/// The adapter of a model: its parts, which the model holds too.
pub struct Adapter {
    lora: Lora,
    parts: BTreeMap<String, Part>,
}

impl Module for Adapter {
    fn visit(&self, path: &str, f: &mut dyn FnMut(&str, &Tensor)) {
        let dot = if path.is_empty() { "" } else { "." };
        for (name, part) in &self.parts {
            f(&format!("{path}{dot}{name}.lora_A.weight"), &part.low_rank.a);
            f(&format!("{path}{dot}{name}.lora_B.weight"), &part.low_rank.b);
        }
    }
}

/// What stands before the names of modules in PEFT's files.
const PREFIX: &str = "base_model.model.";

impl Adapter {
    /// How it is made.
    pub fn lora(&self) -> &Lora {
        &self.lora
    }
    /// How many numbers it has.
    pub fn size(&self) -> usize {
        self.parameters().iter().filter_map(|t| t.numel().ok()).sum()
    }
    /// Its tensors by PEFT's names, rows in the order of transformers.
    pub fn to_state(&self) -> StateDict {
        let each = |(name, part): (&String, &Part)| {
            let b = match part.place.pairs {
                Some(head) => in_halves(&part.low_rank.b, head),
                None => part.low_rank.b.clone(),
            };
            let of = |letter: &str, t: Tensor| (format!("{PREFIX}{name}.lora_{letter}.weight"), t);
            [of("A", part.low_rank.a.clone()), of("B", b)]
        };
        self.parts.iter().flat_map(each).collect()
    }
    /// Writes PEFT's folder; `base` is what the model is called.
    #[track_caller]
    pub fn save(&self, folder: impl AsRef<Path>, base: &str) -> Result<()> {
        let folder = folder.as_ref();
        let _c = frit_tensor::call("save");
        let wrong = |path: &Path, e: std::io::Error| Error::new("save", format!("{}: {e}", path.display()));
        std::fs::create_dir_all(folder).map_err(|e| wrong(folder, e))?;
        let about = BTreeMap::from([("format".to_string(), "pt".to_string())]);
        safetensors::save_with(folder.join(TENSORS), &self.to_state(), &about)?;
        let ends: BTreeSet<&str> =
            self.parts.keys().map(|name| name.rsplit_once('.').map_or(name.as_str(), |n| n.1)).collect();
        let targets: Vec<&str> = match self.lora.targets.is_empty() {
            true => ends.into_iter().collect(),
            false => self.lora.targets.iter().map(String::as_str).collect(),
        };
        // a whole number to PEFT, unless it is not whole
        let alpha = match self.lora.alpha {
            whole if whole.fract() == 0.0 && whole.abs() < 1e15 => json!(whole as i64),
            alpha => json!(alpha),
        };
        let config = json!({
            "base_model_name_or_path": base,
            "bias": "none",
            "fan_in_fan_out": self.parts.values().any(|p| p.place.is_transposed),
            "inference_mode": true,
            "init_lora_weights": true,
            "lora_alpha": alpha,
            "lora_dropout": self.lora.dropout,
            "modules_to_save": null,
            "peft_type": "LORA",
            "r": self.lora.rank,
            "target_modules": targets,
            "task_type": "CAUSAL_LM",
            "use_dora": false,
            "use_rslora": false,
        });
        let path = folder.join(CONFIG);
        std::fs::write(&path, format!("{config:#}\n")).map_err(|e| wrong(&path, e))
    }
    /// Takes over the values of a folder of PEFT's that has the same modules and shapes.
    #[track_caller]
    pub fn load(&self, folder: impl AsRef<Path>) -> Result<()> {
        let file = folder.as_ref().join(TENSORS);
        let mut state = safetensors::load(&file)?;
        let mut ours = StateDict::new();
        for (name, part) in &self.parts {
            for letter in ["A", "B"] {
                let key = format!("{PREFIX}{name}.lora_{letter}.weight");
                let Some(t) = state.remove(&key) else {
                    return Err(Error::new("load", format!("{}: no tensor {key}", file.display())));
                };
                let pairs = part.place.pairs.filter(|_| letter == "B");
                let t = pairs.map_or(t.clone(), |head| in_pairs(&t, head));
                ours.insert(format!("{name}.lora_{letter}.weight"), t);
            }
        }
        match state.keys().next() {
            Some(left) => {
                let message = format!("{}: the tensor {left} has no place", file.display());
                Err(Error::new("load", message))
            }
            None => self.load_state_dict(&ours),
        }
    }
}

const CONFIG: &str = "adapter_config.json";
const TENSORS: &str = "adapter_model.safetensors";

/// Rows of each head in two halves become pairs: those that turn together are neighbours.
fn in_pairs(rows: &Tensor, head: usize) -> Tensor {
    rows.unflatten(0, [rows.shape()[0].get() / head, 2, head / 2]).transpose(1, 2).flatten(0, 2)
}

/// The opposite.
fn in_halves(rows: &Tensor, head: usize) -> Tensor {
    rows.unflatten(0, [rows.shape()[0].get() / head, head / 2, 2]).transpose(1, 2).flatten(0, 2)
}

/// Where the parts of an adapter come from while a model is read.
enum Source {
    /// They are made: A random, B zeros, so that nothing changes at first.
    Fresh,
    File {
        folder: PathBuf,
        tensors: StateDict,
        config: Value,
        is_merged: bool,
    },
}

/// Gives the products of a model their parts, and remembers which have one.
pub struct Adapting {
    source: Source,
    lora: Lora,
    parts: RefCell<BTreeMap<String, Part>>,
}

impl Adapting {
    /// A new adapter; what is random is drawn from the stream of random numbers.
    pub fn fresh(lora: &Lora) -> Result<Adapting> {
        lora.check()?;
        Ok(Adapting { source: Source::Fresh, lora: lora.clone(), parts: RefCell::default() })
    }
    /// The adapter in a folder; merged into weights, or beside them.
    pub fn read(folder: &Path, is_merged: bool) -> Result<Adapting> {
        let path = folder.join(CONFIG);
        let wrong = |why: String| Error::new("load", format!("{}: {why}", path.display()));
        let text = std::fs::read_to_string(&path).map_err(|e| wrong(e.to_string()))?;
        let config: Value = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
        let lora = read_config(&config).map_err(wrong)?;
        let tensors = safetensors::load(folder.join(TENSORS))?;
        let source = Source::File { folder: folder.into(), tensors, config, is_merged };
        Ok(Adapting { source, lora, parts: RefCell::default() })
    }
    /// Whether its parts are made here, to be trained.
    pub fn is_trained(&self) -> bool {
        !matches!(self.source, Source::File { .. })
    }
    /// Whether weights take their parts in.
    pub fn is_merged(&self) -> bool {
        matches!(self.source, Source::File { is_merged: true, .. })
    }
    /// The part of a product, if it has one.
    pub fn part(&self, place: &Place) -> Result<Option<LowRank>> {
        let low_rank = match &self.source {
            Source::Fresh if !self.lora.is_target(&place.module) => None,
            Source::Fresh => Some(LowRank {
                a: Tensor::kaiming_uniform([self.lora.rank, place.inputs], 5f64.sqrt()).requires_grad(true),
                b: Tensor::zeros([place.outputs, self.lora.rank]).contiguous().requires_grad(true),
                scale: self.lora.alpha / self.lora.rank as f64,
                dropout: self.lora.dropout,
            }),
            Source::File { tensors, config, .. } => self.stored(tensors, config, place)?,
        };
        if let Some(l) = &low_rank {
            let part = Part { low_rank: l.clone(), place: place.clone() };
            self.parts.borrow_mut().insert(place.module.clone(), part);
        }
        Ok(low_rank)
    }
    fn stored(&self, tensors: &StateDict, config: &Value, place: &Place) -> Result<Option<LowRank>> {
        let name = |letter: &str| format!("{PREFIX}{}.lora_{letter}.weight", place.module);
        let Some(a) = tensors.get(&name("A")) else { return Ok(None) };
        let Some(b) = tensors.get(&name("B")) else {
            return Err(Error::new("load", format!("there is {} and no {}", name("A"), name("B"))));
        };
        let ([ra, inputs], [outputs, rb]) = (sides(a)?, sides(b)?);
        if ra != rb || ra == 0 || inputs != place.inputs || outputs != place.outputs {
            let (a, b) = (a.shape(), b.shape());
            let message = format!(
                "{} is of shape {a} and {} of {b}, beside a weight of ({}, {})",
                name("A"),
                name("B"),
                place.outputs,
                place.inputs
            );
            return Err(Error::new("load", message));
        }
        let patterns = config["alpha_pattern"].as_object().into_iter().flatten();
        let alpha = patterns.filter(|(end, _)| is_end_of(end, &place.module)).find_map(|(_, v)| v.as_f64());
        let by = if config["use_rslora"] == true { (ra as f64).sqrt() } else { ra as f64 };
        let b = match place.pairs {
            Some(head) => in_pairs(b, head),
            None => b.clone(),
        };
        let scale = alpha.unwrap_or(self.lora.alpha) / by;
        // small, and read in every step: in memory as it is multiplied
        let [a, b] = [a, &b].map(|t| t.cast(DType::F32).contiguous().realize());
        Ok(Some(LowRank { a: a?, b: b?, scale, dropout: self.lora.dropout }))
    }
    /// All parts, when the model is read. A tensor of the file that no product took is an error that names it.
    pub fn finish(self) -> Result<Adapter> {
        let parts = self.parts.into_inner();
        if let Source::File { folder, tensors, .. } = &self.source {
            let module = |n: &str| {
                let n = n.strip_prefix(PREFIX)?;
                Some(n.strip_suffix(".lora_A.weight").or(n.strip_suffix(".lora_B.weight"))?.to_string())
            };
            let has_place = |n: &&String| module(n).is_some_and(|m| parts.contains_key(&m));
            if let Some(left) = tensors.keys().find(|n| !has_place(n)) {
                let message = format!("{}: the model has no place for the tensor {left}", folder.display());
                return Err(Error::new("load", message));
            }
        }
        if parts.is_empty() {
            let message = format!("no product of the model is called {}", self.lora.targets.join(" or "));
            return Err(Error::new("load", message));
        }
        let adapter = Adapter { lora: self.lora, parts };
        adapter.realize_state()?;
        Ok(adapter)
    }
}

fn sides(t: &Tensor) -> Result<[usize; 2]> {
    let dims = t.dims()?;
    let wrong = |d: Vec<usize>| Error::new("load", format!("part of an adapter of shape {d:?}"));
    dims.try_into().map_err(wrong)
}

/// What matters of PEFT's configuration; what is not known here is an error that names it.
fn read_config(config: &Value) -> std::result::Result<Lora, String> {
    if config["peft_type"] != "LORA" {
        return Err(format!("peft_type is {}, and only LORA is known", config["peft_type"]));
    }
    let is_off = |v: &Value| match v {
        Value::Null | Value::Bool(false) => true,
        Value::String(s) => s == "none",
        Value::Array(all) => all.is_empty(),
        Value::Object(all) => all.is_empty(),
        _ => false,
    };
    // each changes what is computed
    let others = [
        "use_dora",
        "use_qalora",
        "use_bdlora",
        "bias",
        "lora_bias",
        "modules_to_save",
        "target_parameters",
        "alora_invocation_tokens",
        "trainable_token_indices",
        "layer_replication",
        "arrow_config",
    ];
    if let Some(key) = others.iter().find(|key| !is_off(&config[**key])) {
        return Err(format!("{key} is {}, which is not known", config[*key]));
    }
    let rank = config["r"].as_u64().filter(|r| *r > 0).ok_or("r is not a number above 0")?;
    let alpha = config["lora_alpha"].as_f64().ok_or("lora_alpha is not a number")?;
    let targets = match &config["target_modules"] {
        Value::Array(all) => all.iter().filter_map(Value::as_str).map(String::from).collect(),
        _ => vec![],
    };
    let dropout = config["lora_dropout"].as_f64().unwrap_or(0.0);
    Ok(Lora { rank: rank as usize, alpha, dropout, targets })
}
