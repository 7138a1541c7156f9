//! Loads and stores.

use super::Writer;
use super::control::{mov, parts};
use super::types::{self, Class, Operand, Operands, Val, is_half, is_signed};
use crate::Error;
use crate::walk::{Walk, miss_code, register};
use frit_abi::DType;
use frit_abi::matrix::Runner;
use frit_uop::{Arg, Op, UOp};
use std::fmt::Write;

/// The place of an access, and the registers that it moves.
struct Access {
    is_local: bool,
    base: Operand,
    offset: i64,
    dtype: DType,
    lanes: usize,
    gate: Option<Operand>,
}

impl Access {
    fn bytes(&self) -> usize {
        self.lanes * self.dtype.size()
    }
    /// The type of what is moved, of which there are so many, each in a register of a class.
    fn units(&self) -> (&'static str, usize, Class) {
        let d = self.dtype;
        match (d.size(), self.bytes()) {
            (8, n) => ("b64", n / 8, Class::Long),
            (_, n) if n >= 4 => ("b32", n / 4, Class::Word),
            (1, 2) => ("u16", 1, Class::Word),
            (2, _) if is_half(d) => ("b16", 1, Class::Half),
            (2, _) => (if is_signed(d) { "s16" } else { "u16" }, 1, Class::Word),
            _ => (if is_signed(d) { "s8" } else { "u8" }, 1, Class::Word),
        }
    }
    fn form(&self, verb: &str) -> String {
        let space = if self.is_local { "shared" } else { "global" };
        let (t, n, _) = self.units();
        if n == 1 { format!("{verb}.{space}.{t}") } else { format!("{verb}.{space}.v{n}.{t}") }
    }
    /// Its address, as instructions take it.
    fn place(&self) -> String {
        match self.offset {
            0 => format!("[{}]", self.base),
            o => format!("[{}+{o}]", self.base),
        }
    }
    /// Whether a register that is moved is the value of one lane.
    fn is_whole(&self) -> bool {
        self.lanes == 1 || self.dtype.size() >= 4
    }
}

