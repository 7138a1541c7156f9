//! What makes a fork safe while other threads work.
//!
//! A child has one thread, the one that forked, and a copy of everything else: a lock that another thread held stays
//! locked for ever, and what it was about to change is half changed. So a fork waits until no other thread is inside a
//! [`Section`], and lets none in until it is done. Every lock of [`crate::sync`] is held inside one.
//!
//! ```text
//! thread    depth += 1;  is a fork under way?  depth -= 1, wait, again
//! fork      wait for work, let none begin;  take the turns;  a fork is under way;  wait until all other depths are 0;  fork
//! ```
//!
//! Both write before they read, so at least one of them sees the other. A section is begun far more often than a process is
//! forked, so where the system can make every thread's writes seen (`membarrier`), the fork asks for that, and beginning a
//! section takes no fence. A section inside a section
//! goes on, so there is no order of locks to keep; what a section must not do is wait for another thread. Work that does is
//! done in [`Turns`], which a fork takes like anyone else, before it keeps others out; or as [`Work`], of which threads do
//! several at a time and which may take turns, so a fork waits for that before it takes them.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::ptr::{self, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, compiler_fence, fence};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How deep a thread is in sections. They are never freed, and used again by other threads.
#[repr(align(64))]
struct Slot {
    depth: AtomicUsize,
    /// How deep it is in [`Work`].
    working: AtomicUsize,
    taken: AtomicBool,
    next: AtomicPtr<Slot>,
}

impl Slot {
    const fn new() -> Slot {
        Slot {
            depth: AtomicUsize::new(0),
            working: AtomicUsize::new(0),
            taken: AtomicBool::new(true),
            next: AtomicPtr::new(null_mut()),
        }
    }
}

/// The slot of all threads that are so near their end that they have none of their own.
static STRAYS: Slot = Slot::new();
/// All other slots: a list that only grows.
static SLOTS: AtomicPtr<Slot> = AtomicPtr::new(null_mut());
/// What a thread that begins a section or work must know: [`FENCED`], [`FORKING`], [`WAITING`].
static STATE: AtomicUsize = AtomicUsize::new(FENCED);
/// The system has no [`membarrier`], or was not asked yet.
const FENCED: usize = 1;
/// A fork is under way.
const FORKING: usize = 2;
/// A fork waits for work to end, or has done so: none begins.
const WAITING: usize = 4;
/// How long a fork waits for work at most: that may wait for a lock of whoever forks.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many forks lie between the process that asked first and this one.
static GENERATION: AtomicU64 = AtomicU64::new(0);
/// How many forks this process and those it comes from have made.
static FORKS: AtomicU64 = AtomicU64::new(0);
/// All turns that were ever taken: a list that only grows.
static TURNS: AtomicPtr<Turns> = AtomicPtr::new(null_mut());

/// Gives a thread's slot back when the thread ends.
struct Lease;

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(slot) = SLOT.replace(Some(&STRAYS)) {
            slot.taken.store(false, Ordering::Release);
        }
    }
}

/// What a thread that forks holds meanwhile.
#[derive(Default)]
struct Held {
    /// How many times it said that it is about to.
    depth: usize,
    /// Whether no one else works, and none begins.
    has_waited: bool,
    /// Whether no one else is in a section.
    is_alone: bool,
    turns: Vec<Turn>,
}

thread_local! {
    static SLOT: Cell<Option<&'static Slot>> = const { Cell::new(None) };
    static LEASE: Lease = const { Lease };
    static FORKS_HERE: Cell<bool> = const { Cell::new(false) };
    static HELD: RefCell<Held> = RefCell::default();
}

fn slots() -> impl Iterator<Item = &'static Slot> {
    let mut at = SLOTS.load(Ordering::Acquire);
    std::iter::from_fn(move || {
        // SAFETY: what is on the list was leaked by `lease`
        let slot = unsafe { at.as_ref() }?;
        at = slot.next.load(Ordering::Acquire);
        Some(slot)
    })
    .chain([&STRAYS])
}

#[inline]
fn slot() -> &'static Slot {
    SLOT.get().unwrap_or_else(lease)
}

#[cold]
fn lease() -> &'static Slot {
    watch();
    let lease = || {
        let free =
            |s: &&Slot| s.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
        slots().find(free).unwrap_or_else(|| {
            let slot: &'static Slot = Box::leak(Box::new(Slot::new()));
            let mut first = SLOTS.load(Ordering::Acquire);
            loop {
                slot.next.store(first, Ordering::Release);
                let new = ptr::from_ref(slot).cast_mut();
                match SLOTS.compare_exchange_weak(first, new, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => return slot,
                    Err(now) => first = now,
                }
            }
        })
    };
    let slot = LEASE.try_with(|_| lease()).unwrap_or(&STRAYS);
    SLOT.set(Some(slot));
    slot
}

