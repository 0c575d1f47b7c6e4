"""Fake models and retrievers under the real LlamaIndex, and what a scenario left behind."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

pytest.importorskip("llama_index.core", reason="this environment is another framework's")

from llama_index.core import MockEmbedding, Settings, VectorStoreIndex
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    CompletionResponseGen,
    LLMMetadata,
)
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.llms import CustomLLM, MockLLM
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import QueryEngineTool
from pydantic import PrivateAttr

from llama_index.observability.ragstone import RagstoneInstrumentor
from ragstone.requests import Request, TraceDraft, assemble

Q = "who?"
FOUND = ["alpha", "beta"]


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
    """Finds the same nodes whatever it is asked; fails while `failures` lasts."""

    def __init__(self, texts: Sequence[str], failures: Iterable[BaseException] = ()) -> None:
        super().__init__()
        self._texts = list(texts)
        self._failures = list(failures)

    def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        if self._failures:
            raise self._failures.pop(0)
        return [
            NodeWithScore(node=TextNode(text=text, id_=f"id-{text}", metadata={"rank": rank}), score=1 / (rank + 1))
            for rank, text in enumerate(self._texts)
        ]


class EchoRetriever(BaseRetriever):
    """Finds one node that repeats the question, so that mixed-up requests show."""

    def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text=f"about {query_bundle.query_str}"), score=1.0)]


class CountingRetriever(BaseRetriever):
    """Finds the number of the search."""

    def __init__(self) -> None:
        super().__init__()
        self._searches = 0

    def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        self._searches += 1
        return [NodeWithScore(node=TextNode(text=f"search {self._searches}"), score=1.0)]


class KeepLast(BaseNodePostprocessor):
    """Keeps the last node, with a score of its own."""

    def _postprocess_nodes(self, nodes: list[NodeWithScore], query_bundle: Any = None) -> list[NodeWithScore]:
        return [NodeWithScore(node=nodes[-1].node, score=0.9)] if nodes else []


class ScriptedModel(CustomLLM):
    """Gives its replies in turn, streams them by words, and raises those that are errors."""

    raw: Any = None
    model: str = "tiny-1"
    _replies: Any = PrivateAttr()

    def __init__(self, replies: Iterable[str | Exception | Callable[[str], str]], raw: Any = None) -> None:
        super().__init__(raw=raw)
        self._replies = iter(replies)

    @property
    def metadata(self) -> LLMMetadata:
        """What it says of itself."""
        return LLMMetadata(model_name="tiny-1")

    def _reply(self, prompt: str) -> str:
        reply = next(self._replies)
        if isinstance(reply, Exception):
            raise reply
        return reply(prompt) if callable(reply) else reply

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """The next reply, whole."""
        return CompletionResponse(text=self._reply(prompt), raw=self.raw)

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        """The next reply, in pieces of three characters; an error follows the first piece of "…"."""

        def pieces() -> CompletionResponseGen:
            reply = next(self._replies)
            if isinstance(reply, Exception):
                yield CompletionResponse(text="par", delta="par")
                raise reply
            text = reply(prompt) if callable(reply) else reply
            for end in range(3, len(text) + 3, 3):
                yield CompletionResponse(text=text[:end], delta=text[end - 3 : end], raw=self.raw)

        return pieces()


class AgentModel(FunctionCallingLLM):
    """Calls tools, one round after the other, and then answers; the rounds it has made are in the messages."""

    _rounds: Any = PrivateAttr()

    def __init__(self, rounds: Sequence[list[tuple[str, dict[str, Any]]] | Exception]) -> None:
        super().__init__()
        self._rounds = rounds

    @property
    def metadata(self) -> LLMMetadata:
        """What it says of itself."""
        return LLMMetadata(model_name="tiny-agent", is_function_calling_model=True)

    def _reply(self, messages: Sequence[ChatMessage]) -> ChatResponse:
        done = sum(1 for message in messages if message.role == "assistant")
        if done >= len(self._rounds):
            return ChatResponse(message=ChatMessage(role="assistant", content="answer"), delta="answer")
        round_ = self._rounds[done]
        if isinstance(round_, Exception):
            raise round_
        calls = [
            ToolSelection(tool_id=f"{done}-{i}", tool_name=name, tool_kwargs=arguments)
            for i, (name, arguments) in enumerate(round_)
        ]
        message = ChatMessage(role="assistant", content="I search.", additional_kwargs={"tool_calls": calls})
        return ChatResponse(message=message, delta="")

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """The next round."""
        return self._reply(messages)

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """The same."""
        return self._reply(messages)

    @llm_chat_callback()
    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
        """The same, in one piece."""

        async def pieces() -> Any:
            yield self._reply(messages)

        return pieces()

    def _prepare_chat_with_tools(self, tools: Any, user_msg: Any = None, chat_history: Any = None, **_: Any) -> Any:
        return {"messages": [*(chat_history or []), *([user_msg] if user_msg else [])]}

    def get_tool_calls_from_response(self, response: ChatResponse, **_: Any) -> list[ToolSelection]:
        """The calls in a reply."""
        return response.message.additional_kwargs.get("tool_calls", [])

    def stream_chat(self, messages: Any, **kwargs: Any) -> Any:
        """Not asked for by agents, which are asynchronous."""
        raise NotImplementedError

    complete = stream_complete = acomplete = astream_complete = stream_chat


@dataclass
class App:
    """A small RAG application with an instrumentor, for scenarios to drive."""

    recorder: Any = field(default_factory=ListRecorder)
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.instrumentor = RagstoneInstrumentor(self.recorder, **self.options)
        self.instrumentor.start_registering()

    def retriever(self, *texts: str, failures: Iterable[BaseException] = ()) -> FixedRetriever:
        """A retriever that finds `texts`, or alpha and beta."""
        return FixedRetriever(texts or FOUND, failures)

    def nothing(self) -> FixedRetriever:
        """A retriever that finds nothing."""
        return FixedRetriever([])

    def echo(self) -> EchoRetriever:
        """A retriever that finds "about <the question>"."""
        return EchoRetriever()

    def counting(self) -> CountingRetriever:
        """A retriever that finds something else each time."""
        return CountingRetriever()

    def keep_last(self) -> KeepLast:
        """A re-ranker that leaves one node."""
        return KeepLast()

    def model(self, *answers: str | Exception | Callable[[str], str], raw: Any = None) -> ScriptedModel:
        """A model that gives these answers in turn, again and again."""
        return ScriptedModel(itertools.cycle(answers or ["answer"]), raw)

    def engine(self, retriever: BaseRetriever | None = None, model: Any = None, **options: Any) -> RetrieverQueryEngine:
        """Question in, response out: retrieve, synthesize."""
        return RetrieverQueryEngine.from_args(retriever or self.retriever(), llm=model or self.model(), **options)

    def index(self, *texts: str) -> VectorStoreIndex:
        """An index over these texts."""
        return VectorStoreIndex(
            [TextNode(text=text) for text in texts or FOUND], embed_model=MockEmbedding(embed_dim=2)
        )

    def tool(self, engine: Any = None, name: str = "search") -> QueryEngineTool:
        """An engine as a tool of an agent, or of a router."""
        return QueryEngineTool.from_defaults(engine or self.engine(), name=name, description=f"the {name} engine")

    def agent_model(self, *calls: tuple[str, dict[str, Any]] | list[tuple[str, dict[str, Any]]] | Exception) -> Any:
        """A model that makes these calls of tools, or lists of calls, one after the other, and then answers."""
        return AgentModel([call if isinstance(call, (list, Exception)) else [call] for call in calls])

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
    """The contexts, or what was found if they are unknown: what a doubt hides is tested by the applications."""
    if draft.contexts is not None:
        return [passage.text for passage in draft.contexts]
    if not draft.retrievals:
        return None
    return [passage.text for search in draft.retrievals for passage in search.passages]


def pytest_configure(config: pytest.Config) -> None:
    """LlamaIndex's agents look at every attribute, its memories and sync calls leave things open: not ours to repair."""
    for what in (
        "<aiosqlite.core.Connection:ResourceWarning",
        r"Exception in thread .*_connection_worker_thread:pytest.PytestUnhandledThreadExceptionWarning",
        "unclosed event loop:ResourceWarning",
        "unclosed <socket.socket:ResourceWarning",
        ":pydantic.warnings.PydanticDeprecatedSince20",
        ":pydantic.warnings.PydanticDeprecatedSince211",
        "is_running called from within a step:DeprecationWarning",
    ):
        config.addinivalue_line("filterwarnings", f"ignore:{what}")


