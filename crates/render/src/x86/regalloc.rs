//! Virtual registers -> the machine's, by linear scan.
//!
//! A live range goes from a register's first write to its last use; one that crosses the start of a loop and is used
//! inside goes to the loop's end. Where the pressure is too high, live ranges are split where loops end. Where it still is,
//! the register with the fewest uses for the length of its live range is spilled to the frame (a constant is
//! rematerialised at each use instead), its uses become registers of their own that live for one instruction, and
//! allocation starts over.

use super::Job;
use super::program::{
    ARGS, Class, Def, Fold, Imm, Inst, Kind, Mem, ONCE, Opd, Program, RAX, RCX, RDX, Reg, Size,
    TILE_ROW_BYTES,
};
use super::split::split;
use super::table;
use crate::Error;
use crate::walk::Walk;
use frit_abi::target::Isa;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Which register of its file each virtual register has.
#[derive(Default)]
pub struct Assignment {
    numbers: Vec<u8>,
    /// General registers in use, a bit each.
    pub used_general: u32,
    /// Vector registers in use.
    pub used_vector: u32,
}

impl Assignment {
    /// The number of a virtual register's machine register.
    pub fn number(&self, r: Reg) -> u8 {
        self.numbers[r.0 as usize]
    }
    /// The same where it has one.
    pub fn get(&self, r: Reg) -> Option<u8> {
        self.numbers.get(r.0 as usize).copied().filter(|n| *n != NONE)
    }
}

/// Rounds of spilling before giving up; four are more than any kernel has needed.
const ROUNDS: usize = 12;
const NONE: u8 = u8::MAX;

/// Give every register a place; code that moves registers to and from the frame is put in.
pub fn regalloc(job: &mut Job) -> Result<(), Error> {
    for round in 0..ROUNDS {
        match Lives::of(&job.program).scan(&job.program, job.target.isa) {
            Ok(assignment) => {
                job.assignment = assignment;
                return Ok(());
            }
            Err(_) if round == 0 => split(&mut job.program),
            Err(spilled) => spill(&mut job.program, &spilled, job.target.isa),
        }
    }
    Err(job.malformed("its values do not fit the registers"))
}

/// From where to where each register lives, and how much it is used. An instruction reads at twice its number and
/// writes just after.
struct Lives {
    from: Vec<u32>,
    to: Vec<u32>,
    weight: Vec<f32>,
    /// How many instructions run before each, as often as loops make them.
    run: Vec<f64>,
    /// A register that it would be good to share.
    hint: Vec<Option<Reg>>,
    /// The general registers that instructions take for themselves, and when.
    taken: Vec<(u8, u32, u32)>,
}

impl Lives {
    fn of(program: &Program) -> Lives {
        let n = program.regs.len();
        let mut l = Lives {
            from: vec![u32::MAX; n],
            to: vec![0; n],
            weight: vec![0.0; n],
            run: Vec::with_capacity(program.insts.len() + 1),
            hint: vec![None; n],
            taken: vec![],
        };
        let loops = loops(&program.insts);
        let (mut open, mut next_loop): (Vec<(u32, u32)>, usize) = (vec![], 0);
        // how often an instruction runs for one outside of loops
        let (mut often, mut run) = (1.0, 0.0);
        for (i, inst) in program.insts.iter().enumerate() {
            let at = 2 * i as u32;
            match inst.kind {
                Kind::LoopBegin => {
                    open.push(loops[next_loop]);
                    next_loop += 1;
                    often = 8f32.powi(open.len().min(8) as i32);
                }
                Kind::LoopEnd => {
                    open.pop();
                    often = 8f32.powi(open.len().min(8) as i32);
                }
                Kind::Arg(k) => l.taken.push((ARGS[k as usize], 0, at)),
                Kind::Div { .. } => l.taken.extend([(RAX, at, at), (RDX, at, at)]),
                Kind::ShiftCl(_) => l.taken.push((RCX, at, at)),
                _ => {}
            }
            l.run.push(run);
            run += often as f64;
            inst.each(|r, is_read| {
                let (k, when) = (r.0 as usize, if is_read { at } else { at + 1 });
                l.weight[k] += often;
                l.from[k] = l.from[k].min(when);
                l.to[k] = l.to[k].max(when);
                // the outermost loop that it comes into from outside
                if let Some((_, end)) = open.iter().find(|(begin, _)| l.from[k] < *begin) {
                    l.to[k] = l.to[k].max(*end);
                }
            });
            if let Some(d) = inst.defines() {
                // a result that no one reads still takes a register for a moment
                l.to[d.0 as usize] = l.to[d.0 as usize].max(at + 1);
            }
            if let (Kind::Move, [Opd::Reg(to, _), Opd::Reg(from, _)]) = (inst.kind, &inst.ops[..]) {
                l.hint[to.0 as usize].get_or_insert(*from);
                l.hint[from.0 as usize].get_or_insert(*to);
            }
        }
        l.run.push(run);
        l
    }

