//! Linux, and as far as it goes the other Unixes.

use memmap2::{Mmap, MmapMut};
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
#[cfg(not(target_os = "linux"))]
use std::sync::atomic::{AtomicU64, Ordering};

/// Machine code in memory: readable and, in its first part, executable. Never writable once it exists.
pub struct CodePages {
    map: Mmap,
}

impl CodePages {
    /// Map `len` zeroed bytes, let `fill` write them knowing their address, then make the first `code` bytes (whole
    /// pages) executable and all of them read-only.
    pub fn build(len: usize, code: usize, fill: impl FnOnce(&mut [u8], usize)) -> io::Result<CodePages> {
        if code > len {
            return Err(io::Error::other("more code than there is memory for it"));
        }
        let mut map = MmapMut::map_anon(len.max(1))?;
        let base = map.as_ptr() as usize;
        fill(&mut map[..len], base);
        let map = map.make_read_only()?;
        // SAFETY: the range lies in the mapping we own; nothing writes to it any more.
        if unsafe { libc::mprotect(map.as_ptr() as *mut _, code, libc::PROT_READ | libc::PROT_EXEC) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(CodePages { map })
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

/// Memory between two pages that cannot be touched.
pub struct GuardedPages {
    base: *mut libc::c_void,
    len: usize,
    page: usize,
}

// SAFETY: it owns its mapping; nothing in it is tied to a thread.
unsafe impl Send for GuardedPages {}
// SAFETY: a shared one only hands out its address.
unsafe impl Sync for GuardedPages {}

impl GuardedPages {
    /// At least `bytes` zeroed bytes.
    pub fn new(bytes: usize) -> Option<GuardedPages> {
        // SAFETY: the call has no precondition.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
        let inside = bytes.max(1).checked_next_multiple_of(page)?;
        let len = inside.checked_add(2 * page)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping anywhere; its result is checked.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return None;
        }
        let pages = GuardedPages { base, len, page };
        // SAFETY: the pages between the first and the last of the mapping that was just made.
        let ok = unsafe { libc::mprotect(pages.start().cast(), inside, libc::PROT_READ | libc::PROT_WRITE) };
        (ok == 0).then_some(pages)
    }
    /// The first byte that may be touched.
    pub fn start(&self) -> *mut u8 {
        self.base.cast::<u8>().wrapping_add(self.page)
    }
    /// One past the last.
    pub fn end(&self) -> *mut u8 {
        self.base.cast::<u8>().wrapping_add(self.len - self.page)
    }
}

impl Drop for GuardedPages {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no one uses it any more.
        unsafe { libc::munmap(self.base, self.len) };
    }
}

/// A file for a child process to read or write, which leaves nothing behind: it has no name in any directory.
#[cfg(target_os = "linux")]
pub struct ScratchFile {
    file: File,
}

#[cfg(target_os = "linux")]
impl ScratchFile {
    /// An empty file.
    pub fn create() -> io::Result<ScratchFile> {
        use std::os::fd::FromRawFd;
        // SAFETY: the name is a C string; the call has no other precondition.
        let fd = unsafe { libc::memfd_create(c"frit".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor the kernel has just given us, owned by no one else.
        Ok(ScratchFile { file: unsafe { File::from_raw_fd(fd) } })
    }
    /// A path under which child processes can open it while this value lives.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }
    /// The file itself.
    pub fn file(&self) -> &File {
        &self.file
    }
}

/// A file for a child process to read or write, removed when dropped.
#[cfg(not(target_os = "linux"))]
pub struct ScratchFile {
    file: File,
    path: PathBuf,
}

#[cfg(not(target_os = "linux"))]
impl ScratchFile {
    /// An empty file in the temporary directory that only we can read.
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

#[cfg(not(target_os = "linux"))]
impl Drop for ScratchFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Create a file that was not there, readable and writable by its owner only.
pub fn private_file(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Make sure that `path` is a directory that no one but its owner, us, can write to; create it if it is missing.
pub fn private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let meta = std::fs::metadata(path)?;
    // SAFETY: no preconditions.
    let me = unsafe { libc::geteuid() };
    if !meta.is_dir() {
        return Err(io::Error::other("it is not a directory"));
    }
    if meta.uid() != me {
        return Err(io::Error::other(format!("it belongs to user {}, not to user {me}", meta.uid())));
    }
    if meta.mode() & 0o022 != 0 {
        let mode = meta.mode() & 0o777;
        return Err(io::Error::other(format!("others may write to it (mode {mode:o}); chmod 700 would do")));
    }
    Ok(())
}

/// Fill `data` from a place in a file, wherever others read and write it.
pub fn read_at(file: &File, offset: u64, data: &mut [u8]) -> io::Result<()> {
    file.read_exact_at(data, offset)
}

/// Write `data` to a place in a file, wherever others read and write it.
pub fn write_at(file: &File, offset: u64, data: &[u8]) -> io::Result<()> {
    file.write_all_at(data, offset)
}

/// Bytes of main memory, as far as the system says.
pub fn physical_memory() -> Option<usize> {
    // SAFETY: no preconditions.
    let (pages, size) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    usize::try_from(pages).ok()?.checked_mul(usize::try_from(size).ok()?)
}

/// Ask for large pages behind a part of `map`; a hint.
pub fn advise_huge(map: &MmapMut) {
    #[cfg(target_os = "linux")]
    let _ = map.advise(memmap2::Advice::HugePage);
    #[cfg(not(target_os = "linux"))]
    let _ = map;
}

/// Processor time this thread has had: a busy machine does not count.
pub fn thread_time() -> std::time::Duration {
    // SAFETY: all bits zero is a valid timespec, and the call writes nothing but it.
    let mut t: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: `t` is a live timespec, and the clock id is one the system knows.
    let ok = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) } == 0;
    if ok { std::time::Duration::new(t.tv_sec as u64, t.tv_nsec as u32) } else { std::time::Duration::ZERO }
}

/// Whether the system lets this process use tile registers; asked for once.
pub fn allow_tiles() -> bool {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    {
        static ALLOWED: frit_abi::sync::OnceLock<bool> = frit_abi::sync::OnceLock::new();
        const REQUEST_PERMISSION: libc::c_long = 0x1023;
        const TILE_DATA: libc::c_long = 18;
        // SAFETY: the call takes two numbers and changes nothing but what this process may use.
        let ask = || unsafe { libc::syscall(libc::SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) } == 0;
        *ALLOWED.get_or_init(ask)
    }
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    false
}

/// A library that is opened at run time.
pub struct Library(*mut libc::c_void);

impl Library {
    /// The library of this name or path; the error is the system's.
    pub fn open(name: &str) -> Result<Library, String> {
        let path = std::ffi::CString::new(name).map_err(|e| e.to_string())?;
        // SAFETY: the name ends with a zero byte. What a library does when it is opened is its own affair.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if !handle.is_null() {
            return Ok(Library(handle));
        }
        // SAFETY: the message is the system's, of this thread's last call.
        let message = unsafe { libc::dlerror() };
        if message.is_null() {
            return Err("it cannot be opened".into());
        }
        // SAFETY: a string of the system's that lasts until the next call of this kind.
        Err(unsafe { std::ffi::CStr::from_ptr(message) }.to_string_lossy().into_owned())
    }
    /// Where a name of it is.
    pub fn find(&self, name: &str) -> Option<*const libc::c_void> {
        let name = std::ffi::CString::new(name).ok()?;
        // SAFETY: the library is open, the name ends with a zero byte.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!found.is_null()).then_some(found.cast_const())
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: opened by `open`.
        unsafe { libc::dlclose(self.0) };
    }
}
