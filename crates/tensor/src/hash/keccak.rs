//! Keccak: a permutation of 25 words of 64 bits, into which a message is mixed block by block.

use super::{in_dims_of, messages, rotate, state, word};
use crate::error::{Error, Result, call, fail};
use crate::tensor::Tensor;
use frit_uop::DType;

/// A hash made of Keccak: how much is mixed in at a time, what marks the end of a message, how long the digest is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keccak {
    rate: usize,
    mark: u8,
    digest: usize,
}

impl Keccak {
    /// SHA3-224.
    pub const SHA3_224: Keccak = Keccak { rate: 144, mark: 0x06, digest: 28 };
    /// SHA3-256.
    pub const SHA3_256: Keccak = Keccak { rate: 136, mark: 0x06, digest: 32 };
    /// SHA3-384.
    pub const SHA3_384: Keccak = Keccak { rate: 104, mark: 0x06, digest: 48 };
    /// SHA3-512.
    pub const SHA3_512: Keccak = Keccak { rate: 72, mark: 0x06, digest: 64 };
    /// The original Keccak-256, from before it was a standard.
    pub const KECCAK_256: Keccak = Keccak { rate: 136, mark: 0x01, digest: 32 };
    /// The original Keccak-512.
    pub const KECCAK_512: Keccak = Keccak { rate: 72, mark: 0x01, digest: 64 };
    /// SHAKE128, a digest of any length; 16 bytes unless asked otherwise.
    pub const SHAKE128: Keccak = Keccak { rate: 168, mark: 0x1f, digest: 16 };
    /// SHAKE256, a digest of any length; 32 bytes unless asked otherwise.
    pub const SHAKE256: Keccak = Keccak { rate: 136, mark: 0x1f, digest: 32 };

    /// The same with a digest of so many bytes; for SHAKE.
    pub const fn digest(self, bytes: usize) -> Keccak {
        Keccak { digest: bytes, ..self }
    }
}

impl std::str::FromStr for Keccak {
    type Err = Error;
    /// By name: `sha3_256`, `keccak_256`, `shake_128`, …
    fn from_str(s: &str) -> Result<Keccak> {
        Ok(match s {
            "sha3_224" => Keccak::SHA3_224,
            "sha3_256" => Keccak::SHA3_256,
            "sha3_384" => Keccak::SHA3_384,
            "sha3_512" => Keccak::SHA3_512,
            "keccak_256" => Keccak::KECCAK_256,
            "keccak_512" => Keccak::KECCAK_512,
            "shake_128" => Keccak::SHAKE128,
            "shake_256" => Keccak::SHAKE256,
            _ => return fail!("keccak", "there is no hash {s:?}"),
        })
    }
}

impl Tensor {
    /// The digest of bytes in the last dim, for each of the other dims.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let digest = Tensor::from_slice(b"abc").keccak(Keccak::SHA3_256);
    /// assert_eq!(digest.to_vec::<u8>()?[..4], [0x3a, 0x98, 0x5d, 0xa7]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn keccak(&self, o: Keccak) -> Tensor {
        let _c = call("keccak");
        keccak(self, o).unwrap_or_else(Tensor::failed)
    }
}

