"""Every op of the golden files, spelled as a Python program would: a function of inputs and the case."""

from frit import Tensor, dtypes


def optional(i, k):
    return i[k] if len(i) > k else None


def fixed(i, k):
    """An input that torch has no gradient for."""
    return i[k].detach() if len(i) > k else None


def axes(c):
    return c.ints("dim") if "dim" in c.params else None


def over(name):
    return lambda i, c: getattr(i[0], name)(axes(c), keepdim=c.flag("keepdim"))


def spread(name):
    return lambda i, c: getattr(i[0], name)(axes(c), c.flag("keepdim"), c.int("correction", 1))


def along(name):
    return lambda i, c: getattr(i[0], name)(c.int("dim"))


def one_axis(name):
    return lambda i, c: getattr(i[0], name)(c.int("dim"), keepdim=c.flag("keepdim"))


def pairs(n):
    return [tuple(n[k : k + 2]) for k in range(0, len(n), 2)]


def unary(*names):
    return {n: (lambda i, c, n=n: getattr(i[0], n)()) for n in names}


def binary(*names):
    return {n: (lambda i, c, n=n: getattr(i[0], n)(i[1])) for n in names}


TYPES = {
    "bool": dtypes.bool, "i8": dtypes.int8, "u8": dtypes.uint8, "i32": dtypes.int32,
    "f32": dtypes.float32, "f16": dtypes.float16, "bf16": dtypes.bfloat16,
}  # fmt: skip


def batchnorm(i, c):
    eps = c.float("eps", 1e-5)
    return i[0].batchnorm(optional(i, 3), optional(i, 4), i[1], (i[2] + eps).rsqrt())


def batchnorm_train(i, c):
    rest = [a for a in range(i[0].ndim) if a != 1]
    var, mean = i[0].var(rest, correction=0), i[0].mean(rest)
    return i[0].batchnorm(optional(i, 1), optional(i, 2), mean, (var + c.float("eps", 1e-5)).rsqrt())


