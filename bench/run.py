"""frit beside its peers on this machine: `python bench/run.py [--random SEED] [--quick] [--json FILE] [--svg FILE]`.

Sets up all sides in a folder of its own where they are not there yet (`--setup`), then runs parts of the rows of `rows.py` in
processes that take turns, in both orders: two in one process would run into each other's threads. Without `--random` the rows
are the listed ones. A ratio above 1 says that frit is faster; results are compared, too. `--write BENCHMARKS.md` puts the table
between the two marks there that name the same rows.
"""

import argparse
import hashlib
import json
import math
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time
import venv

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE))
from rows import rows  # noqa: E402

# how far a weighted sum of a block of results may be from the first peer's, as a part of how large its terms are
TOLERANCE, SMALL_FLOAT_TOLERANCE = 1e-3, 2e-2
# variables that change what sides do on a CPU
VARIABLES = re.compile("(FRIT|ATEN|ONEDNN|DNNL|MKL|OMP|KMP|GOMP|TORCH|ORT)_(?!CUDA)")


# what a peer needs
PACKAGES = {"torch": ["torch"], "tinygrad": ["tinygrad"], "onnxruntime": ["onnxruntime"]}
# seconds in which what a process leaves behind may end
PAUSE = 0.5


def sources(root):
    """What the frit of a checkout is made of, as a number: another one means another frit."""
    parts = [f for name in ("crates", "python") for f in (root / name).rglob("*") if f.is_file()]
    parts = [f for f in parts if not {"__pycache__", "target", "tests"} & set(f.relative_to(root).parts)]
    digest = hashlib.sha256()
    for f in [*sorted(parts), *(root / name for name in ("Cargo.toml", "Cargo.lock", "pyproject.toml"))]:
        if f.suffix != ".so" and f.exists():
            digest.update(f"{f.relative_to(root)}\0{f.stat().st_size}\0".encode() + f.read_bytes())
    return digest.hexdigest()


def done_once(stamp, what, work):
    """Do a piece of work unless a file says that it was done for just that; it says so only when all of it was."""
    if not stamp.exists() or stamp.read_text() != what:
        stamp.unlink(missing_ok=True)
        work()
        stamp.write_text(what)


def setup(folder, peers, root=HERE.parent):
    """A Python with numpy, the peers and the frit of this checkout as it is now."""
    python = folder / "bin" / "python"
    if folder.exists() and any(folder.iterdir()) and not (folder / "pyvenv.cfg").exists():
        sys.exit(f"{folder} holds something else: --setup names a folder for all sides")

    def pip(*words):
        print(f"installing {words[-1]} in {folder}", file=sys.stderr)
        quiet = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if subprocess.run([python, *quiet, *map(str, words)]).returncode:
            sys.exit(f"{words[-1]} could not be installed; --peers names those that are, --python a Python that has them")

    def start():
        venv.create(folder, with_pip=True, clear=True)
        pip("onnx", "numpy")

    done_once(folder / "numpy.installed", "", start)
    for peer in peers:
        done_once(folder / f"{peer}.installed", "", lambda: pip(*PACKAGES[peer]))
    done_once(folder / "frit.installed", sources(root), lambda: pip("--force-reinstall", "--no-deps", root))
    return str(python)


def one_side(python, side, part, options):
    command = [python, "-P", str(HERE / "side.py"), side, "--part", part, *options]
    # big results come from a heap that is used again, not from fresh pages, as they do in a program that runs for long
    env = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 34), **os.environ}
    time.sleep(PAUSE)
    out = subprocess.run(command, capture_output=True, text=True, env=env)
    if out.returncode:
        sys.exit(out.stderr)
    return [json.loads(line) for line in out.stdout.splitlines()]


def difference(ours, theirs):
    """How far results of two sides are apart, at most, as a part of how large they are."""
    if [len(part[1]) for part in ours] != [len(part[1]) for part in theirs]:
        return math.inf
    worst = 0.0
    for (n, sums, _), (m, others, sizes) in zip(ours, theirs):
        if n != m:
            return math.inf
        for x, y, scale in zip(sums, others, sizes):
            same = x == y or (math.isnan(x) and math.isnan(y))
            apart = abs(x - y) / scale if scale > 0 and math.isfinite(scale) else math.inf
            worst = max(worst, 0.0 if same else math.inf if math.isnan(apart) else apart)
    return worst


