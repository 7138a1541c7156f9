//! BLAKE3: chunks of 1024 bytes hashed each for itself, block by block, then joined two by two up to a root.

use super::{in_dims_of, messages, rotate, state, word};
use crate::error::{Result, call};
use crate::tensor::Tensor;
use frit_uop::DType;

const CHUNK: usize = 1024;
const BLOCK: usize = 64;

// what a compression is for
const CHUNK_START: u32 = 1;
const CHUNK_END: u32 = 2;
const PARENT: u32 = 4;
const ROOT: u32 = 8;

/// What a chain begins with.
const IV: [u32; 8] =
    [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];
/// Where the words of a block go after each round.
const PERMUTED: [usize; 16] = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];

impl Tensor {
    /// The digest of bytes in the last dim, for each of the other dims: 32 bytes.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let digest = Tensor::from_slice(b"abc").blake3();
    /// assert_eq!(digest.to_vec::<u8>()?[..4], [0x64, 0x37, 0xb3, 0xac]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn blake3(&self) -> Tensor {
        self.blake3_of(32)
    }
    /// [`Tensor::blake3`] with a digest of so many bytes.
    #[track_caller]
    pub fn blake3_of(&self, bytes: usize) -> Tensor {
        let _c = call("blake3");
        blake3(self, bytes).unwrap_or_else(Tensor::failed)
    }
}

/// What is compressed: a chain's state (n, 8), a block (n, 16), and numbers for all or for each of n.
struct Node {
    chain: Tensor,
    block: Tensor,
    counter: Tensor,
    len: Tensor,
    flags: Tensor,
}

fn blake3(x: &Tensor, digest: usize) -> Result<Tensor> {
    let (bytes, count, len) = messages("blake3", x)?;
    let chunks = len.div_ceil(CHUNK).max(1);
    let last = (len - (chunks - 1) * CHUNK).div_ceil(BLOCK).max(1); // blocks of the last chunk
    let blocks = if chunks > 1 { CHUNK / BLOCK } else { last };
    let missing = chunks * blocks * BLOCK - len;
    let words = bytes.pad(&[(0, 0), (0, missing as isize)], 0).bitcast(DType::U32);
    let words = words.reshape([count * chunks, blocks, 16]).transpose(0, 1);
    let chunk = Tensor::arange(chunks).unsqueeze(0).expand([count, chunks]).flatten(0, 1);
    let is_last = chunk.eq(chunks - 1);
    let ends = is_last.where_(last - 1, blocks - 1);
    let tail = len - ((chunks - 1) * CHUNK + (last - 1) * BLOCK);
    // block i of every chunk
    let node = |i: &Tensor, block: Tensor, chain: &Tensor| {
        let at_end = ends.eq(i);
        let flags = i.eq(0).where_(CHUNK_START, 0).bitwise_or(at_end.where_(CHUNK_END, 0));
        let len = at_end.logical_and(&is_last).where_(tail, BLOCK);
        let numbers = |t: &Tensor| t.cast(DType::U32);
        Node {
            chain: chain.clone(),
            block,
            counter: numbers(&chunk),
            len: numbers(&len),
            flags: numbers(&flags),
        }
    };
    let start = beginning(count * chunks);
    let whole = if chunks > 1 { blocks } else { last - 1 };
    let chains = match whole {
        0 => start,
        // the last chunk may have fewer blocks: it stays as it is behind them
        n => Tensor::fori(n, &[&start], |i, c| {
            let step = Tensor::from(i);
            let next = joined(&compressed(&node(&step, words.at(i), &c[0])));
            vec![ends.ge(&step).unsqueeze(1).where_(next, &c[0])]
        })
        .remove(0),
    };
    let root = if chunks > 1 {
        root_of(chains.reshape([count, chunks, 8]), count, chunks)
    } else {
        let only = node(&Tensor::full((), last - 1), words.at(last - 1), &chains);
        Node { flags: only.flags.bitwise_or(ROOT), ..only }
    };
    in_dims_of(x, &output(&root, digest)?, digest)
}

