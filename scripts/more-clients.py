#!/usr/bin/env python3
"""Asks `longhand serve` with programs that people use: each is installed and run to a result that is checked.

    scripts/more-clients.py target/release/longhand                        # llm, litellm, lm-eval, frameworks, ai-sdk
    scripts/more-clients.py target/release/longhand model.gguf             # also open-responses, aider, codex, claude, opencode
    scripts/more-clients.py target/release/longhand model.gguf codex       # this one only

Needs pip, and npm for ai-sdk, codex, claude and opencode. They are installed into target/tools/clients, and work in a temporary folder, which is their
home, too: agents would find this repository otherwise. The first group asks the built-in model, the second one the model of the
file: one that knows tools, with a context of 32,768 tokens, such as Qwen2.5-Coder 1.5B. Agents send 6,000 to 19,000 tokens before
the first word: on a slow machine that takes minutes.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ROOT / "target/tools/clients"
TEMPORARY = tempfile.TemporaryDirectory()
FACT = "Mary's favorite number is 34251."
ASKED = f"{FACT} What is Mary's favorite number?"
HELLO = "Say hello."
# Seconds that an installation and an agent may take.
PATIENCE = 1200


def check(what, is_right, found):
    if not is_right:
        sys.exit(f"{what}: not as it should be:\n{found}")
    print(f"{what}: as it should be", flush=True)


def pip(*packages):
    """The programs of an environment with these packages."""
    folder = TOOLS / packages[0].split("[")[0]
    if not (folder / "bin/pip").exists():
        venv.create(folder, with_pip=True)
    subprocess.run([folder / "bin/pip", "install", "-q", *packages], check=True, timeout=PATIENCE)
    return folder / "bin"


def npm(*packages):
    TOOLS.mkdir(parents=True, exist_ok=True)
    command = ["npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", TOOLS / "npm", *packages]
    subprocess.run(command, check=True, timeout=PATIENCE)
    return TOOLS / "npm/node_modules/.bin"


def run(*command, folder=None, **environment):
    """What a program writes, in a home of its own, without a terminal."""
    home = work("home")
    folder = folder or home
    folders = {name: str(home) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME")}
    ran = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env={**os.environ, "PWD": str(folder), **folders, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
    )
    if ran.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))[:200]}: exit code {ran.returncode}\n{ran.stdout[-3000:]}")
    return ran.stdout


def work(name, **files):
    """A temporary folder with these files. `_` in their names is the dot."""
    folder = Path(TEMPORARY.name) / name
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        (folder / file.replace("_", ".")).write_text(text)
    return folder


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:
        return json.load(response)


def llm(url):
    program = pip("llm") / "llm"
    kinds = [("chat", "supports_schema: true"), ("text", "completion: true")]
    models = "".join(f"- model_id: {name}\n  model_name: needle\n  api_base: {url}/v1\n  {kind}\n" for name, kind in kinds)
    home = {"LLM_USER_PATH": str(work("llm", **{"extra-openai-models_yaml": models}))}
    for how in ([], ["--no-stream"]):
        answer = run(program, "-m", "chat", *how, ASKED, "-o", "temperature", "0", **home)
        check(f"llm {' '.join(how)}".strip(), answer.strip() == FACT, answer)
    answer = run(program, "-c", "What is Mary's favorite number?", "-o", "temperature", "0", **home)
    check("llm -c", answer.strip() == FACT, answer)
    answer = run(program, "-m", "chat", "--schema", '{"type": "object", "properties": {"a": {"enum": [5]}}, "required": ["a"],'
                 ' "additionalProperties": false}', ASKED, **home)  # fmt: skip
    check("llm --schema", json.loads(answer) == {"a": 5}, answer)
    answer = run(program, "-m", "text", FACT, "-o", "max_tokens", "3", **home)
    check("llm, a text that goes on", answer.strip(), answer)


LITELLM = """
import litellm, sys
url, asked = sys.argv[1:]
messages = [{"role": "system", "content": [{"type": "text", "text": "Be short.", "cache_control": {"type": "ephemeral"}}]},
            {"role": "user", "content": asked}]
