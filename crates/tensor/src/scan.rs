//! Scans by any associative combination, in work linear in the length: pairs are combined, their scan is found the same
//! way, and between two of its elements lies one combination more.
//!
//! ```text
//! x          a   b    c    d    e
//! pairs          ab        cd
//! scanned        ab       abcd
//! result     a   ab  abc  abcd abcde
//! ```

use crate::tensor::Tensor;

/// Joins two runs of several tensors.
type Combine<'a> = &'a dyn Fn(&[Tensor], &[Tensor]) -> Vec<Tensor>;

/// Inclusive prefix combination along an axis of several tensors at once; the axis has a constant size.
pub(crate) fn prefix(xs: &[Tensor], dim: isize, combine: Combine) -> Vec<Tensor> {
    let n = xs.first().map_or(0, |x| x.shape()[dim].get());
    if n < 2 {
        return xs.to_vec();
    }
    let m = n / 2;
    let part = |x: &Tensor, begin: usize, len: usize| x.narrow(dim, begin, len);
    let every = |f: &dyn Fn(&Tensor) -> Tensor| -> Vec<Tensor> { xs.iter().map(f).collect() };
    // (m, 2): the first and the second of each pair
    let of_pair = |k: usize| {
        every(&|x| part(x, 0, 2 * m).unflatten(dim, [m, 2]).narrow(dim + 1, k, 1).squeeze(dim + 1))
    };
    let (firsts, seconds) = (of_pair(0), of_pair(1));
    let scanned: Vec<Tensor> =
        prefix(&combine(&firsts, &seconds), dim, combine).iter().map(|t| t.contiguous()).collect();
    // what stands before the second, third, … pair, and before an odd one out
    let cut = |ts: &[Tensor], begin: usize, len: usize| -> Vec<Tensor> {
        ts.iter().map(|t| part(t, begin, len)).collect()
    };
    let between = combine(&cut(&scanned, 0, m - 1), &cut(&firsts, 1, m - 1));
    let last = (n > 2 * m).then(|| combine(&cut(&scanned, m - 1, 1), &every(&|x| part(x, n - 1, 1))));
    (0..xs.len())
        .map(|k| {
            let at_first = Tensor::cat(&[part(&xs[k], 0, 1), between[k].clone()], dim);
            let even = Tensor::stack(&[at_first, scanned[k].clone()], dim + 1).flatten(dim, dim + 1);
            match &last {
                Some(l) => Tensor::cat(&[even, l[k].clone()], dim),
                None => even,
            }
        })
        .collect()
}
