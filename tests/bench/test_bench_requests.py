"""What it costs to assemble the draft of a request, next to what the writer does with the draft anyway."""

from __future__ import annotations

import dataclasses
import json
import random
import statistics
import time
from collections.abc import Callable

import pytest

from ragstone.capture import Converter, redact_secrets
from ragstone.requests import Message, Request, TraceDraft, assemble, text_size
from ragstone.settings import Lengths
from request_steps import ANSWER, QUESTION, Steps, prompt

pytestmark = pytest.mark.bench

ROUNDS = 30


def texts(n: int) -> list[str]:
    """Passages of about 1.5 kB."""
    pick = random.Random(n)
    return [" ".join(f"{pick.randrange(10**6):x}" for _ in range(270)) for _ in range(n)]


def chain(found: int, shown: int) -> Request:
    """A chain that finds passages and puts some of them into its prompt."""
    steps = Steps()
    root = steps.chain(inputs={"question": QUESTION}, outputs={"answer": ANSWER})
    passages = texts(found)
    steps.retrieval(root, *passages)
    steps.model(root, prompt(*passages[-shown:]), ANSWER)
    return steps.request()


def agent(turns: int, result: str = "retrieval") -> Request:
    """An agent that searches five passages in each turn, whose prompt grows.

    Args:
        turns: Number of searches.
        result: "retrieval": a retriever runs in the tool. "hits": the tool returns hits as JSON. "text": it returns a text.
        "cut": a retriever runs, and the tool returns the first half of each passage.
    """
    steps = Steps()
    root = steps.chain(inputs={"question": QUESTION}, outputs={"answer": ANSWER})
    messages = [Message("user", QUESTION)]
    passages = texts(5 * turns)
    for turn in range(turns):
        steps.model(root, tuple(messages), None, calls_tool=True)
        found = passages[5 * turn : 5 * turn + 5]
        text = "\n\n".join(passage[: len(passage) // 2] if result == "cut" else passage for passage in found)
        if result == "hits":
            text = json.dumps([{"text": passage, "score": 0.5} for passage in found])
        tool = steps.add("tool", within=root, name="search", outputs=text)
        if result in ("retrieval", "cut"):
            steps.retrieval(tool, *found)
        messages += [Message("assistant", "", calls_tool=True), Message("tool", text, tool="search")]
    steps.model(root, tuple(messages), ANSWER)
    return steps.request()


def graded(n: int) -> Request:
    """A graph that grades each document with a model, and answers from a tenth of them."""
    steps = Steps()
    root = steps.chain(inputs={"question": QUESTION}, outputs={"answer": ANSWER})
    passages = texts(n)
    steps.retrieval(root, *passages)
    for passage in passages:
        steps.model(root, f"Is this relevant? {passage}", "yes")
    steps.model(root, prompt(*passages[: n // 10]), ANSWER)
    return steps.request()


def summary_tree(n: int) -> Request:
    """A summary of summaries of passages."""
    steps = Steps()
    root = steps.chain(inputs={"question": QUESTION}, outputs={"answer": ANSWER})
    passages = texts(n)
    steps.retrieval(root, *passages)
    summaries = [f"Summary {place}: " + passage[:80] for place, passage in enumerate(texts(n + 1)[:n])]
    for passage, summary in zip(passages, summaries, strict=True):
        steps.model(root, f"Summarize: {passage}", summary)
    steps.model(root, prompt(*summaries), ANSWER)
    return steps.request()


REQUESTS: dict[str, Callable[[], Request]] = {
    "5 found, 5 in the prompt": lambda: chain(5, 5),
    "20 found, 20 in the prompt": lambda: chain(20, 20),
    "20 found, 5 in the prompt": lambda: chain(20, 5),
    "agent of 40 turns, 5 passages each": lambda: agent(40),
    "agent of 40 turns, hits as JSON": lambda: agent(40, "hits"),
    "agent of 40 turns, plain text": lambda: agent(40, "text"),
    "agent of 40 turns, passages cut": lambda: agent(40, "cut"),
    "100 graded documents": lambda: graded(100),
    "summary tree over 100": lambda: summary_tree(100),
}


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds of one call, best of the rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.thread_time()
        work()
        best = min(best, time.thread_time() - start)
    return best


def test_assembly_costs_a_few_times_what_follows_it() -> None:
    """Milliseconds are printed. Assembling the usual chain costs about three times as much as converting and redacting its draft.

    Both run on the writer's thread.
    """
    converter = Converter(sample_rate=1.0, redact=redact_secrets, lengths=Lengths(max_passages=1_000))
    ratios = []
    print()
    for name, build in REQUESTS.items():
        request = build()

        def again(request: Request = request) -> TraceDraft:
            return assemble(dataclasses.replace(request, draft=TraceDraft(trace_id="t", started_at=1.0)))

        draft = again()
        assembled = cpu(again)
        converted = cpu(lambda draft=draft: converter.line(draft))  # type: ignore[misc]
        sized = cpu(lambda request=request: text_size(request))  # type: ignore[misc]
        ratios.append(assembled / converted)
        print(
            f"{name:35} assemble {assembled * 1e3:7.2f} ms, convert {converted * 1e3:7.2f} ms, "
            f"size {sized * 1e6:6.0f} µs, {draft.evidence.contexts if draft.evidence else None}"
        )
    assert statistics.median(ratios[:3]) < 5
