"""Steps that stand anywhere in an export, brought together trace by trace, on disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any, Final

from ragstone.errors import DataError
from ragstone.replay._assemble import assemble
from ragstone.replay._formats import Rejected
from ragstone.replay._nodes import Node
from ragstone.replay._records import Record
from ragstone.replay._stage import SpanStage, StagedSpan
from ragstone.schema import Trace

__all__ = ["staged", "traces_of"]

_BATCH: Final = 500


def staged(*, trace_id: str, span_id: str, is_root: bool, value: Mapping[str, Any]) -> StagedSpan:
    """A step's record, as the stage keeps it."""
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    return StagedSpan(trace_id=trace_id, span_id=span_id, is_root=is_root, body=body)


def traces_of(
    records: Iterable[Record | Rejected],
    *,
    spans: Callable[[Any], Iterable[StagedSpan]],
    nodes: Callable[[str, list[Any]], list[Node]],
    source: str,
) -> Iterator[Trace | Rejected]:
    """Bring the steps in `records` together: first what cannot be read, then the traces in the order in which they began.

    Args:
        records: In any order.
        spans: The steps of a record; raises `DataError` where it is none.
        nodes: From a trace's id and its records to its steps.
        source: The name of the format.

    Raises:
        DataError: The file cannot be read on; it comes after the traces that were read until then.
    """
    with SpanStage() as stage:
        damage = yield from _fill(stage, records, spans)
        for trace in stage.traces():
            if trace.is_cut:
                yield Rejected(
                    place=f"trace {trace.trace_id}", reason="more steps, or larger ones, than a trace may have"
                )
                continue
            values = [json.loads(body) for body in trace.spans]
            yield from assemble(nodes(trace.trace_id, values), source=source)
        if damage is not None:
            raise damage


def _fill(
    stage: SpanStage, records: Iterable[Record | Rejected], spans: Callable[[Any], Iterable[StagedSpan]]
) -> Generator[Rejected, None, DataError | None]:
    kept: list[StagedSpan] = []
    damage = None
    try:
        for record in records:
            if isinstance(record, Rejected):
                yield record
                continue
            try:
                kept += spans(record.value)
            except DataError as error:
                yield Rejected(place=record.place, reason=str(error))
            if len(kept) >= _BATCH:
                stage.add(kept)
                kept.clear()
    except DataError as error:
        damage = error
    stage.add(kept)
    return damage
