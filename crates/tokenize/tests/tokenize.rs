//! Against what the `tokenizers` package makes of the same files and texts (`tests-data/tokenize/make.py`).

mod vocabs;

use frit_tokenize::{GgufVocab, Tokenizer};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

fn data(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests-data/tokenize")).join(name)
}
fn ids(v: &Value) -> Vec<u32> {
    v.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as u32).collect()
}

#[test]
fn texts_are_what_the_package_makes_of_them() {
    let cases: Value = serde_json::from_str(&std::fs::read_to_string(data("cases.json")).unwrap()).unwrap();
    for (file, cases) in cases.as_object().unwrap() {
        let t = Tokenizer::load(data(file)).unwrap();
        let cases = cases.as_array().unwrap();
        assert!(cases.len() > 200, "{file}: {}", cases.len());
        for case in cases {
            let (text, want) = (case["text"].as_str().unwrap(), ids(&case["ids"]));
            assert_eq!(t.encode(text), want, "{file}: {text:?}");
            assert_eq!(t.decode(&want), case["decoded"].as_str().unwrap(), "{file}: {want:?}");
            if let Some(pair) = case["pair"].as_str() {
                let both = t.encode_pair(text, pair);
                assert_eq!(
                    (both.ids, both.types),
                    (ids(&case["pair_ids"]), ids(&case["types"])),
                    "{file}: {text:?}"
                );
            }
            let mut stream = t.stream();
            let grown: String = want.iter().map(|id| stream.push(*id)).collect();
            assert_eq!(grown + &stream.finish(), t.decode(&want), "{file}: {want:?}");
        }
    }
}

#[test]
fn sentence_piece_models_are_what_their_package_makes_of_them() {
    let text = std::fs::read_to_string(data("sentencepiece.json")).unwrap();
    let models: Value = serde_json::from_str(&text).unwrap();
    for (i, model) in models.as_array().unwrap().iter().enumerate() {
        let v = &model["gguf"];
        let list = |name: &str| v[name].as_array().unwrap();
        let t = Tokenizer::from_gguf(&GgufVocab {
            model: v["model"].as_str().unwrap(),
            tokens: list("tokens").iter().map(|t| t.as_str().unwrap().into()).collect(),
            scores: list("scores").iter().map(|s| s.as_f64().unwrap() as f32).collect(),
            kinds: list("token_type").iter().map(|s| s.as_i64().unwrap() as i32).collect(),
            unknown: v["unknown"].as_u64().map(|n| n as u32),
            add_space_prefix: v["add_space_prefix"].as_bool(),
            remove_extra_whitespaces: v["remove_extra_whitespaces"].as_bool().unwrap(),
            charsmap: list("charsmap").iter().map(|b| b.as_u64().unwrap() as u8).collect(),
            ..Default::default()
        })
        .unwrap();
        let cases = model["cases"].as_array().unwrap();
        assert!(cases.len() > 200, "{i}: {}", cases.len());
        for case in cases {
            let (text, want) = (case["text"].as_str().unwrap(), ids(&case["ids"]));
            assert_eq!(t.encode_ordinary(text), want, "{i}: {text:?}");
            let mut stream = t.stream();
            let grown: String = want.iter().map(|id| stream.push(*id)).collect();
            assert_eq!(grown + &stream.finish(), t.decode(&want), "{i}: {want:?}");
        }
    }
}

