#!/usr/bin/env python3
"""Tries the section "Several processes" of docs/serve.md: two processes of `longhand serve` behind nginx.

    scripts/serve-nginx.py target/release/longhand

nginx runs with the configuration of docs/serve.md, with other ports. It is the installed one, or Debian's package, which is
unpacked in target/tools. The built-in model answers. Nothing outside the loopback is asked.
"""

import atexit
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FACT = "Mary's favorite number is 34251."
QUESTION = "What is Mary's favorite number?"
PATIENCE = 60


def check(what, is_so, found=""):
    if not is_so:
        sys.exit(f"{what}: it is not so; {found}")
    print(f"{what}: as it should be", flush=True)


def until(what, condition):
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        if time.monotonic() > end:
            sys.exit(f"{what}: not within {PATIENCE} s")
        time.sleep(0.02)
    return found


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Answer:
    def __init__(self, response):
        self.status, self.process = response.status, response.headers.get("X-Process")
        self.text = response.read().decode()

    def json(self):
        return json.loads(self.text)

    def cached(self):
        return self.json()["usage"]["prompt_tokens_details"]["cached_tokens"]


def open_request(port, method, path, body=None, **headers):
    """Headers have underscores instead of hyphens. The response is not read yet."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    if isinstance(body, dict):
        body, headers["Content-Type"] = json.dumps(body), "application/json"
    connection.request(method, path, body, headers)
    return connection.getresponse()


def ask(*request, **headers):
    return Answer(open_request(*request, **headers))


class Process:
    """A process of longhand serve. It has the port of the one before it."""

    def __init__(self, program, environment, port):
        self.command, self.environment, self.port = [program, "serve", "--port", str(port)], environment, port
        self.command += ["--ctx-size", "8192", "--parallel", "2", "--allow-host", "gateway.example", "--quiet"]
        self.start()

    def start(self):
        self.program = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, env=self.environment)
        atexit.register(self.program.kill)
        until("a process is ready", self.is_ready)

    def is_ready(self):
        try:
            return ask(self.port, "GET", "/health").status == 200
        except OSError:
            return False

    def kill(self):
        self.program.send_signal(signal.SIGKILL)
        self.program.wait()

    def metric(self, name):
        return float(re.search(f"^longhand_{name} (.*)$", ask(self.port, "GET", "/metrics").text, re.M)[1])


def filler(words, begin):
    """A text without facts, another one for each number."""
    cycle = f"{begin} The old boat crossed the quiet river.".split()
    return " ".join((cycle * (words // len(cycle) + 1))[:words])


def upload(port, text, **headers):
    """Sends a document and waits until it is read. Returns its id and its tokens."""
    sent = ask(port, "POST", "/v1/documents?name=report.txt", text, Content_Type="text/plain", **headers)
    if sent.status not in (200, 201):
        sys.exit(f"the document was refused: {sent.text}")
    found = sent.json()
    path = f"/v1/documents/{found['id']}"
    until("a document is read", lambda: ask(port, "GET", path, **headers).json()["status"] == "read")
    return found["id"], found["tokens"]


def chat(document=None, **fields):
    documents = {"documents": [document]} if document else {}
    return {"messages": [{"role": "user", "content": QUESTION}], "temperature": 0, **documents, **fields}


def is_right(answer):
    return answer.status == 200 and answer.json()["choices"][0]["message"]["content"] == FACT


def nginx_program():
    if found := shutil.which("nginx"):
        return found
    folder = ROOT / "target/tools/nginx"
    program = folder / "usr/sbin/nginx"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", "--quiet", "nginx"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        package = next(folder.glob("nginx_*.deb"))
        subprocess.run(["dpkg", "-x", package, folder], check=True)
    return str(program)


def start_nginx(folder, ports):
    """nginx with the configuration of the documentation; `ports` says which ports are instead of those there."""
    text = (ROOT / "docs/serve.md").read_text()
    config = re.search("```nginx\n(.*?)```", text, re.S)[1]
    for documented, port in ports.items():
        config = config.replace(f"127.0.0.1:{documented}", f"127.0.0.1:{port}")
    paths = [f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")]
    # Its processes would be another user's, who may not write to the folder.
    user = "user root;" if os.geteuid() == 0 else ""
    settings = f"{user} worker_processes 2; daemon off; pid {folder}/pid; error_log {folder}/errors; events {{}}"
    (folder / "nginx.conf").write_text("\n".join([settings, "http {", "access_log off;", *paths, config, "}"]))
    command = [nginx_program(), "-e", f"{folder}/errors", "-c", f"{folder}/nginx.conf"]
    nginx = subprocess.Popen(command)
    atexit.register(nginx.terminate)


def same_document_same_process(gateway, processes):
    """Returns the process of the document `report`, the other one, the id and the tokens."""
    asked = {f"document {number}": ask(gateway, "GET", "/props", X_Document=f"document {number}").process for number in range(16)}
    check("documents are spread over both processes", len(set(asked.values())) == 2, asked)
    again = {name: ask(gateway, "GET", "/props", X_Document=name).process for name in asked}
    check("the same document goes to the same process", again == asked, again)
    by_path = {name: ask(gateway, "GET", f"/for/{name.replace(' ', '-')}/props").process for name in asked}
    check("documents in the address are spread, too", len(set(by_path.values())) == 2, by_path)
    report = filler(700, 0) + " " + FACT
    document, tokens = upload(gateway, report, X_Document="report")
    answer = ask(gateway, "POST", "/v1/chat/completions", chat(document), X_Document="report")
    check("an answer about a document", is_right(answer), answer.text)
    check("it was read before", answer.cached() > tokens * 0.9, answer.text)
    ours = next(process for process in processes if answer.process == f"127.0.0.1:{process.port}")
    other = next(process for process in processes if process is not ours)
    unknown = ask(other.port, "POST", "/v1/chat/completions", chat(document))
    check("the other process does not know it", unknown.status == 400 and document in unknown.text, unknown.text)
    check("and says so in a word", unknown.json()["error"]["code"] == "document_not_found", unknown.text)
    return ours, other, report, document, tokens


def streams(gateway, ours):
    """Streams come token by token, and who leaves stops the work."""
    before, long = ours.metric("answer_tokens_total"), 6000
    body = {"prompt": "The lamp is", "max_tokens": long, "temperature": 1, "stream": True}
    response = open_request(gateway, "POST", "/v1/completions", body, X_Document="report")
    first = response.readline()
    check("the first token comes while the answer is written", ours.metric("requests_at_work") == 1, first)
    events = sum(response.readline().startswith(b"data: ") for _ in range(20))
    check("one event for each token", events == 10, events)
    check("and the next ones, too", ours.metric("requests_at_work") == 1)
    response.close()
    until("the work stops", lambda: ours.metric("requests_at_work") == 0)
    written = ours.metric("answer_tokens_total") - before
    check("who leaves stops the work", written < long, f"{written} tokens")
    progress = chat(stream=True, return_progress=True)
    progress["messages"][0]["content"] = filler(4000, "progress") + FACT + QUESTION
    with open_request(gateway, "POST", "/v1/chat/completions", progress, X_Document="report") as response:
        first = response.readline()
        check("how far a reading is comes while it is read", ours.metric("requests_at_work") == 1, first)


def guarded(gateway):
    """The gateway passes on what longhand checks."""
    def status(**headers):
        return ask(gateway, "GET", "/v1/models", X_Document="report", **headers).status
    check("the name of the gateway", status(Host="gateway.example") == 200)
    check("another name", status(Host="evil.example") == 403)
    check("a web page", status(Origin="http://evil.example") == 403)
    large = ask(gateway, "POST", "/v1/documents?name=a.txt", b"x" * (65 << 20), X_Document="report")
    check("a file that is too long", large.status == 413, large.status)
    long = ask(gateway, "POST", "/v1/documents?name=a.txt", b"boat " * (2 << 20), X_Document="report")
    check("one of 10 MiB comes through, and has too many tokens", "context_length_exceeded" in long.text, long.text)


def killed(gateway, ours, other, report, document, tokens):
    """A process dies. The other one serves its documents."""
    # An answer that has not begun is given by the other process.
    answers = []
    long = {"prompt": "The lamp is", "max_tokens": 6000, "temperature": 1}
    whole = threading.Thread(
        target=lambda: answers.append(ask(gateway, "POST", "/v1/completions", long, X_Document="report"))
    )
    stream = open_request(gateway, "POST", "/v1/completions", {**long, "stream": True}, X_Document="report")
    stream.readline()
    whole.start()
    until("both are at work", lambda: ours.metric("requests_at_work") == 2)
    ours.kill()
    try:
        rest = stream.read()
    except (http.client.IncompleteRead, ConnectionError):
        rest = b""
    check("a stream of a killed process has no end that looks like one", b"[DONE]" not in rest, rest[-100:])
    whole.join()
    check("an answer that was not sent yet comes from the other", answers[0].status == 200, answers[0].text)
    check("which is the other", answers[0].process.endswith(f":{other.port}"), answers[0].process)

    unknown = ask(gateway, "POST", "/v1/chat/completions", chat(document), X_Document="report")
    check("the document is to be sent again", unknown.json()["error"].get("code") == "document_not_found", unknown.text)
    read = other.metric("prompt_tokens_total")
    again, _ = upload(gateway, report, X_Document="report")
    check("it has the same name", again == document, again)
    answer = ask(gateway, "POST", "/v1/chat/completions", chat(document), X_Document="report")
    check("the answer is right", is_right(answer), answer.text)
    read = other.metric("prompt_tokens_total") - read
    check("the document was not read again", answer.cached() > tokens * 0.9 and read < tokens * 0.1, f"{read} tokens")
    ours.start()
    until(
        "the document goes back to its process",
        lambda: ask(gateway, "GET", "/props", X_Document="report").process.endswith(f":{ours.port}"),
    )
    upload(gateway, report, X_Document="report")
    answer = ask(gateway, "POST", "/v1/chat/completions", chat(document), X_Document="report")
    check("and is not read again there", is_right(answer) and answer.cached() > tokens * 0.9, answer.text)


def ended(gateway, ours, other):
    """A process ends as it should, with an answer at work."""
    answers = []
    long = {"prompt": "The lamp is", "max_tokens": 6000, "temperature": 1}
    whole = threading.Thread(
        target=lambda: answers.append(ask(gateway, "POST", "/v1/completions", long, X_Document="report"))
    )
    whole.start()
    until("it is at work", lambda: ours.metric("requests_at_work") == 1)
    ours.program.terminate()
    check("exit code after SIGTERM", ours.program.wait() == 0)
    whole.join()
    from_other = answers[0].status == 200 and answers[0].process.endswith(f":{other.port}")
    check("its answer comes from the other process, too", from_other, answers[0].text[:500])
    ours.start()


def at_the_same_time(processes):
    """Both processes are sent the same document at the same time."""
    for number in range(3):
        text = filler(900, f"same {number}") + " " + FACT
        found = []
        threads = [threading.Thread(target=lambda p=p: found.append(upload(p.port, text))) for p in processes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for process in processes:
            answer = ask(process.port, "POST", "/v1/chat/completions", chat(found[0][0]))
            if not is_right(answer):
                sys.exit(f"two at the same time: {answer.text}")
    check("two may read the same document at the same time", True)


def half_written(folder, writer, reader):
    """A process is killed while it writes what it has read. Nobody takes the half for the whole."""
    left = 0
    for number in range(8):
        text = filler(3000, f"half {number}") + " " + FACT
        ask(writer.port, "POST", "/v1/documents?name=report.txt", text, Content_Type="text/plain")
        end = time.monotonic() + PATIENCE
        while not (found := list(folder.glob("*.tmp"))) and time.monotonic() < end:
            pass
        writer.kill()
        left += any(file.exists() for file in found)
        document, tokens = upload(reader.port, text)
        answer = ask(reader.port, "POST", "/v1/chat/completions", chat(document))
        if not is_right(answer):
            sys.exit(f"after a process was killed: {answer.text}")
        writer.start()
    print(f"in {left} of 8 readings a process was killed with a file half written")
    check("no half file is taken", left > 0, "no process was killed at the right time; try again")
    check("none is left behind", not list(folder.glob("*.tmp")), list(folder.glob("*.tmp")))
    # A file that was cut off by something else, a full disk for example.
    text = filler(1200, "cut off") + " " + FACT
    before = set(folder.glob("*.read"))
    upload(writer.port, text)
    for file in set(folder.glob("*.read")) - before:
        os.truncate(file, file.stat().st_size // 2)
    document, tokens = upload(reader.port, text)
    answer = ask(reader.port, "POST", "/v1/chat/completions", chat(document))
    check("nor one that was cut off", is_right(answer), answer.text)


def main():
    program = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "HOME": home, "XDG_CACHE_HOME": home, "XDG_STATE_HOME": home, "XDG_CONFIG_HOME": home}
        # A script that hangs ends, too.
        signal.alarm(600)
        processes = [Process(program, environment, free_port()) for _ in range(2)]
        gateway = free_port()
        folder = pathlib.Path(home, "nginx")
        folder.mkdir()
        start_nginx(folder, {8080: gateway, 8081: processes[0].port, 8082: processes[1].port})
        until("nginx is ready", lambda: socket.socket().connect_ex(("127.0.0.1", gateway)) == 0)
        ours, other, *about = same_document_same_process(gateway, processes)
        streams(gateway, ours)
        guarded(gateway)
        killed(gateway, ours, other, *about)
        ended(gateway, ours, other)
        at_the_same_time(processes)
        half_written(next(pathlib.Path(home).rglob("*.read")).parent, *processes)


if __name__ == "__main__":
    main()
