//! What the hardware answers: a kernel for each instruction form, operands for it, and the text in which answers are kept.
//!
//! ```text
//! form, operands ── snippet ──> PTX ── a driver ──> answers ── `tests-data/ptx_truth.txt` ──> replayed on the interpreter
//! ```
//!
//! A line is a form and its samples: `add.s32 1,2=3 ffffffff,1=0`, in hexadecimal. A lane has four words of operands and two
//! of answers, of which the second is left out where it is zero.

mod drive;
mod operands;
mod snippets;

pub use drive::Driver;
pub use operands::samples;
pub use snippets::{Snippet, all};

/// Words of operands that a lane has.
pub const GIVEN: usize = 4;
/// Words of answers.
pub const ANSWERS: usize = 2;

/// What one lane was given, and what came out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Operands.
    pub given: [u64; GIVEN],
    /// Results.
    pub answer: [u64; ANSWERS],
}

/// A form with its samples as a line.
pub fn line(snippet: &Snippet, samples: &[Sample]) -> String {
    let mut out = snippet.name.clone();
    for s in samples {
        let given: Vec<String> = s.given[..snippet.operands].iter().map(|w| format!("{w:x}")).collect();
        out.push_str(&format!(" {}={:x}", given.join(","), s.answer[0]));
        if s.answer[1] != 0 {
            out.push_str(&format!(":{:x}", s.answer[1]));
        }
    }
    out
}

/// The form and samples of a line.
pub fn parse(line: &str) -> Option<(&str, Vec<Sample>)> {
    let hex = |s: &str| u64::from_str_radix(s, 16).ok();
    let mut words = line.split_whitespace();
    let name = words.next()?;
    let sample = |word: &str| {
        let (given, answer) = word.split_once('=')?;
        let mut s = Sample { given: [0; GIVEN], answer: [0; ANSWERS] };
        for (to, from) in s.given.iter_mut().zip(given.split(',').filter(|w| !w.is_empty())) {
            *to = hex(from)?;
        }
        for (to, from) in s.answer.iter_mut().zip(answer.split(':')) {
            *to = hex(from)?;
        }
        Some(s)
    };
    Some((name, words.map(sample).collect::<Option<_>>()?))
}
