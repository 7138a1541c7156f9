//! Windows: convolutions and pools over one, two or three dims.

use super::neural::plain;
use super::{PyTensor, out};
use crate::convert::{Ints, TensorArg, count, truth};
use crate::dtype::DTypeArg;
use frit::{Tensor, Window};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Padding of a window over `n` dims: a number, one for each dim, a pair for each dim from the last one (torch's order),
/// "same" or "valid".
fn padded(w: Window, padding: Option<&Bound<'_, PyAny>>, n: usize) -> PyResult<Window> {
    let Some(p) = padding else { return Ok(w) };
    if let Ok(word) = p.extract::<String>() {
        return match word.as_str() {
            "same" => Ok(w.same()),
            "valid" => Ok(w),
            _ => Err(PyValueError::new_err(format!(
                "padding must be numbers, 'same' or 'valid', not {word:?}"
            ))),
        };
    }
    let p = p.extract::<Ints>()?.counts("padding")?;
    if p.len() == 2 * n && n > 0 {
        let pairs: Vec<(usize, usize)> = p.chunks(2).rev().map(|c| (c[0], c[1])).collect();
        return Ok(w.pads(&pairs));
    }
    Ok(w.padding(p))
}

fn window(
    stride: Option<Ints>,
    padding: Option<&Bound<'_, PyAny>>,
    dilation: Option<Ints>,
    n: usize,
) -> PyResult<Window> {
    let mut w = padded(Window::new(), padding, n)?;
    if let Some(s) = stride {
        w = w.stride(s.counts("stride")?);
    }
    if let Some(d) = dilation {
        w = w.dilation(d.counts("dilation")?);
    }
    Ok(w)
}

/// The sizes of a window: one number stands for as many dims as the method's name says.
pub enum Kernel {
    All(i64),
    Each(Vec<i64>),
}

impl<'py> FromPyObject<'_, 'py> for Kernel {
    type Error = PyErr;
    fn extract(obj: Borrowed<'_, 'py, PyAny>) -> PyResult<Kernel> {
        match obj.extract::<i64>() {
            Ok(n) => Ok(Kernel::All(n)),
            Err(_) => obj.extract::<Ints>().map(|k| Kernel::Each(k.0)),
        }
    }
}

fn kernel(size: Option<Kernel>, n: usize) -> PyResult<Vec<usize>> {
    let k = match size {
        Some(Kernel::All(k)) => vec![k; n],
        Some(Kernel::Each(k)) => k,
        None => vec![2; n],
    };
    Ints(k).counts("kernel_size")
}

/// Values and places, or values.
fn pooled<'py>(py: Python<'py>, values: Tensor, places: Option<Tensor>) -> PyResult<Bound<'py, PyAny>> {
    match places {
        Some(p) => Ok(PyTuple::new(py, [out(values)?, out(p)?])?.into_any()),
        None => Ok(Bound::new(py, out(values)?)?.into_any()),
    }
}

