"""Conversion of a draft to the line that is stored: sampled, made plain, redacted, cut to limits, validated."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields
from datetime import date, datetime
from enum import Enum
from hashlib import blake2b
from numbers import Integral, Real
from pathlib import PurePath
from typing import Any, Final, Literal, TypeVar
from uuid import UUID

from ragstone._util.suppress import suppress_capture
from ragstone.capture._redaction import Redactor, redact_secrets
from ragstone.errors import ConfigurationError, RagstoneError
from ragstone.requests import PassageDraft, Request, RetrievalDraft, TraceDraft, assemble
from ragstone.schema import Captured, Passage, Retrieval, SampledOut, Trace, Usage, spool_entry_adapter

__all__ = [
    "CaptureLimits",
    "Converter",
    "Json",
    "RedactionError",
    "is_sampled",
    "to_finite_number",
    "to_json_value",
    "to_valid_text",
]


def is_sampled(trace_id: str, *, rate: float) -> bool:
    """Whether a trace is kept at a rate in [0, 1].

    What is kept at one rate is kept at every higher one.

    Example:
        >>> is_sampled("any", rate=1.0), is_sampled("any", rate=0.0)
        (True, False)
    """
    digest = blake2b(trace_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    # 53 bits, so that the quotient is exact and below 1.
    return (int.from_bytes(digest, "big") >> 11) / 2**53 < rate


Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

_MAX_DEPTH: Final = 12
"""Nesting of metadata; deeper, or going round in a circle, it is written as text."""
_MAX_REPR: Final = 500
"""Characters of the description of an object that is no JSON."""
_MAX_INT: Final = 2**63
"""Readers of JSON disagree about larger whole numbers."""


def to_valid_text(value: object) -> str:
    """A text as it can be written in UTF-8: lone surrogates become U+FFFD. Anything but text is described."""
    if not isinstance(value, str):
        return _described(value)
    text = str(value)  # subclasses carry things of the application
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # Through UTF-16, so that two halves that belong together become the character they stand for.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def to_finite_number(value: object) -> float | None:
    """A finite number, also one of numpy's; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        number = float(value)
    except (OverflowError, ValueError, TypeError):
        return None
    return number if math.isfinite(number) else None


def to_json_value(value: Any, *, depth: int = 0) -> Json:
    """A value as JSON: containers nest, numbers of any library are numbers, the rest is described in words.

    A number that JSON does not have (NaN, infinite) is None; a description has at most 500 characters.
    """
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return to_valid_text(value)
    if isinstance(value, Integral):
        number = int(value)
        return number if -_MAX_INT <= number < _MAX_INT else _described(number)
    if isinstance(value, Real):
        return to_finite_number(value)
    if depth < _MAX_DEPTH:
        # Copied in one step: the application may go on changing what it handed over.
        if isinstance(value, Mapping):
            return {_key(key): to_json_value(item, depth=depth + 1) for key, item in list(value.items())}
        if isinstance(value, list | tuple | AbstractSet):
            return [to_json_value(item, depth=depth + 1) for item in list(value)]
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, UUID | PurePath):
        return to_valid_text(str(value))
    return _described(value)


def _key(key: object) -> str:
    return to_valid_text(key if isinstance(key, str) else str(to_json_value(key, depth=_MAX_DEPTH)))


