"""Outcomes as rows of plain values, their target in a tracing tool, and the delivery of single rows."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import BaseModel

from ragstone.errors import SinkDeniedError, SinkError, SinkNoTargetError, SinkTargetMissingError, SinkUnavailableError
from ragstone.schema import Delivery, Failure, NotApplicable, Score
from ragstone.sinks._otlp_event import parse_hex_id

_COMMENT_MAX_CHARS: Final = 16_000
"""At most 64,000 bytes: the limit of the smallest text column of the servers' databases (MySQL)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRef:
    """The span of a request, with ids in lower-case hexadecimal."""

    trace_id: str
    span_id: str | None


def shorten_name(name: str, most: int) -> str:
    """Return a name of at most `most` characters. Different names stay different: a longer one ends with its hash."""
    if len(name) <= most:
        return name
    return f"{name[: most - 9]}-{hashlib.sha256(name.encode(errors='replace')).hexdigest()[:8]}"


def span_ref_of(delivery: Delivery) -> SpanRef | SinkNoTargetError:
    """Return the target span of an evaluation in a tool with OpenTelemetry ids, or why it does not have one."""
    trace_id = parse_hex_id(delivery.otel_trace_id, digits=32)
    span_id = parse_hex_id(delivery.otel_span_id, digits=16)
    if not trace_id:
        return SinkNoTargetError("the request was captured outside of any OpenTelemetry trace")
    if delivery.otel_sampled is False:
        return SinkNoTargetError("the trace of the request was not sampled, so no tracing tool has it")
    return SpanRef(trace_id=f"{trace_id:032x}", span_id=f"{span_id:016x}" if span_id else None)


def state_of(outcome: Score | NotApplicable | Failure) -> str | None:
    """Return what an outcome without a score is: "failed" or "not applicable"."""
    if isinstance(outcome, Score):
        return None
    return "failed" if isinstance(outcome, Failure) else "not applicable"


def build_comment(delivery: Delivery, *, include_text: bool) -> str:
    """Describe an outcome as tracing tools show it first: value and interval, or what is missing, and the judge.

    With `include_text`, the explanation or reason comes before that, which may quote captured text.
    """
    outcome = delivery.outcome
    facts = [_fact(outcome), f"judge {outcome.judge}" if outcome.judge else ""]
    if isinstance(outcome, Score):
        facts.append(outcome.method.replace("_", " ") + (f", n = {outcome.n}" if (outcome.n or 0) > 1 else ""))
    line = ". ".join(filter(None, facts))
    text = outcome.explanation if isinstance(outcome, Score) else outcome.reason
    if not include_text or not text:
        return line[:_COMMENT_MAX_CHARS]
    room = max(_COMMENT_MAX_CHARS - len(line) - 2, 0)
    return f"{text if len(text) <= room else text[: max(room - 1, 0)] + '…'}\n\n{line}"[:_COMMENT_MAX_CHARS]


def _fact(outcome: Score | NotApplicable | Failure) -> str:
    """Return the value with its interval, the kind of a failure, or the missing fields."""
    if isinstance(outcome, Failure):
        return f"failed ({outcome.kind})"
    if isinstance(outcome, NotApplicable):
        return f"not applicable, missing: {', '.join(outcome.missing)}" if outcome.missing else "not applicable"
    if outcome.interval is None:
        return f"{outcome.value:.3g}"
    low, high = outcome.interval.low, outcome.interval.high
    return f"{outcome.value:.3g} [{low:.3g}, {high:.3g}] ({100 * outcome.interval.confidence_level:g}% {outcome.interval.method})"


