//! Values by name: in memory, in files of every common format, and taken over into a module.
//!
//! [`load`] tells formats apart by their content; each has a module of its own for more than tensors by name:
//! [`safetensors`] (one file or sharded), [`gguf`], [`torch`] (`.pt`, `.pth`), [`npy`] (`.npy`, `.npz`). All map the
//! file: opening takes milliseconds however large it is, and a tensor's bytes are read when it is used. Nothing in a
//! file is believed: lengths and offsets are checked against the file before anything is read or allocated by them, and
//! a file that lies is an error that names it.
//!
//! Under them: `cursor` and `json` read bytes and text, `zip` archives.

mod cursor;
pub mod gguf;
mod json;
pub mod npy;
pub mod safetensors;
pub mod torch;
mod zip;

use frit_tensor::{Blob, DType, Error, Result, Tensor};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Tensors by name.
pub type StateDict = BTreeMap<String, Tensor>;

/// The tensors of a file, whatever its format: safetensors, a sharded model's index, GGUF (dequantised to float32),
/// torch's `.pt` and `.pth`, `.npy` (one tensor, under the name `""`) and `.npz`. The content says which it is, the
/// name of the file does not matter.
///
/// ```
/// # use frit_nn::{StateDict, load, npy};
/// # use frit_tensor::Tensor;
/// # let path = std::env::temp_dir().join(format!("frit-doc-{}-state", std::process::id()));
/// npy::save_npz(&path, &StateDict::from([("w".to_string(), Tensor::new([1.0, 2.0]))]))?;
/// assert_eq!(load(&path)?["w"].to_vec::<f32>()?, [1.0, 2.0]);
/// # std::fs::remove_file(&path).ok();
/// # Ok::<(), frit_tensor::Error>(())
/// ```
#[track_caller]
pub fn load(path: impl AsRef<Path>) -> Result<StateDict> {
    let _c = frit_tensor::call("load");
    let path = path.as_ref();
    match open("load", path, |blob| Ok(Format::of(blob)))? {
        Some(Format::SafeTensors) => safetensors::load(path),
        Some(Format::Index) => safetensors::load_sharded(path),
        Some(Format::Gguf) => gguf::load(path),
        Some(Format::Torch) => torch::load(path),
        Some(Format::Npy) => Ok(StateDict::from([(String::new(), npy::load(path)?)])),
        Some(Format::Npz) => npy::load_npz(path),
        None => {
            let known = "safetensors, a safetensors index, GGUF, torch, .npy or .npz";
            Err(Error::new("load", format!("{}: this is not {known}", path.display())))
        }
    }
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum Format {
    SafeTensors,
    Index,
    Gguf,
    Torch,
    Npy,
    Npz,
}

impl Format {
    /// By the first bytes, and for archives by what is in them.
    pub fn of(bytes: &[u8]) -> Option<Format> {
        let starts = |magic: &[u8]| bytes.starts_with(magic);
        if starts(b"GGUF") {
            return Some(Format::Gguf);
        }
        if starts(npy::MAGIC) {
            return Some(Format::Npy);
        }
        if starts(zip::MAGIC) || starts(zip::EMPTY) {
            let is_npy = |names: Vec<String>| names.iter().all(|n| n.ends_with(".npy"));
            let npz = zip::names(bytes).is_ok_and(is_npy);
            return Some(if npz { Format::Npz } else { Format::Torch });
        }
        if torch::is_legacy(bytes) {
            return Some(Format::Torch);
        }
        // a length that is not absurd, then an object
        if bytes.get(5..8) == Some(&[0; 3]) && bytes.get(8) == Some(&b'{') {
            return Some(Format::SafeTensors);
        }
        let first = bytes.iter().take(64).find(|b| !b.is_ascii_whitespace());
        (first == Some(&b'{')).then_some(Format::Index)
    }
}

/// Maps a file and hands it to `read`; errors name the file and the user's line.
#[track_caller]
fn open<T>(
    op: &'static str,
    path: &Path,
    read: impl FnOnce(&Blob) -> std::result::Result<T, String>,
) -> Result<T> {
    let _c = frit_tensor::call(op);
    let parsed = Blob::open(path).map_err(|e| e.to_string()).and_then(|blob| read(&blob));
    parsed.map_err(|e| Error::new(op, format!("{}: {e}", path.display())))
}

/// A tensor over a part of a file. A truth value may be any byte in a file; here it is one of two.
fn tensor(dtype: DType, bytes: &Blob, shape: &[usize]) -> Tensor {
    match dtype {
        DType::Bool => Tensor::from_blob(DType::U8, bytes, shape).ne(0),
        _ => Tensor::from_blob(dtype, bytes, shape),
    }
}

/// Writes a file under another name and gives it its own when all of it is there. What `write` will take the bytes of
/// is computed first, all together; values that share no work with others are left for then.
fn create<'a>(
    op: &'static str,
    path: &Path,
    values: impl Iterator<Item = &'a Tensor>,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<()>,
) -> Result<()> {
    Tensor::realize_all(&values.filter(|t| !t.is_pointwise()).collect::<Vec<_>>())?;
    let partial = partial_path(path);
    let io = |e: std::io::Error| Error::new(op, format!("{}: {e}", path.display()));
    let all = || -> Result<()> {
        let mut out = BufWriter::new(File::create(&partial).map_err(io)?);
        write(&mut out)?;
        out.into_inner().map_err(|e| io(e.into_error()))?.sync_all().map_err(io)?;
        std::fs::rename(&partial, path).map_err(io)
    };
    all().inspect_err(|_| {
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

/// Assigns the values of `state` to the tensors of a module, or names all that does not fit and changes nothing.
#[track_caller]
pub(crate) fn load_into(tensors: &[(String, Tensor)], state: &StateDict) -> Result<()> {
    let _c = frit_tensor::call("load_state_dict");
    let mut shapes = Vec::new();
    for (name, t) in tensors {
        t.check()?;
        if let Some(value) = state.get(name) {
            value.check()?;
            if value.shape() != t.shape() {
                shapes.push(format!("{name} is {} here and {} in the state", t.shape(), value.shape()));
            }
        }
    }
    let known: BTreeSet<&str> = tensors.iter().map(|(name, _)| name.as_str()).collect();
    let missing = known.iter().filter(|name| !state.contains_key(**name)).map(|name| name.to_string());
    let unexpected = state.keys().filter(|name| !known.contains(name.as_str())).cloned();
    let complaints: Vec<String> =
        [("missing", missing.collect()), ("unexpected", unexpected.collect()), ("of another shape", shapes)]
            .into_iter()
            .filter(|(_, names): &(_, Vec<String>)| !names.is_empty())
            .map(|(what, names)| format!("{} {what}: {}", names.len(), names.join(", ")))
            .collect();
    if !complaints.is_empty() {
        return Err(Error::new("load_state_dict", complaints.join("; ")));
    }
    for (name, t) in tensors {
        if let Some(value) = state.get(name) {
            t.replace(&value.cast(t.dtype()).to(&t.device()?));
        }
    }
    Ok(())
}
