//! Where the rows of a tile in a block's local memory begin, so that lanes which access it together meet in few banks.
//!
//! Local memory has a bank for each word of a row of them; lanes of a warp that want different words of one bank wait for each
//! other. A square that is filled along rows and read along columns would have every column in one bank: a word more for each
//! row puts them side by side.

use crate::plan::stage::MOST_ADDED;
use frit_abi::layout::{Banks, Layout, Swizzle};
use frit_abi::target::Grid;
use frit_uop::symbolic::fold::evaluate;
use frit_uop::{Scalar, UOp};

/// Words by which rows are lengthened, at most.
const MOST_PAD: i64 = 8;
/// What it costs an instruction that its address is swizzled: no two are a constant apart.
const SWIZZLED: f64 = 0.5;

/// The banks of a machine's local memory.
pub fn of(grid: &Grid) -> Banks {
    Banks { count: grid.banks.max(1).into(), word: grid.bank_bytes.max(1).into() }
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
    /// Instructions, and how often a warp goes to memory for them. Neighbours that lie side by side are one vector; so many
    /// lanes have one at once as there are banks for.
    fn cost(&self, layout: &Layout, bytes: i64, banks: Banks) -> f64 {
        let vector = |d: usize| {
            let run = layout.run(d);
            std::iter::successors(Some(self.wide[d]), |w| Some(w / 2)).find(|w| *w < 2 || run % w == 0)
        };
        let wide = (0..self.wide.len()).filter_map(vector).max().unwrap_or(1).max(1);
        let together = (banks.count * banks.word / (wide * bytes).max(banks.word)).max(1) as usize;
        let chunks = self.lanes.chunks(together);
        let rounds: usize = chunks.map(|lanes| layout.rounds(lanes, wide, bytes, banks)).sum();
        let address = if layout.swizzle().is_some() { SWIZZLED } else { 0.0 };
        self.count as f64 / wide as f64 * (1.0 + address + rounds as f64)
    }
}

/// The layout of a tile: dense, or where accesses then take fewer rounds, with another dimension contiguous, with one dimension's
/// rows a few words longer, or with pieces of rows swizzled. Where more than one element must lie together whole, that is along
/// the last dimension.
pub fn layout(extents: &[i64], bytes: i64, accesses: &[Access], whole: i64, banks: Banks) -> Layout {
    let word = (banks.word / bytes).max(1);
    let padded = |near: usize, dim: usize, pad: i64| {
        let (mut strides, mut size) = (vec![1; extents.len()], extents.get(near).copied().unwrap_or(1));
        for d in (0..extents.len()).rev().filter(|d| *d != near) {
            size += if d == dim { pad } else { 0 };
            strides[d] = size;
            size *= extents[d];
        }
        (Layout::strided(extents, &strides), size)
    };
    let dims = extents.len();
    let orders = (0..dims).rev().filter(|d| extents[*d] > 1 || *d + 1 == dims);
    let all = orders.flat_map(|near| {
        let pads = (0..dims).filter(move |d| *d != near).flat_map(|d| (1..=MOST_PAD).map(move |w| (d, w)));
        std::iter::once((0, 0)).chain(pads).map(move |(dim, words)| padded(near, dim, words * word))
    });
    let least: i64 = extents.iter().product();
    let swizzled = swizzle(least, bytes, whole, banks).map(|s| (Layout::dense(extents).swizzled(s), least));
    let cost = |layout: &Layout| accesses.iter().map(|a| a.cost(layout, bytes, banks)).sum::<f64>();
    let is_small = |(_, size): &(Layout, i64)| *size <= least + least / MOST_ADDED as i64;
    let is_whole = |(layout, _): &(Layout, i64)| whole == 1 || layout.run(dims - 1) % whole == 0;
    let all = all.chain(swizzled).filter(|l| is_small(l) && is_whole(l));
    let best = all.map(|(l, size)| ((cost(&l), size), l)).reduce(|a, b| if b.0 < a.0 { b } else { a });
    best.map_or_else(|| Layout::dense(extents), |(_, layout)| layout)
}

