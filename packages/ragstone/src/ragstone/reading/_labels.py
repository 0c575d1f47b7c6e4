"""Labels of people, read from files in the layouts of public sources, and from any rows with a label."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal

from ragstone._util.quantities import count, label_of, text_of
from ragstone.errors import ConfigurationError, DataError
from ragstone.reading._columns import FIELD_ALIASES, name_key
from ragstone.reading._evidence import paths_in
from ragstone.reading._json import load_document
from ragstone.reading._layouts import find_layout, rows_of
from ragstone.reading._row_lists import Choice
from ragstone.reading._row_values import finite, is_missing, path_steps
from ragstone.reading._rows import RowReader
from ragstone.reading._samples import RejectedRow, SampleSource, iter_rows
from ragstone.reading._source import InputFile
from ragstone.schema import Sample, fingerprint

_Bounds = tuple[float, float] | None
LabelLevel = Literal["answer", "claim", "passage", "sub-question", "pair"]
"""What a label is about. A label of a pair compares two answers."""

GENERIC_LABELS: Final = ("label", "rating", "human", "grade", "score", "value")
"""Columns of labels that need not be named."""
_WORDS: Final = {
    **dict.fromkeys(("correct", "yes", "true", "pass", "good", "relevant"), 1.0),
    **dict.fromkeys(("partly", "partial", "partly correct"), 0.5),
    **dict.fromkeys(("wrong", "no", "false", "fail", "incorrect", "bad", "irrelevant"), 0.0),
}
"""Labels that are words, as shares of their scale."""
_LARGEST: Final = 1e100
"""Maximum absolute label: squares and sums of larger values overflow."""
_IDS: Final = (*FIELD_ALIASES["id"], "trace_id")
_ANNOTATORS: Final = ("rater", "annotator", "author", "labeler", "labeller", "completed_by", "user_id", "user")
_CONTAINERS: Final = ("data", "fields")
"""Objects with the texts of a row in exports of Label Studio and Argilla."""
_DECIMAL: Final = re.compile(r"[-+]?\d++,\d{1,2}")
"""A number with a decimal comma. With three digits after it, the comma may separate thousands."""
_UNITS: Final[Mapping[LabelLevel, tuple[str, ...]]] = {
    "claim": ("claim", "claims", "statement", "statements"),
    "passage": ("passage", "passages", "passage_id", "doc_id", "document_id", "chunk_id", "contexts"),
    "sub-question": ("sub_question", "sub_questions", "subquestion"),
}
"""Columns that name the part of an answer that a row labels, and (in the plural) lists with a label of each part."""
_EMPTY: Final = frozenset({"", "nan", "none", "null", "n/a"})
_MAX_CANDIDATE_VALUES: Final = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRecord:
    """One label of one person."""

    position: int
    """1-based position of the row."""
    sample_id: str | None
    """None if the row does not have an id."""
    first: int | None = None
    """1-based position of the first row of the same answer. None if labels are not of a file."""
    trace_id: str | None = None
    value: float
    name: str
    """Column, or name of the label in the file."""
    metric: str | None = None
    """The metric that the file or the caller names."""
    bounds: _Bounds = None
    """Lowest and highest possible label. None: not stated."""
    annotator: str | None = None
    system: str | None = None
    query: str | None = None
    level: LabelLevel = "answer"
    unit: str | None = None
    """The claim, passage or sub-question."""
    passage: str | None = None
    """Id of the passage of a label about a passage and a sub-question."""
    parts: tuple[LabelRecord, ...] = ()
    """The labels of parts whose mean this label of an answer is."""
    other_id: str | None = None
    """The other answer of a pair. The label is high if `sample_id` is better, and low if this answer is better."""

    @property
    def sample_ids(self) -> tuple[str, ...]:
        """Ids of the labeled sample, or of both samples of a pair, as far as they are known."""
        return tuple(id_ for id_ in (self.sample_id, self.other_id) if id_ is not None)

    @property
    def key(self) -> str:
        """The id of what is labeled: the sample, or the pair."""
        return " against ".join(self.sample_ids)


@dataclass(slots=True, kw_only=True)
class LabelFile:
    """The labels of a file, and what is unknown about them."""

    layout: str | None = None
    """Name of a known layout."""
    n_rows: int = 0
    records: list[LabelRecord] = field(default_factory=list)
    samples: list[Any] = field(default_factory=list)
    """Rows of the labeled samples, each once, with their ids."""
    rejected: list[RejectedRow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Statements about empty labels, scales and parts of answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A row of a known layout: labels by name, and the sample."""

    labels: Mapping[str, Any]
    sample: Mapping[str, Any]
    annotator: str | None = None
    other: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class _Layout:
    """A known layout: the keys that all its rows have, and how its rows are read."""

    name: str
    keys: str
    rows: Callable[[Any], Iterator[_Row]]
    within: Literal["rows", "lists", "document"] = "rows"
    """Whether the keys are those of a row, of a row of the first list in an object, or of the object."""
    bounds: _Bounds = None
    prefix: str = ""
    """Namespace of metrics that have the names of the labels."""


