"""`JsonlSink`: what a line holds, and what a crash leaves behind."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import sys

import pytest

from ragstone.errors import ConfigurationError, SinkUnavailableError
from ragstone.schema import Failure, Interval, NotApplicable, Score, Usage
from ragstone.sinks import Delivery, JsonlSink


def _score(sample_id: str = "t1", **fields) -> Score:
    return Score(
        **({"sample_id": sample_id, "metric": "m", "metric_version": "1", "value": 0.5, "method": "x"} | fields)
    )


def _deliver(sink: JsonlSink, *outcomes, **fields) -> None:
    asyncio.run(sink.write([Delivery(outcome=o, trace_id=o.sample_id, **fields) for o in outcomes]))


def _rows(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().split("\n") if line]


def test_a_score_as_a_line(tmp_path):
    """Every field of a score and its delivery is there under its own name."""
    path = tmp_path / "out.jsonl"
    outcome = _score(
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
    _deliver(
        JsonlSink(path),
        outcome,
        run_id="r",
        otel_trace_id="a" * 32,
        otel_span_id="b" * 16,
        app="qa-bot",
        release="2.4",
        environment="test",
        requested_at=11.0,
        inclusion_probability=0.1,
    )
    assert _rows(path) == [
        {
            "schema_version": 1,
            "id": outcome.id,
            "trace_id": "t1",
            "fingerprint": None,
            "run_id": "r",
            "otel_trace_id": "a" * 32,
            "otel_span_id": "b" * 16,
            "response_id": None,
            "app": "qa-bot",
            "release": "2.4",
            "environment": "test",
            "metric": "m",
            "metric_version": "1",
            "outcome": "score",
            "value": 0.5,
            "interval": {"low": 0.4, "high": 0.6, "confidence_level": 0.95, "method": "bootstrap"},
            "method": "x",
            "n": 3,
            "kind": None,
            "reason": None,
            "missing": None,
            "judge": "lexical baseline",
            "judge_hash": "j",
            "prompt_hash": "p",
            "usage": {
                "input_tokens": 7,
                "output_tokens": 0,
                "calls": 1,
                "cached": 0,
                "cost_usd": None,
                "priced_calls": 0,
                "counted_calls": 1,
            },
            "inclusion_probability": 0.1,
            "requested_at": 11.0,
            "scored_at": 12.5,
            "cause": None,
            "explanation": "because",
            "details": {"em": 0},
            "raw": "50",
        }
    ]


def test_a_missing_score_is_null_with_its_reason(tmp_path):
    """Neither kind of missing score has a value; all lines have the same keys."""
    path = tmp_path / "out.jsonl"
    base = {"sample_id": "t1", "metric_version": "1"}
    _deliver(
        JsonlSink(path),
        _score(),
        NotApplicable(metric="n", reason="no reference", missing=("reference",), **base),
        Failure(metric="f", kind="timeout", reason="60 s", raw="half", **base),
    )
    scored, not_applicable, failed = _rows(path)
    assert scored.keys() == not_applicable.keys() == failed.keys()
    assert (not_applicable["value"], not_applicable["reason"], not_applicable["missing"]) == (
        None,
        "no reference",
        ["reference"],
    )
    assert (failed["value"], failed["kind"], failed["reason"], failed["raw"]) == (None, "timeout", "60 s", "half")


def test_text_can_be_left_out(tmp_path):
    """`include_text=False` leaves out whatever may quote captured text."""
    path = tmp_path / "out.jsonl"
    _deliver(JsonlSink(path, include_text=False), _score(explanation="secret", raw="secret", details={"q": "secret"}))
    assert "secret" not in path.read_text()


def test_hostile_text_stays_on_one_line(tmp_path):
    """Line separators and non-Latin text come back as they were."""
    path = tmp_path / "out.jsonl"
    text = 'a\nb\r\n"c" \u2028 \x00 日本 \U0001f469'
    _deliver(JsonlSink(path), _score(explanation=text))
    (line,) = path.read_bytes().splitlines()
    assert text == json.loads(line)["explanation"]


@pytest.mark.parametrize("left", [1, 5, 30, -20, -1])
def test_a_torn_last_line_is_replaced(tmp_path, left):
    """After a crash in the middle of a line, the next batch contains its outcome again. Nothing of the old line is left."""
    path = tmp_path / "out.jsonl"
    _deliver(JsonlSink(path), _score("t1"), _score("t2"))
    first, second = whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second[:left])
    _deliver(JsonlSink(path), _score("t1"), _score("t2"), _score("t3"))
    lines = path.read_bytes().splitlines(keepends=True)
    assert ["t1", "t2", "t3"] == [json.loads(line)["trace_id"] for line in lines]
    assert whole == lines[:2]


@pytest.mark.parametrize("foreign", [b"mine", b'{"schema_version": 1}', b'{"other": '])
def test_a_last_line_of_others_stays(tmp_path, foreign):
    """The next batch begins on a new line."""
    path = tmp_path / "out.jsonl"
    _deliver(JsonlSink(path), _score("t0"))
    path.write_bytes(path.read_bytes() + foreign)
    _deliver(JsonlSink(path), _score("t1"))
    _, first, second = path.read_bytes().splitlines()
    assert (foreign, "t1") == (first, json.loads(second)["trace_id"])


def test_a_full_disk_in_the_middle_of_a_batch(tmp_path, monkeypatch):
    """All of the batch or nothing of it is in the file."""
    path = tmp_path / "out.jsonl"
    sink = JsonlSink(path)
    real = os.write
    room = [700]  # the first line and a part of the second

    def write(fd, data):
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        n = real(fd, bytes(data)[: room[0]])
        room[0] -= n
        return n

    outcomes = [_score(f"t{i}") for i in range(5)]
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        with pytest.raises(SinkUnavailableError, match="No space left"):
            _deliver(sink, *outcomes)
    assert b"" == path.read_bytes()
    _deliver(sink, *outcomes)
    assert [o.id for o in outcomes] == [json.loads(line)["id"] for line in path.read_bytes().splitlines()]


@pytest.mark.skipif(sys.platform == "win32", reason="locks files")
def test_a_batch_waits_for_that_of_another_process(tmp_path, monkeypatch):
    """A process that is stopped while it writes does not keep others for ever: they try again later."""
    import fcntl

    monkeypatch.setattr("ragstone.sinks.jsonl._LOCK_S", 0.1)
    path = tmp_path / "out.jsonl"
    sink = JsonlSink(path)
    with path.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(SinkUnavailableError, match="another process has been writing"):
            _deliver(sink, _score("t1"))
    _deliver(sink, _score("t1"))
    assert ["t1"] == [json.loads(line)["trace_id"] for line in path.read_text().splitlines()]


def test_what_another_process_has_written_is_not_repeated(tmp_path):
    """A worker gets deliveries of another one that was killed after it wrote them, although it has read the file before."""
    path = tmp_path / "out.jsonl"
    first, second = JsonlSink(path), JsonlSink(path)
    _deliver(first, _score("t1"))
    _deliver(second, _score("t2"), _score("t3"))
    _deliver(first, _score("t2"), _score("t3"), _score("t4"))
    _deliver(second, _score("t4"), _score("t1"))
    assert ["t1", "t2", "t3", "t4"] == [row["trace_id"] for row in _rows(path)]


def test_only_the_tail_is_read(tmp_path, monkeypatch):
    """In a long file a repeat of the last batch is found; one from before the tail is not, and the file says so twice."""
    monkeypatch.setattr("ragstone.sinks.jsonl._TAIL_MAX_BYTES", 2_000)
    path = tmp_path / "out.jsonl"
    _deliver(JsonlSink(path), *[_score(f"t{i}") for i in range(50)])
    _deliver(JsonlSink(path), _score("t49"), _score("t0"))
    assert [row["trace_id"] for row in _rows(path)][-2:] == ["t49", "t0"]


def test_memory_is_bounded(tmp_path, monkeypatch):
    """Only the newest ids are remembered."""
    monkeypatch.setattr("ragstone.sinks.jsonl._SEEN_MAX_IDS", 10)
    sink = JsonlSink(tmp_path / "out.jsonl")
    _deliver(sink, *[_score(f"t{i}") for i in range(30)])
    assert list(sink._seen) == [_score(f"t{i}").id for i in range(20, 30)]


def test_a_renamed_file_starts_a_new_one(tmp_path):
    """Log rotation by renaming works without telling the sink."""
    path = tmp_path / "out.jsonl"
    sink = JsonlSink(path)
    _deliver(sink, _score("t1"))
    path.rename(tmp_path / "out.1.jsonl")
    _deliver(sink, _score("t2"))
    assert ["t2"] == [row["trace_id"] for row in _rows(path)]


def test_foreign_lines_are_left_alone(tmp_path):
    """Lines that another program has added are not judged."""
    path = tmp_path / "out.jsonl"
    _deliver(JsonlSink(path), _score("t0"))
    path.write_bytes(path.read_bytes() + b'not json\n[1]\n{"id": 5}\n\xff\xfe\n')
    _deliver(JsonlSink(path), _score("t1"))
    assert path.read_bytes().splitlines()[1:5] == [b"not json", b"[1]", b'{"id": 5}', b"\xff\xfe"]
    assert json.loads(path.read_bytes().splitlines()[5])["trace_id"] == "t1"


@pytest.mark.parametrize("content", [b'{"id": "q1", "query": "Why?"}\n', b"SQLite format 3\x00", b"x"])
def test_a_file_with_another_content_is_refused(tmp_path, content):
    """A dataset or a store that is named by mistake stays as it is."""
    path = tmp_path / "out.jsonl"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"out\.jsonl.*another content.*new file"):
        JsonlSink(path)
    assert content == path.read_bytes()


@pytest.mark.parametrize("left", [0, 1, 10])
def test_a_file_whose_first_line_was_cut_is_continued(tmp_path, left):
    """As after a kill in the first batch."""
    path = tmp_path / "out.jsonl"
    _deliver(JsonlSink(path), _score("t0"))
    path.write_bytes(path.read_bytes()[:left])
    _deliver(JsonlSink(path), _score("t1"))
    assert ["t1"] == [json.loads(line)["trace_id"] for line in path.read_bytes().splitlines()]


def test_a_missing_directory_is_named(tmp_path):
    """The mistake is told when the sink is made, not at the first batch."""
    with pytest.raises(ConfigurationError, match=r"'.*nowhere' does not exist"):
        JsonlSink(tmp_path / "nowhere" / "out.jsonl")


def test_a_directory_is_no_file(tmp_path):
    """So is a path that is a directory."""
    with pytest.raises(ConfigurationError, match="is a directory"):
        JsonlSink(tmp_path)


def test_the_name_is_absolute(tmp_path, monkeypatch):
    """A later chdir moves neither the name nor the file."""
    monkeypatch.chdir(tmp_path)
    sink = JsonlSink("out.jsonl")
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    _deliver(sink, _score("t1"))
    assert sink.name == f"jsonl:{tmp_path / 'out.jsonl'}"
    assert (tmp_path / "out.jsonl").exists()


def test_a_closed_sink_takes_nothing(tmp_path):
    """A batch after `aclose` stays with the caller."""
    sink = JsonlSink(tmp_path / "out.jsonl")
    asyncio.run(sink.aclose())
    with pytest.raises(SinkUnavailableError, match="closed"):
        _deliver(sink, _score())


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_a_device_or_a_pipe_is_refused(tmp_path, make):
    """The end of the file is read, to find repeated deliveries, and these have none."""
    make(tmp_path / "out")
    with pytest.raises(ConfigurationError, match="a device or a pipe"):
        JsonlSink(tmp_path / "out")
