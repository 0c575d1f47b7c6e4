"""Real vLLM servers on a tiny judge and a tiny reader, started once for all tests of this room."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

START_LIMIT_S = 300
STOP_LIMIT_S = 60
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    # Gigabytes for the keys and values of all chats at once; a tiny model needs a fraction of the smallest setting.
    "VLLM_CPU_KVCACHE_SPACE": "1",
}


def post(url, body, *, timeout_s=60):
    """POST a JSON body and return the JSON of the reply."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=timeout_s) as reply:  # noqa: S310
        return json.load(reply)


def free_port():
    """A loopback port that no one listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def await_first_token(url, process, log, name="tiny-judge"):
    """Wait until the model has said a token: `/health` is green before the engine has ever run."""
    body = {"model": name, "messages": [{"role": "user", "content": "?"}], "max_tokens": 1}
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            return post(f"{url}/chat/completions", body)
        except urllib.error.HTTPError:
            # The server is up and its engine is not: it never recovers.
            break
        except OSError:
            time.sleep(0.5)
    pytest.fail(f"vLLM did not start (exit status {process.poll()}); its log ends:\n{log.read_text()[-4000:]}")


@contextlib.contextmanager
def serve(model, log, name="tiny-judge", port=None):
    """A vLLM server on `model`, which may not answer yet; stopped at the end, with the processes it started."""
    port = port or free_port()
    command = [
        str(Path(sys.executable).with_name("vllm")),
        *("serve", str(model), "--served-model-name", name, "--host", "127.0.0.1", "--port", str(port)),
        *("--max-model-len", "2048", "--dtype", "float32", "--enforce-eager", "--enable-prompt-tokens-details"),
        # As our documentation advises: models that know no JSON fill it with white space otherwise.
        *("--structured-outputs-config", '{"backend": "xgrammar", "disable_any_whitespace": true}'),
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=os.environ | ENVIRONMENT, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield f"http://127.0.0.1:{port}/v1", process
    finally:
        process.terminate()
        try:
            process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def folder_from(variable, what):
    """The folder that an environment variable names."""
    folder = os.environ.get(variable)
    if folder is None:
        # Where vLLM must be tested, a skip would look like success.
        refuse = pytest.fail if os.environ.get("RAGSTONE_REQUIRE_VLLM") else pytest.skip
        refuse(f"needs vLLM and the {what}: run `nox -s vllm`")
    return Path(folder)


def module_of(name):
    """A module of this folder, which is no package."""
    # Trainers are scripts, and import what they share as scripts do.
    if (here := str(Path(__file__).parent)) not in sys.path:
        sys.path.append(here)
    return importlib.import_module(name)


@pytest.fixture(scope="session")
def model_folder():
    """The folder of the trained judge."""
    return folder_from("RAGSTONE_TINY_JUDGE", "tiny judge")


@pytest.fixture(scope="session")
def trainer(model_folder):
    """The module that trained the judge: its prompts, its samples."""
    return module_of("train_tiny_judge")


@pytest.fixture(scope="session")
def reader_folder():
    """The folder of the trained reader."""
    return folder_from("RAGSTONE_TINY_READER", "tiny reader")


@pytest.fixture(scope="session")
def ships(reader_folder):
    """The module that trained the reader: its world, its prompt, what it was taught."""
    return module_of("train_tiny_reader")


@pytest.fixture(scope="session")
def reader_url(reader_folder, tmp_path_factory):
    """The base URL of a vLLM server with the tiny reader."""
    if running := os.environ.get("RAGSTONE_TINY_READER_URL"):
        # For who works on these tests: starting a server takes longer than most of them.
        yield running
        return
    log = tmp_path_factory.mktemp("vllm") / "reader.log"
    with serve(reader_folder, log, "tiny-reader") as (url, process):
        await_first_token(url, process, log, "tiny-reader")
        yield url


@pytest.fixture(scope="session")
def forward_probability(reader_folder, ships):
    """Messages and a reply in, its probability by a plain transformers forward pass out: (starts with, is exactly)."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(reader_folder)
    model = AutoModelForCausalLM.from_pretrained(reader_folder, dtype=torch.float32).eval()
    return lambda messages, reply: ships.reply_probability(model, tokenizer, messages, reply)


@pytest.fixture(scope="session")
def serving():
    """The context manager that serves a model: of `folder`, its output in `log`, as (URL, process)."""
    return serve


@pytest.fixture(scope="session")
def awaiting():
    """The function that waits until a server has said a token: of its URL, its process and its log."""
    return await_first_token


@pytest.fixture(scope="session")
def port():
    """The function that finds a free port."""
    return free_port


@pytest.fixture(scope="session")
def judge_url(model_folder, tmp_path_factory):
    """The base URL of a vLLM server that has proved it can speak."""
    log = tmp_path_factory.mktemp("vllm") / "server.log"
    with serve(model_folder, log) as (url, process):
        await_first_token(url, process, log)
        yield url


@pytest.fixture(scope="session")
def transformers_reply(model_folder):
    """Chat messages in, the greedy reply of a plain transformers forward pass out, token by token."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32).eval()

    @torch.no_grad()
    def reply(messages, *, max_tokens):
        ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        prompt_tokens = len(ids)
        while len(ids) < prompt_tokens + max_tokens:
            token = int(model(input_ids=torch.tensor([ids])).logits[0, -1].argmax())
            if token == tokenizer.eos_token_id:
                break
            ids.append(token)
        return tokenizer.decode(ids[prompt_tokens:], skip_special_tokens=True), prompt_tokens

    return reply
