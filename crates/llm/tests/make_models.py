"""Makes the models that tests read: one tiny random model a family, as a folder and as GGUF, with logits by transformers.

    python make_models.py LLAMA_CPP OUT [NAME...]

LLAMA_CPP is a source tree of llama.cpp, whose own script converts; its vocabularies are left out, since there are none.
Needs torch, transformers, safetensors. The files in tests/data were made by torch 2.15, transformers 5.22.
"""

import json
import pathlib
import shutil
import sys

import torch
import transformers as tf
from safetensors.torch import save_file

SIZES = dict(vocab_size=40, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=32, max_position_embeddings=128)
ONE = dict(SIZES, num_hidden_layers=1)
LENGTH = 24
# models of which there are values for a longer text too: past the context of training, where other factors are taken
LONGER = {"phi3_long": 40}


def rope(kind, **more):
    return dict(rope_parameters=dict(rope_type=kind, rope_theta=10000.0, **more))


# name: (configuration, model)
MODELS = {
    "llama": (tf.LlamaConfig(**SIZES), tf.LlamaForCausalLM),
    "llama_tied": (tf.LlamaConfig(**SIZES, tie_word_embeddings=True, head_dim=8, attention_bias=True, mlp_bias=True),
                   tf.LlamaForCausalLM),
    "llama3": (tf.LlamaConfig(**ONE, **rope("llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                              original_max_position_embeddings=32)), tf.LlamaForCausalLM),
    "llama_linear": (tf.LlamaConfig(**ONE, **rope("linear", factor=4.0)), tf.LlamaForCausalLM),
    "llama_yarn": (tf.LlamaConfig(**ONE, **rope("yarn", factor=4.0, original_max_position_embeddings=32)),
                   tf.LlamaForCausalLM),
    "mistral": (tf.MistralConfig(**SIZES, sliding_window=7), tf.MistralForCausalLM),
    "mistral_whole": (tf.MistralConfig(**ONE, sliding_window=None), tf.MistralForCausalLM),
    "mixtral": (tf.MixtralConfig(**ONE, num_local_experts=4, num_experts_per_tok=2), tf.MixtralForCausalLM),
    "qwen2": (tf.Qwen2Config(**SIZES, tie_word_embeddings=True), tf.Qwen2ForCausalLM),
    "qwen2_window": (tf.Qwen2Config(**SIZES, use_sliding_window=True, sliding_window=7, max_window_layers=1),
                     tf.Qwen2ForCausalLM),
    "qwen3": (tf.Qwen3Config(**SIZES, head_dim=8), tf.Qwen3ForCausalLM),
    "qwen2_moe": (tf.Qwen2MoeConfig(**ONE, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
                                    shared_expert_intermediate_size=20), tf.Qwen2MoeForCausalLM),
    "qwen3_moe": (tf.Qwen3MoeConfig(**ONE, head_dim=8, num_experts=4, num_experts_per_tok=2, norm_topk_prob=True,
                                    moe_intermediate_size=16), tf.Qwen3MoeForCausalLM),
    "gemma": (tf.GemmaConfig(**SIZES, head_dim=8), tf.GemmaForCausalLM),
    "gemma2": (tf.Gemma2Config(**SIZES, head_dim=8, query_pre_attn_scalar=8, sliding_window=7,
                               attn_logit_softcapping=5.0, final_logit_softcapping=10.0), tf.Gemma2ForCausalLM),
    "gemma3": (tf.Gemma3TextConfig(**dict(SIZES, num_hidden_layers=6, hidden_size=16, intermediate_size=16), head_dim=8, query_pre_attn_scalar=8,
                                   sliding_window=7), tf.Gemma3ForCausalLM),
    "gemma3_linear": (tf.Gemma3TextConfig(
        **dict(SIZES, num_hidden_layers=6, hidden_size=8, num_attention_heads=2, num_key_value_heads=1, intermediate_size=8),
        head_dim=8, query_pre_attn_scalar=8, sliding_window=7, rope_parameters=dict(
            full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1e6),
            sliding_attention=dict(rope_type="default", rope_theta=1e4))), tf.Gemma3ForCausalLM),
    "phi3": (tf.Phi3Config(**SIZES, pad_token_id=0), tf.Phi3ForCausalLM),
    "phi3_long": (tf.Phi3Config(**ONE, pad_token_id=0, original_max_position_embeddings=32,
                                **rope("longrope", short_factor=[1.0, 1.5, 2.0], long_factor=[2.0, 3.0, 5.0],
                                       original_max_position_embeddings=32)), tf.Phi3ForCausalLM),
    "gpt2": (tf.GPT2Config(vocab_size=40, n_embd=24, n_layer=2, n_head=4, n_positions=64, n_ctx=64), tf.GPT2LMHeadModel),
    "bert": (tf.BertConfig(vocab_size=40, hidden_size=24, num_hidden_layers=2, num_attention_heads=4,
                           intermediate_size=32, max_position_embeddings=64, pad_token_id=0), tf.BertModel),
}


def make(name, out):
    config, model = MODELS[name]
    torch.manual_seed(len(name))
    config._attn_implementation = "eager"
    m = model(config).eval()
    with torch.no_grad():
        # far from what training begins with, so that a mistake anywhere is seen
        for p in m.parameters():
            p.copy_((p.mean().round() if p.dim() == 1 else 0.0) + 0.35 * torch.randn_like(p))
            p.copy_((p * 256).round() / 256 if p.dim() == 1 else p.half().float())  # 1 + p is a float16 too
        ids = torch.randint(0, 40, (1, LENGTH))
        result = m(ids)
        if name in LONGER:
            longer = torch.randint(0, 40, (1, LONGER[name]))
            longer_values = m(longer).logits
    values = result.last_hidden_state if name == "bert" else result.logits
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    m.half().save_pretrained(folder)
    if name in LONGER:
        save_file({"ids": longer[0].int(), "values": longer_values[0].float().contiguous()},
                  folder / "expected_longer.safetensors")
    (folder / "generation_config.json").unlink(missing_ok=True)
    save_file({"ids": ids[0].int(), "values": values[0].float().contiguous()}, folder / "expected.safetensors")
    return folder


def convert(folder, file, llama):
    sys.path[:0] = [str(llama), str(llama / "gguf-py")]
    from conversion import get_model_class
    from conversion.base import ModelBase
    import gguf
    (architecture,) = json.loads((folder / "config.json").read_text())["architectures"]
    ModelBase.load_hparams(folder, False)
    with torch.inference_mode():
        instance = get_model_class(architecture)(folder, gguf.LlamaFileType.MOSTLY_F16, file)
        instance.set_vocab = lambda: None
        instance.write()


if __name__ == "__main__":
    llama, out, *names = sys.argv[1:]
    for name in names or MODELS:
        folder = make(name, pathlib.Path(out))
        # the script takes every safetensors file for weights
        held = {f: f.read_bytes() for f in folder.glob("expected*.safetensors")}
        [f.unlink() for f in held]
        vocabulary = folder / "tokenizer.json"  # of which it wants the size
        vocabulary.write_text(json.dumps({"model": {"vocab": {str(i): i for i in range(40)}}, "added_tokens": []}))
        file = pathlib.Path(out) / f"{name}.gguf"
        convert(folder, file, pathlib.Path(llama))
        vocabulary.unlink()
        [f.write_bytes(content) for f, content in held.items()]
        print(name, sum(f.stat().st_size for f in folder.iterdir()), file.stat().st_size)
        if name in ("mistral", "qwen2_window"):
            file.unlink()  # it has lost the window
