//! Remove instructions whose result is never read: selection writes addresses and constants before it knows who uses them.

use super::Job;
use super::program::Def;
use crate::Error;

/// Remove instructions whose result is never read.
pub fn dead_code(job: &mut Job) -> Result<(), Error> {
    let program = &mut job.program;
    let mut reads = vec![0u32; program.regs.len()];
    // what modifies a register reads it, for no one else
    let mut own = vec![0u32; program.regs.len()];
    for inst in &program.insts {
        inst.each(|r, is_read| reads[r.0 as usize] += is_read as u32);
        if let (Def::Modify, Some(d)) = (inst.def, inst.defines()) {
            own[d.0 as usize] += 1;
        }
    }
    let mut keep = vec![true; program.insts.len()];
    for (i, inst) in program.insts.iter().enumerate().rev() {
        let Some(d) = inst.defines().filter(|_| inst.is_pure()) else { continue };
        if reads[d.0 as usize] == own[d.0 as usize] {
            keep[i] = false;
            own[d.0 as usize] -= (inst.def == Def::Modify) as u32;
            inst.each(|r, is_read| reads[r.0 as usize] -= is_read as u32);
        }
    }
    let mut at = 0..keep.len();
    program.insts.retain(|_| at.next().is_some_and(|i| keep[i]));
    Ok(())
}
