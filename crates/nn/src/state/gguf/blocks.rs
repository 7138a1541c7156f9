//! Blocks of quantised values as tensor expressions: bytes `(n, bytes)` in, float32 `(n, elements)` out.
//!
//! Nearly every layout is made of one piece: [`fields`] cuts bytes into small fields and puts those of one shift side by
//! side, as the SIMD loops these layouts were made for read them.

use frit_tensor::{DType, Tensor};

/// Blocks, one in each row.
pub(super) struct Blocks {
    raw: Tensor,
}

impl Blocks {
    pub fn new(raw: Tensor) -> Blocks {
        Blocks { raw }
    }
    /// Bytes of every block, `(n, len)`.
    pub fn bytes(&self, at: usize, len: usize) -> Tensor {
        self.raw.narrow(1, at, len)
    }
    /// The same as integers that have room.
    pub fn ints(&self, at: usize, len: usize) -> Tensor {
        self.bytes(at, len).int()
    }
    /// Signed bytes, as float32.
    pub fn signed(&self, at: usize, len: usize) -> Tensor {
        self.bytes(at, len).bitcast(DType::I8).float()
    }
    /// Words of a type, `(n, len)`.
    pub fn words(&self, at: usize, len: usize, dtype: DType) -> Tensor {
        self.bytes(at, len * dtype.size()).bitcast(dtype)
    }
    /// A float16 of every block, as float32, `(n, 1)`.
    pub fn half(&self, at: usize) -> Tensor {
        self.words(at, 1, DType::F16).float()
    }
}

/// Values cut into `count` fields of `bits` bits: in each of `groups` equal parts first the lowest field of every value,
/// then the next. `(n, m)` becomes `(n, m * count)`.
pub(super) fn fields(x: &Tensor, groups: usize, count: usize, bits: usize) -> Tensor {
    let dims = x.shape();
    let (n, m) = (dims[0].get(), dims[1].get());
    let shift = (Tensor::arange(count) * bits).cast(x.dtype()).reshape([1, 1, count, 1]);
    let cut = (x.reshape([n, groups, 1, m / groups]) >> shift) & ((1i64 << bits) - 1);
    cut.reshape([n, m * count])
}

/// Each value times the scale of its part: `(n, m)` by `(n, parts)`.
pub(super) fn scaled(x: &Tensor, scale: &Tensor) -> Tensor {
    over_parts(x, scale, |x, s| x * s)
}
fn over_parts(x: &Tensor, scale: &Tensor, f: impl Fn(&Tensor, &Tensor) -> Tensor) -> Tensor {
    let (dims, parts) = (x.shape(), scale.shape()[1].get());
    let (n, m) = (dims[0].get(), dims[1].get());
    f(&x.reshape([n, parts, m / parts]), &scale.unsqueeze(2)).reshape([n, m])
}

/// Values by number, from a short list.
fn listed(values: [i8; 16], code: &Tensor) -> Tensor {
    let table = Tensor::from_slice(&values);
    let table = code.device().map_or_else(Tensor::failed, |d| table.to(&d));
    table.take(code).float()
}
const IQ4: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
/// Twice the values of a 4-bit float of two exponent bits.
const FP4: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// `2^e` for whole `e` between -126 and 127, as int32.
fn power_of_two(e: &Tensor) -> Tensor {
    ((e + 127) << 23).bitcast(DType::F32)
}

// ---- 32 elements, one scale

pub(super) fn q4_0(b: &Blocks) -> Tensor {
    b.half(0) * (fields(&b.ints(2, 16), 1, 2, 4) - 8).float()
}
pub(super) fn q4_1(b: &Blocks) -> Tensor {
    b.half(0) * fields(&b.ints(4, 16), 1, 2, 4).float() + b.half(2)
}
/// Four low bits, and a fifth from a word of 32.
fn five_bits(low: &Tensor, high: &Tensor) -> Tensor {
    fields(low, 1, 2, 4) | (fields(high, 4, 8, 1) << 4)
}
pub(super) fn q5_0(b: &Blocks) -> Tensor {
    b.half(0) * (five_bits(&b.ints(6, 16), &b.ints(2, 4)) - 16).float()
}
pub(super) fn q5_1(b: &Blocks) -> Tensor {
    b.half(0) * five_bits(&b.ints(8, 16), &b.ints(4, 4)).float() + b.half(2)
}
pub(super) fn q8_0(b: &Blocks) -> Tensor {
    b.half(0) * b.signed(2, 32)
}
/// The second number of a block is the sum of its values, for products.
pub(super) fn q8_1(b: &Blocks) -> Tensor {
    b.half(0) * b.signed(4, 32)
}
pub(super) fn iq4_nl(b: &Blocks) -> Tensor {
    b.half(0) * listed(IQ4, &fields(&b.ints(2, 16), 1, 2, 4))
}
/// 128 signs.
pub(super) fn q1_0(b: &Blocks) -> Tensor {
    let d = b.half(0);
    fields(&b.ints(2, 16), 16, 8, 1).ne(0).where_(&d, -&d)
}

