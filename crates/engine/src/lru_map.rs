//! Caches that are bounded.

use rustc_hash::FxHashMap;
use std::hash::Hash;

/// A map that forgets the half that was asked for longest ago when it is full.
pub(crate) struct LruMap<K, V> {
    map: FxHashMap<K, (V, u64)>,
    clock: u64,
    capacity: usize,
}

impl<K: Hash + Eq, V: Clone> LruMap<K, V> {
    pub(crate) fn new(capacity: usize) -> Self {
        LruMap { map: FxHashMap::default(), clock: 0, capacity }
    }
    pub(crate) fn get(&mut self, k: &K) -> Option<V> {
        self.clock += 1;
        let entry = self.map.get_mut(k)?;
        entry.1 = self.clock;
        Some(entry.0.clone())
    }
    pub(crate) fn insert(&mut self, k: K, v: V) {
        if self.map.len() >= self.capacity {
            let mut ages: Vec<u64> = self.map.values().map(|v| v.1).collect();
            let (_, &mut median, _) = ages.select_nth_unstable(self.capacity / 2);
            self.map.retain(|_, v| v.1 > median);
        }
        self.clock += 1;
        self.map.insert(k, (v, self.clock));
    }
    pub(crate) fn clear(&mut self) {
        self.map.clear();
    }
}
