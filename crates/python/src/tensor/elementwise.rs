//! Element by element.

use super::{PyTensor, out};
use crate::convert::{Arg, TensorArg, tensors, truth};
use crate::dtype::DTypeArg;
use frit::{Operand, Tensor};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Methods without arguments: name, the Rust method.
macro_rules! unaries {
    ($($(#[$doc:meta])* $name:ident $method:ident;)*) => {
        #[pymethods]
        impl PyTensor {$(
            $(#[$doc])*
            fn $name(&self) -> PyResult<PyTensor> {
                out(self.0.$method())
            }
        )*}
    };
}
unaries! {
    /// -x.
    neg          neg;
    /// -x.
    negative     neg;
    /// Magnitude.
    abs          abs;
    /// Magnitude.
    absolute     abs;
    /// -1, 0 or 1.
    sign         sign;
    /// Square root.
    sqrt         sqrt;
    /// 1 / sqrt(x).
    rsqrt        rsqrt;
    /// 1 / x.
    reciprocal   reciprocal;
    /// x squared.
    square       square;
    /// e to the x.
    exp          exp;
    /// 2 to the x.
    exp2         exp2;
    /// e to the x, less 1, exact near zero.
    expm1        expm1;
    /// Natural logarithm.
    log          log;
    /// Logarithm to base 2.
    log2         log2;
    /// Logarithm to base 10.
    log10        log10;
    /// log(1 + x), exact near zero.
    log1p        log1p;
    /// Sine of radians.
    sin          sin;
    /// Cosine of radians.
    cos          cos;
    /// Tangent of radians.
    tan          tan;
    /// Arc sine.
    asin         asin;
    /// Arc sine.
    arcsin       asin;
    /// Arc cosine.
    acos         acos;
    /// Arc cosine.
    arccos       acos;
    /// Arc tangent.
    atan         atan;
    /// Arc tangent.
    arctan       atan;
    /// Hyperbolic sine.
    sinh         sinh;
    /// Hyperbolic cosine.
    cosh         cosh;
    /// Hyperbolic tangent.
    tanh         tanh;
    /// Inverse hyperbolic sine.
    asinh        asinh;
    /// Inverse hyperbolic cosine.
    acosh        acosh;
    /// Inverse hyperbolic tangent.
    atanh        atanh;
    /// The error function.
    erf          erf;
    /// 1 - erf(x), without cancelling.
    erfc         erfc;
    /// Towards minus infinity.
    floor        floor;
    /// Towards plus infinity.
    ceil         ceil;
    /// Towards zero.
    trunc        trunc;
    /// Where it is not a number.
    isnan        isnan;
    /// Where it is neither an infinity nor NaN.
    isfinite     isfinite;
    /// True where it is zero.
    logical_not  logical_not;
    /// Every bit turned.
    bitwise_not  bitwise_not;
    /// x where it is positive, else 0.
    relu         relu;
    /// relu, no more than 6.
    relu6        relu6;
    /// 1 / (1 + exp(-x)).
    sigmoid      sigmoid;
    /// log(sigmoid(x)), without overflow.
    logsigmoid   logsigmoid;
    /// x / (1 + |x|).
    softsign     softsign;
    /// x * sigmoid(x).
    silu         silu;
    /// x * sigmoid(x).
    swish        swish;
    /// x * tanh(softplus(x)).
    mish         mish;
    /// x * sigmoid(1.702 x).
    quick_gelu   quick_gelu;
    /// x * relu6(x + 3) / 6.
    hardswish    hardswish;
    /// x - tanh(x).
    tanhshrink   tanhshrink;
    /// As float32.
    float        float;
    /// As float16.
    half         half;
    /// As bfloat16.
    bfloat16     bfloat16;
    /// As float64.
    double       double;
    /// As int16.
    short        short;
    /// As int32.
    int          int;
    /// As int64.
    long         long;
    /// As bool: whether it is not zero.
    bool         bool;
}

/// Methods with one operand: name, the Rust method.
macro_rules! binaries {
    ($($(#[$doc:meta])* $name:ident $method:ident;)*) => {
        #[pymethods]
        impl PyTensor {$(
            $(#[$doc])*
            fn $name(&self, x: Arg) -> PyResult<PyTensor> {
                out(self.0.$method(x.0))
            }
        )*}
    };
}
binaries! {
    /// Equal.
    eq          eq;
    /// Not equal.
    ne          ne;
    /// Less.
    lt          lt;
    /// Less or equal.
    le          le;
    /// Greater.
    gt          gt;
    /// Greater or equal.
    ge          ge;
    /// The greater of both; NaN if either is.
    maximum     maximum;
    /// The lesser of both; NaN if either is.
    minimum     minimum;
    /// The remainder with the sign of this.
    fmod        fmod;
    /// The remainder with the sign of x.
    remainder   modulo;
    /// The angle of the point (x, this).
    atan2       atan2;
    /// Whether both are true.
    logical_and logical_and;
    /// Whether either is true.
    logical_or  logical_or;
    /// Whether one but not both is true.
    logical_xor logical_xor;
    /// The quotient rounded down.
    floor_divide floor_div;
}

/// Methods with one operand that can stand on either side.
macro_rules! sided {
    ($($(#[$doc:meta])* $name:ident $method:ident;)*) => {
        #[pymethods]
        impl PyTensor {$(
            $(#[$doc])*
            #[pyo3(signature = (x, reverse=false))]
            fn $name(&self, x: Arg, #[pyo3(from_py_with = truth)] reverse: bool) -> PyResult<PyTensor> {
                out(match reverse {
                    true => x.0.beside(&self.0).$method(&self.0),
                    false => self.0.$method(x.0),
                })
            }
        )*}
    };
}
sided! {
    /// Sum.
    add         add;
    /// Difference.
    sub         sub;
    /// Product.
    mul         mul;
    /// The remainder with the sign of x.
    r#mod       modulo;
    /// This to the power x.
    pow         pow;
    /// Bits of both.
    bitwise_and bitwise_and;
    /// Bits of either.
    bitwise_or  bitwise_or;
    /// Bits that differ.
    bitwise_xor bitwise_xor;
    /// Shifted left.
    lshift      lshift;
    /// Shifted right, keeping the sign.
    rshift      rshift;
}

/// One limit of a clamp, if there is one.
fn limited(t: Tensor, min: Option<Arg>, max: Option<Arg>) -> PyResult<PyTensor> {
    if min.is_none() && max.is_none() {
        return Err(PyRuntimeError::new_err("clamp: at least one of min and max must be given"));
    }
    let t = min.map_or(t.clone(), |lo| t.clamp_min(lo.0));
    out(max.map_or(t.clone(), |hi| t.clamp_max(hi.0)))
}

#[pymethods]
impl PyTensor {
    /// Quotient; with rounding_mode "trunc" or "floor", rounded.
    #[pyo3(signature = (x, reverse=false, rounding_mode=None))]
    fn div(
        &self,
        x: Arg,
        #[pyo3(from_py_with = truth)] reverse: bool,
        rounding_mode: Option<&str>,
    ) -> PyResult<PyTensor> {
        let (a, b) = match reverse {
            true => (x.0.beside(&self.0), Operand::from(&self.0)),
            false => (self.0.clone(), x.0),
        };
        out(match rounding_mode {
            None => a.div(b),
            Some("trunc") => a.trunc_div(b),
            Some("floor") => a.floor_div(b),
            Some(m) => {
                return Err(PyRuntimeError::new_err(format!(
                    "div: rounding_mode must be None, 'trunc' or 'floor', not {m:?}"
                )));
            }
        })
    }
    /// No less than min, no more than max.
    #[pyo3(signature = (min_=None, max_=None, *, min=None, max=None))]
    fn clamp(
        &self,
        min_: Option<Arg>,
        max_: Option<Arg>,
        min: Option<Arg>,
        max: Option<Arg>,
    ) -> PyResult<PyTensor> {
        limited(self.0.clone(), min_.or(min), max_.or(max))
    }
    /// No less than min, no more than max.
    #[pyo3(signature = (min_=None, max_=None, *, min=None, max=None))]
    fn clip(
        &self,
        min_: Option<Arg>,
        max_: Option<Arg>,
        min: Option<Arg>,
        max: Option<Arg>,
    ) -> PyResult<PyTensor> {
        limited(self.0.clone(), min_.or(min), max_.or(max))
    }
    /// The magnitude of this with the sign of other.
    fn copysign(&self, other: Arg) -> PyResult<PyTensor> {
        out(self.0.copysign(other.0))
    }
    /// log(exp(this) + exp(other)), without overflow.
    fn logaddexp(&self, other: Arg) -> PyResult<PyTensor> {
        out(self.0.logaddexp(other.0))
    }
    /// From this to end by the fraction weight.
    fn lerp(&self, end: TensorArg, weight: Arg) -> PyResult<PyTensor> {
        out(self.0.lerp(&end.0, weight.0))
    }
    /// To the nearest integer, halves to even; with decimals, to so many places after the point.
    #[pyo3(signature = (decimals=0))]
    fn round(&self, decimals: i32) -> PyResult<PyTensor> {
        let scale = 10f64.powi(decimals.abs());
        out(match decimals {
            0 => self.0.round(),
            d if d > 0 => self.0.mul(scale).round().div(scale),
            _ => self.0.div(scale).round().mul(scale),
        })
    }
    /// Where it is an infinity.
    #[pyo3(signature = (detect_positive=true, detect_negative=true))]
    fn isinf(
        &self,
        #[pyo3(from_py_with = truth)] detect_positive: bool,
        #[pyo3(from_py_with = truth)] detect_negative: bool,
    ) -> PyResult<PyTensor> {
        let inf = self.0.isinf();
        out(match (detect_positive, detect_negative) {
            (true, true) => inf,
            (true, false) => inf.logical_and(self.0.gt(0)),
            (false, true) => inf.logical_and(self.0.lt(0)),
            (false, false) => inf.logical_and(false),
        })
    }
    /// Where both are close: |x - y| <= atol + rtol * |y|.
    #[pyo3(signature = (other, rtol=1e-5, atol=1e-8, equal_nan=false))]
    fn isclose(
        &self,
        other: Arg,
        rtol: f64,
        atol: f64,
        #[pyo3(from_py_with = truth)] equal_nan: bool,
    ) -> PyResult<PyTensor> {
        out(self.close(other, rtol, atol, equal_nan))
    }
    /// Whether all elements are close, as a tensor of one bool.
    #[pyo3(signature = (other, rtol=1e-5, atol=1e-8, equal_nan=false))]
    fn allclose(
        &self,
        other: Arg,
        rtol: f64,
        atol: f64,
        #[pyo3(from_py_with = truth)] equal_nan: bool,
    ) -> PyResult<PyTensor> {
        out(self.close(other, rtol, atol, equal_nan).all(..))
    }
    /// x where it is positive, else neg_slope * x.
    #[pyo3(signature = (neg_slope=0.01))]
    fn leaky_relu(&self, neg_slope: f64) -> PyResult<PyTensor> {
        out(self.0.leaky_relu(neg_slope))
    }
    /// x where it is positive, else alpha * (exp(x) - 1).
    #[pyo3(signature = (alpha=1.0))]
    fn elu(&self, alpha: f64) -> PyResult<PyTensor> {
        out(self.0.elu(alpha))
    }
    /// max(0, x) + min(0, alpha * (exp(x / alpha) - 1)).
    #[pyo3(signature = (alpha=1.0))]
    fn celu(&self, alpha: f64) -> PyResult<PyTensor> {
        out(self.0.celu(alpha))
    }
    /// elu, scaled.
    #[pyo3(signature = (alpha=None, gamma=None))]
    fn selu(&self, alpha: Option<f64>, gamma: Option<f64>) -> PyResult<PyTensor> {
        out(match (alpha, gamma) {
            (None, None) => self.0.selu(),
            (a, g) => self.0.elu(a.unwrap_or(1.67326)).mul(g.unwrap_or(1.0507)),
        })
    }
    /// x times the normal distribution function of x; approximate is "tanh" (as tinygrad's default) or "none".
    #[pyo3(signature = (approximate="tanh"))]
    fn gelu(&self, approximate: &str) -> PyResult<PyTensor> {
        out(match approximate {
            "tanh" => self.0.gelu_tanh(),
            "none" => self.0.gelu(),
            a => {
                return Err(PyRuntimeError::new_err(format!(
                    "gelu: approximate must be 'tanh' or 'none', not {a:?}"
                )));
            }
        })
    }
    /// log(1 + exp(beta * x)) / beta.
    #[pyo3(signature = (beta=1.0))]
    fn softplus(&self, beta: f64) -> PyResult<PyTensor> {
        out(if beta == 1.0 { self.0.softplus() } else { self.0.mul(beta).softplus().div(beta) })
    }
    /// alpha * x + beta, between 0 and 1.
    #[pyo3(signature = (alpha=1.0 / 6.0, beta=0.5), text_signature = "($self, alpha=0.16666666666666666, beta=0.5)")]
    fn hardsigmoid(&self, alpha: f64, beta: f64) -> PyResult<PyTensor> {
        out(match (alpha, beta) {
            (a, 0.5) if a == 1.0 / 6.0 => self.0.hardsigmoid(),
            _ => self.0.mul(alpha).add(beta).clamp(0.0, 1.0),
        })
    }
    /// x between two limits.
    #[pyo3(signature = (min_val=-1.0, max_val=1.0), text_signature = "($self, min_val=-1.0, max_val=1.0)")]
    fn hardtanh(&self, min_val: f64, max_val: f64) -> PyResult<PyTensor> {
        out(match (min_val, max_val) {
            (-1.0, 1.0) => self.0.hardtanh(),
            (lo, hi) => self.0.clamp(lo, hi),
        })
    }
    /// x where it is positive, else weight * x, a weight for each channel.
    fn prelu(&self, weight: TensorArg) -> PyResult<PyTensor> {
        out(self.0.prelu(&weight.0))
    }
    /// The first half along dim times the sigmoid of the second.
    #[pyo3(signature = (dim=-1))]
    fn glu(&self, dim: isize) -> PyResult<PyTensor> {
        out(self.0.glu(dim))
    }
    /// x where it is above threshold, else value.
    fn threshold(&self, threshold: f64, value: f64) -> PyResult<PyTensor> {
        out(self.0.threshold(threshold, value))
    }
    /// x where its magnitude is above lambd, else 0.
    #[pyo3(signature = (lambd=0.5))]
    fn hardshrink(&self, lambd: f64) -> PyResult<PyTensor> {
        out(self.0.hardshrink(lambd))
    }
    /// x brought lambd nearer to 0.
    #[pyo3(signature = (lambd=0.5))]
    fn softshrink(&self, lambd: f64) -> PyResult<PyTensor> {
        out(self.0.softshrink(lambd))
    }
    /// Converted to another type; float to int truncates.
    fn cast(&self, dtype: DTypeArg) -> PyResult<PyTensor> {
        out(self.0.cast(dtype.0))
    }
    /// Converted to another type (numpy's name).
    fn astype(&self, dtype: DTypeArg) -> PyResult<PyTensor> {
        out(self.0.cast(dtype.0))
    }
    /// Converted to another type (torch's name).
    fn r#type(&self, dtype: DTypeArg) -> PyResult<PyTensor> {
        out(self.0.cast(dtype.0))
    }
    /// The same bits as another type; the last dim grows or shrinks where the sizes differ.
    fn bitcast(&self, dtype: DTypeArg) -> PyResult<PyTensor> {
        out(self.0.bitcast(dtype.0))
    }
    /// The type of this tensor's elements, cast to another's (torch's name).
    fn type_as(&self, other: TensorArg) -> PyResult<PyTensor> {
        out(self.0.cast(other.0.dtype()))
    }
    /// The sum of this and others.
    #[pyo3(signature = (*others))]
    fn usum(&self, others: &Bound<'_, PyTuple>) -> PyResult<PyTensor> {
        out(tensors(others)?.iter().fold(self.0.clone(), |a, b| a.add(b)))
    }
    /// The product of this and others.
    #[pyo3(signature = (*others))]
    fn uprod(&self, others: &Bound<'_, PyTuple>) -> PyResult<PyTensor> {
        out(tensors(others)?.iter().fold(self.0.clone(), |a, b| a.mul(b)))
    }
    /// A number or tensor as a tensor that changes no types beside this one.
    fn ufix(&self, x: Arg) -> PyResult<PyTensor> {
        out(x.0.beside(&self.0))
    }
    /// Calls each function on the result of the one before.
    fn sequential<'py>(slf: Bound<'py, Self>, ll: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let mut x = slf.into_any();
        for f in ll.try_iter()? {
            x = f?.call1((x,))?;
        }
        Ok(x)
    }
}

impl PyTensor {
    fn close(&self, other: Arg, rtol: f64, atol: f64, equal_nan: bool) -> Tensor {
        let o = other.0.beside(&self.0);
        let close = self.0.isclose(&o, rtol, atol);
        if equal_nan { close.logical_or(self.0.isnan().logical_and(o.isnan())) } else { close }
    }
}