def together(name, runs):
    """A row of the table from what all sides said, each some times."""
    wrong = {side: r["error"] for side, rows in runs.items() for r in rows if "error" in r}
    has = [side for side, rows in runs.items() if not any("absent" in r for r in rows)]
    said = {side: runs[side] for side in has if side not in wrong}
    row = {"name": name}
    for side, rows in said.items():
        row[f"{side}_ms"] = sum(r["ms"] for r in rows) / len(rows)
        row[f"{side}_least_ms"] = min(r["least_ms"] for r in rows)
    first = next((side for side in has if side != "frit"), None)
    if "frit" in said:
        row["first_s"] = said["frit"][0]["first_s"]
    if "frit" in said and "of_copy" in said["frit"][0]:
        row["of_copy"] = max(r["of_copy"] for r in said["frit"])
    if "frit" in said and first in said:
        row["peer"] = first
        row["ratio"] = row[f"{first}_ms"] / row["frit_ms"]
        row["least_ratio"] = row[f"{first}_least_ms"] / row["frit_least_ms"]
        ours, theirs = said["frit"][0], said[first][0]
        row["difference"] = difference(ours["digest"], theirs["digest"])
        if row["difference"] > (SMALL_FLOAT_TOLERANCE if ours["small"] else TOLERANCE):
            wrong["frit"] = f"results differ by {row['difference']:.1e}"
    return row | ({"error": "; ".join(f"{side}: {e}" for side, e in wrong.items())} if wrong else {})


def measure(python, peers, count, options, parts):
    """All rows, the sides in turns: one way round and back, so that none is always the first."""
    table = []
    for begin in range(0, count, parts):
        part = f"{begin}:{min(count, begin + parts)}"
        runs = {side: [] for side in [*peers, "frit"]}
        for side in [*runs, *reversed(runs)]:
            runs[side].append(one_side(python, side, part, options))
        for i, row in enumerate(runs["frit"][0]):
            table.append(together(row["name"], {side: [r[i] for r in rs] for side, rs in runs.items()}))
            show(table[-1], peers)
    return table


def show(row, peers):
    of = "".join(f" {row.get(f'{side}_ms', math.nan):12.3f}" for side in [*peers, "frit"])
    ratios = f"{row.get('ratio', math.nan):7.2f} {row.get('least_ratio', math.nan):7.2f}"
    print(f"{row['name']:48}{of} {ratios}  {remark(row)} {row.get('error', '')}", flush=True)


def remark(row):
    """What a row says beside its times."""
    return f"{row['of_copy']:.2f} of a copy" if "of_copy" in row else ""


def summary(table):
    ratios = [r["ratio"] for r in table if "ratio" in r]
    if not ratios:
        return "no rows"
    mean = [math.exp(sum(math.log(r[of]) for r in table if of in r) / len(ratios)) for of in ("ratio", "least_ratio")]
    low = [sum(r[of] < 0.8 for r in table if of in r) for of in ("ratio", "least_ratio")]
    least = min(ratios), min(r["least_ratio"] for r in table if "ratio" in r)
    return (
        f"{len(ratios)} rows: geometric mean {mean[0]:.2f}, least {least[0]:.2f}, {low[0]} below 0.8;"
        f" by the quickest call {mean[1]:.2f}, {least[1]:.2f}, {low[1]}"
    )


def command(a, default, environment):
    """What was called, with the variables that matter to it; where files are does not."""
    words = []
    for name in ("random", "count", "only", "peers", "threads", "quick"):
        if (value := getattr(a, name)) != default(name):
            words += [f"--{name}"] + ([] if value is True else [shlex.quote(str(value))])
    words += ["--python PYTHON"] if a.python else []
    matter = {k: v for k, v in sorted(environment.items()) if VARIABLES.match(k) and "/" not in v}
    return " ".join([*(f"{k}={shlex.quote(v)}" for k, v in matter.items()), "python bench/run.py", *words])


