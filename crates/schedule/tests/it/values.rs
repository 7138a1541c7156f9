//! Values: scheduled kernels against the tensor graph, case by case.

use crate::build::*;
use frit_abi::{Alu, DType};
use frit_uop::{ScatterMode, UOp};

#[test]
fn padding_a_computed_value_reads_zero_outside() {
    let p = dims(&[1, 2]);
    let x = (f(0, &[3, 4]) + c(1.0)).pad(&p, &p);
    check(&outputs(&[x.clone(), sum(&x, &[1]).pad(&dims(&[1, 0]), &dims(&[0, 0]))]));
}
#[test]
fn padding_a_reduce_and_reducing_a_padding() {
    let x = f(0, &[3, 4]);
    let y = sum(&x.pad(&dims(&[0, 1]), &dims(&[0, 2])), &[1]);
    let z = max(&x, &[1]).pad(&dims(&[1, 1]), &dims(&[1, 1]));
    check(&outputs(&[y, z.clone(), &z + c(1.0)]));
}
#[test]
fn scalars_are_repeated() {
    let x = f(0, &[6, 7]);
    let total = reshape(&sum(&x, &[0, 1]), &[]);
    check(&outputs(&[x.bin(Alu::Fdiv, &total), total]));
}
#[test]
fn gather_of_a_computed_table_at_computed_rows() {
    let idx = input(0, &[2, 3], DType::I32) + 1;
    let table = f(1, &[5, 4]) * c(2.0);
    let y = table.gather(&idx, 0); // (2, 3, 4)
    let padded = y.pad(&dims(&[1, 0, 0]), &dims(&[0, 0, 1]));
    let inner = f(1, &[5, 4]).gather(&iota(5, DType::I32), 0).gather(&idx, 1);
    check(&outputs(&[y, padded, inner, iota(9, DType::I32).gather(&idx, 2)]));
}
#[test]
fn gather_with_a_reduce_on_both_sides() {
    let idx = input(0, &[6], DType::I32);
    let table = sum(&f(1, &[5, 4, 3]), &[2]);
    let y = table.gather(&idx, 0);
    let moved = reduce(&input(0, &[6, 2], DType::I32), Alu::Max, &[1]);
    check(&outputs(&[sum(&y, &[0]), table.gather(&moved, 0)]));
}
#[test]
fn scatter_adds_in_order() {
    let idx = input(0, &[6], DType::I32);
    let val = f(1, &[6, 4]) * c(2.0);
    let base = f(2, &[3, 4]);
    let add = base.scatter(&idx, &val, ScatterMode::Combine(Alu::Add), 0);
    let set = base.scatter(&idx, &val, ScatterMode::Set, 0);
    let s = check(&outputs(&[add.clone()]));
    assert_eq!((s.kernels.len(), s.temps.len()), (2, 0), "{}", show(&s));
    check(&outputs(&[set.clone() * c(3.0), sum(&add, &[0])]));
    let one = f(2, &[3]).scatter(&idx, &f(1, &[6]), ScatterMode::Combine(Alu::Add), 0);
    check(&outputs(&[one]));
}
#[test]
fn long_scans_are_split() {
    let x = f(0, &[2, 5000]);
    for op in [Alu::Add, Alu::Max, Alu::Mul] {
        let s = check_on(&outputs(&[x.scan_axis(op, 1)]), &cpu());
        assert!(s.kernels.len() >= 3, "{}", show(&s));
    }
    let x = f(0, &[4099, 2]);
    check_on(&outputs(&[x.flip(&[0]).scan_axis(Alu::Add, 0).flip(&[0])]), &cpu());
}
#[test]
fn scans_of_scans_and_of_reduces() {
    let x = f(0, &[5, 6, 3]);
    let y = x.scan_axis(Alu::Add, 0).scan_axis(Alu::Add, 1);
    let z = sum(&x, &[2]).scan_axis(Alu::Max, 1);
    check(&outputs(&[y, z, x.scan_axis(Alu::Add, 1).scan_axis(Alu::Add, 1)]));
}
#[test]
fn a_scan_that_is_reshaped_where_it_is_stored() {
    let x = f(0, &[6]);
    let y = f(1, &[2, 6]);
    check(&outputs(&[
        reshape(&x.scan_axis(Alu::Add, 0), &[3, 2]),
        reshape(&y.scan_axis(Alu::Add, 1), &[2, 2, 3]),
        reshape(&y.scan_axis(Alu::Max, 0), &[12]),
    ]));
}
#[test]
fn arguments_that_simplify_away_are_not_passed() {
    // x - max(x) of one repeated integer is zero, whatever it is
    let x = expand(&reshape(&input(0, &[1], DType::I32), &[1]), &[3]);
    let d = &x - like(&max(&x, &[0]), &x);
    check(&outputs(&[sum(&(d * input(1, &[3], DType::I32)), &[0])]));
}
#[test]
fn tensors_without_elements() {
    let x = f(0, &[0, 3]);
    let s =
        check(&outputs(&[sum(&x, &[0]), max(&x, &[0]), x.pad(&dims(&[1, 0]), &dims(&[1, 0])), x.clone()]));
    assert!(s.kernels.len() <= 3);
}
#[test]
fn constants_fold() {
    let one = c(1.0).reshape(&dims(&[1, 1])).expand(&dims(&[3, 4]));
    let s = check(&outputs(&[(&one + &one) * f(0, &[3, 4]), &one + &one]));
    assert!(!show(&s).contains("Add(") || s.kernels.len() <= 2);
}
#[test]
fn symbolic_lengths_have_one_schedule() {
    let t = UOp::variable("T", 1, 32);
    let x = f(0, &[32, 8]).shrink(&dims(&[0, 0]), &[t.clone(), UOp::index(8)]);
    let y = softmax(&matmul(&x, &x.permute(&[1, 0])));
    let z = matmul(&y, &x);
    let total = sum(&z, &[0]);
    let out = UOp::param(9, 8, DType::F64).reshape(&dims(&[1, 8]));
    let wide = UOp::param(8, 256, DType::F64).reshape(&dims(&[32, 8]));
    let wide = wide.shrink(&dims(&[0, 0]), &[t.clone(), UOp::index(8)]);
    let sink = UOp::sink([out.store(&total), wide.store(&z)]);
    let mut texts = vec![];
    for v in [1, 5, 17, 32] {
        for target in [cpu(), frit_abi::Target::interp_gpu()] {
            texts.push(show(&check_with(&sink, &target, &[("T", v)])));
        }
    }
    assert_eq!(texts[0], texts[6]);
}
#[test]
fn malformed_graphs_are_errors() {
    let bad = [
        UOp::sink([f(0, &[2, 3]).expand(&dims(&[2, 3])).store(&f(1, &[2, 3]).copy_to("X"))]),
        UOp::sink([reshape(&f(0, &[3]), &[1, 3]).expand(&dims(&[2, 3])).store(&f(1, &[2, 3]))]),
        UOp::sink([(f(0, &[3]) + c(1.0)).store(&f(1, &[3]))]),
    ];
    for b in bad {
        assert!(frit_schedule::schedule(&b, &cpu()).is_err());
    }
}
