//! Optimisers, clipping and schedules against torch's values, or those of the papers' formulas where torch has none.

use crate::goldens::{cases, difference, tensor};
use frit_nn::optim::schedule::{
    Cosine, Exponential, Linear, MultiStep, OneCycle, Plateau, Polynomial, Restarts, Schedule, Steps, Warmup,
};
use frit_nn::optim::{clip_grad_norm_of, clip_grad_value};
use frit_nn::{Adagrad, Adam, AdamW, Lamb, Lars, Lion, Muon, Optimizer, RmsProp, Sgd};
use frit_reference::goldens::Case;
use frit_tensor::{Device, Tensor};

/// The tensors of a case that are called `letter` and a number.
fn named(case: &Case, letter: &str) -> Vec<Tensor> {
    case.inputs.iter().filter(|t| t.name.starts_with(letter)).map(tensor).collect()
}

fn optimizer(case: &Case, params: &Vec<Tensor>) -> Box<dyn Optimizer> {
    let lr = case.number("lr").unwrap();
    let number = |key: &str, default: f64| case.number(key).unwrap_or(default);
    let betas: Vec<f64> =
        case.param("betas").unwrap_or("").split(',').filter_map(|v| v.trim().parse().ok()).collect();
    macro_rules! adam {
        ($kind:ident, $decay:literal) => {{
            let mut o = $kind::new(params, lr).unwrap().weight_decay(number("weight_decay", $decay));
            if let [b1, b2] = betas[..] {
                o = o.betas(b1, b2);
            }
            if let Some(eps) = case.number("eps") {
                o = o.eps(eps);
            }
            o
        }};
    }
    match case.op.as_str() {
        "optim.sgd" => {
            let o = Sgd::new(params, lr).unwrap().momentum(number("momentum", 0.0));
            let o = o.weight_decay(number("weight_decay", 0.0)).dampening(number("dampening", 0.0));
            Box::new(if case.flag("nesterov") { o.nesterov() } else { o })
        }
        "optim.adam" if case.flag("amsgrad") => Box::new(adam!(Adam, 0.0).amsgrad()),
        "optim.adam" => Box::new(adam!(Adam, 0.0)),
        "optim.adamw" if case.flag("amsgrad") => Box::new(adam!(AdamW, 0.01).amsgrad()),
        "optim.adamw" => Box::new(adam!(AdamW, 0.01)),
        "optim.lamb" => Box::new(adam!(Lamb, 0.0)),
        "optim.lion" => {
            let o = Lion::new(params, lr).unwrap().weight_decay(number("weight_decay", 0.0));
            Box::new(if let [b1, b2] = betas[..] { o.betas(b1, b2) } else { o })
        }
        "optim.rmsprop" => {
            let o = RmsProp::new(params, lr).unwrap().alpha(number("alpha", 0.99)).eps(number("eps", 1e-8));
            let o = o.weight_decay(number("weight_decay", 0.0)).momentum(number("momentum", 0.0));
            Box::new(if case.flag("centered") { o.centered() } else { o })
        }
        "optim.adagrad" => {
            let o =
                Adagrad::new(params, lr).unwrap().lr_decay(number("lr_decay", 0.0)).eps(number("eps", 1e-10));
            let o = o.weight_decay(number("weight_decay", 0.0));
            Box::new(o.initial_accumulator(number("initial_accumulator_value", 0.0)))
        }
        "optim.lars" => {
            let o = Lars::new(params, lr).unwrap().momentum(number("momentum", 0.9));
            Box::new(o.weight_decay(number("weight_decay", 1e-4)).trust(number("trust", 1e-3)))
        }
        "optim.muon" => {
            let o = Muon::new(params, lr).unwrap().momentum(number("momentum", 0.95));
            let o = o.weight_decay(number("weight_decay", 0.1));
            Box::new(if case.param("nesterov") == Some("false") { o.without_nesterov() } else { o })
        }
        other => panic!("no optimiser {other}"),
    }
}

