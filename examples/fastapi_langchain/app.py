"""A web service that answers questions with LangChain. Each request is captured; another process scores it.

uvicorn app:app            # the service
ragstone worker ragstone.db --metrics ccrs --judge http://localhost:8000/v1
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

from fastapi import FastAPI
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore
from pydantic import BaseModel

from langchain_ragstone import RagstoneCallbackHandler
from ragstone import Monitor

PASSAGES = [
    "The Gannet carries 180 passengers and 24 cars.",
    "Dogs travel free and must be on a lead.",
    "A motorcycle costs 14 crowns.",
]

# Stand-ins, so that the example runs without a model. Replace them by your embeddings and your chat model.
retriever = InMemoryVectorStore.from_texts(PASSAGES, DeterministicFakeEmbedding(size=16)).as_retriever()
model = FakeListChatModel(responses=["Dogs travel free, on a lead."])

chain = (
    {
        "context": retriever | (lambda documents: "\n".join(document.page_content for document in documents)),
        "question": RunnablePassthrough(),
    }
    | ChatPromptTemplate.from_template("Answer from these passages only.\n{context}\n\n{question}")
    | model
    | StrOutputParser()
)


class Question(BaseModel):
    """A question of a user."""

    question: str
    session_id: str | None = None


class Feedback(BaseModel):
    """What a user thinks of an answer: 1 is good, 0 is bad."""

    value: float
    comment: str | None = None


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Capture while the service runs. With the role "capture" this process does not score."""
    monitor = Monitor(
        store=os.environ.get("RAGSTONE_STORE", "ragstone.db"), scoring="none", app="handbook", release="1.0"
    )
    app.state.monitor = monitor
    app.state.handler = RagstoneCallbackHandler(monitor)
    yield
    monitor.close()


app = FastAPI(lifespan=lifespan)


@app.post("/ask")
async def ask(question: Question) -> dict[str, str]:
    """Answer a question. The id in the reply is for feedback."""
    run_id = uuid4()
    answer = await chain.ainvoke(
        question.question,
        {"callbacks": [app.state.handler], "run_id": run_id, "metadata": {"session_id": question.session_id}},
    )
    return {"answer": answer, "id": str(run_id)}


@app.post("/feedback/{request_id}")
async def feedback(request_id: str, given: Feedback) -> None:
    """Store what a user thinks of an answer."""
    app.state.monitor.feedback(request_id, given.value, comment=given.comment)
