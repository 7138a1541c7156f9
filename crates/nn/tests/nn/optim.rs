//! Optimisers against torch's values. The loss is `sum(x * w^2)` with x going round three vectors.

use crate::assert_close;
use frit_nn::{Adam, AdamW, BatchNorm, Embedding, Linear, Optimizer, Sgd, training};
use frit_tensor::{DType, Device, Jit, Tensor};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

const XS: [[f32; 4]; 3] = [[1., -2., 0.5, 3.], [0.1, 0.2, -4., -1e-3], [-1., 0., 2., 0.25]];

fn parameter() -> Tensor {
    Tensor::from_slice(&[0.5f32, -1.25, 2.0, 0.001]).requires_grad(true)
}

/// The parameter after some steps.
fn run<O: Optimizer>(steps: usize, make: impl Fn(&Tensor) -> O, lr: impl Fn(usize) -> Option<f64>) -> Tensor {
    let w = parameter();
    let mut opt = make(&w);
    for s in 0..steps {
        if let Some(lr) = lr(s) {
            opt.set_lr(lr).unwrap();
        }
        let loss = (Tensor::from_slice(&XS[s % 3]) * &w * &w).sum(..);
        loss.backward().unwrap();
        opt.step_with(&[&loss]).unwrap();
        assert!(w.grad().is_none());
    }
    w
}
fn five<O: Optimizer>(make: impl Fn(&Tensor) -> O) -> Tensor {
    run(5, make, |_| None)
}

#[test]
fn sgd_is_torchs() {
    let w = five(|w| Sgd::new(w, 0.1).unwrap());
    assert_close(&w, &[0.368793637, -2.25792003, 3.14928007, 0.000152060806]);
    let w = five(|w| Sgd::new(w, 0.1).unwrap().weight_decay(0.01));
    assert_close(&w, &[0.366815895, -2.24775076, 3.13356376, 0.000150840104]);
}

#[test]
fn sgd_with_momentum_is_torchs() {
    let w = five(|w| Sgd::new(w, 0.1).unwrap().momentum(0.9).weight_decay(0.01));
    assert_close(&w, &[0.114028782, -4.75375652, 4.28461313, -0.000731718494]);
    let w = five(|w| Sgd::new(w, 0.1).unwrap().momentum(0.9).nesterov());
    assert_close(&w, &[0.0313183144, -5.80749416, 2.05455852, -7.13999907e-05]);
}

#[test]
fn adam_is_torchs() {
    let w = five(|w| Adam::new(w, 0.01).unwrap());
    assert_close(&w, &[0.476876765, -1.28258252, 2.00303936, -0.00280168978]);
    let w = five(|w| Adam::new(w, 0.02).unwrap().betas(0.8, 0.99).eps(1e-3).weight_decay(0.1));
    assert_close(&w, &[0.452465922, -1.31052232, 2.00506926, 0.0119723435]);
}

#[test]
fn adam_stays_with_torch_over_many_steps() {
    let w = run(500, |w| Adam::new(w, 1e-3).unwrap(), |_| None);
    assert_close(&w, &[0.477086425, -1.51957953, 2.09670091, 0.0]);
}

#[test]
fn adamw_is_torchs_with_a_schedule_too() {
    let w = five(|w| AdamW::new(w, 0.01).unwrap());
    assert_close(&w, &[0.476632386, -1.28195012, 2.00204134, -0.00279736612]);
    let lrs = [0.01, 0.02, 0.03, 0.02, 0.01];
    let w = run(5, |w| AdamW::new(w, 0.01).unwrap().weight_decay(0.1), |s| Some(lrs[s]));
    assert_close(&w, &[0.462374449, -1.2930212, 1.99569893, 0.00474072294]);
}

#[test]
fn state_is_float32_for_narrow_parameters() {
    let w = parameter().cast(DType::BF16).contiguous().requires_grad(true);
    let mut opt = Adam::new(&w, 0.01).unwrap();
    (&w * &w).sum(..).backward().unwrap();
    opt.step().unwrap();
    assert_eq!(w.dtype(), DType::BF16);
    assert!(opt.state().iter().all(|t| t.dtype() == DType::F32));
    assert_close(&w.float(), &[0.490234375, -1.2421875, 1.9921875, -0.00897216796875]);
}

#[test]
fn a_step_computes_running_statistics_with_it() {
    #[derive(frit_nn::Module)]
    struct Net {
        fc: Linear,
        bn: BatchNorm,
    }
    let net = Net { fc: Linear::new(3, 2), bn: BatchNorm::new(2) };
    let mut opt = Sgd::new(&net, 0.1).unwrap();
    let x = Tensor::from_vec((0..12).map(|i| i as f32 * 0.1).collect::<Vec<_>>(), [4, 3]);
    for _ in 0..3 {
        let loss = training(true, || net.bn.forward(&net.fc.forward(&x)).square().mean(..));
        loss.backward().unwrap();
        opt.step_with(&[&loss]).unwrap();
    }
    assert_eq!(net.bn.num_batches_tracked.item::<i64>().unwrap(), 3);
    assert!(net.bn.running_mean.to_vec::<f32>().unwrap().iter().all(|v| *v != 0.0));
}

