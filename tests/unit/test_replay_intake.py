"""Files of traces into a store: each trace once, on from where the last run ended, whatever is in the files."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_sink import MemorySink
from ragstone.errors import ConfigurationError, DataError, StoreError
from ragstone.reading import InputFile, RejectedRecord
from ragstone.reading import _formats as formats
from ragstone.replay import ReplayTraceSource, areplay_traces, plan_replay, replay_traces
from ragstone.schema import Captured, Trace
from ragstone.store import SqliteStore
from ragstone.testing import FakeJudge
from ragstone.worker import StepErrors, read_ledger
from stored_bodies import count_duplicates


class Lines:
    """A format of one trace a line: its id, question and answer."""

    name = "lines"

    def __init__(self) -> None:
        self.n_read = 0

    def detect(self, head: bytes) -> str | None:
        """Every file that begins with an object."""
        return "its first byte" if head.startswith(b"{") else None

    def read(self, source: InputFile) -> Iterator[Trace | RejectedRecord]:
        """One trace a line; "!" damages the file from there on."""
        for line in (line for part in source.parts() for line in part.lines()):
            self.n_read += 1
            if line.text.startswith(b"!"):
                msg = f"line {line.number} is the end of what can be read"
                raise DataError(msg)
            try:
                row = json.loads(line.text)
            except ValueError:
                yield RejectedRecord(place=f"line {line.number}", reason="no JSON")
                continue
            yield Trace(trace_id=row["id"], query=row["q"], response=row.get("a"), started_at=1.0, source="lines")


def write(path: Path, *rows: object, mode: str = "w") -> Path:
    """Write rows as JSON, and strings as they are."""
    with path.open(mode, encoding="utf-8") as file:
        file.writelines((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
    return path


def rows(n: int, *, first: int = 0) -> list[dict[str, str]]:
    """Rows of n requests."""
    return [{"id": f"t{i}", "q": f"question {i}", "a": f"answer {i}"} for i in range(first, first + n)]


def intake_of(*paths: Path) -> ReplayTraceSource:
    """An intake of files in our format."""
    return ReplayTraceSource(
        [(InputFile(path=p, name=p.name), formats.DetectedFormat(format=Lines(), detected_by="")) for p in paths]
    )


def run(intake: ReplayTraceSource, store: SqliteStore) -> None:
    """Move everything."""
    while intake.may_have_more:
        intake.transfer_batch(store, StepErrors())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    """A store without a plan."""
    with SqliteStore.open(tmp_path / "s.db", mode="own") as opened:
        yield opened


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Lines:
    """Our format is the only one."""
    lines = Lines()
    monkeypatch.setattr(formats, "all_formats", lambda: {"lines": lines})
    return lines


def test_each_trace_comes_in_once(store, tmp_path):
    """More than a batch, in the order of the file."""
    intake = intake_of(write(tmp_path / "a.jsonl", *rows(450)))
    run(intake, store)

    assert [f"t{i}" for i in range(450)] == [t.trace_id for t in store.traces.read()]
    (counts,) = intake.counts
    assert (450, 450, 0, 0) == (counts.n_read, counts.n_new, counts.n_known, counts.n_rejected)


def test_a_run_that_was_stopped_is_gone_on_with(store, tmp_path):
    """The next run skips what the last one took in, and says so."""
    path = write(tmp_path / "a.jsonl", *rows(450))
    first = intake_of(path)
    first.transfer_batch(store, StepErrors())

    second = intake_of(path)
    run(second, store)
    assert (200, 250) == (second.counts[0].n_known, second.counts[0].n_new)
    assert 450 == store.ledger().total.captured == len(list(store.traces.read()))
    assert 0 == count_duplicates(store)


def test_a_file_that_has_grown_is_read_anew(store, tmp_path):
    """What was there is known by its id; what was added is new."""
    path = write(tmp_path / "a.jsonl", *rows(3))
    run(intake_of(path), store)
    again = intake_of(write(path, *rows(2, first=3), mode="a"))
    run(again, store)

    assert (3, 2) == (again.counts[0].n_known, again.counts[0].n_new)


def test_a_file_replaced_by_one_of_the_same_size_is_read_anew(store, tmp_path):
    """Its time of change tells them apart."""
    path = write(tmp_path / "a.jsonl", *rows(3))
    os.utime(path, ns=(0, 0))
    run(intake_of(path), store)
    size = path.stat().st_size
    write(path, *rows(3, first=3))
    assert size == path.stat().st_size
    again = intake_of(path)
    run(again, store)
    assert (3, 0) == (again.counts[0].n_new, again.counts[0].n_known)


def test_a_file_is_read_anew_in_another_format(store, tmp_path):
    """How many records were read as something else says nothing of these: a wrong --format costs no trace."""
    path = write(tmp_path / "a.jsonl", *rows(3))

    class Wrong(Lines):
        name = "wrong"

        def read(self, source: InputFile) -> Iterator[Trace | RejectedRecord]:
            """Understands nothing."""
            return iter([RejectedRecord(place=f"line {n}", reason="no") for n in range(9)])

    run(
        ReplayTraceSource([(InputFile(path=path, name="a"), formats.DetectedFormat(format=Wrong(), detected_by=""))]),
        store,
    )
    right = intake_of(path)
    run(right, store)
    assert (3, 0) == (right.counts[0].n_new, right.counts[0].n_rejected)


def test_one_bad_record_is_one_rejection(store, tmp_path):
    """It is counted and told, also when a later run skips it; the rest continues."""
    path = write(tmp_path / "a.jsonl", *rows(2), "no json {", *rows(2, first=2))
    for n_new in (4, 0):
        intake = intake_of(path)
        run(intake, store)
        assert ([RejectedRecord(place="line 3", reason="no JSON")], 1, n_new) == (
            intake.counts[0].rejected,
            intake.counts[0].n_rejected,
            intake.counts[0].n_new,
        )


def test_only_the_first_rejections_are_kept(store, tmp_path):
    """A file of rubbish must not fill the memory."""
    intake = intake_of(write(tmp_path / "a.jsonl", *["rubbish"] * 300))
    run(intake, store)

    assert (300, 20) == (intake.counts[0].n_rejected, len(intake.counts[0].rejected))


def test_a_damaged_file_gives_what_comes_before_the_damage(store, tmp_path):
    """And the next file has its turn."""
    broken = write(tmp_path / "a.jsonl", *rows(2), "!", *rows(2, first=2))
    intake = intake_of(broken, write(tmp_path / "b.jsonl", *rows(2, first=10)))
    run(intake, store)

    assert ["t0", "t1", "t10", "t11"] == [t.trace_id for t in store.traces.read()]
    assert "line 3 is the end of what can be read" == intake.counts[0].damaged
    assert intake.counts[1].damaged is None


def test_another_trace_of_the_same_id_is_left_out_and_counted(store, tmp_path, caplog):
    """Two data sets number their rows alike: that is told, and nothing is overwritten."""
    run(intake_of(write(tmp_path / "a.jsonl", *rows(2))), store)
    other = [{"id": "t1", "q": "something else", "a": "x"}, {"id": "t0", "q": "question 0", "a": "answer 0"}]
    intake = intake_of(write(tmp_path / "b.jsonl", *other, {"id": "t9", "q": "a"}, {"id": "t9", "q": "b"}))
    run(intake, store)

    assert (1, 1, 2) == (intake.counts[0].n_new, intake.counts[0].n_known, intake.counts[0].n_clashing)
    assert "question 1" == store.traces.get("t1").query
    assert "has a trace 't1', and the store has another one of that id" in caplog.text


def test_a_full_disk_holds_up_and_loses_nothing(store, tmp_path, monkeypatch):
    """The batch comes again from the file when the disk takes it."""
    intake, troubles = intake_of(write(tmp_path / "a.jsonl", *rows(300))), StepErrors()
    ingest = store.traces.ingest
    intake.transfer_batch(store, troubles)

    def full(*args: object) -> int:
        monkeypatch.setattr(store.traces, "ingest", ingest)
        msg = "no space left"
        raise StoreError(msg)

    monkeypatch.setattr(store.traces, "ingest", full)
    intake.transfer_batch(store, troubles)
    assert troubles
    while intake.may_have_more:
        intake.transfer_batch(store, troubles)

    assert not troubles
    assert [f"t{i}" for i in range(300)] == [t.trace_id for t in store.traces.read()]
    assert (300, 300, 0) == (intake.counts[0].n_read, intake.counts[0].n_new, intake.counts[0].n_known)


def test_a_full_disk_does_not_have_the_file_read_again(store, tmp_path, monkeypatch):
    """The batch waits in memory: an export that takes an hour to read would be read for ever."""
    lines, path = Lines(), write(tmp_path / "a.jsonl", *rows(300))
    intake = ReplayTraceSource([(InputFile(path=path, name="a"), formats.DetectedFormat(format=lines, detected_by=""))])

    def full(*args: object) -> int:
        msg = "no space left"
        raise StoreError(msg)

    with monkeypatch.context() as patched:
        patched.setattr(store.traces, "ingest", full)
        assert [0, 0, 0] == [intake.transfer_batch(store, StepErrors()) for _ in range(3)], (
            "nothing moves, so the worker waits"
        )
    assert intake.may_have_more
    run(intake, store)

    assert (300, 300, 300) == (lines.n_read, intake.counts[0].n_new, len(list(store.traces.read())))


def test_a_store_that_cannot_be_read_holds_up_and_loses_nothing(store, tmp_path, monkeypatch):
    """Where to begin is asked again."""
    intake, troubles = intake_of(write(tmp_path / "a.jsonl", *rows(3))), StepErrors()

    def broken() -> dict[str, int]:
        msg = "the disk fails"
        raise StoreError(msg)

    with monkeypatch.context() as patched:
        patched.setattr(store.traces, "segment_offsets", broken)
        assert 0 == intake.transfer_batch(store, troubles)
    assert (True, True) == (bool(troubles), intake.may_have_more)
    run(intake, store)

    assert 3 == intake.counts[0].n_new


def test_a_file_that_goes_before_its_turn_is_told(store, tmp_path, caplog):
    """The files before it may have taken hours; those after it have their turn."""
    gone, rest = write(tmp_path / "a.jsonl", *rows(1)), write(tmp_path / "b.jsonl", *rows(2, first=1))
    intake = intake_of(gone, rest)
    gone.unlink()
    run(intake, store)

    assert "'a.jsonl' cannot be read: [Errno 2]" in intake.counts[0].damaged
    assert (None, 2) == (intake.counts[1].damaged, intake.counts[1].n_new)
    assert "what came before is kept" in caplog.text


def test_a_file_that_grows_while_it_is_read_is_taken_in_whole(store, tmp_path):
    """What comes during the reading is read in this run or in the next, once."""
    path = write(tmp_path / "a.jsonl", *rows(250))
    intake = intake_of(path)
    intake.transfer_batch(store, StepErrors())
    write(path, *rows(250, first=250), mode="a")
    run(intake, store)
    run(intake_of(path), store)

    assert [f"t{i}" for i in range(500)] == [t.trace_id for t in store.traces.read()]


def test_two_replays_of_one_file_count_what_they_brought(store, tmp_path):
    """Into a database that several hosts write to: the slower one finds everything known."""
    path = write(tmp_path / "a.jsonl", *rows(3))
    fast, slow = intake_of(path), intake_of(path)
    other = store.traces.get_many

    def late(trace_ids: list[str]) -> dict[str, Trace]:
        # The fast one brings the traces in after the slow one has looked for them.
        found = other(trace_ids)
        store.traces.get_many = other
        run(fast, store)
        return found

    store.traces.get_many = late
    run(slow, store)

    assert (3, 0) == (fast.counts[0].n_new, fast.counts[0].n_known)
    assert (0, 3) == (slow.counts[0].n_new, slow.counts[0].n_known)


def test_a_replay_scores_and_delivers(known, tmp_path):
    """From files to scores at a sink; the second run asks no one."""
    folder = tmp_path / "exports"
    folder.mkdir()
    write(folder / "a.jsonl", *rows(3))
    write(folder / "b.jsonl", *rows(2, first=3))
    for n_calls, n_new in ((5, 5), (0, 0)):
        judge, sink = FakeJudge(), MemorySink()
        report = replay_traces([str(folder)], ["ccrs.qr"], store=tmp_path / "r.db", judge=judge, sinks=[sink])

        assert (n_new, True, n_calls) == (report.n_new, report.is_whole, len(judge.prompts))
        assert n_new == len(sink.deliveries)
    assert 5 == read_ledger(tmp_path / "r.db").total.scored
    assert ["its first byte"] == [file.detected_by for file in report.files]


def test_replay_works_inside_a_running_loop(known, tmp_path):
    """A notebook has a loop running: planning and replaying work there as they do in a script."""
    path = write(tmp_path / "a.jsonl", *rows(3))

    async def cell():
        plan = plan_replay([str(path)], ["ccrs.qr"])
        report = replay_traces([str(path)], ["ccrs.qr"], store=tmp_path / "r.db", judge="lexical")
        return plan.n_scorable, report.n_new

    assert (3, 3) == asyncio.run(cell())
    assert 3 == read_ledger(tmp_path / "r.db").total.scored


def test_what_is_replayed_is_redacted_first(known, tmp_path, monkeypatch):
    """An e-mail address does not reach the store, unless it is to; a second run knows the trace all the same."""
    path = write(tmp_path / "a.jsonl", {"id": "t", "q": "Who is ada@example.org?", "a": "Ada."})
    for n_known in (0, 1):
        report = replay_traces([str(path)], ["ccrs.qr"], store=tmp_path / "r.db", judge="lexical")
        assert (n_known, 0) == (report.files[0].n_known, report.files[0].n_clashing)
        path.touch()
    replay_traces([str(path)], ["ccrs.qr"], store=tmp_path / "plain.db", judge="lexical", redact=None)
    for name, query in (("r.db", "Who is [email]?"), ("plain.db", "Who is ada@example.org?")):
        with SqliteStore.open(tmp_path / name, mode="read") as opened:
            assert query == opened.traces.get("t").query


def test_what_cannot_be_redacted_is_not_stored(known, tmp_path):
    """A redaction of the user's own that fails rejects that trace."""

    def redact(text: str) -> str:
        if "1" in text:
            raise KeyError(text)
        return text

    path = write(tmp_path / "a.jsonl", *rows(3))
    report = replay_traces([str(path)], ["ccrs.qr"], store=tmp_path / "r.db", judge="lexical", redact=redact)
    assert (2, [RejectedRecord(place="trace t1", reason="it cannot be redacted: the redactor raised KeyError")]) == (
        report.n_new,
        report.files[0].rejected,
    )


