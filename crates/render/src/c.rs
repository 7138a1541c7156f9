//! Linear program -> C, for gcc and clang with vector extensions.
//!
//! ```text
//! Open(r) Do(Load(Index(p1, r))) Do(Store(Index(p0, r), ..)) Close(r)
//!     ->  for (i32 i0 = 0; i0 < 16; i0++) { p0[i0] = p1[i0] * 2.0f; }
//! ```
//!
//! The entry point follows the CPU convention of `abi::kernel`. The source includes nothing and calls nothing that is
//! not inlined.
//!
//! **Flags it relies on**: `-O2 -ffp-contract=off -fwrapv -fno-strict-aliasing -fno-math-errno -fno-trapping-math`, and
//! the machine's instruction set (`-march=native`); with less than SSE4.1 and FMA it is right only if the target does
//! not offer `MulAcc`. No `restrict`: two parameters may be one buffer. Loads happen where the program says, so that
//! costs nothing: accumulators are locals, not memory.
//!
//! **Vectors.** A value of `w` lanes is a `f32x16` and the like. Where it is wider than the machine's vectors
//! (`float64` beside `float32` in one kernel) it is several C values, its *parts*: `v3_0`, `v3_1`.
//!
//! **Truth values.** A scalar is a `b8`, 0 or 1. A vector of them is a mask, 0 or -1 in each lane, as wide as what was
//! compared to make it (bytes when loaded, 32 bits in a register variable), converted where a user needs another width.
//!
//! **Small floats** are their bits: they can be moved, selected and bitcast; codegen decomposes what computes.

mod expr;
mod prelude;

use crate::Error;
use expr::Val;
use frit_abi::{Code, DType, Kernel, Target};
use frit_uop::{Arg, Linear, Op, Space, Step, UOp};
use prelude::{Prelude, mask, scalar};
use rustc_hash::{FxHashMap, FxHashSet};

/// Expressions longer than this get a name of their own.
const MAX_INLINE: usize = 90;

/// The program as C source.
pub fn render(linear: &Linear, target: &Target) -> Result<Kernel, Error> {
    let mut w = Writer {
        linear,
        target,
        prelude: Prelude::default(),
        body: String::new(),
        depth: 1,
        values: FxHashMap::default(),
        inline: inlinable(linear),
        names: 0,
    };
    let scratch = w.open_kernel()?;
    for step in &linear.steps {
        match step {
            Step::Do(n) => w.perform(n)?,
            Step::Open(r) => w.open(r)?,
            Step::Close(_) => {
                w.depth = w.depth.saturating_sub(1).max(1);
                w.line("}");
            }
            Step::Prefetch(at, ahead) => w.prefetch(at, *ahead)?,
        }
    }
    w.prelude.ty(DType::I64, 1);
    w.prelude.ty(DType::U32, 1);
    let source = format!(
        "{}void {}(void **bufs, const i64 *vars, void *scratch, u32 *status, i64 begin, i64 end) {{\n{}}}\n",
        w.prelude.text(),
        identifier(&linear.name),
        w.body
    );
    Ok(Kernel {
        name: identifier(&linear.name),
        code: Code::C(source),
        params: crate::params(linear),
        scratch,
    })
}

/// A kernel's name as C takes it.
fn identifier(name: &str) -> String {
    let s: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if s.starts_with(|c: char| c.is_ascii_alphabetic()) { s } else { format!("k_{s}") }
}

/// The memory an address is in, through `After`.
fn memory(n: &UOp) -> &UOp {
    let mut n = n;
    while matches!(n.op, Op::After | Op::Index) {
        n = &n.src[0];
    }
    n
}

/// The register variable that a load or store names, if it is one.
fn register(access: &UOp) -> Option<&UOp> {
    let m = memory(&access.src[0]);
    matches!(m.arg, Arg::Define { space: Space::Reg, .. }).then_some(m)
}

/// The values that are written where they are used instead of getting a name: used once, in the same block, and for a
/// load with no store in between that could change what it reads.
fn inlinable(linear: &Linear) -> FxHashSet<UOp> {
    let mut uses: FxHashMap<&UOp, (usize, usize)> = FxHashMap::default(); // count, step of the last use
    let mut block = vec![0; linear.steps.len()];
    let mut current = 0;
    for (at, step) in linear.steps.iter().enumerate() {
        let mut seen = vec![];
        match step {
            Step::Do(n) => seen.extend(n.src.iter()),
            Step::Open(r) => {
                seen.extend(r.src.iter());
                current += 1;
            }
            Step::Close(_) => current += 1,
            Step::Prefetch(at, _) => seen.push(at),
        }
        block[at] = current;
        while let Some(s) = seen.pop() {
            let u = uses.entry(s).or_default();
            *u = (u.0 + 1, at);
            match s.op {
                // these are not steps: what they use, their user uses
                Op::Index => seen.extend(s.src.iter()),
                Op::After => seen.push(&s.src[0]),
                _ => {}
            }
        }
    }
    // backwards: where a value ends up is where its user ends up
    let (mut end, mut out) = (FxHashMap::default(), FxHashSet::default());
    for (at, step) in linear.steps.iter().enumerate().rev() {
        let Step::Do(n) = step else { continue };
        let Some(&(1, user_at)) = uses.get(n) else { continue };
        let Step::Do(user) = &linear.steps[user_at] else { continue };
        let to = end.get(user).copied().unwrap_or(user_at);
        let between = |f: &dyn Fn(&UOp) -> bool| {
            linear.steps[at + 1..to].iter().any(|s| matches!(s, Step::Do(m) if m.op == Op::Store && f(m)))
        };
        let free = block[at] == block[to]
            && match n.op {
                Op::Load if n.src.len() > 1 => false,
                Op::Load => match register(n) {
                    Some(r) => !between(&|m| register(m) == Some(r)),
                    None => !between(&|m| register(m).is_none()),
                },
                o => o.is_elementwise() || matches!(o, Op::Lane),
            };
        if free {
            out.insert(n.clone());
            end.insert(n.clone(), to);
        }
    }
    out
}

