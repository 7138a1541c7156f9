//! The numeric contract through `Tensor`: values and slopes at extremes, integers, conversions, promotion.

use crate::support::{DEVICES, array, on, tensor};
use frit::{DType, Scalar, Tensor};
use frit_abi::dtype;
use frit_reference::Array;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;
/// The least positive float32, and the least one with all digits.
const LEAST: f64 = 1.401298464324817e-45;
const TINY: f64 = 1.1754943508222875e-38;

/// A function of one and, at a few arguments, its value and its slope.
type Table = (&'static str, fn(&Tensor) -> Tensor, &'static [(f64, f64, f64)]);

#[rustfmt::skip]
const EXTREMES: &[Table] = &[
    //                                       x       value   slope
    ("sigmoid",    |x| x.sigmoid(),    &[(INF, 1.0, 0.0), (-INF, 0.0, 0.0), (1e30, 1.0, 0.0), (-1e30, 0.0, 0.0), (0.0, 0.5, 0.25), (-100.0, 3.783505853677006e-44, 3.783505853677006e-44), (NAN, NAN, NAN)]),
    ("tanh",       |x| x.tanh(),       &[(INF, 1.0, 0.0), (-INF, -1.0, 0.0), (1e30, 1.0, 0.0), (-0.0, -0.0, 1.0), (LEAST, LEAST, 1.0), (-TINY, -TINY, 1.0), (NAN, NAN, NAN)]),
    ("softplus",   |x| x.softplus(),   &[(INF, INF, 1.0), (-INF, 0.0, 0.0), (1e30, 1e30, 1.0), (-1e30, 0.0, 0.0), (-0.0, std::f64::consts::LN_2, 0.5), (NAN, NAN, NAN)]),
    ("logsigmoid", |x| x.logsigmoid(), &[(INF, -0.0, 0.0), (-INF, -INF, 1.0), (-1e30, -1e30, 1.0), (NAN, NAN, NAN)]),
    ("silu",       |x| x.silu(),       &[(INF, INF, 1.0), (-INF, -0.0, 0.0), (1e30, 1e30, 1.0), (-1e30, -0.0, 0.0), (-0.0, -0.0, 0.5), (NAN, NAN, NAN)]),
    ("gelu",       |x| x.gelu(),       &[(INF, INF, 1.0), (-INF, -0.0, 0.0), (1e30, 1e30, 1.0), (-1e30, -0.0, 0.0), (-0.0, -0.0, 0.5), (NAN, NAN, NAN)]),
    ("gelu_tanh",  |x| x.gelu_tanh(),  &[(INF, INF, 1.0), (-INF, -0.0, 0.0), (1e30, 1e30, 1.0), (-0.0, -0.0, 0.5), (NAN, NAN, NAN)]),
    ("mish",       |x| x.mish(),       &[(INF, INF, 1.0), (-INF, -0.0, 0.0), (1e30, 1e30, 1.0), (-0.0, -0.0, 0.6), (NAN, NAN, NAN)]),
    ("softsign",   |x| x.softsign(),   &[(INF, 1.0, 0.0), (-INF, -1.0, 0.0), (NAN, NAN, NAN)]),
    ("hardswish",  |x| x.hardswish(),  &[(INF, INF, 1.0), (-INF, -0.0, 0.0), (-1e30, -0.0, 0.0), (NAN, NAN, NAN)]),
    ("elu",        |x| x.elu(1.0),     &[(INF, INF, 1.0), (-INF, -1.0, 0.0), (LEAST, LEAST, 1.0), (NAN, NAN, NAN)]),
    ("erf",        |x| x.erf(),        &[(INF, 1.0, 0.0), (-INF, -1.0, 0.0), (-0.0, -0.0, std::f64::consts::FRAC_2_SQRT_PI), (1e30, 1.0, 0.0), (NAN, NAN, NAN)]),
    ("expm1",      |x| x.expm1(),      &[(INF, INF, INF), (-INF, -1.0, 0.0), (-0.0, -0.0, 1.0), (LEAST, LEAST, 1.0), (-TINY, -TINY, 1.0), (NAN, NAN, NAN)]),
    ("log1p",      |x| x.log1p(),      &[(INF, INF, 0.0), (-1.0, -INF, INF), (-2.0, NAN, -1.0), (-0.0, -0.0, 1.0), (LEAST, LEAST, 1.0), (-TINY, -TINY, 1.0), (NAN, NAN, NAN)]),
    ("exp",        |x| x.exp(),        &[(INF, INF, INF), (-INF, 0.0, 0.0), (-103.0, 1.401298464324817e-45, 1.401298464324817e-45), (NAN, NAN, NAN)]),
    ("log",        |x| x.log(),        &[(INF, INF, 0.0), (0.0, -INF, INF), (-0.0, -INF, -INF), (-1.0, NAN, -1.0), (NAN, NAN, NAN)]),
    ("atan",       |x| x.atan(),       &[(INF, std::f64::consts::FRAC_PI_2, 0.0), (-INF, -std::f64::consts::FRAC_PI_2, 0.0), (-0.0, -0.0, 1.0), (LEAST, LEAST, 1.0), (NAN, NAN, NAN)]),
    ("asinh",      |x| x.asinh(),      &[(INF, INF, 0.0), (-INF, -INF, 0.0), (-0.0, -0.0, 1.0), (NAN, NAN, NAN)]),
    ("atanh",      |x| x.atanh(),      &[(1.0, INF, INF), (-0.0, -0.0, 1.0), (2.0, NAN, NAN), (NAN, NAN, NAN)]),
    ("acosh",      |x| x.acosh(),      &[(INF, INF, 0.0), (1.0, 0.0, INF), (0.0, NAN, NAN), (-5.0, NAN, 0.2041241452319315)]),
    ("sinh",       |x| x.sinh(),       &[(INF, INF, INF), (-INF, -INF, INF), (-0.0, -0.0, 1.0), (LEAST, LEAST, 1.0)]),
    ("rsqrt",      |x| x.rsqrt(),      &[(INF, 0.0, 0.0), (0.0, INF, -INF), (-1.0, NAN, NAN)]),
    ("sin",        |x| x.sin(),        &[(INF, NAN, NAN), (-0.0, -0.0, 1.0), (LEAST, LEAST, 1.0)]),
];

