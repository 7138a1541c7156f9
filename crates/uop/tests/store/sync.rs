//! A machine for the node store to run on: threads that take turns as a script says, and clocks that know what each thread
//! has seen of the others.
//!
//! One thread runs at a time; at every atomic operation and lock another may go on. [`explore`] runs a program once for
//! every order of at most so many preemptions. Values are those of that order; whether a thread *may rely* on them is a
//! question of happens-before, which vector clocks answer by the rules of the C++ memory model (release sequences and
//! fences included): an access to a [`Cell`] that is not ordered after those it conflicts with is a race, whatever the
//! orders that were tried. What this does not model is an atomic load of a value that is no longer the newest.

use std::cell::{RefCell, UnsafeCell};
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicU64;
pub use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex as Lock, PoisonError};

const THREADS: usize = 4;
type Clock = [u32; THREADS];

fn join(a: &mut Clock, b: &Clock) {
    a.iter_mut().zip(b).for_each(|(a, b)| *a = (*a).max(*b));
}

/// What a thread knows.
#[derive(Clone, Copy, Default)]
struct Thread {
    clock: Clock,
    /// Read by relaxed loads: known once there is an acquire fence.
    pending: Clock,
}

thread_local! {
    /// Number and knowledge of this thread in the program that runs; `None` outside of one.
    static ME: RefCell<Option<(usize, Thread)>> = const { RefCell::new(None) };
}

/// Does `f` with the number and the knowledge of this thread; `None` outside of a program.
fn me<T>(f: impl FnOnce(usize, &mut Thread) -> T) -> Option<T> {
    ME.try_with(|m| m.borrow_mut().as_mut().map(|(i, t)| f(*i, t))).ok().flatten()
}

/// The number of the run: what is older has no clock.
static RUN: AtomicU64 = AtomicU64::new(0);

/// A clock that lies somewhere, as of this run.
#[derive(Default)]
struct Stamp(u64, Clock);

impl Stamp {
    fn now(&mut self) -> &mut Clock {
        let run = RUN.load(Ordering::SeqCst);
        if self.0 != run {
            *self = Stamp(run, [0; THREADS]);
        }
        &mut self.1
    }
}

// ---- turns

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Ready,
    /// Waits for the lock at this address.
    Blocked(usize),
    Done,
}

struct Turns {
    turn: usize,
    states: Vec<State>,
    /// What was chosen at each point, of how many.
    script: Vec<(usize, usize)>,
    at: usize,
    preemptions: usize,
    failed: Option<String>,
}

static TURNS: Lock<Turns> =
    Lock::new(Turns { turn: 0, states: vec![], script: vec![], at: 0, preemptions: 0, failed: None });
static CHANGED: Condvar = Condvar::new();

fn turns() -> std::sync::MutexGuard<'static, Turns> {
    TURNS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Turns {
    /// Who goes on after thread `me`, which can too if it is ready.
    fn choose(&mut self, me: usize) {
        let own = self.states[me] == State::Ready;
        let others = (0..self.states.len()).filter(|&t| t != me && self.states[t] == State::Ready);
        let able: Vec<usize> = own.then_some(me).into_iter().chain(others).collect();
        if able.is_empty() {
            if self.states.iter().any(|s| *s != State::Done) {
                self.failed.get_or_insert("deadlock".into());
            }
            self.turn = usize::MAX;
            return;
        }
        let count = if own && self.preemptions == 0 { 1 } else { able.len() };
        let chosen = match self.script.get(self.at) {
            Some((chosen, _)) => (*chosen).min(count - 1),
            None => 0,
        };
        match self.script.get_mut(self.at) {
            Some(s) => *s = (chosen, count),
            None => self.script.push((chosen, count)),
        }
        self.at += 1;
        self.preemptions -= (own && chosen != 0) as usize;
        self.turn = able[chosen];
    }
}

/// Let another thread go on, perhaps; come back when it is this one's turn.
fn switch(state: State) {
    let Some(me) = me(|i, t| {
        t.clock[i] += 1;
        i
    }) else {
        return;
    };
    let mut t = turns();
    t.states[me] = state;
    t.choose(me);
    CHANGED.notify_all();
    while t.turn != me && t.failed.is_none() {
        t = CHANGED.wait(t).unwrap_or_else(PoisonError::into_inner);
    }
    let failed = t.failed.is_some() && !std::thread::panicking();
    drop(t);
    assert!(!failed, "another thread failed");
}

