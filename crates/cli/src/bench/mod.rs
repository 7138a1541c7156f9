//! Benchmarks: one JSON line each, names fixed so that they can be compared with peers in one run.

mod check;
pub mod compile;
mod interning;
mod files;
pub mod models;
mod large;
mod llama;
mod ops;
mod plot;
mod train;

use frit::*;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What a benchmark does.
type Run = Box<dyn Fn() -> Result<Line>>;

/// A benchmark: its name and what to do.
pub struct Bench {
    name: String,
    run: Run,
    /// Left out where all are run: it takes more memory than most machines have.
    only_by_name: bool,
}

impl Bench {
    fn new(name: impl Into<String>, run: impl Fn() -> Result<Line> + 'static) -> Bench {
        Bench { name: name.into(), run: Box::new(run), only_by_name: false }
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
    all.extend(llama::benches());
    all.extend(train::benches());
    all.extend(compile::benches());
    all.extend(files::benches());
    all
}

/// Take an option.
fn choose(option: &str) -> std::result::Result<(), String> {
    let (name, value) = option.split_once('=').map_or((option, None), |(n, v)| (n, Some(v)));
    let number = |otherwise: Option<u64>| {
        let given = value.map_or(otherwise, |v| v.parse().ok().filter(|n| *n > 0));
        given.ok_or_else(|| format!("{option}: expected a number"))
    };
    match name {
        "--search" => SEARCH.store(number(Some(4))? as usize, Ordering::Relaxed),
        "--milliseconds" => LONG.store(number(None)?, Ordering::Relaxed),
        "--check" => CHECK.store(true, Ordering::Relaxed),
        _ => return Err(format!("there is no option {option}; see frit --help")),
    }
    Ok(())
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
    let file = |name: &str| options.iter().find_map(|o| o.strip_prefix(name)?.strip_prefix('='));
    let (plotted, peers) = (file("--plot"), file("--peers"));
    let own = |o: &&&str| !o.starts_with("--plot=") && !o.starts_with("--peers=");
    options.iter().filter(own).try_for_each(|o| choose(o))?;
    let device = frit::engine::default_device().map_err(|e| e.to_string())?;
    let exact = |b: &&Bench| names.iter().any(|n| b.name == *n);
    let near = |b: &&Bench| names.is_empty() && !b.only_by_name || names.iter().any(|n| b.name.contains(n));
    let mut chosen: Vec<&Bench> = all.iter().filter(exact).collect();
    if chosen.is_empty() {
        chosen = all.iter().filter(near).collect();
    }
    if chosen.is_empty() {
        return Err(format!("no benchmark is called {names:?}; see frit bench --list"));
    }
    let (mut failed, mut done) = (0, vec![]);
    for b in chosen {
        match (b.run)() {
            Ok(line) => {
                line.print(&b.name, &device);
                done.push((b.name.clone(), line.ms));
            }
            Err(e) => {
                eprintln!("{}: {e}", b.name);
                failed += 1;
            }
        }
    }
    if let Some(file) = plotted {
        let read = |f: &str| std::fs::read_to_string(f).map_err(|e| format!("{f}: {e}"));
        let peers = peers.map_or(Ok(vec![]), |f| plot::peers(&read(f)?).map_err(|e| format!("{f}: {e}")))?;
        std::fs::write(file, plot::chart(&done, &peers)).map_err(|e| format!("{file}: {e}"))?;
    }
    if failed == 0 { Ok(()) } else { Err(format!("{failed} benchmarks failed")) }
}

fn wrong(e: frit::engine::Error) -> Error {
    Error::new("bench", e.to_string())
}

/// Run `step` once from nothing cached, then until times are stable; the median and the first time.
///
/// Where the device runs apart from the host, steps are timed by its clock and by the batch, long enough that launches hide.
fn time(mut step: impl FnMut() -> Result<()>) -> Result<Line> {
    use frit::engine::devices;
    let device = frit::engine::default_device().map_err(wrong)?;
    let mut steps = |n: u32| {
        let batch = || (0..n).try_for_each(|_| step());
        devices::time(&device, batch, wrong).map(|t| t / n)
    };
    let first = Instant::now();
    steps(1)?;
    let first = first.elapsed();
    steps(2)?;
    let batch = match devices::runs_apart(&device).map_err(wrong)? {
        false => 1,
        true => (Duration::from_millis(20).div_duration_f64(steps(3)?) as u32).clamp(1, 1000),
    };
    let (mut times, begun) = (vec![], Instant::now());
    let long = Duration::from_millis(LONG.load(Ordering::Relaxed));
    while times.len() < 5 || (begun.elapsed() < long && times.len() < 200) {
        times.push(steps(batch)?);
    }
    times.sort();
    Ok(Line::new(times[times.len() / 2].as_secs_f64() * 1e3).with("first_s", first.as_secs_f64()))
}

/// For how many milliseconds something is timed, where that takes less than 200 runs.
static LONG: AtomicU64 = AtomicU64::new(3000);
/// Whether results are compared with the CPU's instead of being timed.
static CHECK: AtomicBool = AtomicBool::new(false);

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
    if CHECK.load(Ordering::Relaxed) {
        return check::compared(inputs, f);
    }
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
    let device = frit::engine::default_device().map_err(wrong)?;
    let stats = frit::engine::devices::memory_stats(&device).map_err(wrong)?;
    Ok(stats.peak.saturating_sub(before) as f64 / 1e6)
}
