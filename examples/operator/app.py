"""A web service that answers questions with LlamaIndex. Ragstone captures each request. Another process scores them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel

from llama_index.observability.ragstone import RagstoneInstrumentor
from ragstone import Monitor

PASSAGES = [
    "The Gannet carries 180 passengers and 24 cars.",
    "Dogs travel free and must be on a lead.",
    "A motorcycle costs 14 crowns.",
]


def words(text: str) -> set[str]:
    """Return the words of a text with more than three letters."""
    return {word.strip(".,?").lower() for word in text.split() if len(word) > 3}


class HandbookRetriever(BaseRetriever):
    """A retriever that counts common words. Replace it by the retriever of your index."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        asked = words(query_bundle.query_str)
        found = [(len(asked & words(text)), text) for text in PASSAGES]
        return [NodeWithScore(node=TextNode(text=text), score=n) for n, text in sorted(found, reverse=True)[:2]]


model = OpenAILike("scripted", api_base="http://127.0.0.1:8001/v1", api_key="none", is_chat_model=True)
query_engine = RetrieverQueryEngine.from_args(HandbookRetriever(), model)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Capture while this process runs. A worker scores."""
    monitor = Monitor.from_config("ragstone.toml", scoring="none")
    instrumentor = RagstoneInstrumentor(monitor)
    instrumentor.start_registering()
    yield
    instrumentor.stop_registering()
    monitor.close()


app = FastAPI(lifespan=lifespan)


class Question(BaseModel):
    """A question of a user, in a conversation."""

    question: str
    session_id: str


@app.post("/ask")
async def ask(question: Question) -> dict[str, str]:
    """Answer a question."""
    with instrument_tags({"session_id": question.session_id}):
        return {"answer": str(await query_engine.aquery(question.question))}
