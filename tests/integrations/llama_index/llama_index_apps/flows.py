"""Applications made of agents and workflows."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from llama_index.core import Document, SummaryIndex
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.response_synthesizers import CompactAndRefine
from llama_index.core.schema import NodeWithScore
from llama_index.core.tools import FunctionTool, QueryEngineTool, RetrieverTool
from llama_index.core.workflow import Context, Event, StartEvent, StopEvent, Workflow, step

from llama_index_apps import TEXTS, A, Expected, Index, Q, Scripted, app, calls
from llama_index_apps.engines import SECOND, SUNDAY, WRITER, engine


def run(flow: Any, **start: Any) -> Any:
    """Run a workflow or an agent to its end."""

    async def go() -> Any:
        return await flow.run(**start)

    return asyncio.run(go())


class Retrieved(Event):
    """What was found."""

    nodes: list[NodeWithScore]


class Reranked(Event):
    """What is left."""

    nodes: list[NodeWithScore]


class RerankFlow(Workflow):
    """The workflow of the tutorial: retrieve, rerank by a model, synthesize a stream."""

    @step
    async def retrieve(self, ctx: Context, ev: StartEvent) -> Retrieved:
        """Find."""
        await ctx.store.set("query", ev.query)
        return Retrieved(nodes=await Index("card", "saturday", "ferry").aretrieve(ev.query))

    @step
    async def rerank(self, ctx: Context, ev: Retrieved) -> Reranked:
        """Choose."""
        model = Scripted({"A list of documents": "Doc: 2, Relevance: 9\nDoc: 1, Relevance: 4"})
        reranker = LLMRerank(choice_batch_size=5, top_n=2, llm=model)
        return Reranked(nodes=reranker.postprocess_nodes(ev.nodes, query_str=await ctx.store.get("query")))

    @step
    async def synthesize(self, ctx: Context, ev: Reranked) -> StopEvent:
        """Answer."""
        synthesizer = CompactAndRefine(llm=Scripted(WRITER), streaming=True)
        return StopEvent(result=await synthesizer.asynthesize(await ctx.store.get("query"), nodes=ev.nodes))


@app("saturday", "card")
def workflow_with_a_reranker() -> None:
    async def go() -> None:
        response = await RerankFlow().run(query=Q)
        assert A == "".join([token async for token in response.async_response_gen()])

    asyncio.run(go())


WEB = "The town's site says that the harbor library opens at ten on Saturdays, also in summer."


class CorrectiveFlow(Workflow):
    """Corrective RAG: each passage is graded, a web search is added, an index of both is asked."""

    @step
    async def go(self, ev: StartEvent) -> StopEvent:
        """All of it."""
        model = Scripted(
            {f"Document: {TEXTS['saturday']}": "yes", "Document: ": "no", "Rewrite": "library hours", **WRITER}
        )
        nodes = await Index("saturday", "ferry").aretrieve(ev.query_str)
        relevant = [
            one.text
            for one in nodes
            if (await model.acomplete(f"Is it relevant? Document: {one.text} Question: {ev.query_str}")).text == "yes"
        ]
        await model.acomplete(f"Rewrite for a web search: {ev.query_str}")
        index = SummaryIndex.from_documents([Document(text="\n".join(relevant) + "\n" + WEB)])
        return StopEvent(result=await index.as_query_engine(llm=model).aquery(ev.query_str))


@app(f"{TEXTS['saturday']}\n{WEB}")
def corrective_workflow() -> None:
    run(CorrectiveFlow(), query_str=Q)


class Sub(Event):
    """A part of the question."""

    query: str


class Part(Event):
    """An answer to a part."""

    text: str


PARTS = {
    "Query: harbor": "The harbor library opens at ten in the morning on Saturdays.",
    "Query: hill": "The hill branch of the library does not open on Saturdays at all.",
    "Combine": A,
}


class FanOutFlow(Workflow):
    """Two questions at once, whose answers a model combines."""

    @step
    async def split(self, ctx: Context, ev: StartEvent) -> Sub | None:
        """Ask for both."""
        for query in ("harbor", "hill"):
            ctx.send_event(Sub(query=query))
        return None

    @step(num_workers=2)
    async def ask(self, ev: Sub) -> Part:
        """Answer one."""
        retriever = Index("saturday", by_query={"hill": ["branch"]})
        return Part(text=str(await engine(retriever, PARTS).aquery(ev.query)))

    @step
    async def combine(self, ctx: Context, ev: Part) -> StopEvent | None:
        """Combine them."""
        parts = ctx.collect_events(ev, [Part] * 2)
        if parts is None:
            return None
        texts = "\n".join(sorted(part.text for part in parts))
        return StopEvent(result=(await Scripted({"Combine": A}).acomplete(f"Combine these answers:\n{texts}")).text)


@app("saturday", "branch")
def workflow_that_fans_out() -> None:
    run(FanOutFlow(), question=Q)


async def search_library(topic: str) -> str:
    """Search the library's pages."""  # not in a thread, in which the oldest agents lose LlamaIndex's context
    return "\n\n".join(one.node.get_content() for one in await Index("saturday", "sunday").aretrieve(topic))


