//! Programs written by hand, rendered to C, compiled by the system's compiler and run.

use frit_abi::alu::AluSet;
use frit_abi::target::{BASIC_FLOAT, BASIC_INT};
use frit_abi::{Alu, Code, DType, Scalar, Target};
use frit_render::c;
use frit_uop::{Arg, AxisKind, Linear, Op, Space, Step, UOp};
use std::process::Command;

/// A machine with vectors of this many bytes.
fn target(vector_bytes: usize) -> Target {
    Target {
        name: "c-test".into(),
        vector_bytes,
        float_ops: BASIC_FLOAT,
        int_ops: BASIC_INT.or(AluSet::of(&[Alu::MulAcc])),
        ..Target::interp()
    }
}

fn i32c(v: i64) -> UOp {
    UOp::int(v, DType::I32)
}

fn range(extent: i64, id: u32, kind: AxisKind) -> UOp {
    let r = UOp::range(&i32c(extent), id, kind);
    UOp::new(Op::Range, DType::I32, r.src.clone(), r.arg.clone())
}

/// A program of these steps; parameters and defines are found in it.
fn linear(name: &str, steps: Vec<Step>) -> Linear {
    let nodes: Vec<UOp> = steps
        .iter()
        .filter_map(|s| if let Step::Do(n) = s { Some(n.toposort()) } else { None })
        .flatten()
        .collect();
    let mut params: Vec<UOp> = vec![];
    let mut defines: Vec<UOp> = vec![];
    for n in &nodes {
        let list = match n.op {
            Op::Param => &mut params,
            Op::Define => &mut defines,
            _ => continue,
        };
        if !list.contains(n) {
            list.push(n.clone());
        }
    }
    params.sort_by_key(|p| if let Arg::Param { slot, .. } = p.arg { slot } else { 0 });
    let is_written = |p: &UOp| nodes.iter().any(|n| n.op == Op::Store && n.src[0].any(|m| m == p));
    let written = params.iter().map(is_written).collect();
    let one = UOp::index(1);
    Linear {
        name: name.into(),
        steps,
        params,
        written,
        vars: vec![],
        defines,
        specials: vec![],
        thread: None,
        flops: one.clone(),
        bytes: one,
    }
}

/// The steps of straight-line code that ends in these stores.
pub fn straight(stores: &[UOp]) -> Vec<Step> {
    let leaf = |n: &UOp| {
        matches!(n.op, Op::Const | Op::Param | Op::Define | Op::Index | Op::After | Op::Range | Op::Variable)
    };
    frit_uop::graph::toposort(stores).into_iter().filter(|n| !leaf(n)).map(Step::Do).collect()
}

fn source(l: &Linear, t: &Target) -> String {
    let k = c::render(l, t).unwrap();
    match k.code {
        Code::C(s) => s,
        _ => unreachable!(),
    }
}

fn compilers() -> Vec<String> {
    let all = std::env::var("FRIT_TEST_CC").unwrap_or("cc clang".into());
    let works = |c: &&str| Command::new(c).arg("--version").output().is_ok_and(|o| o.status.success());
    all.split(' ').filter(works).map(String::from).collect()
}

