//! Convolution over any number of spatial dims: windows by movement only, then a product and a sum.

use crate::composite::mul;
use crate::error::{Result, call, fail};
use crate::linalg::accumulate;
use crate::mode::factor_type;
use crate::movement::{cut, fixed, pad_axis};
use crate::operand::Operand;
use crate::pad::pad_with;
use crate::shape::{holds, same, show, show_all};
use crate::tensor::{Tensor, align, check_devices, expand_to, promoted};
use crate::trace::{Composite, noted};
use crate::windows::{every, windows};
use frit_uop::{Alu, UOp};
use smallvec::SmallVec;

/// How a window walks over the spatial dims. One number stands for all of them.
///
/// ```
/// # use frit_tensor::*;
/// let (x, w) = (Tensor::ones([1, 3, 8, 8]), Tensor::ones([16, 3, 3, 3]));
/// assert_eq!(x.conv2d(&w, None, Window::new().stride(2).padding(1)).shape(), [1, 16, 4, 4]);
/// ```
#[derive(Clone, Debug)]
pub struct Window {
    stride: Vec<usize>,
    padding: Padding,
    dilation: Vec<usize>,
    groups: usize,
    output_padding: Vec<usize>,
    pub(crate) ceil: bool,
    pub(crate) count_pad: bool,
    pub(crate) divisor: Option<usize>,
}

#[derive(Clone, Debug)]
enum Padding {
    Amounts(Vec<(usize, usize)>),
    Same,
}

impl Default for Window {
    fn default() -> Window {
        Window {
            stride: vec![],
            padding: Padding::Amounts(vec![(0, 0)]),
            dilation: vec![1],
            groups: 1,
            output_padding: vec![0],
            ceil: false,
            count_pad: true,
            divisor: None,
        }
    }
}

/// One number or one for each spatial dim.
pub struct Each(pub(crate) Vec<usize>);
impl From<usize> for Each {
    fn from(v: usize) -> Each {
        Each(vec![v])
    }
}
impl<const N: usize> From<[usize; N]> for Each {
    fn from(v: [usize; N]) -> Each {
        Each(v.to_vec())
    }
}
impl From<&[usize]> for Each {
    fn from(v: &[usize]) -> Each {
        Each(v.to_vec())
    }
}
impl From<Vec<usize>> for Each {
    fn from(v: Vec<usize>) -> Each {
        Each(v)
    }
}

