//! Where an access goes: an index as a sum of loop variables and values, and that sum as an address.
//!
//! ```text
//! p[i*512 + k + 3], in the loop over k  ->  [a + k*4 + 12]   with a = p + i*2048 before the loop
//! p[k*512 + 3], in the loop over k      ->  [a + 12]         with a = p before the loop, a += 2048 in each round
//! ```

use super::Select;
use super::build::r;
use super::control::Key;
use crate::Error;
use crate::walk::Walk;
use crate::walk::memory;
use crate::x86::program::{Base, Def, Kind, Mem, ONCE, Opd, Reg, Size};
use frit_abi::DType;
use frit_uop::{Op, UOp};
use iced_x86::Code;
use smallvec::{SmallVec, smallvec};
use std::num::NonZeroU8;
use std::rc::Rc;

/// `a*x + b*y + … + c` over nodes that have values.
#[derive(Clone, Default, Debug)]
pub struct Sum {
    terms: SmallVec<[(UOp, i64); 4]>,
    constant: i64,
}

impl Sum {
    /// The sum and `sign` times another.
    pub fn plus(&self, o: &Sum, sign: i64) -> Option<Sum> {
        let mut out = self.clone();
        out.constant = out.constant.checked_add(o.constant.checked_mul(sign)?)?;
        for (n, c) in &o.terms {
            let c = c.checked_mul(sign)?;
            match out.terms.iter_mut().find(|t| t.0 == *n) {
                Some(t) => t.1 = t.1.checked_add(c)?,
                None => out.terms.push((n.clone(), c)),
            }
        }
        out.terms.retain(|t| t.1 != 0);
        Some(out)
    }
    /// Whether it is this number.
    pub fn is_number(&self, c: i64) -> bool {
        self.terms.is_empty() && self.constant == c
    }
    fn times(&self, k: i64) -> Option<Sum> {
        let mut out = self.clone();
        out.constant = out.constant.checked_mul(k)?;
        for t in &mut out.terms {
            t.1 = t.1.checked_mul(k)?;
        }
        out.terms.retain(|t| t.1 != 0);
        Some(out)
    }
}

/// So many bytes after a pointer.
pub fn at(base: Reg, disp: i64) -> Mem {
    Mem { base: Base::Reg(base), index: None, disp: disp as i32 }
}

/// Whether the operation on its operands' bounds stays in its type: only then may it be taken apart.
fn is_exact(n: &UOp) -> bool {
    let Some((lo, hi)) = n.dtype.int_range() else { return false };
    let (a, b) = (n.src[0].bounds, n.src.get(1).map_or((0, 0), |b| b.bounds));
    let ends: [i128; 4] = match n.op {
        Op::Add => [a.0 + b.0, a.1 + b.1, 0, 0],
        Op::Sub => [a.0 - b.1, a.1 - b.0, 0, 0],
        Op::Mul => {
            let all =
                [a.0.checked_mul(b.0), a.0.checked_mul(b.1), a.1.checked_mul(b.0), a.1.checked_mul(b.1)];
            all.map(|x| x.unwrap_or(i128::MAX))
        }
        Op::Shl if b.0 == b.1 && (0..63).contains(&b.0) => [
            a.0.checked_mul(1 << b.0).unwrap_or(i128::MAX),
            a.1.checked_mul(1 << b.0).unwrap_or(i128::MAX),
            0,
            0,
        ],
        Op::Cast => [a.0, a.1, 0, 0],
        _ => return false,
    };
    ends.iter().all(|e| (lo..=hi).contains(e))
}