@pytest.fixture(scope="session", autouse=True)
def garbage_collected_in_time() -> Iterator[None]:
    """What the framework leaves open is collected while its warnings are ignored, not when pytest ends."""
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def dispatcher_as_it_was() -> Iterator[None]:
    """What a test registered, whatever became of it, is gone after it."""
    dispatcher = get_dispatcher()
    spans, events = list(dispatcher.span_handlers), list(dispatcher.event_handlers)
    yield
    dispatcher.span_handlers, dispatcher.event_handlers = spans, events


@pytest.fixture(autouse=True)
def mock_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked for no model takes a mock, instead of looking for a hosted one."""
    monkeypatch.setattr(Settings, "_llm", MockLLM(max_tokens=1))
    monkeypatch.setattr(Settings, "_embed_model", MockEmbedding(embed_dim=2))


@pytest.fixture
def app() -> Iterator[App]:
    """An application whose instrumentor must come out of the test without an error of its own, and without state."""
    app = App()
    yield app
    app.instrumentor.stop_registering()
    assert app.instrumentor.errors == 0
    assert app.instrumentor.in_flight == 0
    assert app.instrumentor._live._begun == {}


@pytest.fixture
def make_app() -> Iterator[Callable[..., App]]:
    """Makes applications whose instrumentor may be left in any state."""
    return App
