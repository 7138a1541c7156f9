//! GGUF, the format of llama.cpp: metadata, and tensors that are mostly quantised.
//!
//! ```text
//! "GGUF", version, number of tensors, number of metadata
//! name, type, value             for each metadata: [`value`]
//! name, dims, type, offset      for each tensor: [`kind`] says what a block of each type is
//! padding to the alignment, data
//! ```
//!
//! A large model may be in several files (`parts`), which are opened by the first.
//!
//! A quantised tensor becomes an expression over its mapped bytes (`blocks`, `grids`) that makes float32 of them
//! where they are used: nothing is dequantised at loading, and a product with such a tensor reads its few bits. `words` are
//! the same weights for products in whole numbers.
//!
//! ```
//! # use frit_nn::{StateDict, gguf::{self, Gguf, Value}};
//! # use frit_tensor::Tensor;
//! # let path = std::env::temp_dir().join(format!("frit-doc-{}.gguf", std::process::id()));
//! let metadata = [("general.architecture".to_string(), Value::String("toy".into()))].into();
//! gguf::save(&path, &StateDict::from([("w".to_string(), Tensor::new([[1.0, 2.0]]))]), &metadata)?;
//! let file = Gguf::open(&path)?;
//! assert_eq!(file.metadata()["general.architecture"].as_str(), Some("toy"));
//! assert_eq!(file.tensor("w")?.to_vec::<f32>()?, [1.0, 2.0]);
//! # std::fs::remove_file(&path).ok();
//! # Ok::<(), frit_tensor::Error>(())
//! ```

mod blocks;
mod grids;
mod kind;
mod parts;
mod value;
mod words;
mod write;

use super::cursor::{Cursor, byte_size, text};
use super::{StateDict, open, tensor};
pub use frit_tensor::linalg::{Bytes, Words};
use frit_tensor::{Blob, DType, Error, Result, Tensor};
pub use kind::Kind;
use parts::Part;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
pub use value::{Array, Value};
pub use write::save;

/// Data starts at multiples of this, unless the file says otherwise.
const ALIGNMENT: u64 = 32;
/// More dims than any tensor of llama.cpp has.
const MAX_RANK: u32 = 8;

/// What a file says about one tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Info {
    /// How its values are stored.
    pub kind: Kind,
    /// Dims, the last one varying fastest: the other way round than in the file.
    pub shape: Vec<usize>,
    /// The file it is in, from 0, where the model is in several.
    pub part: usize,
    /// Bytes of the data there that are its value.
    pub bytes: Range<usize>,
}

/// An open file, or several that are one model: its metadata is read, its data is mapped and read when someone asks.
///
/// What must not happen to the file meanwhile is said at [`Blob`].
pub struct Gguf {
    version: u32,
    metadata: BTreeMap<String, Value>,
    tensors: BTreeMap<String, Info>,
    /// Of each part.
    data: Vec<Blob>,
    name: String,
}