/// A part of the work that a fork does not cut in two. It must not wait for another thread.
pub struct Section {
    slot: &'static Slot,
    /// It belongs to its thread.
    here: PhantomData<*const ()>,
}

/// Begin a section.
#[inline]
pub fn section() -> Section {
    let slot = slot();
    if ptr::eq(slot, &STRAYS) {
        slot.depth.fetch_add(1, Ordering::SeqCst);
        look(slot);
        return Section { slot, here: PhantomData };
    }
    // no other thread writes to this slot
    let depth = slot.depth.load(Ordering::Relaxed);
    slot.depth.store(depth + 1, Ordering::Relaxed);
    if depth == 0 {
        // the compiler must keep the order; that the machine does is seen to by the fork, or below
        compiler_fence(Ordering::SeqCst);
        if STATE.load(Ordering::Relaxed) != 0 {
            look(slot);
        }
    }
    Section { slot, here: PhantomData }
}

impl Drop for Section {
    #[inline]
    fn drop(&mut self) {
        match ptr::eq(self.slot, &STRAYS) {
            false => self.slot.depth.store(self.slot.depth.load(Ordering::Relaxed) - 1, Ordering::Release),
            true => _ = self.slot.depth.fetch_sub(1, Ordering::Release),
        }
    }
}

fn is_forking() -> bool {
    STATE.load(Ordering::SeqCst) & FORKING != 0
}

/// Wait outside while a fork is under way.
#[cold]
fn look(slot: &Slot) {
    fence(Ordering::SeqCst);
    while is_forking() && !FORKS_HERE.get() {
        slot.depth.fetch_sub(1, Ordering::SeqCst);
        wait(is_forking);
        slot.depth.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }
}

fn wait(mut busy: impl FnMut() -> bool) {
    let mut times = 0;
    while busy() {
        times += 1;
        if times < 64 { std::thread::yield_now() } else { std::thread::sleep(Duration::from_micros(50)) }
    }
}

/// Long work that several threads may do at a time, until it is dropped. It may wait for other threads, but not for one that
/// waits to begin some. A fork waits for its end, so a child does not see it half done; where that takes too long, the
/// child is to ask for the [`generation`] of who was at it.
pub struct Work {
    slot: &'static Slot,
    /// It belongs to its thread.
    here: PhantomData<*const ()>,
}

