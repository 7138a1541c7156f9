"""Arguments as programs write them: by name, loosely, of other types; and what is refused."""

import os
import subprocess
import sys

import pytest

from frit import Context, Tensor, dtypes, nn
from frit.nn.optim import SGD, Adam


def test_sizes_and_axes_by_name():
    x = Tensor.arange(6).reshape(shape=(2, 3))
    assert x.shape == (2, 3) and x.view(shape=(3, 2)).shape == (3, 2)
    assert x.permute(order=(1, 0)).shape == (3, 2) and x.flip(axis=0).tolist() == [[3, 4, 5], [0, 1, 2]]
    assert x.flip(axis=(0, 1)).tolist() == [[5, 4, 3], [2, 1, 0]]
    assert x.repeat(repeats=(2, 1)).shape == (4, 3) and Tensor.ones(1, 3).expand(shape=(2, 3)).shape == (2, 3)
    assert x.shrink_to(shape=(1, 2)).shape == (1, 2) and x.pad_to(shape=(3, 3)).shape == (3, 3)
    with pytest.raises(TypeError):
        x.reshape(3, 2, shape=(2, 3))


def test_flags_are_whatever_is_true():
    x = Tensor.ones(2, 3)
    assert x.sum(0, keepdim=1).shape == (1, 3) and x.mean(1, keepdim=0).shape == (2,)
    assert x.argmax(0, keepdim=1).shape == (1, 3) and x.sort(descending=1)[0].shape == (2, 3)


def test_default_types_from_contexts():
    assert Tensor([1.0]).dtype == dtypes.float32
    with Context(DEFAULT_FLOAT="half", DEFAULT_INT="int64"):
        assert Tensor([1.0]).dtype == Tensor.ones(2).dtype == Tensor.rand(2).dtype == dtypes.float16
        assert Tensor.full((2,), 2.0).dtype == (Tensor([1, 2]) / 2).dtype == dtypes.float16
        assert Tensor([1]).dtype == Tensor.arange(3).dtype == dtypes.int64
    assert Tensor([1.0]).dtype == dtypes.float32 and Tensor([1]).dtype == dtypes.int32
    with pytest.raises((ValueError, TypeError)):
        with Context(DEFAULT_FLOAT="int32"):
            pass


@pytest.mark.parametrize("name", ["DEFAULT_FLOAT", "FRIT_DEFAULT_FLOAT"])
def test_default_types_from_the_environment(name):
    code = "from frit import Tensor; print(Tensor([1.0]).dtype)"
    run = lambda v: subprocess.run([sys.executable, "-c", code], env={**os.environ, name: v}, capture_output=True, text=True)
    assert "half" in run("HALF").stdout
    assert name.removeprefix("FRIT_") in run("nonsense").stderr


def test_gradients_of_what_it_does_not_depend_on_are_zeros():
    x, y = Tensor([1.0, 2.0]), Tensor([3.0, -4.0])
    assert (x**0).sum().gradient(x)[0].tolist() == [0.0, 0.0]
    assert [g.tolist() for g in x.copysign(y).sum().gradient(x, y)] == [[1.0, -1.0], [0.0, 0.0]]
    assert x.sum().gradient(y)[0].tolist() == [0.0, 0.0]
    empty = Tensor.empty(0)
    assert Tensor.cat(empty, x).sum().gradient(empty, x)[0].shape == (0,)


def test_scalars_have_an_axis():
    t = Tensor(3.0)
    for r in (t.sum(0), t.mean(-1), t.max(0), t.min(0), t.squeeze(0), t.cumsum(0), t.flip(0), t.logsumexp(0)):
        assert r.shape == () and r.item() == 3.0
    assert t.argmax(0).item() == 0 and t.softmax(-1).item() == 1.0
    with pytest.raises(IndexError):
        t.sum(1)


def test_types_of_results():
    a = Tensor([[100, 2], [3, 4]], dtype=dtypes.int8)
    assert (a @ a).dtype == dtypes.int8 and (a @ a).tolist()[0][0] == (100 * 100 + 6 + 128) % 256 - 128
    pixels = Tensor([[[[0, 255], [100, 7]]]], dtype=dtypes.uint8)
    big = pixels.interpolate((3, 3))
    assert big.dtype == dtypes.uint8 and big.tolist()[0][0] == [[0, 128, 255], [50, 91, 131], [100, 54, 7]]
    assert Tensor([-1], dtype=dtypes.uint8).tolist() == Tensor.full((1,), -1, dtype=dtypes.uint8).tolist() == [255]
    assert (Tensor([1], dtype=dtypes.int32) | 0xFFFFFFFF).tolist() == [-1]
    assert (Tensor([1], dtype=dtypes.int32) * 10**13).tolist() == [1316134912]
    assert Tensor([500.0, -500.0]).cast("fp8e4m3").tolist() == [448.0, -448.0]
    mask = Tensor([True, False])
    assert mask.masked_fill(mask, 1).dtype == dtypes.bool


