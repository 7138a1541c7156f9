"""Optimisers: from gradients to better parameters.

A step computes new versions of all parameters and of what the optimiser remembers in one run, and takes the gradients:
the next ``backward`` starts from nothing. What is remembered is float32 whatever the parameters are. The learning rate
``lr`` is a tensor; assigning to it changes the next step and compiles nothing.
"""

import math

from frit import _frit
from frit._frit import Tensor
from frit.dtype import dtypes

__all__ = [
    "Adagrad",
    "Adam",
    "AdamW",
    "LAMB",
    "LARS",
    "Lion",
    "Muon",
    "Optimizer",
    "OptimizerGroup",
    "RMSprop",
    "SGD",
    "clip_grad_norm_",
    "clip_grad_value_",
]


def _once(tensors):
    """Each tensor once, in order."""
    return list({id(t): t for t in tensors}.values())


class Optimizer:
    """What all optimisers share: parameters, the learning rate, the order of a step.

    Tensors with ``requires_grad=False`` among the parameters are not trained; they are computed with each step, as the
    running statistics of batch norms must be.
    """

    def __init__(self, params, lr, device=None, fused=False):
        params = _once([params] if isinstance(params, Tensor) else params)
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"an optimiser takes tensors, not {type(p).__name__}")
        self.params = [p for p in params if p.is_param and p.is_floating_point()]
        if not self.params:
            raise ValueError("nothing to optimise: no tensor here wants a gradient")
        trained = {id(p) for p in self.params}
        self.buffers = [p for p in params if id(p) not in trained]
        if not isinstance(lr, Tensor) and not lr >= 0:
            raise ValueError(f"a learning rate of {lr}")
        self.device, self.fused = device or self.params[0].device, fused
        for p in self.params:
            p.requires_grad_(True)
        # drawn at random they are only a description so far
        self.params[0].realize(*self.params[1:], *self.buffers)
        self.lr = self._filled((1,), lr)

    def _filled(self, shape, value):
        """Float32 state in memory."""
        t = Tensor.full(shape, float(value), dtype=dtypes.float32, device=self.device)
        return t.contiguous().is_param_(False).realize()

    def _slots(self, value=0.0):
        """State in the shape of each parameter."""
        return [self._filled(p.shape, value) for p in self.params]

    def zero_grad(self):
        """Forgets all gradients."""
        for p in self.params:
            p.grad = None

    def step(self):
        """Updates every parameter that has a gradient. The gradients stay until ``zero_grad``; inside a Jit they are taken.

        What else was made of the parameters and is still held, the loss, predictions, is computed in the same run.
        """
        grads = [p.grad for p in self.params]
        known = [g for g in grads if g is not None]
        held = _frit.waiting(self.params, known + self.buffers)
        if _frit.is_in_jit():
            # what a recording leaves behind outside of it would be frozen there
            grads = known = []
        first, *others = self.schedule_step()
        # computed now: a gradient that is only a description would keep the old parameters from being overwritten
        first.realize(*others, *held, *known)
        for p, g in zip(self.params, grads):
            p.grad = g

    def schedule_step(self):
        """Builds a step without running it, and takes the gradients: every tensor it changes, to be realised together."""
        grads = [p.grad for p in self.params]
        if all(g is None for g in grads):
            raise RuntimeError("step: no parameter has a gradient; call backward first")
        # a gradient that is held would keep the old parameters from being overwritten
        self.zero_grad()
        changed = self._begin()
        for i, (p, g) in enumerate(zip(self.params, grads)):
            if g is None:
                continue
            value, state = self._update(i, p.detach().float(), g.float())
            p.assign(value.cast(p.dtype))
            changed += state
        return self.params + changed + self.buffers

    def _begin(self):
        """What all parameters share goes forward; the tensors that changed."""
        return []

    def _update(self, i, value, grad):
        """The new value of parameter i, and the state that changed."""
        raise NotImplementedError(f"{type(self).__name__} does not say how parameters change")


