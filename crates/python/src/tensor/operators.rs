//! Operators.

// in what pymethods makes of operators that a macro writes
#![allow(unsafe_op_in_unsafe_fn)]

use super::{PyTensor, grad, out};
use crate::convert::Arg;
use frit::Operand;
use pyo3::prelude::*;

/// Operators, with their reflected and in-place forms.
macro_rules! operators {
    ($($name:ident $reflected:ident $in_place:ident |$a:ident, $b:ident| $f:expr;)*) => {
        #[pymethods]
        impl PyTensor {$(
            fn $name(&self, o: Arg) -> PyResult<PyTensor> {
                let ($a, $b) = (&self.0, o.0);
                out($f)
            }
            fn $reflected(&self, o: Arg) -> PyResult<PyTensor> {
                let ($a, $b) = (&o.0.beside(&self.0), Operand::from(&self.0));
                out($f)
            }
            fn $in_place(&self, o: Arg) -> PyResult<()> {
                grad::update(&self.0, |x| {
                    let ($a, $b) = (&x, o.0);
                    $f
                })
            }
        )*}
    };
}
operators! {
    __add__      __radd__      __iadd__      |a, b| a.add(b);
    __sub__      __rsub__      __isub__      |a, b| a.sub(b);
    __mul__      __rmul__      __imul__      |a, b| a.mul(b);
    __truediv__  __rtruediv__  __itruediv__  |a, b| a.div(b);
    __floordiv__ __rfloordiv__ __ifloordiv__ |a, b| a.floor_div(b);
    __mod__      __rmod__      __imod__      |a, b| a.modulo(b);
    __and__      __rand__      __iand__      |a, b| a.bitwise_and(b);
    __or__       __ror__       __ior__       |a, b| a.bitwise_or(b);
    __xor__      __rxor__      __ixor__      |a, b| a.bitwise_xor(b);
    __lshift__   __rlshift__   __ilshift__   |a, b| a.lshift(b);
    __rshift__   __rrshift__   __irshift__   |a, b| a.rshift(b);
    __matmul__   __rmatmul__   __imatmul__   |a, b| a.matmul(&b.tensor());
}

#[pymethods]
impl PyTensor {
    fn __pow__(&self, o: Arg, modulo: Option<Bound<'_, PyAny>>) -> PyResult<PyTensor> {
        let _ = modulo;
        out(self.0.pow(o.0))
    }
    fn __rpow__(&self, o: Arg, modulo: Option<Bound<'_, PyAny>>) -> PyResult<PyTensor> {
        let _ = modulo;
        out(o.0.beside(&self.0).pow(&self.0))
    }
    fn __ipow__(&self, o: Arg, modulo: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        let _ = modulo;
        grad::update(&self.0, |x| x.pow(o.0))
    }
    fn __neg__(&self) -> PyResult<PyTensor> {
        out(self.0.neg())
    }
    fn __pos__(&self) -> PyResult<PyTensor> {
        out(self.0.clone())
    }
    fn __invert__(&self) -> PyResult<PyTensor> {
        out(self.0.bitwise_not())
    }
    fn __abs__(&self) -> PyResult<PyTensor> {
        out(self.0.abs())
    }
    fn __eq__(&self, o: Arg) -> PyResult<PyTensor> {
        out(self.0.eq(o.0))
    }
    fn __ne__(&self, o: Arg) -> PyResult<PyTensor> {
        out(self.0.ne(o.0))
    }
    fn __lt__(&self, o: Arg) -> PyResult<PyTensor> {
        out(self.0.lt(o.0))
    }
    fn __le__(&self, o: Arg) -> PyResult<PyTensor> {
        out(self.0.le(o.0))
    }
    fn __gt__(&self, o: Arg) -> PyResult<PyTensor> {
        out(self.0.gt(o.0))
    }
    fn __ge__(&self, o: Arg) -> PyResult<PyTensor> {
        out(self.0.ge(o.0))
    }
}
