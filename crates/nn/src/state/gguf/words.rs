//! Quantised weights for products in whole numbers: [`frit_tensor::linalg::Words`] of every type that is whole numbers.

use super::Kind;
use super::blocks::{Blocks, scaled, six_bits};
use frit_tensor::linalg::{Words, Zero};
use frit_tensor::{DType, Device, Tensor};

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
        let nibbles = |at: usize| Words::fields(&words(at, 16).reshape([n, 1, 4]), 2, 4);
        // words (n, parts of a block, pieces, lanes); scales (n, parts)
        let (words, zero, scale, offset) = match self {
            Kind::Q4_0 => (nibbles(2), 8, b.half(0), None),
            Kind::Q4_1 => (nibbles(4), 0, b.half(0), Some(b.half(2))),
            // with the upper bit turned, bytes with sign are 128 more without
            Kind::Q8_0 => {
                ((words(2, 32) ^ 0x8080_8080u32 as i32 as i64).reshape([n, 1, 1, 8]), 128, b.half(0), None)
            }
            Kind::Q4_K => {
                // on vectors the scales of parts are multiplied side by side: that they are made for each product would show
                let has_vectors = Device::target(&raw.device().ok()?).ok()?.vector_bytes > 0;
                let kept = |t: Tensor| if has_vectors { t.contiguous() } else { t };
                let (scale, min) = six_bits(&b);
                let q = Words::fields(&words(16, 128).reshape([n, 4, 8]), 2, 4);
                (q.reshape([n, 8, 1, 8]), 0, kept(scale), Some(kept(-min)))
            }
            Kind::Q6_K => {
                let low = Words::fields(&words(0, 128).reshape([n, 2, 16]), 2, 4).reshape([n, 64]);
                let high = Words::fields(&words(128, 64).reshape([n, 2, 8]), 4, 2).reshape([n, 64]);
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
            neighbours: 1,
            zero: Zero::One(zero),
            scale: of_rows(scale),
            offset: offset.map(of_rows),
        })
    }
}
