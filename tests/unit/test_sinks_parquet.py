"""`ParquetSink`: the columns, how parts fill, and what a crash leaves behind."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import subprocess
import sys
import time

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ragstone.errors import ConfigurationError, MissingExtraError, SinkRejectedError, SinkUnavailableError
from ragstone.schema import Failure, Interval, NotApplicable, Score, Usage
from ragstone.sinks import Delivery, JsonlSink, ParquetSink, sink_from


def _score(sample_id: str = "t1", **fields) -> Score:
    known = {"sample_id": sample_id, "metric": "m", "metric_version": "1", "value": 0.5, "method": "x"}
    return Score(**(known | fields))


_FULL = _score(
    judge="lexical baseline",
    judge_hash="j",
    prompt_hash="p",
    interval=Interval(low=0.4, high=0.6, method="bootstrap"),
    n=3,
    usage=Usage(input_tokens=7, calls=1),
    explanation="because",
    raw="50",
    details={"em": 0},
    created_at=12.5,
)
_BASE = {"sample_id": "t1", "metric_version": "1"}
_KINDS = (
    _FULL,
    NotApplicable(metric="n", reason="no reference", missing=("reference",), **_BASE),
    Failure(metric="f", kind="timeout", reason="60 s", raw="half", **_BASE),
)


def _deliver(sink, *outcomes, **fields) -> None:
    asyncio.run(sink.write([Delivery(outcome=o, trace_id=o.sample_id, **fields) for o in outcomes]))


def _parts(path) -> list:
    return sorted(path.glob("*.parquet"))


def _traces(path) -> list[str]:
    return [row for part in _parts(path) for row in pq.read_table(part)["trace_id"].to_pylist()]


def test_the_columns_are_those_of_the_jsonl_sink(tmp_path):
    """The same names in the same order, the same values; only `details` is JSON text."""
    _deliver(JsonlSink(tmp_path / "out.jsonl"), *_KINDS, run_id="r", requested_at=11.0, inclusion_probability=0.1)
    _deliver(ParquetSink(tmp_path / "out"), *_KINDS, run_id="r", requested_at=11.0, inclusion_probability=0.1)
    expected = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    (part,) = _parts(tmp_path / "out")
    rows = pq.read_table(part).to_pylist()
    assert list(expected[0]) == list(rows[0])
    for row in rows:
        row["details"] = None if row["details"] is None else json.loads(row["details"])
    assert expected == rows


def test_text_can_be_left_out(tmp_path):
    """What may quote captured text is null then; the columns are the same, so parts of both kinds are read together."""
    _deliver(ParquetSink(tmp_path), _FULL)
    _deliver(
        ParquetSink(tmp_path, include_text=False),
        _score("t2", explanation="secret", raw="secret", details={"q": "secret"}),
    )
    first, second = (pq.read_table(part) for part in _parts(tmp_path))
    assert first.schema.equals(second.schema)
    assert [(None, None, None)] == [(r["explanation"], r["details"], r["raw"]) for r in second.to_pylist()]


def test_pandas_reads_the_directory(tmp_path):
    """A whole directory is one table, also while a part is being written."""
    sink = ParquetSink(tmp_path / "out")
    for i in range(3):
        _deliver(sink, _score(f"t{i}"))
    (tmp_path / "out" / ".left-by-a-crash.tmp").write_bytes(b"torn")
    assert ["t0", "t1", "t2"] == list(pd.read_parquet(tmp_path / "out")["trace_id"])


def test_a_part_fills_before_another_begins(tmp_path, monkeypatch):
    """Small batches share a file, until it has its rows; order is kept."""
    monkeypatch.setattr("ragstone.sinks.parquet._PART_MAX_ROWS", 10)
    sink = ParquetSink(tmp_path)
    for i in range(0, 24, 3):
        _deliver(sink, *[_score(f"t{j:02}") for j in range(i, i + 3)])
    assert [9, 9, 6] == [pq.read_metadata(part).num_rows for part in _parts(tmp_path)]
    assert [f"t{j:02}" for j in range(24)] == _traces(tmp_path)


def test_a_part_is_full_at_its_size_too(tmp_path, monkeypatch):
    """Long text does not make each batch write ever more."""
    monkeypatch.setattr("ragstone.sinks.parquet._PART_MAX_BYTES", 1)
    sink = ParquetSink(tmp_path)
    _deliver(sink, _score("t1"))
    _deliver(sink, _score("t2"))
    assert 2 == len(_parts(tmp_path))


def test_a_large_batch_is_one_part(tmp_path, monkeypatch):
    """A batch is never torn apart: readers see it whole or not at all."""
    monkeypatch.setattr("ragstone.sinks.parquet._PART_MAX_ROWS", 10)
    _deliver(ParquetSink(tmp_path), *[_score(f"t{j}") for j in range(30)])
    assert [30] == [pq.read_metadata(part).num_rows for part in _parts(tmp_path)]


def test_two_sinks_on_one_directory(tmp_path):
    """Each has parts of its own, and takes nothing from the other."""
    one, other = ParquetSink(tmp_path), ParquetSink(tmp_path)
    for i in range(6):
        _deliver((one, other)[i % 2], _score(f"t{i}"))
    assert 2 == len(_parts(tmp_path))
    assert {f"t{i}" for i in range(6)} == set(_traces(tmp_path))
    assert 6 == len(_traces(tmp_path))


_SCRIPT = """
import asyncio, os, sys
from ragstone.schema import Score
from ragstone.sinks import Delivery, ParquetSink

