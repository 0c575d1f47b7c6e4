"""Reports, causes and single answers of any source of outcomes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from ragstone._util.files import check_output, write_output
from ragstone.errors import ConfigurationError
from ragstone.experiments._cards import card_for
from ragstone.experiments._checks import check_scales
from ragstone.experiments._outcomes import OutcomeSource, open_source
from ragstone.experiments._views.answers import build_answer
from ragstone.experiments._views.changes import Compared
from ragstone.experiments._views.reading import Reading
from ragstone.experiments._views.reasons import AskReasons
from ragstone.experiments._views.slices import SliceLabels
from ragstone.experiments._views.steps import steps_of
from ragstone.experiments._views.where import CAUSE, Condition, parse_where
from ragstone.judges import Judge
from ragstone.metrics import full_name
from ragstone.schema import Sample
from ragstone.scoring import Signals, note_outcome, note_sample
from ragstone.settings import Analysis
from ragstone.views import AnswerView, ReportView, html_report, markdown_report

REPORT_FORMATS: Final = (".html", ".htm", ".md")
"""Endings of files of a report: a page, or a summary."""


def build_report(
    source: OutcomeSource,
    path: str | os.PathLike[str] | None = None,
    *,
    name: str | None = None,
    samples: Iterable[Sample] = (),
    targets: Mapping[str, float] | None = None,
    n_worst: int = 5,
    by: Sequence[str] = (),
    compared: Compared | None = None,
    max_mb: float = 1.5,
    texts: bool = True,
    command: str | None = None,
    reasons: int = 0,
    judge: Judge | None = None,
    analysis: Analysis | None = None,
) -> ReportView:
    """Build the report of one system: a verdict, each metric with its interval, causes, and the worst answers.

    Most arguments are those of `Experiment.report`. `samples` are those of a file of outcomes, for texts and labels of
    clusters that it does not contain. `compared` is what a comparison says about the system, and `command` the command
    that made the report. The judge explains the lowest score of `reasons` of the shown answers, and is closed afterwards.
    """
    file = None if path is None else check_output(path, REPORT_FORMATS)
    if not max_mb > 0:
        raise ConfigurationError(f"max_mb must be above 0, got {max_mb!r}")
    opened = open_source(source, name=name, samples=samples, analysis=analysis, metrics=targets or ())
    asked = None if judge is None or not reasons else AskReasons(reasons, judge)
    is_page = file is not None and file.suffix.lower() != ".md"
    reading = Reading(opened, slices=SliceLabels(by), keeps_questions=is_page)
    reading.read()
    if not opened.argument:  # a store reports the outcomes of its plan
        check_scales(reading.table, allowed=opened.analysis.allow_different_judges)
    view = reading.report(
        {full_name(metric): target for metric, target in (targets or {}).items()},
        n_worst if texts or is_page else 0,
        compared,
        asked,
    )
    if file is not None:
        answers, limit = reading.answers_by_importance(view), round(max_mb * 1_000_000)
        document = (
            html_report(view, answers, max_bytes=limit, has_texts=texts, command=command)
            if is_page
            else markdown_report(view)
        )
        write_output(file, document, errors="replace")
    return view


def find_worst(
    source: OutcomeSource,
    *,
    n: int = 20,
    cause: str | None = None,
    metric: str | None = None,
    where: str | None = None,
    samples: Iterable[Sample] = (),
) -> tuple[AnswerView, ...]:
    """Return the worst answers of a source, worst first. See `Experiment.worst` and `build_report`."""
    opened = open_source(source, samples=samples, metrics=() if metric is None else [metric])
    conditions = parse_where(where) if where is not None else ()
    if cause is not None:
        conditions = (*conditions, Condition(CAUSE, "=", cause))
    reading = Reading(opened, metric=None if metric is None else full_name(metric), where=conditions)
    reading.read()
    return reading.worst(n)


def explain_answer(source: OutcomeSource, sample_id: str, *, samples: Iterable[Sample] = ()) -> AnswerView | None:
    """Return one answer with its evidence, or None if the source does not contain it.

    Raise StoreError if a store cannot be read.
    """
    opened = open_source(source, samples=samples)
    record = opened.records([sample_id]).get(sample_id)
    if record is None or (record.sample is None and not record.outcomes):
        return None
    signals = Signals()
    if record.sample is not None:
        note_sample(signals, record.sample)
    cards = dict(opened.cards)
    for outcome in record.outcomes:
        cards[outcome.metric] = card_for(outcome, cards)
        note_outcome(signals, outcome, cards[outcome.metric])
    answer = build_answer(sample_id, record.sample, record.outcomes, signals, cards, time=record.time)
    return answer if record.trace is None else replace(answer, steps=steps_of(record.trace))
