"""Worked examples of VERA's judged metrics."""

from __future__ import annotations

from typing import Final

from ragstone.metrics._card import WorkedExample

_QUERY: Final = "How tall is the lighthouse of Northport?"
_CONTEXTS: Final = [
    "The lighthouse of Northport was built in 1884. It is 31 meters tall.",
    "Ferries leave at noon. The pier is made of wood.",
]

FAITHFULNESS: Final = WorkedExample(
    row={"contexts": _CONTEXTS, "response": "It is 31 meters tall. It is haunted."},
    replies={"entailment": {"1": 0}},
    value=0.0,
    steps="The passages support one sentence but not the other, so the response is not fully supported: 0.",
)
GROUNDEDNESS: Final = WorkedExample(
    row={"contexts": _CONTEXTS, "response": "It is 31 meters tall. It is haunted."},
    replies={"entailment": {"1": 1, "2": 0}},
    value=0.5,
    steps="The passages support 1 of 2 sentences: 1 / 2 = 0.5.",
)
RETRIEVAL_RECALL: Final = WorkedExample(
    row={"contexts": _CONTEXTS, "reference": "It is 31 meters tall. It was built in 1884. It is open on Sundays."},
    replies={"entailment": {"1": 1, "2": 1, "3": 0}},
    value=0.6667,
    steps="The passages support 2 of 3 sentences of the reference: 2 / 3 = 0.667.",
)
RETRIEVAL_PRECISION: Final = WorkedExample(
    row={"query": _QUERY, "contexts": _CONTEXTS},
    replies={"sentence_relevance": ({"1": 0, "2": 1}, {"1": 0, "2": 0})},
    value=0.25,
    steps="Of the 4 sentences in the two passages, one helps to answer the query: 1 / 4 = 0.25.",
)
ANSWER_RELEVANCE: Final = WorkedExample(
    row={"query": _QUERY, "response": "It is 31 meters tall, and was built in 1884."},
    replies={
        "answer_questions": {"items": ["How tall is the lighthouse, and when was it built?"]},
        "question_equivalence": {"1": 60},
    },
    value=0.6,
    steps="The response answers a question that asks for more than the query. The judge rates 60 of 100: 0.6.",
)
