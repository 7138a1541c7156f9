//! The protobuf wire format: fields of a message in the order they lie, and messages written.
//!
//! ```text
//! message  =  (tag value)*                      tag = field number << 3 | kind
//! value    =  varint | 8 bytes | length bytes | 4 bytes
//! ```
//!
//! A message is a table of its fields (`message!`); a type says how a value of the wire becomes one of its own
//! ([`Decode`]). Later values replace earlier ones, parts of one submessage are merged, repeats may be packed or not,
//! unknown fields are passed over. Texts and bytes stay where they are.

/// Deeper nesting than this is refused: each level is a call.
const MAX_DEPTH: u32 = 64;

/// A value as the wire has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wire<'a> {
    /// An integer of up to 64 bits.
    Varint(u64),
    /// Eight bytes, little-endian.
    Fixed64([u8; 8]),
    /// Text, bytes, a message or packed numbers.
    Bytes(&'a [u8]),
    /// Four bytes, little-endian.
    Fixed32([u8; 4]),
}

impl Wire<'_> {
    fn kind(&self) -> &'static str {
        match self {
            Wire::Varint(_) => "an integer",
            Wire::Fixed64(_) => "8 bytes",
            Wire::Bytes(_) => "a text or message",
            Wire::Fixed32(_) => "4 bytes",
        }
    }
}

/// What goes wrong, with the path of the field it is in.
pub type Fault = String;

/// Reads values one after the other, never beyond the end.
#[derive(Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Of a message's bytes.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes }
    }
    /// Whether all is read.
    pub fn is_done(&self) -> bool {
        self.bytes.is_empty()
    }
    fn take(&mut self, n: usize) -> Result<&'a [u8], Fault> {
        match self.bytes.split_at_checked(n) {
            Some((part, rest)) => {
                self.bytes = rest;
                Ok(part)
            }
            None => Err(format!("{n} bytes are wanted and {} are left", self.bytes.len())),
        }
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }
    /// An integer in groups of seven bits, the lowest first.
    pub fn varint(&mut self) -> Result<u64, Fault> {
        let mut value = 0u64;
        for (i, b) in self.bytes.iter().take(10).enumerate() {
            value |= u64::from(b & 0x7f).checked_shl(7 * i as u32).unwrap_or(0);
            if b & 0x80 == 0 {
                self.bytes = &self.bytes[i + 1..];
                return Ok(value);
            }
        }
        Err(match self.bytes.len() {
            0..10 => "the bytes end inside an integer".into(),
            _ => "an integer of more than 64 bits".into(),
        })
    }
    /// The next field: its number and value.
    pub fn field(&mut self) -> Result<(u64, Wire<'a>), Fault> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(self.array()?),
            2 => {
                let n = self.varint()?;
                Wire::Bytes(self.take(usize::try_from(n).unwrap_or(usize::MAX))?)
            }
            5 => Wire::Fixed32(self.array()?),
            kind => return Err(format!("field {} has the unknown wire type {kind}", tag >> 3)),
        };
        match tag >> 3 {
            0 => Err("a field has the number 0".into()),
            number => Ok((number, value)),
        }
    }
}

/// A type that takes values of the wire in.
pub trait Decode<'a> {
    /// Take one more value in, at this depth of nesting.
    fn merge(&mut self, value: Wire<'a>, depth: u32) -> Result<(), Fault>;
}

fn unexpected<T>(wanted: &str, got: Wire) -> Result<T, Fault> {
    Err(format!("{wanted} is wanted, and {} is there", got.kind()))
}

impl<'a> Decode<'a> for &'a [u8] {
    fn merge(&mut self, value: Wire<'a>, _: u32) -> Result<(), Fault> {
        match value {
            Wire::Bytes(b) => *self = b,
            got => return unexpected("bytes", got),
        }
        Ok(())
    }
}
impl<'a> Decode<'a> for &'a str {
    fn merge(&mut self, value: Wire<'a>, _: u32) -> Result<(), Fault> {
        match value {
            Wire::Bytes(b) => *self = std::str::from_utf8(b).map_err(|e| format!("not UTF-8: {e}"))?,
            got => return unexpected("a text", got),
        }
        Ok(())
    }
}
impl<'a, T: Decode<'a> + Default> Decode<'a> for Vec<T> {
    fn merge(&mut self, value: Wire<'a>, depth: u32) -> Result<(), Fault> {
        let mut item = T::default();
        item.merge(value, depth).map_err(|e| format!("[{}]{}{e}", self.len(), separator(&e)))?;
        self.push(item);
        Ok(())
    }
}
impl<'a, T: Decode<'a> + Default> Decode<'a> for Option<T> {
    fn merge(&mut self, value: Wire<'a>, depth: u32) -> Result<(), Fault> {
        self.get_or_insert_default().merge(value, depth)
    }
}
impl<'a, T: Decode<'a>> Decode<'a> for Box<T> {
    fn merge(&mut self, value: Wire<'a>, depth: u32) -> Result<(), Fault> {
        (**self).merge(value, depth)
    }
}

