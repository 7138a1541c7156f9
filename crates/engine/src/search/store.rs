//! The opts that searches found, on disk, in a place of its own: it can be shipped with an application.

use frit_abi::Target;
use frit_abi::sync::OnceLock;
use frit_codegen::Opt;
use frit_runtime::cache::{DEFAULT_LIMIT, DiskCache, Key};
use frit_runtime::env::CacheSetting;
use frit_uop::{UOp, text};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Part of every key: results of another search are not used.
const VERSION: &[u8] = b"tuned 4";

struct Found {
    cache: DiskCache,
    /// Whether there is anything: most machines have never searched, and need not look for every kernel.
    any: AtomicBool,
}

fn found() -> &'static Found {
    static FOUND: OnceLock<Found> = OnceLock::new();
    FOUND.get_or_init(|| {
        let (setting, any) = match frit_runtime::env::cache() {
            CacheSetting::At(dir) => (CacheSetting::At(dir.join("tuned")), dir.join("tuned").is_dir()),
            CacheSetting::Off => (CacheSetting::Off, false),
        };
        Found { cache: DiskCache::new(setting, DEFAULT_LIMIT), any: AtomicBool::new(any) }
    })
}

fn key(ast: &UOp, target: &Target) -> Key {
    // everything a target says, its limits and the number of its threads too
    Key::of(&[VERSION, text::print(ast).as_bytes(), format!("{target:?}").as_bytes()])
}

/// The opts that an earlier search found for a kernel on such a machine, if they are still legal.
pub fn remembered(ast: &UOp, target: &Target) -> Option<Vec<Opt>> {
    let found = found();
    if !found.any.load(Relaxed) {
        return None;
    }
    let bytes = found.cache.get(key(ast, target))?;
    let lines = std::str::from_utf8(&bytes).ok()?.lines();
    let opts: Vec<Opt> = lines.map(|l| l.parse().ok()).collect::<Option<_>>()?;
    frit_codegen::plan(ast, target, &opts).ok().map(|_| opts)
}

/// Keep what a search found.
pub fn remember(ast: &UOp, target: &Target, opts: &[Opt]) {
    let lines: Vec<String> = opts.iter().map(Opt::to_string).collect();
    found().cache.put(key(ast, target), lines.join("\n").as_bytes());
    found().any.store(true, Relaxed);
}
