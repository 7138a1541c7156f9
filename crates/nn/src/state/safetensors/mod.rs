//! safetensors files: opened without reading the data, written whole.
//!
//! [`json`] and [`header`] say what is in a file and that it is true; here it becomes tensors, and tensors a file.
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
mod json;

use crate::StateDict;
use frit_tensor::{DType, Error, Result, Tensor};
use header::Header;
use memmap2::Mmap;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// An open file: its header is checked, its data is mapped and read when someone asks.
///
/// While it is open no one should shorten the file; the operating system ends a process that reads mapped bytes which
/// are no longer there.
pub struct SafeTensors {
    path: PathBuf,
    header: Header,
    map: Mmap,
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
        let _c = frit_tensor::call("load");
        let open = || {
            let file = std::fs::File::open(path).map_err(|e| e.to_string())?;
            if file.metadata().map_err(|e| e.to_string())?.is_dir() {
                return Err(String::from("is a directory"));
            }
            // SAFETY: the map is read-only and private to this struct; that the file must not shrink under it is in
            // the documentation of the type, as it is for every user of mapped files.
            let map = unsafe { Mmap::map(&file) }.map_err(|e| format!("cannot be mapped: {e}"))?;
            Ok((header::read(&map)?, map))
        };
        match open() {
            Ok((header, map)) => Ok(SafeTensors { path: path.to_path_buf(), header, map }),
            Err(e) => Err(Error::new("load", format!("{}: {e}", path.display()))),
        }
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
        let bytes = self.map.get(self.header.data_start..)?.get(info.bytes.clone())?;
        Some(View { dtype: info.dtype, shape: &info.shape, bytes })
    }
    /// One tensor on the default device.
    #[track_caller]
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let _c = frit_tensor::call("load");
        let Some(view) = self.view(name) else {
            return Err(Error::new("load", format!("{}: no tensor {name:?}", self.path.display())));
        };
        let t = Tensor::from_bytes(view.dtype, view.bytes, view.shape);
        t.check().map(|()| t)
    }
}

/// Every tensor of a file, on the default device.
#[track_caller]
pub fn load(path: impl AsRef<Path>) -> Result<StateDict> {
    let _c = frit_tensor::call("load");
    let file = SafeTensors::open(path)?;
    file.names().map(|name| Ok((name.to_string(), file.tensor(name)?))).collect()
}

/// Writes a file with these tensors; an existing one is replaced when all of it is written.
#[track_caller]
pub fn save(path: impl AsRef<Path>, state: &StateDict) -> Result<()> {
    save_with(path, state, &BTreeMap::new())
}

/// As [`save`], with free text in the header.
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
    let name_file = |e: String| Error::new("save", format!("{}: {e}", path.display()));
    let header = header::write(&entries, metadata).map_err(name_file)?;
    Tensor::realize_all(&state.values().collect::<Vec<_>>())?;

    let partial = partial_path(path);
    let write = || -> Result<()> {
        let io = |e: std::io::Error| name_file(e.to_string());
        let mut out = std::io::BufWriter::new(std::fs::File::create(&partial).map_err(io)?);
        out.write_all(&header).map_err(io)?;
        for (name, _, _) in &entries {
            out.write_all(&state[*name].to_bytes()?).map_err(io)?;
        }
        out.into_inner().map_err(|e| io(e.into_error()))?.sync_all().map_err(io)?;
        std::fs::rename(&partial, path).map_err(io)
    };
    write().inspect_err(|_| {
        std::fs::remove_file(&partial).ok();
    })
}

/// A name beside `path` that no other save uses at the same time.
fn partial_path(path: &Path) -> PathBuf {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.{}.partial", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    path.with_file_name(name)
}
