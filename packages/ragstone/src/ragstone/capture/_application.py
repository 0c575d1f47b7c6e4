"""The application that is captured: its name, release and environment, and tags of all its requests."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import unquote

from ragstone.requests import TraceDraft, read_resource

_MAX_CHARS: Final = 200
_FIELDS: Final = ("app", "release", "environment")


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """What all requests of a process have in common.

    A stated value applies to every request. A value of OpenTelemetry's variables applies to a request that does not
    have its own, such as that of the tracer provider's resource.
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
        tags: Sequence[str] = (),
    ) -> Self:
        """Return what the settings and OpenTelemetry's `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` state."""
        resource = tuple(_resource().items())
        return cls(
            app=app, release=release, environment=environment, tags=tuple(dict.fromkeys(tags)), resource=resource
        )

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


def _text(value: object) -> str | None:
    return value[:_MAX_CHARS] if isinstance(value, str) and value else None