def read_label_file(
    source: SampleSource,
    *,
    columns: Sequence[str] = (),
    metrics: Sequence[str] = (),
    bounds: _Bounds = None,
    categories: Sequence[str] = (),
    default_bounds: _Bounds = None,
    rows: str | None = None,
    fields: Mapping[str, str] | None = None,
) -> LabelFile:
    """Read the labels of a file or of rows.

    Args:
        source: Rows with labels, or a file in the layout of ARES, of RAGChecker's pairs, of ragas' annotations or of
            MTRAG's human evaluation.
        columns: Columns of labels: NAME, NAME=METRIC, or LIST.NAME for a label in each object of a list. Default:
            columns named like metrics, otherwise `label` and the like, or the only label of a known layout.
        metrics: Names of metrics that may be columns.
        bounds: Lowest and highest possible label. None: those that the layout states.
        categories: Labels that are texts, lowest first. Their values are 0, 1, 2, ...
        default_bounds: Lowest and highest possible label if neither the caller nor the layout states them.
        rows: Dotted path of the list in a document with several, or the name of a sheet. Then it does not have a layout.
        fields: Columns of the question, the response and the id, by field of a sample, if the known names do not match.
    """
    if bounds is not None and not (all(map(math.isfinite, bounds)) and bounds[0] < bounds[1]):
        raise ConfigurationError(f"a label range must be finite with low < high, got {bounds}")
    wanted = {name: metric or None for name, _, metric in (text.partition("=") for text in columns)}
    document = None if rows else _document(source)
    listed = list(iter_rows(source, Choice(rows=rows))) if document is None else document
    layout = next((each for each in LAYOUTS if _has_keys(listed, each)), None)
    collected = _Collector(bounds, categories, default_bounds)
    if layout is None:
        listed = list(iter_rows(source)) if isinstance(listed, Mapping) else list(listed)
        _generic(listed, wanted, metrics, fields or {}, collected)
    else:
        _known(layout, listed, wanted, metrics, collected)
    return collected.finish()


def by_answer(records: Iterable[LabelRecord]) -> list[LabelRecord]:
    """Return one label for each answer, name and person: the mean over its claims, passages or sub-questions."""
    groups: dict[tuple[Any, ...], list[LabelRecord]] = {}
    for n, each in enumerate(records):
        answer = each.sample_id or each.first
        key = (answer, each.name, each.metric, each.annotator, each.system, n if each.unit is None else "")
        groups.setdefault(key, []).append(each)
    return [
        replace(
            group[0],
            value=math.fsum(each.value for each in group) / len(group),
            unit=None,
            passage=None,
            parts=() if group[0].unit is None else tuple(group),
        )
        for group in groups.values()
    ]


def _document(source: SampleSource) -> Any:
    """Return the content of a JSON document, because a layout may have several lists. None for other sources."""
    if (
        not isinstance(source, str | os.PathLike)
        or Path(source).suffix.lower() != ".json"
        or not Path(source).is_file()
    ):
        return None
    value = load_document(InputFile(Path(source), os.fspath(source)))
    return value if isinstance(value, Mapping | list) else None


