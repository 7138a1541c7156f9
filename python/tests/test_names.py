"""Every name people look for is there, with what makes tensors checked against numpy."""

import hashlib
import inspect
import math
import pickle

import numpy as np
import pytest

from frit import Device, Tensor, dtypes

NAMES = """
empty full zeros ones empty_like full_like zeros_like ones_like arange linspace eye tri triu tril meshgrid one_hot from_blob
from_url manual_seed rand randn randint normal uniform scaled_uniform glorot_uniform kaiming_uniform kaiming_normal randperm
multinomial bernoulli dropout rand_like randn_like reshape view expand permute transpose T flip pad shrink squeeze unsqueeze
flatten unflatten rearrange split chunk stack cat roll repeat repeat_interleave unfold diag diagonal as_strided tile movedim
swapaxes gather scatter scatter_reduce scatter_add index_select index_add index_put masked_fill masked_select nonzero take
where select searchsorted bucketize add sub mul div mod fmod pow eq ne lt le gt ge logical_and logical_or logical_xor
logical_not bitwise_and bitwise_or bitwise_xor bitwise_not lshift rshift maximum minimum clamp clip lerp copysign logaddexp
abs sign ceil floor round trunc sqrt rsqrt reciprocal square exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan
atan2 sinh cosh tanh asinh acosh atanh erf erfc isnan isinf isfinite isclose allclose relu relu6 leaky_relu elu celu selu
gelu quick_gelu silu swish mish softplus softsign sigmoid logsigmoid hardsigmoid hardswish hardtanh sum prod max min mean
var std var_mean std_mean any all logsumexp norm argmax argmin cumsum cumprod cummax cummin logcumsumexp softmax log_softmax
softmin sort argsort topk kthvalue median mode unique bincount histc dot matmul einsum outer bmm linear qr svd cholesky
inverse solve det solve_triangular newton_schulz kron trace conv1d conv2d conv3d conv_transpose1d conv_transpose2d
conv_transpose3d avg_pool2d max_pool2d lp_pool2d adaptive_avg_pool2d adaptive_max_pool2d max_unpool2d interpolate grid_sample
layernorm batchnorm groupnorm instancenorm rmsnorm scaled_dot_product_attention rope embedding cross_entropy nll_loss
sparse_categorical_crossentropy binary_crossentropy binary_crossentropy_logits mse_loss l1_loss smooth_l1_loss huber_loss
kl_div ctc_loss cosine_similarity rfft irfft fft ifft stft istft keccak blake3 cast bitcast float half bfloat16 double int
long short bool realize item tolist numpy data to assign detach contiguous clone gradient backward grad requires_grad
train training sequential
""".split()


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_there_and_documented(name):
    assert (getattr(Tensor, name).__doc__ or "").strip()


def test_help_shows_arguments():
    for name in NAMES:
        f = getattr(Tensor, name)
        if callable(f) and name not in ("train",):
            inspect.signature(f)
    assert "padding=0" in str(inspect.signature(Tensor.conv2d)).replace("'", "")


MADE = {
    "zeros": (lambda: Tensor.zeros(2, 3), np.zeros((2, 3), np.float32)),
    "zeros tuple": (lambda: Tensor.zeros((2, 3), dtype=dtypes.int8), np.zeros((2, 3), np.int8)),
    "ones": (lambda: Tensor.ones(2), np.ones(2, np.float32)),
    "no dims": (lambda: Tensor.ones(()), np.ones((), np.float32)),
    "full": (lambda: Tensor.full((2, 2), 7), np.full((2, 2), 7, np.int32)),
    "full float": (lambda: Tensor.full((2,), 1.5), np.full(2, 1.5, np.float32)),
    "full cast": (lambda: Tensor.full((2,), 1.5, dtype=dtypes.int), np.ones(2, np.int32)),
    "full bool": (lambda: Tensor.full((2,), True), np.ones(2, bool)),
    "arange": (lambda: Tensor.arange(5), np.arange(5, dtype=np.int32)),
    "arange step": (lambda: Tensor.arange(5, 10, 2), np.arange(5, 10, 2, dtype=np.int32)),
    "arange down": (lambda: Tensor.arange(5, 0, -2), np.arange(5, 0, -2, dtype=np.int32)),
    "arange float": (lambda: Tensor.arange(0, 1, 0.25), np.arange(0, 1, 0.25, dtype=np.float32)),
    "linspace": (lambda: Tensor.linspace(5, 10, 3), np.linspace(5, 10, 3, dtype=np.float32)),
    "eye": (lambda: Tensor.eye(2, 3), np.eye(2, 3, dtype=np.float32)),
    "tri": (lambda: Tensor.tri(3, 4, 1), np.tri(3, 4, 1, dtype=np.float32)),
    "like": (lambda: Tensor([[1, 2]]).full_like(4), np.full((1, 2), 4, np.int32)),
    "like of a type": (lambda: Tensor([[1, 2]]).ones_like(dtype="half"), np.ones((1, 2), np.float16)),
    "empty": (lambda: Tensor.empty(0, 3), np.zeros((0, 3), np.float32)),
    "one hot": (lambda: Tensor([2, 0]).one_hot(3), np.eye(3, dtype=np.int32)[[2, 0]]),
    "scalar tensors": (lambda: Tensor([Tensor(1.0), 2.0]), np.array([1, 2], np.float32)),
    "arrays in lists": (lambda: Tensor([np.arange(2), np.arange(2)]), np.array([[0, 1]] * 2, np.int32)),
    "cat": (lambda: Tensor.cat(Tensor([1]), Tensor([2.5])), np.array([1, 2.5], np.float32)),
    "bytes of a type": (lambda: Tensor(b"\x01\x00\x02\x00", dtype=dtypes.int16), np.array([1, 2], np.int16)),
}


