"""Attention and the layers made of it. Names of weights are torch's."""

from frit._frit import Tensor
from frit.nn.layers import Dropout, Linear
from frit.nn.norm import LayerNorm

__all__ = ["MultiheadAttention", "TransformerDecoderLayer", "TransformerEncoderLayer"]


class MultiheadAttention:
    """Several attentions side by side: queries (N, L, embed_dim), keys and values (N, S, ..) -> (N, L, embed_dim).

    ``batch_first=False`` has the sequence before the batch, as torch has it by default.
    """

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, kdim=None, vdim=None, batch_first=True):
        if num_heads < 1 or embed_dim % num_heads:
            raise ValueError(f"{num_heads} heads of {embed_dim} features")
        self.num_heads, self.dropout, self.batch_first = num_heads, dropout, batch_first
        self.q_proj = Linear(embed_dim, embed_dim, bias)
        self.k_proj = Linear(kdim or embed_dim, embed_dim, bias)
        self.v_proj = Linear(vdim or embed_dim, embed_dim, bias)
        self.out_proj = Linear(embed_dim, embed_dim, bias)

    def __call__(self, query, key=None, value=None, attn_mask=None, is_causal=False):
        key = query if key is None else key
        value = key if value is None else value
        if not self.batch_first:
            query, key, value = (t.transpose(0, 1) for t in (query, key, value))
        q, k, v = (
            f(t).reshape(t.shape[0], t.shape[1], self.num_heads, -1).transpose(1, 2)
            for f, t in ((self.q_proj, query), (self.k_proj, key), (self.v_proj, value))
        )
        y = q.scaled_dot_product_attention(k, v, attn_mask, self.dropout, is_causal)
        y = self.out_proj(y.transpose(1, 2).reshape(query.shape[0], query.shape[1], -1))
        return y if self.batch_first else y.transpose(0, 1)


class _Layer:
    """What encoder and decoder layers share: attention to itself, then two linear layers."""

    def __init__(
        self,
        d_model,
        nhead,
        dim_feedforward=2048,
        dropout=0.1,
        activation="relu",
        layer_norm_eps=1e-5,
        batch_first=True,
        norm_first=False,
    ):
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, batch_first=batch_first)
        self.linear1, self.linear2 = Linear(d_model, dim_feedforward), Linear(dim_feedforward, d_model)
        self.norm1, self.norm2 = LayerNorm(d_model, layer_norm_eps), LayerNorm(d_model, layer_norm_eps)
        self.drop, self.norm_first = Dropout(dropout), norm_first
        self.activation = getattr(Tensor, activation) if isinstance(activation, str) else activation

    def _add(self, x, norm, f):
        """x and what f makes of it, normalised before or after."""
        return x + self.drop(f(norm(x))) if self.norm_first else norm(x + self.drop(f(x)))

    def _feed(self, x):
        return self.linear2(self.drop(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Self-attention and two linear layers: (N, L, d_model) -> the same."""

    def __call__(self, src, src_mask=None, is_causal=False):
        x = self._add(src, self.norm1, lambda t: self.self_attn(t, attn_mask=src_mask, is_causal=is_causal))
        return self._add(x, self.norm2, self._feed)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to ``memory``, two linear layers: (N, L, d_model), (N, S, d_model) -> the first."""

    def __init__(
        self,
        d_model,
        nhead,
        dim_feedforward=2048,
        dropout=0.1,
        activation="relu",
        layer_norm_eps=1e-5,
        batch_first=True,
        norm_first=False,
    ):
        super().__init__(d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, batch_first=batch_first)
        self.norm3 = LayerNorm(d_model, layer_norm_eps)

    def __call__(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_is_causal=False):
        x = self._add(tgt, self.norm1, lambda t: self.self_attn(t, attn_mask=tgt_mask, is_causal=tgt_is_causal))
        x = self._add(x, self.norm2, lambda t: self.multihead_attn(t, memory, attn_mask=memory_mask))
        return self._add(x, self.norm3, self._feed)
