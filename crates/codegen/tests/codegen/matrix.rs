//! Matrix units: kernels given to them compute what they did before.

use crate::kernels::{Case, conv, range};
use crate::run::{check, cpu, lower, run};
use frit_abi::Target;
use frit_abi::matrix::{AMX_BF16, MMA_SYNC, MMA_TF32, VNNI, dots};
use frit_codegen::{Opt, Opts, Order, plan, random_opts};
use frit_uop::{Alu, AxisKind, DType, Op, Space, Step, UOp};

/// How the second factor lies in memory.
#[derive(Clone, Copy, PartialEq)]
enum Second {
    Rows,
    Columns,
}

/// `f(a b)` with a bias, a maximum and a conversion after the sum.
fn product(m: i64, n: i64, k: i64, types: [DType; 2], second: Second) -> UOp {
    let (i, j, r) =
        (range(m, 0, AxisKind::Global), range(n, 1, AxisKind::Global), range(k, 2, AxisKind::Reduce));
    let sum = match types {
        [a, b] if a.is_int() && b.is_int() => DType::I32,
        _ => DType::F32,
    };
    let a = UOp::param(1, (m * k) as usize, types[0]).at(&(&i * k + &r)).load().cast(sum);
    let at = if second == Second::Rows { &r * n + &j } else { &j * k + &r };
    let b = UOp::param(2, (k * n) as usize, types[1]).at(&at).load().cast(sum);
    let x = (&a * &b).reduce(Alu::Add, [r]);
    let x = (&x + &UOp::param(3, n as usize, sum).at(&j).load())
        .bin(Alu::Max, &UOp::int(-3, DType::I32).cast(sum));
    UOp::sink([UOp::param(0, (m * n) as usize, sum).at(&(&i * n + &j)).store(&x).end([i, j])])
}

fn case(name: &'static str, sink: UOp) -> Case {
    Case { name, sink, vars: vec![], exact: true }
}

fn matrix(unit: &str, axes: [usize; 3]) -> Opt {
    Opt::Matrix { unit: unit.into(), axes }
}

/// Machines with tiles: the interpreter, and this one if it has any.
fn tiled() -> Vec<Target> {
    let native = cpu("CPU:AMX").map(|d| d.target().clone());
    [Target::interp()].into_iter().chain(native).collect()
}

const INT8: [(&str, [DType; 2]); 4] = [
    ("amx-s8s8", [DType::I8, DType::I8]),
    ("amx-s8u8", [DType::I8, DType::U8]),
    ("amx-u8s8", [DType::U8, DType::I8]),
    ("amx-u8u8", [DType::U8, DType::U8]),
];

/// Machines with products of bytes in vectors: the interpreter and those that this one has, with and without VNNI.
fn dotted() -> Vec<Target> {
    let native = ["CPU:SSE2", "CPU:AVX2", "CPU:AVX512"].iter().filter_map(|n| cpu(n));
    let mut all: Vec<Target> = native.map(|d| d.target().clone()).collect();
    all.push(Target::interp());
    let plain = |t: &Target| Target { matrix: dots(t.vector_bytes, t.registers, false), ..t.clone() };
    let without: Vec<Target> = all.iter().filter(|t| t.unit(VNNI).is_some()).map(plain).collect();
    all.extend(without);
    all
}

#[test]
fn bytes_are_multiplied_exactly_in_vectors() {
    for target in dotted() {
        for unit in target.matrix.iter().filter(|u| u.size[0] == 1) {
            for second in [Second::Rows, Second::Columns] {
                for (m, n, k) in [(2, 64, 64), (6, 32, 40), (13, 48, 8)] {
                    let c = case("dots", product(m, n, k, unit.operands, second));
                    let mut opts = vec![matrix(unit.name, [0, 1, 2])];
                    check(&c, &target, &opts);
                    assert!(uses_a_unit(&c.sink, &target, &opts));
                    if (n as usize).is_multiple_of(2 * unit.size[1]) {
                        opts.push(Opt::Split { axis: 1, n: 2, kind: AxisKind::Upcast, inner: true });
                        check(&c, &target, &opts);
                    }
                }
                for (m, n, k) in [(64, 64, 64), (9, 33, 35), (40, 20, 7)] {
                    let c = case("dots", product(m, n, k, unit.operands, second));
                    if let Err(e) = run(&c, &target, Opts::Heuristic) {
                        panic!("{m} x {n} x {k} on {}: {}", target.name, &e[..e.len().min(4000)]);
                    }
                    for seed in 0..4 {
                        let opts = random_opts(&c.sink, &target, seed, 2 + seed as usize).unwrap();
                        check(&c, &target, &opts);
                    }
                }
            }
        }
    }
}

