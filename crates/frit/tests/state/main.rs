//! A model-based fuzzer of state: random programs that make, see, assign and compute tensors, on frit and on a plain
//! eager model, step by step. What differs is made small and printed as a program.
//!
//! ```text
//! FRIT_STATE_SEEDS=0..100000   which programs; by default 8,000 or as many as fit in 40 seconds, with FRIT_LONG=1 100,000
//! FRIT_STATE_DEVICE=INTERP     where, also CPU or CUDA; INTERP and CPU by turns by default
//! FRIT_STATE_SURVEY=1          go on after failures and say which kinds of faults there are; 0 does not make them small
//! FRIT_ISA=sse2                which instructions CPU kernels use
//! ```

mod fault;
mod generate;
mod model;
mod number;
mod probes;
mod program;
mod run;
mod shrink;
mod threads;
mod window;

use program::Program;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Workers, each with programs of its own.
const WORKERS: usize = 2;
/// A program that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

fn flag(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|v| !v.is_empty())
}

/// Which programs, and how long they may take in all.
fn seeds() -> (std::ops::Range<u64>, Duration) {
    if let Some(v) = flag("FRIT_STATE_SEEDS") {
        let ends = v.split_once("..").and_then(|(a, b)| Some(a.parse().ok()?..b.parse().ok()?));
        return (ends.unwrap_or_else(|| panic!("FRIT_STATE_SEEDS={v} is not like 0..1000")), Duration::MAX);
    }
    match flag("FRIT_LONG").as_deref() {
        Some("1") => (0..100_000, Duration::MAX),
        _ => (0..8_000, Duration::from_secs(40)),
    }
}

fn device(seed: u64) -> &'static str {
    match flag("FRIT_STATE_DEVICE").as_deref() {
        Some("INTERP") => "INTERP",
        Some("CPU") => "CPU",
        Some("CUDA") => "CUDA",
        _ if seed.is_multiple_of(2) => "CPU",
        _ => "INTERP",
    }
}

/// What failed, by the kind of fault.
struct Found {
    count: u64,
    seed: u64,
    /// How many programs had run when the first was found.
    after: u64,
    report: String,
}

/// What a worker is at, for the one that watches.
#[derive(Default)]
struct Desk {
    now: Mutex<Option<(u64, Program, Instant)>>,
}

#[test]
fn tensors_do_what_a_plain_model_does() {
    let ((seeds, time), survey) = (seeds(), flag("FRIT_STATE_SURVEY").is_some());
    let (next, done) = (AtomicU64::new(seeds.start), AtomicU64::new(0));
    let (stop, working) = (AtomicBool::new(false), AtomicU64::new(WORKERS as u64));
    let found: Mutex<BTreeMap<&'static str, Found>> = Mutex::default();
    let desks: [Desk; WORKERS] = Default::default();
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let start = Instant::now();
    std::thread::scope(|s| {
        for desk in &desks {
            s.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || start.elapsed() > time {
                        break;
                    }
                    try_one(seed, desk, &done, &found);
                    if !survey && !lock(&found).is_empty() {
                        stop.store(true, Ordering::Relaxed);
                    }
                }
                working.fetch_sub(1, Ordering::Relaxed);
            });
        }
        while working.load(Ordering::Relaxed) > 0 {
            std::thread::sleep(Duration::from_millis(50));
            desks.iter().for_each(give_up_on_a_hang);
        }
    });
    std::panic::set_hook(quiet);
    let (n, took) = (done.into_inner(), start.elapsed());
    println!("{n} programs in {:.1} s, {:.0} a second", took.as_secs_f64(), n as f64 / took.as_secs_f64());
    let found = found.into_inner().unwrap_or_else(|e| e.into_inner());
    let mut all: Vec<_> = found.iter().collect();
    all.sort_by_key(|f| f.1.after);
    for (class, f) in &all {
        println!("\n== {class}: {} times, first after {} programs (seed {})", f.count, f.after, f.seed);
        println!("{}", f.report);
    }
    assert!(
        all.is_empty(),
        "{} kinds of failures among {n} programs; the smallest programs are above",
        all.len()
    );
}

fn lock<T>(m: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}

fn try_one(seed: u64, desk: &Desk, done: &AtomicU64, found: &Mutex<BTreeMap<&'static str, Found>>) {
    let program = generate::program(seed, device(seed));
    *lock(&desk.now) = Some((seed, program.clone(), Instant::now()));
    let result = run::run(&program);
    let after = done.fetch_add(1, Ordering::Relaxed) + 1;
    if let Err(failure) = result {
        *lock(&desk.now) = None;
        let keep = flag("FRIT_STATE_SURVEY").is_some_and(|v| v == "0");
        let (small, how) = if keep { (program, failure) } else { shrink::shrink(&program, &failure) };
        // workers share nothing but the process: what is not there again was between them
        let alone = keep || run::run(&small).is_err();
        let class = if alone { fault::class(&small, &how) } else { "two threads: it does not fail again" };
        let report = format!("seed {seed}\n{small}{:?} at step {}: {}", how.kind, how.at, how.what);
        let mut found = lock(found);
        let f = found.entry(class).or_insert(Found { count: 0, seed, after, report: report.clone() });
        f.count += 1;
        if after < f.after {
            (f.after, f.seed) = (after, seed);
        }
        if report.len() < f.report.len() {
            f.report = report;
        }
    }
    *lock(&desk.now) = None;
}

/// A program that does not end is printed, and the process with it ends.
fn give_up_on_a_hang(desk: &Desk) {
    let now = lock(&desk.now);
    if let Some((seed, program, since)) = now.as_ref()
        && since.elapsed() > LIMIT
    {
        println!("seed {seed} does not end:\n{program}");
        std::process::exit(1);
    }
}
