//! Systems that are not Unixes: what `memmap2` and the standard library give.

use memmap2::{Mmap, MmapMut};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Machine code in memory: readable and executable. Never writable once it exists.
pub struct CodePages {
    map: Mmap,
}

impl CodePages {
    /// Map `len` zeroed bytes, let `fill` write them knowing their address, then make them executable.
    pub fn build(len: usize, code: usize, fill: impl FnOnce(&mut [u8], usize)) -> io::Result<CodePages> {
        if code > len {
            return Err(io::Error::other("more code than there is memory for it"));
        }
        let mut map = MmapMut::map_anon(len.max(1))?;
        let base = map.as_ptr() as usize;
        fill(&mut map[..len], base);
        Ok(CodePages { map: map.make_exec()? })
    }
    /// Where it starts.
    pub fn address(&self) -> usize {
        self.map.as_ptr() as usize
    }
    /// What is in it.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }
}

/// A file for a child process to read or write, removed when dropped.
pub struct ScratchFile {
    file: File,
    path: PathBuf,
}

impl ScratchFile {
    /// An empty file in the temporary directory.
    pub fn create() -> io::Result<ScratchFile> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let unique = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("frit-{}-{}", unique.0, unique.1));
        let file = private_file(&path)?;
        Ok(ScratchFile { file, path })
    }
    /// A path under which child processes can open it while this value lives.
    pub fn path(&self) -> PathBuf {
        self.path.clone()
    }
    /// The file itself.
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A file in memory, read-only. Elsewhere it could be shortened meanwhile; here the system does not let anyone.
pub struct Mapped {
    map: Mmap,
}

impl Mapped {
    /// The file, mapped.
    pub fn new(file: &File) -> io::Result<Option<Mapped>> {
        // SAFETY: the map is read-only, and a mapped file cannot be shortened. What is overwritten shows through, which
        // the documentation of `Blob` says.
        Ok(Some(Mapped { map: unsafe { Mmap::map(file) }? }))
    }
    /// Pages stay where they are.
    pub fn release(&self, _range: std::ops::Range<usize>) {}
    /// Never.
    pub fn is_lost(&self) -> bool {
        false
    }
}

/// Never.
pub fn any_lost() -> bool {
    false
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}

/// Create a file that was not there.
pub fn private_file(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create_new(true).open(path)
}

/// Make sure that `path` is a directory.
pub fn private_dir(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

/// A file has one position for all: whoever moves it has the turn.
static POSITION: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Fill `data` from a place in a file, wherever others read and write it.
pub fn read_at(mut file: &File, offset: u64, data: &mut [u8]) -> io::Result<()> {
    let _turn = POSITION.lock().unwrap_or_else(|e| e.into_inner());
    file.seek(io::SeekFrom::Start(offset))?;
    file.read_exact(data)
}

/// Write `data` to a place in a file, wherever others read and write it.
pub fn write_at(mut file: &File, offset: u64, data: &[u8]) -> io::Result<()> {
    let _turn = POSITION.lock().unwrap_or_else(|e| e.into_inner());
    file.seek(io::SeekFrom::Start(offset))?;
    file.write_all(data)
}

/// Bytes of main memory: not known here.
pub fn physical_memory() -> Option<usize> {
    None
}

/// Ask for large pages: not here.
pub fn advise_huge(_map: &MmapMut) {}

/// Processor time this thread has had; here the time since the first call, since no other clock is known.
pub fn thread_time() -> std::time::Duration {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed()
}

/// Memory between two pages that cannot be touched: not on this system.
pub struct GuardedPages {
    never: std::convert::Infallible,
}

impl GuardedPages {
    /// None here.
    pub fn new(_bytes: usize) -> Option<GuardedPages> {
        None
    }
    /// The first byte that may be touched.
    pub fn start(&self) -> *mut u8 {
        match self.never {}
    }
    /// One past the last.
    pub fn end(&self) -> *mut u8 {
        match self.never {}
    }
}

/// Whether the system lets this process use tile registers.
pub fn allow_tiles() -> bool {
    false
}

/// A library that is opened at run time: not here yet.
pub struct Library;

impl Library {
    /// An error.
    pub fn open(_name: &str) -> Result<Library, String> {
        Err("libraries are not opened at run time on this system yet".into())
    }
    /// Nothing.
    pub fn find(&self, _name: &str) -> Option<*const std::ffi::c_void> {
        None
    }
}
