"""From a draft, as found, to the trace that is stored."""

from __future__ import annotations

import datetime as dt
import enum
import math
import pathlib
import sys
import uuid
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ragstone.capture import RedactionError, capture_suppressed, redact_secrets
from ragstone.capture._convert import Converter, is_sampled
from ragstone.requests import PassageDraft, RetrievalDraft, TraceDraft
from ragstone.schema import Evidence, Trace, spool_entry_adapter
from ragstone.settings import Lengths

SECRET = "ada@example.org"


def entry(draft: TraceDraft, *, redact=None, sample_rate=1.0, **limits: int):
    """What a reader of the spool gets for a draft."""
    converter = Converter(sample_rate=sample_rate, redact=redact, lengths=Lengths(**limits))
    return spool_entry_adapter.validate_json(converter.line(draft)[1])


def trace(draft: TraceDraft, **options) -> Trace:
    """The stored trace of a draft."""
    return entry(draft, **options).trace


def full_draft(text: str) -> TraceDraft:
    """A draft with this text everywhere where text goes."""
    passage = PassageDraft(text=text, id="p", score=0.5, metadata={"title": text, text: 1})
    return TraceDraft(
        trace_id="t",
        name="n",
        run_id="r",
        session_id="s",
        user_id="u",
        app="qa-bot",
        release="2.4",
        environment="test",
        query=text,
        standalone_query=text,
        retrievals=[
            RetrievalDraft(
                query=text,
                passages=[passage],
                name="retriever",
                stages=[RetrievalDraft(query=text, passages=[passage], name="inner")],
            )
        ],
        contexts=[replace(passage, id="c")],
        response=text,
        reference=[text],
        status="error",
        error=text,
        inner_errors=[text],
        started_at=1.0,
        ended_at=2.0,
        first_token_s=0.25,
        model="m",
        input_tokens=3,
        output_tokens=4,
        tags=[text],
        metadata={"deep": [{"er": (text, {text})}]},
        evidence=Evidence(query="input", contexts="in_prompt", response="output", doubts=("short_passage",)),
    )


def test_every_field_arrives():
    """Nothing of a draft is forgotten or mixed up."""
    found = trace(full_draft("text"))
    passage = {
        "text": "text",
        "id": "p",
        "score": 0.5,
        "rank": 0,
        "relevance": None,
        "metadata": {"title": "text", "text": 1},
    }
    expected = {
        "schema_version": 1,
        "trace_id": "t",
        "name": "n",
        "source": "record",
        "run_id": "r",
        "parent_run_id": None,
        "otel_trace_id": None,
        "otel_span_id": None,
        "response_id": None,
        "otel_sampled": None,
        "session_id": "s",
        "user_id": "u",
        "app": "qa-bot",
        "release": "2.4",
        "environment": "test",
        "query": "text",
        "standalone_query": "text",
        "history": [],
        "retrievals": [
            {
                "query": "text",
                "passages": [passage],
                "name": "retriever",
                "stages": [{"query": "text", "passages": [passage], "name": "inner", "stages": []}],
            }
        ],
        "contexts": [passage | {"id": "c"}],
        "response": "text",
        "reference": ["text"],
        "sub_questions": [],
        "qrels": None,
        "ratings": None,
        "status": "error",
        "error": "text",
        "inner_errors": ["text"],
        "started_at": 1.0,
        "ended_at": 2.0,
        "first_token_s": 0.25,
        "model": "m",
        "usage": {
            "input_tokens": 3,
            "output_tokens": 4,
            "calls": 0,
            "cached": 0,
            "cost_usd": None,
            "priced_calls": 0,
            "counted_calls": 0,
        },
        "tags": ["text"],
        "metadata": {"deep": [{"er": ["text", ["text"]]}]},
        "inclusion_probability": 1.0,
        "truncated_fields": [],
        "evidence": {
            "query": "input",
            "contexts": "in_prompt",
            "response": "output",
            "doubts": ["short_passage"],
            "declared_tools": {},
        },
    }
    assert expected == found.model_dump(mode="json")


def test_every_text_is_redacted():
    """Wherever a secret stands, also as a key of nested metadata, the line does not have it."""
    converter = Converter(sample_rate=1.0, redact=lambda text: text.replace(SECRET, "[x]"), lengths=Lengths())
    line = converter.line(full_draft(f"mail {SECRET}"))[1].decode()
    assert SECRET not in line
    # query, standalone query, queries of the retrieval and its stage, three passages with text, title and key each,
    # response, reference, error, inner error, tag, two in metadata
    assert 20 == line.count("mail [x]")


