"""Recordings and spans from Python."""

import json
import os
import pathlib
import pty
import shutil
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
        with pytest.warns(RuntimeWarning, match="a recording is under way"):
            with frit.Viz(tmp_path / "three.viz"):
                pass
        with frit.span("an epoch"):
            (Tensor([1.0, 2.0, 3.0]) * 2 + 1).sum().item()
    # the inner one ended nothing
    assert b"an epoch" in (tmp_path / "two.viz").read_bytes() and not (tmp_path / "three.viz").exists()


def test_a_recording_inside_one_of_the_environment_is_part_of_it(tmp_path):
    program = "import frit\nwith frit.Viz('inner.viz'):\n    print((frit.Tensor([1.0, 2.0]) + 1).sum().item())\n"
    env = {**os.environ, "FRIT_VIZ": str(tmp_path / "outer.viz")}
    run = subprocess.run([sys.executable, "-c", program], env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "a recording is under way" in run.stderr and not (tmp_path / "inner.viz").exists()
    data = (tmp_path / "outer.viz").read_bytes()
    # what the user called
    assert b"item" in data and b"lend" not in data


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
    events = json.loads(trace.read_text())
    kernels = [e["args"]["detail"] for e in events if e.get("cat") == "kernel"]
    assert any(d.startswith("epoch/layer: ") for d in kernels)
    assert any(d.startswith("epoch: ") for d in kernels)
    # the span that failed is closed: what follows belongs to no span
    assert not any("one that fails" in d for d in kernels) and " at <string>:" in kernels[-1]
    assert {"epoch", "layer", "one that fails"} <= {e["name"] for e in events if e.get("cat") == "user"}


LINES = """
import frit
from frit import Tensor
x = Tensor.arange(64).reshape(8, 8).cast(frit.dtypes.float32).realize()
with frit.Viz(PATH):
    mean = x.mean(axis=1, keepdim=True)
    centred = x - mean
    total = (centred * 2
             + 1).sum()
    print(total.item())
    both = (x @ x).softmax(axis=1)
    both.realize()
    y, z = (x + 3).realize(), (x + 4).realize()
    print((y.exp() + 5).sum().item())
    with frit.span("epoch"):
        print((z.exp() + 5).sum().item())
"""


def _binary():
    """The ``frit`` binary: what FRIT names, or what was built beside this."""
    folder = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", pathlib.Path(__file__).parents[2] / "target"))
    built = [str(folder / "release" / "frit"), shutil.which("frit")]
    found = [p for p in [os.environ.get("FRIT"), *built] if p and os.path.exists(p)]
    return found[0] if found else None


def test_lines_of_a_program_are_explained(tmp_path):
    binary = _binary()
    if binary is None:
        pytest.skip("the frit binary was not built: cargo build --release -p frit-cli")
    program, path = tmp_path / "train.py", tmp_path / "train.viz"
    program.write_text(LINES.replace("PATH", repr(str(path))))
    subprocess.run([sys.executable, str(program)], check=True, capture_output=True)

    def explain(line):
        run = subprocess.run([binary, "explain", str(path), f"train.py:{line}"], capture_output=True, text=True)
        return run.stdout + run.stderr

    lines = LINES.split("\n")
    at = {word: 1 + next(i for i, t in enumerate(lines) if word in t) for word in ("mean =", "centred =", "+ 1", "@", "PATH")}
    # which calls, in which kernel, with what else, and for whom
    said = explain(at["centred ="])
    assert "program 1 on CPU, run by" in said and f" at train.py:{at['+ 1'] + 1}: sub\n" in said, said
    assert f"computes sub: Sub\n    fused with line {at['+ 1'] - 1} (add, mul), line {at['+ 1']} (sum)\n" in said, said
    said = explain(at["mean ="])
    assert "computes mean: Mul, ReduceAxis\n    and nothing of other lines\n" in said, said
    assert "Mul of float32 [8, 1] is stored: its elements are read more than once" in said, said
    # what a call does inside is the call's
    said = explain(at["@"])
    assert said.startswith("program 2 on CPU, run by realize at train.py:") and ": matmul, softmax\n" in said, said
    assert "computes matmul: Mul, ReduceAxis\n" in said and " is stored: " in said, said
    # equal graphs of other lines are told apart; a span stands beside what is called in it
    lines_of = [1 + i for i, t in enumerate(lines) if ".exp()" in t]
    for line, other, calls in zip(lines_of, lines_of[::-1], ("add, exp, sum", "add in epoch, exp in epoch, sum in epoch")):
        said = explain(line)
        assert f"run by item at train.py:{line}: {calls}\n" in said and f"line {other}" not in said, said
    # a line without any says which have some
    said = explain(at["PATH"])
    assert "no operation was computed for this line; there are some for lines " in said and str(at["@"]) in said


PROGRAM = """
import time, frit
with frit.Progress("training", 8) as progress:
    for i in range(8):
        time.sleep(0.1)
        progress.step(loss=8.0 - i)
    progress.say("done")
"""


def terminal(**env):
    """What a program writes to a terminal, and what it prints."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "FRIT_PROGRESS": "on", **env}
    run = subprocess.run([sys.executable, "-c", PROGRAM], env=env, stdout=subprocess.PIPE, stderr=theirs, text=True, check=True)
    os.close(theirs)
    drawn = b""
    try:
        while part := os.read(ours, 4096):
            drawn += part
    except OSError:
        pass  # a terminal whose other end is closed
    os.close(ours)
    return drawn.decode(), run.stdout


def test_progress_is_drawn_where_someone_looks_and_nowhere_else():
    drawn, printed = terminal()
    assert "training  [" in drawn and "/8  " in drawn and " s left  loss " in drawn and "\u2587" in drawn
    assert drawn.endswith("\r\x1b[K\x1b[?7l\x1b[?7h") and printed == "done\n"
    assert terminal(FRIT_PROGRESS="off") == ("", "done\n")
    quiet = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert (quiet.stdout, quiet.stderr) == ("done\n", "")


def test_candidates_of_a_search_are_recorded_where_asked_for(tmp_path):
    program = """
import frit
for flag in range(2):
    with frit.Viz(f"{flag}.viz"), frit.Context(BEAM=1, BEAM_SECONDS=1, VIZ_CANDIDATES=flag):
        (frit.Tensor.rand(37, 41 + flag).realize() * 3 + 1).sum(axis=0).realize()
"""
    env = {**os.environ, "FRIT_CACHE": "off"}
    subprocess.run([sys.executable, "-c", program], env=env, cwd=tmp_path, capture_output=True, check=True)
    winners, everyone = (tmp_path / "0.viz").stat().st_size, (tmp_path / "1.viz").stat().st_size
    # how many candidates there are is a matter of time
    assert everyone > winners
