"""What the `tokenizers` and `sentencepiece` packages make of random texts with tokenisers of real models: python vocabs.py FOLDER [COUNT]

FOLDER holds what tests-data/fetch.py fetches. `vocabs.json` beside this file gets COUNT texts (600) and of each a hash of its
tokens with every `ggml-vocab-*.gguf`; with every `tokenizer.json` of TOKENIZERS one of the tokens that special ones are
among, and one of what these are as text again. The tests of frit-tokenize read all of it when FRIT_FILES names the folder.
Needs gguf, tokenizers, sentencepiece, protobuf; made by tokenizers 0.23.3, sentencepiece 0.2.3.
"""

import json
import pathlib
import random
import re
import sys
import unicodedata

import gguf
import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as proto
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

FOLDER = pathlib.Path(sys.argv[1])
COUNT = int(sys.argv[2]) if len(sys.argv) > 2 else 600
OUT = pathlib.Path(__file__).with_name("vocabs.json")
TOKENIZERS = ["minilm/tokenizer.json", "whisper.json"]
RUST = pathlib.Path(__file__).parents[2] / "crates/tokenize/src/patterns.rs"
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def patterns(name):
    """The patterns of a name and whether texts are composed: read from our table, run by the package's engine."""
    source = RUST.read_text()
    consts = {"GPT2": GPT2}
    for const, value in re.findall(r"const (\w+): &str =\s*(.*?);\n", source, re.S):
        consts[const] = "".join(re.findall(r'r(?:##)?"(.*?)"(?:##)?(?:[,\n)]|$)', value, re.S))
    table = source[source.index("const CUTS") :]
    for names, body in re.findall(r"cut\(&\[(.*?)\],\s*&\[(.*?)\]\)", table, re.S):
        if f'"{name}"' in names:
            nfc = "nfc: true" in table[: table.index(names)].rsplit("\n    ", 1)[-1]
            found = re.findall(r'(\w+)(?=,|$)|r?"((?:[^"])*)"', body.strip())
            return [consts[c] if c else p.replace("\\r\\n", "\r\n") for c, p in found], nfc
    raise KeyError(name)


def byte_level(f):
    tokens, kinds = f["tokens"], f["token_type"]
    merges = [tuple(m.split(" ")) for m in f["merges"]]
    cuts, nfc = patterns(f.get("pre", "default"))
    whole = f.get("pre") == "llama-bpe"
    t = Tokenizer(models.BPE({w: i for i, w in enumerate(tokens)}, merges, ignore_merges=whole))
    cut = [pre_tokenizers.Split(Regex(p), behavior="isolated") for p in cuts]
    t.pre_tokenizer = pre_tokenizers.Sequence(cut + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    if nfc:
        t.normalizer = normalizers.NFC()
    t.add_tokens([AddedToken(w, normalized=False) for w, k in zip(tokens, kinds) if k == USER])
    return lambda text: t.encode(text).ids


def marked_pairs(f):
    merges = [(m[: m.index(" ", 1)], m[m.index(" ", 1) + 1 :]) for m in f["merges"]]
    t = Tokenizer(models.BPE({w: i for i, w in enumerate(f["tokens"])}, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    t.normalizer = normalizers.Replace(" ", "▁")
    t.add_tokens([AddedToken(w, normalized=False) for w, k in zip(f["tokens"], f["token_type"]) if k == USER])
    return lambda text: t.encode(text).ids


def sentence_piece(f):
    m = proto.ModelProto()
    unknown = f.get("unknown_token_id", 0)
    for i, (token, score, kind) in enumerate(zip(f["tokens"], f["scores"], f["token_type"])):
        # the package takes only one
        kind = UNKNOWN if i == unknown else CONTROL if kind == UNKNOWN else kind
        m.pieces.add(piece=token, score=score, type=kind)
    m.trainer_spec.model_type = 1 if f["model"] == "t5" else 2
    m.trainer_spec.byte_fallback = BYTE in f["token_type"]
    m.trainer_spec.unk_id = unknown
    m.normalizer_spec.name = "given"
    m.normalizer_spec.add_dummy_prefix = f.get("add_space_prefix", True)
    m.normalizer_spec.remove_extra_whitespaces = f.get("remove_extra_whitespaces", False)
    m.normalizer_spec.precompiled_charsmap = bytes(f.get("precompiled_charsmap", b""))
    p = sentencepiece.SentencePieceProcessor(model_proto=m.SerializeToString())
    return p.encode


def word_piece(f):
    kinds = f["token_type"]
    name = lambda w, k: w if k in (UNKNOWN, CONTROL) else w[1:] if w.startswith("▁") else "##" + w
    t = Tokenizer(models.WordPiece({name(w, k): i for i, (w, k) in enumerate(zip(f["tokens"], kinds))}, unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return lambda text: t.encode(text).ids


KINDS = {"gpt2": byte_level, "gemma4": marked_pairs, "llama": sentence_piece, "t5": sentence_piece, "bert": word_piece}


def known(c):
    """Whether the character was always what it is: tables of Unicode are of several ages here."""
    category = unicodedata.category(c)
    return category not in ("Cn", "Cs", "Co") and unicodedata.ucd_3_2_0.category(c) == category and c != "\0"


def random_text(rng):
    pools = [(0x20, 0x7E)] * 3 + [(9, 13), (0x20, 0x20), (0xA0, 0x17F), (0x300, 0x4FF), (0x900, 0xE7F), (0x2000, 0x206F)]
    pools += [(0x3040, 0x30FF), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3), (0x1F300, 0x1F5FF), (0, 0x10FFFF)]
    words = ["don't", "I'LL", "we'Ve", " the", "   ", "\n\n", "\r\n", "1234567", "3.14", "<|x|>", "<s>", "...", "===", "Hello"]
    out = []
    for _ in range(rng.randint(1, 30)):
        if rng.random() < 0.3:
            out.append(rng.choice(words))
            continue
        lo, hi = rng.choice(pools)
        c = chr(rng.randint(lo, hi))
        out.append(c if known(c) else " ")
    return "".join(out)


def read(path):
    fields = gguf.GGUFReader(path).fields
    start = "tokenizer.ggml."
    return {k[len(start) :]: v.contents() for k, v in fields.items() if k.startswith(start)}


def fnv(data):
    """32 bits of FNV-1a."""
    h = 0x811C9DC5
    for b in data:
        h = (h ^ b) * 0x01000193 % 2**32
    return h


def hashes(texts, made):
    return "".join(f"{fnv(made(t)):08x}" for t in texts)


def of_ids(ids):
    return b"".join(i.to_bytes(4, "little") for i in ids)


rng = random.Random("frit")
texts = [random_text(rng) for _ in range(COUNT)]
out = {"texts": texts, "vocabs": {}, "tokenizers": {}}
for path in sorted(FOLDER.glob("ggml-vocab-*.gguf")):
    f = read(path)
    encode = KINDS[f["model"]](f)
    out["vocabs"][path.name] = hashes(texts, lambda text: of_ids(encode(text)))
    print(path.name, flush=True)
for name in TOKENIZERS:
    t = Tokenizer.from_file(str(FOLDER / name))
    t.no_padding()
    t.no_truncation()
    ids = lambda text: t.encode(text).ids
    encoded = hashes(texts, lambda text: of_ids(ids(text)))
    decoded = hashes(texts, lambda text: t.decode(ids(text), skip_special_tokens=True).encode())
    out["tokenizers"][name] = {"encoded": encoded, "decoded": decoded}
    print(name, flush=True)
OUT.write_text(json.dumps(out, ensure_ascii=False, indent=1) + "\n")
