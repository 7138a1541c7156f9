//! How long the compiler takes: real models on the NULL device, nothing cached.

use super::models::{BERT_LARGE, GPT2, LLAMA_8B, Mnist, Resnet50, Transformer};
use super::{Bench, Line, interning};
use frit::engine::measure;
use frit::nn::*;
use frit::*;

/// Kernels of the recorded program that measures a launch.
const CHAIN: usize = 64;

/// Build a graph with `outputs` on the NULL device, then time every stage to rendered code.
fn compile(outputs: impl Fn() -> Result<Vec<Tensor>>) -> Result<Line> {
    let start = measure::thread_time();
    let tensors = outputs()?;
    let nodes = tensors.iter().map(|t| t.uop()).collect::<Result<Vec<_>>>()?;
    let graph = (measure::thread_time() - start).as_secs_f64() * 1e3;
    let error = |e: frit::engine::Error| Error::new("compile", e.to_string());
    let t = measure::compile_times(&nodes).map_err(error)?;
    let wall = measure::compile_wall(&nodes).map_err(error)?;
    let [schedule, lower, render] = [t.schedule, t.lower, t.render].map(|d| d.as_secs_f64() * 1e3);
    Ok(Line::new(graph + schedule + lower + render)
        .with("graph_ms", graph)
        .with("schedule_ms", schedule)
        .with("lower_ms", lower)
        .with("render_ms", render)
        .with("render_median_ms", t.render_one[0].as_secs_f64() * 1e3)
        .with("render_worst_ms", t.render_one[1].as_secs_f64() * 1e3)
        .with("wall_ms", graph + wall.as_secs_f64() * 1e3)
        .with("kernels", t.kernels as f64)
        .with("distinct", t.distinct as f64)
        .with("arena_mb", t.arena_bytes as f64 / 1e6))
}

/// How long the device takes to assemble and load kernels that it has not seen, one after the other and in threads: `ms` is
/// the threads'. With `FRIT_CACHE=off`, else the second run finds them.
fn loading() -> Result<Line> {
    let error = |e: frit::engine::Error| Error::new("load", e.to_string());
    let kernels = |turn: usize| {
        let row = |i: usize| {
            let x = Tensor::zeros([64 + turn, 256 + i]).contiguous().realize()?;
            (x.exp() * 2.0).softmax(-1).uop()
        };
        (0..CHAIN).map(row).collect::<Result<Vec<_>>>()
    };
    let mut times = [0.0f64; 2];
    for turn in 0..6 {
        let time = measure::load_time(&kernels(turn)?, turn % 2 == 0).map_err(error)?;
        times[turn % 2] += time.as_secs_f64() * 1e3 / 3.0;
    }
    Ok(Line::new(times[0]).with("one_by_one_ms", times[1]).with("kernels", CHAIN as f64))
}

fn bench(name: &str, run: impl Fn() -> Result<Line> + Copy + 'static) -> Bench {
    Bench::new(format!("compile_{name}"), move || Device::scope("NULL", run)?)
}

/// Everything a training step updates, with the loss last.
pub fn train<M: Module>(model: &M, opt: &mut Adam, loss: impl Fn(&M) -> Tensor) -> Result<Vec<Tensor>> {
    training(true, || {
        let loss = loss(model);
        loss.backward()?;
        let mut outputs = opt.plan_step()?;
        outputs.push(loss);
        Ok(outputs)
    })
}

fn tokens(b: usize, t: usize, vocab: usize) -> Result<Tensor> {
    let x = Tensor::randint(0, vocab as i64, [b, t]);
    x.realize()?;
    Ok(x)
}

fn image(b: usize, c: usize, n: usize) -> Result<Tensor> {
    let x = Tensor::randn([b, c, n, n]);
    x.realize()?;
    Ok(x)
}

fn transformer_train(c: super::models::Config, batch: usize, len: usize) -> Result<Line> {
    let model = Transformer::new(c, true);
    let mut opt = Adam::new(&model, 1e-3)?;
    let (x, y) = (tokens(batch, len, c.vocab)?, tokens(batch, len, c.vocab)?.flatten(0, -1));
    let loss = |m: &Transformer| m.forward(&x).reshape((-1, c.vocab)).cross_entropy(&y);
    let opt = std::cell::RefCell::new(&mut opt);
    compile(|| train(&model, &mut opt.borrow_mut(), loss))
}

fn image_train<M: Module>(
    model: M,
    forward: fn(&M, &Tensor) -> Tensor,
    x: Tensor,
    classes: usize,
) -> Result<Line> {
    let opt = std::cell::RefCell::new(Adam::new(&model, 1e-3)?);
    let y = Tensor::randint(0, classes as i64, [x.dims()?[0]]);
    y.realize()?;
    compile(|| train(&model, &mut opt.borrow_mut(), |m| forward(m, &x).cross_entropy(&y)))
}

/// The list.
pub fn benches() -> Vec<Bench> {
    vec![
        bench("resnet50_infer", || {
            let model = Resnet50::new();
            model.realize_state()?;
            let x = image(1, 3, 224)?;
            compile(|| Ok(vec![model.forward(&x)]))
        }),
        bench("resnet50_train", || image_train(Resnet50::new(), Resnet50::forward, image(16, 3, 224)?, 1000)),
        bench("mnist_train", || image_train(Mnist::new(), Mnist::forward, image(512, 1, 28)?, 10)),
        bench("bert_large_train", || transformer_train(BERT_LARGE, 8, 512)),
        bench("gpt2_train", || transformer_train(GPT2, 4, 128)),
        bench("llama8b_token", || {
            let model = Transformer::new(LLAMA_8B, true);
            model.realize_state()?;
            let x = tokens(1, 1, LLAMA_8B.vocab)?;
            compile(|| Ok(vec![model.forward(&x)]))
        }),
        Bench::new("load_kernels", loading),
        Bench::new("uop_intern", || {
            let (one, two) = (interning::intern_hit_ns(1), interning::intern_hit_ns(2));
            Ok(Line::new(one / 1e6).with("ns", one).with("ns_two_threads", two).with("scaling", one / two))
        }),
        Bench::new("uop_simplify", || {
            let (first, again) = interning::simplify_ns();
            Ok(Line::new(first / 1e6).with("ns", first).with("ns_again", again))
        }),
        Bench::new("launch_add", || {
            let (a, b) = (Tensor::ones([16]).contiguous(), Tensor::ones([16]).contiguous());
            Tensor::realize_all(&[&a, &b])?;
            let one = Jit::new(|(a, b): (Tensor, Tensor)| Ok(a + b));
            let many =
                Jit::new(|(a, b): (Tensor, Tensor)| Ok((0..CHAIN).fold(a, |a, _| (a + &b).contiguous())));
            let repeat = |jit: &Jit<(Tensor, Tensor), Tensor>| {
                let call = || jit.call((a.clone(), b.clone())).map(|_| ());
                (0..3).try_for_each(|_| call())?;
                super::time(|| (0..CHAIN).try_for_each(|_| call()))
            };
            let plain = super::time(|| (&a + &b).realize().map(|_| ()))?;
            let (call, chain) = (repeat(&one)?, repeat(&many)?);
            // one kernel more or less in a recorded program; a call of a program of one kernel; a kernel not recorded
            let us = (chain.ms - call.ms) * 1e3 / (CHAIN * (CHAIN - 1)) as f64;
            let line = Line::new(us / 1e3).with("us", us).with("call_us", call.ms * 1e3 / CHAIN as f64);
            Ok(line.with("plain_us", plain.ms * 1e3))
        }),
    ]
}
