"""The settings by subject. Each key is declared here once, with its type, range, default and meaning."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, BeforeValidator, SecretStr, StringConstraints

from ragstone._util.quantities import parse_age
from ragstone.errors import ConfigurationError
from ragstone.schema import TraceStatus
from ragstone.settings._base import Settings, Text, Texts, key, raise_rule

_VARIABLE_RULE: Final = "the name of an environment variable, not the key itself, such as OPENAI_API_KEY"
_SLICES: Final = ("release", "environment", "operation", "retriever", "language")
"""Slices with a fixed name. The others are `tag:NAME`."""
_MAX_SLICES: Final = 12


def _pair(value: object) -> object:
    if isinstance(value, list) and all(isinstance(part, int | float) and not isinstance(part, bool) for part in value):
        return tuple(map(float, value))
    return value


def _listed(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _path(value: object) -> object:
    return Path(value.strip()) if isinstance(value, str) and value.strip() else value


def _age(value: str) -> str:
    try:
        parse_age(value, name="")
    except ConfigurationError:
        raise ValueError(value) from None
    return value


def _not_negative(value: tuple[float, float]) -> tuple[float, float]:
    if min(value) < 0:
        raise ValueError(value)
    return value


def _slices(value: tuple[str, ...]) -> tuple[str, ...]:
    if len(value) > _MAX_SLICES or not all(
        name in _SLICES or (name.startswith("tag:") and name != "tag:") for name in value
    ):
        raise ValueError(value)
    return value


def _notify(value: tuple[str, ...]) -> tuple[str, ...]:
    if not all(re.match("(slack|webhook|otlp):https?://|otlp$", place) for place in value):
        raise ValueError
    return value


def _canaries(value: int) -> int:
    if value != 0 and not 5 <= value <= 200:
        raise ValueError(value)
    return value


def _model(value: str) -> str:
    if value.startswith("openai:") and "?" in value:
        raise_rule(
            "the name of a model does not have a query (?...). Set its key in api_key_env, or in RAGSTONE_<TABLE>_API_KEY"
        )
    return value


Url = Annotated[Text, AfterValidator(_model)]
Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\z")]
Prices = Annotated[tuple[float, float], BeforeValidator(_pair), AfterValidator(_not_negative)]
Age = Annotated[str, AfterValidator(_age)]
_URL_RULE: Final = "a text (for several servers with the same model, the URL of a load balancer)"
Label = Annotated[Text, StringConstraints(max_length=200)]
Labels = Annotated[tuple[Label, ...], BeforeValidator(_listed)]
_AGE_RULE: Final = "a positive age such as 30d, 12h or 90m"
_LABEL_RULE: Final = "a text of 1 to 200 characters, such as 'qa-bot'"


class Endpoint(Settings):
    """The endpoint of a model: where it is, and how it is called."""

    main: ClassVar[str | None] = "url"

    url: Url | None = key(
        None,
        "The model: http://HOST:PORT/v1, openai:MODEL, vllm:MODEL, nli:MODEL, classifier:MODEL or lexical.",
        rule=_URL_RULE,
    )
    model: Text | None = key(None, "Name of the model at the URL. Default: the only one served.")
    api_key_env: Variable | None = key(
        None,
        "Environment variable with the API key. Default: OPENAI_API_KEY for openai:MODEL.",
        rule=_VARIABLE_RULE,
        shown=False,
    )
    api_key: SecretStr | None = key(
        None, "The API key itself. In a file, use `api_key_env`.", rule="a text", secret=True, min_length=1
    )
    headers: dict[str, str | dict[Literal["env"], Variable]] = key(
        {},
        "HTTP headers. { env = 'VARIABLE' } reads a value from the environment.",
        rule="a table with a text or { env = 'VARIABLE' } for each header",
        secret=True,
    )
    extra_body: dict[str, Any] = key(
        {}, "Fields to add to each request.", rule="a table, such as { reasoning_effort = 'low' }", secret=True
    )
    usd_per_million_tokens: Prices | None = key(
        None,
        "Prices of input and output tokens in US dollars.",
        rule="two numbers, USD per million input and output tokens, such as [0.15, 0.60]",
    )
    timeout_s: float = key(60.0, "Seconds for one attempt, restarted while the endpoint answers others.", gt=0)
    max_retries: int = key(4, "Maximum retries after timeouts, lost connections and 5xx.", ge=0)
    max_wait_s: float = key(600.0, "Seconds for which a request is retried after status 429.", ge=0)
    backoff_s: float = key(0.5, "Seconds before the first retry. They double each time, up to 30.", ge=0)
    max_concurrent_requests: int | None = key(None, "Maximum concurrent requests. Without any limit, 16.", ge=1)
    requests_per_minute: float | None = key(None, "Maximum requests per minute.", gt=0)
    tokens_per_minute: float | None = key(None, "Maximum input and output tokens per minute.", gt=0)


class Judge(Endpoint):
    """The judge: the model that rates."""

    score_mode: Literal["single", "expected", "sampled", "reasoned"] = key(
        "single", "How a number is obtained: one reply, exact probabilities, several replies, or reasons first."
    )
    draws: int = key(5, "Replies for the score mode sampled.", ge=2)
    max_tokens: int = key(64, "Maximum tokens of a rating. A judge that reasons first gets 4096 more.", ge=1)


class Reader(Endpoint):
    """The reader: the application's own generator, for metrics that need it (udcg)."""

    url: Url | None = key(None, "The application's generator, for udcg. Default: the judge's model.", rule=_URL_RULE)
    prompt: Annotated[Path, BeforeValidator(_path)] | None = key(
        None,
        "File with the application's prompt ({context}, {question}): text, or *.json with chat messages.",
        rule="the path of a file",
    )
    abstention: Texts = key(("NO-RESPONSE",), "The reader's replies if passages do not contain the answer.")
    estimator: Literal["auto", "exact", "first_token", "monte_carlo"] = key(
        "auto", "How p(abstain) is estimated. auto: the endpoint's most accurate method."
    )
    max_draws: int = key(20, "Maximum draws for one p(abstain).", ge=1)
    max_tokens: int = key(512, "Maximum tokens of a reply.", ge=1)


