//! Reading and writing by place.

use super::number;
use frit::{Index, Tensor};
use frit_reference::goldens::Case;

/// Apply the case's op; `None` if it is not of this family.
pub fn apply(case: &Case, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
    let x = &inputs[0];
    let (dim, value) = (number(case, "dim", 0.0) as isize, number(case, "value", 0.0));
    let last = || &inputs[inputs.len() - 1];
    let many = |found: frit::Result<Vec<Tensor>>| found.unwrap_or_else(|e| vec![Tensor::failed(e)]);
    let one = |found: frit::Result<Tensor>| found.unwrap_or_else(Tensor::failed);
    Some(match case.op.as_str() {
        "index" => vec![x.at(index(case, inputs))],
        "index_put" => vec![x.index_put(index(case, inputs), last(), case.flag("accumulate"))],
        "set" => {
            let y = x + 0;
            y.set(index(case, inputs), last());
            vec![y]
        }
        "scatter" => vec![match inputs.get(2) {
            Some(src) => x.scatter(dim, &inputs[1], src),
            None => x.scatter(dim, &inputs[1], value),
        }],
        "scatter_reduce" => {
            let how = case.param("how").unwrap_or("sum");
            vec![x.scatter_reduce(dim, &inputs[1], &inputs[2], how, !case.flag("apart"))]
        }
        "index_copy" => vec![x.index_copy(dim, &inputs[1], &inputs[2])],
        "index_fill" => vec![x.index_fill(dim, &inputs[1], value)],
        "masked_fill" => vec![x.masked_fill(&inputs[1], value)],
        "masked_scatter" => vec![x.masked_scatter(&inputs[1], &inputs[2])],
        "masked_select" => vec![one(x.masked_select(&inputs[1]))],
        "nonzero" => vec![one(x.nonzero())],
        "nonzero_tuple" => many(x.nonzero_tuple()),
        "take" => vec![x.take(&inputs[1])],
        "take_along_dim" => vec![x.take_along_dim(&inputs[1], dim)],
        "select" => vec![x.select(dim, number(case, "place", 0.0) as isize)],
        _ => return None,
    })
}

/// The index of a case, as `tests-data/goldens/indexing.py` writes it.
fn index(case: &Case, inputs: &[Tensor]) -> Vec<Index> {
    let text = case.param("index").unwrap_or_else(|| panic!("{}: no index", case.name));
    text.split('/').map(|t| item(t, inputs)).collect()
}

fn item(text: &str, inputs: &[Tensor]) -> Index {
    let end = |t: &str| t.parse::<isize>().ok().map(Into::into);
    match (text, &text[1..]) {
        ("e", _) => Index::Ellipsis,
        ("n", _) => Index::NewAxis,
        ("yes" | "no", _) => Index::from(text == "yes"),
        (_, rest) if text.starts_with('i') => Index::from(rest.parse::<isize>().expect("an integer")),
        (_, rest) if text.starts_with('t') => Index::from(&inputs[rest.parse::<usize>().expect("a number")]),
        (_, rest) => {
            let parts: Vec<&str> = rest.split(':').collect();
            Index::Slice { start: end(parts[0]), end: end(parts[1]), step: parts[2].parse().unwrap_or(1) }
        }
    }
}
