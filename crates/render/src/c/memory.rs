//! Loads and stores.

use super::Writer;
use super::dialect::Entry;
use super::types::{Val, mask, scalar};
use crate::Error;
use crate::walk::{Walk, memory, miss_code, register};
use frit_abi::DType;
use frit_uop::{Arg, Op, UOp};

impl Writer<'_> {
    /// A pointer expression for an address, and its index.
    pub fn address(&mut self, index: &UOp) -> Result<(String, UOp), Error> {
        if index.op != Op::Index || index.src.len() != 2 {
            return Err(self.malformed(format!("{index:?} is not an address in a buffer")));
        }
        let m = memory(index);
        let Some(base) = self.values.get(m) else {
            return Err(self.malformed(format!("{m:?} is not among the parameters or defines")));
        };
        Ok((base.parts[0].clone(), index.src[1].clone()))
    }
    /// Prefetch the line that is `ahead` bytes after an address, where the language can say so.
    pub fn prefetch(&mut self, at: &UOp, ahead: i32) -> Result<(), Error> {
        if !matches!(self.dialect.entry, Entry::Slice) {
            return Ok(());
        }
        let (base, idx) = self.address(at)?;
        let i = self.operand(&idx)?;
        // as a number: a pointer may not leave its array
        let place = format!("(__UINTPTR_TYPE__)({}) + {ahead}", Self::pointer(&base, &i, 0));
        self.line(format!("__builtin_prefetch((void *)({place}));"));
        Ok(())
    }
    /// `p + i`, `p` for index 0.
    pub fn pointer(base: &str, idx: &Val, offset: usize) -> String {
        match (idx.parts[0].as_str(), offset) {
            ("0" | "0ll", 0) => base.into(),
            ("0" | "0ll", k) => format!("{base} + {k}"),
            (_, 0) => format!("{base} + {}", idx.parts[0]),
            (_, k) => format!("{base} + {} + {k}", idx.parts[0]),
        }
    }
    /// Where the gate of an access with a site is false, say so in the status word.
    pub fn report_miss(&mut self, n: &UOp, gate: &Val) {
        let Some(code) = miss_code(n) else { return };
        let missed: Vec<String> = match gate.lanes {
            1 => vec![format!("!{}", gate.atom(0))],
            w => (0..w).map(|k| format!("!{}", gate.lane(k))).collect(),
        };
        self.line(format!("if ({}) *status = {};", missed.join(" | "), code));
    }
    /// The gate with a name, since it is used more than once.
    pub fn gate(&mut self, n: &UOp) -> Result<Option<Val>, Error> {
        let Some(g) = n.gate() else { return Ok(None) };
        let v = self.operand(g)?;
        if matches!(n.arg, Arg::Site(_)) && v.parts.iter().any(|p| p.len() > 8) {
            self.inline.remove(g);
            self.keep(g, v)?;
            return Ok(Some(self.values[g].clone()));
        }
        Ok(Some(v))
    }

    pub fn load(&mut self, n: &UOp) -> Result<Val, Error> {
        if let Some(r) = register(n) {
            return self
                .values
                .get(r)
                .cloned()
                .ok_or_else(|| self.malformed(format!("{r:?} is not declared")));
        }
        let (base, idx) = self.address(&n.src[0])?;
        let lanes = n.lanes();
        self.check_lanes(n, lanes)?;
        let gate = self.gate(n)?;
        if let Some(g) = &gate {
            self.report_miss(n, g);
        }
        let i = self.operand(&idx)?;
        let elem = if n.dtype == DType::Bool && lanes > 1 { DType::I8 } else { n.dtype };
        let alt = match n.src.get(1) {
            Some(a) => Some(self.operand_as(a, elem, lanes)?),
            None => None,
        };
        if lanes == 1 {
            let at = format!("{base}[{}]", i.parts[0]);
            return Ok(match (gate, alt) {
                (Some(g), Some(a)) => {
                    Val::compound(vec![format!("{} ? {at} : {}", g.atom(0), a.atom(0))], elem, 1)
                }
                _ => Val::scalar(at, elem),
            });
        }
        let per = self.part_lanes(elem, lanes);
        if let Some(places) = Self::places(&n.src[0], &base, &i) {
            return Ok(self.gather(n, &places, gate, alt));
        }
        let mut parts = vec![];
        for k in 0..lanes / per {
            let p = Self::pointer(&base, &i, k * per);
            let full = self.load_part(&p, n.dtype, per, None);
            parts.push(match (&gate, &alt) {
                (Some(g), Some(a)) if g.lanes == 1 => format!("{} ? {full} : {}", g.atom(0), a.atom(k)),
                (Some(g), Some(a)) => {
                    let g = self.mask_as(g, mask(elem));
                    self.load_part(&p, n.dtype, per, Some((g.parts[k].as_str(), a.parts[k].as_str())))
                }
                _ => full,
            });
        }
        Ok(Val::compound(parts, elem, lanes))
    }
    pub fn load_part(&mut self, p: &str, d: DType, per: usize, gate: Option<(&str, &str)>) -> String {
        let stored = if d == DType::Bool { DType::I8 } else { d };
        let p = if d == DType::Bool {
            self.prelude.ty(DType::I8, 1);
            format!("(const i8 *)({p})")
        } else {
            p.into()
        };
        let text = match gate {
            Some((g, alt)) => format!("{}({p}, {g}, {alt})", self.prelude.load_if(stored, per)),
            None => format!("{}({p})", self.prelude.load(stored, per)),
        };
        // a byte that is not 0 is true
        if d == DType::Bool { format!("({})({text} != 0)", self.prelude.ty(DType::I8, per)) } else { text }
    }
    /// Where each lane is, if they are not side by side.
    pub fn places(address: &UOp, base: &str, i: &Val) -> Option<Vec<String>> {
        let lanes = 0..address.lanes().max(i.lanes);
        match address.arg {
            _ if i.lanes > 1 => Some(lanes.map(|k| format!("{base}[{}]", i.lane(k))).collect()),
            Arg::Tile { lanes: row, stride, .. } => {
                let offset = |k: usize| (k / row as usize) as i64 * stride + (k % row as usize) as i64;
                Some(lanes.map(|k| format!("({base} + {})[{}ll]", i.atom(0), offset(k))).collect())
            }
            _ => None,
        }
    }
    /// Lanes from places of their own.
    pub fn gather(&mut self, n: &UOp, places: &[String], gate: Option<Val>, alt: Option<Val>) -> Val {
        let lanes = n.lanes();
        let elem = if n.dtype == DType::Bool { DType::I8 } else { n.dtype };
        let lane = |k: usize| {
            let at = places[k].clone();
            let at = if n.dtype == DType::Bool { format!("-({at} != 0)") } else { at };
            match (&gate, &alt) {
                (Some(g), Some(a)) => format!("{} ? {at} : {}", g.lane(k), a.lane(k)),
                _ => at,
            }
        };
        let per = self.part_lanes(elem, lanes);
        let t = self.prelude.ty(elem, per);
        let part = |p: usize| {
            let list: Vec<String> = (p * per..(p + 1) * per).map(lane).collect();
            format!("({t}){{{}}}", list.join(", "))
        };
        Val::compound((0..lanes / per).map(part).collect(), elem, lanes)
    }

    pub fn store(&mut self, n: &UOp) -> Result<(), Error> {
        let value = n.src[1].clone();
        if let Some(r) = register(n) {
            let Some(to) = self.values.get(r).cloned() else {
                return Err(self.malformed(format!("{r:?} is not declared")));
            };
            let v = self.operand_as(&value, to.elem, to.lanes)?;
            for (name, part) in to.parts.iter().zip(&v.parts) {
                self.line(format!("{name} = {part};"));
            }
            return Ok(());
        }
        let (base, idx) = self.address(&n.src[0])?;
        let lanes = n.src[0].lanes().max(value.lanes());
        self.check_lanes(n, lanes)?;
        let gate = self.gate(n)?;
        if let Some(g) = &gate {
            self.report_miss(n, g);
        }
        let i = self.operand(&idx)?;
        let d = n.src[0].dtype;
        if lanes == 1 {
            let v = self.operand(&value)?;
            let test = gate.map_or(String::new(), |g| format!("if ({}) ", g.parts[0]));
            self.line(format!("{test}{base}[{}] = {};", i.parts[0], v.parts[0]));
            return Ok(());
        }
        let elem = if d == DType::Bool { DType::I8 } else { d };
        let v = self.operand_as(&value, elem, lanes)?;
        if let Some(places) = Self::places(&n.src[0], &base, &i) {
            for (k, place) in places.iter().enumerate() {
                let test = gate.as_ref().map_or(String::new(), |g| format!("if ({}) ", g.lane(k)));
                let one = if d == DType::Bool { format!("{} & 1", v.lane(k)) } else { v.lane(k) };
                self.line(format!("{test}{place} = {one};"));
            }
            return Ok(());
        }
        let per = v.per_part();
        for k in 0..v.parts.len() {
            let mut p = Self::pointer(&base, &i, k * per);
            let mut part = v.atom(k);
            if d == DType::Bool {
                (p, part) = (format!("({} *)({p})", scalar(elem)), format!("{part} & 1"));
            }
            let text = match &gate {
                Some(g) if g.lanes == 1 => {
                    format!("if ({}) {}({p}, {part});", g.parts[0], self.prelude.store(elem, per))
                }
                Some(g) => {
                    let g = self.mask_as(g, mask(elem));
                    format!("{}({p}, {}, {part});", self.prelude.store_if(elem, per), g.parts[k])
                }
                None => format!("{}({p}, {part});", self.prelude.store(elem, per)),
            };
            self.line(text);
        }
        Ok(())
    }
}
