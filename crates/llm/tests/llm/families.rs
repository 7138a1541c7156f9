//! One tiny random model a family, from a folder and from GGUF: logits as transformers computes them (`make_models.py`).

use crate::data;
use frit_llm::{Embedder, Options, open, open_encoder};
use frit_nn::safetensors;

/// What transformers computed for a model: tokens, and a row of values for each.
pub fn expected(name: &str) -> (Vec<u32>, Vec<f32>) {
    let all = safetensors::load(data(name).join("expected.safetensors")).unwrap();
    let ids = all["ids"].to_vec::<i32>().unwrap().into_iter().map(|i| i as u32).collect();
    (ids, all["values"].to_vec::<f32>().unwrap())
}

pub fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, |m, d| if d > m || d.is_nan() { d } else { m })
}

fn check(name: &str) {
    let (ids, values) = expected(name);
    // factors for short contexts are those that transformers takes for so few tokens
    let options = Options { context: name.ends_with("_long").then_some(32), ..Options::default() };
    // the converter loses the window of mistral
    let files = [Some(data(name)), (name != "mistral").then(|| data(&format!("{name}.gguf")))];
    for path in files.into_iter().flatten() {
        let model = open(&path, &options).unwrap_or_else(|e| panic!("{e}"));
        let logits = model.whole(&ids).and_then(|t| t.to_vec::<f32>()).unwrap_or_else(|e| panic!("{e}"));
        let off = largest_difference(&logits, &values);
        // logits are of some tens; in GGUF vectors are float32 and matrices the same float16
        assert!(off < 2e-4, "{}: off by {off}", path.display());
    }
}

macro_rules! families {
    ($($name:ident)*) => { $(#[test] fn $name() { check(stringify!($name)) })* };
}
families! {
    llama llama_tied llama3 llama_linear llama_yarn mistral mixtral qwen2 qwen3 qwen2_moe qwen3_moe
    gemma gemma2 gemma3 phi3 phi3_long gpt2
}

#[test]
fn bert() {
    let (ids, values) = expected("bert");
    for path in [data("bert"), data("bert.gguf")] {
        let model = open_encoder(&path).unwrap_or_else(|e| panic!("{e}"));
        let vectors = model.forward(&ids).and_then(|t| t.to_vec::<f32>()).unwrap_or_else(|e| panic!("{e}"));
        let off = largest_difference(&vectors, &values);
        assert!(off < 2e-4, "{}: off by {off}", path.display());
        let length: f32 = model.embed(&ids).unwrap().to_vec::<f32>().unwrap().iter().map(|v| v * v).sum();
        assert!((length - 1.0).abs() < 1e-5);
        assert!(model.forward(&[40]).is_err() && model.forward(&[]).is_err());
        // padded, by programs that are replayed
        let alone: Vec<Vec<f32>> =
            [3, 17, 9].map(|n| model.embed(&ids[..n]).unwrap().to_vec().unwrap()).into();
        let mut embedder = Embedder::new(model);
        for _ in 0..3 {
            for (n, want) in [3, 17, 9].into_iter().zip(&alone) {
                let off = largest_difference(&embedder.embed(&ids[..n]).unwrap(), want);
                assert!(off < 1e-6, "{n} tokens: off by {off}");
            }
        }
        assert!(embedder.embed(&[]).is_err());
    }
}

#[test]
fn an_architecture_that_is_not_known_is_named() {
    let folder = std::env::temp_dir().join(format!("frit-llm-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.json"), r#"{"architectures": ["NonesuchForCausalLM"]}"#).unwrap();
    let why = open(&folder, &Options::default()).err().unwrap().to_string();
    assert!(why.contains("NonesuchForCausalLM") && why.contains("LlamaForCausalLM"), "{why}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn tensors_that_are_missing_too_many_or_of_another_shape_are_named() {
    let folder = std::env::temp_dir().join(format!("frit-llm-tensors-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(data("llama/config.json"), folder.join("config.json")).unwrap();
    let whole = safetensors::load(data("llama/model.safetensors")).unwrap();
    let refused = |change: &dyn Fn(&mut frit_nn::StateDict), says: &str| {
        let mut state = whole.clone();
        change(&mut state);
        safetensors::save(folder.join("model.safetensors"), &state).unwrap();
        let why = open(&folder, &Options::default()).err().unwrap().to_string();
        assert!(why.contains(says), "{why}");
    };
    let name = "model.layers.1.self_attn.q_proj.weight";
    refused(&|s| drop(s.remove(name)), name);
    refused(
        &|s| drop(s.insert("model.layers.0.new".into(), frit_tensor::Tensor::ones([1]))),
        "model.layers.0.new",
    );
    refused(&|s| drop(s.insert(name.into(), frit_tensor::Tensor::ones([2, 24]))), "[2, 24], not [24, 24]");
    std::fs::remove_dir_all(&folder).unwrap();
}
