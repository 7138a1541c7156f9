//! Lists of what happens on a thread while a function runs: what a Jit must know besides launches.

use std::cell::RefCell;
use std::thread::LocalKey;

/// A list, while someone watches.
pub(crate) type Watched<T> = RefCell<Option<Vec<T>>>;

/// Run `f` with an empty list in `place`, and give what it holds afterwards. The list is gone then, also where `f` panics.
pub(crate) fn run<T: 'static, R>(place: &'static LocalKey<Watched<T>>, f: impl FnOnce() -> R) -> (R, Vec<T>) {
    struct Stop<T: 'static>(&'static LocalKey<Watched<T>>);
    impl<T> Drop for Stop<T> {
        fn drop(&mut self) {
            self.0.take();
        }
    }
    let _stop = Stop(place);
    place.set(Some(vec![]));
    let result = f();
    (result, place.take().unwrap_or_default())
}
