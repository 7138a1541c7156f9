"""Files as tensors: the DISK device."""

import numpy as np
import pytest

from frit import Device, Tensor, dtypes


def floats(path):
    return np.fromfile(path, dtype=np.float32)


def test_a_tensor_moved_to_a_file_is_there_and_comes_back(tmp_path):
    path = tmp_path / "moved"
    there = (Tensor([1.0, 2.0, 3.0]) * 2).to(f"disk:{path}").realize()
    np.testing.assert_equal(floats(path), [2, 4, 6])
    assert there.device == "DISK"
    for moved in (there.to("CPU"), there.to(None), there.cpu()):
        assert moved.device == "CPU"
        assert (moved + 1).tolist() == [3, 5, 7]
    assert there[1:].tolist() == [4, 6] and there.numpy().tolist() == [2, 4, 6]
    assert Tensor(path).bitcast(dtypes.float32).tolist() == [2, 4, 6]
    made = Tensor.arange(3, device=f"disk:{path}", dtype=dtypes.float32)
    assert made.device == "DISK" and floats(path).tolist() == [0, 1, 2]


def test_an_empty_tensor_on_a_file_makes_it_and_shows_what_is_there(tmp_path):
    path = tmp_path / "empty"
    t = Tensor.empty(4, dtype=dtypes.int64, device=f"disk:{path}")
    assert path.stat().st_size == 32
    for i in range(2):
        t[2 * i : 2 * i + 2].assign(np.array([i, 7]))
    assert np.fromfile(path, dtype=np.int64).tolist() == [0, 7, 1, 7]
    # shorter memory on a longer file leaves it as long as it is
    assert Tensor.empty(1, dtype=dtypes.int64, device=f"DISK:{path}").tolist() == [0]
    assert path.stat().st_size == 32
    path.chmod(0o444)
    assert Tensor.empty(32, dtype=dtypes.uint8, device=f"disk:{path}")[8:16].bitcast(dtypes.int64).item() == 7


def test_slices_of_a_file_are_written_as_those_of_an_array(tmp_path):
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    path = tmp_path / "slices"
    t = Tensor(data).to(f"disk:{path}")
    writes = [(slice(0, 1), [[13, 12, 11, 10]]), ((2, slice(1, 3)), 5), ((slice(None), 0), [1, 2, 3]), (1, 9), ((2, 3), -1)]
    for at, value in writes:
        t[at] = value
        data[at] = value
        np.testing.assert_equal(floats(path).reshape(3, 4), data)
        np.testing.assert_equal(t.numpy(), data)
    t.assign(Tensor.zeros(3, 4))
    assert not floats(path).any()


def test_anything_else_on_a_file_says_that_it_has_to_be_moved(tmp_path):
    t = Tensor.ones(3).to(f"disk:{tmp_path / 'else'}")
    for f in (lambda: (t + 1).numpy(), lambda: t.sum().item(), lambda: (t * Tensor([1.0, 2.0, 3.0])).numpy()):
        with pytest.raises(RuntimeError, match=r"DISK only holds bytes: move it with to\(...\)"):
            f()
    assert "DISK" not in Device.get_available_devices() and Device.canonicalize("disk:/A/b") == "DISK:/A/b"
    with pytest.raises(RuntimeError, match="only holds bytes"):
        Device.DEFAULT = "DISK"
    with pytest.raises(RuntimeError, match="disk:/path"):
        Tensor.ones(3).to("DISK")
    with pytest.raises(RuntimeError, match="nowhere"):
        Tensor.empty(3, device=f"disk:{tmp_path / 'nowhere' / 'file'}")
