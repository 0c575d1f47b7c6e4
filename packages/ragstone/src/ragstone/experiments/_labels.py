"""Labels of people for requests of a store: drawing requests with known probabilities, and reading files of labels."""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ragstone._util.csv_table import guarded, unguarded
from ragstone._util.quantities import count
from ragstone.errors import ConfigurationError, DataError
from ragstone.experiments._clusters import NO_CLUSTER
from ragstone.experiments._outcome_file import shorten_question
from ragstone.experiments._outcomes import Period, StoredRequests
from ragstone.experiments._table import ScoreTable
from ragstone.reading import LabelRecord, SampleSource, by_answer, group_reasons, read_label_file
from ragstone.schema import fingerprint
from ragstone.settings import Analysis
from ragstone.store import DrawnRequest, Store, StoredLabel, describe_store, open_for_labels, open_store, settle_labels

_BAD_ROWS: Final = 5
"""Most invalid rows that a message lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedLabels:
    """The result of adding labels."""

    n: int
    """Labels that were saved: one for each request and author."""
    n_new: int
    n_replaced: int
    """Saved labels that replace an earlier one of the same author."""
    n_repeated: int
    """Rows that were not saved, because a later row is about the same request and author."""
    notes: tuple[str, ...] = ()
    """Statements about empty labels and parts of answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnSample:
    """The result of a draw."""

    n_new: int
    """Requests that were drawn now, without those that were drawn before."""
    n_drawn: int
    """Requests that were drawn in all draws."""
    n_scored: int
    """Scored requests, from which they were drawn."""
    n_metrics: int
    """Metrics of which the disagreement was used."""


def draw_to_label(store: str | os.PathLike[str], n: int, *, seed: int | None = None) -> DrawnSample:
    """Draw scored requests of a store that people should label, and keep the probabilities of all.

    Half of the expected number is drawn uniformly, and half in proportion to the disagreement of the metrics: the
    largest difference between the scores of a request, each scaled to 0 (worst) to 1 (best). With one metric, scores
    near the middle of the range count as disagreement. Every request has a positive probability, so labels of drawn
    requests represent all. Draws are independent, and the probability of a request is that of being drawn in any of
    them. Raise ConfigurationError if `n` is not positive. Raise DataError if the store does not contain scores of a
    metric with a finite range. Raise StoreError if the store cannot be read, or labels cannot be saved.
    """
    if n < 1:
        raise ConfigurationError(f"the number of requests to draw must be at least 1, got {n}")
    table, _ = StoredRequests(Period(store), None, Analysis(cluster=NO_CLUSTER), only_planned=False).table()
    disagreement, n_metrics = disagreements(table)
    with open_store(store, mode="read") as opened:
        for removed in opened.upkeep.removed_texts():
            disagreement.pop(removed.trace_id, None)
    if not disagreement:
        raise DataError(f"{describe_store(store)!r} does not contain scores of a metric with a range. Score it first")
    rng = random.Random(seed)  # noqa: S311  not secret
    probabilities = draw_probabilities(disagreement, n)
    chosen = _systematic_sample(probabilities, rng)
    with open_for_labels(store) as opened:
        known = {request.trace_id: request for request in opened.labels.drawn()}
        places = {trace_id: each.position for trace_id, each in known.items() if each.position is not None}
        new = [trace_id for trace_id in chosen if trace_id not in places]
        first = max(places.values(), default=-1) + 1
        places |= {trace_id: first + n for n, trace_id in enumerate(new)}
        before = {trace_id: each.probability for trace_id, each in known.items()}
        opened.labels.save(
            [
                DrawnRequest(each, 1 - (1 - before.get(each, 0.0)) * (1 - probability), places.get(each))
                for each, probability in probabilities.items()
            ]
        )
    settle_labels(store)
    return DrawnSample(n_new=len(new), n_drawn=len(places), n_scored=len(probabilities), n_metrics=n_metrics)


def disagreements(table: ScoreTable) -> tuple[dict[str, float], int]:
    """Return how much the metrics disagree about each scored request, and the number of metrics."""
    bounded = [name for name, metric in table.metrics.items() if math.isfinite(metric.high - metric.low)]
    scaled: dict[str, list[float]] = {}
    for metric in bounded:
        for trace_id, value in table.by_sample(metric).items():
            scaled.setdefault(trace_id, []).append(table.metrics[metric].card.goodness(value))
    if len(bounded) > 1:
        return {trace_id: max(values) - min(values) for trace_id, values in scaled.items()}, len(bounded)
    return {trace_id: 1 - abs(2 * value - 1) for trace_id, (value,) in scaled.items()}, len(bounded)


def draw_probabilities(sizes: Mapping[str, float], n: int) -> dict[str, float]:
    """Return the probability of each request, whose sum is `n` (or the number of requests, if that is smaller)."""
    total = sum(sizes.values())
    shares = {
        each: 0.5 / len(sizes) + (0.5 * size / total if total > 0 else 0.5 / len(sizes)) for each, size in sizes.items()
    }
    certain: set[str] = set()
    # A probability above 1 is cut, and its excess is distributed over the others.
    while True:
        rest = sum(share for each, share in shares.items() if each not in certain)
        left = n - len(certain)
        more = {each for each, share in shares.items() if each not in certain and left * share >= rest}
        if not more:
            break
        certain |= more
    return {each: 1.0 if each in certain else left * share / rest for each, share in shares.items()}


