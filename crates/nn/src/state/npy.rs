//! `.npy` and `.npz`: arrays as numpy saves them.
//!
//! ```text
//! \x93NUMPY, version, length of the header, {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, data
//! ```
//!
//! Big-endian values and Fortran order are movement of what is mapped; nothing is copied before it is used.
//!
//! ```
//! # use frit_nn::npy;
//! # use frit_tensor::Tensor;
//! # let path = std::env::temp_dir().join(format!("frit-doc-{}.npy", std::process::id()));
//! npy::save(&path, &Tensor::new([[1.0, 2.0], [3.0, 4.0]]))?;
//! assert_eq!(npy::load(&path)?.sum(0).to_vec::<f32>()?, [4.0, 6.0]);
//! # std::fs::remove_file(&path).ok();
//! # Ok::<(), frit_tensor::Error>(())
//! ```

use super::cursor::{Cursor, byte_size};
use super::{StateDict, create, open, tensor, zip};
use frit_tensor::{Blob, DType, Error, Result, Tensor};
use std::io::Write;
use std::path::Path;

/// The first bytes of a file.
pub(super) const MAGIC: &[u8] = b"\x93NUMPY";
/// The data starts at a multiple of this.
const ALIGN: usize = 64;
/// Kinds and sizes as numpy writes them.
const DTYPES: [(&str, DType); 12] = [
    ("b1", DType::Bool),
    ("i1", DType::I8),
    ("i2", DType::I16),
    ("i4", DType::I32),
    ("i8", DType::I64),
    ("u1", DType::U8),
    ("u2", DType::U16),
    ("u4", DType::U32),
    ("u8", DType::U64),
    ("f2", DType::F16),
    ("f4", DType::F32),
    ("f8", DType::F64),
];

/// Reads a `.npy` file; the data is read when it is used.
#[track_caller]
pub fn load(path: impl AsRef<Path>) -> Result<Tensor> {
    open("load", path.as_ref(), read)?
}

/// Reads a `.npy` file that is in memory.
#[track_caller]
pub fn from_blob(blob: &Blob) -> Result<Tensor> {
    let _c = frit_tensor::call("load");
    read(blob).map_err(|e| Error::new("load", e))?
}

/// Reads a `.npz` file, an archive of `.npy` files; names are without the ending.
#[track_caller]
pub fn load_npz(path: impl AsRef<Path>) -> Result<StateDict> {
    open("load", path.as_ref(), read_npz)?.into_iter().collect()
}

/// Reads a `.npz` file that is in memory.
#[track_caller]
pub fn npz_from_blob(blob: &Blob) -> Result<StateDict> {
    let _c = frit_tensor::call("load");
    read_npz(blob).map_err(|e| Error::new("load", e))?.into_iter().collect()
}

fn read_npz(blob: &Blob) -> std::result::Result<Vec<Result<(String, Tensor)>>, String> {
    let archive = zip::Archive::read(blob)?;
    let mut all = Vec::new();
    for entry in archive.names() {
        let name = entry.strip_suffix(".npy").unwrap_or(entry).to_string();
        let t = read(&archive.get(entry)?).map_err(|e| format!("entry {entry:?}: {e}"))?;
        all.push(t.map(|t| (name, t)));
    }
    Ok(all)
}

/// Writes a `.npy` file.
#[track_caller]
pub fn save(path: impl AsRef<Path>, t: &Tensor) -> Result<()> {
    let _c = frit_tensor::call("save");
    let path = path.as_ref();
    let named = |e: String| Error::new("save", format!("{}: {e}", path.display()));
    let header = header_of(t)?.map_err(named)?;
    create("save", path, std::iter::once(t), |out| {
        out.write_all(&header).map_err(|e| named(e.to_string()))?;
        t.write_bytes(out)
    })
}

/// Writes a `.npz` file, uncompressed; the same tensors give the same bytes.
#[track_caller]
pub fn save_npz(path: impl AsRef<Path>, state: &StateDict) -> Result<()> {
    let _c = frit_tensor::call("save");
    let path = path.as_ref();
    let named = |e: String| Error::new("save", format!("{}: {e}", path.display()));
    create("save", path, state.values(), |out| {
        let mut archive = zip::Writer::new(out);
        for (name, t) in state {
            let header = header_of(t).map_err(|e| e.within(name))?;
            let header = header.map_err(|e| named(format!("tensor {name:?}: {e}")))?;
            let bytes = byte_size(t.dtype().size(), &t.dims()?).unwrap_or(0) + header.len();
            let write = |out: &mut dyn Write| -> std::result::Result<(), Failed> {
                out.write_all(&header)?;
                Ok(t.write_bytes(out).map_err(|e| e.within(name))?)
            };
            archive.entry(&format!("{name}.npy"), bytes as u64, write).map_err(|e| match e {
                Failed::Io(e) => named(e.to_string()),
                Failed::Tensor(e) => e,
            })?;
        }
        archive.finish().map_err(|e| named(e.to_string()))
    })
}

