"""Flags, counters and small things that programs around tensors use."""

import functools
import os
import time

from frit import _frit
from frit._frit import Tensor
from frit.device import Device
from frit.dtype import dtypes

__all__ = ["Context", "ContextVar", "GlobalCounters", "Timing", "colored", "fetch", "getenv", "prod", "tqdm", "trange"]

# Flags that change while a program runs, by the names people write, and the engine's.
_ENGINE = {name: f"FRIT_{name}" for name in ("DEBUG", "BEAM", "BEAM_SECONDS", "BEAM_CHECK", "SPEC", "VIZ_CANDIDATES")}
# The types of numbers that no one gave a type, and their places in default_dtypes().
_DEFAULTS = {"DEFAULT_FLOAT": 0, "DEFAULT_INT": 1}
# Flags that are read when a device is opened.
_FIXED = ("THREADS", "CPU", "ISA", "MATRIX", "CC", "CACHE", "INTERP_SEED", "GUARD", "DATA")
# Knobs of tinygrad that choose between ways to the same values: they can be set, and choose nothing here.
_WITHOUT_EFFECT = frozenset(
    "NOOPT IMAGE FLOAT16 JIT JIT_BATCH_SIZE WINO TRACEMETA NO_COLOR USE_TC TC_SELECT TC_OPT TRANSCENDENTAL NOLOCALS "
    "SPLIT_REDUCEOP NO_MEMORY_PLANNER LRU RING ALL2ALL ALLREDUCE_CAST CACHELEVEL IGNORE_BEAM_CACHE VALIDATE_WITH_CPU "
    "DISABLE_FAST_IDIV FUSE_OPTIM FUSE_ARANGE FUSE_CONV_BW MAX_BUFFER_SIZE MAX_KERNEL_BUFFERS EMULATED_DTYPES "
    "CAPTURE_PROCESS_REPLAY NUM_CPU_THREADS NULL_ALLOW_COPYOUT VIZ PARALLEL PROFILE CHECK_OOB PCONTIG "
    "DEBUG_RANGEIFY TUPLE_ORDER CCACHE ALLOW_TF32 SCACHE USE_ATOMICS DISALLOW_BROADCAST".split()
)


@functools.cache
def getenv(key, default=0):
    """A variable of the environment, as the type of the default."""
    return type(default)(os.environ.get(key, default))


def _set_default(key, value):
    """Makes a type (or its name: "half", "float32") the default of its kind."""
    dtype = _frit.dtype(value.lower() if isinstance(value, str) else value)
    if dtypes.is_float(dtype) != (key == "DEFAULT_FLOAT"):
        raise ValueError(f"{key}={value}: not of that kind")
    _frit.default_dtypes(dtype)


# The environment's wishes, checked when the module is loaded.
for _key in _DEFAULTS:
    _value = os.environ.get(f"FRIT_{_key}") or os.environ.get(_key)
    if _value:
        try:
            _set_default(_key, _value)
        except (TypeError, ValueError, RuntimeError) as e:
            raise ValueError(f"{_key}={_value}: {e}") from None


class ContextVar:
    """A flag: its ``value`` now. Compares and counts as its value does."""

    _known = {}

    def __new__(cls, key, default=0):
        if key not in cls._known:
            made = object.__new__(cls)
            made.key, made._value = key, getenv(key, default)
            cls._known[key] = made
        return cls._known[key]

    @property
    def value(self):
        """The value now; can be set."""
        if self.key in _ENGINE:
            return _frit.get_flag(_ENGINE[self.key])
        if self.key == "TRAINING":
            return int(Tensor.training)
        if self.key in ("DEVICE", "DEV"):
            return Device.DEFAULT
        if self.key in _DEFAULTS:
            return _frit.default_dtypes()[_DEFAULTS[self.key]].name
        return self._value

    @value.setter
    def value(self, v):
        if self.key in _ENGINE:
            _frit.set_flag(_ENGINE[self.key], int(v))
        elif self.key == "TRAINING":
            Tensor.training = bool(v)
        elif self.key in ("DEVICE", "DEV"):
            Device.DEFAULT = v
        elif self.key in _DEFAULTS:
            _set_default(self.key, v)
        elif self.key in _FIXED:
            raise ValueError(f"FRIT_{self.key} is read when a device is opened: set it in the environment")
        else:
            self._value = v

    def __bool__(self):
        return bool(self.value)

    def __int__(self):
        return int(self.value)

    __index__ = __int__

    def __eq__(self, o):
        return self.value == (o.value if isinstance(o, ContextVar) else o)

    def __hash__(self):
        return hash(self.key)

    def __lt__(self, o):
        return self.value < o

    def __le__(self, o):
        return self.value <= o

    def __gt__(self, o):
        return self.value > o

    def __ge__(self, o):
        return self.value >= o

    def __repr__(self):
        return f"ContextVar({self.key!r}, {self.value!r})"


DEBUG, BEAM, TRAINING = ContextVar("DEBUG"), ContextVar("BEAM"), ContextVar("TRAINING")


def _flag(name):
    """The flag of a name, with or without the prefix it has in the environment."""
    short = name.removeprefix("FRIT_")
    known = short in _ENGINE or short in _FIXED or short in _DEFAULTS or short in ("TRAINING", "DEVICE", "DEV")
    if not known and short not in _WITHOUT_EFFECT and short not in ContextVar._known:
        raise KeyError(f"there is no flag {name!r}")
    return ContextVar(short)


