//! Sorting, counting, and running extremes.

use super::number;
use frit::{Axes, Tensor, keepdim};
use frit_reference::goldens::Case;

/// Apply the case's op; `None` if it is not of this family.
pub fn apply(case: &Case, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
    let x = &inputs[0];
    let dim = number(case, "dim", -1.0) as isize;
    let (down, right) = (case.flag("descending"), case.flag("right"));
    let axes = || match (case.param("dim").is_some(), case.flag("keepdim")) {
        (false, _) => Axes::from(..),
        (true, false) => Axes::from(dim),
        (true, true) => keepdim(dim),
    };
    let k = number(case, "k", 0.0) as usize;
    let two = |(a, b): (Tensor, Tensor)| vec![a, b];
    Some(match case.op.as_str() {
        "sort" | "stable_sort" => two(x.sort(dim, down)),
        "argsort" => vec![x.argsort(dim, down)],
        "sort_values" => vec![x.sort(dim, down).0],
        "msort" => vec![x.msort()],
        "topk" => two(x.topk(k, dim, !case.flag("least"))),
        "kthvalue" => two(x.kthvalue(k, axes())),
        "median" => two(x.median(axes())),
        "nanmedian" => two(x.nanmedian(axes())),
        "mode" => two(x.mode(axes())),
        "quantile" => {
            let between = case.param("between").unwrap_or("linear");
            vec![match inputs.get(1) {
                Some(q) => x.quantile(q, axes(), between),
                None => x.quantile(number(case, "q", 0.5), axes(), between),
            }]
        }
        "searchsorted" => vec![match inputs.get(2) {
            Some(sorter) => x.searchsorted_by(sorter, &inputs[1], right),
            None => x.searchsorted(&inputs[1], right),
        }],
        "bucketize" => vec![x.bucketize(&inputs[1], right)],
        "unique" => distinct(x.unique_all()),
        "unique_consecutive" => distinct(x.unique_consecutive()),
        "bincount" => {
            let minlength = number(case, "minlength", 0.0) as usize;
            vec![x.bincount(inputs.get(1), minlength).unwrap_or_else(Tensor::failed)]
        }
        "histc" => {
            let (low, high) = (number(case, "low", 0.0), number(case, "high", 0.0));
            vec![x.histc(number(case, "bins", 1.0) as usize, low, high)]
        }
        "cummax_places" => two(x.cummax(dim)),
        "cummin_places" => two(x.cummin(dim)),
        "logcumsumexp" => vec![x.logcumsumexp(dim)],
        _ => return None,
    })
}

fn distinct(found: frit::Result<frit::Unique>) -> Vec<Tensor> {
    match found {
        Ok(u) => vec![u.values, u.inverse, u.counts],
        Err(e) => vec![Tensor::failed(e.clone()), Tensor::failed(e.clone()), Tensor::failed(e)],
    }
}
