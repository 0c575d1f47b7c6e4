"""Conversion of a draft to a spool line: sampling, plain JSON values, redaction, truncation, validation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime
from enum import Enum
from functools import partial
from hashlib import blake2b
from numbers import Integral, Real
from pathlib import PurePath
from typing import Any, Final, Literal, TypeVar
from uuid import UUID

from ragstone._util.quantities import text_of
from ragstone._util.unicode import replace_surrogates
from ragstone.capture._application import Application
from ragstone.capture._encoded import Redactor, redact_json
from ragstone.capture._feedback import MAX_COMMENT, FeedbackDraft
from ragstone.capture._ids import IdHasher
from ragstone.capture._redaction import RedactionError, SecretRedactor, redact_secrets, safe_redactor
from ragstone.errors import RagstoneError
from ragstone.requests import PassageDraft, Request, RetrievalDraft, TraceDraft, assemble, finite_number
from ragstone.schema import Captured, Feedback, Passage, Retrieval, SampledOut, Trace, Turn, Usage, spool_entry_adapter
from ragstone.settings import Lengths, SamplingRule


def is_sampled(trace_id: str, *, rate: float) -> bool:
    """Return whether sampling keeps a trace at a rate in [0, 1].

    A trace that is kept at one rate is kept at every higher rate.

    Examples:
        >>> is_sampled("any", rate=1.0), is_sampled("any", rate=0.0)
        (True, False)
    """
    digest = blake2b(trace_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    # 53 bits, so that the quotient is exact and below 1.
    return (int.from_bytes(digest, "big") >> 11) / 2**53 < rate


Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

_MAX_DEPTH: Final = 12
"""Maximum nesting of metadata. Deeper and circular values are stored as text."""
_MAX_REPR: Final = 500
"""Maximum number of characters of the `repr` that replaces an object that is not JSON."""
_MAX_INT: Final = 2**63
"""JSON readers disagree about larger integers."""


def to_valid_text(value: object) -> str:
    """Return a text that UTF-8 can encode: lone surrogates become U+FFFD. Other values are replaced by their `repr`."""
    if not isinstance(value, str):
        return _described(value)
    return replace_surrogates(str(value))  # a subclass can hold objects of the application


def to_json_value(value: Any, *, depth: int = 0) -> Json:
    """Convert a value to JSON: containers stay nested, numbers of any library become numbers, other values text.

    NaN and infinite numbers become None. The text of another value is its `repr`, at most 500 characters.
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
        return finite_number(value)
    if depth < _MAX_DEPTH:
        # `list` copies in one step, because the application may still change the value.
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
    except Exception:  # noqa: BLE001 - `repr` is the application's code; its errors are not about the trace
        return f"<{type(value).__name__}>"
    if len(text) > _MAX_REPR:
        # Without its last word and digits before it, because the redactor cannot recognize a secret that was cut.
        words = text[:_MAX_REPR].rpartition(" ")[0].rstrip(" 0123456789")
        text = f"{words}…" if words else f"<{type(value).__name__}>"
    return to_valid_text(text)


_T = TypeVar("_T")

_MAX_STAGES: Final = 8
_MAX_METADATA_BYTES: Final = 16_384
"""Maximum size of the metadata of a request or a passage, as JSON."""
_MAX_LABEL: Final = 1_000
"""Characters of an id or a name."""