/// Steps `range` of a case; what the parameters are after each.
fn steps(
    o: &mut dyn Optimizer,
    params: &[Tensor],
    grads: &[Tensor],
    range: std::ops::Range<usize>,
) -> Vec<Vec<f32>> {
    let mut seen = vec![Vec::new(); params.len()];
    for t in range {
        for (p, g) in params.iter().zip(grads) {
            p.set_grad(Some(g.at(t)));
        }
        o.step().unwrap();
        for (p, seen) in params.iter().zip(&mut seen) {
            seen.extend(p.to_vec::<f32>().unwrap());
        }
    }
    seen
}

#[test]
fn ten_steps_of_every_optimiser_are_those_expected() {
    let all = cases(|op| op.starts_with("optim."));
    assert!(all.len() > 20);
    Device::scope("INTERP", || {
        for case in &all {
            let params: Vec<Tensor> = named(case, "p").iter().map(|p| p.requires_grad(true)).collect();
            let grads = named(case, "g");
            let seen = steps(&mut *optimizer(case, &params), &params, &grads, 0..10);
            for (values, want) in seen.into_iter().zip(&case.outputs) {
                let got = Tensor::from_vec(values, &want.array.shape[..]);
                if let Some(d) = difference(&got, want) {
                    panic!("{} {} {d}", case.name, want.name);
                }
            }
        }
    })
    .unwrap();
}

#[test]
fn a_saved_optimiser_goes_on_as_if_nothing_had_happened() {
    Device::scope("INTERP", || {
        for case in &cases(|op| op.starts_with("optim.")) {
            let grads = named(case, "g");
            let params: Vec<Tensor> = named(case, "p").iter().map(|p| p.requires_grad(true)).collect();
            let mut first = optimizer(case, &params);
            steps(&mut *first, &params, &grads, 0..4);
            first.set_lr(0.005).unwrap();
            let saved = first.state_dict();
            let copies: Vec<Tensor> = params
                .iter()
                .map(|p| Tensor::from_vec(p.to_vec::<f32>().unwrap(), p.shape()).requires_grad(true))
                .collect();
            let mut second = optimizer(case, &copies);
            let bytes: Vec<_> = saved
                .iter()
                .map(|(n, t)| (n.clone(), Tensor::from_bytes(t.dtype(), &t.to_bytes().unwrap(), t.shape())))
                .collect();
            second.load_state_dict(&bytes.into_iter().collect()).unwrap();
            assert_eq!(second.lr(), 0.005);
            let (a, b) =
                (steps(&mut *first, &params, &grads, 4..10), steps(&mut *second, &copies, &grads, 4..10));
            assert_eq!(a, b, "{}", case.name);
            let mut short = second.state_dict();
            short.remove("lr");
            if short.pop_last().is_some() {
                let e = second.load_state_dict(&short).unwrap_err().to_string();
                assert!(e.contains("1 missing"), "{}: {e}", case.name);
            }
        }
    })
    .unwrap();
}

#[test]
fn clipping_is_torchs() {
    Device::scope("INTERP", || {
        for case in &cases(|op| op.starts_with("clip")) {
            let params: Vec<Tensor> = named(case, "g")
                .iter()
                .map(|g| {
                    let p = Tensor::from_vec(vec![0f32; g.numel().unwrap()], g.shape()).requires_grad(true);
                    p.set_grad(Some(g.clone()));
                    p
                })
                .collect();
            let max = case.number("max").unwrap();
            let mut got = Vec::new();
            if case.op == "clip_grad_norm" {
                got.push(clip_grad_norm_of(&params, max, case.number("norm").unwrap_or(2.0)).unwrap());
            } else {
                clip_grad_value(&params, max).unwrap();
            }
            got.extend(params.iter().map(|p| p.grad().unwrap()));
            for (got, want) in got.iter().zip(&case.outputs) {
                assert_eq!(difference(got, want), None, "{}", case.name);
            }
        }
        let p = Tensor::zeros([2]).requires_grad(true);
        assert_eq!(frit_nn::optim::clip_grad_norm(&p, 1.0).unwrap().item::<f32>().unwrap(), 0.0);
        assert!(frit_nn::optim::clip_grad_norm(&p, f64::NAN).is_err());
    })
    .unwrap();
}

