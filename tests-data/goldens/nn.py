#!/usr/bin/env python3
"""Layers, optimisers, clipping and learning-rate schedules, for crates/nn/tests.

The same file format as the ops (see writer.py), read by crates/nn/tests/nn/goldens.rs alone:

    a layer        inputs are x0, x1, .. and the layer's state under its names; gradients are of all of them
    an optimiser   op `optim.NAME`; inputs are parameters p0, p1, .. and gradients g0, g1, .. with a leading dim of
                   steps; outputs are the parameters after every step
    clipping       inputs g0, g1, ..; outputs the total norm (if there is one) and the clipped gradients
    a schedule     op `schedule.NAME`; the output is the learning rate of every step, float64

torch has no LAMB, LARS and Lion; the functions here are the formulas of the papers. Muon's orthogonalisation is done
in float64 here (torch rounds it to bfloat16).
"""
import numpy as np
import torch
import torch.nn as nn

from writer import CASES, NAMES, f32, floats, i32, rng_of, text_of, write

# ---- layers ---------------------------------------------------------------------------------------------------

def unique(name):
    assert name not in NAMES, name
    NAMES.add(name)
    return rng_of(name)

def layer(op, variant, module, *inputs, call=None, train=False, **params):
    """A layer with random state, its results, and the gradients of inputs and parameters."""
    rng = unique(f"{op}/{variant}")
    xs = [x(rng) if callable(x) else x for x in inputs]
    module = module.train(train)
    with torch.no_grad():
        for name, t in module.state_dict().items():
            low, high = (.5, 2) if "var" in name else (-.6, .6)
            if t.is_floating_point(): t.copy_(torch.from_numpy(rng.uniform(low, high, tuple(t.shape))))
    state = [(name, t.clone()) for name, t in module.state_dict().items()]
    xs = [x.requires_grad_(True) if x.is_floating_point() else x for x in xs]
    outs = call(module, *xs) if call else module(*xs)
    outs = list(outs) if isinstance(outs, tuple) else [outs]
    weights = [torch.from_numpy(rng.uniform(-1, 1, tuple(o.shape)).astype(np.float32)) for o in outs]
    leaves = [(f"x{k}", x) for k, x in enumerate(xs) if x.is_floating_point()] + list(module.named_parameters())
    loss = sum((o * w).sum() for o, w in zip(outs, weights))
    found = torch.autograd.grad(loss, [x for _, x in leaves], allow_unused=True)
    grads = [(name, torch.zeros_like(x) if g is None else g) for (name, x), g in zip(leaves, found)]
    for name, t in [("out", o) for o in outs] + grads: assert torch.isfinite(t).all(), (op, variant, name)
    if train:              # what the statistics are afterwards
        after = [(name, t) for name, t in module.state_dict().items() if "running" in name]
        outs, weights = outs + [t for _, t in after], weights + [torch.zeros_like(t) for _, t in after]
    params |= dict(train=True) if train else {}
    CASES.append((f"{op}/{variant}", op, [f"{k}={text_of(v)}" for k, v in params.items()],
                  [(f"x{k}", x) for k, x in enumerate(xs)] + state,
                  [(f"out{k}", o) for k, o in enumerate(outs)], [(f"out{k}", w) for k, w in enumerate(weights)], grads))

