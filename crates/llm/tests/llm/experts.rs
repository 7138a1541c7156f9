//! Experts of a folder: they stay as the file has them, and only those are read that are chosen.

use crate::families::largest_difference;
use crate::{Folder, data};
use frit_engine::devices::memory_stats;
use frit_engine::stats::stats;
use frit_llm::{Decoder, Options, Products, open};
use frit_nn::{StateDict, safetensors};
use frit_tensor::{DType, Tensor, manual_seed};

const WIDTH: usize = 64;
const HIDDEN: usize = 256;
/// Bytes of an expert in bfloat16.
const EXPERT: usize = 3 * WIDTH * HIDDEN * 2;

/// A mixtral of one layer with so many experts, of which two are chosen.
fn mixture(folder: &Folder, experts: usize) -> StateDict {
    std::fs::create_dir_all(&folder.0).unwrap();
    let config = format!(
        r#"{{"architectures": ["MixtralForCausalLM"], "vocab_size": 40, "hidden_size": {WIDTH}, "num_hidden_layers": 1,
        "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": {HIDDEN}, "rms_norm_eps": 1e-5,
        "max_position_embeddings": 128, "num_local_experts": {experts}, "num_experts_per_tok": 2, "rope_theta": 1e6}}"#
    );
    std::fs::write(folder.0.join("config.json"), config).unwrap();
    manual_seed(7);
    let mut state = StateDict::new();
    let mut add = |name: &str, rows: usize, columns: usize| {
        let x = Tensor::randn([rows, columns]) * 0.1;
        state.insert(name.to_string(), x.cast(DType::BF16).realize().unwrap());
    };
    add("model.embed_tokens.weight", 40, WIDTH);
    add("lm_head.weight", 40, WIDTH);
    let at = "model.layers.0.";
    for (name, rows) in [("q", WIDTH), ("k", WIDTH / 2), ("v", WIDTH / 2), ("o", WIDTH)] {
        add(&format!("{at}self_attn.{name}_proj.weight"), rows, WIDTH);
    }
    add(&format!("{at}block_sparse_moe.gate.weight"), experts, WIDTH);
    for e in 0..experts {
        for (name, rows, columns) in [("w1", HIDDEN, WIDTH), ("w2", WIDTH, HIDDEN), ("w3", HIDDEN, WIDTH)] {
            add(&format!("{at}block_sparse_moe.experts.{e}.{name}.weight"), rows, columns);
        }
    }
    for name in ["model.norm", &format!("{at}input_layernorm"), &format!("{at}post_attention_layernorm")] {
        state.insert(format!("{name}.weight"), Tensor::ones([WIDTH]).cast(DType::BF16));
    }
    state
}

fn opened(folder: &Folder) -> Decoder {
    open(&folder.0, &Options { products: Products::Float, ..Options::default() })
        .unwrap_or_else(|e| panic!("{e}"))
}

fn logits(model: &Decoder, tokens: &[u32]) -> Vec<f32> {
    model.whole(tokens).unwrap().to_vec().unwrap()
}

#[test]
fn experts_of_a_folder_are_not_copied() {
    // what the allocator holds is the process's, and other tests allocate: this one has a process of its own
    const ALONE: &str = "FRIT_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let name = "experts::experts_of_a_folder_are_not_copied";
        assert!(child.args(["--exact", name]).env(ALONE, "1").status().unwrap().success());
        return;
    }
    let folder = Folder::new("experts-mapped");
    let state = mixture(&folder, 24);
    safetensors::save(folder.0.join("model.safetensors"), &state).unwrap();
    drop(state);
    let device = frit_tensor::Device::current().unwrap();
    let held = || memory_stats(&device).unwrap().in_use;
    let before = held();
    let model = opened(&folder);
    assert!(held() - before < EXPERT, "{} bytes, {EXPERT} an expert", held() - before);
    logits(&model, &[1, 2, 3]);
    assert!(held() - before < 2 * EXPERT, "{} bytes, {EXPERT} an expert", held() - before);
}

