"""How exact models are: python python/onnx_accuracy.py [MODEL.onnx ...] [--size NAME=N ...]

Runs each model in float32 with frit and with onnxruntime, and in float64 with frit, on the same random inputs. Fails where
frit's largest error is more than twice onnxruntime's. Without names, the models of examples/models.py; those that cannot be
fetched are named and left out, and so are quantised ones, whose steps hide what rounding does.
"""

import argparse
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper

# not the sources beside this file, which lack the part in Rust
sys.path[0] = str(pathlib.Path(__file__).parent.parent / "examples")
import models  # noqa: E402

from frit.onnx import Session  # noqa: E402

NAMES = ["mobilenetv2.onnx", "text_detector.onnx", "text_recogniser.onnx", "u2netp.onnx", "minilm.onnx"]
NAMES += ["gte.onnx", "pose.onnx", "pitch.onnx", "file_types.onnx"]
# inputs of any size that cannot be of size one
SIZES = {
    "text_detector.onnx": {"DynamicDimension.1": 160, "DynamicDimension.2": 320},
    "text_recogniser.onnx": {"DynamicDimension.1": 160},
    "minilm.onnx": {"sequence_length": 24},
    "gte.onnx": {"sequence_length": 24},
    "file_types.onnx": {"batch": 2},
}
QUANTISED = {"QuantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger", "QLinearConv", "MatMulNBits"}


def doubled(graph):
    """Makes a graph compute in float64."""

    def tensor(t):
        if t.data_type == TensorProto.FLOAT:
            wide = numpy_helper.from_array(numpy_helper.to_array(t).astype(np.float64), t.name)
            t.CopyFrom(wide)

    for t in graph.initializer:
        tensor(t)
    for v in [*graph.input, *graph.output, *graph.value_info]:
        if v.type.tensor_type.elem_type == TensorProto.FLOAT:
            v.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in graph.node:
        for a in node.attribute:
            if a.HasField("t"):
                tensor(a.t)
            if a.HasField("g"):
                doubled(a.g)
            if a.name in ("to", "dtype") and a.i == TensorProto.FLOAT:
                a.i = TensorProto.DOUBLE
        if node.op_type == "ConstantOfShape" and not node.attribute:
            zero = numpy_helper.from_array(np.zeros(1))
            node.attribute.append(onnx.helper.make_attribute("value", zero))


def feed(port, sizes, random):
    dims = [d if isinstance(d, int) else sizes.get(d, 1) for d in port.shape]
    if port.type == "float":
        return random.standard_normal(dims).astype(np.float32)
    if port.type == "bool":
        return np.ones(dims, bool)
    return random.integers(0, 2, dims).astype(port.type)


def errors(path, sizes):
    """The largest errors of frit and of onnxruntime, relative to the largest value of each output."""
    model = onnx.load(path)
    if any(n.op_type in QUANTISED for n in model.graph.node):
        return None
    session = Session(path)
    random = np.random.default_rng(1)
    feeds = {p.name: feed(p, sizes, random) for p in session.inputs if not p.optional}
    ours = session.run(None, feeds)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    theirs = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, feeds)
    doubled(model.graph)
    wide = {n: v.astype(np.float64) if v.dtype == np.float32 else v for n, v in feeds.items()}
    exact = Session(model).run(None, wide)

    def largest(made):
        floats = [(a, b) for a, b in zip(made, exact, strict=True) if b.dtype == np.float64 and b.any()]
        return max(np.abs(a - b).max() / np.abs(b).max() for a, b in floats)

    return largest(ours), largest(theirs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*")
    parser.add_argument("--size", action="append", default=[], help="NAME=N: a size that has a name; 1 unless given")
    options = parser.parse_args()
    given = {name: int(n) for name, n in (s.split("=") for s in options.size)}
    paths = [pathlib.Path(m) for m in options.models]
    if not paths:
        for name in models.fetch(NAMES):
            print(f"{name:40} cannot be fetched here")
        paths = [models.HERE / n for n in NAMES if (models.HERE / n).exists()]
    bad = 0
    print(f"{'model':40} {'frit':>10} {'onnxruntime':>12} {'ratio':>6}")
    for path in paths:
        found = errors(path, SIZES.get(path.name, {}) | given)
        if found is None:
            print(f"{path.name:40} is quantised")
            continue
        ours, theirs = found
        # half a unit in the last place is what storing an output costs
        ratio = ours / max(theirs, 2**-24)
        bad += ratio > 2
        print(f"{path.name:40} {ours:10.2e} {theirs:12.2e} {ratio:6.2f}{'  more than twice' if ratio > 2 else ''}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