CORE = {
    **unary(*"""neg abs sign floor ceil trunc round sqrt rsqrt reciprocal square exp exp2 expm1 log log2 log10 log1p sin cos
    tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc sigmoid logsigmoid softplus softsign relu relu6 hardtanh
    hardsigmoid hardswish selu quick_gelu silu mish isnan isinf isfinite logical_not bitwise_not""".split()),
    **binary(*"""maximum minimum atan2 copysign logaddexp fmod eq ne lt le gt ge logical_and logical_or logical_xor
    bitwise_and bitwise_or bitwise_xor""".split()),
    "add": lambda i, c: i[0] + i[1],
    "sub": lambda i, c: i[0] - i[1],
    "mul": lambda i, c: i[0] * i[1],
    "div": lambda i, c: i[0] / i[1],
    "pow": lambda i, c: i[0] ** i[1],
    "floor_div": lambda i, c: i[0] // i[1],
    "modulo": lambda i, c: i[0] % i[1],
    "shl": lambda i, c: i[0] << i[1],
    "shr": lambda i, c: i[0] >> i[1],
    "gelu": lambda i, c: i[0].gelu(approximate="none"),
    "gelu_tanh": lambda i, c: i[0].gelu(),
    "leaky_relu": lambda i, c: i[0].leaky_relu(c.float("slope", 0.01)),
    "elu": lambda i, c: i[0].elu(c.float("alpha", 1.0)),
    "celu": lambda i, c: i[0].celu(c.float("alpha", 1.0)),
    "clamp": lambda i, c: i[0].clamp(c.float("low"), c.float("high")),
    "where": lambda i, c: i[0].where(i[1], i[2]),
    "lerp": lambda i, c: i[0].lerp(i[1], i[2]),
    "cast": lambda i, c: i[0].cast(TYPES[c.params["to"]]),
    "cast_via": lambda i, c: i[0].cast(TYPES[c.params["via"]]).cast(i[0].dtype),
    **{n: over(n) for n in "sum prod max min mean logsumexp any all".split()},
    **{n: spread(n) for n in ("var", "std")},
    **{n: one_axis(n) for n in ("argmax", "argmin")},
    **{n: along(n) for n in "cumsum cumprod softmax log_softmax".split()},
    "cummax": lambda i, c: i[0].cummax(c.int("dim"))[0],
    "cummin": lambda i, c: i[0].cummin(c.int("dim"))[0],
    "sort": lambda i, c: i[0].sort(c.int("dim"), c.flag("descending")),
    "reshape": lambda i, c: i[0].reshape(*c.ints("shape")),
    "permute": lambda i, c: i[0].permute(*c.ints("order")),
    "expand": lambda i, c: i[0].expand(tuple(c.ints("shape"))),
    "flip": lambda i, c: i[0].flip(c.ints("dim")),
    "pad": lambda i, c: i[0].pad(tuple(pairs(c.ints("around"))), value=c.float("value", 0.0)),
    "shrink": lambda i, c: i[0].shrink(tuple(pairs(c.ints("keep")))),
    "slice": lambda i, c: i[0][(slice(None),) * c.int("dim") + (slice(c.bound("start"), c.bound("stop"), c.int("step", 1)),)],
    "cat": lambda i, c: Tensor.cat(*i, dim=c.int("dim")),
    "stack": lambda i, c: i[0].stack(*i[1:], dim=c.int("dim")),
    "repeat": lambda i, c: i[0].repeat(*c.ints("times")),
    "roll": lambda i, c: i[0].roll(tuple(c.ints("shifts")), tuple(c.ints("dim"))),
    "tril": lambda i, c: i[0].tril(c.int("k", 0)),
    "triu": lambda i, c: i[0].triu(diagonal=c.int("k", 0)),
    "one_hot": lambda i, c: i[0].one_hot(c.int("classes")),
    "gather": lambda i, c: i[0].gather(c.int("dim"), i[1]),
    "scatter_add": lambda i, c: i[0].scatter_add(c.int("dim"), i[1], i[2]),
    "index_select": lambda i, c: i[0].index_select(c.int("dim"), i[1]),
    "index_add": lambda i, c: i[0].index_add(c.int("dim"), i[1], i[2]),
    "embedding": lambda i, c: i[0].embedding(i[1]),
    "matmul": lambda i, c: i[0] @ i[1],
    "linear": lambda i, c: i[0].linear(i[1].T, optional(i, 2)),
    "conv2d": lambda i, c: i[0].conv2d(
        i[1], optional(i, 2), c.int("groups", 1), c.ints("stride", (1, 1)), c.ints("dilation", (1, 1)), c.ints("padding", (0, 0))
    ),
    "max_pool2d": lambda i, c: i[0].max_pool2d(
        c.ints("kernel"), c.ints("stride", c.ints("kernel")), c.ints("dilation", (1, 1)), c.ints("padding", (0, 0))
    ),
    "avg_pool2d": lambda i, c: i[0].avg_pool2d(
        c.ints("kernel"), c.ints("stride", c.ints("kernel")), padding=c.ints("padding", (0, 0)),
        count_include_pad=c.params.get("count_include_pad") != "false",
    ),  # fmt: skip
    "layernorm": lambda i, c: i[0].layernorm(
        tuple(range(-c.int("axes"), 0)), c.float("eps", 1e-5), weight=optional(i, 1), bias=optional(i, 2)
    ),
    "rmsnorm": lambda i, c: i[0].rmsnorm(-1, c.float("eps", 1e-5), optional(i, 1)),
    "groupnorm": lambda i, c: i[0].groupnorm(c.int("groups"), optional(i, 1), optional(i, 2)),
    "batchnorm": batchnorm,
    "batchnorm_train": batchnorm_train,
    "scaled_dot_product_attention": lambda i, c: i[0].scaled_dot_product_attention(i[1], i[2], optional(i, 3)),
    "cross_entropy": lambda i, c: i[0].cross_entropy(
        i[1], label_smoothing=c.float("smoothing", 0.0), ignore_index=c.int("ignore_index", -100)
    ),
    "nll_loss": lambda i, c: i[0].nll_loss(i[1], ignore_index=c.int("ignore_index", -100)),
    "mse_loss": lambda i, c: i[0].mse_loss(i[1]),
    "l1_loss": lambda i, c: i[0].l1_loss(i[1]),
}


