//! Products of weights of few bits with vectors that are rounded to bytes, in whole numbers.
//!
//! A weight is `scale * (q - zero) + offset`, where q has no sign and a part of the row shares the other three. So is a vector
//! `d * p`, with bytes p and a part's d: of every four products the sum is a whole number, which the scales are multiplied to.
//!
//! ```text
//! y[row] = sum over parts and lanes of  scale * (d * float(sum of 4 or 8 of (q - zero) * p))  +  offset * (d * sum of p)
//! ```

use crate::error::call;
use crate::shape::keepdim;
use crate::tensor::Tensor;
use frit_uop::DType;

/// Weights as words of four bytes, and what makes values of them.
#[derive(Clone, Debug)]
pub struct Words {
    /// `(rows, parts, pieces, lanes)`, int32: values of a part, four in a word. The words of all pieces of a lane are summed
    /// before the sum is scaled.
    pub words: Tensor,
    /// Values that follow each other and are in as many pieces, one in each: those that were fields of one byte. With 1 the
    /// values of a piece follow each other.
    pub neighbours: usize,
    /// What zero is stored as.
    pub zero: Zero,
    /// `(rows, parts)`, float32.
    pub scale: Tensor,
    /// The same, where values have an offset.
    pub offset: Option<Tensor>,
}

/// What zero is stored as.
#[derive(Clone, Debug)]
pub enum Zero {
    /// The same everywhere.
    One(i64),
    /// `(rows, parts)`, float32. Products of whole numbers up to 255 with sums of a lane's bytes are exact.
    OfParts(Tensor),
}

impl Words {
    /// Words `(n, groups, m)` cut into `count` fields of `bits` bits of each byte: `(n, groups, count, m)`.
    pub fn fields(x: &Tensor, count: usize, bits: usize) -> Tensor {
        let shift = (Tensor::arange(count) * bits).cast(DType::I32).reshape([1, 1, count, 1]);
        (x.unsqueeze(2) >> shift) & (((1i64 << bits) - 1) * 0x0101_0101)
    }
    /// Some of the rows.
    pub fn rows(&self, begin: usize, count: usize) -> Words {
        let rows = |t: &Tensor| t.narrow(0, begin, count);
        Words {
            words: rows(&self.words),
            neighbours: self.neighbours,
            zero: match &self.zero {
                Zero::One(zero) => Zero::One(*zero),
                Zero::OfParts(zero) => Zero::OfParts(rows(zero)),
            },
            scale: rows(&self.scale),
            offset: self.offset.as_ref().map(rows),
        }
    }
    /// The products of vectors `(tokens, inputs)` with every row: `(tokens, rows)`, float32. The vectors are rounded to bytes,
    /// part by part, each with the scale that its greatest element takes.
    #[track_caller]
    pub fn product(&self, x: &Tensor) -> Tensor {
        let _c = call("product");
        let (dims, tokens, near) = (self.words.shape(), x.shape()[0].clone(), self.neighbours);
        let [rows, parts, pieces, lanes] = [0, 1, 2, 3].map(|i| dims[i].get());
        let x = x.float().reshape([tokens.clone(), parts.into(), (pieces * lanes * 4).into()]);
        let most = x.abs().max(keepdim(-1)).contiguous();
        let inverse = most.eq(0.0).where_(0.0, 127.0 / &most);
        let bytes = (x * inverse).round().cast(DType::I8);
        let bytes = match near {
            1 => bytes,
            _ => bytes
                .reshape([
                    tokens.clone(),
                    parts.into(),
                    (pieces / near).into(),
                    (lanes * 4).into(),
                    near.into(),
                ])
                .transpose(-1, -2),
        };
        let bytes = bytes.contiguous().reshape([tokens.clone(), parts.into(), (pieces * lanes * 4).into()]);
        let d = (most / 127.0).contiguous(); // (tokens, parts, 1)
        let sums = bytes.int().reshape([tokens.clone(), parts.into(), pieces.into(), lanes.into(), 4.into()]);
        let sums = sums.sum([2, 4]); // (tokens, parts, lanes)
        let p = bytes.bitcast(DType::I32);
        let p = p.reshape([tokens.clone(), 1.into(), parts.into(), pieces.into(), lanes.into()]);
        let mut dots = match self.zero {
            Zero::One(zero) if zero != 0 => (&sums * -zero).contiguous().unsqueeze(1),
            _ => Tensor::full_dtype((), 0, DType::I32),
        };
        for piece in 0..pieces {
            let words = self.words.narrow(2, piece, 1).squeeze(2).unsqueeze(0); // (1, rows, parts, lanes)
            dots = words.dot4(&p.narrow(3, piece, 1).squeeze(3), &dots);
        }
        let of_part = |t: &Tensor| t.reshape([1, rows, parts, 1]);
        let dots = match &self.zero {
            Zero::One(_) => dots.float(),
            Zero::OfParts(zero) => dots.float() - of_part(zero) * sums.float().contiguous().unsqueeze(1),
        };
        let y = (of_part(&self.scale) * (dots * d.unsqueeze(1))).sum([2, 3]);
        match &self.offset {
            Some(offset) => {
                let sums = (sums.float() * d).contiguous().unsqueeze(1);
                y + (of_part(offset) * sums).sum([2, 3])
            }
            None => y,
        }
    }
}
