"""Golden cases of sorting, what is found by it, counting, and running extremes."""
from writer import *

def line(x, p):                                 # dim absent: all elements
    return (x, p.int("dim")) if "dim" in p.values else (x.reshape(-1), 0)

def nth(f):                                     # (values, indices) along dim, or over all elements
    def run(i, p):
        x, dim = line(i[0], p)
        return tuple(f(x, dim, p.flag("keepdim"), p))
    return run

def mode(x, dim, keepdim, p):                   # torch's index is any of them; the last is recorded
    values, _ = torch.mode(x, dim, keepdim=True)
    hit = x == values
    places = torch.arange(x.shape[dim]).reshape([-1 if k == dim % x.ndim else 1 for k in range(x.ndim)])
    at = torch.where(hit, places, -1).max(dim, keepdim=True).values
    values = x.gather(dim, at)
    return (values, at) if keepdim else (values.squeeze(dim), at.squeeze(dim))

def searchsorted(i, p):
    sorter = i[2].long() if len(i) > 2 else None
    return torch.searchsorted(i[0].contiguous(), i[1].contiguous(), right=p.flag("right"), sorter=sorter)

def unique(f, **kw):
    return lambda i, p: f(i[0], return_inverse=True, return_counts=True, **kw)

OPS.update({
    "stable_sort": lambda i, p: tuple(torch.sort(i[0], dim=p.int("dim", -1), descending=p.flag("descending"), stable=True)),
    "argsort":    lambda i, p: torch.argsort(i[0], dim=p.int("dim", -1), descending=p.flag("descending"), stable=True),
    "sort_values": lambda i, p: torch.sort(i[0], descending=p.flag("descending"), stable=True).values,
    "msort":      lambda i, p: torch.msort(i[0]),
    "topk":       lambda i, p: tuple(torch.topk(i[0], p.int("k"), p.int("dim", -1), largest=not p.flag("least"))),
    "kthvalue":   nth(lambda x, dim, keep, p: torch.kthvalue(x, p.int("k"), dim, keepdim=keep)),
    "median":     nth(lambda x, dim, keep, p: torch.median(x, dim, keepdim=keep)),
    "nanmedian":  nth(lambda x, dim, keep, p: torch.nanmedian(x, dim, keepdim=keep)),
    "mode":       nth(mode),
    "quantile":   lambda i, p: torch.quantile(i[0], i[1] if len(i) > 1 else p.float("q"), p.int("dim"),
                                              keepdim=p.flag("keepdim"), interpolation=p.values.get("between", "linear")),
    "searchsorted": searchsorted,
    "bucketize":  lambda i, p: torch.bucketize(i[0], i[1], right=p.flag("right")),
    "unique":     unique(torch.unique, sorted=True),
    "unique_consecutive": unique(torch.unique_consecutive),
    "bincount":   lambda i, p: torch.bincount(i[0], i[1] if len(i) > 1 else None, p.int("minlength", 0)),
    "histc":      lambda i, p: torch.histc(i[0], p.int("bins"), p.float("low", 0.), p.float("high", 0.)),
    "cummax_places": lambda i, p: tuple(torch.cummax(i[0], p.int("dim"))),
    "cummin_places": lambda i, p: tuple(torch.cummin(i[0], p.int("dim"))),
    "logcumsumexp":  lambda i, p: torch.logcumsumexp(i[0], p.int("dim")),
})

def typed(dtype, *values): return torch.tensor(values, dtype=dtype)
def distinct(*shape):                           # no two are equal
    def draw(rng):
        n = int(np.prod(shape))
        return torch.from_numpy(((rng.permutation(n) - n / 2) / 8 + .01).astype(np.float32).reshape(shape))
    return draw

