//! Every case of the golden files through `Tensor`: forward and gradient, from views, on every device, with the opts
//! of the heuristic and with random ones. Many cases are realised together, so that a compiler is called few times.
//!
//! Both sides round to float32 here, so what may differ is twice what the plain loops may differ from torch by.

use crate::ops;
use crate::support::{DEVICES, array, child, dtype, gpu, is_child, is_long, on, other_cpus, tensor};
use frit::engine::with_random_opts;
use frit::{Result, Tensor};
use frit_reference::goldens::{self, Case};
use frit_reference::tolerance::Tolerance;

/// Cases realised together.
const GROUP: usize = 48;

/// A tensor of a case and what it must be.
pub struct Claim<'a> {
    /// Case and tensor.
    pub what: String,
    /// Not computed yet, or why it cannot be.
    pub got: Result<Tensor>,
    /// Torch's.
    pub want: &'a goldens::Tensor,
    tolerance: Tolerance,
}

/// The outputs and gradients of a case, not computed yet.
pub fn claims(case: &Case) -> Vec<Claim<'_>> {
    let inputs: Vec<Tensor> = case.inputs.iter().map(|t| tensor(&t.array, dtype(t.kind))).collect();
    let outputs = ops::apply(case, &ops::views(case, &inputs));
    let outputs = outputs.unwrap_or_else(|| panic!("{}: no op {}", case.name, case.op));
    assert_eq!(outputs.len(), case.outputs.len(), "{}", case.name);
    let mut claims = vec![];
    for (got, want) in outputs.iter().zip(&case.outputs) {
        let tolerance = Tolerance::of_output(case, want).times(2.0);
        let what = format!("{} {}", case.name, want.name);
        claims.push(Claim { what, got: got.check().map(|_| got.clone()), want, tolerance });
    }
    let gradients = gradients(case, &inputs, &outputs);
    for (i, want) in case.grads.iter().enumerate() {
        let got = gradients.as_ref().map(|g| g[i].clone()).map_err(|e| e.clone());
        let tolerance = Tolerance::of_gradient(case, want).times(2.0);
        claims.push(Claim { what: format!("{} by {}", case.name, want.name), got, want, tolerance });
    }
    claims
}

/// Gradients of `sum(out * weight)` with respect to the inputs that have one.
fn gradients(case: &Case, inputs: &[Tensor], outputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let floats =
        outputs.iter().zip(&case.weights).zip(&case.outputs).filter(|(_, o)| o.kind.precision().is_some());
    let weighted = floats.map(|((out, w), _)| (out * tensor(&w.array, dtype(w.kind))).sum(..));
    let Some(loss) = weighted.reduce(|a, b| a + b) else { return Ok(vec![]) };
    let place =
        |name: &str| case.inputs.iter().position(|x| x.name == name).expect("a gradient has its input");
    let targets: Vec<&Tensor> = case.grads.iter().map(|g| &inputs[place(&g.name)]).collect();
    loss.gradient_or_zeros(&targets)
}

/// How far the result of a claim may be off.
pub fn tolerated(claim: &Claim) -> Tolerance {
    claim.tolerance
}

/// What is wrong with a claim, once it is computed.
pub fn fault(claim: &Claim) -> Option<String> {
    let found = match claim.got.as_ref().map_err(|e| e.clone()).and_then(array) {
        Err(e) => Some(e.to_string()),
        Ok(_) if claim.got.as_ref().is_ok_and(|t| t.dtype() != dtype(claim.want.kind)) => {
            claim.got.as_ref().ok().map(|t| format!("is {}, torch has {:?}", t.dtype(), claim.want.kind))
        }
        Ok(got) => claim.tolerance.first_difference(&got, &claim.want.array),
    };
    found.map(|f| format!("{}: {f}", claim.what))
}

