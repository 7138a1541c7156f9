//! Building a graph, its gradient, and realising it are linear in depth.

use crate::support::{child, is_child};
use frit::engine::measure::thread_time;
use frit::{Device, Tensor};

/// Milliseconds of processor time a layer of a residual perceptron costs, from nothing to the gradients of all its weights
/// in memory. Kernels are known already.
fn per_layer(layers: usize) -> f64 {
    let weights: Vec<Tensor> = (0..layers).map(|_| Tensor::ones([64, 64]).realize().unwrap()).collect();
    let x = Tensor::ones([32, 64]).realize().unwrap();
    let start = thread_time();
    let residual = |h: Tensor, w: &Tensor| &h + h.matmul(w).relu();
    let loss = weights.iter().fold(x, residual).sum(..);
    let gradients = loss.gradient(&weights.iter().collect::<Vec<_>>()).unwrap();
    Tensor::realize_all(&gradients.iter().collect::<Vec<_>>()).unwrap();
    (thread_time() - start).as_secs_f64() * 1e3 / layers as f64
}

/// The least of a few, each of another depth, so that no plan is found again.
fn least(layers: usize, times: usize) -> f64 {
    (0..times).map(|i| per_layer(layers + i)).fold(f64::INFINITY, f64::min)
}

#[test]
fn a_gradient_is_not_quadratic_in_depth() {
    // processor time, but in a process of its own: what other tests intern makes tables larger
    println!("{}", child("depth::child_depth", &[]));
}
#[test]
fn child_depth() {
    if !is_child() {
        return;
    }
    Device::scope("NULL", || {
        per_layer(4); // kernels
        let (few, many) = (least(32, 8), least(2000, 2));
        println!("{few:.3} ms a layer at 32 layers, {many:.3} at 2000");
        // measured 1.6 to 2.6, while instructions are 1.04 times as many (callgrind): a graph of 2000 layers is larger than
        // the caches, and one of 32 is not. Work that grows with the square of the depth would be sixty times as much
        assert!(many < 3.0 * few, "{few:.3} ms a layer at 32 layers, {many:.3} at 2000");
    })
    .unwrap();
}