def item(text, inputs):
    if text == "e":
        return ...
    if text == "n":
        return None
    if text in ("yes", "no"):
        return text == "yes"
    if text[0] == "i":
        return int(text[1:])
    if text[0] == "t":
        return inputs[int(text[1:])]
    return slice(*[int(v) if v else None for v in text[1:].split(":")])


def places(i, c):
    return tuple(item(t, i) for t in c.params["index"].split("/"))


def put(i, c):
    if c.flag("accumulate"):
        return i[0].index_put(places(i, c), i[-1], accumulate=True)
    x = i[0].clone()
    x[places(i, c)] = i[-1]
    return x


INDEXING = {
    "index": lambda i, c: i[0][places(i, c)],
    "index_put": lambda i, c: i[0].index_put(places(i, c), i[-1], c.flag("accumulate")),
    "set": put,
    "scatter": lambda i, c: i[0].scatter(c.int("dim"), i[1], i[2] if len(i) > 2 else c.float("value")),
    "scatter_reduce": lambda i, c: i[0].scatter_reduce(
        c.int("dim"), i[1], i[2], reduce=c.params["how"], include_self=not c.flag("apart")
    ),
    "index_copy": lambda i, c: i[0].index_copy(c.int("dim"), i[1], i[2]),
    "index_fill": lambda i, c: i[0].index_fill(c.int("dim"), i[1], c.float("value")),
    "masked_fill": lambda i, c: i[0].masked_fill(i[1], c.float("value")),
    "masked_scatter": lambda i, c: i[0].masked_scatter(i[1], i[2]),
    "masked_select": lambda i, c: i[0].masked_select(i[1]),
    "nonzero": lambda i, c: i[0].nonzero(),
    "nonzero_tuple": lambda i, c: i[0].nonzero(as_tuple=True),
    "take": lambda i, c: i[0].take(i[1]),
    "take_along_dim": lambda i, c: i[0].take_along_dim(i[1], c.int("dim")),
    "select": lambda i, c: i[0].select(c.int("dim"), c.int("place")),
}


def svd(i, c):
    u, s, vt = i[0].svd(full_matrices=False)

    def spectrum(u):
        return (u * Tensor.arange(1, u.shape[-1] + 1)) @ u.transpose(-2, -1)

    return s, spectrum(u), spectrum(vt.transpose(-2, -1))


def triangular(i, c):
    a = i[0].transpose(-2, -1) if c.flag("transpose") else i[0]
    upper = c.flag("upper") != c.flag("transpose")
    return a.solve_triangular(i[1], upper=upper, unitriangular=c.flag("unit"))


LINALG = {
    "cholesky": lambda i, c: (i[0] @ i[0].mT + 0.5 * Tensor.eye(i[0].shape[-2])).cholesky(),
    "inverse": lambda i, c: i[0].inverse(),
    "solve": lambda i, c: i[0].solve(i[1]),
    "det": lambda i, c: i[0].det(),
    "slogdet": lambda i, c: i[0].slogdet(),
    "triangular_solve": triangular,
    "lstsq": lambda i, c: i[0].lstsq(i[1]),
    "qr": lambda i, c: i[0].qr("complete" if c.flag("complete") else "reduced"),
    "svd": svd,
    "svdvals": lambda i, c: i[0].svdvals(),
    "matrix_power": lambda i, c: i[0].matrix_power(c.int("n")),
    "newton_schulz": lambda i, c: i[0].newton_schulz(c.int("steps"), c.floats("params"), 1e-7),
    "outer": lambda i, c: i[0].outer(i[1]),
    "kron": lambda i, c: i[0].kron(i[1]),
    "trace": lambda i, c: i[0].trace(),
    "einsum": lambda i, c: Tensor.einsum(c.params["formula"].replace(";", ","), *i),
    "dot": lambda i, c: i[0].dot(i[1]),
}

