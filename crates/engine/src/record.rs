//! What this room writes to a recording (decision 022): schedules, kernels as they are compiled, launches, waits.
//!
//! While the compiler is recorded every different kernel is compiled once, though it may be in a cache, and every different
//! graph is scheduled once; what comes again is a hit.

use crate::{Error, config, peaks};
use frit_abi::Target;
use frit_abi::record::{self, Field, Kind};
use frit_abi::sync::Mutex;
use frit_codegen::{Opt, Program};
use frit_render::Shown;
use frit_runtime::{Device, Executable, Mark};
pub use frit_uop::origin::Scope;
use frit_uop::origin::{scope, span};
pub(crate) use frit_uop::record::became;
use frit_uop::record::number;
use frit_uop::{Arg, Linear, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use Field::{Int, Long, Name, Text};
pub use frit_abi::record::{compiles, runs};
pub use frit_recording::Recording;

/// Find out whether a recording is asked for, where nobody has.
#[inline]
pub fn ask() {
    if record::is_unasked() {
        frit_recording::from_environment();
        if config::debug().is_ok_and(|level| level >= 2) {
            record::keep_origins();
        }
    }
}

/// What a session has seen: graphs and kernels by number, with their devices.
type Seen = (u32, Option<FxHashSet<(u64, Arc<str>)>>);
static SEEN: Mutex<Seen> = Mutex::new((0, None));

/// Whether a graph or kernel comes for the first time on a device.
pub(crate) fn is_first(node: &UOp, device: &Arc<str>) -> bool {
    let (n, mut seen) = (number(node), SEEN.lock().unwrap_or_else(PoisonError::into_inner));
    if seen.0 != record::session() {
        *seen = (record::session(), None);
    }
    seen.1.get_or_insert_default().insert((n, device.clone()))
}

/// The graph that is run.
pub(crate) fn run(graph: &UOp, device: &str) {
    if compiles() {
        record::write(Kind::Run, &[Int(number(graph)), Text(device)]);
    }
}

/// Schedule a graph with `schedule`, which tells the passes to `watch` and, if asked to, checks what they leave.
pub(crate) fn schedule(
    sink: &UOp,
    device: &dyn Device,
    check: bool,
    watch: &mut dyn FnMut(&'static str, &UOp, Duration),
) -> Result<frit_schedule::Schedule, frit_schedule::Error> {
    let _span = record::span("schedule", "");
    if !compiles() {
        return frit_schedule::schedule_and_watch(sink, device.target(), check, watch);
    }
    device_facts(device);
    record::write(Kind::Schedule, &[Int(record::now()), Int(number(sink)), Text(device.name())]);
    let after = |name, graph: &UOp, time: Duration| {
        watch(name, graph, time);
        record::write(Kind::Pass, &[Name(name), Int(time.as_nanos() as u64), Int(number(graph))]);
    };
    let target = device.target();
    let schedule =
        frit_uop::rewrite::recorded(|| frit_schedule::schedule_and_watch(sink, target, check, after))?;
    let sizes = [schedule.kernels.len(), schedule.arena_bytes].map(|n| Int(n as u64));
    record::write(Kind::Scheduled, &[Int(record::now()), Int(number(sink)), sizes[0], sizes[1]]);
    Ok(schedule)
}

/// What a device can do, once a session: its name and the arithmetic and memory that its target is said to have.
fn device_facts(device: &dyn Device) {
    static TOLD: Mutex<(u32, Vec<String>)> = Mutex::new((0, Vec::new()));
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    if told.0 != record::session() {
        *told = (record::session(), vec![]);
    }
    if !told.1.iter().any(|n| n == device.name()) {
        told.1.push(device.name().into());
        drop(told);
        let about = device.describe();
        let [flops, bytes] = peaks::known(&about).unwrap_or_default().map(Int);
        record::write(Kind::Device, &[Text(device.name()), Text(&about), flops, bytes]);
    }
}

/// The graph was planned before.
pub(crate) fn plan_hit(graph: &UOp) {
    record::write(Kind::PlanHit, &[Int(number(graph))]);
}

/// The kernel was compiled before.
pub(crate) fn hit(kernel: &UOp) {
    record::write(Kind::Hit, &[Int(number(kernel))]);
}

/// A kernel while it is compiled; nothing while the compiler is not recorded.
pub(crate) struct Compiling<'a> {
    ast: Option<&'a UOp>,
    /// The list that the last pass left: its text is long, and most passes leave the one they were given.
    last: RefCell<Option<Linear>>,
}

impl<'a> Compiling<'a> {
    pub fn begin(ast: &'a UOp, name: &str, target: &Target, candidate: u64) -> Compiling<'a> {
        if !compiles() {
            return Compiling { ast: None, last: RefCell::default() };
        }
        let (at, kernel) = (Int(record::now()), Int(number(ast)));
        record::write(Kind::Compile, &[at, kernel, Text(name), Text(&target.name), Int(candidate)]);
        Compiling { ast: Some(ast), last: RefCell::default() }
    }
    /// A pass left this.
    pub fn pass(&self, name: &'static str, program: &Program, time: Duration) {
        if self.ast.is_none() {
            return;
        }
        let ns = Int(time.as_nanos() as u64);
        match program {
            Program::Graph(root) => record::write(Kind::Pass, &[Name(name), ns, Int(number(root))]),
            Program::List(linear) => {
                let is_same = self.last.borrow().as_ref() == Some(linear);
                let text = if is_same { String::new() } else { linear.to_string() };
                record::write(Kind::Listing, &[Name(name), ns, Long(&text)]);
                if !is_same {
                    self.last.replace(Some(linear.clone()));
                }
            }
        }
    }
    pub fn opts(&self, opts: &[Opt]) {
        if self.ast.is_some() {
            let opts: Vec<String> = opts.iter().map(|o| o.to_string()).collect();
            record::write(Kind::Opts, &[Text(&opts.join(", "))]);
        }
    }
    /// Whether anyone wants what a pass of a writer of code leaves. Of machine code what `regalloc` leaves has both kinds of
    /// registers, and printing the program after the others as well takes longer than compiling it.
    pub fn wants_source(&self, pass: &str) -> bool {
        self.ast.is_some() && !["select", "dead_code", "encode"].contains(&pass)
    }
    /// A pass of a writer of code left this, whose text is `text` where that is wanted.
    pub fn source(&self, program: &str, pass: &'static str, shown: &dyn Shown, text: &str) {
        let list = |all: Vec<u32>| all.into_iter().map(u64::from).collect::<Vec<_>>();
        if self.wants_source(pass) {
            let steps = list(shown.steps());
            record::write(
                Kind::Source,
                &[Text(program), Name(pass), Int(0), Long(text), Field::List(&steps)],
            );
        }
        if self.ast.is_some() && pass == "encode" {
            let at = list(shown.offsets());
            record::write(Kind::Offsets, &[Text(program), Field::List(&at)]);
        }
    }
}

impl Drop for Compiling<'_> {
    fn drop(&mut self) {
        if let Some(ast) = self.ast {
            record::write(Kind::Compiled, &[Int(record::now()), Int(number(ast))]);
        }
    }
}

/// The machine code of a kernel and what it takes of its machine, where that is known.
pub(crate) fn code(ast: &UOp, executable: &dyn Executable) {
    if !compiles() {
        return;
    }
    let write = |program: usize, part: &dyn Executable| {
        if let Ok(text) = part.disassembly() {
            record::write(Kind::Code, &[Int(number(ast)), Long(&text), Int(program as u64)]);
        }
    };
    match executable.programs() {
        Some((all, _)) => all.iter().enumerate().for_each(|(i, (part, _))| write(i, &**part)),
        None => write(0, executable),
    }
    if let Some(taken) = executable.resources() {
        let fields = [Int(number(ast)), Int(taken.registers.into()), Int(taken.spilled.into())];
        record::write(Kind::Resources, &fields);
    }
}

/// Launch a kernel, and write when it ran, if that is recorded; how long it took where `is_timed` asks, and then it is
/// waited for.
pub(crate) fn launch(
    dev: &dyn Device,
    (ast, name, origin): (&UOp, &str, &str),
    (flops, bytes): (u64, u64),
    is_timed: bool,
    mut go: impl FnMut() -> Result<(), frit_runtime::Error>,
) -> Result<Duration, Error> {
    if !runs() {
        return Ok(dev.time(&mut go)?);
    }
    let kernel = Int(if compiles() { number(ast) } else { 0 });
    if !origin.is_empty() {
        record::write(Kind::Origin, &[Text(origin)]);
    }
    let (at, [flops, bytes]) = (record::now(), [flops, bytes].map(Int));
    if !is_timed && let Some(from) = begin(dev) {
        let from = from?;
        go()?;
        let to = dev.mark().transpose()?;
        let (ns, number) = (Int(record::now() - at), COUNT.fetch_add(1, Relaxed));
        let fields = [Int(number), Int(at), ns, kernel, Text(name), Text(dev.name()), flops, bytes];
        record::write(Kind::Queued, &fields);
        if number == 0 {
            record::settle_with(settle);
        }
        if let Some(to) = to {
            let (device, copies) = (address(dev), COPIES.load(Relaxed));
            pending().push(Pending { number, at, device, copies, from, to });
        }
        return Ok(Duration::ZERO);
    }
    let took = match dev.runs_apart() {
        true => dev.time(&mut go)?.as_nanos() as u64,
        false => {
            go()?;
            record::now() - at
        }
    };
    let ns = if dev.runs_apart() { record::now() - at } else { took };
    let begun = Int(at + ns - took.min(ns));
    let fields = [Int(at), Int(ns), kernel, Text(name), Text(dev.name()), begun, Int(took), flops, bytes];
    record::write(Kind::Launch, &fields);
    Ok(Duration::from_nanos(took))
}

/// The place from which a launch counts. Where the one before it is still to be done it counts from its end, since another
/// event would cost the host as much as the launch.
fn begin(dev: &dyn Device) -> Option<Result<Arc<dyn Mark>, frit_runtime::Error>> {
    let is_before = |p: &&Pending| (p.device, p.copies) == (address(dev), COPIES.load(Relaxed));
    let before = pending().last().filter(is_before).map(|p| (p.to.clone(), p.at));
    match before {
        Some((end, at)) if matches!(end.reached(at), Ok(None)) => Some(Ok(end)),
        _ => dev.mark(),
    }
}

fn address(dev: &dyn Device) -> usize {
    std::ptr::from_ref(dev).addr()
}

/// A launch whose device was not seen to come to it: its number, when the host queued it, after how many copies, and the
/// places around it.
struct Pending {
    number: u64,
    at: u64,
    device: usize,
    copies: u64,
    from: Arc<dyn Mark>,
    to: Arc<dyn Mark>,
}

static PENDING: Mutex<Vec<Pending>> = Mutex::new(Vec::new());
fn pending() -> impl std::ops::DerefMut<Target = Vec<Pending>> {
    PENDING.lock().unwrap_or_else(PoisonError::into_inner)
}
/// Copies that may be in a queue between two launches.
static COPIES: AtomicU64 = AtomicU64::new(0);
/// Launches that were queued.
static COUNT: AtomicU64 = AtomicU64::new(0);

impl Pending {
    /// When it began and ended; `None` while it runs.
    fn times(&self) -> Result<Option<(u64, u64)>, frit_runtime::Error> {
        let Some(end) = self.to.reached(self.at)? else { return Ok(None) };
        let begun = self.from.reached(self.at)?.map(|begun| begun.max(self.at));
        Ok(begun.map(|begun| (begun, end)))
    }
}

/// Write when those ran that have by now, or wait for all.
fn settle(is_last: bool) {
    // one at a time, so that whoever waits for all finds all; only in the process that records, so no fork finds it held
    static ENDS: std::sync::Mutex<Vec<(usize, u64)>> = std::sync::Mutex::new(Vec::new());
    let mut ends = ENDS.lock().unwrap_or_else(PoisonError::into_inner);
    let all = std::mem::take(&mut *pending());
    let (mut late, mut behind) = (vec![], vec![]);
    for p in all {
        if is_last {
            // a device that is lost tells no times
            _ = p.to.wait();
        }
        // a queue that has not come to one has come to none after it
        let times = if behind.contains(&p.device) { Ok(None) } else { p.times() };
        match times {
            Ok(Some((begun, end))) => {
                // no two run at once, though clocks that were compared again say so
                let last = ends.iter().find(|(device, _)| *device == p.device).map_or(0, |(_, end)| *end);
                let (begun, end) = (begun.max(last), end.max(last));
                ends.retain(|(device, _)| *device != p.device);
                ends.push((p.device, end));
                record::write(Kind::Ran, &[Int(p.number), Int(begun), Int(end.saturating_sub(begun))]);
            }
            Ok(None) => {
                behind.push(p.device);
                late.push(p);
            }
            Err(_) => {}
        }
    }
    let mut pending = pending();
    late.append(&mut pending);
    *pending = late;
}

/// Launches of a recorded program follow.
pub(crate) fn replay(kernels: usize) {
    if runs() {
        record::write(Kind::Replay, &[Int(record::now()), Int(kernels as u64)]);
    }
}

/// Copy bytes with `copy`.
pub(crate) fn copy<T>(what: &'static str, bytes: usize, copy: impl FnOnce() -> T) -> T {
    if !runs() {
        return copy();
    }
    let at = record::now();
    let done = copy();
    COPIES.fetch_add(1, Relaxed);
    record::write(Kind::Copy, &[Int(at), Int(record::now() - at), Int(bytes as u64), Name(what)]);
    done
}

/// A call of the user's program runs something, until this is dropped.
pub struct Realizing {
    is_told: bool,
}

/// A call of the user's program, at this line, is about to run something.
pub fn realizing(op: &'static str, line: impl FnOnce() -> (String, u32)) -> Realizing {
    if runs() {
        let (file, line) = line();
        record::write(Kind::Realize, &[Int(record::now()), Name(op), Text(&file), Int(line.into())]);
    }
    Realizing { is_told: runs() }
}

impl Drop for Realizing {
    fn drop(&mut self) {
        if self.is_told {
            record::write(Kind::Realized, &[Int(record::now())]);
        }
    }
}

/// The call that made a node, and the part of the program with a name that it was in.
pub fn line(node: &UOp, op: &'static str, (file, line): (&str, u32), span: &str) {
    record::write(Kind::Line, &[Int(number(node)), Name(op), Text(file), Int(line.into()), Text(span)]);
}

/// A search for a kernel's opts begins.
pub(crate) fn search(kernel: &UOp, device: &str) {
    if compiles() {
        let name = if let Arg::Name(n) = &kernel.arg { n } else { "?" };
        let fields = [Int(record::now()), Int(number(kernel)), Text(name), Text(device)];
        record::write(Kind::Search, &fields);
    }
}

/// The candidates of a search that were recorded, by number, and which lists of opts were made of which.
#[derive(Default)]
pub(crate) struct Candidates {
    count: u64,
    numbers: FxHashMap<Vec<Opt>, u64>,
    parents: FxHashMap<Vec<Opt>, Vec<Opt>>,
}

impl Candidates {
    /// These lists were made of this one.
    pub fn made_of(&mut self, parent: &[Opt], lists: &[Vec<Opt>]) {
        if compiles() {
            lists.iter().for_each(|l| _ = self.parents.entry(l.clone()).or_insert_with(|| parent.to_vec()));
        }
    }
    /// A list of opts was tried in a round: its number in the recording, 0 where there is none.
    pub fn tried(&mut self, round: usize, opts: &[Opt], seconds: f64) -> u64 {
        if !compiles() {
            return 0;
        }
        let parent = self.parents.get(opts).and_then(|p| self.numbers.get(p)).copied().unwrap_or(0);
        self.count += 1;
        self.numbers.entry(opts.to_vec()).or_insert(self.count);
        let opts: Vec<String> = opts.iter().map(|o| o.to_string()).collect();
        let fields = [Int(round as u64), Text(&opts.join(", ")), Int((seconds * 1e9) as u64), Int(parent)];
        record::write(Kind::Candidate, &fields);
        self.count
    }
}

/// What a search found.
pub(crate) fn found(kernel: &UOp, opts: &[Opt], times: [Duration; 2], tried: usize) {
    if compiles() {
        let opts: Vec<String> = opts.iter().map(|o| o.to_string()).collect();
        let [before, after] = times.map(|d| Int(d.as_nanos() as u64));
        let (at, tried) = (Int(record::now()), Int(tried as u64));
        record::write(Kind::Found, &[at, Int(number(kernel)), Text(&opts.join(", ")), before, after, tried]);
    }
}

/// A span of the user's program, until it is dropped.
pub struct UserSpan {
    open: Option<(u64, String)>,
    _scope: Scope,
}

/// What happens until this is dropped is, to the user's program, `name`; so are kernels of what it describes.
pub fn user_span(name: &str) -> UserSpan {
    ask();
    UserSpan { open: runs().then(|| (record::now(), name.to_string())), _scope: span(name) }
}

/// Kernels of what this thread describes until the result is dropped are, to the user's program, `name`.
pub fn named_scope<S: AsRef<str>>(name: impl FnOnce() -> S) -> Scope {
    ask();
    scope(name)
}

impl Drop for UserSpan {
    fn drop(&mut self) {
        if let Some((at, name)) = self.open.as_ref().filter(|_| runs()) {
            record::write(Kind::User, &[Int(*at), Int(record::now().saturating_sub(*at)), Text(name)]);
        }
    }
}
