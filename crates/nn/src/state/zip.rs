//! Zip archives, as much as `.npz` and `.pt` files need: stored and deflated entries, large ones too.
//!
//! ```text
//! [local header, name, extra, data]…   [central directory: name, method, sizes, where]…   [zip64 end, locator]  end
//! ```
//!
//! The central directory is what counts. Where an entry's data starts is read from its local header.

use super::cursor::{Cursor, text};
use flate2::Crc;
use flate2::read::DeflateDecoder;
use frit_tensor::Blob;
use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// The first bytes of an archive with something in it.
pub(crate) const MAGIC: &[u8] = b"PK\x03\x04";
/// The first bytes of one with nothing in it.
pub(crate) const EMPTY: &[u8] = END;
const CENTRAL: &[u8] = b"PK\x01\x02";
const END: &[u8] = b"PK\x05\x06";
const END_64: &[u8] = b"PK\x06\x06";
const LOCATOR_64: &[u8] = b"PK\x06\x07";
/// Bytes of the record at the end, without its comment.
const END_LEN: usize = 22;
/// Deflate makes at most this many bytes of one.
const MAX_RATIO: u64 = 1032;

/// An archive whose directory was read.
pub(crate) struct Archive {
    file: Blob,
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone, Copy)]
struct Entry {
    method: u16,
    crc: u32,
    packed: u64,
    size: u64,
    header: u64,
}

impl Archive {
    /// Reads the directory.
    pub fn read(file: &Blob) -> Result<Archive, String> {
        let mut entries = BTreeMap::new();
        for (name, entry) in directory(file)? {
            if entries.insert(name.clone(), entry).is_some() {
                return Err(format!("the archive has two entries {name:?}"));
            }
        }
        Ok(Archive { file: file.clone(), entries })
    }
    /// The names of the entries, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }
    /// The bytes of an entry: where they are in the file if stored, decompressed otherwise.
    pub fn get(&self, name: &str) -> Result<Blob, String> {
        let entry = self.entries.get(name).ok_or_else(|| format!("the archive has no entry {name:?}"))?;
        self.data(entry).map_err(|e| format!("entry {name:?}: {e}"))
    }
    fn data(&self, e: &Entry) -> Result<Blob, String> {
        let start = usize::try_from(e.header).unwrap_or(usize::MAX);
        let mut c = Cursor::starting(&self.file, start);
        if c.take(4)? != MAGIC {
            return Err(format!("no local header at byte {start}"));
        }
        let flags = c.take(22).map(|h| u16::from_le_bytes([h[2], h[3]]))?;
        if flags & 1 != 0 {
            return Err("is encrypted".into());
        }
        let (name, extra) = (c.u16()?, c.u16()?);
        c.take(name as usize + extra as usize)?;
        let at = c.at();
        let packed = c.take_long(e.packed)?;
        match e.method {
            0 if e.packed != e.size => {
                Err(format!("stored, but {} bytes are said to be {}", e.packed, e.size))
            }
            0 => self.file.slice(at..at + packed.len()).ok_or_else(|| "outside the file".into()),
            8 => inflate(packed, e).map(Blob::new),
            other => Err(format!("compression method {other} is not known, only stored and deflated are")),
        }
    }
}

/// Memory grows with what comes out, and that is at most what the directory says, which is at most what is possible.
fn inflate(packed: &[u8], e: &Entry) -> Result<Vec<u8>, String> {
    if e.size > e.packed.saturating_mul(MAX_RATIO) {
        return Err(format!("{} bytes cannot be {} when decompressed", e.packed, e.size));
    }
    let mut out = Vec::new();
    let limit = e.size.saturating_add(1);
    DeflateDecoder::new(packed).take(limit).read_to_end(&mut out).map_err(|e| format!("broken: {e}"))?;
    let mut crc = Crc::new();
    crc.update(&out);
    if out.len() as u64 != e.size || crc.sum() != e.crc {
        return Err("broken: its length or checksum is not what the directory says".into());
    }
    Ok(out)
}

/// The names of an archive's entries, in the order of the directory.
pub(crate) fn names(file: &[u8]) -> Result<Vec<String>, String> {
    Ok(directory(file)?.into_iter().map(|(name, _)| name).collect())
}