MOVING = {
    "pad_mode": lambda i, c: i[0].pad(c.ints("amounts"), c.params["mode"], c.float("value", 0.0)),
    "unfold": lambda i, c: i[0].unfold(c.int("dim"), c.int("size"), c.int("step")),
    "diagonal": lambda i, c: i[0].diagonal(c.int("offset", 0), *c.ints("dims", (0, 1))),
    "diag": lambda i, c: i[0].diag(c.int("offset", 0)),
    "diag_embed": lambda i, c: i[0].diag_embed(c.int("offset", 0), *c.ints("dims", (-2, -1))),
    "as_strided": lambda i, c: i[0].as_strided(c.ints("size"), c.ints("stride"), c.int("offset", 0)),
    "roll_all": lambda i, c: i[0].roll(c.int("shift")),
    "movedim": lambda i, c: i[0].movedim(c.ints("source"), c.ints("to")),
    "rot90": lambda i, c: i[0].rot90(c.int("times"), tuple(c.ints("dims", (0, 1)))),
    "tile": lambda i, c: i[0].tile(c.ints("counts")),
    "repeat_interleave": lambda i, c: i[0].repeat_interleave(c.int("times"), c.int("dim")),
    "repeat_interleave_by": lambda i, c: i[0].repeat_interleave(i[1], c.int("dim")),
    "split": lambda i, c: i[0].split(c.ints("sizes") or c.int("size"), c.int("dim")),
    "chunk": lambda i, c: i[0].chunk(c.int("pieces"), c.int("dim")),
    "tensor_split": lambda i, c: i[0].tensor_split(c.ints("places"), c.int("dim")),
    "unbind": lambda i, c: i[0].unbind(c.int("dim")),
    "unflatten": lambda i, c: i[0].unflatten(c.int("dim"), c.ints("sizes")),
    "flatten": lambda i, c: i[0].flatten(c.int("start"), c.int("end")),
    "rearrange": lambda i, c: i[0].rearrange(c.params["pattern"], **{k: c.int(k) for k in "ach" if k in c.params}),
    "meshgrid": lambda i, c: i[0].meshgrid(*i[1:], indexing=c.params["indexing"]),
    "linspace": lambda i, c: Tensor.linspace(c.float("start"), c.float("end"), c.int("n")),
    "logspace": lambda i, c: Tensor.logspace(c.float("start"), c.float("end"), c.int("n"), c.float("base")),
    "eye": lambda i, c: Tensor.eye(*c.ints("dims")),
}


def window(c):
    return dict(stride=c.ints("stride", (1,)), dilation=c.ints("dilation", (1,)), groups=c.int("groups", 1))


def padding(c):
    return c.params["padding"] if c.params.get("padding") in ("same", "valid") else c.ints("padding", (0,))


def pool(name, **options):
    def run(i, c):
        given = {k: f(c) for k, f in options.items()}
        stride = c.ints("stride") or None
        return getattr(i[0], name)(tuple(c.ints("kernel")), stride, padding=c.ints("padding", (0,)), ceil_mode=c.flag("ceil"), **given)

    return run


def max_unpool(i, c):
    kernel = tuple(c.ints("kernel"))
    values, indices = i[0].max_pool2d(kernel, return_indices=True)
    return values.max_unpool2d(indices, kernel, output_size=c.ints("output") or None)


def interpolate(i, c):
    where = dict(scale_factor=c.floats("factor")) if "factor" in c.params else dict(size=tuple(c.ints("size")))
    return i[0].interpolate(mode=c.params["mode"], align_corners=c.flag("align_corners"), antialias=c.flag("antialias"), **where)


def attention(i, c):
    return i[0].scaled_dot_product_attention(
        i[1], i[2], optional(i, 3), 0.0, c.flag("causal"), c.flag("gqa"), scale=c.float("scale")
    )


def rope(i, c):
    return i[0].rope(
        c.float("base", 10000.0), interleaved=c.flag("interleaved"), dims=c.int("dims"), offset=c.int("offset", 0),
        positions=optional(i, 1),
    )  # fmt: skip


def loss(name, **options):
    """A loss of all inputs, with numbers the case has: option=(its name in the case, default)."""

    def run(i, c):
        given = {k: c.float(key, default) for k, (key, default) in options.items()}
        return getattr(i[0], name)(*i[1:], reduction=c.params.get("reduction", "mean"), **given)

    return run


