//! What a `config.json` and the keys of a GGUF file may not say: errors that name the key.

use crate::families::{expected, largest_difference};
use crate::{Folder, data, rewrite};
use frit_llm::{Options, open};
use frit_nn::gguf;
use frit_tensor::Tensor;
use serde_json::{Value, json};

/// The configuration of a model with some values changed, by path, null leaving a key out; and why it is refused.
fn refused(model: &str, changes: &[(&str, Value)]) -> String {
    let mut config: Value =
        serde_json::from_str(&std::fs::read_to_string(data(model).join("config.json")).unwrap()).unwrap();
    for (path, to) in changes {
        let (at, name) = path.rsplit_once('.').unwrap_or(("", path));
        let at = at.split('.').filter(|p| !p.is_empty()).fold(&mut config, |c, p| &mut c[p]);
        match to {
            Value::Null => drop(at.as_object_mut().unwrap().remove(name)),
            to => at[name] = to.clone(),
        }
    }
    let name = format!("config-{model}-{}", changes[0].0);
    let folder = Folder::new(&name);
    std::fs::create_dir_all(&folder.0).unwrap();
    std::fs::write(folder.0.join("config.json"), config.to_string()).unwrap();
    std::fs::copy(data(model).join("model.safetensors"), folder.0.join("model.safetensors")).unwrap();
    match open(&folder.0, &Options::default()) {
        Ok(_) => panic!("{changes:?} was taken"),
        Err(e) => e.to_string(),
    }
}

fn check(model: &str, changes: &[(&str, Value)], says: &[&str]) {
    let why = refused(model, changes);
    for part in says {
        assert!(why.contains(part), "{changes:?}: {part:?} is not in {why}");
    }
}

#[test]
fn factors_for_long_contexts_are_one_for_each_pair() {
    for (key, name) in [("long_factor", "rope.long_factor"), ("short_factor", "rope.short_factor")] {
        let path = format!("rope_parameters.{key}");
        let with =
            |list: Value, says: &[&str]| check("phi3_long", &[(&path, list)], &[&[name], says].concat());
        with(Value::Null, &["no key"]);
        with(json!([1.0, 2.0]), &["2 factors", "3 pairs"]);
        with(json!([1.0, 2.0, 3.0, 4.0]), &["4 factors", "3 pairs"]);
        with(json!([]), &["0 factors"]);
        with(json!([1.0, 0.0, 2.0]), &["0"]);
        with(json!([1.0, -1.0, 2.0]), &["-1"]);
        with(json!([1.0, "x", 2.0]), &["NaN"]);
        with(json!(2.0), &["not a list of numbers"]);
    }
}

#[test]
fn rotations_by_numbers_that_are_none_are_refused() {
    let of = |key: &str, to: Value, says: &[&str]| {
        check("llama3", &[(&format!("rope_parameters.{key}"), to)], says);
    };
    of("original_max_position_embeddings", json!(0), &["rope.original_max_position_embeddings is 0"]);
    of("original_max_position_embeddings", json!(-32), &["rope.original_max_position_embeddings is -32"]);
    of("factor", json!(0), &["rope.factor is 0"]);
    of("factor", json!(-4.0), &["rope.factor is -4"]);
    of("factor", Value::Null, &["no key rope.factor"]);
    of("low_freq_factor", json!(0), &["rope.low_freq_factor is 0"]);
    of("high_freq_factor", json!(-1), &["rope.high_freq_factor is -1"]);
    of("high_freq_factor", json!(1.0), &["rope.high_freq_factor", "rope.low_freq_factor"]);
    of("rope_theta", json!(1.0), &["by the base 1"]);
    of("rope_theta", json!(-10000.0), &["rope.rope_theta is -10000"]);
    let of = |key: &str, to: Value, says: &[&str]| {
        check("llama_yarn", &[(&format!("rope_parameters.{key}"), to)], says);
    };
    of("original_max_position_embeddings", json!(0), &["rope.original_max_position_embeddings is 0"]);
    of("beta_fast", json!(0), &["rope.beta_fast is 0"]);
    of("beta_slow", json!(-1), &["rope.beta_slow is -1"]);
    of("attention_factor", json!(-1), &["rope.attention_factor is -1"]);
    check("llama_linear", &[("rope_parameters.factor", json!(0))], &["rope.factor is 0"]);
    check("phi3_long", &[("rope_parameters.attention_factor", json!(0))], &["rope.attention_factor is 0"]);
    let both = ["rope_parameters.original_max_position_embeddings", "original_max_position_embeddings"];
    check("phi3_long", &both.map(|k| (k, json!(1))), &["rope.original_max_position_embeddings is 1"]);
    check("gemma3", &[("rope_parameters.sliding_attention.rope_theta", json!(0.5))], &["by the base 0.5"]);
    check(
        "gemma3",
        &[("rope_parameters.sliding_attention.rope_type", json!("linear"))],
        &["sliding_attention"],
    );
}

