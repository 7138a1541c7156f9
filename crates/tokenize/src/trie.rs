//! Texts by their prefixes: which of many begin at a place of a text.

use rustc_hash::FxHashMap;

#[derive(Default)]
pub(crate) struct Trie {
    /// A node and a byte to the next node; the root is node 0.
    steps: FxHashMap<(u32, u8), u32>,
    /// The value of the text that ends at a node.
    values: Vec<Option<u32>>,
}

impl Trie {
    pub fn add(&mut self, text: &str, value: u32) {
        let mut node = 0;
        for byte in text.bytes() {
            let fresh = self.values.len().max(1) as u32;
            node = *self.steps.entry((node, byte)).or_insert(fresh);
            if node == fresh {
                self.values.resize(fresh as usize + 1, None);
            }
        }
        if let Some(place) = self.values.get_mut(node as usize) {
            *place = Some(value);
        }
    }
    /// The texts that `text` begins with, the shortest first: their lengths and values.
    pub fn prefixes<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = (usize, u32)> + 'a {
        let mut node = 0;
        let step = move |(i, byte): (usize, &u8)| {
            node = *self.steps.get(&(node, *byte))?;
            Some((i + 1, self.values.get(node as usize).copied().flatten()))
        };
        text.iter().enumerate().map_while(step).filter_map(|(len, value)| Some((len, value?)))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn prefixes_come_shortest_first() {
        let mut t = super::Trie::default();
        ["a", "abc", "ab", "b", ""].iter().zip(0..).for_each(|(text, v)| t.add(text, v));
        assert_eq!(t.prefixes(b"abd").collect::<Vec<_>>(), [(1, 0), (2, 2)]);
        assert_eq!(t.prefixes(b"c").count(), 0);
    }
}
