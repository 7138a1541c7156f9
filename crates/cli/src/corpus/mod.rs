//! `frit corpus`: the kernels of a fixed list of programs, for machines that need not be here.
//!
//! A change of the compiler changes kernels that no one looked at. The corpus shows which: `write` before and after it,
//! then `diff`. The repository keeps a line a kernel, and CI prints what a change changed.

mod assemble;
mod compare;
mod programs;

use frit::engine::measure::{self, LoweredKernel};
use frit::{Device, Error, Result};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// The machines that kernels are lowered for.
const TARGETS: [&str; 6] = ["AVX512", "AVX2", "SSE2", "INTERP", "GPU", "H200"];

/// What is known of one kernel.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Entry {
    /// Of the lowered kernel: shapes and axes.
    pub name: String,
    /// Of everything the compiler made of it.
    pub hash: String,
    /// Steps on vectors.
    pub cost: u64,
    /// The file of the kernel, where there is one.
    pub text: Option<String>,
}

/// Kernels by target, program, and what they compute.
pub type Corpus = BTreeMap<String, Entry>;

/// Runs a command: `write DIR`, `summary`, `diff A B`, `assemble`.
pub fn run(words: &[&str]) -> std::result::Result<(), String> {
    match words {
        ["write", dir] => write_files(Path::new(dir)),
        ["summary"] => {
            print!("{}", summary(&lowered()));
            Ok(())
        }
        ["diff", before, after] => {
            print!("{}", compare::report(&read(before)?, &read(after)?));
            Ok(())
        }
        ["assemble"] => assemble::run(),
        _ => Err("usage: frit corpus write DIR | summary | diff BEFORE AFTER | assemble".into()),
    }
}

/// Every kernel of every program for every target.
fn lowered() -> Corpus {
    let mut corpus = Corpus::new();
    for target in TARGETS {
        for (program, build) in programs::programs() {
            let mut add = |graph: &str, name: &str, cost: u64, text: String| {
                let (key, hash) =
                    (format!("{target}/{program}/{:08x}", short(graph)), format!("{:08x}", short(&text)));
                corpus.insert(key, Entry { name: name.into(), hash, cost, text: Some(text) });
            };
            match kernels(target, build) {
                Ok(kernels) => kernels.iter().for_each(|k| add(&k.graph, &k.name, k.steps as u64, text(k))),
                // what a machine cannot run is known too; where in the source that was found is not
                Err(e) => add("", "fails", 0, e.to_string().split(" at ").next().unwrap_or("").into()),
            }
        }
    }
    corpus
}

/// The kernels of a program for a target.
fn kernels(target: &str, build: programs::Build) -> Result<Vec<LoweredKernel>> {
    Device::scope(&format!("NULL:{target}"), || {
        let outputs = build()?.iter().map(|t| t.uop()).collect::<Result<Vec<_>>>()?;
        measure::kernels(&outputs).map_err(|e| Error::new("corpus", e.to_string()))
    })?
}

/// The file of a kernel.
fn text(k: &LoweredKernel) -> String {
    let LoweredKernel { name, opts, steps, operations, bytes, listings, .. } = k;
    let (opts, listing) = (opts.join("; "), listings.concat());
    format!(
        "kernel {name}\nopts {opts}\ncost {steps:.0} steps, {operations} operations, {bytes} bytes\n\n{listing}"
    )
}

/// 32 bits of FNV-1a: told apart by people, not by chance.
fn short(text: &str) -> u32 {
    let hash =
        text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ b as u64).wrapping_mul(0x100_0000_01b3));
    (hash ^ hash >> 32) as u32
}

fn write_files(dir: &Path) -> std::result::Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", dir.display());
    let corpus = lowered();
    for (key, entry) in &corpus {
        let path = dir.join(format!("{key}.txt"));
        std::fs::create_dir_all(path.parent().unwrap_or(dir)).map_err(failed)?;
        std::fs::write(path, entry.text.as_deref().unwrap_or_default()).map_err(failed)?;
    }
    std::fs::write(dir.join("summary.txt"), summary(&corpus)).map_err(failed)?;
    println!("{} kernels in {}", corpus.len(), dir.display());
    Ok(())
}

/// A line a kernel.
fn summary(corpus: &Corpus) -> String {
    let mut out = String::new();
    for (key, Entry { name, hash, cost, .. }) in corpus {
        _ = writeln!(out, "{key} {name} {hash} {cost}");
    }
    out
}

/// A folder that `write` wrote, or a summary.
fn read(path: &str) -> std::result::Result<Corpus, String> {
    let path = Path::new(path);
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    let is_folder = path.is_dir();
    let lines = std::fs::read_to_string(if is_folder { path.join("summary.txt") } else { path.into() });
    let mut corpus = Corpus::new();
    for line in lines.map_err(failed)?.lines() {
        let [key, name, hash, cost] = line.split(' ').collect::<Vec<_>>()[..] else {
            return Err(format!("{}: {line:?} is not a line of a summary", path.display()));
        };
        let cost = cost.parse().map_err(|_| format!("{}: {cost:?} is not a cost", path.display()))?;
        let text =
            is_folder.then(|| std::fs::read_to_string(path.join(format!("{key}.txt"))).map_err(failed));
        let entry = Entry { name: name.into(), hash: hash.into(), cost, text: text.transpose()? };
        corpus.insert(key.into(), entry);
    }
    Ok(corpus)
}
