"""Large experiments: samples and outcomes in temporary files, with the results of experiments in memory."""

from __future__ import annotations

import asyncio
import copy
import gc
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ragstone import compare, evaluate
from ragstone._util.id_table import IdTable
from ragstone.errors import DataError, StoreError
from ragstone.experiments import Experiment, _spill
from ragstone.experiments._spill import OutcomesOnDisk, SamplesOnDisk
from ragstone.metrics import MetricBase
from ragstone.reading import read_samples
from ragstone.schema import Failure, NotApplicable, Sample, Score
from ragstone.sinks import JsonlSink

METRICS = ["token_f1", "ccrs.cc", "ccrs.qr"]


def rows(n: int = 60, *, sessions: bool = False) -> list[dict[str, Any]]:
    """Rows of which some lack a reference, with sessions of three rows."""
    made: list[dict[str, Any]] = []
    for i in range(n):
        row: dict[str, Any] = {
            "id": f"row {i}",
            "query": f"How far is station {i}?",
            "contexts": [f"Station {i} is {i % 7} km away.", "The line is old."],
            "response": f"It is {i % 5} km away.",
            "topic": ["fares", "lines"][i % 2],
        }
        if i % 4:
            row["reference"] = f"{i % 7} km"
        if sessions:
            row |= {"session_id": f"s{i // 3}", "inclusion_probability": [0.5, 1.0][i % 2]}
        made.append(row)
    return made


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Files for experiments of ten samples and more."""
    monkeypatch.setattr(_spill, "MAX_ROWS_IN_MEMORY", 10)
    yield
    gc.collect()


def without_times(experiment: Experiment) -> Experiment:
    """The experiment as it would be with outcomes that take no time."""
    outcomes = tuple(o.model_copy(update={"created_at": 0.0, "duration_s": 0.0}) for o in experiment.outcomes)
    return replace(experiment, samples=tuple(experiment.samples), outcomes=outcomes, wall_s=0.0)


@pytest.mark.parametrize("sessions", [False, True])
def test_an_experiment_in_files_gives_the_same_results(
    sessions: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outcomes, summaries, notes, views, comparisons and files do not depend on where the outcomes are."""
    data = rows(sessions=sessions)
    small = evaluate(data, METRICS, judge="lexical")
    other = evaluate(rows(sessions=sessions)[5:], METRICS, judge="lexical")
    monkeypatch.setattr(_spill, "MAX_ROWS_IN_MEMORY", 10)
    large = evaluate(iter(data), METRICS, judge="lexical")
    assert isinstance(small.outcomes, tuple)
    assert isinstance(large.samples, SamplesOnDisk)
    assert isinstance(large.outcomes, OutcomesOnDisk)
    assert without_times(large) == without_times(small)
    assert small.samples == large.samples
    assert large.samples == small.samples
    # Without the times of outcomes, which no summary contains.
    assert large.summary() == small.summary()
    assert large.notes() == small.notes()
    assert str(large) == str(small)
    assert {**large.to_dict(), "wall_s": 0} == {**small.to_dict(), "wall_s": 0}
    assert [a.id for a in large.worst(7)] == [a.id for a in small.worst(7)]
    assert [a.id for a in large.worst(3, where="topic=fares")] == [a.id for a in small.worst(3, where="topic=fares")]
    assert large.report().verdict == small.report().verdict
    assert large.report().causes == small.report().causes
    assert compare([large, other]).to_dict() == compare([small, other]).to_dict()
    fixed_small, fixed_large = without_times(small), without_times(large)
    fixed_small.to_jsonl(tmp_path / "small.jsonl")
    fixed_large.to_jsonl(tmp_path / "large.jsonl")
    assert (tmp_path / "large.jsonl").read_text() == (tmp_path / "small.jsonl").read_text()
    pd.testing.assert_frame_equal(large.to_pandas(), small.to_pandas())


@pytest.mark.usefixtures("on_disk")
def test_sequences_in_files_behave_like_tuples() -> None:
    """Indexes, slices, membership, equality, copies and texts."""
    large = evaluate(rows(20), METRICS, judge="lexical")
    outcomes, copied = large.outcomes, tuple(large.outcomes)
    assert (len(outcomes), len(large.samples)) == (60, 20)
    assert outcomes[-1] == copied[-1]
    assert outcomes[4:9:2] == copied[4:9:2]
    assert [o.sample_id for o in outcomes[:4]] == ["row 0", "row 0", "row 0", "row 1"]
    assert copied[7] in outcomes
    assert large.samples[3].id == "row 3"
    assert large.samples != copied
    assert outcomes != list(copied)
    with pytest.raises(IndexError, match="60 is outside of 60 outcomes"):
        outcomes[60]
    again = copy.deepcopy(large)
    assert again == large
    assert isinstance(again.samples, tuple)
    assert repr(large.samples) == "<20 samples in a temporary file>"


def test_rows_below_the_limit_stay_in_memory() -> None:
    """Small experiments have tuples."""
    small = evaluate(rows(9), ["token_f1"])
    assert isinstance(small.samples, tuple)
    assert isinstance(small.outcomes, tuple)
    small.close()
    assert len(small.outcomes) == 9


