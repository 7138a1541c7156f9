//! Every decomposition against the definition in `abi::scalar`, or for transcendental functions against the standard
//! library's float64, in units in the last place.

use super::{TABLES, for_target};
use frit_abi::alu::{AluSet, AluTypes};
use frit_abi::target::{BASIC_FLOAT, BASIC_INT};
use frit_abi::{Alu, DType, Scalar, Target};
use frit_uop::rules::{Apply, Rule};
use frit_uop::{Arg, Op, UOp};

/// A machine with the basic operations and no small floats.
fn basic() -> Target {
    Target::interp_gpu()
}

/// A graph as a list of steps over numbered values, so that many points run quickly.
struct Program {
    steps: Vec<(UOp, Vec<usize>)>,
}

impl Program {
    fn new(root: &UOp) -> Program {
        let nodes = root.toposort();
        let at: std::collections::HashMap<UOp, usize> =
            nodes.iter().enumerate().map(|(i, n)| (n.clone(), i)).collect();
        let steps = nodes.iter().map(|n| (n.clone(), n.src.iter().map(|s| at[s]).collect())).collect();
        Program { steps }
    }
    fn run(&self, inputs: &[Scalar], values: &mut Vec<Scalar>) -> Scalar {
        values.clear();
        for (n, src) in &self.steps {
            let x = |i: usize| values[src[i]];
            let v = match (n.op, &n.arg) {
                (Op::Const, Arg::Scalar(s)) => *s,
                (Op::Param, Arg::Param { slot, .. }) => inputs[*slot as usize],
                (Op::Cast, _) => x(0).cast(n.dtype),
                (Op::Bitcast, _) => Scalar::from_bits(x(0).to_bits(n.src[0].dtype), n.dtype),
                (o, _) => {
                    let alu = o.alu().unwrap_or_else(|| panic!("{n:?}"));
                    let d = if alu == Alu::Where { n.dtype } else { n.src[0].dtype };
                    let mut a = [Scalar::Int(0); 3];
                    for (a, &i) in a.iter_mut().zip(src) {
                        *a = values[i];
                    }
                    Scalar::alu(alu, d, &a[..src.len()])
                }
            };
            values.push(v);
        }
        values[values.len() - 1]
    }
}

fn input(slot: u32, d: DType) -> UOp {
    UOp::param(slot, 1, d)
}

/// Decomposed, with everything the target lacks gone.
fn lowered(x: &UOp, t: &Target) -> Program {
    let low = for_target(x, t);
    assert!(frit_uop::rewrite::take_error().is_none());
    for n in low.toposort() {
        assert!(!super::lacks(t, &n) || n.op == Op::Where, "{n:?} is left of {x:?}");
        if matches!(n.op, Op::Shl | Op::Shr) {
            let amount = n.src[1].bounds;
            assert!(0 <= amount.0 && amount.1 < n.dtype.bits() as i128, "{n:?} shifts by {amount:?}");
        }
        assert!(!n.dtype.is_small_float() || matches!(n.op, Op::Param | Op::Bitcast | Op::Where | Op::Const));
    }
    Program::new(&low)
}

/// A generator of bits.
struct Random(u64);
impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

/// How far a result is from the true value, in units of the last place of the type.
fn ulps(got: f64, want: f64, d: DType) -> f64 {
    let same = |a: f64, b: f64| a == b || a.is_nan() && b.is_nan();
    let rounded = Scalar::float(want, d).as_f64();
    if same(got, rounded) {
        let signs = got != 0.0 || got.is_sign_negative() == want.is_sign_negative();
        return if !signs {
            f64::INFINITY
        } else if want.is_finite() && rounded.is_finite() && d == DType::F32 {
            (got - want).abs() / ulp(want, d)
        } else {
            0.0
        };
    }
    if !got.is_finite() || !rounded.is_finite() {
        // the greatest number and infinity are neighbours
        let near = got.signum() == rounded.signum() && got.abs().min(rounded.abs()) > 0.9 * ulp_max(d);
        return if near && !got.is_nan() && !rounded.is_nan() { 1.0 } else { f64::INFINITY };
    }
    (got - want).abs() / ulp(want, d)
}
fn ulp_max(d: DType) -> f64 {
    if d == DType::F32 { f32::MAX as f64 } else { f64::MAX }
}
fn ulp(x: f64, d: DType) -> f64 {
    if d == DType::F32 {
        let e = ((x.abs().to_bits() >> 52) as i32 - 1023).clamp(-126, 127);
        2f64.powi(e - 23)
    } else {
        let e = ((x.abs().to_bits() >> 52) as i32).max(1);
        f64::from_bits(1) * 2f64.powi((e - 1).min(1000)) * 2f64.powi((e - 1001).max(0))
    }
}

