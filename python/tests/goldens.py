"""Reader of tests-data/goldens/*.bin: what torch computed, with gradients. writer.py there says what the files hold."""

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from frit import Tensor, dtypes

FOLDER = Path(__file__).parents[2] / "tests-data" / "goldens"
# the number of a type in a file: how numpy reads it, what frit calls it
TYPES = {
    0: ("?", dtypes.bool), 1: ("i1", dtypes.int8), 2: ("u1", dtypes.uint8), 3: ("<i4", dtypes.int32),
    4: ("<f4", dtypes.float32), 5: ("<i2", dtypes.int16), 6: ("<u2", dtypes.uint16), 7: ("<u4", dtypes.uint32),
    8: ("<i8", dtypes.int64), 9: ("<f2", dtypes.float16), 10: ("<u2", dtypes.bfloat16), 11: ("<f8", dtypes.float64),
}  # fmt: skip


@dataclass
class Stored:
    """A tensor of a file."""

    name: str
    kind: int
    array: np.ndarray

    def tensor(self):
        """As a tensor of its type."""
        t = Tensor(self.array)
        return t.bitcast(dtypes.bfloat16) if self.kind == 10 else t

    def values(self):
        """As numbers of float64."""
        if self.kind == 10:
            return (self.array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        return self.array.astype(np.float64)


@dataclass
class Case:
    """One op applied once."""

    name: str
    op: str
    params: dict
    inputs: list
    outputs: list
    weights: list
    grads: list

    def ints(self, key, default=()):
        """A list of integers."""
        return [int(v) for v in self.params[key].split(",") if v] if key in self.params else list(default)

    def int(self, key, default=None):
        """An integer."""
        return int(self.params[key]) if key in self.params else default

    def floats(self, key):
        """A list of numbers."""
        return [float(v) for v in self.params[key].split(",")]

    def float(self, key, default=None):
        """A number."""
        return float(self.params[key]) if key in self.params else default

    def flag(self, key):
        """Whether it is said."""
        return self.params.get(key) == "true"

    def bound(self, key):
        """An end of a slice."""
        return None if self.params.get(key, "none") == "none" else int(self.params[key])

    def view(self, stored, t):
        """An input as the op sees it."""
        for step in filter(None, self.params.get(f"pre.{stored.name}", "").split(";")):
            what, _, numbers = step.partition(":")
            n = [int(v) for v in numbers.split(",") if v]
            if what == "slice":
                t = t[(slice(None),) * n[0] + (slice(*n[1:]),)]
            else:
                t = getattr(t, what)(n)
        return t


class _Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        self.at += n
        return self.data[self.at - n : self.at]

    def u32(self):
        return struct.unpack("<I", self.take(4))[0]

    def text(self):
        return self.take(self.u32()).decode()

    def list(self, item):
        return [item() for _ in range(self.u32())]

    def stored(self):
        name, kind = self.text(), self.take(1)[0]
        dims = self.list(self.u32)
        dtype = np.dtype(TYPES[kind][0])
        count = int(np.prod(dims, dtype=np.int64))
        return Stored(name, kind, np.frombuffer(self.take(count * dtype.itemsize), dtype).reshape(dims))

    def case(self):
        name, op = self.text(), self.text()
        params = dict(p.split("=", 1) for p in self.list(self.text))
        return Case(name, op, params, *[self.list(self.stored) for _ in range(4)])


def cases(family):
    """The cases of a family, in the order of its file."""
    reader = _Reader((FOLDER / f"{family}.bin").read_bytes())
    assert reader.take(8) == b"FRITGOLD" and reader.u32() == 1
    return reader.list(reader.case)
