//! Mapped files that outlive the content of their file.
//!
//! A file that is shortened while it is mapped takes pages away, and reading one that is gone is `SIGBUS`, which ends the
//! process. A handler for it, set at the first mapping, puts zeros where the pages were and marks the mapping; whoever
//! used it asks [`Mapped::is_lost`] before the result is believed. Every other `SIGBUS` goes to the handler that was
//! there before.

use memmap2::{Mmap, UncheckedAdvice};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A mapping, as the handler finds it: `start..end`, or nothing where `end` is 0.
struct Slot {
    taken: AtomicBool,
    start: AtomicUsize,
    end: AtomicUsize,
    lost: AtomicBool,
}

/// As many mappings as can be watched at a time; a file beyond is not mapped.
const SLOTS: usize = 4096;

/// Fixed and without locks: a signal handler reads it.
static TABLE: [Slot; SLOTS] = [const {
    Slot {
        taken: AtomicBool::new(false),
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        lost: AtomicBool::new(false),
    }
}; SLOTS];

/// Slots above are free: what the handler and a search need not look at.
static USED: AtomicUsize = AtomicUsize::new(0);

/// Whether any mapping was ever lost, so that asking costs a load where none was.
static ANY_LOST: AtomicBool = AtomicBool::new(false);

/// A file in memory, read-only.
pub struct Mapped {
    slot: &'static Slot,
    map: Mmap,
}

impl Mapped {
    /// The file, mapped; `None` where its pages could not be watched.
    pub fn new(file: &File) -> io::Result<Option<Mapped>> {
        if !install() {
            return Ok(None);
        }
        let free =
            |s: &&Slot| s.taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let Some(at) = TABLE.iter().position(|s| free(&s)) else { return Ok(None) };
        let slot = &TABLE[at];
        USED.fetch_max(at + 1, Ordering::Release);
        // SAFETY: the map is read-only and private. What is overwritten in the file shows through, which the
        // documentation of `Blob` says; what is cut off becomes zeros, and is marked.
        let map = unsafe { Mmap::map(file) }.inspect_err(|_| slot.taken.store(false, Ordering::Release))?;
        slot.lost.store(false, Ordering::Relaxed);
        slot.start.store(map.as_ptr().addr(), Ordering::Release);
        // pages are whole, the last one too
        let end = map.as_ptr().addr().saturating_add(map.len()).next_multiple_of(page());
        slot.end.store(end, Ordering::Release);
        Ok(Some(Mapped { slot, map }))
    }
    /// Gives back the memory of whole pages in this range; who reads them again has them from the file again.
    pub fn release(&self, range: std::ops::Range<usize>) {
        let (start, end) = (range.start.next_multiple_of(page()), range.end / page() * page());
        if start < end {
            // SAFETY: the map is of a file and read-only, so its pages come back as they were. That it fails costs memory only.
            _ = unsafe { self.map.unchecked_advise_range(UncheckedAdvice::DontNeed, start, end - start) };
        }
    }
    /// Whether someone read bytes that the file no longer had.
    pub fn is_lost(&self) -> bool {
        self.slot.lost.load(Ordering::Acquire)
    }
}

/// Whether any mapping ever lost bytes: a cheap no before each is asked.
pub fn any_lost() -> bool {
    ANY_LOST.load(Ordering::Acquire)
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // not watched any more before the address belongs to someone else; the map goes after this
        self.slot.end.store(0, Ordering::Release);
        self.slot.start.store(0, Ordering::Release);
        self.slot.taken.store(false, Ordering::Release);
    }
}

fn page() -> usize {
    static PAGE: OnceLock<usize> = OnceLock::new();
    // SAFETY: the call has no precondition.
    *PAGE.get_or_init(|| usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096))
}

/// The handler that was there before ours, and the size of a page: what the handler needs, set before it is.
static BEFORE: OnceLock<(libc::sigaction, usize)> = OnceLock::new();

