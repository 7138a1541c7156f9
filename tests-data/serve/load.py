"""Many streaming clients of a running `frit serve` at once: python load.py URL CLIENTS SECONDS [PID]

Every client asks for a chat of its own again and again. Fails where an answer is an error or not whole, where blocks of keys and
values are not given back, where the time to the first token is spread too far (p95 over 3 times the median in three of four
stretches of time: in one, other guests of the machine may have had its cores), or, given the process, where its memory has grown
by more than a tenth since the first quarter. The server's key is that of the environment, FRIT_API_KEY. Needs nothing but Python.
"""

import asyncio
import collections
import json
import os
import pathlib
import re
import statistics
import sys
import time
import urllib.parse

KEY = os.environ.get("FRIT_API_KEY", "none")


async def ask(host, port, method, path, body=None):
    """The status of a call, and its lines as they come."""
    reader, writer = await asyncio.open_connection(host, port)
    data = json.dumps(body).encode() if body else b""
    head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\nAuthorization: Bearer {KEY}\r\n"
    writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
    await writer.drain()
    yield (await reader.readline()).decode().split()[1]
    async for line in reader:
        yield line.decode(errors="replace").strip()
    writer.close()


async def metrics(host, port):
    lines = [line async for line in ask(host, port, "GET", "/metrics")]
    return {m[1]: float(m[2]) for line in lines if (m := re.fullmatch(r"frit_(\w+) ([\d.e+-]+)", line))}


def resident(pid):
    """MiB of a process."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


async def client(number, host, port, model, until, firsts, problems):
    round = 0
    while time.monotonic() < until:
        round += 1
        message = f"client {number:4} asks {round:4} times for a story of the sea"
        body = dict(model=model, messages=[dict(role="user", content=message)], max_tokens=16, stream=True, temperature=0.8)
        begun, first, is_done = time.monotonic(), None, False
        try:
            lines = ask(host, port, "POST", "/v1/chat/completions", body)
            status = await anext(lines)
            async for line in lines:
                # the first delta only says who speaks
                if first is None and re.search(r'"content": ?"[^"]', line):
                    first = time.monotonic() - begun
                is_done = is_done or line == "data: [DONE]"
        except OSError as e:
            status = repr(e)
        if status != "200" or not is_done:
            problems.append(f"client {number}: {status}, done {is_done}")
            return
        # an answer may be of special tokens alone
        firsts += [(begun, first)] if first is not None else []


def spread(firsts):
    """The median of the times to the first token, and their p95."""
    return statistics.median(firsts), statistics.quantiles(firsts, n=20)[18]


async def main(url, clients, seconds, pid=None):
    at = urllib.parse.urlparse(url)
    host, port = at.hostname, at.port
    models = [line async for line in ask(host, port, "GET", "/v1/models")]
    model = json.loads(next(l for l in models if l.startswith("{")))["data"][0]["id"]
    begun, firsts, problems, sizes = time.monotonic(), [], [], []
    until = begun + float(seconds)
    tasks = [asyncio.create_task(client(i, host, port, model, until, firsts, problems)) for i in range(int(clients))]
    while pid and time.monotonic() < until:
        await asyncio.sleep(min(1.0, float(seconds) / 8))
        sizes.append(resident(pid))
    await asyncio.gather(*tasks)
    took = time.monotonic() - begun
    await asyncio.sleep(1.5)
    m = await metrics(host, port)
    median, p95 = spread([first for _, first in firsts])
    stretches = collections.defaultdict(list)
    for at, first in firsts:
        stretches[int((at - begun) / (took / 10))].append(first)
    ratios = sorted(p95 / median for median, p95 in map(spread, (s for s in stretches.values() if len(s) >= 20)))
    ratio = ratios[len(ratios) // 4] if ratios else p95 / median
    print(f"{clients} clients, {took:.0f} s: {len(firsts)} answers, {m['generated_tokens_total'] / took:.0f} tokens/s; "
          f"first token {1e3 * median:.0f} ms in the middle, p95 {1e3 * p95:.0f} ms ({p95 / median:.2f} times, {ratio:.2f} in a quiet stretch)")
    if m["blocks_free"] != m["blocks"]:
        problems.append(f"{m['blocks'] - m['blocks_free']} blocks were not given back")
    if ratio > 3:
        problems.append(f"p95 is {ratio:.1f} times the median")
    if sizes:
        early, late = max(sizes[: len(sizes) // 4 + 1]), sizes[-1]
        print(f"memory {early:.0f} MiB at first, {late:.0f} MiB at last")
        if late > 1.1 * early + 8:
            problems.append("memory grows")
    if problems:
        sys.exit("\n".join(problems[:10]))


asyncio.run(main(*sys.argv[1:]))
