"""Programs written as ONNX models: valid for the onnx package, and the same numbers in onnxruntime."""

import pathlib
from collections import Counter

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from frit import Tensor, Variable, nn  # noqa: E402
from frit.onnx import Session, export  # noqa: E402


def checked(fn, inputs, **options):
    """The operators of a model of ``fn``, after it was run everywhere and compared."""
    model = export(fn, inputs, **options)
    onnx.checker.check_model(model, full_check=True)
    arrays = [x.numpy() for x in inputs]
    wanted = fn(*inputs)
    wanted = [y.numpy() for y in (wanted if isinstance(wanted, (list, tuple)) else [wanted])]
    session = Session(model)
    names = [p.name for p in session.inputs]
    runs = [session.run(None, dict(zip(names, arrays)))]
    try:
        import onnxruntime
    except ImportError:
        print("onnxruntime is not here: not compared with it")
    else:
        other = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        runs.append(other.run(None, dict(zip(names, arrays))))
    for made in runs:
        for got, want in zip(made, wanted, strict=True):
            assert got.shape == want.shape and got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    return Counter(n.op_type for n in onnx.load_from_string(model).graph.node)


class Block:
    def __init__(self, n, m, stride=1):
        self.conv1 = nn.Conv2d(n, m, 3, stride=stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(m, m, 3, padding=1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(m), nn.BatchNorm2d(m)
        self.down = None
        if stride != 1 or n != m:
            self.down = [nn.Conv2d(n, m, 1, stride=stride, bias=False), nn.BatchNorm2d(m)]

    def __call__(self, x):
        y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        return (y + (x.sequential(self.down) if self.down else x)).relu()


class ResNet18:
    def __init__(self, width=8):
        w = width
        self.conv, self.bn = nn.Conv2d(3, w, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(w)
        self.blocks = [Block(w, w), Block(w, w)]
        for i in range(3):
            self.blocks += [Block(w << i, w << i + 1, 2), Block(w << i + 1, w << i + 1)]
        self.fc = nn.Linear(w << 3, 10)

    def __call__(self, x):
        x = self.bn(self.conv(x)).relu().max_pool2d((3, 3), stride=2, padding=1)
        return self.fc(x.sequential(self.blocks).mean((2, 3)))


def test_a_resnet_has_its_convolutions():
    Tensor.manual_seed(3)
    net = ResNet18()
    made = checked(net, [Tensor.rand(2, 3, 32, 32)])
    names = ("Conv", "BatchNormalization", "Relu", "MaxPool", "MatMul")
    assert tuple(made[n] for n in names) == (20, 20, 17, 1, 1)


def test_a_transformer_has_its_attention():
    Tensor.manual_seed(4)
    w = [Tensor.randn(16, 16).realize() for _ in range(4)]
    ln, ffn = nn.LayerNorm(16), nn.Linear(16, 16)

    def layer(x):
        heads = [(ln(x) @ m).reshape(2, 5, 4, 4).transpose(1, 2) for m in w[:3]]
        a = heads[0].scaled_dot_product_attention(heads[1], heads[2], is_causal=True)
        x = x + a.transpose(1, 2).reshape(2, 5, 16) @ w[3]
        return (x + ffn(ln(x)).gelu()).log_softmax(-1)

    made = checked(layer, [Tensor.randn(2, 5, 16).realize()])
    assert (made["Attention"], made["LayerNormalization"], made["LogSoftmax"], made["MatMul"]) == (1, 2, 1, 5)


@pytest.mark.parametrize("opset", [18, 21, 23])
def test_every_opset_is_valid(opset):
    Tensor.manual_seed(5)
    norm, w = nn.GroupNorm(2, 4), Tensor.randn(4, 4, 3, 3).realize()

    def f(x):
        y = norm(x.conv2d(w, padding=1)).avg_pool2d((2, 2))
        return y.scaled_dot_product_attention(y, y), y.conv_transpose2d(w, stride=2), y.cumsum(1), *y.sort(-1)

    checked(f, [Tensor.randn(2, 4, 8, 8).realize()], opset=opset)


def test_names_and_sizes(tmp_path):
    n = Variable("n", 1, 8).bind(3)
    path = tmp_path / "m.onnx"
    w = Tensor.randn(4, 2).realize()
    x = Tensor.ones(8, 4).realize()[:n]
    export(lambda x: {"y": (x @ w).relu()}, {"x": x}, path, output_names=["y"])
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert [d.dim_param or d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim] == ["n", 4]
    for rows in (1, 7):
        v = np.random.rand(rows, 4).astype(np.float32)
        np.testing.assert_allclose(Session(path).run(["y"], {"x": v})[0], np.maximum(v @ w.numpy(), 0), rtol=1e-5)


def test_what_needs_numbers_is_an_error():
    with pytest.raises(RuntimeError):
        export(lambda x: x * x.sum().item(), Tensor.ones(3))
    with pytest.raises(ZeroDivisionError):
        export(lambda x: 1 // 0, Tensor.ones(3))


def test_steps_of_a_recurrent_net_are_written_out():
    Tensor.manual_seed(6)
    net = nn.LSTM(3, 5)
    made = checked(lambda x: net(x)[0], [Tensor.randn(4, 2, 3).realize()])
    # the state before the first step is known, and so is its product
    assert (made["Sigmoid"], made["MatMul"], made["Concat"]) == (12, 7, 1), made


def test_a_loop_that_rust_wrote_is_valid_and_the_same_elsewhere():
    model = (pathlib.Path(__file__).parents[2] / "tests-data" / "exported_loop.onnx").read_bytes()
    onnx.checker.check_model(model, full_check=True)
    assert Counter(n.op_type for n in onnx.load_from_string(model).graph.node)["Loop"] == 1
    rng = np.random.default_rng(3)
    session = Session(model)
    feeds = {p.name: rng.standard_normal(p.shape).astype(np.float32) for p in session.inputs}
    made = session.run(None, feeds)
    # the recurrence itself
    (x, w), state = feeds.values(), np.zeros(3, np.float32)
    for row in x:
        before, state = state, np.tanh(state @ w + row)
    np.testing.assert_allclose(made[0], state, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(made[1], before, rtol=1e-4, atol=1e-5)
    onnxruntime = pytest.importorskip("onnxruntime")
    other = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feeds)
    for got, want in zip(made, other, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
