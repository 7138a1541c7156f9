//! Benchmarks: one JSON line each, names fixed so that they can be compared with peers in one run.

pub mod compile;
mod interning;
mod files;
pub mod models;
mod large;
mod ops;
mod train;

use frit::*;
use std::sync::atomic::{AtomicUsize, Ordering};
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
    all.extend(large::benches());
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
    let (options, names): (Vec<&str>, Vec<&str>) = names.iter().partition(|n| n.starts_with("--"));
    for option in options {
        let width = match option.strip_prefix("--search").map(|w| w.strip_prefix('=').unwrap_or(w)) {
            Some("") => Some(4),
            Some(width) => width.parse().ok().filter(|w| *w > 0),
            None => return Err(format!("there is no option {option}; see frit --help")),
        };
        SEARCH.store(width.ok_or(format!("{option}: expected a number of states"))?, Ordering::Relaxed);
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
///
/// Where the device runs apart from the host, steps are timed by the batch, long enough that launches hide.
fn time(mut step: impl FnMut() -> Result<()>) -> Result<Line> {
    let wrong = |e: frit::engine::Error| Error::new("bench", e.to_string());
    let device = frit::engine::default_device().map_err(wrong)?;
    let mut steps = |n: u32| {
        let start = Instant::now();
        (0..n).try_for_each(|_| step())?;
        frit::engine::devices::synchronize(&device).map_err(wrong)?;
        Ok::<_, Error>(start.elapsed() / n)
    };
    let first = steps(1)?;
    steps(2)?;
    let batch = match frit::engine::devices::runs_apart(&device).map_err(wrong)? {
        false => 1,
        true => (Duration::from_millis(20).div_duration_f64(steps(3)?) as u32).clamp(1, 1000),
    };
    let (mut times, begun) = (vec![], Instant::now());
    while times.len() < 5 || (begun.elapsed() < Duration::from_secs(3) && times.len() < 200) {
        times.push(steps(batch)?);
    }
    times.sort();
    Ok(Line::new(times[times.len() / 2].as_secs_f64() * 1e3).with("first_s", first.as_secs_f64()))
}

/// How wide to search for the kernels of a benchmark; 0: not at all.
static SEARCH: AtomicUsize = AtomicUsize::new(0);

/// Time `f` as programs run it that do it often: recorded as a Jit by the second call, replayed from the third on.
fn recorded<I, O>(inputs: I, f: impl FnMut(I) -> Result<O> + Send + 'static) -> Result<(Jit<I, O>, Line)>
where
    I: Bundle + Clone,
    O: Bundle,
{
    let step = Jit::new(f);
    let line = time(|| step.call(inputs.clone()).map(|_| ()))?;
    Ok((step, line))
}

/// The same for what the benchmark is about: searched, if that is asked for.
fn captured<I, O>(inputs: I, f: impl FnMut(I) -> Result<O> + Send + 'static) -> Result<Line>
where
    I: Bundle + Clone,
    O: Bundle,
{
    let (step, line) = recorded(inputs.clone(), f)?;
    searched(&step, inputs, line)
}

/// Search for what a Jit recorded, if that is asked for: `ms` as it was and `searched_ms` as it is, in turns.
fn searched<I: Bundle, O: Bundle>(step: &Jit<I, O>, inputs: I, line: Line) -> Result<Line> {
    let width = SEARCH.load(Ordering::Relaxed);
    if width == 0 {
        return Ok(line);
    }
    let begun = Instant::now();
    let told = |i, n, name: &str, tuned: &_| eprintln!("{i:4}/{n} {name:40} {tuned}");
    let tuned = step.tune(inputs, width, told)?;
    let line = Line { ms: tuned.before.as_secs_f64() * 1e3, ..line };
    Ok(line
        .with("searched_ms", tuned.after.as_secs_f64() * 1e3)
        .with("search_s", begun.elapsed().as_secs_f64())
        .with("changed", tuned.changed as f64))
}

/// Peak megabytes the device's allocator handed out while `f` ran.
fn peak_mb(before: usize) -> Result<f64> {
    let device = frit::engine::default_device().map_err(|e| Error::new("bench", e.to_string()))?;
    let stats =
        frit::engine::devices::memory_stats(&device).map_err(|e| Error::new("bench", e.to_string()))?;
    Ok(stats.peak.saturating_sub(before) as f64 / 1e6)
}
