"""An application that answers questions, and sends each request to Redis. A worker on any host scores it.

python app.py "Do dogs pay?" "How many passengers fit?"
ragstone worker ragstone.db --from redis://127.0.0.1/handbook --metrics ccrs --judge lexical
"""

from __future__ import annotations

import os
import sys

from ragstone import Monitor

PASSAGES = [
    "The Gannet carries 180 passengers and 24 cars.",
    "Dogs travel free and must be on a lead.",
    "A motorcycle costs 14 crowns.",
]

# The only line that differs from an application without a broker. This process never opens the store of the worker.
monitor = Monitor(store=os.environ.get("RAGSTONE_STORE", "redis://127.0.0.1/handbook"), app="handbook", release="1.0")


def answer(question: str) -> str:
    """Answer from the passage with the most words of the question. Replace this by your retriever and your model."""
    words = {word.strip("?.,").lower() for word in question.split()}
    with monitor.request(question) as request:
        found = sorted(PASSAGES, key=lambda passage: -len(words & set(passage.lower().split())))[:2]
        request.found(found)
        request.answer(found[0])
    return found[0]


if __name__ == "__main__":
    for question in sys.argv[1:]:
        print(answer(question))
    # A service does not wait here: requests are sent while it runs. Without Redis, they stay in the spool until the next start.
    if not monitor.drain(timeout_s=30):
        print("Redis did not accept all requests. The next start sends the others.", file=sys.stderr)
    monitor.close()
