//! Ids of tool calls. Some chat templates take back only what has 9 letters and digits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const LENGTH: u32 = 9;
/// How many ids there are.
const ALL: u64 = 62u64.pow(LENGTH);
/// From one to the next. It has no factor in common with how many there are, so that none comes twice before all did.
const NEXT: u64 = 0x1d_5e3f_9a4c_86b7;

/// Gives ids out, each once.
#[derive(Debug)]
pub struct Ids(AtomicU64);

impl Ids {
    /// [`beginning`] differs for each server: clients may send one the ids of another.
    pub fn new(beginning: u64) -> Ids {
        Ids(AtomicU64::new(beginning))
    }
    /// The next one.
    pub fn next(&self) -> String {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        let mut rest = (u128::from(number) * u128::from(NEXT) % u128::from(ALL)) as u64;
        let mut letter = || {
            let letter = LETTERS[(rest % 62) as usize];
            rest /= 62;
            char::from(letter)
        };
        (0..LENGTH).map(|_| letter()).collect()
    }
}

/// A beginning that servers before this one did not reach.
pub fn beginning() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_nine_letters_and_none_comes_twice() {
        let ids = Ids::new(7);
        let all: std::collections::HashSet<String> = (0..10_000).map(|_| ids.next()).collect();
        assert_eq!(all.len(), 10_000);
        assert!(all.iter().all(|id| id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric())));
        const { assert!(NEXT % 2 == 1 && !NEXT.is_multiple_of(31)) };
    }
}