#[test]
fn only_the_experts_that_are_chosen_are_read() {
    let bytes = |experts: usize| {
        let folder = Folder::new(&format!("experts-{experts}"));
        safetensors::save(folder.0.join("model.safetensors"), &mixture(&folder, experts)).unwrap();
        let model = opened(&folder);
        logits(&model, &[3]);
        let before = stats();
        logits(&model, &[4]);
        (stats() - before).bytes as usize
    };
    let (few, many) = (bytes(4), bytes(32));
    assert!(few > 2 * EXPERT && many < few + EXPERT, "{few} bytes of 4 experts, {many} of 32, {EXPERT} each");
}

#[test]
fn experts_in_several_files_or_out_of_order_are_the_same() {
    let one = Folder::new("experts-one");
    // twelve: by name the eleventh stands before the third
    let state = mixture(&one, 12);
    safetensors::save(one.0.join("model.safetensors"), &state).unwrap();
    let tokens = [5, 1, 7, 3, 22, 39, 0, 8];
    let want = logits(&opened(&one), &tokens);
    let many = Folder::new("experts-many");
    mixture(&many, 12);
    let mut shards = [StateDict::new(), StateDict::new(), StateDict::new()];
    let mut map = vec![];
    for (i, (name, t)) in state.iter().enumerate() {
        map.push(format!(r#""{name}": "model-{}.safetensors""#, i % 3));
        shards[i % 3].insert(name.clone(), t.clone());
    }
    for (i, shard) in shards.iter().enumerate() {
        safetensors::save(many.0.join(format!("model-{i}.safetensors")), shard).unwrap();
    }
    let index = format!("{{\"weight_map\": {{{}}}}}", map.join(", "));
    std::fs::write(many.0.join("model.safetensors.index.json"), index).unwrap();
    assert!(largest_difference(&logits(&opened(&many), &tokens), &want) < 1e-6);
    // of several types
    let mut other = state.clone();
    let name = "model.layers.0.block_sparse_moe.experts.3.w1.weight";
    other.insert(name.into(), other[name].cast(DType::F32));
    safetensors::save(one.0.join("model.safetensors"), &other).unwrap();
    assert!(largest_difference(&logits(&opened(&one), &tokens), &want) < 1e-6);
    other.insert(name.into(), Tensor::ones([HIDDEN, WIDTH / 2]));
    safetensors::save(one.0.join("model.safetensors"), &other).unwrap();
    let why = open(&one.0, &Options::default()).err().unwrap().to_string();
    assert!(why.contains("experts.3.w1.weight") && why.contains("[256, 32], not [256, 64]"), "{why}");
    other.remove(name);
    safetensors::save(one.0.join("model.safetensors"), &other).unwrap();
    let why = open(&one.0, &Options::default()).err().unwrap().to_string();
    assert!(why.contains("experts.3.w1.weight"), "{why}");
}

#[test]
fn a_folder_in_several_files_is_that_in_one() {
    let folder = Folder::new("sharded");
    std::fs::create_dir_all(&folder.0).unwrap();
    std::fs::copy(data("llama/config.json"), folder.0.join("config.json")).unwrap();
    let whole = safetensors::load(data("llama/model.safetensors")).unwrap();
    let (mut first, mut second, mut map) = (StateDict::new(), StateDict::new(), vec![]);
    for (name, t) in &whole {
        let is_first = name.contains("layers.0");
        map.push(format!(r#""{name}": "{}.safetensors""#, if is_first { "a" } else { "b" }));
        if is_first { &mut first } else { &mut second }.insert(name.clone(), t.clone());
    }
    safetensors::save(folder.0.join("a.safetensors"), &first).unwrap();
    safetensors::save(folder.0.join("b.safetensors"), &second).unwrap();
    let index = folder.0.join("model.safetensors.index.json");
    std::fs::write(&index, format!("{{\"weight_map\": {{{}}}}}", map.join(", "))).unwrap();
    let tokens = [5, 1, 7, 3, 22];
    let plain = open(data("llama"), &Options::default()).unwrap();
    assert_eq!(logits(&open(&folder.0, &Options::default()).unwrap(), &tokens), logits(&plain, &tokens));
    std::fs::remove_file(folder.0.join("b.safetensors")).unwrap();
    let why = open(&folder.0, &Options::default()).err().unwrap().to_string();
    assert!(why.contains("b.safetensors: No such file"), "{why}");
}