def _systematic_sample(probabilities: Mapping[str, float], rng: random.Random) -> list[str]:
    """Draw with the given probabilities, and return the drawn requests in a random order.

    Source:
        Systematic sampling of a list in random order: Goodman and Kish 1950.
    """
    order = list(probabilities)
    rng.shuffle(order)
    chosen, reached, next_mark = [], 0.0, rng.random()
    for each in order:
        reached += probabilities[each]
        if next_mark < reached:
            chosen.append(each)
            next_mark += 1
    rng.shuffle(chosen)
    return chosen


def drawn_rows(store: str | os.PathLike[str]) -> list[dict[str, str]]:
    """Return the drawn requests without a label, in their order, as rows that `add_labels` reads when their labels are filled in.

    Raise StoreError if the store cannot be read.
    """
    with open_for_labels(store) as opened:
        labeled = {label.trace_id for label in opened.labels.read()}
        wanted = [each.trace_id for each in opened.labels.drawn() if each.position is not None]
        traces = [opened.traces.get(trace_id) for trace_id in wanted if trace_id not in labeled]
    return [
        {
            "trace_id": trace.trace_id,
            "question": trace.query or "",
            "answer": trace.response or "",
            "reference": " | ".join(trace.reference or ()),
            "label": "",
        }
        for trace in traces
        if trace is not None
    ]


def add_labels(
    store: str | os.PathLike[str],
    source: SampleSource,
    *,
    author: str,
    label_columns: Sequence[str] = (),
    label_range: tuple[float, float] | None = None,
    label_values: Sequence[str] = (),
    rows: str | None = None,
) -> AddedLabels:
    """Save the labels of a file (rows, or a known layout of labels), and return their number.

    A row has the id of a request (`trace_id`) or its question, a `label`, and optionally an `author`. Labels are words
    (correct, partly, wrong) or numbers. Rows with an empty label are skipped. The label of an answer is the mean of
    those of its claims, passages or sub-questions. Raise ConfigurationError if the range is invalid, or several columns
    are named. Raise DataError if a row is invalid. Then no label is saved. Raise StoreError if the store cannot be
    read, or labels cannot be saved.
    """
    if len(label_columns) > 1 or any("=" in text for text in label_columns):
        raise ConfigurationError(
            f"a store has one label of an answer, and no metric of it. Name one column: --label COLUMN, got "
            f"{', '.join(label_columns)}"
        )
    file = read_label_file(
        source, columns=label_columns, bounds=label_range, categories=label_values, default_bounds=(0.0, 1.0), rows=rows
    )
    now = time.time()
    labels: list[StoredLabel] = []
    bad = [(each.position, each.reason) for each in file.rejected]
    with open_for_labels(store) as opened:
        requests = _Requests(opened)
        for each in by_answer(file.records):
            try:
                low, high = each.bounds or (0.0, 1.0)
                share = (each.value - low) / (high - low)
                labels.append(StoredLabel(requests.find(each), each.annotator or author, share, now))
            except DataError as error:
                bad.append((each.position, f"row {each.position}: {error}"))
        if bad:
            reasons = group_reasons(reason for _, reason in sorted(bad))
            more = f", and {len(reasons) - _BAD_ROWS:,} more" if len(reasons) > _BAD_ROWS else ""
            raise DataError(
                f"no label was saved, because {count(len(bad), 'row is', 'rows are')} invalid: "
                f"{'; '.join(reasons[:_BAD_ROWS])}{more}"
            )
        if not labels:
            raise DataError("the data does not contain labels. Fill in the column label of at least one row")
        last = {(label.trace_id, label.author): label for label in labels}
        before = {(label.trace_id, label.author): label.value for label in opened.labels.read()}
        opened.labels.save(list(last.values()))
    settle_labels(store)
    n_replaced = sum(before.get(key) is not None for key in last)
    return AddedLabels(
        n=len(last),
        n_new=len(last) - n_replaced,
        n_replaced=n_replaced,
        n_repeated=len(labels) - len(last),
        notes=tuple(file.notes),
    )


class _Requests:
    """Finds the requests that labels are about."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._by_question: dict[str | None, list[str]] | None = None

    def find(self, label: LabelRecord) -> str:
        """Return the trace id of a label.

        Raise DataError if the label is about two answers, or names no request of the store, or a question that several
        requests have.
        """
        if label.level == "pair" or any(part.passage is not None for part in label.parts):
            what = "a preference between two answers" if label.level == "pair" else "a rating of a passage"
            raise DataError(f"{what} is not a label of one answer. Use `ragstone lab judge-card --labels FILE`")
        id_, question = label.trace_id or label.sample_id, label.query
        if id_ is not None:
            id_ = unguarded(id_)  # `labels draw` writes it as `guarded` returns it
            request = self._store.traces.answers([id_]).get(id_)
            if request is None:
                raise DataError(f"the store does not contain a request with the id {id_!r}")
            asked = None if request.trace is None else request.trace.query
            shown = {None, fingerprint(asked), fingerprint(asked and guarded(asked))}
            if None not in (question, asked) and fingerprint(question) not in shown:
                raise DataError(
                    f"the request {id_!r} has the question {shorten_question(asked)}, not {shorten_question(question)}. Correct "
                    "the id, or remove the question"
                )
            return id_
        if question is None:
            raise DataError("a row needs trace_id or question, and label")
        if self._by_question is None:
            self._by_question = {}
            for trace in self._store.traces.read():
                self._by_question.setdefault(fingerprint(trace.query), []).append(trace.trace_id)
        found = self._by_question.get(fingerprint(question), [])
        if len(found) != 1:
            n = f"{len(found)} requests have" if found else "no request has"
            raise DataError(f"{n} the question {question[:80]!r}. Name the request by its trace_id")
        return found[0]
