"""Golden cases of reading and writing by place.

The parameter `index` is a list of items separated by `/`: `i3` an integer, `s1:7:2` a slice (ends may be missing, `-`
for a negative step), `e` an ellipsis, `n` a new axis, `yes` and `no` flags, `t1` the input with that number. For
`index_put` and `set` the value is the last input.
"""
from writer import *

def item(text, inputs):
    if text == "e": return Ellipsis
    if text == "n": return None
    if text in ("yes", "no"): return text == "yes"
    if text[0] == "i": return int(text[1:])
    if text[0] == "t":
        t = inputs[int(text[1:])]
        return t if t.dtype == torch.bool else t.long()
    start, stop, step = [int(v) if v else None for v in text[1:].split(":")]
    return slice(start, stop, step)

def backwards(x, index):                        # torch has no negative steps: turn the axis round first
    axis = 0
    used = sum(i.ndim if torch.is_tensor(i) and i.dtype == torch.bool else i is not None and i is not Ellipsis
               and not isinstance(i, bool) for i in index)
    out = []
    for i in index:
        if i is Ellipsis: axis += x.ndim - used
        if isinstance(i, slice) and (i.step or 1) < 0:
            places = list(range(x.shape[axis]))[i]
            i = torch.tensor(places, dtype=torch.int64)
            assert not any(torch.is_tensor(k) for k in index), "a negative step beside tensors"
            x = x.index_select(axis, i)
            i = slice(None)
        if i is not None and i is not Ellipsis and not isinstance(i, bool):
            axis += i.ndim if torch.is_tensor(i) and i.dtype == torch.bool else 1
        out.append(i)
    return x, tuple(out)

def index(i, p):
    x, idx = backwards(i[0], [item(t, i) for t in p.text("index").split("/")])
    return x[idx]

def put(i, p):
    x, idx = i[0].clone(), tuple(item(t, i) for t in p.text("index").split("/"))
    if p.flag("accumulate"):
        assert all(torch.is_tensor(k) for k in idx)
        return x.index_put(idx, i[-1], accumulate=True)
    x[idx] = i[-1]
    return x

def reduce(i, p):
    return i[0].scatter_reduce(p.int("dim"), i[1].long(), i[2], p.text("how"), include_self=not p.flag("apart"))

OPS.update({
    "index":      index,
    "index_put":  put,
    "set":        put,
    "scatter":    lambda i, p: i[0].scatter(p.int("dim"), i[1].long(), i[2] if len(i) > 2 else p.float("value")),
    "scatter_reduce": reduce,
    "index_copy": lambda i, p: i[0].index_copy(p.int("dim"), i[1].long(), i[2]),
    "index_fill": lambda i, p: i[0].index_fill(p.int("dim"), i[1].long(), p.float("value")),
    "masked_fill": lambda i, p: i[0].masked_fill(i[1], p.float("value")),
    "masked_scatter": lambda i, p: i[0].masked_scatter(i[1], i[2]),
    "masked_select": lambda i, p: i[0].masked_select(i[1]),
    "nonzero":    lambda i, p: i[0].nonzero(),
    "nonzero_tuple": lambda i, p: i[0].nonzero(as_tuple=True),
    "take":       lambda i, p: i[0].take(i[1].long()),
    "take_along_dim": lambda i, p: i[0].take_along_dim(i[1].long(), p.int("dim")),
    "select":     lambda i, p: i[0].select(p.int("dim"), p.int("place")),
})

def read(variant, *inputs, **kw): case("index", variant, *inputs, exact=True, **kw)
def places(*shape, n): return ints(*shape, low=-n, high=n - 1)
def distinct(n, *shape):                        # no place twice
    def draw(rng): return torch.from_numpy(rng.permutation(n)[:int(np.prod(shape))].astype(np.int32).reshape(shape))
    return draw

# integers, slices, new axes
for k, text in enumerate(("i0", "i-1", "s::", "s1:3:", "s::2", "s::-1", "s-1:0:-2", "s3:1:-1", "s-2::", "s:-9:", "s9::", "s5:2:",
                          "e", "e/i1", "i1/e/i0", "n", "n/e/n", "i2/n/s::-1", "s::3/i0", "e/s::2/n", "s:100:7", "s-100::-3", "yes", "no", "yes/i0")):
    read(f"basic{k}", floats(4, 5, 3), index=text)
