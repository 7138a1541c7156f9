//! Stored tensors: raw bytes, typed fields or another file, where they lie.

use crate::element::Element;
use crate::proto::{MapData, OptionalData, SequenceData, SparseTensor, TensorData};
use crate::value::{Key, Strings, Value};
use frit_tensor::{Blob, DType, Scalar, Tensor};
use rustc_hash::FxHashMap;
use std::path::{Component, Path, PathBuf};

type Read<T> = Result<T, String>;

/// A model's bytes, and the folder that further ones may lie in.
pub(crate) struct Source {
    blob: Blob,
    folder: Option<PathBuf>,
    files: FxHashMap<String, Blob>,
}

impl Source {
    pub fn new(blob: &Blob, folder: Option<&Path>) -> Source {
        Source { blob: blob.clone(), folder: folder.map(Path::to_path_buf), files: FxHashMap::default() }
    }
    /// The value of a stored tensor.
    pub fn value(&mut self, t: &TensorData) -> Read<Value> {
        let named = |e: String| match t.name {
            "" => e,
            name => format!("tensor {name:?}: {e}"),
        };
        self.read(t).map_err(named)
    }
    fn read(&mut self, t: &TensorData) -> Read<Value> {
        let element = Element::from_number(t.data_type).map_err(|e| format!("data_type: {e}"))?;
        let dims = dims(&t.dims.values().map_err(|e| format!("dims: {e}"))?)?;
        let n = count(&dims)?;
        if element == Element::String {
            return strings(t, dims, n);
        }
        if element.dtype() == DType::Void {
            return Err(format!("{} elements are not supported", element.name()));
        }
        let bytes = self.bytes(t, element)?;
        if element.bytes(n) != Some(bytes.len()) {
            return Err(format!("{} bytes are not the {} elements of {dims:?}", bytes.len(), element.name()));
        }
        let t = few(element, &bytes, &dims).unwrap_or_else(|| element.tensor(&bytes, &dims));
        Ok(Value::Tensor(t, element))
    }
    /// Its bytes as `raw_data` would have them.
    fn bytes(&mut self, t: &TensorData, element: Element) -> Read<Blob> {
        if t.data_location == 1 {
            return self.external(t).map_err(|e| format!("external_data: {e}"));
        }
        if let Some(raw) = t.raw_data {
            return self.borrowed(raw).ok_or_else(|| "raw_data: outside the file".into());
        }
        let whole = [t.float_data.bytes(), t.double_data.bytes()].into_iter().flatten().next();
        match element {
            Element::Float | Element::Double if whole.is_some() => {
                whole.and_then(|b| self.borrowed(b)).ok_or_else(|| "float_data: outside the file".into())
            }
            _ => typed(t, element).map(Blob::new),
        }
    }
    /// Bytes of the model as a part of its blob.
    fn borrowed(&self, part: &[u8]) -> Option<Blob> {
        let start = (part.as_ptr() as usize).checked_sub(self.blob.as_ptr() as usize)?;
        self.blob.slice(start..start.checked_add(part.len())?)
    }
    fn external(&mut self, t: &TensorData) -> Read<Blob> {
        let find = |key: &str| t.external_data.iter().rev().find(|e| e.key == key).map(|e| e.value);
        let number = |key: &str| match find(key).map(|v| (v, v.parse::<usize>())) {
            Some((v, Err(_))) => Err(format!("{key} is {v:?}, not a number")),
            Some((_, Ok(n))) => Ok(Some(n)),
            None => Ok(None),
        };
        let location = find("location").ok_or("no location is given")?;
        let file = self.beside(location)?;
        let start = number("offset")?.unwrap_or(0);
        let end = match number("length")? {
            Some(n) => start.checked_add(n).ok_or("offset and length overflow")?,
            None => file.len(),
        };
        file.slice(start..end)
            .ok_or_else(|| format!("{start}..{end} of {location:?}, which has {} bytes", file.len()))
    }
    /// A file in the model's folder or below it, also after its links are followed.
    fn beside(&mut self, location: &str) -> Read<Blob> {
        if let Some(file) = self.files.get(location) {
            return Ok(file.clone());
        }
        let Some(folder) = &self.folder else {
            return Err(format!("{location:?} is beside a model that is not in a file"));
        };
        let path = Path::new(location);
        if location.is_empty()
            || !path.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir))
        {
            return Err(format!("{location:?} is not a path inside the model's folder"));
        }
        let fault = |e: std::io::Error| format!("{location:?}: {e}");
        let real = folder.join(path).canonicalize().map_err(fault)?;
        if !real.starts_with(folder.canonicalize().map_err(fault)?) {
            return Err(format!("{location:?} leads out of the model's folder"));
        }
        let file = Blob::open(real).map_err(fault)?;
        self.files.insert(location.to_string(), file.clone());
        Ok(file)
    }
    /// A sparse tensor, filled in.
    pub fn sparse(&mut self, s: &SparseTensor) -> Read<Value> {
        let dims = dims(&s.dims.values().map_err(|e| format!("dims: {e}"))?)?;
        let n = count(&dims)?;
        let (values, at) = (self.value(&s.values)?, self.value(&s.indices)?);
        let read = |e: frit_tensor::Error| e.to_string();
        let (element, values) = (values.element().map_err(read)?, values.tensor().map_err(read)?);
        let places = match at.dims().map_err(read)?[..] {
            [_] => at.tensor().map_err(read)?,
            // (elements, coordinates)
            [_, r] if r == dims.len() => {
                let strides = Tensor::from_slice(&strides(&dims));
                (at.tensor().map_err(read)? * strides).sum(1)
            }
            ref d => return Err(format!("indices: of shape {d:?} for dims {dims:?}")),
        };
        let zeros = Tensor::full_dtype([n], 0, values.dtype());
        Ok(Value::Tensor(zeros.scatter(0, &places, &values).reshape(dims), element))
    }
    /// A stored sequence.
    pub fn sequence(&mut self, s: &SequenceData) -> Read<Value> {
        let tensors = s.tensor_values.iter().map(|t| self.value(t)).collect::<Read<Vec<_>>>()?;
        let sequences = s.sequence_values.iter().map(|s| self.sequence(s)).collect::<Read<Vec<_>>>()?;
        let optionals = s.optional_values.iter().map(|o| self.optional(o)).collect::<Read<Vec<_>>>()?;
        let maps = s.map_values.iter().map(|m| self.map(m)).collect::<Read<Vec<_>>>()?;
        Ok(Value::Sequence([tensors, sequences, optionals, maps].concat()))
    }
    /// A stored map.
    pub fn map(&mut self, m: &MapData) -> Read<Value> {
        let text = |b: &&[u8]| std::str::from_utf8(b).map(|t| Key::Text(t.into())).map_err(|e| e.to_string());
        let ints = m.keys.values()?.into_iter().map(|k| Ok(Key::Int(k)));
        let keys = ints.chain(m.string_keys.iter().map(text)).collect::<Read<Vec<_>>>()?;
        match self.sequence(&m.values)? {
            Value::Sequence(all) if all.len() == keys.len() => {
                Ok(Value::Map(keys.into_iter().zip(all).collect()))
            }
            _ => Err(format!("values: not as many as there are keys, {}", keys.len())),
        }
    }
    /// A stored optional.
    pub fn optional(&mut self, o: &OptionalData) -> Read<Value> {
        let value = match (&o.tensor_value, &o.sequence_value) {
            (Some(t), _) => Some(self.value(t)?),
            (None, Some(s)) => Some(self.sequence(s)?),
            (None, None) => None,
        };
        Ok(Value::Optional(value.map(Box::new)))
    }
}

