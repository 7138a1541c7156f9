"""Sizes with variables: arithmetic, every way to cut and join, plainly and in a Jit, one compile for all values."""

import numpy as np
import pytest

from frit import GlobalCounters, JitError, Tensor, TinyJit, Variable

DATA = np.arange(1, 21, dtype=np.float32)
TEN = DATA[:10]


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# name, the function of a part of ten elements and its length, the same by numpy
CASES = {
    "slice of a part": (lambda t, k: (t + 0)[:2], lambda i: TEN[:i][:2]),
    "two from a place": (lambda t, k: ALL[k : k + 2] + 1, lambda i: TEN[i : i + 2] + 1),
    "rest": (lambda t, k: ALL[k:] * 2, lambda i: TEN[i:] * 2),
    "last": (lambda t, k: ALL[-k - 1 :] * 2, lambda i: TEN[-i - 1 :] * 2),
    "backwards": (lambda t, k: t[::-1] + 0, lambda i: TEN[:i][::-1]),
    "every third": (lambda t, k: t[::3] + 0, lambda i: TEN[:i][::3]),
    "every second backwards": (lambda t, k: ALL[k::-2] + 0, lambda i: TEN[i::-2]),
    "cat": (lambda t, k: t.cat(Tensor([1.0]), ALL[k:]), lambda i: np.concatenate([TEN[:i], [1.0], TEN[i:]])),
    "stack": (lambda t, k: Tensor.stack(t, t * 2), lambda i: np.stack([TEN[:i], TEN[:i] * 2])),
    "arange": (lambda t, k: Tensor.arange(k) * 2, lambda i: np.arange(i) * 2),
    "arange from a place": (lambda t, k: Tensor.arange(k, k + 5, 2), lambda i: np.arange(i, i + 5, 2)),
    "pad to ten": (lambda t, k: t.pad((0, 10 - t.shape[0])), lambda i: np.pad(TEN[:i], (0, 10 - i))),
    "pad with a value": (
        lambda t, k: t.pad(((k, 1),), value=7),
        lambda i: np.pad(TEN[:i], (i, 1), constant_values=7),
    ),
    "pad or cut to five": (lambda t, k: t.pad((0, 5 - k)), lambda i: np.pad(TEN[:i], (0, 5))[:5]),
    "pad_to": (lambda t, k: t.pad_to(12), lambda i: np.pad(TEN[:i], (0, 12 - i))),
    "triu": (lambda t, k: Tensor.ones(4, 6).triu(k), lambda i: np.triu(np.ones((4, 6)), i)),
    "tril of a square": (lambda t, k: Tensor.ones(k, k).tril(k - 3), lambda i: np.tril(np.ones((i, i)), i - 3)),
    "roll by": (lambda t, k: ALL.roll(k), lambda i: np.roll(TEN, i)),
    "roll a part": (lambda t, k: t.roll(3), lambda i: np.roll(TEN[:i], 3) if i else TEN[:0]),
    "eye": (lambda t, k: Tensor.eye(k, 4) * 2, lambda i: np.eye(i, 4) * 2),
    "reshape": (lambda t, k: BOTH[: k * 2].reshape(k, 2).sum(0), lambda i: DATA[: 2 * i].reshape(i, 2).sum(0)),
    "reshape and back": (lambda t, k: BOTH[: k * 2].reshape(-1, 2).T.reshape(-1), lambda i: DATA[: 2 * i].reshape(i, 2).T.ravel()),
    "expand": (lambda t, k: Tensor([[3.0], [4.0]]).expand(2, k) + t, lambda i: np.array([[3.0], [4.0]]) + TEN[:i]),
    "sum": (lambda t, k: t.sum(), lambda i: TEN[:i].sum()),
    "mean of the others": (lambda t, k: t.sum() / (k + 1), lambda i: TEN[:i].sum() / (i + 1)),
    "cumsum": (lambda t, k: t.cumsum(0), lambda i: TEN[:i].cumsum()),
    "sort": (lambda t, k: t.sort(descending=True)[0], lambda i: TEN[:i][::-1]),
    "argsort": (lambda t, k: (-t).argsort(), lambda i: np.arange(i)[::-1]),
    "matmul": (lambda t, k: t.reshape(1, -1) @ ALL[:k].reshape(-1, 1), lambda i: [[TEN[:i] @ TEN[:i]]]),
    "outer": (lambda t, k: t.reshape(-1, 1) @ t.reshape(1, -1), lambda i: np.outer(TEN[:i], TEN[:i])),
    "gather": (lambda t, k: ALL[Tensor.arange(k)] + 0, lambda i: TEN[:i]),
    "one_hot": (lambda t, k: Tensor([0, 2]).one_hot(k + 3), lambda i: np.eye(i + 3)[[0, 2]]),
    "mask": (lambda t, k: (Tensor.arange(10) < k).where(ALL, -1.0), lambda i: np.where(np.arange(10) < i, TEN, -1)),
    "a place": (lambda t, k: BOTH[k] + 1, lambda i: DATA[i] + 1),
    "nonzero": (
        lambda t, k: (t > 3).nonzero(size=4, fill_value=-1),
        lambda i: np.pad(np.arange(3, max(i, 3)), (0, 10), constant_values=-1)[:4].reshape(4, 1),
    ),
    "masked_select": (
        lambda t, k: t.masked_select(t > 3, size=3),
        lambda i: np.pad(TEN[3 : max(i, 3)], (0, 10))[:3],
    ),
    "unfold": (
        lambda t, k: t.cat(ALL[:3]).unfold(0, 3, 2) + 0,
        lambda i: np.lib.stride_tricks.sliding_window_view(np.concatenate([TEN[:i], TEN[:3]]), 3)[::2],
    ),
    "convolution": (
        lambda t, k: t.reshape(1, 1, -1).conv2d(ALL[:3].reshape(1, 1, 3), padding=2),
        lambda i: np.convolve(TEN[:i], TEN[:3][::-1]).reshape(1, 1, -1) if i else np.zeros((1, 1, 2)),
    ),
    "repeat": (lambda t, k: t.repeat(2) + 0, lambda i: np.tile(TEN[:i], 2)),
    "a choice": (lambda t, k: t.sum() if k > 3 else t.sum() + 100, lambda i: TEN[:i].sum() + (0 if i > 3 else 100)),
}
ALL = BOTH = Tensor(0)


