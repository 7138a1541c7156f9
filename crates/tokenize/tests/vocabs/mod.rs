//! Vocabularies of real models: llama.cpp's vectors, and what the `tokenizers` and `sentencepiece` packages make of random
//! texts. They are large, so they are read from the folder `FRIT_FILES` names, where
//! `tests-data/fetch.py` puts them, and `tests-data/tokenize/vocabs.py` random texts beside them.

mod gguf;

use crate::worked;
use frit_tokenize::Tokenizer;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

fn files() -> Vec<std::path::PathBuf> {
    let Ok(folder) = std::env::var("FRIT_FILES") else { return vec![] };
    let all = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path());
    let mut all: Vec<_> = all.filter(|f| f.extension().is_some_and(|e| e == "gguf")).collect();
    all.sort();
    all.retain(|f| f.file_name().unwrap().to_string_lossy().starts_with("ggml-vocab-"));
    all
}
fn load(path: &Path) -> Tokenizer {
    let bytes = std::fs::read(path).unwrap();
    Tokenizer::from_gguf(&gguf::read(&bytes)).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
fn beside(path: &Path, ending: &str) -> Option<String> {
    std::fs::read_to_string(format!("{}{ending}", path.display())).ok()
}

#[test]
fn vectors_of_llama_cpp_are_met() {
    for path in files() {
        let (Some(texts), Some(wanted)) = (beside(&path, ".inp"), beside(&path, ".out")) else { continue };
        let t = load(&path);
        let texts: Vec<&str> = texts.split("\n__ggml_vocab_test__\n").collect();
        let wanted: Vec<&str> = wanted.lines().collect();
        assert!(texts.len() >= wanted.len() && wanted.len() > 40, "{}", path.display());
        for (text, want) in texts.iter().zip(&wanted) {
            let want: Vec<u32> = want.split_whitespace().map(|n| n.parse().unwrap()).collect();
            assert_eq!(t.encode_ordinary(text), want, "{}: {text:?}", path.display());
        }
        println!("{}: {} vectors", path.display(), wanted.len());
    }
}

#[test]
fn random_texts_are_what_the_packages_make_of_them() {
    for path in files() {
        let Some(cases) = beside(&path, ".cases.json") else { continue };
        let (t, cases): (_, Value) = (load(&path), serde_json::from_str(&cases).unwrap());
        let (mut wrong, mut all) = (vec![], 0);
        for case in cases.as_array().unwrap() {
            let (text, want) = (case["text"].as_str().unwrap(), crate::ids(&case["ids"]));
            let got = t.encode_ordinary(text);
            if got != want {
                wrong.push(format!("{text:?}\n  {got:?}\n  {want:?}"));
            }
            all += 1;
            let mut stream = t.stream();
            let grown: String = want.iter().map(|id| stream.push(*id)).collect();
            assert_eq!(grown + &stream.finish(), t.decode(&want), "{}: {want:?}", path.display());
        }
        println!("{}: {} of {all} texts differ", path.display(), wrong.len());
        assert!(wrong.is_empty(), "{}: {}", path.display(), wrong[..wrong.len().min(5)].join("\n"));
    }
}

#[test]
fn a_megabyte_of_one_letter_takes_a_second_at_most() {
    for path in files() {
        let start = worked();
        let t = load(&path);
        let loaded = worked() - start;
        for text in ["a".repeat(1 << 20), " ".repeat(1 << 20), "é".repeat(1 << 19)] {
            let start = worked();
            let ids = t.encode_ordinary(&text);
            let took = worked() - start;
            println!(
                "{}: loaded in {loaded:?}, {:?} in {took:?}, {} tokens",
                path.display(),
                &text[..2],
                ids.len()
            );
            // optimised code does
            let most = Duration::from_secs(if cfg!(debug_assertions) { 5 } else { 1 });
            assert!(took < most, "{}: {took:?}", path.display());
        }
    }
}
