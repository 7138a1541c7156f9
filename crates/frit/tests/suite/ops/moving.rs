//! Ops that move elements, and tensors made of numbers.

use super::{number, sizes};
use frit::{PadMode, Tensor};
use frit_reference::goldens::Case;

/// The outputs of a case of this family.
pub fn apply(case: &Case, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
    let (x, n) = (&inputs[0], |key| number(case, key, 0.0));
    let (int, dim) = (|key| n(key) as isize, n("dim") as isize);
    if let Some(pieces) = pieces(case, inputs) {
        return Some(pieces);
    }
    let out = match case.op.as_str() {
        "pad_mode" => x.pad_last(&case.ints("amounts"), mode(case)),
        "unfold" => x.unfold(dim, n("size") as usize, n("step") as usize),
        "diagonal" => {
            let d = two(case, "dims", [0, 1]);
            x.diagonal_of(int("offset"), d[0], d[1])
        }
        "diag" => x.diag_at(int("offset")),
        "diag_embed" => {
            let d = two(case, "dims", [-2, -1]);
            x.diag_embed(int("offset"), d[0], d[1])
        }
        "as_strided" => x.as_strided(&sizes(&case.ints("size")), &case.ints("stride"), n("offset") as usize),
        "roll_all" => x.roll(int("shift"), ..),
        "movedim" => x.movedim(case.ints("source"), case.ints("to")),
        "rot90" => {
            let d = two(case, "dims", [0, 1]);
            x.rot90(int("times"), d[0], d[1])
        }
        "tile" => x.tile(&sizes(&case.ints("counts"))),
        "repeat_interleave" => x.repeat_interleave(n("times") as usize, dim),
        "repeat_interleave_by" => x.repeat_interleave_by(&inputs[1], dim).unwrap_or_else(Tensor::failed),
        "unflatten" => x.unflatten(dim, case.ints("sizes")),
        "flatten" => x.flatten(int("start"), int("end")),
        "rearrange" => {
            let given = ["h", "a", "c"].into_iter().filter(|key| case.param(key).is_some());
            let given: Vec<(&str, usize)> = given.map(|key| (key, n(key) as usize)).collect();
            x.rearrange(case.param("pattern").unwrap_or_default(), &given)
        }
        "linspace" => Tensor::linspace(n("start"), n("end"), n("n") as usize),
        "logspace" => Tensor::logspace(n("start"), n("end"), n("n") as usize, n("base")),
        "eye" => Tensor::eye(case.ints("dims")),
        _ => return None,
    };
    Some(vec![out])
}

/// Ops with several results.
fn pieces(case: &Case, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
    let (x, n) = (&inputs[0], |key| number(case, key, 0.0));
    let dim = n("dim") as isize;
    Some(match case.op.as_str() {
        "split" if case.param("sizes").is_some() => x.split_sizes(&sizes(&case.ints("sizes")), dim),
        "split" => x.split(n("size") as usize, dim),
        "chunk" => x.chunk(n("pieces") as usize, dim),
        "tensor_split" => x.tensor_split(&sizes(&case.ints("places")), dim),
        "unbind" => x.unbind(dim),
        "meshgrid" if case.param("indexing") == Some("xy") => Tensor::meshgrid_xy(inputs),
        "meshgrid" => Tensor::meshgrid(inputs),
        _ => return None,
    })
}

fn two(case: &Case, key: &str, default: [isize; 2]) -> [isize; 2] {
    <[isize; 2]>::try_from(case.ints(key)).unwrap_or(default)
}

fn mode(case: &Case) -> PadMode {
    match case.param("mode") {
        Some("reflect") => PadMode::Reflect,
        Some("replicate") => PadMode::Replicate,
        Some("circular") => PadMode::Circular,
        _ => PadMode::Constant(number(case, "value", 0.0)),
    }
}
