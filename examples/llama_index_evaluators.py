"""Score answers and retrieval with Ragstone's metrics inside LlamaIndex. Needs no model, no key and no network."""

from __future__ import annotations

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from llama_index.evaluation.ragstone import RagstoneEvaluator

LIBRARY = {
    "lighthouse": "The lighthouse on Gull Rock was lit for the first time in 1874.",
    "ferry": "The ferry to Gull Rock leaves at nine and at three.",
}


class Words(BaseRetriever):
    """Finds the passages, those first that share the most words with the question."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        words = set(query_bundle.query_str.lower().strip("?").split())
        nodes = [TextNode(text=text, id_=name) for name, text in LIBRARY.items()]
        return [
            NodeWithScore(node=node)
            for node in sorted(nodes, key=lambda node: -len(words & set(node.text.lower().split())))
        ]


question, answer = "When does the ferry leave?", "The ferry leaves at nine and at three."

# "lexical" compares words; give it a model of LlamaIndex's (Settings.llm) to have answers judged.
for name, evaluator in RagstoneEvaluator.for_metrics(["ccrs.qr", "ccrs.cc", "rouge_l"], judge="lexical").items():
    result = evaluator.evaluate(question, answer, list(LIBRARY.values()), reference="At nine and at three.")
    print(f"{name:<16} {result.score:.2f}")

found = Words().retrieve(question)
for name, evaluator in RagstoneEvaluator.for_metrics(["ndcg@10", "recall@5"]).items():
    result = evaluator.evaluate(question, contexts=found, qrels={"ferry": 1})
    print(f"{name:<16} {result.score:.2f}")