for model, base in (("openai/needle", url + "/v1"), ("anthropic/needle", url)):
    given = {"model": model, "api_base": base, "api_key": "none", "temperature": 0, "num_retries": 0}
    print(litellm.completion(messages=messages, user="me", **given).choices[0].message.content)
    chunks = litellm.completion(messages=messages, stream=True, stream_options={"include_usage": True}, **given)
    print("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices))
    print(litellm.responses(input=asked, **given).output[0].content[0].text)
    try:
        litellm.completion(messages=[{"role": "user", "content": "boat " * 20000}], **given)
    except litellm.ContextWindowExceededError:
        print("too long")
"""


def litellm(url):
    found = run(pip("litellm") / "python", "-c", LITELLM, url, ASKED, LITELLM_LOCAL_MODEL_COST_MAP="True")
    lines = [line for line in found.splitlines() if line in (FACT, "too long")]
    check("litellm: OpenAI's and Anthropic's", lines == [FACT, FACT, FACT, "too long"] * 2, found)


FRAMEWORKS = """
import sys, instructor, openai
from typing import Literal
from langchain_openai import ChatOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
url, asked = sys.argv[1:]
given = {"base_url": url + "/v1", "api_key": "none"}
chat = ChatOpenAI(model="needle", temperature=0, **given)
print(chat.invoke(asked).content)
print("".join(chunk.content for chunk in chat.stream(asked)))
for model in (OpenAIChatModel, OpenAIResponsesModel):
    agent = Agent(model("needle", provider=OpenAIProvider(**given)))
    print(agent.run_sync(asked, model_settings={"temperature": 0}).output)
class Five(BaseModel, extra="forbid"):
    a: Literal[5]
client = instructor.from_openai(openai.OpenAI(**given), mode=instructor.Mode.JSON_SCHEMA)
print(client.chat.completions.create(model="needle", response_model=Five, messages=[{"role": "user", "content": asked}]))
"""


def frameworks(url):
    found = run(pip("langchain-openai", "instructor", "pydantic-ai-slim[openai]") / "python", "-c", FRAMEWORKS, url, ASKED)
    check("langchain-openai, pydantic-ai, instructor", found.splitlines()[-5:] == [FACT] * 4 + ["a=5"], found)


TASK = """
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: questions.jsonl}}}}
test_split: test
doc_to_text: "{text}"
{how}
"""
GENERATE = """
output_type: generate_until
doc_to_target: "{{number}}"
generation_kwargs: {until: ["\\n"], max_gen_toks: 20, temperature: 0}
filter_list: [{name: number, filter: [{function: regex, regex_pattern: "(\\\\d+)"}, {function: take_first}]}]
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
"""
CHOOSE = """
output_type: multiple_choice
doc_to_choice: "{{numbers}}"
doc_to_target: "{{numbers.index(number)}}"
target_delimiter: ""
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
"""


def lm_eval(url):
    """Needles in filler, as chat and as a text with the chat template written out, beside our own requests."""
    names = ["Mary", "Bob", "Ann", "Peter", "Lucy", "Tom", "Rose", "Hugo"]
    numbers = {name: str(34251 + 7919 * number) for number, name in enumerate(names)}
    filler = "The old boat crossed the quiet river. "
    text = "".join(f"{filler * 12}{name}'s favorite number is {numbers[name]}. " for name in names)
    choices = list(numbers.values())
    ask = f"{text}What is {{}}'s favorite number?".format
    questions = [{"question": ask(name), "number": numbers[name], "numbers": choices, "name": name} for name in names]
    raw = "<|im_start|>user\\n{{question}}<|im_end|>\\n<|im_start|>assistant\\n"
    folder = work(
        "lm-eval",
        questions_jsonl="".join(json.dumps(one) + "\n" for one in questions),
        chat_yaml=TASK.format(name="chat", text="{{question}}", how=GENERATE),
        raw_yaml=TASK.format(name="raw", text=raw, how=GENERATE),
        choice_yaml=TASK.format(name="choice", text=raw + "{{name}}'s favorite number is ", how=CHOOSE),
    )
    program = pip("lm-eval[api]") / "lm_eval"

    def score(kind, path, task, *more, tokens="tokenizer_backend=None,tokenized_requests=False", metric="exact_match"):
        given = f"model=needle,base_url={url}/v1/{path},max_retries=1,{tokens}"
        found = run(program, "--model", kind, "--model_args", given, "--include_path", ".", "--tasks", task, *more,
                    folder=folder, HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")  # fmt: skip
        row = re.search(rf"{metric}\s*\|\s*\S*\s*\|\s*([\d.]+)", found)
        return float(row[1]) if row else sys.exit(found[-3000:])

    right = 0
    for one in questions:
        messages = [{"role": "user", "content": one["question"]}]
        answer = post(f"{url}/v1/chat/completions", {"messages": messages, "temperature": 0, "max_tokens": 20, "stop": ["\n"]})
        number = re.search(r"\d+", answer["choices"][0]["message"]["content"])
        right += bool(number) and number[0] == one["number"]
    own = right / len(questions)
    print(f"own requests: {right} of {len(questions)} right")
    check("the score is not 0", right > 0, own)
    found = score("local-chat-completions", "chat/completions", "chat", "--apply_chat_template")
    check("lm-eval, local-chat-completions: the same score", abs(found - own) < 1e-3, found)
    found = score("local-completions", "completions", "raw")
    check("lm-eval, local-completions: the same score", abs(found - own) < 1e-3, found)

    def likely(one, number):
        """The log-probability of a number behind a question, by a request of our own."""
        begin = f"<|im_start|>user\n{one['question']}<|im_end|>\n<|im_start|>assistant\n{one['name']}'s favorite number is "
        before = len(post(f"{url}/tokenize", {"content": begin})["tokens"])
        answer = post(f"{url}/v1/completions", {"prompt": begin + number, "max_tokens": 0, "echo": True, "logprobs": 1})
        return sum(answer["choices"][0]["logprobs"]["token_logprobs"][before:])

    chosen = [max(choices, key=lambda number: likely(one, number)) == one["number"] for one in questions]
    print(f"own requests: {sum(chosen)} of {len(questions)} chosen right")
    found = score("local-completions", "completions", "choice", tokens="tokenizer_backend=remote", metric="acc")
    check("lm-eval, texts that are scored: the same score", abs(found - sum(chosen) / len(questions)) < 1e-3, found)


AI_SDK = """
import { generateText, streamText } from 'ai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { createOpenAI } from '@ai-sdk/openai';
import { createAnthropic } from '@ai-sdk/anthropic';
const [baseURL, prompt] = process.argv.slice(2);
const given = { name: 'longhand', baseURL, apiKey: 'none' };
for (const create of [createOpenAICompatible, createOpenAI, createAnthropic]) {
  const asked = { model: create(given)('needle'), prompt, temperature: 0, maxRetries: 0 };
  console.log((await generateText(asked)).text);
  let text = '';
  for await (const piece of streamText(asked).textStream) text += piece;
  console.log(text);
}
"""


def ai_sdk(url):
    npm("ai", "@ai-sdk/openai-compatible", "@ai-sdk/openai", "@ai-sdk/anthropic")
    script = TOOLS / "npm/ask.mjs"
    script.write_text(AI_SDK)
    found = run("node", script, f"{url}/v1", ASKED)
    check("Vercel's AI SDK: three providers", found.splitlines().count(FACT) == 6, found)


def open_responses(url):
    program = pip("openresponses-types==2.4.0") / "python"
    print(run(program, ROOT / "scripts/open-responses.py", url, "tools"), end="", flush=True)


def aider(url):
    settings = "- name: openai/any\n  edit_format: whole\n  use_repo_map: false\n  extra_params: {max_tokens: 300}\n"
    folder = work("aider", hello_py='def greet(name):\n    return "Hello, " + name\n', settings_yml=settings)
    quiet = ["--no-git", "--yes", "--no-check-update", "--no-show-model-warnings", "--no-show-release-notes", "--no-analytics"]
    asked = ["--message", "Change greet so that it says Goodbye instead of Hello."]
    model = ["--openai-api-base", f"{url}/v1", "--openai-api-key", "none", "--model", "openai/any"]
    found = run(pip("aider-chat") / "aider", *model, "--model-settings-file", "settings.yml", *quiet, *asked, "hello.py",
                folder=folder, LITELLM_LOCAL_MODEL_COST_MAP="True")  # fmt: skip
    check("aider: a file was edited", "Applied edit to hello.py" in found, found)


def codex(url):
    config = f"""