/// Row-major steps of a shape.
pub(crate) fn strides(dims: &[usize]) -> Vec<i64> {
    let mut out = vec![1; dims.len()];
    for i in (1..dims.len()).rev() {
        out[i - 1] = out[i] * dims[i] as i64;
    }
    out
}

fn dims(stored: &[i64]) -> Read<Vec<usize>> {
    let one = |d: &i64| usize::try_from(*d).map_err(|_| format!("dims: a dim of {d}"));
    stored.iter().map(one).collect()
}
fn count(dims: &[usize]) -> Read<usize> {
    let all = dims.iter().try_fold(1usize, |n, d| n.checked_mul((*d).max(1)));
    match all.filter(|n| *n < 1 << 59) {
        Some(n) => Ok(if dims.contains(&0) { 0 } else { n }),
        None => Err(format!("dims: {dims:?} is too large to be true")),
    }
}

/// A few numbers as constants, not memory: they are mostly axes and sizes, and what is made of them is known without
/// computing.
fn few(element: Element, bytes: &[u8], dims: &[usize]) -> Option<Tensor> {
    use Element::*;
    let d = element.dtype();
    let most = match element {
        Int64 | Int32 | Bool => 16,
        Float => 4,
        _ => 0,
    };
    let n: usize = dims.iter().product();
    if dims.len() > 1 || n == 0 || n > most {
        return None;
    }
    let number = |b: &[u8]| {
        let mut word = [0; 8];
        word[..b.len()].copy_from_slice(b);
        Scalar::from_bits(u64::from_le_bytes(word), d)
    };
    let all = bytes.chunks(d.size()).map(number);
    let t = match element {
        Float => Tensor::stack(&all.map(|v| Tensor::full_dtype((), v.as_f64(), d)).collect::<Vec<_>>(), 0),
        _ => constants(d, &all.map(|v| v.as_i128() as i64).collect::<Vec<_>>()),
    };
    Some(t.reshape(dims))
}

