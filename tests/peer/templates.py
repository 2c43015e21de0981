"""Renders released chat templates as transformers does, and writes hashes of the texts for longhand's tests.

    templates.py --llama-cpp FOLDER --templates FOLDER --write ../../models/src/chat/released.json.br

The templates are other people's texts, so that only hashes are committed. They are llama.cpp's (`models/templates` and
those in `tests/test-chat-template.cpp`), which are copied to the second folder, and what lies in it already. The tests in
`models/src/chat/released.rs` read them there if `LONGHAND_TEMPLATES` names it. With `--tools` the conversations have
functions and calls of them, for the golden file `released_tools.json.br`. Needs transformers 5.23 and brotli.

What lies there already is named after its origin and the model. The origins are packages of Python and files of public
repositories:

    ax   axolotl 0.19.0             ct   chujiezheng/chat_templates
    xi   xinference 4.1.0           ov   openvinotoolkit/openvino.genai: tests/python_tests/data/tokenizer_configs.py
    trl  trl 1.16.0                 js   huggingface/huggingface.js: packages/jinja/test/e2e.test.js
                                    jc   wangzhaode/jinja.cpp: tests/test_chat_template.json
                                    oi   allenai/open-instruct: open_instruct/dataset_transformation.py
    allenai-Olmo-3.1-32B-Instruct   pappitti/mlx-lm: run_server.py
    LGAI-EXAONE-4.0-1.2B            RkFeeder/LG-AI-Research: exaone_baseline/chat_template.jinja
    tencent-Hunyuan-A13B            Tencent-Hunyuan/Hunyuan-A13B: models/tokenizer_config.json
    tencent-Hunyuan-7B-Instruct     the model's GGUF file; its SHA-256 begins with 7dfb19355e3c8779

`oi-tulu-add_bos` is "{{ bos_token }}" and tulu, as the code there makes it for OLMo 2.
"""

import ast
import argparse
import datetime
import json
import pathlib
import re
import shutil

import brotli
import jinja2
from transformers.utils.chat_template_utils import _compile_jinja_template

NOW = datetime.datetime(2026, 7, 6, 8, 9, 10)
TURNS = [("user", "Hi \n"), ("assistant", "Hello"), ("user", " What's 1+1? <b>&\"é\" "), ("assistant", " 2 "), ("user", "Bye")]
THINKS = [("user", "Hi"), ("assistant", "<think>\nhm\n</think>\n\nHello"), ("user", "Bye")]
APART = [("user", "Hi"), ("assistant", "Hello", "hm"), ("user", "Bye")]  # the third is the thinking
SYSTEM = [("system", "Be brief.\n")]
CASES = {
    "question": (TURNS[:1], True, {}),
    "turns": (TURNS, True, {}),
    "no generation prompt": (TURNS[:4], False, {}),
    "system": (SYSTEM + TURNS[:3], True, {}),
    "only system": (SYSTEM, True, {}),
    "thinking": (THINKS, True, {}),
    "thinking, system": (SYSTEM + THINKS, True, {}),
    "thinking at the end": (THINKS[:2], False, {}),
    "enable_thinking": (SYSTEM + THINKS, True, {"enable_thinking": True}),
    "not enable_thinking": (SYSTEM + THINKS, True, {"enable_thinking": False}),
    "thinking = true": (THINKS, True, {"thinking": True}),
    "thinking = false": (THINKS, True, {"thinking": False}),
    "two questions": ([TURNS[0], TURNS[2]], True, {}),
    "thinking apart": (SYSTEM + APART, True, {}),
    "thinking apart at the end": (APART[:2], False, {}),
}

CITY = {"type": "string", "description": 'The city\'s "name",\nwith <country>.'}
UNIT = {"type": "string", "enum": ["celsius", "kelvin"], "default": "kelvin"}
DAYS = {"type": "array", "items": {"type": "integer"}, "description": "Which days."}
SCHEMA = lambda properties, *required: {"type": "object", "properties": properties, "required": list(required)}
FUNCTION = lambda name, description, parameters: {
    "type": "function",
    "function": {"name": name, "description": description, "parameters": parameters},
}
TOOLS = [
    FUNCTION("get_weather", 'Says how the "weather" is.', SCHEMA({"city": CITY, "unit": UNIT, "days": DAYS}, "city")),
    FUNCTION("do_nothing", "Takes no arguments.", SCHEMA({})),
]
CALL = lambda number, name, arguments: {
    "id": f"abcdefgh{number}",
    "type": "function",
    "function": {"name": name, "arguments": arguments},
}
ASKS = {"role": "user", "content": "What's up?"}
CALLS = lambda *calls: {"role": "assistant", "content": "", "tool_calls": list(calls)}
RESULT = lambda number, name, text: {
    "role": "tool",
    "content": text,
    "tool_call_id": f"abcdefgh{number}",
    "name": name,
}
WEATHER = CALL(1, "get_weather", {"city": 'Köln "am Rhein"\n', "days": [1, 2], "unit": "kelvin"})
SUNNY = RESULT(1, "get_weather", '{"sky": "<blue>"}')
NOTHING, DONE = CALL(2, "do_nothing", {}), RESULT(2, "do_nothing", "Done.")
ANSWER = {"role": "assistant", "content": "It's sunny."}
BRIEF = {"role": "system", "content": "Be brief."}
TOOL_CASES = {
    "tools": [ASKS],
    "tools, system": [BRIEF, ASKS],
    "call": [ASKS, CALLS(WEATHER), SUNNY],
    "call without arguments": [ASKS, CALLS(NOTHING), DONE],
    "two calls": [BRIEF, ASKS, CALLS(WEATHER, NOTHING), SUNNY, DONE],
    "answer": [ASKS, CALLS(WEATHER), SUNNY, ANSWER, {"role": "user", "content": "Bye"}],
}


