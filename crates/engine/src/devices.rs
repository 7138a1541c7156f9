//! Which device new tensors are made on.

use crate::Error;
use crate::config;
use frit_abi::Target;
use frit_abi::sync::RwLock;
use frit_runtime::disk;
use frit_uop::UOp;
use frit_uop::graph::toposort;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

pub use frit_runtime::HOST;

thread_local! {
    static SCOPES: RefCell<Vec<Arc<str>>> = const { RefCell::new(Vec::new()) };
}

/// The device the program chose for all threads.
static CHOSEN: RwLock<Option<Arc<str>>> = RwLock::new(None);

/// Make this the default device of all threads, outside scopes; of `None`, what the environment says.
pub fn choose(name: Option<&str>) -> Result<(), Error> {
    let name = name.map(computing).transpose()?;
    *CHOSEN.write().unwrap_or_else(|e| e.into_inner()) = name;
    Ok(())
}

/// The device of the innermost [`scope`] of this thread, else the one the program chose, else `FRIT_DEVICE`, else `CPU`.
pub fn default_device() -> Result<Arc<str>, Error> {
    if let Some(d) = SCOPES.with(|s| s.borrow().last().cloned()) {
        return Ok(d);
    }
    if let Some(d) = CHOSEN.read().unwrap_or_else(|e| e.into_inner()).clone() {
        return Ok(d);
    }
    let name = std::env::var("FRIT_DEVICE").ok().filter(|v| !v.is_empty()).unwrap_or_else(|| HOST.into());
    computing(&name)
}

/// The canonical name of a device, or an error that lists those there are.
pub fn canonical(name: &str) -> Result<Arc<str>, Error> {
    config::check()?;
    Ok(frit_runtime::device(name)?.name().into())
}

/// The canonical name of a device that values can be computed on.
fn computing(name: &str) -> Result<Arc<str>, Error> {
    let name = canonical(name)?;
    if *name == *disk::NAME { Err(only_holds_bytes()) } else { Ok(name) }
}

/// Why something cannot be done with a file.
pub(crate) fn only_holds_bytes() -> Error {
    Error::Graph("DISK only holds bytes: move it with to(...)".into())
}

/// The one device all buffers are on; the `preferred` or the default device if there is no buffer.
pub(crate) fn device_of(roots: &[UOp], preferred: Option<&Arc<str>>) -> Result<Arc<str>, Error> {
    let mut found: Option<Arc<str>> = None;
    for n in &toposort(roots) {
        let frit_uop::Arg::Buffer(b) = &n.arg else { continue };
        match &found {
            _ if b.device() == disk::NAME => return Err(only_holds_bytes()),
            Some(d) if **d != *b.device() => {
                return Err(Error::Graph(format!(
                    "tensors on {d} and {} meet: move one with `to`",
                    b.device()
                )));
            }
            _ => found = Some(b.device().into()),
        }
    }
    found.or_else(|| preferred.cloned()).map_or_else(default_device, Ok)
}

/// Run `f` with another default device on this thread.
pub fn scope<T>(name: &str, f: impl FnOnce() -> T) -> Result<T, Error> {
    let name = computing(name)?;
    SCOPES.with(|s| s.borrow_mut().push(name));
    // popped also when `f` panics
    struct Pop;
    impl Drop for Pop {
        fn drop(&mut self) {
            SCOPES.with(|s| s.borrow_mut().pop());
        }
    }
    let _pop = Pop;
    Ok(f())
}

/// Every kind of device: its name, what it is, and what this machine's one is like or why it is not usable.
pub fn list() -> Vec<(String, String, Result<String, Error>)> {
    let describe = |d: frit_runtime::DeviceInfo| {
        let found = d.device.map(|d| d.describe()).map_err(Error::from);
        (d.name.to_string(), d.about.to_string(), found)
    };
    frit_runtime::available().into_iter().map(describe).collect()
}

/// What a device is, in a line.
pub fn describe(name: &str) -> Result<String, Error> {
    Ok(frit_runtime::device(name)?.describe())
}

/// What the machine behind a device can do.
pub fn target(name: &str) -> Result<Target, Error> {
    Ok(frit_runtime::device(name)?.target().clone())
}

/// Whether launches on a device return before they have run.
pub fn runs_apart(name: &str) -> Result<bool, Error> {
    Ok(frit_runtime::device(name)?.runs_apart())
}

/// What other libraries on a device know its queue by; `None` where it has none.
pub fn queue_handle(name: &str) -> Result<Option<u64>, Error> {
    Ok(frit_runtime::device(name)?.queue_handle())
}

/// Wait for all that anyone queued on a device, other libraries too.
pub fn settle(name: &str) -> Result<(), Error> {
    Ok(frit_runtime::device(name)?.settle()?)
}

/// How long work takes, to its end and by the device's own clock where it has one. An error is the work's own, or what
/// `wrong` makes of the device's.
pub fn time<E>(
    name: &str,
    mut work: impl FnMut() -> Result<(), E>,
    wrong: impl Fn(Error) -> E,
) -> Result<Duration, E> {
    let mut failed = None;
    let mut queue = || {
        work().map_err(|e| {
            failed = Some(e);
            frit_runtime::Error::Interrupted
        })
    };
    let time = frit_runtime::device(name).and_then(|d| d.time(&mut queue));
    failed.map_or_else(|| time.map_err(|e| wrong(e.into())), Err)
}

/// What the allocator of a device holds.
pub fn memory_stats(name: &str) -> Result<frit_runtime::MemoryStats, Error> {
    Ok(frit_runtime::device(name)?.memory_stats())
}

/// How many threads kernels of the CPU run in.
pub fn threads() -> Result<usize, Error> {
    Ok(frit_runtime::env::threads()?)
}

/// Environment variables that devices read: name, what it accepts, what it does.
pub fn flags() -> Vec<(&'static str, &'static str, &'static str)> {
    frit_runtime::env::FLAGS.iter().map(|f| (f.name, f.accepts, f.about)).collect()
}
