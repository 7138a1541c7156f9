//! What index expressions must come to.

use crate::{div, lt, not, range, rem, show, var};
use frit_uop::symbolic::{simplify, simplify_given};
use frit_uop::{Alu, Arg, DType, Op, UOp, rewrite};

#[track_caller]
fn check(from: &UOp, to: &UOp) {
    let got = simplify(from);
    if let Some(e) = rewrite::take_error() {
        panic!("{} loops: {e}", show(from));
    }
    assert!(got == *to, "{}\n  became {}\n  not    {}", show(from), show(&got), show(to));
    assert!(simplify(&got) == got, "{} is not its own simplest form", show(&got));
}
#[track_caller]
fn check_text(from: &UOp, to: &str) {
    assert_eq!(show(&simplify(from)), to, "from {}", show(from));
}

#[test]
fn reshape_round_trips_vanish() {
    let (i, j) = (range(0, 16), range(1, 32));
    check(&div(&(&i * 32 + &j), 32), &i);
    check(&rem(&(&i * 32 + &j), 32), &j);
    let (i, j, k) = (range(0, 7), range(1, 3), range(2, 5));
    let flat = (&i * 3 + &j) * 5 + &k;
    check(&rem(&div(&flat, 5), 3), &j);
    check(&div(&flat, 15), &i);
    check(&rem(&flat, 5), &k);
    check(&rem(&flat, 15), &(&j * 5 + &k));
    let (i, j) = (range(0, 8), range(1, 4));
    check(&rem(&div(&(&i * 4 + &j), 2), 2), &div(&j, 2));
    check(&div(&(&i * 4 + &j), 8), &div(&i, 2));
}
#[test]
fn quotient_and_remainder_come_together() {
    let x = var("x", 0, 1000);
    check(&(div(&x, 4) * 4 + rem(&x, 4)), &x);
    check(&(rem(&x, 4) * 3 + div(&x, 4) * 12), &(&x * 3));
    check(&(rem(&div(&x, 4), 8) * 4 + rem(&x, 4)), &rem(&x, 32));
    check(&(rem(&div(&x, 4), 8) * 4 + rem(&x, 4) + div(&x, 32) * 32), &x);
    let y = &x - 500;
    check(&(div(&y, 7) * 7 + rem(&y, 7)), &(&x + -500));
    // three-way split of a flat index and back
    let f = var("f", 0, 3 * 5 * 7 - 1);
    check(&(div(&f, 35) * 35 + rem(&div(&f, 7), 5) * 7 + rem(&f, 7)), &f);
    check(&((div(&f, 35) * 5 + rem(&div(&f, 7), 5)) * 7 + rem(&f, 7)), &f);
}
#[test]
fn negative_numerators_floor() {
    let x = var("x", -10, 10);
    check(&div(&(&x * 4 - 1), 4), &(&x + -1));
    check(&rem(&(&x * 4 - 1), 4), &UOp::index(3));
    let r = range(0, 4);
    check(&div(&(&r - 4), 4), &UOp::index(-1));
    check(&rem(&(&r - 4), 4), &r);
    // a flipped axis: 31 - i in rows of 4 is row 7 - i//4 only in blocks; it must stay a division with numerator >= 0
    let i = range(1, 32);
    let flipped = simplify(&div(&(UOp::index(31) - &i), 4));
    let numerator = flipped.toposort().into_iter().find(|n| n.op == Op::Idiv).unwrap().src[0].clone();
    assert!(numerator.bounds.0 >= 0, "{}", show(&flipped));
    let (a, b) = (range(1, 8), range(2, 4));
    check(&div(&(UOp::index(31) - (&a * 4 + &b)), 4), &(&a * -1 + 7));
    check(&rem(&(UOp::index(31) - (&a * 4 + &b)), 4), &(&b * -1 + 3));
    check(&x.floordiv(&UOp::index(-1)), &(&x * -1));
}
#[test]
fn sums_collect_and_cancel() {
    let (x, y) = (var("x", 0, 9), var("y", 0, 9));
    check(&(&x * 2 + &x * 3), &(&x * 5));
    check(&(&x + &y - &x), &y);
    check(&(UOp::index(3) + &y + &x + 4), &(&x + &y + 7));
    check(&((&x + &y) * 4 - &y * 4), &(&x * 4));
    check(&((&x - &y) + (&y - &x)), &UOp::index(0));
    check(&(&y + &x), &(&x + &y));
    let i = UOp::param(0, 4, DType::I32).at(&UOp::index(0)).load();
    check(&(&i * 2 + &i * 3 - &i * 5), &UOp::int(0, DType::I32));
}
#[test]
fn comparisons_are_decided_or_reduced() {
    let (i, j, x) = (range(0, 8), range(1, 32), var("x", 0, 100));
    check(&lt(&(&i * 32 + &j), 64), &lt(&i, 2));
    check(&lt(&(&x * 4 + 3), 12), &lt(&x, 3));
    check(&lt(&div(&x, 4), 3), &lt(&x, 12));
    check(&lt(&(&i * 32 + &j), 256), &UOp::boolean(true));
    check(&UOp::index(5).lt(&x), &not(&lt(&x, 6)));
    check(&lt(&(&x * -1), -5), &not(&lt(&x, 6)));
    check(&(&x + 1).lt(&x), &UOp::boolean(false));
    check(&(&x + &j).lt(&(&x + 3)), &lt(&j, 3));
    check(&(&x * 2 + 1).eq_(&UOp::index(4)), &UOp::boolean(false));
    check(&(&x * 2 + 1).eq_(&UOp::index(5)), &x.eq_(&UOp::index(2)));
    check(&(&x + &j).ne_(&(&j + 7)), &x.ne_(&UOp::index(7)));
    check(&x.bin(Alu::Max, &UOp::index(0)), &x);
    check(&x.bin(Alu::Min, &UOp::index(100)), &x);
}
#[test]
fn gates_become_one_and_simplify_what_is_behind_them() {
    let (x, k) = (range(0, 28), range(1, 3));
    let at = &x + &k;
    let gate = not(&lt(&at, 1)).and_(&lt(&at, 29));
    let conv = gate.select(&(&at - 1), &UOp::invalid());
    let flat = simplify(&(&conv * 28 + range(2, 28)));
    assert_eq!(flat.op, Op::Where);
    assert_eq!(flat.src[2], UOp::invalid());
    check_text(&flat.src[1], "(((r0*28+r1*28)+r2)+-28)");
    check_text(&flat.src[0], "And(!((r0+r1)<1), ((r0+r1)<29))");
    // two padded dims: one gate
    let y = lt(&x, 20).select(&x, &UOp::invalid());
    let z = not(&lt(&k, 1)).select(&k, &UOp::invalid());
    check_text(&(&y * 3 + &z), "Where(And((r0<20), !(r1<1)), (r0*3+r1), Invalid())");
    // the gate narrows the index
    let wrapped = lt(&x, 5).select(&rem(&(&x + 3), 8), &UOp::invalid());
    check(&wrapped, &lt(&x, 5).select(&(&x + 3), &UOp::invalid()));
    // and one conjunct another
    let g = lt(&x, 5).and_(&lt(&rem(&(&x + 3), 8), 6));
    check(&g, &lt(&x, 3));
    // always true, never true
    check(&lt(&x, 28).select(&x, &UOp::invalid()), &x);
    check(&lt(&x, 0).select(&x, &UOp::invalid()), &UOp::invalid());
}
#[test]
fn a_condition_narrows_sums_too() {
    let (a, b) = (range(0, 8), range(1, 8));
    let s = &a + &b;
    assert_eq!(simplify_given(&div(&s, 4), &lt(&s, 4)), UOp::index(0));
    assert_eq!(simplify_given(&rem(&s, 8), &lt(&s, 8)), s);
    assert_eq!(simplify_given(&rem(&(&s + 3), 16), &lt(&s, 8)), simplify(&(&s + 3)));
    let g = not(&lt(&s, 4)).and_(&lt(&s, 8));
    assert_eq!(simplify_given(&div(&s, 4), &g), UOp::index(1));
    assert_eq!(simplify_given(&rem(&a, 4), &lt(&s, 4)), a);
    assert_eq!(simplify_given(&lt(&a, 5), &lt(&a, 3)), UOp::boolean(true));
    assert_eq!(simplify_given(&(&a + 1), &a.eq_(&UOp::index(2))), UOp::index(3));
    let flag = UOp::param(0, 1, DType::Bool).at(&UOp::index(0)).load();
    assert_eq!(simplify_given(&flag.select(&a, &b), &not(&flag).and_(&lt(&a, 3))), b);
    // an index behind a load is used whether the gate holds or not
    let l = UOp::param(0, 8, DType::Index).at(&rem(&a, 4)).load();
    assert_eq!(simplify_given(&(&l + 1), &lt(&a, 4)), simplify(&(&l + 1)));
}
#[test]
fn choices_fold() {
    let (x, y) = (var("x", 0, 9), var("y", 0, 9));
    let (c, d) = (lt(&x, 3), lt(&y, 3));
    check(&c.select(&x, &x), &x);
    check(&c.select(&UOp::boolean(true), &UOp::boolean(false)), &c);
    check(&c.select(&c.select(&x, &y), &y), &c.select(&x, &y));
    check(&c.select(&d.select(&x, &y), &y), &simplify(&c.and_(&d)).select(&x, &y));
    check(&c.and_(&lt(&x, 5)), &c);
    check(&c.and_(&not(&c)), &UOp::boolean(false));
    check(&c.or_(&not(&lt(&x, 2))), &UOp::boolean(true));
    check(&c.select(&lt(&x, 5).select(&x, &y), &(&y + 1)), &c.select(&x, &(&y + 1)));
    check(&not(&c.and_(&not(&d))), &simplify(&not(&c).or_(&d)));
    check(&lt(&c.select(&UOp::index(1), &UOp::index(0)), 1), &not(&c));
}
#[test]
fn only_exact_casts_vanish() {
    let load = |d| UOp::param(0, 4, d).at(&UOp::index(0)).load();
    let (i, h, f) = (load(DType::I32), load(DType::F16), load(DType::F32));
    check(&i.cast(DType::I64).cast(DType::I32), &i);
    check(&h.cast(DType::F32).cast(DType::F16), &h);
    check(&i.cast(DType::F64).cast(DType::I32), &i);
    let lossy = [
        i.cast(DType::F32).cast(DType::I32),
        f.cast(DType::F16).cast(DType::F32),
        i.cast(DType::F64).cast(DType::I8),
        i.cast(DType::I8).cast(DType::I32),
    ];
    for n in lossy {
        check(&n, &n);
    }
    let small = var("x", 0, 100);
    check(&small.cast(DType::I32).cast(DType::Index), &small);
}
#[test]
fn accesses_of_invalid_places_vanish() {
    let buf = UOp::param(0, 8, DType::F32);
    let nowhere = buf.at(&UOp::invalid());
    check(&nowhere.load(), &UOp::float(0.0, DType::F32));
    check(
        &buf.at_lanes(&UOp::invalid(), 2).load(),
        &UOp::stack([UOp::float(0.0, DType::F32), UOp::float(0.0, DType::F32)]),
    );
    let checked = UOp::new(Op::Load, DType::F32, [nowhere.clone()], Arg::Site(3));
    check(&checked, &checked);
    let r = range(0, 4);
    let kept = UOp::new(
        Op::End,
        DType::Void,
        [buf.at(&r).store(&UOp::float(1.0, DType::F32)), r.clone()],
        Arg::None,
    );
    let gone = UOp::new(Op::End, DType::Void, [nowhere.store(&UOp::float(1.0, DType::F32)), r], Arg::None);
    check(&UOp::sink([gone, kept.clone()]), &UOp::sink([kept]));
}
#[test]
fn vectors_fold_and_keep_their_shape() {
    let v = UOp::stack((0..4).map(UOp::index));
    check(&(&v * 2 + 1).lane(2), &UOp::index(5));
    check(&(&v * 2 + 1), &UOp::stack([1, 3, 5, 7].map(UOp::index)));
    let x = UOp::param(0, 8, DType::I32).at_lanes(&UOp::index(0), 4).load();
    check(&UOp::stack((0..4).map(|i| x.lane(i))), &x);
    let zero = simplify(&(&x - &x));
    assert_eq!(zero.try_shape(), x.try_shape());
}
#[test]
fn symbolic_sizes_divide() {
    let t = var("t", 1, 128);
    let j = UOp::range(&t, 1, frit_uop::AxisKind::Loop);
    let i = range(0, 4);
    let flat = &i * &t + &j;
    check(&flat.floordiv(&t), &i);
    check(&flat.modulo(&t), &j);
    check(&j.lt(&t), &UOp::boolean(true));
    check(&t.lt(&(&j + 1)), &UOp::boolean(false));
    check(&flat.lt(&(&t * 4)), &UOp::boolean(true));
    let (u, v) = (var("u", 1, 16), UOp::range(&var("u", 1, 16), 3, frit_uop::AxisKind::Loop));
    let cube = (&i * &t + &j) * &u + &v;
    check(&cube.floordiv(&u).modulo(&t), &j);
    check(&cube.lt(&(&t * &u * 4)), &UOp::boolean(true));
    check(&cube.floordiv(&(&t * &u)), &i);
    let k = range(2, 8);
    let flat = (&i * &t + &j) * 8 + &k;
    check(&flat.floordiv(&(&t * 8)), &i);
    check(&rem(&flat, 8), &k);
    check(&div(&flat, 8).modulo(&t), &j);
}
#[test]
fn long_sums_of_data_stay_cheap() {
    let buf = UOp::param(0, 4096, DType::I32);
    let terms: Vec<UOp> = (0..3000).map(|i| buf.at(&UOp::index(i * 7 % 4096)).load()).collect();
    let sum = terms.iter().skip(1).fold(terms[0].clone(), |a, t| a + t);
    let begin = std::time::Instant::now();
    simplify(&sum);
    assert!(begin.elapsed().as_millis() < 2000);
}
#[test]
fn floats_keep_to_the_contract() {
    let x = UOp::param(0, 8, DType::F32).at(&UOp::index(0)).load();
    let f = |v: f64| UOp::float(v, DType::F32);
    for kept in [&x * f(0.0), &x + f(0.0), &x - &x, x.bin(Alu::Fdiv, &x), (&x + f(1.0)) + f(2.0)] {
        check(&kept, &kept);
    }
    for (gone, to) in [(&x * f(1.0), &x), (f(1.0) * &x, &x), (&x + f(-0.0), &x), (&x - f(0.0), &x)] {
        check(&gone, to);
    }
    check(&x.bin(Alu::Fdiv, &f(4.0)), &(&x * f(0.25)));
    let kept = x.bin(Alu::Fdiv, &f(3.0));
    check(&kept, &kept);
    check(&(f(1.5) + f(2.0)), &f(3.5));
}
