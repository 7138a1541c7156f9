//! Tokens and their numbers.

use rustc_hash::FxHashMap;
use std::sync::Arc;

#[derive(Default)]
pub(crate) struct Vocab {
    ids: FxHashMap<Arc<str>, u32>,
    tokens: FxHashMap<u32, Arc<str>>,
    size: usize,
}

impl Vocab {
    pub fn add(&mut self, token: &str, id: u32) {
        self.size = self.size.max(id as usize + 1);
        let token: Arc<str> = token.into();
        self.ids.insert(token.clone(), id);
        self.tokens.insert(id, token);
    }
    pub fn id(&self, token: &str) -> Option<u32> {
        self.ids.get(token).copied()
    }
    pub fn token(&self, id: u32) -> Option<&str> {
        self.tokens.get(&id).map(Arc::as_ref)
    }
    pub fn size(&self) -> usize {
        self.size
    }
    /// The tokens that stand for bytes, `<0x00>` to `<0xFF>`, if all are there.
    pub fn bytes(&self) -> Option<Box<[u32; 256]>> {
        let ids: Option<Vec<u32>> = (0..256).map(|b| self.id(&format!("<0x{b:02X}>"))).collect();
        ids?.try_into().ok().map(Box::new)
    }
}
