# Written by python/make_stubs.py from the modules themselves; not to be edited.
import builtins
import os
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])
from frit._frit import DType, DTypeLike, Size, Tensor, TensorLike
from frit.nn.optim import Optimizer
import os
from frit import _frit
__all__ = ['cifar', 'mnist']
def mnist(device: str | None = ..., fashion: bool = ...) -> tuple[Tensor, Tensor, Tensor, Tensor]: ...
def cifar(device: str | None = ...) -> tuple[Tensor, Tensor, Tensor, Tensor]: ...