fn fail(why: &str) {
    turns().failed.get_or_insert(why.into());
    CHANGED.notify_all();
    if !std::thread::panicking() {
        panic!("{why}");
    }
}

/// Run a program in every order of at most `preemptions` preemptions, `limit` at most; gives how many there were. `begin`
/// makes the program anew: what each thread does, and what is checked at the end.
pub fn explore(
    preemptions: usize,
    limit: usize,
    begin: impl Fn() -> (Vec<Box<dyn FnOnce() + Send>>, Box<dyn FnOnce()>),
) -> usize {
    let mut script: Vec<(usize, usize)> = vec![];
    for run in 1..=limit {
        RUN.fetch_add(1, Ordering::SeqCst);
        let (threads, end) = begin();
        {
            let mut t = turns();
            *t = Turns {
                turn: 0,
                states: vec![State::Ready; threads.len()],
                script,
                at: 0,
                preemptions,
                failed: None,
            };
        }
        let done = std::sync::Arc::new(std::sync::Barrier::new(threads.len()));
        let handles: Vec<_> = threads
            .into_iter()
            .enumerate()
            .map(|(i, f)| {
                let done = done.clone();
                std::thread::spawn(move || run_thread(i, f, &done))
            })
            .collect();
        handles.into_iter().for_each(|h| drop(h.join()));
        let mut t = turns();
        let (failed, chosen) = (t.failed.take(), t.script.clone());
        drop(t);
        assert!(failed.is_none(), "run {run}, {chosen:?}: {}", failed.unwrap_or_default());
        t = turns();
        script = std::mem::take(&mut t.script);
        script.truncate(t.at);
        drop(t);
        end();
        // the next order: the last choice that has another
        while script.last().is_some_and(|(chosen, of)| chosen + 1 == *of) {
            script.pop();
        }
        match script.last_mut() {
            Some((chosen, _)) => *chosen += 1,
            None => return run,
        }
    }
    limit
}

fn run_thread(i: usize, f: Box<dyn FnOnce() + Send>, done: &std::sync::Barrier) {
    let mut clock = [0; THREADS];
    clock[i] = 1;
    ME.set(Some((i, Thread { clock, pending: [0; THREADS] })));
    {
        let mut t = turns();
        while t.turn != i && t.failed.is_none() {
            t = CHANGED.wait(t).unwrap_or_else(PoisonError::into_inner);
        }
    }
    if let Err(e) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)) {
        let why = e.downcast_ref::<String>().cloned().or(e.downcast_ref::<&str>().map(|s| s.to_string()));
        turns().failed.get_or_insert(why.unwrap_or_default());
    }
    ME.set(None);
    {
        let mut t = turns();
        t.states[i] = State::Done;
        t.choose(i);
        CHANGED.notify_all();
    }
    // what a thread leaves behind (its free slots) it leaves when all are done
    done.wait();
}

// ---- the machine

/// An atomic number, with what its readers may rely on.
pub struct AtomicU32 {
    value: std::sync::atomic::AtomicU32,
    released: Lock<Stamp>,
}

impl AtomicU32 {
    pub const fn new(v: u32) -> AtomicU32 {
        AtomicU32 { value: std::sync::atomic::AtomicU32::new(v), released: Lock::new(Stamp(0, [0; THREADS])) }
    }
    fn acquire(&self, order: Ordering) {
        let released = *self.released.lock().unwrap_or_else(PoisonError::into_inner).now();
        me(|_, t| match order {
            Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst => join(&mut t.clock, &released),
            _ => join(&mut t.pending, &released),
        });
    }
    /// What a write says; one that also reads goes on with what was said before.
    fn release(&self, order: Ordering, also_reads: bool) {
        let mut released = self.released.lock().unwrap_or_else(PoisonError::into_inner);
        let released = released.now();
        if !also_reads {
            *released = [0; THREADS];
        }
        if matches!(order, Ordering::Release | Ordering::AcqRel | Ordering::SeqCst) {
            me(|_, t| join(released, &t.clock));
        }
    }
    pub fn load(&self, order: Ordering) -> u32 {
        switch(State::Ready);
        self.acquire(order);
        self.value.load(Ordering::SeqCst)
    }
    pub fn store(&self, v: u32, order: Ordering) {
        switch(State::Ready);
        self.release(order, false);
        self.value.store(v, Ordering::SeqCst);
    }
    pub fn fetch_add(&self, v: u32, order: Ordering) -> u32 {
        switch(State::Ready);
        self.acquire(order);
        self.release(order, true);
        self.value.fetch_add(v, Ordering::SeqCst)
    }
    pub fn fetch_sub(&self, v: u32, order: Ordering) -> u32 {
        switch(State::Ready);
        self.acquire(order);
        self.release(order, true);
        self.value.fetch_sub(v, Ordering::SeqCst)
    }
    pub fn compare_exchange_weak(&self, a: u32, b: u32, yes: Ordering, no: Ordering) -> Result<u32, u32> {
        switch(State::Ready);
        let done = self.value.compare_exchange(a, b, Ordering::SeqCst, Ordering::SeqCst);
        self.acquire(if done.is_ok() { yes } else { no });
        if done.is_ok() {
            self.release(yes, true);
        }
        done
    }
}