def test_a_few_large_rows_are_in_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts count, not only the number of rows."""
    monkeypatch.setattr(_spill, "_MAX_BYTES_IN_MEMORY", 100_000)
    row = {"query": "Why?", "contexts": ["Rain. " * 1000] * 20, "response": "Rain."}
    large = evaluate([{**row, "id": "1"}, {**row, "id": "2"}], ["ccrs.cc"], judge="lexical")
    assert isinstance(large.samples, SamplesOnDisk)
    assert large.summary()[0].n_scored == 2


@pytest.mark.usefixtures("on_disk")
def test_files_are_private_and_end_with_the_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files have no name while they are used, and their space is free after `close` and after the last reference."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    large = evaluate(rows(20), METRICS, judge="lexical")
    assert isinstance(large.samples, SamplesOnDisk)
    assert list(tmp_path.iterdir()) == []
    file = large.samples._file._file
    assert os.fstat(file.fileno()).st_mode & 0o077 == 0
    large.close()
    large.close()
    assert file.closed
    with pytest.raises(StoreError, match="this experiment is closed"):
        large.samples[0]
    assert large.summary()[0].n_scored == 15
    second = evaluate(rows(20), METRICS, judge="lexical")
    assert isinstance(second.outcomes, OutcomesOnDisk)
    file = second.outcomes._file._file
    del second
    gc.collect()
    assert file.closed


@pytest.mark.usefixtures("on_disk")
def test_sinks_receive_every_outcome_of_a_large_experiment(tmp_path: Path) -> None:
    """Outcomes are sent in order, and the last of each sample has the cause."""
    large = evaluate(rows(30), METRICS, judge="lexical", sinks=[JsonlSink(tmp_path / "out.jsonl")])
    assert large.sink_errors == ()
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 90


class Fickle(MetricBase):
    """A metric that scores, fails with bounds, and does not apply, in turn."""

    name = "fickle"
    title = "Fickle"
    description = "Changes its kind of outcome."
    needs = frozenset({"query"})

    async def compute(self, sample: Sample, judge: object, reader: object = None) -> Any:
        """Return an outcome by the last digit of the id."""
        number = int(sample.id.split()[-1])
        await asyncio.sleep((7 - number % 7) / 1000)  # finish in another order
        if number % 5 == 0:
            return Failure(
                sample_id=sample.id, metric=self.name, metric_version="1", kind="refused", reason="no",
                details={"bounds": [0.25, 0.5]},
            )  # fmt: skip
        if number % 5 == 1:
            return NotApplicable(
                sample_id=sample.id, metric=self.name, metric_version="1", reason=f"reason {number % 2}"
            )
        return Score(sample_id=sample.id, metric=self.name, metric_version="1", value=number / 100, method="exact")


def test_counts_of_failures_and_reasons_do_not_depend_on_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Summaries have equal bounds, kinds and reasons, although outcomes finish in any order."""
    small = evaluate(rows(), [Fickle()])
    monkeypatch.setattr(_spill, "MAX_ROWS_IN_MEMORY", 10)
    large = evaluate(rows(), [Fickle()])
    assert small.summary()[0].n_failed == 12
    assert small.summary()[0].reasons == {"reason 1": 6, "reason 0": 6}
    assert large.summary() == small.summary()
    assert [o.outcome for o in large.outcomes] == [o.outcome for o in small.outcomes]


@pytest.mark.usefixtures("on_disk")
def test_a_full_disk_is_an_error_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the directory and TMPDIR."""

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(StoreError, match=r"No space left on device.*TMPDIR"):
        evaluate(rows(20), ["token_f1"])


def test_ids_of_large_data_are_unique(tmp_path: Path) -> None:
    """An id that occurs twice is an invalid row, with the number of the first row."""
    data = [{"query": "q", "id": f"é{i % 5000}"} for i in range(5001)]
    with pytest.raises(DataError, match=r"row 5001 has the id 'é0' of row 1\. Ids must be unique"):
        read_samples(data)
    samples, rejected = read_samples(
        [{"query": "q", "id": "a"}, {"query": 1.5j}, {"id": "a", "query": "q"}], on_bad_row="skip"
    )
    assert [s.id for s in samples] == ["a"]
    assert [r.position for r in rejected] == [2, 3]


def test_the_table_of_ids_equals_a_dict() -> None:
    """Ids keep their index and number while the table grows."""
    table, known = IdTable(), {}
    for i in range(0, 20_000, 3):
        table.add(f"id {i}", i)
        known[f"id {i}"] = i
    table.add("\ud800", 7)
    assert len(table) == len(known) + 1
    assert all(table.add(id_, 1) == i for id_, i in known.items())
    assert len(table) == len(known) + 1
    assert table.find("id 3") == 1
    assert table.find("\ud800") == len(known)
    assert "id 3" in table
    assert "id 4" not in table
    assert 3 not in table


def test_a_data_frame_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows of a frame arrive, in order."""
    monkeypatch.setattr("ragstone.reading._row_lists._FRAME_ROWS", 7)
    samples, _ = read_samples(pd.DataFrame(rows(20)))
    assert [s.id for s in samples] == [f"row {i}" for i in range(20)]


@pytest.mark.usefixtures("on_disk")
def test_an_outcome_that_was_replaced_is_read() -> None:
    """Also if its sample was the last one that was read, and the others of the sample stay."""
    outcomes = evaluate(rows(20), METRICS, judge="lexical").outcomes
    before = outcomes[3:6]
    changed = before[1].model_copy(update={"explanation": "So."})
    found = _spill.replace_outcomes(outcomes, {4: changed})
    assert (before[0], changed, before[2]) == found[3:6]
