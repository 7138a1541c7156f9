//! A module's text -> its entries.

use super::forms::{self, Form, Rows};
use super::operand::{Names, SHARED_BASE};
use super::program::*;
use super::text::{Error, Tokens};
use crate::run::regs::{Class, Kind};
use std::collections::HashMap;
use std::sync::LazyLock;

/// The entries of a module.
pub fn decode(text: &str) -> Result<Vec<Program>, Error> {
    let mut t = Tokens::new(text);
    let mut module = Module::default();
    let mut entries = vec![];
    while t.peek().is_some() {
        match t.word()? {
            ".version" => module.version(&mut t)?,
            ".target" => module.target(&mut t)?,
            ".address_size" if t.take("64") => {}
            ".extern" => module.dynamic = Some(dynamic_shared(&mut t)?),
            ".visible" => entries.push(Entry::new(&module).decode(&mut t)?),
            other => return Err(t.error(format!("unknown directive '{other}'"))),
        }
    }
    match (module.has_version, module.has_target) {
        (true, true) => Ok(entries),
        _ => Err(t.error("a module begins with .version and .target")),
    }
}

/// Whether an instruction is known.
pub fn is_known(form: &str) -> bool {
    FORMS.contains_key(form)
        || access(form).is_some()
        || shuffle(form).is_some()
        || matches!(form, "ld.param.b32" | "ld.param.b64" | "bra" | "bar.sync" | "ret")
        || form == "griddepcontrol.wait"
        || COPIES.contains(&form)
        || fragments(form).is_some()
        || factors(form).is_some()
}

#[derive(Default)]
struct Module {
    has_version: bool,
    has_target: bool,
    /// The name of the array whose size a launch says.
    dynamic: Option<String>,
}

impl Module {
    fn version(&mut self, t: &mut Tokens) -> Result<(), Error> {
        let version = t.word()?;
        self.has_version =
            version.split('.').next().and_then(|v| v.parse().ok()).is_some_and(|v: u32| v <= 9);
        if self.has_version { Ok(()) } else { Err(t.error(format!("unsupported version '{version}'"))) }
    }
    fn target(&mut self, t: &mut Tokens) -> Result<(), Error> {
        let target = t.word()?;
        self.has_target = matches!(target, "sm_80" | "sm_86" | "sm_89" | "sm_90" | "sm_90a");
        if self.has_target { Ok(()) } else { Err(t.error(format!("this device does not run '{target}'"))) }
    }
}

/// `.shared .align 16 .b8 name[` and its size, if it says one.
fn shared(t: &mut Tokens) -> Result<(String, Option<u32>), Error> {
    t.expect(".align")?;
    let align = t.count()?;
    if !align.is_power_of_two() || align > 16 {
        return Err(t.error(format!("shared memory aligned to {align}")));
    }
    t.expect(".b8")?;
    let name = t.word()?.to_string();
    t.expect("[")?;
    let size = if t.peek() == Some("]") { None } else { Some(t.count()?) };
    t.expect("]")?;
    t.expect(";")?;
    Ok((name, size))
}

fn dynamic_shared(t: &mut Tokens) -> Result<String, Error> {
    t.expect(".shared")?;
    match shared(t)? {
        (name, None) => Ok(name),
        (name, _) => Err(t.error(format!("{name} is extern but has a size"))),
    }
}

/// An entry that is being decoded.
struct Entry {
    names: Names,
    dynamic: Option<String>,
    program: Program,
    labels: HashMap<String, u32>,
    /// Branches, to be resolved when all labels are known.
    branches: Vec<(usize, String)>,
}

