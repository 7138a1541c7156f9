"""What jinja2 makes of chat templates: python make.py [FOLDER]

Without a folder it writes `goldens.json` beside this file from `*.jinja` here, which are our own. With one (models/templates
in the source of llama.cpp, which the sdist of llama-cpp-python has; templates of many models, each with its licence) it
writes `goldens.json` there: the tests of frit-llm read it when FRIT_FILES names the folder above `templates`.
The environment is that of the `transformers` package.
"""

import datetime
import json
import pathlib
import sys

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
NOW = datetime.datetime(2026, 3, 7, 9, 5, 2)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class Generation(Extension):
    """`{% generation %}` marks what the model wrote and prints what is in it."""

    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation])
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = NOW.strftime

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a \"city\" — größer <b>&amp;</b>",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Which city"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                "days": {"type": ["integer", "null"], "default": 3},
                "at": {"type": "array", "items": {"type": "number"}, "minItems": 1},
                "exact": {"type": "boolean", "default": False},
            },
            "required": ["city"],
        },
    },
}
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds.",
        "parameters": {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]},
        "return": {"type": "number", "description": "The sum."},
    },
}
USER = {"role": "user", "content": "Hello, \"who\" are you? <b>\n  Grüße"}
SYSTEM = {"role": "system", "content": "You are helpful.\n"}
ANSWER = {"role": "assistant", "content": "I am frit."}
AGAIN = {"role": "user", "content": "And the weather in Zürich?"}
ARGUMENTS = {"city": "Zürich", "days": 2, "at": [1.5, 2e20, 3.0], "exact": True, "unit": None}
CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "call12345", "type": "function", "function": {"name": "get_weather", "arguments": ARGUMENTS}}],
}
TEXT_CALL = json.loads(json.dumps(CALL))
TEXT_CALL["tool_calls"][0]["function"]["arguments"] = json.dumps(ARGUMENTS, ensure_ascii=False)
NONE_CALL = CALL | {"content": None}
TWO_CALLS = json.loads(json.dumps(CALL))
TWO_CALLS["tool_calls"].append({"id": "call12346", "type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": -2.5}}})
RESULT = {"role": "tool", "tool_call_id": "call12345", "name": "get_weather", "content": "{\"degrees\": 21.5}"}
SECOND = {"role": "tool", "tool_call_id": "call12346", "name": "add", "content": "-1.5"}
THOUGHT = {"role": "assistant", "content": "<think>\nHm.\n</think>\n\nI am frit.", "reasoning_content": "Hm."}
PARTS = {"role": "user", "content": [{"type": "text", "text": "Hello"}, {"type": "text", "text": "there"}]}

CASES = {
    "one": {"messages": [USER]},
    "system": {"messages": [SYSTEM, USER]},
    "turns": {"messages": [SYSTEM, USER, ANSWER, AGAIN]},
    "no prompt": {"messages": [USER, ANSWER], "add_generation_prompt": False},
    "thought": {"messages": [USER, THOUGHT, AGAIN]},
    "not thinking": {"messages": [USER], "enable_thinking": False, "thinking": False},
    "parts": {"messages": [PARTS]},
    "tools": {"messages": [SYSTEM, USER], "tools": [WEATHER, ADD]},
    "tools alone": {"messages": [USER], "tools": [WEATHER]},
    "call": {"messages": [USER, CALL, RESULT], "tools": [WEATHER]},
    "call as text": {"messages": [SYSTEM, USER, TEXT_CALL, RESULT], "tools": [WEATHER]},
    "call without content": {"messages": [USER, NONE_CALL, RESULT], "tools": [WEATHER, ADD]},
    "two calls": {"messages": [SYSTEM, USER, TWO_CALLS, RESULT, SECOND, ANSWER, AGAIN], "tools": [WEATHER, ADD]},
    "call without tools": {"messages": [USER, CALL, RESULT, ANSWER, AGAIN]},
}
if len(sys.argv) > 1:
    # what templates of models read where they refuse the tools above, whose types are lists too, and the names that one gives tools
    number = {"type": "number", "description": "One of two."}
    numbers = {"type": "object", "properties": {"a": number, "b": number}, "required": ["a", "b"]}
    plain = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": numbers}}
    asked = {"name": "add", "arguments": {"a": 1, "b": -2.5}}
    summed = {"role": "assistant", "content": "", "tool_calls": [{"id": "abcdefghi", "type": "function", "function": asked}]}
    result = {"role": "tool", "tool_call_id": "abcdefghi", "name": "add", "content": "-1.5"}
    CASES |= {
        "plain tools": {"messages": [USER], "tools": [plain]},
        "plain call": {"messages": [USER, summed, result, ANSWER, AGAIN], "tools": [plain]},
        "functions": {"messages": [SYSTEM, USER], "functions": json.dumps([plain]), "datetime": "2026-03-07"},
    }

out = {}
for path in sorted(HERE.glob("*.jinja")):
    source = path.read_text()
    template = env.from_string(source)
    made = {}
    for name, case in CASES.items():
        values = {"add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>"} | case
        try:
            made[name] = {"text": template.render(**values)}
        except Exception as e:
            made[name] = {"error": f"{type(e).__name__}: {e}"}
    out[path.name] = made
(HERE / "goldens.json").write_text(json.dumps({"cases": CASES, "templates": out}, ensure_ascii=False, indent=1) + "\n")
print(len(out), "templates,", sum("text" in c for t in out.values() for c in t.values()), "texts,",
      sum("error" in c for t in out.values() for c in t.values()), "errors")
