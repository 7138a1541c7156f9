//! What the evaluator says a graph means against what the interpreter computes, for the graphs of the golden cases.

use crate::goldens::{Claim, claims, tolerated};
use crate::support::{evaluate, on};
use frit::Tensor;
use frit_reference::Array;
use frit_reference::goldens::{self, Case};

/// In double precision nothing overflows on the way and nothing is lost beside something large, so cases that are about
/// just that are not for the evaluator.
fn is_about_float32(case: &Case) -> bool {
    case.name.contains("/special") || case.name.contains("/extreme")
}

/// The evaluator's value of a claim against torch's: it takes the place of the device.
fn fault(claim: &Claim, got: &frit_uop::eval::Array<frit_uop::eval::Value>) -> Option<String> {
    let data: Vec<f64> = got.values.iter().map(|v| v.as_f64()).collect();
    let found = tolerated(claim).first_difference(&Array::new(&got.shape, data), &claim.want.array);
    found.map(|f| format!("{}: {f}", claim.what))
}

#[test]
fn the_evaluator_agrees_with_torch() {
    let mut faults = vec![];
    on("INTERP", || {
        for case in goldens::all().iter().filter(|c| !is_about_float32(c)) {
            let claims: Vec<Claim> = claims(case);
            let made: Vec<&Tensor> = claims.iter().filter_map(|c| c.got.as_ref().ok()).collect();
            assert_eq!(made.len(), claims.len(), "{}", case.name);
            let nodes: Vec<_> = made.iter().map(|t| t.uop().unwrap()).collect();
            match evaluate(&nodes) {
                Ok(values) => faults.extend(claims.iter().zip(&values).filter_map(|(c, v)| fault(c, v))),
                Err(e) => faults.push(format!("{}: {e}", case.name)),
            }
        }
    });
    assert!(faults.is_empty(), "{} differ:\n{}", faults.len(), faults.join("\n"));
}
