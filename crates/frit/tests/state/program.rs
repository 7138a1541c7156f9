//! Random programs as data, printed as something a person can read and type.

use crate::number::Fun;
use frit::DType;
use std::fmt;

/// The name of a tensor, of a lent copy or of a Jit; never used twice in a program.
pub type Id = u32;

#[derive(Clone, Debug)]
pub struct Program {
    pub device: &'static str,
    /// Whether the tensors that are left at the end are read in the order they were made, or the last one first.
    pub forwards: bool,
    pub steps: Vec<Step>,
}

/// One step; what it makes is called `out`, and the numbers after that.
#[derive(Clone, Debug)]
pub struct Step {
    pub out: Id,
    pub op: Op,
}

/// One place of an index.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Place {
    At(i64),
    Slice(Option<i64>, Option<i64>, i64),
}

/// What is assigned, or what stands on the right of an operator.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    Number(i64),
    Float(i64),
    Tensor(Id),
    /// A tensor and a number in an operation: a value that no one has computed yet.
    Computed(Id, Fun, i64),
}

/// An argument of a call: a tensor, or as many of its rows as a variable is bound to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Input {
    pub of: Id,
    pub rows: Option<usize>,
}

/// What a Jit is made of: its body is steps over tensors from outside, which keep their names, over inputs, which have
/// the names `input(0)` and so on, and over what it makes itself.
#[derive(Clone, Debug)]
pub struct Function {
    pub captures: Vec<Id>,
    pub inputs: usize,
    pub body: Vec<Step>,
    pub returns: Vec<Id>,
    /// Whether other inputs are recorded anew, or refused.
    pub recapture: bool,
}

/// The name of an input inside a function.
pub fn input(i: usize) -> Id {
    INPUTS + i as Id
}
const INPUTS: Id = 1000;
/// The first name of what a function makes.
pub const LOCALS: Id = 1010;

#[derive(Clone, Debug)]
pub enum Op {
    // ---- leaves
    Data {
        dtype: DType,
        dims: Vec<usize>,
        values: Vec<i64>,
    },
    Full {
        dtype: DType,
        dims: Vec<usize>,
        value: i64,
    },
    Arange {
        dtype: DType,
        n: usize,
    },
    // ---- windows
    At {
        of: Id,
        places: Vec<Place>,
    },
    Reshape {
        of: Id,
        dims: Vec<usize>,
    },
    Permute {
        of: Id,
        axes: Vec<usize>,
    },
    Squeeze {
        of: Id,
        axis: usize,
    },
    Unsqueeze {
        of: Id,
        axis: usize,
    },
    Expand {
        of: Id,
        dims: Vec<usize>,
    },
    Split {
        of: Id,
        size: usize,
        axis: usize,
        part: usize,
    },
    Detach {
        of: Id,
    },
    Bitcast {
        of: Id,
        dtype: DType,
    },
    Alias {
        of: Id,
    },
    // ---- values
    Cast {
        of: Id,
        dtype: DType,
    },
    Contiguous {
        of: Id,
    },
    Flip {
        of: Id,
        axis: usize,
    },
    Cat {
        a: Id,
        b: Id,
        axis: usize,
    },
    Apply {
        of: Id,
        fun: Fun,
        by: Value,
    },
    Sum {
        of: Id,
        axis: Option<usize>,
    },
    /// `of[:0].sum() + 1`.
    EmptySum {
        of: Id,
    },
    Take {
        of: Id,
        rows: Vec<i64>,
    },
    TakeBy {
        of: Id,
        rows: Id,
    },
    Pick {
        of: Id,
        mask: Id,
    },
    /// `of * 2` while training, else `of + 1`.
    Mode {
        of: Id,
    },
    // ---- writes
    Assign {
        to: Id,
        value: Value,
    },
    InPlace {
        to: Id,
        fun: Fun,
        by: Value,
    },
    Set {
        to: Id,
        places: Vec<Place>,
        value: Value,
    },
    SetRows {
        to: Id,
        rows: Vec<i64>,
        value: Value,
    },
    SetMask {
        to: Id,
        mask: Id,
        value: Value,
    },
    /// As many first rows as the value has.
    SetPrefix {
        to: Id,
        value: Id,
    },
    Replace {
        to: Id,
        value: Value,
    },
    // ---- what computes
    Realize {
        all: Vec<Id>,
    },
    Read {
        of: Id,
    },
    Drop {
        of: Id,
    },
    Lend {
        of: Id,
    },
    Return {
        of: Id,
    },
    /// Of `sum(a_i * x_i + b_i * x_i * x_(i+1))` by each x; makes as many tensors. Each x may be computed between the
    /// sum and its gradients.
    Gradient {
        leaves: Vec<Id>,
        a: Vec<i64>,
        b: Vec<i64>,
        computed: bool,
    },
    // ---- functions
    Define {
        function: Function,
    },
    Call {
        jit: Id,
        inputs: Vec<Input>,
        training: bool,
    },
}

