"""Requests that no callback could see, stated by the application itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document

from langchain_ragstone._otel import link_current_span
from langchain_ragstone._statements import stated_contexts
from ragstone.capture import Guard, capture_suppressed, make_draft
from ragstone.requests import PassageDraft, Recorder


class ExplicitRecording:
    """The handler's method for code without callbacks."""

    _recorder: Recorder
    _guard: Guard

    def record(
        self,
        *,
        query: str | None = None,
        contexts: Iterable[Document | str | Mapping[str, Any] | PassageDraft] | None = None,
        response: str | None = None,
        reference: str | Sequence[str] = (),
        name: str | None = None,
        session_id: str | None = None,
        user_id: str | None = None,
        model: str | None = None,
        started_at: float | None = None,
        tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
    ) -> bool:
        """Record a request that is over and ran without callbacks.

        The arguments are those of `ragstone.capture.make_draft`; contexts may be LangChain's documents too. Like the
        hooks this never raises: what cannot be recorded is counted in `errors` and logged once.

        Returns:
            Whether the recorder took it.
        """
        try:
            if capture_suppressed():
                return False
            draft = make_draft(
                query=query,
                contexts=None if contexts is None else stated_contexts(contexts),
                response=response,
                reference=reference,
                name=name,
                session_id=session_id,
                user_id=user_id,
                model=model,
                started_at=started_at,
                tags=tags,
                metadata=metadata,
            )
            link_current_span(draft)
            return self._recorder.record(draft)
        except Exception as error:  # noqa: BLE001 - the request must continue after any error
            self._guard.count("record", error)
            return False
