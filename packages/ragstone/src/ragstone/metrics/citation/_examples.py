"""Worked examples of the citation metrics."""

from __future__ import annotations

from typing import Final

from ragstone.metrics._card import WorkedExample

_ROW: Final = {
    "query": "How tall is the lighthouse of Northport, and when was it built?",
    "contexts": [
        "The lighthouse of Northport is 31 meters tall.",
        "The lighthouse was built in 1884.",
        "Ferries leave at noon.",
    ],
}

RECALL: Final = WorkedExample(
    row={**_ROW, "response": "It is 31 meters tall [1]. It was built in 1884 [3]. It is open to visitors."},
    replies={"entailment": ({"1": 1}, {"1": 0})},
    value=0.3333,
    steps=(
        "Passage 1 supports the first sentence. Passage 3 does not support the second, and the third does not cite a "
        "passage: 1 / 3 = 0.333."
    ),
)
PRECISION: Final = WorkedExample(
    row={**_ROW, "response": "It is 31 meters tall and was built in 1884 [1][2][3]. It is lit at night [7]."},
    # Together; alone: passages 1, 2, 3; without: 1 (2 and 3), 2 (1 and 3), 3 (1 and 2).
    replies={"entailment": ({"1": 1}, {"1": 0}, {"1": 0}, {"1": 0}, {"1": 0}, {"1": 0}, {"1": 1})},
    value=0.5,
    steps=(
        "Passages 1, 2 and 3 together support the first sentence. None does alone, and it is supported without passage "
        "3, so this citation is not needed. [7] does not refer to a passage. 2 of 4 citations count: 2 / 4 = 0.5."
    ),
)
