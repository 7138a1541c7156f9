//! The text form: a graph as a short SSA listing that parses back to the same node.
//!
//! ```text
//! %0 = Param:float32 {0 16}
//! %1 = Range:index 16 {Global 0}
//! %2 = Index:float32 %0 %1
//! %3 = Load:float32 %2
//! %4 = Add:float32 %3 1.0:float32
//! ```
//!
//! One line a node, sources before users, the root last. Constants stand where they are used: `4` is an index,
//! `4:int32` and `true` say their type. Buffers print but do not parse: memory has no text.

use crate::arg::{Arg, AxisKind, LoopArg, RangeArg, ScatterMode, Space};
use crate::fold::{Fold, Merge};
use crate::node::UOp;
use crate::op::Op;
use frit_abi::{Alu, DType, Scalar};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::fmt::Write;

/// What is wrong with a text, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError {
    /// Line, from 1.
    pub line: usize,
    /// What was expected.
    pub message: String,
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}
impl std::error::Error for ParseError {}

/// The listing of everything below a node.
pub fn print(root: &UOp) -> String {
    let mut names = Names::default();
    let mut out = String::new();
    for n in &root.toposort() {
        if n.op == Op::Const && n != root {
            continue;
        }
        out += &line(n, &mut names);
        out.push('\n');
    }
    out
}

/// The number of each node that has a line.
pub(crate) type Names = FxHashMap<UOp, usize>;

/// The line of a node whose sources have theirs.
pub(crate) fn line(n: &UOp, names: &mut Names) -> String {
    let id = names.len();
    let mut out = format!("%{id} = {}:{}", n.op.name(), n.dtype);
    n.src.iter().for_each(|s| _ = write!(out, " {}", reference(s, names)));
    match &n.arg {
        Arg::None => {}
        a => _ = write!(out, " {{{}}}", print_arg(a, n.dtype)),
    }
    names.insert(n.clone(), id);
    out
}

/// A node where it is used.
pub(crate) fn reference(n: &UOp, names: &Names) -> String {
    names.get(n).map_or_else(|| literal(n), |i| format!("%{i}"))
}

/// A constant where it is used.
fn literal(c: &UOp) -> String {
    match c.as_scalar() {
        Some(s) if c.dtype == DType::Bool => s.as_bool().to_string(),
        Some(s) if c.dtype == DType::Index => number(s),
        Some(s) => format!("{}:{}", number(s), c.dtype),
        None => "?".into(),
    }
}

fn number(s: Scalar) -> String {
    match s {
        Scalar::Bool(b) => b.to_string(),
        Scalar::Int(i) => i.to_string(),
        Scalar::Uint(u) => u.to_string(),
        Scalar::Float(f) => format!("{f:?}"),
    }
}

/// What a node carries besides its sources.
pub(crate) fn print_arg(arg: &Arg, dtype: DType) -> String {
    let list = |a: &[u8]| a.iter().map(|x| x.to_string()).collect::<Vec<_>>().join(",");
    match arg {
        Arg::None => String::new(),
        Arg::Scalar(s) if dtype == DType::Bool => s.as_bool().to_string(),
        Arg::Scalar(s) => number(*s),
        Arg::Axes(a) => list(a),
        Arg::ReduceAxes(o, a) => format!("{o:?} {}", list(a)),
        Arg::Alu(o) => format!("{o:?}"),
        Arg::Exclusive(o) => format!("{o:?} exclusive"),
        Arg::Fold(f) => print_fold(f),
        Arg::Range(r) => format!("{:?} {}", r.kind, r.id),
        Arg::Param { slot, len } => format!("{slot} {len}"),
        Arg::Var { name, min, max } => format!("{name} {min} {max}"),
        Arg::Buffer(b) => format!("buffer {} {} {}", b.id(), b.len(), b.device()),
        Arg::Device(s) | Arg::Name(s) => s.to_string(),
        Arg::Define { space, id, len } => format!("{space:?} {id} {len}"),
        Arg::Stage { space, id, buffers: 1 } => format!("{space:?} {id}"),
        Arg::Stage { space, id, buffers } => format!("{space:?} {id} {buffers}"),
        Arg::Lanes(n) | Arg::Lane(n) | Arg::Site(n) => n.to_string(),
        Arg::Scatter(ScatterMode::Set, s) => format!("Set {s}"),
        Arg::Scatter(ScatterMode::Combine(o), s) => format!("{o:?} {s}"),
        Arg::Loop(l) => format!("{} {} {}", l.carries, l.level, l.name).trim_end().into(),
        Arg::LoopIn { level, slot } => format!("{level} {slot}"),
        Arg::Tile { rows, lanes, stride } => format!("{rows} {lanes} {stride}"),
        Arg::Fragment { matrices, transposed } => {
            format!("{matrices}{}", if *transposed { " transposed" } else { "" })
        }
    }
}

