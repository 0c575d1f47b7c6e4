"""Rows given as messages: the last question with its history, the last answer, and what tools found for it."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest

import ragstone
from builders import make_sample
from fake_models import FakeReader
from ragstone.errors import DataError
from ragstone.judges.lexical import LexicalJudge
from ragstone.metrics import resolve_metrics
from ragstone.metrics._history import question_fields, question_text
from ragstone.reading import read_samples, sample_from_row
from ragstone.reading._row_traces import RowsFormat
from ragstone.reading._source import InputFile
from ragstone.schema import Passage, Sample, Trace, Turn, sample_from_trace
from ragstone.schema._sample import trace_from_sample
from ragstone.scoring import Scorer
from ragstone.testing import FakeJudge

DOCS = [{"page_content": "It is 31 m tall.", "metadata": {"id": "a"}}, {"page_content": "It is 8 m wide."}]
RAGAS = [
    {"content": "How tall is the tower?", "type": "human"},
    {"content": "31 m.", "type": "ai"},
    {"content": "And how wide is it?", "type": "human"},
    {"content": "", "type": "ai", "tool_calls": [{"name": "search", "args": {"q": "width"}}]},
    {"content": json.dumps([{"text": "It is 8 m wide.", "id": "b"}]), "type": "tool"},
    {"content": "8 m.", "type": "ai"},
]
OPENAI = [
    {"role": "system", "content": "Answer from the passages."},
    {
        "role": "user",
        "content": [{"type": "text", "text": "How tall is the tower?"}, {"type": "image_url", "image_url": {}}],
    },
    {"role": "assistant", "content": "31 m."},
    {"role": "user", "content": "And how wide is it?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": "search"}}],
    },
    {"role": "tool", "tool_call_id": "1", "content": json.dumps({"results": [{"text": "It is 8 m wide.", "id": "b"}]})},
    {"role": "assistant", "content": "8 m."},
]
RESPONSES = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "How tall is the tower?"}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "31 m.", "annotations": []}]},
    {"role": "user", "content": "And how wide is it?"},
    {"type": "reasoning", "summary": []},
    {"type": "function_call", "name": "search", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "1", "output": json.dumps([{"text": "It is 8 m wide.", "id": "b"}])},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "8 m."}]},
]
ANTHROPIC = [
    {"role": "user", "content": "How tall is the tower?"},
    {"role": "assistant", "content": [{"type": "text", "text": "31 m."}]},
    {"role": "user", "content": "And how wide is it?"},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "tool_use", "id": "1", "name": "s"}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [
        {"type": "search_result", "source": "b", "title": "B", "content": [{"type": "text", "text": "It is 8 m wide."}]}]}]},
    {"role": "assistant", "content": [{"type": "text", "text": "8 m."}]},
]  # fmt: skip
LANGCHAIN = [
    SimpleNamespace(type="human", content="How tall is the tower?"),
    SimpleNamespace(type="ai", content="31 m.", tool_calls=[]),
    SimpleNamespace(type="human", content="And how wide is it?"),
    SimpleNamespace(type="ai", content="", tool_calls=[{"name": "search"}]),
    SimpleNamespace(
        type="tool",
        content="8 m",
        name="search",
        artifact=[SimpleNamespace(page_content="It is 8 m wide.", id="b", metadata={})],
    ),
    SimpleNamespace(type="ai", content="8 m.", tool_calls=[]),
]
SAVED = [
    {
        "lc": 1,
        "type": "constructor",
        "id": ["x", "HumanMessage"],
        "kwargs": {"type": "human", "content": "How tall is the tower?"},
    },
    {"type": "ai", "data": {"content": "31 m."}},
    {"type": "human", "data": {"content": "And how wide is it?"}},
    {
        "type": "tool",
        "data": {"content": "8 m", "artifact": [{"lc": 1, "kwargs": {"page_content": "It is 8 m wide.", "id": "b"}}]},
    },
    {"type": "ai", "data": {"content": "8 m."}},
]
GEMINI = [
    {"role": "user", "parts": [{"text": "How tall is the tower?"}]},
    {"role": "model", "parts": [{"text": "31 m."}]},
    {"role": "user", "parts": [{"text": "And how wide is it?"}]},
    {"role": "function", "content": [{"text": "It is 8 m wide.", "id": "b"}]},
    {"role": "model", "parts": [{"text": "8 "}, {"text": "m."}]},
]
HISTORY = (Turn(role="user", text="How tall is the tower?"), Turn(role="assistant", text="31 m."))


def read(row):
    return sample_from_row(row, position=3)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param({"user_input": RAGAS, "reference": "8 m"}, id="ragas"),
        pytest.param({"messages": OPENAI}, id="OpenAI"),
        pytest.param({"messages": RESPONSES}, id="OpenAI Responses"),
        pytest.param({"messages": ANTHROPIC}, id="Anthropic"),
        pytest.param({"messages": LANGCHAIN}, id="LangChain objects"),
        pytest.param({"messages": SAVED}, id="LangChain JSON"),
        pytest.param({"messages": GEMINI}, id="Gemini"),
        pytest.param({"messages": json.dumps(OPENAI)}, id="a cell of a table"),
        pytest.param({"inputs": {"messages": OPENAI[:4]}, "outputs": {"messages": OPENAI}}, id="LangSmith, all again"),
        pytest.param(
            {"inputs": {"messages": OPENAI[:4]}, "outputs": {"messages": OPENAI[4:]}}, id="LangSmith, new ones"
        ),
        pytest.param({"input": OPENAI[:4], "output": OPENAI[4:]}, id="autoevals"),
    ],
)
def test_shapes_of_conversations(row):
    """The same sample for all producers."""
    sample = read(row)
    assert ("And how wide is it?", HISTORY, "8 m.") == (sample.query, sample.history, sample.response)
    assert [("b", "It is 8 m wide.", 0)] == [(p.id, p.text, p.rank) for p in sample.contexts]
    assert "messages" not in sample.metadata


def test_fields_of_the_row_win():
    """A row can state question, answer and passages in addition to its messages."""
    row = {"messages": OPENAI, "contexts": ["other"], "response": "Eight meters.", "question": "And how wide is it?"}
    sample = read(row)
    assert ("Eight meters.", ["other"], HISTORY) == (sample.response, [p.text for p in sample.contexts], sample.history)
    empty = read({"messages": OPENAI, "contexts": []})
    assert () == empty.contexts
    # The question is not in the messages: all of them came before it.
    later = read({"messages": OPENAI[:3], "question": "And how wide is it?", "answer": "8 m."})
    assert ("And how wide is it?", HISTORY, "8 m.", None) == (
        later.query,
        later.history,
        later.response,
        later.contexts,
    )


@pytest.mark.parametrize("name", ["history", "chat_history"])
def test_a_history_next_to_the_question(name):
    """As chat engines take it. With and without the question at its end; another kind of history is metadata."""
    row = {"query": "And how wide is it?", "response": "8 m.", name: OPENAI[:3]}
    assert HISTORY == read(row).history
    assert HISTORY == read({**row, name: OPENAI[:4]}).history
    assert ((), {name: "long"}) == (read({**row, name: "long"}).history, read({**row, name: "long"}).metadata)


def test_no_answer_yet():
    """The response is missing, as `evaluate --app` needs it; metrics that need one are not applicable."""
    calls = {**OPENAI[4], "content": "Let me look that up."}
    blank = {"role": "assistant", "content": " "}
    for messages in (OPENAI[:4], OPENAI[:5], [*OPENAI[:4], calls], OPENAI[:6], [*OPENAI[:4], blank]):
        sample = read({"messages": messages})
        assert ("And how wide is it?", None) == (sample.query, sample.response)
    (outcome,) = asyncio.run(Scorer(resolve_metrics("ccrs.qr"), LexicalJudge()).score(read({"messages": OPENAI[:4]})))
    assert ("response",) == outcome.missing


def test_messages_without_a_text_are_no_turns():
    """A picture, or a call of a tool, before the question."""
    blank = {"role": "assistant", "content": " "}
    assert HISTORY == read({"messages": [*OPENAI[:3], blank, *OPENAI[3:]]}).history


def tool(content, **fields):
    messages = [*OPENAI[:5], {"role": "tool", "content": content, **fields}, OPENAI[6]]
    return read({"messages": messages}).contexts


def test_what_tools_found():
    """Documents, as artifact or in a list; text is never a passage. Passages of earlier questions do not count."""
    assert [("a", "It is 31 m tall."), (None, "It is 8 m wide.")] == [
        (p.id or p.metadata.get("id"), p.text) for p in tool("2 found", artifact=DOCS)
    ]
    assert ["x"] == [p.text for p in tool([{"type": "text", "text": '[{"text": "x"}]'}])]
    assert ["It is red."] == [p.text for p in tool('[{"text": "x"}]', artifact=[{"page_content": "It is red."}])]
    assert () == tool("nothing", artifact=[])
    for other in ("It is 8 m wide.", "[1] see below", "{broken", '{"result": 5}', '["a", 5]', "[1, 2]", ""):
        assert tool(other) is None
    assert read({"messages": [*OPENAI[:3], OPENAI[5], *OPENAI[3:5], OPENAI[6]]}).contexts is None
    twice = read({"messages": [*OPENAI[:6], OPENAI[5], OPENAI[6]]})
    assert 1 == len(twice.contexts)


@pytest.mark.parametrize(
    ("row", "match"),
    [
        ({"messages": [{"role": "assistant", "content": "Hi."}]}, "row 3: messages does not contain a message of the user .roles: assistant"),
        ({"messages": [*OPENAI[:2], {"role": "narrator", "content": "x"}]}, "row 3: message 3 of messages has the role 'narrator'. Roles are agent, ai, assistant"),
        ({"user_input": [{"type": "robot", "content": "x"}]}, "message 1 of messages has the role 'robot'"),
        ({"messages": [OPENAI[1], "text"]}, "message 2 of messages does not have a role: str 'text'"),
        ({"messages": "Hello?"}, "row 3: messages must be a list of messages"),
        ({"messages": []}, "row 3: messages must be a list of messages"),
        ({"user_input": [5]}, "query must be text"),
    ],
)  # fmt: skip
def test_unreadable_conversations(row, match):
    """The message names the value, the rule and the way out."""
    with pytest.raises(DataError, match=match):
        read(row)


def test_other_messages_are_metadata():
    """A field of this name next to a question need not be a conversation."""
    assert {"messages": 3} == read({"query": "Why?", "messages": 3}).metadata


def test_content_blocks_with_citations():
    """The text of the blocks, and the citations with their places in it."""
    blocks = [
        {"type": "text", "text": "It is tall. "},
        {"type": "text", "text": "It is old.", "citations": [{"document_index": 1, "cited_text": "1884"}]},
        {"type": "text", "text": " Yes.", "annotations": [{"type": "url_citation", "start_index": 1, "end_index": 4, "url": "u"}]},
        {"type": "text", "text": "", "annotations": [{"type": "file_citation", "index": 0, "file_id": "f"}]},
    ]  # fmt: skip
    for row in (
        {"query": "?", "response": blocks},
        {"messages": [OPENAI[1], {"role": "assistant", "content": blocks}]},
    ):
        sample = read(row)
        assert "It is tall. It is old. Yes." == sample.response
        first, second, third = sample.metadata["citations"]
        assert (12, 22, 1) == (first["start"], first["end"], first["document_index"])
        assert "Yes" == sample.response[second["start_index"] : second["end_index"]]
        assert 27 == third["index"]
    stated = read({"query": "?", "response": blocks, "metadata": {"citations": [1]}})
    assert [1] == stated.metadata["citations"]
    passages = (Passage(text="It is tall."), Passage(text="It was built in 1884."))
    sample = read({"query": "?", "response": blocks[:2]}).model_copy(update={"contexts": passages})
    outcomes = asyncio.run(Scorer(resolve_metrics("citation.recall"), LexicalJudge()).score(sample))
    assert [[], [2]] == [claim["cited"] for claim in outcomes[0].details["claims"]]


# -- what judges and readers see

ASKS = ("ccrs.qr", "ragas.faithfulness", "ragas.answer_relevancy", "ragas.context_precision",
        "vera.retrieval_precision", "crux_reference_free.coverage", "judged.precision@5", "citation.recall", "udcg")  # fmt: skip


def prompts(name, history):
    metric = resolve_metrics(name)[0]
    if name == "udcg":
        metric = metric.with_reader(FakeReader())
    judge = FakeJudge()
    sample = make_sample(query="And how wide is it?", response="It is 8 m wide [1].").model_copy(
        update={"history": history}
    )
    asyncio.run(metric.score(sample, judge))
    return judge.prompts


@pytest.mark.parametrize("name", ASKS)
def test_judges_see_the_history_with_the_query(name):
    """Every metric that shows the query; without a history the prompts are those of other samples."""
    shown = [prompt.fields for prompt in prompts(name, HISTORY) if "query" in prompt.fields]
    assert shown
    for fields in shown:
        text = "\n".join((*fields.get("earlier_turns", ()), fields["query"]))
        assert (
            text.index("User: How tall is the tower?")
            < text.index("Assistant: 31 m.")
            < text.index("And how wide is it?")
        )
        if "earlier_turns" in fields:
            assert ["earlier_turns", "query"] == list(fields)[:2]
    assert all("earlier_turns" not in prompt.fields for prompt in prompts(name, ()))


def test_long_histories_are_cut():
    """The last six messages, and the two ends of a long one."""
    turns = tuple(Turn(role="user", text=f"{n} {'x' * 3000} end") for n in range(9))
    shown = question_fields(make_sample().model_copy(update={"history": turns}))["earlier_turns"]
    assert ["User: 3 x", "User: 8 x"] == [shown[0][:9], shown[-1][:9]]
    assert 6 == len(shown)
    assert max(map(len, shown)) < 1020
    assert shown[0].endswith("x end")
    assert {} == question_fields(make_sample(query=" ").model_copy(update={"history": turns}))


def test_readers_get_one_text():
    """A reader has a question, no conversation."""
    sample = make_sample(query="And how wide is it?")
    assert "And how wide is it?" == question_text(sample)
    text = question_text(sample.model_copy(update={"history": HISTORY}))
    assert "User: How tall is the tower?\n\nAssistant: 31 m.\n\nUser: And how wide is it?" == text


def test_traces_keep_the_history():
    """A replayed row is scored as the sample that it is; records without a history read as before."""
    sample = read({"messages": OPENAI})
    trace = trace_from_sample(sample, source="rows", started_at=0.0)
    assert sample.history == sample_from_trace(type(trace).model_validate_json(trace.model_dump_json())).history
    assert () == Sample.model_validate({"id": "1", "schema_version": 1}).history


# -- applications and commands


class Graph:
    """A graph of a framework, called with messages."""

    def __init__(self):
        self.asked = []

    def get_input_jsonschema(self):
        return {"type": "object", "properties": {"messages": {"type": "array"}}, "required": ["messages"]}

    def invoke(self, messages):
        self.asked.append(messages)
        return {"answer": "8 m."}


def test_an_application_gets_the_conversation():
    """A graph all messages, a function of rows the history; the scored sample keeps it."""
    graph = Graph()
    row = {"id": "1", "messages": OPENAI[:4]}
    result = ragstone.evaluate([row], "ccrs.qr", app=graph, judge="lexical")
    texts = [(message["role"], message["content"]) for message in graph.asked[0]["messages"]]
    assert [*((turn.role, turn.text) for turn in HISTORY), ("user", "And how wide is it?")] == texts
    assert HISTORY == result.traces[0].history

    asked = []

    def answer(row: Sample) -> str:
        asked.append(row.history)
        return "8 m."

    judge = FakeJudge()
    ragstone.evaluate([row], "ccrs.qr", app=answer, judge=judge)
    assert [HISTORY] == asked
    assert "earlier_turns" in judge.prompts[0].fields


def test_files_of_conversations(tmp_path):
    """`--data` and `replay` read them."""
    path = tmp_path / "talks.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ({"user_input": RAGAS}, {"messages": OPENAI})))
    samples, rejected = read_samples(path)
    assert ([HISTORY] * 2, []) == ([sample.history for sample in samples], rejected)
    traces = [trace for trace in RowsFormat().read(InputFile(path, path.name)) if isinstance(trace, Trace)]
    assert [HISTORY] * 2 == [trace.history for trace in traces]
