#!/usr/bin/env python3
"""Linear algebra: torch's factors and solutions, with gradients.

Everything is computed in float64 and rounded at the end, so that the numbers are torch's formulas and not its rounding.
Singular vectors have free signs: of U and V the products `U diag(1, 2, ..) U^T` and `V diag(1, 2, ..) V^T` are recorded.
"""
import torch

from writer import OPS, case, floats, ints, write

def spectrum(u):
    k = u.shape[-1]
    return u * torch.arange(1, k + 1, dtype=u.dtype) @ u.mT

def svd(x):
    u, s, vt = torch.linalg.svd(x, full_matrices=False)
    return s, spectrum(u), spectrum(vt.mT)

def newton_schulz(x, steps, params, eps):
    x = x / (x.square().sum((-2, -1), keepdim=True).sqrt() + eps)
    for _ in range(steps):
        terms, power = 0, x
        for p in params:
            terms, power = terms + p * power, x @ x.mT @ power
        x = terms
    return x

def definite(x): return x @ x.mT + .5 * torch.eye(x.shape[-2], dtype=x.dtype)
def wide(x): return x.double() if x.is_floating_point() else x
def narrow(out): return tuple(map(narrow, out)) if isinstance(out, tuple) else out.float() if out.dtype == torch.float64 else out
def op(f): return lambda i, p: narrow(f([wide(x) for x in i], p))
def numbers(p, key): return [float(v) for v in p.text(key).split(",")]

OPS |= {name: op(f) for name, f in {
    "cholesky":         lambda i, p: torch.linalg.cholesky(definite(i[0])),
    "inverse":          lambda i, p: torch.linalg.inv(i[0]),
    "solve":            lambda i, p: torch.linalg.solve(*i),
    "det":              lambda i, p: torch.linalg.det(i[0]),
    "slogdet":          lambda i, p: tuple(torch.linalg.slogdet(i[0])),
    "triangular_solve": lambda i, p: torch.linalg.solve_triangular(
        i[0].mT if p.flag("transpose") else i[0], i[1], upper=p.flag("upper") != p.flag("transpose"),
        unitriangular=p.flag("unit")),
    "lstsq":            lambda i, p: torch.linalg.pinv(i[0]) @ i[1],
    "qr":               lambda i, p: tuple(torch.linalg.qr(i[0], "complete" if p.flag("complete") else "reduced")),
    "svd":              lambda i, p: svd(i[0]),
    "svdvals":          lambda i, p: torch.linalg.svdvals(i[0]),
    "matrix_power":     lambda i, p: torch.linalg.matrix_power(i[0], p.int("n")),
    "newton_schulz":    lambda i, p: newton_schulz(i[0], p.int("steps"), numbers(p, "params"), 1e-7),
    "outer":            lambda i, p: torch.outer(*i),
    "kron":             lambda i, p: torch.kron(*i),
    "trace":            lambda i, p: i[0].diagonal(dim1=-2, dim2=-1).sum(-1),
    "einsum":           lambda i, p: torch.einsum(p.text("formula").replace(";", ","), *i),
    "dot":              lambda i, p: torch.matmul(*i),
}.items()}

def eye(*shape, by=3): return lambda rng: floats(*shape)(rng) + by * torch.eye(shape[-2], shape[-1])

def factors():
    for shape in [(1, 1), (5, 5), (2, 1, 3, 3), (0, 3, 3), (0, 0)]:
        name = "_".join(map(str, shape))
        case("cholesky", name, floats(*shape))
        case("inverse", name, eye(*shape))
        case("det", name, floats(*shape))
        if shape != (0, 0): case("slogdet", name, floats(*shape))
    for shape in [(1, 1), (4, 4), (6, 3), (1, 4), (2, 2, 3, 5), (0, 3, 2)]:
        name = "_".join(map(str, shape))
        case("qr", name, floats(*shape))
        case("qr", f"complete_{name}", floats(*shape), complete=True, grad=shape[-2] <= shape[-1])
        case("svd", name, floats(*shape))
        case("svdvals", name, floats(*shape))
    case("svdvals", "equal", torch.eye(3))
    case("svdvals", "rank_one", lambda rng: torch.outer(floats(5)(rng), floats(4)(rng)), grad=False)
    case("inverse", "pivoting", torch.tensor([[0., 2, 1], [1, 0, 0], [3, 0, 1]]))
    case("det", "singular", torch.tensor([[1., 2, 3], [2, 4, 6], [1, 0, 1]]))
    case("det", "zero_column", torch.tensor([[1., 0, 3], [2, 0, 6], [1, 0, 1]]), grad=False)
    case("det", "integers", torch.tensor([[0., 1], [1, 0]]))
    case("inverse", "view", eye(3, 3), pre={0: "permute:1,0"})

