//! Benchmarks: one JSON line each, names fixed so that they can be compared with peers in one run.

mod compile;
mod files;
mod models;
mod ops;
mod train;

use frit::*;
use std::time::{Duration, Instant};

/// What a benchmark does.
type Run = Box<dyn Fn() -> Result<Line>>;

/// A benchmark: its name and what to do.
pub struct Bench {
    name: String,
    run: Run,
}

impl Bench {
    fn new(name: impl Into<String>, run: impl Fn() -> Result<Line> + 'static) -> Bench {
        Bench { name: name.into(), run: Box::new(run) }
    }
}

/// What is printed: milliseconds and further fields.
pub struct Line {
    ms: f64,
    fields: Vec<(&'static str, f64)>,
}

impl Line {
    fn new(ms: f64) -> Line {
        Line { ms, fields: vec![] }
    }
    /// With one more field, or another value of one.
    fn with(mut self, name: &'static str, value: f64) -> Line {
        self.fields.retain(|f| f.0 != name);
        self.fields.push((name, value));
        self
    }
    fn print(&self, name: &str, device: &str) {
        let extra: String = self.fields.iter().map(|(k, v)| format!(", \"{k}\": {}", short(*v))).collect();
        println!("{{\"name\": \"{name}\", \"device\": \"{device}\", \"ms\": {}{extra}}}", short(self.ms));
    }
}

/// Four significant digits or so, valid JSON.
fn short(v: f64) -> String {
    if !v.is_finite() {
        "null".into()
    } else if v.abs() >= 100.0 {
        format!("{v:.1}")
    } else {
        format!("{v:.4}")
    }
}

/// Every benchmark there is.
fn all() -> Vec<Bench> {
    let mut all = ops::benches();
    all.extend(train::benches());
    all.extend(compile::benches());
    all.extend(files::benches());
    all
}

/// Run the benchmarks whose names contain one of `names`, or list them.
pub fn run(names: &[&str]) -> std::result::Result<(), String> {
    if let ["--open", path] = names {
        // what `safetensors_open_1g` starts, to be timed from nothing
        let ms = files::open_and_read(path.as_ref()).map_err(|e| e.to_string())?;
        println!("{ms}");
        return Ok(());
    }
    let all = all();
    if names.contains(&"--list") {
        all.iter().for_each(|b| println!("{}", b.name));
        return Ok(());
    }
    let device = frit::engine::default_device().map_err(|e| e.to_string())?;
    let exact = |b: &&Bench| names.iter().any(|n| b.name == *n);
    let near = |b: &&Bench| names.is_empty() || names.iter().any(|n| b.name.contains(n));
    let mut chosen: Vec<&Bench> = all.iter().filter(exact).collect();
    if chosen.is_empty() {
        chosen = all.iter().filter(near).collect();
    }
    if chosen.is_empty() {
        return Err(format!("no benchmark is called {names:?}; see frit bench --list"));
    }
    let mut failed = 0;
    for b in chosen {
        match (b.run)() {
            Ok(line) => line.print(&b.name, &device),
            Err(e) => {
                eprintln!("{}: {e}", b.name);
                failed += 1;
            }
        }
    }
    if failed == 0 { Ok(()) } else { Err(format!("{failed} benchmarks failed")) }
}

/// Run `step` once from nothing cached, then until times are stable; the median and the first time.
fn time(mut step: impl FnMut() -> Result<()>) -> Result<Line> {
    let start = Instant::now();
    step()?;
    let first = start.elapsed();
    for _ in 0..2 {
        step()?;
    }
    let (mut times, begun) = (vec![], Instant::now());
    while times.len() < 5 || (begun.elapsed() < Duration::from_secs(3) && times.len() < 200) {
        let start = Instant::now();
        step()?;
        times.push(start.elapsed());
    }
    times.sort();
    Ok(Line::new(times[times.len() / 2].as_secs_f64() * 1e3).with("first_s", first.as_secs_f64()))
}

/// Time `f` as programs run it that do it often: recorded as a Jit by the second call, replayed from the third on.
fn captured<I, O>(inputs: I, f: impl FnMut(I) -> Result<O> + Send + 'static) -> Result<Line>
where
    I: Bundle + Clone,
    O: Bundle,
{
    let step = Jit::new(f);
    time(|| step.call(inputs.clone()).map(|_| ()))
}

/// Peak megabytes the device's allocator handed out while `f` ran.
fn peak_mb(before: usize) -> Result<f64> {
    let device = frit::engine::default_device().map_err(|e| Error::new("bench", e.to_string()))?;
    let stats =
        frit::engine::devices::memory_stats(&device).map_err(|e| Error::new("bench", e.to_string()))?;
    Ok(stats.peak.saturating_sub(before) as f64 / 1e6)
}
