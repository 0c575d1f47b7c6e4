"""The passages of the recorded applications, their questions, and how each request is recorded."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from replay_apps import exported

PASSAGES = {
    "doc-3": "The north tower of the lighthouse is 41 metres high and was built in 1902.",
    "doc-9": "Its stairs have 196 steps up to the gallery, where the lift stops as well.",
    "doc-5": "The lamp of the lighthouse was last replaced in the spring of 1987.",
}
TOWER, STAIRS, LAMP = (
    "How high is the north tower?",
    "How many steps lead to the gallery?",
    "When was the lamp replaced?",
)
FAILS = "When does the model fail?"
BASE_URL = os.environ["OPENAI_BASE_URL"]
_FOUND = {TOWER: ("doc-3", "doc-9"), STAIRS: ("doc-9", "doc-3"), LAMP: ("doc-5", "doc-3")}


def search(question: str) -> list[dict[str, Any]]:
    """Return two documents as plain objects."""
    ids = _FOUND.get(question, ("doc-3", "doc-5"))
    return [{"id": key, "text": PASSAGES[key], "score": score} for key, score in zip(ids, (0.875, 0.5), strict=True)]


def search_as_text(question: str) -> str:
    """Return two documents as one text, a blank line between them."""
    return "\n\n".join(document["text"] for document in search(question))


def prompt(question: str) -> str:
    """Return the prompt of an application that retrieves by itself."""
    return f"Answer from these passages only.\n\n{search_as_text(question)}\n\nQuestion: {question}"


@contextlib.contextmanager
def recording(*instrumentors: Any, add: Callable[[Any], object] | None = None) -> Iterator[Any]:
    """Record the spans of the block into the file that the environment variable RECORDING names.

    Args:
        instrumentors: OpenTelemetry instrumentors.
        add: Called with the tracer provider, for frameworks that instrument themselves.
    """
    with exported.recorded(*instrumentors) as (provider, exporter):
        if add is not None:
            add(provider)
        yield provider
        Path(os.environ["RECORDING"]).write_text(exported.as_lines(exporter.get_finished_spans()), encoding="utf-8")


def attempt(request: Callable[[], object]) -> None:
    """Run a request that may fail."""
    with contextlib.suppress(Exception):
        request()
