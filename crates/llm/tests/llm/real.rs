//! Real files, where there are any: `FRIT_FILES=folder` with those that `tests-data/fetch.py` fetches, anywhere below it.

use crate::Folder;
use crate::data;
use crate::families::largest_difference;
use crate::files;
use frit_llm::adapter::Lora;
use frit_llm::blocks::BLOCK;
use frit_llm::cache::CacheType;
use frit_llm::engine::{Engine, Event, Request, Settings};
use frit_llm::step::{Chunk, Sizes, Stepper};
use frit_llm::tune::{Example, Rate, Trainer, Tuning};
use frit_llm::{Options, Products, open, open_encoder, open_to_tune};
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

const SMOLLM2: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";

/// Texts that llama.cpp wrote, read by frit: where float64 of the same weights has a clear winner, frit has the same, and
/// the eight likeliest logits are those of float64 (`make_truth.py`).
#[test]
fn smollm2_says_what_llama_cpp_and_float64_say() {
    let Some(path) = real(SMOLLM2) else { return };
    let read = read_what_llama_cpp_wrote(&path, Products::Float, 10, 64);
    assert!(read.worst < 0.02, "logits are off by {}", read.worst);
    assert!(read.lost.is_empty(), "{:?}", read.lost);
    // llama.cpp rounds what its products read to 8 bits. In 7 places of 640 that makes another token likelier than the one that
    // float64 has ahead by 0.05 to 0.19, and there frit has float64's
    assert_eq!((read.equal, read.close, read.theirs.len()), (624, 9, 7));
    assert!(read.theirs.iter().all(|margin| *margin < 0.19), "{:?}", read.theirs);
    let read = read_what_llama_cpp_wrote(&path, Products::Rounded, 10, 64);
    assert!(read.lost.is_empty(), "{:?}", read.lost);
    // Nine products of a layer and the head follow each other. Where a unit multiplies bfloat16, each of their two factors is
    // off by 2^-9 of itself at most, each by another part, so that errors grow as the root of their number
    let most = 2f32.powi(-9) * (2.0 * (30.0 * 9.0 + 1.0f32)).sqrt() * read.largest;
    assert!(
        read.worst < most,
        "logits of up to {} are off by {}, more than {most}",
        read.largest,
        read.worst
    );
    // Bytes are off by half of what 127 of them are, which is less than 2^-8 of a block's greatest; only one factor is rounded.
    // Where two answers are as near as that, either may be likelier. Token by token, as answers are written, products are of
    // bytes wherever the machine sums them
    for (products, texts, step) in [(Products::Bytes, 10, 64), (Products::Rounded, 2, 1)] {
        let Read { worst, largest, lost, .. } = read_what_llama_cpp_wrote(&path, products, texts, step);
        let most = 2f32.powi(-8) * (30.0 * 9.0 + 1.0f32).sqrt() * largest;
        assert!(worst < most, "logits of up to {largest} are off by {worst}, more than {most}");
        let is_few = lost.len() * 50 < texts * 64;
        assert!(is_few && lost.iter().all(|margin| *margin < 2.0 * worst), "{lost:?} with {worst}");
    }
}

/// What frit says at each place of texts that llama.cpp wrote.
#[derive(Debug, Default)]
struct Read {
    /// By how much the likeliest logits are off, and the largest of them.
    worst: f32,
    largest: f32,
    /// Places where llama.cpp has the same token.
    equal: usize,
    /// Others where the two likeliest of float64 are less than 0.05 apart.
    close: usize,
    /// Others where float64 has our token and not llama.cpp's: by how much it is the likeliest.
    theirs: Vec<f32>,
    /// Others where neither has our token: by how much float64's is the likeliest.
    lost: Vec<f32>,
}

/// The tokens that end texts: llama.cpp was told to write on.
const ENDS: [usize; 2] = [0, 2];

