//! What computes, and where values are found again.

use super::Writer;
use super::types::{self, Class, Operand, Operands, Val, is_half, is_signed};
use crate::Error;
use crate::walk::{Walk, var_name};
use frit_abi::{Alu, DType};
use frit_uop::{Arg, Op, UOp};
use smallvec::SmallVec;

impl Writer<'_> {
    /// A value that was computed, a leaf, or what follows from those.
    pub fn value(&mut self, n: &UOp) -> Result<Val, Error> {
        let n = n.behind_after();
        if let Some(v) = self.values.get(n) {
            return Ok(v.clone());
        }
        match (n.op, &n.arg) {
            (Op::Const, &Arg::Scalar(v)) => Ok(Val::scalar(Operand::constant(v, n.dtype))),
            (Op::Variable, _) => self.variable(n),
            (Op::Special, Arg::Name(name)) => self.special(n, name),
            (op, _) if op.is_elementwise() => self.compute(n),
            _ => Err(self.malformed(format!("{n:?} is used where it is not computed"))),
        }
    }
    /// A truth value in a predicate.
    pub fn truth(&mut self, n: &UOp) -> Result<Operand, Error> {
        let v = self.value(n)?;
        match v.lanes() {
            1 => Ok(self.lane(&v, 0, DType::Bool)),
            w => Err(self.malformed(format!("a gate of {w} lanes"))),
        }
    }
    fn variable(&mut self, n: &UOp) -> Result<Val, Error> {
        let at = self.linear.vars.iter().position(|v| var_name(v) == var_name(n));
        let Some(at) = at else { return Err(self.malformed(format!("{n:?} is not among its variables"))) };
        let is_wide = self.linear.vars[at].dtype != DType::I32;
        let (class, form) =
            if is_wide { (Class::Long, "ld.param.b64") } else { (Class::Word, "ld.param.b32") };
        let o = self.uniform(class, form, &format!("[n{at}]"));
        Ok(Val::scalar(match (is_wide, n.dtype) {
            (true, DType::I32) => self.uniform(Class::Word, "cvt.u32.u64", &o.to_string()),
            (false, DType::I64 | DType::Index) => self.uniform(Class::Long, "cvt.s64.s32", &o.to_string()),
            _ => o,
        }))
    }
    /// The number of the block or of the lane in it.
    fn special(&mut self, n: &UOp, name: &str) -> Result<Val, Error> {
        let (kind, dim) = name.split_at_checked(4).unwrap_or((name, ""));
        let source = match kind {
            "gidx" => "%ctaid",
            "lidx" => "%tid",
            _ => return Err(self.malformed(format!("there is no hardware id {name}"))),
        };
        let dim = match dim {
            "0" => "x",
            "1" => "y",
            "2" => "z",
            _ => return Err(self.malformed(format!("there is no hardware id {name}"))),
        };
        let o = self.uniform(Class::Word, "mov.b32", &format!("{source}.{dim}"));
        Ok(Val::scalar(match n.dtype {
            DType::I32 => o,
            _ => self.uniform(Class::Long, "cvt.u64.u32", &o.to_string()),
        }))
    }

    /// One lane of a value, as instructions take it: halves and truth values have no constants, so those are in registers.
    pub fn lane(&mut self, v: &Val, lane: usize, d: DType) -> Operand {
        let o = match v {
            Val::Lanes(l) if l.len() == 1 => l[0],
            Val::Lanes(l) => l[lane],
            Val::Pairs(p) => self.taken_apart(p[lane / 2])[lane % 2],
            Val::Quads(q) => self.part(q[lane / 4], lane % 4, d),
        };
        match (o, Class::of(d)) {
            (Operand::Int(c), Class::Pred) => self.uniform(Class::Pred, "mov.pred", &c.to_string()),
            (Operand::Int(c), Class::Half) => self.uniform(Class::Half, "mov.b16", &format!("{c:#06x}")),
            _ => o,
        }
    }
    /// The two halves of a register.
    fn taken_apart(&mut self, pair: Operand) -> [Operand; 2] {
        if let Some(&halves) = self.halves.get(&pair) {
            return halves;
        }
        let halves = [self.fresh(Class::Half), self.fresh(Class::Half)];
        self.braced("mov.b32", &halves, pair, true);
        self.remember_halves(pair, halves);
        halves
    }
    /// A register of two halves.
    pub fn pair(&mut self, lo: Operand, hi: Operand) -> Operand {
        let to = self.fresh(Class::Word);
        self.braced("mov.b32", &[lo, hi], to, false);
        to
    }
    /// The pairs of a value with so many lanes; a scalar is in both halves.
    pub fn pairs(&mut self, v: &Val, lanes: usize, d: DType) -> Operands {
        match v {
            Val::Pairs(p) | Val::Quads(p) => p.clone(),
            Val::Lanes(l) if l.len() == 1 => {
                let both = match l[0] {
                    Operand::Int(c) => {
                        self.uniform(Class::Word, "mov.b32", &format!("{:#010x}", c << 16 | c))
                    }
                    o => self.pair(o, o),
                };
                std::iter::repeat_n(both, lanes / 2).collect()
            }
            Val::Lanes(l) => l
                .chunks(2)
                .enumerate()
                .map(|(k, both)| match *both {
                    [Operand::Int(lo), Operand::Int(hi)] => {
                        self.uniform(Class::Word, "mov.b32", &format!("{:#010x}", hi << 16 | lo))
                    }
                    _ => {
                        let (lo, hi) = (self.lane(v, 2 * k, d), self.lane(v, 2 * k + 1, d));
                        self.pair(lo, hi)
                    }
                })
                .collect(),
        }
    }

    /// The value of a node that is no access, which is remembered.
    pub fn compute(&mut self, n: &UOp) -> Result<Val, Error> {
        let v = match (n.op, &n.arg) {
            (Op::Stack, _) => self.stack(n)?,
            (Op::Lane, &Arg::Lane(i)) => {
                let v = self.value(&n.src[0])?;
                Val::scalar(self.lane(&v, i as usize, n.dtype))
            }
            (Op::Shuffle, Arg::Axes(from)) => {
                let (a, b) = (self.value(&n.src[0])?, self.value(&n.src[1])?);
                let w = a.lanes();
                let lane = |k: &u8| match (*k as usize).checked_sub(w) {
                    None => self.lane(&a, *k as usize, n.dtype),
                    Some(k) => self.lane(&b, k, n.dtype),
                };
                Val::Lanes(from.iter().map(lane).collect())
            }
            (Op::LaneShuffle, &Arg::Lanes(d)) if n.dtype.size() == 4 => {
                let v = self.value(&n.src[0])?;
                let x = self.lane(&v, 0, n.dtype).as_bits();
                let to = [x, Operand::Int(d as i64), Operand::Int(31), Operand::Int(-1)];
                Val::scalar(self.make(Class::Word, "shfl.sync.bfly.b32", &to))
            }
            (Op::Matrix, Arg::Name(unit)) => self.matrix(n, unit)?,
            (Op::Words, _) => match self.value(&n.src[0])? {
                Val::Quads(words) => Val::Lanes(words),
                _ => return Err(self.unsupported(n)),
            },
            (op, _) if op.is_elementwise() => self.elementwise(n)?,
            _ => return Err(self.unsupported(n)),
        };
        self.remember(n, v.clone());
        Ok(v)
    }

    /// Lanes side by side; those of one pair, in its order, are it.
    fn stack(&mut self, n: &UOp) -> Result<Val, Error> {
        let whole = |first: &UOp| {
            let v = first.src.first()?;
            let is_lane =
                |(i, s): (usize, &UOp)| s.op == Op::Lane && s.arg == Arg::Lane(i as u32) && s.src[0] == *v;
            (v.lanes() == n.src.len() && n.src.iter().enumerate().all(is_lane)).then(|| v.clone())
        };
        if let Some(v) = n.src.first().filter(|s| s.op == Op::Lane).and_then(whole) {
            return self.value(&v);
        }
        let lanes: Result<Operands, Error> = n
            .src
            .iter()
            .map(|s| {
                let v = self.value(s)?;
                match v {
                    // a constant stays one: it may be stored as it is
                    Val::Lanes(l) if l.len() == 1 => Ok(l[0]),
                    v => Ok(self.lane(&v, 0, n.dtype)),
                }
            })
            .collect();
        Ok(Val::Lanes(lanes?))
    }

    fn elementwise(&mut self, n: &UOp) -> Result<Val, Error> {
        let src = n.src.iter().map(|s| self.value(s)).collect::<Result<SmallVec<[Val; 3]>, _>>()?;
        let lanes = n.lanes();
        self.check_lanes(n, lanes)?;
        if lanes > 1 && is_half(n.dtype) && n.op == Op::Cast && n.src[0].dtype == DType::F32 {
            return Ok(self.cast_pairs(&src[0], n.dtype, lanes));
        }
        if lanes > 1 && is_half(n.dtype) && is_packed(n.op) {
            return self.packed(n, &src, lanes);
        }
        let mut out = Operands::new();
        for k in 0..lanes {
            let x: Operands = src.iter().zip(&n.src).map(|(v, s)| self.lane(v, k, s.dtype)).collect();
            self.into = self.updated(n).map(|regs| regs[0]);
            out.push(match (n.op, n.op.alu()) {
                (Op::Cast, _) => self.cast(n, n.src[0].dtype, x[0])?,
                (Op::Bitcast, _) => self.bitcast(n, n.src[0].dtype, x[0])?,
                (_, Some(Alu::Where)) => self.select(n.dtype, &x),
                (_, Some(alu)) if n.src[0].dtype == DType::Bool => self.logic(n, alu, &x)?,
                (_, Some(alu)) if alu.is_comparison() => self.compare(n, alu, &x)?,
                (_, Some(alu)) => self.arithmetic(n, alu, &x)?,
                _ => return Err(self.unsupported(n)),
            });
        }
        Ok(Val::Lanes(out))
    }

    /// Halves, two at a time.
    fn packed(&mut self, n: &UOp, src: &[Val], lanes: usize) -> Result<Val, Error> {
        let d = n.dtype;
        let pairs: SmallVec<[Operands; 3]> = src.iter().map(|v| self.pairs(v, lanes, d)).collect();
        let mut out = Operands::new();
        for k in 0..lanes / 2 {
            let x: Operands = pairs.iter().map(|p| p[k]).collect();
            let Some(alu) = n.op.alu() else { return Err(self.unsupported(n)) };
            out.push(self.halves(n, alu, d, &x, true)?);
        }
        Ok(Val::Pairs(out))
    }

    /// An operation on a half, or on a pair of them.
    fn halves(
        &mut self,
        n: &UOp,
        alu: Alu,
        d: DType,
        x: &[Operand],
        is_pair: bool,
    ) -> Result<Operand, Error> {
        let class = if is_pair { Class::Word } else { Class::Half };
        let (t, times) = (if d == DType::F16 { "f16" } else { "bf16" }, if is_pair { "x2" } else { "" });
        let mut constant = |v: f64| {
            let c = d.small_float().map_or(0, |s| s.from_f64(v)) as i64;
            match is_pair {
                true => self.uniform(Class::Word, "mov.b32", &format!("{:#010x}", c << 16 | c)),
                false => self.uniform(Class::Half, "mov.b16", &format!("{c:#06x}")),
            }
        };
        let bf16 = d == DType::BF16;
        let (name, x): (&str, Operands) = match alu {
            Alu::Add if bf16 => ("fma.rn", SmallVec::from_slice(&[x[0], constant(1.0), x[1]])),
            Alu::Sub if bf16 => ("fma.rn", SmallVec::from_slice(&[x[1], constant(-1.0), x[0]])),
            Alu::Mul if bf16 => ("fma.rn", SmallVec::from_slice(&[x[0], x[1], constant(-0.0)])),
            Alu::Add => ("add.rn", x.into()),
            Alu::Sub => ("sub.rn", x.into()),
            Alu::Mul => ("mul.rn", x.into()),
            Alu::MulAcc => ("fma.rn", x.into()),
            Alu::Max => ("max.NaN", x.into()),
            Alu::Min => ("min.NaN", x.into()),
            Alu::Neg => ("neg", x.into()),
            _ => return Err(self.lacks(n.op, d)),
        };
        Ok(self.make(class, &format!("{name}.{t}{times}"), &x))
    }

    fn select(&mut self, d: DType, x: &[Operand]) -> Operand {
        if d == DType::Bool {
            let yes = self.make(Class::Pred, "and.pred", &[x[0], x[1]]);
            let not = self.make(Class::Pred, "not.pred", &[x[0]]);
            let no = self.make(Class::Pred, "and.pred", &[not, x[2]]);
            return self.make(Class::Pred, "or.pred", &[yes, no]);
        }
        let class = Class::of(d);
        self.make(class, &format!("selp.{}", class.bits()), &[x[1].as_bits(), x[2].as_bits(), x[0]])
    }

    /// Operations on truth values.
    fn logic(&mut self, n: &UOp, alu: Alu, x: &[Operand]) -> Result<Operand, Error> {
        let mut op = |form: &str, x: &[Operand]| self.make(Class::Pred, form, x);
        Ok(match alu {
            Alu::Not | Alu::Neg => op("not.pred", &x[..1]),
            Alu::Add | Alu::Or | Alu::Max => op("or.pred", x),
            Alu::Mul | Alu::And | Alu::Min | Alu::Tdiv | Alu::Idiv => op("and.pred", x),
            Alu::Sub | Alu::Xor | Alu::Ne => op("xor.pred", x),
            Alu::Eq => {
                let differ = op("xor.pred", x);
                op("not.pred", &[differ])
            }
            Alu::Lt => {
                let not = op("not.pred", &x[..1]);
                op("and.pred", &[not, x[1]])
            }
            Alu::MulAcc => {
                let both = op("and.pred", &x[..2]);
                op("or.pred", &[both, x[2]])
            }
            _ => return Err(self.unsupported(n)),
        })
    }

    fn compare(&mut self, n: &UOp, alu: Alu, x: &[Operand]) -> Result<Operand, Error> {
        let d = n.src[0].dtype;
        if d.is_small_float() {
            return Err(self.lacks(n.op, d));
        }
        let (name, t) = match (alu, d.is_float()) {
            (Alu::Lt, _) => ("lt", types::name(d)),
            (Alu::Eq, true) => ("eq", types::name(d)),
            (Alu::Eq, false) => ("eq", types::signed(d)),
            (Alu::Ne, true) => ("neu", types::name(d)),
            (Alu::Ne, false) => ("ne", types::signed(d)),
            _ => return Err(self.unsupported(n)),
        };
        Ok(self.make(Class::Pred, &format!("setp.{name}.{t}"), x))
    }

    /// Operations on numbers that are no comparisons.
    fn arithmetic(&mut self, n: &UOp, alu: Alu, x: &[Operand]) -> Result<Operand, Error> {
        let d = n.dtype;
        match d {
            _ if is_half(d) => self.halves(n, alu, d, x, false),
            _ if d.is_small_float() => Err(self.lacks(n.op, d)),
            _ if d.is_float() => self.real(n, alu, d, x),
            _ => self.integer(n, alu, d, x),
        }
    }
    fn real(&mut self, n: &UOp, alu: Alu, d: DType, x: &[Operand]) -> Result<Operand, Error> {
        let (class, t) = (Class::of(d), types::name(d));
        let form = match alu {
            Alu::Neg => format!("neg.{t}"),
            Alu::Add => format!("add.rn.{t}"),
            Alu::Sub => format!("sub.rn.{t}"),
            Alu::Mul => format!("mul.rn.{t}"),
            Alu::Fdiv => format!("div.rn.{t}"),
            Alu::Recip => format!("rcp.rn.{t}"),
            Alu::Sqrt => format!("sqrt.rn.{t}"),
            Alu::Exp2Near if d == DType::F32 => "ex2.approx.f32".into(),
            Alu::RecipNear if d == DType::F32 => "rcp.approx.ftz.f32".into(),
            Alu::MulAcc => format!("fma.rn.{t}"),
            Alu::Trunc => format!("cvt.rzi.{t}.{t}"),
            Alu::Floor => format!("cvt.rmi.{t}.{t}"),
            Alu::Round => format!("cvt.rni.{t}.{t}"),
            Alu::Max | Alu::Min if d == DType::F32 => format!("{}.NaN.{t}", extreme(alu)),
            Alu::Max | Alu::Min => return Ok(self.wide_extreme(alu, x)),
            _ => return Err(self.lacks(n.op, d)),
        };
        Ok(self.make(class, &form, x))
    }
    /// The greater or lesser of float64s, of which instructions give the number beside a NaN.
    fn wide_extreme(&mut self, alu: Alu, x: &[Operand]) -> Operand {
        let number = self.make(Class::Long, if alu == Alu::Max { "max.f64" } else { "min.f64" }, x);
        let any = self.make(Class::Pred, "setp.nan.f64", x);
        let nan = Operand::F64(f64::NAN.to_bits()).as_bits();
        self.make(Class::Long, "selp.b64", &[nan, number, any])
    }

    fn integer(&mut self, n: &UOp, alu: Alu, d: DType, x: &[Operand]) -> Result<Operand, Error> {
        let (class, t, same, bits) = (Class::of(d), types::name(d), types::signed(d), Class::of(d).bits());
        let (form, may_pass): (String, bool) = match alu {
            Alu::Neg => (format!("neg.{same}"), true),
            Alu::Add => (format!("add.{same}"), true),
            Alu::Sub => (format!("sub.{same}"), true),
            Alu::Mul => (format!("mul.lo.{same}"), true),
            Alu::MulAcc => (format!("mad.lo.{same}"), true),
            Alu::Dot4 if d.size() == 4 => ("dp4a.u32.s32".into(), false),
            Alu::Tdiv => (format!("div.{t}"), is_signed(d)),
            Alu::Max | Alu::Min => (format!("{}.{t}", extreme(alu)), false),
            Alu::Not => (format!("not.{bits}"), !is_signed(d)),
            Alu::And => (format!("and.{bits}"), false),
            Alu::Or => (format!("or.{bits}"), false),
            Alu::Xor => (format!("xor.{bits}"), false),
            Alu::Shl | Alu::Shr => {
                // amounts have 32 bits whatever is shifted
                let by = match x[1] {
                    o @ Operand::Reg(Class::Long, _) => self.make(Class::Word, "cvt.u32.u64", &[o]),
                    o => o,
                };
                let form = if alu == Alu::Shl { format!("shl.{bits}") } else { format!("shr.{t}") };
                let out = self.make(class, &form, &[x[0], by]);
                return Ok(if alu == Alu::Shl { self.narrow(d, out) } else { out });
            }
            _ => return Err(self.lacks(n.op, d)),
        };
        let out = self.make(class, &form, x);
        Ok(if may_pass { self.narrow(d, out) } else { out })
    }

    /// An integer of 32 bits cut to a narrower type.
    pub fn narrow(&mut self, d: DType, x: Operand) -> Operand {
        match d {
            DType::I8 => self.make(Class::Word, "cvt.s32.s8", &[x]),
            DType::I16 => self.make(Class::Word, "cvt.s32.s16", &[x]),
            _ if d.size() == 1 => self.make(Class::Word, "and.b32", &[x, Operand::Int(0xff)]),
            DType::U16 => self.make(Class::Word, "and.b32", &[x, Operand::Int(0xffff)]),
            _ => x,
        }
    }
}

fn extreme(alu: Alu) -> &'static str {
    if alu == Alu::Max { "max" } else { "min" }
}

/// Whether there is an instruction for two halves.
fn is_packed(op: Op) -> bool {
    matches!(op.alu(), Some(Alu::Add | Alu::Sub | Alu::Mul | Alu::MulAcc | Alu::Max | Alu::Min | Alu::Neg))
}
