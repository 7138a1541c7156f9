"""Values by name, in objects and in files."""

import collections
import io
import os
import pickle
import struct
import tarfile
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

from frit import Tensor, TinyJit, dtypes, nn
from frit.nn import state

DATA = Path(__file__).parents[2] / "tests-data"


class Net:
    def __init__(self):
        self.first, self.rest = nn.Linear(2, 3), [nn.Linear(3, 3), {"last": nn.Linear(3, 1, bias=False)}]
        self.name, self.size, self.me = "net", 3, self
        self.jit = TinyJit(self.run)
        self.pair = collections.namedtuple("Pair", "a b")(Tensor([1.0]), 2)

    def run(self, x):
        return x


NAMES = ["first.weight", "first.bias", "rest.0.weight", "rest.0.bias", "rest.1.last.weight", "pair.a"]


def test_names_in_plain_objects():
    net = Net()
    found = state.get_state_dict(net)
    assert list(found) == NAMES and found["rest.0.weight"] is net.rest[0].weight
    assert state.get_parameters(net) == [] or all(a is b for a, b in zip(state.get_parameters(net), found.values()))
    assert list(state.get_state_dict(net.first, "layer")) == ["layer.weight", "layer.bias"]
    assert list(state.get_state_dict(Tensor([1.0]))) == [""]

    class Slots:
        __slots__ = ("w", "unset")

        def __init__(self):
            self.w = Tensor([1.0])

    assert list(state.get_state_dict([Slots()])) == ["0.w"]


def test_loading():
    a, b = Net(), Net()
    loaded = state.load_state_dict(a, state.get_state_dict(b))
    assert len(loaded) == 6 and loaded[0] is a.first.weight
    np.testing.assert_array_equal(a.rest[1]["last"].weight.numpy(), b.rest[1]["last"].weight.numpy())


