//! Transforms of short pieces of a signal, and the signal from them.

use super::{Fft, paired};
use crate::error::{Result, call, fail};
use crate::norm::wide;
use crate::pad::PadMode;
use crate::tensor::Tensor;

/// How a signal is cut into pieces, for [`Tensor::stft`] and [`Tensor::istft`].
#[derive(Clone, Debug)]
pub struct Stft {
    /// The length of a piece.
    pub n_fft: usize,
    /// How far the next piece begins; a quarter of a piece if not given.
    pub hop_length: Option<usize>,
    /// What each piece is multiplied by, in its middle; ones if not given.
    pub window: Option<Tensor>,
    /// Piece t is around element `t * hop_length`, the signal being padded, instead of beginning there.
    pub center: bool,
    /// What it is padded with.
    pub pad_mode: PadMode,
    /// Divide by the root of the length.
    pub normalized: bool,
    /// Only the frequencies that tell the rest.
    pub onesided: bool,
}

impl Stft {
    /// Pieces of this length, with torch's defaults.
    pub fn new(n_fft: usize) -> Stft {
        Stft {
            n_fft,
            hop_length: None,
            window: None,
            center: true,
            pad_mode: PadMode::Reflect,
            normalized: false,
            onesided: true,
        }
    }
    fn hop(&self, op: &'static str) -> Result<usize> {
        let hop = self.hop_length.unwrap_or(self.n_fft / 4);
        if hop == 0 || self.n_fft == 0 {
            return fail!(op, "pieces of {} every {hop}", self.n_fft);
        }
        Ok(hop)
    }
    /// As long as a piece, zeros on both sides.
    fn full_window(&self, op: &'static str, like: &Tensor) -> Result<Option<Tensor>> {
        let Some(w) = &self.window else { return Ok(None) };
        let dims = w.dims()?;
        let [len] = dims[..] else { return fail!(op, "a window of shape {dims:?}") };
        if len > self.n_fft || len == 0 {
            return fail!(op, "a window of {len} for pieces of {}", self.n_fft);
        }
        let before = (self.n_fft - len) / 2;
        let after = self.n_fft - len - before;
        Ok(Some(w.cast(like.dtype()).pad(&[(before as isize, after as isize)], 0.0)))
    }
}

impl Tensor {
    /// The frequencies in short pieces of a signal (`…, length`): pairs (`…, frequencies, pieces, 2`).
    ///
    /// ```
    /// # use frit_tensor::*;
    /// assert_eq!(Tensor::ones([2, 100]).stft(&Stft::new(16)).shape(), [2, 9, 26, 2]);
    /// ```
    #[track_caller]
    pub fn stft(&self, o: &Stft) -> Tensor {
        let _c = call("stft");
        stft(self, o).unwrap_or_else(Tensor::failed)
    }
    /// The signal whose pieces have the frequencies (`…, frequencies, pieces, 2`), overlapping pieces being weighed by
    /// the window: the inverse of [`Tensor::stft`] where windows leave no gap. `length` elements if given.
    #[track_caller]
    pub fn istft(&self, o: &Stft, length: Option<usize>) -> Tensor {
        let _c = call("istft");
        istft(self, o, length).unwrap_or_else(Tensor::failed)
    }
}

fn stft(x: &Tensor, o: &Stft) -> Result<Tensor> {
    x.check()?;
    let (hop, n) = (o.hop("stft")?, o.n_fft);
    if x.rank() == 0 {
        return fail!("stft", "of a scalar");
    }
    let half = (n / 2) as isize;
    let x = wide(x);
    let signal = if o.center { x.pad_last(&[half, half], o.pad_mode) } else { x };
    let len = signal.dims()?.last().copied().unwrap_or(0);
    if len < n {
        return fail!("stft", "pieces of {n} of {len} elements");
    }
    let pieces = signal.unfold(-1, n, hop); // (…, pieces, n)
    let pieces = match o.full_window("stft", &pieces)? {
        Some(w) => pieces * w,
        None => pieces,
    };
    let spectrum = match o.onesided {
        true => pieces.rfft(Fft::default()),
        false => pieces.complex(&pieces.zeros_like()).fft(Fft::default()),
    };
    let spectrum = spectrum.transpose(-2, -3); // (…, frequencies, pieces, 2)
    Ok(if o.normalized { spectrum * (1.0 / (n as f64).sqrt()) } else { spectrum })
}

fn istft(x: &Tensor, o: &Stft, length: Option<usize>) -> Result<Tensor> {
    let rank = paired("istft", x)?;
    let (hop, n) = (o.hop("istft")?, o.n_fft);
    let dims = x.dims()?;
    let want = if o.onesided { n / 2 + 1 } else { n };
    if rank < 2 || dims[rank - 2] != want || dims[rank - 1] == 0 {
        return fail!("istft", "shape {dims:?} for {want} frequencies of pieces of {n}");
    }
    let x = wide(x);
    let x = if o.normalized { x * (n as f64).sqrt() } else { x };
    let by_piece = x.transpose(-2, -3); // (…, pieces, frequencies, 2)
    let at = Fft { n: Some(n), ..Fft::default() };
    // of a real signal the first half tells the rest
    let pieces = by_piece.narrow(-2, 0, n / 2 + 1).irfft(at);
    let ones = || Tensor::ones([n]).cast(x.dtype());
    let window = o.full_window("istft", &x)?.unwrap_or_else(ones);
    let weights = window.square().expand((dims[rank - 1], n));
    let all = n + hop * (dims[rank - 1] - 1);
    let begin = if o.center { n / 2 } else { 0 };
    let left = all - begin;
    let keep = length.unwrap_or(if o.center { left.saturating_sub(n / 2) } else { left });
    // cut first: the windows may begin with zeros
    let cut = |t: Tensor| t.narrow(-1, begin, keep.min(left));
    let kept = cut(overlapped(&(pieces * &window), hop)?) / cut(overlapped(&weights, hop)?);
    Ok(if keep > left { kept.pad_last(&[0, (keep - left) as isize], PadMode::Constant(0.0)) } else { kept })
}

/// Pieces (…, pieces, n) laid `hop` apart and added: each piece in parts of `hop`, the k-th parts k places on.
fn overlapped(x: &Tensor, hop: usize) -> Result<Tensor> {
    let dims = x.dims()?;
    let (count, n) = (dims[dims.len() - 2], dims[dims.len() - 1]);
    let parts = n.div_ceil(hop);
    let x = x.pad_last(&[0, (parts * hop - n) as isize], PadMode::Constant(0.0));
    let x = x.unflatten(-1, [parts, hop]); // (…, pieces, parts, hop)
    let part = |k: usize| {
        let around = [0, 0, k as isize, (parts - 1 - k) as isize];
        x.narrow(-2, k, 1).squeeze(-2).pad_last(&around, PadMode::Constant(0.0))
    };
    let sum = (1..parts).fold(part(0), |sum, k| sum + part(k)); // (…, pieces + parts - 1, hop)
    Ok(sum.flatten(-2, -1).narrow(-1, 0, n + hop * (count - 1)))
}
