//! Products of weights of few bits with vectors that are rounded to a byte or two, in whole numbers.
//!
//! A weight is `scale * (q - zero) + offset`, where q has no sign and a part of the row shares the other three. So is a vector
//! `d * p`, with bytes p and a part's d: of every four products the sum is a whole number, which the scales are multiplied to.
//!
//! ```text
//! y[row] = sum over parts and lanes of  scale * (d * float(sum of 4 or 8 of (q - zero) * p))  +  offset * (d * sum of p)
//! ```
//! Of two bytes the products of the upper ones are summed first, and 256 times that is what the sum of the others begins with.

use crate::error::call;
use crate::realize::Device;
use crate::shape::keepdim;
use crate::tensor::Tensor;
use frit_uop::DType;

/// Weights as words of four bytes, and what makes values of them.
#[derive(Clone, Debug)]
pub struct Words {
    /// `(rows, parts, pieces, lanes)`, int32: values of a part, four in a word. The words of all pieces of a lane are summed
    /// before the sum is scaled; on a machine without vectors those of all lanes.
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
    /// `(rows, parts)`, float32. Products of whole numbers up to 255 with sums of a lane's bytes are exact, where a vector's elements
    /// have one.
    OfParts(Tensor),
}

/// What elements of vectors are rounded to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bytes {
    /// A byte: 127 is the greatest of a part.
    #[default]
    One,
    /// Two bytes: 32,639 is. The upper ones and the lower ones have products of their own.
    Two,
}

impl Bytes {
    /// The whole number that the greatest element of a part becomes.
    fn most(self) -> f64 {
        match self {
            Bytes::One => 127.0,
            Bytes::Two => 127.0 * 257.0,
        }
    }
}

/// Lanes of a part from which vectors have its offset apart: those of fewer add it where they are, in a part of a vector.
const APART: usize = 8;

/// Vectors from which weights are copied so that rows lie side by side: for fewer, memory takes longer than multiplying.
const MANY: i64 = 8;
/// Words that are summed before a sum is scaled, at most, where there are many vectors: as a tile's body has them one after the other.
const RUN: usize = 8;

