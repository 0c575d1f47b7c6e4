"""Human labels of a file or a store, and the metrics that they are compared with."""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ragstone.errors import DataError
from ragstone.experiments import OutcomeSource, SystemOutcomes, open_source, store_of
from ragstone.extension import count
from ragstone.metrics import all_metrics, full_name
from ragstone.reading import (
    GENERIC_LABELS,
    LabelFile,
    LabelRecord,
    SampleSource,
    build_rows_error,
    by_answer,
    read_label_file,
)
from ragstone.schema import Outcome, Score
from ragstone.store import DrawnRequest
from ragstone_lab._validation.sources import named_sources

_STEM: Final = 6
"""Characters by which a word in the name of a label is compared with those of metrics."""
_NOT_TOPICS: Final = frozenset({"label", "score", "answer", "context", "overal", "human", "ragas", "metric", "rate"})
_MAX_NEAR: Final = 4
RATING_MAX: Final = 5
"""Largest rating of a sub-question (CRUX)."""


def read_labels(
    source: SampleSource,
    *,
    metrics: Sequence[str],
    columns: Sequence[str] = (),
    label_range: tuple[float, float] | None = None,
    categories: Sequence[str] = (),
    fields: Mapping[str, str] | None = None,
) -> LabelFile:
    """Read the labels of a file or of rows.

    The source is as for `read_label_file`. `metrics` may be columns, and `columns` of labels are NAME or NAME=METRIC.
    `label_range` is the lowest and highest possible label. `categories` are labels that are texts, lowest first.
    `fields` are as for `read_samples`.
    """
    file = read_label_file(
        source, columns=columns, metrics=metrics, bounds=label_range, categories=categories, fields=fields
    )
    if file.rejected:
        n_bad = len({each.position for each in file.rejected})
        remedy = "Fix these labels. They cannot be skipped, because they are not missing at random"
        raise build_rows_error(file.rejected, file.n_rows - n_bad, remedy)
    if not file.records:
        raise DataError(
            f"the data does not contain labels ({count(file.n_rows, 'row')}, and empty or NaN labels are skipped). "
            "Label at least one row"
        )
    return file


def labels_of(
    file: LabelFile, metrics: Sequence[str], *, is_stated: bool, has_positions: bool = False
) -> list[LabelRecord]:
    """Return the labels of a file with the metrics that they are compared with.

    `is_stated` says that the caller has chosen the metrics, so that a label without a metric is compared with all. With
    `has_positions`, a row without an id has the position of the first row of its answer as id, because the rows are the
    samples.
    """
    unclear = [
        each.name for each in file.records if each.metric is None and each.name.strip().casefold() not in GENERIC_LABELS
    ]
    if unclear and not is_stated and len(metrics) > 1:
        raise DataError(
            f"it is not known which metric the label {unclear[0]!r} is about. Name it: {_suggest(unclear[0], metrics)}"
        )
    labels: list[LabelRecord] = []
    for each in by_answer(file.records):
        if each.sample_id is None and not has_positions:
            raise DataError(
                f"row {each.position} does not have an id of a sample (id, sample_id, query_id, trace_id, ...)"
            )
        metric = each.metric if each.metric is None or each.metric in metrics else full_name(each.metric)
        sample_id = str(each.first) if each.sample_id is None else each.sample_id
        labels.append(replace(each, sample_id=sample_id, metric=metric))
    times = Counter((each.key, each.metric, each.system, each.annotator) for each in labels)
    (key, metric, _, rater), n = times.most_common(1)[0]
    if n > 1:
        person = f"by {rater!r}" if rater else "without a name of a person"
        has_id = any(each.sample_id == key for each in file.records) or " against " in key
        raise DataError(
            f"{repr(key) if has_id else f'the answer of row {key}'} has {n} labels{'' if metric is None else f' of {metric}'} {person}. Name the person in a column "
            "(annotator), the part of the answer (claim, passage_id, sub_question), or the metric of each label "
            "(--label COLUMN=METRIC)"
        )
    return labels