def simple_layers():
    layer("linear", "5_3", nn.Linear(5, 3), floats(2, 4, 5), dims=[5, 3])
    layer("linear", "vector", nn.Linear(5, 3, bias=False), floats(5), dims=[5, 3], bias=False)
    layer("bilinear", "3_4_2", nn.Bilinear(3, 4, 2), floats(5, 3), floats(5, 4), dims=[3, 4, 2])
    layer("bilinear", "places", nn.Bilinear(2, 3, 4, bias=False), floats(2, 3, 2), floats(2, 3, 3), dims=[2, 3, 4], bias=False)
    layer("conv1d", "plain", nn.Conv1d(3, 4, 3), floats(2, 3, 8), dims=[3, 4], kernel=[3])
    layer("conv1d", "same", nn.Conv1d(2, 4, 4, padding="same", dilation=2, groups=2), floats(2, 2, 9), dims=[2, 4], kernel=[4],
          dilation=[2], groups=2, same=True)
    layer("conv2d", "strided", nn.Conv2d(3, 4, (3, 2), stride=(2, 1), padding=(1, 0)), floats(1, 3, 7, 6), dims=[3, 4],
          kernel=[3, 2], stride=[2, 1], padding=[1, 0])
    layer("conv3d", "plain", nn.Conv3d(2, 3, 2, stride=2, padding=1), floats(1, 2, 4, 3, 5), dims=[2, 3], kernel=[2, 2, 2],
          stride=[2, 2, 2], padding=[1, 1, 1])
    for n, (make, x) in {1: (nn.ConvTranspose1d, [2, 3, 5]), 2: (nn.ConvTranspose2d, [1, 3, 4, 3]), 3: (nn.ConvTranspose3d, [1, 3, 2, 3, 2])}.items():
        layer(f"conv_transpose{n}d", "plain", make(3, 2, 3), floats(*x), dims=[3, 2], kernel=[3] * n)
        layer(f"conv_transpose{n}d", "strided", make(3, 6, 2, stride=3, padding=1, output_padding=2, groups=3, dilation=2, bias=False),
              floats(*x), dims=[3, 6], kernel=[2] * n, stride=[3] * n, padding=[1] * n, output_padding=[2] * n, groups=3,
              dilation=[2] * n, bias=False)
    layer("embedding", "padded", nn.Embedding(6, 3, padding_idx=2), i32(0, 2, 5, 2, 0).reshape(1, 5), dims=[6, 3], padding=2)
    layer("embedding", "plain", nn.Embedding(4, 2), i32(3, 1, 1), dims=[4, 2])

def norms():
    layer("batchnorm", "train_4d", nn.BatchNorm2d(3), floats(2, 3, 4, 2), train=True, dims=[3])
    layer("batchnorm", "train_2d", nn.BatchNorm1d(3, affine=False, momentum=.3), floats(6, 3), train=True, dims=[3], affine=False, momentum=.3)
    layer("batchnorm", "eval_5d", nn.BatchNorm3d(2, eps=1e-3), floats(2, 2, 2, 3, 2), dims=[2], eps=1e-3)
    layer("layernorm", "last", nn.LayerNorm(5), floats(3, 5), dims=[5])
    layer("layernorm", "two", nn.LayerNorm((3, 4), bias=False, eps=1e-3), floats(2, 3, 4), dims=[3, 4], bias=False, eps=1e-3)
    layer("layernorm", "plain", nn.LayerNorm(5, elementwise_affine=False), floats(3, 5), dims=[5], affine=False)
    layer("layernorm2d", "channels", nn.LayerNorm(3, eps=1e-6), floats(2, 3, 2, 4), dims=[3],
          call=lambda m, x: m(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))
    layer("rmsnorm", "last", nn.RMSNorm(5), floats(3, 5), dims=[5])
    layer("rmsnorm", "two", nn.RMSNorm((2, 3), eps=1e-2), floats(4, 2, 3), dims=[2, 3], eps=1e-2)
    layer("groupnorm", "2_of_6", nn.GroupNorm(2, 6), floats(2, 6, 3), dims=[2, 6])
    layer("groupnorm", "flat", nn.GroupNorm(2, 4, affine=False), floats(3, 4), dims=[2, 4], affine=False)
    layer("instancenorm", "plain", nn.InstanceNorm2d(3), floats(2, 3, 3, 2), dims=[3], affine=False)
    layer("instancenorm", "affine", nn.InstanceNorm1d(3, affine=True), floats(2, 3, 6), dims=[3])

