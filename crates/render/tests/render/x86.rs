//! Machine code for every instruction set this machine has, against the definition of each operation on scalars.

use crate::build::*;
use crate::c::{pairs, special};
use frit_abi::target::Isa;
use frit_abi::{Alu, DType, Scalar, Target};
use frit_render::x86;
use frit_runtime::cpu::{Config, Cpu};
use frit_runtime::env::CacheSetting;
use frit_runtime::{Device, Error, Memory};
use frit_uop::{Linear, Step, UOp};
use std::sync::LazyLock;

/// The instruction sets to test, each a machine of its own.
pub fn levels() -> Vec<Target> {
    let most = frit_runtime::cpu::target::machine();
    let all = [Isa::Sse2, Isa::Avx2, Isa::Avx512].into_iter().filter(|i| *i <= most);
    all.map(|i| Target::native(i, 1, [32 << 10, 1 << 20, 0])).collect()
}

static CPU: LazyLock<Cpu> = LazyLock::new(|| {
    Cpu::new(Config {
        threads: 2,
        plan_threads: 2,
        isa: Isa::Portable,
        units: frit_runtime::env::Units::Off,
        cc: None,
        cache: CacheSetting::Off,
    })
});

/// Run a program as machine code on memories of bytes.
pub fn run_native(
    linear: &Linear,
    target: &Target,
    bufs: &[Vec<u8>],
    vars: &[i64],
    extent: i64,
) -> Result<Vec<Vec<u8>>, Error> {
    let kernel = x86::render(linear, target).unwrap_or_else(|e| panic!("{}: {e}", target.name));
    let loaded = CPU.load(&kernel)?;
    if std::env::var_os("SHOW").is_some() {
        println!("{}\n{}", target.name, loaded.disassembly()?);
    }
    let memories: Vec<Memory> = bufs.iter().map(|b| memory(&*CPU, b)).collect();
    loaded.launch(&memories.iter().collect::<Vec<_>>(), vars, threads(extent))?;
    Ok(memories.iter().map(values).collect())
}

/// Typed: the first buffer is the result.
fn launch_native<T: Element>(
    steps: Vec<Step>,
    target: &Target,
    bufs: &[Vec<T>],
    vars: &[i64],
    extent: i64,
) -> Result<Vec<T>, Error> {
    let bytes: Vec<Vec<u8>> = bufs.iter().map(|b| b.iter().flat_map(|v| v.bytes()).collect()).collect();
    let out = run_native(&linear(steps), target, &bytes, vars, extent)?;
    Ok(out[0].chunks(size_of::<T>()).map(T::of).collect())
}

fn to_bytes(v: &[Scalar], d: DType) -> Vec<u8> {
    v.iter().flat_map(|s| s.to_bits(d).to_le_bytes()[..d.size()].to_vec()).collect()
}
fn from_bytes(bytes: &[u8], d: DType) -> Vec<Scalar> {
    let bits = |c: &[u8]| c.iter().rev().fold(0u64, |n, &b| n << 8 | b as u64);
    bytes.chunks(d.size()).map(|c| Scalar::from_bits(bits(c), d)).collect()
}

/// One kernel that computes each of `outs` of the inputs (params from 1000 on), `lanes` at a time.
fn check(target: &Target, lanes: usize, inputs: &[(DType, Vec<Scalar>)], outs: &[(UOp, Vec<Scalar>)]) {
    let n = inputs[0].1.len();
    let r = range((n / lanes) as i64, 0);
    let at = &r * lanes as i64;
    let loads = inputs
        .iter()
        .enumerate()
        .map(|(i, (d, _))| UOp::param((outs.len() + i) as u32, n, *d).at_lanes(&at, lanes as u32).load());
    let map = inputs
        .iter()
        .zip(loads)
        .enumerate()
        .map(|(i, ((d, _), load))| (UOp::param(1000 + i as u32, 1, *d), load))
        .collect();
    let stores: Vec<UOp> = outs
        .iter()
        .enumerate()
        .map(|(i, (x, _))| {
            UOp::param(i as u32, n, x.dtype).at_lanes(&at, lanes as u32).store(&x.substitute(&map))
        })
        .collect();
    let linear = linear(looped(&r, crate::c::straight(&stores)));
    let mut bufs: Vec<Vec<u8>> = outs.iter().map(|(x, _)| vec![0xaa; n * x.dtype.size()]).collect();
    bufs.extend(inputs.iter().map(|(d, v)| to_bytes(v, *d)));
    let got = run_native(&linear, target, &bufs, &[], 1).unwrap();
    for (i, (x, want)) in outs.iter().enumerate() {
        for (k, (got, want)) in from_bytes(&got[i], x.dtype).into_iter().zip(want).enumerate() {
            // which zero the greater of two zeros is, is left open
            let zeros = matches!(x.op, frit_uop::Op::Max | frit_uop::Op::Min)
                && got.as_f64() == 0.0
                && want.as_f64() == 0.0;
            let args: Vec<Scalar> = inputs.iter().map(|(_, v)| v[k]).collect();
            assert!(
                got == *want || zeros,
                "{}, {lanes} lanes: {x:?} of {args:?} is {got:?}, not {want:?}",
                target.name
            );
        }
    }
}