/// What can go wrong while an entry is written.
enum Failed {
    Io(std::io::Error),
    Tensor(Error),
}
impl From<std::io::Error> for Failed {
    fn from(e: std::io::Error) -> Failed {
        Failed::Io(e)
    }
}
impl From<Error> for Failed {
    fn from(e: Error) -> Failed {
        Failed::Tensor(e)
    }
}

/// What the header of a file says.
#[derive(Debug, PartialEq)]
struct Header {
    dtype: DType,
    is_big_endian: bool,
    is_fortran: bool,
    shape: Vec<usize>,
}

fn read(blob: &Blob) -> std::result::Result<Result<Tensor>, String> {
    let mut c = Cursor::new(blob);
    if c.take(MAGIC.len())? != MAGIC {
        return Err("does not start as a .npy file does".into());
    }
    let (major, minor) = (c.u8()?, c.u8()?);
    let len = match major {
        1 => c.u16()? as usize,
        2 | 3 => c.u32()? as usize,
        _ => return Err(format!("version {major}.{minor} of the format is not known")),
    };
    let bytes = c.take(len)?;
    let header = parse(&bytes.iter().map(|b| *b as char).collect::<String>())?;
    let Header { dtype, shape, .. } = &header;
    let have = c.left();
    let need = byte_size(dtype.size(), shape).filter(|n| *n <= have);
    let need =
        need.ok_or_else(|| format!("{dtype} of shape {shape:?} needs more than the {have} bytes there are"))?;
    let data = blob.slice(c.at()..c.at() + need).ok_or("outside the file")?;
    Ok(arranged(&data, &header))
}

/// The tensor of data in any order.
fn arranged(data: &Blob, h: &Header) -> Result<Tensor> {
    let mut shape = h.shape.clone();
    if h.is_fortran {
        shape.reverse();
    }
    let size = h.dtype.size();
    let t = if h.is_big_endian && size > 1 {
        let bytes = Tensor::from_blob(DType::U8, data, [data.len() / size, size]);
        bytes.flip(1).bitcast(h.dtype).reshape(shape)
    } else {
        tensor(h.dtype, data, &shape)
    };
    let t = match h.is_fortran {
        true => t.permute((0..h.shape.len() as isize).rev().collect::<Vec<_>>()),
        false => t,
    };
    t.check().map(|()| t)
}

fn header_of(t: &Tensor) -> Result<std::result::Result<Vec<u8>, String>> {
    let shape = t.dims()?;
    let Some((code, _)) = DTYPES.iter().find(|(_, d)| *d == t.dtype()) else {
        return Ok(Err(format!("{} has no place in a .npy file; cast it", t.dtype())));
    };
    let order = if t.dtype().size() == 1 { '|' } else { '<' };
    let dims: String = shape.iter().map(|d| format!("{d}, ")).collect();
    let dims = if shape.len() == 1 { dims.trim_end() } else { dims.trim_end_matches(", ") };
    let mut text = format!("{{'descr': '{order}{code}', 'fortran_order': False, 'shape': ({dims}), }}");
    let (version, fixed) = if text.len() + ALIGN < u16::MAX as usize { (1, 10) } else { (2, 12) };
    let pad = (fixed + text.len() + 1).next_multiple_of(ALIGN) - (fixed + text.len() + 1);
    text.extend(std::iter::repeat_n(' ', pad));
    text.push('\n');
    let mut out = [MAGIC, &[version, 0]].concat();
    match version {
        1 => out.extend((text.len() as u16).to_le_bytes()),
        _ => out.extend((text.len() as u32).to_le_bytes()),
    }
    out.extend(text.into_bytes());
    Ok(Ok(out))
}

