//! Operands: every one becomes a row of registers, also constants, parameters and hardware ids.

use super::program::{Given, Source, Special};
use super::text::{Error, Tokens};
use crate::run::regs::{Class, Kind};
use std::collections::HashMap;

/// First address of shared memory: 0 is no place.
pub const SHARED_BASE: u32 = 1024;

/// What names stand for, and the rows so far.
#[derive(Default)]
pub struct Names {
    regs: HashMap<String, (Class, u32)>,
    /// Where arrays in shared memory begin.
    pub shared: HashMap<String, u32>,
    /// Rows of each class.
    pub counts: [u32; 4],
    /// Rows with something in them from the start.
    pub given: Vec<Given>,
}

impl Names {
    fn row(&mut self, class: Class) -> u32 {
        self.counts[class as usize] += 1;
        self.counts[class as usize] - 1
    }
    /// A row that no name stands for.
    pub fn scratch(&mut self, class: Class) -> u32 {
        self.row(class)
    }
    /// `.b32 %r<7>;`
    pub fn declare(&mut self, t: &mut Tokens) -> Result<(), Error> {
        let class = match t.word()? {
            ".pred" => Class::Pred,
            ".b16" | ".u16" | ".s16" | ".f16" => Class::Half,
            ".b32" | ".u32" | ".s32" | ".f32" => Class::Word,
            ".b64" | ".u64" | ".s64" | ".f64" => Class::Long,
            other => return Err(t.error(format!("there are no registers of type '{other}'"))),
        };
        let name = t.word()?;
        if t.take("<") {
            for i in 0..t.count()? {
                let row = self.row(class);
                self.regs.insert(format!("{name}{i}"), (class, row));
            }
            t.expect(">")?;
        } else {
            let row = self.row(class);
            self.regs.insert(name.into(), (class, row));
        }
        t.expect(";")
    }
    /// The row of something known before the start.
    pub fn given(&mut self, class: Class, source: Source) -> u32 {
        if let Some(g) = self.given.iter().find(|g| g.class == class && g.source == source) {
            return g.row;
        }
        let row = self.row(class);
        self.given.push(Given { class, row, source });
        row
    }
    /// A register.
    pub fn reg(&self, t: &mut Tokens, class: Class) -> Result<u32, Error> {
        let name = t.word()?;
        match self.regs.get(name) {
            Some(&(c, row)) if c == class => Ok(row),
            Some((c, _)) => Err(t.error(format!("{name} is of {c:?}, {class:?} is wanted"))),
            None => Err(t.error(format!("unknown register '{name}'"))),
        }
    }
    /// A register or a constant; hardware ids and addresses where bits are moved.
    pub fn operand(&mut self, t: &mut Tokens, kind: Kind, is_move: bool) -> Result<u32, Error> {
        let (class, word) = (kind.class(), t.peek().unwrap_or(""));
        if self.regs.contains_key(word) {
            return self.reg(t, class);
        }
        if let Some(source) = special(word) {
            return match is_move && class == Class::Word {
                true => t.word().map(|_| self.given(class, source)),
                false => Err(t.error(format!("{word} is only moved, to 32 bits"))),
            };
        }
        if let Some(&at) = self.shared.get(word) {
            return match is_move && class == Class::Word {
                true => t.word().map(|_| self.given(class, Source::Bits(at.into()))),
                false => Err(t.error(format!("the address of {word} is only moved, to 32 bits"))),
            };
        }
        let bits = constant(t, kind, is_move)?;
        Ok(self.given(class, Source::Bits(bits)))
    }
}

fn special(word: &str) -> Option<Source> {
    if word == "%laneid" {
        return Some(Source::Special(Special::Laneid, 0));
    }
    let (name, dim) = word.split_once('.')?;
    let special = match name {
        "%tid" => Special::Tid,
        "%ctaid" => Special::Ctaid,
        "%ntid" => Special::Ntid,
        "%nctaid" => Special::Nctaid,
        _ => return None,
    };
    Some(Source::Special(special, ["x", "y", "z"].iter().position(|d| *d == dim)?))
}

/// The bits of a constant as an instruction takes it.
fn constant(t: &mut Tokens, kind: Kind, is_move: bool) -> Result<u64, Error> {
    let word = t.peek().unwrap_or("");
    let float = [("0f", 32, 8), ("0F", 32, 8), ("0d", 64, 16), ("0D", 64, 16)]
        .into_iter()
        .find_map(|(prefix, bits, len)| Some((bits, word.strip_prefix(prefix).filter(|d| d.len() == len)?)));
    if let Some((bits, digits)) = float {
        let fits = kind == Kind::Float(bits) || is_move && kind == Kind::Bits(bits);
        let value = u64::from_str_radix(digits, 16).map_err(|_| t.error(format!("'{word}' is no number")))?;
        return match fits {
            true => t.word().map(|_| value),
            false => Err(t.error(format!("{word} where {kind:?} is wanted"))),
        };
    }
    let bits = match kind {
        Kind::Float(_) => return Err(t.error(format!("'{word}' where a float is wanted"))),
        Kind::Pred => 1,
        Kind::Bits(bits) => bits,
    };
    if bits <= 16 && !is_move {
        return Err(t.error(format!("'{word}' where a register is wanted")));
    }
    let value = t.number()?;
    let least = if bits == 1 { 0 } else { -(1i128 << (bits - 1)) };
    match value >= least && value < 1i128 << bits {
        true => Ok(value as u64 & (!0 >> (64 - bits))),
        false => Err(t.error(format!("{value} does not fit {bits} bits"))),
    }
}
