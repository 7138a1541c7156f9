"""Texts that llama.cpp writes, and what their logits are in float64: python make_truth.py MODEL.gguf OUT

The weights of a llama are made float64 by gguf's own reader and evaluated by transformers. OUT (safetensors) has for each of
the texts the tokens of prompt and answer, and for each token of an answer the logits of the eight likeliest before it.
Needs xllamacpp, torch, transformers, gguf. data/smollm2.safetensors was made by xllamacpp 2026.10.11549.
"""

import os
import subprocess
import sys
import tempfile

import torch
import xllamacpp
from safetensors.torch import save_file

sys.argv, arguments = sys.argv[:1], sys.argv[1:]
from losses_beside_torch import model_of  # noqa: E402

PROMPTS = [
    "Once upon a time there was a small house at the edge of the sea, and in it",
    "The three most important things about learning to cook are",
    "In 1815, after the battle of Waterloo,",
    "def fibonacci(n):\n    ",
    "Water boils at a lower temperature on a mountain because",
    "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nWrite a poem about the moon.<|im_end|>\n<|im_start|>assistant\n",
    "Dear Sir or Madam,\n\nI am writing to",
    "The cat sat on the mat, while the dog",
    "A list of animals: 1. lion 2. tiger 3.",
]
COUNT = 64


def main(path, out):
    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel, params.warmup = path, 512, 1, False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 2
    server = xllamacpp.Server(params)
    model = model_of(path)[0].double().eval()
    lengths, tokens, ids, logits = [], [], [], []
    for prompt in PROMPTS:
        ask = dict(prompt=prompt, n_predict=COUNT, temperature=0, top_k=1, ignore_eos=True, logprobs=1, cache_prompt=False)
        said = server.handle_completions(ask)["choices"][0]["logprobs"]["content"]
        whole = tokens_of(path, prompt) + [t["id"] for t in said]
        assert len(said) == COUNT
        with torch.no_grad():
            rows = model(torch.tensor([whole])).logits[0, -COUNT - 1:-1]
        top = rows.topk(8, -1)
        lengths.append(len(whole))
        tokens += whole
        ids.append(top.indices.int())
        logits.append(top.values)
        agree = (top.indices[:, 0] == torch.tensor(whole[-COUNT:])).sum().item()
        print(f"{len(whole) - COUNT} tokens of a prompt; llama.cpp chose the likeliest of float64 {agree} times of {COUNT}")
    save_file({"lengths": torch.tensor(lengths, dtype=torch.int32), "tokens": torch.tensor(tokens, dtype=torch.int32),
               "ids": torch.cat(ids).contiguous(), "logits": torch.cat(logits).float().contiguous()}, out)


def tokens_of(path, prompt):
    """The prompt's tokens; FRIT is the binary. That they are llama.cpp's too is what tests of the tokeniser hold."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(prompt)
        file.flush()
        said = subprocess.run([os.environ["FRIT"], "llm", "tokens", path, file.name], capture_output=True, check=True)
    return [int(i) for i in said.stdout.split()]


if __name__ == "__main__":
    main(*arguments)