/// A GPU with all units that there are for those who ask for them.
fn gpu() -> Target {
    let matrix = MMA_SYNC.into_iter().chain([MMA_TF32]).collect();
    Target { matrix, ..Target::interp_gpu() }
}

fn uses_a_unit(sink: &UOp, target: &Target, opts: &[Opt]) -> bool {
    let linear = lower(sink, target, Opts::List(opts)).unwrap();
    linear.steps.iter().any(|s| matches!(s, Step::Do(n) if n.op == Op::Matrix))
}

#[test]
fn a_unit_computes_what_loops_do() {
    let gpu = gpu();
    let bf16 = [DType::BF16; 2];
    for second in [Second::Rows, Second::Columns] {
        for (m, n, k) in [(16, 16, 32), (32, 16, 64)] {
            for axes in [[0, 1, 2], [1, 0, 2]] {
                let c = case("bf16", product(m, n, k, bf16, second));
                for target in tiled() {
                    check(&c, &target, &[matrix("amx-bf16", axes)]);
                    assert!(uses_a_unit(&c.sink, &target, &[matrix("amx-bf16", axes)]));
                }
                check(&c, &gpu, &[matrix("mma-bf16", axes)]);
                let c = case("f16", product(m, n, k, [DType::F16; 2], second));
                for target in tiled().iter().filter(|t| t.unit("amx-f16").is_some()) {
                    check(&c, target, &[matrix("amx-f16", axes)]);
                    assert!(uses_a_unit(&c.sink, target, &[matrix("amx-f16", axes)]));
                }
                check(&c, &gpu, &[matrix("mma-f16", axes)]);
            }
        }
        for (unit, types) in INT8 {
            let c = case("int8", product(16, 32, 128, types, second));
            tiled().iter().for_each(|t| check(&c, t, &[matrix(unit, [0, 1, 2])]));
            check(&c, &gpu, &[matrix(&unit.replace("amx", "mma"), [0, 1, 2])]);
        }
        // small whole numbers need no more than ten bits
        check(
            &case("tf32", product(32, 16, 24, [DType::F32; 2], second)),
            &gpu,
            &[matrix("mma-tf32", [0, 1, 2])],
        );
    }
}

#[test]
fn a_unit_goes_with_padding_tiles_and_stages() {
    tiled().iter().for_each(padded);
}

fn padded(cpu: &Target) {
    let c = case("odd", product(37, 40, 45, [DType::BF16; 2], Second::Rows));
    let pads = [Opt::Pad { axis: 0, n: 32 }, Opt::Pad { axis: 1, n: 32 }, Opt::Pad { axis: 2, n: 32 }];
    let split = |axis, n, kind| Opt::Split { axis, n, kind, inner: true };
    let mut opts = pads.to_vec();
    opts.push(matrix("amx-bf16", [0, 1, 2]));
    check(&c, cpu, &opts);
    // 2 x 2 accumulators, the second factor packed for a block of columns, the first for all that is summed over
    opts.push(split(0, 2, AxisKind::Upcast));
    opts.push(split(2, 2, AxisKind::Upcast));
    check(&c, cpu, &opts);
    let loads = plan(&c.sink, cpu, &opts).unwrap().operands.len();
    for operand in 0..loads {
        for at in 0..4 {
            let mut staged = opts.clone();
            staged.push(Opt::Stage { operand, at, space: Space::Local, order: Order::LoopOrder, buffers: 1 });
            if plan(&c.sink, cpu, &staged).is_ok() {
                check(&c, cpu, &staged);
            }
        }
    }
    let both: Vec<Opt> = (0..loads)
        .map(|operand| Opt::Stage {
            operand,
            at: 1,
            space: Space::Local,
            order: Order::LoopOrder,
            buffers: 1,
        })
        .collect();
    let mut staged = opts.clone();
    staged.extend(
        both.into_iter().filter(|s| plan(&c.sink, cpu, &[opts.clone(), vec![s.clone()]].concat()).is_ok()),
    );
    assert!(staged.len() > opts.len() + 1);
    check(&c, cpu, &staged);
}