impl Entry {
    fn new(module: &Module) -> Entry {
        let program = Program {
            name: String::new(),
            params: vec![],
            static_shared: 0,
            is_dynamic: module.dynamic.is_some(),
            block: None,
            counts: [0; 4],
            given: vec![],
            code: vec![],
        };
        let dynamic = module.dynamic.clone();
        Entry { names: Names::default(), dynamic, program, labels: HashMap::new(), branches: vec![] }
    }
    fn decode(mut self, t: &mut Tokens) -> Result<Program, Error> {
        t.expect(".entry")?;
        self.program.name = t.word()?.into();
        t.expect("(")?;
        while !t.take(")") {
            self.param(t)?;
        }
        if t.take(".reqntid") {
            let x = t.count()?;
            let mut next = || if t.take(",") { t.count() } else { Ok(1) };
            self.program.block = Some([x, next()?, next()?]);
        }
        // a wish to the assembler
        if t.take(".minnctapersm") {
            t.count()?;
        }
        if let Some(name) = self.dynamic.take() {
            self.names.shared.insert(name, SHARED_BASE);
        }
        t.expect("{")?;
        while !t.take("}") {
            self.statement(t)?;
        }
        for (at, label) in &self.branches {
            let inst = &mut self.program.code[*at];
            let to = self.labels.get(label);
            let to = to.ok_or(Error { line: inst.line, message: format!("unknown label '{label}'") })?;
            inst.step = Step::Branch(*to);
        }
        if !matches!(self.program.code.last(), Some(Inst { step: Step::Exit, guard: None, .. })) {
            return Err(t.error("the entry does not end with ret"));
        }
        self.program.counts = self.names.counts;
        self.program.given = self.names.given;
        Ok(self.program)
    }
    /// `.param .u64 .ptr .global .align 16 p0`
    fn param(&mut self, t: &mut Tokens) -> Result<(), Error> {
        t.expect(".param")?;
        let bytes = match t.word()? {
            ".u64" | ".s64" | ".b64" => 8,
            ".u32" | ".s32" | ".b32" => 4,
            other => return Err(t.error(format!("parameters of type '{other}'"))),
        };
        let mut align = 1;
        if t.take(".ptr") {
            t.expect(".global")?;
            t.expect(".align")?;
            align = t.count()?.into();
        }
        let name = t.word()?.to_string();
        if !t.take(",") && t.peek() != Some(")") {
            return Err(t.error(format!("'{}' after a parameter", t.peek().unwrap_or("the end"))));
        }
        self.program.params.push(Param { name, bytes, align });
        Ok(())
    }
    fn statement(&mut self, t: &mut Tokens) -> Result<(), Error> {
        if t.peek_at(1) == Some(":") {
            let (label, at) = (t.word()?.to_string(), self.program.code.len() as u32);
            t.expect(":")?;
            return match self.labels.insert(label.clone(), at) {
                None => Ok(()),
                Some(_) => Err(t.error(format!("label '{label}' is there twice"))),
            };
        }
        match t.peek() {
            Some(".reg") => {
                t.word()?;
                self.names.declare(t)
            }
            Some(".shared") => {
                t.word()?;
                let (name, size) = shared(t)?;
                let size = size.ok_or_else(|| t.error(format!("{name} has no size")))?;
                self.names.shared.insert(name, SHARED_BASE + self.program.static_shared);
                self.program.static_shared += size.next_multiple_of(16);
                Ok(())
            }
            _ => self.instruction(t),
        }
    }
    fn instruction(&mut self, t: &mut Tokens) -> Result<(), Error> {
        let line = t.line();
        let guard = match t.take("@") {
            true => {
                let is_not = t.take("!");
                Some(Guard { row: self.names.reg(t, Class::Pred)?, is_not })
            }
            false => None,
        };
        let name = t.word()?;
        let (step, rows) = self.step(t, name).map_err(|e| Error { line, ..e })?;
        t.expect(";").map_err(|e| Error { line, ..e })?;
        self.program.code.push(Inst { step, guard, rows, line });
        Ok(())
    }
    fn step(&mut self, t: &mut Tokens, name: &str) -> Result<(Step, Rows), Error> {
        if name.starts_with("mov.") && (t.peek() == Some("{") || self.is_join(t)) {
            return self.halves(t, name);
        }
        if let Some(form) = FORMS.get(name) {
            return Ok((Step::Compute(form.run), self.operands(t, form)?));
        }
        if let Some((access, is_load)) = access(name) {
            return self.access(t, access, is_load);
        }
        if let Some(mode) = shuffle(name) {
            return self.shuffle(t, mode);
        }
        let none = Rows::default();
        match name {
            "ld.param.b32" | "ld.param.b64" => self.load_param(t, name),
            "bra" => {
                self.branches.push((self.program.code.len(), t.word()?.into()));
                Ok((Step::Branch(0), none))
            }
            "bar.sync" => match t.number()? {
                0 => Ok((Step::Barrier, none)),
                n => Err(t.error(format!("barrier {n}: only 0 is known"))),
            },
            "griddepcontrol.wait" => Ok((Step::Await, none)),
            "ret" => Ok((Step::Exit, none)),
            "cp.async.commit_group" => Ok((Step::Commit, none)),
            "cp.async.wait_group" => match u32::try_from(t.number()?) {
                Ok(n) => Ok((Step::Wait(n), none)),
                Err(_) => Err(t.error("a wait for fewer than no groups")),
            },
            "cp.async.ca.shared.global" | "cp.async.cg.shared.global" => self.copy_async(t, name),
            _ if name.starts_with("ldmatrix.") => self.load_matrix(t, name),
            _ if name.starts_with("mma.") => self.matrix(t, name),
            _ => Err(t.error(format!("unknown instruction '{name}'"))),
        }
    }
    fn operands(&mut self, t: &mut Tokens, form: &Form) -> Result<Rows, Error> {
        let mut rows = Rows { to: self.names.reg(t, form.to.class())?, ..Rows::default() };
        for (row, kind) in rows.from.iter_mut().zip(form.from) {
            t.expect(",")?;
            *row = self.names.operand(t, *kind, form.name.starts_with("mov."))?;
        }
        Ok(rows)
    }
    /// Whether the source of a move is `{low, high}`.
    fn is_join(&self, t: &Tokens) -> bool {
        t.peek_at(2) == Some("{") && t.peek_at(1) == Some(",")
    }
    /// `mov.b32 {%h0, %h1}, %r0` and the other way round.
    fn halves(&mut self, t: &mut Tokens, name: &str) -> Result<(Step, Rows), Error> {
        let (part, whole) = match name {
            "mov.b32" => (Class::Half, Class::Word),
            "mov.b64" => (Class::Word, Class::Long),
            _ => return Err(t.error(format!("{name} of parts"))),
        };
        let mut rows = Rows::default();
        let is_split = t.peek() == Some("{");
        if !is_split {
            rows.to = self.names.reg(t, whole)?;
            t.expect(",")?;
        }
        t.expect("{")?;
        let low = self.names.reg(t, part)?;
        t.expect(",")?;
        let high = self.names.reg(t, part)?;
        t.expect("}")?;
        if is_split {
            t.expect(",")?;
            rows.from[0] = self.names.reg(t, whole)?;
        }
        let parts = Parts { halves: [low, high], is_wide: whole == Class::Long };
        Ok((if is_split { Step::Split(parts) } else { Step::Join(parts) }, rows))
    }
    fn load_param(&mut self, t: &mut Tokens, name: &str) -> Result<(Step, Rows), Error> {
        let (bytes, kind) = if name.ends_with("64") { (8, Kind::Bits(64)) } else { (4, Kind::Bits(32)) };
        let to = self.names.reg(t, kind.class())?;
        t.expect(",")?;
        t.expect("[")?;
        let param = t.word()?;
        t.expect("]")?;
        let at = self.program.params.iter().position(|p| p.name == param);
        let at = at.ok_or_else(|| t.error(format!("unknown parameter '{param}'")))?;
        if self.program.params[at].bytes != bytes {
            return Err(t.error(format!("{param} has {} bytes", self.program.params[at].bytes)));
        }
        let row = self.names.given(kind.class(), Source::Param(at));
        let form = if bytes == 8 { "mov.b64" } else { "mov.b32" };
        Ok((Step::Compute(FORMS[form].run), Rows { to, from: [row, 0, 0, 0] }))
    }
    fn access(&mut self, t: &mut Tokens, mut a: Access, is_load: bool) -> Result<(Step, Rows), Error> {
        let mut rows = Rows::default();
        if is_load {
            self.moved(t, &mut a, true)?;
            t.expect(",")?;
        }
        (rows.from[0], a.offset) = self.address(t, if a.is_shared { Class::Word } else { Class::Long })?;
        if !is_load {
            t.expect(",")?;
            self.moved(t, &mut a, false)?;
        }
        Ok((if is_load { Step::Load(a) } else { Step::Store(a) }, rows))
    }
    /// The registers that an access moves.
    fn moved(&mut self, t: &mut Tokens, a: &mut Access, is_load: bool) -> Result<(), Error> {
        let class = a.unit.class();
        if a.count == 1 {
            let kind = Kind::Bits(if class == Class::Long { 64 } else { 32 });
            a.regs[0] = match is_load || class == Class::Half {
                true => self.names.reg(t, class)?,
                false => self.names.operand(t, kind, false)?,
            };
            return Ok(());
        }
        t.expect("{")?;
        for i in 0..a.count {
            a.regs[i] = self.names.reg(t, class)?;
            t.expect(if i + 1 < a.count { "," } else { "}" })?;
        }
        Ok(())
    }
    /// `{%r0, %r1, ..}`, of 32 bits each.
    fn words<const N: usize>(&mut self, t: &mut Tokens, count: usize) -> Result<[u32; N], Error> {
        let mut rows = [0; N];
        t.expect("{")?;
        for (i, row) in rows[..count].iter_mut().enumerate() {
            *row = self.names.reg(t, Class::Word)?;
            t.expect(if i + 1 < count { "," } else { "}" })?;
        }
        Ok(rows)
    }
    /// `[%r0+16]`: the row of the address, and what is added to it.
    fn address(&mut self, t: &mut Tokens, class: Class) -> Result<(u32, i64), Error> {
        t.expect("[")?;
        let (row, mut offset) = (self.names.reg(t, class)?, 0);
        if t.take("+") {
            let n = t.number()?;
            offset = i32::try_from(n).map_err(|_| t.error(format!("an offset of {n}")))?.into();
        }
        t.expect("]")?;
        Ok((row, offset))
    }
    /// `ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r0, %r1, %r2, %r3}, [%r4]`
    fn load_matrix(&mut self, t: &mut Tokens, name: &str) -> Result<(Step, Rows), Error> {
        let (count, is_transposed) =
            fragments(name).ok_or_else(|| t.error(format!("unknown instruction '{name}'")))?;
        let regs = self.words(t, count)?;
        t.expect(",")?;
        let (row, offset) = self.address(t, Class::Word)?;
        let rows = Rows { from: [row, 0, 0, 0], ..Rows::default() };
        Ok((Step::LoadMatrix(Fragments { count, is_transposed, regs, offset }), rows))
    }
    /// `mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {d..}, {a..}, {b..}, {c..}`
    fn matrix(&mut self, t: &mut Tokens, name: &str) -> Result<(Step, Rows), Error> {
        let factors = factors(name).ok_or_else(|| t.error(format!("unknown instruction '{name}'")))?;
        let d = self.words(t, 4)?;
        t.expect(",")?;
        let a = self.words(t, 4)?;
        t.expect(",")?;
        let b = self.words(t, 2)?;
        t.expect(",")?;
        let c = self.words(t, 4)?;
        Ok((Step::Matrix(Box::new(Matrix { factors, d, a, b, c })), Rows::default()))
    }
    /// `cp.async.cg.shared.global [%r0], [%d0], 16, %r1`
    fn copy_async(&mut self, t: &mut Tokens, name: &str) -> Result<(Step, Rows), Error> {
        let (to, offset) = self.address(t, Class::Word)?;
        t.expect(",")?;
        let (from, from_offset) = self.address(t, Class::Long)?;
        t.expect(",")?;
        let bytes = t.number()?;
        let is_whole = name.contains(".cg.");
        if !matches!((is_whole, bytes), (true, 16) | (false, 4 | 8 | 16)) {
            return Err(t.error(format!("{name} of {bytes} bytes")));
        }
        let mut rows = Rows { from: [from, to, 0, 0], ..Rows::default() };
        let is_partial = t.take(",");
        if is_partial {
            rows.from[2] = self.names.operand(t, Kind::Bits(32), false)?;
        }
        let count = bytes as usize / 4;
        let regs = std::array::from_fn(|_| self.names.scratch(Class::Word));
        let from = Access { is_shared: false, unit: Unit::B32, count, regs, offset: from_offset };
        Ok((Step::CopyAsync(Copy { from, offset, is_partial }), rows))
    }
    /// `shfl.sync.bfly.b32 %r1, %r0, 16, 31, -1`
    fn shuffle(&mut self, t: &mut Tokens, mode: Shuffle) -> Result<(Step, Rows), Error> {
        let mut rows = Rows { to: self.names.reg(t, Class::Word)?, ..Rows::default() };
        for row in &mut rows.from {
            t.expect(",")?;
            *row = self.names.operand(t, Kind::Bits(32), false)?;
        }
        Ok((Step::Shuffle(mode), rows))
    }
}