    /// Give out registers in the order in which lives begin; or say which must go to memory.
    fn scan(&self, program: &Program, isa: Isa) -> Result<Assignment, Vec<Reg>> {
        let mut order: Vec<u32> =
            (0..program.regs.len() as u32).filter(|&r| self.from[r as usize] != u32::MAX).collect();
        order.sort_by_key(|&r| (self.from[r as usize], r));
        let mut numbers = vec![NONE; program.regs.len()];
        // those that live, by file, and the machine's registers that they leave
        let mut active: [Vec<u32>; 4] = Default::default();
        let mut free = [Class::Int, Class::Vec, Class::Mask, Class::Tile].map(|c| all(c, isa));
        // no active one of a file ends before
        let mut soonest = [0u32; 4];
        let mut spilled = vec![];
        for &r in &order {
            let (k, class) = (r as usize, program.regs[r as usize].class);
            let (live, free) = (&mut active[class as usize], &mut free[class as usize]);
            let soonest = &mut soonest[class as usize];
            if *soonest < self.from[k] {
                live.retain(|&a| {
                    let stays = self.to[a as usize] >= self.from[k];
                    *free |= (!stays as u32) << numbers[a as usize];
                    stays
                });
                *soonest = live.iter().map(|&a| self.to[a as usize]).min().unwrap_or(u32::MAX);
            }
            let allowed = if class == Class::Int { !self.conflicts(k) } else { u32::MAX };
            let number = match self.pick(k, *free & allowed, &numbers) {
                Some(n) => n,
                None => {
                    // whoever is worth least among those in the way goes to memory
                    let worth = |r: u32| self.worth(program, r, self.from[k]);
                    let other = live
                        .iter()
                        .copied()
                        .filter(|&a| allowed >> numbers[a as usize] & 1 == 1)
                        .min_by(|a, b| worth(*a).total_cmp(&worth(*b)));
                    match other.filter(|&o| worth(o) < worth(r)) {
                        Some(o) => {
                            spilled.push(Reg(o));
                            live.retain(|&a| a != o);
                            numbers[o as usize]
                        }
                        None => {
                            spilled.push(Reg(r));
                            continue;
                        }
                    }
                }
            };
            numbers[k] = number;
            *free &= !(1 << number);
            *soonest = (*soonest).min(self.to[k]);
            live.push(r);
        }
        if !spilled.is_empty() {
            return Err(spilled);
        }
        let used = |class: Class| {
            let of = |r: &&u32| program.regs[**r as usize].class == class;
            order.iter().filter(of).fold(0u32, |m, &r| m | 1 << numbers[r as usize])
        };
        let divided = self.taken.iter().filter(|t| t.1 != 0).fold(0, |m, t| m | 1 << t.0);
        let (used_general, used_vector) = (used(Class::Int) | divided, used(Class::Vec));
        Ok(Assignment { numbers, used_general, used_vector })
    }

    /// General registers that something else takes while `k` lives.
    fn conflicts(&self, k: usize) -> u32 {
        let (from, to) = (self.from[k], self.to[k]);
        self.taken.iter().filter(|(_, a, b)| from <= *b && *a <= to).fold(0, |m, t| m | 1 << t.0)
    }
    /// One of the free ones: the register that a copy would like, else the first.
    fn pick(&self, k: usize, free: u32, numbers: &[u8]) -> Option<u8> {
        let liked = self.hint[k].map(|h| numbers[h.0 as usize]).filter(|&n| n != NONE && free >> n & 1 == 1);
        liked.or_else(|| (free != 0).then(|| free.trailing_zeros() as u8))
    }
    /// What it would cost to have it in memory, for each instruction that still runs while it lives.
    fn worth(&self, program: &Program, r: u32, now: u32) -> f32 {
        let k = r as usize;
        let info = &program.regs[k];
        if info.pinned {
            return f32::INFINITY;
        }
        // what is made again is most often an operand of the instruction that wants it
        let cheap = if info.rematerialise.is_some() { 0.05 } else { 1.0 };
        let left = self.run[self.to[k] as usize / 2 + 1] - self.run[now as usize / 2];
        cheap * self.weight[k] / left as f32
    }
}