@pytest.fixture(autouse=True)
def tensors():
    global ALL, BOTH
    ALL, BOTH = Tensor(TEN).realize(), Tensor(DATA).realize()


def same(got, want, what):
    got, want = got.numpy(), np.asarray(want)
    assert got.shape == want.shape, f"{what}: {got.shape}, not {want.shape}"
    np.testing.assert_allclose(got, want, rtol=1e-5, err_msg=what)


@pytest.mark.parametrize("name", CASES)
def test_every_value_is_right_and_compiled_once(name):
    function, want = CASES[name]
    length = Variable("length", 0, 10)
    recorded = TinyJit(function)
    for turn, i in enumerate([4, 1, 7, 0, 10, 3, 5]):
        GlobalCounters.reset()
        same(function(ALL[: length.bind(i)], length.bind(i)), want(i), f"{name} of {i}, called")
        same(recorded(ALL[: length.bind(i)], length.bind(i)), want(i), f"{name} of {i} in a Jit")
        # `a choice` has two ways to go
        assert turn < 2 or GlobalCounters.compile_count == 0 or name == "a choice", f"{name} of {i}"
    assert len(recorded.captured) == 1


def test_arithmetic_before_a_value_is_there():
    i, j = Variable("i", 1, 10), Variable("j", 0, 3)
    e = i * 2 + j - 1
    assert (e.vmin, e.vmax) == (1, 22) and repr(i + 1) == "i + 1" and repr(10 - i) == "10 - i"
    assert e.bind(i=3, j=1) == 6 and int((i + 1).bind(4)) == 5
    assert i + 1 == 1 + i and (i + 1 - i) == 1 and i < 11 and not i > 10 and i >= 1
    variable, value = i.bind(3).unbind()
    assert isinstance(variable, Variable) and variable.name == "i" and value == 3
    free, value = (i.bind(3) + 2).unbind()
    assert value == 5 and free.bind(7) == 9
    with pytest.raises(RuntimeError, match="cannot be decided"):
        i < 5
    with pytest.raises(RuntimeError, match="not bound"):
        int(i)
    with pytest.raises(RuntimeError, match="two values"):
        i.bind(3) + i.bind(4)
    with pytest.raises(TypeError, match="name them"):
        e.bind(3)
    assert (i.bind(3) // 2, i.bind(3) % 2, -i.bind(3), 7 // i.bind(3)) == (1, 1, -3, 2)
    assert (1.0 / i.bind(4)).item() == 0.25


def test_places_outside_are_errors_at_the_call():
    i = Variable("i", 0, 20)
    with pytest.raises(IndexError):
        ALL[i.bind(10)]
    assert ALL[i.bind(9)].item() == 10 and ALL[i.bind(12) :].shape == (0,) and ALL[: i.bind(12)].shape[0] == 10
    with pytest.raises(RuntimeError):
        ALL[: i.bind(3)] + Tensor([1.0, 2.0])
    with pytest.raises(RuntimeError):
        Tensor.zeros(5 - i.bind(6))
    assert (ALL[: i.bind(2)] + Tensor([1.0, 2.0])).tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    "function",
    [lambda t: t + int(t.shape[0]), lambda t: t * len(t), lambda t: t + float(t.shape[0]), lambda t: t[: range(9)[t.shape[0]]] + 0],
)
def test_a_number_taken_of_a_size_is_not_frozen(function):
    n, f = Variable("n", 1, 10), TinyJit(function)
    assert f(ALL[: n.bind(2)]).shape[0] == 2
    with pytest.raises(RuntimeError, match="would be frozen"):
        f(ALL[: n.bind(3)])