// ---- small floats

/// The scale is an exponent; the values of the list are twice what they stand for.
pub(super) fn mxfp4(b: &Blocks) -> Tensor {
    let e = b.ints(0, 1);
    let small = (Tensor::full_dtype((), 0x20_0000, DType::I32) << &e).bitcast(DType::F32); // 2^-128 and 2^-127
    let d = e.lt(2).where_(small, power_of_two(&(&e - 128)));
    d * listed(FP4, &fields(&b.ints(1, 16), 1, 2, 4))
}
/// A scale for each 16 values: an 8-bit float whose sign is not used.
pub(super) fn nvfp4(b: &Blocks) -> Tensor {
    let s = b.ints(0, 4);
    let (e, m) = ((&s >> 3) & 15, &s & 7);
    let normal = (&m + 8).float() * power_of_two(&(&e - 11));
    let d = e.eq(0).where_(m.float() * 2f64.powi(-10), normal);
    let d = s.eq(0x7f).where_(0.0, d);
    scaled(&listed(FP4, &fields(&b.ints(4, 32), 4, 2, 4)), &d)
}

// ---- ternary

/// Five values in a byte: the digits to base 3 of the byte as a fraction of 256.
pub(super) fn tq1_0(b: &Blocks) -> Tensor {
    let digits = |at: usize, len: usize, count: usize| {
        let x = b.ints(at, len).unsqueeze(1);
        let powers = Tensor::from_slice(&[1i32, 3, 9, 27, 81][..count]).reshape([1, count, 1]);
        let powers = x.device().map_or_else(Tensor::failed, |d| powers.to(&d));
        ((((x * powers) & 255) * 3) >> 8).flatten(1, 2)
    };
    let all = Tensor::cat(&[digits(0, 32, 5), digits(32, 16, 5), digits(48, 4, 4)], 1);
    b.half(52) * (all - 1).float()
}
pub(super) fn tq2_0(b: &Blocks) -> Tensor {
    b.half(64) * (fields(&b.ints(0, 64), 2, 4, 2) - 1).float()
}

// ---- 256 elements, scales of parts that are quantised themselves

pub(super) fn q2_k(b: &Blocks) -> Tensor {
    let s = b.ints(0, 16);
    let (scale, min) = (b.half(80) * (&s & 15).float(), b.half(82) * (&s >> 4).float());
    let q = scaled(&fields(&b.ints(16, 64), 2, 4, 2).float(), &scale);
    over_parts(&q, &min, |x, m| x - m)
}
pub(super) fn q3_k(b: &Blocks) -> Tensor {
    let low = fields(&b.ints(96, 8), 1, 2, 4);
    let high = fields(&b.ints(104, 4), 1, 4, 2);
    let scale = b.half(108) * ((low | (high << 4)) - 32).float();
    let q = fields(&b.ints(32, 64), 2, 4, 2) | (fields(&b.ints(0, 32), 1, 8, 1) << 2);
    scaled(&(q - 4).float(), &scale)
}
/// Eight scales and eight minima of six bits each, from twelve bytes.
pub(super) fn six_bits(b: &Blocks) -> (Tensor, Tensor) {
    let [x, y, z] = [4, 8, 12].map(|at| b.ints(at, 4));
    let scale = Tensor::cat(&[&x & 63, (&z & 15) | ((&x >> 6) << 4)], 1);
    let min = Tensor::cat(&[&y & 63, (&z >> 4) | ((&y >> 6) << 4)], 1);
    (b.half(0) * scale.float(), b.half(2) * min.float())
}
fn scaled_from(q: Tensor, (scale, min): (Tensor, Tensor)) -> Tensor {
    over_parts(&scaled(&q.float(), &scale), &min, |x, m| x - m)
}
pub(super) fn q4_k(b: &Blocks) -> Tensor {
    scaled_from(fields(&b.ints(16, 128), 4, 2, 4), six_bits(b))
}
pub(super) fn q5_k(b: &Blocks) -> Tensor {
    let high = fields(&b.ints(16, 32), 1, 8, 1);
    scaled_from(fields(&b.ints(48, 128), 4, 2, 4) | (high << 4), six_bits(b))
}
pub(super) fn q6_k(b: &Blocks) -> Tensor {
    let q = fields(&b.ints(0, 128), 2, 2, 4) | (fields(&b.ints(128, 64), 2, 4, 2) << 4);
    scaled(&(q - 32).float(), &(b.half(208) * b.signed(192, 16)))
}
/// Sums of parts follow the values, for products.
pub(super) fn q8_k(b: &Blocks) -> Tensor {
    b.words(0, 1, DType::F32) * b.signed(4, 256)
}
pub(super) fn iq4_xs(b: &Blocks) -> Tensor {
    let s = fields(&b.ints(4, 4), 4, 2, 4) | (fields(&b.ints(2, 2), 2, 4, 2) << 4);
    let q = listed(IQ4, &fields(&b.ints(8, 128), 8, 2, 4));
    scaled(&q, &(b.half(0) * (s - 32).float()))
}
