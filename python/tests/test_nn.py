"""Layers: their values against formulas written in numpy, their state, what they refuse."""

import math

import numpy as np
import pytest

from frit import Context, Tensor, dtypes, nn
from frit.nn.state import get_parameters, get_state_dict


def array(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def close(a, b, tol=2e-5):
    np.testing.assert_allclose(a.numpy() if isinstance(a, Tensor) else a, b, atol=tol, rtol=tol)


def test_linear():
    layer, x = nn.Linear(3, 4), array(2, 5, 3)
    close(layer(Tensor(x)), x @ layer.weight.numpy().T + layer.bias.numpy())
    assert nn.Linear(3, 4, bias=False).bias is None
    bound = 1 / math.sqrt(300)
    w = nn.Linear(300, 50).weight.numpy()
    assert -bound <= w.min() < -0.9 * bound and 0.9 * bound < w.max() <= bound


def test_bilinear():
    layer, a, b = nn.Bilinear(3, 4, 2), array(5, 3), array(5, 4, seed=1)
    close(layer(Tensor(a), Tensor(b)), np.einsum("ni,oij,nj->no", a, layer.weight.numpy(), b) + layer.bias.numpy())


def test_convolutions_of_one_pixel_are_linear():
    layer, x = nn.Conv2d(6, 4, 1, groups=2), array(2, 6, 3, 3)
    w = layer.weight.numpy()[:, :, 0, 0]
    halves = [np.einsum("nchw,oc->nohw", x[:, 3 * g : 3 * g + 3], w[2 * g : 2 * g + 2]) for g in range(2)]
    close(layer(Tensor(x)), np.concatenate(halves, 1) + layer.bias.numpy()[:, None, None])


@pytest.mark.parametrize(
    "layer, given, expected",
    [
        (nn.Conv1d(3, 4, 3), (2, 3, 8), (2, 4, 6)),
        (nn.Conv2d(3, 4, 3, stride=2, padding=1), (2, 3, 8, 8), (2, 4, 4, 4)),
        (nn.Conv2d(3, 4, (3, 5), padding="same"), (2, 3, 8, 8), (2, 4, 8, 8)),
        (nn.Conv2d(3, 4, (2, 4), padding="SAME", dilation=2), (2, 3, 8, 8), (2, 4, 8, 8)),
        (nn.Conv2d(3, 4, 3, padding="valid"), (2, 3, 8, 8), (2, 4, 6, 6)),
        (nn.Conv3d(2, 3, 2), (1, 2, 4, 4, 4), (1, 3, 3, 3, 3)),
        (nn.ConvTranspose1d(3, 4, 3, stride=2), (2, 3, 4), (2, 4, 9)),
        (nn.ConvTranspose2d(4, 2, 3, stride=2, output_padding=1), (1, 4, 4, 4), (1, 2, 10, 10)),
        (nn.ConvTranspose2d(4, 6, 3, groups=2), (1, 4, 4, 4), (1, 6, 6, 6)),
        (nn.Embedding(7, 5), None, (3, 2, 5)),
    ],
)
def test_shapes(layer, given, expected):
    x = Tensor.zeros(*given) if given else Tensor([[1, 2], [3, 4], [5, 6]])
    assert layer(x).shape == expected


def test_transposed_convolution_is_the_gradient_of_a_convolution():
    x, y = Tensor(array(1, 3, 6, 6)), Tensor(array(1, 4, 4, 4, seed=1))
    layer = nn.ConvTranspose2d(4, 3, 3, bias=False)
    gradient = (x.conv2d(layer.weight) * y).sum().gradient(x)[0]
    close(layer(y), gradient.numpy())


def test_embedding_picks_rows():
    layer = nn.Embedding(10, 4)
    close(layer(Tensor([[1, 9], [0, 1]])), layer.weight.numpy()[[[1, 9], [0, 1]]])
    with pytest.raises(IndexError):
        layer(Tensor([10])).numpy()


def test_norms():
    x = array(4, 6, 5, 5)

    def norm(v, axes, eps=1e-5):
        return (v - v.mean(axes, keepdims=True)) / np.sqrt(v.var(axes, keepdims=True) + eps)

    close(nn.LayerNorm(5)(Tensor(x)), norm(x, -1))
    close(nn.LayerNorm((5, 5))(Tensor(x)), norm(x, (-1, -2)))
    close(nn.LayerNorm2d(6)(Tensor(x)), norm(x, 1))
    close(nn.InstanceNorm(6)(Tensor(x)), norm(x, (2, 3)))
    close(nn.GroupNorm(3, 6)(Tensor(x)), norm(x.reshape(4, 3, -1), -1).reshape(x.shape))
    close(nn.RMSNorm(5)(Tensor(x)), x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6))
    assert nn.RMSNorm(5)(Tensor(x).half()).dtype == dtypes.half or nn.RMSNorm(5, elementwise_affine=False)(
        Tensor(x).half()
    ).dtype == dtypes.half
    with pytest.raises(RuntimeError, match=r"\(5,\) must be \(4,\)"):
        nn.LayerNorm(4)(Tensor(x))


