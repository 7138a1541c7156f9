//! The loss of a sequence of labels that is shorter than its input and not aligned with it (CTC).
//!
//! Between the labels, before and behind them stand blanks: `_ a _ b _`. A path starts at the first or second of
//! these, stays or goes one on at each time, or skips a blank between two labels that differ. `alpha[m]` is the
//! logarithm of the probability of all paths that are at place m.

use crate::creation::float_of;
use crate::error::{Result, call, fail};
use crate::loss::Reduction;
use crate::norm::wide;
use crate::shape::Dim;
use crate::tensor::Tensor;
use frit_uop::DType;

/// Options of [`Tensor::ctc_loss`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Ctc {
    /// The class that is no label.
    pub blank: usize,
    /// Mean (of losses divided by the lengths of their targets), sum or neither.
    pub reduction: Reduction,
    /// Losses of targets that do not fit their input are 0 instead of infinite.
    pub zero_infinity: bool,
}

impl Tensor {
    /// The loss of log-probabilities (`T, N, C` or `T, C`) for targets: labels (`N, S`, or all in one vector), with the
    /// lengths of inputs and targets (`N`). Targets longer than their input have an infinite loss, and no gradient.
    #[track_caller]
    pub fn ctc_loss(
        &self,
        targets: &Tensor,
        input_lengths: &Tensor,
        target_lengths: &Tensor,
        o: Ctc,
    ) -> Tensor {
        let _c = call("ctc_loss");
        if self.rank() == 2 {
            let all = Ctc {
                reduction: if o.reduction == Reduction::None { Reduction::Sum } else { o.reduction },
                ..o
            };
            let (i, t) = (input_lengths.reshape([1]), target_lengths.reshape([1]));
            return self.unsqueeze(1).ctc_loss(targets, &i, &t, all);
        }
        ctc(self, targets, input_lengths, target_lengths, o).unwrap_or_else(Tensor::failed)
    }
}

fn ctc(x: &Tensor, targets: &Tensor, inputs: &Tensor, lengths: &Tensor, o: Ctc) -> Result<Tensor> {
    let dims = x.dims()?;
    let [times, n, classes] = dims[..] else {
        return fail!("ctc_loss", "log-probabilities of shape {dims:?}, not (time, batch, class)");
    };
    for (t, what) in [(targets, "targets"), (inputs, "input lengths"), (lengths, "target lengths")] {
        t.check()?;
        if !t.dtype().is_int() {
            return fail!("ctc_loss", "{what} of {}", t.dtype());
        }
    }
    let (ti, tl) = (inputs.dims()?, lengths.dims()?);
    if ti != [n] || tl != [n] {
        return fail!("ctc_loss", "lengths of shapes {ti:?} and {tl:?} for a batch of {n}");
    }
    if o.blank >= classes {
        return fail!("ctc_loss", "blank {} of {classes} classes", o.blank);
    }
    let (inputs, lengths) = (inputs.cast(DType::I32), lengths.cast(DType::I32));
    let labels = labels(targets, &lengths, n, o.blank)?; // (N, S)
    let places = 2 * labels.dims()?[1] + 1;
    let blanks = Tensor::full_dtype((n, 1), o.blank, DType::I32);
    let path = Tensor::stack(&[blanks.expand(labels.shape()), labels], -1).flatten(1, -1);
    let path = Tensor::cat(&[path, blanks], 1); // (N, M)
    let low = f64::NEG_INFINITY;
    let before = path.pad(&[(0, 0), (2, 0)], o.blank as i64).narrow(1, 0, places);
    let m = Tensor::arange(places);
    let skips = path.ne(o.blank).logical_and(path.ne(&before)).logical_and(m.ge(2));
    let emit = wide(x).gather(2, &path.unsqueeze(0).expand((times, n, places))).contiguous(); // (T, N, M)
    let shifted = |a: &Tensor, by: isize| a.pad(&[(0, 0), (by, 0)], low).narrow(1, 0, places);
    // as if the place before the first had been reached before the first time
    let start = m.eq(0).where_(0.0, low).cast(emit.dtype()).expand((n, places));
    let step = |t: &Dim, alpha: &Tensor| {
        let (one, two) = (shifted(alpha, 1), skips.where_(shifted(alpha, 2), low));
        let next = log_sum(alpha, &[&one, &two]) + emit.at(t);
        inputs.gt(t).unsqueeze(1).where_(next, alpha)
    };
    let alpha = Tensor::fori(times, &[&start], |t, c| vec![step(t, &c[0])]).remove(0);
    let last = (&lengths * 2).unsqueeze(1);
    let end = alpha.gather(1, &last).squeeze(1);
    let label = alpha.gather(1, &(&last - 1).maximum(0)).squeeze(1);
    let each = -log_sum(&end, &[&lengths.gt(0).where_(label, low)]);
    let each = if o.zero_infinity { each.eq(f64::INFINITY).where_(0.0, each) } else { each };
    let each = match o.reduction {
        Reduction::Mean => each / lengths.maximum(1),
        _ => each,
    };
    Ok(each.finish(o.reduction).cast(float_of(x.dtype())))
}

/// The labels of each target (N, S), blank behind the last.
fn labels(targets: &Tensor, lengths: &Tensor, n: usize, blank: usize) -> Result<Tensor> {
    let (shape, t) = (targets.dims()?, targets.cast(DType::I32));
    let (all, s) = match shape[..] {
        [rows, s] if rows == n => (t, s),
        [total] => {
            let at = (lengths.cumsum(0) - lengths).unsqueeze(1) + Tensor::arange(total);
            (
                if total == 0 { t.reshape([1, 0]).expand([n, 0]) } else { t.take(&at.minimum(total - 1)) },
                total,
            )
        }
        _ => return fail!("ctc_loss", "targets of shape {shape:?} for a batch of {n}"),
    };
    let inside = Tensor::arange(s).lt(lengths.unsqueeze(1));
    Ok(inside.where_(all, blank as i64))
}

/// log(sum(exp(x))) of several tensors, the first being one of them; minus infinity, without a gradient, where all are.
fn log_sum(first: &Tensor, others: &[&Tensor]) -> Tensor {
    let most = others.iter().fold(first.clone(), |m, x| m.maximum(*x)).detach();
    let none = most.eq(f64::NEG_INFINITY);
    let most = none.where_(0.0, most);
    let sum = others.iter().fold((first - &most).exp(), |sum, x| sum + (*x - &most).exp());
    none.where_(f64::NEG_INFINITY, none.where_(1.0, sum).log() + most)
}
