"""A fuzzer of state: random programs on frit and on numpy, statement by statement.

numpy is the model, since a view there is what a view is here: a window on its base. A program is a list of statements,
each written twice, for frit and for numpy; a statement that numpy refuses is left out of both. What differs is made
small and printed as a program to run.

    python state_fuzz.py 0 10000           # seeds from, to
    python state_fuzz.py 0 10000 survey    # go on after failures, and count them by what they have in common

Numbers are small integers, so that every type holds them exactly.
"""

import random
import sys
import time
from typing import NamedTuple

import numpy as np

from frit import Tensor, TinyJit, Variable, dtypes

DTYPES = ["float32", "int32", "bool", "int8", "uint8", "int16", "uint16", "uint32", "int64", "uint64", "float16", "float64"]
SHAPES = [(4,), (2, 3), (6,), (3, 2), (2, 2), (), (1, 3), (0,)]
BLOCK = 64  # seeds that share shapes and types, so that kernels are compiled once for many programs
ROWS = 6  # as many as a symbolic size may name


class Step(NamedTuple):
    """A statement for frit and for numpy, and the lines of a function's body where it defines one."""

    kind: str
    real: str
    model: str
    body: tuple = ()

    def source(self, which):
        text = self.real if which == "real" else self.model
        lines = [pair[0 if which == "real" else 1] for pair in self.body] or ["pass"]
        return text.replace("BODY", "\n".join("        " + line for line in lines))


class Failure(NamedTuple):
    at: int
    what: str


def value(x):
    """A value in memory of its own, in row-major order."""
    return np.array(x, order="C")


def cast(x, dtype):
    """A value of another type; floats that an integer type does not hold are refused."""
    x, dtype = np.asarray(x), np.dtype(dtype)
    if x.dtype.kind == "f" and dtype.kind in "iu" and x.size:
        if float(x.min()) < np.iinfo(dtype).min or float(x.max()) > np.iinfo(dtype).max:
            raise ValueError("it would saturate")
    return np.array(x, dtype=dtype, order="C")


def put(place, x):
    """Write a value to a window, repeated as broadcasting has it."""
    x = cast(x, place.dtype)
    if np.broadcast_shapes(x.shape, place.shape) != place.shape:
        raise ValueError("it does not fit")
    place[...] = x


def padded(x, rows):
    return np.concatenate([x, np.zeros((rows - x.shape[0], *x.shape[1:]), x.dtype)])


def namespaces():
    real = {"Tensor": Tensor, "TinyJit": TinyJit, "np": np, "n": Variable("n", 1, ROWS)}
    return real, {"np": np, "value": value, "cast": cast, "put": put, "padded": padded, "training": False}


def tensors(space):
    return {k: v for k, v in space.items() if k[0] == "t" and k[1:].isdigit()}


def is_exact(space):
    """Whether all floats are whole numbers that every type holds."""
    for x in tensors(space).values():
        if x.dtype.kind == "f" and x.size:
            whole = np.isfinite(x).all() and (np.rint(x) == x).all() and abs(x).max() <= 512
            if not whole or (np.signbit(x) & (x == 0)).any():
                return False
    return True


def differs(name, t, x):
    """What a tensor shows that the model does not."""
    if t.shape != x.shape or t.dtype != getattr(dtypes, str(x.dtype)):
        return f"{name} is {t.dtype} {t.shape}, expected {x.dtype} {x.shape}"
    found = t.tolist()
    return None if found == x.tolist() else f"{name}:\n  expected {x.tolist()}\n  found    {found}"


