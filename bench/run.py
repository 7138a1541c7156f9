"""frit beside torch on this machine: `python bench/run.py --seed 1 [--quick] [--json rows.json] [--svg rows.svg]`.

Sets up both sides in a folder of its own where they are not there yet (`--setup`), then runs parts of the rows of
`rows.py` in processes that take turns, in both orders: two in one process would run into each other's threads. A ratio above 1
says that frit is faster.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).resolve().parent
# how far sums of one row's results may be apart, by how many numbers they are of
TOLERANCE = 2e-3


def setup(folder):
    """A Python with numpy, torch and the frit of this checkout."""
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"setting up {folder}", file=sys.stderr)
        venv.create(folder, with_pip=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "numpy", "torch", str(HERE.parent)], check=True)
    return str(python)


def one_side(python, side, part, options):
    command = [python, "-P", str(HERE / "rows.py"), side, "--part", part, *options]
    out = subprocess.run(command, capture_output=True, text=True)
    if out.returncode:
        sys.exit(out.stderr)
    return [json.loads(line) for line in out.stdout.splitlines()]


def together(name, runs):
    """A row of the table from what both sides said, each some times."""
    for side, rows in runs.items():
        for row in rows:
            if "error" in row:
                return {"name": name, "error": f"{side}: {row['error']}"}
    mean = {side: sum(r["ms"] for r in rows) / len(rows) for side, rows in runs.items()}
    least = {side: min(r["least_ms"] for r in rows) for side, rows in runs.items()}
    ours, theirs = runs["frit"][0], runs["torch"][0]
    scale = max(abs(theirs["sum"]), math.sqrt(theirs["size"]), 1.0)
    same = ours["size"] == theirs["size"] and abs(ours["sum"] - theirs["sum"]) <= TOLERANCE * scale
    row = {"name": name, "torch_ms": mean["torch"], "frit_ms": mean["frit"], "ratio": mean["torch"] / mean["frit"]}
    row |= {"least_ratio": least["torch"] / least["frit"], "first_s": ours["first_s"]}
    return row if same else row | {"error": f"frit's sum is {ours['sum']}, torch's {theirs['sum']}"}


def measure(python, count, options, parts):
    table = []
    for begin in range(0, count, parts):
        part = f"{begin}:{min(count, begin + parts)}"
        runs = {"torch": [], "frit": []}
        for side in ["torch", "frit", "frit", "torch"]:
            runs[side].append(one_side(python, side, part, options))
        for i, row in enumerate(runs["frit"][0]):
            table.append(together(row["name"], {side: [r[i] for r in rs] for side, rs in runs.items()}))
            show(table[-1])
    return table


def show(row):
    if "ratio" in row:
        times = f"{row['torch_ms']:10.3f} {row['frit_ms']:10.3f} {row['ratio']:7.2f} {row['least_ratio']:7.2f}"
        print(f"{row['name']:48} {times}  {row.get('error', '')}", flush=True)
    else:
        print(f"{row['name']:48} {row['error']}", flush=True)


def svg(table):
    """Bars of ratios, from the lowest; a line where both sides are as fast."""
    rows = sorted((r for r in table if "ratio" in r), key=lambda r: r["ratio"])
    top = max(2.0, *(r["ratio"] for r in rows))
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
    p.add_argument("--setup", type=pathlib.Path, default=pathlib.Path("target/bench"), help="folder for both sides (target/bench)")
    p.add_argument("--python", help="a Python that has both sides, instead of a folder")
    p.add_argument("--seed", type=int, default=1, help="which rows (1)")
    p.add_argument("--count", type=int, default=100, help="how many rows (100)")
    p.add_argument("--only", help="rows whose names hold this")
    p.add_argument("--threads", type=int, help="threads (all)")
    p.add_argument("--quick", action="store_true", help="a short look at each row: under two minutes")
    p.add_argument("--json", type=pathlib.Path, help="write the table there")
    p.add_argument("--svg", type=pathlib.Path, help="draw the table there")
    a = p.parse_args()
    python = a.python or setup(a.setup)
    options = ["--seed", str(a.seed), "--count", str(a.count), "--seconds", "0.03" if a.quick else "0.25"]
    options += ["--only", a.only] if a.only else []
    options += ["--threads", str(a.threads)] if a.threads else []
    print(f"{'row':48} {'torch ms':>10} {'frit ms':>10} {'ratio':>7} {'at best':>7}")
    table = measure(python, a.count, options, a.count if a.quick or a.only else 20)
    ratios = [r["ratio"] for r in table if "ratio" in r]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        low = sum(r < 0.8 for r in ratios)
        print(f"{len(ratios)} rows: geometric mean {mean:.2f}, least {min(ratios):.2f}, {low} below 0.8")
    if a.json:
        a.json.write_text(json.dumps({"seed": a.seed, "threads": a.threads, "rows": table}, indent=1))
    if a.svg:
        a.svg.write_text(svg(table))


if __name__ == "__main__":
    main()
