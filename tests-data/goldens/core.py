"""The ops that everything else is made of: see writer.py."""
from writer import *
import torch.nn.functional as F

# ---- the ops: what each means, and which parameters it reads --------------------------------------------------

def take_slice(x, axis, start, stop, step):
    places = list(range(x.shape[axis]))[start:stop:step]
    assert np.array_equal(places, np.arange(x.shape[axis])[start:stop:step])
    return x.index_select(axis, torch.tensor(places, dtype=torch.int64))

def pairs(n): return [n[k:k + 2] for k in range(0, len(n), 2)]
def last_first(n): return [v for pair in reversed(pairs(n)) for v in pair]

def axes(p):                                   # dim absent: all axes
    return p.ints("dim") if "dim" in p.values else None

def prod(x, p):                                # torch's prod takes one axis at a time
    if axes(p) is None: return x.prod()
    for a in sorted((a % x.ndim for a in axes(p)), reverse=True): x = x.prod(a, keepdim=p.flag("keepdim"))
    return x

def index_reduce(f): return lambda x, p: f(x, p.int("dim"), p.flag("keepdim")) if "dim" in p.values else f(x)
def over(f): return lambda x, p: f(x, axes(p) if axes(p) is not None else tuple(range(x.ndim)), p.flag("keepdim"))
def spread(f): return lambda x, p: f(x, dim=axes(p), correction=p.int("correction", 1), keepdim=p.flag("keepdim"))
def optional(inputs, k): return inputs[k] if len(inputs) > k else None
def batchnorm(i, p):       # x, mean, var, weight, bias; F.batch_norm, with gradients of mean and var too
    args = [x.reshape(-1, *[1] * (i[0].ndim - 2)) for x in i[1:]]
    out = (i[0] - args[0]) / torch.sqrt(args[1] + p.float("eps", 1e-5))
    out = out * args[2] + args[3] if len(args) == 4 else out
    same = F.batch_norm(i[0].detach(), i[1].detach(), i[2].detach(), *[x.detach() for x in i[3:]], eps=p.float("eps", 1e-5))
    assert torch.allclose(out, same, atol=1e-5)
    return out

def pool(p): return p.ints("kernel"), p.ints("stride", p.ints("kernel")), p.ints("padding", (0, 0))