/// Numbers of every exponent with random mantissas, both signs, and the special ones.
fn points(d: DType, each: usize) -> Vec<f64> {
    let mut r = Random(1);
    let mut v = vec![0.0, -0.0, 1.0, -1.0, 0.5, 2.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    let (man, exponents) = if d == DType::F32 { (23, 255u64) } else { (52, 2047) };
    for e in 0..exponents {
        for i in 0..each {
            let m = match i {
                0 => 0,
                1 => u64::MAX,
                _ => r.next(),
            } & ((1 << man) - 1);
            let bits = e << man | m;
            let x = if man == 23 { f32::from_bits(bits as u32) as f64 } else { f64::from_bits(bits) };
            v.extend([x, -x]);
        }
    }
    // close to an odd multiple of a quarter turn
    v.push(Scalar::float(4.386558e33, DType::F32).as_f64());
    // where results are neither trivial nor infinite
    for _ in 0..each * 200 {
        let x = (r.next() as f64 / u64::MAX as f64 - 0.5) * if d == DType::F32 { 180.0 } else { 1500.0 };
        v.push(Scalar::float(x, d).as_f64());
        v.push(Scalar::float(1.0 + x / 2000.0, d).as_f64());
        v.push(Scalar::float(x / if d == DType::F32 { 45.0 } else { 375.0 }, d).as_f64());
        v.push(Scalar::float(x / if d == DType::F32 { 9.0 } else { 54.0 }, d).as_f64());
    }
    v
}

fn measure(alu: Alu, d: DType, each: usize, f: fn(f64) -> f64) -> f64 {
    let p = lowered(&input(0, d).un(alu), &basic());
    let (mut worst, mut at, mut values) = (0.0, 0.0, vec![]);
    for x in points(d, each) {
        let u = ulps(p.run(&[Scalar::Float(x)], &mut values).as_f64(), f(x), d);
        if u > worst {
            (worst, at) = (u, x);
        }
    }
    println!("{alu:?} {d}: {} nodes, {worst:.3} ulp at {at:e}", p.steps.len());
    worst
}

type Function = (Alu, fn(f64) -> f64, f64, f64);

/// Unary functions, with the standard library's float64 (itself within a unit), the bound in float32 and in float64.
const FUNCTIONS: &[Function] = &[
    (Alu::Exp, f64::exp, 1.0, 1.0),
    (Alu::Exp2, f64::exp2, 1.0, 1.0),
    (Alu::Expm1, f64::exp_m1, 1.0, 2.0),
    (Alu::Log, f64::ln, 1.0, 1.0),
    (Alu::Log2, f64::log2, 1.0, 1.0),
    (Alu::Log10, f64::log10, 1.0, 2.0),
    (Alu::Log1p, f64::ln_1p, 1.0, 2.0),
    (Alu::Sin, f64::sin, 1.0, 1.0),
    (Alu::Cos, f64::cos, 1.0, 1.0),
    (Alu::Tan, f64::tan, 1.0, 2.0),
    (Alu::Asin, f64::asin, 1.0, 2.0),
    (Alu::Acos, f64::acos, 1.0, 2.0),
    (Alu::Sinh, f64::sinh, 1.0, 2.0),
    (Alu::Cosh, f64::cosh, 1.0, 2.0),
    (Alu::Tanh, f64::tanh, 1.0, 2.0),
    (Alu::Sigmoid, frit_abi::elementary::sigmoid, 1.0, 2.0),
    (Alu::Erf, frit_abi::elementary::erf, 1.0, 2.0),
    (Alu::Erfc, frit_abi::elementary::erfc, 5.0, 6.0),
    (Alu::Rsqrt, |x| 1.0 / x.sqrt(), 1.0, 2.0),
];

#[test]
fn functions_are_within_their_bounds_in_float32() {
    let each = std::env::var("POINTS").ok().and_then(|p| p.parse().ok()).unwrap_or(20);
    let over = FUNCTIONS.iter().filter(|(alu, f, bound, _)| measure(*alu, DType::F32, each, *f) > *bound);
    assert_eq!(over.map(|f| f.0).collect::<Vec<_>>(), []);
}

#[test]
fn functions_are_within_their_bounds_in_float64() {
    let over = FUNCTIONS.iter().filter(|(alu, f, _, bound)| measure(*alu, DType::F64, 6, *f) > *bound);
    assert_eq!(over.map(|f| f.0).collect::<Vec<_>>(), []);
}

/// A multiplication whose result is below the normal numbers takes some hundred cycles.
#[test]
fn no_step_underflows_where_the_result_does_not() {
    let far = [-3e38, -1e4, -800.0, -700.0, -200.0, -100.0, -90.0, f64::NEG_INFINITY];
    let zero = [(Alu::Exp, 1.0), (Alu::Exp2, 1.0), (Alu::Sigmoid, 1.0), (Alu::Erfc, -1.0)].map(|f| (f, 0.0));
    for ((alu, sign), want) in zero.into_iter().chain([((Alu::Sigmoid, -1.0), 1.0)]) {
        let first = if want == 0.0 { [-160.0, -1200.0] } else { [-70.0, -600.0] };
        for (d, first) in [DType::F32, DType::F64].into_iter().zip(first) {
            let p = lowered(&input(0, d).un(alu), &basic());
            let least = if d == DType::F32 { f32::MIN_POSITIVE as f64 } else { f64::MIN_POSITIVE };
            let mut values = vec![];
            for x in far.into_iter().chain([first]).filter(|x| *x <= first) {
                let y = p.run(&[Scalar::Float(sign * x).cast(d)], &mut values);
                assert_eq!(y.as_f64(), want, "{alu:?} of {x}");
                for ((n, src), v) in p.steps.iter().zip(&values).filter(|((n, _), _)| n.dtype == d) {
                    let factors = || src.iter().take(2).map(|s| values[*s].as_f64());
                    let is_product = matches!(n.op, Op::Mul | Op::MulAcc) && factors().all(|v| v != 0.0);
                    let underflows = is_product && factors().product::<f64>().abs() < least;
                    let is_small = v.as_f64().abs() < least && (underflows || v.as_f64() != 0.0);
                    assert!(!is_small, "{alu:?} of {x}: {n:?} is {v:?}");
                }
            }
        }
    }
}

#[test]
fn activations_take_few_operations() {
    for (alu, most) in [(Alu::Erfc, 40), (Alu::Tanh, 40), (Alu::Sigmoid, 32)] {
        let p = lowered(&input(0, DType::F32).un(alu), &basic());
        let is_one = |n: &UOp| n.op.alu().is_some();
        let count = p.steps.iter().filter(|(n, _)| is_one(n)).count();
        assert!(count <= most, "{alu:?} takes {count} operations");
    }
}

/// Of these a side for rare arguments is left out where there are none.
#[test]
fn functions_of_usual_arguments_take_few_operations() {
    for (alu, most) in [(Alu::Sin, 31), (Alu::Cos, 31), (Alu::Log, 29), (Alu::Log2, 43)] {
        let whole = for_target(&input(0, DType::F32).un(alu), &basic());
        assert_eq!(whole.op, Op::Where, "{alu:?}");
        let usual = whole.src[0].toposort().into_iter().chain(whole.src[2].toposort());
        let operations: std::collections::HashSet<UOp> = usual.filter(|n| n.op.alu().is_some()).collect();
        assert!(operations.len() <= most, "{alu:?} takes {} operations", operations.len());
    }
}

/// Pairs of points: special ones with each other, random ones of any exponent, near ones.
fn pairs(d: DType) -> Vec<(f64, f64)> {
    let some = points(d, 4);
    let mut r = Random(11);
    let mut v: Vec<(f64, f64)> =
        some[..9].iter().flat_map(|&x| some[..9].iter().map(move |&y| (x, y))).collect();
    for &x in &some {
        v.push((x, some[r.next() as usize % some.len()]));
        let near = x * (r.next() as f64 / u64::MAX as f64 * 4.0 - 2.0);
        v.push((x, Scalar::float(near, d).as_f64()));
    }
    v
}

#[test]
fn the_angle_of_a_point() {
    for d in [DType::F32, DType::F64] {
        let p = lowered(&input(0, d).bin(Alu::Atan2, &input(1, d)), &basic());
        let (mut worst, mut at, mut values) = (0.0, (0.0, 0.0), vec![]);
        for (y, x) in pairs(d) {
            let got = p.run(&[Scalar::Float(y), Scalar::Float(x)], &mut values).as_f64();
            let want = y.atan2(x);
            assert!(
                want.is_nan() || got.is_sign_negative() == want.is_sign_negative(),
                "{y} {x}: {got} {want}"
            );
            let u = ulps(got, want, d);
            if u > worst {
                (worst, at) = (u, (y, x));
            }
        }
        println!("Atan2 {d}: {} nodes, {worst:.3} ulp at {at:?}", p.steps.len());
        assert!(worst <= if d == DType::F32 { 1.0 } else { 2.0 });
    }
}

/// One with more digits than the type is rounded, here twice.
const LARGE_QUOTIENT: f64 = (1 << 22) as f64;

#[test]
fn remainders_of_floats_are_exact_and_quotients_floored() {
    for d in [DType::F32, DType::F64] {
        let program = |op| lowered(&input(0, d).bin(op, &input(1, d)), &basic());
        let (modulo, quotient, mut values) = (program(Alu::Mod), program(Alu::Idiv), vec![]);
        println!("Mod {d}: {} nodes, Idiv {}", modulo.steps.len(), quotient.steps.len());
        for (x, y) in pairs(d) {
            let args = [Scalar::Float(x), Scalar::Float(y)];
            let (got, want) = (modulo.run(&args, &mut values), Scalar::alu(Alu::Mod, d, &args));
            assert_eq!(got, want, "{d} {x:e} mod {y:e}");
            let (got, want) =
                (quotient.run(&args, &mut values).as_f64(), Scalar::alu(Alu::Idiv, d, &args).as_f64());
            let exact = got == want && got.is_sign_negative() == want.is_sign_negative()
                || got.is_nan() && want.is_nan();
            let large = want.abs() >= LARGE_QUOTIENT;
            assert!(exact || large && ulps(got, want, d) <= 2.0, "{d} {x:e} // {y:e}: {got:e}, not {want:e}");
        }
    }
}

#[test]
fn powers_of_floats() {
    for d in [DType::F32, DType::F64] {
        let p = lowered(&input(0, d).bin(Alu::Pow, &input(1, d)), &basic());
        let (mut worst, mut at, mut values) = (0.0, (0.0, 0.0), vec![]);
        let mut r = Random(7);
        let edge = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            2.0,
            -2.0,
            0.5,
            -0.5,
            3.0,
            -3.0,
            1e30,
            -1e30,
            1e-40,
            1.5,
            -1.5,
            33554432.0,
            16777217.0,
            1.0000001,
            0.9999999,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
        ];
        let edge = edge.map(|x| Scalar::float(x, d).as_f64());
        let mut pairs: Vec<(f64, f64)> = edge.iter().flat_map(|&x| edge.map(|y| (x, y))).collect();
        let some = points(d, if d == DType::F32 { 60 } else { 8 });
        for &x in &some {
            let y = (r.next() as f64 / u64::MAX as f64 - 0.5) * 40.0;
            pairs.push((x, Scalar::float(y, d).as_f64()));
            // an exponent that brings the result near the ends of the range
            let far = if d == DType::F32 { 88.0 } else { 708.0 } / x.abs().ln()
                * (r.next() as f64 / u64::MAX as f64);
            pairs.push((x, Scalar::float(far, d).as_f64()));
            pairs.push((x, some[r.next() as usize % some.len()]));
        }
        for (x, y) in pairs {
            let u = ulps(p.run(&[Scalar::Float(x), Scalar::Float(y)], &mut values).as_f64(), x.powf(y), d);
            if u > worst {
                (worst, at) = (u, (x, y));
            }
        }
        println!("Pow {d}: {} nodes, {worst:.3} ulp at {at:?}", p.steps.len());
        assert!(worst <= 1.0);
    }
}

