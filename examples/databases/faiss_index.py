"""Capture an application that uses the OpenAI client and FAISS. OPENAI_BASE_URL and OPENAI_API_KEY name the model server."""

from __future__ import annotations

import os

import faiss
import numpy as np
from openai import OpenAI

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


index = faiss.IndexFlatIP(len(embed("")))
index.add(np.array([embed(text) for text in LIBRARY], dtype="float32"))
client = OpenAI()

with Monitor(judge="lexical", metrics=["ccrs"], store="ragstone.db") as monitor:

    def ask(question: str) -> str | None:
        """Answer a question."""
        with monitor.request(question, name="gull-rock") as r:
            scores, positions = index.search(np.array([embed(question)], dtype="float32"), 2)
            texts = [LIBRARY[position] for position in positions[0]]
            r.found(positions, texts=texts, scores=scores)
            context = "\n".join(texts)
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