const NUMBERS: [DType; 10] = {
    use DType::*;
    [I8, I16, I32, I64, U8, U16, U32, U64, F32, F64]
};

#[test]
fn arithmetic_is_the_scalar_definition() {
    use Alu::*;
    for d in NUMBERS.into_iter().chain([DType::Bool]) {
        let (a, b) = pairs(d);
        let (x, y) = (UOp::param(1000, 1, d), UOp::param(1001, 1, d));
        let inputs = [(d, a.clone()), (d, b.clone())];
        for target in levels() {
            let one = |op: Alu| (x.un(op), a.iter().map(|&a| Scalar::alu(op, d, &[a])).collect::<Vec<_>>());
            let two = |op: Alu| {
                let want = a.iter().zip(&b).map(|(&a, &b)| Scalar::alu(op, d, &[a, b])).collect::<Vec<_>>();
                (x.bin(op, &y), want)
            };
            let by = |op: Alu, c: i64| {
                let s = Scalar::int(c as i128, d);
                (x.bin(op, &UOp::constant(s, d)), a.iter().map(|&a| Scalar::alu(op, d, &[a, s])).collect())
            };
            let mut outs: Vec<_> = [Add, Sub, Mul, Max, Min, Lt, Eq, Ne].into_iter().map(two).collect();
            outs.push(one(Neg));
            if d.is_float() {
                outs.push(two(Fdiv));
                outs.push(by(Max, 5));
                let some = [Sqrt, Trunc, Floor, Round, Recip];
                outs.extend(some.into_iter().filter(|o| *o == Recip || target.supports(*o, d)).map(one));
                if target.supports(MulAcc, d) {
                    let fma = |(p, q): (&Scalar, &Scalar)| Scalar::alu(MulAcc, d, &[*p, *q, *p]);
                    outs.push((UOp::alu(MulAcc, &[&x, &y, &x]), a.iter().zip(&b).map(fma).collect()));
                }
            } else {
                outs.extend([And, Or, Xor].into_iter().map(two));
                outs.push(one(Not));
            }
            if d.is_int() {
                outs.extend([Shl, Shr, Tdiv, Add, Mul, And, Lt].into_iter().map(|op| by(op, 3)));
                outs.extend([Add, Or].into_iter().map(|op| by(op, -2)));
            }
            let c = x.lt(&y);
            let is_less = |a: Scalar, b: Scalar| Scalar::alu(Lt, d, &[a, b]).as_bool();
            let less = a.iter().zip(&b).map(|(&a, &b)| if is_less(a, b) { b } else { a });
            outs.push((c.select(&y, &x), less.collect()));
            let least = a.iter().zip(&b).map(|(&a, &b)| if is_less(a, b) { a } else { b });
            outs.push((c.select(&x, &y), least.collect()));
            let zero = Scalar::zero(d);
            let masked = a.iter().zip(&b).map(|(&a, &b)| if is_less(a, b) { b } else { zero });
            outs.push((c.select(&y, &UOp::constant(zero, d)), masked.collect()));
            for lanes in [1, 2, 4, 8, 16, 32, 64] {
                check(&target, lanes, &inputs, &outs);
            }
        }
    }
}

