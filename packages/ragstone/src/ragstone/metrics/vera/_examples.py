"""One worked example for each judged metric of VERA."""

from __future__ import annotations

from typing import Final

from ragstone.metrics._card import WorkedExample

__all__ = ["ANSWER_RELEVANCE", "FAITHFULNESS", "GROUNDEDNESS", "RETRIEVAL_PRECISION", "RETRIEVAL_RECALL"]

_QUERY: Final = "How tall is the lighthouse of Northport?"
_CONTEXTS: Final = [
    "The lighthouse of Northport was built in 1884. It is 31 metres tall.",
    "Ferries leave at noon. The pier is made of wood.",
]

FAITHFULNESS: Final = WorkedExample(
    row={"contexts": _CONTEXTS, "response": "It is 31 metres tall. It is haunted."},
    replies={"entailment": {"1": 0}},
    value=0.0,
    steps="One sentence is in the passages, the other is not, so they do not bear out the response as a whole: 0.",
)
GROUNDEDNESS: Final = WorkedExample(
    row={"contexts": _CONTEXTS, "response": "It is 31 metres tall. It is haunted."},
    replies={"entailment": {"1": 1, "2": 0}},
    value=0.5,
    steps="Of 2 sentences the passages bear out the first: 1 / 2.",
)
RETRIEVAL_RECALL: Final = WorkedExample(
    row={"contexts": _CONTEXTS, "reference": "It is 31 metres tall. It was built in 1884. It is open on Sundays."},
    replies={"entailment": {"1": 1, "2": 1, "3": 0}},
    value=0.6667,
    steps="Of 3 sentences of the reference the passages bear out 2: 2 / 3 = 0.667.",
)
RETRIEVAL_PRECISION: Final = WorkedExample(
    row={"query": _QUERY, "contexts": _CONTEXTS},
    replies={"sentence_relevance": ({"1": 0, "2": 1}, {"1": 0, "2": 0})},
    value=0.25,
    steps="Of the 4 sentences in the two passages one helps to answer the query: 1 / 4.",
)
ANSWER_RELEVANCE: Final = WorkedExample(
    row={"query": _QUERY, "response": "It is 31 metres tall, and was built in 1884."},
    replies={
        "answer_questions": {"items": ["How tall is the lighthouse, and when was it built?"]},
        "question_equivalence": {"1": 60},
    },
    value=0.6,
    steps="The response answers a question that asks for more than the query; rated 60 of 100: 0.6.",
)
