"""Creation of judges, readers and embedders from strings (`judge=`, `reader=`, `embedder=`)."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Sequence
from typing import Any, Final, NoReturn, Unpack
from urllib.parse import parse_qsl

from ragstone._util.local_model import MODELS, check_installed
from ragstone.errors import ConfigurationError
from ragstone.judges._model_judge import ModelJudge, ScoreMode
from ragstone.judges._option_names import OptionNames, Role
from ragstone.judges._protocol import Embedder, Judge, JudgeIdentity, Reader
from ragstone.judges.embedder import EndpointEmbedder, LocalEmbedder
from ragstone.judges.lexical import LexicalEmbedder, LexicalJudge, LexicalReader
from ragstone.judges.openai_model import ConnectionOptions, OpenAICompatibleModel
from ragstone.judges.reader import ChatReader
from ragstone.judges.vllm_engine import VllmModel
from ragstone.settings import public_name

_OPENAI_URL: Final = "https://api.openai.com/v1"
_FORMS: Final = (
    "'http://host:8000/v1' (the model is read from the server), 'openai:MODEL' (with OPENAI_API_KEY, and OPENAI_BASE_URL for "
    "another endpoint), 'vllm:MODEL' (vLLM in this process), 'nli:MODEL' and 'classifier:MODEL' (a cross-encoder in "
    "this process, for metrics of support, experimental), 'lexical' (the baseline without a model)"
)
_EMBEDDER_FORMS: Final = (
    "'http://host:8000/v1' (an endpoint with /v1/embeddings), 'openai:MODEL' (with OPENAI_API_KEY, and OPENAI_BASE_URL for "
    "another endpoint), 'local:MODEL' (a sentence-transformers model: a directory, or a name on the hub), 'lexical' "
    "(the baseline without a model)"
)
_SHOWN_METRICS: Final = 5
"""Maximum number of metrics in the sentence about a model that is not named."""


def describe_missing(role: Role, metrics: Sequence[str] = ()) -> str:
    """Return the sentence for scores that cannot be computed because no model is named, with the ways out."""
    shown = ", ".join(metrics[:_SHOWN_METRICS]) + (
        f" and {len(metrics) - _SHOWN_METRICS} more" if len(metrics) > _SHOWN_METRICS else ""
    )
    a_model = f"an {role}" if role == "embedder" else f"a {role}"
    needs = f"{shown} {'needs' if len(metrics) == 1 else 'need'} {a_model}, and none" if metrics else f"no {role}"
    option = OptionNames(role, "command line").option("url")
    forms = "http://HOST:PORT/v1, openai:MODEL" + (", local:MODEL" if role == "embedder" else "")
    return f"{needs} is named. Set {role} ({option}) or RAGSTONE_{role.upper()} to {forms}, or lexical to try the setup"


class MissingModel:
    """A judge, reader or embedder that is not named. Every call raises an error that says how to name one."""

    def __init__(self, role: Role) -> None:
        self.role = role

    @property
    def identity(self) -> JudgeIdentity:
        """Identity for results without a score of a model."""
        return JudgeIdentity(name="not named", hash="none")

    async def _refuse(self, *_arguments: object, **_options: object) -> NoReturn:
        raise ConfigurationError(describe_missing(self.role))

    prepare = ask_text = ask_number = ask_json = estimate_abstention = answer = embed = _refuse

    def is_abstention(self, reply: str) -> bool:  # noqa: ARG002
        """Refuse to be used."""
        raise ConfigurationError(describe_missing(self.role))

    async def aclose(self) -> None:
        """Do nothing."""


class OpenAICompatibleJudge(ModelJudge):
    """A `ModelJudge` with an `OpenAICompatibleModel`, created in one step.

    Args:
        base_url: "http://host:8000/v1". Omit it with `client=AsyncOpenAI(...)`.
        temperature: See `ModelJudge`.
        seed: See `ModelJudge`.
        max_tokens: See `ModelJudge`.
        score_mode: See `ModelJudge`.
        draws: See `ModelJudge`.
        connection: `client`, `model`, `api_key`, `max_concurrent_requests`, `timeout_s` and all other options of
            `OpenAICompatibleModel`.

    Raises:
        ConfigurationError: If a value is invalid.

    Examples:
        ```python
        judge = OpenAICompatibleJudge("http://localhost:8000/v1", model="qwen3-8b", max_concurrent_requests=32)
        reply = await judge.ask_number(prompt)
        ```
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        temperature: float | None = 0.0,
        seed: int | None = None,
        max_tokens: int = 64,
        score_mode: ScoreMode = "single",
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
    score_mode: ScoreMode = "single",
    draws: int = 5,
    max_tokens: int | None = None,
    connection: ConnectionOptions | None = None,
) -> Judge:
    """Create the judge that `spec` names. None uses `RAGSTONE_JUDGE` from the environment.

    If neither names a judge, the result stands for none: metrics that need a judge are not computed with it.

    "http://…" and "https://…" are called without credentials. For an endpoint with a key, use "openai:MODEL" with
    `OPENAI_BASE_URL` and `OPENAI_API_KEY`, or an `OpenAICompatibleJudge`.

    "vllm:MODEL" runs the model in this process and needs the extra `vllm`. Arguments of the engine are written as in a
    URL: "vllm:Qwen/Qwen3-8B?max_model_len=8192&gpu_memory_utilization=0.5". A judge and a reader with the same model
    share it.

    "nli:MODEL" and "classifier:MODEL" (experimental) run a cross-encoder in this process. They need the extra `models`,
    and answer only whether evidence supports claims.
    """
    connection = connection or {}
    names = connection.get("option_names") or OptionNames()
    shown: str | None = None
    if spec is None:
        spec = os.environ.get("RAGSTONE_JUDGE")
        if not spec:
            _check_no_endpoint_options(None, connection, names)
            return MissingModel(names.role)
        shown = f"RAGSTONE_JUDGE={public_name(spec)!r}"
    if not isinstance(spec, str):
        return _check_object(spec, score_mode, max_tokens)
    spec = spec.strip()
    kind, _, model = spec.partition(":")
    if spec == "lexical" or (kind in ("nli", "classifier") and model):
        _check_no_endpoint_options(spec, connection, names)
        if score_mode != "single":
            raise ConfigurationError(
                f"{names.value('score_mode', score_mode)} needs a language model, and the {names.role} is {spec!r}. "
                f"Known forms: {_FORMS}"
            )
        if spec == "lexical":
            return LexicalJudge()
        from ragstone.judges.support import SupportJudge

        return SupportJudge("nli" if kind == "nli" else "classifier", model)
    options: dict[str, Any] = {"score_mode": score_mode, "draws": draws}
    options |= {} if max_tokens is None else {"max_tokens": max_tokens}
    if kind in ("http", "https"):
        return OpenAICompatibleJudge(spec, **options, **connection)
    if kind == "openai" and model:
        base_url, connection = _at_openai(model, connection, names)
        return OpenAICompatibleJudge(base_url, **options, **connection)
    if kind == "vllm" and model:
        _check_no_endpoint_options(spec, connection, names)
        name, _, query = model.partition("?")
        engine_args = {key: _plain(value) for key, value in parse_qsl(query, keep_blank_values=True)}
        return ModelJudge(VllmModel(name, **engine_args), **options)
    hint = "" if (suggestion := _suggest(spec)) is None else f" Did you mean {suggestion!r}?"
    forms = f"{_FORMS}, or a Judge object" if names.interface == "python" else _FORMS
    raise ConfigurationError(f"{shown or names.value('url', spec)} is unknown.{hint} Known forms: {forms}")


