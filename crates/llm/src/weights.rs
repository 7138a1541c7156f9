//! The tensors of a model by GGUF's names, whichever format they are in; none is read before it is used.
//!
//! Tensors that someone asked for are remembered: one that is left at the end is an error that names it.

use crate::adapter::{Adapter, Adapting, LowRank, Place};
use crate::config::{FEW, MANY, MANY_OF_TWO};
use frit_nn::gguf::{Bytes, Gguf, Words};
use frit_nn::safetensors::SafeTensors;
use frit_nn::{StateDict, safetensors};
use frit_tensor::{Blob, DType, Device, Error, Result, Tensor};
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What a family's tensors are called in a folder of Hugging Face.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// What stands before the name of every tensor but the head's, one of these; some files leave it out.
    pub prefixes: &'static [&'static str],
    /// What stands before the names of a layer's tensors, `{}` being its number.
    pub layer: &'static str,
    /// GGUF's name without `blk.{}.` and without `.weight` or `.bias`, and what it is called; `{}` is an expert.
    pub table: &'static [(&'static str, &'static str)],
    /// GGUF's names of weights that are stored transposed.
    pub transposed: &'static [&'static str],
    /// Endings of names that are of no use here.
    pub unused: &'static [&'static str],
    /// Beginnings of names of tensors of other models that are beside it in the same folder.
    pub beside: &'static [&'static str],
}

enum Source {
    Gguf(Gguf),
    Folder(Folder),
}

/// The tensors of a folder, and the files they are in.
struct Folder {
    state: StateDict,
    path: PathBuf,
    files: OnceCell<Vec<SafeTensors>>,
}

