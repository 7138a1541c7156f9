//! Sizes as nodes: how many elements there may be, and what is decided by the values that variables have.

use super::binds;
use crate::error::{Error, Result, fail};
use crate::watch::Watched;
use frit_uop::build::MAX_RANK;
use frit_uop::symbolic::size;
use frit_uop::{DType, Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cell::RefCell;

/// The most elements of a tensor: their bytes, and bits, are numbers of 64 bits.
const MOST_ELEMENTS: i128 = 1 << 59;

/// Why a tensor of these sizes cannot be. Sizes saturate, so one that overflowed is among those that cannot.
fn too_large(dims: &[UOp]) -> Option<String> {
    if dims.len() > MAX_RANK {
        return Some(format!("{} dims, of at most {MAX_RANK}", dims.len()));
    }
    let mut count = 1i128;
    let mut fits = true;
    for d in dims {
        let most = d.bounds.1;
        if most == 0 {
            // no elements, whatever the other sizes are
            return dims.iter().any(|d| d.bounds.1 > MOST_ELEMENTS).then(|| uncounted(dims));
        }
        count = count.saturating_mul(most);
        fits &= count <= MOST_ELEMENTS;
    }
    (!fits).then(|| uncounted(dims))
}
fn uncounted(dims: &[UOp]) -> String {
    format!("shape {} has more elements than can be counted", show_all(dims))
}

/// Whether a tensor of these sizes has a number of elements at all.
pub(crate) fn countable(op: &'static str, dims: &[UOp]) -> Result<()> {
    too_large(dims).map_or(Ok(()), |why| fail!(op, "{why}"))
}

/// A node as what a call gives, if its sizes can be.
pub(crate) fn sized(node: UOp) -> Result<UOp> {
    match too_large(node.shape()) {
        Some(why) => Err(Error::of_call("shape", why)),
        None => Ok(node),
    }
}

/// A number of elements as a size; one beyond int64 is a size that no tensor has.
pub(crate) fn size_of(n: usize) -> UOp {
    UOp::index(i64::try_from(n).unwrap_or(i64::MAX))
}

/// `a - b`.
pub(crate) fn dim_sub(a: &UOp, b: &UOp) -> UOp {
    a.size_sub(b)
}

/// A size as a value of a tensor's type.
pub(crate) fn dim_as(d: &UOp, dtype: DType) -> UOp {
    d.as_int().map_or_else(|| d.cast(dtype), |v| UOp::int(v, dtype))
}

thread_local! {
    static DECIDED: Watched<Decision> = const { RefCell::new(None) };
}

/// A condition on sizes that was decided by the values their variables had.
#[derive(Clone)]
pub(crate) struct Decision {
    /// The condition, with its variables free.
    condition: UOp,
    was: bool,
}

impl Decision {
    /// Whether it is decided the same way with the variables as they are in these sizes and shapes.
    pub(crate) fn holds<'a>(&self, sizes: impl Iterator<Item = &'a UOp>) -> bool {
        let values: FxHashMap<UOp, i64> =
            sizes.flat_map(binds).filter_map(|b| Some((b.variable().clone(), b.bound().as_int()?))).collect();
        value_with(&self.condition, &values) == Some(self.was as i64)
    }
}

/// A list of what is decided by the values of variables on this thread, until it is taken or dropped.
pub(crate) struct Watching;

impl Watching {
    /// An empty list.
    pub(crate) fn start() -> Watching {
        DECIDED.set(Some(vec![]));
        Watching
    }
    /// What was decided.
    pub(crate) fn decided(self) -> Vec<Decision> {
        DECIDED.take().unwrap_or_default()
    }
}
impl Drop for Watching {
    fn drop(&mut self) {
        DECIDED.take();
    }
}

/// Whether a Jit records on this thread.
pub(crate) fn is_watched() -> bool {
    DECIDED.with_borrow(Option::is_some)
}

