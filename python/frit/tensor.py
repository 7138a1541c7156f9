"""What of ``Tensor`` is written in Python: contexts that say whether the program trains."""

from frit._frit import Tensor

__all__ = ["Tensor"]


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



def _from_url(url, gunzip=False, **kwargs):
    """The bytes at an address (or of a file), as a vector of uint8."""
    import gzip
    import urllib.request

    with urllib.request.urlopen(url) as answer:
        data = answer.read()
    return Tensor(gzip.decompress(data) if gunzip else data, **kwargs)


Tensor.from_url = staticmethod(_from_url)