impl Op {
    /// How many names it needs.
    pub fn outs(&self) -> u32 {
        match self {
            Op::Gradient { leaves, .. } => leaves.len() as u32,
            Op::Call { .. } => 4,
            _ => 1,
        }
    }
    /// The tensor it writes to.
    pub fn target(&self) -> Option<Id> {
        match self {
            Op::Assign { to, .. }
            | Op::InPlace { to, .. }
            | Op::Set { to, .. }
            | Op::SetRows { to, .. }
            | Op::SetMask { to, .. }
            | Op::SetPrefix { to, .. }
            | Op::Replace { to, .. } => Some(*to),
            _ => None,
        }
    }
}

// ---- in print

struct Name(Id);
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.0 {
            i if i >= LOCALS => write!(f, "l{}", i - LOCALS),
            i if i >= INPUTS => write!(f, "in{}", i - INPUTS),
            i => write!(f, "t{i}"),
        }
    }
}

fn names(ids: &[Id]) -> String {
    ids.iter().map(|&i| Name(i).to_string()).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let end = |v: &Option<i64>| v.map_or(String::new(), |v| v.to_string());
        match self {
            Place::At(i) => write!(f, "{i}"),
            Place::Slice(a, b, 1) => write!(f, "{}:{}", end(a), end(b)),
            Place::Slice(a, b, s) => write!(f, "{}:{}:{s}", end(a), end(b)),
        }
    }
}

fn places(p: &[Place]) -> String {
    if p.is_empty() {
        return "...".into();
    }
    p.iter().map(|p| p.to_string()).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Value::Number(v) => write!(f, "{v}"),
            Value::Float(v) => write!(f, "{v}.0"),
            Value::Tensor(t) => write!(f, "{}", Name(*t)),
            Value::Computed(t, fun, v) => write!(f, "({} {} {v})", Name(*t), fun.sign()),
        }
    }
}

