//! The ops of the golden files, spelled as methods of `Tensor`: a file for each family.

mod core;
mod indexing;
mod linalg;
mod moving;
mod neural;
mod sorting;
mod spectral;

use frit::{Index, Tensor};
use frit_reference::goldens::Case;

/// What applies the cases of a family.
type Family = fn(&Case, &[Tensor]) -> Option<Vec<Tensor>>;

/// Apply the case's op to its inputs, recipes already applied. `None` where `Tensor` does not have the op.
pub fn apply(case: &Case, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
    const FAMILIES: [Family; 7] = [
        core::apply,
        indexing::apply,
        linalg::apply,
        moving::apply,
        neural::apply,
        sorting::apply,
        spectral::apply,
    ];
    FAMILIES.iter().find_map(|family| family(case, inputs))
}

/// The case's inputs as views: each tensor with its recipe applied.
pub fn views(case: &Case, inputs: &[Tensor]) -> Vec<Tensor> {
    case.inputs.iter().zip(inputs).map(|(t, x)| view(case, &t.name, x)).collect()
}

fn view(case: &Case, name: &str, x: &Tensor) -> Tensor {
    case.recipe(name).iter().fold(x.clone(), |x, (what, n)| match *what {
        "permute" => x.permute(&n[..]),
        "flip" => x.flip(&n[..]),
        "expand" => x.expand(n.clone()),
        "reshape" => x.reshape(n.clone()),
        "slice" => slice(&x, n[0], Some(n[1]), Some(n[2]), n[3]),
        _ => panic!("{}: recipe step {what}", case.name),
    })
}

/// `x[start:end:step]` along an axis.
fn slice(x: &Tensor, axis: isize, start: Option<isize>, end: Option<isize>, step: isize) -> Tensor {
    let axis = if axis < 0 { axis + x.rank() as isize } else { axis } as usize;
    let mut idx = vec![Index::from(..); axis];
    idx.push(Index::Slice { start: start.map(Into::into), end: end.map(Into::into), step: step as i64 });
    x.at(idx)
}

/// Numbers of a parameter as sizes.
fn sizes(n: &[isize]) -> Vec<usize> {
    n.iter().map(|&n| n as usize).collect()
}

/// A parameter that has a default.
fn number(case: &Case, key: &str, default: f64) -> f64 {
    case.number(key).unwrap_or(default)
}
