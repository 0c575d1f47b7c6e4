"""Applications made of query engines and chat engines."""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core import Document, SummaryIndex, VectorStoreIndex, get_response_synthesizer
from llama_index.core.chat_engine import CondensePlusContextChatEngine, CondenseQuestionChatEngine, ContextChatEngine
from llama_index.core.indices.query.query_transform import HyDEQueryTransform
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.postprocessor import (
    LLMRerank,
    MetadataReplacementPostProcessor,
    PrevNextNodePostprocessor,
    SimilarityPostprocessor,
)
from llama_index.core.query_engine import (
    CitationQueryEngine,
    CustomQueryEngine,
    RetrieverQueryEngine,
    RouterQueryEngine,
    TransformQueryEngine,
)
from llama_index.core.retrievers import AutoMergingRetriever, BaseRetriever, QueryFusionRetriever, RecursiveRetriever
from llama_index.core.schema import IndexNode, NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode
from llama_index.core.selectors import LLMSingleSelector
from llama_index.core.storage import StorageContext
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.tools import QueryEngineTool
from pydantic import BaseModel

from llama_index_apps import TEXTS, A, Expected, Index, Q, Scripted, app, node

WRITER = {"Query: ": A, "ten in the morning": A}
dispatcher = get_dispatcher(__name__)


def engine(retriever: BaseRetriever, script: dict[str, Any] | None = None, **options: Any) -> RetrieverQueryEngine:
    """The usual engine."""
    return RetrieverQueryEngine.from_args(retriever, llm=Scripted(script or WRITER), **options)


WINDOW = f"{TEXTS['ferry']} {TEXTS['saturday']} {TEXTS['sunday']}"


class Found(BaseRetriever):
    """A retriever that finds these nodes."""

    def __init__(self, *nodes: Any) -> None:
        super().__init__()
        self.nodes = nodes

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [NodeWithScore(node=one, score=0.5) for one in self.nodes]


@app(WINDOW)
def sentence_window() -> None:
    sentence = node("saturday", window=WINDOW)
    sentence.excluded_llm_metadata_keys = ["window"]
    engine(Found(sentence), node_postprocessors=[MetadataReplacementPostProcessor(target_metadata_key="window")]).query(
        Q
    )


@app("saturday")
def reranked_by_a_model() -> None:
    model = Scripted({"A list of documents is shown below": "Doc: 2, Relevance: 9", **WRITER})
    engine(Index("card", "saturday", "ferry"), node_postprocessors=[LLMRerank(llm=model, top_n=1)]).query(Q)


PARENT = f"{TEXTS['saturday']} {TEXTS['sunday']}"


@app(PARENT)
def auto_merging() -> None:
    parent = TextNode(text=PARENT, id_="parent")
    leaves = [node("saturday"), node("sunday")]
    parent.relationships[NodeRelationship.CHILD] = [RelatedNodeInfo(node_id=leaf.node_id) for leaf in leaves]
    for leaf in leaves:
        leaf.relationships[NodeRelationship.PARENT] = RelatedNodeInfo(node_id="parent")
    docstore = SimpleDocumentStore()
    docstore.add_documents([parent, *leaves])
    storage = StorageContext.from_defaults(docstore=docstore)
    engine(AutoMergingRetriever(Found(*leaves), storage)).query(Q)


@app("saturday", "sunday")
def recursive_retriever_over_documents() -> None:
    root = Found(IndexNode(text="Opening hours of the library", index_id="hours", id_="summary"))
    engine(RecursiveRetriever("root", retriever_dict={"root": root, "hours": Index("saturday", "sunday")})).query(Q)


@app("saturday")
def hypothetical_document() -> None:
    model = Scripted(
        {"Please write a passage": "The harbor library probably opens at noon on Saturdays, as libraries do."}
    )
    TransformQueryEngine(engine(Index("saturday")), HyDEQueryTransform(llm=model)).query(Q)


@app("saturday", "branch")
def routed_to_a_summary() -> None:
    selector = LLMSingleSelector.from_defaults(Scripted({"": '[{"choice": 2, "reason": "hours"}]'}))
    hours = engine(Index("saturday", "branch"), response_mode="tree_summarize")
    tools = [
        QueryEngineTool.from_defaults(engine(Index("card")), name="prices", description="prices"),
        QueryEngineTool.from_defaults(hours, name="hours", description="opening hours"),
    ]
    RouterQueryEngine(selector, tools, llm=Scripted(WRITER)).query(Q)


class StringEngine(CustomQueryEngine):
    """The custom engine of the tutorial: retrieves, formats, completes."""

    retriever: Any
    llm: Any
    top: int = 10

    def custom_query(self, query_str: str) -> str:
        """Answer."""
        nodes = self.retriever.retrieve(query_str)[: self.top]
        context = "\n\n".join(one.node.get_content() for one in nodes)
        return str(self.llm.complete(f"Context: {context}\nQuery: {query_str}\nAnswer: "))


@app("saturday", "sunday")
def custom_engine_of_texts() -> None:
    StringEngine(retriever=Index("saturday", "sunday"), llm=Scripted(WRITER)).query(Q)


@app("saturday")
def custom_engine_that_uses_the_first() -> None:
    StringEngine(retriever=Index("saturday", "sunday", "ferry"), llm=Scripted(WRITER), top=1).query(Q)


@app(answer="Empty Response")
def cutoff_removes_everything() -> None:
    engine(Index("card"), node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=1.5)]).query(Q)


