# Written by python/make_stubs.py from the modules themselves; not to be edited.
import builtins
import os
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])
from frit._frit import DType, DTypeLike, Size, Tensor, TensorLike
import warnings
from frit._frit import OnnxSession, Tensor
__all__ = ['Port', 'Session']

class Port:
    name: Any
    type: Any
    shape: Any
    optional: Any
    def __init__(self, name: str, type: Any, shape: Size | Sequence[Size], optional: builtins.bool = ...) -> None: ...
    def __repr__(self) -> str: ...

class Session:
    def __init__(self, model: Any, bind: dict[str, builtins.int] | None = ..., images: Any = ...) -> None: ...
    @property
    def inputs(self) -> list[Port]: ...
    @property
    def outputs(self) -> list[Port]: ...
    def run(self, names: Any, feeds: Any) -> list[Any]: ...
    def tensors(self, feeds: Any) -> dict[str, Any]: ...
