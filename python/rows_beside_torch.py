"""frit and torch on one GPU, row by row: `python python/rows_beside_torch.py --frit target/release/frit --json rows.json`.

Needs the `frit` binary and torch, not the Python module. First it asks whether frit's results are right: the elementary
functions against their bounds (`frit accuracy`), and every row on the GPU against the CPU (`frit bench --check`). Then each
row is timed on both sides, one right after the other: a graph that is replayed, between two events of the device. Above 1
frit is faster. Kernels are compiled before anything is timed; how long that took is `first_s`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable

import torch
import torch.nn.functional as F

REPEATS, TURNS = 20, 7


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device="cuda").to(dtype)


def norms(n: int) -> dict[str, Callable[[], Callable[[], object]]]:
    """Softmax and the two norms over rows of n bfloat16 elements."""

    def row(f: Callable[[torch.Tensor], object]) -> Callable[[], Callable[[], object]]:
        def setup() -> Callable[[], object]:
            x = randn(n, n, dtype=torch.bfloat16)
            return lambda: f(x)

        return setup

    return {
        f"softmax_{n}x{n}_bf16": row(lambda x: x.softmax(-1)),
        f"layernorm_{n}x{n}_bf16": row(lambda x: F.layer_norm(x, (n,))),
        f"rmsnorm_{n}x{n}_bf16": row(lambda x: F.rms_norm(x, (n,), eps=1e-6)),
    }


def unary(f: Callable[[torch.Tensor], object], *shape: int, dtype: torch.dtype = torch.float32):
    def setup() -> Callable[[], object]:
        x = randn(*shape, dtype=dtype)
        return lambda: f(x)

    return setup


def fused() -> Callable[[], object]:
    x, y = randn(1 << 24), randn(1 << 24)
    return lambda: torch.sigmoid(x) * y + x


def gather(n: int) -> Callable[[], Callable[[], object]]:
    def setup() -> Callable[[], object]:
        table, index = randn(50257, 768), torch.randint(0, 50257, (n,), device="cuda")
        return lambda: F.embedding(index, table)

    return setup


def product(n: int) -> Callable[[], Callable[[], object]]:
    return pair((n, n), (n, n), torch.float32)


def pair(
    first: tuple[int, ...],
    second: tuple[int, ...],
    dtype: torch.dtype = torch.bfloat16,
    f: Callable[[torch.Tensor, torch.Tensor], object] = torch.matmul,
) -> Callable[[], Callable[[], object]]:
    def setup() -> Callable[[], object]:
        a, b = randn(*first, dtype=dtype), randn(*second, dtype=dtype)
        return lambda: f(a, b)

    return setup


def int8() -> Callable[[], object]:
    a, b = (torch.randint(-128, 128, (4096, 4096), device="cuda", dtype=torch.int8) for _ in range(2))
    return lambda: torch._int_mm(a, b.t())


def attention(heads: int, width: int, causal: bool) -> Callable[[], Callable[[], object]]:
    def setup() -> Callable[[], object]:
        q, k, v = (randn(4, heads, 4096, width, dtype=torch.bfloat16) for _ in range(3))
        return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return setup


def attention_backward(dims: tuple[int, int, int, int], causal: bool) -> Callable[[], Callable[[], object]]:
    """Attention and the gradients of all it is made of."""

    def setup() -> Callable[[], object]:
        q, k, v, g = (randn(*dims, dtype=torch.bfloat16) for _ in range(4))
        for x in (q, k, v):
            x.requires_grad_()

        def run() -> object:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            return y, torch.autograd.grad(y, (q, k, v), g)

        return run

    return setup


def mnist(**adam: bool) -> Callable[[], object]:
    """A training step of the network of `frit bench mnist_train_bs512`."""
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 32, 5), nn.ReLU(), nn.Conv2d(32, 32, 5), nn.ReLU(), nn.BatchNorm2d(32), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.BatchNorm2d(64), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(576, 10),
    ).cuda()  # fmt: skip
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, **adam)
    x, y = randn(512, 1, 28, 28), torch.randint(0, 10, (512,), device="cuda")

    def step() -> object:
        opt.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss

    return step


ROWS: dict[str, Callable[[], Callable[[], object]]] = {
    "copy_128MiB": unary(lambda x: x + 0, 8192, 4096),
    "copy_1000x1001": unary(lambda x: x + 0, 1000, 1001),
    "sum_all_1GiB_f32": unary(torch.sum, 16384, 16384),
    "transpose_1GiB_f32": unary(lambda x: x.t().contiguous(), 16384, 16384),
    **norms(8192),
    **norms(8191),
    **norms(4095),
    "cumsum_4096": unary(lambda x: x.cumsum(-1), 4096, 4096),
    "cumsum_4096_axis0": unary(lambda x: x.cumsum(0), 4096, 4096),
    "sort_1024x8192_f32": unary(lambda x: x.sort(-1), 1024, 8192),
    "gather_embedding": gather(1024),
    "gather_embedding_16384": gather(16384),
    "fused_elementwise_16m": fused,
    "exp_16m": unary(torch.exp, 1 << 24),
    "gelu_64m": unary(F.gelu, 8192, 8192, dtype=torch.bfloat16),
    "argmax_4096x50257": unary(lambda x: x.argmax(-1), 4096, 50257),
    "logsumexp_4096x50257": unary(lambda x: x.logsumexp(-1), 4096, 50257),
    "sum_rows_8192": unary(lambda x: x.sum(1), 8192, 8192),
    "sum_columns_8192": unary(lambda x: x.sum(0), 8192, 8192),
    "gemm_f32_1024": product(1024),
    "gemm_f32_4096": product(4096),
    **{f"gemm_bf16_{n}": pair((n, n), (n, n)) for n in (1024, 4096, 8192, 1000, 4095)},
    "gemm_fp16_4096": pair((4096, 4096), (4096, 4096), torch.float16),
    **{
        f"gemm_bf16_{m}x{k}x{n}": pair((m, k), (k, n))
        for m, k, n in ((64, 4096, 4096), (300, 4096, 11008), (8192, 64, 8192))
    },
    "gemm_bf16_4096_tn": pair((4096, 4096), (4096, 4096), f=lambda a, b: a.t() @ b),
    "gemm_bf16_4096_nt": pair((4096, 4096), (4096, 4096), f=lambda a, b: a @ b.t()),
    "gemm_bf16_4096_tt": pair((4096, 4096), (4096, 4096), f=lambda a, b: a.t() @ b.t()),
    "gemm_int8_4096_nt": int8,
    "bmm_bf16_64x128": pair((64, 128, 128), (64, 128, 128)),
    "gemm_bias_gelu_4096": pair((4096, 4096), (4096, 4096), f=lambda a, b: F.gelu(F.linear(a, b.t(), b[0]))),
    **{
        f"sdpa_b4h{heads}s4096d{width}{'_causal' if causal else ''}": attention(heads, width, causal)
        for heads, width in ((32, 128), (64, 64))
        for causal in (False, True)
    },
    **{
        f"sdpa_backward_b{b}h{h}s{n}d{d}{'_causal' if causal else ''}": attention_backward((b, h, n, d), causal)
        for (b, h, n, d), causal in (((2, 4, 512, 64), True), ((16, 12, 1024, 64), True), ((64, 16, 512, 64), False), ((4, 32, 4096, 128), True))
    },
    # with an optimiser that a graph can hold
    "mnist_train_bs512": lambda: mnist(capturable=True, fused=True),
}


def theirs(name: str) -> dict[str, float]:
    """Milliseconds of a replayed graph by torch, and the most memory it held for it."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    run = ROWS[name]()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return {"ms": timed(graph.replay), "peak_mb": torch.cuda.max_memory_allocated() / 1e6}