class Context:
    """``with Context(DEBUG=2, BEAM=4):`` sets flags, and puts them back; also a decorator.

    Every flag of the environment has its name here, with or without ``FRIT_``: DEBUG, BEAM, BEAM_SECONDS, BEAM_CHECK, SPEC,
    VIZ_CANDIDATES, DEVICE, DEFAULT_FLOAT, DEFAULT_INT; and TRAINING is ``Tensor.training``. Flags are those of the process,
    whichever thread sets them.
    """

    def __init__(self, **flags):
        self.flags, self.before = {_flag(k): v for k, v in flags.items()}, []

    def __enter__(self):
        before = [(flag, flag.value) for flag in self.flags]
        self.before.append(before)
        try:
            for flag, v in self.flags.items():
                flag.value = v
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for flag, v in reversed(self.before.pop()):
            if flag.key not in _FIXED:
                flag.value = v

    def __call__(self, f):
        @functools.wraps(f)
        def wrapped(*args, **kwargs):
            with self:
                return f(*args, **kwargs)

        return wrapped


class _Counters:
    """What the process ran since the last ``reset``."""

    def __init__(self):
        self.reset()

    def reset(self):
        """Counts from zero again."""
        self._from = _frit.totals()
        self._compiled = _frit.compiled()

    @property
    def compile_count(self):
        """Kernels compiled for this thread."""
        return _frit.compiled() - self._compiled

    @property
    def kernel_count(self):
        """Kernels launched."""
        return _frit.totals()[0] - self._from[0]

    @property
    def global_mem(self):
        """Bytes those kernels had to move at least."""
        return _frit.totals()[1] - self._from[1]

    @property
    def global_ops(self):
        """Arithmetic operations they did."""
        return _frit.totals()[2] - self._from[2]

    @property
    def mem_used(self):
        """Bytes in use on the default device."""
        return Device.memory()[0]

    @property
    def mem_used_per_device(self):
        """Bytes in use on each device that can be used here."""
        return {name: Device.memory(name)[0] for name in Device.get_available_devices()}

    def __repr__(self):
        return f"<{self.kernel_count} kernels, {self.global_ops} ops, {self.global_mem} bytes, {self.mem_used} in use>"


GlobalCounters = _Counters()


class Timing:
    """``with Timing("step: "):`` prints how long that took."""

    def __init__(self, prefix="", on_exit=None, enabled=True):
        self.prefix, self.on_exit, self.enabled = prefix, on_exit, enabled

    def __enter__(self):
        self.st = time.perf_counter_ns()
        return self

    def __exit__(self, *_):
        self.et = time.perf_counter_ns() - self.st
        if self.enabled:
            print(f"{self.prefix}{self.et * 1e-6:6.2f} ms" + (self.on_exit(self.et) if self.on_exit else ""))


_COLORS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"]


def colored(st, color=None, background=False):
    """Text in a color of the terminal; bright where the name is in capitals."""
    if color is None or os.environ.get("NO_COLOR"):
        return st
    code = 10 * background + (90 if color.upper() == color else 30) + _COLORS.index(color.lower())
    return f"\x1b[{code}m{st}\x1b[0m"


def prod(x):
    """The product of numbers or sizes; 1 of none."""
    return functools.reduce(lambda a, b: a * b, x, 1)


def fetch(url, name=None, subdir=None, gunzip=False, allow_caching=True):
    """The file at an address, as a path: downloaded once into ~/.cache/frit/downloads and kept there."""
    import gzip
    import hashlib
    import pathlib
    import tempfile
    import urllib.request

    if url.startswith(("/", ".")):
        return pathlib.Path(url)
    folder = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "frit/downloads"
    mark = hashlib.sha256(url.encode()).hexdigest()[:32] + (".gunzip" if gunzip else "")
    path = pathlib.Path(name) if name and os.path.isabs(name) else folder / (subdir or "") / (name or mark)
    if allow_caching and path.is_file() and path.stat().st_size:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with urllib.request.urlopen(url, timeout=60) as answer:
        data = answer.read()
    # whole or not at all, whoever else downloads it
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as out:
        out.write(gzip.decompress(data) if gunzip else data)
    os.replace(out.name, path)
    return path


class tqdm:
    """A loop that shows how far it is, on the terminal only."""

    def __init__(self, iterable=None, desc="", disable=False, total=None, **_):
        import sys

        self.iterable, self.desc, self.n = iterable, desc.removesuffix(": "), 0
        self.total = total if total is not None else getattr(iterable, "__len__", lambda: None)()
        self.out = None if disable or not sys.stderr.isatty() else sys.stderr
        self.started = self.shown = time.perf_counter()

    def __iter__(self):
        for x in self.iterable:
            yield x
            self.update()
        self.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def set_description(self, desc):
        """What is shown before the count."""
        self.desc = desc.removesuffix(": ")

    def update(self, n=1):
        """Goes on by n."""
        self.n += n
        if self.out and time.perf_counter() - self.shown > 0.05:
            self._show("")

    def close(self):
        """Shows the last state and ends the line."""
        if self.out:
            self._show("\n")
            self.out = None

    def _show(self, end):
        self.shown = time.perf_counter()
        rate = self.n / max(self.shown - self.started, 1e-9)
        of = f"/{self.total}" if self.total is not None else ""
        print(f"\r\x1b[K{self.desc + ': ' if self.desc else ''}{self.n}{of} {rate:.1f}/s", end=end, file=self.out, flush=True)

    @classmethod
    def write(cls, s):
        """Prints a line above."""
        print(f"\r\x1b[K{s}")


class trange(tqdm):
    """``tqdm(range(n))``."""

    def __init__(self, n, **options):
        super().__init__(range(n), **options)
