"""Kinds of endpoints as a judge meets them: what each refuses and in which words, and how models show their reasoning.

Each follows the published behavior of its kind: the provider's API reference, or error messages in public issues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

from fake_servers.loopback import Reply, error_reply

__all__ = ["JUDGE_DIALECTS", "ODD_REFUSALS", "JudgeDialect"]

Refusal = Callable[[Sequence[str]], Reply]
"""Makes the refusal of some fields."""

# fmt: off
_OPENAI_FIELDS: Final = frozenset({
    "model", "messages", "n", "max_tokens", "max_completion_tokens", "temperature", "top_p", "presence_penalty",
    "frequency_penalty", "logit_bias", "seed", "stop", "logprobs", "top_logprobs", "response_format", "user",
    "reasoning_effort", "service_tier",
})
# fmt: on


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeDialect:
    """One kind of endpoint."""

    title: str
    refused: frozenset[str] = frozenset()
    """Fields that are refused in any request."""
    known: frozenset[str] | None = None
    """Fields that are not refused. None ignores unknown fields."""
    refusal: Refusal = lambda names: error_reply(400, f"Unsupported parameter: {names[0]!r}", param=names[0])
    rules: tuple[Callable[[Mapping[str, Any]], Reply | None], ...] = ()
    """Other refusals, which depend on values."""
    several: Literal["served", "ignored"] = "served"
    schemas: Literal["obeyed", "ignored"] = "obeyed"
    regex: bool = False
    """Whether vLLM's `structured_outputs` is obeyed. Otherwise it is ignored if unknown fields are."""
    keywords: frozenset[str] = frozenset()
    """Keywords of JSON Schema that are refused."""
    reasoning: Literal["reasoning_content", "reasoning", "hidden", "tags", "closing tag"] | None = None
    """How replies show that the model reasons first."""

    def refuse(self, body: Mapping[str, Any]) -> Reply | None:
        """Return the refusal of a request, or None if it is accepted."""
        for rule in self.rules:
            if (reply := rule(body)) is not None:
                return reply
        unknown = [name for name in body if name in self.refused or (self.known is not None and name not in self.known)]
        if unknown:
            return self.refusal(sorted(unknown))
        if used := sorted(self.keywords & set(_keywords(body.get("response_format")))):
            return error_reply(
                400,
                f"Invalid schema for response_format 'reply': {used[0]!r} is not permitted.",
                param="response_format",
            )
        return None


def _keywords(value: object) -> Iterable[str]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield name
            yield from _keywords(item)
    elif isinstance(value, list):
        for item in value:
            yield from _keywords(item)


def _unrecognized(names: Sequence[str]) -> Reply:
    several = "s" if len(names) > 1 else ""
    return error_reply(400, f"Unrecognized request argument{several} supplied: {', '.join(names)}")


