//! The notation means what it says, and the drivers reach a fixed point.

use frit_uop::rewrite::{self, rewrite};
use frit_uop::rules::Matcher;
use frit_uop::{Alu, DType, Op, UOp, rules};

rules! { IDENTITY for int;
    Add[x, 0]                       => x;
    Mul[x, 1]                       => x;
    Mul[Mul[x, #a], #b]             => x * a.wrapping_mul(b);
    Add[Mul[x, #a], =x]             => x * (a + 1);
    (Max|Min)(x, =x)                => x;
    Where(_, x, =x)                 => x;
    Add[(Max|Min)(x, _) as m, Neg(y)] if x == y => m;
}
rules! { FLOATS for float;
    Mul[x, 1.0]                     => x;
    Add[x, -0.0]                    => x;
}
rules! { ENDLESS;
    Sub(x, y)                       => y - x;
}
rules! { WRAPS;
    Exp(_) as n                     => n + n;
}
rules! { COUNT(seen: Vec<i64>);
    Add(_, #c)                      => { seen.push(c); None };
    Sink(x, ..) if seen.is_empty()  => x;
}

rules! { CLASSES;
    (Unary|Cast)(Neg(x))            => x;
    (Comparison)(x, =x) as n        => UOp::boolean(n.op == Op::Eq);
}
/// What a node costs, from a table that gives no nodes.
type Cost = u32;
rules! { COSTS(scale: u32) -> Cost;
    (Binary|Comparison)(_, _) as n  => n.op.weight() * *scale;
    Where(..)                       => None;
    (Unary)(_) as n                 => Some(n.op.weight() * *scale);
}

fn x() -> UOp {
    UOp::variable("x", 0, 9)
}
fn run(n: &UOp) -> UOp {
    rewrite(n, &Matcher::new(&[&IDENTITY, &FLOATS], &[]), &mut ())
}

#[test]
fn sources_match_in_either_order_and_constants_bind() {
    assert_eq!(run(&(UOp::index(0) + x())), x());
    assert_eq!(run(&((UOp::index(2) * x()) * 3)), x() * 6);
    assert_eq!(run(&(x() + UOp::index(4) * x())), x() * 5);
    let y = UOp::variable("y", 0, 9);
    let m = x().bin(Alu::Max, &y);
    assert_eq!(run(&(&m + x().un(Alu::Neg))), m);
    let kept = &m + y.un(Alu::Neg);
    assert_eq!(run(&kept), kept);
}
#[test]
fn tables_keep_to_their_types_and_floats_compare_by_bits() {
    let f = UOp::param(0, 4, DType::F32).at(&UOp::index(0)).load();
    for (c, folds) in [(0.0, false), (-0.0, true)] {
        let n = &f + UOp::float(c, DType::F32);
        assert_eq!(run(&n) == f, folds);
    }
    assert_eq!(run(&(&f * UOp::float(1.0, DType::F32))), f);
    let i = UOp::param(0, 4, DType::I32).at(&UOp::index(0)).load();
    assert_eq!(run(&(&i * 1)), i);
}
#[test]
fn replacements_are_rewritten_and_deep_graphs_do_not_recurse() {
    let mut n = x();
    for _ in 0..300_000 {
        n = (n + 0) * 1;
    }
    assert_eq!(run(&n), x());
}
#[test]
fn a_loop_is_reported_by_name_and_gives_the_input_back() {
    let n = (x() - UOp::variable("z", 0, 3)) * 2;
    for (table, text) in [(&ENDLESS, "Sub"), (&WRAPS, "Exp")] {
        let n = if text == "Exp" { x().un(Alu::Exp) } else { n.clone() };
        assert_eq!(rewrite(&n, &Matcher::new(&[table], &[]), &mut ()), n);
        let e = rewrite::take_error().expect("a loop");
        assert!(e.to_string().contains(text) && e.to_string().contains(table.head.name), "{e}");
    }
    assert!(rewrite::take_error().is_none());
}
#[test]
fn every_shared_node_is_visited_once_and_the_context_is_passed() {
    let a = x() + 1;
    let n = UOp::sink([&a * &a, a.clone(), a + 2]);
    let mut seen = vec![];
    assert_eq!(rewrite(&n, &Matcher::new(&[], &[&COUNT]), &mut seen), n);
    assert_eq!(seen, [1, 2]);
}
#[test]
fn applications_are_recorded_only_when_asked() {
    let n = (x() * 2) * 3 + 0;
    let (r, log) = rewrite::trace(|| run(&n));
    assert_eq!(r, x() * 6);
    assert_eq!(log.iter().map(|a| a.rule.table.name).collect::<Vec<_>>(), ["IDENTITY", "IDENTITY"]);
    assert_eq!(log[1].after, r);
    assert!(log[0].rule.rule.starts_with("Mul"));
    run(&(x() + 0));
    assert!(rewrite::trace(|| ()).1.is_empty());
}
#[test]
fn rules_match_classes_of_ops_and_may_give_something_else_than_nodes() {
    let (m, y) = (Matcher::new(&[&CLASSES], &[]), UOp::variable("y", 0, 9));
    assert_eq!(m.apply(&x().un(Alu::Neg).un(Alu::Floor), &mut ()), Some(x()));
    assert_eq!(m.apply(&x().un(Alu::Neg).cast(DType::I32), &mut ()), Some(x()));
    assert_eq!(m.apply(&x().lt(&x()), &mut ()), Some(UOp::boolean(false)));
    assert_eq!(m.apply(&x().lt(&y), &mut ()), None);
    assert_eq!(m.apply(&(x() + x()), &mut ()), None);
    let costs: Matcher<u32, Cost> = Matcher::new(&[], &[&COSTS]);
    assert_eq!(costs.find(&x().bin(Alu::Idiv, &y), &mut 2), Some(8));
    assert_eq!(costs.find(&x().un(Alu::Exp), &mut 1), Some(16));
    assert_eq!(costs.find(&x().lt(&y).select(&x(), &y), &mut 1), None);
}
