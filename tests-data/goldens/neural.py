"""Layers without parameters of their own, and losses: see writer.py."""
from writer import *
import torch.nn.functional as F

torch.use_deterministic_algorithms(False)       # unpooling and its like have no other; one thread is deterministic

def optional(inputs, k): return inputs[k] if len(inputs) > k else None
def fixed(inputs, k): return inputs[k].detach() if len(inputs) > k else None    # torch has no gradient by it
def window(p): return dict(stride=p.ints("stride", (1,)), dilation=p.ints("dilation", (1,)), groups=p.int("groups", 1))
def padding(p): return p.values["padding"] if p.values.get("padding") in ("same", "valid") else p.ints("padding", (0,))
def by_rank(name, n): return getattr(F, f"{name}{n}d")

def conv(i, p): return by_rank("conv", i[1].ndim - 2)(i[0], i[1], optional(i, 2), padding=padding(p), **window(p))
def conv_transpose(i, p):
    return by_rank("conv_transpose", i[1].ndim - 2)(i[0], i[1], optional(i, 2), padding=p.ints("padding", (0,)),
                                                   output_padding=p.ints("output_padding", (0,)), **window(p))

def max_pool(i, p):
    kernel = p.ints("kernel")
    return by_rank("max_pool", len(kernel))(i[0], kernel, p.ints("stride", kernel), p.ints("padding", (0,)), p.ints("dilation", (1,)),
                                            ceil_mode=p.flag("ceil"), return_indices=p.flag("indices"))
def avg_pool(i, p):
    kernel = p.ints("kernel")
    more = dict(divisor_override=p.int("divisor")) if len(kernel) > 1 else {}
    return by_rank("avg_pool", len(kernel))(i[0], kernel, p.ints("stride", kernel), p.ints("padding", (0,)), ceil_mode=p.flag("ceil"),
                                            count_include_pad=p.values.get("count_include_pad") != "false", **more)
def lp_pool(i, p):
    kernel = p.ints("kernel")
    return by_rank("lp_pool", len(kernel))(i[0], p.float("p"), kernel if len(kernel) > 1 else kernel[0],
                                           p.ints("stride") or None, ceil_mode=p.flag("ceil"))
def max_unpool(i, p):
    values, indices = by_rank("max_pool", len(p.ints("kernel")))(i[0], p.ints("kernel"), return_indices=True)
    return by_rank("max_unpool", len(p.ints("kernel")))(values, indices, p.ints("kernel"), output_size=p.ints("output"))

def interpolate(i, p):
    mode = p.text("mode")
    corners = dict(align_corners=p.flag("align_corners")) if "linear" in mode or "cubic" in mode else {}
    if "factor" in p.values: where = dict(scale_factor=[float(v) for v in p.text("factor").split(",")])
    else: where = dict(size=p.ints("size"))
    return F.interpolate(i[0], mode=mode, antialias=p.flag("antialias"), **corners, **where)

def attention(i, p):
    mask = optional(i, 3)
    return F.scaled_dot_product_attention(i[0], i[1], i[2], mask, 0., p.flag("causal"), scale=p.float("scale"), enable_gqa=p.flag("gqa"))

def rope(i, p):                                 # as Llama (halves) and GPT-J (interleaved) have it
    x, n = i[0], p.int("dims", i[0].shape[-1])
    t = i[1].float() if len(i) > 1 else torch.arange(x.shape[-2]).float() + p.int("offset", 0)
    angle = t[..., None] * (p.float("base", 10000.) ** (-torch.arange(0, n, 2, dtype=torch.float64) / n)).float()
    if angle.ndim > 2: angle = angle.reshape(angle.shape[0], *[1] * (x.ndim - angle.ndim), *angle.shape[1:])
    cos, sin, v, rest = angle.cos(), angle.sin(), x[..., :n], x[..., n:]
    if p.flag("interleaved"):
        a, b = v[..., ::2], v[..., 1::2]
        out = torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)
    else:
        a, b = v.chunk(2, -1)
        out = torch.cat([a * cos - b * sin, a * sin + b * cos], -1)
    return torch.cat([out, rest], -1)

