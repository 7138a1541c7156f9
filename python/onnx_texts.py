"""Texts that quantised models write, beside onnxruntime's: python python/onnx_texts.py [--steps N]

MiniMind2 answers questions and goes on with texts, Whisper transcribes a sentence; both are int8, and choose the likeliest token
at each step. For each text: whether it is the one that onnxruntime writes, which part of the outputs for the prompt (of Whisper's
encoder, and of its decoder's first step) is within one step of 256 over their range, and at how many places of the prompt the
likeliest token is the same. Beside it the same of onnxruntime's variants, held against itself: stored floats moved by up to
2^-22, as another order of a sum moves them (three times), and its optimisations left out. Scales follow from the largest
element, so where those are far from the others a model magnifies the last bits: a text that neither variant of onnxruntime keeps
says nothing of us. A text that all of them keep and we do not is marked with !, and the exit status is 1.
"""

import argparse
import json
import os
import pathlib
import re
import sys
import wave

import numpy as np

HERE = pathlib.Path(__file__)
sys.path[0] = str(HERE.parent.parent / "examples")
import models  # noqa: E402

os.environ.setdefault("FRIT_THREADS", "2")

QUESTIONS = [
    "What is the capital of France?",
    "为什么天空是蓝色的？",
    "How do I boil an egg?",
    "你是谁？",
    "Write a poem about autumn.",
    "1+1等于几？",
]
TEXTS = [
    "Once upon a time there was a little girl who",
    "The largest ocean on Earth is the",
    "To make a cup of tea, first",
    "水的化学式是",
    "The quick brown fox jumps over the lazy dog and then",
    "Dear Sir or Madam, I am writing to",
]
# the beginning of a speech, longer than a prompt of 64 tokens
SPEECH = (
    "Four score and seven years ago our fathers brought forth on this continent, a new nation, conceived in Liberty, and "
    "dedicated to the proposition that all men are created equal. Now we are engaged in a great civil war, testing whether that "
    "nation, or any nation so conceived and so dedicated, can long endure. We are met on a great battle-field of that war."
)


class Tokenizer:
    """Byte-level BPE from a tokenizer.json; of words in any alphabet, and numbers."""

    WORD = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")

    def __init__(self, path):
        said = json.loads(pathlib.Path(path).read_text())
        self.vocabulary = said["model"]["vocab"]
        merges = (m if isinstance(m, list) else m.split(" ") for m in said["model"]["merges"])
        self.ranks = {tuple(m): i for i, m in enumerate(merges)}
        self.special = {t["content"]: t["id"] for t in said["added_tokens"]}
        self.text_of = {i: t for t, i in self.vocabulary.items()}
        plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
        rest = [b for b in range(256) if b not in plain]
        self.letters = {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(rest)}
        self.bytes = {c: b for b, c in self.letters.items()}

    def word(self, word):
        parts = [self.letters[b] for b in word.encode()]
        while len(parts) > 1:
            pairs = list(zip(parts, parts[1:]))
            best = min(pairs, key=lambda p: self.ranks.get(p, len(self.ranks)))
            if best not in self.ranks:
                break
            at = pairs.index(best)
            parts[at : at + 2] = ["".join(best)]
        return [self.vocabulary[p] for p in parts]

    def encode(self, text):
        tokens = []
        for part in re.split("(" + "|".join(map(re.escape, self.special)) + ")", text):
            whole = [self.special[part]] if part in self.special else None
            tokens += whole or [t for w in self.WORD.findall(part) for t in self.word(w)]
        return tokens

    def decode(self, tokens):
        kept = "".join(self.text_of[t] for t in tokens if t not in self.special.values())
        return bytes(self.bytes[c] for c in kept).decode(errors="replace")


