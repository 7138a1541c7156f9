//! Which block of positions belongs to whom. Blocks are counted; full ones are found again by what is in them.
//!
//! A block's content is the tokens in it and the content of the block before, so equal contents are equal prefixes. A block
//! that no one holds keeps its content until it is given out again, the one unused for longest first.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Positions of a block.
pub const BLOCK: usize = 32;

/// What a full block holds: the tokens of a prefix up to its end. 0 is the empty prefix.
pub type Content = u64;

/// All blocks there are. Number 0 is given to no one: what no one will read is written there.
pub struct Blocks {
    holders: Vec<u32>,
    /// Blocks without holders, in the order in which they are given out.
    unused: VecDeque<u32>,
    /// What each holds, if it is full.
    content: Vec<Option<Content>>,
    key_of: FxHashMap<Content, Key>,
    found: FxHashMap<Key, (u32, Content)>,
    next: Content,
}

type Key = (Content, Box<[u32]>);

impl Blocks {
    /// So many blocks, none held.
    pub fn new(count: usize) -> Blocks {
        Blocks {
            holders: vec![0; count],
            unused: (1..count as u32).collect(),
            content: vec![None; count],
            key_of: FxHashMap::default(),
            found: FxHashMap::default(),
            next: 1,
        }
    }
    /// How many can be given out.
    pub fn free(&self) -> usize {
        self.unused.len()
    }
    /// How many there are for sequences.
    pub fn count(&self) -> usize {
        self.holders.len().saturating_sub(1)
    }
    /// A block for new content.
    pub fn take(&mut self) -> Option<u32> {
        let block = self.unused.pop_front()?;
        if let Some(content) = self.content[block as usize].take()
            && let Some(key) = self.key_of.remove(&content)
        {
            self.found.remove(&key);
        }
        self.holders[block as usize] = 1;
        Some(block)
    }
    /// One holder less.
    pub fn release(&mut self, block: u32) {
        let holders = &mut self.holders[block as usize];
        *holders = holders.saturating_sub(1);
        if *holders == 0 {
            match self.content[block as usize] {
                Some(_) => self.unused.push_back(block),
                // of no use to anyone
                None => self.unused.push_front(block),
            }
        }
    }
    /// Says that a block that someone holds is full: these tokens behind a prefix. Gives what it holds then.
    pub fn name(&mut self, block: u32, before: Content, tokens: &[u32]) -> Content {
        let key: Key = (before, tokens.into());
        // another block may have the same content already; that one is found
        if let Some((_, content)) = self.found.get(&key) {
            return *content;
        }
        let content = self.next;
        self.next += 1;
        self.content[block as usize] = Some(content);
        self.key_of.insert(content, key.clone());
        self.found.insert(key, (block, content));
        content
    }
    /// A block with these tokens behind a prefix, and what it holds.
    pub fn find(&self, before: Content, tokens: &[u32]) -> Option<(u32, Content)> {
        self.found.get(&(before, tokens.into())).copied()
    }
    /// Whether someone holds a block.
    pub fn is_held(&self, block: u32) -> bool {
        self.holders[block as usize] > 0
    }
    /// One holder more.
    pub fn hold(&mut self, block: u32) {
        if !self.is_held(block) {
            self.unused.retain(|b| *b != block);
        }
        self.holders[block as usize] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(b: &mut Blocks, before: Content, tokens: &[u32]) -> Option<(u32, Content)> {
        let found = b.find(before, tokens);
        found.inspect(|(block, _)| b.hold(*block))
    }

    #[test]
    fn a_prefix_is_found_until_its_block_is_given_out_again() {
        let mut b = Blocks::new(4);
        let (x, y) = (b.take().unwrap(), b.take().unwrap());
        let first = b.name(x, 0, &[1, 2]);
        b.name(y, first, &[3, 4]);
        b.release(x);
        b.release(y);
        assert_eq!(b.free(), 3);
        assert_eq!(share(&mut b, 0, &[1, 2]), Some((x, first)));
        assert_eq!(share(&mut b, 0, &[3, 4]), None, "it was behind another prefix");
        assert_eq!(share(&mut b, first, &[3, 4]).unwrap().0, y);
        b.release(y);
        let taken = [b.take().unwrap(), b.take().unwrap()];
        assert!(taken.contains(&y) && b.take().is_none(), "one is held, number 0 is no one's");
        assert_eq!(share(&mut b, first, &[3, 4]), None);
    }

    #[test]
    fn a_block_is_free_when_its_last_holder_lets_go() {
        let mut b = Blocks::new(3);
        let x = b.take().unwrap();
        let content = b.name(x, 0, &[1, 2]);
        for _ in 0..2 {
            assert_eq!(share(&mut b, 0, &[1, 2]), Some((x, content)));
        }
        for free in [1, 1, 2] {
            b.release(x);
            assert_eq!(b.free(), free);
        }
        // held by no one it is still found, and by two again
        assert_eq!([share(&mut b, 0, &[1, 2]), share(&mut b, 0, &[1, 2])], [Some((x, content)); 2]);
        let other = b.take().unwrap();
        assert!(other != x && b.take().is_none());
        b.release(x);
        assert!(b.take().is_none());
        b.release(x);
        assert_eq!((b.take(), share(&mut b, 0, &[1, 2])), (Some(x), None));
    }
}