def how(p): return p.values.get("reduction", "mean")
def cross_entropy(i, p):
    target = i[1] if i[1].is_floating_point() else i[1].long()
    return F.cross_entropy(i[0], target, fixed(i, 2), ignore_index=p.int("ignore_index", -100), reduction=how(p), label_smoothing=p.float("smoothing", 0.))
def ctc(i, p):
    return F.ctc_loss(i[0].log_softmax(-1), i[1].long(), i[2].long(), i[3].long(), p.int("blank", 0), how(p), p.flag("zero_infinity"))

OPS |= {
    "conv": conv, "conv_transpose": conv_transpose,
    "max_pool": max_pool, "avg_pool": avg_pool, "lp_pool": lp_pool, "max_unpool": max_unpool,
    "adaptive_avg_pool": lambda i, p: by_rank("adaptive_avg_pool", len(p.ints("size")))(i[0], p.ints("size")),
    "adaptive_max_pool": lambda i, p: by_rank("adaptive_max_pool", len(p.ints("size")))(i[0], p.ints("size"), return_indices=True),
    "interpolate":       interpolate,
    "grid_sample":       lambda i, p: F.grid_sample(i[0], i[1], p.text("mode"), p.text("outside"), p.flag("align_corners")),
    "affine_grid":       lambda i, p: F.affine_grid(i[0], p.ints("size"), p.flag("align_corners")),
    "pixel_shuffle":     lambda i, p: F.pixel_shuffle(i[0], p.int("factor")),
    "pixel_unshuffle":   lambda i, p: F.pixel_unshuffle(i[0], p.int("factor")),
    "attention":         attention, "rope": rope,
    "local_response_norm": lambda i, p: F.local_response_norm(i[0], p.int("size"), p.float("alpha"), p.float("beta"), p.float("k")),
    "normalize":         lambda i, p: F.normalize(i[0], p.float("p", 2.), p.int("dim", 1)),
    "prelu":             lambda i, p: F.prelu(*i),
    "glu":               lambda i, p: F.glu(i[0], p.int("dim")),
    "threshold":         lambda i, p: F.threshold(i[0], p.float("at"), p.float("value")),
    "hardshrink":        lambda i, p: F.hardshrink(i[0], p.float("at")),
    "softshrink":        lambda i, p: F.softshrink(i[0], p.float("at")),
    "tanhshrink":        lambda i, p: F.tanhshrink(i[0]),
    "embedding_padded":  lambda i, p: F.embedding(i[1].long(), i[0], p.int("padding_idx")),
    "cross_entropy_with": cross_entropy,
    "nll_with":          lambda i, p: F.nll_loss(i[0], i[1].long(), fixed(i, 2), ignore_index=p.int("ignore_index", -100), reduction=how(p)),
    "ctc":               ctc,
    "mse":               lambda i, p: F.mse_loss(*i, reduction=how(p)),
    "l1":                lambda i, p: F.l1_loss(*i, reduction=how(p)),
    "huber":             lambda i, p: F.huber_loss(*i, reduction=how(p), delta=p.float("delta", 1.)),
    "smooth_l1":         lambda i, p: F.smooth_l1_loss(*i, reduction=how(p), beta=p.float("beta", 1.)),
    "bce":               lambda i, p: F.binary_cross_entropy(i[0], i[1], fixed(i, 2), reduction=how(p)),
    "bce_with_logits":   lambda i, p: F.binary_cross_entropy_with_logits(i[0], i[1], fixed(i, 3), pos_weight=fixed(i, 2), reduction=how(p)),
    "kl_div":            lambda i, p: F.kl_div(*i, reduction=how(p), log_target=p.flag("log_target")),
    "cosine_similarity": lambda i, p: F.cosine_similarity(*i, dim=p.int("dim", 1)),
    "cosine_embedding":  lambda i, p: F.cosine_embedding_loss(i[0], i[1], i[2], p.float("margin", 0.), reduction=how(p)),
    "hinge_embedding":   lambda i, p: F.hinge_embedding_loss(*i, margin=p.float("margin", 1.), reduction=how(p)),
    "margin_ranking":    lambda i, p: F.margin_ranking_loss(*i, margin=p.float("margin", 0.), reduction=how(p)),
    "soft_margin":       lambda i, p: F.soft_margin_loss(*i, reduction=how(p)),
    "triplet_margin":    lambda i, p: F.triplet_margin_loss(*i, margin=p.float("margin", 1.), p=p.float("p", 2.), reduction=how(p)),
    "poisson_nll":       lambda i, p: F.poisson_nll_loss(*i, log_input=p.flag("log_input"), reduction=how(p)),
    "gaussian_nll":      lambda i, p: F.gaussian_nll_loss(*i, reduction=how(p)),
}