model = "any"
model_provider = "longhand"
web_search = "disabled"
[model_providers.longhand]
name = "longhand"
base_url = "{url}/v1"
wire_api = "responses"
"""
    folder = work("codex", config_toml=config)
    before = requests(url)
    found = run(npm("@openai/codex") / "codex", "exec", "--skip-git-repo-check", "-o", folder / "last", HELLO,
                folder=folder, CODEX_HOME=str(folder))  # fmt: skip
    check("codex: a turn was answered", requests(url) > before and (folder / "last").exists(), found)


def claude(url):
    settings = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_MODEL": "any",
        "ANTHROPIC_SMALL_FAST_MODEL": "any",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "200",
        "CLAUDE_STREAM_IDLE_TIMEOUT_MS": "3600000",
    }
    before = requests(url)
    found = run(npm("@anthropic-ai/claude-code") / "claude", "-p", HELLO, folder=work("claude"), **settings)
    check("claude: a turn was answered", requests(url) > before and found.strip(), found)


def opencode(url):
    options = {"baseURL": f"{url}/v1", "apiKey": "none"}
    models = {"any": {"name": "any", "limit": {"context": 32000, "output": 200}}}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "longhand", "options": options, "models": models}
    config = {"provider": {"longhand": provider}, "model": "longhand/any", "small_model": "longhand/any", "autoupdate": False}
    config["permission"] = {"edit": "deny", "bash": "deny", "webfetch": "deny"}
    before = requests(url)
    found = run(npm("opencode-ai") / "opencode", "run", "-m", "longhand/any", HELLO, folder=work("opencode", opencode_json=json.dumps(config)),
                OPENCODE_DISABLE_MODELS_FETCH="1")  # fmt: skip
    check("opencode: a turn was answered", requests(url) > before, found)


def requests(url):
    """How many requests were answered so far."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as response:
        return int(re.search(rb"^longhand_requests_total (\d+)", response.read(), re.M)[1])


