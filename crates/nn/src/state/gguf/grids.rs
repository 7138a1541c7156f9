//! Types whose codes are places in a grid: four or eight values at a time, and their signs.
//!
//! `grids.bin` has the six grids one after the other, little-endian 16-bit words, one for each point: eight fields of
//! two bits or four of three, the first value lowest.

use super::blocks::{Blocks, fields, scaled};
use frit_tensor::{Blob, DType, Tensor};

static GRIDS: &[u8] = include_bytes!("grids.bin");

/// A grid: where it is in the file, how many points, how many values of how many bits in a point.
struct Grid {
    at: usize,
    points: usize,
    values: usize,
    bits: usize,
}
const IQ2_XXS: Grid = Grid { at: 0, points: 256, values: 8, bits: 2 };
const IQ2_XS: Grid = Grid { at: 256, points: 512, values: 8, bits: 2 };
const IQ2_S: Grid = Grid { at: 768, points: 1024, values: 8, bits: 2 };
const IQ3_XXS: Grid = Grid { at: 1792, points: 256, values: 4, bits: 3 };
const IQ3_S: Grid = Grid { at: 2048, points: 512, values: 4, bits: 3 };
const IQ1: Grid = Grid { at: 2560, points: 2048, values: 8, bits: 2 };

impl Grid {
    /// The fields of the points with these numbers: `(n, m)` becomes `(n, m * values)`.
    fn fields(&self, number: &Tensor) -> Tensor {
        let all =
            Blob::new(GRIDS).slice(2 * self.at..2 * (self.at + self.points)).unwrap_or_else(|| Blob::new([]));
        let table = Tensor::from_blob(DType::U16, &all, [self.points]);
        let table = number.device().map_or_else(Tensor::failed, |d| table.to(&d));
        let words = table.take(number).int();
        let count = number.shape()[1].get();
        fields(&words, count, self.values, self.bits)
    }
}

/// 8, 25, 43.
fn two_bits(code: &Tensor) -> Tensor {
    code * 17 + (code >> 1) + 8
}
/// The values with signs: `bits` has a word for each eight of them.
fn signed(x: &Tensor, bits: &Tensor) -> Tensor {
    let count = bits.shape()[1].get();
    fields(bits, count, 8, 1).ne(0).where_(-x, x)
}
/// Seven signs and an eighth that makes the number of minus signs even.
fn even(bits: &Tensor) -> Tensor {
    let halves = |x: Tensor, by: i32| &x ^ (&x >> by);
    let parity = halves(halves(halves(bits.clone(), 4), 2), 1) & 1;
    bits | (parity << 7)
}
/// Four fields of seven bits of each word, as integers.
fn sevens(words: &Tensor) -> Tensor {
    let count = words.shape()[1].get();
    fields(words, count, 4, 7).int()
}

pub(super) fn iq2_xxs(b: &Blocks) -> Tensor {
    let n = b.bytes(0, 1).shape()[0].get();
    let pairs = b.words(2, 16, DType::U32).reshape([n, 8, 2]);
    let (points, rest) = (pairs.narrow(2, 0, 1).reshape([n, 8]), pairs.narrow(2, 1, 1).reshape([n, 8]));
    let q = two_bits(&IQ2_XXS.fields(&fields(&points, 8, 4, 8).int()));
    let scale = b.half(0) * ((&rest >> 28).float() + 0.5) * 0.25;
    scaled(&signed(&q, &even(&sevens(&rest))).float(), &scale)
}
/// Sixteen scales of four bits.
fn nibbles(b: &Blocks, at: usize) -> Tensor {
    b.half(0) * (fields(&b.ints(at, 8), 8, 2, 4).float() + 0.5) * 0.25
}
pub(super) fn iq2_xs(b: &Blocks) -> Tensor {
    let words = b.words(2, 32, DType::U16).int();
    let q = two_bits(&IQ2_XS.fields(&(&words & 511)));
    scaled(&signed(&q, &even(&(&words >> 9))).float(), &nibbles(b, 66))
}
pub(super) fn iq2_s(b: &Blocks) -> Tensor {
    let number = b.ints(2, 32) | (fields(&b.ints(66, 8), 8, 4, 2) << 8);
    let q = two_bits(&IQ2_S.fields(&number));
    scaled(&signed(&q, &b.ints(34, 32)).float(), &nibbles(b, 74))
}
pub(super) fn iq3_xxs(b: &Blocks) -> Tensor {
    let code = IQ3_XXS.fields(&b.ints(2, 64));
    // 4, 12, 20, … 52, 62
    let q = &code * 8 + (((&code + 1) >> 3) << 1) + 4;
    let rest = b.words(66, 8, DType::U32);
    let scale = b.half(0) * ((&rest >> 28).float() + 0.5) * 0.5;
    scaled(&signed(&q, &even(&sevens(&rest))).float(), &scale)
}
pub(super) fn iq3_s(b: &Blocks) -> Tensor {
    let number = b.ints(2, 64) | (fields(&b.ints(66, 8), 8, 8, 1) << 8);
    let q = IQ3_S.fields(&number) * 2 + 1;
    let scale = b.half(0) * (fields(&b.ints(106, 4), 4, 2, 4) * 2 + 1).float();
    scaled(&signed(&q, &b.ints(74, 32)).float(), &scale)
}

/// -1, 0 or 1 and a shift of an eighth, up or down: `down` has a bit for each point or for several.
fn ternary(number: &Tensor, down: &Tensor) -> Tensor {
    let q = (IQ1.fields(number) - 1).float();
    let (n, m, parts) = (q.shape()[0].get(), q.shape()[1].get(), down.shape()[1].get());
    let shift = down.ne(0).where_(-0.125, 0.125).unsqueeze(2);
    (q.reshape([n, parts, m / parts]) + shift).reshape([n, m])
}
pub(super) fn iq1_s(b: &Blocks) -> Tensor {
    let words = b.words(34, 8, DType::U16).int();
    let number = b.ints(2, 32) | (fields(&words, 8, 4, 3) << 8);
    let scale = b.half(0) * (((&words >> 12) & 7) * 2 + 1).float();
    scaled(&ternary(&number, &(&words >> 15)), &scale)
}
/// The block's scale is in the high bits of four words, its parts' scales in the low ones.
pub(super) fn iq1_m(b: &Blocks) -> Tensor {
    let words = b.words(48, 4, DType::U16).int();
    let quarter = |i: usize| (words.narrow(1, i, 1) >> 12) << (4 * i);
    let d = (quarter(0) | quarter(1) | quarter(2) | quarter(3)).cast(DType::U16).bitcast(DType::F16).float();
    let scale = d * (fields(&words, 4, 4, 3) * 2 + 1).float();
    let high = fields(&b.ints(32, 16), 16, 2, 4);
    let number = b.ints(0, 32) | ((&high & 7) << 8);
    scaled(&ternary(&number, &(&high >> 3)), &scale)
}