def conv_cases():
    case("conv", "1d_same", floats(2, 3, 7), floats(4, 3, 4), floats(4), padding="same")
    case("conv", "2d_same_dilated", floats(1, 2, 5, 6), floats(2, 2, 3, 2), padding="same", dilation=[1, 2])
    case("conv", "2d_valid", floats(1, 2, 5, 6), floats(2, 2, 3, 2), padding="valid", stride=[2, 1])
    case("conv", "3d", floats(1, 2, 4, 5, 3), floats(4, 1, 2, 3, 2), floats(4), stride=[1, 2, 1], padding=[1, 0, 1], groups=2)
    case("conv", "1d_no_batch", floats(3, 7), floats(2, 3, 3), floats(2), padding=[1])
    case("conv", "2d_no_samples", floats(0, 2, 4, 4), floats(3, 2, 3, 3))
    for tag, x, w, params in [
            ("1d", [2, 3, 5], [3, 2, 4], dict(stride=[3], padding=[1], output_padding=[2])),
            ("1d_dilated", [1, 2, 5], [2, 3, 3], dict(dilation=[2], stride=[2])),
            ("2d", [2, 3, 4, 3], [3, 2, 3, 3], dict()),
            ("2d_strided", [1, 2, 3, 4], [2, 3, 3, 2], dict(stride=[2, 3], padding=[1, 0], output_padding=[1, 2])),
            ("2d_groups", [1, 4, 3, 3], [4, 2, 2, 3], dict(groups=2, stride=[2, 1], padding=[0, 1])),
            ("2d_depthwise", [1, 3, 3, 3], [3, 1, 3, 3], dict(groups=3, stride=[2, 2], padding=[1, 1], output_padding=[1, 1])),
            ("2d_cut", [1, 1, 5, 5], [1, 1, 2, 2], dict(padding=[2, 1])),
            ("3d", [1, 2, 2, 3, 2], [2, 2, 2, 1, 3], dict(stride=[2, 1, 2], padding=[0, 0, 1], output_padding=[1, 0, 0]))]:
        case("conv_transpose", tag, floats(*x), floats(*w), floats(w[1] * params.get("groups", 1)), **params)
    case("conv_transpose", "view", floats(4, 3, 2, 1), floats(3, 2, 2, 2), pre={0: "permute:3,1,0,2;flip:3"}, stride=[2, 2])
    case("conv_transpose", "no_batch", floats(3, 5), floats(3, 2, 2))

