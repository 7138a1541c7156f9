"""One side of the benchmarks, a JSON line a row: `python -P bench/side.py frit|torch|… [--random 1] [--only conv]`.

Every row is called until it is warm, then for a while; `ms` is the median call. `digest` says what came out, so that who runs
several sides can tell that they did the same: results in blocks, each summed with weights, and how large what was summed is.
`of_copy` is what frit reads in a second of what it must, as a part of what a copy moves in one.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import time

# threads that wait must not keep the core of whoever runs next
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("KMP_BLOCKTIME", "0")

import numpy as np  # noqa: E402

sys.path.append(str(pathlib.Path(__file__).resolve().parent))
from rows import rows  # noqa: E402



# A side makes of a row, its arrays and their types, and the number of threads a call, and what looks at a result of it; nothing
# of a row that it does not have.


def torch_side(row, arrays, threads):
    import torch

    if not row.torch:
        return None
    torch.set_num_threads(threads)
    given = [torch.from_numpy(a).to(getattr(torch, d)) for a, d in arrays]
    call = row.torch(*given) if row.makes_step else lambda: row.torch(*given)
    return call, lambda out: out.detach().double().numpy()


def lazy_side(module, row, arrays):
    if not row.frit:
        return None
    Tensor, TinyJit, dtypes = module.Tensor, module.TinyJit, module.dtypes
    given = [Tensor(a).cast(getattr(dtypes, d)).contiguous().realize() for a, d in arrays]
    f, given = (row.frit(*given), []) if row.makes_step else (row.frit, given)

    def realised(*tensors):
        out = f(*tensors)
        Tensor.realize(*all_of(out))
        return out

    step = TinyJit(realised)
    return lambda: step(*given), lambda out: out.cast(dtypes.float32).numpy()


def frit_side(row, arrays, threads):
    import frit
    from frit.onnx import Session

    if row.frit:
        return lazy_side(frit, row, arrays)
    model, given = row.onnx(*(a.astype(d) for a, d in arrays))
    session, given = Session(model), {name: frit.Tensor(a).realize() for name, a in given.items()}
    return lambda: session.tensors(given)["y"].realize(), lambda out: out.numpy()


def tinygrad_side(row, arrays, threads):
    import tinygrad

    return lazy_side(tinygrad, row, arrays)


def onnxruntime_side(row, arrays, threads):
    import onnxruntime as ort

    if not row.onnx:
        return None
    model, given = row.onnx(*(a.astype(d) for a, d in arrays))
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    bound, values = session.io_binding(), {name: ort.OrtValue.ortvalue_from_numpy(a) for name, a in given.items()}
    for name, value in values.items():
        bound.bind_ortvalue_input(name, value)
    bound.bind_output("y")

    def call():
        session.run_with_iobinding(bound)
        return values and bound.get_outputs()[0]

    return call, lambda out: out.numpy()


SIDES = {"torch": torch_side, "frit": frit_side, "tinygrad": tinygrad_side, "onnxruntime": onnxruntime_side}

# --- running them


def array(spec, seed):
    what, shape, dtype = spec
    g = np.random.default_rng(seed)
    if what == "normal":
        return g.standard_normal(shape, dtype=np.float32).astype("float64" if dtype == "float64" else "float32"), dtype
    return g.integers(*((-64, 64) if what == "signed" else (0, what)), shape), dtype


def all_of(out):
    return out if isinstance(out, (tuple, list)) else [out]


BLOCKS = 64


def digest(outs):
    """Of every result: how many elements, and of each block of them a weighted sum and the root of the sum of its squares."""
    parts = []
    for out in outs:
        x = np.asarray(out, dtype=np.float64).ravel()
        weights = (np.arange(x.size, dtype=np.uint64) * np.uint64(2654435761) >> np.uint64(7) & np.uint64(1023)) / 512 - 1
        blocks = np.array_split(x * weights, min(BLOCKS, max(1, x.size)))
        parts.append([x.size, [float(b.sum()) for b in blocks], [float(np.sqrt(b @ b)) for b in blocks]])
    return parts


def timed(call, seconds):
    """Milliseconds of the median call and of the quickest."""
    begin = time.perf_counter()
    for _ in range(3):
        if time.perf_counter() < begin + 1:
            call()
    times, end = [], time.perf_counter() + seconds
    while len(times) < (5 if sum(times) < 1 else 3) or (time.perf_counter() < end and len(times) < 1000):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return {"ms": statistics.median(times) * 1e3, "least_ms": min(times) * 1e3}


def copy_rate():
    """Bytes that a copy of 64 MiB moves in a millisecond: it reads all of them and writes as many."""
    from frit import Tensor, TinyJit

    x, copy = Tensor.randn(16 << 20).realize(), TinyJit(lambda x: (x + 0.0).realize())
    copy(x)
    return 2 * 4 * (16 << 20) / timed(lambda: copy(x), 0.05)["ms"]


def beside_copies(row, time_it):
    """Times of a row, and what it reads beside what copies before and after it move."""
    if not row.reads:
        return time_it()
    before, times = copy_rate(), time_it()
    return times | {"of_copy": 2 * row.reads / times["ms"] / (before + copy_rate())}


def ran(a, row, arrays):
    """What there is to say of a row."""
    made = SIDES[a.side](row, arrays, a.threads)
    if made is None:
        return {"absent": True}
    call, look = made
    begin = time.perf_counter()
    looked = [look(t) for t in all_of(call())]
    first = time.perf_counter() - begin
    if row.makes_step:
        looked = [np.array([*looked, look(call()), look(call())])]
    if row.in_any_order:
        looked = [np.sort(x) for x in looked]

    def time_it():
        return timed(call, a.seconds)

    times = beside_copies(row, time_it) if a.side == "frit" else time_it()
    small = any(d in ("float16", "bfloat16") for _, d in arrays)
    return {**times, "digest": digest(looked), "small": small, "first_s": first}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("side", choices=list(SIDES))
    p.add_argument("--random", type=int, metavar="SEED", help="rows drawn from a seed (the listed ones)")
    p.add_argument("--count", type=int, default=100, help="how many rows, before those of later kinds (100)")
    p.add_argument("--part", default="0:", metavar="FROM:TO", help="only these of them (all)")
    p.add_argument("--only", help="rows whose names hold this")
    p.add_argument("--seconds", type=float, default=0.25, help="how long each is called (0.25)")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads (all)")
    a = p.parse_args()
    os.environ.setdefault("FRIT_THREADS", str(a.threads))
    begin, _, end = a.part.partition(":")
    all_rows = rows(a.random, a.count)
    part = range(len(all_rows))[int(begin or 0) : int(end) if end else None]
    for i, row in enumerate(all_rows):
        if i not in part or (a.only and a.only not in row.name):
            continue
        arrays = [array(s, 1000 * (a.random or 0) + 10 * i + j) for j, s in enumerate(row.arrays)]
        try:
            said = ran(a, row, arrays)
        except Exception as e:
            said = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps({"name": row.name, **said}), flush=True)


if __name__ == "__main__":
    main()
