"""What bench/ draws, compares and writes; not how fast anything is."""

import importlib.util
import math
import pathlib
import subprocess
import sys

import numpy as np
import pytest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"


def load(name):
    spec = importlib.util.spec_from_file_location(f"bench_{name}", BENCH / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


rows, run = load("rows"), load("run")


def test_a_seed_draws_the_same_rows_over_all_kinds():
    described = [[(name, arrays) for name, arrays, *_ in rows.rows(seed, 100)] for seed in (1, 1, 2)]
    assert described[0] == described[1] != described[2]
    assert len(described[0]) == 100 and len(rows.KINDS) <= 100


def test_results_that_differ_anywhere_are_told_apart():
    out = np.random.default_rng(0).standard_normal((300, 500))
    other, moved, nan = out.copy(), out.copy(), out.copy()
    other[7, 11] += 3.0
    moved[[1, 2]] = moved[[2, 1]]
    nan[5, 5] = math.nan
    same = rows.digest([out])
    assert run.difference(rows.digest([out * (1 + 1e-7)]), same) < 1e-5
    for wrong in (other, moved, nan, out[:-1], out * 1.01):
        assert run.difference(rows.digest([wrong]), same) > run.TOLERANCE
    assert run.difference(rows.digest([nan]), rows.digest([nan])) == 0


def test_a_table_takes_its_place_in_a_file(tmp_path):
    table = [
        {"name": "a", "torch_ms": 1.0, "frit_ms": 2.0, "ratio": 0.5, "least_ratio": 0.6},
        {"name": "b", "torch_ms": 3.0, "frit_ms": 1.0, "ratio": 3.0, "least_ratio": 2.5},
    ]
    file = tmp_path / "B.md"
    file.write_text("before\n<!-- bench/run.py --random 1 -->\nold\n<!-- end -->\nafter\n")
    run.write(file, "bench/run.py --random 1", run.markdown(table, ["torch"], "python bench/run.py"))
    text = file.read_text()
    assert "| a | 1.000 | 2.000 | 0.50 | 0.60 |" in text and "old" not in text
    assert text.startswith("before\n") and text.endswith("<!-- end -->\nafter\n")
    with pytest.raises(SystemExit):
        run.write(file, "bench/run.py --random 9", "")
    assert run.svg(table).count("<rect") == 2


def test_one_side_says_what_came_out():
    words = ["-P", str(BENCH / "rows.py"), "frit", "--random", "1", "--only", "add_", "--count", "40", "--seconds", "0.001"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert '"digest"' in done.stdout and '"error"' not in done.stdout