impl Select<'_> {
    /// An index as a sum.
    pub fn sum(&mut self, n: &UOp) -> Rc<Sum> {
        if let Some(s) = self.sums.get(n) {
            return s.clone();
        }
        let leaf = || Sum { terms: smallvec![(n.clone(), 1)], constant: 0 };
        let split = n.dtype.is_int() && n.lanes() == 1;
        let found = match n.op {
            Op::Const => n.as_int().map(|c| Sum { terms: smallvec![], constant: c }),
            Op::After => Some(self.sum(&n.src[0]).as_ref().clone()),
            Op::Add | Op::Sub if split && is_exact(n) => {
                let (a, b) = (self.sum(&n.src[0]), self.sum(&n.src[1]));
                a.plus(&b, if n.op == Op::Add { 1 } else { -1 })
            }
            Op::Mul if split && is_exact(n) => match (n.src[0].as_int(), n.src[1].as_int()) {
                (_, Some(c)) => self.sum(&n.src[0]).times(c),
                (Some(c), _) => self.sum(&n.src[1]).times(c),
                _ => None,
            },
            Op::Shl if split && is_exact(n) => match n.src[1].as_int() {
                Some(c) if (0..32).contains(&c) => self.sum(&n.src[0]).times(1 << c),
                _ => None,
            },
            Op::Cast if split && n.src[0].dtype.is_int() && is_exact(n) => {
                Some(self.sum(&n.src[0]).as_ref().clone())
            }
            _ => None,
        };
        let s = Rc::new(found.unwrap_or_else(leaf));
        self.sums.insert(n.clone(), s.clone());
        s
    }

    /// The address of an `Index` with one index.
    pub fn address(&mut self, index: &UOp) -> Result<Mem, Error> {
        if index.op != Op::Index || index.src.len() != 2 {
            return Err(self.malformed(format!("{index:?} is not an address in a buffer")));
        }
        let m = memory(index);
        let Some(&(pointer, offset)) = self.pointers.get(m) else {
            return Err(self.malformed(format!("{m:?} is not among the parameters or defines")));
        };
        let bytes = index.dtype.size() as i64;
        let sum = self.sum(&index.src[1]);
        let overflow = || self.malformed(format!("the address {index:?} does not fit 64 bits"));
        let sum = sum.times(bytes).ok_or_else(overflow)?;
        let mut terms: Vec<(usize, bool, UOp, i64)> = vec![];
        for (n, c) in &sum.terms {
            if !self.values.contains_key(n) {
                return Err(self.malformed(format!("{n:?} is used before it is computed")));
            }
            terms.push((self.depth_of(n), n.op != Op::Range, n.clone(), *c));
        }
        terms.sort_by_key(|t| (t.0, t.1));
        let mut base = pointer;
        let mut index = None;
        let last = terms.len().wrapping_sub(1);
        for (i, (depth, _, n, c)) in terms.iter().enumerate() {
            if i == last && matches!(c, 1 | 2 | 4 | 8) {
                let x = self.wide(n)?;
                index = NonZeroU8::new(*c as u8).map(|c| (x, c));
            } else {
                base = self.add_term(base, n, *c, *depth)?;
            }
        }
        let constant = sum.constant + offset;
        // room for the parts of a vector
        if !(-(1 << 30)..1 << 30).contains(&constant) {
            let key = Key::Far(base, constant);
            let depth = terms.last().map_or(0, |t| t.0);
            base = match self.known(&key) {
                Some(reg) => reg,
                None => {
                    let reg = self.in_block(depth, |s| {
                        let c = s.int_const(constant);
                        s.lea(Mem { base: Base::Reg(base), index: Some((c, ONCE)), disp: 0 })
                    });
                    self.blocks[depth].known.insert(key, reg);
                    reg
                }
            };
            return Ok(Mem { base: Base::Reg(base), index, disp: 0 });
        }
        Ok(Mem { base: Base::Reg(base), index, disp: constant as i32 })
    }

    /// An index in a whole register.
    pub fn wide(&mut self, n: &UOp) -> Result<Reg, Error> {
        let x = self.scalar_operand(n)?;
        if n.dtype.size() == 8 || n.bounds.0 >= 0 || n.dtype.is_unsigned() {
            return Ok(x); // 32 bits are written with zeros above them
        }
        let key = Key::Wide(n.clone());
        if let Some(reg) = self.known(&key) {
            return Ok(reg);
        }
        let depth = self.depth_of(n);
        let reg = self.in_block(depth, |s| {
            let dst = s.int();
            let ops = smallvec![r(dst, Size::Q), r(x, Size::D)];
            s.emit(Kind::Plain(Code::Movsxd_r64_rm32), Def::Write, ops);
            dst
        });
        self.blocks[depth].known.insert(key, reg);
        Ok(reg)
    }

    /// `base + n * c`, in the block where n is known.
    fn add_term(&mut self, base: Reg, n: &UOp, c: i64, depth: usize) -> Result<Reg, Error> {
        let block = &self.blocks[depth];
        if block.is_innermost && block.range.as_ref().is_some_and(|r| r.1 == *n) {
            return self.induction_pointer(base, c, depth);
        }
        let key = Key::Sum(base, n.clone(), c);
        if let Some(reg) = self.known(&key) {
            return Ok(reg);
        }
        let x = self.wide(n)?;
        let reg = self.in_block(depth, |s| match c {
            1 | 2 | 4 | 8 => {
                let index = NonZeroU8::new(c as u8).map(|c| (x, c));
                s.lea(Mem { base: Base::Reg(base), index, disp: 0 })
            }
            _ => {
                let scaled = Key::Scaled(n.clone(), c);
                let y = match s.known(&scaled) {
                    Some(y) => y,
                    None => {
                        let y = s.times(x, Size::Q, c);
                        s.blocks[depth].known.insert(scaled, y);
                        y
                    }
                };
                s.lea(Mem { base: Base::Reg(base), index: Some((y, ONCE)), disp: 0 })
            }
        });
        self.blocks[depth].known.insert(key, reg);
        Ok(reg)
    }

    /// An address that moves by `c` bytes in each round of an innermost loop.
    fn induction_pointer(&mut self, base: Reg, c: i64, depth: usize) -> Result<Reg, Error> {
        let key = Key::InductionPointer(base, c);
        if let Some(&reg) = self.blocks[depth].known.get(&key) {
            return Ok(reg);
        }
        let begin = self.blocks[depth].begin;
        let reg = self.in_block(depth - 1, |s| match begin {
            None => s.copy_int(base),
            Some(b) => {
                let y = s.times(b, Size::Q, c);
                s.emit_add(y, base);
                y
            }
        });
        self.blocks[depth].induction_pointers.push((reg, c));
        self.blocks[depth].known.insert(key, reg);
        Ok(reg)
    }
    fn emit_add(&mut self, to: Reg, x: Reg) {
        self.g2(Code::Add_r64_rm64, to, Opd::Reg(x, Size::Q));
    }
}

/// Whether an integer type's registers hold its sign.
pub fn is_signed(d: DType) -> bool {
    d.is_int() && !d.is_unsigned()
}