/// Compile a source with a main and give what it prints; once for each compiler there is.
fn run(name: &str, text: &str) -> Vec<String> {
    let dir = std::env::temp_dir().join(format!("frit-c-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (src, exe) = (dir.join("k.c"), dir.join("k"));
    std::fs::write(&src, text).unwrap();
    let mut out = vec![];
    for cc in compilers() {
        let flags = ["-O2", "-march=native", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing"];
        // how vectors that the machine does not have are passed to functions, which all are inlined
        let more = ["-fno-math-errno", "-fno-trapping-math", "-Wall", "-Wno-unused", "-Wno-psabi", "-o"];
        let c = Command::new(&cc).args(flags).args(more).arg(&exe).arg(&src).output().unwrap();
        assert!(c.status.success(), "{cc}: {}\n{text}", String::from_utf8_lossy(&c.stderr));
        assert!(c.stderr.is_empty(), "{cc}: {}\n{text}", String::from_utf8_lossy(&c.stderr));
        let r = Command::new(&exe).output().unwrap();
        assert!(r.status.success(), "{cc}: {r:?}\n{text}");
        out.push(String::from_utf8(r.stdout).unwrap());
    }
    std::fs::remove_dir_all(&dir).unwrap();
    if out.is_empty() {
        eprintln!("no C compiler here: not run");
    }
    out
}

/// 12 accumulators of 16 lanes: rows of A times two vectors of B, K steps.
pub fn micro_kernel(k: i64) -> Linear {
    let lanes = 16;
    let (c, a, b) = (
        UOp::param(0, 6 * 32, DType::F32),
        UOp::param(1, 6 * k as usize, DType::F32),
        UOp::param(2, 32 * k as usize, DType::F32),
    );
    let acc: Vec<UOp> = (0..12).map(|i| UOp::define(Space::Reg, i, lanes, DType::F32)).collect();
    let zero: Vec<UOp> = acc.iter().map(|d| d.store(&UOp::float(0.0, DType::F32))).collect();
    let r = range(k, 0, AxisKind::Reduce);
    let mut steps: Vec<Step> = zero.iter().cloned().map(Step::Do).collect();
    steps.push(Step::Open(r.clone()));
    let row = |j: i64| b.at_lanes(&(&r * 32 + j * 16), lanes as u32).load();
    let cols = [row(0), row(1)];
    let mut body = vec![];
    for i in 0..6 {
        let x = a.at(&(&r * 6 + i)).load();
        for (j, col) in cols.iter().enumerate() {
            let d = &acc[i as usize * 2 + j];
            let old = d.after([zero[i as usize * 2 + j].clone(), r.clone()]).load();
            body.push(d.store(&UOp::alu(Alu::MulAcc, &[&x, col, &old])));
        }
    }
    steps.extend(straight(&body).into_iter().filter(|s| !zero.iter().any(|z| *s == Step::Do(z.clone()))));
    steps.push(Step::Close(r.clone()));
    for i in 0..12 {
        let last = acc[i].after([body[i].end([r.clone()])]).load();
        steps.push(Step::Do(last.clone()));
        steps.push(Step::Do(c.at_lanes(&i32c(i as i64 * 16), lanes as u32).store(&last)));
    }
    linear("gemm_6_32", steps)
}

#[test]
fn loops_of_every_number_leave_types_their_names() {
    let loops: Vec<UOp> = [8, 16, 32, 64].map(|id| range(2, id, AxisKind::Loop)).into();
    let at = loops.iter().skip(1).fold(loops[0].clone(), |at, r| &(&at * 2) + r);
    let (to, from) = (UOp::param(0, 16, DType::I8), UOp::param(1, 16, DType::I8));
    let x = from.at(&at).load();
    let open = loops.iter().cloned().map(Step::Open);
    let close = loops.iter().rev().cloned().map(Step::Close);
    let steps = open.chain(straight(&[to.at(&at).store(&(&x * &x))])).chain(close).collect();
    let text = source(&linear("squares", steps), &target(64));
    let main = "#include <stdio.h>
signed char A[16], B[16];
int main(void) {
  for (int i = 0; i < 16; i++) A[i] = i - 8;
  void *bufs[] = {B, A};
  squares(bufs, 0, 0, 0, 0, 1);
  for (int i = 0; i < 16; i++) printf(\"%d \", B[i]);
}\n";
    for out in run("loops", &format!("{text}{main}")) {
        assert_eq!(out, "64 49 36 25 16 9 4 1 0 1 4 9 16 25 36 49 ");
    }
}

#[test]
fn a_gemm_micro_kernel_keeps_its_accumulators_in_registers() {
    let k = 256;
    let text = source(&micro_kernel(k), &target(64));
    let main = format!(
        "#include <stdio.h>\n#include <time.h>\n{text}
float A[6*{k}], B[32*{k}], C[6*32];
int main(void) {{
  for (int i = 0; i < 6*{k}; i++) A[i] = (i % 7) - 3;
  for (int i = 0; i < 32*{k}; i++) B[i] = (i % 5) - 2;
  void *bufs[] = {{C, A, B}};
  double best = 1e9;
  for (int t = 0; t < 50; t++) {{
    struct timespec a, b; clock_gettime(CLOCK_MONOTONIC, &a);
    for (int i = 0; i < 1000; i++) gemm_6_32(bufs, 0, 0, 0, 0, 1);
    clock_gettime(CLOCK_MONOTONIC, &b);
    double s = (b.tv_sec - a.tv_sec) + 1e-9 * (b.tv_nsec - a.tv_nsec); if (s < best) best = s;
  }}
  for (int i = 0; i < 6; i++) for (int j = 0; j < 32; j++) {{
    double want = 0; for (int r = 0; r < {k}; r++) want += A[r*6+i] * B[r*32+j];
    if (want != C[i*32+j]) {{ printf(\"wrong at %d %d: %f %f\\n\", i, j, want, C[i*32+j]); return 0; }}
  }}
  printf(\"ok %.1f GFLOP/s\\n\", 2.0*6*32*{k}*1000/best/1e9);
}}\n"
    );
    if std::env::var_os("SHOW").is_some() {
        println!("{text}");
    }
    for out in run("gemm", &main) {
        println!("{out}");
        assert!(out.starts_with("ok"), "{out}");
    }
}

/// Values of a type that are likely to go wrong.
pub fn special(d: DType) -> Vec<Scalar> {
    let floats = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        3.7,
        -3.7,
        127.5,
        -128.9,
        255.9,
        300.0,
        65504.0,
        1e-40,
        8388609.0,
        2147483648.0,
        -2147483648.0,
        4294967296.0,
        9.3e18,
        -9.3e18,
        1.9e19,
        3e38,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    let ints = [
        0,
        1,
        -1,
        2,
        3,
        7,
        -7,
        100,
        127,
        -128,
        255,
        32767,
        -32768,
        65535,
        i32::MAX as i64,
        i32::MIN as i64,
        u32::MAX as i64,
        i64::MAX,
        i64::MIN,
        0x1234_5678_9abc_def0,
    ];
    match d {
        DType::Bool => vec![Scalar::Bool(false), Scalar::Bool(true)],
        d if d.is_float() => floats.iter().map(|&f| Scalar::float(f, d)).collect(),
        d => ints.iter().map(|&i| Scalar::int(i as i128, d)).collect(),
    }
}

fn carrier(d: DType) -> &'static str {
    match d.size() {
        1 => "unsigned char",
        2 => "unsigned short",
        4 => "unsigned int",
        _ => "unsigned long long",
    }
}

/// One kernel that computes each of `outs` of the inputs elementwise, `lanes` at a time, checked against `want`.
fn check(
    name: &str,
    t: &Target,
    lanes: usize,
    inputs: &[(DType, Vec<Scalar>)],
    outs: &[(UOp, Vec<Scalar>)],
    n: usize,
) {
    let k = inputs.len();
    let r = range((n / lanes) as i64, 0, AxisKind::Loop);
    let at = &r * lanes as i64;
    let loads: Vec<UOp> = inputs
        .iter()
        .enumerate()
        .map(|(i, (d, _))| UOp::param((outs.len() + i) as u32, n, *d).at_lanes(&at, lanes as u32).load())
        .collect();
    // inputs are written as variables named by position
    let map = (0..k).map(|i| (UOp::param(1000 + i as u32, 1, inputs[i].0), loads[i].clone())).collect();
    let stores: Vec<UOp> = outs
        .iter()
        .enumerate()
        .map(|(i, (x, _))| {
            UOp::param(i as u32, n, x.dtype).at_lanes(&at, lanes as u32).store(&x.substitute(&map))
        })
        .collect();
    let mut steps = vec![Step::Open(r.clone())];
    steps.extend(straight(&stores));
    steps.push(Step::Close(r));
    let text = source(&linear(name, steps), t);
    let (mut arrays, mut checks) = (String::new(), String::new());
    for (i, (x, want)) in outs.iter().enumerate() {
        let c = carrier(x.dtype);
        let list: Vec<String> = want.iter().map(|s| format!("{:#x}", s.to_bits(x.dtype))).collect();
        arrays += &format!("{c} o{i}[{n}], w{i}[{n}] = {{{}}};\n", list.join(","));
        let nan = match x.dtype {
            DType::F32 => "(o & 0x7fffffff) > 0x7f800000 && (w & 0x7fffffff) > 0x7f800000",
            DType::F64 => "(o & -1ull >> 1) > 0x7ffull << 52 && (w & -1ull >> 1) > 0x7ffull << 52",
            _ => "0",
        };
        // which zero the greater of two zeros is, is left open
        let zero =
            if matches!(x.op, Op::Max | Op::Min) && x.dtype.is_float() { "!((o | w) << 1)" } else { "0" };
        let zero = if x.dtype == DType::F32 { zero.replace("<< 1", "<< 33") } else { zero.into() };
        checks += &format!(
            "for (int i = 0; i < {n}; i++) {{ unsigned long long o = o{i}[i], w = w{i}[i]; if (o != w && !({nan}) && !({zero})) printf(\"out {i} at %d: %llx, not %llx\\n\", i, o, w); }}\n"
        );
    }
    for (i, (d, v)) in inputs.iter().enumerate() {
        let list: Vec<String> = v.iter().map(|s| format!("{:#x}", s.to_bits(*d))).collect();
        arrays += &format!("{} x{i}[{n}] = {{{}}};\n", carrier(*d), list.join(","));
    }
    let bufs: Vec<String> =
        (0..outs.len()).map(|i| format!("o{i}")).chain((0..k).map(|i| format!("x{i}"))).collect();
    let main = format!(
        "#include <stdio.h>\n{text}{arrays}int main(void) {{\nvoid *bufs[] = {{{}}};\n{name}(bufs, 0, 0, 0, 0, 1);\n{checks}}}\n",
        bufs.join(", ")
    );
    for out in run(&format!("{name}-{lanes}"), &main) {
        let which: Vec<String> = outs.iter().enumerate().map(|(i, (x, _))| format!("{i}: {x:?}")).collect();
        assert!(
            out.is_empty(),
            "{name}, {lanes} lanes of {}: {out}\n{}\n{text}",
            t.vector_bytes,
            which.join("\n")
        );
    }
}

/// Every pair of special values, in two columns whose length is a multiple of 64.
pub fn pairs(d: DType) -> (Vec<Scalar>, Vec<Scalar>) {
    let s = special(d);
    let mut all: Vec<(Scalar, Scalar)> = s.iter().flat_map(|&a| s.iter().map(move |&b| (a, b))).collect();
    all.resize(all.len().next_multiple_of(64), all[0]);
    all.into_iter().unzip()
}

#[test]
fn arithmetic_is_the_scalar_definition() {
    use Alu::*;
    let types = [
        DType::Bool,
        DType::I8,
        DType::U16,
        DType::I32,
        DType::U32,
        DType::I64,
        DType::U64,
        DType::F32,
        DType::F64,
    ];
    for d in types {
        let (a, b) = pairs(d);
        let (x, y) = (UOp::param(1000, 1, d), UOp::param(1001, 1, d));
        let one = |op: Alu| (x.un(op), a.iter().map(|&a| Scalar::alu(op, d, &[a])).collect::<Vec<_>>());
        let two = |op: Alu| {
            let want = a.iter().zip(&b).map(|(&a, &b)| Scalar::alu(op, d, &[a, b])).collect::<Vec<_>>();
            (x.bin(op, &y), want)
        };
        let mut outs: Vec<_> = [Add, Sub, Mul, Max, Min, Lt, Eq, Ne].into_iter().map(two).collect();
        outs.push(one(Neg));
        if d.is_float() {
            outs.push(two(Fdiv));
            outs.extend([Recip, Sqrt, Trunc, Floor, Round].into_iter().map(one));
            let five = UOp::float(5.0, d);
            let max = a.iter().map(|&a| Scalar::alu(Max, d, &[a, Scalar::Float(5.0)])).collect();
            outs.push((x.bin(Max, &five), max));
        } else {
            outs.extend([And, Or, Xor].into_iter().map(two));
            outs.push(one(Not));
        }
        if d.is_int() {
            let three = UOp::int(3, d);
            for op in [Shl, Shr, Tdiv] {
                let want = a.iter().map(|&a| Scalar::alu(op, d, &[a, Scalar::Int(3)])).collect();
                outs.push((x.bin(op, &three), want));
            }
        }
        let fma = |&(p, q): &(Scalar, Scalar)| Scalar::alu(MulAcc, d, &[p, q, p]);
        let want = a.iter().copied().zip(b.iter().copied()).map(|p| fma(&p)).collect();
        outs.push((UOp::alu(MulAcc, &[&x, &y, &x]), want));
        let c = x.lt(&y);
        let want = a.iter().zip(&b).map(|(&a, &b)| if Scalar::alu(Lt, d, &[a, b]).as_bool() { b } else { a });
        outs.push((c.select(&y, &x), want.collect()));
        let n = a.len();
        let inputs = [(d, a.clone()), (d, b.clone())];
        check(&format!("alu_{d}"), &target(64), 1, &inputs, &outs, n);
        check(&format!("alu_{d}"), &target(64), 16, &inputs, &outs, n);
        if matches!(d, DType::F32 | DType::Bool) {
            check(&format!("alu_{d}"), &target(32), 8, &inputs, &outs, n);
            check(&format!("alu_{d}"), &target(16), 16, &inputs, &outs, n);
        }
    }
}

#[test]
fn casts_saturate_and_round_once() {
    let types = [
        DType::Bool,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::F32,
        DType::F64,
    ];
    for from in types {
        let mut v = special(from);
        v.resize(v.len().next_multiple_of(64), v[0]);
        let x = UOp::param(1000, 1, from);
        let outs: Vec<(UOp, Vec<Scalar>)> = types
            .into_iter()
            .filter(|&to| to != from)
            .map(|to| (x.cast(to), v.iter().map(|s| s.cast(to)).collect()))
            .collect();
        for lanes in [1, 16] {
            check(&format!("cast_{from}"), &target(64), lanes, &[(from, v.clone())], &outs, v.len());
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
        let want = less.iter().map(|&l| Scalar::int(l as i128, d)).collect();
        outs.push((x.lt(&y).select(&p, &q), want));
        // masks of two widths in one operation
        let both = x.lt(&y).and_(&x.cast(DType::F64).lt(&y.cast(DType::F64)));
        outs.push((both.cast(d), less.iter().map(|&l| Scalar::int(l as i128, d)).collect()));
    }
    for (bytes, lanes) in [(64, 16), (32, 8), (16, 4), (64, 1)] {
        let inputs = [(DType::F32, a.clone()), (DType::F32, b.clone())];
        check("masks", &target(bytes), lanes, &inputs, &outs, a.len());
    }
}
