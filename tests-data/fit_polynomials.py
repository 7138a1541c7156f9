"""Coefficients of the polynomials in crates/codegen/src/decompose.

Each is a minimax fit (Remez's exchange, in 60 digits), with the coefficients rounded to the type one after the other,
lowest first, and the rest fitted again. Prints Rust arrays and the greatest weighted error, as a power of two.

    python fit_polynomials.py [NAME...]        needs mpmath and numpy
"""
import sys

import mpmath as mp
import numpy as np

mp.mp.dps = 60


def solve(g, w, lo, hi, free, fixed):
    """Coefficients of the powers `free`, given those of `fixed`, with the least greatest |w (p - g)| on [lo, hi]."""
    n = len(free)
    if lo == 0 and 0 in fixed:
        lo = hi / 1000  # at zero itself the other powers have no say
    known = lambda z: sum((c * z**k for k, c in fixed.items()), mp.mpf(0))
    grid = [lo + (hi - lo) * (1 - mp.cos(mp.pi * i / 400)) / 2 for i in range(401)]
    target = [g(z) - known(z) for z in grid]
    weight = [w(z) for z in grid]
    at = [round(400 * i / n) for i in range(n + 1)]
    c = []
    for _ in range(30):
        a = mp.matrix(n + 1, n + 1)
        b = mp.matrix(n + 1, 1)
        for r, i in enumerate(at):
            for k, p in enumerate(free):
                a[r, k] = grid[i] ** p
            a[r, n] = (-1) ** r / weight[i]
            b[r] = target[i]
        x = mp.lu_solve(a, b)
        c = [x[k] for k in range(n)]
        err = [
            weight[i] * (sum((c[k] * grid[i] ** p for k, p in enumerate(free)), mp.mpf(0)) - target[i])
            for i in range(401)
        ]
        # one extremum in each run of one sign; the n + 1 neighbours with the greatest least
        runs, best = [], None
        for i, e in enumerate(err):
            if best is None or (e > 0) != (err[best] > 0):
                if best is not None:
                    runs.append(best)
                best = i
            elif abs(e) > abs(err[best]):
                best = i
        runs.append(best)
        while len(runs) > n + 1:
            runs.pop(0 if abs(err[runs[0]]) < abs(err[runs[-1]]) else -1)
        if len(runs) < n + 1 or runs == at:
            break
        at = runs
    return dict(zip(free, c)), max(abs(e) for e in err)


def rounded(v, bits):
    if v == 0:
        return v
    if bits == 24:
        return mp.mpf(float(np.float32(float(v))))
    return mp.mpf(float(v))


def fit(name, g, w, lo, hi, terms, bits, fixed=()):
    fixed = dict(fixed)
    free = [k for k in range(terms) if k not in fixed]
    error = mp.mpf(0)
    while free:
        c, error = solve(g, w, mp.mpf(lo), mp.mpf(hi), free, fixed)
        # with zero inside, what is left of the powers has no alternating fit: round them all
        count = len(free) if lo < 0 else 1
        for k in free[:count]:
            fixed[k] = rounded(c[k], bits)
        free = free[count:]
    grid = [mp.mpf(lo) + (mp.mpf(hi) - mp.mpf(lo)) * i / 2000 for i in range(2001)]
    error = max(abs(w(z) * (sum(c * z**k for k, c in fixed.items()) - g(z))) for z in grid)
    print(f"// 2^{float(mp.log(error, 2)):.1f}")
    print(f"const {name}: [f64; {terms}] = [")
    for k in range(terms):
        print(f"    {float(fixed[k])!r},")
    print("];", flush=True)


def odd(f, lead=1):
    """`(f(x) / x - lead) / z` as a function of z = x^2, and its weight for errors relative to f."""
    tiny = mp.mpf(10) ** -24

    def g(z):
        z = max(z, tiny)
        x = mp.sqrt(z)
        return (f(x) / x - lead) / z

    def w(z):
        z = max(z, tiny)
        x = mp.sqrt(z)
        return z * x / f(x)

    return g, w


def expm1_tail(r):
    r = r if abs(r) > mp.mpf(10) ** -15 else mp.mpf(10) ** -15
    return (mp.expm1(r) - r) / r**2