/// A dim for people: its size, the name of a variable, or `?`.
pub(crate) fn show_dim(dim: &UOp) -> String {
    match &dim.arg {
        Arg::Var { name, .. } => name.to_string(),
        _ => dim.as_int().map_or_else(|| "?".into(), |n| n.to_string()),
    }
}

fn print_fold(fold: &Fold) -> String {
    match fold.merge {
        Merge::Select { best, op, nan } => {
            format!("fold {} Select {best:?} {op:?}{}", fold.value, if nan { " nan" } else { "" })
        }
        merge => format!("fold {} {merge:?}", fold.value),
    }
}

/// The graph of a listing: its last line.
pub fn parse(text: &str) -> Result<UOp, ParseError> {
    let mut nodes: Vec<UOp> = vec![];
    for (i, raw) in text.lines().enumerate() {
        let line = raw.split("//").next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let node = parse_line(line, &nodes).map_err(|message| ParseError { line: i + 1, message })?;
        nodes.push(node);
    }
    nodes.pop().ok_or(ParseError { line: 1, message: "an empty listing has no root".into() })
}

pub(crate) fn parse_line(line: &str, nodes: &[UOp]) -> Result<UOp, String> {
    let (name, rest) = line.split_once('=').ok_or("expected '%N = Op:dtype …'")?;
    if name.trim() != format!("%{}", nodes.len()) {
        return Err(format!("expected %{} on the left, found {}", nodes.len(), name.trim()));
    }
    let (body, arg) = match rest.split_once('{') {
        Some((b, a)) => (b, Some(a.trim().strip_suffix('}').ok_or("missing '}'")?.trim())),
        None => (rest, None),
    };
    let mut words = body.split_whitespace();
    let head = words.next().ok_or("expected an op")?;
    let (op, dtype) = head.split_once(':').ok_or_else(|| format!("expected Op:dtype, found {head}"))?;
    let op = Op::from_name(op).ok_or_else(|| format!("there is no op {op}"))?;
    let dtype = DType::from_name(dtype).ok_or_else(|| format!("there is no dtype {dtype}"))?;
    let src = words.map(|w| operand(w, nodes)).collect::<Result<SmallVec<[UOp; 4]>, _>>()?;
    let arg = match arg {
        Some(a) => parse_arg(op, dtype, a)?,
        None => Arg::None,
    };
    Ok(UOp::new(op, dtype, src, arg))
}

pub(crate) fn operand(word: &str, nodes: &[UOp]) -> Result<UOp, String> {
    if let Some(n) = word.strip_prefix('%') {
        return n
            .parse()
            .ok()
            .and_then(|i: usize| nodes.get(i))
            .cloned()
            .ok_or_else(|| format!("{word} is not defined yet"));
    }
    match word.split_once(':') {
        None if word == "true" || word == "false" => Ok(UOp::boolean(word == "true")),
        None => Ok(UOp::index(parse_num(word)?)),
        Some((v, d)) => {
            let d = DType::from_name(d).ok_or_else(|| format!("there is no dtype {d}"))?;
            Ok(UOp::new(Op::Const, d, [], Arg::Scalar(scalar(v, d)?)))
        }
    }
}

fn scalar(v: &str, d: DType) -> Result<Scalar, String> {
    Ok(match d {
        DType::Bool => Scalar::Bool(v == "true"),
        d if d.is_float() => Scalar::float(parse_num(v)?, d),
        d => Scalar::int(parse_num::<i128>(v)?, d),
    })
}

fn parse_num<T: std::str::FromStr>(s: &str) -> Result<T, String> {
    s.parse().map_err(|_| format!("'{s}' is not a number that fits here"))
}

