"""Memory of a real GPU shared with torch, both ways and without a copy. `python python/tests/test_cuda_torch.py` runs
them where there is no pytest."""

import sys

try:
    import pytest
except ImportError:
    pytest = None
try:
    import torch
except ImportError:
    torch = None

from frit import Tensor, dtypes

if pytest is not None:
    pytestmark = pytest.mark.skipif(
        torch is None or not torch.cuda.is_available(), reason="no torch with a GPU"
    )


def test_what_torch_made_is_read_where_it_is():
    theirs = torch.arange(12, dtype=torch.float32, device="cuda").reshape(3, 4)
    ours = Tensor.from_dlpack(theirs)
    assert ours.device.startswith("CUDA") and ours.shape == (3, 4)
    assert (ours * 2).tolist() == (theirs * 2).tolist()
    theirs += 1
    torch.cuda.synchronize()
    assert ours.tolist() == theirs.tolist()  # the same memory: a store of theirs is seen


def test_what_frit_made_is_read_where_it_is():
    ours = (Tensor.arange(12, device="CUDA").cast("float32").reshape(3, 4) + 1).realize()
    theirs = torch.from_dlpack(ours)
    assert theirs.is_cuda and theirs.shape == (3, 4)
    assert theirs.tolist() == ours.tolist()
    theirs.mul_(3)
    torch.cuda.synchronize()
    assert ours.tolist() == theirs.tolist()


def test_work_that_is_still_queued_is_waited_for():
    x = torch.randn(4096, 4096, device="cuda")
    for _ in range(20):
        x = x @ x * 1e-2
    assert abs(Tensor.from_dlpack(x).sum().item() - x.double().sum().item()) <= 1e-4 * x.abs().double().sum().item()
    y = Tensor.rand(4096, 4096, device="CUDA")
    for _ in range(5):
        y = (y @ y * 1e-3).realize()
    theirs = torch.from_dlpack(y).double().sum().item()
    assert abs(y.cast("float64").sum().item() - theirs) <= 1e-6 * abs(theirs)


def test_every_type_that_both_have():
    for name in ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]:
        theirs = (torch.arange(64, device="cuda") % 2).to(getattr(torch, name))
        ours = Tensor.from_dlpack(theirs)
        assert ours.dtype == getattr(dtypes, name) and ours.tolist() == theirs.tolist(), name
        assert torch.from_dlpack(ours.clone().realize()).tolist() == theirs.tolist(), name


def test_strided_memory_is_refused_and_says_what_to_do():
    try:
        Tensor.from_dlpack(torch.zeros(6, 8, device="cuda").T)
    except BufferError as e:
        assert "contiguous" in str(e)
    else:
        raise AssertionError("it was taken")


if __name__ == "__main__":
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print(name, "ok")
    sys.exit(0)