/// Pairs of neighbours joined, an odd one going on as it is, until two are left: these make the root.
fn root_of(mut chains: Tensor, count: usize, mut left: usize) -> Node {
    let parent = |pairs: Tensor, n: usize, flags: u32| Node {
        chain: beginning(count * n),
        block: pairs.reshape([count * n, 16]),
        counter: Tensor::full_dtype((), 0, DType::U32),
        len: Tensor::full_dtype((), BLOCK, DType::U32),
        flags: Tensor::full_dtype((), flags, DType::U32),
    };
    while left > 2 {
        let pairs = left / 2;
        let node = parent(chains.narrow(1, 0, 2 * pairs), pairs, PARENT);
        let above = joined(&compressed(&node)).reshape([count, pairs, 8]);
        let odd = chains.narrow(1, 2 * pairs, left - 2 * pairs);
        chains = Tensor::cat(&[above, odd], 1).contiguous();
        left -= pairs;
    }
    parent(chains, 1, PARENT | ROOT)
}

/// The first `bytes` of what a root gives, a block for each count: (messages, bytes).
fn output(root: &Node, bytes: usize) -> Result<Tensor> {
    let mut blocks = vec![];
    for k in 0..bytes.div_ceil(BLOCK).max(1) {
        let counter = Tensor::full_dtype((), k, DType::U32);
        let (chain, block) = (root.chain.clone(), root.block.clone());
        let node = Node { chain, block, counter, len: root.len.clone(), flags: root.flags.clone() };
        let v = compressed(&node);
        let low = (0..8).map(|i| v[i].bitwise_xor(&v[i + 8]));
        let high = (0..8).map(|i| v[i + 8].bitwise_xor(word(&root.chain, i)));
        let used = (bytes - k * BLOCK).min(BLOCK).div_ceil(4).max(1);
        blocks.push(state(&low.chain(high).take(used).collect::<Vec<_>>()));
    }
    let all = Tensor::cat(&blocks, 1).bitcast(DType::U8);
    let cut = all.narrow(1, 0, bytes);
    cut.check().map(|_| cut)
}

/// The beginning of `n` chains: (n, 8).
fn beginning(n: usize) -> Tensor {
    let words = IV.map(|w| Tensor::full_dtype((), w, DType::U32));
    Tensor::stack(&words, 0).unsqueeze(0).expand([n, 8])
}

/// The next state of a chain: (n, 8).
fn joined(v: &[Tensor]) -> Tensor {
    state(&(0..8).map(|i| v[i].bitwise_xor(&v[i + 8])).collect::<Vec<_>>())
}

/// The 16 words after seven rounds.
fn compressed(n: &Node) -> Vec<Tensor> {
    let zeros = word(&n.chain, 0).zeros_like();
    let mut v: Vec<Tensor> = (0..8).map(|i| word(&n.chain, i)).collect();
    v.extend(IV[..4].iter().map(|w| &zeros + *w));
    v.extend([&zeros + &n.counter, zeros.clone(), &zeros + &n.len, &zeros + &n.flags]);
    let mut block: Vec<Tensor> = (0..16).map(|i| word(&n.block, i)).collect();
    for _ in 0..7 {
        // columns, then diagonals
        for i in 0..4 {
            quarter(&mut v, [i, i + 4, i + 8, i + 12], &block[2 * i..]);
        }
        for i in 0..4 {
            quarter(&mut v, [i, (i + 1) % 4 + 4, (i + 2) % 4 + 8, (i + 3) % 4 + 12], &block[8 + 2 * i..]);
        }
        block = PERMUTED.iter().map(|&i| block[i].clone()).collect();
    }
    v
}

/// Two words of a block mixed into four of the state.
fn quarter(v: &mut [Tensor], [a, b, c, d]: [usize; 4], block: &[Tensor]) {
    for (m, [first, second]) in block.iter().zip([[16, 12], [8, 7]]) {
        v[a] = &v[a] + &v[b] + m;
        v[d] = rotate(&v[d].bitwise_xor(&v[a]), 32 - first);
        v[c] = &v[c] + &v[d];
        v[b] = rotate(&v[b].bitwise_xor(&v[c]), 32 - second);
    }
}