def _has_keys(rows: Any, layout: _Layout) -> bool:
    keys = set(layout.keys.split())
    if layout.within == "document":
        return isinstance(rows, Mapping) and keys <= rows.keys()
    if layout.within == "lists":
        rows = next(iter(rows.values()), None) if isinstance(rows, Mapping) else None
    first = rows[0] if isinstance(rows, list) and rows else None
    return isinstance(first, Mapping) and keys <= first.keys()


def _passage_rows(rows: Any) -> Iterator[_Row]:
    """ARES: one passage and its labels in a row."""
    for position, row in enumerate(rows, start=1):
        row = _object_of(row, position)  # noqa: PLW2901
        sample = {"query": row["Query"], "contexts": [row["Document"]], "response": row["Answer"]}
        labels = {name: row[name] for name in row if name and name.endswith("_Label")}
        yield _Row(labels=labels, sample={"id": str(position), **sample})


def _pair_rows(rows: Any) -> Iterator[_Row]:
    """RAGChecker: two answers and the preference of a person. The order of the rows of a pair separates people."""
    people: Counter[Any] = Counter()
    for position, row in enumerate(rows, start=1):
        layout = find_layout(row)
        if layout is None:
            raise DataError(
                f"pair {position} does not have the keys of the pairs before it: {', '.join(map(str, row))[:200]}"
            )
        people[row["instance_id"]] += 1
        first, second = rows_of(row, layout, {})
        labels = {name: value for name, value in row.items() if name.endswith("_label")}
        yield _Row(labels=labels, sample=second, other=first, annotator=str(people[row["instance_id"]]))


def _annotation_rows(document: Any) -> Iterator[_Row]:
    """ragas: scores of a metric that a person accepted, or corrected with a target."""
    ids: dict[str, str] = {}
    for metric, rows in document.items():
        is_binary = all(row.get("metric_output") in (0, 1) for row in rows)
        for row in rows:
            sample = row["metric_input"]
            id_ = ids.setdefault(json.dumps(sample, sort_keys=True, default=str), str(len(ids) + 1))
            value = row.get("metric_output")
            if not row["is_accepted"]:
                # A rejected score is wrong. Without a target, the right one is known only if there is one other.
                value = row["target"] if row.get("target") is not None else 1 - value if is_binary else None
            yield _Row(labels={metric: value}, sample={"id": id_, **sample})


def _evaluation_rows(document: Any) -> Iterator[_Row]:
    """MTRAG: labels by metric and person of each answer of a model to a task."""
    texts = {each.get("document_id"): each for each in document["documents"]}
    tasks = {each["task_id"]: each for each in document["tasks"]}
    numbers = {
        each["name"]: {value["value"]: value.get("numeric_value") for value in each.get("values", ())}
        for each in document["metrics"]
    }
    for row in document["evaluations"]:
        task = tasks[row["task_id"]]
        sample = {
            "id": f"{row['task_id']}+{row['model_id']}",
            "messages": [{"role": each.get("speaker"), "content": each.get("text")} for each in task["input"]],
            "contexts": [_passage(each, texts) for each in task.get("contexts", ())],
            "response": row.get("model_response"),
            "reference": [each["text"] for each in task.get("targets", ())],
        }
        annotations = row.get("annotations", {})
        for person in dict.fromkeys(name for by_person in annotations.values() for name in by_person):
            labels = {}
            for metric, by_person in annotations.items():
                if person in by_person:
                    value = by_person[person].get("value")
                    labels[metric] = numbers.get(metric, {}).get(value, value)
            yield _Row(labels=labels, sample=sample, annotator=person)


def _passage(each: Mapping[str, Any], texts: Mapping[Any, Mapping[str, Any]]) -> dict[str, Any]:
    id_ = each.get("document_id")
    text = each.get("text", texts.get(id_, {}).get("text"))
    if text is None:
        raise DataError(f"the document {id_!r} of a task is not in the list of documents")
    return {"id": id_, "text": text}


