//! Rewrite rules as tables.
//!
//! ```
//! use frit_uop::{rules, UOp};
//! rules! { pub IDENTITY for int;
//!     Add[x, 0]                 => x;
//!     Mul[Mul[x, #a], #b]       => x * a.wrapping_mul(b);
//!     Where(_, x, =x)           => x;
//! }
//! ```
//!
//! | notation | matches |
//! |---|---|
//! | `Op(p, q)` | a node of this op with exactly these sources |
//! | `Op[p, q]` | the same, the two sources in either order |
//! | `(Add\|Mul)(p, q)` | any of these ops, or classes of them: `(Unary\|Cast)(x)`; [`OpSet`] has the classes |
//! | `Op(p, ..)` | further sources may follow |
//! | `x`, `_` | any node, bound or not |
//! | `=x` | the node that `x` (bound before) is |
//! | `#c` | an integer or bool constant, bound to its value as `i64` |
//! | `0`, `1.0`, `true` | this constant (floats by bits, so `0.0` is not `-0.0`) |
//! | `p as n` | what the op pattern `p` matches, bound to `n` |
//! | `if guard` | only where the guard holds |
//!
//! The right side is a `UOp`, a `&UOp`, or an `Option<UOp>` (`None`: the rule does not apply after all; other ways to
//! match the pattern are tried). A table `for int` (or `float`, `index`, `bool`, `bits`) looks only at nodes that work
//! on values of that kind: the type of the node, of the operands for comparisons.
//!
//! A table `NAME(ctx: Ctx)` gives its right sides and guards `ctx: &mut Ctx`. A table `NAME(ctx: Ctx) -> R` gives an `R`
//! instead of a node (a gradient, say): its right sides are what [`IntoRewrite`] makes an `R` of. Tables are data: [`Matcher`] compiles
//! several into one dispatch by root op and a mask of ops that must occur among the sources; the pattern itself is
//! kept ([`Pat`]) so that a test can build random instances of every rule.

use crate::node::UOp;
use crate::op::{Op, OpSet};
use frit_abi::{DType, Scalar};

/// What a rule does once its pattern has matched.
pub enum Apply<C: 'static, R: 'static = UOp> {
    /// Needs only the node.
    Pure(fn(&UOp) -> Option<R>),
    /// Needs the pass's context.
    Ctx(fn(&UOp, &mut C) -> Option<R>),
}
impl<C, R> Clone for Apply<C, R> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<C, R> Copy for Apply<C, R> {}

/// One rule: what it can match and what it does.
pub struct Rule<C: 'static, R: 'static = UOp> {
    /// The line it is written at, in the file of its table.
    pub line: fn() -> u32,
    /// The pattern as written.
    pub text: &'static str,
    /// The rule as written: pattern, guard and right side.
    pub whole: &'static str,
    /// The ops the root may have.
    pub roots: OpSet,
    /// Ops that must occur among the sources.
    pub needs: OpSet,
    /// The pattern as data.
    pub pattern: Pat,
    /// Match and replace.
    pub apply: Apply<C, R>,
}

/// The head of a table of rules.
pub struct Table {
    /// The name of the static.
    pub name: &'static str,
    /// The file it is written in.
    pub file: &'static str,
}

/// A table of rules.
pub struct RuleSet<C: 'static, R: 'static = UOp> {
    /// What it is called and where it is written.
    pub head: &'static Table,
    /// The types its rules work on.
    pub types: Types,
    /// Its rules; the first that applies wins.
    pub rules: &'static [Rule<C, R>],
}

/// The kinds of values a table is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Types(pub u32);

#[allow(non_upper_case_globals)] // these are written after `for`
impl Types {
    /// Every type.
    pub const any: Types = Types(u32::MAX);
    /// Integers and `Index`.
    pub const int: Types = {
        use DType::*;
        Types::of(&[I8, I16, I32, I64, U8, U16, U32, U64, Index])
    };
    /// `Index` alone.
    pub const index: Types = Types::of(&[DType::Index]);
    /// Floats.
    pub const float: Types = {
        use DType::*;
        Types::of(&[F8E4M3, F8E5M2, F8E4M3Fnuz, F8E5M2Fnuz, F16, BF16, F32, F64])
    };
    /// `Bool` alone.
    pub const bool: Types = Types::of(&[DType::Bool]);
    /// Integers, `Index` and `Bool`.
    pub const bits: Types = Types(Types::int.0 | Types::bool.0);
}
impl Types {
    /// The set of these.
    pub const fn of(types: &[DType]) -> Types {
        let (mut m, mut i) = (0, 0);
        while i < types.len() {
            m |= 1 << types[i] as u32;
            i += 1;
        }
        Types(m)
    }
    /// Whether `d` is one of them.
    #[inline]
    pub const fn has(self, d: DType) -> bool {
        self.0 >> d as u32 & 1 == 1
    }
}

