"""The official `openai` package against a running `frit serve`: python client.py URL [KEY [ENCODER]]

Its calls, unchanged: models, chats whole and in pieces, completions, several answers, probabilities, JSON freely and by schema,
tools, errors; with a key also a wrong one, and embeddings where ENCODER is the URL of a server of an encoder with the same key.
"""

import json
import sys

import openai

KEY = sys.argv[2] if len(sys.argv) > 2 else "none"
client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key=KEY, max_retries=0)
model = client.models.list().data[0].id
HELLO = [{"role": "user", "content": "Say hello."}]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12}, "large": {"type": "boolean"}},
    "required": ["city", "large"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "get_city", "description": "Looks a city up.", "parameters": SCHEMA}}


def is_city(text):
    city = json.loads(text)
    return isinstance(city["city"], str) and isinstance(city["large"], bool) and len(city) == 2


def models():
    assert client.models.retrieve(model).id == model


def chats():
    asked = dict(model=model, messages=HELLO, temperature=0, max_completion_tokens=24, seed=1)
    whole = client.chat.completions.create(**asked)
    text = whole.choices[0].message.content
    assert text and whole.usage.completion_tokens <= 24 and whole.choices[0].finish_reason in ("stop", "length")
    print("whole:", repr(text))
    grown, usage = "", None
    for piece in client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}):
        usage = piece.usage or usage
        grown += "".join(c.delta.content or "" for c in piece.choices)
    print("pieces:", repr(grown))
    assert usage.completion_tokens == whole.usage.completion_tokens and usage.prompt_tokens == whole.usage.prompt_tokens
    assert grown == text


def several_answers():
    made = client.completions.create(model=model, prompt="Once upon a time", max_tokens=8, n=2, temperature=0.8, logprobs=2)
    assert len(made.choices) == 2 and len(made.choices[0].logprobs.tokens) == len(made.choices[0].logprobs.token_logprobs) > 0
    made = client.chat.completions.create(model=model, messages=HELLO, max_tokens=24, n=2, temperature=1, seed=3)
    texts = [c.message.content for c in made.choices]
    assert [c.index for c in made.choices] == [0, 1] and texts[0] != texts[1], texts
    grown = ["", ""]
    for piece in client.chat.completions.create(model=model, messages=HELLO, max_tokens=24, n=2, temperature=1, seed=3, stream=True):
        for c in piece.choices:
            grown[c.index] += c.delta.content or ""
    assert grown == texts, (grown, texts)


def probabilities():
    told = client.chat.completions.create(model=model, messages=HELLO, max_tokens=4, logprobs=True, top_logprobs=3)
    first = told.choices[0].logprobs.content[0]
    assert len(first.top_logprobs) == 3 and first.logprob <= 0
    # bytes of tokens are those of the text, even where a token is part of a character
    raw = b"".join(bytes(t.bytes) for t in told.choices[0].logprobs.content).decode(errors="replace")
    assert told.choices[0].message.content.strip("\ufffd") in raw, (told.choices[0].message.content, raw)
    echoed = client.completions.create(model=model, prompt="Once", max_tokens=4, temperature=0, logprobs=5, echo=True).choices[0]
    assert echoed.logprobs.text_offset[0] == 4 and all(len(t) == 5 for t in echoed.logprobs.top_logprobs)


def forms():
    asked = dict(model=model, messages=[{"role": "user", "content": "Name a city as JSON."}], max_tokens=600)
    schema = {"type": "json_schema", "json_schema": {"name": "city", "schema": SCHEMA, "strict": True}}
    for temperature in (0, 1):
        answer = client.chat.completions.create(**asked, temperature=temperature, seed=1, response_format=schema).choices[0]
        assert answer.finish_reason == "stop" and is_city(answer.message.content), answer
        print("schema:", answer.message.content)
    # what ends by itself is an object; a model that knows nothing may never end one
    ended = 0
    for seed in range(8):
        answer = client.chat.completions.create(**asked, temperature=1, seed=seed, response_format={"type": "json_object"}).choices[0]
        assert answer.message.content.lstrip()[:1] == "{", answer
        if answer.finish_reason == "stop":
            assert isinstance(json.loads(answer.message.content), dict), answer
            ended += 1
    assert ended, "no object ended"