class Embedder(Endpoint):
    """The embedding model, for metrics that need it (cosine)."""

    url: Url | None = key(
        None,
        "The embedding model, for cosine: http://HOST:PORT/v1, openai:MODEL, local:MODEL or lexical.",
        rule=_URL_RULE,
    )
    batch_size: int = key(64, "Maximum texts in one request.", ge=1)
    device: Text | None = key(None, "Device of a local model, such as cpu or cuda.")


def _phrases(value: tuple[str, ...]) -> tuple[str, ...]:
    if not all(re.search(r"\w", phrase) for phrase in value):
        raise ValueError(value)
    return value


class Answers(Settings):
    """How answers of the application are read."""

    refusals: Annotated[Texts, AfterValidator(_phrases)] = key(
        (),
        "Phrases of refusal that begin an answer, in addition to those that are detected.",
        rule="a list of texts with a letter or a digit",
    )


def flat_names(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield values by names with dots, which TOML without quotes reads as tables."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from flat_names(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


class Prompts(Settings):
    """Your own prompts in place of built-in ones, by metric."""

    main: ClassVar[str | None] = "texts"
    is_open: ClassVar[bool] = True

    texts: Annotated[
        dict[str, Text], BeforeValidator(lambda value: dict(flat_names(value)) if isinstance(value, Mapping) else value)
    ] = key(
        {},
        "Prompts by metric or METRIC.NAME (see `ragstone metrics NAME`), with placeholders such as {query}.",
        rule="a table of texts, such as { 'ccrs.qr' = 'Rate how {response} answers {query}, from 0 to 100.' }",
    )


class Cache(Settings):
    """The cache of model replies."""

    main: ClassVar[str | None] = "directory"

    directory: str | None = key(None, "Directory of the cache. Empty: no cache.")


class Limits(Settings):
    """How much is done at the same time, and how long a run waits."""

    concurrency: int = key(16, "Samples scored concurrently.", ge=1)
    processes: int = key(1, "Processes that score. They share concurrency, limits and budget.", ge=1)
    deadline_s: float | None = key(
        None, "Seconds until unfinished metrics fail. Default: 120 after the last reply.", ge=0.1
    )
    max_outage_s: float | None = key(None, "Seconds that an outage may last. Default: 300, for a worker 3600.", ge=0)
    max_failed_share: float = key(0.5, "Largest share of failed scores with which a run is a success.", ge=0, le=1)
    stop_early: bool = key(
        default=True, description="Whether a run ends if judge or application fails on all first samples."
    )
    call_latency_s: float = key(1.0, "Seconds for one model call, in estimates.", ge=0)
    app_concurrency: int = key(8, "Concurrent calls of an evaluated application.", ge=1)
    app_timeout_s: float = key(120.0, "Seconds after which a call of an evaluated application fails.", ge=0.1)
    max_page_mb: float = key(1.5, "Maximum size of the page of a report, in MB.", ge=0.1)


class Budget(Settings):
    """What the model calls of a run may cost. When a limit is reached, no more requests are sent."""

    calls: int | None = key(None, "Maximum model calls.", ge=1)
    tokens: int | None = key(None, "Maximum input and output tokens.", ge=1)
    usd: float | None = key(None, "Maximum cost in US dollars. Needs `usd_per_million_tokens` of each model.", gt=0)


class DailyBudget(Budget):
    """What model calls may cost on one day of UTC. Then requests stay pending until the next day."""


class Scoring(Settings):
    """What is scored, where, and where outcomes are sent."""

    main: ClassVar[str | None] = "mode"

    metrics: Texts = key(("ccrs",), "Metrics or groups, comma-separated.")
    sinks: Texts = key((), "Destinations of outcomes besides the store: jsonl:PATH, otlp, ...", secret=True)
    reasons: int = key(0, "Worst answers, of a run or of 24 hours, that the judge explains.", ge=0)
    mode: Literal["thread", "process", "none"] = key(
        "thread", "Where a monitor scores: in a thread, in a process, or not (a worker does)."
    )


class Watch(Settings):
    """How scores are watched, and where alarms are sent."""

    false_alarms_per_quarter: float = key(
        1.0, "Expected false alarms per quarter, over all applications and metrics of a store.", gt=0, le=100
    )
    min_drop: float = key(0.05, "Smallest drop that matters, as a share of the metric's range.", gt=0, le=0.5)
    session_gap_s: float = key(
        1800.0, "Seconds from its last request until a session is closed: an alarm's smallest delay.", gt=0, le=14400
    )
    slices: Annotated[Texts, AfterValidator(_slices)] = key(
        (*_SLICES, "tag:topic"),
        "Fields whose values are compared when an alarm is raised.",
        rule=f"at most {_MAX_SLICES} of {', '.join(_SLICES)} and tag:NAME",
    )
    canaries: Annotated[int, AfterValidator(_canaries)] = key(
        0,
        "Requests, kept with texts, that the judge scores again daily, to detect that it changed.",
        rule="0, or an integer from 5 to 200",
    )
    notify: Annotated[Texts, AfterValidator(_notify)] = key(
        (),
        "Destinations of alarms: slack:URL, webhook:URL, otlp or otlp:URL.",
        rule="slack:URL, webhook:URL, otlp or otlp:URL, with URLs that start with https:// or http://",
        secret=True,
    )
    targets: dict[str, float] = key(
        {},
        "Required mean by metric. It replaces the learned reference.",
        rule="a table of numbers, such as { 'ccrs.ac' = 0.8 }",
    )


class Retention(Settings):
    """How long a worker keeps requests in its store."""

    bodies_older_than: Age | None = key(None, "Age from which texts are removed. Scores stay.", rule=_AGE_RULE)
    requests_older_than: Age | None = key(
        None, "Age from which requests, scores and labels are removed.", rule=_AGE_RULE
    )
    sampled_out_older_than: Age = key("1d", "Age from which ids of sampled-out requests are removed.", rule=_AGE_RULE)

    def seconds(self, name: str) -> float:
        """Return an age in seconds."""
        return parse_age(getattr(self, name), name=name)


class SamplingRule(Settings):
    """The share of requests that is kept, of those for which all conditions hold."""

    rate: float = key(
        ...,
        "Share of the requests that is kept.",
        rule="a number above 0 and at most 1, because no weight can correct for requests that are never kept",
        gt=0,
        le=1,
    )
    app: Text | None = key(None, "Name of the application.")
    tag: Text | None = key(None, "One of the tags of the request or of its application.")
    status: TraceStatus | None = key(None, "How the request ended.")

    @property
    def conditions(self) -> dict[str, Any]:
        """The values that a request must have."""
        return {name: value for name, value in self.stated.items() if name != "rate"}


def _check_rules(rules: tuple[SamplingRule, ...]) -> tuple[SamplingRule, ...]:
    for number, rule in enumerate(rules, 1):
        if not rule.conditions:
            raise_rule(f"rule {number} must have at least one of app, tag and status")
        for before, other in enumerate(rules[: number - 1], 1):
            if other.conditions.items() <= rule.conditions.items():
                raise_rule(
                    f"rule {number} never applies, because rule {before} matches the same requests and comes first. "
                    "Put the narrower rule first"
                )
    return rules


class Sampling(Settings):
    """Which requests are captured."""

    sample_rate: float = key(1.0, "Probability that a request is captured, if no rule matches.", ge=0, le=1)
    rules: Annotated[tuple[SamplingRule, ...], BeforeValidator(_listed), AfterValidator(_check_rules)] = key(
        (),
        "Rules in order. The first whose application, tag and status match gives the probability.",
        rule="a list of tables [[sampling.rules]], each with a rate and app, tag or status",
    )


class Redaction(Settings):
    """What is removed from captured requests."""

    redact: bool = key(default=True, description="Whether secrets, e-mail addresses and card numbers are removed.")
    ids: Literal["keep", "hash"] = key("keep", "What is stored of the ids of users and sessions.")


class App(Settings):
    """The application that is captured. Its values label all of its requests."""

    main: ClassVar[str | None] = "name"

    name: Label | None = key(None, "Name of the application. Default: OpenTelemetry's service.name.", rule=_LABEL_RULE)
    release: Label | None = key(None, "Its version. Default: OpenTelemetry's service.version.", rule=_LABEL_RULE)
    environment: Label | None = key(
        None, "Where it runs. Default: OpenTelemetry's deployment.environment.name.", rule=_LABEL_RULE
    )
    tags: Labels = key((), "Tags of all requests.", rule='a list of texts of 1 to 200 characters, such as ["beta"]')


class Capture(Settings):
    """How requests are captured and stored."""

    store: Text = key("ragstone.db", "Path of the store, URL of a PostgreSQL database, or URL of a message broker.")
    durability: Literal["batched", "sync"] = key(
        "batched", "When a request is on disk: after `flush_interval_s`, or before `record` returns."
    )
    flush_interval_s: float = key(0.1, "Seconds between writes with the durability batched.", ge=0)
    queue_size: int = key(10_000, "Maximum requests in memory. Further ones are dropped and counted.", ge=1)


class Lengths(Settings):
    """Maximum lengths of what is captured. `Trace.truncated_fields` names the fields that were cut."""

    max_chars: int = key(50_000, "Maximum characters of each text.", ge=1)
    max_passages: int = key(200, "Maximum passages of each retrieval, and of the contexts.", ge=1)
    max_items: int = key(200, "Maximum retrievals, references, inner errors and tags, each.", ge=1)
