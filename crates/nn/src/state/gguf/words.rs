//! Products of quantised weights with vectors that are rounded to bytes, in whole numbers.
//!
//! A weight is `scale * (q - zero) + offset`, where q has no sign and a part of the row shares the other three. So is a vector
//! `d * p`, with bytes p and a part's d: of every four products the sum is a whole number, which the scales are multiplied to.
//!
//! ```text
//! y[row] = sum over parts and lanes of  scale * (d * float(sum of 4 or 8 of (q - zero) * p))  +  offset * (d * sum of p)
//! ```

use super::Kind;
use super::blocks::{Blocks, scaled, six_bits};
use frit_tensor::{DType, Tensor, keepdim};

/// Weights as words of four bytes, and what makes values of them.
pub struct Words {
    /// `(rows, parts, pieces, lanes)`, int32: values of a part that follow each other, four in a word. The words of all pieces
    /// of a lane are summed before the sum is scaled.
    words: Tensor,
    /// What zero is stored as.
    zero: i64,
    /// `(rows, parts)`, float32.
    scale: Tensor,
    /// The same, where values have an offset.
    offset: Option<Tensor>,
}

/// Words cut into `count` fields of `bits` bits of each byte: `(n, groups, m)` becomes `(n, groups, count, m)`.
fn fields(x: &Tensor, count: usize, bits: usize) -> Tensor {
    let shift = (Tensor::arange(count) * bits).cast(DType::I32).reshape([1, 1, count, 1]);
    (x.unsqueeze(2) >> shift) & (((1i64 << bits) - 1) * 0x0101_0101)
}

impl Kind {
    /// The weights in raw bytes `(rows, bytes)` as words; `None` for types that are not whole numbers of up to 8 bits, of which
    /// whole words share a scale.
    pub fn words(self, raw: &Tensor) -> Option<Words> {
        let [rows, bytes] = raw.dims().ok()?[..] else { return None };
        if !bytes.is_multiple_of(self.block_bytes()) || raw.dtype() != DType::U8 {
            return None;
        }
        let n = rows * (bytes / self.block_bytes());
        let b = Blocks::new(raw.reshape([n, self.block_bytes()]));
        let words = |at: usize, len: usize| b.words(at, len / 4, DType::I32);
        let nibbles = |at: usize| fields(&words(at, 16).reshape([n, 1, 4]), 2, 4);
        // words (n, parts of a block, pieces, lanes); scales (n, parts)
        let (words, zero, scale, offset) = match self {
            Kind::Q4_0 => (nibbles(2), 8, b.half(0), None),
            Kind::Q4_1 => (nibbles(4), 0, b.half(0), Some(b.half(2))),
            // with the upper bit turned, bytes with sign are 128 more without
            Kind::Q8_0 => {
                ((words(2, 32) ^ 0x8080_8080u32 as i32 as i64).reshape([n, 1, 1, 8]), 128, b.half(0), None)
            }
            Kind::Q4_K => {
                let (scale, min) = six_bits(&b);
                let q = fields(&words(16, 128).reshape([n, 4, 8]), 2, 4);
                (q.reshape([n, 8, 1, 8]), 0, scale, Some(-min))
            }
            Kind::Q6_K => {
                let low = fields(&words(0, 128).reshape([n, 2, 16]), 2, 4).reshape([n, 64]);
                let high = fields(&words(128, 64).reshape([n, 2, 8]), 4, 2).reshape([n, 64]);
                let scale = scaled(&b.signed(192, 16), &b.half(208));
                ((low | (high << 4)).reshape([n, 16, 1, 4]), 32, scale, None)
            }
            _ => return None,
        };
        let dims = words.dims().ok()?;
        let parts = dims[1] * (bytes / self.block_bytes());
        let of_rows = |t: Tensor| t.reshape([rows, parts]);
        Some(Words {
            words: words.reshape([rows, parts, dims[2], dims[3]]),
            zero,
            scale: of_rows(scale),
            offset: offset.map(of_rows),
        })
    }
}

impl Words {
    /// Some of the rows.
    pub fn rows(&self, begin: usize, count: usize) -> Words {
        let rows = |t: &Tensor| t.narrow(0, begin, count);
        Words {
            words: rows(&self.words),
            zero: self.zero,
            scale: rows(&self.scale),
            offset: self.offset.as_ref().map(rows),
        }
    }
    /// The products of vectors `(tokens, inputs)` with every row: `(tokens, rows)`, float32. The vectors are rounded to bytes,
    /// part by part, each with the scale that its greatest element takes.
    #[track_caller]
    pub fn product(&self, x: &Tensor) -> Tensor {
        let _c = frit_tensor::call("product");
        let (dims, tokens) = (self.words.shape(), x.shape()[0].clone());
        let [rows, parts, pieces, lanes] = [0, 1, 2, 3].map(|i| dims[i].get());
        let x = x.float().reshape([tokens.clone(), parts.into(), (pieces * lanes * 4).into()]);
        let most = x.abs().max(keepdim(-1)).contiguous();
        let inverse = most.eq(0.0).where_(0.0, 127.0 / &most);
        let bytes = (x * inverse).round().cast(DType::I8).contiguous();
        let d = (most / 127.0).contiguous(); // (tokens, parts, 1)
        let sums = bytes.int().reshape([tokens.clone(), parts.into(), pieces.into(), lanes.into(), 4.into()]);
        let sums = sums.sum([2, 4]); // (tokens, parts, lanes)
        let p = bytes.bitcast(DType::I32);
        let p = p.reshape([tokens.clone(), 1.into(), parts.into(), pieces.into(), lanes.into()]);
        let mut dots = match self.zero {
            0 => Tensor::full_dtype((), 0, DType::I32),
            zero => (&sums * -zero).contiguous().unsqueeze(1),
        };
        for piece in 0..pieces {
            let words = self.words.narrow(2, piece, 1).squeeze(2).unsqueeze(0); // (1, rows, parts, lanes)
            dots = words.dot4(&p.narrow(3, piece, 1).squeeze(3), &dots);
        }
        let of_part = |t: &Tensor| t.reshape([1, rows, parts, 1]);
        let y = (of_part(&self.scale) * (dots.float() * d.unsqueeze(1))).sum([2, 3]);
        match &self.offset {
            Some(offset) => {
                let sums = (sums.float() * d).contiguous().unsqueeze(1);
                y + (of_part(offset) * sums).sum([2, 3])
            }
            None => y,
        }
    }
}