/// Reads the header: a Python dict of a string, a truth value and a tuple of sizes.
fn parse(header: &str) -> std::result::Result<Header, String> {
    let wrong = |what: &str| {
        format!("the header {what}: {:?}", header.trim_end().chars().take(200).collect::<String>())
    };
    let inner = header.trim().strip_prefix('{').and_then(|h| h.strip_suffix('}'));
    let inner = inner.ok_or_else(|| wrong("is not a dict"))?;
    let value = |key: &str| {
        let quoted = [format!("'{key}'"), format!("\"{key}\"")];
        let at = quoted.iter().find_map(|k| Some(inner.find(k.as_str())? + k.len()));
        let rest = at.map(|at| inner[at..].trim_start()).and_then(|r| r.strip_prefix(':'));
        rest.map(str::trim_start).ok_or_else(|| wrong(&format!("has no {key:?}")))
    };
    let (dtype, is_big_endian) = descr(value("descr")?, &wrong)?;
    let is_fortran = match value("fortran_order")? {
        v if v.starts_with("True") => true,
        v if v.starts_with("False") => false,
        _ => return Err(wrong("has a fortran_order that is no truth value")),
    };
    let shape = value("shape")?.strip_prefix('(').and_then(|s| s.split_once(')')).map(|(dims, _)| dims);
    let dims = shape.ok_or_else(|| wrong("has a shape that is no tuple"))?.split(',').map(str::trim);
    let dims = dims.filter(|d| !d.is_empty()).map(|d| d.trim_end_matches('L').parse());
    let shape = dims
        .collect::<std::result::Result<Vec<usize>, _>>()
        .map_err(|_| wrong("has a shape that is not of sizes"))?;
    Ok(Header { dtype, is_big_endian, is_fortran, shape })
}

fn descr(v: &str, wrong: &dyn Fn(&str) -> String) -> std::result::Result<(DType, bool), String> {
    if v.starts_with('[') {
        return Err(wrong("describes records of several fields, which are not tensors"));
    }
    let quote = v.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let code = quote.and_then(|q| v[1..].split_once(q)).map(|(code, _)| code);
    let code = code.ok_or_else(|| wrong("has a descr that is no string"))?;
    let (order, kind) = match code.chars().next() {
        Some(c @ ('<' | '>' | '|' | '=')) => (c, &code[1..]),
        _ => ('<', code),
    };
    let known = DTYPES.iter().find(|(k, _)| *k == kind || (kind == "?" && *k == "b1"));
    let (_, dtype) = known.ok_or_else(|| format!("numpy's dtype {code:?} has no counterpart"))?;
    Ok((*dtype, order == '>'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_as_numpy_writes_them() {
        let h = parse("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }        \n").unwrap();
        assert_eq!(
            h,
            Header { dtype: DType::F32, is_big_endian: false, is_fortran: false, shape: vec![3, 4] }
        );
        let h = parse("{'descr': '>i2', 'fortran_order': True, 'shape': (5L,), }").unwrap();
        assert_eq!(h, Header { dtype: DType::I16, is_big_endian: true, is_fortran: true, shape: vec![5] });
        assert_eq!(parse("{\"shape\":(),\"descr\":\"|b1\",\"fortran_order\":False}").unwrap().shape, []);
    }

    #[test]
    fn headers_that_lie_are_errors() {
        let cases = [
            ("", "is not a dict"),
            ("{}", "has no \"descr\""),
            ("{'descr': '<f4'}", "has no \"fortran_order\""),
            ("{'descr': '<f4', 'fortran_order': 3, 'shape': ()}", "no truth value"),
            ("{'descr': '<f4', 'fortran_order': True, 'shape': (}", "no tuple"),
            ("{'descr': '<f4', 'fortran_order': True, 'shape': (-1,)}", "not of sizes"),
            ("{'descr': '<f4', 'fortran_order': True, 'shape': (99999999999999999999999,)}", "not of sizes"),
            ("{'descr': '<c8', 'fortran_order': True, 'shape': ()}", "\"<c8\" has no counterpart"),
            ("{'descr': '|O', 'fortran_order': True, 'shape': ()}", "\"|O\" has no counterpart"),
            ("{'descr': [('a', '<f4')], 'fortran_order': True, 'shape': ()}", "several fields"),
            ("{'descr': <f4, 'fortran_order': True, 'shape': ()}", "no string"),
        ];
        for (header, part) in cases {
            let e = parse(header).unwrap_err();
            assert!(e.contains(part), "{header}: {e}");
        }
    }
}
