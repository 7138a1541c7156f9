"""Two processes with all threads each, a JSON line a program: `python -P bench/two_processes.py [--only gemm] [--turns 5]`.

A program runs in one process alone, then in two at once, in short turns. `share` is what the slower of two gets done, as a part
of what it would get done if they took turns (half as much as alone); 0.8 is asked. `sum` is what both get done together, as a
part of what one does alone. Both are of the median turn, each beside the turns alone before and after it.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time


def product(a, b):
    return a @ b


def small_kernels(x, *layers):
    for w in layers:
        x = (x @ w).tanh().contiguous()
    return x


# what a program is called with, and what it does
PROGRAMS = {
    "gemm_f32_1024": ([(1024, 1024)] * 2, product),
    "softmax_2048": ([(2048, 2048)], lambda x: x.softmax(-1)),
    "conv3x3_64x128": ([(8, 64, 28, 28), (128, 64, 3, 3)], lambda x, w: x.conv2d(w, padding=1)),
    "small_kernels_16": ([(64, 128)] + [(128, 128)] * 16, small_kernels),
    "elementwise_16m": ([(1 << 24,)], lambda x: x * 2 + 1),
}


def work(name):
    """One process: for every line of input, which says for how many seconds, print how many calls a second there were."""
    from frit import Tensor, TinyJit

    shapes, f = PROGRAMS[name]
    given = [(Tensor.randn(*shape) * 0.1).realize() for shape in shapes]
    step = TinyJit(lambda *tensors: f(*tensors).realize())
    for _ in range(5):
        step(*given)
    print("ready", flush=True)
    for line in sys.stdin:
        calls, begin = 0, time.perf_counter()
        while (took := time.perf_counter() - begin) < float(line) or not calls:
            step(*given)
            calls += 1
        print(calls / took, flush=True)


def together(workers, seconds):
    """Calls a second of each of these processes, all running at once."""
    for w in workers:
        w.stdin.write(f"{seconds}\n")
        w.stdin.flush()
    return [float(w.stdout.readline()) for w in workers]


def one_alone(workers, one, seconds):
    """Calls a second of one process while the other, whose idle threads may still spin, is stopped."""
    other = workers[1 - one]
    other.send_signal(signal.SIGSTOP)
    try:
        return together([workers[one]], seconds)[0]
    finally:
        other.send_signal(signal.SIGCONT)


def shares(alone, both):
    """What two processes reach beside one: of turns alone, one more than of turns of both."""
    beside = [(before + after) / 2 for before, after in zip(alone, alone[1:])]
    slower = statistics.median(2 * min(pair) / one for pair, one in zip(both, beside))
    total = statistics.median(sum(pair) / one for pair, one in zip(both, beside))
    return {"alone": statistics.median(alone), "share": slower, "sum": total}


def measure(name, seconds, turns):
    command = [sys.executable, "-P", os.path.abspath(__file__), "--work", name]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    workers = [subprocess.Popen(command, **pipes) for _ in range(2)]
    try:
        for w in workers:
            if w.stdout.readline() != "ready\n":
                sys.exit(f"{name}: a process ended before it began")
        together(workers, seconds)
        alone, both = [], []
        for turn in range(turns):
            alone.append(one_alone(workers, turn % 2, seconds))
            both.append(together(workers, seconds))
        alone.append(one_alone(workers, turns % 2, seconds))
    finally:
        for w in workers:
            w.stdin.close()
            w.wait()
    return {"name": name, **shares(alone, both)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", default="", help="programs whose names hold this")
    p.add_argument("--seconds", type=float, default=0.3, help="how long a turn is (0.3)")
    p.add_argument("--turns", type=int, default=7, help="how many turns of both (7)")
    p.add_argument("--work", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.work:
        return work(a.work)
    for name in PROGRAMS:
        if a.only in name:
            print(json.dumps(measure(name, a.seconds, a.turns)), flush=True)


if __name__ == "__main__":
    main()