@app("saturday", "sunday")
def refined_over_two_prompts() -> None:
    draft = "The library opens at ten, as far as the first passage says, on Saturdays."
    script = {"existing answer": A, "original query": A, "": draft}
    engine(Index("saturday", "sunday"), script, response_mode="refine").query(Q)


class Hours(BaseModel):
    """Opening hours."""

    day: str
    opens: str


@app("saturday", answer='{"day":"Saturday","opens":"ten"}')
def structured_answer() -> None:
    model = Scripted({"": '{"day": "Saturday", "opens": "ten"}'}, with_tools=False)
    RetrieverQueryEngine.from_args(Index("saturday"), llm=model, output_cls=Hours).query(Q)


class Hybrid(BaseRetriever):
    """The custom retriever of the tutorial: what both find."""

    def __init__(self, vector: BaseRetriever, keyword: BaseRetriever) -> None:
        super().__init__()
        self.vector, self.keyword = vector, keyword

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        keyword = {one.node.node_id for one in self.keyword.retrieve(query_bundle)}
        return [one for one in self.vector.retrieve(query_bundle) if one.node.node_id in keyword]


@app("saturday")
def hybrid_retriever() -> None:
    engine(Hybrid(Index("sunday", "saturday"), Index("saturday", "card"))).query(Q)


@app("ferry", "saturday")
def neighbors_are_added() -> None:
    before, found = node("ferry"), node("saturday")
    before.relationships[NodeRelationship.NEXT] = RelatedNodeInfo(node_id="saturday")
    found.relationships[NodeRelationship.PREVIOUS] = RelatedNodeInfo(node_id="ferry")
    docstore = SimpleDocumentStore()
    docstore.add_documents([before, found])
    engine(Found(found), node_postprocessors=[PrevNextNodePostprocessor(docstore=docstore, mode="previous")]).query(Q)


@app(f"Source 1:\n{TEXTS['saturday']}\n", f"Source 2:\n{TEXTS['sunday']}\n", answer=f"{A} [1]")
def citations() -> None:
    model = Scripted({"Below are several numbered sources": f"{A} [1]"})
    CitationQueryEngine.from_args(SummaryIndex([]), llm=model, retriever=Index("saturday", "sunday")).query(Q)


@app("saturday")
def answer_is_moderated() -> None:
    model = Scripted({"Is this safe": "safe", "Query: ": A})

    @dispatcher.span
    def ask(question: str) -> str:
        text = engine(Index("saturday")).query(question).response
        verdict = model.complete(f"Is this safe to show? {text}").text
        return text if verdict == "safe" else "I cannot say."

    ask(Q)


@app("saturday", "card")
def streamed_over_http() -> None:
    async def handle() -> str:
        response = await engine(Index("saturday", "card"), streaming=True).aquery(Q)
        return "".join([token async for token in response.async_response_gen()])

    assert asyncio.run(handle()) == A


@app("saturday")
def in_memory_index() -> None:
    index = VectorStoreIndex.from_documents([Document(text=TEXTS["saturday"])])
    index.as_query_engine(llm=Scripted(WRITER)).query(Q)


@app("saturday", "branch")
def fused_queries_of_a_model() -> None:
    model = Scripted({"search queries": "library hours saturday\nhill branch hours", **WRITER})
    found = {"library hours": ["saturday"], "hill": ["branch"]}
    fusion = QueryFusionRetriever(
        [Index("saturday", by_query=found)], llm=model, num_queries=3, similarity_top_k=2, use_async=False
    )
    engine(fusion).query(Q)


SECOND = "And on Sundays?"
STANDALONE = "When does the harbor library open on Sundays?"
SUNDAY = "On Sundays the library is closed, only the reading room opens at noon."
TURNS = [Expected([TEXTS["saturday"]]), Expected([TEXTS["sunday"]], SECOND, SUNDAY)]


@app(requests=TURNS)
def chat_with_a_condensed_question() -> None:
    model = Scripted({f"{SECOND}\n": STANDALONE, f"Query: {STANDALONE}": SUNDAY, "Query: ": A})
    retriever = Index("saturday", by_query={"Sundays": ["sunday"]})
    chat = CondenseQuestionChatEngine.from_defaults(engine(retriever, model._script), llm=model)
    chat.chat(Q)
    chat.chat(SECOND)


@app(requests=TURNS)
def chat_with_a_question_and_contexts() -> None:
    model = Scripted({"Standalone question": STANDALONE, SECOND: SUNDAY, "": A})
    retriever = Index("saturday", by_query={"Sundays": ["sunday"]})
    chat = CondensePlusContextChatEngine.from_defaults(retriever, llm=model)
    list(chat.stream_chat(Q).response_gen)
    list(chat.stream_chat(SECOND).response_gen)


@app("saturday", "sunday")
def chat_with_contexts_in_the_system_prompt() -> None:
    chat = ContextChatEngine.from_defaults(
        Index("saturday", "sunday"), llm=Scripted({"": A}), system_prompt="Answer kindly."
    )
    chat.chat(Q)


@app(requests=[Expected([TEXTS["saturday"], TEXTS["card"]], answer=None), Expected([TEXTS["saturday"]])])
def retrieved_and_synthesized_by_hand() -> None:
    nodes = Index("saturday", "card").retrieve(Q)
    get_response_synthesizer(Scripted(WRITER)).synthesize(Q, nodes[:1])
