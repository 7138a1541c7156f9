# Written by python/make_stubs.py from the modules themselves; not to be edited.
import builtins
import os
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])
from frit._frit import DType, DTypeLike, Size, Tensor, TensorLike
from frit.nn.optim import Optimizer
from frit.onnx.session import Session
__all__ = ['OnnxRunner']

class OnnxRunner:
    session: Any
    graph_inputs: Any
    graph_outputs: Any
    def __init__(self, model: Any) -> None: ...
    def __call__(self, inputs: Any, debug: builtins.int = ...) -> dict[str, Any]: ...