def test_bytes_in_lists_are_rows():
    assert Tensor([b"ab", b"cd"]).tolist() == [[97, 98], [99, 100]]


def test_adam_says_its_powers():
    w = Tensor.ones(2)
    w.requires_grad = True
    o = Adam([w], b1=0.5)
    w.square().sum().backward()
    with Tensor.train():
        o.step()
        o.step()
    assert o.b1_t.tolist() == [0.25]


def test_indices():
    x = Tensor.arange(12).reshape(3, 4)
    assert x[[slice(None), [1, 3]]].tolist() == [[1, 3], [5, 7], [9, 11]]
    assert x[Tensor([-1])].tolist() == [[8, 9, 10, 11]]
    for bad in (
        lambda: x[Tensor([True, False])].tolist(),
        lambda: Tensor.empty(10, 0)[:, [0, 1]].realize(),
        lambda: Tensor.arange(3)[Tensor([5])].tolist(),
        lambda: Tensor.ones(3).gather(0, Tensor([3])).tolist(),
        lambda: nn.Embedding(4, 2)(Tensor([-1])).tolist(),
    ):
        with pytest.raises(IndexError):
            bad()
    assert Tensor.ones(3, 4).unfold(1, 0, 8).shape == (3, 1, 0)


def test_what_cannot_be_is_refused_with_an_error_of_its_kind():
    x = Tensor.ones(3)
    for bad in (
        lambda: x.topk(-1), lambda: x.kthvalue(-1), lambda: x.chunk(-1), lambda: x.repeat(-1),
        lambda: x.repeat_interleave(-1), lambda: x.tensor_split(10**12), lambda: Tensor.eye(-1),
        lambda: Tensor.normal(2, std=-1), lambda: Tensor.uniform(2, low=1, high=0),
        lambda: Tensor.linspace(0, 1, 3, dtype=dtypes.bool), lambda: list(Tensor.ones(1).expand(10**9)),
        lambda: Tensor.ones(1).expand(10**10).unbind(0), lambda: x.pad((1 << 62, 1 << 62)),
        lambda: x.reshape(*([1] * 302), 3), lambda: Tensor.ones(1).expand(1 << 40, 1 << 40),
    ):  # fmt: skip
        with pytest.raises((RuntimeError, ValueError)):
            bad()
    with pytest.raises(ValueError):
        SGD([Tensor.ones(2)], lr=-1)
    with pytest.raises(RuntimeError) as e:
        Tensor.ones(2, device="x" * 10_000_000)
    assert len(str(e.value)) < 300


def test_lists_of_more_than_memory_holds_are_errors():
    # on the CPU: the stand-in for a GPU has its memory in the process that is short of it
    code = (
        "import resource; from frit import Tensor; x = Tensor.ones(1 << 24, device='CPU').contiguous().realize(); "
        "resource.setrlimit(resource.RLIMIT_AS, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + (300 << 20),) * 2)\n"
        "try: x.tolist()\nexcept MemoryError: print('no room')"
    )
    r = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert r.returncode == 0, r.stderr


def test_scalars_count_as_rows_of_one():
    x = Tensor(3.0)
    assert x.transpose(0, -1).item() == 3.0 and x.gather(0, Tensor(0)).shape == ()
    assert x.index_select(0, Tensor([0])).item() == 3.0 and x.unfold(0, 1, 1).tolist() == [3.0]
    with pytest.raises(IndexError):
        x.transpose(0, 1)


def test_an_index_into_nothing_is_an_error_at_once():
    for read in (lambda: Tensor.empty(10, 0)[:, [0, 1]], lambda: Tensor.empty(0).gather(0, Tensor([0]))):
        with pytest.raises(IndexError, match="axis of size 0"):
            read()
    assert Tensor.empty(3, 0)[:, Tensor([], dtype="int32")].shape == (3, 0)


def test_interpolate_keeps_the_type_of_integers():
    x = Tensor([[[[0, 10], [20, 255]]]], dtype=dtypes.uint8)
    for mode in ["linear", "nearest"]:
        assert x.interpolate((4, 4), mode=mode).dtype == dtypes.uint8
    assert x.interpolate((4, 4)).tolist()[0][0][0] == [0, 3, 8, 10]
