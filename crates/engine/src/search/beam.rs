//! BEAM: try legal opts on the device itself, keep the best, remember them on disk.
//!
//! A state is a list of opts. From each of the few best states lists that differ by a step are tried next: one opt more
//! or less, or of another size. What cannot fit the machine is left out before it is compiled, candidates are lowered in
//! parallel, one that does not compile or run is skipped, one that has far more to do than another is not run, one that
//! is far slower is run once. The rest are timed in turns, so that a slow moment of the machine does not fall on one of
//! them. It ends when a round brings nothing, or time is up.
//!
//! In the end the heuristic's list and the few best are run in turns again, and the heuristic's stays unless another is
//! faster beyond doubt ([`compare`](super::compare)): a search never ends worse, as far as measuring can tell. Whole programs are judged
//! once more as they run (`jit::tune`), with their own data in their own order.
//!
//! On a device apart a search runs in a process of its own ([`apart`](super::apart)), since a kernel may hang or fault there.

use super::moves;
use super::trial::{Args, Candidate, Event, Trial, Watch};
use crate::{Error, config, interrupt};
use frit_codegen::{Opt, Opts};
use frit_runtime::parallel::in_parallel;
use frit_uop::UOp;
use rustc_hash::FxHashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Rounds at most.
const ROUNDS: usize = 24;
/// A round must make the kernel faster by this part to count; so many that do not end a search.
const WORTH: f64 = 0.01;
const PATIENCE: usize = 2;
/// Lists that look good besides the heuristic's, to start from.
const ALTERNATIVES: usize = 24;
/// How many are compared with the heuristic's list in the end.
const FINALISTS: usize = 4;

/// How hard to search.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// States that each round goes on from.
    pub width: usize,
    /// For each kernel; the last comparison takes up to two seconds more.
    pub time: Duration,
}

impl Effort {
    /// So many states wide, for as long as `FRIT_BEAM_SECONDS` allows.
    pub fn of_width(width: usize) -> Result<Effort, Error> {
        Ok(Effort { width: width.max(1), time: Duration::from_secs(config::beam_seconds()?) })
    }
}

/// What a search found for one kernel.
pub struct Tuned {
    /// The opts.
    pub opts: Vec<Opt>,
    /// How long the kernel takes with the heuristic's opts.
    pub before: Duration,
    /// The same with the opts that were found.
    pub after: Duration,
    /// Candidates that were timed.
    pub tried: usize,
    /// How long the search took.
    pub took: Duration,
}

impl std::fmt::Display for Tuned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let us = |d: Duration| d.as_secs_f64() * 1e6;
        let (after, before, took) = (us(self.after), us(self.before), self.took.as_secs_f64());
        write!(f, "{after:.1} us, was {before:.1} us, {} ways tried in {took:.1} s", self.tried)
    }
}

/// What a search knows beforehand.
pub(crate) struct Guide<'a> {
    /// Opts that must not be tried: they hung or broke the device.
    pub refused: &'a [Vec<Opt>],
    /// Opts that were good before.
    pub starts: &'a [Vec<Opt>],
    /// Who is told what is tried.
    pub watch: Watch<'a>,
}

/// Search for the best opts of a kernel in this process: as some launch of it runs, or on data that is made up.
pub(crate) fn search_here(
    ast: &UOp,
    device: &Arc<str>,
    effort: &Effort,
    launch: Option<Args>,
    guide: &Guide,
) -> Result<Tuned, Error> {
    let (begun, dev) = (Instant::now(), frit_runtime::device(device)?);
    let failed = |e: frit_codegen::Error| Error::Schedule(e.to_string());
    let mut cut = frit_codegen::lower(ast, dev.target(), Opts::Heuristic).map_err(failed)?.opts;
    // whether a kernel is folded, and how it is cut into programs, stays; blocks of a chain of products have sizes to try
    let stays = |o: &&Opt| o.is_first() && !o.is_alone();
    let heuristic = cut.split_off(cut.iter().take_while(stays).count());
    let untouched = frit_codegen::plan(ast, dev.target(), &cut).map_err(failed)?;
    let mut trial = Trial::new(ast, dev.clone(), begun + effort.time, launch, cut, guide.watch);
    guide.refused.iter().for_each(|opts| trial.refuse(opts));
    let mut best: Vec<Candidate> = vec![trial.candidate(&heuristic)?];
    let mut seen: FxHashSet<Vec<Opt>> = FxHashSet::default();
    seen.insert(heuristic.clone());
    // what an earlier search found is timed first of all
    for opts in guide.starts.iter().filter(|o| seen.insert((*o).clone())) {
        best.extend(trial.candidate(opts).ok());
    }
    best.sort_by(|a, b| a.time.total_cmp(&b.time));
    let mut next: Vec<Vec<Opt>> = vec![];
    let may_end = |n: &usize| !heuristic[*n].is_first();
    next.extend((0..heuristic.len()).rev().filter(may_end).map(|n| heuristic[..n].to_vec()));
    next.extend(frit_codegen::alternatives(&untouched, ALTERNATIVES));
    next.extend(moves::moves(&untouched, &heuristic, 0));
    trial.candidates.made_of(&heuristic, &next);
    let mut idle = 0;
    for round in 1..=ROUNDS {
        interrupt::check()?;
        next.retain(|o| seen.insert(o.clone()));
        let better = trial.round(&next, &mut best, 4 * effort.width, WORTH)?;
        idle = if better { 0 } else { idle + 1 };
        // the heuristic's way stays beside what is tried, however slow it was once
        let mut place = 0..;
        best.retain(|c| place.next().is_some_and(|i| i < effort.width.max(FINALISTS)) || c.opts == heuristic);
        best.first().iter().for_each(|c| trial.tell(Event::Best(&c.opts)));
        if idle >= PATIENCE || !trial.has_time() {
            break;
        }
        let states: Vec<&Vec<Opt>> = best.iter().map(|c| &c.opts).take(effort.width).collect();
        let made = in_parallel(&states, |opts| moves::moves(&untouched, opts, round));
        states.iter().zip(&made).for_each(|(parent, lists)| trial.candidates.made_of(parent, lists));
        next = made.concat();
    }
    let (own, others): (Vec<&Candidate>, Vec<&Candidate>) = best.iter().partition(|c| c.opts == heuristic);
    let finalists: Vec<&Candidate> = own.into_iter().chain(others.into_iter().take(FINALISTS)).collect();
    let (winner, times) = trial.compare(&finalists)?;
    let opts = finalists[winner].opts.clone();
    if config::beam_check()? {
        trial.check(&opts)?;
    }
    let [before, after] = [times[0], times[winner]].map(duration);
    let opts = trial.whole(&opts);
    Ok(Tuned { opts, before, after, tried: trial.tried, took: begun.elapsed() })
}

/// Of seconds; what never ran took forever.
pub(crate) fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
