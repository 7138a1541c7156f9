//! Places in the user's program, numbered so that a kernel can name one in its status word.

use frit_abi::sync::{Mutex, OnceLock};
use std::borrow::Cow;
use std::panic::Location;

/// A call in the user's program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Site {
    /// The op that was called: `gather`, `embedding`.
    pub op: &'static str,
    /// In which file.
    pub file: Cow<'static, str>,
    /// At which line.
    pub line: u32,
}

impl std::fmt::Display for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {}:{}", self.op, self.file, self.line)
    }
}

static SITES: Mutex<Vec<Site>> = Mutex::new(Vec::new());

/// Says at which file and line the program is that the user wrote.
pub type Caller = fn() -> Option<(String, u32)>;

static CALLER: OnceLock<Caller> = OnceLock::new();

/// For programs in another language: errors name the line that this says. The first hook stays.
pub fn set_caller_hook(caller: Caller) {
    let _ = CALLER.set(caller);
}

/// The file and line of a call in the user's program.
pub fn line_of(at: &'static Location<'static>) -> (Cow<'static, str>, u32) {
    match CALLER.get().and_then(|caller| caller()) {
        Some((file, line)) => (Cow::Owned(file), line),
        None => (Cow::Borrowed(at.file()), at.line()),
    }
}

/// The number of this call; the same call always has the same number, so the table is bounded by the program's text.
pub fn register(op: &'static str, at: &'static Location<'static>) -> u32 {
    let (file, line) = line_of(at);
    let site = Site { op, file, line };
    let mut sites = SITES.lock().unwrap_or_else(|e| e.into_inner());
    let n = sites.iter().position(|s| *s == site).unwrap_or_else(|| {
        sites.push(site);
        sites.len() - 1
    });
    n as u32
}

/// The call with this number.
pub fn lookup(number: u32) -> Option<Site> {
    SITES.lock().unwrap_or_else(|e| e.into_inner()).get(number as usize).cloned()
}