/// A number, one value or an element of a packed field.
pub trait Number: Copy + Default {
    /// From an unpacked value.
    fn of(value: Wire) -> Result<Self, Fault>;
    /// The next of packed ones.
    fn next(from: &mut Reader) -> Result<Self, Fault>;
}
macro_rules! varints {
    ($($t:ty),*) => {$(
        impl Number for $t {
            fn of(value: Wire) -> Result<$t, Fault> {
                match value { Wire::Varint(v) => Ok(v as $t), got => unexpected("an integer", got) }
            }
            fn next(from: &mut Reader) -> Result<$t, Fault> {
                Ok(from.varint()? as $t)
            }
        }
    )*};
}
varints!(i64, u64, i32);
macro_rules! fixed {
    ($($t:ident $wire:ident),*) => {$(
        impl Number for $t {
            fn of(value: Wire) -> Result<$t, Fault> {
                match value {
                    Wire::$wire(b) => Ok($t::from_le_bytes(b)),
                    got => unexpected(stringify!($t), got),
                }
            }
            fn next(from: &mut Reader) -> Result<$t, Fault> {
                Ok($t::from_le_bytes(from.array()?))
            }
        }
    )*};
}
fixed!(f32 Fixed32, f64 Fixed64);
macro_rules! numbers {
    ($($t:ty),*) => {$(
        impl<'a> Decode<'a> for $t {
            fn merge(&mut self, value: Wire<'a>, _: u32) -> Result<(), Fault> {
                *self = <$t>::of(value)?;
                Ok(())
            }
        }
    )*};
}
numbers!(i64, u64, i32, f32, f64);

/// Repeated numbers where they lie: packed in one part or several, or one by one.
#[derive(Clone, Debug)]
pub struct Packed<'a, T> {
    parts: Vec<Wire<'a>>,
    of: std::marker::PhantomData<T>,
}
impl<T> Default for Packed<'_, T> {
    fn default() -> Self {
        Packed { parts: vec![], of: std::marker::PhantomData }
    }
}
impl<'a, T: Number> Packed<'a, T> {
    /// Whether the field is not there at all.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
    /// All of them.
    pub fn values(&self) -> Result<Vec<T>, Fault> {
        let mut out = vec![];
        for part in &self.parts {
            match part {
                Wire::Bytes(b) => {
                    let mut r = Reader::new(b);
                    while !r.is_done() {
                        out.push(T::next(&mut r)?);
                    }
                }
                one => out.push(T::of(*one)?),
            }
        }
        Ok(out)
    }
    /// The bytes, where they are in one part.
    pub fn bytes(&self) -> Option<&'a [u8]> {
        match self.parts[..] {
            [Wire::Bytes(b)] => Some(b),
            _ => None,
        }
    }
}
impl<'a, T: Number> Decode<'a> for Packed<'a, T> {
    fn merge(&mut self, value: Wire<'a>, _: u32) -> Result<(), Fault> {
        if !matches!(value, Wire::Bytes(_)) {
            T::of(value)?;
        }
        self.parts.push(value);
        Ok(())
    }
}

/// Takes in all fields of a message that `each` knows.
pub(crate) fn merge_fields<'a>(
    value: Wire<'a>,
    depth: u32,
    mut each: impl FnMut(u64, Wire<'a>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let Wire::Bytes(bytes) = value else { return unexpected("a message", value) };
    if depth > MAX_DEPTH {
        return Err(format!("nested more than {MAX_DEPTH} deep"));
    }
    let mut reader = Reader::new(bytes);
    while !reader.is_done() {
        let (number, value) = reader.field()?;
        each(number, value)?;
    }
    Ok(())
}

/// Between the name of a field and what went wrong there: nothing before an index or a path.
pub(crate) fn separator(e: &str) -> &'static str {
    match e.split_once(": ") {
        _ if e.starts_with('[') => "",
        Some((path, _)) if !path.contains(' ') => ".",
        _ => ": ",
    }
}

