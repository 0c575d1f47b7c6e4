"""The size of requests: what waits in a queue, and what a running one may hold."""

from __future__ import annotations

import pytest

from ragstone.requests import Message, PassageDraft, Request, RetrievalDraft, Step, TraceDraft, text_size


def test_shared_texts_count_once() -> None:
    """An agent's prompts repeat the messages of the turns before."""
    message = Message("user", "x" * 100)
    steps = [Step(id=n, kind="model", prompt=(message,) * n, reply="ok") for n in range(1, 5)]
    assert text_size(Request(draft=TraceDraft(), steps=steps)) == 102


def test_draft_counts_its_passages() -> None:
    """A draft that an application made itself."""
    draft = TraceDraft(query="ab", retrievals=[RetrievalDraft(passages=[PassageDraft(text="cde")])], response="f")
    assert text_size(draft) == 6


@pytest.fixture
def limit(monkeypatch):
    """A limit of 250 characters."""
    monkeypatch.setattr("ragstone.requests._step._MAX_LIVE_CHARS", 250)


def counted(steps: list[Step]) -> list[Step]:
    """Count the steps of a running request, one after the other, and return them."""
    request = Request(draft=TraceDraft(), steps=(begun := []))
    for step in steps:
        begun.append(step)
        request.count_texts(step)
    return steps


@pytest.mark.usefixtures("limit")
def test_oldest_prompts_of_tool_calls_are_given_up_first() -> None:
    """What is left fits into the limit, and the last prompt is left."""
    steps = counted(
        [
            Step(id=n, kind="model", prompt=(Message("user", str(n) * 100),), reply="ok", calls_tool=n != 1)
            for n in range(1, 5)
        ]
    )
    assert [bool(step.prompt) for step in steps] == [True, False, False, True]
    assert all(step.prompt == () for step in steps if not step.prompt)


@pytest.mark.usefixtures("limit")
def test_shared_prompts_within_the_limit_are_kept() -> None:
    """Only texts that are really held count."""
    history = tuple(Message("user", str(n) * 20) for n in range(10))
    steps = [Step(id=n, kind="model", prompt=history[:n], calls_tool=True) for n in range(1, 11)]
    assert all(step.prompt for step in counted(steps))
