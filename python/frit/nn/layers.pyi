# Written by python/make_stubs.py from the modules themselves; not to be edited.
import builtins
import os
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])
from frit._frit import DType, DTypeLike, Size, Tensor, TensorLike
from frit.nn.optim import Optimizer
import math
from frit._frit import Tensor
__all__ = ['Bilinear', 'Conv1d', 'Conv2d', 'Conv3d', 'ConvTranspose1d', 'ConvTranspose2d', 'ConvTranspose3d', 'Dropout', 'Embedding', 'Linear', 'Sequential']
def spread(fan_in: Any, *shape: Any) -> Any: ...

class Linear:
    weight: Tensor
    bias: Tensor | None
    def __init__(self, in_features: builtins.int, out_features: builtins.int, bias: builtins.bool = ...) -> None: ...
    def __call__(self, x: TensorLike) -> Tensor: ...

class Bilinear:
    weight: Tensor
    bias: Tensor | None
    def __init__(self, in1_features: builtins.int, in2_features: builtins.int, out_features: builtins.int, bias: builtins.bool = ...) -> None: ...
    def __call__(self, x1: Tensor, x2: Tensor) -> Tensor: ...

class _Conv:
    dims: Any
    kernel_size: Any
    stride: Any
    dilation: Any
    groups: Any
    padding: Any
    weight: Tensor
    bias: Tensor | None
    def __init__(self, channels: Any, kernel_size: builtins.int | Sequence[builtins.int], stride: builtins.int | Sequence[builtins.int], padding: builtins.int | Sequence[builtins.int] | str, dilation: builtins.int | Sequence[builtins.int], groups: builtins.int) -> None: ...

class Conv2d(_Conv):
    padding: Any
    def __init__(self, in_channels: builtins.int, out_channels: builtins.int, kernel_size: builtins.int | Sequence[builtins.int], stride: builtins.int | Sequence[builtins.int] = ..., padding: builtins.int | Sequence[builtins.int] | str = ..., dilation: builtins.int | Sequence[builtins.int] = ..., groups: builtins.int = ..., bias: builtins.bool = ...) -> None: ...
    def __call__(self, x: TensorLike) -> Tensor: ...

class Conv1d(Conv2d):
    dims: Any

class Conv3d(Conv2d):
    dims: Any

class ConvTranspose2d(_Conv):
    output_padding: Any
    def __init__(self, in_channels: builtins.int, out_channels: builtins.int, kernel_size: builtins.int | Sequence[builtins.int], stride: builtins.int | Sequence[builtins.int] = ..., padding: builtins.int | Sequence[builtins.int] | str = ..., output_padding: builtins.int | Sequence[builtins.int] = ..., dilation: builtins.int | Sequence[builtins.int] = ..., groups: builtins.int = ..., bias: builtins.bool = ...) -> None: ...
    def __call__(self, x: TensorLike) -> Tensor: ...

class ConvTranspose1d(ConvTranspose2d):
    dims: Any

class ConvTranspose3d(ConvTranspose2d):
    dims: Any

class Embedding:
    weight: Tensor
    vocab_sz: Any
    embed_sz: Any
    def __init__(self, vocab_size: builtins.int, embed_size: builtins.int) -> None: ...
    def __call__(self, idx: Tensor) -> Tensor: ...

class Dropout:
    p: Any
    def __init__(self, p: builtins.float = ...) -> None: ...
    def __call__(self, x: TensorLike) -> Tensor: ...

class Sequential:
    layers: list[Any]
    def __init__(self, *layers: Any) -> None: ...
    def __call__(self, x: TensorLike) -> Tensor: ...
    def __getitem__(self, i: Any) -> Any: ...
    def __len__(self) -> builtins.int: ...
