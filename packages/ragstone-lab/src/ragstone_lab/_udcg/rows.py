"""Rows of UDCG's experiments: several contexts per question, graded answers and annotated passages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ragstone.errors import DataError
from ragstone.metrics import LabelMode, PassageUtility
from ragstone.reading import FIELD_ALIASES, SampleSource, build_rows_error, iter_rows, read_samples
from ragstone.schema import Passage, Sample

Grade = Literal["correct", "partial", "abstain", "wrong"]
"""Class of an answer. "partial" is a correct answer from a context without a relevant passage."""
RANKS: Final[Mapping[Grade, int]] = {"correct": 2, "partial": 1, "abstain": 1, "wrong": 0}
"""Order of the grades. A partially correct answer does not show that its context helped, or that it misled."""

_NUMBERS: Final = frozenset({"2", "1", "0"})
_GRADES: Final[Mapping[str, Grade]] = {
    **{grade: grade for grade in RANKS},
    **dict.fromkeys(("2", "a"), "correct"),
    **dict.fromkeys(("1", "c", "not attempted", "abstained"), "abstain"),
    **dict.fromkeys(("0", "b", "incorrect"), "wrong"),
}
"""Grades by their spellings, which include the words and letters of SimpleQA's grader."""

_QUESTION: Final = "question_id"
_IDS: Final = frozenset(FIELD_ALIASES["id"]) - {_QUESTION}
_ANNOTATION: Final = "udcg"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRow:
    """One context of a question, with the grade of its answer if known."""

    question: str
    sample: Sample
    grade: Grade | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageRating:
    """The relevance and utility of a passage."""

    text: str
    relevant: bool
    gain: float
    """Relevance grade of the data (at least 0), or 1 or 0 if the judge labels the passage."""
    utility: float
    erag: float | None = None
    annotation: Mapping[str, Any]
    """Values to write to the passage's metadata."""


def read_contexts(data: SampleSource) -> list[ContextRow]:
    """Read rows and their questions. Rows with equal `question_id` (or without it, equal query) belong together."""
    questions: list[str | None] = []
    times: Counter[str] = Counter()

    def rows() -> Iterator[Any]:
        for row in iter_rows(data):
            values = row.metadata if isinstance(row, Sample) else row if isinstance(row, Mapping) else {}
            question_id = values.get(_QUESTION)
            question = None if question_id is None or question_id == "" else str(question_id)
            questions.append(question)
            if isinstance(row, Mapping):
                # `question_id` identifies the question here, not the row.
                row = {name: value for name, value in row.items() if name != _QUESTION}  # noqa: PLW2901
                if question is not None and _IDS.isdisjoint(row):
                    times[question] += 1
                    row["id"] = question if times[question] == 1 else f"{question}#{times[question]}"
            yield row

    # Invalid rows cannot be skipped, because a question's correlation depends on all its rows.
    samples, bad = read_samples(rows(), on_bad_row="skip")
    if bad:
        raise build_rows_error(bad, len(samples), "Fix these rows, or remove them from the data")
    contexts = []
    rows_read = zip(samples, questions, _read_grades(samples), strict=True)
    for position, (sample, question_id, grade) in enumerate(rows_read, start=1):
        if question_id is None and not (sample.query and sample.query.strip()):
            raise DataError(f"row {position} (id {sample.id!r}) has neither a question_id nor a query")
        if question_id is not None:
            sample = sample.model_copy(update={"metadata": {_QUESTION: question_id, **sample.metadata}})  # noqa: PLW2901
        question = f"id:{question_id}" if question_id is not None else f"query:{sample.query}"
        contexts.append(ContextRow(question=question, sample=sample, grade=grade))
    return contexts


def _read_grades(samples: Sequence[Sample]) -> list[Grade | None]:
    """Read the grades of all rows. Numbers are read only if a 2 shows that 1 does not mean a correct answer."""
    texts = [_grade_text(sample.metadata.get("grade")) for sample in samples]
    numbers = {text for text in texts if text in _NUMBERS}
    if numbers and "2" not in numbers:
        raise DataError(
            f"the grades ({', '.join(sorted(numbers))}) are ambiguous without a 2: 1 means an abstention on the "
            "scale 2, 1, 0, and a correct answer on the scale 1, 0. Write 'correct', 'abstain' and 'wrong'."
        )
    grades = [_GRADES.get(text) for text in texts]
    for position, (sample, text, grade) in enumerate(zip(samples, texts, grades, strict=True), start=1):
        if text and grade is None:
            raise DataError(
                f"row {position} (id {sample.id!r}) has the invalid grade {sample.metadata['grade']!r}. Grades are "
                "'correct' (2, A), 'abstain' (1, C, not attempted), 'wrong' (0, B, incorrect) and 'partial' (correct "
                "without a relevant passage)."
            )
    return grades


