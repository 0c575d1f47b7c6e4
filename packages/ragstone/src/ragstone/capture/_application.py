"""The application that is captured: its name, release and environment, and tags of all its requests."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import unquote

from ragstone.errors import ConfigurationError
from ragstone.requests import TraceDraft, read_resource

_MAX_CHARS: Final = 200
_FIELDS: Final = ("app", "release", "environment")


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """What all requests of a process have in common.

    A stated value applies to every request. A value of OpenTelemetry's variables applies to a request that does not have its
    own, such as that of the tracer provider's resource.
    """

    app: str | None = None
    release: str | None = None
    environment: str | None = None
    tags: tuple[str, ...] = ()
    resource: tuple[tuple[str, str], ...] = ()
    """App, release and environment of OpenTelemetry's variables, as far as they state them."""

    @classmethod
    def from_settings(
        cls,
        *,
        app: str | None = None,
        release: str | None = None,
        environment: str | None = None,
        tags: Sequence[str] | None = None,
    ) -> Self:
        """Check the settings, and read those that are None from the process's environment.

        The variables are `RAGSTONE_APP`, `RAGSTONE_RELEASE`, `RAGSTONE_ENVIRONMENT` and `RAGSTONE_TAGS` (separated by commas),
        then `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`.

        Raises:
            ConfigurationError: If a value is not a text of 1 to 200 characters, or `tags` is not a list of such texts.
        """
        stated = {"app": app, "release": release, "environment": environment}
        for name in _FIELDS:
            if stated[name] is None:
                stated[name] = os.environ.get(f"RAGSTONE_{name.upper()}") or None
            if stated[name] is not None:
                _check(name, stated[name])
        if tags is None:
            tags = [tag.strip() for tag in os.environ.get("RAGSTONE_TAGS", "").split(",") if tag.strip()]
        if isinstance(tags, str) or not isinstance(tags, Sequence):
            raise ConfigurationError(f'tags must be a list of texts, such as ["beta"], got {tags!r}')
        for tag in tags:
            _check("a tag", tag)
        return cls(**stated, tags=tuple(dict.fromkeys(tags)), resource=tuple(_resource().items()))

    def label(self, draft: TraceDraft) -> dict[str, str | None]:
        """Return app, release and environment of a request."""
        resource = dict(self.resource)
        return {name: getattr(self, name) or _text(getattr(draft, name)) or resource.get(name) for name in _FIELDS}


def _resource() -> dict[str, str]:
    """Return what the variables of OpenTelemetry's SDK state about the application."""
    attributes: dict[str, str] = {}
    for item in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","):
        key, equals, value = item.partition("=")
        if equals:
            attributes[key.strip()] = unquote(value.strip())
    if name := os.environ.get("OTEL_SERVICE_NAME"):
        attributes["service.name"] = name
    return {field: value[:_MAX_CHARS] for field, value in read_resource(attributes).items()}


def _check(name: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip() or len(value) > _MAX_CHARS:
        raise ConfigurationError(
            f"{name} must be a text of 1 to {_MAX_CHARS} characters, such as 'qa-bot', got {value!r}"[:400]
        )


def _text(value: object) -> str | None:
    return value[:_MAX_CHARS] if isinstance(value, str) and value else None
