"""Layers that multiply by weights: linear, convolutions, embedding; and the plumbing around them."""

import math

from frit._frit import Tensor

__all__ = [
    "Bilinear",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Dropout",
    "Embedding",
    "Linear",
    "Sequential",
]


def spread(fan_in, *shape):
    """Weights drawn evenly from between -1 and 1 over the root of how many values each output sums."""
    bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0.0
    return Tensor.uniform(*shape, low=-bound, high=bound)


class Linear:
    """``x @ weight.T + bias``: (.., in_features) -> (.., out_features)."""

    def __init__(self, in_features, out_features, bias=True):
        self.weight = spread(in_features, out_features, in_features)
        self.bias = spread(in_features, out_features) if bias else None

    def __call__(self, x):
        return x.linear(self.weight.transpose(), self.bias)


class Bilinear:
    """``x1 weight[o] x2 + bias[o]`` for each output o: (.., in1), (.., in2) -> (.., out)."""

    def __init__(self, in1_features, in2_features, out_features, bias=True):
        self.weight = spread(in1_features, out_features, in1_features, in2_features)
        self.bias = spread(in1_features, out_features) if bias else None

    def __call__(self, x1, x2):
        y = Tensor.einsum("...i,oij,...j->...o", x1, self.weight, x2)
        return y if self.bias is None else y + self.bias


class _Conv:
    """What convolutions share. ``dims`` is how many a plain number as kernel size stands for."""

    dims = 2

    def __init__(self, channels, kernel_size, stride, padding, dilation, groups):
        if groups < 1 or any(c % groups for c in channels):
            raise ValueError(f"{channels[0]} channels in and {channels[1]} out, in {groups} groups")
        self.kernel_size = (kernel_size,) * self.dims if isinstance(kernel_size, int) else tuple(kernel_size)
        self.stride, self.dilation, self.groups, self.padding = stride, dilation, groups, padding

    def _draw(self, out_channels, bias, *channels):
        """Weights and bias; each output sums over the second of the channels and the window."""
        fan_in = channels[1] * math.prod(self.kernel_size)
        self.weight = spread(fan_in, *channels, *self.kernel_size)
        self.bias = spread(fan_in, out_channels) if bias else None


class Conv2d(_Conv):
    """Convolution of images: (N, in_channels, rows, columns) -> (N, out_channels, rows, columns).

    ``padding`` is a number, one for each dim, or "same" or "valid". ``kernel_size`` may have any number of dims.
    """

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True):
        super().__init__((in_channels, out_channels), kernel_size, stride, padding, dilation, groups)
        if isinstance(padding, str):
            self.padding = self._padding(padding.lower())
        self._draw(out_channels, bias, out_channels, in_channels // groups)

    def _padding(self, word):
        if word == "valid":
            return 0
        if word != "same":
            raise ValueError(f"padding {word!r}: expected a number, 'same' or 'valid'")
        each = lambda v: (v,) * len(self.kernel_size) if isinstance(v, int) else tuple(v)
        if any(s != 1 for s in each(self.stride)):
            raise ValueError("padding 'same' needs a stride of 1")
        total = [d * (k - 1) for d, k in zip(each(self.dilation), self.kernel_size)]
        # from the last dim on, before and after it
        return [p for t in reversed(total) for p in (t // 2, t - t // 2)]

    def __call__(self, x):
        return x.conv2d(self.weight, self.bias, self.groups, self.stride, self.dilation, self.padding)


class Conv1d(Conv2d):
    """Convolution of sequences: (N, in_channels, length) -> (N, out_channels, length)."""

    dims = 1


class Conv3d(Conv2d):
    """Convolution of volumes: (N, in_channels, depth, rows, columns) -> the same with out_channels."""

    dims = 3


class ConvTranspose2d(_Conv):
    """The convolution that is the gradient of one: (N, in_channels, rows, columns) -> a larger image."""

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride=1,
        padding=0,
        output_padding=0,
        dilation=1,
        groups=1,
        bias=True,
    ):
        if isinstance(padding, str):
            raise ValueError(f"padding {padding!r}: expected numbers")
        super().__init__((in_channels, out_channels), kernel_size, stride, padding, dilation, groups)
        self.output_padding = output_padding
        self._draw(out_channels, bias, in_channels, out_channels // groups)

    def __call__(self, x):
        return x.conv_transpose2d(
            self.weight, self.bias, self.groups, self.stride, self.dilation, self.padding, self.output_padding
        )


class ConvTranspose1d(ConvTranspose2d):
    """The same for sequences."""

    dims = 1


class ConvTranspose3d(ConvTranspose2d):
    """The same for volumes."""

    dims = 3


class Embedding:
    """A row of ``weight`` for each index: (..) -> (.., embed_size)."""

    def __init__(self, vocab_size, embed_size):
        self.vocab_sz, self.embed_sz = vocab_size, embed_size
        self.weight = Tensor.glorot_uniform(vocab_size, embed_size)

    def __call__(self, idx):
        return self.weight.embedding(idx)


class Dropout:
    """Sets elements to zero with probability p while training, and scales the others up."""

    def __init__(self, p=0.5):
        self.p = p

    def __call__(self, x):
        return x.dropout(self.p)


class Sequential:
    """One layer, or any function, after the other."""

    def __init__(self, *layers):
        self.layers = list(layers[0]) if len(layers) == 1 and isinstance(layers[0], (list, tuple)) else list(layers)

    def __call__(self, x):
        return x.sequential(self.layers)

    def __getitem__(self, i):
        return self.layers[i]

    def __len__(self):
        return len(self.layers)