def expm1_weight(r):
    r = r if abs(r) > mp.mpf(10) ** -15 else mp.mpf(10) ** -15
    return r**2 / mp.expm1(r)


def erf_log(t):
    """`(log(erfc(1 + t)) - log(erfc(1))) / t`."""
    t = t if abs(t) > mp.mpf(10) ** -15 else mp.mpf(10) ** -15
    return (mp.log(mp.erfc(1 + t)) - mp.log(mp.erfc(1))) / t


def erf_weight(t):
    return max(abs(t), mp.mpf(10) ** -15) * mp.erfc(1 + t)


def erfcx(x):
    return mp.exp(x * x) * mp.erfc(x)


def scaled_erfc(k, b):
    """`erfcx(x) / u` as a function of v = b - 2 u, u = k / (x + k)."""

    def g(v):
        u = (b - v) / 2
        return erfcx(k / u - k) / u

    return g, lambda v: 1 / g(v)


HALF_LN2 = mp.log(2) / 2 * mp.mpf("1.0001")


def erf_excess(z):
    x = mp.sqrt(max(z, mp.mpf(10) ** -24))
    return mp.erf(x) / x - 1


FITS = {
    # exp(r) = 1 + r + r^2 p(r), errors relative to exp(r) - 1
    "EXPM1_F32": lambda n: fit(n, expm1_tail, expm1_weight, -HALF_LN2, HALF_LN2, 6, 24, {0: mp.mpf("0.5")}),
    "EXPM1_F64": lambda n: fit(n, expm1_tail, expm1_weight, -HALF_LN2, HALF_LN2, 12, 53, {0: mp.mpf("0.5")}),
    # 2^r, in few bits
    "EXP2_NEAR": lambda n: fit(n, lambda r: mp.mpf(2) ** r, lambda r: mp.mpf(2) ** -r, -0.5, 0.5, 6, 24),
    # f(x) = x + x z p(z), z = x^2
    "TANH_F32": lambda n: fit(n, *odd(mp.tanh), 0, 1, 7, 24),
    "TANH_F64": lambda n: fit(n, *odd(mp.tanh), 0, 1, 15, 53),
    "SINH_F32": lambda n: fit(n, *odd(mp.sinh), 0, 1, 4, 24),
    "SINH_F64": lambda n: fit(n, *odd(mp.sinh), 0, 1, 8, 53),
    "ASIN_F32": lambda n: fit(n, *odd(mp.asin), 0, 0.25, 6, 24),
    "ASIN_F64": lambda n: fit(n, *odd(mp.asin), 0, 0.25, 14, 53),
    "ATAN_F32": lambda n: fit(n, *odd(mp.atan), 0, 1, 9, 24),
    "ATAN_F64": lambda n: fit(n, *odd(mp.atan), 0, 1, 22, 53),
    "TAN_F32": lambda n: fit(n, *odd(mp.tan), 0, (mp.pi / 4) ** 2 * 1.0001, 7, 24),
    "TAN_F64": lambda n: fit(n, *odd(mp.tan), 0, (mp.pi / 4) ** 2 * 1.0001, 16, 53),
    # erf(x) = x + x p(z)
    "ERF_F32": lambda n: fit(n, erf_excess, lambda z: 1 / (1 + erf_excess(z)), 0, 1, 7, 24),
    "ERF_F64": lambda n: fit(n, erf_excess, lambda z: 1 / (1 + erf_excess(z)), 0, 1, 15, 53),
    # erf(x) = 1 - erfc(1) exp(t p(t)), t = x - 1, errors absolute
    "ERF_FAR_F32": lambda n: fit(n, erf_log, erf_weight, -0.125, 3, 6, 24),
    "ERF_FAR_F64": lambda n: fit(n, erf_log, erf_weight, -0.125, 5, 18, 53),
    # erfc(x) = exp(-x^2) u p(b - 2 u), u = k / (x + k), up to where it is zero
    "ERFC_F32": lambda n: fit(n, *scaled_erfc(2, 2), 0, 2 - mp.mpf(4) / 13, 10, 24, {0: mp.mpf(1)}),
    "ERFC_F64": lambda n: fit(n, *scaled_erfc(3, 1), -1, 1 - mp.mpf(6) / 31, 23, 53),
}

if __name__ == "__main__":
    for name in sys.argv[1:] or FITS:
        FITS[name](name)
