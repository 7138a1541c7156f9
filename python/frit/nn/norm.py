"""Layers that bring values to mean 0 and variance 1."""

from frit import _frit
from frit._frit import Tensor
from frit.dtype import dtypes

__all__ = [
    "BatchNorm",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "GroupNorm",
    "InstanceNorm",
    "LayerNorm",
    "LayerNorm2d",
    "RMSNorm",
]


class BatchNorm:
    """Normalises each channel over the batch, and follows its mean and variance for use after training.

    (N, sz, ..) -> the same. While training (``Tensor.train()``) the statistics are those of the batch, else those that
    were followed.
    """

    def __init__(self, sz, eps=1e-5, affine=True, track_running_stats=True, momentum=0.1):
        self.eps, self.track_running_stats, self.momentum = eps, track_running_stats, momentum
        self.weight = Tensor.ones(sz) if affine else None
        self.bias = Tensor.zeros(sz) if affine else None
        self.num_batches_tracked = Tensor.zeros(dtype=dtypes.long).contiguous().is_param_(False)
        if track_running_stats:
            self.running_mean = Tensor.zeros(sz).contiguous().is_param_(False)
            self.running_var = Tensor.ones(sz).contiguous().is_param_(False)

    def calc_stats(self, x):
        """Mean and variance to normalise by, each (sz,)."""
        if self.track_running_stats and not _frit.training():
            return self.running_mean, self.running_var
        axes = tuple(i for i in range(x.ndim) if i != 1)
        var, mean = x.var_mean(axes, correction=0)
        return mean, var

    def _follow(self, x, mean, var):
        n = x.numel() / x.shape[1]
        unbiased = var.detach() * (n / max(n - 1, 1))
        for held, new in ((self.running_mean, mean.detach()), (self.running_var, unbiased)):
            held.assign(held + (new.cast(held.dtype) - held) * self.momentum)
        self.num_batches_tracked += 1

    def __call__(self, x):
        mean, var = self.calc_stats(x)
        if self.track_running_stats and _frit.training():
            self._follow(x, mean, var)
        return x.batchnorm(self.weight, self.bias, mean, (var + self.eps).rsqrt())


BatchNorm1d = BatchNorm2d = BatchNorm3d = BatchNorm


class GroupNorm:
    """Normalises each sample over the channels of a group: (N, num_channels, ..) -> the same."""

    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True):
        if num_groups < 1 or num_channels % num_groups:
            raise ValueError(f"{num_channels} channels in {num_groups} groups")
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = Tensor.ones(num_channels) if affine else None
        self.bias = Tensor.zeros(num_channels) if affine else None

    def __call__(self, x):
        return x.groupnorm(self.num_groups, self.weight, self.bias, self.eps)


class InstanceNorm:
    """Normalises each channel of each sample: (N, num_features, ..) -> the same."""

    def __init__(self, num_features, eps=1e-5, affine=True):
        self.num_features, self.eps = num_features, eps
        self.weight = Tensor.ones(num_features) if affine else None
        self.bias = Tensor.zeros(num_features) if affine else None

    def __call__(self, x):
        return x.instancenorm(self.weight, self.bias, self.eps)


class LayerNorm:
    """Normalises over the last dims, which are ``normalized_shape``."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True):
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.axis = tuple(-1 - i for i in range(len(self.normalized_shape)))
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.weight = Tensor.ones(*self.normalized_shape) if elementwise_affine else None
        self.bias = Tensor.zeros(*self.normalized_shape) if elementwise_affine else None

    def _check(self, last):
        if tuple(last) != self.normalized_shape:
            raise RuntimeError(f"layernorm: last dims {tuple(last)} must be {self.normalized_shape}")

    def __call__(self, x):
        self._check(x.shape[-len(self.normalized_shape) :])
        return x.layernorm(self.axis, self.eps, self.weight, self.bias)


class LayerNorm2d(LayerNorm):
    """Normalises over the channels at each place of an image: (N, C, rows, columns) -> the same."""

    def __call__(self, x):
        return super().__call__(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class RMSNorm:
    """Divides by the root of the mean square over the last dim, computed in float32."""

    def __init__(self, dim, eps=1e-6, elementwise_affine=True):
        self.eps = eps
        self.weight = Tensor.ones(dim) if elementwise_affine else None

    def __call__(self, x):
        y = x.float().rmsnorm(-1, self.eps).cast(x.dtype)
        return y if self.weight is None else y * self.weight
