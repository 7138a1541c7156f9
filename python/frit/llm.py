"""Language models, from GGUF files and folders of Hugging Face.

>>> from frit.llm import Model
>>> model = Model("model.gguf")                                        # doctest: +SKIP
>>> print(model.chat([{"role": "user", "content": "Say hello."}]))     # doctest: +SKIP
>>> for piece in model.stream("Once upon a time", max_tokens=50):      # doctest: +SKIP
...     print(piece, end="")

``Model`` generates, ``Embedder`` makes vectors of texts. How tokens are chosen is said by ``temperature`` (0, the default,
takes the likeliest), ``top_k``, ``top_p``, ``min_p``, ``typical_p``, ``repetition_penalty`` (of the last 64 tokens),
``presence_penalty`` and ``frequency_penalty`` (of the answer so far), ``logit_bias`` (a dict of tokens and what is added to
their logits) and ``seed``; ``stop`` has texts that end an answer, ``max_tokens`` is the most it has, and with ``logprobs=N``
``Answer.logprobs`` tells of each token and the N likeliest.

The same seed gives the same answer to the same calls. Beside other answers the last bits of logits may differ, since sums are
ordered by the sizes of a step, and a token that was nearly as likely be drawn: ``Model(..., deterministic=True)`` computes
each answer in steps of its own, more slowly and with ``products="float"``.
"""

import json
import os
from typing import Any, Iterator, Sequence

from frit._frit import LlmAnswer, LlmEmbedder, LlmModel, Tensor

__all__ = ["Answer", "Embedder", "Model"]


class Answer:
    """An answer on its way: an iterator over the pieces of its text. One that is let go of is not computed further."""

    def __init__(self, inner: LlmAnswer) -> None:
        self._inner = inner

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        return next(self._inner)

    def cancel(self) -> None:
        """End it; what came so far stays."""
        self._inner.cancel()

    @property
    def text(self) -> str:
        """What came so far."""
        return self._inner.state()[0]

    @property
    def tokens(self) -> list[int]:
        """Its tokens so far."""
        return self._inner.state()[1]

    @property
    def logprobs(self) -> list[tuple[float, dict[int, float]]]:
        """Natural logarithms of the probabilities of its tokens so far: of each, and of the likeliest by token."""
        return [(token, dict(top)) for token, top in self._inner.logprobs()]

    @property
    def reason(self) -> str:
        """Why it ended: ``stop``, ``length``, ``context`` or ``cancelled``."""
        return self._inner.state()[2]

    @property
    def prompt_tokens(self) -> int:
        """How many tokens the prompt has."""
        return self._inner.state()[3]

    @property
    def seconds(self) -> tuple[float, float]:
        """Time to the first token, and from there to the end."""
        return self._inner.state()[4:]


class Model:
    """A model that generates text. Answers of several iterators, or threads, share the steps of the model.

    ``adapter`` is a folder that ``frit finetune`` or PEFT wrote; ``merge`` takes it into the weights. ``draft`` is a smaller
    model of the same tokens. ``parallel`` answers run at once, with ``positions`` tokens in memory, kept as ``cache`` says:
    ``f32``, ``f16``, ``bf16`` or ``int8``. ``products`` are ``rounded``, ``bytes`` or ``float``, as for ``frit chat``; with a
    draft or ``deterministic`` they are ``float``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        context: int | None = None,
        adapter: str | os.PathLike[str] | None = None,
        merge: bool = False,
        draft: str | os.PathLike[str] | None = None,
        parallel: int = 8,
        positions: int = 16384,
        cache: str = "f16",
        products: str = "rounded",
        deterministic: bool = False,
    ) -> None:
        self._inner = LlmModel(path, context, adapter, merge, draft, parallel, positions, cache, products, deterministic)

    @property
    def context(self) -> int:
        """Positions of a sequence."""
        return self._inner.sizes()[0]

    @property
    def vocab_size(self) -> int:
        """How many tokens it knows."""
        return self._inner.sizes()[1]

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """The tokens of a text, with those around it that the model expects; without ``special``, of a text in which names of
        special tokens are text like any other."""
        return self._inner.encode(text, special)

    def decode(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """The text of tokens, with the names of special ones where that is wanted."""
        return self._inner.decode(list(tokens), special)

    def render(self, messages: Sequence[dict[str, Any]], *, tools: Sequence[dict[str, Any]] | None = None, answer: bool = True) -> str:
        """The text that the model's template makes of a conversation."""
        return self._inner.render(json.dumps(list(messages)), json.dumps(list(tools)) if tools is not None else None, answer)

    def stream(self, prompt: str | Sequence[int] | Sequence[dict[str, Any]], **options: Any) -> Answer:
        """The pieces of what follows a text, tokens or a conversation, as they come."""
        if isinstance(prompt, str):
            tokens = self.encode(prompt)
        elif len(prompt) and isinstance(prompt[0], dict):
            tools = options.pop("tools", None)
            tokens = self._inner.encode_rendered(self.render(prompt, tools=tools))
        else:
            tokens = list(prompt)
        stop = options.pop("stop", [])
        options["stop"] = [stop] if isinstance(stop, str) else list(stop)
        return Answer(self._inner.begin(tokens, **options))

    def generate(self, prompt: str | Sequence[int], **options: Any) -> str:
        """What follows a text or tokens."""
        return "".join(self.stream(prompt, **options))

    def chat(self, messages: Sequence[dict[str, Any]], **options: Any) -> str:
        """The answer to a conversation, by the model's own template."""
        return "".join(self.stream(list(messages), **options))

    def logits(self, tokens: str | Sequence[int]) -> Tensor:
        """The logits after each token of a text: (tokens, vocabulary)."""
        return self._inner.logits(self.encode(tokens) if isinstance(tokens, str) else list(tokens))


class Embedder:
    """An encoder, which makes vectors of texts."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._inner = LlmEmbedder(path)

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        return self._inner.encode(text)

    def embed(self, texts: str | Sequence[str]) -> Tensor:
        """A vector of length 1 for a text, (elements), or for each of several, (texts, elements)."""
        if isinstance(texts, str):
            return self._inner.embed([texts])[0]
        return self._inner.embed(list(texts))
