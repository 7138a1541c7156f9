"""Small tokenisers, and what the `tokenizers` package makes of texts with them: python make.py TEXT...

Trains WordPiece, byte-level and marked BPE and Unigram on the files given (the project's own documents), writes `*.json` and
`cases.json`; and models of the `sentencepiece` package with what it makes of texts, `sentencepiece.json`.
"""

import json
import pathlib
import random
import sys
import tempfile
import unicodedata

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as proto
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent
FILES = sys.argv[1:]


def word_piece():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train(FILES, trainers.WordPieceTrainer(vocab_size=900, special_tokens=special))
    around = {name: t.token_to_id(name) for name in special}
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", around["[CLS]"]), ("[SEP]", around["[SEP]"])],
    )
    t.decoder = decoders.WordPiece()
    return t


def byte_level(split=None):
    t = Tokenizer(models.BPE())
    whole = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split is None)
    t.pre_tokenizer = whole
    if split:
        cut = pre_tokenizers.Split(Regex(split), behavior="isolated")
        t.pre_tokenizer = pre_tokenizers.Sequence([cut, whole])
        t.normalizer = normalizers.NFC()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    t.train(FILES, trainers.BpeTrainer(vocab_size=700, special_tokens=["<|end|>"], initial_alphabet=sorted(alphabet)))
    t.add_tokens([AddedToken("<|0.02|>", normalized=True), AddedToken(" word ", single_word=True, lstrip=True, rstrip=True)])
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    t.decoder = decoders.ByteLevel()
    return t


def unigram():
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    t.train(FILES, trainers.UnigramTrainer(vocab_size=600, special_tokens=["<unk>", "</s>"], unk_token="<unk>"))
    t.add_tokens(["<extra>"])
    end = t.token_to_id("</s>")
    t.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", end)])
    t.decoder = decoders.Metaspace(prepend_scheme="first")
    return t


def marked():
    """BPE over characters with bytes for those that it does not know, as Llama 2's file has it."""
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    t.train(FILES, trainers.BpeTrainer(vocab_size=800, special_tokens=special, max_token_length=12))
    made = json.loads(t.to_str())
    made["added_tokens"] = made["added_tokens"][:3]
    t = Tokenizer.from_str(json.dumps(made))
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return t


