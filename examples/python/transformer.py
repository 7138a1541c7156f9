"""A small transformer learns to sort digits: python examples/python/transformer.py [--steps 200]"""

import argparse

from frit import Context, Progress, Tensor, TinyJit, nn

DIGITS, LENGTH, WIDTH, HEADS, DEPTH = 10, 6, 64, 4, 2


class Block:
    """Attention, then two linear layers, each added to what came in."""

    def __init__(self) -> None:
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def __call__(self, x: Tensor) -> Tensor:
        n, t, _ = x.shape
        split = self.qkv(self.norm1(x)).reshape(n, t, 3, HEADS, -1)
        q, k, v = (split[:, :, i].transpose(1, 2) for i in range(3))  # each (N, heads, T, width of a head)
        mixed = q.scaled_dot_product_attention(k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(n, t, WIDTH))
        return x + self.down(self.up(self.norm2(x)).gelu())


class Transformer:
    """What comes next at each place of a sequence: (N, T) -> (N, T, DIGITS)."""

    def __init__(self) -> None:
        self.symbols, self.places = nn.Embedding(DIGITS, WIDTH), nn.Embedding(2 * LENGTH, WIDTH)
        self.blocks = [Block() for _ in range(DEPTH)]
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, DIGITS)

    def __call__(self, x: Tensor) -> Tensor:
        x = self.symbols(x) + self.places(Tensor.arange(x.shape[1]))
        return self.head(self.norm(x.sequential(self.blocks)))


def samples(n: int) -> tuple[Tensor, Tensor]:
    """Digits followed by the same digits in order, and what follows each place."""
    digits = Tensor.randint(n, LENGTH, high=DIGITS)
    line = digits.cat(digits.sort(dim=1)[0], dim=1)
    return line[:, :-1], line[:, 1:]


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--steps", type=int, default=200)
    steps = args.parse_args().steps
    Tensor.manual_seed(1)
    model = Transformer()
    opt = nn.optim.AdamW(nn.state.get_parameters(model), lr=3e-3)
    rate = nn.schedule.OneCycleLR(opt, max_lr=3e-3, total_steps=steps)

    @TinyJit
    def step() -> Tensor:
        x, y = samples(64)
        # only the second half can be known
        loss = model(x)[:, LENGTH - 1 :].flatten(0, 1).cross_entropy(y[:, LENGTH - 1 :].flatten()).backward()
        opt.step()
        return loss

    with Context(TRAINING=1):
        with Progress("training", steps) as progress:
            for i in range(steps):
                loss = step().item()
                rate.step()
                progress.step(loss=loss)
                if i % 20 == 19 or i == steps - 1:
                    progress.say(f"step {i + 1:3}, loss {loss:.3f}")
    x, y = samples(500)
    right = (model(x).argmax(axis=-1) == y)[:, LENGTH - 1 :].all(axis=1).float().mean().item()
    print(f"{right * 100:.1f}% of new sequences are sorted without a mistake")


if __name__ == "__main__":
    main()
