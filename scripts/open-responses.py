#!/usr/bin/env python3
"""Compares the responses of a server with the Open Responses specification (2026-04-24).

    scripts/open-responses.py http://127.0.0.1:8080            # texts
    scripts/open-responses.py http://127.0.0.1:8080 tools      # also calls of functions: the model must know them

Needs the package openresponses-types 2.4.0, which others have generated from the specification. Each response, and each event of
a stream, must be what the specification says. A key is taken from LONGHAND_API_KEY.
"""

import json
import os
import sys
import urllib.error
import urllib.request

from openresponses_types import types

# OpenAI, and programs that read its streams, write two events in another way than the specification.
RENAMED = {"response.reasoning.delta": "response.reasoning_text.delta", "response.reasoning.done": "response.reasoning_text.done"}


def named(kind):
    """The name of the events of this class."""
    name = next(iter(kind.model_fields["type"].annotation)).value
    return RENAMED.get(name, name)


EVENTS = {named(kind): kind for name, kind in vars(types).items() if name.endswith("StreamingEvent")}
FUNCTION = {
    "type": "function",
    "name": "get_weather",
    "description": "What the weather is like at a place.",
    "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
}


def ask(url, body):
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ.get('LONGHAND_API_KEY', 'none')}"}
    return urllib.request.urlopen(urllib.request.Request(f"{url}/v1/responses", json.dumps(body).encode(), headers), timeout=600)


def validate(kind, value):
    """Compares with the specification, which has no schema in the format of a text. OpenAI's responses have it."""
    value = json.loads(json.dumps(value))
    response = value.get("response", value)
    if isinstance(response.get("text"), dict) and "schema" in response["text"]["format"]:
        response["text"]["format"]["schema"] = None
    kind.model_validate(value)


def streamed(url, body):
    """The events of an answer, each of which must be what its name says."""
    events = []
    for line in ask(url, {**body, "stream": True}):
        if line.startswith(b"data: {"):
            event = json.loads(line[6:])
            validate(EVENTS[event["type"]], event)
            if event["sequence_number"] != len(events):
                sys.exit(f"event {len(events)} has the number {event['sequence_number']}")
            events.append(event)
    return events


def case(name, url, body, status, kind):
    """A request, whole and as a stream. Its answer has this status and an item of this kind."""
    body = {"model": "any", "temperature": 0, **body}
    whole = json.load(ask(url, body))
    validate(types.ResponseResource, whole)
    events = streamed(url, body)
    last = events[-1]["response"]
    for response in (whole, last):
        kinds = [item["type"] for item in response["output"]]
        if response["status"] != status or kind not in kinds:
            sys.exit(f"{name}: {response['status']} with {kinds} instead of {status} with {kind}: {response}")
    if events[-1]["type"] != f"response.{status}" or [event["type"] for event in events[:2]] != ["response.created", "response.in_progress"]:
        sys.exit(f"{name}: begins or ends with another event: {[event['type'] for event in events]}")
    # What the pieces say is what the last event says.
    for place, item in enumerate(last["output"]):
        pieces = "".join(event["delta"] for event in events if event.get("output_index") == place and "delta" in event)
        text = item["arguments"] if item["type"] == "function_call" else item["content"][0]["text"]
        if pieces != text:
            sys.exit(f"{name}: the pieces are {pieces!r} instead of {text!r}")
    print(f"{name}: as the specification says, whole and in {len(events)} events", flush=True)
    return whole


def refused(name, url, body, param):
    try:
        ask(url, body)
    except urllib.error.HTTPError as error:
        found = json.load(error)["error"]
        if error.code != 400 or found["param"] != param:
            sys.exit(f"{name}: {error.code}, {found}")
        print(f"{name}: {found['message']}")
        return
    sys.exit(f"{name}: it was not refused")


def message(role, content):
    return {"type": "message", "role": role, "content": content}


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    url = sys.argv[1]
    hello = [message("user", "Say hello in three words.")]
    given = {"metadata": {"for": "a test"}, "prompt_cache_key": "key", "safety_identifier": "someone", "max_tool_calls": 3}
    whole = case("a text", url, {"input": hello, **given}, "completed", "message")
    if {name: whole[name] for name in given} != given:
        sys.exit(f"a text: what was given is not repeated: {whole}")
    case("a system message", url, {"input": [message("system", "Be short."), *hello]}, "completed", "message")
    case("instructions", url, {"input": "Say hello.", "instructions": "Be short."}, "completed", "message")
    before = [message("user", "My name is Ann."), message("assistant", [{"type": "output_text", "text": "Hello Ann!"}])]
    case("several turns", url, {"input": [*before, message("user", "What is my name?")]}, "completed", "message")
    case("a limit", url, {"input": "Count to one hundred, in words.", "max_output_tokens": 3}, "incomplete", "message")
    shape = {"format": {"type": "json_schema", "name": "five", "schema": {"enum": [5]}, "strict": True}}
    case("a shape", url, {"input": "A number?", "text": shape}, "completed", "message")
    image = [{"type": "input_text", "text": "What is this?"}, {"type": "input_image", "image_url": "data:image/png;base64,"}]
    refused("an image", url, {"input": [message("user", image)]}, "input[0].content[1].type")
    refused("a stored response", url, {"input": "Go on.", "previous_response_id": "resp_1"}, "previous_response_id")
    if len(sys.argv) == 3:
        weather = {"input": [message("user", "What is the weather like in Oslo?")], "tools": [FUNCTION]}
        for choice in ("required", {"type": "function", "name": "get_weather"}):
            called = case(f"a call ({choice})", url, {**weather, "tool_choice": choice}, "completed", "function_call")
        allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "get_weather"}]}
        case("a call of what is allowed", url, {**weather, "tool_choice": allowed}, "completed", "function_call")
        [call] = called["output"]
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "It snows."}
        case("its result", url, {**weather, "input": [*weather["input"], call, result]}, "completed", "message")


if __name__ == "__main__":
    main()
