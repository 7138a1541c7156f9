//! `frit onnx`: what is in a model, what it computes, and whether that is right.

use frit::nn::npy;
use frit::onnx::check::{Tolerance, folder};
use frit::onnx::{Element, Port, Session, Size, Value};
use frit::*;
use std::path::{Path, PathBuf};
use std::time::Instant;

pub const HELP: &str = "\
frit onnx: models in ONNX files

usage:
  frit onnx inspect MODEL          inputs, outputs, operators, parameters
  frit onnx run MODEL [--input NAME=FILE.npy|random]... [--size NAME=N]... [--device NAME] [--bench]
                                   compute the outputs; inputs without a value are random, sizes without one are 1
  frit onnx check DIR... [--rtol=R] [--atol=A]
                                   every folder with a model.onnx and test_data_set_* below these; fails where one differs
";

type Done = std::result::Result<(), String>;

/// Runs one of the commands.
pub fn run(words: &[&str]) -> Done {
    match words {
        ["inspect", model] => inspect(model).map_err(|e| e.to_string()),
        ["run", model, options @ ..] => evaluate(model, options),
        ["check", dirs @ ..] if !dirs.is_empty() => check(dirs),
        _ => Err(format!("that is not a command\n\n{HELP}")),
    }
}

fn inspect(path: &str) -> Result<()> {
    let model = Session::load(path)?;
    for (what, ports) in [("inputs", model.inputs()), ("outputs", model.outputs())] {
        println!("{what}");
        ports.iter().for_each(|p| println!("  {p}"));
    }
    let summary = model.summary();
    println!("operators");
    for (name, count) in &summary.operators {
        println!("  {count:6} {name}");
    }
    let mega = summary.parameter_bytes as f64 / 1e6;
    println!("{} parameters, {mega:.1} MB", summary.parameters);
    Ok(())
}

/// What `run` was told.
#[derive(Default)]
struct Options<'a> {
    inputs: Vec<(&'a str, &'a str)>,
    sizes: Vec<(&'a str, usize)>,
    device: Option<&'a str>,
    bench: bool,
}

fn options<'a>(words: &[&'a str]) -> std::result::Result<Options<'a>, String> {
    let mut o = Options::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut next = || words.next().copied().ok_or_else(|| format!("{word} wants a value"));
        let pair = |text: &'a str| text.split_once('=').ok_or_else(|| format!("{text} is not NAME=VALUE"));
        match *word {
            "--input" => o.inputs.push(pair(next()?)?),
            "--size" => {
                let (name, n) = pair(next()?)?;
                o.sizes.push((name, n.parse().map_err(|_| format!("{n} is not a size"))?));
            }
            "--device" => o.device = Some(next()?),
            "--bench" => o.bench = true,
            other => return Err(format!("there is no option {other}\n\n{HELP}")),
        }
    }
    Ok(o)
}

fn evaluate(path: &str, words: &[&str]) -> Done {
    let o = options(words)?;
    let all = || -> Result<()> {
        let start = Instant::now();
        let model = Session::load(path)?;
        println!("loaded in {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
        let mut feeds = vec![];
        for port in model.inputs().iter().filter(|p| !p.has_default || o.inputs.iter().any(|i| i.0 == p.name))
        {
            feeds.push((port.name.clone(), feed(port, &o)?));
        }
        let start = Instant::now();
        let outputs = model.run(feeds.clone())?;
        println!("first run {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
        for (port, value) in model.outputs().iter().zip(&outputs) {
            println!("{}", port.name);
            match value {
                Value::Tensor(t, _) => println!("{t}"),
                other => println!("{other:?}"),
            }
        }
        if o.bench {
            bench(&model, &feeds)?;
        }
        Ok(())
    };
    match o.device {
        Some(device) => Device::scope(device, all).and_then(|r| r),
        None => all(),
    }
    .map_err(|e| e.to_string())
}

/// The median of as many runs as three seconds hold, at least five.
fn bench(model: &Session, feeds: &[(String, Value)]) -> Result<()> {
    let (begin, mut times) = (Instant::now(), vec![]);
    while times.len() < 5 || begin.elapsed().as_secs() < 3 {
        let start = Instant::now();
        model.run(feeds.to_vec())?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    println!("{:.3} ms a run, the median of {} (least {:.3})", times[times.len() / 2], times.len(), times[0]);
    Ok(())
}

fn feed(port: &Port, o: &Options) -> Result<Value> {
    let given = o.inputs.iter().find(|(name, _)| *name == port.name).map(|(_, file)| *file);
    if let Some(file) = given.filter(|f| *f != "random") {
        return npy::load(file).map(Value::from);
    }
    let (Some(element), Some(dims)) = (port.element, &port.dims) else {
        let e = format!("input {:?} is no tensor of a known shape: give it a value", port.name);
        return Err(Error::elsewhere("onnx", e));
    };
    let size = |s: &Size| match s {
        Size::Number(n) => *n,
        Size::Name(name) => o.sizes.iter().find(|(n, _)| n == name).map_or(1, |(_, n)| *n),
        Size::Any => 1,
    };
    let dims: Vec<usize> = dims.iter().map(size).collect();
    let d = element.dtype();
    let t = if d.is_float() { Tensor::rand(dims) } else { Tensor::randint(0, 2, dims) };
    t.cast(d).realize().map(|t| Value::Tensor(t, element)).map_err(|e| e.within(Element::name(element)))
}

fn check(words: &[&str]) -> Done {
    let mut tolerance = Tolerance::default();
    let mut dirs = vec![];
    for word in words {
        let number = |v: &str| v.parse::<f64>().map_err(|_| format!("{v} is not a number"));
        match word.split_once('=') {
            Some(("--rtol", v)) => tolerance.rtol = number(v)?,
            Some(("--atol", v)) => tolerance.atol = number(v)?,
            _ => find(Path::new(word), &mut dirs),
        }
    }
    dirs.sort();
    let bad = dirs.iter().filter(|dir| match folder(dir, tolerance) {
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
