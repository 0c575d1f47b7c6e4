"""Outlines of traces say the same about a request as the whole trace."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from ragstone.errors import StoreCorruptError
from ragstone.experiments import build_report
from ragstone.schema import Captured, Evidence, Passage, Retrieval, Score, Trace, TraceOutline, sample_from_trace
from ragstone.scoring import Signals, note_outline, note_sample
from ragstone.store import Completion, PlannedMetric, SqliteStore

PASSAGES = (Passage(text="It is red.", id="a", relevance=1.0), Passage(text="Bread is baked.", id="b", relevance=0.0))
UNLABELED = (Passage(text="It is red.", id="a"), Passage(text="Bread is baked."))
FOUND = (Retrieval(passages=UNLABELED), Retrieval(passages=PASSAGES))


def trace(**fields: Any) -> Trace:
    """A request."""
    return Trace(**{"trace_id": "t", "started_at": 17.0, "query": "Which color?", "response": "It is red."} | fields)


TRACES = [
    trace(),
    trace(contexts=PASSAGES),
    trace(contexts=PASSAGES[1:]),
    trace(contexts=UNLABELED),
    trace(contexts=()),
    trace(retrievals=FOUND[1:]),
    trace(retrievals=FOUND),
    trace(retrievals=FOUND[1:], evidence=Evidence(contexts="unknown")),
    trace(retrievals=FOUND[1:], evidence=Evidence(contexts="in_prompt")),
    trace(contexts=UNLABELED, qrels={"a": 1.0}),
    trace(contexts=UNLABELED, qrels={"c": 1.0}),
    trace(contexts=(), qrels={"c": 1.0}),
    trace(reference=("Red.", " "), response=None),
    trace(reference=("word " * 100,), response="word " * 100),
]


@pytest.mark.parametrize("whole", TRACES)
def test_an_outline_has_the_signals_of_its_trace(whole: Trace) -> None:
    """Reference, abstention, and the labels of the passages in the prompt."""
    outline = TraceOutline.model_validate_json(whole.model_dump_json().encode())
    expected, found = Signals(), Signals()
    note_sample(expected, sample_from_trace(whole))
    note_outline(found, outline)
    assert found == expected
    own = TraceOutline.model_fields.keys() - {"retrievals", "contexts", "evidence"}
    assert own <= Trace.model_fields.keys()
    assert {name: getattr(outline, name) for name in own} == {name: getattr(whole, name) for name in own}


def test_an_invalid_field_is_refused() -> None:
    """The fields of an outline are validated as those of a trace."""
    record = json.loads(trace(contexts=PASSAGES).model_dump_json())
    record["contexts"][0]["relevance"] = "high"
    with pytest.raises(ValidationError, match="relevance"):
        TraceOutline.model_validate_json(json.dumps(record).encode())


def test_a_report_checks_the_traces_that_it_does_not_show(tmp_path: Path) -> None:
    """A changed trace body is found by its checksum, although only its outline is read."""
    path = tmp_path / "s.db"
    with SqliteStore.open(path, mode="own") as store:
        store.plan.set([PlannedMetric(name="m", version="1", judge_hash="")], [])
        ids = [f"t{n}" for n in range(9)]
        store.traces.ingest("s", 1, [Captured(trace=trace(trace_id=id_)) for id_ in ids])
        score = Score(sample_id="t", metric="m", metric_version="1", value=1.0, method="exact")
        store.outcomes.complete_many(
            [Completion(trace_id=id_, outcomes=[score.model_copy(update={"sample_id": id_})]) for id_ in ids]
        )
    assert build_report(path).n_samples == len(ids)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE trace_bodies SET body = substr(body, 1, length(body) - 9) || x'00' WHERE seq = 9")
    with pytest.raises(StoreCorruptError, match=r"trace_bodies 't8' is damaged.*store verify"):
        build_report(path, n_worst=0)
