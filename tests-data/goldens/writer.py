"""Golden files: what torch computes for every op, with gradients. Each FAMILY.py next to this file writes FAMILY.bin.

Needs: numpy, torch (CPU is enough).      Run: python3 FAMILY.py      Seconds.

A family fills OPS (what each op means, and which parameters it reads), records cases with `case`, and ends with
`write(__file__)`. The same name is then a row of FAMILIES in crates/reference/src/goldens.rs, and of the table in
crates/frit/tests/suite/goldens.rs, with the op spelled as methods of `Tensor` in crates/frit/tests/suite/ops/FAMILY.rs.

The values are torch's in float32. Each case draws its numbers from a generator seeded by its own name, so adding
a case changes no other. Random floats avoid ties and kinks; by the start of a variant's name,

    special  NaN, infinities, ties, signed zeros: values only
    kink     points where the gradient is a choice; torch's is recorded
    extreme  huge finite inputs, with gradients, none of which is NaN
    sweep    many values of a unary function, no gradient

The parameter `exact=True` asks for equal results instead of near ones: for ops that only move elements.

FILE, little-endian, no padding; str = u32 length, UTF-8 bytes; list of T = u32 count, then the Ts.

    file    "FRITGOLD", u32 version = 1, list of case
    case    str name ("op/variant", unique), str op, list of str params ("key=value"),
            list of tensor inputs, outputs, weights, grads
    tensor  str name, u8 dtype, list of u32 dims, data row-major
    dtype   0 bool (a byte), 1 int8, 2 uint8, 3 int32, 4 float32, 5 int16, 6 uint16, 7 uint32, 8 int64, 9 float16,
            10 bfloat16, 11 float64

Inputs are named x0, x1, ..; outputs and weights out0, ..; a gradient has the name of its input. `weights` and
`grads` are both empty where no gradient is recorded; otherwise there is one weight per output (that of an integer
output counts for nothing), and `grads` has
d sum(out * weight) / d input for every float input. An input may have a recipe, the parameter `pre.x0`, to be
applied before the op to make it a view: steps separated by `;`, each one of

    permute:order   flip:axes   expand:shape   reshape:shape   slice:axis,start,stop,step

Gradients are with respect to the input as stored, before its recipe. Index outputs (int64 of torch) are stored as
int32 unless the case has `wide=True`. An absent parameter means the default in OPS. Lists are comma-separated,
booleans `true`, and a slice bound that is left open is `none`.
"""
import math
import struct
import zlib
from pathlib import Path

import numpy as np
import torch

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)

OPS = {}                   # name: function of inputs and parameters -> output or tuple of outputs

# ---- parameters -----------------------------------------------------------------------------------------------

class Params:
    """Parameters of a case, typed on the way out."""
    def __init__(self, values): self.values = values
    def ints(self, key, default=()):
        return [int(v) for v in self.values[key].split(",") if v] if key in self.values else list(default)
    def int(self, key, default=None): return int(self.values[key]) if key in self.values else default
    def float(self, key, default=None): return float(self.values[key]) if key in self.values else default
    def flag(self, key): return self.values.get(key) == "true"
    def text(self, key): return self.values[key]
    def bound(self, key): return None if self.values.get(key, "none") == "none" else int(self.values[key])

def text_of(value):
    if isinstance(value, bool): return "true" if value else "false"
    if value is None: return "none"
    if isinstance(value, (list, tuple)): return ",".join(str(v) for v in value)
    return str(value)

# ---- recording ------------------------------------------------------------------------------------------------

CASES, NAMES = [], set()

def rng_of(name): return np.random.default_rng(zlib.crc32(name.encode()))

def apply_recipe(x, recipe):
    for step in filter(None, recipe.split(";")):
        what, numbers = step.split(":")
        n = [int(v) for v in numbers.split(",")]
        x = (x.permute(n) if what == "permute" else x.flip(n) if what == "flip" else x.expand(n) if what == "expand"
             else x.reshape(n) if what == "reshape" else x[(slice(None),) * n[0] + (slice(*n[1:]),)])
    return x

