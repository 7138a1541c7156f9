# Written by python/make_stubs.py from the modules themselves; not to be edited.
import builtins
import os
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])
from frit._frit import DType, DTypeLike, Size, Tensor, TensorLike
from frit import _frit
from frit._frit import DType
__all__ = ['DType', 'dtypes']

class _DTypes:
    bool: DType
    bool_: DType
    int8: DType
    char: DType
    int16: DType
    short: DType
    int32: DType
    int: DType
    int64: DType
    long: DType
    uint8: DType
    uchar: DType
    uint16: DType
    ushort: DType
    uint32: DType
    uint: DType
    uint64: DType
    ulong: DType
    float16: DType
    half: DType
    bfloat16: DType
    float32: DType
    float: DType
    float64: DType
    double: DType
    fp8e4m3: DType
    float8_e4m3: DType
    float8_e4m3fn: DType
    fp8e5m2: DType
    float8_e5m2: DType
    fp8e4m3fnuz: DType
    fp8e5m2fnuz: DType
    fp8_ocp: tuple[DType, ...]
    fp8_fnuz: tuple[DType, ...]
    fp8s: tuple[DType, ...]
    floats: tuple[DType, ...]
    int8s: tuple[DType, ...]
    int16s: tuple[DType, ...]
    int32s: tuple[DType, ...]
    int64s: tuple[DType, ...]
    uints: tuple[DType, ...]
    sints: tuple[DType, ...]
    ints: tuple[DType, ...]
    all: tuple[DType, ...]
    @property
    def default_float(self) -> DType: ...
    @default_float.setter
    def default_float(self, dtype: DTypeLike) -> None: ...
    @property
    def default_int(self) -> DType: ...
    @default_int.setter
    def default_int(self, dtype: DTypeLike) -> None: ...
    def is_float(self, x: TensorLike) -> builtins.bool: ...
    def is_int(self, x: TensorLike) -> builtins.bool: ...
    def is_unsigned(self, x: TensorLike) -> builtins.bool: ...
    def is_bool(self, x: TensorLike) -> builtins.bool: ...
    def min(self, dtype: DTypeLike) -> Any: ...
    def max(self, dtype: DTypeLike) -> Any: ...
    def finfo(self, dtype: DTypeLike) -> tuple[builtins.int, builtins.int]: ...
    def iinfo(self, dtype: DTypeLike) -> tuple[builtins.int, builtins.int]: ...
    def from_py(self, x: TensorLike) -> DType: ...
    def fields(self) -> dict[str, DType]: ...
dtypes: _DTypes
