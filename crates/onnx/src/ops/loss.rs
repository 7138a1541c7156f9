//! Losses.

use super::{Op, op};
use crate::call::{Call, fail, give};
use frit_tensor::{Result, Tensor};

pub(super) const OPS: &[Op] = &[
    op("NegativeLogLikelihoodLoss", 12, |c| give(likelihood(c, &c.tensor(0)?)?)),
    op("SoftmaxCrossEntropyLoss", 12, |c| {
        let logs = c.tensor(0)?.log_softmax(1);
        give((likelihood(c, &logs)?, logs))
    }),
];

/// (N, C, …) logarithms of what each class is given, for (N, …) classes.
fn likelihood(c: &Call, logs: &Tensor) -> Result<Tensor> {
    let (target, weight) = (c.tensor(1)?.long(), c.optional(2)?);
    let (reduction, ignored) = (c.text_or("reduction", "mean")?, c.int("ignore_index")?);
    let counted = ignored.map(|i| target.ne(i));
    // what does not count may be no class at all
    let target = counted.as_ref().map_or(target.clone(), |on| on.where_(&target, 0));
    let picked = logs.gather(1, &target.unsqueeze(1)).squeeze(1).neg();
    let weight = match (weight, counted) {
        (Some(w), on) => {
            let w = w.index_select(0, &target.reshape([-1])).reshape(target.shape());
            Some(on.map_or(w.clone(), |on| w * on.cast(logs.dtype())))
        }
        (None, Some(on)) => Some(on.cast(logs.dtype())),
        (None, None) => None,
    };
    let loss = weight.as_ref().map_or(picked.clone(), |w| picked * w);
    match (reduction, weight) {
        ("none", _) => Ok(loss),
        ("sum", _) => Ok(loss.sum(..)),
        ("mean", Some(w)) => Ok(loss.sum(..) / w.sum(..)),
        ("mean", None) => Ok(loss.mean(..)),
        (other, _) => fail(format!("attribute \"reduction\" is {other:?}")),
    }
}