impl Window {
    /// Stride 1 (a pool's: its size), no padding, no dilation, one group.
    pub fn new() -> Window {
        Window::default()
    }
    /// Steps between windows.
    pub fn stride(self, s: impl Into<Each>) -> Window {
        Window { stride: s.into().0, ..self }
    }
    /// Elements added on both sides; of a transposed convolution, results dropped on both sides.
    pub fn padding(self, p: impl Into<Each>) -> Window {
        let p = p.into().0.into_iter().map(|p| (p, p)).collect();
        Window { padding: Padding::Amounts(p), ..self }
    }
    /// Elements added before and after each spatial dim.
    pub fn pads(self, p: &[(usize, usize)]) -> Window {
        Window { padding: Padding::Amounts(p.to_vec()), ..self }
    }
    /// As much padding as makes the result as large as the input; convolutions of stride 1. (No padding at all, the
    /// default, is what others call "valid".)
    pub fn same(self) -> Window {
        Window { padding: Padding::Same, ..self }
    }
    /// Transposed convolutions: results added at the end, fewer than the stride or the dilation.
    pub fn output_padding(self, p: impl Into<Each>) -> Window {
        Window { output_padding: p.into().0, ..self }
    }
    /// Steps between elements of a window.
    pub fn dilation(self, d: impl Into<Each>) -> Window {
        Window { dilation: d.into().0, ..self }
    }
    /// Channels in groups that do not mix.
    pub fn groups(self, groups: usize) -> Window {
        Window { groups, ..self }
    }
    /// Pools: also a last window that is only partly inside.
    pub fn ceil_mode(self, ceil: bool) -> Window {
        Window { ceil, ..self }
    }
    /// Average pools: whether padding counts as elements.
    pub fn count_include_pad(self, count_pad: bool) -> Window {
        Window { count_pad, ..self }
    }
    /// Average pools: the number that sums are divided by, whatever is under the window.
    pub fn divisor(self, divisor: usize) -> Window {
        Window { divisor: Some(divisor), ..self }
    }
    /// Everything for `n` spatial dims; a pool's missing stride is its size.
    pub(crate) fn per_dim(&self, op: &'static str, size: &[usize]) -> Result<WindowDims> {
        let n = size.len();
        let stride =
            if self.stride.is_empty() { size.to_vec() } else { each(op, "stride", &self.stride, n)? };
        let dilation = each(op, "dilation", &self.dilation, n)?;
        let amounts: &[(usize, usize)] = match &self.padding {
            Padding::Amounts(p) => p,
            Padding::Same => &[],
        };
        let numbers = size.iter().chain(&stride).chain(&dilation).chain(&self.output_padding);
        if let Some(n) = numbers.chain(amounts.iter().flat_map(|(a, b)| [a, b])).find(|n| **n > LARGEST) {
            return fail!(op, "{n} in a window, whose numbers are at most {LARGEST}");
        }
        if stride.contains(&0) || dilation.contains(&0) || size.contains(&0) {
            return fail!(
                op,
                "window {size:?}, stride {stride:?} and dilation {dilation:?} must be at least 1"
            );
        }
        let padding = match &self.padding {
            Padding::Amounts(p) => each(op, "padding", p, n)?,
            Padding::Same if stride.iter().any(|s| *s != 1) => {
                return fail!(op, "same padding with stride {stride:?}");
            }
            Padding::Same => {
                let total = size.iter().zip(&dilation).map(|(k, d)| d * (k - 1));
                total.map(|t| (t / 2, t - t / 2)).collect()
            }
        };
        Ok(WindowDims { size: size.to_vec(), stride, dilation, padding })
    }
    /// A convolution's missing stride is 1.
    fn step_by_one(&self) -> Window {
        let stride = if self.stride.is_empty() { vec![1] } else { self.stride.clone() };
        Window { stride, ..self.clone() }
    }
}

/// The largest number that describes a window: their products are sizes.
const LARGEST: usize = i32::MAX as usize;

/// One for each of `n` spatial dims.
fn each<T: Copy + std::fmt::Debug>(op: &'static str, name: &str, v: &[T], n: usize) -> Result<Vec<T>> {
    match v {
        [x] => Ok(vec![*x; n]),
        v if v.len() == n => Ok(v.to_vec()),
        v => fail!(op, "{name} {v:?} for {n} spatial dims"),
    }
}

/// A window's walk, one of everything for each spatial dim.
#[derive(Clone, Debug)]
pub struct WindowDims {
    /// Elements of the window.
    pub size: Vec<usize>,
    /// Steps between windows.
    pub stride: Vec<usize>,
    /// Steps between elements of a window.
    pub dilation: Vec<usize>,
    /// Elements added before and after.
    pub padding: Vec<(usize, usize)>,
}

