//! `frit llm bench`: tokens a second, in the table that llama-bench prints.

use super::Done;
use super::options::Given;
use frit::nn::gguf::{Gguf, Info};
use frit::nn::load;
use frit_llm::blocks::BLOCK;
use frit_llm::step::{Chunk, Row, Sizes, Stepper};
use frit_llm::{Options, open};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// A model as it lies in its file.
struct Stored {
    /// Its family, and what most of its weights are.
    name: String,
    bytes: usize,
    params: usize,
}

impl Stored {
    fn read(path: &Path, family: &str) -> frit::Result<Stored> {
        let tensors: Vec<(String, usize, usize)> = if path.is_dir() {
            let index = path.join("model.safetensors.index.json");
            let file = if index.exists() { index } else { path.join("model.safetensors") };
            let one =
                |t: &frit::Tensor| Ok((t.dtype().to_string(), t.numel()? * t.dtype().size(), t.numel()?));
            load(file)?.values().map(one).collect::<frit::Result<_>>()?
        } else {
            let one = |i: &Info| (i.kind.to_string(), i.bytes.len(), i.shape.iter().product());
            Gguf::open(path)?.tensors().values().map(one).collect()
        };
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for (kind, bytes, _) in &tensors {
            *kinds.entry(kind).or_default() += bytes;
        }
        let most = kinds.iter().max_by_key(|k| k.1).map_or("", |k| k.0);
        let (bytes, params) = (tensors.iter().map(|t| t.1).sum(), tensors.iter().map(|t| t.2).sum());
        Ok(Stored { name: format!("{family} {most}"), bytes, params })
    }
}

/// The first three columns.
impl fmt::Display for Stored {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (mib, millions) = (self.bytes as f64 / f64::from(1 << 20), self.params as f64 / 1e6);
        let size = if mib < 1024.0 { format!("{mib:.2} MiB") } else { format!("{:.2} GiB", mib / 1024.0) };
        let params =
            if millions < 1e3 { format!("{millions:.2} M") } else { format!("{:.2} B", millions / 1e3) };
        write!(f, "{} | {size} | {params}", self.name)
    }
}

/// Measures reading a prompt and writing tokens.
pub fn run(path: &str, words: &[&str]) -> Done {
    let mut given = Given::of(words)?;
    let (pp, tg): (usize, usize) = (given.number("pp")?.unwrap_or(512), given.number("tg")?.unwrap_or(128));
    let (repeat, kind) = (given.number::<usize>("repeat")?.unwrap_or(5).max(1), given.cache()?);
    let products = given.opening()?.products;
    let streams = given.number::<usize>("streams")?.unwrap_or(1).max(1);
    given.finish()?;
    let longest = pp.max(tg).max(1);
    let made_for = open(path, &Options { products, ..Options::default() }).map_err(|e| e.to_string())?;
    let context = made_for.config().context;
    drop(made_for);
    if longest > context {
        return Err(format!("{longest} tokens: the model's context has {context}"));
    }
    let model = open(path, &Options { context: Some(longest), products, ..Options::default() })
        .map_err(|e| e.to_string())?;
    let stored = Stored::read(Path::new(path), &model.config().architecture).map_err(|e| e.to_string())?;
    let sizes = Sizes { rows: vec![streams], chunks: vec![pp.max(1)] };
    let each = longest.div_ceil(BLOCK);
    let blocks: Vec<u32> = (1..=(streams * each) as u32).collect();
    let tokens = model.tokens() as u32;
    let stepper = Stepper::new(Arc::new(model), blocks.len() + 1, kind, sizes);
    let mut stepper = stepper.map_err(|e| e.to_string())?;
    let token = |i: usize| (i as u32).wrapping_mul(2_654_435_761) % tokens;
    let prompt: Vec<u32> = (0..pp).map(token).collect();
    let device = frit::engine::default_device().map_err(|e| e.to_string())?;
    let threads = frit::engine::devices::threads().map_err(|e| e.to_string())?;
    println!("| model | size | params | backend | threads | test | t/s |");
    println!("| --- | ---: | ---: | --- | ---: | ---: | ---: |");
    let row = |test: String, count: usize, run: &mut dyn FnMut() -> frit::Result<()>| -> Done {
        let mut rates = vec![];
        // called, recorded, then measured
        for i in 0..repeat + 2 {
            let begin = Instant::now();
            run().map_err(|e| e.to_string())?;
            if i >= 2 {
                rates.push(count as f64 / begin.elapsed().as_secs_f64());
            }
        }
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        let spread = rates.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / rates.len() as f64;
        let spread = spread.sqrt();
        println!("| {stored} | {device} | {threads} | {test} | {mean:.2} ± {spread:.2} |");
        Ok(())
    };
    if pp > 0 {
        let chunk = Chunk { tokens: &prompt, begin: 0, blocks: &blocks[..pp.div_ceil(BLOCK)], all: false };
        row(format!("pp{pp}"), pp, &mut || stepper.step(&[], Some(chunk))?.most_likely().map(|_| ()))?;
    }
    if tg > 0 {
        let mut write = || -> frit::Result<()> {
            for position in 0..tg {
                let rows = blocks.chunks(each).enumerate().map(|(stream, blocks)| Row {
                    token: token(position + stream),
                    position,
                    blocks: &blocks[..position / BLOCK + 1],
                });
                stepper.step(&rows.collect::<Vec<_>>(), None)?.most_likely()?;
            }
            Ok(())
        };
        let test = if streams == 1 { format!("tg{tg}") } else { format!("tg{tg} x {streams}") };
        row(test, tg * streams, &mut write)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_in_units_that_fit() {
        let stored = |bytes, params| Stored { name: "llama Q4_K".into(), bytes, params }.to_string();
        assert_eq!(stored(4_920_000_000, 8_030_261_312), "llama Q4_K | 4.58 GiB | 8.03 B");
        assert_eq!(stored(91 << 20, 134_515_008), "llama Q4_K | 91.00 MiB | 134.52 M");
    }
}