/// A message as a table of its fields with their numbers.
macro_rules! message {
    ($(#[$doc:meta])* $name:ident $(<$l:lifetime>)? { $($(#[$fdoc:meta])* $number:literal $field:ident: $t:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default)]
        #[allow(missing_docs, reason = "onnx.proto says what each field is")]
        pub struct $name $(<$l>)? {
            $($(#[$fdoc])* pub $field: $t,)*
        }
        impl<'a> $crate::wire::Decode<'a> for message!(@ $name $($l)?) {
            fn merge(&mut self, value: $crate::wire::Wire<'a>, depth: u32) -> Result<(), $crate::wire::Fault> {
                $crate::wire::merge_fields(value, depth, |number, value| {
                    let (field, merged) = match number {
                        $($number => (
                            stringify!($field),
                            $crate::wire::Decode::merge(&mut self.$field, value, depth + 1),
                        ),)*
                        _ => return Ok(()),
                    };
                    merged.map_err(|e| format!("{field}{}{e}", $crate::wire::separator(&e)))
                })
            }
        }
    };
    (@ $name:ident) => { $name };
    (@ $name:ident $l:lifetime) => { $name<'a> };
}
pub use frit_abi::wire::Writer;
pub(crate) use message;

#[cfg(test)]
mod tests {
    use super::*;

    message! {
        /// A message with one field of each sort.
        Sample<'a> {
            1 name: &'a str,
            2 size: i64,
            3 scale: f32,
            4 inner: Option<Box<Sample<'a>>>,
            5 items: Vec<Sample<'a>>,
            6 ints: Packed<'a, i64>,
            7 floats: Packed<'a, f32>,
        }
    }
    fn parse(bytes: &[u8]) -> Result<Sample<'_>, Fault> {
        let mut s = Sample::default();
        s.merge(Wire::Bytes(bytes), 0).map(|()| s)
    }

    #[test]
    fn what_is_written_is_read() {
        let inner = Writer::new().int(2, -5).float(3, 0.5);
        let w = Writer::new().bytes(1, "x").message(4, inner).ints(6, &[1, -1, 300]).floats(7, &[1.5]);
        let bytes = w.into_bytes();
        let s = parse(&bytes).unwrap();
        let inner = s.inner.unwrap();
        assert_eq!((s.name, inner.size, inner.scale), ("x", -5, 0.5));
        assert_eq!((s.ints.values().unwrap(), s.floats.values().unwrap()), (vec![1, -1, 300], vec![1.5]));
    }

    #[test]
    fn the_last_value_wins_parts_are_merged_and_unknown_fields_are_passed_over() {
        let (a, b) = (Writer::new().int(2, 1).bytes(1, "first"), Writer::new().int(2, 2));
        let w = Writer::new().message(4, a).int(99, 7).message(4, b).int(6, 4).ints(6, &[5, 6]).int(6, 7);
        let bytes = w.into_bytes();
        let s = parse(&bytes).unwrap();
        let inner = s.inner.unwrap();
        assert_eq!((inner.name, inner.size), ("first", 2));
        assert_eq!(s.ints.values().unwrap(), [4, 5, 6, 7]);
    }

    #[test]
    fn faults_name_the_field() {
        let bad = Writer::new().message(5, Writer::new()).message(5, Writer::new().int(1, 3));
        assert_eq!(
            parse(&bad.into_bytes()).unwrap_err(),
            "items[1].name: a text is wanted, and an integer is there"
        );
        assert_eq!(parse(&[0x0a, 5, b'x']).unwrap_err(), "5 bytes are wanted and 1 are left");
        assert_eq!(parse(&[0x80]).unwrap_err(), "the bytes end inside an integer");
        assert_eq!(parse(&[0x0b]).unwrap_err(), "field 1 has the unknown wire type 3");
        assert_eq!(parse(&[0; 2]).unwrap_err(), "a field has the number 0");
        let long = [&[0x10u8][..], &[0xff; 10]].concat();
        assert_eq!(parse(&long).unwrap_err(), "an integer of more than 64 bits");
    }

    #[test]
    fn deep_nesting_is_refused() {
        let deep = (0..1000).fold(Writer::new(), |w, _| Writer::new().message(4, w)).into_bytes();
        assert!(parse(&deep).unwrap_err().ends_with("nested more than 64 deep"));
    }
}
