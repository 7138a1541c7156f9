"""frit: tensors that are only a description until someone needs the numbers.

>>> from frit import Tensor
>>> x = Tensor([[1.0, 2.0], [3.0, 4.0]])
>>> (x * 2 + 1).sum(axis=1).tolist()
[8.0, 16.0]
"""

from frit._frit import JitError, SymbolicInt, Tensor, TinyJit, Variable, __version__
from frit.device import Device
from frit.dtype import DType, dtypes
from frit.function import function
from frit import tensor as _tensor  # methods of Tensor that are written in Python
from frit.helpers import Context, GlobalCounters, getenv
from frit.tensor import autocast
from frit.viz import Progress, Viz, span
from frit import llm, nn, onnx

__all__ = [
    "Context",
    "DType",
    "Device",
    "GlobalCounters",
    "JitError",
    "Progress",
    "SymbolicInt",
    "Tensor",
    "TinyJit",
    "Variable",
    "Viz",
    "autocast",
    "dtypes",
    "function",
    "getenv",
    "llm",
    "nn",
    "onnx",
    "span",
    "__version__",
]