def pool_cases():
    for tag, x, params in [
            ("1d", [2, 2, 7], dict(kernel=[3], stride=[2], padding=[1])),
            ("1d_ceil", [1, 2, 8], dict(kernel=[3], stride=[2], ceil=True)),
            ("2d_ceil", [1, 2, 6, 7], dict(kernel=[3, 2], stride=[2, 3], padding=[1, 1], ceil=True)),
            ("2d_ceil_outside", [1, 1, 5, 5], dict(kernel=[2, 2], stride=[3, 3], padding=[1, 1], ceil=True)),
            ("3d", [1, 2, 4, 5, 4], dict(kernel=[2, 3, 2], stride=[2, 1, 2], padding=[1, 1, 0])),
            ("3d_ceil", [1, 1, 3, 4, 5], dict(kernel=[2, 2, 2], ceil=True)),
            ("2d_view", [5, 6, 2], dict(kernel=[2, 2], pre={0: "permute:2,1,0;flip:1"}))]:
        case("max_pool", tag, floats(*x), **params)
        case("max_pool", f"{tag}_indices", floats(*x), indices=True, **params)
        case("avg_pool", tag, floats(*x), **params)
        if "padding" in params: case("avg_pool", f"{tag}_inside", floats(*x), count_include_pad=False, **params)
        if len(params["kernel"]) > 1: case("avg_pool", f"{tag}_divisor", floats(*x), divisor=5, **params)
    case("max_pool", "dilated_indices", floats(1, 2, 8, 7), kernel=[2, 3], stride=[2, 1], dilation=[3, 2], indices=True)
    case("max_pool", "special_ties", f32(1, 1, 0, 1, 1, 1, 0, 0, 0).reshape(1, 3, 3), kernel=[2, 2], stride=[1, 1], indices=True)
    case("lp_pool", "1d", floats(1, 2, 7, low=.1), p=2, kernel=[3], stride=[2])
    case("lp_pool", "2d", floats(1, 2, 5, 6, low=.1), p=3, kernel=[2, 3], ceil=True)
    case("max_unpool", "1d", floats(1, 2, 6), kernel=[2], output=[6])
    case("max_unpool", "2d_odd", floats(2, 1, 5, 7), kernel=[2, 2], output=[5, 7])
    for tag, x, size in [("1d_even", [2, 6], [3]), ("1d", [1, 2, 7], [3]), ("1d_more", [1, 2, 3], [5]), ("2d", [1, 2, 5, 7], [3, 2]),
                         ("2d_one", [2, 1, 4, 5], [1, 1]), ("3d", [1, 1, 3, 4, 5], [2, 3, 2])]:
        case("adaptive_avg_pool", tag, floats(*x), size=size)
        case("adaptive_max_pool", tag, floats(*x), size=size)

def resize_cases():
    for tag, x, size in [("up", [1, 2, 3], [7]), ("down", [1, 2, 7], [3]), ("same", [1, 1, 4], [4]), ("one", [1, 1, 5], [1])]:
        for mode in ("nearest", "nearest-exact", "linear", "area"):
            case("interpolate", f"1d_{mode}_{tag}", floats(*x), mode=mode, size=size)
        case("interpolate", f"1d_linear_{tag}_corners", floats(*x), mode="linear", align_corners=True, size=size)
    for tag, size in [("up", [5, 6]), ("down", [2, 3]), ("mixed", [7, 2])]:
        for mode in ("nearest", "bilinear", "bicubic", "area"):
            case("interpolate", f"2d_{mode}_{tag}", floats(1, 2, 4, 5), mode=mode, size=size)
        for mode in ("bilinear", "bicubic"):
            case("interpolate", f"2d_{mode}_{tag}_corners", floats(1, 2, 4, 5), mode=mode, align_corners=True, size=size)
            case("interpolate", f"2d_{mode}_{tag}_antialias", floats(1, 1, 6, 7), mode=mode, antialias=True, size=size)
    for mode in ("nearest", "nearest-exact", "bilinear", "bicubic"):
        case("interpolate", f"factor_{mode}", floats(1, 1, 4, 5), mode=mode, factor="1.7,0.6")
        case("interpolate", f"factor_{mode}_whole", floats(1, 1, 3, 3), mode=mode, factor="2,3")
    case("interpolate", "trilinear", floats(1, 1, 2, 3, 4), mode="trilinear", size=[3, 5, 2])
    case("interpolate", "trilinear_corners", floats(1, 1, 2, 3, 4), mode="trilinear", align_corners=True, size=[3, 5, 2])
    case("interpolate", "3d_nearest", floats(1, 1, 2, 3, 4), mode="nearest", size=[5, 4, 6])
    case("interpolate", "view", floats(5, 4, 2, 1), pre={0: "permute:3,2,1,0;flip:3"}, mode="bilinear", size=[3, 7])
    for align in (False, True):
        for outside in ("zeros", "border", "reflection"):
            for mode in ("bilinear", "nearest", "bicubic"):
                case("grid_sample", f"{mode}_{outside}_{align}", floats(2, 2, 4, 5), floats(2, 3, 2, 2, low=-1.6, high=1.6), mode=mode, outside=outside, align_corners=align)
            case("grid_sample", f"3d_{outside}_{align}", floats(1, 2, 3, 2, 4), floats(1, 2, 2, 3, 3, low=-1.4, high=1.4), mode="bilinear", outside=outside, align_corners=align)
        case("affine_grid", f"2d_{align}", floats(2, 2, 3), size=[2, 1, 3, 4], align_corners=align)
        case("affine_grid", f"3d_{align}", floats(1, 3, 4), size=[1, 1, 2, 3, 1], align_corners=align)
    case("pixel_shuffle", "2", floats(1, 8, 2, 3), exact=True, factor=2)
    case("pixel_unshuffle", "2", floats(2, 2, 4, 6), exact=True, factor=2)

