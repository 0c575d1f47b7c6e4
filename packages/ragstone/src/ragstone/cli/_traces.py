"""`ragstone traces`: the worst answers of a source, or one answer with its evidence."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from ragstone.cli._options import parse_time_range
from ragstone.cli._output import (
    print_json,
    print_lines,
    print_text,
    sanitize_for_terminal,
    terminal_options,
    trace_dict,
    trace_lines,
)
from ragstone.cli._report import read_texts
from ragstone.errors import ConfigurationError, DataError
from ragstone.experiments import OutcomeSource, TimeRange, explain_answer, find_worst, store_of
from ragstone.metrics import full_name
from ragstone.schema import Sample
from ragstone.store import describe_store, is_database_url, open_store
from ragstone.views import AnswerText, AnswerView, list_answers
from ragstone.watch import read_alarm
from ragstone.worker import advise, read_ledger


def traces_command(
    source: str,
    trace_id: str | None = None,
    *,
    worst: int = 20,
    cause: str | None = None,
    metric: str | None = None,
    where: str | None = None,
    alarm: int | None = None,
    data: str | None = None,
    field: list[str] | None = None,
    rows: str | None = None,
    json_output: bool = False,
    full: bool = False,
) -> None:
    """List the worst answers, or show one with its evidence.

    Options:
        source: A store, a period of it (STORE@-7d..), or a file of outcomes.
        trace_id ([ID]): Show this answer: text, scores with reasons, and passages.
        worst (>=1): Maximum number of answers, worst first.
        cause: Only answers with this cause.
        metric: Order by this metric instead of the mean of all scores.
        where: Only answers with these labels and scores: "release=2.4 and ccrs.ac<0.5".
        alarm (N): The worst answers behind this alarm of a store.
        data: The evaluated file, for the texts of a file of outcomes.
    """
    opened = parse_time_range(source)
    samples = read_texts(data, rows, field)
    if trace_id is not None:
        _print_one(opened, trace_id, samples, json_output=json_output, full=full)
        return
    if alarm is not None:
        answers = _behind_alarm(opened, alarm, n=worst)
    else:
        answers = find_worst(opened, n=worst, cause=cause, metric=metric, where=where, samples=samples)
    if json_output:
        values = [answer.to_dict() for answer in answers]
        print_json(values if full else {"answers": values}, full=full)
        return
    if not answers:
        print_text("no answers found")
        return
    print_lines(list_answers(answers, metric=metric and full_name(metric), **terminal_options()))
    print_text(
        f"\none answer: ragstone traces {'STORE' if is_database_url(source) else shlex.quote(source)} {answers[0].id}"
    )
    _print_advice(opened)


def _print_advice(source: OutcomeSource) -> None:
    """Print what is pending in a store, and which outcomes are of other plans."""
    if (store := store_of(source)) is not None:
        for sentence in advise(store, read_ledger(store)):
            print_text(sentence)


def _behind_alarm(source: OutcomeSource, number: int, *, n: int) -> Sequence[AnswerView]:
    """Return the worst answers of the sessions since the change behind an alarm."""
    store = store_of(source)
    if store is None:
        raise ConfigurationError("--alarm needs a store: a file or postgresql://...")
    with open_store(store, mode="read") as opened, opened.watch.read() as tables:
        traces = read_alarm(tables, number).traces[:n]
    return [answer for trace_id in traces if (answer := explain_answer(source, trace_id)) is not None]


def _print_one(
    source: OutcomeSource, trace_id: str, samples: Sequence[Sample], *, json_output: bool, full: bool
) -> None:
    report = None
    if (store := store_of(source)) is not None:
        with open_store(store, mode="read") as opened:
            report = opened.traces.explain(trace_id)
    answer = explain_answer(source, trace_id, samples=samples)
    if answer is None:
        name = source.name if isinstance(source, TimeRange) else describe_store(os.fspath(str(source)))
        raise DataError(
            f"trace {sanitize_for_terminal(trace_id)!r} not found in {name!r}. A recent trace may "
            "still be in the spool. Of one that was sampled out, only the count is left after a day."
        )
    if json_output:
        print_json(({} if report is None else trace_dict(report)) | {"answer": answer.to_dict()}, full=full)
        return
    print_lines(AnswerText(answer, **terminal_options()).lines())
    if report is not None:
        print_text("\n" + "\n".join(trace_lines(report)))
    _print_advice(source)
