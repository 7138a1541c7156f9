//! The cache on disk when things go wrong: other versions, killed processes, no room.

use super::{TempDir, again, is_child, text};
use frit_runtime::cache::{DEFAULT_LIMIT, DiskCache, Key};
use frit_runtime::env::CacheSetting;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const ENTRIES: u32 = 8;

fn open(dir: &Path) -> DiskCache {
    DiskCache::new(CacheSetting::At(dir.into()), DEFAULT_LIMIT)
}
fn from_parent() -> DiskCache {
    open(Path::new(&std::env::var_os("FRIT_CACHE").unwrap()))
}
fn key(i: u32) -> Key {
    Key::of(&[b"fault", &i.to_le_bytes()])
}
/// Large enough to be killed in.
fn payload(i: u32) -> Vec<u8> {
    (0..200_000u32).flat_map(|n| (n ^ i).to_le_bytes()).collect()
}

#[test]
fn an_entry_of_another_version_is_not_used_and_stays() {
    let dir = TempDir::new("version");
    let (ours, theirs) = (open(&dir.0), open(&dir.0).made_by("frit 0.0.0"));
    theirs.put(key(1), b"theirs");
    assert_eq!(ours.get(key(1)), None);
    ours.put(key(1), b"ours");
    assert_eq!(theirs.get(key(1)).as_deref(), Some(&b"theirs"[..]));
    assert_eq!(open(&dir.0).get(key(1)).as_deref(), Some(&b"ours"[..]));
}

#[test]
fn a_process_killed_while_it_writes_leaves_the_cache_usable() {
    if is_child() {
        let cache = from_parent();
        loop {
            (0..ENTRIES).for_each(|i| cache.put(key(i), &payload(i)));
        }
    }
    let dir = TempDir::new("killed");
    let mut found = 0;
    for round in 0..10 {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "faults::a_process_killed_while_it_writes_leaves_the_cache_usable"]);
        child.env("FRIT_TEST_CHILD", "1").env("FRIT_CACHE", &dir.0).stdout(Stdio::null());
        let mut child = child.spawn().unwrap();
        // somewhere in the middle of something
        std::thread::sleep(Duration::from_millis(60 + 17 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let cache = open(&dir.0);
        for i in 0..ENTRIES {
            let entry = cache.get(key(i));
            found += entry.is_some() as u32;
            assert!(entry.is_none_or(|e| e == payload(i)), "entry {i} is not what was stored");
        }
    }
    assert!(found > 0, "nothing was written at all");
    let cache = open(&dir.0);
    (0..ENTRIES).for_each(|i| cache.put(key(i), &payload(i)));
    assert!((0..ENTRIES).all(|i| cache.get(key(i)) == Some(payload(i))));
}

#[test]
fn a_full_disk_costs_one_warning_and_nothing_else() {
    if is_child() {
        // SAFETY: a limit and the handling of a signal of this process, which runs this one test.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            let limit = libc::rlimit { rlim_cur: 4096, rlim_max: 4096 };
            assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
        }
        let cache = from_parent();
        cache.put(key(0), b"there is room for this");
        cache.put(key(1), &payload(1));
        cache.put(key(2), &payload(2));
        assert!(cache.get(key(0)).is_some() && cache.get(key(1)).is_none());
        // another cache of the process is as full, and says nothing of it
        let dir = std::env::var_os("FRIT_CACHE").unwrap();
        open(&Path::new(&dir).join("beside")).put(key(1), &payload(1));
        return;
    }
    let dir = TempDir::new("full");
    let out = again("faults::a_full_disk_costs_one_warning_and_nothing_else", &[("FRIT_CACHE", &dir.0)]);
    assert!(out.status.success(), "{}", text(&out));
    assert_eq!(text(&out).matches("frit: warning").count(), 1, "{}", text(&out));
    let left = dir.files().into_iter().filter(|f| f.extension().is_some_and(|e| e == "tmp")).count();
    assert_eq!(left, 0, "no half file is left");
}
