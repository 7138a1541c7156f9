//! Dims, shapes and axes as people write them.
//!
//! A dim is an integer or an expression over bound variables. Arithmetic on dims never panics: what cannot be
//! computed is a failed dim, and a tensor made from it is a failed tensor.
//!
//! What a call asks of symbolic sizes (are these two the same, is this place inside) is decided by their bounds where
//! those decide it for every value, else by the values of now. A Jit that records takes down each such `Decision` and
//! replays only where it would be the same.

mod sizes;

use crate::error::{Error, Result, call, fail, fail_index};
use frit_uop::symbolic::size;
pub(crate) use frit_uop::symbolic::size::factors;
use frit_uop::{Alu, DType, Op, UOp};
use rustc_hash::FxHashMap;
use sizes::note;
pub(crate) use sizes::{
    Decision, Watching, broadcast, countable, dim_as, dim_sub, holds, is_watched, not_negative, product,
    same, show, show_all, size_of, sized, value_of,
};
use smallvec::SmallVec;
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
