"""Gradients and assignment: who gets one, what adds up, who sees which version."""

import numpy as np
import pytest

from frit import Tensor, dtypes


def test_every_tensor_gets_a_gradient_where_none_is_marked():
    x, w = Tensor([1.0, 2.0, 3.0]), Tensor([2.0, 2.0, 2.0])
    y = x * w
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0] and w.grad.tolist() == [1.0, 2.0, 3.0]
    assert y.grad.tolist() == [1.0, 1.0, 1.0]


def test_only_marked_tensors_get_one_where_some_are():
    x, w = Tensor([1.0, 2.0]), Tensor([3.0, 4.0], requires_grad=True)
    (x * w).sum().backward()
    assert x.grad is None and w.grad.tolist() == [1.0, 2.0] and w.requires_grad is True


def test_those_that_want_none_get_none():
    x, w = Tensor([1.0, 2.0], requires_grad=False), Tensor([3.0, 4.0])
    (x * w).sum().backward()
    assert x.grad is None and x.requires_grad is False and w.grad.tolist() == [1.0, 2.0]


def test_gradients_add_up_until_cleared():
    w = Tensor([1.0, 2.0], requires_grad=True)
    for _ in range(2):
        (w * w).sum().backward()
    assert w.grad.tolist() == [4.0, 8.0]
    w.grad = None
    (w * 3).sum().backward()
    assert w.grad.tolist() == [3.0, 3.0]


def test_computing_in_between():
    w = Tensor([1.0, 2.0], requires_grad=True)
    h = w * 3
    loss = (h * h).sum()
    assert loss.item() == 45.0
    h.realize()
    loss.backward()
    assert w.grad.tolist() == [18.0, 36.0]
    loss = (w * w).sum().realize()
    with pytest.raises(RuntimeError, match="cuts off"):
        loss.backward()


@pytest.mark.parametrize("make", [
    lambda: Tensor.full((2,), 3.0), lambda: Tensor.zeros(2), lambda: Tensor.ones(2), lambda: Tensor.eye(2)[0],
    lambda: Tensor.arange(2).float(), lambda: Tensor.rand(2), lambda: Tensor.randn(2), lambda: Tensor.ones(2) + 1.0,
])
def test_constants_that_are_computed_in_between(make):
    x = make()
    y = (x * x * 3.0).sum()
    x.realize()
    want = pytest.approx([6.0 * v for v in x.tolist()])
    assert y.gradient(x)[0].tolist() == want
    y.backward()
    assert x.grad.tolist() == want
    # marked, and seen through a view
    w = make()
    w.requires_grad = True
    y = (w[1:] * 4.0).sum() + w.sum()
    w.realize()
    y.backward()
    assert w.grad.tolist() == [1.0, 5.0]


def test_a_constant_that_was_assigned_to_in_between():
    w = Tensor.ones(2, requires_grad=True)
    y = (w * w).sum()
    w.realize()
    w.assign(w * 5).realize()
    with pytest.raises(RuntimeError, match="was assigned to since"):
        y.backward()


def test_detach_stops_gradients_and_integers_have_none():
    x = Tensor([1.0, 2.0], requires_grad=True)
    (x.detach() * x).sum().backward()
    assert x.grad.tolist() == [1.0, 2.0]
    with pytest.raises(RuntimeError, match="int32"):
        Tensor([1, 2], requires_grad=True)
    with pytest.raises(RuntimeError):
        Tensor([1, 2]).sum().backward()
    with pytest.raises(RuntimeError, match="scalar"):
        (x * 2).backward()


def test_a_gradient_can_be_given():
    x = Tensor([1.0, 2.0])
    (x * x).backward(Tensor([1.0, 10.0]))
    assert x.grad.tolist() == [2.0, 40.0]
    (g,) = (x**3).gradient(x, gradient=Tensor([1.0, 1.0]))
    assert g.tolist() == [3.0, 12.0]
    (h,) = g.sum().gradient(x)
    assert h.tolist() == [6.0, 12.0]


def test_gradients_of_what_is_not_there():
    x, y = Tensor([1.0]), Tensor([1.0])
    assert x.sum().gradient(y)[0].tolist() == [0.0]
    assert x.sum().gradient(y, materialize_grads=True)[0].tolist() == [0.0]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.relu().sum(),
        lambda x: (x @ x.T).softmax(-1).log().sum(),
        lambda x: x[1:, ::2].exp().sum() + x[Tensor([0, 0, 2])].square().sum(),
        lambda x: x.reshape(1, 1, 3, 4).conv2d(x[:2, :2].reshape(1, 1, 2, 2), padding=1).tanh().sum(),
        lambda x: x.cat(x * 2, dim=1).sort(-1)[0].cumsum(-1).mean(),
        lambda x: x.layernorm().gelu().max(axis=0).sum(),
        lambda x: x.cross_entropy(Tensor([0, 3, 1]), label_smoothing=0.1),
        lambda x: (x.var(0) + x.std(0) + x.logsumexp(0)).prod(),
    ],
)
def test_gradients_are_what_small_steps_say(f):
    a = np.random.default_rng(3).normal(size=(3, 4))
    x = Tensor(a)
    assert x.dtype == dtypes.float64
    (g,) = f(x).gradient(x)
    step, want = 1e-5, np.zeros_like(a)
    for i in np.ndindex(a.shape):
        up, down = a.copy(), a.copy()
        up[i] += step
        down[i] -= step
        want[i] = (f(Tensor(up)).item() - f(Tensor(down)).item()) / (2 * step)
    np.testing.assert_allclose(g.numpy(), want, rtol=1e-5, atol=1e-6)


