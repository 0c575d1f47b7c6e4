"""Applications in the shapes of products: titles and moderation beside the answer, checks by search, many users at once."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from llama_index.core import VectorStoreIndex
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, TextBlock
from llama_index.core.chat_engine import CondensePlusContextChatEngine
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.objects import ObjectIndex
from llama_index.core.postprocessor import LongContextReorder
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.prompts import PromptTemplate, RichPromptTemplate
from llama_index.core.query_engine import CustomQueryEngine, FLAREInstructQueryEngine, ToolRetrieverRouterQueryEngine
from llama_index.core.retrievers import BaseRetriever, QueryFusionRetriever, TransformRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import FunctionTool, QueryEngineTool
from llama_index.core.workflow import Context, Event, StartEvent, StopEvent, Workflow, step

from llama_index_apps import TEXTS, A, Expected, Index, Q, Scripted, app, calls
from llama_index_apps.engines import Found, engine
from llama_index_apps.flows import run

dispatcher = get_dispatcher(__name__)
TITLE = "Opening hours of the harbor library on the weekend"
NOT_FOUND = "The pages do not say when the harbor library opens on Saturdays."


class Written(Event):
    """An answer that is not checked yet."""

    answer: str
    nodes: list[NodeWithScore]


class Product(Workflow):
    """Moderates the question, answers, names the conversation, suggests the next question, and returns all of it."""

    @step
    async def answer(self, ctx: Context, ev: StartEvent) -> Written | StopEvent:
        """Moderate and answer."""
        model = Scripted({"Is this allowed": "allowed", "Known:": A})
        if str(await model.acomplete(f"Is this allowed? {ev.query}")) != "allowed":
            return StopEvent(result={"answer": "No."})
        nodes = await Index("saturday", "sunday").aretrieve(ev.query)
        known = "\n".join(one.text for one in nodes)
        return Written(answer=str(await model.acomplete(f"Known: {known}\nQuestion: {ev.query}")), nodes=nodes)

    @step
    async def decorate(self, ctx: Context, ev: Written) -> StopEvent:
        """Name the conversation and suggest a question."""
        model = Scripted({"Name": TITLE, "Suggest": "Is the reading room open on Sundays, and from when on?"})
        title = await model.acomplete(f"Name this conversation: {ev.answer}")
        known = "\n".join(one.text for one in ev.nodes)
        next_question = await model.acomplete(f"Suggest a question.\n{known}\n{ev.answer}")
        return StopEvent(result={"title": str(title), "answer": ev.answer, "next": str(next_question)})


@app("saturday", "sunday")
def title_and_next_question_after_the_answer() -> None:
    run(Product(), query=Q)


class Verified(CustomQueryEngine):
    """Writes a draft, asks what would test it, searches for that, and revises the draft."""

    def custom_query(self, query_str: str) -> str:
        draft = "The harbor library opens at ten on Saturdays, and so does the hill branch."
        test = "When does the hill branch open on Saturdays?"
        model = Scripted({"Revise": A, "Test this": test, "Context": draft})
        index = Index(by_query={"hill": ["branch"], "harbor": ["saturday"]})
        first = model.complete(f"Context: {index.retrieve(query_str)[0].text}\n{query_str}").text
        check = model.complete(f"Test this: {first}").text
        return model.complete(f"Revise {first}\nFacts: {index.retrieve(check)[0].text}\n{query_str}").text


@app("saturday", "branch")
def verified_by_searches_of_its_own() -> None:
    Verified().query(Q)


class Fallback(CustomQueryEngine):
    """Asks a second index if the first one does not have the answer."""

    def custom_query(self, query_str: str) -> str:
        first = engine(Index("ferry", "card"), {"": NOT_FOUND}).query(query_str)
        if "do not say" not in str(first):
            return str(first)
        return str(engine(Index("saturday", "branch")).query(query_str))


@app("saturday", "branch")
def second_index_after_i_do_not_know() -> None:
    Fallback().query(Q)


@app("saturday")
def question_indexed_and_text_kept_in_the_metadata() -> None:
    class Answering(CustomQueryEngine):
        def custom_query(self, query_str: str) -> str:
            asked = TextNode(
                text="What are the hours of the library at the harbor?", metadata={"body": TEXTS["saturday"]}
            )
            (found,) = Found(asked).retrieve(query_str)
            return Scripted({"Context": A}).complete(f"Context: {found.metadata['body']}\n{query_str}").text

    Answering().query(Q)


USERS = [
    (f"When does room {n} open?", f"Room {n} opens at {n} in the afternoon, and closes an hour later.")
    for n in range(1, 9)
]


@app(requests=[Expected([found], asked, f"It says: {found}") for asked, found in USERS])
def many_users_at_once() -> None:
    class Rooms(BaseRetriever):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            raise NotImplementedError

        async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            await asyncio.sleep(0)
            return [
                NodeWithScore(node=TextNode(text=found)) for asked, found in USERS if asked == query_bundle.query_str
            ]

    whole = engine(Rooms(), {found: f"It says: {found}" for _, found in USERS}, use_async=True, streaming=True)

    async def ask(question: str, before: asyncio.Event, after: asyncio.Event) -> None:
        response = await whole.aquery(question)
        await before.wait()  # all streams are open before the first one ends
        assert "".join([piece async for piece in response.async_response_gen()])
        after.set()

    async def go() -> None:
        turns = [asyncio.Event() for _ in range(len(USERS) + 1)]
        async with asyncio.TaskGroup() as group:
            for place, (asked, _) in enumerate(USERS):
                group.create_task(ask(asked, turns[place], turns[place + 1]))
            turns[0].set()

    asyncio.run(go())


@app("saturday", "card")
def blocks_of_a_remote_tool() -> None:
    async def search(query: str) -> Any:
        """Search, as a tool of another process that returns blocks."""
        return [TextBlock(text=TEXTS[name]) for name in ("saturday", "card")]

    model = Scripted({TEXTS["card"]: A, Q: calls("search", query="hours")})
    run(FunctionAgent(tools=[FunctionTool.from_defaults(async_fn=search)], llm=model), user_msg=Q)


class Capitals(BaseNodePostprocessor):
    """Puts a number and a source before each text, as for citations written by hand."""

    def _postprocess_nodes(self, nodes: list[NodeWithScore], query_bundle: Any = None) -> list[NodeWithScore]:
        texts = [f"[{place}] ({one.metadata['file_name']}) {one.text}" for place, one in enumerate(nodes, 1)]
        return [
            NodeWithScore(node=TextNode(text=text), score=one.score) for text, one in zip(texts, nodes, strict=True)
        ]


@app(f"[1] (saturday.md) {TEXTS['saturday']}", f"[2] (card.md) {TEXTS['card']}", answer=f"{A} [1]")
def numbered_by_a_postprocessor() -> None:
    engine(Index("saturday", "card"), {"Query: ": f"{A} [1]"}, node_postprocessors=[Capitals()]).query(Q)


@app("saturday", "branch", "sunday")  # the best ones at both ends
def reordered_for_long_contexts() -> None:
    engine(Index("saturday", "sunday", "branch"), node_postprocessors=[LongContextReorder()]).query(Q)


@app("saturday", "card")
def template_with_a_loop_over_passages() -> None:
    class Answering(CustomQueryEngine):
        def custom_query(self, query_str: str) -> str:
            template = RichPromptTemplate(
                "{% for one in passages %}<p>{{ one }}</p>\n{% endfor %}Answer: {{ question }}"
            )
            passages = [one.text for one in Index("saturday", "card").retrieve(query_str)]
            messages = template.format_messages(passages=passages, question=query_str)
            return str(Scripted({"<p>": A}).chat(messages).message.content)

    Answering().query(Q)


@app("saturday", "sunday", "card", answer=f"{A}\n\nMore: A library card costs twelve euros, and half for students.")
def short_answer_and_details_by_two_engines() -> None:
    class Both(CustomQueryEngine):
        def custom_query(self, query_str: str) -> str:
            short = engine(Index("saturday", "sunday")).query(query_str)
            more = engine(Index("card"), {"": "A library card costs twelve euros, and half for students."}).query(
                "costs?"
            )
            return f"{short}\n\nMore: {more}"

    Both().query(Q)


@app("saturday", "sunday", question="open sat??")
def spelling_corrected_by_a_retriever() -> None:
    class Correct:
        def __call__(self, query_bundle: Any, metadata: Any = None) -> QueryBundle:
            return QueryBundle(Scripted({"Correct": Q}).complete(f"Correct: {query_bundle.query_str}").text)

        run = __call__

    engine(TransformRetriever(Index("saturday", "sunday"), Correct())).query("open sat??")  # type: ignore[arg-type]


@app("saturday", "sunday", "branch")
def fused_over_queries_and_indexes() -> None:
    model = Scripted({"Generate": "harbor hours\nhill hours", "": A})
    fused = QueryFusionRetriever(
        [Index("saturday", "branch"), Index("sunday", "saturday")],
        llm=model, num_queries=3, similarity_top_k=3, mode="reciprocal_rerank", use_async=False,
        query_gen_prompt="Generate {num_queries} queries for {query}",
    )  # fmt: skip
    engine(fused).query(Q)


LONG_DRAFT = "On the weekend, [Search(hours of the harbor library)]"


@app("saturday", answer=f" {A}")  # the engine joins what it adds with a space
def looked_ahead_before_each_sentence() -> None:
    model = Scripted({TEXTS["saturday"]: A, "": LONG_DRAFT})
    flare = FLAREInstructQueryEngine(engine(Index("saturday"), {"": TEXTS["saturday"]}), llm=model, max_iterations=1)
    flare.query(Q)


@app("saturday", "sunday")
def agents_of_which_one_writes_notes() -> None:
    notes = "The pages say: it opens at ten on Saturdays. On Sundays only the reading room opens, at noon."

    kept: list[str] = []

    async def search(topic: str) -> str:
        """Search the pages and keep what was found."""
        kept.extend(one.text for one in await Index("saturday", "sunday").aretrieve(topic))
        return "Kept two passages."

    async def read_notes(about: str) -> str:
        """Summarize what was kept."""
        return str(await Scripted({"Summarize": notes}).acomplete(f"Summarize for {about}:\n" + "\n".join(kept)))

    model = Scripted({notes: A, "Kept two": calls("read_notes", about="hours"), Q: calls("search", topic="hours")})
    tools = [FunctionTool.from_defaults(async_fn=one) for one in (search, read_notes)]
    agent = FunctionAgent(name="one", description="one", tools=tools, llm=model)
    run(AgentWorkflow(agents=[agent]), user_msg=Q)


@app("saturday", "sunday")
def chat_whose_condensed_question_is_streamed() -> None:
    memory = ChatMemoryBuffer.from_defaults(token_limit=4_000, tokenizer_fn=str.split)
    chat = CondensePlusContextChatEngine.from_defaults(
        Index("saturday", "sunday"), llm=Scripted({"ten in the morning": A}), memory=memory, skip_condense=True
    )
    assert A == "".join(chat.stream_chat(Q).response_gen)


@app("saturday", "card", answer=json.dumps({"answer": A, "sources": ["saturday"]}))
def answer_as_json_that_the_application_builds() -> None:
    @dispatcher.span
    def ask(question: str) -> str:
        response = engine(Index("saturday", "card")).query(question)
        return json.dumps({"answer": str(response), "sources": [response.source_nodes[0].node.id_]})

    ask(Q)


@app("saturday")
def prompt_that_shows_a_part_of_the_nodes() -> None:
    class First(CustomQueryEngine):
        def custom_query(self, query_str: str) -> str:
            found = Index("saturday", "sunday", "card").retrieve(query_str)
            prompt = PromptTemplate("Context: {context}\n{query}")
            return str(Scripted({"Context": A}).predict(prompt, context=found[0].text, query=query_str))

    First().query(Q)


@app("saturday")
def engines_found_for_the_question() -> None:
    tools = [QueryEngineTool.from_defaults(engine(Index("saturday")), name="hours", description="hours of the library")]
    objects = ObjectIndex.from_objects(tools, index_cls=VectorStoreIndex, embed_model=MockEmbedding(8))
    router = ToolRetrieverRouterQueryEngine(objects.as_retriever(similarity_top_k=1))
    router.query(Q)


@app("saturday", "sunday")
def messages_of_the_user_in_blocks() -> None:
    async def go() -> None:
        pages = QueryEngineTool.from_defaults(
            engine(Index("saturday", "sunday"), {"": TEXTS["ferry"]}), name="pages", description="pages"
        )
        model = Scripted({TEXTS["ferry"]: A, Q: calls("pages", input="hours")})
        await FunctionAgent(tools=[pages], llm=model).run(user_msg=ChatMessage(role="user", blocks=[TextBlock(text=Q)]))

    asyncio.run(go())
