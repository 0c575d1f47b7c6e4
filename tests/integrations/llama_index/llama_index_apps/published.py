"""Applications in the shapes of recent tutorials: agents as tools, several engines, retries, streamed workflows, chat memory."""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core import Document, DocumentSummaryIndex, SummaryIndex, VectorStoreIndex
from llama_index.core.agent.workflow import AgentStream, AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.base.response.schema import Response
from llama_index.core.chat_engine import CondensePlusContextChatEngine, ContextChatEngine, SimpleChatEngine
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.evaluation import BaseEvaluator, EvaluationResult
from llama_index.core.indices.document_summary import DocumentSummaryIndexLLMRetriever
from llama_index.core.indices.query.query_transform.base import StepDecomposeQueryTransform
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.objects import ObjectIndex
from llama_index.core.postprocessor import LongContextReorder
from llama_index.core.prompts import PromptTemplate
from llama_index.core.query_engine import (
    MultiStepQueryEngine,
    RetrieverQueryEngine,
    RetryQueryEngine,
    RouterQueryEngine,
    SubQuestionQueryEngine,
)
from llama_index.core.question_gen import LLMQuestionGenerator
from llama_index.core.response_synthesizers import ResponseMode, get_response_synthesizer
from llama_index.core.selectors import LLMMultiSelector
from llama_index.core.tools import FunctionTool, QueryEngineTool
from llama_index.core.workflow import Context, Event, StartEvent, StopEvent, Workflow, step
from pydantic import BaseModel

from llama_index_apps import TEXTS, A, Expected, Index, Q, Scripted, app, calls
from llama_index_apps.engines import WRITER, engine
from llama_index_apps.flows import run

HARBOR = "The pages say that the harbor library opens at ten on Saturdays and closes at four."
HILL = "The pages say that the hill branch does not open at all on Saturdays."


@app("saturday", "branch")
def sub_questions() -> None:
    generated = (
        '```json\n{"items": [{"sub_question": "Hours of the harbor library?", "tool_name": "harbor"}, '
        '{"sub_question": "Hours of the hill branch?", "tool_name": "hill"}]}\n```'
    )
    harbor = engine(Index("saturday"), {TEXTS["saturday"]: HARBOR})
    hill = engine(Index("branch"), {TEXTS["branch"]: HILL})
    writer = Scripted({HARBOR: A})
    whole = SubQuestionQueryEngine.from_defaults(
        query_engine_tools=[
            QueryEngineTool.from_defaults(harbor, name="harbor", description="the harbor library"),
            QueryEngineTool.from_defaults(hill, name="hill", description="the hill branch"),
        ],
        question_gen=LLMQuestionGenerator.from_defaults(llm=Scripted({"": generated})),
        response_synthesizer=get_response_synthesizer(llm=writer),
        llm=writer,
        use_async=False,
    )
    whole.query(Q)


@app("saturday", "branch")
def routed_to_two_engines() -> None:
    chosen = '[{"choice": 1, "reason": "harbor"}, {"choice": 2, "reason": "hill"}]'
    router = RouterQueryEngine(
        selector=LLMMultiSelector.from_defaults(llm=Scripted({"": chosen})),
        query_engine_tools=[
            QueryEngineTool.from_defaults(engine(Index("saturday"), {"": HARBOR}), description="the harbor library"),
            QueryEngineTool.from_defaults(engine(Index("branch"), {"": HILL}), description="the hill branch"),
        ],
        llm=Scripted({"": A}),
        summarizer=get_response_synthesizer(llm=Scripted({HARBOR: A}), response_mode=ResponseMode.TREE_SUMMARIZE),
    )
    router.query(Q)


@app("saturday", "sunday")
def asked_step_by_step() -> None:
    # The transformer asks a sub-question, then says that there is none left.
    decompose = Scripted({HARBOR: "None", "": "What are the hours on Saturday?"})
    steps = MultiStepQueryEngine(
        engine(Index("saturday", "sunday"), {TEXTS["saturday"]: HARBOR}),
        StepDecomposeQueryTransform(llm=decompose),
        response_synthesizer=get_response_synthesizer(llm=Scripted({HARBOR: A})),
        index_summary="the library's pages",
    )
    steps.query(Q)


@app("saturday", "card")
def asked_again_after_an_evaluation() -> None:
    class Strict(BaseEvaluator):
        """An evaluator that accepts the second answer."""

        def _get_prompts(self) -> Any:
            return {}

        def _update_prompts(self, prompts: Any) -> None:
            pass

        async def aevaluate(self, query: Any = None, response: Any = None, **more: Any) -> EvaluationResult:
            passing = "ten in the morning" in str(response)
            return EvaluationResult(
                query=query, response=response, passing=passing, score=float(passing), feedback="Too short."
            )

    script = {"Too short": A, "": "At ten."}
    index = Index("saturday", "card")
    RetryQueryEngine(engine(index, script), evaluator=Strict(), max_retries=2).query(Q)


