#!/usr/bin/env python3
"""Asks `longhand serve` with OpenAI's, Anthropic's and Ollama's own Python clients.

    scripts/clients.py target/release/longhand

Needs the packages openai, anthropic, ollama and openresponses-types, of the versions in `.ci/run clients`, which fetches them. The server
has the built-in model and a port of its own. Its responses are also compared with the Open Responses specification.
"""

import os
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import anthropic
import ollama
import openai

FACT = "Mary's favorite number is 34251."
ASKED = [{"role": "user", "content": f"{FACT} What is Mary's favorite number?"}]


def check(what, found, wanted):
    if found != wanted:
        sys.exit(f"{what}: {found!r} instead of {wanted!r}")
    print(f"{what}: as it should be")


def refused(what, call, kind):
    try:
        call()
    except kind as error:
        print(f"{what}: {error}")
        return error
    sys.exit(f"{what}: it was not refused")


def by_openai(url):
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="secret", max_retries=0)
    check("models", [model.id for model in client.models.list()], ["needle"])
    chat = client.chat.completions
    answer = chat.create(model="needle", messages=ASKED, temperature=0, logprobs=True, top_logprobs=2)
    check("chat", answer.choices[0].message.content, FACT)
    check("tokens of log-probabilities", "".join(t.token for t in answer.choices[0].logprobs.content), FACT)
    stream = chat.create(
        model="needle", messages=ASKED, temperature=0, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    check("chat, streamed", "".join(c.choices[0].delta.content or "" for c in chunks if c.choices), FACT)
    usage = chunks[-1].usage
    check("cached tokens", usage.prompt_tokens_details.cached_tokens, usage.prompt_tokens)
    check("several answers", len(chat.create(model="needle", messages=ASKED, n=3, max_tokens=4).choices), 3)
    text = client.completions.create(model="needle", prompt=FACT, max_tokens=3)
    check("completion", text.choices[0].finish_reason, "length")
    text = client.completions.create(model="needle", prompt=FACT, max_tokens=0, echo=True, logprobs=1)
    check("tokens of a prompt", "".join(text.choices[0].logprobs.tokens), FACT)
    response = client.responses.create(model="needle", input=ASKED[0]["content"], temperature=0)
    check("response", response.output_text, FACT)
    with client.responses.stream(model="needle", input=ASKED[0]["content"], temperature=0) as stream:
        pieces = [event.delta for event in stream if event.type == "response.output_text.delta"]
        check("response, streamed", "".join(pieces), FACT)
        check("the whole response at its end", stream.get_final_response().output_text, FACT)
    too_long = [{"role": "user", "content": "boat " * 20000}]
    error = refused("too long", lambda: chat.create(model="needle", messages=too_long), openai.BadRequestError)
    check("its code", error.code, "context_length_exceeded")
    refused("unknown field", lambda: chat.create(model="needle", messages=ASKED, extra_body={"mirostat": 2}), openai.BadRequestError)
    stranger = openai.OpenAI(base_url=f"{url}/v1", api_key="wrong", max_retries=0)
    refused("wrong key", lambda: stranger.models.list(), openai.AuthenticationError)


def by_anthropic(url):
    client = anthropic.Anthropic(base_url=url, api_key="secret", max_retries=0)
    check("models of Anthropic's client", [model.display_name for model in client.models.list()], ["needle"])
    request = {"model": "needle", "messages": ASKED, "max_tokens": 50, "extra_body": {"temperature": 0}}
    message = client.messages.create(**request)
    check("message", message.content[0].text, FACT)
    check("its end", message.stop_reason, "end_turn")
    with client.messages.stream(**request) as stream:
        check("message, streamed", "".join(stream.text_stream), FACT)
        usage = stream.get_final_message().usage
    check("tokens that were read", usage.input_tokens, 0)
    counted = client.messages.count_tokens(model="needle", messages=ASKED)
    check("counted tokens", counted.input_tokens, usage.cache_read_input_tokens)
    stopped = client.messages.create(**request, stop_sequences=[" number"])
    check("stop sequence", stopped.stop_sequence, " number")
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
    picture = [{"role": "user", "content": [image]}]
    refused("image", lambda: client.messages.create(**{**request, "messages": picture}), anthropic.BadRequestError)


def by_ollama(url):
    client = ollama.Client(host=url, headers={"Authorization": "Bearer secret"})
    check("list of models", [model.model for model in client.list().models], ["needle"])
    shown = client.show("needle")
    check("context", shown.modelinfo[f"{shown.modelinfo['general.architecture']}.context_length"], 8192)
    exact = {"temperature": 0}
    check("Ollama's chat", client.chat("needle", ASKED, options=exact).message.content, FACT)
    parts = list(client.chat("needle", ASKED, options=exact, stream=True))
    check("Ollama's chat, streamed", "".join(part.message.content for part in parts), FACT)
    check("its last part", (parts[-1].done, parts[-1].done_reason, parts[-1].eval_count > 0), (True, "stop", True))
    question = ASKED[0]["content"]
    check("question", client.generate("needle", question, options=exact).response, FACT)
    parts = client.generate("needle", question, options=exact, stream=True)
    check("question, streamed", "".join(part.response for part in parts), FACT)
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    check("shape", client.chat("needle", ASKED, options=exact, format=schema).message.content.strip(), "{}")
    check("loading", client.generate("needle").done_reason, "load")
    error = refused("too long", lambda: client.generate("needle", "boat " * 20000), ollama.ResponseError)
    check("its status", error.status_code, 400)


def main():
    program = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as home:
        folders = {"HOME": home, "XDG_CACHE_HOME": home, "XDG_STATE_HOME": home, "XDG_CONFIG_HOME": home}
        environment = {**os.environ, **folders, "LONGHAND_API_KEY": "secret"}
        command = [program, "serve", "--port", "0", "--parallel", "2", "--quiet"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
            # A server that hangs would hang this.
            watchdog = threading.Timer(120, server.kill)
            watchdog.start()
            try:
                url = re.search(r"http://\S+:\d+", server.stdout.readline())[0]
                by_openai(url)
                by_anthropic(url)
                by_ollama(url)
                script = Path(__file__).with_name("open-responses.py")
                subprocess.run([sys.executable, script, url], check=True, env=environment)
            finally:
                server.terminate()
                watchdog.cancel()
            check("exit code after SIGTERM", server.wait(), 0)


if __name__ == "__main__":
    main()
