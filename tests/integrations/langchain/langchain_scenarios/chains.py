"""Chains, old and new, with every outcome a call can have."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from langchain_core.callbacks import CallbackManager
from langchain_core.language_models import FakeListLLM
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from pydantic import BaseModel

from langchain_scenarios import FOUND, Q


def lcel_invoke(app):
    app.rag().invoke(Q, app.config)


def lcel_ainvoke(app):
    asyncio.run(app.rag().ainvoke(Q, app.config))


def inputs_in_a_dict(app):
    chain = RunnablePassthrough.assign(context=(lambda row: row["question"]) | app.retriever(*FOUND)) | (
        lambda _: "answer"
    )
    chain.invoke({"question": Q}, app.config)


def inputs_as_messages(app):
    chain = RunnableLambda(lambda messages: messages[-1].content) | app.rag()
    chain.invoke([HumanMessage("before"), AIMessage("hm"), HumanMessage(Q)], app.config)


def lcel_batch_with_one_failure(app):
    def fail_on_bad(question: str) -> str:
        if question == "bad":
            raise ValueError("no such thing")
        return question

    (RunnableLambda(fail_on_bad) | app.rag()).batch([Q, "bad"], app.config, return_exceptions=True)


def create_retrieval_chain_(app):
    from langchain_classic.chains import create_retrieval_chain
    from langchain_classic.chains.combine_documents import create_stuff_documents_chain

    prompt = ChatPromptTemplate.from_template("{context} {input}")
    chain = create_retrieval_chain(app.retriever(*FOUND), create_stuff_documents_chain(app.model("answer"), prompt))
    chain.invoke({"input": Q}, app.config)


def history_aware_chain(app):
    from langchain_classic.chains import create_history_aware_retriever, create_retrieval_chain
    from langchain_classic.chains.combine_documents import create_stuff_documents_chain

    prompt = ChatPromptTemplate.from_messages([("placeholder", "{chat_history}"), ("human", "{input}")])
    answer = ChatPromptTemplate.from_template("{context} {input}")
    retriever = create_history_aware_retriever(app.model("rewritten"), app.retriever(*FOUND), prompt)
    chain = create_retrieval_chain(retriever, create_stuff_documents_chain(app.model("answer"), answer))
    chain.invoke({"input": Q, "chat_history": [HumanMessage("x"), AIMessage("y")]}, app.config)


def retrieval_qa_legacy(app):
    from langchain_classic.chains import RetrievalQA

    chain = RetrievalQA.from_chain_type(
        app.model("answer"), retriever=app.retriever(*FOUND), return_source_documents=True
    )
    chain.invoke({"query": Q}, app.config)


def text_llm(app):
    app.rag(model=FakeListLLM(responses=["answer"])).invoke(Q, app.config)


def retriever_error(app):
    with pytest.raises(ConnectionError):
        app.rag(app.retriever("alpha", failures=[ConnectionError("index down")])).invoke(Q, app.config)


def llm_error(app):
    with pytest.raises(ConnectionError):
        app.rag(model=app.model(ConnectionError("model down"))).invoke(Q, app.config)


def empty_retrieval(app):
    app.rag(app.retriever()).invoke(Q, app.config)


def no_retrieval(app):
    (ChatPromptTemplate.from_template("{input}") | app.model("answer") | StrOutputParser()).invoke(Q, app.config)


def empty_answer(app):
    app.rag(model=app.model("")).invoke(Q, app.config)


def plain_function_without_root(app):
    app.retriever(*FOUND).invoke(Q, app.config)
    app.model("answer").invoke("a prompt", app.config)


def content_block_answer(app):
    blocks = [
        {"type": "reasoning", "reasoning": "let me think"},
        {"type": "text", "text": "ans"},
        {"type": "text", "text": "wer"},
    ]
    (RunnablePassthrough() | app.model(AIMessage(blocks))).invoke(Q, app.config)


class Quoted(BaseModel):
    """What a model with a structured output replies."""

    answer: str
    sources: list[int] = []


class Haiku(BaseModel):
    """The same, with a name that no rule knows."""

    verse: str


def structured_answer(app):
    (app.rag() | (lambda text: Quoted(answer=text))).invoke(Q, app.config)


def structured_answer_with_unknown_names(app):
    (app.rag() | (lambda text: Haiku(verse=text))).invoke(Q, app.config)


def unknown_input_keys(app):
    search = RunnableLambda(lambda row: row["topic"]) | app.retriever(*FOUND)
    ({"context": search} | RunnableLambda(lambda _: "answer")).invoke({"topic": "the topic", "n": 3}, app.config)


def unknown_output_keys(app):
    (app.rag() | (lambda text: {"haiku": text})).invoke(Q, app.config)


QUESTIONS = [f"q{i}" for i in range(4)]


def lcel_batch(app):
    app.rag(app.echo()).batch(QUESTIONS, app.config)


def lcel_abatch(app):
    asyncio.run(app.rag(app.echo()).abatch(QUESTIONS, app.config))


def lcel_batch_as_completed(app):
    assert len(QUESTIONS) == len(list(app.rag(app.echo()).batch_as_completed(QUESTIONS, app.config)))


def lcel_abatch_as_completed(app):
    async def read() -> list[object]:
        return [item async for item in app.rag(app.echo()).abatch_as_completed(QUESTIONS, app.config)]

    assert len(QUESTIONS) == len(asyncio.run(read()))


def concurrent_ainvoke(app):
    async def all_at_once() -> None:
        chain = app.rag(app.echo())
        await asyncio.gather(*(chain.ainvoke(question, app.config) for question in QUESTIONS))

    asyncio.run(all_at_once())


def ainvoke_canceled(app):
    async def cancel() -> None:
        waiting = asyncio.Event()

        async def hang(_: object) -> str:
            waiting.set()
            await asyncio.sleep(60)
            return ""

        chain = app.rag() | RunnableLambda(lambda _: "", afunc=hang)
        task = asyncio.create_task(chain.ainvoke(Q, app.config))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())


def parent_run_of_another_tracer(app):
    # As below LangSmith's `@traceable`: the parent is another tracer's, and never reported.
    manager = CallbackManager([app.handler], [app.handler], parent_run_id=uuid.UUID(int=7))
    app.rag().invoke(Q, {"callbacks": manager})


def usage_and_model(app):
    reply = AIMessage(
        "answer",
        usage_metadata={"input_tokens": 10, "output_tokens": 3, "total_tokens": 13},
        response_metadata={"model_name": "tiny-1"},
    )
    model = app.model(reply, reply)
    metadata = {"user_id": 7, "session_id": "s", "release": "r1", "secret": object(), "reference": ["yes", "indeed"]}
    chain = (model | RunnableLambda(lambda message: message.content) | model).with_config(run_name="twice")
    chain.invoke(Q, {**app.config, "tags": ["canary"], "metadata": metadata})
