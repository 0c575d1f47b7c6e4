"""Capture an agent that searches with a tool. Needs no model, no key and no network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

from langchain_ragstone import RagstoneCallbackHandler
from ragstone import Monitor

POLICIES = {
    "refund": "When a sailing is cancelled, the fare is paid back in full.",  # codespell:ignore
    "dogs": "Dogs travel free and must be on a lead.",
}


@tool
def search_policy(query: str) -> str:
    """Search the policies of the ferry."""
    found = [text for word, text in POLICIES.items() if word in query.lower()]
    return "\n\n".join(found) or "nothing found"


class ScriptedModel(BaseChatModel):
    """Stands in for a chat model: it searches once, and answers with what it found."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> ScriptedModel:  # noqa: ARG002 - LangChain's signature
        """Accept the tools of the agent."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        last = messages[-1]
        if isinstance(last, ToolMessage):
            message = AIMessage(content=str(last.content))
        else:
            call = {"name": "search_policy", "args": {"query": last.content}, "id": "1", "type": "tool_call"}
            message = AIMessage(content="", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


agent = create_agent(ScriptedModel(), [search_policy])

with Monitor(judge="lexical", metrics=["ccrs"], store="ragstone.db", app="ferry-agent") as monitor:
    # The tool returns passages as one text, with an empty line between them.
    handler = RagstoneCallbackHandler(monitor, retriever_tools={"search_policy": "\n\n"})
    for question in ("Is there a refund?", "Do dogs pay?"):
        state = agent.invoke({"messages": [("user", question)]}, {"callbacks": [handler]})
        print(question, "->", state["messages"][-1].content)

    monitor.drain(timeout_s=30)
    total = monitor.ledger().total
    print(f"captured {total.captured}, scored {total.scored}, failed {total.failed}, pending {total.pending}")