class Converter:
    """Converter from drafts to spool lines. It holds settings, and hashes of texts without secrets."""

    def __init__(
        self,
        *,
        sample_rate: float,
        redact: Redactor | None,
        lengths: Lengths,
        application: Application | None = None,
        sampling: Sequence[SamplingRule] = (),
        hash_id: IdHasher | None = None,
        plan: dict[str, Any] | None = None,
    ) -> None:
        self._plan = plan
        self._application = application or Application()
        self._sample_rate, self._rules = sample_rate, sampling
        safe = None if redact is None else SecretRedactor() if redact is redact_secrets else safe_redactor(redact)
        self._conversion = partial(_Conversion, safe, lengths, self._application, hash_id)

    def _rate(self, draft: TraceDraft) -> float:
        """Return the rate of the first rule that matches the application, tags and status of a request, or `sample_rate`."""
        if not self._rules:
            return self._sample_rate
        app, tags = self._application.label(draft)["app"], (*self._application.tags, *draft.tags)
        for rule in self._rules:
            if (
                (rule.app is None or rule.app == app)
                and (rule.tag is None or rule.tag in tags)
                and (rule.status is None or rule.status == draft.status)
            ):
                return rule.rate
        return self._sample_rate

    def needs_text(self, draft: TraceDraft | Request) -> bool:
        """Return whether a request is kept.

        This depends on its id and rates only, so repeated calls return the same.
        """
        about = draft.draft if isinstance(draft, Request) else draft
        rate = self._rate(about)
        return rate >= 1 or is_sampled(_label(about.trace_id) or "", rate=rate)

    def feedback_line(self, feedback: FeedbackDraft) -> bytes:
        """Return the spool line of feedback, with a redacted comment. Raise RedactionError if the redactor fails."""
        entry = Feedback(
            request_id=_label(feedback.request_id) or "",
            value=feedback.value,
            comment=self._conversion().comment(feedback.comment),
            given_at=feedback.given_at,
        )
        return spool_entry_adapter.dump_json(entry)

    def line(self, draft: TraceDraft | Request) -> tuple[Literal["captured", "sampled_out"], bytes]:
        """Return the spool line of a draft and its kind.

        Raise RedactionError if the redactor fails. Raise ValueError if the draft is not a valid trace (includes
        pydantic's errors).
        """
        about = draft.draft if isinstance(draft, Request) else draft
        trace_id = _label(about.trace_id) or ""
        # From the draft before it is assembled, as in `needs_text`.
        rate = self._rate(about)
        if rate >= 1 or is_sampled(trace_id, rate=rate):
            if isinstance(draft, Request):
                draft = assemble(draft)
            entry = Captured(trace=self._conversion().trace(draft, inclusion_probability=rate), plan=self._plan)
            return "captured", spool_entry_adapter.dump_json(entry)
        out = SampledOut(trace_id=trace_id, started_at=about.started_at, inclusion_probability=rate)
        return "sampled_out", spool_entry_adapter.dump_json(out)


