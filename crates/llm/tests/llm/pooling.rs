//! What sentence-transformers' files beside an encoder say: how vectors of tokens become one, how long a text is, what follows.

use crate::families::{expected, largest_difference};
use crate::{Folder, data, rewrite};
use frit_llm::{Embedder, Encoder, open_encoder};
use frit_nn::gguf;
use frit_tensor::Result;
use serde_json::{Value, json};

/// The tiny encoder with some files beside it.
fn encoder(name: &str, files: &[(&str, Value)]) -> Result<Encoder> {
    let folder = Folder::new(&format!("pooling-{name}"));
    for (file, value) in files {
        let path = folder.0.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, value.to_string()).unwrap();
    }
    std::fs::create_dir_all(&folder.0).unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(data("bert").join(file), folder.0.join(file)).unwrap();
    }
    open_encoder(&folder.0)
}

fn refused(name: &str, files: &[(&str, Value)], says: &[&str]) {
    let why = encoder(name, files).err().unwrap_or_else(|| panic!("{files:?} was taken")).to_string();
    says.iter().for_each(|s| assert!(why.contains(s), "{s:?} is not in {why}"));
}

/// What a file of the package says where one way is chosen.
fn flags(chosen: &[&str]) -> Value {
    let ways = [
        "cls_token",
        "mean_tokens",
        "max_tokens",
        "mean_sqrt_len_tokens",
        "weightedmean_tokens",
        "lasttoken",
    ];
    let mut v = json!({"word_embedding_dimension": 24, "include_prompt": true});
    for way in ways {
        v[format!("pooling_mode_{way}")] = chosen.contains(&way).into();
    }
    v
}

fn modules(kinds: &[(&str, &str)]) -> Value {
    let module = |(i, (path, kind)): (usize, &(&str, &str))| json!({"idx": i, "name": i.to_string(), "path": path, "type": format!("sentence_transformers.models.{kind}")});
    kinds.iter().enumerate().map(module).collect::<Vec<_>>().into()
}

const POOLING: &str = "1_Pooling/config.json";

#[test]
fn vectors_become_one_as_the_file_says() {
    let (ids, _) = expected("bert");
    let ids = &ids[..11];
    let all = encoder("rows", &[]).unwrap().forward(ids).unwrap().to_vec::<f32>().unwrap();
    let rows: Vec<&[f32]> = all.chunks_exact(24).collect();
    let of = |f: &dyn Fn(usize) -> f32| {
        let v: Vec<f32> = (0..24).map(f).collect();
        let length = v.iter().map(|v| v * v).sum::<f32>().sqrt();
        v.into_iter().map(|v| v / length).collect::<Vec<f32>>()
    };
    let column = |i: usize| rows.iter().map(move |r| r[i]);
    let mean = of(&|i| column(i).sum::<f32>() / 11.0);
    let ways = [
        ("cls_token", "cls", of(&|i| rows[0][i])),
        ("mean_tokens", "mean", mean.clone()),
        ("max_tokens", "max", of(&|i| column(i).fold(f32::NEG_INFINITY, f32::max))),
        ("lasttoken", "lasttoken", of(&|i| rows[10][i])),
    ];
    let check = |name: &str, files: &[(&str, Value)], want: &[f32]| {
        let model = encoder(name, files).unwrap_or_else(|e| panic!("{e}"));
        let off = largest_difference(&model.embed(ids).unwrap().to_vec().unwrap(), want);
        assert!(off < 1e-6, "{name}: off by {off}");
        // padded to 16 tokens
        let off = largest_difference(&Embedder::new(model).embed(ids).unwrap(), want);
        assert!(off < 1e-6, "{name}: off by {off}");
    };
    check("none", &[], &mean);
    for (flag, mode, want) in &ways {
        check(flag, &[(POOLING, flags(&[flag]))], want);
        let newer = json!({"embedding_dimension": 24, "pooling_mode": mode, "include_prompt": true});
        check(mode, &[(POOLING, newer)], want);
    }
    // in a folder of another name, which the list of steps has
    let files = [
        (
            "modules.json",
            modules(&[("", "Transformer"), ("2_Other", "Pooling"), ("3_Normalize", "Normalize")]),
        ),
        ("2_Other/config.json", flags(&["max_tokens"])),
        (POOLING, flags(&["cls_token"])),
    ];
    check("modules", &files, &ways[2].2);
}