@app("sunday", "saturday")  # LongContextReorder puts the best passages first and last
def tree_of_summaries() -> None:
    synthesizer = get_response_synthesizer(
        llm=Scripted({"": A}), response_mode=ResponseMode.TREE_SUMMARIZE, use_async=False
    )
    reorder = LongContextReorder()
    RetrieverQueryEngine(Index("saturday", "sunday"), synthesizer, node_postprocessors=[reorder]).query(Q)


SUNDAY = "On Sundays only the reading room opens, at noon."


@app("saturday", "sunday", answer=f"Response 1: {HARBOR}\n---------------------\nResponse 2: {SUNDAY}")
def answers_for_each_passage() -> None:
    model = Scripted({TEXTS["saturday"]: HARBOR, TEXTS["sunday"]: SUNDAY})
    synthesizer = get_response_synthesizer(llm=model, response_mode=ResponseMode.ACCUMULATE, use_async=False)
    RetrieverQueryEngine(Index("saturday", "sunday"), synthesizer).query(Q)


@app("saturday", "sunday")
def orchestrator_with_agents_as_tools() -> None:
    def search_library(topic: str) -> list[dict[str, str]]:
        """Search the pages of the library."""
        return [{"id": name, "text": TEXTS[name]} for name in ("saturday", "sunday")]

    research_model = Scripted({TEXTS["saturday"]: HARBOR, "": calls("search_library", topic="hours")})
    researcher = FunctionAgent(name="research", tools=[search_library], llm=research_model, system_prompt="Find.")

    async def call_research_agent(task: str) -> str:
        """Ask the researcher."""
        return str(await researcher.run(user_msg=f"Find out: {task}"))

    boss = Scripted({HARBOR: A, Q: calls("call_research_agent", task="hours of the harbor library")})
    run(FunctionAgent(tools=[call_research_agent], llm=boss, system_prompt="Delegate."), user_msg=Q)


@app("saturday", "card")
def agent_whose_events_are_streamed() -> None:
    tool = QueryEngineTool.from_defaults(
        engine(Index("saturday", "card"), {TEXTS["saturday"]: HARBOR}),
        name="library",
        description="the library's pages",
    )
    model = Scripted({HARBOR: A, Q: calls("library", input="library hours")})

    async def go() -> str:
        handler = AgentWorkflow.from_tools_or_functions([tool], llm=model).run(user_msg=Q)
        text = "".join([event.delta async for event in handler.stream_events() if isinstance(event, AgentStream)])
        await handler
        return text

    assert A in asyncio.run(go())


class Found(Event):
    """The nodes that were found."""

    nodes: list[Any]


class Progress(Event):
    """A token for the page."""

    text: str


class StreamedFlow(Workflow):
    """A workflow that writes tokens into its stream of events."""

    @step
    async def retrieve(self, ctx: Context, ev: StartEvent) -> Found:
        """Find."""
        await ctx.store.set("question", ev.question)
        return Found(nodes=await Index("sunday", "saturday").aretrieve(ev.question))

    @step
    async def write(self, ctx: Context, ev: Found) -> StopEvent:
        """Write."""
        question = await ctx.store.get("question")
        context = "\n".join(f"[{place}] {one.text}" for place, one in enumerate(ev.nodes, 1))
        prompt = [ChatMessage(role="user", content=f"{context}\n\n{question}")]
        stream = await Scripted({"[1]": A}).astream_chat(prompt)
        text = ""
        async for piece in stream:
            text = piece.message.content
            ctx.write_event_to_stream(Progress(text=piece.delta))
        return StopEvent(result={"answer": text, "sources": [one.node.id_ for one in ev.nodes]})


@app("sunday", "saturday")
def workflow_that_streams_its_tokens() -> None:
    async def go() -> None:
        handler = StreamedFlow().run(question=Q)
        assert A == "".join([event.text async for event in handler.stream_events() if isinstance(event, Progress)])
        await handler

    asyncio.run(go())


@app("saturday", "card")
def workflow_with_a_structured_answer() -> None:
    class Reply(BaseModel):
        answer: str
        sources: list[int]

    class Flow(Workflow):
        @step
        async def ask(self, ctx: Context, ev: StartEvent) -> StopEvent:
            """Find, and write a structured answer."""
            nodes = await Index("saturday", "card").aretrieve(ev.query)
            context = "\n".join(f"Source {place}: {one.text}" for place, one in enumerate(nodes, 1))
            model = Scripted({"Source 1": calls("Reply", answer=A, sources=[1])})
            reply = await model.astructured_predict(
                Reply, PromptTemplate("{context}\nQuestion: {query}"), context=context, query=ev.query
            )
            return StopEvent(result=reply)

    run(Flow(), query=Q)


