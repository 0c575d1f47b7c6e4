"""The size of requests: what waits in a queue, and what a running one may hold."""

from __future__ import annotations

from ragstone.requests import Message, PassageDraft, PromptLimit, Request, RetrievalDraft, Step, TraceDraft, text_size


def test_shared_texts_count_once() -> None:
    """An agent's prompts repeat the messages of the turns before."""
    message = Message("user", "x" * 100)
    steps = [Step(id=n, kind="model", prompt=(message,) * n, reply="ok") for n in range(1, 5)]
    assert text_size(Request(draft=TraceDraft(), steps=steps)) == 102


def test_draft_counts_its_passages() -> None:
    """A draft that an application made itself."""
    draft = TraceDraft(query="ab", retrievals=[RetrievalDraft(passages=[PassageDraft(text="cde")])], response="f")
    assert text_size(draft) == 6


def test_oldest_prompts_of_tool_calls_are_given_up_first() -> None:
    """What is left fits into the limit, and the last prompt is left."""
    limit = PromptLimit(250)
    steps = [
        Step(id=n, kind="model", prompt=(Message("user", str(n) * 100),), reply="ok", calls_tool=n != 1)
        for n in range(1, 5)
    ]
    for step in steps:
        limit.add(step)
    assert [bool(step.prompt) for step in steps] == [True, False, False, True]
    assert all(step.prompt == () for step in steps if not step.prompt)


def test_shared_prompts_within_the_limit_are_kept() -> None:
    """Only texts that are really held count."""
    limit = PromptLimit(250)
    history = tuple(Message("user", str(n) * 20) for n in range(10))
    steps = [Step(id=n, kind="model", prompt=history[:n], calls_tool=True) for n in range(1, 11)]
    for step in steps:
        limit.add(step)
    assert all(step.prompt for step in steps)