fn parse_arg(op: Op, dtype: DType, text: &str) -> Result<Arg, String> {
    let w: Vec<&str> = text.split_whitespace().collect();
    let word =
        |i: usize| w.get(i).copied().ok_or_else(|| format!("the arg of {} needs more words", op.name()));
    let alu = |s: &str| {
        Alu::ALL.into_iter().find(|a| format!("{a:?}") == s).ok_or(format!("there is no operation {s}"))
    };
    let axes = |s: &str| s.split(',').filter(|x| !x.is_empty()).map(parse_num).collect::<Result<_, _>>();
    let space = |s: &str| match s {
        "Global" => Ok(Space::Global),
        "Local" => Ok(Space::Local),
        "Reg" => Ok(Space::Reg),
        _ => Err(format!("there is no space {s}")),
    };
    Ok(match op {
        Op::Const => Arg::Scalar(scalar(word(0)?, dtype)?),
        Op::Permute | Op::Flip | Op::Shuffle => Arg::Axes(axes(text)?),
        Op::ReduceAxis | Op::ScanAxis => Arg::ReduceAxes(alu(word(0)?)?, axes(w.get(1).unwrap_or(&""))?),
        Op::Scan if w.get(1) == Some(&"exclusive") => Arg::Exclusive(alu(word(0)?)?),
        Op::Reduce if w.first() == Some(&"fold") => {
            let merge = match word(2)? {
                "Select" => {
                    let nan = w.get(5) == Some(&"nan");
                    Merge::Select { best: alu(word(3)?)?, op: alu(word(4)?)?, nan }
                }
                "Rescale" => Merge::Rescale,
                "Moments" => Merge::Moments,
                other => return Err(format!("there is no fold {other}")),
            };
            Arg::Fold(Fold { merge, value: parse_num(word(1)?)? })
        }
        Op::Reduce | Op::Scan => Arg::Alu(alu(word(0)?)?),
        Op::Range => {
            let kind =
                AxisKind::ALL.into_iter().find(|k| Ok(format!("{k:?}").as_str()) == word(0).as_deref());
            Arg::Range(RangeArg { kind: kind.ok_or("there is no such axis kind")?, id: parse_num(word(1)?)? })
        }
        Op::Param => Arg::Param { slot: parse_num(word(0)?)?, len: parse_num(word(1)?)? },
        Op::Variable => {
            Arg::Var { name: word(0)?.into(), min: parse_num(word(1)?)?, max: parse_num(word(2)?)? }
        }
        Op::Copy => Arg::Device(text.into()),
        Op::Special | Op::Sink | Op::Matrix => Arg::Name(text.into()),
        Op::Define => {
            Arg::Define { space: space(word(0)?)?, id: parse_num(word(1)?)?, len: parse_num(word(2)?)? }
        }
        Op::Stage => Arg::Stage {
            space: space(word(0)?)?,
            id: parse_num(word(1)?)?,
            buffers: w.get(2).map_or(Ok(1), |n| parse_num(n))?,
        },
        Op::Index if w.len() == 3 => {
            Arg::Tile { rows: parse_num(w[0])?, lanes: parse_num(w[1])?, stride: parse_num(w[2])? }
        }
        Op::Index => Arg::Lanes(parse_num(word(0)?)?),
        Op::LaneShuffle | Op::Wait => Arg::Lanes(parse_num(word(0)?)?),
        Op::LoadMatrix => {
            let transposed = w.get(1).is_some_and(|w| *w == "transposed");
            Arg::Fragment { matrices: parse_num(word(0)?)?, transposed }
        }
        Op::Lane | Op::LoopOut => Arg::Lane(parse_num(word(0)?)?),
        Op::Gather | Op::Load | Op::Store => Arg::Site(parse_num(word(0)?)?),
        Op::Scatter => {
            let mode = match word(0)? {
                "Set" => ScatterMode::Set,
                a => ScatterMode::Combine(alu(a)?),
            };
            Arg::Scatter(mode, parse_num(word(1)?)?)
        }
        Op::Loop => Arg::Loop(LoopArg {
            carries: parse_num(word(0)?)?,
            level: parse_num(word(1)?)?,
            name: w.get(2).copied().unwrap_or("").into(),
        }),
        Op::LoopIn => Arg::LoopIn { level: parse_num(word(0)?)?, slot: parse_num(word(1)?)? },
        Op::Buffer => return Err("a buffer is memory and has no text".into()),
        _ => return Err(format!("{} takes no arg", op.name())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_parses_back_to_the_same_node() {
        let p = UOp::param(0, 16, DType::F32);
        let r = UOp::range(&UOp::index(16), 0, AxisKind::Global);
        let v = p.at(&r).load() + UOp::float(1.5, DType::F32) * UOp::float(f64::NEG_INFINITY, DType::F32);
        let k = UOp::sink([UOp::param(1, 16, DType::F32).at(&r).store(&v).end([r])]);
        assert_eq!(parse(&print(&k)), Ok(k));
        let t = UOp::param(0, 6, DType::I64).reshape(&[UOp::index(2), UOp::index(3)]).permute(&[1, 0]);
        let t = t
            .reduce_axes(Alu::Max, &[0])
            .scan_axis(Alu::Add, 1)
            .gather(&UOp::iota(&UOp::index(1), DType::I32), 3);
        let t = t.flip(&[0]).scatter(&UOp::param(1, 1, DType::I32), &t, ScatterMode::Combine(Alu::Add), 0);
        assert_eq!(parse(&print(&t)), Ok(t));
        for root in [UOp::boolean(true), UOp::index(-4), UOp::constant(Scalar::Uint(u64::MAX), DType::U64)] {
            assert_eq!(parse(&print(&root)), Ok(root));
        }
    }
    #[test]
    fn bad_text_is_an_error_with_its_line() {
        assert_eq!(
            parse("%0 = Param:float32 {0 4}\n%1 = Nope:int32 %0").unwrap_err().to_string(),
            "line 2: there is no op Nope"
        );
        for bad in [
            "",
            "%0",
            "%0 = Add:int32 %3 %4",
            "%1 = Const:int32 {3}",
            "%0 = Const:int32 {x}",
            "%0 = Range:index 4 {Odd 1}",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
