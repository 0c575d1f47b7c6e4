"""A request in flight that the application marks itself."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Final

from ragstone.requests._draft import TraceDraft
from ragstone.requests._recorder import Recorder
from ragstone.requests._size import PromptLimit
from ragstone.requests._step import Request, Statements, Step
from ragstone.schema import TraceStatus

_MAX_STEPS: Final = 10_000
"""Steps kept for one request. Later steps are counted and left out."""


class LiveRequest:
    """The steps of a request that the application marks with `Monitor.request`, while it runs.

    Any thread and any finalizer may call the methods.

    Args:
        recorder: Takes the request when it has ended.
        draft: Identity and start of the request.
        root: The step that stands for the whole request.
    """

    def __init__(self, recorder: Recorder, draft: TraceDraft, root: Step) -> None:
        self.recorder = recorder
        self.draft = draft
        self.root = root
        self.statements = Statements()
        self.unread: dict[str, None] = {}
        """Methods of the block that could not read their argument."""
        self.doubts: dict[str, None] = {}
        """Codes of what the application did wrong."""
        self.retriever_tools: dict[str, str | bool | None] = {}
        self.ended = False
        self.n_late = 0
        """Steps that came after the end of the request, or beyond the limit."""
        # Re-entrant: the garbage collector may end a stream while this thread holds the lock.
        self._lock = threading.RLock()
        self._steps: list[Step] = [root]
        self._limit = PromptLimit()
        self._numbers = itertools.count()

    def new_id(self) -> tuple[str, int]:
        """Return an id for another step."""
        return ("block", next(self._numbers))

    def add(self, *steps: Step) -> bool:
        """Add steps, in the order in which they began, and return False if the request has ended or has too many."""
        with self._lock:
            if self.ended or len(self._steps) + len(steps) > _MAX_STEPS:
                self.n_late += len(steps)
                return False
            self._steps.extend(steps)
            for step in steps:
                self._limit.add(step)
            return True

    def join(self, request: Request, *, parent: Step) -> bool:
        """Make a framework's request a part of this one, under the step `parent`, and only once if two handlers captured it."""
        known = {step.id for step in request.steps}
        if request.root is not None and any(step.id == request.root.id for step in self._steps):
            return True
        for step in request.steps:
            if step.parent not in known:
                step.parent = parent.id
        if not self.add(*request.steps):
            return False
        stated, draft, inner = self.statements, self.draft, request.draft
        self.retriever_tools.update(request.retriever_tools)
        if stated.contexts is None:
            stated.contexts = request.statements.contexts
        if stated.response is None:
            stated.response = request.statements.response
        draft.session_id = draft.session_id or inner.session_id
        draft.user_id = draft.user_id or inner.user_id
        draft.app = draft.app or inner.app
        draft.release = draft.release or inner.release
        draft.environment = draft.environment or inner.environment
        draft.reference = draft.reference or inner.reference
        draft.metadata = {**inner.metadata, **draft.metadata}
        draft.tags = [*draft.tags, *(tag for tag in inner.tags if tag not in draft.tags)]
        # A failure that the application survived: only an exception that leaves the block is the request's own.
        errors = [*draft.inner_errors, *inner.inner_errors, *([inner.error] if inner.error else [])]
        draft.inner_errors = list(dict.fromkeys(errors))
        return True

    def end(self, status: TraceStatus, error: str | None = None) -> Request | None:
        """End the request and return it, or None if it has ended before."""
        with self._lock:
            if self.ended:
                return None
            self.ended = True
        self.statements.unread = tuple(self.unread)
        self.statements.doubts = tuple(self.doubts)
        self.draft.status = status
        self.draft.error = self.root.error = error
        self.draft.ended_at = self.root.ended_at = time.time()
        return Request(
            draft=self.draft,
            steps=self._steps,
            root=self.root,
            statements=self.statements,
            retriever_tools=self.retriever_tools,
        )
