"""The object itself: making, reading, exceptions, memory."""

import gc
import pickle

import numpy as np
import pytest

from frit import Device, Tensor, Variable, dtypes


def test_lists_numbers_and_their_types():
    assert Tensor([[1, 2], [3, 4]]).dtype == dtypes.int32
    assert Tensor([1.0, 2]).dtype == dtypes.float32
    assert Tensor([True, False]).dtype == dtypes.bool
    assert Tensor([2**40]).dtype == dtypes.int64
    assert Tensor(3).shape == () and Tensor(3).item() == 3
    assert Tensor([]).shape == (0,) and Tensor([]).dtype == dtypes.float32
    assert Tensor([[1, 2], [3, 4]], dtype="half").tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert Tensor([1.7, -1.7], dtype=dtypes.int).tolist() == [1, -1]
    assert Tensor(np.float64(2.5)).dtype == dtypes.float32 or Tensor(np.float64(2.5)).dtype == dtypes.float64
    assert Tensor(b"abc").tolist() == [97, 98, 99]


def test_default_types_can_be_set():
    try:
        dtypes.default_float = dtypes.float16
        assert Tensor([1.0]).dtype == Tensor.zeros(2).dtype == Tensor.rand(2).dtype == dtypes.half
        with pytest.raises(ValueError):
            dtypes.default_float = dtypes.int
    finally:
        dtypes.default_float = dtypes.float32
    assert Tensor([1.0]).dtype == dtypes.float


@pytest.mark.parametrize(
    "error, call",
    [
        (RuntimeError, lambda x: x + Tensor([1.0, 2.0, 3.0])),
        (RuntimeError, lambda x: x.reshape(3)),
        (RuntimeError, lambda x: x @ Tensor([1.0, 2.0, 3.0])),
        (RuntimeError, lambda x: x.item()),
        (RuntimeError, lambda x: bool(x)),
        (RuntimeError, lambda x: x << 1),
        (RuntimeError, lambda x: Tensor(2**80)),
        (RuntimeError, lambda x: Tensor([300], dtype=dtypes.uint8)),
        (RuntimeError, lambda x: x.assign(Tensor([1, 2, 3]))),
        (IndexError, lambda x: x.sum(5)),
        (IndexError, lambda x: x[7]),
        (IndexError, lambda x: x[0, 0, 0]),
        (IndexError, lambda x: x[1.5]),
        (IndexError, lambda x: x[float("nan")]),
        (IndexError, lambda x: x[Tensor([0.5])]),
        (IndexError, lambda x: x[..., ...]),
        (IndexError, lambda x: x.size(4)),
        (IndexError, lambda x: x[Tensor([0, 7])].tolist()),
        (ValueError, lambda x: Tensor([[1], [2, 3]])),
        (ValueError, lambda x: Tensor([1, [2]])),
        (ValueError, lambda x: x[::0]),
        (ValueError, lambda x: x.cross_entropy(Tensor([0, 1]), reduction="most")),
        (ValueError, lambda x: x.cast("float31")),
        (TypeError, lambda x: x + "a"),
        (TypeError, lambda x: x + [1.0, 2.0]),
        (TypeError, lambda x: x.reshape("a")),
        (TypeError, lambda x: x.relu(1)),
        (TypeError, lambda x: x.sum(axis=1.5)),
        (TypeError, lambda x: Tensor("a")),
        (TypeError, lambda x: Tensor([object()])),
        (TypeError, lambda x: x.matmul(3)),
        (TypeError, lambda x: len(Tensor(1))),
        (TypeError, lambda x: Tensor(np.array(["a"]))),
        (TypeError, lambda x: Tensor(np.array([1j]))),
        (TypeError, lambda x: x["a":]),
    ],
)
def test_a_wrong_call_raises_where_it_is_made(error, call):
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(error):
        call(x)
    assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_messages_name_shapes_and_types():
    with pytest.raises(RuntimeError, match=r"\[2, 2\] and \[3\]"):
        Tensor.ones(2, 2) + Tensor.ones(3)
    with pytest.raises(RuntimeError, match="float32"):
        Tensor.ones(2) & 1
    with pytest.raises(RuntimeError, match="float32 values do not go into an int32 tensor"):
        x = Tensor([1, 2])
        x += 0.5