#[test]
fn what_would_be_computed_otherwise_is_refused() {
    for way in ["mean_sqrt_len_tokens", "weightedmean_tokens"] {
        refused(way, &[(POOLING, flags(&[way]))], &[POOLING, way]);
    }
    refused("two", &[(POOLING, flags(&["cls_token", "mean_tokens"]))], &["cls_token", "mean_tokens"]);
    let mut other = flags(&[]);
    other["pooling_mode_newest"] = true.into();
    refused("newest", &[(POOLING, other)], &["newest"]);
    refused("mode", &[(POOLING, json!({"pooling_mode": "weightedmean"}))], &["weightedmean"]);
    refused("json", &[(POOLING, json!([1]))], &[POOLING]);
    let dense = modules(&[("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense")]);
    refused(
        "dense",
        &[("modules.json", dense), (POOLING, flags(&["mean_tokens"]))],
        &["modules.json", "2_Dense", "Dense"],
    );
    let missing = modules(&[("", "Transformer"), ("4_Pooling", "Pooling")]);
    refused("missing", &[("modules.json", missing)], &["4_Pooling/config.json"]);
    refused("list", &[("modules.json", json!({"a": 1}))], &["modules.json"]);
    refused("type", &[("modules.json", json!([{"idx": 0, "path": ""}]))], &["modules.json"]);
}

#[test]
fn a_text_is_no_longer_than_the_model_was_trained_on() {
    let (ids, _) = expected("bert");
    let file = "sentence_bert_config.json";
    let of = |name: &str, most: Value| {
        encoder(name, &[(file, json!({"max_seq_length": most, "do_lower_case": false}))])
    };
    let model = of("short", json!(12)).unwrap();
    assert_eq!(model.config().context, 12);
    assert!(model.embed(&ids[..12]).is_ok());
    let why = model.embed(&ids[..13]).err().unwrap().to_string();
    assert!(why.contains("13 tokens; there may be 1 to 12"), "{why}");
    let why = Embedder::new(model).embed(&ids[..13]).err().unwrap().to_string();
    assert!(why.contains("13 tokens; there may be 1 to 12"), "{why}");
    for (name, most) in [("null", Value::Null), ("long", json!(512))] {
        assert_eq!(of(name, most).unwrap().config().context, 64);
    }
    for (name, most) in [("zero", json!(0)), ("text", json!("x")), ("half", json!(0.5))] {
        let why = of(name, most).err().unwrap().to_string();
        assert!(why.contains(file) && why.contains("max_seq_length"), "{why}");
    }
}

#[test]
fn the_pooling_of_a_gguf_file_is_that_of_a_folder() {
    let (ids, _) = expected("bert");
    let folder = Folder::new("pooling-gguf");
    let file = folder.0.join("model.gguf");
    let of = |kind: u32| {
        rewrite("bert.gguf", &file, |_, metadata| {
            metadata.insert("bert.pooling_type".into(), gguf::Value::U32(kind));
        });
        open_encoder(&file)
    };
    for (kind, way) in [(1, "mean_tokens"), (2, "cls_token"), (3, "lasttoken")] {
        let ours = of(kind).unwrap().embed(&ids).unwrap().to_vec::<f32>().unwrap();
        let model = encoder(&format!("gguf-{kind}"), &[(POOLING, flags(&[way]))]).unwrap();
        let off = largest_difference(&ours, &model.embed(&ids).unwrap().to_vec().unwrap());
        assert!(off < 2e-4, "{way}: off by {off}");
    }
    let why = of(4).err().unwrap().to_string();
    assert!(why.contains("pooling of type 4"), "{why}");
}
