"""Train a small convolutional network on MNIST: python examples/python/mnist.py [--steps 70]"""

import argparse
import time
from typing import Callable

from frit import Progress, Tensor, TinyJit, nn
from frit.nn.datasets import mnist


class Model:
    """Two convolutions and a linear layer."""

    def __init__(self) -> None:
        self.layers: list[Callable[[Tensor], Tensor]] = [
            nn.Conv2d(1, 32, 5), Tensor.relu,
            nn.BatchNorm(32), Tensor.max_pool2d,
            nn.Conv2d(32, 64, 3), Tensor.relu,
            nn.BatchNorm(64), Tensor.max_pool2d,
            lambda x: x.flatten(1), nn.Linear(1600, 10),
        ]  # fmt: skip

    def __call__(self, x: Tensor) -> Tensor:
        return x.sequential(self.layers)


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--steps", type=int, default=70)
    args.add_argument("--batch", type=int, default=512)
    options = args.parse_args()

    Tensor.manual_seed(1)
    x_train, y_train, x_test, y_test = mnist()
    model = Model()
    opt = nn.optim.Adam(nn.state.get_parameters(model), lr=0.003)

    @TinyJit
    @Tensor.train()
    def train_step() -> Tensor:
        opt.zero_grad()
        samples = Tensor.randint(options.batch, high=x_train.shape[0])
        loss = model(x_train[samples] / 255).sparse_categorical_crossentropy(y_train[samples]).backward()
        opt.step()
        return loss

    @TinyJit
    def right(x: Tensor, y: Tensor) -> Tensor:
        return (model(x / 255).argmax(axis=1) == y).sum()

    start = time.perf_counter()
    with Progress("training", options.steps) as progress:
        for i in range(options.steps):
            loss = train_step().item()
            progress.step(loss=loss)
            if i % 10 == 9 or i == options.steps - 1:
                progress.say(f"step {i + 1:3}, loss {loss:.3f}, {time.perf_counter() - start:.1f} s")
    count = sum(right(x_test[i : i + 1000], y_test[i : i + 1000]).item() for i in range(0, 10000, 1000))
    print(f"{count / 100:.2f}% of 10,000 test images are recognised")


if __name__ == "__main__":
    main()
