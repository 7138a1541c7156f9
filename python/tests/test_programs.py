"""Small programs as people write them for other libraries, with only the import line changed."""

import math

import numpy as np
import pytest

from frit import Context, Tensor, TinyJit, Variable, dtypes, nn
from frit.nn.state import get_parameters, get_state_dict, load_state_dict, safe_load, safe_save


def test_a_network_of_convolutions_learns_from_numpy_batches():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 1, 12, 12)).astype(np.float32)
    y = (x.mean((1, 2, 3)) > 0).astype(np.int64)
    x += (2 * y - 1).reshape(-1, 1, 1, 1).astype(np.float32)

    class Net:
        def __init__(self):
            self.c1, self.bn = nn.Conv2d(1, 4, kernel_size=3, padding=1), nn.BatchNorm2d(4)
            self.c2 = nn.Conv2d(4, 8, 3, stride=2, bias=False)
            self.out = nn.Linear(8, 2)

        def __call__(self, x: Tensor) -> Tensor:
            x = self.bn(self.c1(x)).relu().max_pool2d((2, 2))
            return self.out(self.c2(x).silu().mean((2, 3)).dropout(0.1))

    Tensor.manual_seed(2)
    net = Net()
    opt, losses = nn.optim.AdamW(get_parameters(net), lr=0.02), []

    @TinyJit
    def step(bx, by):
        opt.zero_grad()
        loss = net(bx).cross_entropy(by)
        loss.backward()
        opt.step()
        return loss.realize()

    with Tensor.train():
        for epoch in range(3):
            order = rng.permutation(64)
            for at in range(0, 64, 16):
                batch = order[at : at + 16]
                losses.append(step(Tensor(x[batch]), Tensor(y[batch])).item())
    predicted = net(Tensor(x)).argmax(1).numpy()
    assert losses[-1] < losses[0] and (predicted == y).mean() > 0.9


