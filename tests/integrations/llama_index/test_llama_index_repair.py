"""`ragstone.repair` with engines of LlamaIndex, as they are: the nodes that they retrieve are changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core import Document, MockEmbedding, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer

import ragstone
from ragstone.errors import ConfigurationError
from ragstone.experiments import RepairTrial

RIGHT, WRONG = "At the river.", "In a cave below the mountain."
GOLD = "The stone lies at the river, near the old bridge and the mill."
TEXTS = [f"Passage {place} about stones says some words that are of no use." for place in range(10)]
INDEX = VectorStoreIndex.from_documents([Document(text=text) for text in TEXTS], embed_model=MockEmbedding(8))


class Model(CustomLLM):
    """Answers right if the number of passages in its prompt, or a text of it, is as wanted."""

    wanted: Callable[[str], bool]

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="planted", context_window=100_000)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text=RIGHT if self.wanted(prompt) else WRONG)

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        yield self.complete(prompt)


class FirstTwo(BaseNodePostprocessor):
    """A reranker that keeps two nodes."""

    def _postprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> Any:
        return nodes[:2]


def n_passages(prompt: str) -> int:
    return prompt.count("Passage ")


def query_engine(wanted: Callable[[str], bool], **options: Any) -> RetrieverQueryEngine:
    synthesizer = get_response_synthesizer(llm=Model(wanted=wanted))
    retriever = INDEX.as_retriever(similarity_top_k=4, embed_model=MockEmbedding(8))
    return RetrieverQueryEngine(retriever, synthesizer, **options)


def coroutine(wanted: Callable[[str], bool]) -> Any:
    async def ask(question: str) -> Any:
        return await query_engine(wanted).aquery(question)

    return ask


def chat_engine(wanted: Callable[[str], bool]) -> ContextChatEngine:
    retriever = INDEX.as_retriever(similarity_top_k=4, embed_model=MockEmbedding(8))
    memory = ChatMemoryBuffer.from_defaults(token_limit=10_000)
    return ContextChatEngine(retriever=retriever, llm=Model(wanted=wanted), memory=memory, prefix_messages=[])


def run(app: Any, **values: Any) -> RepairTrial:
    rows = [{"id": f"q{n}", "query": f"Where is stone {n}?", "response": WRONG, "reference": RIGHT} for n in range(5)]
    return ragstone.repair([row | values for row in rows], ["ccrs.ac"], app=app, judge="lexical", repeats=8)


def corrected(trial: RepairTrial) -> dict[str, float]:
    return {share.name: share.estimate.value for share in trial.shares if share.estimate is not None}


@pytest.mark.parametrize("make", [query_engine, coroutine, chat_engine])
def test_each_change_of_a_vector_index_reaches_the_prompt(make: Any) -> None:
    """The same repairs correct a query engine, a coroutine and a chat engine."""
    fewer = corrected(run(make(lambda prompt: n_passages(prompt) == 2)))
    assert (1.0, 0.0) == (fewer["fewer_passages"], fewer["more_passages"])
    more = corrected(run(make(lambda prompt: n_passages(prompt) == 8)))
    assert (0.0, 1.0) == (more["fewer_passages"], more["more_passages"])
    gold = corrected(run(make(lambda prompt: GOLD in prompt), reference_contexts=[GOLD]))
    assert 1.0 == gold["reference_passages"]


def test_a_node_that_a_postprocessor_dropped_is_put_first() -> None:
    """The nodes of an engine are changed after its postprocessors."""
    engine = query_engine(lambda prompt: n_passages(prompt) == 3, node_postprocessors=[FirstTwo()])
    shares = corrected(run(engine))
    assert (1.0, 0.0) == (shares["dropped_first"], shares["fewer_passages"])


def test_an_application_that_ignores_its_retriever_or_has_none_is_named() -> None:
    """The prompt that the model got decides whether a change arrived."""
    model = Model(wanted=lambda _: True)
    retriever = INDEX.as_retriever(similarity_top_k=4, embed_model=MockEmbedding(8))

    def ignore(question: str) -> str:
        retriever.retrieve(question)
        return model.complete(f"{GOLD} {question}").text

    ignoring = run(ignore)
    assert {} == corrected(ignoring)
    assert {"not_in_prompt"} == {
        reason for share in ignoring.shares for reason in share.left_out if reason != "impossible"
    }
    assert ignoring.verdict.startswith("No repair has a result, so nothing is claimed.")
    with pytest.raises(ConfigurationError, match="calls no retriever of LangChain or LlamaIndex"):
        run(lambda question: model.complete(question).text)


def test_retrievers_are_as_before_after_a_trial() -> None:
    """The methods of the base classes are the original ones."""
    before = BaseRetriever.retrieve, BaseRetriever.aretrieve, RetrieverQueryEngine.retrieve
    run(query_engine(lambda prompt: n_passages(prompt) == 2))
    assert before == (BaseRetriever.retrieve, BaseRetriever.aretrieve, RetrieverQueryEngine.retrieve)