SMALL = {"llm": llm, "litellm": litellm, "frameworks": frameworks, "lm-eval": lm_eval, "ai-sdk": ai_sdk}
WITH_MODEL = {"open-responses": open_responses, "aider": aider, "codex": codex, "claude": claude, "opencode": opencode}


def ask(clients, *command):
    if not clients:
        return
    with subprocess.Popen([*command, "--port", "0", "--quiet"], stdout=subprocess.PIPE, text=True) as server:
        try:
            url = re.search(r"http://\S+:\d+", server.stdout.readline())[0]
            for client in clients:
                client(url)
        finally:
            server.terminate()


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program, model, *wanted = [*sys.argv[1:], None][: max(2, len(sys.argv) - 1)]
    program = os.path.abspath(program)
    unknown = [name for name in wanted if name not in {**SMALL, **WITH_MODEL}]
    if unknown:
        sys.exit(f"there is no client {unknown[0]!r}: they are {', '.join([*SMALL, *WITH_MODEL])}")
    chosen = [[client for name, client in group.items() if not wanted or name in wanted] for group in (SMALL, WITH_MODEL)]
    ask(chosen[0], program, "serve", "--parallel", "2")
    if model:
        ask(chosen[1], program, "serve", os.path.abspath(model), "-c", "32k")


if __name__ == "__main__":
    main()
