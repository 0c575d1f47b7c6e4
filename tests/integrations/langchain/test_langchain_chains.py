"""Chains: what the matrix does not show of a record."""

from __future__ import annotations

import logging
import uuid

import pytest
from langchain_core.callbacks import dispatch_custom_event
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langchain_scenarios import FOUND, Q, chains, retrieval


def test_passages_keep_what_the_retriever_said(app):
    """Text, id, score and scalar metadata of each document, and the name and query of the search."""
    app.rag().invoke(Q, app.config)
    (search,) = app.draft.retrievals
    assert (Q, "FixedRetriever") == (search.query, search.name)
    assert [("alpha", "id-alpha", 1.0, 0), ("beta", "id-beta", 0.5, 1)] == [
        (passage.text, passage.id, passage.score, passage.metadata["rank"]) for passage in search.passages
    ]


def test_ids_and_times(make_app):
    """The trace is named after the root run, and timed by the handler's clock."""
    run_id = uuid.uuid4()
    ticks = iter(range(100, 200))
    app = make_app(options={"clock": lambda: float(next(ticks))})
    app.rag().invoke(Q, {**app.config, "run_id": run_id})
    draft = app.draft
    assert (str(run_id), str(run_id), None, "langchain") == (
        draft.trace_id, draft.run_id, draft.parent_run_id, draft.source,
    )  # fmt: skip
    assert 100.0 == draft.started_at < draft.ended_at


@pytest.mark.parametrize(
    "scenario",
    [
        chains.history_aware_chain,
        retrieval.parallel_two_retrievers,
        retrieval.ensemble,
        retrieval.lambda_calls_retriever,
    ],
)
def test_contexts_are_stated_only_where_they_differ(app, scenario):
    """Where the prompt got what the searches found, nothing is kept twice."""
    scenario(app)
    assert app.draft.stored_contexts is None


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


@pytest.mark.parametrize(
    ("stated", "kept"),
    [
        ([Document(page_content="a"), "b", {"text": "c"}], ["a", "b", "c"]),
        (iter(["a"]), ["a"]),
        ([], []),
        (None, FOUND),
    ],
)
def test_an_extractor_states_documents_texts_or_mappings(make_app, stated, kept):
    """None leaves the decision to the usual rules, and an empty list does not."""
    app = make_app(options={"contexts": lambda _: stated})
    app.rag().invoke(Q, app.config)
    assert [(Q, kept, "answer", "ok")] == app.seen()


@pytest.mark.parametrize(
    "wrong",
    [
        {"question": lambda inputs: inputs["no such key"]},
        {"contexts": lambda outputs: outputs["no such key"]},
        {"contexts": lambda _: [7]},
        {"contexts": lambda _: "one text"},
        {"answer": lambda outputs: outputs["no such key"]},
    ],
    ids=["question raises", "contexts raises", "no passage", "no list", "answer raises"],
)
def test_a_wrong_extractor_costs_only_its_piece(make_app, caplog, wrong):
    """The usual rules take its place; the error is counted each time, and logged once."""
    app = make_app(options=wrong)
    with caplog.at_level(logging.WARNING):
        assert ["answer", "answer"] == [app.rag().invoke(Q, app.config) for _ in range(2)]
    assert [(Q, FOUND, "answer", "ok")] * 2 == app.seen()
    assert (2, 1) == (app.handler.errors, len(caplog.records))


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        ({"contexts": ["gamma", {"text": "delta"}]}, ["gamma", "delta"]),
        ({"documents": [Document(page_content="gamma")], "took_s": 3}, ["gamma"]),
        (["gamma"], ["gamma"]),
        ([], []),
    ],
)
def test_an_event_states_contexts_under_the_application_s_own_name(make_app, data, kept):
    """An application that dispatches such an event already says how it is called."""
    app = make_app(options={"contexts_event": "found"})

    def search(question: str) -> str:
        dispatch_custom_event("rag.contexts", ["not asked for"])
        dispatch_custom_event("found", data)
        return question

    (RunnableLambda(search) | app.model("answer")).invoke(Q, app.config)
    assert ([(Q, kept, "answer", "ok")], 0) == (app.seen(), app.handler.errors)


@pytest.mark.parametrize("data", [7, "gamma", {"text": "gamma"}, {"contexts": [7]}, None])
def test_an_event_that_states_nothing_of_the_kind_is_counted(make_app, data):
    """The contexts stay unknown, rather than being guessed."""
    app = make_app()

    def search(question: str) -> str:
        dispatch_custom_event("rag.contexts", data)
        return question

    (RunnableLambda(search) | app.model("answer")).invoke(Q, app.config)
    assert ([(Q, None, "answer", "ok")], 1) == (app.seen(), app.handler.errors)