fn special_ints(d: DType) -> Vec<Scalar> {
    let (lo, hi) = d.int_range().unwrap();
    let near = [0, 1, 2, 3, 5, 7, 10, 31, 32, 63, 64, 65, 100, 127, 128, 255, 1000, 46341, 65537, 1 << 30];
    let mut v: Vec<i128> = near.iter().flat_map(|&x| [x, -x]).filter(|x| (lo..=hi).contains(x)).collect();
    v.extend((0..4).flat_map(|i| [lo + i, hi - i, hi / 2 + i]));
    v.into_iter().map(|x| Scalar::int(x, d)).collect()
}

const INTS: [DType; 8] =
    [DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16, DType::U32, DType::U64];

#[test]
fn a_field_of_bits_is_moved_at_once() {
    let mut values = vec![];
    for d in INTS {
        for (from, mask, to) in [(2, 3, 4), (4, 3, 4), (6, 3, 4), (6, 1, 0), (4, 15, 2), (7, 1, 6), (9, 3, 4)]
        {
            let at = |n: i64| UOp::int(n, d);
            let field = input(0, d).bin(Alu::Shr, &at(from)).and_(&at(mask)).bin(Alu::Shl, &at(to));
            let p = lowered(&field, &basic());
            for a in special_ints(d) {
                let of = |alu, x, n| Scalar::alu(alu, d, &[x, Scalar::Int(n)]);
                let want = of(Alu::Shl, of(Alu::And, of(Alu::Shr, a, from), mask), to);
                assert_eq!(p.run(&[a], &mut values), want, "{d} {a:?} {from} {mask} {to}");
            }
            let shifts = p.steps.iter().filter(|s| matches!(s.0.op, Op::Shl | Op::Shr)).count();
            assert!(d.bits() < 32 || shifts == (from != to) as usize, "{d} {from} {mask} {to}");
        }
    }
}