fn keccak(x: &Tensor, o: Keccak) -> Result<Tensor> {
    let (bytes, count, len) = messages("keccak", x)?;
    let (blocks, words) = (len / o.rate + 1, o.rate / 8);
    let total = blocks * o.rate;
    // behind the message its mark, and a bit at the very end
    let at = Tensor::arange(total);
    let mark = at.eq(len).where_(o.mark, 0).bitwise_xor(at.eq(total - 1).where_(0x80, 0)).cast(DType::U8);
    let padded = bytes.pad(&[(0, 0), (0, (total - len) as isize)], 0).bitwise_xor(mark);
    let input = padded.bitcast(DType::U64).reshape([count, blocks, words]).transpose(0, 1);
    let zeros = Tensor::full_dtype([count, 25], 0, DType::U64);
    let absorb = |s: &Tensor, block: &Tensor| {
        let lane = |i: usize| match i < words {
            true => word(s, i).bitwise_xor(word(block, i)),
            false => word(s, i),
        };
        permuted(&state(&(0..25).map(lane).collect::<Vec<_>>()))
    };
    let mut s = match blocks {
        1 => absorb(&zeros, &input.at(0)),
        _ => Tensor::fori(blocks, &[&zeros], |i, c| vec![absorb(&c[0], &input.at(i))]).remove(0),
    };
    let mut out = vec![];
    for i in 0..o.digest.div_ceil(o.rate) {
        s = if i > 0 { permuted(&s) } else { s };
        out.push(s.narrow(1, 0, words));
    }
    if out.is_empty() {
        return in_dims_of(x, &Tensor::full_dtype([count, 0], 0, DType::U8), 0);
    }
    let digests = Tensor::cat(&out, 1).bitcast(DType::U8).narrow(1, 0, o.digest);
    in_dims_of(x, &digests, o.digest)
}

/// Rounds in one kernel.
const TOGETHER: usize = 24;

/// The permutation of states (messages, 25).
fn permuted(s: &Tensor) -> Tensor {
    ROUNDS.chunks(TOGETHER).fold(s.clone(), |s, constants| {
        let lanes: Vec<Tensor> = (0..25).map(|i| word(&s, i)).collect();
        state(&constants.iter().fold(lanes, |lanes, c| round(&lanes, *c)))
    })
}

/// One round over lanes `x + 5 y`.
fn round(a: &[Tensor], constant: u64) -> Vec<Tensor> {
    let column = |x: usize| (1..5).fold(a[x].clone(), |c, y| c.bitwise_xor(&a[x + 5 * y]));
    let columns: Vec<Tensor> = (0..5).map(column).collect();
    let mix = |x: usize| columns[(x + 4) % 5].bitwise_xor(rotate(&columns[(x + 1) % 5], 1));
    let mixes: Vec<Tensor> = (0..5).map(mix).collect();
    // turned, and moved: (x, y) goes to (y, 2x + 3y)
    let mut b = vec![a[0].clone(); 25];
    for y in 0..5 {
        for x in 0..5 {
            let turned = rotate(&a[x + 5 * y].bitwise_xor(&mixes[x]), TURNS[x + 5 * y]);
            b[y + 5 * ((2 * x + 3 * y) % 5)] = turned;
        }
    }
    let lane = |i: usize| {
        let (x, row) = (i % 5, i - i % 5);
        let (one, two) = (&b[row + (x + 1) % 5], &b[row + (x + 2) % 5]);
        b[i].bitwise_xor(one.bitwise_not().bitwise_and(two))
    };
    let mut out: Vec<Tensor> = (0..25).map(lane).collect();
    out[0] = out[0].bitwise_xor(constant);
    out
}

/// How far lane `x + 5 y` is turned.
const TURNS: [u32; 25] =
    [0, 1, 62, 28, 27, 36, 44, 6, 55, 20, 3, 10, 43, 25, 39, 41, 45, 15, 21, 8, 18, 2, 61, 56, 14];

/// The constant of each round.
const ROUNDS: [u64; 24] = [
    0x0000000000000001,
    0x0000000000008082,
    0x800000000000808a,
    0x8000000080008000,
    0x000000000000808b,
    0x0000000080000001,
    0x8000000080008081,
    0x8000000000008009,
    0x000000000000008a,
    0x0000000000000088,
    0x0000000080008009,
    0x000000008000000a,
    0x000000008000808b,
    0x800000000000008b,
    0x8000000000008089,
    0x8000000000008003,
    0x8000000000008002,
    0x8000000000000080,
    0x000000000000800a,
    0x800000008000000a,
    0x8000000080008081,
    0x8000000000008080,
    0x0000000080000001,
    0x8000000080008008,
];
