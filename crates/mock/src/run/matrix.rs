//! Operations of matrix units on the registers of a warp.

use super::regs::{LANES, Regs};
use crate::ptx::floats::{BRAIN, HALF};
use crate::ptx::program::Matrix;

/// `d = a b + c` of m16n8k16. Products are exact; a unit adds them up without rounding each, and how it rounds their sum is
/// nowhere written: here it is the nearest float32.
pub fn matrix(regs: &mut Regs, m: &Matrix) {
    let kind = if m.is_brain { BRAIN } else { HALF };
    let half =
        |row: u32, lane: usize, high: usize| kind.value((regs.w[row as usize][lane] >> (16 * high)) as u16);
    let mut out = [[0u32; LANES]; 4];
    for (r, row) in out.iter_mut().enumerate() {
        for (lane, to) in row.iter_mut().enumerate() {
            let (i, j) = (lane / 4 + 8 * (r / 2), lane % 4 * 2 + r % 2);
            // k is in the lane by pairs, and its upper half in other registers
            let product = |k: usize| {
                let (pair, high, upper) = (k % 8 / 2, k % 2, k / 8);
                let a = half(m.a[i / 8 + 2 * upper], i % 8 * 4 + pair, high);
                a * half(m.b[upper], j * 4 + pair, high)
            };
            let c = f64::from(f32::from_bits(regs.w[m.c[r] as usize][lane]));
            let sum = (0..16).map(product).sum::<f64>() + c;
            *to = if sum.is_nan() { 0x7fff_ffff } else { (sum as f32).to_bits() };
        }
    }
    for (row, words) in m.d.iter().zip(out) {
        regs.w[*row as usize] = words;
    }
}