def spectrum(path):
    """What Whisper hears: logarithms of the energy in 80 bands, a hundred times a second, for half a minute."""
    with wave.open(str(path)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16) / 32768.0
    samples = np.resize(np.append(samples, np.zeros(480000)), 480000)
    padded = np.pad(samples, 200, mode="reflect")
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)
    pieces = np.lib.stride_tricks.sliding_window_view(padded, 400)[::160][:3000]
    power = np.abs(np.fft.rfft(pieces * window)) ** 2
    # evenly wide in mel: linear below 1 kHz, 27 steps for each factor 6.4 above
    mel = np.linspace(0, 15 + 27 * np.log(8) / np.log(6.4), 82)
    edges = np.where(mel < 15, mel * 200 / 3, 1000 * 6.4 ** ((mel - 15) / 27))[:, None]
    hertz, (low, middle, high) = np.arange(201) * 40.0, (edges[:-2], edges[1:-1], edges[2:])
    bands = np.maximum(0, np.minimum((hertz - low) / (middle - low), (high - hertz) / (high - middle))) * 2 / (high - low)
    energy = np.log10(np.maximum(bands @ power.T, 1e-10))
    return ((np.maximum(energy, energy.max() - 8) + 4) / 4)[None].astype(np.float32)


def likeness(got, want):
    """The part of outputs within one step of 256, and of rows of the first output whose largest element is the same."""
    near = total = 0
    for a, b in zip(got, want, strict=True):
        if b.size:
            step = (b.max() - b.min()) / 255
            near, total = near + int((np.abs(a - b) <= step).sum()), total + b.size
    return near / total, float((got[0].argmax(-1) == want[0].argmax(-1)).mean())


def nudged(graph, seed=1):
    """Moves every stored float by a few units in the last place."""
    from onnx import TensorProto, numpy_helper

    random = np.random.default_rng(seed)
    for t in graph.initializer:
        if t.data_type == TensorProto.FLOAT:
            values = numpy_helper.to_array(t)
            moved = values * (1 + random.uniform(-(2.0**-22), 2.0**-22, values.shape))
            t.CopyFrom(numpy_helper.from_array(moved.astype(np.float32), t.name))
    for node in graph.node:
        for a in node.attribute:
            if a.HasField("g"):
                nudged(a.g, seed)


class Model:
    """One of the runtimes with a model."""

    def __init__(self, session, inputs, outputs):
        self.session, self.inputs, self.outputs = session, inputs, outputs

    def run(self, feeds):
        return self.session.run(None, feeds)


def runtimes(name):
    """The model in onnxruntime, here, and in variants of onnxruntime."""
    import frit.onnx
    import onnx
    import onnxruntime

    path = str(models.HERE / name)

    def theirs(model, optimised=True):
        options = onnxruntime.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 3, 2
        if not optimised:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        ports = [(p.name, p.shape) for p in session.get_inputs()]
        return Model(session, ports, [p.name for p in session.get_outputs()])

    def moved(seed):
        model = onnx.load(path)
        nudged(model.graph, seed)
        return theirs(model.SerializeToString())

    first = theirs(path)
    ours = Model(frit.onnx.Session(path), first.inputs, first.outputs)
    return first, {"ours": ours, **{f"moved {s}": moved(s) for s in (1, 2, 3)}, "unoptimised": theirs(path, False)}


def minimind(model, tokens, steps):
    """The outputs for a prompt, and the tokens that follow it."""
    past, seen, written, prompt = None, 0, [], None
    while len(written) < steps:
        n, feeds = len(tokens), {}
        for i, (name, dims) in enumerate(model.inputs):
            if name == "input_ids":
                feeds[name] = np.array([tokens])
            elif name == "attention_mask":
                feeds[name] = np.ones((1, seen + n), np.int64)
            elif name == "position_ids":
                feeds[name] = np.arange(seen, seen + n)[None]
            else:
                feeds[name] = past[i - 3] if past else np.zeros((1, dims[1], 0, dims[3]), np.float32)
        made = model.run(feeds)
        prompt, past, seen = prompt or made, made[1:], seen + n
        written.append(int(made[0][0, -1].argmax()))
        tokens = written[-1:]
        if tokens == [2]:
            break
    return prompt, written