CAUSE: Final = "ragstone.cause"
"""Name of the annotation that says why an answer is wrong. It follows the last outcome of a request."""
_CAUSE_IDS: Final = uuid.UUID("6f8b3c1e-52d0-5b7c-9a54-0d7c2f6f1b90")
_CAUSE_FIELDS: Final = ("trace_id", "run_id", "app", "release", "environment", "inclusion_probability", "requested_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What a tracing tool shows at a request: an outcome, or the cause of a wrong answer."""

    id: str
    """The same for each delivery of the outcome."""
    name: str
    label: str | None
    """What an outcome without a score is, or the name of the cause with spaces: tools cut longer labels."""
    comment: str
    metadata: Mapping[str, Any]
    outcome: Score | NotApplicable | Failure | None = None
    """None for a cause."""

    @property
    def value(self) -> float | None:
        """The score."""
        return self.outcome.value if isinstance(self.outcome, Score) else None

    @property
    def judge(self) -> str | None:
        """The judge, if one rated."""
        return None if self.outcome is None else self.outcome.judge


def notes_of(delivery: Delivery, *, include_text: bool) -> Iterator[Note]:
    """Yield an outcome (see `build_comment`), and the cause if it is the last outcome of a wrong answer."""
    outcome = delivery.outcome
    yield Note(
        id=outcome.id,
        name=outcome.metric,
        label=state_of(outcome),
        comment=build_comment(delivery, include_text=include_text),
        metadata=build_score_metadata(delivery),
        outcome=outcome,
    )
    if (cause := cause_note_of(delivery)) is not None:
        yield cause


def cause_note_of(delivery: Delivery) -> Note | None:
    """Return the annotation that follows an outcome, or None if it is not the last one of a wrong answer."""
    cause = delivery.cause
    if cause is None:
        return None
    about = {name: getattr(delivery, name) for name in _CAUSE_FIELDS}
    title = f"{cause.title}."
    return Note(
        id=str(uuid.uuid5(_CAUSE_IDS, delivery.outcome.id)),
        name=CAUSE,
        label=cause.name.replace("_", " "),
        # In words and without captured text. Some evidence begins with the title.
        comment=" ".join(filter(None, (title, cause.why, cause.next)[cause.why.startswith(title) :])),
        metadata={"cause": cause.name} | {name: value for name, value in about.items() if value not in (None, "")},
    )


_NOT_EVIDENCE: Final = ("id", "fingerprint", "reason", "usage")
COLUMNS: Final = (
    "schema_version", "id", "trace_id", "fingerprint", "run_id", "otel_trace_id", "otel_span_id", "response_id", "app",
    "release", "environment", "metric", "metric_version", "outcome", "value", "interval", "method", "n", "kind", "reason",
    "missing", "judge", "judge_hash", "prompt_hash", "usage", "inclusion_probability", "requested_at", "scored_at", "cause",
)  # fmt: skip
"""Keys of the row of an outcome, in their order."""
_OF_REQUEST: Final = {field.name for field in fields(Delivery)} - {"outcome", "cause"}
"""Keys whose values are in the delivery. Most others are fields of the outcome, if its kind has them."""
TEXT_COLUMNS: Final = ("explanation", "details", "raw")
"""Keys that follow if texts are included."""


def outcome_row(delivery: Delivery, *, include_text: bool) -> dict[str, Any]:
    """Return an outcome as a dict with the same keys for every kind of outcome. Missing values are None.

    `include_text` adds explanation, details and the judge's raw reply. The reason of a missing score, which may quote
    captured text, is always included.
    """
    outcome = delivery.outcome
    row: dict[str, Any] = {}
    for name in COLUMNS:
        value: Any = getattr(delivery if name in _OF_REQUEST else outcome, name, None)
        is_model = isinstance(value, BaseModel)
        row[name] = value.model_dump(mode="json") if is_model else list(value) if isinstance(value, tuple) else value
    row |= {"scored_at": outcome.created_at, "cause": delivery.cause.name if delivery.cause else None}
    if include_text:
        details = outcome.model_dump(mode="json", include={"details"}) if isinstance(outcome, Score) else {}
        row |= {name: getattr(outcome, name, None) for name in TEXT_COLUMNS} | {"details": details.get("details")}
    return row


def build_score_metadata(delivery: Delivery) -> dict[str, Any]:
    """Return the metadata of a score in a tracing tool: all non-empty fields without captured text."""
    row = outcome_row(delivery, include_text=False)
    return {name: value for name, value in row.items() if value not in (None, "") and name not in _NOT_EVIDENCE}


def iso_time(unix_s: float | None) -> str | None:
    """Return a time as ISO 8601 in UTC with microseconds, or None for None and for times out of range."""
    try:
        return None if unix_s is None else datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="microseconds")
    except (ValueError, OverflowError, OSError):
        return None


def remember(seen: dict[str, None], ids: Iterable[str], most: int) -> None:
    """Add ids to those that were written, of which the latest are kept."""
    seen.update(dict.fromkeys(ids))
    while len(seen) > most:
        del seen[next(iter(seen))]


async def write_each(
    batch: Sequence[Delivery], send: Callable[[Delivery], Awaitable[SinkError | None]], *, concurrency: int = 8
) -> dict[str, SinkError]:
    """Send each row in a separate request, and return the errors of those that did not arrive, by `outcome.id`.

    After the first `SinkUnavailableError`, the remaining rows are not sent, because each would wait for the same
    timeout. `send` returns or raises the error of a row, or returns None. Raise SinkDeniedError if the credentials are
    rejected.
    """
    errors: dict[str, SinkError] = {}
    outage: SinkUnavailableError | None = None
    pending = iter(batch)

    async def work() -> None:
        nonlocal outage
        for delivery in pending:
            error: SinkError | None = outage
            if error is None:
                try:
                    error = await send(delivery)
                except SinkError as raised:
                    error = raised
            if isinstance(error, SinkDeniedError):
                raise error
            if isinstance(error, SinkUnavailableError) and not isinstance(error, SinkTargetMissingError):
                outage = error
            if error is not None:
                errors[delivery.outcome.id] = error

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(batch))):
                group.create_task(work())
    except BaseExceptionGroup as raised:  # an error that `except*` raises is a group in early versions of Python 3.11
        if (denied := raised.subgroup(SinkError)) is not None:
            raise denied.exceptions[0] from None
        raise
    return errors