impl WindowDims {
    pub(crate) fn padded(&self, x: &UOp, value: &Operand) -> Result<UOp> {
        let first = x.shape().len() - self.size.len();
        let side = |f: &dyn Fn(&(usize, usize)) -> usize| -> SmallVec<[UOp; 4]> {
            let lead = std::iter::repeat_n(UOp::index(0), first);
            lead.chain(self.padding.iter().map(|p| UOp::index(f(p) as i64))).collect()
        };
        pad_with(x, &side(&|p| p.0), &side(&|p| p.1), value)
    }
    /// More padding at the end where a last window is only partly inside.
    pub(crate) fn ceiled(&mut self, op: &'static str, x: &UOp) -> Result<()> {
        let first = x.shape().len() - self.size.len();
        for i in 0..self.size.len() {
            let n = fixed(op, &x.shape()[first + i])? as usize;
            let (b, a) = self.padding[i];
            let span = self.dilation[i] * (self.size[i] - 1) + 1;
            let (len, s) = (n + a + b, self.stride[i]);
            if len < span {
                continue;
            }
            let o = (len - span).div_ceil(s) + 1;
            // a window must begin inside the input or the padding before it
            let o = if (o - 1) * s >= n + b { o - 1 } else { o };
            self.padding[i].1 += ((o - 1) * s + span).saturating_sub(len);
        }
        Ok(())
    }
    /// `(lead…, spatial…)` becomes `(lead…, places…, window…)`.
    pub(crate) fn windows(&self, op: &'static str, x: &UOp) -> Result<UOp> {
        let n = self.size.len();
        let first = x.shape().len() - n;
        let mut w = x.clone();
        for i in 0..n {
            let axis = first + 2 * i;
            let span = (self.dilation[i] * (self.size[i] - 1) + 1) as i64;
            if holds(op, &w.shape()[axis].lt(&UOp::index(span)))? {
                return fail!(
                    op,
                    "a window of {:?} (dilation {:?}) does not fit the padded shape {}",
                    self.size,
                    self.dilation,
                    show_all(x.shape())
                );
            }
            w = windows(&w, axis, self.size[i], self.stride[i], self.dilation[i])?; // (.., k, o, ..)
        }
        let mut axes: Vec<usize> = (0..first).collect();
        axes.extend((0..n).map(|i| first + 2 * i + 1));
        axes.extend((0..n).map(|i| first + 2 * i));
        Ok(w.permute(&axes))
    }
}

fn conv(op: &'static str, x: &UOp, w: &UOp, opts: &Window) -> Result<UOp> {
    conv_where(op, x, None, w, opts)
}

/// A convolution that leaves out the places where a mask over (1, 1, spatial…) is false.
fn conv_where(op: &'static str, x: &UOp, mask: Option<&UOp>, w: &UOp, opts: &Window) -> Result<UOp> {
    check_devices(op, &[x.clone(), w.clone()])?;
    let (s, t) = (x.shape(), w.shape());
    let n = t.len().saturating_sub(2);
    if s.len() != t.len() || n == 0 {
        return fail!(
            op,
            "input {} and weight {} must have batch, channels and as many spatial dims",
            show_all(s),
            show_all(t)
        );
    }
    let g = opts.groups as i64;
    let (cin, cout, cw) = (fixed(op, &s[1])?, fixed(op, &t[0])?, fixed(op, &t[1])?);
    if g == 0 || cin != cw * g || cout % g.max(1) != 0 {
        return fail!(
            op,
            "input {} and weight {} with {g} groups: {cin} channels, the weight takes {cw} times {g}",
            show_all(s),
            show_all(t)
        );
    }
    let dtype = factor_type(promoted(op, x.dtype, w.dtype)?);
    let acc = accumulate(dtype);
    let size: Vec<usize> = t[2..].iter().map(|d| fixed(op, d).map(|v| v as usize)).collect::<Result<_>>()?;
    let window = opts.step_by_one().per_dim(op, &size)?;
    let win = window.windows(op, &window.padded(&x.cast(dtype).cast(acc), &0.into())?)?; // (N, Cin, O…, K…)
    let (o, k) = (&win.shape()[2..2 + n], &win.shape()[2 + n..]);
    let i = UOp::index;
    // (N, G, 1, Cin/G, O…, K…) -> (N, G, 1, O…, Cin/G, K…)
    let mut axes: Vec<usize> = vec![0, 1, 2];
    axes.extend(4..4 + n);
    axes.push(3);
    axes.extend(4 + n..4 + 2 * n);
    let by_group = |x: &UOp, lead: [UOp; 4]| {
        let dims: SmallVec<[UOp; 8]> = lead.into_iter().chain(o.iter().chain(k).cloned()).collect();
        x.reshape(&dims).permute(&axes)
    };
    let win_g = by_group(&win, [s[0].clone(), i(g), i(1), i(cw)]);
    let mut wd: SmallVec<[UOp; 8]> = SmallVec::from_iter([i(1), i(g), i(cout / g)]);
    wd.extend((0..n).map(|_| i(1)));
    wd.extend(t[1..].iter().cloned());
    let mut full: SmallVec<[UOp; 8]> = SmallVec::from_iter([s[0].clone(), i(g), i(cout / g)]);
    full.extend(o.iter().cloned());
    full.extend(t[1..].iter().cloned());
    let mut p = mul(&expand_to(&win_g, &full), &expand_to(&w.cast(dtype).cast(acc).reshape(&wd), &full));
    if let Some(mask) = mask {
        let seen = by_group(&window.windows(op, mask)?, [i(1), i(1), i(1), i(1)]);
        p = expand_to(&seen, &full).select(&p, &UOp::int(0, acc));
    }
    let sum = p.reduce_axes(Alu::Add, &(3 + n..4 + 2 * n).collect::<Vec<_>>());
    let mut out: SmallVec<[UOp; 4]> = SmallVec::from_iter([s[0].clone(), i(cout)]);
    out.extend(o.iter().cloned());
    Ok(sum.reshape(&out).cast(if dtype.is_float() { dtype } else { acc }))
}