class OptimizerGroup(Optimizer):
    """Several optimisers that step together, in one run: parameters in groups with options of their own."""

    def __init__(self, *optimizers):
        self.optimizers = optimizers
        self.params = [p for o in optimizers for p in o.params]
        self.buffers = [b for o in optimizers for b in o.buffers]

    def __getitem__(self, i):
        return self.optimizers[i]

    def schedule_step(self):
        """Builds a step of each."""
        return [t for o in self.optimizers for t in o.schedule_step()]


def _remember(slot, value):
    """Gives a slot a new value, and that value: what uses it need not wait for the slot to be written."""
    slot.assign(value)
    return value


def _length(t):
    return t.square().sum().sqrt()


def _trust(of_value, of_step, scale=1.0, below=None):
    """How far a step may go for a parameter of this length; 1 where either length is 0."""
    known = (of_value > 0).logical_and(of_step > 0)
    below = known.where(of_step if below is None else below, 1.0)
    return known.where(of_value * scale / below, 1.0)


class SGD(Optimizer):
    """Gradient descent with momentum and weight decay; values are torch's.

    ``classic`` multiplies by the learning rate before the momentum in place of after it.
    """

    def __init__(
        self, params, lr=0.001, momentum=0.0, weight_decay=0.0, nesterov=False, classic=False, device=None, fused=False
    ):
        super().__init__(params, lr, device, fused)
        self.momentum, self.wd, self.nesterov, self.classic = momentum, weight_decay, nesterov, classic
        self.b = self._slots() if momentum else []

    def _update(self, i, value, grad):
        if self.wd:
            grad = grad + value * self.wd
        return self._momentum(i, value, grad)

    def _momentum(self, i, value, grad):
        step, state = grad * self.lr if self.classic else grad, []
        if self.momentum:
            moved = _remember(self.b[i], self.b[i] * self.momentum + step)
            step, state = (step + moved * self.momentum if self.nesterov else moved), [self.b[i]]
        return value - (step if self.classic else step * self.lr), state


class LARS(SGD):
    """SGD with a rate of its own for each parameter, by the ratio of its length to that of its gradient."""

    def __init__(
        self,
        params,
        lr=0.001,
        momentum=0.9,
        weight_decay=1e-4,
        ns_steps=0,
        ns_coefficients=None,
        nesterov=False,
        classic=True,
        pre_wd=True,
        tcoef=0.001,
        device=None,
        fused=False,
    ):
        super().__init__(params, lr, momentum, weight_decay, nesterov, classic, device, fused)
        if ns_steps:
            raise ValueError("LARS takes no Newton-Schulz steps: see Muon")
        self.tcoef, self.pre_wd = tcoef, pre_wd

    def _update(self, i, value, grad):
        of_value, of_grad = _length(value), _length(grad)
        ratio = _trust(of_value, of_grad, self.tcoef, of_grad + of_value * self.wd) if self.tcoef else 1.0
        if self.pre_wd and self.wd:
            grad = grad + value * self.wd
        elif self.wd:
            value = value - value * (self.lr * self.wd)
        return self._momentum(i, value, grad * ratio)


class Muon(Optimizer):
    """Momentum whose direction is made orthogonal, for matrices; values are torch's.

    Parameters of one dim, or none, go along their momentum as it is.
    """

    def __init__(
        self,
        params,
        lr=0.001,
        momentum=0.95,
        weight_decay=0.1,
        ns_steps=5,
        ns_coefficients=(3.4445, -4.775, 2.0315),
        nesterov=True,
        device=None,
        fused=False,
    ):
        super().__init__(params, lr, device, fused)
        self.momentum, self.wd, self.nesterov = momentum, weight_decay, nesterov
        self.ns_steps, self.ns_coefficients = ns_steps, ns_coefficients
        self.b = self._slots()

    def _update(self, i, value, grad):
        mix = lambda b: b * self.momentum + grad * (1 - self.momentum)
        b = _remember(self.b[i], mix(self.b[i]))
        u, scale = mix(b) if self.nesterov else b, 1.0
        if u.ndim > 1:
            u = u.flatten(1)
            scale = max(1.0, u.shape[0] / max(u.shape[1], 1)) ** 0.5
            u = (self._orthogonal(u) if u.shape[0] <= u.shape[1] else self._orthogonal(u.T).T).reshape(value.shape)
        return value - value * (self.lr * self.wd) - u * (self.lr * scale), [self.b[i]]

    def _orthogonal(self, u):
        a, b, c = self.ns_coefficients
        u = u / _length(u).maximum(1e-7)
        for _ in range(self.ns_steps):
            gram = u @ u.T
            u = u * a + (gram * b + gram @ gram * c) @ u
        return u


