//! Live ranges are split where loops end: what a loop uses, and something after it too, is another register from there on.
//!
//! Who spills a register spills it wherever it is used. A tile's accumulators wait while the first ones' sums become results:
//! split, those that find no register there wait in the frame, and the loop still has all of them in registers.

use super::program::{Class, Def, Fold, Inst, Kind, Opd, Program, Reg};
use rustc_hash::FxHashMap;

/// Split live ranges behind every loop.
pub fn split(program: &mut Program) {
    let old = std::mem::take(&mut program.insts);
    let (ranges, labels) = (ranges(&old, program.regs.len()), labels(&old));
    let mut now: Vec<Reg> = (0..program.regs.len() as u32).map(Reg).collect();
    // where the loops begin that are open, and from where to where jumps go forward that have not landed
    let (mut loops, mut jumps) = (vec![], vec![]);
    // where the loop began that runs into this label, which is of its exit
    let mut ended = None;
    for (i, inst) in old.iter().enumerate() {
        let mut renamed = inst.clone();
        renamed.rename(|r| now[r.0 as usize]);
        program.insts.push(renamed);
        match inst.kind {
            Kind::LoopBegin => loops.push(i),
            Kind::LoopEnd => ended = loops.pop(),
            Kind::Jump(_, label) => jumps.extend(labels.get(&label).filter(|to| **to > i).map(|to| (i, *to))),
            Kind::Label(..) => jumps.retain(|(_, to)| *to > i),
            _ => {}
        }
        let Some(begin) = ended.filter(|_| matches!(inst.kind, Kind::Label(..))) else { continue };
        ended = None;
        // what is written behind this is written on every way to here, and in every round of the loops around
        let sure = jumps.iter().map(|(from, _)| *from).chain(loops.last().copied()).max();
        let mut through = vec![];
        for inst in &old[begin..i] {
            inst.each(|r, _| {
                let (info, (first, last)) = (&program.regs[r.0 as usize], ranges[r.0 as usize]);
                let lives = sure.is_none_or(|sure| sure < first) && first < begin && i < last;
                let is_made_again = info.rematerialise.is_some() || info.pinned;
                if lives && !is_made_again && matches!(info.class, Class::Vec | Class::Int) {
                    through.push(r);
                }
            });
        }
        through.sort_unstable();
        through.dedup();
        for r in through {
            let info = &program.regs[r.0 as usize];
            let (class, size) = (info.class, info.size);
            let from = std::mem::replace(&mut now[r.0 as usize], program.reg(class, size));
            let ops = [Opd::Reg(now[r.0 as usize], size), Opd::Reg(from, size)].into_iter().collect();
            let (kind, step) = (Kind::Move, inst.step);
            program.insts.push(Inst { kind, ops, def: Def::Write, mask: None, fold: Fold::No, step });
        }
    }
}

/// From where to where each register is named.
fn ranges(insts: &[Inst], registers: usize) -> Vec<(usize, usize)> {
    let mut all = vec![(usize::MAX, 0); registers];
    for (i, inst) in insts.iter().enumerate() {
        inst.each(|r, _| {
            let (first, last) = &mut all[r.0 as usize];
            *first = i.min(*first);
            *last = i;
        });
    }
    all
}

/// Where each label is.
fn labels(insts: &[Inst]) -> FxHashMap<u32, usize> {
    let place = |(i, inst): (usize, &Inst)| match inst.kind {
        Kind::Label(label, _) => Some((label, i)),
        _ => None,
    };
    insts.iter().enumerate().filter_map(place).collect()
}
