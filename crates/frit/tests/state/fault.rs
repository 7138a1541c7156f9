//! Which fault of the past a failing program looks like: the table by which the fuzzer was proven.

use crate::program::{Function, Op, Place, Program};
use crate::run::{Failure, Kind};

/// A name for what a minimised program shows.
pub fn class(program: &Program, failure: &Failure) -> &'static str {
    let has = |f: &dyn Fn(&Op) -> bool| program.steps.iter().any(|s| f(&s.op));
    let bodies = || {
        program.steps.iter().filter_map(|s| match &s.op {
            Op::Define { function } => Some(function),
            _ => None,
        })
    };
    let in_body = |f: &dyn Fn(&Op) -> bool| bodies().any(|b| b.body.iter().any(|s| f(&s.op)));
    let any = |f: &dyn Fn(&Op) -> bool| has(f) || in_body(f);
    let is_window = |o: &Op| {
        matches!(
            o,
            Op::At { .. }
                | Op::Reshape { .. }
                | Op::Permute { .. }
                | Op::Squeeze { .. }
                | Op::Unsqueeze { .. }
                | Op::Expand { .. }
                | Op::Split { .. }
                | Op::Detach { .. }
                | Op::Bitcast { .. }
        )
    };
    let what = &failure.what;
    match failure.kind {
        Kind::Panic => return "panic",
        Kind::Error if what.contains("circle") => return "C4, CONF 1: stores wait in a circle",
        Kind::Error if what.contains("older version") => return "W4, CONF 1: view of an older version",
        Kind::Error if what.contains("; cast it") => return "CONF 1: a value is not cast to its place",
        Kind::Error if what.contains("cannot be replayed") || what.contains("cannot be recorded") => {
            return match what.contains("it keeps a tensor") {
                _ if has(&|o| matches!(o, Op::Lend { .. })) => "K1: lent state of a Jit",
                true => "CONF 12: a Jit refuses a local over state",
                false => "a Jit refuses to assign to an input that is held",
            };
        }
        Kind::Error if what.contains("an operand has another type") => {
            return "W3: item assignment changes the type";
        }
        _ => {}
    }
    let sets = has(&|o| matches!(o, Op::Set { .. } | Op::SetRows { .. } | Op::SetMask { .. }));
    if failure.kind == Kind::Form {
        return match any(&|o| o.target().is_some()) {
            true => "W3: an assignment changes the type",
            false => "another shape or type",
        };
    }
    if any(&|o| matches!(o, Op::EmptySum { .. })) && !any(&is_window) {
        return "W5: empty reduction";
    }
    if any(&|o| matches!(o, Op::Flip { .. })) && any(&|o| o.target().is_some()) {
        return "a flip is a window";
    }
    if any(&|o| matches!(o, Op::Set { places, .. } if places.iter().any(is_empty))) && !any(&is_window) {
        return "W6: empty slice assigned";
    }
    if any(&|o| matches!(o, Op::Gradient { .. })) {
        return "CONF 2: gradients of equal leaves";
    }
    if in_body(&|o| matches!(o, Op::Mode { .. })) {
        return "W10: training mode in a Jit";
    }
    if has(&|o| matches!(o, Op::Call { inputs, .. } if inputs.iter().any(|i| i.rows.is_some()))) {
        return "symbolic sizes in a Jit";
    }
    // only from the third call on something is replayed
    let calls = program.steps.iter().filter(|s| matches!(s.op, Op::Call { .. })).count();
    if calls > 2 {
        let writes = bodies().any(|b| b.body.iter().any(|s| s.op.target().is_some()));
        let returns_outside = bodies().any(|b| b.returns.iter().any(|r| comes_from_outside(b, *r)));
        return match (writes, returns_outside) {
            _ if failure.kind == Kind::Error => "a Jit fails",
            (true, true) => "W2: a Jit returns a view of what it writes",
            (false, true) => "W1: a Jit returns a view of outside memory",
            (false, false) => "W1, CONF 3: a Jit freezes what it reads",
            (true, false) => "a Jit that writes gives another value",
        };
    }
    if failure.kind == Kind::Error {
        return "an error";
    }
    if failure.kind == Kind::Lent {
        return "lent memory changed";
    }
    if any(&is_window) {
        return match has(&|o| matches!(o, Op::Drop { .. })) {
            true => "CONF 1: a write through a view is lost",
            false => "W4, CONF 1: a view is no window",
        };
    }
    if sets {
        return "W3: item assignment";
    }
    "other"
}

fn is_empty(p: &Place) -> bool {
    matches!(p, Place::Slice(_, Some(0), _) | Place::Slice(Some(9), _, _))
}

/// Whether a result is a window on something from outside, or that itself.
fn comes_from_outside(f: &Function, id: u32) -> bool {
    if f.captures.contains(&id) {
        return true;
    }
    f.body.iter().find(|s| s.out == id).is_some_and(|s| match &s.op {
        Op::At { of, .. }
        | Op::Reshape { of, .. }
        | Op::Permute { of, .. }
        | Op::Squeeze { of, .. }
        | Op::Unsqueeze { of, .. }
        | Op::Expand { of, .. }
        | Op::Split { of, .. }
        | Op::Detach { of }
        | Op::Bitcast { of, .. }
        | Op::Alias { of } => comes_from_outside(f, *of),
        _ => false,
    })
}