TAGS = (("up", False), ("down", True))
for tag, descending in TAGS:
    for n in (1, 2, 3, 15, 16, 17, 31, 33, 100, 257):
        case("stable_sort", f"{tag}_{n}", distinct(n), descending=descending, exact=True)
    case("stable_sort", f"{tag}_scalar", f32(3.)[0], descending=descending, exact=True)
    case("stable_sort", f"{tag}_empty", floats(0), descending=descending, exact=True)
    case("stable_sort", f"{tag}_empty_rows", floats(0, 4), descending=descending, exact=True)
    case("stable_sort", f"{tag}_no_columns", floats(3, 0), descending=descending, exact=True)
    case("stable_sort", f"{tag}_first_40x5", distinct(40, 5), dim=0, descending=descending, exact=True)
    case("stable_sort", f"{tag}_middle_3x70x4", distinct(3, 70, 4), dim=1, descending=descending, exact=True)
    case("stable_sort", f"{tag}_views", distinct(12, 20), pre={0: "permute:1,0;flip:0;slice:1,0,12,2"}, descending=descending, exact=True)
    case("stable_sort", f"{tag}_expanded", distinct(1, 9), pre={0: "expand:4,9"}, descending=descending, exact=True)
    case("stable_sort", f"special_{tag}", f32(NAN, 1., INF, -INF, 0., -0., NAN, -1., -0., 0., 1e-40, -1e-40, 3e38),
         descending=descending, exact=True)
    case("stable_sort", f"special_{tag}_ties", ints(4, 50, low=0, high=5), descending=descending, exact=True)
    for name, dtype, values in (
        ("bool", torch.bool, (True, False, True, False, False)),
        ("int8", torch.int8, (3, -128, 127, 0, -1, 3, -128)),
        ("uint8", torch.uint8, (3, 255, 0, 128, 3, 127)),
        ("int16", torch.int16, (300, -32768, 32767, 0, 300)),
        ("int32", torch.int32, (7, -2**31, 2**31 - 1, 0, -1, 7, 2**31 - 2)),
        ("int64", torch.int64, (2**31, 2**30, -2**31, 1, 0, -1, 2**30)),
        ("wide_int64", torch.int64, (2**40, -2**52, 2**32, 1, 0, -1, 2**40, 2**52, -2**32, 2**31, -2**31)),
        ("float16", torch.float16, (1.5, -65504, 65504, 0, -0., 6e-8, INF, -INF, NAN)),
        ("bfloat16", torch.bfloat16, (1.5, -3e38, 3e38, 0, -0., 1e-40, INF, -INF, NAN)),
        ("float64", torch.float64, (1.5, 1.5 + 2**-50, -1e300, 1e300, 0, -0., 5e-324, INF, -INF, NAN, 1.5)),
    ):
        op = "sort_values" if dtype in (torch.int64, torch.float64) else "stable_sort"
        case(op, f"special_{tag}_{name}", typed(dtype, *values), descending=descending, exact=True, wide=dtype == torch.int64)
    case("argsort", tag, distinct(3, 21), descending=descending)
case("msort", "5x3", distinct(5, 3), exact=True)

for n, k in ((1, 1), (7, 3), (64, 1), (64, 17), (100, 100), (300, 5), (50, 0)):
    for least in (False, True):
        case("topk", f"{k}_of_{n}_{least}", distinct(2, n), k=k, least=least, exact=True)
case("topk", "first", distinct(40, 3), k=4, dim=0, exact=True)
case("topk", "special_nan", f32(1., NAN, 3., -INF, INF, 2.), k=3, exact=True)
case("topk", "views", distinct(6, 40), pre={0: "permute:1,0;flip:0"}, k=2, dim=0, exact=True)
case("kthvalue", "second", distinct(3, 9), k=2, dim=1, exact=True)
case("kthvalue", "keepdim", distinct(9, 4), k=9, dim=0, keepdim=True, exact=True)
case("kthvalue", "all", distinct(3, 9), k=5, exact=True)
for n in (1, 2, 9, 10):
    case("median", f"{n}", distinct(3, n), dim=1, exact=True)
case("median", "all", distinct(4, 5), exact=True)
case("median", "keepdim", distinct(5, 4), dim=0, keepdim=True, exact=True)
case("median", "special_nan", f32(1., NAN, 3., 2., 5., 0.).reshape(2, 3), dim=1, exact=True)
case("median", "int32", ints(3, 1, high=50), dim=0, exact=True)
case("nanmedian", "special_nan", f32(1., NAN, 3., 2., 5., 0., NAN, NAN, NAN, 4., NAN, 3.).reshape(4, 3), dim=1, exact=True)
case("nanmedian", "8", distinct(3, 8), dim=1, exact=True)
case("mode", "rows", ints(4, 30, low=0, high=4), dim=1, exact=True)
case("mode", "first", ints(30, 3, low=-2, high=2), dim=0, keepdim=True, exact=True)
case("mode", "all", ints(5, 5, low=0, high=3), exact=True)
case("mode", "kink_floats", f32(1., 2., 2., 3., 3.), dim=0, exact=True)
for between in ("linear", "lower", "higher", "nearest", "midpoint"):
    case("quantile", between, distinct(3, 11), q=.37, dim=1, between=between)
