//! `frit corpus assemble`: every kernel of the corpus through NVIDIA's assembler, for each generation that PTX is written for.
//!
//! What it refuses, what needs local memory (a stack, or spills: registers that a tile was given but the machine has not),
//! and what takes too long to write, fails.

use super::{kernels, programs};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A machine of each generation.
const TARGETS: [&str; 3] = ["A100", "L4", "H200"];
/// The middle kernel is written in less.
const MEDIAN: Duration = Duration::from_millis(1);

/// Where the assembler is: what `PTXAS` says, or on the `PATH`.
fn assembler() -> Option<PathBuf> {
    let works = |p: &PathBuf| Command::new(p).arg("--version").output().is_ok_and(|o| o.status.success());
    std::env::var_os("PTXAS").map(PathBuf::from).or_else(|| Some("ptxas".into())).filter(works)
}

/// A kernel to be assembled.
struct Job {
    /// The program it is of, its name and its target's.
    name: String,
    isa: String,
    text: String,
}

/// Assembles everything; says what failed.
pub fn run() -> Result<(), String> {
    let (jobs, mut times) = written()?;
    times.sort();
    let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
    println!(
        "{} kernels, {} different; written in {median:?} (median), {slowest:?} (slowest)",
        times.len(),
        jobs.len()
    );
    let mut failures = vec![];
    if median > MEDIAN {
        failures.push(format!("the middle kernel took {median:?} to write, {MEDIAN:?} allowed"));
    }
    match assembler() {
        Some(ptxas) => failures.extend(assembled(&ptxas, &jobs)?),
        None => println!("skipped: there is no ptxas (PTXAS says where it is)"),
    }
    match failures.is_empty() {
        true => Ok(()),
        false => Err(format!("{} failures:\n{}", failures.len(), failures.join("\n"))),
    }
}

/// The kernels of all programs and targets, each text once, and how long each took to write.
fn written() -> Result<(Vec<Job>, Vec<Duration>), String> {
    let (mut texts, mut times) = (BTreeMap::new(), vec![]);
    for target in TARGETS {
        for (program, build) in programs::programs() {
            let made = kernels(target, build).map_err(|e| format!("{target}/{program}: {e}"))?;
            for k in made {
                times.push(k.write);
                for text in k.listings {
                    let isa = text.lines().find_map(|l| l.strip_prefix(".target ")).unwrap_or("").to_string();
                    texts.entry(text).or_insert((format!("{target}/{program}/{}", k.name), isa));
                }
            }
        }
    }
    let jobs = texts.into_iter().map(|(text, (name, isa))| Job { name, isa, text }).collect();
    Ok((jobs, times))
}

/// What the assembler says against each kernel.
fn assembled(ptxas: &Path, jobs: &[Job]) -> Result<Vec<String>, String> {
    let dir = std::env::temp_dir().join(format!("frit-ptx-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(vec![]));
    let work = || {
        while let Some((i, job)) = Some(next.fetch_add(1, Relaxed)).and_then(|i| Some((i, jobs.get(i)?))) {
            if let Err(e) = assemble(ptxas, &dir.join(format!("{i}.ptx")), job) {
                failures.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{}: {e}", job.name));
            }
        }
    };
    std::thread::scope(|s| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            s.spawn(work);
        }
    });
    _ = std::fs::remove_dir_all(&dir);
    let mut failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    failures.sort();
    println!("{} assembled, {} failed", jobs.len(), failures.len());
    Ok(failures)
}

fn assemble(ptxas: &Path, file: &Path, job: &Job) -> Result<(), String> {
    std::fs::write(file, &job.text).map_err(|e| format!("{}: {e}", file.display()))?;
    let made = Command::new(ptxas)
        .args(["-v", "-arch", &job.isa, "-o"])
        .arg(file.with_extension("cubin"))
        .arg(file)
        .output();
    let made = made.map_err(|e| format!("{}: {e}", ptxas.display()))?;
    let said = String::from_utf8_lossy(&made.stderr);
    if !made.status.success() {
        return Err(said.lines().take(4).collect::<Vec<_>>().join("; "));
    }
    let uses_local = |l: &&str| {
        l.contains("bytes stack frame") && l.split(',').any(|part| !part.trim().starts_with("0 bytes"))
    };
    match said.lines().find(uses_local) {
        Some(line) => Err(line.trim().into()),
        None => Ok(()),
    }
}