def test_loading_names_all_that_is_wrong():
    net, other = Net(), state.get_state_dict(Net())
    before = net.rest[0].weight.numpy().copy()
    del other["first.bias"]
    other["pair.a"] = Tensor.zeros(2, 2)
    other["extra"] = Tensor([1.0])
    with pytest.raises(KeyError, match=r"1 missing: first.bias; 1 of another shape: pair.a is \(1,\) here and \(2, 2\)"):
        state.load_state_dict(net, other)
    with pytest.raises(ValueError, match="of another shape"):
        state.load_state_dict(net, other, strict=False)
    np.testing.assert_array_equal(net.rest[0].weight.numpy(), before)
    other["pair.a"] = Tensor(5.0)  # a number for a list of one
    with pytest.warns(UserWarning, match="unused: extra; not loaded: first.bias"):
        state.load_state_dict(net, other, strict=False, consume=True)
    assert list(other) == ["extra"] and net.pair.a.tolist() == [5.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        state.load_state_dict(net, other, strict=False, verbose=False)


def test_safetensors(tmp_path):
    file = tmp_path / "x.safetensors"
    given = {
        "f": Tensor([[1.5, -2.0]]),
        "h": Tensor([1.0, 2.0]).half(),
        "b": Tensor([1.0, 2.0]).bfloat16(),
        "i": Tensor([2**40]),
        "t": Tensor([True, False]),
        "lazy": Tensor.ones(3) * 2,
        "empty": Tensor([]),
    }
    state.safe_save(given, str(file), {"made": "here", "n": 1})
    assert state.safe_load_metadata(file) == {"made": "here", "n": "1"}
    for source in (file, str(file), Tensor(file.read_bytes())):
        got = state.safe_load(source)
        assert set(got) == set(given)
        for name, t in given.items():
            assert got[name].dtype == t.dtype and got[name].shape == t.shape and got[name].tolist() == t.tolist()
    assert state.load(file)["i"].tolist() == [2**40]
    state.safe_save(state.get_state_dict(Net()), file)
    state.load_state_dict(Net(), state.safe_load(file))


def test_bad_files(tmp_path):
    with pytest.raises(FileNotFoundError):
        state.safe_load(tmp_path / "none")
    bad = tmp_path / "bad"
    bad.write_bytes(b"not a file of tensors at all")
    for read in (state.safe_load, state.torch_load, state.gguf_load, state.load):
        with pytest.raises(RuntimeError, match="bad"):
            read(bad)
    with pytest.raises(TypeError):
        state.safe_load(3.5j)
    with pytest.raises((OSError, RuntimeError)):
        state.safe_save({"a": Tensor([1.0])}, tmp_path / "no" / "where")
    with pytest.raises(TypeError):
        state.safe_save({"a": "text"}, tmp_path / "x")


def legacy_zip(tensors):
    """A file as torch.save writes it, of float32 tensors: written without torch."""

    class Storage:
        pass

    class Pickler(pickle._Pickler):
        def persistent_id(self, o):
            return o.key if isinstance(o, Placed) else None

    class Placed:
        def __init__(self, key):
            self.key = key

    class Rebuild:
        def __init__(self, i, a):
            self.args = (Placed(("storage", Name("torch FloatStorage"), str(i), "cpu", a.size)), 0, a.shape)
            self.args += (tuple(s // 4 for s in a.strides), False, collections.OrderedDict())

        def __reduce__(self):
            return Name("torch._utils _rebuild_tensor_v2"), self.args

    class Name:
        def __init__(self, name):
            self.name = name

        def __call__(self):
            pass

    def save_name(p, o):
        p.write(b"c" + o.name.replace(" ", "\n").encode() + b"\n")

    Pickler.dispatch = dict(pickle._Pickler.dispatch)
    Pickler.dispatch[Name] = save_name
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        data = io.BytesIO()
        Pickler(data, 2).dump({k: Rebuild(i, a) for i, (k, a) in enumerate(tensors.items())})
        z.writestr("archive/data.pkl", data.getvalue())
        for i, a in enumerate(tensors.values()):
            z.writestr(f"archive/data/{i}", a.tobytes())
        z.writestr("archive/version", "3\n")
    return out.getvalue()


def test_torch_files(tmp_path):
    given = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.float32([7, 8])}
    file = tmp_path / "model.pth"
    file.write_bytes(legacy_zip(given))
    for got in (state.torch_load(file), state.torch_load(Tensor(file.read_bytes())), state.load(file)):
        assert {k: v.tolist() for k, v in got.items()} == {k: v.tolist() for k, v in given.items()}


def test_gguf(tmp_path):
    text = lambda s: struct.pack("<Q", len(s)) + s.encode()
    meta = text("general.name") + struct.pack("<I", 8) + text("tiny")
    meta += text("n") + struct.pack("<II", 4, 7) + text("list") + struct.pack("<IIQ3i", 9, 5, 3, 1, -2, 3)
    info = text("w") + struct.pack("<IQQIQ", 2, 3, 2, 0, 0)
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 3) + meta + info
    values = np.arange(6, dtype=np.float32)
    file = tmp_path / "x.gguf"
    file.write_bytes(head + bytes(-len(head) % 32) + values.tobytes())
    about, tensors = state.gguf_load(file)
    assert about == {"general.name": "tiny", "n": 7, "list": [1, -2, 3]}
    assert tensors["w"].tolist() == values.reshape(2, 3).tolist()


def test_gguf_in_parts(tmp_path):
    text = lambda s: struct.pack("<Q", len(s)) + s.encode()
    for no in range(2):
        meta = text("split.no") + struct.pack("<IH", 2, no) + text("split.count") + struct.pack("<IH", 2, 2)
        head = b"GGUF" + struct.pack("<IQQ", 3, 1, 2) + meta + text(f"w{no}") + struct.pack("<IQIQ", 1, 2, 0, 0)
        part = tmp_path / f"x-{no + 1:05}-of-00002.gguf"
        part.write_bytes(head + bytes(-len(head) % 32) + np.float32([no, 5]).tobytes())
    about, tensors = state.gguf_load(tmp_path / "x-00001-of-00002.gguf")
    assert about["split.count"] == 2
    assert {k: v.tolist() for k, v in tensors.items()} == {"w0": [0, 5], "w1": [1, 5]}
    with pytest.raises(RuntimeError, match="part 2 of 2: the first is x-00001-of-00002.gguf"):
        state.gguf_load(part)
    part.unlink()
    with pytest.raises(RuntimeError, match="x-00002-of-00002.gguf"):
        state.gguf_load(tmp_path / "x-00001-of-00002.gguf")


def test_archives(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as z:
        z.writestr("in/a", b"abc")
    with tarfile.open(tmp_path / "a.tar", "w") as t:
        info = tarfile.TarInfo("b")
        info.size = 2
        t.addfile(info, io.BytesIO(b"xy"))
    assert state.zip_extract(tmp_path / "a.zip")["in/a"].tolist() == [97, 98, 99]
    assert state.tar_extract(Tensor((tmp_path / "a.tar").read_bytes()))["b"].tolist() == [120, 121]


def test_npz(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.arange(3))
    assert state.load(tmp_path / "x.npz")["a"].tolist() == [0, 1, 2]


def test_data_sets():
    from frit.nn.datasets import mnist

    x_train, y_train, x_test, y_test = mnist()
    assert x_train.shape == (60000, 1, 28, 28) and y_train.shape == (60000,)
    assert x_test.shape == (10000, 1, 28, 28) and y_test.dtype == dtypes.uint8
    assert y_train[:5].tolist() == [5, 0, 4, 1, 9]


def test_a_file_that_becomes_shorter_is_an_error_that_names_it(tmp_path):
    file = tmp_path / "weights.safetensors"
    state.safe_save({"a": Tensor.ones(1 << 18).contiguous(), "b": Tensor.ones(1 << 18).contiguous()}, file)
    got = state.safe_load(file)
    os.truncate(file, 1 << 16)
    for use in (lambda: got["b"].sum().item(), lambda: got["b"].tolist(), lambda: (got["a"] + 1).realize()):
        with pytest.raises(RuntimeError, match="weights.safetensors: the file became shorter"):
            use()
    assert (Tensor.ones(4) + 1).tolist() == [2.0] * 4
