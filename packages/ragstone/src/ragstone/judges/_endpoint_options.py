"""Options of the endpoints of judge, reader and embedder: the TOML tables of these names, and command-line options."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self, cast, get_args

from typing_extensions import TypeIs

from ragstone import settings
from ragstone.errors import ConfigurationError
from ragstone.judges import _factory
from ragstone.judges._limits.gate import DEFAULT_CONCURRENT_REQUESTS
from ragstone.judges._limits.spend import Budget
from ragstone.judges._option_names import OptionNames, Role
from ragstone.judges._protocol import Embedder, Judge, Reader
from ragstone.judges.openai_model import ConnectionOptions

ROLES: Final[tuple[Role, ...]] = get_args(Role)

_NOT_IN_PLANS: Final = frozenset({"client", "api_key", "extra_body", "headers"})
"""Arguments that decide what a model replies or whether it replies, and that may contain secrets."""
_WITHOUT_EFFECT: Final = frozenset({"batch_size", "device"})
"""Keys of a role that do not change scores."""


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
    def from_settings(
        cls,
        settings: settings.Endpoint,
        names: OptionNames,
        *,
        budget: Budget | None = None,
        cache: str | Path | None = None,
    ) -> Self:
        """Divide the settings of a role into those of the endpoint and those of the role."""
        values = settings.stated
        connection: Any = {key: values.pop(key) for key in ConnectionOptions.__annotations__ if key in values}
        if "api_key" in connection:
            connection["api_key"] = connection["api_key"].get_secret_value()
        shared = {"budget": budget, "cache": cache}
        connection |= {key: value for key, value in shared.items() if value is not None}
        url, api_key_env = values.pop("url", None), values.pop("api_key_env", None)
        return cls(names=names, url=url, api_key_env=api_key_env, connection=connection, own=values)

    def override(
        self, *, url: str | None, model: str | None, api_key_env: str | None, limits: ConnectionOptions
    ) -> Self:
        """Return these options with those of the command line, of which None is not given.

        If `url` differs from the table's, the table describes another endpoint: its key must not be sent to this one,
        and the whole table is ignored.
        """
        base = replace(self, url=None, api_key_env=None, connection=ConnectionOptions(), own={})
        if url is None or self.url in (None, url.rstrip("/")):
            base = self
        connection: ConnectionOptions = {**base.connection, **limits}
        if model is not None:
            connection["model"] = model
        return replace(base, url=url or base.url, api_key_env=api_key_env or base.api_key_env, connection=connection)

    def split(self, n: int) -> tuple[Self, ...]:
        """Divide the limits among several processes that call the same endpoint."""
        if self.url is not None and self.url.strip().startswith("vllm:"):
            raise ConfigurationError(
                f"{self.names.value('url', self.url)} runs inside of one process. To score with {n} processes, start a "
                f"server with this model, and set {self.names.option('url')} to its URL"
            )
        limit = self.connection.get("max_concurrent_requests") or DEFAULT_CONCURRENT_REQUESTS
        if limit < n:
            raise ConfigurationError(
                f"{self.names.value('max_concurrent_requests', limit)} cannot be divided among {n} processes, because "
                "each process needs at least one request. Set a higher limit, or fewer processes"
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
        """Create the judge."""
        return _factory.judge_from(self.url, connection=self.resolve(), **self.own)

    def build_reader(self, judge: Judge | None, of_judge: EndpointOptions) -> Reader | None:
        """Create the reader.

        A model without a URL is another model at the judge's endpoint, with the judge's key and headers.
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
        return _factory.reader_from(options.url, judge=_factory.judge_from(judge), connection=options.resolve(), **own)

    def build_embedder(self) -> Embedder | None:
        """Create the embedder."""
        if not (self.url or os.environ.get("RAGSTONE_EMBEDDER")):
            if (key := self._given_key()) is not None:
                raise ConfigurationError(
                    f"{self.names.option(key)} is an option of an embedder, and none is named. Name it with "
                    f"{self.names.option('url')}"
                )
            return None
        return _factory.embedder_from(self.url, connection=self.resolve(), **self.own)

    def _given_key(self) -> str | None:
        """Return an option of the embedder that is given, or None. Limits apply to all models, so they do not count."""
        own = next(iter(self.own), None)
        return own or self._endpoint_key() or ("model" if self.connection.get("model") else None)

    def _endpoint_key(self) -> str | None:
        """Return an option that is given and describes an endpoint, or None."""
        if self.api_key_env is not None:
            return "api_key_env"
        return next((key for key in ("api_key", "extra_body", "headers") if self.connection.get(key)), None)

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
        for key in ("headers", "api_key"):
            if (value := other.connection.get(key)) and not (key == "api_key" and self.api_key_env):
                connection.setdefault(key, value)
        variable = self.api_key_env or other.api_key_env
        return replace(self, url=url, api_key_env=variable, connection=cast("ConnectionOptions", connection))

    def resolve(self) -> ConnectionOptions:
        """Return the arguments of the model, with the secrets that environment variables hold."""
        connection: ConnectionOptions = {**self.connection, "option_names": self.names}
        if self.api_key_env is not None:
            connection["api_key"] = self._secret("api_key_env", self.api_key_env)
        if headers := connection.get("headers"):
            connection["headers"] = {
                name: self._secret("headers", value["env"]) if isinstance(value, Mapping) else value
                for name, value in headers.items()
            }
        return connection

    def plan_settings(self) -> dict[str, Any]:
        """Return the settings of this model in the plan of a store, such as `{"judge.url": URL, "judge.model": MODEL}`.

        Empty if neither these options nor the environment name one. A URL that begins with `secret:` has lost its
        secret parts, and names the keys that a plan does not keep.
        """
        role = self.names.role
        url = self.url or os.environ.get(f"RAGSTONE_{role.upper()}") or ""
        model, key = self.connection.get("model"), self.api_key_env
        if url.strip().startswith("openai:") and (base_url := os.environ.get("OPENAI_BASE_URL")):
            # In another environment, the name may be a model at another endpoint.
            url, model = base_url, url.strip().removeprefix("openai:")
            key = key or ("OPENAI_API_KEY" if os.environ.get("OPENAI_API_KEY") else None)
        secret = [name for name in sorted(_NOT_IN_PLANS) if self.connection.get(name)]
        if "@" in url or (url.strip().startswith("http") and "?" in url):
            secret.insert(0, "url")
        if secret:
            url = f"secret:{settings.public_name(url)} ({', '.join(secret)})"
        values: dict[str, Any] = {f"{role}.url": url} if url else {}
        for name, value in {"model": model, "api_key_env": key, **self.own}.items():
            if isinstance(value, Path):
                values[f"{role}.{name}"] = str(value.absolute())
            elif value is not None and name not in _WITHOUT_EFFECT:
                values[f"{role}.{name}"] = list(value) if isinstance(value, tuple) else value
        return values

    def _secret(self, key: str, variable: str) -> str:
        """Return the value of an environment variable. A message does not show a text that may be a key."""
        option = self.names.option(key)
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

    The environment completes a name and a table that describe the same endpoint.

    Args:
        role: The role.
        spec: The name, the table with the keys of the configuration file, or the options. None uses the environment.
        source: Where the table is, for messages.
    """
    if isinstance(spec, EndpointOptions):
        return spec
    is_table = isinstance(spec, Mapping)
    values = spec if isinstance(spec, Mapping) else {} if spec is None else {"url": spec}
    stated = {f"{role}.{key}": value for key, value in values.items()}
    read = settings.resolve_arguments(stated, dict.fromkeys(stated, source))
    options = EndpointOptions.from_settings(getattr(read, role), OptionNames(role, "file" if is_table else "python"))
    # A builder reads the variable again, and names it in messages.
    return replace(options, url=None) if read.sources.get(f"{role}.url") == "environment" else options


def with_cache(role: Role, spec: Any, cache: str | Path | None) -> Any:
    """Return a model with a directory for its cache of replies, or an object or None unchanged."""
    spec = spec or os.environ.get(f"RAGSTONE_{role.upper()}") or None
    if cache is None or spec is None or not _is_described(spec):
        return spec
    options = read_endpoint(role, spec, source=f"{role}=...")
    return replace(options, connection={**options.connection, "cache": cache})


def judge_from(spec: JudgeSpec = None, **options: Any) -> Judge:
    """Create a judge from its name, a table, options or an object. The environment completes a name and a table."""
    if not options and _is_described(spec):
        return read_endpoint("judge", spec, source="judge=...").build_judge()
    return _factory.judge_from(cast("str | Judge | None", spec), **options)


def reader_from(spec: ReaderSpec, *, judge: Judge, of_judge: JudgeSpec = None, **options: Any) -> Reader:
    """Create a reader, as `judge_from` creates a judge.

    Args:
        spec: The reader. None uses the environment, or else the model of the judge.
        judge: The judge.
        of_judge: What describes the judge, whose endpoint is that of a reader without a URL.
        options: Arguments of `ChatReader`, or `connection`, for a name without the environment.
    """
    if not options and _is_described(spec):
        endpoint = read_endpoint("judge", of_judge if _is_described(of_judge) else None, source="judge=...")
        spec = read_endpoint("reader", spec, source="reader=...").build_reader(judge, endpoint)
    return _factory.reader_from(cast("str | Reader | None", spec), judge=judge, **options)


def embedder_from(spec: EmbedderSpec = None, **options: Any) -> Embedder:
    """Create an embedder, as `judge_from` creates a judge."""
    if not options and _is_described(spec):
        spec = read_endpoint("embedder", spec, source="embedder=...").build_embedder()
    return _factory.embedder_from(cast("str | Embedder | None", spec), **options)


def _is_described(spec: object) -> TypeIs[str | Mapping[str, Any] | EndpointOptions | None]:
    return spec is None or isinstance(spec, str | Mapping | EndpointOptions)


def _read_prompt(file: Path, names: OptionNames) -> Any:
    try:
        text = file.read_text(encoding="utf-8")
        return json.loads(text) if file.suffix == ".json" else text
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{names.value('prompt', str(file))} cannot be read: {error}") from None
