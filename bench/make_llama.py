"""A llama of any size with weights from a seed, as a GGUF file: for timing, its answers mean nothing.

    python bench/make_llama.py 8b q4_k llama8b.gguf
    frit llm bench llama8b.gguf --streams 32
"""

import argparse
import struct

import numpy as np

# layers, width, heads, heads of keys, hidden, tokens
SIZES = {
    "8b": (32, 4096, 32, 8, 14336, 128256),
    "1b": (16, 2048, 32, 8, 8192, 128256),
    "tiny": (2, 256, 4, 2, 512, 1000),
}
# GGUF's number of a type, elements and bytes of a block, and where its float16 scales stand
TYPES = {
    "f32": (0, 1, 4, []),
    "f16": (1, 1, 2, []),
    "bf16": (30, 1, 2, []),
    "q8_0": (8, 32, 34, [0]),
    "q4_0": (2, 32, 18, [0]),
    "q4_1": (3, 32, 20, [0, 2]),
    "q4_k": (12, 256, 144, [0, 2]),
    "q6_k": (14, 256, 210, [208]),
}
ALIGNMENT = 32
# bytes after which weights repeat
PERIOD = 1 << 24


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def key(name, value):
    if isinstance(value, str):
        return text(name) + struct.pack("<I", 8) + text(value)
    if isinstance(value, float):
        return text(name) + struct.pack("<If", 6, value)
    return text(name) + struct.pack("<II", 4, value)


def values(kind, shape, rng):
    """The bytes of a tensor: many blocks, again and again."""
    count = int(np.prod(shape))
    _, elements, size, _ = TYPES[kind]
    some = min(count, PERIOD // size * elements)
    return (fresh(kind, some, rng) * -(-count // some))[: count // elements * size]


def fresh(kind, count, rng):
    """The bytes of so many elements."""
    if kind == "f32":
        return np.ones(count, np.float32).tobytes()  # of norms
    if kind in ("f16", "bf16"):
        x = (rng.standard_normal(count, np.float32) * 0.02).astype(np.float32)
        return (x.view(np.uint32) >> 16).astype(np.uint16).tobytes() if kind == "bf16" else x.astype(np.float16).tobytes()
    _, elements, size, scales = TYPES[kind]
    blocks = rng.integers(0, 256, (count // elements, size), np.uint8)
    for at in scales:
        scale = rng.uniform(1e-4, 3e-4, count // elements).astype(np.float16)
        blocks[:, at : at + 2] = scale.view(np.uint8).reshape(-1, 2)
    return blocks.tobytes()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", choices=SIZES)
    parser.add_argument("type", choices=TYPES, help="of the weights of products; the head of q4_k is q6_k")
    parser.add_argument("out")
    parser.add_argument("--layers", type=int, help="as many instead")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    layers, width, heads, kv_heads, hidden, tokens = SIZES[args.size]
    layers = args.layers or layers
    kv = width // heads * kv_heads
    keys = {
        "general.architecture": "llama",
        "llama.block_count": layers,
        "llama.context_length": 8192,
        "llama.embedding_length": width,
        "llama.feed_forward_length": hidden,
        "llama.attention.head_count": heads,
        "llama.attention.head_count_kv": kv_heads,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.freq_base": 500000.0,
        "llama.vocab_size": tokens,
        "tokenizer.ggml.model": "no_vocab",
    }
    head = "q6_k" if args.type == "q4_k" else args.type
    tensors = [("token_embd", args.type, (tokens, width)), ("output", head, (tokens, width)), ("output_norm", "f32", (width,))]
    for i in range(layers):
        tensors += [(f"blk.{i}.{n}_norm", "f32", (width,)) for n in ("attn", "ffn")]
        parts = {"attn_q": (width, width), "attn_k": (kv, width), "attn_v": (kv, width), "attn_output": (width, width)}
        parts |= {"ffn_gate": (hidden, width), "ffn_up": (hidden, width), "ffn_down": (width, hidden)}
        tensors += [(f"blk.{i}.{n}", args.type, shape) for n, shape in parts.items()]
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(key(*k) for k in keys.items())
    offset = 0
    for name, kind, shape in tensors:
        number, elements, size, _ = TYPES[kind]
        header += text(f"{name}.weight") + struct.pack("<I", len(shape))
        header += b"".join(struct.pack("<Q", d) for d in reversed(shape)) + struct.pack("<IQ", number, offset)
        offset += -(-int(np.prod(shape)) // elements * size // ALIGNMENT) * ALIGNMENT
    rng = np.random.default_rng(args.seed)
    with open(args.out, "wb") as out:
        out.write(header + b"\0" * (-len(header) % ALIGNMENT))
        for name, kind, shape in tensors:
            raw = values(kind, shape, rng)
            out.write(raw + b"\0" * (-len(raw) % ALIGNMENT))


if __name__ == "__main__":
    main()