def case(op, variant, *inputs, pre=None, grad=True, wide=False, **params):
    """Record one case. Inputs are tensors, or functions from a random generator to a tensor."""
    name = f"{op}/{variant}"
    assert name not in NAMES, name
    NAMES.add(name)
    rng = rng_of(name)
    tensors = [(x(rng) if callable(x) else x).clone() for x in inputs]
    values = {key: text_of(value) for key, value in params.items()}
    values |= {f"pre.x{k}": recipe for k, recipe in (pre or {}).items()}

    def run(leaves):
        out = OPS[op]([apply_recipe(x, (pre or {}).get(k, "")) for k, x in enumerate(leaves)], Params(values))
        return list(out) if isinstance(out, tuple) else [out]

    grad = grad and not variant.startswith("special")
    leaves = [x.requires_grad_(grad) if x.is_floating_point() else x for x in tensors]
    outs = run(leaves)
    weights, grads = [], []
    floats = [(k, x) for k, x in enumerate(leaves) if x.is_floating_point()]
    if grad and floats and outs[0].is_floating_point() and outs[0].requires_grad:
        weights = [torch.from_numpy(rng.uniform(-1, 1, tuple(o.shape)).astype(np.float32)) for o in outs]
        loss = sum((o * w).sum() for o, w in zip(outs, weights) if o.is_floating_point())
        found = torch.autograd.grad(loss, [x for _, x in floats], allow_unused=True)
        grads = [(f"x{k}", torch.zeros_like(x) if g is None else g) for (k, x), g in zip(floats, found)]
        for _, g in grads: assert torch.isfinite(g).all(), f"{name}: gradient {g}"
    if not variant.startswith("special"):
        for o in outs: assert not o.is_floating_point() or torch.isfinite(o).all(), f"{name}: output {o}"
    outputs = [(f"out{k}", o) for k, o in enumerate(outs)]
    CASES.append((name, op, [f"{k}={v}" for k, v in values.items()], [(f"x{k}", x) for k, x in enumerate(leaves)],
                  outputs if wide else [narrow(o) for o in outputs],
                  [(f"out{k}", w) for k, w in enumerate(weights)], grads))

def number(n): return struct.pack("<I", n)
def string(s): return number(len(s.encode())) + s.encode()
def listing(items, write): return number(len(items)) + b"".join(map(write, items))

CODES = {torch.bool: 0, torch.int8: 1, torch.uint8: 2, torch.int32: 3, torch.float32: 4, torch.int16: 5,
         torch.uint16: 6, torch.uint32: 7, torch.int64: 8, torch.float16: 9, torch.bfloat16: 10, torch.float64: 11}

def tensor(item):
    name, x = item
    x = x.detach().contiguous()
    bits = x.view(torch.int16) if x.dtype == torch.bfloat16 else x
    return string(name) + bytes([CODES[x.dtype]]) + listing(x.shape, number) + bits.numpy().tobytes()

def narrow(item):
    name, x = item
    if x.dtype != torch.int64: return item
    assert x.numel() == 0 or abs(x).max() < 2 ** 31, name
    return name, x.to(torch.int32)

def record(c):
    name, op, params, *tensors = c
    return string(name) + string(op) + listing(params, string) + b"".join(listing(t, tensor) for t in tensors)

# ---- random inputs --------------------------------------------------------------------------------------------

def drawn(shape, dtype, draw): return lambda rng: torch.from_numpy(np.asarray(draw(rng, shape), dtype=dtype))
def signs(rng, shape): return rng.choice([-1, 1], shape)

def floats(*shape, low=-2, high=2): return drawn(shape, np.float32, lambda rng, s: rng.uniform(low, high, s))
def away(*shape, low=.5, high=3):                # of both signs, not near zero
    return drawn(shape, np.float32, lambda rng, s: rng.uniform(low, high, s) * signs(rng, s))
def ints(*shape, low=-9, high=9):                # high included
    return drawn(shape, np.int32, lambda rng, s: rng.integers(low, high, s, endpoint=True))
def nonzero(*shape, low=1, high=9):
    return drawn(shape, np.int32, lambda rng, s: rng.integers(low, high, s, endpoint=True) * signs(rng, s))
def bools(*shape): return drawn(shape, bool, lambda rng, s: rng.integers(0, 2, s))
def f32(*values): return torch.tensor(values, dtype=torch.float32)
def i32(*values): return torch.tensor(values, dtype=torch.int32)

INF, NAN = math.inf, math.nan

def write(script):
    """Write the recorded cases next to the script, under its name."""
    path = Path(script).with_suffix(".bin")
    path.write_bytes(b"FRITGOLD" + number(1) + listing(CASES, record))
    print(f"{len(CASES)} cases of {len({c[1] for c in CASES})} ops, {path.stat().st_size:,} bytes")
