"""The arguments of a request that the application marks itself. One that is wrong is left out, and the request continues."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from ragstone._util.guard import Guard
from ragstone.requests._draft import TraceDraft
from ragstone.requests._history import turns_in
from ragstone.requests._prompt import read_prompt
from ragstone.schema import Turn

_MAX_TEXTS: Final = 1_000
"""Tags, or correct answers, that are read: an iterator of the application may never end."""


class RequestArguments:
    """What the application passed to `Monitor.request`: anything at all, which is read when the request begins."""

    def __init__(self, guard: Guard, **given: Any) -> None:
        self._guard = guard
        self._given = given

    @property
    def question(self) -> str | None:
        """The question, or None."""
        return text_or_none(self._guard, "request", "question", self._given["query"])

    def draft(self, started_at: float | None) -> TraceDraft:
        """Return the draft of the request, which began at `started_at` (Unix seconds), or now."""
        metadata = self._given["metadata"]
        if metadata is not None and not isinstance(metadata, Mapping):
            self._guard.note("request.metadata", f"metadata must be a mapping, got {type(metadata).__name__}")
            metadata = None
        return TraceDraft(
            source="request",
            name=text_or_none(self._guard, "request", "name", self._given["name"]),
            session_id=self._id("session_id"),
            user_id=self._id("user_id"),
            query=self.question,
            reference=self._texts("reference"),
            started_at=started_at or time.time(),
            tags=self._texts("tags"),
            metadata=dict(metadata or {}),
        )

    def history(self) -> list[Turn] | None:
        """Return the earlier turns of the conversation. None if none were given."""
        given = self._given["history"]
        if given is None:
            return None
        turns = turns_in(read_prompt(given))
        if given and not turns:
            self._guard.note(
                "request.history",
                f"history must be a list of messages of the user and the assistant, got {type(given).__name__}",
            )
            return None
        return turns

    def _id(self, name: str) -> str | None:
        given = self._given[name]
        return given if given is None or isinstance(given, str) else self._guard.attempt(str, given)

    def _texts(self, name: str) -> list[str]:
        given = self._given[name]
        if given is None or isinstance(given, str):
            return [given] if given else []
        try:
            return list(islice(given, _MAX_TEXTS))
        except Exception:  # noqa: BLE001 - objects of the application may do anything
            self._guard.note(f"request.{name}", f"{name} must be a list of texts, got {type(given).__name__}")
            return []


def text_or_none(guard: Guard, method: str, name: str, value: Any) -> str | None:
    """Return an argument that is a text or None. Anything else is counted and left out."""
    if value is None or isinstance(value, str):
        return value
    guard.note(f"{method}.{name}", f"{method}(): {name} must be a text or None, got {type(value).__name__}")
    return None