/// The same number to float32's digits, NaN for NaN, zeros by their signs.
fn same(got: f64, want: f64) -> bool {
    let want = want as f32 as f64;
    let near = (got - want).abs() <= want.abs() * 2e-7;
    got.is_nan() && want.is_nan()
        || got == want && (want != 0.0 || got.is_sign_negative() == want.is_sign_negative())
        || near && want != 0.0
}

#[test]
fn functions_at_extremes_have_their_limits_and_their_slopes() {
    for device in [DEVICES[1], DEVICES[2]] {
        on(device, || {
            let mut faults = vec![];
            for (name, f, rows) in EXTREMES {
                let x = tensor(
                    &Array::new(&[rows.len()], rows.iter().map(|r| r.0).collect::<Vec<_>>()),
                    DType::F32,
                );
                let y = f(&x);
                let slope = y.sum(..).gradient(&[&x]).map(|g| g[0].clone());
                let (y, slope) = (array(&y).unwrap().data, array(&slope.unwrap()).unwrap().data);
                for (i, &(at, value, want)) in rows.iter().enumerate() {
                    if !same(y[i], value) {
                        faults.push(format!("{name}({at:e}) is {:e}, not {value:e}", y[i]));
                    }
                    // the sign of a slope of zero does not count, and where there is no value there need be no slope
                    let is_slope = same(slope[i], want) || slope[i] == 0.0 && want == 0.0 || value.is_nan();
                    if !is_slope {
                        faults.push(format!("{name}'({at:e}) is {:e}, not {want:e}", slope[i]));
                    }
                }
            }
            assert!(faults.is_empty(), "on {device}:\n{}", faults.join("\n"));
        });
    }
}

/// Numbers that matter to a type.
fn samples(d: DType) -> Vec<Scalar> {
    let ints = [
        0i128,
        1,
        -1,
        2,
        -2,
        3,
        7,
        -7,
        100,
        -100,
        127,
        128,
        -128,
        255,
        256,
        32767,
        65535,
        i32::MAX as i128,
        i32::MIN as i128,
    ];
    let wide = [u32::MAX as i128, i64::MAX as i128, i64::MIN as i128, u64::MAX as i128];
    let floats = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.5,
        -1.5,
        2.5,
        1e-3,
        127.9,
        128.0,
        -128.9,
        255.5,
        65504.0,
        7e4,
        2147483648.0,
        -2147483649.0,
        1e10,
        9.3e18,
        1.9e19,
        3e38,
        1e300,
        INF,
        -INF,
        NAN,
    ];
    let mut all: Vec<Scalar> = match d.is_float() {
        true => floats.into_iter().map(|f| Scalar::float(f, d)).collect(),
        false => ints.into_iter().chain(wide).map(|i| Scalar::int(i, d)).collect(),
    };
    all.dedup();
    all
}

