//! Writing GGUF: plain types, each tensor as it is.

use super::{ALIGNMENT, Kind, StateDict, Value};
use crate::state::create;
use crate::state::cursor::byte_size;
use frit_tensor::{Error, Result};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// Writes a file of version 3; the same tensors and metadata give the same bytes. Types that GGUF does not have are an
/// error: cast first.
#[track_caller]
pub fn save(path: impl AsRef<Path>, state: &StateDict, metadata: &BTreeMap<String, Value>) -> Result<()> {
    let _c = frit_tensor::call("save");
    let path = path.as_ref();
    let named = |e: String| Error::new("save", format!("{}: {e}", path.display()));
    let (mut head, mut at) = (b"GGUF".to_vec(), 0u64);
    head.extend(3u32.to_le_bytes());
    head.extend((state.len() as u64).to_le_bytes());
    head.extend((metadata.len() as u64).to_le_bytes());
    if metadata.contains_key("general.alignment") {
        return Err(named("general.alignment is for the writer to choose".into()));
    }
    for (key, value) in metadata {
        Value::String(key.clone()).put(&mut head);
        head.extend(value.kind().to_le_bytes());
        value.put(&mut head);
    }
    let mut sizes = Vec::new();
    for (name, t) in state {
        let dims = t.dims().map_err(|e| e.within(name))?;
        let kind = Kind::of(t.dtype());
        let kind =
            kind.ok_or_else(|| named(format!("tensor {name:?}: {} has no place in GGUF", t.dtype())))?;
        Value::String(name.clone()).put(&mut head);
        head.extend((dims.len() as u32).to_le_bytes());
        dims.iter().rev().for_each(|d| head.extend((*d as u64).to_le_bytes()));
        head.extend(kind.number().to_le_bytes());
        head.extend(at.to_le_bytes());
        let bytes = byte_size(t.dtype().size(), &dims);
        let bytes = bytes.ok_or_else(|| named(format!("tensor {name:?} is too large")))? as u64;
        at += bytes.next_multiple_of(ALIGNMENT);
        sizes.push(bytes);
    }
    head.resize(head.len().next_multiple_of(ALIGNMENT as usize), 0);
    create("save", path, state.values(), |out| {
        out.write_all(&head).map_err(|e| named(e.to_string()))?;
        for ((name, t), bytes) in state.iter().zip(&sizes) {
            t.write_bytes(out).map_err(|e| e.within(name))?;
            let pad = (bytes.next_multiple_of(ALIGNMENT) - bytes) as usize;
            out.write_all(&[0; ALIGNMENT as usize][..pad]).map_err(|e| named(e.to_string()))?;
        }
        Ok(())
    })
}
