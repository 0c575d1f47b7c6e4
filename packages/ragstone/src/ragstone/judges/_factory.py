"""From what a user writes as `judge=` to a `Judge`."""

from __future__ import annotations

import json
import os
from typing import Any, Final, Literal, TypedDict, Unpack
from urllib.parse import parse_qsl

from ragstone.errors import ConfigurationError
from ragstone.judges._model_judge import ModelJudge
from ragstone.judges._protocol import Judge, Reader
from ragstone.judges.lexical import LexicalJudge, LexicalReader
from ragstone.judges.openai_model import ConnectionOptions, OpenAICompatibleModel
from ragstone.judges.reader import ChatReader, ReaderOptions
from ragstone.judges.vllm_engine import VllmModel

__all__ = ["OpenAICompatibleJudge", "judge_from", "reader_from"]

_OPENAI_URL: Final = "https://api.openai.com/v1"
_FORMS: Final = (
    "a judge is 'http://host:8000/v1' (the model is read from the server), 'openai:MODEL' (with OPENAI_API_KEY, and "
    "OPENAI_BASE_URL for another endpoint), 'vllm:MODEL' (vLLM in this process), 'lexical' (the baseline without a "
    "model), or a Judge object"
)


class _ScoringOptions(TypedDict, total=False):
    """How a judge asks for numbers."""

    score_mode: Literal["single", "expected", "sampled"]
    draws: int
    max_tokens: int


class OpenAICompatibleJudge(ModelJudge):
    """A `ModelJudge` on an `OpenAICompatibleModel`, in one step.

    Args:
        base_url: "http://host:8000/v1"; without a path, `/v1` is taken.
        temperature: See `ModelJudge`.
        seed: See `ModelJudge`.
        max_tokens: See `ModelJudge`.
        score_mode: See `ModelJudge`.
        draws: See `ModelJudge`.
        connection: `model`, `api_key`, `concurrency`, `timeout_s` and all other options of `OpenAICompatibleModel`.

    Raises:
        ConfigurationError: A value that cannot work.

    Example:
        ```python
        judge = OpenAICompatibleJudge("http://localhost:8000/v1", model="qwen3-8b", concurrency=32)
        reply = await judge.ask_number(prompt)
        ```
    """

    def __init__(
        self,
        base_url: str,
        *,
        temperature: float | None = 0.0,
        seed: int | None = None,
        max_tokens: int = 64,
        score_mode: Literal["single", "expected", "sampled"] = "single",
        draws: int = 5,
        **connection: Unpack[ConnectionOptions],
    ) -> None:
        super().__init__(
            OpenAICompatibleModel(base_url, **connection),
            temperature=temperature,
            seed=seed,
            max_tokens=max_tokens,
            score_mode=score_mode,
            draws=draws,
        )


def judge_from(
    spec: str | Judge | None = None,
    *,
    score_mode: Literal["single", "expected", "sampled"] = "single",
    draws: int = 5,
    max_tokens: int | None = None,
    connection: ConnectionOptions | None = None,
) -> Judge:
    """Make the judge that `spec` names; None takes `RAGSTONE_JUDGE` from the environment, else the lexical baseline.

    "http://…" and "https://…" are asked without credentials; for an endpoint that wants a key use "openai:MODEL" with
    `OPENAI_BASE_URL` and `OPENAI_API_KEY` set, or an `OpenAICompatibleJudge`.

    "vllm:MODEL" runs the model in this process, with the extra `vllm`; arguments of the engine follow like those of a
    URL: "vllm:Qwen/Qwen3-8B?max_model_len=8192&gpu_memory_utilization=0.5". Judge and reader of one model share it.

    Args:
        spec: What the user named.
        score_mode: What a number is: see `ModelJudge`. For judges that are made here from a model.
        draws: Replies for "sampled".
        max_tokens: Length limit of replies with a number, at least 1; None takes `ModelJudge`'s own. For judges that
            are made here from a model.
        connection: Options of `OpenAICompatibleModel` (limits, a spend cap), for a judge that is an endpoint; others have
            no use for them.

    Raises:
        ConfigurationError: `spec` names no judge, or one that cannot score in `score_mode`.

    Example:
        ```python
        judge = judge_from("http://localhost:8000/v1")
        ```
    """
    if spec is None:
        spec = os.environ.get("RAGSTONE_JUDGE") or "lexical"
    if not isinstance(spec, str):
        given: object = spec
        # A class has all the attributes its objects have.
        if isinstance(given, Judge) and not isinstance(given, type):
            if score_mode != "single":
                raise ConfigurationError(
                    f"score_mode={score_mode!r} is for judges named in words; give it to {given!r} when you make it"
                )
            if max_tokens is not None:
                raise ConfigurationError(
                    f"max_tokens={max_tokens} is for judges named in words; give it to {given!r} when you make it"
                )
            return given
        raise ConfigurationError(f"{spec!r} is not a judge; {_FORMS}")
    kind, _, model = spec.strip().partition(":")
    if spec.strip() == "lexical":
        if score_mode != "single":
            raise ConfigurationError(f"score_mode={score_mode!r} needs a model, and the judge is 'lexical'; {_FORMS}")
        return LexicalJudge()
    asked: _ScoringOptions = {"score_mode": score_mode, "draws": draws}
    if max_tokens is not None:
        asked["max_tokens"] = max_tokens
    if kind in ("http", "https"):
        return OpenAICompatibleJudge(spec, **asked, **(connection or {}))
    if kind == "openai" and model:
        return _openai(model, asked, connection)
    if kind == "vllm" and model:
        return ModelJudge(_vllm(model), **asked)
    raise ConfigurationError(f"judge={spec!r} is unknown; {_FORMS}")


