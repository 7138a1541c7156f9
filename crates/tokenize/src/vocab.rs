//! Tokens and their numbers.

use rustc_hash::FxHashMap;

#[derive(Default)]
pub(crate) struct Vocab {
    ids: FxHashMap<String, u32>,
    tokens: FxHashMap<u32, String>,
    size: usize,
}

impl Vocab {
    pub fn add(&mut self, token: &str, id: u32) {
        self.size = self.size.max(id as usize + 1);
        self.ids.insert(token.to_string(), id);
        self.tokens.insert(id, token.to_string());
    }
    pub fn id(&self, token: &str) -> Option<u32> {
        self.ids.get(token).copied()
    }
    pub fn token(&self, id: u32) -> Option<&str> {
        self.tokens.get(&id).map(String::as_str)
    }
    pub fn size(&self) -> usize {
        self.size
    }
}
