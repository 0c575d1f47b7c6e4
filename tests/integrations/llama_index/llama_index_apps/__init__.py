"""Realistic applications of LlamaIndex, one function each, with what a reader would say was asked and seen.

They follow the shapes of published tutorials and of questions in issue trackers. Expectations were written before the
applications ran: the question of the user, the passages in the prompt that led to the answer, the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LLMMetadata
from llama_index.core.llms.callbacks import llm_chat_callback
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from pydantic import PrivateAttr

Q = "When does the harbor library open on Saturdays?"
A = "On Saturdays the harbor library opens at ten in the morning."

TEXTS = {
    "saturday": "The harbor library opens at ten in the morning on Saturdays and closes at four in the afternoon.",
    "sunday": "On Sundays the harbor library stays closed, except for the reading room, which opens at noon.",
    "card": "A library card costs twelve euros a year; students and pensioners pay half of that price.",
    "branch": "The hill branch opens at nine on weekdays and does not open on Saturdays at all.",
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
    """Options of the instrumentor."""
    doubts: list[str] = field(default_factory=list)


APPS: list[tuple[Callable[[], Any], list[Expected]]] = []


def app(
    *contexts: str, requests: list[Expected] | None = None, unknown: bool = False, **more: Any
) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register an application with the contexts, and if it differs the rest, that are expected."""

    def register(run: Callable[[], Any]) -> Callable[[], Any]:
        texts = None if unknown else [TEXTS.get(name, name) for name in contexts]
        APPS.append((run, requests or [Expected(texts, **more)]))
        return run

    return register


def node(name: str, **metadata: Any) -> TextNode:
    """Make the node of that name."""
    return TextNode(text=TEXTS[name], id_=name, metadata={"file_name": f"{name}.md", **metadata})


class Index(BaseRetriever):
    """A retriever that finds the named nodes, or those of the first key that the query contains."""

    def __init__(self, *names: str, by_query: dict[str, list[str]] | None = None) -> None:
        super().__init__()
        self.names = names
        self.by_query = by_query or {}

    def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        names = next((names for key, names in self.by_query.items() if key in query_bundle.query_str), self.names)
        return [NodeWithScore(node=node(name), score=1 / (rank + 1)) for rank, name in enumerate(names)]


def calls(tool: str, **arguments: Any) -> list[ToolSelection]:
    """Make a call of a tool."""
    return [ToolSelection(tool_id=f"{tool}-{len(str(arguments))}", tool_name=tool, tool_kwargs=arguments)]


class Scripted(FunctionCallingLLM):
    """A chat model that answers by what its prompt contains: the first key found decides. Texts are answers, lists are calls."""

    with_tools: bool = True
    _script: Any = PrivateAttr()

    def __init__(self, script: dict[str, Any], *, with_tools: bool = True) -> None:
        super().__init__(with_tools=with_tools)
        self._script = script

    @property
    def metadata(self) -> LLMMetadata:
        """What it says of itself."""
        return LLMMetadata(model_name="scripted", is_chat_model=True, is_function_calling_model=self.with_tools)

    def _reply(self, messages: Sequence[ChatMessage]) -> ChatResponse:
        text = "\n".join(str(message.content) for message in messages)
        for key, reply in self._script.items():
            if key in text:
                if isinstance(reply, str):
                    return ChatResponse(message=ChatMessage(role="assistant", content=reply), delta=reply)
                extra = {"tool_calls": reply}
                return ChatResponse(
                    message=ChatMessage(role="assistant", content="", additional_kwargs=extra), delta=""
                )
        raise AssertionError(f"no reply to: {text}")

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Reply."""
        return self._reply(messages)

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Reply."""
        return self._reply(messages)

    def _pieces(self, messages: Sequence[ChatMessage]) -> Any:
        whole = self._reply(messages)
        if whole.message.additional_kwargs:
            yield whole
            return
        words = str(whole.message.content).split(" ")
        for end in range(1, len(words) + 1):
            delta = words[end - 1] if end == 1 else f" {words[end - 1]}"
            yield ChatResponse(message=ChatMessage(role="assistant", content=" ".join(words[:end])), delta=delta)

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
        """Reply, word by word."""

        def pieces() -> Any:
            yield from self._pieces(messages)

        return pieces()

    @llm_chat_callback()
    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
        """Reply, word by word."""

        async def pieces() -> Any:
            for piece in self._pieces(messages):
                yield piece

        return pieces()

    def _prepare_chat_with_tools(self, tools: Any, user_msg: Any = None, chat_history: Any = None, **_: Any) -> Any:
        user = (
            [ChatMessage(role="user", content=user_msg)]
            if isinstance(user_msg, str)
            else [user_msg]
            if user_msg
            else []
        )
        return {"messages": [*(chat_history or []), *user]}

    def get_tool_calls_from_response(self, response: ChatResponse, **_: Any) -> list[ToolSelection]:
        """The calls in a reply."""
        return response.message.additional_kwargs.get("tool_calls", [])

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        """Reply to a text."""
        from llama_index.core.base.llms.generic_utils import chat_to_completion_decorator

        return chat_to_completion_decorator(self.chat)(prompt, **kwargs)

    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        """Reply to a text."""
        from llama_index.core.base.llms.generic_utils import achat_to_completion_decorator

        return await achat_to_completion_decorator(self.achat)(prompt, **kwargs)

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        """Not asked for."""
        raise NotImplementedError

    astream_complete = stream_complete
