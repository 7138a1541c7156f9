//! Linear program -> C, and languages like it ([`dialect`]); for a CPU, gcc and clang with vector extensions.
//!
//! ```text
//! Open(r) Do(Load(Index(p1, r))) Do(Store(Index(p0, r), ..)) Close(r)
//!     ->  for (i32 r0 = 0; r0 < 16; r0++) { p0[r0] = p1[r0] * 2.0f; }
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

mod control;
pub mod dialect;
mod memory;
mod prelude;
mod types;
mod values;

use crate::walk::{Lines, Source, Walk, identifier, params, var_name};
use crate::{Error, Watch};
use control::inlinable;
use dialect::{Dialect, Entry};
use frit_abi::{Code, DType, Kernel, Target};
use frit_uop::{Arg, Linear, Space, Step, UOp};
use prelude::Prelude;
use rustc_hash::{FxHashMap, FxHashSet};
use types::Val;

/// The program as C source for a CPU.
pub fn render(linear: &Linear, target: &Target) -> Result<Kernel, Error> {
    render_as(linear, target, &dialect::CPU)
}

/// [`render`], showing the source.
pub fn render_and_watch(linear: &Linear, target: &Target, watch: &mut Watch) -> Result<Kernel, Error> {
    let (kernel, steps) = written(linear, target, &dialect::CPU)?;
    if let Code::C(source) = &kernel.code {
        watch("c", &Source(source, steps));
    }
    Ok(kernel)
}

/// The program as source in a language like C.
pub fn render_as(linear: &Linear, target: &Target, dialect: &Dialect) -> Result<Kernel, Error> {
    written(linear, target, dialect).map(|(kernel, _)| kernel)
}

/// The kernel, and for each line of its source the step that it is for.
fn written(linear: &Linear, target: &Target, dialect: &Dialect) -> Result<(Kernel, Vec<u32>), Error> {
    let mut w = Writer {
        linear,
        target,
        dialect,
        prelude: Prelude::new(dialect),
        head: String::new(),
        body: String::new(),
        depth: 1,
        values: FxHashMap::default(),
        inline: inlinable(linear),
        names: 0,
    };
    let scratch = w.open_kernel()?;
    let mut lines = Lines::default();
    lines.count(&w.body, 0);
    for (i, step) in linear.steps.iter().enumerate() {
        match step {
            Step::Do(n) => w.perform(n)?,
            Step::Open(r) => w.open(r)?,
            Step::Close(_) => {
                w.depth = w.depth.saturating_sub(1).max(1);
                w.line("}");
            }
            Step::Prefetch(at, ahead) => w.prefetch(at, *ahead)?,
        }
        lines.count(&w.body, i as u32 + 1);
    }
    if let Entry::Slice = dialect.entry {
        w.prelude.ty(DType::I64, 1);
        w.prelude.ty(DType::U32, 1);
    }
    let head = format!("{}{} {{\n", w.prelude.text(), w.head);
    let source = format!("{head}{}}}\n", w.body);
    let steps = Lines::within(&head, &[&lines], &source);
    let (name, params) = (identifier(&linear.name), params(linear));
    Ok((Kernel { name, code: Code::C(source), params, scratch }, steps))
}

struct Writer<'a> {
    linear: &'a Linear,
    target: &'a Target,
    dialect: &'a Dialect,
    prelude: Prelude<'a>,
    /// The kernel's signature.
    head: String,
    body: String,
    depth: usize,
    values: FxHashMap<UOp, Val>,
    inline: FxHashSet<UOp>,
    names: usize,
}

impl Walk for Writer<'_> {
    fn program(&self) -> (&Linear, &Target) {
        (self.linear, self.target)
    }
}

impl Writer<'_> {
    fn line(&mut self, text: impl AsRef<str>) {
        self.body.extend(std::iter::repeat_n("  ", self.depth));
        self.body += text.as_ref();
        self.body.push('\n');
    }
    /// Parameters, variables, local arrays and register variables; gives the bytes of scratch.
    fn open_kernel(&mut self) -> Result<usize, Error> {
        let name = identifier(&self.linear.name);
        self.head = match &self.dialect.entry {
            Entry::Slice => format!(
                "void {name}(void **bufs, const i64 *vars, void *scratch, u32 *status, i64 begin, i64 end)"
            ),
            Entry::Grid(grid) => format!("{} {name}({})", grid.kernel, self.grid_params(grid).join(", ")),
        };
        for (slot, p) in self.linear.params.iter().enumerate() {
            if let Entry::Slice = self.dialect.entry {
                let t = self.buffer_type(slot);
                self.line(format!("{t} *p{slot} = bufs[{slot}];"));
            }
            self.values.insert(p.clone(), Val::scalar(format!("p{slot}"), p.dtype));
        }
        for (i, v) in self.linear.vars.iter().enumerate() {
            let (t, name) = (self.prelude.ty(v.dtype, 1), format!("n{i}"));
            if let Entry::Slice = self.dialect.entry {
                self.line(format!("{t} {name} = ({t})vars[{i}]; // {}", identifier(var_name(v))));
            }
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
            match &self.dialect.entry {
                Entry::Slice => self.line(format!("{t} *tmp{id} = ({t} *)((char *)scratch + {scratch});")),
                Entry::Grid(grid) => self.line(format!("{} {t} tmp{id}[{len}];", grid.local)),
            }
            self.values.insert(d.clone(), Val::scalar(format!("tmp{id}"), d.dtype));
            scratch += (len * d.dtype.size()).next_multiple_of(64);
        }
        Ok(scratch)
    }
    fn buffer_type(&mut self, slot: usize) -> String {
        let t = self.prelude.ty(self.linear.params[slot].dtype, 1);
        if self.linear.written[slot] { t } else { format!("const {t}") }
    }
    /// Each parameter by itself, the status word last.
    fn grid_params(&mut self, grid: &dialect::Grid) -> Vec<String> {
        let linear = self.linear;
        let buffer = |slot| format!("{} {} *p{slot}", grid.global, self.buffer_type(slot));
        let mut all: Vec<String> = (0..linear.params.len()).map(buffer).collect();
        let vars = linear.vars.iter().enumerate();
        all.extend(vars.map(|(i, v)| format!("{} n{i}", self.prelude.ty(v.dtype, 1))));
        all.push(format!("{} {} *status", grid.global, self.prelude.ty(DType::U32, 1)));
        all
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
}
