"""What bench/ draws, compares and writes; not how fast anything is."""

import argparse
import importlib.util
import json
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


rows, run, side, two_processes = load("rows"), load("run"), load("side"), load("two_processes")
BENCHMARKS = BENCH.parent / "BENCHMARKS.md"


def test_a_seed_draws_the_same_rows_over_all_kinds():
    described = [[(row.name, row.arrays) for row in rows.rows(seed, 100)] for seed in (1, 1, 2)]
    assert described[0] == described[1] != described[2]
    assert len(described[0]) == 100 + len(rows.LATER) and len(rows.KINDS) <= 100


@pytest.mark.parametrize("seed", [1, 2])
def test_rows_that_were_written_down_are_still_drawn(seed):
    written = run.place(BENCHMARKS, f"bench/run.py --random {seed}")[0]
    names = [line.split()[1] for line in written.splitlines() if line.startswith("| ")][1:]
    assert len(names) >= 100 and set(names) <= {row.name for row in rows.rows(seed, 100)}


def test_the_listed_rows_have_a_place():
    assert run.place(BENCHMARKS, "bench/run.py")


def test_results_that_differ_anywhere_are_told_apart():
    out = np.random.default_rng(0).standard_normal((300, 500))
    other, moved, nan = out.copy(), out.copy(), out.copy()
    other[7, 11] += 3.0
    moved[[1, 2]] = moved[[2, 1]]
    nan[5, 5] = math.nan
    same = side.digest([out])
    assert run.difference(side.digest([out * (1 + 1e-7)]), same) < 1e-5
    for wrong in (other, moved, nan, out[:-1], out * 1.01):
        assert run.difference(side.digest([wrong]), same) > run.TOLERANCE
    assert run.difference(side.digest([nan]), side.digest([nan])) == 0


def test_a_table_takes_its_place_in_a_file(tmp_path):
    table = [
        {"name": "a", "torch_ms": 1.0, "frit_ms": 2.0, "ratio": 0.5, "least_ratio": 0.6, "of_copy": 0.85},
        {"name": "b", "torch_ms": 3.0, "frit_ms": 1.0, "ratio": 3.0, "least_ratio": 2.5},
    ]
    file = tmp_path / "B.md"
    file.write_text("before\n<!-- bench/run.py --random 1 -->\nold\n<!-- end -->\nafter\n")
    run.write(file, "bench/run.py --random 1", run.markdown(table, ["torch"], "python bench/run.py", 2))
    text = file.read_text()
    assert "| a (0.85 of a copy) | 1.000 | 2.000 | 0.50 | 0.60 |" in text and "old" not in text
    assert text.startswith("before\n") and text.endswith("<!-- end -->\nafter\n")
    # what comes later may be longer than what it replaces, and may hold what looks like a reference to a group
    run.write(file, "bench/run.py --random 1", r"\1 \g<2>" + "\n")
    assert file.read_text().splitlines()[1:4] == ["<!-- bench/run.py --random 1 -->", r"\1 \g<2>", "<!-- end -->"]
    with pytest.raises(SystemExit):
        run.write(file, "bench/run.py --random 9", "")
    assert run.svg(table).count("<rect") == 2


def test_a_place_is_looked_for_before_anything_is_measured(tmp_path, monkeypatch):
    (tmp_path / "B.md").write_text("no marks\n")
    monkeypatch.setattr(sys, "argv", ["run.py", "--python", "none", "--write", str(tmp_path / "B.md")])
    monkeypatch.setattr(run, "measure", lambda *_: pytest.fail("measured first"))
    with pytest.raises(SystemExit, match="has no place for it"):
        run.main()


def test_the_whole_command_is_written_down():
    words = ["--count", "7", "--threads", "4", "--only", "a b", "--python", "/some/where", "--json", "/tmp/x"]
    said = {"random": None, "count": 7, "only": "a b", "peers": "torch", "threads": 4, "quick": True, "python": words[7]}
    default = {"count": 100, "peers": "torch", "quick": False}.get
    environment = {"FRIT_ISA": "avx2", "ATEN_CPU_CAPABILITY": "avx2", "HOME": "x", "FRIT_CACHE": "/some/where"}
    assert run.command(argparse.Namespace(**said), default, environment) == (
        "ATEN_CPU_CAPABILITY=avx2 FRIT_ISA=avx2 python bench/run.py --count 7 --only 'a b' --threads 4 --quick --python PYTHON"
    )


def said(ms, sums=(1.0,), **more):
    return {"ms": ms, "least_ms": ms / 2, "digest": [[1, list(sums), [1.0]]], "small": False, "first_s": 0.1} | more


def test_a_ratio_is_to_the_first_peer_that_has_the_row():
    absent = {"name": "x", "absent": True}
    runs = {"torch": [absent] * 2, "onnxruntime": [said(4.0), said(6.0)], "frit": [said(2.0, of_copy=0.5)] * 2}
    row = run.together("x", runs)
    assert (row["ratio"], row["peer"], row["of_copy"]) == (2.5, "onnxruntime", 0.5) and "torch_ms" not in row
    row = run.together("x", {"torch": [said(8.0)] * 2} | runs | {"torch": [said(8.0)] * 2})
    assert (row["ratio"], row["peer"]) == (4.0, "torch")
    alone = run.together("x", {"torch": [absent] * 2, "frit": [said(2.0)] * 2})
    assert "ratio" not in alone and "error" not in alone and run.summary([alone]) == "no rows"


