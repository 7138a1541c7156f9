//! Assignment: versions, views, order.

use crate::build::*;
use frit_abi::{Alu, DType};
use frit_uop::UOp;

fn p(slot: u32, shape: &[i64]) -> UOp {
    f(slot, shape)
}
/// The whole of `x` after `view` of it was set to `v`.
fn set(x: &UOp, view: &UOp, v: &UOp) -> UOp {
    x.after([view.store(v)])
}
fn rows(x: &UOp, from: i64, n: i64) -> UOp {
    let mut s = sizes(x);
    let mut b = vec![0; s.len()];
    (b[0], s[0]) = (from, n);
    x.shrink(&dims(&b), &dims(&s))
}
/// The graph that makes sure these versions and outputs exist.
fn sink(versions: &[UOp], values: &[UOp]) -> UOp {
    let out = outputs(values);
    UOp::sink(versions.iter().cloned().chain(out.src.iter().cloned()))
}

#[test]
fn an_update_in_place_is_one_kernel() {
    let x = p(0, &[4, 5]);
    let s = check(&UOp::sink([x.store(&(&x * c(2.0) + f(1, &[4, 5])))]));
    assert_eq!((s.kernels.len(), s.temps.len()), (1, 0));
}
#[test]
fn assigning_its_own_transpose_goes_through_a_temporary() {
    let x = p(0, &[4, 4]);
    let s = check(&UOp::sink([x.store(&x.permute(&[1, 0]))]));
    assert_eq!((s.kernels.len(), s.temps.len()), (2, 1));
    check(&UOp::sink([x.permute(&[1, 0]).store(&x)]));
    check(&UOp::sink([x.store(&x.flip(&[0]))]));
}
#[test]
fn overlapping_slices() {
    let x = p(0, &[6, 2]);
    check(&UOp::sink([rows(&x, 1, 5).store(&rows(&x, 0, 5))]));
    check(&UOp::sink([rows(&x, 0, 5).store(&rows(&x, 1, 5))]));
    let s = check(&UOp::sink([rows(&x, 0, 3).store(&(rows(&x, 0, 3) + c(1.0)))]));
    assert_eq!(s.temps.len(), 0);
}
#[test]
fn a_tensor_built_before_keeps_the_old_values() {
    let x = p(0, &[4, 5]);
    let before = &x * c(3.0);
    let new = set(&x, &x, &f(1, &[4, 5]));
    check(&sink(&[new.clone()], &[before.clone(), &new * c(2.0), &before + &new]));
    // a reduce of both versions
    check(&sink(&[new.clone()], &[sum(&x, &[1]) + sum(&new, &[1]), matmul(&x, &new.permute(&[1, 0]))]));
}
#[test]
fn chains_of_slice_assigns() {
    let x = p(0, &[6, 3]);
    let a = set(&x, &rows(&x, 0, 2), &f(1, &[2, 3]));
    let b = set(&a, &rows(&a, 1, 3), &(rows(&a, 3, 3) * c(2.0)));
    let d = set(&b, &rows(&b, 2, 4).flip(&[1]), &(rows(&b, 0, 4) + c(1.0)));
    check(&sink(&[d.clone()], &[sum(&a, &[0]), sum(&b, &[0]), sum(&d, &[0]), &x + &d]));
    check(&sink(&[d.clone()], &[]));
}
#[test]
fn swapping_two_parameters() {
    let (x, y) = (p(0, &[4, 3]), p(1, &[4, 3]));
    check(&UOp::sink([x.store(&y), y.store(&x)]));
    check(&UOp::sink([x.store(&(&y + c(1.0))), y.store(&matmul(&x, &f(2, &[3, 3])))]));
}
#[test]
fn reads_after_writes_through_views() {
    let x = p(0, &[4, 6]);
    let y = x.permute(&[1, 0]);
    let part = y.shrink(&dims(&[2, 1]), &dims(&[2, 2]));
    let new = part.after([part.store(&f(1, &[2, 2]))]);
    let whole = x.after([part.store(&f(1, &[2, 2]))]);
    check(&sink(&[], &[&new * c(2.0), sum(&whole, &[0])]));
}
#[test]
fn many_assigns_in_a_loop() {
    let mut x = p(0, &[5]);
    let base = x.clone();
    for i in 0..8 {
        let v = &x * c(0.5) + f(1 + i % 2, &[5]);
        x = base.after([x.store(&v)]);
        if i == 4 {
            x = set(&x, &rows(&x, 1, 2), &(rows(&x, 2, 2) - c(1.0)));
        }
    }
    check(&sink(&[x.clone()], &[sum(&x, &[0])]));
}
#[test]
fn a_value_stored_twice() {
    let v = sum(&f(2, &[4, 3, 5]), &[2]);
    let v = reshape(&v, &[4, 3]);
    let (x, y) = (p(0, &[4, 3]), p(1, &[3, 4]));
    check(&UOp::sink([x.store(&v), y.store(&v.permute(&[1, 0]))]));
    let new = set(&x, &x, &v);
    check(&sink(&[new.clone()], &[v.permute(&[1, 0]), &new + &x]));
}
#[test]
fn scatter_into_an_assigned_parameter() {
    let x = p(0, &[5, 2]);
    let idx = input(1, &[4], DType::I32);
    let y = x.scatter(&idx, &f(2, &[4, 2]), frit_uop::ScatterMode::Combine(Alu::Add), 0);
    let new = set(&x, &x, &y);
    check(&sink(&[new.clone()], &[&new * c(2.0), x.clone()]));
}