sink = ParquetSink(sys.argv[1])

def deliver(*traces):
    scores = [Score(sample_id=t, metric="m", metric_version="1", value=0.5, method="x") for t in traces]
    asyncio.run(sink.write([Delivery(outcome=s, trace_id=s.sample_id) for s in scores]))

"""


def test_a_forked_child_begins_its_own_part(tmp_path):
    """Parent and child hold the same state after a fork, and do not write over each other."""
    script = """
deliver("before")
if not (child := os.fork()):
    deliver("child")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
deliver("parent")
"""
    subprocess.run([sys.executable, "-c", _SCRIPT + script, tmp_path], check=True, timeout=240)
    assert 2 == len(_parts(tmp_path))
    assert ["before", "child", "parent"] == sorted(_traces(tmp_path))


def test_a_part_that_was_taken_away_stays_away(tmp_path):
    """Moving parts out of the directory does not bring their rows back with the next batch."""
    sink = ParquetSink(tmp_path)
    _deliver(sink, _score("t1"))
    (part,) = _parts(tmp_path)
    part.rename(tmp_path / "archive")
    _deliver(sink, _score("t2"))
    assert ["t2"] == _traces(tmp_path)


def test_a_repeat_is_found_among_the_newest(tmp_path, monkeypatch):
    """The ids are read from the newest parts, as many as are remembered."""
    monkeypatch.setattr("ragstone.sinks.parquet._SEEN_MAX_IDS", 4)
    for i in range(6):
        _deliver(ParquetSink(tmp_path), _score(f"t{i}"))
        os.utime(_parts(tmp_path)[-1], ns=(i, i))
    sink = ParquetSink(tmp_path)
    _deliver(sink, _score("t5"), _score("t2"), _score("t0"))
    assert ["t0", "t1", "t2", "t3", "t4", "t5", "t0"] == _traces(tmp_path)
    _deliver(sink, *[_score(f"u{i}") for i in range(9)])
    assert [_score(f"u{i}").id for i in range(5, 9)] == list(sink._seen)


def test_files_of_others_are_left_alone(tmp_path):
    """Neither what is no Parquet nor what has no ids stops the sink."""
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 torn")
    (tmp_path / "notes.txt").write_text("mine")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "other.parquet")
    pq.write_table(pa.table({"id": [1, None]}), tmp_path / "numbers.parquet")
    _deliver(ParquetSink(tmp_path), _score("t1"))
    assert {"torn.parquet", "notes.txt", "other.parquet", "numbers.parquet"} < {p.name for p in tmp_path.iterdir()}
    (part,) = [p for p in _parts(tmp_path) if p.name[0] == "0" or p.name[0].isdigit()]
    assert ["t1"] == pq.read_table(part)["trace_id"].to_pylist()


def test_what_a_crash_left_long_ago_is_swept_up(tmp_path):
    """A draft of yesterday goes; one of today may be in the hands of another process."""
    for name, age_s in ((".old.tmp", 2 * 24 * 3600), (".new.tmp", 60)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - age_s,) * 2)
    _deliver(ParquetSink(tmp_path), _score())
    assert [".new.tmp"] == [path.name for path in tmp_path.glob(".*.tmp")]


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_full_disk(tmp_path, monkeypatch, broken):
    """The part as it was stays whole, nothing is left beside it, and the batch arrives when it comes again."""
    sink = ParquetSink(tmp_path)
    _deliver(sink, _score("t1"))

    def fail(*args, **kwargs):
        # Those who read a whole directory skip such names.
        assert all(path.name[0] == "." for path in tmp_path.iterdir() if path.suffix != ".parquet")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(f"{'os' if broken == 'fsync' else 'pathlib.Path'}.{broken}", fail)
        with pytest.raises(SinkUnavailableError, match="No space left"):
            _deliver(sink, _score("t2"))
    assert ["t1"] == _traces(tmp_path)
    assert [] == list(tmp_path.glob(".*"))
    _deliver(sink, _score("t1"), _score("t2"))
    assert ["t1", "t2"] == _traces(tmp_path)


def test_a_batch_that_is_there_though_it_seemed_to_fail(tmp_path, monkeypatch):
    """When only the directory could not be synced, the batch is found in it, and not written again."""
    sink = ParquetSink(tmp_path)
    _deliver(sink, _score("t1"))
    real, calls = os.fsync, []

    def fsync(fd):
        calls.append(fd)
        if len(calls) == 2:
            raise OSError(errno.EIO, "Input/output error")
        real(fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(SinkUnavailableError, match="Input/output error"):
            _deliver(sink, _score("t2"))
    _deliver(sink, _score("t2"))
    assert ["t1", "t2"] == _traces(tmp_path)


@pytest.mark.parametrize("kill_after", [10, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 45))])
def test_killed_at_any_moment(tmp_path, kill_after):
    """Whole batches are there, each once, and all that were acknowledged; the next sink continues from there."""
    script = """