fn directory(file: &[u8]) -> Result<Vec<(String, Entry)>, String> {
    let (at, len, count) = find_directory(file)?;
    let mut c = Cursor::starting(file, usize::try_from(at).unwrap_or(usize::MAX));
    let mut c = Cursor::new(c.take_long(len).map_err(|e| format!("the directory: {e}"))?);
    let mut entries = Vec::new();
    while c.left() > 0 && (entries.len() as u64) < count {
        entries.push(central(&mut c).map_err(|e| format!("entry {} of the directory: {e}", entries.len()))?);
    }
    match entries.len() as u64 == count {
        true => Ok(entries),
        false => Err(format!("the directory ends after {} of {count} entries", entries.len())),
    }
}

/// Where the directory is, its length and its number of entries.
fn find_directory(file: &[u8]) -> Result<(u64, u64, u64), String> {
    let from = file.len().saturating_sub(END_LEN + u16::MAX as usize);
    let tail = &file[from..];
    let last = tail.len().checked_sub(END_LEN).ok_or("too short for an archive")?;
    // the last one whose comment ends where the file does
    let is_end = |i: &usize| {
        tail[*i..].starts_with(END)
            && u16::from_le_bytes([tail[i + 20], tail[i + 21]]) as usize == tail.len() - END_LEN - i
    };
    let end = (0..=last).rev().find(is_end).ok_or("no end record: not an archive, or cut off")?;
    let mut c = Cursor::starting(tail, end + 8);
    let (_, count, len, at) = (c.u16()?, c.u16()?, c.u32()?, c.u32()?);
    if count != u16::MAX && len != u32::MAX && at != u32::MAX {
        return Ok((at as u64, len as u64, count as u64));
    }
    let locator = (from + end).checked_sub(20).ok_or("no zip64 locator")?;
    let mut c = Cursor::starting(file, locator);
    if c.take(4)? != LOCATOR_64 {
        // sizes that happen to be all ones, without the large form
        return Ok((at as u64, len as u64, count as u64));
    }
    c.u32()?;
    let mut c = Cursor::starting(file, usize::try_from(c.u64()?).unwrap_or(usize::MAX));
    if c.take(4)? != END_64 {
        return Err("no zip64 end record where its locator says".into());
    }
    c.take(28)?;
    let (count, len, at) = (c.u64()?, c.u64()?, c.u64()?);
    Ok((at, len, count))
}

fn central(c: &mut Cursor) -> Result<(String, Entry), String> {
    if c.take(4)? != CENTRAL {
        return Err("has no signature".into());
    }
    c.take(6)?;
    let method = c.u16()?;
    c.take(4)?;
    let (crc, packed, size) = (c.u32()?, c.u32()?, c.u32()?);
    let (name, extra, comment) = (c.u16()?, c.u16()?, c.u16()?);
    c.take(8)?;
    let header = c.u32()?;
    let name = text(c.take(name as usize)?, "its name")?.to_string();
    let mut extra = Cursor::new(c.take(extra as usize)?);
    c.take(comment as usize)?;
    let mut wide = [size, packed, header].map(u64::from);
    while extra.left() >= 4 {
        let (id, len) = (extra.u16()?, extra.u16()?);
        let mut field = Cursor::new(extra.take(len as usize)?);
        if id == 1 {
            for v in wide.iter_mut().filter(|v| **v == u32::MAX as u64) {
                *v = field.u64()?;
            }
        }
    }
    let [size, packed, header] = wide;
    Ok((name, Entry { method, crc, packed, size, header }))
}

/// Writes an archive of stored entries, in order; the same entries give the same bytes.
pub(crate) struct Writer<'a, W: Write + Seek> {
    out: &'a mut W,
    at: u64,
    entries: Vec<(String, Entry)>,
}

/// Midnight of the first day there is.
const DATE: u16 = 0x21;
/// The extra field that moves an entry's data to a multiple of this.
const ALIGN: u64 = 64;
const PADDING: u16 = 0x4246;