def mean_labels(labels: Iterable[LabelRecord], system: str) -> dict[str, float]:
    """Return the mean label of each sample or pair of a system."""
    values: dict[str, list[float]] = {}
    for label in labels:
        if label.system in (None, system):
            values.setdefault(label.key, []).append(label.value)
    return {key: math.fsum(several) / len(several) for key, several in values.items()}


def compared_notes(file: LabelFile, metrics: Sequence[str]) -> list[str]:
    """Return the notes of a file, and which label is compared with which metric."""
    pairs = dict.fromkeys((each.name, each.metric) for each in file.records)
    return [
        *([] if file.layout is None else [f"labels: {count(file.n_rows, 'row')} in the layout of {file.layout}"]),
        *(
            f"the label {name} is compared with {metric or ', '.join(metrics)}"
            for name, metric in pairs
            if name != metric
        ),
        *file.notes,
    ]


def _suggest(name: str, metrics: Sequence[str]) -> str:
    """Return options that name the metric of a label, those with a similar name first."""
    words = _topics(name)
    cards = {metric.card.name: metric.card for metric in all_metrics()}
    near = [each for each in cards if words & _topics(f"{each} {cards[each].title}")]
    near.sort(key=lambda each: each not in metrics)
    return " or ".join(f"--label {shlex.quote(f'{name}={each}')}" for each in [*near, *metrics][:_MAX_NEAR])


def _topics(text: str) -> set[str]:
    return {word[:_STEM] for word in re.findall("[a-z]+", text.casefold()) if len(word) > 3} - _NOT_TOPICS


def with_pairs(system: SystemOutcomes, metric: str, labels: Iterable[LabelRecord]) -> SystemOutcomes:
    """Return the outcomes of one metric with the labeled pairs as samples, scored by the difference of their scores.

    Without pairs, the outcomes are returned as they are.
    """
    pairs = {each.key: each.sample_ids for each in labels if each.other_id is not None}
    if not pairs:
        return system
    outcomes: dict[str, Outcome] = {}
    for key, (first, second) in pairs.items():
        one, other = (system.outcomes[metric].get(id_) for id_ in (first, second))
        if isinstance(one, Score) and isinstance(other, Score):
            outcomes[key] = one.model_copy(update={"sample_id": key, "value": one.value - other.value})
        elif one is not None and other is not None:
            outcomes[key] = other if isinstance(one, Score) else one
    low, high = system.range_of(metric)
    card = system.cards.get(metric)
    cards = {} if card is None else {metric: replace(card, low=low - high, high=high - low)}
    return replace(system, outcomes={metric: outcomes}, cards=cards, inclusion_probabilities={}, labels={})


@dataclass(frozen=True, slots=True, kw_only=True)
class LabeledParts:
    """The verdicts of a metric on parts of answers, as outcomes from 0 to 1, and the labels of such parts."""

    system: SystemOutcomes
    labels: list[LabelRecord]
    sample_of: Mapping[str, str]
    """Id of the sample, by key of a part."""
    threshold: float
    """Verdict from which a part is supported or answered."""

    @property
    def level(self) -> str:
        """What a label is about."""
        first = self.labels[0]
        return first.level if first.passage is None else f"passage and {first.level}"