@pytest.mark.parametrize("name", MADE)
def test_what_makes_tensors(name):
    make, want = MADE[name]
    got = make().numpy()
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_hashes():
    data = bytes(range(256)) * 3
    t = Tensor(data)
    assert bytes(t.keccak().tolist()) == hashlib.sha3_256(data).digest()
    assert bytes(t.keccak("sha3_512").tolist()) == hashlib.sha3_512(data).digest()
    with pytest.raises(ValueError):
        t.keccak("md5")


def test_files(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(np.arange(4, dtype=np.float32).tobytes())
    assert Tensor(path).bitcast(dtypes.float32).tolist() == [0.0, 1.0, 2.0, 3.0]
    assert Tensor.from_url(path.as_uri()).shape == (16,)
    with pytest.raises(FileNotFoundError):
        Tensor(tmp_path / "nothing")


def test_forms_of_other_libraries():
    x = Tensor([[1.0, 5.0, 3.0], [4.0, 2.0, 6.0]])
    assert x.sum(dim=1).tolist() == x.sum(1).tolist() == x.sum(axis=-1).tolist() == [9.0, 12.0]
    values, places = x.max(dim=1)
    assert values.tolist() == x.max(1).tolist() == [5.0, 6.0] and places.tolist() == [1, 2]
    assert x.clamp(min=2, max=4).tolist() == x.clip(2, 4).tolist()
    assert x.size() == (2, 3) and x.size(0) == 2 and x.dim() == 2 and x.numel() == 6
    assert x.to(dtypes.int).dtype == dtypes.int32 and x.type("half").dtype == x.astype(np.float16).dtype == dtypes.half
    assert x.cpu().device == "CPU" and Device[Device.DEFAULT].synchronize() is None
    y = Tensor.zeros(2, 3)
    assert y.copy_(x.int()).tolist() == x.tolist() and y.fill_(2).sum().item() == 12 and y.zero_().sum().item() == 0
    assert x.view(3, -1).shape == x.reshape((3, None if False else 2)).shape == (3, 2)
    assert Tensor.randint(0, 10, (2, 3)).shape == (2, 3)
    assert math.isclose(float(x.norm()), np.linalg.norm(x.numpy()), rel_tol=1e-6)
    assert [r.tolist() for r in x] == x.tolist() and int(x[0, 1]) == 5


def test_values_and_places_have_names():
    x = Tensor([[1.0, 5.0, 3.0], [4.0, 2.0, 6.0]])
    for got, values, places in [
        (x.max(dim=1), [5.0, 6.0], [1, 2]),
        (x.min(dim=1, keepdim=True), [[1.0], [2.0]], [[0], [1]]),
        (x.sort(), [[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]], [[0, 2, 1], [1, 0, 2]]),
        (x.topk(1), [[5.0], [6.0]], [[1], [2]]),
        (x.kthvalue(2), [3.0, 4.0], [2, 0]),
        (x.median(dim=1), [3.0, 4.0], [2, 0]),
        (x.mode(dim=1), [1.0, 2.0], [0, 1]),
        (x.cummax(1), [[1.0, 5.0, 5.0], [4.0, 4.0, 6.0]], [[0, 1, 1], [0, 0, 2]]),
    ]:
        assert got.values.tolist() == got[0].tolist() == values
        assert got.indices.tolist() == got[1].tolist() == places
        first, second = got
        assert first is got.values and second is got.indices and len(got) == 2
    again = pickle.loads(pickle.dumps(x.max(dim=1)))
    assert again.values.tolist() == [5.0, 6.0] and "indices" in repr(again)
    assert x.max(1).tolist() == x.max(axis=1).tolist() == x.amax(dim=1).tolist() == [5.0, 6.0]


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
@pytest.mark.parametrize("shape", [(6, 3, 2), (1, 5, 1), (4, 1, 7)])
def test_distinct_slices(shape, dim):
    a = np.random.default_rng(1).integers(0, 2, shape)
    want = np.unique(a, return_inverse=True, return_counts=True, axis=dim)
    got = Tensor(a).unique(return_inverse=True, return_counts=True, dim=dim)
    for g, w in zip(got, want):
        np.testing.assert_array_equal(g.numpy(), w.reshape(g.shape))
    assert Tensor.zeros(0, 3).unique(dim=0).shape == (0, 3)
    with pytest.raises(RuntimeError, match="no elements"):
        Tensor.zeros(3, 0).unique(dim=0)
    with pytest.raises(IndexError):
        Tensor(a).unique(dim=3)


@pytest.mark.parametrize("call", [lambda x: x.shard(("CPU:0", "CPU:1")), lambda x: x.custom_kernel(fxn=id), lambda x: x.hash()])
def test_what_is_not_there_says_so(call):
    with pytest.raises(NotImplementedError, match="not there|use keccak"):
        call(Tensor([1.0]))


def test_memory_is_given_back():
    def step():
        a = Tensor(np.ones(1000, np.float32))
        b = (a * 2 + 1).realize()
        memory = [b.numpy(), np.from_dlpack(b), memoryview(b), Tensor.from_numpy(np.ones(10))]
        b.sum().backward()
        return sum(len(m) for m in memory)

    for _ in range(3):
        step()
    before = Device.memory()[0]
    for _ in range(50):
        step()
    assert Device.memory()[0] <= before