read("basic_views", floats(5, 6), pre={0: "permute:1,0;flip:0"}, index="s1::2/s::-2")
read("basic_empty", floats(0, 3), index="s::-1/i1")
read("basic_int32", ints(4, 5), index="s::-1/s1:4:2")
# index tensors
X = floats(4, 5, 6)
read("rows", X, places(3, n=4), index="t1")
read("rows_2d", X, places(2, 3, n=4), index="t1")
read("rows_scalar", X, i32(2)[0], index="t1")
read("rows_none", X, i32(), index="t1")
read("second", X, places(3, n=5), index="s::/t1")
read("last", X, places(3, n=6), index="e/t1")
read("pair", X, places(7, n=4), places(7, n=5), index="t1/t2")
read("pair_broadcast", X, places(3, 1, n=4), places(2, n=5), index="t1/t2")
read("all_three", X, places(7, n=4), places(7, n=5), places(7, n=6), index="t1/t2/t3")
read("apart", X, places(7, n=4), places(7, n=6), index="t1/s::/t2")
read("apart_2d", X, places(2, 3, n=4), places(3, n=6), index="t1/s1:4:/t2")
read("apart_by_axis", X, places(3, n=4), places(3, n=5), index="t1/n/t2")
read("behind_slice", X, places(3, n=5), places(3, n=6), index="s1:3:/t1/t2")
read("with_integer", X, places(3, n=6), index="i1/s::/t1")
read("with_integer_between", X, places(3, n=4), places(3, n=6), index="t1/i2/t2")
read("with_ellipsis", X, places(3, n=4), places(3, n=6), index="t1/e/t2")
read("with_new_axis", X, places(3, n=5), index="n/s::2/t1")
read("of_a_view", floats(6, 4), places(3, n=4), pre={0: "permute:1,0;flip:1"}, index="t1/s::2")
read("int64", floats(4, 3), torch.tensor([3, -4, 0]), index="t1")
read("uint8", floats(4, 3), torch.tensor([3, 0], dtype=torch.uint8).int(), index="t1")
# masks
read("mask_1d", X, bools(4), index="t1")
read("mask_2d", X, bools(4, 5), index="t1")
read("mask_3d", X, bools(4, 5, 6), index="t1")
read("mask_second", X, bools(5), index="s::/t1")
read("mask_last_two", X, bools(5, 6), index="e/t1")
read("mask_none", X, torch.zeros(4, 5, dtype=torch.bool), index="t1")
read("mask_and_places", X, torch.tensor([True, False, True, True]), places(3, n=6), index="t1/s::/t2")
read("mask_and_slice", X, bools(4), index="t1/s::2/i1")
read("mask_scalar_true", X, torch.tensor(True), index="t1")
read("mask_scalar_false", X, torch.tensor(False), index="t1")
read("flag_and_places", X, places(3, n=4), index="yes/t1")

for op in ("index_put", "set"):
    def write_case(variant, *inputs, **kw): case(op, variant, *inputs, exact=True, **kw)
    write_case("row", X, floats(5, 6), index="i1")
    write_case("slices", X, floats(2, 3, 6), index="s::2/s1:4:")
    write_case("scalar", X, f32(7.)[0], index="s1:3:/i0")
    write_case("broadcast", X, floats(6), index="s1:3:/s::2")
    write_case("new_axis", X, floats(1, 5, 6), index="n/i2")
    write_case("rows", X, distinct(4, 3), floats(3, 5, 6), index="t1")
    write_case("rows_scalar", X, distinct(4, 3), f32(2.)[0], index="t1")
    write_case("pair", X, distinct(4, 4), distinct(5, 4), floats(4, 6), index="t1/t2")
    write_case("apart", X, distinct(4, 3), distinct(6, 3), floats(3, 5), index="t1/s::/t2")
    write_case("apart_broadcast", X, distinct(4, 2, 1), distinct(6, 3), floats(5), index="t1/s::/t2")
    write_case("within_slice", X, distinct(5, 2), floats(2, 2, 3), index="s::2/t1/s3::")
    write_case("with_integer", X, distinct(6, 3), floats(5, 3), index="i1/s::/t1")
    write_case("none", X, i32(), floats(0, 5, 6), index="t1")
    write_case("mask_scalar", X, bools(4, 5, 6), f32(3.)[0], index="t1")
    write_case("mask_rows", X, bools(4), floats(5, 6), index="t1")
    write_case("mask_rows_one", X, bools(4), floats(1, 1, 6), index="t1")
    write_case("mask_each", X, torch.tensor([True, False, True, False]), floats(2, 5, 6), index="t1")
    write_case("mask_second", X, bools(5), f32(1.)[0], index="s::/t1")
    write_case("mask_and_slice", X, bools(4), f32(1.)[0], index="t1/s::2")
    write_case("flag_no", X, f32(1.)[0], index="no")
    write_case("int32", ints(4, 3), i32(2, 0), ints(2, 3), index="t1")
    write_case("special_twice", X, i32(1, 1, 1), floats(3, 5, 6), index="t1")