def test_a_folder_of_several_formats_is_read_file_by_file(known, tmp_path, monkeypatch):
    """And one of one format as a whole, since a trace may be spread over its files."""

    class Other(Lines):
        name = "other"

        def detect(self, head: bytes) -> str | None:
            """What begins with a bracket."""
            return "a bracket" if head.startswith(b"[") else None

        def read(self, source: InputFile) -> Iterator[Trace | RejectedRecord]:
            """One trace a file."""
            yield Trace(trace_id=source.name, query="q", response="a", started_at=1.0)

    monkeypatch.setattr(formats, "all_formats", lambda: {"lines": known, "other": Other()})
    folder = tmp_path / "mixed"
    folder.mkdir()
    write(folder / "a.jsonl", *rows(2))
    (folder / "b.json").write_text("[]")
    report = replay_traces([str(folder)], ["ccrs.qr"], store=tmp_path / "r.db", judge="lexical")
    assert [("a.jsonl", "lines", 2), ("b.json", "other", 1)] == [(f.name, f.format, f.n_new) for f in report.files]


def test_a_plan_asks_nobody_and_says_what_it_would_take(known, tmp_path):
    """Counts, what is missing with its reason, calls and tokens; a store is not even made."""
    path = write(tmp_path / "a.jsonl", *rows(8), "rubbish")
    plan = plan_replay([str(path)], ["ccrs.qr", "ccrs.ac"], max_rehearsed=4)

    assert (8, 8, 4, 2.0) == (plan.n_traces, plan.n_scorable, plan.estimate.n_samples, plan.scale)
    relevance, correctness = plan.estimate.metrics
    assert (4, 4) == (relevance.n_applicable, relevance.usage.calls)
    assert {"the sample has no reference": 4} == dict(correctness.reasons)
    assert plan.estimate.usage.input_tokens > 4 * 100
    assert 1 == plan.files[0].n_rejected
    assert [path] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("n", "most", "kept"), [(3, 4, [0, 1, 2]), (8, 4, [0, 2, 4, 6]), (9, 4, [0, 4, 8]), (100, 4, [0, 32, 64, 96])]
)
def test_a_plan_tries_metrics_on_an_even_spread(known, tmp_path, n, most, kept):
    """Not on the first ones: files are ordered by time."""
    from ragstone.schema import Sample
    from ragstone.scoring import StrideSampler

    spread = StrideSampler(most)
    for i in range(n):
        spread.add(Sample(id=str(i)))

    assert [str(i) for i in kept] == [s.id for s in spread.samples]
    assert n == spread.n_seen


