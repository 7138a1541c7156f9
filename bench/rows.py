"""The rows of the benchmarks: what each side does, with which arrays. `side.py` runs them.

Without a seed the rows are the listed ones. With one, a kind draws shapes, types and layouts from it and says what each side
does with them; all get the same numbers.
"""

import math
import os
import random
from typing import Any, NamedTuple

KINDS, LATER = [], []


class Row(NamedTuple):
    """What there is to time. A side without a function of its own leaves the row out."""

    name: str
    # (what, shape, type) of each
    arrays: list
    torch: Any
    # tinygrad's, too
    frit: Any
    # from the arrays to a model of that kind; who has no function runs it, if it can
    onnx: Any = None
    # the functions above make the step that is timed, whose results are those of its first calls
    makes_step: bool = False
    # results are compared in ascending order
    in_any_order: bool = False
    # bytes that it must read, of memory-bound work that is to be held against a copy
    reads: int = 0


def kind(f):
    """A function from a source of random numbers to what a row has: name, arrays, torch's function, frit's function, and more."""
    KINDS.append(f)
    return f


def later_kind(f):
    """A kind that came later: its rows follow those of the others, which stay what they were."""
    LATER.append(f)
    return f


def size(r, low, high):
    """Sizes that people use and sizes that they do not."""
    n = math.exp(r.uniform(math.log(low), math.log(high)))
    step = r.choice([1, 8, 32, 64])
    return max(low, int(n) // step * step)


def floats(*shape, dtype="float32"):
    return ("normal", shape, dtype)


def ints(high, *shape, dtype="int64"):
    return (high, shape, dtype)


def signed_bytes(*shape):
    """So small that no sum of two products with a byte leaves int16, where some machines add them."""
    return ("signed", shape, "int8")


def model_of(node, given, held, result, domain="", **attributes):
    """A model of one node in the form of ONNX, and what it is given: arrays by name, given or held."""
    from onnx import TensorProto, helper, numpy_helper

    def port(name, array):
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)

    names = [*given, *held]
    out = helper.make_tensor_value_info("y", getattr(TensorProto, result[0]), result[1])
    graph = helper.make_graph(
        [helper.make_node(node, names, ["y"], domain=domain, **attributes)],
        node,
        [port(name, array) for name, array in given.items()],
        [out],
        [numpy_helper.from_array(array, name) for name, array in held.items()],
    )
    versions = [helper.make_opsetid("", 21)] + [helper.make_opsetid(domain, 1)] * bool(domain)
    return helper.make_model(graph, opset_imports=versions, ir_version=10).SerializeToString(), given


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


# --- whole numbers, and what is not a function of its arrays


def whole_product(name, signed, m, n, k):
    """Bytes times signed bytes, summed in int32. torch has it for signed ones alone."""
    left = signed_bytes(m, k) if signed else ints(256, m, k, dtype="uint8")

    def theirs(a, b):
        import torch

        return torch._int_mm(a, b)

    def ours(a, b):
        return a.matmul(b, dtype="int32")

    def model(a, b):
        return model_of("MatMulInteger", {"a": a, "b": b}, {}, ("INT32", [m, n]))

    return Row(name, [left, signed_bytes(k, n)], theirs if signed else None, ours, model)


@later_kind
def whole_products(r):
    signed, m, n, k = r.random() < 0.5, *(size(r, 64, 1200) for _ in range(3))
    return whole_product(f"matmul_{'int8' if signed else 'uint8_int8'}_{m}x{n}x{k}", signed, m, n, k)


