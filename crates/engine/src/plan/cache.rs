//! Keys of what is planned once for a structure.

use crate::kernel::choice;
use crate::lru_map::LruMap;
use frit_abi::sync::{LazyLock, Mutex, MutexGuard};
use frit_uop::{UOp, origin};
use std::sync::Arc;

/// Structure, device, the seed of random opts, and the names of parts where these are wanted.
pub(crate) type Key = (UOp, Arc<str>, Option<u64>, u64);
pub(crate) type Cache<V> = LazyLock<Mutex<LruMap<Key, Arc<V>>>>;

pub(crate) fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}

/// The key of a structure on a device, for this thread.
pub(crate) fn key(structure: &UOp, device: &Arc<str>) -> Key {
    (structure.clone(), device.clone(), choice::seed(), origin::fingerprint(structure))
}
