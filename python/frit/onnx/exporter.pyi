# Written by python/make_stubs.py from the modules themselves; not to be edited.
import builtins
import os
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])
from frit._frit import DType, DTypeLike, Size, Tensor, TensorLike
from frit._frit import Tensor, export_onnx
from frit.function import _taken
__all__ = ['export']
def export(fn: str | os.PathLike[str] | Tensor, inputs: Any, path: Any = ..., *, input_names: Any = ..., output_names: Any = ..., opset: int = ...) -> Any: ...
