//! The node store on a machine that tries orders: `slot.rs` and `table.rs` as they are, with small nodes.

mod sync;

#[allow(dead_code)]
#[path = "../../src/slot.rs"]
mod slot;
#[path = "../../src/table.rs"]
mod table;

mod node {
    /// A node of the store: what it is, and one source.
    pub struct Node {
        pub value: u64,
        pub src: Option<crate::slot::Handle>,
    }
    impl Node {
        pub fn hash(&self) -> u64 {
            self.value.wrapping_mul(0x9E37_79B9_7F4A_7C15)
        }
    }
}

use node::Node;
use slot::{Handle, Unpublished};
use std::sync::Mutex;

/// The node of a value, found or made, as `UOp::new` does it.
fn intern(value: u64, src: Option<Handle>) -> Handle {
    let hash = Node { value, src: None }.hash();
    table::find(hash, |n| n.value == value)
        .unwrap_or_else(|| table::insert(Node { value, src }, |a, b| a.value == b.value))
}

type Program = (Vec<Box<dyn FnOnce() + Send>>, Box<dyn FnOnce()>);

fn no_node_is_left() -> Box<dyn FnOnce()> {
    Box::new(|| assert_eq!(table::len(), 0, "nodes are left in the table"))
}

/// Preemptions that are tried, and orders at most.
const PREEMPTIONS: usize = 3;
const ORDERS: usize = 2000;

/// One at a time: the machine is one.
static MACHINE: Mutex<()> = Mutex::new(());

fn check(begin: impl Fn() -> Program) {
    let _one = MACHINE.lock().unwrap_or_else(|e| e.into_inner());
    let runs = sync::explore(PREEMPTIONS, ORDERS, begin);
    assert!(runs > 20, "{runs} orders are no test");
}

#[test]
fn equal_nodes_are_one_while_threads_make_and_drop_them() {
    check(|| {
        let held: &'static sync::Mutex<Vec<Handle>> = Box::leak(Box::new(sync::Mutex::new(vec![])));
        let thread = || -> Box<dyn FnOnce() + Send> {
            Box::new(move || {
                for _ in 0..2 {
                    let n = intern(7, None);
                    assert_eq!(n.value, 7);
                    let again = intern(7, None); // from the cache, perhaps of a slot that was used for another
                    assert!(std::ptr::eq(n.slot(), again.slot()), "two equal nodes live");
                }
                let last = intern(7, None);
                let others = std::mem::take(&mut *held.lock().unwrap());
                assert!(others.iter().all(|o| std::ptr::eq(o.slot(), last.slot())), "two equal nodes live");
                held.lock().unwrap().push(last);
                drop(others);
            })
        };
        (
            vec![thread(), thread()],
            Box::new(|| {
                held.lock().unwrap().clear();
                no_node_is_left()()
            }),
        )
    });
}

#[test]
fn a_remembered_slot_gives_no_other_node() {
    check(|| {
        let thread = |mine: u64, other: u64| -> Box<dyn FnOnce() + Send> {
            Box::new(move || {
                drop((intern(mine, None), intern(mine, None))); // remembered, then gone: the slot is free for `other`
                let n = intern(other, None);
                let m = intern(mine, None);
                assert_eq!((n.value, m.value), (other, mine));
            })
        };
        (vec![thread(1, 2), thread(2, 1)], no_node_is_left())
    });
}

#[test]
fn a_node_that_comes_back_in_a_remembered_slot_is_seen_whole() {
    check(|| {
        let remembers: Box<dyn FnOnce() + Send> = Box::new(|| {
            drop((intern(30, None), intern(30, None)));
            assert_eq!(intern(30, None).value, 30); // without a lock, from what another thread wrote meanwhile
        });
        let recycles: Box<dyn FnOnce() + Send> = Box::new(|| {
            drop(intern(30, None)); // the last handle, in some order: the slot is this thread's
            assert_eq!(intern(30, None).value, 30);
        });
        (vec![remembers, recycles], no_node_is_left())
    });
}

#[test]
fn sources_go_with_their_users() {
    check(|| {
        let thread = || -> Box<dyn FnOnce() + Send> {
            Box::new(|| {
                let x = intern(10, None);
                let y = intern(11, Some(x));
                let z = intern(12, Some(y.clone()));
                drop(y);
                assert_eq!(z.src.as_ref().map(|s| s.value), Some(11));
            })
        };
        (vec![thread(), thread()], no_node_is_left())
    });
}

#[test]
fn handles_go_from_thread_to_thread() {
    check(|| {
        let post: &'static sync::Mutex<Option<Handle>> = Box::leak(Box::new(sync::Mutex::new(None)));
        let give: Box<dyn FnOnce() + Send> = Box::new(|| {
            let n = intern(20, None);
            *post.lock().unwrap() = Some(n.clone());
            drop(n);
        });
        let take: Box<dyn FnOnce() + Send> = Box::new(|| {
            let got = post.lock().unwrap().take();
            assert!(got.as_ref().is_none_or(|n| n.value == 20));
            drop(got);
            drop(intern(21, None)); // in the slot that is free now, if it is
        });
        (
            vec![give, take],
            Box::new(|| {
                drop(post.lock().unwrap().take());
                no_node_is_left()()
            }),
        )
    });
}

#[test]
fn the_machine_sees_a_race_and_a_deadlock() {
    let _one = MACHINE.lock().unwrap_or_else(|e| e.into_inner());
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let failure = |begin: &dyn Fn() -> Program| {
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| sync::explore(2, 500, begin)));
        let e = found.expect_err("it is not seen");
        e.downcast_ref::<String>().cloned().unwrap_or_default()
    };
    // published by a relaxed store: the reader may see the flag and not the value
    let relaxed = failure(&|| {
        let cell: &'static sync::Cell<u64> = Box::leak(Box::new(sync::Cell::empty()));
        let flag: &'static sync::AtomicU32 = Box::leak(Box::new(sync::AtomicU32::new(0)));
        let write: Box<dyn FnOnce() + Send> = Box::new(|| {
            unsafe { cell.write(1) };
            flag.store(1, sync::Ordering::Relaxed);
        });
        let read: Box<dyn FnOnce() + Send> = Box::new(|| {
            if flag.load(sync::Ordering::Acquire) == 1 {
                assert_eq!(unsafe { *cell.read() }, 1);
            }
        });
        (vec![write, read], Box::new(|| ()))
    });
    assert!(relaxed.contains("a race"), "{relaxed}");
    let crossed = failure(&|| {
        let (a, b): (&'static sync::Mutex<()>, &'static sync::Mutex<()>) =
            (Box::leak(Box::new(sync::Mutex::new(()))), Box::leak(Box::new(sync::Mutex::new(()))));
        let both = |x: &'static sync::Mutex<()>, y: &'static sync::Mutex<()>| -> Box<dyn FnOnce() + Send> {
            Box::new(move || drop((x.lock().unwrap(), y.lock().unwrap())))
        };
        (vec![both(a, b), both(b, a)], Box::new(|| ()))
    });
    assert!(crossed.contains("deadlock"), "{crossed}");
    std::panic::set_hook(quiet);
    // a node that is not published is dropped with its slot
    drop(Unpublished::new(Node { value: 1, src: None }));
}
