"""The first losses of a fine-tuning run by frit and by torch, from the same adapter, texts and settings.

    python losses_beside_torch.py FRIT MODEL.gguf TEXT [--steps 20] [--length 128] [--batch 2]

FRIT is the binary. The model is a llama in GGUF, whose weights are made float32 by gguf's own reader and given to
transformers. Prints both losses of each step, and at the end whether PEFT, given the adapter that frit wrote, has the loss
that frit ends with. Needs torch, transformers, peft, gguf.
"""

import argparse
import pathlib
import re
import subprocess
import tempfile

import gguf
import numpy as np
import torch
from peft import PeftModel
from transformers import LlamaConfig, LlamaForCausalLM

NAMES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
         "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}


def model_of(path):
    """The model of transformers with the weights of the file, and the file."""
    file = gguf.GGUFReader(path)
    key = lambda name: file.fields[f"llama.{name}"].contents()
    heads, kv = key("attention.head_count"), key("attention.head_count_kv")
    tensors = {t.name: torch.from_numpy(np.array(gguf.quants.dequantize(t.data, t.tensor_type))).float()
               for t in file.tensors}
    config = LlamaConfig(
        vocab_size=tensors["token_embd.weight"].shape[0], hidden_size=key("embedding_length"),
        intermediate_size=key("feed_forward_length"), num_hidden_layers=key("block_count"), num_attention_heads=heads,
        num_key_value_heads=kv, rms_norm_eps=key("attention.layer_norm_rms_epsilon"),
        max_position_embeddings=key("context_length"), tie_word_embeddings="output.weight" not in tensors,
        rope_parameters=dict(rope_type="default", rope_theta=key("rope.freq_base")))
    state = {}
    for name, t in tensors.items():
        found = re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", name)
        if found:
            layer, part = found.groups()
            if part in ("attn_q", "attn_k"):
                # neighbours that turn together become one of each half
                n = heads if part == "attn_q" else kv
                t = t.reshape(n, t.shape[0] // n // 2, 2, -1).swapaxes(1, 2).reshape(t.shape)
            state[f"model.layers.{layer}.{NAMES[part]}.weight"] = t
        else:
            theirs = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
            state[theirs[name.removesuffix(".weight")] + ".weight"] = t
    model = LlamaForCausalLM(config)
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and all("lm_head" in m for m in missing), (missing, unexpected)
    model.tie_weights()
    return model, file


def main():
    args = argparse.ArgumentParser()
    args.add_argument("frit")
    args.add_argument("model")
    args.add_argument("text")
    args.add_argument("--steps", type=int, default=20)
    args.add_argument("--length", type=int, default=128)
    args.add_argument("--batch", type=int, default=2)
    args = args.parse_args()
    out = pathlib.Path(tempfile.mkdtemp())
    ids = subprocess.run([args.frit, "llm", "tokens", args.model, args.text], check=True, capture_output=True, text=True)
    ids = torch.tensor([int(i) for i in ids.stdout.split()])
    common = [args.frit, "finetune", args.model, "--data", args.text, "--length", str(args.length), "--batch",
              str(args.batch), "--order", "file", "--schedule", "constant", "--warmup", "0", "--lr", "5e-4", "--rank", "8",
              "--log-every", "1", "--seed", "7"]
    subprocess.run([*common, "--steps", "0", "--out", out / "begin"], check=True, capture_output=True)
    said = subprocess.run([*common, "--steps", str(args.steps + 1), "--from", out / "begin", "--out", out / "end",
                           "--save-every", str(args.steps)], check=True, capture_output=True, text=True).stdout
    ours = [float(l) for l in re.findall(r"loss ([\d.]+)", said)]
    base, _ = model_of(args.model)
    model = PeftModel.from_pretrained(base, out / "begin", is_trainable=True)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-4, weight_decay=0.0)

    def loss_of(model, step):
        rows = []
        count = (len(ids) - 1 + args.length - 1) // args.length
        for i in range(args.batch):
            begin = (step * args.batch + i) % count * args.length
            rows.append(ids[begin:begin + args.length + 1])
        assert all(len(r) == args.length + 1 for r in rows), "the text is too short"
        rows = torch.stack(rows)
        logits = model(rows[:, :-1]).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())

    worst = 0.0
    for step in range(args.steps):
        loss = loss_of(model, step)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        off = abs(ours[step] - loss.item()) / loss.item()
        worst = max(worst, off)
        print(f"step {step + 1:2}  frit {ours[step]:.6f}  torch {loss.item():.6f}  off by {off:.2e}")
    print(f"the largest difference is {100 * worst:.4f} %")
    trained = PeftModel.from_pretrained(model_of(args.model)[0], out / "end" / f"checkpoint-{args.steps}").eval()
    with torch.no_grad():
        theirs = loss_of(trained, args.steps).item()
    print(f"PEFT with frit's adapter: loss {theirs:.6f}, frit {ours[args.steps]:.6f}")
    assert worst < 0.01 and abs(theirs - ours[args.steps]) < 1e-3 * theirs


if __name__ == "__main__":
    main()
