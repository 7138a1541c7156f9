"""Every op against torch's stored values, forward and backward, called as a Python program calls it.

How exact results are is tested in Rust, to the last digits; here it is that arguments arrive where they should.
"""

import numpy as np
import pytest
from golden_ops import OPS
from goldens import TYPES, cases

from frit import Tensor

GROUP = 48  # cases computed together, so that kernels are compiled together


def claims(case, op):
    """(what, tensor, stored) for every output and gradient of a case, not computed yet."""
    inputs = [t.tensor() for t in case.inputs]
    outputs = op([case.view(s, t) for s, t in zip(case.inputs, inputs)], case)
    outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
    assert len(outputs) == len(case.outputs), case.name
    for got, want in zip(outputs, case.outputs):
        yield f"{case.name} {want.name}", got, want
    floats = [(o, w) for o, w in zip(outputs, case.weights) if o.is_floating_point()]
    if not case.grads or not floats:
        return
    total = sum(((o * w.tensor()).sum() for o, w in floats[1:]), (floats[0][0] * floats[0][1].tensor()).sum())
    names = [t.name for t in case.inputs]
    targets = [inputs[names.index(g.name)] for g in case.grads]
    for want, got in zip(case.grads, total.gradient(*targets, materialize_grads=True)):
        yield f"{case.name} by {want.name}", got, want


def fault(what, got, want):
    """What is wrong with a claim, once it is computed."""
    if got.dtype != TYPES[want.kind][1]:
        return f"{what}: {got.dtype}, torch has {TYPES[want.kind][1]}"
    if tuple(got.shape) != want.array.shape:
        return f"{what}: shape {got.shape}, torch has {want.array.shape}"
    got, want = got.numpy().astype(np.float64), want.values()
    finite = np.abs(want[np.isfinite(want)])
    scale = max(1.0, float(finite.max(initial=0)))
    if not np.allclose(got, want, rtol=1e-4, atol=2e-5 * scale, equal_nan=True):
        at = int(np.argmax(~np.isclose(got, want, rtol=1e-4, atol=2e-5 * scale, equal_nan=True)))
        return f"{what}: element {at} is {got.flat[at]}, torch has {want.flat[at]}"
    return None


@pytest.mark.parametrize("family", OPS)
def test_ops_agree_with_torch(family):
    faults, ops, all_cases = [], OPS[family], cases(family)
    assert {c.op for c in all_cases} <= set(ops)
    for at in range(0, len(all_cases), GROUP):
        found = []
        for case in all_cases[at : at + GROUP]:
            try:
                found += claims(case, ops[case.op])
            except Exception as e:
                faults.append(f"{case.name}: {type(e).__name__}: {e}")
        try:
            Tensor.realize(*[got for _, got, _ in found])
        except Exception:
            pass  # each by itself says why
        for claim in found:
            try:
                faults += filter(None, [fault(*claim)])
            except Exception as e:
                faults.append(f"{claim[0]}: {type(e).__name__}: {e}")
    assert not faults, f"{len(faults)} differ:\n" + "\n".join(faults[:40])
