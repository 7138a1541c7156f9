# Written by python/make_stubs.py from the modules themselves; not to be edited.
import builtins
import os
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])
from frit._frit import DType, DTypeLike, Size, Tensor, TensorLike
import math
from frit import _frit
from frit._frit import Tensor
from frit.dtype import dtypes
__all__ = ['Adagrad', 'Adam', 'AdamW', 'LAMB', 'LARS', 'Lion', 'Muon', 'Optimizer', 'OptimizerGroup', 'RMSprop', 'SGD', 'clip_grad_norm_', 'clip_grad_value_']

class Optimizer:
    params: list[Tensor]
    buffers: list[Tensor]
    lr: Tensor
    device: Any
    fused: Any
    def __init__(self, params: Iterable[Tensor] | Tensor, lr: builtins.float, device: str | None = ..., fused: builtins.bool = ...) -> None: ...
    def zero_grad(self) -> None: ...
    def step(self) -> None: ...
    def schedule_step(self) -> list[Tensor]: ...

class OptimizerGroup(Optimizer):
    optimizers: tuple[Optimizer, ...]
    params: list[Tensor]
    buffers: list[Tensor]
    def __init__(self, *optimizers: Any) -> None: ...
    def __getitem__(self, i: Any) -> Optimizer: ...
    def schedule_step(self) -> list[Tensor]: ...

class SGD(Optimizer):
    b: list[Tensor]
    momentum: Any
    wd: Any
    nesterov: Any
    classic: Any
    def __init__(self, params: Iterable[Tensor] | Tensor, lr: builtins.float = ..., momentum: builtins.float = ..., weight_decay: builtins.float = ..., nesterov: builtins.bool = ..., classic: builtins.bool = ..., device: str | None = ..., fused: builtins.bool = ...) -> None: ...

class LARS(SGD):
    tcoef: Any
    pre_wd: Any
    def __init__(self, params: Iterable[Tensor] | Tensor, lr: builtins.float = ..., momentum: builtins.float = ..., weight_decay: builtins.float = ..., ns_steps: builtins.int = ..., ns_coefficients: tuple[builtins.float, builtins.float, builtins.float] | None = ..., nesterov: builtins.bool = ..., classic: builtins.bool = ..., pre_wd: builtins.bool = ..., tcoef: builtins.float = ..., device: str | None = ..., fused: builtins.bool = ...) -> None: ...

class Muon(Optimizer):
    b: list[Tensor]
    momentum: Any
    wd: Any
    nesterov: Any
    ns_steps: Any
    ns_coefficients: Any
    def __init__(self, params: Iterable[Tensor] | Tensor, lr: builtins.float = ..., momentum: builtins.float = ..., weight_decay: builtins.float = ..., ns_steps: builtins.int = ..., ns_coefficients: tuple[builtins.float, builtins.float, builtins.float] = ..., nesterov: builtins.bool = ..., device: str | None = ..., fused: builtins.bool = ...) -> None: ...

class _Moments(Optimizer):
    t: Tensor
    b1: Any
    b2: Any
    eps: Any
    wd: Any
    m: list[Tensor]
    v: list[Tensor]
    def __init__(self, params: Iterable[Tensor] | Tensor, lr: builtins.float, b1: builtins.float, b2: builtins.float, eps: builtins.float, weight_decay: builtins.float, betas: tuple[builtins.float, builtins.float] | None, device: str | None, fused: builtins.bool) -> None: ...
    @property
    def b1_t(self) -> Any: ...
    @property
    def b2_t(self) -> Any: ...

class Adam(_Moments):
    def __init__(self, params: Iterable[Tensor] | Tensor, lr: builtins.float = ..., b1: builtins.float = ..., b2: builtins.float = ..., eps: builtins.float = ..., device: str | None = ..., fused: builtins.bool = ..., *, betas: tuple[builtins.float, builtins.float] | None = ..., weight_decay: builtins.float = ...) -> None: ...

class AdamW(_Moments):
    def __init__(self, params: Iterable[Tensor] | Tensor, lr: builtins.float = ..., b1: builtins.float = ..., b2: builtins.float = ..., eps: builtins.float = ..., weight_decay: builtins.float = ..., device: str | None = ..., fused: builtins.bool = ..., *, betas: tuple[builtins.float, builtins.float] | None = ...) -> None: ...

class LAMB(_Moments):
    adam: Any
    def __init__(self, params: Iterable[Tensor] | Tensor, lr: builtins.float = ..., b1: builtins.float = ..., b2: builtins.float = ..., eps: builtins.float = ..., weight_decay: builtins.float = ..., adam: builtins.bool = ..., device: str | None = ..., fused: builtins.bool = ..., *, betas: tuple[builtins.float, builtins.float] | None = ...) -> None: ...

class Lion(Optimizer):
    b1: Any
    b2: Any
    wd: Any
    m: list[Tensor]
    def __init__(self, params: Iterable[Tensor] | Tensor, lr: builtins.float = ..., b1: builtins.float = ..., b2: builtins.float = ..., weight_decay: builtins.float = ..., device: str | None = ..., fused: builtins.bool = ..., *, betas: tuple[builtins.float, builtins.float] | None = ...) -> None: ...

class RMSprop(Optimizer):
    v: list[Tensor]
    mean: Any
    b: list[Tensor]
    alpha: Any
    eps: Any
    wd: Any
    momentum: Any
    def __init__(self, params: Iterable[Tensor] | Tensor, lr: builtins.float = ..., alpha: builtins.float = ..., eps: builtins.float = ..., weight_decay: builtins.float = ..., momentum: builtins.float = ..., centered: builtins.bool = ..., device: str | None = ..., fused: builtins.bool = ...) -> None: ...

class Adagrad(Optimizer):
    lr_decay: Any
    wd: Any
    eps: Any
    t: Tensor
    v: list[Tensor]
    def __init__(self, params: Iterable[Tensor] | Tensor, lr: builtins.float = ..., lr_decay: builtins.float = ..., weight_decay: builtins.float = ..., initial_accumulator_value: builtins.float = ..., eps: builtins.float = ..., device: str | None = ..., fused: builtins.bool = ...) -> None: ...
def clip_grad_norm_(params: Iterable[Tensor] | Tensor, max_norm: float, norm_type: float = ...) -> Tensor: ...
def clip_grad_value_(params: Iterable[Tensor] | Tensor, clip_value: float) -> None: ...
