//! What the fuzz targets and the short mutation test run: each reader over any bytes, and over what it says it found.
//! They must return, whatever the bytes are.

use frit_nn::state::safetensors::{Index, SafeTensors};
use frit_nn::state::{Format, gguf, npy, torch};
use frit_tensor::Blob;

/// A reader under test, by the name of its target and its corpus.
pub type Reader = (&'static str, fn(&[u8]));

/// Every reader.
pub const READERS: [Reader; 7] = [
    ("safetensors", safetensors),
    ("index", index),
    ("gguf", gguf),
    ("pickle", pickle),
    ("torch", torch),
    ("npy", npy),
    ("npz", npz),
];

fn blob(bytes: &[u8]) -> Blob {
    Format::of(bytes);
    Blob::new(bytes.to_vec())
}

/// A safetensors file.
pub fn safetensors(bytes: &[u8]) {
    if let Ok(file) = SafeTensors::from_blob(&blob(bytes)) {
        for name in file.names() {
            assert!(file.tensor(name).is_ok(), "{name}");
            assert!(file.view(name).is_some_and(|v| v.bytes.iter().all(|b| *b as u32 <= 255)));
        }
    }
}

/// The index of a sharded model.
pub fn index(bytes: &[u8]) {
    if let Ok(index) = Index::from_blob(&blob(bytes)) {
        assert!(index.files().iter().all(|f| !f.contains('/') && *f != ".." && *f != "."));
    }
}

/// A GGUF file: its metadata, arrays included, and its tensors.
pub fn gguf(bytes: &[u8]) {
    if let Ok(file) = gguf::Gguf::from_blob(&blob(bytes)) {
        for array in file.metadata().values().filter_map(|v| v.as_array()) {
            assert_eq!(array.iter().count(), array.len());
        }
        for (name, info) in file.tensors() {
            let raw = file.raw(name).and_then(|t| t.to_bytes());
            assert_eq!(raw.map(|b| b.len()), Ok(info.bytes.len()));
            assert!(file.tensor(name).is_ok(), "{name}");
        }
    }
}

/// A pickle, read as data: that of a legacy file, after its number, its version and an empty dict of the system.
pub fn pickle(bytes: &[u8]) {
    const HEAD: &[u8] = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}.";
    let _ = torch::from_blob(&blob(&[HEAD, bytes].concat()));
}

/// A torch file, zip or legacy.
pub fn torch(bytes: &[u8]) {
    if let Ok(value) = torch::from_blob(&blob(bytes)) {
        assert!(value.state().values().all(|t| t.dims().is_ok()));
    }
}

/// A `.npy` file.
pub fn npy(bytes: &[u8]) {
    if let Ok(t) = npy::from_blob(&blob(bytes)) {
        assert!(t.dims().is_ok());
    }
}

/// A `.npz` file.
pub fn npz(bytes: &[u8]) {
    if let Ok(state) = npy::npz_from_blob(&blob(bytes)) {
        assert!(state.values().all(|t| t.dims().is_ok()));
    }
}
