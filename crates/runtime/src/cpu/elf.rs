//! One function out of a relocatable ELF object: x86-64, position-independent code.
//!
//! From the entry the relocations lead to every section it needs; those are laid out as an [`Image`], relative
//! references are resolved, references to functions outside go through a table of addresses that the loader fills:
//!
//! ```text
//! .text.k  .rodata.cst32  + call memset   ->   code | stub: jmp *slot | constants | slot: &memset
//! ```
//!
//! An object is data from outside: whatever is wrong with it is an error, never a panic.

use super::image::{Fixup, Image, PAGE, Place};
use super::libcalls;
use crate::Error;
use std::collections::BTreeMap;

/// Larger than any kernel: a limit that keeps every offset in 32 bits.
const MAX_BYTES: u64 = 1 << 28;

/// An object's sections and symbols.
pub struct Object<'a> {
    sections: Vec<Section<'a>>,
    symbols: Vec<Symbol<'a>>,
    /// Relocations by the section they patch.
    relocations: BTreeMap<usize, Vec<Relocation>>,
}

struct Section<'a> {
    name: &'a str,
    kind: u32,
    flags: u64,
    align: u64,
    link: usize,
    info: usize,
    data: &'a [u8],
}

struct Symbol<'a> {
    name: &'a str,
    section: u16,
    value: u64,
}

#[derive(Clone, Copy)]
struct Relocation {
    at: u64,
    kind: u32,
    symbol: usize,
    addend: i64,
}

const PROGBITS: u32 = 1;
const SYMTAB: u32 = 2;
const RELA: u32 = 4;
const NOBITS: u32 = 8;
const REL: u32 = 9;
const WRITE: u64 = 1;
const ALLOC: u64 = 2;
const EXEC: u64 = 4;
const UNDEFINED: u16 = 0;
const RESERVED: u16 = 0xff00;

const R_64: u32 = 1;
const R_PC32: u32 = 2;
const R_PLT32: u32 = 4;
const R_GOTPCREL: u32 = 9;
const R_PC64: u32 = 24;
const R_GOTPCRELX: u32 = 41;
const R_REX_GOTPCRELX: u32 = 42;

/// `jmp *slot(%rip)`, and the displacement's place in it.
const STUB: [u8; 8] = [0xff, 0x25, 0, 0, 0, 0, 0xcc, 0xcc];
const STUB_DISPLACEMENT: u64 = 2;

fn bad<T>(message: impl Into<String>) -> Result<T, Error> {
    Err(Error::Object(message.into()))
}

/// `N` bytes of `data` at `at`.
fn bytes<const N: usize>(data: &[u8], at: u64) -> Result<[u8; N], Error> {
    let tail = usize::try_from(at).ok().and_then(|at| data.get(at..));
    tail.and_then(|t| t.first_chunk()).copied().ok_or_else(|| Error::Object("the object is truncated".into()))
}
fn u16_at(data: &[u8], at: u64) -> Result<u16, Error> {
    bytes(data, at).map(u16::from_le_bytes)
}
fn u32_at(data: &[u8], at: u64) -> Result<u32, Error> {
    bytes(data, at).map(u32::from_le_bytes)
}
fn u64_at(data: &[u8], at: u64) -> Result<u64, Error> {
    bytes(data, at).map(u64::from_le_bytes)
}
/// The string that starts at `at`.
fn name_at(table: &[u8], at: u32) -> Result<&str, Error> {
    let tail = table.get(at as usize..).unwrap_or(&[]);
    match tail.iter().position(|b| *b == 0).map(|end| std::str::from_utf8(&tail[..end])) {
        Some(Ok(name)) => Ok(name),
        _ => bad("a name in the object is malformed"),
    }
}

