"""TinyJit: replays give what plain calls give; structures, methods, sizes, pickles, threads."""

import collections
import dataclasses
import gc
import pickle
import sys
import threading
import weakref

import numpy as np
import pytest

from frit import Context, GlobalCounters, JitError, Tensor, TinyJit, Variable, nn


def test_functions_methods_and_keywords():
    entered = []

    @TinyJit
    def add(a, b, *, scale=None):
        entered.append(1)
        return a + b if scale is None else (a + b) * scale

    for i in range(5):
        assert add(Tensor([i]), Tensor([1])).tolist() == [i + 1]
    assert len(entered) == 2 and add.cnt == 5 and add.captured == [1]
    for i in range(5):
        assert add(Tensor([i]), b=Tensor([1]), scale=Tensor([2])).tolist() == [2 * (i + 1)]
    assert len(entered) == 4
    assert add.__name__ == "add" and "add" in repr(add) and add.fxn is add.__wrapped__
    add.reset()
    assert add.cnt == 0 and add.captured is None
    assert add(Tensor([[1]]), Tensor([[2]])).tolist() == [[3]]

    class Model:
        def __init__(self, w):
            self.w = Tensor([w])

        @TinyJit
        def __call__(self, x):
            return x * self.w

    one, two = Model(2.0), Model(3.0)
    for i in range(5):
        assert one(Tensor([float(i)])).item() == 2 * i and two(Tensor([float(i)])).item() == 3 * i


def test_numbers_choose_the_recording():
    @TinyJit
    def f(x, n, word="a"):
        return x * n + len(word)

    for i in range(12):
        n, word = i % 3, "ab"[: 1 + i % 2]
        assert f(Tensor([i]), n, word).item() == i * n + len(word)
    assert [f(Tensor([1]), v).item() for v in (1, True, 1, True, 1, True)] == [2] * 6


Pair = collections.namedtuple("Pair", "sum rest")


def test_nested_arguments_and_results():
    @TinyJit
    def f(all, named):
        total = all[0] + all[1][0] + named["x"]
        return Pair(total, {"twice": [total * 2, 7], "none": None, "name": "f"})

    for i in range(5):
        got = f([Tensor([i]), (Tensor([1]),)], {"x": Tensor([10])})
        assert isinstance(got, Pair) and got.sum.tolist() == [i + 11]
        assert got.rest["twice"][0].tolist() == [2 * (i + 11)] and got.rest["twice"][1] == 7
        assert got.rest["none"] is None and got.rest["name"] == "f"


def test_results_stay_and_state_is_written():
    total = Tensor([0.0])

    @TinyJit
    def f(x):
        total.assign(total + x)
        return total * 2

    kept = [f(Tensor([1.0])) for _ in range(5)]
    assert [k.item() for k in kept] == [2.0, 4.0, 6.0, 8.0, 10.0] and total.item() == 5.0
    held = total + 0
    f(Tensor([1.0]))
    assert held.item() == 5.0 and total.item() == 6.0


def test_random_numbers_go_on():
    def draws(jit):
        Tensor.manual_seed(5)
        f = lambda: Tensor.rand(4) + Tensor.rand(4)
        f = TinyJit(f) if jit else f
        return [f().tolist() for _ in range(6)]

    assert draws(True) == draws(False)


def test_another_shape_is_an_error_that_names_both():
    f = TinyJit(lambda x: x + 1)
    for _ in range(3):
        f(Tensor.zeros(2, 3))
    with pytest.raises(JitError, match=r"float32 \(2, 3\).*float32 \(3, 2\)"):
        f(Tensor.zeros(3, 2))
    with pytest.raises(RuntimeError):
        f(Tensor.zeros(2, 3, dtype="int"))
    assert f(Tensor.zeros(2, 3)).sum().item() == 6


def test_parts_of_one_size_are_inputs_of_one_kind():
    x, f = Tensor.arange(12).float().realize(), TinyJit(lambda a: a.sum())
    assert [f(x[i : i + 3]).item() for i in (0, 3, 6, 9, 0)] == [3, 12, 21, 30, 3]


