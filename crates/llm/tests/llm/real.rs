//! Real files, where there are any: `FRIT_FILES=folder` with files of these names, anywhere below it.

use crate::data;
use frit_llm::blocks::BLOCK;
use frit_llm::cache::CacheType;
use frit_llm::step::{Chunk, Sizes, Stepper};
use frit_llm::{Options, open};
use frit_nn::safetensors;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.flatten().map(|e| e.path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|e| e.is_dir());
    let here = files.into_iter().find(|f| f.file_name().is_some_and(|n| n == name));
    here.or_else(|| folders.iter().find_map(|f| find(f, name)))
}

/// A file, or why there is none.
fn real(name: &str) -> Option<PathBuf> {
    let found = std::env::var("FRIT_FILES").ok().and_then(|f| find(Path::new(&f), name));
    if found.is_none() {
        println!("FRIT_FILES names no folder with {name}: not tested");
    }
    found
}

/// Texts that llama.cpp wrote, read by frit: where float64 of the same weights has a clear winner, frit has the same, and
/// the likeliest logits are those of float64 (`make_truth.py`).
#[test]
fn smollm2_says_what_llama_cpp_and_float64_say() {
    let Some(path) = real("SmolLM2-135M-Instruct.Q4_1.gguf") else { return };
    let truth = safetensors::load(data("smollm2.safetensors")).unwrap();
    let ints = |name: &str| truth[name].to_vec::<i32>().unwrap();
    let (lengths, tokens, ids) = (ints("lengths"), ints("tokens"), ints("ids"));
    let logits = truth["logits"].to_vec::<f32>().unwrap();
    let model = open(path, &Options { context: Some(256), ..Options::default() }).unwrap();
    let width = model.tokens();
    let (step, answer, top) = (32, 64, 8);
    let sizes = Sizes { rows: vec![1], chunks: vec![step] };
    let mut stepper = Stepper::new(Arc::new(model), 17, CacheType::F32, sizes).unwrap();
    let [mut equal, mut close, mut positions] = [0; 3];
    let (mut worst, mut begin, mut row) = (0f32, 0, 0);
    for length in lengths.into_iter().map(|n| n as usize) {
        let text: Vec<u32> = tokens[begin..begin + length].iter().map(|t| *t as u32).collect();
        begin += length;
        let mut all = vec![];
        for at in (0..length).step_by(step) {
            let part = &text[at..(at + step).min(length)];
            let blocks: Vec<u32> = (1..=(at + part.len()).div_ceil(BLOCK) as u32).collect();
            let chunk = Chunk { tokens: part, begin: at, blocks: &blocks, all: true };
            all.extend(stepper.run(&[], Some(chunk)).unwrap());
        }
        for at in length - answer..length {
            let ours = &all[(at - 1) * width..at * width];
            let (ids, logits) = (&ids[row * top..][..top], &logits[row * top..][..top]);
            row += 1;
            positions += 1;
            let off = ids.iter().zip(logits).map(|(i, l)| (ours[*i as usize] - l).abs());
            worst = off.fold(worst, f32::max);
            let likeliest = (0..width).max_by(|a, b| ours[*a].total_cmp(&ours[*b])).unwrap();
            match (likeliest as u32 == text[at], logits[0] - logits[1] < 0.05) {
                (true, _) => equal += 1,
                (false, true) => close += 1,
                // llama.cpp rounds inputs to 8 bits: there float64 decides
                (false, false) => assert_eq!(likeliest as i32, ids[0], "position {at}: {logits:?}"),
            }
        }
    }
    println!(
        "{positions} positions: {equal} as llama.cpp, {close} within 0.05 of it, {} where only float64 agrees; logits off by {worst}",
        positions - equal - close
    );
    assert_eq!(positions, 640);
    assert!(worst < 0.02, "logits are off by {worst}");
}
