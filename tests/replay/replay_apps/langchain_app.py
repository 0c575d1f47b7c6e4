"""RAG applications of LangChain: plain, with the passages in the output, re-ranked, with two searches, and failing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_classic.chains import create_retrieval_chain
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_core.callbacks import CallbackManagerForLLMRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableParallel, RunnablePassthrough

TOWER = Document(
    page_content="The north tower of the lighthouse is 41 metres high.", id="doc-3",
    metadata={"source": "tower.md", "page": 3, "score": 0.875},
)  # fmt: skip
STAIRS = Document(
    page_content="Its stairs have 196 steps, the lift stops at the gallery.", id="doc-9",
    metadata={"source": "stairs.md", "page": 1, "score": 0.5},
)  # fmt: skip
ANSWER = "The north tower is 41 metres high."
QUESTION = "How high is the north tower?"
NOTHING = "Who painted the cellar?"
FAILS = "When does the model fail?"
CONFIG = {"metadata": {"session_id": "s-1", "user_id": "u-1", "release": "2.0"}, "tags": ["lighthouse"]}


class Shelf(BaseRetriever):
    """Finds the same documents for every question but one."""

    documents: list[Document]

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return [] if query == NOTHING else list(self.documents)


class Keeper(BaseChatModel):
    """A model that gives one answer, and the tokens it took."""

    model_name: str = "keeper-1"

    @property
    def _llm_type(self) -> str:
        return "keeper"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        if FAILS in str(messages[-1].content):
            msg = "the lamp is out"
            raise RuntimeError(msg)
        message = AIMessage(
            ANSWER,
            usage_metadata={"input_tokens": 40, "output_tokens": 9, "total_tokens": 49},
            response_metadata={"model_name": self.model_name},
        )
        return ChatResult(generations=[ChatGeneration(message=message)])


def _joined(documents: Sequence[Document]) -> str:
    return "\n".join(document.page_content for document in documents)


PROMPT = ChatPromptTemplate.from_messages([("system", "Use what follows.\n{context}"), ("human", "{input}")])


def plain() -> Runnable[Any, Any]:
    """The usual chain: the documents become text on their way."""
    context = Shelf(documents=[TOWER, STAIRS]) | _joined
    return ({"context": context, "input": RunnablePassthrough()} | PROMPT | Keeper() | StrOutputParser()).with_config(
        run_name="plain"
    )


def stated() -> Runnable[Any, Any]:
    """The chain whose output has the documents."""
    chain = create_retrieval_chain(Shelf(documents=[TOWER, STAIRS]), create_stuff_documents_chain(Keeper(), PROMPT))
    return chain.with_config(run_name="stated")


class Best(BaseRetriever):
    """A retriever around another that keeps its best document."""

    base: BaseRetriever

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return self.base.invoke(query, {"callbacks": run_manager.get_child()})[:1]


def nested() -> Runnable[Any, Any]:
    """A retriever in a retriever, of which the outer one's documents reach the prompt."""
    context = Best(base=Shelf(documents=[TOWER, STAIRS])) | _joined
    return ({"context": context, "input": RunnablePassthrough()} | PROMPT | Keeper() | StrOutputParser()).with_config(
        run_name="nested"
    )


def two_searches() -> Runnable[Any, Any]:
    """Two searches beside each other, both of which reach the prompt."""
    found = {"a": Shelf(documents=[TOWER]), "b": Shelf(documents=[STAIRS]), "input": RunnablePassthrough()}

    def merged(parts: dict[str, Any]) -> dict[str, Any]:
        return {"context": _joined([*parts["a"], *parts["b"]]), "input": parts["input"]}

    return (RunnableParallel(found) | merged | PROMPT | Keeper() | StrOutputParser()).with_config(
        run_name="two_searches"
    )


def requests() -> list[tuple[str, Runnable[Any, Any], Any]]:
    """What is recorded: a name, a chain, and what it is asked."""
    return [
        ("plain", plain(), QUESTION),
        ("stated", stated(), {"input": QUESTION}),
        ("nested", nested(), QUESTION),
        ("two_searches", two_searches(), QUESTION),
        ("nothing", plain(), NOTHING),
        ("fails", plain(), FAILS),
    ]


def run_all(callbacks: Sequence[Any] = ()) -> None:
    """Make all requests, one after another."""
    for _, chain, question in requests():
        try:
            chain.invoke(question, {**CONFIG, "callbacks": list(callbacks)})
        except RuntimeError:
            continue
