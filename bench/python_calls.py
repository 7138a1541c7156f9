"""What Python itself costs, a JSON line each: python -P bench/python_calls.py

The least of several runs: anything above it is the rest of the machine. Of a release build (`pip install .`).
"""

import json
import subprocess
import sys
import time

from frit import Tensor, TinyJit, nn


def least(f, calls=1, runs=9):
    """Seconds that one call of f takes, at best."""
    best = float("inf")
    for _ in range(runs):
        begin = time.perf_counter()
        for _ in range(calls):
            f()
        best = min(best, (time.perf_counter() - begin) / calls)
    return best


def importing():
    code = "import sys, time; t = time.perf_counter(); import frit; print(time.perf_counter() - t, 'numpy' in sys.modules)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split() for _ in range(15)]
    return {"ms": min(float(r[0]) for r in runs) * 1e3, "numpy_imported": runs[0][1] == "True"}


def chain():
    start = Tensor([1.0]).realize()

    def build():
        x = start
        for _ in range(1000):
            x = x + 1

    return {"ms": least(build) * 1e3}


def jit_call():
    x, f = Tensor([1.0]).realize(), TinyJit(lambda a: a + 1)
    for _ in range(5):
        f(x)
    return {"us": least(lambda: f(x), 2000) * 1e6, "kernels": f.captured}


def jit_step():
    model = [nn.Linear(4, 4), Tensor.relu, nn.Linear(4, 2)]
    opt = nn.optim.SGD(nn.state.get_parameters(model), lr=0.01)
    x, y = Tensor.ones(2, 4).contiguous().realize(), Tensor([0, 1]).realize()

    @TinyJit
    def step(a, b):
        opt.zero_grad()
        loss = a.sequential(model).sparse_categorical_crossentropy(b).backward()
        opt.step()
        return loss

    for _ in range(5):
        step(x, y)
    return {"us": least(lambda: step(x, y), 500) * 1e6, "kernels": step.captured}


def to_numpy():
    import numpy  # noqa: F401  not part of what is timed

    t = Tensor.ones(256, 1024, 1024).contiguous().realize()
    a, b = t.numpy(), t.numpy()
    return {"us": least(t.numpy, 10) * 1e6, "bytes": a.nbytes, "same_memory": a.ctypes.data == b.ctypes.data}


if __name__ == "__main__":
    for f in (importing, chain, jit_call, jit_step, to_numpy):
        print(json.dumps({"name": f.__name__, **f()}), flush=True)