#[test]
fn integer_division_power_and_shifts_are_the_definition() {
    let mut values = vec![];
    for d in INTS {
        for op in [Alu::Idiv, Alu::Mod, Alu::Shl, Alu::Shr, Alu::Pow] {
            let all = special_ints(d);
            let p = lowered(&input(0, d).bin(op, &input(1, d)), &basic());
            for &a in &all {
                for &b in &all {
                    let want = Scalar::alu(op, d, &[a, b]);
                    assert_eq!(p.run(&[a, b], &mut values), want, "{op:?} {d} {a:?} {b:?}");
                }
            }
            // constants, and dividends with known bounds
            for &b in &all {
                let c = UOp::constant(b, d);
                let whole = lowered(&input(0, d).bin(op, &c), &basic());
                let small = input(0, d).and_(&UOp::int(1023, d));
                let bounded = lowered(&small.bin(op, &c), &basic());
                for &a in &all {
                    assert_eq!(
                        whole.run(&[a, b], &mut values),
                        Scalar::alu(op, d, &[a, b]),
                        "{op:?} {d} {a:?} {b:?}"
                    );
                    let a2 = Scalar::alu(Alu::And, d, &[a, Scalar::int(1023, d)]);
                    let want = Scalar::alu(op, d, &[a2, b]);
                    assert_eq!(bounded.run(&[a, b], &mut values), want, "{op:?} {d} {a2:?} {b:?}");
                }
            }
        }
    }
}