static FORMS: LazyLock<HashMap<&str, &Form>> = LazyLock::new(|| forms::all().map(|f| (f.name, f)).collect());

/// A load or store by its name; vectors have 8 or 16 bytes.
fn access(name: &str) -> Option<(Access, bool)> {
    let mut parts = name.split('.');
    let is_load = match parts.next()? {
        "ld" => true,
        "st" => false,
        _ => return None,
    };
    let is_shared = match parts.next()? {
        "shared" => true,
        "global" => false,
        _ => return None,
    };
    let mut unit = parts.next()?;
    let mut count = 1;
    if let Some(n) = [("v2", 2), ("v4", 4)].iter().find(|n| n.0 == unit) {
        (count, unit) = (n.1, parts.next()?);
    }
    let unit = Unit::ALL.iter().find(|u| u.0 == unit)?.1;
    let is_known = count == 1 || matches!((unit, count), (Unit::B32, _) | (Unit::B64, 2));
    let access = Access { is_shared, unit, count, regs: [0; 4], offset: 0 };
    (is_known && parts.next().is_none()).then_some((access, is_load))
}

/// What copies in the background.
const COPIES: [&str; 4] = [
    "cp.async.ca.shared.global",
    "cp.async.cg.shared.global",
    "cp.async.commit_group",
    "cp.async.wait_group",
];

