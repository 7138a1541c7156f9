//! The header of a safetensors file: bytes in, a checked table of tensors out.
//!
//! ```text
//! 8 bytes     N, little endian
//! N bytes     {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {..}, ..}
//! the rest    the data; offsets count from its start
//! ```
//!
//! What holds afterwards: every tensor's bytes lie inside the data and are as many as its type and shape say, and
//! each byte of the data belongs to exactly one tensor.

use crate::state::cursor::byte_size;
use crate::state::json::{self, Value};
use frit_tensor::DType;
use std::collections::BTreeMap;
use std::ops::Range;

/// The largest header that is read, as in other implementations.
const MAX_HEADER: usize = 100_000_000;
/// Spelling of each type in the file.
const DTYPES: [(&str, DType); 17] = [
    ("BOOL", DType::Bool),
    ("U8", DType::U8),
    ("I8", DType::I8),
    ("U16", DType::U16),
    ("I16", DType::I16),
    ("U32", DType::U32),
    ("I32", DType::I32),
    ("U64", DType::U64),
    ("I64", DType::I64),
    ("F8_E4M3", DType::F8E4M3),
    ("F8_E5M2", DType::F8E5M2),
    ("F8_E4M3FNUZ", DType::F8E4M3Fnuz),
    ("F8_E5M2FNUZ", DType::F8E5M2Fnuz),
    ("F16", DType::F16),
    ("BF16", DType::BF16),
    ("F32", DType::F32),
    ("F64", DType::F64),
];

/// What the header says about one tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Info {
    /// Element type.
    pub dtype: DType,
    /// Dims.
    pub shape: Vec<usize>,
    /// Bytes of the data that are its value.
    pub bytes: Range<usize>,
}

/// A header that was checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Header {
    /// Tensors by name.
    pub tensors: BTreeMap<String, Info>,
    /// Free text that came with the file.
    pub metadata: BTreeMap<String, String>,
    /// Where in the file the data starts.
    pub data_start: usize,
}

/// Reads and checks the header of a whole file.
pub fn read(file: &[u8]) -> Result<Header, String> {
    let Some((length, rest)) = file.split_first_chunk::<8>() else {
        return Err(format!(
            "{} bytes are too few for a safetensors file (the header's length takes 8)",
            file.len()
        ));
    };
    let length = u64::from_le_bytes(*length);
    let header = match usize::try_from(length) {
        Ok(n) if n > MAX_HEADER => {
            return Err(format!("the header claims {n} bytes, more than the limit of {MAX_HEADER}"));
        }
        Ok(n) => rest.get(..n),
        Err(_) => None,
    };
    let Some(header) = header else {
        return Err(format!(
            "the header claims {length} bytes, the file has {} after its length",
            rest.len()
        ));
    };
    let text = std::str::from_utf8(header).map_err(|e| format!("the header is not UTF-8: {e}"))?;
    let value = json::parse(text).map_err(|e| format!("the header is not JSON: {e}"))?;
    let Value::Object(members) = value else { return Err("the header is not a JSON object".into()) };

    let data = rest.len() - header.len();
    let mut out = Header { data_start: file.len() - data, ..Header::default() };
    for (name, value) in members {
        if name == "__metadata__" {
            out.metadata = read_metadata(&value)?;
        } else {
            let info = read_info(&value, data).map_err(|e| format!("tensor {name:?}: {e}"))?;
            out.tensors.insert(name, info);
        }
    }
    check_cover(&out.tensors, data)?;
    Ok(out)
}

fn read_metadata(value: &Value) -> Result<BTreeMap<String, String>, String> {
    let strings = value.as_object().and_then(|members| {
        members.iter().map(|(k, v)| Some((k.clone(), v.as_str()?.to_string()))).collect::<Option<_>>()
    });
    strings.ok_or_else(|| "__metadata__ is not an object of strings".into())
}

