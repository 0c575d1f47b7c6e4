"""Applications of agents and their tools."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRequest, dynamic_prompt
from langchain.agents.structured_output import ToolStrategy
from langchain.tools import InjectedToolCallId
from langchain_core.documents import Document
from langchain_core.messages import ToolMessage
from langchain_core.tools import create_retriever_tool, tool
from langgraph.types import Command
from pydantic import BaseModel

from langchain_apps import TEXTS, A, Index, Q, Scripted, app, calls, doc, join, together

ASK = {"messages": [{"role": "user", "content": Q}]}


@app("saturday", "sunday")
def tool_with_serialized_documents(config: Any) -> None:
    @tool(response_format="content_and_artifact")
    def retrieve_context(query: str) -> tuple[str, list[Document]]:
        """Retrieve information to help answer a query."""
        found = [doc("saturday"), doc("sunday")]
        return "\n\n".join(f"Source: {d.metadata}\nContent: {d.page_content}" for d in found), found

    model = Scripted(script={"Content: ": A, Q: calls("retrieve_context", query="hours")})
    create_agent(model, [retrieve_context], system_prompt="You have a tool.").invoke(ASK, config)


@app("saturday", "sunday", "branch")
def two_searches_and_a_calculator(config: Any) -> None:
    @tool
    def calculator(expression: str) -> str:
        """Compute."""
        return str(eval(expression))  # noqa: S307

    first = together(calls("search", query="saturday hours"), calls("calculator", expression="16 - 10"))
    model = Scripted(
        script={TEXTS["branch"]: A, TEXTS["saturday"]: calls("search", query="hill branch"), Q: first},
    )
    index = Index(by_query={"saturday": ["saturday", "sunday"], "hill": ["branch"]})
    search = create_retriever_tool(index, "search", "Search.")
    asyncio.run(create_agent(model, [search, calculator]).ainvoke(ASK, config))


@app("saturday", "card")
def context_injected_by_a_dynamic_prompt(config: Any) -> None:
    @dynamic_prompt
    def with_context(request: ModelRequest) -> str:
        found = Index(names=["saturday", "card"]).invoke(request.state["messages"][-1].text)
        return f"You are a helpful assistant. Use this context:\n\n{join(found)}"

    create_agent(Scripted(script={"Use this context": A}), [], middleware=[with_context]).invoke(ASK, config)


@app("saturday", "card")
def context_injected_before_the_model(config: Any) -> None:
    class WithContext(AgentState):
        context: list[Document]

    class Retrieve(AgentMiddleware[WithContext]):
        state_schema = WithContext

        def before_model(self, state: Any, runtime: Any) -> dict[str, Any]:
            last = state["messages"][-1]
            found = [doc("saturday"), doc("card")]  # vector_store.similarity_search: no event of its own
            augmented = f"{last.text}\n\nUse the following context to answer the query:\n{join(found)}"
            return {"messages": [last.model_copy(update={"content": augmented})], "context": found}

    create_agent(Scripted(script={"following context": A}), [], middleware=[Retrieve()]).invoke(ASK, config)


@app("saturday", "rooms", options={"retriever_tools": {"search_policy": "\n---\n"}})
def declared_text_tool(config: Any) -> None:
    @tool
    def search_policy(query: str) -> str:
        """Search the policies."""
        return f"{TEXTS['saturday']}\n---\n{TEXTS['rooms']}"

    @tool
    def weather(town: str) -> str:
        """Look the weather up."""
        return "Sunny, light winds from the west, twenty degrees at noon."

    both = together(calls("search_policy", query="hours"), calls("weather", town="here"))
    create_agent(Scripted(script={TEXTS["rooms"]: A, Q: both}), [search_policy, weather]).invoke(ASK, config)


@app(unknown=True, doubts=["text_tool:search_policy"])
def undeclared_text_tool(config: Any) -> None:
    @tool
    def search_policy(query: str) -> str:
        """Search the policies."""
        return f"{TEXTS['saturday']}\n---\n{TEXTS['rooms']}"

    model = Scripted(script={TEXTS["rooms"]: A, Q: calls("search_policy", query="hours")})
    create_agent(model, [search_policy]).invoke(ASK, config)


@app("saturday", "branch")
def tool_that_returns_hits_as_json(config: Any) -> None:
    @tool
    def search(query: str) -> str:
        """Search an index over HTTP."""
        hits = [{"title": name, "text": TEXTS[name], "score": 0.5} for name in ("saturday", "branch")]
        return json.dumps(hits)

    create_agent(Scripted(script={TEXTS["branch"]: A, Q: calls("search", query="hours")}), [search]).invoke(ASK, config)


@app("saturday", "sunday")
def structured_response(config: Any) -> None:
    class Reply(BaseModel):
        answer: str
        confidence: float

    model = Scripted(
        script={TEXTS["saturday"]: calls("Reply", answer=A, confidence=0.9), Q: calls("search", query="hours")}
    )
    search = create_retriever_tool(Index(names=["saturday", "sunday"]), "search", "Search.")
    create_agent(model, [search], response_format=ToolStrategy(Reply)).invoke(ASK, config)


@app("saturday", "ferry")
def tool_that_writes_into_the_state(config: Any) -> None:
    class Found(AgentState):
        documents: list[Document]

    @tool
    def search(query: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command:
        """Search, and keep the documents."""
        found = Index(names=["saturday", "ferry"]).invoke(query)
        return Command(update={"documents": found, "messages": [ToolMessage(join(found), tool_call_id=tool_call_id)]})

    model = Scripted(script={TEXTS["ferry"]: A, Q: calls("search", query="hours")})
    create_agent(model, [search], state_schema=Found).invoke(ASK, config)


@app("saturday")
def tool_that_reranks_inside(config: Any) -> None:
    @tool
    def search(query: str) -> str:
        """Search and keep the best passage."""
        found = Index(names=["ferry", "saturday", "card"]).invoke(query)
        best = max(found, key=lambda document: "Saturdays" in document.page_content)
        return f"[1] {best.page_content}"

    model = Scripted(script={"[1] ": A, Q: calls("search", query="hours")})
    list(create_agent(model, [search]).stream(ASK, config, stream_mode="updates"))
