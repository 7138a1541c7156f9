"""What of ``Tensor`` is written in Python: contexts that say whether the program trains, and in which type it multiplies."""

from frit._frit import Tensor, set_factors

__all__ = ["Tensor", "autocast"]


class autocast:
    """Mixed precision: ``with frit.autocast(dtypes.bfloat16):`` has products and convolutions of float32 computed on factors of
    that type, with sums in float32. Weights and their gradients stay float32.

    >>> from frit import Tensor, autocast, dtypes
    >>> with autocast(dtypes.bfloat16):
    ...     y = Tensor.ones(2, 3) @ Tensor.ones(3, 4)
    >>> y.dtype == dtypes.bfloat16, (Tensor.ones(2, 3) @ Tensor.ones(3, 4)).dtype == dtypes.float32
    (True, True)
    """

    def __init__(self, dtype):
        self.dtype = dtype

    def __enter__(self):
        self.before = set_factors(self.dtype)
        return self

    def __exit__(self, *_):
        set_factors(self.before)


class _Train:
    """``with Tensor.train():`` makes dropout and batch norms behave as in training; also a decorator."""

    def __init__(self, mode=True):
        self.mode = mode

    def __enter__(self):
        self.before = Tensor.training
        Tensor.training = self.mode

    def __exit__(self, *_):
        Tensor.training = self.before

    def __call__(self, f):
        from functools import wraps

        @wraps(f)
        def wrapped(*args, **kwargs):
            with _Train(self.mode):
                return f(*args, **kwargs)

        return wrapped


class _Nothing(_Train):
    """Where other libraries switch gradients off. Here they cost nothing unless asked for."""

    def __enter__(self):
        pass

    def __exit__(self, *_):
        pass


Tensor.train = _Train
Tensor.test = _Nothing
Tensor.inference_mode = _Nothing
Tensor.no_grad = False


def _in_a_list(join):
    """Tensors one by one, ``Tensor.cat(a, b)``, or in a list as torch takes them, ``Tensor.cat([a, b], 1)``."""

    def joined(self, *args, dim=0):
        if isinstance(self, (list, tuple)):
            if args and isinstance(args[-1], int):
                *args, dim = args
            self, *args = (*self, *args)
        return join(self, *args, dim=dim)

    joined.__name__, joined.__qualname__, joined.__doc__ = join.__name__, join.__qualname__, join.__doc__
    return joined


Tensor.cat, Tensor.stack = _in_a_list(Tensor.cat), _in_a_list(Tensor.stack)
Tensor.concat = Tensor.concatenate = Tensor.cat


def _from_url(url, gunzip=False, **kwargs):
    """The bytes at an address (or of a file), as a vector of uint8."""
    import gzip
    import urllib.request

    with urllib.request.urlopen(url) as answer:
        data = answer.read()
    return Tensor(gzip.decompress(data) if gunzip else data, **kwargs)


Tensor.from_url = staticmethod(_from_url)


def _shard(self, devices, axis=None):
    """Spreads a tensor over several devices: not there yet."""
    raise NotImplementedError("shard: a tensor lives on one device; spreading it over several is not there yet")


def _custom_kernel(self, *lst, fxn, grad_fxn=None):
    """Runs a kernel of your own: not there yet."""
    raise NotImplementedError("custom_kernel: kernels written by hand are not there yet")


def _hash(self):
    """The hash of a tensor's bytes by tinygrad's own rule: not there."""
    raise NotImplementedError("hash: use keccak() or blake3(), which are what other programs compute too")


Tensor.shard = Tensor.shard_ = Tensor.shard_like = _shard
Tensor.custom_kernel = _custom_kernel
Tensor.hash = _hash