LAYOUTS: Final = (
    _Layout("ARES", "Query Document Answer", _passage_rows, bounds=(0, 1)),
    _Layout("RAGChecker pairs", "instance_id query_id model1 model2", _pair_rows, bounds=(-2, 2)),
    _Layout("ragas annotations", "metric_input metric_output is_accepted", _annotation_rows, "lists", prefix="ragas."),
    _Layout("the MTRAG human evaluation", "metrics documents tasks evaluations", _evaluation_rows, "document"),
)


def _stated_bounds(layout: _Layout, document: Any) -> Callable[[str], _Bounds]:
    """Return the range of each label that the layout or the document states."""
    ranges: dict[str, _Bounds] = {}
    for each in document["metrics"] if layout.rows is _evaluation_rows else ():
        stated = [value["numeric_value"] for value in each.get("values", ()) if value.get("numeric_value") is not None]
        stated += (each.get("range") or ())[:2]
        if len(stated) > 1:
            ranges[each["name"]] = (float(min(stated)), float(max(stated)))
    return lambda name: ranges.get(name, layout.bounds)


def _known(
    layout: _Layout, document: Any, wanted: Mapping[str, str | None], metrics: Sequence[str], collected: _Collector
) -> None:
    try:
        rows = list(layout.rows(document))
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"the file has the layout of {layout.name}, but {error!r} is missing or of another type"
        ) from error
    bounds_of = _stated_bounds(layout, document)
    names = list(dict.fromkeys(name for row in rows for name in row.labels))
    own = {name: f"{layout.prefix}{name}" for name in names if f"{layout.prefix}{name}" in metrics}
    chosen = {name: metric or own.get(name) for name, metric in wanted.items()} or own
    if unknown := [name for name in chosen if name not in names]:
        raise DataError(
            f"no row in the layout of {layout.name} has the label {unknown[0]!r}. Labels: {', '.join(names)}"
        )
    if not chosen and len(names) != 1:
        options = ", ".join(f"--label {shlex.quote(f'{name}=METRIC')}" for name in names)
        raise DataError(f"the layout of {layout.name} has {len(names)} labels. Choose one or several: {options}")
    collected.file.layout, collected.file.n_rows = layout.name, len(rows)
    for position, row in enumerate(rows, start=1):
        sample, other = row.sample, row.other
        record = partial(
            LabelRecord,
            position=position,
            first=position,
            sample_id=sample["id"],
            annotator=row.annotator,
            query=sample.get("query", sample.get("user_input")),
            level="answer" if other is None else "pair",
            other_id=None if other is None else other["id"],
        )
        for each in (sample,) if other is None else (other, sample):
            collected.add_sample(each)
        for name, metric in (chosen or dict.fromkeys(names)).items():
            if name in row.labels:
                collected.add(row.labels[name], record, name, metric, bounds_of(name))
    if layout.rows is _annotation_rows:
        collected.file.notes.append(
            "an accepted score is a person's label. The label of a rejected one is its target, or without a target the "
            "other one of 0 and 1 if the metric does not have other scores, otherwise unknown"
        )


def _generic(
    rows: Sequence[Any],
    wanted: Mapping[str, str | None],
    metrics: Sequence[str],
    fields: Mapping[str, str],
    collected: _Collector,
) -> None:
    collected.file.n_rows = len(rows)
    reader = RowReader(fields)
    near = cache(lambda: [*_proposals(rows)])
    for position, row in enumerate(rows, start=1):
        try:
            row = _with_texts(_object_of(row, position))  # noqa: PLW2901
            id_, annotator, system, query, trace_id = (
                None if (value := _first(row, names)) is None else text_of(value)
                for names in (_IDS, _ANNOTATORS, ("system",), FIELD_ALIASES["query"], ("trace_id",))
            )
            part = _unit_of(row)
            sample = None
            with suppress(DataError):  # rows of labels may have no texts
                sample = reader.read(row, position)
            id_ = sample.id if sample is not None and "id" in fields else id_
            first = collected.first_row(sample, position, None if id_ is None else (id_, system), has_part=bool(part))
            collected.add_sample({**row, "id": id_ or str(first)})
            record = partial(
                LabelRecord,
                position=position,
                first=first,
                sample_id=id_,
                trace_id=trace_id,
                annotator=annotator,
                system=system,
                query=query,
            )
            for name, metric, cell in _cells(row, position, wanted, metrics, near):
                for item, more in _items(cell, name, position):
                    collected.add(item, partial(record, **(part | more)), name, metric)
        except DataError as error:
            collected.reject(position, str(error))