def _is_a(protocol: type, candidate: object) -> bool:
    """Return whether an object has the attributes of a Protocol. A class has all attributes of its objects."""
    return isinstance(candidate, protocol) and not isinstance(candidate, type)


def _check_object(candidate: Judge, score_mode: str, max_tokens: int | None) -> Judge:
    """Return a judge that was given as an object, if it is one and no option is given that it could not apply."""
    if not _is_a(Judge, candidate):
        raise ConfigurationError(f"{candidate!r} is not a judge. Known forms: {_FORMS}, or a Judge object")
    option = f"score_mode={score_mode!r}" if score_mode != "single" else f"max_tokens={max_tokens}"
    if score_mode != "single" or max_tokens is not None:
        raise ConfigurationError(f"{option} is for judges given as a string. Set it when you create {candidate!r}")
    return candidate


def _suggest(spec: str) -> str | None:
    """Return what a user probably meant: the baseline, a URL without its scheme, or the bare name of a model."""
    if difflib.get_close_matches(spec.lower(), ["lexical"], cutoff=0.8):
        return "lexical"
    if re.fullmatch(r"[\w.-]+:\d{1,5}(/\S*)?", spec):
        return f"http://{spec}" if "/" in spec else f"http://{spec}/v1"
    # Names of models on Hugging Face have an owner, names at OpenAI do not.
    if re.fullmatch(r"[\w.-]+/[\w.-]+", spec):
        return f"vllm:{spec}"
    # JUDGE is the placeholder of printed commands.
    return f"openai:{spec}" if re.fullmatch(r"[\w.-]+", spec) and not spec.isupper() else None


