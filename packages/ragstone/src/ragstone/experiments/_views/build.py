"""Builds the report of one system: a verdict from statistics, causes with counts, and the answers to look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ragstone.errors import ConfigurationError
from ragstone.experiments._cards import card_of
from ragstone.experiments._views.answers import build_answer
from ragstone.experiments._views.changes import Compared
from ragstone.experiments._views.reading import Reading, unknown_card
from ragstone.experiments._views.reasons import ReasonsOf
from ragstone.experiments._views.slices import SliceLabels
from ragstone.experiments._views.source import ReportSource
from ragstone.experiments._views.where import parse_where
from ragstone.metrics import full_name
from ragstone.scoring import CAUSES, Signals, note_outcome, note_sample
from ragstone.views import AnswerView, CauseRow, ReportView


def build_report(
    source: ReportSource,
    *,
    targets: Mapping[str, float],
    n_worst: int,
    by: Sequence[str] = (),
    compared: Compared | None = None,
    reasons: ReasonsOf | None = None,
) -> ReportView:
    """Build the report of one system.

    Raises:
        ConfigurationError: If a target is not a finite value of a scored metric, or no sample has a label of `by`.
        DataError: If the source does not contain outcomes.
    """
    reading = Reading(source, slices=SliceLabels(by))
    reading.read()
    return reading.report(targets, n_worst, compared, reasons)


def build_page(
    source: ReportSource,
    *,
    targets: Mapping[str, float],
    n_worst: int,
    by: Sequence[str] = (),
    compared: Compared | None = None,
    reasons: ReasonsOf | None = None,
) -> tuple[ReportView, Iterator[AnswerView]]:
    """Build the report of one system with all questions, and its answers, the most important first.

    These are the worst answers of each cause, and then the others in a random order that is the same in each run. They are
    read when they are needed.

    Raises:
        ConfigurationError: If a target is not a finite value of a scored metric.
        DataError: If the source does not contain outcomes.
    """
    reading = Reading(source, slices=SliceLabels(by), keeps_questions=True)
    reading.read()
    view = reading.report(targets, n_worst, compared, reasons)
    return view, reading.answers_by_importance(view)


def count_causes(source: ReportSource) -> tuple[CauseRow, ...]:
    """Return the causes of wrong answers with their counts and shares, the most frequent first.

    Raises:
        DataError: If the source does not contain outcomes.
    """
    reading = Reading(source)
    reading.read()
    return reading.report({}, 0).causes


def find_worst(
    source: ReportSource, *, n: int, cause: str | None, metric: str | None, where: str | None
) -> tuple[AnswerView, ...]:
    """Return the worst answers, worst first. See `Experiment.worst`.

    Raises:
        ConfigurationError: If the cause does not exist, the metric was not scored, or a condition is invalid.
        DataError: If the source does not contain outcomes.
    """
    names = [each.name for each in CAUSES]
    if cause is not None and cause not in names:
        raise ConfigurationError(f"unknown cause {cause!r}. Causes: {', '.join(names)}")
    conditions = parse_where(where) if where is not None else ()
    reading = Reading(source, metric=None if metric is None else full_name(metric), where=conditions)
    reading.read()
    return reading.worst(n, cause)


def explain_answer(source: ReportSource, sample_id: str) -> AnswerView | None:
    """Return one answer with its evidence, or None if the source does not contain it."""
    record = source.records([sample_id]).get(sample_id)
    if record is None or (record.sample is None and not record.outcomes):
        return None
    signals = Signals()
    if record.sample is not None:
        note_sample(signals, record.sample)
    cards = dict(source.cards)
    for outcome in record.outcomes:
        if outcome.metric not in cards:
            cards[outcome.metric] = card_of(outcome.metric) or unknown_card(outcome)
        note_outcome(signals, outcome, cards[outcome.metric])
    return build_answer(sample_id, record.sample, record.outcomes, signals, cards, time=record.time)
