//! Kernel graphs -> kernels on their device: found again, or compiled in parallel and loaded together.

use super::cache::{Cache, lock};
use crate::kernel::choice::{self, Choice};
use crate::kernel::compile::compile;
use crate::kernel::compiled::Compiled;
use crate::lru_map::LruMap;
use crate::progress::{self, Progress};
use crate::search::apart::search;
use crate::search::beam::Effort;
use crate::search::store::{remember, remembered};
use crate::{Error, config, interrupt, record, stats};
use frit_abi::sync::{LazyLock, Mutex};
use frit_abi::{Kernel, Target};
use frit_codegen::Lowered;
use frit_runtime::parallel::in_parallel;
use frit_uop::{Arg, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static KERNELS: Cache<Compiled> = LazyLock::new(|| Mutex::new(LruMap::new(8192)));

/// Forget all kernels.
pub(crate) fn forget() {
    lock(&KERNELS).clear();
}

/// The kernels of these graphs, in order: those not known yet are lowered in parallel and loaded together.
pub(crate) fn load_kernels(asts: &[UOp], device: &Arc<str>) -> Result<Vec<Arc<Compiled>>, Error> {
    let (dev, seed) = (frit_runtime::device(device)?, choice::seed());
    let mut known: FxHashMap<UOp, Arc<Compiled>> = FxHashMap::default();
    let mut missing: Vec<UOp> = vec![];
    let mut seen: FxHashSet<&UOp> = FxHashSet::default();
    for ast in asts.iter().filter(|a| seen.insert(a)) {
        let is_first = record::compiles() && record::is_first(ast, device);
        match lock(&KERNELS).get(&(ast.clone(), device.clone(), seed, 0)) {
            Some(c) => {
                if is_first {
                    compile_again(&c, dev.target())?;
                } else if record::compiles() {
                    record::hit(ast);
                }
                known.insert(ast.clone(), c);
            }
            None => missing.push(ast.clone()),
        }
    }
    let choices = choices(&missing, device, dev.target())?;
    let jobs: Vec<(&UOp, Choice)> = missing.iter().zip(choices).collect();
    let is_cut = AtomicBool::new(false);
    let progress = Progress::new("compiling", jobs.len());
    let lowered = in_parallel(&jobs, |(ast, choice)| {
        // one thread is told that the work should end, all do
        if is_cut.load(Relaxed) || interrupt::check().is_err() {
            is_cut.store(true, Relaxed);
            return Err(Error::Interrupted);
        }
        let made = compile(ast, dev.target(), choice);
        progress.step();
        made
    });
    drop(progress);
    let lowered = lowered.into_iter().collect::<Result<Vec<_>, _>>()?;
    let (lowered, kernels): (Vec<Lowered>, Vec<Vec<Kernel>>) = lowered.into_iter().unzip();
    stats::count_compiles(kernels.len() as u64);
    let span = frit_abi::record::span("load", "");
    let mut loaded = dev.load_all(&kernels.concat()).into_iter();
    drop(span);
    for (ast, lowered) in missing.into_iter().zip(&lowered) {
        let programs = loaded.by_ref().take(lowered.programs.len()).collect::<Result<_, _>>()?;
        let compiled = Arc::new(Compiled::new(ast.clone(), lowered, programs, &dev)?);
        if config::debug()? >= 6 {
            let text = compiled.executable.disassembly().unwrap_or_else(|e| e.to_string());
            eprintln!("machine code of {}:\n{text}", compiled.name);
        }
        record::code(&compiled.ast, &*compiled.executable);
        lock(&KERNELS).insert((ast.clone(), device.clone(), seed, 0), compiled.clone());
        known.insert(ast, compiled);
    }
    Ok(asts.iter().map(|ast| known[ast].clone()).collect())
}

/// Compile a kernel that is loaded once more, for the recording.
pub(crate) fn compile_again(kernel: &Compiled, target: &Target) -> Result<(), Error> {
    let choice = match (choice::seed(), remembered(&kernel.ast, target)) {
        (Some(seed), _) => Choice::Random(seed),
        (None, Some(opts)) => Choice::List(opts),
        (None, None) => Choice::Heuristic,
    };
    compile(&kernel.ast, target, &choice)?;
    record::code(&kernel.ast, &*kernel.executable);
    Ok(())
}

/// How each kernel is to be compiled: searched for, if that is asked for; as an earlier search found, if there is one.
fn choices(asts: &[UOp], device: &Arc<str>, target: &Target) -> Result<Vec<Choice>, Error> {
    let width = config::beam()? as usize;
    let mut all = vec![];
    for (i, ast) in asts.iter().enumerate() {
        all.push(match (choice::seed(), remembered(ast, target)) {
            (Some(seed), _) => Choice::Random(seed),
            (None, Some(opts)) => Choice::List(opts),
            (None, None) if width > 0 => {
                record::search(ast, device);
                let _span =
                    frit_abi::record::span("search", if let Arg::Name(n) = &ast.arg { n } else { "" });
                match search(ast, device, &Effort::of_width(width)?) {
                    Ok(tuned) => {
                        record::found(ast, &tuned.opts, [tuned.before, tuned.after], tuned.tried);
                        remember(ast, target, &tuned.opts);
                        if config::debug()? >= 1 || progress::is_wanted() {
                            eprintln!("search {} of {}: {tuned}", i + 1, asts.len());
                        }
                        Choice::List(tuned.opts)
                    }
                    Err(e @ (Error::Interrupted | Error::Env(_))) => return Err(e),
                    // one that does not run on data that is made up
                    Err(_) => Choice::Heuristic,
                }
            }
            (None, None) => Choice::Heuristic,
        });
    }
    Ok(all)
}
