"""Recordings and spans from Python."""

import json

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
