"""The worked examples of the ranking metrics: one list, five places, three relevant passages, one of them missed."""

from __future__ import annotations

from typing import Final

from ragstone.metrics._card import WorkedExample
from ragstone.metrics.ranking._alpha_ndcg import alpha_ndcg
from ragstone.metrics.ranking._measures import Measure

__all__ = ["alpha_example_of", "example_of", "judged_example_of"]

_TEXTS: Final = {
    "a": "Northport has 4,000 inhabitants.",
    "b": "The lighthouse of Northport is 31 metres tall.",
    "c": "Ferries leave at seven and at noon.",
    "d": "With its mast the lighthouse reaches 34 metres.",
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
        {"id": "c", "text": "The lighthouse is 31 metres tall."},
    ],
    "ratings": {"When was it built?": {"a": 5, "b": 4, "c": 0}, "How tall is it?": {"c": 5}},
}


def alpha_example_of(k: int) -> WorkedExample:
    """The example of alpha-nDCG with alpha 0.5 and ratings that count from 3 on."""
    value = alpha_ndcg(["a", "b", "c"], {"When was it built?": ["a", "b"], "How tall is it?": ["c"]}, k=k)
    assert value is not None  # noqa: S101  the example has answerable sub-questions
    found = " + ".join(("1/log2(2)", "0.5/log2(3)", "1/log2(4)")[:k])
    ideal = " + ".join(("1/log2(2)", "1/log2(3)", "0.5/log2(4)")[:k])
    return WorkedExample(
        row=_RATED,
        value=value,
        steps=(
            "rated 3 or more, a and b answer the first sub-question and c the second; the gains are 1, 0.5 (a has told it) "
            f"and 1; {found}, over the greedy ideal c, b, a: {ideal}; = {value:.3f}"
        ),
    )


def example_of(measure: Measure) -> WorkedExample:
    """The example of a measure with qrels."""
    value = measure.kind.function(list(_TEXTS), _GRADES, k=measure.k, threshold=0.5)
    assert value is not None  # noqa: S101  the example has relevant passages
    return WorkedExample(
        row={"query": _QUERY, "contexts": _CONTEXTS, "qrels": _GRADES},
        value=value,
        steps=(
            f"retrieved a, b, c, d, e; grades b 3, d 1, and f 2, which was not retrieved; "
            f"{_worked(measure, _GRADES)} = {value:.3f}"
        ),
    )


def judged_example_of(measure: Measure) -> WorkedExample:
    """The example of a measure with labels from the judge, who takes the passages in their order."""
    grades = {"b": 1.0, "d": 1.0}
    value = measure.kind.function(list(_TEXTS), grades, k=measure.k, threshold=0.5)
    assert value is not None  # noqa: S101  the example has relevant passages
    places = len(_TEXTS) if measure.k is None or measure.kind.labels == "all" else measure.k
    return WorkedExample(
        row={"query": _QUERY, "contexts": _CONTEXTS},
        value=value,
        steps=f"the judge takes b and d for relevant (from 0.5 on); {_worked(measure, grades)} = {value:.3f}",
        replies={"passage_relevance": (0, 1, 0, 0.6, 0)[:places]},
    )


def _worked(measure: Measure, grades: dict[str, float]) -> str:
    """The value in numbers that can be followed."""
    places = dict(zip(_TEXTS, range(1, 6), strict=True))
    k = measure.k or len(places)
    ranks = [places[name] for name in grades if name in places and places[name] <= k]
    found, relevant = len(ranks), len(grades)
    match measure.kind.name:
        case "precision":
            return f"{found} relevant among {k} places: {found} / {k}"
        case "recall":
            return f"{found} of {relevant} relevant among the first {k}: {found} / {relevant}"
        case "f1":
            return f"{found} relevant found, {k} places, {relevant} relevant in all: 2 * {found} / ({k} + {relevant})"
        case "hit_rate":
            return f"{found} relevant among the first {k}, so {'1' if found else '0'}"
        case "reciprocal_rank":
            return f"the first relevant one is at rank {ranks[0]}: 1 / {ranks[0]}" if ranks else "none was found: 0"
        case "average_precision":
            parts = " + ".join(f"{nth}/{rank}" for nth, rank in enumerate(ranks, start=1)) or "0"
            return f"({parts}) / {relevant}"
        case _:
            top = _sum(
                [(places[name], grade) for name, grade in grades.items() if places.get(name, k + 1) <= k], measure
            )
            best = _sum(list(enumerate(sorted(grades.values(), reverse=True)[:k], start=1)), measure)
            return f"DCG {top}; of the best order {best}; their ratio"


def _sum(places: list[tuple[int, float]], measure: Measure) -> str:
    gains = [(rank, 2**grade - 1 if measure.kind.gain == "exp" else grade) for rank, grade in places]
    return " + ".join(f"{gain:g}/log2({rank + 1})" for rank, gain in gains) or "0"
