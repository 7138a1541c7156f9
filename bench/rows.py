"""One side of the benchmarks, a JSON line each: `python -P bench/rows.py frit|torch|tinygrad [--random 1] [--only conv]`.

Without a seed the rows are the listed ones. With one, a kind draws shapes, types and layouts from it and says what each side
does with them; all get the same numbers. Every function is called until it is warm, then for a while; `ms` is the median call.
`digest` says what came out, so that who runs several sides can tell that they did the same: results in blocks, each summed
with weights, and how large what was summed is.
"""

import argparse
import json
import math
import os
import random
import statistics
import time

# threads that wait must not keep the core of whoever runs next
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("KMP_BLOCKTIME", "0")

import numpy as np  # noqa: E402

KINDS = []


def kind(f):
    """A function from a source of random numbers to (name, arrays, torch's function, frit's function)."""
    KINDS.append(f)
    return f


def size(r, low, high):
    """Sizes that people use and sizes that they do not."""
    n = math.exp(r.uniform(math.log(low), math.log(high)))
    step = r.choice([1, 8, 32, 64])
    return max(low, int(n) // step * step)


def floats(*shape, dtype="float32"):
    return ("normal", shape, dtype)


def ints(high, *shape):
    return (high, shape, "int64")


# --- products


def product_name(r):
    return r.choice(["float32"] * 4 + ["bfloat16", "float16", "float64"])


@kind
def matmul(r):
    m, n, k = (size(r, 64, 1200) for _ in range(3))
    dtype, layout = product_name(r), r.choice(["nn", "tn", "nt"])
    a = (k, m) if layout[0] == "t" else (m, k)
    b = (n, k) if layout[1] == "t" else (k, n)

    def f(a, b):
        return (a.T if layout[0] == "t" else a) @ (b.T if layout[1] == "t" else b)

    return f"matmul_{dtype}_{layout}_{m}x{n}x{k}", [floats(*a, dtype=dtype), floats(*b, dtype=dtype)], f, f


@kind
def thin_linear(r):
    m, k, n = r.choice([1, 2, 4, 7, 16]), size(r, 256, 4096), size(r, 256, 4096)
    return f"linear_{m}x{k}x{n}", [floats(m, k), floats(n, k)], lambda x, w: x @ w.T, lambda x, w: x @ w.T


@kind
def batched_matmul(r):
    b, m, n, k = r.choice([8, 16, 48, 96]), size(r, 16, 256), size(r, 16, 256), size(r, 16, 128)
    return f"bmm_{b}x{m}x{n}x{k}", [floats(b, m, k), floats(b, k, n)], lambda a, b: a @ b, lambda a, b: a @ b


@kind
def long_sum_product(r):
    m, n, k = size(r, 64, 512), size(r, 64, 512), size(r, 2048, 8192)
    return f"atb_{m}x{n}x{k}", [floats(k, m), floats(k, n)], lambda a, b: a.T @ b, lambda a, b: a.T @ b


@kind
def vectors(r):
    n = size(r, 1 << 20, 1 << 23)
    if r.random() < 0.5:
        return f"dot_{n}", [floats(n), floats(n)], lambda a, b: a @ b, lambda a, b: a @ b
    m, n = size(r, 1000, 5000), size(r, 1000, 5000)
    return f"outer_{m}x{n}", [floats(m, 1), floats(1, n)], lambda a, b: a * b, lambda a, b: a * b


# --- convolutions


def conv(r, name, n, cin, cout, spatial, window, gradient=False, transposed=False, **how):
    dims = len(spatial)
    groups = how.get("groups", 1)
    weight = (cin, cout // groups, *window) if transposed else (cout, cin // groups, *window)
    arrays = [floats(n, cin, *spatial), floats(*weight)]

    def theirs(x, w):
        import torch.nn.functional as F

        f = getattr(F, f"conv_transpose{dims}d" if transposed else f"conv{dims}d")
        if not gradient:
            return f(x, w, **how)
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        f(x, w, **how).square().sum().backward()
        return x.grad, w.grad

    def ours(x, w):
        def f(x, w):
            return (x.conv_transpose2d if transposed else x.conv2d)(w, **how)

        if not gradient:
            return f(x, w)
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        return f(x, w).square().sum().gradient(x, w)

    text = "x".join(map(str, (n, cin, cout, *spatial)))
    return f"{name}_{text}_w{'x'.join(map(str, window))}", arrays, theirs, ours


@kind
def conv_square(r):
    k, c, hw = r.choice([1, 3, 3, 5, 7]), size(r, 16, 256), size(r, 7, 56)
    return conv(r, "conv2d", r.choice([1, 4, 8]), c, size(r, 16, 256), (hw, hw), (k, k), padding=k // 2)


@kind
def conv_stem(r):
    hw, k = size(r, 96, 224), r.choice([3, 5, 7])
    return conv(r, "stem", r.choice([1, 4]), 3, size(r, 16, 96), (hw, hw), (k, k), padding=k // 2, stride=r.choice([1, 2]))


@kind
def conv_strided(r):
    c, hw = size(r, 32, 256), size(r, 14, 64)
    return conv(r, "stride2", r.choice([1, 4, 8]), c, size(r, 32, 256), (hw, hw), (3, 3), padding=1, stride=2)


@kind
def conv_dilated(r):
    c, hw = size(r, 16, 128), size(r, 14, 56)
    return conv(r, "dilated", r.choice([1, 4]), c, size(r, 16, 128), (hw, hw), (3, 3), padding=2, dilation=2)


@kind
def conv_grouped(r):
    g, hw = r.choice([2, 4, 8, 32]), size(r, 14, 56)
    cin, cout = g * r.choice([4, 8, 16]), g * r.choice([4, 8, 16])
    return conv(r, f"groups{g}", r.choice([1, 4]), cin, cout, (hw, hw), (3, 3), padding=1, groups=g)


@kind
def conv_depthwise(r):
    c, hw, k = size(r, 32, 256), size(r, 14, 56), r.choice([3, 5])
    return conv(r, "depthwise", r.choice([1, 8]), c, c, (hw, hw), (k, k), padding=k // 2, groups=c)


@kind
def conv_one(r):
    c, n, k = size(r, 16, 128), size(r, 500, 8000), r.choice([3, 5, 9])
    return conv(r, "conv1d", r.choice([1, 4]), c, size(r, 16, 128), (n,), (k,), padding=k // 2)


@kind
def conv_three(r):
    c, n = size(r, 8, 64), size(r, 8, 24)
    return conv(r, "conv3d", 1, c, size(r, 8, 64), (n, n, n), (3, 3, 3), padding=1)


@kind
def conv_transposed(r):
    c, hw = size(r, 16, 128), size(r, 8, 40)
    return conv(r, "transposed", r.choice([1, 4]), c, size(r, 16, 128), (hw, hw), (4, 4), transposed=True, padding=1, stride=2)


@kind
def conv_gradient(r):
    c, hw, stride = size(r, 16, 96), size(r, 14, 48), r.choice([1, 1, 2])
    name = f"grad_conv_s{stride}"
    return conv(r, name, r.choice([2, 8]), c, size(r, 16, 96), (hw, hw), (3, 3), gradient=True, padding=1, stride=stride)


# --- layers and their gradients


@kind
def linear_gelu_gradient(r):
    m, k, n = size(r, 128, 1024), size(r, 128, 1024), size(r, 128, 1024)

    def theirs(x, w):
        import torch.nn.functional as F

        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        F.gelu(x @ w.T * k**-0.5).square().sum().backward()
        return x.grad, w.grad

    def ours(x, w):
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        return (x @ w.T * k**-0.5).gelu(approximate="none").square().sum().gradient(x, w)

    return f"grad_linear_gelu_{m}x{k}x{n}", [floats(m, k), floats(n, k)], theirs, ours


@kind
def attention(r):
    b, h, s, d = r.choice([1, 2]), r.choice([4, 8, 12]), size(r, 64, 768), r.choice([32, 64, 128])
    causal, gradient = r.random() < 0.5, r.random() < 0.3

    def theirs(q, k, v):
        import torch.nn.functional as F

        if not gradient:
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        q, k, v = (t.detach().requires_grad_() for t in (q, k, v))
        F.scaled_dot_product_attention(q, k, v, is_causal=causal).square().sum().backward()
        return q.grad, k.grad, v.grad

    def ours(q, k, v):
        if not gradient:
            return q.scaled_dot_product_attention(k, v, is_causal=causal)
        q, k, v = (t.detach().requires_grad_() for t in (q, k, v))
        out = q.scaled_dot_product_attention(k, v, is_causal=causal).square().sum()
        return out.gradient(q, k, v)

    name = f"{'grad_' if gradient else ''}attention{'_causal' if causal else ''}_{b}x{h}x{s}x{d}"
    return name, [floats(b, h, s, d)] * 3, theirs, ours


@kind
def decode(r):
    h, s, d = r.choice([8, 16, 32]), size(r, 1024, 8192), r.choice([64, 128])

    def theirs(q, k, v):
        import torch.nn.functional as F

        return F.scaled_dot_product_attention(q, k, v)

    def ours(q, k, v):
        return q.scaled_dot_product_attention(k, v)

    return f"decode_{h}x{s}x{d}", [floats(1, h, 1, d), floats(1, h, s, d), floats(1, h, s, d)], theirs, ours


# --- rows and columns


@kind
def normalise(r):
    m, n = size(r, 256, 4096), size(r, 256, 8192)
    m = min(m, (1 << 23) // n)
    which = r.choice(["softmax", "log_softmax", "layernorm", "rmsnorm"])
    both = {
        "softmax": lambda x: x.softmax(-1),
        "log_softmax": lambda x: x.log_softmax(-1),
        "rmsnorm": lambda x: x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt(),
    }

    def theirs(x):
        import torch.nn.functional as F

        return F.layer_norm(x, (n,)) if which == "layernorm" else both[which](x)

    def ours(x):
        return x.layernorm() if which == "layernorm" else both[which](x)

    return f"{which}_{m}x{n}", [floats(m, n)], theirs, ours


@kind
def reduction(r):
    n = r.choice([2, 3])
    shape = [size(r, 16, 512) for _ in range(n - 1)] + [size(r, 64, 4096)]
    while math.prod(shape) > 1 << 24:
        shape[r.randrange(n)] //= 2
    which = r.choice(["sum", "mean", "max", "var"])
    axes = tuple(sorted(r.sample(range(n), r.choice([1, 1, 2]))))

    def f(x):
        return getattr(x, {"max": "amax"}.get(which, which) if hasattr(x, "amax") else which)(axes)

    return f"{which}_{'x'.join(map(str, shape))}_over{''.join(map(str, axes))}", [floats(*shape)], f, f


@kind
def full_sum(r):
    n = size(r, 1 << 18, 1 << 24)
    return f"sum_{n}", [floats(n)], lambda x: x.sum(), lambda x: x.sum()


@kind
def scan(r):
    m, n = size(r, 64, 2048), size(r, 64, 4096)
    axis = r.choice([0, 1])
    return f"cumsum_{m}x{n}_axis{axis}", [floats(m, n)], lambda x: x.cumsum(axis), lambda x: x.cumsum(axis)


@kind
def ordering(r):
    m, n = size(r, 1, 512), size(r, 512, 16384)
    which = r.choice(["sort", "argmax", "topk"])
    k = r.choice([5, 10, 50])
    two = {
        "sort": (lambda x: x.sort(-1)[0], lambda x: x.sort(-1)[0]),
        "argmax": (lambda x: x.argmax(-1), lambda x: x.argmax(-1)),
        "topk": (lambda x: x.topk(k)[0], lambda x: x.topk(k)[0]),
    }[which]
    return f"{which}_{m}x{n}", [floats(m, n)], *two


# --- elementwise and movement


@kind
def function(r):
    n = size(r, 1 << 18, 1 << 23)
    which = r.choice(["sin", "cos", "exp", "log", "tanh", "sigmoid", "sqrt", "erf", "gelu", "silu"])

    def theirs(x):
        import torch.nn.functional as F

        x = x.abs() if which in ("log", "sqrt") else x
        return getattr(F, which)(x) if which in ("gelu", "silu") else getattr(x, which)()

    def ours(x):
        x = x.abs() if which in ("log", "sqrt") else x
        return x.gelu(approximate="none") if which == "gelu" else getattr(x, which)()

    return f"{which}_{n}", [floats(n)], theirs, ours


@kind
def chain(r):
    n, dtype = size(r, 1 << 20, 1 << 23), r.choice(["float32", "bfloat16"])

    def f(x, y):
        return x.sigmoid() * y + x

    return f"chain_{dtype}_{n}", [floats(n, dtype=dtype)] * 2, f, f


@kind
def broadcast(r):
    m, n = size(r, 256, 4096), size(r, 256, 4096)
    column = r.random() < 0.5
    b = (m, 1) if column else (1, n)
    return f"add_{m}x{n}_{'column' if column else 'row'}", [floats(m, n), floats(*b)], lambda x, y: x + y, lambda x, y: x + y


@kind
def movement(r):
    m, n = size(r, 256, 4096), size(r, 256, 4096)
    which = r.choice(["transpose", "roll", "flip", "cat", "pad", "permute"])
    three = {"permute": (64, max(1, m // 64), n)}.get(which, (m, n))

    def theirs(x):
        import torch
        import torch.nn.functional as F

        return {
            "transpose": lambda: x.T.contiguous(),
            "roll": lambda: x.roll(37, 1),
            "flip": lambda: x.flip(1),
            "cat": lambda: torch.cat([x, x], 1),
            "pad": lambda: F.pad(x, (3, 5)),
            "permute": lambda: x.permute(1, 0, 2).contiguous(),
        }[which]()

    def ours(x):
        return {
            "transpose": lambda: x.T.contiguous(),
            "roll": lambda: x.roll(37, 1).contiguous(),
            "flip": lambda: x.flip(1).contiguous(),
            "cat": lambda: x.cat(x, dim=1).contiguous(),
            "pad": lambda: x.pad((3, 5)).contiguous(),
            "permute": lambda: x.permute(1, 0, 2).contiguous(),
        }[which]()

    return f"{which}_{'x'.join(map(str, three))}", [floats(*three)], theirs, ours


@kind
def indexing(r):
    rows, width, n = size(r, 1000, 50000), size(r, 64, 768), size(r, 256, 8192)
    if r.random() < 0.5:
        name = f"embedding_{rows}x{width}_{n}"
        return name, [floats(rows, width), ints(rows, n)], lambda t, i: t[i], lambda t, i: t[i]
    rows = min(rows, 5000)

    def theirs(x, i):
        import torch

        return torch.zeros(rows, width).scatter_add(0, i.unsqueeze(1).expand(n, width), x)

    def ours(x, i):
        from frit import Tensor

        index = i.unsqueeze(1).expand(n, width)
        return Tensor.zeros(rows, width).scatter_reduce(0, index, x, reduce="sum")

    return f"scatter_add_{rows}x{width}_{n}", [floats(n, width), ints(rows, n)], theirs, ours


@kind
def resize(r):
    c, hw, to = size(r, 3, 64), size(r, 16, 128), size(r, 32, 256)

    def theirs(x):
        import torch.nn.functional as F

        return F.interpolate(x, (to, to), mode="bilinear", align_corners=False)

    def ours(x):
        return x.interpolate((to, to), mode="linear")

    return f"resize_{c}x{hw}to{to}", [floats(1, c, hw, hw)], theirs, ours


@kind
def pool(r):
    c, hw = size(r, 16, 128), size(r, 14, 112)
    which, k = r.choice(["max", "avg"]), r.choice([2, 3])

    def theirs(x):
        import torch.nn.functional as F

        return getattr(F, f"{which}_pool2d")(x, k)

    return f"{which}_pool{k}_{c}x{hw}", [floats(4, c, hw, hw)], theirs, lambda x: getattr(x, f"{which}_pool2d")((k, k))


# --- the listed ones


def listed():
    """Rows of `frit bench` that need no model."""

    def theirs_attention(q, k, v):
        import torch.nn.functional as F

        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def theirs_layernorm(x):
        import torch.nn.functional as F

        return F.layer_norm(x, x.shape[-1:])

    def product(a, b):
        return a @ b

    def fused(x, y):
        return x.sigmoid() * y + x

    def same(name, arrays, f):
        return name, arrays, f, f

    big, long, r = floats(4096, 4096), floats(1 << 24), random.Random(0)
    all = [same(f"gemm_f32_{n}", [floats(n, n)] * 2, product) for n in (512, 1024, 2048)]
    all += [
        same("gemm_bf16_1024", [floats(1024, 1024, dtype="bfloat16")] * 2, product),
        same("gemv_f32_4096", [big, floats(4096)], product),
        same("fused_elementwise_16m", [long, long], fused),
        same("exp_16m", [long], lambda x: x.exp()),
        same("sum_16m", [long], lambda x: x.sum()),
        same("softmax_4096", [big], lambda x: x.softmax(-1)),
        ("layernorm_4096", [big], theirs_layernorm, lambda x: x.layernorm()),
        same("transpose_4096", [big], lambda x: x.T.contiguous()),
        same("cumsum_4096", [big], lambda x: x.cumsum(1)),
        same("argmax_4096", [big], lambda x: x.argmax(-1)),
        same("sort_1024x1024", [floats(1024, 1024)], lambda x: x.sort(-1)[0]),
        same("gather_embedding", [floats(50257, 768), ints(50257, 1024)], lambda t, i: t[i]),
        ("conv3x3_64x128", *conv(r, "", 8, 64, 128, (56, 56), (3, 3), padding=1)[1:]),
        ("conv_depthwise", *conv(r, "", 8, 64, 64, (56, 56), (3, 3), padding=1, groups=64)[1:]),
    ]
    attention = ("attention_8x512x64", [floats(1, 8, 512, 64)] * 3, theirs_attention)
    all.append((*attention, lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True)))
    return all


# --- running them


def rows(seed, count):
    """The listed rows without a seed; else so many, every kind as often as the next."""
    if seed is None:
        return listed()
    r = random.Random(seed)
    return [KINDS[i % len(KINDS)](r) for i in range(count)]


def array(spec, seed):
    what, shape, dtype = spec
    g = np.random.default_rng(seed)
    if what == "normal":
        return g.standard_normal(shape, dtype=np.float32).astype("float64" if dtype == "float64" else "float32"), dtype
    return g.integers(0, what, shape), dtype


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


def sides():
    def torch_side(f, arrays, threads):
        import torch

        torch.set_num_threads(threads)
        given = [torch.from_numpy(a).to(getattr(torch, d)) for a, d in arrays]
        return lambda: f(*given), lambda out: out.detach().double().numpy()

    def lazy_side(module, f, arrays):
        Tensor, TinyJit, dtypes = module.Tensor, module.TinyJit, module.dtypes
        given = [Tensor(a).cast(getattr(dtypes, d)).contiguous().realize() for a, d in arrays]

        def realised(*tensors):
            out = f(*tensors)
            Tensor.realize(*all_of(out))
            return out

        step = TinyJit(realised)
        return lambda: step(*given), lambda out: out.cast(dtypes.float32).numpy()

    def frit_side(f, arrays, threads):
        import frit

        return lazy_side(frit, f, arrays)

    def tinygrad_side(f, arrays, threads):
        import tinygrad

        return lazy_side(tinygrad, f, arrays)

    return {"torch": torch_side, "frit": frit_side, "tinygrad": tinygrad_side}


def timed(call, seconds):
    """Milliseconds of the median call and of the quickest."""
    for _ in range(3):
        call()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 5 or (time.perf_counter() < end and len(times) < 1000):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return {"ms": statistics.median(times) * 1e3, "least_ms": min(times) * 1e3}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("side", choices=["frit", "torch", "tinygrad"])
    p.add_argument("--random", type=int, metavar="SEED", help="rows drawn from a seed (the listed ones)")
    p.add_argument("--count", type=int, default=100, help="how many rows (100)")
    p.add_argument("--part", default="0:", metavar="FROM:TO", help="only these of them (all)")
    p.add_argument("--only", help="rows whose names hold this")
    p.add_argument("--seconds", type=float, default=0.25, help="how long each is called (0.25)")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads (all)")
    a = p.parse_args()
    os.environ.setdefault("FRIT_THREADS", str(a.threads))
    side = sides()[a.side]
    begin, _, end = a.part.partition(":")
    all_rows = rows(a.random, a.count)
    part = range(len(all_rows))[int(begin or 0) : int(end) if end else None]
    for i, (name, specs, theirs, ours) in enumerate(all_rows):
        if i not in part or (a.only and a.only not in name):
            continue
        arrays = [array(s, 1000 * (a.random or 0) + 10 * i + j) for j, s in enumerate(specs)]
        try:
            call, look = side(theirs if a.side == "torch" else ours, arrays, a.threads)
            begin = time.perf_counter()
            looked = [look(t) for t in all_of(call())]
            first = time.perf_counter() - begin
            small = any(d in ("float16", "bfloat16") for _, d in arrays)
            row = {"name": name, **timed(call, a.seconds), "digest": digest(looked), "small": small, "first_s": first}
        except Exception as e:
            row = {"name": name, "error": f"{type(e).__name__}: {e}"}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