impl Writer<'_> {
    fn access(&mut self, n: &UOp, dtype: DType, lanes: usize) -> Result<Access, Error> {
        let gate = n.gate().map(|g| self.truth(g)).transpose()?;
        if let Some(code) = miss_code(n) {
            let Some(p) = gate else {
                return Err(self.malformed(format!("{n:?} is checked but has no gate")));
            };
            let status = self.pointer("status");
            _ = writeln!(self.body, "  @!{p} st.global.b32 [{status}], {code};");
        }
        self.access_at(n, &n.src[0], dtype, lanes, gate)
    }
    fn access_at(
        &mut self,
        n: &UOp,
        address: &UOp,
        dtype: DType,
        lanes: usize,
        gate: Option<Operand>,
    ) -> Result<Access, Error> {
        if address.op != Op::Index || address.src.len() != 2 || matches!(address.arg, Arg::Tile { .. }) {
            return Err(self.malformed(format!("{address:?} is not an address in a buffer")));
        }
        let (m, idx) = (self.memory_of(address)?, &address.src[1]);
        if idx.lanes() > 1 {
            return Err(self.malformed(format!("{n:?} has an address for each lane")));
        }
        self.check_lanes(n, lanes)?;
        let (size, bytes) = (dtype.size(), lanes * dtype.size());
        if bytes > self.target.vector_access_bytes.max(size) {
            let message = format!("an access of {bytes} bytes, {} allowed", self.target.vector_access_bytes);
            return Err(self.limit(message));
        }
        let (rest, constant) = parts(idx);
        let mut offset = constant * size as i64;
        let base = match (rest, m.arg.clone()) {
            (rest, Arg::Param { slot, .. }) => {
                let slot = slot as usize;
                self.align[slot] = self.align[slot].max(bytes);
                match rest {
                    Some(rest) => self.global_place(&m, rest, slot)?,
                    None => self.pointer(&format!("p{slot}")),
                }
            }
            (Some(rest), _) => self.local_place(&m, rest)?,
            (None, _) => {
                offset += self.local[&m] as i64;
                self.local_base()
            }
        };
        Ok(Access { is_local: !matches!(m.arg, Arg::Param { .. }), base, offset, dtype, lanes, gate })
    }
    /// The address that a parameter holds.
    fn pointer(&mut self, name: &str) -> Operand {
        let generic = self.uniform(Class::Long, "ld.param.b64", &format!("[{name}]"));
        self.uniform(Class::Long, "cvta.to.global.u64", &generic.to_string())
    }
    fn local_base(&mut self) -> Operand {
        self.uniform(Class::Word, "mov.b32", "local")
    }
    fn global_place(&mut self, m: &UOp, idx: &UOp, slot: usize) -> Result<Operand, Error> {
        let key = (m.clone(), idx.clone());
        if let Some(&o) = self.places.get(&key) {
            return Ok(o);
        }
        let (base, i) = (self.pointer(&format!("p{slot}")), self.index(idx)?);
        let form = if Class::of(idx.dtype) == Class::Long { "mad.lo.s64" } else { "mad.wide.s32" };
        let o = self.make(Class::Long, form, &[i, Operand::Int(m.dtype.size() as i64), base]);
        self.remember_place(key, o);
        Ok(o)
    }
    fn local_place(&mut self, m: &UOp, idx: &UOp) -> Result<Operand, Error> {
        let key = (m.clone(), idx.clone());
        if let Some(&o) = self.places.get(&key) {
            return Ok(o);
        }
        let (mut base, mut i) = (self.local_base(), self.index(idx)?);
        if Class::of(idx.dtype) == Class::Long {
            i = self.make(Class::Word, "cvt.u32.u64", &[i]);
        }
        if self.local[m] > 0 {
            base = self.uniform(Class::Word, "add.s32", &format!("{base}, {}", self.local[m]));
        }
        let o = self.make(Class::Word, "mad.lo.s32", &[i, Operand::Int(m.dtype.size() as i64), base]);
        self.remember_place(key, o);
        Ok(o)
    }
    fn index(&mut self, idx: &UOp) -> Result<Operand, Error> {
        let v = self.value(idx)?;
        Ok(self.lane(&v, 0, idx.dtype))
    }

    pub fn load(&mut self, n: &UOp) -> Result<Val, Error> {
        let (d, lanes) = (n.dtype, n.lanes());
        let access = self.access(n, d, lanes)?;
        let (_, count, class) = access.units();
        let regs: Operands = (0..count).map(|_| self.fresh(class)).collect();
        if let Some(alt) = n.alt().filter(|_| access.gate.is_some()) {
            let alt = self.value(alt)?;
            for (&r, v) in regs.iter().zip(self.moved(&alt, &access)) {
                self.emit(mov(class), &[r, v]);
            }
        }
        self.move_registers(&access, "ld", &regs);
        Ok(self.lanes_of(&access, regs))
    }
    pub fn store(&mut self, n: &UOp) -> Result<(), Error> {
        if let Some(variable) = register(n) {
            return self.store_register(n, variable);
        }
        let value = self.value(&n.src[1])?;
        let access = self.access(n, n.src[1].dtype, n.src[0].lanes())?;
        let mut regs = self.moved(&value, &access);
        // the list of a vector store has registers only
        for r in regs.iter_mut().filter(|r| !matches!(r, Operand::Reg(..))) {
            if count_of(&access) > 1 || access.units().2 == Class::Half {
                let class = access.units().2;
                *r = self.uniform(class, mov(class), &r.to_string());
            }
        }
        self.move_registers(&access, "st", &regs);
        Ok(())
    }

    /// A copy in the background; where its gate does not hold nothing is read, and zeros are written.
    pub fn copy_async(&mut self, n: &UOp) -> Result<(), Error> {
        let (d, lanes) = (n.src[0].dtype, n.src[0].lanes());
        let to = self.access_at(n, &n.src[0], d, lanes, None)?;
        let from = self.access_at(n, &n.src[1], d, lanes, None)?;
        if !to.is_local || from.is_local {
            return Err(self.malformed(format!("{n:?} is not from global to local memory")));
        }
        let bytes = to.bytes();
        let form = if bytes == 16 { "cp.async.cg.shared.global" } else { "cp.async.ca.shared.global" };
        let read = match n.src.get(2) {
            Some(gate) => {
                let p = self.truth(gate)?;
                let all = Operand::Int(bytes as i64);
                format!(", {}", self.make(Class::Word, "selp.b32", &[all, Operand::Int(0), p]))
            }
            None => String::new(),
        };
        debug_assert!(super::forms::is_known(form), "{form} is not among the forms");
        _ = writeln!(self.body, "  {form} {}, {}, {bytes}{read};", to.place(), from.place());
        Ok(())
    }

    /// Matrices that the lanes of a warp load from rows in local memory.
    pub fn load_matrix(&mut self, n: &UOp) -> Result<Val, Error> {
        let Arg::Fragment { matrices, transposed } = n.arg else { return Err(self.unsupported(n)) };
        let access = self.access_at(n, &n.src[0], n.dtype, 1, None)?;
        let is_whole = n.dtype.size() == 2 || !transposed;
        if !access.is_local || !is_whole || n.dtype == DType::Bool || !matches!(matrices, 2 | 4) {
            return Err(self.unsupported(n));
        }
        let trans = if transposed { ".trans" } else { "" };
        let form = format!("ldmatrix.sync.aligned.m8n8.x{matrices}{trans}.shared.b16");
        debug_assert!(super::forms::is_known(&form), "{form} is not among the forms");
        let regs: Operands = match self.updated(n) {
            Some(regs) => regs.into(),
            None => (0..matrices).map(|_| self.fresh(Class::Word)).collect(),
        };
        _ = writeln!(
            self.body,
            "  {form} {{{}}}, {};",
            listed(&regs).trim_matches(['{', '}']),
            access.place()
        );
        match n.dtype.size() {
            4 => Ok(Val::Lanes(regs)),
            2 if is_half(n.dtype) => Ok(Val::Pairs(regs)),
            1 => Ok(Val::Quads(regs)),
            _ => Err(self.unsupported(n)),
        }
    }

    /// The registers of a matrix unit's factor: as many elements in each as there is room for.
    fn factor(&mut self, n: &UOp, lanes: usize) -> Result<Operands, Error> {
        let (v, d) = (self.value(n)?, n.dtype);
        Ok(match (d.size(), &v) {
            (1, Val::Quads(regs)) => regs.clone(),
            (2, _) => self.pairs(&v, lanes, d),
            (size, _) => {
                // a fragment is a factor of many operations: it is rounded once
                if let Some(regs) = self.rounded.get(n) {
                    return Ok(regs.clone());
                }
                let each: Operands = (0..lanes).map(|k| self.lane(&v, k, d).as_bits()).collect();
                let words: Operands = each.chunks(4 / size).map(|c| self.joined(c, d)).collect();
                if d != DType::F32 {
                    return Ok(words);
                }
                let round = |w: Operand| self.make(Class::Word, "cvt.rna.tf32.f32", &[w]);
                let regs = words.into_iter().map(round).collect();
                self.remember_rounded(n, &regs);
                regs
            }
        })
    }

    /// An operation of a matrix unit, whose lanes hold operands as [`frit_abi::matrix`] says.
    pub fn matrix(&mut self, n: &UOp, unit: &str) -> Result<Val, Error> {
        let unit = self.target.unit(unit).filter(|u| matches!(u.runner, Runner::Warp(_)));
        let Some(unit) = unit.copied() else { return Err(self.unsupported(n)) };
        let [rows, columns, depth] = unit.size;
        let [a, b] = unit.operands;
        let (t, u, s) = (types::operand_name(a), types::operand_name(b), types::name(unit.accumulator));
        let form = format!("mma.sync.aligned.m{rows}n{columns}k{depth}.row.col.{s}.{t}.{u}.{s}");
        debug_assert!(super::forms::is_known(&form), "{form} is not among the forms");
        let mut lists = vec![];
        for (o, src) in n.src.iter().enumerate() {
            let regs: Operands = match o {
                0 | 1 => self.factor(src, unit.held(o))?,
                _ => {
                    let v = self.value(src)?;
                    (0..unit.held(o)).map(|lane| self.lane(&v, lane, src.dtype).as_bits()).collect()
                }
            };
            // it takes no constants
            let register = |x: Operand| match x {
                Operand::Int(c) => self.uniform(Class::Word, "mov.b32", &c.to_string()),
                r => r,
            };
            lists.push(listed(&regs.into_iter().map(register).collect::<Operands>()));
        }
        let to: Operands = match self.updated(n) {
            Some(regs) => regs.into(),
            None => (0..unit.held(2)).map(|_| self.fresh(Class::Word)).collect(),
        };
        _ = writeln!(self.body, "  {form} {}, {};", listed(&to), lists.join(", "));
        Ok(Val::Lanes(to))
    }

    /// The access itself.
    fn move_registers(&mut self, access: &Access, verb: &str, regs: &[Operand]) {
        let form = access.form(verb);
        debug_assert!(super::forms::is_known(&form), "{form} is not among the forms");
        let (place, list) = (access.place(), listed(regs));
        self.body.push_str("  ");
        if let Some(p) = access.gate {
            _ = write!(self.body, "@{p} ");
        }
        _ = match verb {
            "ld" => writeln!(self.body, "{form} {list}, {place};"),
            _ => writeln!(self.body, "{form} {place}, {list};"),
        };
    }
    /// `mov` between a register and those that are its parts.
    pub fn braced(&mut self, form: &str, parts: &[Operand; 2], whole: Operand, apart: bool) {
        let [lo, hi] = parts;
        _ = match apart {
            true => writeln!(self.body, "  {form} {{{lo}, {hi}}}, {whole};"),
            false => writeln!(self.body, "  {form} {whole}, {{{lo}, {hi}}};"),
        };
    }

    /// One of several narrow lanes in a register.
    pub fn part(&mut self, word: Operand, k: usize, d: DType) -> Operand {
        let bits = d.bits() as i64;
        let form = if is_signed(d) { "bfe.s32" } else { "bfe.u32" };
        self.make(Class::Word, form, &[word, Operand::Int(k as i64 * bits), Operand::Int(bits)])
    }

    /// The value that was loaded into registers.
    fn lanes_of(&mut self, access: &Access, regs: Operands) -> Val {
        let d = access.dtype;
        let lanes: Operands = match (access.is_whole(), is_half(d)) {
            (true, _) => regs,
            (false, true) => return Val::Pairs(regs),
            (false, false) if d.size() == 1 && d != DType::Bool => return Val::Quads(regs),
            (false, false) => {
                let per = 4 / d.size();
                (0..access.lanes).map(|k| self.part(regs[k / per], k % per, d)).collect()
            }
        };
        if d != DType::Bool {
            return Val::Lanes(lanes);
        }
        // a byte that is not 0 is true
        Val::Lanes(
            lanes.into_iter().map(|o| self.make(Class::Pred, "setp.ne.s32", &[o, Operand::Int(0)])).collect(),
        )
    }
    /// The registers (or constants, as bits) that an access moves for a value.
    fn moved(&mut self, v: &Val, access: &Access) -> Operands {
        let d = access.dtype;
        if !access.is_whole() && is_half(d) {
            return self.pairs(v, access.lanes, d);
        }
        if let (Val::Quads(regs), 1) = (v, d.size()) {
            return regs.clone();
        }
        let mut lanes = Operands::new();
        for k in 0..access.lanes {
            let o = match (d, v) {
                (DType::Bool, Val::Lanes(l)) if matches!(l[k.min(l.len() - 1)], Operand::Int(_)) => {
                    l[k.min(l.len() - 1)]
                }
                (DType::Bool, _) => {
                    let p = self.lane(v, k, d);
                    self.cast_bool(p)
                }
                _ => self.lane(v, k, d),
            };
            lanes.push(o.as_bits());
        }
        if access.is_whole() {
            return lanes;
        }
        let per = (4 / d.size()).min(access.lanes);
        lanes.chunks(per).map(|c| self.joined(c, d)).collect()
    }
    /// Several narrow lanes in one register.
    pub fn joined(&mut self, lanes: &[Operand], d: DType) -> Operand {
        let bits = d.bits() as i64;
        let constants: Option<Vec<i64>> = lanes
            .iter()
            .map(|o| if let Operand::Int(c) = o { Some(c & ((1 << bits) - 1)) } else { None })
            .collect();
        if let Some(all) = constants {
            return Operand::Int(all.iter().rev().fold(0, |word, c| word << bits | c));
        }
        let mut word = lanes[0];
        for (k, &lane) in lanes.iter().enumerate().skip(1) {
            // the bits of a lane above its own are those of the next, or nothing's
            word = self.make(
                Class::Word,
                "bfi.b32",
                &[lane, word, Operand::Int(k as i64 * bits), Operand::Int(32 - k as i64 * bits)],
            );
        }
        word
    }
}

/// Registers as a vector's instructions take them.
fn listed(regs: &[Operand]) -> String {
    let list: Vec<String> = regs.iter().map(|r| r.to_string()).collect();
    if regs.len() > 1 { format!("{{{}}}", list.join(", ")) } else { list.concat() }
}

fn count_of(access: &Access) -> usize {
    access.units().1
}