class _Moments(Optimizer):
    """Optimisers that follow the mean of the gradient and of its square, and count their steps."""

    def __init__(self, params, lr, b1, b2, eps, weight_decay, betas, device, fused):
        super().__init__(params, lr, device, fused)
        self.b1, self.b2 = (b1, b2) if betas is None else betas
        self.eps, self.wd = eps, weight_decay
        self.t = self._filled((1,), 0)
        self.m, self.v = self._slots(), self._slots()

    def _begin(self):
        self.t.assign(self.t + 1)
        return [self.t]

    @property
    def b1_t(self):
        """The first beta to the power of the number of steps."""
        return self.b1**self.t

    @property
    def b2_t(self):
        """The second beta to the power of the number of steps."""
        return self.b2**self.t

    def _correction(self, beta):
        """1 - beta^t by way of expm1: the plain form loses four digits in float32."""
        return -(self.t * math.log(beta)).expm1() if beta > 0 else 1.0

    def _direction(self, i, grad):
        """The mean over the root of the mean square, both corrected for having started at zero."""
        m = _remember(self.m[i], self.m[i] + (grad - self.m[i]) * (1 - self.b1))
        v = _remember(self.v[i], self.v[i] * self.b2 + grad.square() * (1 - self.b2))
        scale = v.sqrt() / (self._correction(self.b2) ** 0.5) + self.eps
        return m / self._correction(self.b1) / scale, [self.m[i], self.v[i]]


class Adam(_Moments):
    """Steps by the mean of the gradient over the root of its mean square; values are torch's."""

    def __init__(
        self, params, lr=0.001, b1=0.9, b2=0.999, eps=1e-8, device=None, fused=False, *, betas=None, weight_decay=0.0
    ):
        super().__init__(params, lr, b1, b2, eps, weight_decay, betas, device, fused)

    def _update(self, i, value, grad):
        if self.wd:
            grad = grad + value * self.wd
        direction, state = self._direction(i, grad)
        return value - direction * self.lr, state


class AdamW(_Moments):
    """Adam with weight decay apart from the gradient; values are torch's."""

    def __init__(
        self, params, lr=0.001, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.01, device=None, fused=False, *, betas=None
    ):
        super().__init__(params, lr, b1, b2, eps, weight_decay, betas, device, fused)

    def _update(self, i, value, grad):
        direction, state = self._direction(i, grad)
        if self.wd:
            value = value - value * (self.lr * self.wd)
        return value - direction * self.lr, state


class LAMB(_Moments):
    """Adam with a rate of its own for each parameter, by the ratio of its length to that of its step."""

    def __init__(
        self,
        params,
        lr=0.001,
        b1=0.9,
        b2=0.999,
        eps=1e-6,
        weight_decay=0.0,
        adam=False,
        device=None,
        fused=False,
        *,
        betas=None,
    ):
        super().__init__(params, lr, b1, b2, eps, weight_decay, betas, device, fused)
        self.adam = adam

    def _update(self, i, value, grad):
        direction, state = self._direction(i, grad)
        step = direction + value * self.wd if self.wd else direction
        ratio = 1.0 if self.adam else _trust(_length(value), _length(step))
        return value - step * (self.lr * ratio), state


