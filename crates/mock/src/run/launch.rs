//! A launch: its blocks on all cores.

use super::block::Worker;
use super::warp::Place;
use super::{Fault, code};
use crate::ptx::Program;
use crate::ptx::program::Step;
use crate::settings::Trouble;
use crate::state::state;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// A kernel, its grid and its arguments.
#[derive(Clone)]
pub struct Launch {
    /// The kernel.
    pub program: Arc<Program>,
    /// Blocks.
    pub grid: [u32; 3],
    /// Lanes of a block.
    pub block: [u32; 3],
    /// All of a block's shared memory.
    pub shared_bytes: usize,
    /// Arguments.
    pub params: Vec<u64>,
    /// Where it runs.
    pub device: usize,
    /// Whether blocks that touch the same bytes are told.
    pub has_race_checks: bool,
    /// The number before that of its first block, among all launches.
    pub first: u32,
    /// Bytes whose last user is kept, in device and in shared memory: 4 where nothing narrower is written.
    pub pieces: [usize; 2],
}

/// What ran so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Launches.
    pub launches: u64,
    /// Lanes times instructions.
    pub lane_instructions: u64,
}

static LAUNCHES: AtomicU64 = AtomicU64::new(0);
static LANE_INSTRUCTIONS: AtomicU64 = AtomicU64::new(0);
/// Numbers given to blocks so far.
static NUMBERS: RwLock<u32> = RwLock::new(1);
/// What one core does before others are asked.
const ALONE: Duration = Duration::from_micros(300);

impl Totals {
    /// Since the process began.
    pub fn get() -> Totals {
        Totals { launches: LAUNCHES.load(Relaxed), lane_instructions: LANE_INSTRUCTIONS.load(Relaxed) }
    }
}

impl Launch {
    /// Blocks of the grid.
    pub fn blocks(&self) -> u32 {
        self.grid.iter().product()
    }
    /// A block's place by its number.
    pub fn block_at(&self, block: u32) -> [u32; 3] {
        let [x, y, _] = self.grid;
        [block % x, block / x % y, block / (x * y)]
    }
    /// What a block's lanes know.
    pub fn place(&self, block: u32) -> Place<'_> {
        Place { block: self.block_at(block), grid: self.grid, lanes: self.block, params: &self.params }
    }
    /// A fault with where it happened.
    pub fn at(&self, pc: u32, place: &Place, lane: u32, fault: Fault) -> Fault {
        let line = self.program.code[pc as usize].line;
        let (name, block, tid) = (&self.program.name, place.block, place.tid(lane));
        Fault {
            message: format!("{name}, line {line}, block {block:?}, lane {tid:?}: {}", fault.message),
            ..fault
        }
    }
}

/// Run it to its end, or to the first fault.
pub fn launch(mut launch: Launch) -> Result<(), Fault> {
    aligned(&launch)?;
    troubled(&launch)?;
    let is_narrow =
        |s: &Step, is_shared| matches!(s, Step::Store(a) if a.is_shared == is_shared && a.unit.bytes() < 4);
    let narrow =
        [false, true].map(|is_shared| launch.program.code.iter().any(|i| is_narrow(&i.step, is_shared)));
    launch.pieces = narrow.map(|n| if n { 1 } else { 4 });
    launch.first = numbers(launch.blocks());
    LAUNCHES.fetch_add(1, Relaxed);
    let run = Run {
        launch: &launch,
        next: AtomicU32::new(0),
        stop: AtomicBool::new(false),
        fault: Mutex::new(None),
    };
    let mut worker = Worker::new(&launch);
    let begin = Instant::now();
    let is_long = || begin.elapsed() > ALONE;
    if run.work(&mut worker, is_long) && run.next.load(Relaxed) < launch.blocks() {
        let others =
            state().threads().saturating_sub(1).min((launch.blocks() - run.next.load(Relaxed)) as usize);
        std::thread::scope(|scope| {
            for _ in 0..others {
                scope.spawn(|| {
                    let mut worker = Worker::new(&launch);
                    run.work(&mut worker, || false);
                    LANE_INSTRUCTIONS.fetch_add(worker.lane_instructions, Relaxed);
                });
            }
            run.work(&mut worker, || false);
        });
    }
    LANE_INSTRUCTIONS.fetch_add(worker.lane_instructions, Relaxed);
    run.fault.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// What tests choose instead of what the kernel does.
fn troubled(launch: &Launch) -> Result<(), Fault> {
    match state().settings.trouble.filter(|t| t.0 == launch.block.iter().product()) {
        None => Ok(()),
        Some((_, Trouble::Hang)) => loop {
            std::thread::sleep(Duration::from_secs(1));
        },
        Some((_, Trouble::Fault)) => {
            let message = format!("{} was told to fault", launch.program.name);
            Err(Fault { code: code::ILLEGAL_ADDRESS, message })
        }
    }
}

/// The kernel's code counts on what is said of its parameters.
fn aligned(launch: &Launch) -> Result<(), Fault> {
    match launch.program.params.iter().zip(&launch.params).find(|(p, a)| !a.is_multiple_of(p.align)) {
        None => Ok(()),
        Some((p, a)) => {
            let message =
                format!("{}: {} is {a:#x}, no multiple of {}", launch.program.name, p.name, p.align);
            Err(Fault { code: code::MISALIGNED, message })
        }
    }
}

/// Blocks that are being run.
struct Run<'a> {
    launch: &'a Launch,
    next: AtomicU32,
    stop: AtomicBool,
    fault: Mutex<Option<Fault>>,
}

impl Run<'_> {
    /// Blocks as long as there are any; true where it was told to pause.
    fn work(&self, worker: &mut Worker, pause: impl Fn() -> bool) -> bool {
        while !self.stop.load(Relaxed) {
            let block = self.next.fetch_add(1, Relaxed);
            if block >= self.launch.blocks() {
                break;
            }
            if let Err(fault) = worker.run(block) {
                self.stop.store(true, Relaxed);
                self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fault);
            }
            if pause() {
                return true;
            }
        }
        false
    }
}

/// Numbers for so many blocks; where they run out, everyone's are forgotten.
fn numbers(blocks: u32) -> u32 {
    let mut next = NUMBERS.write().unwrap_or_else(PoisonError::into_inner);
    let first = match next.checked_add(blocks).and_then(|n| n.checked_add(2)) {
        Some(_) => *next,
        None => {
            state().space.all().iter().for_each(|r| r.forget());
            1
        }
    };
    *next = first.saturating_add(blocks).saturating_add(1);
    first
}
