"""The first losses of a fine-tuning run by frit and by torch, from the same adapter, texts and settings.

    python losses_beside_torch.py FRIT MODEL.gguf TEXT [--steps 20] [--length 128] [--batch 2] [--golden OUT]

FRIT is the binary. The model is a llama in GGUF, whose weights are made float32 by gguf's own reader and given to
transformers. Prints both losses of each step, and at the end whether PEFT, given the adapter that frit wrote, has the loss
that frit ends with. With --golden only torch trains, from an adapter that a formula makes, and OUT (safetensors) gets the
tokens, the losses and those without an adapter, for the tests of frit-llm. Needs torch, transformers, peft, gguf.

data/losses.safetensors: SmolLM2-135M-Instruct.Q4_1.gguf README.md --length 32, torch 2.15, transformers 5.22, peft 0.21.
"""

import argparse
import pathlib
import re
import subprocess
import tempfile

import gguf
import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

LR, RANK = 5e-4, 8
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


def by_formula(model):
    """Numbers of A by their places among those of all, in the order of their names: each within a 32nd of 0."""
    begin = 0
    for _, p in sorted((n, p) for n, p in model.named_parameters() if "lora_A" in n):
        x = np.arange(begin, begin + p.numel(), dtype=np.uint64) * 2654435761 % 2**32
        x = (x ^ x >> 16) * 2246822519 % 2**32
        with torch.no_grad():
            p.copy_(torch.from_numpy((x >> 8).astype(np.float32) / 2**28 - 2**-5).reshape(p.shape))
        begin += p.numel()


def loss_of(model, ids, step, args):
    rows = []
    count = (len(ids) - 1 + args.length - 1) // args.length
    for i in range(args.batch):
        begin = (step * args.batch + i) % count * args.length
        rows.append(ids[begin:begin + args.length + 1])
    assert all(len(r) == args.length + 1 for r in rows), "the text is too short"
    rows = torch.stack(rows)
    logits = model(rows[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())


def losses(model, ids, args):
    """The loss of each step, before it."""
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=LR, weight_decay=0.0)
    for step in range(args.steps):
        loss = loss_of(model, ids, step, args)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield loss.item()


def write_golden(ids, args):
    ids = ids[:args.steps * args.batch * args.length + 1]
    plain = model_of(args.model)[0].eval()
    with torch.no_grad():
        before = [loss_of(plain, ids, step, args).item() for step in range(args.steps)]
    linears = sorted({n.rsplit(".", 1)[1] for n in NAMES.values() if n.endswith("proj")})
    model = get_peft_model(plain, LoraConfig(task_type="CAUSAL_LM", r=RANK, lora_alpha=2 * RANK, target_modules=linears))
    by_formula(model)
    after = []
    for loss in losses(model, ids, args):
        after.append(loss)
        print(f"step {len(after):2}  without an adapter {before[len(after) - 1]:.6f}  torch {loss:.6f}", flush=True)
    save_file({"tokens": ids.int(), "losses": torch.tensor(after), "before": torch.tensor(before)}, args.golden)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("frit")
    args.add_argument("model")
    args.add_argument("text")
    args.add_argument("--steps", type=int, default=20)
    args.add_argument("--length", type=int, default=128)
    args.add_argument("--batch", type=int, default=2)
    args.add_argument("--golden")
    args = args.parse_args()
    ids = subprocess.run([args.frit, "llm", "tokens", args.model, args.text], check=True, capture_output=True, text=True)
    ids = torch.tensor([int(i) for i in ids.stdout.split()])
    if args.golden:
        return write_golden(ids, args)
    out = pathlib.Path(tempfile.mkdtemp())
    common = [args.frit, "finetune", args.model, "--data", args.text, "--length", str(args.length), "--batch",
              str(args.batch), "--order", "file", "--schedule", "constant", "--warmup", "0", "--lr", str(LR), "--rank", str(RANK),
              "--log-every", "1", "--seed", "7"]
    subprocess.run([*common, "--steps", "0", "--out", out / "begin"], check=True, capture_output=True)
    said = subprocess.run([*common, "--steps", str(args.steps + 1), "--from", out / "begin", "--out", out / "end",
                           "--save-every", str(args.steps)], check=True, capture_output=True, text=True).stdout
    ours = [float(l) for l in re.findall(r"loss ([\d.]+)", said)]
    model = PeftModel.from_pretrained(model_of(args.model)[0], out / "begin", is_trainable=True)
    worst = 0.0
    for step, loss in enumerate(losses(model, ids, args)):
        off = abs(ours[step] - loss) / loss
        worst = max(worst, off)
        print(f"step {step + 1:2}  frit {ours[step]:.6f}  torch {loss:.6f}  off by {off:.2e}")
    print(f"the largest difference is {100 * worst:.4f} %")
    trained = PeftModel.from_pretrained(model_of(args.model)[0], out / "end" / f"checkpoint-{args.steps}").eval()
    with torch.no_grad():
        theirs = loss_of(trained, ids, args.steps, args).item()
    print(f"PEFT with frit's adapter: loss {theirs:.6f}, frit {ours[args.steps]:.6f}")
    assert worst < 0.01 and abs(theirs - ours[args.steps]) < 1e-3 * theirs


if __name__ == "__main__":
    main()