def test_what_was_made_before_an_assignment_keeps_its_values():
    x = Tensor([1.0, 2.0, 3.0])
    y = x * 2
    x.assign(x + 1)
    z = x * 2
    assert y.tolist() == [2.0, 4.0, 6.0] and z.tolist() == [4.0, 6.0, 8.0] and x.tolist() == [2.0, 3.0, 4.0]


def test_in_place_operators():
    x = Tensor([6, 7, 8])
    same = x
    x += 1
    x *= 2
    x -= Tensor([1, 1, 1])
    x //= 2
    x %= 5
    x <<= 1
    x |= 1
    x &= 7
    x ^= 2
    x >>= 1
    x **= 2
    assert same is x and x.tolist() == [((((((((v + 1) * 2 - 1) // 2) % 5) << 1 | 1) & 7) ^ 2) >> 1) ** 2 for v in (6, 7, 8)]
    with pytest.raises(RuntimeError):
        x /= 2
    y = Tensor([[1.0, 2.0], [3.0, 4.0]])
    y @= Tensor([[0.0, 1.0], [1.0, 0.0]])
    y /= 2
    assert y.tolist() == [[1.0, 0.5], [2.0, 1.5]]


def test_writing_by_place():
    n = np.zeros((4, 5), dtype=np.float32)
    t = Tensor(n).realize()
    writes = [
        (0, 1.0),
        ((slice(None), 1), [1, 2, 3, 4]),
        ((slice(1, 3), slice(None, None, 2)), 7.0),
        ((Ellipsis, -1), np.arange(4, dtype=np.float32)),
        (([0, 2], [1, 3]), 9.0),
        ((slice(None, None, -1), 0), [1.0, 2.0, 3.0, 4.0]),
        ((np.array([True, False, False, True]),), 5.0),
        ((None, 2, 2), 3.0),
    ]
    for index, value in writes:
        n[index] = value
        t[index] = value
    np.testing.assert_array_equal(t.numpy(), n)


def test_writing_through_views():
    t = Tensor.zeros(3, 3).contiguous().realize()
    t[0] += 1
    t[1][2] = 5.0
    v = t[:, 0]
    v += 10
    assert t.tolist() == [[11.0, 1.0, 1.0], [10.0, 0.0, 5.0], [10.0, 0.0, 0.0]]
    c = t.clone()
    c += 1
    assert t.tolist()[2] == [10.0, 0.0, 0.0] and c.tolist()[2] == [11.0, 1.0, 1.0]


def test_a_failed_write_changes_nothing():
    t = Tensor([1.0, 2.0, 3.0]).realize()
    for bad in (lambda: t.__setitem__(5, 1.0), lambda: t.__setitem__(slice(0, 2), [1.0, 2.0, 3.0])):
        with pytest.raises((IndexError, RuntimeError)):
            bad()
    assert (t + 1).tolist() == [2.0, 3.0, 4.0]


def test_training_is_said():
    x = Tensor.ones(1000)
    assert x.dropout(0.5).sum().item() == 1000 and not Tensor.training
    with Tensor.train():
        assert Tensor.training
        y = x.dropout(0.5)
        assert 200 < (y == 0).sum().item() < 800 and set(y.tolist()) == {0.0, 2.0}
    assert not Tensor.training

    @Tensor.train()
    def inside():
        return Tensor.training

    assert inside() and not Tensor.training


def test_random_numbers_are_the_seeds():
    Tensor.manual_seed(7)
    a = Tensor.rand(3).tolist() + Tensor.randn(2).tolist() + Tensor.randint(4, low=-5, high=5).tolist()
    Tensor.manual_seed(7)
    b = Tensor.rand(3).tolist() + Tensor.randn(2).tolist() + Tensor.randint(4, low=-5, high=5).tolist()
    assert a == b
    p = Tensor.randperm(20).tolist()
    assert sorted(p) == list(range(20)) and p != sorted(p)
    assert Tensor([0.0, 1.0, 0.0]).multinomial(5, replacement=True).tolist() == [1] * 5
    for make in (Tensor.uniform, Tensor.normal, Tensor.glorot_uniform, Tensor.kaiming_uniform, Tensor.kaiming_normal):
        assert make(3, 4, dtype=dtypes.float16).shape == (3, 4)
    with pytest.raises(TypeError, match="unexpected"):
        Tensor.uniform(3, lo=1)


def test_a_gradient_that_a_realise_cut_off_is_warned_of():
    w, v = Tensor([1.0, 2.0], requires_grad=True), Tensor([5.0, 6.0], requires_grad=True)
    y = (w * 3).realize()
    with pytest.warns(RuntimeWarning, match="no gradient.*realised"):
        (y.sum() + v.sum()).backward()
    assert w.grad is None and v.grad.tolist() == [1.0, 1.0]


def test_nothing_is_warned_of_where_history_is_whole(recwarn):
    w, unused = Tensor([1.0, 2.0], requires_grad=True), Tensor([1.0], requires_grad=True)
    target = (w * 2).realize().detach()
    ((w * 3 - target) * 2).sum().backward()
    assert w.grad.tolist() == [6.0, 6.0] and unused.grad is None and not recwarn.list


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("make", [lambda: Tensor.full((2,), 3.0), lambda: Tensor([1.0, 2.0]).realize(), lambda: Tensor([1.0, 2.0]) * 2])
def test_a_gradient_by_a_tensor_that_was_assigned_to_since_is_an_error(make, computed):
    x = make()
    before = (x * x).sum()
    x.assign(x * 5)
    if computed:
        x.realize()
    with pytest.raises(RuntimeError, match="was assigned to since this was made of it"):
        before.gradient(x)
    assert (x * 3).sum().gradient(x)[0].tolist() == [3.0, 3.0]