#[test]
fn shifts_and_divisions_by_other_lanes() {
    use Alu::*;
    for d in NUMBERS.into_iter().filter(|d| d.is_int()) {
        let a: Vec<Scalar> = special(d).into_iter().cycle().take(64).collect();
        let by: Vec<Scalar> = (0..64).map(|i| Scalar::int(i % d.bits() as i128, d)).collect();
        let divisors: Vec<Scalar> = (0..64).map(|i| Scalar::int([1, 2, 3, 7, 100, 5][i % 6], d)).collect();
        let (x, y, z) = (UOp::param(1000, 1, d), UOp::param(1001, 1, d), UOp::param(1002, 1, d));
        let two = |op: Alu, y: &UOp, b: &[Scalar]| {
            (x.bin(op, y), a.iter().zip(b).map(|(&a, &b)| Scalar::alu(op, d, &[a, b])).collect::<Vec<_>>())
        };
        let outs = [two(Shl, &y, &by), two(Shr, &y, &by), two(Tdiv, &z, &divisors)];
        for target in levels() {
            for lanes in [1, 4, 16, 64] {
                check(&target, lanes, &[(d, a.clone()), (d, by.clone()), (d, divisors.clone())], &outs);
            }
        }
    }
}

#[test]
fn casts_saturate_and_round_once() {
    for from in NUMBERS.into_iter().chain([DType::Bool]) {
        let mut v = special(from);
        v.resize(v.len().next_multiple_of(64), v[0]);
        let x = UOp::param(1000, 1, from);
        let outs: Vec<(UOp, Vec<Scalar>)> = NUMBERS
            .into_iter()
            .chain([DType::Bool])
            .filter(|&to| to != from)
            .map(|to| (x.cast(to), v.iter().map(|s| s.cast(to)).collect()))
            .collect();
        for target in levels() {
            for lanes in [1, 2, 8, 16, 64] {
                check(&target, lanes, &[(from, v.clone())], &outs);
            }
        }
    }
}

#[test]
fn halves_convert_in_hardware() {
    let values: Vec<Scalar> = (0..1 << 16).map(|b| Scalar::from_bits(b, DType::F16)).collect();
    let mut near: Vec<Scalar> = special(DType::F32);
    // half way between neighbours, just above and just below
    for b in (0..0x7c00u64).step_by(37) {
        let (a, c) =
            (Scalar::from_bits(b, DType::F16).as_f64(), Scalar::from_bits(b + 1, DType::F16).as_f64());
        let middle = ((a + c) / 2.0) as f32;
        let around = [middle.next_down(), middle, middle.next_up(), -middle];
        near.extend(around.map(|x| Scalar::Float(x as f64)));
    }
    near.truncate(near.len() / 64 * 64);
    for target in levels().into_iter().filter(|t| t.converts.has(DType::F16)) {
        for lanes in [1, 4, 16, 32] {
            let wide: Vec<Scalar> = values.iter().map(|s| s.cast(DType::F32)).collect();
            let x = UOp::param(1000, 1, DType::F16).cast(DType::F32);
            check(&target, lanes, &[(DType::F16, values.clone())], &[(x, wide)]);
            let halves: Vec<Scalar> = near.iter().map(|s| s.cast(DType::F16)).collect();
            let x = UOp::param(1000, 1, DType::F32).cast(DType::F16);
            check(&target, lanes, &[(DType::F32, near.clone())], &[(x, halves)]);
        }
    }
}

#[test]
fn bits_stay_when_they_are_called_something_else() {
    use DType::*;
    for (a, b) in
        [(F32, I32), (U32, F32), (F64, U64), (I64, F64), (U16, I16), (F16, U16), (I16, BF16), (U8, I8)]
    {
        let v: Vec<Scalar> =
            special(a).into_iter().filter(|s| s.as_f64() == s.as_f64()).cycle().take(64).collect();
        let x = UOp::param(1000, 1, a);
        let want: Vec<Scalar> = v.iter().map(|s| Scalar::from_bits(s.to_bits(a), b)).collect();
        let outs = [(x.bitcast(b), want)];
        for target in levels() {
            for lanes in [1, 16] {
                check(&target, lanes, &[(a, v.clone())], &outs);
            }
        }
    }
}

