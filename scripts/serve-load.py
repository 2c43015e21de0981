#!/usr/bin/env python3
"""Loads `longhand serve` over the loopback: many connections, slow and half clients, requests that are cancelled, a kill.

    scripts/serve-load.py target/release/longhand [REQUESTS]

The server has the built-in model. Each request asks for a number of its own, so that a mixed answer is found. Prints how many
requests were answered, cancelled and refused, and the server's memory and open files before and after.
"""

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

NAMES = ["Mary", "John", "Anna", "Peter", "Lucy", "Tom", "Sarah", "Paul"]
CONNECTIONS = 1000


class Server:
    def __init__(self, program, home, *more):
        folders = {"HOME": home, "XDG_CACHE_HOME": home, "XDG_STATE_HOME": home, "XDG_CONFIG_HOME": home}
        command = [program, "serve", "--port", "0", "--parallel", "4", "-c", "2k", "--quiet", *more]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **folders})
        self.port = int(re.search(r"http://\S+:(\d+)", self.process.stdout.readline())[1])

    def state(self):
        status = open(f"/proc/{self.process.pid}/status").read()
        memory = int(re.search(r"VmRSS:\s+(\d+)", status)[1]) // 1024
        threads = int(re.search(r"Threads:\s+(\d+)", status)[1])
        return f"{memory} MiB, {len(os.listdir(f'/proc/{self.process.pid}/fd'))} open files, {threads} threads"


async def connect(port):
    return await asyncio.open_connection("127.0.0.1", port)


def request(body, connection="close"):
    body = json.dumps(body).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Connection: {connection}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def asked(rng):
    name, number = rng.choice(NAMES), rng.randrange(10_000, 100_000)
    filler = "The old boat crossed the quiet river. " * rng.randrange(0, 60)
    text = f"{filler}{name}'s favorite number is {number}. What is {name}'s favorite number?"
    return {"messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 40}, f"{name}'s favorite number is {number}."


async def one(port, rng, counts):
    """A request that is answered, cancelled at a random moment, or read slowly."""
    body, wanted = asked(rng)
    is_stream, kind = rng.random() < 0.5, rng.random()
    body["stream"] = is_stream
    reader, writer = await connect(port)
    writer.write(request(body))
    try:
        if kind < 0.3:
            await asyncio.sleep(rng.random() * 0.5)
            counts["cancelled"] += 1
            return
        text = b""
        while piece := await reader.read(64 if kind < 0.4 else 65536):
            text += piece
            if kind < 0.4:
                await asyncio.sleep(0.005)
        text = text.decode()
        if text.startswith("HTTP/1.1 429"):
            counts["refused"] += 1
            return
        if is_stream:
            data = [line[6:] for line in text.splitlines() if line.startswith("data: {")]
            deltas = [json.loads(line)["choices"][0]["delta"] for line in data]
            answer = "".join(delta.get("content") or "" for delta in deltas)
        else:
            answer = json.loads(text.split("\r\n\r\n", 1)[1])["choices"][0]["message"]["content"]
        # The small model is wrong now and then. An answer to another question would have another name.
        if answer != wanted:
            counts["other numbers" if answer.split("'")[0] == wanted.split("'")[0] else "MIXED"] += 1
        counts["answered"] += 1
    finally:
        writer.close()


async def load(port, requests, counts):
    rng = random.Random(7)
    held = [await connect(port) for _ in range(CONNECTIONS - 100)]
    for number, (_, writer) in enumerate(held):
        # A third say nothing, a third half a head, a third half a body.
        writer.write([b"", b"POST /v1/chat/completions HTTP/1.1\r\nHost: local", request(asked(rng)[0])[:-20]][number % 3])
    limit = asyncio.Semaphore(50)

    async def limited(seed):
        async with limit:
            await one(port, random.Random(seed), counts)

    await asyncio.gather(*(limited(seed) for seed in range(requests)))
    for _, writer in held:
        writer.close()


def main():
    program, requests = os.path.abspath(sys.argv[1]), int((sys.argv[2:] or ["200"])[0])
    with tempfile.TemporaryDirectory() as home:
        server = Server(program, home)
        counts = dict.fromkeys(["answered", "cancelled", "refused", "other numbers", "MIXED"], 0)
        print("before:", server.state())
        for _ in range(2):
            started = time.monotonic()
            asyncio.run(load(server.port, requests, counts))
            time.sleep(2)
            print(f"after {time.monotonic() - started:.0f} s:", server.state(), counts)
        server.process.send_signal(signal.SIGTERM)
        print("ended with", server.process.wait(30))
        # Killed in the middle of answers; a new one starts as if nothing had been.
        server = Server(program, home)
        try:
            loop = asyncio.new_event_loop()
            loop.call_later(1, server.process.kill)
            loop.run_until_complete(load(server.port, requests, dict.fromkeys(counts, 0)))
        except (OSError, json.JSONDecodeError, IndexError) as error:
            print("killed; its clients saw", type(error).__name__)
        server.process.wait()
        server = Server(program, home)
        counts = dict.fromkeys(counts, 0)
        asyncio.run(load(server.port, 20, counts))
        print("after the kill:", counts, "left behind:", [name for _, _, names in os.walk(home) for name in names if "tmp" in name])
        server.process.terminate()
        server.process.wait(30)


if __name__ == "__main__":
    main()
