"""Chains: what one call of each kind leaves behind. The numbers are those of the conformance matrix in the docs."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListLLM
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough

Q = "who?"
FOUND = ["alpha", "beta"]


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


def lcel_batch_one_bad(app):
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


def plain_function_no_root(app):
    app.retriever(*FOUND).invoke(Q, app.config)
    app.model("answer").invoke("a prompt", app.config)


def ctor_callbacks_only(app):
    # LangChain ignores the argument: nothing is captured, and nothing breaks.
    type(app.retriever())(texts=FOUND, callbacks=[app.handler]).invoke(Q)


def with_config_bound(app):
    app.rag().with_config(callbacks=[app.handler]).invoke(Q, app.config)


def content_block_answer(app):
    blocks = [
        {"type": "reasoning", "reasoning": "let me think"},
        {"type": "text", "text": "ans"},
        {"type": "text", "text": "wer"},
    ]
    (RunnablePassthrough() | app.model(AIMessage(blocks))).invoke(Q, app.config)


def unknown_input_keys(app):
    search = RunnableLambda(lambda row: row["topic"]) | app.retriever(*FOUND)
    ({"context": search} | RunnableLambda(lambda _: "answer")).invoke({"topic": "the topic", "n": 3}, app.config)


def unknown_output_keys(app):
    (app.rag() | (lambda text: {"haiku": text})).invoke(Q, app.config)


# fmt: off
MATRIX = [
    # row  scenario                   question     contexts  answer    status
    (1,    lcel_invoke,             [(Q,           FOUND,    "answer", "ok")]),
    (2,    lcel_ainvoke,            [(Q,           FOUND,    "answer", "ok")]),
    ("2b", inputs_in_a_dict,        [(Q,           FOUND,    "answer", "ok")]),
    ("2c", inputs_as_messages,      [(Q,           FOUND,    "answer", "ok")]),
    (7,    lcel_batch_one_bad,      [("bad",       None,     None,     "error"),
                                     (Q,           FOUND,    "answer", "ok")]),
    (13,   create_retrieval_chain_, [(Q,           FOUND,    "answer", "ok")]),
    (14,   history_aware_chain,     [(Q,           FOUND,    "answer", "ok")]),
    (15,   retrieval_qa_legacy,     [(Q,           FOUND,    "answer", "ok")]),
    (16,   text_llm,                [(Q,           FOUND,    "answer", "ok")]),
    (24,   plain_function_no_root,  [(Q,           FOUND,    None,     "ok"),
                                     ("a prompt",  None,     "answer", "ok")]),
    (27,   retriever_error,         [(Q,           None,     None,     "error")]),
    (27,   llm_error,               [(Q,           FOUND,    None,     "error")]),
    (28,   empty_retrieval,         [(Q,           [],       "answer", "ok")]),
    (28,   no_retrieval,            [(Q,           None,     "answer", "ok")]),
    ("28b", empty_answer,           [(Q,           FOUND,    "",       "ok")]),
    (39,   ctor_callbacks_only,     []),
    (40,   with_config_bound,       [(Q,           FOUND,    "answer", "ok")]),
    (47,   content_block_answer,    [(Q,           None,     "answer", "ok")]),
    (48,   unknown_input_keys,      [("the topic", FOUND,    "answer", "ok")]),
    ("48b", unknown_output_keys,    [(Q,           FOUND,    "answer", "ok")]),
]
# fmt: on


@pytest.mark.parametrize(("row", "scenario", "expected"), MATRIX, ids=[f"{row[0]}-{row[1].__name__}" for row in MATRIX])
def test_chain_matrix(app, row, scenario, expected):
    """Each scenario leaves exactly these records: question, contexts, answer, status."""
    scenario(app)
    assert sorted(expected, key=str) == sorted(app.seen(), key=str)


@pytest.mark.parametrize("how", ["batch", "abatch", "batch_as_completed"])
def test_batch_keeps_its_items_apart(app, how):
    """Row 6: one record for each item, each with its own question and contexts."""
    questions = [f"q{i}" for i in range(8)]
    chain = app.rag(app.echo())
    if how == "abatch":
        asyncio.run(chain.abatch(questions, app.config))
    else:
        list(getattr(chain, how)(questions, app.config))
    assert [(q, [f"about {q}"], "answer", "ok") for q in questions] == sorted(app.seen())


def test_concurrent_calls_are_not_mixed(app):
    """Row 8: four calls on one event loop, one record each."""

    async def four() -> None:
        chain = app.rag(app.echo())
        await asyncio.gather(*(chain.ainvoke(f"q{i}", app.config) for i in range(4)))

    asyncio.run(four())
    assert [(f"q{i}", [f"about q{i}"], "answer", "ok") for i in range(4)] == sorted(app.seen())


def test_cancelled_call_is_an_error(app):
    """Row 12: what was retrieved before the cancellation is kept."""

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
    assert [(Q, FOUND, None, "error")] == app.seen()
    assert "CancelledError" == app.draft.error


def test_usage_and_model(app):
    """Row 49: tokens add up over the calls of a request; model, tags and metadata come along."""
    reply = AIMessage(
        "answer",
        usage_metadata={"input_tokens": 10, "output_tokens": 3, "total_tokens": 13},
        response_metadata={"model_name": "tiny-1"},
    )
    model = app.model(reply, reply)
    metadata = {"user_id": 7, "session_id": "s", "release": "r1", "secret": object(), "reference": ["yes", "indeed"]}
    chain = (model | RunnableLambda(lambda message: message.content) | model).with_config(run_name="twice")
    chain.invoke(Q, {**app.config, "tags": ["canary"], "metadata": metadata})
    draft = app.draft
    assert (20, 6, "tiny-1") == (draft.input_tokens, draft.output_tokens, draft.model)
    assert ("twice", ["canary"], {"release": "r1"}) == (draft.name, draft.tags, draft.metadata)
    assert ("7", "s", ["yes", "indeed"]) == (draft.user_id, draft.session_id, draft.reference)


def test_passages_keep_what_the_retriever_said(app):
    """Text, id, score and scalar metadata of each document, and the name and query of the search."""
    app.rag().invoke(Q, app.config)
    (search,) = app.draft.searches
    assert (Q, "FixedRetriever") == (search.query, search.name)
    assert [("alpha", "id-alpha", 1.0, 0), ("beta", "id-beta", 0.5, 1)] == [
        (passage.text, passage.id, passage.score, passage.metadata["rank"]) for passage in search.passages
    ]


def test_ids_and_times(make_app):
    """The trace is named after the root run, and timed by the handler's clock."""
    import uuid

    run_id = uuid.uuid4()
    ticks = iter(range(100, 200))
    app = make_app(options={"clock": lambda: float(next(ticks))})
    app.rag().invoke(Q, {**app.config, "run_id": run_id})
    draft = app.draft
    assert (str(run_id), str(run_id), None, "langchain") == (
        draft.trace_id, draft.run_id, draft.parent_run_id, draft.source,
    )  # fmt: skip
    assert 100.0 == draft.started_at < draft.ended_at


