"""The demo's RAG application: a real LCEL chain around a model that only copies sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough

from langchain_ragstone import RagstoneCallbackHandler
from ragstone.demo import Bm25, DemoChain, DemoQuestion, extract_answer, load_corpus
from ragstone.requests import Recorder

_PASSAGES = 4
_BETWEEN_PASSAGES = "\n---\n"
_PROMPT = ChatPromptTemplate(
    [
        ("system", "You answer questions about the handbook of a ferry line, from these sections only."),
        ("human", "{sections}"),
        ("human", "{question}"),
    ]
)


def build_demo_chain(recorder: Recorder) -> DemoChain:
    """Build a chain over the demo's handbook, whose requests get the correct answer as their reference."""
    chain = (
        {
            "sections": _HandbookRetriever(index=Bm25(load_corpus())) | _join,
            "question": RunnablePassthrough(),
        }
        | _PROMPT
        | _ExtractiveChatModel()
        | StrOutputParser()
    )
    handler = RagstoneCallbackHandler(recorder)

    def ask(question: DemoQuestion) -> str:
        return chain.invoke(
            question.query,
            config={
                "callbacks": [handler],
                "run_name": "handbook",
                "metadata": {
                    "reference": [question.reference],
                    "session_id": "demo",
                    "question_id": question.id,
                    "question_kind": question.kind,
                },
            },
        )

    return ask


class _HandbookRetriever(BaseRetriever):
    """Finds sections of the handbook with BM25."""

    index: Bm25

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 - LangChain's signature
    ) -> list[Document]:
        return [
            Document(id=passage.id, page_content=passage.text, metadata={"title": passage.title, "score": score})
            for passage, score in self.index.search(query, _PASSAGES)
        ]


class _ExtractiveChatModel(BaseChatModel):
    """Stands in for a model: answers with the sentence of the prompt that looks most like the question."""

    @property
    def _llm_type(self) -> str:
        return "ragstone-demo"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - LangChain's signature
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> ChatResult:
        sections, question = messages[-2].text, messages[-1].text
        answer = extract_answer(question, sections.split(_BETWEEN_PASSAGES))
        # Words stand in for tokens.
        read, written = sum(len(m.text.split()) for m in messages), len(answer.split())
        message = AIMessage(
            answer,
            usage_metadata={"input_tokens": read, "output_tokens": written, "total_tokens": read + written},
            response_metadata={"model_name": "extractive-demo"},
        )
        return ChatResult(generations=[ChatGeneration(message=message)])


def _join(documents: Sequence[Document]) -> str:
    return _BETWEEN_PASSAGES.join(document.page_content for document in documents)