/// The swizzle of so many elements: pieces that stay whole change places within a row of all banks, by that row's number.
fn swizzle(elements: i64, bytes: i64, whole: i64, banks: Banks) -> Option<Swizzle> {
    let row = banks.count * banks.word / bytes;
    let log = |n: i64| (n as u64).is_power_of_two().then(|| n.ilog2());
    let (to, from) = (log(whole)?, log(row)?);
    let bits = from.checked_sub(to).filter(|bits| *bits > 0)?;
    // all of it stays inside
    (elements % (row << bits) == 0).then_some(Swizzle { bits, from, to })
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
    use frit_abi::layout::Unit;

    const BANKS: Banks = Banks { count: 32, word: 4 };

    fn access(wide: [i64; 2], count: i64, of: impl Fn(i64) -> Vec<i64>) -> Access {
        Access { lanes: (0..32).map(of).collect(), wide: wide.to_vec(), count }
    }

    #[test]
    fn a_square_read_across_gets_longer_rows() {
        let accesses = [access([1, 1], 32, |l| vec![0, l]), access([1, 1], 32, |l| vec![l, 0])];
        for (bytes, pitch) in [(4, 33), (2, 34), (8, 33)] {
            let dense = accesses[1].cost(&Layout::dense(&[32, 32]), bytes, BANKS);
            assert_eq!(dense, 32.0 * if bytes == 2 { 17.0 } else { 33.0 });
            let l = layout(&[32, 32], bytes, &accesses, 1, BANKS);
            assert_eq!(l, Layout::strided(&[32, 32], &[pitch, 1]));
            // a warp's double words are two words each
            assert!(accesses[1].cost(&l, bytes, BANKS) <= 32.0 * (1.0 + (bytes as f64 / 4.0).max(1.0)));
        }
    }
    #[test]
    fn a_tile_without_conflicts_stays_dense() {
        let accesses = [access([1, 1], 32, |l| vec![0, l]), access([1, 1], 32, |_| vec![3, 5])];
        assert_eq!(layout(&[32, 32], 4, &accesses, 1, BANKS), Layout::dense(&[32, 32]));
    }
    #[test]
    fn what_a_lane_reads_at_once_lies_together() {
        // filled along rows, and each lane reads four rows of a column often
        let accesses =
            [access([1, 4], 4, |l| vec![l / 4, l % 4 * 4]), access([4, 1], 128, |l| vec![l * 4, 0])];
        let l = layout(&[128, 16], 4, &accesses, 1, BANKS);
        assert_eq!(l.run(0) % 4, 0, "{l}");
        assert_eq!(accesses[1].cost(&l, 4, BANKS), 32.0 + 128.0);
    }
    #[test]
    fn short_rows_that_must_stay_whole_are_swizzled() {
        // matrices of 8 rows of 16 bytes: where rows have 64 bytes or more, 16 more fit in a quarter; 32 bytes have no room
        let rows = |width: i64| {
            let read = access([1, 8], 128, move |l| vec![l % 16, l / 16 * 8]);
            let filled = access([1, 8], 16, move |l| vec![l * 8 / width, l * 8 % width]);
            layout(&[128, width], 2, &[filled, read], 8, BANKS)
        };
        assert_eq!(rows(32), Layout::strided(&[128, 32], &[40, 1]));
        assert_eq!(rows(16), Layout::dense(&[128, 16]).swizzled(Swizzle { bits: 3, from: 6, to: 3 }));
        let read: Vec<Vec<i64>> = (0..8).map(|r| vec![r, 8]).collect();
        assert_eq!(rows(16).rounds(&read, 8, 2, BANKS), 1);
        assert_eq!(rows(16).size(Unit::Place), 128 * 16);
    }
}
