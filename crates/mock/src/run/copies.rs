//! The copies of a lane that are under way to shared memory.

use std::collections::VecDeque;

/// A copy: where it goes, how many bytes, and what.
type Copy = (usize, usize, [u32; 4]);

/// Those that have not arrived.
#[derive(Default)]
pub struct Copies {
    /// Of no group yet.
    open: Vec<Copy>,
    groups: VecDeque<Vec<Copy>>,
}

impl Copies {
    /// Forget all.
    pub fn clear(&mut self) {
        self.open.clear();
        self.groups.clear();
    }
    /// A copy begins.
    pub fn start(&mut self, at: usize, bytes: usize, words: [u32; 4]) {
        self.open.push((at, bytes, words));
    }
    /// Those since the last one are a group.
    pub fn commit(&mut self) {
        self.groups.push_back(std::mem::take(&mut self.open));
    }
    /// Those of all groups but the last `left`.
    pub fn arrived(&mut self, left: usize) -> Vec<Copy> {
        let count = self.groups.len().saturating_sub(left);
        self.groups.drain(..count).flatten().collect()
    }
}