def test_a_file_that_nobody_can_read_shows_before_anything_is_done(known, tmp_path):
    """The message shows how it begins; no store is made."""
    good, bad = write(tmp_path / "a.jsonl", *rows(1)), write(tmp_path / "b.txt", "hello")
    with pytest.raises(DataError, match=r"begins with 'hello\\n', which is not a known format \(lines\)"):
        replay_traces([str(good), str(bad)], ["ccrs.qr"], store=tmp_path / "r.db", judge="lexical")

    assert not (tmp_path / "r.db").exists()


def test_nothing_to_replay_is_an_error(tmp_path):
    """A path that is not there, a format that is not known, nothing at all."""
    with pytest.raises(ConfigurationError, match="file or directory 'nowhere' does not exist"):
        plan_replay(["nowhere"])
    with pytest.raises(ConfigurationError, match="nothing to replay was named"):
        plan_replay([])
    path = write(tmp_path / "a.jsonl", *rows(1))
    with pytest.raises(ConfigurationError, match="unknown format 'nonsense'"):
        plan_replay([str(path)], format="nonsense")


def test_what_the_application_captured_itself_is_known(store, tmp_path):
    """A request that was captured live and comes in an export too is there once."""
    store.traces.ingest(
        "live", 1, [Captured(trace=Trace(trace_id="t0", query="question 0", response="answer 0", started_at=5.0))]
    )
    intake = intake_of(write(tmp_path / "a.jsonl", *rows(1)))
    run(intake, store)

    assert (1, 0) == (intake.counts[0].n_known, intake.counts[0].n_new)


def test_the_async_door_tells_how_far_it_is(known, tmp_path):
    """Whoever shows progress, or stops it, is given the intake and the worker."""
    import asyncio

    path, seen = write(tmp_path / "a.jsonl", *rows(2)), []
    asyncio.run(
        areplay_traces(
            [str(path)],
            ["ccrs.qr"],
            store=tmp_path / "r.db",
            judge="lexical",
            started=lambda intake, worker: seen.append((intake.may_have_more, worker.idle)),
        )
    )

    assert [(True, False)] == seen
