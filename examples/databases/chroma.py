"""Capture an application that uses the OpenAI client and Chroma. OPENAI_BASE_URL and OPENAI_API_KEY name the model server."""

from __future__ import annotations

import os

import chromadb
from openai import OpenAI

from ragstone import Monitor

LIBRARY = {
    "lit": "The lighthouse on Gull Rock was lit for the first time in 1874.",
    "museum": "The lighthouse keeper's house on Gull Rock is a museum today.",
    "ferry": "The ferry to Gull Rock leaves at nine and at three.",
}


def embed(text: str) -> list[float]:
    """Count words, in place of a model for embeddings."""
    words = text.lower().replace(".", "").replace("?", "").split()
    return [float(words.count(word)) for word in ("lighthouse", "lit", "museum", "ferry", "leave", "leaves")]


database = chromadb.EphemeralClient(settings=chromadb.Settings(anonymized_telemetry=False))
collection = database.create_collection("gull-rock", embedding_function=None)
collection.add(
    ids=list(LIBRARY), documents=list(LIBRARY.values()), embeddings=[embed(text) for text in LIBRARY.values()]
)
client = OpenAI()

with Monitor(judge="lexical", metrics=["ccrs"], store="ragstone.db") as monitor:

    def ask(question: str) -> str | None:
        """Answer a question."""
        with monitor.request(question, name="gull-rock") as r:
            hits = r.found(collection.query(query_embeddings=[embed(question)], n_results=2))
            context = "\n".join(hits["documents"][0])
            messages = r.prompt(
                [{"role": "user", "content": f"Answer from these passages only.\n{context}\n\n{question}"}]
            )
            reply = r.answer(client.chat.completions.create(model=os.environ["MODEL"], messages=messages))
            return reply.choices[0].message.content

    print(ask("When was the lighthouse lit?"))
    print(ask("When does the ferry leave?"))
    monitor.drain(timeout_s=30)
    total = monitor.ledger().total
    print(f"captured {total.captured}, scored {total.scored}, failed {total.failed}, pending {total.pending}")
