//! A model as it is opened: a GGUF file, or a folder of Hugging Face.

use crate::adapter::{Adapter, Adapting, Lora};
use crate::config::{Config, check_factors};
use crate::decoder::Decoder;
use crate::encoder::Encoder;
use crate::families::{self, Family};
use crate::keys::Keys;
use crate::rope::Scaling;
use crate::sentence;
use crate::weights::Weights;
use frit_nn::gguf::Gguf;
use frit_tensor::{Error, Result};
use std::path::{Path, PathBuf};

/// How a model is opened.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Positions that are wanted at most; those the model was made for if not said.
    pub context: Option<usize>,
    /// A folder with an adapter in PEFT's format.
    pub adapter: Option<PathBuf>,
    /// Weights take the adapter in, as float32 in memory, instead of standing beside it.
    pub is_merged: bool,
    /// Weights of products are made float32 in memory, once, instead of in every product.
    pub is_unpacked: bool,
    /// How products round their factors.
    pub products: Products,
}

/// How products round their factors; their sums are float32 in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Products {
    /// With quantised weights vectors of few tokens are rounded to bytes in blocks, each with a scale, and multiplied in whole
    /// numbers; on a GPU, and with quantised weights on a CPU that has AMX, the factors of products of many tokens are rounded
    /// to bfloat16, or, with VNNI and without AMX, those vectors to two bytes.
    #[default]
    Rounded,
    /// On a CPU without AMX vectors of many tokens are rounded to one byte too: faster still, and as exact as bytes are.
    Bytes,
    /// They are float32 for any number of tokens.
    Float,
}

/// Opens the decoder in a GGUF file (the first, if there are several) or in a folder with `config.json` and safetensors.
/// Weights are mapped and read when they are used.
#[track_caller]
pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Decoder> {
    let _c = frit_tensor::call("load");
    let adapting = options.adapter.as_ref().map(|folder| Adapting::read(folder, options.is_merged));
    Ok(read(path.as_ref(), options, families::FAMILIES, adapting.transpose()?, Decoder::read)?.0)
}

/// Opens a decoder whose products have a new adapter, which is to be trained.
#[track_caller]
pub fn open_to_tune(path: impl AsRef<Path>, options: &Options, lora: &Lora) -> Result<(Decoder, Adapter)> {
    let _c = frit_tensor::call("load");
    let adapting = Some(Adapting::fresh(lora)?);
    let (model, adapter) = read(path.as_ref(), options, families::FAMILIES, adapting, Decoder::read)?;
    let adapter = adapter.ok_or_else(|| Error::new("load", "the model took no adapter"))?;
    Ok((model, adapter))
}

/// Opens the encoder in such a file or folder.
#[track_caller]
pub fn open_encoder(path: impl AsRef<Path>) -> Result<Encoder> {
    let _c = frit_tensor::call("load");
    Ok(read(path.as_ref(), &Options::default(), families::ENCODERS, None, Encoder::read)?.0)
}

/// Whether a file or folder has an encoder, which embeds texts and generates none.
#[track_caller]
pub fn is_encoder(path: impl AsRef<Path>) -> Result<bool> {
    let path = path.as_ref();
    let _c = frit_tensor::call("load");
    let keys = match path.is_dir() {
        true => Keys::of_json(&config_of(path)?)?,
        false => Keys::of_gguf(&Gguf::open(path)?)?,
    };
    Ok(families::find(families::ENCODERS, keys.architecture()).is_ok())
}

/// What makes a model of weights and a configuration.
type Make<T> = fn(&Weights, Config) -> Result<T>;

fn read<T>(
    path: &Path,
    options: &Options,
    families: &[&'static Family],
    adapting: Option<Adapting>,
    make: Make<T>,
) -> Result<(T, Option<Adapter>)> {
    let named = |e: Error| match e.message().contains(&*path.to_string_lossy()) {
        true => e,
        false => Error::new("load", format!("{}: {}", path.display(), e.message())),
    };
    let read = || {
        let (keys, weights, config) = match path.is_dir() {
            true => read_folder(path, options, families),
            false => read_gguf(path, options, families),
        }?;
        finish(&keys, weights, config, options, adapting, make)
    };
    read().map_err(named)
}

/// What a file says, before any weight is asked for.
type Found = (Keys, Weights, Config);

fn read_gguf(path: &Path, options: &Options, families: &[&'static Family]) -> Result<Found> {
    let file = Gguf::open(path)?;
    let keys = Keys::of_gguf(&file)?;
    let family = families::find(families, keys.architecture())?;
    let mut config = (family.config)(&keys, options.context)?;
    let weights = Weights::of_gguf(file, family.names);
    read_factors(&weights, &keys, options, &mut config)?;
    Ok((keys, weights, config))
}

fn read_folder(folder: &Path, options: &Options, families: &[&'static Family]) -> Result<Found> {
    let keys = Keys::of_json(&config_of(folder)?)?;
    let family = families::find(families, keys.architecture())?;
    let keys = keys.or_default(family.defaults);
    let mut config = (family.config)(&keys, options.context)?;
    if config.is_bidirectional {
        sentence::read(folder, &mut config)?;
    }
    Ok((keys, Weights::of_folder(folder, family.names)?, config))
}

fn config_of(folder: &Path) -> Result<String> {
    let path = folder.join("config.json");
    std::fs::read_to_string(&path).map_err(|e| Error::new("load", format!("{}: {e}", path.display())))
}

fn finish<T>(
    keys: &Keys,
    mut weights: Weights,
    mut config: Config,
    options: &Options,
    adapting: Option<Adapting>,
    make: Make<T>,
) -> Result<(T, Option<Adapter>)> {
    keys.finish()?;
    if let Some(n) = options.context {
        if n == 0 || (config.rope.is_none() && n > config.context) {
            let message = format!("a context of {n}: the model has {} positions", config.context);
            return Err(Error::new("load", message));
        }
        if config.rope.is_some() {
            config.context = n;
        }
    }
    if let Some(adapting) = adapting {
        weights.adapt(adapting, config.head, config.rope.as_ref().is_some_and(|r| r.interleaved));
    }
    if options.is_unpacked {
        weights.unpack();
    }
    if options.products != Products::Float {
        weights.round(options.products == Products::Bytes)?;
        config.is_rounded = weights.rounding().is_narrow(None);
    }
    let model = make(&weights, config)?;
    weights.finish()?;
    Ok((model, weights.into_adapter()?))
}

/// GGUF has factors of frequencies as tensors.
fn read_factors(w: &Weights, keys: &Keys, options: &Options, config: &mut Config) -> Result<()> {
    let original = keys.size("rope.scaling.original_context_length")?.unwrap_or(config.context);
    let is_long = options.context.unwrap_or(config.context) > original;
    let names =
        ["rope_freqs.weight", if is_long { "rope_factors_long.weight" } else { "rope_factors_short.weight" }];
    let Some(rope) = &mut config.rope else { return Ok(()) };
    let Some(name) = names.into_iter().find(|n| w.has(n)) else {
        return match &rope.scaling {
            // the keys say that there are some
            Scaling::Factors { .. } => Err(Error::new("load", format!("no tensor {}", names[1]))),
            _ => Ok(()),
        };
    };
    let factors = w.find(name)?.to_vec::<f32>()?.into_iter().map(f64::from).collect();
    let magnitude = keys.positive("rope.scaling.attn_factor")?.unwrap_or(1.0);
    let factors = check_factors(name, factors, rope.dims / 2)?;
    rope.scaling = Scaling::Factors { factors, magnitude };
    Ok(())
}