/// The registers of a file, a bit each.
fn all(class: Class, isa: Isa) -> u32 {
    match (class, isa) {
        (Class::Int, _) => 0x7fff,
        (Class::Mask, _) => 0xfe, // k0 means no mask
        (Class::Tile, _) => 0xff,
        (Class::Vec, Isa::Avx512) => u32::MAX,
        (Class::Vec, _) => 0xffff,
    }
}

/// Where each loop begins and ends, in the order in which they begin.
fn loops(insts: &[Inst]) -> Vec<(u32, u32)> {
    let (mut all, mut open): (Vec<(u32, u32)>, Vec<usize>) = (vec![], vec![]);
    for (i, inst) in insts.iter().enumerate() {
        match inst.kind {
            Kind::LoopBegin => {
                open.push(all.len());
                all.push((2 * i as u32, 0));
            }
            Kind::LoopEnd => {
                if let Some(o) = open.pop() {
                    all[o].1 = 2 * i as u32;
                }
            }
            _ => {}
        }
    }
    all
}

/// Put registers in the frame: every use gets a register of its own that is loaded before, or stored after.
fn spill(program: &mut Program, spilled: &[Reg], isa: Isa) {
    let mut homes: FxHashMap<Reg, Spill> = FxHashMap::default();
    for &r in spilled {
        program.regs[r.0 as usize].is_spilled = true;
    }
    for &r in spilled {
        // an address that is in memory itself is no help
        let there = |inst: &Inst| {
            let mut all = true;
            inst.each(|x, is_read| all &= !(is_read && program.regs[x.0 as usize].is_spilled));
            all
        };
        let home = match program.regs[r.0 as usize].rematerialise.clone().filter(|inst| there(inst)) {
            Some(inst) => Spill::Rematerialise(*inst),
            None => {
                let bytes = program.regs[r.0 as usize].size.bytes().max(8);
                Spill::Frame(program.slot(bytes))
            }
        };
        homes.insert(r, home);
    }
    let old = std::mem::take(&mut program.insts);
    let mut new = Vec::with_capacity(old.len() + 8 * spilled.len());
    for mut inst in old {
        let mut touched: SmallVec<[(Reg, bool); 4]> = SmallVec::new();
        inst.each(|r, is_read| {
            if program.regs[r.0 as usize].is_spilled && homes.contains_key(&r) {
                match touched.iter_mut().find(|t| t.0 == r) {
                    Some(t) => t.1 |= is_read,
                    None => touched.push((r, is_read)),
                }
            }
        });
        if touched.is_empty() {
            new.push(inst);
            continue;
        }
        let mut after = vec![];
        let (mut gone, first) = (false, new.len());
        for (r, is_read) in touched {
            let is_written = inst.defines() == Some(r);
            let home = &homes[&r];
            if let (Spill::Rematerialise(_), true) = (home, is_written) {
                gone = true; // it is made where it is used
                break;
            }
            if let (true, false, Some(m)) = (is_read, is_written, home.as_operand(inst.fold, isa))
                && fold(&mut inst, r, m)
            {
                continue;
            }
            let info = program.regs[r.0 as usize].clone();
            let t = program.reg(info.class, info.size);
            program.regs[t.0 as usize].pinned = true;
            inst.rename(|x| if x == r { t } else { x });
            // the rows of a tile are as far apart as a register says
            let mut place = None;
            if let (Class::Tile, Spill::Frame(m)) = (info.class, home) {
                let stride = program.reg(Class::Int, Size::Q);
                program.regs[stride.0 as usize].pinned = true;
                new.push(stride_of(stride));
                place = Some(Spill::Frame(Mem { index: Some((stride, ONCE)), ..*m }));
            }
            let home = place.as_ref().unwrap_or(home);
            if is_read {
                new.push(home.load(t, info.class, info.size));
            }
            if let (true, Spill::Frame(m)) = (is_written, home) {
                after.push(store(t, info.class, info.size, *m));
            }
        }
        let step = inst.step;
        if !gone {
            new.push(inst);
            new.extend(after);
        }
        // what moves a value to and from memory is for the step that uses it
        new[first..].iter_mut().for_each(|inst| inst.step = step);
    }
    program.insts = new;
}

/// Where a spilled value is.
enum Spill {
    Frame(Mem),
    Rematerialise(Inst),
}