def recurrent():
    for op, make, cell in (("rnn", nn.RNN, nn.RNNCell), ("gru", nn.GRU, nn.GRUCell), ("lstm", nn.LSTM, nn.LSTMCell)):
        states = 2 if op == "lstm" else 1
        def flat(out):                                   # y, h or y, (h, c)
            return (out[0], *out[1]) if isinstance(out[1], tuple) else out
        def given(m, x, *s): return flat(m(x, s if states == 2 else s[0]))
        def start(*dims): return [floats(*dims, low=-1, high=1) for _ in range(states)]
        layer(op, "plain", make(3, 4), floats(5, 2, 3), call=lambda m, x: flat(m(x)), dims=[3, 4])
        layer(op, "one", make(3, 2, bias=False), floats(4, 3), *start(1, 2), call=given, dims=[3, 2], bias=False)
        layer(op, "deep_both_ways", make(3, 4, num_layers=2, bidirectional=True, batch_first=True), floats(2, 3, 3), *start(4, 2, 4),
              call=given, dims=[3, 4], layers=2, bidirectional=True, batch_first=True)
        layer(f"{op}_cell", "plain", cell(3, 4), floats(2, 3), *start(2, 4),
              call=lambda m, x, *s: m(x, s if states == 2 else s[0]), dims=[3, 4])
        layer(f"{op}_cell", "one", cell(3, 4, bias=False), floats(3), call=lambda m, x: m(x), dims=[3, 4], bias=False)
    layer("rnn", "relu", nn.RNN(3, 4, nonlinearity="relu"), floats(3, 2, 3), call=lambda m, x: m(x), dims=[3, 4], relu=True)

MASKED = torch.tensor([[False, True, False, False], [True, False, False, True], [False, False, True, False]])
PADDED = torch.tensor([[False, False, False, True], [False, False, True, False]])

def attention():
    def weighted(m, q, k, v): return m(q, k, v, average_attn_weights=False)
    def only(**masks): return lambda m, *x: m(*x, need_weights=False, **masks)[0]
    layer("attention", "self", nn.MultiheadAttention(6, 2), floats(4, 2, 6), call=lambda m, x: m(x, x, x, need_weights=False)[0], dims=[6, 2], own=True)
    layer("attention", "weights", nn.MultiheadAttention(6, 3, batch_first=True), floats(2, 3, 6), floats(2, 4, 6), floats(2, 4, 6),
          call=weighted, dims=[6, 3], batch_first=True, weights=True)
    layer("attention", "one", nn.MultiheadAttention(4, 2, bias=False), floats(3, 4), floats(5, 4), floats(5, 4), call=only(), dims=[4, 2], bias=False)
    layer("attention", "dims", nn.MultiheadAttention(6, 2, kdim=3, vdim=5), floats(3, 2, 6), floats(4, 2, 3), floats(4, 2, 5),
          call=only(), dims=[6, 2], kdim=3, vdim=5)
    layer("attention", "masked", nn.MultiheadAttention(6, 2), floats(3, 2, 6), floats(4, 2, 6), floats(4, 2, 6),
          call=only(attn_mask=MASKED, key_padding_mask=PADDED), dims=[6, 2], masked=True)
    layer("attention", "causal", nn.MultiheadAttention(6, 2, batch_first=True), floats(2, 4, 6), floats(2, 4, 6), floats(2, 4, 6),
          call=only(attn_mask=torch.triu(torch.ones(4, 4, dtype=torch.bool), 1)), dims=[6, 2], batch_first=True, causal=True)
    layer("attention", "added", nn.MultiheadAttention(4, 2), floats(3, 1, 4), floats(4, 1, 4), floats(4, 1, 4), floats(2, 3, 4),
          call=lambda m, q, k, v, mask: m(q, k, v, need_weights=False, attn_mask=mask)[0], dims=[4, 2], added=True)