def weights_of_four_bits(n, k, block=32):
    """A vector times weights of 4 bits with a scale for each block of them, products in whole numbers: both run the model."""

    def model(x, codes, scales):
        how = {"K": k, "N": n, "bits": 4, "block_size": block, "accuracy_level": 4}
        held = {"codes": codes, "scales": scales}
        return model_of("MatMulNBits", {"x": x}, held, ("FLOAT", [1, n]), "com.microsoft", **how)

    blocks = n * k // block
    arrays = [floats(1, k), ints(256, n, k // block, block // 2, dtype="uint8"), floats(blocks)]
    return Row(f"gemv_4bit_{n}x{k}", arrays, None, None, model, reads=n * k // 2 + 4 * blocks)


@later_kind
def gemv_of_four_bits(r):
    return weights_of_four_bits(64 * r.randint(16, 256), 64 * r.randint(16, 128))


def permutation(n):
    def theirs():
        import torch

        return torch.randperm(n)

    def ours():
        from frit import Tensor

        return Tensor.randperm(n, dtype="int64")

    return Row("randperm_1m", [], theirs, ours, in_any_order=True)


def training_step(layers=4, width=384, heads=6, batch=16, length=128, tokens=256):
    """A step of AdamW of a small GPT: the same weights on both sides; results are the losses of the first steps."""
    shapes = [(tokens, width), (length, width)]
    for _ in range(layers):
        shapes += [(width,), (width,), (3 * width, width), (width, width)]
        shapes += [(width,), (width,), (4 * width, width), (width, 4 * width)]
    shapes += [(width,), (width,), (tokens, width)]

    def logits(x, weights, normalise, gelu, attend):
        """From embeddings `(batch, length, width)`."""
        weights = iter(weights)
        for _ in range(layers):
            qkv = normalise(x, next(weights), next(weights)) @ next(weights).T
            q, k, v = (qkv[:, :, i * width : (i + 1) * width] for i in range(3))
            q, k, v = (t.reshape(batch, length, heads, width // heads).transpose(1, 2) for t in (q, k, v))
            x = x + attend(q, k, v).transpose(1, 2).reshape(batch, length, width) @ next(weights).T
            h = normalise(x, next(weights), next(weights)) @ next(weights).T
            x = x + gelu(h) @ next(weights).T
        return normalise(x, next(weights), next(weights)) @ next(weights).T

    def theirs(text, *weights):
        import torch
        import torch.nn.functional as F

        weights = [(w * 0.02).requires_grad_() for w in weights]
        optimiser = torch.optim.AdamW(weights, lr=1e-3, weight_decay=0.01)

        def attend(q, k, v):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

        def step():
            x = F.embedding(text[:, :-1], weights[0]) + weights[1]
            out = logits(x, weights[2:], lambda x, w, b: F.layer_norm(x, (width,), w + 1, b), F.gelu, attend)
            loss = F.cross_entropy(out.reshape(-1, tokens), text[:, 1:].reshape(-1))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            return loss

        return step

    def ours(text, *weights):
        from frit import Tensor, nn

        weights = [(w * 0.02).contiguous().requires_grad_().realize() for w in weights]
        optimiser = nn.optim.AdamW(weights, lr=1e-3, weight_decay=0.01)

        def attend(q, k, v):
            return q.scaled_dot_product_attention(k, v, is_causal=True)

        def step():
            x = weights[0][text[:, :-1]] + weights[1]
            gelu = lambda x: x.gelu(approximate="none")  # noqa: E731
            out = logits(x, weights[2:], lambda x, w, b: x.layernorm() * (w + 1) + b, gelu, attend)
            loss = out.reshape(-1, tokens).sparse_categorical_crossentropy(text[:, 1:].reshape(-1))
            optimiser.zero_grad()
            loss.backward()
            with Tensor.train():
                optimiser.step()
            return loss

        return step

    arrays = [ints(tokens, batch, length + 1), *(floats(*shape) for shape in shapes)]
    return Row(f"gpt_train_{layers}x{width}_{batch}x{length}", arrays, theirs, ours, makes_step=True)


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
    all += [
        whole_product("matmul_int8_1024", True, 1024, 1024, 1024),
        whole_product("matmul_uint8_int8_1024", False, 1024, 1024, 1024),
        weights_of_four_bits(14336, 4096),
        permutation(1_000_000),
        training_step(),
    ]
    return all


def rows(seed, count):
    """The listed rows without a seed; else so many, every kind as often as the next, and one of each later kind."""
    if seed is None:
        return [Row(*row) for row in listed()]
    r = random.Random(seed)
    drawn = [KINDS[i % len(KINDS)](r) for i in range(count)]
    return [Row(*row) for row in drawn + [later(random.Random(f"{seed} {later.__name__}")) for later in LATER]]
