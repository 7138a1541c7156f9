//! Places in the user's program, numbered so that a kernel can name one in its status word.

use std::panic::Location;
use std::sync::Mutex;

/// A call in the user's program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Site {
    /// The op that was called: `gather`, `embedding`.
    pub op: &'static str,
    /// Where.
    pub at: &'static Location<'static>,
}

impl std::fmt::Display for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {}:{}", self.op, self.at.file(), self.at.line())
    }
}

static SITES: Mutex<Vec<Site>> = Mutex::new(Vec::new());

/// The number of this call; the same call always has the same number, so the table is bounded by the program's text.
pub fn register(op: &'static str, at: &'static Location<'static>) -> u32 {
    let mut sites = SITES.lock().unwrap_or_else(|e| e.into_inner());
    let site = Site { op, at };
    let n = sites.iter().position(|s| *s == site).unwrap_or_else(|| {
        sites.push(site);
        sites.len() - 1
    });
    n as u32
}

/// The call with this number.
pub fn lookup(number: u32) -> Option<Site> {
    SITES.lock().unwrap_or_else(|e| e.into_inner()).get(number as usize).copied()
}