impl<'a> Object<'a> {
    /// Read an object's tables.
    pub fn parse(file: &'a [u8]) -> Result<Object<'a>, Error> {
        if bytes::<8>(file, 0)?[..6] != *b"\x7fELF\x02\x01" {
            return bad("the compiler's output is not a 64-bit ELF object");
        }
        if (u16_at(file, 16)?, u16_at(file, 18)?) != (1, 62) || u16_at(file, 58)? != 64 {
            return bad("the compiler's output is not a relocatable x86-64 object");
        }
        let (table, count, names) = (u64_at(file, 40)?, u16_at(file, 60)?, u16_at(file, 62)? as usize);
        let header = |i: u64| table.checked_add(i * 64).filter(|at| *at < file.len() as u64);
        let mut sections = Vec::new();
        let mut section_names = Vec::new();
        for i in 0..count as u64 {
            let Some(at) = header(i) else { return bad("the object's section table is outside it") };
            let (offset, size) = (u64_at(file, at + 24)?, u64_at(file, at + 32)?);
            let kind = u32_at(file, at + 4)?;
            let range = usize::try_from(offset).ok().zip(offset.checked_add(size).map(|end| end as usize));
            let data = match range {
                _ if kind == NOBITS || kind == 0 => &[][..],
                Some((begin, end)) if file.get(begin..end).is_some() => &file[begin..end],
                _ => return bad("a section of the object is outside it"),
            };
            section_names.push(u32_at(file, at)?);
            let (flags, align) = (u64_at(file, at + 8)?, u64_at(file, at + 48)?);
            let (link, info) = (u32_at(file, at + 40)? as usize, u32_at(file, at + 44)? as usize);
            sections.push(Section { name: "", kind, flags, align, link, info, data });
        }
        let Some(strings) = sections.get(names).map(|s| s.data) else {
            return bad("the object has no section names");
        };
        for (section, at) in sections.iter_mut().zip(section_names) {
            section.name = name_at(strings, at)?;
        }
        let mut object = Object { sections, symbols: Vec::new(), relocations: BTreeMap::new() };
        object.read_symbols()?;
        object.read_relocations()?;
        Ok(object)
    }

    fn read_symbols(&mut self) -> Result<(), Error> {
        let Some(table) = self.sections.iter().find(|s| s.kind == SYMTAB) else {
            return bad("the object has no symbols");
        };
        let Some(strings) = self.sections.get(table.link).map(|s| s.data) else {
            return bad("the object has no symbol names");
        };
        for entry in table.data.chunks_exact(24) {
            let name = name_at(strings, u32_at(entry, 0)?)?;
            self.symbols.push(Symbol { name, section: u16_at(entry, 6)?, value: u64_at(entry, 8)? });
        }
        Ok(())
    }

    fn read_relocations(&mut self) -> Result<(), Error> {
        for section in &self.sections {
            let wanted = self.sections.get(section.info).is_some_and(|s| s.flags & ALLOC != 0);
            if section.kind == REL && wanted {
                return bad("the object has relocations without addends");
            }
            if section.kind != RELA || !wanted {
                continue;
            }
            let list = self.relocations.entry(section.info).or_default();
            for entry in section.data.chunks_exact(24) {
                let info = u64_at(entry, 8)?;
                let (at, addend) = (u64_at(entry, 0)?, u64_at(entry, 16)? as i64);
                list.push(Relocation { at, kind: info as u32, symbol: (info >> 32) as usize, addend });
            }
        }
        Ok(())
    }

    /// The function `entry` and everything it needs.
    pub fn link(&self, entry: &str) -> Result<Image, Error> {
        let Some(start) = self.symbols.iter().find(|s| s.name == entry && s.section != UNDEFINED) else {
            return bad(format!("there is no function {entry} in it"));
        };
        let mut layout = Layout::default();
        layout.reach(self, start.section as usize)?;
        layout.place(self)?;
        let entry = layout.sections.get(&(start.section as usize)).and_then(|at| at.checked_add(start.value));
        match entry {
            Some(entry) if entry < layout.code => layout.build(self, entry as usize),
            _ => bad("its entry is not code"),
        }
    }

    fn relocations_of(&self, section: usize) -> &[Relocation] {
        self.relocations.get(&section).map_or(&[], |r| r)
    }

    fn symbol(&self, index: usize) -> Result<&Symbol<'a>, Error> {
        self.symbols.get(index).ok_or_else(|| Error::Object("a relocation names no symbol".into()))
    }
}

/// Where everything reachable goes. Keys of `slots` and `stubs` are symbols.
#[derive(Default)]
struct Layout {
    sections: BTreeMap<usize, u64>,
    /// Addresses to be filled in at load time.
    slots: BTreeMap<usize, u64>,
    /// Jumps through a slot, for calls to functions that are out of a call's range.
    stubs: BTreeMap<usize, u64>,
    code: u64,
    len: u64,
}