pub fn fence(order: Ordering) {
    assert_eq!(order, Ordering::Acquire, "only this fence is modelled");
    me(|_, t| join(&mut t.clock, &t.pending));
}

/// A lock. A thread that finds it taken waits for its turn, not for the machine's lock.
pub struct Mutex<T> {
    taken: std::sync::atomic::AtomicBool,
    released: Lock<Stamp>,
    value: Lock<T>,
}

pub struct MutexGuard<'a, T> {
    of: &'a Mutex<T>,
    value: Option<std::sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Mutex<T> {
        Mutex {
            taken: std::sync::atomic::AtomicBool::new(false),
            released: Lock::new(Stamp(0, [0; THREADS])),
            value: Lock::new(value),
        }
    }
    pub fn lock(&self) -> Result<MutexGuard<'_, T>, PoisonError<MutexGuard<'_, T>>> {
        let inside = me(|_, _| ()).is_some();
        switch(State::Ready);
        while inside && self.taken.load(Ordering::SeqCst) {
            switch(State::Blocked(&raw const self.taken as usize));
        }
        if inside {
            self.taken.store(true, Ordering::SeqCst);
        }
        let value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        let released = *self.released.lock().unwrap_or_else(PoisonError::into_inner).now();
        me(|_, t| join(&mut t.clock, &released));
        Ok(MutexGuard { of: self, value: Some(value) })
    }
}
impl<T> std::ops::Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.value.as_ref().unwrap()
    }
}
impl<T> std::ops::DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().unwrap()
    }
}
impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        me(|_, t| *self.of.released.lock().unwrap_or_else(PoisonError::into_inner).now() = t.clock);
        self.value = None;
        self.of.taken.store(false, Ordering::SeqCst);
        let at = &raw const self.of.taken as usize;
        for s in turns().states.iter_mut().filter(|s| **s == State::Blocked(at)) {
            *s = State::Ready;
        }
        switch(State::Ready);
    }
}

/// Memory that is written, read and cleared, with who did so.
pub struct Cell<T> {
    value: UnsafeCell<MaybeUninit<T>>,
    seen: Lock<Seen>,
}

#[derive(Default)]
struct Seen {
    is_there: bool,
    written: Stamp,
    read: Stamp,
}

unsafe impl<T: Send + Sync> Sync for Cell<T> {}

impl<T> Cell<T> {
    pub fn empty() -> Cell<T> {
        Cell { value: UnsafeCell::new(MaybeUninit::uninit()), seen: Lock::default() }
    }
    /// Check that an access is ordered after those that it conflicts with, and note it.
    fn note(&self, what: &str, needs: bool, leaves: bool, writes: bool) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.is_there != needs {
            fail(&format!("{what} where a node is {}", if needs { "not" } else { "still" }));
        }
        seen.is_there = leaves;
        let (written, read) = (*seen.written.now(), *seen.read.now());
        let races = me(|i, t| {
            let knows = |c: &Clock| c.iter().zip(&t.clock).all(|(c, t)| c <= t);
            let races = !knows(&written) || (writes && !knows(&read));
            let of = if writes { seen.written.now() } else { seen.read.now() };
            of[i] = t.clock[i];
            races
        });
        drop(seen);
        if races == Some(true) {
            fail(&format!("a race: {what} that is not ordered after what it conflicts with"));
        }
    }
    pub unsafe fn write(&self, value: T) {
        self.note("a write", false, true, true);
        unsafe { (*self.value.get()).write(value) };
    }
    pub unsafe fn read(&self) -> &T {
        self.note("a read", true, true, false);
        unsafe { (*self.value.get()).assume_init_ref() }
    }
    pub unsafe fn clear(&self) {
        self.note("a drop", true, false, true);
        unsafe { (*self.value.get()).assume_init_drop() };
    }
}
