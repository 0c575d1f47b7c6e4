"""Worked examples of the ranking metrics: five retrieved passages, and three relevant ones, of which one is missing."""

from __future__ import annotations

from typing import Final

from ragstone.metrics._card import WorkedExample
from ragstone.metrics.ranking._alpha_ndcg import alpha_ndcg
from ragstone.metrics.ranking._measures import Measure

_TEXTS: Final = {
    "a": "Northport has 4,000 inhabitants.",
    "b": "The lighthouse of Northport is 31 meters tall.",
    "c": "Ferries leave at seven and at noon.",
    "d": "With its mast the lighthouse reaches 34 meters.",
    "e": "The mole was rebuilt in 1950.",
}
_GRADES: Final = {"b": 3.0, "d": 1.0, "f": 2.0}
_QUERY: Final = "How tall is the lighthouse?"
_CONTEXTS: Final = [{"id": name, "text": text} for name, text in _TEXTS.items()]

_RATED: Final = {
    "query": "What is known of the lighthouse?",
    "contexts": [
        {"id": "a", "text": "The lighthouse was built in 1884."},
        {"id": "b", "text": "Northport has had its lighthouse since 1884."},
        {"id": "c", "text": "The lighthouse is 31 meters tall."},
    ],
    "ratings": {"When was it built?": {"a": 5, "b": 4, "c": 0}, "How tall is it?": {"c": 5}},
}


def alpha_example_of(k: int) -> WorkedExample:
    """Make the example of alpha-nDCG with alpha = 0.5 and a rating threshold of 3."""
    value = alpha_ndcg(["a", "b", "c"], {"When was it built?": ["a", "b"], "How tall is it?": ["c"]}, k=k)
    assert value is not None  # noqa: S101  the example has answerable sub-questions
    gain = " + ".join(("1/log2(2)", "0.5/log2(3)", "1/log2(4)")[:k])
    ideal = " + ".join(("1/log2(2)", "1/log2(3)", "0.5/log2(4)")[:k])
    return WorkedExample(
        row=_RATED,
        value=value,
        steps=(
            "With ratings of at least 3, a and b answer the first sub-question, and c the second. The gains are 1, 0.5 "
            f"(a already answers it) and 1, so DCG = {gain}. The greedy ideal is c, b, a: ideal DCG = {ideal}. "
            f"Their ratio = {value:.3f}"
        ),
    )


def example_of(measure: Measure) -> WorkedExample:
    """Make the example of a measure with qrels."""
    value = measure.kind.function(list(_TEXTS), _GRADES, k=measure.k, threshold=0.5)
    assert value is not None  # noqa: S101  the example has relevant passages
    return WorkedExample(
        row={"query": _QUERY, "contexts": _CONTEXTS, "qrels": _GRADES},
        value=value,
        steps=(
            "Retrieved: a, b, c, d, e. Grades: b 3, d 1 and f 2, which was not retrieved. "
            f"{_calculate(measure, _GRADES)} = {value:.3f}"
        ),
    )


def judged_example_of(measure: Measure) -> WorkedExample:
    """Make the example of a measure with labels from the judge, which labels the passages in their order."""
    grades = {"b": 1.0, "d": 1.0}
    value = measure.kind.function(list(_TEXTS), grades, k=measure.k, threshold=0.5)
    assert value is not None  # noqa: S101  the example has relevant passages
    places = len(_TEXTS) if measure.k is None or measure.kind.labels == "all" else measure.k
    return WorkedExample(
        row={"query": _QUERY, "contexts": _CONTEXTS},
        value=value,
        steps=f"The judge rates b and d as relevant (at least 0.5). {_calculate(measure, grades)} = {value:.3f}",
        replies={"passage_relevance": (0, 1, 0, 0.6, 0)[:places]},
    )


def _calculate(measure: Measure, grades: dict[str, float]) -> str:
    """Return the calculation of the value as text."""
    places = dict(zip(_TEXTS, range(1, 6), strict=True))
    k = measure.k or len(places)
    ranks = [places[name] for name in grades if name in places and places[name] <= k]
    hits, relevant = len(ranks), len(grades)
    match measure.kind.name:
        case "precision":
            return f"{hits} of {k} ranks are relevant: {hits} / {k}"
        case "judged_share":
            return f"{hits} of {k} ranks have a grade: {hits} / {k}"
        case "recall":
            return f"{hits} of {relevant} relevant passages are in the top {k}: {hits} / {relevant}"
        case "f1":
            return (
                f"{hits} relevant passages in {k} ranks, {relevant} relevant in total: 2 * {hits} / ({k} + {relevant})"
            )
        case "hit_rate":
            return f"{hits} relevant passages are in the top {k}: {'1' if hits else '0'}"
        case "reciprocal_rank":
            return (
                f"The first relevant passage is at rank {ranks[0]}: 1 / {ranks[0]}"
                if ranks
                else "No relevant passage was retrieved: 0"
            )
        case "average_precision":
            parts = " + ".join(f"{nth}/{rank}" for nth, rank in enumerate(ranks, start=1)) or "0"
            return f"({parts}) / {relevant}"
        case _:
            top = _sum(
                [(places[name], grade) for name, grade in grades.items() if places.get(name, k + 1) <= k], measure
            )
            best = _sum(list(enumerate(sorted(grades.values(), reverse=True)[:k], start=1)), measure)
            return f"DCG = {top}, ideal DCG = {best}. Their ratio"


def _sum(places: list[tuple[int, float]], measure: Measure) -> str:
    gains = [(rank, 2**grade - 1 if measure.kind.gain == "exp" else grade) for rank, grade in places]
    return " + ".join(f"{gain:g}/log2({rank + 1})" for rank, gain in gains) or "0"