def _described(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - the application's code; what it raises says nothing about the trace
        return f"<{type(value).__name__}>"
    return to_valid_text(text if len(text) <= _MAX_REPR else text[:_MAX_REPR] + "…")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureLimits:
    """Upper bounds for one captured trace; what is cut is named in `Trace.truncated_fields`.

    Raises:
        ConfigurationError: A limit is not positive.
    """

    max_chars: int = 50_000
    """Characters of each text: query, response, passage, reference, error, tag, string in metadata."""
    max_passages: int = 200
    """Passages of each search, and of the contexts."""
    max_items: int = 200
    """Searches, references, inner errors and tags, each."""
    max_metadata_bytes: int = 16_384
    """Bytes of JSON of each metadata mapping: the trace's own, and each passage's."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value <= 0:
                raise ConfigurationError(f"{field.name} must be positive, got {value!r}; leave it out for the default")


_T = TypeVar("_T")

_MAX_STAGES: Final = 8
_MAX_LABEL: Final = 1_000
"""Characters of an id or a name."""


class RedactionError(RagstoneError):
    """The redactor raised or returned no text; the trace must not be written. Never leaves the writer's thread."""


class Converter:
    """Turns drafts into spool lines; holds the settings, no state."""

    def __init__(self, *, sample_rate: float, redact: Redactor | None, limits: CaptureLimits) -> None:
        self._sample_rate = sample_rate
        self._redact = redact
        self._limits = limits

    def is_sampled(self, draft: TraceDraft | Request) -> bool:
        """Whether a request is kept. Each trace is decided by its id alone, so asking twice gives the same answer."""
        about = draft.draft if isinstance(draft, Request) else draft
        return self._sample_rate >= 1 or is_sampled(_label(about.trace_id) or "", rate=self._sample_rate)

    def line(self, draft: TraceDraft | Request) -> tuple[Literal["captured", "sampled_out"], bytes]:
        """The spool line of a draft, and which kind it is.

        Raises:
            RedactionError: The redactor failed.
            ValueError: The draft is not a trace (pydantic's error included).
        """
        about = draft.draft if isinstance(draft, Request) else draft
        trace_id = _label(about.trace_id) or ""
        if not self.is_sampled(about):
            out = SampledOut(trace_id=trace_id, started_at=about.started_at, inclusion_probability=self._sample_rate)
            return "sampled_out", spool_entry_adapter.dump_json(out)
        if isinstance(draft, Request):
            draft = assemble(draft)
        trace = _Conversion(self._redact, self._limits).trace(draft, inclusion_probability=self._sample_rate)
        return "captured", spool_entry_adapter.dump_json(Captured(trace=trace))


class _Conversion:
    """One draft on its way; remembers what was cut."""

    def __init__(self, redact: Redactor | None, limits: CaptureLimits) -> None:
        self._redactor = redact
        self._limits = limits
        self._cut: dict[str, None] = {}  # an ordered set

    def trace(self, draft: TraceDraft, *, inclusion_probability: float) -> Trace:
        tokens = {
            name: int(count)
            for name in ("input_tokens", "output_tokens")
            if (count := to_finite_number(getattr(draft, name))) is not None and count >= 0
        }
        fields: dict[str, Any] = {
            "trace_id": _label(draft.trace_id),
            "name": _label(draft.name),
            "source": _label(draft.source),
            "run_id": _label(draft.run_id),
            "parent_run_id": _label(draft.parent_run_id),
            "otel_trace_id": _label(draft.otel_trace_id),
            "otel_span_id": _label(draft.otel_span_id),
            "otel_sampled": None if draft.otel_sampled is None else bool(draft.otel_sampled),
            "session_id": _label(draft.session_id),
            "user_id": _label(draft.user_id),
            "query": self._text(draft.query, "query"),
            "standalone_query": self._text(draft.standalone_query, "standalone_query"),
            "retrievals": tuple(
                self._retrieval(retrieval)
                for retrieval in self._first(draft.retrievals, self._limits.max_items, "retrievals")
            ),
            "contexts": None if draft.contexts is None else self._passages(draft.contexts, "contexts"),
            "response": self._text(draft.response, "response"),
            "reference": self._texts(draft.reference, "reference"),
            "status": draft.status,
            "error": self._text(draft.error, "error"),
            "inner_errors": self._texts(draft.inner_errors, "inner_errors"),
            "started_at": draft.started_at,
            "ended_at": to_finite_number(draft.ended_at),
            "first_token_s": to_finite_number(draft.first_token_s),
            "model": _label(draft.model),
            "usage": Usage(**tokens) if tokens else None,
            "tags": self._texts(draft.tags, "tags"),
            "metadata": self._metadata(draft.metadata, "metadata"),
            "evidence": draft.evidence,
        }
        return Trace(**fields, inclusion_probability=inclusion_probability, truncated_fields=tuple(self._cut))

    def _retrieval(self, retrieval: RetrievalDraft) -> Retrieval:
        return Retrieval(
            query=self._text(retrieval.query, "retrievals.query"),
            passages=self._passages(retrieval.passages, "retrievals.passages"),
            name=_label(retrieval.name),
            stages=tuple(self._retrieval(stage) for stage in self._first(retrieval.stages, _MAX_STAGES, "retrievals")),
        )

    def _passages(self, passages: Iterable[PassageDraft], field: str) -> tuple[Passage, ...]:
        return tuple(
            Passage(
                text=self._text(passage.text, f"{field}.text") or "",
                id=_label(passage.id),
                score=to_finite_number(passage.score),
                rank=rank,
                metadata=self._metadata(passage.metadata, f"{field}.metadata"),
            )
            for rank, passage in enumerate(self._first(passages, self._limits.max_passages, field))
        )

    def _texts(self, texts: Iterable[object], field: str) -> tuple[str, ...]:
        return tuple(self._text(text, field) or "" for text in self._first(texts, self._limits.max_items, field))

    def _first(self, items: Iterable[_T] | None, limit: int, field: str) -> list[_T]:
        found = list(items or ())
        if len(found) > limit:
            self._cut[field] = None
        return found[:limit]

    def _text(self, value: object, field: str) -> str | None:
        if value is None:
            return None
        # Redacted before it is cut, or half a secret would be stored that nothing recognises any more.
        text = self._redact(to_valid_text(value))
        if len(text) > self._limits.max_chars:
            self._cut[field] = None
            text = text[: self._limits.max_chars]
        return text

    def _metadata(self, metadata: Mapping[str, Any], field: str) -> dict[str, Any]:
        if not metadata:
            return {}
        plain = self._redacted(to_json_value(metadata), field)
        if not isinstance(plain, dict):
            plain = {"value": plain}
        if _json_bytes(plain) <= self._limits.max_metadata_bytes:
            return plain
        self._cut[field] = None
        kept: dict[str, Json] = {}
        room = self._limits.max_metadata_bytes - len("{}")
        for key, value in plain.items():
            room_after = room - (_json_bytes({key: value}) - len("{}") + len(", "))
            if room_after >= 0:
                kept[key], room = value, room_after
        return kept

    def _redacted(self, value: Json, field: str) -> Json:
        if isinstance(value, str):
            return self._text(value, field)
        if isinstance(value, list):
            return [self._redacted(item, field) for item in value]
        if isinstance(value, dict):
            redacted: dict[str, Json] = {}
            for place, (key, item) in enumerate(value.items()):
                name = self._text(key, field) or ""
                # Two addresses as keys become one name: both items stay.
                redacted[f"{name} #{place}" if name in redacted else name] = self._redacted(item, field)
            return redacted
        return value

    def _redact(self, text: str) -> str:
        redact = self._redactor
        if redact is None or not text:
            return text
        if redact is redact_secrets:
            return redact(text)
        try:
            # A redactor may ask a model: that is our doing, and capturing it would go on for ever.
            with suppress_capture():
                redacted: object = redact(text)
        except BaseException as error:  # noqa: BLE001 - not our code, and this is our thread: nobody waits for the rest
            raise RedactionError(f"the redactor raised {type(error).__name__}") from None
        if not isinstance(redacted, str):
            raise RedactionError(f"the redactor must return text, got {type(redacted).__name__}")
        return to_valid_text(redacted)


def _label(value: object) -> str | None:
    """An id or a name: not redacted, as it is how a request is found again."""
    if value is None:
        return None
    return to_valid_text(value if isinstance(value, str) else str(value))[:_MAX_LABEL]


def _json_bytes(value: Json) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())