def test_batchnorm_follows_while_it_trains():
    layer, x = nn.BatchNorm(3), array(8, 3, 4, 4) * 2 + 1
    mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3))
    # it knows nothing yet
    close(layer(Tensor(x)), x / math.sqrt(1 + 1e-5))
    with Tensor.train():
        y = layer(Tensor(x))
    close(y, (x - mean[:, None, None]) / np.sqrt(var + 1e-5)[:, None, None])
    close(layer.running_mean, 0.1 * mean)
    close(layer.running_var, 0.9 + 0.1 * var * 128 / 127)
    assert layer.num_batches_tracked.item() == 1
    with Context(TRAINING=1):
        layer(Tensor(x)).realize()
    assert layer.num_batches_tracked.item() == 2
    plain = nn.BatchNorm(3, affine=False, track_running_stats=False)
    close(plain(Tensor(x)), (x - mean[:, None, None]) / np.sqrt(var + 1e-5)[:, None, None])
    assert [p.is_param for p in get_parameters(layer)] == [True, True, False, False, False]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm_step(cell, x, h, c):
    w_ih, w_hh, b_ih, b_hh = (p.numpy() for p in get_parameters(cell))
    i, f, g, o = np.split(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh, 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def test_lstm():
    cell, x, h, c = nn.LSTMCell(3, 4), array(2, 3), array(2, 4, seed=1), array(2, 4, seed=2)
    new_h, new_c = cell(Tensor(x), (Tensor(h), Tensor(c)))
    close(new_h, lstm_step(cell, x, h, c)[0])
    close(new_c, lstm_step(cell, x, h, c)[1])
    stack, x = nn.LSTM(3, 4, bidirectional=True), array(5, 2, 3)
    y, (last, _) = stack(Tensor(x))
    h = c = np.zeros((2, 4), np.float32)
    for t in range(5):
        h, c = lstm_step(stack.cells[0][0], x[t], h, c)
        close(y[t, :, :4], h)
    close(last[0], h)
    h = c = np.zeros((2, 4), np.float32)
    for t in range(4, -1, -1):
        h, c = lstm_step(stack.cells[0][1], x[t], h, c)
        close(y[t, :, 4:], h)


def test_gru_and_plain_cells():
    x, h = array(2, 3), array(2, 4, seed=1)
    cell = nn.GRUCell(3, 4)
    w_ih, w_hh, b_ih, b_hh = (p.numpy() for p in get_parameters(cell))
    rx, zx, nx = np.split(x @ w_ih.T + b_ih, 3, axis=-1)
    rh, zh, nh = np.split(h @ w_hh.T + b_hh, 3, axis=-1)
    z = sigmoid(zx + zh)
    close(cell(Tensor(x), Tensor(h)), (1 - z) * np.tanh(nx + sigmoid(rx + rh) * nh) + z * h)
    cell = nn.RNNCell(3, 4, nonlinearity="relu")
    w_ih, w_hh, b_ih, b_hh = (p.numpy() for p in get_parameters(cell))
    close(cell(Tensor(x), Tensor(h)), np.maximum(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh, 0))
    y, last = nn.GRU(3, 4, 2, batch_first=True)(Tensor(array(2, 5, 3)))
    assert y.shape == (2, 5, 4) and last.shape == (2, 2, 4)


def test_attention_layers():
    layer, x = nn.MultiheadAttention(8, 2), array(2, 5, 8)
    q, k, v = (
        (x @ p.weight.numpy().T + p.bias.numpy()).reshape(2, 5, 2, 4).transpose(0, 2, 1, 3)
        for p in (layer.q_proj, layer.k_proj, layer.v_proj)
    )
    s = q @ k.transpose(0, 1, 3, 2) / 2
    w = np.exp(s) / np.exp(s).sum(-1, keepdims=True)
    y = (w @ v).transpose(0, 2, 1, 3).reshape(2, 5, 8)
    close(layer(Tensor(x)), y @ layer.out_proj.weight.numpy().T + layer.out_proj.bias.numpy())
    assert nn.TransformerEncoderLayer(8, 2, 16)(Tensor(x)).shape == (2, 5, 8)
    decoder = nn.TransformerDecoderLayer(8, 2, 16, norm_first=True)
    assert decoder(Tensor(x), Tensor(array(2, 3, 8))).shape == (2, 5, 8)


def test_dropout_and_sequential():
    x = Tensor.ones(1000)
    model = nn.Sequential(nn.Dropout(0.25), lambda t: t * 2)
    assert model(x).tolist() == [2.0] * 1000
    with Tensor.train():
        kept = model(x).numpy()
    assert set(np.round(np.unique(kept), 4)) == {0.0, np.float32(2.6667)} and 650 < (kept > 0).sum() < 850
    assert len(model) == 2 and isinstance(model[0], nn.Dropout)


def test_what_cannot_be_built():
    for make in (
        lambda: nn.Conv2d(3, 4, 3, groups=2),
        lambda: nn.Conv2d(3, 4, 3, stride=2, padding="same"),
        lambda: nn.Conv2d(3, 4, 3, padding="reflect"),
        lambda: nn.ConvTranspose2d(3, 4, 3, padding="same"),
        lambda: nn.GroupNorm(2, 3),
        lambda: nn.MultiheadAttention(8, 3),
        lambda: nn.RNNCell(2, 2, nonlinearity="cube"),
    ):
        with pytest.raises(ValueError):
            make()
    with pytest.raises(RuntimeError):
        nn.Linear(3, 4)(Tensor.zeros(2, 5))


def test_labels_of_one_byte():
    logits, labels = Tensor(array(4, 10)), Tensor([3, 9, 0, 255], dtype=dtypes.uint8)
    some = logits[:3].sparse_categorical_crossentropy(labels[:3])
    close(some, logits[:3].sparse_categorical_crossentropy(labels[:3].int()).numpy())
    close(logits.sparse_categorical_crossentropy(labels, ignore_index=255), some.numpy())


def test_names_of_parameters():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm(3))
    assert list(get_state_dict(model)) == [
        "layers.0.weight",
        "layers.0.bias",
        "layers.1.weight",
        "layers.1.bias",
        "layers.1.num_batches_tracked",
        "layers.1.running_mean",
        "layers.1.running_var",
    ]
