"""``python -m frit``: the version, the devices, and whether they compute."""

import sys

from frit import Device, Tensor, TinyJit, __version__, nn


def _linear(device):
    x = Tensor([[1.0, 2.0], [3.0, 4.0]], device=device)
    return (x @ x.T).tolist() == [[5.0, 11.0], [11.0, 25.0]]


def _gradient(device):
    x = Tensor([1.0, 2.0, 3.0], device=device)
    return (x * x).sum().gradient(x)[0].tolist() == [2.0, 4.0, 6.0]


def _softmax(device):
    y = Tensor([[0.0, 1.0, 2.0]] * 4, device=device).softmax()
    return bool((y.sum(axis=1) - 1).abs().max().item() < 1e-6)


def _jit(device):
    f = TinyJit(lambda x: x + 1)
    return [f(Tensor([i], device=device)).item() for i in range(4)] == [1, 2, 3, 4]


def _training(device):
    w = Tensor([0.0], device=device)
    opt = nn.optim.SGD([w], lr=0.5)
    for _ in range(20):
        opt.zero_grad()
        ((w - 3) * (w - 3)).sum().backward()
        opt.step()
    return abs(w.item() - 3) < 1e-3


CHECKS = {"matrices": _linear, "gradients": _gradient, "softmax": _softmax, "Jit": _jit, "training": _training}


def _tried(check, device):
    try:
        return "ok" if check(device) else "wrong"
    except Exception as e:
        return f"failed: {e}"


def main():
    """Prints it all; 0 where every device that is there computes right."""
    print(f"frit {__version__}, Python {sys.version.split()[0]}")
    bad = 0
    for name, about, found, why in Device.describe():
        mark = " (default)" if name == Device.DEFAULT else ""
        print(f"{name}{mark}: {about}; {found or f'not here: {why}'}")
        # the one runs nothing, the other is files
        if found is None or name in ("NULL", "DISK"):
            continue
        results = {what: _tried(check, name) for what, check in CHECKS.items()}
        bad += sum(r != "ok" for r in results.values())
        print("  " + ", ".join(f"{what} {r}" for what, r in results.items()))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