class Lion(Optimizer):
    """Steps of one size along the sign of a mean of the gradient."""

    def __init__(self, params, lr=1e-4, b1=0.9, b2=0.99, weight_decay=0.0, device=None, fused=False, *, betas=None):
        super().__init__(params, lr, device, fused)
        self.b1, self.b2 = (b1, b2) if betas is None else betas
        self.wd, self.m = weight_decay, self._slots()

    def _update(self, i, value, grad):
        m = self.m[i]
        sign = (m * self.b1 + grad * (1 - self.b1)).sign()
        m.assign(m * self.b2 + grad * (1 - self.b2))
        if self.wd:
            value = value - value * (self.lr * self.wd)
        return value - sign * self.lr, [m]


class RMSprop(Optimizer):
    """Divides by the root of the mean square of the gradient; values are torch's."""

    def __init__(
        self,
        params,
        lr=0.01,
        alpha=0.99,
        eps=1e-8,
        weight_decay=0.0,
        momentum=0.0,
        centered=False,
        device=None,
        fused=False,
    ):
        super().__init__(params, lr, device, fused)
        self.alpha, self.eps, self.wd, self.momentum = alpha, eps, weight_decay, momentum
        self.v = self._slots()
        self.mean = self._slots() if centered else []
        self.b = self._slots() if momentum else []

    def _update(self, i, value, grad):
        if self.wd:
            grad = grad + value * self.wd
        spread = _remember(self.v[i], self.v[i] * self.alpha + grad.square() * (1 - self.alpha))
        state = [self.v[i]]
        if self.mean:
            mean = _remember(self.mean[i], self.mean[i] + (grad - self.mean[i]) * (1 - self.alpha))
            spread, state = spread - mean.square(), state + [self.mean[i]]
        step = grad / (spread.sqrt() + self.eps)
        if self.b:
            step, state = _remember(self.b[i], self.b[i] * self.momentum + step), state + [self.b[i]]
        return value - step * self.lr, state


class Adagrad(Optimizer):
    """Divides by the root of the sum of all squares of the gradient; values are torch's."""

    def __init__(
        self,
        params,
        lr=0.01,
        lr_decay=0.0,
        weight_decay=0.0,
        initial_accumulator_value=0.0,
        eps=1e-10,
        device=None,
        fused=False,
    ):
        super().__init__(params, lr, device, fused)
        self.lr_decay, self.wd, self.eps = lr_decay, weight_decay, eps
        self.t, self.v = self._filled((1,), 0), self._slots(initial_accumulator_value)

    def _begin(self):
        self.t.assign(self.t + 1)
        return [self.t]

    def _update(self, i, value, grad):
        if self.wd:
            grad = grad + value * self.wd
        total = _remember(self.v[i], self.v[i] + grad.square())
        rate = self.lr / ((self.t - 1) * self.lr_decay + 1) if self.lr_decay else self.lr
        return value - grad / (total.sqrt() + self.eps) * rate, [self.v[i]]


def clip_grad_norm_(params, max_norm, norm_type=2.0):
    """Scales the gradients so that all together are at most so long; gives their length back."""
    params = [p for p in ([params] if isinstance(params, Tensor) else list(params)) if p.grad is not None]
    if not params:
        return Tensor(0.0)
    sizes = [p.grad.float().abs() for p in params]
    if norm_type == math.inf:
        total = Tensor.stack(*(s.max() for s in sizes)).max()
    else:
        total = Tensor.stack(*((s**norm_type).sum() for s in sizes)).sum() ** (1 / norm_type)
    scale = (max_norm / (total + 1e-6)).minimum(1.0)
    for p in params:
        p.grad = (p.grad * scale).cast(p.grad.dtype)
    return total


def clip_grad_value_(params, clip_value):
    """Cuts every element of the gradients to between -clip_value and clip_value."""
    for p in [params] if isinstance(params, Tensor) else params:
        if p.grad is not None:
            p.grad = p.grad.clamp(-clip_value, clip_value)