/// Every n-th case of a family on a device; the faults.
fn replay(nth: usize, family: &str, device: &str, seed: Option<u64>) -> Vec<String> {
    let all = goldens::family(family);
    let all: Vec<&Case> = all.iter().step_by(nth).collect();
    on(device, || {
        let mut faults = vec![];
        for group in all.chunks(GROUP) {
            let claims: Vec<Claim> = group.iter().flat_map(|case| claims(case)).collect();
            let ready: Vec<&Tensor> = claims.iter().filter_map(|c| c.got.as_ref().ok()).collect();
            let mut check = || {
                // where the group cannot be realised, each claim by itself says why
                let _ = Tensor::realize_all(&ready);
                faults.extend(claims.iter().filter_map(fault));
            };
            match seed {
                Some(s) => with_random_opts(s, check),
                None => check(),
            }
        }
        faults
    })
}

fn must_agree(family: &str, device: &str, seed: Option<u64>) {
    must_agree_each(1, family, device, seed);
}

fn must_agree_each(nth: usize, family: &str, device: &str, seed: Option<u64>) {
    let faults = replay(nth, family, device, seed);
    assert!(faults.is_empty(), "{} differ on {device}, opts {seed:?}:\n{}", faults.len(), faults.join("\n"));
}

/// Which cases are tried with random opts where they are with those of the heuristic, too: random programs are as well, and each
/// case is on this machine's own way. All of them with `FRIT_LONG=1`.
fn some() -> usize {
    if is_long() { 1 } else { 4 }
}

macro_rules! families {
    ($($family:ident),* $(,)?) => {
        $(mod $family {
            use super::{DEVICES, gpu, must_agree, must_agree_each, other_cpus, some};
            const FAMILY: &str = stringify!($family);
            #[test]
            fn agrees_with_torch_on_the_interpreter() { must_agree(FAMILY, DEVICES[0], None); }
            #[test]
            fn agrees_with_torch_on_the_interpreter_as_a_gpu() { must_agree(FAMILY, DEVICES[1], None); }
            #[test]
            fn agrees_with_torch_on_the_cpu() { must_agree(FAMILY, DEVICES[2], None); }
            #[test]
            fn agrees_with_torch_on_the_interpreter_with_random_opts() { must_agree(FAMILY, DEVICES[0], Some(1)); }
            #[test]
            fn agrees_with_torch_on_the_interpreter_as_a_gpu_with_random_opts() {
                must_agree(FAMILY, DEVICES[1], Some(3));
            }
            #[test]
            fn agrees_with_torch_on_the_cpu_with_random_opts() { must_agree(FAMILY, DEVICES[2], Some(5)); }
            #[test]
            fn agrees_with_torch_on_a_gpu() { must_agree(FAMILY, gpu(), None); }
            #[test]
            fn agrees_with_torch_on_the_cpu_in_every_other_way() {
                for (device, seed) in other_cpus().zip(7..) {
                    must_agree(FAMILY, device, None);
                    must_agree_each(some(), FAMILY, device, Some(seed));
                }
            }
        })*
        /// The families that run here.
        const RUN: &[&str] = &[$(stringify!($family)),*];
    };
}
families! { core, indexing, linalg, moving, neural, sorting, spectral }

/// Every kernel of every family with one side of its buffers at pages that cannot be touched: an access outside one ends the
/// process. Both sides have the same kernels, so their indices are proven once.
fn must_stay_inside(test: &str, side: &str, spec: &str) {
    if !is_child() {
        child(test, &[("FRIT_GUARD", side), ("FRIT_SPEC", spec)]);
        return;
    }
    for family in RUN {
        must_agree(family, "CPU", None);
        must_agree(family, "CPU", Some(6));
    }
}

#[test]
fn no_kernel_reaches_before_its_buffers() {
    must_stay_inside("goldens::no_kernel_reaches_before_its_buffers", "start", "0");
}

#[test]
fn no_kernel_reaches_behind_its_buffers() {
    must_stay_inside("goldens::no_kernel_reaches_behind_its_buffers", "end", "3");
}

#[test]
fn every_family_runs() {
    let written: Vec<&str> = goldens::FAMILIES.iter().map(|f| f.0).collect();
    assert_eq!(RUN, written);
}