def run(steps):
    """The first failure of a program, or None."""
    real, model = namespaces()
    for at, step in enumerate(steps):
        before = {k: v for k, v in model.items() if k[0] == "t"}
        try:
            exec(step.source("model"), model)
        except Exception:
            if step.kind == "call":  # a part of it may have been done
                return None
            continue
        if not is_exact(model):
            return None
        try:
            exec(step.source("real"), real)
            made = [k for k in tensors(model) if before.get(k) is not model[k]]
            names = made if step.kind != "read" else [step.real.split()[-1]]
            for name in names:
                if step.kind == "read" and (what := differs(name, real[name], model[name])):
                    return Failure(at, what)
                if real[name].shape != model[name].shape:
                    return Failure(at, f"{name} is {real[name].shape}, expected {model[name].shape}")
        except Exception as e:
            return Failure(at, f"{type(e).__name__}: {e}")
    try:
        for name, x in tensors(model).items():
            if what := differs(name, real[name], x):
                return Failure(len(steps), what)
        for name, x in model.items():
            if name[0] == "h" and name[1:].isdigit() and real[name].tolist() != x.tolist():
                return Failure(len(steps), f"{name} is {real[name].tolist()}, expected {x.tolist()}")
    except Exception as e:
        return Failure(len(steps), f"{type(e).__name__}: {e}")
    return None


