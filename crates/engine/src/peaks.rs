//! What devices were measured to do, on disk: the roofline of a recording is drawn from it.

use frit_abi::sync::OnceLock;
use frit_runtime::cache::{DEFAULT_LIMIT, DiskCache, Key};
use frit_runtime::env::CacheSetting;

/// Part of every key: what was measured in another way is not used.
const VERSION: &[u8] = b"peaks 1";

fn cache() -> &'static DiskCache {
    static CACHE: OnceLock<DiskCache> = OnceLock::new();
    CACHE.get_or_init(|| {
        let setting = match frit_runtime::env::cache() {
            CacheSetting::At(dir) => CacheSetting::At(dir.join("peaks")),
            CacheSetting::Off => CacheSetting::Off,
        };
        DiskCache::new(setting, DEFAULT_LIMIT)
    })
}

fn key(about: &str) -> Key {
    Key::of(&[VERSION, about.as_bytes()])
}

/// Arithmetic operations and bytes copied in a second, of the device that is described so; `None` where nobody measured.
pub fn known(about: &str) -> Option<[u64; 2]> {
    let bytes = cache().get(key(about))?;
    let (flops, moved) = std::str::from_utf8(&bytes).ok()?.split_once(' ')?;
    Some([flops.parse().ok()?, moved.parse().ok()?])
}

/// Keep what was measured.
pub fn keep(about: &str, [flops, moved]: [u64; 2]) {
    cache().put(key(about), format!("{flops} {moved}").as_bytes());
}
