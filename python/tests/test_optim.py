"""Optimisers against their formulas in numpy, float64; schedules; clipping."""

import math

import numpy as np
import pytest

from frit import Context, Tensor, TinyJit, dtypes, nn
from frit.nn import optim, schedule

W = np.random.default_rng(0).standard_normal((4, 3))
X = np.random.default_rng(1).standard_normal((7, 4))


def gradient(w):
    y = np.tanh(X @ w)
    return X.T @ (2 * y * (1 - y * y))


def trained(make, steps=6, dtype=dtypes.float32):
    w = Tensor(W, dtype=dtype)
    opt = make([w])
    for _ in range(steps):
        opt.zero_grad()
        (Tensor(X, dtype=dtype) @ w).tanh().square().sum().backward()
        opt.step()
    return w.float().numpy()


def expected(update, steps=6):
    w, state = W.copy(), {}
    for t in range(1, steps + 1):
        w = update(w, gradient(w), state, t)
    return w


def slot(state, name):
    return state.setdefault(name, np.zeros_like(W))


def sgd(w, g, s, t):
    g = g + 0.01 * w
    s["b"] = 0.9 * slot(s, "b") + g
    return w - 0.05 * (g + 0.9 * s["b"])


def classic(w, g, s, t):
    s["b"] = 0.9 * slot(s, "b") + 0.05 * g
    return w - s["b"]


def moments(g, s, t, b1=0.9, b2=0.999, eps=1e-8):
    s["m"] = b1 * slot(s, "m") + (1 - b1) * g
    s["v"] = b2 * slot(s, "v") + (1 - b2) * g * g
    return s["m"] / (1 - b1**t) / (np.sqrt(s["v"] / (1 - b2**t)) + eps)


def adam(w, g, s, t):
    return w - 0.05 * moments(g, s, t)


def adamw(w, g, s, t):
    return w * (1 - 0.05 * 0.1) - 0.05 * moments(g, s, t)


def lamb(w, g, s, t):
    step = moments(g, s, t, eps=1e-6) + 0.01 * w
    return w - 0.05 * np.linalg.norm(w) / np.linalg.norm(step) * step


def lars(w, g, s, t):
    ratio = 0.001 * np.linalg.norm(w) / (np.linalg.norm(g) + 1e-4 * np.linalg.norm(w))
    s["b"] = 0.9 * slot(s, "b") + 0.05 * ratio * (g + 1e-4 * w)
    return w - s["b"]


def lion(w, g, s, t):
    step = np.sign(0.9 * slot(s, "m") + 0.1 * g)
    s["m"] = 0.99 * s["m"] + 0.01 * g
    return w * (1 - 0.05 * 0.1) - 0.05 * step


def rmsprop(w, g, s, t):
    s["v"] = 0.99 * slot(s, "v") + 0.01 * g * g
    s["mean"] = 0.99 * slot(s, "mean") + 0.01 * g
    s["b"] = 0.5 * slot(s, "b") + g / (np.sqrt(s["v"] - s["mean"] ** 2) + 1e-8)
    return w - 0.01 * s["b"]


def adagrad(w, g, s, t):
    g = g + 0.1 * w
    s["v"] = slot(s, "v") + g * g
    return w - 0.1 / (1 + (t - 1) * 0.1) * g / (np.sqrt(s["v"]) + 1e-10)


def muon(w, g, s, t):
    s["b"] = 0.95 * slot(s, "b") + 0.05 * g
    u = (0.95 * s["b"] + 0.05 * g).T
    u = u / np.linalg.norm(u)
    for _ in range(5):
        gram = u @ u.T
        u = 3.4445 * u + (-4.775 * gram + 2.0315 * gram @ gram) @ u
    return w * (1 - 0.05 * 0.1) - 0.05 * math.sqrt(4 / 3) * u.T


@pytest.mark.parametrize(
    "make, update",
    [
        (lambda p: optim.SGD(p, 0.05), lambda w, g, s, t: w - 0.05 * g),
        (lambda p: optim.SGD(p, 0.05, 0.9, 0.01, nesterov=True), sgd),
        (lambda p: optim.SGD(p, 0.05, momentum=0.9, classic=True), classic),
        (lambda p: optim.Adam(p, lr=0.05), adam),
        (lambda p: optim.Adam(p, lr=0.05, betas=(0.9, 0.999)), adam),
        (lambda p: optim.AdamW(p, lr=0.05, weight_decay=0.1), adamw),
        (lambda p: optim.LAMB(p, lr=0.05, weight_decay=0.01), lamb),
        (lambda p: optim.LAMB(p, lr=0.05, eps=1e-8, adam=True), adam),
        (lambda p: optim.LARS(p, lr=0.05), lars),
        (lambda p: optim.Lion(p, lr=0.05, weight_decay=0.1), lion),
        (lambda p: optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True), rmsprop),
        (lambda p: optim.Adagrad(p, lr=0.1, lr_decay=0.1, weight_decay=0.1), adagrad),
        (lambda p: optim.Muon(p, lr=0.05), muon),
    ],
)
def test_steps(make, update):
    np.testing.assert_allclose(trained(make), expected(update), rtol=2e-4, atol=2e-5)


def test_parameters_of_two_bytes_have_state_of_four():
    opts = []
    w = trained(lambda p: opts.append(optim.AdamW(p, lr=0.05, weight_decay=0.1)) or opts[0], dtype=dtypes.bfloat16)
    assert opts[0].m[0].dtype == dtypes.float32 and opts[0].params[0].dtype == dtypes.bfloat16
    np.testing.assert_allclose(w, expected(adamw), atol=0.05)


