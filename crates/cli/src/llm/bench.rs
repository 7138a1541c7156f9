//! `frit llm bench`: tokens a second, in the table that llama-bench prints.

use super::Done;
use super::options::Given;
use frit_llm::blocks::BLOCK;
use frit_llm::step::{Chunk, Row, Sizes, Stepper};
use frit_llm::{Options, open};
use std::sync::Arc;
use std::time::Instant;

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
    let name = model.config().architecture.clone();
    let (layers, width) = (model.config().layers, model.config().width);
    let sizes = Sizes { rows: vec![streams], chunks: vec![pp.max(1)] };
    let each = longest.div_ceil(BLOCK);
    let blocks: Vec<u32> = (1..=(streams * each) as u32).collect();
    let tokens = model.tokens() as u32;
    let stepper = Stepper::new(Arc::new(model), blocks.len() + 1, kind, sizes);
    let mut stepper = stepper.map_err(|e| e.to_string())?;
    let token = |i: usize| (i as u32).wrapping_mul(2_654_435_761) % tokens;
    let prompt: Vec<u32> = (0..pp).map(token).collect();
    let device = frit::engine::default_device().map_err(|e| e.to_string())?;
    println!("| model | layers | width | device | threads | test | t/s |");
    println!("| --- | ---: | ---: | --- | ---: | ---: | ---: |");
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
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
        println!("| {name} | {layers} | {width} | {device} | {threads} | {test} | {mean:.2} ± {spread:.2} |");
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
