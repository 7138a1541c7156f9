//! A pool of threads that share out the slices of a range.
//!
//! One job at a time: it is opened, whoever is awake joins and takes slices, the caller takes slices too, and when none
//! are left it closes the job and waits only for those who joined. A worker that wakes late finds the job closed and
//! costs nothing. A caller that finds the pool busy (another thread's job, or a job inside a job) runs its range alone.
//!
//! Slices shrink as the range runs out: few calls, and no one waits long for the last.

use frit_abi::fork;
use frit_abi::sync::OnceLock;
use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

/// How long an idle worker, or a caller that waits for one, spins before it sleeps: waking it takes longer than a small kernel,
/// so it outlasts what stands between kernels, and between calls of a small program.
const SPIN: Duration = Duration::from_micros(200);

/// Threads that share the work of [`Pool::parallel_for`]. They start when first needed, and again after a fork.
pub struct Pool {
    threads: usize,
    crew: AtomicPtr<Crew>,
    starting: AtomicU64,
}

/// The worker threads of one process.
struct Crew {
    generation: u64,
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

/// What the threads of a crew see.
struct Shared {
    /// Epoch of the job (upper half), whether it is open (bit 31), how many workers are in it (the rest).
    gate: AtomicU64,
    /// Held by the caller whose job it is.
    busy: AtomicBool,
    /// Changed only by the holder of `busy` while the gate is closed and empty.
    job: UnsafeCell<Job>,
    /// First index not yet handed out.
    next: AtomicI64,
    /// What a worker's slice panicked with.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// One per worker: it sleeps, or is about to.
    sleeping: Vec<AtomicBool>,
    /// The caller, while it waits asleep for the last worker.
    waiter: Mutex<Option<Thread>>,
    quit: AtomicBool,
}

/// The range of a job and what to call for a slice of it.
#[derive(Clone, Copy)]
struct Job {
    run: *const (dyn Fn(i64, i64) + Sync),
    end: i64,
    grain: i64,
    threads: i64,
}

// SAFETY: `job` is written only while no worker can be in it and read only by those who joined through the gate, which
// orders the two; the function it points to is `Sync` and outlives the job, since `run` waits for all who joined.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

const OPEN: u64 = 1 << 31;
const COUNT: u64 = OPEN - 1;

impl Pool {
    /// A pool in which `threads` threads work at once, the caller included.
    pub fn new(threads: usize) -> Pool {
        Pool { threads: threads.max(1), crew: AtomicPtr::new(null_mut()), starting: AtomicU64::new(0) }
    }
    /// How many threads work at once.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Call `f(begin, end)` for slices that together are `0..extent`, each index once, from several threads at once.
    ///
    /// No slice is shorter than `grain` (but the last); a range of at most one grain runs right here. A panic in `f`
    /// comes out of this call, after all slices that had begun have ended.
    pub fn parallel_for(&self, extent: i64, grain: i64, f: &(dyn Fn(i64, i64) + Sync)) {
        let grain = grain.max(1);
        if extent <= 0 {
            return;
        }
        if extent <= grain || self.threads == 1 {
            return f(0, extent);
        }
        match self.crew() {
            Some(crew) => crew.run(extent, grain, f),
            None => f(0, extent),
        }
    }

    /// The crew of this process, started if need be; `None` while another thread starts it.
    fn crew(&self) -> Option<&Crew> {
        let generation = fork::generation();
        let current = self.crew.load(Ordering::Acquire);
        // SAFETY: a crew is freed only when the pool is dropped; a parent's crew stays as an unused leftover in the child.
        if let Some(crew) = unsafe { current.as_ref() }.filter(|c| c.generation == generation) {
            return Some(crew);
        }
        let seen = self.starting.load(Ordering::Relaxed);
        let claim = generation + 1;
        if seen == claim
            || self.starting.compare_exchange(seen, claim, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            return None;
        }
        let crew = Box::into_raw(Box::new(Crew::start(self.threads - 1, generation)));
        self.crew.store(crew, Ordering::Release);
        // SAFETY: just made; freed only when the pool is dropped.
        Some(unsafe { &*crew })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let crew = *self.crew.get_mut();
        // SAFETY: made by `Box::into_raw` in `crew`; no call can be using it, since the pool is being dropped.
        let Some(crew) = (!crew.is_null()).then(|| unsafe { Box::from_raw(crew) }) else { return };
        if crew.generation != fork::generation() {
            // Threads of a parent process: their handles mean nothing here.
            std::mem::forget(crew);
            return;
        }
        crew.shared.quit.store(true, Ordering::SeqCst);
        for worker in crew.workers {
            worker.thread().unpark();
            let _ = worker.join();
        }
    }
}

impl Crew {
    fn start(workers: usize, generation: u64) -> Crew {
        fn nothing(_: i64, _: i64) {}
        let shared = Arc::new(Shared {
            gate: AtomicU64::new(0),
            busy: AtomicBool::new(false),
            job: UnsafeCell::new(Job { run: &nothing, end: 0, grain: 1, threads: 1 }),
            next: AtomicI64::new(0),
            panic: Mutex::new(None),
            sleeping: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            waiter: Mutex::new(None),
            quit: AtomicBool::new(false),
        });
        // A thread that the system refuses is one fewer to share with; the caller always works.
        let start = |i| {
            let shared = shared.clone();
            thread::Builder::new().name(format!("frit-{}", i + 1)).spawn(move || shared.work(i)).ok()
        };
        let workers = (0..workers).map_while(start).collect();
        Crew { generation, shared, workers }
    }

