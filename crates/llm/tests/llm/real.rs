//! Real files, where there are any: `FRIT_FILES=folder` with those that `tests-data/fetch.py` fetches, anywhere below it.

use crate::data;
use crate::families::largest_difference;
use crate::files;
use frit_llm::blocks::BLOCK;
use frit_llm::cache::CacheType;
use frit_llm::engine::{Engine, Event, Request, Settings};
use frit_llm::step::{Chunk, Sizes, Stepper};
use frit_llm::{Options, Products, open, open_encoder};
use frit_nn::{StateDict, safetensors};
use frit_tensor::{Blob, DType, Tensor};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.flatten().map(|e| e.path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|e| e.is_dir());
    let here = files.into_iter().find(|f| f.file_name().is_some_and(|n| n == name));
    here.or_else(|| folders.iter().find_map(|f| find(f, name)))
}

/// A file of those that `tests-data/fetch.py` fetches; none where nothing is fetched.
fn real(name: &str) -> Option<PathBuf> {
    let folder = files()?;
    Some(
        find(&folder, name)
            .unwrap_or_else(|| panic!("{} has no {name}: tests-data/fetch.py", folder.display())),
    )
}

/// Texts that llama.cpp wrote, read by frit: where float64 of the same weights has a clear winner, frit has the same, and
/// the likeliest logits are those of float64 (`make_truth.py`).
#[test]
fn smollm2_says_what_llama_cpp_and_float64_say() {
    let Some(path) = real("SmolLM2-135M-Instruct.Q4_1.gguf") else { return };
    let (worst, _, lost) = read_what_llama_cpp_wrote(&path, Products::Float);
    assert!(worst < 0.02, "logits are off by {worst}");
    assert!(lost.is_empty(), "{lost:?}");
    let (worst, largest, lost) = read_what_llama_cpp_wrote(&path, Products::Rounded);
    assert!(lost.is_empty(), "{lost:?}");
    // Nine products of a layer and the head follow each other. Where a unit multiplies bfloat16, each of their two factors is
    // off by 2^-9 of itself at most, each by another part, so that errors grow as the root of their number
    let most = 2f32.powi(-9) * (2.0 * (30.0 * 9.0 + 1.0f32)).sqrt() * largest;
    assert!(worst < most, "logits of up to {largest} are off by {worst}, more than {most}");
    // Bytes are off by half of what 127 of them are, which is less than 2^-8 of a block's greatest; only one factor is rounded.
    // Where two answers are as near as that, either may be likelier
    let (worst, largest, lost) = read_what_llama_cpp_wrote(&path, Products::Bytes);
    let most = 2f32.powi(-8) * (30.0 * 9.0 + 1.0f32).sqrt() * largest;
    assert!(worst < most, "logits of up to {largest} are off by {worst}, more than {most}");
    assert!(
        lost.iter().all(|margin| *margin < 2.0 * worst) && lost.len() < 640 / 50,
        "{lost:?} with {worst}"
    );
}

/// By how much the likeliest logits are off, the largest of them, and by how much an answer is the likeliest in float64 where
/// ours is another, and not llama.cpp's.
fn read_what_llama_cpp_wrote(path: &Path, products: Products) -> (f32, f32, Vec<f32>) {
    let truth = safetensors::load(data("smollm2.safetensors")).unwrap();
    let ints = |name: &str| truth[name].to_vec::<i32>().unwrap();
    let (lengths, tokens, ids) = (ints("lengths"), ints("tokens"), ints("ids"));
    let logits = truth["logits"].to_vec::<f32>().unwrap();
    let model = open(path, &Options { context: Some(256), products, ..Options::default() }).unwrap();
    let width = model.tokens();
    let (step, answer, top) = (64, 64, 8);
    let sizes = Sizes { rows: vec![1], chunks: vec![step] };
    let mut stepper = Stepper::new(Arc::new(model), 17, CacheType::F32, sizes).unwrap();
    let [mut equal, mut close, mut positions] = [0; 3];
    let (mut worst, mut begin, mut row) = (0f32, 0, 0);
    let mut lost: Vec<f32> = vec![];
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
                (false, false) if likeliest as i32 != ids[0] => lost.push(logits[0] - logits[1]),
                (false, false) => {}
            }
        }
    }
    println!(
        "{products:?}, {positions} positions: {equal} as llama.cpp, {close} within 0.05 of it, {} where only float64 agrees, none in {lost:?}; logits off by {worst}",
        positions - equal - close - lost.len()
    );
    assert_eq!(positions, 640);
    (worst, logits.iter().fold(0f32, |most, l| most.max(l.abs())), lost)
}

