//! Hashes of many messages at once, on any device: bytes in the last dim, the other dims being the messages.
//!
//! Messages run in parallel, so throughput comes with their number (of messages for Keccak, of kilobytes for BLAKE3).
//! A state is a row of words; one step of a loop is one kernel over all messages that keeps every
//! word in registers.

mod blake3;
mod keccak;

pub use keccak::Keccak;

use crate::error::{Result, fail};
use crate::movement::fixed;
use crate::shape::show_all;
use crate::tensor::Tensor;
use frit_uop::DType;

/// Messages as rows of bytes (messages, length), and their number and length.
fn messages(op: &'static str, x: &Tensor) -> Result<(Tensor, usize, usize)> {
    let u = x.uop()?;
    let s = u.shape();
    if u.dtype != DType::U8 || s.is_empty() {
        return fail!(op, "{} {} is not bytes (uint8) in the last dim", u.dtype, show_all(s));
    }
    let dims = x.dims()?;
    let len = fixed(op, &s[s.len() - 1])? as usize;
    let count: usize = dims[..dims.len() - 1].iter().product();
    Ok((x.reshape([count, len]), count, len))
}

/// Digests (messages, bytes) in the dims that the messages had.
fn in_dims_of(x: &Tensor, digests: &Tensor, bytes: usize) -> Result<Tensor> {
    let mut dims = x.dims()?;
    if let Some(last) = dims.last_mut() {
        *last = bytes;
    }
    Ok(digests.reshape(dims))
}

/// Bits moved left, those that leave coming in again.
fn rotate(x: &Tensor, left: u32) -> Tensor {
    let width = 8 * x.dtype().size() as u32;
    match left % width {
        0 => x.clone(),
        n => x.lshift(n).bitwise_or(x.rshift(width - n)),
    }
}

/// Word `i` of each state.
fn word(states: &Tensor, i: usize) -> Tensor {
    states.narrow(1, i, 1).squeeze(1)
}

/// Words (messages) as states (messages, words). No word depends on its place in the state, so all are computed before
/// the loop over places, once.
fn state(words: &[Tensor]) -> Tensor {
    let place = Tensor::arange(words.len());
    let wide: Vec<Tensor> = words.iter().map(|w| w.unsqueeze(1)).collect();
    let choose = |rest: Tensor, k: usize| place.eq(k).where_(&wide[k], rest);
    let last = wide[wide.len() - 1].clone();
    (0..wide.len() - 1).rev().fold(last, choose).expand((-1, words.len())).contiguous()
}
