//! Operands that show how a form differs from what one would think: special values, ties, cancellation, and random bits.

use super::{GIVEN, Snippet};
use crate::ptx::floats::{BRAIN, HALF, Half};
use crate::run::regs::Kind;

/// Lanes of a snippet's block.
const LANES: usize = 128;

/// A random sequence of its own, so that the same seed gives the same operands everywhere.
struct Random(u64);

impl Random {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    fn below(&mut self, n: usize) -> usize {
        (self.word() % n as u64) as usize
    }
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

const INTEGERS: &[i64] = &[
    0,
    1,
    -1,
    2,
    -2,
    7,
    31,
    32,
    127,
    128,
    255,
    256,
    32767,
    32768,
    65535,
    65536,
    1 << 24,
    (1 << 24) + 1,
    i32::MAX as i64,
    i32::MIN as i64,
    u32::MAX as i64,
    1 << 53,
    (1 << 53) + 1,
    i64::MAX,
    i64::MIN,
];
const F32S: &[u32] = &[
    0,
    0x8000_0000,
    1,
    0x8000_0001,
    0x007f_ffff,
    0x0080_0000,
    0x3f80_0000,
    0xbf80_0000,
    0x3f00_0000,
    0xbf00_0000,
    0x3fc0_0000,
    0xc020_0000,
    0x3f7f_ffff,
    0x3f80_0001,
    0x4b80_0000,
    0x4b00_0001,
    0x4f00_0000,
    0xcf00_0000,
    0x4f80_0000,
    0x5f00_0000,
    0xdf00_0000,
    0x5f80_0000,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0xffc0_0001,
    0x7f80_0001,
    0x7fff_ffff,
    0x477f_e000,
    0x477f_f000,
    0x43e0_0000,
    0x43e8_0000,
    0x4760_0000,
    0x4770_0000,
];
const F64S: &[u64] = &[
    0,
    1 << 63,
    1,
    0x000f_ffff_ffff_ffff,
    0x0010_0000_0000_0000,
    0x3ff0_0000_0000_0000,
    0xbff0_0000_0000_0000,
    0x3fe0_0000_0000_0000,
    0xbff8_0000_0000_0000,
    0x4004_0000_0000_0000,
    0x3ff0_0000_0000_0001,
    0x41df_ffff_ffc0_0000,
    0x41e0_0000_0000_0000,
    0xc1e0_0000_0020_0000,
    0x41f0_0000_0000_0000,
    0x43e0_0000_0000_0000,
    0xc3e0_0000_0000_0000,
    0x43f0_0000_0000_0000,
    0x47ef_ffff_f000_0000,
    0x36a0_0000_0000_0000,
    0x3690_0000_0000_0000,
    0x7fef_ffff_ffff_ffff,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x7ff8_0000_0000_0000,
    0xfff8_0000_0000_0001,
    0x7ff0_0000_0000_0001,
    0x7ff8_1234_5678_9abc,
];
const F16S: &[u16] = &[
    0, 0x8000, 1, 0x8001, 0x03ff, 0x0400, 0x3c00, 0xbc00, 0x3800, 0x3c01, 0x3bff, 0x7bff, 0xfbff, 0x7c00,
    0xfc00, 0x7e00, 0xfe01, 0x7c01, 0x5640,
];
const BF16S: &[u16] = &[
    0, 0x8000, 1, 0x8001, 0x007f, 0x0080, 0x3f80, 0xbf80, 0x3f00, 0x3f81, 0x3f7f, 0x7f7f, 0xff7f, 0x7f80,
    0xff80, 0x7fc0, 0xffc1, 0x7f81, 0x4120,
];

/// The operands of a snippet, a lane each.
pub fn samples(snippet: &Snippet) -> Vec<[u64; GIVEN]> {
    let form = snippet.name.as_str();
    let seed = form.bytes().fold(0u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    let mut random = Random(seed);
    (0..LANES)
        .map(|lane| {
            let mut given = [0; GIVEN];
            for (i, (to, kind)) in given.iter_mut().zip(&snippet.kinds).enumerate() {
                *to = operand(&mut random, form, *kind, i, lane);
            }
            cancel(&mut random, form, &mut given);
            avoid(form, &mut given);
            given
        })
        .collect()
}

fn operand(random: &mut Random, form: &str, kind: Kind, i: usize, lane: usize) -> u64 {
    let is_amount = i == 1 && form.starts_with("sh") && !form.starts_with("shfl")
        || i > 0 && form.starts_with("bfe")
        || i > 1 && form.starts_with("bfi");
    // of both halves of the lanes, one is special values, as they meet
    let is_special = lane < LANES / 2 || random.below(3) == 0;
    match kind {
        _ if is_amount => random.pick(&[0, 1, 2, 5, 8, 15, 16, 24, 31, 32, 33, 40, 63, 64, 65, 200]),
        Kind::Pred => random.word() & 1,
        Kind::Float(32) if is_special => random.pick(F32S).into(),
        Kind::Float(32) => float32(random).into(),
        Kind::Float(_) if is_special => random.pick(F64S),
        Kind::Float(_) => float64(random),
        Kind::Bits(16) => half(random, form, is_special).into(),
        Kind::Bits(32) if form.ends_with("x2") => {
            u64::from(half(random, form, is_special)) | u64::from(half(random, form, is_special)) << 16
        }
        Kind::Bits(n) => {
            let word =
                if is_special { random.pick(INTEGERS) as u64 } else { random.word() >> random.below(64) };
            word & (!0 >> (64 - n))
        }
    }
}

fn float32(random: &mut Random) -> u32 {
    let bits = random.word() as u32;
    match random.below(4) {
        0 => bits,
        // near one, with few bits or ties of narrower types
        1 => {
            (bits & 0x8007_ffff) << 4 & 0x807f_f000
                | (110 + random.below(40) as u32) << 23
                | bits & 0x8000_0000
        }
        2 => bits & 0x807f_ffff | (100 + random.below(60) as u32) << 23,
        // of the size of integers
        _ => bits & 0x807f_ffff | (126 + random.below(66) as u32) << 23,
    }
}
fn float64(random: &mut Random) -> u64 {
    let bits = random.word();
    let exponent = |e: usize| bits & 0x800f_ffff_ffff_ffff | (e as u64) << 52;
    match random.below(4) {
        0 => bits,
        // ties of float32
        1 => exponent(1023 - 150 + random.below(280)) & !0x0fff_ffff,
        2 => exponent(1022 + random.below(66)),
        _ => exponent(1000 + random.below(46)),
    }
}
fn half(random: &mut Random, form: &str, is_special: bool) -> u16 {
    let bits = random.word() as u16;
    match (is_special, form.contains("bf16"), form.contains("f16")) {
        (true, true, _) => random.pick(BF16S),
        (true, _, true) if !form.contains("m") || form.starts_with("m") || form.starts_with("fma") => {
            random.pick(F16S)
        }
        // exponents that meet
        (_, true, _) => bits & 0x807f | (120 + random.below(16) as u16) << 7,
        _ => bits,
    }
}

/// Make the sum of some multiply-adds nearly vanish.
fn cancel(random: &mut Random, form: &str, given: &mut [u64; GIVEN]) {
    if !form.starts_with("fma") || random.below(4) != 0 {
        return;
    }
    let [a, b, ..] = *given;
    let step = random.below(3) as u64;
    let half = |h: Half, a: u64, b: u64| {
        u64::from(h.nearest(-(h.value(a as u16) * h.value(b as u16))) ^ step as u16)
    };
    given[2] = match form {
        "fma.rn.f32" => u64::from((-(f32::from_bits(a as u32) * f32::from_bits(b as u32))).to_bits()) ^ step,
        "fma.rn.f64" => (-(f64::from_bits(a) * f64::from_bits(b))).to_bits() ^ step,
        "fma.rn.f16" => half(HALF, a, b),
        "fma.rn.bf16" => half(BRAIN, a, b),
        _ => given[2],
    };
}

/// No quotients that are not there.
fn avoid(form: &str, given: &mut [u64; GIVEN]) {
    let bits = if form.ends_with("64") { 64 } else { 32 };
    let ones = !0u64 >> (64 - bits);
    if form.starts_with("div.") && !form.contains(".f") && (given[1] == 0 || given[1] == ones) {
        given[1] = 3;
    }
}