/// The first so many texts, so many tokens at a time.
fn read_what_llama_cpp_wrote(path: &Path, products: Products, texts: usize, step: usize) -> Read {
    let truth = safetensors::load(data("smollm2.safetensors")).unwrap();
    let ints = |name: &str| truth[name].to_vec::<i32>().unwrap();
    let (lengths, tokens, ids) = (ints("lengths"), ints("tokens"), ints("ids"));
    let logits = truth["logits"].to_vec::<f32>().unwrap();
    let model = open(path, &Options { context: Some(256), products, ..Options::default() }).unwrap();
    let width = model.tokens();
    let (answer, top) = (64, 8);
    let sizes = Sizes { rows: vec![1], chunks: vec![step] };
    let mut stepper = Stepper::new(Arc::new(model), 17, CacheType::F32, sizes).unwrap();
    assert_eq!((lengths.len(), ids.len()), (10, 10 * answer * top));
    let (mut begin, mut rows) = (0, ids.chunks(top).zip(logits.chunks(top)));
    let mut read = Read { largest: logits.iter().fold(0.0, |most, l| most.max(l.abs())), ..Read::default() };
    for length in lengths.into_iter().take(texts).map(|n| n as usize) {
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
            let likeliest: Vec<(usize, f32)> = rows
                .next()
                .map(|(ids, l)| ids.iter().map(|i| *i as usize).zip(l.iter().copied()).collect())
                .unwrap();
            let off = likeliest.iter().map(|(i, logit)| (ours[*i] - logit).abs());
            read.worst = off.fold(read.worst, f32::max);
            let mut written = likeliest.iter().filter(|(i, _)| !ENDS.contains(i));
            let (first, second) = (written.next().unwrap(), written.next().unwrap());
            let margin = first.1 - second.1;
            let told = (0..width).filter(|i| !ENDS.contains(i)).max_by(|a, b| ours[*a].total_cmp(&ours[*b]));
            match told.unwrap() {
                t if t as u32 == text[at] => read.equal += 1,
                _ if margin < 0.05 => read.close += 1,
                t if t == first.0 => read.theirs.push(margin),
                _ => read.lost.push(margin),
            }
        }
    }
    assert_eq!(read.equal + read.close + read.theirs.len() + read.lost.len(), texts * answer);
    read
}

/// A number of an adapter's A by its place, as `losses_beside_torch.py` has it.
fn by_formula(place: u32) -> f32 {
    let x = place.wrapping_mul(2_654_435_761);
    let x = (x ^ (x >> 16)).wrapping_mul(2_246_822_519);
    (x >> 8) as f32 / 2f32.powi(28) - 2f32.powi(-5)
}

/// The losses of torch's AdamW and PEFT's adapter on the same tokens (`losses_beside_torch.py`).
#[test]
fn smollm2_learns_as_torch_does() {
    let Some(path) = real(SMOLLM2) else { return };
    let truth = safetensors::load(data("losses.safetensors")).unwrap();
    let floats = |name: &str| truth[name].to_vec::<f32>().unwrap();
    let (losses, before) = (floats("losses"), floats("before"));
    let tokens: Vec<u32> = truth["tokens"].to_vec::<i32>().unwrap().into_iter().map(|t| t as u32).collect();
    let (length, rank) = (32, 8);
    let examples = tokens.windows(length + 1).step_by(length);
    let examples: Vec<Example> =
        examples.map(|t| Example { tokens: t.to_vec(), is_learnt: vec![true; t.len()] }).collect();
    assert_eq!((examples.len(), losses.len()), (40, 20));
    let lora = Lora { rank, alpha: 2.0 * rank as f64, ..Lora::default() };
    let (model, adapter) = open_to_tune(&path, &Options::default(), &lora).unwrap();
    let folder = Folder::new("losses");
    adapter.save(&folder.0, "SmolLM2").unwrap();
    let file = folder.0.join("adapter_model.safetensors");
    let mut place = 0;
    let begin: StateDict = adapter
        .to_state()
        .into_iter()
        .map(|(name, t)| {
            let dims = t.dims().unwrap();
            let count = if name.contains("lora_A") { dims.iter().product::<usize>() as u32 } else { 0 };
            let values: Vec<f32> = (place..place + count).map(by_formula).collect();
            place += count;
            let t = if count > 0 { Tensor::from_slice(&values).reshape(dims) } else { t };
            (name, t)
        })
        .collect();
    safetensors::save(file, &begin).unwrap();
    adapter.load(&folder.0).unwrap();
    let (rate, batch) = (Rate::Constant, 2);
    let tuning =
        Tuning { steps: 20, batch, lr: 5e-4, warmup: 0, rate, is_shuffled: false, ..Tuning::default() };
    let mut run = Trainer::new(model, adapter, examples, tuning).unwrap();
    for (i, want) in losses.iter().enumerate() {
        let ours = run.step().unwrap();
        assert!((ours - want).abs() < 1e-3 * want, "step {}: {ours}, torch {want}", i + 1);
    }
    // what it learns is more than that: without an adapter the last losses are these
    assert!(losses[10..].iter().zip(&before[10..]).all(|(learnt, plain)| *learnt < 0.97 * plain));
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
