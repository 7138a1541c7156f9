//! Dims, shapes and axes as people write them.
//!
//! A dim is an integer or an expression over bound variables. Arithmetic on dims never panics: what cannot be
//! computed is a failed dim, and a tensor made from it is a failed tensor.
//!
//! What a call asks of symbolic sizes (are these two the same, is this place inside) is decided by their bounds where
//! those decide it for every value, else by the values of now. A Jit that records takes down each such `Decision` and
//! replays only where it would be the same.

use crate::error::{Error, Result, call, fail, fail_index};
use crate::watch::Watched;
use frit_uop::build::MAX_RANK;
use frit_uop::symbolic::size;
pub(crate) use frit_uop::symbolic::size::factors;
use frit_uop::{Alu, DType, Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::OnceLock;

/// One size: an integer, an expression over bound variables, or failed.
#[derive(Clone)]
pub struct Dim(pub(crate) Result<UOp>);

impl Dim {
    /// The number, with variables at their bound values. While a Jit records it is an error for a size with variables:
    /// a number would stay what it is in every later call.
    #[track_caller]
    pub fn value(&self) -> Result<i64> {
        let _c = call("shape");
        let d = self.0.as_ref().map_err(|e| e.clone())?;
        match value_of(d) {
            Some(_) if d.as_int().is_none() && is_watched() => fail!(
                "shape",
                "it needs a number, and size {} has a variable: in a Jit the number would be frozen",
                show(d)
            ),
            Some(v) => Ok(v),
            None => fail!("shape", "{self} has no value: a variable in it is not bound"),
        }
    }
    /// The number as a size; zero where the dim failed or has no value. A Jit that records it goes on to replay for
    /// this number alone.
    pub fn get(&self) -> usize {
        let Ok(d) = &self.0 else { return 0 };
        let value = value_of(d).unwrap_or(0);
        if d.as_int().is_none() {
            note(&d.eq_(&UOp::index(value)), true);
        }
        usize::try_from(value).unwrap_or(0)
    }
    /// The integer, if no variable is in it.
    pub fn as_int(&self) -> Option<i64> {
        self.0.as_ref().ok().and_then(|u| u.as_int())
    }
    /// As a tensor of one number, int32 (int64 where it may not fit).
    #[track_caller]
    pub fn tensor(&self) -> crate::Tensor {
        let _c = call("shape");
        let wide = |u: &UOp| if u.bounds.1 > i32::MAX as i128 { DType::I64 } else { DType::I32 };
        crate::Tensor::of(self.0.clone().map(|u| dim_as(&u, wide(&u))))
    }
    /// The greatest value it can have.
    pub fn max(&self) -> Result<i64> {
        Ok(self.0.as_ref().map_err(|e| e.clone())?.bounds.1 as i64)
    }
    /// The least value it can have.
    pub fn min(&self) -> Result<i64> {
        Ok(self.0.as_ref().map_err(|e| e.clone())?.bounds.0 as i64)
    }
    /// The lesser of two sizes.
    #[track_caller]
    pub fn at_most(&self, o: impl Into<Dim>) -> Dim {
        let _c = call("shape");
        Dim::bin("shape", Alu::Min, self.clone(), o.into())
    }
    /// The greater of two sizes.
    #[track_caller]
    pub fn at_least(&self, o: impl Into<Dim>) -> Dim {
        let _c = call("shape");
        Dim::bin("shape", Alu::Max, self.clone(), o.into())
    }
    /// Whether it is less than another size, decided by their bounds, or else by the values of their variables; a Jit
    /// that records it replays only where it is decided the same way.
    #[track_caller]
    pub fn is_less(&self, o: impl Into<Dim>) -> Result<bool> {
        let _c = call("shape");
        holds("shape", &self.0.clone()?.lt(&o.into().0?))
    }
    /// Whether it is equal to another size, decided as [`is_less`](Dim::is_less) is.
    #[track_caller]
    pub fn is_equal(&self, o: impl Into<Dim>) -> Result<bool> {
        let _c = call("shape");
        same("shape", &self.0.clone()?, &o.into().0?)
    }
    /// The size with one of its variables bound to a value.
    #[track_caller]
    pub fn bind(&self, variable: &Variable, v: i64) -> Result<Dim> {
        let _c = call("bind");
        let (d, bound) = (self.0.clone()?, variable.bind(v)?.0?);
        let old = binds(&d).filter(|b| *b.variable() == variable.0);
        let free = d.substitute(&old.map(|b| (b, variable.0.clone())).collect());
        // a variable below a Bind is no use of it
        let mut map: FxHashMap<UOp, UOp> = binds(&free).map(|b| (b.clone(), b)).collect();
        map.insert(variable.0.clone(), bound);
        Ok(Dim(Ok(size::canonical(&free.substitute(&map)))))
    }
    /// Whether it is a number, or has a value for each of its variables.
    pub fn has_value(&self) -> bool {
        self.0.as_ref().is_ok_and(|d| value_of(d).is_some())
    }
    /// The variables in it, bound or not.
    pub fn variables(&self) -> Result<Vec<Variable>> {
        let all = self.0.clone()?.toposort().into_iter().filter(|n| n.op == Op::Variable);
        Ok(all.map(Variable).collect())
    }
    /// The size with its variables free, and what each was bound to.
    pub fn unbind(&self) -> Result<(Dim, Vec<(Variable, i64)>)> {
        let d = self.0.clone()?;
        let values = binds(&d).filter_map(|b| Some((Variable(b.variable().clone()), b.bound().as_int()?)));
        Ok((Dim(Ok(size::free(&d))), values.collect()))
    }
    /// The same size with its variables bound as they are in other sizes; those that are in none stay as they are.
    pub fn rebound(&self, by: &[Dim]) -> Dim {
        let given: Vec<UOp> = by.iter().filter_map(|d| d.0.as_ref().ok()).flat_map(binds).collect();
        Dim(self.0.clone().map(|u| {
            let mut map = FxHashMap::default();
            for old in binds(&u) {
                if let Some(new) = given.iter().find(|g| g.variable() == old.variable()) {
                    map.insert(old, new.clone());
                }
            }
            u.substitute(&map)
        }))
    }
    fn bin(op: &'static str, alu: Alu, a: Dim, b: Dim) -> Dim {
        let (a, b) = match (a.0, b.0) {
            (Ok(a), Ok(b)) => (a, b),
            (Err(e), _) | (_, Err(e)) => return Dim(Err(e)),
        };
        if matches!(alu, Alu::Idiv | Alu::Mod) && b.bounds.0 <= 0 && b.bounds.1 >= 0 {
            return Dim(fail!(op, "{} by {}, which may be zero", show(&a), show(&b)));
        }
        let ints = match (a.as_int(), b.as_int()) {
            (Some(x), Some(y)) => match alu {
                Alu::Add => x.checked_add(y),
                Alu::Sub => x.checked_sub(y),
                Alu::Mul => x.checked_mul(y),
                Alu::Min => Some(x.min(y)),
                Alu::Max => Some(x.max(y)),
                Alu::Idiv => {
                    x.checked_div_euclid(y).map(|_| x.div_euclid(y) - ((y < 0 && x % y != 0) as i64))
                }
                _ => x.checked_rem(y).map(|r| if r != 0 && (r < 0) != (y < 0) { r + y } else { r }),
            }
            .map(Some),
            _ => Some(None),
        };
        let made = match ints {
            Some(Some(v)) => return Dim(Ok(UOp::index(v))),
            Some(None) => size::canonical(&a.bin(alu, &b)),
            None => return Dim(fail!(op, "{} and {} overflow", show(&a), show(&b))),
        };
        Dim(match size::bound(&made) {
            Some(_) => Ok(made),
            None => fail!(op, "a variable has two values in {}", show(&made)),
        })
    }
}

/// The bound variables of a size.
fn binds(d: &UOp) -> impl Iterator<Item = UOp> + use<> {
    d.toposort().into_iter().filter(|n| n.op == Op::Bind)
}

impl PartialEq for Dim {
    fn eq(&self, o: &Dim) -> bool {
        matches!((&self.0, &o.0), (Ok(a), Ok(b)) if a == b)
    }
}
impl std::fmt::Display for Dim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Ok(u) => f.write_str(&show(u)),
            Err(_) => f.write_str("failed"),
        }
    }
}
impl std::fmt::Debug for Dim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
impl From<&Dim> for Dim {
    fn from(d: &Dim) -> Dim {
        d.clone()
    }
}
impl From<UOp> for Dim {
    fn from(u: UOp) -> Dim {
        Dim(if u.dtype == DType::Index && u.shape().is_empty() {
            Ok(u)
        } else {
            fail!("shape", "a {} node is not a size", u.op.name())
        })
    }
}
macro_rules! dim_from {
    ($($t:ty),*) => {$(
        impl From<$t> for Dim {
            #[track_caller]
            fn from(v: $t) -> Dim {
                Dim(match i64::try_from(v) { Ok(v) => Ok(UOp::index(v)), Err(_) => fail!("shape", "size {v} is beyond int64") })
            }
        }
        impl From<&$t> for Dim { #[track_caller] fn from(v: &$t) -> Dim { Dim::from(*v) } }
        impl PartialEq<$t> for Dim { fn eq(&self, o: &$t) -> bool { self.as_int().is_some_and(|v| v as i128 == *o as i128) } }
    )*};
}
dim_from!(i32, i64, isize, usize, u32, u64);
macro_rules! dim_ops {
    ($($tr:ident $m:ident $alu:ident),*) => {$(
        impl<T: Into<Dim>> std::ops::$tr<T> for Dim { type Output = Dim; #[track_caller] fn $m(self, o: T) -> Dim { let _c = call("shape"); Dim::bin("shape", Alu::$alu, self, o.into()) } }
        impl<T: Into<Dim>> std::ops::$tr<T> for &Dim { type Output = Dim; #[track_caller] fn $m(self, o: T) -> Dim { let _c = call("shape"); Dim::bin("shape", Alu::$alu, self.clone(), o.into()) } }
    )*};
}
dim_ops!(Add add Add, Sub sub Sub, Mul mul Mul, Div div Idiv, Rem rem Mod);

/// A variable of a program: an integer between two bounds that takes a value each time it is bound.
///
/// ```
/// # use frit_tensor::*;
/// let t = Variable::new("T", 1, 128)?.bind(5)?;
/// assert_eq!(Tensor::zeros((t, 3)).shape().to_string(), "[T=5, 3]");
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Variable(UOp);

impl Variable {
    /// A variable with this name and these bounds, both included.
    #[track_caller]
    pub fn new(name: &str, min: i64, max: i64) -> Result<Variable> {
        let _c = call("variable");
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return fail!("variable", "{name:?} is not a name (letters, digits and underscores)");
        }
        if min < 0 || min > max {
            return fail!("variable", "{name} has no values in {min}..={max} (sizes start at 0)");
        }
        Ok(Variable(UOp::variable(name, min, max)))
    }
    /// The name.
    pub fn name(&self) -> String {
        show(&self.0)
    }
    /// The variable as a size that has no value yet: what is made of it can be bound later.
    pub fn dim(&self) -> Dim {
        Dim(Ok(self.0.clone()))
    }
    /// The variable with a value: a dim for this time.
    #[track_caller]
    pub fn bind(&self, v: i64) -> Result<Dim> {
        let _c = call("bind");
        let (lo, hi) = self.0.bounds;
        if (v as i128) < lo || v as i128 > hi {
            return fail!("bind", "{v} is outside {}..={} of {}", lo, hi, show(&self.0));
        }
        Ok(Dim(Ok(self.0.bind(v))))
    }
}

/// Sizes handed to an operation: `[2, 3]`, `(batch, -1, 3)`, a shape, a single number.
#[derive(Clone, Debug, Default)]
pub struct Dims(pub(crate) SmallVec<[Dim; 4]>);

impl Dims {
    /// All sizes, or the first failure among them.
    pub(crate) fn uops(&self) -> Result<SmallVec<[UOp; 4]>> {
        self.0.iter().map(|d| d.0.clone()).collect()
    }
}
macro_rules! dims_from {
    ($($t:ty),*) => {$(
        impl From<$t> for Dims { #[track_caller] fn from(v: $t) -> Dims { Dims(SmallVec::from_iter([Dim::from(v)])) } }
        impl<const N: usize> From<[$t; N]> for Dims { #[track_caller] fn from(v: [$t; N]) -> Dims { Dims(v.iter().map(Dim::from).collect()) } }
        impl<const N: usize> From<&[$t; N]> for Dims { #[track_caller] fn from(v: &[$t; N]) -> Dims { Dims(v.iter().map(Dim::from).collect()) } }
        impl From<&[$t]> for Dims { #[track_caller] fn from(v: &[$t]) -> Dims { Dims(v.iter().map(Dim::from).collect()) } }
        impl From<Vec<$t>> for Dims { #[track_caller] fn from(v: Vec<$t>) -> Dims { Dims(v.iter().map(Dim::from).collect()) } }
        impl From<&Vec<$t>> for Dims { #[track_caller] fn from(v: &Vec<$t>) -> Dims { Dims(v.iter().map(Dim::from).collect()) } }
    )*};
}
dims_from!(i32, i64, isize, usize, u32, Dim);
impl From<&Dim> for Dims {
    fn from(d: &Dim) -> Dims {
        Dims::from(d.clone())
    }
}
impl From<()> for Dims {
    fn from(_: ()) -> Dims {
        Dims::default()
    }
}
impl<const N: usize> From<[(); N]> for Dims {
    fn from(_: [(); N]) -> Dims {
        Dims::default()
    }
}
macro_rules! dims_from_tuple {
    ($($T:ident $i:tt),*) => {
        impl<$($T: Into<Dim>),*> From<($($T,)*)> for Dims { #[track_caller] fn from(t: ($($T,)*)) -> Dims { Dims(SmallVec::from_iter([$(t.$i.into()),*])) } }
    };
}
dims_from_tuple!(A 0);
dims_from_tuple!(A 0, B 1);
dims_from_tuple!(A 0, B 1, C 2);
dims_from_tuple!(A 0, B 1, C 2, D 3);
dims_from_tuple!(A 0, B 1, C 2, D 3, E 4);
dims_from_tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
dims_from_tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
dims_from_tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);

/// The dims of a tensor, or the failure of a failed one. Indexing never panics: a dim that is not there is a failed
/// dim, and whatever is made from it fails with the reason.
#[derive(Clone)]
pub struct Shape {
    dims: Result<SmallVec<[Dim; 4]>>,
    missing: OnceLock<Box<Dim>>,
}

impl Shape {
    pub(crate) fn new(dims: Result<&[UOp]>) -> Shape {
        let dims = dims.map(|d| d.iter().map(|u| Dim(Ok(u.clone()))).collect());
        Shape { dims, missing: OnceLock::new() }
    }
    /// How many dims; zero for a failed shape.
    pub fn rank(&self) -> usize {
        self.as_slice().len()
    }
    /// The product of all dims; failed for a failed shape.
    pub fn numel(&self) -> Dim {
        match &self.dims {
            Ok(d) => d.iter().fold(Dim::from(1), |a, b| a * b),
            Err(e) => Dim(Err(e.clone())),
        }
    }
    /// The dims; none for a failed shape.
    pub fn as_slice(&self) -> &[Dim] {
        self.dims.as_deref().unwrap_or(&[])
    }
    /// The dims as numbers, variables at their bound values.
    pub fn sizes(&self) -> Result<Vec<usize>> {
        let dims = self.dims.as_ref().map_err(|e| e.clone())?;
        dims.iter().map(|d| d.value().map(|v| v.max(0) as usize)).collect()
    }
    #[track_caller]
    fn at(&self, i: i128) -> &Dim {
        let n = self.rank() as i128;
        let i_ = if i < 0 { i + n } else { i };
        let found = usize::try_from(i_).ok().and_then(|i| self.as_slice().get(i));
        found.unwrap_or_else(|| {
            let at = Error::new("shape", format!("no dim {i} in a shape of {n} dims"));
            self.missing.get_or_init(|| Box::new(Dim(Err(self.dims.as_ref().err().cloned().unwrap_or(at)))))
        })
    }
}
/// An integer that names a dim; negative ones count from the end.
pub trait Place: Copy {
    /// As a wide integer.
    fn wide(self) -> i128;
}
impl<I: Place> std::ops::Index<I> for Shape {
    type Output = Dim;
    #[track_caller]
    fn index(&self, i: I) -> &Dim {
        self.at(i.wide())
    }
}
macro_rules! shape_index {
    ($($t:ty),*) => {$(
        impl Place for $t { fn wide(self) -> i128 { self as i128 } }
        impl<const N: usize> PartialEq<[$t; N]> for Shape { fn eq(&self, o: &[$t; N]) -> bool { self.dims.is_ok() && self.as_slice().len() == N && self.as_slice().iter().zip(o).all(|(a, b)| a == b) } }
        impl PartialEq<Vec<$t>> for Shape { fn eq(&self, o: &Vec<$t>) -> bool { self.dims.is_ok() && self.as_slice().len() == o.len() && self.as_slice().iter().zip(o).all(|(a, b)| a == b) } }
    )*};
}
shape_index!(i32, i64, isize, usize);
impl PartialEq for Shape {
    fn eq(&self, o: &Shape) -> bool {
        self.dims.is_ok() && o.dims.is_ok() && self.as_slice() == o.as_slice()
    }
}
impl From<&Shape> for Dims {
    fn from(s: &Shape) -> Dims {
        match &s.dims {
            Ok(d) => Dims(d.clone()),
            Err(e) => Dims(SmallVec::from_iter([Dim(Err(e.clone()))])),
        }
    }
}
impl From<Shape> for Dims {
    fn from(s: Shape) -> Dims {
        Dims::from(&s)
    }
}
impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.dims {
            Ok(d) => write!(f, "{d:?}"),
            Err(e) => write!(f, "failed ({e})"),
        }
    }
}
impl std::fmt::Debug for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// The axes an operation works on: one, several, or `..` for all; with [`keepdim`] they stay as size 1.
#[derive(Clone, Debug, Default)]
pub struct Axes {
    list: Option<SmallVec<[i64; 4]>>,
    pub(crate) keep: bool,
}

/// The same axes, kept as size 1 by a reduction: `x.sum(keepdim(-1))`.
pub fn keepdim(axes: impl Into<Axes>) -> Axes {
    Axes { keep: true, ..axes.into() }
}

impl Axes {
    /// The axes as positions, ascending, each once; `rank` dims.
    pub(crate) fn resolve(&self, op: &'static str, rank: usize) -> Result<SmallVec<[usize; 4]>> {
        let mut out = self.in_order(op, rank)?;
        out.sort_unstable();
        Ok(out)
    }
    /// Whether no axis is named: `..`.
    pub(crate) fn is_all(&self) -> bool {
        self.list.is_none()
    }
    /// The axes as positions in the order given.
    pub(crate) fn in_order(&self, op: &'static str, rank: usize) -> Result<SmallVec<[usize; 4]>> {
        let Some(list) = &self.list else { return Ok((0..rank).collect()) };
        if rank == 0 && list.iter().all(|a| matches!(a, 0 | -1)) {
            // a scalar counts as one element along one axis, as in torch
            return Ok(SmallVec::new());
        }
        let mut out = SmallVec::new();
        for &a in list {
            let a = axis(op, a as isize, rank)?;
            if out.contains(&a) {
                return fail!(op, "axis {a} is given twice");
            }
            out.push(a);
        }
        Ok(out)
    }
}
impl From<std::ops::RangeFull> for Axes {
    fn from(_: std::ops::RangeFull) -> Axes {
        Axes::default()
    }
}
impl From<()> for Axes {
    fn from(_: ()) -> Axes {
        Axes::default()
    }
}
macro_rules! axes_from {
    ($($t:ty),*) => {$(
        impl From<$t> for Axes { fn from(v: $t) -> Axes { Axes { list: Some(SmallVec::from_iter([v as i64])), keep: false } } }
        impl<const N: usize> From<[$t; N]> for Axes { fn from(v: [$t; N]) -> Axes { Axes::from(&v[..]) } }
        impl<const N: usize> From<&[$t; N]> for Axes { fn from(v: &[$t; N]) -> Axes { Axes::from(&v[..]) } }
        impl From<&[$t]> for Axes { fn from(v: &[$t]) -> Axes { Axes { list: Some(v.iter().map(|&a| a as i64).collect()), keep: false } } }
        impl From<Vec<$t>> for Axes { fn from(v: Vec<$t>) -> Axes { Axes::from(&v[..]) } }
    )*};
}
axes_from!(i32, i64, isize, usize);

/// `axis` as a position among `rank` dims.
pub(crate) fn axis(op: &'static str, axis: isize, rank: usize) -> Result<usize> {
    let r = rank as isize;
    if axis < -r || axis >= r {
        return match rank {
            0 => fail_index!(op, "axis {axis} of a scalar, which has none"),
            _ => fail_index!(op, "axis {axis} is out of range for {rank} dims ({}..={})", -r, r - 1),
        };
    }
    Ok(if axis < 0 { axis + r } else { axis } as usize)
}

// ---- dims as nodes

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

fn note(condition: &UOp, was: bool) {
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
