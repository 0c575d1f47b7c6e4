"""Capture an application that uses the OpenAI client and Qdrant. OPENAI_BASE_URL and OPENAI_API_KEY name the model server."""

from __future__ import annotations

import os
from collections.abc import Iterator

from openai import OpenAI
from qdrant_client import QdrantClient, models

from ragstone import Monitor

LIBRARY = [
    "The lighthouse on Gull Rock was lit for the first time in 1874.",
    "The lighthouse keeper's house on Gull Rock is a museum today.",
    "The ferry to Gull Rock leaves at nine and at three.",
]


def embed(text: str) -> list[float]:
    """Count words, in place of a model for embeddings."""
    words = text.lower().replace(".", "").replace("?", "").split()
    return [float(words.count(word)) for word in ("lighthouse", "lit", "museum", "ferry", "leave", "leaves")]


database = QdrantClient(":memory:")
database.create_collection(
    "gull-rock", vectors_config=models.VectorParams(size=len(embed("")), distance=models.Distance.DOT)
)
database.upsert(
    "gull-rock",
    [models.PointStruct(id=number, vector=embed(text), payload={"text": text}) for number, text in enumerate(LIBRARY)],
)
client = OpenAI()

with Monitor(judge="lexical", metrics=["ccrs"], store="ragstone.db") as monitor:

    @monitor.observe(question="question")
    def ask(question: str) -> Iterator[str]:
        """Stream the answer to a question."""
        r = monitor.current_request()
        hits = r.found(database.query_points("gull-rock", query=embed(question), limit=2))
        context = "\n".join(point.payload["text"] for point in hits.points)
        messages = r.prompt([{"role": "user", "content": f"Answer from these passages only.\n{context}\n\n{question}"}])
        stream = client.chat.completions.create(model=os.environ["MODEL"], messages=messages, stream=True)
        for chunk in r.answer(stream):
            yield chunk.choices[0].delta.content or ""

    for question in ("When was the lighthouse lit?", "When does the ferry leave?"):
        for text in ask(question):
            print(text, end="")
        print()
    monitor.drain(timeout_s=30)
    total = monitor.ledger().total
    print(f"captured {total.captured}, scored {total.scored}, failed {total.failed}, pending {total.pending}")
