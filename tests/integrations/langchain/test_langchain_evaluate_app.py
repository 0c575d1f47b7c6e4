"""`ragstone.evaluate(rows, app=...)` with objects of LangChain and LangGraph, as they are."""

from __future__ import annotations

import asyncio
from operator import itemgetter
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

import ragstone
from langchain_ragstone import ragstone_disable, ragstone_enable
from ragstone import NotApplicable
from ragstone.testing import MemoryRecorder

ROWS = [{"id": f"q{n}", "question": f"Where is stone {n}?"} for n in range(3)]
ANSWER = "It lies at the river, says the first document."


class ThreeDocuments(BaseRetriever):
    """Finds three documents that quote the question, of which a chain shows two."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(page_content=text, id=f"d{n}") for n, text in enumerate(texts(query, 3))]


def texts(question: str, count: int = 2) -> list[str]:
    """The first documents about a question."""
    return [f"Document {n} about the words {question!r} says that it lies at the river." for n in range(count)]


def first_two(documents: list[Document]) -> str:
    """The documents as they stand in the prompt."""
    return "\n\n".join(document.page_content for document in documents[:2])


def model() -> FakeListChatModel:
    """A model that gives one answer."""
    return FakeListChatModel(responses=[ANSWER])


PROMPT = ChatPromptTemplate.from_template("{context}\n\n{question}")
CHAIN: Runnable[str, str] = (
    {"context": ThreeDocuments() | first_two, "question": RunnablePassthrough()} | PROMPT | model() | StrOutputParser()
)


def keyed() -> Runnable[Any, Any]:
    """A chain whose input is a mapping and whose output contains the documents and the answer."""
    question = itemgetter("question")
    found = RunnablePassthrough.assign(documents=question | ThreeDocuments())
    context = RunnableLambda(lambda state: first_two(state["documents"]))
    return found | RunnablePassthrough.assign(answer={"context": context, "question": question} | PROMPT | model())


def graph(**options: Any) -> Any:
    """A graph whose state is a list of messages."""

    def answer(state: MessagesState) -> dict[str, Any]:
        assert 1 == len(state["messages"]), "a conversation of another row"
        question = state["messages"][-1].content
        found = ThreeDocuments().invoke(question)
        return {"messages": [model().invoke(f"{first_two(found)}\n\n{question}")]}

    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    return builder.compile(**options)


async def by_hand(question: str) -> str:
    """A function that calls parts of LangChain one after the other."""
    found = await ThreeDocuments().ainvoke(question)
    reply = await model().ainvoke(f"{first_two(found)}\n\n{question}")
    return str(reply.content)


@pytest.mark.parametrize(
    "app",
    [
        CHAIN,
        keyed(),
        graph(),
        graph(checkpointer=InMemorySaver()),
        CHAIN.invoke,
        CHAIN.ainvoke,
        CHAIN.stream,
        CHAIN.astream,
        lambda row: CHAIN.invoke(row.query),
        by_hand,
    ],
    ids=[
        "chain", "mapping", "graph", "graph with memory", "invoke", "ainvoke", "stream", "astream", "function", "parts",
    ],
)  # fmt: skip
def test_contexts_are_the_documents_in_the_prompt(app: Any) -> None:
    """Each sample has its own, however concurrent the calls are."""
    result = ragstone.evaluate(ROWS, ["ccrs.cc"], app=app, judge="lexical")

    for row, sample, trace in zip(ROWS, result.samples, result.traces, strict=True):
        assert ("ok", ANSWER, row["question"]) == (trace.status, sample.response, sample.query)
        assert texts(row["question"]) == [passage.text for passage in sample.contexts or ()]
        assert texts(row["question"], 3) == [passage.text for passage in trace.retrievals[0].passages]
        assert "in_prompt" == trace.evidence.contexts  # type: ignore[union-attr]
        assert 1 == len(trace.retrievals)


def test_other_inputs_come_from_the_row() -> None:
    """A prompt with a language, which is a column of the dataset."""
    app = ChatPromptTemplate.from_template("In {language}: {question}") | RunnableLambda(
        lambda prompt: prompt.to_string()
    )
    rows = [{"question": "Wo?", "language": "German"}]

    assert "Human: In German: Wo?" == ragstone.evaluate(rows, ["ccrs.cc"], app=app, judge="lexical").samples[0].response


def test_a_tool_that_returns_text_can_be_declared() -> None:
    """As for live capture: otherwise the contexts of an agent are in doubt."""

    @tool
    def search_policy(query: str) -> str:
        """Search."""
        return f"Policy about {query}: nobody may take the stone from the river, neither by day nor by night.\n\nOther."

    def answer(state: MessagesState) -> dict[str, Any]:
        if "tool" == state["messages"][-1].type:
            return {"messages": [model().invoke(state["messages"])]}
        call = {"name": "search_policy", "args": {"query": "stones"}, "id": "1"}
        return {"messages": [AIMessage(content="", tool_calls=[call])]}

    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.add_node("tools", ToolNode([search_policy]))
    builder.add_edge(START, "answer")
    builder.add_conditional_edges("answer", tools_condition)
    builder.add_edge("tools", "answer")
    app = builder.compile()

    doubtful = ragstone.evaluate(ROWS[:1], ["ccrs.cc"], app=app, judge="lexical").outcomes[0]
    assert isinstance(doubtful, NotApplicable)
    assert "text_tool:search_policy" in doubtful.reason
    tools = {"search_policy": "\n\n"}
    declared = ragstone.evaluate(ROWS[:1], ["ccrs.cc"], app=app, judge="lexical", retriever_tools=tools)
    (first, *_) = declared.samples[0].contexts or ()
    assert first.text.startswith("Policy about stones")


def test_an_application_that_is_captured_live_is_captured_once_and_not_into_its_own_store() -> None:
    """Its own handler joins the evaluation, and so does ours, with the same steps."""
    own = MemoryRecorder()
    ragstone_enable(own)
    try:
        result = ragstone.evaluate(ROWS, ["ccrs.cc"], app=CHAIN, judge="lexical")
    finally:
        ragstone_disable()

    assert [] == own.drafts
    assert [1, 1, 1] == [len(trace.retrievals) for trace in result.traces]
    assert texts(ROWS[0]["question"]) == [passage.text for passage in result.samples[0].contexts or ()]


def test_nothing_is_captured_after_the_run() -> None:
    """In the same process and the same context."""

    async def both() -> Any:
        result = await ragstone.aevaluate(ROWS[:1], ["ccrs.cc"], app=CHAIN, judge="lexical")
        await CHAIN.ainvoke("after the run")
        return result

    assert 1 == len(asyncio.run(both()).traces)


def test_an_error_inside_a_chain_is_the_failure_of_its_sample() -> None:
    """With the error's own words; the others are scored."""

    def fail(question: str) -> str:
        if "1" in question:
            raise ConnectionError("the index is down")
        return question

    result = ragstone.evaluate(ROWS, ["ccrs.cc"], app=RunnableLambda(fail) | CHAIN, judge="lexical")

    assert ["score", "failure", "score"] == [outcome.outcome for outcome in result.outcomes]
    assert "the application raised ConnectionError: the index is down" == result.traces[1].error
