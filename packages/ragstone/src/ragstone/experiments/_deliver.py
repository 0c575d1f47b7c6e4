"""Delivery of an evaluation's outcomes to a sink, in one attempt and without a queue."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ragstone.errors import SinkError, SinkNoTargetError, SinkRejectedError
from ragstone.schema import Failure, NotApplicable, Sample, Score
from ragstone.scoring import diagnose
from ragstone.sinks import Delivery, Sink

_BATCH: Final = 200
_REASONS_SHOWN: Final = 3


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
    sink: Sink, samples: Iterable[Sample], outcomes: Sequence[Score | NotApplicable | Failure]
) -> DeliverySummary:
    """Write all outcomes to one sink, without retries after an error. Never raises.

    Args:
        sink: The sink.
        samples: The samples.
        outcomes: The outcomes, ordered by sample as `samples` are. The last of each sample is sent with the cause of a wrong
            answer.
    """
    result = DeliverySummary(sink.name, len(outcomes))
    deliveries = _deliveries(samples, outcomes)
    while batch := list(itertools.islice(deliveries, _BATCH)):
        try:
            await _write(sink, batch, result)
        except SinkError as error:
            result.failed[str(error)] += result.n - result.answered
            break
        except Exception as error:  # noqa: BLE001  an error in a third-party sink must not lose the scores
            result.failed[f"{type(error).__name__}: {error}"] += result.n - result.answered
            break
    return result


def _deliveries(samples: Iterable[Sample], outcomes: Iterable[Score | NotApplicable | Failure]) -> Iterator[Delivery]:
    by_sample = itertools.groupby(outcomes, key=lambda outcome: outcome.sample_id)
    for sample, (sample_id, group) in zip(samples, by_sample, strict=True):
        *others, last = own = list(group)
        for outcome in others:
            yield Delivery(outcome=outcome, trace_id=sample_id)
        yield Delivery(outcome=last, trace_id=sample_id, cause=diagnose(sample, own))


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