#[test]
fn division_by_a_constant_needs_no_division() {
    for c in [3i64, 7, 10, 28, 100, 641, 1000003] {
        for x in [input(0, DType::I32), UOp::range(&UOp::int(50000, DType::I32), 0, frit_uop::AxisKind::Loop)]
        {
            let x = if x.op == Op::Range {
                UOp::new(Op::Range, DType::I32, x.src.clone(), x.arg.clone())
            } else {
                x
            };
            let q = for_target(&x.floordiv(&x.const_like(c)), &basic());
            assert!(!q.any(|n| n.op == Op::Tdiv), "{c}: {q:?}");
        }
    }
    // every dividend of 16 bits
    let mut values = vec![];
    for c in 3..300i64 {
        let d = DType::I16;
        let p = lowered(&input(0, d).floordiv(&UOp::int(c, d)), &basic());
        for a in (i16::MIN..=i16::MAX).step_by(7) {
            let got = p.run(&[Scalar::Int(a as i64)], &mut values);
            assert_eq!(got, Scalar::Int((a as i64).div_euclid(c)), "{a} / {c}");
        }
    }
}

#[test]
fn threefry_is_the_definition() {
    let d = DType::U64;
    let p = lowered(&input(0, d).bin(Alu::Threefry, &input(1, d)), &basic());
    let (mut r, mut values) = (Random(3), vec![]);
    for _ in 0..1000 {
        let (x, k) = (Scalar::int(r.next() as i128, d), Scalar::int(r.next() as i128, d));
        assert_eq!(p.run(&[x, k], &mut values), Scalar::alu(Alu::Threefry, d, &[x, k]));
    }
}

