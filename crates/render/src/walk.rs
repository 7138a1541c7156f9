//! What every writer asks of the program it walks: its errors, how wide values are, which memory an access is to.

use crate::{Error, Shown};
use frit_abi::{DType, Param, Target};
use frit_uop::{Arg, Linear, Op, Space, UOp};

/// A walk over a program for a target.
pub trait Walk {
    /// The program and the target.
    fn program(&self) -> (&Linear, &Target);
    /// The most lanes of a vector.
    fn most_lanes(&self) -> usize {
        usize::MAX
    }
    /// A fault of codegen.
    fn malformed(&self, message: impl Into<String>) -> Error {
        Error::Malformed { kernel: self.program().0.name.to_string(), message: message.into() }
    }
    /// An operation on a type that the target lacks.
    fn lacks(&self, op: Op, dtype: DType) -> Error {
        let (linear, target) = self.program();
        Error::Unsupported { kernel: linear.name.to_string(), op, dtype, target: target.name.clone() }
    }
    /// The operation of a node that the target lacks, on the type of its value, or of what it stores.
    fn unsupported(&self, n: &UOp) -> Error {
        let stored = n.src.first().map_or(n.dtype, |s| s.dtype);
        self.lacks(n.op, if n.dtype == DType::Void { stored } else { n.dtype })
    }
    /// How many lanes one register, or one vector of the language, holds of a value.
    fn part_lanes(&self, d: DType, lanes: usize) -> usize {
        lanes.min((self.program().1.vector_bytes.max(16) / d.size().max(1)).max(1))
    }
    /// Vectors have a power of two of lanes.
    fn check_lanes(&self, n: &UOp, lanes: usize) -> Result<(), Error> {
        match lanes.is_power_of_two() && lanes <= self.most_lanes() {
            true => Ok(()),
            false => Err(self.malformed(format!("{lanes} lanes in {n:?}: a vector has a power of two"))),
        }
    }
}

/// The memory an address is in, through `After`.
pub fn memory(mut n: &UOp) -> &UOp {
    while matches!(n.op, Op::After | Op::Index) {
        n = &n.src[0];
    }
    n
}

/// The register variable that a load or store names, if it is one.
pub fn register(access: &UOp) -> Option<&UOp> {
    let m = memory(&access.src[0]);
    matches!(m.arg, Arg::Define { space: Space::Reg, .. }).then_some(m)
}

/// What an access at a place that comes from data writes to the status word where it misses.
pub fn miss_code(access: &UOp) -> Option<u32> {
    if let Arg::Site(site) = access.arg { Some(site + 1) } else { None }
}

/// A kernel's parameters: buffers, then variables.
pub fn params(linear: &Linear) -> Vec<Param> {
    let buffers = linear.params.iter().zip(&linear.written).map(|(p, &written)| {
        let len = if let Arg::Param { len, .. } = p.arg { len } else { 0 };
        Param::Buffer { dtype: p.dtype, len, written, align: p.dtype.size().max(1) }
    });
    let vars = linear.vars.iter().map(|v| Param::Var { name: var_name(v).into() });
    buffers.chain(vars).collect()
}

/// The name of a `Variable`.
pub fn var_name(v: &UOp) -> &str {
    if let Arg::Var { name, .. } = &v.arg { name } else { "" }
}

/// A kernel's name as languages take it.
pub fn identifier(name: &str) -> String {
    let s: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if s.starts_with(|c: char| c.is_ascii_alphabetic()) { s } else { format!("k_{s}") }
}

/// The steps that the lines of a text are for, while it grows.
#[derive(Default)]
pub struct Lines {
    steps: Vec<u32>,
    /// Bytes of the text that are counted.
    seen: usize,
}

impl Lines {
    /// Lines that the text has since it was counted last are for this step.
    pub fn count(&mut self, text: &str, step: u32) {
        self.steps.resize(self.steps.len() + text[self.seen..].matches('\n').count(), step);
        self.seen = text.len();
    }
    /// The steps of a whole text, in which these come after what is `before` them, and others after those.
    pub fn within(before: &str, all: &[&Lines], whole: &str) -> Vec<u32> {
        let mut steps = vec![0; before.matches('\n').count()];
        all.iter().for_each(|lines| steps.extend(&lines.steps));
        steps.resize(whole.matches('\n').count(), 0);
        steps
    }
}

/// A text, and for each of its lines the step that it is for.
pub struct Source<'a, T>(pub &'a T, pub Vec<u32>);

impl<T: std::fmt::Display> std::fmt::Display for Source<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: std::fmt::Display> Shown for Source<'_, T> {
    fn steps(&self) -> Vec<u32> {
        self.1.clone()
    }
}
