//! Where the rows of a tile in a block's local memory begin, so that lanes which access it together meet in few banks.
//!
//! Local memory has a bank for each word of a row of 32; lanes of a warp that want different words of one bank wait for each
//! other. A square that is filled along rows and read along columns would have every column in one bank: a word more for each
//! row puts them side by side.

use crate::plan::stage::MOST_ADDED;
use frit_uop::symbolic::fold::evaluate;
use frit_uop::{Scalar, UOp};

/// Banks, and the bytes of a word of one.
const BANKS: i64 = 32;
const WORD: i64 = 4;
/// Words by which rows are lengthened, at most.
const MOST_PAD: i64 = 8;

/// An access of a tile: for each lane of a warp, the index in each dimension.
pub type Access = Vec<Vec<i64>>;

/// How often a warp goes to memory for one access: the most words of a bank that its lanes want.
pub fn rounds(access: &Access, strides: &[i64], bytes: i64) -> usize {
    let mut banks: [Vec<i64>; BANKS as usize] = Default::default();
    for at in access {
        let element: i64 = at.iter().zip(strides).map(|(i, s)| i * s).sum();
        let word = (element * bytes).div_euclid(WORD);
        let bank = &mut banks[word.rem_euclid(BANKS) as usize];
        if !bank.contains(&word) {
            bank.push(word);
        }
    }
    banks.iter().map(Vec::len).max().unwrap_or(0)
}

/// Strides of a tile, the last dimension contiguous: the dense ones, or with one dimension's rows a few words longer where
/// the accesses then take fewer rounds.
pub fn strides(extents: &[i64], bytes: i64, accesses: &[Access]) -> Vec<i64> {
    let word = (WORD / bytes).max(1);
    let padded = |dim: usize, pad: i64| {
        let mut strides = vec![1; extents.len()];
        for d in (0..extents.len().saturating_sub(1)).rev() {
            strides[d] = strides[d + 1] * extents[d + 1] + if d == dim { pad } else { 0 };
        }
        strides
    };
    let pads = (0..extents.len().saturating_sub(1)).flat_map(|d| (1..=MOST_PAD).map(move |w| (d, w * word)));
    let all = std::iter::once(padded(0, 0)).chain(pads.map(|(d, pad)| padded(d, pad)));
    let cost = |s: &Vec<i64>| {
        let waits: usize = accesses.iter().map(|a| rounds(a, s, bytes)).sum();
        (waits, s.first().copied())
    };
    let dense: i64 = extents.iter().product();
    let is_small = |s: &Vec<i64>| s.is_empty() || s[0] * extents[0] <= dense + dense / MOST_ADDED as i64;
    all.filter(is_small).min_by_key(cost).unwrap_or_default()
}

/// The values that indices have in the lanes of the first warp of a block; everything else stands at 0.
pub fn lanes(indices: &[UOp], ids: &[UOp]) -> Access {
    let count: i64 = ids.iter().map(|n| n.src[0].as_int().unwrap_or(1)).product();
    (0..count.min(BANKS)).map(|lane| indices.iter().map(|i| value(i, ids, lane)).collect()).collect()
}

fn value(index: &UOp, ids: &[UOp], lane: i64) -> i64 {
    let leaf = |n: &UOp| {
        let mut rest = lane;
        let of = |id: &UOp| {
            let extent = id.src[0].as_int().unwrap_or(1).max(1);
            let at = rest % extent;
            rest /= extent;
            (id == n).then_some(at)
        };
        Ok::<_, std::convert::Infallible>(Scalar::Int(ids.iter().find_map(of).unwrap_or(0)))
    };
    evaluate(index, leaf).ok().and_then(|v| v.as_i64()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_square_read_across_gets_longer_rows() {
        let along: Access = (0..32).map(|l| vec![0, l]).collect();
        let across: Access = (0..32).map(|l| vec![l, 0]).collect();
        for (bytes, pitch) in [(4, 33), (2, 34), (8, 33)] {
            assert_eq!(rounds(&across, &[32, 1], bytes), if bytes == 2 { 16 } else { 32 });
            let s = strides(&[32, 32], bytes, &[along.clone(), across.clone()]);
            assert_eq!(s, [pitch, 1]);
            // a warp's double words are two words each
            assert!(rounds(&across, &s, bytes) as i64 <= (bytes / 4).max(1));
        }
    }
    #[test]
    fn a_tile_without_conflicts_stays_dense() {
        let along: Access = (0..32).map(|l| vec![0, l]).collect();
        let same: Access = (0..32).map(|_| vec![3, 5]).collect();
        assert_eq!(strides(&[32, 32], 4, &[along, same]), [32, 1]);
    }
}
