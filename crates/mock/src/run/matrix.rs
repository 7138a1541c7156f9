//! Operations of matrix units on the registers of a warp.

use super::regs::{LANES, Regs};
use crate::ptx::floats::{BRAIN, HALF};
use crate::ptx::program::{Factors, Matrix};

/// Bits of a float32 that a unit does not see.
const UNSEEN: u32 = (1 << 13) - 1;

/// `d = a b + c` of 16 rows and 8 columns. Products are exact; a unit adds up floats without rounding each, and how it rounds
/// their sum is nowhere written: here it is the nearest float32.
pub fn matrix(regs: &mut Regs, m: &Matrix) {
    let mut out = [[0u32; LANES]; 4];
    for (r, row) in out.iter_mut().enumerate() {
        for (lane, to) in row.iter_mut().enumerate() {
            let (i, j) = (lane / 4 + 8 * (r / 2), lane % 4 * 2 + r % 2);
            // words of 4 factors, or 2, or one: four of them in lanes, and the upper half of k in other registers
            let words = |word: usize| {
                let (t, upper) = (word % 4, word / 4);
                let a = regs.w[m.a[i / 8 + 2 * upper] as usize][i % 8 * 4 + t];
                (a, regs.w[m.b[upper] as usize][j * 4 + t])
            };
            let c = regs.w[m.c[r] as usize][lane];
            *to = match m.factors {
                Factors::Bytes(signed) => {
                    let byte = |word: u32, k: usize, is_signed: bool| {
                        let byte = word.to_le_bytes()[k];
                        if is_signed { i32::from(byte as i8) } else { i32::from(byte) }
                    };
                    let product = |(a, b): (u32, u32)| {
                        (0..4).map(|k| byte(a, k, signed[0]) * byte(b, k, signed[1])).sum::<i32>()
                    };
                    (0..8).map(|w| product(words(w))).fold(c as i32, i32::wrapping_add) as u32
                }
                Factors::Halves { is_brain } => {
                    let kind = if is_brain { BRAIN } else { HALF };
                    let half = |word: u32, k: u32| kind.value((word >> (16 * k)) as u16);
                    let product = |(a, b): (u32, u32)| half(a, 0) * half(b, 0) + half(a, 1) * half(b, 1);
                    float(c, (0..8).map(|w| product(words(w))))
                }
                Factors::Tf32 => {
                    let seen = |word: u32| f64::from(f32::from_bits(word & !UNSEEN));
                    let product = |(a, b): (u32, u32)| seen(a) * seen(b);
                    float(c, (0..8).map(|w| product(words(w))))
                }
            };
        }
    }
    for (row, words) in m.d.iter().zip(out) {
        regs.w[*row as usize] = words;
    }
}

/// The bits of the nearest float32 to a sum.
fn float(c: u32, products: impl Iterator<Item = f64>) -> u32 {
    let sum = products.sum::<f64>() + f64::from(f32::from_bits(c));
    if sum.is_nan() { 0x7fff_ffff } else { (sum as f32).to_bits() }
}
