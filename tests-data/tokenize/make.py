"""Small tokenisers, and what the `tokenizers` package makes of texts with them: python make.py TEXT...

Trains WordPiece and byte-level BPE on the files given (the project's own documents), writes `*.json` and `cases.json`.
"""

import json
import pathlib
import random
import sys
import unicodedata

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
rng = random.Random(17)
for name, t in made.items():
    t.save(str(HERE / name), pretty=False)
out = {name: list(cases(t, rng)) for name, t in made.items()}
(HERE / "cases.json").write_text(json.dumps(out, ensure_ascii=True, separators=(",", ":")).replace('},{"text"', '},\n{"text"') + "\n")
