//! Fits a curve by gradient descent: no layers, no optimiser, one page.
//!
//! ```text
//! cargo run --release --example fit
//! cargo run --release --example fit -- --steps 100
//! ```

use frit::Progress;
use frit::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let steps = match std::env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => 400,
        [flag, n] if flag == "--steps" => n.parse()?,
        _ => return Err("there is --steps N".into()),
    };

    // Noisy points of y = 2 sin(1.5 x + 0.5) - 1.
    frit::manual_seed(1);
    let x = Tensor::uniform(-2.0, 2.0, [256]).realize()?;
    let y = ((&x * 1.5 + 0.5).sin() * 2.0 - 1.0 + Tensor::randn([256]) * 0.1).realize()?;

    // Amplitude, frequency, phase, offset: a guess to begin with.
    let p = Tensor::new([1.0, 1.0, 0.0, 0.0]).requires_grad(true);
    let curve = |x: &Tensor| (x * p.at(1) + p.at(2)).sin() * p.at(0) + p.at(3);

    let (mut first, mut last) = (None, f32::NAN);
    let progress = Progress::new("training", steps);
    for step in 0..steps {
        let loss = (curve(&x) - &y).square().mean(..);
        let gradient = &loss.gradient(&[&p])?[0];
        p.assign(&p - gradient * 0.1);
        Tensor::realize_all(&[&p, &loss])?; // one run; from the second step on nothing is compiled
        last = loss.item()?;
        first.get_or_insert(last);
        progress.value("loss", last.into());
        progress.step();
        if step % 50 == 0 {
            progress.say(&format!("step {step:3}  loss {last:.5}"));
        }
    }
    drop(progress);
    let found = p.to_vec::<f32>()?;
    println!(
        "amplitude {:.2}, frequency {:.2}, phase {:.2}, offset {:.2}",
        found[0], found[1], found[2], found[3]
    );
    println!("loss {last:.5} after {steps} steps; the noise alone has 0.01");
    if first.is_some_and(|first| last > 0.5 * first) {
        return Err("the loss did not fall by half".into());
    }
    Ok(())
}