/// Of parts `(tokens, parts, words)` the words, scales and sums, the latter two `(tokens, parts, 1)`, in one piece of memory: one
/// kernel makes all three. What different parts have at one place lies side by side, since lanes beside each other take parts
/// beside each other, and a load is as long as the lines of memory that it touches are many.
fn beside(words: &Tensor, scale: &Tensor, sum: &Tensor) -> [Tensor; 3] {
    let at = Tensor::arange(words.shape()[2].clone()).unsqueeze(-1);
    let [words, scale, sum] = [words, scale, sum].map(|t| t.transpose(1, 2)); // (tokens, words, parts)
    let others = at.eq(0).where_(scale.bitcast(DType::I32), sum.cast(DType::I32));
    let is_words = Tensor::arange(2).reshape([2, 1, 1]).eq(0);
    // (tokens, 2, words, parts)
    let all = is_words.where_(words.unsqueeze(1), others.unsqueeze(1)).contiguous();
    let half = |i: usize| all.narrow(1, i, 1).squeeze(1).transpose(1, 2);
    let other = |i: usize| half(1).narrow(-1, i, 1);
    [half(0), other(0).bitcast(DType::F32), other(1)]
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
    /// The products of vectors `(tokens, inputs)` with every row: `(tokens, rows)`, float32. The vectors are rounded to whole
    /// numbers of so many bytes, part by part, each with the scale that its greatest element takes.
    #[track_caller]
    pub fn product(&self, x: &Tensor, bytes: Bytes) -> Tensor {
        let _c = call("product");
        let has_vectors = match x.device().and_then(|d| Device::target(&d)) {
            Ok(target) => target.vector_bytes > 0,
            Err(e) => return Tensor::failed(e),
        };
        let is_many = x.shape()[0].as_int().is_none_or(|tokens| tokens >= MANY);
        match bytes == Bytes::Two || has_vectors && is_many {
            true => self.product_of_many(x, bytes),
            false => self.product_of_few(x, has_vectors),
        }
    }

    /// Vectors as whole numbers: the scale of each part, `(tokens, parts, 1)`, and words in the order of the weights', `(tokens, parts,
    /// words)`: of upper bytes, where there are two, and of lower ones.
    fn rounded(&self, x: &Tensor, bytes: Bytes, is_kept: bool) -> (Tensor, Option<Tensor>, Tensor) {
        let (dims, tokens, near) = (self.words.shape(), x.shape()[0].clone(), self.neighbours);
        let [parts, pieces, lanes] = [1, 2, 3].map(|i| dims[i].get());
        // in memory, since each element is read several times, and may be made of sums
        let x = x.float().contiguous().reshape([tokens.clone(), parts.into(), (pieces * lanes * 4).into()]);
        let d = x.abs().max(keepdim(-1)) / bytes.most();
        let d = if is_kept { d.contiguous() } else { d };
        let whole = (x * d.eq(0.0).where_(0.0, 1.0 / &d)).round();
        let words = |bytes: Tensor| {
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
            let bytes = bytes.reshape([tokens.clone(), parts.into(), (pieces * lanes * 4).into()]);
            bytes.bitcast(DType::I32)
        };
        match bytes {
            Bytes::One => (d, None, words(whole.cast(DType::I8))),
            Bytes::Two => {
                let whole = whole.cast(DType::I32);
                // both have a sign
                let upper = (&whole + 128) >> 8;
                let lower = whole - (&upper << 8);
                (d, Some(words(upper.cast(DType::I8))), words(lower.cast(DType::I8)))
            }
        }
    }

    /// Vectors run along rows, whose words lie side by side in a copy: a tile of rows and tokens multiplies each word that it loads
    /// several times, and sums a few before it scales.
    fn product_of_many(&self, x: &Tensor, bytes: Bytes) -> Tensor {
        let (dims, tokens) = (self.words.shape(), x.shape()[0].clone());
        let [rows, parts, pieces, lanes] = [0, 1, 2, 3].map(|i| dims[i].get());
        let each = pieces * lanes;
        let run = (1..=RUN).rev().find(|run| each % run == 0).unwrap_or(1);
        let (d, upper, lower) = self.rounded(x, bytes, true);
        let in_runs = |p: Tensor| {
            p.contiguous().reshape([tokens.clone(), 1.into(), parts.into(), (each / run).into(), run.into()])
        };
        let (upper, lower) = (upper.map(in_runs), in_runs(lower));
        // rows side by side: (rows, parts, 1) and (rows, parts, runs, run)
        let aside = |t: &Tensor| t.permute([1, 0]).contiguous().permute([1, 0]).reshape([1, rows, parts, 1]);
        let words = self.words.reshape([rows, parts, each]).permute([1, 2, 0]).contiguous();
        let words = words.permute([2, 0, 1]).reshape([1, rows, parts, each / run, run]);
        let at = |t: &Tensor, i: usize| t.narrow(-1, i, 1).squeeze(-1);
        let constant = |c: i64| Tensor::full_dtype((), c, DType::I32);
        let sum = |more: Tensor, word: &dyn Fn(usize) -> Tensor| {
            let of = |begin, p: &Tensor| (0..run).fold(begin, |sum, i| word(i).dot4(&at(p, i), &sum));
            let begin = match &upper {
                Some(upper) => (of(constant(0), upper) << 8) + more,
                None => more,
            };
            of(begin, &lower)
        };
        // of the vector alone: (tokens, 1, parts, runs)
        let sums = || sum(constant(0), &|_| constant(0x0101_0101)).contiguous();
        let begin = match self.zero {
            Zero::One(zero) if zero != 0 => sums() * -zero,
            _ => constant(0),
        };
        let dots = sum(begin, &|i| at(&words, i)).float();
        let dots = match &self.zero {
            Zero::One(_) => dots,
            Zero::OfParts(zero) => dots - aside(zero) * sums().float(),
        };
        let d = d.unsqueeze(1);
        let y = aside(&self.scale) * &d * dots;
        let y = match &self.offset {
            Some(offset) => y + aside(offset) * (sums().float() * &d).contiguous(),
            None => y,
        };
        y.sum([2, 3])
    }

    /// Vectors run along the words of a part, each with a sum of its own; without vectors a part is one sum.
    fn product_of_few(&self, x: &Tensor, has_vectors: bool) -> Tensor {
        let (dims, tokens) = (self.words.shape(), x.shape()[0].clone());
        let [rows, parts, pieces, lanes] = [0, 1, 2, 3].map(|i| dims[i].get());
        let is_one_sum = !has_vectors && pieces * lanes > 1;
        let (d, _, p) = self.rounded(x, Bytes::One, !is_one_sum);
        let constant = |c: i64| Tensor::full_dtype((), c, DType::I32);
        let ones = constant(0x0101_0101);
        let (p, d, sums) = match is_one_sum {
            // words of neighbouring parts side by side, as those of a weight are: lanes may run over several short parts
            false => {
                let p = p.reshape([tokens.clone(), parts.into(), pieces.into(), lanes.into()]);
                (p.transpose(1, 2).contiguous().transpose(1, 2), d, None)
            }
            true => {
                let [p, d, sums] = beside(&p, &d, &ones.dot4(&p, constant(0)).sum(keepdim(-1)));
                (p, d, Some(sums.unsqueeze(1)))
            }
        };
        let d = d.unsqueeze(1);
        let run = if has_vectors { 1 } else { lanes };
        let lanes = lanes / run;
        let p = p.reshape([tokens.clone(), 1.into(), parts.into(), pieces.into(), lanes.into(), run.into()]);
        let weights = self.words.reshape([1, rows, parts, pieces, lanes, run]);
        let at = |t: &Tensor, i: usize| t.narrow(3, i / run, 1).squeeze(3).narrow(-1, i % run, 1).squeeze(-1);
        let sum = |begin: Tensor, word: &dyn Fn(usize) -> Tensor| {
            (0..pieces * run).fold(begin, |sum, i| word(i).dot4(&at(&p, i), &sum))
        };
        // of the vector's bytes alone, and times those of the weight: (tokens, rows, parts, lanes)
        let sums = sums.unwrap_or_else(|| sum(constant(0), &|_| ones.clone()));
        let begin = match self.zero {
            Zero::One(zero) if zero != 0 => &sums * -zero,
            _ => constant(0),
        };
        let dots = sum(begin, &|i| at(&weights, i));
        let of_part = |t: &Tensor| t.reshape([1, rows, parts, 1]);
        let dots = match &self.zero {
            Zero::One(_) => dots.float(),
            Zero::OfParts(zero) => dots.float() - of_part(zero) * sums.float(),
        };
        if has_vectors && (self.offset.is_none() || lanes >= APART) {
            // scales are not of lanes: those of several parts are multiplied at once, and offsets are a sum of their own
            let y = (of_part(&self.scale) * &d * dots).sum([2, 3]);
            let Some(offset) = &self.offset else { return y };
            let sums = (sums.sum(-1).float() * d.squeeze(-1)).contiguous();
            return y + (offset.reshape([1, rows, parts]) * sums).sum(2);
        }
        let y = of_part(&self.scale) * (dots * &d);
        let y = match &self.offset {
            Some(offset) => y + of_part(offset) * (sums.float() * &d),
            None => y,
        };
        y.sum([2, 3])
    }
}
