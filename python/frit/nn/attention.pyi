# Written by python/make_stubs.py from the modules themselves; not to be edited.
import builtins
import os
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])
from frit._frit import DType, DTypeLike, Size, Tensor, TensorLike
from frit.nn.optim import Optimizer
from frit._frit import Tensor
from frit.nn.layers import Dropout, Linear
from frit.nn.norm import LayerNorm
__all__ = ['MultiheadAttention', 'TransformerDecoderLayer', 'TransformerEncoderLayer']

class MultiheadAttention:
    q_proj: Any
    k_proj: Any
    v_proj: Any
    out_proj: Any
    num_heads: Any
    dropout: Any
    batch_first: Any
    def __init__(self, embed_dim: builtins.int, num_heads: builtins.int, dropout: builtins.float = ..., bias: builtins.bool = ..., kdim: builtins.int | None = ..., vdim: builtins.int | None = ..., batch_first: builtins.bool = ...) -> None: ...
    def __call__(self, query: Tensor, key: Tensor | None = ..., value: Any = ..., attn_mask: Tensor | None = ..., is_causal: builtins.bool = ...) -> Tensor: ...

class _Layer:
    self_attn: Any
    activation: Any
    linear1: Any
    linear2: Any
    norm1: Any
    norm2: Any
    drop: Any
    norm_first: Any
    def __init__(self, d_model: builtins.int, nhead: builtins.int, dim_feedforward: builtins.int = ..., dropout: builtins.float = ..., activation: str = ..., layer_norm_eps: builtins.float = ..., batch_first: builtins.bool = ..., norm_first: builtins.bool = ...) -> None: ...

class TransformerEncoderLayer(_Layer):
    def __call__(self, src: Tensor, src_mask: Tensor | None = ..., is_causal: builtins.bool = ...) -> Tensor: ...

class TransformerDecoderLayer(_Layer):
    multihead_attn: Any
    norm3: Any
    def __init__(self, d_model: builtins.int, nhead: builtins.int, dim_feedforward: builtins.int = ..., dropout: builtins.float = ..., activation: str = ..., layer_norm_eps: builtins.float = ..., batch_first: builtins.bool = ..., norm_first: builtins.bool = ...) -> None: ...
    def __call__(self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = ..., memory_mask: Tensor | None = ..., tgt_is_causal: builtins.bool = ...) -> Tensor: ...
