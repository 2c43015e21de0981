#!/usr/bin/env python3
"""Measures how fast a model writes with its layers on RPC servers, by the round-trip time to them.

    scripts/rpc-delay.py target/release/longhand model.gguf [RTT...]

RTT is in milliseconds; without any 0.2, 1, 5 and 20. It begins without delay. The servers run on this machine, and what passes between them and the
client is held back for half of the time in each direction. Prints for one and two servers the milliseconds of a token, by its
median, and how many round trips the delay is.
"""

import json
import queue
import re
import socket
import subprocess
import sys
import threading
import time

TOKENS = 32


class Relay:
    """Connections to a port of this machine that pass all bytes on, so many seconds later."""

    def __init__(self, port, delay):
        self.delay = delay
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.target = port
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.target))
            for source, sink in [(client, server), (server, client)]:
                sink.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                pieces = queue.SimpleQueue()
                threading.Thread(target=self.receive, args=(source, pieces), daemon=True).start()
                threading.Thread(target=self.send, args=(sink, pieces), daemon=True).start()

    def receive(self, source, pieces):
        data = True
        while data:
            try:
                data = source.recv(1 << 20)
            except OSError:
                data = b""
            pieces.put((time.monotonic() + self.delay, data))

    @staticmethod
    def send(sink, pieces):
        while True:
            due, data = pieces.get()
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                sink.sendall(data)
            except OSError:
                return


class Server:
    def __init__(self, program):
        command = [program, "rpc-server", "--port", "0", "--device", "cpu"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in self.process.stdout:
            if found := re.search(r"127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
                break
        else:
            raise SystemExit("the server has not started")
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def step_milliseconds(program, model, addresses):
    """The median of the time of a token."""
    command = [program, "bench", "-m", model, "-p", "0", "-n", str(TOKENS), "-r", "1", "--json", "--quiet"]
    if addresses:
        devices = ",".join(f"rpc:{number}" for number in range(len(addresses)))
        command += ["--rpc", ",".join(addresses), "--device", devices]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    return json.loads(output)[0]["step_median_ns"] / 1e6


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    program, model, *times = sys.argv[1:]
    times = [0.0, *(map(float, times) if times else [0.2, 1.0, 5.0, 20.0])]
    print(f"without a server: {step_milliseconds(program, model, []):.1f} ms a token\n")
    print("| servers | round-trip time, ms | a token, ms | tokens a second | round trips a token |")
    print("|---:|---:|---:|---:|---:|", flush=True)
    for count in [1, 2]:
        without_delay = None
        for rtt in times:
            servers = [Server(program) for _ in range(count)]
            relays = [Relay(server.port, rtt / 2000) for server in servers]
            took = step_milliseconds(program, model, [f"127.0.0.1:{relay.port}" for relay in relays])
            without_delay = without_delay or took
            trips = f"{(took - without_delay) / rtt:.1f}" if rtt else "-"
            print(f"| {count} | {rtt:g} | {took:.1f} | {1000 / took:.1f} | {trips} |", flush=True)
            for relay, server in zip(relays, servers):
                relay.listener.close()
                server.stop()


if __name__ == "__main__":
    main()
