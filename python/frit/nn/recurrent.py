"""Layers that walk along a sequence. The weights of a cell have torch's names and order."""

from frit._frit import Tensor
from frit.nn.layers import spread

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNCell"]


class _Cell:
    """A step: weights for the input and for the state of the step before, ``gates`` of them in one."""

    gates = 1

    def __init__(self, input_size, hidden_size, bias=True):
        self.hidden_size = hidden_size
        rows = self.gates * hidden_size
        self.weight_ih = spread(hidden_size, rows, input_size)
        self.weight_hh = spread(hidden_size, rows, hidden_size)
        self.bias_ih = spread(hidden_size, rows) if bias else None
        self.bias_hh = spread(hidden_size, rows) if bias else None

    def _zeros(self, x):
        return Tensor.zeros(*x.shape[:-1], self.hidden_size, dtype=x.dtype, device=x.device)

    def _inputs(self, x):
        return x.linear(self.weight_ih.T, self.bias_ih)

    def _state(self, h):
        return h.linear(self.weight_hh.T, self.bias_hh)


class LSTMCell(_Cell):
    """One step of an LSTM: (N, input_size) and a pair of (N, hidden_size) -> such a pair."""

    gates = 4

    def __call__(self, x, hc=None):
        h, c = (self._zeros(x), self._zeros(x)) if hc is None else hc
        i, f, g, o = (self._inputs(x) + self._state(h)).chunk(4, dim=-1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c


class GRUCell(_Cell):
    """One step of a GRU: (N, input_size), (N, hidden_size) -> (N, hidden_size)."""

    gates = 3

    def __call__(self, x, h=None):
        h = self._zeros(x) if h is None else h
        rx, zx, nx = self._inputs(x).chunk(3, dim=-1)
        rh, zh, nh = self._state(h).chunk(3, dim=-1)
        z = (zx + zh).sigmoid()
        n = (nx + (rx + rh).sigmoid() * nh).tanh()
        return (1 - z) * n + z * h


class RNNCell(_Cell):
    """One step of a plain network: (N, input_size), (N, hidden_size) -> (N, hidden_size)."""

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh"):
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"nonlinearity {nonlinearity!r}: expected 'tanh' or 'relu'")
        super().__init__(input_size, hidden_size, bias)
        self.nonlinearity = nonlinearity

    def __call__(self, x, h=None):
        h = self._zeros(x) if h is None else h
        y = self._inputs(x) + self._state(h)
        return y.tanh() if self.nonlinearity == "tanh" else y.relu()


class _Stack:
    """Cells along a sequence, layer after layer, each in one direction or both."""

    cell = RNNCell

    def __init__(
        self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False, **of_cell
    ):
        self.batch_first, self.dropout, self.ways = batch_first, dropout, 2 if bidirectional else 1
        sizes = [input_size] + [self.ways * hidden_size] * (num_layers - 1)
        self.cells = [[self.cell(n, hidden_size, bias, **of_cell) for _ in range(self.ways)] for n in sizes]

    def _walk(self, cell, steps, state):
        out = []
        for x in steps:
            state = cell(x, state)
            out.append(state[0] if isinstance(state, tuple) else state)
        return out, state

    def __call__(self, x, state=None):
        x = x.transpose(0, 1) if self.batch_first else x
        last = []
        for n, ways in enumerate(self.cells):
            steps, both = list(x.split(1, dim=0)), []
            steps = [s.squeeze(0) for s in steps]
            for w, cell in enumerate(ways):
                start = None if state is None else self._start(state, n * self.ways + w)
                out, end = self._walk(cell, steps[::-1] if w else steps, start)
                both.append(Tensor.stack(*(out[::-1] if w else out), dim=0))
                last.append(end)
            x = both[0] if self.ways == 1 else Tensor.cat(*both, dim=-1)
            x = x.dropout(self.dropout) if self.dropout and n + 1 < len(self.cells) else x
        return (x.transpose(0, 1) if self.batch_first else x), self._ends(last)

    def _start(self, state, i):
        return state[i]

    def _ends(self, last):
        return Tensor.stack(*last, dim=0)


class RNN(_Stack):
    """A plain network along a sequence: (T, N, input_size) -> (T, N, hidden_size), and the last state."""

    def __init__(self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", **options):
        super().__init__(input_size, hidden_size, num_layers, nonlinearity=nonlinearity, **options)


class GRU(_Stack):
    """A GRU along a sequence: (T, N, input_size) -> (T, N, hidden_size), and the last state."""

    cell = GRUCell


class LSTM(_Stack):
    """An LSTM along a sequence: (T, N, input_size) -> (T, N, hidden_size), and the last pair of states."""

    cell = LSTMCell

    def _start(self, state, i):
        return state[0][i], state[1][i]

    def _ends(self, last):
        return Tensor.stack(*(h for h, _ in last), dim=0), Tensor.stack(*(c for _, c in last), dim=0)
