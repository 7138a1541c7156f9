//! Check a linear program: everything is computed before it is used, in scope, of a decided type.

use frit_abi::Target;
use frit_uop::{Arg, DType, Linear, Op, Step, UOp};
use rustc_hash::FxHashSet;

/// What is wrong with a program, if anything.
pub fn verify(linear: &Linear, target: &Target) -> Result<(), String> {
    let fail = |n: &UOp, why: &str| Err(format!("{n:?} {why}"));
    // values in scope, and for each open loop what was computed in it
    let mut scope: FxHashSet<UOp> = FxHashSet::default();
    let mut open: Vec<(UOp, Vec<UOp>)> = vec![];
    // stores and barriers that are done, and loops that are
    let mut effects: FxHashSet<UOp> = FxHashSet::default();
    for step in &linear.steps {
        match step {
            Step::Open(r) => {
                if open.iter().any(|(o, _)| o == r) || r.op != Op::Range {
                    return fail(r, "is opened twice or no range");
                }
                available(r.extent(), &scope, &effects)
                    .or_else(|n| fail(&n, "is an extent that is not there"))?;
                scope.insert(r.clone());
                open.push((r.clone(), vec![]));
            }
            Step::Close(r) => match open.pop() {
                Some((o, inside)) if o == *r => {
                    scope.remove(r);
                    effects.insert(r.clone());
                    inside.iter().for_each(|v| _ = scope.remove(v));
                }
                _ => return fail(r, "is closed but not the innermost open range"),
            },
            Step::Prefetch(at, _) => {
                available(at, &scope, &effects).or_else(|n| fail(&n, "is not there for a prefetch"))?;
            }
            Step::Do(n) => {
                for s in &n.src {
                    available(s, &scope, &effects)
                        .or_else(|m| fail(&m, &format!("is not there for {n:?}")))?;
                }
                if n.ranges
                    .iter()
                    .any(|id| !open.iter().any(|(o, _)| o.range_arg().is_some_and(|a| a.id == *id)))
                {
                    return fail(n, "is outside a range it depends on");
                }
                check_types(n, target).or_else(|why| fail(n, why))?;
                match n.op {
                    op if is_effect(op) => _ = effects.insert(n.clone()),
                    _ => {
                        scope.insert(n.clone());
                        if let Some((_, inside)) = open.last_mut() {
                            inside.push(n.clone());
                        }
                    }
                }
            }
        }
    }
    match open.last() {
        Some((r, _)) => fail(r, "is never closed"),
        None => Ok(()),
    }
}

/// Whether a step has no value, and others come after it.
fn is_effect(op: Op) -> bool {
    matches!(op, Op::Store | Op::Barrier | Op::CopyAsync | Op::Commit | Op::Wait)
}

/// Whether a source can be used here; else what is missing.
fn available(n: &UOp, scope: &FxHashSet<UOp>, effects: &FxHashSet<UOp>) -> Result<(), UOp> {
    let mut stack = vec![n];
    while let Some(n) = stack.pop() {
        match n.op {
            Op::Const | Op::Param | Op::Define | Op::Variable => {}
            Op::Special | Op::After | Op::End | Op::Sink | Op::Index => stack.extend(n.src.iter()),
            op if is_effect(op) && effects.contains(n) => {}
            // a range among deps only says where; once its loop is closed it may still be named
            Op::Range if scope.contains(n) || effects.contains(n) => {}
            _ if scope.contains(n) => {}
            _ => return Err(n.clone()),
        }
    }
    Ok(())
}

/// Whether an operation of a matrix unit has operands as that unit of the target takes them.
fn check_matrix(n: &UOp, target: &Target) -> Result<(), &'static str> {
    let unit = match &n.arg {
        Arg::Name(name) => target.unit(name),
        _ => None,
    };
    let unit = unit.ok_or("names no matrix unit of the target")?;
    let is_held = |o: usize, s: &UOp| {
        let bytes = unit.held(o) * unit.dtype(o).size();
        s.lanes() * s.dtype.size() == bytes && (o < 2 || unit.accumulates(s.dtype))
    };
    match n.src.iter().enumerate().all(|(o, s)| is_held(o, s)) {
        true => Ok(()),
        false => Err("has operands of other sizes than its unit takes"),
    }
}

fn check_types(n: &UOp, target: &Target) -> Result<(), &'static str> {
    let lanes = n.lanes();
    if n.dtype == DType::Index || n.src.iter().any(|s| s.dtype == DType::Index && s.op != Op::Range) {
        return Err("has no decided width");
    }
    let Some(shape) = n.try_shape() else {
        return match n.op {
            Op::Store if n.src[1].lanes() != n.src[0].lanes() => {
                Err("stores another number of lanes than it has room for")
            }
            Op::CopyAsync if n.src[1].lanes() != n.src[0].lanes() => {
                Err("copies another number of lanes than it has room for")
            }
            op if is_effect(op) => Ok(()),
            _ => Err("has operands of different shapes"),
        };
    };
    if shape.len() > 1 {
        return Err("is neither a scalar nor a vector");
    }
    if lanes > 1 && target.vector_bytes == 0 && n.op.is_elementwise() && !target.packed.has(n.dtype) {
        return Err("is vector arithmetic the target does not have");
    }
    if n.op == Op::Load && n.src.get(2).is_some_and(|g| g.lanes() != 1 && g.lanes() != lanes) {
        return Err("has a gate of another width");
    }
    if n.op == Op::Matrix {
        return check_matrix(n, target);
    }
    if n.op == Op::Load && n.src[0].behind_after().op == Op::Param {
        return Err("loads a whole parameter");
    }
    Ok(())
}