def how(c):
    return c.params.get("reduction", "mean")


NEURAL = {
    "conv": lambda i, c: i[0].conv2d(i[1], optional(i, 2), padding=padding(c), **window(c)),
    "conv_transpose": lambda i, c: i[0].conv_transpose2d(
        i[1], optional(i, 2), padding=c.ints("padding", (0,)), output_padding=c.ints("output_padding", (0,)), **window(c)
    ),
    "max_pool": pool("max_pool2d", dilation=lambda c: c.ints("dilation", (1,)), return_indices=lambda c: c.flag("indices")),
    "avg_pool": pool(
        "avg_pool2d",
        count_include_pad=lambda c: c.params.get("count_include_pad") != "false",
        divisor_override=lambda c: c.int("divisor"),
    ),
    "lp_pool": lambda i, c: i[0].lp_pool2d(c.float("p"), tuple(c.ints("kernel")), c.ints("stride") or None, c.flag("ceil")),
    "max_unpool": max_unpool,
    "adaptive_avg_pool": lambda i, c: i[0].adaptive_avg_pool2d(tuple(c.ints("size"))),
    "adaptive_max_pool": lambda i, c: i[0].adaptive_max_pool2d(tuple(c.ints("size")), return_indices=True),
    "interpolate": interpolate,
    "grid_sample": lambda i, c: i[0].grid_sample(i[1], c.params["mode"], c.params["outside"], c.flag("align_corners")),
    "affine_grid": lambda i, c: i[0].affine_grid(c.ints("size"), c.flag("align_corners")),
    "pixel_shuffle": lambda i, c: i[0].pixel_shuffle(c.int("factor")),
    "pixel_unshuffle": lambda i, c: i[0].pixel_unshuffle(c.int("factor")),
    "attention": attention,
    "rope": rope,
    "local_response_norm": lambda i, c: i[0].local_response_norm(c.int("size"), c.float("alpha"), c.float("beta"), c.float("k")),
    "normalize": lambda i, c: i[0].normalize(c.float("p", 2.0), c.int("dim", 1)),
    "prelu": lambda i, c: i[0].prelu(i[1]),
    "glu": lambda i, c: i[0].glu(c.int("dim")),
    "threshold": lambda i, c: i[0].threshold(c.float("at"), c.float("value")),
    "hardshrink": lambda i, c: i[0].hardshrink(c.float("at")),
    "softshrink": lambda i, c: i[0].softshrink(c.float("at")),
    "tanhshrink": lambda i, c: i[0].tanhshrink(),
    "embedding_padded": lambda i, c: i[0].embedding(i[1], padding_idx=c.int("padding_idx")),
    "cross_entropy_with": lambda i, c: i[0].cross_entropy(
        i[1], how(c), c.float("smoothing", 0.0), weight=fixed(i, 2), ignore_index=c.int("ignore_index", -100)
    ),
    "nll_with": lambda i, c: i[0].nll_loss(i[1], fixed(i, 2), c.int("ignore_index", -100), how(c)),
    "ctc": lambda i, c: i[0].log_softmax(-1).ctc_loss(*i[1:], c.int("blank", 0), how(c), c.flag("zero_infinity")),
    "mse": loss("mse_loss"),
    "l1": loss("l1_loss"),
    "huber": loss("huber_loss", delta=("delta", 1.0)),
    "smooth_l1": loss("smooth_l1_loss", beta=("beta", 1.0)),
    "bce": lambda i, c: i[0].binary_crossentropy(i[1], how(c), weight=fixed(i, 2)),
    "bce_with_logits": lambda i, c: i[0].binary_crossentropy_logits(i[1], how(c), fixed(i, 2), weight=fixed(i, 3)),
    "kl_div": lambda i, c: i[0].kl_div(i[1], how(c), c.flag("log_target")),
    "cosine_similarity": lambda i, c: i[0].cosine_similarity(i[1], c.int("dim", 1)),
    "cosine_embedding": loss("cosine_embedding_loss", margin=("margin", 0.0)),
    "hinge_embedding": loss("hinge_embedding_loss", margin=("margin", 1.0)),
    "margin_ranking": loss("margin_ranking_loss", margin=("margin", 0.0)),
    "soft_margin": loss("soft_margin_loss"),
    "triplet_margin": loss("triplet_margin_loss", margin=("margin", 1.0), p=("p", 2.0)),
    "poisson_nll": lambda i, c: i[0].poisson_nll_loss(i[1], log_input=c.flag("log_input"), reduction=how(c)),
    "gaussian_nll": loss("gaussian_nll_loss"),
}


