"""Realistic applications of LangChain and LangGraph, one function each, with what a reader would say was asked and seen.

They follow the shapes of published tutorials and of questions in issue trackers. Expectations were written before the
applications ran: the question of the user, the passages in the prompt that led to the answer, the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.retrievers import BaseRetriever

Q = "When does the harbor library open on Saturdays?"
A = "On Saturdays the harbor library opens at ten in the morning."

TEXTS = {
    "saturday": "The harbor library opens at ten in the morning on Saturdays and closes at four in the afternoon.",
    "sunday": "On Sundays the harbor library stays closed, except for the reading room, which opens at noon.",
    "card": "A library card costs twelve euros a year; students and pensioners pay half of that price.",
    "branch": "The hill branch opens at nine on weekdays and does not open on Saturdays at all.",
    "rooms": "Meeting rooms can be booked two weeks ahead at the front desk or by telephone.",
    "quoted": 'The sign at the door says "open from 10 to 4" in letters as tall as a hand,\nand few people read it.',
    "ferry": "The ferry to the harbor leaves every twenty minutes from the market square.",
}


@dataclass
class Expected:
    """What a reader of the application would say."""

    contexts: list[str] | None
    """Names in `TEXTS`, or whole texts. None: unknown."""
    question: str | None = Q
    answer: str | None = A
    status: str = "ok"
    options: dict[str, Any] = field(default_factory=dict)
    """Options of the handler."""
    doubts: list[str] = field(default_factory=list)


APPS: list[tuple[Callable[[Any], None], list[Expected]]] = []


def app(
    *contexts: str, requests: list[Expected] | None = None, unknown: bool = False, **more: Any
) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Register an application with the contexts, and if it differs the rest, that are expected."""

    def register(run: Callable[[Any], None]) -> Callable[[Any], None]:
        expected = requests or [Expected(None if unknown else [TEXTS.get(name, name) for name in contexts], **more)]
        APPS.append((run, expected))
        return run

    return register


def doc(name: str, **metadata: Any) -> Document:
    """Make the document of that name."""
    return Document(TEXTS[name], id=name, metadata={"source": f"{name}.md", **metadata})


class Index(BaseRetriever):
    """A retriever that finds the named documents, or those of the first key that the query contains."""

    names: list[str] = []  # noqa: RUF012 - pydantic copies it
    by_query: dict[str, list[str]] = {}  # noqa: RUF012

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        found = next((names for key, names in self.by_query.items() if key in query), self.names)
        return [doc(name) for name in found]


class Scripted(BaseChatModel):
    """A model that answers by what its prompt contains: the first key found decides. A key may have replies in turn."""

    script: dict[str, Any]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _reply(self, messages: list[BaseMessage]) -> AIMessage:
        text = "\n".join(str(message.content) for message in messages)
        for key, reply in self.script.items():
            if key in text:
                if isinstance(reply, list):
                    reply = reply.pop(0) if len(reply) > 1 else reply[0]  # noqa: PLW2901
                # A new message each time, as from a real model.
                return reply.model_copy() if isinstance(reply, AIMessage) else AIMessage(reply)
        raise AssertionError(f"no reply to: {text}")

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._reply(messages))])

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> Any:
        reply = self._reply(messages)
        if reply.tool_calls:
            yield ChatGenerationChunk(message=AIMessageChunk(reply.content, tool_calls=reply.tool_calls))
            return
        for word in re.split("(?= )", str(reply.content)):
            yield ChatGenerationChunk(message=AIMessageChunk(word))

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Take the tools; the script knows when they are called."""
        return self.bind(**kwargs) if "ls_structured_output_format" in kwargs else self


def calls(tool: str, text: str = "", **args: Any) -> AIMessage:
    """Make the reply that calls a tool."""
    return AIMessage(text, tool_calls=[{"name": tool, "args": args, "id": f"call-{tool}-{len(str(args))}"}])


def together(*replies: AIMessage) -> AIMessage:
    """Make the reply that makes several calls at once."""
    return AIMessage("", tool_calls=[call for reply in replies for call in reply.tool_calls])


def join(documents: list[Document]) -> str:
    """Format documents as most tutorials do."""
    return "\n\n".join(document.page_content for document in documents)