def test_what_went_wrong_is_named():
    differ = run.together("x", {"torch": [said(1.0)] * 2, "frit": [said(1.0, sums=(1.1,))] * 2})
    assert differ["error"].startswith("frit: results differ")
    failed = run.together("x", {"torch": [{"error": "no such op"}] * 2, "onnxruntime": [said(1.0)] * 2, "frit": [said(1.0)] * 2})
    assert failed["error"] == "torch: no such op" and "ratio" not in failed


def test_sides_take_turns_one_way_round_and_back(monkeypatch, capsys):
    turns = []

    def one_side(python, side, part, options):
        turns.append((side, part))
        begin, end = map(int, part.split(":"))
        return [{"name": f"row{i}", **said(1.0)} for i in range(begin, end)]

    monkeypatch.setattr(run, "one_side", one_side)
    table = run.measure("python", ["torch", "tinygrad"], 5, [], 3)
    assert [row["name"] for row in table] == [f"row{i}" for i in range(5)]
    order = ["torch", "tinygrad", "frit", "frit", "tinygrad", "torch"]
    assert turns == [(s, part) for part in ("0:3", "3:5") for s in order]
    assert "row4" in capsys.readouterr().out


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A checkout, a folder for its sides, what pip is asked for, and what it fails at."""
    root, installed, broken = tmp_path / "checkout", [], set()
    for name in ("crates/a/src/lib.rs", "crates/a/tests/t.rs", "python/frit/a.py", "Cargo.toml"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("one")

    def create(folder, **_):
        folder.mkdir(exist_ok=True)
        (folder / "pyvenv.cfg").touch()

    def pip(words):
        fails = pathlib.Path(words[-1]).name in broken
        if not fails:
            installed.append(pathlib.Path(words[-1]).name)
        return subprocess.CompletedProcess(words, int(fails))

    def setup(*peers):
        installed.clear()
        run.setup(tmp_path / "sides", peers, root)
        return list(installed)

    monkeypatch.setattr(run.venv, "create", create)
    monkeypatch.setattr(run.subprocess, "run", pip)
    return root, setup, broken


def test_sides_are_installed_once_and_frit_when_its_sources_change(folder):
    root, setup, _ = folder
    assert setup("torch") == ["numpy", "torch", "checkout"]
    assert setup("torch") == []
    for name in ("crates/a/src/lib.rs", "python/frit/a.py", "Cargo.toml"):
        (root / name).write_text("two")
        assert setup("torch") == ["checkout"] and setup("torch") == []
    (root / "crates/a/tests/t.rs").write_text("two")
    assert setup("torch") == []
    assert setup("torch", "tinygrad") == ["tinygrad"]


@pytest.mark.parametrize("fails", ["numpy", "torch", "checkout"])
def test_a_folder_that_was_not_finished_is_not_trusted(folder, fails):
    _, setup, broken = folder
    broken.add(fails)
    for _ in range(2):
        with pytest.raises(SystemExit, match="could not be installed"):
            setup("torch")
    broken.clear()
    assert setup("torch")[-1] == "checkout"
    assert setup("torch") == []


def test_a_folder_of_something_else_is_left_alone(folder, tmp_path):
    _, setup, _ = folder
    (tmp_path / "sides").mkdir()
    (tmp_path / "sides" / "letters").touch()
    with pytest.raises(SystemExit, match="holds something else"):
        setup("torch")


def test_one_side_says_what_came_out():
    words = ["-P", str(BENCH / "side.py"), "frit", "--random", "1", "--only", "add_", "--count", "40", "--seconds", "0.001"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert '"digest"' in done.stdout and '"error"' not in done.stdout


def test_a_product_of_bytes_is_the_same_on_both_sides():
    """As a program and as a model."""
    pytest.importorskip("onnx")
    row, outs = rows.whole_product("x", False, 5, 7, 33), []
    arrays = [side.array(spec, j) for j, spec in enumerate(row.arrays)]
    for one in (row, row._replace(frit=None)):
        call, look = side.frit_side(one, arrays, 1)
        outs.append(look(call()))
    a, b = (a.astype(np.int64) for a, _ in arrays)
    for out in outs:
        np.testing.assert_array_equal(out, a @ b)


def test_a_row_without_a_function_is_left_out():
    row = rows.weights_of_four_bits(64, 64)
    assert row.reads == 64 * 32 + 4 * 64 * 2
    assert side.lazy_side(None, row, []) is None


def test_shares_are_of_half_of_what_one_does_alone():
    assert two_processes.shares([10.0, 10.0, 10.0], [[5.0, 5.0], [4.0, 5.0]])["share"] == pytest.approx(0.9)
    # a machine that becomes twice as fast on the way
    drift = two_processes.shares([10.0, 20.0, 20.0], [[6.0, 9.0], [9.0, 9.0]])
    assert drift["share"] == pytest.approx((0.8 + 0.9) / 2) and drift["sum"] == pytest.approx((1.0 + 0.9) / 2)


def test_two_processes_run_at_once():
    words = ["-P", str(BENCH / "two_processes.py"), "--only", "small", "--seconds", "0.01", "--turns", "1"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["share"] > 0