def splits():
    """Other ways to cut, over one vocabulary."""
    every = [pre_tokenizers.Punctuation("merged_with_previous"), pre_tokenizers.Digits(individual_digits=False)]
    every += [pre_tokenizers.Split("e", "merged_with_next"), pre_tokenizers.Split(Regex("[a-m]+"), "contiguous", invert=True)]
    every += [pre_tokenizers.CharDelimiterSplit("o"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    t = byte_level()
    t.pre_tokenizer = pre_tokenizers.Sequence(every)
    return t


def sentence_piece(kind, **more):
    """A model of sentence-piece itself, as the values that GGUF files have."""
    with tempfile.TemporaryDirectory() as d:
        sentencepiece.SentencePieceTrainer.train(
            input=",".join(FILES), model_prefix=d + "/m", model_type=kind, vocab_size=600, minloglevel=2,
            user_defined_symbols=["<tool>"], max_sentencepiece_length=12, **more)
        model = pathlib.Path(d + "/m.model").read_bytes()
    m = proto.ModelProto.FromString(model)
    gguf = {
        "model": {"bpe": "llama", "unigram": "t5"}[kind],
        "tokens": [p.piece for p in m.pieces],
        "scores": [p.score for p in m.pieces],
        "token_type": [p.type for p in m.pieces],
        "unknown": m.trainer_spec.unk_id,
        "add_space_prefix": m.normalizer_spec.add_dummy_prefix,
        "remove_extra_whitespaces": m.normalizer_spec.remove_extra_whitespaces,
        "charsmap": list(m.normalizer_spec.precompiled_charsmap),
    }
    p = sentencepiece.SentencePieceProcessor(model_proto=model)
    texts = [t for t in TEXTS if "\0" not in t] + [random_text(rng) for _ in range(300)]
    texts = [t for t in texts if "\0" not in t]
    return {"gguf": gguf, "cases": [{"text": t, "ids": p.encode(t)} for t in texts]}


# as Llama 3 and those after it cut
NEWER = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

TEXTS = [
    "",
    " ",
    "Hello, world!",
    "It's what we've got: don't they'll I'M he'D.",
    "The  quick\tbrown\n\nfox   jumps",
    "[CLS] inside [MASK]ed text [SEP]",
    "<|end|>after<|0.02|> before <|end|> a word b swordfish word",
    "größer Äpfel naïve café Ångström ÉCOLE İstanbul ΣΊΣΥΦΟΣ ﬁ",
    "汉字 and 日本語 かな 한국어 字",
    "emoji 👩‍🚀🇩🇪 and ✈️",
    "numbers 1234567 3.14 ٣٤٥ ²",
    "a" * 150 + " b",
    "ascii !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ marks",
    "\u00a0nbsp\u2003em\u3000wide\u200bzero\ufeffbom\u00adsoft",
    "nul\0 \x01 control \x7f \ufffd",
    "combining e\u0301 a\u0323\u0302 \u0600",
]


def known(c):
    """Whether the character was always what it is: the package has tables of Unicode 8."""
    category = unicodedata.category(c)
    return category not in ("Cn", "Cs", "Co") and unicodedata.ucd_3_2_0.category(c) == category


def random_text(rng):
    pools = [(0x20, 0x7E), (0x20, 0x7E), (0x00, 0x17F), (0x300, 0x3FF), (0x2000, 0x206F), (0x4E00, 0x4E80), (0, 0xFFFF)]
    out = []
    for _ in range(rng.randint(1, 25)):
        lo, hi = rng.choice(pools)
        c = chr(rng.randint(lo, hi))
        out.append(c if known(c) else " ")
    return "".join(out)


def cases(t, rng):
    for i in range(len(TEXTS) + 400):
        text = TEXTS[i] if i < len(TEXTS) else random_text(rng)
        ids = t.encode(text).ids
        case = {"text": text, "ids": ids, "decoded": t.decode(ids)}
        if i % 8 == 0:
            both = t.encode(text, "and a second")
            case |= {"pair": "and a second", "pair_ids": both.ids, "types": both.type_ids}
        yield case


made = {"wordpiece.json": word_piece(), "bytes.json": byte_level(), "newer.json": byte_level(NEWER)}
made |= {"unigram.json": unigram(), "marked.json": marked(), "splits.json": splits()}
rng = random.Random(17)
for name, t in made.items():
    t.save(str(HERE / name), pretty=False)
out = {name: list(cases(t, rng)) for name, t in made.items()}
(HERE / "cases.json").write_text(json.dumps(out, ensure_ascii=True, separators=(",", ":")).replace('},{"text"', '},\n{"text"') + "\n")

rules = pathlib.Path(tempfile.mkdtemp()) / "rules.tsv"
# ﬁ to fi, wide letters to plain ones, e and an accent to é, a soft hyphen to nothing, white space to blanks
rows = [("FB01", "66 69"), ("65 301", "E9"), ("AD", ""), ("A0", "20"), ("3000", "20"), ("9", "20"), ("A", "20"), ("2003", "20")]
rows += [(f"{0xFF21 + i:X}", f"{0x41 + i:X}") for i in range(26)]
rules.write_text("".join(f"{a}\t{b}\n" for a, b in rows))
pieces = [
    sentence_piece("bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False),
    sentence_piece("bpe", normalization_rule_tsv=str(rules)),
    sentence_piece("unigram", normalization_rule_tsv=str(rules)),
    sentence_piece("unigram", byte_fallback=True, normalization_rule_name="identity", add_dummy_prefix=False),
]
(HERE / "sentencepiece.json").write_text(json.dumps(pieces, separators=(",", ":")).replace('},{"text"', '},\n{"text"') + "\n")