/// A pattern as data: what the macro's left side says.
pub enum Pat {
    /// `_`
    Any,
    /// `..`
    Rest,
    /// `x`
    Name(&'static str),
    /// `=x`
    Same(&'static str),
    /// `#c`
    Const(&'static str),
    /// `0`
    Literal(&'static (dyn Literal + Sync)),
    /// `Op(…)`, `Op[…]`
    Op {
        /// The ops it may be.
        ops: OpSet,
        /// Its sources.
        args: &'static [Pat],
        /// In either order.
        either: bool,
        /// `as n`, or empty.
        name: &'static str,
    },
}

/// A constant written in a pattern.
pub trait Literal {
    /// Whether `n` is this constant.
    fn is(&self, n: &UOp) -> bool;
    /// The value.
    fn value(&self) -> Scalar;
}
impl Literal for i64 {
    #[inline]
    fn is(&self, n: &UOp) -> bool {
        n.as_int() == Some(*self)
    }
    fn value(&self) -> Scalar {
        Scalar::Int(*self)
    }
}
impl Literal for f64 {
    fn is(&self, n: &UOp) -> bool {
        n.as_scalar() == Some(Scalar::Float(*self))
    }
    fn value(&self) -> Scalar {
        Scalar::Float(*self)
    }
}
impl Literal for bool {
    #[inline]
    fn is(&self, n: &UOp) -> bool {
        n.as_scalar() == Some(Scalar::Bool(*self))
    }
    fn value(&self) -> Scalar {
        Scalar::Bool(*self)
    }
}

/// What a right side may be, for a table whose rules give an `R`.
pub trait IntoRewrite<R> {
    /// The replacement, or `None` where the rule does not apply after all.
    fn into_rewrite(self) -> Option<R>;
}
impl<R> IntoRewrite<R> for R {
    #[inline]
    fn into_rewrite(self) -> Option<R> {
        Some(self)
    }
}
impl<R> IntoRewrite<R> for Option<R> {
    #[inline]
    fn into_rewrite(self) -> Option<R> {
        self
    }
}
impl IntoRewrite<UOp> for &UOp {
    #[inline]
    fn into_rewrite(self) -> Option<UOp> {
        Some(self.clone())
    }
}

struct Entry<C: 'static, R: 'static> {
    needs: OpSet,
    types: Types,
    apply: Apply<C, R>,
    fired: Fired,
}

/// A rule by name.
#[derive(Clone, Copy)]
pub struct Fired {
    /// Its table.
    pub table: &'static Table,
    /// The rule as written.
    pub rule: &'static str,
    /// The line it is written at.
    pub line: fn() -> u32,
}

/// Several tables compiled into one dispatch.
pub struct Matcher<C: 'static, R: 'static = UOp> {
    start: [u32; 129],
    flat: Vec<Entry<C, R>>,
    keeps_shape: bool,
}

impl<C, R> Matcher<C, R> {
    /// Compile tables; rules are tried in the order given, the pure ones first.
    pub fn new(pure: &[&'static RuleSet<(), R>], ctx: &[&'static RuleSet<C, R>]) -> Matcher<C, R> {
        let mut start = [0; 129];
        let mut flat = vec![];
        for &op in Op::ALL {
            start[op as usize] = flat.len() as u32;
            for set in pure {
                for r in set.rules.iter().filter(|r| r.roots.has(op)) {
                    let Apply::Pure(f) = r.apply else { continue };
                    let fired = Fired { table: set.head, rule: r.whole, line: r.line };
                    flat.push(Entry { needs: r.needs, types: set.types, apply: Apply::Pure(f), fired });
                }
            }
            for set in ctx {
                for r in set.rules.iter().filter(|r| r.roots.has(op)) {
                    let fired = Fired { table: set.head, rule: r.whole, line: r.line };
                    flat.push(Entry { needs: r.needs, types: set.types, apply: r.apply, fired });
                }
            }
        }
        for s in &mut start[Op::ALL.len()..] {
            *s = flat.len() as u32;
        }
        Matcher { start, flat, keeps_shape: false }
    }
    /// What the first rule that applies and whose result is `accepted` makes of the node, and which that is.
    #[inline]
    fn first(&self, n: &UOp, ctx: &mut C, accepted: impl Fn(&R) -> bool) -> Option<(R, Fired)> {
        let rules = &self.flat[self.start[n.op as usize] as usize..self.start[n.op as usize + 1] as usize];
        if rules.is_empty() {
            return None;
        }
        let dtype = match n.op {
            Op::Lt | Op::Eq | Op::Ne => n.src.first().map_or(n.dtype, |s| s.dtype),
            _ => n.dtype,
        };
        let src_ops = n.src_ops();
        for e in rules {
            if !e.types.has(dtype) || !src_ops.has_all(e.needs) {
                continue;
            }
            let r = match e.apply {
                Apply::Pure(f) => f(n),
                Apply::Ctx(f) => f(n, ctx),
            };
            if let Some(r) = r
                && accepted(&r)
            {
                return Some((r, e.fired));
            }
        }
        None
    }
    /// What the first rule that applies gives for the node: for tables that give something else than nodes.
    pub fn find(&self, n: &UOp, ctx: &mut C) -> Option<R> {
        self.first(n, ctx, |_| true).map(|r| r.0)
    }
    /// Whether any rule has this op at its root.
    #[inline]
    pub fn has_rules(&self, op: Op) -> bool {
        self.start[op as usize] != self.start[op as usize + 1]
    }
}

impl<C> Matcher<C> {
    /// Refuse replacements of another shape: a rule about values does not know that a constant is a scalar.
    pub fn keeping_shape(mut self) -> Matcher<C> {
        self.keeps_shape = true;
        self
    }
    /// What the first rule that applies makes of the node; `None` if none applies.
    #[inline]
    pub fn apply(&self, n: &UOp, ctx: &mut C) -> Option<UOp> {
        self.apply_named(n, ctx).map(|r| r.0)
    }
    /// As [`Matcher::apply`], with the rule.
    #[inline]
    pub fn apply_named(&self, n: &UOp, ctx: &mut C) -> Option<(UOp, Fired)> {
        self.first(n, ctx, |r| r != n && !(self.keeps_shape && reshapes(n, r)))
    }
}

#[inline]
fn reshapes(n: &UOp, r: &UOp) -> bool {
    n.try_shape().is_some_and(|s| !s.is_empty()) && n.try_shape() != r.try_shape()
}

/// The sources of a node in order, or a swapped pair.
#[doc(hidden)]
pub trait Kids {
    fn kid(&self, i: usize) -> Option<&UOp>;
    fn count(&self) -> usize;
}
impl Kids for &UOp {
    #[inline(always)]
    fn kid(&self, i: usize) -> Option<&UOp> {
        self.src.get(i)
    }
    #[inline(always)]
    fn count(&self) -> usize {
        self.src.len()
    }
}
impl Kids for [&UOp; 2] {
    #[inline(always)]
    fn kid(&self, i: usize) -> Option<&UOp> {
        self.get(i).copied()
    }
    #[inline(always)]
    fn count(&self) -> usize {
        2
    }
}

/// A table of rules; the module describes the notation.
#[macro_export]
macro_rules! rules {
    ( $(#[$m:meta])* $vis:vis $NAME:ident $(for $kind:ident)? ; $($rows:tt)* ) => {
        $crate::__table!{ [$(#[$m])*] $vis $NAME [] (()) ($crate::UOp) [$($kind)?] $($rows)* }
    };
    ( $(#[$m:meta])* $vis:vis $NAME:ident ( $ctx:ident : $C:ty ) $(for $kind:ident)? ; $($rows:tt)* ) => {
        $crate::__table!{ [$(#[$m])*] $vis $NAME [$ctx] ($C) ($crate::UOp) [$($kind)?] $($rows)* }
    };
    ( $(#[$m:meta])* $vis:vis $NAME:ident ( $ctx:ident : $C:ty ) -> $R:ident ; $($rows:tt)* ) => {
        $crate::__table!{ [$(#[$m])*] $vis $NAME [$ctx] ($C) ($R) [] $($rows)* }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __table {
    ( [$($m:tt)*] $vis:vis $NAME:ident $ctx:tt ($($C:tt)*) ($($R:tt)*) [$($kind:ident)?]
      $( $op:tt $args:tt $(as $root:ident)? $(if $guard:expr)? => $rhs:expr ; )* ) => {
        $($m)*
        #[allow(clippy::all, unused_variables, unused_parens)]
        $vis static $NAME: $crate::rules::RuleSet<$($C)*, $($R)*> = $crate::rules::RuleSet {
            head: &$crate::rules::Table { name: stringify!($NAME), file: file!() },
            types: $crate::__types!($($kind)?), rules: &[ $(
            $crate::rules::Rule {
                // before all others that name `$op`: the first use of a token keeps its place
                line: || $crate::__line!($op),
                text: stringify!($op $args),
                whole: concat!(
                    stringify!($op $args), $(" as ", stringify!($root),)? $(" if ", stringify!($guard),)? " => ", stringify!($rhs)
                ),
                roots: $crate::__roots!($op),
                needs: $crate::__needs!($args),
                pattern: $crate::__pat!(@op $op $args ""),
                apply: $crate::__apply!($ctx n {
                    $(let $root = n;)?
                    $crate::__args!{ n $args [] { if true $(&& $guard)? {
                        if let Some(r) = $crate::rules::IntoRewrite::into_rewrite($rhs) { return Some(r) }
                    } } }
                    None
                }),
            }, )* ] };
    };
}
#[doc(hidden)]
#[macro_export]
macro_rules! __line {
    ($op:expr) => {{
        use $crate::op::names::*;
        $crate::written::line_of($op)
    }};
}
#[doc(hidden)]
#[macro_export]
macro_rules! __apply {
    ([] $n:ident $body:block) => {
        $crate::rules::Apply::Pure(|$n| $body)
    };
    ([$ctx:ident] $n:ident $body:block) => {
        $crate::rules::Apply::Ctx(|$n, $ctx| $body)
    };
}
#[doc(hidden)]
#[macro_export]
macro_rules! __types {
    () => {
        $crate::rules::Types::any
    };
    ($kind:ident) => {
        $crate::rules::Types::$kind
    };
}
#[doc(hidden)]
#[macro_export]
macro_rules! __roots {
    ( ( $($op:ident)|+ ) ) => { $crate::OpSet::any(&[$($crate::OpSet::$op),+]) };
    ( $op:ident ) => { $crate::OpSet::of(&[$crate::Op::$op]) };
}

// which ops must occur among the sources: the cheap filter before the pattern runs
#[doc(hidden)]
#[macro_export]
macro_rules! __needs {
    ( ( $($t:tt)* ) ) => { $crate::__needs!(@ [] $($t)*) };
    ( [ $($t:tt)* ] ) => { $crate::__needs!(@ [] $($t)*) };
    (@ [ $($o:ident)* ]) => { $crate::OpSet::of(&[$($crate::Op::$o),*]) };
    (@ $acc:tt , $($r:tt)*) => { $crate::__needs!(@ $acc $($r)*) };
    (@ $acc:tt _ $($r:tt)*) => { $crate::__needs!(@ $acc $($r)*) };
    (@ $acc:tt .. $($r:tt)*) => { $crate::__needs!(@ $acc $($r)*) };
    (@ $acc:tt as $x:ident $($r:tt)*) => { $crate::__needs!(@ $acc $($r)*) };
    (@ $acc:tt = $x:ident $($r:tt)*) => { $crate::__needs!(@ $acc $($r)*) };
    (@ [ $($o:ident)* ] # $x:ident $($r:tt)*) => { $crate::__needs!(@ [ $($o)* Const ] $($r)*) };
    (@ [ $($o:ident)* ] $l:literal $($r:tt)*) => { $crate::__needs!(@ [ $($o)* Const ] $($r)*) };
    (@ $acc:tt ( $($op:ident)|+ ) $a:tt $($r:tt)*) => { $crate::__needs!(@ $acc $($r)*) };
    (@ [ $($o:ident)* ] $op:ident ( $($a:tt)* ) $($r:tt)*) => { $crate::__needs!(@ [ $($o)* $op ] $($r)*) };
    (@ [ $($o:ident)* ] $op:ident [ $($a:tt)* ] $($r:tt)*) => { $crate::__needs!(@ [ $($o)* $op ] $($r)*) };
    (@ $acc:tt $x:ident $($r:tt)*) => { $crate::__needs!(@ $acc $($r)*) };
}

// match the sources of $n against an argument list, then the remaining goals, then run $leaf
#[doc(hidden)]
#[macro_export]
macro_rules! __args {
    ( $n:ident ( $($t:tt)* ) $goals:tt $leaf:tt ) => { $crate::__seq!{ $n (0usize) [ $($t)* ] $goals $leaf } };
    ( $n:ident [ $($t:tt)* ] $goals:tt $leaf:tt ) => {
        if let [p, q] = &$n.src[..] { for kids in [[p, q], [q, p]] { $crate::__seq!{ kids (0usize) [ $($t)* ] $goals $leaf } } }
    };
}
#[doc(hidden)]
#[macro_export]
macro_rules! __seq {
    ( $n:ident ($i:expr) [] $g:tt $leaf:tt ) => { if $crate::rules::Kids::count(&$n) == $i { $crate::__goals!{ $g $leaf } } };
    ( $n:ident ($i:expr) [ .. ] $g:tt $leaf:tt ) => { $crate::__goals!{ $g $leaf } };
    ( $n:ident ($i:expr) [ , $($r:tt)* ] $($k:tt)* ) => { $crate::__seq!{ $n ($i) [ $($r)* ] $($k)* } };
    ( $n:ident ($i:expr) [ _ $($r:tt)* ] $($k:tt)* ) => {
        if $crate::rules::Kids::count(&$n) > $i { $crate::__seq!{ $n ($i + 1) [ $($r)* ] $($k)* } }
    };
    ( $n:ident ($i:expr) [ # $c:ident $($r:tt)* ] $($k:tt)* ) => {
        if let Some($c) = $crate::rules::Kids::kid(&$n, $i).and_then($crate::UOp::as_int) { $crate::__seq!{ $n ($i + 1) [ $($r)* ] $($k)* } }
    };
    ( $n:ident ($i:expr) [ = $x:ident $($r:tt)* ] $($k:tt)* ) => {
        if $crate::rules::Kids::kid(&$n, $i) == Some($x) { $crate::__seq!{ $n ($i + 1) [ $($r)* ] $($k)* } }
    };
    ( $n:ident ($i:expr) [ $l:literal $($r:tt)* ] $($k:tt)* ) => {
        if $crate::rules::Kids::kid(&$n, $i).is_some_and(|k| $crate::rules::Literal::is(&$l, k)) { $crate::__seq!{ $n ($i + 1) [ $($r)* ] $($k)* } }
    };
    ( $n:ident ($i:expr) [ ( $($op:ident)|+ ) $a:tt as $x:ident $($r:tt)* ] $g:tt $leaf:tt ) => { $crate::__sub!{ $n ($i) ($($op)|+) $a $x [ $($r)* ] $g $leaf } };
    ( $n:ident ($i:expr) [ ( $($op:ident)|+ ) $a:tt $($r:tt)* ] $g:tt $leaf:tt ) => { $crate::__sub!{ $n ($i) ($($op)|+) $a sub [ $($r)* ] $g $leaf } };
    ( $n:ident ($i:expr) [ $op:ident ( $($a:tt)* ) as $x:ident $($r:tt)* ] $g:tt $leaf:tt ) => { $crate::__sub!{ $n ($i) ($op) ( $($a)* ) $x [ $($r)* ] $g $leaf } };
    ( $n:ident ($i:expr) [ $op:ident [ $($a:tt)* ] as $x:ident $($r:tt)* ] $g:tt $leaf:tt ) => { $crate::__sub!{ $n ($i) ($op) [ $($a)* ] $x [ $($r)* ] $g $leaf } };
    ( $n:ident ($i:expr) [ $op:ident ( $($a:tt)* ) $($r:tt)* ] $g:tt $leaf:tt ) => { $crate::__sub!{ $n ($i) ($op) ( $($a)* ) sub [ $($r)* ] $g $leaf } };
    ( $n:ident ($i:expr) [ $op:ident [ $($a:tt)* ] $($r:tt)* ] $g:tt $leaf:tt ) => { $crate::__sub!{ $n ($i) ($op) [ $($a)* ] sub [ $($r)* ] $g $leaf } };
    ( $n:ident ($i:expr) [ $x:ident $($r:tt)* ] $($k:tt)* ) => {
        if let Some($x) = $crate::rules::Kids::kid(&$n, $i) { $crate::__seq!{ $n ($i + 1) [ $($r)* ] $($k)* } }
    };
}
// a nested op: match it now (depth first), the rest of this list becomes a goal
#[doc(hidden)]
#[macro_export]
macro_rules! __sub {
    ( $n:ident ($i:expr) ($($op:ident)|+) $args:tt $x:ident $rest:tt [ $($g:tt)* ] $leaf:tt ) => {
        if let Some($x) = $crate::rules::Kids::kid(&$n, $i) {
            if const { $crate::OpSet::any(&[$($crate::OpSet::$op),+]) }.has($x.op) { $crate::__args!{ $x $args [ ($n ($i + 1) $rest) $($g)* ] $leaf } }
        }
    };
}
#[doc(hidden)]
#[macro_export]
macro_rules! __goals {
    ( [] $leaf:tt ) => { $leaf };
    ( [ ($n:ident ($i:expr) $rest:tt) $($g:tt)* ] $leaf:tt ) => { $crate::__seq!{ $n ($i) $rest [ $($g)* ] $leaf } };
}

// the same pattern as data
#[doc(hidden)]
#[macro_export]
macro_rules! __pat {
    (@op ( $($op:ident)|+ ) $a:tt $name:expr) => { $crate::__pat!(@node [$($op)+] $a $name) };
    (@op $op:ident $a:tt $name:expr) => { $crate::__pat!(@node [$op] $a $name) };
    (@node [$($op:ident)+] ( $($t:tt)* ) $name:expr) => {
        $crate::rules::Pat::Op { ops: $crate::OpSet::any(&[$($crate::OpSet::$op),+]), args: $crate::__pat!(@args [] $($t)*), either: false, name: $name }
    };
    (@node [$($op:ident)+] [ $($t:tt)* ] $name:expr) => {
        $crate::rules::Pat::Op { ops: $crate::OpSet::any(&[$($crate::OpSet::$op),+]), args: $crate::__pat!(@args [] $($t)*), either: true, name: $name }
    };
    (@args [ $($p:expr,)* ]) => { &[$($p),*] };
    (@args [ $($p:expr,)* ] , $($r:tt)*) => { $crate::__pat!(@args [ $($p,)* ] $($r)*) };
    (@args [ $($p:expr,)* ] .. $($r:tt)*) => { $crate::__pat!(@args [ $($p,)* $crate::rules::Pat::Rest, ] $($r)*) };
    (@args [ $($p:expr,)* ] _ $($r:tt)*) => { $crate::__pat!(@args [ $($p,)* $crate::rules::Pat::Any, ] $($r)*) };
    (@args [ $($p:expr,)* ] # $c:ident $($r:tt)*) => { $crate::__pat!(@args [ $($p,)* $crate::rules::Pat::Const(stringify!($c)), ] $($r)*) };
    (@args [ $($p:expr,)* ] = $x:ident $($r:tt)*) => { $crate::__pat!(@args [ $($p,)* $crate::rules::Pat::Same(stringify!($x)), ] $($r)*) };
    (@args [ $($p:expr,)* ] $l:literal $($r:tt)*) => { $crate::__pat!(@args [ $($p,)* $crate::rules::Pat::Literal(&$l), ] $($r)*) };
    (@args [ $($p:expr,)* ] ( $($op:ident)|+ ) $a:tt as $x:ident $($r:tt)*) => { $crate::__pat!(@args [ $($p,)* $crate::__pat!(@node [$($op)+] $a stringify!($x)), ] $($r)*) };
    (@args [ $($p:expr,)* ] ( $($op:ident)|+ ) $a:tt $($r:tt)*) => { $crate::__pat!(@args [ $($p,)* $crate::__pat!(@node [$($op)+] $a ""), ] $($r)*) };
    (@args [ $($p:expr,)* ] $op:ident ( $($a:tt)* ) as $x:ident $($r:tt)*) => { $crate::__pat!(@args [ $($p,)* $crate::__pat!(@node [$op] ( $($a)* ) stringify!($x)), ] $($r)*) };
    (@args [ $($p:expr,)* ] $op:ident [ $($a:tt)* ] as $x:ident $($r:tt)*) => { $crate::__pat!(@args [ $($p,)* $crate::__pat!(@node [$op] [ $($a)* ] stringify!($x)), ] $($r)*) };
    (@args [ $($p:expr,)* ] $op:ident ( $($a:tt)* ) $($r:tt)*) => { $crate::__pat!(@args [ $($p,)* $crate::__pat!(@node [$op] ( $($a)* ) ""), ] $($r)*) };
    (@args [ $($p:expr,)* ] $op:ident [ $($a:tt)* ] $($r:tt)*) => { $crate::__pat!(@args [ $($p,)* $crate::__pat!(@node [$op] [ $($a)* ] ""), ] $($r)*) };
    (@args [ $($p:expr,)* ] $x:ident $($r:tt)*) => { $crate::__pat!(@args [ $($p,)* $crate::rules::Pat::Name(stringify!($x)), ] $($r)*) };
}
