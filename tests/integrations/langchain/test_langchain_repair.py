"""`ragstone.repair` with chains and graphs of LangChain, as they are: what their retrievers return is changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import SimpleChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore
from langgraph.graph import START, MessagesState, StateGraph

import ragstone
from ragstone.errors import ConfigurationError
from ragstone.experiments import RepairTrial

RIGHT, WRONG = "At the river.", "In a cave below the mountain."
GOLD = "The stone lies at the river, near the old bridge and the mill."
TEXTS = [f"Passage {place} about stones says some words that are of no use." for place in range(10)]
STORE = InMemoryVectorStore.from_texts(TEXTS, DeterministicFakeEmbedding(size=8))
PROMPT = ChatPromptTemplate.from_template("{context}\n\n{question}")


class Model(SimpleChatModel):
    """Answers right if the number of passages in its prompt, or a text of it, is as wanted."""

    wanted: Callable[[str], bool]

    @property
    def _llm_type(self) -> str:
        return "planted"

    def _call(self, messages: list[Any], *args: Any, **kwargs: Any) -> str:
        return RIGHT if self.wanted(messages[-1].content) else WRONG


class FirstTwo(BaseDocumentCompressor):
    """A reranker that keeps two documents."""

    def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> Any:
        return documents[:2]


def n_passages(prompt: str) -> int:
    return prompt.count("Passage ")


def joined(documents: list[Document]) -> str:
    return "\n\n".join(document.page_content for document in documents)


def chain(wanted: Callable[[str], bool], retriever: BaseRetriever) -> Runnable[str, str]:
    given = {"context": retriever | joined, "question": RunnablePassthrough()}
    return given | PROMPT | Model(wanted=wanted) | StrOutputParser()


def coroutine(wanted: Callable[[str], bool], retriever: BaseRetriever) -> Any:
    async def ask(question: str) -> str:
        return await chain(wanted, retriever).ainvoke(question)

    return ask


def graph(wanted: Callable[[str], bool], retriever: BaseRetriever) -> Any:
    def answer(state: MessagesState) -> dict[str, Any]:
        question = str(state["messages"][-1].content)
        return {"messages": [Model(wanted=wanted).invoke(f"{joined(retriever.invoke(question))}\n\n{question}")]}

    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    return builder.compile()


def run(app: Any, **values: Any) -> RepairTrial:
    rows = [{"id": f"q{n}", "query": f"Where is stone {n}?", "response": WRONG, "reference": RIGHT} for n in range(5)]
    return ragstone.repair([row | values for row in rows], ["ccrs.ac"], app=app, judge="lexical", repeats=8)


def corrected(trial: RepairTrial) -> dict[str, float]:
    return {share.name: share.estimate.value for share in trial.shares if share.estimate is not None}


@pytest.mark.parametrize("make", [chain, coroutine, graph])
def test_each_change_of_a_vector_store_retriever_reaches_the_prompt(make: Any) -> None:
    """The same repairs correct a chain, a coroutine and a graph, and every call is part of the result."""
    retriever = STORE.as_retriever(search_kwargs={"k": 4})
    fewer = run(make(lambda prompt: n_passages(prompt) == 2, retriever))
    assert {"fewer_passages": 1.0, "more_passages": 0.0, "no_passages": 0.0} == corrected(fewer)
    more = run(make(lambda prompt: n_passages(prompt) == 8, retriever))
    assert {"fewer_passages": 0.0, "more_passages": 1.0, "no_passages": 0.0} == corrected(more)
    gold = run(make(lambda prompt: GOLD in prompt, retriever), reference_contexts=[GOLD])
    assert 1.0 == corrected(gold)["reference_passages"]


def test_a_document_that_a_reranker_dropped_is_put_first() -> None:
    """The result of the outermost retriever is changed, after its reranker."""
    base = STORE.as_retriever(search_kwargs={"k": 4})
    retriever = ContextualCompressionRetriever(base_compressor=FirstTwo(), base_retriever=base)
    trial = run(chain(lambda prompt: n_passages(prompt) == 3, retriever))
    assert {"fewer_passages": 0.0, "more_passages": 0.0, "dropped_first": 1.0, "no_passages": 0.0} == corrected(trial)


def test_a_chain_that_ignores_its_retriever_or_has_none_is_named() -> None:
    """The prompt that the model got decides whether a change arrived."""
    retriever = STORE.as_retriever(search_kwargs={"k": 4})
    fixed: Runnable[Any, Any] = {
        "context": retriever | (lambda _: GOLD),
        "question": RunnablePassthrough(),
    } | (PROMPT | Model(wanted=lambda _: True) | StrOutputParser())
    ignoring = run(fixed)
    assert {} == corrected(ignoring)
    assert {"not_in_prompt"} == {
        reason for share in ignoring.shares for reason in share.left_out if reason != "impossible"
    }
    without = PROMPT.partial(context="") | Model(wanted=lambda _: True) | StrOutputParser()
    with pytest.raises(ConfigurationError, match="calls no retriever of LangChain or LlamaIndex"):
        run(without)


def test_retrievers_are_as_before_after_a_trial() -> None:
    """The methods of the base class are the original ones."""
    before = BaseRetriever.invoke, BaseRetriever.ainvoke
    run(chain(lambda prompt: n_passages(prompt) == 2, STORE.as_retriever()))
    assert before == (BaseRetriever.invoke, BaseRetriever.ainvoke)
