"""Blocks: requests that the application marks itself, and the steps of frameworks that join them."""

from __future__ import annotations

from ragstone.requests import Request, Statements, Step, TraceDraft, current_request
from ragstone.requests._live import LiveRequest
from ragstone.testing import MemoryRecorder


def live(**draft):
    """Return a request in flight."""
    return LiveRequest(MemoryRecorder(), TraceDraft(**draft), Step(id="root", kind="chain"))


def test_there_is_no_request_outside_a_block():
    """`current_request` returns None outside of all blocks."""
    assert current_request() is None


def test_a_frameworks_request_joins_the_block():
    """Its outermost steps hang on the block's step; inner steps keep their parents."""
    request = live()
    steps = [Step(id=1, parent="unknown"), Step(id=2, parent=1)]
    assert request.join(Request(draft=TraceDraft(), steps=steps), parent=request.root)
    assert ["root", 1] == [step.parent for step in steps]
    ended = request.end("ok")
    assert [request.root, *steps] == list(ended.steps)


def test_a_joined_request_gives_what_the_block_lacks():
    """What the block states wins; identity, tags and statements of the framework fill the gaps."""
    request = live(session_id="ours", tags=["a"], metadata={"k": 1})
    inner = TraceDraft(session_id="theirs", user_id="u", reference=["yes"], tags=["a", "b"], metadata={"k": 2, "m": 3})
    inner.error, inner.inner_errors = "ValueError: broken", ["KeyError: 'x'"]
    joined = Request(draft=inner, statements=Statements(contexts=[], response="stated"))
    assert request.join(joined, parent=request.root)
    draft = request.end("ok").draft
    assert ("ours", "u", ["yes"]) == (draft.session_id, draft.user_id, draft.reference)
    assert (["a", "b"], {"k": 1, "m": 3}) == (draft.tags, draft.metadata)
    assert (None, ["KeyError: 'x'", "ValueError: broken"]) == (draft.error, draft.inner_errors)
    assert ([], "stated") == (request.statements.contexts, request.statements.response)


def test_steps_after_the_end_are_counted():
    """A request ends once, and a step that comes later is left out."""
    request = live()
    assert request.end("ok") is not None
    assert request.end("error") is None
    assert not request.join(Request(draft=TraceDraft(), steps=[Step(id=1)]), parent=request.root)
    assert 1 == request.n_late
    assert "ok" == request.draft.status