struct Writer<'a> {
    linear: &'a Linear,
    target: &'a Target,
    prelude: Prelude,
    body: String,
    depth: usize,
    values: FxHashMap<UOp, Val>,
    inline: FxHashSet<UOp>,
    names: usize,
}

impl Writer<'_> {
    fn line(&mut self, text: impl AsRef<str>) {
        self.body.extend(std::iter::repeat_n("  ", self.depth));
        self.body += text.as_ref();
        self.body.push('\n');
    }
    fn malformed(&self, message: impl Into<String>) -> Error {
        Error::Malformed { kernel: self.linear.name.to_string(), message: message.into() }
    }
    fn unsupported(&self, n: &UOp) -> Error {
        let dtype = if n.dtype == DType::Void { n.src.first().map_or(n.dtype, |s| s.dtype) } else { n.dtype };
        Error::Unsupported {
            kernel: self.linear.name.to_string(),
            op: n.op,
            dtype,
            target: self.target.name.clone(),
        }
    }
    /// How many lanes one C value of `lanes` elements of a type has.
    fn part_lanes(&self, d: DType, lanes: usize) -> usize {
        lanes.min((self.target.vector_bytes.max(16) / d.size().max(1)).max(1))
    }

    /// Parameters, variables, local arrays and register variables; gives the bytes of scratch.
    fn open_kernel(&mut self) -> Result<usize, Error> {
        for (slot, p) in self.linear.params.iter().enumerate() {
            let (t, c) = (self.prelude.ty(p.dtype, 1), if self.linear.written[slot] { "" } else { "const " });
            self.line(format!("{c}{t} *p{slot} = bufs[{slot}];"));
            self.values.insert(p.clone(), Val::scalar(format!("p{slot}"), p.dtype));
        }
        for (i, v) in self.linear.vars.iter().enumerate() {
            let (t, name) = (self.prelude.ty(v.dtype, 1), format!("n{i}"));
            self.line(format!("{t} {name} = ({t})vars[{i}]; // {}", identifier(crate::var_name(v))));
            self.values.insert(v.clone(), Val::scalar(name, v.dtype));
        }
        let mut scratch = 0usize;
        for d in &self.linear.defines {
            let Arg::Define { space, id, len } = d.arg else {
                return Err(self.malformed(format!("{d:?} among the defines")));
            };
            if space == Space::Reg {
                self.register_variable(d, id, len)?;
                continue;
            }
            let t = self.prelude.ty(d.dtype, 1);
            self.line(format!("{t} *tmp{id} = ({t} *)((char *)scratch + {scratch});"));
            self.values.insert(d.clone(), Val::scalar(format!("tmp{id}"), d.dtype));
            scratch += (len * d.dtype.size()).next_multiple_of(64);
        }
        Ok(scratch)
    }
    fn register_variable(&mut self, d: &UOp, id: u32, len: usize) -> Result<(), Error> {
        let elem = if d.dtype == DType::Bool && len > 1 { DType::I32 } else { d.dtype };
        self.check_lanes(d, len)?;
        let per = self.part_lanes(elem, len);
        let names: Vec<String> = match len / per {
            1 => vec![format!("acc{id}")],
            n => (0..n).map(|k| format!("acc{id}_{k}")).collect(),
        };
        let t = self.prelude.ty(elem, per);
        self.line(format!("{t} {};", names.join(", ")));
        self.values.insert(d.clone(), Val { parts: names, elem, lanes: len, atomic: true });
        Ok(())
    }
    fn check_lanes(&self, n: &UOp, lanes: usize) -> Result<(), Error> {
        if lanes.is_power_of_two() {
            return Ok(());
        }
        Err(self.malformed(format!("{lanes} lanes in {n:?}: a vector has a power of two")))
    }

    fn open(&mut self, r: &UOp) -> Result<(), Error> {
        let Some(arg) = r.range_arg() else { return Err(self.malformed(format!("{r:?} opened as a loop"))) };
        let (t, i) = (self.prelude.ty(r.dtype, 1), format!("i{}", arg.id));
        let text = if self.linear.thread.as_ref() == Some(r) {
            format!("for ({t} {i} = ({t})begin; {i} < ({t})end; {i}++) {{")
        } else {
            let extent = self.operand(&r.src[0])?;
            format!("for ({t} {i} = 0; {i} < {}; {i}++) {{", extent.atom(0))
        };
        self.line(text);
        self.depth += 1;
        self.values.insert(r.clone(), Val::scalar(i, r.dtype));
        Ok(())
    }

    fn perform(&mut self, n: &UOp) -> Result<(), Error> {
        match n.op {
            Op::Store => self.store(n),
            Op::Load => {
                let v = self.load(n)?;
                self.keep(n, v)
            }
            Op::Stack | Op::Lane | Op::Shuffle => {
                let v = self.shaped(n)?;
                self.keep(n, v)
            }
            o if o.is_elementwise() => {
                self.check_lanes(n, n.lanes())?;
                let v = self.elementwise(n)?;
                self.keep(n, v)
            }
            Op::End | Op::Sink | Op::After => Ok(()),
            _ => Err(self.unsupported(n)),
        }
    }
    /// Remember a value: as an expression if it is used once and short, else under a name.
    fn keep(&mut self, n: &UOp, v: Val) -> Result<(), Error> {
        if self.inline.contains(n) && v.parts.len() == 1 && v.parts[0].len() < MAX_INLINE {
            self.values.insert(n.clone(), v);
            return Ok(());
        }
        let t = self.prelude.ty(v.elem, v.per_part());
        let name = format!("v{}", self.names);
        self.names += 1;
        let names: Vec<String> = match v.parts.len() {
            1 => vec![name],
            k => (0..k).map(|i| format!("{name}_{i}")).collect(),
        };
        for (name, part) in names.iter().zip(&v.parts) {
            self.line(format!("{t} {name} = {part};"));
        }
        self.values.insert(n.clone(), Val { parts: names, atomic: true, ..v });
        Ok(())
    }

    /// A pointer expression for an address, and its index.
    fn address(&mut self, index: &UOp) -> Result<(String, UOp), Error> {
        if index.op != Op::Index || index.src.len() != 2 {
            return Err(self.malformed(format!("{index:?} is not an address in a buffer")));
        }
        let m = memory(index);
        let Some(base) = self.values.get(m) else {
            return Err(self.malformed(format!("{m:?} is not among the parameters or defines")));
        };
        Ok((base.parts[0].clone(), index.src[1].clone()))
    }
    /// Ask for the line that is `ahead` bytes after an address.
    fn prefetch(&mut self, at: &UOp, ahead: i32) -> Result<(), Error> {
        let (base, idx) = self.address(at)?;
        let i = self.operand(&idx)?;
        // as a number: a pointer may not leave its array
        let place = format!("(__UINTPTR_TYPE__)({}) + {ahead}", Self::pointer(&base, &i, 0));
        self.line(format!("__builtin_prefetch((void *)({place}));"));
        Ok(())
    }
    /// `p + i`, `p` for index 0.
    fn pointer(base: &str, idx: &Val, offset: usize) -> String {
        match (idx.parts[0].as_str(), offset) {
            ("0" | "0ll", 0) => base.into(),
            ("0" | "0ll", k) => format!("{base} + {k}"),
            (_, 0) => format!("{base} + {}", idx.parts[0]),
            (_, k) => format!("{base} + {} + {k}", idx.parts[0]),
        }
    }
    /// Where the gate of an access with a site is false, say so in the status word.
    fn report_miss(&mut self, n: &UOp, gate: &Val) {
        let Arg::Site(site) = n.arg else { return };
        let missed: Vec<String> = match gate.lanes {
            1 => vec![format!("!{}", gate.atom(0))],
            w => (0..w).map(|k| format!("!{}", gate.lane(k))).collect(),
        };
        self.line(format!("if ({}) *status = {};", missed.join(" | "), site + 1));
    }
    /// The gate with a name, since it is used more than once.
    fn gate(&mut self, n: &UOp) -> Result<Option<Val>, Error> {
        let Some(g) = n.gate() else { return Ok(None) };
        let v = self.operand(g)?;
        if matches!(n.arg, Arg::Site(_)) && v.parts.iter().any(|p| p.len() > 8) {
            self.inline.remove(g);
            self.keep(g, v)?;
            return Ok(Some(self.values[g].clone()));
        }
        Ok(Some(v))
    }

    fn load(&mut self, n: &UOp) -> Result<Val, Error> {
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
    fn load_part(&mut self, p: &str, d: DType, per: usize, gate: Option<(&str, &str)>) -> String {
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
    fn places(address: &UOp, base: &str, i: &Val) -> Option<Vec<String>> {
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
    fn gather(&mut self, n: &UOp, places: &[String], gate: Option<Val>, alt: Option<Val>) -> Val {
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

    fn store(&mut self, n: &UOp) -> Result<(), Error> {
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