impl Gguf {
    /// Opens a file of version 2 or 3; with `name-00001-of-00003.gguf` also the parts that follow it.
    #[track_caller]
    pub fn open(path: impl AsRef<Path>) -> Result<Gguf> {
        let _c = frit_tensor::call("load");
        let path = path.as_ref();
        let (mut all, part, others) = open("load", path, |blob| {
            let file = Gguf { name: path.display().to_string(), ..parse(blob)? };
            let part = Part::of(&file.metadata)?;
            Ok((file, part, part.others(path)?))
        })?;
        for (no, other) in (1..).zip(others) {
            open("load", &other, |blob| {
                let file = parse(blob)?;
                part.expect(no, Part::of(&file.metadata)?)?;
                all.add(file)
            })?;
        }
        part.expect_tensors(all.tensors.len())
            .map_err(|e| Error::new("load", format!("{}: {e}", all.name)))?;
        Ok(all)
    }
    /// A file that is in memory; not one of several, which are found by their names.
    #[track_caller]
    pub fn from_blob(blob: &Blob) -> Result<Gguf> {
        let _c = frit_tensor::call("load");
        let whole = |file: Gguf| match Part::of(&file.metadata)? {
            Part { count: 1, .. } => Ok(file),
            part => Err(format!("{part}: the others are found by its path, which is not known here")),
        };
        parse(blob).and_then(whole).map_err(|e| Error::new("load", e))
    }
    /// The tensors of one more part.
    fn add(&mut self, other: Gguf) -> std::result::Result<(), String> {
        for (name, info) in other.tensors {
            if self.tensors.contains_key(&name) {
                return Err(format!("tensor {name:?} is in an earlier part too"));
            }
            self.tensors.insert(name, Info { part: self.data.len(), ..info });
        }
        self.data.extend(other.data);
        Ok(())
    }
    /// The version of the format, 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }
    /// What else the file says, by key.
    pub fn metadata(&self) -> &BTreeMap<String, Value> {
        &self.metadata
    }
    /// The tensors by name.
    pub fn tensors(&self) -> &BTreeMap<String, Info> {
        &self.tensors
    }
    /// One tensor on the default device: float32 if it is quantised, else of its own type.
    #[track_caller]
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let _c = frit_tensor::call("load");
        let (info, bytes) = self.find(name)?;
        let t = match info.kind.dtype() {
            Some(dtype) => tensor(dtype, &bytes, &info.shape),
            None => info.kind.dequantize(&raw(info, &bytes)),
        };
        t.check().map(|()| t)
    }
    /// One tensor as it is stored: bytes, the last dim being the blocks of a row one after the other.
    #[track_caller]
    pub fn raw(&self, name: &str) -> Result<Tensor> {
        let _c = frit_tensor::call("load");
        let (info, bytes) = self.find(name)?;
        let t = raw(info, &bytes);
        t.check().map(|()| t)
    }
    /// One tensor of two dims for products in whole numbers, if its type is one that there are such for.
    #[track_caller]
    pub fn words(&self, name: &str) -> Result<Option<Words>> {
        let _c = frit_tensor::call("load");
        let (info, bytes) = self.find(name)?;
        Ok(info.kind.words(&raw(info, &bytes)))
    }
    fn find(&self, name: &str) -> Result<(&Info, Blob)> {
        let info = self.tensors.get(name);
        let found = info.and_then(|info| Some((info, self.data.get(info.part)?.slice(info.bytes.clone())?)));
        found.ok_or_else(|| Error::new("load", format!("{}: no tensor {name:?}", self.name)))
    }
    /// Every tensor.
    #[track_caller]
    pub fn state(&self) -> Result<StateDict> {
        let _c = frit_tensor::call("load");
        self.tensors.keys().map(|name| Ok((name.clone(), self.tensor(name)?))).collect()
    }
}

/// Every tensor of a file, or of several by the first of them, quantised ones as expressions that make float32 of them.
#[track_caller]
pub fn load(path: impl AsRef<Path>) -> Result<StateDict> {
    let _c = frit_tensor::call("load");
    Gguf::open(path)?.state()
}

fn raw(info: &Info, bytes: &Blob) -> Tensor {
    let mut dims = info.shape.clone();
    match dims.last_mut() {
        Some(last) => *last = *last / info.kind.block_len() * info.kind.block_bytes(),
        // a scalar is bytes too
        None => dims.push(info.kind.block_bytes()),
    }
    Tensor::from_blob(DType::U8, bytes, dims)
}

fn parse(blob: &Blob) -> std::result::Result<Gguf, String> {
    let mut c = Cursor::new(blob);
    if c.take(4)? != b"GGUF" {
        return Err("does not start with \"GGUF\"".into());
    }
    let version = c.u32()?;
    match version {
        2 | 3 => {}
        v if v.swap_bytes() <= 3 => return Err("big-endian GGUF is not read".into()),
        v => return Err(format!("GGUF version {v} is not known, only 2 and 3 are")),
    }
    let (tensors, metadata) = (c.u64()?, c.u64()?);
    let metadata = read_metadata(&mut c, blob, metadata)?;
    let alignment = match metadata.get("general.alignment").map(|v| (v, v.as_u64())) {
        None => ALIGNMENT,
        Some((_, Some(a))) if a.is_power_of_two() && a <= 1 << 20 => a,
        Some((v, _)) => return Err(format!("general.alignment is {v:?}")),
    };
    let infos = read_infos(&mut c, tensors)?;
    let start = c.at().next_multiple_of(alignment as usize);
    let data = blob.slice(start.min(blob.len())..blob.len()).ok_or("the data is outside the file")?;
    let tensors = place(infos, data.len(), alignment)?;
    Ok(Gguf { version, metadata, tensors, data: vec![data], name: "the file".into() })
}

