//! Forks while other threads work.

use frit_tensor::{Jit, Tensor, manual_seed};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What `f` says in a child process; `None` if it does not come to an end.
fn in_child(f: impl FnOnce() -> u8) -> Option<u8> {
    // SAFETY: the child uses what is under test, and leaves by `_exit`
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_or(255);
        // SAFETY: ends the child without running anything of the parent's
        unsafe { libc::_exit(said as i32) };
    }
    let (mut status, begin) = (0, Instant::now());
    // SAFETY: waits for our own child; the pointer is to a local
    while unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) } == 0 {
        if begin.elapsed() > Duration::from_secs(20) {
            // SAFETY: our own child, which hangs
            unsafe { (libc::kill(pid, libc::SIGKILL), libc::waitpid(pid, &mut status, 0)) };
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status) as u8)
}

#[test]
fn a_child_computes_while_threads_of_its_parent_build_and_realise() {
    let (stop, number) = (AtomicBool::new(false), AtomicI64::new(0));
    let shared = Tensor::from_slice(&[1.0f32, 2.0]).realize().unwrap();
    let failed = std::thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                let mine = Tensor::from_slice(&[1.0f32, 2.0, 3.0]).realize().unwrap();
                while !stop.load(Relaxed) {
                    // new structures, so that every cache is written to; stores, which take turns; tensors that all see
                    let n = number.fetch_add(1, Relaxed);
                    let x = Tensor::arange(n % 61 + 2).realize().unwrap();
                    mine.assign(&mine + 1.0);
                    mine.realize().unwrap();
                    let _ = (&shared + (n % 5) as f32).realize().unwrap();
                    drop((x, Tensor::rand([3]).realize().unwrap()));
                }
            });
        }
        let failed = (0..150).find_map(|i| {
            let said = in_child(|| {
                let x = Tensor::arange(100 + i).sum(..) + &shared.sum(..).cast(frit_tensor::DType::I32);
                let right = (0..100 + i).sum::<i64>() + 3;
                let y = Tensor::from_slice(&[1i32]).realize().unwrap();
                y.assign(&y + 1);
                let ok = x.item::<i32>().is_ok_and(|v| v as i64 == right) && y.item::<i32>() == Ok(2);
                if ok { 7 } else { 1 }
            });
            (said != Some(7)).then_some((i, said))
        });
        stop.store(true, Relaxed);
        failed
    });
    assert_eq!(failed, None);
}

#[test]
fn children_draw_other_numbers_than_their_parent_and_each_other() {
    let sum = |v: Vec<f32>| v.iter().fold(0u8, |h, v| h.wrapping_mul(31) ^ (v.to_bits() >> 3) as u8);
    let draw = || sum(Tensor::rand([16]).to_vec().unwrap());
    let seeded = |seed: u64| {
        manual_seed(seed);
        draw()
    };
    // the parent of the others is a child too, for no other thread draws there
    let all = in_child(|| {
        let (first, second) = (seeded(5), draw());
        assert_eq!(seeded(5), first);
        let children: Vec<u8> = (0..6).map(|_| in_child(draw).unwrap()).collect();
        let repeated: Vec<u8> = (0..3).map(|_| in_child(|| seeded(9)).unwrap()).collect();
        assert_eq!(draw(), second, "the parent does not notice");
        // of 256 values each: what would be wrong is that all are equal
        assert!(children.iter().any(|c| *c != children[0]), "{children:?}");
        assert!(children.iter().any(|c| *c != second), "{children:?}");
        assert_eq!(repeated, [seeded(9); 3]);
        7
    });
    assert_eq!(all, Some(7));
}

#[test]
fn a_child_calls_a_jit_while_threads_of_its_parent_do() {
    let held = Tensor::from_slice(&[1.0f32, 2.0]).realize().unwrap();
    let jit = Jit::new({
        let held = held.clone();
        move |x: Tensor| {
            std::thread::sleep(Duration::from_micros(300));
            Ok(x * &held)
        }
    })
    .recapture();
    let stop = AtomicBool::new(false);
    let call = |n: usize| {
        let x = Tensor::full([n % 50 + 1, 2], 3.0).contiguous();
        jit.call(x).and_then(|y| y.sum(..).item::<f32>()).map(|v| v == 9.0 * (n % 50 + 1) as f32)
    };
    let failed = std::thread::scope(|s| {
        for t in 0..2 {
            let (stop, call) = (&stop, &call);
            // always another signature, so that it is never replayed for long
            s.spawn(move || (t..).step_by(7).take_while(|_| !stop.load(Relaxed)).for_each(|n| drop(call(n))));
        }
        let failed = (0..60).find_map(|i| {
            let said = in_child(|| if call(i) == Ok(true) { 7 } else { 1 });
            (said != Some(7)).then_some((i, said))
        });
        stop.store(true, Relaxed);
        failed
    });
    assert_eq!(failed, None);
}

#[test]
fn a_child_is_told_of_a_jit_that_a_thread_of_its_parent_is_in_for_long() {
    let told = std::sync::Arc::new(AtomicBool::new(false));
    let end = told.clone();
    let jit = Jit::new(move |(x, long): (Tensor, Vec<Tensor>)| {
        while !long.is_empty() && !end.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(x + 1.0)
    })
    .recapture();
    let x = || Tensor::from_slice(&[1.0f32]);
    std::thread::scope(|s| {
        s.spawn(|| jit.call((x(), vec![x()])).unwrap());
        std::thread::sleep(Duration::from_millis(300));
        let said = in_child(|| match jit.call((x(), vec![])) {
            Err(e) if e.to_string().contains("when this process was forked") => 7,
            _ => 1,
        });
        told.store(true, Relaxed);
        assert_eq!(said, Some(7));
        assert_eq!(
            jit.call((x(), vec![])).unwrap().item::<f32>(),
            Ok(2.0),
            "here it is only a matter of time"
        );
    });
}