/// How many matrices are loaded, and whether by columns.
fn fragments(name: &str) -> Option<(usize, bool)> {
    match name.strip_prefix("ldmatrix.sync.aligned.m8n8.")?.strip_suffix(".shared.b16")? {
        "x2" => Some((2, false)),
        "x4" => Some((4, false)),
        "x2.trans" => Some((2, true)),
        "x4.trans" => Some((4, true)),
        _ => None,
    }
}

/// What an operation of a matrix unit multiplies.
fn factors(name: &str) -> Option<Factors> {
    let halves = |is_brain| Some(Factors::Halves { is_brain });
    match name.strip_prefix("mma.sync.aligned.m16n8")? {
        "k16.row.col.f32.f16.f16.f32" => halves(false),
        "k16.row.col.f32.bf16.bf16.f32" => halves(true),
        "k8.row.col.f32.tf32.tf32.f32" => Some(Factors::Tf32),
        "k32.row.col.s32.s8.s8.s32" => Some(Factors::Bytes([true, true])),
        "k32.row.col.s32.s8.u8.s32" => Some(Factors::Bytes([true, false])),
        "k32.row.col.s32.u8.s8.s32" => Some(Factors::Bytes([false, true])),
        "k32.row.col.s32.u8.u8.s32" => Some(Factors::Bytes([false, false])),
        _ => None,
    }
}

fn shuffle(name: &str) -> Option<Shuffle> {
    match name.strip_prefix("shfl.sync.")?.strip_suffix(".b32")? {
        "bfly" => Some(Shuffle::Bfly),
        "down" => Some(Shuffle::Down),
        "up" => Some(Shuffle::Up),
        "idx" => Some(Shuffle::Idx),
        _ => None,
    }
}
