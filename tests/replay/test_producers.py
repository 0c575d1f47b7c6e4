"""Requests of other frameworks, recorded with their instrumentations: what is read, and what is missing and why."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from ragstone.reading import InputFile, RejectedRecord
from ragstone.reading.otlp import OtlpFormat
from ragstone.schema import Trace

DATA = Path(__file__).parent / "data"
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "trace-formats-otlp.md"

TOWER, STAIRS, LAMP = (
    "How high is the north tower?",
    "How many steps lead to the gallery?",
    "When was the lamp replaced?",
)
FAILS = "When does the model fail?"
ANSWERS = {
    TOWER: "The north tower is 41 metres high.",
    STAIRS: "There are 196 steps to the gallery.",
    LAMP: "The lamp was replaced in the spring of 1987.",
}
PASSAGES = {
    "The north tower of the lighthouse is 41 metres high and was built in 1902.": "tower",
    "Its stairs have 196 steps up to the gallery, where the lift stops as well.": "stairs",
    "The lamp of the lighthouse was last replaced in the spring of 1987.": "lamp",
}
TOOLS = {"search_shelf": "\n\n"}
PROMPT = "Answer from these passages only."


@dataclass(frozen=True, kw_only=True)
class Shape:
    """One request of a producer, and what is read of it."""

    shape: str
    query: str | None
    contexts: tuple[str, ...] | None = None
    """Short names of the passages; None if they are unknown without `--retriever-tool`."""
    with_tool: tuple[str, ...] | None = None
    """The same with `--retriever-tool`."""
    failed: bool = False
    quotes_prompt: bool = False
    """Whether the query is the whole prompt, because nothing else in the trace has the question."""
    missing: str = ""
    """What is not known, and why."""


TEXT_TOOL = "contexts need `--retriever-tool`: the tool returns text"
NO_RETRIEVAL = "contexts and the question alone: the trace has only the prompt"
PLAIN_PROMPT = {"query": PROMPT, "quotes_prompt": True, "missing": NO_RETRIEVAL}
FAILED = {"query": FAILS, "failed": True}

PRODUCERS: dict[str, tuple[str, list[Shape]]] = {
    "crewai": (
        "CrewAI (OpenInference)",
        [
            Shape(shape="agent, text tool", query=TOWER, with_tool=("tower", "stairs"), missing=TEXT_TOOL),
            Shape(shape="prompt with passages", **PLAIN_PROMPT),
            Shape(shape="agent, text tool, streamed", query=LAMP, with_tool=("lamp", "tower"), missing=TEXT_TOOL),
            Shape(shape="failing model", **FAILED),
        ],
    ),
    "dspy": (
        "DSPy (OpenInference)",
        [
            Shape(
                shape="retriever",
                query=TOWER,
                contexts=("tower", "stairs"),
                missing="ids, scores and tokens: not recorded",
            ),
            Shape(shape="passages as an input", query=STAIRS, contexts=("stairs", "tower")),
            Shape(shape="ReAct, tool with a list", query=STAIRS, contexts=("stairs", "tower")),
            Shape(shape="failing model", contexts=("tower", "lamp"), **FAILED),
            Shape(shape="retriever, streamed", query=LAMP, contexts=("lamp", "tower")),
        ],
    ),
    "haystack": (
        "Haystack (OpenInference)",
        [
            Shape(shape="retriever", query=TOWER, contexts=("tower", "lamp")),
            Shape(shape="agent, text tool", query=STAIRS, with_tool=("stairs", "tower"), missing=TEXT_TOOL),
            Shape(shape="retriever, streamed", query=LAMP, contexts=("lamp", "tower")),
            Shape(shape="failing model", contexts=("lamp", "tower"), **FAILED),
        ],
    ),
    "langchain4j": (
        "LangChain4j in Quarkus (by hand)",
        [
            Shape(shape="prompt with passages", **PLAIN_PROMPT),
            Shape(shape="text tool", query=STAIRS, with_tool=("stairs", "tower"), missing=TEXT_TOOL),
            Shape(shape="failing model", **FAILED),
        ],
    ),
    "langchain4j_openinference": (
        "LangChain4j (OpenInference, by hand)",
        [],
    ),
    "llama_index": (
        "LlamaIndex (OpenInference)",
        [
            Shape(shape="chat", query=TOWER, contexts=("tower", "stairs")),
            Shape(shape="chat, streamed", query=LAMP, contexts=("lamp", "tower")),
            Shape(shape="chat, streamed, async", query=TOWER, contexts=("tower", "stairs")),
            Shape(shape="agent, tool with a list", query=STAIRS, contexts=("stairs", "tower")),
            Shape(shape="failing model", contexts=("tower", "lamp"), **FAILED),
        ],
    ),
    "openai_agents": (
        "OpenAI Agents SDK (OpenInference)",
        [
            Shape(shape="agent, text tool", query=TOWER, with_tool=("tower", "stairs"), missing=TEXT_TOOL),
            Shape(
                shape="agent, text tool, Responses API", query=STAIRS, with_tool=("stairs", "tower"), missing=TEXT_TOOL
            ),
            Shape(shape="prompt with passages", **PLAIN_PROMPT),
            Shape(shape="failing model", **FAILED),
            Shape(shape="agent, text tool, streamed", query=LAMP, with_tool=("lamp", "tower"), missing=TEXT_TOOL),
        ],
    ),
    "pydantic_ai": (
        "Pydantic AI",
        [
            Shape(shape="agent, tool with documents", query=TOWER, contexts=("tower", "stairs")),
            Shape(shape="agent, text tool", query=STAIRS, with_tool=("stairs", "tower"), missing=TEXT_TOOL),
            Shape(shape="prompt with passages", **PLAIN_PROMPT),
            Shape(shape="failing model", **FAILED),
            Shape(shape="agent, tool with documents, streamed", query=LAMP, contexts=("lamp", "tower")),
        ],
    ),
    "pydantic_ai_openinference": (
        "Pydantic AI (OpenInference)",
        [
            Shape(shape="agent, tool with documents", query=TOWER, contexts=("tower", "stairs")),
            Shape(shape="agent, text tool", query=STAIRS, with_tool=("stairs", "tower"), missing=TEXT_TOOL),
            Shape(shape="prompt with passages", **PLAIN_PROMPT),
            Shape(shape="failing model", **FAILED),
            Shape(shape="agent, tool with documents, streamed", query=LAMP, contexts=("lamp", "tower")),
        ],
    ),
    "smolagents": (
        "smolagents (OpenInference)",
        [
            Shape(shape="agent, text tool", query=TOWER, with_tool=("tower", "stairs"), missing=TEXT_TOOL),
            Shape(shape="agent that writes code", query=STAIRS, with_tool=("stairs", "tower"), missing=TEXT_TOOL),
            Shape(shape="agent, text tool, streamed", query=LAMP, with_tool=("lamp", "tower"), missing=TEXT_TOOL),
            Shape(
                shape="failing model",
                query=f"New task:\n{FAILS}",
                failed=True,
                missing="the run: its span is not exported",
            ),
        ],
    ),
    "spring_ai": (
        "Spring AI (by hand)",
        [
            Shape(shape="retriever", query=TOWER, contexts=("tower", "stairs")),
            Shape(
                shape="retriever, documents not exported",
                query=LAMP,
                missing="contexts: the documents are not in the spans",
            ),
            Shape(shape="text tool", query=STAIRS, with_tool=("stairs", "tower"), missing=TEXT_TOOL),
            Shape(shape="failing retrieval", contexts=("tower", "lamp"), **FAILED),
        ],
    ),
    "vercel_ai": (
        "Vercel AI SDK",
        [
            Shape(shape="prompt with passages", **PLAIN_PROMPT),
            Shape(shape="agent, tool with documents", query=STAIRS, contexts=("stairs", "tower")),
            Shape(shape="agent, text tool, streamed", query=LAMP, with_tool=("lamp", "tower"), missing=TEXT_TOOL),
            Shape(shape="failing model", **FAILED),
            Shape(shape="prompt with passages in a span of the application, streamed", **PLAIN_PROMPT),
        ],
    ),
}
CASES = [(name, number) for name, (_, shapes) in PRODUCERS.items() for number in range(len(shapes))]


def read(name: str, tools=None) -> list[Trace | RejectedRecord]:
    """The requests in a recording."""
    source = InputFile(DATA / f"{name}.otlp.jsonl", name, retriever_tools=tools or {})
    return list(OtlpFormat().read(source))


def traces(name: str, tools=None) -> list[Trace]:
    """The traces in a recording."""
    return [item for item in read(name, tools) if isinstance(item, Trace)]


def names(trace: Trace) -> tuple[str, ...] | None:
    """Short names of the contexts."""
    contexts = trace.prompt_contexts
    return None if contexts is None else tuple(PASSAGES.get(passage.text, passage.text) for passage in contexts)


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_recorded_request_is_read_right_or_with_what_is_missing(name, number):
    """Query, contexts, response and status of each recorded request; what the producer does not record stays unknown."""
    shape, trace = PRODUCERS[name][1][number], traces(name)[number]

    if shape.quotes_prompt:
        assert trace.query.startswith(PROMPT)
    else:
        assert shape.query == trace.query
    assert shape.contexts == names(trace)
    assert ("error" if shape.failed else "ok") == trace.status
    question = next((asked for asked in ANSWERS if asked in (trace.query or "")), None)
    assert (None if shape.failed else ANSWERS[question]) == trace.response


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_declared_tool_retrieves(name, number):
    """With `--retriever-tool` the text that a tool returned is its passages, and nothing else changes."""
    shape, trace = PRODUCERS[name][1][number], traces(name, TOOLS)[number]

    assert (shape.with_tool or shape.contexts) == names(trace)


@pytest.mark.parametrize(("name", "number"), CASES)
def test_an_undeclared_text_tool_is_a_doubt(name, number):
    """Its name is in the evidence, so that `ragstone status` can say which tool to declare."""
    shape, trace = PRODUCERS[name][1][number], traces(name)[number]
    is_undeclared = shape.missing == TEXT_TOOL

    assert is_undeclared == ("text_tool:search_shelf" in trace.evidence.doubts)


@pytest.mark.parametrize("name", PRODUCERS)
def test_each_recorded_request_is_in_the_table(name):
    """A request more or less than the table names is an error of the reader or of the table."""
    assert len(PRODUCERS[name][1]) == len(traces(name))


def test_model_calls_without_a_request_around_them_are_left_out_with_the_reason():
    """OpenInference's instrumentation of LangChain4j records nothing but model calls; LlamaIndex loses one of a stream."""
    for name, n in (("langchain4j_openinference", 2), ("llama_index", 2)):
        left_out = [item.reason for item in read(name) if isinstance(item, RejectedRecord)]

        assert ["not a request: only model calls without a retrieval or a chain around them"] * n == left_out


def table() -> str:
    """The table of the page: the shapes of each producer by what is read of them. Of each failed request the error is read."""
    lines = [
        "| producer | query, contexts and response are read | contexts need `--retriever-tool` | contexts are unknown |",
        "|---|---|---|---|",
    ]
    for title, shapes in PRODUCERS.values():
        cells: tuple[dict[str, str], ...] = ({}, {}, {} if shapes else {"model calls only, which are left out": ""})
        for shape in shapes:
            if not shape.failed:
                plain = shape.shape.removesuffix(", async").removesuffix(", streamed")
                other = f" ({shape.missing})" if shape.missing not in ("", TEXT_TOOL, NO_RETRIEVAL) else ""
                place = 0 if shape.contexts else 1 if shape.with_tool else 2
                cells[place].setdefault(plain, other)
        lines.append(
            f"| {title} | {' | '.join('<br>'.join(map(str.__add__, cell, cell.values())) or '–' for cell in cells)} |"
        )
    return "\n".join(lines)


def test_the_page_has_the_table():
    """The page shows what is tested here; to update it, paste the output of `python tests/replay/test_producers.py`."""
    assert table() in PAGE.read_text(encoding="utf-8")


if __name__ == "__main__":
    print(table())