def _items(cell: Any, name: str, position: int) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield the labels of a column, with the person or the part that each is about if the column has a list.

    Raise DataError if a list has several labels, and does not say of whom or of which parts.
    """
    if not isinstance(cell, list):
        yield cell, {}
        return
    column = name.partition(".")[0]
    part = next((level for level, names in _UNITS.items() if column in names), None)
    if part is None and len(cell) > 1 and any(person is None for person, _ in cell):
        raise DataError(
            f"row {position}: {column!r} is a list of {len(cell)} labels, and it does not say whose they are, or of which parts. "
            "Name the person in each object (annotator), or name a list of parts claims, passages or sub_questions"
        )
    for n, (person, item) in enumerate(cell):
        yield item, {"level": part, "unit": str(n)} if part else {} if person is None else {"annotator": person}


def _with_texts(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the row with the fields of the object that has its texts. The names of the row win."""
    inner: Mapping[str, Any] = next((row[key] for key in _CONTAINERS if isinstance(row.get(key), Mapping)), {})
    return {**inner, **row}


def _object_of(row: Any, position: int) -> Mapping[str, Any]:
    if isinstance(row, DataError):
        raise row
    if not isinstance(row, Mapping):
        raise DataError(f"row {position}: a row must be an object with an id and a label, got {type(row).__name__}")
    return row


