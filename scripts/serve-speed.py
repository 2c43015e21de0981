#!/usr/bin/env python3
"""Measures what `longhand serve` promises, with a model of yours.

    scripts/serve-speed.py target/release/longhand model.gguf [TOKENS]

Prints: tokens a second of an answer alone, and beside a client whose text of TOKENS (30000) is read; tokens a second of 1, 2, 4
and 8 answers at once; the time to the first token about a document of 8,000 words for the first client, for a second one, and
after a restart.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

WORDS = "The old boat crossed the quiet river and the small bird left the garden in the evening rain".split()


def text(words, seed):
    return " ".join(WORDS[(i * i + seed * i + seed) % len(WORDS)] for i in range(words))


class Server:
    def __init__(self, program, model, home, context, conversations=2, flags=()):
        folders = {"HOME": home, "XDG_CACHE_HOME": home, "XDG_STATE_HOME": home, "XDG_CONFIG_HOME": home}
        command = [program, "serve", model, "--port", "0", "-np", str(conversations), "-c", str(context), "--quiet", *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **folders})
        self.url = re.search(r"http://\S+:\d+", self.process.stdout.readline())[0]

    def post(self, path, body):
        data, kind = json.dumps(body).encode(), {"Content-Type": "application/json"}
        return urllib.request.urlopen(urllib.request.Request(self.url + path, data, kind))

    def stream(self, body):
        """The times of the tokens of an answer, since it was asked for."""
        started, times = time.monotonic(), []
        for line in self.post("/v1/chat/completions", {**body, "stream": True, "temperature": 0}):
            if line.startswith(b"data: {") and json.loads(line[6:])["choices"][0]["delta"].get("content"):
                times.append(time.monotonic() - started)
        return times

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def question(words):
    return {"messages": [{"role": "user", "content": words}], "max_tokens": 64, "logit_bias": {}}


def speed(times):
    return (len(times) - 1) / (times[-1] - times[0])


def at_once(server, answers):
    """Tokens a second of so many answers, while all are written."""
    times = [None] * answers

    def ask(number):
        words = f"Count from {10 * number + 1} to two hundred, in words."
        started = time.monotonic()
        times[number] = [started + after for after in server.stream({**question(words), "max_tokens": 128})]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(answers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first, last = max(one[0] for one in times), min(one[-1] for one in times)
    return sum(first < at <= last for one in times for at in one) / (last - first)


def main():
    program, model = map(os.path.abspath, sys.argv[1:3])
    tokens = int((sys.argv[3:] or ["30000"])[0])
    with tempfile.TemporaryDirectory() as home:
        server = Server(program, model, home, tokens + 4096)
        count = lambda words: len(json.load(server.post("/tokenize", {"content": words}))["tokens"])
        long = text(tokens, 1)
        long = " ".join(long.split()[: tokens * tokens // count(long)])
        answer = question("Count from one to one hundred, in words.")
        server.stream(answer)
        alone = [speed(server.stream(answer)) for _ in range(3)]
        reading = threading.Thread(target=lambda: server.stream({**question(long), "max_tokens": 1}))
        reading.start()
        time.sleep(3)
        beside = []
        while reading.is_alive() and len(beside) < 3:
            beside.append(speed(server.stream(answer)))
        middle = sorted(alone)[1]
        print(f"alone: {middle:.1f} tokens/s; beside a reading of {count(long)} tokens:",
              ", ".join(f"{one:.1f} ({one / middle:.2f})" for one in beside))
        reading.join()
        server.stop()
        server = Server(program, model, home, 2048, 8, ["--draft", "0"])
        for _ in range(2):
            speeds = [at_once(server, answers) for answers in (1, 2, 4, 8)]
        print("1, 2, 4 and 8 answers at once:", ", ".join(f"{one:.1f}" for one in speeds), "tokens/s")
        server.stop()
        server = Server(program, model, home, 16384)
        document = json.load(server.post("/v1/documents", {"name": "boat.txt", "text": text(8000, 2)}))
        started = time.monotonic()
        while json.load(urllib.request.urlopen(f"{server.url}/v1/documents/{document['id']}"))["status"] != "read":
            time.sleep(0.05)
        print(f"document of {document['tokens']} tokens read in {time.monotonic() - started:.1f} s")
        about = lambda text: {**question(text), "documents": [document["id"]], "max_tokens": 16}
        first = server.stream(about("What crossed the river?"))[0]
        # The other session is taken while the first one answers.
        busy = threading.Thread(target=lambda: server.stream({**about("Tell a long story."), "max_tokens": 200}))
        busy.start()
        time.sleep(0.5)
        second = server.stream(about("What left the garden?"))[0]
        busy.join()
        server.stop()
        server = Server(program, model, home, 16384)
        server.post("/v1/documents", {"name": "boat.txt", "text": text(8000, 2)})
        restarted = server.stream(about("What crossed the river?"))[0]
        server.stop()
        print(f"first token: {first:.2f} s, for a second client {second:.2f} s, after a restart {restarted:.2f} s")


if __name__ == "__main__":
    main()
