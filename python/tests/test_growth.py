"""Nothing grows with the number of steps: neither what the process has of memory nor what it uses of it.

A step in each of the ways people train without a Jit. FRIT_LONG=1 makes it 100,000 of them (half an hour); the short runs are long enough to
see a hundred bytes a step.
"""

import ctypes
import gc
import os
import sys

import pytest

from frit import Tensor, nn

LONG = os.environ.get("FRIT_LONG") == "1"


class Mallinfo(ctypes.Structure):
    _fields_ = [(n, ctypes.c_size_t) for n in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]


def used():
    """Bytes of the heap that are in use, and bytes of memory that the process has."""
    gc.collect()
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = Mallinfo
    heap = libc.mallinfo2()
    with open("/proc/self/statm") as f:
        resident = int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    return heap.uordblks + heap.hblkhd, resident


class Net:
    def __init__(self):
        self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 1)

    def __call__(self, x):
        return self.b(self.a(x).relu())


def training(optimiser, batch):
    net = Net()
    opt = optimiser(nn.state.get_parameters(net), lr=1e-3)

    def step(i):
        with Tensor.train():
            opt.zero_grad()
            loss = (net(Tensor.rand(batch(i), 8)) - 1).square().mean()
            loss.backward()
            opt.step()
        if i % 10 == 0:
            loss.item()

    return step


def several(_):
    x = Tensor([1.0, 2.0]).realize()
    return lambda i: Tensor.realize(*[x + j for j in range(5)])


STEPS = {
    # name: how to make a step, steps before the first look (every shape was seen), steps of the short run
    "several at once": (several, 200, 4000),
    "adam": (lambda _: training(nn.optim.Adam, lambda i: 4), 200, 1500),
    "sgd": (lambda _: training(nn.optim.SGD, lambda i: 4), 200, 1500),
    "varying batches": (lambda _: training(nn.optim.SGD, lambda i: 1 + i * 7 % 13), 200, 1500),
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc and asks glibc")
@pytest.mark.parametrize("name", STEPS)
def test_steps_leave_nothing_behind(name):
    if not hasattr(ctypes.CDLL(None), "mallinfo2"):
        pytest.skip("the C library does not say what the heap holds")
    make, first, count = STEPS[name]
    count = 100_000 if LONG else count
    step = make(None)
    for i in range(first):
        step(i)
    heap, resident = used()
    seen = []
    for i in range(count):
        step(i)
        # the tables that forget now and then are as full at one look as at another, give or take
        if (i + 1) % (count // 4) == 0:
            seen.append(used())
    print([(h - heap, r - resident) for h, r in seen])
    # a quarter of a megabyte is what those tables may differ by
    assert min(h for h, _ in seen[1:]) - heap < (1 << 18), seen
    assert seen[-1][1] - resident < (4 << 20), seen