@app("saturday", "sunday")
def agent_whose_tool_formats_what_it_retrieves() -> None:
    model = Scripted({TEXTS["saturday"]: A, Q: calls("search_library", topic="library hours")})
    run(FunctionAgent(tools=[search_library], llm=model), user_msg=Q)


@app("saturday")
def agent_with_a_query_engine() -> None:
    inner = "According to the pages, the harbor library opens at ten on Saturdays."
    tool = QueryEngineTool.from_defaults(
        engine(Index("saturday"), {"Query: ": inner}), name="pages", description="pages"
    )
    model = Scripted({inner: A, Q: calls("pages", input="library hours")})
    run(FunctionAgent(tools=[tool], llm=model), user_msg=Q)


@app(
    requests=[
        Expected([TEXTS["saturday"], TEXTS["sunday"]]),
        Expected(None, SECOND, SUNDAY, doubts=["passages_from_earlier_turn"]),
    ]
)
def agent_that_remembers_the_passages() -> None:
    model = Scripted({SECOND: SUNDAY, TEXTS["saturday"]: A, Q: calls("search_library", topic="library hours")})
    agent = FunctionAgent(tools=[search_library], llm=model)

    async def go() -> None:
        memory = ChatMemoryBuffer.from_defaults(token_limit=4096)
        await agent.run(user_msg=Q, memory=memory)
        await agent.run(user_msg=SECOND, memory=memory)

    asyncio.run(go())


@app("saturday", "sunday")
def agents_that_hand_over() -> None:
    notes = "Notes: the harbor library opens at ten on Saturdays, and stays closed on Sundays."

    def write_answer(notes: str) -> str:
        """Keep the notes."""
        return f"Noted. {notes}"

    research = Scripted(
        {
            TEXTS["saturday"]: calls("handoff", to_agent="writer", reason=notes),
            Q: calls("search_library", topic="library hours"),
        }
    )
    agents = [
        FunctionAgent(
            name="research", description="finds", tools=[search_library], llm=research, can_handoff_to=["writer"],
            system_prompt="Find.",
        ),
        FunctionAgent(name="writer", description="writes", tools=[write_answer], llm=Scripted({"": A}), system_prompt="Write."),
    ]  # fmt: skip
    run(AgentWorkflow(agents=agents, root_agent="research"), user_msg=Q)


@app("saturday", "card")
def react_agent_with_a_retriever() -> None:
    tool = RetrieverTool.from_defaults(Index("saturday", "card"), name="pages", description="the library's pages")
    call = 'Thought: I need the hours.\nAction: pages\nAction Input: {"input": "library hours"}'
    model = Scripted({TEXTS["saturday"]: f"Thought: I can answer.\nAnswer: {A}", Q: call})
    run(ReActAgent(tools=[tool], llm=model), user_msg=Q)


@app("saturday", "sunday")
def agent_with_rows_of_a_database() -> None:
    def search_rows(topic: str) -> list[dict[str, str]]:
        """Search a database that is not LlamaIndex's."""
        return [{"id": name, "text": TEXTS[name]} for name in ("saturday", "sunday")]

    model = Scripted({TEXTS["saturday"]: A, Q: calls("search_rows", topic="library hours")})
    run(FunctionAgent(tools=[search_rows], llm=model), user_msg=Q)


@app("saturday", "sunday")
def agent_with_json_of_a_service() -> None:
    def search_service(topic: str) -> str:
        """Search a service."""
        return json.dumps([{"id": name, "text": TEXTS[name]} for name in ("saturday", "sunday")])

    model = Scripted({"harbor library opens at ten": A, Q: calls("search_service", topic="library hours")})
    run(FunctionAgent(tools=[search_service], llm=model), user_msg=Q)


def policy(topic: str) -> str:
    """Search the policy."""
    return f"{TEXTS['saturday']}\n---\n{TEXTS['card']}"


@app("saturday", "card", options={"retriever_tools": {"policy": "\n---\n"}})
def agent_with_a_declared_text_tool() -> None:
    model = Scripted({TEXTS["saturday"]: A, Q: calls("policy", topic="library hours")})
    run(FunctionAgent(tools=[FunctionTool.from_defaults(policy)], llm=model), user_msg=Q)


@app(unknown=True, doubts=["text_tool:policy"])
def agent_with_an_undeclared_text_tool() -> None:
    model = Scripted({TEXTS["saturday"]: A, Q: calls("policy", topic="library hours")})
    run(FunctionAgent(tools=[FunctionTool.from_defaults(policy)], llm=model), user_msg=Q)
