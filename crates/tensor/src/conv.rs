//! Convolution and pooling, for any number of spatial dims: windows by movement only, then a product and a sum (or a
//! maximum).

use crate::composite::{div, mul};
use crate::error::{Result, call, fail};
use crate::linalg::accumulate;
use crate::movement::{fixed, pad_with, windows};
use crate::operand::Operand;
use crate::reduce::{mean_node, reduce_node, wide};
use crate::shape::{same, show, show_all};
use crate::tensor::{Tensor, align, check_devices, expand_to, filled, promoted};
use frit_uop::{Alu, Scalar, UOp};
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
    padding: Vec<(usize, usize)>,
    dilation: Vec<usize>,
    groups: usize,
    ceil: bool,
    count_pad: bool,
}

impl Default for Window {
    fn default() -> Window {
        Window {
            stride: vec![],
            padding: vec![(0, 0)],
            dilation: vec![1],
            groups: 1,
            ceil: false,
            count_pad: true,
        }
    }
}

/// One number or one for each spatial dim.
pub struct Each(Vec<usize>);
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
    /// Elements added on both sides.
    pub fn padding(self, p: impl Into<Each>) -> Window {
        Window { padding: p.into().0.into_iter().map(|p| (p, p)).collect(), ..self }
    }
    /// Elements added before and after each spatial dim.
    pub fn pads(self, p: &[(usize, usize)]) -> Window {
        Window { padding: p.to_vec(), ..self }
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
    /// Everything for `n` spatial dims; a pool's missing stride is its size.
    fn spread(&self, op: &'static str, size: &[usize]) -> Result<Spread> {
        let n = size.len();
        let all = |v: &[usize], name: &str| match v {
            [x] => Ok(vec![*x; n]),
            v if v.len() == n => Ok(v.to_vec()),
            v => fail!(op, "{name} {v:?} for {n} spatial dims"),
        };
        let padding = match &self.padding[..] {
            [p] => vec![*p; n],
            p if p.len() == n => p.to_vec(),
            p => return fail!(op, "padding {p:?} for {n} spatial dims"),
        };
        let stride = if self.stride.is_empty() { size.to_vec() } else { all(&self.stride, "stride")? };
        let dilation = all(&self.dilation, "dilation")?;
        if stride.contains(&0) || dilation.contains(&0) || size.contains(&0) {
            return fail!(
                op,
                "window {size:?}, stride {stride:?} and dilation {dilation:?} must be at least 1"
            );
        }
        Ok(Spread { size: size.to_vec(), stride, dilation, padding })
    }
}

struct Spread {
    size: Vec<usize>,
    stride: Vec<usize>,
    dilation: Vec<usize>,
    padding: Vec<(usize, usize)>,
}

