"""Times frit and torch in turns in one process: `python -P python/beside_torch.py conv3x3_64x128 gemm_f32_512`.

A machine that others share changes its speed from second to second. Runs that take turns every 20 ms meet the same
seconds, so the median of their ratios says what two runs one after the other cannot. Above 1 frit is faster.
"""

import os
import statistics
import sys
import time
from collections.abc import Callable

# threads that wait while the other side runs must not keep its core
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch  # noqa: E402

import frit  # noqa: E402
from frit import Tensor, TinyJit  # noqa: E402

TURNS = 100
SECONDS = 0.02


def convolution() -> tuple[Callable[[], object], Callable[[], object]]:
    theirs, x = torch.nn.Conv2d(64, 128, 3, padding=1), torch.randn(8, 64, 56, 56)
    ours, y = frit.nn.Conv2d(64, 128, 3, padding=1), Tensor.randn(8, 64, 56, 56).realize()
    Tensor.realize(ours.weight, ours.bias)
    step = TinyJit(lambda y: ours(y).realize())
    return lambda: theirs(x), lambda: step(y)


def product(n: int) -> tuple[Callable[[], object], Callable[[], object]]:
    a, b = torch.randn(n, n), torch.randn(n, n)
    x, y = Tensor.randn(n, n).realize(), Tensor.randn(n, n).realize()
    step = TinyJit(lambda x, y: (x @ y).realize())
    return lambda: a @ b, lambda: step(x, y)


def timed(f: Callable[[], object], times: int) -> float:
    f()
    start = time.perf_counter()
    for _ in range(times):
        f()
    return (time.perf_counter() - start) / times * 1e3


def main(names: list[str]) -> None:
    torch.set_num_threads(os.cpu_count() or 1)
    for name in names:
        kind, _, size = name.rpartition("_")
        if kind == "gemm_f32" and size.isdigit():
            sides = product(int(size))
        elif name == "conv3x3_64x128":
            sides = convolution()
        else:
            sys.exit(f"{name} is neither conv3x3_64x128 nor gemm_f32_N")
        for side in sides * 5:
            side()
        times = max(1, round(SECONDS * 1e3 / timed(sides[0], 3)))
        turns = [[timed(side, times) for side in sides] for _ in range(TURNS)]
        theirs, ours = (statistics.median(side) for side in zip(*turns))
        ratio = statistics.median(t / o for t, o in turns)
        print(f"{name}: torch {theirs:.2f} ms, frit {ours:.2f} ms, ratio {ratio:.2f} in {TURNS} turns")


if __name__ == "__main__":
    with torch.no_grad():
        main(sys.argv[1:] or ["gemm_f32_512", "gemm_f32_1024", "conv3x3_64x128"])