def tools():
    asked = dict(model=model, messages=[{"role": "user", "content": "Look up Rome."}], max_tokens=600, tools=[TOOL], temperature=0)
    for choice in ("required", {"type": "function", "function": {"name": "get_city"}}):
        answer = client.chat.completions.create(**asked, tool_choice=choice).choices[0]
        assert answer.finish_reason == "tool_calls" and len(answer.message.tool_calls) == 1, answer
        call = answer.message.tool_calls[0]
        assert call.function.name == "get_city" and is_city(call.function.arguments), call
    print("tool:", call.id, call.function.name, call.function.arguments)
    name, arguments, ids, reason = "", "", set(), None
    for piece in client.chat.completions.create(**asked, tool_choice="required", stream=True):
        choice = piece.choices[0]
        reason = choice.finish_reason or reason
        for part in choice.delta.tool_calls or []:
            assert part.index == 0
            ids |= {part.id} if part.id else set()
            name += part.function.name or ""
            arguments += part.function.arguments or ""
    assert (reason, name, arguments, len(ids)) == ("tool_calls", "get_city", call.function.arguments, 1), (reason, name, arguments, ids)
    result = {"role": "tool", "tool_call_id": call.id, "content": "a city of Italy"}
    asked["messages"] = [*asked["messages"], answer.message.model_dump(exclude_none=True), result]
    more = client.chat.completions.create(**asked | {"max_tokens": 4}, tool_choice="none").choices[0]
    assert more.message.content and not more.message.tool_calls, more


def errors():
    large = [{"role": "user", "content": "x" * (100 << 20)}]
    for wrong, error, status in [
        (dict(model="other", messages=HELLO), openai.NotFoundError, 404),
        (dict(model=model, messages=[]), openai.BadRequestError, 400),
        (dict(model=model, messages=HELLO, temperature=9), openai.BadRequestError, 400),
        (dict(model=model, messages=large), openai.APIStatusError, 413),
    ]:
        try:
            client.chat.completions.create(**wrong)
            raise SystemExit(f"{str(wrong)[:200]} was taken")
        except error as e:
            assert e.status_code == status and e.body["message"], e


def a_wrong_key():
    try:
        openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="wrong", max_retries=0).models.list()
        raise SystemExit("a wrong key was taken")
    except openai.AuthenticationError as e:
        assert e.status_code == 401 and e.body["message"], e


def embeddings():
    encoder = openai.OpenAI(base_url=sys.argv[3] + "/v1", api_key=KEY, max_retries=0)
    name, texts = encoder.models.list().data[0].id, ["a king", "a queen", "a king"]
    floats = encoder.embeddings.create(model=name, input=texts, encoding_format="float")
    # what the client asks for unless it is told: bytes, which it makes numbers of
    made = encoder.embeddings.create(model=name, input=texts)
    vectors = [e.embedding for e in floats.data]
    assert [e.index for e in made.data] == [0, 1, 2] and made.usage.prompt_tokens == floats.usage.prompt_tokens > 0
    assert all(abs(a - b) < 1e-6 for e, v in zip(made.data, vectors) for a, b in zip(e.embedding, v, strict=True))
    assert vectors[0] == vectors[2] != vectors[1] and abs(sum(x * x for x in vectors[0]) - 1) < 1e-4


for check in [models, chats, several_answers, probabilities, forms, tools, errors]:
    check()
if len(sys.argv) > 2:
    a_wrong_key()
if len(sys.argv) > 3:
    embeddings()
print("the client works")