#[test]
fn a_mask_meets_values_of_every_width() {
    let (a, b) = pairs(DType::F32);
    let (x, y) = (UOp::param(1000, 1, DType::F32), UOp::param(1001, 1, DType::F32));
    let less: Vec<bool> = a.iter().zip(&b).map(|(a, b)| a.as_f64() < b.as_f64()).collect();
    let mut outs = vec![];
    for d in [DType::I8, DType::I16, DType::I64, DType::F64, DType::F32, DType::Bool] {
        let (p, q) = (UOp::int(1, d), UOp::int(0, d));
        let want: Vec<Scalar> = less.iter().map(|&l| Scalar::int(l as i128, d)).collect();
        outs.push((x.lt(&y).select(&p, &q), want.clone()));
        // masks of two widths in one operation
        let both = x.lt(&y).and_(&x.cast(DType::F64).lt(&y.cast(DType::F64)));
        outs.push((both.cast(d), want.clone()));
        let wide = x.cast(DType::F64).lt(&y.cast(DType::F64));
        outs.push((wide.select(&x.lt(&y), &UOp::boolean(false)).cast(d), want));
    }
    for target in levels() {
        for lanes in [1, 2, 4, 8, 16, 64] {
            let inputs = [(DType::F32, a.clone()), (DType::F32, b.clone())];
            check(&target, lanes, &inputs, &outs);
        }
    }
}

#[test]
fn lanes_are_stacked_and_taken_apart() {
    use DType::*;
    for target in levels() {
        for d in [I8, U8, I16, I32, U64, F32, F64, Bool, F16] {
            for w in [2usize, 4, 8, 16, 32] {
                let (out, a) = (UOp::param(0, w, d), UOp::param(1, w, d));
                let x = a.at_lanes(&int(0), w as u32).load();
                let lanes: Vec<UOp> = (0..w as u32).map(|i| x.lane(w as u32 - 1 - i)).collect();
                let back = UOp::stack(lanes.clone());
                let store = out.at_lanes(&int(0), w as u32).store(&back);
                let mut steps = run(&[&x]);
                steps.extend(run(&lanes.iter().collect::<Vec<_>>()));
                steps.extend(run(&[&back, &store]));
                let v: Vec<Scalar> = special(d).into_iter().cycle().take(w).collect();
                let bufs = [vec![0; w * d.size()], to_bytes(&v, d)];
                let got = run_native(&linear(steps), &target, &bufs, &[], 1).unwrap();
                let want: Vec<Scalar> = v.into_iter().rev().collect();
                assert_eq!(from_bytes(&got[0], d), want, "{} {d} x{w}", target.name);
            }
        }
    }
}

/// `0, 1, … n-1` as a vector.
fn count(n: i64) -> UOp {
    UOp::stack((0..n).map(int))
}

#[test]
fn every_lane_has_its_gate() {
    for target in levels() {
        for w in [4usize, 16] {
            for d in [DType::F32, DType::I32, DType::F64, DType::U8, DType::I16, DType::Bool] {
                for alt in [0, 1] {
                    let (out, a) = (UOp::param(0, w, d), UOp::param(1, w, d));
                    let n = count(w as i64);
                    let (inside, late) = (n.lt(&int(11)), int(1).lt(&n));
                    let x = gated_load(&a.at_lanes(&int(0), w as u32), &UOp::int(alt, d), &inside, None);
                    let store = gated_store(&out.at_lanes(&int(0), w as u32), &x, &late, None);
                    let steps = run(&[&n, &inside, &late, &x, &store]);
                    let v: Vec<Scalar> = (0..w).map(|i| Scalar::int(i as i128 % 3, d)).collect();
                    let nine = Scalar::int(9, d);
                    let want: Vec<Scalar> = (0..w)
                        .map(|i| match i {
                            0 | 1 => nine,
                            2..11 => v[i],
                            _ => Scalar::int(alt as i128, d),
                        })
                        .collect();
                    let bufs = [to_bytes(&vec![nine; w], d), to_bytes(&v, d)];
                    let got = run_native(&linear(steps), &target, &bufs, &[], 1).unwrap();
                    assert_eq!(from_bytes(&got[0], d), want, "{} {d} x{w}", target.name);
                }
            }
        }
    }
}

