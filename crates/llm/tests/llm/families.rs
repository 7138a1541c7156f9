//! One tiny random model a family, from a folder and from GGUF: logits as transformers computes them (`make_models.py`).

use crate::{Folder, data};
use frit_llm::{Embedder, Options, open, open_encoder};
use frit_nn::{StateDict, safetensors};
use frit_tensor::Tensor;

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
    // the converter loses the windows of mistral and qwen
    let has_gguf = !["mistral", "qwen2_window"].contains(&name);
    let files = [Some(data(name)), has_gguf.then(|| data(&format!("{name}.gguf")))];
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
    llama llama_tied llama3 llama_linear llama_yarn mistral mistral_whole mixtral qwen2 qwen2_window qwen3 qwen2_moe
    qwen3_moe gemma gemma2 gemma3 gemma3_linear phi3 phi3_long gpt2
}

#[test]
fn phi3_takes_the_long_factors_past_the_context_of_training() {
    let all = safetensors::load(data("phi3_long/expected_longer.safetensors")).unwrap();
    let ids: Vec<u32> = all["ids"].to_vec::<i32>().unwrap().into_iter().map(|i| i as u32).collect();
    let values = all["values"].to_vec::<f32>().unwrap();
    for path in [data("phi3_long"), data("phi3_long.gguf")] {
        let off = |context: Option<usize>| {
            let model = open(&path, &Options { context, ..Options::default() }).unwrap();
            largest_difference(&model.whole(&ids).unwrap().to_vec().unwrap(), &values)
        };
        for context in [None, Some(64), Some(33)] {
            assert!(off(context) < 2e-4, "{}, {context:?}: off by {}", path.display(), off(context));
        }
        assert!(off(Some(32)) > 0.01, "the short factors give other values");
    }
}

/// Of a folder with several models the one that reads text, whichever way its tensors are called.
#[test]
fn gemma3_with_pictures_reads_text() {
    let (ids, values) = expected("gemma3");
    let folder = std::env::temp_dir().join(format!("frit-llm-pictures-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let text = std::fs::read_to_string(data("gemma3/config.json")).unwrap();
    let write = |text: &str, more: &str| {
        let config = format!(
            r#"{{"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "boi_token_index": 255999,
            "mm_tokens_per_image": 256, "text_config": {text}, "vision_config": {{"hidden_size": 3}}{more}}}"#
        );
        std::fs::write(folder.join("config.json"), config).unwrap();
    };
    let whole = safetensors::load(data("gemma3/model.safetensors")).unwrap();
    for (language, other) in [("language_model.model.", ""), ("model.language_model.", "model.")] {
        let named = |n: &String| n.replacen("model.", language, 1);
        let mut state: StateDict = whole.iter().map(|(n, t)| (named(n), t.clone())).collect();
        for beside in ["vision_tower.head.weight", "multi_modal_projector.mm_input_projection_weight"] {
            state.insert(format!("{other}{beside}"), Tensor::ones([2]));
        }
        // which is that of the tokens, whatever is stored
        state.insert("lm_head.weight".into(), Tensor::ones([2]));
        safetensors::save(folder.join("model.safetensors"), &state).unwrap();
        write(&text, "");
        let model = open(&folder, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
        let logits = model.whole(&ids).and_then(|t| t.to_vec::<f32>()).unwrap();
        let off = largest_difference(&logits, &values);
        assert!(off < 2e-4, "{language}: off by {off}");
    }
    let refused = |says: &str| {
        let why = open(&folder, &Options::default()).err().unwrap().to_string();
        assert!(why.contains(says), "{why}");
    };
    write(&text, r#", "quantization_config": {"bits": 4}"#);
    refused("quantization_config.bits");
    write(
        &text.replace(r#""use_bidirectional_attention": false"#, r#""use_bidirectional_attention": true"#),
        "",
    );
    refused("see later ones");
    // what most files leave out has the values that transformers takes
    write(&text.replace(r#""num_attention_heads": 4,"#, "").replace(r#""head_dim": 8,"#, ""), "");
    refused("not [2048, 16]");
    write("{}", "");
    refused("hidden_size");
    std::fs::remove_dir_all(&folder).unwrap();
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
fn encoders_of_other_shapes_are_named() {
    let folder = Folder::new("encoders");
    std::fs::create_dir_all(&folder.0).unwrap();
    let config = std::fs::read_to_string(data("bert/config.json")).unwrap();
    std::fs::copy(data("bert/model.safetensors"), folder.0.join("model.safetensors")).unwrap();
    let others = [
        "RobertaModel",
        "XLMRobertaModel",
        "DistilBertModel",
        "MPNetModel",
        "NomicBertModel",
        "ModernBertModel",
    ];
    for architecture in others {
        std::fs::write(folder.0.join("config.json"), config.replace("BertModel", architecture)).unwrap();
        assert!(!frit_llm::is_encoder(&folder.0).unwrap());
        for why in [open_encoder(&folder.0).err(), open(&folder.0, &Options::default()).err()] {
            let why = why.unwrap().to_string();
            assert!(why.contains(&format!("the architecture {architecture:?} is not known")), "{why}");
        }
    }
    std::fs::write(folder.0.join("config.json"), &config).unwrap();
    assert!(frit_llm::is_encoder(&folder.0).unwrap() && open_encoder(&folder.0).is_ok());
}

#[test]
fn nothing_compiles_after_an_embedder_warmed_up() {
    let mut embedder = Embedder::new(open_encoder(data("bert")).unwrap());
    embedder.warm_up().unwrap();
    let made = || {
        let s = frit_engine::stats::stats();
        [s.compiles, s.schedules, s.captures]
    };
    let before = made();
    for length in [1, 15, 16, 17, 32, 40, 64] {
        embedder.embed(&vec![3; length]).unwrap();
    }
    assert_eq!(made(), before, "kernels compiled, graphs scheduled, programs recorded");
}

#[test]
fn tensors_that_are_missing_too_many_or_of_another_shape_are_named() {
    let folder = std::env::temp_dir().join(format!("frit-llm-tensors-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(data("llama/config.json"), folder.join("config.json")).unwrap();
    let whole = safetensors::load(data("llama/model.safetensors")).unwrap();
    let refused = |change: &dyn Fn(&mut StateDict), says: &str| {
        let mut state = whole.clone();
        change(&mut state);
        safetensors::save(folder.join("model.safetensors"), &state).unwrap();
        let why = open(&folder, &Options::default()).err().unwrap().to_string();
        assert!(why.contains(says), "{why}");
    };
    let name = "model.layers.1.self_attn.q_proj.weight";
    refused(&|s| drop(s.remove(name)), name);
    refused(&|s| drop(s.insert("model.layers.0.new".into(), Tensor::ones([1]))), "model.layers.0.new");
    refused(&|s| drop(s.insert(name.into(), Tensor::ones([2, 24]))), "[2, 24], not [24, 24]");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_guide_names_every_architecture() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/models.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let folder = std::env::temp_dir().join(format!("frit-llm-families-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.json"), r#"{"architectures": ["Nothing"]}"#).unwrap();
    let errors = [open(&folder, &Options::default()).err(), open_encoder(&folder).err()];
    std::fs::remove_dir_all(&folder).unwrap();
    let mut count = 0;
    for error in errors.into_iter().flatten() {
        let (_, known) = error.message().split_once("only ").unwrap();
        for name in known.split(", ") {
            assert!(guide.contains(&format!("`{name}`")), "{name}");
            count += 1;
        }
    }
    assert!(count > 15, "{count}");
}
