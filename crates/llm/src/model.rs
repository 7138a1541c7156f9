//! A model as it is opened: a GGUF file, or a folder of Hugging Face.

use crate::config::Config;
use crate::decoder::Decoder;
use crate::encoder::Encoder;
use crate::families::{self, Family};
use crate::keys::Keys;
use crate::rope::Scaling;
use crate::weights::Weights;
use frit_nn::gguf::Gguf;
use frit_tensor::{Error, Result};
use std::path::Path;

/// How a model is opened.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Positions that are wanted at most; those the model was made for if not said.
    pub context: Option<usize>,
}

/// Opens the decoder in a GGUF file (the first, if there are several) or in a folder with `config.json` and safetensors.
/// Weights are mapped and read when they are used.
#[track_caller]
pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Decoder> {
    let _c = frit_tensor::call("load");
    read(path.as_ref(), options, families::FAMILIES, Decoder::read)
}

/// Opens the encoder in such a file or folder.
#[track_caller]
pub fn open_encoder(path: impl AsRef<Path>) -> Result<Encoder> {
    let _c = frit_tensor::call("load");
    read(path.as_ref(), &Options::default(), families::ENCODERS, Encoder::read)
}

/// What makes a model of weights and a configuration.
type Make<T> = fn(&Weights, Config) -> Result<T>;

fn read<T>(path: &Path, options: &Options, families: &[&'static Family], make: Make<T>) -> Result<T> {
    let named = |e: Error| match e.message().contains(&*path.to_string_lossy()) {
        true => e,
        false => Error::new("load", format!("{}: {}", path.display(), e.message())),
    };
    let read = || match path.is_dir() {
        true => read_folder(path, options, families, make),
        false => read_gguf(path, options, families, make),
    };
    read().map_err(named)
}

fn read_gguf<T>(path: &Path, options: &Options, families: &[&'static Family], make: Make<T>) -> Result<T> {
    let file = Gguf::open(path)?;
    let keys = Keys::of_gguf(&file)?;
    let mut config = (families::find(families, keys.architecture())?.config)(&keys, options.context)?;
    let weights = Weights::of_gguf(file);
    read_factors(&weights, &keys, options, &mut config)?;
    finish(&keys, &weights, config, options, make)
}

fn read_folder<T>(
    folder: &Path,
    options: &Options,
    families: &[&'static Family],
    make: Make<T>,
) -> Result<T> {
    let path = folder.join("config.json");
    let text = std::fs::read_to_string(&path);
    let text = text.map_err(|e| Error::new("load", format!("{}: {e}", path.display())))?;
    let keys = Keys::of_json(&text)?;
    let family = families::find(families, keys.architecture())?;
    let config = (family.config)(&keys, options.context)?;
    let weights = Weights::of_folder(folder, family.names)?;
    finish(&keys, &weights, config, options, make)
}

fn finish<T>(
    keys: &Keys,
    weights: &Weights,
    mut config: Config,
    options: &Options,
    make: Make<T>,
) -> Result<T> {
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
    let model = make(weights, config)?;
    weights.finish()?;
    Ok(model)
}

/// GGUF has factors of frequencies as tensors.
fn read_factors(w: &Weights, keys: &Keys, options: &Options, config: &mut Config) -> Result<()> {
    let original = keys.size("rope.scaling.original_context_length")?.unwrap_or(config.context);
    let is_long = options.context.unwrap_or(config.context) > original;
    let names =
        ["rope_freqs.weight", if is_long { "rope_factors_long.weight" } else { "rope_factors_short.weight" }];
    let Some(name) = names.into_iter().find(|n| w.has(n)) else { return Ok(()) };
    let factors: Vec<f64> = w.find(name)?.to_vec::<f32>()?.into_iter().map(f64::from).collect();
    let magnitude = keys.number("rope.scaling.attn_factor")?.unwrap_or(1.0);
    let Some(rope) = &mut config.rope else { return Ok(()) };
    if factors.len() * 2 != rope.dims || factors.iter().any(|f| f.is_nan() || *f <= 0.0) {
        let message = format!("{name} has {} factors for {} elements that turn", factors.len(), rope.dims);
        return Err(Error::new("load", message));
    }
    rope.scaling = Scaling::Factors { factors, magnitude };
    Ok(())
}
