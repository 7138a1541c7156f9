"""Real models beside onnxruntime: python python/onnx_models.py [NAME ...] [--seconds S] [--only errors|times|compiles]

For each model of examples/models.py: how exact it is, how long a run takes, how long loading and the first run take, and how
much memory that needs at most. Both run with two threads; runs alternate in one process, and what is measured once is
measured in processes of their own. Models that cannot be fetched are named and left out.

error   of models in float32 the largest error against a run in float64, relative to the largest value of the output: ours
        and onnxruntime's. It may be twice theirs. Of quantised models the part of the outputs that are within one step of
        256 over their range from onnxruntime's, and how many rows have the same largest element: 99.9 % and all (the texts that
        they write: python/onnx_texts.py). Where that is
        not so, what onnxruntime's own outputs keep when stored floats move by up to 2^-22 (which another order of a sum does) is
        said beside it, for people to judge: scales that follow from the largest element make some models magnify the last bits
ratio   onnxruntime's time over ours: above 1 is faster
first   loading and the first run, with nothing compiled before on this machine / with the kernels in FRIT_CACHE; ours may
        take twice theirs and 150 ms
peak    memory of the process; ours may be 1.2 times theirs
Before that three models are run with 50 sentence lengths and 64 steps of a decoder: nothing may be compiled after the second run.
Bounds that are not kept are marked with !, and the exit status is 1 where an error is.
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

# not the sources beside this file, which lack the part in Rust
HERE = pathlib.Path(__file__)
sys.path[0] = str(HERE.parent.parent / "examples")
sys.path.append(str(HERE.parent))
import models  # noqa: E402
from onnx_texts import SPEECH, Tokenizer, likeness, nudged, spectrum  # noqa: E402

THREADS = 2
os.environ.setdefault("FRIT_THREADS", str(THREADS))
RANDOM = 1


def tokens(length, past=0):
    """What an encoder of texts is given."""
    return {"sequence_length": length, "past_sequence_length": past}


def whisper(past):
    sizes = {"decoder_sequence_length": 1, "past_decoder_sequence_length": past, "encoder_sequence_length_out": 1500}
    return sizes | {"encoder_sequence_length / 2": 1500}


def speech(samples):
    return {"input": ("float", [1, samples]), "state": ("float", [2, 1, 128]), "sr": np.array(16000)}


# what names stand for, and inputs that are not random: by the file's name, and a word for the case where there are several
CASES = {
    "mobilenetv2": {},
    "squeezenet": {},
    "text_detector": {"DynamicDimension.1": 320, "DynamicDimension.2": 640},
    "text_recogniser": {"DynamicDimension.1": 320},
    "u2netp": {},
    "pose": {},
    "minilm": tokens(24),
    "gte": tokens(24),
    "file_types": {},
    "pitch": {},
    "speech_detector": speech(576),
    "speech_detector_half": {"sequence": 576},
    "speech_detector_ifless": {"sequence": 576} | speech(576),
    "speech_detector_sequence": {"sequence_length": 31},
    "speakers": {"T": 160000},
    "voice": {"phonemes": 60, "input_lengths": np.array([60]), "scales": np.array([0, 1, 0], np.float32)},
    "molecules": {"num_nodes": 24, "num_edges": 50, "num_graphs": 1, "batch": np.zeros(24, np.int64)},
    "wake_spectrum": {"samples": 16000},
    "wake_features": {},
    "wake_word": {},
    # what models of texts and speech are given is a text and speech, where other numbers than random ones come along
    "whisper_encoder": {"input_features": lambda: spectrum(models.HERE / "speech.wav")},
    "whisper_decoder": whisper(20) | {"use_cache_branch": np.array([True])},
    "minimind": tokens(1, 63),
    "minimind:prompt": tokens(64) | {"input_ids": lambda: np.array([Tokenizer(models.HERE / "minimind.json").encode(SPEECH)[:64]])},
}
# a size of a case and the values it takes one after the other
SERIES = {
    "minilm": ("sequence_length", np.random.default_rng(0).permutation(np.arange(4, 104, 2))),
    "minimind": ("past_sequence_length", range(20, 84)),
    "whisper_decoder": ("past_decoder_sequence_length", range(4, 68)),
}
DTYPES = {"float": np.float32, "float16": np.float16, "double": np.float64, "int64": np.int64, "int32": np.int32, "bool": bool}
QUANTISED = {"QuantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger", "QLinearConv", "MatMulNBits"}


def path_of(case):
    return models.HERE / f"{case.split(':')[0]}.onnx"


def size_of(name, given):
    """The value of a size: a number, a name, or a sum of names."""
    if not isinstance(name, str):
        return name or 1
    return given.get(name) or (sum(given.get(n, 0) for n in name.split(" + ")) if " + " in name else given.get(name, 1))


def feed(port, given, random):
    name, kind, dims = port
    value = given.get(name)
    value = value() if callable(value) else value
    if isinstance(value, np.ndarray):
        return value.astype(DTYPES[kind])
    if isinstance(value, tuple):
        kind, dims = value
    dims = [size_of(d, given) for d in dims]
    if kind in ("float", "float16", "double"):
        return random.standard_normal(dims).astype(DTYPES[kind])
    if kind == "bool":
        return np.ones(dims, bool)
    if "mask" in name:
        return np.ones(dims, DTYPES[kind])
    if "position" in name:
        past = given.get("past_sequence_length", 0)
        return np.broadcast_to(np.arange(past, past + dims[-1]), dims).astype(DTYPES[kind])
    return random.integers(0, 2 if "type" in name else 20, dims).astype(DTYPES[kind])


def feeds_of(case, ports):
    random, given = np.random.default_rng(RANDOM), CASES[case]
    return {p[0]: feed(p, given, random) for p in ports}


class Ours:
    def __init__(self, model):
        import frit.onnx

        self.session = frit.onnx.Session(model)
        ports = [p for p in self.session.inputs if not p.optional]
        self.inputs = [(p.name, p.type, p.shape) for p in ports]

    def run(self, feeds):
        return self.session.run(None, feeds)


class Theirs:
    def __init__(self, model):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = THREADS
        self.session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        kind = {"tensor(" + k + ")": k for k in DTYPES}
        self.inputs = [(p.name, kind[p.type], p.shape) for p in self.session.get_inputs()]

    def run(self, feeds):
        return self.session.run(None, feeds)


def once(case, which):
    """In a process of its own: milliseconds to load and run once, and the peak memory of a few runs in MB."""
    # what is read of the file is in memory for both
    path = path_of(case)
    path.read_bytes()
    feeds = feeds_of(case, json.loads(os.environ["PORTS"]))
    __import__("frit.onnx" if which == "ours" else "onnxruntime")
    start = time.perf_counter()
    session = Ours(path) if which == "ours" else Theirs(str(path))
    session.run(feeds)
    first = (time.perf_counter() - start) * 1e3
    for _ in range(4):
        session.run(feeds)
    # what the system counts for a process begins with its parent's
    peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(json.dumps([first, int(peak.split()[1]) / 1e3]))


def apart(case, which, ports, cache):
    env = os.environ | {"FRIT_CACHE": cache, "PORTS": json.dumps(ports)}
    command = [sys.executable, str(HERE), "--once", case, which]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr else f"status {done.returncode}")
    return json.loads(done.stdout)


def turn(session, feeds, seconds):
    """Milliseconds of runs one after the other for so long, three at least."""
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        session.run(feeds)
        times.append((time.perf_counter() - start) * 1e3)
    return times


def alternating(ours, theirs, feeds, seconds):
    """Median milliseconds of each, in turns."""
    times = ([], [])
    for _ in range(3):
        ours.run(feeds)
        theirs.run(feeds)
    end = time.perf_counter() + seconds
    while len(times[0]) < 6 or time.perf_counter() < end:
        for session, list in zip((ours, theirs), times):
            # onnxruntime's threads wait for work for tens of milliseconds, on the cores that ours are given then
            time.sleep(0.1)
            turn(session, feeds, 0.02)
            list += turn(session, feeds, 0.1)
    return [float(np.median(t)) for t in times]


def doubled(graph):
    """Makes a graph compute in float64."""
    import onnx
    from onnx import TensorProto, numpy_helper

    def tensor(t):
        if t.data_type in (TensorProto.FLOAT, TensorProto.FLOAT16):
            wide = numpy_helper.from_array(numpy_helper.to_array(t).astype(np.float64), t.name)
            t.CopyFrom(wide)

    narrow = []
    for node in graph.node:
        # an input that is never of doubles is made a float again
        schema = onnx.defs.get_schema(node.op_type) if not node.domain and onnx.defs.has(node.op_type) else None
        for i, v in enumerate(schema.inputs if schema else []):
            if v.type_str == "tensor(float)" and i < len(node.input) and node.input[i]:
                narrow.append(onnx.helper.make_node("Cast", [node.input[i]], [f"{node.output[0]} {i}"], to=TensorProto.FLOAT))
                node.input[i] = f"{node.output[0]} {i}"
    for t in graph.initializer:
        tensor(t)
    for v in [*graph.input, *graph.output, *graph.value_info]:
        if v.type.tensor_type.elem_type in (TensorProto.FLOAT, TensorProto.FLOAT16):
            v.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in graph.node:
        for a in node.attribute:
            if a.HasField("t"):
                tensor(a.t)
            if a.HasField("g"):
                doubled(a.g)
            if a.name in ("to", "dtype") and a.i in (TensorProto.FLOAT, TensorProto.FLOAT16):
                a.i = TensorProto.DOUBLE
        if node.op_type == "ConstantOfShape" and not node.attribute:
            zero = numpy_helper.from_array(np.zeros(1))
            node.attribute.append(onnx.helper.make_attribute("value", zero))
    # each before the node that wants it
    first = {o: node for node in graph.node for o in node.input}
    nodes = [n for node in graph.node for n in (*(c for c in narrow if first.get(c.output[0]) is node), node)]
    del graph.node[:]
    graph.node.extend(nodes)


def operators(graph):
    for node in graph.node:
        yield node.op_type
        for a in node.attribute:
            if a.HasField("g"):
                yield from operators(a.g)


def errors(path, ours, theirs, feeds):
    """What is said of the outputs, and whether they are as they must be."""
    import onnx

    model = onnx.load(path)
    got, want = ours.run(feeds), theirs.run(feeds)
    if any(a.shape != b.shape for a, b in zip(got, want, strict=True)):
        return "shapes differ !", False
    if QUANTISED & set(operators(model.graph)):
        near, same = likeness(got, want)
        said = f"{100 * near:.2f}% near, {100 * same:.0f}% same"
        if near >= 0.999 and same == 1:
            return said, True
        nudged(model.graph)
        kept = likeness(Theirs(model.SerializeToString()).run(feeds), want)
        return f"{said} (its own {100 * kept[0]:.2f}%, {100 * kept[1]:.0f}%) !", False
    doubled(model.graph)
    wide = {n: v.astype(np.float64) if v.dtype in (np.float32, np.float16) else v for n, v in feeds.items()}
    exact = Ours(model).run(wide)

    def largest(made):
        floats = [(a, b) for a, b in zip(made, exact, strict=True) if b.dtype == np.float64 and b.any()]
        return max(np.abs(a - b).max() / np.abs(b).max() for a, b in floats)

    mine, other = largest(got), largest(want)
    # half a unit in the last place is what storing an output costs
    good = mine <= 2 * max(other, 2**-24)
    return f"{mine:.1e} to {other:.1e}{'' if good else ' !'}", good


def row(case, options):
    """The cells of a model, its ratio, and whether its outputs are right."""
    path = path_of(case)
    theirs = Theirs(str(path))
    feeds = feeds_of(case, theirs.inputs)
    cells, ratio, good = [], None, True
    ours = Ours(path)
    if options.only != "times":
        said, good = errors(path, ours, theirs, feeds)
        cells.append(said)
    if options.only != "errors":
        mine, other = alternating(ours, theirs, feeds, options.seconds)
        ratio = other / mine
        with tempfile.TemporaryDirectory() as cache:
            cold, _ = apart(case, "ours", theirs.inputs, cache)
            warm, peak = apart(case, "ours", theirs.inputs, cache)
        first, most = apart(case, "theirs", theirs.inputs, "")
        late = "" if warm <= 2 * first + 150 else " !"
        large = "" if peak <= 1.2 * most else " !"
        low = "" if ratio >= 0.5 else " !"
        cells += [f"{mine:.2f}", f"{other:.2f}", f"{ratio:.2f}{low}"]
        cells += [f"{cold:.0f} / {warm:.0f}", f"{first:.0f}{late}", f"{peak:.0f}", f"{most:.0f}{large}"]
    return cells, ratio, good


def compiles(case):
    """Kernels compiled in the first run, in the second, and in all later ones of a series."""
    from frit import _frit

    name, values = SERIES[case]
    session, made = Ours(path_of(case)), []
    random = np.random.default_rng(RANDOM)
    for value in values:
        given = CASES[case] | {name: int(value)}
        feeds = {p[0]: feed(p, given, random) for p in session.inputs}
        before = _frit.compiled()
        session.run(feeds)
        made.append(_frit.compiled() - before)
    return made[0], made[1], sum(made[2:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(CASES)}")
    parser.add_argument("--seconds", type=float, default=3, help="how long runs alternate, for each model")
    parser.add_argument("--only", choices=["errors", "times", "compiles"], help="measure one of them")
    parser.add_argument("--once", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        return once(*options.once)
    unknown = [n for n in options.names if n not in CASES]
    if unknown:
        sys.exit(f"there is no {', '.join(unknown)}; there are {', '.join(CASES)}")
    chosen = options.names or list(CASES)
    beside = {"whisper_encoder": ["speech.wav"], "minimind:prompt": ["minimind.json"]}
    wanted = {c: [path_of(c).name, *beside.get(c, [])] for c in chosen}
    missing = models.fetch(sorted({name for c in chosen for name in wanted[c]}))
    lost = {path_of(c).name for c in chosen if set(wanted[c]) & set(missing)}
    bad = 0
    if options.only in (None, "compiles"):
        for case in [c for c in SERIES if c in chosen and path_of(c).name not in lost]:
            first, second, later = compiles(case)
            bad += later > 0
            said = f"{len(SERIES[case][1])} values of {SERIES[case][0]}: {first}, {second}, then {later} kernels compiled"
            print(f"{case}: {said}{' !' if later else ''}", flush=True)
    if options.only == "compiles":
        sys.exit(1 if bad else 0)
    head = ["model"]
    head += [] if options.only == "times" else ["error"]
    head += [] if options.only == "errors" else ["ms", "theirs", "ratio", "first ms", "theirs", "peak MB", "theirs"]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head), flush=True)
    ratios = []
    for case in chosen:
        if path_of(case).name in lost:
            print(f"| {case} | cannot be fetched here |")
            continue
        try:
            cells, ratio, good = row(case, options)
            ratios += [ratio] if ratio else []
        except Exception as e:  # a model that fails is a row, and the others are tried
            cells, good = [f"{type(e).__name__}: {' '.join(str(e).split())[:200]} !"], False
        bad += not good
        print(f"| {case} | " + " | ".join(cells) + " |", flush=True)
    if ratios:
        print(f"\ngeometric mean of the ratios {math.exp(np.mean(np.log(ratios))):.2f}, least {min(ratios):.2f}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