#[test]
fn small_floats_decode_and_encode_exactly() {
    let mut values = vec![];
    for d in frit_abi::dtype::ALL.into_iter().filter(|d| d.is_small_float()) {
        let s = d.small_float().unwrap();
        let wide = lowered(&input(0, d).cast(DType::F32), &basic());
        let from32 = lowered(&input(0, DType::F32).cast(d), &basic());
        let from64 = lowered(&input(0, DType::F64).cast(d), &basic());
        let mut check = |x: f64| {
            let want = Scalar::float(x, d);
            assert_eq!(from64.run(&[Scalar::Float(x)], &mut values), want, "{d} from {x:e}");
            let single = x as f32 as f64;
            let want = Scalar::float(single, d);
            assert_eq!(from32.run(&[Scalar::Float(single)], &mut values), want, "{d} from {single:e}");
        };
        let patterns = 1u32 << d.bits();
        for bits in 0..patterns {
            let x = s.to_f64(bits);
            // the value, halfway to the next, and a hair to either side
            let next = s.to_f64((bits + 1) % patterns);
            let mid = (x + next) / 2.0;
            for y in
                [x, mid, f64::from_bits(mid.to_bits() + 1), f64::from_bits(mid.to_bits().saturating_sub(1))]
            {
                check(y);
            }
        }
        for x in points(DType::F64, 2) {
            check(x);
        }
        let mut values = vec![];
        for bits in 0..patterns {
            let x = Scalar::from_bits(bits as u64, d);
            assert_eq!(wide.run(&[x], &mut values), x, "{d} {bits:#x}");
        }
    }
}

#[test]
fn small_float_arithmetic_rounds_every_operation() {
    let (mut values, mut r) = (vec![], Random(5));
    for d in frit_abi::dtype::ALL.into_iter().filter(|d| d.is_small_float()) {
        let (x, y) = (input(0, d), input(1, d));
        for op in [Alu::Add, Alu::Sub, Alu::Mul, Alu::Fdiv, Alu::Max, Alu::Min, Alu::Lt, Alu::Eq, Alu::Ne] {
            let p = lowered(&x.bin(op, &y), &basic());
            for _ in 0..3000 {
                let a = Scalar::from_bits(r.next() & ((1 << d.bits()) - 1), d);
                let b = Scalar::from_bits(r.next() & ((1 << d.bits()) - 1), d);
                let (got, want) = (p.run(&[a, b], &mut values), Scalar::alu(op, d, &[a, b]));
                let zeros = got.as_f64() == 0.0 && want.as_f64() == 0.0; // of Max and Min: either sign
                assert!(got == want || zeros, "{op:?} {d} {a:?} {b:?}: {got:?}, not {want:?}");
            }
        }
        for from in INTS {
            let p = lowered(&input(0, from).cast(d), &basic());
            let back = lowered(&input(0, d).cast(from), &basic());
            for a in
                special_ints(from).into_iter().chain((0..500).map(|_| Scalar::int(r.next() as i128, from)))
            {
                assert_eq!(p.run(&[a], &mut values), a.cast(d), "{a:?} {from} to {d}");
                let small = a.cast(d);
                assert_eq!(back.run(&[small], &mut values), small.cast(from), "{small:?} {d} to {from}");
            }
        }
    }
}

