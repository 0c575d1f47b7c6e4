"""Options of the endpoints of judge, reader and embedder: the TOML tables of these names, and command-line options."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self, cast, get_args

from ragstone.errors import ConfigurationError
from ragstone.judges._factory import embedder_from, judge_from, reader_from
from ragstone.judges._limits.gate import DEFAULT_CONCURRENT_REQUESTS
from ragstone.judges._option_names import OptionNames, Role
from ragstone.judges._protocol import Embedder, Judge, Reader
from ragstone.judges.openai_model import ConnectionOptions

ROLES: Final[tuple[Role, ...]] = get_args(Role)

Convert = Callable[[Any], Any]
"""Returns the value of a key in the form in which it is passed on, or raises ValueError with the rule."""


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text")
    return value.strip()


def _urls(value: Any) -> str:
    if isinstance(value, list) and value:
        return ",".join(map(_text, value))
    if isinstance(value, list):
        raise ValueError("a text, or a list of texts")  # noqa: TRY004
    return _text(value)


def _number(least: float, *, or_equal: bool = False) -> Convert:
    def convert(value: Any) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not (value >= least if or_equal else value > least):
            raise ValueError(f"a number {'of at least' if or_equal else 'above'} {least:g}")
        return float(value)

    return convert


def _integer(least: int) -> Convert:
    def convert(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError(f"an integer of at least {least}")
        return value

    return convert


def _one_of(*names: str) -> Convert:
    def convert(value: Any) -> str:
        if value not in names:
            raise ValueError(f"one of {', '.join(map(repr, names))}")
        return str(value)

    return convert


def _table(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError("a table, such as { reasoning_effort = 'low' }")  # noqa: TRY004
    return dict(value)


def _prices(value: Any) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError("two numbers, USD per million input and output tokens, such as [0.15, 0.60]")
    price = _number(0, or_equal=True)
    return price(value[0]), price(value[1])


def _phrases(value: Any) -> tuple[str, ...]:
    phrases = [value] if isinstance(value, str) else value
    if not isinstance(phrases, list) or not phrases:
        raise ValueError("a text or a list of texts")
    return tuple(map(_text, phrases))


def _variable(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise ValueError("the name of an environment variable, such as OPENAI_API_KEY, not the key itself")
    return value


def _headers(value: Any) -> dict[str, Any]:
    headers = _table(value)
    for name, content in headers.items():
        if isinstance(content, Mapping) and content.keys() == {"env"}:
            _variable(content["env"])
        elif not isinstance(content, str):
            raise ValueError(f"a text or {{ env = 'VARIABLE' }} for each header, which {name!r} does not have")
    return headers


_CONNECTION: Final[dict[str, Convert]] = {
    "model": _text,
    "extra_body": _table,
    "headers": _headers,
    "usd_per_million_tokens": _prices,
    "timeout_s": _number(0),
    "max_retries": _integer(0),
    "max_wait_s": _number(0, or_equal=True),
    "backoff_s": _number(0, or_equal=True),
    "max_concurrent_requests": _integer(1),
    "requests_per_minute": _number(0),
    "tokens_per_minute": _number(0),
    "affinity_header": _text,
}
"""Keys that all roles have, and that `OpenAICompatibleModel` takes."""
_OF_ROLE: Final[dict[Role, dict[str, Convert]]] = {
    "judge": {
        "score_mode": _one_of("single", "expected", "sampled", "reasoned"),
        "draws": _integer(2),
        "max_tokens": _integer(1),
    },
    "reader": {
        "prompt": lambda value: Path(_text(value)),
        "abstention": _phrases,
        "estimator": _one_of("auto", "exact", "first_token", "monte_carlo"),
        "max_draws": _integer(1),
        "max_tokens": _integer(1),
    },
    "embedder": {
        "batch_size": _integer(1),
        "device": _text,
    },
}
"""Keys of one role, which `judge_from`, `ChatReader` or `embedder_from` takes."""
_TABLE_ONLY: Final = frozenset({"client", "api_key", "extra_body", "headers"})
"""Arguments that decide what a model replies or whether it replies, and that are not options of commands."""
_WITHOUT_EFFECT: Final = frozenset({"batch_size", "device"})
"""Keys of a role that do not change scores, and that are not options of commands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointOptions:
    """Options of the judge, of the reader or of the embedder."""

    names: OptionNames
    url: str | None = None
    """A form of `judge_from`. None uses the environment."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the API key."""
    connection: ConnectionOptions = field(default_factory=ConnectionOptions)
    """Arguments of the model."""
    own: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the judge (score mode, draws), the reader (prompt, abstention) or the embedder (batch size)."""

    @classmethod
    def from_table(cls, role: Role, table: Mapping[str, Any], *, source: str, names: OptionNames) -> Self:
        """Read a table of a configuration file.

        Args:
            role: The role.
            table: The table.
            source: Name of the file, for messages.
            names: Names of options in messages.

        Raises:
            ConfigurationError: If a key is unknown or a value is invalid.
        """
        converts = {"url": _urls, "api_key_env": _variable, **_CONNECTION, **_OF_ROLE[role]}
        values: dict[str, Any] = {}
        for name, value in table.items():
            key = name.replace("-", "_")
            if key == "api_key":
                raise ConfigurationError(
                    f"{source!r}: [{role}] sets {name!r}. A key does not belong into a file. Set `api_key_env` to the name "
                    "of the environment variable that holds it"
                )
            if key not in converts:
                close = difflib.get_close_matches(key, converts, n=1)
                raise ConfigurationError(
                    f"{source!r}: [{role}] sets {name!r}, which is not a key of this table. "
                    + (f"Did you mean {close[0]!r}? " if close else "")
                    + f"Keys: {', '.join(converts)}"
                )
            try:
                values[key] = converts[key](value)
            except ValueError as error:
                shown = "" if key in ("api_key_env", "headers") else f", got {value!r}"
                raise ConfigurationError(f"{source!r}: `{name}` of [{role}] must be {error}{shown}") from None
        return cls(
            names=names,
            url=values.pop("url", None),
            api_key_env=values.pop("api_key_env", None),
            connection=cast("ConnectionOptions", {key: values.pop(key) for key in _CONNECTION if key in values}),
            own=values,
        )

    def override(
        self, *, url: str | None, model: str | None, api_key_env: str | None, limits: ConnectionOptions, **own: Any
    ) -> Self:
        """Return these options with those of the command line, of which None and an empty list are not given.

        If `url` differs from the table's, the table describes another endpoint: its key must not be sent to this one, and
        the whole table is ignored.
        """
        base = replace(self, url=None, api_key_env=None, connection=ConnectionOptions(), own={})
        if url is None or self.url in (None, url):
            base = self
        connection: ConnectionOptions = {**base.connection, **limits}
        if model is not None:
            connection["model"] = model
        return replace(
            base,
            url=url or base.url,
            api_key_env=api_key_env or base.api_key_env,
            connection=connection,
            own={**base.own, **{key: value for key, value in own.items() if value not in (None, [])}},
        )

    def split(self, n: int) -> tuple[Self, ...]:
        """Divide the limits among several processes that call the same endpoint.

        Args:
            n: Number of processes.

        Raises:
            ConfigurationError: If fewer requests may be in flight than there are processes, or the model runs inside of
                a process.
        """
        if self.url is not None and self.url.strip().startswith("vllm:"):
            raise ConfigurationError(
                f"{self.names.value('url', self.url)} runs inside of one process. To score with {n} processes, start a server "
                f"with this model, and set {self.names.option('url')} to its URL"
            )
        limit = self.connection.get("max_concurrent_requests") or DEFAULT_CONCURRENT_REQUESTS
        if limit < n:
            raise ConfigurationError(
                f"{self.names.value('max_concurrent_requests', limit)} cannot be divided among {n} processes, because each "
                "process needs at least one request. Set a higher limit, or fewer processes"
            )
        parts: list[Self] = []
        for number in range(n):
            connection = self.connection.copy()
            connection["max_concurrent_requests"] = limit // n + (number < limit % n)
            if (requests := connection.get("requests_per_minute")) is not None:
                connection["requests_per_minute"] = requests / n
            if (tokens := connection.get("tokens_per_minute")) is not None:
                connection["tokens_per_minute"] = tokens / n
            parts.append(replace(self, connection=connection))
        return tuple(parts)

    def build_judge(self) -> Judge:
        """Create the judge.

        Raises:
            ConfigurationError: If a value is invalid, or the variable of the key is not set.
        """
        return judge_from(self.url, connection=self.resolve(), **self.own)

    def build_reader(self, judge: Judge | None, of_judge: EndpointOptions) -> Reader | None:
        """Create the reader.

        A model without a URL is another model at the judge's endpoint, with the judge's key and headers.

        Args:
            judge: The judge, whose model is the default reader. None uses the judge of the environment.
            of_judge: Options of the judge.

        Returns:
            The reader, or None if neither an option nor the environment names one.

        Raises:
            ConfigurationError: If a value is invalid, a file cannot be read, or the reader does not have a model.
        """
        options = self
        if not (is_named := bool(self.url or os.environ.get("RAGSTONE_READER"))):
            if model := self.connection.get("model"):
                options, is_named = self._at(of_judge, model), True
            elif (key := self._endpoint_key()) is not None:
                raise ConfigurationError(
                    f"{self.names.option(key)} is for an endpoint of the reader. Name it with {self.names.option('url')} "
                    f"or {self.names.option('model')}"
                )
        if not is_named and not self.own:
            return None
        own = dict(self.own)
        if isinstance(prompt := own.get("prompt"), Path):
            own["prompt"] = _read_prompt(prompt, self.names)
        return reader_from(options.url, judge=judge_from(judge), connection=options.resolve(), **own)

    def build_embedder(self) -> Embedder | None:
        """Create the embedder.

        Returns:
            The embedder, or None if neither an option nor the environment names one.

        Raises:
            ConfigurationError: If a value is invalid, or options of an embedder are given without naming one.
        """
        if not (self.url or os.environ.get("RAGSTONE_EMBEDDER")):
            if (key := self._given_key()) is not None:
                raise ConfigurationError(
                    f"{self.names.option(key)} is an option of an embedder, and none is named. Name it with "
                    f"{self.names.option('url')}"
                )
            return None
        return embedder_from(self.url, connection=self.resolve(), **self.own)

    def _given_key(self) -> str | None:
        """Return an option of the embedder that is given, or None. Limits apply to all models, so they do not count."""
        own = next(iter(self.own), None)
        return own or self._endpoint_key() or ("model" if self.connection.get("model") else None)

    def _endpoint_key(self) -> str | None:
        """Return an option that is given and describes an endpoint, or None."""
        if self.api_key_env is not None:
            return "api_key_env"
        return next((key for key in ("extra_body", "headers") if self.connection.get(key)), None)

    def _at(self, other: EndpointOptions, model: str) -> EndpointOptions:
        """Return these options for another model at the endpoint of the other role."""
        url = other.url or os.environ.get("RAGSTONE_JUDGE") or ""
        connection = dict(self.connection)
        if url.strip().startswith("openai:"):
            url = f"openai:{model}"
            del connection["model"]
        elif not url.strip().startswith(("http://", "https://")):
            raise ConfigurationError(
                f"{self.names.value('model', model)} is another model at the judge's endpoint, and "
                f"{f'the judge is {url!r}' if url else 'no judge is named'}. Name the reader's endpoint with "
                f"{self.names.option('url')}"
            )
        if headers := other.connection.get("headers"):
            connection.setdefault("headers", headers)
        return replace(
            self,
            url=url,
            api_key_env=self.api_key_env or other.api_key_env,
            connection=cast("ConnectionOptions", connection),
        )

    def resolve(self) -> ConnectionOptions:
        """Return the arguments of the model, with the secrets that environment variables hold.

        Raises:
            ConfigurationError: If a variable is not set.
        """
        connection: ConnectionOptions = {**self.connection, "option_names": self.names}
        if self.api_key_env is not None:
            connection["api_key"] = self._secret("api_key_env", self.api_key_env)
        if headers := connection.get("headers"):
            connection["headers"] = {
                name: self._secret("headers", value["env"]) if isinstance(value, Mapping) else value
                for name, value in headers.items()
            }
        return connection

    def command_options(self) -> dict[str, Any]:
        """Return the options of commands that name this model, such as `{"judge": URL, "judge-model": MODEL}`.

        Empty if neither these options nor the environment name one. The model is None if commands cannot name it, or
        its name may contain a secret.
        """
        role = self.names.role
        url = self.url or os.environ.get(f"RAGSTONE_{role.upper()}") or None
        model, key = self.connection.get("model"), self.api_key_env
        if (url or "").strip().startswith("openai:") and (base_url := os.environ.get("OPENAI_BASE_URL")):
            # In another environment, the name may be a model at another endpoint.
            url, model = base_url, str(url).strip().removeprefix("openai:")
            key = key or ("OPENAI_API_KEY" if os.environ.get("OPENAI_API_KEY") else None)
        if (
            (url is not None and ("@" in url or (url.strip().startswith("http") and "?" in url)))
            or any(self.connection.get(key) for key in _TABLE_ONLY)
            or (role == "reader" and ("max_tokens" in self.own or not isinstance(self.own.get("prompt", Path()), Path)))
        ):
            return {role: None}
        options: dict[str, Any] = {} if url is None else {role: url}
        for name, value in {"model": model, "api_key_env": key, **self.own}.items():
            if value is not None and name not in _WITHOUT_EFFECT:
                options[f"{role}-{name.replace('_', '-')}"] = (
                    str(value.absolute()) if isinstance(value, Path) else value
                )
        return options

    def _secret(self, key: str, variable: str) -> str:
        """Return the value of an environment variable. A message does not show a text that may be a key."""
        option = self.names.option(key)
        try:
            _variable(variable)
        except ValueError as error:
            raise ConfigurationError(f"{option} must be {error}") from None
        if value := os.environ.get(variable):
            return value
        shown = f" {variable}" if re.fullmatch(r"[A-Z][A-Z0-9_]*", variable) else ""
        raise ConfigurationError(
            f"{option} names an environment variable{shown} that is not set or empty. Set it, or name another variable"
        )


JudgeSpec = str | Mapping[str, Any] | EndpointOptions | Judge | None
"""A judge: a form of `judge_from`, a table with the keys of `[judge]`, options, or an object."""
ReaderSpec = str | Mapping[str, Any] | EndpointOptions | Reader | None
"""The same for a reader."""
EmbedderSpec = str | Mapping[str, Any] | EndpointOptions | Embedder | None
"""The same for an embedder."""


def read_endpoint(
    role: Role, spec: str | Mapping[str, Any] | EndpointOptions | None, *, source: str
) -> EndpointOptions:
    """Return the options of a role that are given as a name (a form of `judge_from`), as a table or as options.

    Args:
        role: The role.
        spec: The name, the table with the keys of the configuration file, or the options. None uses the environment.
        source: Where the table is, for messages.

    Raises:
        ConfigurationError: If a table has an unknown key or an invalid value.
    """
    if isinstance(spec, EndpointOptions):
        return spec
    if isinstance(spec, Mapping):
        return EndpointOptions.from_table(role, spec, source=source, names=OptionNames(role, "file"))
    return EndpointOptions(names=OptionNames(role), url=spec)


def _read_prompt(file: Path, names: OptionNames) -> Any:
    try:
        text = file.read_text(encoding="utf-8")
        return json.loads(text) if file.suffix == ".json" else text
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{names.value('prompt', str(file))} cannot be read: {error}") from None