def sequence_cases():
    q, k, v = floats(1, 2, 3, 4), floats(1, 2, 5, 4), floats(1, 2, 5, 6)
    case("attention", "bool_mask", q, k, v, torch.tensor([[1, 1, 0, 1, 0], [0, 0, 1, 1, 1], [1, 0, 0, 0, 0]], dtype=torch.bool))
    case("attention", "nothing_seen", q, k, v, torch.tensor([[1, 1, 0, 1, 0], [0, 0, 0, 0, 0], [1, 0, 0, 0, 0]], dtype=torch.bool))
    case("attention", "scaled", q, k, v, scale=.3)
    case("attention", "causal", floats(1, 2, 4, 3), floats(1, 2, 4, 3), floats(1, 2, 4, 3), causal=True)
    case("attention", "causal_longer", q, k, v, causal=True)
    case("attention", "gqa", floats(2, 6, 3, 4), floats(2, 2, 3, 4), floats(2, 2, 3, 4), gqa=True)
    case("attention", "one_key_head", floats(1, 3, 2, 4), floats(1, 1, 3, 4), floats(1, 1, 3, 4), gqa=True)
    case("rope", "halves", floats(2, 3, 5, 8), offset=3)
    case("rope", "interleaved", floats(2, 3, 8), interleaved=True)
    case("rope", "part", floats(4, 6), dims=4, base=100.)
    case("rope", "far", floats(2, 4), offset=1000)
    case("rope", "positions", floats(2, 3, 4), i32(5, 0, 2))
    case("rope", "positions_of_batch", floats(2, 2, 3, 4), i32(5, 0, 2, 7, 8, 9).reshape(2, 3), interleaved=True)
    case("local_response_norm", "3", floats(2, 5, 3), size=3, alpha=.5, beta=.75, k=1.)
    case("local_response_norm", "even", floats(1, 4, 2, 3), size=2, alpha=1e-2, beta=.5, k=2.)
    case("normalize", "rows", floats(3, 4))
    case("normalize", "l1", floats(2, 3, 4), p=1., dim=-1)
    case("embedding_padded", "plain", floats(4, 3), i32(1, 3, 1, 0).reshape(2, 2), padding_idx=1)
    case("embedding_padded", "negative", floats(4, 3), i32(1, 3, 3), padding_idx=-1)

def activation_cases():
    case("prelu", "one", away(2, 3), floats(1))
    case("prelu", "channels", away(2, 3, 4), floats(3))
    case("glu", "last", floats(3, 4), dim=-1)
    case("glu", "first", floats(2, 3), dim=0)
    case("threshold", "5", away(5), at=.4, value=-1.)
    case("hardshrink", "5", floats(9), at=.7)
    case("softshrink", "5", floats(9), at=.7)
    case("tanhshrink", "5", floats(5))