def labeled_parts(system: SystemOutcomes, metric: str, labels: Iterable[LabelRecord]) -> LabeledParts | None:
    """Return the labeled claims, sub-questions, or passages and sub-questions of a metric.

    None if no label is about such a part, or the details of the metric do not have verdicts on it. A rating answers a
    sub-question from the threshold of its sample on.
    """
    scored = {id_: o for id_, o in system.outcomes.get(metric, {}).items() if isinstance(o, Score)}
    parts = [replace(part, sample_id=label.sample_id, metric=metric) for label in labels for part in label.parts]
    verdicts = {id_: _verdicts(score.details) for id_, score in scored.items()} if parts else {}
    named = [_part_of(part, verdicts.get(str(part.sample_id), {})) for part in parts]
    if metric not in system.cards or not any(
        name in verdicts.get(str(part.sample_id), {}) for part, name in zip(parts, named, strict=True)
    ):
        return None
    thresholds = {score.details["eta"] for score in scored.values() if "eta" in score.details}
    if len(thresholds) > 1:
        raise DataError(
            f"{metric}: the samples have several rating thresholds ({', '.join(f'{each:g}' for each in sorted(thresholds))}), "
            "and verdicts on parts are compared with one. Compare the samples of each threshold by themselves"
        )
    threshold = next(iter(thresholds), RATING_MAX / 2) / RATING_MAX
    outcomes: dict[str, Outcome] = {}
    sample_of = {}
    for id_, by_part in verdicts.items():
        for name, verdict in by_part.items():
            sample_of[key := _part_key(id_, name)] = id_
            if verdict is not None:
                outcomes[key] = scored[id_].model_copy(update={"sample_id": key, "value": verdict, "details": {}})
    card = system.cards[metric]
    card = replace(card, low=0.0, high=1.0, neutral=threshold, direction="higher", decided_by=(), reachable="")
    return LabeledParts(
        system=replace(
            system, outcomes={metric: outcomes}, cards={metric: card}, inclusion_probabilities={}, labels={}, lengths={}
        ),
        labels=[
            replace(part, sample_id=_part_key(str(part.sample_id), name))
            for part, name in zip(parts, named, strict=True)
        ],
        sample_of=sample_of,
        threshold=threshold,
    )


def _part_of(label: LabelRecord, verdicts: Mapping[tuple[str, str], float | None]) -> tuple[str, str]:
    """Return the part that a label is about. A label in a list names a claim by its position, from 0."""
    part = _normalized(label.unit or ""), label.passage or ""
    if part not in verdicts and part[0].isdecimal() and int(part[0]) < len(verdicts):
        return [*verdicts][int(part[0])]
    return part


def _part_key(sample_id: str, part: tuple[str, str]) -> str:
    return " / ".join(filter(None, (sample_id, *part)))


def _normalized(text: str) -> str:
    return " ".join(text.casefold().split())


def _verdicts(details: Mapping[str, Any]) -> dict[tuple[str, str], float | None]:
    """Return the verdicts from 0 to 1, by claim or sub-question, and by passage if there is one, in their order.

    None: the judge gave none, or several (a claim that is right or wrong, and found or not).
    """
    found: dict[tuple[str, str], float | None] = {}
    listed = [row for name in ("claims", "reference_claims") for row in details.get(name) or ()]
    # Details of a metric of another package may contain anything.
    for n, row in enumerate(row for row in listed if isinstance(row, Mapping) and isinstance(row.get("claim"), str)):
        marks = [mark for mark in row.values() if mark is None or isinstance(mark, bool)]
        claim = _normalized(row["claim"])
        key = claim if (claim, "") not in found else f"{claim} ({n})"
        found[key, ""] = float(marks[0]) if len(marks) == 1 and marks[0] is not None else None
    for key, ratings in (details.get("ratings") or {}).items():
        for question, rating in zip(details.get("answerable") or (), ratings, strict=False):
            part = _normalized(question), "" if key == "response" else key
            found[part] = None if rating is None else rating / RATING_MAX
    return found


def read_stored_labels(
    sources: Sequence[OutcomeSource | Mapping[str, OutcomeSource]], systems: Sequence[SystemOutcomes]
) -> tuple[list[LabelRecord] | None, dict[str, Mapping[str, DrawnRequest]]]:
    """Return the labels, from 0 (wrong) to 1 (correct), that the stores among the sources contain, or None without any.

    Also return, by system, the requests that could be drawn to be labeled, by id.
    """
    labels: list[LabelRecord] = []
    draws: dict[str, Mapping[str, DrawnRequest]] = {}
    for (_, source), system in zip(named_sources(sources), systems, strict=True):
        if store_of(source) is None:
            continue
        # A source may be a period or a run of its store.
        human, ids = open_source(source).human_labels(), system.sample_ids
        common: dict[str, Any] = {"name": "label", "system": system.name, "bounds": (0.0, 1.0)}
        stored = [
            LabelRecord(position=n, sample_id=each.trace_id, value=each.value, annotator=each.author, **common)
            for n, each in enumerate(human.labels, start=1)
            if each.value is not None and each.trace_id in ids
        ]
        if stored:
            draws[system.name] = {each.trace_id: each for each in human.drawn}
        labels += stored
    return labels or None, draws