class Attention:
    def __init__(self, dim, heads):
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)

    def __call__(self, x, mask):
        b, t, c = x.shape
        q, k, v = (y.reshape(b, t, self.heads, c // self.heads).transpose(1, 2) for y in self.qkv(x).chunk(3, dim=-1))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.shape[-1]))
        att = att.masked_fill(mask[:, :, :t, :t] == 0, float("-inf")).softmax(axis=-1)
        return self.proj((att @ v).transpose(1, 2).reshape(b, t, c))


class Block:
    def __init__(self, dim, heads):
        self.ln_1, self.ln_2, self.attn = nn.LayerNorm(dim), nn.LayerNorm(dim), Attention(dim, heads)
        self.mlp = [nn.Linear(dim, 4 * dim), Tensor.gelu, nn.Linear(4 * dim, dim)]

    def __call__(self, x, mask):
        x = x + self.attn(self.ln_1(x), mask)
        return x + self.ln_2(x).sequential(self.mlp)


class GPT:
    def __init__(self, vocab=11, dim=16, heads=2, layers=2, length=8):
        self.wte, self.wpe = nn.Embedding(vocab, dim), nn.Embedding(length, dim)
        self.h, self.ln_f, self.lm_head = [Block(dim, heads) for _ in range(layers)], nn.LayerNorm(dim), nn.Linear(dim, vocab, bias=False)
        self.bias = Tensor.ones(1, 1, length, length).tril()
        self.bias.requires_grad = False

    def __call__(self, idx):
        x = self.wte(idx) + self.wpe(Tensor.arange(0, idx.shape[1]).reshape(1, -1))
        for block in self.h:
            x = block(x, self.bias)
        return self.lm_head(self.ln_f(x))


def test_a_transformer_is_causal_trains_and_generates():
    Tensor.manual_seed(0)
    model = GPT()
    idx = Tensor.randint(2, 8, high=11)
    logits = model(idx)
    changed = idx.numpy().copy()
    changed[:, 5] = (changed[:, 5] + 1) % 11
    other = model(Tensor(changed))
    np.testing.assert_allclose(logits[:, :5].numpy(), other[:, :5].numpy(), rtol=1e-4, atol=1e-5)
    assert (logits[:, 5:] - other[:, 5:]).abs().max().item() > 1e-3
    opt = nn.optim.Adam([p for k, p in get_state_dict(model).items() if k != "bias"], lr=0.01)
    losses = []
    with Context(TRAINING=1):
        for _ in range(6):
            loss = model(idx[:, :-1]).flatten(0, 1).sparse_categorical_crossentropy(idx[:, 1:].flatten())
            opt.zero_grad()
            loss.backward()
            norm = nn.optim.clip_grad_norm_(opt.params, 1.0)
            opt.step()
            losses.append(loss.item())
    assert losses[-1] < losses[0] and norm.item() > 0
    tokens = [1]
    for _ in range(4):
        p = (model(Tensor([tokens]))[:, -1, :] / 0.8).softmax()
        tokens.append(int(p.multinomial().item()))
    assert len(tokens) == 5 and all(0 <= t < 11 for t in tokens)


def test_decoding_with_a_cache_of_variable_length():
    dim, length = 8, 12
    Tensor.manual_seed(1)
    q, k, v = (nn.Linear(dim, dim, bias=False) for _ in range(3))
    cache = Tensor.zeros(2, length, dim).contiguous().realize()
    x = Tensor.randn(length, dim).realize()

    @TinyJit
    def token(at, start):
        cache[0, start : start + 1] = k(at)
        cache[1, start : start + 1] = v(at)
        keys, values = cache[0, : start + 1], cache[1, : start + 1]
        return (q(at) @ keys.T / dim**0.5).softmax(-1) @ values

    start = Variable("start", 0, length - 1)
    got = [token(x[i : i + 1], start.bind(i)).numpy()[0].copy() for i in range(length)]
    want = q(x).scaled_dot_product_attention(k(x), v(x), is_causal=True).numpy()
    np.testing.assert_allclose(np.stack(got), want, rtol=2e-4, atol=2e-5)


def test_a_recurrent_network_sums():
    Tensor.manual_seed(4)
    rng = np.random.default_rng(4)
    x = rng.standard_normal((5, 32, 2)).astype(np.float32)
    y = x.sum((0, 2)) > 0
    cell, head = nn.LSTMCell(2, 8), nn.Linear(8, 1)
    opt = nn.optim.Adam(get_parameters([cell, head]), lr=0.05)

    @TinyJit
    def step(x, y):
        hc = None
        for t in range(x.shape[0]):
            hc = cell(x[t], hc)
        loss = head(hc[0]).squeeze(1).binary_crossentropy_logits(y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    with Context(TRAINING=1):
        losses = [step(Tensor(x), Tensor(y.astype(np.float32))).item() for _ in range(25)]
    assert losses[-1] < 0.5 * losses[0]


class Momentum(nn.optim.Optimizer):
    """An optimiser of one's own: written against the base class of tinygrad's."""

    def __init__(self, params, lr=0.1, beta=0.9):
        super().__init__(params, lr)
        self.beta, self.m = beta, [Tensor.zeros(*p.shape, device=p.device).contiguous() for p in self.params]

    def schedule_step(self):
        for p, m in zip(self.params, self.m):
            m.assign(self.beta * m + p.grad)
            p.assign(p.detach() - self.lr * m)
        return self.params + self.m + self.buffers


def test_an_optimiser_of_ones_own():
    w = Tensor([1.0, -2.0])
    opt = Momentum([w])
    a, m = np.array([1.0, -2.0]), np.zeros(2)
    for _ in range(4):
        opt.zero_grad()
        (w * w).sum().backward()
        opt.step()
        m = 0.9 * m + 2 * a
        a = a - 0.1 * m
    np.testing.assert_allclose(w.numpy(), a, rtol=1e-5)


def test_updates_by_hand():
    w, x, y = Tensor([[0.5], [0.5]], requires_grad=True), Tensor([[1.0, 2.0], [3.0, 4.0]]), Tensor([[1.0], [2.0]])
    n, a, b = w.numpy().astype(np.float64), x.numpy(), y.numpy()
    for _ in range(3):
        loss = ((x @ w - y) ** 2).mean()
        loss.backward()
        w.assign(w.detach() - 0.01 * w.grad).realize()
        w.grad = None
        n = n - 0.01 * (a.T @ (a @ n - b))
    np.testing.assert_allclose(w.numpy(), n, rtol=1e-5)


def test_a_state_goes_to_a_file_and_back(tmp_path):
    a, b = GPT(), GPT()
    safe_save(get_state_dict(a), str(tmp_path / "gpt.safetensors"))
    loaded = safe_load(str(tmp_path / "gpt.safetensors"))
    assert loaded["h.0.mlp.0.weight"].shape == (64, 16)
    load_state_dict(b, loaded, strict=True)
    idx = Tensor([[1, 2, 3]])
    np.testing.assert_array_equal(a(idx).numpy(), b(idx).numpy())
    torch_style = {f"transformer.{k}": v for k, v in get_state_dict(a).items()}
    load_state_dict(b, {k.removeprefix("transformer."): v for k, v in torch_style.items()})
    for p in get_parameters(b):
        p.replace(p.half())
    assert all(p.dtype == dtypes.half for p in get_parameters(b))


@pytest.mark.parametrize(
    "formula, shapes",
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("bhqd,bhkd->bhqk", [(2, 2, 3, 4), (2, 2, 5, 4)]),
        ("i,j->ij", [(3,), (4,)]),
        ("ii->i", [(3, 3)]),
        ("ij->ji", [(2, 3)]),
        ("bij,bjk,bk->bi", [(2, 3, 4), (2, 4, 5), (2, 5)]),
        ("...ij,...jk->...ik", [(2, 3, 4), (2, 4, 5)]),
        ("ij->", [(2, 3)]),
        ("ij,ij", [(2, 3), (2, 3)]),
    ],
)
def test_sums_over_indices(formula, shapes):
    arrays = [np.random.default_rng(i).standard_normal(s).astype(np.float32) for i, s in enumerate(shapes)]
    got = Tensor.einsum(formula, *map(Tensor, arrays))
    np.testing.assert_allclose(got.numpy(), np.einsum(formula, *arrays), rtol=1e-4, atol=1e-5)


def test_reading_and_writing_by_masks():
    a = np.random.default_rng(3).standard_normal((4, 5)).astype(np.float32)
    t, n = Tensor(a), a.copy()
    assert t[t > 0].tolist() == n[n > 0].tolist()
    t[t < 0] = 0
    n[n < 0] = 0
    t[1:3, ::2] += 10
    n[1:3, ::2] += 10
    t[[0, 3]] = Tensor([1.0, 2, 3, 4, 5])
    n[[0, 3]] = [1, 2, 3, 4, 5]
    t[..., -1] = t[..., 0]
    n[..., -1] = n[..., 0]
    t[Tensor([0, 1]), Tensor([2, 3])] *= 2
    n[[0, 1], [2, 3]] *= 2
    np.testing.assert_allclose(t.numpy(), n, rtol=1e-6)
    rows = (t.sum(1) > 20).nonzero().squeeze(1)
    assert t[rows].shape[0] == int((n.sum(1) > 20).sum())
    assert Tensor.where(t > 3, t, -1.0).tolist() == np.where(n > 3, n, np.float32(-1)).tolist()


def test_forms_of_torch():
    x = Tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
    values, indices = x.topk(2, dim=1)
    assert values.shape == indices.shape == (3, 2)
    assert x.max(dim=0).values.tolist() == [8.0, 9.0, 10.0, 11.0] and x.argmax(dim=1).tolist() == [3, 3, 3]
    assert x.permute(1, 0).contiguous().view(-1).shape == x.transpose(0, 1).flatten().shape == (12,)
    assert x.unsqueeze(-1).expand(-1, -1, 2).shape == (3, 4, 2) and x[None, :, :, None].squeeze().shape == (3, 4)
    assert x.mean(dim=-1, keepdim=True).shape == (3, 1) and x.std(dim=0, unbiased=False).shape == (4,)
    assert Tensor.cat((x, x), dim=0).shape == Tensor.stack([x, x]).flatten(0, 1).shape == (6, 4)
    assert Tensor.cat([x, x], 1).shape == Tensor.cat(x, x, dim=-1).shape == x.cat(x, dim=1).shape == (3, 8)
    assert x.masked_fill(x > 5, 0.0).sum().item() == 15.0 and x.clamp(min=3).min().item() == 3.0
    assert x.type(dtypes.int32).dtype == x.to(dtypes.int32).dtype == dtypes.int32
    assert x.gather(1, Tensor([[0], [1], [2]])).squeeze(1).tolist() == [0.0, 5.0, 10.0]
    assert x.split([1, 3], dim=1)[1].shape == (3, 3) and [c.shape[0] for c in x.chunk(2)] == [2, 1]
    assert x.flip(0)[0, 0].item() == 8.0 and x.roll(1, 0)[0, 0].item() == 8.0
    assert x.norm(dim=1).shape == (3,) and x.cumsum(dim=1)[0].tolist() == [0.0, 1.0, 3.0, 6.0]
    assert x.T.shape == (4, 3) and x.repeat(2, 1).shape == (6, 4) and x.dim() == 2
    assert (x.detach().cpu().numpy() == x.numpy()).all() and x.is_floating_point()
