//! What a training loop costs beside its arithmetic: kernels a step, and nothing compiled twice.

use frit::engine::stats::{Stats, stats};
use frit::nn::{Adam, Dropout, Linear, Module, Optimizer, Sgd, training};
use frit::prelude::*;
use std::sync::Mutex;

/// What the engine did while `f` ran. The counters belong to the process, so tests here take turns.
fn counted<T>(f: impl FnOnce() -> T) -> (T, Stats) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    let before = stats();
    let out = f();
    (out, stats() - before)
}

#[derive(Module)]
struct Mlp {
    hidden: Linear,
    dropout: Dropout,
    out: Linear,
}

impl Mlp {
    fn new(width: usize) -> Mlp {
        Mlp { hidden: Linear::new(16, width), dropout: Dropout::new(0.2), out: Linear::new(width, 4) }
    }
    fn loss(&self, x: &Tensor, labels: &Tensor) -> Tensor {
        self.out.forward(&self.dropout.forward(&self.hidden.forward(x).relu())).cross_entropy(labels)
    }
}

#[test]
fn a_hundred_steps_compile_nothing_after_the_second() {
    let net = Mlp::new(32);
    let mut opt = Adam::new(&net, 1e-3).unwrap();
    let mut step = |s: usize| {
        let x = Tensor::from_vec((0..8 * 16).map(|i| ((i * 7 + s) % 13) as f32).collect::<Vec<_>>(), [8, 16]);
        let labels = Tensor::from_vec((0..8).map(|i| ((i + s) % 4) as i32).collect::<Vec<_>>(), [8]);
        opt.set_lr(1e-2 / (1.0 + s as f64)).unwrap();
        let loss = training(true, || net.loss(&x, &labels));
        loss.backward().unwrap();
        opt.step_with(&[&loss]).unwrap();
        loss.item::<f32>().unwrap()
    };
    let (_, done) = counted(|| {
        step(0);
        step(1);
        let before = stats();
        assert!((2..100).map(&mut step).all(|loss| loss.is_finite()));
        let after = stats() - before;
        assert_eq!((after.schedules, after.compiles), (0, 0), "{after:?}");
    });
    assert!(done.launches > 100);
}

#[test]
fn an_adam_update_is_two_kernels_a_parameter_at_most() {
    let shapes: [&[usize]; 4] = [&[8, 4], &[4], &[3, 5, 2], &[100]];
    let params: Vec<Tensor> = shapes
        .iter()
        .map(|s| Tensor::from_vec(vec![1f32; s.iter().product()], *s).requires_grad(true))
        .collect();
    let mut opt = Adam::new(&params, 1e-3).unwrap();
    for p in &params {
        p.set_grad(Some(Tensor::from_vec(vec![0.5f32; p.numel().unwrap()], p.shape())));
    }
    let (_, done) = counted(|| opt.step().unwrap());
    assert!(done.launches <= 2 * params.len() as u64, "{done:?}");
}

#[test]
fn a_loss_falls_on_a_problem_that_can_be_learnt() {
    frit::manual_seed(3);
    let net = Mlp::new(64);
    let mut opt = Sgd::new(&net, 0.1).unwrap().momentum(0.9);
    let x = Tensor::randn([64, 16]).realize().unwrap();
    let labels = x.narrow(1, 0, 4).argmax(1).realize().unwrap();
    let (losses, _) = counted(|| {
        (0..60)
            .map(|_| {
                let loss = net.loss(&x, &labels);
                loss.backward().unwrap();
                opt.step_with(&[&loss]).unwrap();
                loss.item::<f32>().unwrap()
            })
            .collect::<Vec<_>>()
    });
    assert!(losses[59] < 0.3 * losses[0], "{losses:?}");
}
