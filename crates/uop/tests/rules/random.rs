//! Random expressions: simplified equals unsimplified, and every value is within its bounds.

use crate::sample::{Env, Sample, Value};
use crate::{lt, not, show};
use frit_uop::symbolic::{simplify, simplify_given};
use frit_uop::{DType, UOp, rewrite};

fn check_same(x: &UOp, y: &UOp, gate: Option<&UOp>, seed: u64) {
    for assignment in 0..24 {
        let mut env = Env::new(seed * 1000 + assignment);
        if gate.is_some_and(|g| env.eval(g, 0) != Value::Is(frit_uop::Scalar::Bool(true))) {
            continue;
        }
        let (a, b) = (env.eval(x, 0), env.eval(y, 0));
        if a != Value::Undefined && b != Value::Undefined {
            let given = gate.map_or(String::new(), |g| format!(" given {}", show(g)));
            assert!(a == b, "seed {seed}: {}\n  => {}{given}\n  {a:?} became {b:?}", show(x), show(y));
        }
    }
}

fn run(types: &[DType], seeds: std::ops::Range<u64>, depth: usize) {
    for seed in seeds {
        let d = types[seed as usize % types.len()];
        let x = Sample::new(seed, if d == DType::Bool { DType::Index } else { d }).value(d, depth);
        let y = simplify(&x);
        if let Some(e) = rewrite::take_error() {
            panic!("seed {seed}: {} loops: {e}", show(&x));
        }
        assert_eq!(x.dtype, y.dtype);
        check_same(&x, &y, None, seed);
        assert!(simplify(&y) == y, "seed {seed}: {} is not final", show(&y));
    }
}

#[test]
fn indices_and_bools_keep_their_value() {
    run(&[DType::Index, DType::Index, DType::Bool], 0..6000, 4);
}
#[test]
fn wrapping_integers_keep_their_value() {
    use DType::*;
    run(&[I8, I32, I64, U8, U32, U64, I16, U16], 10_000..14_000, 4);
}
#[test]
fn floats_keep_their_bits() {
    run(&[DType::F32, DType::F64, DType::F16], 20_000..22_000, 4);
}
#[test]
fn gated_indices_keep_their_value_and_their_gate() {
    for seed in 30_000..33_000 {
        let mut s = Sample::new(seed, DType::Index);
        let mut x = s.value(DType::Index, 2);
        for _ in 0..3 {
            let g = s.value(DType::Bool, 2);
            x = g.select(&x, &UOp::invalid()) * 3 + s.value(DType::Index, 1);
        }
        let y = simplify(&x);
        if let Some(e) = rewrite::take_error() {
            panic!("seed {seed}: {} loops: {e}", show(&x));
        }
        check_same(&x, &y, None, seed);
        let gates = y.toposort().iter().filter(|n| n.op == frit_uop::Op::Invalid).count();
        assert!(
            gates == 0 || y.op == frit_uop::Op::Invalid || y.src[2].op == frit_uop::Op::Invalid,
            "{}",
            show(&y)
        );
    }
}
#[test]
fn what_a_condition_gives_holds_where_it_does() {
    for seed in 40_000..43_000 {
        let mut s = Sample::new(seed, DType::Index);
        let x = s.value(DType::Index, 3);
        let (a, b) = (s.value(DType::Index, 1), s.value(DType::Index, 1));
        let mut g = if s.rng.chance(50) { lt(&(&a + &b), 9) } else { lt(&a, 4) };
        if s.rng.chance(50) {
            g = g.and_(&not(&lt(&b, 1)));
        }
        let g = simplify(&g);
        let y = simplify_given(&x, &g);
        if let Some(e) = rewrite::take_error() {
            panic!("seed {seed}: {} loops: {e}", show(&x));
        }
        check_same(&x, &y, Some(&g), seed);
    }
}
