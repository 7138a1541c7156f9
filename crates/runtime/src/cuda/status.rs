//! Where kernels report accesses that missed: a word each, in pinned memory, so that a look costs the host no copy.

use super::context::Context;
use super::memory::Pinned;
use crate::Error;
use frit_abi::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};

/// Words in a page of them.
const WORDS: usize = 1024;

/// The words of a device's kernels.
pub struct Statuses {
    context: Arc<Context>,
    pages: Mutex<Vec<Page>>,
}

struct Page {
    memory: Arc<Pinned>,
    /// The kernel that has each word.
    owners: Vec<Option<String>>,
}

/// A kernel's word.
pub struct Status {
    statuses: Arc<Statuses>,
    memory: Arc<Pinned>,
    word: usize,
}

impl Statuses {
    /// None yet.
    pub fn new(context: &Arc<Context>) -> Statuses {
        Statuses { context: context.clone(), pages: Mutex::new(vec![]) }
    }
    /// A word for a kernel, zero.
    pub fn word(self: &Arc<Self>, kernel: &str) -> Result<Status, Error> {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        if pages.iter().all(|p| p.free().is_none()) {
            let memory = Arc::new(Pinned::new(&self.context, WORDS * size_of::<u32>())?);
            pages.push(Page { memory, owners: vec![None; WORDS] });
        }
        let found = pages.iter_mut().find_map(|p| p.free().map(|word| (p, word)));
        let (page, word) = found.ok_or_else(|| Error::Device("no status word".into()))?;
        page.owners[word] = Some(kernel.into());
        word_of(&page.memory, word).store(0, Relaxed);
        Ok(Status { statuses: self.clone(), memory: page.memory.clone(), word })
    }
    /// The first miss of all that has run, which is forgotten with all others.
    pub fn take(&self) -> Result<(), Error> {
        let pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        let mut first = Ok(());
        for page in pages.iter() {
            for (word, owner) in page.owners.iter().enumerate() {
                let Some(kernel) = owner else { continue };
                let status = word_of(&page.memory, word);
                if status.load(Acquire) != 0 {
                    let miss = Error::Index { kernel: kernel.clone(), site: status.swap(0, Relaxed) - 1 };
                    first = first.and(Err(miss));
                }
            }
        }
        first
    }
}

impl Page {
    fn free(&self) -> Option<usize> {
        self.owners.iter().position(Option::is_none)
    }
}

impl Status {
    /// Where the kernel writes it.
    pub fn address(&self) -> u64 {
        self.memory.start() as u64 + (self.word * size_of::<u32>()) as u64
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        let mut pages = self.statuses.pages.lock().unwrap_or_else(PoisonError::into_inner);
        for page in pages.iter_mut().filter(|p| Arc::ptr_eq(&p.memory, &self.memory)) {
            page.owners[self.word] = None;
        }
    }
}

fn word_of(memory: &Pinned, word: usize) -> &AtomicU32 {
    // SAFETY: a page has this many words, aligned as pages are, and the host looks at them only in this way.
    unsafe { &*memory.start().cast::<AtomicU32>().add(word) }
}
