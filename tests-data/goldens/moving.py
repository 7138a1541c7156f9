"""Ops that move elements beyond the six movement ops, and tensors made of numbers: see writer.py."""
from writer import *
import torch.nn.functional as F

def pairs(n): return [tuple(n[k:k + 2]) for k in range(0, len(n), 2)]

def rearrange(x, p):                            # the patterns of the cases, spelled by hand
    b = x
    return {
        "b (h w) c -> b c h w":   lambda: x.reshape(x.shape[0], p.int("h"), -1, x.shape[2]).permute(0, 3, 1, 2),
        "a b -> b a":             lambda: x.T,
        "... c -> c ...":         lambda: x.movedim(-1, 0),
        "a (b 1) ... -> (... a) b 1": lambda: x.movedim(0, -1).movedim(0, -1).reshape(-1, x.shape[1], 1),
        "(a b) (c d) -> (a c) (d b)": lambda: x.reshape(p.int("a"), -1, p.int("c"), x.shape[1] // p.int("c"))
                                  .permute(0, 2, 3, 1).reshape(p.int("a") * p.int("c"), -1),
        "a b c -> (a b c)":       lambda: x.reshape(-1),
    }[p.text("pattern")]()

OPS |= {
    "pad_mode":     lambda i, p: F.pad(i[0], p.ints("amounts"), p.text("mode"), p.float("value", 0.) if p.text("mode") == "constant" else None),
    "unfold":       lambda i, p: i[0].unfold(p.int("dim"), p.int("size"), p.int("step")),
    "diagonal":     lambda i, p: i[0].diagonal(p.int("offset", 0), *p.ints("dims", (0, 1))),
    "diag":         lambda i, p: i[0].diag(p.int("offset", 0)),
    "diag_embed":   lambda i, p: i[0].diag_embed(p.int("offset", 0), *p.ints("dims", (-2, -1))),
    "as_strided":   lambda i, p: i[0].as_strided(p.ints("size"), p.ints("stride"), p.int("offset", 0)),
    "roll_all":     lambda i, p: i[0].roll(p.int("shift")),
    "movedim":      lambda i, p: i[0].movedim(p.ints("source"), p.ints("to")),
    "rot90":        lambda i, p: i[0].rot90(p.int("times"), p.ints("dims", (0, 1))),
    "tile":         lambda i, p: i[0].tile(p.ints("counts")),
    "repeat_interleave":    lambda i, p: i[0].repeat_interleave(p.int("times"), p.int("dim")),
    "repeat_interleave_by": lambda i, p: i[0].repeat_interleave(i[1].long(), p.int("dim")),
    "split":        lambda i, p: i[0].split(p.ints("sizes") if "sizes" in p.values else p.int("size"), p.int("dim")),
    "chunk":        lambda i, p: i[0].chunk(p.int("pieces"), p.int("dim")),
    "tensor_split": lambda i, p: i[0].tensor_split(p.ints("places"), p.int("dim")),
    "unbind":       lambda i, p: i[0].unbind(p.int("dim")),
    "unflatten":    lambda i, p: i[0].unflatten(p.int("dim"), p.ints("sizes")),
    "flatten":      lambda i, p: i[0].flatten(p.int("start"), p.int("end")),
    "rearrange":    lambda i, p: rearrange(i[0], p),
    "meshgrid":     lambda i, p: torch.meshgrid(*i, indexing=p.text("indexing")),
    "linspace":     lambda i, p: torch.linspace(p.float("start"), p.float("end"), p.int("n")),
    "logspace":     lambda i, p: torch.logspace(p.float("start"), p.float("end"), p.int("n"), p.float("base")),
    "eye":          lambda i, p: torch.eye(*p.ints("dims")),
}

def pad_cases():
    for mode in ("reflect", "replicate", "circular"):
        case("pad_mode", f"{mode}_2x5", floats(2, 5), exact=True, mode=mode, amounts=[2, 1])
        case("pad_mode", f"{mode}_cut", floats(2, 6), exact=True, mode=mode, amounts=[2, -1])
        case("pad_mode", f"{mode}_2d", floats(1, 2, 4, 3), exact=True, mode=mode, amounts=[1, 2, 3, 0])
        case("pad_mode", f"{mode}_3d", floats(1, 2, 2, 3, 2), exact=True, mode=mode, amounts=[1, 0, 0, 2, 1, 1])
        case("pad_mode", f"{mode}_view", floats(5, 4, 1), pre={0: "flip:0;permute:2,1,0"}, exact=True, mode=mode, amounts=[3, 2])
        case("pad_mode", f"{mode}_ints", ints(1, 1, 4), exact=True, mode=mode, amounts=[1, 3])
    case("pad_mode", "circular_whole", floats(1, 3), exact=True, mode="circular", amounts=[3, 3])
    case("pad_mode", "replicate_far", floats(1, 2), exact=True, mode="replicate", amounts=[5, 4])
    case("pad_mode", "constant_last_two", floats(2, 3, 2), exact=True, mode="constant", value=1.5, amounts=[1, 0, -1, 2])
    case("pad_mode", "constant_all_cut", floats(4), exact=True, mode="constant", amounts=[-2, -2])
    case("pad_mode", "constant_of_nothing", floats(0, 2), exact=True, mode="constant", value=-1., amounts=[0, 1, 2, 0])

def diagonal_cases():
    for offset in (0, 1, -2, 4, -3):
        case("diagonal", f"3x4_{offset}", floats(3, 4), exact=True, offset=offset)
        case("diag", f"3x4_{offset}", floats(3, 4), exact=True, offset=offset)
        case("diag", f"vector_{offset}", floats(3), exact=True, offset=offset)
        case("diag_embed", f"2x3_{offset}", floats(2, 3), exact=True, offset=offset)
    case("diagonal", "batch", floats(2, 3, 4), exact=True, dims=[1, 2])
    case("diagonal", "outer", floats(4, 2, 3), exact=True, dims=[2, 0], offset=-1)
    case("diagonal", "view", floats(4, 5), pre={0: "permute:1,0;flip:1"}, exact=True, offset=1)
    case("diag_embed", "dims", floats(2, 3), exact=True, dims=[0, 2], offset=1)
    case("diag_embed", "swapped", floats(2, 3), exact=True, dims=[-1, 0], offset=-1)
    case("diag", "one", floats(1), exact=True)
    case("diag", "nothing", floats(0), exact=True)

def view_cases():
    case("unfold", "7", floats(7), exact=True, dim=0, size=3, step=1)
    case("unfold", "stepped", floats(2, 9), exact=True, dim=1, size=3, step=2)
    case("unfold", "apart", floats(10, 2), exact=True, dim=0, size=2, step=4)
    case("unfold", "view", floats(6, 3), pre={0: "permute:1,0;flip:1"}, exact=True, dim=-1, size=4, step=1)
    case("unfold", "whole", floats(3, 4), exact=True, dim=0, size=3, step=1)
    case("as_strided", "windows", floats(7), exact=True, size=[5, 3], stride=[1, 1])
    case("as_strided", "offset", floats(3, 4), exact=True, size=[2, 2], stride=[1, 5], offset=2)
    case("as_strided", "repeated", floats(3), exact=True, size=[2, 3], stride=[0, 1])
    case("as_strided", "scalar", floats(3), exact=True, size=[], stride=[], offset=2)
    case("as_strided", "nothing", floats(3), exact=True, size=[0, 2], stride=[1, 1])
    case("roll_all", "2x3", floats(2, 3), exact=True, shift=2)
    case("roll_all", "back", floats(3, 2), exact=True, shift=-7)
    case("movedim", "several", floats(2, 3, 4), exact=True, source=[0, 1], to=[2, 0])
    case("movedim", "negative", floats(2, 3, 4, 1), exact=True, source=[-1, 0], to=[0, -1])
    for times in (0, 1, 2, 3, -1, 5):
        case("rot90", f"2x3_{times}", floats(2, 3), exact=True, times=times)
    case("rot90", "dims", floats(2, 3, 2), exact=True, times=1, dims=[2, 0])
    case("tile", "fewer", floats(2, 3), exact=True, counts=[2])
    case("tile", "more", floats(2), exact=True, counts=[2, 1, 3])
    case("repeat_interleave", "columns", floats(2, 3), exact=True, times=2, dim=1)
    case("repeat_interleave", "none", floats(2, 3), exact=True, times=0, dim=0)
    case("repeat_interleave_by", "rows", floats(4, 2), i32(1, 0, 3, 2), exact=True, dim=0)
    case("repeat_interleave_by", "columns", floats(2, 3), i32(2, 0, 1), exact=True, dim=-1)
    case("flatten", "middle", floats(2, 3, 2, 2), exact=True, start=1, end=2)
    case("flatten", "scalar", floats(), exact=True, start=0, end=-1)
    case("unflatten", "inferred", floats(2, 12), exact=True, dim=1, sizes=[3, -1, 2])

def piece_cases():
    case("split", "even", floats(6, 2), exact=True, size=2, dim=0)
    case("split", "left_over", floats(2, 7), exact=True, size=3, dim=-1)
    case("split", "sizes", floats(6), exact=True, sizes=[1, 0, 3, 2], dim=0)
    case("chunk", "7_in_3", floats(7, 2), exact=True, pieces=3, dim=0)
    case("chunk", "fewer", floats(2), exact=True, pieces=4, dim=0)
    case("tensor_split", "places", floats(2, 7), exact=True, places=[2, 5], dim=1)
    case("tensor_split", "beyond", floats(4), exact=True, places=[0, 3, 9], dim=0)
    case("unbind", "columns", floats(2, 3), exact=True, dim=1)

def rearrange_cases():
    case("rearrange", "image", floats(2, 6, 3), exact=True, pattern="b (h w) c -> b c h w", h=2)
    case("rearrange", "transpose", floats(2, 3), exact=True, pattern="a b -> b a")
    case("rearrange", "ellipsis", floats(2, 3, 4), exact=True, pattern="... c -> c ...")
    case("rearrange", "group_of_dots", floats(2, 3, 2, 2), exact=True, pattern="a (b 1) ... -> (... a) b 1")
    case("rearrange", "regroup", floats(6, 4), exact=True, pattern="(a b) (c d) -> (a c) (d b)", a=2, c=2)
    case("rearrange", "flat_view", floats(3, 2, 2), pre={0: "permute:2,0,1;flip:0"}, exact=True, pattern="a b c -> (a b c)")

def made_cases():
    for indexing in ("ij", "xy"):
        case("meshgrid", f"{indexing}_3", floats(2), floats(3), floats(2), exact=True, indexing=indexing)
        case("meshgrid", f"{indexing}_scalar", floats(3), floats(), exact=True, indexing=indexing)
    any = f32(0.)
    case("linspace", "7", any, start=-2, end=5, n=7)
    case("linspace", "1", any, start=3, end=5, n=1)
    case("linspace", "0", any, start=3, end=5, n=0)
    case("logspace", "5", any, start=-1, end=2, n=5, base=10)
    case("logspace", "base2", any, start=0, end=6, n=7, base=2)
    case("eye", "3", any, exact=True, dims=[3])
    case("eye", "2x4", any, exact=True, dims=[2, 4])

if __name__ == "__main__":
    for family in (pad_cases, diagonal_cases, view_cases, piece_cases, rearrange_cases, made_cases):
        family()
    write(__file__)