def transformers():
    some = dict(dim_feedforward=7, dropout=.3)
    causal = torch.triu(torch.full((3, 3), float("-inf")), 1)
    for tag, more in {"plain": {}, "norm_first": dict(norm_first=True, activation="gelu"), "lean": dict(bias=False, batch_first=True, layer_norm_eps=1e-3)}.items():
        flags = dict(dims=[4, 2, 7]) | {k: v for k, v in more.items() if k in ("norm_first", "bias", "batch_first")}
        flags |= dict(gelu=True) if "activation" in more else {}
        flags |= dict(eps=1e-3) if "layer_norm_eps" in more else {}
        x, memory = ([2, 3, 4], [2, 5, 4]) if "batch_first" in more else ([3, 2, 4], [5, 2, 4])
        layer("encoder_layer", tag, nn.TransformerEncoderLayer(4, 2, **some, **more), floats(*x), **flags)
        layer("decoder_layer", tag, nn.TransformerDecoderLayer(4, 2, **some, **more), floats(*x), floats(*memory),
              call=lambda m, x, memory: m(x, memory, tgt_mask=causal), causal=True, **flags)
    layer("transformer", "whole", nn.Transformer(4, 2, 1, 2, **some), floats(4, 2, 4), floats(3, 2, 4), dims=[4, 2, 7], layers=[1, 2])

# ---- optimisers -----------------------------------------------------------------------------------------------

STEPS = 10

class Papers:
    """What torch does not have: one parameter's update in float64, from the papers' formulas."""
    def __init__(self, params, lr, **o): self.params, self.lr, self.o, self.s, self.t = params, lr, o, {}, 0
    def step(self):
        self.t += 1
        for k, p in enumerate(self.params):
            w, g = p.detach().double().numpy(), p.grad.double().numpy()
            p.data = torch.from_numpy(self.update(w, g, self.s.setdefault(k, {}))).to(p.dtype)

def ratio(a, b): return np.linalg.norm(a) / np.linalg.norm(b) if np.linalg.norm(a) > 0 and np.linalg.norm(b) > 0 else 1.

class Lion(Papers):
    def update(self, w, g, s):
        b1, b2 = self.o.get("betas", (.9, .99))
        m = s.get("m", 0 * w)
        s["m"] = b2 * m + (1 - b2) * g
        return w * (1 - self.lr * self.o.get("weight_decay", 0)) - self.lr * np.sign(b1 * m + (1 - b1) * g)

class Lamb(Papers):
    def update(self, w, g, s):
        b1, b2 = self.o.get("betas", (.9, .999))
        m = s["m"] = b1 * s.get("m", 0 * w) + (1 - b1) * g
        v = s["v"] = b2 * s.get("v", 0 * w) + (1 - b2) * g * g
        r = m / (1 - b1 ** self.t) / (np.sqrt(v / (1 - b2 ** self.t)) + 1e-6) + self.o.get("weight_decay", 0) * w
        return w - self.lr * ratio(w, r) * r

class Lars(Papers):
    def update(self, w, g, s):
        decay, trust = self.o.get("weight_decay", 1e-4), self.o.get("trust", 1e-3)
        norms = np.linalg.norm(w), np.linalg.norm(g)
        local = trust * norms[0] / (norms[1] + decay * norms[0]) if min(norms) > 0 else 1.
        s["v"] = self.o.get("momentum", .9) * s.get("v", 0 * w) + self.lr * local * (g + decay * w)
        return w - s["v"]

class Muon(Papers):
    def update(self, w, g, s):
        beta, decay = self.o.get("momentum", .95), self.o.get("weight_decay", .1)
        s["m"] = beta * s.get("m", 0 * w) + (1 - beta) * g
        u = beta * s["m"] + (1 - beta) * g if self.o.get("nesterov", True) else s["m"]
        rows = u.shape[0]
        u = u.reshape(rows, -1)
        x = u.T if u.shape[0] > u.shape[1] else u
        x = x / max(np.linalg.norm(x), 1e-7)
        for _ in range(5):
            a = x @ x.T
            x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
        x = x.T if u.shape[0] > u.shape[1] else x
        return w * (1 - self.lr * decay) - self.lr * max(1, u.shape[0] / u.shape[1]) ** .5 * x.reshape(w.shape)