def _check_no_endpoint_options(spec: str | None, connection: ConnectionOptions, names: OptionNames) -> None:
    """Check that no option of an endpoint is given for a judge or a reader that is not one, or is not named."""
    reason = f"no {names.role} is named" if spec is None else f"the {names.role} is {spec!r}"
    for key in ("model", "api_key", "extra_body", "headers"):
        if connection.get(key) is not None:
            raise ConfigurationError(
                f"{names.option(key)} is for an endpoint, and {reason}. Name the endpoint with {names.option('url')}, "
                "such as 'http://host:8000/v1' or 'openai:MODEL'"
            )


def reader_from(
    spec: str | Reader | None, *, judge: Judge, connection: ConnectionOptions | None = None, **options: Any
) -> Reader:
    """Create the reader that `spec` names. None uses `RAGSTONE_READER` from the environment, else the judge's model.

    If a judge is not named either, the result stands for none: metrics that need a reader are not computed with it.
    """
    spec = spec or os.environ.get("RAGSTONE_READER") or None
    if spec is not None and not isinstance(spec, str):
        if not _is_a(Reader, spec):
            raise ConfigurationError(f"{spec!r} is not a reader. Give a string as for judge=, or a Reader object")
        if options:
            raise ConfigurationError(
                f"{', '.join(sorted(options))}: options apply only to readers given as a string. Set them when you "
                f"create {spec!r}"
            )
        return spec
    named: ConnectionOptions = {"option_names": OptionNames("reader"), **(connection or {})}
    resolved_judge = judge if spec is None else judge_from(spec, connection=named)
    if isinstance(resolved_judge, LexicalJudge):
        if options:
            raise ConfigurationError(
                f"{', '.join(sorted(options))}: the lexical baseline does not have a model. Name one with reader="
            )
        return LexicalReader()
    if isinstance(resolved_judge, ModelJudge):
        return ChatReader(resolved_judge.model, **options)
    from ragstone.judges.support import SupportJudge

    if isinstance(resolved_judge, MissingModel) or (spec is None and isinstance(resolved_judge, SupportJudge)):
        return MissingModel("reader")
    raise ConfigurationError(f"judge={judge!r} does not have a model that could read passages. Name one with reader=")


def embedder_from(
    spec: str | Embedder | None = None,
    *,
    connection: ConnectionOptions | None = None,
    batch_size: int = 64,
    device: str | None = None,
) -> Embedder:
    """Create the embedder that `spec` names. None uses `RAGSTONE_EMBEDDER` from the environment.

    If neither names an embedder, the result stands for none: metrics that need one are not computed with it.
    """
    names = (connection or {}).get("option_names") or OptionNames("embedder")
    connection = {**(connection or {}), "option_names": names}
    shown: str | None = None
    if spec is None:
        spec = os.environ.get("RAGSTONE_EMBEDDER")
        if not spec:
            return MissingModel("embedder")
        shown = f"RAGSTONE_EMBEDDER={public_name(spec)!r}"
    if not isinstance(spec, str):
        if _is_a(Embedder, spec):
            return spec
        raise ConfigurationError(f"{spec!r} is not an embedder. Known forms: {_EMBEDDER_FORMS}, or an Embedder object")
    spec = spec.strip()
    kind, _, model = spec.partition(":")
    if kind in ("http", "https"):
        return EndpointEmbedder(spec, batch_size=batch_size, **connection)
    if kind == "openai" and model:
        base_url, connection = _at_openai(model, connection, names)
        return EndpointEmbedder(base_url, batch_size=batch_size, **connection)
    if spec == "lexical" or (kind == "local" and model):
        _check_no_endpoint_options(spec, connection, names)
        if spec == "lexical":
            return LexicalEmbedder()
        check_installed(MODELS, f"The embedder {spec!r}")
        return LocalEmbedder(model, device=device, batch_size=batch_size)
    raise ConfigurationError(f"{shown or names.value('url', spec)} is unknown. Known forms: {_EMBEDDER_FORMS}")


def _at_openai(model: str, connection: ConnectionOptions, names: OptionNames) -> tuple[str, ConnectionOptions]:
    """Return the base URL and the options for "openai:MODEL"."""
    base_url = os.environ.get("OPENAI_BASE_URL") or _OPENAI_URL
    api_key = connection.get("api_key") or os.environ.get("OPENAI_API_KEY")
    spec = f"openai:{model}"
    if base_url == _OPENAI_URL and not api_key:
        raise ConfigurationError(
            f"{names.value('url', spec)} needs OPENAI_API_KEY. Set it, or OPENAI_BASE_URL for an endpoint without keys"
        )
    if (other := connection.get("model")) not in (None, model):
        raise ConfigurationError(
            f"{names.value('url', spec)} and {names.value('model', other)} name two models. Omit one"
        )
    return base_url, {**connection, "model": model, "api_key": api_key}


def _plain(value: str) -> Any:
    """Parse a JSON value (a number, a boolean, ...). Return the text itself if it is not JSON."""
    try:
        return json.loads(value)
    except ValueError:
        return value
