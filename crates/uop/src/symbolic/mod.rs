//! Symbolic algebra: the rules that hold for values whatever the pass.
//!
//! In: any graph of kernel or tensor arithmetic. Out: the same values from fewer and cheaper nodes, in canonical form,
//! so that equal expressions are equal nodes:
//! - constants to the right, operands of commutative integer ops in a fixed order ([`sum::order`])
//! - sums lean to the left, each term once, the constant last; no `Sub` or `Neg` of `Index` values
//! - comparisons of integers as `sum < c` or `!(sum < c)`; `Not` only on leaves and `Lt`
//! - an index has at most one gate, outermost: `Where(gate, i, Invalid)`
//!
//! **Numeric contract.** Integer arithmetic wraps and every integer rule is right for that; `Index` values do not
//! overflow. Floats have a short table of exact rules ([`identity::FLOAT`]); nothing else touches them. The shape of a
//! node does not change.
//!
//! One file per subject: [`fold`] constants and vectors of them, [`identity`] what needs no thought, [`sum`],
//! [`divmod`], [`compare`], [`logic`] for bools and `Where`, [`convert`] for casts, [`gate`] for `Invalid` and memory,
//! [`given`] for what follows from a condition, [`size`] for sizes with bound variables.

pub mod fold;
pub mod identity;
pub mod sum;
pub mod divmod;
pub mod compare;
pub mod logic;
pub mod convert;
pub mod gate;
pub mod given;
pub mod size;

use crate::node::UOp;
use crate::rules::{Matcher, RuleSet};
use frit_abi::sync::LazyLock;

pub use given::simplify_given;

/// Every table, in the order rules are tried.
pub static TABLES: &[&RuleSet<()>] = &[
    &gate::INVALID, // before bounds decide anything: an invalid index has none
    &fold::CONSTANTS,
    &identity::ANY,
    &identity::INT,
    &identity::BITS,
    &identity::INDEX,
    &identity::FLOAT,
    &logic::BOOL,
    &logic::SELECT,
    &logic::ARITHMETIC,
    &convert::CAST_CHAINS,
    &convert::CASTS,
    &gate::MEMORY,
    &gate::EFFECTS,
    &given::NARROW,
];

static MATCHER: LazyLock<Matcher<()>> = LazyLock::new(|| Matcher::new(TABLES, &[]).keeping_shape());

/// All of the algebra, compiled.
pub fn matcher() -> &'static Matcher<()> {
    &MATCHER
}

/// The simplest form of a graph.
pub fn simplify(x: &UOp) -> UOp {
    crate::rewrite::simplify(x, &MATCHER)
}