/// A vector of integers, or of truth values, that is not memory.
pub(crate) fn constants(d: DType, values: &[i64]) -> Tensor {
    let one = |v: &i64| Tensor::full_dtype((), *v, DType::I64).cast(d);
    match values.is_empty() {
        true => Tensor::full_dtype([0], 0, d),
        false => Tensor::stack(&values.iter().map(one).collect::<Vec<_>>(), 0),
    }
}

fn strings(t: &TensorData, dims: Vec<usize>, n: usize) -> Read<Value> {
    if t.string_data.len() != n {
        return Err(format!("string_data: {} texts for dims {dims:?}", t.string_data.len()));
    }
    let text = |b: &&[u8]| {
        std::str::from_utf8(b).map(str::to_string).map_err(|e| format!("string_data: not UTF-8: {e}"))
    };
    let texts = t.string_data.iter().map(text).collect::<Read<Vec<_>>>()?;
    Ok(Value::Strings(Strings { dims, texts: texts.into() }))
}

/// Elements of the field that belongs to a type, as bytes.
fn typed(t: &TensorData, element: Element) -> Read<Vec<u8>> {
    fn low<const N: usize, T>(values: &[T], f: impl Fn(&T) -> [u8; N], n: usize) -> Vec<u8> {
        values.iter().flat_map(|v| f(v).into_iter().take(n)).collect()
    }
    use Element::*;
    let size = element.bits().div_ceil(8);
    let named = |field: &str, r: Read<Vec<u8>>| r.map_err(|e| format!("{field}: {e}"));
    match element {
        Float => named("float_data", t.float_data.values().map(|v| low(&v, |v| v.to_le_bytes(), 4))),
        Double => named("double_data", t.double_data.values().map(|v| low(&v, |v| v.to_le_bytes(), 8))),
        Int64 => named("int64_data", t.int64_data.values().map(|v| low(&v, |v| v.to_le_bytes(), 8))),
        Uint32 | Uint64 => {
            named("uint64_data", t.uint64_data.values().map(|v| low(&v, |v| v.to_le_bytes(), size)))
        }
        Float6E2M3 | Float6E3M2 => named("int32_data", t.int32_data.values().map(|v| pack_six(&v))),
        _ => named("int32_data", t.int32_data.values().map(|v| low(&v, |v| v.to_le_bytes(), size))),
    }
}

/// Six-bit codes, four in three bytes.
fn pack_six(codes: &[i32]) -> Vec<u8> {
    let word = |c: &[i32]| c.iter().rev().fold(0u32, |w, c| w << 6 | (*c as u32 & 63)).to_le_bytes();
    let mut out: Vec<u8> = codes.chunks(4).flat_map(|c| word(c).into_iter().take(3)).collect();
    out.truncate((codes.len() * 6).div_ceil(8));
    out
}