/// Every result spread over what a convolution would have made it from: a convolution of stride 1 over the input with
/// zeros between its elements, with the window turned around.
fn conv_transpose(op: &'static str, x: &UOp, w: &UOp, opts: &Window) -> Result<UOp> {
    let (s, t) = (x.shape(), w.shape());
    let n = t.len().saturating_sub(2);
    if s.len() != t.len() || n == 0 {
        return fail!(
            op,
            "input {} and weight {} must have batch, channels and as many spatial dims",
            show_all(s),
            show_all(t)
        );
    }
    let (g, cin, cw) = (opts.groups as i64, fixed(op, &s[1])?, fixed(op, &t[0])?);
    if g == 0 || cin != cw || cin % g != 0 {
        return fail!(op, "input {} and weight {} with {g} groups", show_all(s), show_all(t));
    }
    if matches!(opts.padding, Padding::Same) {
        return fail!(op, "takes padding as numbers");
    }
    let size: Vec<usize> = t[2..].iter().map(|d| fixed(op, d).map(|v| v as usize)).collect::<Result<_>>()?;
    let at = opts.step_by_one().per_dim(op, &size)?;
    let more = each(op, "output padding", &opts.output_padding, n)?;
    let mut around: Vec<(isize, isize)> = vec![(0, 0); 2];
    let mut wide = x.clone();
    // the zeros between are no factors
    let (mut mask, mut lengths): (Option<UOp>, _) = (None, vec![UOp::index(1); 2]);
    for i in 0..n {
        if more[i] >= at.stride[i].max(at.dilation[i]) && more[i] > 0 {
            return fail!(
                op,
                "output padding {more:?} is not less than stride {:?} or dilation {:?}",
                at.stride,
                at.dilation
            );
        }
        let reach = (at.dilation[i] * (size[i] - 1)) as isize;
        let (before, after) = at.padding[i];
        around.push((reach - before as isize, reach - after as isize + more[i] as isize));
        wide = spaced(op, &wide, 2 + i, at.stride[i])?;
        let len = fixed(op, &wide.shape()[2 + i])? as isize + around[2 + i].0 + around[2 + i].1;
        if len < reach + 1 {
            return fail!(op, "padding {:?} leaves nothing of shape {}", at.padding, show_all(s));
        }
        lengths.push(UOp::index(len as i64));
    }
    for i in (0..n).filter(|i| at.stride[*i] > 1) {
        let line = every(at.stride[i] as i64, around[2 + i].0 as i64, lengths[2 + i].as_int().unwrap_or(0));
        let mut dims: SmallVec<[UOp; 8]> = SmallVec::from_elem(UOp::index(1), 2 + n);
        dims[2 + i] = lengths[2 + i].clone();
        let marks = expand_to(&line.reshape(&dims), &lengths);
        mask = Some(mask.map_or(marks.clone(), |m| m.and_(&marks)));
    }
    // (Cin, Cout/G, K…) -> (Cout, Cin/G, K…), windows turned around
    let i = UOp::index;
    let per = fixed(op, &t[1])?;
    let mut split: SmallVec<[UOp; 8]> = SmallVec::from_iter([i(g), i(cin / g), i(per)]);
    split.extend(t[2..].iter().cloned());
    let mut axes: Vec<usize> = vec![0, 2, 1];
    axes.extend(3..3 + n);
    let mut joined: SmallVec<[UOp; 8]> = SmallVec::from_iter([i(g * per), i(cin / g)]);
    joined.extend(t[2..].iter().cloned());
    let turned = w.reshape(&split).permute(&axes).reshape(&joined).flip(&(2..2 + n).collect::<Vec<_>>());
    let padded = Tensor::of(Ok(wide)).pad(&around, 0).uop()?;
    let window = Window::new().dilation(at.dilation).groups(opts.groups);
    conv_where(op, &padded, mask.as_ref(), &turned, &window)
}

