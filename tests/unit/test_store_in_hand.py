"""What a process delivers without parsing it again is what any other process reads."""

from __future__ import annotations

import json
from collections import OrderedDict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from builders import make_trace
from completions import complete
from ragstone.schema import Captured, Evidence, Failure, NotApplicable, Passage, Retrieval, Score, Trace, Usage
from ragstone.store import PlannedMetric, SqliteStore
from ragstone.store._bodies import _DICTIONARY


def stored(path: Path, score: Score) -> Score:
    """Store an outcome, and read it for a sink."""
    with SqliteStore.open(path, mode="own") as store:
        store.plan.set([PlannedMetric(name=score.metric, version="1")], ["jsonl"])
        store.traces.ingest("a", 1, [Captured(trace=make_trace(trace_id=score.sample_id))])
        complete(store, score.sample_id, [score])
        [delivery] = store.deliveries.due("jsonl", limit=9)
    assert isinstance(delivery.outcome, Score)
    return delivery.outcome


def score_with(**fields: Any) -> Score:
    """A score with free fields."""
    return Score(sample_id="t", metric="m", metric_version="1", value=0.5, method="exact", **fields)


@pytest.mark.parametrize(
    ("fields", "is_in_hand"),
    [
        ({"details": {"claims": [{"claim": "It is red.", "supported": True}], "n": 2, "share": 0.5}}, True),
        ({"extra": {"a": [None]}}, True),
        ({"details": {"at": datetime(2026, 1, 2, tzinfo=UTC)}}, False),
        ({"details": {"pair": (1, 2)}}, False),
        ({"details": {"ordered": [OrderedDict(a={3})]}}, False),
        ({"details": {"by": {1: "one"}}}, False),
        ({"details": {"worst": float("inf")}}, False),
        ({"extra": (1, 2)}, False),
        ({"explanation": "long " * 5000}, False),
    ],
)
def test_a_delivered_outcome_is_as_it_is_stored(tmp_path: Path, fields: dict[str, Any], is_in_hand: bool) -> None:
    """The same object only if its free fields are read as they are written."""
    score = score_with(**fields)
    delivered = stored(tmp_path / "s.db", score)
    assert json.loads(score.model_dump_json()) == json.loads(json.dumps(delivered.model_dump()))
    assert (delivered is score) == is_in_hand


def test_the_oldest_outcomes_are_forgotten(tmp_path: Path) -> None:
    """Memory does not grow with what a worker has scored. What is not in hand is parsed."""
    path = tmp_path / "s.db"
    with SqliteStore.open(path, mode="own") as store:
        store.plan.set([PlannedMetric(name="m", version="1")], ["jsonl"])
        # Other tests of this process may have stored scores with the same JSON without this text.
        score = score_with(explanation="Only here.")
        scores = [score.model_copy(update={"sample_id": f"t{n}"}) for n in range(2100)]
        store.traces.ingest("a", 1, [Captured(trace=make_trace(trace_id=score.sample_id)) for score in scores])
        for score in scores:
            complete(store, score.sample_id, [score])
        delivered = [delivery.outcome for delivery in store.deliveries.due("jsonl", limit=9999)]
    assert delivered == scores
    assert (delivered[0] is scores[0], delivered[-1] is scores[-1]) == (False, True)


@pytest.mark.parametrize(
    "record",
    [Trace, Passage, Retrieval, Evidence, Score, NotApplicable, Failure, Usage],
    ids=lambda record: record.__name__,
)
def test_the_dictionary_of_compressed_records_has_each_field(record):
    """A name that is not in the dictionary costs its length in each stored row."""
    assert [] == [name for name in record.model_fields if f'"{name}":'.encode() not in _DICTIONARY]
