"""Adapters that PEFT writes, for tests to read, and a check that PEFT reads those that frit writes.

    python make_adapters.py make         adapters of the tiny models in data/, with logits by transformers and PEFT
    python make_adapters.py check MODEL ADAPTER
                                         what PEFT makes of a folder that frit wrote: its logits as expected.safetensors there

Needs torch, transformers, peft, safetensors. The files in tests/data were made by torch 2.15, transformers 5.22, peft 0.21.
"""

import pathlib
import sys

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

HERE = pathlib.Path(__file__).parent / "data"

ADAPTERS = {
    "llama": dict(r=3, lora_alpha=6, target_modules=["q_proj", "k_proj", "o_proj", "gate_proj", "down_proj"]),
    "qwen3": dict(r=2, lora_alpha=6, target_modules=["q_proj", "v_proj"], use_rslora=True,
                  rank_pattern={"layers.1.self_attn.v_proj": 4}, alpha_pattern={"layers.1.self_attn.v_proj": 5}),
    "phi3": dict(r=2, lora_alpha=4, target_modules=["qkv_proj", "gate_up_proj"]),
    "gpt2": dict(r=2, lora_alpha=4, target_modules=["c_attn", "c_fc"], fan_in_fan_out=True),
}


def logits(model, name):
    ids = load_file(HERE / name / "expected.safetensors")["ids"]
    with torch.no_grad():
        return {"ids": ids, "values": model.eval()(ids[None].long()).logits[0].float().contiguous()}


def make():
    for name, settings in ADAPTERS.items():
        torch.manual_seed(3)
        base = AutoModelForCausalLM.from_pretrained(HERE / name, dtype=torch.float32)
        base.name_or_path = base.config._name_or_path = name
        model = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", **settings))
        for n, p in model.named_parameters():
            if "lora_" in n:
                # as much as the weights themselves, so that nothing hides
                torch.nn.init.normal_(p, std=0.3)
        folder = HERE / f"adapter_{name}"
        model.save_pretrained(folder)
        save_file(logits(model, name), folder / "expected.safetensors")
        (folder / "README.md").unlink(missing_ok=True)


def check(name, folder):
    base = AutoModelForCausalLM.from_pretrained(HERE / name, dtype=torch.float32)
    model = PeftModel.from_pretrained(base, folder)
    save_file(logits(model, name), pathlib.Path(folder) / "expected.safetensors")
    print(sum(p.numel() for n, p in model.named_parameters() if "lora_" in n), "numbers in PEFT's hands")


if sys.argv[1] == "make":
    make()
else:
    check(*sys.argv[2:4])
