"""What an integration hands over: plain values only, nothing of the application is kept alive."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from ragstone._util.quantities import text_of
from ragstone.requests._shape import finite_number, flat_metadata
from ragstone.schema import Evidence, TraceStatus, Turn, field_names

_ID_NAMES: Final = field_names("id", "output")
_SCORE_NAMES: Final = field_names("score", "output")


@dataclass(slots=True, kw_only=True)
class PassageDraft:
    """One retrieved chunk, as found. Becomes `ragstone.schema.Passage`."""

    text: str
    id: str | None = None
    score: float | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def copied(
        cls,
        text: str,
        metadata: Mapping[str, Any],
        *,
        id: object = None,  # noqa: A002 - the name of the field
        score: object = None,
        in_metadata: bool = False,
    ) -> Self:
        """Return a passage with a copy of the flat values of metadata. NumPy's numbers become Python's.

        Args:
            text: Its text.
            metadata: The metadata of the application's document.
            id: Its id. None if it does not have one.
            score: Its score. Anything but a finite number is left out.
            in_metadata: Whether a missing id or score may be among the metadata.
        """
        flat = flat_metadata(metadata)
        number = finite_number(score)
        if in_metadata and id is None:
            id = next((flat[name] for name in _ID_NAMES if flat.get(name) is not None), None)  # noqa: A001
        if in_metadata and score is None:
            numbers = (finite_number(flat.get(name)) for name in _SCORE_NAMES)
            number = next((found for found in numbers if found is not None), None)
        return cls(text=text, id=None if id is None else text_of(id), score=number, metadata=flat)

    def has(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether these are the metadata that were copied."""
        try:
            return self.metadata == metadata or self.metadata == flat_metadata(metadata)
        except ValueError:  # an array does not say whether it is equal
            return False


@dataclass(slots=True, kw_only=True)
class RetrievalDraft:
    """One retriever call, as found. Becomes `ragstone.schema.Retrieval`."""

    query: str | None = None
    passages: list[PassageDraft] = field(default_factory=list)
    name: str | None = None
    stages: list[RetrievalDraft] = field(default_factory=list)
    """The lists of retrievers inside this one, at most 8. They never are contexts."""


@dataclass(slots=True, kw_only=True)
class TraceDraft:
    """One finished request, as found: not yet sampled, redacted or validated. Becomes `ragstone.schema.Trace`.

    Field names and meanings are those of `Trace`. Building one costs microseconds. Everything that is slow
    (redaction, truncation, validation, serialization) happens later on the writer's thread.
    """

    trace_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    name: str | None = None
    source: str = "record"
    run_id: str | None = None
    parent_run_id: str | None = None
    otel_trace_id: str | None = None
    otel_span_id: str | None = None
    otel_sampled: bool | None = None
    session_id: str | None = None
    user_id: str | None = None
    app: str | None = None
    release: str | None = None
    environment: str | None = None
    query: str | None = None
    standalone_query: str | None = None
    history: list[Turn] = field(default_factory=list)
    retrievals: list[RetrievalDraft] = field(default_factory=list)
    contexts: list[PassageDraft] | None = None
    response: str | None = None
    reference: list[str] = field(default_factory=list)
    status: TraceStatus = "ok"
    error: str | None = None
    inner_errors: list[str] = field(default_factory=list)
    started_at: float = field(default_factory=time.time)
    ended_at: float | None = None
    first_token_s: float | None = None
    model: str | None = None
    response_id: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    tags: list[str] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    evidence: Evidence | None = None

    @property
    def stored_contexts(self) -> list[PassageDraft] | None:
        """The contexts as a trace has them: None if they are what all retrievals found, which is stored once."""
        found = [passage for search in self.retrievals for passage in search.passages]
        is_found = self.evidence is not None and self.evidence.contexts != "unknown" and self.contexts == found
        return None if self.retrievals and is_found else self.contexts

    def identify(self, stated: Mapping[Any, Any], *, without: str | tuple[str, ...] = ()) -> None:
        """Sort what the application states about a request into user, session, reference, tags and metadata.

        Args:
            stated: Values by name. Of those without a field, the flat ones are kept as metadata.
            without: Beginnings of names that the framework adds.
        """
        rest = {str(name): value for name, value in stated.items() if not str(name).startswith(without)}
        user, session, thread = (rest.pop(name, None) for name in ("user_id", "session_id", "thread_id"))
        self.user_id = None if user is None else text_of(user)
        self.session_id = next((text_of(id_) for id_ in (session, thread) if id_ is not None and id_ != ""), None)
        self.reference, self.tags = _texts(rest.pop("reference", None)), _texts(rest.pop("tags", None))
        self.metadata = flat_metadata(rest)


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [text for text in value if isinstance(text, str)] if isinstance(value, Sequence) else []
