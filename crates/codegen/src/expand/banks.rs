//! Where the rows of a tile in a block's local memory begin, so that lanes which access it together meet in few banks.
//!
//! Local memory has a bank for each word of a row of them; lanes of a warp that want different words of one bank wait for each
//! other. A square that is filled along rows and read along columns would have every column in one bank: a word more for each
//! row puts them side by side.

use crate::plan::stage::MOST_ADDED;
use frit_abi::target::Grid;
use frit_uop::symbolic::fold::evaluate;
use frit_uop::{Scalar, UOp};

/// Words by which rows are lengthened, at most.
const MOST_PAD: i64 = 8;

/// The banks of a machine's local memory, and the bytes of a word of one.
#[derive(Clone, Copy)]
pub struct Banks {
    count: i64,
    word: i64,
}

impl Banks {
    pub fn of(grid: &Grid) -> Banks {
        Banks { count: grid.banks.max(1).into(), word: grid.bank_bytes.max(1).into() }
    }
}

/// An access of a tile.
pub struct Access {
    /// For each lane of a warp the index in each dimension.
    pub lanes: Vec<Vec<i64>>,
    /// How many neighbours along each dimension a lane wants at once.
    pub wide: Vec<i64>,
    /// How many elements a lane accesses in this way.
    pub count: i64,
}

impl Access {
    /// Instructions, and how often a warp goes to memory for them. Neighbours that lie side by side are one vector where
    /// everything else is a multiple of it away; so many lanes have one at once as there are banks for.
    fn cost(&self, strides: &[i64], bytes: i64, banks: Banks) -> f64 {
        let near = strides.iter().position(|s| *s == 1);
        let others = || strides.iter().enumerate().filter(|(d, _)| Some(*d) != near).map(|(_, s)| s);
        let fits = |w: &i64| others().all(|s| s % w == 0);
        let most = near.map_or(1, |d| self.wide[d]);
        let wide = std::iter::successors(Some(most), |w| Some(w / 2)).find(fits).unwrap_or(1);
        let together = (banks.count * banks.word / (wide * bytes).max(banks.word)).max(1) as usize;
        let rounds: usize =
            self.lanes.chunks(together).map(|l| meetings(l, wide, strides, bytes, banks)).sum();
        self.count as f64 / wide as f64 * (1 + rounds) as f64
    }
}

/// The most words of a bank that some lanes want.
fn meetings(lanes: &[Vec<i64>], wide: i64, strides: &[i64], bytes: i64, banks: Banks) -> usize {
    let mut words: Vec<Vec<i64>> = vec![vec![]; banks.count as usize];
    for at in lanes {
        let element: i64 = at.iter().zip(strides).map(|(i, s)| i * s).sum();
        let [first, last] = [element * bytes, (element + wide) * bytes - 1].map(|b| b.div_euclid(banks.word));
        for word in first..=last {
            let bank = &mut words[word.rem_euclid(banks.count) as usize];
            if !bank.contains(&word) {
                bank.push(word);
            }
        }
    }
    words.iter().map(Vec::len).max().unwrap_or(0)
}