for i in range(1_000_000):
    deliver(*(f"t{3 * i + j}" for j in range(3)))
    print(i, flush=True)
"""
    acknowledged = -1
    with subprocess.Popen([sys.executable, "-c", _SCRIPT + script, tmp_path], stdout=subprocess.PIPE) as writer:
        for line in writer.stdout:
            acknowledged = int(line)
            if acknowledged == kill_after:
                writer.kill()
    n = len(_traces(tmp_path)) // 3
    assert n in (acknowledged + 1, acknowledged + 2)
    assert [f"t{i}" for i in range(3 * n)] == _traces(tmp_path)
    again = [f"t{i}" for i in range(3 * (acknowledged + 2))]
    _deliver(ParquetSink(tmp_path), *map(_score, again))
    assert again == _traces(tmp_path)


def test_hostile_text(tmp_path):
    """Half of a surrogate pair, which no column holds, becomes its escape; all else comes back as it was."""
    text = 'a\nb "c" \x00 日本 \U0001f469'
    _deliver(ParquetSink(tmp_path), _score(explanation=text, raw="\ud800", details={"q": text}))
    (row,) = pq.read_table(_parts(tmp_path)[0]).to_pylist()
    assert (text, "\\ud800", {"q": text}) == (row["explanation"], row["raw"], json.loads(row["details"]))


def test_a_number_that_no_column_holds(tmp_path):
    """The row is refused, so that the others are not held back."""
    sink = ParquetSink(tmp_path)
    with pytest.raises(SinkRejectedError, match="does not fit the columns"):
        _deliver(sink, _score(usage=Usage(input_tokens=2**70)))
    _deliver(sink, _score())
    assert ["t1"] == _traces(tmp_path)


def test_files_are_private(tmp_path):
    """Text of users is in them."""
    _deliver(ParquetSink(tmp_path / "out"), _score())
    assert (0o700, 0o600) == tuple(
        path.stat().st_mode & 0o777 for path in (tmp_path / "out", *_parts(tmp_path / "out"))
    )


def test_the_name_is_absolute(tmp_path, monkeypatch):
    """A later chdir moves neither the name nor the files."""
    monkeypatch.chdir(tmp_path)
    sink = sink_from("parquet:out/")
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    _deliver(sink, _score("t1"))
    assert f"parquet:{tmp_path / 'out'}" == sink.name
    assert ["t1"] == _traces(tmp_path / "out")


def test_mistakes_are_told_when_the_sink_is_made(tmp_path):
    """No directory named, none to make it in, a file in its place."""
    (tmp_path / "file").touch()
    for spec, message in (
        ("parquet", "'parquet:DIR/'"),
        ("parquet:", "'parquet:DIR/'"),
        (f"parquet:{tmp_path}/nowhere/out", "nowhere' does not exist"),
        (f"parquet:{tmp_path}/file", "is a file"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            sink_from(spec)


def test_a_missing_extra_has_its_install_line(monkeypatch, tmp_path):
    """Without pyarrow the message says what to install."""
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'ragstone\[parquet\]'"):
        ParquetSink(tmp_path)


def test_a_closed_sink_takes_nothing(tmp_path):
    """A batch after `aclose` stays with the caller."""
    sink = ParquetSink(tmp_path)
    asyncio.run(sink.aclose())
    with pytest.raises(SinkUnavailableError, match="closed"):
        _deliver(sink, _score())
