//! Tokenisers of real models: llama.cpp's vectors, and what the `tokenizers` and `sentencepiece` packages make of random texts
//! (`tests-data/tokenize/vocabs.py`). They are large, so they are read from the folder `FRIT_FILES` names, where
//! `tests-data/fetch.py` puts them: all of them, or none is read.

mod gguf;

use crate::{data, worked};
use frit_tokenize::Tokenizer;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("FRIT_FILES").map(PathBuf::from);
    if folder.is_none() {
        println!("FRIT_FILES names no folder: tokenisers of real models are not tested");
    }
    folder
}
fn vocabs() -> Vec<PathBuf> {
    let Some(folder) = folder() else { return vec![] };
    let all = std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().path());
    let is_vocab =
        |f: &PathBuf| name(f).starts_with("ggml-vocab-") && f.extension().is_some_and(|e| e == "gguf");
    let mut all: Vec<_> = all.filter(is_vocab).collect();
    all.sort();
    assert_eq!(all.len(), 19, "vocabularies in {}: tests-data/fetch.py", folder.display());
    all
}
fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}
fn load(path: &Path) -> Tokenizer {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    Tokenizer::from_gguf(&gguf::read(&bytes)).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
fn beside(path: &Path, ending: &str) -> Option<String> {
    std::fs::read_to_string(format!("{}{ending}", path.display())).ok()
}

#[test]
fn vectors_of_llama_cpp_are_met() {
    let vocabs = vocabs();
    let mut met = 0;
    for path in &vocabs {
        let (Some(texts), Some(wanted)) = (beside(path, ".inp"), beside(path, ".out")) else { continue };
        let t = load(path);
        let texts: Vec<&str> = texts.split("\n__ggml_vocab_test__\n").collect();
        let wanted: Vec<&str> = wanted.lines().collect();
        assert!(texts.len() >= wanted.len() && wanted.len() > 40, "{}", path.display());
        for (text, want) in texts.iter().zip(&wanted) {
            let want: Vec<u32> = want.split_whitespace().map(|n| n.parse().unwrap()).collect();
            assert_eq!(t.encode_ordinary(text), want, "{}: {text:?}", path.display());
        }
        met += 1;
    }
    // it has none for four of them
    assert_eq!(met, vocabs.len().saturating_sub(4));
}

/// 32 bits of FNV-1a.
fn fnv(bytes: impl IntoIterator<Item = u8>) -> u32 {
    bytes.into_iter().fold(0x811c_9dc5, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193))
}
fn hash_of(ids: &[u32]) -> u32 {
    fnv(ids.iter().flat_map(|id| id.to_le_bytes()))
}
/// Eight digits each.
fn hashes(text: &Value) -> Vec<u32> {
    let text = text.as_str().unwrap();
    let one = |i: usize| u32::from_str_radix(&text[8 * i..8 * i + 8], 16).unwrap();
    (0..text.len() / 8).map(one).collect()
}
fn goldens() -> Value {
    serde_json::from_str(&std::fs::read_to_string(data("vocabs.json")).unwrap()).unwrap()
}
fn texts(goldens: &Value) -> Vec<&str> {
    let texts: Vec<&str> = goldens["texts"].as_array().unwrap().iter().map(|t| t.as_str().unwrap()).collect();
    assert_eq!(texts.len(), 600);
    texts
}

#[test]
fn random_texts_are_what_the_packages_make_of_them() {
    let (vocabs, goldens) = (vocabs(), goldens());
    let known = goldens["vocabs"].as_object().unwrap();
    for path in &vocabs {
        let t = load(path);
        let wanted = hashes(&known[&name(path)]);
        assert_eq!(wanted.len(), 600);
        for (text, want) in texts(&goldens).into_iter().zip(wanted) {
            let ids = t.encode_ordinary(text);
            assert_eq!(hash_of(&ids), want, "{}: {text:?}: {ids:?}", path.display());
            let mut stream = t.stream();
            let grown: String = ids.iter().map(|id| stream.push(*id)).collect();
            assert_eq!(grown + &stream.finish(), t.decode(&ids), "{}: {ids:?}", path.display());
        }
    }
    assert!(vocabs.is_empty() || vocabs.len() == known.len());
}

#[test]
fn files_of_the_package_are_read_as_it_reads_them() {
    let Some(folder) = folder() else { return };
    let goldens = goldens();
    let tokenizers = goldens["tokenizers"].as_object().unwrap();
    assert_eq!(tokenizers.len(), 2);
    for (file, wanted) in tokenizers {
        let t = Tokenizer::load(folder.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        let (encoded, decoded) = (hashes(&wanted["encoded"]), hashes(&wanted["decoded"]));
        assert_eq!((encoded.len(), decoded.len()), (600, 600));
        for (i, text) in texts(&goldens).into_iter().enumerate() {
            let ids = t.encode(text);
            assert_eq!(hash_of(&ids), encoded[i], "{file}: {text:?}: {ids:?}");
            let again = t.decode(&ids);
            assert_eq!(fnv(again.bytes()), decoded[i], "{file}: {text:?}: {again:?}");
        }
    }
}

/// A model in GGUF and the folder that it was made from.
#[test]
fn a_vocabulary_is_the_same_from_gguf_and_from_json() {
    let Some(folder) = folder() else { return };
    let ours = load(&folder.join("all-MiniLM-L6-v2-Q8_0.gguf"));
    let theirs = Tokenizer::load(folder.join("minilm/tokenizer.json")).unwrap();
    let goldens = goldens();
    for text in texts(&goldens) {
        let (ours, theirs) = (ours.encode(text), theirs.encode(text));
        assert_eq!(ours, theirs, "{text:?}");
        assert_eq!((theirs[0], theirs.last()), (101, Some(&102)), "{text:?}");
    }
}

#[test]
fn a_megabyte_of_one_letter_takes_a_second_at_most() {
    for path in vocabs() {
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
