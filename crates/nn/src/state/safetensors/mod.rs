//! safetensors files: mapped, so that opening one reads its header only; sharded ones too; written in one pass.
//!
//! `header` says what is in a file and that it is true, `sharded` finds the files of an index; here they become
//! tensors, and tensors a file.
//!
//! ```
//! # use frit_nn::{Linear, Module, safetensors};
//! # let path = std::env::temp_dir().join(format!("frit-doc-{}.safetensors", std::process::id()));
//! let (a, b) = (Linear::new(3, 2), Linear::new(3, 2));
//! safetensors::save(&path, &a.state_dict())?;
//! b.load_state_dict(&safetensors::load(&path)?)?;
//! assert_eq!(a.weight.to_vec::<f32>()?, b.weight.to_vec::<f32>()?);
//! # std::fs::remove_file(&path).ok();
//! # Ok::<(), frit_tensor::Error>(())
//! ```

mod header;
mod sharded;

use super::{StateDict, create, open, tensor};
use frit_tensor::{Blob, DType, Error, Result, Tensor};
use header::Header;
pub use sharded::{Index, load_sharded};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// An open file: its header is checked, its data is mapped and read when someone asks.
///
/// What must not happen to the file meanwhile is said at [`Blob`].
pub struct SafeTensors {
    header: Header,
    data: Blob,
    name: String,
}

/// One tensor of an open file, its bytes where they are mapped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View<'a> {
    /// Element type.
    pub dtype: DType,
    /// Dims.
    pub shape: &'a [usize],
    /// Little-endian values, row-major; not aligned to the type.
    pub bytes: &'a [u8],
}

impl SafeTensors {
    /// Opens a file and checks its header.
    #[track_caller]
    pub fn open(path: impl AsRef<Path>) -> Result<SafeTensors> {
        let path = path.as_ref();
        open("load", path, |blob| {
            let name = path.display().to_string();
            SafeTensors::parse(blob).map(|file| SafeTensors { name, ..file })
        })
    }
    /// A file that is in memory.
    #[track_caller]
    pub fn from_blob(blob: &Blob) -> Result<SafeTensors> {
        let _c = frit_tensor::call("load");
        SafeTensors::parse(blob).map_err(|e| Error::new("load", e))
    }
    pub(super) fn parse(blob: &Blob) -> std::result::Result<SafeTensors, String> {
        let header = header::read(blob)?;
        let data = blob.slice(header.data_start..blob.len()).ok_or("the header is longer than the file")?;
        Ok(SafeTensors { header, data, name: "the file".into() })
    }
    /// The names of its tensors, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.header.tensors.keys().map(String::as_str)
    }
    /// The free text in the header.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.header.metadata
    }
    /// One tensor as it lies in the file; nothing is copied.
    pub fn view(&self, name: &str) -> Option<View<'_>> {
        let info = self.header.tensors.get(name)?;
        let bytes = self.data.get(info.bytes.clone())?;
        Some(View { dtype: info.dtype, shape: &info.shape, bytes })
    }
    /// Matrices of one type and of as many columns as rows of one tensor, on the default device: it is over all that lies
    /// between them in the file, so nothing is copied, and what is not theirs is not read. With the row at which each begins.
    /// `None` where one is not here, or where they are no rows of one tensor as they lie.
    #[track_caller]
    pub fn rows(&self, names: &[String]) -> Result<Option<(Tensor, Vec<usize>)>> {
        let _c = frit_tensor::call("load");
        let infos = names.iter().map(|n| self.header.tensors.get(n)).collect::<Option<Vec<_>>>();
        let Some(infos) = infos.filter(|all| !all.is_empty()) else { return Ok(None) };
        let (dtype, columns) = (infos[0].dtype, infos[0].shape.last().copied().unwrap_or(0));
        let begin = infos.iter().map(|i| i.bytes.start).min().unwrap_or(0);
        let end = infos.iter().map(|i| i.bytes.end).max().unwrap_or(0);
        let row = columns * dtype.size();
        let is_row = |i: &&header::Info| {
            i.dtype == dtype
                && i.shape.len() == 2
                && i.shape[1] == columns
                && (i.bytes.start - begin).is_multiple_of(row)
        };
        let Some(bytes) = self.data.slice(begin..end).filter(|_| row > 0 && dtype != DType::Bool) else {
            return Ok(None);
        };
        // memory that is not aligned would be copied, with all that is between
        if !infos.iter().all(is_row) || !bytes.as_ptr().addr().is_multiple_of(dtype.size()) {
            return Ok(None);
        }
        let begins = infos.iter().map(|i| (i.bytes.start - begin) / row).collect();
        let rows = Tensor::from_blob(dtype, &bytes, [(end - begin) / row, columns]);
        rows.check()?;
        Ok(Some((rows, begins)))
    }
    /// One tensor on the default device; its data is read when it is used.
    #[track_caller]
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let _c = frit_tensor::call("load");
        let info = self.header.tensors.get(name);
        let slice = info.and_then(|info| Some((info, self.data.slice(info.bytes.clone())?)));
        let Some((info, bytes)) = slice else {
            return Err(Error::new("load", format!("{}: no tensor {name:?}", self.name)));
        };
        let t = tensor(info.dtype, &bytes, &info.shape);
        t.check().map(|()| t)
    }
    /// Every tensor.
    #[track_caller]
    pub fn state(&self) -> Result<StateDict> {
        let _c = frit_tensor::call("load");
        self.names().map(|name| Ok((name.to_string(), self.tensor(name)?))).collect()
    }
}

/// Every tensor of a file, on the default device; data is read when it is used.
#[track_caller]
pub fn load(path: impl AsRef<Path>) -> Result<StateDict> {
    let _c = frit_tensor::call("load");
    SafeTensors::open(path)?.state()
}

/// Writes a file with these tensors; an existing one is replaced when all of it is written.
#[track_caller]
pub fn save(path: impl AsRef<Path>, state: &StateDict) -> Result<()> {
    save_with(path, state, &BTreeMap::new())
}

/// As [`save`], with free text in the header. The same tensors and text give the same bytes.
#[track_caller]
pub fn save_with(
    path: impl AsRef<Path>,
    state: &StateDict,
    metadata: &BTreeMap<String, String>,
) -> Result<()> {
    let path = path.as_ref();
    let _c = frit_tensor::call("save");
    let mut entries = Vec::new();
    for (name, t) in state {
        entries.push((name.as_str(), t.dtype(), t.dims().map_err(|e| e.within(name))?));
    }
    // Wide types first, so that every tensor is aligned to its type.
    entries.sort_by_key(|(_, dtype, _)| std::cmp::Reverse(dtype.size()));
    let named = |e: String| Error::new("save", format!("{}: {e}", path.display()));
    let header = header::write(&entries, metadata).map_err(named)?;
    create("save", path, state.values(), |out| {
        out.write_all(&header).map_err(|e| named(e.to_string()))?;
        entries.iter().try_for_each(|(name, ..)| state[*name].write_bytes(out).map_err(|e| e.within(name)))
    })
}