#[test]
fn scalar_gates_read_the_alternative_and_store_nothing() {
    let f = DType::F32;
    let (out, a) = (UOp::param(0, 8, f), UOp::param(1, 4, f));
    let r = range(8, 0);
    let i = &r - 2;
    let (low, high, last) = (int(1).lt(&r), r.lt(&int(6)), r.lt(&int(7)));
    let gate = low.and_(&high);
    let x = gated_load(&a.at(&i), &UOp::float(7.0, f), &gate, None);
    let store = gated_store(&out.at(&r), &x, &last, None);
    for target in levels() {
        let steps = looped(&r, run(&[&i, &low, &high, &gate, &last, &x, &store]));
        let got =
            launch_native(steps, &target, &[vec![9.0f32; 8], vec![1.0, 2.0, 3.0, 4.0]], &[], 1).unwrap();
        assert_eq!(got, [7.0, 7.0, 1.0, 2.0, 3.0, 4.0, 7.0, 9.0], "{}", target.name);
    }
}

#[test]
fn lanes_may_come_from_places_of_their_own_and_go_there() {
    let f = DType::F32;
    let (out, a) = (UOp::param(0, 4, f), UOp::param(1, 3, f));
    let picks = UOp::stack([2, 0, 5, 1].map(int));
    let gate = picks.lt(&int(3));
    let x = gated_load(&a.at(&picks), &UOp::float(-1.0, f), &gate, None);
    let back = UOp::stack([3, 2, 1, 0].map(int));
    let store = out.at(&back).store(&x);
    for target in levels() {
        let steps = run(&[&picks, &gate, &x, &back, &store]);
        let got = launch_native(steps, &target, &[vec![9.0f32; 4], vec![1.0, 2.0, 3.0]], &[], 1).unwrap();
        assert_eq!(got, [2.0, -1.0, 1.0, 3.0], "{}", target.name);
    }
}

#[test]
fn a_checked_miss_is_an_error_with_its_site() {
    let f = DType::F32;
    let (out, a) = (UOp::param(0, 4, f), UOp::param(1, 4, f));
    for (target, from, site) in levels().into_iter().flat_map(|t| [(t.clone(), 0, None), (t, 2, Some(41))]) {
        let r = range(4, 0);
        let i = &r + from;
        let inside = i.lt(&int(4));
        let x = gated_load(&a.at(&i), &UOp::float(0.0, f), &inside, Some(41));
        let steps = looped(&r, run(&[&i, &inside, &x, &out.at(&r).store(&x)]));
        let n = count(4);
        let wide = &n + &int(from);
        let ok = wide.lt(&int(4));
        let v = gated_load(&a.at_lanes(&int(from), 4), &UOp::float(0.0, f), &ok, Some(41));
        let vector = run(&[&n, &wide, &ok, &v, &out.at_lanes(&int(0), 4).store(&v)]);
        for steps in [steps, vector] {
            let got = launch_native(steps, &target, &[vec![0.0f32; 4], vec![1.0; 4]], &[], 1);
            let want = site.map(|site| Error::Index { kernel: "test".into(), site });
            assert_eq!(got.err(), want, "{}", target.name);
        }
    }
}

#[test]
fn the_program_of_virtual_registers_can_be_read() {
    let f = DType::F32;
    let (out, a, r) = (UOp::param(0, 64, f), UOp::param(1, 64, f), range(4, 0));
    let at = &r * &int(16);
    let x = a.at_lanes(&at, 16).load();
    let y = &x * &x;
    let steps = looped(&r, run(&[&at, &x, &y, &out.at_lanes(&at, 16).store(&y)]));
    let target = Target::native(Isa::Avx512, 1, [32 << 10, 1 << 20, 0]);
    let mut seen = vec![];
    let kernel = x86::render_and_watch(&linear(steps), &target, &mut |pass, program| {
        seen.push((pass, program.to_string()));
    });
    kernel.unwrap();
    assert_eq!(seen.iter().map(|s| s.0).collect::<Vec<_>>(), ["select", "dead_code", "regalloc", "encode"]);
    let lines: Vec<&str> = seen[1].1.lines().collect();
    let loop_at = lines.iter().position(|l| l.trim_end().ends_with("L0:")).expect("a loop");
    let body = &lines[loop_at + 1..];
    assert!(body.iter().any(|l| l.starts_with("    v") && l.contains(" = vmulps v")), "{}", seen[1].1);
    assert!(body.iter().any(|l| l.trim() == "jl L0"), "{}", seen[1].1);
    // once registers are given out, each says which it has
    assert!(seen[2].1.contains('|') && !seen[1].1.contains('|'));
}
