"""The records: their version, their unknown fields, their JSON Schema, their projection."""

from __future__ import annotations

import math
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ragstone.schema import (
    Failure,
    Interval,
    LedgerRow,
    NotApplicable,
    Passage,
    Retrieval,
    Score,
    Trace,
    Usage,
    committed_json_schema,
    json_schema,
    outcome_adapter,
    sample_from_trace,
)


def score(**changes: object) -> Score:
    """A score with sensible defaults."""
    values: dict[str, object] = {
        "sample_id": "t1",
        "metric": "ccrs.qr",
        "metric_version": "1-ab",
        "judge_hash": "j",
        "value": 0.5,
        "method": "single_reply",
    }
    return Score.model_validate(values | changes)


def test_the_committed_json_schema_is_the_models_schema() -> None:
    """A changed model without a new committed schema fails here."""
    assert json_schema() == committed_json_schema()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_score_is_finite(value: float) -> None:
    """No NaN can be stored as a score, by any road."""
    with pytest.raises(ValidationError):
        score(value=value)


def test_an_interval_is_ordered() -> None:
    """A lower bound above the upper one is a bug of the caller, not data."""
    with pytest.raises(ValidationError, match="low <= high"):
        Interval(low=0.6, high=0.5, method="wilson")


@pytest.mark.parametrize(
    "outcome",
    [
        score(),
        NotApplicable(sample_id="t1", metric="m", metric_version="1", reason="no reference", missing=("reference",)),
        Failure(sample_id="t1", metric="m", metric_version="1", kind="timeout", reason="no answer in 60 s", raw="5"),
    ],
    ids=["score", "not_applicable", "failure"],
)
def test_each_kind_of_outcome_survives_a_round_trip(outcome: Score | NotApplicable | Failure) -> None:
    """The kind is told from the data, not guessed from the fields."""
    assert outcome_adapter.validate_json(outcome.model_dump_json()) == outcome


def test_unknown_fields_survive_a_round_trip() -> None:
    """A record written by a later minor version loses nothing when this one rewrites it."""
    text = '{"trace_id": "t", "started_at": 1.0, "from_the_future": {"a": [1]}, "retrievals": [{"speed": 2}]}'

    trace = Trace.model_validate_json(text)

    assert {"a": [1]} == trace.model_dump()["from_the_future"]
    assert 2 == trace.model_dump()["retrievals"][0]["speed"]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), min_size=4, max_size=4))
def test_an_outcome_id_is_the_uuid_of_its_key(key: list[str]) -> None:
    """Version 5 of RFC 9562, as the standard library computes it: stored rows and annotations have these ids."""
    sample_id, metric, version, judge_hash = key
    made = score(sample_id=sample_id, metric=metric, metric_version=version, judge_hash=judge_hash)
    namespace = uuid.UUID("5f2e0a4c-7c41-5d0b-9a64-0d1c8f6b7e21")
    assert made.id == str(uuid.uuid5(namespace, "\x1f".join(key)))


def test_outcome_ids_are_a_function_of_the_key() -> None:
    """The same measurement has one id for ever; another judge, version or sample has another."""
    assert score().id == score(value=0.9).id
    others = {score(**{f: "x"}).id for f in ("sample_id", "metric", "metric_version", "judge_hash")}
    assert 5 == len(others | {score().id})


def test_contexts_are_the_union_of_the_searches_unless_they_are_given() -> None:
    """Unknown retrieval, empty retrieval and a re-ranked list are three different things."""
    a, b = Passage(text="a"), Passage(text="b")
    unknown = Trace(trace_id="t", started_at=0)
    empty = Trace(trace_id="t", started_at=0, retrievals=(Retrieval(query="q"),))
    both = Trace(trace_id="t", started_at=0, retrievals=(Retrieval(passages=(a,)), Retrieval(passages=(b,))))
    reranked = both.model_copy(update={"contexts": (b,)})

    assert (None, (), (a, b), (b,)) == tuple(sample_from_trace(t).contexts for t in (unknown, empty, both, reranked))


def test_usage_adds_up_and_keeps_unknown_costs_unknown() -> None:
    """Nothing known about money stays None; it does not become 0."""
    total = Usage(input_tokens=3, calls=1) + Usage(output_tokens=2, calls=1)

    assert (3, 2, 2, None) == (total.input_tokens, total.output_tokens, total.calls, total.cost_usd)
    assert 0.5 == (total + Usage(cost_usd=0.5)).cost_usd


def test_a_ledger_row_knows_whether_it_adds_up() -> None:
    """`captured` is counted apart from the other columns, so a loss shows."""
    assert LedgerRow(captured=3, scored=1, dropped=1, pending=1).balanced
    assert not LedgerRow(captured=3, scored=1).balanced
