"""Language models from Python, on tiny random ones: `tests-data/serve/make_tiny.py`."""

import pathlib
import sys
import threading

import pytest

from frit import Tensor
from frit.llm import Embedder, Model

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests-data" / "serve"))
from make_tiny import make  # noqa: E402

HELLO = [{"role": "user", "content": "Say hello."}]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return Model(make(tmp_path_factory.mktemp("llama")), context=256, positions=1024, parallel=4, cache="f32")


def test_texts_become_tokens_and_texts_again(model):
    text = "Hello größer 🦀 world"
    assert model.decode(model.encode(text)) == text
    assert (model.context, model.vocab_size) == (256, 704)
    ends = model.encode("<|end|>")
    assert len(ends) == 1 < len(model.encode("<|end|>", special=False))
    assert model.decode(ends) == "" and model.decode(ends, special=True) == "<|end|>"


def test_the_likeliest_tokens_are_those_of_the_logits(model):
    tokens = model.encode("Once upon a time")
    answer = model.stream(tokens, max_tokens=6)
    pieces = list(answer)
    assert "".join(pieces) == answer.text and len(answer.tokens) == 6 and answer.reason == "length"
    assert answer.prompt_tokens == len(tokens) and answer.seconds[0] > 0
    whole = tokens + answer.tokens
    logits = model.logits(whole)
    assert logits.shape == (len(whole), 704)
    assert logits.argmax(-1).tolist()[len(tokens) - 1 : -1] == answer.tokens
    assert model.generate("Once upon a time", max_tokens=6) == answer.text


def test_seeds_stops_and_limits(model):
    options = dict(max_tokens=12, temperature=1.0, top_p=0.95)
    one = model.generate("a", seed=3, **options)
    assert one == model.generate("a", seed=3, **options) != model.generate("a", seed=4, **options)
    stop = one[3:5]
    assert model.generate("a", seed=3, stop=stop, **options) == one[: one.index(stop)]
    with pytest.raises(RuntimeError, match="context"):
        model.generate("a b c " * 200)
    with pytest.raises(RuntimeError, match="temperature"):
        model.generate("a", temperature=-1.0)
    with pytest.raises(RuntimeError, match="token 999"):
        model.generate([999])
    with pytest.raises(RuntimeError, match="each below 704"):
        model.logits([])
    with pytest.raises(TypeError):
        model.generate("a", warmth=1)


def test_probabilities_and_biases_of_tokens(model):
    tokens = model.encode("Once upon a time")
    answer = model.stream(tokens, max_tokens=4, logprobs=2)
    assert answer.logprobs == []
    list(answer)
    assert len(answer.logprobs) == 4
    logits = model.logits(tokens + answer.tokens).log_softmax(-1).tolist()[len(tokens) - 1 : -1]
    for token, (told, top), row in zip(answer.tokens, answer.logprobs, logits, strict=True):
        assert list(top)[0] == token and top[token] == told and len(top) == 2
        assert all(abs(row[t] - p) < 1e-3 for t, p in top.items())
    plain = model.stream(tokens, max_tokens=1)
    assert list(plain) is not None and plain.logprobs == []
    forced = model.stream(tokens, max_tokens=3, logit_bias={40: 1e4})
    list(forced)
    assert forced.tokens == [40, 40, 40]
    # a penalty counts all of the answer, and nothing of the prompt
    forced = model.stream([40] * 64, max_tokens=110, logit_bias={40: 1e4 + 100, 41: 1e4}, frequency_penalty=1.0)
    list(forced)
    assert 80 < forced.tokens.index(41) < 110
    with pytest.raises(RuntimeError, match="999"):
        model.generate("a", logit_bias={999: 1.0})
    with pytest.raises(TypeError):
        model.generate("a", logit_bias=[1])


def test_a_deterministic_answer_depends_on_none_beside_it(tmp_path):
    options = dict(context=256, positions=1024, parallel=4)
    model = Model(make(tmp_path / "llama"), deterministic=True, **options)
    asked = [dict(prompt=p * 9, seed=i, temperature=2.0, max_tokens=12, logprobs=1) for i, p in enumerate(["abc", "d", "ef g"])]
    streams = [model.stream(a.pop("prompt"), **a) for a in map(dict, asked)]
    [list(s) for s in streams]
    fresh = Model(make(tmp_path / "llama"), deterministic=True, **options)
    for a, beside in zip(asked, streams):
        alone = fresh.stream(a.pop("prompt"), **a)
        list(alone)
        assert (alone.tokens, alone.logprobs) == (beside.tokens, beside.logprobs)
    for products in ["rounded", "bytes", "float"]:
        assert Model(tmp_path / "llama", products=products, **options).generate("a", max_tokens=4)
    with pytest.raises(ValueError, match="rounded, bytes or float"):
        Model(tmp_path / "llama", products="doubled")


def test_conversations_go_through_the_template(model):
    assert model.render(HELLO) == "<|user|>Say hello.<|end|><|assistant|>"
    answer = model.stream(HELLO, max_tokens=5)
    assert model.chat(HELLO, max_tokens=5) == "".join(answer)
    assert answer.prompt_tokens == len(model.encode(model.render(HELLO)))


def test_answers_share_the_model_and_may_be_left(model):
    alone = [model.generate(p, max_tokens=8) for p in "abc"]
    streams = [model.stream(p, max_tokens=8) for p in "abc"]
    next(streams[0])
    texts = ["".join(s) for s in streams[::-1]][::-1]
    assert [s.text for s in streams] == alone and texts[1:] == alone[1:]
    left = model.stream("d", max_tokens=200)
    next(left)
    del left
    ended = model.stream("d", max_tokens=200)
    next(ended)
    ended.cancel()
    assert list(ended) == [] and ended.reason == "cancelled"
    results = {}
    threads = [threading.Thread(target=lambda p=p: results.update({p: model.generate(p, max_tokens=8)})) for p in "abc"]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert [results[p] for p in "abc"] == alone


def test_embeddings_have_length_one_and_know_what_is_near(tmp_path):
    encoder = Embedder(make(tmp_path / "bert", "bert"))
    vectors = encoder.embed(["a small house", "a small house!", "12345 67890"])
    assert isinstance(vectors, Tensor) and vectors.shape == (3, 32)
    near = (vectors @ vectors.T).tolist()
    assert all(abs(near[i][i] - 1) < 1e-5 for i in range(3)) and near[0][1] > near[0][2]
    assert (encoder.embed("a small house") - vectors[0]).abs().max().item() < 1e-6
    with pytest.raises(RuntimeError, match="1 to 64"):
        encoder.embed("long " * 100)


def test_what_is_not_a_model_says_so(tmp_path):
    with pytest.raises(RuntimeError, match="config.json|nowhere"):
        Model(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="int8"):
        Model(tmp_path, cache="int4")
