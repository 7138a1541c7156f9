# Written by python/make_stubs.py from the modules themselves; not to be edited.
import builtins
import os
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])
from frit._frit import DType, DTypeLike, Size, Tensor, TensorLike
from frit._frit import begin_recording, close_span, end_recording, open_span

class Viz:
    path: Any
    def __init__(self, path: Any) -> None: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, *raised: Any) -> None: ...

class span:
    name: Any
    def __init__(self, name: str) -> None: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, *raised: Any) -> None: ...