def test_a_group_steps_together():
    a, b, c = Tensor([1.0]), Tensor([2.0]), Tensor([3.0]).is_param_(False)
    group = optim.OptimizerGroup(optim.SGD([a, c], lr=0.5), optim.SGD([b], lr=0.25))
    (a * a + b * b).sum().backward()
    group.step()
    assert (a.item(), b.item(), c.item()) == (0.0, 1.0, 3.0)
    assert group[1].lr.item() == 0.25 and len(group.params) == 2 and len(group.buffers) == 1
    group.zero_grad()


def test_what_is_not_trained_is_left_alone():
    a, b = Tensor([1.0]), Tensor([2.0])
    opt = optim.SGD([a, b, a], lr=0.5)
    assert len(opt.params) == 2
    (a * 3).sum().backward()
    opt.step()
    assert (a.item(), b.item()) == (-0.5, 2.0) and b.grad is None
    opt.zero_grad()
    with pytest.raises(RuntimeError, match="no parameter has a gradient"):
        opt.step()
    with pytest.raises(ValueError, match="nothing to optimise"):
        optim.SGD([])
    with pytest.raises(ValueError, match="nothing to optimise"):
        optim.SGD([Tensor([1, 2])])
    with pytest.raises(TypeError, match="takes tensors, not float"):
        optim.SGD([1.0])


def test_schedules():
    def rates(make, n=6):
        opt = optim.SGD([Tensor([1.0])], lr=0.1)
        s, seen = make(opt), []
        for _ in range(n):
            seen.append(opt.lr.item())
            s.step()
        return seen

    def same(a, b):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-9)

    same(rates(lambda o: schedule.StepLR(o, 2, 0.5)), [0.1, 0.1, 0.05, 0.05, 0.025, 0.025])
    same(rates(lambda o: schedule.MultiStepLR(o, [1, 4])), [0.1, 0.01, 0.01, 0.01, 0.001, 0.001])
    same(rates(lambda o: schedule.ExponentialLR(o, 0.5)), [0.1 * 0.5**i for i in range(6)])
    same(rates(lambda o: schedule.LambdaLR(o, lambda i: 1 / (i + 1))), [0.1 / (i + 1) for i in range(6)])
    same(
        rates(lambda o: schedule.CosineAnnealingLR(o, 4)),
        [0.05 * (1 + math.cos(math.pi * min(i / 4, 1))) for i in range(6)],
    )
    same(rates(lambda o: schedule.LinearLR(o, 0.5, 1.0, 4)), [0.05, 0.0625, 0.075, 0.0875, 0.1, 0.1])
    warm = lambda o: schedule.WarmupLR(o, 2, then=schedule.StepLR(o, 1, 0.5))
    same(rates(warm), [0.0, 0.05, 0.1, 0.05, 0.025, 0.0125])
    one = rates(lambda o: schedule.OneCycleLR(o, 1.0, 10), 10)
    assert max(one) == 1.0 and one[0] == pytest.approx(0.04) and one[-1] == pytest.approx(4e-6)


def test_a_plateau_lowers_the_rate():
    opt = optim.SGD([Tensor([1.0])], lr=0.1)
    s = schedule.ReduceLROnPlateau(opt, patience=1, factor=0.5)
    for loss in (1.0, 0.9, 0.9, 0.9, 0.9, 0.9):
        s.step(loss)
    assert opt.lr.item() == pytest.approx(0.025)


def test_clipping():
    a, b = Tensor([3.0]), Tensor([4.0])
    (a * a / 2 + b * b / 2).sum().backward()
    assert optim.clip_grad_norm_([a, b], 1.0).item() == pytest.approx(5.0)
    assert a.grad.item() == pytest.approx(0.6, abs=1e-5) and b.grad.item() == pytest.approx(0.8, abs=1e-5)
    optim.clip_grad_value_([a, b], 0.7)
    assert b.grad.item() == pytest.approx(0.7)


def test_gradients_stay_after_a_step_and_add_up():
    w = Tensor([1.0, 2.0])
    opt = optim.SGD([w], lr=0.5)
    (w * w).sum().backward()
    opt.step()
    assert w.grad.tolist() == [2.0, 4.0] and w.tolist() == [0.0, 0.0]
    (w * 3).sum().backward()
    opt.step()
    assert w.grad.tolist() == [5.0, 7.0] and w.tolist() == [-2.5, -3.5]
    opt.zero_grad()
    assert w.grad is None


def test_a_recorded_step_takes_its_gradients():
    w = Tensor([8.0])
    opt = optim.SGD([w], lr=0.25)

    @TinyJit
    def step():
        (w * w).sum().backward()
        opt.step()
        assert w.grad is None

    for i in range(1, 6):
        step()
        assert w.item() == 8 * 0.5**i


def test_a_recorded_step_sees_another_rate():
    w = Tensor([0.0])
    opt = optim.SGD([w], lr=1.0)

    @TinyJit
    def step(x):
        (w * x).sum().backward()
        opt.step()

    with Context(TRAINING=1):
        for _ in range(4):
            step(Tensor([1.0]))
        assert w.item() == -4.0
        for i in range(3):
            opt.lr.assign(Tensor([0.5])).realize()
            step(Tensor([1.0]))
    assert w.item() == -5.5


def test_training_lowers_the_loss_of_a_network():
    Tensor.manual_seed(3)
    model = nn.Sequential(nn.Linear(2, 8), Tensor.tanh, nn.Linear(8, 1))
    x, y = Tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]]), Tensor([[0.0], [1], [1], [0]])
    opt = optim.Adam(nn.state.get_parameters(model), lr=0.05)

    @TinyJit
    @Tensor.train()
    def step():
        opt.zero_grad()
        loss = (model(x) - y).square().mean().backward()
        opt.step()
        return loss

    losses = [step().item() for _ in range(100)]
    assert losses[-1] < 0.05 < losses[0]