/// A folder of Hugging Face with what a file of llama2.c says.
fn folder_of_stories(path: &Path) -> PathBuf {
    let blob = Blob::open(path).unwrap();
    let mut at = 28;
    let head = Tensor::from_blob(DType::I32, &blob.slice(0..at).unwrap(), [7]).to_vec::<i32>().unwrap();
    let [dim, hidden, layers, heads, kv, words, length] = head[..] else { unreachable!() };
    assert!(words > 0, "the head's weight is that of the tokens");
    let mut state = StateDict::new();
    let mut take = |name: &str, dims: &[i32]| {
        let bytes = 4 * dims.iter().product::<i32>() as usize;
        let dims: Vec<usize> = dims.iter().map(|d| *d as usize).collect();
        let t = Tensor::from_blob(DType::F32, &blob.slice(at..at + bytes).unwrap(), &dims[..]);
        at += bytes;
        match name.split_once("{}") {
            None => drop(state.insert(format!("model.{name}.weight"), t)),
            Some((before, after)) => state.extend(
                (0..layers).map(|i| (format!("model.{before}{i}{after}.weight"), t.select(0, i as i64))),
            ),
        }
    };
    let of_keys = dim / heads * kv;
    take("embed_tokens", &[words, dim]);
    take("layers.{}.input_layernorm", &[layers, dim]);
    take("layers.{}.self_attn.q_proj", &[layers, dim, dim]);
    take("layers.{}.self_attn.k_proj", &[layers, of_keys, dim]);
    take("layers.{}.self_attn.v_proj", &[layers, of_keys, dim]);
    take("layers.{}.self_attn.o_proj", &[layers, dim, dim]);
    take("layers.{}.post_attention_layernorm", &[layers, dim]);
    take("layers.{}.mlp.gate_proj", &[layers, hidden, dim]);
    take("layers.{}.mlp.down_proj", &[layers, dim, hidden]);
    take("layers.{}.mlp.up_proj", &[layers, hidden, dim]);
    take("norm", &[dim]);
    let folder = std::env::temp_dir().join(format!("frit-llm-stories-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    safetensors::save(folder.join("model.safetensors"), &state).unwrap();
    let config = format!(
        r#"{{"architectures": ["LlamaForCausalLM"], "hidden_size": {dim}, "intermediate_size": {hidden},
        "num_hidden_layers": {layers}, "num_attention_heads": {heads}, "num_key_value_heads": {kv}, "vocab_size": {words},
        "max_position_embeddings": {length}, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "rope_interleaved": true,
        "tie_word_embeddings": true}}"#
    );
    std::fs::write(folder.join("config.json"), config).unwrap();
    folder
}

/// The story that float64 tells (`make_real.py`), token by token, and its logits.
#[test]
fn stories15m_tells_the_story_that_float64_tells() {
    let Some(path) = real("stories15M.bin") else { return };
    let truth = safetensors::load(data("real.safetensors")).unwrap();
    let ints = |name: &str| truth[name].to_vec::<i32>().unwrap();
    let (ids, logits) = (ints("stories.ids"), truth["stories.logits"].to_vec::<f32>().unwrap());
    let tokens: Vec<u32> = ints("stories.tokens").into_iter().map(|t| t as u32).collect();
    let folder = folder_of_stories(&path);
    let model = Arc::new(open(&folder, &Options::default()).unwrap_or_else(|e| panic!("{e}")));
    let (width, count) = (model.tokens(), tokens.len() - 1);
    let ours = model.whole(&tokens[..count]).unwrap().to_vec::<f32>().unwrap();
    let top = ids.len() / count;
    let ours: Vec<f32> = ids.iter().enumerate().map(|(i, id)| ours[i / top * width + *id as usize]).collect();
    let off = largest_difference(&ours, &logits);
    assert_eq!((count, ours.len()), (64, 64 * 8));
    assert!(off < 2e-4, "logits are off by {off}");
    let settings = Settings { cache: CacheType::F32, positions: 256, ..Settings::default() };
    let mut engine = Engine::new(model, settings).unwrap();
    engine.submit(Request::new(tokens[..1].to_vec(), count)).unwrap();
    let mut told = tokens[..1].to_vec();
    while !engine.is_idle() {
        let tokens = engine.step().unwrap().into_iter().filter_map(|e| match e {
            Event::Token { token, .. } => Some(token),
            Event::Done { .. } => None,
        });
        told.extend(tokens);
    }
    assert_eq!(told, tokens);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Vectors of texts as onnxruntime makes them with the ONNX export of the same model (`make_real.py`).
#[test]
fn minilm_embeds_as_its_onnx_export_does() {
    let truth = safetensors::load(data("real.safetensors")).unwrap();
    // the folder has the weights of the export; with weights in bytes the vectors are only close
    let files = [
        (real("sentence_bert_config.json").and_then(|f| f.parent().map(PathBuf::from)), 1e-6),
        (real("all-MiniLM-L6-v2-Q8_0.gguf"), 1e-2),
    ];
    for (path, within) in files {
        let Some(path) = path else { return };
        let model = open_encoder(&path).unwrap_or_else(|e| panic!("{e}"));
        let (mut ours, mut want) = (vec![], vec![]);
        for i in 0.. {
            let Some(ids) = truth.get(&format!("minilm.{i}.ids")) else { break };
            let ids: Vec<u32> = ids.to_vec::<i32>().unwrap().into_iter().map(|t| t as u32).collect();
            ours.extend(model.embed(&ids).unwrap().to_vec::<f32>().unwrap());
            want.extend(truth[&format!("minilm.{i}.vector")].to_vec::<f32>().unwrap());
        }
        assert_eq!(want.len(), 4 * 384);
        let worst = largest_difference(&ours, &want);
        assert!(worst < within, "{}: off by {worst}", path.display());
    }
}
