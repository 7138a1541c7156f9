//! What must fuse: kernels, loads and kinds counted.

use crate::build::*;
use frit_abi::{Alu, DType, Target};
use frit_uop::AxisKind::*;
use frit_uop::{Op, ScatterMode, UOp};

#[test]
fn an_elementwise_chain_is_one_kernel() {
    let s = check(&outputs(&[f(0, &[4, 6]) + f(1, &[4, 6])]));
    assert_eq!(s.kernels.len(), 1);
    assert_eq!(kinds(&s, 0), [Global, Global]);
}
#[test]
fn a_chain_without_end_is_cut_in_kernels_of_one_length() {
    let chain = |n: usize| (0..n).fold(f(0, &[4, 6]), |x, _| x.un(Alu::Sqrt) + f(1, &[4, 6]));
    let kernels = |n: usize| check(&outputs(&[chain(n)])).kernels.len();
    let weight = Alu::Sqrt.weight() as usize + Alu::Add.weight() as usize;
    assert_eq!((kernels(1000 / weight), kernels(5000 / weight)), (1, 3));
}
#[test]
fn elementwise_into_a_sum_is_one_kernel() {
    let x = relu(&(f(0, &[4, 6]) * f(1, &[4, 6]) + f(2, &[4, 6])));
    let s = check(&outputs(&[sum(&x, &[0, 1])]));
    assert_eq!(s.kernels.len(), 1);
    assert_eq!(kinds(&s, 0), [Reduce, Reduce]);
}
#[test]
fn matmul_with_bias_and_relu_is_one_kernel() {
    let y = matmul(&f(0, &[4, 8]), &f(1, &[8, 5]));
    let s = check(&outputs(&[relu(&(&y + like(&f(2, &[1, 5]), &y)))]));
    assert_eq!(s.kernels.len(), 1);
    assert_eq!(kinds(&s, 0), [Global, Global, Reduce]);
}
#[test]
fn softmax_is_one_kernel_on_a_cpu_and_three_on_a_grid() {
    let sink = outputs(&[softmax(&f(0, &[16, 32]))]);
    let s = check(&sink);
    assert_eq!(s.kernels.len(), 1, "{}", show(&s));
    assert_eq!(kinds(&s, 0)[..2], [Global, Loop]);
    assert_eq!(loads_of(&s, 0), 3);
    let g = check_on(&outputs(&[softmax(&f(0, &[16, 32]))]), &Target::interp_gpu());
    assert!(g.kernels.len() <= 3, "{}", show(&g));
    assert!(loads_of(&g, 0) <= 3);
}
#[test]
fn layernorm_is_one_kernel_on_a_cpu() {
    let s = check(&outputs(&[layernorm(&f(0, &[16, 32]))]));
    assert_eq!(s.kernels.len(), 1, "{}", show(&s));
    let g = check_on(&outputs(&[layernorm(&f(0, &[16, 32]))]), &Target::interp_gpu());
    assert!(g.kernels.len() <= 3, "{}", show(&g));
}
/// Something of as many operations for each element of `x`.
fn chain(x: &UOp, ops: usize) -> UOp {
    (0..ops).fold(x.clone(), |y, i| if i % 2 == 0 { y * c(1.5) } else { y + c(0.25) })
}
/// A row over the root of the sum of its squares.
fn norm(x: &UOp) -> UOp {
    let s = sum(&(x * x), &[1]).un(Alu::Sqrt);
    x.bin(Alu::Fdiv, &like(&s, x))
}
#[test]
fn a_block_of_a_grid_norms_a_short_row_unless_its_elements_are_much_work() {
    let g = |x: &UOp| check_on(&outputs(&[norm(x)]), &Target::interp_gpu());
    let product = matmul(&f(0, &[1, 64]), &f(1, &[64, 512]));
    assert_eq!(g(&product).kernels.len(), 2, "{}", show(&g(&product)));
    let much = chain(&f(0, &[1, 512]), 60);
    assert!(g(&much).kernels.len() > 1, "{}", show(&g(&much)));
}
#[test]
fn on_a_grid_less_than_a_launch_is_computed_again() {
    let kernels = |rows: i64, target: &Target| {
        let w = f(0, &[rows, 64]);
        let v = chain(&f(1, &[1, 64]), 40);
        let sink = outputs(&[sum(&(&w * like(&v, &w)), &[1])]);
        frit_schedule::schedule(&sink, target).unwrap().kernels.len()
    };
    assert_eq!(kernels(512, &Target::interp_gpu()), 1);
    assert_eq!(kernels(1 << 22, &Target::interp_gpu()), 2);
    assert_eq!(kernels(512, &cpu()), 2);
}
#[test]
fn on_a_grid_parts_of_a_vector_are_rounded_by_one_kernel() {
    // words of a part side by side, each part over its greatest element, and their sums
    let rounded = |parts: i64, len: i64| {
        let x = f(0, &[parts, len]);
        let most = max(&x, &[1]) * c(1.0 / 127.0);
        let p = x.bin(Alu::Fdiv, &like(&most, &x));
        let wide = |t: &UOp| like(t, &p);
        let at = expand(&reshape(&iota(len, DType::I32), &[1, len]), &[parts, len]);
        let all = at.lt(&UOp::int(2, DType::I32)).select(&wide(&sum(&p, &[1])), &p);
        outputs(&[all.permute(&[1, 0])])
    };
    let kernels =
        |parts: i64, len: i64, target: &Target| check_on(&rounded(parts, len), target).kernels.len();
    assert_eq!(kernels(16, 32, &Target::interp_gpu()), 1);
    // a longer one is reduced once, and on a CPU each is
    assert!(kernels(16, 128, &Target::interp_gpu()) > 1);
    assert!(kernels(16, 32, &cpu()) > 1);
}
#[test]
fn a_few_elements_are_not_reduced_in_a_kernel_that_checks_where_it_stores() {
    for rows in [1, 2] {
        let (x, idx) = (f(0, &[16, 8]), input(1, &[rows], DType::I32));
        let row = sum(&f(2, &[rows, 8, 16]), &[2]);
        let sink = UOp::sink([x.store(&x.scatter(&idx, &row, ScatterMode::Set, 0))]);
        let s = check_on(&sink, &Target::interp_gpu());
        assert_eq!(s.kernels.len(), 2, "{}", show(&s));
    }
}
#[test]
fn one_row_that_is_written_at_an_index_from_data_has_no_order_on_a_grid() {
    let written = |rows: i64| {
        let (x, idx) = (f(0, &[16, 8]), input(1, &[rows], DType::I32));
        let row = chain(&f(2, &[rows, 8]), 12);
        let s = check_on(
            &UOp::sink([x.store(&x.scatter(&idx, &row, ScatterMode::Set, 0))]),
            &Target::interp_gpu(),
        );
        (0..s.kernels.len()).any(|k| kinds(&s, k).contains(&Ordered))
    };
    assert!(!written(1));
    assert!(written(2));
}
#[test]
fn a_sum_along_rows_makes_again_what_is_made_of_one_stored_value() {
    let x = sum(&f(0, &[16, 32, 64]), &[2]);
    let y = chain(&x, 2);
    let s = check_on(&outputs(&[sum(&y, &[1]), x.permute(&[1, 0])]), &Target::interp_gpu());
    assert_eq!(s.kernels.len(), 3, "{}", show(&s));
}
#[test]
fn factors_that_are_rounded_for_a_unit_are_stored_as_it_takes_them() {
    let round = |x: &UOp| (x * x).cast(DType::BF16).cast(DType::F32);
    let sink = outputs(&[matmul(&round(&f(0, &[32, 16])), &round(&f(1, &[16, 32])))]);
    let narrow = |t: &Target| {
        let s = check_on(&sink, t);
        let stores = |k: &UOp| {
            k.toposort().iter().filter(|n| n.op == Op::Store && n.value().dtype == DType::BF16).count()
        };
        s.kernels.iter().map(|k| stores(&k.ast)).sum::<usize>()
    };
    assert_eq!(narrow(&cpu()), 2);
    assert_eq!(narrow(&Target { matrix: vec![], ..cpu() }), 0);
}
#[test]
fn few_rows_with_much_work_are_staged() {
    let x = f(0, &[2, 20000]);
    let s = schedule_only(&outputs(&[softmax(&x)]));
    assert!(s.kernels.len() > 1 && s.kernels.len() <= 5, "{}", show(&s));
}
fn schedule_only(sink: &UOp) -> frit_schedule::Schedule {
    let s = frit_schedule::schedule(sink, &cpu()).unwrap();
    well_formed(&s);
    s
}
#[test]
fn logsumexp_is_one_kernel_everywhere() {
    let x = f(0, &[16, 32]);
    let m = max(&x, &[1]);
    let e = (&x - like(&m, &x)).un(Alu::Exp);
    let s = outputs(&[sum(&e, &[1]).un(Alu::Log) + &m]);
    assert_eq!(check(&s).kernels.len(), 1);
    assert_eq!(check_on(&s, &Target::interp_gpu()).kernels.len(), 1);
}
#[test]
fn arange_one_hot_and_embedding_cost_no_square() {
    let s = check(&outputs(&[iota(64, DType::I32)]));
    assert_eq!((s.kernels.len(), work(&s, 0)), (1, 64));
    // arange by a running sum of ones
    let ones = UOp::int(1, DType::I32).reshape(&dims(&[1])).expand(&dims(&[64]));
    let s = check(&outputs(&[ones.scan_axis(Alu::Add, 0)]));
    assert_eq!((s.kernels.len(), work(&s, 0)), (1, 64));
    // one-hot (5, 7)
    let y = expand(&reshape(&input(0, &[5], DType::I32), &[5, 1]), &[5, 7]);
    let hot = y.eq_(&expand(&reshape(&iota(7, DType::I32), &[1, 7]), &[5, 7]));
    let s = check(&outputs(&[hot.select(&c(1.0), &c(0.0))]));
    assert_eq!(s.kernels.len(), 1);
    // one-hot @ table, masked by where
    let full = [5, 7, 3];
    let table = expand(&reshape(&f(1, &[7, 3]), &[1, 7, 3]), &full);
    let hot3 = expand(&reshape(&hot, &[5, 7, 1]), &full);
    let s = check(&outputs(&[sum(&hot3.select(&table, &c(0.0)), &[1])]));
    assert_eq!(s.kernels.len(), 1);
    assert_eq!(work(&s, 0), 15, "{}", show(&s));
    // gather
    let s = check(&outputs(&[f(1, &[7, 3]).gather(&input(0, &[5], DType::I32), 0)]));
    assert_eq!((s.kernels.len(), work(&s, 0)), (1, 15));
}
#[test]
fn counting_below_folds() {
    // how many of 0..9 are below y, by a triangular mask
    let y = expand(&reshape(&input(0, &[5], DType::I32), &[5, 1]), &[5, 9]);
    let r = expand(&reshape(&iota(9, DType::I32), &[1, 9]), &[5, 9]);
    let two = UOp::int(2, DType::I32);
    let zero = UOp::int(0, DType::I32);
    for m in [r.lt(&y), y.lt(&r), r.lt(&y).un(Alu::Not)] {
        let s = check(&outputs(&[m.select(&two, &zero).reduce_axes(Alu::Add, &[1])]));
        assert_eq!(work(&s, 0), 5, "{}", show(&s));
    }
}
#[test]
fn argmax_is_at_most_two_kernels() {
    let x = f(0, &[8, 12]);
    let back = expand(&reshape(&(UOp::int(12, DType::I32) - iota(12, DType::I32)), &[1, 12]), &[8, 12]);
    let is_max = x.eq_(&like(&max(&x, &[1]), &x));
    let last = is_max.select(&back, &UOp::int(0, DType::I32)).reduce_axes(Alu::Max, &[1]);
    let s = outputs(&[UOp::int(12, DType::I32) - last]);
    assert!(check(&s).kernels.len() <= 2);
    assert!(check_on(&s, &Target::interp_gpu()).kernels.len() <= 2);
}
#[test]
fn conv_with_bias_and_relu_is_one_kernel() {
    let y = conv2d(&f(0, &[2, 3, 6, 5]), &f(1, &[4, 3, 3, 2]));
    let s = check(&outputs(&[relu(&(&y + like(&f(2, &[1, 4, 1, 1]), &y)))]));
    assert_eq!(s.kernels.len(), 1, "{}", show(&s));
    assert_eq!(kinds(&s, 0), [Global, Global, Global, Global, Reduce, Reduce, Reduce]);
    assert!(!show(&s).contains("Mod"), "{}", show(&s));
}
#[test]
fn padded_conv_is_one_kernel() {
    let (z, p) = (dims(&[0, 0, 1, 1]), dims(&[0, 0, 1, 1]));
    let _ = z;
    let y = conv2d(&f(0, &[1, 2, 4, 4]).pad(&p, &p), &f(1, &[2, 2, 3, 3]));
    assert_eq!(check(&outputs(&[relu(&y)])).kernels.len(), 1);
}
#[test]
fn batchnorm_inference_joins_the_convs_kernel() {
    let y = conv2d(&f(0, &[1, 2, 5, 5]), &f(1, &[4, 2, 3, 3]));
    let v = |slot| like(&f(slot, &[1, 4, 1, 1]), &y);
    let var = v(3) * v(3) + c(1e-5);
    let bn = (&y - v(2)) * var.un(Alu::Sqrt).un(Alu::Recip) * v(4) + v(5);
    assert_eq!(check(&outputs(&[relu(&bn)])).kernels.len(), 1);
}
#[test]
fn the_statistics_of_a_conv_read_its_result() {
    let y = conv2d(&f(0, &[2, 3, 6, 6]), &f(1, &[4, 3, 3, 3]));
    let mean = sum(&y, &[0, 2, 3]) * c(1.0 / 32.0);
    let s = check(&outputs(&[relu(&(&y - like(&mean, &y)))]));
    // not its products, of which there are 27 times as many
    assert!(s.temps.iter().all(|t| t.len <= 2 * 4 * 4 * 4), "{}", show(&s));
}
#[test]
fn two_convs_are_two_kernels() {
    let y = relu(&conv2d(&f(0, &[1, 2, 6, 6]), &f(1, &[3, 2, 3, 3])));
    let s = check(&outputs(&[relu(&conv2d(&y, &f(2, &[2, 3, 3, 3])))]));
    assert_eq!((s.kernels.len(), s.temps.len()), (2, 1));
}
/// What the gate of a layer lets through: `relu(x g) (x u)`.
fn gated_product(x: &UOp, [g, u]: [&UOp; 2]) -> UOp {
    relu(&matmul(x, g)) * matmul(x, u)
}
/// A CPU with registers for two tiles.
fn wide() -> Target {
    Target { registers: 32, ..cpu() }
}
#[test]
fn a_product_that_takes_another_of_the_same_factor_is_one_kernel_on_a_cpu() {
    let (x, w) = (f(0, &[66, 65]), |slot: u32| f(slot, &[65, 67]));
    let gated = outputs(&[gated_product(&x, [&w(1), &w(2)])]);
    let s = check_on(&gated, &wide());
    assert_eq!((s.kernels.len(), s.temps.len()), (1, 0), "{}", show(&s));
    assert_eq!((kinds(&s, 0), loads_of(&s, 0)), (vec![Global, Global, Reduce], 1));
    for target in [cpu(), Target::interp_gpu()] {
        assert_eq!(check_on(&gated, &target).kernels.len(), 2);
    }
    // also where the shared one is that of the columns
    let y = relu(&matmul(&x, &w(1))) + matmul(&f(2, &[66, 65]), &w(1));
    let s = check_on(&outputs(&[y]), &wide());
    assert_eq!(s.kernels.len(), 1, "{}", show(&s));
}
#[test]
fn products_that_share_no_tile_are_kernels_of_their_own() {
    let (x, w) = (f(0, &[66, 65]), |slot: u32| f(slot, &[65, 67]));
    let kernels = |y: &[UOp]| check_on(&outputs(y), &wide()).kernels.len();
    // no factor in common
    assert_eq!(kernels(&[matmul(&x, &w(1)) + matmul(&f(2, &[66, 65]), &w(3))]), 2);
    // each is stored anyway
    assert_eq!(kernels(&[matmul(&x, &w(1)), matmul(&x, &w(2))]), 2);
    // a factor in common, but read elsewhere
    let square = |slot: u32| f(slot, &[66, 66]);
    let (x, back) = (square(0), square(0).permute(&[1, 0]));
    assert_eq!(kernels(&[relu(&matmul(&x, &square(1))) * matmul(&back, &square(2))]), 2);
    let gated = |machine: &str, rows: i64, depth: i64, d: DType, turned: bool| {
        let float = |slot: u32, shape: &[i64]| input(slot, shape, d).cast(DType::F32);
        let product = |slot: u32| {
            let w = match turned {
                true => float(slot, &[67, depth]).permute(&[1, 0]),
                false => float(slot, &[depth, 67]),
            };
            matmul(&float(0, &[rows, depth]), &w)
        };
        let target = frit_abi::machines::machine(machine).unwrap();
        let sink = outputs(&[product(1).un(Alu::Exp) * product(2)]);
        frit_schedule::schedule(&sink, &target).unwrap().kernels.len()
    };
    // a row of each in every step, for too few results to pack them, unless the sum reads neighbours
    let few = |turned: bool| [12, 24, 66].map(|rows| gated("AVX512", rows, 96, DType::F32, turned));
    assert_eq!((few(false), few(true)), ([2, 2, 1], [1, 2, 1]));
    // a matrix unit sums one of them, few registers hold one tile, and panels of long sums leave no room for each other
    let cases = [("AMX", 96), ("AVX512", 96), ("AVX2", 96), ("AVX512", 4096)];
    assert_eq!(cases.map(|(m, depth)| gated(m, 66, depth, DType::BF16, false)), [2, 1, 2, 2]);
}
#[test]
fn two_products_of_words_in_parts_are_two_kernels() {
    // scaled sums of four words each, as the gate and the rest of a layer whose weights are in blocks
    let (tokens, rows, parts, run) = (8, 512, 4, 4);
    let product = |slot: u32| {
        let word = |x: &UOp, i: i64, shape: &[i64]| {
            let one = x.shrink(&dims(&[0, 0, 0, i]), &dims(&[&sizes(x)[..3], &[1]].concat()));
            expand(&reshape(&one, shape), &[tokens, rows, parts])
        };
        let x = input(0, &[tokens, 1, parts, run], DType::I32);
        let w = input(slot, &[1, rows, parts, run], DType::I32);
        let zero = like(&UOp::int(0, DType::I32).reshape(&dims(&[1, 1, 1])), &f(9, &[tokens, rows, parts]));
        let dots = (0..run).fold(zero, |sum, i| {
            let (a, b) = (word(&w, i, &[1, rows, parts]), word(&x, i, &[tokens, 1, parts]));
            UOp::alu(Alu::Dot4, &[&a, &b, &sum])
        });
        let dots = dots.cast(DType::F64);
        sum(&(&dots * like(&f(slot + 1, &[1, rows, parts]), &dots)), &[2])
    };
    let y = relu(&product(1)) * product(3);
    assert_eq!(check(&outputs(&[y])).kernels.len(), 2);
}
/// One Adam update of parameter slot 0 with moments 1 and 2 from gradient `g`.
fn adam(g: &UOp, shape: &[i64]) -> UOp {
    let (p, m, v) = (f(0, shape), f(1, shape), f(2, shape));
    let m2 = &m * c(0.9) + g * c(0.1);
    let v2 = &v * c(0.999) + g * g * c(0.001);
    let m3 = m.after([m.store(&m2)]);
    let v3 = v.after([v.store(&(&v2 * &v2))]);
    let step = (&m3 * c(0.01)).bin(Alu::Fdiv, &(v3.un(Alu::Sqrt) + c(1e-8)));
    UOp::sink([p.store(&(&p - step))])
}
#[test]
fn an_adam_update_is_one_kernel() {
    let s = check(&adam(&f(3, &[6, 5]), &[6, 5]));
    assert_eq!(s.kernels.len(), 1, "{}", show(&s));
    assert_eq!(s.kernels[0].ast.src.len(), 3);
    assert_eq!(loads_of(&s, 3), 1);
}
#[test]
fn an_adam_update_joins_its_gradient() {
    let g = matmul(&f(3, &[6, 8]), &f(4, &[8, 5]));
    let s = check(&adam(&g, &[6, 5]));
    assert!(s.kernels.len() <= 2, "{}", show(&s));
}
#[test]
fn sum_max_and_sum_of_squares_read_once() {
    let x = f(0, &[8, 12]);
    for axes in [&[1usize][..], &[0, 1], &[0]] {
        let s = check(&outputs(&[sum(&x, axes), max(&x, axes), sum(&(&x * &x), axes)]));
        assert_eq!(s.kernels.len(), 1, "{}", show(&s));
        assert_eq!(loads_of(&s, 0), 1, "{}", show(&s));
    }
}
#[test]
fn mean_and_variance_read_at_most_twice() {
    let x = f(0, &[8, 12]);
    let mean = sum(&x, &[1]) * c(1.0 / 12.0);
    let d = &x - like(&mean, &x);
    let s = check(&outputs(&[mean.clone(), sum(&(&d * &d), &[1]) * c(1.0 / 12.0)]));
    assert!(loads_of(&s, 0) <= 2, "{}", show(&s));
}
#[test]
fn a_value_and_its_users_share_a_kernel() {
    let y = matmul(&f(0, &[4, 8]), &f(1, &[8, 5]));
    let s = check(&outputs(&[relu(&y), &y * c(2.0)]));
    assert_eq!((s.kernels.len(), s.temps.len()), (1, 0), "{}", show(&s));
    let s = check(&outputs(&[y.clone(), &y * c(2.0)]));
    assert_eq!((s.kernels.len(), s.temps.len()), (1, 0), "{}", show(&s));
}
#[test]
fn softmax_before_a_matmul_is_stored_once() {
    let p = softmax(&f(0, &[32, 32]));
    let s = check(&outputs(&[matmul(&p, &f(1, &[32, 24]))]));
    assert_eq!(s.kernels.len(), 2, "{}", show(&s));
}
#[test]
fn attention_is_one_kernel_where_rows_are_walked_in_blocks() {
    let (q, k, v) = (f(0, &[16, 8]), f(1, &[12, 8]), f(2, &[12, 9]));
    let scores = matmul(&q, &k.permute(&[1, 0])) * c(0.3);
    let weights = softmax(&scores);
    let s = check_on(&outputs(&[matmul(&weights, &v) + c(1.0)]), &cpu());
    assert_eq!((s.kernels.len(), s.arena_bytes), (1, 0), "{}", show(&s));
    let s = check_on(&outputs(&[matmul(&weights, &v)]), &Target::interp_gpu());
    assert!(s.kernels.len() <= 3, "{}", show(&s));
    // what others read is stored
    for other in [&scores, &weights] {
        let s = check_on(&outputs(&[matmul(&weights, &v), other.clone()]), &cpu());
        assert!(s.kernels.len() > 1 && s.kernels.len() <= 3, "{}", show(&s));
    }
}
#[test]
fn what_gradients_read_of_rows_comes_with_the_results_of_attention() {
    let (q, k, v, g) = (f(0, &[40, 2]), f(1, &[36, 2]), f(2, &[36, 3]), f(3, &[40, 3]));
    let weights = softmax(&(matmul(&q, &k.permute(&[1, 0])) * c(0.3)));
    let (y, of_values) = (matmul(&weights, &v), matmul(&weights.permute(&[1, 0]), &g));
    // what such kernels mean is for the tests that run them: this evaluates each reduce wherever it is read
    let s = schedule_only(&outputs(&[y, of_values]));
    assert_eq!((s.kernels.len(), s.temps.len()), (2, 2), "{}", show(&s));
    assert!(s.temps.iter().all(|t| t.len == 40), "{}", show(&s));
}
#[test]
fn what_is_reduced_of_rows_is_not_computed_again_for_each_column() {
    // as many queries as keys: a sum over queries is none along what rows reduce
    let (q, k, g) = (f(0, &[40, 8]), f(1, &[40, 8]), f(2, &[40, 8]));
    let weights = softmax(&(matmul(&q, &k.permute(&[1, 0])) * c(0.3)));
    let s = schedule_only(&outputs(&[matmul(&weights.permute(&[1, 0]), &g)]));
    assert!(s.kernels.len() > 1, "{}", show(&s));
}
#[test]
fn a_long_sum_is_two_kernels() {
    for n in [1 << 16, 65537] {
        let s = check_on(&outputs(&[sum(&f(0, &[n]), &[0])]), &cpu());
        assert_eq!(s.kernels.len(), 2, "{}", show(&s));
        assert!(s.arena_bytes <= 4096);
    }
    let x = f(0, &[1 << 16]);
    let s = check_on(&outputs(&[sum(&x, &[0]), max(&x, &[0])]), &cpu());
    assert_eq!(s.kernels.len(), 2, "{}", show(&s));
    assert_eq!(loads_of(&s, 0), 1);
}
#[test]
fn concatenation_of_inputs_is_one_kernel() {
    let z = dims(&[0, 0]);
    let a = f(0, &[2, 3]).pad(&z, &dims(&[4, 0]));
    let b = f(1, &[4, 3]).pad(&dims(&[2, 0]), &z);
    assert_eq!(check(&outputs(&[a + b])).kernels.len(), 1);
}
#[test]
fn a_scan_with_its_epilogue_is_one_kernel() {
    let x = f(0, &[5, 9]);
    for axis in [0, 1] {
        let s = check(&outputs(&[(&x * &x).scan_axis(Alu::Add, axis) * c(2.0)]));
        assert_eq!(s.kernels.len(), 1, "{}", show(&s));
        assert_eq!(kinds(&s, 0), [Global, Ordered]);
    }
    let s = check(&outputs(&[x.flip(&[1]).scan_axis(Alu::Max, 1).flip(&[1])]));
    assert!(s.kernels.len() <= 2);
}