/// A machine without a fused operation, with float64 or without.
#[test]
fn functions_need_no_fused_operation() {
    use Alu::*;
    let plain =
        AluSet::of(&[Neg, Add, Sub, Mul, Fdiv, Sqrt, Max, Min, Lt, Eq, Ne, Where, Trunc, Floor, Round]);
    let target = Target { float_ops: plain, ..basic() };
    let mut values = vec![];
    for d in [DType::F32, DType::F64] {
        for (op, f) in
            [(Log, f64::ln as fn(f64) -> f64), (Sin, f64::sin), (Tanh, f64::tanh), (Expm1, f64::exp_m1)]
        {
            let p = lowered(&input(0, d).un(op), &target);
            let worst = points(d, 2).into_iter().filter(|x| x.abs() < 1e30).fold(0.0, |worst: f64, x| {
                worst.max(ulps(p.run(&[Scalar::Float(x)], &mut values).as_f64(), f(x), d))
            });
            assert!(worst <= 2.0, "{op:?} {d}: {worst}");
        }
        let modulo = lowered(&input(0, d).bin(Mod, &input(1, d)), &target);
        for (x, y) in
            pairs(d).into_iter().filter(|(x, y)| x.abs() < 1e290 && y.abs() < 1e290 && y.abs() > 1e-250)
        {
            let args = [Scalar::Float(x), Scalar::Float(y)];
            assert_eq!(modulo.run(&args, &mut values), Scalar::alu(Mod, d, &args), "{d} {x:e} mod {y:e}");
        }
    }
}

#[test]
fn fallbacks_for_basic_operations() {
    use Alu::*;
    let bare = Target {
        float_ops: AluSet::of(&[Add, Sub, Mul, Fdiv, Lt, Eq, Ne, Where, MulAcc]),
        int_ops: BASIC_INT,
        ..basic()
    };
    let mut values = vec![];
    for d in [DType::F32, DType::F64] {
        for op in [Trunc, Floor, Round, Neg, Sqrt, Recip] {
            let p = lowered(&input(0, d).un(op), &bare);
            for x in points(d, 4) {
                let (got, want) =
                    (p.run(&[Scalar::Float(x)], &mut values), Scalar::alu(op, d, &[Scalar::Float(x)]));
                if op == Sqrt {
                    assert!(
                        ulps(got.as_f64(), want.as_f64(), d) <= 1.0,
                        "{op:?} {d} {x:e}: {got:?}, not {want:?}"
                    );
                } else {
                    assert_eq!(got, want, "{op:?} {d} {x:e}");
                }
            }
        }
        for op in [Max, Min] {
            let p = lowered(&input(0, d).bin(op, &input(1, d)), &bare);
            for x in [0.0, 1.0, -2.0, f64::NAN, f64::INFINITY].map(Scalar::Float) {
                for y in [1.0, -2.0, f64::NAN, f64::NEG_INFINITY].map(Scalar::Float) {
                    assert_eq!(p.run(&[x, y], &mut values), Scalar::alu(op, d, &[x, y]));
                }
            }
        }
    }
    assert!(BASIC_FLOAT.has(Sqrt));
}

/// What a rule is tried on: the operation on inputs of every type that has it, or a cast from each.
fn instances(op: Op) -> Vec<UOp> {
    let types = || frit_abi::dtype::ALL.into_iter().filter(|d| !matches!(d, DType::Void | DType::Index));
    let Some(alu) = op.alu() else {
        return types().flat_map(|from| types().map(move |to| input(0, from).cast(to))).collect();
    };
    let has = |d: &DType| match alu.types() {
        _ if alu == Alu::Threefry => *d == DType::U64,
        AluTypes::Any => true,
        AluTypes::Float => d.is_float(),
        AluTypes::Int => d.is_int(),
        AluTypes::Bits => !d.is_float(),
    };
    let on = |d: DType| {
        let to = if alu.is_comparison() { DType::Bool } else { d };
        UOp::new(op, to, (0..alu.arity() as u32).map(|slot| input(slot, d)), Arg::None)
    };
    let mut all: Vec<UOp> = types().filter(has).map(on).collect();
    if op == Op::Shl {
        // of a field of bits
        let at = |n: i64, d| UOp::int(n, d);
        let field = |d| input(0, d).bin(Alu::Shr, &at(2, d)).and_(&at(3, d)).bin(Alu::Shl, &at(4, d));
        all.extend(INTS.map(field));
    }
    all
}

