"""Delivery of an evaluation's outcomes to a sink, in one attempt and without a queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ragstone.errors import SinkError, SinkNoTargetError, SinkRejectedError
from ragstone.schema import AnswerCause, Failure, NotApplicable, Sample, Score
from ragstone.scoring import diagnose
from ragstone.sinks import Delivery, Sink

__all__ = ["DeliverySummary", "causes_by_outcome", "deliver"]

_BATCH: Final = 200
_REASONS_SHOWN: Final = 3


def causes_by_outcome(
    samples: Sequence[Sample], outcomes: Sequence[Score | NotApplicable | Failure]
) -> dict[str, AnswerCause | None]:
    """Return the cause of each wrong answer by the id of the last outcome of its sample."""
    of_sample: dict[str, list[Score | NotApplicable | Failure]] = {}
    for outcome in outcomes:
        of_sample.setdefault(outcome.sample_id, []).append(outcome)
    by_id = {sample.id: sample for sample in samples}
    return {own[-1].id: diagnose(by_id.get(id_), own) for id_, own in of_sample.items()}


@dataclass(slots=True)
class DeliverySummary:
    """The results of delivery to one sink."""

    sink: str
    n: int
    answered: int = 0
    """Number of outcomes with a result from the sink."""
    skipped: int = 0
    """Number of outcomes that the sink skipped."""
    failed: Counter[str] = field(default_factory=Counter)
    """Numbers of failed outcomes, by error message."""

    def errors(self) -> list[str]:
        """Return the most frequent errors with counts, and one line for all others."""
        by_count = self.failed.most_common()
        lines = [
            f"{self.sink}: {message} ({count} of {self.n} outcomes)" for message, count in by_count[:_REASONS_SHOWN]
        ]
        rest = by_count[_REASONS_SHOWN:]
        if rest:
            count = sum(count for _, count in rest)
            lines.append(f"{self.sink}: {len(rest)} other reasons ({count} of {self.n} outcomes)")
        return lines


async def deliver(
    sink: Sink, outcomes: Sequence[Score | NotApplicable | Failure], causes: Mapping[str, AnswerCause | None]
) -> DeliverySummary:
    """Write all outcomes to one sink, without retries after an error. Never raises.

    Args:
        sink: The sink.
        outcomes: The outcomes.
        causes: Cause by the id of the last outcome of each sample.
    """
    result = DeliverySummary(sink.name, len(outcomes))
    deliveries = [Delivery(outcome=o, trace_id=o.sample_id, cause=causes.get(o.id)) for o in outcomes]
    for start in range(0, len(deliveries), _BATCH):
        try:
            await _write(sink, deliveries[start : start + _BATCH], result)
        except SinkError as error:
            result.failed[str(error)] += result.n - result.answered
            break
        except Exception as error:  # noqa: BLE001  an error in a third-party sink must not lose the scores
            result.failed[f"{type(error).__name__}: {error}"] += result.n - result.answered
            break
    return result


async def _write(sink: Sink, batch: Sequence[Delivery], result: DeliverySummary) -> None:
    errors: Mapping[str, SinkError]
    try:
        errors = await sink.write(batch) or {}
    except SinkRejectedError as error:
        if len(batch) > 1:
            # Split the batch until only the rejected row remains, so that the other rows arrive.
            middle = len(batch) // 2
            await _write(sink, batch[:middle], result)
            await _write(sink, batch[middle:], result)
            return
        errors = {batch[0].outcome.id: error}
    result.answered += len(batch)
    for row_error in errors.values():
        if isinstance(row_error, SinkNoTargetError):
            result.skipped += 1
        else:
            result.failed[str(row_error)] += 1
