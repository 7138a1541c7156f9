//! Against what the `tokenizers` package makes of the same files and texts (`tests-data/tokenize/make.py`).

use frit_tokenize::Tokenizer;
use serde_json::Value;
use std::path::PathBuf;

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
fn a_stream_gives_whole_characters() {
    let t = Tokenizer::load(data("bytes.json")).unwrap();
    let mut stream = t.stream();
    for id in t.encode_plain("a 👩‍🚀 größer 汉字") {
        assert!(!stream.push(id).contains(char::REPLACEMENT_CHARACTER));
    }
    assert_eq!(stream.finish(), "");
}

#[test]
fn a_megabyte_of_one_letter_takes_no_square_of_time() {
    let t = Tokenizer::load(data("bytes.json")).unwrap();
    let text = "a".repeat(1 << 20);
    let ids = t.encode_plain(&text);
    assert_eq!(t.decode(&ids), text);
}

#[test]
fn bad_files_say_what_is_wrong() {
    let error = |text: &str| Tokenizer::from_json(text).err().unwrap().to_string();
    let bad = [
        ("{", "EOF"),
        ("{}", "model: vocab is no table"),
        (r#"{"model": {"vocab": {"a": -1}}}"#, "model: -1 is no number of a token"),
        (r#"{"model": {"type": "Unigram", "vocab": {}}}"#, "a model \"Unigram\" is not known"),
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