case("index_put", "add_rows", X, places(9, n=4), floats(9, 5, 6), index="t1", accumulate=True)
case("index_put", "add_pair", X, places(9, n=4), places(9, n=5), floats(9, 6), index="t1/t2", accumulate=True)
case("index_put", "add_scalar", X, places(9, n=4), f32(1.5)[0], index="t1", accumulate=True)
case("index_put", "add_int32", ints(4), places(9, n=4), ints(9), index="t1", accumulate=True)

case("scatter", "first", floats(5, 3), distinct(5, 3).__call__(rng_of("a")).reshape(3, 1).expand(3, 3).contiguous(), floats(3, 3), dim=0, exact=True)
case("scatter", "larger_source", floats(4, 4), i32(1, 0, 3, 2).reshape(2, 2), floats(4, 4), dim=1, exact=True, grad=False)
case("scatter", "value", floats(4, 3), ints(2, 3, low=0, high=3), dim=0, value=2.5, exact=True)
case("scatter", "empty", floats(3), i32(), f32(), dim=0, exact=True)
case("scatter", "views", floats(4, 3), i32(0, 2, 1, 3, 2, 1, 0, 3).reshape(2, 4), floats(4, 2), pre={0: "permute:1,0", 2: "permute:1,0"}, dim=1, exact=True)
for how in ("sum", "prod", "mean", "amax", "amin"):
    for apart in (False, True):
        tag = f"{how}_{'apart' if apart else 'with'}"
        case("scatter_reduce", f"{tag}_first", away(4, 3), ints(6, 3, low=0, high=3), away(6, 3), dim=0, how=how, apart=apart)
        case("scatter_reduce", f"{tag}_last", away(2, 4), ints(2, 9, low=0, high=2), away(2, 9), dim=1, how=how, apart=apart)
    case("scatter_reduce", f"{how}_int32", ints(4), ints(9, low=0, high=2), ints(9), dim=0, how=how)
case("scatter_reduce", "kink_prod_zeros", f32(0., 2., 3., 0.), i32(0, 1, 1, 2, 3, 3), f32(2., 0., 4., 5., 0., 6.), dim=0, how="prod")
case("index_copy", "rows", floats(5, 3), distinct(5, 3), floats(3, 3), dim=0, exact=True)
case("index_copy", "last", floats(2, 5), distinct(5, 2), floats(2, 2), dim=1, exact=True)
case("index_fill", "rows", floats(5, 3), i32(4, 1, 4), dim=0, value=2., exact=True)
case("index_fill", "last", floats(2, 5), i32(0), dim=-1, value=-1., exact=True)
case("masked_fill", "same", floats(3, 4), bools(3, 4), value=5., exact=True)
case("masked_fill", "broadcast", floats(3, 4), bools(4), value=5., exact=True)
case("masked_scatter", "same", floats(3, 4), bools(3, 4), floats(12), exact=True)
case("masked_scatter", "broadcast", floats(3, 4), torch.tensor([True, False, True, True]), floats(4, 5), exact=True)
case("masked_select", "same", floats(3, 4), bools(3, 4), exact=True)
case("masked_select", "broadcast", floats(3, 1), bools(3, 4), exact=True)
case("masked_select", "none", floats(3), torch.zeros(3, dtype=torch.bool), exact=True)
case("nonzero", "2d", ints(4, 5, low=0, high=1))
case("nonzero", "scalar", f32(2.)[0])
case("nonzero", "none", torch.zeros(3, 2))
case("nonzero", "special_nan", f32(0., -0., NAN, 1.))
case("nonzero", "bool", bools(2, 3, 2))
case("nonzero_tuple", "2d", ints(4, 5, low=0, high=1))
case("take", "2d", floats(3, 4), places(2, 5, n=12), exact=True)
case("take", "view", floats(3, 4), places(7, n=12), pre={0: "permute:1,0"}, exact=True)
case("take_along_dim", "same", floats(3, 4), ints(3, 2, low=0, high=3), dim=1, exact=True)
case("take_along_dim", "broadcast", floats(3, 1, 4), ints(1, 5, 2, low=0, high=3), dim=2, exact=True)
case("select", "first", floats(3, 4), dim=0, place=-1, exact=True)
case("select", "last", floats(3, 4), dim=1, place=2, exact=True)
write(__file__)