#[test]
fn what_a_unit_cannot_do_is_refused() {
    let (cpu, gpu) = (Target::interp(), Target::interp_gpu());
    let refuse = |sink: &UOp, target: &Target, opts: &[Opt], why: &str| {
        let e = plan(sink, target, opts).map(|_| ()).unwrap_err().to_string();
        assert!(e.contains(why), "{e}");
    };
    let f = |m, n, k| product(m, n, k, [DType::BF16; 2], Second::Rows);
    let amx = matrix("amx-bf16", [0, 1, 2]);
    refuse(&f(32, 32, 32), &gpu, std::slice::from_ref(&amx), "has no amx-bf16");
    refuse(&f(32, 24, 32), &cpu, std::slice::from_ref(&amx), "does not divide");
    refuse(&f(32, 32, 32), &cpu, &[matrix("amx-bf16", [0, 2, 1])], "summed over");
    refuse(&f(32, 32, 32), &cpu, &[matrix("amx-bf16", [0, 0, 2])], "different axes");
    refuse(&f(32, 32, 32), &cpu, &[matrix("amx-s8s8", [0, 1, 2])], "sums in float32");
    refuse(&f(32, 32, 32), &cpu, &[amx.clone(), amx.clone()], "already");
    refuse(
        &product(32, 32, 32, [DType::F32; 2], Second::Rows),
        &cpu,
        std::slice::from_ref(&amx),
        "operand 0 is float32",
    );
    let many = [amx.clone(), Opt::Split { axis: 0, n: 8, kind: AxisKind::Upcast, inner: true }];
    refuse(&f(128, 32, 64), &cpu, &many, "8 accumulators");
    let apart = [amx, Opt::Split { axis: 2, n: 2, kind: AxisKind::Upcast, inner: true }];
    refuse(&f(32, 32, 64), &cpu, &apart, "one accumulator");
    for text in ["matrix amx-bf16 0 1 2", "matrix mma-f16 3 1 4"] {
        assert_eq!(text.parse::<Opt>().unwrap().to_string(), text);
    }
    assert!("matrix amx-bf16 0 1".parse::<Opt>().is_err());
}

#[test]
fn random_opts_find_units_and_stay_right() {
    let mut used = 0;
    for target in tiled().into_iter().chain([Target::interp_gpu()]) {
        for types in [[DType::BF16; 2], [DType::F16; 2], [DType::U8, DType::I8]] {
            for (m, n, k) in [(16, 32, 64), (21, 16, 64)] {
                let c = case("random", product(m, n, k, types, Second::Rows));
                for seed in 0..10 {
                    let opts = random_opts(&c.sink, &target, seed, 1 + seed as usize % 6).unwrap();
                    used += opts.iter().any(|o| matches!(o, Opt::Matrix { .. })) as usize;
                    check(&c, &target, &opts);
                }
            }
        }
    }
    assert!(used > 5, "random opts came to a matrix unit {used} times");
}

