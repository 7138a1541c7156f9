//! What computes, as expressions.

use super::Writer;
use super::dialect::Entry;
use super::types::{Val, int_literal, mask, scalar};
use crate::Error;
use crate::walk::Walk;
use frit_abi::{Alu, DType};
use frit_uop::{Arg, Op, UOp};

impl Writer<'_> {
    /// A source as it is.
    pub fn operand(&mut self, n: &UOp) -> Result<Val, Error> {
        if let Some(v) = self.values.get(n) {
            return Ok(v.clone());
        }
        match n.op {
            Op::Const => {
                let Some(s) = n.as_scalar() else { return Err(self.malformed(format!("{n:?}"))) };
                let text = match n.dtype {
                    DType::F32 | DType::F64 => self.dialect.float(s.as_f64(), n.dtype),
                    d if d.is_small_float() => format!("{:#x}", s.to_bits(d)),
                    // a literal of an index width is an int where it fits, which reads better
                    DType::I64 | DType::Index if i32::try_from(s.as_i128()).is_ok() => {
                        s.as_i128().to_string()
                    }
                    d => int_literal(s.as_i128(), d),
                };
                Ok(Val::scalar(text, n.dtype))
            }
            Op::After => self.operand(&n.src[0]),
            Op::Special => self.hardware_id(n),
            _ => Err(self.malformed(format!("{n:?} is used before it is computed"))),
        }
    }
    fn hardware_id(&mut self, n: &UOp) -> Result<Val, Error> {
        let (Arg::Name(name), Entry::Grid(grid)) = (&n.arg, &self.dialect.entry) else {
            return Err(self.unsupported(n));
        };
        let dim = name.get(4..).and_then(|d| d.parse().ok());
        let id = match (name.get(..4), dim) {
            (Some("gidx"), Some(dim)) => grid.ids[0](dim),
            (Some("lidx"), Some(dim)) => grid.ids[1](dim),
            _ => return Err(self.malformed(format!("there is no hardware id {name}"))),
        };
        Ok(Val::scalar(format!("({}){id}", self.prelude.ty(n.dtype, 1)), n.dtype))
    }
    /// A source as vector (or scalar) of `lanes` lanes of the C element type `elem`.
    pub fn operand_as(&mut self, n: &UOp, elem: DType, lanes: usize) -> Result<Val, Error> {
        let v = self.operand(n)?;
        if lanes == 1 {
            return Ok(v);
        }
        if v.lanes > 1 {
            return Ok(if n.dtype == DType::Bool { self.mask_as(&v, elem) } else { v });
        }
        let per = self.part_lanes(elem, lanes);
        let all = self.prelude.all(elem, per);
        let text = match (n.dtype, n.as_int()) {
            (DType::Bool, Some(b)) => format!("{all}({})", -i64::from(b != 0)),
            (DType::Bool, None) => format!("{all}({} ? -1 : 0)", v.atom(0)),
            _ => format!("{all}({})", v.parts[0]),
        };
        Ok(Val { parts: vec![text; lanes / per], elem, lanes, atomic: true })
    }
    /// A mask with lanes as wide as `elem`.
    pub fn mask_as(&mut self, v: &Val, elem: DType) -> Val {
        let to = mask(elem);
        if v.elem == to { v.clone() } else { self.convert(v, to) }
    }
    /// Lanes converted to another element type by C's rules, in as many parts as that needs.
    fn convert(&mut self, v: &Val, to: DType) -> Val {
        let v = self.repart(v, self.part_lanes(to, v.lanes));
        let per = v.per_part();
        let t = self.prelude.ty(to, per);
        // bytes to floats in one step is done lane by lane by gcc
        let wide = DType::I32;
        let step = to.is_float() && v.elem.is_int() && v.elem.size() < 4;
        let mut parts: Vec<String> = v.parts.clone();
        if step {
            let w = self.prelude.ty(wide, per);
            parts = parts.iter().map(|p| format!("__builtin_convertvector({p}, {w})")).collect();
        }
        let parts = parts.iter().map(|p| format!("__builtin_convertvector({p}, {t})")).collect();
        let out = Val { parts, elem: to, lanes: v.lanes, atomic: true };
        self.repart(&out, self.part_lanes(to, v.lanes))
    }
    /// The same lanes cut finer: no part has more than `per` lanes. (Or coarser, as the type allows.)
    fn repart(&mut self, v: &Val, per: usize) -> Val {
        let mut v = v.clone();
        if per < v.per_part() {
            let (n, cuts) = (v.per_part(), v.per_part() / per);
            let f = self.prelude.part(v.elem, n, cuts);
            let parts =
                v.parts.iter().flat_map(|p| (0..cuts).map(|k| format!("{f}({p}, {k})")).collect::<Vec<_>>());
            v.parts = parts.collect();
            v.atomic = true;
        }
        while v.per_part() < per && v.per_part() < self.part_lanes(v.elem, v.lanes) {
            let f = self.prelude.join(v.elem, v.per_part());
            v.parts = v.parts.chunks(2).map(|c| format!("{f}({}, {})", c[0], c[1])).collect();
            v.atomic = true;
        }
        v
    }

    /// `Stack`, `Lane` and `Shuffle`.
    pub fn shaped(&mut self, n: &UOp) -> Result<Val, Error> {
        if let (Op::Lane, Arg::Lane(k)) = (n.op, &n.arg) {
            let v = self.operand(&n.src[0])?;
            let text = v.lane(*k as usize);
            return Ok(if n.dtype == DType::Bool && v.lanes > 1 {
                Val::compound(vec![format!("{text} & 1")], DType::Bool, 1)
            } else {
                Val::scalar(text, n.dtype)
            });
        }
        if let (Op::Shuffle, Arg::Axes(from)) = (n.op, &n.arg) {
            return self.shuffle(n, from);
        }
        let lanes = n.src.len();
        self.check_lanes(n, lanes)?;
        let elem = if n.dtype == DType::Bool { DType::I32 } else { n.dtype };
        let per = self.part_lanes(elem, lanes);
        let t = self.prelude.ty(elem, per);
        let mut texts = vec![];
        for s in &n.src {
            let v = self.operand(s)?;
            if v.lanes > 1 {
                return Err(self.malformed(format!("a vector among the lanes of {n:?}")));
            }
            texts.push(if n.dtype == DType::Bool { format!("-{}", v.atom(0)) } else { v.parts[0].clone() });
        }
        let parts = texts.chunks(per).map(|c| format!("({t}){{{}}}", c.join(", "))).collect();
        Ok(Val::compound(parts, elem, lanes))
    }

    fn shuffle(&mut self, n: &UOp, from: &[u8]) -> Result<Val, Error> {
        self.check_lanes(n, from.len())?;
        let (a, b) = (self.operand(&n.src[0])?, self.operand(&n.src[1])?);
        let b = if n.dtype == DType::Bool { self.mask_as(&b, a.elem) } else { b };
        let per = self.part_lanes(a.elem, from.len());
        let one = a.parts.len() == 1 && b.parts.len() == 1 && a.lanes > 1;
        let t = self.prelude.ty(a.elem, per);
        let part = |c: &[u8]| {
            let text = |k: &u8| match (one, (*k as usize).checked_sub(a.lanes)) {
                (true, _) => k.to_string(),
                (false, None) => a.lane(*k as usize),
                (false, Some(k)) => b.lane(k),
            };
            let lanes: Vec<String> = c.iter().map(text).collect();
            match one && per > 1 {
                true => {
                    format!("__builtin_shufflevector({}, {}, {})", a.parts[0], b.parts[0], lanes.join(", "))
                }
                false => format!("({t}){{{}}}", lanes.join(", ")),
            }
        };
        Ok(Val::compound(from.chunks(per).map(part).collect(), a.elem, from.len()))
    }

    /// An elementwise op.
    pub fn elementwise(&mut self, n: &UOp) -> Result<Val, Error> {
        match (n.op, n.lanes()) {
            (Op::Cast, 1) => self.cast_scalar(n),
            (Op::Cast, _) => self.cast_vector(n),
            (Op::Bitcast, _) => self.bitcast(n),
            (Op::Where, w) => self.select(n, w),
            (o, w) => {
                let Some(alu) = o.alu() else { return Err(self.unsupported(n)) };
                if n.src[0].dtype.is_small_float() {
                    return Err(self.unsupported(n));
                }
                if n.src[0].dtype == DType::Bool { self.logic(n, alu, w) } else { self.arithmetic(n, alu, w) }
            }
        }
    }
    fn select(&mut self, n: &UOp, lanes: usize) -> Result<Val, Error> {
        let c = self.operand(&n.src[0])?;
        let elem = match n.dtype {
            DType::Bool if lanes > 1 => {
                let vector = n.src.iter().find(|s| s.lanes() > 1);
                let v = vector.map(|s| self.operand(s)).transpose()?;
                v.map_or(DType::I32, |v| v.elem)
            }
            d => d,
        };
        let (a, b) = (self.operand_as(&n.src[1], elem, lanes)?, self.operand_as(&n.src[2], elem, lanes)?);
        if c.lanes == 1 {
            let parts = (0..a.parts.len()).map(|k| format!("{} ? {} : {}", c.atom(0), a.atom(k), b.atom(k)));
            return Ok(Val::compound(parts.collect(), elem, lanes));
        }
        let c = self.mask_as(&c, elem);
        let f = self.prelude.select(elem, a.per_part());
        let parts =
            (0..a.parts.len()).map(|k| format!("{f}({}, {}, {})", c.parts[k], a.parts[k], b.parts[k]));
        Ok(Val { parts: parts.collect(), elem, lanes, atomic: true })
    }
    /// Operations on truth values.
    fn logic(&mut self, n: &UOp, alu: Alu, lanes: usize) -> Result<Val, Error> {
        let mut elem = DType::Bool;
        if lanes > 1 {
            for s in n.src.iter().filter(|s| s.lanes() > 1) {
                let e = self.operand(s)?.elem;
                elem = if elem == DType::Bool || e.size() > elem.size() { e } else { elem };
            }
        }
        let mut x = vec![];
        for s in &n.src {
            x.push(self.operand_as(s, elem, lanes)?);
        }
        let vector = lanes > 1;
        let text = |k: usize| -> Option<String> {
            let (a, b) = (x[0].atom(k), x.get(1).map_or(String::new(), |b| b.atom(k)));
            Some(match alu {
                Alu::Not | Alu::Neg => format!("{}{a}", if vector { '~' } else { '!' }),
                Alu::Add | Alu::Or | Alu::Max => format!("{a} | {b}"),
                Alu::Mul | Alu::And | Alu::Min | Alu::Tdiv | Alu::Idiv => format!("{a} & {b}"),
                Alu::Sub | Alu::Xor | Alu::Ne => format!("{a} ^ {b}"),
                Alu::Eq if vector => format!("~({a} ^ {b})"),
                Alu::Eq => format!("{a} == {b}"),
                Alu::Lt if vector => format!("~{a} & {b}"),
                Alu::Lt => format!("{a} < {b}"),
                Alu::MulAcc => format!("({a} & {b}) | {}", x[2].atom(k)),
                _ => return None,
            })
        };
        let parts: Option<Vec<String>> = (0..x[0].parts.len().max(1)).map(text).collect();
        let parts = parts.ok_or_else(|| self.unsupported(n))?;
        Ok(Val::compound(parts, elem, lanes))
    }
    /// Operations on numbers; a comparison gives a truth value.
    fn arithmetic(&mut self, n: &UOp, alu: Alu, lanes: usize) -> Result<Val, Error> {
        let d = n.src[0].dtype;
        let per = self.part_lanes(d, lanes);
        // C broadcasts a scalar beside a vector, but not beside another scalar, nor for a call
        let spread = lanes > 1 && (function(alu) || d.size() < 4 || n.src.iter().all(|s| s.lanes() == 1));
        let mut x = vec![];
        for s in &n.src {
            x.push(if spread || s.lanes() > 1 { self.operand_as(s, d, lanes)? } else { self.operand(s)? });
        }
        let elem = match alu.is_comparison() {
            true if lanes > 1 => mask(d),
            true => DType::Bool,
            false => d,
        };
        // operands narrower than an int are computed as ints, and cut back
        let narrow = lanes == 1 && d.size() < 4 && !alu.is_comparison();
        let mut parts = vec![];
        for k in 0..lanes / per {
            let (text, atomic) = self.arithmetic_part(n, alu, &x, d, per, k)?;
            parts.push(match (narrow, alu.is_comparison() && lanes > 1) {
                (true, _) if !atomic => format!("({})({text})", scalar(d)),
                (_, true) => format!("({})({text})", self.prelude.ty(elem, per)),
                _ => text,
            });
        }
        Ok(Val::compound(parts, elem, lanes))
    }
    /// The text of one part, and whether it is a call.
    fn arithmetic_part(
        &mut self,
        n: &UOp,
        alu: Alu,
        x: &[Val],
        d: DType,
        per: usize,
        k: usize,
    ) -> Result<(String, bool), Error> {
        let a = x[0].atom(k);
        let b = x.get(1).map_or(String::new(), |b| b.atom(k));
        let call = |f: String| {
            let args: Vec<&str> =
                x.iter().map(|v| v.parts[if v.lanes == 1 { 0 } else { k }].as_str()).collect();
            (format!("{f}({})", args.join(", ")), true)
        };
        let infix = |op: &str| (format!("{a} {op} {b}"), false);
        let p = &mut self.prelude;
        let float = d.is_float();
        Ok(match alu {
            Alu::Neg => (format!("-{}", if a.starts_with('-') { format!("({a})") } else { a }), false),
            Alu::Not if !float => (format!("~{a}"), false),
            Alu::Recip if float => (format!("{} / {a}", self.dialect.float(1.0, d)), false),
            Alu::Sqrt if float => call(p.rounding("sqrt", d, per)),
            Alu::Trunc if float => call(p.rounding("trunc", d, per)),
            Alu::Floor if float => call(p.rounding("floor", d, per)),
            Alu::Round if float => call(p.rounding("round", d, per)),
            Alu::Add => infix("+"),
            Alu::Sub => infix("-"),
            Alu::Mul if d == DType::U16 && per == 1 => (format!("(u32){a} * {b}"), false), // u16 * u16 may pass int
            Alu::Mul => infix("*"),
            Alu::Fdiv if float => infix("/"),
            Alu::Tdiv if !float => infix("/"),
            Alu::Max | Alu::Min => {
                let number = float && n.src[1].as_scalar().is_some_and(|s| !s.as_f64().is_nan());
                call(p.extreme(alu == Alu::Max, number, d, per))
            }
            Alu::Lt => infix("<"),
            Alu::Eq => infix("=="),
            Alu::Ne => infix("!="),
            Alu::And if !float => infix("&"),
            Alu::Or if !float => infix("|"),
            Alu::Xor if !float => infix("^"),
            Alu::Shl if !float => infix("<<"),
            Alu::Shr if !float => infix(">>"),
            Alu::MulAcc if float => call(p.fma(d, per)),
            Alu::MulAcc => (format!("{a} * {b} + {}", x[2].atom(k)), false),
            _ => return Err(self.unsupported(n)),
        })
    }

    fn cast_scalar(&mut self, n: &UOp) -> Result<Val, Error> {
        let (from, to) = (n.src[0].dtype, n.dtype);
        if from.is_small_float() || to.is_small_float() {
            return Err(self.unsupported(n));
        }
        let v = self.operand(&n.src[0])?;
        let text = match to {
            DType::Bool => format!("{} != 0", v.atom(0)),
            _ if from.is_float() && to.is_int() => {
                let f = self.prelude.saturate(from, to, 1);
                return Ok(Val {
                    parts: vec![format!("{f}({})", v.parts[0])],
                    elem: to,
                    lanes: 1,
                    atomic: true,
                });
            }
            _ => format!("({}){}", self.prelude.ty(to, 1), v.atom(0)),
        };
        Ok(Val::compound(vec![text], to, 1))
    }
    fn cast_vector(&mut self, n: &UOp) -> Result<Val, Error> {
        let (from, to, lanes) = (n.src[0].dtype, n.dtype, n.lanes());
        if from.is_small_float() || to.is_small_float() {
            return Err(self.unsupported(n));
        }
        let v = self.operand(&n.src[0])?;
        if from == DType::Bool {
            let m = self.mask_as(&v, to);
            let per = m.per_part();
            let t = self.prelude.ty(to, per);
            let all = self.prelude.all(to, per);
            let one = if to.is_float() { self.dialect.float(1.0, to) } else { "1".into() };
            let mt = self.prelude.ty(m.elem, per);
            let parts =
                (0..m.parts.len()).map(|k| format!("({t})({} & ({mt}){all}({one}))", m.atom(k))).collect();
            return Ok(Val::compound(parts, to, lanes));
        }
        if to == DType::Bool {
            let t = self.prelude.ty(mask(from), v.per_part());
            let parts = (0..v.parts.len()).map(|k| format!("({t})({} != 0)", v.atom(k))).collect();
            return Ok(Val::compound(parts, mask(from), lanes));
        }
        if from.is_float() && to.is_int() {
            let v = self.repart(&v, self.part_lanes(to, lanes));
            let f = self.prelude.saturate(from, to, v.per_part());
            let parts = v.parts.iter().map(|p| format!("{f}({p})")).collect();
            let out = Val { parts, elem: to, lanes, atomic: true };
            return Ok(self.repart(&out, self.part_lanes(to, lanes)));
        }
        Ok(self.convert(&v, to))
    }
    fn bitcast(&mut self, n: &UOp) -> Result<Val, Error> {
        let (from, to, lanes) = (n.src[0].dtype, n.dtype, n.lanes());
        if from.size() != to.size() || (lanes > 1 && (from == DType::Bool || to == DType::Bool)) {
            return Err(self.unsupported(n));
        }
        let v = self.operand(&n.src[0])?;
        let real = |d: DType| matches!(d, DType::F32 | DType::F64);
        if lanes == 1 && (real(from) || real(to)) {
            let f = self.prelude.bits(from, to);
            return Ok(Val { parts: vec![format!("{f}({})", v.parts[0])], elem: to, lanes, atomic: true });
        }
        let t = self.prelude.ty(to, v.per_part());
        let parts = (0..v.parts.len()).map(|k| format!("({t}){}", v.atom(k))).collect();
        Ok(Val::compound(parts, to, lanes))
    }
}

/// Whether the operation is written as a call, whose arguments C does not broadcast.
fn function(alu: Alu) -> bool {
    matches!(alu, Alu::Sqrt | Alu::Trunc | Alu::Floor | Alu::Round | Alu::Max | Alu::Min | Alu::MulAcc)
}
