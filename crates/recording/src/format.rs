//! The bytes of a recording.
//!
//! ```text
//! file    =  "FRITVIZ1" length table chunk*         table: the kinds and their fields, as text
//! chunk   =  0xF7 thread length check record*       length and check of 4 bytes, the rest numbers
//! record  =  kind field*
//! field   =  Int: a number | Text: the number of a string | Long: length bytes | List: count numbers
//! number  =  7 bits a byte, the lowest first, the highest bit says that more follow
//! ```
//!
//! A chunk has whole records of one thread, in order, and is written with one call: what a crash leaves is readable up to
//! the last chunk that is whole. Strings and nodes have numbers that hold in the whole file, and may be named in a chunk
//! before the one that has them, since threads write when their chunk is full.

use frit_abi::record::{KINDS, Type};

/// The first bytes of a file.
pub const MAGIC: &[u8; 8] = b"FRITVIZ1";
/// The first byte of a chunk.
pub const CHUNK: u8 = 0xF7;

/// Append a number.
#[inline]
pub fn put(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Take a number off the front; `None` where the bytes end before it, or it is none of 64 bits.
#[inline]
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut n = 0;
    for (i, &b) in bytes.iter().enumerate().take(10) {
        n |= u64::from(b & 0x7F) << (7 * i);
        if b < 0x80 {
            *bytes = &bytes[i + 1..];
            return Some(n);
        }
    }
    None
}

/// What tells a chunk that was written whole: FNV-1a over its bytes, eight at a time.
pub fn check(bytes: &[u8]) -> u32 {
    let mut h: u64 = 0xcbf2_9ce4_8422_2325;
    for word in bytes.chunks(8) {
        let mut w = [0; 8];
        w[..word.len()].copy_from_slice(word);
        h = (h ^ u64::from_le_bytes(w)).wrapping_mul(0x0000_0100_0000_01b3);
        h ^= h >> 29;
    }
    (h ^ h >> 32) as u32
}

/// The head of a file.
pub fn head() -> Vec<u8> {
    let mut table = String::new();
    for (name, fields) in KINDS {
        table += name;
        for (field, kind) in *fields {
            table += &format!(" {field}:{}", *kind as u8);
        }
        table.push('\n');
    }
    let mut out = MAGIC.to_vec();
    put(&mut out, table.len() as u64);
    out.extend(table.as_bytes());
    out
}

/// A kind of record in a file: its name, and its fields.
pub struct Row {
    /// As in [`KINDS`].
    pub name: String,
    /// Names and types.
    pub fields: Vec<(String, Type)>,
}

/// The kinds of a file, and where its chunks begin.
pub fn read_head(bytes: &[u8]) -> Result<(Vec<Row>, &[u8]), String> {
    let rest = bytes.strip_prefix(MAGIC).ok_or("this is not a recording: it does not begin with FRITVIZ1")?;
    let mut rest = rest;
    let table = take(&mut rest).and_then(|n| rest.split_at_checked(usize::try_from(n).ok()?));
    let (table, chunks) = table.ok_or("the recording ends inside its head")?;
    let table = std::str::from_utf8(table).map_err(|_| "the recording's table of kinds is no text")?;
    let row = |line: &str| {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or("").to_string();
        let fields = words.map(field).collect::<Result<_, _>>()?;
        Ok::<Row, String>(Row { name, fields })
    };
    Ok((table.lines().map(row).collect::<Result<_, _>>()?, chunks))
}

fn field(word: &str) -> Result<(String, Type), String> {
    let types = [Type::Int, Type::Text, Type::Long, Type::List];
    let found = word.split_once(':').and_then(|(name, number)| {
        let number: usize = number.parse().ok()?;
        Some((name.to_string(), *types.get(number)?))
    });
    found.ok_or_else(|| format!("the recording's table of kinds has a field {word:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let all = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        let mut out = vec![];
        all.iter().for_each(|n| put(&mut out, *n));
        let mut rest = &out[..];
        assert_eq!(all.map(|_| take(&mut rest).unwrap()), all);
        assert!(rest.is_empty() && take(&mut rest).is_none());
        assert_eq!(take(&mut &[0xFF; 4][..]), None);
    }
    #[test]
    fn the_table_comes_back() {
        let head = head();
        let (rows, rest) = read_head(&head).unwrap();
        assert!(rest.is_empty());
        assert_eq!(rows.len(), KINDS.len());
        assert_eq!(rows[2].name, "node");
        assert_eq!(rows[2].fields[5], ("src".to_string(), Type::List));
        assert!(read_head(b"FRITVIZ0").is_err() && read_head(&head[..20]).is_err());
    }
}
