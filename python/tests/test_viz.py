"""Recordings and spans from Python."""

import json
import os
import subprocess
import sys

import frit
import pytest
from frit import Tensor


def test_a_recording_has_this_file_and_ends_with_its_block(tmp_path):
    path = tmp_path / "one.viz"
    with frit.Viz(path):
        (Tensor([1.0, 2.0, 3.0]) * 2 + 1).sum().item()
    size = path.stat().st_size
    data = path.read_bytes()
    assert data[:8] == b"FRITVIZ1" and b"test_viz.py" in data and b"ReduceAxis" in data
    Tensor([1.0, 2.0]).exp().realize()
    assert path.stat().st_size == size
    with frit.Viz(tmp_path / "two.viz"):
        with pytest.raises(RuntimeError, match="one at a time"):
            frit.Viz(tmp_path / "three.viz").__enter__()
        with frit.span("an epoch"):
            (Tensor([1.0, 2.0, 3.0]) * 2 + 1).sum().item()
    assert b"an epoch" in (tmp_path / "two.viz").read_bytes()


def test_a_recording_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="nowhere"):
        frit.Viz(tmp_path / "nowhere" / "x.viz").__enter__()


def test_a_span_outside_a_recording_does_nothing():
    with frit.span("nothing"):
        pass


SPANS = """
import frit
from frit import Tensor
x = Tensor([1.0, 2.0, 3.0]).realize()
with frit.span("epoch"):
    with frit.span("layer"):
        y = (x * 2).contiguous()
    z = y.sum()
try:
    with frit.span("one that fails"):
        raise ValueError
except ValueError:
    pass
print(z.item(), (x + 1).sum().item())
"""


def test_spans_name_the_parts_that_kernels_belong_to(tmp_path):
    trace = tmp_path / "trace.json"
    env = {**os.environ, "FRIT_PROFILE": str(trace)}
    run = subprocess.run([sys.executable, "-c", SPANS], env=env, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["12", "9"] or run.stdout.split() == ["12.0", "9.0"]
    text = trace.read_text().rstrip().rstrip("]").rstrip().rstrip(",")
    events = json.loads(text + "]")
    kernels = [e["args"]["detail"] for e in events if e.get("cat") == "kernel"]
    assert any(d.startswith("epoch/layer: ") for d in kernels)
    assert any(d.startswith("epoch: ") for d in kernels)
    # the span that failed is closed: what follows belongs to no span
    assert not any("one that fails" in d for d in kernels) and " at <string>:" in kernels[-1]
    assert {"epoch", "layer", "one that fails"} <= {e["name"] for e in events if e.get("cat") == "user"}
