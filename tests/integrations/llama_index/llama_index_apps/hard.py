"""Applications that are hard to read: dropped streams, repeated, rewritten, translated and missing passages, failures, memory."""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from llama_index_apps import TEXTS, A, Expected, Index, Q, Scripted, app, calls
from llama_index_apps.engines import engine

dispatcher = get_dispatcher(__name__)


@app("saturday", "sunday", answer="On Saturdays", status="truncated")
def stream_dropped_half_way() -> None:
    tokens = engine(Index("saturday", "sunday"), streaming=True).query(Q).response_gen
    assert ["On", " Saturdays"] == [next(tokens), next(tokens)]
    tokens.close()


class Both(BaseRetriever):
    """A retriever that asks two others and keeps everything."""

    def __init__(self, *retrievers: BaseRetriever) -> None:
        super().__init__()
        self.retrievers = retrievers

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [node for retriever in self.retrievers for node in retriever.retrieve(query_bundle)]


@app("saturday", "sunday", "branch")
def parallel_retrievers_with_the_same_passage() -> None:
    engine(Both(Index("saturday", "sunday"), Index("branch", "saturday"))).query(Q)


@app("saturday", "card")
def tool_that_returns_documents_in_a_mapping() -> None:
    def search(topic: str) -> dict[str, Any]:
        """Search a service."""
        hits = [{"id": name, "text": TEXTS[name], "score": 0.5} for name in ("saturday", "card")]
        return {"took_ms": 3, "total": 2, "documents": hits}

    async def go() -> None:
        model = Scripted({"harbor library opens at ten": A, Q: calls("search", topic="library hours")})
        await FunctionAgent(tools=[search], llm=model).run(user_msg=Q)

    asyncio.run(go())


class Rewrite(BaseNodePostprocessor):
    """A reranker that keeps the first two nodes as new ones, in capitals."""

    def _postprocess_nodes(self, nodes: list[NodeWithScore], query_bundle: Any = None) -> list[NodeWithScore]:
        texts = [f"Relevance 0.{9 - rank}: {one.text.upper()}" for rank, one in enumerate(nodes[:2])]
        return [NodeWithScore(node=TextNode(text=text), score=0.9) for text in texts]


@app(f"Relevance 0.9: {TEXTS['saturday'].upper()}", f"Relevance 0.8: {TEXTS['card'].upper()}")
def reranker_that_rewrites_the_text() -> None:
    engine(Index("saturday", "card", "ferry"), node_postprocessors=[Rewrite()]).query(Q)


@app("saturday", "sunday")
def passages_in_the_system_prompt() -> None:
    @dispatcher.span
    def ask(question: str) -> str:
        found = "\n".join(one.text for one in Index("saturday", "sunday").retrieve(question))
        system = ChatMessage(role="system", content=f"You know only this:\n<facts>\n{found}\n</facts>")
        reply = Scripted({"You know only": A}).chat([system, ChatMessage(role="user", content=question)])
        return str(reply.message.content)

    ask(Q)


GERMAN = {
    "saturday": "Die Hafenbibliothek öffnet samstags um zehn Uhr morgens und schließt um vier Uhr nachmittags.",
    "sunday": "Sonntags bleibt die Hafenbibliothek geschlossen, bis auf den Lesesaal, der mittags öffnet.",
}


class Translate(BaseNodePostprocessor):
    """Replaces each text by its translation, in place."""

    def _postprocess_nodes(self, nodes: list[NodeWithScore], query_bundle: Any = None) -> list[NodeWithScore]:
        model = Scripted({f"Translate: {TEXTS[name]}": text for name, text in GERMAN.items()})
        for one in nodes:
            one.node.text = model.complete(f"Translate: {one.text}").text  # type: ignore[attr-defined]
        return nodes


@app(*GERMAN.values())
def passages_translated_in_place() -> None:
    engine(Index("saturday", "sunday"), node_postprocessors=[Translate()]).query(Q)


class Summarizing(CustomQueryEngine):
    """An engine that puts the long words of the passages into its prompt."""

    def custom_query(self, query_str: str) -> str:
        found = Index("saturday", "sunday").retrieve(query_str)
        words = "; ".join(" ".join(word for word in one.text.split() if len(word) > 5) for one in found)
        return Scripted({"Words: ": A}).complete(f"Words: {words}\nAnswer: {query_str}").text


@app(unknown=True, doubts=["not_in_prompt"])
def passages_summarized_by_a_function() -> None:
    Summarizing().query(Q)


class FromMemory(CustomQueryEngine):
    """An engine that answers also if nothing was found."""

    def custom_query(self, query_str: str) -> str:
        found = "\n".join(one.text for one in Index().retrieve(query_str))
        return Scripted({"Context: ": A}).complete(f"Context: {found}\nAnswer: {query_str}").text


@app()
def nothing_found_and_answered_from_memory() -> None:
    FromMemory().query(Q)


class Broken(BaseRetriever):
    """A retriever that does not respond."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        raise ConnectionError("the index does not respond")


class FallingBack(BaseRetriever):
    """A retriever that asks another one if the first fails."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        try:
            return Broken().retrieve(query_bundle)
        except ConnectionError:
            return Index("saturday", "branch").retrieve(query_bundle)


@app("saturday", "branch")
def retriever_that_fails_and_falls_back() -> None:
    engine(FallingBack()).query(Q)


SECOND = "Only its reading room opens on Sundays, at noon."


@app(
    requests=[
        Expected([TEXTS["saturday"], TEXTS["card"]]),
        Expected([TEXTS["sunday"]], question="And on Sundays?", answer=SECOND),
    ]
)
def memory_that_keeps_the_passages() -> None:
    memory = ChatMemoryBuffer.from_defaults(token_limit=4_000, tokenizer_fn=str.split)
    index = Index(by_query={"Saturdays": ["saturday", "card"], "Sundays": ["sunday"]})
    chat = ContextChatEngine.from_defaults(index, llm=Scripted({"And on Sundays?": SECOND, "": A}), memory=memory)
    chat.chat(Q)
    memory.put(ChatMessage(role="user", content=f"As you said: {TEXTS['saturday']} {TEXTS['card']}"))
    chat.chat("And on Sundays?")