#[test]
fn values_of_a_gguf_file_that_do_not_fit_are_errors() {
    let error = |v: GgufVocab| Tokenizer::from_gguf(&v).err().unwrap().to_string();
    let tokens = || vec!["a".into(), "b".into()];
    let bad = [
        (GgufVocab { model: "llama", ..Default::default() }, "tokens: there are none"),
        (GgufVocab { model: "llama", tokens: tokens(), ..Default::default() }, "scores: there are none"),
        (GgufVocab { model: "other", tokens: tokens(), ..Default::default() }, "\"other\" is not known"),
        (GgufVocab { model: "gpt2", pre: Some("x"), tokens: tokens(), ..Default::default() }, "pre: \"x\""),
        (
            GgufVocab { model: "gpt2", tokens: tokens(), eos: Some(2), ..Default::default() },
            "eos_token_id: 2 of 2",
        ),
        (
            GgufVocab { model: "gpt2", tokens: tokens(), kinds: vec![1], ..Default::default() },
            "1 for 2 tokens",
        ),
        (
            GgufVocab { model: "gpt2", tokens: tokens(), merges: vec!["ab".into()], ..Default::default() },
            "\"ab\", is no pair",
        ),
        (
            GgufVocab { model: "gpt2", tokens: tokens(), merges: vec!["a b".into()], ..Default::default() },
            "\"a b\", is no pair",
        ),
        (GgufVocab { model: "bert", tokens: tokens(), ..Default::default() }, "unknown_token_id"),
        (
            GgufVocab {
                model: "t5",
                tokens: tokens(),
                scores: vec![0.0, 0.0],
                charsmap: vec![9, 0, 0, 0].into(),
                ..Default::default()
            },
            "precompiled_charsmap: a table of 0 bytes",
        ),
    ];
    for (v, wanted) in bad {
        let error = error(v);
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn special_tokens_in_ordinary_text_are_text() {
    let t = Tokenizer::load(data("bytes.json")).unwrap();
    let end = t.id("<|end|>").unwrap();
    assert_eq!(t.encode_plain("a<|end|>").last(), Some(&end));
    assert!(!t.encode_ordinary("a<|end|>").contains(&end));
    assert_eq!(t.decode(&t.encode_ordinary("a<|end|>")), "a<|end|>");
    let (mut plain, mut all) = (t.stream(), t.stream_all());
    assert_eq!((plain.push(end), all.push(end)), (String::new(), "<|end|>".to_string()));
}

#[test]
fn bytes_of_tokens_make_the_text() {
    for file in ["bytes.json", "marked.json"] {
        let t = Tokenizer::load(data(file)).unwrap();
        let text = " größer 汉字\n👩‍🚀 a";
        let bytes: Vec<u8> = t.encode_plain(text).iter().flat_map(|id| t.bytes(*id).unwrap()).collect();
        // a mark was put before it
        let bytes = if file == "marked.json" { bytes[1..].to_vec() } else { bytes };
        assert_eq!(String::from_utf8(bytes).unwrap(), text, "{file}");
    }
}

#[test]
fn a_text_goes_on_where_another_ends() {
    let whole = "<s>Frit  fuses grains.\n größer 汉字 a</s> The grains, and<|end|>the others: abc 123 ";
    for file in ["bytes.json", "newer.json", "unigram.json", "marked.json"] {
        let t = Tokenizer::load(data(file)).unwrap();
        let bytes = |ids: &[u32]| ids.iter().flat_map(|id| t.bytes(*id).unwrap()).collect::<Vec<u8>>();
        let all = t.encode_plain(whole);
        for at in (0..=whole.len()).filter(|at| whole.is_char_boundary(*at)) {
            let (before, after) = whole.split_at(at);
            let (mut ids, then) = (t.encode_plain(before), t.encode_after(before, after));
            let is_same = all.starts_with(&ids);
            ids.extend(then);
            match is_same {
                true => assert_eq!(ids, all, "{file}: {before:?}"),
                // a token of the whole reaches across the border, or is the name of one that stands for itself
                false => {
                    let found = bytes(&ids).into_iter().filter(|b| *b != b' ').collect::<Vec<_>>();
                    let want = bytes(&all).into_iter().filter(|b| *b != b' ').collect::<Vec<_>>();
                    assert_eq!(
                        String::from_utf8_lossy(&found),
                        String::from_utf8_lossy(&want),
                        "{file}: {before:?}"
                    );
                }
            }
        }
    }
    let t = Tokenizer::load(data("marked.json")).unwrap();
    let names = |ids: Vec<u32>| ids.into_iter().map(|id| t.token(id).unwrap()).collect::<Vec<_>>().concat();
    assert_eq!(names(t.encode_plain("grains")), "▁grains");
    assert_eq!(names(t.encode_after("fuse", "grains")), "grains");
    assert_eq!(names(t.encode_after("fuse ", "grains")), "grains");
    assert_eq!(names(t.encode_after("fuse", " grains</s>it")), "▁grains</s>▁it");
    // a part behind a token of its own has a mark in the whole too
    assert_eq!(names(t.encode_after("fuse</s>", "grains")), "▁grains");
    assert_eq!(names(t.encode_after("", "grains")), "▁grains");
}

#[test]
fn a_stream_gives_whole_characters() {
    let t = Tokenizer::load(data("bytes.json")).unwrap();
    let mut stream = t.stream();
    for id in t.encode_plain("a 👩‍🚀 größer 汉字") {
        assert!(!stream.push(id).contains(char::REPLACEMENT_CHARACTER));
    }
    assert_eq!(stream.finish(), "");
}

/// How long this thread has worked: other work may be in the way, so the clock on the wall says little.
fn worked() -> Duration {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(times.split(' ').next().unwrap().parse().unwrap())
}

#[test]
fn a_megabyte_of_one_letter_takes_a_second_at_most() {
    for file in ["bytes.json", "newer.json", "wordpiece.json", "unigram.json", "marked.json"] {
        let t = Tokenizer::load(data(file)).unwrap();
        for text in ["a".repeat(1 << 20), " ".repeat(1 << 20)] {
            let start = worked();
            let ids = t.encode_plain(&text);
            let took = worked() - start;
            assert!(took < Duration::from_secs(1), "{file}: {took:?}");
            // blanks are nothing to some, and a long word is one unknown token
            let is_kept = text.starts_with('a') && file != "wordpiece.json";
            assert!(!is_kept || ids.len() > 1000, "{file}: {}", ids.len());
        }
    }
}

#[test]
fn bad_files_say_what_is_wrong() {
    let error = |text: &str| Tokenizer::from_json(text).err().unwrap().to_string();
    let bad = [
        ("{", "EOF"),
        ("{}", "model: vocab is no table"),
        (r#"{"model": {"vocab": {"a": -1}}}"#, "model: -1 is no number of a token"),
        (r#"{"model": {"type": "Unigram", "vocab": {}}}"#, "vocab is no list of tokens"),
        (r#"{"model": {"type": "Other", "vocab": {}}}"#, "a model \"Other\" is not known"),
        (r#"{"model": {"vocab": {"a": 0}, "merges": ["a b"]}}"#, "merge 0, \"a b\", is no pair"),
        (
            r#"{"model": {"vocab": {}, "merges": []}, "decoder": {"type": "CTC"}}"#,
            "decoder: \"CTC\" is not known",
        ),
        (
            r#"{"model": {"vocab": {}, "merges": []}, "pre_tokenizer": {"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "("}}}"#,
            "pre_tokenizer: \"(\"",
        ),
        (
            r#"{"model": {"vocab": {}, "merges": []}, "added_tokens": [{}]}"#,
            "added_tokens: content is no text",
        ),
    ];
    for (text, wanted) in bad {
        assert!(error(text).contains(wanted), "{text}: {}", error(text));
    }
    assert!(Tokenizer::from_vocab("a\nb").err().unwrap().to_string().contains("no [UNK]"));
    assert!(Tokenizer::load("nowhere.json").err().unwrap().to_string().contains("nowhere.json"));
}
