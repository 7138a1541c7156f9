"""Data sets: images and labels to train with, and to test with.

They are read from ``$FRIT_DATA``, or a folder ``data`` in or above the current directory or this file; nothing is
fetched.
"""

import os

from frit import _frit

__all__ = ["cifar", "mnist"]


def _folder(name):
    """Where a data set is."""
    if "FRIT_DATA" not in os.environ:
        here = os.path.dirname(os.path.abspath(__file__))
        while True:
            folder = os.path.join(here, "data", name)
            if os.path.isdir(folder):
                return folder
            above = os.path.dirname(here)
            if above == here:
                break
            here = above
    return str(_frit.find_data(name))


def mnist(device=None, fashion=False):
    """Handwritten digits (or pieces of clothing): X_train (60000, 1, 28, 28), Y_train, X_test, Y_test, all uint8."""
    folder = _folder("fashion-mnist" if fashion else "mnist")
    all = []
    for part in ("train", "t10k"):
        for kind in ("images-idx3", "labels-idx1"):
            t = _frit.idx_load(os.path.join(folder, f"{part}-{kind}-ubyte.gz"))
            t = t.reshape(-1, 1, 28, 28) if t.ndim == 3 else t
            all.append(t if device is None else t.to(device))
    return tuple(all)


def cifar(device=None):
    """Small photographs in ten classes: X_train (50000, 3, 32, 32), Y_train, X_test, Y_test, all uint8."""
    folder = _folder("cifar-10")
    all = [t for train in (True, False) for t in _frit.cifar_load(folder, train)]
    return tuple(t if device is None else t.to(device) for t in all)
