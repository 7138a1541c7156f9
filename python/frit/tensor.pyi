# Written by python/make_stubs.py from the modules themselves; not to be edited.
import builtins
import os
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])
from frit._frit import DType, DTypeLike, Size, Tensor, TensorLike
from frit._frit import Tensor
__all__ = ['Tensor']

class _Train:
    mode: Any
    before: Any
    def __init__(self, mode: str = ...) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *_: Any) -> None: ...
    def __call__(self, f: F) -> F: ...

class _Nothing(_Train):
    def __enter__(self) -> Any: ...
    def __exit__(self, *_: Any) -> None: ...