impl Spread {
    fn padded(&self, x: &UOp, value: &Operand) -> Result<UOp> {
        let first = x.shape().len() - self.size.len();
        let side = |f: &dyn Fn(&(usize, usize)) -> usize| -> SmallVec<[UOp; 4]> {
            let lead = std::iter::repeat_n(UOp::index(0), first);
            lead.chain(self.padding.iter().map(|p| UOp::index(f(p) as i64))).collect()
        };
        pad_with(x, &side(&|p| p.0), &side(&|p| p.1), value)
    }
    /// More padding at the end where a last window is only partly inside.
    fn ceiled(&mut self, op: &'static str, x: &UOp) -> Result<()> {
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
    fn windows(&self, op: &'static str, x: &UOp) -> Result<UOp> {
        let n = self.size.len();
        let first = x.shape().len() - n;
        let mut w = x.clone();
        for i in 0..n {
            let axis = first + 2 * i;
            let span = (self.dilation[i] * (self.size[i] - 1) + 1) as i64;
            let len = fixed(op, &w.shape()[axis])?;
            if span > len {
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
    let dtype = promoted(op, x.dtype, w.dtype)?;
    let acc = accumulate(dtype);
    let size: Vec<usize> = t[2..].iter().map(|d| fixed(op, d).map(|v| v as usize)).collect::<Result<_>>()?;
    let one_step =
        Window { stride: if opts.stride.is_empty() { vec![1] } else { opts.stride.clone() }, ..opts.clone() };
    let spread = one_step.spread(op, &size)?;
    let win = spread.windows(op, &spread.padded(&x.cast(acc), &0.into())?)?; // (N, Cin, O…, K…)
    let (o, k) = (&win.shape()[2..2 + n], &win.shape()[2 + n..]);
    let i = UOp::index;
    // (N, G, 1, Cin/G, O…, K…) -> (N, G, 1, O…, Cin/G, K…)
    let mut split: SmallVec<[UOp; 8]> = SmallVec::from_iter([s[0].clone(), i(g), i(1), i(cw)]);
    split.extend(o.iter().chain(k).cloned());
    let mut axes: Vec<usize> = vec![0, 1, 2];
    axes.extend(4..4 + n);
    axes.push(3);
    axes.extend(4 + n..4 + 2 * n);
    let win_g = win.reshape(&split).permute(&axes);
    let mut wd: SmallVec<[UOp; 8]> = SmallVec::from_iter([i(1), i(g), i(cout / g)]);
    wd.extend((0..n).map(|_| i(1)));
    wd.extend(t[1..].iter().cloned());
    let mut full: SmallVec<[UOp; 8]> = SmallVec::from_iter([s[0].clone(), i(g), i(cout / g)]);
    full.extend(o.iter().cloned());
    full.extend(t[1..].iter().cloned());
    let p = mul(&expand_to(&win_g, &full), &expand_to(&w.cast(acc).reshape(&wd), &full));
    let sum = p.reduce_axes(Alu::Add, &(3 + n..4 + 2 * n).collect::<Vec<_>>());
    let mut out: SmallVec<[UOp; 4]> = SmallVec::from_iter([s[0].clone(), i(cout)]);
    out.extend(o.iter().cloned());
    Ok(sum.reshape(&out).cast(if dtype.is_float() { dtype } else { acc }))
}

impl Tensor {
    /// Convolution of (N, C, spatial…) with a weight (out, C/groups, window…), and a bias for each output channel.
    #[track_caller]
    pub fn conv(&self, weight: &Tensor, bias: Option<&Tensor>, window: Window) -> Tensor {
        self.convolve("conv", None, weight, bias, window)
    }
    /// Convolution over one spatial dim: (N, C, L).
    #[track_caller]
    pub fn conv1d(&self, weight: &Tensor, bias: Option<&Tensor>, window: Window) -> Tensor {
        self.convolve("conv1d", Some(3), weight, bias, window)
    }
    /// Convolution over two spatial dims: (N, C, H, W).
    #[track_caller]
    pub fn conv2d(&self, weight: &Tensor, bias: Option<&Tensor>, window: Window) -> Tensor {
        self.convolve("conv2d", Some(4), weight, bias, window)
    }
    /// Convolution over three spatial dims: (N, C, D, H, W).
    #[track_caller]
    pub fn conv3d(&self, weight: &Tensor, bias: Option<&Tensor>, window: Window) -> Tensor {
        self.convolve("conv3d", Some(5), weight, bias, window)
    }
    #[track_caller]
    fn convolve(
        &self,
        op: &'static str,
        rank: Option<usize>,
        weight: &Tensor,
        bias: Option<&Tensor>,
        window: Window,
    ) -> Tensor {
        let _c = call(op);
        self.map(|x| {
            if rank.is_some_and(|r| x.shape().len() != r) {
                return fail!(
                    op,
                    "input of shape {}, not of {} dims",
                    show_all(x.shape()),
                    rank.unwrap_or(0)
                );
            }
            let y = conv(op, x, &weight.uop()?, &window)?;
            let Some(b) = bias else { return Ok(y) };
            let b = b.uop()?;
            let c = &y.shape()[1];
            if b.shape().len() != 1 || !same(op, &b.shape()[0], c)? {
                return fail!(op, "bias of shape {} for {} output channels", show_all(b.shape()), show(c));
            }
            let mut d: SmallVec<[UOp; 4]> = SmallVec::from_elem(UOp::index(1), y.shape().len());
            d[1] = c.clone();
            let dtype = promoted(op, y.dtype, b.dtype)?;
            let [y, b] = align(op, [y.cast(dtype), b.cast(dtype).reshape(&d)])?;
            Ok(y.bin(Alu::Add, &b))
        })
    }
    /// The greatest of each window over the last dims, as many as `size` has; padding never wins.
    #[track_caller]
    pub fn max_pool(&self, size: &[usize], window: Window) -> Tensor {
        let _c = call("max_pool");
        self.pool("max_pool", size, &window, |x, spread| {
            let lowest = Scalar::identity(Alu::Max, x.dtype).unwrap_or(Scalar::zero(x.dtype));
            let fill = Operand::Tensor(Tensor::of(Ok(UOp::constant(lowest, x.dtype))));
            let w = spread.windows("max_pool", &spread.padded(x, &fill)?)?;
            let r = x.shape().len();
            Ok(w.reduce_axes(Alu::Max, &(r..r + spread.size.len()).collect::<Vec<_>>()))
        })
    }
    /// The mean of each window over the last dims, as many as `size` has.
    #[track_caller]
    pub fn avg_pool(&self, size: &[usize], window: Window) -> Tensor {
        let _c = call("avg_pool");
        let (count_pad, ceil) = (window.count_pad, window.ceil);
        self.pool("avg_pool", size, &window, |x, spread| {
            let (r, n) = (x.shape().len(), spread.size.len());
            let axes: Vec<usize> = (r..r + n).collect();
            let v = wide(x);
            let w = spread.windows("avg_pool", &spread.padded(&v, &0.into())?)?;
            let padded = spread.padding.iter().any(|p| *p != (0, 0));
            let mean = if padded && (!count_pad || ceil) {
                // how many real elements are under each window; padding asked for counts where it should
                let own = window.spread("avg_pool", size)?;
                let ones = filled(v.shape(), v.const_like(1));
                let ones = if count_pad { own.padded(&ones, &1.into())? } else { ones };
                let mut rest = Spread {
                    size: spread.size.clone(),
                    stride: spread.stride.clone(),
                    dilation: spread.dilation.clone(),
                    padding: spread.padding.clone(),
                };
                if count_pad {
                    for (p, q) in rest.padding.iter_mut().zip(&own.padding) {
                        *p = (p.0 - q.0, p.1 - q.1);
                    }
                }
                let counts = rest.windows("avg_pool", &rest.padded(&ones, &0.into())?)?;
                div(&reduce_node(&w, Alu::Add, &axes), &reduce_node(&counts, Alu::Add, &axes))
            } else {
                mean_node(&w, &axes)
            };
            Ok(mean.cast(crate::creation::float_of(x.dtype)))
        })
    }
    /// [`Tensor::max_pool`] over the last two dims.
    #[track_caller]
    pub fn max_pool2d(&self, size: impl Into<Each>, window: Window) -> Tensor {
        let _c = call("max_pool2d");
        self.max_pool(&two(size.into()), window)
    }
    /// [`Tensor::avg_pool`] over the last two dims.
    #[track_caller]
    pub fn avg_pool2d(&self, size: impl Into<Each>, window: Window) -> Tensor {
        let _c = call("avg_pool2d");
        self.avg_pool(&two(size.into()), window)
    }
    fn pool(
        &self,
        op: &'static str,
        size: &[usize],
        window: &Window,
        f: impl FnOnce(&UOp, &Spread) -> Result<UOp>,
    ) -> Tensor {
        self.map(|x| {
            if x.shape().len() < size.len() || size.is_empty() {
                return fail!(op, "a window of {size:?} over shape {}", show_all(x.shape()));
            }
            let mut spread = window.spread(op, size)?;
            if window.ceil {
                spread.ceiled(op, x)?;
            }
            let w = f(x, &spread)?;
            let dims: SmallVec<[UOp; 4]> = w.shape()[..x.shape().len()].iter().cloned().collect();
            Ok(w.reshape(&dims))
        })
    }
}

fn two(e: Each) -> Vec<usize> {
    match e.0[..] {
        [s] => vec![s, s],
        _ => e.0,
    }
}