@app(
    requests=[
        Expected([TEXTS["card"]], "What does a card cost?", "A card costs twelve euros a year."),
        Expected([TEXTS["saturday"], TEXTS["sunday"]], "And when does it open on Saturdays?"),
    ]
)
def second_turn_with_a_memory() -> None:
    index = Index(by_query={"card": ["card"], "harbor": ["saturday", "sunday"]})
    model = Scripted({"rephrase": Q, TEXTS["saturday"]: A, TEXTS["card"]: "A card costs twelve euros a year."})
    chat = CondensePlusContextChatEngine.from_defaults(
        index, llm=model, memory=ChatMemoryBuffer.from_defaults(token_limit=3000),
        condense_prompt="Please rephrase: {chat_history} {question}",
    )  # fmt: skip
    chat.chat("What does a card cost?")
    chat.chat("And when does it open on Saturdays?")


@app("branch", "saturday")
def streamed_chat_with_a_reranker() -> None:
    chat = ContextChatEngine.from_defaults(
        Index("saturday", "branch"), llm=Scripted({TEXTS["saturday"]: A}), node_postprocessors=[LongContextReorder()],
        memory=ChatMemoryBuffer.from_defaults(token_limit=3000),
    )  # fmt: skip
    assert A == "".join(chat.stream_chat(Q).response_gen)


@app(requests=[Expected(None, "Hello!", "Good morning.")])
def chat_without_retrieval() -> None:
    SimpleChatEngine.from_defaults(llm=Scripted({"Hello": "Good morning."})).chat("Hello!")


@app("saturday")
def tools_found_for_the_question() -> None:
    tools = [
        QueryEngineTool.from_defaults(engine(Index(name), {"": HARBOR}), name=name, description=TEXTS[name])
        for name in ("saturday", "ferry", "card")
    ]
    objects = ObjectIndex.from_objects(tools[:1], index_cls=VectorStoreIndex, embed_model=MockEmbedding(8))
    model = Scripted({HARBOR: A, Q: calls("saturday", input="hours")})
    run(FunctionAgent(tool_retriever=objects.as_retriever(similarity_top_k=1), llm=model), user_msg=Q)


@app("saturday")
def one_document_by_its_summary() -> None:
    documents = [Document(text=TEXTS[name], id_=name) for name in ("ferry", "saturday")]
    summarizer = get_response_synthesizer(
        llm=Scripted({TEXTS["ferry"]: "About ferries.", "": "About hours."}), use_async=False
    )
    index = DocumentSummaryIndex.from_documents(
        documents, response_synthesizer=summarizer, embed_model=MockEmbedding(8), llm=Scripted({"": "x"})
    )
    choose = Scripted({"": "Doc: 2, Relevance: 9"})

    RetrieverQueryEngine.from_args(DocumentSummaryIndexLLMRetriever(index, llm=choose), llm=Scripted(WRITER)).query(Q)


@app("saturday", "sunday")
def react_agent_over_an_engine() -> None:
    tool = QueryEngineTool.from_defaults(
        engine(Index("saturday", "sunday"), {TEXTS["saturday"]: HARBOR}),
        name="pages",
        description="the library's pages",
    )
    call = 'Thought: I need the hours.\nAction: pages\nAction Input: {"input": "library hours"}'
    model = Scripted(
        {HARBOR: f"Thought: I can answer without using any more tools.\nAnswer: {A}", Q: call}, with_tools=False
    )
    run(ReActAgent(tools=[tool], llm=model), user_msg=Q)


@app("saturday", "card")
def function_tool_that_asks_an_engine_and_keeps_its_sources() -> None:
    pages = engine(Index("saturday", "card"), {TEXTS["saturday"]: HARBOR})

    async def ask_pages(question: str) -> str:
        """Ask the pages, and name the sources."""  # not in a thread, in which the oldest agents lose LlamaIndex's context
        response: Response = await pages.aquery(question)
        return f"{response}\n\nSources: {', '.join(one.node.id_ for one in response.source_nodes)}"

    model = Scripted({HARBOR: A, Q: calls("ask_pages", question="library hours")})
    run(FunctionAgent(tools=[FunctionTool.from_defaults(async_fn=ask_pages)], llm=model), user_msg=Q)


@app("ferry", "saturday")
def every_page_of_a_summary_index() -> None:
    index = SummaryIndex.from_documents([Document(text=TEXTS[name], id_=name) for name in ("ferry", "saturday")])
    index.as_query_engine(llm=Scripted({"": A}), response_mode="compact").query(Q)
