"""``@function``: a Python function as a call in the graph."""

import pytest

from frit import Tensor, TinyJit, function


def _w():
    return Tensor([[1.0, -2.0], [0.5, 3.0]])


def test_a_call_gives_what_the_function_gives():
    w = _w()

    @function
    def layer(x, *, scale, parts):
        """Says so."""
        return {"y": (x @ w).relu() * scale, "rest": [parts[0] + 1, parts[1], "text"]}

    x = Tensor([[1.0, 2.0]])
    got = layer(x, scale=2, parts=(x, x * 3))
    assert layer.__name__ == "layer" and layer.__doc__ == "Says so."
    assert got["y"].tolist() == ((x @ w).relu() * 2).tolist()
    assert got["rest"][0].tolist() == [[2.0, 3.0]] and got["rest"][1].tolist() == [[3.0, 6.0]]
    assert got["rest"][2] == "text"


def test_gradients_of_first_and_second_order_reach_arguments_and_captures():
    x, w = Tensor([[0.1, 0.2], [0.3, -0.4]]), _w()
    plain = lambda x: ((x @ w) * x).tanh()
    called = function(plain)

    def both(f):
        g = f(x).square().sum().gradient(x, w)
        return [*g, *((g[0] * g[0]).sum() + g[1].sum()).gradient(x, w)]

    for a, b in zip(both(called), both(plain)):
        assert (a - b).abs().max().item() < 1e-4


def test_backward_fills_grad():
    w = _w()
    w.requires_grad = True
    function(lambda x: (x @ w).sum())(Tensor.ones(1, 2)).backward()
    assert w.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_methods_nesting_and_a_jit():
    class Block:
        def __init__(self, w):
            self.w = w

        @function(precompile=True)
        def __call__(self, x):
            return self.inner(x) + 1

        @function
        def inner(self, x):
            return x @ self.w

    blocks = [Block(_w() * k) for k in (1, 2, 3)]

    def model(x):
        for b in blocks:
            x = b(x)
        return x.realize()

    def plain(x):
        for b in blocks:
            x = x @ b.w + 1
        return x.tolist()

    jit = TinyJit(model)
    for i in range(5):
        x = Tensor([[float(i), 1.0]]).realize()
        assert jit(x).tolist() == plain(x)


def test_what_it_reads_besides_tensors_is_read_at_each_call():
    k = [2.0]
    f = function(lambda x: x * k[0])
    x = Tensor([1.0])
    assert f(x).item() == 2.0
    k[0] = 5.0
    assert f(x).item() == 5.0


def test_errors():
    x = Tensor([1.0, 2.0])
    with pytest.raises(RuntimeError, match="no numbers"):
        function(lambda x: x * x.sum().item())(x)
    with pytest.raises(ZeroDivisionError):
        function(lambda x: x * (1 // 0))(x)

    def assigns(x):
        x += 1
        return x

    with pytest.raises(RuntimeError, match="assigned to"):
        function(assigns)(x)
    assert x.tolist() == [1.0, 2.0]