/// The same methods under the names of all ranks: the weight says how many dims there are.
macro_rules! convolutions {
    ($($n:ident $t:ident;)*) => {$(
        #[pymethods]
        impl PyTensor {
    /// Convolution over as many spatial dims as the weight has (1, 2 or 3): this is (N, C, *), the weight
    /// (O, C / groups, *). padding is a number, one for each dim, torch's flat pairs from the last dim, "same" or "valid".
    #[pyo3(signature = (weight, bias=None, groups=1, stride=None, dilation=None, padding=None, dtype=None), text_signature = "($self, weight, bias=None, groups=1, stride=1, dilation=1, padding=0, dtype=None)")]
    #[allow(clippy::too_many_arguments)] // they are the API's
    fn $n(
        &self,
        weight: TensorArg,
        bias: Option<TensorArg>,
        groups: i64,
        stride: Option<Ints>,
        dilation: Option<Ints>,
        padding: Option<&Bound<'_, PyAny>>,
        dtype: Option<DTypeArg>,
    ) -> PyResult<PyTensor> {
        let groups = count(groups, "groups")?;
        let w = window(stride, padding, dilation, weight.0.rank().saturating_sub(2))?.groups(groups);
        let cast = |t: &Tensor| dtype.as_ref().map_or(t.clone(), |d| t.cast(d.0));
        let (x, k) = (cast(&self.0), cast(&weight.0));
        // by name, since those take a single sample without a batch too
        out(match k.rank() {
            3 => x.conv1d(&k, plain(&bias), w),
            4 => x.conv2d(&k, plain(&bias), w),
            5 => x.conv3d(&k, plain(&bias), w),
            _ => x.conv(&k, plain(&bias), w),
        })
    }
    /// Convolution, transposed: the gradient of a convolution with respect to its input.
    #[pyo3(signature = (weight, bias=None, groups=1, stride=None, dilation=None, padding=None, output_padding=None), text_signature = "($self, weight, bias=None, groups=1, stride=1, dilation=1, padding=0, output_padding=0)")]
    #[allow(clippy::too_many_arguments)] // they are the API's
    fn $t(
        &self,
        weight: TensorArg,
        bias: Option<TensorArg>,
        groups: i64,
        stride: Option<Ints>,
        dilation: Option<Ints>,
        padding: Option<&Bound<'_, PyAny>>,
        output_padding: Option<Ints>,
    ) -> PyResult<PyTensor> {
        let groups = count(groups, "groups")?;
        let mut w = window(stride, padding, dilation, weight.0.rank().saturating_sub(2))?.groups(groups);
        if let Some(p) = output_padding {
            w = w.output_padding(p.counts("output_padding")?);
        }
        let (x, k) = (&self.0, &weight.0);
        out(match k.rank() {
            3 => x.conv_transpose1d(k, plain(&bias), w),
            4 => x.conv_transpose2d(k, plain(&bias), w),
            5 => x.conv_transpose3d(k, plain(&bias), w),
            _ => x.conv_transpose(k, plain(&bias), w),
        })
    }
        }
    )*};
}
convolutions! {
    conv1d conv_transpose1d;
    conv2d conv_transpose2d;
    conv3d conv_transpose3d;
}