def timed(run: Callable[[], object]) -> float:
    """Milliseconds by events, the median of several turns."""
    run()
    torch.cuda.synchronize()
    times = []
    for _ in range(TURNS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(REPEATS):
            run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / REPEATS)
    return statistics.median(times)


def frit(binary: str, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "FRIT_DEVICE": "CUDA"}
    return subprocess.run([binary, *words], env=env, capture_output=True, text=True)


def ours(binary: str, name: str) -> dict[str, float]:
    done = frit(binary, "bench", "--milliseconds=500", name)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    found = [line for line in lines if line["name"] == name]
    return found[0] if found else {"error": done.stderr.strip().splitlines()[-1:] or ["nothing was printed"]}


def is_right(binary: str, names: list[str]) -> bool:
    """Whether frit computes on the GPU what it should."""
    # of each function a few arguments in every exponent; the full table is `frit accuracy`
    steps = [["accuracy", "--points", "2"], *(["bench", "--check", name] for name in names)]
    good = True
    for words in steps:
        done = frit(binary, *words)
        good &= done.returncode == 0
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        print(f"{'right' if done.returncode == 0 else 'WRONG'}  {' '.join(words)}  {''.join(said)}", flush=True)
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frit", default="target/release/frit", help="the binary")
    parser.add_argument("--json", help="a file for the table")
    parser.add_argument("--plot", help="an SVG file for a chart of both, by `frit bench --plot`")
    parser.add_argument("--rows", help="names, with commas; all without")
    parser.add_argument("--unchecked", action="store_true", help="do not compare results first")
    parser.add_argument("--tf32", action="store_true", help="both sides may round float32 factors to ten bits of fraction")
    args = parser.parse_args()
    names = args.rows.split(",") if args.rows else list(ROWS)
    unknown = [name for name in names if name not in ROWS]
    if unknown:
        sys.exit(f"there are no rows {unknown}; there are {list(ROWS)}")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = args.tf32
    # as float32 has it, since what is rounded so differs from that by design
    good = args.unchecked or is_right(args.frit, names)
    if args.tf32:
        os.environ["FRIT_MATRIX"] = "tf32"
    print(f"\n{torch.cuda.get_device_name()}, torch {torch.__version__}\n{'row':28} {'torch ms':>10} {'frit ms':>10} {'ratio':>7}")
    rows: list[dict] = []
    for name in names:
        try:
            other = theirs(name)
        except RuntimeError as e:
            other = {"error": str(e).splitlines()[:1]}
        # frit has the machine's memory to itself
        torch.cuda.empty_cache()
        row = {"name": name, "torch": other, "frit": ours(args.frit, name)}
        rows.append(row)
        ms = [row[side].get("ms") or float("nan") for side in ("torch", "frit")]
        row["ratio"] = ms[0] / ms[1] if ms[0] > 0 and ms[1] > 0 else None
        wrong = row["frit"].get("error") or other.get("error") or ""
        print(f"{name:28} {ms[0]:10.4f} {ms[1]:10.4f} {ms[0] / ms[1]:7.2f}  {''.join(wrong)}", flush=True)
        if name.startswith("mnist"):
            peaks = [row[side].get("peak_mb") or float("nan") for side in ("torch", "frit")]
            print(f"{'  the most memory, MB':28} {peaks[0]:10.1f} {peaks[1]:10.1f}")
            # as it is usually written: no graph, the optimiser as it comes
            row["torch_eager_ms"] = timed(mnist())
            print(f"{'  eager':28} {row['torch_eager_ms']:10.4f} {ms[1]:10.4f} {row['torch_eager_ms'] / ms[1]:7.2f}", flush=True)
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "is_right": good, "rows": rows}, file, indent=1)
    if args.plot:
        plot(args.frit, args.plot, rows)
    sys.exit(0 if good else 1)


def plot(binary: str, svg: str, rows: list[dict]) -> None:
    """The rows as bars beside torch's, measured once more by the one who draws them."""
    peer = f"torch {torch.__version__.split('+')[0]}"
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for row in rows:
            if ms := row["torch"].get("ms"):
                print(json.dumps({"name": row["name"], "ms": ms, "peer": peer}), file=file, flush=True)
        done = frit(binary, "bench", "--milliseconds=500", f"--plot={svg}", f"--peers={file.name}", *(row["name"] for row in rows))
    if done.returncode:
        sys.exit(done.stderr)


if __name__ == "__main__":
    main()
