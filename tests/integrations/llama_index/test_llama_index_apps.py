"""Realistic applications: what is recorded of each is what a reader of its code would say."""

from __future__ import annotations

import pytest
from llama_index_apps import APPS, engines, flows, hard, products, published

assert all((engines, flows, hard, products, published))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Skipping serialization")
@pytest.mark.parametrize(("run", "expected"), APPS, ids=[run.__name__ for run, _ in APPS])
def test_application(make_app, run, expected):
    """Question, contexts, answer and status of each request."""
    app = make_app(options=expected[0].options)
    run()
    unknown = [draft.evidence.contexts == "unknown" for draft in app.drafts]
    seen = [one._replace(contexts=None) if hidden else one for one, hidden in zip(app.seen(), unknown, strict=True)]
    assert [(e.question, e.contexts, e.answer, e.status) for e in expected] == [tuple(one) for one in seen]
    assert [list(draft.evidence.doubts) for draft in app.drafts] == [e.doubts for e in expected]
    assert (0, 0) == (app.instrumentor.errors, app.instrumentor.in_flight)


def test_there_are_at_least_sixty():
    """None of them twice."""
    assert 60 <= len({run.__name__ for run, _ in APPS}) == len(APPS)
