"""Score runs with Ragstone's metrics in the shape of LangSmith and openevals. Needs no model, no key and no network."""

from __future__ import annotations

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel

from langchain_ragstone import RagstoneEvaluator

# Your chat model: init_chat_model("gpt-4.1-mini", temperature=0). This one gives everything 85 of 100 points.
judge = FakeListChatModel(responses=["85"])

evaluator = RagstoneEvaluator(["ccrs.qr", "ccrs.cc", "exact_match", "reciprocal_rank"], judge=judge)

# In LangSmith: evaluate(target, data="my data set", evaluators=[evaluator])
for feedback in evaluator(
    inputs={"question": "When was the lighthouse lit?"},
    outputs={
        "answer": "In 1874.",
        "context": [
            Document("The ferry to Gull Rock leaves at nine.", id="ferry"),
            Document("The lighthouse on Gull Rock was lit for the first time in 1874.", id="lighthouse"),
        ],
    },
    reference_outputs={"answer": "In 1874.", "qrels": {"lighthouse": 1}},
):
    print(f"{feedback['key']:<16} {feedback['score']:.2f}  {feedback['metadata']['method']}")
