//! Records of one thread on their way to the file: it puts them in without ever waiting, and another thread takes them out.
//!
//! ```text
//! record  =  kind and number of fields, then a word for each; texts are numbers by then
//! ```
//!
//! What does not fit is left out and counted.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

/// Words of a ring, a power of two: some 25,000 launches.
const WORDS: usize = 1 << 18;

/// One thread's records.
pub struct Ring {
    words: Box<[AtomicU64]>,
    /// Words that were ever put in, and taken out.
    put: AtomicUsize,
    taken: AtomicUsize,
    is_closed: AtomicBool,
}

impl Ring {
    /// An empty one.
    pub fn new() -> Ring {
        let words = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        Ring {
            words,
            put: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
        }
    }
    /// Put a record in, from the one thread that does; how full that makes it, in words of [`Ring::CAPACITY`], or `None`
    /// where there is no room.
    #[inline]
    pub fn put(&self, record: &[u64]) -> Option<usize> {
        let (put, taken) = (self.put.load(Relaxed), self.taken.load(Acquire));
        let full = put - taken + record.len();
        if full > WORDS {
            return None;
        }
        for (i, word) in record.iter().enumerate() {
            self.words[(put + i) % WORDS].store(*word, Relaxed);
        }
        self.put.store(put + record.len(), Release);
        Some(full)
    }
    /// Take out all that is there, from one thread at a time.
    pub fn take(&self, out: &mut Vec<u64>) {
        let (put, taken) = (self.put.load(Acquire), self.taken.load(Relaxed));
        out.extend((taken..put).map(|i| self.words[i % WORDS].load(Relaxed)));
        self.taken.store(put, Release);
    }
    /// Nothing more is put in.
    pub fn close(&self) {
        self.is_closed.store(true, Release);
    }
    /// Whether nothing more comes.
    pub fn is_done(&self) -> bool {
        self.is_closed.load(Acquire) && self.put.load(Acquire) == self.taken.load(Relaxed)
    }
    /// Words that it holds at most.
    pub const CAPACITY: usize = WORDS;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_comes_out_in_order_and_what_has_no_room_does_not() {
        let ring = Ring::new();
        let (mut next, mut seen, mut refused) = (0u64, 0u64, 0);
        for round in 0..40 {
            let mut out = vec![];
            for _ in 0..20_000 {
                match ring.put(&[next, !next]) {
                    Some(_) => next += 1,
                    None => refused += 1,
                }
            }
            if round % 4 > 0 {
                ring.take(&mut out);
            }
            for pair in out.chunks(2) {
                assert_eq!(pair, [seen, !seen]);
                seen += 1;
            }
        }
        let mut rest = vec![];
        ring.take(&mut rest);
        assert_eq!(seen + rest.len() as u64 / 2, next);
        assert_eq!(refused, 0);
        for _ in 0..WORDS / 2 {
            assert!(ring.put(&[1, 2]).is_some());
        }
        assert!(ring.put(&[1, 2]).is_none(), "there is no room");
        assert!(!ring.is_done());
        ring.close();
        ring.take(&mut rest);
        assert!(ring.is_done());
    }
    #[test]
    fn two_threads_share_it() {
        let ring = Ring::new();
        std::thread::scope(|s| {
            s.spawn(|| {
                for n in 0..200_000u64 {
                    while ring.put(&[n, n * 3]).is_none() {
                        std::thread::yield_now();
                    }
                }
                ring.close();
            });
            let (mut out, mut seen) = (vec![], 0);
            while !ring.is_done() {
                ring.take(&mut out);
                for pair in out.chunks(2) {
                    assert_eq!(pair, [seen, seen * 3]);
                    seen += 1;
                }
                out.clear();
            }
            assert_eq!(seen, 200_000);
        });
    }
}
