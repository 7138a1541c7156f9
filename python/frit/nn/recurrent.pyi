# Written by python/make_stubs.py from the modules themselves; not to be edited.
import builtins
import os
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])
from frit._frit import DType, DTypeLike, Size, Tensor, TensorLike
from frit.nn.optim import Optimizer
from frit._frit import Tensor
from frit.nn.layers import spread
__all__ = ['GRU', 'GRUCell', 'LSTM', 'LSTMCell', 'RNN', 'RNNCell']

class _Cell:
    gates: Any
    hidden_size: Any
    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None
    def __init__(self, input_size: builtins.int, hidden_size: builtins.int, bias: builtins.bool = ...) -> None: ...

class LSTMCell(_Cell):
    gates: Any
    def __call__(self, x: TensorLike, hc: Tensor | None = ...) -> tuple[Tensor, Tensor]: ...

class GRUCell(_Cell):
    gates: Any
    def __call__(self, x: TensorLike, h: Tensor | None = ...) -> Tensor: ...

class RNNCell(_Cell):
    nonlinearity: Any
    def __init__(self, input_size: builtins.int, hidden_size: builtins.int, bias: builtins.bool = ..., nonlinearity: str = ...) -> None: ...
    def __call__(self, x: TensorLike, h: Tensor | None = ...) -> Tensor: ...

class _Stack:
    cell: Any
    cells: Any
    batch_first: Any
    dropout: Any
    ways: Any
    def __init__(self, input_size: builtins.int, hidden_size: builtins.int, num_layers: builtins.int = ..., bias: builtins.bool = ..., batch_first: builtins.bool = ..., dropout: builtins.float = ..., bidirectional: builtins.bool = ..., **of_cell: Any) -> None: ...
    def __call__(self, x: TensorLike, state: Tensor | None = ...) -> tuple[Tensor, Any]: ...

class RNN(_Stack):
    def __init__(self, input_size: builtins.int, hidden_size: builtins.int, num_layers: builtins.int = ..., nonlinearity: str = ..., **options: Any) -> None: ...

class GRU(_Stack):
    cell: Any

class LSTM(_Stack):
    cell: Any
