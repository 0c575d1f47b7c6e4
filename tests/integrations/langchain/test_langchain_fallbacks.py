"""Fallbacks around a whole application: one request, whatever LangChain says of its attempts."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.runnables import RunnableLambda

Q = "who?"


def invoke(chain, config):
    chain.invoke(Q, config)


def ainvoke(chain, config):
    asyncio.run(chain.ainvoke(Q, config))


def stream(chain, config):
    list(chain.stream(Q, config))


def batch(chain, config):
    chain.batch([Q], config)


def broken(app):
    """An application that searches, and then fails."""
    return app.retriever("never") | RunnableLambda(lambda documents: 1 / 0)


@pytest.mark.parametrize("call", [invoke, ainvoke, stream, batch])
@pytest.mark.parametrize("name", [{}, {"run_name": "my app"}], ids=["unnamed", "named"])
def test_a_request_that_a_fallback_saves_is_one_request(app, call, name):
    """The failed attempt is an inner error; contexts and answer are those of the fallback."""
    call(broken(app).with_fallbacks([app.rag()]), app.config | name)

    draft = app.draft
    assert (Q, "answer", "ok") == (draft.query, draft.response, draft.status)
    assert [["alpha", "beta"]] == [[passage.text for passage in search.passages] for search in draft.retrievals]
    assert ["ZeroDivisionError: division by zero"] == draft.inner_errors


@pytest.mark.parametrize("call", [invoke, ainvoke])
def test_a_request_that_no_fallback_saves_is_one_error(app, call):
    """Not one for each attempt."""
    with pytest.raises(ZeroDivisionError):
        call(broken(app).with_fallbacks([broken(app)]), app.config)

    assert ("error", "ZeroDivisionError: division by zero", []) == (
        app.draft.status, app.draft.error, app.draft.inner_errors,
    )  # fmt: skip


def test_models_with_fallbacks_are_one_request(app):
    """An attempt may be a model as well as a chain."""
    app.model(ValueError("overloaded")).with_fallbacks([app.model("answer")]).invoke(Q, app.config)

    assert (Q, "answer", ["ValueError: overloaded"]) == (app.draft.query, app.draft.response, app.draft.inner_errors)


def test_requests_that_an_application_starts_inside_another_are_parts_of_it(app):
    """A step that asks another chain with the same handler is one request, whose last reply is the answer."""
    inner = app.rag(model=app.model("the first of the two answers", "the second of the two answers"))
    RunnableLambda(lambda text: [inner.invoke(f"{text} {i}", app.config) for i in range(2)][-1]).invoke(Q, app.config)

    assert (Q, "the second of the two answers", 2) == (app.draft.query, app.draft.response, len(app.draft.retrievals))
