//! Two processes with all threads each, on the same cores.

use crate::is_child;
use frit_runtime::cpu::pool::Pool;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const NAME: &str = "processes::two_processes_get_done_what_they_would_in_turns";
/// Long enough to be cut short by the system some times, on one core as on many.
const TURN: Duration = Duration::from_millis(100);
const TURNS: usize = 9;

/// A process that runs jobs of all cores when it is told to, and says how many a second.
struct Worker {
    child: Child,
    say: ChildStdin,
    hear: BufReader<ChildStdout>,
}

impl Worker {
    fn start() -> Worker {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", NAME, "--nocapture"]).env("FRIT_TEST_CHILD", "1");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (say, hear) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut worker = Worker { child, say, hear };
        worker.heard("ready");
        worker
    }
    /// What follows a word in the next line that has it.
    fn heard(&mut self, word: &str) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.hear.read_line(&mut line).unwrap(), 0, "the process ended before it said {word}");
            if let Some((_, rest)) = line.split_once(word) {
                return rest.trim().to_owned();
            }
        }
    }
}

/// Jobs a second of each, all at once.
fn together(workers: &mut [Worker]) -> Vec<f64> {
    workers.iter_mut().for_each(|w| w.say.write_all(b"go\n").unwrap());
    workers.iter_mut().map(|w| w.heard("done ").parse().unwrap()).collect()
}

/// Jobs a second of one while the other, whose idle threads may still spin, is stopped.
fn alone(workers: &mut [Worker], one: usize) -> f64 {
    let other = workers[1 - one].child.id() as i32;
    let signal = |signal| {
        // SAFETY: it concerns a child that has not been waited for, so the number is still its own.
        assert_eq!(unsafe { libc::kill(other, signal) }, 0);
    };
    signal(libc::SIGSTOP);
    let [rate] = together(&mut workers[one..=one])[..] else { unreachable!("one was asked") };
    signal(libc::SIGCONT);
    rate
}

/// Jobs as short as small kernels, one after the other, as often as a line comes in.
fn work() {
    let pool = Pool::new(std::thread::available_parallelism().map_or(1, |n| n.get()).max(2));
    let mut out = stdout();
    out.write_all(b"\nready\n").unwrap();
    for _ in stdin().lines() {
        let (mut jobs, since) = (0u32, Instant::now());
        while since.elapsed() < TURN {
            pool.parallel_for(64, 1, &|begin, end| {
                black_box((begin * 200..end * 200).fold(1u64, |x, i| black_box(x ^ i as u64)));
            });
            jobs += 1;
        }
        let rate = f64::from(jobs) / since.elapsed().as_secs_f64();
        out.write_all(format!("done {rate}\n").as_bytes()).unwrap();
    }
}

/// What the slower of two gets done at once, as a part of half of what one does alone before and after: the median turn.
fn share(workers: &mut [Worker]) -> f64 {
    let mut shares: Vec<f64> = (0..TURNS)
        .map(|turn| {
            let before = alone(workers, turn % 2);
            let slower = together(workers).into_iter().fold(f64::INFINITY, f64::min);
            let after = alone(workers, turn % 2);
            2.0 * slower / ((before + after) / 2.0)
        })
        .collect();
    shares.sort_by(f64::total_cmp);
    shares[TURNS / 2]
}

#[test]
fn two_processes_get_done_what_they_would_in_turns() {
    if is_child() {
        return work();
    }
    let mut workers = [Worker::start(), Worker::start()];
    // other work on the machine may disturb a try, but not each
    let mut shares = vec![share(&mut workers)];
    while shares.len() < 6 && shares.iter().all(|s| *s < 0.8) {
        shares.push(share(&mut workers));
    }
    for Worker { mut child, say, .. } in workers {
        drop(say);
        child.wait().unwrap();
    }
    assert!(shares.last().is_some_and(|s| *s >= 0.8), "{shares:.2?}");
}
