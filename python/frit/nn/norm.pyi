# Written by python/make_stubs.py from the modules themselves; not to be edited.
import builtins
import os
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])
from frit._frit import DType, DTypeLike, Size, Tensor, TensorLike
from frit.nn.optim import Optimizer
from frit import _frit
from frit._frit import Tensor
from frit.dtype import dtypes
__all__ = ['BatchNorm', 'BatchNorm1d', 'BatchNorm2d', 'BatchNorm3d', 'GroupNorm', 'InstanceNorm', 'LayerNorm', 'LayerNorm2d', 'RMSNorm']

class BatchNorm:
    weight: Tensor | None
    bias: Tensor | None
    num_batches_tracked: Tensor
    eps: Any
    track_running_stats: Any
    momentum: Any
    running_mean: Tensor
    running_var: Tensor
    def __init__(self, sz: builtins.int, eps: builtins.float = ..., affine: builtins.bool = ..., track_running_stats: builtins.bool = ..., momentum: builtins.float = ...) -> None: ...
    def calc_stats(self, x: TensorLike) -> tuple[Tensor, Tensor]: ...
    def __call__(self, x: TensorLike) -> Tensor: ...
BatchNorm1d = BatchNorm
BatchNorm2d = BatchNorm
BatchNorm3d = BatchNorm

class GroupNorm:
    weight: Tensor | None
    bias: Tensor | None
    num_groups: Any
    num_channels: Any
    eps: Any
    def __init__(self, num_groups: builtins.int, num_channels: builtins.int, eps: builtins.float = ..., affine: builtins.bool = ...) -> None: ...
    def __call__(self, x: TensorLike) -> Tensor: ...

class InstanceNorm:
    weight: Tensor | None
    bias: Tensor | None
    num_features: Any
    eps: Any
    def __init__(self, num_features: builtins.int, eps: builtins.float = ..., affine: builtins.bool = ...) -> None: ...
    def __call__(self, x: TensorLike) -> Tensor: ...

class LayerNorm:
    normalized_shape: Any
    axis: Any
    weight: Tensor | None
    bias: Tensor | None
    eps: Any
    elementwise_affine: Any
    def __init__(self, normalized_shape: builtins.int | Sequence[builtins.int], eps: builtins.float = ..., elementwise_affine: builtins.bool = ...) -> None: ...
    def __call__(self, x: TensorLike) -> Tensor: ...

class LayerNorm2d(LayerNorm):
    def __call__(self, x: TensorLike) -> Tensor: ...

class RMSNorm:
    eps: Any
    weight: Tensor | None
    def __init__(self, dim: builtins.int, eps: builtins.float = ..., elementwise_affine: builtins.bool = ...) -> None: ...
    def __call__(self, x: TensorLike) -> Tensor: ...
