"""The extractors of an instrumentor: functions of the application that state the question, the contexts or the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from llama_index.observability.ragstone._nodes import Passages
from llama_index.observability.ragstone._steps import text_of
from ragstone.capture import Guard
from ragstone.errors import ConfigurationError
from ragstone.requests import Statements

QuestionExtractor = Callable[[Mapping[str, Any]], str | None]
ContextsExtractor = Callable[[Any], Iterable[Any] | None]
AnswerExtractor = Callable[[Any], str | None]


class Extractors:
    """Calls the extractors with the arguments and the result of the outermost call. One that raises states nothing.

    Args:
        guard: Counts the errors.
        question: See `RagstoneInstrumentor`, like the other two.
        contexts: As above.
        answer: As above.

    Raises:
        ConfigurationError: If one of them is neither a function nor None.
    """

    def __init__(
        self,
        guard: Guard,
        *,
        question: QuestionExtractor | None,
        contexts: ContextsExtractor | None,
        answer: AnswerExtractor | None,
    ) -> None:
        for name, extractor in {"question": question, "contexts": contexts, "answer": answer}.items():
            if extractor is not None and not callable(extractor):
                raise ConfigurationError(
                    f"{name} must be a function, such as lambda arguments: arguments['question'], got {type(extractor).__name__}"
                )
        self._attempt = guard.attempt
        self._question = question
        self._contexts = contexts
        self._answer = answer

    def read_arguments(self, arguments: Mapping[str, Any], statements: Statements) -> None:
        """Fill in the question."""
        if self._question is not None:
            statements.query = text_of(self._attempt(self._question, arguments)) or None

    def read_result(self, result: Any, statements: Statements, passages: Passages, *, is_stream: bool) -> None:
        """Fill in the contexts, and the answer unless it is a stream, which only the application reads."""
        if self._contexts is not None:
            found = self._attempt(self._contexts, result)
            if found is not None:
                statements.contexts = self._attempt(passages.copied, found)
        if self._answer is not None and not is_stream:
            statements.response = text_of(self._attempt(self._answer, result))