def optim(op, variant, make, lr, shapes=([3, 4], [5]), zero_first=False, **options):
    rng = unique(f"optim.{op}/{variant}")
    starts = [floats(*s)(rng) for s in shapes]
    grads = [floats(STEPS, *s)(rng) for s in shapes]
    if zero_first: starts[-1].zero_()
    params = [nn.Parameter(p.clone()) for p in starts]
    o = make(params, lr=lr, **options)
    outs = [[] for _ in shapes]
    for t in range(STEPS):
        for p, g in zip(params, grads): p.grad = g[t].clone()
        o.step()
        for p, seen in zip(params, outs): seen.append(p.detach().clone())
    values = [f"{k}={text_of(v)}" for k, v in (options | dict(lr=lr)).items()]
    inputs = [(f"p{k}", p) for k, p in enumerate(starts)] + [(f"g{k}", g) for k, g in enumerate(grads)]
    CASES.append((f"optim.{op}/{variant}", f"optim.{op}", values, inputs, [(f"out{k}", torch.stack(s)) for k, s in enumerate(outs)], [], []))

def optimisers():
    O = torch.optim
    optim("sgd", "plain", O.SGD, .1)
    optim("sgd", "decay", O.SGD, .1, weight_decay=.05)
    optim("sgd", "momentum", O.SGD, .1, momentum=.9)
    optim("sgd", "dampening", O.SGD, .1, momentum=.8, dampening=.3, weight_decay=.01)
    optim("sgd", "nesterov", O.SGD, .1, momentum=.9, nesterov=True, weight_decay=.01)
    optim("adam", "plain", O.Adam, .01)
    optim("adam", "options", O.Adam, .02, betas=(.8, .95), eps=1e-4, weight_decay=.1)
    optim("adam", "amsgrad", O.Adam, .02, betas=(.5, .6), amsgrad=True)
    optim("adamw", "plain", O.AdamW, .01)
    optim("adamw", "amsgrad", O.AdamW, .02, betas=(.5, .6), weight_decay=.2, amsgrad=True)
    optim("rmsprop", "plain", O.RMSprop, .01)
    optim("rmsprop", "options", O.RMSprop, .01, alpha=.9, eps=1e-4, weight_decay=.1, momentum=.8, centered=True)
    optim("adagrad", "plain", O.Adagrad, .1)
    optim("adagrad", "options", O.Adagrad, .1, lr_decay=.1, weight_decay=.05, initial_accumulator_value=.5, eps=1e-6)
    optim("lion", "plain", Lion, .01)
    optim("lion", "options", Lion, .02, betas=(.8, .9), weight_decay=.1)
    optim("lamb", "plain", Lamb, .01)
    optim("lamb", "options", Lamb, .02, betas=(.8, .95), weight_decay=.1, zero_first=True)
    optim("lars", "plain", Lars, .1)
    optim("lars", "options", Lars, .2, momentum=.8, weight_decay=.01, trust=.05, zero_first=True)
    optim("muon", "wide_and_tall", Muon, .01, shapes=([3, 5], [6, 2]))
    optim("muon", "options", Muon, .02, shapes=([4, 4], [3, 2, 2, 2]), momentum=.9, weight_decay=.0, nesterov=False)