impl Step {
    fn listing(&self, f: &mut fmt::Formatter, indent: &str) -> fmt::Result {
        let out = Name(self.out);
        let n = |i: &Id| Name(*i);
        write!(f, "{indent}")?;
        match &self.op {
            Op::Data { dtype, dims, values } => writeln!(f, "{out} = data({values:?}, {dims:?}, {dtype})"),
            Op::Full { dtype, dims, value } => writeln!(f, "{out} = full({dims:?}, {value}, {dtype})"),
            Op::Arange { dtype, n } => writeln!(f, "{out} = arange({n}).cast({dtype})"),
            Op::At { of, places: p } => writeln!(f, "{out} = {}[{}]", n(of), places(p)),
            Op::Reshape { of, dims } => writeln!(f, "{out} = {}.reshape({dims:?})", n(of)),
            Op::Permute { of, axes } => writeln!(f, "{out} = {}.permute({axes:?})", n(of)),
            Op::Squeeze { of, axis } => writeln!(f, "{out} = {}.squeeze({axis})", n(of)),
            Op::Unsqueeze { of, axis } => writeln!(f, "{out} = {}.unsqueeze({axis})", n(of)),
            Op::Expand { of, dims } => writeln!(f, "{out} = {}.expand({dims:?})", n(of)),
            Op::Split { of, size, axis, part } => {
                writeln!(f, "{out} = {}.split({size}, {axis})[{part}]", n(of))
            }
            Op::Detach { of } => writeln!(f, "{out} = {}.detach()", n(of)),
            Op::Bitcast { of, dtype } => writeln!(f, "{out} = {}.bitcast({dtype})", n(of)),
            Op::Alias { of } => writeln!(f, "{out} = {}", n(of)),
            Op::Cast { of, dtype } => writeln!(f, "{out} = {}.cast({dtype})", n(of)),
            Op::Contiguous { of } => writeln!(f, "{out} = {}.contiguous()", n(of)),
            Op::Flip { of, axis } => writeln!(f, "{out} = {}.flip({axis})", n(of)),
            Op::Cat { a, b, axis } => writeln!(f, "{out} = cat({}, {}, {axis})", n(a), n(b)),
            Op::Apply { of, fun, by } => writeln!(f, "{out} = {} {} {by}", n(of), fun.sign()),
            Op::Sum { of, axis: None } => writeln!(f, "{out} = {}.sum()", n(of)),
            Op::Sum { of, axis: Some(a) } => writeln!(f, "{out} = {}.sum({a})", n(of)),
            Op::EmptySum { of } => writeln!(f, "{out} = {}[:0].sum() + 1", n(of)),
            Op::Take { of, rows } => writeln!(f, "{out} = {}[{rows:?}]", n(of)),
            Op::TakeBy { of, rows } => writeln!(f, "{out} = {}[{}]", n(of), n(rows)),
            Op::Pick { of, mask } => writeln!(f, "{out} = {}[{}]", n(of), n(mask)),
            Op::Mode { of } => writeln!(f, "{out} = {} * 2 if training else {} + 1", n(of), n(of)),
            Op::Assign { to, value } => writeln!(f, "{}.assign({value})", n(to)),
            Op::InPlace { to, fun, by } => {
                writeln!(f, "{}.assign({} {} {by})", n(to), n(to), fun.sign())
            }
            Op::Set { to, places: p, value } => writeln!(f, "{}[{}] = {value}", n(to), places(p)),
            Op::SetRows { to, rows, value } => writeln!(f, "{}[{rows:?}] = {value}", n(to)),
            Op::SetMask { to, mask, value } => writeln!(f, "{}[{}] = {value}", n(to), n(mask)),
            Op::SetPrefix { to, value } => {
                writeln!(f, "{}[:{}.shape[0]] = {}", n(to), n(value), n(value))
            }
            Op::Replace { to, value } => writeln!(f, "{}.replace({value})", n(to)),
            Op::Realize { all } => writeln!(f, "realize({})", names(all)),
            Op::Read { of } => writeln!(f, "read({})", n(of)),
            Op::Drop { of } => writeln!(f, "drop({})", n(of)),
            Op::Lend { of } => writeln!(f, "{out} = {}.lend()", n(of)),
            Op::Return { of } => writeln!(f, "drop({})  # which was lent", n(of)),
            Op::Gradient { leaves, a, b, computed } => {
                let outs: Vec<Id> = (0..leaves.len() as u32).map(|i| self.out + i).collect();
                let term = |i: usize| {
                    let (x, y) = (Name(leaves[i]), Name(leaves[(i + 1) % leaves.len()]));
                    format!("{x}*{} + {x}*{y}*{}", a[i], b[i])
                };
                let loss = (0..leaves.len()).map(term).collect::<Vec<_>>().join(" + ");
                let between = if *computed { "  # computed before they are asked for" } else { "" };
                writeln!(f, "{} = ({loss}).sum().gradient({}){between}", names(&outs), names(leaves))
            }
            Op::Define { function: g } => {
                let ins: Vec<Id> = (0..g.inputs).map(input).collect();
                let recapture = if g.recapture { ", recapture" } else { "" };
                writeln!(f, "{out} = jit({}){{  # over {}{recapture}", names(&ins), names(&g.captures))?;
                g.body.iter().try_for_each(|s| s.listing(f, "    "))?;
                writeln!(f, "    return {}\n{indent}}}", names(&g.returns))
            }
            Op::Call { jit, inputs, training } => {
                let one = |i: &Input| match i.rows {
                    Some(k) => format!("{}[:n={k}]", Name(i.of)),
                    None => Name(i.of).to_string(),
                };
                let args = inputs.iter().map(one).collect::<Vec<_>>().join(", ");
                let mode = if *training { "  # training" } else { "" };
                writeln!(f, "{out}.. = {}({args}){mode}", n(jit))
            }
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "# on {}", self.device)?;
        self.steps.iter().try_for_each(|s| s.listing(f, ""))?;
        writeln!(f, "# read all, {} first", if self.forwards { "oldest" } else { "youngest" })
    }
}
