"""Learning rates that change with the steps; names and values are torch's.

>>> opt = Adam(params, lr=1e-3)
>>> rate = CosineAnnealingLR(opt, T_max=100)
>>> for x, y in batches:
...     train(x, y)
...     rate.step()
"""

import math

__all__ = [
    "CosineAnnealingLR",
    "ExponentialLR",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "OneCycleLR",
    "ReduceLROnPlateau",
    "StepLR",
    "WarmupLR",
]


class _Schedule:
    """A function from the number of steps made to the learning rate."""

    def __init__(self, optimizer, lr=None):
        self.optimizer, self.epoch_counter = optimizer, 0
        self.base = float(optimizer.lr.item()) if lr is None else lr
        self._set()

    def _set(self):
        self.last = self.get_lr()
        self.optimizer.lr.assign(self.optimizer.lr.full_like(self.last)).realize()

    def get_lr(self):
        """The learning rate now."""
        return self.base * self._factor(self.epoch_counter)

    def step(self):
        """Goes one step on."""
        self.epoch_counter += 1
        self._set()


class LambdaLR(_Schedule):
    """What a function of the step says, times the first learning rate."""

    def __init__(self, optimizer, lr_lambda):
        self._factor = lr_lambda
        super().__init__(optimizer)


class StepLR(_Schedule):
    """Times gamma after every step_size steps."""

    def __init__(self, optimizer, step_size, gamma=0.1):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer)

    def _factor(self, n):
        return self.gamma ** (n // self.step_size)


class MultiStepLR(_Schedule):
    """Times gamma at each of some steps."""

    def __init__(self, optimizer, milestones, gamma=0.1):
        self.milestones, self.gamma = list(milestones), gamma
        super().__init__(optimizer)

    def _factor(self, n):
        return self.gamma ** sum(m <= n for m in self.milestones)


class ExponentialLR(_Schedule):
    """Times gamma at every step."""

    def __init__(self, optimizer, gamma):
        self.gamma = gamma
        super().__init__(optimizer)

    def _factor(self, n):
        return self.gamma**n


class CosineAnnealingLR(_Schedule):
    """Along half a cosine to eta_min in T_max steps; then it stays."""

    def __init__(self, optimizer, T_max, eta_min=0.0):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer)

    def get_lr(self):
        """The learning rate now."""
        return _cosine(self.base, self.eta_min, min(self.epoch_counter / max(self.T_max, 1), 1.0))


class LinearLR(_Schedule):
    """In a straight line from one part of the learning rate to another in total_iters steps; then it stays."""

    def __init__(self, optimizer, start_factor=1 / 3, end_factor=1.0, total_iters=5):
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer)

    def _factor(self, n):
        part = min(n / max(self.total_iters, 1), 1.0)
        return self.start_factor + (self.end_factor - self.start_factor) * part


class OneCycleLR(_Schedule):
    """Up from max_lr / div_factor to max_lr, then down to a final_div_factor-th of where it started."""

    def __init__(
        self, optimizer, max_lr, total_steps, pct_start=0.3, anneal_strategy="cos", div_factor=25.0, final_div_factor=1e4
    ):
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy {anneal_strategy!r}: expected 'cos' or 'linear'")
        self.total_steps, self.pct_start = total_steps, pct_start
        self.between = _cosine if anneal_strategy == "cos" else _line
        self.max_lr, self.first = max_lr, max_lr / div_factor
        self.final = self.first / final_div_factor
        super().__init__(optimizer, self.first)

    def get_lr(self):
        """The learning rate now."""
        last = self.total_steps - 1
        peak, n = max(self.pct_start * self.total_steps - 1, 0.0), min(self.epoch_counter, last)
        if n <= peak:
            return self.between(self.first, self.max_lr, n / peak if peak else 1.0)
        return self.between(self.max_lr, self.final, (n - peak) / (last - peak))


class WarmupLR(_Schedule):
    """In a straight line from start_factor of the learning rate up to it in so many steps, then another schedule."""

    def __init__(self, optimizer, steps, start_factor=0.0, then=None):
        self.steps, self.start_factor, self.then = steps, start_factor, then
        super().__init__(optimizer, then.get_lr() if then else None)

    def _factor(self, n):
        return self.start_factor + (1 - self.start_factor) * min(n / max(self.steps, 1), 1.0)

    def step(self):
        """Goes one step on."""
        if self.then is not None and self.epoch_counter >= self.steps:
            self.then.step()
        else:
            super().step()


class ReduceLROnPlateau:
    """Times factor whenever something watched stops getting better."""

    def __init__(
        self,
        optimizer,
        mode="min",
        factor=0.1,
        patience=10,
        threshold=1e-4,
        threshold_mode="rel",
        cooldown=0,
        min_lr=0.0,
    ):
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ValueError(f"mode {mode!r}, threshold_mode {threshold_mode!r}: expected min or max, rel or abs")
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.relative, self.cooldown, self.min_lr = threshold, threshold_mode == "rel", cooldown, min_lr
        self.best, self.bad, self.cooling, self.lr = None, 0, 0, float(optimizer.lr.item())

    def _is_better(self, v):
        if self.best is None:
            return not math.isnan(v)
        sign = -1 if self.mode == "min" else 1
        margin = self.best * self.threshold if self.relative else self.threshold
        return sign * v > sign * (self.best + sign * margin)

    def step(self, current):
        """Takes notice of the latest value, a validation loss."""
        v = float(current.item() if hasattr(current, "item") else current)
        if self._is_better(v):
            self.best, self.bad = v, 0
        else:
            self.bad += 1
        if self.cooling > 0:
            self.cooling, self.bad = self.cooling - 1, 0
        if self.bad > self.patience:
            lower = max(self.lr * self.factor, self.min_lr)
            if self.lr - lower > 1e-8:
                self.lr = lower
                self.optimizer.lr.assign(self.optimizer.lr.full_like(lower)).realize()
            self.cooling, self.bad = self.cooldown, 0


def _line(a, b, part):
    return a + (b - a) * part


def _cosine(a, b, part):
    return b + (a - b) * (1 + math.cos(math.pi * part)) / 2
