//! A block: its warps run to the next barrier, one after the other.

use super::access::{LaneFault, Memory, Way};
use super::launch::Launch;
use super::matrix::matrix;
use super::regs::lanes;
use super::shuffle::shuffle;
use super::warp::Warp;
use super::{Fault, code};
use crate::ptx::program::{Given, Source, Special, Step};

/// Runs one block after the other.
pub struct Worker<'a> {
    launch: &'a Launch,
    memory: Memory<'a>,
    warps: Vec<Warp>,
    /// Rows that differ between blocks.
    by_block: Vec<Given>,
    /// Lanes times instructions so far.
    pub lane_instructions: u64,
}

/// Instructions after which a warp is said to hang.
const MOST_STEPS: u64 = 1 << 30;

impl<'a> Worker<'a> {
    /// With nothing done yet.
    pub fn new(launch: &'a Launch) -> Worker<'a> {
        let lanes: u32 = launch.block.iter().product();
        let program = &launch.program;
        let mut warps: Vec<Warp> =
            (0..lanes).step_by(32).map(|first| Warp::new(program, first, lanes)).collect();
        let place = launch.place(0);
        warps.iter_mut().for_each(|w| program.given.iter().for_each(|g| w.give(g, &place)));
        let is_block = |g: &&Given| matches!(g.source, Source::Special(Special::Ctaid, _));
        Worker {
            launch,
            memory: Memory::new(launch, launch.shared_bytes),
            warps,
            by_block: program.given.iter().filter(is_block).copied().collect(),
            lane_instructions: 0,
        }
    }
    /// Run a block by its number in the grid.
    pub fn run(&mut self, block: u32) -> Result<(), Fault> {
        let place = self.launch.place(block);
        self.memory.begin(block);
        for w in &mut self.warps {
            w.begin();
            self.by_block.iter().for_each(|g| w.give(g, &place));
        }
        loop {
            for w in self.warps.iter_mut().filter(|w| w.alive != 0) {
                let done = run_warp(self.launch, &mut self.memory, w, &mut self.lane_instructions);
                done.map_err(|e| self.launch.at(w.pc, &place, w.first + e.lane as u32, e.fault))?;
            }
            let mut met = self.warps.iter().filter(|w| w.alive != 0);
            let Some(first) = met.next() else { return Ok(()) };
            if let Some(other) = met.find(|w| w.barrier != first.barrier) {
                let (a, b) = (first.barrier.unwrap_or(0), other.barrier.unwrap_or(0));
                let line = self.launch.program.code[b as usize].line;
                let message =
                    format!("lanes of the block meet at the barriers of different lines, here and {line}");
                let fault = Fault { code: code::LAUNCH_FAILED, message };
                return Err(self.launch.at(a, &place, first.first, fault));
            }
            self.memory.meet();
            if self.memory.shared.is_full() {
                let message = "more barriers than can be told apart".into();
                return Err(self.launch.at(0, &place, 0, Fault { code: code::TIMEOUT, message }));
            }
        }
    }
}

fn wrong(lane: usize, code: i32, message: impl Into<String>) -> LaneFault {
    LaneFault { lane, fault: Fault { code, message: message.into() } }
}
fn first_of(mask: u32) -> usize {
    lanes(mask).next().unwrap_or(0)
}

/// What a whole warp does together.
fn all_here(mask: u32, alive: u32) -> Result<(), LaneFault> {
    match mask == !0 && alive == !0 {
        true => Ok(()),
        false => Err(wrong(
            first_of(!mask),
            code::LAUNCH_FAILED,
            format!("lanes {mask:#x} perform what all lanes of a warp do together"),
        )),
    }
}

/// A warp until it waits at a barrier or is done; at a fault, `pc` is that of the instruction.
fn run_warp(launch: &Launch, memory: &mut Memory, w: &mut Warp, count: &mut u64) -> Result<(), LaneFault> {
    let code = &launch.program.code[..];
    let (mut steps, mut performed) = (0u64, 0u64);
    w.barrier = None;
    loop {
        if (w.pc >= w.nearest || w.active == 0) && !w.settle() {
            break;
        }
        let inst = &code[w.pc as usize];
        let mask = w.mask(inst.guard);
        performed += u64::from(mask.count_ones());
        steps += 1;
        match &inst.step {
            Step::Branch(to) => {
                w.branch(mask, *to);
                if steps > MOST_STEPS {
                    return Err(wrong(first_of(w.active), code::TIMEOUT, "a loop that does not end"));
                }
                continue;
            }
            Step::Exit => {
                w.exit(mask);
                continue;
            }
            _ if mask == 0 => {}
            Step::Compute(run) => {
                let faults = run(&mut w.regs, &inst.rows, mask);
                if faults != 0 {
                    return Err(wrong(
                        first_of(faults),
                        code::LAUNCH_FAILED,
                        "a quotient that is not there or does not fit",
                    ));
                }
            }
            Step::Load(a) => memory.access(&mut w.regs, w.pc as usize, a, Way::Load, mask, w.first)?,
            Step::Store(a) => memory.access(&mut w.regs, w.pc as usize, a, Way::Store, mask, w.first)?,
            Step::Split(parts) => w.split(inst.rows.from[0], *parts, mask),
            Step::Join(parts) => w.join(inst.rows.to, *parts, mask),
            Step::Shuffle(mode) => shuffle(&mut w.regs, *mode, &inst.rows, mask, w.alive)
                .map_err(|m| wrong(first_of(mask), code::LAUNCH_FAILED, m))?,
            Step::LoadMatrix(f) => {
                all_here(mask, w.alive)?;
                memory.load_matrix(&mut w.regs, f, inst.rows.from[0], w.first)?;
            }
            Step::Matrix(m) => {
                all_here(mask, w.alive)?;
                matrix(&mut w.regs, m);
            }
            Step::CopyAsync(c) => memory.copy_async(&mut w.regs, w.pc as usize, c, mask, w.first)?,
            Step::Commit => memory.commit(mask, w.first),
            Step::Wait(left) => memory.wait(*left as usize, mask, w.first)?,
            Step::Await => {}
            Step::Barrier => {
                if mask != w.alive {
                    let message = format!(
                        "lanes {mask:#x} of a warp are at a barrier, lanes {:#x} are not",
                        w.alive & !mask
                    );
                    return Err(wrong(first_of(w.alive & !mask), code::LAUNCH_FAILED, message));
                }
                w.barrier = Some(w.pc);
                w.pc += 1;
                break;
            }
        }
        w.pc += 1;
    }
    *count += performed;
    Ok(())
}