/// Pools by rank: one number for a window stands for so many dims.
macro_rules! pools {
    ($($n:literal $avg:ident $max:ident $lp:ident $adaptive_avg:ident $adaptive_max:ident $unpool:ident;)*) => {$(
        #[pymethods]
        impl PyTensor {
    /// The mean of windows over the last dims.
    #[pyo3(signature = (kernel_size=None, stride=None, dilation=None, padding=None, ceil_mode=false, count_include_pad=true, divisor_override=None), text_signature = "($self, kernel_size=2, stride=None, dilation=1, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None)")]
    #[allow(clippy::too_many_arguments)] // they are the API's
    fn $avg(
        &self,
        kernel_size: Option<Kernel>,
        stride: Option<Ints>,
        dilation: Option<Ints>,
        padding: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = truth)] ceil_mode: bool,
        #[pyo3(from_py_with = truth)] count_include_pad: bool,
        divisor_override: Option<i64>,
    ) -> PyResult<PyTensor> {
        let divisor_override = divisor_override.map(|n| count(n, "divisor_override")).transpose()?;
        let k = kernel(kernel_size, $n)?;
        let w = window(stride, padding, dilation, k.len())?
            .ceil_mode(ceil_mode)
            .count_include_pad(count_include_pad);
        let w = divisor_override.map_or(w.clone(), |d| w.divisor(d));
        out(self.0.avg_pool(&k, w))
    }
    /// The greatest of windows over the last dims; with return_indices, also their places.
    #[pyo3(signature = (kernel_size=None, stride=None, dilation=None, padding=None, ceil_mode=false, return_indices=false), text_signature = "($self, kernel_size=2, stride=None, dilation=1, padding=0, ceil_mode=False, return_indices=False)")]
    #[allow(clippy::too_many_arguments)] // they are the API's
    fn $max<'py>(
        &self,
        py: Python<'py>,
        kernel_size: Option<Kernel>,
        stride: Option<Ints>,
        dilation: Option<Ints>,
        padding: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = truth)] ceil_mode: bool,
        #[pyo3(from_py_with = truth)] return_indices: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let k = kernel(kernel_size, $n)?;
        let w = window(stride, padding, dilation, k.len())?.ceil_mode(ceil_mode);
        match return_indices {
            true => {
                let (values, places) = self.0.max_pool_with_indices(&k, w);
                pooled(py, values, Some(places))
            }
            false => pooled(py, self.0.max_pool(&k, w), None),
        }
    }
    /// The p-norm of windows over the last dims.
    #[pyo3(signature = (norm_type, kernel_size, stride=None, ceil_mode=false))]
    fn $lp(
        &self,
        norm_type: f64,
        kernel_size: Kernel,
        stride: Option<Ints>,
        #[pyo3(from_py_with = truth)] ceil_mode: bool,
    ) -> PyResult<PyTensor> {
        let k = kernel(Some(kernel_size), $n)?;
        out(self.0.lp_pool(norm_type, &k, window(stride, None, None, k.len())?.ceil_mode(ceil_mode)))
    }
    /// The mean of so many windows that cover the last dims.
    fn $adaptive_avg(&self, output_size: Kernel) -> PyResult<PyTensor> {
        out(self.0.adaptive_avg_pool(&kernel(Some(output_size), $n)?))
    }
    /// The greatest of so many windows that cover the last dims; with return_indices, also their places.
    #[pyo3(signature = (output_size, return_indices=false))]
    fn $adaptive_max<'py>(
        &self,
        py: Python<'py>,
        output_size: Kernel,
        #[pyo3(from_py_with = truth)] return_indices: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let size = kernel(Some(output_size), $n)?;
        match return_indices {
            true => {
                let (values, places) = self.0.adaptive_max_pool_with_indices(&size);
                pooled(py, values, Some(places))
            }
            false => pooled(py, self.0.adaptive_max_pool(&size), None),
        }
    }
    /// Elements put back at the places max_pool2d gave; zeros elsewhere.
    #[pyo3(signature = (indices, kernel_size=None, stride=None, dilation=None, padding=None, output_size=None), text_signature = "($self, indices, kernel_size=2, stride=None, dilation=1, padding=0, output_size=None)")]
    fn $unpool(
        &self,
        indices: TensorArg,
        kernel_size: Option<Kernel>,
        stride: Option<Ints>,
        dilation: Option<Ints>,
        padding: Option<Ints>,
        output_size: Option<Ints>,
    ) -> PyResult<PyTensor> {
        let k = kernel(kernel_size, $n)?;
        let n = k.len();
        if let Some(o) = output_size {
            let o = o.counts("output_size")?;
            return out(self.0.max_unpool(&indices.0, &o[o.len().saturating_sub(n)..]));
        }
        let each = |v: Option<Ints>, or: &[usize]| -> PyResult<Vec<usize>> {
            let v = v.map_or(Ok(or.to_vec()), |v| v.counts("size"))?;
            Ok(if v.len() == 1 { vec![v[0]; n] } else { v })
        };
        let (s, d, p) = (each(stride, &k)?, each(dilation, &[1])?, each(padding, &[0])?);
        let dims = self.dims()?;
        if dims.len() < n || [s.len(), d.len(), p.len()] != [n; 3] {
            return Err(PyRuntimeError::new_err(format!("max_unpool: shape {dims:?} with windows {k:?}")));
        }
        let from = &dims[dims.len() - n..];
        let to = |i: usize| {
            (from[i].saturating_sub(1) * s[i] + d[i] * (k[i].saturating_sub(1)) + 1).saturating_sub(2 * p[i])
        };
        out(self.0.max_unpool(&indices.0, &(0..n).map(to).collect::<Vec<_>>()))
    }
        }
    )*};
}
pools! {
    1 avg_pool1d max_pool1d lp_pool1d adaptive_avg_pool1d adaptive_max_pool1d max_unpool1d;
    2 avg_pool2d max_pool2d lp_pool2d adaptive_avg_pool2d adaptive_max_pool2d max_unpool2d;
    3 avg_pool3d max_pool3d lp_pool3d adaptive_avg_pool3d adaptive_max_pool3d max_unpool3d;
}
