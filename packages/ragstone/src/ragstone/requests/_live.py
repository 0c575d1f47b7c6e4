"""A request in flight that the application marks itself, and its arguments. A wrong argument is left out."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from ragstone._util.guard import Guard
from ragstone.requests._conversation import turns_in
from ragstone.requests._draft import TraceDraft
from ragstone.requests._messages import read_prompt
from ragstone.requests._step import Request, Statements, Step
from ragstone.schema import TraceStatus, Turn

_MAX_TEXTS: Final = 1_000
"""Tags, or correct answers, that are read: an iterator of the application may never end."""


class RequestArguments:
    """What the application passed to `Monitor.request`: anything at all, which is read when the request begins."""

    def __init__(self, guard: Guard, **given: Any) -> None:
        self._guard = guard
        self.given = given

    @property
    def question(self) -> str | None:
        """The question, or None."""
        return text_or_none(self._guard, "request", "question", self.given["query"])

    def draft(self, started_at: float | None) -> TraceDraft:
        """Return the draft of the request, which began at `started_at` (Unix seconds), or now."""
        metadata = self.given["metadata"]
        if metadata is not None and not isinstance(metadata, Mapping):
            self._guard.note("request.metadata", f"metadata must be a mapping, got {type(metadata).__name__}")
            metadata = None
        return TraceDraft(
            source="request",
            name=text_or_none(self._guard, "request", "name", self.given["name"]),
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
        given = self.given["history"]
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
        given = self.given[name]
        return given if given is None or isinstance(given, str) else self._guard.attempt(str, given)

    def _texts(self, name: str) -> list[str]:
        given = self.given[name]
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


_MAX_STEPS: Final = 10_000
"""Steps kept for one request. Later steps are left out."""


class LiveRequest:
    """The steps of a request that the application marks with `Monitor.request`, while it runs.

    Any thread and any finalizer may call the methods. The draft has identity and start of the request, the recorder
    takes it when it has ended, and `root` is the step that stands for all of it.
    """

    def __init__(self, draft: TraceDraft, root: Step) -> None:
        self.draft = draft
        self.root = root
        self.statements = Statements()
        self._steps: list[Step] = [root]
        self._request = Request(draft=draft, steps=self._steps, root=root, statements=self.statements)
        self.unread: dict[str, None] = {}
        """Methods of the block that could not read their argument."""
        self.doubts: dict[str, None] = {}
        """Codes of what the application did wrong."""
        self.ended = False
        # Re-entrant: the garbage collector may end a stream while this thread holds the lock.
        self._lock = threading.RLock()
        self._numbers = itertools.count()

    def new_id(self) -> tuple[str, int]:
        """Return an id for another step."""
        return ("block", next(self._numbers))

    def add(self, step: Step) -> None:
        """Add a step after those that began before it, unless the request has ended or has too many."""
        with self._lock:
            if not self.ended and len(self._steps) < _MAX_STEPS:
                self._steps.append(step)
                self._request.count_texts(step)

    def join(self, request: Request, *, parent: Step) -> bool:
        """Make a framework's request a part of this one, under the step `parent` (see `Request.join`).

        Return False if this one has ended or would have too many steps.
        """
        with self._lock:
            n_before = len(self._steps)
            if self.ended or n_before + len(request.steps) > _MAX_STEPS:
                return False
            if self._request.join(request, parent=parent):
                for step in self._steps[n_before:]:
                    self._request.count_texts(step)
            return True

    def end(self, status: TraceStatus, error: str | None = None) -> Request | None:
        """End the request and return it, or None if it has ended before."""
        with self._lock:
            if self.ended:
                return None
            self.ended = True
        self.statements.unread = tuple(self.unread)
        self.statements.doubts = (*self.statements.doubts, *self.doubts)
        self.draft.status = status
        self.draft.error = self.root.error = error
        self.draft.ended_at = self.root.ended_at = time.time()
        return self._request
