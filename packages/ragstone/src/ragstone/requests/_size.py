"""How much text a request holds, and the limit for one that is still running."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ragstone.requests._draft import TraceDraft
from ragstone.requests._step import Request, Step

MAX_LIVE_CHARS: Final = 4_000_000


def text_size(item: TraceDraft | Request) -> int:
    """Return the number of characters that a finished request holds, each shared text once."""
    if isinstance(item, Request):
        sizes = {id(text): len(text) for step in item.steps for text in _texts(step)}
        return sum(sizes.values()) + text_size(item.draft)
    passages = [passage for retrieval in item.retrievals for passage in retrieval.passages]
    texts = [item.query or "", item.response or "", *(passage.text for passage in (*passages, *(item.contexts or ())))]
    return sum({id(text): len(text) for text in texts}.values())


def _texts(step: Step) -> Iterator[str]:
    for passage in step.passages or ():
        yield passage.text
    for message in step.prompt or ():
        yield message.text
    if step.reply is not None:
        yield step.reply
    for values in (step.inputs, step.outputs):
        for value in values:
            if value.text is not None:
                yield value.text
            for message in value.messages or ():
                yield message.text
            for passage in value.passages or ():
                yield passage.text


class PromptLimit:
    """Keeps the texts of a running request within a limit, by giving up prompts.

    The prompts of calls that asked for a tool are given up first, the oldest first, then other prompts. A prompt that was
    given up is empty, so that no passage is found in it: contexts that depend on it are in doubt, never wrong.

    Args:
        max_chars: Characters that the steps of the request may hold.
    """

    def __init__(self, max_chars: int = MAX_LIVE_CHARS) -> None:
        self._max_chars = max_chars
        self._steps: list[Step] = []
        self._chars = 0

    def add(self, step: Step) -> None:
        """Count a step that has ended."""
        self._steps.append(step)
        # Counted as if nothing was shared. Only a sum above the limit is worth counting exactly.
        self._chars += sum(map(len, _texts(step)))
        if self._chars <= self._max_chars:
            return
        self._chars = _shared_size(self._steps)
        prompted = sorted((one for one in self._steps if one.prompt), key=lambda one: not one.calls_tool)
        while self._chars > self._max_chars and prompted:
            half = len(prompted) // 2 + 1  # each time is a count of everything
            for one in prompted[:half]:
                one.prompt = ()
            del prompted[:half]
            self._chars = _shared_size(self._steps)


def _shared_size(steps: Iterable[Step]) -> int:
    return sum({id(text): len(text) for step in steps for text in _texts(step)}.values())