def test_ids_are_not_redacted():
    """Requests are found by them."""
    draft = TraceDraft(session_id=SECRET, user_id=SECRET, run_id=SECRET)
    found = trace(draft, redact=lambda text: "[x]")
    assert (SECRET, SECRET, SECRET) == (found.session_id, found.user_id, found.run_id)


def test_keys_that_become_equal_keep_both_items():
    """Redaction loses names, not values."""
    found = trace(TraceDraft(metadata={"a": 1, "b": 2, "c": 3}), redact=lambda text: "[x]")
    assert [1, 2, 3] == list(found.metadata.values())


def test_redaction_comes_before_cutting():
    """A secret on the edge is not half stored."""
    found = trace(TraceDraft(query=f"12345678 {SECRET}"), redact=lambda t: t.replace(SECRET, "[x]"), max_chars=14)
    assert ("12345678 [x]", ()) == (found.query, found.truncated_fields)


@pytest.mark.parametrize("redact", [lambda text: 1 / 0, lambda text: None, lambda text: sys.exit(1)])
def test_failing_redactor_fails_the_trace(redact):
    """Also one that returns no text, and one that tries to end the process."""
    with pytest.raises(RedactionError, match="redactor"):
        trace(TraceDraft(query="secret"), redact=redact)


def test_redactor_runs_suppressed():
    """What it asks a model is our own doing."""
    seen = []
    trace(TraceDraft(query="q"), redact=lambda text: seen.append(capture_suppressed()) or text)
    assert [True] == seen
    assert not capture_suppressed()


def test_long_texts_are_cut_and_named():
    """Each field once, whatever the number of passages."""
    found = trace(full_draft("x" * 50), max_chars=10)
    assert ("x" * 10, "x" * 10, "x" * 10) == (found.query, found.retrievals[0].passages[0].text, found.tags[0])
    assert {
        "query",
        "standalone_query",
        "retrievals.query",
        "retrievals.passages.text",
        "retrievals.passages.metadata",
        "contexts.text",
        "contexts.metadata",
        "response",
        "reference",
        "error",
        "inner_errors",
        "tags",
        "metadata",
    } == set(found.truncated_fields)
    assert len(found.truncated_fields) == len(set(found.truncated_fields))


def test_long_lists_are_cut_and_named():
    """Passages keep their order and rank; the first ones stay."""
    passages = [PassageDraft(text=str(n)) for n in range(5)]
    draft = TraceDraft(retrievals=[RetrievalDraft(passages=passages)] * 4, contexts=passages, tags=["a", "b", "c"])
    found = trace(draft, max_passages=3, max_items=2)
    assert ["0", "1", "2"] == [passage.text for passage in found.retrievals[1].passages]
    assert [0, 1, 2] == [passage.rank for passage in found.contexts]
    assert (2, ("a", "b")) == (len(found.retrievals), found.tags)
    assert {"retrievals", "retrievals.passages", "contexts", "tags"} == set(found.truncated_fields)


def test_large_metadata_keeps_what_fits():
    """In its order, without the items that are too large."""
    metadata = {"small": 1, "large": "x" * 16_384, "also small": [2, 3]}
    found = trace(TraceDraft(metadata=metadata))
    assert {"small": 1, "also small": [2, 3]} == found.metadata
    assert ("metadata",) == found.truncated_fields
    fits = "x" * (16_384 - len('{"a": ""}'))
    assert [1, 0] == [len(trace(TraceDraft(metadata={"a": text})).metadata) for text in (fits, fits + "x")]


class Colour(enum.Enum):
    """A value of an application."""

    RED = "red"


