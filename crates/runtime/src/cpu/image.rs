//! A linked kernel: position-independent bytes and the few words that depend on where they land.
//!
//! This is what the disk cache keeps and what becomes executable memory:
//!
//! ```text
//! code, padded to a page | constants and addresses
//! ```
//!
//! Nothing in it is writable once loaded.

use super::libcalls;
use crate::Error;
use crate::sys::CodePages;
use std::sync::Arc;

/// Code ends at a multiple of this.
pub const PAGE: usize = 4096;

/// A linked kernel.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Image {
    /// Code, padding, constants.
    pub bytes: Vec<u8>,
    /// How many of the bytes are code: a multiple of [`PAGE`].
    pub code: usize,
    /// Where in the code the kernel starts.
    pub entry: usize,
    /// The words to fill in when loading.
    pub fixups: Vec<Fixup>,
}

/// Eight bytes of an image that hold an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fixup {
    /// Where the bytes are.
    pub at: usize,
    /// What they point to.
    pub to: Place,
}

/// Something an image can point to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// The image's start plus an offset.
    Here(i64),
    /// A function of [`libcalls`].
    Function(String),
}

/// A kernel in executable memory.
pub struct LoadedImage {
    pages: Arc<CodePages>,
    entry: usize,
    code: usize,
}

impl LoadedImage {
    /// The code between two places of pages it shares; its first byte is the entry.
    pub(super) fn part(pages: Arc<CodePages>, entry: usize, code: usize) -> LoadedImage {
        LoadedImage { pages, entry, code }
    }
    /// The address of the kernel's first instruction, valid as long as this lives.
    pub fn entry(&self) -> usize {
        self.pages.address() + self.entry
    }
    /// The kernel's code from its entry on, without the padding at the end.
    pub fn code(&self) -> &[u8] {
        let code = &self.pages.bytes()[self.entry..self.code];
        let end = code.iter().rposition(|b| *b != 0).map_or(0, |i| i + 1);
        &code[..end]
    }
}

impl Image {
    /// Put it in executable memory.
    pub fn load(&self) -> Result<LoadedImage, Error> {
        let resolve = |place: &Place| match place {
            Place::Here(_) => Ok(0),
            Place::Function(name) => libcalls::find(name)
                .ok_or_else(|| Error::Object(format!("it calls {name}, which kernels may not"))),
        };
        self.validate()?;
        let functions = self.fixups.iter().map(|f| resolve(&f.to)).collect::<Result<Vec<_>, _>>()?;
        let fill = |memory: &mut [u8], base: usize| {
            memory.copy_from_slice(&self.bytes);
            for (fixup, function) in self.fixups.iter().zip(&functions) {
                let address = match fixup.to {
                    Place::Here(offset) => (base as u64).wrapping_add_signed(offset),
                    Place::Function(_) => *function as u64,
                };
                memory[fixup.at..fixup.at + 8].copy_from_slice(&address.to_le_bytes());
            }
        };
        let pages = CodePages::build(self.bytes.len(), self.code, fill)
            .map_err(|e| Error::Object(format!("no executable memory: {e}")))?;
        Ok(LoadedImage { pages: Arc::new(pages), entry: self.entry, code: self.code })
    }

    /// Whether every offset lies where it must.
    fn validate(&self) -> Result<(), Error> {
        let (code, len) = (self.code, self.bytes.len());
        let fixups_fit = self.fixups.iter().all(|f| f.at <= len && len - f.at >= 8);
        if code <= len && code.is_multiple_of(PAGE) && self.entry < code && fixups_fit {
            return Ok(());
        }
        Err(Error::Object("its offsets contradict each other".into()))
    }

    /// The image as bytes, for the disk cache.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes.len() + 64);
        let mut word = |x: u64| out.extend(x.to_le_bytes());
        [self.code, self.entry, self.bytes.len(), self.fixups.len()].into_iter().for_each(|x| word(x as u64));
        for fixup in &self.fixups {
            let (name, offset) = match &fixup.to {
                Place::Here(offset) => ("", *offset),
                Place::Function(name) => (&**name, 0),
            };
            [fixup.at as u64, offset as u64, name.len() as u64]
                .into_iter()
                .for_each(|x| out.extend(x.to_le_bytes()));
            out.extend(name.as_bytes());
        }
        out.extend(&self.bytes);
        out
    }

    /// Back from [`Image::to_bytes`]; `None` if these are not such bytes.
    pub fn from_bytes(mut from: &[u8]) -> Option<Image> {
        let from = &mut from;
        let [code, entry, len, n_fixups] = [word(from)?, word(from)?, word(from)?, word(from)?];
        let mut fixups = Vec::new();
        for _ in 0..n_fixups {
            let (at, offset, name) = (word(from)? as usize, word(from)? as i64, word(from)?);
            let name = from.split_off(..usize::try_from(name).ok()?)?;
            let name = std::str::from_utf8(name).ok()?;
            let to = if name.is_empty() { Place::Here(offset) } else { Place::Function(name.into()) };
            fixups.push(Fixup { at, to });
        }
        let image = Image { bytes: from.to_vec(), code: code as usize, entry: entry as usize, fixups };
        (image.bytes.len() as u64 == len && image.validate().is_ok()).then_some(image)
    }
}

fn word(from: &mut &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(*from.split_off(..8)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> Image {
        let fixup = |at, to| Fixup { at, to };
        let fixups = vec![fixup(4096, Place::Here(7)), fixup(4104, Place::Function("memcpy".into()))];
        // Returns at once.
        let bytes = [&[0xc3u8][..], &[0; PAGE - 1 + 16]].concat();
        Image { bytes, code: PAGE, entry: 0, fixups }
    }

    #[test]
    fn bytes_round_trip_and_truncations_are_refused() {
        let bytes = image().to_bytes();
        assert_eq!(Image::from_bytes(&bytes), Some(image()));
        for n in 0..bytes.len() {
            assert_eq!(Image::from_bytes(&bytes[..n]), None);
        }
        for i in 0..128 {
            let mut bad = bytes.clone();
            bad[i] ^= 0x81;
            let _ = Image::from_bytes(&bad).map(|i| i.load());
        }
    }

    #[test]
    fn unknown_functions_and_bad_offsets_are_refused() {
        let mut unknown = image();
        unknown.fixups[1].to = Place::Function("system".into());
        assert!(unknown.load().err().unwrap().to_string().contains("system"));
        let bad = [
            Image { entry: PAGE, ..image() },
            Image { code: 2 * PAGE, ..image() },
            Image { code: 1, ..image() },
            Image { fixups: vec![Fixup { at: usize::MAX, to: Place::Here(0) }], ..image() },
        ];
        assert!(bad.iter().all(|b| b.load().is_err()));
    }
}