fn read_info(value: &Value, data: usize) -> Result<Info, String> {
    let field = |name: &str| {
        let members = value.as_object().ok_or("not a JSON object")?;
        members.get(name).ok_or_else(|| format!("no {name:?}"))
    };
    let numbers = |name: &str| -> Result<Vec<usize>, String> {
        let all = field(name)?.as_array().and_then(|a| a.iter().map(Value::as_usize).collect());
        all.ok_or_else(|| format!("{name:?} is not a list of sizes"))
    };
    let spelling = field("dtype")?.as_str().ok_or("\"dtype\" is not a string")?;
    let dtype = DTYPES.iter().find(|(s, _)| *s == spelling).map(|(_, d)| *d);
    let dtype = dtype.ok_or_else(|| format!("unknown dtype {spelling:?}"))?;
    let shape = numbers("shape")?;
    let [start, end] = numbers("data_offsets")?[..] else {
        return Err("\"data_offsets\" is not a pair".into());
    };
    if start > end || end > data {
        return Err(format!("bytes {start}..{end} are not inside the {data} bytes of data"));
    }
    let size = byte_size(dtype.size(), &shape);
    if size != Some(end - start) {
        let needs = size.map_or("more bytes than there are addresses".into(), |n| format!("{n} bytes"));
        return Err(format!("{dtype} of shape {shape:?} needs {needs}, the file gives {}", end - start));
    }
    Ok(Info { dtype, shape, bytes: start..end })
}

/// Each byte of the data belongs to exactly one tensor.
fn check_cover(tensors: &BTreeMap<String, Info>, data: usize) -> Result<(), String> {
    let mut order: Vec<(&Range<usize>, &str)> = tensors.iter().map(|(n, i)| (&i.bytes, n.as_str())).collect();
    order.sort_by_key(|(bytes, _)| (bytes.start, bytes.end));
    let (mut at, mut before) = (0, "");
    for (bytes, name) in order {
        if bytes.start < at {
            return Err(format!(
                "tensors {before:?} and {name:?} overlap in bytes {}..{}",
                bytes.start,
                at.min(bytes.end)
            ));
        }
        if bytes.start > at {
            return Err(format!("bytes {at}..{} before tensor {name:?} belong to no tensor", bytes.start));
        }
        (at, before) = (bytes.end, name);
    }
    match at == data {
        true => Ok(()),
        false => Err(format!("{} bytes at the end of the file belong to no tensor", data - at)),
    }
}