def test_a_variable_that_only_the_function_binds_is_an_error():
    n, box = Variable("n", 1, 10), [2]
    f = TinyJit(lambda t: t + ALL[: n.bind(box[0])].sum())
    f(Tensor([1.0]))
    with pytest.raises(JitError, match="variable n would stay 2"):
        f(Tensor([1.0]))


def test_sizes_that_agree_only_now_are_checked_in_every_call():
    n = Variable("n", 1, 10)
    f = TinyJit(lambda t: t + Tensor([1.0, 2.0, 3.0]))
    for _ in range(3):
        assert f(ALL[: n.bind(3)]).tolist() == [2.0, 4.0, 6.0]
    with pytest.raises(RuntimeError, match="broadcast"):
        f(ALL[: n.bind(4)])
    assert f(ALL[: n.bind(3)]).tolist() == [2.0, 4.0, 6.0]


def test_random_numbers_of_a_symbolic_size_are_those_of_plain_calls():
    n = Variable("n", 1, 10)

    def draws(f):
        Tensor.manual_seed(3)
        return [f(ALL[: n.bind(i)]).tolist() for i in (3, 5, 2, 9, 4)]

    def function(t):
        return t * 0 + Tensor.rand(t.shape[0])

    plain = draws(function)
    assert draws(TinyJit(function)) == plain
    numbers = [v for call in plain for v in call]
    assert len(set(numbers)) == len(numbers)


HEADS, WIDTH, LONGEST = 2, 4, 16