/// Zeros between the elements along an axis, `step` apart afterwards.
fn spaced(op: &'static str, x: &UOp, axis: usize, step: usize) -> Result<UOp> {
    let (n, s) = (fixed(op, &x.shape()[axis])?, step as i64);
    if s == 1 || n == 0 {
        return Ok(x.clone());
    }
    let mut dims: SmallVec<[UOp; 8]> = x.shape().iter().cloned().collect();
    let Some(length) = n.checked_mul(s) else {
        return fail!(op, "{n} elements, {s} apart, are more than can be counted");
    };
    dims.insert(axis + 1, UOp::index(1));
    let rows = pad_axis(&x.reshape(&dims), axis + 1, &UOp::index(0), &UOp::index(s - 1));
    dims.remove(axis);
    dims[axis] = UOp::index(length);
    Ok(cut(&rows.reshape(&dims), axis, &UOp::index(0), &UOp::index((n - 1) * s + 1)))
}

impl Tensor {
    /// Convolution of (N, C, spatial…) with a weight (out, C/groups, window…), and a bias for each output channel.
    #[track_caller]
    pub fn conv(&self, weight: &Tensor, bias: Option<&Tensor>, window: Window) -> Tensor {
        self.convolve("conv", false, None, weight, bias, window)
    }
    /// Convolution over one spatial dim: (N, C, L).
    #[track_caller]
    pub fn conv1d(&self, weight: &Tensor, bias: Option<&Tensor>, window: Window) -> Tensor {
        self.convolve("conv1d", false, Some(3), weight, bias, window)
    }
    /// Convolution over two spatial dims: (N, C, H, W).
    #[track_caller]
    pub fn conv2d(&self, weight: &Tensor, bias: Option<&Tensor>, window: Window) -> Tensor {
        self.convolve("conv2d", false, Some(4), weight, bias, window)
    }
    /// Convolution over three spatial dims: (N, C, D, H, W).
    #[track_caller]
    pub fn conv3d(&self, weight: &Tensor, bias: Option<&Tensor>, window: Window) -> Tensor {
        self.convolve("conv3d", false, Some(5), weight, bias, window)
    }
    /// The transpose of a convolution, of (N, C, spatial…) with a weight (C, out/groups, window…): what its gradient
    /// by the input computes. See [`Window::padding`] and [`Window::output_padding`].
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let (x, w) = (Tensor::ones([1, 4, 5, 5]), Tensor::ones([4, 2, 3, 3]));
    /// let y = x.conv_transpose(&w, None, Window::new().stride(2).padding(1).output_padding(1));
    /// assert_eq!(y.shape(), [1, 2, 10, 10]);
    /// ```
    #[track_caller]
    pub fn conv_transpose(&self, weight: &Tensor, bias: Option<&Tensor>, window: Window) -> Tensor {
        self.convolve("conv_transpose", true, None, weight, bias, window)
    }
    /// [`Tensor::conv_transpose`] over one spatial dim.
    #[track_caller]
    pub fn conv_transpose1d(&self, weight: &Tensor, bias: Option<&Tensor>, window: Window) -> Tensor {
        self.convolve("conv_transpose1d", true, Some(3), weight, bias, window)
    }
    /// [`Tensor::conv_transpose`] over two spatial dims.
    #[track_caller]
    pub fn conv_transpose2d(&self, weight: &Tensor, bias: Option<&Tensor>, window: Window) -> Tensor {
        self.convolve("conv_transpose2d", true, Some(4), weight, bias, window)
    }
    /// [`Tensor::conv_transpose`] over three spatial dims.
    #[track_caller]
    pub fn conv_transpose3d(&self, weight: &Tensor, bias: Option<&Tensor>, window: Window) -> Tensor {
        self.convolve("conv_transpose3d", true, Some(5), weight, bias, window)
    }
    #[track_caller]
    fn convolve(
        &self,
        op: &'static str,
        transposed: bool,
        rank: Option<usize>,
        weight: &Tensor,
        bias: Option<&Tensor>,
        window: Window,
    ) -> Tensor {
        let _c = call(op);
        if let (Some(r), Ok(x)) = (rank, self.uop())
            && x.shape().len() + 1 == r
        {
            // one sample without a batch
            return self.unsqueeze(0).convolve(op, transposed, rank, weight, bias, window).squeeze(0);
        }
        let mut walk = None;
        let y = self.map(|x| {
            if rank.is_some_and(|r| x.shape().len() != r) {
                return fail!(
                    op,
                    "input of shape {}, not of {} dims",
                    show_all(x.shape()),
                    rank.unwrap_or(0)
                );
            }
            let w = weight.uop()?;
            let y = if transposed { conv_transpose } else { conv }(op, x, &w, &window)?;
            let size: Vec<usize> = w.shape()[2..].iter().map(|d| d.as_int().unwrap_or(0) as usize).collect();
            walk = Some(window.step_by_one().per_dim(op, &size)?);
            let Some(b) = bias else { return Ok(y) };
            let b = b.uop()?;
            let b = b.cast(factor_type(b.dtype));
            let c = &y.shape()[1];
            if b.shape().len() != 1 || !same(op, &b.shape()[0], c)? {
                return fail!(op, "bias of shape {} for {} output channels", show_all(b.shape()), show(c));
            }
            let mut d: SmallVec<[UOp; 4]> = SmallVec::from_elem(UOp::index(1), y.shape().len());
            d[1] = c.clone();
            let dtype = promoted(op, y.dtype, b.dtype)?;
            let [y, b] = align(op, [y.cast(dtype), b.cast(dtype).reshape(&d)])?;
            Ok(y.bin(Alu::Add, &b))
        });
        let Some(walk) = walk else { return y };
        let what = || match transposed {
            false => Composite::Conv { window: walk, groups: window.groups },
            true => {
                let n = walk.size.len();
                let output_padding =
                    each(op, "output padding", &window.output_padding, n).unwrap_or_default();
                Composite::ConvTranspose { window: walk, groups: window.groups, output_padding }
            }
        };
        noted(what, &[Some(self), Some(weight), bias], y)
    }
}