/// The first bytes of a file with these tensors, in this order: length and header, padded so that the data that
/// follows is aligned. The data of each tensor follows the one before it.
pub fn write(
    tensors: &[(&str, DType, Vec<usize>)],
    metadata: &BTreeMap<String, String>,
) -> Result<Vec<u8>, String> {
    let mut text = String::from("{");
    if !metadata.is_empty() {
        text.push_str("\"__metadata__\":{");
        for (i, (key, value)) in metadata.iter().enumerate() {
            text.push_str(if i > 0 { "," } else { "" });
            json::write_string(&mut text, key);
            text.push(':');
            json::write_string(&mut text, value);
        }
        text.push('}');
    }
    let mut at = 0usize;
    for (name, dtype, shape) in tensors {
        let Some((spelling, _)) = DTYPES.iter().find(|(_, d)| d == dtype) else {
            return Err(format!("tensor {name:?}: {dtype} has no place in a safetensors file"));
        };
        let end =
            shape.iter().try_fold(dtype.size(), |n, d| n.checked_mul(*d)).and_then(|n| at.checked_add(n));
        let end = end.ok_or_else(|| format!("tensor {name:?}: a file cannot be that large"))?;
        text.push_str(if text.len() > 1 { "," } else { "" });
        json::write_string(&mut text, name);
        text.push_str(&format!(
            ":{{\"dtype\":\"{spelling}\",\"shape\":{shape:?},\"data_offsets\":[{at},{end}]}}"
        ));
        at = end;
    }
    text.push('}');
    text.extend(std::iter::repeat_n(' ', text.len().next_multiple_of(8) - text.len()));
    if text.len() > MAX_HEADER {
        return Err(format!(
            "the header would take {} bytes, more than the limit of {MAX_HEADER}",
            text.len()
        ));
    }
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.into_bytes());
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: usize) -> Vec<u8> {
        let mut f = (header.len() as u64).to_le_bytes().to_vec();
        f.extend(header.as_bytes());
        f.resize(f.len() + data, 0);
        f
    }
    fn tensor(dtype: &str, shape: &str, from: usize, to: usize) -> String {
        format!(r#"{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{from},{to}]}}"#)
    }

    #[test]
    fn a_header_comes_back_as_it_was_written() {
        let tensors =
            [("a.\"b\"", DType::F32, vec![2, 3]), ("s", DType::I64, vec![]), ("e", DType::BF16, vec![0, 7])];
        let metadata = BTreeMap::from([("format".to_string(), "pt".to_string())]);
        let mut bytes = write(&tensors, &metadata).unwrap();
        assert_eq!(bytes.len() % 8, 0);
        bytes.resize(bytes.len() + 32, 0);
        let header = read(&bytes).unwrap();
        assert_eq!(header.metadata, metadata);
        assert_eq!(header.tensors["a.\"b\""], Info { dtype: DType::F32, shape: vec![2, 3], bytes: 0..24 });
        assert_eq!(header.tensors["s"].bytes, 24..32);
        assert_eq!(header.tensors["e"].bytes, 32..32);
    }

    #[test]
    fn every_type_has_a_spelling() {
        for dtype in frit_abi_all() {
            assert!(write(&[("x", dtype, vec![1])], &BTreeMap::new()).is_ok(), "{dtype}");
        }
        assert!(write(&[("x", DType::Index, vec![1])], &BTreeMap::new()).is_err());
    }
    fn frit_abi_all() -> Vec<DType> {
        let names = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float8_e4m3 float8_e5m2 \
                     float8_e4m3fnuz float8_e5m2fnuz float16 bfloat16 float32 float64";
        names.split_whitespace().filter_map(DType::from_name).collect()
    }

    #[test]
    fn lying_headers_are_errors_that_name_the_tensor() {
        let f32x2 = tensor("F32", "[2]", 0, 8);
        let cases: Vec<(Vec<u8>, &str)> = vec![
            (vec![], "0 bytes are too few"),
            (vec![1, 2, 3], "3 bytes are too few"),
            (u64::MAX.to_le_bytes().to_vec(), "more than the limit"),
            (1000u64.to_le_bytes().to_vec(), "the header claims 1000 bytes, the file has 0"),
            (file("\u{0}", 0), "not JSON"),
            (file("[]", 0), "not a JSON object"),
            (file(r#"{"w":3}"#, 0), r#"tensor "w": not a JSON object"#),
            (file(r#"{"w":{}}"#, 0), r#"tensor "w": no "dtype""#),
            (
                file(&format!(r#"{{"w":{}}}"#, tensor("F31", "[2]", 0, 8)), 8),
                r#"tensor "w": unknown dtype "F31""#,
            ),
            (file(&format!(r#"{{"w":{}}}"#, tensor("F32", "[-2]", 0, 8)), 8), "not a list of sizes"),
            (file(&format!(r#"{{"w":{}}}"#, tensor("F32", "[2.5]", 0, 8)), 8), "not a list of sizes"),
            (
                file(&format!(r#"{{"w":{}}}"#, tensor("F32", "[3]", 0, 8)), 8),
                "needs 12 bytes, the file gives 8",
            ),
            (
                file(&format!(r#"{{"w":{}}}"#, tensor("F32", "[4294967296,4294967296]", 0, 8)), 8),
                "more bytes than there are addresses",
            ),
            (file(&format!(r#"{{"w":{f32x2}}}"#), 7), "bytes 0..8 are not inside the 7 bytes"),
            (file(&format!(r#"{{"w":{}}}"#, tensor("F32", "[2]", 8, 0)), 8), "bytes 8..0 are not inside"),
            (file(&format!(r#"{{"w":{f32x2}}}"#), 9), "1 bytes at the end of the file belong to no tensor"),
            (
                file(&format!(r#"{{"a":{f32x2},"b":{}}}"#, tensor("F32", "[2]", 4, 12)), 12),
                r#"tensors "a" and "b" overlap in bytes 4..8"#,
            ),
            (
                file(&format!(r#"{{"a":{f32x2},"b":{}}}"#, tensor("F32", "[1]", 12, 16)), 16),
                r#"bytes 8..12 before tensor "b" belong to no tensor"#,
            ),
            (file(&format!(r#"{{"a":{f32x2},"a":{f32x2}}}"#), 8), "stands twice"),
            (file(r#"{"__metadata__":{"a":1}}"#, 0), "__metadata__ is not an object of strings"),
            (file(r#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0]}}"#, 8), "not a pair"),
        ];
        for (bytes, part) in cases {
            let e = read(&bytes).unwrap_err();
            assert!(e.contains(part), "expected {part:?} in {e:?}");
        }
    }

    #[test]
    fn no_truncation_or_flipped_byte_panics() {
        let good = file(
            &format!(r#"{{"a":{},"b":{}}}"#, tensor("F32", "[2]", 0, 8), tensor("I8", "[2,2]", 8, 12)),
            12,
        );
        assert!(read(&good).is_ok());
        for n in 0..good.len() {
            assert!(read(&good[..n]).is_err());
            for flip in [0x01, 0x20, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[n] ^= flip;
                let _ = read(&bad);
            }
        }
    }
}