fn read_metadata(
    c: &mut Cursor,
    blob: &Blob,
    count: u64,
) -> std::result::Result<BTreeMap<String, Value>, String> {
    let mut metadata = BTreeMap::new();
    for i in 0..count {
        let key = read_name(c).map_err(|e| format!("metadata {i} of {count}: {e}"))?;
        let value = value::read(c, blob).map_err(|e| format!("metadata {key:?}: {e}"))?;
        if metadata.insert(key.clone(), value).is_some() {
            return Err(format!("metadata {key:?} stands twice"));
        }
    }
    Ok(metadata)
}

fn read_name(c: &mut Cursor) -> std::result::Result<String, String> {
    let len = c.u64()?;
    text(c.take_long(len)?, "a name").map(str::to_string)
}

/// A tensor whose place was not checked yet.
struct Unplaced {
    name: String,
    kind: Kind,
    shape: Vec<usize>,
    offset: u64,
}

fn read_infos(c: &mut Cursor, count: u64) -> std::result::Result<Vec<Unplaced>, String> {
    let mut infos = Vec::new();
    for i in 0..count {
        let name = read_name(c).map_err(|e| format!("tensor {i} of {count}: {e}"))?;
        let info = read_info(c).map_err(|e| format!("tensor {name:?}: {e}"))?;
        infos.push(Unplaced { name, ..info });
    }
    Ok(infos)
}

fn read_info(c: &mut Cursor) -> std::result::Result<Unplaced, String> {
    let rank = c.u32()?;
    if rank > MAX_RANK {
        return Err(format!("{rank} dims, at most {MAX_RANK} are read"));
    }
    let mut shape = Vec::new();
    for _ in 0..rank {
        let d = c.u64()?;
        shape.push(usize::try_from(d).map_err(|_| format!("a dim of {d}"))?);
    }
    shape.reverse();
    let (number, offset) = (c.u32()?, c.u64()?);
    let kind = Kind::from_number(number).ok_or_else(|| kind::explain(number))?;
    Ok(Unplaced { name: String::new(), kind, shape, offset })
}

/// Every tensor's bytes lie inside the data, are as many as its type and shape say, and are its own.
fn place(
    infos: Vec<Unplaced>,
    data: usize,
    alignment: u64,
) -> std::result::Result<BTreeMap<String, Info>, String> {
    let mut placed = BTreeMap::new();
    for u in infos {
        let bytes = range(&u, data, alignment).map_err(|e| format!("tensor {:?}: {e}", u.name))?;
        let info = Info { kind: u.kind, shape: u.shape, part: 0, bytes };
        if placed.insert(u.name.clone(), info).is_some() {
            return Err(format!("tensor {:?} stands twice", u.name));
        }
    }
    let mut order: Vec<(&Range<usize>, &str)> = placed.iter().map(|(n, i)| (&i.bytes, n.as_str())).collect();
    order.retain(|(bytes, _)| !bytes.is_empty());
    order.sort_by_key(|(bytes, _)| (bytes.start, bytes.end));
    match order.windows(2).find(|w| w[0].0.end > w[1].0.start) {
        Some(w) => Err(format!("tensors {:?} and {:?} overlap", w[0].1, w[1].1)),
        None => Ok(placed),
    }
}

fn range(u: &Unplaced, data: usize, alignment: u64) -> std::result::Result<Range<usize>, String> {
    let (len, size) = (u.kind.block_len(), u.kind.block_bytes());
    let row = u.shape.last().copied().unwrap_or(1);
    if !row.is_multiple_of(len) {
        return Err(format!("rows of {row} are not made of whole {} blocks ({len} each)", u.kind));
    }
    let mut shape = u.shape.clone();
    if let Some(last) = shape.last_mut() {
        *last = row / len;
    }
    // the elements must be countable too: a block holds many
    let counted = byte_size(4, &u.shape).and(byte_size(size, &shape));
    let bytes = counted.ok_or_else(|| format!("shape {:?} is too large to be true", u.shape))?;
    if !u.offset.is_multiple_of(alignment) {
        return Err(format!("offset {} is not a multiple of {alignment}", u.offset));
    }
    let start = usize::try_from(u.offset).ok();
    let end = start.and_then(|s| s.checked_add(bytes)).filter(|end| *end <= data);
    match (start, end) {
        (Some(start), Some(end)) => Ok(start..end),
        _ => Err(format!("{bytes} bytes at {} are not inside the {data} bytes of data", u.offset)),
    }
}