def whisper(encoder, decoder, heard, tokenizer, steps):
    """What the encoder makes of a sound and the decoder's first outputs, and the tokens that it writes."""
    states = encoder.run({"input_features": heard})[0]
    special = [tokenizer.special[f"<|{w}|>"] for w in ("startoftranscript", "en", "transcribe", "notimestamps", "endoftext")]
    tokens, end = special[:4], special[4]
    past = {n: np.zeros((1, d[1], 0, d[3]), np.float32) for n, d in decoder.inputs if n.startswith("past")}
    written, begun = [], None
    while len(written) < steps:
        feeds = {"input_ids": np.array([tokens]), "encoder_hidden_states": states, "use_cache_branch": np.array([bool(written)])}
        made = decoder.run(feeds | past)
        for name, value in zip(decoder.outputs, made):
            if name.startswith("present") and not (written and "encoder" in name):
                past[name.replace("present", "past_key_values")] = value
        begun = begun or made
        written.append(int(made[0][0, -1].argmax()))
        tokens = written[-1:]
        if tokens == [end]:
            break
    return [begun[0], states], written


def compare(name, run, first, others, tokenizer):
    """Prints a row; whether the text is what it must be, and which variants keep theirs."""
    want, text = run(first)
    cells, kept = [], {}
    for which, model in others.items():
        got, written = run(model)
        near, same = likeness(got, want)
        kept[which] = written == text
        apart = next((i for i, (a, b) in enumerate(zip(written, text)) if a != b), min(len(written), len(text)))
        cells.append(f"{100 * near:.2f}%, {100 * same:.0f}%, {'same' if kept[which] else f'to token {apart}'}")
    good = kept["ours"] or not all(v for k, v in kept.items() if k != "ours")
    print(f"| {name} | {len(text)} | " + " | ".join(cells) + f"{'' if good else ' !'} |", flush=True)
    return good, kept


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=64, help="tokens that are written")
    options = parser.parse_args()
    lost = models.fetch(["minimind.onnx", "minimind.json", "whisper_encoder.onnx", "whisper_decoder.onnx", "whisper.json", "speech.wav"])
    if lost:
        sys.exit(f"{', '.join(lost)} cannot be fetched here")
    bad, counts = 0, {}

    def note(result):
        nonlocal bad
        good, kept = result
        bad += not good
        for which, same in kept.items():
            counts.setdefault(which, []).append(same)

    first, others = runtimes("minimind.onnx")
    print("outputs within a step, likeliest tokens of the prompt that are the same, and the text written\n")
    print("| text | tokens | " + " | ".join(others) + " |\n|" + "---|" * (len(others) + 2), flush=True)
    tokenizer = Tokenizer(models.HERE / "minimind.json")
    asked = [(q, f"<|im_start|>user\n{q}<|im_end|>\n<|im_start|>assistant\n") for q in QUESTIONS]
    for name, prompt in [*asked, *((t, t) for t in TEXTS)]:
        tokens = tokenizer.encode(prompt)
        note(compare(name, lambda m: minimind(m, tokens, options.steps), first, others, tokenizer))
    tokenizer, heard = Tokenizer(models.HERE / "whisper.json"), spectrum(models.HERE / "speech.wav")
    pairs = [runtimes(f"whisper_{part}.onnx") for part in ("encoder", "decoder")]
    both = {which: (pairs[0][1][which], pairs[1][1][which]) for which in others}
    run = lambda m: whisper(*m, heard, tokenizer, options.steps)  # noqa: E731
    note(compare("speech.wav", run, (pairs[0][0], pairs[1][0]), both, tokenizer))
    print("\n" + tokenizer.decode(run(both["ours"])[1]).strip())
    print("same texts: " + ", ".join(f"{which} {sum(all)} of {len(all)}" for which, all in counts.items()))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