def loss_cases():
    target = i32(2, 0, 3, 1, 2)
    for reduction in ("mean", "sum", "none"):
        r = dict(reduction=reduction)
        case("cross_entropy_with", f"weight_{reduction}", floats(5, 4), target, floats(4, low=.1), **r)
        case("cross_entropy_with", f"weight_smooth_ignore_{reduction}", floats(5, 4), target, floats(4, low=.1), smoothing=.2, ignore_index=2, **r)
        case("cross_entropy_with", f"soft_{reduction}", floats(5, 4), lambda rng: torch.softmax(floats(5, 4)(rng), 1), floats(4, low=.1), smoothing=.1, **r)
        case("cross_entropy_with", f"spatial_{reduction}", floats(2, 3, 4), i32(0, 1, 2, 0, 2, 1, 1, 0).reshape(2, 4), ignore_index=1, **r)
        case("nll_with", f"weight_{reduction}", floats(5, 4), target, floats(4, low=.1), ignore_index=0, **r)
        for op in ("mse", "l1", "huber", "smooth_l1"):
            case(op, reduction, floats(3, 4), floats(3, 4), **r)
        case("huber", f"delta_{reduction}", floats(3, 4), floats(3, 4), delta=.3, **r)
        case("smooth_l1", f"beta_{reduction}", floats(3, 4), floats(3, 4), beta=.3, **r)
        case("bce", reduction, floats(3, 4, low=.05, high=.95), floats(3, 4, low=0, high=1), floats(3, 4, low=.1), **r)
        case("bce_with_logits", reduction, floats(3, 4), floats(3, 4, low=0, high=1), floats(4, low=.1), floats(3, 4, low=.1), **r)
        case("cosine_embedding", reduction, floats(4, 5), floats(4, 5), i32(1, -1, -1, 1), margin=-.5, **r)
        case("hinge_embedding", reduction, floats(4, low=.1), i32(1, -1, -1, 1), margin=1.5, **r)
        case("margin_ranking", reduction, floats(4), floats(4), i32(1, -1, -1, 1), margin=.2, **r)
        case("soft_margin", reduction, floats(4), i32(1, -1, -1, 1), **r)
        case("triplet_margin", reduction, floats(4, 5), floats(4, 5), floats(4, 5), margin=2., **r)
        case("poisson_nll", f"log_{reduction}", floats(4), ints(4, low=0), log_input=True, **r)
        case("gaussian_nll", reduction, floats(3, 4), floats(3, 4), floats(3, 4, low=.1), **r)
        case("ctc", reduction, floats(6, 3, 4), i32(1, 2, 2, 3, 3, 1, 1, 0, 0).reshape(3, 3), i32(6, 5, 6), i32(3, 2, 1), **r)
    for reduction in ("batchmean", "mean", "sum", "none"):
        case("kl_div", reduction, floats(3, 4, low=-3, high=-.1), floats(3, 4, low=.05, high=1), reduction=reduction)
        case("kl_div", f"log_{reduction}", floats(3, 4, low=-3, high=-.1), floats(3, 4, low=-3, high=-.1), log_target=True, reduction=reduction)
    case("poisson_nll", "rate", floats(4, low=.1), ints(4, low=0))
    case("triplet_margin", "p3", floats(4, 5), floats(4, 5), floats(4, 5), p=3., margin=2.)
    case("cosine_similarity", "rows", floats(3, 4), floats(3, 4))
    case("cosine_similarity", "broadcast", floats(2, 3, 4), floats(1, 3, 4), dim=-1)
    case("ctc", "concatenated", floats(6, 3, 4), i32(1, 2, 3, 3, 1, 2), i32(6, 5, 4), i32(3, 2, 1))
    case("ctc", "blank", floats(5, 2, 4), i32(1, 0, 2, 2).reshape(2, 2), i32(5, 5), i32(2, 2), blank=3)
    case("ctc", "no_fit", floats(3, 2, 4), i32(1, 1, 2, 1, 2, 0).reshape(2, 3), i32(3, 3), i32(3, 2), zero_infinity=True)
    case("ctc", "empty_target", floats(4, 2, 3), i32(1, 2, 0, 0).reshape(2, 2), i32(4, 3), i32(2, 0), reduction="sum")

if __name__ == "__main__":
    for family in (conv_cases, pool_cases, resize_cases, sequence_cases, activation_cases, loss_cases):
        family()
    write(__file__)
