"""Traces that others captured are redacted as our own are."""

from __future__ import annotations

import pytest

from ragstone.capture import RedactionError, redact_json, redact_secrets, redact_trace
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
        retrievals=(Retrieval(query=SECRET, passages=(passage,), stages=(Retrieval(query=SECRET),)),),
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


def test_secrets_as_keys_keep_their_values():
    """Two keys that become the same placeholder keep both values, in metadata and in ratings."""
    keys = {"ada@example.org": {"p": 1.0}, "bob@example.org": {"p": 2.0}}
    found = redact_trace(full().model_copy(update={"metadata": keys, "ratings": keys}), redact_secrets)
    expected = {"[email]": {"p": 1.0}, "[email] #2": {"p": 2.0}}
    assert (expected, expected) == (found.metadata, found.ratings)


def test_ratings_stay_with_their_sub_question():
    """Sub-questions that become the same text are told apart as their ratings are."""
    ratings = {"Who is ada@example.org?": {"p": 5.0}, "Who is bob@example.org?": {"p": 0.0}}
    update = {"sub_questions": (*reversed(ratings), "When?"), "ratings": ratings}
    found = redact_trace(full().model_copy(update=update), redact_secrets)
    assert [0.0, 5.0] == [found.ratings[question]["p"] for question in found.sub_questions[:2]]
    assert "When?" == found.sub_questions[2]


def test_card_numbers_and_credentials_in_metadata_are_redacted():
    """A card number may be a number, and the name of a header is the key of its value."""
    headers = {"Authorization": "Basic YWRhOnNlY3JldA==", "x.authorization": ["Token 0123456789abcdef"]}
    value = {"card": 4111111111111111, "n": 4111111111111112, "headers": headers}
    redacted = {"Authorization": "Basic [token]", "x.authorization": ["Token [token]"]}
    assert {"card": "[card]", "n": 4111111111111112, "headers": redacted} == redact_json(value, redact_secrets)


@pytest.mark.parametrize("fails", [lambda text: None, lambda text: text.encode(), lambda text: 1 / 0])
def test_nothing_passes_a_function_that_fails(fails):
    """A function that raises an error, or returns no text, is an error without the text."""
    with pytest.raises(RedactionError, match=r"^the redactor (raised ZeroDivisionError|must return text, got \w+)$"):
        redact_trace(full(), fails)


def test_names_of_retrievers_and_models_are_redacted():
    """By the default rules, as the name of the request."""
    retrievals = (Retrieval(name=f"search of {SECRET}"),)
    trace = full().model_copy(update={"retrievals": retrievals, "model": f"model of {SECRET}"})
    found = redact_trace(trace, lambda text: text)
    assert ("search of [email]", "model of [email]") == (found.retrievals[0].name, found.model)


def test_what_is_absent_stays_absent():
    """None is no text."""
    trace = Trace(trace_id="t", started_at=1.0)
    assert trace == redact_trace(trace, lambda text: "[x]")


def test_values_keep_their_shapes():
    """Numbers, truth values and None go through."""
    assert {"[x]": [1, None, True, "[x]"]} == redact_json({"a": (1, None, True, "b")}, lambda text: "[x]")
