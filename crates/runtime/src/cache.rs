//! Compiled kernels on disk, so that the second process need not compile them.
//!
//! A directory of files named by the hash of everything that went into them. A file is written whole under another name
//! and then renamed, carries its key, length and checksum, and is ignored and removed if they do not match. The directory
//! must belong to us and be closed to others' writes, since its files become code. When it grows too large, the files
//! unused for longest go. Whatever fails costs one warning and the cache, never the program.

use crate::env::CacheSetting;
use crate::sys;
use frit_abi::kernel::ABI_VERSION;
use frit_abi::sync::{Mutex, OnceLock};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

/// Who made an entry, and whose entries are used: this version, by the convention its kernels follow.
const MAKER: &str = concat!("frit ", env!("CARGO_PKG_VERSION"));
/// How large the directory may grow.
pub const DEFAULT_LIMIT: u64 = 1 << 30;
const MAGIC: [u8; 8] = *b"fritobj1";
const HEADER: usize = 8 + 4 + 4 + 16 + 8 + 8;
const SUFFIX: &str = "frit";
const HOUR: Duration = Duration::from_secs(3600);

/// The name of an entry: a 128-bit hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Key([u64; 2]);

impl Key {
    /// The hash of these parts, in order; where one ends and the next begins matters.
    pub fn of(parts: &[&[u8]]) -> Key {
        let mut lanes = [0x9e37_79b9_7f4a_7c15u64, 0xc2b2_ae3d_27d4_eb4f];
        let mut absorb = |word: u64| {
            // Each step is a bijection of the lane for a given word, and of the word for a given lane.
            lanes[0] = (lanes[0] ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
            lanes[0] ^= lanes[0] >> 32;
            lanes[1] = (lanes[1].rotate_left(29) ^ word).wrapping_mul(0x9fb2_1c65_1e98_df25);
            lanes[1] ^= lanes[1] >> 29;
        };
        for part in parts {
            absorb(part.len() as u64);
            for chunk in part.chunks(8) {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                absorb(u64::from_le_bytes(word));
            }
        }
        Key(lanes.map(finish))
    }
    fn to_bytes(self) -> [u8; 16] {
        (((self.0[0] as u128) << 64) | self.0[1] as u128).to_le_bytes()
    }
}

/// Murmur's last step: every bit of the input reaches every bit of the output.
fn finish(mut x: u64) -> u64 {
    x = (x ^ x >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ x >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ x >> 33
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.0[0], self.0[1])
    }
}

/// A cache directory, or none.
pub struct DiskCache {
    dir: Option<PathBuf>,
    limit: u64,
    maker: String,
    /// Whether the directory was found fit for use; asked once.
    ready: OnceLock<bool>,
    /// Writing failed; it is not tried again.
    is_full: AtomicBool,
    /// Bytes in the directory as far as we know; `None` before the first write.
    size: Mutex<Option<u64>>,
}

impl DiskCache {
    /// The cache at the place that `setting` names, of at most `limit` bytes. Nothing is touched before it is used.
    pub fn new(setting: CacheSetting, limit: u64) -> DiskCache {
        let dir = match setting {
            CacheSetting::Off => None,
            CacheSetting::At(dir) => Some(dir),
        };
        let (ready, is_full, size) = (OnceLock::new(), AtomicBool::new(false), Mutex::new(None));
        DiskCache { dir, limit, maker: MAKER.into(), ready, is_full, size }
    }
    /// As it would be for another maker of entries: none of theirs is used, and none of ours by them.
    pub fn made_by(mut self, maker: &str) -> DiskCache {
        self.maker = maker.into();
        self
    }
    /// The name of an entry among those of all makers.
    fn full(&self, key: Key) -> Key {
        Key::of(&[self.maker.as_bytes(), &ABI_VERSION.to_le_bytes(), &key.to_bytes()])
    }

    /// What was stored under `key`, if it is there and whole.
    pub fn get(&self, key: Key) -> Option<Vec<u8>> {
        let key = self.full(key);
        let path = self.ready()?.join(file_name(key));
        let content = fs::read(&path).ok()?;
        match payload_of(key, &content) {
            Some(payload) => {
                touch(&path);
                Some(payload.to_vec())
            }
            None => {
                let _ = fs::remove_file(&path);
                None
            }
        }
    }

    /// Store `payload` under `key`; a failure costs a warning, and nothing more is stored.
    pub fn put(&self, key: Key, payload: &[u8]) {
        let Some(dir) = self.ready().filter(|_| !self.is_full.load(Relaxed)) else { return };
        match write_whole(dir, self.full(key), payload) {
            Ok(bytes) => self.account(dir, bytes),
            Err(e) => {
                self.is_full.store(true, Relaxed);
                warn(&format!("cannot write to the cache in {}: {e}", dir.display()));
            }
        }
    }

    /// The directory, once it is known to be ours.
    fn ready(&self) -> Option<&Path> {
        let dir = self.dir.as_deref()?;
        let check = || match sys::private_dir(dir) {
            Ok(()) => true,
            Err(e) => {
                warn(&format!("the cache in {} is not used: {e}", dir.display()));
                false
            }
        };
        self.ready.get_or_init(check).then_some(dir)
    }

