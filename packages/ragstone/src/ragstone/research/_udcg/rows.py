"""Rows for UDCG's experiments: several contexts of one question, graded answers, and what passages were found to be worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ragstone.data import SampleSource, build_rows_error, iter_rows, read_samples
from ragstone.errors import DataError
from ragstone.metrics import LabelMode, PassageUtility
from ragstone.schema import FIELD_ALIASES, Passage, Sample

__all__ = [
    "GRADES",
    "ContextRow",
    "PassageRating",
    "annotation_of",
    "rating_from",
    "rating_of",
    "read_contexts",
    "row_of",
]

GRADES: Final[Mapping[str, int]] = {"correct": 2, "abstain": 1, "wrong": 0}
"""What an answer is worth: to be right is better than to abstain, and that is better than to be wrong."""

_QUESTION: Final = "question_id"
_IDS: Final = frozenset(FIELD_ALIASES["id"]) - {_QUESTION}
_ANNOTATION: Final = "udcg"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRow:
    """One context of a question, with the grade of the answer that was made from it, where it is known."""

    question: str
    sample: Sample
    grade: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageRating:
    """What a passage is worth."""

    text: str
    relevant: bool
    gain: float
    """The grade in the data, at least 0; without one 1 or 0."""
    utility: float
    erag: float | None = None
    annotation: Mapping[str, Any]
    """What is written beside the passage."""


def read_contexts(data: SampleSource) -> list[ContextRow]:
    """Read rows that belong to questions: those with the same `question_id`, else with the same query.

    Raises:
        DataError: A row that cannot be read, or a grade that is none.
        ConfigurationError: There is no such file.
    """
    questions: list[str | None] = []
    times: Counter[str] = Counter()

    def rows() -> Iterator[Any]:
        for row in iter_rows(data):
            if isinstance(row, Mapping):
                # It names the question here, and not the row.
                named = row.get(_QUESTION)
                questions.append(None if named is None or named == "" else str(named))
                rest = {name: value for name, value in row.items() if name != _QUESTION}
                if questions[-1] is not None and _IDS.isdisjoint(rest):
                    times[questions[-1]] += 1
                    n = times[questions[-1]]
                    rest["id"] = questions[-1] if n == 1 else f"{questions[-1]}#{n}"
                yield rest
            else:
                named = row.metadata.get(_QUESTION) if isinstance(row, Sample) else None
                questions.append(None if named is None else str(named))
                yield row

    # Skipping is not offered here: which rows make up a question decides its correlation.
    samples, bad = read_samples(rows(), on_bad_row="skip")
    if bad:
        raise build_rows_error(bad, len(samples), "Mend them, or take them out of the data")
    contexts = []
    for position, (sample, named) in enumerate(zip(samples, questions, strict=True), start=1):
        if named is None and not (sample.query and sample.query.strip()):
            raise DataError(
                f"row {position} (id {sample.id!r}) has neither a question_id nor a query; one of them says what it is about"
            )
        if named is not None:
            sample = sample.model_copy(update={"metadata": {_QUESTION: named, **sample.metadata}})  # noqa: PLW2901
        question = f"id:{named}" if named is not None else f"query:{sample.query}"
        contexts.append(ContextRow(question=question, sample=sample, grade=_grade(sample, position)))
    return contexts


def _grade(sample: Sample, position: int) -> int | None:
    given = sample.metadata.get("grade")
    if given is None or given == "":
        return None
    if isinstance(given, str) and given.strip().casefold() in GRADES:
        return GRADES[given.strip().casefold()]
    try:
        number = None if isinstance(given, bool) else float(given)
    except (TypeError, ValueError):
        number = None
    if number is None or number not in GRADES.values():
        raise DataError(
            f"row {position} (id {sample.id!r}) has the grade {given!r}; "
            "a grade is 'correct' (2), 'abstain' (1) or 'wrong' (0)"
        )
    return int(number)


def annotation_of(passage: Passage) -> Mapping[str, Any]:
    """What an earlier run wrote beside the passage; empty when nothing is there."""
    held = passage.metadata.get(_ANNOTATION)
    return held if isinstance(held, Mapping) else {}


def rating_from(
    passage: Passage,
    *,
    threshold: float,
    labels: LabelMode = "auto",
    reader: str | None = None,
    judge: str | None = None,
) -> PassageRating | None:
    """Rate a passage by its annotation; None where that does not say enough.

    Args:
        passage: With an annotation in its metadata, or without.
        threshold: From here on a label of the data means relevant.
        labels: Whose relevance counts: "data" takes the passage's own label only, "judge" an annotation that a judge
            made, "auto" the first, else whatever the annotation says.
        reader: Hash of the reader whose annotations count; None takes anybody's.
        judge: Likewise for relevance that a judge decided.

    Raises:
        DataError: The annotation holds something that cannot be.
    """
    held = annotation_of(passage)
    p = _unit(held, "p_abstain", 0, 1)
    utility = _unit(held, "utility", -1, 1)
    if utility is not None and p is None:
        p = 1 - abs(utility)
    if p is None or (reader is not None and held.get("reader", reader) != reader):
        return None
    if labels == "judge" and not str(held.get("label_source")).startswith("judge"):
        return None
    if passage.relevance is not None and labels != "judge":
        relevant = passage.relevance >= threshold
    elif labels == "data":
        return None
    elif held.get("relevance") is not None:
        if judge is not None and held.get("judge", judge) != judge:
            return None
        relevant = (_unit(held, "relevance", -1, 2) or 0) > 0
    elif utility:
        relevant = utility > 0
    else:
        return None
    return PassageRating(
        text=passage.text,
        relevant=relevant,
        gain=_gain(passage, relevant=relevant),
        utility=(1 - p) if relevant else p - 1,
        erag=_unit(held, "erag", 0, 1),
        annotation=dict(held),
    )


def rating_of(found: PassageUtility, *, reader: str, judge: str) -> PassageRating:
    """Rate a passage by what was just found out."""
    assert found.label is not None and found.utility is not None  # noqa: S101, PT018  callers look at `error` first
    annotation = {name: value for name, value in found.as_dict().items() if name not in ("position", "id")}
    annotation["reader"] = reader
    if found.label.source != "data":
        annotation["judge"] = judge
    return PassageRating(
        text=found.passage.text,
        relevant=found.label.relevant,
        gain=_gain(found.passage, relevant=found.label.relevant),
        utility=found.utility,
        annotation=annotation,
    )


def _gain(passage: Passage, *, relevant: bool) -> float:
    if passage.relevance is None:
        return float(relevant)
    return max(0.0, passage.relevance)


def _unit(held: Mapping[str, Any], name: str, low: float, high: float) -> float | None:
    value = held.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise DataError(f"a passage's annotation has {name}={value!r}; it must be a number from {low} to {high}")
    return float(value)


def row_of(sample: Sample, ratings: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A sample as a row that `read_samples` and `read_contexts` read back.

    Args:
        sample: With its passages in the order they shall have.
        ratings: Annotations by the passage's text.
    """
    known = {alias for aliases in FIELD_ALIASES.values() for alias in aliases} - {_QUESTION}
    row: dict[str, Any] = {"id": sample.id}
    if sample.query is not None:
        row["query"] = sample.query
    if sample.contexts is not None:
        row["contexts"] = [_passage_row(passage, ratings.get(passage.text)) for passage in sample.contexts]
    if sample.response is not None:
        row["response"] = sample.response
    if sample.reference:
        row["reference"] = list(sample.reference)
    if sample.sub_questions:
        row["sub_questions"] = list(sample.sub_questions)
    return row | {name: value for name, value in sample.metadata.items() if name not in known}


def _passage_row(passage: Passage, annotation: Mapping[str, Any] | None) -> dict[str, Any]:
    row: dict[str, Any] = {"text": passage.text}
    row |= {
        name: value
        for name, value in (("id", passage.id), ("score", passage.score), ("relevance", passage.relevance))
        if value is not None
    }
    metadata = dict(passage.metadata)
    if annotation is not None:
        metadata[_ANNOTATION] = dict(annotation)
    return row | ({"metadata": metadata} if metadata else {})