def test_errors_say_their_type(app):
    """The root's error is the trace's; it is not repeated among the errors that were survived."""
    retriever_error(app)
    assert ("ConnectionError: index down", []) == (app.draft.error, app.draft.inner_errors)


def test_original_question_and_rewritten_query_are_both_kept(app):
    """Row 14: the search has the rewritten query, the trace the user's words."""
    history_aware_chain(app)
    assert (Q, ["rewritten"]) == (app.draft.query, [search.query for search in app.draft.searches])
    assert app.draft.contexts is None


def test_duplicate_registration_is_counted(app):
    """Row 40: each root event came twice, and the second one was ignored."""
    with_config_bound(app)
    assert 2 == app.handler.late_events


def test_extractors_come_before_the_rules(make_app):
    """Row 48: an application with its own shapes says where things are."""
    app = make_app(
        options={
            "question": lambda inputs: inputs["topic"],
            "contexts": lambda outputs: [Document(page_content=outputs["evidence"])],
            "answer": lambda outputs: outputs["haiku"],
        }
    )
    RunnableLambda(lambda _: {"haiku": "short", "evidence": "long"}).invoke({"topic": Q, "query": "no"}, app.config)
    assert [(Q, ["long"], "short", "ok")] == app.seen()


def test_raising_extractor_costs_only_its_piece(make_app):
    """The rest of the trace is there, and the error is counted."""
    app = make_app(options={"answer": lambda outputs: outputs["no such key"]})
    app.rag().invoke(Q, app.config)
    assert ([(Q, FOUND, "answer", "ok")], 1) == (app.seen(), app.handler.errors)


def test_contexts_stated_by_an_event(app):
    """Row 46: an application that searches without a retriever says what it put into the prompt."""
    from langchain_core.callbacks import dispatch_custom_event

    def search(question: str) -> str:
        dispatch_custom_event("rag.contexts", {"contexts": [Document(page_content="gamma"), "delta"]})
        return question

    (RunnableLambda(search) | app.model("answer")).invoke(Q, app.config)
    assert [(Q, ["gamma", "delta"], "answer", "ok")] == app.seen()


def test_foreign_parent_does_not_hide_the_root(app):
    """Row 41: a parent of another tracer is none of ours; its id is kept."""
    import uuid

    from langchain_core.callbacks import CallbackManager

    parent = uuid.uuid4()
    app.rag().invoke(Q, {"callbacks": CallbackManager([app.handler], [app.handler], parent_run_id=parent)})
    assert [(Q, FOUND, "answer", "ok")] == app.seen()
    assert str(parent) == app.draft.parent_run_id