impl<'a, W: Write + Seek> Writer<'a, W> {
    pub fn new(out: &'a mut W) -> Self {
        Writer { out, at: 0, entries: Vec::new() }
    }
    /// An entry of `size` bytes, which `data` writes.
    pub fn entry<E: From<io::Error>>(
        &mut self,
        name: &str,
        size: u64,
        data: impl FnOnce(&mut dyn Write) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.at;
        // name, the zip64 field, and what is needed before the data is aligned
        let fixed = start + 30 + name.len() as u64 + 20 + 4;
        let pad = (fixed.next_multiple_of(ALIGN) - fixed) as u16;
        let mut head = MAGIC.to_vec();
        put16(&mut head, &[45, 1 << 11, 0, 0, DATE]);
        put32(&mut head, &[0, u32::MAX, u32::MAX]);
        put16(&mut head, &[name_len(name)?, 24 + pad]);
        head.extend(name.as_bytes());
        put16(&mut head, &[1, 16]);
        put64(&mut head, &[size, size]);
        put16(&mut head, &[PADDING, pad]);
        head.extend(std::iter::repeat_n(0, pad as usize));
        self.out.write_all(&head)?;
        let mut counted = Counted { out: &mut *self.out, crc: Crc::new(), bytes: 0 };
        data(&mut counted)?;
        let (crc, written) = (counted.crc.sum(), counted.bytes);
        if written != size {
            return Err(io::Error::other(format!("{written} bytes were written for {size}")).into());
        }
        self.at = start + head.len() as u64 + size;
        self.out.seek(SeekFrom::Start(start + 14))?;
        self.out.write_all(&crc.to_le_bytes())?;
        self.out.seek(SeekFrom::Start(self.at))?;
        self.entries.push((name.into(), Entry { method: 0, crc, packed: size, size, header: start }));
        Ok(())
    }
    /// The directory.
    pub fn finish(self) -> io::Result<()> {
        let mut dir = Vec::new();
        for (name, e) in &self.entries {
            dir.extend(CENTRAL);
            put16(&mut dir, &[45, 45, 1 << 11, 0, 0, DATE]);
            put32(&mut dir, &[e.crc, u32::MAX, u32::MAX]);
            put16(&mut dir, &[name_len(name)?, 28, 0, 0, 0]);
            put32(&mut dir, &[0, u32::MAX]);
            dir.extend(name.as_bytes());
            put16(&mut dir, &[1, 24]);
            put64(&mut dir, &[e.size, e.packed, e.header]);
        }
        let (count, len) = (self.entries.len() as u64, dir.len() as u64);
        dir.extend(END_64);
        put64(&mut dir, &[44]);
        put16(&mut dir, &[45, 45]);
        put32(&mut dir, &[0, 0]);
        put64(&mut dir, &[count, count, len, self.at]);
        dir.extend(LOCATOR_64);
        put32(&mut dir, &[0]);
        put64(&mut dir, &[self.at + len]);
        put32(&mut dir, &[1]);
        dir.extend(END);
        put16(&mut dir, &[0, 0, u16::MAX, u16::MAX]);
        put32(&mut dir, &[u32::MAX, u32::MAX]);
        put16(&mut dir, &[0]);
        self.out.write_all(&dir)
    }
}

fn name_len(name: &str) -> io::Result<u16> {
    u16::try_from(name.len()).map_err(|_| io::Error::other("the name of an entry is too long"))
}
fn put16(out: &mut Vec<u8>, values: &[u16]) {
    values.iter().for_each(|v| out.extend(v.to_le_bytes()));
}
fn put32(out: &mut Vec<u8>, values: &[u32]) {
    values.iter().for_each(|v| out.extend(v.to_le_bytes()));
}
fn put64(out: &mut Vec<u8>, values: &[u64]) {
    values.iter().for_each(|v| out.extend(v.to_le_bytes()));
}

/// Passes bytes on, and remembers their checksum and number.
struct Counted<'a, W: Write> {
    out: &'a mut W,
    crc: Crc,
    bytes: u64,
}
impl<W: Write> Write for Counted<'_, W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let n = self.out.write(buf)?;
        self.crc.update(&buf[..n]);
        self.bytes += n as u64;
        Ok(n)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