def systems():
    for variant, (a, b) in {
        "vector": ((4, 4), (4,)), "one": ((1, 1), (1, 1)), "matrix": ((5, 5), (5, 2)), "batch": ((3, 4, 4), (3, 4, 2)),
        "broadcast_left": ((4, 4), (2, 4, 3)), "broadcast_right": ((2, 1, 3, 3), (4, 3, 2)), "no_batch": ((0, 3, 3), (0, 3, 2)),
        "no_columns": ((3, 3), (3, 0)),
    }.items():
        case("solve", variant, eye(*a), floats(*b))
        if len(b) > 1: case("triangular_solve", variant, eye(*a), floats(*b), upper=len(a) > 2)
    for upper in (False, True):
        for transpose in (False, True):
            for unit in (False, True):
                name = "".join(n for n, on in (("u", upper), ("t", transpose), ("1", unit)) if on) or "plain"
                case("triangular_solve", f"flags_{name}", eye(4, 4), floats(4, 3), upper=upper, transpose=transpose, unit=unit)
    for variant, (a, b) in {"tall": ((6, 3), (6, 2)), "wide": ((3, 6), (3, 2)), "square": ((4, 4), (4, 1)),
                            "batch": ((2, 5, 3), (2, 5, 2))}.items():
        case("lstsq", variant, floats(*a), floats(*b))

def products():
    for n in (-2, -1, 0, 1, 2, 3, 7): case("matrix_power", f"{n}".replace("-", "minus"), eye(2, 3, 3, by=1), n=n)
    for shape in [(3, 3), (3, 5), (5, 3), (2, 4, 4)]:
        case("newton_schulz", "_".join(map(str, shape)), floats(*shape), steps=3, params=[3.4445, -4.7750, 2.0315])
    case("newton_schulz", "cubic", floats(4, 4), steps=6, params=[1.5, -.5])
    case("outer", "3_4", floats(3), floats(4))
    case("outer", "1_0", floats(1), floats(0))
    case("kron", "2_3_by_3_2", floats(2, 3), floats(3, 2))
    case("kron", "int32", ints(2, 2), ints(1, 3))
    for shape in [(3, 3), (2, 4), (4, 2), (2, 3, 3)]: case("trace", "_".join(map(str, shape)), floats(*shape))
    for variant, (formula, *shapes) in {
        "matmul": ("ij;jk->ik", (2, 3), (3, 4)), "implicit": ("ij;jk", (2, 3), (3, 4)), "batch": ("bij;bjk->bik", (2, 2, 3), (2, 3, 2)),
        "dots": ("...ij;...jk->...ik", (2, 1, 2, 3), (3, 3, 2)), "trace": ("ii->", (3, 3)), "diagonal": ("ii->i", (3, 3)),
        "sum": ("ij->", (2, 3)), "transpose": ("ij->ji", (2, 3)), "outer": ("i;j->ij", (2,), (3,)), "bilinear": ("bi;oij;bj->bo", (2, 3), (4, 3, 2), (2, 2)),
        "chain": ("ij;jk;kl->il", (2, 3), (3, 4), (4, 2)), "both_sides": ("ij;ij->j", (2, 3), (2, 3)), "ones": ("ij;jk->ik", (2, 1), (1, 3)),
        "implicit_dots": ("...i;i", (2, 3), (3,)),
    }.items():
        case("einsum", variant, *(floats(*s) for s in shapes), formula=formula)
    for variant, (a, b) in {
        "vectors": ((3,), (3,)), "vector_matrix": ((3,), (3, 2)), "matrix_vector": ((2, 3), (3,)), "vector_batch": ((3,), (4, 3, 2)),
        "batch_vector": ((4, 2, 3), (3,)), "batches": ((2, 1, 2, 3), (4, 3, 2)), "no_inner": ((2, 0), (0, 3)), "no_rows": ((0, 3), (3, 2)),
    }.items():
        case("dot", variant, floats(*a), floats(*b))
    case("dot", "int32", ints(2, 3, 4), ints(4, 5))

factors(), systems(), products()
write(__file__)