def _grade_text(value: object) -> str:
    if value is None:
        return ""
    text = f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
    return " ".join(text.strip().removesuffix(".0").casefold().replace("_", " ").split())


def annotation_of(passage: Passage) -> Mapping[str, Any]:
    """Return the passage's annotation of an earlier run, or an empty mapping."""
    annotation = passage.metadata.get(_ANNOTATION)
    return annotation if isinstance(annotation, Mapping) else {}


def rating_from(
    passage: Passage,
    *,
    threshold: float,
    labels: LabelMode = "auto",
    reader: str | None = None,
    judge: str | None = None,
) -> PassageRating | None:
    """Rate a passage from its annotation, or return None if the annotation is not sufficient.

    `labels` "data" takes only the passage's own label, which is relevant from `threshold` on, "judge" only an
    annotation by a judge, and "auto" the former, or else the latter. `reader` and `judge` are hashes of those whose
    annotations are accepted. None accepts all.
    """
    annotation = annotation_of(passage)
    p = _number(annotation, "p_abstain", 0, 1)
    utility = _number(annotation, "utility", -1, 1)
    if utility is not None and p is None:
        p = 1 - abs(utility)
    if p is None or (reader is not None and annotation.get("reader", reader) != reader):
        return None
    if labels == "judge" and not str(annotation.get("label_source")).startswith("judge"):
        return None
    grade = None if labels == "judge" else passage.relevance
    if grade is not None:
        relevant = grade >= threshold
    elif labels == "data":
        return None
    elif annotation.get("relevance") is not None:
        if judge is not None and annotation.get("judge", judge) != judge:
            return None
        relevant = (_number(annotation, "relevance", -1, 2) or 0) > 0
    elif utility:
        relevant = utility > 0
    else:
        return None
    return PassageRating(
        text=passage.text,
        relevant=relevant,
        gain=float(relevant) if grade is None else max(0.0, grade),
        utility=(1 - p) if relevant else p - 1,
        erag=_number(annotation, "erag", 0, 1),
        annotation=dict(annotation),
    )


def rating_of(result: PassageUtility, *, reader: str, judge: str) -> PassageRating:
    """Convert a computed utility to a rating."""
    assert result.label is not None and result.utility is not None  # noqa: S101, PT018  callers check `error` first
    annotation = {name: value for name, value in result.as_dict().items() if name not in ("position", "id")}
    annotation["reader"] = reader
    if result.label.source != "data":
        annotation["judge"] = judge
    relevant, grade = result.label.relevant, result.label.value
    gain = max(0.0, grade) if result.label.source == "data" else float(relevant)
    return PassageRating(
        text=result.passage.text, relevant=relevant, gain=gain, utility=result.utility, annotation=annotation
    )


def _number(annotation: Mapping[str, Any], name: str, low: float, high: float) -> float | None:
    value = annotation.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise DataError(f"a passage's annotation has {name}={value!r}, but it must be a number from {low} to {high}")
    return float(value)


def row_of(sample: Sample, ratings: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Convert a sample to a row for `read_samples` and `read_contexts`, with annotations by passage text."""
    known = {alias for aliases in FIELD_ALIASES.values() for alias in aliases} - {_QUESTION}
    contexts = sample.contexts
    row: dict[str, Any] = {
        "id": sample.id,
        "query": sample.query,
        "contexts": None if contexts is None else [_passage_row(p, ratings.get(p.text)) for p in contexts],
        "response": sample.response,
        "reference": list(sample.reference) or None,
        "sub_questions": list(sample.sub_questions) or None,
    }
    return _without_none(row) | {name: value for name, value in sample.metadata.items() if name not in known}


def _passage_row(passage: Passage, annotation: Mapping[str, Any] | None) -> dict[str, Any]:
    metadata = dict(passage.metadata)
    if annotation is not None:
        metadata[_ANNOTATION] = dict(annotation)
    names = ("text", "id", "score", "relevance")
    return _without_none({name: getattr(passage, name) for name in names} | {"metadata": metadata or None})


def _without_none(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}
