"""Spans of Java frameworks, written by hand from their published conventions: no Java framework has run here.

- Spring AI: the tables of its page on observability (`spring.ai.*`, `db.vector.query.*`), with `gen_ai.prompt` and
  `gen_ai.completion` as its 1.0 milestones write them.
- Quarkus LangChain4j: `gen_ai.*`, with prompts, completions and tools included by its tracing options.
- LangChain4j with OpenInference's Java instrumentation: spans of model calls only.

    python tests/replay/producers/java_by_hand.py
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENAI_BASE_URL", "")
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import shelf
from model_server import ANSWERS
from opentelemetry.trace import StatusCode
from replay_apps import exported

DATA = Path(__file__).parents[1] / "data"


class Application:
    """Makes spans inside one another."""

    def __init__(self, tracer: Any) -> None:
        """Make spans with a tracer."""
        self._tracer = tracer

    def leaf(self, name: str, attributes: dict[str, Any], *, error: str | None = None) -> None:
        """Make a span with nothing in it."""
        with self.span(name, attributes, error=error):
            pass

    @contextlib.contextmanager
    def span(self, name: str, attributes: dict[str, Any] | None = None, *, error: str | None = None) -> Iterator[Any]:
        """Make a span around a block; with `error` it has failed."""
        with self._tracer.start_as_current_span(name, attributes=attributes or {}) as span:
            if error is not None:
                span.set_status(StatusCode.ERROR, error)
            yield span


_FRAMEWORK = {"gen_ai.operation.name": "framework", "gen_ai.system": "spring_ai"}


def _spring_client(question: str) -> dict[str, Any]:
    return {
        **_FRAMEWORK,
        "spring.ai.kind": "chat_client",
        "spring.ai.chat.client.stream": "false",
        "spring.ai.chat.client.advisors": ["Retrieval Augmentation Advisor", "call"],
        "spring.ai.chat.client.conversation.id": "s-1",
        "gen_ai.prompt": json.dumps([question]),
    }


def _spring_chat(prompt: list[str], completion: list[str] | None) -> dict[str, Any]:
    said = (
        {} if completion is None else {"gen_ai.completion": json.dumps(completion), "gen_ai.response.model": "keeper-1"}
    )
    usage = {} if completion is None else {"gen_ai.usage.input_tokens": 40, "gen_ai.usage.output_tokens": 9}
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.system": "openai",
        "gen_ai.request.model": "keeper-1",
        "gen_ai.prompt": json.dumps(prompt),
        **said,
        **usage,
    }


def _spring_search(question: str, *, shown: bool) -> dict[str, Any]:
    texts = [document["text"] for document in shelf.search(question)]
    return {
        "db.operation.name": "query",
        "db.system": "pg_vector",
        "spring.ai.kind": "vector_store",
        "db.collection.name": "vector_store",
        "db.vector.query.content": question,
        "db.vector.query.top_k": 2,
        **({"db.vector.query.response.documents": json.dumps(texts)} if shown else {}),
    }


def spring_ai(app: Application) -> None:
    """Record retrieval shown and hidden, a tool, a stream and a failure."""
    for question, shown in ((shelf.TOWER, True), (shelf.LAMP, False)):
        advisor = {
            **_FRAMEWORK,
            "spring.ai.kind": "advisor",
            "spring.ai.advisor.name": "Retrieval Augmentation Advisor",
        }
        client = _spring_client(question)
        client["spring.ai.chat.client.stream"] = str(not shown).lower()
        with (
            app.span("http post /ask", {"http.request.method": "POST"}),
            app.span("spring_ai chat_client", client),
            app.span("retrieval_augmentation", advisor),
        ):
            app.leaf("pg_vector query", _spring_search(question, shown=shown))
            app.leaf("chat keeper-1", _spring_chat([shelf.prompt(question)], [ANSWERS[question]]))
    call = {
        **_FRAMEWORK, "spring.ai.kind": "tool_call", "spring.ai.tool.definition.name": "search_shelf",
        "spring.ai.tool.call.arguments": json.dumps({"query": shelf.STAIRS}),
        "spring.ai.tool.call.result": shelf.search_as_text(shelf.STAIRS),
    }  # fmt: skip
    with app.span("spring_ai chat_client", _spring_client(shelf.STAIRS)):
        app.leaf("chat keeper-1", _spring_chat([shelf.STAIRS], None))
        app.leaf("tool_call search_shelf", call)
        prompt = [shelf.STAIRS, "", shelf.search_as_text(shelf.STAIRS)]
        app.leaf("chat keeper-1", _spring_chat(prompt, [ANSWERS[shelf.STAIRS]]))
    failing = app.span("spring_ai chat_client", _spring_client(shelf.FAILS), error="the lamp is out")
    with failing, app.span("pg_vector query", _spring_search(shelf.FAILS, shown=True)):
        pass


def langchain4j(app: Application) -> None:
    """Record a prompt with passages, a tool and a failure, as Quarkus LangChain4j writes them."""

    def completion(prompt: str, answer: str | None) -> dict[str, Any]:
        return {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "keeper-1",
            "gen_ai.prompt": prompt,
            **({} if answer is None else {"gen_ai.completion": answer, "gen_ai.response.model": "keeper-1"}),
            "gen_ai.usage.input_tokens": 40,
            "gen_ai.usage.output_tokens": 9,
        }

    service = {"ai.service.class": "Keeper", "ai.service.method": "ask"}
    with app.span("langchain4j.aiservices.Keeper.ask", service):
        app.leaf("completion keeper-1", completion(shelf.prompt(shelf.TOWER), ANSWERS[shelf.TOWER]))
    tool = {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search_shelf", "gen_ai.tool.call.id": "1",
        "gen_ai.tool.type": "function", "gen_ai.tool.call.arguments": json.dumps({"query": shelf.STAIRS}),
        "gen_ai.tool.call.result": shelf.search_as_text(shelf.STAIRS),
    }  # fmt: skip
    with app.span("langchain4j.aiservices.Keeper.ask", service):
        app.leaf("completion keeper-1", completion(shelf.STAIRS, None))
        app.leaf("langchain4j.tools.search_shelf", tool)
        prompt = f"{shelf.STAIRS}\n{shelf.search_as_text(shelf.STAIRS)}"
        app.leaf("completion keeper-1", completion(prompt, ANSWERS[shelf.STAIRS]))
    with app.span("langchain4j.aiservices.Keeper.ask", service, error="the lamp is out"):
        app.leaf("completion keeper-1", completion(shelf.FAILS, None), error="the lamp is out")


def langchain4j_openinference(app: Application) -> None:
    """Record model calls alone, inside a span of the server, as OpenInference's instrumentation writes them."""

    def model(prompt: str, answer: str) -> dict[str, Any]:
        return {
            "openinference.span.kind": "LLM",
            "llm.model_name": "keeper-1",
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": prompt,
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": answer,
            "llm.token_count.prompt": 40,
            "llm.token_count.completion": 9,
        }

    for question in (shelf.TOWER, shelf.LAMP):
        with app.span("POST /ask", {"http.request.method": "POST"}):
            app.leaf("generate", model(shelf.prompt(question), ANSWERS[question]))


def main() -> None:
    """Write the three files."""
    for write in (spring_ai, langchain4j, langchain4j_openinference):
        with exported.recorded() as (provider, exporter):
            write(Application(provider.get_tracer("by hand")))
        lines = exported.as_lines(exporter.get_finished_spans())
        (DATA / f"{write.__name__}.otlp.jsonl").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main()
