//! The second time, nothing is scheduled and nothing is compiled.

use crate::support::{child, is_child, on};
use frit::engine::stats::stats;
use frit::engine::{jit::tune::tune, search::Effort};
use frit::nn::{Adam, Dropout, Linear, Module, Optimizer, training};
use frit::{Jit, Tensor, manual_seed};

#[derive(Module)]
struct Net {
    first: Linear,
    drop: Dropout,
    second: Linear,
}

impl Net {
    fn new() -> Net {
        Net { first: Linear::new(20, 16), drop: Dropout::new(0.3), second: Linear::new(16, 4) }
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        self.second.forward(&self.drop.forward(&self.first.forward(x).relu()))
    }
}

fn batch(step: usize) -> (Tensor, Tensor) {
    let x: Vec<f32> = (0..8 * 20).map(|i| ((i * 7 + step * 13) % 11) as f32 / 11.0).collect();
    let y: Vec<i32> = (0..8).map(|i| ((i + step) % 4) as i32).collect();
    (Tensor::from_vec(x, [8, 20]), Tensor::from_vec(y, [8]))
}

#[test]
fn adam_with_dropout_and_a_schedule_compiles_in_two_steps() {
    for device in ["INTERP", "NULL"] {
        on(device, || {
            manual_seed(3);
            let net = Net::new();
            let mut opt = Adam::new(&net, 1e-2).unwrap();
            let mut settled = stats();
            let mut losses = vec![];
            for step in 0..100 {
                if step == 2 {
                    settled = stats();
                }
                opt.set_lr(1e-2 * (1.0 - step as f64 / 100.0)).unwrap();
                let (x, y) = batch(step);
                let loss = training(true, || net.forward(&x)).cross_entropy(&y);
                loss.backward().unwrap();
                opt.step_with(&[&loss]).unwrap();
                losses.push(loss.item::<f32>().unwrap());
            }
            let did = stats() - settled;
            assert_eq!((did.schedules, did.compiles), (0, 0), "{device}: {did:?}");
            assert!(device == "NULL" || losses.iter().all(|l| l.is_finite()), "{losses:?}");
        });
    }
}

#[test]
fn reading_and_plain_steps_hit_the_caches_too() {
    on("INTERP", || {
        let w = Tensor::from_vec(vec![0.1f32; 12], [4, 3]).requires_grad(true);
        let mut settled = stats();
        for step in 0..20 {
            if step == 2 {
                settled = stats();
            }
            let x = Tensor::from_vec(vec![step as f32; 8], [2, 4]);
            let loss = x.matmul(&w).square().mean(..);
            let g = loss.gradient(&[&w]).unwrap().remove(0);
            w.assign(&w - g * 1e-3).realize().unwrap();
            loss.item::<f32>().unwrap();
        }
        let did = stats() - settled;
        assert_eq!((did.schedules, did.compiles), (0, 0), "{did:?}");
    });
}

#[test]
fn child_tune() {
    if !is_child() {
        return;
    }
    let (w, total) = (Tensor::eye(64) * 2.0, Tensor::zeros([1]).contiguous());
    let held = total.clone();
    let step = Jit::new(move |x: Tensor| {
        let y = x.matmul(&w);
        held.assign(&held + y.sum(..));
        Ok(y)
    });
    let x = || Tensor::ones([64, 64]);
    (0..2).for_each(|_| _ = step.call(x()).unwrap());
    let mut searched = vec![];
    let tuned = step.tune(x(), 2, |_, _, name, _| searched.push(name.to_string())).unwrap();
    assert!(
        !searched.is_empty() && tuned.changed <= tuned.kernels && tuned.after <= tuned.before,
        "{tuned:?}"
    );
    // three calls so far, however often its kernels ran
    assert_eq!(total.to_vec::<f32>().unwrap(), [3.0 * 8192.0]);
    assert_eq!(step.call(x()).unwrap().to_vec::<f32>().unwrap(), [2.0; 64 * 64]);
    assert_eq!(total.to_vec::<f32>().unwrap(), [4.0 * 8192.0]);
    // what was found is remembered, kernel by kernel
    let known = |name: &str| assert!(!searched.iter().any(|s| s == name), "{name}");
    step.tune(x(), 2, |_, _, name, _| known(name)).unwrap();
    // for the same recording from a file too
    let file = std::env::temp_dir().join(format!("frit-suite-tune-{}.jit", std::process::id()));
    step.save(&file).unwrap();
    let effort = Effort::of_width(2).unwrap();
    let saved = tune(&file, &effort, |_, _, name, _| known(name)).unwrap();
    assert_eq!(saved.kernels, tuned.kernels);
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_recording_goes_on_the_same_after_a_search() {
    let dir = std::env::temp_dir().join(format!("frit-suite-tune-{}", std::process::id()));
    let cache = dir.to_str().unwrap();
    child(
        "caches::child_tune",
        &[("FRIT_CACHE", cache), ("FRIT_BEAM_SECONDS", "1"), ("FRIT_BEAM_CHECK", "1")],
    );
    std::fs::remove_dir_all(dir).unwrap();
}