def nth(name, *first):
    """(values, indices) along a dim, or over all elements."""

    def run(i, c):
        x, dim = (i[0], c.int("dim")) if "dim" in c.params else (i[0].flatten(), 0)
        return getattr(x, name)(*[c.int(k) for k in first], dim, c.flag("keepdim"))

    return run


SORTING = {
    "stable_sort": lambda i, c: i[0].sort(c.int("dim", -1), c.flag("descending")),
    "argsort": lambda i, c: i[0].argsort(c.int("dim", -1), c.flag("descending")),
    "sort_values": lambda i, c: i[0].sort(descending=c.flag("descending"))[0],
    "msort": lambda i, c: i[0].msort(),
    "topk": lambda i, c: i[0].topk(c.int("k"), c.int("dim", -1), largest=not c.flag("least")),
    "kthvalue": nth("kthvalue", "k"),
    "median": nth("median"),
    "nanmedian": nth("nanmedian"),
    "mode": nth("mode"),
    "quantile": lambda i, c: i[0].quantile(
        i[1] if len(i) > 1 else c.float("q"), c.int("dim"), c.flag("keepdim"), interpolation=c.params.get("between", "linear")
    ),
    "searchsorted": lambda i, c: i[0].searchsorted(i[1], c.flag("right"), sorter=optional(i, 2)),
    "bucketize": lambda i, c: i[0].bucketize(i[1], c.flag("right")),
    "unique": lambda i, c: i[0].unique(return_inverse=True, return_counts=True),
    "unique_consecutive": lambda i, c: i[0].unique_consecutive(return_inverse=True, return_counts=True),
    "bincount": lambda i, c: i[0].bincount(optional(i, 1), c.int("minlength", 0)),
    "histc": lambda i, c: i[0].histc(c.int("bins"), c.float("low", 0.0), c.float("high", 0.0)),
    "cummax_places": lambda i, c: i[0].cummax(c.int("dim")),
    "cummin_places": lambda i, c: i[0].cummin(c.int("dim")),
    "logcumsumexp": lambda i, c: i[0].logcumsumexp(c.int("dim")),
}


def transform(name):
    return lambda i, c: getattr(i[0], name)(c.int("n"), c.int("dim", -1), c.params.get("norm", "backward"))


def several(name):
    return lambda i, c: getattr(i[0], name)(c.ints("dims") or None, c.params.get("norm", "backward"))


SPECTRAL = {
    **{n: transform(n) for n in ("fft", "ifft", "rfft", "irfft")},
    **{n: several(n) for n in ("fftn", "ifftn")},
    "fftfreq": lambda i, c: Tensor.fftfreq(c.int("n"), c.float("d")),
    "rfftfreq": lambda i, c: Tensor.rfftfreq(c.int("n"), c.float("d")),
    "stft": lambda i, c: i[0].stft(
        c.int("n_fft"), c.int("hop"), optional(i, 1), c.params.get("center") != "false", normalized=c.flag("normalized"),
        onesided=c.params.get("onesided") != "false",
    ),
    "istft": lambda i, c: i[0].istft(
        c.int("n_fft"), c.int("hop"), optional(i, 1), normalized=c.flag("normalized"),
        onesided=c.params.get("onesided") != "false", length=c.int("length"),
    ),
}  # fmt: skip

OPS = {
    "core": CORE, "indexing": INDEXING, "linalg": LINALG, "moving": MOVING, "neural": NEURAL, "sorting": SORTING,
    "spectral": SPECTRAL,
}  # fmt: skip
