//! torch's `.pt` and `.pth` files, without Python and without running what is in them.
//!
//! ```text
//! zip       NAME/data.pkl  NAME/data/0  NAME/data/1 …     also TorchScript, whose modules are read as their attributes
//! legacy    magic, protocol, system, the pickle, the keys of the storages, each storage: length and elements
//! ```
//!
//! `pickle` turns a pickle into data, `storage` tensors into looks at mapped bytes; here the classes that torch uses
//! for plain data get their meaning. Every other class is an error that names all of them.
//!
//! ```no_run
//! # use frit_nn::torch;
//! let file = torch::read("checkpoint.pt")?;
//! let epoch = file.get("epoch").and_then(|v| v.as_int());
//! let weights = file.get("model_state_dict").map(|v| v.state());
//! # Ok::<(), frit_tensor::Error>(())
//! ```

mod pickle;
mod storage;
mod value;

use super::cursor::Cursor;
use super::zip::Archive;
use super::{StateDict, open};
use frit_tensor::{Blob, DType, Error, Result};
use pickle::{Object, Pickle};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
pub use value::Value;

/// The number a legacy file starts with, as it is pickled after the protocol.
const LEGACY: &[u8] = b"\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.";
/// The version of the legacy format.
const LEGACY_VERSION: i64 = 1001;

/// Every tensor of a file, by its keys on the way to it, joined by dots.
#[track_caller]
pub fn load(path: impl AsRef<Path>) -> Result<StateDict> {
    let _c = frit_tensor::call("load");
    Ok(read(path)?.state())
}

/// What is in a file: a dict of tensors, a dict of such dicts and numbers, or whatever was saved.
#[track_caller]
pub fn read(path: impl AsRef<Path>) -> Result<Value> {
    open("load", path.as_ref(), parse)?
}

/// What is in a file that is in memory.
#[track_caller]
pub fn from_blob(blob: &Blob) -> Result<Value> {
    let _c = frit_tensor::call("load");
    parse(blob).map_err(|e| Error::new("load", e))?
}

/// Whether bytes start as a legacy file does.
pub(super) fn is_legacy(bytes: &[u8]) -> bool {
    bytes.first() == Some(&0x80) && bytes.get(2..).is_some_and(|rest| rest.starts_with(LEGACY))
}

fn parse(blob: &Blob) -> std::result::Result<Result<Value>, String> {
    if is_legacy(blob) { parse_legacy(blob) } else { parse_zip(blob) }
}

fn parse_zip(blob: &Blob) -> std::result::Result<Result<Value>, String> {
    let archive = Archive::read(blob)?;
    let main = archive.names().filter(|n| *n == "data.pkl" || n.ends_with("/data.pkl"));
    let main = main.min_by_key(|n| n.len()).ok_or("an archive without data.pkl is not torch's")?.to_string();
    let folder = &main[..main.len() - "data.pkl".len()];
    let order = format!("{folder}byteorder");
    if archive.names().any(|n| n == order) && archive.get(&order)?.trim_ascii() != b"little" {
        return Err("its numbers are big-endian, which is not read".into());
    }
    let bytes = archive.get(&main)?;
    let pickle = pickle::read(&mut Cursor::new(&bytes)).map_err(|e| format!("{main}: {e}"))?;
    check_classes(&pickle.objects)?;
    let mut storages = BTreeMap::new();
    for key in storage_keys(&pickle)?.into_keys() {
        let data = archive.get(&format!("{folder}data/{key}"))?;
        storages.insert(key, data);
    }
    value::build(&pickle, &storages)
}

fn parse_legacy(blob: &Blob) -> std::result::Result<Result<Value>, String> {
    let mut c = Cursor::new(blob);
    let mut next = |what: &str| pickle::read(&mut c).map_err(|e| format!("{what}: {e}"));
    next("the magic number")?;
    let version = next("the version")?;
    if version.objects[version.root] != Object::Int(LEGACY_VERSION) {
        return Err(format!("version {:?} of the legacy format is not known", version.objects[version.root]));
    }
    let system = next("the system")?;
    if is_big_endian(&system) {
        return Err("its numbers are big-endian, which is not read".into());
    }
    let main = next("the pickle")?;
    check_classes(&main.objects)?;
    let keys = next("the keys of the storages")?;
    let types = storage_keys(&main)?;
    let Object::List(keys_list) = &keys.objects[keys.root] else {
        return Err("the keys of the storages are no list".into());
    };
    let mut storages = BTreeMap::new();
    for key in keys_list {
        let Object::Str(key) = &keys.objects[*key] else {
            return Err("the key of a storage is no string".into());
        };
        let dtype = types.get(key).ok_or_else(|| format!("storage {key:?} belongs to no tensor"))?;
        let len = c.u64()?;
        let bytes = c
            .take_long(len.saturating_mul(dtype.size() as u64))
            .map_err(|e| format!("storage {key:?}: {e}"))?;
        let end = c.at();
        let data = blob.slice(end - bytes.len()..end).ok_or("a storage outside the file")?;
        if storages.insert(key.clone(), data).is_some() {
            return Err(format!("storage {key:?} stands twice"));
        }
    }
    value::build(&main, &storages)
}

fn is_big_endian(system: &Pickle) -> bool {
    let Object::Dict(items) = &system.objects[system.root] else { return false };
    let little = items.iter().find(|(k, _)| system.objects[*k] == Object::Str("little_endian".into()));
    little.is_some_and(|(_, v)| system.objects[*v] == Object::Bool(false))
}

/// The storages a pickle speaks of, and the types of their elements.
fn storage_keys(p: &Pickle) -> std::result::Result<BTreeMap<String, DType>, String> {
    let mut keys = BTreeMap::new();
    for o in &p.objects {
        let Object::Persistent(id) = o else { continue };
        let named = value::storage_name(p, *id)?;
        if keys.insert(named.key.clone(), named.dtype).is_some_and(|before| before != named.dtype) {
            return Err(format!("storage {:?} has two types", named.key));
        }
    }
    Ok(keys)
}

/// An error that names every class there is no meaning for.
fn check_classes(objects: &[Object]) -> std::result::Result<(), String> {
    let classes = objects.iter().filter_map(|o| match o {
        Object::Global(module, name) if !value::is_known(module, name) => Some(format!("{module}.{name}")),
        _ => None,
    });
    let unknown: BTreeSet<String> = classes.collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = unknown.into_iter().collect();
    Err(format!(
        "it holds objects of classes that are code, not data: {}; save a state dict instead",
        names.join(", ")
    ))
}