#[test]
fn a_target_without_units_has_no_such_opts() {
    let sink = product(32, 32, 32, [DType::BF16; 2], Second::Rows);
    let bare = Target { matrix: vec![], ..Target::interp() };
    let is_matrix = |o: &Opt| matches!(o, Opt::Matrix { .. });
    assert!(!plan(&sink, &bare, &[]).unwrap().legal().iter().any(is_matrix));
    assert!(plan(&sink, &Target::interp(), &[]).unwrap().legal().iter().any(is_matrix));
    assert!(run(&case("plain", sink), &bare, Opts::Heuristic).is_ok());
    assert_eq!((AMX_BF16.size, MMA_SYNC[0].size), ([16, 16, 32], [16, 8, 16]));
}

#[test]
fn the_heuristic_takes_a_unit_where_it_is_worth_it() {
    let is_unit = |o: &Opt| matches!(o, Opt::Matrix { .. });
    for target in tiled().into_iter().chain([Target::interp_gpu()]) {
        let chosen = |m, n, k| {
            let sink = product(m, n, k, [DType::BF16; 2], Second::Rows);
            let lowered = frit_codegen::lower(&sink, &target, Opts::Heuristic).unwrap();
            lowered.opts.iter().any(is_unit)
        };
        assert!(chosen(64, 64, 64) && chosen(33, 70, 100) && chosen(16, 512, 64) && chosen(512, 16, 64));
        assert!(!chosen(1, 512, 64) && !chosen(512, 1, 64) && !chosen(4, 4, 4096));
        for (m, n, k) in [(64, 32, 32), (33, 20, 45), (8, 40, 32), (40, 9, 33)] {
            for second in [Second::Rows, Second::Columns] {
                for types in [[DType::BF16; 2], [DType::U8, DType::I8]] {
                    let c = case("chosen", product(m, n, k, types, second));
                    if let Err(e) = run(&c, &target, Opts::Heuristic) {
                        panic!("{m} x {n} x {k} on {}: {}", target.name, &e[..e.len().min(4000)]);
                    }
                }
            }
        }
    }
}

/// A sum of products without anything around it, run on bits.
fn bits_of(target: &Target, opts: &[Opt], dtype: DType, size: [i64; 3], inputs: [&[u8]; 2]) -> Vec<f32> {
    let [m, n, k] = size;
    let (i, j, r) =
        (range(m, 0, AxisKind::Global), range(n, 1, AxisKind::Global), range(k, 2, AxisKind::Reduce));
    let load =
        |slot, len: i64, at: &UOp| UOp::param(slot, len as usize, dtype).at(at).load().cast(DType::F32);
    let (a, b) = (load(1, m * k, &(&i * k + &r)), load(2, k * n, &(&r * n + &j)));
    let x = (&a * &b).reduce(Alu::Add, [r]);
    let sink =
        UOp::sink([UOp::param(0, (m * n) as usize, DType::F32).at(&(&i * n + &j)).store(&x).end([i, j])]);
    let linear = lower(&sink, target, Opts::List(opts)).unwrap();
    let is_interpreted = target.language == frit_abi::Language::Bytecode;
    let device = cpu(if is_interpreted { "INTERP" } else { "CPU:AMX" }).unwrap();
    let kernel = frit_render::render(&linear, target).unwrap();
    let loaded = device.load(&kernel).unwrap();
    let memories = [(m * n * 4) as usize, inputs[0].len(), inputs[1].len()].map(|n| device.alloc(n).unwrap());
    memories[1].copy_in(0, inputs[0]).unwrap();
    memories[2].copy_in(0, inputs[1]).unwrap();
    let dims = crate::run::dims(&linear, &Default::default());
    loaded.launch(&memories.iter().collect::<Vec<_>>(), &[], dims).unwrap();
    let mut bytes = vec![0; (m * n * 4) as usize];
    memories[0].copy_out(0, &mut bytes).unwrap();
    bytes.chunks(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
}

/// bfloat16 of every exponent from below the normal range up, as bits, by a simple generator.
fn small_and_large(n: usize, mut seed: u32) -> Vec<u16> {
    let mut next = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        seed >> 8
    };
    (0..n)
        .map(|i| {
            let exponent = if i % 7 == 0 { next() % 4 } else { 97 + next() % 60 };
            ((next() & 1) << 15 | exponent << 7 | next() & 127) as u16
        })
        .collect()
}

