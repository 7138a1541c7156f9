"""One recording for sequences of every length: python examples/python/symbolic_jit.py

An attention over a growing cache, as a language model has it: the number of tokens so far is a variable, so each token
runs the same kernels.
"""

import time

from frit import GlobalCounters, SymbolicInt, Tensor, TinyJit, Variable

LENGTH, WIDTH = 64, 32
keys, values = Tensor.zeros(LENGTH, WIDTH).contiguous().realize(), Tensor.zeros(LENGTH, WIDTH).contiguous().realize()


@TinyJit
def attend(x: Tensor, at: SymbolicInt) -> Tensor:
    """Puts x, a row, at its place in the cache, and looks at everything up to there."""
    keys[at] = x
    values[at] = x * 2
    scores = (keys[: at + 1] @ x) / WIDTH**0.5
    return scores.softmax() @ values[: at + 1]


def plainly(rows: Tensor) -> Tensor:
    """The same for the last of some rows, without a cache."""
    return ((rows @ rows[-1]) / WIDTH**0.5).softmax() @ (rows * 2)


def main() -> None:
    Tensor.manual_seed(1)
    rows, at = Tensor.randn(LENGTH, WIDTH).realize(), Variable("at", 0, LENGTH - 1)
    worst = 0.0
    for i in range(LENGTH):
        GlobalCounters.reset()
        start = time.perf_counter()
        y = attend(rows[i].contiguous(), at.bind(i))
        took, kernels = time.perf_counter() - start, GlobalCounters.kernel_count
        worst = max(worst, (y - plainly(rows[: i + 1])).abs().max().item())
        if i in (0, 1, 2, 3, LENGTH - 1):
            print(f"token {i:2}: {kernels} kernels, {took * 1e6:8.1f} us")
    print(f"largest difference to attention without a cache: {worst:.1e}")
    assert worst < 1e-4


if __name__ == "__main__":
    main()