case("quantile", "several", distinct(3, 11), f32(.1, .5, 1., 0.), dim=1, grad=False)
case("quantile", "keepdim", distinct(7, 3), f32(.25, .6), dim=0, keepdim=True, grad=False)
case("quantile", "all", distinct(4, 5), q=.9)
case("quantile", "special_nan", f32(1., NAN, 3., 2., 5., 0.).reshape(2, 3), q=.5, dim=1)
case("quantile", "double", lambda rng: torch.from_numpy(rng.permutation(9) / 7.), q=.3, dim=0)

def sorted_floats(*shape): return lambda rng: torch.from_numpy(np.sort(np.round(rng.uniform(-4, 4, shape) * 2) / 2).astype(np.float32))
def halves(*shape): return lambda rng: torch.from_numpy((np.round(rng.uniform(-5, 5, shape) * 2) / 2).astype(np.float32))
for tag, right in (("left", False), ("right", True)):
    case("searchsorted", f"{tag}_vector", sorted_floats(17), halves(3, 8), right=right)
    case("searchsorted", f"{tag}_batched", sorted_floats(3, 20), halves(3, 9), right=right)
    case("searchsorted", f"{tag}_empty", f32(), halves(4), right=right)
    case("searchsorted", f"{tag}_no_values", sorted_floats(5), f32(), right=right)
    case("searchsorted", f"{tag}_int32", i32(1, 3, 3, 3, 8), ints(20), right=right)
    case("searchsorted", f"special_{tag}", f32(-INF, -1., 0., INF), f32(-INF, INF, NAN, -0., 0.), right=right)
    case("searchsorted", f"{tag}_sorter", f32(5., 1., 3., 2.), halves(9), i32(1, 3, 2, 0), right=right)
    case("bucketize", tag, halves(4, 6), sorted_floats(9), right=right)

case("unique", "int32", ints(40), grad=False, exact=True)
case("unique", "3x4", ints(3, 4, low=0, high=5), grad=False, exact=True)
case("unique", "empty", i32(), grad=False, exact=True)
case("unique", "one", i32(5), grad=False, exact=True)
case("unique", "bool", bools(9), grad=False, exact=True)
case("unique", "special_floats", f32(1., 0., 2., 1., -1., INF, INF, NAN), grad=False, exact=True)
case("unique_consecutive", "runs", i32(1, 1, 2, 2, 2, 1, 3, 3), grad=False, exact=True)
case("unique_consecutive", "2x3", i32(1, 1, 2, 2, 2, 3).reshape(2, 3), grad=False, exact=True)
case("bincount", "plain", ints(30, low=0, high=6))
case("bincount", "longer", ints(5, low=0, high=2), minlength=9)
case("bincount", "empty", i32(), minlength=3)
case("bincount", "weights", ints(30, low=0, high=6), floats(30), grad=False)
case("bincount", "uint8", typed(torch.uint8, 200, 3, 3))
case("histc", "between", floats(50, low=-3, high=3), bins=7, low=-2., high=2., grad=False)
case("histc", "from_data", halves(4, 9), bins=6, grad=False)
case("histc", "all_equal", f32(2., 2., 2.), bins=4, grad=False)
case("histc", "edges", f32(0., 1., 2., 3., 4., 5., -1.), bins=4, low=0., high=4., grad=False)

for op in ("cummax_places", "cummin_places"):
    case(op, "rows", distinct(3, 12), dim=1, exact=True)
    case(op, "first", distinct(12, 3), dim=0, exact=True)
    case(op, "kink_ties", f32(1., 3., 3., 2., 3., 0., 0., 5.), dim=0, exact=True)
    case(op, "special_nan", f32(1., 3., NAN, 2., NAN, 7.), dim=0, exact=True)
    case(op, "int32", ints(4, 9), dim=1, exact=True)
for n in (1, 2, 3, 8, 13, 100):
    case("logcumsumexp", f"{n}", floats(2, n, low=-5, high=5), dim=1)
case("logcumsumexp", "first", floats(9, 2), dim=0)
case("logcumsumexp", "extreme_apart", f32(0., 1000., -1000., 500., 1001.), dim=0)
case("logcumsumexp", "extreme_low", f32(-1000., -1001., -999., 80.), dim=0)
case("logcumsumexp", "special", f32(-INF, 1., 2., INF, 3.), dim=0)
case("logcumsumexp", "special_none_yet", f32(-INF, -INF, 2., -INF), dim=0)
write(__file__)
