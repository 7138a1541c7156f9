"""The official `openai` package against a running `frit serve`: python client.py URL [KEY]

Its calls, unchanged: models, chats whole and in pieces, completions, several answers, probabilities, JSON by schema, tools, errors.
"""

import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key=sys.argv[2] if len(sys.argv) > 2 else "none", max_retries=0)
model = client.models.list().data[0].id
assert client.models.retrieve(model).id == model
HELLO = [{"role": "user", "content": "Say hello."}]

whole = client.chat.completions.create(model=model, messages=HELLO, temperature=0, max_completion_tokens=24, seed=1)
text = whole.choices[0].message.content
assert text and whole.usage.completion_tokens <= 24 and whole.choices[0].finish_reason in ("stop", "length")
print("whole:", repr(text))

pieces = client.chat.completions.create(
    model=model, messages=HELLO, temperature=0, max_completion_tokens=24, seed=1, stream=True, stream_options={"include_usage": True}
)
grown, usage = "", None
for piece in pieces:
    usage = piece.usage or usage
    grown += "".join(c.delta.content or "" for c in piece.choices)
print("pieces:", repr(grown))
assert usage.completion_tokens == whole.usage.completion_tokens and usage.prompt_tokens == whole.usage.prompt_tokens
assert grown == text

made = client.completions.create(model=model, prompt="Once upon a time", max_tokens=8, n=2, temperature=0.8, logprobs=2)
assert len(made.choices) == 2 and len(made.choices[0].logprobs.tokens) == len(made.choices[0].logprobs.token_logprobs) > 0
told = client.chat.completions.create(model=model, messages=HELLO, max_tokens=4, logprobs=True, top_logprobs=3)
first = told.choices[0].logprobs.content[0]
assert len(first.top_logprobs) == 3 and first.logprob <= 0
# bytes of tokens are those of the text, even where a token is part of a character
raw = b"".join(bytes(t.bytes) for t in told.choices[0].logprobs.content).decode(errors="replace")
assert told.choices[0].message.content.strip("\ufffd") in raw, (told.choices[0].message.content, raw)
echoed = client.completions.create(model=model, prompt="Once", max_tokens=4, temperature=0, logprobs=5, echo=True).choices[0]
assert echoed.logprobs.text_offset[0] == 4 and all(len(t) == 5 for t in echoed.logprobs.top_logprobs)

schema = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12}, "large": {"type": "boolean"}},
    "required": ["city", "large"],
    "additionalProperties": False,
}
# a model that knows nothing may fill an answer with blanks, which the form allows: what ends by itself must be of the form
ended = 0
for seed in range(8):
    answer = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": "Name a city as JSON."}],
        max_tokens=200,
        temperature=1,
        seed=seed,
        response_format={"type": "json_schema", "json_schema": {"name": "city", "schema": schema, "strict": True}},
    ).choices[0]
    assert answer.message.content.lstrip()[:1] in ("{", "")
    if answer.finish_reason == "stop":
        city, ended = json.loads(answer.message.content), ended + 1
        assert isinstance(city["city"], str) and isinstance(city["large"], bool)
        print("schema:", city)
assert ended, "no answer of a form ended"

tool = {"type": "function", "function": {"name": "get_city", "description": "Looks a city up.", "parameters": schema}}
asked = dict(model=model, messages=[{"role": "user", "content": "Look up Rome."}], max_tokens=80, tools=[tool], temperature=0)
try:
    called = client.chat.completions.create(**asked, tool_choice="required")
    call = called.choices[0].message.tool_calls[0]
    print("tool:", call.function.name, json.loads(call.function.arguments))
    assert called.choices[0].finish_reason == "tool_calls" and call.function.name == "get_city"
except openai.BadRequestError as e:
    # the template of a model may know no tools
    assert "tools" in e.body["message"], e
    print("tool:", e.body["message"])

for wrong, error in [
    (dict(model="other", messages=HELLO), openai.NotFoundError),
    (dict(model=model, messages=[]), openai.BadRequestError),
    (dict(model=model, messages=HELLO, temperature=9), openai.BadRequestError),
]:
    try:
        client.chat.completions.create(**wrong)
        raise SystemExit(f"{wrong} was taken")
    except error as e:
        assert e.body["message"], e
if len(sys.argv) > 2:
    try:
        openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="wrong", max_retries=0).models.list()
        raise SystemExit("a wrong key was taken")
    except openai.AuthenticationError:
        pass
print("the client works")