    fn run(&self, extent: i64, grain: i64, f: &(dyn Fn(i64, i64) + Sync)) {
        let shared = &*self.shared;
        let helpers = (self.workers.len() as i64).min((extent - 1) / grain);
        if helpers == 0 || shared.busy.swap(true, Ordering::Acquire) {
            return f(0, extent);
        }
        // SAFETY: only the lifetime changes; the pointer is followed only by threads in the job, and `close` waits for
        // them before this function, and with it the borrow, ends.
        let run = unsafe {
            std::mem::transmute::<&(dyn Fn(i64, i64) + Sync), &'static (dyn Fn(i64, i64) + Sync)>(f)
        };
        let job = Job { run, end: extent, grain, threads: helpers + 1 };
        // SAFETY: we hold `busy` and the gate is closed and empty, so no one else looks at the job.
        unsafe { *shared.job.get() = job };
        shared.next.store(0, Ordering::Relaxed);
        let epoch = (shared.gate.load(Ordering::Relaxed) >> 32).wrapping_add(1);
        shared.gate.store(epoch << 32 | OPEN, Ordering::SeqCst);
        self.wake(helpers as usize);
        let mine = catch_unwind(AssertUnwindSafe(|| shared.take_slices(&job)));
        if mine.is_err() {
            shared.next.store(extent, Ordering::Relaxed);
        }
        shared.close();
        let theirs = lock(&shared.panic).take();
        shared.busy.store(false, Ordering::Release);
        if let Some(panic) = mine.err().or(theirs) {
            resume_unwind(panic);
        }
    }