impl Spill {
    /// As an operand in memory of an instruction that takes this, if it is one.
    fn as_operand(&self, fold: Fold, isa: Isa) -> Option<Opd> {
        let splats = isa == Isa::Avx512;
        let Spill::Rematerialise(i) = self else {
            let Spill::Frame(m) = self else { return None };
            return (fold != Fold::No).then_some(Opd::Mem(*m));
        };
        match (i.kind, &i.ops[..], fold) {
            (Kind::Row(table::MOVUPS, _), [_, Opd::Mem(m)], Fold::Whole | Fold::Splat(_)) => {
                Some(Opd::Mem(*m))
            }
            (Kind::Row(table::MOVSS | table::MOVSD, _), [_, Opd::Mem(m)], Fold::Scalar) => Some(Opd::Mem(*m)),
            (Kind::Row(table::PBROADCASTD, _), [_, Opd::Mem(m)], Fold::Splat(4)) if splats => {
                Some(Opd::Splat(*m))
            }
            (Kind::Row(table::PBROADCASTQ, _), [_, Opd::Mem(m)], Fold::Splat(8)) if splats => {
                Some(Opd::Splat(*m))
            }
            _ => None,
        }
    }
    fn load(&self, t: Reg, class: Class, size: Size) -> Inst {
        match self {
            Spill::Rematerialise(i) => {
                let mut i = i.clone();
                if let Some(Opd::Reg(r, _)) = i.ops.first_mut() {
                    *r = t;
                }
                i
            }
            Spill::Frame(m) => {
                let kind = match class {
                    Class::Int => Kind::Plain(iced_x86::Code::Mov_r64_rm64),
                    Class::Mask => Kind::Plain(iced_x86::Code::VEX_Kmovq_kr_km64),
                    Class::Tile => Kind::Plain(iced_x86::Code::VEX_Tileloadd_tmm_sibmem),
                    Class::Vec => Kind::Row(table::MOVUPS, size),
                };
                let size = if class == Class::Int { Size::Q } else { size };
                let ops = [Opd::Reg(t, size), Opd::Mem(*m)].into_iter().collect();
                Inst { kind, ops, def: Def::Write, mask: None, fold: Fold::No, step: 0 }
            }
        }
    }
}

/// The distance of a tile's rows in the frame.
fn stride_of(to: Reg) -> Inst {
    let ops = [Opd::Reg(to, Size::D), Opd::Imm(TILE_ROW_BYTES, Imm::Word)].into_iter().collect();
    let kind = Kind::Plain(iced_x86::Code::Mov_r32_imm32);
    Inst { kind, ops, def: Def::Write, mask: None, fold: Fold::No, step: 0 }
}

fn store(t: Reg, class: Class, size: Size, m: Mem) -> Inst {
    let kind = match class {
        Class::Int => Kind::Plain(iced_x86::Code::Mov_rm64_r64),
        Class::Mask => Kind::Plain(iced_x86::Code::VEX_Kmovq_m64_kr),
        Class::Tile => Kind::Plain(iced_x86::Code::VEX_Tilestored_sibmem_tmm),
        Class::Vec => Kind::Row(table::MOVUPS_TO, size),
    };
    let size = if class == Class::Int { Size::Q } else { size };
    let ops = [Opd::Mem(m), Opd::Reg(t, size)].into_iter().collect();
    Inst { kind, ops, def: Def::Nothing, mask: None, fold: Fold::No, step: 0 }
}

/// Use memory in place of a register, if the instruction takes it there and names the register nowhere else.
fn fold(inst: &mut Inst, r: Reg, m: Opd) -> bool {
    let mut count = 0;
    inst.each(|x, _| count += (x == r) as u32);
    if count != 1 || inst.ops.iter().any(|o| matches!(o, Opd::Mem(_) | Opd::Splat(_))) {
        return false;
    }
    let is_it = |o: &Opd| matches!(o, Opd::Reg(x, _) if *x == r);
    let Some(at) = inst.ops.iter().rposition(|o| matches!(o, Opd::Reg(..))).filter(|&at| at > 0) else {
        return false;
    };
    // memory is the last operand; of two that can change places either can be
    if !is_it(&inst.ops[at]) && at > 1 && is_it(&inst.ops[at - 1]) && commutes(inst) {
        inst.ops.swap(at - 1, at);
    }
    if !is_it(&inst.ops[at]) {
        return false;
    }
    inst.ops[at] = m;
    true
}

/// Whether the last two operands can change places.
fn commutes(inst: &Inst) -> bool {
    use table::*;
    let Kind::Row(row, _) = inst.kind else { return false };
    let sums = [ADDPS, ADDPD, ADDSS, ADDSD, MULPS, MULPD, MULSS, MULSD];
    sums.contains(&row) || [FMADD231PS, FMADD231PD, FMADD231SS, FMADD231SD].contains(&row)
}
