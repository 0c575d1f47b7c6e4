"""Searches: several, nested, re-ranked, retried, in other threads."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import threading

from langchain_core.callbacks import dispatch_custom_event
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langgraph.graph import START, StateGraph

from langchain_scenarios import FOUND, Q, prompt_of


def answer_from(app, search):
    """Search in a step of its own, then answer."""
    (RunnableLambda(search) | app.model("answer")).invoke(Q, app.config)


def parallel_two_retrievers(app):
    branches = {"a": app.retriever("a1", "a2"), "b": app.retriever("b1", "b2")}
    (branches | RunnableLambda(str) | app.model("answer")).invoke(Q, app.config)


def ensemble(app):
    from langchain_classic.retrievers import EnsembleRetriever

    retriever = EnsembleRetriever(retrievers=[app.retriever("a", "b"), app.retriever("b", "c")], weights=[0.5, 0.5])
    app.rag(retriever).invoke(Q, app.config)


def multi_query(app):
    from langchain_classic.retrievers import MultiQueryRetriever

    retriever = MultiQueryRetriever.from_llm(app.retriever(*FOUND), app.model("who is it?\nwho was it?"))
    app.rag(retriever).invoke(Q, app.config)


def compression_rerank(app):
    from langchain_classic.retrievers import ContextualCompressionRetriever
    from langchain_core.documents import BaseDocumentCompressor

    class OnlyLast(BaseDocumentCompressor):
        def compress_documents(self, documents, query, callbacks=None):
            return documents[-1:]

    retriever = ContextualCompressionRetriever(base_retriever=app.retriever(*FOUND), base_compressor=OnlyLast())
    app.rag(retriever).invoke(Q, app.config)


def rerank_in_lambda(app):
    app.rag(app.retriever(*FOUND) | RunnableLambda(lambda documents: documents[1:])).invoke(Q, app.config)


def rerank_in_lambda_streamed(app):
    list(app.rag(app.retriever(*FOUND) | RunnableLambda(lambda documents: documents[1:])).stream(Q, app.config))


def rerank_of_a_dict(app):
    keep_last = RunnableLambda(lambda row: row["documents"][1:])
    gather = {"documents": app.retriever(*FOUND), "question": RunnablePassthrough()}
    app.rag(gather | keep_last).invoke(Q, app.config)


def rerank_in_nested_sequence(app):
    shout = RunnableLambda(lambda documents: [Document(page_content=d.page_content.upper()) for d in documents])
    nested = (RunnableLambda(lambda documents: documents[::-1]) | shout).with_config(run_name="rerank")
    app.rag(app.retriever(*FOUND) | nested).invoke(Q, app.config)


def rerank_in_one_of_two_branches(app):
    first = RunnableLambda(lambda documents: documents[:1])
    branches = {"a": app.retriever("a1", "a2") | first, "b": app.retriever("b1", "b2")}
    (branches | RunnableLambda(str) | app.model("answer")).invoke(Q, app.config)


def filter_removes_everything(app):
    app.rag(app.retriever(*FOUND) | RunnableLambda(lambda _: [])).invoke(Q, app.config)


def second_retrieval_from_the_first(app):
    def follow_up(row: dict) -> list[Document]:
        return app.retriever("gamma").invoke(str(row["documents"]))

    both = RunnablePassthrough.assign(more=RunnableLambda(follow_up)) | RunnableLambda(str) | app.model("answer")
    ({"documents": app.retriever(*FOUND)} | both).invoke(Q, app.config)


def lambda_calls_retriever(app):
    answer_from(app, lambda question: str(app.retriever(*FOUND).invoke(question)))


def async_lambda_calls_retriever(app):
    async def search(question: str) -> str:
        return str(await app.retriever(*FOUND).ainvoke(question))

    asyncio.run((RunnableLambda(search) | app.model("answer")).ainvoke(Q, app.config))


def lambda_uses_asyncio_to_thread(app):
    async def search(question: str) -> str:
        return str(await asyncio.to_thread(app.retriever(*FOUND).invoke, question))

    asyncio.run((RunnableLambda(search) | app.model("answer")).ainvoke(Q, app.config))


def lambda_uses_a_task(app):
    async def search(question: str) -> str:
        return str(await asyncio.create_task(app.retriever(*FOUND).ainvoke(question)))

    asyncio.run((RunnableLambda(search) | app.model("answer")).ainvoke(Q, app.config))


def lambda_copies_the_context(app):
    def search(question: str) -> str:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            context = contextvars.copy_context()
            return str(pool.submit(context.run, app.retriever(*FOUND).invoke, question).result())

    answer_from(app, search)


def plain_thread_in_lambda(app):
    def search(question: str) -> str:
        thread = threading.Thread(target=app.retriever(*FOUND).invoke, args=(question,))
        thread.start()
        thread.join()
        return question

    answer_from(app, search)


def executor_in_async_lambda(app):
    async def search(question: str) -> str:
        loop = asyncio.get_running_loop()
        return str(await loop.run_in_executor(None, app.retriever(*FOUND).invoke, question))

    asyncio.run((RunnableLambda(search) | app.model("answer")).ainvoke(Q, app.config))


def graph_async_node_no_config(app):
    async def search(state: dict) -> dict:
        return {**state, "found": str(await app.retriever(*FOUND).ainvoke(state["question"]))}

    async def write(state: dict) -> dict:
        return {**state, "answer": (await app.model("answer").ainvoke(state["found"])).content}

    graph = StateGraph(dict)
    graph.add_node("search", search)
    graph.add_node("write", write)
    graph.add_edge(START, "search")
    graph.add_edge("search", "write")
    asyncio.run(graph.compile().ainvoke({"question": Q}, app.config))


def graph_two_nodes(app):
    graph = StateGraph(dict)
    graph.add_node("search", lambda state: {**state, "context": app.retriever(*FOUND).invoke(state["question"])})
    graph.add_node("filter", lambda state: {**state, "context": state["context"][:1]})
    graph.add_node("write", lambda state: {**state, "answer": app.model("answer").invoke(prompt_of(state)).content})
    graph.add_edge(START, "search")
    graph.add_edge("search", "filter")
    graph.add_edge("filter", "write")
    graph.compile().invoke({"question": Q}, app.config)


def llm_retry(app):
    model = app.model(ConnectionError("try again"), "answer")
    app.rag(model=model.with_retry(wait_exponential_jitter=False)).invoke(Q, app.config)


def whole_chain_retry(app):
    attempts = []

    def fail_once(text: str) -> str:
        attempts.append(text)
        if len(attempts) == 1:
            raise ConnectionError("try again")
        return text

    chain = app.rag() | RunnableLambda(fail_once)
    chain.with_retry(wait_exponential_jitter=False).invoke(Q, app.config)


def retriever_fallback(app):
    broken = app.retriever("never", failures=[ConnectionError("index down")])
    app.rag(broken.with_fallbacks([app.retriever(*FOUND)])).invoke(Q, app.config)


def async_retry(app):
    model = app.model(ConnectionError("try again"), "answer")
    asyncio.run(app.rag(model=model.with_retry(wait_exponential_jitter=False)).ainvoke(Q, app.config))


def custom_event_context(app):
    def search(question: str) -> str:
        dispatch_custom_event("rag.contexts", {"contexts": [Document(page_content="gamma"), "delta", {"text": "eps"}]})
        return question

    (RunnableLambda(search) | app.model("answer")).invoke(Q, app.config)