class _Conversion:
    """The conversion of one draft, which records the truncated fields."""

    def __init__(
        self, redact: Redactor | None, lengths: Lengths, application: Application, hash_id: IdHasher | None
    ) -> None:
        self._redactor = redact
        self._hash_id = hash_id
        self._application = application
        self._lengths = lengths
        self._cut: dict[str, None] = {}  # an ordered set

    def trace(self, draft: TraceDraft, *, inclusion_probability: float) -> Trace:
        tokens = {
            name: int(count)
            for name in ("input_tokens", "output_tokens")
            if (count := finite_number(getattr(draft, name))) is not None and count >= 0
        }
        fields: dict[str, Any] = {
            "trace_id": _label(draft.trace_id),
            "name": self._name(draft.name),
            "source": _label(draft.source),
            "run_id": _label(draft.run_id),
            "parent_run_id": _label(draft.parent_run_id),
            "otel_trace_id": _label(draft.otel_trace_id),
            "otel_span_id": _label(draft.otel_span_id),
            "otel_sampled": None if draft.otel_sampled is None else bool(draft.otel_sampled),
            "session_id": self._id("session", draft.session_id),
            "user_id": self._id("user", draft.user_id),
            **{name: _label(value) for name, value in self._application.label(draft).items()},
            "query": self._text(draft.query, "query"),
            "standalone_query": self._text(draft.standalone_query, "standalone_query"),
            "history": tuple(
                Turn(role=turn.role, text=self._text(turn.text, "history") or "")
                for turn in self._first(draft.history, self._lengths.max_items, "history")
            ),
            "retrievals": tuple(
                self._retrieval(retrieval)
                for retrieval in self._first(draft.retrievals, self._lengths.max_items, "retrievals")
            ),
            "contexts": None if (stored := draft.stored_contexts) is None else self._passages(stored, "contexts"),
            "response": self._text(draft.response, "response"),
            "reference": self._texts(draft.reference, "reference"),
            "status": draft.status,
            "error": self._text(draft.error, "error"),
            "inner_errors": self._texts(draft.inner_errors, "inner_errors"),
            "started_at": draft.started_at,
            "ended_at": finite_number(draft.ended_at),
            "first_token_s": finite_number(draft.first_token_s),
            "model": self._name(draft.model),
            "response_id": _label(draft.response_id),
            "usage": Usage(**tokens) if len(tokens) == 2 else None,  # one count alone is not a usage
            "tags": self._texts(dict.fromkeys((*self._application.tags, *draft.tags)), "tags"),
            "metadata": self._metadata(draft.metadata, "metadata"),
            "evidence": draft.evidence,
        }
        return Trace(**fields, inclusion_probability=inclusion_probability, truncated_fields=tuple(self._cut))

    def comment(self, text: str | None) -> str | None:
        """Return the redacted comment of a user."""
        redacted = self._text(text, "comment")
        return None if redacted is None else redacted[:MAX_COMMENT]

    def _name(self, value: object) -> str | None:
        """Return a name without secrets. A function of the user is not applied, because conditions contain names."""
        if value is None or self._redactor is None:
            return _label(value)
        return _label(redact_secrets(to_valid_text(value if isinstance(value, str) else str(value))))

    def _id(self, kind: Literal["user", "session"], value: object) -> str | None:
        id_ = _label(value)
        if id_ is None or self._hash_id is None:
            return id_
        try:
            return self._hash_id(kind, id_)
        except RagstoneError as error:
            raise RedactionError(str(error)) from None

    def _retrieval(self, retrieval: RetrievalDraft) -> Retrieval:
        return Retrieval(
            query=self._text(retrieval.query, "retrievals.query"),
            passages=self._passages(retrieval.passages, "retrievals.passages"),
            name=self._name(retrieval.name),
            stages=tuple(self._retrieval(stage) for stage in self._first(retrieval.stages, _MAX_STAGES, "retrievals")),
        )

    def _passages(self, passages: Iterable[PassageDraft], field: str) -> tuple[Passage, ...]:
        return tuple(
            Passage(
                text=self._text(passage.text, f"{field}.text") or "",
                id=_label(passage.id),
                score=finite_number(passage.score),
                rank=rank,
                metadata=self._metadata(passage.metadata, f"{field}.metadata"),
            )
            for rank, passage in enumerate(self._first(passages, self._lengths.max_passages, field))
        )

    def _texts(self, texts: Iterable[object], field: str) -> tuple[str, ...]:
        return tuple(self._text(text, field) or "" for text in self._first(texts, self._lengths.max_items, field))

    def _first(self, items: Iterable[_T] | None, limit: int, field: str) -> list[_T]:
        every = list(items or ())
        if len(every) > limit:
            self._cut[field] = None
        return every[:limit]

    def _text(self, value: object, field: str) -> str | None:
        return None if value is None else self._text_of(to_valid_text(value), field)

    def _text_of(self, value: str, field: str) -> str:
        # Redact before truncation: the redactor cannot recognize a secret that was cut.
        text = self._redact(value)
        if len(text) > self._lengths.max_chars:
            self._cut[field] = None
            text = text[: self._lengths.max_chars]
        return text

    def _metadata(self, metadata: Mapping[str, Any], field: str) -> dict[str, Any]:
        if not metadata:
            return {}
        plain = redact_json(to_json_value(metadata), partial(self._text_of, field=field))
        if not isinstance(plain, dict):
            plain = {"value": plain}
        if _json_bytes(plain) <= _MAX_METADATA_BYTES:
            return plain
        self._cut[field] = None
        kept: dict[str, Json] = {}
        bytes_left = _MAX_METADATA_BYTES - len("{}")
        for key, value in plain.items():
            after = bytes_left - (_json_bytes({key: value}) - len("{}") + len(", "))
            if after >= 0:
                kept[key], bytes_left = value, after
        return kept

    def _redact(self, text: str) -> str:
        if self._redactor is None or not text:
            return text
        try:
            return self._redactor(text)
        except RedactionError:
            raise
        except BaseException as error:  # noqa: BLE001 - not our code, and it must not end the writer's thread
            raise RedactionError(f"the redactor raised {type(error).__name__}") from None


def _label(value: object) -> str | None:
    """Return an id or a name as text. It is not redacted, because users look requests up by it."""
    if value is None:
        return None
    return to_valid_text(value if isinstance(value, str) else text_of(value))[:_MAX_LABEL]


def _json_bytes(value: Json) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())
