"""From a draft, as found, to the line that is stored: sampled, made plain, redacted, cut to limits, validated."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeVar

from ragstone._util.suppress import suppress_capture
from ragstone.capture._draft import PassageDraft, TraceDraft
from ragstone.capture._limits import CaptureLimits
from ragstone.capture._plain import Json, plain_number, plain_text, plain_value
from ragstone.capture._redaction import Redactor, redact_secrets
from ragstone.capture._sampling import is_sampled
from ragstone.errors import RagstoneError
from ragstone.schema import Captured, Passage, SampledOut, Search, Trace, Usage, spool_entry_adapter

__all__ = ["Converter", "RedactionError"]

_T = TypeVar("_T")

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

    def line(self, draft: TraceDraft) -> tuple[Literal["captured", "sampled_out"], bytes]:
        """The spool line of a draft, and which kind it is.

        Raises:
            RedactionError: The redactor failed.
            ValueError: The draft is not a trace (pydantic's error included).
        """
        trace_id = _label(draft.trace_id) or ""
        if not is_sampled(trace_id, rate=self._sample_rate):
            out = SampledOut(trace_id=trace_id, started_at=draft.started_at, inclusion_probability=self._sample_rate)
            return "sampled_out", spool_entry_adapter.dump_json(out)
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
            if (count := plain_number(getattr(draft, name))) is not None and count >= 0
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
            "searches": tuple(
                Search(
                    query=self._text(search.query, "searches.query"),
                    passages=self._passages(search.passages, "searches.passages"),
                    name=_label(search.name),
                )
                for search in self._first(draft.searches, self._limits.max_items, "searches")
            ),
            "contexts": None if draft.contexts is None else self._passages(draft.contexts, "contexts"),
            "response": self._text(draft.response, "response"),
            "reference": self._texts(draft.reference, "reference"),
            "status": draft.status,
            "error": self._text(draft.error, "error"),
            "inner_errors": self._texts(draft.inner_errors, "inner_errors"),
            "started_at": draft.started_at,
            "ended_at": plain_number(draft.ended_at),
            "first_token_s": plain_number(draft.first_token_s),
            "model": _label(draft.model),
            "usage": Usage(**tokens) if tokens else None,
            "tags": self._texts(draft.tags, "tags"),
            "metadata": self._metadata(draft.metadata, "metadata"),
        }
        return Trace(**fields, inclusion_probability=inclusion_probability, truncated_fields=tuple(self._cut))

    def _passages(self, passages: Iterable[PassageDraft], field: str) -> tuple[Passage, ...]:
        return tuple(
            Passage(
                text=self._text(passage.text, f"{field}.text") or "",
                id=_label(passage.id),
                score=plain_number(passage.score),
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
        text = self._redact(plain_text(value))
        if len(text) > self._limits.max_chars:
            self._cut[field] = None
            text = text[: self._limits.max_chars]
        return text

    def _metadata(self, metadata: Mapping[str, Any], field: str) -> dict[str, Any]:
        if not metadata:
            return {}
        plain = self._redacted(plain_value(metadata), field)
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
        return plain_text(redacted)


def _label(value: object) -> str | None:
    """An id or a name: not redacted, as it is how a request is found again."""
    if value is None:
        return None
    return plain_text(value if isinstance(value, str) else str(value))[:_MAX_LABEL]


def _json_bytes(value: Json) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())
