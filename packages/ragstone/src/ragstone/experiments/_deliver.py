"""The outcomes of an evaluation on their way to a sink: once, without an outbox."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ragstone.errors import SinkError, SinkNoTargetError, SinkRejectedError
from ragstone.schema import Failure, NotApplicable, Score
from ragstone.sinks import Delivery, Sink

__all__ = ["DeliverySummary", "deliver"]

_BATCH: Final = 200
_REASONS_SHOWN: Final = 3


@dataclass(slots=True)
class DeliverySummary:
    """What became of the outcomes at one sink."""

    sink: str
    n: int
    answered: int = 0
    """Outcomes of which the sink has said what became of them."""
    skipped: int = 0
    """Outcomes it has no place for."""
    refused: Counter[str] = field(default_factory=Counter)
    """Outcomes that did not arrive, by what was said of them."""

    def errors(self) -> list[str]:
        """What went wrong, in words; most frequent first, and rarer reasons together."""
        told = self.refused.most_common()
        lines = [f"{self.sink}: {words} ({count} of {self.n} outcomes)" for words, count in told[:_REASONS_SHOWN]]
        rest = told[_REASONS_SHOWN:]
        if rest:
            count = sum(count for _, count in rest)
            lines.append(f"{self.sink}: {len(rest)} other reasons ({count} of {self.n} outcomes)")
        return lines


async def deliver(sink: Sink, outcomes: Sequence[Score | NotApplicable | Failure]) -> DeliverySummary:
    """Write all outcomes to one sink. A sink that is down is not asked again; nothing it does is raised."""
    result = DeliverySummary(sink.name, len(outcomes))
    deliveries = [Delivery(outcome=outcome, trace_id=outcome.sample_id) for outcome in outcomes]
    for start in range(0, len(deliveries), _BATCH):
        try:
            await _write(sink, deliveries[start : start + _BATCH], result)
        except SinkError as error:
            result.refused[str(error)] += result.n - result.answered
            break
        except Exception as error:  # noqa: BLE001  a sink of somebody else's must not cost what was paid for
            result.refused[f"{type(error).__name__}: {error}"] += result.n - result.answered
            break
    return result


async def _write(sink: Sink, batch: Sequence[Delivery], result: DeliverySummary) -> None:
    refused: Mapping[str, SinkError]
    try:
        refused = await sink.write(batch) or {}
    except SinkRejectedError as error:
        if len(batch) > 1:
            # One row at fault must not hold back the others.
            middle = len(batch) // 2
            await _write(sink, batch[:middle], result)
            await _write(sink, batch[middle:], result)
            return
        refused = {batch[0].outcome.id: error}
    result.answered += len(batch)
    for refusal in refused.values():
        if isinstance(refusal, SinkNoTargetError):
            result.skipped += 1
        else:
            result.refused[str(refusal)] += 1
