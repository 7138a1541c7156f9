//! Lanes of a warp that read each other's registers.

use super::regs::{Regs, lanes};
use crate::ptx::forms::Rows;
use crate::ptx::program::Shuffle;

/// All lanes of a mask read a register of another; those that run and those that are named must be the same.
pub fn shuffle(regs: &mut Regs, mode: Shuffle, rows: &Rows, mask: u32, alive: u32) -> Result<(), String> {
    let [a, b, c, members] = rows.from.map(|r| regs.w[r as usize]);
    let mut out = regs.w[rows.to as usize];
    for lane in lanes(mask) {
        if members[lane] & alive != mask {
            return Err(format!("a shuffle of lanes {:#x} that lanes {mask:#x} perform", members[lane]));
        }
        let (me, b, segment) = (lane as u32, b[lane] & 31, c[lane] >> 8 & 31);
        let last = me & segment | c[lane] & 31 & !segment;
        let (from, is_inside) = match mode {
            Shuffle::Up => (me.wrapping_sub(b), me as i32 - b as i32 >= last as i32),
            Shuffle::Down => (me + b, me + b <= last),
            Shuffle::Bfly => (me ^ b, me ^ b <= last),
            Shuffle::Idx => (me & segment | b & !segment, (me & segment | b & !segment) <= last),
        };
        let from = if is_inside { from } else { me };
        if mask >> from & 1 == 0 {
            return Err(format!("a shuffle that reads lane {from}, which does not take part"));
        }
        out[lane] = a[from as usize];
    }
    regs.w[rows.to as usize] = out;
    Ok(())
}
