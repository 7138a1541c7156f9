//! A model in several files: an index says which tensor is in which.
//!
//! ```text
//! {"metadata": {"total_size": 8}, "weight_map": {"a": "model-00001-of-00002.safetensors", "b": "…"}}
//! ```

use super::{SafeTensors, StateDict};
use crate::state::json::{self, Value};
use crate::state::open;
use frit_tensor::{Blob, Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

/// The content of `model.safetensors.index.json`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Index {
    /// The file, beside the index, of each tensor.
    pub weight_map: BTreeMap<String, String>,
    /// The bytes of all tensors together, if it says so.
    pub total_size: Option<usize>,
}

impl Index {
    /// Reads an index that is in memory.
    #[track_caller]
    pub fn from_blob(blob: &Blob) -> Result<Index> {
        let _c = frit_tensor::call("load");
        Index::parse(blob).map_err(|e| Error::new("load", e))
    }
    pub(in crate::state) fn parse(bytes: &[u8]) -> std::result::Result<Index, String> {
        let text = std::str::from_utf8(bytes).map_err(|e| format!("the index is not UTF-8: {e}"))?;
        let value = json::parse(text).map_err(|e| format!("the index is not JSON: {e}"))?;
        let member = |name: &str| value.as_object().and_then(|o| o.get(name));
        let map = member("weight_map").and_then(Value::as_object).ok_or("the index has no \"weight_map\"")?;
        let mut index = Index::default();
        for (tensor, file) in map {
            let file = file.as_str().filter(|f| is_beside(f)).ok_or_else(|| {
                format!("weight_map: the file of {tensor:?} is not the name of a file beside the index")
            })?;
            index.weight_map.insert(tensor.clone(), file.to_string());
        }
        let total = member("metadata").and_then(Value::as_object).and_then(|m| m.get("total_size"));
        index.total_size = total.and_then(Value::as_usize);
        Ok(index)
    }
    /// The files it names, each once.
    pub fn files(&self) -> BTreeSet<&str> {
        self.weight_map.values().map(String::as_str).collect()
    }
}

/// A plain name: an index cannot lead out of its folder.
fn is_beside(file: &str) -> bool {
    let mut parts = Path::new(file).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
}

/// Every tensor of a sharded model, given its index. Shards that are not there, and tensors that are in no shard, in
/// another one than the index says, or not in the index, are named all at once.
#[track_caller]
pub fn load_sharded(path: impl AsRef<Path>) -> Result<StateDict> {
    let _c = frit_tensor::call("load");
    let path = path.as_ref();
    let index = open("load", path, |blob| Index::parse(blob))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let (mut state, mut wrong) = (StateDict::new(), Vec::new());
    for file in index.files() {
        let shard = match SafeTensors::open(folder.join(file)) {
            Ok(shard) => shard,
            Err(e) => {
                wrong.push(e.message().to_string());
                continue;
            }
        };
        let here = index.weight_map.iter().filter(|(_, f)| *f == file).map(|(t, _)| t.as_str());
        let (said, found): (BTreeSet<&str>, BTreeSet<&str>) = (here.collect(), shard.names().collect());
        wrong.extend(
            said.difference(&found)
                .map(|t| format!("{file} has no tensor {t:?}, which the index puts there")),
        );
        for extra in found.difference(&said) {
            wrong.push(match index.weight_map.get(*extra) {
                Some(other) => format!("tensor {extra:?} is in {file} too, the index puts it in {other}"),
                None => format!("tensor {extra:?} of {file} is not in the index"),
            });
        }
        for name in said.intersection(&found) {
            state.insert(name.to_string(), shard.tensor(name)?);
        }
    }
    match wrong.is_empty() {
        true => Ok(state),
        false => Err(Error::new("load", format!("{}: {}", path.display(), wrong.join("; ")))),
    }
}
