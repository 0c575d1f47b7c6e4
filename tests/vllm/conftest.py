"""A real vLLM server on the tiny judge, started once for all tests of this room."""

from __future__ import annotations

import contextlib
import importlib.util
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
    """A loopback port that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def await_first_token(url, process, log):
    """Wait until the model has said a token: `/health` is green before the engine has ever run."""
    body = {"model": "tiny-judge", "messages": [{"role": "user", "content": "?"}], "max_tokens": 1}
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
def serve(model, log):
    """A vLLM server on `model`, which may not answer yet; stopped at the end, with the processes it started."""
    port = free_port()
    command = [
        str(Path(sys.executable).with_name("vllm")),
        *("serve", str(model), "--served-model-name", "tiny-judge", "--host", "127.0.0.1", "--port", str(port)),
        *("--max-model-len", "2048", "--dtype", "float32", "--enforce-eager"),
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


@pytest.fixture(scope="session")
def model_folder():
    """The folder of the trained model."""
    folder = os.environ.get("RAGSTONE_TINY_JUDGE")
    if folder is None:
        # Where vLLM must be tested, a skip would look like success.
        refuse = pytest.fail if os.environ.get("RAGSTONE_REQUIRE_VLLM") else pytest.skip
        refuse("needs vLLM and the tiny judge: run `nox -s vllm`")
    return Path(folder)


@pytest.fixture(scope="session")
def trainer(model_folder):
    """The module that trained the model: its prompts, its samples, its chat template."""
    spec = importlib.util.spec_from_file_location("train_tiny_judge", Path(__file__).with_name("train_tiny_judge.py"))
    module = importlib.util.module_from_spec(spec)
    # dataclasses looks its module up by name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def serving():
    """The context manager that serves a model: of `folder`, its output in `log`, as (URL, process)."""
    return serve


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
