"""CUDA devices through the stand-in for their driver. A process has one driver, so each test is a process of its own."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def stand_in():
    """The library of the stand-in that was built last, if any was."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = [f for p in ("release", "debug") for d in ("", "deps") for f in (target / p / d).glob("libfrit_mock.so")]
    return max(built, key=lambda f: f.stat().st_mtime, default=None)


DRIVER = stand_in()
pytestmark = pytest.mark.skipif(DRIVER is None, reason="no libfrit_mock.so: cargo build -p frit-mock")

PRODUCER = """
import ctypes
import frit
from frit import Tensor

class Producer:
    '''Another library with a tensor of ours: what it says of it can be changed.'''
    def __init__(self, tensor, device=None, move=0):
        self.tensor, self.device, self.move, self.streams = tensor, device, move, []
    def __dlpack_device__(self):
        return self.device or self.tensor.__dlpack_device__()
    def __dlpack__(self, *, stream=None):
        self.streams.append(stream)
        capsule = self.tensor.__dlpack__(stream=stream)
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        ctypes.cast(get(capsule, b"dltensor"), ctypes.POINTER(ctypes.c_uint64))[0] += self.move
        return capsule

def refused(f):
    try:
        f()
    except BufferError as e:
        return str(e)
    raise AssertionError("it was not refused")
"""


def run(code, **env):
    env = {**os.environ, "FRIT_CUDA_DRIVER": str(DRIVER), "FRIT_DEVICE": "CUDA", **env}
    code = PRODUCER + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_tensor_says_where_it_is():
    run("""
        assert Tensor([1.0]).__dlpack_device__() == (2, 0)
        assert Tensor([1.0], device="CPU").__dlpack_device__() == (1, 0)
        assert Tensor([1.0]).to("CUDA:1").__dlpack_device__() == (2, 1)
    """, FRIT_MOCK_DEVICES="2")


def test_memory_goes_out_and_comes_back_without_a_copy():
    run("""
        x = (Tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).reshape(2, 3) * 2).realize()
        in_use = frit._frit.device_memory("CUDA")[0]
        producer = Producer(x)
        y = Tensor.from_dlpack(producer)
        assert frit._frit.device_memory("CUDA")[0] == in_use
        assert y.device == "CUDA" and y.shape == (2, 3), (y.device, y.shape)
        # the producer is told our queue
        assert producer.streams[0] > 2
        assert (y + 1).tolist() == [[3.0, 5.0, 7.0], [9.0, 11.0, 13.0]]
        # what is written to it goes to a copy
        y[0, 0] = 7
        assert y[0, 0].item() == 7 and x[0, 0].item() == 2
        del y
        copy = Tensor.from_dlpack(Producer(x), copy=True)
        del x
        assert copy.sum().item() == 42
    """)


def test_what_is_handed_out_lives_as_long_as_it_is_used():
    run("""
        y = Tensor.from_dlpack(Producer((Tensor.arange(1000.0) + 1).realize()))
        others = [(Tensor.full((1000,), 7.0) + i).realize() for i in range(4)]
        assert y.sum().item() == 500500 and others[0][0].item() == 7
    """, FRIT_MOCK_QUEUE="late")


def test_a_jit_reads_foreign_memory_afresh():
    run("""
        from frit import TinyJit
        x = Tensor([1.0, 2.0]).realize()
        y = Tensor.from_dlpack(Producer(x))
        f = TinyJit(lambda z: (z * y).realize())
        assert [f(Tensor([float(i), 1.0]).realize()).tolist() for i in range(5)] == [[float(i), 2.0] for i in range(5)]
    """)


def test_what_cannot_be_shared_says_why():
    run("""
        x = (Tensor([1.0, 2.0, 3.0, 4.0]) * 1).realize()
        take = Tensor.from_dlpack
        assert "(8, 0)" in refused(lambda: take(Producer(x, device=(8, 0))))
        said = refused(lambda: take(Producer(x, device=(2, 7))))
        assert "CUDA:7" in said, said
        said = refused(lambda: take(Producer(x, move=4)))
        assert "aligned to 16 bytes" in said, said
        assert take(Producer(x, move=4), copy=True).tolist()[:3] == [2.0, 3.0, 4.0]
        said = refused(lambda: take(Producer(x, move=1 << 40)))
        assert "not of this device" in said, said
        assert "stream 0" in refused(lambda: x.__dlpack__(stream=0))
        assert "(2, 1)" in refused(lambda: x.__dlpack__(dl_device=(2, 1)))
        assert "(1, 0)" in refused(lambda: x.__dlpack__(dl_device=(1, 0), copy=False))
        # to the CPU it is copied
        class Here(Producer):
            def __dlpack__(self, *, stream=None):
                return self.tensor.__dlpack__(dl_device=(1, 0))
        assert take(Here(x, device=(1, 0)), device="CPU").tolist() == [1.0, 2.0, 3.0, 4.0]
    """)


def test_a_search_runs_in_a_process_of_its_own(tmp_path):
    said = run("""
        x = Tensor.arange(64 * 96.0).reshape(64, 96).realize()
        assert (x * 2).sum(1)[0].item() == 2 * sum(range(96))
    """, FRIT_BEAM="1", FRIT_BEAM_SECONDS="1", FRIT_MOCK_L2="1048576", FRIT_CACHE=str(tmp_path))  # fmt: skip
    assert said == ""
    assert any((tmp_path / "tuned").iterdir())


# not those that are about the host: memory shared with numpy, forks, files
FILES = ["jit", "function", "forms", "symbolic", "gradients", "optim", "nn", "state", "programs"]


@pytest.mark.parametrize("name", FILES)
def test_what_is_tested_on_the_cpu_holds(name):
    env = {**os.environ, "FRIT_CUDA_DRIVER": str(DRIVER), "FRIT_DEVICE": "CUDA"}
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", str(Path(__file__).with_name(f"test_{name}.py"))]
    done = subprocess.run([sys.executable, *words], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