impl Folder {
    fn open(path: &Path) -> Result<Folder> {
        let index = path.join(INDEX);
        let state = match index.exists() {
            true => safetensors::load_sharded(index)?,
            false => safetensors::load(path.join(SINGLE))?,
        };
        Ok(Folder { state, path: path.into(), files: OnceCell::new() })
    }
    /// Its files, which are opened when they are first asked for.
    fn files(&self) -> Result<&[SafeTensors]> {
        if let Some(files) = self.files.get() {
            return Ok(files);
        }
        let index = self.path.join(INDEX);
        let files = match index.exists() {
            true => {
                let wrong = |e: std::io::Error| Error::new("load", format!("{INDEX}: {e}"));
                let index = safetensors::Index::from_blob(&Blob::open(&index).map_err(wrong)?)?;
                index.files().iter().map(|f| SafeTensors::open(self.path.join(f))).collect::<Result<_>>()?
            }
            false => vec![SafeTensors::open(self.path.join(SINGLE))?],
        };
        Ok(self.files.get_or_init(|| files))
    }
    /// Matrices as rows of one tensor where they lie, if they are in one file and do lie so.
    fn rows(&self, names: &[String]) -> Result<Option<(Tensor, Vec<usize>)>> {
        for file in self.files()? {
            if let Some(found) = file.rows(names)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

const INDEX: &str = "model.safetensors.index.json";
const SINGLE: &str = "model.safetensors";

/// The weights of several experts, each `(outputs, inputs)`.
pub enum Experts {
    /// One after the other: `(experts, outputs, inputs)`.
    Whole(Tensor),
    /// Rows among others, `(rows, inputs)`, so many of each expert from where it begins `(experts)`.
    Rows {
        /// All rows there are.
        rows: Tensor,
        /// The first of each expert.
        begins: Tensor,
        /// How many each has.
        outputs: usize,
    },
}

impl Experts {
    /// Those of chosen experts `(T, used)`: `(T, used, outputs, inputs)`. No other is read.
    pub fn of(&self, chosen: &Tensor) -> Tensor {
        match self {
            Experts::Whole(all) => all.embedding(chosen),
            Experts::Rows { rows, begins, outputs } => {
                let first = begins.embedding(chosen).contiguous().unsqueeze(-1);
                rows.embedding(&(first + Tensor::arange(*outputs).int()))
            }
        }
    }
}

/// The tensors of a model.
pub struct Weights {
    source: Source,
    names: Names,
    read: RefCell<BTreeSet<String>>,
    adapting: Option<Adapting>,
    /// Rows of queries and keys lie in pairs of heads of so many elements, and not in halves as in transformers.
    pairs: Option<usize>,
    is_unpacked: bool,
    is_rounded: bool,
    /// How products of such a model are rounded on its device.
    rounding: Rounding,
}

/// How products round their factors, by how many tokens they are of.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rounding {
    /// Up to so many they are computed in whole numbers if the weight has them, and from so many on in those of so many bytes.
    few: usize,
    many: Option<(usize, Bytes)>,
    /// From so many on their factors are bfloat16, for a unit that multiplies those.
    narrow: Option<usize>,
}

impl Rounding {
    /// What so many tokens are rounded to, if a weight's whole numbers are for as many.
    pub fn whole(self, tokens: Option<usize>) -> Option<Bytes> {
        match (tokens?, self.many) {
            (n, _) if n <= self.few => Some(Bytes::One),
            (n, Some((many, bytes))) if n >= many => Some(bytes),
            _ => None,
        }
    }
    /// Whether products of so many, or nobody knows how many, are of bfloat16.
    pub fn is_narrow(self, tokens: Option<usize>) -> bool {
        self.narrow.is_some_and(|narrow| tokens.is_none_or(|n| n >= narrow))
    }
}

/// Tables of a GGUF file that nobody multiplies by.
const UNUSED_GGUF: &[&str] = &["rope_factors_long.weight", "rope_factors_short.weight", "rope_freqs.weight"];

impl Weights {
    fn new(source: Source, names: Names) -> Weights {
        Weights {
            source,
            names,
            read: RefCell::default(),
            adapting: None,
            pairs: None,
            is_unpacked: false,
            is_rounded: false,
            rounding: Rounding::default(),
        }
    }
    /// Those of a GGUF file; `names` are what they would be called in a folder.
    pub fn of_gguf(file: Gguf, names: Names) -> Weights {
        Weights::new(Source::Gguf(file), names)
    }
    /// Those of a folder: one safetensors file, or several with an index.
    pub fn of_folder(folder: &Path, names: Names) -> Result<Weights> {
        Ok(Weights::new(Source::Folder(Folder::open(folder)?), names))
    }
    /// Products get parts of an adapter, beside them or merged. In a GGUF file rows of queries and keys of models whose
    /// rotations are of neighbours were reordered, head by head.
    pub fn adapt(&mut self, adapting: Adapting, head: usize, is_interleaved: bool) {
        self.pairs = (is_interleaved && matches!(self.source, Source::Gguf(_))).then_some(head);
        self.adapting = Some(adapting);
    }
    /// Weights of products are made float32 in memory, once, instead of in every product.
    pub fn unpack(&mut self) {
        self.is_unpacked = true;
    }
    /// Products may round their factors: those of few tokens are computed in whole numbers where the weight has them and the
    /// machine sums products of bytes, those of many tokens are of bfloat16 where there is a unit for it, else of bytes too
    /// if that is asked for, or of two bytes where an instruction sums products of them; off a grid only in models that are
    /// quantised, since others have digits to lose.
    pub fn round(&mut self, is_bytes: bool) -> Result<()> {
        self.is_rounded = true;
        let target = Device::target(&Device::current()?)?;
        let is_quantised = match &self.source {
            Source::Gguf(file) => file.tensors().values().any(|t| t.kind.dtype().is_none()),
            Source::Folder(_) => false,
        };
        let unit_rows = target.unit_rows(DType::BF16).filter(|_| is_quantised || target.grid.is_some());
        // vectors of a CPU multiply several tokens as fast in float32: those share a weight that was unpacked in registers
        let (few, many) = match target.grid {
            Some(_) => (FEW, None),
            None if unit_rows.is_some() => (1, None),
            None if is_bytes => (1, Some((MANY, Bytes::One))),
            None => (1, target.has_dot4_instruction().then_some((MANY_OF_TWO, Bytes::Two))),
        };
        self.rounding = Rounding { few, many, narrow: unit_rows.map(|rows| rows.max(FEW + 1)) };
        Ok(())
    }
    /// How products round their factors.
    pub fn rounding(&self) -> Rounding {
        let is_trained = self.adapting.as_ref().is_some_and(Adapting::is_trained);
        if self.is_unpacked || is_trained { Rounding::default() } else { self.rounding }
    }
    /// A weight for products in whole numbers, if there is one and it is asked for.
    pub fn words(&self, name: &str) -> Result<Option<Words>> {
        // an adapter that is trained wants gradients of what it stands beside
        let is_plain = self.adapting.as_ref().is_none_or(|a| !a.is_merged() && !a.is_trained());
        match &self.source {
            Source::Gguf(file) if self.is_rounded && !self.is_unpacked && is_plain => {
                let target = Device::target(&file.raw(name)?.device()?)?;
                if target.has_dot4() { file.words(name) } else { Ok(None) }
            }
            _ => Ok(None),
        }
    }
    /// The adapter that products got, if there is one.
    pub fn into_adapter(self) -> Result<Option<Adapter>> {
        self.adapting.map(Adapting::finish).transpose()
    }
    /// The weight of a product and what an adapter adds to it.
    pub fn product(&self, name: &str, inputs: usize, outputs: usize) -> Result<(Tensor, Option<LowRank>)> {
        let weight = self.get(&format!("{name}.weight"), &[outputs, inputs])?;
        let part = match (&self.adapting, self.names.module(name)) {
            (Some(adapting), Some(module)) => {
                let turns = name.ends_with(".attn_q") || name.ends_with(".attn_k");
                let is_transposed = self.names.is_transposed(&format!("{name}.weight"));
                let pairs = self.pairs.filter(|_| turns);
                adapting.part(&Place { module, outputs, inputs, pairs, is_transposed })?
            }
            _ => None,
        };
        match part {
            Some(p) if self.adapting.as_ref().is_some_and(Adapting::is_merged) => {
                Ok(((weight + p.product()).contiguous().realize()?, None))
            }
            part if self.is_unpacked => Ok((weight.contiguous().realize()?, part)),
            part => Ok((weight, part)),
        }
    }
    /// Whether there is such a tensor.
    pub fn has(&self, name: &str) -> bool {
        match &self.source {
            Source::Gguf(file) => file.tensors().contains_key(name),
            Source::Folder(f) => self.names.of(name).iter().any(|n| f.state.contains_key(n)),
        }
    }
    /// A tensor of a shape, as float32 or as an expression that makes float32 of what is stored.
    pub fn get(&self, name: &str, shape: &[usize]) -> Result<Tensor> {
        let t = self.find(name)?;
        self.check_shape(name, &t, shape)?;
        Ok(t)
    }
    fn check_shape(&self, name: &str, t: &Tensor, shape: &[usize]) -> Result<()> {
        let dims = t.dims()?;
        match dims == shape {
            true => Ok(()),
            false => {
                let name = self.stored_name(name)?;
                Err(Error::new("load", format!("the tensor {name} is of shape {dims:?}, not {shape:?}")))
            }
        }
    }
    /// The same, if it is there.
    pub fn get_if(&self, name: &str, shape: &[usize]) -> Result<Option<Tensor>> {
        self.has(name).then(|| self.get(name, shape)).transpose()
    }
    /// A tensor of any shape.
    pub fn find(&self, name: &str) -> Result<Tensor> {
        let t = self.stored(name)?;
        Ok(if t.dtype() == DType::F32 { t } else { t.cast(DType::F32) })
    }
    /// What a tensor is called where it is stored.
    fn stored_name(&self, name: &str) -> Result<String> {
        let Source::Folder(f) = &self.source else { return Ok(name.to_string()) };
        let all = self.names.of(name);
        let found = all.iter().find(|n| f.state.contains_key(*n));
        let missing = || Error::new("load", format!("no tensor {}", all.first().map_or(name, |n| n)));
        found.cloned().ok_or_else(missing)
    }
    /// A tensor in the type it has in its file.
    fn stored(&self, name: &str) -> Result<Tensor> {
        let found = self.stored_name(name)?;
        self.note(&found);
        match &self.source {
            Source::Gguf(file) => file.tensor(name),
            Source::Folder(f) if self.names.is_transposed(name) => Ok(f.state[&found].t()),
            Source::Folder(f) => Ok(f.state[&found].clone()),
        }
    }
    /// The weights of `count` experts: where they are stored, if they are one tensor, or, on a CPU, rows of one file; else copied
    /// together in the type they have.
    pub fn experts(&self, name: &str, count: usize, shape: [usize; 2]) -> Result<Experts> {
        if self.has(name) {
            return Ok(Experts::Whole(self.get(name, &[count, shape[0], shape[1]])?));
        }
        let Source::Folder(folder) = &self.source else {
            return Err(Error::new("load", format!("no tensor {name}")));
        };
        let names: Vec<String> = (0..count).map(|e| self.names.of_expert(name, e)).collect();
        let all = names.iter().map(|n| self.stored(n)).collect::<Result<Vec<_>>>()?;
        names.iter().zip(&all).try_for_each(|(n, t)| self.check_shape(n, t, &shape))?;
        if Device::target(&Device::current()?)?.grid.is_none() && !self.names.is_transposed(name) {
            let stored = names.iter().map(|n| self.stored_name(n)).collect::<Result<Vec<_>>>()?;
            if let Some((rows, begins)) = folder.rows(&stored)?
                && let Ok(begins) =
                    begins.into_iter().map(i32::try_from).collect::<std::result::Result<Vec<_>, _>>()
            {
                let rows = rows.cast(DType::F32);
                return Ok(Experts::Rows { rows, begins: Tensor::from_slice(&begins), outputs: shape[0] });
            }
        }
        let dtype = all.first().map_or(DType::F32, Tensor::dtype);
        let one = if all.iter().all(|t| t.dtype() == dtype) { dtype } else { DType::F32 };
        let all: Vec<Tensor> = all.iter().map(|t| t.cast(one)).collect();
        Ok(Experts::Whole(Tensor::stack(&all, 0).realize()?.cast(DType::F32)))
    }
    fn note(&self, name: &str) {
        self.read.borrow_mut().insert(name.to_string());
    }
    /// Marks a tensor as one that is not needed, should it be there.
    pub fn pass_over(&self, name: &str) {
        match &self.source {
            Source::Gguf(_) => self.note(name),
            Source::Folder(_) => self.names.of(name).iter().for_each(|n| self.note(n)),
        }
    }
    /// That every tensor was read.
    pub fn finish(&self) -> Result<()> {
        let read = self.read.borrow();
        let (all, unused, beside): (Vec<&String>, &[&str], &[&str]) = match &self.source {
            Source::Gguf(file) => (file.tensors().keys().collect(), UNUSED_GGUF, &[]),
            Source::Folder(f) => (f.state.keys().collect(), self.names.unused, self.names.beside),
        };
        let is_known =
            |n: &str| unused.iter().any(|u| n.ends_with(u)) || beside.iter().any(|b| n.starts_with(b));
        let is_left = |n: &&&String| !read.contains(**n) && !is_known(n);
        let left: Vec<&str> = all.iter().filter(is_left).map(|n| n.as_str()).collect();
        match left.len() {
            0 => Ok(()),
            n => Err(Error::new(
                "load",
                format!("{n} tensors that this version does not know, the first being {}", left[0]),
            )),
        }
    }
}

impl Names {
    /// What a tensor with GGUF's name may be called in a folder.
    fn of(&self, name: &str) -> Vec<String> {
        // the name of an expert's tensor has its number behind it
        let (name, expert) = match name.split_once('#') {
            Some((name, expert)) => (name, expert),
            None => (name, ""),
        };
        let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
        let (layer, stem) = match stem.strip_prefix("blk.").and_then(|s| s.split_once('.')) {
            Some((layer, stem)) => (Some(layer), stem),
            None => (None, stem),
        };
        let rows = self.table.iter().filter(|(ours, _)| *ours == stem);
        let full =
            rows.filter(|(_, theirs)| theirs.contains("{}") != expert.is_empty()).flat_map(|(_, theirs)| {
                let theirs = theirs.replace("{}", expert);
                let at = layer.map(|n| self.layer.replace("{}", n)).unwrap_or_default();
                let dot = if theirs.ends_with('!') { "" } else { "." };
                let whole = format!(
                    "{at}{}{dot}{}",
                    theirs.trim_end_matches('!'),
                    if dot.is_empty() { "" } else { ending }
                );
                let with = self.prefixes.iter().map(|prefix| format!("{prefix}{whole}"));
                with.chain([whole.clone()]).collect::<Vec<_>>()
            });
        full.collect()
    }
    /// The module of a layer's tensor, given its name without `.weight`.
    fn module(&self, name: &str) -> Option<String> {
        let whole = self.of(&format!("{name}.weight")).into_iter().next()?;
        name.starts_with("blk.").then(|| whole.strip_suffix(".weight").map(String::from))?
    }
    fn of_expert(&self, name: &str, expert: usize) -> String {
        format!("{name}#{expert}")
    }
    fn is_transposed(&self, name: &str) -> bool {
        self.transposed.iter().any(|t| name.strip_suffix(".weight").is_some_and(|n| n.ends_with(t)))
    }
}
