"""Files and records of another version: refused with one sentence, and left as they were."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from pydantic import ValidationError

import ragstone
from ragstone.errors import RagstoneError
from ragstone.experiments._app.call import app_call
from ragstone.experiments._app.saved import SavedRuns
from ragstone.experiments._kept import KeptOutcomes, RunIdentity, count_kept
from ragstone.judges import ReplyCache
from ragstone.metrics import UdcgTheta
from ragstone.reading._stage import BufferedSpan, SpanBuffer
from ragstone.schema import (
    Captured,
    Failure,
    Sample,
    Score,
    Trace,
    TraceOutline,
    outcome_adapter,
    spool_entry_adapter,
)
from ragstone.sinks import JsonlSink
from ragstone.spool import SpoolReader, SpoolWriter
from ragstone.store import SqliteStore, backup_store, restore_store

TRACE = Trace(trace_id="t", started_at=1.0, query="q", response="r")
SCORE = Score(sample_id="t", metric="m", metric_version="1", value=0.5, method="exact")
RUN = RunIdentity((("m", "1", ""),), "", "", 1, "d")


class Stored(NamedTuple):
    """A file of the version that this Ragstone reads, and what reads it."""

    path: Path
    read: Callable[[], object]
    name: str
    """How the error names the file."""


def store(folder: Path, *, mode: str = "read") -> Stored:
    """A store with a request."""
    path = folder / "s.db"
    with SqliteStore.open(path, mode="own") as opened:
        opened.traces.ingest("a", 1, [Captured(trace=TRACE)])
    return Stored(path, lambda: SqliteStore.open(path, mode=mode).close(), f"the store {str(path)!r}")


def owned_store(folder: Path) -> Stored:
    return store(folder, mode="own")


def backup(folder: Path) -> Stored:
    """A backup of a store."""
    path = folder / "backup.db"
    backup_store(store(folder).path, path)
    return Stored(path, lambda: restore_store(path, folder / "restored.db"), f"the store {str(path)!r}")


def reply_cache(folder: Path) -> Stored:
    cache = ReplyCache(folder)
    cache.write([("key", "model", {"value": 1})])
    return Stored(cache.path, lambda: cache.read("key"), f"the reply cache {str(cache.path)!r}")


def span_buffer(folder: Path) -> Stored:
    path = folder / "spans.db"

    def read() -> None:
        with SpanBuffer(path) as buffer:
            buffer.add([BufferedSpan(trace_id="t", span_id="s", is_root=True, body=b"")])

    read()
    return Stored(path, read, f"the span buffer {str(path)!r}")


def segment(folder: Path) -> Stored:
    """The header of a segment of a spool."""
    with contextlib.closing(SpoolWriter(folder)) as writer:
        writer.append([spool_entry_adapter.dump_json(Captured(trace=TRACE))])
        name = writer.segment
    path = folder / name
    return Stored(path, lambda: SpoolReader(folder).read(name), f"the spool segment {str(path)!r}")


def outcome_file(folder: Path) -> Stored:
    path = folder / "outcomes.jsonl"
    path.write_text(SCORE.model_dump_json() + "\n")
    return Stored(path, lambda: ragstone.compare([path, path]), f"line 1 of {str(path)!r}")


def kept_outcomes(folder: Path) -> Stored:
    """The outcomes that an interrupted evaluation left."""

    def read() -> None:
        with contextlib.closing(KeptOutcomes(folder / "o.jsonl")) as kept:
            kept.open(RUN)
            kept.add(Sample(id="t"), [SCORE])

    read()
    path = folder / "o.jsonl.partial"
    return Stored(path, read, f"the interrupted evaluation {str(path)!r}")


def saved_answers(folder: Path) -> Stored:
    """The answers that an interrupted evaluation of an application left."""

    def read() -> None:
        with contextlib.closing(SavedRuns(folder / "traces.jsonl")) as saved:
            saved.open(app_call(lambda question: question))
            saved.add(TRACE, Sample(id="t", query="q"), 0)

    read()
    path = folder / "traces.jsonl.partial"
    path.write_bytes(path.read_bytes() + b'{"cut')
    return Stored(path, read, f"a request in {str(path)!r}")


def weights(folder: Path) -> Stored:
    path = folder / "theta.json"
    UdcgTheta([0.1], [0.2]).save(path)
    return Stored(path, lambda: UdcgTheta.load(path), f"the file with weights {str(path)!r}")


def sink_file(folder: Path) -> Stored:
    path = folder / "sink.jsonl"
    path.write_text('{"schema_version": 1, "id": "x"}\n')
    return Stored(path, lambda: JsonlSink(path), f"cannot add outcomes to {str(path)!r}: the file")


FORMATS = [
    store, owned_store, backup, reply_cache, span_buffer, segment, outcome_file, kept_outcomes, saved_answers, weights,
    sink_file,
]  # fmt: skip


def rewrite_version(path: Path, version: object) -> None:
    """Change the first version in a file, or that of a SQLite file."""
    if path.read_bytes().startswith(b"SQLite"):
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.execute(f"PRAGMA user_version = {version}")
        return
    field = r'((?:schema_version|format|evaluation|version)\\?": ?)1'
    text, n = re.subn(field, rf"\g<1>{version}", path.read_text(), count=1)
    assert 1 == n
    path.write_text(text)


@pytest.mark.parametrize("version", [0, 2, 99, []])
@pytest.mark.parametrize("make", FORMATS, ids=lambda make: make.__name__)
def test_another_version_is_refused(tmp_path: Path, make: Callable[[Path], Stored], version: object) -> None:
    """The same sentence names the file, its version, the version that is read, and the way out. No byte changes."""
    stored = make(tmp_path)
    stored.read()
    if version == [] and stored.path.read_bytes().startswith(b"SQLite"):
        version = -1  # SQLite stores an integer
    rewrite_version(stored.path, version)
    before = stored.path.read_bytes()

    with pytest.raises(RagstoneError) as error:
        stored.read()

    assert (
        f"{stored.name} has format version {version}, and this version of Ragstone reads version 1: "
        "use the version of Ragstone that wrote it, or start with a new one"
    ) == str(error.value)
    assert before == stored.path.read_bytes()


def test_a_spool_entry_of_another_version_is_not_dropped(tmp_path: Path) -> None:
    """A segment is refused if an entry has another version and a kind that this version does not know."""
    record = {"schema_version": 2, "entry": "unheard_of"}
    with contextlib.closing(SpoolWriter(tmp_path)) as writer:
        writer.append([json.dumps(record).encode()])
        name = writer.segment
    with pytest.raises(RagstoneError, match=rf"an entry of the spool segment '.*{name}' has format version 2, and"):
        SpoolReader(tmp_path).read(name)


@pytest.mark.parametrize("version", [0, 2, -1, True, 1.5, "1", None, [1], "x" * 99])
@pytest.mark.parametrize(
    "read",
    [Trace.model_validate, TraceOutline.model_validate, Sample.model_validate, outcome_adapter.validate_python],
)
def test_a_record_of_another_version_is_invalid(read: Callable[[object], object], version: object) -> None:
    """Whatever reads it, also if its version is not a number."""
    fields = TRACE.model_dump() | SCORE.model_dump() | {"id": "t"}
    read(fields)
    read(fields | {"schema_version": 1.0})  # as a data frame may have it
    read({name: value for name, value in fields.items() if name != "schema_version"})
    with pytest.raises(ValidationError, match=r"it has (an unknown )?format version.* and this version of Ragstone"):
        read(fields | {"schema_version": version})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"metrics": (("m", "2", "h"),)}, "metrics m instead of m"),
        ({"metrics": (("m", "1", "g"),)}, "judge 'j', with other settings"),
        ({"judge": "k"}, "judge 'j' instead of 'k'"),
        ({"app": ""}, "application 'a' and 2 repeats instead of no application"),
        ({"repeats": 3}, "application 'a' and 2 repeats instead of application 'a' and 3 repeats"),
        ({"data": "e"}, "other rows: the data has changed"),
    ],
)
def test_another_run_does_not_resume_an_interrupted_one(
    tmp_path: Path, fields: dict[str, object], message: str
) -> None:
    """The error names what differs."""
    run = RunIdentity((("m", "1", "h"),), "j", "a", 2, "d")
    for _ in range(2):
        with contextlib.closing(KeptOutcomes(tmp_path / "o.jsonl")) as kept:
            kept.open(run)
            kept.add(Sample(id="t"), [SCORE])
    with contextlib.closing(KeptOutcomes(tmp_path / "o.jsonl")) as kept, pytest.raises(RagstoneError) as error:
        kept.open(run._replace(**fields))
    assert f"holds an interrupted run with {message}. Run that command again" in str(error.value)


def test_the_last_outcomes_of_the_same_sample_are_resumed(tmp_path: Path) -> None:
    """An application that answered again has another answer, and a rejected call is repeated."""
    first, again, refused = (Sample(id=id_, response=text) for id_, text in (("t", "a"), ("t", "b"), ("r", "a")))
    failure = Failure(sample_id="r", metric="m", metric_version="1", kind="rejected", reason="no")
    with contextlib.closing(KeptOutcomes(tmp_path / "o.jsonl")) as kept:
        kept.open(RUN)
        kept.add(first, [SCORE])
        kept.add(again, [SCORE.model_copy(update={"value": 0.25})])
        kept.add(refused, [failure])
    path = tmp_path / "o.jsonl.partial"
    path.write_bytes(path.read_bytes() + b'{"sample_id": ')
    assert 2 == count_kept(tmp_path / "o.jsonl")
    with contextlib.closing(KeptOutcomes(tmp_path / "o.jsonl")) as kept:
        kept.open(RUN)
        assert (None, None) == (kept.find(first), kept.find(refused))
        assert [0.25] == [outcome.value for outcome in kept.find(again)]
