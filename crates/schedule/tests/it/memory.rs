//! The memory plan.

use crate::build::*;
use frit_abi::DType;
use frit_uop::UOp;

#[test]
fn a_chain_of_stages_needs_two_buffers() {
    let mut x = f(0, &[16, 16]);
    for _ in 0..8 {
        x = matmul(&x, &f(1, &[16, 16]));
    }
    let s = check_on(&outputs(&[x]), &cpu());
    assert_eq!(s.kernels.len(), 8);
    assert_eq!(s.temps.len(), 7);
    assert_eq!(s.peak(), 2 * 16 * 16 * 8);
}
#[test]
fn symbolic_temporaries_are_planned_by_the_maximum() {
    let t = UOp::variable("T", 1, 32);
    let x = f(0, &[32, 8]).shrink(&dims(&[0, 0]), &[t.clone(), UOp::index(8)]);
    let y = matmul(&x, &f(1, &[8, 8]));
    let z = matmul(&y, &f(1, &[8, 8]));
    let out =
        UOp::param(9, 256, DType::F64).reshape(&dims(&[32, 8])).shrink(&dims(&[0, 0]), &[t, UOp::index(8)]);
    let s = check_with(&UOp::sink([out.store(&z)]), &cpu(), &[("T", 7)]);
    assert_eq!(s.peak(), 32 * 8 * 8);
}
#[test]
fn contiguous_is_kept_and_a_store_is_enough() {
    let x = f(0, &[4, 6]).permute(&[1, 0]).contiguous();
    let s = check(&outputs(&[x.clone()]));
    assert_eq!((s.kernels.len(), s.temps.len()), (1, 0));
    let s = check(&outputs(&[&x * c(2.0)]));
    assert_eq!((s.kernels.len(), s.temps.len()), (2, 1));
    let s = check(&outputs(&[x.clone(), sum(&x, &[1])]));
    assert_eq!((s.kernels.len(), s.temps.len()), (2, 0));
}