fn memory(values: &[Scalar], d: DType) -> Tensor {
    let bytes: Vec<u8> =
        values.iter().flat_map(|s| s.to_bits(d).to_le_bytes()[..d.size()].to_vec()).collect();
    Tensor::from_bytes(d, &bytes, [values.len()])
}

fn scalars(x: &Tensor) -> Vec<Scalar> {
    let (d, bytes) = (x.dtype(), x.to_bytes().unwrap());
    let word = |b: &[u8]| b.iter().rev().fold(0u64, |w, &b| w << 8 | b as u64);
    bytes.chunks(d.size()).map(|b| Scalar::from_bits(word(b), d)).collect()
}

/// What a conversion gives by its rule, stated on exact values: floats to integers truncate and saturate, NaN is 0;
/// integers wrap; everything that is not zero is true; floats round to nearest.
fn converted(s: Scalar, to: DType) -> Scalar {
    match (s, to) {
        (Scalar::Float(f), d) if d.is_int() => {
            let (lo, hi) = d.int_range().unwrap();
            let whole = if f.is_nan() {
                0
            } else if f >= hi as f64 {
                hi
            } else if f <= lo as f64 {
                lo
            } else {
                f.trunc() as i128
            };
            Scalar::int(whole, d)
        }
        (Scalar::Float(f), DType::Bool) => Scalar::Bool(f != 0.0),
        (Scalar::Float(f), d) => Scalar::float(f, d),
        (s, DType::F32) => Scalar::float(s.as_i128() as f32 as f64, DType::F32),
        (s, d) => Scalar::int(s.as_i128(), d),
    }
}

#[test]
fn every_type_converts_to_every_other_by_rule() {
    for device in [DEVICES[1], DEVICES[2]] {
        on(device, || {
            let mut claims = vec![];
            for from in dtype::ALL {
                let values = samples(from);
                let x = memory(&values, from);
                for to in dtype::ALL {
                    claims.push((from, to, values.clone(), x.cast(to)));
                }
            }
            Tensor::realize_all(&claims.iter().map(|c| &c.3).collect::<Vec<_>>()).unwrap();
            for (from, to, values, got) in claims {
                for (s, got) in values.iter().zip(scalars(&got)) {
                    assert_eq!(got, converted(*s, to), "{s:?}, {from} to {to} on {device}");
                }
            }
        });
    }
}