#[test]
fn the_machine_and_the_interpreter_agree_bit_by_bit() {
    let size = [32i64, 32, 160];
    let opts = [matrix("amx-bf16", [0, 1, 2])];
    let (a, b) = (small_and_large(32 * 160, 1), small_and_large(160 * 32, 2));
    let bytes = |v: &[u16]| v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let of = |t: &Target| bits_of(t, &opts, DType::BF16, size, [&bytes(&a), &bytes(&b)]);
    let all: Vec<Vec<f32>> = tiled().iter().map(of).collect();
    for other in &all[1..] {
        let same = |(x, y): (&f32, &f32)| x.to_bits() == y.to_bits();
        assert!(all[0].iter().zip(other).all(same));
    }
    // and with float64, but for what is below the normal range and the rounding of each addition
    let value = |x: u16| f32::from_bits((x as u32) << 16) as f64;
    for i in 0..32 {
        for j in 0..32 {
            let pairs = (0..160).map(|k| (value(a[i * 160 + k]), value(b[k * 32 + j])));
            let (mut sum, mut bound) = (0.0, 0.0);
            for (x, y) in pairs {
                let tiny = |v: f64| v.abs() < f32::MIN_POSITIVE as f64;
                let lost = if tiny(x) || tiny(y) { (x * y).abs() } else { 0.0 };
                sum += x * y;
                bound += lost + (x * y).abs() * 161.0 * f32::EPSILON as f64 + f32::MIN_POSITIVE as f64;
            }
            let got = all[0][i * 32 + j] as f64;
            assert!((got - sum).abs() <= bound, "{got} for {sum}, within {bound}");
        }
    }
}

#[test]
fn float16_below_its_normal_range_counts_in_a_unit_as_in_plain_kernels() {
    // every exponent down to below the normal range, so that whole sums are of what is there
    let spread = |seed: u32| {
        let bits = |x: u16| x & 0x8000 | ((x & 0x7fff) % 0x3c00);
        small_and_large(32 * 160, seed).into_iter().map(bits).collect::<Vec<u16>>()
    };
    let tiny: Vec<u16> = spread(3).iter().map(|x| x & 0x83ff).collect();
    let bytes = |v: &[u16]| v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let opts = [matrix("amx-f16", [0, 1, 2])];
    for (a, b) in [(spread(1), spread(2)), (tiny.clone(), spread(4)), (tiny.clone(), tiny)] {
        let of =
            |t: &Target, opts: &[Opt]| bits_of(t, opts, DType::F16, [32, 32, 160], [&bytes(&a), &bytes(&b)]);
        let plain = of(&Target::interp(), &[]);
        let largest = plain.iter().fold(0f32, |m, x| m.max(x.abs()));
        assert!(largest > 0.0);
        let mut first: Option<Vec<f32>> = None;
        for target in tiled().iter().filter(|t| t.unit("amx-f16").is_some()) {
            let got = of(target, &opts);
            for (x, y) in got.iter().zip(&plain) {
                assert!((x - y).abs() <= 161.0 * f32::EPSILON * largest, "{x} for {y} on {}", target.name);
            }
            let known = first.get_or_insert_with(|| got.clone());
            assert!(known.iter().zip(&got).all(|(x, y)| x.to_bits() == y.to_bits()), "{}", target.name);
        }
    }
}

#[test]
fn a_unit_that_flushes_reads_subnormals_as_zeros_and_plain_kernels_do_not() {
    let (a, b) = (vec![0x0040u16; 16 * 32], vec![0x7e00u16; 32 * 16]); // 2^-127 and 2^125
    let bytes = |v: &[u16]| v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    for target in tiled() {
        let run = |opts: &[Opt]| bits_of(&target, opts, DType::BF16, [16, 16, 32], [&bytes(&a), &bytes(&b)]);
        assert!(run(&[matrix("amx-bf16", [0, 1, 2])]).iter().all(|x| *x == 0.0));
        assert!(run(&[]).iter().all(|x| *x == 8.0));
    }
}

