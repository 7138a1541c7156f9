# Written by python/make_stubs.py from the modules themselves; not to be edited.
import builtins
import os
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])
from frit._frit import DType, DTypeLike, Size, Tensor, TensorLike
from functools import wraps
from frit._frit import Tensor, call_function
__all__ = ['function']
def function(fxn: Any = ..., *, precompile: bool = ..., precompile_backward: bool = ..., allow_implicit: bool = ..., grad_fxn: Any = ...) -> Any: ...
