#!/usr/bin/env python3
"""Compares `longhand serve` with llama.cpp's `llama-server`: the same model, rows and threads, the same requests, in turns.

    serve.py [--rounds 3] [--clients 1,4,16] [--threads 2] [--context 2048] [--document TOKENS] [--json OUT]
             [--longhand-flags '…'] [--peer-flags '…'] LONGHAND LLAMA-SERVER MODEL.gguf

Both servers stay loaded, and one at a time is asked. Each has as many conversations as the largest number of clients, with
`--context` tokens of f16 rows each. Every client sends its next request when the answer to the last one is complete. No two
requests share more than a few words, so nothing is cached; answers are greedy, of up to 64 tokens.

With `--document TOKENS` the clients ask about one text of about so many tokens instead, each one question, all at once. In each round
that text is a new one. Needs only Python's standard library.

Prints a Markdown table: tokens of answers a second (reading included), seconds to the first token and between two tokens (median, and
99th percentile over all rounds), and the ratio of tokens a second in each round (median, smallest, largest).
"""

import argparse
import contextlib
import json
import os
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

WORDS = (
    "boat river bird garden evening rain letter captain harbour stone window market winter candle forest bridge island mirror "
    "silver summer teacher village lantern mountain kitchen soldier whisper journey thunder meadow orchard blanket compass"
).split()
PATIENCE = 1800


def prose(words, seed):
    """A text that no other seed begins with."""
    state, text = seed * 7919 + 17, []
    for number in range(words):
        state = (state * 1103515245 + 12345) % 2**31
        text.append(WORDS[(state >> 16) % len(WORDS)])
        if number % 12 == 11:
            text[-1] += "."
    return " ".join(text)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Server:
    def __init__(self, command, home):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        folders = {name: home for name in ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")}
        self.log = tempfile.TemporaryFile()
        command = [*command, "--host", "127.0.0.1", "--port", str(port)]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, env={**os.environ, **folders})
        deadline = time.monotonic() + PATIENCE
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.log.seek(0)
                sys.exit(f"{' '.join(command)} did not start:\n{self.log.read().decode(errors='replace')[-3000:]}")
            time.sleep(0.2)

    def is_ready(self):
        try:
            return urllib.request.urlopen(f"{self.url}/health", timeout=10).status == 200
        except (urllib.error.URLError, OSError):
            return False

    def ask(self, text, limit):
        """The time of the request and those of each piece of its answer, and the number of the answer's tokens."""
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": limit, "temperature": 0}
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        kind = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/v1/chat/completions", json.dumps(body).encode(), kind)
        times = [time.monotonic()]
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            for line in response:
                if line.startswith(b"data: {"):
                    piece = json.loads(line[6:])
                    if piece["choices"] and piece["choices"][0]["delta"].get("content"):
                        times.append(time.monotonic())
                    if piece.get("usage"):
                        tokens = piece["usage"]["completion_tokens"]
        if len(times) < 2:
            sys.exit("an answer without a text")
        return {"times": times, "tokens": tokens}

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def at_once(server, requests, clients, limit):
    """All answers. Each client takes the next request when it has its answer."""
    waiting, answers, lock = list(requests), [], threading.Lock()

    def client():
        while True:
            with lock:
                if not waiting:
                    return
                text = waiting.pop(0)
            answer = server.ask(text, limit)
            with lock:
                answers.append(answer)

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(answers) != len(requests):
        sys.exit("a request was not answered")
    return answers


def speed(answers):
    """Tokens of answers a second, from the first request to the last token."""
    began, ended = (at(answer["times"][place] for answer in answers) for at, place in ((min, 0), (max, -1)))
    return sum(answer["tokens"] for answer in answers) / (ended - began)


def percentiles(values):
    values = sorted(values)
    return f"{statistics.median(values):.2f} / {values[min(len(values) - 1, len(values) * 99 // 100)]:.2f}"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("longhand")
    ap.add_argument("peer")
    ap.add_argument("model")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--clients", default="1,4,16")
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--context", type=int, default=2048)
    ap.add_argument("--document", type=int)
    ap.add_argument("--longhand-flags", default="--policy full", help="default: %(default)s")
    ap.add_argument("--peer-flags", default="", help="such as '-fa on'")
    ap.add_argument("--json", help="also write the times of every piece there")
    o = ap.parse_args()
    counts = [int(count) for count in o.clients.split(",")]
    most, threads = max(counts), str(o.threads)
    runs = []
    with tempfile.TemporaryDirectory() as home, contextlib.ExitStack() as running:
        longhand = [o.longhand, "serve", o.model, "-np", str(most), "-c", str(o.context), "-t", threads, "--quiet"]
        peer = [o.peer, "-m", o.model, "-np", str(most), "-c", str(most * o.context), "-t", threads]
        commands = {"longhand": [*longhand, *shlex.split(o.longhand_flags)], "llama.cpp": [*peer, *shlex.split(o.peer_flags)]}
        servers = {}
        for name, command in commands.items():
            servers[name] = Server(command, home)
            running.callback(servers[name].stop)
            servers[name].ask("Say hello.", 8)
        for number in range(o.rounds):
            for count in counts:
                seed = 100_000 * number + 10_000 * counts.index(count)
                if o.document:
                    text = prose(o.document * 3 // 4, seed)
                    requests = [f"{text}\n\nTell what the text says about the {WORDS[one]}." for one in range(count)]
                else:
                    requests = [f"{prose(220, seed + one)}\n\nTell a long story with these words." for one in range(max(8, 2 * count))]
                row = {"round": number, "clients": count}
                for name in list(servers)[:: 1 if number % 2 == 0 else -1]:
                    row[name] = at_once(servers[name], requests, count, 64)
                    time.sleep(1)
                runs.append(row)
                print(f"round {number + 1}, {count} clients: "
                      + ", ".join(f"{name} {speed(row[name]):.1f}" for name in servers), file=sys.stderr)  # fmt: skip
    print("| clients | server | tokens/s | first token, s (median / p99) | between tokens, s (median / p99) | longhand / llama.cpp |")
    print("|---:|---|---:|---:|---:|---:|")
    for count in counts:
        rows = [row for row in runs if row["clients"] == count]
        ratios = [speed(row["longhand"]) / speed(row["llama.cpp"]) for row in rows]
        for name in commands:
            answers = [answer["times"] for row in rows for answer in row[name]]
            first = percentiles([times[1] - times[0] for times in answers])
            between = percentiles([b - a for times in answers for a, b in zip(times[1:], times[2:])])
            middle = statistics.median(speed(row[name]) for row in rows)
            ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if name == "longhand" else ""
            print(f"| {count} | {name} | {middle:.1f} | {first} | {between} | {ratio} |")
    if o.json:
        with open(o.json, "w") as file:
            json.dump({"commands": commands, "runs": runs}, file)


if __name__ == "__main__":
    main()