#[test]
fn only_parameters_with_gradients_move() {
    let (a, b) = (parameter(), parameter());
    let mut opt = Adam::new(&[a.clone(), b.clone()], 0.1).unwrap();
    (&a * 2.0).sum(..).backward().unwrap();
    opt.step().unwrap();
    assert_ne!(a.to_vec::<f32>().unwrap(), parameter().to_vec::<f32>().unwrap());
    assert_eq!(b.to_vec::<f32>().unwrap(), parameter().to_vec::<f32>().unwrap());
    b.sum(..).backward().unwrap();
    opt.zero_grad();
    assert!(b.grad().is_none());
}

#[test]
fn after_bad_data_parameters_are_never_something_between() {
    let table = Embedding::new(4, 3);
    let mut opt = Adam::new(&table, 0.1).unwrap();
    let mut step = |ids: &[i32]| {
        let loss = table.forward(&Tensor::from_slice(ids)).square().sum(..);
        loss.backward()?;
        opt.step_with(&[&loss])?;
        loss.item::<f32>()
    };
    let first = step(&[0, 1]).unwrap();
    let e = step(&[0, 4]).unwrap_err().to_string();
    assert!(e.contains("embedding") && e.contains("out of range"), "{e}");
    // the step had begun to store: what it stored to says why it has no value, the rest is as it was
    assert!(first > 0.0 && step(&[0, 1]).unwrap_err().to_string().contains("out of range"));
    match table.weight.to_vec::<f32>() {
        Ok(v) => assert!(v.iter().all(|v| v.is_finite()), "{v:?}"),
        Err(e) => assert!(e.to_string().contains("out of range"), "{e}"),
    }
}

#[test]
fn after_bad_data_no_parameter_has_made_the_step_alone() {
    for device in ["CPU", "INTERP"] {
        Device::scope(device, || {
            // some parameters get their gradients before the bad place is looked up, some after
            let (table, first, last) = (Embedding::new(4, 3), Linear::new(3, 3), Linear::new(3, 2));
            let all = [&table.weight, &first.weight, &last.weight];
            let mut opt = Adam::new(&all.map(Tensor::clone).to_vec(), 0.1).unwrap();
            let mut step = |ids: &[i32]| {
                let looked_up = table.forward(&Tensor::from_slice(ids));
                let apart = first.forward(&Tensor::ones([2, 3])).square().sum(..);
                let loss = last.forward(&looked_up).square().sum(..) + apart;
                loss.backward()?;
                opt.step_with(&[&loss])
            };
            step(&[0, 1]).unwrap();
            let before = all.map(|w| w.to_vec::<f32>().unwrap());
            let e = step(&[0, 4]).unwrap_err().to_string();
            assert!(e.contains("out of range"), "{e}");
            for (w, old) in all.iter().zip(before) {
                match w.to_vec::<f32>() {
                    Ok(v) => assert_eq!(v, old, "{device}"),
                    Err(e) => assert!(e.to_string().contains("out of range"), "{e}"),
                }
            }
        })
        .unwrap();
    }
}

#[test]
fn misuse_is_an_error() {
    let w = parameter();
    assert!(Adam::new(&w, f64::NAN).err().unwrap().to_string().contains("learning rate of NaN"));
    assert!(Sgd::new(&w, -1.0).err().unwrap().to_string().contains("learning rate of -1"));
    assert!(Sgd::new(&Tensor::zeros([2]), 0.1).err().unwrap().to_string().contains("nothing to optimise"));
    let mut opt = Sgd::new(&w, 0.1).unwrap();
    assert!(opt.set_lr(f64::INFINITY).is_err());
    let e = opt.step().unwrap_err().to_string();
    assert!(e.contains("call backward first") && e.contains("optim.rs"), "{e}");
}

#[test]
fn a_recorded_step_sees_the_rate_that_is_set_later() {
    let run = |jit: bool| -> Vec<f32> {
        let w = Tensor::new([1.0f32, -2.0]).realize().unwrap().requires_grad(true);
        let opt = Arc::new(Mutex::new(Sgd::new(&vec![w.clone()], 0.1).unwrap()));
        let calls = Arc::new(AtomicUsize::new(0));
        let (held, theirs, counted) = (w.clone(), opt.clone(), calls.clone());
        let step = move |x: Tensor| {
            counted.fetch_add(1, Relaxed);
            let loss = (&held * &x).square().sum(..);
            loss.backward()?;
            theirs.lock().unwrap().step_with(&[&loss])?;
            Ok(loss)
        };
        let (plain, recorded) = (step.clone(), Jit::new(step));
        for i in 0..12 {
            opt.lock().unwrap().set_lr(0.1 / (1 + i) as f64).unwrap();
            let x = Tensor::full([2], 0.5 + i as f64 * 0.125);
            if jit {
                recorded.call(x).unwrap()
            } else {
                plain(x).unwrap()
            };
        }
        // once plainly and once to record it
        assert_eq!(calls.load(Relaxed), if jit { 2 } else { 12 });
        w.to_vec().unwrap()
    };
    assert_eq!(run(true), run(false));
}
