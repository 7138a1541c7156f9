//! The stand-in as a library of its own, opened in the driver's place.

use frit_mock::truth::{Driver, all, samples};
use std::ffi::CString;

#[test]
fn it_can_be_opened_as_the_driver() {
    let here = std::env::current_exe().expect("the test's path");
    let file = here.with_file_name("libfrit_mock.so");
    let name = CString::new(file.to_string_lossy().as_bytes()).expect("no zero byte");
    // SAFETY: the library is ours, and has no constructors of note.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!library.is_null(), "{} cannot be opened", file.display());
    let find = |name: &str| {
        let name = CString::new(name).ok()?;
        // SAFETY: the library stays open; the name ends with zero.
        let found = unsafe { libc::dlsym(library, name.as_ptr()) };
        (!found.is_null()).then_some(found.cast_const())
    };
    // a state of its own: not the one that this process would find
    assert_ne!(find("cuInit"), frit_mock::find("cuInit"));
    let driver = Driver::new(&find).expect("a driver");
    let snippet = all().into_iter().find(|s| s.name == "add.s32").expect("a snippet");
    for s in driver.run(&snippet, &samples(&snippet)).expect("answers") {
        assert_eq!(s.answer[0], u64::from((s.given[0] as u32).wrapping_add(s.given[1] as u32)));
    }
}
