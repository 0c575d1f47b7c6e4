"""Endpoints that differ: the probe tells each kind for what it is, and a judge gets its number from all of them."""

from __future__ import annotations

import asyncio

import pytest

from fake_servers import DIALECTS, FakeModelServer
from ragstone.errors import JudgeReplyError
from ragstone.judges import OpenAICompatibleJudge, OpenAICompatibleModel, Prompt
from scripted_model import ScriptedModel

REPLIES = {"NO-RESPONSE": 0.25, "Oslo": 0.5, "No idea": 0.25}
PROMPT = Prompt(construct="relevance", task="How relevant is it?", fields={"query": "Where?"})
KEY = "a-key"

NOTHING = {
    "context_length": None,
    "max_tokens_name": "max_tokens",
    "refused_parameters": (),
    "reasons": False,
    "top_logprobs": 0,
    "logprobs_raw": None,
    "exact_routes": (),
    "asked_tokens": 0,
    "boundary_clean": None,
    "structured": (),
    "several_replies": False,
    "estimator": "monte_carlo",
}
OPENAI = NOTHING | {
    "top_logprobs": 20,
    "logprobs_raw": True,
    "structured": ("json_schema",),
    "several_replies": True,
    "estimator": "first_token",
}
REASONING = OPENAI | {
    "max_tokens_name": "max_completion_tokens",
    "refused_parameters": ("logprobs", "temperature"),
    "reasons": True,
    "top_logprobs": 0,
    "logprobs_raw": None,
    "estimator": "monte_carlo",
}
VLLM = OPENAI | {
    "context_length": 32768,
    "exact_routes": ("chain", "echo"),
    "asked_tokens": 128,
    "boundary_clean": True,
    "structured": ("regex", "json_schema"),
    "estimator": "exact_sequence",
}
VERDICTS = {
    "vllm": VLLM,
    "openai": OPENAI,
    "openai-reasoning": REASONING,
    "azure": OPENAI
    | {
        "refused_parameters": ("logprobs",),
        "top_logprobs": 0,
        "logprobs_raw": None,
        "estimator": "monte_carlo",
    },
    "ollama": NOTHING | {"structured": ("json_schema",)},
    "llamacpp": NOTHING
    | {
        "context_length": 8192,
        "top_logprobs": 20,
        "logprobs_raw": True,
        "structured": ("json_schema",),
        "estimator": "first_token",
    },
    "sglang": VLLM | {"exact_routes": ("echo",), "asked_tokens": 0, "structured": ("regex", "json_schema")},
    "litellm": NOTHING,
}
NO_LOGPROBS = {
    "top_logprobs": 0,
    "logprobs_raw": None,
    "exact_routes": (),
    "asked_tokens": 0,
    "boundary_clean": None,
    "estimator": "monte_carlo",
}
VARIANTS = [
    # vLLM with one thing changed.
    ("vllm", {"asked_tokens": 0}, VLLM | {"exact_routes": ("echo",), "asked_tokens": 0}),
    ("vllm", {"asked_tokens": 64}, VLLM | {"exact_routes": ("echo",), "asked_tokens": 0}),
    ("vllm", {"echo": "generated"}, VLLM | {"exact_routes": ("chain",)}),
    (
        "vllm",
        {"tokenize": None},
        VLLM | {"exact_routes": (), "asked_tokens": 0, "boundary_clean": None, "estimator": "first_token"},
    ),
    ("vllm", {"boundary_clean": False}, VLLM | {"boundary_clean": False}),
    (
        "vllm",
        {"exact_noise": -0.1},
        VLLM | {"exact_routes": (), "asked_tokens": 0, "estimator": "first_token"},
    ),
    ("vllm", {"exact_noise": -0.01}, VLLM),
    ("vllm", {"max_top_logprobs": 5}, VLLM | {"top_logprobs": 5}),
    ("vllm", {"logprobs": "dropped"}, VLLM | NO_LOGPROBS),
    ("vllm", {"several": "refused"}, VLLM | {"several_replies": False}),
    ("vllm", {"tells_context_length": False}, VLLM),
    ("vllm", {"context_length": 1024}, VLLM | {"context_length": 1024}),
    ("vllm", {"processed_logprobs": True}, VLLM | {"logprobs_raw": False}),
    (
        "openai",
        {"processed_logprobs": True},
        OPENAI | {"logprobs_raw": False, "estimator": "monte_carlo"},
    ),
    ("openai", {"reasoning": "separate"}, OPENAI | {"reasons": True, "estimator": "monte_carlo"}),
    # Newer ones of their kind.
    ("azure", {"logprobs": "served"}, OPENAI),
    (
        "ollama",
        {"logprobs": "served"},
        VERDICTS["ollama"] | {"top_logprobs": 20, "logprobs_raw": True, "estimator": "first_token"},
    ),
    ("litellm", {"logprobs": "refused"}, VERDICTS["litellm"] | {"refused_parameters": ("logprobs",)}),
]


async def measured(server, **options):
    """The probe's verdict, as far as it is compared here."""
    model = OpenAICompatibleModel(server.url, model="scripted-model", backoff_s=0.01, **options)
    try:
        can = await model.capabilities(fresh=True)
    finally:
        await model.aclose()
    assert (can.exact_routes or (None,))[0] == can.exact_route
    return {name: getattr(can, name) for name in NOTHING}


async def number(server):
    """What a judge makes of the replies."""
    judge = OpenAICompatibleJudge(server.url, model="scripted-model", max_tokens=512, api_key=KEY, backoff_s=0.01)
    try:
        reply = await judge.ask_number(PROMPT)
    finally:
        await judge.aclose()
    return reply.method, reply.value


def test_all_dialects_are_here():
    """A new dialect needs a verdict."""
    assert set(DIALECTS) == set(VERDICTS)


@pytest.mark.parametrize(
    ("dialect", "changes", "verdict"),
    [*((dialect, {}, verdict) for dialect, verdict in VERDICTS.items()), *VARIANTS],
    ids=lambda value: value if isinstance(value, str) else ",".join(value) if len(value) < 5 else "",
)
def test_probe(dialect, changes, verdict):
    """The verdict is what the server really does, to the last capability."""
    with FakeModelServer(ScriptedModel(REPLIES), dialect, changes=changes, api_key=KEY) as server:
        assert verdict == asyncio.run(measured(server, api_key=KEY))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_number(dialect):
    """A judge that replies with a number is understood everywhere."""
    with FakeModelServer(ScriptedModel({"85": 1.0}), dialect, api_key=KEY) as server:
        assert ("single_reply", 85) == asyncio.run(number(server))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_number_of_a_wordy_model(dialect):
    """A judge that replies with words is held to a number wherever that can be done."""
    with FakeModelServer(ScriptedModel({"Quite good": 0.9, "40": 0.1}), dialect, api_key=KEY) as server:
        if VERDICTS[dialect]["structured"]:
            method, value = asyncio.run(number(server))
            assert "forced_reply" == method
            assert 0 <= value <= 100
        else:
            with pytest.raises(JudgeReplyError):
                asyncio.run(number(server))


def test_azure_finds_its_key_and_its_version_in_every_request():
    """Azure looks for the key in a header of its own, and for the version in the query."""
    with FakeModelServer(ScriptedModel({"85": 1.0}), "azure", api_key=KEY) as server:
        assert server.url.endswith("/openai/deployments/scripted-model?api-version=2024-10-21")
        assert ("single_reply", 85) == asyncio.run(number(server))
