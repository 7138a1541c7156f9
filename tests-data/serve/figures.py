"""What batching and shared prefixes are worth, on a running `frit serve`: python figures.py URL

A prefix of about 1,000 tokens the second time; the steps until a request that joins has its first token; eight streams
beside one. Nothing else may use the server. Needs nothing but Python.
"""

import json
import re
import sys
import threading
import time
import urllib.request

URL = sys.argv[1]


def call(path, body=None):
    data = json.dumps(body).encode() if body else None
    return urllib.request.urlopen(urllib.request.Request(URL + path, data, {"Content-Type": "application/json"}))


def count(name):
    time.sleep(0.05)
    return float(re.search(rf"^frit_{name} (\S+)$", call("/metrics").read().decode(), re.MULTILINE)[1])


MODEL = json.load(call("/v1/models"))["data"][0]["id"]


def complete(prompt, tokens, told=None):
    """Seconds to the first token, and in all."""
    begun, first = time.monotonic(), None
    body = dict(model=MODEL, prompt=prompt, max_tokens=tokens, temperature=0, stream=True, logit_bias=None, ignore_eos=True)
    for line in call("/v1/completions", {k: v for k, v in body.items() if v is not None and k != "ignore_eos"}):
        if line.startswith(b"data: {"):
            first = first or time.monotonic() - begun
            if told:
                told()
    return first, time.monotonic() - begun


def tokens_a_second(streams, tokens=64):
    before, begun = count("generated_tokens_total"), time.monotonic()
    threads = [threading.Thread(target=complete, args=(f"Story {i}: once upon a time", tokens)) for i in range(streams)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    took = time.monotonic() - begun
    return (count("generated_tokens_total") - before) / took


text = " ".join(f"word{i % 97} and {i}" for i in range(260))
shared = count("shared_tokens_total")
once, again = complete(text, 1)[1], complete(text + " more", 1)[1]
print(f"a long prompt: {once:.3f} s, again {again:.3f} s: {again / once:.2f} of it "
      f"({count('shared_tokens_total') - shared:.0f} tokens found)")

steps = []
running = threading.Thread(target=complete, args=("Tell me all there is to know:", 160))
running.start()
time.sleep(0.5)
before = count("steps_total")
complete("And you?", 1)
print(f"a request that joins: its answer after {count('steps_total') - before:.0f} steps")
running.join()

one, eight = tokens_a_second(1), tokens_a_second(8)
print(f"one stream {one:.1f} tokens/s, eight {eight:.1f}: {eight / one:.2f} times")