    /// Count `bytes` more, and make room if that is too much.
    fn account(&self, dir: &Path, bytes: u64) {
        let mut size = self.size.lock().unwrap_or_else(PoisonError::into_inner);
        let now = size.map_or_else(|| directory_size(dir), |s| s + bytes);
        *size = Some(if now > self.limit { evict(dir, self.limit / 4 * 3) } else { now });
    }
}

/// One warning for the process: whoever has read that a cache does not work knows it of the others beside it.
fn warn(message: &str) {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if !WARNED.swap(true, Relaxed) {
        eprintln!("frit: warning: {message}");
    }
}

fn file_name(key: Key) -> String {
    format!("{key}.{SUFFIX}")
}

fn header(key: Key, payload: &[u8]) -> Vec<u8> {
    let check = Key::of(&[payload]).0[0];
    let mut out = Vec::with_capacity(HEADER + payload.len());
    out.extend(MAGIC);
    out.extend(ABI_VERSION.to_le_bytes());
    out.extend([0; 4]);
    out.extend(key.to_bytes());
    out.extend((payload.len() as u64).to_le_bytes());
    out.extend(check.to_le_bytes());
    out
}

/// The payload of a file's content, if the header is the one it should have.
fn payload_of(key: Key, content: &[u8]) -> Option<&[u8]> {
    let (head, payload) = content.split_at_checked(HEADER)?;
    (head == header(key, payload)).then_some(payload)
}

/// Write an entry under a name of its own, then give it its real one.
fn write_whole(dir: &Path, key: Key, payload: &[u8]) -> io::Result<u64> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let unique = COUNT.fetch_add(1, Relaxed);
    let temporary = dir.join(format!("{key}.{}-{unique}.tmp", std::process::id()));
    let write = |mut file: File| {
        file.write_all(&header(key, payload))?;
        file.write_all(payload)?;
        drop(file);
        fs::rename(&temporary, dir.join(file_name(key)))
    };
    // A process of the past with our number may have died here.
    let _ = fs::remove_file(&temporary);
    let written = sys::private_file(&temporary).and_then(write);
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.map(|()| (HEADER + payload.len()) as u64)
}

/// Remember that an entry was used, at most once an hour.
fn touch(path: &Path) {
    let Ok(file) = File::options().append(true).open(path) else { return };
    let modified = file.metadata().and_then(|m| m.modified());
    if modified.is_ok_and(|t| t.elapsed().is_ok_and(|age| age > HOUR)) {
        let _ = file.set_modified(SystemTime::now());
    }
}

/// Our files in `dir`: last use, size, path.
fn entries(dir: &Path) -> Vec<(SystemTime, u64, PathBuf)> {
    let Ok(list) = fs::read_dir(dir) else { return Vec::new() };
    let ours = |path: &Path| path.extension().is_some_and(|e| e == SUFFIX || e == "tmp");
    let describe = |entry: fs::DirEntry| {
        let meta = entry.metadata().ok().filter(|m| m.is_file())?;
        Some((meta.modified().ok()?, meta.len(), entry.path()))
    };
    list.flatten().filter(|e| ours(&e.path())).filter_map(describe).collect()
}

fn directory_size(dir: &Path) -> u64 {
    entries(dir).iter().map(|(_, bytes, _)| bytes).sum()
}

/// Remove the entries unused for longest until `goal` bytes are left; returns how many are. Files that another process
/// is still writing are young, and stay.
fn evict(dir: &Path, goal: u64) -> u64 {
    let mut all = entries(dir);
    all.sort();
    let mut size = all.iter().map(|(_, bytes, _)| bytes).sum();
    for (used, bytes, path) in all {
        let being_written =
            path.extension().is_some_and(|e| e == "tmp") && used.elapsed().is_ok_and(|age| age < HOUR);
        if size > goal && !being_written && fs::remove_file(path).is_ok() {
            size -= bytes;
        }
    }
    size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_depend_on_every_byte_and_boundary() {
        let keys = [
            Key::of(&[]),
            Key::of(&[b""]),
            Key::of(&[b"", b""]),
            Key::of(&[b"ab"]),
            Key::of(&[b"a", b"b"]),
            Key::of(&[b"ab\0"]),
            Key::of(&[b"abcdefgh", b""]),
            Key::of(&[b"abcdefgh\0"]),
        ];
        for (i, a) in keys.iter().enumerate() {
            assert!(keys[..i].iter().all(|b| a != b && a.0[0] != b.0[0] && a.0[1] != b.0[1]));
        }
        assert_eq!(keys[0].to_string().len(), 32);
    }

    #[test]
    fn keys_of_similar_texts_do_not_collide() {
        let mut seen = std::collections::HashSet::new();
        for i in 0..20_000u32 {
            let key = Key::of(&[format!("kernel {i}").as_bytes()]);
            assert!(seen.insert(key.0[0] >> 24) && seen.insert(key.0[1] >> 24));
        }
    }
}