#[test]
fn integers_divide_shift_and_raise_as_python_does_and_wrap() {
    use DType::*;
    for device in [DEVICES[1], DEVICES[2]] {
        on(device, || {
            for d in [I8, I16, I32, I64, U8, U16, U32, U64] {
                let all = samples(d);
                let pairs: Vec<(Scalar, Scalar)> =
                    all.iter().flat_map(|&a| all.iter().map(move |&b| (a, b))).collect();
                let (x, y) = (
                    memory(&pairs.iter().map(|p| p.0).collect::<Vec<_>>(), d),
                    memory(&pairs.iter().map(|p| p.1).collect::<Vec<_>>(), d),
                );
                let outs = [
                    x.floor_div(&y),
                    x.modulo(&y),
                    x.fmod(&y),
                    x.trunc_div(&y),
                    x.pow(&y),
                    x.lshift(&y),
                    x.rshift(&y),
                ];
                Tensor::realize_all(&outs.iter().collect::<Vec<_>>()).unwrap();
                let got: Vec<Vec<Scalar>> = outs.iter().map(scalars).collect();
                for (i, (a, b)) in pairs.iter().enumerate() {
                    let (a, b) = (a.as_i128(), b.as_i128());
                    let floor = |a: i128, b: i128| (a / b) - i128::from(a % b != 0 && (a < 0) != (b < 0));
                    let zero = b == 0;
                    let mut power = 1i128;
                    for _ in 0..b.clamp(0, 256) {
                        power = power.wrapping_mul(a);
                    }
                    // beyond, by the period of the low bits: an even base has lost them all, an odd one returns to itself
                    let power = match b {
                        b if b < 0 => match a {
                            1 => 1,
                            -1 => 1 - 2 * (b & 1),
                            _ => 0,
                        },
                        b if b > 256 => (0..128).rev().fold(1i128, |p, k| {
                            let p = p.wrapping_mul(p);
                            if b >> k & 1 == 1 { p.wrapping_mul(a) } else { p }
                        }),
                        _ => power,
                    };
                    let bits = d.bits() as i128;
                    let want = [
                        if zero { 0 } else { floor(a, b) },
                        if zero { 0 } else { a - b * floor(a, b) },
                        if zero { 0 } else { a % b },
                        if zero { 0 } else { a / b },
                        power,
                        if (0..bits).contains(&b) { a << b } else { 0 },
                        if (0..bits).contains(&b) { a >> b } else { -i128::from(a < 0) },
                    ];
                    for (k, want) in want.into_iter().enumerate() {
                        let name = ["floor_div", "modulo", "fmod", "trunc_div", "pow", "lshift", "rshift"][k];
                        assert_eq!(got[k][i], Scalar::int(want, d), "{name} {d} {a} {b} on {device}");
                    }
                }
            }
        });
    }
}

#[test]
fn float_division_and_remainders_are_of_the_exact_quotient() {
    for device in [DEVICES[1], DEVICES[2]] {
        on(device, || {
            let pairs: &[(f64, f64)] = &[
                (1.0, 0.1f32 as f64),
                (7.0, 2.0),
                (-7.0, 2.0),
                (7.0, -2.0),
                (-7.0, -2.0),
                (1e30, 3.0),
                (-1e30, 7.0),
                (3e38, 1e-45f32 as f64),
                (5.5, INF),
                (-5.5, INF),
                (0.0, 5.0),
                (-0.0, 5.0),
                (1e-45f32 as f64, 3.0),
                (6.0, 3.0),
                (-6.0, 3.0),
                (0.3f32 as f64, 0.1f32 as f64),
            ];
            let of = |k: fn(&(f64, f64)) -> f64| {
                tensor(&Array::new(&[pairs.len()], pairs.iter().map(k).collect::<Vec<_>>()), DType::F32)
            };
            let (x, y) = (of(|p| p.0), of(|p| p.1));
            let read = |t: Tensor| array(&t).unwrap().data;
            let (mods, fmods, floors) = (read(x.modulo(&y)), read(x.fmod(&y)), read(x.floor_div(&y)));
            for (i, &(a, b)) in pairs.iter().enumerate() {
                let (a, b) = (a as f32, b as f32);
                let r = a % b;
                let want = if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r };
                assert_eq!((mods[i], fmods[i]), (want as f64, r as f64), "{a} mod {b} on {device}");
                // minus a small part of nothing is below zero
                let exact = if b.is_infinite() && a < 0.0 { -1.0 } else { (a as f64 / b as f64).floor() };
                if exact.abs() < 4e6 {
                    assert_eq!(floors[i], exact, "{a} // {b} on {device}");
                }
            }
        });
    }
}