def markdown(table, peers, command, threads):
    """The table as it stands in BENCHMARKS.md, the slowest rows first."""
    head = ["row", *(f"{side} ms" for side in [*peers, "frit"]), "ratio", "at best"]
    lines = [f"`{command}`, threads: {threads}; {summary(table)}.", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in sorted(table, key=lambda r: r.get("least_ratio", 0.0)):
        times = [f"{row[f'{side}_ms']:.3f}" if f"{side}_ms" in row else "–" for side in [*peers, "frit"]]
        ratios = [f"{row[of]:.2f}" if of in row else "–" for of in ("ratio", "least_ratio")]
        name = row["name"] + (f" ({remark(row)})" if remark(row) else "")
        lines.append("| " + " | ".join([name, *times, *ratios]) + " |")
    return "\n".join(lines) + "\n"


def place(file, mark):
    """The marks `<!-- mark -->` and `<!-- end -->` of a file, and what stands between them."""
    marks = re.compile(rf"(<!-- {re.escape(mark)} -->\n).*?(<!-- end -->)", re.DOTALL)
    found = marks.search(file.read_text()) if file.exists() else None
    return found or sys.exit(f"{file} has no place for it: a line <!-- {mark} -->, and a line <!-- end --> below")


def write(file, mark, text):
    """Put a text between the marks of a file."""
    found = place(file, mark)
    file.write_text(found.string[: found.end(1)] + text + found.string[found.start(2) :])


def svg(table):
    """Bars of ratios, from the lowest; a line where both sides are as fast."""
    rows = sorted((r for r in table if "ratio" in r), key=lambda r: r["ratio"])
    top = max([2.0, *(r["ratio"] for r in rows)])
    parts, width = [], 760
    for i, r in enumerate(rows):
        y, w = 20 + 14 * i, width * r["ratio"] / top
        colour = "#3a7" if r["ratio"] >= 1 else "#c63"
        parts.append(f'<text x="330" y="{y + 10}" text-anchor="end">{r["name"]}</text>')
        parts.append(f'<rect x="340" y="{y}" width="{w:.1f}" height="11" fill="{colour}"/>')
        parts.append(f'<text x="{345 + w:.1f}" y="{y + 10}">{r["ratio"]:.2f}</text>')
    height, one = 30 + 14 * len(rows), 340 + width / top
    line = f'<line x1="{one:.1f}" x2="{one:.1f}" y1="14" y2="{height - 6}" stroke="#888"/>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="1160" height="{height}" font-family="monospace" font-size="11" fill="#333">'
    return "\n".join([head, *parts, line, "</svg>", ""])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--setup", type=pathlib.Path, default=pathlib.Path("target/bench"), help="folder for all sides (target/bench)")
    p.add_argument("--python", help="a Python that has all sides, of whatever build, instead of a folder")
    p.add_argument("--random", type=int, metavar="SEED", help="rows drawn from a seed (the listed ones)")
    p.add_argument("--count", type=int, default=100, help="how many of them (100)")
    p.add_argument("--only", help="rows whose names hold this")
    p.add_argument("--peers", default="torch", help="some of torch, tinygrad, onnxruntime (torch); ratios: to the first")
    p.add_argument("--threads", type=int, help="threads (all)")
    p.add_argument("--quick", action="store_true", help="a short look at each row: under two minutes")
    p.add_argument("--json", type=pathlib.Path, help="write the table there")
    p.add_argument("--svg", type=pathlib.Path, help="draw the table there")
    p.add_argument("--write", type=pathlib.Path, metavar="FILE", help="put the table between its marks in a Markdown file")
    a = p.parse_args()
    peers, words = a.peers.split(","), ["--random", str(a.random)] if a.random is not None else []
    mark = " ".join(["bench/run.py", *words])
    if unknown := set(peers) - set(PACKAGES):
        p.error(f"no peer {', '.join(sorted(unknown))}; there are {', '.join(PACKAGES)}")
    if a.write:
        place(a.write, mark)
    python = a.python or setup(a.setup, peers)
    options = [*words, "--count", str(a.count), "--seconds", "0.03" if a.quick else "0.25"]
    options += ["--only", a.only] if a.only else []
    options += ["--threads", str(a.threads)] if a.threads else []
    sides = "".join(f" {side + ' ms':>12}" for side in [*peers, "frit"])
    print(f"{'row':48}{sides} {'ratio':>7} {'at best':>7}")
    begin, number = time.monotonic(), len(rows(a.random, a.count))
    table = measure(python, peers, number, options, number if a.quick or a.only else 20)
    print(f"{summary(table)}; {time.monotonic() - begin:.0f} s")
    called, threads = command(a, p.get_default, os.environ), a.threads or len(os.sched_getaffinity(0))
    if a.json:
        said = {"command": called, "random": a.random, "threads": threads, "rows": table}
        a.json.write_text(json.dumps(said, indent=1))
    if a.svg:
        a.svg.write_text(svg(table))
    if a.write:
        write(a.write, mark, markdown(table, peers, called, threads))
    sys.exit(any("error" in r and "frit:" in r["error"] for r in table))


if __name__ == "__main__":
    main()