def clipping():
    def clip(op, variant, f, shapes=([3, 4], [5]), **params):
        rng = unique(f"{op}/{variant}")
        grads = [floats(*s)(rng) for s in shapes]
        ps = [nn.Parameter(torch.zeros_like(g)) for g in grads]
        for p, g in zip(ps, grads): p.grad = g.clone()
        total = f(ps)
        outs = ([] if total is None else [total]) + [p.grad for p in ps]
        CASES.append((f"{op}/{variant}", op, [f"{k}={v}" for k, v in params.items()], [(f"g{k}", g) for k, g in enumerate(grads)],
                      [(f"out{k}", o) for k, o in enumerate(outs)], [], []))
    u = nn.utils
    clip("clip_grad_norm", "longer", lambda p: u.clip_grad_norm_(p, 1.5), max=1.5)
    clip("clip_grad_norm", "shorter", lambda p: u.clip_grad_norm_(p, 100.), max=100.)
    clip("clip_grad_norm", "largest", lambda p: u.clip_grad_norm_(p, .5, norm_type=float("inf")), max=.5, norm="inf")
    clip("clip_grad_norm", "absolute", lambda p: u.clip_grad_norm_(p, 2., norm_type=1.), max=2., norm=1)
    clip("clip_grad_value", "half", lambda p: u.clip_grad_value_(p, .5), max=.5)

def schedules():
    S = torch.optim.lr_scheduler
    def schedule(op, variant, make, steps=25, metrics=None, **params):
        unique(f"schedule.{op}/{variant}")
        o = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=.4)
        s, seen = make(o), []
        for t in range(steps):
            seen.append(o.param_groups[0]["lr"])
            o.step()
            s.step(*([metrics[t]] if metrics else []))
        inputs = [("x0", torch.tensor(metrics, dtype=torch.float64))] if metrics else []
        CASES.append((f"schedule.{op}/{variant}", f"schedule.{op}", [f"{k}={text_of(v)}" for k, v in params.items()], inputs,
                      [("out0", torch.tensor(seen, dtype=torch.float64))], [], []))
    schedule("step", "4", lambda o: S.StepLR(o, 4, gamma=.5), size=4, gamma=.5)
    schedule("multi_step", "3", lambda o: S.MultiStepLR(o, [3, 9, 10], gamma=.3), at=[3, 9, 10], gamma=.3)
    schedule("exponential", "09", lambda o: S.ExponentialLR(o, .9), gamma=.9)
    schedule("cosine", "10", lambda o: S.CosineAnnealingLR(o, 10, eta_min=.01), steps=11, length=10, min=.01)
    schedule("restarts", "double", lambda o: S.CosineAnnealingWarmRestarts(o, 3, 2, eta_min=.02), length=3, times=2, min=.02)
    schedule("linear", "8", lambda o: S.LinearLR(o, .25, .75, 8), length=8, start=.25, end=.75)
    schedule("polynomial", "8", lambda o: S.PolynomialLR(o, 8, 2.), length=8, power=2)
    schedule("one_cycle", "default", lambda o: S.OneCycleLR(o, .4, total_steps=26), length=26)
    schedule("one_cycle", "linear", lambda o: S.OneCycleLR(o, .4, total_steps=26, pct_start=.5, anneal_strategy="linear", div_factor=10, final_div_factor=100), length=26,
             rise=.5, linear=True, div=10, final_div=100)
    schedule("warmup", "cosine", lambda o: S.SequentialLR(o, [S.LinearLR(o, .1, 1., 5), S.CosineAnnealingLR(o, 20)], [5]), length=5, start=.1, cosine=20)
    falling = [1., .9, .9, .95, .91, .9, .9, .9, .8, .79995, .8, .8, .8, .8, .8, .7, .7, .7, .7, .7, .7, .7, .7, .7, .7]
    schedule("plateau", "min", lambda o: S.ReduceLROnPlateau(o, factor=.5, patience=2), metrics=falling, factor=.5, patience=2)
    schedule("plateau", "max", lambda o: S.ReduceLROnPlateau(o, mode="max", factor=.1, patience=1, cooldown=2, min_lr=.001, threshold=.01, threshold_mode="abs"),
             metrics=[1 - v for v in falling], factor=.1, patience=1, cooldown=2, min=.001, threshold=.01, absolute=True, max=True)

if __name__ == "__main__":
    for family in (simple_layers, norms, recurrent, attention, transformers, optimisers, clipping, schedules): family()
    write(__file__)
