"""Capture a LangChain application live, and look at what was scored. Needs no model, no key and no network."""

from __future__ import annotations

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough

from langchain_ragstone import RagstoneCallbackHandler
from ragstone import Monitor

LIBRARY = [
    "The lighthouse on Gull Rock was lit for the first time in 1874.",
    "The lighthouse keeper's house on Gull Rock is a museum today.",
    "The ferry to Gull Rock leaves at nine and at three.",
]


class Words(BaseRetriever):
    """Finds the two passages that share the most words with the question."""

    def _get_relevant_documents(self, query: str, *, run_manager: object) -> list[Document]:  # noqa: ARG002 - LangChain's signature
        words = set(query.lower().strip("?").split())
        ranked = sorted(LIBRARY, key=lambda text: -len(words & set(text.lower().strip(".").split())))
        return [Document(page_content=text) for text in ranked[:2]]


# Your application, as it is: a retriever, a prompt, a model.
chain = (
    {
        "context": Words() | (lambda documents: "\n".join(document.page_content for document in documents)),
        "question": RunnablePassthrough(),
    }
    | ChatPromptTemplate.from_template("Answer from these passages only.\n{context}\n\n{question}")
    | FakeListChatModel(responses=["It was lit in 1874.", "At nine and at three."])
    | StrOutputParser()
)

# One handler for the whole application. "lexical" compares words; name a model server to have answers judged.
with Monitor(judge="lexical", metrics=["ccrs"], store="ragstone.db") as monitor:
    handler = RagstoneCallbackHandler(monitor)

    print(chain.invoke("When was the lighthouse lit?", {"callbacks": [handler], "metadata": {"user_id": "ada"}}))
    for token in chain.stream("When does the ferry leave?", {"callbacks": [handler]}):
        print(token, end="")
    print()

    # An application never waits; this script does, to show what came of it.
    monitor.drain(timeout_s=30)
    total = monitor.ledger().total
    print(f"captured {total.captured}, scored {total.scored}, failed {total.failed}, pending {total.pending}")