def _unknown_names(names: Sequence[str]) -> Reply:
    lines = (f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.' for name in names)
    error = {"code": 400, "message": "\n".join(lines), "status": "INVALID_ARGUMENT"}
    return Reply(400, [{"error": error}])


def _extra_forbidden(names: Sequence[str]) -> Reply:
    detail = [
        {"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted", "input": 0}
        for name in names
    ]
    return Reply(
        422,
        {
            "object": "error",
            "message": {"detail": detail},
            "type": "invalid_request_error",
            "param": None,
            "code": None,
        },
    )


def _unsupported_property(names: Sequence[str]) -> Reply:
    hint = ", did you mean 'top_p'?" if names[0] == "top_k" else ""
    return error_reply(400, f"property '{names[0]}' is unsupported{hint}")


def _unsupported_parameters(names: Sequence[str]) -> Reply:
    return error_reply(
        400,
        (
            f"litellm.UnsupportedParamsError: ollama_chat does not support parameters: {list(names)}, for model=qwen3. "
            "To drop these, set `litellm.drop_params=True`."
        ),
    )


def _not_with_this_model(names: Sequence[str]) -> Reply:
    if names[0] == "max_tokens":
        return error_reply(
            400,
            (
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' "
                "instead."
            ),
            param="max_tokens",
        )
    if names[0] in _OPENAI_FIELDS:
        return error_reply(
            400, f"Unsupported parameter: '{names[0]}' is not supported with this model.", param=names[0]
        )
    return _unrecognized([name for name in names if name not in _OPENAI_FIELDS])


def _only_temperature_one(body: Mapping[str, Any]) -> Reply | None:
    if body.get("temperature", 1) == 1:
        return None
    return error_reply(
        400,
        (
            f"Unsupported value: 'temperature' does not support {body['temperature']} with this model. Only the default "
            "(1) value is supported."
        ),
        param="temperature",
    )


def _temperature_or_top_p(body: Mapping[str, Any]) -> Reply | None:
    if {"temperature", "top_p"} <= body.keys():
        return error_reply(
            400, "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
        )
    return None


def _one_choice(message: str) -> Callable[[Mapping[str, Any]], Reply | None]:
    return lambda body: error_reply(400, message, param="n") if body.get("n", 1) > 1 else None


def _no_schemas(message: str) -> Callable[[Mapping[str, Any]], Reply | None]:
    return lambda body: error_reply(400, message) if "response_format" in body else None


def _literal_error(names: Sequence[str]) -> Reply:
    where = ", ".join(repr(name) for name in names)
    message = f"[{{'type': 'literal_error', 'loc': ('body', {where}, 'type'), 'msg': \"Input should be 'text'\"}}]"
    return Reply(500, {"error": {"message": message, "type": "internal_server_error", "param": None, "code": None}})


def _only_json_objects(body: Mapping[str, Any]) -> Reply | None:
    """Refuse schemas as llama-cpp-python does, except in its own form."""
    return _literal_error(["response_format"]) if "json_schema" in body.get("response_format", {}) else None


ODD_REFUSALS: Final[Mapping[str, Refusal]] = MappingProxyType(
    {
        "500 that names the field": _literal_error,
        "500": lambda names: error_reply(500, "Internal Server Error"),
        "501": lambda names: error_reply(501, "Not Implemented"),
        "502": lambda names: Reply(502, "<html><body>Bad Gateway</body></html>"),
        "503": lambda names: error_reply(503, "no provider"),
        "400": lambda names: error_reply(400, f"Unsupported parameter: {names[0]!r}"),
        "422": _extra_forbidden,
        "403": lambda names: error_reply(403, "not in your plan"),
        "404": lambda names: error_reply(404, "No endpoints found that support the requested parameters."),
        "200 with an error": lambda names: Reply(200, {"error": {"message": "unsupported"}}),
        "200 without JSON": lambda names: Reply(200, "unsupported"),
        "closed connection": lambda names: Reply(0, ""),
    }
)
"""Ways in which servers say that they do not know a field."""


def _no_thinking(body: Mapping[str, Any]) -> Reply | None:
    if body.get("enable_thinking") is False:
        return None
    return error_reply(
        400,
        "parameter.enable_thinking must be set to false for non-streaming calls",
        code="invalid_parameter_error",
    )


def _no_logprobs(message: str) -> Callable[[Mapping[str, Any]], Reply | None]:
    return lambda body: error_reply(400, message) if body.get("logprobs") else None


_LENGTHS: Final = frozenset({"minLength", "maxLength"})
_LIMITS: Final = _LENGTHS | {"minItems", "maxItems", "minimum", "maximum", "pattern"}

JUDGE_DIALECTS: Final[Mapping[str, JudgeDialect]] = MappingProxyType(
    {
        "vllm": JudgeDialect(title="vLLM", regex=True),
        "vllm-qwen3": JudgeDialect(
            title="vLLM, Qwen3 with a reasoning parser", regex=True, reasoning="reasoning_content"
        ),
        "vllm-r1": JudgeDialect(title="vLLM, R1 without a reasoning parser", regex=True, reasoning="closing tag"),
        "sglang": JudgeDialect(title="SGLang"),
        "llamacpp": JudgeDialect(title="llama.cpp", several="ignored"),
        "llama-cpp-python": JudgeDialect(
            title="llama-cpp-python",
            refused=frozenset({"logprobs"}),
            refusal=_literal_error,
            rules=(_only_json_objects,),
            several="ignored",
        ),
        "ollama": JudgeDialect(title="Ollama", several="ignored"),
        "openai": JudgeDialect(title="OpenAI", known=_OPENAI_FIELDS, refusal=_unrecognized, keywords=_LENGTHS),
        "openai-reasoning": JudgeDialect(
            title="OpenAI, reasoning models",
            known=_OPENAI_FIELDS - {"max_tokens", "top_p", "presence_penalty", "frequency_penalty", "logprobs"},
            refusal=_not_with_this_model,
            rules=(_only_temperature_one,),
            keywords=_LENGTHS,
            reasoning="hidden",
        ),
        "azure": JudgeDialect(
            title="Azure OpenAI",
            known=_OPENAI_FIELDS - {"logprobs"},
            refusal=_unrecognized,
            keywords=_LIMITS,
        ),
        "anthropic": JudgeDialect(
            title="Anthropic",
            rules=(_temperature_or_top_p, _one_choice("n: must be exactly 1")),
            schemas="ignored",
        ),
        "gemini": JudgeDialect(
            title="Gemini 2.5",
            known=_OPENAI_FIELDS - {"seed", "logprobs", "frequency_penalty"},
            refusal=_unknown_names,
            keywords=_LENGTHS,
            reasoning="hidden",
        ),
        "deepseek": JudgeDialect(
            title="DeepSeek-R1",
            rules=(
                _no_logprobs("deepseek-reasoner does not support the parameter `logprobs`"),
                _no_schemas("This response_format type is unavailable now"),
            ),
            several="ignored",
            reasoning="reasoning_content",
        ),
        "openrouter": JudgeDialect(
            title="OpenRouter, DeepSeek-R1", several="ignored", schemas="ignored", reasoning="reasoning"
        ),
        "groq": JudgeDialect(
            title="Groq, Qwen3",
            known=_OPENAI_FIELDS - {"logit_bias"},
            refusal=_unsupported_property,
            rules=(
                _one_choice("'n' : number must be at most 1"),
                _no_logprobs("`logprobs` is not supported with this model"),
                _no_schemas("This model does not support response format `json_schema`."),
            ),
            reasoning="tags",
        ),
        "mistral": JudgeDialect(
            title="Mistral",
            known=_OPENAI_FIELDS - {"seed", "logprobs", "top_logprobs", "max_completion_tokens"},
            refusal=_extra_forbidden,
        ),
        "litellm": JudgeDialect(
            title="LiteLLM, Ollama",
            known=_OPENAI_FIELDS - {"logprobs", "top_logprobs", "n"},
            refusal=_unsupported_parameters,
        ),
        "dashscope": JudgeDialect(title="DashScope, Qwen3", rules=(_no_thinking,), several="ignored"),
    }
)
"""Dialects by name."""
