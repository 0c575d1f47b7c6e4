"""One sample on which each RAGChecker metric is worked out: a right claim, a wrong one from each side, and an invention."""

from __future__ import annotations

from typing import Any, Final

from ragstone.metrics._card import WorkedExample

__all__ = [
    "CLAIM_RECALL",
    "CONTEXT_PRECISION",
    "CONTEXT_UTILIZATION",
    "F1",
    "FAITHFULNESS",
    "HALLUCINATION",
    "NOISE_IRRELEVANT",
    "NOISE_RELEVANT",
    "PRECISION",
    "RECALL",
    "SELF_KNOWLEDGE",
]

_ROW: Final[dict[str, Any]] = {
    "query": "What is the lighthouse of Northport?",
    "contexts": [
        "The lighthouse of Northport is 31 metres tall. It has an electric lamp. A keeper lives in it.",
        "The lighthouse of Southport is painted red.",
    ],
    "response": "It is 31 metres tall, home to a keeper, painted red, built in 1884 and haunted.",
    "reference": "It is 31 metres tall, was built in 1884 and has an electric lamp.",
}
_RESPONSE: Final = {
    "items": [
        "The lighthouse of Northport is 31 metres tall.",
        "A keeper lives in the lighthouse of Northport.",
        "The lighthouse of Northport is painted red.",
        "The lighthouse of Northport was built in 1884.",
        "The lighthouse of Northport is haunted.",
    ]
}
_REFERENCE: Final = {
    "items": [
        "The lighthouse of Northport is 31 metres tall.",
        "The lighthouse of Northport was built in 1884.",
        "The lighthouse of Northport has an electric lamp.",
    ]
}


def _marks(*marks: int) -> dict[str, int]:
    return {str(number): mark for number, mark in enumerate(marks, start=1)}


_RIGHT: Final = _marks(1, 0, 0, 1, 0)
"""Claims of the response in the reference."""
_COVERED: Final = _marks(1, 1, 0)
"""Claims of the reference in the response."""
_IN_PASSAGES: Final = (_marks(1, 1, 0, 0, 0), _marks(0, 0, 1, 0, 0))
_REFERENCE_IN_PASSAGES: Final = (_marks(1, 0, 1), _marks(0, 0, 0))


def _example(value: float, steps: str, claims: Any, *verdicts: Any) -> WorkedExample:
    return WorkedExample(row=_ROW, value=value, steps=steps, replies={"claims": claims, "entailment": tuple(verdicts)})


PRECISION: Final = _example(
    0.4, "Of 5 claims the reference bears out 2, the height and the year: 2 / 5 = 0.4.", _RESPONSE, _RIGHT
)
RECALL: Final = _example(
    2 / 3, "Of 3 claims the response has 2, the height and the year: 2 / 3 = 0.667.", _REFERENCE, _COVERED
)
F1: Final = _example(
    0.5,
    "Precision 2/5 and recall 2/3: 2 · 0.4 · 0.667 / (0.4 + 0.667) = 0.5.",
    (_RESPONSE, _REFERENCE),
    _RIGHT,
    _COVERED,
)
CLAIM_RECALL: Final = _example(
    2 / 3,
    "Of 3 claims the passages bear out 2, the height and the lamp: 2 / 3 = 0.667.",
    _REFERENCE,
    *_REFERENCE_IN_PASSAGES,
)
CONTEXT_PRECISION: Final = _example(
    0.5,
    "The first passage bears out claims of the reference, the second none: 1 / 2.",
    _REFERENCE,
    *_REFERENCE_IN_PASSAGES,
)
CONTEXT_UTILIZATION: Final = _example(
    0.5,
    "The passages bear out the height and the lamp; the response has the height of these: 1 / 2.",
    _REFERENCE,
    *_REFERENCE_IN_PASSAGES,
    _COVERED,
)
NOISE_RELEVANT: Final = _example(
    0.2,
    "Wrong are the keeper, the red and the ghost. The keeper stands in the first passage, which is relevant: 1 / 5 = 0.2.",
    (_RESPONSE, _REFERENCE),
    _RIGHT,
    *_IN_PASSAGES,
    *_REFERENCE_IN_PASSAGES,
)
NOISE_IRRELEVANT: Final = _example(
    0.2,
    "Wrong are the keeper, the red and the ghost. The red stands in the second passage alone, an irrelevant one: 1 / 5 = 0.2.",
    (_RESPONSE, _REFERENCE),
    _RIGHT,
    *_IN_PASSAGES,
    *_REFERENCE_IN_PASSAGES,
)
HALLUCINATION: Final = _example(
    0.2, "The ghost is in neither reference nor passages: 1 / 5 = 0.2.", _RESPONSE, _RIGHT, *_IN_PASSAGES
)
SELF_KNOWLEDGE: Final = _example(
    0.2, "The year is right, and no passage has it: 1 / 5 = 0.2.", _RESPONSE, _RIGHT, *_IN_PASSAGES
)
FAITHFULNESS: Final = _example(
    0.6,
    "The first passage bears out the height and the keeper, the second the red: 3 / 5 = 0.6. That they are true is not asked.",
    _RESPONSE,
    *_IN_PASSAGES,
)
