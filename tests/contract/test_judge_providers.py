"""The lines of `docs/how-to/judge-endpoints.md` that name a server: what they call, and where the key is.

Each line is used as the page shows it. Only the host is replaced, by that of a server of the test.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from command_line import run_command
from fake_servers import FakeJudgeServer

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "judge-endpoints.md"
LINE = re.compile(r"\| ([^|]+) \| `(--judge [^`]+)`.* \| (?:tried[^|]*|read) \|")
KEY = "the-key"
CALLED = {
    "vLLM": "/v1",
    "llama.cpp": "/v1",
    "SGLang": "/v1",
    "TGI": "/v1",
    "Ollama": "/v1",
    "LM Studio": "/v1",
    "LiteLLM": "/v1",
    "OpenAI": "/v1",
    "Azure OpenAI": "/openai/v1",
    "Amazon Bedrock": "/openai/v1",
    "Gemini": "/v1beta/openai",
    "Anthropic": "/v1",
    "Mistral": "/v1",
    "Groq": "/openai/v1",
    "OpenRouter": "/api/v1",
    "Together": "/v1",
    "DeepSeek": "/v1",
}
"""By server, the path before `/chat/completions`."""
WITHOUT_KEY = {"vLLM", "llama.cpp", "SGLang", "TGI", "Ollama", "LM Studio"}
LINES = dict(match.groups() for match in map(LINE.fullmatch, PAGE.read_text(encoding="utf-8").splitlines()) if match)


class RecordingServer(FakeJudgeServer):
    """A judge's server below any path, which keeps the heads of its requests."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, str | None]] = []
        """Path and `Authorization` of each request."""

    async def _answer(self, request):
        self.seen.append((request.path, request.headers.get("authorization")))
        place = re.search(r"/(?:models|chat/completions)$", request.path)
        return await super()._answer(request if place is None else replace(request, path=f"/v1{place[0]}"))


def test_each_server_of_the_page_is_tested():
    """The page has no line that this test does not use, and no server is left out."""
    assert list(CALLED) == list(LINES)
    assert PAGE.read_text(encoding="utf-8").count("`--judge http") + 1 == len(LINES)


@pytest.mark.parametrize("server", CALLED)
def test_a_line_calls_the_url_of_its_server_with_its_key(server, tmp_path):
    """The requests have the path that the provider documents, and the key of the named variable as a bearer token."""
    samples = tmp_path / "samples.jsonl"
    samples.write_text('{"query": "q", "response": "a"}')
    arguments = shlex.split(LINES[server])
    with RecordingServer() as local:
        host = local.url.removesuffix("/v1")
        url = urlsplit(arguments[1])
        arguments[1] = f"{host}{url.path}" if url.netloc else arguments[1]
        variables = dict.fromkeys(re.findall(r"api_key_env=(\w+)", LINES[server]), KEY)
        if server == "OpenAI":
            variables = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": local.url}
        done = run_command("evaluate", samples, "--metrics", "ccrs.qr", *arguments, **variables)
        seen, bodies = local.seen, local.stats.requests
    assert done.returncode == 0, done.stderr
    assert f"{CALLED[server]}/chat/completions" in {path for path, _ in seen}
    assert {path for path, _ in seen} <= {f"{CALLED[server]}/{end}" for end in ("models", "chat/completions")}
    assert {None if server in WITHOUT_KEY else f"Bearer {KEY}"} == {header for _, header in seen}
    assert all((body.get("reasoning_effort") == "none") == (server == "Ollama") for body in bodies)