class _Collector:
    """Reads the labels of a file as numbers, and counts what is empty or not stated."""

    def __init__(self, bounds: _Bounds, categories: Sequence[str], default: _Bounds) -> None:
        self.file = LabelFile()
        self._bounds = (0.0, len(categories) - 1.0) if categories else bounds
        self._default = default
        self._categories = {text.strip().casefold(): float(n) for n, text in enumerate(categories)}
        self._n: Counter[str] = Counter()
        self._empty: Counter[str] = Counter()
        self._words: Counter[str] = Counter()
        self._ids: set[str] = set()
        self._first: dict[Any, int] = {}
        self._answers: dict[tuple[str, str | None], tuple[int, list[str | None]]] = {}

    def first_row(
        self, sample: Sample | None, position: int, id_: tuple[str, str | None] | None, *, has_part: bool
    ) -> int:
        """Return the first row of the same answer: by its id, or by its question, history and response.

        Other passages are another answer, unless the row is about a part, such as one passage. Raise DataError if an
        earlier row with the id has another question or response.
        """
        if sample is None:
            return position
        texts = [fingerprint(sample.query, sample.history), fingerprint(sample.response)]
        if id_ is not None:
            first, known = self._answers.setdefault(id_, (position, texts))
            if any(None not in pair and pair[0] != pair[1] for pair in zip(known, texts, strict=True)):
                raise DataError(
                    f"row {position} has the id {id_[0]!r} of row {first} and another question or response. Give each "
                    "answer its own id"
                )
            return first
        passages = None if has_part or sample.contexts is None else tuple(each.text for each in sample.contexts)
        return self._first.setdefault(position if None in texts else (*texts, passages), position)

    def add_sample(self, row: Mapping[str, Any]) -> None:
        """Keep the row of a sample, once."""
        if row["id"] not in self._ids:
            self._ids.add(row["id"])
            self.file.samples.append(row)

    def reject(self, position: int, reason: str) -> None:
        """Keep the reason why a row, or one of its labels, cannot be read."""
        self.file.rejected.append(RejectedRow(position=position, reason=reason))

    def add(
        self, cell: Any, record: partial[LabelRecord], name: str, metric: str | None, stated: _Bounds = None
    ) -> None:
        """Read a label within the range of the caller, of the layout, or the default. An invalid one is rejected with its row."""
        self._n[name] += 1
        bounds = self._bounds or stated or self._default
        try:
            value = self._read(cell, bounds)
        except DataError as error:
            position = record.keywords["position"]
            self.reject(position, f"row {position}: {error}")
            return
        if value is None:
            self._empty[name] += 1
        else:
            self._words[name] += str(cell).strip().casefold() in _WORDS
            self.file.records.append(record(value=value, name=name, metric=metric, bounds=bounds))

    def _read(self, cell: Any, bounds: _Bounds) -> float | None:
        """Return the number of a label, or None if it is empty."""
        cell = cell.item() if getattr(cell, "shape", None) == () else cell
        text = str(cell).strip().casefold()
        if cell is None or text in _EMPTY:
            return None
        low, high = bounds or (0.0, 1.0)
        if self._categories:
            if text not in self._categories:
                raise DataError(f"a label must be one of {', '.join(self._categories)}, got {cell!r}")
            return self._categories[text]
        if text in _WORDS:
            return low + _WORDS[text] * (high - low)
        span = "" if bounds is None else f" from {low:g} to {high:g}"
        rule = f"a label must be correct, partly, wrong or a number{span}, got {cell!r}"
        try:
            number = float(_with_point(text) if isinstance(cell, str) else cell)
        except (TypeError, ValueError):
            known = ", ".join(_WORDS)
            raise DataError(
                f"{rule}. Known words: {known}. Name other texts, lowest first: --set research.label_values=TEXT,TEXT"
            ) from None
        if abs(number) > _LARGEST:
            raise DataError(f"a label must be finite and within {_LARGEST:g}, got {cell!r}")
        if bounds is not None and not low <= number <= high:
            raise DataError(f"{rule}. State another scale: --set research.label_range=LOW,HIGH")
        return number

    def finish(self) -> LabelFile:
        """Add the notes."""
        notes = [
            f"{name}: {n} of {count(self._n[name], 'label')} {'is' if n == 1 else 'are'} empty, so unknown"
            for name, n in self._empty.items()
        ]
        for name in self._n:
            records = [each for each in self.file.records if each.name == name]
            values = [each.value for each in records]
            if values and records[0].bounds is None and self._words[name]:
                if not all(0 <= value <= 1 for value in values):
                    raise DataError(
                        f"{name} has words (such as yes) and numbers outside of 0 to 1. State the scale, of which "
                        "words are the ends or the middle: --set research.label_range=LOW,HIGH"
                    )
                self.file.records = [
                    replace(each, bounds=(0.0, 1.0)) if each.name == name else each for each in self.file.records
                ]
            elif values and records[0].bounds is None:
                notes.append(
                    f"{name}: the scale is not stated. The labels are from {min(values):g} to {max(values):g}, and the "
                    "range is guessed from them and the metric's. State it: --set research.label_range=LOW,HIGH"
                )
            units = [each for each in records if each.unit is not None]
            if units and units[0].passage is not None:
                notes.append(
                    f"{name}: {len(units)} labels of a passage and a sub-question, which are not labels of an answer"
                )
            elif len(units) > len(by_answer(units)):
                notes.append(f"{name}: {len(units)} labels of {units[0].level}s. Their mean is the label of an answer")
        self.file.notes = [*notes, *self.file.notes]
        return self.file


def _with_point(text: str) -> str:
    """Return a number with a decimal comma with a decimal point, and any other text as it is."""
    return text.replace(",", ".") if _DECIMAL.fullmatch(text) else text


def _first(row: Mapping[Any, Any], names: Sequence[str]) -> Any:
    """Return the first value of these columns. Case, blanks, `-` and `_` in their names do not matter."""
    values = {name_key(name): value for name, value in row.items() if not is_missing(value) and value != ""}
    return next((values[key] for key in map(name_key, names) if key in values), None)


