"""Summaries of outcomes that a test has in hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragstone.experiments import MetricSummary, TableReader, summarize_table
from ragstone.metrics import MetricCard
from ragstone.schema import Outcome


def summarize(outcomes: Iterable[Outcome], cards: Sequence[MetricCard]) -> tuple[MetricSummary, ...]:
    """Summarize outcomes, one summary per card in the order of the cards."""
    reader = TableReader()
    reader.expect(cards)
    for outcome in outcomes:
        reader.put(outcome)
    return summarize_table(reader.table(), 0.95)