class Attention:
    """A step of attention over what was seen before, kept in a cache of a fixed length."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.weights = [rng.normal(size=(HEADS * WIDTH, HEADS * WIDTH)).astype(np.float32) * 0.3 for _ in range(4)]
        self.q, self.k, self.v, self.o = [Tensor(w).realize() for w in self.weights]
        self.cache = Tensor.zeros(2, HEADS, LONGEST, WIDTH).contiguous().realize()

    def __call__(self, x, at):  # x: (T, HEADS * WIDTH)
        steps = x.shape[0]
        q, k, v = ((x @ w).reshape(steps, HEADS, WIDTH).transpose(0, 1) for w in (self.q, self.k, self.v))
        self.cache[:, :, at : at + steps] = Tensor.stack(k, v)
        keys, values = self.cache[0, :, : at + steps], self.cache[1, :, : at + steps]
        mask = Tensor.full((steps, at + steps), float("-inf")).triu(at + 1)
        scores = (q @ keys.transpose(1, 2)) / WIDTH**0.5 + mask
        return (scores.softmax(-1) @ values).transpose(0, 1).reshape(steps, HEADS * WIDTH) @ self.o

    def expected(self, xs):  # all of it at once, by numpy
        q, k, v = ((xs @ w).reshape(-1, HEADS, WIDTH).transpose(1, 0, 2) for w in self.weights[:3])
        mask = np.triu(np.full((len(xs), len(xs)), -np.inf), 1)
        scores = q @ k.transpose(0, 2, 1) / WIDTH**0.5 + mask
        return (softmax(scores) @ v).transpose(1, 0, 2).reshape(len(xs), -1) @ self.weights[3]


def test_attention_with_a_cache_is_recorded_once():
    model, at = Attention(1), Variable("at", 0, LONGEST - 1)
    xs = np.random.default_rng(2).normal(size=(LONGEST, HEADS * WIDTH)).astype(np.float32)
    step = TinyJit(lambda x, at: model(x, at).realize())
    want = model.expected(xs)
    for i in range(LONGEST):
        GlobalCounters.reset()
        got = step(Tensor(xs[i : i + 1]).realize(), at.bind(i)).numpy()
        np.testing.assert_allclose(got[0], want[i], rtol=1e-4, atol=1e-5, err_msg=f"place {i}")
        assert i < 2 or GlobalCounters.compile_count == 0, f"place {i}"
    assert len(step.captured) == 1


def test_attention_takes_pieces_of_any_length():
    model = Attention(3)
    at, count = Variable("at", 0, LONGEST), Variable("count", 1, 6)
    xs = np.random.default_rng(4).normal(size=(LONGEST, HEADS * WIDTH)).astype(np.float32)
    step = TinyJit(lambda x, at: model(x, at).realize())
    want, place = model.expected(xs), 0
    for turn, n in enumerate([2, 1, 4, 6, 1, 2]):
        padded = Tensor(np.pad(xs[place : place + n], ((0, 6 - n), (0, 0)))).realize()
        GlobalCounters.reset()
        got = step(padded[: count.bind(n)], at.bind(place)).numpy()
        np.testing.assert_allclose(got, want[place : place + n], rtol=1e-4, atol=1e-5, err_msg=f"{n} from {place}")
        assert turn < 2 or GlobalCounters.compile_count == 0
        place += n
    assert place == LONGEST and len(step.captured) == 1


def sample(logits, temperature, k, p):
    """A word of the k most likely ones, by its likelihood; the most likely at temperature 0."""
    top, words = (logits / temperature.maximum(1e-6)).topk(k)
    likely = top.softmax(-1)
    likely = (likely.cumsum(-1) - likely < p).where(likely, 0.0)
    drawn = words[likely.multinomial(1, replacement=True)[0]]
    return (temperature <= 0).where(logits.argmax(-1), drawn)


def test_a_sampler_draws_the_same_words_recorded_and_plain():
    scores = np.random.default_rng(5).normal(size=(12, 30)).astype(np.float32) * 3
    words = Variable("words", 8, 30)
    rows = [Tensor(r).realize() for r in scores]
    lengths = [30, 8, 13, 29, 30, 21, 9, 8, 17, 25, 11, 30]

    def run(f):
        Tensor.manual_seed(7)
        out = []
        for r, n in zip(rows, lengths, strict=True):
            GlobalCounters.reset()
            out.append(f(r[: words.bind(n)], Tensor([0.8]).realize(), 5, 0.9).item())
            counts.append(GlobalCounters.compile_count)
        return out

    counts = []
    plain = run(sample)
    recorded = TinyJit(sample)
    assert run(recorded) == plain and len(recorded.captured) == 1
    assert sum(counts[1:12]) == 0 and sum(counts[14:]) == 0
    for word, r, n in zip(plain, scores, lengths, strict=True):
        assert word in np.argsort(-r[:n])[:5]
    cold = TinyJit(lambda l, t: sample(l, t, 5, 0.9))
    for r, t, n in zip(scores, rows, lengths, strict=True):
        assert cold(t[: words.bind(n)], Tensor([0.0]).realize()).item() == r[:n].argmax()


def test_gradients_through_symbolic_parts():
    n = Variable("n", 1, 10)
    for i in (3, 10, 1):
        x = Tensor(TEN, requires_grad=True)
        part = x[: n.bind(i)]
        loss = (part.cat(part * 2).pad((1, 2)) ** 2).sum() + x[n.bind(i) :].sum()
        loss.backward()
        np.testing.assert_allclose(x.grad.numpy(), np.where(np.arange(10) < i, 10 * TEN, 1), rtol=1e-5)


@pytest.mark.parametrize("device", ["INTERP", "INTERP:GPU"])
def test_other_devices_agree(device):
    n = Variable("n", 0, 10)
    for name in ("cat", "pad or cut to five", "roll by", "every second backwards", "matmul", "sort", "cumsum"):
        function, want = CASES[name]
        for i in (3, 0, 10):
            global ALL
            ALL = Tensor(TEN, device=device).realize()
            if name == "cat":
                got = ALL[: n.bind(i)].cat(Tensor([1.0], device=device), ALL[n.bind(i) :])
            else:
                got = function(ALL[: n.bind(i)], n.bind(i))
            same(got, want(i), f"{name} of {i} on {device}")