def _unit_of(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the fields of a record for the part that a row labels, which are empty for a whole answer."""
    found = {level: _first(row, [name for name in names if not name.endswith("s")]) for level, names in _UNITS.items()}
    named = {level: label for level, unit in found.items() if (label := label_of(unit)) is not None}
    if named.keys() == {"passage", "sub-question"}:
        return {"level": "sub-question", "unit": named["sub-question"], "passage": named["passage"]}
    return next(({"level": level, "unit": unit} for level, unit in named.items()), {})


def _cells(
    row: Mapping[str, Any],
    position: int,
    wanted: Mapping[str, str | None],
    metrics: Sequence[str],
    near: Callable[[], Sequence[str]],
) -> list[tuple[str, str | None, Any]]:
    """Return the label columns of a row: name, metric if it is known, and value."""
    stated = _first(row, ("metric",))
    if wanted:
        return [
            (name, metric or stated or (name if name in metrics else None), _at(row, name, position))
            for name, metric in wanted.items()
        ]
    named = [(metric, metric, _at(row, metric, position)) for metric in metrics if metric in row]
    if named and stated is None:
        return [*named]
    generic = next((name for known in GENERIC_LABELS for name in row if name_key(name) == known), None)
    if generic is None:
        raise DataError(
            f"row {position} does not have a label: neither a column named like a metric{_examples(metrics)} nor one "
            f"of {', '.join(GENERIC_LABELS)}. Name the column: {', '.join(near()) or '--label COLUMN'}, or "
            f"--label COLUMN=METRIC. Columns: {', '.join(map(str, row))}"
        )
    return [(generic, stated, _at(row, generic, position))]


def _examples(metrics: Sequence[str]) -> str:
    return f" ({', '.join(metrics[:5])}{', ...' if len(metrics) > 5 else ''})" if metrics else ""


def _at(row: Mapping[str, Any], name: str, position: int) -> Any:
    """Return the value of a column, or the labels in a list or at a path (`claims.label`) with the people who gave them."""
    steps = (name,) if name in row else tuple(step for step in path_steps(name) if step != "[]")
    if steps[:1] == () or steps[0] not in row:
        raise DataError(f"row {position} does not have a column {name!r}. Columns: {', '.join(map(str, row))}.")
    value = row[steps[0]]
    return [*_labels_in(value, steps[1:])] if isinstance(value, list | Mapping) else value


def _labels_in(value: Any, steps: Sequence[str], person: str | None = None) -> Iterator[tuple[str | None, Any]]:
    """Yield the labels at a path in objects and lists, each with the person that an object around it names."""
    if isinstance(value, list):
        for item in value:
            yield from _labels_in(item, steps, person)
    elif isinstance(value, Mapping) and steps:
        named = _first(value, _ANNOTATORS)
        named = _first(named, ("email", "id", "name")) if isinstance(named, Mapping) else named
        yield from _labels_in(value.get(steps[0]), steps[1:], person if named is None else text_of(named))
    else:
        yield person, None if steps else value


def _proposals(rows: Sequence[Any]) -> Iterator[str]:
    """Yield the options of columns and paths that contain only few numbers or words that labels consist of."""
    first = [_with_texts(row) for row in islice(rows, 200) if isinstance(row, Mapping)]
    paths = (path for row in first[:3] for name in row for path in paths_in(row[name], str(name), has_lists=True))
    no_labels = {name_key(name) for name in (*_IDS, *_ANNOTATORS, *FIELD_ALIASES["contexts"])}
    for path in dict.fromkeys(path.replace("[]", "") for path in paths):
        column, *steps = [path] if path in first[0] else path.split(".")
        found = [value for row in first if column in row for _, value in _labels_in(row[column], steps)]
        values = {str(value).strip().casefold() for value in found} - _EMPTY
        is_label = 1 < len(values) <= _MAX_CANDIDATE_VALUES and all(
            v in _WORDS or finite(_with_point(v)) is not None for v in values
        )
        if is_label and name_key(path.rpartition(".")[2]) not in no_labels:
            yield f"--label {shlex.quote(path)}"
