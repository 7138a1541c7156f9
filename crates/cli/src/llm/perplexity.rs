//! `frit llm perplexity`: how well a model predicts a text, in windows, as llama-perplexity counts it.

use super::Done;
use super::options::Given;
use frit_llm::blocks::BLOCK;
use frit_llm::chat::text_of;
use frit_llm::sample::log_probabilities;
use frit_llm::step::{Chunk, Sizes, Stepper};
use frit_llm::{Options, open};
use std::sync::Arc;

/// Tokens of a step.
const STEP: usize = 64;

/// Prints the perplexity of a text after each window.
pub fn run(path: &str, file: &str, words: &[&str]) -> Done {
    let mut given = Given::of(words)?;
    let options = given.opening()?;
    let context = options.context.unwrap_or(512);
    let kind = given.cache()?;
    given.finish()?;
    let text = std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
    let about = text_of(path).map_err(|e| e.to_string())?;
    let model = open(path, &Options { context: Some(context), ..options }).map_err(|e| e.to_string())?;
    let tokens = about.tokenizer.encode(&text);
    // a window begins as a text does: a model that was never shown a token before one is not shown it here
    let begins = about.bos.filter(|bos| about.tokenizer.encode("").first() == Some(bos));
    if context < 2 || tokens.len() < context {
        return Err(format!("{file} has {} tokens, a window is {context}", tokens.len()));
    }
    let width = model.tokens();
    let blocks: Vec<u32> = (1..=context.div_ceil(BLOCK) as u32).collect();
    let sizes = Sizes { rows: vec![1], chunks: vec![STEP] };
    let stepper = Stepper::new(Arc::new(model), blocks.len() + 1, kind, sizes);
    let mut stepper = stepper.map_err(|e| e.to_string())?;
    let (mut sum, mut squares, mut count) = (0.0, 0.0, 0usize);
    for (i, window) in tokens.chunks_exact(context).enumerate() {
        let mut window = window.to_vec();
        if let Some(bos) = begins {
            window[0] = bos;
        }
        for begin in (0..context).step_by(STEP) {
            let end = (begin + STEP).min(context);
            let chunk = Chunk {
                tokens: &window[begin..end],
                begin,
                blocks: &blocks[..end.div_ceil(BLOCK)],
                all: end > context / 2,
            };
            let logits = stepper.run(&[], Some(chunk)).map_err(|e| e.to_string())?;
            if !chunk.all {
                continue;
            }
            for (at, logits) in (begin..end).zip(logits.chunks_exact(width)) {
                // the first half is what the model may look back on
                if at < context / 2 || at + 1 >= context {
                    continue;
                }
                let surprise = -f64::from(log_probabilities(logits)[window[at + 1] as usize]);
                (sum, squares, count) = (sum + surprise, squares + surprise * surprise, count + 1);
            }
        }
        let mean = sum / count as f64;
        let deviation = ((squares / count as f64 - mean * mean).max(0.0) / count.max(2) as f64).sqrt();
        let perplexity = mean.exp();
        println!("[{}] perplexity {perplexity:.4} ± {:.4}", i + 1, perplexity * deviation);
    }
    Ok(())
}
