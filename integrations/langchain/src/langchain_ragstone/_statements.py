"""The extractors of a handler: functions of the application that state the question, the contexts or the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from langchain_core.documents import Document

from langchain_ragstone._documents import Passages
from langchain_ragstone._messages import text_of
from ragstone.capture import Guard, make_draft
from ragstone.errors import ConfigurationError
from ragstone.requests import PassageDraft, Statements
from ragstone.schema import field_names

AnswerExtractor = Callable[[Any], str | None]
ContextsExtractor = Callable[[Any], Iterable[Document | str | Mapping[str, Any]] | None]


class Extractors:
    """Calls the extractors when the root's inputs or outputs are there. An extractor that raises states nothing.

    Args:
        guard: Counts the errors.
        question: See `RagstoneCallbackHandler`, like the other two.
        contexts: As above.
        answer: As above.

    Raises:
        ConfigurationError: If one of them is neither a function nor None.
    """

    def __init__(
        self,
        guard: Guard,
        *,
        question: AnswerExtractor | None,
        contexts: ContextsExtractor | None,
        answer: AnswerExtractor | None,
    ) -> None:
        for name, extractor in {"question": question, "contexts": contexts, "answer": answer}.items():
            if extractor is not None and not callable(extractor):
                raise ConfigurationError(
                    f"{name} must be a function, such as lambda inputs: inputs['question'], got {type(extractor).__name__}"
                )
        self._attempt = guard.attempt
        self._question = question
        self._contexts = contexts
        self._answer = answer

    def read_inputs(self, inputs: Any, statements: Statements) -> None:
        """Fill in the question from the root's inputs."""
        if self._question is not None:
            statements.query = text_of(self._attempt(self._question, inputs)) or statements.query

    def read_outputs(self, outputs: Any, statements: Statements) -> None:
        """Fill in the answer, and the contexts unless an event stated them, from the root's outputs."""
        if self._answer is not None:
            statements.response = text_of(self._attempt(self._answer, outputs))
        if self._contexts is not None and statements.contexts is None:
            found = self._attempt(self._contexts, outputs)
            statements.contexts = None if found is None else self._attempt(stated_contexts, found)


def stated_contexts(contexts: Iterable[Document | str | Mapping[str, Any] | PassageDraft]) -> list[PassageDraft]:
    """Copy contexts that an application states: documents, texts, mappings with a text, or passages.

    Raises:
        ConfigurationError: If an item is none of these, or if `contexts` is a single text or mapping.
    """
    if isinstance(contexts, str | Mapping):
        items: Any = contexts  # refused below, with an explanation
    else:
        passages = Passages()
        items = [passages.of(item) if isinstance(item, Document) else item for item in contexts]
    return make_draft(contexts=items).contexts or []


def contexts_in_event(data: Any) -> Any:
    """Return the contexts in a custom event's data: the value of a known key, or the data themselves."""
    if not isinstance(data, Mapping):
        return data
    return next((data[key] for key in field_names("contexts", "output") if key in data), data)
