"""How kinds of OpenAI-compatible servers differ, as far as a client can see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal

__all__ = ["DIALECTS", "DialectName", "ServerDialect"]

DialectName = Literal["vllm", "openai", "openai-reasoning", "azure", "ollama", "llamacpp", "sglang", "litellm"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerDialect:
    """What a server serves, refuses, and skips in silence.

    The defaults are those of a server that knows chat completions and nothing else, and ignores what it does not know.
    """

    base_path: str = "/v1"
    """Of the base URL; {name} stands for the model."""
    base_query: str = ""
    """Which every request has to carry."""
    key_header: str = "authorization"
    """Where the API key is looked for."""
    lists_models: bool = True
    owner: str = "system"
    """What the list of models gives as owner; servers put their own name there."""
    context_length: int | None = None
    """Refuses longer requests, and says so in the list of models where `tells_context_length`."""
    cuts_at: int | None = None
    """Tokens to which longer prompts are cut without an error."""
    tells_context_length: bool = False
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Other things to GET, by path ("/version")."""
    tokenize: Literal["chat", "text", "content"] | None = None
    """Whether `/tokenize` takes conversations, texts alone, or a text under llama.cpp's name for it."""
    completions: Literal["ids", "text"] | None = None
    """What prompts `/completions` takes: token ids as well, or texts alone."""
    echo: Literal["full", "generated", "refused"] = "generated"
    """What an echoed completion reports log-probabilities of."""
    asked_tokens: int = 0
    """Tokens that `logprob_token_ids` takes; 0 ignores it."""
    prompt_logprobs: bool = False
    prefill: bool = False
    """Whether `continue_final_message` is obeyed."""
    boundary_clean: bool = True
    """Whether a prefilled conversation is tokenised as conversation and reply are by themselves."""
    token_ids: bool = False
    """Whether `return_token_ids` is obeyed."""
    logprobs: Literal["served", "dropped", "refused"] = "served"
    logprobs_refusal: tuple[int, str, str | None] = (400, "Unrecognized request argument supplied: logprobs", None)
    """Status, message and named parameter of the refusal."""
    max_top_logprobs: int = 20
    processed_logprobs: bool = False
    """Whether log-probabilities are taken after temperature, top-k and top-p."""
    exact_noise: float = 0.0
    """Added to each log-probability on the exact routes: a server that returns nonsense."""
    reports_end: bool = False
    """Whether the end of the turn is among the reported tokens."""
    several: Literal["served", "ignored", "refused"] = "served"
    """What happens to `n` above 1."""
    constraints: frozenset[str] = frozenset()
    """Fields that constrain replies: "structured_outputs", "response_format", "regex"."""
    seeds: bool = True
    unknown: Literal["ignored", "refused"] = "ignored"
    """What happens to fields the server does not know."""
    max_tokens_name: Literal["max_tokens", "max_completion_tokens", "both"] = "both"
    fixed_temperature: bool = False
    reasoning: Literal["separate", "hidden"] | None = None
    """Whether the model reasons before it replies: in a field of its own, or unseen."""
    reasoning_tokens: int = 64
    cached_tokens: bool = False
    """Whether usage tells what came from the prefix cache."""
    metrics: bool = False
    """Whether `/metrics` counts prefix-cache hits."""
    crashes_on: frozenset[str] = frozenset()
    """Fields of a request that are answered with HTTP 500."""
    stays_down: bool = False
    """Whether all later requests are as well."""
    generation_config: Mapping[str, float] = field(default_factory=dict)
    """Sampling fields to take where the request has none."""


def _frozen(**facts: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    return MappingProxyType({f"/{path}": said for path, said in facts.items()})


_OPENAI: Final[dict[str, Any]] = {"constraints": frozenset({"response_format"}), "unknown": "refused"}

DIALECTS: Final[Mapping[DialectName, ServerDialect]] = MappingProxyType(
    {
        "vllm": ServerDialect(
            owner="vllm",
            context_length=32768,
            tells_context_length=True,
            facts=_frozen(version={"version": "0.32.0"}),
            tokenize="chat",
            completions="ids",
            echo="full",
            asked_tokens=128,
            prompt_logprobs=True,
            prefill=True,
            token_ids=True,
            reports_end=True,
            constraints=frozenset({"structured_outputs", "response_format"}),
            cached_tokens=True,
            metrics=True,
        ),
        "openai": ServerDialect(**_OPENAI, owner="openai", cached_tokens=True),
        "openai-reasoning": ServerDialect(
            **_OPENAI,
            logprobs="refused",
            logprobs_refusal=(
                400,
                "Unsupported parameter: 'logprobs' is not supported with this model.",
                "logprobs",
            ),
            max_tokens_name="max_completion_tokens",
            fixed_temperature=True,
            reasoning="hidden",
            cached_tokens=True,
        ),
        "azure": ServerDialect(
            **_OPENAI,
            base_path="/openai/deployments/{name}",
            base_query="api-version=2024-10-21",
            key_header="api-key",
            lists_models=False,
            logprobs="refused",
        ),
        "ollama": ServerDialect(
            owner="library",
            facts=_frozen(**{"api/version": {"version": "0.12.6"}}),
            completions="text",
            logprobs="dropped",
            several="ignored",
            constraints=frozenset({"response_format"}),
        ),
        "llamacpp": ServerDialect(
            owner="llamacpp",
            facts=_frozen(props={"build_info": "b7400", "default_generation_settings": {"n_ctx": 8192}}),
            context_length=8192,
            tokenize="content",
            completions="ids",
            max_top_logprobs=1000,
            several="ignored",
            constraints=frozenset({"response_format"}),
            cached_tokens=True,
        ),
        "sglang": ServerDialect(
            owner="sglang",
            context_length=32768,
            tells_context_length=True,
            facts=_frozen(get_server_info={"version": "0.5.9"}),
            tokenize="chat",
            completions="ids",
            echo="full",
            prefill=True,
            max_top_logprobs=1000,
            reports_end=True,
            constraints=frozenset({"regex", "response_format"}),
            cached_tokens=True,
        ),
        "litellm": ServerDialect(
            owner="openai",
            logprobs="dropped",
            logprobs_refusal=(
                400,
                (
                    "litellm.UnsupportedParamsError: ollama_chat does not support parameters: ['logprobs', "
                    "'top_logprobs'], for model=scripted-model. To drop these, set `litellm.drop_params=True`."
                ),
                None,
            ),
            several="ignored",
            seeds=False,
        ),
    }
)
"""By name; nothing but these values tells one from another."""