def test_reading_while_it_records_is_an_error():
    f = TinyJit(lambda x: x * x.sum().item())
    f(Tensor([1.0]))
    with pytest.raises(RuntimeError):
        f(Tensor([1.0]))


def test_exceptions_of_the_function_come_out():
    def f(x):
        raise KeyError("mine")

    for _ in range(3):
        with pytest.raises(KeyError, match="mine"):
            TinyJit(f)(Tensor([1]))
    with pytest.raises(TypeError, match="make a Tensor of it"):
        TinyJit(lambda a: Tensor(a))(np.ones(3))
    with pytest.raises(TypeError):
        TinyJit(lambda x: x)(Tensor([1]), Tensor([2]))


def test_sizes_in_shapes_and_as_arguments():
    n = Variable("n", 1, 10)
    x = Tensor.arange(10).float().realize()
    total = TinyJit(lambda t: t.sum())
    for i in range(1, 11):
        assert total(x[: n.bind(i)]).item() == sum(range(i))
    assert total.cnt == 10 and len(total.captured) == 1

    upto = TinyJit(lambda t, k: t[:k].sum())
    for i in range(1, 11):
        assert upto(x, n.bind(i)).item() == sum(range(i))
    assert len(upto.captured) == 1

    cache = Tensor.zeros(10).contiguous().realize()

    @TinyJit
    def put(v, at):
        cache[at : at + 1] = v
        return cache[: at + 1].sum()

    at = Variable("at", 0, 9)
    for i in range(10):
        assert put(Tensor([float(i)]), at.bind(i)).item() == sum(range(i + 1))


def test_a_step_of_training_is_recorded_once():
    Tensor.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm(8), Tensor.relu, nn.Linear(8, 2))
    opt = nn.optim.Adam(nn.state.get_parameters(model), lr=0.01)
    entered = []

    @TinyJit
    @Tensor.train()
    def step(x, y):
        entered.append(1)
        opt.zero_grad()
        loss = model(x).sparse_categorical_crossentropy(y).backward()
        opt.step()
        return loss

    x, y = Tensor.randn(16, 4), Tensor([0, 1] * 8)
    losses = [step(x, y).item() for _ in range(20)]
    assert len(entered) == 2 and losses[-1] < losses[0]
    assert model[1].num_batches_tracked.item() == 20
    GlobalCounters.reset()
    step(x, y)
    assert GlobalCounters.kernel_count == step.captured[0] and GlobalCounters.global_ops > 0


def test_a_jit_in_a_jit():
    inner = TinyJit(lambda x: x + 1)
    outer = TinyJit(lambda x: inner(x) * 2)
    assert [outer(Tensor([i])).item() for i in range(5)] == [2, 4, 6, 8, 10]


def test_captured_ones_can_be_pickled():
    w = Tensor([1.0, 2.0])
    f = TinyJit(lambda x, scale: {"y": x * w * scale})
    with pytest.raises(JitError, match="call it twice"):
        pickle.dumps(f)
    for _ in range(3):
        f(Tensor.ones(2), 3)
    g = pickle.loads(pickle.dumps(f))
    assert g(Tensor([1.0, 10.0]), 3)["y"].tolist() == [3.0, 60.0]
    assert g.fxn is None
    with pytest.raises(JitError):
        g(Tensor([1.0, 10.0]), 4)
    with pytest.raises(JitError):
        g(Tensor([1.0]), 3)


class Plain:
    """An object that is equal to nothing but itself."""


@dataclasses.dataclass(frozen=True)
class Options:
    factor: int


def times(x, options):
    return x * getattr(options, "factor", 5)


def test_a_pickle_takes_no_file(monkeypatch, tmp_path):
    f = TinyJit(lambda x: x * 2)
    for i in range(2):
        f(Tensor([float(i)]).contiguous())
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    g = pickle.loads(pickle.dumps(f))
    assert g(Tensor([4.0]).contiguous()).tolist() == [8.0]


