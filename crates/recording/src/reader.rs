//! Records of a file, one after the other, and as text.

use crate::format::{CHUNK, Row, check, read_head, take};
use frit_abi::record::Type;
use std::borrow::Cow;

/// A field as it was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value<'a> {
    /// A number, or that of a text.
    Int(u64),
    /// A text that stands where it is used.
    Long(&'a str),
    /// So many numbers, as they lie.
    List(Numbers<'a>),
}

/// Numbers one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Numbers<'a> {
    count: usize,
    bytes: &'a [u8],
}

impl Iterator for Numbers<'_> {
    type Item = u64;
    fn next(&mut self) -> Option<u64> {
        self.count = self.count.checked_sub(1)?;
        take(&mut self.bytes)
    }
}

/// One record: its kind by number in the file's table, its fields, and who wrote it.
pub struct Record<'a> {
    /// The thread, from 1.
    pub thread: u64,
    /// Its kind.
    pub row: &'a Row,
    /// In the order of the kind's fields.
    pub values: Vec<Value<'a>>,
}

impl<'a> Record<'a> {
    /// A number by the position of its field; 0 where it is none.
    pub fn int(&self, i: usize) -> u64 {
        match self.values.get(i) {
            Some(Value::Int(n)) => *n,
            _ => 0,
        }
    }
    /// A long text by the position of its field.
    pub fn long(&self, i: usize) -> &'a str {
        match self.values.get(i) {
            Some(Value::Long(s)) => s,
            _ => "",
        }
    }
    /// Numbers by the position of their field.
    pub fn list(&self, i: usize) -> Vec<u64> {
        match self.values.get(i) {
            Some(Value::List(all)) => all.collect(),
            _ => vec![],
        }
    }
}

/// How much of a file could be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Records in it.
    pub records: u64,
    /// Bytes after the last chunk that is whole: 0 where nothing is missing.
    pub lost: usize,
}

/// Show every record of a file to `each`, chunk by chunk. A file that ends early is read up to where it does.
pub fn read(bytes: &[u8], mut each: impl FnMut(&Record)) -> Result<Extent, String> {
    let (rows, mut rest) = read_head(bytes)?;
    let mut extent = Extent { records: 0, lost: 0 };
    loop {
        extent.lost = rest.len();
        let mut next = rest;
        let Some((thread, body)) = chunk(&mut next) else { return Ok(extent) };
        extent.records += records(&rows, thread, body, &mut each)?;
        rest = next;
    }
}

/// Show the records of a chunk; how many there are.
pub(crate) fn records(
    rows: &[Row],
    thread: u64,
    mut body: &[u8],
    each: &mut dyn FnMut(&Record),
) -> Result<u64, String> {
    let mut count = 0;
    while !body.is_empty() {
        let Some((row, values)) = record(rows, &mut body) else {
            return Err("a chunk of the recording is not what its table of kinds says".into());
        };
        count += 1;
        each(&Record { thread, row, values });
    }
    Ok(count)
}

fn chunk<'a>(bytes: &mut &'a [u8]) -> Option<(u64, &'a [u8])> {
    *bytes = bytes.strip_prefix(&[CHUNK])?;
    let thread = take(bytes)?;
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<4>()?;
    let (body, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *bytes = rest;
    (check(body) == u32::from_le_bytes(*sum)).then_some((thread, body))
}

fn record<'r, 'a>(rows: &'r [Row], bytes: &mut &'a [u8]) -> Option<(&'r Row, Vec<Value<'a>>)> {
    let row = rows.get(usize::try_from(take(bytes)?).ok()?)?;
    let values = row.fields.iter().map(|(_, kind)| value(*kind, bytes)).collect::<Option<_>>()?;
    Some((row, values))
}

fn value<'a>(kind: Type, bytes: &mut &'a [u8]) -> Option<Value<'a>> {
    let first = take(bytes)?;
    Some(match kind {
        Type::Int | Type::Text => Value::Int(first),
        Type::Long => {
            let (text, rest) = bytes.split_at_checked(usize::try_from(first).ok()?)?;
            *bytes = rest;
            Value::Long(std::str::from_utf8(text).ok()?)
        }
        Type::List => {
            let count = usize::try_from(first).ok()?;
            let all = Numbers { count, bytes };
            for _ in 0..count {
                take(bytes)?;
            }
            Value::List(all)
        }
    })
}

/// The texts of a file by number.
pub fn strings(bytes: &[u8]) -> Result<Vec<String>, String> {
    let mut all: Vec<String> = vec![String::new()];
    read(bytes, |r| {
        if r.row.name == "string"
            && let Ok(n) = usize::try_from(r.int(0))
            && n < 1 << 28
        {
            if n >= all.len() {
                all.resize(n + 1, String::new());
            }
            all[n] = r.long(1).to_string();
        }
    })?;
    Ok(all)
}

/// A text without characters that a terminal or a page would obey: control characters and marks that turn the direction of text
/// are shown as their numbers.
pub fn shown(text: &str) -> Cow<'_, str> {
    let is_obeyed = |c: char| {
        let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        c.is_control() || turns
    };
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    // lines of one text, as those of a rule, are one line of what is shown
    let text = text.lines().map(str::trim_start).collect::<Vec<_>>().join(" ");
    let each =
        text.chars().map(|c| if is_obeyed(c) { c.escape_unicode().to_string() } else { c.to_string() });
    Cow::Owned(each.collect())
}

/// A file as text: a line a record, long texts below it.
pub fn dump(bytes: &[u8], mut line: impl FnMut(&str)) -> Result<Extent, String> {
    let texts = strings(bytes)?;
    let extent = read(bytes, |r| {
        if r.row.name == "string" {
            return;
        }
        let mut out = format!("[{}] {}", r.thread, r.row.name);
        let mut below = None;
        for ((name, kind), v) in r.row.fields.iter().zip(&r.values) {
            match (kind, v) {
                (Type::Text, Value::Int(n)) => {
                    let text = texts.get(*n as usize).map_or("?", String::as_str);
                    if !text.is_empty() {
                        out += &format!(" {name}={}", shown(&format!("{text:?}")));
                    }
                }
                (_, Value::Int(n)) => out += &format!(" {name}={n}"),
                (_, Value::Long(text)) => below = Some(*text),
                (_, Value::List(all)) => {
                    let all: Vec<String> = all.map(|n| n.to_string()).collect();
                    out += &format!(" {name}=({})", all.join(" "));
                }
            }
        }
        line(&out);
        below
            .iter()
            .flat_map(|t| t.lines())
            .for_each(|l| line(&format!("    {}", shown(&l.replace('\t', "    ")))));
    })?;
    Ok(extent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        assert_eq!(shown("conv \u{1b}[31m\n\u{202e}x"), "conv \\u{1b}[31m \\u{202e}x");
        assert!(matches!(shown("größe <img>"), Cow::Borrowed("größe <img>")));
    }
}
