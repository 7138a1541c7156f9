"""Tensors shared with torch through DLPack, without a copy: python examples/python/dlpack_torch.py

On the CPU and, where both have it, on the first CUDA device.
"""

import sys
from typing import Any

from frit import Tensor


def share(torch: Any, device: str) -> None:
    # from torch: the memory is torch's, frit reads it where it lies
    theirs = torch.arange(6, dtype=torch.float32, device=device.lower()).reshape(2, 3)
    ours = Tensor.from_dlpack(theirs)
    assert ours.device == device
    print(f"{device}, from torch:", (ours * 2 + 1).tolist())

    # to torch: the memory is frit's, torch sees the version of now
    x = Tensor([[1.0, 2.0], [3.0, 4.0]], device=device).realize()
    seen = torch.from_dlpack(x)
    assert seen.device.type == device.lower()
    x.assign(x * 10).realize()
    print(f"{device}, to torch:", seen.tolist(), "while the tensor is now", x.tolist())
    assert seen.tolist() == [[1.0, 2.0], [3.0, 4.0]]

    # and mixed: a torch tensor is accepted where a tensor is
    y = Tensor.ones(2, 3, device=device) + theirs
    print(f"{device}, mixed:", y.tolist())
    assert y.tolist() == (theirs + 1).tolist()


def main() -> None:
    try:
        import torch  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        print("skipped: torch is not installed")
        sys.exit(0)
    share(torch, "CPU")
    if torch.cuda.is_available():
        share(torch, "CUDA")


if __name__ == "__main__":
    main()