def test_a_pickle_that_was_changed_is_an_error():
    f = TinyJit(lambda x: x * 2)
    for i in range(2):
        f(Tensor([float(i)] * 8).contiguous())
    make, ((recording,),) = f.__reduce__()
    given, data, result = recording
    at = data.index(b"Range:index 8 ") + len(b"Range:index ")
    changed = bytearray(data[:-8])
    changed[at : at + 1] = b"9"
    total = 0xCBF29CE484222325
    for b in changed:
        total = (total ^ b) * 0x100000001B3 % 2**64
    with pytest.raises(JitError, match="not proven to be inside its 8 elements"):
        make([(given, bytes(changed) + total.to_bytes(8, "little"), result)])


def test_objects_and_sizes_are_pickled_with_a_jit():
    f, plain = TinyJit(times), Plain()
    for _ in range(3):
        f(Tensor([1, 2]), Options(3))
        f(Tensor([1, 2]), plain)
    g, same = pickle.loads(pickle.dumps((f, plain)))
    assert g(Tensor([1, 2]), Options(3)).tolist() == [3, 6] and g(Tensor([1, 2]), same).tolist() == [5, 10]
    for other in (Options(4), Plain()):
        with pytest.raises(JitError):
            g(Tensor([1, 2]), other)
    n, x = Variable("n", 1, 10), Tensor.arange(10).realize()
    upto = TinyJit(lambda t, k: t[:k].sum())
    for i in (1, 2, 3):
        upto(x, n.bind(i))
    again = pickle.loads(pickle.dumps(upto))
    assert [again(x, n.bind(i)).item() for i in (4, 9, 1)] == [6, 36, 0]


def test_sizes_among_the_results_take_their_new_values():
    n, x = Variable("n", 1, 10), Tensor.arange(10).realize()
    f = TinyJit(lambda t, k: (t[:k].sum(), k + 1, t.shape[0]))
    for i in range(1, 6):
        total, after, length = f(x[: n.bind(i)], n.bind(i))
        assert total.item() == sum(range(i)) and after == i + 1 and length == i
    with pytest.raises(JitError, match="gives sizes back"):
        pickle.dumps(f)


@pytest.mark.parametrize("device", ["CPU", "INTERP"])
def test_a_device_can_be_named_in_a_recording(device):
    entered = []

    @TinyJit
    def f(x):
        entered.append(1)
        return x + Tensor.ones(2, device=x.device) + Tensor.arange(2, device=device).to(x.device)

    for i in range(5):
        assert f(Tensor([i, i], device=device)).tolist() == [i + 1, i + 2]
    assert len(entered) == 2


def test_options_of_the_decorator():
    @TinyJit(prune=True)
    def f(x):
        return x + 1

    assert [f(Tensor([i])).item() for i in range(4)] == [1, 2, 3, 4] and f.__name__ == "f"
    with pytest.raises(TypeError):
        TinyJit()(3)


def test_objects_are_not_kept():
    class Model:
        @TinyJit
        def run(self, x):
            return x + 1

    m = Model()
    for _ in range(3):
        m.run(Tensor([1]))
    gone = weakref.ref(m)
    del m
    gc.collect()
    assert gone() is None


def test_threads_take_turns():
    total = Tensor([0.0])

    @TinyJit
    def add(x):
        total.assign(total + x)

    def work():
        for _ in range(20):
            add(Tensor([1.0]))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # one may replay before the one that recorded is back
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    assert total.item() == 80.0


def test_memory_is_flat():
    x = Tensor([1.0] * 1000).realize()
    f = TinyJit(lambda t: t * 2)
    for _ in range(5):
        f(x)
    before = GlobalCounters.mem_used
    for _ in range(200):
        f(x)
    assert GlobalCounters.mem_used <= before + 8192


def test_flags_in_a_recording():
    f = TinyJit(lambda x: x.dropout(0.5))
    with Context(TRAINING=1):
        Tensor.manual_seed(0)
        seen = {tuple(f(Tensor.ones(16)).tolist()) for _ in range(6)}
    assert len(seen) > 3