/// Set the handler, once; whether it is there.
fn install() -> bool {
    static DONE: OnceLock<bool> = OnceLock::new();
    *DONE.get_or_init(|| {
        let mut old = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: only asks for the handler that is there; all zeros is a valid struct to write it to.
        let asked = unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), old.as_mut_ptr()) } == 0;
        // SAFETY: all zeros is a valid `sigaction`, and the call may have overwritten it with another.
        let old = unsafe { old.assume_init() };
        if !asked || BEFORE.set((old, page())).is_err() {
            return false;
        }
        // SAFETY: all zeros is a valid `sigaction`; its fields are set below.
        let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
        new.sa_sigaction = on_bus_error as extern "C" fn(_, _, _) as usize;
        // on the stack that a thread has for signals, if it has one: the fault may be that its own is full
        new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the mask is a field of a live struct; the handler has the signature that `SA_SIGINFO` asks for, and calls
        // nothing that a signal handler may not.
        unsafe {
            libc::sigemptyset(&mut new.sa_mask);
            libc::sigaction(libc::SIGBUS, &new, std::ptr::null_mut()) == 0
        }
    })
}

/// Puts zeros where pages of a watched mapping are gone, from the one that was read to the last.
extern "C" fn on_bus_error(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let Some((before, page)) = BEFORE.get() else { return };
    // SAFETY: the system hands out a valid struct, in which a fault has its address.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    // sent by a process, and not a fault, where the code is not positive
    if code > 0 && replace(address, *page) {
        return;
    }
    pass_on(before, signal, info, context, code > 0);
}

/// Whether the address was in a watched mapping and its page is there again.
fn replace(address: usize, page: usize) -> bool {
    let used = USED.load(Ordering::Acquire).min(SLOTS);
    for slot in &TABLE[..used] {
        let (end, start) = (slot.end.load(Ordering::Acquire), slot.start.load(Ordering::Acquire));
        // the same end twice: the start between is of that mapping, though another thread may give slots away
        if start == 0 || address < start || address >= end || slot.end.load(Ordering::Acquire) != end {
            continue;
        }
        let first = address - address % page;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let place = std::ptr::with_exposed_provenance_mut(first);
        // SAFETY: the pages lie in a mapping that someone is reading, so it lives; errno is kept for whoever was
        // interrupted.
        let ok = keeping_errno(|| unsafe {
            libc::mmap(place, end - first, libc::PROT_READ, flags, -1, 0) != libc::MAP_FAILED
        });
        if ok {
            slot.lost.store(true, Ordering::Release);
            ANY_LOST.store(true, Ordering::Release);
        }
        return ok;
    }
    false
}

fn keeping_errno<T>(f: impl FnOnce() -> T) -> T {
    #[cfg(target_os = "linux")]
    // SAFETY: the address of this thread's errno, which lives as long as the thread.
    let errno = unsafe { libc::__errno_location() };
    #[cfg(not(target_os = "linux"))]
    // SAFETY: as above.
    let errno = unsafe { libc::__error() };
    // SAFETY: as above; no one else has this thread's errno.
    let kept = unsafe { *errno };
    let result = f();
    // SAFETY: as above.
    unsafe { *errno = kept };
    result
}

/// What would have happened without us.
fn pass_on(
    before: &libc::sigaction,
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
    is_fault: bool,
) {
    match before.sa_sigaction {
        // a fault that is ignored happens again at once: the system ends the process for it
        libc::SIG_IGN if !is_fault => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: all zeros is a valid `sigaction`, that of the default. Where this was a fault it happens again once we
            // return; where it was sent, it is sent again.
            unsafe {
                let default: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, &default, std::ptr::null_mut());
                if !is_fault {
                    libc::raise(signal);
                }
            }
        }
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
            // SAFETY: the flag says that the handler is a function of this type.
            let handler: Handler = unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: without the flag a handler that is neither of the two numbers is a function of this type.
            let handler: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}
