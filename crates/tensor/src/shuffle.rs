//! Numbers in random order, each computed by itself: a Feistel network, whose rounds are keyed by random bits, permutes a power of
//! two, and what is beyond the count is left out.
//!
//! ```text
//! 0..n  ->  places in 0..2^k, no two the same  ->  how many of those places stand before each
//! ```
//!
//! Sorting random keys takes many passes over all of them; this takes a running sum and what computes it and reads it.

use crate::tensor::expand_to;
use frit_uop::{Alu, DType, UOp};

/// Rounds of the network, and random numbers that it takes. Four are enough where what a round makes of a half is random.
pub(crate) const ROUNDS: i64 = 8;

/// The numbers below `n` in the order that random `keys` say, int32.
pub(crate) fn shuffled(n: i64, keys: &UOp, site: u32) -> UOp {
    let network = Network::of(n, keys);
    let place = network.place(&UOp::iota(&UOp::index(n), DType::U32));
    if n == 1 << network.bits {
        return place.cast(DType::I32);
    }
    let taken = network.number(&UOp::iota(&UOp::index(1 << network.bits), DType::U32));
    let taken = taken.lt(&taken.const_like(n)).cast(DType::I32);
    // of those taken, this one is the last
    let count = taken.scan_axis(Alu::Add, 0).gather(&place.cast(DType::I32), site);
    count.bin(Alu::Sub, &count.const_like(1))
}

/// A permutation of the numbers of so many bits.
struct Network {
    bits: u32,
    keys: UOp,
}

impl Network {
    fn of(n: i64, keys: &UOp) -> Network {
        Network { bits: (n.max(2) as u64).next_power_of_two().trailing_zeros(), keys: keys.contiguous() }
    }
    /// Where it puts numbers.
    fn place(&self, numbers: &UOp) -> UOp {
        self.run(numbers, 0..ROUNDS)
    }
    /// The numbers that it puts at places: each round undoes itself.
    fn number(&self, places: &UOp) -> UOp {
        self.run(places, (0..ROUNDS).rev())
    }
    fn run(&self, x: &UOp, rounds: impl Iterator<Item = i64>) -> UOp {
        let low_bits = self.bits / 2;
        let [of_low, of_high] = [low_bits, self.bits - low_bits].map(|b| x.const_like((1 << b) - 1));
        let shift = x.const_like(low_bits as i64);
        let (mut high, mut low) = (x.bin(Alu::Shr, &shift), x.and_(&of_low));
        for r in rounds {
            match r % 2 {
                0 => high = high.bin(Alu::Xor, &self.scrambled(&low, r).and_(&of_high)),
                _ => low = low.bin(Alu::Xor, &self.scrambled(&high, r).and_(&of_low)),
            }
        }
        // which is what it is: who reads by it need not look
        let all = x.const_like((1 << self.bits) - 1);
        high.bin(Alu::Shl, &shift).or_(&low).and_(&all)
    }
    /// What a round makes of a half: its key added and multiplied, high bits brought down.
    fn scrambled(&self, half: &UOp, round: i64) -> UOp {
        let key = self.keys.shrink(&[UOp::index(round)], &[UOp::index(1)]);
        let part = |v: UOp| expand_to(&v.cast(DType::U32), half.shape());
        let factor = part(key.bin(Alu::Shr, &key.const_like(32)).or_(&key.const_like(1)));
        let x = half.bin(Alu::Add, &part(key)).bin(Alu::Mul, &factor);
        let x = x.bin(Alu::Xor, &x.bin(Alu::Shr, &x.const_like(15)));
        let x = x.bin(Alu::Mul, &x.const_like(0x2c1b_3c6d));
        x.bin(Alu::Xor, &x.bin(Alu::Shr, &x.const_like(12)))
    }
}
