//! A small seeded generator: the order of lanes, blocks and slices is random but can be repeated.

/// SplitMix64.
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }
    /// A number below `n`, which is at least 1.
    pub fn below(&mut self, n: u64) -> u64 {
        self.bits() % n.max(1)
    }
    /// Put a list in random order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
    /// Every number below `n` once, in a scattered order that needs no memory.
    pub fn scattered(&mut self, n: u64) -> impl Iterator<Item = u64> + use<> {
        // an odd step meets every number below a power of two
        let (end, start, step) = (n.next_power_of_two(), self.bits(), self.bits() | 1);
        (0..end).map(move |i| i.wrapping_mul(step).wrapping_add(start) % end).filter(move |i| *i < n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_order_has_every_number_once() {
        let mut random = Random::new(1);
        for n in (1..50).chain([1000, 1024]) {
            let mut all: Vec<u64> = random.scattered(n).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..n), "{n}");
        }
        assert_eq!(random.scattered(0).count(), 0);
    }
}
