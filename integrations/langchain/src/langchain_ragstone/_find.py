"""What a request was about, in its root's inputs and outputs: by the application's own functions, else by the usual rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from langchain_core.documents import Document

from langchain_ragstone import _translate as translate
from ragstone.capture import Guard
from ragstone.requests import PassageDraft

__all__ = ["Finder"]


class Finder:
    """The extractors that a handler was given, with the usual rules behind them; a piece that fails is None.

    Args:
        guard: Counts what raises.
        question: See `RagstoneCallbackHandler`.
        contexts: See there.
        answer: See there.
    """

    def __init__(
        self,
        guard: Guard,
        *,
        question: Callable[[Any], str | None] | None,
        contexts: Callable[[Any], Iterable[Document | str | Mapping[str, Any]] | None] | None,
        answer: Callable[[Any], str | None] | None,
    ) -> None:
        self._attempt = guard.attempt
        self._question = question
        self._contexts = contexts
        self._answer = answer

    def question(self, inputs: Any) -> str | None:
        """The question in the root's inputs."""
        return self._stated(self._question, inputs) or self._attempt(translate.question_from, inputs)

    def contexts(self, outputs: Any, *, written: Any) -> list[PassageDraft] | None:
        """The contexts in the root's outputs; the usual rules look only at what this request has `written` of them."""
        found = None if self._contexts is None else self._attempt(self._contexts, outputs)
        stated = None if found is None else self._attempt(translate.stated_contexts, found)
        return self._attempt(translate.contexts_from, written) if stated is None else stated

    def answer(self, outputs: Any, *, written: Any) -> str | None:
        """The answer in the root's outputs; `written` as for the contexts."""
        stated = self._stated(self._answer, outputs)
        return self._attempt(translate.answer_from, written) if stated is None else stated

    def _stated(self, extractor: Callable[[Any], str | None] | None, value: Any) -> str | None:
        return None if extractor is None else translate.text_of(self._attempt(extractor, value))