UNARY = {                  # name: (function, low, high) of the random inputs
    "neg":         (torch.neg, -3, 3),
    "abs":         (torch.abs, -3, 3),
    "sign":        (torch.sign, -3, 3),
    "floor":       (torch.floor, -5, 5),
    "ceil":        (torch.ceil, -5, 5),
    "trunc":       (torch.trunc, -5, 5),
    "round":       (torch.round, -5, 5),
    "sqrt":        (torch.sqrt, .1, 9),
    "rsqrt":       (torch.rsqrt, .1, 9),
    "reciprocal":  (torch.reciprocal, .2, 5),
    "square":      (torch.square, -3, 3),
    "exp":         (torch.exp, -5, 5),
    "exp2":        (torch.exp2, -5, 5),
    "expm1":       (torch.expm1, -2, 2),
    "log":         (torch.log, .01, 20),
    "log2":        (torch.log2, .01, 20),
    "log10":       (torch.log10, .01, 20),
    "log1p":       (torch.log1p, -.9, 5),
    "sin":         (torch.sin, -9, 9),
    "cos":         (torch.cos, -9, 9),
    "tan":         (torch.tan, -1.4, 1.4),
    "asin":        (torch.asin, -.95, .95),
    "acos":        (torch.acos, -.95, .95),
    "atan":        (torch.atan, -5, 5),
    "sinh":        (torch.sinh, -3, 3),
    "cosh":        (torch.cosh, -3, 3),
    "tanh":        (torch.tanh, -4, 4),
    "asinh":       (torch.asinh, -5, 5),
    "acosh":       (torch.acosh, 1.1, 9),
    "atanh":       (torch.atanh, -.95, .95),
    "erf":         (torch.erf, -3, 3),
    "erfc":        (torch.erfc, -3, 3),
    "sigmoid":     (torch.sigmoid, -6, 6),
    "logsigmoid":  (F.logsigmoid, -6, 6),
    "softplus":    (F.softplus, -6, 6),
    "softsign":    (F.softsign, -6, 6),
    "relu":        (torch.relu, -3, 3),
    "relu6":       (F.relu6, -3, 9),
    "hardtanh":    (F.hardtanh, -3, 3),
    "hardsigmoid": (F.hardsigmoid, -5, 5),
    "hardswish":   (F.hardswish, -5, 5),
    "selu":        (F.selu, -4, 4),
    "gelu":        (F.gelu, -4, 4),
    "gelu_tanh":   (lambda x: F.gelu(x, approximate="tanh"), -4, 4),
    "quick_gelu":  (lambda x: x * torch.sigmoid(1.702 * x), -4, 4),
    "silu":        (F.silu, -6, 6),
    "mish":        (F.mish, -6, 6),
}
PREDICATES = {"isnan": torch.isnan, "isinf": torch.isinf, "isfinite": torch.isfinite}
BINARY = {
    "add":         torch.add,
    "sub":         torch.sub,
    "mul":         torch.mul,
    "div":         torch.div,
    "pow":         torch.pow,
    "maximum":     torch.maximum,
    "minimum":     torch.minimum,
    "atan2":       torch.atan2,
    "copysign":    torch.copysign,
    "logaddexp":   torch.logaddexp,
    "floor_div":   torch.floor_divide,
    "modulo":      torch.remainder,
    "fmod":        torch.fmod,
    "eq":          torch.eq,
    "ne":          torch.ne,
    "lt":          torch.lt,
    "le":          torch.le,
    "gt":          torch.gt,
    "ge":          torch.ge,
    "logical_and": torch.logical_and,
    "logical_or":  torch.logical_or,
    "logical_xor": torch.logical_xor,
    "bitwise_and": torch.bitwise_and,
    "bitwise_or":  torch.bitwise_or,
    "bitwise_xor": torch.bitwise_xor,
    "shl":         torch.bitwise_left_shift,
    "shr":         torch.bitwise_right_shift,
}
TYPES = {"bool": torch.bool, "i8": torch.int8, "u8": torch.uint8, "i32": torch.int32,
         "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}

OPS |= {
    **{name: (lambda i, p, f=f: f(i[0])) for name, (f, _, _) in UNARY.items()},
    **{name: (lambda i, p, f=f: f(i[0])) for name, f in PREDICATES.items()},
    **{name: (lambda i, p, f=f: f(i[0], i[1])) for name, f in BINARY.items()},
    "logical_not": lambda i, p: torch.logical_not(i[0]),
    "bitwise_not": lambda i, p: torch.bitwise_not(i[0]),
    "where":       lambda i, p: torch.where(i[0], i[1], i[2]),
    "clamp":       lambda i, p: torch.clamp(i[0], p.float("low"), p.float("high")),
    "lerp":        lambda i, p: torch.lerp(i[0], i[1], i[2]),
    "leaky_relu":  lambda i, p: F.leaky_relu(i[0], p.float("slope", .01)),
    "elu":         lambda i, p: F.elu(i[0], p.float("alpha", 1)),
    "celu":        lambda i, p: F.celu(i[0], p.float("alpha", 1)),
    "cast":        lambda i, p: i[0].to(TYPES[p.text("to")]),
    "cast_via":    lambda i, p: i[0].to(TYPES[p.text("via")]).to(i[0].dtype),

    "sum":       lambda i, p: over(torch.sum)(i[0], p),
    "mean":      lambda i, p: over(torch.mean)(i[0], p),
    "prod":      lambda i, p: prod(i[0], p),
    "max":       lambda i, p: over(torch.amax)(i[0], p),
    "min":       lambda i, p: over(torch.amin)(i[0], p),
    "any":       lambda i, p: over(torch.any)(i[0], p),
    "all":       lambda i, p: over(torch.all)(i[0], p),
    "logsumexp": lambda i, p: over(torch.logsumexp)(i[0], p),
    "var":       lambda i, p: spread(torch.var)(i[0], p),
    "std":       lambda i, p: spread(torch.std)(i[0], p),
    "argmax":    lambda i, p: index_reduce(torch.argmax)(i[0], p),
    "argmin":    lambda i, p: index_reduce(torch.argmin)(i[0], p),
    "cumsum":    lambda i, p: i[0].cumsum(p.int("dim")),
    "cumprod":   lambda i, p: i[0].cumprod(p.int("dim")),
    "cummax":    lambda i, p: i[0].cummax(p.int("dim")).values,
    "cummin":    lambda i, p: i[0].cummin(p.int("dim")).values,
    "softmax":     lambda i, p: i[0].softmax(p.int("dim")),
    "log_softmax": lambda i, p: i[0].log_softmax(p.int("dim")),
    "sort":        lambda i, p: tuple(torch.sort(i[0], dim=p.int("dim"), descending=p.flag("descending"), stable=True)),

    "reshape": lambda i, p: i[0].reshape(p.ints("shape")),
    "permute": lambda i, p: i[0].permute(p.ints("order")),
    "expand":  lambda i, p: i[0].expand(p.ints("shape")),
    "flip":    lambda i, p: i[0].flip(p.ints("dim")),
    "pad":     lambda i, p: F.pad(i[0], last_first(p.ints("around")), value=p.float("value", 0)),     # before0,after0,before1,..
    "shrink":  lambda i, p: i[0][tuple(slice(*pair) for pair in pairs(p.ints("keep")))],              # start0,stop0,start1,..
    "slice":   lambda i, p: take_slice(i[0], p.int("dim"), p.bound("start"), p.bound("stop"), p.int("step", 1)),
    "cat":     lambda i, p: torch.cat(i, p.int("dim")),
    "stack":   lambda i, p: torch.stack(i, p.int("dim")),
    "repeat":  lambda i, p: i[0].repeat(p.ints("times")),
    "roll":    lambda i, p: torch.roll(i[0], p.ints("shifts"), p.ints("dim")),
    "tril":    lambda i, p: i[0].tril(p.int("k", 0)),
    "triu":    lambda i, p: i[0].triu(p.int("k", 0)),
    "one_hot": lambda i, p: F.one_hot(i[0].long(), p.int("classes")),
    "gather":       lambda i, p: i[0].gather(p.int("dim"), i[1].long()),
    "scatter_add":  lambda i, p: i[0].scatter_add(p.int("dim"), i[1].long(), i[2]),
    "index_select": lambda i, p: i[0].index_select(p.int("dim"), i[1]),
    "index_add":    lambda i, p: i[0].index_add(p.int("dim"), i[1], i[2]),
    "embedding":    lambda i, p: F.embedding(i[1], i[0]),                    # table, index

    "matmul":     lambda i, p: i[0] @ i[1],
    "linear":     lambda i, p: F.linear(i[0], i[1], optional(i, 2)),
    "conv2d":     lambda i, p: F.conv2d(i[0], i[1], optional(i, 2), p.ints("stride", (1, 1)), p.ints("padding", (0, 0)),
                                         p.ints("dilation", (1, 1)), p.int("groups", 1)),
    "max_pool2d": lambda i, p: F.max_pool2d(i[0], *pool(p), dilation=p.ints("dilation", (1, 1))),
    "avg_pool2d": lambda i, p: F.avg_pool2d(i[0], *pool(p), count_include_pad=p.values.get("count_include_pad") != "false"),
    "layernorm":  lambda i, p: F.layer_norm(i[0], i[0].shape[-p.int("axes"):], optional(i, 1), optional(i, 2),
                                            p.float("eps", 1e-5)),
    "rmsnorm":    lambda i, p: F.rms_norm(i[0], i[0].shape[-1:], optional(i, 1), p.float("eps", 1e-5)),
    "groupnorm":  lambda i, p: F.group_norm(i[0], p.int("groups"), optional(i, 1), optional(i, 2), p.float("eps", 1e-5)),
    "batchnorm":  batchnorm,
    "batchnorm_train": lambda i, p: F.batch_norm(i[0], None, None, optional(i, 1), optional(i, 2), True,       # x, weight, bias
                                                 eps=p.float("eps", 1e-5)),
    "scaled_dot_product_attention": lambda i, p: F.scaled_dot_product_attention(i[0], i[1], i[2], optional(i, 3)),
    "cross_entropy": lambda i, p: F.cross_entropy(i[0], i[1].long(), label_smoothing=p.float("smoothing", 0),
                                                   ignore_index=p.int("ignore_index", -100)),
    "nll_loss":      lambda i, p: F.nll_loss(i[0], i[1].long(), ignore_index=p.int("ignore_index", -100)),
    "mse_loss":      lambda i, p: F.mse_loss(i[0], i[1]),
    "l1_loss":       lambda i, p: F.l1_loss(i[0], i[1]),
}

# ---- the cases ------------------------------------------------------------------------------------------------

def unary_cases():
    special = f32(NAN, INF, -INF, 0., -0., 1., -1., .5, -.5, 1.5, 2.5, -2.5, 3., -3., 6.,
                  1e-7, -1e-7, 1e-30, 88., -88., 100., -100., 1e10)
    more = [("leaky_relu", dict(slope=.2), -3, 3), ("elu", dict(alpha=1.3), -4, 4), ("celu", dict(alpha=.7), -4, 4),
            ("clamp", dict(low=-.5, high=1.25), -3, 3)]
    for op, params, low, high in [(name, {}, low, high) for name, (_, low, high) in UNARY.items()] + more:
        case(op, "scalar", floats(low=low, high=high), **params)
        case(op, "17", floats(17, low=low, high=high), **params)
        case(op, "permuted_3x5x2", floats(3, 5, 2, low=low, high=high), pre={0: "permute:2,0,1"}, **params)
        case(op, "strided_4x7", floats(4, 7, low=low, high=high), pre={0: "slice:1,0,7,2;flip:0"}, **params)
        case(op, "empty_0x3", floats(0, 3, low=low, high=high), **params)
        # at infinities torch multiplies by 0 in these, and has NaN where the function has a limit
        gated = op in ("gelu", "gelu_tanh", "quick_gelu", "silu", "mish", "hardswish", "softsign")
        case(op, "special", special[special.abs() != INF] if gated else special, **params)
    for op in PREDICATES: case(op, "special", special)
    for op in ("sigmoid", "logsigmoid", "softplus", "softsign", "tanh", "silu", "mish", "gelu", "gelu_tanh", "quick_gelu",
               "relu", "relu6", "elu", "celu", "selu", "hardswish", "hardsigmoid", "hardtanh", "erf", "erfc", "atan", "asinh"):
        case(op, "extreme", f32(-1e4, -1000, -100, -89, -30, 30, 89, 100, 1000, 1e4))
    for op, (_, low, high) in UNARY.items():         # a sweep, values only
        case(op, "sweep", torch.linspace(low, high, 257), grad=False)
    for op in ("relu", "relu6", "leaky_relu", "elu", "celu", "selu", "abs", "sign", "hardtanh",
               "hardsigmoid", "hardswish", "softsign"):
        case(op, "kink", f32(0., 1., -1., 3., -3., 6.))
    case("clamp", "kink", f32(-1., 0., 2.), low=-1, high=2)
    case("neg", "int32", ints(5))
    case("abs", "int32", ints(5))
    case("sign", "int32", ints(5))
    case("square", "int32", ints(5))
    case("clamp", "int32", ints(9), low=-3, high=4)

def binary_cases():
    shapes = {
        "same_3x4":        ([3, 4], [3, 4]),
        "scalar_scalar":   ([], []),
        "scalar_2x3":      ([], [2, 3]),
        "row_col":         ([1, 5], [4, 1]),
        "ranks_2x1x3_4x1": ([2, 1, 3], [4, 1]),
        "ones_1x1_7":      ([1, 1], [7]),
        "empty_0x3_3":     ([0, 3], [3]),
        "empty_1_0":       ([1], [0]),
    }
    draw = {
        "div":       (floats, away),
        "pow":       (lambda *s: floats(*s, low=.2, high=3), floats),
        "atan2":     (away, away),
        "floor_div": (away, away),
        "modulo":    (away, away),
        "fmod":      (away, away),
        "copysign":  (away, away),
    }
    for op in ("add", "sub", "mul", "div", "pow", "maximum", "minimum", "atan2", "copysign", "logaddexp",
               "floor_div", "modulo", "fmod", "eq", "ne", "lt", "le", "gt", "ge"):
        a, b = draw.get(op, (floats, floats))
        grad = op not in ("floor_div", "copysign")       # torch does not differentiate these in both
        for variant, (left, right) in shapes.items(): case(op, variant, a(*left), b(*right), grad=grad)
        case(op, "permuted_expanded", a(4, 3), b(3, 1), pre={0: "permute:1,0", 1: "expand:3,4"}, grad=grad)
        case(op, "flipped_strided", a(5), b(9), pre={0: "flip:0", 1: "slice:0,0,9,2"}, grad=grad)
    for op in ("maximum", "minimum", "add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge",
               "pow", "fmod", "atan2", "logaddexp", "copysign"):
        v = f32(NAN, INF, -INF, 0., -0., 1., -1., 2., -2.5, 3.)
        case(op, "special", v[:, None].contiguous(), v)
    for op in ("floor_div", "modulo"):
        case(op, "special", f32(7., -7., 7., -7., 0., 6., -6., 5.5, -5.5), f32(3., 3., -3., -3., 2., 3., 3., -1.25, 1.25))
    for op in ("maximum", "minimum"): case(op, "ties", f32(1., 2., 3.), f32(1., 5., 3.))       # half to each
    case("pow", "negative_base", away(7), f32(2., 3., 0., 1., -1., -2., 4.), grad=False)
    case("pow", "scalar_exponent_2", floats(3, 5, low=.1, high=3), torch.tensor(2.))
    for op in ("add", "sub", "mul", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge",
               "bitwise_and", "bitwise_or", "bitwise_xor"):
        case(op, "int32_3x1_4", ints(3, 1), ints(4), grad=False)
        case(op, "int32_scalar", ints(), ints(2, 3), grad=False)
    for op in ("floor_div", "modulo", "fmod"):
        case(op, "int32_signs", i32(7, -7, 7, -7, 6, -6, 0, 1, -1), i32(3, 3, -3, -3, 3, 3, -5, 9, 9))
        case(op, "int32_4x5", ints(4, 1, low=-100, high=100), nonzero(5))
    case("bitwise_not", "int32", ints(3, 3))
    for op in ("shl", "shr"): case(op, "int32_4x5", ints(4, 1, low=-1000, high=1000), ints(5, low=0, high=12))
    for op in ("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"):
        case(op, "bool_2x1_3", torch.tensor([[False], [True]]), torch.tensor([True, False, True]))
    case("logical_not", "bool", torch.tensor([True, False]))
    case("logical_not", "float32", f32(0., -0., 1., NAN))
    case("where", "same_3x4", bools(3, 4), floats(3, 4), floats(3, 4))
    case("where", "broadcast", bools(4, 1), floats(3), floats(2, 1, 1))
    case("where", "scalars", bools(2, 3), floats(), floats())
    case("where", "empty", bools(0, 1), floats(3), floats())
    case("where", "views", bools(3, 4), floats(4, 3), floats(8), pre={0: "permute:1,0", 2: "slice:0,0,8,3;flip:0"})
    case("where", "int32", bools(5), ints(5), ints(1))
    case("lerp", "broadcast", floats(3, 1), floats(4), floats(3, 4, low=0, high=1))

def cast_cases():
    case("cast", "f32_to_i32", f32(0., -0., .5, -.5, 1.9, -1.9, 2.5, 1e9, -1e9, 123456.78), to="i32")
    case("cast", "f32_to_i8", f32(0., 127.9, -128.9, 3.99, -3.99), to="i8")
    case("cast", "f32_to_u8", f32(0., 255.9, .99, 200.), to="u8")
    case("cast", "f32_to_bool", f32(0., -0., 1e-30, NAN, -3.), to="bool")
    case("cast", "i32_to_f32", i32(0, 1, -1, 16777217, 33554435, 2147483647, -2147483648), to="f32")
    case("cast", "i32_to_i8", i32(0, 127, 128, -129, 255, 1000), to="i8")
    case("cast", "i32_to_u8", i32(0, -1, 256, 300, 1000), to="u8")
    case("cast", "i32_to_bool", i32(0, 1, -5, 256), to="bool")
    case("cast", "bool_to_f32", torch.tensor([True, False]), to="f32")
    case("cast", "bool_to_i32", torch.tensor([[True], [False]]), to="i32")
    awkward = f32(0., -0., 1., -1., .1, 1 / 3, 2049., 2051., 65504., 65519., 65520., -7e4, 6.1e-5, 5.96e-8,
                  2.98e-8, 2.99e-8, 1e-9, 1.00390625, 1.01171875, 3.3e38, 1e-40, INF, -INF, NAN)
    for via in ("f16", "bf16"):
        case("cast_via", f"special_{via}", awkward, via=via)
        case("cast_via", f"4x9_{via}", floats(4, 9, low=-100, high=100), via=via)

def reduce_cases():
    forms = {
        "all_2x3x4":         ([2, 3, 4], {}),
        "last_2x3x5":        ([2, 3, 5], dict(dim=[-1])),
        "first_keep_4x3":    ([4, 3], dict(dim=[0], keepdim=True)),
        "outer_3x2x5":       ([3, 2, 5], dict(dim=[0, 2])),
        "all_keep_3x2":      ([3, 2], dict(dim=[0, 1], keepdim=True)),
        "one_3x1":           ([3, 1], dict(dim=[1])),
        "middle_keep_2x7x3": ([2, 7, 3], dict(dim=[1], keepdim=True)),
        "long_2x129":        ([2, 129], dict(dim=[1])),
    }
    for op in ("sum", "prod", "max", "min", "mean", "logsumexp"):
        for variant, (shape, params) in forms.items():
            if op == "prod" and "all" in variant and "dim" in params: continue
            case(op, variant, floats(*shape, low=.5, high=1.5) if op == "prod" else floats(*shape), **params)
        case(op, "scalar", floats())
        case(op, "permuted_4x2x3", floats(4, 2, 3), pre={0: "permute:2,0,1;flip:1"}, dim=[1])
        case(op, "expanded_3x1", floats(3, 1), pre={0: "expand:3,4"}, dim=[0 if op in ("max", "min") else 1])
        case(op, "empty_0x3_kept", floats(0, 3), dim=[1])
    for op in ("sum", "prod"): case(op, "empty_2x0", floats(2, 0), dim=[1])
    case("prod", "one_zero", f32(2., 0., 3., -1.5).reshape(2, 2), dim=[1])
    case("prod", "two_zeros", f32(2., 0., 0.), dim=[0])
    for op in ("var", "std"):
        for correction in (0, 1):
            for variant, (shape, params) in forms.items():
                if variant != "one_3x1":
                    case(op, f"{variant}_c{correction}", floats(*shape), correction=correction, **params)
        case(op, "offset_64", floats(64, low=99, high=101), dim=[0])
    case("logsumexp", "extreme", f32(1000., 1000., -1000., 80., -80., 0.).reshape(2, 3), dim=[1])
    for op in ("max", "min"):
        case(op, "ties", f32(1., 2., 2., 1.).reshape(2, 2))                       # shared evenly
        case(op, "special_nan", f32(1., NAN, 3., -INF, INF, 2.).reshape(2, 3), dim=[1])
        case(op, "special_infinite", f32(-INF, -INF, INF, INF).reshape(2, 2), dim=[1])
    case("sum", "special", f32(INF, 1., NAN, 1., INF, -INF, -0., -0.).reshape(4, 2), dim=[1])
    case("logsumexp", "special", f32(-INF, -INF, INF, 0., -INF, 2.).reshape(3, 2), dim=[1])
    for op in ("sum", "prod", "max", "min"):
        case(op, "int32_3x4", ints(3, 4), dim=[1])
        case(op, "int32_all", ints(2, 3))
    for op in ("any", "all"):
        case(op, "bool_4x3", bools(4, 3), dim=[1])
        case(op, "bool_all", bools(3, 3))
        case(op, "bool_empty", bools(2, 0), dim=[1])
        case(op, "bool_permuted", bools(2, 3), pre={0: "permute:1,0"}, dim=[0], keepdim=True)
    for op in ("argmax", "argmin"):
        case(op, "flat_3x4", floats(3, 4))
        case(op, "last_3x4", floats(3, 4), dim=-1)
        case(op, "first_keep_5x3", floats(5, 3), dim=0, keepdim=True)
        case(op, "ties", f32(2., 7., 7., 1., 1., 7., 0., 0., 0.).reshape(3, 3), dim=1)
        case(op, "scalar", floats())
        case(op, "int32_ties", i32(3, 5, 5, 3), dim=0)
        case(op, "permuted_4x5", floats(4, 5), pre={0: "permute:1,0;flip:0"}, dim=0)
        case(op, "special_nan", f32(1., NAN, 3., NAN), dim=0)

def scan_cases():
    for op in ("cumsum", "cumprod", "cummax", "cummin", "softmax", "log_softmax"):
        case(op, "9", floats(9), dim=0)
        case(op, "last_3x5", floats(3, 5), dim=-1)
        case(op, "first_4x3", floats(4, 3), dim=0)
        case(op, "middle_2x5x3", floats(2, 5, 3), dim=1)
        case(op, "one_3x1", floats(3, 1), dim=1)
        case(op, "empty_0x3", floats(0, 3), dim=1)
        case(op, "views_5x6", floats(5, 6), pre={0: "permute:1,0;flip:0;slice:0,0,6,2"}, dim=0)
        case(op, "long_2x131", floats(2, 131, low=.9, high=1.1) if op == "cumprod" else floats(2, 131), dim=1)
    case("cumprod", "zeros", f32(2., 0., 3., 4., 0., 5.).reshape(2, 3), dim=1)
    case("cumsum", "int32", ints(3, 4), dim=1)
    case("cumprod", "int32", ints(3, 4), dim=0)
    case("cummax", "int32", ints(9), dim=0)
    for op in ("softmax", "log_softmax"):
        case(op, "extreme", f32(1000., 1000., -1000., 80., -80., 0.).reshape(2, 3), dim=1)
        case(op, "special_masked", f32(1., -INF, 2., -INF, 0., -INF).reshape(2, 3), dim=1)
    for descending in (False, True):
        tag = "down" if descending else "up"
        case("sort", f"{tag}_13", floats(13), dim=0, descending=descending)
        case("sort", f"kink_{tag}", f32(2., 1., 2., 1., 0., 2.).reshape(2, 3), dim=1, descending=descending)
        case("sort", f"{tag}_first_5x3", floats(5, 3), dim=0, descending=descending)
        case("sort", f"{tag}_views", floats(4, 6), pre={0: "permute:1,0;flip:1"}, dim=-1, descending=descending)
        case("sort", f"{tag}_int32", ints(17), dim=0, descending=descending)
        case("sort", f"special_{tag}", f32(NAN, 1., INF, -INF, 0.), dim=0, descending=descending)

def movement_cases():
    case("reshape", "6_to_2x3", floats(6), shape=[2, 3])
    case("reshape", "infer", floats(2, 3, 4), shape=[4, -1])
    case("reshape", "to_scalar", floats(1, 1), shape=[])
    case("reshape", "permuted", floats(3, 4, 2), pre={0: "permute:2,1,0"}, shape=[6, 4])
    case("reshape", "empty", floats(0, 3), shape=[3, 0, 2])
    case("reshape", "from_scalar", floats(), shape=[1, 1, 1])
    case("permute", "2x3x4", floats(2, 3, 4), order=[2, 0, 1])
    case("permute", "negative", floats(2, 3), order=[-1, -2])
    case("permute", "scalar", floats(), order=[])
    case("permute", "empty", floats(2, 0, 3), order=[1, 2, 0])
    case("permute", "views", floats(3, 5), pre={0: "slice:1,1,5,2;flip:0"}, order=[1, 0])
    case("expand", "3x1_to_3x4", floats(3, 1), shape=[3, 4])
    case("expand", "scalar", floats(), shape=[2, 3])
    case("expand", "leading", floats(1, 2), shape=[3, 4, 2])
    case("expand", "to_empty", floats(1, 3), shape=[0, 3])
    case("flip", "last", floats(2, 5), dim=[-1])
    case("flip", "both", floats(3, 4), dim=[0, 1])
    case("flip", "permuted", floats(3, 4, 2), pre={0: "permute:1,2,0"}, dim=[1])
    case("flip", "empty", floats(0, 2), dim=[0])
    case("pad", "2x3", floats(2, 3), around=[1, 2, 0, 3])
    case("pad", "value", floats(5), around=[2, 0], value=-1.5)
    case("pad", "nothing", floats(2, 2), around=[0, 0, 0, 0])
    case("pad", "3d_views", floats(3, 2, 4), pre={0: "permute:2,0,1;flip:0"}, around=[0, 1, 2, 0, 1, 1], value=7.)
    case("pad", "empty", floats(0, 2), around=[2, 1, 0, 1], value=3.)
    case("shrink", "5x4", floats(5, 4), keep=[1, 4, 0, 2])
    case("shrink", "empty", floats(3, 3), keep=[1, 1, 0, 3])
    case("shrink", "permuted", floats(4, 5), pre={0: "permute:1,0"}, keep=[2, 5, 1, 3])
    bounds = [("step2", None, None, 2), ("step3_from1", 1, None, 3), ("negative_bounds", -5, -1, 2), ("clipped", -100, 100, 4),
              ("nothing", 4, 4, 1), ("reversed", None, None, -1), ("back2", 6, 1, -2), ("back3", None, None, -3)]
    for variant, start, stop, step in bounds:
        case("slice", f"{variant}_9", floats(9), dim=0, start=start, stop=stop, step=step)
        case("slice", f"{variant}_3x8", floats(3, 8), dim=1, start=start, stop=stop, step=step)
    case("slice", "permuted", floats(3, 7), pre={0: "permute:1,0;flip:0"}, dim=0, start=1, step=2)
    case("cat", "first", floats(2, 3), floats(1, 3), floats(4, 3), dim=0)
    case("cat", "last", floats(2, 3), floats(2, 1), dim=-1)
    case("cat", "one", floats(3), dim=0)
    case("cat", "with_empty", floats(2, 3), floats(0, 3), floats(1, 3), dim=0)
    case("cat", "views", floats(3, 2), floats(2, 6), pre={0: "permute:1,0", 1: "slice:1,0,6,2;flip:0"}, dim=1)
    case("cat", "int32", ints(2), ints(3), dim=0)
    case("stack", "first", floats(3), floats(3), dim=0)
    case("stack", "last", floats(2, 3), floats(2, 3), floats(2, 3), dim=-1)
    case("stack", "scalars", floats(), floats(), dim=0)
    case("stack", "views", floats(3, 2), floats(2, 3), pre={0: "permute:1,0"}, dim=1)
    case("repeat", "2x3", floats(2, 3), times=[2, 1])
    case("repeat", "more_axes", floats(3), times=[2, 1, 2])
    case("repeat", "scalar", floats(), times=[3])
    case("repeat", "zero", floats(2, 2), times=[0, 1])
    case("repeat", "permuted", floats(2, 3), pre={0: "permute:1,0"}, times=[2, 2])
    case("roll", "7", floats(7), shifts=[3], dim=[0])
    case("roll", "negative", floats(3, 5), shifts=[-2], dim=[1])
    case("roll", "two", floats(3, 4), shifts=[1, -1], dim=[0, 1])
    case("roll", "past_the_end", floats(4), shifts=[11], dim=[0])
    case("roll", "permuted", floats(3, 4), pre={0: "permute:1,0"}, shifts=[1], dim=[0])
    for op in ("tril", "triu"):
        for k in (-1, 0, 2): case(op, f"4x5_{k}", floats(4, 5), k=k)
        case(op, "batch", floats(2, 3, 3))
        case(op, "permuted", floats(5, 3), pre={0: "permute:1,0;flip:1"}, k=1)
        case(op, "one", floats(1, 1), k=1)
        case(op, "special_infinite", torch.full((3, 3), -INF))
    case("one_hot", "5", ints(5, low=0, high=3), classes=4)
    case("one_hot", "2x3", ints(2, 3, low=0, high=6), classes=7)
    case("one_hot", "scalar", ints(low=0, high=1), classes=2)

def index_cases():
    case("gather", "first_4x3", floats(4, 3), ints(5, 3, low=0, high=3), dim=0)
    case("gather", "last_3x6", floats(3, 6), ints(3, 2, low=0, high=5), dim=-1)
    case("gather", "middle_2x5x3", floats(2, 5, 3), ints(2, 4, 3, low=0, high=4), dim=1)
    case("gather", "smaller", floats(4, 6), ints(2, 3, low=0, high=5), dim=1)
    case("gather", "empty", floats(3, 2), ints(0, 2), dim=0)
    case("gather", "views", floats(6, 4), ints(3, 4, low=0, high=5), pre={0: "permute:1,0;flip:0", 1: "permute:1,0"}, dim=1)
    case("index_select", "first", floats(5, 3), i32(4, 0, 0, 2), dim=0)
    case("index_select", "last", floats(2, 6), i32(5, 1), dim=1)
    case("index_select", "empty", floats(3, 2), i32(), dim=0)
    case("index_select", "permuted", floats(3, 4), i32(3, 1, 1), pre={0: "permute:1,0"}, dim=0)
    case("scatter_add", "first_3x4", floats(3, 4), ints(5, 4, low=0, high=2), floats(5, 4), dim=0)
    case("scatter_add", "last_2x3", floats(2, 3), ints(2, 7, low=0, high=2), floats(2, 7), dim=1)
    case("scatter_add", "smaller", floats(4, 4), ints(2, 3, low=0, high=3), floats(2, 3), dim=0)
    case("scatter_add", "views", floats(4, 3), ints(3, 5, low=0, high=3), floats(10, 3),
         pre={0: "permute:1,0", 2: "slice:0,0,10,2;permute:1,0"}, dim=1)
    case("scatter_add", "empty", floats(3), i32(), f32(), dim=0)
    case("index_add", "first", floats(4, 3), i32(1, 3, 1, 1), floats(4, 3), dim=0)
    case("index_add", "last", floats(2, 3), i32(2, 0), floats(2, 2), dim=1)
    case("index_add", "int32", ints(4), i32(0, 0, 3), ints(3), dim=0)
    case("embedding", "7x4", floats(7, 4), ints(3, 2, low=0, high=6))
    case("embedding", "repeated", floats(5, 3), i32(1, 1, 1, 4))
    case("embedding", "scalar", floats(3, 2), ints(low=0, high=2))
    case("embedding", "empty", floats(3, 2), ints(0, 2))

def matmul_cases():
    shapes = {
        "3_3":             ([3], [3]),
        "4x3_3":           ([4, 3], [3]),
        "3_3x5":           ([3], [3, 5]),
        "2x3_3x4":         ([2, 3], [3, 4]),
        "1x1_1x1":         ([1, 1], [1, 1]),
        "7x1_1x5":         ([7, 1], [1, 5]),
        "1x9_9x1":         ([1, 9], [9, 1]),
        "2x3x4_2x4x5":     ([2, 3, 4], [2, 4, 5]),
        "3x4_2x4x5":       ([3, 4], [2, 4, 5]),
        "2x3x4_4x5":       ([2, 3, 4], [4, 5]),
        "2x1x3x4_5x4x2":   ([2, 1, 3, 4], [5, 4, 2]),
        "4_2x4x3":         ([4], [2, 4, 3]),
        "2x3x4_4":         ([2, 3, 4], [4]),
        "2x0_0x3":         ([2, 0], [0, 3]),
        "0x3_3x2":         ([0, 3], [3, 2]),
        "17x33_33x19":     ([17, 33], [33, 19]),
        "31x65_65x13":     ([31, 65], [65, 13]),
        "3x16x16_3x16x16": ([3, 16, 16], [3, 16, 16]),
    }
    for variant, (a, b) in shapes.items(): case("matmul", variant, floats(*a), floats(*b))
    case("matmul", "transposed_right", floats(5, 7), floats(4, 7), pre={1: "permute:1,0"})
    case("matmul", "transposed_left", floats(7, 5), floats(7, 4), pre={0: "permute:1,0"})
    case("matmul", "views", floats(6, 8), floats(5, 1),
         pre={0: "slice:1,0,8,2;flip:0;permute:1,0", 1: "reshape:1,5;expand:6,5;flip:1"})
    case("matmul", "int32", ints(3, 4), ints(4, 2))
    case("linear", "3x5_4x5", floats(3, 5), floats(4, 5), floats(4))
    case("linear", "batch", floats(2, 3, 5), floats(4, 5))

def conv_cases():
    configs = {
        "plain_1x1x5x5":           ([1, 1, 5, 5], [1, 1, 3, 3], {}),
        "2x3x7x6":                 ([2, 3, 7, 6], [4, 3, 3, 3], dict(padding=[1, 1])),
        "stride2":                 ([1, 2, 9, 8], [3, 2, 3, 3], dict(stride=[2, 2], padding=[1, 1])),
        "stride_uneven":           ([1, 2, 8, 9], [2, 2, 2, 3], dict(stride=[3, 2], padding=[0, 2])),
        "dilated":                 ([1, 2, 9, 9], [2, 2, 3, 3], dict(dilation=[2, 3], padding=[2, 0])),
        "grouped":                 ([2, 4, 5, 5], [6, 2, 3, 3], dict(groups=2)),
        "depthwise":               ([1, 3, 6, 6], [3, 1, 3, 3], dict(groups=3, padding=[1, 1])),
        "depthwise_twice_stride2": ([1, 3, 7, 7], [6, 1, 3, 3], dict(groups=3, stride=[2, 2], padding=[1, 1])),
        "pointwise":               ([2, 5, 3, 4], [4, 5, 1, 1], {}),
        "pointwise_stride2":       ([1, 3, 5, 5], [2, 3, 1, 1], dict(stride=[2, 2])),
        "whole_window":            ([2, 2, 4, 3], [3, 2, 4, 3], {}),
        "everything":              ([2, 4, 10, 9], [4, 2, 3, 2], dict(groups=2, stride=[2, 1], dilation=[2, 2], padding=[2, 1])),
        "kernel_larger":           ([1, 1, 2, 2], [1, 1, 5, 5], dict(padding=[2, 2])),
    }
    for variant, (x, w, params) in configs.items():
        case("conv2d", variant, floats(*x), floats(*w), **params)
        case("conv2d", f"{variant}_bias", floats(*x), floats(*w), floats(w[0]), **params)
    case("conv2d", "channels_last_views", floats(2, 5, 6, 3), floats(3, 3, 3, 4),
         pre={0: "permute:0,3,1,2", 1: "permute:3,2,0,1;flip:2,3"}, padding=[1, 1])
    pools = {
        "2x2":           ([2, 3, 6, 4], dict(kernel=[2, 2])),
        "odd_left_over": ([1, 2, 7, 5], dict(kernel=[2, 2])),
        "overlap":       ([1, 2, 7, 7], dict(kernel=[3, 3], stride=[2, 2])),
        "padded":        ([1, 2, 6, 7], dict(kernel=[3, 3], stride=[2, 2], padding=[1, 1])),
        "uneven":        ([2, 1, 5, 8], dict(kernel=[1, 3], stride=[2, 1], padding=[0, 1])),
        "global":        ([2, 2, 3, 5], dict(kernel=[3, 5])),
    }
    for variant, (x, params) in pools.items():
        case("max_pool2d", variant, floats(*x), **params)
        case("avg_pool2d", variant, floats(*x), **params)
        if "padding" in params:
            case("avg_pool2d", f"{variant}_inside", floats(*x), count_include_pad=False, **params)
    case("max_pool2d", "dilated", floats(1, 2, 8, 9), kernel=[2, 3], stride=[1, 2], dilation=[3, 2])
    case("max_pool2d", "negative_padded", floats(1, 1, 4, 4, low=-5, high=-1), kernel=[2, 2], padding=[1, 1])
    case("max_pool2d", "views", floats(1, 6, 5, 2), pre={0: "permute:0,3,2,1;flip:3"}, kernel=[2, 2])

def norm_cases():
    case("layernorm", "3x7", floats(3, 7), floats(7), floats(7), axes=1)
    case("layernorm", "plain_2x3x4", floats(2, 3, 4), axes=1)
    case("layernorm", "two_axes", floats(2, 3, 4), floats(3, 4), floats(3, 4), axes=2)
    case("layernorm", "weight_only", floats(4, 5), floats(5), axes=1, eps=1e-3)
    case("layernorm", "permuted", floats(6, 4), floats(6), floats(6), pre={0: "permute:1,0"}, axes=1)
    case("layernorm", "long_2x133", floats(2, 133), floats(133), floats(133), axes=1)
    case("layernorm", "offset", floats(3, 16, low=49, high=51), axes=1)
    case("rmsnorm", "3x7", floats(3, 7), floats(7))
    case("rmsnorm", "plain_2x3x5", floats(2, 3, 5), eps=1e-6)
    case("groupnorm", "2x6x3", floats(2, 6, 3), floats(6), floats(6), groups=3)
    case("groupnorm", "instance_2x4x3x3", floats(2, 4, 3, 3), groups=4)
    case("batchnorm", "4x3", floats(4, 3), floats(3), floats(3, low=.5, high=2), floats(3), floats(3))
    case("batchnorm", "2x3x4x5", floats(2, 3, 4, 5), floats(3), floats(3, low=.5, high=2), floats(3), floats(3), eps=1e-3)
    case("batchnorm", "plain", floats(2, 3, 5), floats(3), floats(3, low=.5, high=2))
    case("batchnorm_train", "6x3", floats(6, 3), floats(3), floats(3))
    case("batchnorm_train", "2x3x4x5", floats(2, 3, 4, 5), floats(3), floats(3))
    case("batchnorm_train", "plain", floats(3, 2, 5), eps=1e-3)
    case("batchnorm_train", "channels_last", floats(2, 4, 3, 5), floats(5), floats(5), pre={0: "permute:0,3,1,2"})
    case("scaled_dot_product_attention", "2x3x5x4", floats(2, 3, 5, 4), floats(2, 3, 7, 4), floats(2, 3, 7, 6))
    case("scaled_dot_product_attention", "masked", floats(1, 2, 5, 4), floats(1, 2, 5, 4), floats(1, 2, 5, 4), floats(5, 5))

def loss_cases():
    for tag, params in [("plain", {}), ("smooth", dict(smoothing=.1)), ("ignore", dict(ignore_index=2)),
                        ("smooth_ignore", dict(smoothing=.3, ignore_index=2))]:
        case("cross_entropy", f"{tag}_5x4", floats(5, 4), i32(2, 0, 3, 1, 2), **params)
        case("cross_entropy", f"{tag}_2x3x4", floats(2, 3, 4), i32(0, 1, 2, 0, 2, 1, 1, 0).reshape(2, 4), **params)
    case("cross_entropy", "one", floats(1, 10), i32(9))
    case("cross_entropy", "extreme", f32(1000., -1000., 0., 500.).reshape(2, 2), i32(1, 0))
    case("cross_entropy", "permuted", floats(6, 5), i32(0, 5, 2, 3, 3), pre={0: "permute:1,0"}, smoothing=.1)
    case("nll_loss", "5x4", floats(5, 4), i32(2, 0, 3, 1, 2))
    case("nll_loss", "ignore", floats(5, 4), i32(2, 0, 3, 1, 2), ignore_index=2)
    case("nll_loss", "2x3x4", floats(2, 3, 4), i32(0, 1, 2, 0, 2, 1, 1, 0).reshape(2, 4))
    for op in ("mse_loss", "l1_loss"):
        case(op, "7", floats(7), floats(7))
        case(op, "2x3x4", floats(2, 3, 4), floats(2, 3, 4))
        case(op, "views", floats(3, 4), floats(8, 3), pre={0: "permute:1,0", 1: "slice:0,0,8,2;flip:1"})

if __name__ == "__main__":
    for family in (unary_cases, binary_cases, cast_cases, reduce_cases, scan_cases, movement_cases, index_cases,
                   matmul_cases, conv_cases, norm_cases, loss_cases):
        family()
    write(__file__)
