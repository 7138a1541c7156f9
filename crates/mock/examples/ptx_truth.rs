//! Ask a driver what every instruction form does, for `tests-data/ptx_truth.txt`.
//!
//! ```text
//! ptx_truth libcuda.so.1 ptx_truth.txt
//! ptx_truth --texts folder
//! ```
//!
//! The second writes the kernels themselves, for an assembler.

use frit_mock::truth::{Driver, all, line, samples};
use std::ffi::{CString, c_char, c_int, c_void};

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *const c_void;
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [first, to] = &args[..] else { return Err("usage: ptx_truth LIBRARY FILE | --texts FOLDER".into()) };
    if first == "--texts" {
        for s in all() {
            std::fs::write(format!("{to}/{}.ptx", s.name.replace(':', "-")), &s.text)?;
        }
        return Ok(());
    }
    let name = CString::new(first.as_str())?;
    // SAFETY: opening a library runs its constructors, which is what the caller asked for.
    let library = unsafe { dlopen(name.as_ptr(), 2) };
    if library.is_null() {
        return Err(format!("{first} cannot be opened").into());
    }
    let find = |name: &str| {
        let name = CString::new(name).ok()?;
        // SAFETY: the library is open, the name ends with zero.
        let found = unsafe { dlsym(library, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    };
    let driver = Driver::new(&find)?;
    let (mut out, mut failed) = (String::new(), 0);
    for snippet in all() {
        match driver.run(&snippet, &samples(&snippet)) {
            Ok(answers) => out += &format!("{}\n", line(&snippet, &answers)),
            Err(e) => {
                failed += 1;
                eprintln!("{}: {e}", snippet.name);
            }
        }
    }
    std::fs::write(to, &out)?;
    println!("{} forms, {failed} failed, {} bytes in {to}", out.lines().count(), out.len());
    Ok(())
}