def reader_from(
    spec: str | Reader | None,
    *,
    judge: Judge,
    connection: ConnectionOptions | None = None,
    **options: Unpack[ReaderOptions],
) -> Reader:
    """Make the reader that `spec` names; None takes `RAGSTONE_READER` from the environment, else the judge's model.

    Args:
        spec: The forms of `judge_from`, or a `Reader` object (a `ChatReader` with the application's own prompt).
        judge: Whose model reads when nothing else is named; the reader then shares its connections and limits.
        connection: As for `judge_from`, for a reader that is named in words.
        options: `prompt`, `reader_abstention`, `estimator` and all other options of `ChatReader`, for a reader named in words.

    Raises:
        ConfigurationError: `spec` names no reader, or none is named and the judge has no model to read with; options
            for a reader that cannot have them.

    Example:
        ```python
        reader = reader_from("http://localhost:8000/v1", judge=judge)
        ```
    """
    spec = spec or os.environ.get("RAGSTONE_READER") or None
    if spec is not None and not isinstance(spec, str):
        given: object = spec
        if isinstance(given, Reader) and not isinstance(given, type):
            if options:
                raise ConfigurationError(
                    f"{', '.join(sorted(options))}: options are for readers named in words; give them to {given!r} itself"
                )
            return given
        raise ConfigurationError(f"{spec!r} is not a reader; it takes the same forms as judge=, or a Reader object")
    resolved_judge = judge if spec is None else judge_from(spec, connection=connection)
    if isinstance(resolved_judge, LexicalJudge):
        if options:
            raise ConfigurationError(
                f"{', '.join(sorted(options))}: the lexical baseline has no model to ask; name one with reader="
            )
        return LexicalReader()
    if isinstance(resolved_judge, ModelJudge):
        return ChatReader(resolved_judge.model, **options)
    raise ConfigurationError(
        f"judge={judge!r} has no model that could read passages as the application does; name one with reader="
    )


def _openai(model: str, asked: _ScoringOptions, connection: ConnectionOptions | None) -> ModelJudge:
    base_url = os.environ.get("OPENAI_BASE_URL") or _OPENAI_URL
    api_key = os.environ.get("OPENAI_API_KEY")
    if base_url == _OPENAI_URL and not api_key:
        raise ConfigurationError(
            f"judge='openai:{model}' needs OPENAI_API_KEY; set it, or OPENAI_BASE_URL for an endpoint without keys"
        )
    given: ConnectionOptions = {"model": model, "api_key": api_key, **(connection or {})}
    return OpenAICompatibleJudge(base_url, **asked, **given)


def _vllm(model: str) -> VllmModel:
    name, _, query = model.partition("?")
    return VllmModel(name, **{key: _plain(value) for key, value in parse_qsl(query, keep_blank_values=True)})


def _plain(value: str) -> Any:
    """A number, a truth value, JSON; else the word itself."""
    try:
        return json.loads(value)
    except ValueError:
        return value
