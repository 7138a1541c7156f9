//! Which samples are used together.

use frit_tensor::{Error, Result};

/// The indices `0..len` in batches: in order, or shuffled by a seed.
///
/// ```
/// # use frit_nn::data::Batches;
/// let epoch = Batches::new(10, 4)?.shuffle(7);
/// assert_eq!(epoch.map(|batch| batch.len()).collect::<Vec<_>>(), [4, 4, 2]);
/// # Ok::<(), frit_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Batches {
    order: Vec<usize>,
    size: usize,
    at: usize,
}

impl Batches {
    /// Batches of `size` samples of a set of `len`; the last one may be smaller.
    #[track_caller]
    pub fn new(len: usize, size: usize) -> Result<Batches> {
        match size {
            0 => Err(Error::new("batches", "a batch of 0 samples")),
            _ => Ok(Batches { order: (0..len).collect(), size, at: 0 }),
        }
    }
    /// In an order that depends on the seed alone; another seed for each epoch gives another order.
    pub fn shuffle(mut self, seed: u64) -> Batches {
        let mut state = seed;
        for i in (1..self.order.len()).rev() {
            // The high half of a product maps 64 random bits to 0..=i.
            let j = (splitmix64(&mut state) as u128 * (i as u128 + 1)) >> 64;
            self.order.swap(i, j as usize);
        }
        self
    }
    /// Without the last batch where it is smaller than the others.
    pub fn drop_last(mut self) -> Batches {
        self.order.truncate(self.order.len() / self.size * self.size);
        self
    }
}

impl Iterator for Batches {
    type Item = Vec<usize>;
    fn next(&mut self) -> Option<Vec<usize>> {
        let end = self.order.len().min(self.at + self.size);
        let batch = self.order[self.at..end].to_vec();
        self.at = end;
        (!batch.is_empty()).then_some(batch)
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.order.len() - self.at).div_ceil(self.size);
        (left, Some(left))
    }
}
impl ExactSizeIterator for Batches {}

/// Steele, Lea and Flood's generator: any seed will do.
fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_comes_once_whatever_the_order() {
        for len in [0, 1, 9, 10, 11, 1000] {
            let mut seen: Vec<usize> = Batches::new(len, 10).unwrap().shuffle(3).flatten().collect();
            seen.sort();
            assert_eq!(seen, (0..len).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_seed_decides_the_order() {
        let order = |seed| Batches::new(100, 8).unwrap().shuffle(seed).flatten().collect::<Vec<_>>();
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        assert_ne!(order(1), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn the_length_is_known() {
        let b = Batches::new(11, 5).unwrap();
        assert_eq!((b.len(), b.clone().drop_last().len()), (3, 2));
        assert_eq!(b.drop_last().map(|b| b.len()).collect::<Vec<_>>(), [5, 5]);
        assert!(Batches::new(3, 0).is_err());
    }
}