#[test]
fn sizes_and_numbers_of_no_model_are_refused() {
    check("llama", &[("rms_norm_eps", json!(-1e-6))], &["rms_norm_eps is -0.000001"]);
    check("gpt2", &[("layer_norm_epsilon", json!(-1.0))], &["layer_norm_epsilon is -1"]);
    check("gemma3", &[("query_pre_attn_scalar", json!(0))], &["query_pre_attn_scalar is 0"]);
    check("gemma2", &[("attn_logit_softcapping", json!(0.0))], &["attn_logit_softcapping is 0"]);
    check("gemma2", &[("final_logit_softcapping", json!(-3.0))], &["final_logit_softcapping is -3"]);
    let many = 1u64 << 36;
    let heads =
        [("num_attention_heads", json!(many)), ("num_key_value_heads", json!(1)), ("head_dim", json!(many))];
    check("llama", &heads, &["68719476736 heads of 68719476736 elements"]);
    check("mixtral", &[("num_experts_per_tok", json!(0))], &["num_experts_per_tok is 0"]);
    check("mixtral", &[("num_experts_per_tok", json!(5))], &["5 of 4 experts"]);
}

#[test]
fn factors_of_a_gguf_file_are_one_for_each_pair() {
    let folder = Folder::new("gguf-factors");
    let file = folder.0.join("model.gguf");
    let refused = |change: &dyn Fn(&mut frit_nn::StateDict), kind: Option<&str>, says: &[&str]| {
        rewrite("phi3_long.gguf", &file, |state, metadata| {
            change(state);
            if let Some(kind) = kind {
                metadata.insert("phi3.rope.scaling.type".into(), gguf::Value::String(kind.into()));
            }
        });
        let why = open(&file, &Options::default()).err().unwrap().to_string();
        says.iter().for_each(|s| assert!(why.contains(s), "{s:?} is not in {why}"));
    };
    let name = "rope_factors_long.weight";
    let with = |list: &'static [f32]| {
        move |s: &mut frit_nn::StateDict| drop(s.insert(name.into(), Tensor::from_slice(list)))
    };
    refused(&with(&[1.0, 2.0]), None, &[name, "2 factors", "3 pairs"]);
    refused(&with(&[1.0, 0.0, 2.0]), None, &[name, "0"]);
    refused(&with(&[1.0, f32::NAN, 2.0]), None, &[name, "NaN"]);
    refused(&|s| drop(s.remove(name)), Some("longrope"), &["no tensor", name]);
    // that there are none is said by no key
    rewrite("phi3_long.gguf", &file, |state, _| state.retain(|n, _| !n.starts_with("rope_factors")));
    assert!(open(&file, &Options::default()).is_ok());
}

#[test]
fn the_window_of_a_gguf_file_is_that_of_a_folder() {
    let folder = Folder::new("gguf-window");
    let file = folder.0.join("model.gguf");
    rewrite("mistral_whole.gguf", &file, |_, metadata| {
        metadata.insert("llama.attention.sliding_window".into(), gguf::Value::U32(7));
    });
    for part in ["config.json", "model.safetensors"] {
        std::fs::copy(data("mistral_whole").join(part), folder.0.join(part)).unwrap();
    }
    let config = std::fs::read_to_string(folder.0.join("config.json")).unwrap();
    let with = config.replace(r#""sliding_window": null"#, r#""sliding_window": 7"#);
    assert_ne!(with, config);
    std::fs::write(folder.0.join("config.json"), with).unwrap();
    let (ids, values) = expected("mistral_whole");
    let logits = |path: &std::path::Path| -> Vec<f32> {
        open(path, &Options::default()).unwrap().whole(&ids).unwrap().to_vec().unwrap()
    };
    let (ours, theirs) = (logits(&file), logits(&folder.0));
    assert!(largest_difference(&ours, &theirs) < 2e-4);
    assert!(largest_difference(&ours, &values) > 0.01, "without a window there are other values");
}