pub(super) fn note(condition: &UOp, was: bool) {
    DECIDED.with_borrow_mut(|list| {
        let condition = size::free(condition);
        if let Some(list) = list.as_mut().filter(|list| !list.iter().any(|d| d.condition == condition)) {
            list.push(Decision { condition, was });
        }
    });
}

/// Whether a condition on sizes holds: by their bounds for every value, else by the values their variables have now,
/// which a recording takes down.
pub(crate) fn holds(op: &'static str, condition: &UOp) -> Result<bool> {
    let decided = |c: &UOp| (c.bounds.0 == c.bounds.1).then_some(c.bounds.0 != 0);
    if let Some(d) = decided(condition) {
        return Ok(d);
    }
    let condition = size::canonical(condition);
    if let Some(d) = decided(&condition) {
        return Ok(d);
    }
    match value_of(&condition) {
        Some(v) => {
            note(&condition, v != 0);
            Ok(v != 0)
        }
        None => fail!(op, "whether {} cannot be decided: a variable in it is not bound", show(&condition)),
    }
}

/// Are two sizes the same? Where they may differ for other values of their variables, the values of now decide.
pub(crate) fn same(op: &'static str, a: &UOp, b: &UOp) -> Result<bool> {
    if let (Some(x), Some(y)) = (a.as_int(), b.as_int()) {
        return Ok(x == y);
    }
    if size::equal(a, b) {
        return Ok(true);
    }
    let apart = a.size_sub(b).bounds;
    if apart.0 > 0 || apart.1 < 0 || a.bounds.1 < b.bounds.0 || b.bounds.1 < a.bounds.0 {
        return Ok(false);
    }
    holds(op, &a.eq_(b))
}

/// Sizes that are not negative, whatever their variables are: an error where one is now.
pub(crate) fn not_negative(op: &'static str, dims: &[UOp]) -> Result<SmallVec<[UOp; 4]>> {
    let zero = UOp::index(0);
    let mut out = SmallVec::new();
    for d in dims {
        if d.bounds.0 < 0 && (d.as_int().is_some() || holds(op, &d.lt(&zero))?) {
            return fail!(op, "size {} in {}", show(d), show_all(dims));
        }
        out.push(if d.bounds.0 < 0 { d.size_max(&zero) } else { d.clone() });
    }
    Ok(out)
}

/// The product of sizes.
pub(crate) fn product(dims: &[UOp]) -> UOp {
    dims.iter().fold(UOp::index(1), |a, b| a.size_mul(b))
}

/// The value of a size with bound variables, or of a condition on sizes.
pub(crate) fn value_of(d: &UOp) -> Option<i64> {
    value_with(d, &FxHashMap::default())
}

/// The same, with values for free variables.
fn value_with(d: &UOp, values: &FxHashMap<UOp, i64>) -> Option<i64> {
    if let Some(v) = d.as_int() {
        return Some(v);
    }
    let s = |i: usize| d.src.get(i).and_then(|x| value_with(x, values));
    match d.op {
        Op::Variable => values.get(d).copied(),
        Op::Bind => s(1),
        Op::Neg => s(0)?.checked_neg(),
        Op::Add => s(0)?.checked_add(s(1)?),
        Op::Sub => s(0)?.checked_sub(s(1)?),
        Op::Mul => s(0)?.checked_mul(s(1)?),
        Op::Idiv => s(0)?.checked_div_euclid(s(1)?),
        Op::Mod => s(0)?.checked_rem_euclid(s(1)?),
        Op::Max => Some(s(0)?.max(s(1)?)),
        Op::Min => Some(s(0)?.min(s(1)?)),
        Op::Lt => Some((s(0)? < s(1)?) as i64),
        Op::Eq => Some((s(0)? == s(1)?) as i64),
        Op::Ne => Some((s(0)? != s(1)?) as i64),
        Op::Not => Some((s(0)? == 0) as i64),
        Op::And => Some((s(0)? != 0 && s(1)? != 0) as i64),
        Op::Or => Some((s(0)? != 0 || s(1)? != 0) as i64),
        Op::Where => {
            if s(0)? != 0 {
                s(1)
            } else {
                s(2)
            }
        }
        _ => None,
    }
}

