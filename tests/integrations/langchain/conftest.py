"""Fake models and retrievers under the real LangChain, and what a scenario left behind."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnablePassthrough

from langchain_ragstone import RagstoneCallbackHandler
from ragstone.requests import Request, TraceDraft, assemble


class ListRecorder:
    """Keeps what it is given, as drafts."""

    def __init__(self) -> None:
        self.drafts: list[TraceDraft] = []

    def record(self, request: Request | TraceDraft) -> bool:
        """Keep it, assembled."""
        self.drafts.append(assemble(request) if isinstance(request, Request) else request)
        return True


class Seen(NamedTuple):
    """A recorded request, as the matrix speaks of it."""

    question: str | None
    contexts: list[str] | None
    answer: str | None
    status: str


class FixedRetriever(BaseRetriever):
    """Finds the same documents whatever it is asked; fails while `failures` lasts."""

    texts: list[str]
    failures: list[Exception] = []  # noqa: RUF012 - pydantic copies it

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        if self.failures:
            raise self.failures.pop(0)
        return [
            Document(page_content=text, id=f"id-{text}", metadata={"score": 1 / (rank + 1), "rank": rank})
            for rank, text in enumerate(self.texts)
        ]


class EchoRetriever(BaseRetriever):
    """Finds one document that repeats the question, so that mixed-up requests show."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(page_content=f"about {query}")]


class Replies:
    """An iterator over replies that continues after it raised one."""

    def __init__(self, replies: Iterable[str | AIMessage | Exception]) -> None:
        self._replies = list(replies)

    def __iter__(self) -> Replies:
        return self

    def __next__(self) -> AIMessage:
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return AIMessage(reply) if isinstance(reply, str) else reply


class ScriptedModel(GenericFakeChatModel):
    """Gives its replies in turn; may be bound to tools, and streams calls of tools too."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Runnable[Any, Any]:
        """Take the tools and continue as before."""
        return self

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        reply = next(self.messages)
        calls = [
            {"name": call["name"], "args": json.dumps(call["args"]), "id": call["id"], "index": index}
            for index, call in enumerate(reply.tool_calls)
        ]
        for word in [""] if calls else [*reply.content]:
            chunk = ChatGenerationChunk(message=AIMessageChunk(word, tool_call_chunks=calls))
            if run_manager is not None:
                run_manager.on_llm_new_token(word, chunk=chunk)
            yield chunk


def join(documents: Iterable[Document]) -> str:
    """Format documents for a prompt."""
    return "\n".join(document.page_content for document in documents)


PROMPT = ChatPromptTemplate.from_template("{context}\n{question}")


@dataclass
class App:
    """A small RAG application with a handler, for scenarios to drive."""

    recorder: ListRecorder = field(default_factory=ListRecorder)
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.handler = RagstoneCallbackHandler(self.recorder, **self.options)

    @property
    def config(self) -> dict[str, Any]:
        """The configuration that attaches the handler to one call."""
        return {"callbacks": [self.handler]}

    def retriever(self, *texts: str, failures: Iterable[Exception] = ()) -> FixedRetriever:
        """A retriever that finds `texts`."""
        return FixedRetriever(texts=list(texts), failures=list(failures))

    def echo(self) -> EchoRetriever:
        """A retriever that finds "about <the question>"."""
        return EchoRetriever()

    def model(self, *answers: str | AIMessage | Exception) -> Runnable[Any, Any]:
        """A chat model that gives these answers in turn; plain texts start again at the end."""
        if all(isinstance(answer, str) for answer in answers):
            return FakeListChatModel(responses=list(answers) or ["answer"])
        return ScriptedModel(messages=Replies(answers))

    def search_call(self, *queries: str) -> AIMessage:
        """A model's wish to call the tool "search" once for each query."""
        calls = [{"name": "search", "args": {"query": query}, "id": f"call-{query}"} for query in queries]
        return AIMessage("", tool_calls=calls)

    def rag(self, retriever: Runnable[Any, Any] | None = None, model: Runnable[Any, Any] | None = None) -> Any:
        """Question in, text out: retrieve, format, prompt, generate, parse."""
        source = self.retriever("alpha", "beta") if retriever is None else retriever
        generate = self.model("answer") if model is None else model
        return {"context": source | join, "question": RunnablePassthrough()} | PROMPT | generate | StrOutputParser()

    @property
    def drafts(self) -> list[TraceDraft]:
        """What was recorded."""
        return self.recorder.drafts

    @property
    def draft(self) -> TraceDraft:
        """The one request that was recorded."""
        (draft,) = self.recorder.drafts
        return draft

    def seen(self) -> list[Seen]:
        """What was recorded, as the matrix speaks of it."""
        return [Seen(draft.query, contexts_of(draft), draft.response, draft.status) for draft in self.drafts]


def contexts_of(draft: TraceDraft) -> list[str] | None:
    """The texts that reached the prompt, by the rule of `ragstone.schema.Trace.prompt_contexts`."""
    if draft.contexts is not None:
        return [passage.text for passage in draft.contexts]
    if not draft.retrievals or (draft.evidence is not None and draft.evidence.contexts == "unknown"):
        return None
    return [passage.text for search in draft.retrievals for passage in search.passages]


@pytest.fixture
def app() -> Iterator[App]:
    """An application whose handler must come out of the test without an error of its own, and without state."""
    app = App()
    yield app
    assert app.handler.errors == 0
    assert app.handler.in_flight == 0


@pytest.fixture
def make_app() -> type[App]:
    """Makes applications whose handler may be left in any state."""
    return App