/// A value of a type: any bits, or a special one. The fused operation is made of others where no step of it overflows.
fn value(d: DType, op: Op, r: &mut Random) -> Scalar {
    let special = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    let pick = r.next();
    match pick % 3 {
        _ if op == Op::MulAcc && d.is_float() => Scalar::float((pick % 2001) as f64 / 64.0 - 15.0, d),
        0 if d.is_float() => Scalar::float(special[(pick >> 8) as usize % special.len()], d),
        0 if d.is_int() => special_ints(d)[(pick >> 8) as usize % special_ints(d).len()],
        _ => Scalar::from_bits(r.next() >> (64 - d.bits()), d),
    }
}

/// Whether what a rule made of `n` has the right value: functions are as exact as their own tests say, all else is equal.
fn is_right(n: &UOp, got: Scalar, want: Scalar) -> bool {
    if got == want {
        return true;
    }
    let zeros = || got.as_f64() == 0.0 && want.as_f64() == 0.0;
    let is_far = |x: f64| !(1e-30..1e30).contains(&x.abs());
    let bound = match n.op.alu() {
        Some(Alu::Max | Alu::Min) => return zeros(),
        // nothing is promised at the ends of its range
        Some(Alu::RecipNear) if is_far(want.as_f64()) => return true,
        Some(Alu::RecipNear) => 1.0,
        Some(Alu::Exp2Near) => 4.0,
        Some(Alu::Idiv) if n.dtype.is_float() && want.as_f64().abs() >= LARGE_QUOTIENT => 2.0,
        Some(Alu::Pow | Alu::Atan2 | Alu::Sqrt | Alu::MulAcc) if n.dtype.is_float() => 2.0,
        alu => match FUNCTIONS.iter().find(|f| Some(f.0) == alu) {
            Some(f) => f.2.max(f.3),
            None => return false,
        },
    };
    match n.dtype {
        DType::F32 | DType::F64 => ulps(got.as_f64(), want.as_f64(), n.dtype) <= bound,
        // rounded twice
        d => got.to_bits(d).abs_diff(want.to_bits(d)) <= 1,
    }
}

#[test]
fn every_rule_is_sound_and_fires() {
    use Alu::*;
    let float_ops = AluSet::of(&[Add, Sub, Mul, Fdiv, Lt, Eq, Ne, Where]);
    let bare = Target {
        float_ops,
        int_ops: AluSet::of(&[Add, Sub, Mul, Tdiv, And, Or, Xor, Lt, Eq, Ne, Where]),
        ..basic()
    };
    let (mut r, mut before, mut after) = (Random(11), vec![], vec![]);
    let rules: Vec<&Rule<Target>> = TABLES.iter().flat_map(|t| t.rules).collect();
    for (i, rule) in rules.iter().enumerate() {
        let mut fired = 0;
        for n in rule.roots.iter().flat_map(instances) {
            let apply = |rule: &&Rule<Target>| match rule.apply {
                _ if !rule.roots.has(n.op) => None,
                Apply::Pure(apply) => apply(&n),
                Apply::Ctx(apply) => apply(&n, &mut bare.clone()),
            };
            // the first that applies wins
            let Some(new) = apply(rule).filter(|_| rules[..i].iter().all(|r| apply(r).is_none())) else {
                continue;
            };
            fired += 1;
            assert_eq!((n.dtype, n.try_shape()), (new.dtype, new.try_shape()), "{}", rule.text);
            let (old, made) = (Program::new(&n), Program::new(&new));
            for _ in 0..300 {
                let inputs: Vec<Scalar> = n.src.iter().map(|s| value(s.dtype, n.op, &mut r)).collect();
                let (want, got) = (old.run(&inputs, &mut before), made.run(&inputs, &mut after));
                assert!(
                    is_right(&n, got, want),
                    "{} on {n:?} of {inputs:?}: {got:?}, not {want:?}",
                    rule.text
                );
            }
        }
        assert!(fired > 0, "{} never fires", rule.text);
    }
}
