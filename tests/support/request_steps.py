"""Short builders of steps, for tests of what `assemble` decides about them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

from ragstone.requests import Message, PassageDraft, Request, Step, TraceDraft, harvest

A = "The warranty of the pump covers parts and labor for two years after the date of purchase."
B = "Returns are accepted within thirty days if the device is unused and in its original packaging."
C = "Our support line is open on weekdays from eight in the morning until six in the evening."
D = "Batteries are not covered by the warranty and must be recycled at a collection point near you."
QUESTION = "How long is the warranty?"
ANSWER = "The warranty lasts two years and covers parts and labor."


def passages(*texts: str) -> list[PassageDraft]:
    """Passages with ids that are the beginnings of their texts."""
    return [PassageDraft(text=text, id=text[:5]) for text in texts]


class Steps:
    """Steps in the order in which they begin, each one second after the one before."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._clock = count(1)

    def add(self, kind: Any, *, within: Step | None = None, **fields: Any) -> Step:
        """Add a step; `inputs` and `outputs` are plain values."""
        for name in ("inputs", "outputs"):
            if name in fields:
                fields[name] = harvest(fields[name])
        at = float(next(self._clock))
        step = Step(
            id=f"s{len(self.steps)}",
            parent=within.id if within is not None else None,
            kind=kind,
            started_at=at,
            **fields,
        )
        self.steps.append(step)
        return step

    def chain(self, within: Step | None = None, **fields: Any) -> Step:
        """Add a chain."""
        return self.add("chain", within=within, **fields)

    def retrieval(self, within: Step | None, *texts: str, query: str = QUESTION, **fields: Any) -> Step:
        """Add a retriever's call that found these texts."""
        return self.add("retrieval", within=within, query=query, passages=passages(*texts), **fields)

    def model(self, within: Step | None, prompt: str | Sequence[Message], reply: str | None, **fields: Any) -> Step:
        """Add a model's call with a prompt of one message, or of several."""
        messages = (Message("user", prompt),) if isinstance(prompt, str) else tuple(prompt)
        return self.add("model", within=within, prompt=messages, reply=reply, **fields)

    def request(self, root: Step | None = None, **fields: Any) -> Request:
        """Return them as a request; its root is the first step by default."""
        return Request(
            draft=TraceDraft(trace_id="t", started_at=1.0),
            steps=self.steps,
            root=root or self.steps[0],
            **fields,
        )


def prompt(*texts: str, question: str = QUESTION) -> str:
    """Return what a usual application sends to its model."""
    return "Answer from the context.\n\n" + "\n\n".join(texts) + f"\n\nQuestion: {question}"