impl Layout {
    /// Collect `section` and all that it refers to.
    fn reach(&mut self, object: &Object, section: usize) -> Result<(), Error> {
        let mut todo = vec![section];
        while let Some(index) = todo.pop() {
            if self.sections.contains_key(&index) {
                continue;
            }
            let Some(section) = object.sections.get(index) else { return bad("a symbol names no section") };
            let name = section.name;
            if section.kind == NOBITS || (section.flags & WRITE != 0 && !name.starts_with(".data.rel.ro")) {
                return bad(format!("a kernel may not have variables of its own (section {name})"));
            }
            if section.flags & ALLOC == 0 || section.kind != PROGBITS {
                return bad(format!("it refers to section {name}, which holds neither code nor constants"));
            }
            if section.align > PAGE as u64 || !section.align.max(1).is_power_of_two() {
                return bad(format!("section {name} has a bad alignment"));
            }
            self.sections.insert(index, 0);
            for r in object.relocations_of(index) {
                let symbol = object.symbol(r.symbol)?;
                let external = symbol.section == UNDEFINED;
                if external && libcalls::find(symbol.name).is_none() {
                    return bad(format!("it calls {:?}, which kernels may not", symbol.name));
                }
                if symbol.section >= RESERVED {
                    return bad(format!("it refers to {:?}, which is in no section", symbol.name));
                }
                if !external {
                    todo.push(symbol.section as usize);
                }
                match r.kind {
                    R_GOTPCREL | R_GOTPCRELX | R_REX_GOTPCRELX => _ = self.slots.insert(r.symbol, 0),
                    R_PLT32 | R_PC32 if external => {
                        self.slots.insert(r.symbol, 0);
                        self.stubs.insert(r.symbol, 0);
                    }
                    R_PC64 if external => return bad("it has a relative reference to a function outside"),
                    R_64 | R_PC32 | R_PLT32 | R_PC64 => {}
                    kind => {
                        return bad(format!(
                            "relocation type {kind} is not supported (is it compiled with -fPIC?)"
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// Give every part its offset: code and stubs, then constants and slots from the next page on.
    fn place(&mut self, object: &Object) -> Result<(), Error> {
        let mut at = 0u64;
        for executable in [true, false] {
            for (index, place) in &mut self.sections {
                let section = &object.sections[*index];
                if (section.flags & EXEC != 0) == executable {
                    *place = at.next_multiple_of(section.align.max(1));
                    at = *place + section.data.len() as u64;
                    if at > MAX_BYTES {
                        return bad("it is too large");
                    }
                }
            }
            let words = if executable { &mut self.stubs } else { &mut self.slots };
            at = at.next_multiple_of(8);
            for place in words.values_mut() {
                *place = at;
                at += 8;
            }
            if executable {
                at = at.next_multiple_of(PAGE as u64);
                self.code = at;
            }
        }
        self.len = at;
        if at > MAX_BYTES { bad("it is too large") } else { Ok(()) }
    }

    fn build(&self, object: &Object, entry: usize) -> Result<Image, Error> {
        let mut image =
            Image { bytes: vec![0; self.len as usize], code: self.code as usize, entry, fixups: vec![] };
        for (index, at) in &self.sections {
            let data = object.sections[*index].data;
            image.bytes[*at as usize..*at as usize + data.len()].copy_from_slice(data);
        }
        for (symbol, at) in &self.stubs {
            image.bytes[*at as usize..*at as usize + 8].copy_from_slice(&STUB);
            let place = at + STUB_DISPLACEMENT;
            patch32(&mut image, place, self.slots[symbol] as i64 - 4 - place as i64)?;
        }
        for (symbol, at) in &self.slots {
            let symbol = object.symbol(*symbol)?;
            let to = match symbol.section {
                UNDEFINED => Place::Function(symbol.name.into()),
                _ => Place::Here(self.address(symbol)?),
            };
            image.fixups.push(Fixup { at: *at as usize, to });
        }
        for (index, at) in &self.sections {
            let size = object.sections[*index].data.len() as u64;
            for r in object.relocations_of(*index) {
                let width = if matches!(r.kind, R_64 | R_PC64) { 8 } else { 4 };
                if r.at.checked_add(width).is_none_or(|end| end > size) {
                    return bad("a relocation is outside its section");
                }
                self.relocate(object, r, at + r.at, &mut image)?;
            }
        }
        Ok(image)
    }

    /// Resolve one reference at offset `place` of the image.
    fn relocate(&self, object: &Object, r: &Relocation, place: u64, image: &mut Image) -> Result<(), Error> {
        let symbol = object.symbol(r.symbol)?;
        let external = symbol.section == UNDEFINED;
        let target = match r.kind {
            R_64 if external => {
                let to = Place::Function(symbol.name.into());
                image.fixups.push(Fixup { at: place as usize, to });
                return Ok(());
            }
            R_64 => {
                let to = Place::Here(self.address(symbol)?.wrapping_add(r.addend));
                image.fixups.push(Fixup { at: place as usize, to });
                return Ok(());
            }
            R_GOTPCREL | R_GOTPCRELX | R_REX_GOTPCRELX => self.slots[&r.symbol] as i64,
            _ if external => self.stubs[&r.symbol] as i64,
            _ => self.address(symbol)?,
        };
        let value = target.wrapping_add(r.addend).wrapping_sub(place as i64);
        if r.kind == R_PC64 {
            image.bytes[place as usize..place as usize + 8].copy_from_slice(&value.to_le_bytes());
            return Ok(());
        }
        patch32(image, place, value)
    }

    /// Where a symbol of this object is in the image.
    fn address(&self, symbol: &Symbol) -> Result<i64, Error> {
        match self.sections.get(&(symbol.section as usize)) {
            Some(at) if symbol.value <= MAX_BYTES => Ok((at + symbol.value) as i64),
            _ => bad("a symbol is outside its section"),
        }
    }
}

/// Write a 32-bit displacement.
fn patch32(image: &mut Image, place: u64, value: i64) -> Result<(), Error> {
    let Ok(value) = i32::try_from(value) else { return bad("a relocation is out of range") };
    image.bytes[place as usize..place as usize + 4].copy_from_slice(&value.to_le_bytes());
    Ok(())
}
