"""What an actor of Ray does with a block of rows, without Ray."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ragstone.errors import ConfigurationError, DataError, JudgeUnavailableError
from ragstone.judges import Budget
from ragstone.ray._block import BlockScorer, _contains, _digest, read_done
from ragstone.ray._score import _check_arguments, _count_actors
from ragstone.schema import Failure, Trace
from ragstone.worker import ScorerSpec

SPEC = ScorerSpec(["ccrs.qr", "token_f1"], judge="lexical")


@pytest.fixture
def output(tmp_path: Path) -> str:
    return str(tmp_path / "scores")


def table(n: int, *, first: int = 0, **fields: object) -> pa.Table:
    """Rows of requests."""
    rows = [
        {"id": f"t{i}", "query": f"question {i}", "response": f"answer {i}"} | fields for i in range(first, first + n)
    ]
    return pa.Table.from_pylist(rows)


def score(block: pa.Table, output: str, *, spec: ScorerSpec = SPEC, redact=None) -> dict[str, int]:
    """Score a block as a new actor does."""
    scorer = BlockScorer(pickle.loads(pickle.dumps(spec)), output, read_done(output), redact)  # noqa: S301
    try:
        return scorer(block).to_pylist()[0]
    finally:
        scorer.close()


def rows_of(output: str) -> list[dict[str, object]]:
    return pq.read_table(output).to_pylist()


def test_a_block_is_one_file_of_all_outcomes(output):
    """With the request in its first row."""
    assert score(table(50), output) == {"n_scored": 50, "n_known": 0, "n_rejected": 0}
    (path,) = Path(output).iterdir()
    rows = rows_of(output)

    assert path.name.startswith("part-")
    assert len({row["outcome_id"] for row in rows}) == len(rows) == 100
    assert sum(row["trace_json"] is not None for row in rows) == 50


def test_what_the_output_has_is_not_scored_again(output):
    """By the id of the request, also if the blocks are divided in another way."""
    score(table(30), output)
    before = {path.name: path.read_bytes() for path in Path(output).iterdir()}

    assert score(table(30), output) == {"n_scored": 0, "n_known": 30, "n_rejected": 0}
    assert score(table(50, first=20), output) == {"n_scored": 40, "n_known": 10, "n_rejected": 0}
    assert {name: (Path(output) / name).read_bytes() for name in before} == before
    ids = [row["outcome_id"] for row in rows_of(output)]
    assert len(set(ids)) == len(ids) == 140


def test_a_repeated_block_finds_its_file(output):
    """An actor that is killed between writing a file and reporting it leaves each outcome once."""
    none = read_done(output)
    for _ in range(2):
        scorer = BlockScorer(SPEC, output, none, None)
        assert scorer(table(10)).to_pylist() == [{"n_scored": 10, "n_known": 0, "n_rejected": 0}]
        scorer.close()

    assert len(list(Path(output).iterdir())) == 1
    assert len(rows_of(output)) == 20


def test_a_block_that_is_killed_leaves_no_part(output, monkeypatch):
    """A draft is not read, and the next run scores the block."""
    scorer = BlockScorer(SPEC, output, read_done(output), None)

    def write_some(_table: object, path: str, **_: object) -> None:
        Path(path).write_bytes(b"PAR1")
        raise KeyboardInterrupt

    monkeypatch.setattr(pq, "write_table", write_some)
    with pytest.raises(KeyboardInterrupt):
        scorer(table(10))
    scorer.close()
    assert [path.name[0] for path in Path(output).iterdir()] == ["."]
    monkeypatch.undo()

    assert score(table(10), output)["n_scored"] == 10
    assert len(rows_of(output)) == 20


def test_rows_of_all_kinds_are_read(output):
    """Whole records, rows without an id, twice the same id, requests that ended in an error, and rows that are nothing."""
    record = Trace(trace_id="whole", started_at=5.0, query="q", response="r", app="shop")
    failed = Trace(trace_id="failed", started_at=5.0, query="q", status="error", error="x")
    block = pa.Table.from_pylist(
        [
            {"trace_json": record.model_dump_json(), "id": None, "query": None, "response": None},
            {"trace_json": failed.model_dump_json(), "id": None, "query": None, "response": None},
            {"trace_json": "{", "id": None, "query": None, "response": None},
            {"trace_json": None, "id": None, "query": "q", "response": "r"},
            {"trace_json": None, "id": "same", "query": "q", "response": "r"},
            {"trace_json": None, "id": "same", "query": "q", "response": "r"},
            {"trace_json": None, "id": None, "query": None, "response": None},
        ]
    )
    counts = score(block, output)

    # The row without any field is a request without texts.
    assert counts == {"n_scored": 5, "n_known": 0, "n_rejected": 1}
    found = {row["trace_id"]: row for row in rows_of(output) if row["metric"] == "ccrs.qr"}
    assert {"whole", "failed", "same"} < set(found)
    assert found["failed"]["outcome"] == "not_applicable"
    assert Trace.model_validate_json(found["whole"]["trace_json"]) == record


def test_texts_are_redacted_before_they_are_scored_and_written(output):
    """Also in the requests, and a text that cannot be redacted is not written."""

    def redact(text: str) -> str:
        if "poison" in text:
            raise ValueError(text)
        return text.replace("secret", "[gone]")

    block = pa.Table.from_pylist([{"id": n, "query": n, "response": f"{n} r"} for n in ("secret 1", "poison")])
    assert score(block, output, redact=redact) == {"n_scored": 1, "n_known": 0, "n_rejected": 1}
    (text,) = {row["trace_json"] for row in rows_of(output)} - {None}
    assert '"query":"[gone] 1"' in text
    assert "poison" not in str(rows_of(output))


def test_a_judge_that_is_away_writes_nothing(output, monkeypatch):
    """So the next run scores the block."""
    scorer = BlockScorer(SPEC, output, read_done(output), None)

    async def away(samples):
        for sample in samples:
            yield (
                sample,
                (Failure(sample_id=sample.id, metric="m", metric_version="1", kind="unavailable", reason="no"),),
            )

    monkeypatch.setattr(scorer._setup.scorer, "score_many", away)
    with pytest.raises(JudgeUnavailableError, match="the same call scores the rest"):
        scorer(table(3))
    scorer.close()
    assert list(Path(output).iterdir()) == []


def test_a_judge_at_a_wrong_address_is_an_error_before_the_first_block(output):
    """In the constructor of the actor."""
    with pytest.raises(JudgeUnavailableError):
        BlockScorer(ScorerSpec("ccrs.qr", judge="http://127.0.0.1:9/v1"), output, read_done(output), None)


def test_a_damaged_output_is_refused(output):
    """It would be scored twice, or not at all."""
    score(table(3), output)
    (path,) = Path(output).iterdir()
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(DataError, match="Move it away"):
        read_done(output)
    with pytest.raises(DataError, match="cannot be written"):
        read_done(str(path))


def test_an_id_is_found_by_its_digest():
    """Among none and among many, whatever its bytes are."""
    assert not _contains(np.array([], dtype="S16"), _digest("a"))
    done = np.unique(np.array([_digest(f"t{i}") for i in range(1000)], dtype="S16"))
    assert all(_contains(done, _digest(f"t{i}")) for i in range(1000))
    assert not any(_contains(done, _digest(f"u{i}")) for i in range(1000))
    assert len(_digest("\ud800")) == 16


@pytest.mark.parametrize(
    "arguments",
    [
        {"spec": "ccrs"},
        {"spec": ScorerSpec("ccrs.qr", judge="lexical", budget=Budget(calls=1))},
        {"actors": 0}, {"actors": True}, {"actors": 1.5}, {"rows_per_block": 0}, {"cpus_per_actor": 0}, {"gpus_per_actor": -1},
    ],
)  # fmt: skip
def test_invalid_arguments_are_refused(arguments):
    """Before work begins."""
    given = {"spec": SPEC, "actors": 2, "cpus_per_actor": 0.5, "gpus_per_actor": 0.0, "rows_per_block": 50} | arguments
    with pytest.raises(ConfigurationError):
        _check_arguments(
            *(given[name] for name in ("spec", "actors", "cpus_per_actor", "gpus_per_actor", "rows_per_block"))
        )


def test_one_cpu_is_left_for_reading():
    """Actors that take all CPUs would wait for rows that nothing reads."""
    assert [_count_actors(n, None, 0.5) for n in (2, 3, 16)] == [2, 4, 30]
    assert _count_actors(16, 4, 0.5) == 4
    for cpus, actors in ((1, None), (2, 3), (0, None)):
        with pytest.raises(ConfigurationError, match="do not fit"):
            _count_actors(cpus, actors, 0.5)