class Generator:
    def __init__(self, seed):
        self.block = random.Random(seed // BLOCK)
        self.shapes = [self.block.choice(SHAPES) for _ in range(3)]
        self.dtypes = [self.block.choice(["float32", "float32", "int32"]), self.block.choice(DTYPES)]
        self.rng = random.Random(seed)
        self.space = namespaces()[1]
        self.steps, self.count, self.jits, self.shared = [], 0, [], {}
        kinds = ["create", "create", "window", "window", "window", "value", "value", "assign", "inplace", "inplace"]
        kinds += ["item", "item", "item", "fancy", "empty", "realize", "realize", "read", "read", "delete", "hold"]
        kinds += ["foreign", "gradient", "define", "call", "call", "call"]
        on = {k for k in kinds if self.rng.random() < 0.5} | {"create", "read"}
        if "define" in on:
            on.add("call")
        self.kinds = [k for k in kinds if k in on]
        self.ended = False

    def program(self):
        self.create()
        length = self.rng.randint(5, 40 if self.rng.random() < 0.3 else 18)
        for _ in range(length * 4):
            if len(self.steps) >= length or self.ended:
                break
            getattr(self, self.rng.choice(self.kinds))()
        return self.steps

    # ---- how a statement is made

    def add(self, kind, real, model, body=()):
        step = Step(kind, real, model, tuple(body))
        try:
            exec(step.source("model"), self.space)
        except Exception:
            self.ended = kind == "call"
            return False
        if not is_exact(self.space):
            self.ended = True
            return False
        self.steps.append(step)
        return True

    def fresh(self, letter="t"):
        self.count += 1
        return f"{letter}{self.count}"

    def any(self, fits=lambda x: True):
        names = [k for k, v in tensors(self.space).items() if fits(v) and k not in self.shared]
        if self.rng.random() < 0.5:
            names = names[-4:]
        return self.rng.choice(names) if names else None

    def writable(self):
        return self.any(lambda x: x.flags.writeable)

    def small(self):
        return self.rng.randint(1, 3)

    def index(self, rank):
        one = lambda: self.rng.choice(["0", "-1", "1:", ":2", ":-1", "::2", "1::2", "::-1", ":", ":0", "9:"])
        return ", ".join(one() for _ in range(min(rank, self.rng.choice([1, 1, 2])))) or "..."

    def assigned(self):
        """What can be assigned, for frit and for numpy."""
        x = self.any()
        k = self.rng.choice([0, 1, 2, 5])
        return self.rng.choice([str(k), f"{k}.0", x, x, f"({x} + 1)" if self.space[x].dtype != bool else x])

    def operator(self, x):
        return self.rng.choice("&^" if self.space[x].dtype == bool else "+-*")

    # ---- statements

    def create(self):
        shape, dtype = self.rng.choice(self.shapes), self.rng.choice(self.dtypes)
        self.leaf(self.fresh(), shape, dtype)

    def leaf(self, out, shape, dtype):
        size = int(np.prod(shape))
        first = self.rng.randint(0, 3)
        data = [(first + i) % 7 for i in range(size)]
        array = f"np.array({data}, dtype='{dtype}').reshape({shape})"
        lazy = f"Tensor.full({shape}, {first}, dtype='{dtype}')"
        real = self.rng.choice([f"Tensor({array})", f"Tensor({array}).realize()", lazy, lazy])
        model = f"np.full({shape}, {first}, dtype='{dtype}')" if real is lazy else array
        return self.add("create", f"{out} = {real}", f"{out} = value({model})")

    def window(self):
        x, out = self.any(), self.fresh()
        if x is None:
            return
        a = self.space[x]
        i = self.index(a.ndim)
        size = max(1, a.size)
        dims = self.rng.choice([(a.size,), (1, a.size), *((d, size // d) for d in (2, 3) if size % d == 0)])
        same = [d for d in DTYPES if np.dtype(d).itemsize == a.dtype.itemsize and d != "bool" and a.dtype != bool]
        real, model = self.rng.choice([
            (f"{x}[{i}]", f"{x}[{i}]" if i == "..." else f"{x}[{i}, ...]"),
            (f"{x}[{i}]", f"{x}[{i}]" if i == "..." else f"{x}[{i}, ...]"),
            (f"{x}.reshape({dims})", f"{x}.reshape({dims})"),
            (f"{x}.reshape({dims})", f"{x}.reshape({dims})"),
            (f"{x}.permute({tuple(range(a.ndim))[::-1]})", f"{x}.T"),
            (f"{x}.unsqueeze(0)", f"{x}[None]"),
            (f"{x}.squeeze(0)", f"np.squeeze({x}, 0) if {x}.shape[0] == 1 else {x}[...]"),
            (f"{x}.detach()", f"{x}[...]"),
            (f"{x}.expand({(2, *a.shape)})", f"np.broadcast_to({x}, {(2, *a.shape)})"),
            (f"{x}.split(2)[-1]", f"{x}[({x}.shape[0] - 1) // 2 * 2:]"),
            (f"{x}.bitcast('{(same or ['bool'])[0]}')", f"{x}.view('{(same or ['bool'])[0]}')"),
        ])
        if "bitcast" in real and not same or "permute" in real and a.ndim == 0 or "split" in real and a.size == 0:
            return
        self.add("window", f"{out} = {real}", f"{out} = {model}")

    def value(self):
        x, y, out = self.any(), self.any(), self.fresh()
        if x is None:
            return
        a, op, k = self.space[x], self.operator(x), self.small()
        k = bool(k) if a.dtype == bool else k
        dtype = self.rng.choice(self.dtypes)
        total = f"value({x}.sum(dtype={x}.dtype))"
        real, model = self.rng.choice([
            (f"{x} {op} {k}", f"value({x} {op} {k})"),
            (f"{x} {op} {k}", f"value({x} {op} {k})"),
            (f"{x} {op} {y}.cast({x}.dtype)", f"value({x} {op} cast({y}, {x}.dtype))"),
            (f"{x}.contiguous()", f"value({x})"),
            (f"{x}.clone()", f"value({x})"),
            (f"{x}.cast('{dtype}')", f"cast({x}, '{dtype}')"),
            (f"{x}.flip(0)", f"value({x}[::-1])"),
            (f"{x}.sum()", total),
        ])
        if ".sum" in real and a.dtype not in (np.float32, np.int32, np.float64, np.int64):
            return
        self.add("value", f"{out} = {real}", f"{out} = {model}")

    def assign(self):
        if x := self.writable():
            v = self.assigned()
            self.add("assign", f"{x}.assign({v})", f"put({x}, {v})")

    def inplace(self):
        x, y = self.writable(), self.any()
        if x is None:
            return
        op = self.operator(x)
        k = bool(self.small()) if self.space[x].dtype == bool else self.small()
        real, model = self.rng.choice([(k, k), (k, k), (f"{y}.cast({x}.dtype)", f"cast({y}, {x}.dtype)")])
        self.add("inplace", f"{x} {op}= {real}", f"{x} {op}= {model}")

    def item(self):
        x = self.writable()
        if x is None:
            return
        i, v = self.index(self.space[x].ndim), self.assigned()
        if self.rng.random() < 0.3 and self.space[x].dtype != bool:
            self.add("item", f"{x}[{i}] += 1", f"{x}[{i}] += 1")
        else:
            place = f"{x}[...]" if i == "..." else f"{x}[{i}, ...]"
            self.add("item", f"{x}[{i}] = {v}", f"put({place}, {v})")

    def fancy(self):
        x, out = self.writable(), self.fresh()
        if x is None or not self.space[x].ndim or not self.space[x].shape[0]:
            return
        rows = [self.rng.randrange(self.space[x].shape[0]) for _ in range(2)]
        v = self.rng.choice([0, 1, 2])
        mask = self.any(lambda m: m.dtype == bool and m.shape == self.space[x].shape)
        real, model = self.rng.choice([
            (f"{out} = {x}[Tensor({rows})]", f"{out} = value({x}[{rows}])"),
            (f"{x}[Tensor({rows})] = {v}", f"{x}[{rows}] = {v}"),
            (f"{x}[{rows}] = {v}", f"{x}[{rows}] = {v}"),
            (f"{x}[{mask}] = {v}", f"{x}[{mask}] = {v}"),
            (f"{out} = {x}[{mask}]", f"{out} = value({x}[{mask}])"),
        ])
        if "None" not in real:
            self.add("fancy", real, model)

    def empty(self):
        x, out = self.any(lambda x: x.ndim and x.dtype.kind == "f"), self.fresh()
        if x:
            after = self.rng.choice(["", ".realize()"])
            self.add("empty", f"{out} = ({x}[:0].sum() + 1){after}", f"{out} = value(np.ones((), {x}.dtype))")

    def realize(self):
        names = {x for x in (self.any() for _ in range(self.small())) if x}
        if names:
            self.add("realize", f"Tensor.realize({', '.join(sorted(names))})", " , ".join(sorted(names)))

    def read(self):
        if x := self.any():
            self.add("read", f"# read {x}", f"{x}")

    def delete(self):
        if x := self.any():
            self.add("delete", f"del {x}", f"del {x}")

    def hold(self):
        out = self.fresh("h")
        if x := self.any():
            self.add("hold", f"{out} = {x}.numpy()", f"{out} = value({x})")

    def foreign(self):
        """Memory that numpy owns and changes: each computation sees what is there at that time."""
        live = [s for s in self.shared if s in self.space]
        if not live or self.rng.random() < 0.3:
            out = self.fresh()
            array = "a" + out[1:]
            data = f"{array} = np.arange(4, dtype='{self.rng.choice(['float32', 'int32', 'uint8'])}')"
            if self.add("foreign", f"{data}; {out} = Tensor.from_numpy({array})", f"{data}; {out} = {array}[...]"):
                self.shared[out] = array
            return
        x, out = self.rng.choice(live), self.fresh()
        change = f"{self.shared[x]}[{self.rng.randrange(4)}] = {self.rng.randint(0, 6)}"
        real, model = self.rng.choice([
            (change, change),
            (f"{out} = ({x} + 1).realize()", f"{out} = value({x} + 1)"),
            (f"{out} = {x}.contiguous().realize()", f"{out} = value({x})"),
        ])
        self.add("foreign", real, model)

    def gradient(self):
        dtype = self.rng.choice(["float32", "float32", "float64", "float16"])
        shape = self.rng.choice(self.shapes)
        a, b, p, q = self.fresh(), self.fresh(), self.fresh(), self.fresh()
        j, k = self.small(), self.small()
        if self.leaf(a, shape, dtype) and self.leaf(b, shape, dtype):
            real = f"{p}, {q} = ({a}*{j} + {b}*{k} + {a}*{b}).sum().gradient({a}, {b})"
            self.add("gradient", real, f"{p}, {q} = value({j} + {b}), value({k} + {a})")

    # ---- functions

    def define(self):
        s = self.writable()
        if s is None or self.space[s].dtype == bool:
            return
        shape, dtype = self.space[s].shape, str(self.space[s].dtype)
        symbolic = self.rng.random() < 0.35
        alike = lambda x: x.shape == shape and x.dtype == dtype
        t = self.any(lambda x: alike(x) and x.flags.writeable) or s
        f = self.fresh("f")
        inputs = ["x"] if symbolic else ["x", "y"][: self.rng.randint(0, 2)]
        x = inputs[0] if inputs else t
        k = self.small()
        flat = (f"r = {s}.reshape(-1)", f"r = {s}.reshape(-1)")
        bodies = [
            [(f"r = {s} * {t}", f"r = value({s} * {t})")],
            [(f"r = ({s} + {k}).contiguous() + {x}", f"r = value({s} + {k} + {x})")],
            [(f"r = {s}[...]", f"r = {s}[...]")],
            [(f"{s}.assign({s} + {x})", f"{s}[...] = {s} + {x}"), flat, ("r.realize()", "r.shape")],
            [(f"{s}.assign({s} + {k})", f"{s}[...] = {s} + {k}"), (f"r = {s} * 2", f"r = value({s} * 2)")],
            [(f"d = ({x} + {k}).contiguous()", f"d = value({x} + {k})"), (f"{s}.assign(d)", f"{s}[...] = d"), (f"{s}.assign(d)", f"{s}[...] = d")],
            [(f"d = {t} * 2", f"d = value({t} * 2)"), (f"{s}.assign({s} - d)", f"{s}[...] = {s} - d"),
             (f"{t}.assign(Tensor.zeros_like({t}))", f"{t}[...] = 0"), (f"Tensor.realize({s}, {t})", "pass")],
            [(f"r = {x} * 2 if Tensor.training else {x} + 1", f"r = value({x} * 2 if training else {x} + 1)")],
            [(f"{s}[:1] = {k}", f"{s}[:1] = {k}"), (f"r = {s} + {x}", f"r = value({s} + {x})")],
        ]  # fmt: skip
        if inputs and not symbolic:
            bodies.append([(f"d = {x} + 1", f"d = value({x} + 1)"), (f"{x}.assign(d)", f"{x}[...] = d"),
                           (f"{x}.assign(d)", f"{x}[...] = d"), (f"r = {x} + {s}", f"r = value({x} + {s})")])  # fmt: skip
        body = self.rng.choice(bodies)
        if symbolic:
            rows = (ROWS, *shape[1:])
            body = self.rng.choice([
                [(f"r = x.pad(((0, {ROWS} - x.shape[0]),{' (0, 0),' * (len(rows) - 1)}))", f"r = value(padded(x, {ROWS}))")],
                [(f"r = (x * {k}).sum(0)", f"r = value((x * {k}).sum(0, dtype=x.dtype))")],
                [(f"r = x + {k}", f"r = value(x + {k})")],
                [(f"{s}.assign({s} + x.sum())", f"{s}[...] = {s} + x.sum(dtype=x.dtype)")],
            ])  # fmt: skip
            if any(".sum" in line[0] for line in body) and dtype not in ("float32", "int32", "float64", "int64"):
                return
            shape = rows
        names = sorted({s, t})
        args = ", ".join(inputs)
        head = f"def make_{f}({', '.join(names)}):\n    def f({args}):\n        r = None\nBODY\n        return r\n"
        made = f"{f} = make_{f}({', '.join(names)})"
        if self.add("define", f"{head}    return TinyJit(f)\n{made}", f"{head}    return f\n{made}", body):
            twice = self.rng.random() < 0.3
            self.jits.append((f, len(inputs), shape, dtype, symbolic, twice))
            # a recording is made by the second call and replayed from the third on
            for _ in range(self.rng.randint(1, 4)):
                self.call(self.jits[-1])
                if self.rng.random() < 0.5 and not self.ended:
                    getattr(self, self.rng.choice(self.kinds[2:]))()

    def call(self, jit=None):
        if not self.jits:
            return
        if self.ended:
            return
        f, count, shape, dtype, symbolic, twice = jit or self.rng.choice(self.jits)
        args = []
        for i in range(count):
            if i and twice:
                args.append(args[0])
                continue
            x = self.any(lambda x: x.shape == shape and x.dtype == dtype and x.flags.writeable)
            # the second one is always another: one tensor given twice is another signature
            if x is None or i or self.rng.random() < 0.3:
                x = self.fresh()
                data = [(i + self.small()) % 7 for i in range(int(np.prod(shape)))]
                array = f"np.array({data}, dtype='{dtype}').reshape({shape})"
                if not self.add("create", f"{x} = Tensor({array})", f"{x} = value({array})"):
                    return
            args.append(x)
        rows = self.rng.randint(1, ROWS)
        real = ", ".join(f"{x}[:n.bind({rows})]" if symbolic else x for x in args)
        model = ", ".join(f"{x}[:{rows}]" if symbolic else x for x in args)
        out = self.fresh()
        real, model = f"{out} = {f}({real})", f"{out} = {f}({model})"
        if self.rng.random() < 0.3:
            real = f"with Tensor.train(): {real}"
            model = f"training = True; {model}; training = False"
        if symbolic:
            # a size that is a variable has one value at a time: later steps see numbers
            real += f"\nif {out} is not None: {out} = Tensor({out}.numpy())"
            model += f"\nif {out} is not None: {out} = value(np.array({out}))"
        tidy = f"\nif {out} is None: del {out}"
        self.add("call", real + tidy, model + tidy)


def small(steps, failure, patience=20.0):
    """A failing program made small: statements left out as long as it fails."""
    end = time.monotonic() + patience
    steps = steps[: failure.at + 1]
    size = max(1, len(steps) // 2)
    while True:
        at, shorter = 0, False
        while at < len(steps) and time.monotonic() < end:
            fewer = steps[:at] + steps[at + size :]
            if found := run(fewer):
                steps, failure, shorter = fewer, found, True
            else:
                at += size
        if size == 1 and not shorter or time.monotonic() > end:
            break
        size = max(1, size // 2)
    for at, step in enumerate(steps):
        for line in step.body:
            fewer = [*steps[:at], step._replace(body=tuple(p for p in steps[at].body if p is not line)), *steps[at + 1 :]]
            if found := run(fewer):
                steps, failure = fewer, found
    return steps, failure


def report(seed, steps, failure):
    lines = [step.source("real") for step in steps]
    return f"seed {seed}\n" + "\n".join(lines) + f"\n# at statement {failure.at}: {failure.what}"


def check(seeds):
    """Run programs; gives a report of the first that fails."""
    for seed in seeds:
        steps = Generator(seed).program()
        if failure := run(steps):
            return report(seed, *small(steps, failure))
    return None


def survey(seeds):
    """How many programs fail, by the kinds of statements that are left when they are small."""
    found = {}
    for count, seed in enumerate(seeds, 1):
        steps = Generator(seed).program()
        if failure := run(steps):
            steps, failure = small(steps, failure)
            kinds = " ".join(sorted({s.kind for s in steps}))
            text = report(seed, steps, failure)
            first, times, shortest = found.get(kinds, (count, 0, text))
            found[kinds] = (first, times + 1, min(shortest, text, key=len))
    for kinds, (first, times, text) in sorted(found.items(), key=lambda f: f[1][0]):
        print(f"== {kinds}: {times} times, first after {first} programs\n{text}\n")


if __name__ == "__main__":
    start, stop = int(sys.argv[1]), int(sys.argv[2])
    if "survey" in sys.argv:
        survey(range(start, stop))
    elif text := check(range(start, stop)):
        sys.exit(text)
