"""What others compute with real models: python make_real.py llama2.data minilm.onnx OUT

For stories15M (in the format of llama2.c), evaluated here in float64: the likeliest continuation of nothing, and the logits of the
eight likeliest tokens at each of its places. For all-MiniLM-L6-v2: the vectors that onnxruntime makes with the ONNX export, of
tokens without padding. Needs numpy, onnxruntime, safetensors; both go to one safetensors file.
"""

import sys

import numpy as np
import onnxruntime
from safetensors.numpy import save_file

COUNT = 64
# of vocab.txt: between [CLS] and [SEP] "the cat sat on the mat", "a kitten rests upon a rug", one word, and every 131st token,
# fewer than the 256 that the folder lets a text have
SENTENCES = [
    [101, 1996, 4937, 2938, 2006, 1996, 13523, 102],
    [101, 1037, 18401, 16626, 2588, 1037, 20452, 102],
    [101, 7592, 102],
    [101, *range(1000, 30000, 131), 102],
]


def norm(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight


def turned(x):
    """(T, heads, head): neighbours turn together."""
    n = x.shape[-1] // 2
    angle = np.arange(len(x))[:, None] * 10000.0 ** (-np.arange(n) / n)
    sin, cos = np.sin(angle)[:, None], np.cos(angle)[:, None]
    a, b = x[..., 0::2], x[..., 1::2]
    return np.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)


class Stories:
    def __init__(self, path):
        data = open(path, "rb").read()
        dim, hidden, self.layers, self.heads, kv, words, _ = np.frombuffer(data, np.int32, 7).tolist()
        assert kv == self.heads and words > 0
        self.at, self.rest = 0, np.frombuffer(data, np.float32, offset=28, count=(60816028 - 28) // 4)
        n = self.layers
        self.embedding, self.norm_attention = self.take(words, dim), self.take(n, dim)
        self.q, self.k, self.v, self.out = (self.take(n, dim, dim) for _ in range(4))
        self.norm_feedforward, self.gate = self.take(n, dim), self.take(n, hidden, dim)
        self.down, self.up, self.norm = self.take(n, dim, hidden), self.take(n, hidden, dim), self.take(dim)

    def take(self, *shape):
        count = int(np.prod(shape))
        self.at += count
        return self.rest[self.at - count:self.at].reshape(shape).astype(np.float64)

    def logits(self, ids):
        x, t = self.embedding[ids], len(ids)
        hidden = np.triu(np.full((t, t), -np.inf), 1)
        for i in range(self.layers):
            h = norm(x, self.norm_attention[i])
            q, k, v = ((h @ w[i].T).reshape(t, self.heads, -1) for w in (self.q, self.k, self.v))
            scores = np.einsum("thd,shd->hts", turned(q), turned(k)) / np.sqrt(q.shape[-1]) + hidden
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            weights /= weights.sum(-1, keepdims=True)
            x = x + np.einsum("hts,shd->thd", weights, v).reshape(t, -1) @ self.out[i].T
            h = norm(x, self.norm_feedforward[i])
            g = h @ self.gate[i].T
            x = x + (g / (1 + np.exp(-g)) * (h @ self.up[i].T)) @ self.down[i].T
        return norm(x, self.norm) @ self.embedding.T


def stories(path):
    model, ids = Stories(path), [1]
    for _ in range(COUNT):
        ids.append(int(model.logits(ids)[-1].argmax()))
    rows = model.logits(ids[:-1])
    top = np.argsort(-rows, -1)[:, :8]
    return {"stories.tokens": np.array(ids, np.int32), "stories.ids": top.astype(np.int32),
            "stories.logits": np.take_along_axis(rows, top, -1).astype(np.float32)}


def minilm(path):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names, found = [i.name for i in session.get_inputs()], {}
    for k, ids in enumerate(SENTENCES):
        ids = np.array([ids], np.int64)
        feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        vectors = session.run(None, {n: feeds[n] for n in names})[0][0].astype(np.float64)
        mean = vectors.mean(0)
        found[f"minilm.{k}.ids"] = ids[0].astype(np.int32)
        found[f"minilm.{k}.vector"] = (mean / np.linalg.norm(mean)).astype(np.float32)
    return found


if __name__ == "__main__":
    of_stories, of_minilm, out = sys.argv[1:]
    save_file(stories(of_stories) | minilm(of_minilm), out)
