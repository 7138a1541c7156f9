//! The cache on disk when things go wrong: other versions, killed processes, no room.

use super::{TempDir, again, cpu, dims, is_child, kernel, text};
use frit_runtime::Device;
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

/// A mapped file that became shorter, and its path.
fn shortened(dir: &TempDir) -> (frit_runtime::Blob, std::path::PathBuf) {
    let path = dir.0.join("weights");
    std::fs::write(&path, vec![7u8; 1 << 20]).unwrap();
    let blob = frit_runtime::Blob::open(&path).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(4096).unwrap();
    (blob, path)
}

#[test]
fn a_mapped_file_that_becomes_shorter_is_an_error_and_the_process_lives() {
    if is_child() {
        let dir = TempDir::new("shrinks");
        let (blob, path) = shortened(&dir);
        let whole = dir.0.join("other");
        std::fs::write(&whole, vec![9u8; 1 << 20]).unwrap();
        let other = frit_runtime::Blob::open(&whole).unwrap();
        // nothing was read of what is gone
        assert_eq!((blob.intact(), blob[0]), (Ok(()), 7));
        let cpu = cpu(2);
        let copy = cpu.load(&kernel("first", 2, 1 << 18, 0, COPY)).unwrap();
        let out = cpu.alloc(1 << 20).unwrap();
        let why = copy.launch(&[&out, &blob.memory(4)], &[], dims(1 << 18)).unwrap_err().to_string();
        assert!(why.contains(&*path.to_string_lossy()), "{why}");
        // what is gone reads as zeros, what is left as it was, and every later use is an error too
        assert_eq!((blob[4096], blob[0], blob[(1 << 20) - 1]), (0, 7, 0));
        assert!(blob.intact().is_err() && blob.memory(4).copy_out(0, &mut [0; 8]).is_err());
        // other files are not concerned
        assert_eq!((other[1 << 19], other.intact()), (9, Ok(())));
        copy.launch(&[&out, &other.memory(4)], &[], dims(1 << 18)).unwrap();
        return;
    }
    let out = again("faults::a_mapped_file_that_becomes_shorter_is_an_error_and_the_process_lives", &[]);
    assert!(out.status.success(), "{}", text(&out));
}

const COPY: &str =
    "float *o = b[0]; const float *x = b[1]; for (int64_t i = begin; i < end; i++) o[i] = x[i];";

#[test]
fn another_bus_error_ends_the_process_as_before() {
    use std::os::unix::process::ExitStatusExt;
    if is_child() {
        let dir = TempDir::new("bus");
        let (watched, path) = shortened(&dir);
        let file = std::fs::File::open(path).unwrap();
        // SAFETY: a new mapping of a file, longer than the file.
        let p = unsafe {
            use std::os::fd::AsRawFd;
            libc::mmap(std::ptr::null_mut(), 1 << 16, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0)
        };
        assert_eq!(watched[1 << 18], 0);
        std::mem::drop(dir);
        println!("so far");
        // SAFETY: it is not: this is the fault that is to end the process.
        unsafe { p.cast::<u8>().add(1 << 15).read_volatile() };
        println!("too far");
        return;
    }
    let out = again("faults::another_bus_error_ends_the_process_as_before", &[]);
    assert_eq!(out.status.signal(), Some(libc::SIGBUS), "{}", text(&out));
    assert!(text(&out).contains("so far") && !text(&out).contains("too far"));
}

#[test]
fn small_files_are_read_and_what_happens_to_them_later_is_not_seen() {
    let dir = TempDir::new("small");
    let path = dir.0.join("small");
    std::fs::write(&path, vec![5u8; 50_000]).unwrap();
    let blob = frit_runtime::Blob::open(&path).unwrap();
    std::fs::write(&path, b"").unwrap();
    assert!(blob.len() == 50_000 && blob.iter().all(|b| *b == 5) && blob.intact().is_ok());
}
