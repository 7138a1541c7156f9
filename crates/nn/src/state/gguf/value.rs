//! Metadata values. Arrays stay in the file until someone asks: a vocabulary has hundreds of thousands of strings.

use crate::state::cursor::{Cursor, text};
use frit_tensor::Blob;

/// A metadata value.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    String(String),
    Array(Array),
    U64(u64),
    I64(i64),
    F64(f64),
}

/// Values of one type, as they lie in the file; checked when it was opened.
#[derive(Clone, Debug)]
pub struct Array {
    kind: u32,
    len: usize,
    bytes: Blob,
}

const BOOL: u32 = 7;
const STRING: u32 = 8;
const ARRAY: u32 = 9;
/// Deeper nesting is taken for an attack on the stack.
const MAX_DEPTH: usize = 16;

impl Value {
    /// The number, if it is an integer that is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        self.as_i128().and_then(|v| v.try_into().ok())
    }
    /// The number, if it is an integer.
    pub fn as_i64(&self) -> Option<i64> {
        self.as_i128().and_then(|v| v.try_into().ok())
    }
    fn as_i128(&self) -> Option<i128> {
        Some(match self {
            Value::U8(v) => *v as i128,
            Value::I8(v) => *v as i128,
            Value::U16(v) => *v as i128,
            Value::I16(v) => *v as i128,
            Value::U32(v) => *v as i128,
            Value::I32(v) => *v as i128,
            Value::U64(v) => *v as i128,
            Value::I64(v) => *v as i128,
            _ => return None,
        })
    }
    /// The number, of any type.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::F32(v) => Some(*v as f64),
            Value::F64(v) => Some(*v),
            _ => self.as_i128().map(|v| v as f64),
        }
    }
    /// The truth value.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(v) => Some(*v),
            _ => None,
        }
    }
    /// The string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(v) => Some(v),
            _ => None,
        }
    }
    /// The array.
    pub fn as_array(&self) -> Option<&Array> {
        match self {
            Value::Array(v) => Some(v),
            _ => None,
        }
    }
    /// The number of its type in a file.
    pub(super) fn kind(&self) -> u32 {
        match self {
            Value::U8(_) => 0,
            Value::I8(_) => 1,
            Value::U16(_) => 2,
            Value::I16(_) => 3,
            Value::U32(_) => 4,
            Value::I32(_) => 5,
            Value::F32(_) => 6,
            Value::Bool(_) => BOOL,
            Value::String(_) => STRING,
            Value::Array(_) => ARRAY,
            Value::U64(_) => 10,
            Value::I64(_) => 11,
            Value::F64(_) => 12,
        }
    }
    /// Appends it as it lies in a file, without its type.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Value::U8(v) => out.extend(v.to_le_bytes()),
            Value::I8(v) => out.extend(v.to_le_bytes()),
            Value::U16(v) => out.extend(v.to_le_bytes()),
            Value::I16(v) => out.extend(v.to_le_bytes()),
            Value::U32(v) => out.extend(v.to_le_bytes()),
            Value::I32(v) => out.extend(v.to_le_bytes()),
            Value::F32(v) => out.extend(v.to_le_bytes()),
            Value::Bool(v) => out.push(*v as u8),
            Value::String(v) => {
                out.extend((v.len() as u64).to_le_bytes());
                out.extend(v.as_bytes());
            }
            Value::Array(v) => {
                out.extend(v.kind.to_le_bytes());
                out.extend((v.len as u64).to_le_bytes());
                out.extend(&v.bytes[..]);
            }
            Value::U64(v) => out.extend(v.to_le_bytes()),
            Value::I64(v) => out.extend(v.to_le_bytes()),
            Value::F64(v) => out.extend(v.to_le_bytes()),
        }
    }
}

impl Array {
    /// An array of values of one type; `None` where they differ.
    pub fn new(values: &[Value]) -> Option<Array> {
        let kind = values.first().map_or(0, Value::kind);
        let mut bytes = Vec::new();
        values.iter().for_each(|v| v.put(&mut bytes));
        let is_uniform = values.iter().all(|v| v.kind() == kind);
        is_uniform.then(|| Array { kind, len: values.len(), bytes: Blob::new(bytes) })
    }
    /// How many values.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// The values in order.
    pub fn iter(&self) -> impl Iterator<Item = Value> + '_ {
        let mut c = Cursor::new(&self.bytes);
        (0..self.len).map_while(move |_| one(&mut c, &self.bytes, self.kind, 0).ok())
    }
}
impl PartialEq for Array {
    fn eq(&self, o: &Array) -> bool {
        self.kind == o.kind && self.len == o.len && self.bytes[..] == o.bytes[..]
    }
}

/// Reads a type and a value of it; `c` reads `blob`.
pub(super) fn read(c: &mut Cursor, blob: &Blob) -> Result<Value, String> {
    let kind = c.u32()?;
    one(c, blob, kind, 0)
}

fn one(c: &mut Cursor, blob: &Blob, kind: u32, depth: usize) -> Result<Value, String> {
    Ok(match kind {
        0 => Value::U8(c.u8()?),
        1 => Value::I8(c.i8()?),
        2 => Value::U16(c.u16()?),
        3 => Value::I16(c.i16()?),
        4 => Value::U32(c.u32()?),
        5 => Value::I32(c.i32()?),
        6 => Value::F32(c.f32()?),
        BOOL => Value::Bool(c.u8()? != 0),
        STRING => {
            let len = c.u64()?;
            Value::String(text(c.take_long(len)?, "a string")?.to_string())
        }
        ARRAY => {
            let (kind, len) = (c.u32()?, c.u64()?);
            let start = c.at();
            skip(c, kind, len, depth + 1)?;
            let bytes = blob.slice(start..c.at()).ok_or("an array outside the file")?;
            Value::Array(Array { kind, len: len as usize, bytes })
        }
        10 => Value::U64(c.u64()?),
        11 => Value::I64(c.i64()?),
        12 => Value::F64(c.f64()?),
        other => return Err(format!("a value of unknown type {other}")),
    })
}

/// Passes `len` values, checking that they are there.
fn skip(c: &mut Cursor, kind: u32, len: u64, depth: usize) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err("arrays nested too deeply".into());
    }
    let size: u64 = match kind {
        0 | 1 | BOOL => 1,
        2 | 3 => 2,
        4..=6 => 4,
        10..=12 => 8,
        STRING => {
            for _ in 0..len {
                let n = c.u64()?;
                text(c.take_long(n)?, "a string in an array")?;
            }
            return Ok(());
        }
        ARRAY => {
            for _ in 0..len {
                let (kind, len) = (c.u32()?, c.u64()?);
                skip(c, kind, len, depth + 1)?;
            }
            return Ok(());
        }
        other => return Err(format!("an array of unknown type {other}")),
    };
    c.take_long(len.saturating_mul(size)).map(|_| ())
}
