"""A tiny random llama, and a tiny random bert, with the tokeniser of the tests, as folders: python make_tiny.py FOLDER [encoder]

For servers under load and for Python's tests: what it says means nothing. Needs nothing but Python. The guide's, which are in the
repository, are smaller still: python make_tiny.py --guide tests-data/tiny
"""

import json
import pathlib
import random
import shutil
import struct
import sys

TOKENS, WIDTH, HIDDEN, LAYERS, HEADS, KV, CONTEXT = 704, 32, 64, 2, 4, 2, 4096
TEMPLATE = (
    "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
# tools before the messages, and calls in the form of Hermes; the rest as above
WITH_TOOLS = (
    "{% if tools %}{{ '<|system|>Tools: ' + tools | tojson + '<|end|>' }}{% endif %}"
    "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content }}"
    "{% for call in m.tool_calls or [] %}{{ '<tool_call>\\n' + call.function | tojson + '\\n</tool_call>' }}{% endfor %}"
    "{{ '<|end|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def llama():
    head = WIDTH // HEADS
    yield "model.embed_tokens.weight", (TOKENS, WIDTH)
    yield "model.norm.weight", (WIDTH,)
    for i in range(LAYERS):
        at = f"model.layers.{i}"
        yield f"{at}.input_layernorm.weight", (WIDTH,)
        yield f"{at}.post_attention_layernorm.weight", (WIDTH,)
        for name, rows in [("q_proj", WIDTH), ("k_proj", KV * head), ("v_proj", KV * head), ("o_proj", WIDTH)]:
            yield f"{at}.self_attn.{name}.weight", (rows, WIDTH)
        for name, shape in [("gate_proj", (HIDDEN, WIDTH)), ("up_proj", (HIDDEN, WIDTH)), ("down_proj", (WIDTH, HIDDEN))]:
            yield f"{at}.mlp.{name}.weight", shape


def bert():
    yield "embeddings.word_embeddings.weight", (TOKENS, WIDTH)
    yield "embeddings.token_type_embeddings.weight", (2, WIDTH)
    yield "embeddings.position_embeddings.weight", (64, WIDTH)
    norms, layer = ["embeddings.LayerNorm"], {"attention.self.query": (WIDTH, WIDTH), "attention.self.key": (WIDTH, WIDTH),
        "attention.self.value": (WIDTH, WIDTH), "attention.output.dense": (WIDTH, WIDTH), "intermediate.dense": (HIDDEN, WIDTH),
        "output.dense": (WIDTH, HIDDEN)}
    for i in range(LAYERS):
        at = f"encoder.layer.{i}"
        norms += [f"{at}.attention.output.LayerNorm", f"{at}.output.LayerNorm"]
        for name, shape in layer.items():
            yield f"{at}.{name}.weight", shape
            yield f"{at}.{name}.bias", shape[:1]
    for name in norms:
        yield f"{name}.weight", (WIDTH,)
        yield f"{name}.bias", (WIDTH,)


def config(kind):
    return {
        "llama": dict(architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=TOKENS, hidden_size=WIDTH,
                      intermediate_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=KV,
                      max_position_embeddings=CONTEXT, rms_norm_eps=1e-5, rope_theta=10000.0, hidden_act="silu",
                      tie_word_embeddings=True),
        "bert": dict(architectures=["BertModel"], model_type="bert", vocab_size=TOKENS, hidden_size=WIDTH, intermediate_size=HIDDEN,
                     num_hidden_layers=LAYERS, num_attention_heads=HEADS, max_position_embeddings=64, layer_norm_eps=1e-12,
                     hidden_act="gelu", type_vocab_size=2),
    }[kind]


def make(folder, kind="llama", template=WITH_TOOLS):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    draw, entries, data = random.Random(1), {}, b""
    for name, shape in {"llama": llama, "bert": bert}[kind]():
        size = shape[0] * (shape[1] if len(shape) > 1 else 1)
        is_norm = "norm" in name.lower() and not name.endswith("bias")
        values = [1.0] * size if is_norm else [draw.gauss(0, 0.3) for _ in range(size)]
        raw = struct.pack(f"<{size}f", *values)
        entries[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + data)
    (folder / "config.json").write_text(json.dumps(config(kind)))
    shutil.copy(pathlib.Path(__file__).parent.parent / "tokenize" / "bytes.json", folder / "tokenizer.json")
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template, "eos_token": "<|end|>"}))
    return folder


if __name__ == "__main__":
    if sys.argv[1] == "--guide":
        WIDTH, HIDDEN, LAYERS, CONTEXT = 16, 16, 1, 256
        for kind in ["llama", "bert"]:
            make(pathlib.Path(sys.argv[2]) / kind, kind, TEMPLATE)
        sys.exit()
    make(sys.argv[1], "bert" if "encoder" in sys.argv[2:] else "llama")