def test_numpy_shares_memory_and_never_changes():
    t = Tensor([1.0, 2.0, 3.0])
    a, b = t.numpy(), t.numpy()
    assert a.ctypes.data == b.ctypes.data and not a.flags.writeable
    t += 1
    t[0] = 9.0
    t.realize()
    assert a.tolist() == [1.0, 2.0, 3.0] and t.tolist() == [9.0, 3.0, 4.0]
    del t
    gc.collect()
    assert a.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("dtype", "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split())
def test_arrays_of_every_type_go_both_ways(dtype):
    a = np.arange(6).reshape(2, 3).astype(dtype)
    t = Tensor(a)
    assert str(t.numpy().dtype) == dtype and (t.numpy() == a).all()
    assert (Tensor(a.T).numpy() == a.T).all() and (Tensor(a[:, ::-2]).numpy() == a[:, ::-2]).all()
    assert (np.asarray(t) == a).all() and np.array(t).flags.writeable
    assert memoryview(t).shape == t.data().shape == (2, 3) and t.tobytes() == a.tobytes()
    assert pickle.loads(pickle.dumps(t)).numpy().tolist() == a.tolist()


def test_an_array_is_copied_unless_shared():
    a = np.ones(4, dtype=np.float32)
    copied, shared = Tensor(a), Tensor.from_numpy(a)
    a[0] = 5
    assert copied.tolist() == [1, 1, 1, 1] and shared.tolist() == [5, 1, 1, 1]
    shared[1] = 7
    assert shared.realize().tolist() == [5, 7, 1, 1] and a.tolist() == [5, 1, 1, 1]


def test_small_floats_come_as_float32():
    t = Tensor([1.5, -2.0, 448.0])
    for d in (dtypes.bfloat16, dtypes.fp8e4m3, dtypes.fp8e5m2):
        assert t.cast(d).numpy().dtype == np.float32
    assert t.bfloat16().tolist() == [1.5, -2.0, 448.0]
    with pytest.raises(BufferError):
        memoryview(t.bfloat16())


    assert np.asarray(t.bfloat16()).tolist() == [1.5, -2.0, 448.0] and np.array(t.half()).dtype == np.float16


def test_numbers_keep_the_tensors_type():
    assert (Tensor([1, 2], dtype="int8") + 3).dtype == dtypes.int8
    assert (3 - Tensor([1, 2], dtype="int8")).dtype == dtypes.int8
    assert (Tensor([1, 2]) + 0.5).dtype == dtypes.float32
    assert (2 ** Tensor([1, 2])).tolist() == [2, 4]
    assert (7 // Tensor([2, -2])).tolist() == [3, -4] and (7 % Tensor([4])).tolist() == [3]
    assert (np.float32(2) * Tensor([1.0])).tolist() == [2.0]
    assert (np.ones(2, dtype=np.float32) + Tensor([1.0, 2.0])).tolist() == [2.0, 3.0]


def test_variables_are_sizes():
    n = Variable("n", 1, 10).bind(3)
    x = Tensor.arange(10)[:n]
    assert x.shape[0] == 3 and int(x.shape[0]) == 3 and x.sum().item() == 3
    with pytest.raises(RuntimeError):
        Variable("n", 1, 10).bind(11)
    even = Variable("even", 0, 10, multiple_of=2)
    assert even.bind(4) == 4
    with pytest.raises(RuntimeError, match="not a multiple of 2"):
        even.bind(3)


def test_parts_of_what_has_a_variable_size():
    n = Variable("n", 4, 10).bind(6)
    x, plain = Tensor.arange(10)[:n], list(range(6))
    for part in (slice(2), slice(1, None), slice(1, 3), slice(-2, None), slice(None, -1), slice(0, 4)):
        assert x[part].tolist() == plain[part], part
    assert x[0].item() == 0 and x[-1].item() == 5
    assert Tensor.arange(20).reshape(2, 10)[:, :n][1, 1:3].tolist() == [11, 12]
    assert x[:5].tolist() == plain[:5] and x[2:9].tolist() == plain[2:9]  # n may be 4


def test_a_device_can_be_named():
    assert Device.DEFAULT == "CPU" and "INTERP" in list(Device.get_available_devices())
    x = Tensor([1.0, 2.0], device="INTERP")
    assert x.device == "INTERP" and (x + 1).tolist() == [2.0, 3.0]
    assert x.to("CPU").device == "CPU"
    with pytest.raises(RuntimeError):
        Tensor([1.0], device="NOWHERE")
    with pytest.raises(RuntimeError):
        x + Tensor([1.0, 2.0]).realize()


def test_the_default_device_can_be_set():
    try:
        Device.DEFAULT = "INTERP"
        x = Tensor.ones(2) + 1
        assert x.device == x.realize().device == Tensor([1.0]).device == "INTERP" and x.tolist() == [2.0, 2.0]
        with pytest.raises(RuntimeError):
            Device.DEFAULT = "NOWHERE"
        assert Device.DEFAULT == "INTERP"
    finally:
        Device.DEFAULT = None
    assert Tensor.ones(2).device == "CPU"


def test_printing():
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    assert repr(x).startswith("Tensor([[1. 2.]") and "float32" in repr(x)
    assert f"{Tensor(1.5):.2f}" == "1.50" and "<pre>" in x._repr_html_()
    assert "conv" in Tensor.conv2d.__doc__.lower() and "stride" in Tensor.conv2d.__text_signature__


def test_the_device_is_usable_after_an_error():
    x = Tensor([1.0, 2.0]).realize()
    wrong = x[Tensor([0, 7])]
    for _ in range(2):
        with pytest.raises(IndexError, match="out of range"):
            wrong.tolist()
        assert (x * 2).tolist() == [2.0, 4.0]
    written = Tensor.zeros(4).contiguous().realize()
    with pytest.raises(IndexError):
        written[Tensor([1, 9])] = 5.0
        written.realize()
    assert (x + 1).tolist() == [2.0, 3.0]
    with pytest.raises((RuntimeError, MemoryError)):
        Tensor.ones(1 << 45).contiguous().realize()
    assert (x + 1).tolist() == [2.0, 3.0]
    if "CUDA" not in Device.get_available_devices():
        with pytest.raises(RuntimeError, match="CUDA"):
            Tensor([1.0], device="CUDA").realize()
    assert x.sum().item() == 3.0


def test_sizes_and_numbers_that_cannot_be():
    with pytest.raises(RuntimeError):
        Tensor.zeros(2**62, 2**62)
    with pytest.raises(RuntimeError):
        Tensor.zeros(10**30)
    with pytest.raises(RuntimeError):
        Tensor([1, 10**30])
    with pytest.raises((RuntimeError, TypeError)):
        Tensor([1.0]) + 10**330
    with pytest.raises(RuntimeError, match="64 bits"):
        Tensor([1.0]).add(10**330)
    with pytest.raises(IndexError):
        Tensor([1.0])[2**70]
    assert Tensor([1.0, 2.0])[: 2**70].tolist() == [1.0, 2.0]
    for bad in (float("nan"), Tensor([float("nan")]), np.array([np.nan])):
        with pytest.raises(IndexError):
            Tensor([1.0, 2.0])[bad]