/// Opts of a block of 2 x 2 warps with 2 columns of accumulators each and so many rows, both factors in tiles of as many
/// operations as `depth` says.
fn block_of_warps(
    sink: &UOp,
    target: &Target,
    unit: &str,
    rows: usize,
    depth: usize,
    buffers: u8,
) -> Vec<Opt> {
    let mut opts = vec![matrix(unit, [0, 1, 2])];
    let split = |opts: &mut Vec<Opt>, origin: usize, n, kind| {
        let planned = plan(sink, target, opts).unwrap();
        let is_left = |k: AxisKind| matches!(k, AxisKind::Global | AxisKind::Reduce);
        let of = planned.axes.iter().position(|a| a.origin == origin as u32 && is_left(a.kind)).unwrap();
        if n > 1 {
            opts.push(Opt::Split { axis: of, n, kind, inner: true });
        }
        of
    };
    for (origin, copies) in [(0, rows), (1, 2)] {
        split(&mut opts, origin, copies, AxisKind::Upcast);
        split(&mut opts, origin, 2, AxisKind::Local);
    }
    let at = 1 + split(&mut opts, 2, depth, AxisKind::Reduce);
    // the bias is a load too
    let loads = plan(sink, target, &opts).unwrap().operands;
    let is_factor = |l: &UOp| l.buffer_and_index().is_some_and(|(_, idx)| idx.ranges.contains(&2));
    for operand in (0..loads.len()).filter(|i| is_factor(&loads[*i])) {
        opts.push(Opt::Stage { operand, at, space: Space::Local, order: Order::LoopOrder, buffers });
    }
    opts
}

#[test]
fn a_block_of_warps_shares_tiles_that_are_copied_ahead() {
    let gpu = gpu();
    let f32 = [DType::F32; 2];
    for (unit, types, second, depth) in [
        ("mma-bf16", [DType::BF16; 2], Second::Rows, 2),
        ("mma-bf16", [DType::BF16; 2], Second::Columns, 2),
        ("mma-f16", [DType::F16; 2], Second::Rows, 2),
        ("mma-u8s8", [DType::U8, DType::I8], Second::Columns, 1),
        ("mma-s8s8", [DType::I8; 2], Second::Rows, 1),
        ("mma-tf32", f32, Second::Columns, 2),
        ("mma-tf32", f32, Second::Rows, 2),
    ] {
        let c = case("block", product(128, 64, 160, types, second));
        for (rows, part, buffers) in [(2, 1, 1), (2, 1, 2), (1, 1, 3), (1, 2, 4)] {
            let depth = (depth / part).max(1);
            let opts = block_of_warps(&c.sink, &gpu, unit, rows, depth, buffers);
            check(&c, &gpu, &opts);
            let linear = lower(&c.sink, &gpu, Opts::List(&opts)).unwrap();
            let count =
                |op: Op| linear.steps.iter().filter(|s| matches!(s, Step::Do(n) if n.op == op)).count();
            // fragments are used by all operations of their row or column; only halves are transposed on the way
            let is_read_so = second == Second::Columns || types[1].size() == 2;
            let fragments = rows + if is_read_so { 2 } else { 0 };
            assert_eq!((count(Op::LoadMatrix), count(Op::Matrix)), (fragments, rows * 2), "{linear}");
            assert_eq!(count(Op::CopyAsync) > 0, buffers > 1, "{linear}");
            assert_eq!(count(Op::Barrier), if buffers > 1 { 2 } else { 3 }, "{linear}");
        }
    }
}

