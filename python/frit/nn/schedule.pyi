# Written by python/make_stubs.py from the modules themselves; not to be edited.
import builtins
import os
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])
from frit._frit import DType, DTypeLike, Size, Tensor, TensorLike
from frit.nn.optim import Optimizer
import math
__all__ = ['CosineAnnealingLR', 'ExponentialLR', 'LambdaLR', 'LinearLR', 'MultiStepLR', 'OneCycleLR', 'ReduceLROnPlateau', 'StepLR', 'WarmupLR']

class _Schedule:
    base: Any
    optimizer: Any
    epoch_counter: Any
    last: Any
    def __init__(self, optimizer: Optimizer, lr: builtins.float | None = ...) -> None: ...
    def get_lr(self) -> builtins.float: ...
    def step(self) -> None: ...

class LambdaLR(_Schedule):
    def __init__(self, optimizer: Optimizer, lr_lambda: Any) -> None: ...

class StepLR(_Schedule):
    step_size: Any
    gamma: Any
    def __init__(self, optimizer: Optimizer, step_size: builtins.int, gamma: builtins.float = ...) -> None: ...

class MultiStepLR(_Schedule):
    milestones: Any
    gamma: Any
    def __init__(self, optimizer: Optimizer, milestones: Any, gamma: builtins.float = ...) -> None: ...

class ExponentialLR(_Schedule):
    gamma: Any
    def __init__(self, optimizer: Optimizer, gamma: builtins.float) -> None: ...

class CosineAnnealingLR(_Schedule):
    T_max: Any
    eta_min: Any
    def __init__(self, optimizer: Optimizer, T_max: builtins.int, eta_min: builtins.float = ...) -> None: ...
    def get_lr(self) -> builtins.float: ...

class LinearLR(_Schedule):
    start_factor: Any
    end_factor: Any
    total_iters: Any
    def __init__(self, optimizer: Optimizer, start_factor: builtins.float = ..., end_factor: builtins.float = ..., total_iters: builtins.int = ...) -> None: ...

class OneCycleLR(_Schedule):
    between: Any
    final: Any
    total_steps: Any
    pct_start: Any
    max_lr: Any
    first: Any
    def __init__(self, optimizer: Optimizer, max_lr: builtins.float, total_steps: builtins.int, pct_start: builtins.float = ..., anneal_strategy: str = ..., div_factor: builtins.float = ..., final_div_factor: builtins.float = ...) -> None: ...
    def get_lr(self) -> builtins.float: ...

class WarmupLR(_Schedule):
    steps: Any
    start_factor: Any
    then: Any
    def __init__(self, optimizer: Optimizer, steps: builtins.int, start_factor: builtins.float = ..., then: Any = ...) -> None: ...
    def step(self) -> None: ...

class ReduceLROnPlateau:
    optimizer: Any
    mode: Any
    factor: Any
    patience: Any
    threshold: Any
    relative: Any
    cooldown: Any
    min_lr: Any
    best: Any
    bad: Any
    cooling: Any
    lr: builtins.float
    def __init__(self, optimizer: Optimizer, mode: str = ..., factor: builtins.float = ..., patience: builtins.int = ..., threshold: builtins.float = ..., threshold_mode: str = ..., cooldown: builtins.int = ..., min_lr: builtins.float = ...) -> None: ...
    def step(self, current: Any) -> None: ...