class Hostile:
    """An object that cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.nan, None),
        (-math.inf, None),
        (np.float32(0.5), 0.5),
        (np.int64(7), 7),
        (True, True),
        (2**80, str(2**80)),
        pytest.param(10**5_000, "<int>", id="more digits than Python prints"),
        (b"\xff", "b'\\xff'"),
        (dt.datetime(2026, 1, 2, tzinfo=dt.UTC), "2026-01-02T00:00:00+00:00"),
        (dt.date(2026, 1, 2), "2026-01-02"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (pathlib.PurePosixPath("a/b"), "a/b"),
        (Colour.RED, "red"),
        (Hostile(), "<Hostile>"),
        ((1, [2, {"k": (3,)}]), [1, [2, {"k": [3]}]]),
        ({1: "a", None: "b", (2, 3): "c"}, {"1": "a", "None": "b", "(2, 3)": "c"}),
        ("\ud800x\ud83d\ude00", "�x😀"),
    ],
)
def test_metadata_is_made_json(value, expected):
    """Whatever an application put there."""
    assert {"value": expected} == trace(TraceDraft(metadata={"value": value})).metadata


def test_description_of_an_object_is_bounded():
    """One object does not use up all the room."""
    values = {"value": memoryview(b""), "long": bytes(10_000), "words": [b"a b", b"c" * 10_000]}
    found = trace(TraceDraft(metadata=values)).metadata
    assert found["value"].startswith("<memory at")
    assert "<bytes>" == found["long"]
    assert ["b'a b'", "<bytes>"] == found["words"]


class Document:
    """An object whose secret is cut by the limit of its description."""

    def __init__(self, secret: str) -> None:
        self._secret = secret

    def __repr__(self) -> str:
        return f"{'text ' * 97} {self._secret} and more"


@pytest.mark.parametrize("secret", ["sk-0123456789abcdefghij", "4111 1111 1111 1111"])
def test_a_secret_that_a_limit_cuts_is_not_stored(secret):
    """Neither the limit of a name nor that of a description leaves the beginning of a secret."""
    name = f"{'name ' * 197} {secret}"
    found = trace(TraceDraft(name=name, metadata={"value": Document(secret)}), redact=redact_secrets)
    assert secret[:4] not in found.model_dump_json()
    assert found.metadata["value"].endswith("text…")


def test_circle_in_metadata_ends():
    """An object that holds itself is described at some depth."""
    circle: dict = {}
    circle["again"] = circle
    assert "again" in trace(TraceDraft(metadata=circle)).metadata


@pytest.mark.parametrize("score", [math.nan, math.inf, "0.5", object(), True])
def test_score_that_is_no_number_is_none(score):
    """An unknown score is not 0, and the passage stays."""
    found = trace(TraceDraft(contexts=[PassageDraft(text="p", score=score)]))
    assert ("p", None) == (found.contexts[0].text, found.contexts[0].score)


def test_scores_of_numpy_are_numbers():
    """Retrievers hand over what their index gave them."""
    assert 0.25 == trace(TraceDraft(contexts=[PassageDraft(text="p", score=np.float32(0.25))])).contexts[0].score


def test_text_that_is_no_text_is_described():
    """An integration that got it wrong costs no trace."""
    assert "{'a': 1}" == trace(TraceDraft(response={"a": 1})).response


def test_odd_token_counts_are_left_out():
    """A provider that reports -1 costs no trace."""
    assert trace(TraceDraft(input_tokens=-1)).usage is None
    assert trace(TraceDraft(input_tokens=3)).usage is None


@pytest.mark.parametrize(
    "wrong", [{"trace_id": ""}, {"status": "fine"}, {"started_at": math.nan}, {"started_at": None}]
)
def test_draft_that_is_no_trace_is_refused(wrong):
    """What makes a trace unusable is not papered over."""
    with pytest.raises(ValidationError):
        trace(TraceDraft(**wrong))


@given(st.text(st.characters(codec=None), max_size=200))
def test_any_text_survives(text):
    """What is valid Unicode comes back as it was; what is not comes back as something valid."""
    found = trace(TraceDraft(query=text, tags=[text], metadata={"k": text}))
    try:
        text.encode()
    except UnicodeEncodeError:
        found.query.encode()
    else:
        assert (text, (text,), {"k": text}) == (found.query, found.tags, found.metadata)


def test_left_out_trace_keeps_its_id_and_weight_only():
    """No text of a trace that was not kept."""
    left_out = entry(full_draft("text"), sample_rate=0.0)
    assert {
        "schema_version": 1,
        "entry": "sampled_out",
        "trace_id": "t",
        "started_at": 1.0,
        "inclusion_probability": 0.0,
    } == left_out.model_dump()


def test_kept_trace_knows_its_probability():
    """Its weight is the inverse."""
    kept = next(f"t{n}" for n in range(1_000) if is_sampled(f"t{n}", rate=0.25))
    assert 0.25 == trace(TraceDraft(trace_id=kept), sample_rate=0.25).inclusion_probability


@given(st.text(st.characters(codec=None)), st.floats(0, 1), st.floats(0, 1))
def test_sampling_is_monotone(trace_id, one, other):
    """What is kept at one rate is kept at every higher one; all at 1, none at 0."""
    low, high = sorted((one, other))
    assert is_sampled(trace_id, rate=low) <= is_sampled(trace_id, rate=high)
    assert (False, True) == (is_sampled(trace_id, rate=0.0), is_sampled(trace_id, rate=1.0))


def test_sampling_keeps_its_share_and_its_choice():
    """Of 20,000 ids within five standard errors; which ones is fixed for good, across versions and processes."""
    kept = sum(is_sampled(str(n), rate=0.1) for n in range(20_000))
    assert abs(kept - 2_000) < 5 * math.sqrt(20_000 * 0.1 * 0.9)
    assert [2, 22, 28, 34] == [n for n in range(40) if is_sampled(f"trace-{n}", rate=0.1)]