/// Strides of a tile: the dense ones, or where accesses then take fewer rounds, with another dimension contiguous, or one
/// dimension's rows a few words longer. Where more than one element must lie together whole, that is along the last dimension.
pub fn strides(extents: &[i64], bytes: i64, accesses: &[Access], whole: i64, banks: Banks) -> Vec<i64> {
    let word = (banks.word / bytes).max(1);
    let padded = |near: usize, dim: usize, pad: i64| {
        let (mut strides, mut size) = (vec![1; extents.len()], extents.get(near).copied().unwrap_or(1));
        for d in (0..extents.len()).rev().filter(|d| *d != near) {
            size += if d == dim { pad } else { 0 };
            strides[d] = size;
            size *= extents[d];
        }
        (strides, size)
    };
    let dims = extents.len();
    let orders = (0..dims).rev().filter(|d| extents[*d] > 1 || *d + 1 == dims);
    let all = orders.flat_map(|near| {
        let pads = (0..dims).filter(move |d| *d != near).flat_map(|d| (1..=MOST_PAD).map(move |w| (d, w)));
        std::iter::once((0, 0)).chain(pads).map(move |(dim, words)| padded(near, dim, words * word))
    });
    let cost = |(strides, size): &(Vec<i64>, i64)| {
        (accesses.iter().map(|a| a.cost(strides, bytes, banks)).sum::<f64>(), *size)
    };
    let least: i64 = extents.iter().product();
    let is_small = |(_, size): &(Vec<i64>, i64)| *size <= least + least / MOST_ADDED as i64;
    let is_whole = |(strides, _): &(Vec<i64>, i64)| {
        let [others @ .., last] = &strides[..] else { return true };
        whole == 1 || *last == 1 && others.iter().all(|s| s % whole == 0)
    };
    let best = all
        .filter(|s| is_small(s) && is_whole(s))
        .map(|s| (cost(&s), s.0))
        .reduce(|a, b| if b.0 < a.0 { b } else { a });
    best.map_or_else(|| dense(extents), |(_, strides)| strides)
}

/// Strides where nothing is to be gained by any but the dense ones.
pub fn dense(extents: &[i64]) -> Vec<i64> {
    let mut strides: Vec<i64> =
        extents.iter().rev().scan(1, |size, e| Some(std::mem::replace(size, *size * e))).collect();
    strides.reverse();
    strides
}

/// The values that indices have in the lanes of the first warp of a block; everything else stands at 0.
pub fn lanes(indices: &[UOp], ids: &[UOp], warp: u32) -> Vec<Vec<i64>> {
    let count: i64 = ids.iter().map(|n| n.src[0].as_int().unwrap_or(1)).product();
    (0..count.min(warp.into())).map(|lane| indices.iter().map(|i| value(i, ids, lane)).collect()).collect()
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

    const BANKS: Banks = Banks { count: 32, word: 4 };

    fn access(wide: [i64; 2], count: i64, of: impl Fn(i64) -> Vec<i64>) -> Access {
        Access { lanes: (0..32).map(of).collect(), wide: wide.to_vec(), count }
    }

    #[test]
    fn a_square_read_across_gets_longer_rows() {
        let accesses = [access([1, 1], 32, |l| vec![0, l]), access([1, 1], 32, |l| vec![l, 0])];
        for (bytes, pitch) in [(4, 33), (2, 34), (8, 33)] {
            assert_eq!(accesses[1].cost(&[32, 1], bytes, BANKS), 32.0 * if bytes == 2 { 17.0 } else { 33.0 });
            let s = strides(&[32, 32], bytes, &accesses, 1, BANKS);
            assert_eq!(s, [pitch, 1]);
            // a warp's double words are two words each
            assert!(accesses[1].cost(&s, bytes, BANKS) <= 32.0 * (1.0 + (bytes as f64 / 4.0).max(1.0)));
        }
    }
    #[test]
    fn a_tile_without_conflicts_stays_dense() {
        let accesses = [access([1, 1], 32, |l| vec![0, l]), access([1, 1], 32, |_| vec![3, 5])];
        assert_eq!(strides(&[32, 32], 4, &accesses, 1, BANKS), [32, 1]);
    }
    #[test]
    fn what_a_lane_reads_at_once_lies_together() {
        // filled along rows, and each lane reads four rows of a column often
        let accesses =
            [access([1, 4], 4, |l| vec![l / 4, l % 4 * 4]), access([4, 1], 128, |l| vec![l * 4, 0])];
        let s = strides(&[128, 16], 4, &accesses, 1, BANKS);
        assert_eq!((s[0], s[1] % 4), (1, 0));
        assert_eq!(accesses[1].cost(&s, 4, BANKS), 32.0 + 128.0);
    }
    #[test]
    fn dense_strides_are_row_major() {
        assert_eq!(dense(&[2, 3, 4]), [12, 4, 1]);
        assert_eq!(dense(&[]), [0; 0]);
    }
}