    /// Wake up to `helpers` sleeping workers; those that spin see the gate by themselves.
    fn wake(&self, helpers: usize) {
        for (worker, sleeping) in self.workers.iter().zip(&self.shared.sleeping).take(helpers) {
            if sleeping.load(Ordering::SeqCst) && sleeping.swap(false, Ordering::SeqCst) {
                worker.thread().unpark();
            }
        }
    }
}

impl Shared {
    /// A worker's life.
    fn work(&self, me: usize) {
        let mut seen = 0;
        while let Some(epoch) = self.wait_for_job(me, seen) {
            seen = epoch;
            // SAFETY: we joined, so the job stays as it is until we leave.
            let job = unsafe { *self.job.get() };
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.take_slices(&job))) {
                self.next.store(job.end, Ordering::Relaxed);
                lock(&self.panic).get_or_insert(panic);
            }
            let before = self.gate.fetch_sub(1, Ordering::SeqCst);
            if before & (OPEN | COUNT) == 1
                && let Some(caller) = lock(&self.waiter).take()
            {
                caller.unpark();
            }
        }
    }

    /// Spin, then sleep, until there is an open job other than `seen`; join it and return its epoch.
    fn wait_for_job(&self, me: usize, seen: u64) -> Option<u64> {
        let mut idle_since = None;
        let mut spins = 0u32;
        loop {
            let gate = self.gate.load(Ordering::SeqCst);
            if gate & OPEN != 0 && gate >> 32 != seen {
                if self.gate.compare_exchange(gate, gate + 1, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                    return Some(gate >> 32);
                }
                continue;
            }
            if self.quit.load(Ordering::SeqCst) {
                return None;
            }
            std::hint::spin_loop();
            spins += 1;
            if spins.is_multiple_of(32) && idle_since.get_or_insert_with(Instant::now).elapsed() > SPIN {
                self.sleeping[me].store(true, Ordering::SeqCst);
                // Looked at again after saying that we sleep: an opener either sees that or was seen here.
                let gate = self.gate.load(Ordering::SeqCst);
                let nothing = gate & OPEN == 0 || gate >> 32 == seen;
                if nothing && !self.quit.load(Ordering::SeqCst) {
                    thread::park();
                }
                self.sleeping[me].store(false, Ordering::SeqCst);
                idle_since = None;
            }
        }
    }

    /// Run slices until none are left.
    fn take_slices(&self, job: &Job) {
        // SAFETY: the caller of `run` keeps the function alive until everyone has left the job.
        let run = unsafe { &*job.run };
        let mut begin = self.next.load(Ordering::Relaxed);
        while begin < job.end {
            let left = job.end - begin;
            let end = begin + (left / (2 * job.threads)).max(job.grain).min(left);
            match self.next.compare_exchange_weak(begin, end, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    run(begin, end);
                    begin = self.next.load(Ordering::Relaxed);
                }
                Err(now) => begin = now,
            }
        }
    }

    /// Let no one else in and wait for those who are.
    fn close(&self) {
        let mut inside = self.gate.fetch_and(!OPEN, Ordering::SeqCst) & COUNT;
        let since = Instant::now();
        let mut spins = 0u32;
        while inside != 0 {
            std::hint::spin_loop();
            spins += 1;
            if spins.is_multiple_of(32) && since.elapsed() > SPIN {
                *lock(&self.waiter) = Some(thread::current());
                if self.gate.load(Ordering::SeqCst) & COUNT != 0 {
                    thread::park();
                }
                lock(&self.waiter).take();
            }
            inside = self.gate.load(Ordering::SeqCst) & COUNT;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The pool that every CPU-like device of this process shares, made with the first caller's thread count.
pub fn shared(threads: usize) -> Arc<Pool> {
    static POOL: OnceLock<Arc<Pool>> = OnceLock::new();
    let pool = POOL.get_or_init(|| Arc::new(Pool::new(threads)));
    if pool.threads() == threads { pool.clone() } else { Arc::new(Pool::new(threads)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU8, AtomicUsize};

    fn check(pool: &Pool, extent: i64, grain: i64) {
        let hits: Vec<AtomicU8> = (0..extent).map(|_| AtomicU8::new(0)).collect();
        pool.parallel_for(extent, grain, &|begin, end| {
            assert!(begin < end && (end - begin >= grain || end == extent));
            hits[begin as usize..end as usize].iter().for_each(|h| _ = h.fetch_add(1, Ordering::Relaxed));
        });
        assert!(hits.iter().all(|h| h.load(Ordering::Relaxed) == 1));
    }

    #[test]
    fn every_index_is_visited_once() {
        for threads in [1, 2, 3, 8] {
            let pool = Pool::new(threads);
            for extent in [0, 1, 2, 3, 7, 64, 1000] {
                for grain in [0, 1, 5, 64, i64::MAX] {
                    check(&pool, extent, grain.max(1));
                }
            }
        }
    }

    #[test]
    fn many_callers_share_one_pool() {
        let pool = Pool::new(3);
        thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| (0..300).for_each(|i| check(&pool, i % 100, 1)));
            }
        });
    }

    #[test]
    fn a_job_inside_a_job_runs() {
        let pool = Pool::new(2);
        let total = AtomicUsize::new(0);
        pool.parallel_for(10, 1, &|a, b| {
            for _ in a..b {
                pool.parallel_for(10, 1, &|c, d| _ = total.fetch_add((d - c) as usize, Ordering::Relaxed));
            }
        });
        assert_eq!(total.into_inner(), 100);
    }

    #[test]
    fn workers_sleep_and_wake() {
        let pool = Pool::new(2);
        for _ in 0..20 {
            check(&pool, 50, 1);
            thread::sleep(SPIN * 4);
        }
    }

    #[test]
    fn idle_workers_sleep_within_a_millisecond() {
        let pool = Pool::new(4);
        // a busy machine may keep a worker from going to sleep for longer, but not each time
        let sleep_in_time = (0..50).any(|_| {
            check(&pool, 50, 1);
            thread::sleep(Duration::from_millis(1));
            pool.crew().is_some_and(|c| c.shared.sleeping.iter().all(|s| s.load(Ordering::SeqCst)))
        });
        assert!(sleep_in_time);
    }

    #[test]
    fn a_slow_worker_is_waited_for() {
        let pool = Pool::new(2);
        let (caller, others) = (thread::current().id(), AtomicUsize::new(0));
        for _ in 0..10 {
            pool.parallel_for(8, 1, &|_, _| {
                if thread::current().id() != caller {
                    thread::sleep(Duration::from_millis(2));
                    others.fetch_add(1, Ordering::Relaxed);
                } else {
                    thread::sleep(Duration::from_micros(300));
                }
            });
        }
        assert!(others.into_inner() > 0);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives() {
        let pool = Pool::new(2);
        for bad in [0, 37, 99] {
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.parallel_for(100, 1, &|a, b| assert!(!(a..b).contains(&bad), "slice with {bad}"));
            }));
            assert!(result.is_err());
            check(&pool, 100, 1);
        }
    }
}
