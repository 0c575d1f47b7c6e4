"""Realistic applications: what is recorded of each is what a reader of its code would say."""

from __future__ import annotations

import pytest
from langchain_apps import APPS, agents, chains, classic, graphs, hard, products, published

assert all((agents, chains, classic, graphs, hard, products, published))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:The apply_and_parse:UserWarning")
@pytest.mark.parametrize(("run", "expected"), APPS, ids=[run.__name__ for run, _ in APPS])
def test_application(make_app, run, expected):
    """Question, contexts, answer and status of each request."""
    app = make_app(options=expected[0].options)
    run(app.config)
    assert [(e.question, e.contexts, e.answer, e.status) for e in expected] == [tuple(seen) for seen in app.seen()]
    assert [list(draft.evidence.doubts) for draft in app.drafts] == [e.doubts for e in expected]
    assert (0, 0) == (app.handler.errors, app.handler.in_flight)


def test_there_are_at_least_seventy():
    """None of them twice."""
    assert 70 <= len({run.__name__ for run, _ in APPS}) == len(APPS)