/// A size as people read it: `T=5`, `T=5*4 + 1`.
pub(crate) fn show(d: &UOp) -> String {
    if let Some(v) = d.as_int() {
        return v.to_string();
    }
    let s = |i: usize| d.src.get(i).map_or_else(String::new, show);
    let p = |i: usize| match d.src.get(i) {
        Some(x) if matches!(x.op, Op::Add | Op::Sub) => format!("({})", show(x)),
        Some(x) => show(x),
        None => String::new(),
    };
    // the second part of a sum without its sign, and whether that is negative
    let signed = |x: &UOp| match (x.as_int(), x.op, x.src.get(1).and_then(UOp::as_int)) {
        (Some(v), ..) if v < 0 => (v.unsigned_abs().to_string(), true),
        (_, Op::Mul, Some(-1)) => (show(x.lhs()), true),
        (_, Op::Mul, Some(k)) if k < 0 => (format!("{}*{}", show(x.lhs()), k.unsigned_abs()), true),
        _ => (show(x), false),
    };
    match (d.op, &d.arg) {
        (Op::Variable, frit_uop::Arg::Var { name, .. }) => name.to_string(),
        (Op::Bind, _) => format!("{}={}", s(0), s(1)),
        (Op::Add, _) => match (signed(d.lhs()), signed(d.rhs())) {
            // 10 - T, not -T + 10
            ((a, true), (b, false)) => format!("{b} - {a}"),
            (_, (b, true)) => format!("{} - {b}", s(0)),
            (_, (b, false)) => format!("{} + {b}", s(0)),
        },
        (Op::Sub, _) => format!("{} - {}", s(0), p(1)),
        (Op::Mul, _) if d.rhs().as_int() == Some(-1) => format!("-{}", p(0)),
        (Op::Mul, _) => format!("{}*{}", p(0), p(1)),
        (Op::Idiv, _) => format!("{}//{}", p(0), p(1)),
        (Op::Mod, _) => format!("{}%{}", p(0), p(1)),
        (Op::Min, _) => format!("min({}, {})", s(0), s(1)),
        (Op::Max, _) => format!("max({}, {})", s(0), s(1)),
        (Op::Lt, _) => format!("{} < {}", s(0), s(1)),
        (Op::Eq, _) => format!("{} == {}", s(0), s(1)),
        (Op::Ne, _) => format!("{} != {}", s(0), s(1)),
        (Op::Not, _) => format!("not {}", s(0)),
        _ => format!("{d:?}"),
    }
}

/// A list of sizes as people read it: `[2, 3]`.
pub(crate) fn show_all(dims: &[UOp]) -> String {
    format!("[{}]", dims.iter().map(show).collect::<Vec<_>>().join(", "))
}

/// The common shape two shapes broadcast to.
pub(crate) fn broadcast(op: &'static str, a: &[UOp], b: &[UOp]) -> Result<SmallVec<[UOp; 4]>> {
    let n = a.len().max(b.len());
    let one = UOp::index(1);
    let at = |s: &[UOp], i: usize| if i + s.len() < n { one.clone() } else { s[i + s.len() - n].clone() };
    let mut out = SmallVec::new();
    for i in 0..n {
        let (x, y) = (at(a, i), at(b, i));
        out.push(if x == one || x == y {
            y
        } else if y == one || same(op, &x, &y)? {
            x
        } else {
            return fail!(
                op,
                "shapes {} and {} do not broadcast ({} != {})",
                show_all(a),
                show_all(b),
                show(&x),
                show(&y)
            );
        });
    }
    Ok(out)
}
