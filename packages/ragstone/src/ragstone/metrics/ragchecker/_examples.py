"""The worked example of all RAGChecker metrics: one sample with correct, wrong and hallucinated claims."""

from __future__ import annotations

from typing import Any, Final

from ragstone.metrics._card import WorkedExample

_ROW: Final[dict[str, Any]] = {
    "query": "What is the lighthouse of Northport?",
    "contexts": [
        "The lighthouse of Northport is 31 meters tall. It has an electric lamp. A keeper lives in it.",
        "The lighthouse of Southport is painted red.",
    ],
    "response": "It is 31 meters tall, home to a keeper, painted red, built in 1884 and haunted.",
    "reference": "It is 31 meters tall, was built in 1884 and has an electric lamp.",
}
_RESPONSE: Final = {
    "items": [
        "The lighthouse of Northport is 31 meters tall.",
        "A keeper lives in the lighthouse of Northport.",
        "The lighthouse of Northport is painted red.",
        "The lighthouse of Northport was built in 1884.",
        "The lighthouse of Northport is haunted.",
    ]
}
_REFERENCE: Final = {
    "items": [
        "The lighthouse of Northport is 31 meters tall.",
        "The lighthouse of Northport was built in 1884.",
        "The lighthouse of Northport has an electric lamp.",
    ]
}


def _marks(*marks: int) -> dict[str, int]:
    return {str(number): mark for number, mark in enumerate(marks, start=1)}


_RIGHT: Final = _marks(1, 0, 0, 1, 0)
"""Verdicts on the claims of the response, with the reference as evidence."""
_COVERED: Final = _marks(1, 1, 0)
"""Verdicts on the claims of the reference, with the response as evidence."""
_IN_PASSAGES: Final = (_marks(1, 1, 0, 0, 0), _marks(0, 0, 1, 0, 0))
_REFERENCE_IN_PASSAGES: Final = (_marks(1, 0, 1), _marks(0, 0, 0))


def _example(value: float, steps: str, claims: Any, *verdicts: Any) -> WorkedExample:
    return WorkedExample(row=_ROW, value=value, steps=steps, replies={"claims": claims, "entailment": tuple(verdicts)})


PRECISION: Final = _example(
    0.4, "The reference supports 2 of 5 claims, the height and the year: 2 / 5 = 0.4.", _RESPONSE, _RIGHT
)
RECALL: Final = _example(
    2 / 3, "The response supports 2 of 3 claims, the height and the year: 2 / 3 = 0.667.", _REFERENCE, _COVERED
)
F1: Final = _example(
    0.5,
    "The precision is 2/5 and the recall 2/3: 2 · 0.4 · 0.667 / (0.4 + 0.667) = 0.5.",
    (_RESPONSE, _REFERENCE),
    _RIGHT,
    _COVERED,
)
CLAIM_RECALL: Final = _example(
    2 / 3,
    "The passages support 2 of 3 claims, the height and the lamp: 2 / 3 = 0.667.",
    _REFERENCE,
    *_REFERENCE_IN_PASSAGES,
)
CONTEXT_PRECISION: Final = _example(
    0.5,
    "Only the first of 2 passages supports claims of the reference: 1 / 2 = 0.5.",
    _REFERENCE,
    *_REFERENCE_IN_PASSAGES,
)
CONTEXT_UTILIZATION: Final = _example(
    0.5,
    "The passages support the height and the lamp. The response contains only the height: 1 / 2 = 0.5.",
    _REFERENCE,
    *_REFERENCE_IN_PASSAGES,
    _COVERED,
)
NOISE_RELEVANT: Final = _example(
    0.2,
    "The keeper, the color and the ghost are wrong. The keeper comes from the first passage, which is relevant: 1 / 5 = 0.2.",
    (_RESPONSE, _REFERENCE),
    _RIGHT,
    *_IN_PASSAGES,
    *_REFERENCE_IN_PASSAGES,
)
NOISE_IRRELEVANT: Final = _example(
    0.2,
    "The keeper, the color and the ghost are wrong. The color comes only from the second passage, which is irrelevant: "
    "1 / 5 = 0.2.",
    (_RESPONSE, _REFERENCE),
    _RIGHT,
    *_IN_PASSAGES,
    *_REFERENCE_IN_PASSAGES,
)
HALLUCINATION: Final = _example(
    0.2, "Neither reference nor passages support the ghost: 1 / 5 = 0.2.", _RESPONSE, _RIGHT, *_IN_PASSAGES
)
SELF_KNOWLEDGE: Final = _example(
    0.2, "The year is correct, but no passage supports it: 1 / 5 = 0.2.", _RESPONSE, _RIGHT, *_IN_PASSAGES
)
FAITHFULNESS: Final = _example(
    0.6,
    "The first passage supports the height and the keeper, the second the color: 3 / 5 = 0.6. Correctness does not count.",
    _RESPONSE,
    *_IN_PASSAGES,
)