/// Begin work; inside other work of this thread it goes on.
pub fn work() -> Work {
    let slot = slot();
    let waiting = || STATE.load(Ordering::SeqCst) & WAITING != 0;
    loop {
        let is_nested = slot.working.fetch_add(1, Ordering::SeqCst) > 0 && !ptr::eq(slot, &STRAYS);
        if is_nested || FORKS_HERE.get() || !waiting() {
            return Work { slot, here: PhantomData };
        }
        slot.working.fetch_sub(1, Ordering::SeqCst);
        wait(waiting);
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.slot.working.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Long work that threads do one at a time. A fork waits for its turn, so a child never sees such work half done.
pub struct Turns {
    lock: Mutex<()>,
    /// The slot of the thread whose turn it is.
    holder: AtomicPtr<Slot>,
    is_listed: AtomicBool,
    next: AtomicPtr<Turns>,
}

/// The turn of this thread, until it is dropped.
pub struct Turn {
    of: &'static Turns,
    _guard: MutexGuard<'static, ()>,
}

impl Turns {
    /// Nobody's turn.
    pub const fn new() -> Turns {
        Turns {
            lock: Mutex::new(()),
            holder: AtomicPtr::new(null_mut()),
            is_listed: AtomicBool::new(false),
            next: AtomicPtr::new(null_mut()),
        }
    }
    /// Wait until it is this thread's turn. It must not have another one already.
    pub fn take(&'static self) -> Turn {
        let slot = slot();
        if !self.is_listed.swap(true, Ordering::AcqRel) {
            let mut first = TURNS.load(Ordering::Acquire);
            loop {
                self.next.store(first, Ordering::Release);
                let new = ptr::from_ref(self).cast_mut();
                match TURNS.compare_exchange_weak(first, new, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => break,
                    Err(now) => first = now,
                }
            }
        }
        let guard = self.lock.lock().unwrap_or_else(|e| e.into_inner());
        self.holder.store(ptr::from_ref(slot).cast_mut(), Ordering::Relaxed);
        Turn { of: self, _guard: guard }
    }
}

impl Default for Turns {
    fn default() -> Turns {
        Turns::new()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.of.holder.store(null_mut(), Ordering::Relaxed);
    }
}

/// Wait until every other thread is outside its sections, and let none in before [`release`]. May be nested.
///
/// A thread that forks inside a section of its own, as a signal handler may, waits for no one: others may wait for it. One
/// that forks inside work of its own does not wait for work.
pub fn hold() {
    begin();
    wait(|| !keep_out(Duration::from_secs(1)));
}

/// The first half of [`hold`], for those that hold a lock which others may wait for at work, in their turn or inside a
/// section: wait for work and take all turns, without that lock.
pub fn begin() {
    watch();
    let me = slot();
    let _ = HELD.try_with(|h| {
        let mut h = h.borrow_mut();
        h.depth += 1;
        if h.depth > 1 {
            return;
        }
        FORKS_HERE.set(true);
        if me.depth.load(Ordering::Relaxed) > 0 {
            return;
        }
        if me.working.load(Ordering::Relaxed) == 0 {
            wait(|| STATE.fetch_or(WAITING, Ordering::SeqCst) & WAITING != 0);
            h.has_waited = true;
            let end = Instant::now() + PATIENCE;
            slots().for_each(|s| wait(|| s.working.load(Ordering::SeqCst) > 0 && Instant::now() < end));
        }
        let mut at = TURNS.load(Ordering::Acquire);
        // SAFETY: what is on the list is static
        while let Some(turns) = unsafe { at.as_ref() } {
            if !ptr::eq(turns.holder.load(Ordering::Relaxed), me) {
                h.turns.push(turns.take());
            }
            at = turns.next.load(Ordering::Acquire);
        }
    });
}

/// The second half of [`hold`], with that lock, since others may hold it while they are kept out: whether all were outside
/// within that time. Where they were not, let go of the lock for a moment and try again.
pub fn keep_out(within: Duration) -> bool {
    let me = slot();
    let kept = HELD.try_with(|h| {
        let mut h = h.borrow_mut();
        if h.depth > 1 || h.is_alone || me.depth.load(Ordering::Relaxed) > 0 {
            return true;
        }
        let end = Instant::now() + within;
        let late = || Instant::now() > end;
        let mut mine = false;
        wait(|| {
            mine = STATE.fetch_or(FORKING, Ordering::SeqCst) & FORKING == 0;
            !mine && !late()
        });
        if !mine {
            return false;
        }
        fence(Ordering::SeqCst);
        if STATE.load(Ordering::SeqCst) & FENCED == 0 && !membarrier(BARRIER) {
            // cannot be, since it was agreed on; what a thread wrote is seen after a moment all the same
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut others = slots().filter(|s| !ptr::eq(*s, me));
        h.is_alone = others.all(|slot| {
            wait(|| slot.depth.load(Ordering::SeqCst) > 0 && !late());
            slot.depth.load(Ordering::SeqCst) == 0
        });
        if !h.is_alone {
            STATE.fetch_and(!FORKING, Ordering::SeqCst);
        }
        h.is_alone
    });
    kept.unwrap_or(true)
}

/// Let the other threads go on after [`hold`].
pub fn release() {
    let _ = HELD.try_with(|h| {
        let mut h = h.borrow_mut();
        h.depth = h.depth.saturating_sub(1);
        if h.depth > 0 {
            return;
        }
        FORKS_HERE.set(false);
        if std::mem::take(&mut h.is_alone) {
            STATE.fetch_and(!FORKING, Ordering::SeqCst);
        }
        h.turns.clear();
        if std::mem::take(&mut h.has_waited) {
            STATE.fetch_and(!WAITING, Ordering::SeqCst);
        }
    });
}

/// How many forks lie between the process that asked first and this one: what belongs to a thread or a process is gone
/// where this differs from what it was.
pub fn generation() -> u64 {
    watch();
    GENERATION.load(Ordering::SeqCst)
}

/// How many forks this process and those it comes from have made: no two children of one process have the same.
pub fn count() -> u64 {
    FORKS.load(Ordering::SeqCst)
}

/// Let the system call us at each fork.
#[cfg(unix)]
fn watch() {
    static WATCHES: AtomicBool = AtomicBool::new(false);
    extern "C" fn before() {
        FORKS.fetch_add(1, Ordering::SeqCst);
        hold();
    }
    extern "C" fn in_parent() {
        release();
    }
    extern "C" fn in_child() {
        GENERATION.fetch_add(1, Ordering::SeqCst);
        // the other threads are not here, and whatever fork of theirs was under way is not either
        let me = slot();
        for slot in slots().filter(|s| !ptr::eq(*s, me)) {
            slot.depth.store(0, Ordering::SeqCst);
            slot.working.store(0, Ordering::SeqCst);
            slot.taken.store(ptr::eq(slot, &STRAYS), Ordering::SeqCst);
        }
        let (waited, alone) =
            HELD.try_with(|h| (h.borrow().has_waited, h.borrow().is_alone)).unwrap_or_default();
        let theirs = if waited { 0 } else { WAITING } | if alone { 0 } else { FORKING };
        STATE.fetch_and(!theirs, Ordering::SeqCst);
        agree();
        release();
    }
    if !WATCHES.load(Ordering::Relaxed) && !WATCHES.swap(true, Ordering::AcqRel) {
        // SAFETY: the handlers are plain functions that live as long as the program. They take no lock but those that the
        // thread which forks holds itself, and the allocator works in all three.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
        agree();
    }
}

/// There is no fork here.
#[cfg(not(unix))]
fn watch() {}

/// Agree with the system that it makes all threads' writes seen when asked to, if it can: no section needs a fence then.
#[cfg(unix)]
fn agree() {
    match membarrier(REGISTER) {
        true => STATE.fetch_and(!FENCED, Ordering::SeqCst),
        false => STATE.fetch_or(FENCED, Ordering::SeqCst),
    };
}

const BARRIER: u32 = 1 << 3;
#[cfg(unix)]
const REGISTER: u32 = 1 << 4;

/// Every thread of this process goes through a full barrier before this returns; or agree that it may be asked for.
#[cfg(target_os = "linux")]
fn membarrier(command: u32) -> bool {
    // SAFETY: the call takes numbers, and changes no memory
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0u32, 0u32) == 0 }
}

/// There is no such call here.
#[cfg(not(target_os = "linux"))]
fn membarrier(_command: u32) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::SeqCst;
    use std::thread;

    #[test]
    fn no_one_is_inside_a_section_while_a_thread_holds_them_off() {
        let (inside, end) = (AtomicUsize::new(0), AtomicBool::new(false));
        thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    while !end.load(SeqCst) {
                        let _a = section();
                        inside.fetch_add(1, SeqCst);
                        let _b = section();
                        thread::yield_now();
                        inside.fetch_sub(1, SeqCst);
                    }
                });
            }
            for _ in 0..300 {
                hold();
                assert_eq!(inside.load(SeqCst), 0);
                drop(section()); // its own are no hindrance
                hold();
                release();
                thread::yield_now();
                assert_eq!(inside.load(SeqCst), 0);
                release();
            }
            end.store(true, SeqCst);
        });
    }
    #[test]
    fn a_fork_waits_for_its_turn_before_it_keeps_others_out() {
        static STEPS: Turns = Turns::new();
        let done = AtomicUsize::new(0);
        thread::scope(|s| {
            let (begun, wait) = std::sync::mpsc::channel();
            let done = &done;
            s.spawn(move || {
                let _turn = STEPS.take();
                begun.send(()).unwrap();
                // what is done in turn may wait for threads that begin sections
                for _ in 0..50 {
                    thread::scope(|s| drop(s.spawn(|| drop(section())).join()));
                    done.fetch_add(1, SeqCst);
                }
            });
            wait.recv().unwrap();
            hold();
            assert_eq!(done.load(SeqCst), 50);
            release();
        });
    }
    #[test]
    fn a_fork_waits_for_work_and_lets_none_begin() {
        static STEPS: Turns = Turns::new();
        let (done, end) = (AtomicUsize::new(0), AtomicBool::new(false));
        thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    while !end.load(SeqCst) {
                        let _work = work();
                        done.fetch_add(1, SeqCst);
                        // work inside work, turns, sections, and threads that begin sections
                        let _more = work();
                        drop(STEPS.take());
                        thread::scope(|s| drop(s.spawn(|| drop(section())).join()));
                        done.fetch_sub(1, SeqCst);
                    }
                });
            }
            for _ in 0..100 {
                hold();
                assert_eq!(done.load(SeqCst), 0);
                drop(work()); // its own is no hindrance
                release();
                thread::yield_now();
            }
            // nor does one inside its own wait for that of others
            let _work = work();
            hold();
            release();
            end.store(true, SeqCst);
        });
    }
    #[test]
    fn a_fork_inside_a_section_waits_for_no_one() {
        let (begun, wait) = std::sync::mpsc::channel();
        let end = AtomicBool::new(false);
        thread::scope(|s| {
            let end = &end;
            s.spawn(move || {
                let _s = section();
                begun.send(()).unwrap();
                while !end.load(SeqCst) {
                    thread::yield_now();
                }
            });
            wait.recv().unwrap();
            let _s = section();
            hold();
            release();
            end.store(true, SeqCst);
        });
    }
}