fn rates(case: &Case) -> Vec<f64> {
    let number = |key: &str| case.number(key).unwrap_or_else(|| panic!("{}: {key}", case.name));
    let or = |key: &str, default: f64| case.number(key).unwrap_or(default);
    let (lr, length) = (0.4, or("length", 0.0) as usize);
    let schedule: Box<dyn Schedule> = match case.op.as_str() {
        "schedule.step" => Box::new(Steps { lr, size: number("size") as usize, gamma: number("gamma") }),
        "schedule.multi_step" => {
            let at = case.ints("at").into_iter().map(|v| v as usize).collect();
            Box::new(MultiStep { lr, at, gamma: number("gamma") })
        }
        "schedule.exponential" => Box::new(Exponential { lr, gamma: number("gamma") }),
        "schedule.cosine" => Box::new(Cosine { lr, min: number("min"), length }),
        "schedule.restarts" => {
            Box::new(Restarts { lr, min: number("min"), length, times: number("times") as usize })
        }
        "schedule.linear" => Box::new(Linear { lr, start: number("start"), end: number("end"), length }),
        "schedule.polynomial" => Box::new(Polynomial { lr, length, power: number("power") }),
        "schedule.one_cycle" => {
            let c = OneCycle::new(lr, length);
            let (rise, div, final_div) = (or("rise", c.rise), or("div", c.div), or("final_div", c.final_div));
            Box::new(OneCycle { rise, div, final_div, linear: case.flag("linear"), ..c })
        }
        "schedule.warmup" => {
            let then = Cosine { lr, min: 0.0, length: number("cosine") as usize };
            Box::new(Warmup { length, start: number("start"), then })
        }
        "schedule.plateau" => {
            let mut p = Plateau::new(lr);
            (p.factor, p.patience) = (number("factor"), number("patience") as usize);
            (p.cooldown, p.min) = (or("cooldown", 0.0) as usize, or("min", 0.0));
            (p.threshold, p.absolute, p.maximize) =
                (or("threshold", p.threshold), case.flag("absolute"), case.flag("max"));
            let mut seen = vec![lr];
            seen.extend(case.inputs[0].array.data.iter().map(|v| p.observe(*v)));
            return seen;
        }
        other => panic!("no schedule {other}"),
    };
    (0..case.outputs[0].array.numel()).map(|step| schedule.lr(step)).collect()
}

#[test]
fn schedules_are_torchs() {
    let all = cases(|op| op.starts_with("schedule."));
    assert!(all.len() > 10);
    for case in &all {
        for (step, (got, want)) in rates(case).iter().zip(&case.outputs[0].array.data).enumerate() {
            assert!((got - want).abs() < 1e-12, "{} at step {step}: {got}, torch has {want}", case.name);
        }
    }
}

#[test]
fn schedules_take_any_numbers() {
    for length in [0, 1, 2] {
        for step in [0, 1, 2, usize::MAX] {
            assert!(Cosine { lr: 1.0, min: 0.1, length }.lr(step).is_finite());
            assert!(Restarts { lr: 1.0, min: 0.1, length, times: 1 }.lr(step).is_finite());
            assert!(Restarts { lr: 1.0, min: 0.1, length, times: 3 }.lr(step).is_finite());
            assert!(OneCycle::new(1.0, length).lr(step).is_finite());
            assert!(Warmup { length, start: 0.1, then: 0.5 }.lr(step).is_finite());
            assert!(Steps { lr: 1.0, size: length, gamma: 0.5 }.lr(step).is_finite());
        }
    }
}
