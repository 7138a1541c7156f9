//! `frit onnx`: what is in a model, what it computes, whether that is right, and how fast it can be.

mod compare;
mod feed;
mod inspect;
mod labels;

use crate::progress::Progress;
use feed::{Options, feeds, load, options, options_and_rest};
use frit::onnx::check::{Tolerance, data_sets};
use frit::onnx::{Session, Value};
use frit::*;
use std::path::{Path, PathBuf};
use std::time::Instant;

pub const HELP: &str = "\
frit onnx: models in ONNX files

usage:
  frit onnx inspect MODEL [--size NAME=N] [--device NAME]
                                   inputs, outputs, and for each operator its nodes, parameters, operations and bytes moved;
                                   peak memory and cost are those planned for a device like NAME (NULL:AVX512 unless said)
  frit onnx run MODEL [INPUTS] [--device NAME] [--top K] [--labels FILE] [--bench]
                                   compute the outputs
  frit onnx compare MODEL [INPUTS] [--device NAME] [--with NAME | --want NAME=FILE.npy...] [--rtol R] [--atol A]
                                   every node on two devices (--with INTERP unless said otherwise), or values of the model
                                   against stored ones; says which is the first to differ, and fails
  frit onnx check DIR... [--rtol R] [--atol A]
                                   every folder with a model.onnx and test_data_set_* below these; fails where one differs
  frit onnx tune MODEL [INPUTS] [--device NAME] [--width N]
                                   search for the best way to run each kernel, N states at a time (4); what is found is kept
                                   in FRIT_CACHE/tuned and used from then on

inputs:
  --input NAME=FILE.npy            an array as numpy saves it
  --input NAME=FILE.png|FILE.jpg   a picture, resized and cropped to the input's height and width, channels first or last as
                                   the input has them; of an input of bytes 0 to 255, of floats 0 to 1, then less --mean over
                                   --std
  --input NAME=random              random numbers, as inputs without a value have; NAME= may be left out of the first input
  --mean R,G,B --std R,G,B         0.485,0.456,0.406 and 0.229,0.224,0.225 unless said otherwise: ImageNet's
  --size NAME=N                    a size that has a name; 1 unless said otherwise

outputs:
  --top K                          the K most likely classes instead of all numbers; 5 where an input is a picture and the
                                   output a row of classes
  --labels FILE                    names of the classes, a line each
";

type Done = std::result::Result<(), String>;

/// Runs one of the commands.
pub fn run(words: &[&str]) -> Done {
    match words {
        ["inspect", model, words @ ..] => inspect::run(model, &options(words)?),
        ["run", model, words @ ..] => {
            let o = options(words)?;
            on_device(o.device, || evaluate(model, &o))
        }
        ["compare", model, words @ ..] => compare::run(model, &options(words)?),
        ["check", words @ ..] => check(&options_and_rest(words)?),
        ["tune", model, words @ ..] => {
            let o = options(words)?;
            on_device(o.device, || tune(model, &o))
        }
        _ => Err(format!("that is not a command\n\n{HELP}")),
    }
}

fn on_device(device: Option<&str>, f: impl FnOnce() -> Result<()>) -> Done {
    match device {
        Some(device) => Device::scope(device, f).and_then(|r| r),
        None => f(),
    }
    .map_err(|e| e.to_string())
}

/// What `f` gives, with a line that shows that it is under way, and its milliseconds.
fn timed<T>(what: &str, f: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let _line = Progress::show(what);
    let start = Instant::now();
    Ok((f()?, start.elapsed().as_secs_f64() * 1e3))
}

fn evaluate(path: &str, o: &Options) -> Result<()> {
    let (model, ms) = timed("loading", || load(path, o))?;
    println!("loaded in {ms:.1} ms");
    let feeds = feeds(&model, o)?;
    let (outputs, ms) = timed("first run", || model.run(feeds.clone()))?;
    println!("first run {ms:.1} ms");
    model.warnings().iter().for_each(|w| eprintln!("warning: {w}"));
    for (port, value) in model.outputs().iter().zip(&outputs) {
        println!("{}", port.name);
        match (value, labels::likeliest(value, o)?) {
            (_, Some(lines)) => print!("{lines}"),
            (Value::Tensor(t, _), None) => println!("{t}"),
            (other, None) => println!("{other:?}"),
        }
    }
    if o.bench { bench(&model, &feeds).map(drop) } else { Ok(()) }
}

/// The median of as many runs as three seconds hold, at least five.
fn bench(model: &Session, feeds: &[(String, Value)]) -> Result<f64> {
    let (begin, mut times) = (Instant::now(), vec![]);
    while times.len() < 5 || begin.elapsed().as_secs() < 3 {
        let start = Instant::now();
        model.run(feeds.to_vec())?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    println!("{median:.3} ms a run, the median of {} (least {:.3})", times.len(), times[0]);
    Ok(median)
}

fn tune(path: &str, o: &Options) -> Result<()> {
    let wrong = |e: engine::Error| Error::elsewhere("tune", e.to_string());
    engine::config::set("FRIT_BEAM", o.width.unwrap_or(4)).map_err(wrong)?;
    let (model, _) = timed("loading", || load(path, o))?;
    let feeds = feeds(&model, o)?;
    // the first runs are plain and recorded, which may be other kernels
    let (_, ms) = timed("searching", || (0..3).try_for_each(|_| model.run(feeds.clone()).map(drop)))?;
    println!("searched for {:.1} s", ms / 1e3);
    bench(&model, &feeds).map(drop)
}

fn check(o: &Options) -> Done {
    let usual = Tolerance::default();
    let tolerance = Tolerance { rtol: o.rtol.unwrap_or(usual.rtol), atol: o.atol.unwrap_or(usual.atol) };
    let mut dirs = vec![];
    o.rest.iter().for_each(|dir| find(Path::new(dir), &mut dirs));
    dirs.sort();
    let agrees = |dir: &PathBuf| {
        let model = load(&dir.join("model.onnx").display().to_string(), o)?;
        data_sets(&model, dir, tolerance)
    };
    let bad = dirs.iter().filter(|dir| match agrees(dir) {
        Ok(_) => false,
        Err(e) => {
            println!("{}: {e}", dir.display());
            true
        }
    });
    match (bad.count(), dirs.len()) {
        (_, 0) => Err("no folder with a model.onnx is there".into()),
        (0, n) => {
            println!("all {n} agree");
            Ok(())
        }
        (bad, n) => Err(format!("{bad} of {n} differ")),
    }
}

fn find(dir: &Path, found: &mut Vec<PathBuf>) {
    if dir.join("model.onnx").exists() {
        return found.push(dir.to_path_buf());
    }
    let below = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path());
    below.filter(|p| p.is_dir()).for_each(|p| find(&p, found));
}
