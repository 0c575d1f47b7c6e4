"""Applications that are hard to read: dropped streams, repeated, rewritten, translated and missing passages, failures, memory."""

from __future__ import annotations

import json
from operator import itemgetter
from typing import Any

from langchain.agents import create_agent
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_core.tools import tool

from langchain_apps import TEXTS, A, Expected, Index, Q, Scripted, app, calls, join

ANSWER = ChatPromptTemplate.from_template("Answer from the context.\n{context}\nQuestion: {question}")
WRITER = {"Answer from the context": A}


def rag(context: Any) -> Any:
    """The usual chain around something that makes the context."""
    return (
        {"context": context, "question": RunnablePassthrough()} | ANSWER | Scripted(script=WRITER) | StrOutputParser()
    )


@app("saturday", "sunday", answer="On", status="truncated")  # LangChain's output lacks the piece that was read last
def stream_dropped_half_way(config: Any) -> None:
    stream = rag(Index(names=["saturday", "sunday"]) | join).stream(Q, config)
    assert ["On", " Saturdays"] == [next(stream), next(stream)]
    stream.close()


@app("saturday", "sunday", "branch")
def parallel_branches_with_the_same_passage(config: Any) -> None:
    both = RunnableParallel(dense=Index(names=["saturday", "sunday"]), sparse=Index(names=["branch", "saturday"]))
    rag(both | (lambda found: join([*found["dense"], *found["sparse"]]))).invoke(Q, config)


@app("saturday", "rooms")
def tool_that_returns_documents_in_json(config: Any) -> None:
    @tool
    def search(query: str) -> str:
        """Search an index over HTTP."""
        hits = [{"id": name, "text": TEXTS[name], "score": 0.5} for name in ("saturday", "rooms")]
        return json.dumps({"took_ms": 3, "total": 2, "documents": hits})

    model = Scripted(script={TEXTS["rooms"]: A, Q: calls("search", query="hours")})
    create_agent(model, [search]).invoke({"messages": [{"role": "user", "content": Q}]}, config)


@app(f"Relevance 0.9: {TEXTS['saturday'].upper()}", f"Relevance 0.4: {TEXTS['card'].upper()}")
def reranker_that_rewrites_the_text(config: Any) -> None:
    def rerank(documents: list[Document]) -> list[Document]:
        best = [documents[2], documents[0]]
        return [
            Document(f"Relevance {score}: {one.page_content.upper()}", id=one.id, metadata=one.metadata)
            for score, one in zip((0.9, 0.4), best, strict=True)
        ]

    rag(Index(names=["card", "ferry", "saturday"]) | rerank | join).invoke(Q, config)


@app("saturday", "sunday")
def passages_in_the_system_prompt(config: Any) -> None:
    prompt = ChatPromptTemplate.from_messages(
        [("system", "You know only this:\n<facts>\n{context}\n</facts>"), ("human", "{question}")]
    )
    chain = RunnablePassthrough.assign(context=itemgetter("question") | Index(names=["saturday", "sunday"]) | join)
    (chain | prompt | Scripted(script={"You know only": A})).invoke({"question": Q}, config)


@app("saturday", "sunday")
def passages_translated_one_by_one(config: Any) -> None:
    german = {
        "saturday": "Die Hafenbibliothek öffnet samstags um zehn Uhr morgens und schließt um vier Uhr nachmittags.",
        "sunday": "Sonntags bleibt die Hafenbibliothek geschlossen, bis auf den Lesesaal, der mittags öffnet.",
    }
    model = Scripted(script={f"Translate: {TEXTS[name]}": text for name, text in german.items()})
    translate = ChatPromptTemplate.from_template("Translate: {text}") | model | StrOutputParser()
    context = (
        Index(names=["saturday", "sunday"])
        | RunnableLambda(lambda documents: [{"text": one.page_content} for one in documents])
        | translate.map()
        | "\n\n".join
    )
    # One after the other: calls that run together arrive in any order.
    rag(context).invoke(Q, {**config, "max_concurrency": 1})


@app(unknown=True, doubts=["not_in_prompt"])
def passages_summarized_by_a_function(config: Any) -> None:
    def summarize(documents: list[Document]) -> str:
        return "; ".join(" ".join(word for word in one.page_content.split() if len(word) > 5) for one in documents)

    rag(Index(names=["saturday", "sunday"]) | summarize).invoke(Q, config)


@app()
def nothing_found_and_answered_from_memory(config: Any) -> None:
    rag(Index(names=[]) | join).invoke(Q, config)


@app("saturday", "branch")
def retriever_that_fails_and_falls_back(config: Any) -> None:
    class Broken(Index):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            raise ConnectionError("the index does not respond")

    rag(Broken(names=["ferry"]).with_fallbacks([Index(names=["saturday", "branch"])]) | join).invoke(Q, config)


SECOND = "Only its reading room opens on Sundays, at noon."


@app(
    requests=[
        Expected([TEXTS["saturday"], TEXTS["card"]]),
        Expected([TEXTS["sunday"]], question="And on Sundays?", answer=SECOND),
    ]
)
def memory_that_keeps_the_passages(config: Any) -> None:
    store = InMemoryChatMessageHistory()
    prompt = ChatPromptTemplate.from_messages([MessagesPlaceholder("history"), ("human", "{question}\n\n{context}")])
    index = Index(by_query={"Saturdays": ["saturday", "card"], "Sundays": ["sunday"]})
    model = Scripted(script={"And on Sundays?": SECOND, Q: A})
    chain = RunnablePassthrough.assign(context=itemgetter("question") | index | join) | prompt | model
    remembering = RunnableWithMessageHistory(
        chain, lambda _: store, input_messages_key="question", history_messages_key="history"
    )
    config = {**config, "configurable": {"session_id": "s"}}
    remembering.invoke({"question": Q}, config)
    store.add_user_message(f"What I sent before: {TEXTS['saturday']}\n\n{TEXTS['card']}")
    remembering.invoke({"question": "And on Sundays?"}, config)