/// The table of JAX's documentation: rows and columns in this order.
#[test]
fn promotion_is_jaxs_lattice() {
    use DType::*;
    let types = [Bool, U8, U16, U32, U64, I8, I16, I32, I64, BF16, F16, F32, F64];
    let table = [
        [Bool, U8, U16, U32, U64, I8, I16, I32, I64, BF16, F16, F32, F64],
        [U8, U8, U16, U32, U64, I16, I16, I32, I64, BF16, F16, F32, F64],
        [U16, U16, U16, U32, U64, I32, I32, I32, I64, BF16, F16, F32, F64],
        [U32, U32, U32, U32, U64, I64, I64, I64, I64, BF16, F16, F32, F64],
        // an unsigned 64-bit integer and a signed one: a float, and its default type
        [U64, U64, U64, U64, U64, F32, F32, F32, F32, BF16, F16, F32, F64],
        [I8, I16, I32, I64, F32, I8, I16, I32, I64, BF16, F16, F32, F64],
        [I16, I16, I32, I64, F32, I16, I16, I32, I64, BF16, F16, F32, F64],
        [I32, I32, I32, I64, F32, I32, I32, I32, I64, BF16, F16, F32, F64],
        [I64, I64, I64, I64, F32, I64, I64, I64, I64, BF16, F16, F32, F64],
        [BF16, BF16, BF16, BF16, BF16, BF16, BF16, BF16, BF16, BF16, F32, F32, F64],
        [F16, F16, F16, F16, F16, F16, F16, F16, F16, F32, F16, F32, F64],
        [F32, F32, F32, F32, F32, F32, F32, F32, F32, F32, F32, F32, F64],
        [F64, F64, F64, F64, F64, F64, F64, F64, F64, F64, F64, F64, F64],
    ];
    for (a, row) in types.into_iter().zip(table) {
        for (b, want) in types.into_iter().zip(row) {
            let (x, y) = (Tensor::zeros([1]).cast(a), Tensor::zeros([1]).cast(b));
            assert_eq!(x.maximum(&y).dtype(), want, "{a} with {b}");
        }
        // a number takes the tensor's type where that can hold it
        let x = Tensor::zeros([1]).cast(a);
        let float = if a.is_float() { a } else { F32 };
        assert_eq!(
            ((&x * 2.5).dtype(), x.maximum(1).dtype()),
            (float, if a == Bool { I32 } else { a }),
            "{a}"
        );
    }
}

#[test]
fn sums_accumulate_in_a_wider_type() {
    use DType::*;
    // 4096 times a number: in the type itself each would stop or wrap long before
    for (d, sum, value) in [
        (F16, F16, 4096.0),
        (BF16, BF16, 4096.0),
        (I8, I32, 4096.0),
        (U8, U32, 4096.0),
        (I16, I32, 4096.0),
        (Bool, I32, 4096.0),
    ] {
        let x = Tensor::ones([4096]).cast(d);
        let s = x.sum(..);
        assert_eq!((s.dtype(), array(&s).unwrap().data[0]), (sum, value), "{d}");
        let mean = x.mean(..);
        assert_eq!((mean.dtype().is_float(), array(&mean).unwrap().data[0]), (true, 1.0), "{d}");
    }
    for d in [U8, U16, U32, U64, I8, I64, F16, BF16, F8E4M3, F64] {
        let x = Tensor::new([3, 1, 7, 7, 0]).cast(d);
        let all = [x.max(..), x.min(..), x.argmax(0).cast(d), x.argmin(0).cast(d)]
            .map(|t| array(&t).unwrap().data[0]);
        assert_eq!(all, [7.0, 0.0, 2.0, 4.0], "{d}");
    }
}

#[test]
fn squares_overflow_only_where_the_result_does() {
    let half = |v: &[f32]| Tensor::from_slice(v).cast(DType::F16);
    let x = half(&[300.0, 400.0]);
    let of = |t: Tensor| (t.dtype(), array(&t).unwrap().data);
    let near = |t: Tensor, want: &[f64]| {
        let (d, got) = of(t);
        let close =
            got.len() == want.len() && got.iter().zip(want).all(|(g, w)| (g - w).abs() <= w.abs() * 1e-3);
        assert!(close && d == DType::F16, "{d} {got:?}, not {want:?}");
    };
    near(x.norm(2.0, ..), &[500.0]);
    near(x.norm(3.0, ..), &[449.8]);
    near(x.normalize(2.0, 0, 1e-12), &[0.6, 0.8]);
    near(x.cosine_similarity(&(&x * 2.0), 0, 1e-8), &[1.0]);
    near(x.pairwise_distance(&-&x, 2.0, 1e-6), &[1000.0]);
    near(half(&[6e4, -6e4]).std(.., 0), &[6e4]);
    let wide = Tensor::new([1e30, 1.0, -1e30]);
    for d in [DType::F32, DType::BF16] {
        let (got, v) = of(wide.cast(d).std(.., 1));
        assert!(got == d && (v[0] / 1e30 - 1.0).abs() < 4e-3, "{v:?}");
    }
    let norm = frit::nn::BatchNorm::new(1);
    let batch = half(&[3e4, -3e4]).reshape([2, 1]);
    near(frit::nn::training(true, || norm.forward(&batch)).reshape([2]), &[1.0, -1.0]);
}
