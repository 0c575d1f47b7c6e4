"""Traces that others captured are redacted as our own are."""

from __future__ import annotations

from ragstone.capture import redact_json, redact_trace
from ragstone.schema import Passage, Retrieval, Trace, Turn

SECRET = "ada@example.org"


def full() -> Trace:
    """A trace with a secret in every text, and in ids that look like none."""
    passage = Passage(text=SECRET, id="p", metadata={"from": SECRET, SECRET: [SECRET, {"deep": (SECRET,)}], "n": 1})
    return Trace(
        trace_id="4111111111111111",
        otel_trace_id="4111111111111111" * 2,
        query=SECRET,
        standalone_query=SECRET,
        history=(Turn(role="user", text=SECRET),),
        retrievals=(Retrieval(query=SECRET, passages=(passage,)),),
        contexts=(passage,),
        response=SECRET,
        reference=(SECRET,),
        sub_questions=(SECRET,),
        ratings={SECRET: {"p": 3.0}},
        status="error",
        error=SECRET,
        inner_errors=(SECRET,),
        tags=(SECRET,),
        metadata={"mail": SECRET},
        started_at=1.0,
    )


def test_every_text_is_redacted_and_no_id():
    """As many as there were; the numbers of a trace id are no card."""
    found = redact_trace(full(), lambda text: text.replace(SECRET, "[x]"))
    line = found.model_dump_json()
    assert (0, full().model_dump_json().count(SECRET)) == (line.count(SECRET), line.count("[x]"))
    assert (full().trace_id, full().otel_trace_id, "p") == (found.trace_id, found.otel_trace_id, found.contexts[0].id)


def test_what_is_absent_stays_absent():
    """None is no text."""
    trace = Trace(trace_id="t", started_at=1.0)
    assert trace == redact_trace(trace, lambda text: "[x]")


def test_values_keep_their_shapes():
    """Numbers, truth values and None go through."""
    assert {"[x]": [1, None, True, "[x]"]} == redact_json({"a": (1, None, True, "b")}, lambda text: "[x]")