#[test]
fn operands_of_the_next_round_are_loaded_before_the_last_products_of_this() {
    let gpu = gpu();
    for (unit, types, second) in [
        ("mma-bf16", [DType::BF16; 2], Second::Rows),
        ("mma-s8s8", [DType::I8; 2], Second::Columns),
        ("mma-tf32", [DType::F32; 2], Second::Rows),
    ] {
        let c = case("block", product(32, 32, 192, types, second));
        for (depth, buffers) in [(2, 2), (2, 3), (3, 2)] {
            let mut opts = block_of_warps(&c.sink, &gpu, unit, 1, depth, buffers);
            let stage = opts.iter().position(|o| matches!(o, Opt::Stage { .. })).unwrap();
            let Opt::Stage { at, .. } = opts[stage] else { unreachable!() };
            opts.insert(stage, Opt::Split { axis: at, n: depth, kind: AxisKind::Unroll, inner: true });
            check(&c, &gpu, &opts);
            let linear = lower(&c.sink, &gpu, Opts::List(&opts)).unwrap();
            let open = linear.steps.iter().position(|s| matches!(s, Step::Open(_))).unwrap();
            let close = linear.steps.iter().position(|s| matches!(s, Step::Close(_))).unwrap();
            let body = &linear.steps[open..close];
            let count = |steps: &[Step], op: Op| {
                steps.iter().filter(|s| matches!(s, Step::Do(n) if n.op == op)).count()
            };
            let met = body.iter().position(|s| matches!(s, Step::Do(n) if n.op == Op::Barrier)).unwrap();
            // a turn of two products is left when lanes meet, and its operands were loaded before
            assert_eq!(
                (count(body, Op::Matrix), count(&body[met..], Op::Matrix)),
                (2 * depth, 2),
                "{linear}"
            );
            let first =
                body[met..].iter().position(|s| matches!(s, Step::Do(n) if n.op == Op::Matrix)).unwrap();
            let loaded = &body[met..met + first];
            assert_eq!(count(loaded, Op::LoadMatrix), count(&body[met..], Op::LoadMatrix), "{linear}");
            assert!(count(loaded, Op::LoadMatrix) > 0, "{linear}");
        }
    }
}

#[test]
fn a_convolution_is_one_product_for_a_unit() {
    let gpu = gpu();
    for (n, c, o, s, k) in [(2, 8, 16, 6, 3), (3, 5, 20, 7, 3), (2, 3, 8, 9, 5)] {
        let case = case("convolution", conv(n, c, o, s, k));
        let lowered = frit_codegen::lower(&case.sink, &gpu, Opts::Heuristic).unwrap();
        assert_eq!(lowered.opts[0], Opt::Collapse { of: [true, false, true] }, "{:?}", lowered.opts);
        assert!(lowered.opts.iter().any(|o| matches!(o, Opt::Matrix { .. })), "{:?}", lowered.opts);
        check(&case, &gpu, &lowered.opts);
        // loops of a kind are one or several, as one likes
        for of in [[true, false, false], [false, false, true]] {
            check(&case, &gpu, &[Opt::Collapse { of }]);
        }
        let several = [Opt::Collapse { of: [false, true, false] }];
        assert!(frit_codegen::lower(&case.sink, &gpu, Opts::List(&several)).is_err());
    }
}

#[test]
fn few_blocks_of_a_long_product_are_cut_for_the_unit() {
    let gpu = frit_abi::machines::machine("H200").unwrap();
    let opts = |m, n, k| {
        let sink = product(m, n, k, [DType::BF16; 2], Second::Rows);
        frit_codegen::lower(&sink, &gpu, Opts::Heuristic).unwrap().opts
    };
    let slices =
        |opts: &[Opt]| opts.iter().find_map(|o| if let Opt::SplitReduce { n } = o { Some(*n) } else { None });
    // 36 and 144 blocks of 128 x 128 for 132 processors
    for (m, n) in [(768, 768), (3072, 768)] {
        let found = opts(m, n, 16384);
        assert!(
            slices(&found).is_some() && found.iter().any(|o| matches!(o, Opt::Matrix { .. })),
            "{found:?}"
        );
    }
    // enough of them, or little to add up
    for (m, n, k) in [(4096, 4096, 4096), (768, 768, 64)] {
        assert_eq!(slices(&opts(m, n, k)), None);
    }
}