def collect(llama_cpp, folder):
    folder.mkdir(exist_ok=True)
    for path in (llama_cpp / "models" / "templates").glob("*.jinja"):
        shutil.copy(path, folder)
    text = r'"(?:[^"\\]|\\.)*"'
    cases = rf'/\* \.name= \*/ ({text}),\s*/\* \.template_str= \*/ (?:U8C\()?((?:{text}\s*)+)'
    for case in re.finditer(cases, (llama_cpp / "tests" / "test-chat-template.cpp").read_text()):
        name = re.sub(r"[^A-Za-z0-9.]+", "-", case[1]).strip("-")[:60]
        source = "".join(ast.literal_eval(literal) for literal in re.findall(text, case[2]))
        if source:
            (folder / f"inline-{name}.jinja").write_text(source)


def message(role, content, thinking=None):
    names = ["thinking", "reasoning", "reasoning_content"] if thinking else []
    return {"role": role, "content": content} | dict.fromkeys(names, thinking)


def render(template, messages, generation, flags):
    """The text; None if the template refuses; "" if it does not work."""
    variables = dict(bos_token="<|endoftext|>", eos_token="<|im_end|>", unk_token="", tools=None, documents=None)
    messages = [message(*parts) for parts in messages]
    try:
        return template.render(
            messages=messages, add_generation_prompt=generation, strftime_now=NOW.strftime, **variables, **flags
        )
    except Exception as error:  # whatever the template does
        return None if type(error) is jinja2.exceptions.TemplateError else ""


def render_tools(template, messages):
    """The text, in the first form in which it has all; None if there is no such form."""
    as_text = lambda call: CALL(call["id"][-1], call["function"]["name"], json.dumps(call["function"]["arguments"], ensure_ascii=False))
    wanted = [part for tool in TOOLS for part in (tool["function"]["name"], tool["function"]["description"])]
    for message in messages:
        wanted.append(message["content"])
        for call in message.get("tool_calls", []):
            values = call["function"]["arguments"].values()
            wanted += [call["function"]["name"], *(value.strip() for value in values if isinstance(value, str))]
    for with_text in (False, True):
        for content in ("", None):
            form = [
                m | {"content": content, "tool_calls": [as_text(c) if with_text else c for c in m["tool_calls"]]}
                if "tool_calls" in m
                else m
                for m in messages
            ]
            variables = dict(bos_token="<|endoftext|>", eos_token="<|im_end|>", unk_token="", documents=None)
            try:
                text = template.render(
                    messages=form, tools=TOOLS, add_generation_prompt=True, strftime_now=NOW.strftime, **variables
                )
            except Exception:  # whatever the template does
                continue
            has = lambda part: part in text or json.dumps(part, ensure_ascii=False)[1:-1] in text
            # The definition, and each call.
            called = [call["function"]["name"] for m in messages for call in m.get("tool_calls", [])]
            if any(text.count(name) <= called.count(name) for name in called):
                continue
            # Maps that are written as Python writes them are no JSON.
            if all(map(has, wanted)) and not re.search(r"\{'(city|days|unit)'", text):
                return text
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-cpp", type=pathlib.Path)
    parser.add_argument("--templates", required=True, type=pathlib.Path)
    parser.add_argument("--write", required=True, type=pathlib.Path)
    parser.add_argument("--texts", type=pathlib.Path, help="write the whole texts here, to look at them")
    parser.add_argument("--tools", action="store_true", help="with functions and calls")
    arguments = parser.parse_args()
    if arguments.llama_cpp:
        collect(arguments.llama_cpp, arguments.templates)
    released, texts = [], {}
    digest = lambda text: fnv1a(text) if text else text
    for path in sorted(arguments.templates.glob("*.jinja")):
        source = path.read_bytes().decode()
        template = _compile_jinja_template(source)
        if arguments.tools:
            rendered = {name: render_tools(template, case) for name, case in TOOL_CASES.items()}
        else:
            rendered = {name: render(template, *case) for name, case in CASES.items()}
        released.append({"name": path.name, "template": fnv1a(source), "texts": [digest(t) for t in rendered.values()]})
        texts[path.name] = rendered
    cases = [dict(name=name, messages=m, generation=g, flags=f) for name, (m, g, f) in CASES.items()]
    if arguments.tools:
        cases = [dict(name=name, messages=messages, tools=TOOLS) for name, messages in TOOL_CASES.items()]
    lines = lambda items: ",\n".join(json.dumps(item, ensure_ascii=False) for item in items)
    text = f'{{"cases": [\n{lines(cases)}\n],\n"templates": [\n{lines(released)}\n]}}\n'
    arguments.write.write_bytes(brotli.compress(text.encode(), quality=11))
    if arguments.texts:
        arguments.texts.write_text(json.dumps(texts, ensure_ascii=False, indent=1))


def fnv1a(text):
    """A hash that takes three lines in any language."""
    number = 0xCBF29CE484222325
    for byte in text.encode():
        number = (number ^ byte) * 0x100000001B3 % (1 << 64)
    return f"{number:016x}"


if __name__ == "__main__":
    main()
